//! The checkpoint: one file that says which tables are live, as segments and a place in the log.
//!
//! It is replaced whole. Each table is coded as in a snapshot's manifest; what its segments do not
//! have, the log has from the table's place on. The end of the log at that time is named too, so
//! that a log that was cut short since is known for what it is.
//!
//! Format document: `docs/format/checkpoint.md`.

use super::log_record::{LogEnd, LogPoint};
use super::snapshot::{TableRecord, decode_tables, encode_tables, segments_of};
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::format::checksum::crc;
use crate::format::codec::{Decoder, Encoder};
use crate::format::hash::combine;
use crate::format::header::{FileKind, Header, checked_body, finish_with_checksum};
use crate::order::BTreeSet;
use crate::table::runs::SegmentMeta;
use crate::table::shared::paths;

/// Largest checkpoint that is read: beyond any real one.
const CHECKPOINT_BYTES_MAX: u64 = 1 << 30;

/// Shortest place of a live table in the log, with its id.
const PLACE_BYTES_MIN: usize = 4;

/// Shortest end of a log file.
const LOG_END_BYTES_MIN: usize = 7;

/// Ids and file numbers are not larger, so that there is always a next one.
const NUMBER_MAX: u64 = 1 << 62;

/// The first version whose places say what was cut.
const WITH_CUTS: u16 = 3;

/// The next id, the log files, and each table's place.
type Positions = (u64, Vec<LogEnd>, Vec<TablePlace>);

/// What ranges that later records delete have taken out of the segments of a table already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeCut {
    /// After the last of these records: the table is whole again when it has the log up to there.
    pub until: LogPoint,
    /// The least key of the segments that went.
    pub first_key: Vec<u8>,
    /// The greatest.
    pub last_key: Vec<u8>,
}

impl ShapeCut {
    /// With what another one took out, before or after.
    #[must_use]
    pub fn and(self, other: Option<ShapeCut>) -> ShapeCut {
        let Some(other) = other else { return self };
        ShapeCut {
            until: self.until.max(other.until),
            first_key: self.first_key.min(other.first_key),
            last_key: self.last_key.max(other.last_key),
        }
    }
}

/// Where a live table stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::table) struct TablePlace {
    pub id: u64,
    pub from: LogPoint,
    pub cut: Option<ShapeCut>,
}

impl TablePlace {
    fn encode(live: &LiveRecord, to: &mut Encoder) {
        to.varint(live.id);
        live.from.encode(to);
        let Some(cut) = &live.cut else { return to.varint(0) };
        to.varint(cut.until.file);
        to.varint(cut.until.sequence);
        to.bytes_with_length(&cut.first_key);
        to.bytes_with_length(&cut.last_key);
    }

    fn decode(from: &mut Decoder<'_>, version: u16) -> Result<TablePlace> {
        let (id, place) = (from.varint()?, LogPoint::decode(from)?);
        let mut cut = None;
        let start = from.clone();
        if version >= WITH_CUTS {
            let file = from.varint()?;
            if file > 0 {
                let until = LogPoint { file, sequence: from.varint()?, skip: 0 };
                let first_key = from.bytes_with_length()?.to_vec();
                let last_key = from.bytes_with_length()?.to_vec();
                if until <= place || file > NUMBER_MAX || first_key > last_key {
                    return Err(start.corrupt("a cut behind the table's place", "another one"));
                }
                cut = Some(ShapeCut { until, first_key, last_key });
            }
        }
        Ok(TablePlace { id, from: place, cut })
    }
}

/// A live table of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRecord {
    /// What records of the log call it.
    pub id: u64,
    /// The first operation that its segments do not have.
    pub from: LogPoint,
    /// What its segments lack of the state at that place.
    pub cut: Option<ShapeCut>,
    /// Its options and segments.
    pub table: TableRecord,
}

impl LiveRecord {
    /// Its two points in the log: where it begins, and up to where its segments were cut.
    pub fn points(&self) -> [LogPoint; 2] {
        [self.from, self.cut.as_ref().map_or(self.from, |cut| cut.until)]
    }

    /// The same record where these points are others, in a copy of the log.
    #[must_use]
    pub fn placed(self, [from, until]: [LogPoint; 2]) -> LiveRecord {
        let cut = self.cut.filter(|_| until > from).map(|cut| ShapeCut { until, ..cut });
        LiveRecord { from, cut, ..self }
    }
}

/// A checkpoint, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The file's header.
    pub header: Header,
    /// The id of the next live table.
    pub next_id: u64,
    /// The log files that are needed, in ascending order, and where each one ends; the last one may
    /// have gone on since.
    pub files: Vec<LogEnd>,
    /// The live tables in the order of their names.
    pub tables: Vec<LiveRecord>,
}

/// Who wrote a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The session that it is of.
    Own,
    /// A backup or a repair, from what another session had. Nothing was written to its live tables since.
    Copied,
}

impl Checkpoint {
    /// The header of a checkpoint of the session `store`.
    pub fn header(store: u64, origin: Origin) -> Header {
        let text = match origin {
            Origin::Own => paths::CHECKPOINT,
            Origin::Copied => "copied checkpoint",
        };
        Header::new(FileKind::Checkpoint, combine(store, crc(text.as_bytes()).into()), store)
    }

    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::new();
        // What was read of an older version is written as one of this.
        to.raw(&Header { version: FileKind::Checkpoint.version(), ..self.header }.encode());
        to.varint(self.next_id);
        to.varint(self.files.len() as u64);
        for file in &self.files {
            file.encode(&mut to);
        }
        to.varint(self.tables.len() as u64);
        for table in &self.tables {
            TablePlace::encode(table, &mut to);
        }
        let tables: Vec<_> = self.tables.iter().map(|live| live.table.clone()).collect();
        encode_tables(&tables, &mut to);
        finish_with_checksum(to)
    }

    /// Decodes the checkpoint called `file`.
    pub fn decode(file: &str, bytes: &[u8]) -> Result<Self> {
        let header = Header::expect(file, bytes, FileKind::Checkpoint)?;
        let mut from = checked_body(file, bytes, "checkpoint checksum")?;
        let (next_id, files, places) = Self::decode_places(&mut from, header.version)?;
        let tables = decode_tables(&mut from)?;
        if tables.len() != places.len() {
            let expected = format_args!("{} tables", places.len());
            return Err(from.corrupt(expected, tables.len()));
        }
        if !tables.is_sorted_by(|before, after| before.name < after.name) {
            return Err(from.corrupt("tables in the order of their names", "another order"));
        }
        let both = places.into_iter().zip(tables);
        let tables =
            both.map(|(TablePlace { id, from, cut }, table)| LiveRecord { id, from, cut, table });
        let tables = tables.collect();
        Ok(Checkpoint { header, next_id, files, tables })
    }

    /// What stands before the tables: the next id, the log files, and each table's place.
    pub(in crate::table) fn decode_places(
        from: &mut Decoder<'_>,
        version: u16,
    ) -> Result<Positions> {
        let (next_id, files) = Self::decode_log(from)?;
        let count = from.count(PLACE_BYTES_MIN)?;
        let (mut places, mut ids) = (Vec::new(), BTreeSet::new());
        for _ in 0..count {
            let place = TablePlace::decode(from, version)?;
            if place.id >= next_id || !ids.insert(place.id) {
                return Err(from.corrupt("an id of its own below the next one", place.id));
            }
            places.push(place);
        }
        Ok((next_id, files, places))
    }

    fn decode_log(from: &mut Decoder<'_>) -> Result<(u64, Vec<LogEnd>)> {
        let next_id = from.varint()?;
        let count = from.count(LOG_END_BYTES_MIN)?;
        let mut files: Vec<LogEnd> = Vec::new();
        for _ in 0..count {
            let end = LogEnd::decode(from)?;
            if files.last().is_some_and(|before| before.file >= end.file) {
                return Err(from.corrupt("log files in ascending order", end.file));
            }
            files.push(end);
        }
        let last = files.last().ok_or_else(|| from.corrupt("a log file", "none"))?.file;
        if next_id > NUMBER_MAX || last > NUMBER_MAX {
            return Err(from.corrupt("numbers of at most 2^62", next_id.max(last)));
        }
        Ok((next_id, files))
    }

    /// Every segment that it names; one may come more than once.
    pub fn segments(&self) -> std::vec::IntoIter<&SegmentMeta> {
        segments_of(self.tables.iter().map(|record| &record.table))
    }
}

/// Reads the checkpoint of whichever session; `None` where no table was ever live.
pub fn read_any_checkpoint(disk: &dyn Disk) -> Result<Option<Checkpoint>> {
    let file = match disk.open(paths::CHECKPOINT, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => return Ok(None),
        opened => opened?,
    };
    let length = file.len()?;
    if length > CHECKPOINT_BYTES_MAX {
        let expected = "a checkpoint below 1 GiB";
        return Err(Error::corrupt(paths::CHECKPOINT, length, expected, "more bytes"));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(0, &mut bytes)?;
    Checkpoint::decode(paths::CHECKPOINT, &bytes).map(Some)
}

/// What tells a checkpoint from another without reading all of it: its length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointTag(u64, [u8; 4]);

/// The tag of the checkpoint that is there; `None` where no table was ever live.
pub fn read_tag(disk: &dyn Disk) -> Result<Option<CheckpointTag>> {
    let file = match disk.open(paths::CHECKPOINT, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => return Ok(None),
        opened => opened?,
    };
    let (length, mut end) = (file.len()?, [0; 4]);
    file.read_exact_at(length.saturating_sub(4), &mut end)?;
    Ok(Some(CheckpointTag(length, end)))
}

/// The checkpoint of the session `identity`. `Corrupt` when the file is that of another session.
pub fn read_checkpoint(disk: &dyn Disk, identity: u64) -> Result<Option<Checkpoint>> {
    let checkpoint = read_any_checkpoint(disk)?;
    match &checkpoint {
        Some(checkpoint) if checkpoint.header.store != identity => Err(Error::corrupt(
            paths::CHECKPOINT,
            0,
            "the checkpoint of this session",
            "that of another session: put back the file that was there",
        )),
        _ => Ok(checkpoint),
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn golden(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/checkpoint");
        std::fs::read(format!("{folder}/{name}")).unwrap()
    }

    #[test]
    fn a_checkpoint_of_version_2_has_no_cuts_and_is_written_as_one_of_this_version() {
        let old = golden("version-2.bin");
        let checkpoint = Checkpoint::decode("checkpoint", &old).unwrap();
        assert_eq!((checkpoint.header.version, checkpoint.tables.len()), (2, 2));
        assert!(checkpoint.tables.iter().all(|record| record.cut.is_none()));
        assert_eq!(checkpoint.encode(), golden("two-tables.bin"));
    }

    #[test]
    fn a_cut_is_read_as_it_was_written_and_lies_behind_its_place() {
        let mut checkpoint = Checkpoint::decode("checkpoint", &golden("two-tables.bin")).unwrap();
        let from = checkpoint.tables[1].from;
        let cut = |until: LogPoint, first: &[u8], last: &[u8]| {
            Some(ShapeCut { until, first_key: first.to_vec(), last_key: last.to_vec() })
        };
        for (cut, is_right) in [
            (cut(from.after(), b"a", b"b"), true),
            (cut(from.after(), b"", b""), true),
            (cut(LogPoint { file: from.file + 1, sequence: 1, skip: 0 }, b"a", b"a"), true),
            (cut(from, b"a", b"b"), false),
            (cut(from.after(), b"b", b"a"), false),
        ] {
            checkpoint.tables[1].cut = cut;
            let found = Checkpoint::decode("checkpoint", &checkpoint.encode());
            match found {
                Ok(found) => assert!(is_right && found == checkpoint, "{found:?}"),
                Err(error) => assert!(!is_right && error.kind() == Kind::Corrupt, "{error}"),
            }
        }
    }
}
