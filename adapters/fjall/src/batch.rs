//! Writes to several keyspaces that stand together or not at all.

use std::sync::Arc;

use varvite::{Batch, Error as VarviteError};

use crate::database::{Database, PersistMode};
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::slice::{UserKey, UserValue};

/// Writes that are gathered until [`OwnedWriteBatch::commit`]. See [`Database::batch`].
pub struct OwnedWriteBatch {
    database: Database,
    parts: Vec<(Keyspace, Batch)>,
    count: usize,
    durability: Option<PersistMode>,
}

impl OwnedWriteBatch {
    pub(crate) fn new(database: Database) -> OwnedWriteBatch {
        OwnedWriteBatch { database, parts: Vec::new(), count: 0, durability: None }
    }

    /// An empty batch; the capacity is not needed here.
    #[must_use]
    pub fn with_capacity(database: Database, _capacity: usize) -> OwnedWriteBatch {
        Self::new(database)
    }

    /// How many writes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How far the commit carries the writes; to the operating system without this.
    #[must_use]
    pub fn durability(mut self, mode: Option<PersistMode>) -> Self {
        self.durability = mode;
        self
    }

    fn of(&mut self, keyspace: &Keyspace) -> &mut Batch {
        self.count += 1;
        let found = self.parts.iter().position(|(it, _)| Arc::ptr_eq(&it.named, &keyspace.named));
        let number = found.unwrap_or_else(|| {
            self.parts.push((keyspace.clone(), Batch::new()));
            self.parts.len() - 1
        });
        &mut self.parts[number].1
    }

    /// Binds `key` to `value`. Of several writes to one key the last one counts.
    pub fn insert<K: Into<UserKey>, V: Into<UserValue>>(
        &mut self,
        keyspace: &Keyspace,
        key: K,
        value: V,
    ) {
        self.of(keyspace).insert(&key.into(), &value.into());
    }

    /// Unbinds `key`.
    pub fn remove<K: Into<UserKey>>(&mut self, keyspace: &Keyspace, key: K) {
        self.of(keyspace).delete(&key.into());
    }

    /// Makes all writes stand, or none, also through a crash: they are one record of the log.
    pub fn commit(self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let shared = &self.database.0;
        if let Some((keyspace, _)) =
            self.parts.iter().find(|(keyspace, _)| !Arc::ptr_eq(&keyspace.shared, shared))
        {
            return Err(VarviteError::invalid(format!(
                "keyspace \"{}\" belongs to another database: begin the batch there",
                keyspace.name()
            ))
            .into());
        }
        let changes: Vec<_> = self.parts.iter().map(|(it, batch)| (&*it.named, batch)).collect();
        shared.commit(&changes)?;
        self.durability.map_or(Ok(()), |mode| shared.persist(mode))
    }
}
