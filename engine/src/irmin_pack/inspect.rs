//! Describes the files of a store of Irmin, whatever their state: what can be decoded is, the rest is
//! noted.
//!
//! The files have no magic number, so what a file is is told from its name.

use super::format::branches;
use super::format::control::{Control, HEADER, Status, VolumeControl, old_header};
use super::format::dict::take_name;
use super::format::entry::{Address, CommitEntry, EntryKind, Head, Inode, Step};
use super::format::schema::Schema;
use super::read::index::{self, IndexHeader, Row, VALUE};
use super::read::space::{RANGE, Range};
use crate::error::Result;
use crate::format::codec::Decoder;
use crate::outline::Outline;

/// The most pieces of one file that are described; what follows is counted.
const PIECES_MAX: usize = 100_000;

/// The outline of a file, which `file` names with its path; none when no file of a store of Irmin is
/// called so. The schema is found out from the bytes when it is not given.
#[must_use]
pub fn file(file: &str, bytes: &[u8], schema: Option<Schema>) -> Option<Outline> {
    let mut parts = file.rsplit(['/', '\\']);
    let name = parts.next()?;
    let folder = parts.next().unwrap_or_default();
    let guess = |fit: fn(Schema, &[u8]) -> bool| {
        schema.unwrap_or_else(|| {
            let all = [Schema::Tezos, Schema::Sha1];
            all.into_iter().find(|schema| fit(*schema, bytes)).unwrap_or(Schema::Tezos)
        })
    };
    let ends = |ending: &str| std::path::Path::new(name).extension().is_some_and(|it| it == ending);
    if name.starts_with("volume.") && ends("control") {
        return Some(volume(file, bytes));
    }
    if name == "volume.data" || (name.starts_with("store.") && ends("prefix")) {
        return Some(entries(file, "ranges", bytes, 0, None, guess(fits_pack)));
    }
    if name == "volume.mapping" || (name.starts_with("store.") && ends("mapping")) {
        return Some(mapping(file, bytes));
    }
    if matches!(name, "data" | "log" | "log_async") && folder == "index" {
        return Some(index_file(file, bytes, guess(index::fits)));
    }
    Some(match name {
        "store.control" => control(file, bytes),
        "store.dict" => dict(file, bytes),
        "store.branches" => branch_file(file, bytes, guess(fits_branches)),
        "store.pack" => {
            let end = old_header(file, bytes).ok().map(|(end, _)| end);
            entries(file, "pack", bytes, HEADER as usize, end, guess(fits_pack))
        }
        _ if name.starts_with("store.") && ends("suffix") => {
            let start = if old_header(file, bytes).is_ok() { HEADER as usize } else { 0 };
            entries(file, "suffix", bytes, start, None, guess(fits_pack))
        }
        _ => return None,
    })
}

/// Whether the first entry of a pack file looks like one, with or without an old header before it.
fn fits_pack(schema: Schema, bytes: &[u8]) -> bool {
    [0, HEADER as usize].into_iter().any(|start| {
        bytes.get(start..).is_some_and(|bytes| {
            let head = Head::decode(schema, "", 0, bytes);
            head.is_ok_and(|head| head.length.is_none_or(|length| length <= bytes.len() as u64))
        })
    })
}

fn fits_branches(schema: Schema, bytes: &[u8]) -> bool {
    branches::decode("", bytes, schema).is_ok()
}

fn whole(file: &str, label: &str, bytes: &[u8]) -> Outline {
    Outline::new(label, 0..bytes.len() as u64).field("file", file)
}

fn noted(outline: Outline, outcome: Result<Outline>) -> Outline {
    match outcome {
        Ok(child) => outline.child(child),
        Err(error) => outline.damaged(error),
    }
}

/// The outline of `store.control`.
fn control(file: &str, bytes: &[u8]) -> Outline {
    let described = Control::decode(file, bytes).map(|control| {
        let mut body = Outline::new("store", 0..bytes.len() as u64)
            .field("version", control.version)
            .field("dictionary bytes", control.dict_end)
            .field("last chunk bytes", control.chunk_end)
            .field("first chunk", control.chunk_start)
            .field("chunks", control.chunk_count)
            .field("volumes", control.volumes);
        if let Some(sum) = control.checksum {
            body = body.field("checksum", format_args!("{sum:08x}"));
        }
        if let Some(version) = control.upgraded_from {
            body = body.field("upgraded from", version);
        }
        match control.status {
            Status::Upgraded(end) => body.field("status", "upgraded").field("old bytes", end),
            Status::Fresh => body.field("status", "nothing collected"),
            Status::Indexed => body.field("status", "indexed, never to be collected"),
            Status::Collected(collected) => {
                let mut body = body
                    .field("status", "collected")
                    .field("suffix from offset", collected.suffix_start)
                    .field("generation", collected.generation)
                    .field("dead bytes", collected.dead_bytes);
                if let Some(target) = collected.target {
                    body = body.field("collected for the commit at", target);
                }
                if let Some(end) = collected.mapping_end {
                    body = body.field("mapping bytes", end);
                }
                body
            }
        }
    });
    noted(whole(file, "irmin control", bytes), described)
}

fn volume(file: &str, bytes: &[u8]) -> Outline {
    let described = VolumeControl::decode(file, bytes).map(|volume| {
        Outline::new("volume", 0..bytes.len() as u64)
            .field("from offset", volume.start)
            .field("to offset", volume.end)
            .field("mapping bytes", volume.mapping_end)
            .field("checksum", format_args!("{:08x}", volume.checksum))
    });
    noted(whole(file, "irmin volume", bytes), described)
}

/// The bytes that an old header says are valid, and the header's outline.
fn valid<'a>(file: &str, bytes: &'a [u8]) -> (usize, &'a [u8], Option<Outline>) {
    match old_header(file, bytes) {
        Err(_) => (0, bytes, None),
        Ok((end, version)) => {
            let header = Outline::new("header", 0..HEADER)
                .field("version", version)
                .field("valid bytes", end);
            let end = end.saturating_add(HEADER).min(bytes.len() as u64) as usize;
            (HEADER as usize, &bytes[HEADER as usize..end], Some(header))
        }
    }
}

fn dict(file: &str, bytes: &[u8]) -> Outline {
    let mut outline = whole(file, "irmin dictionary", bytes);
    let (start, valid, header) = valid(file, bytes);
    outline.children.extend(header);
    let mut decoder = Decoder::new(file, start as u64, valid);
    let mut number = 0u64;
    while decoder.remaining() > 0 && outline.children.len() < PIECES_MAX {
        let place = decoder.offset();
        match take_name(&mut decoder) {
            Ok(name) => {
                let child = Outline::new(format!("name {number}"), place..decoder.offset())
                    .field("name", name.escape_ascii());
                outline.children.push(child);
            }
            Err(error) => return outline.damaged(error),
        }
        number += 1;
    }
    outline.field("names", number)
}

fn branch_file(file: &str, bytes: &[u8], schema: Schema) -> Outline {
    let mut outline = whole(file, "irmin branches", bytes);
    match branches::decode(file, bytes, schema) {
        Err(error) => outline.damaged(error),
        Ok(found) => {
            for branch in found {
                let end = branch.place + 4 + (branch.name.len() + schema.hash_bytes()) as u64;
                let child = Outline::new("branch", branch.place..end)
                    .field("name", branch.name.escape_ascii());
                outline = outline.child(if *branch.hash == [0; 32] {
                    child.field("commit", "none: removed")
                } else {
                    child.field("commit", schema.text(&branch.hash))
                });
            }
            outline
        }
    }
}

fn mapping(file: &str, bytes: &[u8]) -> Outline {
    let mut outline = whole(file, "irmin mapping", bytes);
    for (number, record) in bytes.chunks(RANGE as usize).enumerate().take(PIECES_MAX) {
        let place = number as u64 * RANGE;
        let child = Outline::new("range", place..place + record.len() as u64);
        outline = outline.child(if record.len() == RANGE as usize {
            let range = Range::decode(record);
            let child = child
                .field("offset", range.offset)
                .field("place", range.place)
                .field("length", range.length);
            if range.is_possible(u64::MAX) { child } else { child.damaged("no possible range") }
        } else {
            child.damaged("part of a record")
        });
    }
    outline.field("ranges", bytes.len() / RANGE as usize)
}

fn index_file(file: &str, bytes: &[u8], schema: Schema) -> Outline {
    let outline = whole(file, "irmin index", bytes);
    let header = match IndexHeader::decode(file, bytes) {
        Ok(header) => header,
        Err(error) => return outline.damaged(error),
    };
    let fans = header.fan_bytes / 8;
    let mut outline = outline.child(
        Outline::new("header", 0..index::HEADER)
            .field("entry bytes", header.bytes)
            .field("generation", header.generation)
            .field("fans", fans),
    );
    let unit = schema.hash_bytes() + VALUE;
    let start = index::HEADER.saturating_add(header.fan_bytes).min(bytes.len() as u64) as usize;
    if fans > 0 {
        outline = outline.child(Outline::new("fan-out", index::HEADER..start as u64));
    }
    let end = (start as u64).saturating_add(header.bytes);
    if end > bytes.len() as u64 {
        outline = outline.damaged(format_args!("{} bytes of entries are not there", header.bytes));
    }
    let valid = &bytes[start..end.min(bytes.len() as u64) as usize];
    for (number, row) in valid.chunks_exact(unit).enumerate().take(PIECES_MAX) {
        let place = (start + number * unit) as u64;
        let child = Outline::new("entry", place..place + unit as u64);
        outline = outline.child(match Row::decode(schema, file, place, row) {
            Err(error) => child.damaged(error),
            Ok(row) => {
                let child = child
                    .field("hash", schema.text(&row.hash))
                    .field("offset", row.offset)
                    .field("length", row.length);
                match EntryKind::of(row.letter) {
                    Some(kind) => child.field("kind", kind.name()),
                    None => child.damaged(format_args!("no kind has the letter {}", row.letter)),
                }
            }
        });
    }
    outline.field("entries", valid.len() / unit)
}

/// The entries of a pack file; `offset` counts from its first entry.
fn entries(
    file: &str,
    label: &str,
    bytes: &[u8],
    start: usize,
    end: Option<u64>,
    schema: Schema,
) -> Outline {
    let mut outline = whole(file, &format!("irmin {label}"), bytes);
    if start > 0
        && let (_, _, Some(header)) = valid(file, bytes)
    {
        outline = outline.child(header);
    }
    let end = end.map_or(bytes.len() as u64, |end| end.saturating_add(start as u64));
    let valid = &bytes[..end.min(bytes.len() as u64) as usize];
    let mut at = start.min(valid.len());
    let mut counts = std::collections::BTreeMap::new();
    while at < valid.len() {
        match entry(file, at, &valid[at..], schema) {
            Ok((kind, length, child)) => {
                *counts.entry(kind).or_insert(0u64) += 1;
                if outline.children.len() < PIECES_MAX {
                    outline = outline.child(child.field("offset", at - start));
                }
                at += length;
            }
            Err(error) => return outline.damaged(error),
        }
    }
    for (kind, count) in counts {
        outline = outline.field(kind, count);
    }
    outline
}

fn address(schema: Schema, address: &Address) -> String {
    match address {
        Address::Offset(offset) => offset.to_string(),
        Address::Hash(hash) => schema.text(hash),
    }
}

/// One entry: its kind, its bytes, its outline.
fn entry(
    file: &str,
    at: usize,
    bytes: &[u8],
    schema: Schema,
) -> Result<(&'static str, usize, Outline)> {
    let head = Head::decode(schema, file, at as u64, bytes)?;
    let place = (at + head.body) as u64;
    let mut decoder = Decoder::new(file, place, &bytes[head.body..]);
    if let Some(length) = head.length {
        let body = decoder.raw((length - head.body as u64) as usize)?;
        decoder = Decoder::new(file, place, body);
    }
    let mut outline = Outline::new(head.kind.name(), 0..0).field("hash", schema.text(&head.hash));
    match head.kind {
        EntryKind::Contents => {
            outline = outline.field("bytes", decoder.remaining());
            decoder.raw(decoder.remaining())?;
        }
        kind if kind.is_directory() => match Inode::take(schema, &mut decoder)? {
            Inode::Values(children) => {
                outline = outline.field("children", children.len());
                for child in children {
                    let name = match child.step {
                        Step::Number(number) => format!("name {number}"),
                        Step::Name(name) => name.escape_ascii().to_string(),
                    };
                    let what = if child.is_value { "value at" } else { "directory at" };
                    let target = address(schema, &child.address);
                    outline = outline.field(name, format_args!("{what} {target}"));
                }
            }
            Inode::Tree { depth, length, pointers } => {
                outline = outline.field("depth", depth).field("entries below", length);
                for (bucket, target) in pointers {
                    let target = address(schema, &target);
                    outline = outline.field(format!("bucket {bucket}"), target);
                }
            }
        },
        kind => {
            let commit = CommitEntry::take(schema, kind, &mut decoder)?;
            outline = outline
                .field("tree", address(schema, &commit.tree))
                .field("date", commit.date)
                .field("author", commit.author.escape_ascii())
                .field("message", commit.message.escape_ascii());
            for parent in &commit.parents {
                outline = outline.field("parent", address(schema, parent));
            }
        }
    }
    let length = match head.length {
        Some(length) => {
            decoder.finish()?;
            length as usize
        }
        None => bytes.len() - decoder.remaining(),
    };
    outline.span = at as u64..(at + length) as u64;
    Ok((head.kind.name(), length, outline))
}
