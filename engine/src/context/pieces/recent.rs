//! What was asked for lately, so that a cache takes in what is asked for twice and a scan of cold
//! places does not flush it.
//!
//! One mark a place, the newest wins: how far it remembers is about its number of marks. Two keys
//! that share a mark only make it forget.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};

/// Marks of what was asked for.
pub(crate) struct Recent(Box<[AtomicU64]>);

impl Recent {
    /// Remembers about `marks` keys, 8 bytes each.
    pub(crate) fn new(marks: usize) -> Recent {
        Recent((0..marks).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether `key`, which is never 0, was asked for lately; from now on it was.
    #[inline]
    pub(crate) fn again(&self, key: u64) -> bool {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (u128::from(hash) * self.0.len() as u128) >> 64;
        self.0[index as usize].swap(key, Ordering::Relaxed) == key
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recent({} marks)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_time_is_again_and_old_keys_are_forgotten() {
        let recent = Recent::new(64);
        for key in 1..1000 {
            assert!(!recent.again(key) && recent.again(key));
        }
        let known = (1..1000).filter(|key| recent.again(*key)).count();
        assert!(known <= 64, "one key a mark, not {known}");
    }
}
