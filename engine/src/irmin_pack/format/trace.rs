//! Traces that Irmin's benchmarks record and replay: what was asked of a context, or what it cost.
//!
//! Container: eight letters, version, a header with its length, rows with their lengths; the last row
//! may be cut. Format document: `docs/format/irmin-pack.md`.

use super::bytes;
use crate::error::{Error, Result};
use crate::format::codec::Decoder;
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
