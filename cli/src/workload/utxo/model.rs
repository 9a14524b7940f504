//! Which logical numbers are live, one bit each: what a table must answer.
//!
//! It shares nothing with the engine. After every batch it asks for what the batch deleted and
//! inserted and for a few numbers anywhere; at the end it compares the whole table.

use std::ops::Bound;

use varvite::{Result, Table, Values};

use super::{Key, Numbers, VALUE, key, mix};

/// Numbers anywhere that are asked for after a batch.
const PROBES: u64 = 64;

/// The live numbers.
#[derive(Clone, Debug)]
pub struct Model {
    live: Vec<u64>,
    end: u64,
    checks: u64,
}

impl Model {
    /// Numbers 0 to `entries` are live.
    pub fn new(entries: u64) -> Model {
        let mut model = Model { live: Vec::new(), end: 0, checks: 0 };
        (0..entries).for_each(|number| model.insert(number));
        model
    }

    fn insert(&mut self, number: u64) {
        let word = number as usize / 64;
        if word >= self.live.len() {
            self.live.resize(word + 1, 0);
        }
        assert!(self.live[word] & 1 << (number % 64) == 0, "fresh numbers are inserted once");
        self.live[word] |= 1 << (number % 64);
        self.end = self.end.max(number + 1);
    }

    /// Whether the table must hold `number`.
    pub fn holds(&self, number: u64) -> bool {
        self.live.get(number as usize / 64).is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    /// How many numbers are live.
    pub fn len(&self) -> u64 {
        self.live.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// How many answers were compared.
    pub fn checks(&self) -> u64 {
        self.checks
    }

    /// How many of `found` are not what this model says about `numbers`.
    pub fn wrong(&mut self, numbers: &[u64], found: impl Iterator<Item = bool>) -> u64 {
        let mut wrong = 0;
        for (number, found) in numbers.iter().zip(found) {
            wrong += u64::from(self.holds(*number) != found);
        }
        self.checks += numbers.len() as u64;
        wrong
    }

    /// Applies a batch.
    pub fn apply(&mut self, numbers: &Numbers) {
        for number in &numbers.spent {
            assert!(self.holds(*number), "only live numbers are spent");
            self.live[*number as usize / 64] &= !(1 << (number % 64));
        }
        for number in numbers.fresh..numbers.fresh + numbers.spent.len() as u64 {
            self.insert(number);
        }
    }

    /// Asks `table`, which has just applied `numbers`, for what they changed and for a few others;
    /// returns how many answers were wrong.
    pub fn check_batch(&mut self, table: &Table, numbers: &Numbers) -> Result<u64> {
        let mut asked = numbers.spent.clone();
        asked.extend(numbers.fresh..numbers.fresh + numbers.spent.len() as u64);
        let beyond = self.end + PROBES; // some that were never inserted
        asked.extend((0..PROBES).map(|probe| mix(self.checks + probe) % beyond));
        let keys: Vec<Key> = asked.iter().map(|number| key(*number)).collect();
        let values = table.lookup(&keys)?;
        Ok(self.wrong(&asked, found(&values)))
    }

    /// Compares everything `table` holds: order, count, values, and a sum over all keys.
    /// Returns how many of these four are wrong.
    pub fn check_whole(&mut self, table: &Table) -> Result<u64> {
        let (mut count, mut sum, mut ordered, mut right) = (0, 0u64, true, true);
        let mut last: Vec<u8> = Vec::new();
        let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded)?;
        while let Some((key, value)) = cursor.next()? {
            ordered &= count == 0 || last.as_slice() < key;
            right &= value == VALUE;
            sum = sum.wrapping_add(fingerprint(key));
            count += 1;
            last.clear();
            last.extend_from_slice(key);
        }
        let live = (0..self.end).filter(|number| self.holds(*number));
        let expected = live.fold(0u64, |sum, number| sum.wrapping_add(fingerprint(&key(number))));
        self.checks += count;
        let wrong = [count != self.len(), sum != expected, !ordered, !right];
        Ok(wrong.iter().filter(|wrong| **wrong).count() as u64)
    }
}

/// Which lookups found the value that every entry has.
pub fn found(values: &Values) -> impl Iterator<Item = bool> {
    values.iter().map(|value| value == Some(&VALUE[..]))
}

fn fingerprint(key: &[u8]) -> u64 {
    key.chunks(8).fold(key.len() as u64, |state, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(state ^ u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_counts_wrong_answers() {
        let mut model = Model::new(100);
        assert_eq!(model.wrong(&[1, 2, 100], [true, false, false].into_iter()), 1);
        model.apply(&Numbers { spent: vec![1, 5], fresh: 100 });
        assert_eq!(model.len(), 100);
        assert_eq!(model.wrong(&[1, 5, 100, 101], [false, false, true, true].into_iter()), 0);
        assert_eq!(model.checks(), 7);
    }

    #[test]
    fn fingerprints_tell_keys_apart() {
        assert_ne!(fingerprint(&key(1)), fingerprint(&key(2)));
        assert_ne!(fingerprint(b"a"), fingerprint(b"a\0"));
    }
}
