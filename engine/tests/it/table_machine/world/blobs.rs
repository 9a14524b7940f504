//! Steps with values that stay where they are: found and read later, or written in pieces.

use varvite::{Batch, Kind};

use super::{ALIVE, Outcome, World, ok, same};
use crate::model::table as model;
use crate::random::Random;

impl World {
    /// Finds values, reads all of them together, and holds a few.
    pub(super) fn find(&mut self, index: usize, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let count = 1 + random.index(20);
        let keys: Vec<_> = (0..count).map(|_| self.setup.any_key(&mut random)).collect();
        let (table, model) = &self.tables[index];
        let found = ok(table.view().find(&keys))?;
        same("the count of values found", &found.len(), &keys.len())?;
        let mut held = Vec::new();
        for (key, value) in keys.iter().zip(found) {
            let expected = model.get(key);
            same("whether it is bound", &value.is_some(), &expected.is_some())?;
            held.extend(value.zip(expected.map(<[u8]>::to_vec)));
        }
        let values: Vec<_> = held.iter().map(|(value, _)| value.clone()).collect();
        let read = ok(self.session.read_values(&values))?;
        for ((value, expected), read) in held.iter().zip(read.iter()) {
            same("the length of a value", &value.len(), &(expected.len() as u64))?;
            same("a value read with others", &read, &Some(&expected[..]))?;
        }
        self.hold(held);
        Ok(())
    }

    fn hold(&mut self, values: impl IntoIterator<Item = (varvite::Value, Vec<u8>)>) {
        self.values.extend(values.into_iter().take(ALIVE));
        self.values.drain(..self.values.len().saturating_sub(ALIVE));
    }

    /// Whatever became of their keys and tables, values that are held give their bytes.
    pub(super) fn read_held(&mut self) -> Outcome {
        for (value, expected) in &self.values {
            let offset = self.random.index(expected.len() + 2);
            let mut piece = vec![0; self.random.index(200)];
            let read = ok(value.read_at(offset as u64, &mut piece))?;
            let rest = expected.get(offset..).unwrap_or_default();
            same("a piece of a value", &&piece[..read], &&rest[..rest.len().min(piece.len())])?;
        }
        Ok(())
    }

    /// Binds keys to a value that is written in pieces, or to one that is held.
    pub(super) fn stream(&mut self, index: usize, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let (value, bytes) = if random.one_in(2) && !self.values.is_empty() {
            self.values[random.index(self.values.len())].clone()
        } else {
            let length = random.choose(&[0, 1, 500, 20_000, 300_000]);
            let bytes = random.bytes(length);
            let mut writer = ok(self.session.write_value())?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(1 + random.index(rest.len()));
                ok(writer.write(now))?;
                rest = later;
            }
            if random.one_in(8) {
                return Ok(()); // what was written goes with the writer
            }
            (ok(writer.finish())?, bytes)
        };
        same("all of a value", &ok(value.read())?, &bytes)?;
        let mut batch = Batch::new();
        let mut changes = Vec::new();
        for _ in 0..=random.index(3) {
            let key = self.setup.any_key(&mut random);
            batch.insert_value(&key, &value);
            changes.push(model::Change::Insert(key, bytes.clone()));
        }
        self.hold([(value, bytes)]);
        if self.setup.join().is_none() {
            return self.apply(index, &changes, &batch);
        }
        // Upserts may join it, so it goes in whole; unless it was so short that it did anyway.
        let (table, model) = &mut self.tables[index];
        if let Err(error) = table.update(&batch) {
            same("what must go in whole", &error.kind(), &Kind::Invalid)?;
            return self.apply(index, &changes, &model::batch(&changes));
        }
        model.update(&changes, None);
        Ok(())
    }
}
