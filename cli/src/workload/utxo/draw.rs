//! The numbers and keys of the `UTxO` load.
//!
//! Every entry has a logical number; its key is four `SplitMix64` outputs seeded with the number, then
//! `==`. Which numbers a batch spends comes from a Lehmer generator x' = a·x mod m over all numbers
//! that the run will ever use: m is the first prime above them and a is one of its primitive roots,
//! so a period visits each number exactly once. Numbers that are not yet inserted are passed over.
//! `bench/compare` includes this file, so that its load is this one.
//! Source: Steele, Lea, Flood 2014 (`SplitMix64`); Lehmer 1951.

/// Bytes of a key.
pub const KEY_BYTES: usize = 34;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 60;
/// Every value.
pub const VALUE: [u8; VALUE_BYTES] = [b'x'; VALUE_BYTES];
/// Products in the generator must fit 64 bits: the root has two thirds of the modulus' bits.
pub const NUMBERS_MAX: u64 = 1 << 37;

/// A key.
pub type Key = [u8; KEY_BYTES];

/// The key of logical number `number`.
#[inline]
pub fn key(number: u64) -> Key {
    let mut key = [b'='; KEY_BYTES];
    let mut state = number;
    for word in key[..32].chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&mix(state).to_le_bytes());
    }
    key
}

/// The last step of `SplitMix64`.
#[inline]
pub fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a batch does, in logical numbers.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Looked up, then deleted.
    pub spent: Vec<u64>,
    /// The first of the fresh numbers; as many as are spent.
    pub fresh: u64,
}

/// Draws the numbers of batch after batch.
#[derive(Clone, Debug)]
pub struct Draw {
    modulus: u64,
    root: u64,
    state: u64,
    /// Numbers below this are inserted.
    end: u64,
    batch_size: u64,
    grows: bool,
    /// One bit a number, kept only when the run may go round a whole period: a second visit of a
    /// spent number is passed over, so that every lookup is a hit.
    spent: Vec<u64>,
}

impl Draw {
    /// For a table of `entries`, and a run of `batches` that spend and insert `batch_size` each when
    /// `grows`, or only look up. `seed` says where in the period the run begins.
    pub fn new(entries: u64, batches: u64, batch_size: u64, grows: bool, seed: u64) -> Draw {
        let numbers = entries + batches * batch_size;
        assert!(numbers < NUMBERS_MAX, "checked by the command line");
        assert!(entries > 0 && batch_size <= entries, "checked by the command line");
        let modulus = prime_above(numbers);
        let wraps = grows && batches * batch_size > entries;
        let bits = if wraps { modulus.div_ceil(64) as usize } else { 0 };
        Draw {
            modulus,
            root: primitive_root(modulus),
            state: 1 + seed % (modulus - 1),
            end: entries,
            batch_size,
            grows,
            spent: vec![0; bits],
        }
    }

    /// The next batch, into `numbers`.
    pub fn next(&mut self, numbers: &mut Numbers) {
        numbers.spent.clear();
        while numbers.spent.len() < self.batch_size as usize {
            self.state = self.root * self.state % self.modulus;
            let number = self.state - 1; // states are 1..m
            if number < self.end && self.take(number) {
                numbers.spent.push(number);
            }
        }
        numbers.fresh = self.end;
        if self.grows {
            self.end += self.batch_size;
        }
    }

    /// Marks `number`; false when it was spent before.
    #[inline]
    fn take(&mut self, number: u64) -> bool {
        let Some(word) = self.spent.get_mut(number as usize / 64) else { return true };
        let bit = 1 << (number % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }
}

fn prime_above(number: u64) -> u64 {
    let mut candidate = (number + 1).max(5) | 1;
    while prime_factors(candidate).len() != 1 || prime_factors(candidate)[0] != candidate {
        candidate += 2;
    }
    candidate
}

/// The distinct prime factors, by trial division: at most 2^18.5 steps for numbers in range.
fn prime_factors(mut number: u64) -> Vec<u64> {
    let mut factors = Vec::new();
    let mut divisor = 2;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            factors.push(divisor);
            while number.is_multiple_of(divisor) {
                number /= divisor;
            }
        }
        divisor += if divisor == 2 { 1 } else { 2 };
    }
    if number > 1 {
        factors.push(number);
    }
    factors
}

/// The first primitive root of the prime at or above 2^(two thirds of its bits).
fn primitive_root(prime: u64) -> u64 {
    let factors = prime_factors(prime - 1);
    let bits = 64 - prime.leading_zeros();
    let start = 1 << (bits * 2 / 3);
    (start..prime)
        .chain(2..start)
        .find(|root| factors.iter().all(|factor| power(*root, (prime - 1) / factor, prime) != 1))
        .expect("every prime has a primitive root")
}

fn power(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let multiply = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(modulus)) as u64;
    let (mut result, mut square) = (1, base % modulus);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_distinct_and_end_in_two_signs() {
        let keys: HashSet<Key> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| key.ends_with(b"==")));
        // SplitMix64 of seed 0 starts with this published value.
        assert_eq!(key(0)[..8], 0xe220_a839_7b1d_cdaf_u64.to_le_bytes());
    }

    #[test]
    fn a_period_visits_every_number_once() {
        let draw = Draw::new(1_000, 0, 1, false, 7);
        let mut state = draw.state;
        let mut seen = HashSet::new();
        for _ in 1..draw.modulus {
            state = draw.root * state % draw.modulus;
            assert!(seen.insert(state));
        }
        assert_eq!(seen.len() as u64, draw.modulus - 1);
    }

    #[test]
    fn every_number_drawn_is_live_even_past_a_period() {
        let (entries, batches, size) = (500, 40, 50);
        let mut draw = Draw::new(entries, batches, size, true, 1337);
        let mut live: HashSet<u64> = (0..entries).collect();
        let mut numbers = Numbers::default();
        for _ in 0..batches {
            draw.next(&mut numbers);
            assert_eq!(numbers.spent.len() as u64, size);
            for number in &numbers.spent {
                assert!(live.remove(number), "{number} was not live");
            }
            for number in numbers.fresh..numbers.fresh + size {
                assert!(live.insert(number));
            }
        }
        assert_eq!(live.len() as u64, entries);
    }

    #[test]
    fn lookups_alone_stay_inside_the_table() {
        let mut draw = Draw::new(100, 1_000, 10, false, 3);
        let mut numbers = Numbers::default();
        for _ in 0..1_000 {
            draw.next(&mut numbers);
            assert!(numbers.spent.iter().all(|number| *number < 100));
        }
    }

    #[test]
    fn products_fit_for_the_largest_run() {
        let prime = prime_above(NUMBERS_MAX);
        let root = primitive_root(prime);
        assert!(u128::from(root) * u128::from(prime) < 1 << 64);
    }
}
