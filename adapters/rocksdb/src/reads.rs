//! Reads of databases, transactions and snapshots: one set of methods.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use varvite::View;

use crate::column_family::Family;
use crate::error::Error;
use crate::options::ReadOptions;
use crate::prefixes::SliceTransform;
use crate::shared::Moment;

/// What a transaction wrote to a column family: values, and `None` for what it deleted.
pub(crate) type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What a read of one column family sees.
pub struct Reader {
    pub(crate) view: View,
    pub(crate) overlay: Option<Arc<Overlay>>,
    /// With whose prefix iterators end.
    pub(crate) prefix: Option<SliceTransform>,
}

impl Reader {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.overlay.as_ref().and_then(|overlay| overlay.get(key)) {
            Some(written) => Ok(written.clone()),
            None => Ok(self.view.get(key)?),
        }
    }

    pub(crate) fn has(&self, key: &[u8]) -> Result<bool, Error> {
        match self.overlay.as_ref().and_then(|overlay| overlay.get(key)) {
            Some(written) => Ok(written.is_some()),
            None => Ok(self.view.find(&[key])?.iter().any(Option::is_some)),
        }
    }

    /// The same for many keys, which go to the disk together.
    pub(crate) fn get_all<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Vec<Result<Option<Vec<u8>>, Error>> {
        let Ok(values) = self.view.lookup(keys) else {
            // One that cannot be read is nothing to the others.
            return keys.iter().map(|key| self.get(key.as_ref())).collect();
        };
        let found = keys.iter().zip(values.iter()).map(|(key, value)| {
            let written = self.overlay.as_ref().and_then(|overlay| overlay.get(key.as_ref()));
            Ok(written.map_or_else(|| value.map(<[u8]>::to_vec), Clone::clone))
        });
        found.collect()
    }
}

/// What iterators and snapshots are of: a database or a transaction.
pub trait DBAccess {
    /// What a read of `family`, or of the default one, sees.
    #[doc(hidden)]
    fn reader(&self, family: Option<&Arc<Family>>, options: &ReadOptions) -> Result<Reader, Error>;

    /// The moment that a snapshot made now shows.
    #[doc(hidden)]
    fn moment(&self) -> Option<Moment>;
}

/// A value that was read.
#[derive(Debug)]
pub struct DBPinnableSlice<'a> {
    value: Vec<u8>,
    database: PhantomData<&'a ()>,
}

impl DBPinnableSlice<'_> {
    pub(crate) fn new(value: Vec<u8>) -> Self {
        DBPinnableSlice { value, database: PhantomData }
    }
}

impl Deref for DBPinnableSlice<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.value
    }
}

impl AsRef<[u8]> for DBPinnableSlice<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The answers for keys of several column families, in the order of the keys.
#[allow(clippy::needless_pass_by_value)] // callers have nothing else to do with it
pub(crate) fn multi_get_of<K: AsRef<[u8]>>(
    keys: Vec<(Arc<Family>, K)>,
    reader: impl Fn(&Arc<Family>) -> Result<Reader, Error>,
) -> Vec<Result<Option<Vec<u8>>, Error>> {
    let mut parts: BTreeMap<u64, (Arc<Family>, Vec<usize>)> = BTreeMap::new();
    for (number, (family, _)) in keys.iter().enumerate() {
        let part = parts.entry(family.number);
        part.or_insert_with(|| (Arc::clone(family), Vec::new())).1.push(number);
    }
    let mut found: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
    for (family, numbers) in parts.into_values() {
        let wanted: Vec<_> = numbers.iter().map(|number| keys[*number].1.as_ref()).collect();
        let values = match reader(&family) {
            Ok(reader) => reader.get_all(&wanted),
            Err(error) => wanted.iter().map(|_| Err(error.clone())).collect(),
        };
        for (number, value) in numbers.into_iter().zip(values) {
            found[number] = value;
        }
    }
    found
}

/// The methods by which databases and transactions are read.
macro_rules! reading_methods {
    () => {
        /// What `key` is bound to.
        pub fn get<K: AsRef<[u8]>>(&self, key: K) -> Result<Option<Vec<u8>>, Error> {
            self.get_opt(key, &ReadOptions::default())
        }

        /// The same, as `options` say.
        pub fn get_opt<K: AsRef<[u8]>>(
            &self,
            key: K,
            options: &ReadOptions,
        ) -> Result<Option<Vec<u8>>, Error> {
            self.reader(None, options)?.get(key.as_ref())
        }

        /// The same in a column family.
        pub fn get_cf<K: AsRef<[u8]>>(
            &self,
            cf: &impl AsColumnFamilyRef,
            key: K,
        ) -> Result<Option<Vec<u8>>, Error> {
            self.get_cf_opt(cf, key, &ReadOptions::default())
        }

        /// The same in a column family, as `options` say.
        pub fn get_cf_opt<K: AsRef<[u8]>>(
            &self,
            cf: &impl AsColumnFamilyRef,
            key: K,
            options: &ReadOptions,
        ) -> Result<Option<Vec<u8>>, Error> {
            self.reader(Some(cf.family()), options)?.get(key.as_ref())
        }

        /// What `key` is bound to.
        pub fn get_pinned<K: AsRef<[u8]>>(
            &self,
            key: K,
        ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
            self.get_pinned_opt(key, &ReadOptions::default())
        }

        /// The same, as `options` say.
        pub fn get_pinned_opt<K: AsRef<[u8]>>(
            &self,
            key: K,
            options: &ReadOptions,
        ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
            Ok(self.get_opt(key, options)?.map(DBPinnableSlice::new))
        }

        /// The same in a column family.
        pub fn get_pinned_cf<K: AsRef<[u8]>>(
            &self,
            cf: &impl AsColumnFamilyRef,
            key: K,
        ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
            self.get_pinned_cf_opt(cf, key, &ReadOptions::default())
        }

        /// The same in a column family, as `options` say.
        pub fn get_pinned_cf_opt<K: AsRef<[u8]>>(
            &self,
            cf: &impl AsColumnFamilyRef,
            key: K,
            options: &ReadOptions,
        ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
            Ok(self.get_cf_opt(cf, key, options)?.map(DBPinnableSlice::new))
        }

        /// What each of many keys is bound to, in one lookup of varvite.
        pub fn multi_get<K, I>(&self, keys: I) -> Vec<Result<Option<Vec<u8>>, Error>>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = K>,
        {
            self.multi_get_opt(keys, &ReadOptions::default())
        }

        /// The same, as `options` say.
        pub fn multi_get_opt<K, I>(
            &self,
            keys: I,
            options: &ReadOptions,
        ) -> Vec<Result<Option<Vec<u8>>, Error>>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = K>,
        {
            let keys: Vec<_> = keys.into_iter().collect();
            match self.reader(None, options) {
                Ok(reader) => reader.get_all(&keys),
                Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
            }
        }

        /// The same, each key in its column family.
        pub fn multi_get_cf<'a, 'b: 'a, K, I, W>(
            &'a self,
            keys: I,
        ) -> Vec<Result<Option<Vec<u8>>, Error>>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = (&'b W, K)>,
            W: AsColumnFamilyRef + 'b,
        {
            self.multi_get_cf_opt(keys, &ReadOptions::default())
        }

        /// The same, each key in its column family, as `options` say.
        pub fn multi_get_cf_opt<'a, 'b: 'a, K, I, W>(
            &'a self,
            keys: I,
            options: &ReadOptions,
        ) -> Vec<Result<Option<Vec<u8>>, Error>>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = (&'b W, K)>,
            W: AsColumnFamilyRef + 'b,
        {
            let keys = keys.into_iter().map(|(cf, key)| (Arc::clone(cf.family()), key)).collect();
            // Of one moment, whatever is written between one family and the next.
            let moment = options.moment.clone().or_else(|| Some(self.shared.moment()));
            let options = &ReadOptions { moment, ..options.clone() };
            crate::reads::multi_get_of(keys, |family| self.reader(Some(family), options))
        }

        /// Entries in the order of their keys, from where `mode` says.
        pub fn iterator<'a: 'b, 'b>(
            &'a self,
            mode: IteratorMode<'_>,
        ) -> DBIteratorWithThreadMode<'b, Self> {
            self.iterator_opt(mode, ReadOptions::default())
        }

        /// The same, as `options` say.
        pub fn iterator_opt<'a: 'b, 'b>(
            &'a self,
            mode: IteratorMode<'_>,
            options: ReadOptions,
        ) -> DBIteratorWithThreadMode<'b, Self> {
            DBIteratorWithThreadMode::new(self.raw_iterator_opt(options), mode)
        }

        /// The same in a column family.
        pub fn iterator_cf<'a: 'b, 'b>(
            &'a self,
            cf: &impl AsColumnFamilyRef,
            mode: IteratorMode<'_>,
        ) -> DBIteratorWithThreadMode<'b, Self> {
            self.iterator_cf_opt(cf, ReadOptions::default(), mode)
        }

        /// The same in a column family, as `options` say.
        pub fn iterator_cf_opt<'a: 'b, 'b>(
            &'a self,
            cf: &impl AsColumnFamilyRef,
            options: ReadOptions,
            mode: IteratorMode<'_>,
        ) -> DBIteratorWithThreadMode<'b, Self> {
            DBIteratorWithThreadMode::new(self.raw_iterator_cf_opt(cf, options), mode)
        }

        /// The same over all prefixes.
        pub fn full_iterator<'a: 'b, 'b>(
            &'a self,
            mode: IteratorMode<'_>,
        ) -> DBIteratorWithThreadMode<'b, Self> {
            let mut options = ReadOptions::default();
            options.set_total_order_seek(true);
            self.iterator_opt(mode, options)
        }

        /// The same over all prefixes of a column family.
        pub fn full_iterator_cf<'a: 'b, 'b>(
            &'a self,
            cf: &impl AsColumnFamilyRef,
            mode: IteratorMode<'_>,
        ) -> DBIteratorWithThreadMode<'b, Self> {
            let mut options = ReadOptions::default();
            options.set_total_order_seek(true);
            self.iterator_cf_opt(cf, options, mode)
        }

        /// Entries from `prefix` on, up to the end of the prefix that the extractor finds in it; without an
        /// extractor to the end.
        #[allow(clippy::needless_pass_by_value)] // the peer's shape
        pub fn prefix_iterator<'a: 'b, 'b, P: AsRef<[u8]>>(
            &'a self,
            prefix: P,
        ) -> DBIteratorWithThreadMode<'b, Self> {
            let mut options = ReadOptions::default();
            options.set_prefix_same_as_start(true);
            self.iterator_opt(IteratorMode::From(prefix.as_ref(), Direction::Forward), options)
        }

        /// The same in a column family.
        #[allow(clippy::needless_pass_by_value)] // the peer's shape
        pub fn prefix_iterator_cf<'a: 'b, 'b, P: AsRef<[u8]>>(
            &'a self,
            cf: &impl AsColumnFamilyRef,
            prefix: P,
        ) -> DBIteratorWithThreadMode<'b, Self> {
            let mut options = ReadOptions::default();
            options.set_prefix_same_as_start(true);
            self.iterator_cf_opt(
                cf,
                options,
                IteratorMode::From(prefix.as_ref(), Direction::Forward),
            )
        }

        /// An iterator that is moved by hand.
        pub fn raw_iterator<'a: 'b, 'b>(&'a self) -> DBRawIteratorWithThreadMode<'b, Self> {
            self.raw_iterator_opt(ReadOptions::default())
        }

        /// The same, as `options` say.
        pub fn raw_iterator_opt<'a: 'b, 'b>(
            &'a self,
            options: ReadOptions,
        ) -> DBRawIteratorWithThreadMode<'b, Self> {
            DBRawIteratorWithThreadMode::new(self.reader(None, &options), options)
        }

        /// The same in a column family.
        pub fn raw_iterator_cf<'a: 'b, 'b>(
            &'a self,
            cf: &impl AsColumnFamilyRef,
        ) -> DBRawIteratorWithThreadMode<'b, Self> {
            self.raw_iterator_cf_opt(cf, ReadOptions::default())
        }

        /// The same in a column family, as `options` say.
        pub fn raw_iterator_cf_opt<'a: 'b, 'b>(
            &'a self,
            cf: &impl AsColumnFamilyRef,
            options: ReadOptions,
        ) -> DBRawIteratorWithThreadMode<'b, Self> {
            DBRawIteratorWithThreadMode::new(self.reader(Some(cf.family()), &options), options)
        }
    };
}
pub(crate) use reading_methods;
