//! varvite, in its named configuration for `UTxO` sets.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use varvite::cache::Cache;
use varvite::disk::Access;
use varvite::disk::os::OsDisk;
use varvite::{
    Batch, Log, Lookups, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Values,
};

use crate::draw::{Key, VALUE};
use crate::engine::{Answer, Engine, Result, Spec, Terms};

/// Version and where it comes from.
pub const VERSION: &str = "varvite, this revision";
/// Options of the table, which are kept with it.
pub const FILLED_BY: &[&str] =
    &["buffer_kib", "size_ratio", "filter_bits", "mixed", "filter_max_kib"];
/// Options of the session.
pub const RUN_BY: &[&str] = &["direct", "memory_mib", "queue_depth"];

const NAME: &str = "utxo";

struct Store {
    session: Session,
    table: Table,
    batch: Batch,
    values: Values,
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
    Ok(Box::new(Store { session, table, batch: Batch::new(), values: Values::default() }))
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

    fn scan(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut cursor = self.table.cursor(Bound::Unbounded, Bound::Unbounded)?;
        while let Some((key, value)) = cursor.next()? {
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
