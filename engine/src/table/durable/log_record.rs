//! What the records of the log say, as bytes.
//!
//! A record begins with its kind: the first of each file names the file before it and where that
//! one ended; every other one is an update of one or several tables, or the deletion of a range of
//! keys of one, whole or not there. Each part of an update has the heads of its operations first and
//! then all their bytes, so that a batch is logged in one copy; in a record of its own kind the ranges come
//! first that it deletes. An update that binds keys to values of
//! blob files lists these files first, each whole and durable before the record is written.
//!
//! Format document: `docs/format/log.md`.

use crate::error::Result;
use crate::file::append::{HEAD, Position};
use crate::format::codec::{Decoder, Encoder};
use crate::order::BTreeSet;
use crate::table::buffer::Batch;
use crate::table::bytes::{EntryKind, KEY_BYTES_MAX, KeyRange, VALUE_BYTES_MAX};
use crate::table::runs::blob::{BlobMeta, BlobSpan};

const BEGIN: u8 = 1;
const UPDATE: u8 = 2;
const DELETE_RANGE: u8 = 3;
const UPDATE_WITH_BLOBS: u8 = 4;
const UPDATE_WITH_RANGES: u8 = 5;

/// Shortest range that is deleted: its place and two bounds, of one byte each.
const RANGE_BYTES_MIN: usize = 3;

/// Shortest description of a blob file.
const BLOB_BYTES_MIN: usize = 29;

/// Blob files have no larger numbers, so that there is always a next one.
const BLOB_NUMBER_MAX: u64 = 1 << 62;

/// Shortest operation: the head of a delete of the empty key.
const OPERATION_BYTES_MIN: usize = 1;

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
    parts: impl Iterator<Item = (u64, &'a Batch)> + Clone,
    blobs: &[BlobMeta],
) {
    let has_ranges = parts.clone().any(|(_, batch)| !batch.ranges().is_empty());
    if has_ranges {
        to.u8(UPDATE_WITH_RANGES);
        encode_blobs(to, blobs);
    } else if blobs.is_empty() {
        to.u8(UPDATE);
    } else {
        to.u8(UPDATE_WITH_BLOBS);
        encode_blobs(to, blobs);
    }
    for (id, batch) in parts {
        to.varint(id);
        if has_ranges {
            to.varint(batch.ranges().len() as u64);
            for it in batch.ranges() {
                to.varint(it.at as u64);
                it.range.encode(to);
            }
        }
        to.varint(batch.point_count() as u64);
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

fn encode_blobs(to: &mut Encoder, blobs: &[BlobMeta]) {
    to.varint(blobs.len() as u64);
    for blob in blobs {
        blob.encode(to);
        to.varint(blob.id);
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

    /// The tables that the record with the payload `from` changed, and what each needs of it: its part, as much of what frames
    /// the record as another, and the blob files that the part refers to.
    pub(in crate::table) fn shares(&self, from: &Decoder<'_>) -> Result<Vec<(u64, u64)>> {
        let (whole, blobs, tables) = (HEAD + from.remaining(), self.blobs(), self.tables());
        let plus = |bytes: usize, blobs: &mut dyn Iterator<Item = &BlobMeta>| {
            blobs.map(BlobMeta::file_bytes).fold(bytes as u64, u64::saturating_add)
        };
        if let [id] = tables[..] {
            return Ok(vec![(id, plus(whole, &mut blobs.iter()))]);
        }
        let (mut from, mut shares) = (from.clone(), Vec::with_capacity(tables.len()));
        let kind = from.u8()?;
        if kind != UPDATE {
            decode_blobs(&mut from)?;
        }
        let frame = (whole - from.remaining()).div_ceil(tables.len().max(1));
        while from.remaining() > 0 {
            let (before, mut ranges) = (from.remaining(), 0);
            let counts = (kind == UPDATE_WITH_RANGES).then_some(&mut ranges);
            let (id, batch) = decode_part(&mut from, &|_| !blobs.is_empty(), blobs, counts)?;
            let referred = batch.map(|batch| batch.blob_identities()).unwrap_or_default();
            let mut own = blobs.iter().filter(|blob| referred.contains(&blob.identity));
            shares.push((id, plus(frame + before - from.remaining(), &mut own)));
        }
        Ok(shares)
    }

    /// The blob files that it refers to.
    pub(in crate::table) fn blobs(&self) -> &[BlobMeta] {
        if let LogRecord::Update { blobs, .. } = self { blobs } else { &[] }
    }

    /// The payload in `from` as a record of another store, behind `to`: with those tables alone that `keeps`
    /// names, and with the blob files that these refer to, as `renumber` gives them. Whether there are any of
    /// these tables; else it is no record.
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
        let mut from = from.clone();
        let kind = from.u8()?;
        if kind != UPDATE {
            decode_blobs(&mut from)?;
        }
        let (mut kept, mut ranges, mut referred) = (Vec::new(), 0, BTreeSet::new());
        while from.remaining() > 0 {
            let mut part = from.clone();
            let mut found = 0;
            let counts = (kind == UPDATE_WITH_RANGES).then_some(&mut found);
            let wanted = |id| !blobs.is_empty() && keeps(id);
            let (id, batch) = decode_part(&mut from, &wanted, blobs, counts)?;
            if keeps(id) {
                let bytes = part.raw(part.remaining() - from.remaining())?;
                kept.push((id, bytes));
                ranges += found;
                referred.extend(batch.iter().flat_map(|batch| batch.blob_identities()));
            }
        }
        let blobs: Vec<_> = blobs.iter().filter(|it| referred.contains(&it.identity)).collect();
        let mut out = Encoder::after(std::mem::take(to));
        out.u8(match (ranges, blobs.is_empty()) {
            (0, true) => UPDATE,
            (0, false) => UPDATE_WITH_BLOBS,
            _ => UPDATE_WITH_RANGES,
        });
        if ranges > 0 || !blobs.is_empty() {
            let blobs = blobs.into_iter().map(renumber).collect::<Result<Vec<_>>>()?;
            encode_blobs(&mut out, &blobs);
        }
        for (id, bytes) in kept {
            if kind == UPDATE_WITH_RANGES && ranges == 0 {
                // It says that it has no ranges, which records of the other kinds leave out.
                let mut part = Decoder::new("", 0, bytes);
                part.varint()?;
                decode_ranges(&mut part)?;
                out.varint(id);
                out.raw(part.raw(part.remaining())?);
            } else {
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
            UPDATE => decode_update(from, wanted, Vec::new(), false),
            UPDATE_WITH_BLOBS => {
                let blobs = decode_blobs(from)?;
                if blobs.is_empty() {
                    return Err(from.corrupt("a blob file", "none"));
                }
                decode_update(from, wanted, blobs, false)
            }
            UPDATE_WITH_RANGES => {
                let blobs = decode_blobs(from)?;
                decode_update(from, wanted, blobs, true)
            }
            DELETE_RANGE => {
                let (id, range) = (from.varint()?, KeyRange::decode(from)?);
                from.clone().finish()?;
                Ok(LogRecord::DeleteRange(id, range))
            }
            other => Err(from.corrupt("a record of kind 1 to 5", other)),
        }
    }
}

/// The blob files that an update refers to.
fn decode_blobs(from: &mut Decoder<'_>) -> Result<Vec<BlobMeta>> {
    let count = from.count(BLOB_BYTES_MIN)?;
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
    has_ranges: bool,
) -> Result<LogRecord> {
    let (mut parts, mut ranges) = (Vec::<(u64, _)>::new(), 0);
    while from.remaining() > 0 {
        let (id, batch) = decode_part(from, wanted, &blobs, has_ranges.then_some(&mut ranges))?;
        if parts.last().is_some_and(|(before, _)| *before >= id) {
            return Err(from.corrupt("tables in ascending order", id));
        }
        parts.push((id, batch));
    }
    if has_ranges && ranges == 0 {
        return Err(from.corrupt("a range that is deleted", "none"));
    }
    Ok(LogRecord::Update { parts, blobs })
}

/// The ranges that a part deletes, each with how many other operations come before.
fn decode_ranges(from: &mut Decoder<'_>) -> Result<Vec<(u64, KeyRange)>> {
    let count = from.count(RANGE_BYTES_MIN)?;
    let mut ranges: Vec<(u64, KeyRange)> = Vec::new();
    for _ in 0..count {
        let at = from.varint()?;
        if ranges.last().is_some_and(|(before, _)| *before > at) {
            return Err(from.corrupt("ranges in the order in which they act", at));
        }
        let range = KeyRange::decode(from)?;
        if range.is_empty() {
            return Err(from.corrupt("a range that a key may lie in", "bounds that cross"));
        }
        ranges.push((at, range));
    }
    Ok(ranges)
}

/// How many operations on single keys a part has, at least `least`, and the bytes of their keys and values.
fn part_size(from: &mut Decoder<'_>, least: u64) -> Result<(usize, usize)> {
    let count = from.varint()?;
    let length = from.count(1)?;
    let room = from.remaining() / OPERATION_BYTES_MIN;
    if count < least || count > room as u64 {
        return Err(from.corrupt(format_args!("{least} to {room} operations"), count));
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
    if key_length > KEY_BYTES_MAX as u64 {
        return Err(from.corrupt("a key of at most 4000 bytes", key_length));
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
    ranges_found: Option<&mut usize>,
) -> Result<(u64, Option<Box<Batch>>)> {
    let id = from.varint()?;
    let mut ranges = Vec::new();
    if let Some(found) = ranges_found {
        ranges = decode_ranges(from)?;
        *found += ranges.len();
    }
    let (count, length) = part_size(from, u64::from(ranges.is_empty()))?;
    if let Some((at, _)) = ranges.last().filter(|(at, _)| *at > count as u64) {
        return Err(from.corrupt(format_args!("a range before operation {count}"), at));
    }
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
    let (mut batch, mut ranges) = (Batch::new(), ranges.into_iter().peekable());
    for number in 0..count as u64 {
        while let Some((_, range)) = ranges.next_if(|(at, _)| *at == number) {
            batch.push_range(range);
        }
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
    ranges.for_each(|(_, range)| {
        batch.push_range(range);
    });
    Ok((id, Some(Box::new(batch))))
}

/// The reference in `value`, if it is one into one of `blobs`.
fn referred(value: &[u8], blobs: &[BlobMeta]) -> Option<BlobSpan> {
    let span = BlobSpan::decode(value)?;
    let place = blobs.binary_search_by_key(&span.file, |blob| blob.identity).ok()?;
    (span.end() <= blobs[place].bytes).then_some(span)
}
