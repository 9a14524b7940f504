//! The index folder: object hashes to offsets, in a log, a second log while a merge runs, and sorted
//! data with a fan-out.
//!
//! Only places are kept in memory, eight bytes and a number for each entry of a log; `data` is
//! searched where it is. Of several entries for one hash the newest counts.

use std::sync::Arc;

use super::files::Part;
use crate::cache::{Cache, PAGE};
use crate::context::hash::{Hash, to_hex};
use crate::context::name_hash;
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::format::codec::Decoder;
use crate::irmin_pack::format::bytes;
use crate::irmin_pack::format::entry::EntryKind;
use crate::irmin_pack::format::schema::Schema;

/// Bytes before the fan-out.
pub(crate) const HEADER: u64 = 32;

/// Bytes of an entry beside the hash: offset (8), length (4), kind (1).
pub(crate) const VALUE: usize = 13;

/// Entries read at once in a scan.
const BATCH: u64 = 2048;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) hash: Hash,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) letter: u8,
}

impl Row {
    pub(crate) fn is_commit(&self) -> bool {
        EntryKind::of(self.letter).is_some_and(EntryKind::is_commit)
    }

    /// Reads the entry that `bytes` are.
    pub(crate) fn decode(schema: Schema, file: &str, place: u64, bytes: &[u8]) -> Result<Row> {
        let mut decoder = Decoder::new(file, place, bytes);
        let hash = schema.hash(decoder.raw(schema.hash_bytes())?);
        let offset = bytes::offset(&mut decoder)?;
        Ok(Row { hash, offset, length: bytes::u32(&mut decoder)?, letter: decoder.u8()? })
    }

    /// Appends the entry.
    pub(crate) fn put(&self, schema: Schema, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash[..schema.hash_bytes()]);
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.length.to_be_bytes());
        out.push(self.letter);
    }
}

/// What each file of the index begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexHeader {
    pub(crate) bytes: u64,
    pub(crate) generation: u64,
    pub(crate) fan_bytes: u64,
}

impl IndexHeader {
    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<IndexHeader> {
        let mut decoder = Decoder::new(file, 0, bytes);
        let length = bytes::offset(&mut decoder)?;
        let start = decoder.clone();
        let version = decoder.raw(8)?;
        if version != b"00000001" {
            return Err(start.corrupt("version 00000001", to_hex(version)));
        }
        let generation = bytes::offset(&mut decoder)?;
        let start = decoder.clone();
        let fan_bytes = bytes::offset(&mut decoder)?;
        if !fan_bytes.is_multiple_of(8) {
            return Err(start.corrupt("a fan-out of whole numbers", fan_bytes));
        }
        Ok(IndexHeader { bytes: length, generation, fan_bytes })
    }

    /// The header of a log.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.bytes.to_be_bytes().to_vec();
        out.extend_from_slice(b"00000001");
        out.extend_from_slice(&self.generation.to_be_bytes());
        out.extend_from_slice(&self.fan_bytes.to_be_bytes());
        out
    }
}

/// One file of the index.
#[derive(Debug)]
pub(crate) struct IndexFile {
    part: Part,
    header: IndexHeader,
    schema: Schema,
    /// Places of a log's entries by the first bytes of the hash and then by age; none for `data`.
    sorted: Option<Vec<(u64, u32)>>,
}

fn prefix(hash: &Hash) -> u64 {
    u64::from_be_bytes(*hash.first_chunk().expect("a hash has 32 bytes"))
}

impl IndexFile {
    fn open(
        disk: &dyn Disk,
        path: &str,
        schema: Schema,
        cache: &Arc<Cache>,
    ) -> Result<Option<Self>> {
        let is_data = path.ends_with("data");
        let name = format!("{}/{path}", disk.root());
        let part = match Part::open(disk, path, name.clone(), cache) {
            Ok(part) => part,
            Err(error) if error.kind() == Kind::Missing => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut head = Vec::new();
        part.gather(0, HEADER, &mut head)?;
        if head.is_empty() && !is_data {
            return Ok(None);
        }
        let header = IndexHeader::decode(&name, &head)?;
        let end = HEADER + header.bytes;
        let part = match header.fan_bytes.checked_add(end) {
            Some(end) => part.bounded(HEADER + header.fan_bytes, end, "its header")?,
            None => {
                return Err(Error::corrupt(&name, 24, "a fan-out in the file", header.fan_bytes));
            }
        };
        if !header.bytes.is_multiple_of(Self::entry_bytes(schema)) {
            return Err(Error::corrupt(
                &name,
                0,
                format_args!("entries of {} bytes", Self::entry_bytes(schema)),
                header.bytes,
            ));
        }
        let mut file = IndexFile { part, header, schema, sorted: None };
        if !is_data {
            let mut sorted = Vec::new();
            file.scan(&mut |number, row| {
                sorted.push((prefix(&row.hash), number as u32));
                Ok(())
            })?;
            sorted.sort_unstable();
            file.sorted = Some(sorted);
        }
        Ok(Some(file))
    }

    pub(crate) fn entry_bytes(schema: Schema) -> u64 {
        (schema.hash_bytes() + VALUE) as u64
    }

    pub(crate) fn count(&self) -> u64 {
        self.part.len() / Self::entry_bytes(self.schema)
    }

    fn place(&self, number: u64) -> u64 {
        self.part.start + number * Self::entry_bytes(self.schema)
    }

    fn row(&self, number: u64) -> Result<Row> {
        let mut bytes = Vec::new();
        let place = self.place(number);
        self.part.gather(place, Self::entry_bytes(self.schema), &mut bytes)?;
        Row::decode(self.schema, self.part.name(), place, &bytes)
    }

    /// Calls `each` with every entry, oldest or least first.
    fn scan(&self, each: &mut dyn FnMut(u64, Row) -> Result<()>) -> Result<()> {
        let unit = Self::entry_bytes(self.schema);
        let mut number = 0;
        while number < self.count() {
            let count = BATCH.min(self.count() - number);
            let start = self.place(number);
            let bytes = self.part.read(start, start + count * unit)?;
            for (index, bytes) in bytes.chunks_exact(unit as usize).enumerate() {
                let place = start + index as u64 * unit;
                let row = Row::decode(self.schema, self.part.name(), place, bytes)?;
                each(number + index as u64, row)?;
            }
            number += count;
        }
        Ok(())
    }

    fn find(&self, hash: &Hash) -> Result<Option<Row>> {
        let Some(sorted) = &self.sorted else { return self.search(hash) };
        let end = sorted.partition_point(|(known, _)| *known <= prefix(hash));
        for (known, number) in sorted[..end].iter().rev() {
            if *known != prefix(hash) {
                break;
            }
            let row = self.row(u64::from(*number))?;
            if row.hash == *hash {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// What `data` is sorted by.
    fn key(&self, hash: &Hash) -> u32 {
        name_hash::seeded(0, &hash[..self.schema.hash_bytes()])
    }

    /// Binary search in `data`, within what the fan-out leaves.
    fn search(&self, hash: &Hash) -> Result<Option<Row>> {
        let key = self.key(hash);
        let (mut low, mut high) = self.fan(key)?;
        while low < high {
            let middle = low.midpoint(high);
            if self.key(&self.row(middle)?.hash) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        while low < self.count() {
            let row = self.row(low)?;
            if self.key(&row.hash) != key {
                break;
            }
            if row.hash == *hash {
                return Ok(Some(row));
            }
            low += 1;
        }
        Ok(None)
    }

    /// Which entries may have `key`: from the first number to before the second.
    fn fan(&self, key: u32) -> Result<(u64, u64)> {
        let fans = self.header.fan_bytes / 8;
        if fans == 0 {
            return Ok((0, self.count()));
        }
        let bits = fans.trailing_zeros();
        if !fans.is_power_of_two() || bits > 30 {
            return Err(Error::corrupt(self.part.name(), 24, "a power of two of fans", fans));
        }
        let fan = u64::from(key >> (30 - bits));
        let unit = Self::entry_bytes(self.schema);
        let end_of = |fan: u64| -> Result<u64> {
            let mut bytes = Vec::new();
            let place = HEADER + fan * 8;
            self.part.gather(place, 8, &mut bytes)?;
            let mut decoder = Decoder::new(self.part.name(), place, &bytes);
            let start = decoder.clone();
            let offset = bytes::u64(&mut decoder)?;
            if offset.is_multiple_of(unit) && offset <= self.part.len() {
                return Ok(offset / unit);
            }
            Err(start.corrupt("the place of an entry", offset))
        };
        let last = end_of(fan)?;
        let first = if fan == 0 { 0 } else { end_of(fan - 1)? };
        Ok((first.min(last), (last + 1).min(self.count())))
    }
}

/// All files of the index, the newest first.
#[derive(Debug)]
pub(crate) struct Index {
    /// As messages name it.
    pub(crate) folder: String,
    files: Vec<IndexFile>,
    /// What the files began with.
    stamp: Vec<Option<Vec<u8>>>,
}

/// The files in which entries are, the newest first. Looked at in this order, a merge that runs
/// meanwhile hides nothing.
const FILES: [&str; 3] = ["index/log_async", "index/log", "index/data"];

/// What the files begin with: their lengths and generations.
fn stamp(disk: &dyn Disk) -> Result<Vec<Option<Vec<u8>>>> {
    let header = |path: &&str| match disk.open(path, Mode::Read, Access::Buffered) {
        Ok(file) => {
            let mut bytes = vec![0; HEADER as usize];
            let found = file.read_at(0, &mut bytes)?;
            bytes.truncate(found);
            Ok(Some(bytes))
        }
        Err(error) if error.kind() == Kind::Missing => Ok(None),
        Err(error) => Err(error),
    };
    FILES.iter().map(header).collect()
}

impl Index {
    /// Opens what is there.
    pub(crate) fn open(disk: &dyn Disk, schema: Schema, cache: &Arc<Cache>) -> Result<Index> {
        let stamp = stamp(disk)?;
        let mut files = Vec::new();
        for path in FILES {
            files.extend(IndexFile::open(disk, path, schema, cache)?);
        }
        Ok(Index { folder: format!("{}/index", disk.root()), files, stamp })
    }

    /// Whether the files still begin as they did when they were opened.
    pub(crate) fn is_current(&self, disk: &dyn Disk) -> Result<bool> {
        Ok(stamp(disk)? == self.stamp)
    }

    /// The newest entry of `hash`.
    pub(crate) fn find(&self, hash: &Hash) -> Result<Option<Row>> {
        for file in &self.files {
            if let Some(row) = file.find(hash)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Calls `each` with file, place and entry of every entry, replaced ones included.
    pub(crate) fn scan(&self, each: &mut dyn FnMut(&str, u64, Row) -> Result<()>) -> Result<()> {
        self.files.iter().try_for_each(|file| {
            file.scan(&mut |number, row| each(file.part.name(), file.place(number), row))
        })
    }

    /// Entries of all files.
    pub(crate) fn count(&self) -> u64 {
        self.files.iter().map(IndexFile::count).sum()
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.part.end).sum()
    }
}

/// How the entries of a log in `bytes` look under `schema`: whether every kind is one.
pub(crate) fn fits(schema: Schema, bytes: &[u8]) -> bool {
    let unit = IndexFile::entry_bytes(schema) as usize;
    let Some(entries) = bytes.get(HEADER as usize..).filter(|entries| entries.len() >= unit) else {
        return false;
    };
    let mut rows = entries.chunks_exact(unit).take(PAGE / unit);
    rows.all(|row| EntryKind::of(row[unit - 1]).is_some())
}
