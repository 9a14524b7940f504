//! What a database shares with its transactions: the store, and who wrote what since when.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Included};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varvite::{Batch, View, Views};
use varvite_adapters::Store;

use crate::column_family::Family;
use crate::error::{Error, ErrorKind};
use crate::options::{ReadOptions, WriteOptions};
use crate::reads::{Overlay, Reader};

/// What is done to one column family, in order.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// By table.
pub(crate) type Writes = BTreeMap<String, Vec<Write>>;

/// The store and the moments of its writes.
pub(crate) struct Shared {
    pub(crate) store: Store,
    /// The column family of calls without one.
    pub(crate) default: Arc<Family>,
    pub(crate) path: PathBuf,
    pub(crate) is_read_only: bool,
    /// How many writes stand. Changed under `moments`.
    sequence: AtomicU64,
    moments: Mutex<Moments>,
}

/// What was written since the oldest open transaction began.
#[derive(Default)]
struct Moments {
    /// How many transactions began at each number of writes.
    begun: BTreeMap<u64, usize>,
    /// The last write of each key, by table.
    keys: HashMap<String, HashMap<Vec<u8>, u64>>,
    /// Ranges that were deleted.
    ranges: Vec<(u64, String, Vec<u8>, Vec<u8>)>,
    /// Which keys came with which write, the oldest first.
    order: VecDeque<(u64, String, Vec<u8>)>,
}

/// What a transaction relies on: by table and key, after how many writes.
pub(crate) type Tracked = BTreeMap<String, BTreeMap<Vec<u8>, u64>>;

impl Moments {
    fn note(&mut self, sequence: u64, writes: Writes) {
        if self.begun.is_empty() {
            return;
        }
        for (table, writes) in writes {
            for write in writes {
                match write {
                    Write::Put(key, _) | Write::Delete(key) => {
                        self.order.push_back((sequence, table.clone(), key.clone()));
                        self.keys.entry(table.clone()).or_default().insert(key, sequence);
                    }
                    Write::DeleteRange(from, to) => {
                        self.ranges.push((sequence, table.clone(), from, to));
                    }
                }
            }
        }
    }

    /// Forgets what no open transaction can meet.
    fn forget(&mut self) {
        let Some((&oldest, _)) = self.begun.first_key_value() else {
            *self = Moments::default();
            return;
        };
        while let Some((sequence, ..)) = self.order.front()
            && *sequence <= oldest
        {
            let Some((sequence, table, key)) = self.order.pop_front() else { break };
            if let Some(keys) = self.keys.get_mut(&table)
                && keys.get(&key) == Some(&sequence)
            {
                keys.remove(&key);
            }
        }
        self.ranges.retain(|(sequence, ..)| *sequence > oldest);
    }

    /// Whether somebody wrote what a transaction relies on.
    fn is_in_the_way(&self, tracked: &Tracked) -> bool {
        tracked.iter().any(|(table, tracked)| {
            let keys = self.keys.get(table);
            let has_newer = |key: &Vec<u8>, since: &u64| {
                keys.and_then(|keys| keys.get(key)).is_some_and(|sequence| sequence > since)
            };
            tracked.iter().any(|(key, since)| has_newer(key, since))
                || self.ranges.iter().filter(|(_, it, ..)| it == table).any(
                    |(sequence, _, from, to)| {
                        let mut there = tracked.iter().filter(|(key, _)| from <= *key && *key < to);
                        there.any(|(_, since)| sequence > since)
                    },
                )
        })
    }
}

fn batch_of(writes: &[Write]) -> Batch {
    let mut batch = Batch::new();
    for write in writes {
        match write {
            Write::Put(key, value) => batch.insert(key, value),
            Write::Delete(key) => batch.delete(key),
            Write::DeleteRange(from, to) => batch.delete_range(Included(from), Excluded(to)),
        };
    }
    batch
}

impl Shared {
    pub(crate) fn new(
        store: Store,
        default: Arc<Family>,
        path: PathBuf,
        is_read_only: bool,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            store,
            default,
            path,
            is_read_only,
            sequence: AtomicU64::new(0),
            moments: Mutex::default(),
        })
    }

    fn moments(&self) -> MutexGuard<'_, Moments> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many writes stand.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// A transaction begins: the number of writes that stand, and the tables of that moment if it wants them.
    pub(crate) fn begin(&self, wants_views: bool) -> (u64, Option<Views>) {
        let mut moments = self.moments();
        let sequence = self.sequence();
        *moments.begun.entry(sequence).or_default() += 1;
        (sequence, wants_views.then(|| self.store.tables().views()))
    }

    /// The transaction that began at `sequence` ends.
    pub(crate) fn end(&self, sequence: u64) {
        let mut moments = self.moments();
        if let Some(count) = moments.begun.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                moments.begun.remove(&sequence);
                moments.forget();
            }
        }
    }

    /// What reads of `family` see.
    pub(crate) fn reader(
        &self,
        family: &Family,
        options: &ReadOptions,
        overlay: Option<Arc<Overlay>>,
    ) -> Result<Reader, Error> {
        let prefix = (!options.is_total && options.ends_with_prefix)
            .then(|| family.prefix.clone())
            .flatten();
        Ok(Reader { view: self.view(family, options)?, overlay, prefix })
    }

    fn view(&self, family: &Family, options: &ReadOptions) -> Result<View, Error> {
        Ok(match &options.moment {
            Some(views) => views.get(&family.table)?.clone(),
            None => self.store.tables().view(&family.table)?,
        })
    }

    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.is_read_only {
            return Err(Error::new(
                ErrorKind::NotSupported,
                format!("Not supported operation in read only mode: {}", self.path.display()),
            ));
        }
        if self.store.session().is_poisoned() {
            return Err(Error::new(
                ErrorKind::IOError,
                "a sync failed earlier, so nothing more is written; open the database again",
            ));
        }
        Ok(())
    }

    /// Makes all of `writes` stand, or none; `Busy` when somebody wrote what `tracked` relies on.
    pub(crate) fn write(
        &self,
        writes: Writes,
        tracked: &Tracked,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        self.check_writable()?;
        let is_backwards =
            |write: &Write| matches!(write, Write::DeleteRange(from, to) if from > to);
        if writes.values().flatten().any(is_backwards) {
            return Err(Error::invalid("end key comes before start key"));
        }
        {
            let mut moments = self.moments();
            if moments.is_in_the_way(tracked) {
                return Err(Error::new(
                    ErrorKind::Busy,
                    "another write changed what the transaction relies on; run it again",
                ));
            }
            let batches: Vec<_> =
                writes.iter().map(|(table, writes)| (&**table, batch_of(writes))).collect();
            let changes: Vec<_> = batches.iter().map(|(table, batch)| (*table, batch)).collect();
            if !changes.is_empty() {
                self.store.tables().commit(&changes)?;
                let sequence = self.sequence() + 1;
                self.sequence.store(sequence, Ordering::Release);
                moments.note(sequence, writes);
            }
        }
        if options.is_synced { self.sync() } else { Ok(()) }
    }

    /// Makes every write durable whose call returned.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        Ok(self.store.sync_log()?)
    }
}
