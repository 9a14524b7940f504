//! Context stores.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use varvite::context::{self, CommitHash, CommitInfo, Limits, Options};
use varvite::disk::Disk;

use crate::answer::{Checked, Commit, StoreStats};
use crate::callback::Slot;
use crate::context::merge::{Merge, Resolver};
use crate::context::options::{self, Configuration};
use crate::context::tree::Tree;
use crate::disk::Place;
use crate::fault::{Outcome, call};
use crate::held::Held;
use crate::input::{bytes, hash, hashes};

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
        let (options, observer) = options::store(py, given)?;
        let place = Place::of(py, place)?;
        let store = call(py, || Ok(open(place.disk(create)?, options)?))?;
        Ok(Store(Held::new("store", store), observer))
    }
}

/// A `str` or a buffer.
fn text(object: Object<'_, '_>, what: &str) -> PyResult<Vec<u8>> {
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

fn told(hashes: Vec<CommitHash>) -> Vec<Vec<u8>> {
    hashes.into_iter().map(|it| it.to_vec()).collect()
}

fn tell_commit(from: context::Commit) -> Commit {
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
            let mut store = self.0.write()?;
            let mut tree = tree.0.write()?;
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
            let store = self.0.read()?;
            Ok(store.hash(&*tree.0.read()?, &info)?.to_vec())
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
        self.close(py)
    }
}
