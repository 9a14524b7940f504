//! What of a collection's chunks stays whole is gone through in order.

use std::ops::Range;
use std::sync::Arc;

use crate::context::files::chunk_files::Chunk;
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::pack::Pack;
use crate::error::{Error, Result};
use crate::file::append::HEAD;
use crate::format::header;

/// How far a chunk is that stays whole.
#[derive(Debug)]
pub(super) enum WholeScan {
    Batches(Batches),
    /// It is sparse: pages of its mapping.
    Pages(Range<u32>),
}

/// A whole chunk whose records are looked at in order.
#[derive(Debug)]
pub(super) struct Batches {
    pub(super) reader: ChunkReader,
    /// The next byte, and where its batch ends.
    at: u64,
    end: u64,
}

impl WholeScan {
    /// Of all records of `chunk`, or of those from the commit at `edge` on.
    pub(super) fn begin(pack: &Pack, chunk: &Arc<Chunk>, edge: Option<u64>) -> Result<WholeScan> {
        if !chunk.is_whole() {
            return Ok(WholeScan::Pages(pack.mapping_pages(chunk)?));
        }
        let reader = ChunkReader::open(pack, Arc::clone(chunk))?;
        let (at, end) = match edge {
            // A commit is the last of its batch.
            Some(edge) => {
                let length = pack.record(edge, |_, _, record| Ok(record.length as u64))?;
                (edge - chunk.base, edge - chunk.base + length)
            }
            None => (header::LENGTH as u64, header::LENGTH as u64),
        };
        Ok(WholeScan::Batches(Batches { reader, at, end }))
    }
}

impl Batches {
    /// The place of the next record of `chunk`, none at its end.
    pub(super) fn next(&mut self, chunk: &Chunk) -> Result<Option<u64>> {
        if self.at == self.end {
            if self.at >= chunk.end() {
                return Ok(None);
            }
            let head = self.reader.bytes(self.at, HEAD)?;
            let length = u32::from_le_bytes(head[8..12].try_into().expect("four bytes"));
            self.at += HEAD as u64;
            self.end = self.at + u64::from(length);
        }
        Ok(Some(self.at))
    }

    /// Goes behind a record of `length` bytes.
    pub(super) fn pass(&mut self, chunk: &Chunk, length: u64) -> Result<()> {
        if self.at + length > self.end {
            let expected = "a record within its batch";
            return Err(Error::corrupt(&chunk.path, self.end, expected, "a longer one"));
        }
        self.at += length;
        Ok(())
    }
}
