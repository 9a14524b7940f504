//! What a table, a cursor and a snapshot mean: a sorted map, a place in a sorted list, a copy.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

type Bytes = Vec<u8>;

/// How an upsert joins an older value: `(older, newer)`.
pub type Join = fn(&[u8], &[u8]) -> Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Insert(Bytes, Bytes),
    Delete(Bytes),
    Upsert(Bytes, Bytes),
    /// From the first key up to the second one, which stays.
    DeleteRange(Bytes, Bytes),
    DeletePrefix(Bytes),
}

/// The same changes for the real table, in two batches that are joined.
pub fn batch(changes: &[Change]) -> varvite::Batch {
    let (first, last) = changes.split_at(changes.len() / 2);
    let mut batch = half(first);
    batch.append(&half(last));
    batch
}

fn half(changes: &[Change]) -> varvite::Batch {
    let mut batch = varvite::Batch::new();
    for change in changes {
        match change {
            Change::Insert(key, value) => batch.insert(key, value),
            Change::Delete(key) => batch.delete(key),
            Change::Upsert(key, value) => batch.upsert(key, value),
            Change::DeleteRange(from, before) => {
                batch.delete_range(Bound::Included(from), Bound::Excluded(before))
            }
            Change::DeletePrefix(prefix) => batch.delete_prefix(prefix),
        };
    }
    batch
}

/// A table, a duplicate or a view of one: copies share what they have in common.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Table(Arc<BTreeMap<Bytes, Bytes>>);

impl Table {
    pub fn update(&mut self, changes: &[Change], join: Option<Join>) {
        let map = Arc::make_mut(&mut self.0);
        for change in changes {
            match change {
                Change::Insert(key, value) => drop(map.insert(key.clone(), value.clone())),
                Change::Delete(key) => drop(map.remove(key)),
                Change::Upsert(key, value) => {
                    let join = join.expect("upserts are generated only with an operator");
                    let joined = match map.get(key) {
                        Some(older) => join(older, value),
                        None => value.clone(),
                    };
                    map.insert(key.clone(), joined);
                }
                Change::DeleteRange(from, before) => {
                    map.retain(|key, _| key < from || key >= before);
                }
                Change::DeletePrefix(prefix) => map.retain(|key, _| !key.starts_with(prefix)),
            }
        }
    }

    /// What several tables bind: values of one key join, the leftmost as the newest.
    pub fn union(tables: &[&Table], join: Option<Join>) -> Table {
        let mut map: BTreeMap<Bytes, Bytes> = BTreeMap::new();
        for table in tables.iter().rev() {
            for (key, newer) in &*table.0 {
                let joined = match (map.get(key), join) {
                    (Some(older), Some(join)) => join(older, newer),
                    _ => newer.clone(),
                };
                map.insert(key.clone(), joined);
            }
        }
        Table(Arc::new(map))
    }

    pub fn delete_range(&mut self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
        let gone = self.range(lower, upper).into_iter().map(|(key, _)| Change::Delete(key));
        self.update(&gone.collect::<Vec<_>>(), None);
    }

    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.get(key).map(|value| &value[..])
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Vec<(Bytes, Bytes)> {
        let above = |key: &[u8]| match lower {
            Bound::Unbounded => true,
            Bound::Included(bound) => key >= bound,
            Bound::Excluded(bound) => key > bound,
        };
        let below = |key: &[u8]| match upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => key <= bound,
            Bound::Excluded(bound) => key < bound,
        };
        // `BTreeMap::range` panics on bounds that cross; here they mean an empty range.
        let from = match lower {
            Bound::Included(bound) | Bound::Excluded(bound) => bound,
            Bound::Unbounded => &[],
        };
        let from = self.0.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        from.skip_while(|(key, _)| !above(key))
            .take_while(|(key, _)| below(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    pub fn cursor(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Cursor {
        Cursor { entries: self.range(lower, upper), gap: 0 }
    }
}

/// A gap between the entries of a range: 0 is before the first.
#[derive(Clone, Debug)]
pub struct Cursor {
    entries: Vec<(Bytes, Bytes)>,
    gap: usize,
}

impl Cursor {
    pub fn next(&mut self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.entries.get(self.gap)?;
        self.gap += 1;
        Some((key, value))
    }

    pub fn previous(&mut self) -> Option<(&[u8], &[u8])> {
        self.gap = self.gap.checked_sub(1)?;
        let (key, value) = &self.entries[self.gap];
        Some((key, value))
    }

    pub fn seek(&mut self, to: &[u8]) {
        self.gap = self.entries.partition_point(|(key, _)| &key[..] < to);
    }

    pub fn seek_first(&mut self) {
        self.gap = 0;
    }

    pub fn seek_last(&mut self) {
        self.gap = self.entries.len();
    }
}

/// A snapshot is what was given to it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub label: String,
    pub payload: Bytes,
    pub tables: Vec<(String, Table)>,
}

/// All that survives the end of a session.
pub type Snapshots = BTreeMap<String, Snapshot>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_cursor_walks_both_ways_and_stops_at_its_bounds() {
        let mut table = Table::default();
        let insert = |key: &[u8]| Change::Insert(key.to_vec(), key.to_vec());
        table.update(&[insert(b"a"), insert(b"b"), insert(b"c"), insert(b"d")], None);
        let mut cursor = table.cursor(Bound::Excluded(b"a"), Bound::Excluded(b"d"));
        assert_eq!(cursor.previous(), None);
        assert_eq!(cursor.next(), Some((&b"b"[..], &b"b"[..])));
        assert_eq!(cursor.previous(), Some((&b"b"[..], &b"b"[..])));
        cursor.seek(b"bb");
        assert_eq!(cursor.next(), Some((&b"c"[..], &b"c"[..])));
        assert_eq!(cursor.next(), None);
        assert!(table.range(Bound::Excluded(b"c"), Bound::Included(b"b")).is_empty());
    }
}
