//! Snapshots of commits as files.

use pyo3::prelude::*;
use varvite::context;

use crate::answer::{CommitFile, CommitFileProgress};
use crate::disk::Place;
use crate::fault::{Answers, Outcome, call, locked_callback};

pub fn tell(from: &context::CommitFile) -> CommitFile {
    CommitFile {
        commit: from.commit.to_vec(),
        commits: from.commits,
        values: from.values,
        directories: from.directories,
        leaves: from.leaves,
        branches: from.branches,
        repeats: from.repeats,
        stream_bytes: from.stream_bytes,
        bytes: from.bytes,
        hash: from.hash.to_vec(),
    }
}

/// What the engine tells of its progress, and whose error ends its work.
type Watch<'a> = &'a mut dyn FnMut(&context::CommitFileProgress) -> varvite::Result<()>;

/// Does `body`, which tells `watch` how far it is; what that raises is raised again.
pub fn watched<T>(
    watch: Option<Py<PyAny>>,
    body: impl FnOnce(Watch<'_>) -> varvite::Result<T>,
) -> Outcome<T> {
    let mut answers = Answers::default();
    let outcome = body(&mut |progress| {
        let Some(watch) = &watch else { return Ok(()) };
        let told = CommitFileProgress { bytes: progress.bytes, total: progress.total };
        answers.check(locked_callback(|py| watch.call1(py, (told,)).map(drop)))
    });
    answers.outcome(outcome)
}

/// Reads a file that `Store.export_commits` wrote, and verifies every hash in it, without a store.
#[pyfunction]
#[pyo3(signature = (place, path, *, watch = None))]
pub fn verify_commit(
    py: Python<'_>,
    place: &Bound<'_, PyAny>,
    path: &str,
    watch: Option<Py<PyAny>>,
) -> PyResult<CommitFile> {
    let place = Place::of(py, place)?;
    call(py, || {
        let disk = place.disk(false)?;
        let file = watched(watch, |watch| context::verify_commit_watched(&*disk, path, watch))?;
        Ok(tell(&file))
    })
}
