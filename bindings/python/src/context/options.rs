//! What a program chooses for a context.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use varvite::context::{self, ChildOrder, Durability, Index, Options};

use crate::callback::{ContextObserver, Slot};
use crate::disk::{Cache, Place};
use crate::fault::raise;
use crate::input::{Keywords, choose};

/// The shape of directories, on which hashes depend. The default is that of Tezos.
#[pyclass(frozen, eq, hash, from_py_object, module = "varvite")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Configuration(pub context::Configuration);

const ORDERS: &[(&str, ChildOrder)] =
    &[("seeded_hash", ChildOrder::SeededHash), ("hash_bits", ChildOrder::HashBits)];

#[pymethods]
impl Configuration {
    #[new]
    #[pyo3(signature = (entries = 32, stable_hash = 256, child_order = "seeded_hash"))]
    fn new(
        py: Python<'_>,
        entries: u32,
        stable_hash: u32,
        child_order: &str,
    ) -> PyResult<Configuration> {
        let order = choose(py, "child_order", child_order, ORDERS)?;
        context::Configuration::new(entries, stable_hash, order)
            .map(Configuration)
            .map_err(|it| raise(py, it.into()))
    }

    /// That of the context of Tezos.
    #[classattr]
    const TEZOS: Configuration = Configuration(context::Configuration::TEZOS);
    /// That of the binary context of Tezos.
    #[classattr]
    const TEZOS_BINARY: Configuration = Configuration(context::Configuration::TEZOS_BINARY);

    /// The branching factor of large directories.
    #[getter]
    fn entries(&self) -> usize {
        self.0.entries()
    }

    /// The most entries of a directory that is hashed flat.
    #[getter]
    fn stable_hash(&self) -> usize {
        self.0.stable_hash()
    }

    /// How a name chooses its bucket.
    #[getter]
    fn child_order(&self) -> &'static str {
        ORDERS.iter().find(|it| it.1 == self.0.child_order()).map_or("", |it| it.0)
    }

    fn __repr__(&self) -> String {
        let (entries, stable_hash) = (self.entries(), self.stable_hash());
        format!("Configuration({entries}, {stable_hash}, {:?})", self.child_order())
    }
}

/// That of Tezos, if none is given.
pub fn or_tezos(given: Option<Configuration>) -> context::Configuration {
    given.map_or(context::Configuration::TEZOS, |it| it.0)
}

const STORE: &[&str] = &[
    "configuration",
    "index",
    "durability",
    "objects_bytes",
    "hashes_bytes",
    "pages_bytes",
    "index_bytes",
    "tree_bytes",
    "chunk_bytes",
    "lower",
    "max_open_files",
    "seed",
    "cache",
    "observer",
];

/// The options; the lower folder and the observer that are among them.
pub fn store(
    py: Python<'_>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Options, Option<Place>, Option<Arc<Slot>>)> {
    let given = Keywords::new(given, STORE)?;
    let mut options = Options { seed: given.get("seed")?, ..Options::default() };
    options.configuration = or_tezos(given.get("configuration")?);
    let indexes = [("minimal", Index::Minimal), ("always", Index::Always)];
    given.choose(py, "index", &indexes, &mut options.index)?;
    let durabilities = [("synced", Durability::Synced), ("written", Durability::Written)];
    given.choose(py, "durability", &durabilities, &mut options.durability)?;
    given.budget(py, "objects_bytes", &mut options.objects_bytes)?;
    given.budget(py, "hashes_bytes", &mut options.hashes_bytes)?;
    given.budget(py, "pages_bytes", &mut options.pages_bytes)?;
    given.budget(py, "index_bytes", &mut options.index_bytes)?;
    given.set("tree_bytes", &mut options.tree_bytes)?;
    given.set("chunk_bytes", &mut options.chunk_bytes)?;
    options.max_open_files = given.get("max_open_files")?;
    let cache: Option<Bound<'_, Cache>> = given.get("cache")?;
    options.cache = cache.map(|it| it.get().shared(py)).transpose()?;
    let observer = given.object("observer")?.map(|it| Slot::new(it.unbind()));
    if let Some(observer) = &observer {
        options.observer = Some(Arc::new(ContextObserver(Arc::clone(observer))));
    }
    let lower = given.object("lower")?.map(|it| Place::of(py, &it)).transpose()?;
    Ok((options, lower, observer))
}
