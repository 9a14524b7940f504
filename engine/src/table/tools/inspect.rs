//! Describes a table's files, whatever their state: what can be decoded is, the rest is noted.
//!
//! Everything here takes bytes and fails never, because the files that people look at are broken.

mod log;

use std::fmt::Write as _;
use std::ops::Range;

use crate::error::{Error, Kind, Result};
use crate::format::checksum::stored;
use crate::format::codec::Decoder;
use crate::format::header::{self, FileKind, Header};
use crate::outline::Outline;
use crate::table::bytes::{
    FIRST_PAGE, Filter, Index, PAGE_BYTES, Page, PageList, RangeFilter, check_seal, page_list_bytes,
};
use crate::table::durable::snapshot::{
    LevelRecord, Manifest, MergeRecord, RunRecord, TableRecord, UnionRecord, decode_identity,
    decode_sections,
};
use crate::table::runs::blob::{decode_footer, decode_header};
use crate::table::runs::{Footer, SegmentMeta, page_offset};
use crate::table::shared::{Compression, paths};
use crate::trace;

pub use crate::file::inspect::header;
pub use log::{checkpoint, log};

/// A key as people read it: text in quotes when it is printable ASCII, else hexadecimal.
fn printed(key: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = &key[..key.len().min(SHOWN)];
    let more = if key.len() > SHOWN { "…" } else { "" };
    if shown.iter().all(u8::is_ascii_graphic) {
        return format!("\"{}\"{more}", String::from_utf8_lossy(shown));
    }
    let mut hex = String::with_capacity(2 * SHOWN + more.len());
    for byte in shown {
        let _ = write!(hex, "{byte:02x}"); // Writing to a string cannot fail.
    }
    hex + more
}

/// What a file of a session is by its name, for one whose beginning is lost.
fn kind_by_name(name: &str) -> Option<FileKind> {
    let of_suffix = || match name.rsplit_once('.')?.1 {
        "segment" => Some(FileKind::Segment),
        "blob" => Some(FileKind::Blob),
        "snapshot" => Some(FileKind::Snapshot),
        "log" => Some(FileKind::Log),
        _ => None,
    };
    match name {
        paths::SESSION => Some(FileKind::Session),
        paths::CHECKPOINT => Some(FileKind::Checkpoint),
        _ => of_suffix(),
    }
}

/// A lock says which process had it last, in a line.
const LOCK_BYTES_MAX: usize = 256;

/// The outline of any file of a session, called `file`. What it is, its header's letter says, also
/// when the rest of the header is damaged, and else its name. `Invalid` when neither is ours.
///
/// ```
/// use varvite::{Session, SessionOptions, table::inspect};
/// use varvite::disk::memory::MemoryDisk;
///
/// let disk = MemoryDisk::seeded(1);
/// Session::create(disk.clone(), SessionOptions::default())?.close()?;
/// let mut bytes = disk.bytes("session").expect("a session has the file");
/// assert_eq!(inspect::file("session", &bytes)?.damage_count(), 0);
/// bytes[33] ^= 1;
/// let outline = inspect::file("session", &bytes)?;
/// assert_eq!(outline.damage_count(), 1);
/// println!("{outline}");
/// # Ok::<(), varvite::Error>(())
/// ```
pub fn file(file: &str, bytes: &[u8]) -> Result<Outline> {
    let name = file.rsplit('/').next().unwrap_or(file);
    if name == paths::LOCK && bytes.len() <= LOCK_BYTES_MAX {
        let holder = String::from_utf8_lossy(bytes);
        let whole = Outline::new("lock", 0..bytes.len() as u64).field("file", file);
        return Ok(whole.field("last held by", holder.trim()));
    }
    // Whatever is in it, since it is not synced.
    if name == paths::RESERVE {
        let whole = Outline::new("reserve", 0..bytes.len() as u64).field("file", file);
        return Ok(whole.field("what", "room for what frees more on a full disk"));
    }
    let named = kind_by_name(name);
    match Header::decode(file, bytes) {
        Err(error) if error.kind() == Kind::Invalid && named.is_none() => return Err(error),
        _ => {}
    }
    let letter = bytes.get(7).copied();
    let row = FileKind::ALL.iter().find(|row| Some(row.1) == letter);
    Ok(match row.map(|row| row.0).or(named) {
        Some(FileKind::Segment) => segment(file, bytes),
        Some(FileKind::Blob) => blob(file, bytes),
        Some(FileKind::Snapshot) => snapshot(file, bytes),
        Some(FileKind::Session) => session(file, bytes),
        Some(FileKind::Log) => log(file, bytes),
        Some(FileKind::Checkpoint) => checkpoint(file, bytes),
        Some(FileKind::Trace) => trace::inspect(file, bytes),
        // A context's files are described by the context's inspector.
        Some(
            FileKind::Pack
            | FileKind::Control
            | FileKind::Sparse
            | FileKind::ContextSnapshot
            | FileKind::ImportState,
        )
        | None => {
            let whole = Outline::new("file of an unknown kind", 0..bytes.len() as u64);
            whole.field("file", file).child(header(file, bytes))
        }
    })
}

/// The outline of a blob file: which pages are damaged, and what the footer says.
#[must_use]
pub fn blob(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("blob", 0..bytes.len() as u64).field("file", file);
    let whole = whole.child(header(file, bytes));
    let pages = bytes.chunks(PAGE_BYTES);
    let Ok(identity) = decode_header(file, &bytes[..bytes.len().min(PAGE_BYTES)]) else {
        return whole.damaged("the first page of a blob file is damaged");
    };
    if !bytes.len().is_multiple_of(PAGE_BYTES) || pages.len() < 2 {
        return whole.damaged("the file is not whole pages, at least 2");
    }
    let (last, count) = (pages.len() - 1, pages.len() as u32);
    let span = |page: usize| (page * PAGE_BYTES) as u64..((page + 1) * PAGE_BYTES) as u64;
    let mut values = Outline::new("values", PAGE_BYTES as u64..(last * PAGE_BYTES) as u64);
    for (number, page) in pages.clone().enumerate().take(last).skip(1) {
        if let Err(error) = check_seal(file, number as u32, identity, page) {
            values =
                values.child(Outline::new(format!("page {number}"), span(number)).damaged(error));
        }
    }
    let footer = Outline::new("footer", span(last));
    let footer = match decode_footer(file, 0, identity, count, &bytes[last * PAGE_BYTES..]) {
        Ok(meta) => footer
            .field("values", meta.values)
            .field("bytes", meta.bytes)
            .field("checksum", format_args!("{:08x}", meta.checksum)),
        Err(error) => footer.damaged(error),
    };
    whole.child(values).child(footer)
}

/// The outline of the file that says what a session is.
#[must_use]
pub fn session(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("session", 0..bytes.len() as u64).field("file", file);
    let whole = whole.child(header(file, bytes));
    let rest = bytes.get(header::LENGTH..).unwrap_or_default();
    let mut from = Decoder::new(file, header::LENGTH as u64, rest);
    let span = header::LENGTH as u64..bytes.len().max(header::LENGTH) as u64;
    let salt = Outline::new("salt and checksum", span);
    whole.child(match from.u64() {
        Err(error) => salt.damaged(error),
        Ok(value) => {
            let salt = salt.field("salt", format_args!("{value:016x}"));
            match check_end(file, bytes, header::LENGTH + 8) {
                Ok(()) => salt,
                Err(error) => salt.damaged(error),
            }
        }
    })
}

/// `Corrupt` unless the file is `covered` bytes, a checksum over them, and nothing more.
fn check_end(file: &str, bytes: &[u8], covered: usize) -> Result<()> {
    let end = bytes.get(covered..).unwrap_or_default();
    let mut from = Decoder::new(file, covered as u64, end);
    let (found, expected) = (from.u32()?, stored(&bytes[..covered]));
    if found != expected {
        let expected = format_args!("checksum {expected:08x}");
        return Err(Error::corrupt(file, covered as u64, expected, format_args!("{found:08x}")));
    }
    from.finish()
}

/// The outline of a snapshot's manifest. When its checksum is wrong, what still decodes is shown.
#[must_use]
pub fn snapshot(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("snapshot", 0..bytes.len() as u64).field("file", file);
    let mut whole = whole.child(header(file, bytes));
    let covered = bytes.len().saturating_sub(4).max(header::LENGTH);
    let body = bytes.get(header::LENGTH..covered).unwrap_or_default();
    let mut from = Decoder::new(file, header::LENGTH as u64, body);
    let mut pieces = Vec::new();
    if let Err(error) = manifest(&mut from, &mut pieces) {
        let rest = from.offset()..bytes.len() as u64;
        pieces.push(Outline::new("undecoded", rest).damaged(error));
    }
    whole.children.extend(pieces);
    let place = covered as u64..bytes.len().max(covered) as u64;
    let checksum = Outline::new("checksum", place);
    let mut whole = whole.child(match check_end(file, bytes, covered.min(bytes.len())) {
        Ok(()) => checksum,
        Err(error) => checksum.damaged(error),
    });
    // Every piece may be sound and their sum not, as when two describe one segment differently.
    if whole.damage_count() == 0 {
        let decoded = Manifest::decode(file, bytes);
        whole.damage = decoded.err().map(|error| error.to_string());
    }
    whole
}

/// Decodes a manifest's body piece by piece, keeping each piece before the next may fail.
fn manifest(from: &mut Decoder<'_>, pieces: &mut Vec<Outline>) -> Result<()> {
    let start = from.offset();
    let (name, sequence) = decode_identity(from)?;
    let outline = Outline::new("snapshot", start..from.offset()).field("name", name);
    pieces.push(outline.field("sequence", sequence));
    let start = from.offset();
    let label = from.text()?;
    pieces
        .push(Outline::new("label", start..from.offset()).field("text", format_args!("{label:?}")));
    let start = from.offset();
    let payload = from.bytes_with_length()?;
    let outline = Outline::new("payload", start..from.offset()).field("bytes", payload.len());
    pieces.push(outline.field("begins", printed(payload)));
    tables(from, pieces)
}

/// The tables of a manifest or a checkpoint, and what stands behind them.
fn tables(from: &mut Decoder<'_>, pieces: &mut Vec<Outline>) -> Result<()> {
    let mut records = Vec::new();
    for _ in 0..from.varint()? {
        let start = from.offset();
        let record = TableRecord::decode(from)?;
        pieces.push(table(&record, start..from.offset()));
        records.push(record);
    }
    let start = from.offset();
    decode_sections(&mut records, from)?;
    for record in &records {
        if let Some(it) = &record.union {
            pieces.push(union(record, it, &(start..from.offset())));
        }
    }
    Ok(())
}

/// A pending union: its record stands somewhere in the `span` of all of them.
fn union(table: &TableRecord, union: &UnionRecord, span: &Range<u64>) -> Outline {
    let label = format!("union of table {}", table.name);
    let mut outline = merge(&label, &union.merging, span);
    for ((input, end), after) in outline.children.iter_mut().zip(&union.ends).zip(&union.after) {
        let mut piece = input.clone().field("table_ends_before", end);
        if let Some(after) = after {
            piece = piece.field("after", printed(after));
        }
        *input = piece;
    }
    outline
}

fn table(record: &TableRecord, span: Range<u64>) -> Outline {
    let at = span.clone();
    let mut outline = Outline::new(format!("table {}", record.name), span)
        .field("write_buffer_bytes", record.write_buffer_bytes)
        .field("size_ratio", record.size_ratio)
        .field("lookups", format_args!("{:?}", record.lookups))
        .field("filter_bits", record.filter_bits)
        .field("filter_bytes_max", record.filter_bytes_max)
        .field("seals", record.seals)
        .field("operator", record.operator.as_deref().unwrap_or("none"));
    if record.compression != Compression::None {
        outline = outline.field("compression", format_args!("{:?}", record.compression));
    }
    if !record.base.is_empty() {
        outline.children.push(run("write buffer", &record.base, &at));
    }
    for (index, level) in record.levels.iter().enumerate() {
        outline.children.push(self::level(index, level, &at));
    }
    if !record.last.is_empty() {
        outline.children.push(run("last run", &record.last, &at));
    }
    outline
}

fn level(index: usize, level: &LevelRecord, span: &Range<u64>) -> Outline {
    let mut outline = Outline::new(format!("level {}", index + 1), span.clone());
    outline.children.extend(level.runs.iter().map(|it| run("run", it, span)));
    outline.children.extend(level.merging.iter().map(|it| merge("merge", it, span)));
    outline
}

fn merge(label: &str, merge: &MergeRecord, span: &Range<u64>) -> Outline {
    let mut outline = Outline::new(label, span.clone())
        .field("spent_bytes", merge.spent)
        .field("debt_bytes", merge.debt)
        .field("due", merge.due)
        .field("bottom", merge.bottom)
        .field("to_last", merge.to_last)
        .field("done", merge.done)
        .field("filter_bits", merge.filter_bits);
    if let Some(boundary) = &merge.boundary {
        outline = outline.field("done_before", printed(boundary));
    }
    outline.children.extend(merge.inputs.iter().map(|it| run("input", it, span)));
    outline.children.push(run("output so far", &merge.outputs, span));
    outline
}

/// A run of a manifest: its records stand somewhere in the table's `span`.
fn run(label: &str, record: &RunRecord, span: &Range<u64>) -> Outline {
    let entries = record.iter().map(SegmentMeta::entries).fold(0, u64::saturating_add);
    let outline =
        Outline::new(label, span.clone()).field("segments", record.len()).field("entries", entries);
    record.iter().fold(outline, |outline, segment| {
        let piece = Outline::new(format!("segment {:016x}", segment.id), span.clone());
        outline.child(
            piece
                .field("identity", format_args!("{:016x}", segment.identity))
                .field("entries", segment.entries())
                .field("bytes", segment.file_bytes())
                .field("first", printed(&segment.first_key))
                .field("last", printed(&segment.last_key)),
        )
    })
}

/// The identity that a header page claims, right or not, for checking the rest of a damaged file.
fn claimed_identity(bytes: &[u8]) -> u64 {
    let field = bytes.get(12..20).and_then(|field| field.try_into().ok());
    field.map_or(0, u64::from_le_bytes)
}

/// The outline of a segment file: header, every page, filters, index and footer.
///
/// Without a readable footer, all that follows the header is taken for pages. Each piece is checked
/// on its own.
#[must_use]
pub fn segment(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("segment", 0..bytes.len() as u64).field("file", file);
    let identity = claimed_identity(bytes);
    let pages = (bytes.len() / PAGE_BYTES).min(u32::MAX as usize) as u32;
    let mut whole = whole.child(header_page(file, identity, bytes));
    if !bytes.len().is_multiple_of(PAGE_BYTES) {
        whole = whole.damaged(format_args!("{} bytes are no whole pages", bytes.len()));
    }
    if pages < 2 {
        return whole;
    }
    let last = region(bytes, pages - 1, PAGE_BYTES as u32).unwrap_or_default();
    let footer = Footer::decode(file, identity, pages, last);
    let end = footer.as_ref().map_or(pages - 1, |footer| FIRST_PAGE + footer.pages);
    let packed = footer.as_ref().is_ok_and(Footer::is_packed);
    if let (true, Ok(footer)) = (packed, &footer) {
        whole.children.extend(packed_pages(file, identity, bytes, footer));
    }
    let (mut source, mut number) = (Pages::Plain(bytes), FIRST_PAGE);
    while !packed && number < end.min(pages) {
        let (outline, count) = page(file, identity, &mut source, number, end);
        whole.children.push(outline);
        number += count;
    }
    if let Ok(footer) = &footer {
        whole.children.extend(filter(file, identity, bytes, footer));
        whole.children.extend(range_filter(file, identity, bytes, footer));
        whole.children.push(index(file, identity, bytes, footer));
    }
    let place = page_offset(pages - 1)..page_offset(pages);
    let outline = Outline::new("footer", place);
    whole.child(match footer {
        Ok(footer) => describe(&footer, outline),
        Err(error) => outline.damaged(error),
    })
}

/// The outlines of packed pages, each where it is stored, and of their list.
fn packed_pages(file: &str, identity: u64, bytes: &[u8], footer: &Footer) -> Vec<Outline> {
    let at = footer.list_page();
    let length = page_list_bytes(footer.pages);
    let place = page_offset(at)..page_offset(at) + length;
    let outline = Outline::new("list of packed pages", place).field("bytes", footer.packed_bytes);
    let stored = u32::try_from(length).ok().and_then(|length| region(bytes, at, length));
    let list = stored.unwrap_or_default();
    let list = match PageList::decode(file, at, identity, footer.packed_bytes, list) {
        Ok(list) => list,
        Err(error) => return vec![outline.damaged(error)],
    };
    let end = FIRST_PAGE + list.pages();
    let (page, mut number) = (vec![0; PAGE_BYTES], FIRST_PAGE);
    let mut source = Pages::Packed { bytes, list: &list, page };
    let mut pages = Vec::new();
    while number < end {
        let (outline, count) = self::page(file, identity, &mut source, number, end);
        pages.push(outline);
        number += count;
    }
    pages.push(outline);
    pages
}

/// The pages of a segment file.
enum Pages<'a> {
    /// Each at its number.
    Plain(&'a [u8]),
    /// Where the list says; restored one at a time, so that a small file of many pages takes no more memory.
    Packed { bytes: &'a [u8], list: &'a PageList, page: Vec<u8> },
}

impl Pages<'_> {
    /// Page `number`; nothing when it is not there or cannot be restored.
    fn get(&mut self, (file, identity): (&str, u64), number: u32) -> &[u8] {
        match self {
            Pages::Plain(bytes) => region(bytes, number, PAGE_BYTES as u32).unwrap_or_default(),
            Pages::Packed { bytes, list, page } => {
                let span = list.offset(number) as usize..list.offset(number + 1) as usize;
                match bytes.get(span).map(|it| list.unpack((file, identity), number, it, page)) {
                    Some(Ok(())) => page,
                    _ => &[],
                }
            }
        }
    }

    /// Where `count` pages from `number` on are in the file.
    fn span(&self, number: u32, count: u32) -> Range<u64> {
        match self {
            Pages::Plain(_) => page_offset(number)..page_offset(number + count),
            Pages::Packed { list, .. } => list.offset(number)..list.offset(number + count),
        }
    }
}

fn region(bytes: &[u8], page: u32, length: u32) -> Option<&[u8]> {
    let start = usize::try_from(page_offset(page)).ok()?;
    bytes.get(start..start.checked_add(length as usize)?)
}

fn header_page(file: &str, identity: u64, bytes: &[u8]) -> Outline {
    let mut outline = header(file, bytes);
    let sealed = match bytes.get(..PAGE_BYTES) {
        Some(page) => check_seal(file, 0, identity, page).map_err(|error| error.to_string()),
        None => Err("the file ends inside the header page".to_owned()),
    };
    outline.span.end = bytes.len().min(PAGE_BYTES) as u64;
    if let (None, Err(damage)) = (&outline.damage, sealed) {
        outline.damage = Some(damage);
    }
    outline
}

fn describe(footer: &Footer, outline: Outline) -> Outline {
    let counts = &footer.counts;
    outline
        .field("pages", footer.pages)
        .field("entries", counts.entries())
        .field("inserts", counts.inserts)
        .field("deletes", counts.deletes)
        .field("upserts", counts.upserts)
        .field("key_bytes", counts.key_bytes)
        .field("value_bytes", counts.value_bytes)
        .field("bits_per_entry", footer.bits_per_entry)
        .field("salt", format_args!("{:016x}", footer.salt))
}

/// The outline of the page `number`, and how many pages it takes with its overflow pages.
fn page(file: &str, identity: u64, pages: &mut Pages<'_>, number: u32, end: u32) -> (Outline, u32) {
    let label = format!("page {number}");
    let alone = Outline::new(&*label, pages.span(number, 1));
    let head = pages.get((file, identity), number);
    let page = match Page::check(file, number, identity, head) {
        Ok(page) => page,
        Err(error) => return (alone.damaged(error), 1),
    };
    let overflow = (page.overflow() as u32).min(end - number - 1);
    let mut outline = alone
        .field("entries", page.count())
        .field("first", printed(&page.key(0)))
        .field("last", printed(&page.key(page.count() - 1)));
    if page.shares() {
        let sharing = (0..page.count()).filter(|&entry| !page.start_of(entry).is_empty());
        outline = outline.field("sharing", sharing.count());
    }
    if page.overflow() > 0 {
        outline = outline.field("overflow_pages", page.overflow());
        outline = outline.field("value_bytes", page.large_value_bytes());
    }
    if (overflow as usize) < page.overflow() {
        outline = outline.damaged("overflow pages reach beyond the last page");
    }
    outline.span = pages.span(number, 1 + overflow);
    for later in number + 1..=number + overflow {
        let bytes = pages.get((file, identity), later);
        if let Err(error) = check_seal(file, later, identity, bytes) {
            let span = pages.span(later, 1);
            let damaged = Outline::new(format!("overflow page {later}"), span).damaged(error);
            outline = outline.child(damaged);
        }
    }
    (outline, 1 + overflow)
}

fn filter(file: &str, identity: u64, bytes: &[u8], footer: &Footer) -> Option<Outline> {
    if footer.filter_bytes == 0 {
        return None;
    }
    let (start, length) = (page_offset(footer.filter_page), footer.bloom_bytes());
    let outline = Outline::new("filter", start..start + u64::from(length));
    let region = region(bytes, footer.filter_page, length).unwrap_or_default();
    Some(match Filter::decode(file, footer.filter_page, identity, region) {
        Ok(filter) => {
            outline.field("probes", filter.probes()).field("bytes", filter.memory_bytes())
        }
        Err(error) => outline.damaged(error),
    })
}

fn range_filter(file: &str, identity: u64, bytes: &[u8], footer: &Footer) -> Option<Outline> {
    let (page, length) = footer.range_filter()?;
    let start = page_offset(page);
    let outline = Outline::new("range filter", start..start + u64::from(length));
    let region = region(bytes, page, length).unwrap_or_default();
    Some(match RangeFilter::decode(file, page, identity, region) {
        Ok(filter) => outline
            .field("buckets", filter.bucket_count())
            .field("set", filter.set_count())
            .field("shared_bytes", filter.shared()),
        Err(error) => outline.damaged(error),
    })
}

fn index(file: &str, identity: u64, bytes: &[u8], footer: &Footer) -> Outline {
    let start = page_offset(footer.index_page);
    let outline = Outline::new("index", start..start + u64::from(footer.index_bytes));
    let region = region(bytes, footer.index_page, footer.index_bytes).unwrap_or_default();
    match Index::decode(file, footer.index_page, identity, region) {
        Ok(index) => outline
            .field("heads", index.heads())
            .field("full_keys", index.ties())
            .field("interpolates", index.interpolates())
            .field("first", printed(index.first_key()))
            .field("last", printed(index.last_key())),
        Err(error) => outline.damaged(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::durable::snapshot::NamedSegments;
    use crate::table::merge::Shape;
    use crate::table::shared::TableOptions;

    fn manifest() -> Vec<u8> {
        let table = TableRecord::new(
            "utxo",
            &TableOptions::utxo(),
            &Shape::default(),
            None,
            &mut NamedSegments::new(),
        );
        let header = Header::new(FileKind::Snapshot, 1, 2);
        let payload = b"payload".to_vec();
        let (name, label) = ("one".to_owned(), "label".to_owned());
        Manifest { header, name, sequence: 1, label, payload, tables: vec![table] }.encode()
    }

    #[test]
    fn a_sound_manifest_shows_its_pieces() {
        let outline = file("one.snapshot", &manifest()).unwrap();
        assert_eq!(outline.damage_count(), 0, "{outline}");
        let text = outline.to_string();
        assert!(text.contains("\"label\"") && text.contains("table utxo"), "{text}");
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_noticed() {
        let bytes = manifest();
        for length in 0..bytes.len() {
            match file("cut", &bytes[..length]) {
                Ok(outline) => assert!(outline.damage_count() > 0, "{length}: {outline}"),
                Err(error) => assert!(length < 7, "{length}: {error}"),
            }
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            match file("flipped", &damaged) {
                Ok(outline) => assert!(outline.damage_count() > 0, "{place}: {outline}"),
                Err(error) => assert!(place < 7, "{place}: {error}"),
            }
        }
    }
}
