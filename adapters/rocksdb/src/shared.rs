//! What a database shares with its transactions: the store, and who wrote what since when.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Included};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varvite::{Batch, View, Views};
use varvite_adapters::{Store, table_name};

use crate::column_family::Family;
use crate::error::{Error, ErrorKind};
use crate::options::{Options, ReadOptions, WriteOptions};
use crate::reads::{Overlay, Reader};

/// What is done to one column family, in order.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// By column family: its number, since a name may belong to another one later.
pub(crate) type Writes = BTreeMap<u64, (Arc<Family>, Vec<Write>)>;

/// The column families that are there.
#[derive(Clone, Default)]
struct Register {
    /// Their numbers by table.
    numbers: BTreeMap<String, u64>,
    /// The greatest number that was given.
    newest: u64,
}

/// All column families at one moment.
#[derive(Clone)]
pub struct Moment {
    views: Views,
    register: Arc<Register>,
}

/// The store and the moments of its writes.
pub(crate) struct Shared {
    pub(crate) store: Store,
    /// The column family of calls without one.
    pub(crate) default: Arc<Family>,
    pub(crate) path: PathBuf,
    pub(crate) is_read_only: bool,
    /// Writers one after the other, also those that make and drop column families. It is held as long as a
    /// write takes, so whoever reads or begins goes without it.
    writers: Mutex<()>,
    register: Mutex<Arc<Register>>,
    /// How many writes stand. Changed under `moments`.
    sequence: AtomicU64,
    /// Held for moments.
    moments: Mutex<Moments>,
}

/// What was written since the oldest open transaction began, as far as there is room for it.
#[derive(Default)]
struct Moments {
    /// How many transactions began at each number of writes.
    begun: BTreeMap<u64, usize>,
    /// The last write of each key, by column family.
    keys: HashMap<u64, HashMap<Arc<[u8]>, u64>>,
    /// Ranges that were deleted.
    ranges: VecDeque<(u64, u64, Vec<u8>, Vec<u8>)>,
    /// Which keys came with which write, the oldest first.
    order: VecDeque<(u64, u64, Arc<[u8]>)>,
    /// About how much memory all of this takes.
    bytes: u64,
    bytes_max: u64,
    /// Writes up to this one may be missing here.
    forgotten: u64,
}

/// What a transaction relies on: by column family and key, after how many writes.
pub(crate) type Tracked = BTreeMap<u64, BTreeMap<Vec<u8>, u64>>;

/// What a noted write takes beside its key, in the queue and in the map.
const NOTE_BYTES: u64 = 128;

impl Moments {
    fn note(&mut self, sequence: u64, writes: Writes) {
        if self.begun.is_empty() {
            return;
        }
        for (family, (_, writes)) in writes {
            for write in writes {
                match write {
                    Write::Put(key, _) | Write::Delete(key) => {
                        let key: Arc<[u8]> = key.into();
                        self.bytes += NOTE_BYTES + key.len() as u64;
                        self.order.push_back((sequence, family, Arc::clone(&key)));
                        self.keys.entry(family).or_default().insert(key, sequence);
                    }
                    Write::DeleteRange(from, to) => {
                        self.bytes += NOTE_BYTES + (from.len() + to.len()) as u64;
                        self.ranges.push_back((sequence, family, from, to));
                    }
                }
            }
        }
        while self.bytes > self.bytes_max && self.drop_oldest() {}
    }

    /// The write whose note is the oldest.
    fn oldest(&self) -> Option<u64> {
        let key = self.order.front().map(|(sequence, ..)| *sequence);
        let range = self.ranges.front().map(|(sequence, ..)| *sequence);
        key.into_iter().chain(range).min()
    }

    /// Drops the notes of the oldest write; false when there are none.
    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.oldest() else { return false };
        self.forgotten = self.forgotten.max(oldest);
        while let Some((_, family, key)) =
            self.order.pop_front_if(|(sequence, ..)| *sequence == oldest)
        {
            self.bytes -= NOTE_BYTES + key.len() as u64;
            if let Some(keys) = self.keys.get_mut(&family)
                && keys.get(&key) == Some(&oldest)
            {
                keys.remove(&key);
            }
        }
        while let Some((.., from, to)) =
            self.ranges.pop_front_if(|(sequence, ..)| *sequence == oldest)
        {
            self.bytes -= NOTE_BYTES + (from.len() + to.len()) as u64;
        }
        true
    }

    /// Forgets what no open transaction can meet.
    fn forget(&mut self) {
        let Some((&first, _)) = self.begun.first_key_value() else {
            *self = Moments { bytes_max: self.bytes_max, ..Moments::default() };
            return;
        };
        while self.oldest().is_some_and(|oldest| oldest <= first) && self.drop_oldest() {}
    }

    /// Fails when somebody wrote what a transaction relies on, or when nobody knows any more.
    fn check(&self, tracked: &Tracked) -> Result<(), Error> {
        if tracked.iter().any(|(family, tracked)| self.is_in_the_way(*family, tracked)) {
            return Err(Error::new(
                ErrorKind::Busy,
                "another write changed what the transaction relies on; run it again",
            ));
        }
        let since = tracked.values().flat_map(BTreeMap::values).min();
        if since.is_some_and(|since| *since < self.forgotten) {
            return Err(Error::new(
                ErrorKind::TryAgain,
                format!(
                    "the transaction is older than the {} bytes of history that are kept to find conflicts; run it \
                     again, or keep more with set_max_write_buffer_size_to_maintain",
                    self.bytes_max
                ),
            ));
        }
        Ok(())
    }

    fn is_in_the_way(&self, family: u64, tracked: &BTreeMap<Vec<u8>, u64>) -> bool {
        let keys = self.keys.get(&family);
        let has_newer = |key: &Vec<u8>, since: &u64| {
            keys.and_then(|keys| keys.get(&**key)).is_some_and(|sequence| sequence > since)
        };
        tracked.iter().any(|(key, since)| has_newer(key, since))
            || self.ranges.iter().filter(|(_, it, ..)| *it == family).any(
                |(sequence, _, from, to)| {
                    let mut there = tracked.iter().filter(|(key, _)| from <= *key && *key < to);
                    there.any(|(_, since)| sequence > since)
                },
            )
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Over the open `families`, of which `default` is one.
    pub(crate) fn new(
        store: Store,
        families: &BTreeMap<String, Arc<Family>>,
        default: Arc<Family>,
        path: PathBuf,
        options: &Options,
        is_read_only: bool,
    ) -> Arc<Shared> {
        let mut register = Register::default();
        for family in families.values() {
            register.numbers.insert(family.table.clone(), family.number);
            register.newest = register.newest.max(family.number);
        }
        let moments = Moments { bytes_max: options.history_bytes(), ..Moments::default() };
        Arc::new(Shared {
            store,
            default,
            path,
            is_read_only,
            writers: Mutex::default(),
            register: Mutex::new(Arc::new(register)),
            sequence: AtomicU64::new(0),
            moments: Mutex::new(moments),
        })
    }

    /// How many writes stand.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// A transaction begins: the number of writes that stand, and the tables of that moment if it wants them.
    pub(crate) fn begin(&self, wants_views: bool) -> (u64, Option<Moment>) {
        let sequence = {
            let mut moments = lock(&self.moments);
            let sequence = self.sequence();
            *moments.begun.entry(sequence).or_default() += 1;
            sequence
        };
        // A write that stands in between is shown and counts as a later one: at worst a commit is run again.
        (sequence, wants_views.then(|| self.moment()))
    }

    /// The transaction that began at `sequence` ends.
    pub(crate) fn end(&self, sequence: u64) {
        let mut moments = lock(&self.moments);
        if let Some(count) = moments.begun.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                moments.begun.remove(&sequence);
                moments.forget();
            }
        }
    }

    /// All column families just now.
    pub(crate) fn moment(&self) -> Moment {
        loop {
            let register = Arc::clone(&lock(&self.register));
            let views = self.store.tables().views();
            // A family may have gone, and another one have come with its name.
            if Arc::ptr_eq(&register, &lock(&self.register)) {
                return Moment { views, register };
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
        if let Some(Moment { views, register }) = &options.moment {
            if family.number > register.newest
                && let Some(view) = &family.born
            {
                return Ok(view.clone());
            }
            if register.numbers.get(&family.table) == Some(&family.number)
                && let Ok(view) = views.get(&family.table)
            {
                return Ok(view.clone());
            }
            return family.retired().ok_or_else(|| family.gone());
        }
        let view = self.store.tables().view(&family.table);
        // In this order: what was found may be another one's of its name.
        match family.retired() {
            Some(view) => Ok(view),
            None => Ok(view?),
        }
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

    /// Makes all of `writes` stand, or none; `Busy` when somebody wrote what `tracked` relies on, `TryAgain`
    /// when too much was written to know.
    pub(crate) fn write(
        &self,
        writes: Writes,
        tracked: &Tracked,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        self.check_writable()?;
        let is_backwards =
            |write: &Write| matches!(write, Write::DeleteRange(from, to) if from > to);
        if writes.values().flat_map(|(_, writes)| writes).any(is_backwards) {
            return Err(Error::invalid("end key comes before start key"));
        }
        {
            let _one_by_one = lock(&self.writers);
            let register = Arc::clone(&lock(&self.register));
            let is_gone =
                |family: &&Arc<Family>| register.numbers.get(&family.table) != Some(&family.number);
            if let Some(family) = writes.values().map(|(family, _)| family).find(is_gone) {
                return Err(family.gone());
            }
            lock(&self.moments).check(tracked)?;
            let batches: Vec<_> = writes
                .values()
                .map(|(family, writes)| (family.table.clone(), batch_of(writes)))
                .collect();
            let changes: Vec<_> = batches.iter().map(|(table, batch)| (&**table, batch)).collect();
            if !changes.is_empty() {
                self.store.tables().commit(&changes)?;
                let mut moments = lock(&self.moments);
                let sequence = self.sequence() + 1;
                self.sequence.store(sequence, Ordering::Release);
                moments.note(sequence, writes);
            }
        }
        if options.is_synced { self.sync() } else { Ok(()) }
    }

    /// Makes a column family, which is durable then.
    pub(crate) fn add_family(&self, name: &str, options: &Options) -> Result<Arc<Family>, Error> {
        self.check_writable()?;
        let table = table_name(name)?;
        let _one_by_one = lock(&self.writers);
        if self.store.tables().view(&table).is_ok() {
            return Err(Error::invalid(format!("Column family already exists: {name}")));
        }
        self.store.create_table(&table, options.table())?;
        let born = self.store.tables().view(&table)?;
        let family = Family::new(name, table, options, Some(born));
        self.change_register(|register| {
            register.numbers.insert(family.table.clone(), family.number);
            register.newest = family.number;
        });
        Ok(family)
    }

    /// Deletes a column family. Handles to it go on reading what it had.
    pub(crate) fn drop_family(&self, family: &Family) -> Result<(), Error> {
        self.check_writable()?;
        if family.table == self.default.table {
            return Err(Error::invalid("Can't drop default column family"));
        }
        let _one_by_one = lock(&self.writers);
        if lock(&self.register).numbers.get(&family.table) != Some(&family.number) {
            return Err(family.gone());
        }
        family.retire(Some(self.store.tables().view(&family.table)?));
        let dropped = self.store.drop_table(&family.table);
        if dropped.is_err() && self.store.tables().view(&family.table).is_ok() {
            family.retire(None); // it is there as it was
        } else {
            self.change_register(|register| {
                register.numbers.remove(&family.table);
            });
        }
        Ok(dropped?)
    }

    fn change_register(&self, change: impl FnOnce(&mut Register)) {
        let mut register = lock(&self.register);
        // Always a new one: whoever took a moment meanwhile sees that it changed.
        let mut changed = Register::clone(&register);
        change(&mut changed);
        *register = Arc::new(changed);
    }

    /// Makes every write durable whose call returned.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        Ok(self.store.sync_log()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::{OptimisticTransactionDB, OptimisticTransactionOptions, Options};

    use super::*;

    fn opened(folder: &std::path::Path) -> Result<OptimisticTransactionDB, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        OptimisticTransactionDB::open(&options, folder)
    }

    /// A commit stands still, as in a sync; others begin, read, write and end their transactions.
    #[test]
    fn a_transaction_begins_and_reads_while_another_one_commits() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let db = opened(folder.path())?;
        db.put("a", "1")?;
        let (began, has_begun) = channel();
        std::thread::scope(|scope| {
            db.shared.store.tables().with(|_| {
                scope.spawn(|| db.put("a", "2").expect("it writes, when the tables are free"));
                while db.shared.writers.try_lock().is_ok() {
                    std::thread::yield_now();
                }
                scope.spawn(|| {
                    let mut with_snapshot = OptimisticTransactionOptions::default();
                    with_snapshot.set_snapshot(true);
                    let tx = db.transaction_opt(&WriteOptions::default(), &with_snapshot);
                    let read = tx.get_for_update("a", true).and_then(|_| tx.put("b", "1"));
                    drop(tx);
                    began.send(read).expect("the test waits");
                });
                // Out of the closure first: a test that fails is not to stand still.
                has_begun.recv_timeout(Duration::from_secs(20))
            })
        })
        .expect("nobody waits for the commit")
    }

    #[test]
    fn the_history_of_an_idle_transaction_is_bounded() {
        let family = Family::new("t", "t".to_owned(), &Options::default(), None);
        let mut moments = Moments { bytes_max: 10_000, ..Moments::default() };
        moments.begun.insert(0, 1);
        for sequence in 1..5_000_u64 {
            let key = sequence.to_be_bytes().to_vec();
            let write = match sequence % 3 {
                0 => Write::DeleteRange(key.clone(), key),
                1 => Write::Delete(key),
                _ => Write::Put(vec![7], Vec::new()),
            };
            let writes = Writes::from([(family.number, (Arc::clone(&family), vec![write]))]);
            moments.note(sequence, writes);
            assert!(moments.bytes <= moments.bytes_max);
            let notes = moments.order.len() + moments.ranges.len();
            assert!(notes as u64 * NOTE_BYTES <= moments.bytes_max, "{notes}");
            assert!(moments.keys[&family.number].len() <= moments.order.len());
        }
        assert!(moments.forgotten > 4_000);
        moments.begun.clear();
        moments.forget();
        assert!(moments.bytes == 0 && moments.keys.is_empty() && moments.forgotten == 0);
    }
}
