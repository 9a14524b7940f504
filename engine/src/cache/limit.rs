//! How much memory may be given.

use crate::error::{Error, Result};

/// The greatest memory of a cache: its places, up to a tenth of it, are taken at once.
pub(crate) const MEMORY_MAX: u64 =
    if cfg!(target_pointer_width = "64") { 1 << 36 } else { 1 << 30 };

/// `Invalid` when one of these memories, by their names, is more than any machine has.
pub(crate) fn check_memory(memories: &[(&str, u64)]) -> Result<()> {
    match memories.iter().find(|(_, bytes)| *bytes > MEMORY_MAX) {
        Some((name, bytes)) => Err(Error::invalid(format!(
            "{name} is {bytes}, and at most {MEMORY_MAX} are possible: choose less"
        ))),
        None => Ok(()),
    }
}
