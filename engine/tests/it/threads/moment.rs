//! A table beside its model, and the check of what readers see of one moment of both.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use varvite::{Batch, Table, View};

use crate::listed::Listed;
use crate::random::Random;

/// Keys are numbers below this.
pub const KEYS: u64 = 600;

pub fn key(number: u64) -> [u8; 8] {
    (number * 7).to_be_bytes()
}

/// What the version `version` of a key is: its bytes say which it is.
fn value(version: u64, length: usize) -> Vec<u8> {
    version.to_le_bytes().repeat(length.div_ceil(8))
}

/// What the table holds: for each key the version of its value.
#[derive(Clone, Debug)]
pub struct Model {
    versions: Arc<BTreeMap<u64, u64>>,
    value_bytes: usize,
}

impl Model {
    pub fn new(value_bytes: usize) -> Self {
        Model { versions: Arc::default(), value_bytes }
    }

    /// Changes `count` random keys of both in the same way; the table's operator is `max`.
    pub fn update(
        &mut self,
        table: &mut Table,
        random: &mut Random,
        count: usize,
    ) -> varvite::Result<()> {
        let mut versions = self.versions.as_ref().clone();
        let mut batch = Batch::new();
        for _ in 0..count {
            let number = random.below(KEYS);
            let version = random.next();
            let bytes = value(version, self.value_bytes);
            match random.below(8) {
                0 | 1 => {
                    versions.remove(&number);
                    batch.delete(&key(number));
                }
                2 => {
                    let kept = versions.entry(number).or_insert(version);
                    *kept = [*kept, version].into_iter().max_by_key(|it| it.to_le_bytes()).unwrap();
                    batch.upsert(&key(number), &bytes);
                }
                _ => {
                    versions.insert(number, version);
                    batch.insert(&key(number), &bytes);
                }
            }
        }
        table.update(&batch)?;
        self.versions = Arc::new(versions);
        Ok(())
    }

    fn expected(&self, number: u64) -> Option<Vec<u8>> {
        self.versions.get(&number).map(|&version| value(version, self.value_bytes))
    }

    /// Lookups, a range and a cursor of `view` in random places say what the model says.
    pub fn check(&self, view: &View, random: &mut Random) -> varvite::Result<()> {
        let numbers: Vec<_> = (0..40).map(|_| random.below(KEYS)).collect();
        let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
        let found = view.lookup(&keys)?;
        for (place, &number) in numbers.iter().enumerate() {
            let (found, expected) = (found.get(place), self.expected(number));
            assert!(found == expected.as_deref(), "key {number}, in {view:?}");
        }
        let from = random.below(KEYS);
        let to = from + random.below(40);
        let mut expected = self.versions.range(from..=to);
        for (found, bytes) in view.listed(Included(&key(from)), Included(&key(to)))? {
            let (&number, &version) = expected.next().expect("no key that the model has not");
            assert!(found == key(number) && bytes == value(version, self.value_bytes), "{number}");
        }
        assert!(expected.next().is_none(), "a key is missing in a range");
        self.check_cursor(view, from)
    }

    /// Some steps forward and the same ones back.
    fn check_cursor(&self, view: &View, from: u64) -> varvite::Result<()> {
        let mut cursor = view.cursor(Excluded(&key(from)), Unbounded)?;
        let expected: Vec<_> = self.versions.range(from + 1..).take(12).collect();
        for (number, version) in &expected {
            let (found, bytes) = cursor.next()?.expect("a key that the model has");
            assert!(found == key(**number) && bytes == value(**version, self.value_bytes));
        }
        for (number, _) in expected.iter().rev() {
            assert!(cursor.previous()?.expect("it was just passed").0 == key(**number));
        }
        assert!(cursor.previous()?.is_none());
        Ok(())
    }

    /// All of it.
    pub fn check_all(&self, view: &View) -> varvite::Result<()> {
        let found = view.listed(Unbounded, Unbounded)?;
        assert_eq!(found.len(), self.versions.len());
        for ((key_, bytes), (&number, &version)) in found.iter().zip(&*self.versions) {
            assert!(key_ == &key(number) && bytes == &value(version, self.value_bytes), "{number}");
        }
        Ok(())
    }
}
