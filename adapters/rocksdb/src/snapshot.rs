//! A moment of a database or a transaction.

use std::sync::Arc;

use crate::column_family::AsColumnFamilyRef;
use crate::db::DB;
use crate::error::Error;
use crate::iterator::{DBIteratorWithThreadMode, DBRawIteratorWithThreadMode, IteratorMode};
use crate::options::ReadOptions;
use crate::reads::{DBAccess, DBPinnableSlice, multi_get_of};
use crate::shared::Moment;

/// A moment of a [`DB`].
pub type Snapshot<'a> = SnapshotWithThreadMode<'a, DB>;

/// All column families at one moment. It holds up no writer.
pub struct SnapshotWithThreadMode<'a, D: DBAccess> {
    of: &'a D,
    moment: Option<Moment>,
}

impl<'a, D: DBAccess> SnapshotWithThreadMode<'a, D> {
    /// This moment; of a transaction, the one when it began, if it was begun with a snapshot.
    pub fn new(of: &'a D) -> Self {
        SnapshotWithThreadMode { moment: of.moment(), of }
    }

    pub(crate) fn moment(&self) -> Option<&Moment> {
        self.moment.as_ref()
    }

    fn options(&self, mut options: ReadOptions) -> ReadOptions {
        options.set_snapshot(self);
        options
    }

    /// Entries in the order of their keys, from where `mode` says.
    pub fn iterator(&self, mode: IteratorMode<'_>) -> DBIteratorWithThreadMode<'a, D> {
        self.iterator_opt(mode, ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn iterator_opt(
        &self,
        mode: IteratorMode<'_>,
        options: ReadOptions,
    ) -> DBIteratorWithThreadMode<'a, D> {
        let options = self.options(options);
        let reader = self.of.reader(None, &options);
        DBIteratorWithThreadMode::new(DBRawIteratorWithThreadMode::new(reader, options), mode)
    }

    /// The same in a column family.
    pub fn iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'a, D> {
        self.iterator_cf_opt(cf, ReadOptions::default(), mode)
    }

    /// The same in a column family, as `options` say.
    pub fn iterator_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: ReadOptions,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'a, D> {
        DBIteratorWithThreadMode::new(self.raw_iterator_cf_opt(cf, options), mode)
    }

    /// An iterator that is moved by hand.
    pub fn raw_iterator(&self) -> DBRawIteratorWithThreadMode<'a, D> {
        self.raw_iterator_opt(ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn raw_iterator_opt(&self, options: ReadOptions) -> DBRawIteratorWithThreadMode<'a, D> {
        let options = self.options(options);
        DBRawIteratorWithThreadMode::new(self.of.reader(None, &options), options)
    }

    /// The same in a column family.
    pub fn raw_iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
    ) -> DBRawIteratorWithThreadMode<'a, D> {
        self.raw_iterator_cf_opt(cf, ReadOptions::default())
    }

    /// The same in a column family, as `options` say.
    pub fn raw_iterator_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: ReadOptions,
    ) -> DBRawIteratorWithThreadMode<'a, D> {
        let options = self.options(options);
        DBRawIteratorWithThreadMode::new(self.of.reader(Some(cf.family()), &options), options)
    }

    /// What `key` was bound to.
    pub fn get<K: AsRef<[u8]>>(&self, key: K) -> Result<Option<Vec<u8>>, Error> {
        self.get_opt(key, ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn get_opt<K: AsRef<[u8]>>(
        &self,
        key: K,
        options: ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.of.reader(None, &self.options(options))?.get(key.as_ref())
    }

    /// The same in a column family.
    pub fn get_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.get_cf_opt(cf, key, ReadOptions::default())
    }

    /// The same in a column family, as `options` say.
    pub fn get_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        options: ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.of.reader(Some(cf.family()), &self.options(options))?.get(key.as_ref())
    }

    /// What `key` was bound to.
    pub fn get_pinned<K: AsRef<[u8]>>(&self, key: K) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.get_pinned_opt(key, ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn get_pinned_opt<K: AsRef<[u8]>>(
        &self,
        key: K,
        options: ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        Ok(self.get_opt(key, options)?.map(DBPinnableSlice::new))
    }

    /// The same in a column family.
    pub fn get_pinned_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.get_pinned_cf_opt(cf, key, ReadOptions::default())
    }

    /// The same in a column family, as `options` say.
    pub fn get_pinned_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        options: ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        Ok(self.get_cf_opt(cf, key, options)?.map(DBPinnableSlice::new))
    }

    /// What each of many keys was bound to.
    pub fn multi_get<K, I>(&self, keys: I) -> Vec<Result<Option<Vec<u8>>, Error>>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = K>,
    {
        self.multi_get_opt(keys, ReadOptions::default())
    }

    /// The same, as `options` say.
    pub fn multi_get_opt<K, I>(
        &self,
        keys: I,
        options: ReadOptions,
    ) -> Vec<Result<Option<Vec<u8>>, Error>>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = K>,
    {
        let keys: Vec<_> = keys.into_iter().collect();
        match self.of.reader(None, &self.options(options)) {
            Ok(reader) => reader.get_all(&keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// The same, each key in its column family.
    pub fn multi_get_cf<'b, K, I, W>(&self, keys: I) -> Vec<Result<Option<Vec<u8>>, Error>>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = (&'b W, K)>,
        W: AsColumnFamilyRef + 'b,
    {
        self.multi_get_cf_opt(keys, ReadOptions::default())
    }

    /// The same, each key in its column family, as `options` say.
    pub fn multi_get_cf_opt<'b, K, I, W>(
        &self,
        keys: I,
        options: ReadOptions,
    ) -> Vec<Result<Option<Vec<u8>>, Error>>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = (&'b W, K)>,
        W: AsColumnFamilyRef + 'b,
    {
        let keys = keys.into_iter().map(|(cf, key)| (Arc::clone(cf.family()), key)).collect();
        let options = self.options(options);
        multi_get_of(keys, |family| self.of.reader(Some(family), &options))
    }
}
