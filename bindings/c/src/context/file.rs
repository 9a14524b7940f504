//! Snapshots of commits as files.

use std::ffi::{c_char, c_int, c_void};

use varvite::context::{
    CommitFile, CommitFileOptions, CommitFileProgress, CommitHash, Store, verify_commit_watched,
};

use super::options::{given_observer, store_options, varvite_store_options};
use super::store::tell;
use crate::args::{Out, array, text, wanted};
use crate::handle::{get, put};
use crate::status::{Answers, Outcome, call, outer_callback, varvite_error};
use crate::types::{disk, varvite_disk, varvite_hash, varvite_store};

/// What a file of commits holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_commit_file {
    /// The commit; of several, the last one.
    pub commit: varvite_hash,
    /// The hash of its content: the same for the same commits, whoever wrote the file, and however it is compressed.
    pub hash: varvite_hash,
    /// How many commits.
    pub commits: u64,
    /// Bytes of all records.
    pub stream_bytes: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Is told how many `bytes` of a file of commits were read or written, and how many it has, 0 while it is written.
/// Anything but 0 ends the work, and the call returns VARVITE_CALLBACK.
pub type varvite_watch_file =
    Option<unsafe extern "C" fn(user: *mut c_void, bytes: u64, total: u64) -> c_int>;

fn tell_file(from: &CommitFile) -> varvite_commit_file {
    varvite_commit_file {
        commit: tell(from.commit),
        hash: tell(from.hash),
        commits: from.commits,
        stream_bytes: from.stream_bytes,
        bytes: from.bytes,
    }
}

type Watch<'a> = &'a mut dyn FnMut(&CommitFileProgress) -> varvite::Result<()>;

/// Does `body`, tells the program how far it is, and what it did.
fn watched(
    (watch, user): (varvite_watch_file, *mut c_void),
    file: Option<Out<varvite_commit_file>>,
    body: impl FnOnce(Watch<'_>) -> varvite::Result<CommitFile>,
) -> Outcome {
    let answers = Answers::default();
    let outcome = body(&mut |progress| {
        let Some(watch) = watch else { return Ok(()) };
        let (bytes, total) = (progress.bytes, progress.total.unwrap_or(0));
        // SAFETY: the program gave this function to be called with this pointer.
        answers.check(outer_callback(|| unsafe { watch(user, bytes, total) }))
    });
    let done = answers.outcome(outcome)?;
    if let Some(place) = file {
        place.set(tell_file(&done));
    }
    Ok(())
}

/// Writes commits, in any order, all of which one descends from through others of them, as the file `path` of `disk`.
/// With `zstd_level` 0 its bytes follow from the commits alone; 1 to 19 compress. After an error no file is there. `watch`
/// and `file` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_export_commits(
    store: *mut varvite_store,
    commits: *const varvite_hash,
    count: usize,
    disk: *mut varvite_disk,
    path: *const c_char,
    zstd_level: u32,
    watch: varvite_watch_file,
    user: *mut c_void,
    file: *mut varvite_commit_file,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (path, place) = (text(path, "path")?, wanted(file, "result")?);
        let commits: Vec<CommitHash> =
            array(commits, count, "commits")?.iter().map(|it| it.bytes.into()).collect();
        let level = i32::try_from(zstd_level).unwrap_or(i32::MAX);
        let options = CommitFileOptions { zstd_level: (level != 0).then_some(level) };
        let disk = self::disk(disk)?;
        let held = get(store)?;
        let store = held.read()?;
        watched((watch, user), place, |watch| {
            store.export_commits_watched(&commits, options, &disk, path, watch)
        })
    })
}

/// Takes the commits of a file over into the store. Everything is verified before any of it is there. `watch` and `file`
/// may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_import_commit(
    store: *mut varvite_store,
    disk: *mut varvite_disk,
    path: *const c_char,
    watch: varvite_watch_file,
    user: *mut c_void,
    file: *mut varvite_commit_file,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (path, place) = (text(path, "path")?, wanted(file, "result")?);
        let disk = self::disk(disk)?;
        let held = get(store)?;
        let mut store = held.write()?;
        watched((watch, user), place, |watch| store.import_commit_watched(&*disk, path, watch))
    })
}

/// Makes a store of the commits in the file `path` of `source`, in the empty folder `disk`. VARVITE_INVALID when the file
/// has another configuration than `options`, for which nothing in it vouches. `options` may be NULL: then it is Tezos'.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_create_from_commit(
    disk: *mut varvite_disk,
    options: *const varvite_store_options,
    source: *mut varvite_disk,
    path: *const c_char,
    store: *mut *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    let observer = given_observer(options);
    call(error, || {
        let (path, place) = (text(path, "path")?, Out::new(store, "store")?);
        let options = store_options(options, observer)?;
        let (disk, source) = (self::disk(disk)?, self::disk(source)?);
        place.set(put(Store::create_from_commit(disk, options, &*source, path)?.0)?);
        Ok(())
    })
}

/// Reads a file of commits, and verifies every hash in it, without a store. `watch` and `file` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_commit_file_verify(
    disk: *mut varvite_disk,
    path: *const c_char,
    watch: varvite_watch_file,
    user: *mut c_void,
    file: *mut varvite_commit_file,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (path, place) = (text(path, "path")?, wanted(file, "result")?);
        let disk = self::disk(disk)?;
        watched((watch, user), place, |watch| verify_commit_watched(&*disk, path, watch))
    })
}
