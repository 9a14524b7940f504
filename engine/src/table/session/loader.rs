//! Loads a whole table from a stream of keys and values, at the speed of the disk.
//!
//! A sorted stream becomes the table's last run as it comes: no write buffer, no merge, every byte
//! written once. A stream in any order is sorted first, in bounded memory.

use std::sync::Arc;

use super::lifecycle::Session;
use crate::error::{Error, Result};
use crate::table::bytes::{EntryKind, EntryRef, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::table::merge::{BlobPlan, RunBuilder, Shape, Sorter};
use crate::table::shared::{Lookups, SegmentStore, TableOptions, paths};
use crate::table::write::Table;

/// Bytes of a key that an error shows.
const SHOWN_BYTES: usize = 40;

/// In which order a stream comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOrder {
    /// Each key above the one before it; anything else is refused.
    Sorted,
    /// In any order; of several values for one key the last one counts. Sorted with about so much
    /// memory, with what does not fit written to the session's folder and read again.
    Any {
        /// Bytes of keys and values, and 24 for each. Charged to the session's memory budget.
        memory_bytes: u64,
    },
}

/// A table that is being loaded: see [`Session::load_table`].
///
/// Dropped unfinished, it leaves nothing behind.
pub struct Loader {
    store: Arc<SegmentStore>,
    name: String,
    options: TableOptions,
    run: RunBuilder,
    sorter: Option<Sorter>,
    count: u64,
    /// A write failed: what was begun cannot go on.
    failed: bool,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Loader({}, {} entries)", self.name, self.count)
    }
}

impl Session {
    /// Begins a table that is loaded whole from a stream and then like any other.
    ///
    /// A sorted stream costs one write of each byte and no read; the result is one last run without
    /// anything above it. Its filter is that of a last run: none with [`Lookups::MostlyHit`], else at
    /// most 10 bits an entry for as many entries as `filter_bytes_max` allows. `Invalid` for a name or
    /// options that cannot be.
    ///
    /// ```
    /// use varvite::{LoadOrder, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    ///
    /// let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// let mut loader = session.load_table("utxo", TableOptions::utxo(), LoadOrder::Sorted)?;
    /// for number in 0..1000_u32 {
    ///     loader.push(&number.to_be_bytes(), b"5 ada")?;
    /// }
    /// assert!(loader.push(&7_u32.to_be_bytes(), b"again").is_err(), "it is below the last one");
    /// let table = loader.finish()?;
    /// assert_eq!(table.get(&7_u32.to_be_bytes())?.as_deref(), Some(&b"5 ada"[..]));
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn load_table(
        &self,
        name: &str,
        options: TableOptions,
        order: LoadOrder,
    ) -> Result<Loader> {
        self.store.check_writable()?;
        paths::check_name("table", name)?;
        options.check()?;
        let bits = match options.lookups {
            Lookups::MostlyHit => 0,
            Lookups::Mixed => options.filter_bits.min(10),
        };
        let sorter = match order {
            LoadOrder::Sorted => None,
            LoadOrder::Any { memory_bytes } => Some(Sorter::new(&self.store, memory_bytes)),
        };
        let plan = BlobPlan::new(options.blob_min(), options.compression);
        Ok(Loader {
            store: Arc::clone(&self.store),
            name: name.to_owned(),
            run: RunBuilder::new(&self.store, bits, options.filter_bytes_max, plan),
            options,
            sorter,
            count: 0,
            failed: false,
        })
    }
}

impl Loader {
    /// How many entries were pushed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a key with its value. `Invalid` for lengths that no table takes, and in a sorted stream for
    /// a key that is not above the one before: both change nothing, so the stream may go on with
    /// another. After `Io` the loader is of no use.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(self.unfit(key, value));
        }
        if self.failed {
            return Err(self.broken());
        }
        let Loader { store, run, sorter, .. } = self;
        let outcome = if let Some(sorter) = sorter {
            store.write(|| sorter.add(key, value))
        } else {
            if run.last_key().is_some_and(|last| last >= key) {
                return Err(self.disorder(key));
            }
            store.write(|| run.add(EntryRef { kind: EntryKind::Insert, key, value }))
        };
        if outcome.is_err() {
            self.failed = true;
            // The disk may be full.
            self.store.spares.clear();
        }
        self.count += u64::from(outcome.is_ok());
        outcome
    }

    #[cold]
    fn unfit(&self, key: &[u8], value: &[u8]) -> Error {
        Error::invalid(format!(
            "entry {} has a key of {} bytes and a value of {}: keys have at most \
             {KEY_BYTES_MAX} bytes, values {VALUE_BYTES_MAX}",
            self.count + 1,
            key.len(),
            value.len()
        ))
    }

    #[cold]
    fn disorder(&self, key: &[u8]) -> Error {
        let last = self.run.last_key().unwrap_or_default();
        let what = if last == key { "equal to" } else { "below" };
        Error::invalid(format!(
            "entry {} has the key \"{}\", which is {what} the key \"{}\" of entry {}",
            self.count + 1,
            shown(key),
            shown(last),
            self.count
        ))
        .advised("sort the stream, or load it with sorting")
    }

    #[cold]
    fn broken(&self) -> Error {
        Error::invalid(format!(
            "loading table {} failed at entry {}: begin again",
            self.name,
            self.count + 1
        ))
    }

    /// The table. Writes what is left, of a stream that was sorted here all of it; syncs nothing: it is
    /// durable when a snapshot names it or it is published. `Io`, `Corrupt`; `Invalid` after an error
    /// of [`Loader::push`] that says so.
    pub fn finish(self) -> Result<Table> {
        if self.failed {
            return Err(self.broken());
        }
        let Loader { store, name, options, mut run, sorter, .. } = self;
        let given = Arc::clone(&store);
        let mut opening = given.opening();
        let last = store.write(|| {
            if let Some(sorter) = sorter {
                sorter.finish(|entry| run.add(entry))?;
            }
            run.finish()
        })?;
        let mut table = Table::new(store, &name, options, Shape { last, ..Shape::default() }, None);
        table.name_by(&mut opening);
        Ok(table)
    }
}

fn shown(key: &[u8]) -> String {
    let more = if key.len() > SHOWN_BYTES { "…" } else { "" };
    format!("{}{more}", key[..key.len().min(SHOWN_BYTES)].escape_ascii())
}
