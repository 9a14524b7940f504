//! Handles: numbers in the shape of pointers, which lead to what they stand for by a table of slots.
//!
//! Nobody follows such a pointer. A number names a slot and the slot's generation, so one that was closed,
//! or never given, is an error and not undefined behaviour. The bits, from the lowest:
//! 1 that is always set, so that no handle is NULL or the address of anything; 4 of the shard; 23 of the
//! slot; 30 of the generation; 6 of how often the process had forked.
//!
//! A call holds what a handle stands for by a count, so closing on one thread while another is in a
//! call is safe: the close waits for the call.

use std::any::TypeId;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use crate::status::{Fault, Outcome, in_callback};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles have 64 bits, so the C face needs a system of 64 bits");

const SHARD_BITS: u32 = 4;
const INDEX_BITS: u32 = 23;
const GENERATION_BITS: u32 = 30;
const FORK_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;

/// What a handle stands for. Readers share it; `None` once it is closed.
pub struct Held<T>(RwLock<Option<T>>);

/// A lock that this thread has: a nested call, from a callback, must not wait for it.
#[derive(Clone, Copy)]
struct Mine {
    lock: *const (),
    /// What the lock guards, to be read once more while it is read.
    data: *const (),
    writes: bool,
}

thread_local! {
    /// The locks of this thread's calls: of the one that runs, and of those whose callbacks it runs in.
    static MINE: RefCell<Vec<Mine>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a lock in the list as long as it lives. What calls when its thread is as good as over has no list, and no
/// callback that it could be nested in.
struct Listed(*const ());

impl Listed {
    fn new(mine: Mine) -> Listed {
        let _ = MINE.try_with(|it| it.borrow_mut().push(mine));
        Listed(mine.lock)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let _ = MINE.try_with(|it| {
            let mut mine = it.borrow_mut();
            if let Some(index) = mine.iter().rposition(|it| it.lock == self.0) {
                mine.remove(index);
            }
        });
    }
}

impl<T: 'static> Held<T> {
    fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// This lock in the list of this thread.
    fn mine(&self) -> Option<Mine> {
        let find = |it: &RefCell<Vec<Mine>>| {
            it.borrow().iter().rfind(|it| it.lock == self.address()).copied()
        };
        MINE.try_with(find).ok().flatten()
    }

    /// Whether this thread may wait for another. It may unless its own caller has a store, and it needs another store:
    /// who has that may be in a callback that waits for the first. For anything else it may, because who waits for a
    /// store has nothing else meanwhile.
    fn may_wait() -> bool {
        let is_store = TypeId::of::<T>() == TypeId::of::<varvite::context::Store>();
        !is_store || !in_callback() || MINE.try_with(|it| it.borrow().is_empty()).unwrap_or(true)
    }

    /// Shared use of it. Waits for others that change it.
    pub fn read(&self) -> Outcome<Reading<'_, T>> {
        let shared = match self.mine() {
            Some(mine) if mine.writes => return Err(in_use()),
            // SAFETY: a call of this thread that is not over, and in whose callback this one is, reads it under the
            // lock. To lock it again could be to wait for ever, when a writer waits in between.
            Some(mine) => Shared::Again(unsafe { &*mine.data.cast::<Option<T>>() }),
            None if Self::may_wait() => {
                // What a panic left is what the engine promises after one, so poison says nothing.
                self.locked(self.0.read().unwrap_or_else(PoisonError::into_inner))
            }
            None => match self.0.try_read() {
                Ok(guard) => self.locked(guard),
                Err(TryLockError::Poisoned(poisoned)) => self.locked(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => return Err(Fault::Busy),
            },
        };
        if shared.get().is_some() { Ok(Reading(shared)) } else { Err(closed()) }
    }

    fn locked<'a>(&self, guard: RwLockReadGuard<'a, Option<T>>) -> Shared<'a, T> {
        let data = std::ptr::from_ref(&*guard).cast();
        let listed = Listed::new(Mine { lock: self.address(), data, writes: false });
        Shared::Locked(guard, listed)
    }

    /// Sole use of it; waits for all others.
    pub fn write(&self) -> Outcome<Writing<'_, T>> {
        let writing = self.lock()?;
        if writing.guard.is_some() { Ok(writing) } else { Err(closed()) }
    }

    fn lock(&self) -> Outcome<Writing<'_, T>> {
        if self.mine().is_some() {
            return Err(in_use());
        }
        let guard = if Self::may_wait() {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        } else {
            match self.0.try_write() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Err(Fault::Busy),
            }
        };
        let mine = Mine { lock: self.address(), data: std::ptr::null(), writes: true };
        Ok(Writing { guard, _listed: Listed::new(mine) })
    }
}

/// Whether this thread may wait for one that has something of the program's for long, as a transaction is. It may not when
/// its own caller has a store: whoever is waited for may be waiting for that.
pub fn may_wait() -> bool {
    !in_callback() || MINE.try_with(|it| it.borrow().is_empty()).unwrap_or(true)
}

fn in_use() -> Fault {
    Fault::invalid(
        "a callback uses a handle that the call which called it is using: use a duplicate or a view, or return \
         first",
    )
}

fn closed() -> Fault {
    Fault::closed("the handle was closed: open it again")
}

enum Shared<'a, T> {
    Locked(RwLockReadGuard<'a, Option<T>>, #[expect(dead_code, reason = "for its drop")] Listed),
    Again(&'a Option<T>),
}

impl<T> Shared<'_, T> {
    #[inline]
    fn get(&self) -> Option<&T> {
        match self {
            Shared::Locked(guard, _) => guard.as_ref(),
            Shared::Again(found) => found.as_ref(),
        }
    }
}

/// Shared use.
pub struct Reading<'a, T>(Shared<'a, T>);

impl<T> Deref for Reading<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.get().expect("checked when it was locked")
    }
}

/// Sole use.
pub struct Writing<'a, T> {
    guard: RwLockWriteGuard<'a, Option<T>>,
    _listed: Listed,
}

impl<T> Deref for Writing<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("checked when it was locked")
    }
}

impl<T> DerefMut for Writing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("checked when it was locked")
    }
}

/// A kind of handle: the opaque type that C sees, and what it stands for.
pub trait Handle: Sized {
    type State: Send + Sync + 'static;
    const NAME: &'static str;
    fn wrap(held: Arc<Held<Self::State>>) -> Object;
    fn of(object: &Object) -> Option<&Arc<Held<Self::State>>>;
}

/// Declares the kinds: `name of the C type, name in sentences, variant, state;`.
macro_rules! handles {
    ($($(#[$doc:meta])* $type:ident, $name:literal, $variant:ident, $state:ty;)*) => {
        /// Whatever a slot holds.
        #[derive(Clone)]
        pub enum Object {
            $($variant(Arc<Held<$state>>),)*
        }

        impl Object {
            fn name(&self) -> &'static str {
                match self {
                    $(Object::$variant(_) => $name,)*
                }
            }
        }

        $(impl Handle for crate::types::$type {
            type State = $state;
            const NAME: &'static str = $name;
            fn wrap(held: Arc<Held<$state>>) -> Object {
                Object::$variant(held)
            }
            fn of(object: &Object) -> Option<&Arc<Held<$state>>> {
                if let Object::$variant(held) = object { Some(held) } else { None }
            }
        })*
    };
}

handles! {
    varvite_disk, "disk", Disk, Arc<dyn varvite::disk::Disk>;
    varvite_cache, "cache", Cache, Arc<varvite::cache::Cache>;
    varvite_recorder, "recorder", Recorder, Arc<varvite::trace::Recorder>;
    varvite_work, "work", Work, crate::table::observer::Work;
    varvite_session, "session", Session, varvite::Session;
    varvite_operator, "operator", Operator, varvite::MergeOperator;
    varvite_table, "table", Table, crate::table::update::WritableTable;
    varvite_view, "view", View, varvite::View;
    varvite_cursor, "cursor", Cursor, std::sync::Mutex<crate::table::cursor::Place>;
    varvite_iterator, "iterator", Iterator, std::sync::Mutex<crate::table::iterator::Ends>;
    varvite_follower, "follower", Follower, std::sync::Mutex<varvite::Follower>;
    varvite_snapshot, "snapshot", Snapshot, std::sync::Mutex<varvite::Snapshot>;
    varvite_loader, "loader", Loader, std::sync::Mutex<varvite::Loader>;
    varvite_value, "value", Value, varvite::Value;
    varvite_value_writer, "value writer", ValueWriter, std::sync::Mutex<varvite::ValueWriter>;
    varvite_tables, "shared handle", Tables, crate::table::shared::Shared;
    varvite_transaction, "transaction", Transaction, std::sync::Mutex<crate::table::shared::Owned>;
    varvite_scrub, "scrub", Scrub, std::sync::Mutex<varvite::table::scrub::Scrub>;
    varvite_store, "store", Store, varvite::context::Store;
    varvite_reader, "reader", Reader, varvite::context::Reader;
    varvite_tree, "tree", Tree, varvite::context::Tree;
    varvite_proof, "proof", Proof, varvite::proof::Proof;
    varvite_arena_owner, "arena", Arena, crate::arena::Memory;
}

#[derive(Default)]
struct Slot {
    /// Of what is in it, or of what comes next. Odd never means anything; it only grows.
    generation: u32,
    object: Option<Object>,
}

#[derive(Default)]
#[repr(align(128))] // no two shards in one cache line
struct Shard(RwLock<Slots>);

#[derive(Default)]
struct Slots {
    all: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Registry {
    shards: [Shard; SHARDS],
    next: AtomicUsize,
}

/// The slots of this process. A fork sets it to NULL in the child, where locks may be held for ever by
/// threads that are not there, and where what the slots hold must not be dropped: locks and files are
/// the parent's. The child's first handle makes another.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

/// The slots of the processes that this one descends from, kept here so that nobody takes them for lost memory.
/// Nothing reads it, so the compiler must be told that somebody might.
#[used]
static LEFT: [AtomicPtr<Registry>; 1 << FORK_BITS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 1 << FORK_BITS];

/// How often the process had forked when it began, counted from the first that used the library.
static FORKS: AtomicU32 = AtomicU32::new(0);

static WATCH: Once = Once::new();

/// Sees to it that a child process knows that it is one.
pub fn watch_forks() {
    extern "C" fn in_child() {
        let forks = FORKS.fetch_add(1, Ordering::Relaxed) as usize;
        let left = REGISTRY.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // Behind the last place there is no handle, so there are no slots either.
        if let Some(place) = LEFT.get(forks) {
            place.store(left, Ordering::Relaxed);
        }
    }
    WATCH.call_once(|| {
        // SAFETY: the handler only changes atomics, which is allowed in a child of several threads.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(failed, 0, "the system has no memory for a fork handler");
    });
}

/// Watches from the moment on that the library is loaded: a first call that another thread forks in the middle of would
/// leave the child with a handler half registered, for which its own first call waited for ever.
#[used]
#[cfg_attr(any(target_os = "linux", target_os = "android"), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
static AT_LOADING: extern "C" fn() = {
    extern "C" fn at_loading() {
        watch_forks();
    }
    at_loading
};

/// How often the process had forked when it began.
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// The number of forks in the handles of this process.
fn forks_in_handles() -> Outcome<u32> {
    let forks = forks();
    if forks >= 1 << FORK_BITS {
        return Err(Fault::invalid(format!(
            "this process is the last of {forks} forks, one from the other, and handles count {} at most: call exec \
             in between",
            (1 << FORK_BITS) - 1
        )));
    }
    Ok(forks)
}

fn registry() -> &'static Registry {
    let found = REGISTRY.load(Ordering::Acquire);
    let found = if found.is_null() { make_registry() } else { found };
    // SAFETY: a registry is leaked when it is made, so it lives as long as the process.
    unsafe { &*found }
}

#[cold]
fn make_registry() -> *mut Registry {
    let new = Box::into_raw(Box::<Registry>::default());
    let null = std::ptr::null_mut();
    match REGISTRY.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(found) => {
            // SAFETY: `new` came from a box just now, and nobody else has it.
            drop(unsafe { Box::from_raw(new) });
            found
        }
    }
}

/// A handle's parts.
struct Place {
    shard: usize,
    index: usize,
    generation: u32,
    forks: u32,
}

impl Place {
    fn number(&self) -> usize {
        let mut number = self.forks as usize & ((1 << FORK_BITS) - 1);
        number = number << GENERATION_BITS | self.generation as usize;
        number = number << INDEX_BITS | self.index;
        number = number << SHARD_BITS | self.shard;
        number << 1 | 1
    }

    fn of(number: usize) -> Option<Place> {
        if number & 1 == 0 {
            return None;
        }
        let mut rest = number >> 1;
        let mut take = |bits: u32| {
            let part = rest & ((1 << bits) - 1);
            rest >>= bits;
            part
        };
        Some(Place {
            shard: take(SHARD_BITS),
            index: take(INDEX_BITS),
            generation: take(GENERATION_BITS) as u32,
            forks: take(FORK_BITS) as u32,
        })
    }

    /// What is there, or why not.
    fn check<'a>(&self, slots: &'a Slots, name: &str) -> Outcome<&'a Object> {
        let slot = slots.all.get(self.index).ok_or_else(|| foreign(name))?;
        if slot.generation == self.generation {
            return slot.object.as_ref().ok_or_else(|| foreign(name));
        }
        if slot.generation < self.generation {
            return Err(foreign(name));
        }
        Err(Fault::closed(format!("the handle of a {name} was closed: open it again")))
    }
}

#[cold]
fn foreign(name: &str) -> Fault {
    Fault::invalid(format!(
        "what was given for a {name} is no handle of varvite: pass what a function of varvite gave"
    ))
}

/// The place of a handle of this process.
fn place<H: Handle>(handle: *const H) -> Outcome<Place> {
    if handle.is_null() {
        let name = H::NAME;
        return Err(Fault::invalid(format!("the handle of a {name} is NULL: open it first")));
    }
    let place = Place::of(handle.addr()).ok_or_else(|| foreign(H::NAME))?;
    if place.forks != forks() {
        return Err(Fault::closed(format!(
            "the handle of a {} belongs to the process that this one was forked from: open it here, \
             when that process has closed it",
            H::NAME
        )));
    }
    Ok(place)
}

fn shard(place: &Place) -> &'static RwLock<Slots> {
    &registry().shards[place.shard].0
}

/// What a handle stands for.
pub fn get<H: Handle>(handle: *const H) -> Outcome<Arc<Held<H::State>>> {
    let place = place(handle)?;
    let slots = shard(&place).read().unwrap_or_else(PoisonError::into_inner);
    let object = place.check(&slots, H::NAME)?;
    match H::of(object) {
        Some(held) => Ok(Arc::clone(held)),
        None => Err(Fault::invalid(format!(
            "the handle of a {} was given for one of a {}",
            object.name(),
            H::NAME
        ))),
    }
}

/// Whether a handle is of a process that this one descends from.
pub fn is_inherited<H: Handle>(handle: *const H) -> bool {
    Place::of(handle.addr()).is_some_and(|place| place.forks < forks())
}

/// A new handle.
pub fn put<H: Handle>(state: H::State) -> Outcome<*mut H> {
    let forks = forks_in_handles()?;
    let object = H::wrap(Arc::new(Held(RwLock::new(Some(state)))));
    let registry = registry();
    let shard = registry.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
    let mut slots = registry.shards[shard].0.write().unwrap_or_else(PoisonError::into_inner);
    let index = match slots.free.pop() {
        Some(index) => index as usize,
        None if slots.all.len() < 1 << INDEX_BITS => {
            // The first generation is 1, so that few numbers are handles by chance.
            slots.all.push(Slot { generation: 1, object: None });
            slots.all.len() - 1
        }
        None => return Err(Fault::invalid("too many handles are open: close some")),
    };
    let slot = &mut slots.all[index];
    slot.object = Some(object);
    let number = Place { shard, index, generation: slot.generation, forks }.number();
    Ok(std::ptr::without_provenance_mut(number))
}

/// Closes a handle and gives what it stood for. Waits for calls that use it.
pub fn take<H: Handle>(handle: *const H) -> Outcome<H::State> {
    let held = get(handle)?;
    let mut writing = held.lock()?;
    let state = writing.guard.take().ok_or_else(closed)?;
    drop(writing);
    give_up(handle)?;
    Ok(state)
}

/// Closes handles and gives `body` what they stood for, in their order. What comes back with an error is put where it was,
/// as if nothing had been closed. Waits for calls that use them; none may be given twice.
pub fn take_all<H: Handle, T>(
    handles: &[*mut H],
    body: impl FnOnce(Vec<H::State>) -> Result<T, (Fault, Vec<H::State>)>,
) -> Outcome<T> {
    // Who locks several does so in the order of their handles.
    let mut order: Vec<usize> = (0..handles.len()).collect();
    order.sort_by_key(|at| handles[*at].addr());
    let held = order.iter().map(|at| get(handles[*at])).collect::<Outcome<Vec<_>>>()?;
    let mut locks = held.iter().map(|it| it.write()).collect::<Outcome<Vec<_>>>()?;
    let mut states: Vec<Option<H::State>> = handles.iter().map(|_| None).collect();
    for (lock, at) in locks.iter_mut().zip(&order) {
        states[*at] = lock.guard.take();
    }
    match body(states.into_iter().flatten().collect()) {
        Ok(done) => {
            drop(locks);
            handles.iter().try_for_each(|it| give_up(*it))?;
            Ok(done)
        }
        Err((fault, states)) => {
            let mut states: Vec<_> = states.into_iter().map(Some).collect();
            for (lock, at) in locks.iter_mut().zip(&order) {
                *lock.guard = states.get_mut(*at).and_then(Option::take);
            }
            Err(fault)
        }
    }
}

/// Makes a handle an old one that stands for nothing any more.
fn give_up<H: Handle>(handle: *const H) -> Outcome {
    let place = place(handle)?;
    let mut slots = shard(&place).write().unwrap_or_else(PoisonError::into_inner);
    let slot = &mut slots.all[place.index];
    slot.object = None;
    slot.generation += 1;
    // A slot whose generations are used up rests for ever.
    if slot.generation < (1 << GENERATION_BITS) - 1 {
        slots.free.push(place.index as u32);
    }
    Ok(())
}

/// A handle that is closed when it goes out of scope: what a callback gets for its time.
pub struct Lent<H: Handle>(pub *mut H);

impl<H: Handle> Lent<H> {
    pub fn new(state: H::State) -> Outcome<Lent<H>> {
        Ok(Lent(put(state)?))
    }

    /// Leaves it open: the program has it from now on.
    pub fn keep(self) -> *mut H {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl<H: Handle> Drop for Lent<H> {
    fn drop(&mut self) {
        // The callback may have closed it, which is its right. Nobody waits in vain: what is lent is no store.
        let _ = take(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::outer_callback;
    use crate::types::{varvite_cache, varvite_disk, varvite_store};
    use varvite::cache::Cache;

    fn kind<T>(outcome: Outcome<T>) -> String {
        match outcome {
            Ok(_) => "ok".to_owned(),
            Err(Fault::Engine(error)) => error.kind().to_string(),
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn a_handle_is_good_until_it_is_closed_and_for_its_kind_only() {
        let handle: *mut varvite_cache = put(Cache::new(1)).unwrap();
        assert_eq!(kind(get(handle)), "ok");
        assert_eq!(kind(get(handle.cast::<varvite_disk>())), "invalid");
        assert_eq!(kind(take(handle)), "ok");
        assert_eq!(kind(get(handle)), "closed");
        assert_eq!(kind(take(handle)), "closed");
        // Its slot is used again, and the old number still says that it is closed.
        let others: Vec<*mut varvite_cache> =
            (0..SHARDS * 2).map(|_| put(Cache::new(1)).unwrap()).collect();
        assert!(!others.contains(&handle));
        assert_eq!(kind(get(handle)), "closed");
        for other in others {
            drop(take(other));
        }
    }

    #[test]
    fn a_number_that_was_never_given_is_refused() {
        let of = std::ptr::without_provenance::<varvite_cache>;
        let here = 7;
        let numbers = [2, usize::MAX, usize::MAX - 1, (&raw const here).addr()];
        for number in numbers {
            assert_ne!(kind(get(of(number))), "ok", "{number:x}");
        }
        assert_eq!(kind(get(of(0))), "invalid");
        let handle: *mut varvite_cache = put(Cache::new(1)).unwrap();
        for bit in 0..usize::BITS {
            assert_ne!(kind(get(of(handle.addr() ^ 1 << bit))), "ok", "bit {bit}");
        }
        drop(take(handle));
    }

    #[test]
    fn a_callback_waits_for_other_threads_and_not_for_its_caller() {
        let handle: *mut varvite_cache = put(Cache::new(1)).unwrap();
        let held = get(handle).unwrap();
        let writing = held.write().unwrap();
        outer_callback(|| {
            assert_eq!(kind(held.read()), "invalid");
            assert_eq!(kind(held.write()), "invalid");
            assert_eq!(kind(take(handle)), "invalid");
        });
        drop(writing);
        let reading = held.read().unwrap();
        std::thread::scope(|scope| {
            let (address, other) = (handle.addr(), Arc::clone(&held));
            let writer = scope.spawn(move || drop(other.write()));
            while !held.0.try_read().is_err_and(|it| matches!(it, TryLockError::WouldBlock)) {
                std::thread::yield_now();
            }
            // A writer waits, and what is read is read again all the same.
            outer_callback(|| {
                assert_eq!(kind(held.read()), "ok");
                assert_eq!(kind(held.write()), "invalid");
                let handle = std::ptr::without_provenance::<varvite_cache>(address);
                assert_eq!(kind(take(handle)), "invalid");
            });
            drop(reading);
            writer.join().unwrap();
            // Another thread has it for a while, and closing it waits.
            let (locked, is_locked) = std::sync::mpsc::channel();
            let other = Arc::clone(&held);
            scope.spawn(move || {
                let _writing = other.write().unwrap();
                locked.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(30));
            });
            is_locked.recv().unwrap();
            outer_callback(|| assert_eq!(kind(held.read()), "ok"));
        });
        let (locked, is_locked) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let other = Arc::clone(&held);
            scope.spawn(move || {
                let _reading = other.read().unwrap();
                locked.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(30));
            });
            is_locked.recv().unwrap();
            outer_callback(|| drop(Lent(handle)));
        });
        assert_eq!(kind(get(handle)), "closed");
    }

    #[test]
    fn a_callback_whose_caller_has_a_store_does_not_wait_for_another_store() {
        let store = || {
            let disk = varvite::disk::memory::MemoryDisk::seeded(1);
            let options = varvite::context::Options::default();
            let store = varvite::context::Store::create(disk, options).unwrap();
            put::<varvite_store>(store).unwrap()
        };
        let (one, two) = (store(), store());
        let (held, other) = (get(one).unwrap(), get(two).unwrap());
        let (locked, is_locked) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let theirs = Arc::clone(&other);
            scope.spawn(move || {
                let _writing = theirs.write().unwrap();
                locked.send(()).unwrap();
                let _ = is_done.recv();
            });
            is_locked.recv().unwrap();
            let _writing = held.write().unwrap();
            outer_callback(|| {
                assert_eq!(kind(other.read()), "Busy");
                assert_eq!(kind(other.write()), "Busy");
                assert_eq!(kind(take(two)), "Busy");
            });
            drop(done);
        });
        assert_eq!(kind(take(one)), "ok");
        assert_eq!(kind(take(two)), "ok");
    }
}
