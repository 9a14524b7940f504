//! Iterators over trees, which hold nothing but the tree as it was when they were made.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use varvite::context::{self, Kind, Order};

use crate::context::tree::{Path, Tree, tuple};
use crate::fault::{Fault, Outcome, call};
use crate::held::Held;
use crate::input::Flat;

/// An iterator over what is below a path of a tree: values, or all subtrees.
#[pyclass(frozen, module = "varvite")]
pub struct Walk {
    state: Held<Mutex<State>>,
    values: bool,
}

/// A directory that is being walked through.
struct Level {
    tree: context::Tree,
    /// Children that were listed and not visited, the next one last.
    ahead: Vec<(Vec<u8>, context::Tree)>,
    /// How many were listed.
    offset: u64,
    is_listed: bool,
}

struct State {
    levels: Vec<Level>,
    path: Path,
    order: Order,
    /// The start, until it is visited.
    start: Option<context::Tree>,
    /// What was read ahead, the next one last.
    ahead: Vec<Step>,
    /// Why no more could be, to be raised when what was is given.
    failed: Option<Fault>,
    /// How many are read at once: few at first, for who stops early.
    step: usize,
}

struct Step {
    path: Path,
    tree: context::Tree,
    value: Vec<u8>,
}

/// Children that are listed at once when their order does not matter.
const PAGE: u64 = 256;
const STEP_MAX: usize = 256;
const STEP_BYTES: usize = 256 << 10;

impl Level {
    fn next(&mut self, order: Order) -> Outcome<Option<(Vec<u8>, context::Tree)>> {
        if self.ahead.is_empty() && !self.is_listed {
            let wanted = if order == Order::Sorted { u64::MAX } else { PAGE };
            let nothing: [&[u8]; 0] = [];
            self.ahead = self.tree.list(&nothing, self.offset, wanted)?;
            self.offset += self.ahead.len() as u64;
            self.is_listed = (self.ahead.len() as u64) < wanted;
            if order == Order::Sorted {
                self.ahead.sort_by(|one, other| one.0.cmp(&other.0));
            }
            self.ahead.reverse();
        }
        Ok(self.ahead.pop())
    }
}

impl State {
    fn enter(&mut self, tree: &context::Tree) {
        if tree.kind() == Kind::Directory {
            let tree = tree.clone();
            self.levels.push(Level { tree, ahead: Vec::new(), offset: 0, is_listed: false });
        }
    }

    fn visit(&mut self) -> Outcome<Option<context::Tree>> {
        if let Some(start) = self.start.take() {
            self.enter(&start);
            return Ok(Some(start));
        }
        while let Some(level) = self.levels.last_mut() {
            let found = level.next(self.order)?;
            self.path.truncate(self.levels.len() - 1);
            match found {
                Some((name, tree)) => {
                    self.path.push(name);
                    self.enter(&tree);
                    return Ok(Some(tree));
                }
                None => drop(self.levels.pop()),
            }
        }
        Ok(None)
    }

    /// Has what was visited last visited again.
    fn put_back(&mut self, tree: context::Tree) {
        match (self.levels.last_mut(), self.path.last()) {
            (Some(level), Some(name)) => level.ahead.push((name.clone(), tree)),
            _ => self.start = Some(tree),
        }
    }

    /// The next value, or the next subtree; after an error the same is read again.
    fn read(&mut self, values: bool) -> Outcome<Option<Step>> {
        while let Some(tree) = self.visit()? {
            let value = match (values, tree.kind()) {
                (true, Kind::Directory) => continue,
                (true, Kind::Value) => match tree.to_value() {
                    Ok(value) => value.unwrap_or_default(),
                    Err(error) => {
                        self.put_back(tree);
                        return Err(error.into());
                    }
                },
                (false, _) => Vec::new(),
            };
            return Ok(Some(Step { path: self.path.clone(), tree, value }));
        }
        Ok(None)
    }

    fn refill(&mut self, values: bool) -> Outcome {
        if let Some(fault) = self.failed.take() {
            return Err(fault);
        }
        let mut bytes = 0;
        while self.ahead.len() < self.step && bytes < STEP_BYTES {
            match self.read(values) {
                Ok(Some(step)) => {
                    bytes += step.value.len();
                    self.ahead.push(step);
                }
                Ok(None) => break,
                Err(fault) if self.ahead.is_empty() => return Err(fault),
                Err(fault) => {
                    self.failed = Some(fault);
                    break;
                }
            }
        }
        self.step = (self.step * 2).min(STEP_MAX);
        self.ahead.reverse();
        Ok(())
    }
}

impl Walk {
    pub fn new(tree: &context::Tree, path: &Flat, order: Order, values: bool) -> Outcome<Walk> {
        let start = tree.find_tree(&path.pieces())?;
        let state = State {
            levels: Vec::new(),
            path: Vec::new(),
            order,
            start,
            ahead: Vec::new(),
            failed: None,
            step: 4,
        };
        Ok(Walk { state: Held::new("iterator", Mutex::new(state)), values })
    }
}

#[pymethods]
impl Walk {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = call(py, || {
            let mut state = self.state.write()?;
            let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
            if state.ahead.is_empty() {
                state.refill(self.values)?;
            }
            Ok(state.ahead.pop())
        })?;
        let Some(Step { path, tree, value }) = found else { return Ok(None) };
        let path = tuple(py, &path)?;
        let step = if self.values {
            (path, PyBytes::new(py, &value)).into_pyobject(py)?
        } else {
            (path, Bound::new(py, Tree::new(tree))?).into_pyobject(py)?
        };
        Ok(Some(step.into_any()))
    }

    /// Lets go of the tree; the iterator ends with `ClosedError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.state.take().map(drop))
    }
}
