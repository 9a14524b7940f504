//! Steps that act on whole tables.

use std::ops::Bound;

use varvite::{Kind, LoadOrder};

use super::{ALIVE, Outcome, World, ok, refused};
use crate::model::table as model;
use crate::random::Random;

impl World {
    /// Loads a table with what another one holds, and some more. Sorted, a key that is not above the
    /// one before is refused and changes nothing.
    pub(super) fn load(&mut self, index: usize, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let mut model = model::Table::default();
        let mut stream = self.tables[index].1.range(Bound::Unbounded, Bound::Unbounded);
        for change in self.setup.changes(seed, 1 + (seed % 400) as u32) {
            if let model::Change::Insert(key, value) = change {
                stream.push((key, value));
            }
        }
        let in_order = random.one_in(2);
        let order = if in_order {
            stream.reverse();
            stream.sort_by(|a, b| a.0.cmp(&b.0));
            stream.dedup_by(|a, b| a.0 == b.0);
            LoadOrder::Sorted
        } else {
            LoadOrder::Any { memory_bytes: random.choose(&[1, 300, 5_000, 1 << 20]) }
        };
        let name = self.new_name();
        let options = self.setup.table_options();
        let mut loader = ok(self.session.load_table(&name, options, order))?;
        let mut last: Option<Vec<u8>> = None;
        for (key, value) in stream {
            ok(loader.push(&key, &value))?;
            if in_order && random.one_in(20) {
                let below = last.as_ref().filter(|_| random.one_in(2)).unwrap_or(&key);
                refused("a key out of order", loader.push(below, b"no"), Kind::Invalid)?;
            }
            last = Some(key.clone());
            model.update(&[model::Change::Insert(key, value)], None);
        }
        refused("a key without bytes", loader.push(b"", b"no"), Kind::Invalid)?;
        if random.one_in(8) {
            drop(loader);
            return Ok(());
        }
        self.tables.push((ok(loader.finish())?, model));
        self.tables.drain(..self.tables.len().saturating_sub(ALIVE));
        Ok(())
    }
}
