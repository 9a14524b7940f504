//! Optimistic transactions: any number at once; what another one was faster with fails at the commit.
//!
//! A transaction gathers its writes here, beside the store, and each of its reads looks there first. With
//! each write and each read for update it notes how many writes stood then, and its commit fails when the
//! same key has been written since. Readers and other writers wait for nothing.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::column_family::{AsColumnFamilyRef, Family};
use crate::error::{Error, ErrorKind};
use crate::iterator::{
    DBIteratorWithThreadMode, DBRawIteratorWithThreadMode, Direction, IteratorMode,
};
use crate::options::{ReadOptions, WriteOptions};
use crate::reads::{DBAccess, DBPinnableSlice, Overlay, Reader, reading_methods};
use crate::shared::{Moment, Shared, Tracked, Write};
use crate::snapshot::SnapshotWithThreadMode;

/// What a transaction did so far.
struct State {
    /// How many writes stood when it began.
    begun: u64,
    /// The moment when it began, if it wants that.
    moment: Option<Moment>,
    written: Written,
    tracked: Tracked,
    savepoints: Vec<Savepoint>,
}

/// What it wrote, by the column family's number. Iterators hold what they were made with.
type Written = BTreeMap<u64, (Arc<Family>, Arc<Overlay>)>;

/// What can be gone back to.
struct Savepoint {
    written: Written,
    /// What it relies on since then alone.
    tracked: Vec<(u64, Vec<u8>)>,
}

/// Writes that stand together when it is committed. Dropped, it leaves nothing.
pub struct Transaction<'db, DB> {
    shared: Arc<Shared>,
    state: Mutex<State>,
    writes: WriteOptions,
    database: PhantomData<fn() -> &'db DB>,
}

impl<DB> Drop for Transaction<'_, DB> {
    fn drop(&mut self) {
        let begun = self.state().begun;
        self.shared.end(begun);
    }
}

impl<DB> DBAccess for Transaction<'_, DB> {
    fn reader(&self, family: Option<&Arc<Family>>, options: &ReadOptions) -> Result<Reader, Error> {
        let family = family.unwrap_or(&self.shared.default);
        let written = self.state().written.get(&family.number).map(|(_, it)| Arc::clone(it));
        self.shared.reader(family, options, written)
    }

    fn moment(&self) -> Option<Moment> {
        self.state().moment.clone()
    }
}

impl<DB> Transaction<'_, DB> {
    pub(crate) fn new(shared: &Arc<Shared>, writes: WriteOptions, has_snapshot: bool) -> Self {
        let (begun, moment) = shared.begin(has_snapshot);
        let (written, tracked) = (BTreeMap::new(), Tracked::new());
        let state = State { begun, moment, written, tracked, savepoints: Vec::new() };
        let (state, shared) = (Mutex::new(state), Arc::clone(shared));
        Transaction { shared, state, writes, database: PhantomData }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    reading_methods!();

    /// The moment when it began, with what it wrote; without a snapshot the moment of each read.
    pub fn snapshot(&self) -> SnapshotWithThreadMode<'_, Self> {
        SnapshotWithThreadMode::new(self)
    }

    /// From now on a write of `key` by somebody else has the commit fail.
    fn track(&self, state: &mut State, family: &Family, key: &[u8]) {
        let since = if state.moment.is_some() { state.begun } else { self.shared.sequence() };
        let tracked = state.tracked.entry(family.number).or_default();
        if !tracked.contains_key(key) {
            tracked.insert(key.to_vec(), since);
            if let Some(savepoint) = state.savepoints.last_mut() {
                savepoint.tracked.push((family.number, key.to_vec()));
            }
        }
    }

    fn bind(
        &self,
        family: Option<&Arc<Family>>,
        key: &[u8],
        value: Option<Vec<u8>>,
    ) -> Result<(), Error> {
        self.shared.check_writable()?;
        let family = family.unwrap_or(&self.shared.default);
        let mut state = self.state();
        self.track(&mut state, family, key);
        let written = state.written.entry(family.number);
        let (_, written) = written.or_insert_with(|| (Arc::clone(family), Arc::default()));
        Arc::make_mut(written).insert(key.to_vec(), value);
        Ok(())
    }

    /// Binds `key` to `value`.
    pub fn put<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, key: K, value: V) -> Result<(), Error> {
        self.bind(None, key.as_ref(), Some(value.as_ref().to_vec()))
    }

    /// The same in a column family.
    pub fn put_cf<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        value: V,
    ) -> Result<(), Error> {
        self.bind(Some(cf.family()), key.as_ref(), Some(value.as_ref().to_vec()))
    }

    /// Unbinds `key`.
    pub fn delete<K: AsRef<[u8]>>(&self, key: K) -> Result<(), Error> {
        self.bind(None, key.as_ref(), None)
    }

    /// The same in a column family.
    pub fn delete_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
    ) -> Result<(), Error> {
        self.bind(Some(cf.family()), key.as_ref(), None)
    }

    /// What `key` is bound to. From now on a write of it by somebody else has the commit fail.
    pub fn get_for_update<K: AsRef<[u8]>>(
        &self,
        key: K,
        exclusive: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.get_for_update_opt(key, exclusive, &ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn get_for_update_opt<K: AsRef<[u8]>>(
        &self,
        key: K,
        _exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.track(&mut self.state(), &self.shared.default, key.as_ref());
        self.get_opt(key, options)
    }

    /// The same in a column family.
    pub fn get_for_update_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        exclusive: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.get_for_update_cf_opt(cf, key, exclusive, &ReadOptions::default())
    }

    /// The same in a column family, as `options` say.
    pub fn get_for_update_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        _exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.track(&mut self.state(), cf.family(), key.as_ref());
        self.get_cf_opt(cf, key, options)
    }

    /// The same as [`Transaction::get_for_update`].
    pub fn get_pinned_for_update<K: AsRef<[u8]>>(
        &self,
        key: K,
        exclusive: bool,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.get_pinned_for_update_opt(key, exclusive, &ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn get_pinned_for_update_opt<K: AsRef<[u8]>>(
        &self,
        key: K,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        Ok(self.get_for_update_opt(key, exclusive, options)?.map(DBPinnableSlice::new))
    }

    /// The same in a column family.
    pub fn get_pinned_for_update_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        exclusive: bool,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.get_pinned_for_update_cf_opt(cf, key, exclusive, &ReadOptions::default())
    }

    /// The same in a column family, as `options` say.
    pub fn get_pinned_for_update_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        Ok(self.get_for_update_cf_opt(cf, key, exclusive, options)?.map(DBPinnableSlice::new))
    }

    /// What a later [`Transaction::rollback_to_savepoint`] goes back to.
    pub fn set_savepoint(&self) {
        let mut state = self.state();
        let savepoint = Savepoint { written: state.written.clone(), tracked: Vec::new() };
        state.savepoints.push(savepoint);
    }

    /// Drops what it wrote since the last savepoint, and the savepoint. Keys that it wrote or read for update
    /// only since then may change by now. `NotFound` when there is no savepoint.
    pub fn rollback_to_savepoint(&self) -> Result<(), Error> {
        let mut state = self.state();
        let found = state.savepoints.pop();
        let savepoint = found.ok_or_else(|| Error::new(ErrorKind::NotFound, "no savepoint"))?;
        state.written = savepoint.written;
        for (family, key) in savepoint.tracked {
            if let Some(tracked) = state.tracked.get_mut(&family) {
                tracked.remove(&key);
            }
        }
        Ok(())
    }

    /// Drops what it wrote. It may go on as a new one, with the snapshot that it has.
    pub fn rollback(&self) -> Result<(), Error> {
        let mut state = self.state();
        state.written.clear();
        state.tracked.clear();
        state.savepoints.clear();
        Ok(())
    }

    /// Makes everything it wrote stand, or nothing, also through a crash: it is one record of the log. `Busy`
    /// when somebody else wrote a key since this one wrote it or read it for update, `TryAgain` when so much was
    /// written since then that nobody knows; then run it again.
    pub fn commit(self) -> Result<(), Error> {
        let (written, tracked) = {
            let mut state = self.state();
            (std::mem::take(&mut state.written), std::mem::take(&mut state.tracked))
        };
        let writes = written.into_iter().map(|(number, (family, overlay))| {
            let overlay = Arc::unwrap_or_clone(overlay).into_iter();
            let writes = overlay.map(|(key, value)| match value {
                Some(value) => Write::Put(key, value),
                None => Write::Delete(key),
            });
            (number, (family, writes.collect()))
        });
        self.shared.write(writes.collect(), &tracked, &self.writes)
    }
}
