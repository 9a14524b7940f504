//! The k-way merge: entries of several sorted sources as one sorted stream, newest first on ties.
//!
//! Heads are compared by the first eight bytes of their keys, all in one array that a scan without
//! branches finds the least of; with at most a few dozen sources that beats a tree of losers, whose
//! every comparison is a coin toss for the branch predictor. Whole keys decide only equal prefixes.
//!
//! Invariant: sources are ordered from newest to oldest, and each is sorted with unique keys.

use crate::error::Result;
use crate::table::buffer::BufferStream;
use crate::table::bytes::operator::{self, MergeOperator};
use crate::table::bytes::{EntryKind, EntryRef, cost, prefix as key_prefix};
use crate::table::runs::RunReader;

/// Sources that a merge may have: as many as a 64-bit mask names.
pub const SOURCES_MAX: usize = 64;

/// Gets the value that an entry refers to.
pub type Fetch = Box<dyn Fn(&[u8]) -> Result<Vec<u8>> + Send>;

/// For sources that refer to no blobs.
pub fn no_fetch() -> Fetch {
    Box::new(|_| Ok(Vec::new()))
}

/// One sorted input.
pub enum MergeSource {
    /// A sealed write buffer.
    Buffer(BufferStream),
    /// A run on disk.
    Run(RunReader),
}

impl MergeSource {
    /// The entry that it stands on; `None` at the end.
    pub fn peek(&self) -> Option<EntryRef<'_>> {
        match self {
            MergeSource::Buffer(stream) => stream.peek(),
            MergeSource::Run(reader) => reader.peek(),
        }
    }

    /// Goes on to the next entry.
    pub fn advance(&mut self) -> Result<()> {
        match self {
            MergeSource::Buffer(stream) => {
                stream.next();
                Ok(())
            }
            MergeSource::Run(reader) => reader.advance(),
        }
    }

    /// The head's prefix; the greatest number once there is no head.
    #[inline]
    pub fn prefix(&self, skip: usize) -> u64 {
        match self {
            MergeSource::Buffer(stream) => {
                stream.peek().map_or(u64::MAX, |entry| key_prefix(&entry.key[skip..]))
            }
            MergeSource::Run(reader) => reader.prefix(),
        }
    }

    /// Bytes that it read from disk so far.
    pub fn bytes_read(&self) -> u64 {
        match self {
            MergeSource::Buffer(_) => 0,
            MergeSource::Run(reader) => reader.bytes_read(),
        }
    }
}

/// Sources being merged.
pub struct Merge {
    sources: Vec<MergeSource>,
    prefixes: Vec<u64>,
    /// Bytes that all keys share, left out of the prefixes.
    skip: usize,
    operator: Option<MergeOperator>,
    /// For upserts that join blobs.
    fetch: Fetch,
    /// Nothing older lies below, so deletes and unfinished upserts end here.
    bottom: bool,
}

impl Merge {
    /// A merge of `sources`, newest first, already at their first entries. The first `skip` bytes of
    /// all keys are the same. `bottom` when nothing older lies below.
    pub fn new(
        sources: Vec<MergeSource>,
        skip: usize,
        (operator, fetch): (Option<MergeOperator>, Fetch),
        bottom: bool,
    ) -> Self {
        assert!(sources.len() <= SOURCES_MAX, "a merge has at most {SOURCES_MAX} sources");
        let prefixes = sources.iter().map(|source| source.prefix(skip)).collect();
        Merge { sources, prefixes, skip, operator, fetch, bottom }
    }

    /// The sources whose heads have the least key, as a mask; 0 when all are exhausted.
    #[inline]
    fn least(&self) -> u64 {
        let least = self.prefixes.iter().fold(u64::MAX, |least, &prefix| least.min(prefix));
        let mut mask = 0u64;
        for (index, &prefix) in self.prefixes.iter().enumerate() {
            mask |= u64::from(prefix == least) << index;
        }
        if mask.is_power_of_two() && least != u64::MAX {
            return mask;
        }
        self.least_by_key(mask)
    }

    /// Of the sources in `mask`, those with the least whole key.
    fn least_by_key(&self, mut mask: u64) -> u64 {
        let mut same = 0u64;
        let mut least: Option<&[u8]> = None;
        while mask != 0 {
            let index = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            // A head whose prefix is the greatest number looks like an exhausted source.
            let Some(entry) = self.sources[index].peek() else { continue };
            match least.map(|key| entry.key.cmp(key)) {
                Some(std::cmp::Ordering::Greater) => {}
                Some(std::cmp::Ordering::Equal) => same |= 1 << index,
                _ => {
                    least = Some(entry.key);
                    same = 1 << index;
                }
            }
        }
        same
    }

    /// Merges the entries of the next key: gives what is left of them to `emit`, if anything, and
    /// the key to `passed`. Returns the cost of the entries read; `None` at the end.
    #[inline]
    pub fn step(
        &mut self,
        mut emit: impl FnMut(EntryRef<'_>) -> Result<()>,
    ) -> Result<Option<u64>> {
        let same = self.least();
        if same == 0 {
            return Ok(None);
        }
        let newest = same.trailing_zeros() as usize;
        let entry = self.sources[newest].peek().expect("a source with the least key has a head");
        let mut work = cost(entry.key, entry.value);
        if same.is_power_of_two() {
            if let Some(entry) = self.finished(entry) {
                emit(entry)?;
            }
        } else {
            work = self.join(same, emit)?;
        }
        let mut rest = same;
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            self.sources[index].advance()?;
            self.prefixes[index] = self.sources[index].prefix(self.skip);
        }
        Ok(Some(work))
    }

    /// What an entry becomes in the output: at the bottom deletes vanish and upserts are inserts.
    fn finished<'a>(&self, entry: EntryRef<'a>) -> Option<EntryRef<'a>> {
        match entry.kind {
            EntryKind::Delete if self.bottom => None,
            EntryKind::Upsert if self.bottom => Some(EntryRef { kind: EntryKind::Insert, ..entry }),
            _ => Some(entry),
        }
    }

    /// Emits the entries of one key in several sources as one; returns the cost of all.
    fn join(&self, same: u64, mut emit: impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<u64> {
        let mut heads = Heads { merge: self, rest: same };
        let newest = heads.next().expect("several heads have the least key");
        let (mut kind, mut joined) = (newest.kind, None::<Vec<u8>>);
        let mut work = cost(newest.key, newest.value);
        for older in heads {
            work += cost(older.key, older.value);
            if kind != EntryKind::Upsert {
                continue;
            }
            let value = joined.as_deref().unwrap_or(newest.value);
            let newer = EntryRef { kind, key: newest.key, value };
            let fetched;
            let older = if older.kind == EntryKind::Blob {
                fetched = (self.fetch)(older.value)?;
                EntryRef { kind: EntryKind::Insert, key: older.key, value: &fetched }
            } else {
                older
            };
            if let Some((kind_joined, value_joined)) =
                operator::combine(self.operator.as_ref(), older, newer)?
            {
                kind = kind_joined;
                joined = Some(value_joined);
            }
        }
        let value = joined.as_deref().unwrap_or(newest.value);
        if let Some(entry) = self.finished(EntryRef { kind, key: newest.key, value }) {
            emit(entry)?;
        }
        Ok(work)
    }

    /// Bytes that the sources read from disk so far.
    pub fn bytes_read(&self) -> u64 {
        self.sources.iter().map(MergeSource::bytes_read).sum()
    }

    /// The key that the next step merges.
    pub fn next_key(&self) -> Option<&[u8]> {
        let same = self.least();
        (same != 0).then(|| {
            let newest = same.trailing_zeros() as usize;
            self.sources[newest].peek().expect("a head").key
        })
    }
}

/// The heads of the sources in a mask, newest first.
struct Heads<'a> {
    merge: &'a Merge,
    rest: u64,
}

impl<'a> Iterator for Heads<'a> {
    type Item = EntryRef<'a>;

    fn next(&mut self) -> Option<EntryRef<'a>> {
        if self.rest == 0 {
            return None;
        }
        let index = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        self.merge.sources[index].peek()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::buffer::WriteBuffer;

    fn source(entries: &[(&[u8], EntryKind, &[u8])]) -> MergeSource {
        let mut buffer = WriteBuffer::new(0);
        for &(key, kind, value) in entries {
            buffer.insert(EntryRef { kind, key, value }, 0, &|_, _| Ok(None)).unwrap();
        }
        MergeSource::Buffer(buffer.stream())
    }

    fn merged(sources: Vec<MergeSource>, bottom: bool) -> Vec<(Vec<u8>, EntryKind, Vec<u8>)> {
        let joining = (Some(MergeOperator::append()), no_fetch());
        let mut merge = Merge::new(sources, 0, joining, bottom);
        let mut out = Vec::new();
        while merge
            .step(|entry| {
                out.push((entry.key.to_vec(), entry.kind, entry.value.to_vec()));
                Ok(())
            })
            .unwrap()
            .is_some()
        {}
        out
    }

    #[test]
    fn the_newest_entry_of_a_key_wins_and_upserts_join() {
        use EntryKind::{Delete, Insert, Upsert};
        let newest: &[(&[u8], EntryKind, &[u8])] = &[
            (b"a", Delete, b""),
            (b"long common prefix 1", Upsert, b"3"),
            (&[0xff; 9], Upsert, b"n"),
        ];
        let middle: &[(&[u8], EntryKind, &[u8])] =
            &[(b"a", Insert, b"1"), (b"b", Upsert, b"2"), (b"long common prefix 1", Upsert, b"2")];
        let oldest: &[(&[u8], EntryKind, &[u8])] = &[
            (b"b", Insert, b"1"),
            (b"long common prefix 0", Insert, b"z"),
            (b"long common prefix 1", Insert, b"1"),
            (&[0xff; 8], Insert, b"m"),
        ];
        let sources = || vec![source(newest), source(middle), source(oldest)];
        let expected: Vec<(&[u8], EntryKind, &[u8])> = vec![
            (b"a", Delete, b""),
            (b"b", Insert, b"12"),
            (b"long common prefix 0", Insert, b"z"),
            (b"long common prefix 1", Insert, b"123"),
            (&[0xff; 8], Insert, b"m"),
            (&[0xff; 9], Upsert, b"n"),
        ];
        let owned = |list: &[(&[u8], EntryKind, &[u8])]| {
            list.iter().map(|it| (it.0.to_vec(), it.1, it.2.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(merged(sources(), false), owned(&expected));
        let mut at_bottom = owned(&expected[1..]);
        at_bottom[4].1 = Insert;
        assert_eq!(merged(sources(), true), at_bottom);
    }
}
