//! What threads read while another writes: moments of the store that the writer publishes.
//!
//! A moment is a store of its own without a writing half, which shares pack and caches with it. It never
//! changes, so that what is asked of it is of one state; and it looks commits up in a view of the index, so
//! that it does not wait while a commit holds that and is synced. It ends where the pack was durable, where the
//! store syncs. Before an index is made again, and its views are closed, a moment is published that waits for that.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::tip::Writer;
use super::{State, Store};
use crate::context::configuration::Configuration;
use crate::context::files::commit::Commit;
use crate::context::files::hash_index::{HashIndex, Lookup};
use crate::context::hash::{CommitHash, TreeHash};
use crate::context::options::Durability;
use crate::context::tree::Tree;
use crate::error::{Error, Kind, Result};
use crate::sync::{Mutex, lock};

/// A handle to read a store with while its [`Store`] writes: `Clone`, `Send` and `Sync`, without a lock on the
/// store. All readers of a store share its caches.
///
/// It follows its store by itself: every answer is of the newest commit, or change of a branch, whose call
/// had returned, or of one that is about to; of nothing that is not durable where the store syncs. Trees stay
/// what they are. Once the store is closed or dropped, calls are `Closed`; trees can be read as before.
///
/// ```
/// use varvite::context::{CommitInfo, Options, Store};
/// use varvite::disk::memory::MemoryDisk;
/// # fn main() -> varvite::Result<()> {
/// let mut store = Store::create(MemoryDisk::seeded(1), Options::default())?;
/// let reader = store.reader()?;
/// let mut tree = store.empty_tree();
/// tree.add(&["data", "version"], b"genesis")?;
/// let hash = store.commit(&mut tree, &CommitInfo::new(&[], 0, "Tezos", "Genesis"))?;
/// let thread = std::thread::spawn({
///     let reader = reader.clone();
///     move || reader.checkout(&hash)?.find(&["data", "version"])
/// });
/// tree.add(&["data", "version"], b"first")?;
/// let next = store.commit(&mut tree, &CommitInfo::new(&[hash], 1, "Tezos", "First"))?;
/// let found = thread.join().expect("the reader does not panic")?;
/// assert_eq!(found.as_deref(), Some(&b"genesis"[..]));
/// assert_eq!(reader.last_commit()?, Some(next));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Reader {
    published: Arc<Published>,
}

/// The newest moment; none once the store is gone.
#[derive(Default)]
struct Published(Mutex<Option<Arc<Store>>>);

/// The side of the store; nothing is published before somebody reads.
#[derive(Default)]
pub(super) struct Readers(OnceLock<Arc<Published>>);

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Readers({})", self.0.get().is_some())
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({})", if self.moment().is_ok() { "open" } else { "closed" })
    }
}

impl Drop for Readers {
    /// A moment would keep the index open, so that nobody could open it to write.
    fn drop(&mut self) {
        if let Some(published) = self.0.get() {
            drop(published.replace(None));
        }
    }
}

impl Published {
    fn replace(&self, moment: Option<Arc<Store>>) -> Option<Arc<Store>> {
        std::mem::replace(&mut *lock(&self.0), moment)
    }

    /// Whether somebody reads, beside the store itself.
    fn is_read(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Shows `moment`, or nothing any more if nobody reads.
    fn show(self: &Arc<Self>, moment: Option<Arc<Store>>) {
        let mut shown = lock(&self.0);
        let old = if self.is_read() {
            // A reader that came in between has brought a moment of its own.
            moment.and_then(|moment| shown.replace(moment))
        } else {
            shown.take()
        };
        drop(shown);
        drop(old);
    }
}

impl Reader {
    /// The store as of now.
    fn moment(&self) -> Result<Arc<Store>> {
        lock(&self.published.0).clone().ok_or_else(|| {
            Error::new(
                Kind::Closed,
                "the store of this reader was closed: open it again and ask that for one",
            )
        })
    }

    /// Asks the newest moment. One whose index was closed, to be made again, has a newer after it.
    fn ask<T>(&self, ask: impl Fn(&Store) -> Result<T>) -> Result<T> {
        let mut moment = self.moment()?;
        loop {
            match ask(&moment) {
                Err(error) if error.kind() == Kind::Closed => {
                    let newest = self.moment()?;
                    if Arc::ptr_eq(&moment, &newest) {
                        return Err(error);
                    }
                    moment = newest;
                }
                outcome => return outcome,
            }
        }
    }

    /// See [`Store::configuration`].
    pub fn configuration(&self) -> Result<Configuration> {
        Ok(self.moment()?.configuration())
    }

    /// See [`Store::checkout`].
    pub fn checkout(&self, commit: &CommitHash) -> Result<Tree> {
        self.ask(|store| store.checkout(commit))
    }

    /// See [`Store::exists`]. Of a commit newer than what the reader sees, where the index could not take its last entries,
    /// it reads the history: one record a commit.
    pub fn exists(&self, commit: &CommitHash) -> Result<bool> {
        self.ask(|store| store.exists(commit))
    }

    /// See [`Store::find_object`].
    pub fn find_object(&self, hash: &TreeHash) -> Result<Option<Tree>> {
        self.ask(|store| store.find_object(hash))
    }

    /// See [`Store::commit_info`].
    pub fn commit_info(&self, commit: &CommitHash) -> Result<Commit> {
        self.ask(|store| store.commit_info(commit))
    }

    /// See [`Store::last_commit`].
    pub fn last_commit(&self) -> Result<Option<CommitHash>> {
        self.moment()?.last_commit()
    }

    /// See [`Store::log`].
    pub fn log(&self, limit: usize) -> Result<Vec<CommitHash>> {
        self.moment()?.log(limit)
    }

    /// See [`Store::log_before`].
    pub fn log_before(&self, commit: &CommitHash, limit: usize) -> Result<Vec<CommitHash>> {
        self.ask(|store| store.log_before(commit, limit))
    }

    /// The commit that a branch names.
    pub fn branch(&self, name: &[u8]) -> Result<Option<CommitHash>> {
        Ok(self.moment()?.branch(name))
    }

    /// All branches by name, all at one moment.
    pub fn branches(&self) -> Result<Vec<(Vec<u8>, CommitHash)>> {
        Ok(self.moment()?.branches())
    }
}

impl Store {
    /// A handle that any number of threads may read with while this one goes on. As long as there is one, each
    /// commit and each change of a branch copies what the store knows of its chunks and branches, once for all
    /// readers. The readers of
    /// a store that is open to read only follow its [`Store::reload`]. `Invalid` for a store of Irmin.
    pub fn reader(&self) -> Result<Reader> {
        if self.history.is_some() {
            return Err(Error::invalid(
                "a store of Irmin gives no readers: open it once in each thread",
            ));
        }
        let published = Arc::clone(self.readers.0.get_or_init(Arc::default));
        drop(published.replace(Some(self.moment())));
        Ok(Reader { published })
    }

    /// Whether somebody reads what is published.
    pub(super) fn is_read(&self) -> bool {
        !cfg!(varvite_js) && self.readers.0.get().is_some_and(Published::is_read)
    }

    /// Shows readers what the store is now.
    pub(super) fn publish(&self) {
        self.show(self.is_read().then(|| self.moment()));
    }

    /// Shows readers a moment; nothing of the store is kept for them when nobody reads.
    pub(super) fn show(&self, moment: Option<Arc<Store>>) {
        if !cfg!(varvite_js)
            && let Some(published) = self.readers.0.get()
        {
            published.show(moment);
        }
    }

    /// The moment of a change whose locks are still held, so that no tree has spilled behind it, if somebody
    /// reads. To be shown once they are not.
    pub(super) fn moment_of(&self, index: &HashIndex, writer: &Writer) -> Option<Arc<Store>> {
        self.is_read().then(|| self.moment_with(index.lookup(), Some(writer)))
    }

    /// Shows readers a moment that asks `index` itself, which is about to be made again: as long as that takes
    /// they wait for it. The writer is free.
    pub(super) fn show_unindexed(&self, index: &HashIndex) {
        self.show(self.is_read().then(|| self.moment_beside(index.lookup_later())));
    }

    /// The same with the index as it is.
    pub(super) fn show_indexed(&self, index: &HashIndex) {
        self.show(self.is_read().then(|| self.moment_beside(index.lookup())));
    }

    /// Shows readers that the store was cleared, whose index is still to be made.
    pub(super) fn show_cleared(&self) {
        self.show(self.is_read().then(|| self.moment_beside(Lookup::Nothing)));
    }

    fn moment(&self) -> Arc<Store> {
        self.moment_beside(lock(&self.index).lookup())
    }

    fn moment_beside(&self, lookup: Lookup) -> Arc<Store> {
        match &self.tip {
            Some(tip) => self.moment_with(lookup, Some(&*lock(&tip.writer))),
            None => self.moment_with(lookup, None),
        }
    }

    /// The store as it is, to read.
    fn moment_with(&self, lookup: Lookup, writer: Option<&Writer>) -> Arc<Store> {
        let state = {
            let state = self.state();
            let branches = state.branches.clone();
            State { branches, last_commit: state.last_commit, sequence: state.sequence }
        };
        let mut end = self.end;
        end.place = writer.map_or(end.place, Writer::place);
        let is_synced = self.options.durability == Durability::Synced;
        let last_end = || self.pack.last_chunk().base + end.place.position.offset;
        let shown_end = writer.map_or_else(last_end, |writer| writer.shown_end(is_synced));
        Arc::new(Store {
            disk: Arc::clone(&self.disk),
            options: self.options.clone(),
            control: self.control.clone(),
            pack: Arc::clone(&self.pack),
            state: Arc::new(Mutex::new(state)),
            end,
            lookup: Some(lookup),
            shown_end,
            index: Arc::clone(&self.index),
            warnings: Arc::clone(&self.warnings),
            tip: None,
            is_new: false,
            damage: self.damage.clone(),
            history: None,
            readers: Readers::default(),
        })
    }
}

const _: () = {
    const fn is_shareable<T: Clone + Send + Sync>() {}
    is_shareable::<Reader>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{CommitInfo, Options};
    use crate::disk::memory::MemoryDisk;

    #[test]
    fn nothing_is_kept_or_copied_once_the_last_reader_is_dropped() {
        let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
        let mut tree = store.empty_tree();
        let mut commit = |store: &mut Store, value: &[u8]| {
            tree.add(&["a"], value).unwrap();
            store.commit(&mut tree, &CommitInfo::new(&[], 0, "a", "b")).unwrap()
        };
        let reader = store.reader().unwrap();
        let first = commit(&mut store, b"1");
        let held = Arc::downgrade(&reader.moment().unwrap());
        assert!(reader.exists(&first).unwrap() && held.upgrade().is_some());
        drop(reader.clone());
        assert!(store.is_read());
        drop(reader);
        assert!(!store.is_read());
        let second = commit(&mut store, b"2");
        assert!(held.upgrade().is_none());
        assert!(lock(&store.readers.0.get().unwrap().0).is_none());
        // And the next finds all of it.
        assert_eq!(store.reader().unwrap().log(9).unwrap(), [second, first]);
    }
}
