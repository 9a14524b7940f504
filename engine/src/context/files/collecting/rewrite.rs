//! One old chunk, compared with what stays of it or written again without the rest, in steps; small neighbours
//! become one.

use std::sync::Arc;

use super::marks::Marks;
use crate::cache::PAGE;
use crate::context::files::chunk::{Opening, Seal};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::control::Row;
use crate::context::files::pack::Pack;
use crate::context::files::patch;
use crate::context::files::paths::{self, whose};
use crate::context::files::record::{self, Read, Record, Tag};
use crate::context::files::sparse::{SparseWriter, State};
use crate::context::pieces::digest;
use crate::context::pieces::entry::Nowhere;
use crate::context::pieces::node::Node;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::format::codec::Encoder;

/// What copying a record costs beside its bytes.
const COPIED: u64 = 128;

/// What a byte of the mapping costs. Most of what copying costs are its writes, and here nothing else lies between them.
const MAPPED: u64 = 3;

/// What a record costs that is read by itself, of a node that is put together to be written anew, and what writing it does.
const READ: u64 = 3072;
const MERGED: u64 = 4096;

/// Room for most records: an encoder that begins without any grows seven times on its way there.
const ROOM: usize = 1024;

/// What a record has beside its body, and some more.
const AROUND: usize = 64;

fn roomy() -> Encoder {
    Encoder::over(Vec::with_capacity(ROOM))
}

/// Tag and body of `node` at `offset`, as no patch.
fn in_full(offset: u64, node: &Node) -> (Tag, Encoder) {
    let mut body = roomy();
    let tag = record::put_full(&mut body, offset, node, &Nowhere);
    (tag, body)
}

/// Whether `node`, which is to be written for `record` at `offset`, is known to have another hash: where those of all its
/// children are in memory. Each of them would be a read of its record. Where memory says so, it is forgotten and the disk
/// asked: memory may be what is wrong.
fn has_other_hash(pack: &Pack, offset: u64, node: &Node, record: &Record<'_>) -> Result<bool> {
    let known = pack.hashes.get(offset);
    let known = known.filter(|it| it.is_whole() && it.hashes().len() == node.width());
    if known.is_none_or(|known| digest::of_children(node, &known.into()) == record.hash) {
        return Ok(false);
    }
    drop(pack.hashes.take(offset));
    let mut anew = node.clone();
    anew.hash.take();
    Ok(digest::node(&Arc::new(anew), Some(pack))? != record.hash)
}

/// The patch `record` at `offset`, an object or the base of another, without the bases that go, of which it is: one of the
/// newest base that stays, or the node in full. None where the base that it has stays. And what that costs.
///
/// What is written here is believed from then on, so it is made from the records as they are on the disk, and what is read
/// from it is compared with the node, and with its hash where that costs no reads.
pub(crate) fn merged(
    pack: &Pack,
    marks: &Marks,
    (file, place): (&str, u64),
    offset: u64,
    record: &Record<'_>,
) -> Result<(Option<Vec<u8>>, u64)> {
    let chain = pack.chain_from((file, place), offset, record)?;
    let mut cost = chain.records() as u64 * READ;
    let base = chain.bases().find(|base| marks.has_record(*base));
    if base.is_some() && base == chain.bases().next() {
        return Ok((None, cost));
    }
    let (node, old) = chain.nodes(base)?;
    let full = in_full(offset, &node);
    let patch = base.zip(old.as_ref()).and_then(|(base, old)| {
        let mut body = roomy();
        let tag = patch::put_difference(&mut body, offset, &node, old, base, &Nowhere)?;
        Some((tag, body))
    });
    let (tag, body) = patch.as_ref().unwrap_or(&full);
    let tag = *tag;
    let made = Record { tag, hash: record.hash, body: body.bytes(), length: 0 };
    let made = match (record::read(file, place, offset, &made)?, old) {
        (Read::Patch(base, changes), Some(old)) => {
            Pack::patched_from(old, base, offset, &made, changes)?
        }
        (Read::Patch(..), None) => unreachable!("a patch is of what the node was"),
        (Read::Full(node), _) => node,
    };
    let read = in_full(offset, &made);
    let is_same = read.0 == full.0 && read.1.bytes() == full.1.bytes();
    if !is_same || has_other_hash(pack, offset, &made, record)? {
        let expected = "records that make the directory with the hash that they say";
        return Err(Error::corrupt(file, place, expected, "those of another"));
    }
    let mut out = Encoder::over(Vec::with_capacity(body.bytes().len() + AROUND));
    record::put(&mut out, pack.store, offset, tag, &record.hash, body.bytes());
    cost += MERGED + out.bytes().len() as u64;
    Ok((Some(out.finish()), cost))
}

/// A sparse chunk that perhaps holds nothing but what stays.
#[derive(Debug)]
pub(crate) struct Comparing {
    chunk: Arc<Chunk>,
    /// Pages of its mapping that were not looked at.
    pages: std::ops::Range<u32>,
    /// Logical offset after the last record that was.
    next: u64,
}

/// What a comparison has come to.
pub(crate) enum Compared {
    /// It is not at its end.
    NotYet,
    /// All in the chunk stays as it was kept.
    Equal,
    Differs,
}

impl Comparing {
    pub(crate) fn begin(pack: &Pack, chunk: &Arc<Chunk>) -> Result<Comparing> {
        let pages = pack.mapping_pages(chunk)?;
        Ok(Comparing { chunk: Arc::clone(chunk), pages, next: chunk.base })
    }

    /// Looks at about `bytes` of the mapping; returns how many it read.
    pub(crate) fn go_on(
        &mut self,
        pack: &Pack,
        marks: &Marks,
        bytes: u64,
    ) -> Result<(u64, Compared)> {
        let mut read = 0;
        while read < bytes {
            let Some(page) = self.pages.clone().next() else {
                let is_equal = marks.kept_from(&self.chunk, self.next).is_none();
                return Ok((read, if is_equal { Compared::Equal } else { Compared::Differs }));
            };
            for entry in pack.kept_in_page(&self.chunk, page)? {
                let is_same = marks.kept_from(&self.chunk, self.next) == Some(entry);
                if !is_same || marks.is_merged(entry.0) {
                    return Ok((read, Compared::Differs));
                }
                self.next = entry.0 + 1;
            }
            self.pages.start += 1;
            read += PAGE as u64;
        }
        Ok((read, Compared::NotYet))
    }

    pub(crate) fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }
}

/// Neighbouring chunks that are being rewritten as one file; most often it is one.
#[derive(Debug)]
pub(crate) struct Rewriting {
    /// Those after the one that is read, the next last.
    later: Vec<Arc<Chunk>>,
    reader: ChunkReader,
    writer: SparseWriter,
    path: String,
    /// What stands for all of them in the control file, once the file is written.
    row: Row,
    generation: u64,
    /// Logical offset after the last record that was copied.
    next: u64,
}

impl Rewriting {
    /// Begins a file for what stays of `chunks`, for which `row` stands.
    pub(crate) fn begin(
        disk: &dyn Disk,
        pack: &Pack,
        chunks: &[Arc<Chunk>],
        row: Row,
    ) -> Result<Rewriting> {
        let generations =
            chunks.iter().map(|chunk| chunk.state.sparse().map_or(1, |it| it.generation + 1));
        let mut generation = generations.max().unwrap_or(1);
        let mut later: Vec<_> = chunks.iter().rev().map(Arc::clone).collect();
        let first = later.pop().expect("a chunk to be rewritten");
        let (epoch, number) = (first.epoch, first.number);
        let mut path = paths::sparse_chunk(epoch, number, generation);
        // What cannot be removed keeps its name, too.
        while whose::is_others(disk, pack.store, &path)?
            || disk.exists(&path)? && disk.remove(&path).is_err()
        {
            generation += 1;
            path = paths::sparse_chunk(epoch, number, generation);
        }
        let identity = paths::sparse_identity(pack.store, epoch, number, generation);
        let next = first.base;
        let reader = ChunkReader::open(pack, first)?;
        let writer = SparseWriter::create(disk, &path, identity, pack.store)?;
        Ok(Rewriting { later, reader, writer, path, row, generation, next })
    }

    /// The file that is written.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What it takes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.reader.held_bytes() + self.writer.held_bytes()
    }

    /// Copies records, and then writes the mapping, until that has cost about `bytes`; returns the cost, and
    /// whether all is written.
    pub(crate) fn go_on(&mut self, pack: &Pack, marks: &Marks, bytes: u64) -> Result<(u64, bool)> {
        let mut spent = 0;
        loop {
            let (copied, is_done) = self.copy(pack, marks, bytes - spent)?;
            spent += copied;
            if !is_done || spent >= bytes {
                return Ok((spent, false));
            }
            let Some(next) = self.later.pop() else { break };
            self.next = next.base;
            self.reader = ChunkReader::open(pack, next)?;
        }
        while spent < bytes {
            match self.writer.put_pages()? {
                0 => return Ok((spent, true)),
                written => spent += written * MAPPED,
            }
        }
        Ok((spent, false))
    }

    /// Copies records of the chunk that is read; returns the cost, and whether all are copied.
    fn copy(&mut self, pack: &Pack, marks: &Marks, bytes: u64) -> Result<(u64, bool)> {
        let (before, mut copied) = (self.reader.read, 0);
        let chunk = Arc::clone(&self.reader.chunk);
        loop {
            let spent = (self.reader.read - before) / 8 + copied;
            if spent >= bytes {
                return Ok((spent, false));
            }
            let Some((offset, is_object)) = marks.kept_from(&chunk, self.next) else {
                return Ok((spent, true));
            };
            // Of several the first opening and the last end tell of all of them.
            let is_opening = offset == chunk.base + Opening::PLACE && chunk.base > self.row.base;
            let is_end = offset == chunk.logical_end() - Seal::RECORD && !self.later.is_empty();
            if !is_opening && !is_end {
                let place = self.reader.place(pack, offset)?;
                let bytes = self.reader.record(place, true)?;
                let record = record::take(&chunk.path, place, pack.store, offset, bytes)?;
                let distance = offset - self.row.base;
                copied += COPIED + record.length as u64;
                let (merged, cost) = if marks.is_merged(offset) {
                    merged(pack, marks, (&chunk.path, place), offset, &record)?
                } else {
                    (None, 0)
                };
                let record = merged.as_deref().unwrap_or(&bytes[..record.length]);
                self.writer.push(distance, is_object, record)?;
                copied += cost;
            }
            self.next = offset + 1;
        }
    }

    /// Ends the file and syncs it; returns what the control file is to say. Nothing names it yet.
    pub(crate) fn finish(&mut self) -> Result<Row> {
        let sparse = self.writer.finish(self.generation)?;
        Ok(Row { state: State::Sparse(sparse), ..self.row })
    }
}
