//! Where an export has put what: what was asked for lately in memory, all of it in a table.
//!
//! A store has more objects than fit in memory, and any of them may be named again by the next commit.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cache::Cache;
use crate::context::hash::Hash;
use crate::context::pieces::node::INLINE;
use crate::disk::Disk;
use crate::error::Result;
use crate::table::{Batch, Session, SessionOptions, Table, TableOptions, Values};

/// Entries of each of the two maps.
const RECENT: usize = 1 << 16;

/// Memory for the table's buffers, filters, indexes and pages, in bytes.
const TABLE_BYTES: u64 = 32 << 20;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The object that is stored here under this reference.
    Stored(u64),
    /// A value that is inside its directory here: its bytes, zeros, its length.
    Short([u8; INLINE + 1]),
    /// A piece of a directory that is one piece here.
    Piece(Hash),
    Commit(Hash),
    /// A directory that is within its parent's record here.
    Embedded(Hash),
}

impl Key {
    fn bytes(&self) -> Vec<u8> {
        let (kind, rest): (u8, &[u8]) = match self {
            Key::Stored(reference) => (0, &reference.to_be_bytes()),
            Key::Short(value) => (1, value),
            Key::Piece(hash) => (2, hash),
            Key::Commit(hash) => (3, hash),
            Key::Embedded(hash) => (4, hash),
        };
        [&[kind], rest].concat()
    }
}

/// Offsets in the pack that is written.
pub(super) struct Places {
    scratch: Arc<dyn Disk>,
    /// What was put or found since the maps were exchanged, and what was before.
    young: HashMap<Key, u64>,
    old: HashMap<Key, u64>,
    /// What was put since.
    batch: Batch,
    /// Made when the maps are full for the first time.
    table: Option<(Session, Table)>,
    found: Values,
}

impl Places {
    /// None yet; `scratch` is an empty folder.
    pub(super) fn new(scratch: Arc<dyn Disk>) -> Places {
        Places {
            scratch,
            young: HashMap::new(),
            old: HashMap::new(),
            batch: Batch::new(),
            table: None,
            found: Values::new(),
        }
    }

    /// Where `key` was put. Reads up to a page for what was not asked for lately.
    pub(super) fn get(&mut self, key: Key) -> Result<Option<u64>> {
        if let Some(offset) = self.young.get(&key) {
            return Ok(Some(*offset));
        }
        let mut offset = self.old.get(&key).copied();
        if let (None, Some((_, table))) = (offset, &self.table) {
            table.lookup_into(&[key.bytes()], &mut self.found)?;
            offset = self
                .found
                .get(0)
                .map(|bytes| u64::from_be_bytes(bytes.try_into().expect("as it was put")));
        }
        if let Some(offset) = offset {
            self.remember(key, offset)?;
        }
        Ok(offset)
    }

    pub(super) fn put(&mut self, key: Key, offset: u64) -> Result<()> {
        self.batch.insert(&key.bytes(), &offset.to_be_bytes());
        self.remember(key, offset)
    }

    fn remember(&mut self, key: Key, offset: u64) -> Result<()> {
        self.young.insert(key, offset);
        if self.young.len() < RECENT {
            return Ok(());
        }
        if self.table.is_none() {
            let cache = Some(Cache::new(TABLE_BYTES));
            // Nothing outlives the run, so nothing is ever told apart by it.
            let options = SessionOptions { cache, seed: Some(1), ..SessionOptions::default() };
            let session = Session::create(Arc::clone(&self.scratch), options)?;
            let options = TableOptions::default().within_memory(TABLE_BYTES / 2);
            let table = session.create_table("places", options)?;
            self.table = Some((session, table));
        }
        if let Some((_, table)) = &mut self.table {
            table.update(&self.batch)?;
        }
        self.batch.clear();
        std::mem::swap(&mut self.old, &mut self.young);
        self.young.clear();
        Ok(())
    }
}
