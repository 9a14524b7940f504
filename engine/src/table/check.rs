//! Verifies a session from its files alone, and never writes.
//!
//! Everything that a manifest names is read: headers, checksums, key order, counts, filters and
//! indexes against the pages. What is wrong is told file by file; the check goes on after it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::folder::{read_manifest, read_session, snapshot_names};
use super::options::SessionOptions;
use super::paths::{self, SEGMENTS};
use super::segment::SegmentMeta;
use super::store::Store;
use super::verify;
use crate::disk::Disk;
use crate::error::{Error, Kind, Result};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the session.
    pub file: String,
    /// What is wrong, where, and what to do.
    pub detail: String,
    /// The snapshots that need the file; empty when none does.
    pub snapshots: Vec<String>,
}

/// What a check read and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What is wrong; empty for a sound session.
    pub findings: Vec<Finding>,
    /// Manifests read.
    pub snapshots: u64,
    /// Segments read.
    pub segments: u64,
    /// Entries read.
    pub entries: u64,
    /// Bytes of the files read.
    pub bytes: u64,
    /// Segments that no snapshot names: of a session that is open, or left by a crash.
    pub unreferenced: u64,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far.
    pub done_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
}

/// Checks the session in the root folder of `disk`, telling `progress`, which may break it off.
/// An error is returned only when there is no session to check.
///
/// Reads every byte that a snapshot needs, once. Takes no lock, so a session may be open meanwhile; what its
/// writer removes during the check is then found missing.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use varvite::disk::{Disk, memory::MemoryDisk};
/// use varvite::{Session, SessionOptions, table::check::check};
///
/// let disk: Arc<dyn Disk> = MemoryDisk::new();
/// Session::create(disk.clone(), SessionOptions::default())?.close()?;
/// let report = check(&disk, |_| ControlFlow::Continue(()))?;
/// assert!(report.findings.is_empty());
/// # Ok::<(), varvite::Error>(())
/// ```
pub fn check(
    disk: &Arc<dyn Disk>,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report> {
    let mut report = Report::default();
    let identity = match read_session(&**disk) {
        Ok(identity) => identity,
        Err(error) if error.kind() == Kind::Corrupt => {
            report.add(paths::SESSION, &error, &[]);
            (0, 0)
        }
        Err(error) => return Err(error),
    };
    let options = SessionOptions::default();
    let store = Store::new(Arc::clone(disk), options, identity, u64::MAX, None);
    let mut needed: BTreeMap<u64, (SegmentMeta, Vec<String>)> = BTreeMap::new();
    for name in snapshot_names(&**disk)? {
        report.snapshots += 1;
        match read_manifest(&**disk, &name) {
            Ok(manifest) => {
                for meta in manifest.segments() {
                    let (known, names) =
                        needed.entry(meta.id).or_insert_with(|| (meta.clone(), Vec::new()));
                    if known != meta {
                        let error = Error::corrupt(
                            &paths::snapshot(&name),
                            0,
                            format_args!("segment {} as other manifests have it", meta.id),
                            "another description",
                        );
                        report.add(&paths::snapshot(&name), &error, std::slice::from_ref(&name));
                    }
                    if names.last() != Some(&name) {
                        names.push(name.clone());
                    }
                }
            }
            Err(error) => report.add(&paths::snapshot(&name), &error, std::slice::from_ref(&name)),
        }
    }
    let on_disk: BTreeSet<_> =
        disk.list(SEGMENTS)?.iter().filter_map(|name| paths::segment_id(name)).collect();
    report.unreferenced = on_disk.iter().filter(|id| !needed.contains_key(id)).count() as u64;
    let total_bytes = needed.values().map(|(meta, _)| meta.file_bytes()).sum();
    for (meta, names) in needed.into_values() {
        let checked = store.open_segment(&meta).and_then(|it| verify::segment(&it));
        match checked {
            Ok(()) => report.entries += meta.entries(),
            Err(error) => report.add(&paths::segment(meta.id), &error, &names),
        }
        report.segments += 1;
        report.bytes += meta.file_bytes();
        let done = Progress { done_bytes: report.bytes, total_bytes };
        if progress(done).is_break() {
            break;
        }
    }
    Ok(report)
}

impl Report {
    fn add(&mut self, file: &str, error: &Error, snapshots: &[String]) {
        self.findings.push(Finding {
            file: file.to_owned(),
            detail: error.detail().to_owned(),
            snapshots: snapshots.to_vec(),
        });
    }
}
