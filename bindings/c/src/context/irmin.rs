//! Stores of Irmin: read as they are, taken over, written.

use std::ffi::{c_int, c_void};

use varvite::irmin_pack::{self, Choice, Options, Verify};

use super::options::{configuration, tell_configuration, varvite_configuration};
use crate::args::{Out, Sized32, array, budget, choose, optional, options, wanted};
use crate::handle::{get, put};
use crate::status::{Answers, Outcome, call, outer_callback, varvite_error};
use crate::types::{disk, varvite_disk, varvite_hash, varvite_store};

/// Hashes every node and value the first time it is read.
pub const VARVITE_IRMIN_VERIFY_HASHES: u32 = 0;
/// Hashes values only, as Irmin does.
pub const VARVITE_IRMIN_TRUST: u32 = 1;

/// How a store of Irmin is opened. Begin with `varvite_irmin_options_default`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_irmin_options {
    /// Bytes of this struct, as the defaults say.
    pub size: u32,
    /// The shape of directories, which the folder does not say.
    pub configuration: varvite_configuration,
    /// Whether what is read is hashed again: VARVITE_IRMIN_VERIFY_HASHES or VARVITE_IRMIN_TRUST.
    pub verify: u32,
    /// The folder of the lower layer; NULL for `lower` in the store's folder.
    pub lower: *mut varvite_disk,
    /// Memory for materialised nodes, in bytes.
    pub objects_bytes: u64,
    /// Memory for pages of the files, in bytes.
    pub pages_bytes: u64,
}

// SAFETY: numbers and pointers.
unsafe impl Sized32 for varvite_irmin_options {
    const NAME: &'static str = "options of a store of Irmin";

    fn defaults() -> Self {
        let defaults = Options::default();
        varvite_irmin_options {
            size: size_of::<varvite_irmin_options>() as u32,
            configuration: tell_configuration(defaults.configuration),
            verify: VARVITE_IRMIN_VERIFY_HASHES,
            lower: std::ptr::null_mut(),
            objects_bytes: defaults.objects_bytes,
            pages_bytes: defaults.pages_bytes,
        }
    }
}

/// How far a migration is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_migrated {
    /// Commits that were copied.
    pub commits: u64,
    /// Commits that were there before.
    pub present: u64,
    /// Commits that garbage collection took.
    pub collected: u64,
    /// Commits that were found in the pack, because the index lacks them.
    pub unindexed: u64,
    /// Values that were added, changed or removed.
    pub changes: u64,
    /// Branches that were set.
    pub branches: u64,
    /// Offset of the commit that is copied now.
    pub offset: u64,
    /// Offset behind the last object of the store.
    pub end: u64,
}

/// What an export wrote.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_exported {
    /// Commits.
    pub commits: u64,
    /// Objects, commits included.
    pub objects: u64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Branches.
    pub branches: u64,
}

/// Is told how far a migration is. Anything but 0 ends it, and the call returns VARVITE_CALLBACK.
pub type varvite_watch_migration =
    Option<unsafe extern "C" fn(user: *mut c_void, migrated: *const varvite_migrated) -> c_int>;

/// Is told how far an export is. Anything but 0 ends it, and the call returns VARVITE_CALLBACK.
pub type varvite_watch_export =
    Option<unsafe extern "C" fn(user: *mut c_void, exported: *const varvite_exported) -> c_int>;

fn irmin_options(given: *const varvite_irmin_options) -> Outcome<Options> {
    let Some(given) = options(given)? else { return Ok(Options::default()) };
    let lower = (!given.lower.is_null()).then(|| disk(given.lower)).transpose()?;
    Ok(Options {
        configuration: configuration(&raw const given.configuration)?,
        lower,
        verify: choose(given.verify, &[Verify::Hashes, Verify::Trust], "verify")?,
        objects_bytes: budget(given.objects_bytes, "objects_bytes")?,
        pages_bytes: budget(given.pages_bytes, "pages_bytes")?,
        ..Options::default()
    })
}

/// Sets the defaults of a store of Irmin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_irmin_options_default(
    options: *mut varvite_irmin_options,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        Out::new(options, "options")?.set(varvite_irmin_options::defaults());
        Ok(())
    })
}

/// Whether the folder holds a store of Irmin, of any version: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_irmin_is_store(
    disk: *mut varvite_disk,
    is_store: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(is_store, "answer")?;
        place.set(c_int::from(irmin_pack::is_store(&*self::disk(disk)?)?));
        Ok(())
    })
}

/// Opens a store of Irmin to read, as of now; `varvite_store_reload` sees what another process wrote since. Writes
/// nothing. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_irmin_open(
    disk: *mut varvite_disk,
    options: *const varvite_irmin_options,
    store: *mut *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(store, "store")?;
        place.set(put(irmin_pack::open(self::disk(disk)?, &irmin_options(options)?)?)?);
        Ok(())
    })
}

/// Copies commits of the store of Irmin on `source` into `target`, and sets its branches that name one: those in
/// `commits`, or with none all; with `since` that one and those taken after it, else NULL. What `target` has is left
/// out, so an interrupted migration goes on where it was. `watch` and `migrated` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_irmin_migrate(
    source: *mut varvite_disk,
    options: *const varvite_irmin_options,
    target: *mut varvite_store,
    commits: *const varvite_hash,
    count: usize,
    since: *const varvite_hash,
    watch: varvite_watch_migration,
    user: *mut c_void,
    migrated: *mut varvite_migrated,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = wanted(migrated, "result")?;
        let (source, options) = (disk(source)?, irmin_options(options)?);
        let choice = Choice {
            commits: array(commits, count, "commits")?.iter().map(|it| it.bytes.into()).collect(),
            since: optional(since, "since")?.map(|it| it.bytes.into()),
        };
        let held = get(target)?;
        let mut target = held.write()?;
        let answers = Answers::default();
        let mut watching = |migrated: &irmin_pack::Migrated| {
            let Some(watch) = watch else { return Ok(()) };
            let migrated = tell_migrated(migrated);
            // SAFETY: the program gave this function to be called with this pointer.
            answers.check(outer_callback(|| unsafe { watch(user, &raw const migrated) }))
        };
        let outcome = irmin_pack::migrate(source, &options, &mut target, &choice, &mut watching);
        let done = answers.outcome(outcome)?;
        if let Some(place) = place {
            place.set(tell_migrated(&done));
        }
        Ok(())
    })
}

fn tell_migrated(from: &irmin_pack::Migrated) -> varvite_migrated {
    varvite_migrated {
        commits: from.commits,
        present: from.present,
        collected: from.collected,
        unindexed: from.unindexed,
        changes: from.changes,
        branches: from.branches,
        offset: from.offset,
        end: from.end,
    }
}

/// Writes every commit of `source`, with its branches, as a store of Irmin into the empty folder `target`. `scratch` is
/// an empty folder that is the caller's to remove. `watch` and `exported` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_irmin_export(
    source: *mut varvite_store,
    target: *mut varvite_disk,
    scratch: *mut varvite_disk,
    watch: varvite_watch_export,
    user: *mut c_void,
    exported: *mut varvite_exported,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = wanted(exported, "result")?;
        let (target, scratch) = (disk(target)?, disk(scratch)?);
        let held = get(source)?;
        let source = held.read()?;
        let answers = Answers::default();
        let mut watching = |exported: &irmin_pack::Exported| {
            let Some(watch) = watch else { return Ok(()) };
            let exported = tell_exported(exported);
            // SAFETY: as above.
            answers.check(outer_callback(|| unsafe { watch(user, &raw const exported) }))
        };
        let outcome = irmin_pack::export(&source, &target, &scratch, &mut watching);
        let done = answers.outcome(outcome)?;
        if let Some(place) = place {
            place.set(tell_exported(&done));
        }
        Ok(())
    })
}

fn tell_exported(from: &irmin_pack::Exported) -> varvite_exported {
    varvite_exported {
        commits: from.commits,
        objects: from.objects,
        bytes: from.bytes,
        branches: from.branches,
    }
}
