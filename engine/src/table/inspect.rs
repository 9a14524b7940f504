//! Describes a table's files, whatever their state: what can be decoded is, the rest is noted.
//!
//! Everything here takes bytes and fails never, because the files that people look at are broken.

use std::fmt::Write as _;

use super::filter::Filter;
use super::index::{FIRST_PAGE, Index};
use super::page::{PAGE_BYTES, Page, check_seal};
use super::segment::{Footer, page_offset};
use crate::format::header::{self, Header};
use crate::outline::Outline;

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

/// The outline of the first 32 bytes of any file of ours.
#[must_use]
pub fn header(file: &str, bytes: &[u8]) -> Outline {
    let span = 0..bytes.len().min(header::LENGTH) as u64;
    let outline = Outline::new("header", span);
    match Header::decode(file, bytes) {
        Ok(header) => outline
            .field("kind", header.kind.name())
            .field("version", header.version)
            .field("identity", format_args!("{:016x}", header.identity))
            .field("store", format_args!("{:016x}", header.store)),
        Err(error) => outline.damaged(error),
    }
}

/// The identity that a header page claims, right or not, for checking the rest of a damaged file.
fn claimed_identity(bytes: &[u8]) -> u64 {
    let field = bytes.get(12..20).and_then(|field| field.try_into().ok());
    field.map_or(0, u64::from_le_bytes)
}

/// The outline of a segment file: header, every page, filter, index and footer.
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
    let mut number = FIRST_PAGE;
    while number < end.min(pages) {
        let (outline, count) = page(file, identity, bytes, number, end);
        whole.children.push(outline);
        number += count;
    }
    if let Ok(footer) = &footer {
        whole.children.extend(filter(file, identity, bytes, footer));
        whole.children.push(index(file, identity, bytes, footer));
    }
    let place = page_offset(pages - 1)..page_offset(pages);
    let outline = Outline::new("footer", place);
    whole.child(match footer {
        Ok(footer) => describe(&footer, outline),
        Err(error) => outline.damaged(error),
    })
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
fn page(file: &str, identity: u64, bytes: &[u8], number: u32, end: u32) -> (Outline, u32) {
    let start = page_offset(number);
    let label = format!("page {number}");
    let outline = |pages: u32| Outline::new(label, start..page_offset(number + pages));
    let head = region(bytes, number, PAGE_BYTES as u32).unwrap_or_default();
    let page = match Page::check(file, number, identity, head) {
        Ok(page) => page,
        Err(error) => return (outline(1).damaged(error), 1),
    };
    let overflow = (page.overflow() as u32).min(end - number - 1);
    let mut outline = outline(1 + overflow)
        .field("entries", page.count())
        .field("first", printed(page.key(0)))
        .field("last", printed(page.key(page.count() - 1)));
    if page.overflow() > 0 {
        outline = outline.field("overflow_pages", page.overflow());
        outline = outline.field("value_bytes", page.large_value_bytes());
    }
    if (overflow as usize) < page.overflow() {
        outline = outline.damaged("overflow pages reach beyond the last page");
    }
    for later in number + 1..=number + overflow {
        let bytes = region(bytes, later, PAGE_BYTES as u32).unwrap_or_default();
        if let Err(error) = check_seal(file, later, identity, bytes) {
            let span = page_offset(later)..page_offset(later + 1);
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
    let start = page_offset(footer.filter_page);
    let outline = Outline::new("filter", start..start + u64::from(footer.filter_bytes));
    let region = region(bytes, footer.filter_page, footer.filter_bytes).unwrap_or_default();
    Some(match Filter::decode(file, footer.filter_page, identity, region) {
        Ok(filter) => {
            outline.field("probes", filter.probes()).field("bytes", filter.memory_bytes())
        }
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
