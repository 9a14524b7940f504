//! redb, as someone would tune it who can replay a chain: commits that are not durable, but for one in
//! so many, without which the file would grow for ever.

use std::path::Path;

use redb::{
    AccessGuard, Database, Durability, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition,
};

use crate::draw::{KEY_BYTES, Key, VALUE, VALUE_BYTES};
use crate::engine::{Answer, Each, Engine, Result, Spec, Terms};
use crate::outputs::{self, Prefix};

/// Version and where it comes from.
pub const VERSION: &str = "redb 4.4.0";
/// Nothing shapes the file.
pub const FILLED_BY: &[&str] = &[];
/// The cache, and how many commits pass before a durable one.
pub const RUN_BY: &[&str] = &["cache_mib", "durable_every", "sorted"];

const TABLE: TableDefinition<&[u8; KEY_BYTES], &[u8; VALUE_BYTES]> = TableDefinition::new("utxo");

struct Store {
    database: Database,
    synced: bool,
    durable_every: u64,
    commits: u64,
    sorted: bool,
}

/// Opens or makes the file in `path`.
pub fn open(path: &Path, spec: &Spec, terms: &Terms) -> Result<Box<dyn Engine>> {
    let fitting = (terms.entries * 400 >> 20).max(1024);
    let best = if terms.limit_bytes.is_some() { 256 } else { fitting };
    let cache = (spec.option("cache_mib", best) as usize) << 20;
    let database = Database::builder().set_cache_size(cache).create(path.join("utxo.redb"))?;
    Ok(Box::new(Store {
        database,
        synced: terms.synced,
        durable_every: spec.option("durable_every", 100),
        commits: 0,
        sorted: spec.is_on("sorted", true),
    }))
}

type Entry<'a> = (AccessGuard<'a, &'static Key>, AccessGuard<'a, &'static [u8; VALUE_BYTES]>);

fn give<'a>(
    entries: impl Iterator<Item = std::result::Result<Entry<'a>, StorageError>>,
    each: Each,
) -> Result<()> {
    for entry in entries {
        let (key, value) = entry?;
        each(key.value(), value.value());
    }
    Ok(())
}

impl Engine for Store {
    fn lookup(&mut self, keys: &[Key], answer: Answer) -> Result<()> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        for key in keys {
            answer(table.get(key)?.as_ref().map(|value| &value.value()[..]));
        }
        Ok(())
    }

    fn batch(&mut self, spent: &[Key], fresh: &[Key], answer: Answer) -> Result<()> {
        self.commits += 1;
        let mut writing = self.database.begin_write()?;
        if !self.synced && !self.commits.is_multiple_of(self.durable_every) {
            writing.set_durability(Durability::None)?;
        }
        {
            let mut table = writing.open_table(TABLE)?;
            for key in spent {
                answer(table.get(key)?.as_ref().map(|value| &value.value()[..]));
            }
            let (mut gone, mut new) = (spent.to_vec(), fresh.to_vec());
            if self.sorted {
                gone.sort_unstable();
                new.sort_unstable();
            }
            for key in &gone {
                table.remove(key)?;
            }
            for key in &new {
                table.insert(key, &VALUE)?;
            }
        }
        writing.commit()?;
        Ok(())
    }

    fn range(&mut self, from: &Key, length: usize, each: Each) -> Result<()> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        give(table.range::<&Key>(from..)?.take(length), each)
    }

    fn prefix(&mut self, prefix: &Prefix, each: Each) -> Result<()> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        give(table.range::<&Key>(&outputs::first(prefix)..=&outputs::last(prefix))?, each)
    }

    fn scan(&mut self, backward: bool, each: Each) -> Result<()> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let all = table.iter()?;
        if backward { give(all.rev(), each) } else { give(all, each) }
    }

    fn settle(self: Box<Self>) -> Result<()> {
        self.database.begin_write()?.commit()?;
        Ok(())
    }
}
