//! What a program chooses for a store, and the observer of one.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use varvite::context::{
    ChildOrder, Configuration, Cost, Durability, Index, Observer, Operation, Options,
};

use crate::args::{Out, Released, Sized32, budget, choose, files, optional, options, view};
use crate::handle::get;
use crate::recorder::recorder;
use crate::status::{Fault, Outcome, call, inner_callback, varvite_error};
use crate::types::{disk, varvite_bytes, varvite_cache, varvite_disk, varvite_recorder};

/// A commit is durable when the call returns.
pub const VARVITE_DURABILITY_SYNCED: u32 = 0;
/// A commit is durable when the system writes it out.
pub const VARVITE_DURABILITY_WRITTEN: u32 = 1;

/// A store finds commits by their hash.
pub const VARVITE_INDEX_MINIMAL: u32 = 0;
/// A store finds commits and every object.
pub const VARVITE_INDEX_ALWAYS: u32 = 1;

/// A name chooses its bucket by a seeded hash, as in the context of Tezos.
pub const VARVITE_ORDER_SEEDED_HASH: u32 = 0;
/// A name chooses its bucket by bits of its digest, as in the binary context of Tezos.
pub const VARVITE_ORDER_HASH_BITS: u32 = 1;

/// What an observer of a context is told about: `Operation::Find` of the engine.
pub const VARVITE_CONTEXT_FIND: u32 = 0;
/// What an observer of a context is told about: `Operation::Mem` of the engine.
pub const VARVITE_CONTEXT_MEM: u32 = 1;
/// What an observer of a context is told about: `Operation::MemTree` of the engine.
pub const VARVITE_CONTEXT_MEM_TREE: u32 = 2;
/// What an observer of a context is told about: `Operation::FindTree` of the engine.
pub const VARVITE_CONTEXT_FIND_TREE: u32 = 3;
/// What an observer of a context is told about: `Operation::List` of the engine.
pub const VARVITE_CONTEXT_LIST: u32 = 4;
/// What an observer of a context is told about: `Operation::Length` of the engine.
pub const VARVITE_CONTEXT_LENGTH: u32 = 5;
/// What an observer of a context is told about: `Operation::Fold` of the engine.
pub const VARVITE_CONTEXT_FOLD: u32 = 6;
/// What an observer of a context is told about: `Operation::Diff` of the engine.
pub const VARVITE_CONTEXT_DIFF: u32 = 7;
/// What an observer of a context is told about: `Operation::Merge` of the engine.
pub const VARVITE_CONTEXT_MERGE: u32 = 8;
/// What an observer of a context is told about: `Operation::Add` of the engine.
pub const VARVITE_CONTEXT_ADD: u32 = 9;
/// What an observer of a context is told about: `Operation::AddTree` of the engine.
pub const VARVITE_CONTEXT_ADD_TREE: u32 = 10;
/// What an observer of a context is told about: `Operation::Remove` of the engine.
pub const VARVITE_CONTEXT_REMOVE: u32 = 11;
/// What an observer of a context is told about: `Operation::Hash` of the engine.
pub const VARVITE_CONTEXT_HASH: u32 = 12;
/// What an observer of a context is told about: `Operation::Spill` of the engine.
pub const VARVITE_CONTEXT_SPILL: u32 = 13;
/// What an observer of a context is told about: `Operation::Checkout` of the engine.
pub const VARVITE_CONTEXT_CHECKOUT: u32 = 14;
/// What an observer of a context is told about: `Operation::Commit` of the engine.
pub const VARVITE_CONTEXT_COMMIT: u32 = 15;
/// What an observer of a context is told about: `Operation::Exists` of the engine.
pub const VARVITE_CONTEXT_EXISTS: u32 = 16;
/// What an observer of a context is told about: `Operation::Log` of the engine.
pub const VARVITE_CONTEXT_LOG: u32 = 17;
/// What an observer of a context is told about: `Operation::History` of the engine.
pub const VARVITE_CONTEXT_HISTORY: u32 = 18;
/// What an observer of a context is told about: `Operation::Branch` of the engine.
pub const VARVITE_CONTEXT_BRANCH: u32 = 19;
/// What an observer of a context is told about: `Operation::Reload` of the engine.
pub const VARVITE_CONTEXT_RELOAD: u32 = 20;
/// What an observer of a context is told about: `Operation::Checkpoint` of the engine.
pub const VARVITE_CONTEXT_CHECKPOINT: u32 = 21;
/// What an observer of a context is told about: `Operation::BeginChunk` of the engine.
pub const VARVITE_CONTEXT_BEGIN_CHUNK: u32 = 22;
/// What an observer of a context is told about: `Operation::Clear` of the engine.
pub const VARVITE_CONTEXT_CLEAR: u32 = 23;
/// What an observer of a context is told about: `Operation::Check` of the engine.
pub const VARVITE_CONTEXT_CHECK: u32 = 24;
/// What an observer of a context is told about: `Operation::RebuildIndex` of the engine.
pub const VARVITE_CONTEXT_REBUILD_INDEX: u32 = 25;
/// An operation that a later release added.
pub const VARVITE_CONTEXT_OTHER: u32 = 1000;

/// The shape of directories, on which hashes depend. NULL is that of Tezos: 32, 256, seeded hash.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_configuration {
    /// The branching factor of large directories.
    pub entries: u32,
    /// The most entries of a directory that is hashed flat.
    pub stable_hash: u32,
    /// How a name chooses its bucket: one of VARVITE_ORDER_….
    pub child_order: u32,
}

/// What an operation cost.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_cost {
    /// Bytes of the pack read from the disk.
    pub bytes_read: u64,
    /// Bytes handed to the disk.
    pub bytes_written: u64,
    /// Directory pieces found in memory.
    pub node_hits: u64,
    /// Directory pieces that were decoded.
    pub node_misses: u64,
    /// Pages of the pack found in memory.
    pub page_hits: u64,
    /// Pages of the pack that were read.
    pub page_misses: u64,
    /// Time in syncs of the pack, in nanoseconds.
    pub sync_ns: u64,
}

/// Gets the cost of every operation, timed by the program's own clock. Must not call the library.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_context_observer {
    /// The program's clock, in nanoseconds from any fixed point.
    pub now_ns: Option<unsafe extern "C" fn(user: *mut c_void) -> u64>,
    /// One of VARVITE_CONTEXT_… took `duration_ns` and `cost`; `prefix` has the first steps of the path.
    pub record: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            operation: u32,
            prefix: *const varvite_bytes,
            steps: usize,
            duration_ns: u64,
            cost: *const varvite_cost,
        ),
    >,
    /// As a `varvite_release`, for each call that was given this; may be NULL.
    pub release: Option<unsafe extern "C" fn(user: *mut c_void)>,
    /// What the callbacks get. Several threads may use it at once.
    pub user: *mut c_void,
}

/// How a store is made and used. Begin with `varvite_store_options_default`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_store_options {
    /// Bytes of this struct, as the defaults say.
    pub size: u32,
    /// The shape of directories; only used when the store is created.
    pub configuration: varvite_configuration,
    /// What the index knows: one of VARVITE_INDEX_…; only used when the store is created.
    pub index: u32,
    /// When a commit is durable: one of VARVITE_DURABILITY_….
    pub durability: u32,
    /// Memory for nodes, in bytes.
    pub objects_bytes: u64,
    /// Memory for hashes of the children of nodes, in bytes.
    pub hashes_bytes: u64,
    /// Memory for pages of the pack, in bytes, unless `cache` is given.
    pub pages_bytes: u64,
    /// Memory for the index, in bytes: write buffers, filters, merges and pages.
    pub index_bytes: u64,
    /// Bytes of changes that a working tree holds before it spills them to the pack.
    pub tree_bytes: u64,
    /// A chunk of the pack longer than this is followed by another.
    pub chunk_bytes: u64,
    /// Identity of a store that is created; 0 has the disk draw it. Only tests give one.
    pub seed: u64,
    /// A page cache to share; or NULL.
    pub cache: *mut varvite_cache,
    /// Is told of every operation; or NULL.
    pub observer: *const varvite_context_observer,
    /// The most files of the pack that are open; 0: as many as the system lets the process have.
    pub max_open_files: u64,
    /// A folder on another disk for old chunks, to which `varvite_store_archive` moves them; or NULL.
    pub lower: *mut varvite_disk,
    /// Writes down every call; or NULL.
    pub recorder: *mut varvite_recorder,
}

// SAFETY: numbers and pointers.
unsafe impl Sized32 for varvite_store_options {
    const NAME: &'static str = "store options";

    fn defaults() -> Self {
        let defaults = Options::default();
        varvite_store_options {
            size: size_of::<varvite_store_options>() as u32,
            configuration: tell_configuration(defaults.configuration),
            index: VARVITE_INDEX_MINIMAL,
            durability: VARVITE_DURABILITY_SYNCED,
            objects_bytes: defaults.objects_bytes,
            hashes_bytes: defaults.hashes_bytes,
            pages_bytes: defaults.pages_bytes,
            index_bytes: defaults.index_bytes,
            tree_bytes: defaults.tree_bytes,
            chunk_bytes: defaults.chunk_bytes,
            seed: 0,
            cache: std::ptr::null_mut(),
            observer: std::ptr::null(),
            max_open_files: 0,
            lower: std::ptr::null_mut(),
            recorder: std::ptr::null_mut(),
        }
    }
}

struct HostObserver {
    now_ns: unsafe extern "C" fn(*mut c_void) -> u64,
    record: unsafe extern "C" fn(
        *mut c_void,
        u32,
        *const varvite_bytes,
        usize,
        u64,
        *const varvite_cost,
    ),
    released: Released,
}

fn code(operation: Operation) -> u32 {
    match operation {
        Operation::Find => VARVITE_CONTEXT_FIND,
        Operation::Mem => VARVITE_CONTEXT_MEM,
        Operation::MemTree => VARVITE_CONTEXT_MEM_TREE,
        Operation::FindTree => VARVITE_CONTEXT_FIND_TREE,
        Operation::List => VARVITE_CONTEXT_LIST,
        Operation::Length => VARVITE_CONTEXT_LENGTH,
        Operation::Fold => VARVITE_CONTEXT_FOLD,
        Operation::Diff => VARVITE_CONTEXT_DIFF,
        Operation::Merge => VARVITE_CONTEXT_MERGE,
        Operation::Add => VARVITE_CONTEXT_ADD,
        Operation::AddTree => VARVITE_CONTEXT_ADD_TREE,
        Operation::Remove => VARVITE_CONTEXT_REMOVE,
        Operation::Hash => VARVITE_CONTEXT_HASH,
        Operation::Spill => VARVITE_CONTEXT_SPILL,
        Operation::Checkout => VARVITE_CONTEXT_CHECKOUT,
        Operation::Commit => VARVITE_CONTEXT_COMMIT,
        Operation::Exists => VARVITE_CONTEXT_EXISTS,
        Operation::Log => VARVITE_CONTEXT_LOG,
        Operation::History => VARVITE_CONTEXT_HISTORY,
        Operation::Branch => VARVITE_CONTEXT_BRANCH,
        Operation::Reload => VARVITE_CONTEXT_RELOAD,
        Operation::Checkpoint => VARVITE_CONTEXT_CHECKPOINT,
        Operation::BeginChunk => VARVITE_CONTEXT_BEGIN_CHUNK,
        Operation::Clear => VARVITE_CONTEXT_CLEAR,
        Operation::Check => VARVITE_CONTEXT_CHECK,
        Operation::RebuildIndex => VARVITE_CONTEXT_REBUILD_INDEX,
        _ => VARVITE_CONTEXT_OTHER,
    }
}

impl Observer for HostObserver {
    fn now_ns(&self) -> u64 {
        let user = self.released.pointer();
        // SAFETY: the program gave this function to be called with this pointer, on any thread.
        inner_callback(|| unsafe { (self.now_ns)(user) })
    }

    fn record(&self, operation: Operation, prefix: &[&[u8]], duration_ns: u64, cost: &Cost) {
        let prefix: Vec<_> = prefix.iter().map(|it| view(it)).collect();
        let cost = varvite_cost {
            bytes_read: cost.bytes_read,
            bytes_written: cost.bytes_written,
            node_hits: cost.node_hits,
            node_misses: cost.node_misses,
            page_hits: cost.page_hits,
            page_misses: cost.page_misses,
            sync_ns: cost.sync_ns,
        };
        let user = self.released.pointer();
        // SAFETY: as above; what the pointers lead to stays until it returns.
        inner_callback(|| unsafe {
            (self.record)(
                user,
                code(operation),
                prefix.as_ptr(),
                prefix.len(),
                duration_ns,
                &raw const cost,
            );
        });
    }
}

/// An observer as a program gave it, and what it gets back of it however the call ends.
pub(crate) struct GivenObserver(varvite_context_observer, Released);

/// The observer in the options of a store, taken before anything can fail.
pub(crate) fn given_observer(given: *const varvite_store_options) -> Option<GivenObserver> {
    let given = optional(options(given).ok()??.observer, "observer").ok()??;
    Some(GivenObserver(*given, Released::new(given.user, given.release)))
}

fn observer(GivenObserver(given, released): GivenObserver) -> Outcome<Arc<dyn Observer>> {
    let (Some(now_ns), Some(record)) = (given.now_ns, given.record) else {
        return Err(Fault::invalid("an observer needs now_ns and record: they are NULL"));
    };
    Ok(Arc::new(HostObserver { now_ns, record, released }))
}

/// The shape of directories that a program chose; NULL for that of Tezos.
pub(crate) fn configuration(given: *const varvite_configuration) -> Outcome<Configuration> {
    let Some(given) = optional(given, "configuration")? else { return Ok(Configuration::TEZOS) };
    let orders = [ChildOrder::SeededHash, ChildOrder::HashBits];
    let order = choose(given.child_order, &orders, "child_order")?;
    Ok(Configuration::new(given.entries, given.stable_hash, order)?)
}

/// What C sees of the shape of directories.
pub(crate) fn tell_configuration(from: Configuration) -> varvite_configuration {
    varvite_configuration {
        entries: from.entries() as u32,
        stable_hash: from.stable_hash() as u32,
        child_order: match from.child_order() {
            ChildOrder::SeededHash => VARVITE_ORDER_SEEDED_HASH,
            ChildOrder::HashBits => VARVITE_ORDER_HASH_BITS,
        },
    }
}

pub(crate) fn store_options(
    given: *const varvite_store_options,
    host: Option<GivenObserver>,
) -> Outcome<Options> {
    let Some(given) = options(given)? else { return Ok(Options::default()) };
    let cache = if given.cache.is_null() {
        None
    } else {
        let held = get(given.cache)?;
        let cache = held.read()?;
        Some(Arc::clone(&*cache))
    };
    let lower = (!given.lower.is_null()).then(|| disk(given.lower)).transpose()?;
    // One that could not be read was not taken.
    optional(given.observer, "observer")?;
    let durabilities = [Durability::Synced, Durability::Written];
    Ok(Options {
        configuration: configuration(&raw const given.configuration)?,
        index: choose(given.index, &[Index::Minimal, Index::Always], "index")?,
        durability: choose(given.durability, &durabilities, "durability")?,
        objects_bytes: budget(given.objects_bytes, "objects_bytes")?,
        hashes_bytes: budget(given.hashes_bytes, "hashes_bytes")?,
        pages_bytes: budget(given.pages_bytes, "pages_bytes")?,
        index_bytes: budget(given.index_bytes, "index_bytes")?,
        cache,
        tree_bytes: given.tree_bytes,
        observer: host.map(observer).transpose()?,
        chunk_bytes: given.chunk_bytes,
        seed: (given.seed != 0).then_some(given.seed),
        max_open_files: files(given.max_open_files),
        lower,
        recorder: recorder(given.recorder)?,
        ..Options::default()
    })
}

/// Sets the defaults of a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_options_default(
    options: *mut varvite_store_options,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        Out::new(options, "options")?.set(varvite_store_options::defaults());
        Ok(())
    })
}
