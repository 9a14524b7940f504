//! The `immutable` folder of a node: numbered chunk files of blocks, each beside a secondary index
//! that gives every block's place, checksum and hash.
//!
//! The index is used where it is there: it tells a damaged block from one that the chain is wrong
//! about, and names the place of the damage.

use std::fs;
use std::path::{Path, PathBuf};

use minicbor::decode::Decoder;
use serde::{Deserialize, Serialize};
use varvite::{Error, Kind, Result};

use super::block::Block;
use super::genesis::check_folder;

/// One entry of a secondary index: offset, header's offset and size, checksum, header hash, slot.
const ENTRY_BYTES: usize = 56;

/// Where a block stands in the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The number in the chunk file's name.
    pub chunk: u32,
    /// Byte offset in it.
    pub offset: u64,
}

/// A folder of chunks, numbered from 0 without gaps.
#[derive(Debug)]
pub struct Chain {
    folder: PathBuf,
    chunks: u32,
    bytes: u64,
}

impl Chain {
    /// Looks at the names in `folder`. `Missing` without it, `Invalid` when it holds no chunks or
    /// does not hold them all.
    pub fn open(folder: &Path) -> Result<Chain> {
        check_folder(folder, "the folder `immutable` of a Cardano node's database")?;
        let mut numbers = Vec::new();
        let mut bytes = 0;
        let failed = |error| Error::io("list", &folder.display().to_string(), error);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".chunk"));
            if let Some(number) = number.and_then(|digits| digits.parse::<u32>().ok()) {
                numbers.push(number);
                bytes += entry.metadata().map_err(failed)?.len();
            }
        }
        numbers.sort_unstable();
        if numbers.is_empty() {
            let inner = folder.join("immutable");
            let hint = if inner.is_dir() {
                format!(" (perhaps {})", inner.display())
            } else {
                String::new()
            };
            return Err(Error::invalid(format!(
                "{} holds no chunk files: give the folder `immutable` of a Cardano node's \
                 database{hint}",
                folder.display()
            )));
        }
        if let Some(gap) = (0..).zip(&numbers).find(|(expected, found)| expected != *found) {
            return Err(Error::missing(format!(
                "{} holds no {:05}.chunk although later ones are there: a replay needs every chunk \
                 from the first",
                folder.display(),
                gap.0
            )));
        }
        Ok(Chain { folder: folder.to_owned(), chunks: numbers.len() as u32, bytes })
    }

    /// How many bytes all chunks have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many bytes come before `place`.
    pub fn bytes_before(&self, place: Place) -> Result<u64> {
        let mut bytes = place.offset;
        for number in 0..place.chunk {
            let path = self.path(number);
            let metadata = fs::metadata(&path);
            let metadata =
                metadata.map_err(|error| Error::io("read", &path.display().to_string(), error))?;
            bytes += metadata.len();
        }
        Ok(bytes)
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number:05}.chunk"))
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// A chunk's blocks, whole in memory.
    pub fn chunk(&self, number: u32) -> Result<Chunk> {
        let path = self.path(number);
        let name = path.display().to_string();
        let bytes = fs::read(&path).map_err(|error| Error::io("read", &name, error))?;
        let index = path.with_extension("secondary");
        let entries = match fs::read(&index) {
            Ok(index_bytes) => read_index(&index, &index_bytes)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io("read", &index.display().to_string(), error)),
        };
        let chunk = Chunk { number, name, bytes, entries };
        chunk.check_length()?;
        Ok(chunk)
    }
}

#[derive(Debug)]
struct Entry {
    offset: u64,
    crc: u32,
}

fn read_index(path: &Path, bytes: &[u8]) -> Result<Vec<Entry>> {
    if !bytes.len().is_multiple_of(ENTRY_BYTES) {
        return Err(damaged(
            &path.display().to_string(),
            bytes.len() as u64,
            &format!("its length is not a multiple of {ENTRY_BYTES} bytes"),
        ));
    }
    let entries = bytes.chunks_exact(ENTRY_BYTES).map(|entry| Entry {
        offset: u64::from_be_bytes(entry[..8].try_into().expect("8 bytes")),
        crc: u32::from_be_bytes(entry[12..16].try_into().expect("4 bytes")),
    });
    Ok(entries.collect())
}

fn damaged(file: &str, offset: u64, why: &str) -> Error {
    Error::new(
        Kind::Corrupt,
        format!(
            "{file} is damaged at byte {offset}: {why}; fetch the file again from another node"
        ),
    )
}

/// The blocks of one chunk file.
#[derive(Debug)]
pub struct Chunk {
    number: u32,
    name: String,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Chunk {
    /// An index that names blocks past the end means that the chunk was cut.
    fn check_length(&self) -> Result<()> {
        let length = self.bytes.len() as u64;
        let Some(lost) = self.entries.iter().find(|entry| entry.offset >= length) else {
            return Ok(());
        };
        let why = format!("it ends here, but its index lists a block at byte {}", lost.offset);
        Err(damaged(&self.name, length, &why))
    }

    /// The length of the chunk file.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The block at byte `offset` and the offset of the next one; `None` at the end.
    pub fn block(&self, offset: u64) -> Result<Option<(Block<'_>, u64)>> {
        if offset >= self.bytes() {
            return Ok(None);
        }
        let end = self.end_of_block(offset)?;
        let bytes = &self.bytes[offset as usize..end as usize];
        let block = Block::parse(bytes).map_err(|error| self.unreadable(offset, &error))?;
        Ok(Some((block, end)))
    }

    /// What is wrong with the block at `offset`, as an error of the file.
    pub fn unreadable(&self, offset: u64, error: &minicbor::decode::Error) -> Error {
        if error.is_end_of_input() {
            let why = format!("the block at byte {offset} goes on past the end");
            return damaged(&self.name, self.bytes(), &why);
        }
        let inside = error.position().map_or(offset, |position| offset + position as u64);
        damaged(&self.name, inside, &format!("not a block ({error})"))
    }

    /// Where the block at `offset` ends, after its checksum held.
    fn end_of_block(&self, offset: u64) -> Result<u64> {
        let Ok(index) = self.entries.binary_search_by_key(&offset, |entry| entry.offset) else {
            let mut decoder = Decoder::new(&self.bytes[offset as usize..]);
            decoder.skip().map_err(|error| self.unreadable(offset, &error))?;
            return Ok(offset + decoder.position() as u64);
        };
        let end = self.entries.get(index + 1).map_or(self.bytes(), |next| next.offset);
        if end <= offset {
            return Err(damaged(&self.name, offset, "its index is not in order"));
        }
        let bytes = &self.bytes[offset as usize..end as usize];
        if crc32fast::hash(bytes) != self.entries[index].crc {
            let cut = Decoder::new(bytes).skip().is_err_and(|error| error.is_end_of_input());
            let why = if cut {
                format!("it ends inside the block at byte {offset}")
            } else {
                format!(
                    "the block does not have the checksum that {:05}.secondary gives",
                    self.number
                )
            };
            return Err(damaged(&self.name, if cut { end } else { offset }, &why));
        }
        Ok(end)
    }
}
