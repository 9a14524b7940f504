//! Whether every engine gives the same answers: batches with keys that are there and keys that are not,
//! and everything at the end, against a sorted map.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::draw::{Draw, Key, Numbers, VALUE, key, mix};
use crate::engine::{Answer, Each, Engine, Result, Spec, Terms};
use crate::outputs::{self, Prefix};

/// Keys anywhere that are asked for after a batch.
const PROBES: u64 = 64;

/// What to compare.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Entries at first.
    pub entries: u64,
    /// Batches.
    pub batches: u64,
    /// Operations in a batch.
    pub batch_size: u64,
    /// Whether every batch is durable.
    pub synced: bool,
}

/// The model: the same interface on a sorted map.
#[derive(Default)]
struct Model(BTreeMap<Key, [u8; VALUE.len()]>);

impl Engine for Model {
    fn lookup(&mut self, keys: &[Key], answer: Answer) -> Result<()> {
        keys.iter().for_each(|key| answer(self.0.get(key).map(|value| &value[..])));
        Ok(())
    }

    fn batch(&mut self, spent: &[Key], fresh: &[Key], answer: Answer) -> Result<()> {
        self.lookup(spent, answer)?;
        for key in spent {
            self.0.remove(key);
        }
        self.0.extend(fresh.iter().map(|key| (*key, VALUE)));
        Ok(())
    }

    fn range(&mut self, from: &Key, length: usize, each: Each) -> Result<()> {
        self.0.range::<Key, _>(from..).take(length).for_each(|(key, value)| each(key, value));
        Ok(())
    }

    fn prefix(&mut self, prefix: &Prefix, each: Each) -> Result<()> {
        let own = self.0.range::<Key, _>(outputs::first(prefix)..=outputs::last(prefix));
        own.for_each(|(key, value)| each(key, value));
        Ok(())
    }

    fn scan(&mut self, backward: bool, each: Each) -> Result<()> {
        let all = self.0.iter();
        if backward {
            all.rev().for_each(|(key, value)| each(key, value));
        } else {
            all.for_each(|(key, value)| each(key, value));
        }
        Ok(())
    }

    fn settle(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Digests of all answers of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Of every lookup, in order.
    pub answers: u64,
    /// Of everything at the end, in order.
    pub content: u64,
    /// And after the store was closed and opened again.
    pub reopened: u64,
}

/// What the model answers.
pub fn expected(plan: &Plan) -> Result<Digests> {
    let mut model = Model::default();
    let answers = run(&mut model, plan)?;
    let content = content(&mut model)?;
    Ok(Digests { answers, content, reopened: content })
}

/// What `spec` answers, on a store in the new folder `path`.
pub fn asked(path: &Path, spec: &Spec, plan: &Plan) -> Result<Digests> {
    fs::create_dir_all(path)?;
    let terms =
        Terms { entries: plan.entries, synced: plan.synced, ranges: true, limit_bytes: None };
    let mut engine = spec.open(path, &terms)?;
    let answers = run(&mut *engine, plan)?;
    let before = content(&mut *engine)?;
    engine.settle()?;
    let mut engine = spec.open(path, &terms)?;
    let reopened = content(&mut *engine)?;
    drop(engine);
    fs::remove_dir_all(path)?;
    Ok(Digests { answers, content: before, reopened })
}

fn run(engine: &mut dyn Engine, plan: &Plan) -> Result<u64> {
    let mut digest = 0;
    let first: Vec<Key> = (0..plan.entries).map(key).collect();
    engine.batch(&[], &first, &mut |_| {})?;
    let mut draw = Draw::new(plan.entries, plan.batches, plan.batch_size, true, 1337);
    let mut numbers = Numbers::default();
    for _ in 0..plan.batches {
        draw.next(&mut numbers);
        let end = numbers.fresh + numbers.spent.len() as u64;
        let spent: Vec<Key> = numbers.spent.iter().map(|number| key(*number)).collect();
        let fresh: Vec<Key> = (numbers.fresh..end).map(key).collect();
        engine.batch(&spent, &fresh, &mut |value| digest = join(digest, value))?;
        let mut probes = spent;
        probes.extend((0..PROBES).map(|probe| key(mix(digest ^ probe) % (end + PROBES))));
        engine.lookup(&probes, &mut |value| digest = join(digest, value))?;
        for probe in probes.iter().rev().take(8) {
            let prefix = outputs::prefix(probe);
            let mut each =
                |key: &[u8], value: &[u8]| digest = join(join(digest, Some(key)), Some(value));
            engine.range(probe, 5, &mut each)?;
            engine.prefix(&prefix, &mut each)?;
        }
    }
    Ok(digest)
}

fn content(engine: &mut dyn Engine) -> Result<u64> {
    let mut digest = 0;
    for backward in [false, true] {
        let mut each =
            |key: &[u8], value: &[u8]| digest = join(join(digest, Some(key)), Some(value));
        engine.scan(backward, &mut each)?;
    }
    Ok(digest)
}

fn join(digest: u64, value: Option<&[u8]>) -> u64 {
    let length = value.map_or(u64::MAX, |value| value.len() as u64);
    let value = value.unwrap_or_default();
    value.chunks(8).fold(mix(digest ^ length), |state, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(state ^ u64::from_le_bytes(word))
    })
}
