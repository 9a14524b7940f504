//! The database: a session, its tables, and which keyspace is which table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use varvite::{Batch, SessionOptions};
use varvite_adapters::{Store, Way, name_of, table_name};

use crate::batch::OwnedWriteBatch;
use crate::builder::DatabaseBuilder;
use crate::error::{Error, Result};
use crate::keyspace::{Keyspace, KeyspaceName, Named};
use crate::options::KeyspaceCreateOptions;
use crate::readable::Snapshot;

/// The longest name of a keyspace, here as in the peer.
const NAME_BYTES_MAX: usize = 255;

/// How far writes are to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistMode {
    /// To the operating system: they outlive the process. Every write is already.
    Buffer,
    /// To the disk: they outlive a power cut.
    SyncData,
    /// The same.
    SyncAll,
}

/// A database: keyspaces that are written together. A cheap handle to clone and send.
#[derive(Clone)]
pub struct Database(pub(crate) Arc<Shared>);

/// The keyspaces by name.
pub(crate) type Keyspaces = Arc<BTreeMap<KeyspaceName, Arc<Named>>>;

/// What the handles share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    /// Written to while a keyspace comes or goes, read while one is written.
    keyspaces: RwLock<Keyspaces>,
    path: PathBuf,
    cache: Option<Arc<varvite::cache::Cache>>,
    /// Last, because the store goes before its folder.
    #[allow(dead_code)] // it acts when it is dropped
    cleanup: Option<Cleanup>,
}

/// Removes a folder when it is dropped.
struct Cleanup(PathBuf);

impl Drop for Cleanup {
    fn drop(&mut self) {
        // Nobody is there to be told.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// As in the peer, whoever drops the last handle makes all that was written durable.
impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody is there to be told.
        let _ = self.store.sync_log();
    }
}

impl Shared {
    fn keyspaces(&self) -> RwLockReadGuard<'_, Keyspaces> {
        self.keyspaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Keyspaces> {
        self.keyspaces.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Applies each batch to its keyspace, all of them or none.
    pub(crate) fn commit(&self, changes: &[(&Named, &Batch)]) -> Result<()> {
        let _none_goes = self.keyspaces();
        if self.store.session().is_poisoned() {
            return Err(Error::Poisoned);
        }
        if changes.iter().any(|(keyspace, _)| keyspace.is_deleted()) {
            return Err(Error::KeyspaceDeleted);
        }
        let changes: Vec<_> = changes.iter().map(|(it, batch)| (&*it.table, *batch)).collect();
        Ok(self.store.tables().commit(&changes)?)
    }

    pub(crate) fn persist(&self, mode: PersistMode) -> Result<()> {
        if self.store.session().is_poisoned() {
            return Err(Error::Poisoned);
        }
        if mode == PersistMode::Buffer {
            return Ok(());
        }
        Ok(self.store.sync_log()?)
    }
}

impl Database {
    /// How the database in the folder `path` is opened.
    pub fn builder(path: impl AsRef<Path>) -> DatabaseBuilder<Database> {
        DatabaseBuilder::new(path.as_ref())
    }

    pub(crate) fn open_with(
        path: &Path,
        options: SessionOptions,
        is_temporary: bool,
    ) -> Result<Database> {
        let cache = options.cache.clone();
        let store = Store::open(path, Way::OpenOrCreate, options)?;
        let views = store.tables().views();
        let named = views.iter().filter_map(|(table, _)| {
            let name = KeyspaceName::from(&*name_of(table)?);
            Some((name.clone(), Arc::new(Named::new(name, table.to_owned()))))
        });
        let keyspaces = RwLock::new(Arc::new(named.collect()));
        let cleanup = is_temporary.then(|| Cleanup(path.to_owned()));
        let path = path.to_owned();
        Ok(Database(Arc::new(Shared { store, keyspaces, path, cache, cleanup })))
    }

    /// The keyspace `name`, made by `create_options` if it is not there. One that is made is durable.
    ///
    /// Varvite's names are shorter than the peer's 255 bytes: see the README. One that is too long for varvite
    /// alone is an error.
    ///
    /// # Panics
    ///
    /// If the name is empty or longer than 255 bytes.
    pub fn keyspace(
        &self,
        name: &str,
        create_options: impl FnOnce() -> KeyspaceCreateOptions,
    ) -> Result<Keyspace> {
        assert!(
            (1..=NAME_BYTES_MAX).contains(&name.len()),
            "a keyspace's name has 1 to {NAME_BYTES_MAX} bytes"
        );
        if let Some(named) = self.0.keyspaces().get(name) {
            return Ok(Keyspace::new(&self.0, named));
        }
        let mut keyspaces = self.0.change();
        if let Some(named) = keyspaces.get(name) {
            return Ok(Keyspace::new(&self.0, named));
        }
        let table = table_name(name)?;
        self.0.store.create_table(&table, create_options().table())?;
        let name = KeyspaceName::from(name);
        let named = Arc::new(Named::new(name.clone(), table));
        Arc::make_mut(&mut keyspaces).insert(name, Arc::clone(&named));
        Ok(Keyspace::new(&self.0, &named))
    }

    /// Deletes a keyspace with all that is in it. Handles to it go on reading what it had; writes to them are
    /// refused.
    #[allow(clippy::needless_pass_by_value)] // the peer's shape
    pub fn delete_keyspace(&self, handle: Keyspace) -> Result<()> {
        let mut keyspaces = self.0.change();
        let named = &handle.named;
        let is_there = keyspaces.get(named.name()).is_some_and(|it| Arc::ptr_eq(it, named));
        if !is_there {
            return Err(Error::KeyspaceDeleted);
        }
        named.retire(self.0.store.tables().view(&named.table)?);
        Arc::make_mut(&mut keyspaces).remove(named.name());
        let deleted = self.0.store.drop_table(&named.table);
        if deleted.is_err() && self.0.store.tables().view(&named.table).is_ok() {
            // It is there as it was, for whoever asks for it by its name.
            let again = Arc::new(Named::new(named.name().clone(), named.table.clone()));
            Arc::make_mut(&mut keyspaces).insert(named.name().clone(), again);
        }
        Ok(deleted?)
    }

    /// Whether there is a keyspace `name`.
    #[must_use]
    pub fn keyspace_exists(&self, name: &str) -> bool {
        self.0.keyspaces().contains_key(name)
    }

    /// How many keyspaces there are.
    #[must_use]
    pub fn keyspace_count(&self) -> usize {
        self.0.keyspaces().len()
    }

    /// Their names, in order.
    #[must_use]
    pub fn list_keyspace_names(&self) -> Vec<KeyspaceName> {
        self.0.keyspaces().keys().cloned().collect()
    }

    /// A batch for any keyspaces of this database.
    #[must_use]
    pub fn batch(&self) -> OwnedWriteBatch {
        OwnedWriteBatch::new(self.clone())
    }

    /// All keyspaces at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let keyspaces = self.0.keyspaces();
        Snapshot::new(self.0.store.tables().views(), Arc::clone(&keyspaces))
    }

    /// Carries all writes whose calls returned to where `mode` says.
    pub fn persist(&self, mode: PersistMode) -> Result<()> {
        self.0.persist(mode)
    }

    /// Bytes of the files of all keyspaces. The log comes on top.
    pub fn disk_space(&self) -> Result<u64> {
        let keyspaces = self.0.keyspaces();
        let bytes = keyspaces.values().map(|it| self.0.store.disk_bytes(&it.table));
        Ok(bytes.sum::<varvite::Result<u64>>()?)
    }

    /// How many files the log has.
    #[must_use]
    pub fn journal_count(&self) -> usize {
        Store::log_files(self.0.path()).len()
    }

    /// Bytes of these.
    pub fn journal_disk_space(&self) -> Result<u64> {
        Ok(Store::log_files(self.0.path()).iter().sum())
    }

    /// Bytes of entries that are not written out yet.
    #[must_use]
    pub fn write_buffer_size(&self) -> u64 {
        let keyspaces = self.0.keyspaces();
        let stats = keyspaces.values().filter_map(|it| self.0.store.stats(&it.table).ok());
        stats.map(|stats| stats.buffer_bytes).sum()
    }

    /// How many merges run in the background: none ever does, since updates do them.
    #[must_use]
    pub fn active_compactions(&self) -> usize {
        0
    }

    /// The memory that [`DatabaseBuilder::cache_size`] gave, or 0.
    #[must_use]
    pub fn cache_capacity(&self) -> u64 {
        self.0.cache.as_ref().map_or(0, |cache| cache.budget_bytes())
    }

    /// How much of it is taken.
    #[must_use]
    pub fn cache_size(&self) -> u64 {
        let stats = self.0.cache.as_ref().map(|cache| cache.stats());
        stats.map_or(0, |stats| stats.bytes + stats.charged_bytes)
    }

    /// How many write buffers wait for a background thread: none ever does, since updates write them out.
    #[must_use]
    pub fn outstanding_flushes(&self) -> usize {
        0
    }
}
