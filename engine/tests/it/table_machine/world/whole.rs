//! Steps that act on whole tables.

use std::ops::Bound;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{Kind, LoadOrder, Session, SessionOptions, Verify};

use super::{ALIVE, Outcome, World, compare, ok, refused, same};
use crate::listed::Listed;
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
        refused("a key that is too long", loader.push(&[0; 4_001], b"no"), Kind::Invalid)?;
        if random.one_in(8) {
            drop(loader);
            return Ok(());
        }
        self.tables.push((ok(loader.finish())?, model));
        self.tables.drain(..self.tables.len().saturating_sub(ALIVE));
        Ok(())
    }

    /// Exports a snapshot, looks at it there, and imports it under another name, perhaps one that is
    /// taken.
    pub(super) fn travel_snapshot(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let name = format!("s{}", random.below(ALIVE as u64));
        let new_name = format!("s{}", random.below(ALIVE as u64));
        let verify = random.choose(&[Verify::Quick, Verify::Full]);
        let parcel: Arc<dyn Disk> = MemoryDisk::seeded(1);
        if !self.saved.contains_key(&name) {
            let outcome = self.session.export_snapshot(&name, &parcel, verify);
            return refused("exporting what is not there", outcome, Kind::Missing);
        }
        let moved = ok(self.session.export_snapshot(&name, &parcel, verify))?;
        let again = self.session.export_snapshot(&name, &parcel, verify);
        refused("exporting to a folder in use", again, Kind::Exists)?;
        let there = ok(Session::open(Arc::clone(&parcel), SessionOptions::default()))?;
        self.open_in(&there, &mut random, &name, true)?;
        ok(there.close())?;
        let outcome = self.session.import_snapshot(&parcel, &name, &new_name, verify);
        if self.saved.contains_key(&new_name) {
            return refused("importing under a name that is taken", outcome, Kind::Exists);
        }
        same("what was moved there and back", &ok(outcome)?.segments, &moved.segments)?;
        let saved = self.saved[&name].clone();
        self.saved.insert(new_name.clone(), saved);
        self.open_in(&self.session, &mut random, &new_name, true).map(drop)
    }

    /// Deletes a range, often a short one, so that there is something left.
    pub(super) fn delete_range(&mut self, index: usize, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let (lower, mut upper) = self.bounds(&mut random);
        if random.one_in(2)
            && let Bound::Included(lower) | Bound::Excluded(lower) = &lower
        {
            // Up to some keys further on.
            let far = 1 + random.index(30);
            let after = self.tables[index].1.range(Bound::Included(&lower[..]), Bound::Unbounded);
            upper = after.get(far).map_or(upper, |(key, _)| Bound::Excluded(key.clone()));
        }
        let (lower, upper) = (lower.as_ref().map(|it| &it[..]), upper.as_ref().map(|it| &it[..]));
        let (table, model) = &mut self.tables[index];
        if let Err(error) = table.delete_range(lower, upper) {
            // Too many deletes while merges were paused: nothing changed, and then it works.
            same("a range not deleted", &error.kind(), &Kind::Invalid)?;
            same("merges paused", &self.session.merges_are_paused(), &true)?;
            compare("a table that refused", &table.view(), model)?;
            self.session.resume_merges();
            ok(table.delete_range(lower, upper))?;
        }
        model.delete_range(lower, upper);
        same("what a deleted range leaves in it", &ok(table.listed(lower, upper))?, &Vec::new())
    }
}
