//! Traces that Irmin's benchmarks record and replay: what was asked of a context, or what it cost.
//!
//! Container: eight letters, version, a header with its length, rows with their lengths; the last row
//! may be cut. Format document: `docs/format/irmin-pack.md`.

use std::io::Read;

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

/// `Version` for a trace that a newer Irmin recorded.
fn newer(file: &str, version: u32, most: u32) -> Error {
    let what = format!("has version {version}: versions up to {most} are known");
    Error::of_file(crate::error::Kind::Version, file, what)
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
        return Err(newer(file, version, most));
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

/// Bytes of a row at most: Irmin's have a path and a value.
const ROW_BYTES_MAX: u64 = 1 << 30;

/// The rows of a trace of actions, read one after the other, so that one at a time is in memory; a row that is cut ends
/// them. As an item `Corrupt` where a row is damaged, and `Io`, which end them too.
#[derive(Debug)]
pub struct Rows<R> {
    file: String,
    from: R,
    /// What was read so far.
    offset: u64,
    /// The body of a row.
    body: Vec<u8>,
    cut_bytes: u64,
    is_ended: bool,
}

impl<R: Read> Rows<R> {
    /// Begins to read what `from` gives, which errors call `file`. `Corrupt` when it begins otherwise, `Version` for one of a newer Irmin, `Invalid` for one
    /// of statistics; `Io`.
    pub fn new(file: &str, from: R) -> Result<Rows<R>> {
        let (file, body) = (file.to_owned(), Vec::new());
        let mut rows = Rows { file, from, offset: 0, body, cut_bytes: 0, is_ended: false };
        let mut start = [0; 12];
        let length = rows.fill(&mut start)?;
        let file = rows.file.clone();
        let mut decoder = Decoder::new(&file, 0, &start[..length]);
        let place = decoder.clone();
        let letters = decoder.raw(8)?;
        if letters == STATISTICS {
            let what = "is a trace of statistics, which has no calls: give one of actions";
            return Err(Error::of_file(crate::error::Kind::Invalid, &file, what));
        }
        if letters != ACTIONS {
            return Err(place.corrupt("IrmRepBT, a trace of actions", letters.escape_ascii()));
        }
        let place = decoder.clone();
        let version = bytes::u32(&mut decoder)?;
        if version > 0 {
            return Err(newer(&file, version, 0));
        }
        match rows.body()? {
            Some(_) => Ok(rows),
            None => Err(place.corrupt("a header", "the end of the file")),
        }
    }

    /// Bytes behind the last whole row, of a recording that was not ended; known once the rows have ended.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io("read", &self.file, error)
    }

    /// Reads as much of `to` as there is.
    fn fill(&mut self, to: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < to.len() {
            match self.from.read(&mut to[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.offset += done as u64;
        Ok(done)
    }

    /// Reads a length and as many bytes into `body`, and gives where they begin; none at the end, or where they are cut.
    fn body(&mut self) -> Result<Option<u64>> {
        let start = self.offset;
        let (mut head, mut length) = ([0; 10], 0);
        while length < head.len() && (length == 0 || head[length - 1] & 0x80 != 0) {
            if self.fill(&mut head[length..=length])? == 0 {
                return self.cut_at(start);
            }
            length += 1;
        }
        let Ok(wanted) = Decoder::new(&self.file, start, &head[..length]).varint() else {
            return self.cut_at(start);
        };
        self.body.clear();
        let most = wanted.min(ROW_BYTES_MAX + 1);
        let read = self.from.by_ref().take(most).read_to_end(&mut self.body);
        let read = read.map_err(|error| self.failed(error))? as u64;
        let place = self.offset;
        self.offset += read;
        if read > ROW_BYTES_MAX {
            let decoder = Decoder::new(&self.file, start, &head[..length]);
            return Err(decoder.corrupt(format_args!("a row of {ROW_BYTES_MAX} bytes"), wanted));
        }
        if read < wanted { self.cut_at(start) } else { Ok(Some(place)) }
    }

    /// Ends the rows at `start`, behind which is no whole one.
    fn cut_at(&mut self, start: u64) -> Result<Option<u64>> {
        let rest = std::io::copy(&mut self.from, &mut std::io::sink());
        self.offset += rest.map_err(|error| self.failed(error))?;
        self.cut_bytes = self.offset - start;
        Ok(None)
    }

    fn row(&mut self) -> Result<Option<TraceRow>> {
        let Some(place) = self.body()? else { return Ok(None) };
        let mut from = Decoder::new(&self.file, place, &self.body);
        let row = take_row(&mut from)?;
        from.finish()?;
        Ok(Some(row))
    }
}

impl<R: Read> Iterator for Rows<R> {
    type Item = Result<TraceRow>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        let row = self.row();
        self.is_ended = !matches!(row, Ok(Some(_)));
        row.transpose()
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
            let count = take_count(from, 2, "parents")?;
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

/// Steps of a path, or parents of a commit, at most: each takes memory beside its bytes, some 48 of them, and may have none.
const STEPS_MAX: usize = 1 << 20;

/// A count of `what`, each of which takes `unit` bytes at least.
fn take_count(from: &mut Decoder<'_>, unit: usize, what: &str) -> Result<usize> {
    let start = from.clone();
    let count = from.count(unit)?;
    if count > STEPS_MAX {
        return Err(start.corrupt(format_args!("{STEPS_MAX} {what} at most"), count));
    }
    Ok(count)
}

fn take_path(from: &mut Decoder<'_>) -> Result<Vec<Vec<u8>>> {
    let count = take_count(from, 1, "steps")?;
    let mut steps = Vec::with_capacity(count);
    for _ in 0..count {
        steps.push(from.bytes_with_length()?.to_vec());
    }
    Ok(steps)
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

/// What a trace of actions begins with, in front of its rows, as Irmin's replay reads it.
#[must_use]
pub fn begin() -> Vec<u8> {
    let mut to = Encoder::new();
    to.raw(ACTIONS);
    to.raw(&[0; 4]);
    to.bytes_with_length(&[]);
    to.finish()
}

/// Puts a row behind what is in `to`.
pub fn append(row: &TraceRow, to: &mut Vec<u8>) {
    let mut body = Encoder::new();
    put_row(row, &mut body);
    let mut whole = Encoder::new();
    whole.bytes_with_length(body.bytes());
    to.extend_from_slice(whole.bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> (Vec<u8>, Vec<TraceRow>) {
        let at = |name: i64, kept| Scoped { name, kept };
        let path = vec![b"data".to_vec(), vec![0xff; 200]];
        let rows = vec![
            TraceRow::Find(path.clone(), false, at(0, true)),
            TraceRow::Add(path, vec![7; 300], at(0, true), at(1, true)),
            TraceRow::Mem(Vec::new(), true, at(1, false)),
        ];
        let mut bytes = begin();
        for row in &rows {
            append(row, &mut bytes);
        }
        (bytes, rows)
    }

    /// Gives a byte at a time, as a pipe may.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let most = to.len().min(1);
            self.0.read(&mut to[..most])
        }
    }

    fn read(from: impl Read) -> Result<(Vec<TraceRow>, u64)> {
        let mut rows = Rows::new("t", from)?;
        let read = rows.by_ref().collect::<Result<Vec<_>>>()?;
        assert!(rows.next().is_none());
        Ok((read, rows.cut_bytes()))
    }

    #[test]
    fn rows_are_read_as_they_were_written_however_few_bytes_come_at_once() {
        let (bytes, rows) = trace();
        assert_eq!(read(&bytes[..]).unwrap(), (rows.clone(), 0));
        assert_eq!(read(Drops(&bytes)).unwrap(), (rows, 0));
    }

    #[test]
    fn a_cut_row_ends_them_and_is_counted() {
        let (bytes, rows) = trace();
        let mut ends = vec![begin().len()];
        for row in &rows {
            let mut whole = Vec::new();
            append(row, &mut whole);
            ends.push(ends[ends.len() - 1] + whole.len());
        }
        for length in begin().len()..bytes.len() {
            let whole = ends.iter().rposition(|end| *end <= length).unwrap();
            let (read, cut) = read(&bytes[..length]).unwrap();
            assert_eq!((&read[..], cut), (&rows[..whole], (length - ends[whole]) as u64));
        }
        for length in 0..begin().len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
    }

    /// A step of no bytes takes one of the row, and some fifty of memory.
    #[test]
    fn rows_of_a_great_many_steps_or_parents_are_damage() {
        let context = [0; 9];
        for (count, is_sound) in [(1_000, true), (STEPS_MAX, true), (STEPS_MAX + 1, false)] {
            let mut find = Encoder::new();
            find.varint(4);
            find.varint(count as u64);
            find.raw(&vec![0; count + 1]);
            find.raw(&context);
            let mut commit = Encoder::new();
            commit.raw(&[7, 0, 0]);
            commit.raw(&[0; 9]);
            commit.varint(count as u64);
            commit.raw(&vec![0; 2 * count]);
            commit.raw(&context);
            for row in [find, commit] {
                let mut bytes = Encoder::new();
                bytes.raw(&begin());
                bytes.bytes_with_length(row.bytes());
                match read(bytes.bytes()) {
                    Ok((rows, _)) => assert!(is_sound && rows.len() == 1, "{count}"),
                    Err(error) => {
                        assert_eq!(error.kind(), crate::error::Kind::Corrupt, "{error}");
                        assert!(!is_sound, "{count}: {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_that_are_none_take_no_memory() {
        for length in
            [&[0xff; 9][..], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &[0x80, 0]]
        {
            let bytes = [&begin()[..], length, &[0; 40]].concat();
            let (rows, cut) = read(&bytes[..]).unwrap();
            assert_eq!((rows.len(), cut), (0, (length.len() + 40) as u64));
        }
        // Longer than any row, and there.
        let length = [0x81, 0x80, 0x80, 0x80, 0x08];
        let endless = begin().into_iter().chain(length);
        let head: Vec<u8> = endless.collect();
        assert_eq!(Decoder::new("t", 0, &length).varint().unwrap(), (1 << 31) + 1);
        assert!(read(&head[..]).is_ok_and(|(rows, cut)| rows.is_empty() && cut == 5));
    }
}
