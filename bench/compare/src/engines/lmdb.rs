//! LMDB, as someone would tune it who can replay a chain: a writable map and no syncs, or its safe form.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};

use crate::draw::{Key, VALUE};
use crate::engine::{Answer, Each, Engine, Result, Spec, Terms};
use crate::outputs::Prefix;

/// Version and where it comes from.
pub const VERSION: &str = "LMDB 0.9 (crate heed 0.22)";
/// The map's size.
pub const FILLED_BY: &[&str] = &["map_gib"];
/// Flags.
pub const RUN_BY: &[&str] = &["writemap", "sorted", "readahead"];

struct Store {
    env: Env<WithoutTls>,
    database: Database<Bytes, Bytes>,
    sorted: bool,
    order: Vec<Key>,
}

/// Opens or makes the environment in `path`.
pub fn open(path: &Path, spec: &Spec, terms: &Terms) -> Result<Box<dyn Engine>> {
    let mut flags = EnvFlags::NO_MEM_INIT;
    // Random lookups gain nothing from neighbours once the data does not fit.
    if !spec.is_on("readahead", terms.limit_bytes.is_none()) {
        flags |= EnvFlags::NO_READ_AHEAD;
    }
    if spec.is_on("writemap", !terms.synced) {
        flags |= EnvFlags::WRITE_MAP;
    }
    if !terms.synced {
        flags |= EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC;
    }
    let gibibytes = spec.option("map_gib", 2 + terms.entries / 1_000_000);
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size((gibibytes as usize) << 30);
    // SAFETY: the folder belongs to this process alone while it runs, and a run that dies is thrown
    // away with its folder, so no torn map is ever opened.
    #[allow(unsafe_code)]
    let env = unsafe { options.flags(flags).open(path)? };
    let mut writing = env.write_txn()?;
    let database = env.create_database(&mut writing, None)?;
    writing.commit()?;
    let sorted = spec.is_on("sorted", true);
    Ok(Box::new(Store { env, database, sorted, order: Vec::new() }))
}

fn give<'a>(
    entries: impl Iterator<Item = heed::Result<(&'a [u8], &'a [u8])>>,
    each: Each,
) -> Result<()> {
    for entry in entries {
        let (key, value) = entry?;
        each(key, value);
    }
    Ok(())
}

impl Engine for Store {
    fn lookup(&mut self, keys: &[Key], answer: Answer) -> Result<()> {
        let reading = self.env.read_txn()?;
        for key in keys {
            answer(self.database.get(&reading, key)?);
        }
        Ok(())
    }

    fn batch(&mut self, spent: &[Key], fresh: &[Key], answer: Answer) -> Result<()> {
        let mut writing = self.env.write_txn()?;
        for key in spent {
            answer(self.database.get(&writing, key)?);
        }
        // In order of keys, a page that two changes share is found in the processor's cache.
        for (keys, inserts) in [(spent, false), (fresh, true)] {
            self.order.clear();
            self.order.extend_from_slice(keys);
            if self.sorted {
                self.order.sort_unstable();
            }
            for key in &self.order {
                if inserts {
                    self.database.put(&mut writing, key, &VALUE)?;
                } else {
                    self.database.delete(&mut writing, key)?;
                }
            }
        }
        writing.commit()?;
        Ok(())
    }

    fn range(&mut self, from: &Key, length: usize, each: Each) -> Result<()> {
        let reading = self.env.read_txn()?;
        let all = self.database.range(&reading, &(Bound::Included(&from[..]), Bound::Unbounded))?;
        give(all.take(length), each)
    }

    fn prefix(&mut self, prefix: &Prefix, each: Each) -> Result<()> {
        let reading = self.env.read_txn()?;
        give(self.database.prefix_iter(&reading, prefix)?, each)
    }

    fn scan(&mut self, backward: bool, each: Each) -> Result<()> {
        let reading = self.env.read_txn()?;
        if backward {
            return give(self.database.rev_iter(&reading)?, each);
        }
        give(self.database.iter(&reading)?, each)
    }

    fn settle(self: Box<Self>) -> Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
