//! Trees: states of a context.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use varvite::context::{self, Change, Depth, Kind, Order};

use crate::context::merge::{Merge, Resolver};
use crate::context::options::{Configuration, or_tezos};
use crate::context::walk::Walk;
use crate::fault::{Answers, Fault, Outcome, call, invalid, outer_callback};
use crate::held::Held;
use crate::input::{Flat, Steps, bytes, choose, flat, optional_path, path};
use crate::packed::{Packed, Values};

/// A state of a context: a tree of values.
#[pyclass(frozen, module = "varvite")]
pub struct Tree(pub Held<context::Tree>);

/// Names as trees have them.
pub type Path = Vec<Vec<u8>>;

pub const ORDERS: &[(&str, Order)] = &[("sorted", Order::Sorted), ("undefined", Order::Undefined)];

pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Value => "value",
        Kind::Directory => "directory",
    }
}

/// A path as Python sees it.
pub fn tuple<'py>(py: Python<'py>, path: &[Vec<u8>]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, path.iter().map(|it| PyBytes::new(py, it)))
}

impl Tree {
    pub fn new(tree: context::Tree) -> Tree {
        Tree(Held::new("tree", tree))
    }

    /// The state, in O(1): for what must not hold the lock, because it calls Python.
    pub fn copy(&self) -> Outcome<context::Tree> {
        Ok(self.0.read()?.clone())
    }

    fn find_bytes(&self, path: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        let steps = Steps::of(path)?;
        call(path.py(), || steps.with(|steps| Ok(self.0.read()?.find(steps)?)))
    }
}

/// The path of each name, between what comes before and after it.
struct Paths {
    before: Flat,
    names: Flat,
    after: Flat,
}

impl Paths {
    fn of(
        prefix: &Bound<'_, PyAny>,
        names: &Bound<'_, PyAny>,
        suffix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Paths> {
        Ok(Paths {
            before: path(prefix)?,
            names: flat(names, "name")?,
            after: optional_path(suffix)?,
        })
    }

    /// Calls `each` with the place and path of every name.
    fn each(&self, mut each: impl FnMut(&[&[u8]]) -> Outcome) -> Outcome {
        let mut steps = self.before.pieces();
        let place = steps.len();
        steps.push(&[]);
        steps.extend(self.after.iter());
        for name in self.names.iter() {
            steps[place] = name;
            each(&steps)?;
        }
        Ok(())
    }
}

type Difference = (Path, Option<Vec<u8>>, Option<Vec<u8>>);
/// The same as Python sees it.
type Told<'py> = (Bound<'py, PyTuple>, Option<Vec<u8>>, Option<Vec<u8>>);

#[pymethods]
impl Tree {
    /// An empty tree of no store; `configuration` is that of Tezos if left out.
    #[new]
    #[pyo3(signature = (configuration = None))]
    fn empty(configuration: Option<Configuration>) -> Tree {
        Tree::new(context::Tree::empty(or_tezos(configuration)))
    }

    /// A tree that is one value.
    #[staticmethod]
    #[pyo3(signature = (value, configuration = None))]
    fn of_value(value: &Bound<'_, PyAny>, configuration: Option<Configuration>) -> PyResult<Tree> {
        let value = bytes(value, "value")?;
        Ok(Tree::new(context::Tree::of_value(or_tezos(configuration), &value)))
    }

    /// The same state, independent from now on. O(1).
    fn duplicate(&self, py: Python<'_>) -> PyResult<Tree> {
        call(py, || Ok(Tree::new(self.copy()?)))
    }

    /// The value at a path; `None` when nothing is there, or a directory.
    fn find<'py>(&self, path: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.find_bytes(path)?.map(|it| PyBytes::new(path.py(), &it)))
    }

    fn __getitem__<'py>(&self, path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let found = self.find_bytes(path)?;
        let value = found.ok_or_else(|| PyKeyError::new_err(path.clone().unbind()))?;
        Ok(PyBytes::new(path.py(), &value))
    }

    /// The values at many paths, in their order.
    fn find_many(&self, py: Python<'_>, paths: &Bound<'_, PyAny>) -> PyResult<Values> {
        let paths = crate::input::paths(paths)?;
        call(py, || {
            let tree = self.copy()?;
            let mut values = Packed::with_room(paths.len(), 0);
            for path in &paths {
                values.push(tree.find(&path.pieces())?.as_deref());
            }
            Ok(Values::new(values))
        })
    }

    /// The values at the paths that begin with `prefix`, go on with one of `names`, and end with `suffix`: names of one
    /// length may be the rows of an array.
    #[pyo3(signature = (prefix, names, suffix = None))]
    fn find_each(
        &self,
        py: Python<'_>,
        prefix: &Bound<'_, PyAny>,
        names: &Bound<'_, PyAny>,
        suffix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Values> {
        let paths = Paths::of(prefix, names, suffix)?;
        call(py, || {
            let tree = self.copy()?;
            let mut values = Packed::with_room(paths.names.len(), 0);
            paths.each(|path| {
                values.push(tree.find(path)?.as_deref());
                Ok(())
            })?;
            Ok(Values::new(values))
        })
    }

    /// Whether a value is at a path. Never reads the value.
    fn mem(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        let path = Steps::of(path)?;
        call(py, || path.with(|path| Ok(self.0.read()?.mem(path)?)))
    }

    fn __contains__(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.mem_tree(py, path)
    }

    /// Whether anything is at a path, a value or a directory.
    fn mem_tree(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        let path = Steps::of(path)?;
        call(py, || path.with(|path| Ok(self.0.read()?.mem_tree(path)?)))
    }

    /// What is at a path, as a tree of its own; `None` when nothing is.
    fn find_tree(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Option<Tree>> {
        let path = Steps::of(path)?;
        call(py, || path.with(|path| Ok(self.0.read()?.find_tree(path)?.map(Tree::new))))
    }

    /// "value" or "directory".
    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<&'static str> {
        call(py, || Ok(kind(self.0.read()?.kind())))
    }

    /// The value that the tree is; `None` for a directory.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        call(py, || Ok(self.0.read()?.to_value()?))
    }

    /// Whether the tree is a directory without entries.
    #[getter]
    fn is_empty(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || Ok(self.0.read()?.is_empty()?))
    }

    /// How many children the directory at a path has; 0 for a value or nothing.
    #[pyo3(signature = (path = None))]
    fn length(&self, py: Python<'_>, path: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let path = Steps::optional(path)?;
        call(py, || path.with(|path| Ok(self.0.read()?.length(path)?)))
    }

    /// Up to `length` children of the directory at a path after the first `offset`, in stored order, each with its name.
    #[pyo3(signature = (path = None, *, offset = 0, length = None))]
    fn list(
        &self,
        py: Python<'_>,
        path: Option<&Bound<'_, PyAny>>,
        offset: u64,
        length: Option<u64>,
    ) -> PyResult<Vec<(Vec<u8>, Tree)>> {
        let path = Steps::optional(path)?;
        call(py, || {
            let length = length.unwrap_or(u64::MAX);
            let found =
                path.with(|path| self.0.read()?.list(path, offset, length).map_err(Fault::from))?;
            Ok(found.into_iter().map(|(name, tree)| (name, Tree::new(tree))).collect())
        })
    }

    /// Binds `value` at a path. A directory there is replaced, and so is a value on the way, by a directory.
    fn add(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (path, value) = (Steps::of(path)?, bytes(value, "value")?);
        call(py, || path.with(|path| Ok(self.0.write()?.add(path, &value)?)))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.add(py, path, value)
    }

    fn __delitem__(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.remove(py, path)
    }

    /// Binds values at the paths that begin with `prefix`, go on with one of `names`, and end with `suffix`: all of
    /// them, or those before the one that fails.
    #[pyo3(signature = (prefix, names, values, suffix = None))]
    fn add_each(
        &self,
        py: Python<'_>,
        prefix: &Bound<'_, PyAny>,
        names: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        suffix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let paths = Paths::of(prefix, names, suffix)?;
        let values = flat(values, "value")?;
        if values.len() != paths.names.len() {
            let detail =
                format!("there are {} names and {} values", paths.names.len(), values.len());
            return Err(invalid(py, format!("{detail}: pass as many of each")));
        }
        call(py, || {
            let mut tree = self.0.write()?;
            let mut values = values.iter();
            paths.each(|path| Ok(tree.add(path, values.next().unwrap_or_default())?))
        })
    }

    /// Binds `subtree` at a path, sharing it. An empty one removes what is there.
    fn add_tree(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        subtree: PyRef<'_, Tree>,
    ) -> PyResult<()> {
        let (path, subtree) = (Steps::of(path)?, &*subtree);
        call(py, || {
            // A copy, because it may be the same tree.
            let subtree = subtree.copy()?;
            path.with(|path| Ok(self.0.write()?.add_tree(path, &subtree)?))
        })
    }

    /// Removes what is at a path, and the directories above that become empty with it.
    fn remove(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let path = Steps::of(path)?;
        call(py, || path.with(|path| Ok(self.0.write()?.remove(path)?)))
    }

    /// The hash of the value, or of the directory as Tezos defines it.
    fn hash(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        call(py, || Ok(self.0.read()?.hash()?.to_vec()))
    }

    /// Whether two trees have the same hash and kind.
    fn equal(&self, py: Python<'_>, other: PyRef<'_, Tree>) -> PyResult<bool> {
        let other = &*other;
        call(py, || {
            let other = other.copy()?;
            Ok(self.0.read()?.equal(&other)?)
        })
    }

    /// The shape of its directories.
    #[getter]
    fn configuration(&self, py: Python<'_>) -> PyResult<Configuration> {
        call(py, || Ok(Configuration(self.0.read()?.configuration())))
    }

    /// Gives back memory of what is deeper than `depth`.
    fn clear(&self, py: Python<'_>, depth: usize) -> PyResult<()> {
        call(py, || {
            self.0.write()?.clear(depth);
            Ok(())
        })
    }

    /// An iterator over every value below a path, with its path from there, each of them a tuple of names.
    #[pyo3(signature = (path = None, *, order = "sorted"))]
    fn items(
        &self,
        py: Python<'_>,
        path: Option<&Bound<'_, PyAny>>,
        order: &str,
    ) -> PyResult<Walk> {
        let (path, order) = (optional_path(path)?, choose(py, "order", order, ORDERS)?);
        call(py, || Walk::new(&*self.0.read()?, &path, order, true))
    }

    /// An iterator over everything below a path, with its path from there and the tree that it is, a directory before
    /// its children, the start first.
    #[pyo3(signature = (path = None, *, order = "sorted"))]
    fn walk(&self, py: Python<'_>, path: Option<&Bound<'_, PyAny>>, order: &str) -> PyResult<Walk> {
        let (path, order) = (optional_path(path)?, choose(py, "order", order, ORDERS)?);
        call(py, || Walk::new(&*self.0.read()?, &path, order, false))
    }

    /// Calls `each(path, tree)` for what is below a path, as deep as `depth` says: `("<=", 2)`, or `None` for all.
    #[pyo3(signature = (each, path = None, *, depth = None, order = "sorted"))]
    fn fold(
        &self,
        py: Python<'_>,
        each: Py<PyAny>,
        path: Option<&Bound<'_, PyAny>>,
        depth: Option<(String, usize)>,
        order: &str,
    ) -> PyResult<()> {
        let (path, order) = (optional_path(path)?, choose(py, "order", order, ORDERS)?);
        let depth = depth.map(|(word, depth)| self::depth(py, &word, depth)).transpose()?;
        call(py, || {
            let mut answers = Answers::default();
            let outcome = self.copy()?.fold(&path.pieces(), depth, order, |path, subtree| {
                answers.check(outer_callback(|py| {
                    each.call1(py, (tuple(py, path)?, Tree::new(subtree.clone()))).map(drop)
                }))
            });
            answers.outcome(outcome)
        })
    }

    /// Every value that differs from this tree to `after`, by path: path, value before, value after; `None` where there
    /// is none. With `each` they are not gathered, but each is passed to it.
    #[pyo3(signature = (after, each = None))]
    fn diff<'py>(
        &self,
        py: Python<'py>,
        after: PyRef<'py, Tree>,
        each: Option<Py<PyAny>>,
    ) -> PyResult<Option<Vec<Told<'py>>>> {
        let after = &*after;
        let gather = each.is_none();
        let found = call(py, || {
            let (mut answers, mut found) = (Answers::default(), Vec::<Difference>::new());
            let outcome = self.copy()?.diff(&after.copy()?, |path, change| {
                let (before, after) = match change {
                    Change::Added(after) => (None, Some(after)),
                    Change::Removed(before) => (Some(before), None),
                    Change::Updated(before, after) => (Some(before), Some(after)),
                };
                let Some(each) = &each else {
                    found.push((path.to_vec(), before, after));
                    return Ok(());
                };
                answers.check(outer_callback(|py| {
                    each.call1(py, (tuple(py, path)?, before, after)).map(drop)
                }))
            });
            answers.outcome(outcome)?;
            Ok(found)
        })?;
        if !gather {
            return Ok(None);
        }
        let told =
            found.into_iter().map(|(path, before, after)| Ok((tuple(py, &path)?, before, after)));
        Ok(Some(told.collect::<PyResult<_>>()?))
    }

    /// Brings what `theirs` changed since `base` into a copy of this tree. What both changed differently is a conflict,
    /// unless `resolve(path, base, ours, theirs)` gives the value, or `None` to remove it, and not `UNRESOLVED`.
    #[pyo3(signature = (base, theirs, resolve = None))]
    fn merge(
        &self,
        py: Python<'_>,
        base: PyRef<'_, Tree>,
        theirs: PyRef<'_, Tree>,
        resolve: Option<Py<PyAny>>,
    ) -> PyResult<Merge> {
        let (base, theirs) = (&*base, &*theirs);
        let merged = call(py, || {
            let (ours, base, theirs) = (self.copy()?, base.copy()?, theirs.copy()?);
            let mut resolver = Resolver::new(resolve, false);
            let outcome = ours.merge(&base, &theirs, |path, sides| resolver.ask(path, sides));
            resolver.answers.outcome(outcome)
        })?;
        Merge::of(py, merged)
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Closes it; once more does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.take().map(drop))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

fn depth(py: Python<'_>, word: &str, depth: usize) -> PyResult<Depth> {
    let words = [
        ("==", Depth::Eq(depth)),
        ("<", Depth::Lt(depth)),
        ("<=", Depth::Le(depth)),
        (">", Depth::Gt(depth)),
        (">=", Depth::Ge(depth)),
    ];
    choose(py, "depth", word, &words)
}
