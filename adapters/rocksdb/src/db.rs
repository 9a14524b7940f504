//! Databases: reads, writes and column families. How they are opened is in `open.rs`.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use crate::column_family::{
    AsColumnFamilyRef, BoundColumnFamily, ColumnFamily, Family, MultiThreaded, SingleThreaded,
    ThreadMode,
};
use crate::error::Error;
use crate::iterator::{
    DBIteratorWithThreadMode, DBRawIteratorWithThreadMode, Direction, IteratorMode,
};
use crate::options::{OptimisticTransactionOptions, Options, ReadOptions, WriteOptions};
use crate::reads::{DBAccess, DBPinnableSlice, Reader, reading_methods};
use crate::shared::{Moment, Shared, Tracked, Write, Writes};
use crate::snapshot::SnapshotWithThreadMode;
use crate::transaction::Transaction;
use crate::tuning::{CompactOptions, FlushOptions, WaitForCompactOptions};
use crate::write_batch::{WriteBatch, WriteBatchWithTransaction};

/// Which kind of database it is.
pub trait DBInner {}

/// One without transactions.
pub struct DBWithThreadModeInner(());

/// One with optimistic transactions.
pub struct OptimisticTransactionDBInner(());

impl DBInner for DBWithThreadModeInner {}
impl DBInner for OptimisticTransactionDBInner {}

/// A database: column families that are written together.
pub struct Database<T: ThreadMode, D: DBInner> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) families: T,
    pub(crate) kind: PhantomData<fn() -> D>,
}

/// One without transactions.
pub type DBWithThreadMode<T> = Database<T, DBWithThreadModeInner>;

/// One without transactions, in the usual mode.
#[cfg(not(feature = "multi-threaded-cf"))]
pub type DB = DBWithThreadMode<SingleThreaded>;

/// One without transactions, in the usual mode.
#[cfg(feature = "multi-threaded-cf")]
pub type DB = DBWithThreadMode<MultiThreaded>;

/// One with optimistic transactions.
#[cfg(not(feature = "multi-threaded-cf"))]
pub type OptimisticTransactionDB<T = SingleThreaded> = Database<T, OptimisticTransactionDBInner>;

/// One with optimistic transactions.
#[cfg(feature = "multi-threaded-cf")]
pub type OptimisticTransactionDB<T = MultiThreaded> = Database<T, OptimisticTransactionDBInner>;

impl<T: ThreadMode, D: DBInner> DBAccess for Database<T, D> {
    fn reader(&self, family: Option<&Arc<Family>>, options: &ReadOptions) -> Result<Reader, Error> {
        self.shared.reader(family.unwrap_or(&self.shared.default), options, None)
    }

    fn moment(&self) -> Option<Moment> {
        Some(self.shared.moment())
    }
}

impl<T: ThreadMode, D: DBInner> Database<T, D> {
    reading_methods!();

    /// All column families at this moment.
    pub fn snapshot(&self) -> SnapshotWithThreadMode<'_, Self> {
        SnapshotWithThreadMode::new(self)
    }

    /// Whether `key` is bound. The peer may say so of a key that is not; this never does.
    pub fn key_may_exist<K: AsRef<[u8]>>(&self, key: K) -> bool {
        self.key_may_exist_opt(key, &ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn key_may_exist_opt<K: AsRef<[u8]>>(&self, key: K, options: &ReadOptions) -> bool {
        let reader = self.reader(None, options);
        reader.and_then(|reader| reader.has(key.as_ref())).unwrap_or(true)
    }

    /// The same in a column family.
    pub fn key_may_exist_cf<K: AsRef<[u8]>>(&self, cf: &impl AsColumnFamilyRef, key: K) -> bool {
        self.key_may_exist_cf_opt(cf, key, &ReadOptions::default())
    }

    /// The same in a column family, as `options` say.
    pub fn key_may_exist_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        options: &ReadOptions,
    ) -> bool {
        let reader = self.reader(Some(cf.family()), options);
        reader.and_then(|reader| reader.has(key.as_ref())).unwrap_or(true)
    }

    /// What each of many keys of a column family is bound to, in one lookup of varvite, sorted or not.
    pub fn batched_multi_get_cf<'a, K, I>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: I,
        is_sorted: bool,
    ) -> Vec<Result<Option<DBPinnableSlice<'_>>, Error>>
    where
        K: AsRef<[u8]> + 'a + ?Sized,
        I: IntoIterator<Item = &'a K>,
    {
        self.batched_multi_get_cf_opt(cf, keys, is_sorted, &ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn batched_multi_get_cf_opt<'a, K, I>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: I,
        _is_sorted: bool,
        options: &ReadOptions,
    ) -> Vec<Result<Option<DBPinnableSlice<'_>>, Error>>
    where
        K: AsRef<[u8]> + 'a + ?Sized,
        I: IntoIterator<Item = &'a K>,
    {
        let keys: Vec<_> = keys.into_iter().map(AsRef::as_ref).collect();
        let found = match self.reader(Some(cf.family()), options) {
            Ok(reader) => reader.get_all(&keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        };
        found.into_iter().map(|value| Ok(value?.map(DBPinnableSlice::new))).collect()
    }

    fn write_one(
        &self,
        family: Option<&Arc<Family>>,
        write: Write,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        let family = Arc::clone(family.unwrap_or(&self.shared.default));
        let writes = Writes::from([(family.number, (family, vec![write]))]);
        self.shared.write(writes, &Tracked::new(), options)
    }

    /// Binds `key`, of up to 4,000 bytes, to `value`, of up to 16 MiB.
    pub fn put<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, key: K, value: V) -> Result<(), Error> {
        self.put_opt(key, value, &WriteOptions::default())
    }

    /// The same, as `options` say.
    pub fn put_opt<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: K,
        value: V,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        let write = Write::Put(key.as_ref().to_vec(), value.as_ref().to_vec());
        self.write_one(None, write, options)
    }

    /// The same in a column family.
    pub fn put_cf<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        value: V,
    ) -> Result<(), Error> {
        self.put_cf_opt(cf, key, value, &WriteOptions::default())
    }

    /// The same in a column family, as `options` say.
    pub fn put_cf_opt<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        value: V,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        let write = Write::Put(key.as_ref().to_vec(), value.as_ref().to_vec());
        self.write_one(Some(cf.family()), write, options)
    }

    /// Unbinds `key`.
    pub fn delete<K: AsRef<[u8]>>(&self, key: K) -> Result<(), Error> {
        self.delete_opt(key, &WriteOptions::default())
    }

    /// The same, as `options` say.
    pub fn delete_opt<K: AsRef<[u8]>>(&self, key: K, options: &WriteOptions) -> Result<(), Error> {
        self.write_one(None, Write::Delete(key.as_ref().to_vec()), options)
    }

    /// The same in a column family.
    pub fn delete_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
    ) -> Result<(), Error> {
        self.delete_cf_opt(cf, key, &WriteOptions::default())
    }

    /// The same in a column family, as `options` say.
    pub fn delete_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        self.write_one(Some(cf.family()), Write::Delete(key.as_ref().to_vec()), options)
    }

    /// Unbinds every key of a column family from `from` on that is before `to`.
    pub fn delete_range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        from: K,
        to: K,
    ) -> Result<(), Error> {
        self.delete_range_cf_opt(cf, from, to, &WriteOptions::default())
    }

    /// The same, as `options` say.
    pub fn delete_range_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        from: K,
        to: K,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        let write = Write::DeleteRange(from.as_ref().to_vec(), to.as_ref().to_vec());
        self.write_one(Some(cf.family()), write, options)
    }

    /// Makes every write durable whose call returned, where it says so; all of them are with the operating
    /// system already.
    pub fn flush_wal(&self, is_synced: bool) -> Result<(), Error> {
        self.shared.check_writable()?;
        if is_synced { self.shared.sync() } else { Ok(()) }
    }

    /// Makes every write durable whose call returned.
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_wal(true)
    }

    /// The same.
    pub fn flush_opt(&self, _options: &FlushOptions) -> Result<(), Error> {
        self.flush()
    }

    /// The same: column families have one log.
    pub fn flush_cf(&self, _cf: &impl AsColumnFamilyRef) -> Result<(), Error> {
        self.flush()
    }

    /// The same.
    pub fn flush_cf_opt(
        &self,
        _cf: &impl AsColumnFamilyRef,
        _options: &FlushOptions,
    ) -> Result<(), Error> {
        self.flush()
    }

    /// The same.
    pub fn flush_cfs_opt(
        &self,
        _cfs: &[&impl AsColumnFamilyRef],
        _options: &FlushOptions,
    ) -> Result<(), Error> {
        self.flush()
    }

    /// Does all the merging that is owed, of every key. What is there already is not written again.
    pub fn compact_range<S: AsRef<[u8]>, E: AsRef<[u8]>>(&self, _from: Option<S>, _to: Option<E>) {
        // An error shows at the next write.
        let _ = self.shared.store.tables().work(u64::MAX);
    }

    /// The same.
    pub fn compact_range_opt<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        from: Option<S>,
        to: Option<E>,
        _options: &CompactOptions,
    ) {
        self.compact_range(from, to);
    }

    /// The same: what is owed is that of all column families.
    pub fn compact_range_cf<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        _cf: &impl AsColumnFamilyRef,
        from: Option<S>,
        to: Option<E>,
    ) {
        self.compact_range(from, to);
    }

    /// The same.
    pub fn compact_range_cf_opt<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        _cf: &impl AsColumnFamilyRef,
        from: Option<S>,
        to: Option<E>,
        _options: &CompactOptions,
    ) {
        self.compact_range(from, to);
    }

    /// Does all the merging that is owed: nothing runs in the background that could be waited for.
    pub fn wait_for_compact(&self, _options: &WaitForCompactOptions) -> Result<(), Error> {
        self.shared.store.tables().work(u64::MAX)?;
        Ok(())
    }

    /// Ignored: nothing runs in the background.
    pub fn cancel_all_background_work(&self, _waits: bool) {}

    /// How many writes stand since this opening: a batch and a transaction are one each. It begins anew with the next
    /// opening, unlike the peer's.
    pub fn latest_sequence_number(&self) -> u64 {
        self.shared.sequence()
    }

    /// The property `name` of the default column family as text, where [`Self::property_int_value`] knows it.
    pub fn property_value(&self, name: impl AsRef<str>) -> Result<Option<String>, Error> {
        Ok(self.property_int_value(name)?.map(|number| number.to_string()))
    }

    /// The same of a column family.
    pub fn property_value_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        name: impl AsRef<str>,
    ) -> Result<Option<String>, Error> {
        Ok(self.property_int_value_cf(cf, name)?.map(|number| number.to_string()))
    }

    /// `rocksdb.estimate-num-keys` and `rocksdb.total-sst-files-size` of the default column family; `None`
    /// for what varvite does not know.
    pub fn property_int_value(&self, name: impl AsRef<str>) -> Result<Option<u64>, Error> {
        property(&self.shared, &self.shared.default, name.as_ref())
    }

    /// The same of a column family.
    pub fn property_int_value_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        name: impl AsRef<str>,
    ) -> Result<Option<u64>, Error> {
        property(&self.shared, cf.family(), name.as_ref())
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

fn property(shared: &Shared, family: &Family, name: &str) -> Result<Option<u64>, Error> {
    if family.retired().is_some() {
        return Err(family.gone());
    }
    Ok(match name {
        "rocksdb.estimate-num-keys" => Some(shared.store.stats(&family.table)?.logical_entries),
        "rocksdb.total-sst-files-size" => Some(shared.store.disk_bytes(&family.table)?),
        _ => None,
    })
}

impl<D: DBInner> Database<SingleThreaded, D> {
    /// The column family `name`, if it is open.
    pub fn cf_handle(&self, name: &str) -> Option<&ColumnFamily> {
        self.families.families.get(name)
    }

    /// Makes a column family, which is durable then.
    pub fn create_cf<N: AsRef<str>>(&mut self, name: N, options: &Options) -> Result<(), Error> {
        let name = name.as_ref();
        let family = self.shared.add_family(name, options)?;
        self.families.families.insert(name.to_owned(), ColumnFamily(family));
        Ok(())
    }

    /// Deletes a column family with all that is in it.
    pub fn drop_cf(&mut self, name: &str) -> Result<(), Error> {
        let family = self.families.families.get(name).ok_or_else(|| no_family(name))?;
        self.shared.drop_family(&family.0)?;
        self.families.families.remove(name);
        Ok(())
    }
}

impl<D: DBInner> Database<MultiThreaded, D> {
    fn families(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, Arc<Family>>> {
        self.families.families.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The column family `name`, if it is open.
    pub fn cf_handle(&self, name: &str) -> Option<Arc<BoundColumnFamily<'_>>> {
        let families = self.families.families.read().unwrap_or_else(PoisonError::into_inner);
        let family = Arc::clone(families.get(name)?);
        Some(Arc::new(BoundColumnFamily { family, database: PhantomData }))
    }

    /// Makes a column family, which is durable then.
    pub fn create_cf<N: AsRef<str>>(&self, name: N, options: &Options) -> Result<(), Error> {
        let mut families = self.families();
        let family = self.shared.add_family(name.as_ref(), options)?;
        families.insert(name.as_ref().to_owned(), family);
        Ok(())
    }

    /// Deletes a column family with all that is in it. Handles to it go on reading what it had; writes
    /// to them are refused.
    pub fn drop_cf(&self, name: &str) -> Result<(), Error> {
        let mut families = self.families();
        self.shared.drop_family(families.get(name).ok_or_else(|| no_family(name))?)?;
        families.remove(name);
        Ok(())
    }
}

fn no_family(name: &str) -> Error {
    Error::invalid(format!("Invalid column family: {name}"))
}

impl<T: ThreadMode> Database<T, DBWithThreadModeInner> {
    /// Makes the writes of `batch` stand, or none, also through a crash: they are one record of the log.
    pub fn write(&self, batch: WriteBatch) -> Result<(), Error> {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// The same, as `options` say.
    pub fn write_opt(&self, batch: WriteBatch, options: &WriteOptions) -> Result<(), Error> {
        self.shared.write(batch.into_writes(&self.shared), &Tracked::new(), options)
    }

    /// The same: every write goes to the log.
    pub fn write_without_wal(&self, batch: WriteBatch) -> Result<(), Error> {
        self.write(batch)
    }
}

impl<T: ThreadMode> Database<T, OptimisticTransactionDBInner> {
    /// Begins a transaction, which reads its own writes.
    pub fn transaction(&self) -> Transaction<'_, Self> {
        self.transaction_opt(&WriteOptions::default(), &OptimisticTransactionOptions::default())
    }

    /// The same, as the options say; those for writing count for its commit.
    pub fn transaction_opt(
        &self,
        writes: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> Transaction<'_, Self> {
        Transaction::new(&self.shared, writes.clone(), options.has_snapshot)
    }

    /// Makes the writes of `batch` stand, or none, also through a crash: they are one record of the log.
    pub fn write(&self, batch: WriteBatchWithTransaction<true>) -> Result<(), Error> {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// The same, as `options` say.
    pub fn write_opt(
        &self,
        batch: WriteBatchWithTransaction<true>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        self.shared.write(batch.into_writes(&self.shared), &Tracked::new(), options)
    }

    /// The same: every write goes to the log.
    pub fn write_without_wal(&self, batch: WriteBatchWithTransaction<true>) -> Result<(), Error> {
        self.write(batch)
    }
}
