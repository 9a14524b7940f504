//! The names of the tables that were created in a session without a log.
//!
//! Two tables of one name would have updates of their own, and a snapshot at most one of them. With a log the live
//! tables say which names are taken; without one nothing else does. A name is free again when its table is gone.

use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::order::BTreeSet;
use crate::sync::{Mutex, lock};

/// See the module.
#[derive(Default)]
pub struct CreatedNames {
    names: Mutex<BTreeSet<String>>,
}

impl CreatedNames {
    /// Takes `name` for a new table; `Exists` while another has it.
    pub fn take(self: &Arc<Self>, name: &str) -> Result<CreatedName> {
        if !lock(&self.names).insert(name.to_owned()) {
            return Err(Error::new(
                Kind::Exists,
                format!(
                    "there is a table {name} already, which was created in this session: go on with it, drop it \
                     first, or choose another name"
                ),
            ));
        }
        Ok(CreatedName { name: name.to_owned(), all: Arc::clone(self) })
    }
}

/// A name that a table has to itself, until this is dropped.
pub struct CreatedName {
    name: String,
    all: Arc<CreatedNames>,
}

impl Drop for CreatedName {
    fn drop(&mut self) {
        lock(&self.all.names).remove(&self.name);
    }
}
