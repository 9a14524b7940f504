//! Copies of a database at one moment.

use std::path::Path;
use std::sync::Arc;

use crate::column_family::ThreadMode;
use crate::db::{DBInner, Database};
use crate::error::Error;
use crate::shared::Shared;

/// Makes copies of a database.
pub struct Checkpoint<'db> {
    shared: &'db Arc<Shared>,
}

impl<'db> Checkpoint<'db> {
    /// Copies of `db`.
    pub fn new<T: ThreadMode, I: DBInner>(db: &'db Database<T, I>) -> Result<Self, Error> {
        Ok(Checkpoint { shared: &db.shared })
    }

    /// Makes the folder `path`, which is not there, a database with what this one has just now. Files are
    /// linked where both are on one file system. It is a database of its own.
    pub fn create_checkpoint<P: AsRef<Path>>(&self, path: P) -> Result<(), Error> {
        Ok(self.shared.store.backup(path.as_ref())?)
    }
}
