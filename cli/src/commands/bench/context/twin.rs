//! The same blocks on a store that never collects: what blocks beside a collection cost more is seen beside blocks of a
//! store of the same age.

use tempfile::TempDir;
use varvite::Result;
use varvite::context::{CommitHash, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;

use super::Arguments;
use crate::store::folder::temporary;
use crate::system::measure::thread_cpu_ns;
use crate::workload::context_bench::{Mix, Workload};

/// A second store, and where it is in the workload.
#[derive(Debug)]
pub(super) struct Twin {
    store: Store,
    workload: Workload,
    mix: Mix,
    last: CommitHash,
    level: u64,
    _folder: Option<TempDir>,
}

impl Twin {
    /// Loads what the first store has loaded.
    pub(super) fn begin(arguments: &Arguments) -> Result<Twin> {
        let folder = if arguments.memory { None } else { Some(temporary()?) };
        let disk: std::sync::Arc<dyn Disk> = match &folder {
            Some(folder) => OsDisk::create(folder.path())?,
            None => MemoryDisk::seeded(2),
        };
        let mut store = Store::create(disk, arguments.options())?;
        let mut workload = Workload::new(arguments.seed);
        let (last, level) = super::load(&mut store, &mut workload, arguments.accounts)?;
        Ok(Twin { store, workload, mix: arguments.mix(), last, level, _folder: folder })
    }

    /// Runs the next block, after which the last commit should be `expected`; returns its processor time.
    pub(super) fn block(&mut self, expected: &CommitHash) -> Result<u64> {
        let start = thread_cpu_ns();
        let Twin { store, workload, mix, last, level, .. } = self;
        (*last, _) = super::block(store, workload, *mix, *last, level)?;
        let took = thread_cpu_ns() - start;
        if last == expected {
            Ok(took)
        } else {
            Err(varvite::Error::invalid("the store that collects has another hash than its twin"))
        }
    }
}
