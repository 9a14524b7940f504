//! The newest entries of a table, sorted in memory: layers, each about twice as large as the next.
//!
//! Inserts go to the youngest layer in place while nobody else holds it. When somebody does, or when
//! it is full, it becomes the newest of the layers that do not change any more, and layers are merged
//! until each is at least twice as large as the one after it. So a view or a duplicate is a few more
//! counts and costs the writer nothing later, and an insert costs about log2(entries / 512) steps of
//! merging two sorted lists. Keys are compared by their first eight bytes as one number; the bytes
//! decide only ties.
//!
//! Source: Bentley, Saxe 1980 (the logarithmic method); Graefe 2011 §3.2 (key prefixes).

use std::sync::Arc;

use super::key_filter::BufferFilter;
use super::layer::{CHUNK_BYTES, Layer};
use super::stream::BufferStream;
use crate::cache::Charge;
use crate::error::Result;
use crate::order::BTreeMap;
use crate::table::bytes::{EntryKind, EntryRef, cost, prefix as key_prefix};
use crate::table::runs::blob::{BlobFile, BlobSpan};

/// Entries at which the youngest layer is full: few enough to make room among them by moving.
const YOUNG_ENTRIES: usize = 512;
/// Entries that a merged layer has at most: in a small buffer a merge is to take a part of a millisecond, and in a large
/// one layers are to stay few.
const MERGED_ENTRIES: std::ops::Range<u64> = 1 << 13..1 << 18;
/// A merged layer has at most one entry for so many bytes of a full buffer.
const BYTES_A_MERGED_ENTRY: u64 = 256;
/// Keys of dropped drafts that a filter may have beside a quarter of its own.
const STALE_KEYS: u64 = 256;
/// How many inserts [`WriteBuffer::prefetch`] helps at once.
pub const PREFETCHED: usize = 16;

/// How a newer entry joins the older one of the same key: what to keep in its place.
pub type Combine<'a> =
    &'a dyn Fn(EntryRef<'_>, EntryRef<'_>) -> Result<Option<(EntryKind, Vec<u8>)>>;

/// A sorted map from key to newest entry. Cloning is O(1); the clones are independent.
#[derive(Clone)]
pub struct WriteBuffer {
    young: Arc<Layer>,
    /// Layers that do not change, from the oldest to the newest.
    layers: Arc<Vec<Arc<Layer>>>,
    /// Entries and bytes of the layer that was the youngest before: the next is likely to be alike.
    room: (usize, usize),
    /// See [`MERGED_ENTRIES`].
    merged_max: usize,
    filter: BufferFilter,
    /// Keys of drafts that were dropped, which the filter still has.
    stale_keys: u64,
    entry_count: u64,
    cost_bytes: u64,
    /// By kind.
    counts: [u64; 4],
    /// What its clones together count in the budget, and how much of it is this one's.
    charge: Option<Arc<Charge>>,
    charged_bytes: u64,
    /// Of a draft: what the buffer counts that it is a draft of.
    lent: Option<Arc<Charge>>,
    blobs: HeldFiles,
}

/// Blob files by identity, each with how many entries refer to it.
type CountedFiles = BTreeMap<u64, (u64, Arc<BlobFile>)>;

/// Parts of the blob files of a buffer: with values in pieces there is one for each value, and an update beside a view
/// copies the parts that it changes.
const PARTS: usize = 64;

/// The blob files that entries refer to. Most buffers have none.
#[derive(Clone, Default)]
struct HeldFiles {
    /// By identity.
    parts: Option<Arc<[Arc<CountedFiles>; PARTS]>>,
    /// Those that perhaps no entry refers to.
    idle: Vec<u64>,
}

/// The part that has the file `identity`.
fn part_of(parts: &mut Arc<[Arc<CountedFiles>; PARTS]>, identity: u64) -> &mut CountedFiles {
    let part = crate::format::hash::combine(identity, 0) as usize % PARTS;
    Arc::make_mut(&mut Arc::make_mut(parts)[part])
}

impl HeldFiles {
    fn add<'a>(&mut self, blobs: impl Iterator<Item = &'a Arc<BlobFile>>) {
        let parts =
            self.parts.get_or_insert_with(|| Arc::new(std::array::from_fn(|_| Arc::default())));
        for blob in blobs {
            let identity = blob.meta().identity;
            let files = part_of(parts, identity);
            files.entry(identity).or_insert_with(|| (0, Arc::clone(blob)));
            self.idle.push(identity);
        }
    }

    /// Counts a reference that is new, and one that is gone.
    #[cold]
    fn count(&mut self, new: Option<u64>, old: Option<u64>) {
        let Some(parts) = &mut self.parts else { return };
        if let Some(file) = new
            && let Some((entries, _)) = part_of(parts, file).get_mut(&file)
        {
            *entries += 1;
        }
        if let Some(file) = old
            && let Some((entries, _)) = part_of(parts, file).get_mut(&file)
        {
            *entries -= 1;
            self.idle.push(file);
        }
    }

    fn remove_idle(&mut self) {
        let Some(parts) = &mut self.parts else { return };
        for identity in self.idle.drain(..) {
            let files = part_of(parts, identity);
            if files.get(&identity).is_some_and(|(entries, _)| *entries == 0) {
                files.remove(&identity);
            }
        }
    }
}

/// The blob file that an entry refers to.
fn blob_of(entry: EntryRef<'_>) -> Option<u64> {
    if entry.kind != EntryKind::Blob {
        return None;
    }
    BlobSpan::decode(entry.value).map(|span| span.file)
}

impl WriteBuffer {
    /// An empty buffer for about `bytes` of entries.
    pub fn new(bytes: u64) -> Self {
        WriteBuffer {
            young: Arc::default(),
            layers: Arc::default(),
            room: (0, 0),
            merged_max: (bytes / BYTES_A_MERGED_ENTRY)
                .clamp(MERGED_ENTRIES.start, MERGED_ENTRIES.end) as usize,
            filter: BufferFilter::new(bytes),
            stale_keys: 0,
            entry_count: 0,
            cost_bytes: 0,
            counts: [0; 4],
            charge: None,
            charged_bytes: 0,
            lent: None,
            blobs: HeldFiles::default(),
        }
    }

    /// Holds the blob files that entries to come refer to, until [`WriteBuffer::release`] after them.
    pub fn hold<'a>(&mut self, blobs: impl ExactSizeIterator<Item = &'a Arc<BlobFile>>) {
        if blobs.len() > 0 {
            self.blobs.add(blobs);
        }
    }

    /// Lets the blob files go that no entry refers to, or none any more.
    pub fn release(&mut self) {
        if !self.blobs.idle.is_empty() {
            self.blobs.remove_idle();
        }
    }

    /// The same, counted in a budget.
    pub fn charged(self, charge: Option<Charge>) -> Self {
        WriteBuffer { charge: charge.map(Arc::new), ..self }
    }

    /// A clone that may be dropped: what it grows by counts in `charge`, so that this goes with it and with the views
    /// of it.
    pub fn draft(&self, charge: Option<Charge>) -> Self {
        let mut draft = self.clone();
        draft.lent = std::mem::replace(&mut draft.charge, charge.map(Arc::new));
        draft
    }

    /// The draft stands, and takes the place of the buffer that it was made of.
    pub fn stand(&mut self) {
        let Some(lent) = self.lent.take() else { return };
        if let Some(own) = &self.charge {
            lent.absorb(own);
        }
        self.charge = Some(lent);
    }

    /// Counts `keys` as those of a draft that was dropped, or that may be. The clones share their filter, so they stay
    /// there until [`WriteBuffer::renew_filter`] finds too many.
    pub fn count_stale(&mut self, keys: u64) {
        self.stale_keys = self.stale_keys.saturating_add(keys);
    }

    /// How many were counted.
    pub fn stale_keys(&self) -> u64 {
        self.stale_keys
    }

    /// Whether its keys go to the filter of `other`, of which it is a clone.
    pub fn shares_filter(&self, other: &WriteBuffer) -> bool {
        self.filter.is_shared_with(&other.filter)
    }

    /// Makes the filter anew if keys of dropped drafts are a quarter of it; `hash` is that of a key.
    pub fn renew_filter(&mut self, hash: impl Fn(&[u8]) -> u64) {
        if self.stale_keys <= STALE_KEYS + self.entry_count / 4 {
            return;
        }
        let (filter, mut stream) = (self.filter.emptied(), self.stream());
        while let Some(entry) = stream.peek() {
            filter.add(hash(entry.key));
            stream.next();
        }
        (self.filter, self.stale_keys) = (filter, 0);
    }

    /// Whether the filter has a key with this hash, or none at all.
    #[cfg(test)]
    pub fn passes(&self, hash: u64) -> bool {
        self.filter.may_hold(hash)
    }

    /// Brings what it counts in the budget up to what it holds. What clones share counts once.
    pub fn count_in_budget(&mut self) {
        if let Some(charge) = &self.charge
            && self.cost_bytes > self.charged_bytes
        {
            // What is around the entries takes about a quarter of them.
            let grown = self.cost_bytes - self.charged_bytes;
            charge.add(grown + grown / 4);
            self.charged_bytes = self.cost_bytes;
        }
    }
}

impl std::fmt::Debug for WriteBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WriteBuffer({} entries, {} bytes)", self.entry_count, self.cost_bytes)
    }
}

impl WriteBuffer {
    /// How many keys it holds.
    pub fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// Sum of its entries' [`cost`].
    pub fn cost_bytes(&self) -> u64 {
        self.cost_bytes
    }

    /// Inserts, deletes and upserts in it.
    pub fn counts(&self) -> [u64; 3] {
        let [inserts, deletes, upserts, blobs] = self.counts;
        [inserts + blobs, deletes, upserts]
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Asks for the memory that inserts of these, each with the hash of its key, will look at.
    pub fn prefetch(&self, entries: &[(EntryRef<'_>, u64)]) {
        for (_, hash) in entries {
            self.filter.prefetch(*hash);
        }
    }

    /// Adds `entry`, whose key has the hash `hash`; where its key is there already,
    /// `combine(older, newer)` says what to keep, or `None` for the newer as it is. When that fails nothing is changed.
    pub fn insert(&mut self, entry: EntryRef<'_>, hash: u64, combine: Combine<'_>) -> Result<()> {
        let (mut joined, mut old_blob) = (None, None);
        if let Some(older) = self.get(entry.key, hash) {
            old_blob = blob_of(older);
            let (kind, older_cost) = (older.kind, cost(older.key, older.value));
            joined = combine(older, entry)?;
            self.counts[kind as usize] -= 1;
            self.cost_bytes -= older_cost;
        } else {
            self.filter.add(hash);
            self.entry_count += 1;
        }
        let entry = match &joined {
            Some((kind, value)) => EntryRef { kind: *kind, key: entry.key, value },
            None => entry,
        };
        self.counts[entry.kind as usize] += 1;
        self.cost_bytes += cost(entry.key, entry.value);
        if entry.kind == EntryKind::Blob || old_blob.is_some() {
            self.blobs.count(blob_of(entry), old_blob);
        }
        self.put(entry);
        Ok(())
    }

    fn put(&mut self, entry: EntryRef<'_>) {
        let prefix = key_prefix(entry.key);
        match Arc::get_mut(&mut self.young) {
            Some(young) if young.len() > 0 => young.put(prefix, entry),
            _ => {
                self.freeze();
                let mut young = Layer::with_room(self.room);
                young.put(prefix, entry);
                self.young = Arc::new(young);
            }
        }
        if self.young.len() >= YOUNG_ENTRIES || self.young.bytes() >= CHUNK_BYTES {
            self.freeze();
        }
    }

    /// Puts the youngest layer behind the others and merges what has come too near in size.
    fn freeze(&mut self) {
        if self.young.len() == 0 {
            return;
        }
        self.room = (self.young.len(), self.young.bytes());
        let layers = Arc::make_mut(&mut self.layers);
        layers.push(std::mem::take(&mut self.young));
        while let [.., older, newer] = &layers[..]
            && older.len() < 2 * newer.len()
            && older.len() + newer.len() <= self.merged_max
        {
            let merged = Arc::new(Layer::merged(older, newer));
            layers.truncate(layers.len() - 2);
            layers.push(merged);
        }
    }

    /// All layers, from the newest to the oldest.
    fn newest_first(&self) -> impl Iterator<Item = &Arc<Layer>> {
        std::iter::once(&self.young).chain(self.layers.iter().rev())
    }

    /// The newest entry of `key`, which has the hash `hash`.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64) -> Option<EntryRef<'_>> {
        if self.filter.may_hold(hash) { self.find(key) } else { None }
    }

    fn find(&self, key: &[u8]) -> Option<EntryRef<'_>> {
        let prefix = key_prefix(key);
        self.newest_first()
            .find_map(|layer| layer.search(prefix, key).ok().map(|index| layer.entry(index)))
    }

    /// A position before the first entry.
    pub fn stream(&self) -> BufferStream {
        BufferStream::new(self.newest_first().filter(|layer| layer.len() > 0).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[expect(clippy::unnecessary_wraps, reason = "it stands where something may fail")]
    fn replace(_: EntryRef<'_>, _: EntryRef<'_>) -> Result<Option<(EntryKind, Vec<u8>)>> {
        Ok(None)
    }

    fn key(number: u64) -> Vec<u8> {
        let mixed = crate::format::hash::combine(number, 3);
        // Every third key shares a long prefix, so that ties are searched too.
        let mut key =
            if number.is_multiple_of(3) { b"the same long prefix".to_vec() } else { vec![] };
        key.extend_from_slice(&mixed.to_be_bytes()[..=((mixed % 8) as usize)]);
        key
    }

    #[test]
    fn agrees_with_a_map_and_old_clones_stay_as_they_were() {
        let mut buffer = WriteBuffer::new(1 << 20);
        let mut model = BTreeMap::new();
        let mut kept = Vec::new();
        // Miri takes a thousand times as long.
        let scale = if cfg!(miri) { 100 } else { 1 };
        for number in 0..30_000 / scale {
            let length = if number % 500 == 0 { 5_000 } else { number % 70 };
            let (key, value) = (key(number % (9_000 / scale)), vec![number as u8; length as usize]);
            let kind = if number % 5 == 0 { EntryKind::Delete } else { EntryKind::Insert };
            let hash = crate::format::hash::hash(0, &key);
            buffer.insert(EntryRef { kind, key: &key, value: &value }, hash, &replace).unwrap();
            model.insert(key, (kind, value));
            if number % (6_000 / scale) == 7 {
                kept.push((buffer.clone(), model.clone()));
            }
        }
        kept.push((buffer, model));
        for (buffer, model) in kept {
            assert_eq!(buffer.entry_count(), model.len() as u64);
            let total: u64 = model.iter().map(|(key, (_, value))| cost(key, value)).sum();
            assert_eq!(buffer.cost_bytes(), total);
            let mut stream = buffer.stream();
            for (key, (kind, value)) in &model {
                let entry = stream.peek().expect("as many entries as the model");
                assert_eq!((entry.key, entry.kind, entry.value), (&key[..], *kind, &value[..]));
                let hash = crate::format::hash::hash(0, key);
                assert_eq!(buffer.get(key, hash).map(|entry| entry.value), Some(&value[..]));
                stream.next();
            }
            assert!(stream.peek().is_none());
            stream.seek_last();
            for key in model.keys().rev() {
                assert_eq!(stream.peek().expect("an entry").key, key);
                stream.previous();
            }
            assert!(stream.peek().is_none());
            for number in 0..2_000 / scale {
                let wanted = key(number * 5 + 1);
                stream.seek(&wanted);
                let expected = model.range(wanted..).next().map(|(key, _)| &key[..]);
                assert_eq!(stream.peek().map(|entry| entry.key), expected);
            }
        }
    }

    #[test]
    fn clones_held_across_every_insert_leave_few_layers() {
        let mut buffer = WriteBuffer::new(1 << 20);
        let mut kept = Vec::new();
        let count: u64 = if cfg!(miri) { 200 } else { 20_000 };
        for number in 0..count {
            let (key, kind) =
                (number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), EntryKind::Insert);
            let hash = crate::format::hash::hash(0, &key);
            // The same keys come again with other values.
            let value = number.to_le_bytes();
            buffer.insert(EntryRef { kind, key: &key, value: &value }, hash, &replace).unwrap();
            buffer.insert(EntryRef { kind, key: b"again", value: &value }, 5, &replace).unwrap();
            let clone = buffer.clone();
            assert!(clone.layers.len() <= 16, "{} layers", clone.layers.len());
            if number % 1_000 == 0 || number + 9 > count {
                kept.push((number, clone));
            }
        }
        for (number, clone) in kept {
            assert_eq!(clone.entry_count(), number + 2);
            let found = clone.get(b"again", 5).map(|entry| entry.value);
            assert_eq!(found, Some(&number.to_le_bytes()[..]));
        }
    }

    #[test]
    fn keys_of_dropped_drafts_leave_the_filter() {
        let hash = |key: &[u8]| crate::format::hash::hash(9, key);
        let mut buffer = WriteBuffer::new(1 << 20);
        let add = |buffer: &mut WriteBuffer, number: u64| {
            let key = number.to_be_bytes();
            let entry = EntryRef { kind: EntryKind::Insert, key: &key, value: b"" };
            buffer.insert(entry, hash(&key), &replace).unwrap();
        };
        (0..1_000).for_each(|number| add(&mut buffer, number));
        let passed = |buffer: &WriteBuffer, keys: std::ops::Range<u64>| {
            keys.filter(|key| buffer.filter.may_hold(hash(&key.to_be_bytes()))).count()
        };
        for round in 1..=50 {
            let mut draft = buffer.draft(None);
            (round * 1_000..round * 1_000 + 200).for_each(|number| add(&mut draft, number));
            let added = draft.entry_count() - buffer.entry_count();
            assert_eq!(added, 200);
            drop(draft);
            buffer.count_stale(added);
            buffer.renew_filter(hash);
        }
        let stale = passed(&buffer, 1_001..60_000);
        assert!(stale < 1_500, "{stale} keys that are not there pass");
        assert_eq!(passed(&buffer, 0..1_000), 1_000);
    }

    #[test]
    fn an_empty_buffer_has_no_place() {
        let mut stream = WriteBuffer::new(0).stream();
        stream.seek(b"a");
        assert!(stream.peek().is_none());
        stream.seek_last();
        assert!(stream.peek().is_none());
    }
}
