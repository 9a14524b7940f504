//! Describes what live tables are kept in: log files and the checkpoint.

use std::ops::Bound;

use super::{check_end, header, printed, tables};
use crate::error::Result;
use crate::file::append::{self, HEAD, Position};
use crate::format::codec::Decoder;
use crate::format::header::{FileKind, Header, LENGTH};
use crate::outline::Outline;
use crate::table::bytes::KeyRange;
use crate::table::durable::{Checkpoint, LogEnd, LogPoint, LogRecord, ShapeCut};

/// The outline of a log file: its records, and what each holds.
#[must_use]
pub fn log(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("log", 0..bytes.len() as u64).field("file", file);
    let mut whole = whole.child(header(file, bytes));
    let Ok(header) = Header::expect(file, bytes, FileKind::Log) else { return whole };
    let mut records = Vec::new();
    let scanned = append::scan_bytes(bytes, header.identity, |at, payload| {
        records.push(record(file, at, payload));
        Ok(())
    });
    whole.children.extend(records);
    match scanned {
        Err(error) => whole.damaged(error),
        Ok(scan) if scan.tail_bytes > 0 => {
            let tail = Outline::new("tail", scan.end.offset..bytes.len() as u64);
            whole.child(tail.field("left_by", "a crash, before it was acknowledged"))
        }
        Ok(_) => whole,
    }
}

fn record(file: &str, at: Position, payload: &[u8]) -> Outline {
    let start = at.offset + HEAD as u64;
    let span = at.offset..start + payload.len() as u64;
    let outline = Outline::new(format!("record {}", at.sequence), span.clone());
    match LogRecord::decode(&mut Decoder::new(file, start, payload), &|_| true) {
        Err(error) => outline.damaged(error),
        Ok(LogRecord::Begin(before)) => {
            outline.field("begins_after", before.map_or("nothing".to_owned(), printed_end))
        }
        Ok(LogRecord::Update { parts, blobs }) => {
            let outline = blobs.iter().fold(outline, |outline, blob| {
                let piece = Outline::new(format!("blob file {}", blob.id), span.clone());
                let piece = piece.field("identity", format_args!("{:016x}", blob.identity));
                outline.child(piece.field("values", blob.values).field("bytes", blob.bytes))
            });
            parts.iter().fold(outline, |outline, (id, batch)| {
                let count = batch.as_ref().map_or(0, |batch| batch.len());
                let part = Outline::new(format!("table {id}"), span.clone());
                let ranges = batch.iter().flat_map(|batch| batch.ranges()).zip(1..);
                let part = part.field("operations", count);
                outline.child(ranges.fold(part, |part, (it, number)| {
                    let range = printed_range(&it.range);
                    part.field(format!("deleted_range_{number}"), range)
                }))
            })
        }
        Ok(LogRecord::DeleteRange(id, range)) => {
            let part = Outline::new(format!("table {id}"), span);
            outline.child(part.field("deleted_range", printed_range(&range)))
        }
    }
}

/// A range as people write it: a bracket where the key is in it, a parenthesis where it is not.
fn printed_range(range: &KeyRange) -> String {
    let lower = match &range.lower {
        Bound::Unbounded => "(".to_owned(),
        Bound::Included(key) => format!("[{}", printed(key)),
        Bound::Excluded(key) => format!("({}", printed(key)),
    };
    let upper = match &range.upper {
        Bound::Unbounded => ")".to_owned(),
        Bound::Included(key) => format!("{}]", printed(key)),
        Bound::Excluded(key) => format!("{})", printed(key)),
    };
    format!("{lower}..{upper}")
}

fn printed_end(end: LogEnd) -> String {
    format!("file {} at byte {}", end.file, end.position.offset)
}

fn printed_place(id: u64, from: LogPoint) -> String {
    let LogPoint { file, sequence, skip } = from;
    format!("id {id} from file {file}, record {sequence}, operation {skip}")
}

/// The outline of a checkpoint. When its checksum is wrong, what still decodes is shown.
#[must_use]
pub fn checkpoint(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("checkpoint", 0..bytes.len() as u64).field("file", file);
    let mut whole = whole.child(header(file, bytes));
    let covered = bytes.len().saturating_sub(4).max(LENGTH);
    let body = bytes.get(LENGTH..covered).unwrap_or_default();
    let mut from = Decoder::new(file, LENGTH as u64, body);
    let mut pieces = Vec::new();
    let version =
        Header::decode(file, bytes).map_or(FileKind::Checkpoint.version(), |it| it.version);
    if let Err(error) = pieces_of(&mut from, version, &mut pieces) {
        let rest = from.offset()..bytes.len() as u64;
        pieces.push(Outline::new("undecoded", rest).damaged(error));
    }
    whole.children.extend(pieces);
    let checksum = Outline::new("checksum", covered as u64..bytes.len().max(covered) as u64);
    let mut whole = whole.child(match check_end(file, bytes, covered.min(bytes.len())) {
        Ok(()) => checksum,
        Err(error) => checksum.damaged(error),
    });
    if whole.damage_count() == 0 {
        whole.damage = Checkpoint::decode(file, bytes).err().map(|error| error.to_string());
    }
    whole
}

fn pieces_of(from: &mut Decoder<'_>, version: u16, pieces: &mut Vec<Outline>) -> Result<()> {
    let start = from.offset();
    let (next_id, files, places) = Checkpoint::decode_places(from, version)?;
    let mut log = Outline::new("log", start..from.offset()).field("next_table", next_id);
    for file in files {
        log = log.field("needs", printed_end(file));
    }
    for (number, place) in places.into_iter().enumerate() {
        log = log.field(format!("table_{}", number + 1), printed_place(place.id, place.from));
        if let Some(ShapeCut { until, first_key, last_key }) = place.cut {
            let cut = format!(
                "{}..={} up to file {}, record {}",
                printed(&first_key),
                printed(&last_key),
                until.file,
                until.sequence
            );
            log = log.field(format!("cut_{}", number + 1), cut);
        }
    }
    pieces.push(log);
    tables(from, pieces)
}
