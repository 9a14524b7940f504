//! Reads at one moment.

use std::ops::RangeBounds;
use std::sync::Arc;

use varvite::{View, Views};

use crate::database::Keyspaces;
use crate::error::Result;
use crate::iter::{Guard, Iter};
use crate::keyspace::Keyspace;
use crate::slice::UserValue;

pub(crate) fn get(view: &View, key: &[u8]) -> Result<Option<UserValue>> {
    Ok(view.get(key)?.map(UserValue::from))
}

/// The length of what `key` is bound to.
pub(crate) fn length(view: &View, key: &[u8]) -> Result<Option<u32>> {
    let found = view.find(&[key])?.pop().flatten();
    Ok(found.map(|value| value.len() as u32))
}

pub(crate) fn range<K: AsRef<[u8]>>(view: &View, range: &impl RangeBounds<K>) -> varvite::Range {
    let owned = |key: &K| key.as_ref().to_vec();
    view.range((range.start_bound().map(owned), range.end_bound().map(owned)))
}

/// What can be read: a [`Snapshot`].
pub trait Readable {
    /// What `key` is bound to.
    fn get<K: AsRef<[u8]>>(
        &self,
        keyspace: impl AsRef<Keyspace>,
        key: K,
    ) -> Result<Option<UserValue>>;

    /// Whether `key` is bound.
    fn contains_key<K: AsRef<[u8]>>(&self, keyspace: impl AsRef<Keyspace>, key: K) -> Result<bool>;

    /// The entry with the least key.
    fn first_key_value(&self, keyspace: impl AsRef<Keyspace>) -> Option<Guard>;

    /// The entry with the greatest key.
    fn last_key_value(&self, keyspace: impl AsRef<Keyspace>) -> Option<Guard>;

    /// The length of what `key` is bound to.
    fn size_of<K: AsRef<[u8]>>(
        &self,
        keyspace: impl AsRef<Keyspace>,
        key: K,
    ) -> Result<Option<u32>>;

    /// Whether no key is bound.
    fn is_empty(&self, keyspace: impl AsRef<Keyspace>) -> Result<bool> {
        Ok(self.first_key_value(keyspace).map(Guard::key).transpose()?.is_none())
    }

    /// Every entry.
    fn iter(&self, keyspace: impl AsRef<Keyspace>) -> Iter;

    /// How many keys are bound. Reads every key.
    fn len(&self, keyspace: impl AsRef<Keyspace>) -> Result<usize>;

    /// The entries of a range.
    fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        keyspace: impl AsRef<Keyspace>,
        range: R,
    ) -> Iter;

    /// The entries whose keys begin with `prefix`.
    fn prefix<K: AsRef<[u8]>>(&self, keyspace: impl AsRef<Keyspace>, prefix: K) -> Iter;
}

/// All keyspaces of a database at one moment. Cheap to clone and send; holds up no writer.
#[derive(Clone)]
pub struct Snapshot {
    views: Views,
    keyspaces: Keyspaces,
}

impl Snapshot {
    pub(crate) fn new(views: Views, keyspaces: Keyspaces) -> Snapshot {
        Snapshot { views, keyspaces }
    }

    /// None for a keyspace that was not there then: it had nothing.
    fn view(&self, keyspace: &Keyspace) -> Option<View> {
        let named = self.keyspaces.get(&**keyspace.named.name())?;
        let view = self.views.get(&named.table).ok()?;
        Arc::ptr_eq(named, &keyspace.named).then(|| view.clone())
    }
}

impl Readable for Snapshot {
    fn get<K: AsRef<[u8]>>(
        &self,
        keyspace: impl AsRef<Keyspace>,
        key: K,
    ) -> Result<Option<UserValue>> {
        self.view(keyspace.as_ref()).map_or(Ok(None), |view| get(&view, key.as_ref()))
    }

    fn contains_key<K: AsRef<[u8]>>(&self, keyspace: impl AsRef<Keyspace>, key: K) -> Result<bool> {
        Ok(self.size_of(keyspace, key)?.is_some())
    }

    fn first_key_value(&self, keyspace: impl AsRef<Keyspace>) -> Option<Guard> {
        self.iter(keyspace).next()
    }

    fn last_key_value(&self, keyspace: impl AsRef<Keyspace>) -> Option<Guard> {
        self.iter(keyspace).next_back()
    }

    fn size_of<K: AsRef<[u8]>>(
        &self,
        keyspace: impl AsRef<Keyspace>,
        key: K,
    ) -> Result<Option<u32>> {
        self.view(keyspace.as_ref()).map_or(Ok(None), |view| length(&view, key.as_ref()))
    }

    fn iter(&self, keyspace: impl AsRef<Keyspace>) -> Iter {
        Iter::over(self.view(keyspace.as_ref()).as_ref(), View::iter)
    }

    fn len(&self, keyspace: impl AsRef<Keyspace>) -> Result<usize> {
        let count = self.view(keyspace.as_ref()).map_or(Ok(0), |view| view.count())?;
        Ok(count as usize)
    }

    fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        keyspace: impl AsRef<Keyspace>,
        bounds: R,
    ) -> Iter {
        Iter::over(self.view(keyspace.as_ref()).as_ref(), |view| range(view, &bounds))
    }

    fn prefix<K: AsRef<[u8]>>(&self, keyspace: impl AsRef<Keyspace>, prefix: K) -> Iter {
        Iter::over(self.view(keyspace.as_ref()).as_ref(), |view| view.prefix(&prefix))
    }
}
