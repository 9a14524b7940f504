//! varvite, in its named configuration for `UTxO` sets.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use varvite::cache::Cache;
use varvite::disk::Access;
use varvite::disk::os::OsDisk;
use varvite::{
    Batch, Bytes, Log, Lookups, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent,
    Table, TableOptions, Values,
};

use crate::draw::{Key, VALUE};
use crate::engine::{Answer, Each, Engine, Result, Spec, Terms};
use crate::outputs::{self, Prefix};

/// Version and where it comes from.
pub const VERSION: &str = "varvite, this revision";
/// Options of the table, which are kept with it.
pub const FILLED_BY: &[&str] =
    &["buffer_kib", "size_ratio", "filter_bits", "mixed", "filter_max_kib"];
/// Options of the session.
pub const RUN_BY: &[&str] = &["direct", "memory_mib", "queue_depth", "owned"];

const NAME: &str = "utxo";

struct Store {
    session: Session,
    table: Table,
    batch: Batch,
    values: Values,
    /// Ranges by iterators, which give keys and values of their own, instead of cursors, which lend theirs.
    owned: bool,
}

/// Opens the snapshot in `path`, or begins a table.
pub fn open(path: &Path, spec: &Spec, terms: &Terms) -> Result<Box<dyn Engine>> {
    // In a limit, everything that the session keeps is in one budget, and pages that are read past
    // the page cache are not kept twice.
    let limited = terms.limit_bytes.is_some();
    let memory_mib = spec.option("memory_mib", if limited { 400 } else { 0 });
    let options = SessionOptions {
        seed: Some(2026),
        access: if spec.is_on("direct", limited) { Access::Direct } else { Access::Buffered },
        cache: (memory_mib > 0).then(|| Cache::new(memory_mib << 20)),
        queue_depth: spec.option("queue_depth", 64) as usize,
        log: if terms.synced { Log::Synced } else { Log::None },
        ..SessionOptions::default()
    };
    let (session, table) = if path.read_dir()?.next().is_some() {
        let session = Session::open(OsDisk::new(path)?, options)?;
        let table = reopen(&session, terms)?;
        (session, table)
    } else {
        let session = Session::create(OsDisk::new(path)? as Arc<_>, options)?;
        let table = session.create_table(NAME, table_options(spec))?;
        (session, table)
    };
    let owned = spec.is_on("owned", false);
    Ok(Box::new(Store { session, table, batch: Batch::new(), values: Values::default(), owned }))
}

/// The live table, or the one of the snapshot that a filled store has.
fn reopen(session: &Session, terms: &Terms) -> Result<Table> {
    if terms.synced && session.live_tables()?.iter().any(|name| name == NAME) {
        return Ok(session.open_table(NAME, &OpenTable::default())?);
    }
    let mut table = session.open_snapshot(NAME, &OpenSnapshot::default())?.take(NAME)?;
    if terms.synced {
        session.publish(&mut table)?;
    }
    // The others keep no older state either.
    session.delete_snapshot(NAME)?;
    Ok(table)
}

fn table_options(spec: &Spec) -> TableOptions {
    let utxo = TableOptions::utxo();
    TableOptions {
        write_buffer_bytes: spec.option("buffer_kib", utxo.write_buffer_bytes >> 10) << 10,
        size_ratio: spec.option("size_ratio", u64::from(utxo.size_ratio)) as u32,
        filter_bits: spec.option("filter_bits", u64::from(utxo.filter_bits)) as u8,
        filter_bytes_max: spec.option("filter_max_kib", utxo.filter_bytes_max >> 10) << 10,
        lookups: if spec.is_on("mixed", false) { Lookups::Mixed } else { utxo.lookups },
        ..utxo
    }
}

fn give(entries: impl Iterator<Item = varvite::Result<(Bytes, Bytes)>>, each: Each) -> Result<()> {
    for entry in entries {
        let (key, value) = entry?;
        each(&key, &value);
    }
    Ok(())
}

impl Engine for Store {
    fn lookup(&mut self, keys: &[Key], answer: Answer) -> Result<()> {
        self.table.lookup_into(keys, &mut self.values)?;
        self.values.iter().for_each(answer);
        Ok(())
    }

    fn batch(&mut self, spent: &[Key], fresh: &[Key], answer: Answer) -> Result<()> {
        self.lookup(spent, answer)?;
        self.batch.clear();
        for key in spent {
            self.batch.delete(key);
        }
        for key in fresh {
            self.batch.insert(key, &VALUE);
        }
        self.table.update(&self.batch)?;
        Ok(())
    }

    fn range(&mut self, from: &Key, length: usize, each: Each) -> Result<()> {
        if self.owned {
            return give(self.table.range(&from[..]..).take(length), each);
        }
        let mut cursor = self.table.cursor(Bound::Included(from), Bound::Unbounded)?;
        for _ in 0..length {
            let Some((key, value)) = cursor.next()? else { break };
            each(key, value);
        }
        Ok(())
    }

    fn prefix(&mut self, prefix: &Prefix, each: Each) -> Result<()> {
        if self.owned {
            return give(self.table.prefix(prefix), each);
        }
        let (first, last) = (outputs::first(prefix), outputs::last(prefix));
        let mut cursor = self.table.cursor(Bound::Included(&first), Bound::Included(&last))?;
        while let Some((key, value)) = cursor.next()? {
            each(key, value);
        }
        Ok(())
    }

    fn scan(&mut self, backward: bool, each: Each) -> Result<()> {
        if self.owned {
            let all = self.table.iter();
            return if backward { give(all.rev(), each) } else { give(all, each) };
        }
        let mut cursor = self.table.cursor(Bound::Unbounded, Bound::Unbounded)?;
        if backward {
            cursor.seek_last();
        }
        while let Some((key, value)) = if backward { cursor.previous()? } else { cursor.next()? } {
            each(key, value);
        }
        Ok(())
    }

    fn settle(self: Box<Self>) -> Result<()> {
        let Store { session, table, .. } = *self;
        let content = SnapshotContent { label: NAME, payload: b"", tables: &[&table] };
        session.save_snapshot(NAME, content)?;
        drop(table);
        session.close()?;
        Ok(())
    }
}
