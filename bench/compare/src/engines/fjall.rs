//! fjall, as someone would tune it who knows that lookups nearly always hit.

use std::path::Path;
use std::time::Duration;

use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, HashRatioPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::draw::{Key, VALUE};
use crate::engine::{Answer, Each, Engine, Result, Spec, Terms};
use crate::outputs::Prefix;

/// Version and where it comes from.
pub const VERSION: &str = "fjall 3.1.13";
/// Options that shape files.
pub const FILLED_BY: &[&str] = &["memtable_mib", "bloom_bits", "hash_index", "all_filters"];
/// Options that do not.
pub const RUN_BY: &[&str] = &["cache_mib", "workers"];

const NAME: &str = "utxo";

struct Store {
    database: Database,
    keyspace: Keyspace,
    synced: bool,
}

/// Opens or makes the database in `path`.
pub fn open(path: &Path, spec: &Spec, terms: &Terms) -> Result<Box<dyn Engine>> {
    let limited = terms.limit_bytes.is_some();
    let data_mib = (terms.entries * 100 >> 20) + 1;
    let cache_mib = spec.option("cache_mib", if limited { 96 } else { (data_mib * 2).max(64) });
    let database = Database::builder(path)
        .cache_size(cache_mib << 20)
        .worker_threads(spec.option("workers", 2) as usize)
        .manual_journal_persist(true)
        .open()?;
    let bits = spec.option("bloom_bits", 10) as f32;
    let hash_ratio = if spec.is_on("hash_index", true) { 1.33 } else { 0.0 };
    let options = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(spec.option("memtable_mib", 64) << 20)
            .expect_point_read_hits(!spec.is_on("all_filters", false))
            .data_block_hash_ratio_policy(HashRatioPolicy::all(hash_ratio))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
                BloomConstructionPolicy::BitsPerKey(bits),
            )))
            .manual_journal_persist(true)
    };
    let keyspace = database.keyspace(NAME, options)?;
    Ok(Box::new(Store { database, keyspace, synced: terms.synced }))
}

fn give(entries: impl Iterator<Item = fjall::Guard>, each: Each) -> Result<()> {
    for entry in entries {
        let (key, value) = entry.into_inner()?;
        each(&key, &value);
    }
    Ok(())
}

impl Engine for Store {
    fn lookup(&mut self, keys: &[Key], answer: Answer) -> Result<()> {
        for key in keys {
            answer(self.keyspace.get(key)?.as_deref());
        }
        Ok(())
    }

    fn batch(&mut self, spent: &[Key], fresh: &[Key], answer: Answer) -> Result<()> {
        self.lookup(spent, answer)?;
        let mut batch = self.database.batch();
        if self.synced {
            batch = batch.durability(Some(PersistMode::SyncData));
        }
        for key in spent {
            batch.remove(&self.keyspace, key.as_slice());
        }
        for key in fresh {
            batch.insert(&self.keyspace, key.as_slice(), VALUE.as_slice());
        }
        batch.commit()?;
        Ok(())
    }

    fn range(&mut self, from: &Key, length: usize, each: Each) -> Result<()> {
        give(self.keyspace.range(from.as_slice()..).take(length), each)
    }

    fn prefix(&mut self, prefix: &Prefix, each: Each) -> Result<()> {
        give(self.keyspace.prefix(prefix), each)
    }

    fn scan(&mut self, backward: bool, each: Each) -> Result<()> {
        let all = self.keyspace.iter();
        if backward { give(all.rev(), each) } else { give(all, each) }
    }

    fn settle(self: Box<Self>) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        while self.database.outstanding_flushes() > 0 || self.database.active_compactions() > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.database.persist(PersistMode::SyncAll)?;
        Ok(())
    }
}
