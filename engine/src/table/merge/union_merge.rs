//! Merging a union: the sources of several tables as one sorted stream of what the union binds.
//!
//! The sources stand in one list, the leftmost table's first, each table's from newest to oldest. Of a
//! key's entries an upsert joins what comes after it; an insert or a delete ends its table, so that
//! the rest of that table does not count and the next one joins as something older. Because the
//! operator is associative, one pass does it, however unions are nested.
//!
//! A heap finds the least key, since a union may have thousands of sources.

use std::borrow::Cow;
use std::sync::Arc;

use super::k_way::{Fetch, Merge, MergeSource, no_fetch};
use crate::error::Result;
use crate::table::bytes::operator::MergeOperator;
use crate::table::bytes::{EntryKind, EntryRef, cost};

/// How the sources of a union belong together: for each source, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The first source behind the table that it is of.
    pub ends: Vec<u16>,
    /// Only its keys after this one count.
    pub after: Vec<Option<Arc<[u8]>>>,
}

/// What a key of a union is bound to, told by its entries from the first source to the last.
pub struct Binding<'a> {
    operator: Option<&'a MergeOperator>,
    fetch: &'a dyn Fn(&[u8]) -> Result<Vec<u8>>,
    /// An insert or a blob.
    value: Option<(EntryKind, Vec<u8>)>,
    /// Sources before this one do not count any more.
    from: usize,
}

impl<'a> Binding<'a> {
    /// Nothing yet.
    pub fn new(
        operator: Option<&'a MergeOperator>,
        fetch: &'a dyn Fn(&[u8]) -> Result<Vec<u8>>,
    ) -> Self {
        Binding { operator, fetch, value: None, from: 0 }
    }

    /// Takes what `source`, whose table ends at `end`, says of the key. Fetches blobs that join.
    pub fn take(&mut self, source: usize, end: usize, entry: EntryRef<'_>) -> Result<()> {
        if source < self.from {
            return Ok(());
        }
        if entry.kind != EntryKind::Upsert {
            self.from = end;
        }
        if entry.kind == EntryKind::Delete {
            return Ok(());
        }
        self.value = Some(match (self.value.take(), self.operator) {
            (None, _) if entry.kind == EntryKind::Blob => (EntryKind::Blob, entry.value.to_vec()),
            (None, _) => (EntryKind::Insert, entry.value.to_vec()),
            (Some((kind, newer)), Some(operator)) => {
                let (older, newer) =
                    (self.whole(entry.kind, entry.value)?, self.whole(kind, &newer)?);
                (EntryKind::Insert, operator.apply(&older, &newer)?)
            }
            (Some(newer), None) => newer,
        });
        Ok(())
    }

    fn whole<'b>(&self, kind: EntryKind, value: &'b [u8]) -> Result<Cow<'b, [u8]>> {
        let is_blob = kind == EntryKind::Blob;
        Ok(if is_blob { Cow::Owned((self.fetch)(value)?) } else { Cow::Borrowed(value) })
    }

    /// The value, if it is bound, as an insert or a blob.
    pub fn finish(self) -> Option<(EntryKind, Vec<u8>)> {
        self.value
    }
}

/// The sources of a union being merged.
pub struct UnionMerge {
    sources: Vec<MergeSource>,
    groups: Arc<Groups>,
    /// Of each source's head, behind the prefix that all keys share.
    prefixes: Vec<u64>,
    skip: usize,
    /// The sources that have a head, least key first and leftmost source first of equal keys.
    heap: Vec<u16>,
    operator: Option<MergeOperator>,
    fetch: Fetch,
    key: Vec<u8>,
}

impl UnionMerge {
    /// A merge of `sources`, already at their first entries, that belong together as `groups` say.
    /// The first `skip` bytes of all keys are the same.
    pub fn new(
        sources: Vec<MergeSource>,
        groups: Arc<Groups>,
        skip: usize,
        (operator, fetch): (Option<MergeOperator>, Fetch),
    ) -> Self {
        assert!(sources.len() <= groups.ends.len(), "every source belongs to a table");
        let prefixes = sources.iter().map(|source| source.prefix(skip)).collect();
        let heap = (0..sources.len() as u16)
            .filter(|&source| sources[usize::from(source)].peek().is_some())
            .collect();
        let mut merge =
            UnionMerge { sources, groups, prefixes, skip, heap, operator, fetch, key: Vec::new() };
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sift(place);
        }
        merge
    }

    fn is_before(&self, one: u16, other: u16) -> bool {
        let (a, b) = (usize::from(one), usize::from(other));
        let order = self.prefixes[a].cmp(&self.prefixes[b]);
        // Whole keys decide only equal prefixes.
        let order = order.then_with(|| self.key_of(a).cmp(self.key_of(b)));
        order.then(one.cmp(&other)).is_lt()
    }

    fn key_of(&self, source: usize) -> &[u8] {
        self.sources[source].peek().expect("a source in the heap has a head").key
    }

    /// Moves what stands at `place` down to where it belongs.
    fn sift(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.heap.swap(place, least);
            place = least;
        }
    }

    /// As [`Merge::step`]. What it emits is bound, so it emits inserts and blobs only.
    pub fn step(&mut self, emit: impl FnOnce(EntryRef<'_>) -> Result<()>) -> Result<Option<u64>> {
        let Some(&first) = self.heap.first() else { return Ok(None) };
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.key_of(usize::from(first)));
        let operator = self.operator.take();
        let fetch = std::mem::replace(&mut self.fetch, no_fetch());
        let mut binding = Binding::new(operator.as_ref(), &*fetch);
        let mut work = 0;
        let passed = self.pass(&key, &mut binding, &mut work);
        let value = binding.finish();
        let emitted = passed.and_then(|()| match &value {
            Some((kind, value)) => emit(EntryRef { kind: *kind, key: &key, value }),
            None => Ok(()),
        });
        (self.key, self.operator, self.fetch) = (key, operator, fetch);
        emitted.map(|()| Some(work))
    }

    /// Tells `binding` of every entry of `key` and passes it.
    fn pass(&mut self, key: &[u8], binding: &mut Binding<'_>, work: &mut u64) -> Result<()> {
        while let Some(&least) = self.heap.first() {
            let source = usize::from(least);
            let entry = self.sources[source].peek().expect("a source in the heap has a head");
            if entry.key != key {
                break;
            }
            *work += cost(entry.key, entry.value);
            binding.take(source, usize::from(self.groups.ends[source]), entry)?;
            self.sources[source].advance()?;
            self.prefixes[source] = self.sources[source].prefix(self.skip);
            if self.sources[source].peek().is_none() {
                self.heap.swap_remove(0);
            }
            self.sift(0);
        }
        Ok(())
    }

    fn bytes_read(&self) -> u64 {
        self.sources.iter().map(MergeSource::bytes_read).sum()
    }

    fn has_next(&self) -> bool {
        !self.heap.is_empty()
    }
}

/// A merge of either kind.
pub enum AnyMerge {
    /// Of runs of one table.
    Levels(Merge),
    /// Of several tables.
    Union(UnionMerge),
}

impl AnyMerge {
    /// See [`Merge::step`].
    #[inline]
    pub fn step(&mut self, emit: impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<Option<u64>> {
        match self {
            AnyMerge::Levels(merge) => merge.step(emit),
            AnyMerge::Union(merge) => merge.step(emit),
        }
    }

    /// Bytes that the sources read from disk so far.
    pub fn bytes_read(&self) -> u64 {
        match self {
            AnyMerge::Levels(merge) => merge.bytes_read(),
            AnyMerge::Union(merge) => merge.bytes_read(),
        }
    }

    /// Whether there is another key.
    pub fn has_next(&self) -> bool {
        match self {
            AnyMerge::Levels(merge) => merge.next_key().is_some(),
            AnyMerge::Union(merge) => merge.has_next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::buffer::WriteBuffer;
    use EntryKind::{Delete, Insert, Upsert};

    type Entries = &'static [(&'static [u8], EntryKind, &'static [u8])];

    fn merged(tables: &[&[Entries]], operator: Option<MergeOperator>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (mut sources, mut ends) = (Vec::new(), Vec::new());
        for table in tables {
            for entries in *table {
                let mut buffer = WriteBuffer::new(0);
                for &(key, kind, value) in *entries {
                    buffer.insert(EntryRef { kind, key, value }, 0, &|_, _| Ok(None)).unwrap();
                }
                sources.push(MergeSource::Buffer(buffer.stream()));
            }
            ends.resize(sources.len(), sources.len() as u16);
        }
        let groups = Arc::new(Groups { after: vec![None; ends.len()], ends });
        let mut merge = UnionMerge::new(sources, groups, 0, (operator, no_fetch()));
        let mut out = Vec::new();
        while merge
            .step(|entry| {
                assert_eq!(entry.kind, Insert);
                out.push((entry.key.to_vec(), entry.value.to_vec()));
                Ok(())
            })
            .unwrap()
            .is_some()
        {}
        out
    }

    fn owned(list: &[(&[u8], &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
        list.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    const LEFT: &[Entries] = &[
        &[(b"a", Delete, b""), (b"b", Upsert, b"3"), (&[0xff; 9], Insert, b"l")],
        &[(b"a", Insert, b"1"), (b"b", Insert, b"2"), (b"c", Upsert, b"1")],
    ];
    const RIGHT: &[Entries] = &[
        &[(b"a", Insert, b"9"), (b"b", Insert, b"8"), (b"d", Delete, b"")],
        &[(b"b", Insert, b"7"), (b"d", Insert, b"6"), (&[0xff; 8], Insert, b"r")],
    ];

    #[test]
    fn a_delete_hides_its_own_table_only_and_values_join_right_to_left() {
        let append = Some(MergeOperator::append());
        let expected: &[(&[u8], &[u8])] =
            &[(b"a", b"9"), (b"b", b"823"), (b"c", b"1"), (&[0xff; 8], b"r"), (&[0xff; 9], b"l")];
        assert_eq!(merged(&[LEFT, RIGHT], append), owned(expected));
    }

    #[test]
    fn without_an_operator_the_leftmost_table_wins() {
        let one: &[Entries] = &[&[(b"a", Delete, b""), (b"b", Insert, b"1")]];
        let two: &[Entries] = &[&[(b"a", Insert, b"2"), (b"b", Insert, b"2")]];
        assert_eq!(merged(&[one, two], None), owned(&[(b"a", b"2"), (b"b", b"1")]));
        assert_eq!(merged(&[two, one], None), owned(&[(b"a", b"2"), (b"b", b"2")]));
        assert_eq!(merged(&[], None), owned(&[]));
    }
}
