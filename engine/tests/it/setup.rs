//! How a session and a table are set up in a test, with keys, values and batches drawn from seeds.

use varvite::disk::Access;
use varvite::{Compression, Log, Lookups, MergeOperator, TableOptions};

use crate::model::table::{Change, Join};
use crate::random::{Random, mix};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    Memory,
    Os,
    Sim,
}

/// The shapes of keys that have their own paths through pages, indexes and filters.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// One to three bytes, also zeros, each often the beginning of another.
    Short,
    /// 34 bytes without any pattern.
    Hashed,
    /// The first 20 bytes are the same, so that no prefix tells them apart.
    Alike,
    /// A hash of 32 bytes that a few keys share, and a number of two bytes.
    Outputs,
    /// Up to 4,000 bytes, many the beginning of another.
    Long,
}

#[derive(Clone, Copy, Debug)]
pub enum Upserts {
    None,
    AddU64,
    /// The last 300 bytes of both: associative, and the order matters.
    Tail,
}

/// What runs the work that the table hands to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    None,
    AtOnce,
    /// Later, in any order, or never.
    Later,
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub disk: DiskKind,
    pub seed: u64,
    pub write_buffer_bytes: u64,
    pub size_ratio: u32,
    pub lookups: Lookups,
    pub filter_bits: u8,
    pub filter_bytes_max: u64,
    pub upserts: Upserts,
    pub cache_bytes: Option<u64>,
    pub access: Access,
    pub queue_depth: usize,
    pub segment_bytes: u64,
    pub max_open_files: Option<usize>,
    pub helper: Help,
    pub keys: Keys,
    pub key_count: u64,
    pub value_bytes_max: u64,
    pub log: Log,
    pub log_file_bytes: u64,
    pub blob_min_bytes: Option<u32>,
    pub compression: Compression,
}

impl Setup {
    pub fn draw(disk: DiskKind, seed: u64) -> Setup {
        let mut random = Random::new(seed ^ 0x005e_709b);
        let large = random.one_in(4);
        Setup {
            disk,
            seed,
            write_buffer_bytes: random.choose(&[64, 300, 700, 4_000, 20_000, 200_000]),
            size_ratio: random.choose(&[2, 2, 3, 4, 4, 16]),
            lookups: random.choose(&[Lookups::Mixed, Lookups::MostlyHit]),
            filter_bits: random.choose(&[0, 4, 10, 14, 24]),
            filter_bytes_max: random.choose(&[0, 200, 1 << 20]),
            upserts: random.choose(&[Upserts::None, Upserts::AddU64, Upserts::Tail]),
            cache_bytes: random.choose(&[None, Some(8_000), Some(1 << 20)]),
            access: random.choose(&[Access::Buffered, Access::Direct]),
            queue_depth: random.choose(&[1, 2, 64]),
            segment_bytes: random.choose(&[8_192, 20_000, 16 << 20]),
            helper: random.choose(&[Help::None, Help::None, Help::AtOnce, Help::Later]),
            keys: random.choose(&[
                Keys::Short,
                Keys::Hashed,
                Keys::Alike,
                Keys::Outputs,
                Keys::Long,
            ]),
            key_count: random.choose(&[20, 300, 2_000]),
            value_bytes_max: if large { 9_000 } else { random.choose(&[1, 60, 60, 400]) },
            // What a power cut leaves of a log that is not synced is `log_crash.rs`'s.
            log: match disk {
                DiskKind::Memory => random.choose(&[Log::None, Log::Written, Log::Synced]),
                DiskKind::Os => random.choose(&[Log::None, Log::Written]),
                DiskKind::Sim => random.choose(&[Log::None, Log::Synced]),
            },
            log_file_bytes: random.choose(&[600, 5_000, 64 << 20]),
            blob_min_bytes: random.choose(&[None, None, None, Some(32), Some(300), Some(5_000)]),
            max_open_files: random.choose(&[None, None, Some(1), Some(5)]),
            compression: random.choose(&[Compression::None, Compression::Fast]),
        }
    }

    pub fn key(&self, index: u64) -> Vec<u8> {
        let hash = mix(index);
        match self.keys {
            Keys::Short => {
                if index == 5 {
                    return Vec::new();
                }
                let digits = [index % 7, index / 7 % 16, index / 112 % 256].map(|it| it as u8);
                digits[..=((index % 3) as usize)].to_vec()
            }
            Keys::Hashed => {
                let mut key: Vec<u8> =
                    (0..4).flat_map(|part| mix(hash ^ part).to_be_bytes()).collect();
                key.extend(b"==");
                key
            }
            Keys::Alike => [b"the same 20 bytes - ", &index.to_be_bytes()[4..]].concat(),
            Keys::Outputs => {
                let (transaction, output) = (index / 7, (index % 7) as u16);
                let hash = (0..4).flat_map(|part| mix(mix(transaction) ^ part).to_be_bytes());
                hash.chain(output.to_be_bytes()).collect()
            }
            Keys::Long => {
                let length = if hash.is_multiple_of(50) { 4_000 } else { hash as usize % 200 };
                let mut key = vec![b'k'; length];
                let end = index.to_be_bytes();
                let take = length.min(3);
                key[length - take..].copy_from_slice(&end[8 - take..]);
                key
            }
        }
    }

    /// A key that was perhaps never used.
    pub fn any_key(&self, random: &mut Random) -> Vec<u8> {
        if random.one_in(8) {
            let length = random.index(41);
            return random.bytes(length);
        }
        self.key(random.below(self.key_count))
    }

    fn value(&self, random: &mut Random) -> Vec<u8> {
        let length = match random.below(40) {
            0 => 0,
            1 if self.value_bytes_max > 4_096 => 70_000,
            2..20 => self.value_bytes_max,
            _ => random.below(self.value_bytes_max + 1),
        };
        random.bytes(length as usize)
    }

    /// How many operations of a batch fill about `count` write buffers, and three at least.
    pub fn operations_filling(&self, count: u64) -> u64 {
        let long_values = if self.value_bytes_max > 4_096 { 70_000 / 40 } else { 0 };
        let entry_bytes = 40 + self.value_bytes_max * 3 / 4 + long_values;
        (count * self.write_buffer_bytes / entry_bytes).max(3)
    }

    /// The operations of a batch.
    pub fn changes(&self, seed: u64, count: u32) -> Vec<Change> {
        let mut random = Random::new(seed);
        // Some batches are one stretch of keys, some touch one key again and again.
        let spread = random.choose(&[self.key_count, self.key_count, 3, 50]).min(self.key_count);
        let start = random.below(self.key_count);
        let deletes = random.choose(&[2, 3, 9]);
        let mut draw = |_| {
            let key = self.key((start + random.below(spread)) % self.key_count);
            match random.below(10) {
                it if it < deletes => Change::Delete(key),
                9 if self.join().is_some() => Change::Upsert(key, self.value(&mut random)),
                _ => Change::Insert(key, self.value(&mut random)),
            }
        };
        let mut changes: Vec<_> = (0..count).map(&mut draw).collect();
        let mut random = Random::new(seed ^ 0x007a_49e5);
        while random.one_in(9) {
            let at = random.index(changes.len() + 1);
            changes.insert(at, self.range_change(&mut random));
        }
        changes
    }

    /// A range that is deleted among other changes: mostly a small one.
    fn range_change(&self, random: &mut Random) -> Change {
        let index = random.below(self.key_count);
        let (mut key, other) = (self.key(index), self.key(index + 1 + random.below(5)));
        match random.below(4) {
            0 => {
                key.truncate(key.len().saturating_sub(random.index(3)));
                Change::DeletePrefix(key)
            }
            1 => Change::DeleteRange(key, self.any_key(random)),
            _ => Change::DeleteRange(key.clone().min(other.clone()), key.max(other)),
        }
    }

    pub fn table_options(&self) -> TableOptions {
        TableOptions {
            write_buffer_bytes: self.write_buffer_bytes,
            size_ratio: self.size_ratio,
            lookups: self.lookups,
            filter_bits: self.filter_bits,
            filter_bytes_max: self.filter_bytes_max,
            blob_min_bytes: self.blob_min_bytes,
            compression: self.compression,
            operator: self.operator(),
        }
    }

    pub fn join(&self) -> Option<Join> {
        match self.upserts {
            Upserts::None => None,
            Upserts::AddU64 => Some(add),
            Upserts::Tail => Some(tail),
        }
    }

    pub fn operator(&self) -> Option<MergeOperator> {
        match self.upserts {
            Upserts::None => None,
            Upserts::AddU64 => Some(MergeOperator::add_u64()),
            Upserts::Tail => Some(MergeOperator::new("tail-300", tail)),
        }
    }
}

fn add(older: &[u8], newer: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| {
        bytes.iter().take(8).rev().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte))
    };
    number(older).wrapping_add(number(newer)).to_le_bytes().to_vec()
}

fn tail(older: &[u8], newer: &[u8]) -> Vec<u8> {
    let both = [older, newer].concat();
    both[both.len().saturating_sub(300)..].to_vec()
}
