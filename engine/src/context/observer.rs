//! What a host is told of every operation: how long it took, and what it cost.
//!
//! The trait is of one style with the table's [`crate::Observer`]: the host's clock, and one call a
//! finished operation. Without an observer nothing is counted.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use super::hash::CommitHash;
use crate::sync::{AtomicU64, Ordering};

/// How many first steps of a path an observer gets at most.
pub const PREFIX_STEPS: usize = 6;

/// What an [`Observer`] is told about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// `Tree::find`
    Find,
    /// `Tree::mem`
    Mem,
    /// `Tree::mem_tree`
    MemTree,
    /// `Tree::find_tree`
    FindTree,
    /// `Tree::list`
    List,
    /// `Tree::length`
    Length,
    /// `Tree::fold`, with all that its callback does.
    Fold,
    /// `Tree::diff`, with all that its callback does.
    Diff,
    /// `Tree::merge`, with all that its callback does; those of `Store::merge_commits` too: one, and one more, with its own
    /// changes, for each further base where histories cross.
    Merge,
    /// `Tree::add`
    Add,
    /// `Tree::add_tree`
    AddTree,
    /// `Tree::remove`
    Remove,
    /// `Tree::hash`, `Store::hash` and `Tree::equal`: what a commit or a merge hashes is part of that.
    Hash,
    /// Part of a working tree written out because it outgrew its memory, inside of a change.
    Spill,
    /// `Store::checkout`
    Checkout,
    /// `Store::commit`, with the hashing of its tree.
    Commit,
    /// `Store::exists`, `Store::find_object`
    Exists,
    /// `Store::log`, `Store::log_before`
    Log,
    /// `Store::history`, `Store::lowest_common_ancestors`, that of `Store::merge_commits` too, and `Store::commits_between`.
    History,
    /// `Store::set_branch`, `Store::remove_branch`
    Branch,
    /// `Store::reload`
    Reload,
    /// `Store::checkpoint`, that of `Store::maintain` too. What a commit does of one is part of the commit.
    Checkpoint,
    /// `Store::begin_chunk`, that of `Store::maintain` too. What a commit begins is part of the commit.
    BeginChunk,
    /// `Store::clear`
    Clear,
    /// `Store::check`
    Check,
    /// `Store::rebuild_index`
    RebuildIndex,
    /// `Store::commit_info`
    CommitInfo,
    /// `Store::collect`, `Store::collect_keeping`, and what pauses, resumes or cancels a collection.
    Collect,
    /// `Store::collect_step`
    CollectStep,
    /// `Store::pin`, `Store::pin_every`, `Store::unpin`
    Pin,
    /// `Store::archive`
    Archive,
    /// `Store::unarchive`
    Unarchive,
    /// `Store::attach`
    Attach,
    /// `Store::export_commits`: snapshots of commits, with the reads of them.
    Export,
    /// `Store::import_commit`, with the commits that it makes.
    Import,
}

/// What an operation cost. When several threads use one store at once, each operation is told what
/// all of them did meanwhile. Pieces of directories are told of when an operation ends: all of those that one on
/// another thread looked at count for each that is under way then, and for no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Bytes of the pack read from the disk.
    pub bytes_read: u64,
    /// Bytes handed to the disk: pack, control file, index.
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

/// Gets the cost of every operation, timed by the host's own clock.
///
/// It is called on the thread that called the engine, so it should be quick. Operations inside of
/// others are told too, before the outer one.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Instant;
/// use varvite::context::{CommitInfo, Cost, Observer, Operation, Options, Store};
/// use varvite::disk::memory::MemoryDisk;
///
/// struct Slowest(Instant, Mutex<(u64, Option<Operation>)>);
///
/// impl Observer for Slowest {
///     fn now_ns(&self) -> u64 {
///         self.0.elapsed().as_nanos() as u64
///     }
///     fn record(&self, operation: Operation, _: &[&[u8]], duration_ns: u64, _: &Cost) {
///         let mut slowest = self.1.lock().unwrap();
///         if duration_ns >= slowest.0 {
///             *slowest = (duration_ns, Some(operation));
///         }
///     }
/// }
///
/// let observer = Arc::new(Slowest(Instant::now(), Mutex::default()));
/// let options = Options { observer: Some(observer.clone()), ..Options::default() };
/// let mut store = Store::create(MemoryDisk::seeded(1), options)?;
/// let mut tree = store.empty_tree();
/// tree.add(&["data", "version"], b"genesis")?;
/// store.commit(&mut tree, &CommitInfo::default())?;
/// assert!(observer.1.lock().unwrap().1.is_some());
/// # Ok::<(), varvite::Error>(())
/// ```
pub trait Observer: Send + Sync {
    /// The host's clock, in nanoseconds from any fixed point.
    fn now_ns(&self) -> u64;

    /// How many first steps of a path [`Observer::record`] is told, up to [`PREFIX_STEPS`], which it is without this. Asked once,
    /// by each store that has the observer.
    fn prefix_steps(&self) -> usize {
        PREFIX_STEPS
    }

    /// `operation` took `duration_ns` and `cost`. `prefix` has the first steps of the path, as given to the tree that was asked, up
    /// to [`prefix_steps`](Observer::prefix_steps); none for operations of a store, save a branch's name.
    fn record(&self, operation: Operation, prefix: &[&[u8]], duration_ns: u64, cost: &Cost);

    /// `operation` has begun, which runs what the host gives it: a fold, a diff or a merge. What this thread does until
    /// [`Observer::record`] is told of it is within it. It is not told of others that run it, as the watch of an export: that
    /// is in their time.
    fn begun(&self, operation: Operation) {
        let _ = operation;
    }

    /// The store has `commit`, of which [`Operation::Commit`] is told next: a name for what was told
    /// since the commit before.
    fn committed(&self, commit: &CommitHash) {
        let _ = commit;
    }
}

/// An observer and what is counted for it.
pub(crate) struct Meter {
    observer: Arc<dyn Observer>,
    prefix_steps: usize,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) node_hits: AtomicU64,
    pub(crate) node_misses: AtomicU64,
    pub(crate) page_hits: AtomicU64,
    pub(crate) page_misses: AtomicU64,
    pub(crate) sync_ns: AtomicU64,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meter({:?})", self.cost())
    }
}

impl Meter {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Arc<Meter> {
        let zero = || AtomicU64::new(0);
        Arc::new(Meter {
            prefix_steps: observer.prefix_steps().min(PREFIX_STEPS),
            observer,
            bytes_read: zero(),
            bytes_written: zero(),
            node_hits: zero(),
            node_misses: zero(),
            page_hits: zero(),
            page_misses: zero(),
            sync_ns: zero(),
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.observer.now_ns()
    }

    pub(crate) fn committed(&self, commit: &CommitHash) {
        self.observer.committed(commit);
    }

    fn cost(&self) -> Cost {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Cost {
            bytes_read: read(&self.bytes_read),
            bytes_written: read(&self.bytes_written),
            node_hits: read(&self.node_hits),
            node_misses: read(&self.node_misses),
            page_hits: read(&self.page_hits),
            page_misses: read(&self.page_misses),
            sync_ns: read(&self.sync_ns),
        }
    }
}

/// The package for JavaScript has no observers, so that nothing is left there of what is counted for them.
#[cfg_attr(varvite_js, inline(always))]
#[cfg_attr(not(varvite_js), inline)]
pub(crate) fn observing<M>(meter: Option<M>) -> Option<M> {
    if cfg!(varvite_js) { None } else { meter }
}

/// Adds to a counter of `meter`, if there is one.
#[inline]
pub(crate) fn count(
    meter: Option<&Arc<Meter>>,
    counter: impl FnOnce(&Meter) -> &AtomicU64,
    by: u64,
) {
    if let Some(meter) = observing(meter) {
        counter(meter).fetch_add(by, Ordering::Relaxed);
    }
}

/// Directory pieces that one operation looks at, counted by the thread that runs it alone: an addition that others
/// must see takes as long as a look at a piece. The meter gets them when the operation ends.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    hits: Cell<u64>,
    misses: Cell<u64>,
}

impl Tally {
    fn tell(&self, meter: &Meter) {
        for (own, shared) in [(&self.hits, &meter.node_hits), (&self.misses, &meter.node_misses)] {
            let count = own.take();
            if count > 0 {
                shared.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

/// Counts a directory piece that was found in memory, for the operation that has `tally`, or for all of `meter`.
/// Without a meter there is no tally.
#[inline]
pub(crate) fn count_hit(meter: Option<&Arc<Meter>>, tally: Option<&Tally>) {
    let Some(meter) = observing(meter) else { return };
    match tally {
        Some(tally) => tally.hits.set(tally.hits.get() + 1),
        None => {
            meter.node_hits.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The same of one that was decoded.
#[inline]
pub(crate) fn count_miss(meter: Option<&Arc<Meter>>, tally: Option<&Tally>) {
    let Some(meter) = observing(meter) else { return };
    match tally {
        Some(tally) => tally.misses.set(tally.misses.get() + 1),
        None => {
            meter.node_misses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An operation under way on a path of `S`; the observer is told when it is dropped. `M` is a meter, borrowed or
/// shared.
pub(crate) struct Span<'a, M: Borrow<Meter> = Arc<Meter>, S: AsRef<[u8]> = &'static [u8]> {
    meter: M,
    operation: Operation,
    path: &'a [S],
    start_ns: u64,
    before: Cost,
    tally: Tally,
}

impl<'a, M: Borrow<Meter>, S: AsRef<[u8]>> Span<'a, M, S> {
    #[cfg_attr(varvite_js, inline(always))]
    #[cfg_attr(not(varvite_js), inline)]
    pub(crate) fn begin(
        meter: Option<M>,
        operation: Operation,
        path: &'a [S],
    ) -> Option<Span<'a, M, S>> {
        observing(meter).map(|meter| {
            let counted: &Meter = meter.borrow();
            if matches!(operation, Operation::Fold | Operation::Diff | Operation::Merge) {
                counted.observer.begun(operation);
            }
            let (before, start_ns) = (counted.cost(), counted.now_ns());
            Span { meter, operation, path, start_ns, before, tally: Tally::default() }
        })
    }

    /// What the operation counts by itself.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl<M: Borrow<Meter>, S: AsRef<[u8]>> Drop for Span<'_, M, S> {
    fn drop(&mut self) {
        let Some(meter) = observing(Some::<&Meter>(self.meter.borrow())) else { return };
        let duration_ns = meter.now_ns().saturating_sub(self.start_ns);
        self.tally.tell(meter);
        let (after, before) = (meter.cost(), &self.before);
        let cost = Cost {
            bytes_read: after.bytes_read - before.bytes_read,
            bytes_written: after.bytes_written - before.bytes_written,
            node_hits: after.node_hits - before.node_hits,
            node_misses: after.node_misses - before.node_misses,
            page_hits: after.page_hits - before.page_hits,
            page_misses: after.page_misses - before.page_misses,
            sync_ns: after.sync_ns - before.sync_ns,
        };
        let mut prefix: [&[u8]; PREFIX_STEPS] = [&[]; PREFIX_STEPS];
        let prefix = &mut prefix[..self.path.len().min(meter.prefix_steps)];
        prefix.iter_mut().zip(self.path).for_each(|(to, step)| *to = step.as_ref());
        meter.observer.record(self.operation, prefix, duration_ns, &cost);
    }
}
