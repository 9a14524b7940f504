//! What can be read of chunks that are damaged, whatever became of what leads there.
//!
//! Each record has a checksum over its store and its logical offset, so it is known wherever it is found: of a chunk without
//! the heads of its batches, and in a sparse one without its mapping.

use std::ops::Range;
use std::sync::Arc;

use crate::cache::PAGE;
use crate::context::files::commit::CommitBody;
use crate::context::files::record::{self, Record, Tag};
use crate::context::files::sparse::{self, KeptRecord, SparseFile, SparseWriter};
use crate::context::hash::{self, CommitHash};
use crate::disk::{Disk, File};
use crate::error::Result;
use crate::file::append::{self, HEAD, REMNANT_BYTES, Remnant};
use crate::format::header;
use crate::order::BTreeMap;

/// What records say that are whole by themselves, by their logical offsets.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) commits: BTreeMap<u64, (CommitHash, CommitBody)>,
    /// Branches that were set, or removed by a hash of zeros.
    pub(super) references: BTreeMap<u64, (Vec<u8>, CommitHash)>,
}

impl Records {
    /// Takes what a record says of commits and branches.
    pub(super) fn take(&mut self, path: &str, place: u64, offset: u64, found: &Record<'_>) {
        match found.tag {
            Tag::Commit => {
                if let Ok(body) = CommitBody::decode(path, place, offset, found.body) {
                    self.commits.insert(offset, (found.hash.into(), body));
                }
            }
            Tag::Reference => {
                let named = (found.body.to_vec(), CommitHash::new(found.hash));
                self.references.insert(offset, named);
            }
            _ => {}
        }
    }

    /// Whether there is any from `offset` on.
    pub(super) fn go_on_from(&self, offset: u64) -> bool {
        self.commits.range(offset..).next().is_some()
            || self.references.range(offset..).next().is_some()
    }

    /// Takes the record that may begin with `bytes`, if it is one of a commit or of a branch. Returns its length.
    fn take_if(
        &mut self,
        path: &str,
        place: u64,
        store: u64,
        base: u64,
        bytes: &[u8],
    ) -> Option<u64> {
        let tag = bytes.first().copied().and_then(Tag::of);
        if !matches!(tag, Some(Tag::Commit | Tag::Reference)) {
            return None;
        }
        let length = record::length(bytes).filter(|length| *length <= bytes.len() as u64)?;
        let bytes = &bytes[..length as usize];
        let found = record::take(path, place, store, base + place, bytes).ok()?;
        self.take(path, place, base + place, &found);
        Some(length)
    }
}

/// Takes the commits and branches of a whole chunk, which begins at `base`. Returns the first and the last place at which
/// it is not as it was written.
pub(super) fn whole(
    file: &dyn File,
    (identity, store, base): (u64, u64, u64),
    into: &mut Records,
) -> Result<Option<(u64, u64)>> {
    let path = file.path();
    append::remnants(file, identity, |found| match found {
        Remnant::Record(start, payload, is_whole) => {
            let (mut at, mut is_lost) = (0, false);
            while at < payload.len() {
                let (place, rest) = (start + at as u64, &payload[at..]);
                let length = record::length(rest).filter(|length| *length <= rest.len() as u64);
                let found = length.filter(|_| !is_lost).and_then(|length| {
                    let bytes = &rest[..length as usize];
                    record::take(path, place, store, base + place, bytes).ok()
                });
                match found {
                    Some(found) => {
                        into.take(path, place, base + place, &found);
                        at += found.length;
                    }
                    None if *is_whole => break,
                    // The length of one that is damaged says nothing: from here on each byte may begin one.
                    None => {
                        is_lost = true;
                        let piece = &rest[..rest.len().min(REMNANT_BYTES)];
                        let length = into.take_if(path, place, store, base, piece);
                        at += length.unwrap_or(1) as usize;
                    }
                }
            }
        }
        Remnant::Byte(place, bytes) => {
            into.take_if(path, *place, store, base, bytes);
        }
    })
}

/// Where the records are that are whole in the bytes of a whole chunk, which begins at `base`, whatever became of those before
/// them.
pub(super) fn of_whole(bytes: &[u8], store: u64, base: u64) -> Vec<Range<usize>> {
    let (mut found, mut at, mut end) = (Vec::new(), header::LENGTH, header::LENGTH);
    while at < bytes.len() {
        let (place, rest) = (at as u64, &bytes[at..]);
        // Of bytes that only may be a record, as each behind damage, a short piece is looked at.
        let is_next = at == end || at == end + HEAD;
        let piece = if is_next { rest } else { &rest[..rest.len().min(REMNANT_BYTES)] };
        let length = Tag::of(piece[0])
            .and_then(|_| record::take("", place, store, base.saturating_add(place), piece).ok());
        match length.map(|it| it.length) {
            Some(length) => {
                found.push(at..at + length);
                at += length;
                end = at;
            }
            None => at += 1,
        }
    }
    found
}

/// The records that are in the sparse file of `identity`, in the order of their logical offsets, which are in `within`; the
/// first is where its chunks begin. Reads all of it into memory.
pub(super) fn of_sparse(
    bytes: &[u8],
    (identity, store): (u64, u64),
    within: &Range<u64>,
) -> Vec<KeptRecord> {
    let (mut known, mut end) = (BTreeMap::new(), bytes.len());
    for (number, page) in (0..).zip(bytes.chunks_exact(PAGE)) {
        let page: &[u8; PAGE] = page.try_into().expect("it is a page");
        let Some(entries) = sparse::lone_entries(identity, number, page) else { continue };
        end = end.min(number as usize * PAGE);
        known.extend(entries.map(|entry| (entry.place, entry)));
    }
    let (mut found, mut at) = (BTreeMap::new(), header::LENGTH);
    // The next one begins right behind the one before.
    let mut is_next = true;
    while at < end {
        let place = at as u64;
        let rest = &bytes[at..end];
        if let Some(entry) = known.get(&place) {
            let offset = within.start.saturating_add(entry.distance);
            if let Ok(record) = record::take("", place, store, offset, rest) {
                found.insert(offset, *entry);
                (at, is_next) = (at + record.length, true);
                continue;
            }
        } else {
            // It ends before the next one that the mapping names, and its offset is before that one's.
            let next = known.range(place..).next().map(|(_, entry)| entry);
            let room = next.map_or(end, |next| end.min(next.place as usize));
            let before = next.map_or(within.end, |next| within.start.saturating_add(next.distance));
            let after = found.last_key_value().map_or(within.start, |(offset, _)| offset + 1);
            let guess = Guess { store, offsets: after..before.min(within.end), ends_at: room };
            if let Some((offset, length)) = guess.at(bytes, at, is_next) {
                let distance = offset - within.start;
                found.insert(offset, KeptRecord { distance, place, is_object: true });
                (at, is_next) = (at + length, true);
                continue;
            }
        }
        (at, is_next) = (at + 1, false);
    }
    found.into_values().collect()
}

/// Where a record may be that nothing names.
struct Guess {
    store: u64,
    offsets: Range<u64>,
    /// Where the next one begins that is named, or all end.
    ends_at: usize,
}

impl Guess {
    /// Offset and length of the record at `at` of `bytes`. Behind damage each byte may begin one, and of the thousands in a
    /// damaged value some seem to: so one that does not stand behind another has to be what its hash says, or another has to
    /// stand behind it.
    fn at(&self, bytes: &[u8], at: usize, is_next: bool) -> Option<(u64, usize)> {
        let rest = &bytes[at..self.ends_at];
        // Of bytes that only may be a record a short piece is looked at.
        let piece = if is_next { rest } else { &rest[..rest.len().min(REMNANT_BYTES)] };
        let (offset, length) = record::written_for(self.store, &self.offsets, piece)?;
        let is_right = || {
            let found = record::take("", at as u64, self.store, offset, piece).ok()?;
            Some(found.tag == Tag::Value && hash::value(found.body) == found.hash)
        };
        let is_followed = || {
            let behind = &rest[length..];
            behind.is_empty()
                || record::written_for(self.store, &(offset + 1..self.offsets.end), behind)
                    .is_some()
        };
        (is_next || is_right() == Some(true) || is_followed()).then_some((offset, length))
    }
}

/// Writes the file anew as `path` of `disk`, with the records `found` of `bytes`.
pub(super) fn rewrite(
    disk: &Arc<dyn Disk>,
    path: &str,
    (identity, store, generation): (u64, u64, u64),
    bytes: &[u8],
    found: &[KeptRecord],
) -> Result<SparseFile> {
    let mut writer = SparseWriter::create(&**disk, path, identity, store)?;
    for entry in found {
        let rest = &bytes[entry.place as usize..];
        let length = record::length(rest).map_or(0, |length| length as usize);
        writer.push(entry.distance, entry.is_object, &rest[..length.min(rest.len())])?;
    }
    writer.finish(generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec::Encoder;

    const STORE: u64 = 7;

    fn put(out: &mut Encoder, offset: u64, tag: Tag, body: &[u8]) {
        record::put(out, STORE, offset, tag, &hash::value(body), body);
    }

    /// What seems to be a record within a damaged one hides none of those behind it.
    #[test]
    fn what_only_seems_to_be_a_record_hides_no_whole_one() {
        let mut seems = Encoder::new();
        put(&mut seems, 900_000, Tag::Flat, &[9; 30]);
        let value = [&[1; 50][..], seems.bytes(), &[1; 50]].concat();
        let mut out = Encoder::new();
        out.raw(&[0; header::LENGTH]);
        let mut offsets = Vec::new();
        for number in 0..6_u8 {
            let offset = 1_000 + 100 * u64::from(number);
            if number == 2 {
                put(&mut out, offset, Tag::Value, &value);
                continue;
            }
            put(&mut out, offset, Tag::Value, &[number; 40]);
            offsets.push(offset);
        }
        let mut bytes = out.finish();
        let damaged = bytes.windows(50).position(|window| window == [1; 50]).unwrap();
        bytes[damaged] ^= 4;
        let found = of_sparse(&bytes, (1, STORE), &(0..1 << 20));
        let found: Vec<u64> = found.iter().map(|entry| entry.distance).collect();
        assert_eq!(found, offsets);
    }
}
