//! Entries of many shapes, and segments and runs made of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use varvite::disk::{Access, Disk};
use varvite::raw::{
    EntryKind, EntryRef, Finished, Page, Run, Segment, SegmentBuilder, SegmentOptions,
};

/// A model of a sorted sequence of entries.
pub type Entries = BTreeMap<Vec<u8>, (EntryKind, Vec<u8>)>;

pub const SALT: u64 = 99;

/// Keys: of one length, with a long common prefix, that differ in trailing zeros, of any length.
fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let fixed = vec(vec(any::<u8>(), 34), 1..400);
    let shared = (0..60_usize, vec(vec(any::<u8>(), 1..12), 1..400)).prop_map(|(length, tails)| {
        tails.into_iter().map(|tail| [vec![b'p'; length], tail].concat()).collect()
    });
    // Begin alike twice: as rows of an index do, with keys of one length and of several.
    let rows = (any::<bool>(), vec((0..4_u8, 0..4_u8, any::<u16>(), 0..4_usize), 1..400)).prop_map(
        |(varies, rows)| {
            let key = |(account, block, number, longer): (u8, u8, u16, usize)| {
                let more = vec![7; if varies { longer * 90 } else { 0 }];
                [vec![account; 9], more, vec![block; 20], number.to_be_bytes().to_vec()].concat()
            };
            rows.into_iter().map(key).collect()
        },
    );
    let few_bytes = vec(vec(prop::sample::select(vec![0, 1, 255]), 1..14), 1..400);
    let long = vec(vec(any::<u8>(), 1..4_001), 1..12);
    prop_oneof![fixed, shared, rows, few_bytes, long]
}

fn value(selector: u16, fill: u8) -> Vec<u8> {
    // Mostly short ones, some that fill a page, a few with overflow pages.
    let length = match selector % 64 {
        0 => 4_000 + usize::from(selector) / 4,
        1 => 3_000 + usize::from(selector) % 1_200,
        2..8 => 0,
        _ => usize::from(selector) % 120,
    };
    vec![fill; length]
}

/// Entries in key order, at least one.
pub fn entries() -> impl Strategy<Value = Entries> {
    (keys(), vec((any::<u16>(), any::<u8>(), 0..3_usize), 400)).prop_map(|(keys, values)| {
        let values = values.into_iter().map(|(selector, fill, kind)| {
            let kind = EntryKind::ALL[kind];
            let value = value(selector, fill);
            (kind, if kind == EntryKind::Delete { Vec::new() } else { value })
        });
        keys.into_iter().zip(values).collect()
    })
}

pub fn entry_refs(entries: &Entries) -> impl Iterator<Item = EntryRef<'_>> {
    entries.iter().map(|(key, (kind, value))| EntryRef { kind: *kind, key, value })
}

/// An entry on its own: key, kind, value.
pub type OwnedEntry = (Vec<u8>, (EntryKind, Vec<u8>));

/// The entries of a checked page.
pub fn page_entries(page: &Page<'_>) -> Vec<OwnedEntry> {
    let entry = |i| (page.key(i).into_owned(), (page.kind(i), page.value(i).to_vec()));
    (0..page.count()).map(entry).collect()
}

/// Builds the segment file at `path`.
pub fn build(disk: &dyn Disk, path: &str, entries: &Entries, bits_per_entry: u32) -> Finished {
    let options = SegmentOptions {
        id: 1,
        identity: 0x1dea,
        store: 0x0570_4e00,
        salt: SALT,
        bits_per_entry,
        range_filter: true,
        access: Access::Buffered,
    };
    let mut builder = SegmentBuilder::new(disk, path, options).unwrap();
    for entry in entry_refs(entries) {
        builder.add(entry).unwrap();
    }
    builder.finish().unwrap()
}

/// A run of segments with the given numbers of entries, opened from the disk.
pub fn build_run(disk: &dyn Disk, entries: &Entries, sizes: &[usize]) -> Arc<Run> {
    let mut rest = entries.clone();
    let mut segments = Vec::new();
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = *sizes.next().expect("a size");
        let later = match rest.keys().nth(size).cloned() {
            Some(key) => rest.split_off(&key),
            None => Entries::new(),
        };
        let path = format!("{}.segment", segments.len());
        build(disk, &path, &rest, 10);
        segments.push(Arc::new(Segment::recover(disk, &path, 1, Access::Buffered).unwrap()));
        rest = later;
    }
    Arc::new(Run::new(segments))
}
