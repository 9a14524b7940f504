//! varvite for Python: the extension module behind the package `varvite`.
//!
//! Classes hold what the engine gives in a `held::Held`, and every call goes through `fault::call`, which lets go
//! of the interpreter first. See `docs/design/python.md`.

#![allow(unsafe_code)] // buffers of Python are pointers, and a fork is told by a handler of C
#![allow(clippy::needless_pass_by_value, clippy::too_many_arguments)] // as Python's arguments come
#![allow(clippy::unnecessary_wraps, clippy::used_underscore_items)] // as pyo3's macros want them

mod answer;
mod callback;
mod context;
mod disk;
mod fault;
mod held;
mod input;
mod lock;
mod packed;
mod table;

use pyo3::prelude::*;

#[pymodule]
mod _varvite {
    #[pymodule_export]
    use crate::answer::{
        BackedUp, CacheStats, Checked, CollectStatus, Commit, CommitFile, CommitFileProgress, Cost,
        Exported, FilterStats, Finding, LevelStats, Loss, MergeStats, Migrated, ProofSummary,
        Repaired, RepairedTable, SessionStats, SnapshotInfo, StoreStats, TableStats, Transferred,
    };
    #[pymodule_export]
    use crate::callback::{MergeOperator, Work};
    #[pymodule_export]
    use crate::context::irmin::{export_irmin, is_irmin, migrate_irmin, open_irmin};
    #[pymodule_export]
    use crate::context::merge::{Conflict, Merge, Unresolved};
    #[pymodule_export]
    use crate::context::options::Configuration;
    #[pymodule_export]
    use crate::context::proof::{Proof, prove};
    #[pymodule_export]
    use crate::context::reader::Reader;
    #[pymodule_export]
    use crate::context::snapshot::verify_commit;
    #[pymodule_export]
    use crate::context::store::Store;
    #[pymodule_export]
    use crate::context::tree::Tree;
    #[pymodule_export]
    use crate::context::walk::Walk;
    #[pymodule_export]
    use crate::disk::{Cache, Disk, hash_text, parse_hash};
    #[pymodule_export]
    use crate::input::{Excluded, Included};
    #[pymodule_export]
    use crate::packed::{Buffer, Entries, Values};
    #[pymodule_export]
    use crate::table::batch::Batch;
    #[pymodule_export]
    use crate::table::cursor::{Cursor, Items};
    #[pymodule_export]
    use crate::table::follower::Follower;
    #[pymodule_export]
    use crate::table::repair::repair_session;
    #[pymodule_export]
    use crate::table::scrub::Scrub;
    #[pymodule_export]
    use crate::table::session::{Session, check};
    #[pymodule_export]
    use crate::table::shared::{Tables, Transaction};
    #[pymodule_export]
    use crate::table::snapshot::Snapshot;
    #[pymodule_export]
    use crate::table::stream::{Loader, Value, ValueWriter};
    #[pymodule_export]
    use crate::table::table::Table;
    #[pymodule_export]
    use crate::table::view::View;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::held::watch_forks();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
