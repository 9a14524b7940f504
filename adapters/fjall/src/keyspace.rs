//! A keyspace: a live table with a name of any letters.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, RangeBounds};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use varvite::{Batch, Table, TableStats, View};

use crate::database::Shared;
use crate::error::Result;
use crate::iter::{Guard, Iter};
use crate::readable;
use crate::slice::{UserKey, UserValue};

/// The name of a keyspace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceName(Arc<str>);

impl Deref for KeyspaceName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for KeyspaceName {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for KeyspaceName {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&str> for KeyspaceName {
    fn from(name: &str) -> KeyspaceName {
        KeyspaceName(name.into())
    }
}

impl fmt::Display for KeyspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for KeyspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

/// What the handles to one keyspace share.
pub(crate) struct Named {
    name: KeyspaceName,
    pub(crate) table: String,
    /// What it had when it was deleted.
    retired: OnceLock<View>,
}

impl Named {
    pub(crate) fn new(name: KeyspaceName, table: String) -> Named {
        Named { name, table, retired: OnceLock::new() }
    }

    pub(crate) fn name(&self) -> &KeyspaceName {
        &self.name
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.retired.get().is_some()
    }

    /// From now on it is what `view` shows.
    pub(crate) fn retire(&self, view: View) {
        self.retired.get_or_init(|| view);
    }
}

/// A handle to a keyspace: cheap to clone and send.
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) named: Arc<Named>,
    pub(crate) shared: Arc<Shared>,
}

impl AsRef<Keyspace> for Keyspace {
    fn as_ref(&self) -> &Keyspace {
        self
    }
}

impl PartialEq for Keyspace {
    fn eq(&self, other: &Keyspace) -> bool {
        self.named.name == other.named.name
    }
}

impl Eq for Keyspace {}

impl Hash for Keyspace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.named.name.hash(state);
    }
}

impl Keyspace {
    pub(crate) fn new(shared: &Arc<Shared>, named: &Arc<Named>) -> Keyspace {
        Keyspace { named: Arc::clone(named), shared: Arc::clone(shared) }
    }

    /// As the last write left it, or the deletion.
    fn view(&self) -> varvite::Result<View> {
        if let Some(view) = self.named.retired.get() {
            return Ok(view.clone());
        }
        let view = self.shared.store.tables().view(&self.named.table);
        // Somebody may have deleted it between the two; then what was found, if anything, is its namesake's.
        self.named.retired.get().cloned().map_or(view, Ok)
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        self.shared.commit(&[(&self.named, batch)])
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &KeyspaceName {
        &self.named.name
    }

    /// The folder of the database, which all keyspaces share.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.shared.path()
    }

    /// Binds `key`, of up to 4,000 bytes, to `value`, of up to 16 MiB.
    pub fn insert<K: Into<UserKey>, V: Into<UserValue>>(&self, key: K, value: V) -> Result<()> {
        self.write(Batch::new().insert(&key.into(), &value.into()))
    }

    /// Unbinds `key`.
    pub fn remove<K: Into<UserKey>>(&self, key: K) -> Result<()> {
        self.write(Batch::new().delete(&key.into()))
    }

    /// Unbinds every key.
    pub fn clear(&self) -> Result<()> {
        self.write(Batch::new().delete_prefix(b""))
    }

    /// What `key` is bound to.
    pub fn get<K: AsRef<[u8]>>(&self, key: K) -> Result<Option<UserValue>> {
        readable::get(&self.view()?, key.as_ref())
    }

    /// Whether `key` is bound. Reads no value that lies beside the runs.
    pub fn contains_key<K: AsRef<[u8]>>(&self, key: K) -> Result<bool> {
        Ok(readable::length(&self.view()?, key.as_ref())?.is_some())
    }

    /// The length of what `key` is bound to. Reads no value that lies beside the runs.
    pub fn size_of<K: AsRef<[u8]>>(&self, key: K) -> Result<Option<u32>> {
        readable::length(&self.view()?, key.as_ref())
    }

    /// The entry with the least key.
    pub fn first_key_value(&self) -> Option<Guard> {
        self.iter().next()
    }

    /// The entry with the greatest key.
    pub fn last_key_value(&self) -> Option<Guard> {
        self.iter().next_back()
    }

    /// Whether no key is bound.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first_key_value().map(Guard::key).transpose()?.is_none())
    }

    /// How many keys are bound. Reads every key.
    pub fn len(&self) -> Result<usize> {
        Ok(self.view()?.count()? as usize)
    }

    /// How many entries there are, those of keys that were written over or removed included. Waits while
    /// others write. Of a keyspace that was deleted: as [`Keyspace::len`].
    #[must_use]
    pub fn approximate_len(&self) -> usize {
        if self.named.is_deleted() {
            return self.len().unwrap_or(0);
        }
        let stats = self.shared.store.stats(&self.named.table);
        stats.map_or(0, |stats| stats.physical_entries as usize)
    }

    /// Bytes of its files; 0 of a keyspace that was deleted. Waits while others write.
    #[must_use]
    pub fn disk_space(&self) -> u64 {
        if self.named.is_deleted() {
            return 0;
        }
        self.shared.store.disk_bytes(&self.named.table).unwrap_or(0)
    }

    /// What its table consists of; nothing of a keyspace that was deleted.
    fn stats(&self) -> TableStats {
        if self.named.is_deleted() {
            return TableStats::default();
        }
        self.shared.store.stats(&self.named.table).unwrap_or_default()
    }

    /// Whether it was made with values beside its runs; those above 64 KiB lie there without.
    #[must_use]
    pub fn is_kv_separated(&self) -> bool {
        let is_it =
            |it: &Table| it.name() == self.named.table && it.options().blob_min_bytes.is_some();
        self.shared.store.tables().with(|tables| tables.iter().any(is_it))
    }

    /// How many files its runs have. Waits while others write.
    #[must_use]
    pub fn table_count(&self) -> usize {
        self.stats().levels.iter().map(|level| level.segments as usize).sum()
    }

    /// How many of these the youngest level has. Waits while others write.
    #[must_use]
    pub fn l0_table_count(&self) -> usize {
        self.stats().levels.first().map_or(0, |level| level.segments as usize)
    }

    /// How many files with values lie beside the runs. Waits while others write.
    #[must_use]
    pub fn blob_file_count(&self) -> usize {
        self.stats().blob_files as usize
    }

    /// Bytes of these files that no run refers to. Waits while others write.
    #[must_use]
    pub fn fragmented_blob_bytes(&self) -> u64 {
        let stats = self.stats();
        stats.blob_disk_bytes.saturating_sub(stats.blob_bytes)
    }

    /// Every entry.
    #[must_use]
    #[allow(clippy::iter_without_into_iter)] // the peer's shape
    pub fn iter(&self) -> Iter {
        Iter::over(self.view().ok().as_ref(), View::iter)
    }

    /// The entries of a range.
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Iter {
        Iter::over(self.view().ok().as_ref(), |view| readable::range(view, &range))
    }

    /// The entries whose keys begin with `prefix`.
    #[allow(clippy::needless_pass_by_value)] // the peer's shape
    pub fn prefix<K: AsRef<[u8]>>(&self, prefix: K) -> Iter {
        Iter::over(self.view().ok().as_ref(), |view| view.prefix(&prefix))
    }
}
