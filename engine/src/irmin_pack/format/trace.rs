//! Traces that Irmin's benchmarks record and replay: what was asked of a context, or what it cost.
//!
//! Container: eight letters, version, a header with its length, rows with their lengths; the last row
//! may be cut. Format document: `docs/format/irmin-pack.md`.

use super::bytes;
use crate::error::{Error, Result};
use crate::format::codec::{Decoder, Encoder};
use crate::outline::Outline;

/// Letters that a trace of actions begins with.
const ACTIONS: &[u8; 8] = b"IrmRepBT";

/// Letters that a trace of statistics begins with.
const STATISTICS: &[u8; 8] = b"IrmStaBT";

/// Whether the bytes begin as a trace does.
#[must_use]
pub fn is_trace(bytes: &[u8]) -> bool {
    bytes.starts_with(ACTIONS) || bytes.starts_with(STATISTICS)
}

/// The outline of a trace: its rows up to `rows_max`, and how many there are of each kind. Of statistics
/// only kinds and durations are described. `Corrupt` when the bytes begin otherwise; what is wrong
/// further on is noted.
pub fn describe(file: &str, bytes: &[u8], rows_max: usize) -> Result<Outline> {
    let mut decoder = Decoder::new(file, 0, bytes);
    let start = decoder.clone();
    let letters = decoder.raw(8)?;
    let (label, names): (_, &[&str]) = if letters == ACTIONS {
        ("irmin trace of actions", &ROWS)
    } else if letters == STATISTICS {
        ("irmin trace of statistics", &SAMPLES)
    } else {
        return Err(start.corrupt("IrmRepBT or IrmStaBT", letters.escape_ascii()));
    };
    let version = bytes::u32(&mut decoder)?;
    let most = u32::from(letters == STATISTICS);
    if version > most {
        return Err(Error::new(
            crate::error::Kind::Version,
            format!("{file} has version {version}: versions up to {most} are known"),
        ));
    }
    let header = decoder.bytes_with_length()?.len();
    let mut outline = Outline::new(label, 0..bytes.len() as u64)
        .field("version", version)
        .field("header bytes", header);
    let mut counts = vec![0u64; names.len()];
    let mut rows = 0u64;
    while decoder.remaining() > 0 {
        let start = decoder.offset();
        let length = decoder.varint();
        let missing = match &length {
            Ok(length) => *length > decoder.remaining() as u64,
            // A length that ends with the file, and not one that is none.
            Err(_) => decoder.remaining() < 10,
        };
        if missing {
            let end = bytes.len() as u64;
            outline = outline.child(Outline::new("cut row", start..end));
            break;
        }
        let body = length.and_then(|length| decoder.raw(length as usize));
        let described = body.and_then(|body| {
            let place = decoder.offset() - body.len() as u64;
            row(letters == ACTIONS, file, start..decoder.offset(), place, body)
        });
        match described {
            Ok((number, row)) => {
                counts[number] += 1;
                if outline.children.len() < rows_max {
                    outline = outline.child(row);
                }
            }
            Err(error) => return Ok(outline.damaged(error)),
        }
        rows += 1;
    }
    outline = outline.field("rows", rows);
    for (name, count) in names.iter().zip(counts).filter(|(_, count)| *count > 0) {
        outline = outline.field(*name, count);
    }
    Ok(outline)
}

const ROWS: [&str; 8] = ["checkout", "add", "remove", "copy", "find", "mem", "mem_tree", "commit"];

const SAMPLES: [&str; 8] =
    ["add", "remove", "find", "mem", "mem_tree", "checkout", "copy", "commit"];

fn row(
    actions: bool,
    file: &str,
    span: std::ops::Range<u64>,
    place: u64,
    body: &[u8],
) -> Result<(usize, Outline)> {
    let mut decoder = Decoder::new(file, place, body);
    let start = decoder.clone();
    let tag = decoder.varint()?;
    let number = usize::try_from(tag).ok().filter(|tag| *tag < ROWS.len());
    let number = number.ok_or_else(|| start.corrupt("the tag of a row, 0 to 7", tag))?;
    if actions {
        let outline = action(number, Outline::new(ROWS[number], span), &mut decoder)?;
        decoder.finish()?;
        return Ok((number, outline));
    }
    let seconds = f32::from_bits(bytes::u32(&mut decoder)?);
    let outline = Outline::new(SAMPLES[number], span).field("seconds", seconds);
    if number < 7 {
        decoder.finish()?;
        return Ok((number, outline));
    }
    Ok((number, outline.field("counters", format_args!("{} bytes", decoder.remaining()))))
}

/// A name that the trace goes on with, or uses for the last time.
fn scoped<T: std::fmt::Display>(
    outline: Outline,
    name: &str,
    decoder: &mut Decoder<'_>,
    take: impl FnOnce(&mut Decoder<'_>) -> Result<T>,
) -> Result<Outline> {
    let start = decoder.clone();
    let keep = match decoder.varint()? {
        0 => " (last use)",
        1 => "",
        other => return Err(start.corrupt("a scope, 0 or 1", other)),
    };
    let value = take(decoder)?;
    Ok(outline.field(name, format_args!("{value}{keep}")))
}

fn text(decoder: &mut Decoder<'_>) -> Result<String> {
    Ok(decoder.bytes_with_length()?.escape_ascii().to_string())
}

fn path(decoder: &mut Decoder<'_>) -> Result<String> {
    let count = decoder.count(1)?;
    let steps = (0..count).map(|_| text(decoder)).collect::<Result<Vec<_>>>()?;
    Ok(steps.join("/"))
}

fn identifier(decoder: &mut Decoder<'_>) -> Result<i64> {
    bytes::u64(decoder).map(|value| value as i64)
}

fn action(number: usize, outline: Outline, decoder: &mut Decoder<'_>) -> Result<Outline> {
    let from = |outline, decoder: &mut Decoder<'_>| scoped(outline, "from", decoder, identifier);
    let to = |outline, decoder: &mut Decoder<'_>| scoped(outline, "to", decoder, identifier);
    Ok(match number {
        0 => {
            let outline = scoped(outline, "commit", decoder, text)?;
            to(outline, decoder)?
        }
        1 => {
            let outline = outline.field("path", path(decoder)?);
            let outline = outline.field("value", text(decoder)?);
            to(from(outline, decoder)?, decoder)?
        }
        2 => to(from(outline.field("path", path(decoder)?), decoder)?, decoder)?,
        3 => {
            let outline = outline.field("source", path(decoder)?);
            let outline = outline.field("path", path(decoder)?);
            to(from(outline, decoder)?, decoder)?
        }
        7 => {
            let mut outline = scoped(outline, "commit", decoder, text)?
                .field("date", identifier(decoder)?)
                .field("message", text(decoder)?);
            for _ in 0..decoder.count(2)? {
                outline = scoped(outline, "parent", decoder, text)?;
            }
            from(outline, decoder)?
        }
        _ => {
            let outline = outline.field("path", path(decoder)?);
            let present = decoder.u8()? != 0;
            from(outline.field("found", present), decoder)?
        }
    })
}

/// A name that the trace goes on with, or uses for the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scoped<T> {
    /// The name.
    pub name: T,
    /// Whether it is used again.
    pub kept: bool,
}

/// A row of a trace of actions. Contexts have numbers; what changes one gives another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceRow {
    /// The tree of a commit, by its text, becomes a context.
    Checkout(Scoped<Vec<u8>>, Scoped<i64>),
    /// A value is bound at a path.
    Add(Vec<Vec<u8>>, Vec<u8>, Scoped<i64>, Scoped<i64>),
    /// What is at a path is removed.
    Remove(Vec<Vec<u8>>, Scoped<i64>, Scoped<i64>),
    /// What is at a path is bound at another too.
    Copy(Vec<Vec<u8>>, Vec<Vec<u8>>, Scoped<i64>, Scoped<i64>),
    /// Whether a value was found.
    Find(Vec<Vec<u8>>, bool, Scoped<i64>),
    /// Whether a value is there.
    Mem(Vec<Vec<u8>>, bool, Scoped<i64>),
    /// Whether anything is there.
    MemTree(Vec<Vec<u8>>, bool, Scoped<i64>),
    /// A context is committed.
    Commit {
        /// The commit, by its text.
        commit: Scoped<Vec<u8>>,
        /// Seconds.
        date: i64,
        /// Why.
        message: Vec<u8>,
        /// By their texts.
        parents: Vec<Scoped<Vec<u8>>>,
        /// The context.
        from: Scoped<i64>,
    },
}

/// The rows of a trace of actions, one after the other; a row that is cut ends them. `Corrupt` when the bytes
/// begin otherwise, and as an item where a row is damaged.
pub fn rows<'a>(
    file: &'a str,
    bytes: &'a [u8],
) -> Result<impl Iterator<Item = Result<TraceRow>> + 'a> {
    let mut decoder = Decoder::new(file, 0, bytes);
    let start = decoder.clone();
    let letters = decoder.raw(8)?;
    if letters != ACTIONS {
        return Err(start.corrupt("IrmRepBT, a trace of actions", letters.escape_ascii()));
    }
    let start = decoder.clone();
    let version = bytes::u32(&mut decoder)?;
    if version > 0 {
        return Err(start.corrupt("version 0", version));
    }
    decoder.bytes_with_length()?;
    let mut ended = false;
    Ok(std::iter::from_fn(move || {
        if ended || decoder.remaining() == 0 {
            return None;
        }
        let mut ahead = decoder.clone();
        let whole = ahead.varint().is_ok_and(|length| length <= ahead.remaining() as u64);
        if !whole {
            return None;
        }
        let row = decoder.bytes_with_length().and_then(|body| {
            let mut from = Decoder::new(file, decoder.offset() - body.len() as u64, body);
            let row = take_row(&mut from)?;
            from.finish().map(|()| row)
        });
        ended = row.is_err();
        Some(row)
    }))
}

/// Bytes behind the last whole row of a trace of actions, of one that its recording did not end. `Corrupt` when the bytes
/// begin otherwise.
pub fn cut_bytes(file: &str, bytes: &[u8]) -> Result<u64> {
    // As far as the rows go, whatever is in them.
    let _ = rows(file, bytes)?;
    let mut decoder = Decoder::new(file, 12, bytes.get(12..).unwrap_or_default());
    decoder.bytes_with_length()?;
    loop {
        let left = decoder.remaining() as u64;
        if left == 0 || decoder.bytes_with_length().is_err() {
            return Ok(left);
        }
    }
}

fn take_row(from: &mut Decoder<'_>) -> Result<TraceRow> {
    let start = from.clone();
    let flag = |from: &mut Decoder<'_>| from.u8().map(|byte| byte != 0);
    let hash = |from: &mut Decoder<'_>| Ok(from.bytes_with_length()?.to_vec());
    Ok(match from.varint()? {
        0 => TraceRow::Checkout(take_scoped(from, hash)?, take_scoped(from, identifier)?),
        1 => {
            let (path, value) = (take_path(from)?, from.bytes_with_length()?.to_vec());
            TraceRow::Add(
                path,
                value,
                take_scoped(from, identifier)?,
                take_scoped(from, identifier)?,
            )
        }
        2 => {
            let path = take_path(from)?;
            TraceRow::Remove(path, take_scoped(from, identifier)?, take_scoped(from, identifier)?)
        }
        3 => {
            let (source, path) = (take_path(from)?, take_path(from)?);
            let contexts = (take_scoped(from, identifier)?, take_scoped(from, identifier)?);
            TraceRow::Copy(source, path, contexts.0, contexts.1)
        }
        4 => TraceRow::Find(take_path(from)?, flag(from)?, take_scoped(from, identifier)?),
        5 => TraceRow::Mem(take_path(from)?, flag(from)?, take_scoped(from, identifier)?),
        6 => TraceRow::MemTree(take_path(from)?, flag(from)?, take_scoped(from, identifier)?),
        7 => {
            let commit = take_scoped(from, hash)?;
            let date = identifier(from)?;
            let message = from.bytes_with_length()?.to_vec();
            let count = from.count(2)?;
            let parents = (0..count).map(|_| take_scoped(from, hash)).collect::<Result<_>>()?;
            TraceRow::Commit {
                commit,
                date,
                message,
                parents,
                from: take_scoped(from, identifier)?,
            }
        }
        other => return Err(start.corrupt("the tag of a row, 0 to 7", other)),
    })
}

fn take_path(from: &mut Decoder<'_>) -> Result<Vec<Vec<u8>>> {
    let count = from.count(1)?;
    (0..count).map(|_| from.bytes_with_length().map(<[u8]>::to_vec)).collect()
}

fn take_scoped<T>(
    from: &mut Decoder<'_>,
    take: impl FnOnce(&mut Decoder<'_>) -> Result<T>,
) -> Result<Scoped<T>> {
    let start = from.clone();
    let kept = match from.varint()? {
        0 => false,
        1 => true,
        other => return Err(start.corrupt("a scope, 0 or 1", other)),
    };
    Ok(Scoped { name: take(from)?, kept })
}

/// The bytes of a trace of actions with these rows, as Irmin's replay reads them.
pub fn encode<'a>(rows: impl IntoIterator<Item = &'a TraceRow>) -> Vec<u8> {
    let mut to = Encoder::new();
    to.raw(ACTIONS);
    to.raw(&[0; 4]);
    to.bytes_with_length(&[]);
    for row in rows {
        let mut body = Encoder::new();
        put_row(row, &mut body);
        to.bytes_with_length(body.bytes());
    }
    to.finish()
}

fn put_row(row: &TraceRow, to: &mut Encoder) {
    let path = |to: &mut Encoder, path: &[Vec<u8>]| {
        to.varint(path.len() as u64);
        for step in path {
            to.bytes_with_length(step);
        }
    };
    let context = |to: &mut Encoder, scoped: &Scoped<i64>| {
        to.varint(u64::from(scoped.kept));
        to.raw(&scoped.name.to_be_bytes());
    };
    let hash = |to: &mut Encoder, scoped: &Scoped<Vec<u8>>| {
        to.varint(u64::from(scoped.kept));
        to.bytes_with_length(&scoped.name);
    };
    match row {
        TraceRow::Checkout(commit, out) => {
            to.varint(0);
            hash(to, commit);
            context(to, out);
        }
        TraceRow::Add(at, value, from, out) => {
            to.varint(1);
            path(to, at);
            to.bytes_with_length(value);
            context(to, from);
            context(to, out);
        }
        TraceRow::Remove(at, from, out) => {
            to.varint(2);
            path(to, at);
            context(to, from);
            context(to, out);
        }
        TraceRow::Copy(source, at, from, out) => {
            to.varint(3);
            path(to, source);
            path(to, at);
            context(to, from);
            context(to, out);
        }
        TraceRow::Find(at, found, from)
        | TraceRow::Mem(at, found, from)
        | TraceRow::MemTree(at, found, from) => {
            to.varint(match row {
                TraceRow::Find(..) => 4,
                TraceRow::Mem(..) => 5,
                _ => 6,
            });
            path(to, at);
            to.u8(u8::from(*found));
            context(to, from);
        }
        TraceRow::Commit { commit, date, message, parents, from } => {
            to.varint(7);
            hash(to, commit);
            to.raw(&date.to_be_bytes());
            to.bytes_with_length(message);
            to.varint(parents.len() as u64);
            for parent in parents {
                hash(to, parent);
            }
            context(to, from);
        }
    }
}
