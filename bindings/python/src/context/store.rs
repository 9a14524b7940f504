//! Context stores.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use varvite::context::{
    self, CollectPhase, CommitFileOptions, CommitHash, CommitInfo, Keep, Limits, Options,
};
use varvite::disk::Disk;

use crate::answer::{Checked, CollectStatus, Commit, CommitFile, StoreStats};
use crate::callback::Slot;
use crate::context::merge::{Merge, Resolver};
use crate::context::options::{self, Configuration};
use crate::context::reader::Reader;
use crate::context::snapshot;
use crate::context::tree::Tree;
use crate::disk::Place;
use crate::fault::{Outcome, call, invalid};
use crate::held::{Held, ToRead, ToWrite, both};
use crate::input::{bytes, hash, hashes};
use crate::lock::holding;

/// A context store: commits of trees, one process that writes, any number that read.
#[pyclass(frozen, module = "varvite")]
pub struct Store(pub Held<context::Store>, Option<Arc<Slot>>);

type Given<'a, 'py> = &'a Bound<'py, PyDict>;
type Object<'a, 'py> = &'a Bound<'py, PyAny>;

impl Store {
    pub fn new(store: context::Store) -> Store {
        Store(Held::new("store", store), None)
    }

    fn opened(
        place: Object<'_, '_>,
        given: Option<Given<'_, '_>>,
        create: bool,
        open: fn(Arc<dyn Disk>, Options) -> varvite::Result<context::Store>,
    ) -> PyResult<Store> {
        let py = place.py();
        let (mut options, lower, observer) = options::store(py, given)?;
        let place = Place::of(py, place)?;
        let store = call(py, || {
            options.lower = lower.map(|it| it.disk(create)).transpose()?;
            Ok(open(place.disk(create)?, options)?)
        })?;
        Ok(Store(Held::new("store", store), observer))
    }
}

/// A `str` or a buffer.
pub fn text(object: Object<'_, '_>, what: &str) -> PyResult<Vec<u8>> {
    match object.cast::<pyo3::types::PyString>() {
        Ok(text) => Ok(text.to_str()?.as_bytes().to_vec()),
        Err(_) => Ok(bytes(object, what)?.into_owned()),
    }
}

fn optional_text(object: Option<Object<'_, '_>>, what: &str) -> PyResult<Vec<u8>> {
    object.map_or_else(|| Ok(Vec::new()), |it| text(it, what))
}

fn commit_info(
    parents: Option<Object<'_, '_>>,
    date: i64,
    author: Option<Object<'_, '_>>,
    message: Option<Object<'_, '_>>,
) -> PyResult<CommitInfo> {
    let (author, message) = (optional_text(author, "author")?, optional_text(message, "message")?);
    Ok(CommitInfo::new(&hashes(parents)?, date, author, message))
}

fn limits(commits: Option<usize>, bases: Option<usize>) -> Limits {
    let default = Limits::default();
    Limits { commits: commits.unwrap_or(default.commits), bases: bases.unwrap_or(default.bases) }
}

pub fn told(hashes: Vec<CommitHash>) -> Vec<Vec<u8>> {
    hashes.into_iter().map(|it| it.to_vec()).collect()
}

pub fn tell_commit(from: context::Commit) -> Commit {
    Commit {
        hash: from.hash.to_vec(),
        tree: from.tree.to_vec(),
        parents: told(from.parents),
        date: from.date,
        author: from.author,
        message: from.message,
        sequence: from.sequence,
    }
}

#[pymethods]
impl Store {
    /// Makes a store in an empty folder and opens it for writing.
    #[staticmethod]
    #[pyo3(signature = (place, **options))]
    fn create(place: Object<'_, '_>, options: Option<Given<'_, '_>>) -> PyResult<Store> {
        Store::opened(place, options, true, context::Store::create)
    }

    /// Opens a store for writing.
    #[staticmethod]
    #[pyo3(signature = (place, **options))]
    fn open(place: Object<'_, '_>, options: Option<Given<'_, '_>>) -> PyResult<Store> {
        Store::opened(place, options, false, context::Store::open)
    }

    /// Opens the store that is there for writing, or makes one: for programs that do not care whether they are the first
    /// to run.
    #[staticmethod]
    #[pyo3(signature = (place, **options))]
    fn open_or_create(place: Object<'_, '_>, options: Option<Given<'_, '_>>) -> PyResult<Store> {
        Store::opened(place, options, true, context::Store::open_or_create_on)
    }

    /// Makes a store of the commits in the file `path` of `source`, in an empty folder. `InvalidError` when the file has another
    /// configuration than the one that is asked for, Tezos' by default: nothing in it vouches for it.
    #[staticmethod]
    #[pyo3(signature = (place, source, path, **options))]
    fn create_from_commit(
        place: Object<'_, '_>,
        source: Object<'_, '_>,
        path: &str,
        options: Option<Given<'_, '_>>,
    ) -> PyResult<(Store, CommitFile)> {
        let py = place.py();
        let (mut options, lower, observer) = options::store(py, options)?;
        let (place, source) = (Place::of(py, place)?, Place::of(py, source)?);
        let (store, file) = call(py, || {
            options.lower = lower.map(|it| it.disk(true)).transpose()?;
            let (disk, source) = (place.disk(true)?, source.disk(false)?);
            Ok(context::Store::create_from_commit(disk, options, &*source, path)?)
        })?;
        Ok((Store(Held::new("store", store), observer), snapshot::tell(&file)))
    }

    /// Opens a store to read while another process may write to it: as of now, until `reload`.
    #[staticmethod]
    #[pyo3(signature = (place, **options))]
    fn open_read_only(place: Object<'_, '_>, options: Option<Given<'_, '_>>) -> PyResult<Store> {
        Store::opened(place, options, false, context::Store::open_read_only)
    }

    /// An empty working tree of this store, which spills to the store's pack what is too much for memory.
    fn empty_tree(&self, py: Python<'_>) -> PyResult<Tree> {
        call(py, || Ok(Tree::new(self.0.read()?.empty_tree())))
    }

    /// The tree of a commit, loaded as it is looked at.
    fn checkout(&self, py: Python<'_>, commit: Object<'_, '_>) -> PyResult<Tree> {
        let commit = hash(commit)?;
        call(py, || Ok(Tree::new(self.0.read()?.checkout(&commit)?)))
    }

    /// Commits `tree`, which is then the committed one, and gives the commit's hash. After an error nothing is changed.
    #[pyo3(signature = (tree, *, parents = None, date = 0, author = None, message = None))]
    fn commit(
        &self,
        py: Python<'_>,
        tree: PyRef<'_, Tree>,
        parents: Option<Object<'_, '_>>,
        date: i64,
        author: Option<Object<'_, '_>>,
        message: Option<Object<'_, '_>>,
    ) -> PyResult<Vec<u8>> {
        let (info, tree) = (commit_info(parents, date, author, message)?, &*tree);
        call(py, || {
            let (mut store, mut tree) = both(&ToWrite(&self.0), &ToWrite(&tree.0))?;
            Ok(store.commit(&mut tree, &info)?.to_vec())
        })
    }

    /// The hash that `commit` would give, without committing.
    #[pyo3(signature = (tree, *, parents = None, date = 0, author = None, message = None))]
    fn hash(
        &self,
        py: Python<'_>,
        tree: PyRef<'_, Tree>,
        parents: Option<Object<'_, '_>>,
        date: i64,
        author: Option<Object<'_, '_>>,
        message: Option<Object<'_, '_>>,
    ) -> PyResult<Vec<u8>> {
        let (info, tree) = (commit_info(parents, date, author, message)?, &*tree);
        call(py, || {
            let (store, tree) = both(&ToRead(&self.0), &ToRead(&tree.0))?;
            Ok(store.hash(&tree, &info)?.to_vec())
        })
    }

    /// Whether a commit with this hash is here.
    fn exists(&self, py: Python<'_>, commit: Object<'_, '_>) -> PyResult<bool> {
        let commit = hash(commit)?;
        call(py, || Ok(self.0.read()?.exists(&commit)?))
    }

    /// What a commit says.
    fn commit_info(&self, py: Python<'_>, commit: Object<'_, '_>) -> PyResult<Commit> {
        let commit = hash(commit)?;
        call(py, || Ok(tell_commit(self.0.read()?.commit_info(&commit)?)))
    }

    /// The commit that the store took last.
    fn last_commit(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        call(py, || Ok(self.0.read()?.last_commit()?.map(|it| it.to_vec())))
    }

    /// The commits of the store, newest first.
    #[pyo3(signature = (limit = None))]
    fn log(&self, py: Python<'_>, limit: Option<usize>) -> PyResult<Vec<Vec<u8>>> {
        call(py, || Ok(told(self.0.read()?.log(limit.unwrap_or(usize::MAX))?)))
    }

    /// The commits that `heads` descend from, they included, children before their parents.
    #[pyo3(signature = (heads, limit = None))]
    fn history(
        &self,
        py: Python<'_>,
        heads: Object<'_, '_>,
        limit: Option<usize>,
    ) -> PyResult<Vec<Commit>> {
        let heads = hashes(Some(heads))?;
        call(py, || {
            let found = self.0.read()?.history(&heads, limit.unwrap_or(usize::MAX))?;
            Ok(found.into_iter().map(tell_commit).collect())
        })
    }

    /// The common ancestors of two commits that no other common ancestor descends from, the oldest first.
    #[pyo3(signature = (ours, theirs, *, commits = None, bases = None))]
    fn lowest_common_ancestors(
        &self,
        py: Python<'_>,
        ours: Object<'_, '_>,
        theirs: Object<'_, '_>,
        commits: Option<usize>,
        bases: Option<usize>,
    ) -> PyResult<Vec<Vec<u8>>> {
        let (ours, theirs, limits) = (hash(ours)?, hash(theirs)?, limits(commits, bases));
        call(py, || Ok(told(self.0.read()?.lowest_common_ancestors(&ours, &theirs, limits)?)))
    }

    /// Merges two commits into a tree, and changes nothing in the store. `resolve` as of `Tree.merge`.
    #[pyo3(signature = (ours, theirs, resolve = None, *, commits = None, bases = None))]
    fn merge_commits(
        &self,
        py: Python<'_>,
        ours: Object<'_, '_>,
        theirs: Object<'_, '_>,
        resolve: Option<Py<PyAny>>,
        commits: Option<usize>,
        bases: Option<usize>,
    ) -> PyResult<Merge> {
        let (ours, theirs, limits) = (hash(ours)?, hash(theirs)?, limits(commits, bases));
        let merge = call(py, || {
            let mut resolver = Resolver::new(resolve, true);
            let outcome = self
                .0
                .read()?
                .merge_commits(&ours, &theirs, limits, |path, sides| resolver.ask(path, sides));
            resolver.answers.outcome(outcome)
        })?;
        match merge {
            context::Merge::Unchanged => Ok(Merge::nothing("unchanged")),
            context::Merge::FastForward => Ok(Merge::nothing("fast_forward")),
            context::Merge::Merged(tree) => {
                Merge::of(py, context::Merged { tree, conflicts: Vec::new() })
            }
            context::Merge::Conflicts(merged) => Merge::of(py, merged),
        }
    }

    /// Merges the commit `theirs` into a branch, and commits what both have. A branch that is not there becomes `theirs`.
    /// Nothing is changed when there are conflicts. `resolve` as of `Tree.merge`.
    #[pyo3(signature = (
        branch, theirs, resolve = None, *, date = 0, author = None, message = None, commits = None, bases = None,
    ))]
    fn merge_branch(
        &self,
        py: Python<'_>,
        branch: Object<'_, '_>,
        theirs: Object<'_, '_>,
        resolve: Option<Py<PyAny>>,
        date: i64,
        author: Option<Object<'_, '_>>,
        message: Option<Object<'_, '_>>,
        commits: Option<usize>,
        bases: Option<usize>,
    ) -> PyResult<Merge> {
        let (branch, theirs) = (text(branch, "branch")?, hash(theirs)?);
        let (info, limits) = (commit_info(None, date, author, message)?, limits(commits, bases));
        let merge = call(py, || {
            let mut resolver = Resolver::new(resolve, true);
            let outcome =
                self.0.write()?.merge_branch(&branch, &theirs, &info, limits, |path, sides| {
                    resolver.ask(path, sides)
                });
            resolver.answers.outcome(outcome)
        })?;
        match merge {
            context::Merge::Unchanged => Ok(Merge::nothing("unchanged")),
            context::Merge::FastForward => Ok(Merge::nothing("fast_forward")),
            context::Merge::Merged(commit) => {
                Ok(Merge { commit: Some(commit.to_vec()), ..Merge::nothing("merged") })
            }
            context::Merge::Conflicts(merged) => Merge::of(py, merged),
        }
    }

    /// The commit that a branch names.
    fn branch(&self, py: Python<'_>, name: Object<'_, '_>) -> PyResult<Option<Vec<u8>>> {
        let name = text(name, "branch")?;
        call(py, || Ok(self.0.read()?.branch(&name).map(|it| it.to_vec())))
    }

    /// All branches, by name, each with its commit.
    fn branches(&self, py: Python<'_>) -> PyResult<Vec<(Vec<u8>, Vec<u8>)>> {
        call(py, || {
            let found = self.0.read()?.branches();
            Ok(found.into_iter().map(|(name, hash)| (name, hash.to_vec())).collect())
        })
    }

    /// Makes `name` the name of a commit, which must be in the store.
    fn set_branch(
        &self,
        py: Python<'_>,
        name: Object<'_, '_>,
        commit: Object<'_, '_>,
    ) -> PyResult<()> {
        let (name, commit) = (text(name, "branch")?, hash(commit)?);
        call(py, || Ok(self.0.write()?.set_branch(&name, &commit)?))
    }

    /// Makes `name` the name of `new` if it is now that of `expected`; `None` stands for no branch. Says whether it was.
    fn test_and_set_branch(
        &self,
        py: Python<'_>,
        name: Object<'_, '_>,
        expected: Option<Object<'_, '_>>,
        new: Option<Object<'_, '_>>,
    ) -> PyResult<bool> {
        let name = text(name, "branch")?;
        let (expected, new) = (expected.map(hash).transpose()?, new.map(hash).transpose()?);
        call(py, || {
            Ok(self.0.write()?.test_and_set_branch(&name, expected.as_ref(), new.as_ref())?)
        })
    }

    /// Removes a branch; nothing happens when there is none.
    fn remove_branch(&self, py: Python<'_>, name: Object<'_, '_>) -> PyResult<()> {
        let name = text(name, "branch")?;
        call(py, || Ok(self.0.write()?.remove_branch(&name)?))
    }

    /// The value or directory with this hash, in a store that finds every object.
    fn find_object(&self, py: Python<'_>, hash: Object<'_, '_>) -> PyResult<Option<Tree>> {
        let hash = self::hash(hash)?;
        call(py, || Ok(self.0.read()?.find_object(&hash)?.map(Tree::new)))
    }

    /// Sees what another process committed since the store was opened or last reloaded.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(self.0.write()?.reload()?))
    }

    /// Syncs the pack, saves the index, and records how far both are known, so that opening scans less.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(self.0.write()?.checkpoint()?))
    }

    /// Takes a checkpoint if one is due, and says whether: to be called between two commits, when nobody waits.
    fn maintain(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || Ok(self.0.write()?.maintain()?))
    }

    /// Has the next commit go to a new chunk of the pack.
    fn begin_chunk(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(self.0.write()?.begin_chunk()?))
    }

    /// Makes the index again from the pack.
    fn rebuild_index(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(self.0.write()?.rebuild_index()?))
    }

    /// Removes all commits and branches.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(self.0.write()?.clear()?))
    }

    /// Begins a collection: commits that the store took before `target` go, but for those that branches name and those
    /// that are pinned. `collect_step` does the work.
    fn collect(&self, py: Python<'_>, target: Object<'_, '_>) -> PyResult<()> {
        let target = hash(target)?;
        call(py, || Ok(self.0.write()?.collect(&target)?))
    }

    /// Begins a collection that keeps the newest commits, so many of them, or those since a moment in seconds since 1970.
    /// `False` when one is under way or paused, or nothing would go: a program may call it after each commit.
    #[pyo3(signature = (*, newest = None, since = None))]
    fn collect_keeping(
        &self,
        py: Python<'_>,
        newest: Option<u64>,
        since: Option<i64>,
    ) -> PyResult<bool> {
        let keep = match (newest, since) {
            (Some(commits), None) => Keep::Newest(commits),
            (None, Some(date)) => Keep::Since(date),
            _ => return Err(invalid(py, "say what is kept by one of newest and since")),
        };
        call(py, || Ok(self.0.write()?.collect_keeping(&keep)?))
    }

    /// Does work of about `credits` KiB read or written for the collection that is under way; whether some is left.
    fn collect_step(&self, py: Python<'_>, credits: u64) -> PyResult<bool> {
        call(py, || Ok(self.0.write()?.collect_step(credits)?))
    }

    /// How far a collection is.
    fn collect_status(&self, py: Python<'_>) -> PyResult<CollectStatus> {
        call(py, || {
            let from = self.0.read()?.collect_status()?;
            let phase = match from.phase {
                CollectPhase::None => "none",
                CollectPhase::Marking => "marking",
                CollectPhase::Cleaning => "cleaning",
            };
            Ok(CollectStatus {
                phase: phase.to_owned(),
                is_paused: from.is_paused,
                target: from.target.map(|it| it.to_vec()),
                chunks_left: from.chunks_left,
                left_bytes: from.left_bytes,
                reclaimed_bytes: from.reclaimed_bytes,
                collections: from.collections,
            })
        })
    }

    /// Lets steps do nothing until `collect_resume`, also of whoever opens the store later.
    fn collect_pause(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(self.0.write()?.collect_pause()?))
    }

    /// Lets steps go on.
    fn collect_resume(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(self.0.write()?.collect_resume()?))
    }

    /// Ends the collection that is under way, and says whether one was. Commits that are collected already stay so.
    fn collect_cancel(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || Ok(self.0.write()?.collect_cancel()?))
    }

    /// Keeps a commit, and all of its tree, through every collection until it is unpinned.
    fn pin(&self, py: Python<'_>, commit: Object<'_, '_>) -> PyResult<()> {
        let commit = hash(commit)?;
        call(py, || Ok(self.0.write()?.pin(&commit)?))
    }

    /// Pins every `nth` commit that goes with no collection; how many were not pinned before.
    fn pin_every(&self, py: Python<'_>, nth: u64) -> PyResult<u64> {
        call(py, || Ok(self.0.write()?.pin_every(nth)?))
    }

    /// Lets the next collection take a commit; whether it was pinned.
    fn unpin(&self, py: Python<'_>, commit: Object<'_, '_>) -> PyResult<bool> {
        let commit = hash(commit)?;
        call(py, || Ok(self.0.write()?.unpin(&commit)?))
    }

    /// The commits that are pinned, in the order in which the store took them.
    fn pins(&self, py: Python<'_>) -> PyResult<Vec<Vec<u8>>> {
        call(py, || Ok(told(self.0.read()?.pins()?)))
    }

    /// Moves whole chunks with commits before `target` to the lower folder, the oldest first; how many.
    #[pyo3(signature = (target, most = u64::MAX))]
    fn archive(&self, py: Python<'_>, target: Object<'_, '_>, most: u64) -> PyResult<u64> {
        let target = hash(target)?;
        call(py, || Ok(self.0.write()?.archive(&target, most)?))
    }

    /// Moves chunks back from the lower folder, the newest first; how many.
    #[pyo3(signature = (most = u64::MAX))]
    fn unarchive(&self, py: Python<'_>, most: u64) -> PyResult<u64> {
        call(py, || Ok(self.0.write()?.unarchive(most)?))
    }

    /// Takes chunks that a collection took from this store, and another copy of it has in the lower folder; how many.
    fn attach(&self, py: Python<'_>) -> PyResult<u64> {
        call(py, || Ok(self.0.write()?.attach()?))
    }

    /// Bytes of the chunks that are in the lower folder.
    #[getter]
    fn archived_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        call(py, || Ok(self.0.read()?.archived_bytes()))
    }

    /// Writes commits, all of which one descends from through others of them, as one file: `path` in a folder or disk.
    /// The bytes follow from the commits alone, but with `zstd_level`, 1 to 19, which compresses. `watch` is told how far
    /// it is.
    #[pyo3(signature = (commits, place, path, *, zstd_level = None, watch = None))]
    fn export_commits(
        &self,
        py: Python<'_>,
        commits: Object<'_, '_>,
        place: Object<'_, '_>,
        path: &str,
        zstd_level: Option<i32>,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<CommitFile> {
        let (commits, place) = (hashes(Some(commits))?, Place::of(py, place)?);
        let options = CommitFileOptions { zstd_level };
        call(py, || {
            let (disk, store) = (place.disk(true)?, self.0.read()?);
            let file = snapshot::watched(watch, |watch| {
                store.export_commits_watched(&commits, options, &disk, path, watch)
            })?;
            Ok(snapshot::tell(&file))
        })
    }

    /// Takes over the commits of a file that `export_commits` wrote. Everything is verified before it is in the store.
    #[pyo3(signature = (place, path, *, watch = None))]
    fn import_commit(
        &self,
        py: Python<'_>,
        place: Object<'_, '_>,
        path: &str,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<CommitFile> {
        let place = Place::of(py, place)?;
        call(py, || {
            let (disk, mut store) = (place.disk(false)?, self.0.write()?);
            let file =
                snapshot::watched(watch, |watch| store.import_commit_watched(&*disk, path, watch))?;
            Ok(snapshot::tell(&file))
        })
    }

    /// A handle that threads read with while this one commits: it sees each commit when it is done.
    fn reader(slf: &Bound<'_, Self>) -> PyResult<Reader> {
        let store = slf.get();
        let reader = call(slf.py(), || Ok(store.0.read()?.reader()?))?;
        Ok(Reader::new(reader, slf.clone().unbind()))
    }

    /// Reads everything and hashes it again.
    fn check(&self, py: Python<'_>) -> PyResult<Checked> {
        call(py, || {
            let from = self.0.read()?.check()?;
            Ok(Checked {
                commits: from.commits,
                nodes: from.nodes,
                values: from.values,
                collected: from.collected,
                index_faults: from.index_faults,
                missing: from.missing,
            })
        })
    }

    /// What was found wrong with the index, which was then made again.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || Ok(self.0.read()?.warnings()))
    }

    /// The shape of its directories.
    #[getter]
    fn configuration(&self, py: Python<'_>) -> PyResult<Configuration> {
        call(py, || Ok(Configuration(self.0.read()?.configuration())))
    }

    /// What it did and holds.
    fn stats(&self, py: Python<'_>) -> PyResult<StoreStats> {
        call(py, || {
            let from = self.0.read()?.stats();
            Ok(StoreStats {
                commits: from.commits,
                objects: from.objects,
                pack_bytes: from.pack_bytes,
                index_bytes: from.index_bytes,
                written_bytes: from.written_bytes,
                syncs: from.syncs,
                index_syncs: from.index_syncs,
                objects_bytes: from.objects_bytes,
                chunks: from.chunks,
                epoch: from.epoch,
                generation: from.generation,
            })
        })
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Takes a checkpoint and closes the store. Its trees stay readable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || -> Outcome {
            match self.0.take()? {
                Some(store) => Ok(store.close()?),
                None => Ok(()),
            }
        })
    }

    /// Of the store alone: trees tell its observer nothing any more once nobody can reach either.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.iter().try_for_each(|it| it.visit(&visit))
    }

    fn __clear__(&self) {
        self.1.iter().for_each(|it| it.clear());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        // What a signal kept open here nobody would close.
        holding(|| self.close(py))
    }
}
