//! A hasher for tables whose keys are addresses or offsets of ours.

use std::hash::{BuildHasherDefault, Hasher};

/// Such keys are nobody's choice, so one multiplication scatters them.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

pub(crate) type BuildNumberHasher = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
