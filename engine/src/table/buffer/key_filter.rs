//! Says of most keys at once that a write buffer does not hold them.
//!
//! A lookup asks every buffer for every key, nearly always in vain; one cache line here saves a walk
//! down the tree. The bits are shared by all clones of the buffer and only ever set, so a clone may
//! see bits of entries that are not its own, which costs a walk, never an answer.

use std::sync::Arc;

use crate::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Bytes of buffered entries for which one word of 64 bits is kept: with entries of about 80 bytes
/// that is 12 bits an entry, which some one in a hundred absent keys pass.
const BYTES_A_WORD: u64 = 420;
/// Most words, so that a huge buffer does not take memory before it is filled.
const WORDS_MAX: u64 = 1 << 20;

/// Bits set by the hashes of the keys in a buffer.
#[derive(Clone, Debug)]
pub struct BufferFilter {
    words: Arc<[AtomicU64]>,
}

impl BufferFilter {
    /// For a buffer that will hold about `buffer_bytes` of entries.
    pub fn new(buffer_bytes: u64) -> Self {
        let count = (buffer_bytes / BYTES_A_WORD).clamp(8, WORDS_MAX);
        BufferFilter { words: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    /// One of the same size in which nothing is noted.
    pub fn emptied(&self) -> Self {
        BufferFilter { words: self.words.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether what is noted in one is noted in the other.
    pub fn is_shared_with(&self, other: &BufferFilter) -> bool {
        Arc::ptr_eq(&self.words, &other.words)
    }

    /// The word of a hash, and its three bits there.
    #[inline]
    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        let word = ((u128::from(hash) * self.words.len() as u128) >> 64) as usize;
        let bits = 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63);
        (&self.words[word], bits)
    }

    /// Asks for the word of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch::line(self.place(hash).0);
    }

    /// Notes a key's hash.
    #[inline]
    pub fn add(&self, hash: u64) {
        let (word, bits) = self.place(hash);
        // Whoever may see the entry learned of the buffer from a thread that had added it, so the
        // order of this store needs no promise of its own.
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Whether the key with this hash may be there.
    #[inline]
    pub fn may_hold(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        word.load(Ordering::Relaxed) & bits == bits
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::format::hash::hash;

    #[test]
    fn what_was_added_is_there_and_little_else() {
        let count = if cfg!(miri) { 1_000 } else { 100_000 };
        let filter = BufferFilter::new(count * 84);
        let key = |number: u64| hash(1, &number.to_le_bytes());
        (0..count).for_each(|number| filter.add(key(number)));
        assert!((0..count).all(|number| filter.may_hold(key(number))));
        let passed = (count..2 * count).filter(|&number| filter.may_hold(key(number))).count();
        assert!((passed as u64) < count / 25, "{passed} of {count}");
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings {
    use super::*;

    /// Clones of a buffer that add to one word lose none of each other's bits, and whoever added a
    /// hash, or was told of it, finds it.
    #[test]
    fn clones_lose_no_bits_of_each_other() {
        crate::sync::check_schedules(
            || {
                let filter = BufferFilter::new(64);
                let threads: Vec<_> = (0..3u64)
                    .map(|number| {
                        let filter = filter.clone();
                        shuttle::thread::spawn(move || {
                            let hashes = [number, number | 5 << 6, number | 9 << 12];
                            for (index, &hash) in hashes.iter().enumerate() {
                                filter.add(hash);
                                assert!(hashes[..=index].iter().all(|&hash| filter.may_hold(hash)));
                            }
                            hashes
                        })
                    })
                    .collect();
                for thread in threads {
                    let hashes = thread.join().expect("its assertions hold");
                    assert!(hashes.iter().all(|&hash| filter.may_hold(hash)));
                }
            },
            2000,
        );
    }
}
