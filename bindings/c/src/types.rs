//! The types of both faces, disks, caches, and what a program asks of the library itself.

use std::ffi::{c_char, c_int};

use varvite::cache::Cache;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;

use crate::args::{Out, budget, flag, text};
use crate::handle::{put, take};
use crate::status::{Outcome, call, varvite_error};

pub use crate::arena::varvite_arena_owner;

/// The version of this interface. It grows by 1 when a program that was compiled for the one before may
/// no longer be linked; what is only added does not count.
pub const VARVITE_ABI_VERSION: u32 = 0;

/// Bytes that somebody else owns. NULL in an answer says that nothing is there; in an argument it needs
/// the length 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_bytes {
    /// Where they begin.
    pub data: *const u8,
    /// How many there are.
    pub length: usize,
}

/// A path of a context: the names from the root down.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_path {
    /// The names.
    pub steps: *const varvite_bytes,
    /// How many there are.
    pub count: usize,
}

/// A hash of a context.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct varvite_hash {
    /// BLAKE2b-256.
    pub bytes: [u8; 32],
}

/// Where files are: a folder of the system, or memory.
pub struct varvite_disk {
    _nothing: [u8; 0],
}

/// Memory for pages that sessions and stores share.
pub struct varvite_cache {
    _nothing: [u8; 0],
}

/// A trace that is being recorded.
pub struct varvite_recorder {
    _nothing: [u8; 0],
}

/// A piece of merging that an executor was given.
pub struct varvite_work {
    _nothing: [u8; 0],
}

/// A folder of tables, open.
pub struct varvite_session {
    _nothing: [u8; 0],
}

/// A merge operator: how upserts join older values.
pub struct varvite_operator {
    _nothing: [u8; 0],
}

/// A table, with one writer at a time.
pub struct varvite_table {
    _nothing: [u8; 0],
}

/// A table's content at one moment, for readers that never wait for the writer.
pub struct varvite_view {
    _nothing: [u8; 0],
}

/// A place between the keys of a table.
pub struct varvite_cursor {
    _nothing: [u8; 0],
}

/// A range of a table, from both ends.
pub struct varvite_iterator {
    _nothing: [u8; 0],
}

/// The live tables of a session that another process writes.
pub struct varvite_follower {
    _nothing: [u8; 0],
}

/// An open snapshot.
pub struct varvite_snapshot {
    _nothing: [u8; 0],
}

/// A table that is being loaded.
pub struct varvite_loader {
    _nothing: [u8; 0],
}

/// A value that was found and not read yet.
pub struct varvite_value {
    _nothing: [u8; 0],
}

/// A value that comes in pieces.
pub struct varvite_value_writer {
    _nothing: [u8; 0],
}

/// Tables of a session that threads share.
pub struct varvite_tables {
    _nothing: [u8; 0],
}

/// An update in the making of shared tables.
pub struct varvite_transaction {
    _nothing: [u8; 0],
}

/// A reading of everything that a session keeps, under way.
pub struct varvite_scrub {
    _nothing: [u8; 0],
}

/// What a store has, for threads that read while it commits.
pub struct varvite_reader {
    _nothing: [u8; 0],
}

/// A context store.
pub struct varvite_store {
    _nothing: [u8; 0],
}

/// A state of a context: a tree of values.
pub struct varvite_tree {
    _nothing: [u8; 0],
}

/// A proof of what a context holds.
pub struct varvite_proof {
    _nothing: [u8; 0],
}

/// The interface's version in the library, to be compared with VARVITE_ABI_VERSION of the header.
#[unsafe(no_mangle)]
pub extern "C" fn varvite_abi_version() -> u32 {
    VARVITE_ABI_VERSION
}

/// The library's release, as "0.1.0". Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn varvite_library_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The name of a status, as "corrupt"; "unknown" for what is none. Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn varvite_status_name(status: c_int) -> *const c_char {
    let name = match status {
        0 => c"ok",
        1 => c"io",
        2 => c"corrupt",
        3 => c"version",
        4 => c"locked",
        5 => c"missing",
        6 => c"exists",
        7 => c"invalid",
        8 => c"closed",
        9 => c"poisoned",
        10 => c"hidden",
        crate::status::VARVITE_COLLECTED => c"collected",
        crate::status::VARVITE_CALLBACK => c"callback",
        crate::status::VARVITE_PANIC => c"panic",
        crate::status::VARVITE_BUSY => c"busy",
        _ => c"unknown",
    };
    name.as_ptr()
}

/// A folder as a disk. With `create` it is made, and those above it; without, a folder that is missing
/// is VARVITE_MISSING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_disk_folder(
    folder: *const c_char,
    create: c_int,
    disk: *mut *mut varvite_disk,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (folder, disk) = (text(folder, "folder")?, Out::new(disk, "disk")?);
        let found =
            if flag(create, "create")? { OsDisk::create(folder) } else { OsDisk::new(folder) };
        disk.set(put(found? as std::sync::Arc<dyn Disk>)?);
        Ok(())
    })
}

/// A disk in memory, gone with its last user. What is drawn at random on a disk follows from `seed`, so the
/// same operations give the same bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_disk_memory(
    seed: u64,
    disk: *mut *mut varvite_disk,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let disk = Out::new(disk, "disk")?;
        disk.set(put(MemoryDisk::seeded(seed) as std::sync::Arc<dyn Disk>)?);
        Ok(())
    })
}

/// Closes a disk. Sessions and stores on it stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_disk_close(
    disk: *mut varvite_disk,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(disk).map(drop))
}

/// A cache of at most so many bytes. VARVITE_INVALID for more than the memory of the machine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cache_new(
    budget_bytes: u64,
    cache: *mut *mut varvite_cache,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let cache = Out::new(cache, "cache")?;
        cache.set(put(Cache::new(budget(budget_bytes, "budget_bytes")?))?);
        Ok(())
    })
}

/// What a cache did and holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_cache_stats {
    /// Lookups that found their page.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Pages that gave way to others.
    pub evictions: u64,
    /// Pages held now.
    pub pages: u64,
    /// Bytes taken now.
    pub bytes: u64,
    /// Bytes that sessions and stores charged for what they keep beside the pages.
    pub charged_bytes: u64,
}

/// What a cache did and holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cache_get_stats(
    cache: *mut varvite_cache,
    stats: *mut varvite_cache_stats,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(stats, "statistics")?;
        let held = crate::handle::get(cache)?;
        let from = held.read()?.stats();
        place.set(varvite_cache_stats {
            hits: from.hits,
            misses: from.misses,
            evictions: from.evictions,
            pages: from.pages,
            bytes: from.bytes,
            charged_bytes: from.charged_bytes,
        });
        Ok(())
    })
}

/// Closes a cache. Who shares it keeps it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cache_close(
    cache: *mut varvite_cache,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(cache).map(drop))
}

/// Writes a hash as people see it, `Co…`, 52 characters and NUL into `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_hash_text(
    hash: *const varvite_hash,
    text: *mut c_char,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let hash = crate::args::one(hash, "hash")?;
        let to = Out::new(text.cast::<[u8; 53]>(), "text")?;
        let written = varvite::context::hash::to_text(&hash.bytes);
        let mut bytes = [0; 53];
        bytes[..written.len()].copy_from_slice(written.as_bytes());
        to.set(bytes);
        Ok(())
    })
}

/// Reads a hash from its text, `Co…`, or from 64 hex digits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_hash_parse(
    text: *const c_char,
    hash: *mut varvite_hash,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (text, hash) = (crate::args::text(text, "text")?, Out::new(hash, "hash")?);
        hash.set(varvite_hash { bytes: varvite::context::hash::from_text(text)? });
        Ok(())
    })
}

/// The state of the disk a handle stands for.
pub(crate) fn disk(handle: *const varvite_disk) -> Outcome<std::sync::Arc<dyn Disk>> {
    let held = crate::handle::get(handle)?;
    let disk = held.read()?;
    Ok(std::sync::Arc::clone(&*disk))
}
