//! A store: commits on a disk, one process that writes, any number that read.
//!
//! A commit is one append to the last chunk and one sync. Opening reads the control file and scans
//! the pack forward from its checkpoint; a reader's reload is the same scan. What the index knows
//! (commits by hash, or every object) is derived from the pack.
//! Order of every write and sync: `docs/design/durability.md`.

mod archive;
mod check;
mod collect;
mod collection;
pub(crate) mod history;
mod load;
mod merge;
mod open_or_create;
mod pins;
mod reader;
mod repair;
mod snapshots;
mod space;
#[cfg(test)]
mod tests;
mod tip;
mod write;

use std::sync::Arc;

use super::configuration::Configuration;
use super::files::chunk_files;
use super::files::commit::{Commit, CommitBody};
use super::files::control::Control;
use super::files::hash_index::{Covered, Entries, HashIndex, Lookup, is_damage};
use super::files::pack::Pack;
use super::files::paths;
use super::files::record::Tag;
use super::hash::{self, CommitHash, Hash, TreeHash};
use super::observer::{Operation, Span};
use super::options::{Index, Options};
use super::pieces::node::{Load, Slot};
use super::tree::Tree;
use super::warnings::Warnings;
use crate::cache::Cache;
use crate::disk::memory::MemoryDisk;
use crate::disk::{Disk, Lock, entropy};
use crate::error::{Error, Kind, Result};
use crate::order::BTreeMap;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::trace::{self, Action, Answer, Digest};

pub use check::{Checked, FAULTS_MAX};
pub use collection::{CollectPhase, CollectStatus, Keep};
use history::History;
use load::End;
pub use merge::{Limits, Merge};
use open_or_create::discard::{MakersLock, retract};
pub use reader::Reader;
use reader::Readers;
pub use repair::{LostCommit, RepairedContext};
pub use space::{ChunkInfo, ChunkState, SHARED_COMMITS_MAX, SharedChunk, SharedPart, Sharing};
use tip::Tip;
pub use write::CommitInfo;

/// What a store did and holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Commits that are there, those on all forks; one that was written again beside a collection counts as two as
    /// long as both records stay.
    pub commits: u64,
    /// Objects found by hash; 0 with the minimal index.
    pub objects: u64,
    /// Bytes of all chunks.
    pub pack_bytes: u64,
    /// Bytes of the index on disk.
    pub index_bytes: u64,
    /// Bytes handed to the disk since the store was opened, for pack, control file and index.
    pub written_bytes: u64,
    /// Syncs asked for since the store was opened, those of checkpoints and of the index included.
    pub syncs: u64,
    /// Those of them that the index asked for: none for a commit, some for a checkpoint.
    pub index_syncs: u64,
    /// Memory that nodes take.
    pub objects_bytes: u64,
    /// Chunks of the pack.
    pub chunks: u64,
    /// How often the store was cleared.
    pub epoch: u64,
    /// How often a collection ended.
    pub generation: u64,
}

/// What the pack says, up to a place in its last chunk.
#[derive(Debug, Default)]
struct State {
    branches: BTreeMap<Vec<u8>, CommitHash>,
    last_commit: u64,
    sequence: u64,
}

/// A context store. One handle writes; see [`Store::open_read_only`] for the others.
///
/// Errors of every call, beside those that it names: `Io` where the disk fails, `Corrupt` where what is read is damaged or its
/// file gone, `Missing` where it is in a lower folder that was not given, `Collected` for what a collection took. Of calls that
/// write: `Invalid` on a handle to read, `Poisoned` after a sync that failed; after another error the call may be made again.
///
/// ```
/// use varvite::context::{CommitInfo, Configuration, Options, Store, Tree};
/// use varvite::disk::memory::MemoryDisk;
/// # fn main() -> varvite::Result<()> {
/// let mut store = Store::create(MemoryDisk::seeded(1), Options::default())?;
/// let mut tree = Tree::empty(Configuration::TEZOS);
/// tree.add(&["data", "version"], b"genesis")?;
/// let hash = store.commit(&mut tree, &CommitInfo::new(&[], 0, "Tezos", "Genesis"))?;
/// let again = store.checkout(&hash)?;
/// assert_eq!(again.find(&["data", "version"])?.as_deref(), Some(&b"genesis"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Store {
    disk: Arc<dyn Disk>,
    options: Options,
    control: Control,
    pack: Arc<Pack>,
    state: Arc<Mutex<State>>,
    /// Where the next scan begins; the writer's place is its own.
    end: End,
    index: Arc<Mutex<HashIndex>>,
    warnings: Arc<Warnings>,
    /// The half that only the one writer has; its working trees share it, to spill.
    tip: Option<Arc<Tip>>,
    /// This handle has made it.
    is_new: bool,
    /// The damage before which this handle reads the store; none where it reads all.
    damage: Option<Arc<Error>>,
    /// Where commits are, when they are in another format; everything else is empty then.
    history: Option<Box<dyn History>>,
    /// Of a moment that a reader sees: where hashes are, without the index's lock.
    lookup: Option<Lookup>,
    /// And the logical offset from which on it sees nothing.
    shown_end: u64,
    readers: Readers,
}

impl State {
    /// The branches, by name.
    fn branches(&self) -> Vec<(Vec<u8>, CommitHash)> {
        self.branches.iter().map(|(name, hash)| (name.clone(), *hash)).collect()
    }
}

impl Store {
    /// Makes a store in an empty folder and opens it for writing. `Exists` when one is there, `Invalid`
    /// when there is something else; what a creation left that was cut short does not count. Writes
    /// and syncs the first chunk, the control file and an empty index.
    pub fn create(disk: Arc<dyn Disk>, options: Options) -> Result<Store> {
        options.check()?;
        write::expect_empty(&*disk)?;
        let seed = entropy::seed(options.seed, &*disk)?;
        let lock: Arc<dyn Lock> = Arc::from(write::lock_store(&*disk)?);
        // Again: another process may have made one before the lock was ours.
        write::expect_empty(&*disk)?;
        let control = Control::empty(seed, options.configuration, options.index, 0);
        let (mut first, _) = write::create_first_chunk(&*disk, &control)?;
        first.sync()?;
        disk.sync_directory("")?;
        drop(first);
        let shared = Box::new(MakersLock(Arc::clone(&lock)));
        let place = Arc::clone(&disk);
        let made = control
            .replace(&place)
            .and_then(|()| Self::open_with(disk, options, control, Some(shared)));
        match made {
            Ok(store) => Ok(Store { is_new: true, ..store }),
            Err(error) => {
                // Nobody may find a store of which nobody was told.
                retract(&place, &*lock);
                Err(error)
            }
        }
    }

    /// Opens a store for writing. `Locked` when another process, or this one, writes to it already.
    /// Reads the control file, the manifest and footers of the index, and the pack from the last
    /// checkpoint on, which is synced: what the handle shows is durable, whatever the process before
    /// had done when it died. An index that is lost or damaged is made again, which reads one record a commit,
    /// or with [`Index::Always`] all of the pack; see [`Store::warnings`].
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Store> {
        options.check()?;
        let control = Control::read(&*disk).map_err(Error::of_context)?;
        let lock = write::lock_store(&*disk)?;
        drop(control);
        // Read again: another writer may have replaced it before the lock was ours.
        let control = load::read_control(&*disk).map_err(Error::of_context)?;
        Self::open_with(disk, options, control, Some(lock))
    }

    /// Opens a store to read while another process may write to it. It sees the store as of now, until
    /// [`Store::reload`]. Reads what [`Store::open`] reads and writes nothing; an index that is lost
    /// or damaged is made in memory. `Missing` when no store is there.
    ///
    /// Where the newest commit is damaged, which keeps a store from being opened to write, it is read as it was before that;
    /// [`Store::warnings`] says so. What it does not know may be behind the damage: to be asked for it is `Corrupt` then.
    pub fn open_read_only(disk: Arc<dyn Disk>, options: Options) -> Result<Store> {
        options.check()?;
        let cache = options.cache.clone().unwrap_or_else(|| Cache::new(options.pages_bytes));
        Self::open_to_read((cache, disk, options))
    }

    fn open_with(
        disk: Arc<dyn Disk>,
        options: Options,
        control: Control,
        lock: Option<Box<dyn crate::disk::Lock>>,
    ) -> Result<Store> {
        let cache = options.cache.clone().unwrap_or_else(|| Cache::new(options.pages_bytes));
        Self::open_through((cache, disk, options), control, lock, None)
    }

    fn open_through(
        (cache, disk, mut options): (Arc<Cache>, Arc<dyn Disk>, Options),
        control: Control,
        lock: Option<Box<dyn crate::disk::Lock>>,
        damage: Option<Arc<Error>>,
    ) -> Result<Store> {
        options.configuration = control.configuration;
        options.index = control.index;
        let nothing = Covered::nothing(control.store, control.epoch, control.index);
        let index = HashIndex::closed(&disk, &options, &cache, nothing, lock.is_none());
        let of = (control.store, control.epoch);
        let pack = Arc::new(Pack::new(Arc::clone(&disk), of, cache, &options));
        let mut store = Store {
            disk,
            options,
            state: Arc::default(),
            pack,
            end: End::of(&control),
            control,
            warnings: Arc::clone(&index.warnings),
            index: Arc::new(Mutex::new(index)),
            tip: None,
            is_new: false,
            damage,
            history: None,
            lookup: None,
            shown_end: u64::MAX,
            readers: Readers::default(),
        };
        store.load(lock).map_err(|error| chunk_files::or_lost(error).of_context())?;
        Ok(store)
    }

    /// A store to read the commits that `history` finds.
    pub(crate) fn of_history(history: Box<dyn History>, options: Options) -> Result<Store> {
        // What is asked of a store beside its history is asked of an empty one.
        let configuration = history.configuration();
        let options = Options {
            configuration,
            chunk_bytes: Options::default().chunk_bytes,
            pages_bytes: 0,
            objects_bytes: 0,
            hashes_bytes: 0,
            hashes_file_bytes: 0,
            cache: None,
            seed: Some(1),
            ..options
        };
        let disk = MemoryDisk::seeded(1);
        drop(Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone())?);
        let mut store = Store::open_read_only(disk, options)?;
        store.history = Some(history);
        Ok(store)
    }

    /// Begins an operation of which the observer is told, if there is one.
    fn span(&self, operation: Operation) -> Option<Span<'static>> {
        Span::begin(self.pack.meter().cloned(), operation, &[])
    }

    /// An empty working tree of this store. Other than [`Tree::empty`] it spills to the pack what is
    /// more than [`Options::tree_bytes`], and its observer is the store's. What it spilled before the target of a
    /// [collection](Store::collect) goes with that, since no commit has it: commit such a tree first.
    pub fn empty_tree(&self) -> Tree {
        let tree = self.new_tree();
        let recorder = self.options.recorder.as_ref();
        Tree::recorded_as_new(recorder, Action::EmptyTree, None, || Ok(tree))
            .expect("there is nothing that can fail")
    }

    /// One of which a recorder is told when it is an argument of a call, with its content, as of a tree that was made elsewhere. It
    /// stays in memory, whatever its size, and loses nothing to a collection: nothing of it is spilled.
    pub fn unrecorded_tree(&self) -> Tree {
        self.new_tree().staying_live()
    }

    fn new_tree(&self) -> Tree {
        Tree::stored(self.configuration(), self.load_from(), Slot::empty_directory())
    }

    /// The store of Irmin behind this one. The package for JavaScript opens none, as it has no readers, which look up beside
    /// the writer.
    fn irmin(&self) -> Option<&dyn History> {
        if cfg!(varvite_js) { None } else { self.history.as_deref() }
    }

    fn lookup(&self) -> Option<&Lookup> {
        if cfg!(varvite_js) { None } else { self.lookup.as_ref() }
    }

    fn load_from(&self) -> Arc<dyn Load> {
        match self.irmin() {
            Some(history) => history.load(),
            None => Arc::clone(&self.pack) as Arc<dyn Load>,
        }
    }

    /// The hash configuration.
    pub fn configuration(&self) -> Configuration {
        self.control.configuration
    }

    /// Whether a commit with this hash is here. Mostly a lookup in memory; at most one page of each
    /// level of the index is read.
    pub fn exists(&self, commit: &CommitHash) -> Result<bool> {
        let recorder = self.options.recorder.as_ref();
        let answer = |there: &bool| Answer::Flag(*there);
        trace::store_call(
            recorder,
            Action::Exists,
            |to| to.hash(commit),
            answer,
            || self.has(commit),
        )
    }

    fn has(&self, commit: &CommitHash) -> Result<bool> {
        let _span = self.span(Operation::Exists);
        match self.irmin() {
            Some(history) => history.exists(commit),
            None => Ok(self.find_known(commit)?.is_some_and(|offset| !self.has_collected(offset))),
        }
    }

    /// Where a commit is, or was. An error where it may be behind the damage before which the store is read.
    fn find_known(&self, commit: &CommitHash) -> Result<Option<u64>> {
        let found = self.find_commit(commit)?;
        if found.is_none() {
            self.expect_all(|| format!("commit {}", hash::to_text(commit)))?;
        }
        Ok(found)
    }

    /// Where a commit is, or was. What the index says is checked against the pack; when it is damaged the
    /// pack is asked instead, one record a commit, and what is read of it is kept in memory: all such
    /// lookups together read the history once.
    fn find_commit(&self, commit: &CommitHash) -> Result<Option<u64>> {
        let damage = match self.commit_entries(commit).and_then(|entries| entries.get(commit)) {
            Ok(None) => return Ok(None),
            // Written again since this moment, or new since.
            Ok(Some(offset)) if offset >= self.shown_end => return self.walk_to(commit),
            Ok(Some(offset)) => {
                if self.has_collected(offset) {
                    return Ok(Some(offset));
                }
                match self.commit_at(offset) {
                    Ok((found, _)) if found == *commit => return Ok(Some(offset)),
                    // Not of the index: what a writer has taken meanwhile, a read that failed, the lower folder, or a
                    // chunk that is damaged.
                    Err(error)
                        if !is_damage(&error)
                            || self.pack.is_lower(offset)
                            || self.pack.is_torn(offset)
                            || self.is_past(&error) && offset > self.newest_commit() =>
                    {
                        return Err(error);
                    }
                    _ => format!("it leads commit {} to another place", hash::to_text(commit)),
                }
            }
            Err(error) if !is_damage(&error) => return Err(error),
            Err(error) => error.to_string(),
        };
        self.search(commit, &damage)
    }

    fn commit_entries(&self, commit: &Hash) -> Result<Entries> {
        match self.lookup() {
            Some(lookup) => lookup.commits(commit, &self.index),
            None => Ok(self.index()?.commits(commit)),
        }
    }

    fn object_entries(&self, hash: &Hash) -> Result<Entries> {
        match self.lookup() {
            Some(lookup) => lookup.objects(hash, &self.index),
            None => Ok(self.index()?.objects(hash)),
        }
    }

    /// Looks for a commit in the history, of which the index remembers what such searches have passed.
    fn search(&self, commit: &CommitHash, damage: &str) -> Result<Option<u64>> {
        let (epoch, last) = (self.control.epoch, self.newest_commit());
        let (known, (newest, next)) = lock(&self.index).passed(commit, damage, (epoch, last));
        match known {
            Some(known) if known < self.shown_end => return Ok(Some(known)),
            // A search of a later moment has passed it: one that was written again has an older record anywhere.
            Some(_) => return self.walk_to(commit),
            None => {}
        }
        let (mut passed, mut place, mut offset) = (Vec::new(), None, last);
        // What is newer than all that was passed is read whole, so that no gap stays behind.
        while place.is_none() || offset > newest {
            if offset <= newest {
                offset = offset.min(next);
            }
            if offset == 0 {
                break;
            }
            let (hash, body) = self.commit_at(offset)?;
            // Of one that is there twice the newer counts.
            if hash == *commit {
                place.get_or_insert(offset);
            }
            passed.push((hash, offset));
            offset = self.commit_before(&body);
        }
        lock(&self.index).pass(epoch, passed, (last, offset.min(next)));
        Ok(place)
    }

    /// The same without the index's memory, for a moment whose index is asked live and knows a newer record: one that was
    /// written again has an older one anywhere.
    fn walk_to(&self, commit: &CommitHash) -> Result<Option<u64>> {
        let mut offset = self.newest_commit();
        while offset != 0 {
            let (hash, body) = self.commit_at(offset)?;
            if hash == *commit {
                break;
            }
            offset = self.commit_before(&body);
        }
        Ok(Some(offset).filter(|offset| *offset != 0))
    }

    /// Whether the commit is here, or was until a collection took it. An index that was made again knows
    /// only those that are here.
    pub(crate) fn has_taken(&self, commit: &CommitHash) -> Result<bool> {
        match self.irmin() {
            Some(history) => history.exists(commit),
            None => Ok(self.find_known(commit)?.is_some()),
        }
    }

    /// Whether a collection took the commit at `offset`.
    fn has_collected(&self, offset: u64) -> bool {
        self.control.horizon.has_collected(offset)
    }

    /// The commit that the store took last, if it is still there; 0 for none.
    fn newest_commit(&self) -> u64 {
        self.control.horizon.standing(self.state().last_commit)
    }

    /// The newest commit before the one that says `body` that is still there; 0 for none.
    fn commit_before(&self, body: &CommitBody) -> u64 {
        self.control.horizon.standing(body.previous)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn commit_offset(&self, commit: &CommitHash) -> Result<u64> {
        let root = self.disk.root();
        match self.find_known(commit)? {
            Some(offset) if !self.has_collected(offset) => Ok(offset),
            Some(_) => Err(Error::new(
                Kind::Collected,
                format!(
                    "commit {} was collected from the store at {root}: it is older than what is kept; \
                     ask a store that keeps a longer history",
                    hash::to_text(commit)
                ),
            )),
            None => Err(Error::missing(format!(
                "commit {} is not in the store at {root}: `varvite context log` lists those that are",
                hash::to_text(commit)
            ))),
        }
    }

    /// The value or directory with this hash, in a store that finds every object. Values of up to 15
    /// bytes are no objects. `Invalid` with the minimal index.
    pub fn find_object(&self, hash: &TreeHash) -> Result<Option<Tree>> {
        let _span = self.span(Operation::Exists);
        if let Some(history) = self.irmin() {
            let slot = history.object(hash)?;
            return Ok(slot.map(|slot| Tree::stored(self.configuration(), history.load(), slot)));
        }
        if self.control.index != Index::Always {
            return Err(Error::invalid(
                "this store finds only commits by their hash: create it with the index \"always\"",
            ));
        }
        let Some(offset) = self.object_entries(hash)?.get(hash)? else {
            return self.expect_all(|| format!("object {}", hash::to_text(hash))).map(|()| None);
        };
        // One that a tree has spilled since is nobody's yet, and a power cut may take it.
        if offset >= self.shown_end {
            return Ok(None);
        }
        // Nor is one that a collection will take as good as there: what has it could not be committed.
        if !self.pack.has_object(offset)? || self.pack.will_go(offset) {
            return Ok(None);
        }
        let (tag, stored) =
            self.pack.record(offset, |_, _, record| Ok((record.tag, record.hash)))?;
        if stored != **hash {
            return self.pack.record(offset, |file, place, _| {
                Err(Error::corrupt(file, place, hash::to_text(hash), hash::to_text(&stored)))
            });
        }
        let slot = match tag {
            Tag::Value => Slot::StoredValue(offset),
            Tag::Flat | Tag::FlatPatch => Slot::StoredNode(offset),
            // Only the uppermost piece of a large directory is the directory.
            Tag::Branch | Tag::BranchPatch if self.pack.node(offset)?.is_top() => {
                Slot::StoredNode(offset)
            }
            // One that a directory would not be hashed flat with is a directory of its own too.
            Tag::Values | Tag::ValuesPatch
                if self.pack.node(offset)?.width() > self.configuration().stable_hash() =>
            {
                Slot::StoredNode(offset)
            }
            _ => return Ok(None),
        };
        let load = Arc::clone(&self.pack) as Arc<dyn Load>;
        Ok(Some(Tree::stored(self.configuration(), load, slot)))
    }

    /// What was found wrong with the index, which was then made again; files of others under the names of the store's own,
    /// which it leaves alone; and files that nothing needs and that could not be removed. Waits for no other call.
    pub fn warnings(&self) -> Vec<String> {
        if let Some(history) = self.irmin() {
            return history.warnings();
        }
        self.warnings.all()
    }

    /// The one of [`Store::warnings`] that tells of the damage before which the store is read, where it is read so.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let damage = self.damage.as_ref()?.what();
        self.warnings.all().into_iter().find(|told| told.starts_with(damage))
    }

    fn commit_at(&self, offset: u64) -> Result<(CommitHash, CommitBody)> {
        self.commit_in(&self.pack, offset)
    }

    fn commit_in(&self, pack: &Pack, offset: u64) -> Result<(CommitHash, CommitBody)> {
        pack.record(offset, |file, place, record| {
            if record.tag != Tag::Commit {
                return Err(Error::corrupt(
                    file,
                    place,
                    "a commit",
                    format_args!("{:?}", record.tag),
                ));
            }
            Ok((record.hash.into(), CommitBody::decode(file, place, offset, record.body)?))
        })
        .map_err(|error| self.judged(error))
    }

    /// The tree of a commit, loaded as it is looked at. One read. `Missing` for an unknown commit.
    pub fn checkout(&self, commit: &CommitHash) -> Result<Tree> {
        let recorder = self.options.recorder.as_ref();
        Tree::recorded_as_new(recorder, Action::Checkout, Some(commit), || self.tree_of(commit))
    }

    fn tree_of(&self, commit: &CommitHash) -> Result<Tree> {
        let _span = self.span(Operation::Checkout);
        Ok(Tree::stored(self.configuration(), self.load_from(), self.root_of(commit)?))
    }

    fn root_of(&self, commit: &CommitHash) -> Result<Slot> {
        match self.irmin() {
            Some(history) => history.root(commit),
            None => Ok(Slot::StoredNode(self.commit_at(self.commit_offset(commit)?)?.1.root)),
        }
    }

    /// What a commit says. Two reads. `Missing` for an unknown commit.
    pub fn commit_info(&self, commit: &CommitHash) -> Result<Commit> {
        let recorder = self.options.recorder.as_ref();
        let answer = |info: &Commit| trace::found(Some(info.tree.as_ref()));
        trace::store_call(
            recorder,
            Action::CommitInfo,
            |to| to.hash(commit),
            answer,
            || {
                let _span = self.span(Operation::CommitInfo);
                self.info_of(commit)
            },
        )
    }

    /// The same within another operation, whose time and reads they are.
    fn info_of(&self, commit: &CommitHash) -> Result<Commit> {
        if let Some(history) = self.irmin() {
            return history.commit_info(commit);
        }
        let offset = self.commit_offset(commit)?;
        let (hash, body) = self.commit_at(offset)?;
        Ok(Commit {
            hash,
            tree: self.pack.hash(body.root)?.into(),
            parents: body.parents,
            date: body.date,
            author: body.author,
            message: body.message,
            sequence: body.sequence,
            added_bytes: offset.saturating_sub(body.previous),
        })
    }

    /// The commit that the store took last. At most one read.
    pub fn last_commit(&self) -> Result<Option<CommitHash>> {
        if let Some(history) = self.irmin() {
            return Ok(history.log(None, 1)?.pop());
        }
        match self.newest_commit() {
            0 => Ok(None),
            offset => self.commit_at(offset).map(|(hash, _)| Some(hash)),
        }
    }

    /// The commits of the store, newest first; at most `limit`. One read each.
    pub fn log(&self, limit: usize) -> Result<Vec<CommitHash>> {
        let recorder = self.options.recorder.as_ref();
        let answer = |all: &Vec<CommitHash>| {
            Answer::Digest(Some(Digest::of_all(all.iter().map(|it| Some(&it[..])))))
        };
        trace::store_call(
            recorder,
            Action::Log,
            |to| to.number(limit as u64),
            answer,
            || self.newest(limit),
        )
    }

    /// Those that the store took before `commit`, newest first, to go on with a log from its last commit. One read each
    /// and that of `commit`. `Missing` for an unknown commit.
    pub fn log_before(&self, commit: &CommitHash, limit: usize) -> Result<Vec<CommitHash>> {
        let answer = |all: &Vec<CommitHash>| {
            Answer::Digest(Some(Digest::of_all(all.iter().map(|it| Some(&it[..])))))
        };
        trace::store_call(
            self.options.recorder.as_ref(),
            Action::LogBefore,
            |to| to.hash(commit).number(limit as u64),
            answer,
            || self.before(commit, limit),
        )
    }

    fn newest(&self, limit: usize) -> Result<Vec<CommitHash>> {
        let _span = self.span(Operation::Log);
        match self.irmin() {
            Some(history) => history.log(None, limit),
            None => self.listed(self.newest_commit(), limit),
        }
    }

    fn before(&self, commit: &CommitHash, limit: usize) -> Result<Vec<CommitHash>> {
        let _span = self.span(Operation::Log);
        if let Some(history) = self.irmin() {
            return history.log(Some(commit), limit);
        }
        let (_, body) = self.commit_at(self.commit_offset(commit)?)?;
        self.listed(self.commit_before(&body), limit)
    }

    /// The commit at `offset` and those before it.
    fn listed(&self, mut offset: u64, limit: usize) -> Result<Vec<CommitHash>> {
        let mut hashes = Vec::new();
        while offset != 0 && hashes.len() < limit {
            let (hash, body) = self.commit_at(offset)?;
            hashes.push(hash);
            offset = self.commit_before(&body);
        }
        Ok(hashes)
    }

    /// The commit that a branch names.
    pub fn branch(&self, name: &[u8]) -> Option<CommitHash> {
        match self.irmin() {
            Some(history) => history.branches().get(name).copied(),
            None => self.state().branches.get(name).copied(),
        }
    }

    /// All branches by name.
    pub fn branches(&self) -> Vec<(Vec<u8>, CommitHash)> {
        match self.irmin() {
            Some(history) => {
                history.branches().iter().map(|(name, hash)| (name.clone(), *hash)).collect()
            }
            None => self.state().branches(),
        }
    }

    /// The hash that [`Store::commit`] would give, without committing. Costs [`Tree::hash`]; writes
    /// nothing.
    pub fn hash(&self, tree: &Tree, info: &CommitInfo) -> Result<CommitHash> {
        Ok(info.hash(&tree.hash()?))
    }

    /// What the store did and holds.
    pub fn stats(&self) -> Stats {
        if let Some(history) = self.irmin() {
            return history.stats();
        }
        let chunks = self.pack.chunks();
        let (written_bytes, syncs) = self.tip.as_ref().map_or((0, 0), |tip| tip.traffic());
        let index = lock(&self.index);
        let (known, objects) = index.counts();
        // The index knows those that were collected too.
        let horizon = &self.control.horizon;
        let since = self.state().sequence.saturating_sub(horizon.sequence);
        let commits = known.min(since.saturating_add(horizon.kept.len() as u64));
        let traffic = index.traffic();
        Stats {
            commits,
            objects,
            pack_bytes: chunks.iter().map(|chunk| chunk.end()).sum(),
            index_bytes: index.disk_bytes(),
            written_bytes: written_bytes + traffic.written_bytes,
            syncs: syncs + traffic.syncs,
            index_syncs: traffic.syncs,
            objects_bytes: self.pack.objects.bytes(),
            chunks: chunks.len() as u64,
            epoch: self.control.epoch,
            generation: self.collections(),
        }
    }
}
