//! What the engine is made of: the pieces of a table's files, the shapes of files, the conventions of bytes, as
//! specified in `docs/format/`, and the bytes that a context hashes.
//!
//! For benches, fuzzing and inspection. The formats are stable, these signatures are not.

pub use crate::table::raw::*;

/// Shapes of files.
pub mod file {
    pub use crate::file::*;
}

/// Conventions of bytes: codecs, headers, checksums.
pub mod format {
    pub use crate::format::*;
}

/// Locks and threads, and the schedules that tests run them in.
pub mod sync {
    pub use crate::sync::*;
}

/// The parts of what a context hashes.
pub mod preimage {
    pub use crate::context::preimage::*;
}

/// Which bucket of an inode a name goes to.
pub mod name_hash {
    pub use crate::context::name_hash::*;
}

/// Pages of a cache, by the numbers that files have in it.
pub mod cache {
    use crate::cache::{Cache, CachedPage, PAGE};

    /// The page, if the cache has it.
    pub fn get(cache: &Cache, file: u64, page: u32) -> Option<CachedPage> {
        cache.get(file, page)
    }

    /// Has the cache keep the page, if there is room.
    pub fn insert(cache: &Cache, file: u64, page: u32, bytes: &[u8; PAGE]) -> CachedPage {
        cache.insert(file, page, bytes)
    }
}
