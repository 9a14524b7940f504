//! What has the place of a file that is not made yet: nothing is in it, nothing can be, and no disk is asked.

use crate::disk::File;
use crate::error::{Error, Result};

/// See the module.
pub struct StandIn(String);

crate::disk::names_itself!(StandIn);

impl StandIn {
    /// For the file that `path` will be the name of.
    pub fn new(path: &str) -> StandIn {
        StandIn(path.to_owned())
    }
}

impl File for StandIn {
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(Error::missing(format!("{} is not made yet", self.0)))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn preallocate(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(0)
    }

    fn path(&self) -> &str {
        &self.0
    }
}
