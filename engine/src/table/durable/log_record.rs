//! What the records of the log say, as bytes.
//!
//! A record begins with its kind: the first of each file names the file before it and where that
//! one ended; every other one is an update of one or several tables, or the deletion of a range of
//! keys of one, whole or not there. Each part of an update has the heads of its operations first and
//! then all their bytes, so that a batch is logged in one copy. An update that binds keys to values of
//! blob files lists these files first, each whole and durable before the record is written.
//!
//! Format document: `docs/format/log.md`.

use crate::error::Result;
use crate::file::append::Position;
use crate::format::codec::{Decoder, Encoder};
use crate::table::buffer::Batch;
use crate::table::bytes::{EntryKind, KEY_BYTES_MAX, KeyRange, VALUE_BYTES_MAX};
use crate::table::runs::blob::{BlobMeta, BlobSpan};

const BEGIN: u8 = 1;
const UPDATE: u8 = 2;
const DELETE_RANGE: u8 = 3;
const UPDATE_WITH_BLOBS: u8 = 4;

/// Shortest description of a blob file.
const BLOB_BYTES_MIN: usize = 29;

/// Blob files have no larger numbers, so that there is always a next one.
const BLOB_NUMBER_MAX: u64 = 1 << 62;

/// Shortest operation: a head and a key, of one byte each.
const OPERATION_BYTES_MIN: usize = 2;

/// A place in the log: before operation `skip` of a table in record `sequence` of file `file`.
/// Points are ordered as what they point at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPoint {
    /// Number of the log file.
    pub file: u64,
    /// Number of the record in it.
    pub sequence: u64,
    /// Operations of the table in this record that come before.
    pub skip: u64,
}

impl LogPoint {
    /// Before the first operation of the next record.
    #[must_use]
    pub fn after(self) -> LogPoint {
        LogPoint { sequence: self.sequence + 1, skip: 0, ..self }
    }

    pub(in crate::table) fn encode(self, to: &mut Encoder) {
        to.varint(self.file);
        to.varint(self.sequence);
        to.varint(self.skip);
    }

    pub(in crate::table) fn decode(from: &mut Decoder<'_>) -> Result<LogPoint> {
        Ok(LogPoint { file: from.varint()?, sequence: from.varint()?, skip: from.varint()? })
    }
}

/// The end of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Number of the file.
    pub file: u64,
    /// After its last record.
    pub position: Position,
}

impl LogEnd {
    pub(in crate::table) fn encode(self, to: &mut Encoder) {
        to.varint(self.file);
        to.varint(self.position.offset);
        to.varint(self.position.sequence);
        to.u32(self.position.chain);
    }

    pub(in crate::table) fn decode(from: &mut Decoder<'_>) -> Result<LogEnd> {
        let (file, offset) = (from.varint()?, from.varint()?);
        let (sequence, chain) = (from.varint()?, from.u32()?);
        Ok(LogEnd { file, position: Position { offset, sequence, chain } })
    }
}

/// A decoded record.
#[derive(Clone, Debug)]
pub enum LogRecord {
    /// The first of a file: where the file before it ended, if there was one.
    Begin(Option<LogEnd>),
    /// An update.
    Update {
        /// The tables that it changed, by their ids, and what it did to those asked for.
        parts: Vec<(u64, Option<Box<Batch>>)>,
        /// The blob files that it refers to, in the order of their identities. No batch holds them.
        blobs: Vec<BlobMeta>,
    },
    /// The table in which every key of a range was unbound, by its id.
    DeleteRange(u64, KeyRange),
}

/// The record that a file begins with.
pub fn encode_begin(to: &mut Encoder, before: Option<LogEnd>) {
    to.u8(BEGIN);
    if let Some(before) = before {
        before.encode(to);
    }
}

/// The record of an update. The ids ascend, and no batch is empty; `blobs` are the files that they refer
/// to, in the order of their identities.
pub fn encode_update<'a>(
    to: &mut Encoder,
    parts: impl Iterator<Item = (u64, &'a Batch)>,
    blobs: &[BlobMeta],
) {
    if blobs.is_empty() {
        to.u8(UPDATE);
    } else {
        to.u8(UPDATE_WITH_BLOBS);
        to.varint(blobs.len() as u64);
        for blob in blobs {
            blob.encode(to);
            to.varint(blob.id);
        }
    }
    for (id, batch) in parts {
        to.varint(id);
        to.varint(batch.len() as u64);
        to.varint(batch.bytes().len() as u64);
        for entry in batch.entries() {
            to.varint((entry.key.len() as u64) << 2 | entry.kind as u64);
            if entry.kind != EntryKind::Delete {
                to.varint(entry.value.len() as u64);
            }
        }
        to.raw(batch.bytes());
    }
}

/// The record of a range of keys that was deleted in table `id`.
pub fn encode_delete_range(to: &mut Encoder, id: u64, range: &KeyRange) {
    to.u8(DELETE_RANGE);
    to.varint(id);
    range.encode(to);
}

impl LogRecord {
    /// The ids of the tables that it changed.
    pub(in crate::table) fn tables(&self) -> Vec<u64> {
        match self {
            LogRecord::Begin(_) => Vec::new(),
            LogRecord::Update { parts, .. } => parts.iter().map(|(id, _)| *id).collect(),
            LogRecord::DeleteRange(id, _) => vec![*id],
        }
    }

    /// The blob files that it refers to.
    pub(in crate::table) fn blobs(&self) -> &[BlobMeta] {
        if let LogRecord::Update { blobs, .. } = self { blobs } else { &[] }
    }

    /// The payload in `from` as a record of another store, behind `to`: with those tables alone that `keeps`
    /// names, and with the blob files that `renumber` gives. Whether there are any of these tables; else it is
    /// no record.
    pub(in crate::table) fn rewrite(
        from: &Decoder<'_>,
        keeps: &dyn Fn(u64) -> bool,
        renumber: &mut dyn FnMut(&BlobMeta) -> Result<BlobMeta>,
        to: &mut Vec<u8>,
    ) -> Result<bool> {
        let record = LogRecord::decode(&mut from.clone(), &|_| false)?;
        let (parts, blobs) = match &record {
            LogRecord::Begin(_) => return Err(from.corrupt("an update", "a file's beginning")),
            LogRecord::DeleteRange(id, range) if keeps(*id) => {
                let mut range_to = Encoder::after(std::mem::take(to));
                encode_delete_range(&mut range_to, *id, range);
                *to = range_to.finish();
                return Ok(true);
            }
            LogRecord::DeleteRange(..) => return Ok(false),
            LogRecord::Update { parts, blobs } => (&parts[..], &blobs[..]),
        };
        if !parts.iter().any(|(id, _)| keeps(*id)) {
            return Ok(false);
        }
        let mut out = Encoder::after(std::mem::take(to));
        if blobs.is_empty() {
            out.u8(UPDATE);
        } else {
            out.u8(UPDATE_WITH_BLOBS);
            out.varint(blobs.len() as u64);
            for blob in blobs {
                let blob = renumber(blob)?;
                blob.encode(&mut out);
                out.varint(blob.id);
            }
        }
        let mut from = from.clone();
        if from.u8()? == UPDATE_WITH_BLOBS {
            decode_blobs(&mut from)?;
        }
        while from.remaining() > 0 {
            let (mut part, before) = (from.clone(), from.remaining());
            let (id, _) = decode_part(&mut from, &|_| false, blobs)?;
            let bytes = part.raw(before - from.remaining())?;
            if keeps(id) {
                out.raw(bytes);
            }
        }
        *to = out.finish();
        Ok(true)
    }

    /// Decodes the payload of a record, with the operations on the tables that `wanted` names.
    /// Allocates a small multiple of its bytes.
    pub fn decode(from: &mut Decoder<'_>, wanted: &dyn Fn(u64) -> bool) -> Result<LogRecord> {
        match from.u8()? {
            BEGIN if from.remaining() == 0 => Ok(LogRecord::Begin(None)),
            BEGIN => {
                let before = LogEnd::decode(from)?;
                from.clone().finish()?;
                Ok(LogRecord::Begin(Some(before)))
            }
            UPDATE => decode_update(from, wanted, Vec::new()),
            UPDATE_WITH_BLOBS => {
                let blobs = decode_blobs(from)?;
                decode_update(from, wanted, blobs)
            }
            DELETE_RANGE => {
                let (id, range) = (from.varint()?, KeyRange::decode(from)?);
                from.clone().finish()?;
                Ok(LogRecord::DeleteRange(id, range))
            }
            other => Err(from.corrupt("a record of kind 1 to 4", other)),
        }
    }
}

/// The blob files that an update refers to; at least one.
fn decode_blobs(from: &mut Decoder<'_>) -> Result<Vec<BlobMeta>> {
    let count = from.count(BLOB_BYTES_MIN)?;
    if count == 0 {
        return Err(from.corrupt("a blob file", "none"));
    }
    let mut blobs: Vec<BlobMeta> = Vec::with_capacity(count);
    for _ in 0..count {
        let blob = BlobMeta::decode(from)?;
        let blob = BlobMeta { id: from.varint()?, ..blob };
        if blob.id > BLOB_NUMBER_MAX {
            return Err(from.corrupt("a number of at most 2^62", blob.id));
        }
        if blobs.last().is_some_and(|before| before.identity >= blob.identity) {
            return Err(from.corrupt("blob files in the order of their identities", blob.identity));
        }
        blobs.push(blob);
    }
    Ok(blobs)
}

fn decode_update(
    from: &mut Decoder<'_>,
    wanted: &dyn Fn(u64) -> bool,
    blobs: Vec<BlobMeta>,
) -> Result<LogRecord> {
    let mut parts: Vec<(u64, _)> = Vec::new();
    while from.remaining() > 0 {
        let (id, batch) = decode_part(from, wanted, &blobs)?;
        if parts.last().is_some_and(|(before, _)| *before >= id) {
            return Err(from.corrupt("tables in ascending order", id));
        }
        parts.push((id, batch));
    }
    Ok(LogRecord::Update { parts, blobs })
}

/// How many operations a part has, and the bytes of their keys and values.
fn part_size(from: &mut Decoder<'_>) -> Result<(usize, usize)> {
    let count = from.varint()?;
    let length = from.count(1)?;
    let room = from.remaining() / OPERATION_BYTES_MIN;
    if count == 0 || count > room as u64 {
        return Err(from.corrupt(format_args!("1 to {room} operations"), count));
    }
    Ok((count as usize, length))
}

/// Kind, length of the key and length of the value.
fn decode_head(from: &mut Decoder<'_>, has_blobs: bool) -> Result<(EntryKind, usize, usize)> {
    let head = from.varint()?;
    let kind = EntryKind::from_bits((head & 3) as u16)
        .filter(|&kind| kind != EntryKind::Blob || has_blobs)
        .ok_or_else(|| from.corrupt("an operation of kind 0 to 2", head & 3))?;
    let key_length = head >> 2;
    if key_length == 0 || key_length > KEY_BYTES_MAX as u64 {
        return Err(from.corrupt("a key of 1 to 4000 bytes", key_length));
    }
    let value_length = if kind == EntryKind::Delete { 0 } else { from.varint()? };
    if value_length > VALUE_BYTES_MAX as u64 {
        let expected = format_args!("a value of at most {VALUE_BYTES_MAX} bytes");
        return Err(from.corrupt(expected, value_length));
    }
    Ok((kind, key_length as usize, value_length as usize))
}

fn decode_part(
    from: &mut Decoder<'_>,
    wanted: &dyn Fn(u64) -> bool,
    blobs: &[BlobMeta],
) -> Result<(u64, Option<Box<Batch>>)> {
    let id = from.varint()?;
    let (count, length) = part_size(from)?;
    let mut heads = from.clone();
    let mut total = 0;
    let has_blobs = !blobs.is_empty();
    for _ in 0..count {
        let (_, key_length, value_length) = decode_head(from, has_blobs)?;
        total += key_length + value_length;
    }
    if total != length {
        let expected = format_args!("operations of {length} bytes together");
        return Err(from.corrupt(expected, total));
    }
    let mut bytes = from.clone();
    from.raw(length)?;
    if !wanted(id) {
        return Ok((id, None));
    }
    let mut batch = Batch::new();
    for _ in 0..count {
        let (kind, key_length, value_length) = decode_head(&mut heads, has_blobs)?;
        let (key, value) = (bytes.raw(key_length)?, bytes.raw(value_length)?);
        match kind {
            EntryKind::Insert => batch.insert(key, value),
            EntryKind::Delete => batch.delete(key),
            EntryKind::Upsert => batch.upsert(key, value),
            EntryKind::Blob => {
                let span = referred(value, blobs).ok_or_else(|| {
                    bytes.corrupt("a reference into a blob file of the record", "another value")
                })?;
                batch.insert_span(key, &span)
            }
        };
    }
    Ok((id, Some(Box::new(batch))))
}

/// The reference in `value`, if it is one into one of `blobs`.
fn referred(value: &[u8], blobs: &[BlobMeta]) -> Option<BlobSpan> {
    let span = BlobSpan::decode(value)?;
    let place = blobs.binary_search_by_key(&span.file, |blob| blob.identity).ok()?;
    (span.end() <= blobs[place].bytes).then_some(span)
}
