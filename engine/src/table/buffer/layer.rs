//! A sorted piece of a write buffer: its entries' prefixes, where their bytes are, and those bytes.
//!
//! Only the youngest layer of a buffer changes, and only while nobody else holds it. Two layers are
//! merged by merging their prefixes and places; the bytes stay where they are, in chunks that layers
//! share, until there are few of them or half of them belong to no entry.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::prefetch;
use crate::table::bytes::{EntryKind, EntryRef};

/// Up to so many bytes are copied together when layers are merged, so that chunks are not tiny.
const COPIED_BYTES: usize = 16 << 10;
/// Bytes at which a chunk is full.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Before an entry's key and value: their lengths and its kind.
const HEAD_BYTES: usize = 8;

/// Where an entry's bytes begin.
#[derive(Clone, Copy, Default)]
struct EntryStart {
    chunk: u32,
    offset: u32,
}

/// Entries in the order of their keys, each key once.
#[derive(Default)]
pub struct Layer {
    /// The first eight bytes of each key.
    prefixes: Vec<u64>,
    places: Vec<EntryStart>,
    chunks: Vec<Arc<Vec<u8>>>,
    /// Of all entries that were ever put into the chunks, and of those that no place names.
    bytes: usize,
    garbage: usize,
}

fn stored_bytes(entry: EntryRef<'_>) -> usize {
    HEAD_BYTES + entry.key.len() + entry.value.len()
}

fn head(entry: EntryRef<'_>) -> [u8; HEAD_BYTES] {
    let [a, b] = (entry.key.len() as u16).to_le_bytes();
    let [c, d, e, f] = (entry.value.len() as u32).to_le_bytes();
    [a, b, entry.kind as u8, 0, c, d, e, f]
}

impl Layer {
    /// An empty one with memory for so many entries and, up to a chunk, so many bytes.
    pub fn with_room((entries, bytes): (usize, usize)) -> Layer {
        Layer {
            prefixes: Vec::with_capacity(entries),
            places: Vec::with_capacity(entries),
            chunks: vec![Arc::new(Vec::with_capacity(bytes.min(CHUNK_BYTES)))],
            ..Layer::default()
        }
    }

    /// How many entries it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Bytes of its chunks.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first eight bytes of the key at `index`; the greatest number behind the end.
    #[inline]
    pub fn prefix(&self, index: usize) -> u64 {
        self.prefixes.get(index).copied().unwrap_or(u64::MAX)
    }

    /// The entry at `index`.
    #[inline]
    pub fn entry(&self, index: usize) -> EntryRef<'_> {
        let EntryStart { chunk, offset } = self.places[index];
        let bytes = &self.chunks[chunk as usize][offset as usize..];
        let (&[a, b, kind, _, c, d, e, f], rest) =
            bytes.split_first_chunk::<HEAD_BYTES>().expect("a place is of a whole entry");
        let (key, rest) = rest.split_at(usize::from(u16::from_le_bytes([a, b])));
        let value = &rest[..u32::from_le_bytes([c, d, e, f]) as usize];
        let kind = EntryKind::ALL[usize::from(kind) % EntryKind::ALL.len()];
        EntryRef { kind, key, value }
    }

    /// Asks for the start of the entry at `index`, if there is one.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if let Some(&EntryStart { chunk, offset }) = self.places.get(index) {
            prefetch::lines(&self.chunks[chunk as usize], offset as usize, 128);
        }
    }

    /// The place of `key`, or where it would be.
    #[inline]
    pub fn search(&self, prefix: u64, key: &[u8]) -> Result<usize, usize> {
        let low = self.prefixes.partition_point(|&other| other < prefix);
        if self.prefixes.get(low) != Some(&prefix) {
            return Err(low);
        }
        let (mut low, mut high) =
            (low, low + self.prefixes[low..].partition_point(|&other| other == prefix));
        while low < high {
            let middle = low.midpoint(high);
            match self.entry(middle).key.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Puts `entry`, whose key begins with `prefix`, in the place of any with its key.
    pub fn put(&mut self, prefix: u64, entry: EntryRef<'_>) {
        match self.search(prefix, entry.key) {
            Err(index) => {
                let place = self.append(entry);
                self.prefixes.insert(index, prefix);
                self.places.insert(index, place);
            }
            Ok(index) => {
                let old = stored_bytes(self.entry(index));
                if old == stored_bytes(entry) {
                    self.overwrite(self.places[index], entry);
                } else {
                    self.garbage += old;
                    self.places[index] = self.append(entry);
                }
            }
        }
    }

    /// Puts bytes behind those of the last chunk. Only a layer that nobody else has does this, whose
    /// chunks nobody else has either, so nothing is copied.
    fn append(&mut self, entry: EntryRef<'_>) -> EntryStart {
        if self.chunks.last().is_none_or(|chunk| chunk.len() >= CHUNK_BYTES) {
            self.chunks.push(Arc::default());
        }
        let number = self.chunks.len() - 1;
        let chunk = Arc::make_mut(&mut self.chunks[number]);
        let offset = chunk.len() as u32;
        chunk.reserve(stored_bytes(entry));
        chunk.extend_from_slice(&head(entry));
        chunk.extend_from_slice(entry.key);
        chunk.extend_from_slice(entry.value);
        self.bytes += stored_bytes(entry);
        EntryStart { chunk: number as u32, offset }
    }

    fn overwrite(&mut self, place: EntryStart, entry: EntryRef<'_>) {
        let chunk = Arc::make_mut(&mut self.chunks[place.chunk as usize]);
        let bytes = &mut chunk[place.offset as usize..][..stored_bytes(entry)];
        bytes[..HEAD_BYTES].copy_from_slice(&head(entry));
        bytes[HEAD_BYTES + entry.key.len()..].copy_from_slice(entry.value);
    }

    /// The entries of both; of a key that both have, the newer one's.
    pub fn merged(older: &Layer, newer: &Layer) -> Layer {
        let (count, shift) = (older.len() + newer.len(), older.chunks.len() as u32);
        let mut merged = Layer {
            prefixes: vec![0; count],
            places: vec![EntryStart::default(); count],
            chunks: older.chunks.iter().chain(&newer.chunks).cloned().collect(),
            bytes: older.bytes + newer.bytes,
            garbage: older.garbage + newer.garbage,
        };
        let shifted = |place: EntryStart| EntryStart { chunk: place.chunk + shift, ..place };
        let (mut left, mut right, mut end) = (0, 0, 0);
        while left < older.len() && right < newer.len() {
            let (old, new) = (older.prefixes[left], newer.prefixes[right]);
            let mut is_old = old < new;
            if old == new {
                let (hidden, hiding) = (older.entry(left), newer.entry(right));
                is_old = hidden.key < hiding.key;
                if hidden.key == hiding.key {
                    merged.garbage += stored_bytes(hidden);
                    left += 1;
                }
            }
            // Which side is next is a toss; both are loaded, so that it need not be a branch.
            let (at_old, at_new) = (older.places.get(left), shifted(newer.places[right]));
            merged.prefixes[end] = if is_old { old } else { new };
            merged.places[end] = if is_old { at_old.copied().unwrap_or_default() } else { at_new };
            left += usize::from(is_old);
            right += usize::from(!is_old);
            end += 1;
        }
        merged.prefixes.truncate(end);
        merged.prefixes.extend_from_slice(&older.prefixes[left..]);
        merged.prefixes.extend_from_slice(&newer.prefixes[right..]);
        merged.places.truncate(end);
        merged.places.extend_from_slice(&older.places[left..]);
        merged.places.extend(newer.places[right..].iter().copied().map(shifted));
        if merged.bytes <= COPIED_BYTES || 2 * merged.garbage > merged.bytes {
            return merged.copied();
        }
        merged
    }

    /// The same entries in chunks of their own, without garbage.
    fn copied(&self) -> Layer {
        let room = (self.bytes - self.garbage).min(CHUNK_BYTES);
        let mut copy = Layer {
            prefixes: self.prefixes.clone(),
            places: Vec::with_capacity(self.len()),
            chunks: vec![Arc::new(Vec::with_capacity(room))],
            ..Layer::default()
        };
        for index in 0..self.len() {
            let place = copy.append(self.entry(index));
            copy.places.push(place);
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::bytes::prefix;

    fn layer(keys: impl Iterator<Item = u32>, value: &[u8]) -> Layer {
        let mut layer = Layer::default();
        for key in keys {
            // Half of the keys agree in their first eight bytes.
            let bytes = format!("{:08}{key:08}", if key % 2 == 0 { 0 } else { key });
            let (kind, key) = (EntryKind::Insert, bytes.as_bytes());
            layer.put(prefix(key), EntryRef { kind, key, value });
        }
        layer
    }

    #[test]
    fn merged_layers_have_every_key_once_and_the_newer_value() {
        let (older, newer) = (layer((0..2_000).rev(), b"old"), layer(500..3_000, b"newer"));
        let merged = Layer::merged(&older, &newer);
        assert_eq!(merged.len(), 3_000);
        assert!((1..3_000).all(|index| merged.entry(index - 1).key < merged.entry(index).key));
        let fresh = (0..3_000).filter(|&index| merged.entry(index).value == b"newer").count();
        assert_eq!(fresh, 2_500);
        for index in 0..3_000 {
            let key = merged.entry(index).key.to_vec();
            assert_eq!(merged.search(prefix(&key), &key), Ok(index));
        }
        assert_eq!(merged.search(prefix(b"0"), b"0"), Err(0));
        assert_eq!(merged.search(prefix(b"1"), b"1"), Err(3_000));
    }

    #[test]
    fn bytes_that_no_entry_names_go_before_they_are_half() {
        let mut layer = layer(0..100, &[1; 100]);
        for round in 0..50u8 {
            let newer = self::layer(0..100, &vec![round; usize::from(round)]);
            layer = Layer::merged(&layer, &newer);
            assert_eq!(layer.len(), 100);
            assert!(2 * layer.garbage <= layer.bytes);
            assert_eq!(layer.chunks.iter().map(|chunk| chunk.len()).sum::<usize>(), layer.bytes);
        }
        assert!((0..100).all(|index| layer.entry(index).value == [49; 49]));
    }
}
