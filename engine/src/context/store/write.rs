//! What changes a store: commits, branches, chunks, clearing, checkpoints.

use std::any::Any;
use std::sync::Arc;

use super::tip::{self, Tip};
use super::{State, Store, paths};
use crate::context::files::batch::{self, Batch, Objects};
use crate::context::files::chunk::{Opening, Place};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::commit::{CommitBody, PARENTS_MAX, TEXT_MAX};
use crate::context::files::control::{self, BRANCHES_BYTES_MAX, Control};
use crate::context::files::hash_index::{HashIndex, is_damage};
use crate::context::files::pack::Pack;
use crate::context::files::paths::whose;
use crate::context::files::record::Tag;
use crate::context::hash::{self, CommitHash, TreeHash};
use crate::context::observer::{self, Operation, Span};
use crate::context::options::Durability;
use crate::context::pieces::node::{Load, Node, Slot};
use crate::context::tree::{Kind as TreeKind, Tree};
use crate::disk::{Access, Disk, Lock, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::AppendFile;
use crate::file::exclusive;
use crate::file::replace;
use crate::order;
use crate::sync::lock;
use crate::trace::{self, Action, Answer, Arguments};

/// The longest name of a branch in bytes.
const BRANCH_MAX: usize = 4096;

/// What a commit says beside its tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitInfo {
    /// Hashes of the parents, in any order; they need not be in the store.
    pub parents: Vec<CommitHash>,
    /// Seconds since 1970.
    pub date: i64,
    /// Who commits.
    pub author: Vec<u8>,
    /// Why.
    pub message: Vec<u8>,
}

impl CommitInfo {
    /// From parts.
    #[must_use]
    pub fn new(
        parents: &[CommitHash],
        date: i64,
        author: impl AsRef<[u8]>,
        message: impl AsRef<[u8]>,
    ) -> CommitInfo {
        CommitInfo {
            parents: parents.to_vec(),
            date,
            author: author.as_ref().to_vec(),
            message: message.as_ref().to_vec(),
        }
    }

    fn sorted_parents(&self) -> Vec<CommitHash> {
        let mut parents = self.parents.clone();
        order::sort_by(&mut parents, Ord::cmp);
        parents
    }

    /// `Invalid` when it says more than a commit's record may.
    fn check(&self) -> Result<()> {
        let sizes = [
            ("parents", self.parents.len(), PARENTS_MAX),
            ("bytes of author", self.author.len(), TEXT_MAX),
            ("bytes of message", self.message.len(), TEXT_MAX),
        ];
        match sizes.iter().find(|(_, size, most)| size > most) {
            None => Ok(()),
            Some((what, size, most)) => Err(Error::invalid(format!(
                "the commit has {size} {what}, and at most {most} are possible: say less"
            ))),
        }
    }

    pub(super) fn hash(&self, tree: &TreeHash) -> CommitHash {
        hash::commit(tree, &self.sorted_parents(), self.date, &self.author, &self.message)
    }
}

/// Takes the store's lock.
pub(super) fn lock_store(disk: &dyn Disk) -> Result<Box<dyn Lock>> {
    exclusive::lock(disk, paths::LOCK, &exclusive::holder())
}

/// `Exists` when a store is in the folder, `Invalid` when something else is, `Corrupt` when a store has
/// lost its control file: its chunks are all that is left of it, so nothing is made over them.
pub(super) fn expect_empty(disk: &dyn Disk) -> Result<()> {
    // By one look, since somebody may make the store meanwhile.
    let names = disk.list("")?;
    expect_no_store(disk, &names)?;
    let Err(error) = expect_left_over(disk, &names) else { return Ok(()) };
    // What was found beside no control file counts if there is none still: a chunk gets its first commit after that.
    expect_no_store(disk, &disk.list("")?)?;
    Err(error)
}

/// `Exists` when there is a store among these names, or one that is only half made.
fn expect_no_store(disk: &dyn Disk, names: &[String]) -> Result<()> {
    if names.iter().any(|name| name == paths::CONTROL) {
        let root = disk.root();
        return Err(Error::new(
            Kind::Exists,
            format!("{root} holds a context store already: open it, or choose another folder"),
        ));
    }
    if names.iter().any(|name| name == paths::HALF_MADE) {
        return Err(control::half_made(disk));
    }
    Ok(())
}

/// `Invalid` or `Corrupt` unless all of these are what a creation leaves that was cut short.
fn expect_left_over(disk: &dyn Disk, names: &[String]) -> Result<()> {
    let root = disk.root();
    for name in names {
        if let Some(place) = paths::parse_chunk(name) {
            // That is the first chunk, with its opening at most.
            let length = disk.open(name, Mode::Read, Access::Buffered).and_then(|file| file.len());
            let is_left = match length {
                // Whoever creates one makes it anew.
                Err(error) if error.kind() == Kind::Missing => true,
                length => length? <= tip::FIRST_BYTES && place == (0, 0, None),
            };
            if is_left {
                continue;
            }
            return Err(Error::new(
                Kind::Corrupt,
                format!(
                    "{root} has {name} of a context store, but no file \"{}\", which says what the \
                     store is made of: put that file back from a copy, or choose another folder; \
                     nothing was removed",
                    paths::CONTROL
                ),
            ));
        }
        let is_left = match &**name {
            paths::LOCK => true,
            // A store has its control file, durably, before there is anything in its index.
            paths::INDEX => is_empty_folder(disk, name)?,
            _ => replace::unfinished(name).is_some_and(paths::is_replaced),
        };
        if !is_left {
            return Err(Error::invalid(format!(
                "{root} is not empty (it has {name}): choose an empty folder for the context store"
            )));
        }
    }
    Ok(())
}

/// Whether there is a folder with nothing in it, or nothing at all by now.
fn is_empty_folder(disk: &dyn Disk, name: &str) -> Result<bool> {
    match disk.list(name) {
        Ok(names) => Ok(names.is_empty()),
        Err(error) if error.kind() == Kind::Missing => Ok(true),
        // It is a file.
        Err(error) if error.kind() == Kind::Invalid => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the first chunk of an epoch, which is durable after a sync of it and of the folder. One that an
/// attempt left goes first: the sync of its name may have failed, so it is made anew.
pub(super) fn create_first_chunk(
    disk: &dyn Disk,
    control: &Control,
) -> Result<(AppendFile, Opening)> {
    match disk.remove(&paths::chunk(control.epoch, 0)) {
        Err(error) if error.kind() != Kind::Missing => return Err(error),
        _ => {}
    }
    let opening = Opening {
        epoch: control.epoch,
        number: 0,
        base: 0,
        chain: 0,
        last_commit: 0,
        configuration: control.configuration,
        index: control.index,
    };
    Ok((tip::create_chunk(disk, control.store, &opening)?, opening))
}

impl Store {
    /// The writing half, for one change. `Invalid` without one, `Poisoned` after a failure.
    pub(super) fn tip(&self) -> Result<Arc<Tip>> {
        let root = self.disk.root();
        let tip = self.tip.as_ref().ok_or_else(|| {
            Error::invalid(format!("the store at {root} is open to read only: open it for writing"))
        })?;
        drop(tip.writer()?);
        Ok(Arc::clone(tip))
    }

    /// The end of the pack, as far as it was read.
    pub(super) fn place(&self) -> Place {
        self.tip.as_ref().map_or(self.end.place, |tip| tip.place())
    }

    /// Working trees of the pack spill to this store, as long as it is open.
    pub(super) fn let_trees_spill(&self) {
        if let Some(tip) = &self.tip {
            let tip = Arc::downgrade(tip);
            self.pack.set_spill(tip);
        }
    }

    /// Commits `tree` and returns the commit's hash, the same that other Tezos nodes compute.
    ///
    /// Writes what changed since the tree was checked out: one append, one sync. Afterwards the tree
    /// is the committed one. Of a tree of another store all is copied, of another handle of this store
    /// what this one has not. A commit that is there already is not
    /// written again. `Invalid` for a value or an empty directory. After an error nothing is changed;
    /// `Poisoned` follows when the disk did not take back what it took.
    pub fn commit(&mut self, tree: &mut Tree, info: &CommitInfo) -> Result<CommitHash> {
        let Some(recorder) = self.options.recorder.clone() else {
            return self.write_commit(tree, info);
        };
        let traced = tree.take_traced(&recorder);
        let handle = traced.handle();
        let (begun, outcome) = trace::run(&recorder, || self.write_commit(tree, info));
        let answer = outcome.as_ref().map_or(Answer::Failed, |hash| Answer::Hash(**hash));
        let CommitInfo { parents, date, author, message } = info;
        let (action, date) = (Action::Commit, *date as u64);
        recorder.end(
            begun,
            action,
            |to| to.handle(handle).keys(parents).number(date).bytes(author).bytes(message),
            answer,
        );
        tree.give_traced(traced);
        outcome
    }

    /// Runs `work` as a call of which only what it was given is told: how far it comes depends on the store's files.
    pub(super) fn told<T>(
        &mut self,
        action: Action,
        arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
        work: impl FnOnce(&mut Store) -> Result<T>,
    ) -> Result<T> {
        self.told_with(action, arguments, |_| Answer::Nothing, work)
    }

    /// Runs `work` as a call.
    pub(super) fn told_with<T>(
        &mut self,
        action: Action,
        arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
        answer: impl FnOnce(&T) -> Answer,
        work: impl FnOnce(&mut Store) -> Result<T>,
    ) -> Result<T> {
        let recorder = self.options.recorder.clone();
        trace::store_call(recorder.as_ref(), action, arguments, answer, || work(self))
    }

    fn write_commit(&mut self, tree: &mut Tree, info: &CommitInfo) -> Result<CommitHash> {
        let _span = self.span(Operation::Commit);
        let tip = self.tip()?;
        info.check()?;
        if tree.configuration() != self.configuration() {
            return Err(Error::invalid(
                "the tree has another hash configuration than the store: rebuild it under the store's",
            ));
        }
        if tree.kind() == TreeKind::Value || tree.is_empty()? {
            return Err(Error::invalid(
                "only a directory with something in it can be committed: add a value first",
            ));
        }
        let load = Arc::clone(&self.pack) as Arc<dyn Load>;
        if tree.load().is_some_and(|own| own.identity() != load.identity()) {
            *tree = tree.taken_over(&load)?;
        }
        if let Slot::Embedded(_) = tree.root() {
            let root = tree.open(tree.root())?.expect("it is a directory");
            let load =
                tree.load().map_or_else(|| Arc::clone(&self.pack) as Arc<dyn Load>, Arc::clone);
            tree.set_root(load, Slot::Node(root));
        }
        let tree_hash = tree.inner_hash()?;
        let commit_hash = info.hash(&tree_hash);
        let found = self.find_commit(&commit_hash)?;
        if let Some(offset) = found.filter(|offset| tip.stays_for_good(*offset)) {
            let (_, body) = self.commit_at(offset)?;
            tree.set_root(load, Slot::StoredNode(body.root));
            return Ok(commit_hash);
        }
        drop(self.settled_index()?);
        let known = match tree.root() {
            Slot::Node(root) => self.known_objects(root)?,
            _ => None,
        };
        // From here to the append nobody else may append.
        let shared = Arc::clone(&self.index);
        let mut index = lock(&shared);
        let mut writer = tip.writer()?;
        tip.make_room(&self.pack, &mut index, &mut writer)?;
        let start = writer.next_offset();
        let pack = &self.pack;
        let (root, at, mut written) = writer.beside_collection(pack, |writer, barrier| {
            let mut sink = |parts: &[&[u8]]| writer.spill(&*self.disk, parts, pack);
            let batch = Batch::new(pack, start, known.as_ref()).behind(barrier);
            let mut batch = batch.in_pieces(&mut sink);
            let root = match tree.root() {
                Slot::Node(node) => batch.put_tree(node)?,
                Slot::StoredNode(offset) => {
                    batch.expect(*offset)?;
                    *offset
                }
                _ => unreachable!("a value was refused"),
            };
            let at = self.put_commit(&mut batch, root, &commit_hash, info);
            Ok((root, at, batch.finish()))
        })?;
        let bytes = std::mem::take(&mut written.bytes);
        let synced = self.options.durability == Durability::Synced;
        writer.append(&*self.disk, &bytes, synced, &self.pack)?;
        writer.note_commit(at);
        {
            let mut state = self.state();
            state.last_commit = at;
            state.sequence += 1;
        }
        index.put_commit(&commit_hash, at);
        index.put_objects(&written.fresh, known.as_ref());
        // The commit stands. What the index does not take now stays in memory until the next one.
        self.counted(&mut index, |index| drop(index.settle()));
        let moment = self.moment_of(&index, &writer);
        drop(index);
        drop(writer);
        tree.set_root(load, Slot::StoredNode(root));
        written.settle(&self.pack);
        self.show(moment);
        if let Some(meter) = self.pack.meter() {
            meter.committed(&commit_hash);
        }
        Ok(commit_hash)
    }

    /// Adds the record of a commit whose tree is at `root`, and returns where it is.
    fn put_commit(
        &self,
        batch: &mut Batch<'_>,
        root: u64,
        hash: &CommitHash,
        info: &CommitInfo,
    ) -> u64 {
        let (extent, at) = (batch.len(), batch.next());
        let (sequence, previous) = {
            let state = self.state();
            (state.sequence, state.last_commit)
        };
        let body = CommitBody {
            sequence,
            previous,
            root,
            extent,
            parents: info.sorted_parents(),
            date: info.date,
            author: info.author.clone(),
            message: info.message.clone(),
        };
        batch.put(Tag::Commit, hash, &body.encode(at))
    }

    /// Runs what may write to the index, and tells the observer how much it wrote.
    fn counted<T>(&self, index: &mut HashIndex, action: impl FnOnce(&mut HashIndex) -> T) -> T {
        let before = index.traffic().written_bytes;
        let outcome = action(index);
        let bytes = index.traffic().written_bytes - before;
        observer::count(self.pack.meter(), |meter| &meter.bytes_written, bytes);
        outcome
    }

    /// The live objects below `root` that the store has, if it finds every object.
    fn known_objects(&mut self, root: &Arc<Node>) -> Result<Option<Objects>> {
        let index = Arc::clone(&self.index);
        let mut index = lock(&index);
        if !index.keeps_objects() {
            return Ok(None);
        }
        let hashes = batch::live_objects(root);
        match index.known_objects(&hashes) {
            Err(error) if is_damage(&error) => {
                self.remake(&mut index, &error.to_string())?;
                index.known_objects(&hashes).map(Some)
            }
            known => known.map(Some),
        }
    }

    pub(super) fn remake(&self, index: &mut HashIndex, why: &str) -> Result<()> {
        self.expect_below(index)?;
        index.warn(format!("the index is made from the pack again: {why}"));
        self.start_again(index)
    }

    /// Begins the index again and brings it to the end of the pack, for which readers wait; after an error
    /// those of commits search the pack. Nobody has the writer.
    fn start_again(&self, index: &mut HashIndex) -> Result<()> {
        // The tables that readers look into are closed next.
        self.show_unindexed(index);
        index.start_again(self.nothing())?;
        self.catch_up(index)?;
        self.show_indexed(index);
        Ok(())
    }

    /// Makes the index from the pack again. Reads one record a commit, or with
    /// [`Index::Always`](crate::context::Index::Always) all of the pack. A [`Reader`](crate::context::Reader) that
    /// asks for a hash waits meanwhile; those of other processes go on with the index that they have open.
    pub fn rebuild_index(&mut self) -> Result<()> {
        let _span = self.span(Operation::RebuildIndex);
        self.tip()?;
        let index = Arc::clone(&self.index);
        let mut index = lock(&index);
        self.expect_below(&index)?;
        self.start_again(&mut index)?;
        drop(index);
        self.checkpoint()
    }

    /// Syncs the pack, saves the index, and records how far both are known, so that opening scans less.
    pub fn checkpoint(&mut self) -> Result<()> {
        let Some(recorder) = self.options.recorder.clone() else { return self.write_checkpoint() };
        let nothing = |(): &()| Answer::Nothing;
        trace::store_call(
            Some(&recorder),
            Action::Checkpoint,
            |to| to,
            nothing,
            || self.write_checkpoint(),
        )
    }

    fn write_checkpoint(&mut self) -> Result<()> {
        let _span = self.span(Operation::Checkpoint);
        let tip = self.tip()?;
        drop(self.settled_index()?);
        let shared = Arc::clone(&self.index);
        let mut index = lock(&shared);
        let mut writer = tip.writer()?;
        writer.sync(&*self.disk, self.pack.meter())?;
        let (place, checkpoint) = (writer.place(), writer.checkpoint());
        self.counted(&mut index, |index| index.save(place))?;
        tip.write_control(&self.pack, &mut writer, checkpoint)
    }

    /// Takes a checkpoint if one is due, and returns whether: about once in 16 MiB of new pack, and in 1,024
    /// commits. Begins the next chunk when the last is seven eighths full. A host that calls this between
    /// two commits, when nobody waits, keeps all syncs but their own out of them: a commit ends a chunk
    /// that is full, and saves the index when four times as much was never saved.
    pub fn maintain(&mut self) -> Result<bool> {
        let tip = self.tip()?;
        {
            let mut writer = tip.writer()?;
            if tip.ends_soon(&writer) {
                let _span = self.span(Operation::BeginChunk);
                tip.roll(&self.pack, &mut writer, false)?;
                // Its name, for which the first commit in it would be the next to sync.
                writer.sync(&*self.disk, self.pack.meter())?;
            }
        }
        let is_due = {
            let index = lock(&self.index);
            tip.is_checkpoint_due(&index, &*tip.writer()?)
        };
        if is_due {
            self.checkpoint()?;
        }
        Ok(is_due)
    }

    /// Ends the last chunk and begins another: what a collection or an archive takes is whole chunks.
    /// One sync.
    pub fn begin_chunk(&mut self) -> Result<()> {
        let _span = self.span(Operation::BeginChunk);
        let tip = self.tip()?;
        let mut writer = tip.writer()?;
        tip.roll(&self.pack, &mut writer, false)
    }

    /// Makes `name` the name of a commit. One append, one sync. `Missing` for an unknown commit, `Collected` for one that
    /// went or is about to go, `Invalid` for an empty name, for one of more than 4,096 bytes,
    /// and for more branches than there is room for.
    pub fn set_branch(&mut self, name: &[u8], commit: &CommitHash) -> Result<()> {
        let Some(recorder) = self.options.recorder.clone() else {
            return self.name_commit(name, commit);
        };
        let nothing = |(): &()| Answer::Nothing;
        trace::store_call(
            Some(&recorder),
            Action::SetBranch,
            |to| to.bytes(name).hash(commit),
            nothing,
            || self.name_commit(name, commit),
        )
    }

    fn name_commit(&mut self, name: &[u8], commit: &CommitHash) -> Result<()> {
        if name.is_empty() || name.len() > BRANCH_MAX {
            return Err(Error::invalid(format!(
                "a branch has a name of 1 to {BRANCH_MAX} bytes, not {}",
                name.len()
            )));
        }
        let offset = self.commit_offset(commit)?;
        self.expect_to_stay(commit, offset)?;
        self.expect_room_for_branch(name)?;
        self.put_reference(name, Some(commit))
    }

    /// Makes `name` the name of `new` if it is now that of `expected`; returns whether it was. Errors are those of
    /// [`Store::set_branch`].
    pub fn test_and_set_branch(
        &mut self,
        name: &[u8],
        expected: Option<&CommitHash>,
        new: Option<&CommitHash>,
    ) -> Result<bool> {
        if self.state().branches.get(name) != expected {
            return Ok(false);
        }
        match new {
            Some(commit) => self.set_branch(name, commit)?,
            None => self.remove_branch(name)?,
        }
        Ok(true)
    }

    /// Removes a branch; nothing happens when there is none. One append, one sync.
    pub fn remove_branch(&mut self, name: &[u8]) -> Result<()> {
        let Some(recorder) = self.options.recorder.clone() else { return self.unname(name) };
        let nothing = |(): &()| Answer::Nothing;
        trace::store_call(
            Some(&recorder),
            Action::RemoveBranch,
            |to| to.bytes(name),
            nothing,
            || self.unname(name),
        )
    }

    fn unname(&mut self, name: &[u8]) -> Result<()> {
        if self.branch(name).is_some() {
            self.put_reference(name, None)?;
        }
        Ok(())
    }

    /// `Invalid` when a branch more is more than a control file holds.
    fn expect_room_for_branch(&self, name: &[u8]) -> Result<()> {
        let state = self.state();
        let bytes: usize = state.branches.keys().map(|name| name.len() + 34).sum();
        if state.branches.contains_key(name) || bytes + name.len() + 34 <= BRANCHES_BYTES_MAX {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the names of all branches would take more than {BRANCHES_BYTES_MAX} bytes: remove some"
        )))
    }

    fn put_reference(&mut self, name: &[u8], commit: Option<&CommitHash>) -> Result<()> {
        let path = [name];
        let _span = Span::begin(self.pack.meter().cloned(), Operation::Branch, &path);
        let tip = self.tip()?;
        let shared = Arc::clone(&self.index);
        let mut index = lock(&shared);
        let mut writer = tip.writer()?;
        tip.make_room(&self.pack, &mut index, &mut writer)?;
        let mut batch = Batch::new(&self.pack, writer.next_offset(), None);
        batch.put(Tag::Reference, commit.map_or(&[0; 32], CommitHash::as_bytes), name);
        let written = batch.finish();
        let synced = self.options.durability == Durability::Synced;
        writer.append(&*self.disk, &written.bytes, synced, &self.pack)?;
        // While the writer is ours: a tree that spills may write a checkpoint behind the batch, which
        // has to know the branch.
        {
            let mut state = self.state();
            match commit {
                Some(commit) => drop(state.branches.insert(name.to_vec(), *commit)),
                None => drop(state.branches.remove(name)),
            }
        }
        let moment = self.moment_of(&index, &writer);
        drop(writer);
        drop(index);
        self.show(moment);
        Ok(())
    }

    /// Removes everything and begins a new epoch, which readers see at their next reload. Trees checked
    /// out before stay readable: the files go with the last of them. The next opening to write removes what is
    /// left of them; then trees and readers of before have what they have open, 64 chunks or more, and say
    /// `Missing` of the rest.
    pub fn clear(&mut self) -> Result<()> {
        self.told(Action::Clear, |to| to, Store::begin_epoch)
    }

    fn begin_epoch(&mut self) -> Result<()> {
        let _span = self.span(Operation::Clear);
        let tip = self.tip()?;
        let mut writer = tip.writer()?;
        let old = &self.control;
        let mut control = Control::empty(old.store, old.configuration, old.index, old.epoch + 1);
        let first = paths::chunk(control.epoch, 0);
        whose::expect_free(&*self.disk, control.store, &first, tip::FIRST_BYTES)?;
        let (mut append, opening) = create_first_chunk(&*self.disk, &control)?;
        // After an error, or where the disk panics, no sync is repeated.
        writer.poisoned = true;
        append.sync()?;
        self.disk.sync_directory("")?;
        writer.poisoned = false;
        tip.replace_control(&self.pack, &mut writer, &control)?;
        let cache = Arc::clone(self.pack.cache());
        let of = (control.store, control.epoch);
        let pack = Pack::new(Arc::clone(&self.disk), of, cache, &self.options);
        let old = std::mem::replace(&mut self.pack, Arc::new(pack));
        *self.state() = State::default();
        std::mem::swap(&mut self.control, &mut control);
        let last = writer.begin_epoch(&self.pack, self.control.clone(), append, &opening);
        if let Some(mut collection) = writer.collection.take() {
            tip.give_up(&mut writer, &mut collection);
        }
        // What is in the lower folder stays there: it may be somebody's archive.
        let chunks: Vec<_> = old.chunks().iter().filter_map(Chunk::own).collect();
        // What a collection has made nobody has read yet: while it is open trees have it after an opening too.
        for chunk in chunks.iter().rev().take(old.files.at_once()) {
            drop(old.files.get(chunk));
        }
        let removal = writer.removal.take().map(|removal| removal.path().to_owned());
        let going = chunks.into_iter().chain(std::mem::take(&mut writer.doomed));
        let going: Vec<Arc<Chunk>> = going.collect();
        // Trees may hold the pack for long: its last file may be closed as the others.
        old.files.count(&last);
        drop(writer);
        // Each is opened for it: whoever else waits for the writer gets in between.
        let goes = |chunk: &&Arc<Chunk>| {
            let kept = tip.writer().and_then(|mut writer| tip.is_kept(&mut writer, chunk));
            matches!(kept, Ok(false))
        };
        let going = going.iter().filter(goes).map(|chunk| chunk.path.clone());
        let going: Vec<_> = going.chain(removal).collect();
        self.let_trees_spill();
        // Those of before look into tables that are closed next.
        self.show_cleared();
        {
            // The store is cleared. An index that cannot be made now is made by the next commit.
            let mut index = lock(&self.index);
            let _ = index.start_again(self.nothing()).and_then(|()| index.reach_end(self.place()));
        }
        let keeper: Arc<dyn Any + Send + Sync> = tip;
        old.files.doom(Arc::downgrade(&keeper), &self.warnings, going);
        Ok(())
    }

    /// Takes a checkpoint and closes the store. Dropping it instead loses nothing that was committed,
    /// but the next opening scans more.
    pub fn close(mut self) -> Result<()> {
        if self.tip.is_some() { self.checkpoint() } else { Ok(()) }
    }
}
