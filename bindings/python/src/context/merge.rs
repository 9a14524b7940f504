//! Merges: who is asked, and what came of it.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use varvite::context::{self, Merged, Resolution, Sides};

use crate::context::tree::{Tree, tuple};
use crate::fault::{Answers, locked_callback, outer_callback};
use crate::input::bytes;

/// What a resolver gives for what is to remain a conflict: `UNRESOLVED`.
#[pyclass(frozen, module = "varvite")]
pub struct Unresolved;

#[pymethods]
impl Unresolved {
    #[new]
    fn new() -> Unresolved {
        Unresolved
    }

    #[expect(clippy::unused_self, reason = "Python calls it with itself")]
    fn __repr__(&self) -> &'static str {
        "UNRESOLVED"
    }
}

/// Asks Python. Without a function everything remains a conflict.
pub struct Resolver {
    resolve: Option<Py<PyAny>>,
    /// Whether a store is in use meanwhile.
    is_locked: bool,
    pub answers: Answers,
}

impl Resolver {
    pub fn new(resolve: Option<Py<PyAny>>, is_locked: bool) -> Resolver {
        Resolver { resolve, is_locked, answers: Answers::default() }
    }

    pub fn ask(&mut self, path: &[Vec<u8>], sides: Sides<'_>) -> varvite::Result<Resolution> {
        let Some(resolve) = &self.resolve else { return Ok(Resolution::Conflict) };
        let ask = |py: Python<'_>| {
            let arguments = (tuple(py, path)?, sides.base, sides.ours, sides.theirs);
            let answer = resolve.call1(py, arguments)?.into_bound(py);
            if answer.is_none() {
                Ok(Resolution::Removed)
            } else if answer.is_instance_of::<Unresolved>() {
                Ok(Resolution::Conflict)
            } else {
                Ok(Resolution::Value(bytes(&answer, "resolved value")?.into_owned()))
            }
        };
        let answer = if self.is_locked { locked_callback(ask) } else { outer_callback(ask) };
        self.answers.check(answer)
    }
}

/// A value or directory that both sides changed, each in its own way.
#[pyclass(frozen, get_all, module = "varvite")]
pub struct Conflict {
    path: Py<PyTuple>,
    base: Option<Py<Tree>>,
    ours: Option<Py<Tree>>,
    theirs: Option<Py<Tree>>,
}

/// What came of a merge: `unchanged`, `fast_forward`, `merged` or `conflicts`; the merged tree, which has our side where
/// there are conflicts; and the commit that was made of it, if one was.
#[pyclass(frozen, get_all, module = "varvite")]
pub struct Merge {
    pub outcome: &'static str,
    pub tree: Option<Py<Tree>>,
    pub commit: Option<Vec<u8>>,
    pub conflicts: Vec<Py<Conflict>>,
}

impl Merge {
    pub fn nothing(outcome: &'static str) -> Merge {
        Merge { outcome, tree: None, commit: None, conflicts: Vec::new() }
    }

    pub fn of(py: Python<'_>, merged: Merged) -> PyResult<Merge> {
        let tree = |it: Option<context::Tree>| it.map(|it| Py::new(py, Tree::new(it))).transpose();
        let outcome = if merged.conflicts.is_empty() { "merged" } else { "conflicts" };
        let conflicts = merged
            .conflicts
            .into_iter()
            .map(|it| {
                let path = tuple(py, &it.path)?.unbind();
                let (base, ours, theirs) = (tree(it.base)?, tree(it.ours)?, tree(it.theirs)?);
                Py::new(py, Conflict { path, base, ours, theirs })
            })
            .collect::<PyResult<_>>()?;
        Ok(Merge { outcome, tree: tree(Some(merged.tree))?, commit: None, conflicts })
    }
}

#[pymethods]
impl Merge {
    fn __repr__(&self) -> String {
        format!("Merge({:?}, {} conflicts)", self.outcome, self.conflicts.len())
    }
}
