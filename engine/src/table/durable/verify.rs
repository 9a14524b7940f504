//! Checks a segment from its first byte to its last.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::hash::Salt;
use crate::order;
use crate::order::BTreeMap;
use crate::table::bytes::{EntryKind, Filter, RangeFilter};
use crate::table::runs::blob::BlobSpan;
use crate::table::runs::{ReadOptions, Run, RunReader, Segment};
use crate::table::shared::paths;

/// Checks every byte of a segment: pages, order, counts, filters and index.
pub fn segment(segment: &Arc<Segment>) -> Result<()> {
    let (filter, ranges) = (segment.filter()?, segment.read_range_filter()?);
    with_filters(segment, filter, ranges.as_ref())
}

/// The same without the filters, which can be made again from the rest.
pub fn segment_but_filters(segment: &Arc<Segment>) -> Result<()> {
    with_filters(segment, None, None)
}

fn with_filters(
    segment: &Arc<Segment>,
    filter: Option<&Filter>,
    ranges: Option<&RangeFilter>,
) -> Result<()> {
    let meta = segment.meta();
    let wrong = |what: &str, expected: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
        Error::corrupt(
            &paths::segment(meta.id),
            0,
            format_args!("{what} {expected}"),
            format_args!("{found}"),
        )
    };
    let index = segment.index()?;
    let salt = Salt::new(segment.salt());
    let run = Run::new(vec![Arc::clone(segment)]);
    let mut reader = RunReader::new(&run, None, ReadOptions::default())?;
    let (mut count, mut last): (u64, Option<Vec<u8>>) = (0, None);
    let mut uses = BTreeMap::new();
    while let Some(entry) = reader.peek() {
        let key = entry.key;
        if last.as_deref().is_some_and(|last| last >= key) {
            return Err(wrong("keys in order after entry", &count, &"a smaller key"));
        }
        if index.find(key).is_none() {
            return Err(wrong("an index that finds entry", &count, &"none"));
        }
        if filter.is_some_and(|filter| !filter.probe(salt.hash(key))) {
            return Err(wrong("a filter that passes entry", &count, &"one that does not"));
        }
        if ranges.is_some_and(|filter| !filter.may_hold(key)) {
            return Err(wrong("a range filter that passes entry", &count, &"one that does not"));
        }
        if count == 0 && key != &meta.first_key[..] {
            return Err(wrong("a first key", &"as in the footer", &"another"));
        }
        if entry.kind == EntryKind::Blob {
            let span = BlobSpan::decode(entry.value);
            let span = span.ok_or_else(|| wrong("a reference in entry", &count, &"none"))?;
            let (entries, bytes) = uses.entry(span.file).or_insert((0, 0));
            *entries += 1;
            *bytes += span.length;
            if let Some(blob) = segment.blobs().iter().find(|it| it.meta().identity == span.file) {
                blob.check_span(&span)?;
            }
        }
        count += 1;
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        reader.advance()?;
    }
    segment.read_blob_list()?;
    let listed = order::map(meta.blobs.iter().map(|it| (it.file.identity, (it.entries, it.bytes))));
    if uses != listed {
        return Err(wrong("references to blob files", &"as the footer lists them", &"others"));
    }
    if count != meta.entries() {
        return Err(wrong("a count of", &meta.entries(), &count));
    }
    if last.as_deref() != Some(&meta.last_key[..]) {
        return Err(wrong("a last key", &"as in the footer", &"another"));
    }
    Ok(())
}
