//! Which durable things name which files: each snapshot, the checkpoint, and each file of the log.
//!
//! A segment or blob file that one of them names is kept; when the last that names it is durably gone,
//! it is released and goes with its last holder. While some manifest could not be read, nothing is.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::shared::SharedFile;
use crate::order::BTreeMap;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::table::runs::blob::BlobFile;

/// Counted files by their number.
pub type Files = BTreeMap<u64, Arc<SharedFile>>;

/// What is named, and what was found wrong at open.
#[derive(Default)]
pub struct PinnedFiles {
    /// The segments that each snapshot names, and with them their files.
    pub snapshots: BTreeMap<String, Files>,
    /// The segments that the checkpoint names.
    pub live: Files,
    /// The blob files that records of the log name, by the number of the log file.
    pub log: BTreeMap<u64, Files>,
    pub warnings: Vec<String>,
}

impl PinnedFiles {
    fn is_named(&self, id: u64) -> bool {
        self.all().any(|files| files.contains_key(&id))
    }

    /// The files that each of them names.
    pub fn all(&self) -> impl Iterator<Item = &Files> {
        self.snapshots.values().chain([&self.live]).chain(self.log.values())
    }

    /// Releases those of `files` that nothing names, if that is certain.
    fn release(&self, files: &Files) {
        // A manifest that did not parse may name any of them.
        if self.warnings.is_empty() {
            for (id, file) in files {
                if !self.is_named(*id) {
                    file.release();
                }
            }
        }
    }
}

/// The same, shared.
#[derive(Default)]
pub struct Pins(Mutex<PinnedFiles>);

impl Pins {
    pub fn new(named: PinnedFiles) -> Self {
        Pins(Mutex::new(named))
    }

    /// Nobody holds this while the disk works.
    pub fn lock(&self) -> MutexGuard<'_, PinnedFiles> {
        lock(&self.0)
    }

    /// Keeps `files` from now on, before the manifest of snapshot `name` can be there.
    pub fn pin(&self, name: &str, files: Files) {
        let mut named = self.lock();
        // Under the lock: between the mark and the name, another owner would release them.
        for file in files.values() {
            file.keep();
        }
        named.snapshots.insert(name.to_owned(), files);
    }

    /// Lets the files of a snapshot go whose manifest is durably gone.
    pub fn unpin(&self, name: &str) {
        let mut named = self.lock();
        let Some(files) = named.snapshots.remove(name) else { return };
        named.release(&files);
        // The files go after the lock does: removing them is work of the disk.
        drop(named);
    }

    /// Keeps the blob files that a record of log file `number` is to name. Gives the bytes of those that
    /// no record of it named before.
    pub fn pin_logged(&self, number: u64, blobs: &[Arc<BlobFile>]) -> u64 {
        let mut named = self.lock();
        let files = named.log.entry(number).or_default();
        let mut bytes = 0;
        for blob in blobs {
            blob.shared().keep();
            if files.insert(blob.meta().id, Arc::clone(blob.shared())).is_none() {
                bytes += blob.meta().file_bytes();
            }
        }
        bytes
    }

    /// Keeps for log file `number` the blob files `ids`, each of which a log file before it names; else `Missing`.
    pub fn pin_joined(&self, number: u64, ids: impl Iterator<Item = u64>) -> Result<()> {
        let mut named = self.lock();
        let find = |id| {
            let file = named.log.values().find_map(|files| files.get(&id));
            let file = file.ok_or_else(|| {
                Error::missing(format!("no log file has named blob file {id:x} before"))
            })?;
            Ok((id, Arc::clone(file)))
        };
        let files = ids.map(find).collect::<Result<Files>>()?;
        if !files.is_empty() {
            named.log.insert(number, files);
        }
        Ok(())
    }

    /// Lets go what records of these log files name, which no checkpoint needs any more.
    pub fn unpin_logged(&self, numbers: &[u64]) {
        let mut named = self.lock();
        let gone: Vec<_> = numbers.iter().filter_map(|number| named.log.remove(number)).collect();
        for files in &gone {
            named.release(files);
        }
        drop(named);
    }

    /// Keeps what a checkpoint is to name beside what the one before it does.
    pub fn pin_live(&self, files: &Files) {
        let mut named = self.lock();
        for file in files.values() {
            file.keep();
        }
        named.live.extend(files.iter().map(|(id, file)| (*id, Arc::clone(file))));
    }

    /// The checkpoint names `files` now and nothing else.
    pub fn set_live(&self, files: Files) {
        let mut named = self.lock();
        let before = std::mem::replace(&mut named.live, files);
        named.release(&before);
        drop(named);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_file_that_takes_the_place_of_others_keeps_what_they_do_or_is_none() {
        let pins = Pins::default();
        pins.pin_joined(3, std::iter::empty()).unwrap();
        let refused = pins.pin_joined(3, [7].into_iter()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Missing, "{refused}");
        assert!(pins.lock().log.is_empty());
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings {
    use super::*;
    use crate::disk::Access;
    use crate::disk::memory::MemoryDisk;
    use crate::file::removals::Removals;
    use crate::file::shared::Counted;

    /// A snapshot lets a file go that a checkpoint begins to name: in every order, it stays.
    #[test]
    fn a_file_that_one_owner_lets_go_stays_for_the_next() {
        crate::sync::check_schedules(
            || {
                let removals = Removals::new(true);
                let counted = Counted::new(&(MemoryDisk::seeded(1) as _), &removals, None);
                let file = SharedFile::kept(&counted, "segments/1", Access::Buffered);
                let files = || Files::from([(1, Arc::clone(&file))]);
                let pins = Arc::new(Pins::default());
                pins.pin("s", files());
                let other = Arc::clone(&pins);
                let deleting = shuttle::thread::spawn(move || other.unpin("s"));
                pins.pin_live(&files());
                deleting.join().expect("it does not panic");
                assert!(file.is_kept());
            },
            500,
        );
    }
}
