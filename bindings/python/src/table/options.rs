//! What a program chooses for sessions and tables, by keyword.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use varvite::disk::Access;
use varvite::{Compression, Log, Lookups, SessionOptions, TableOptions, Verify};

use crate::callback::{Callbacks, HostExecutor, MergeOperator, Slot, TableObserver};
use crate::disk::Cache;
use crate::fault::invalid;
use crate::input::Keywords;

pub const VERIFY: &[(&str, Verify)] = &[("quick", Verify::Quick), ("full", Verify::Full)];

const SESSION: &[&str] = &[
    "seed",
    "log",
    "memory_bytes",
    "cache",
    "direct",
    "queue_depth",
    "max_open_files",
    "segment_bytes",
    "log_file_bytes",
    "executor",
    "observer",
];

/// The options, and the functions that are among them.
pub fn session(
    py: Python<'_>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<(SessionOptions, Callbacks)> {
    let given = Keywords::new(given, SESSION)?;
    let mut options = SessionOptions { seed: given.get("seed")?, ..SessionOptions::default() };
    let logs = [("none", Log::None), ("written", Log::Written), ("synced", Log::Synced)];
    given.choose(py, "log", &logs, &mut options.log)?;
    if given.get("direct")? == Some(true) {
        options.access = Access::Direct;
    }
    given.set("queue_depth", &mut options.queue_depth)?;
    options.max_open_files = given.get("max_open_files")?;
    given.set("segment_bytes", &mut options.segment_bytes)?;
    given.set("log_file_bytes", &mut options.log_file_bytes)?;
    let cache: Option<Bound<'_, Cache>> = given.get("cache")?;
    let mut memory_bytes = 0;
    given.budget(py, "memory_bytes", &mut memory_bytes)?;
    options.cache = match cache {
        Some(_) if memory_bytes > 0 => {
            return Err(invalid(
                py,
                "memory_bytes is for a session without a cache: give one of both",
            ));
        }
        Some(cache) => Some(cache.get().shared(py)?),
        None => (memory_bytes > 0).then(|| varvite::cache::Cache::new(memory_bytes)),
    };
    let slot = |name| Ok::<_, PyErr>(given.object(name)?.map(|it| Slot::new(it.unbind())));
    let callbacks = Callbacks::new(slot("observer")?, slot("executor")?);
    if let Some(executor) = &callbacks.executor {
        options.executor = Some(Arc::new(HostExecutor(Arc::clone(executor))));
    }
    if let Some(observer) = &callbacks.observer {
        options.observer = Some(Arc::new(TableObserver(Arc::clone(observer))));
    }
    Ok((options, callbacks))
}

const TABLE: &[&str] = &[
    "preset",
    "memory_bytes",
    "write_buffer_bytes",
    "size_ratio",
    "lookups",
    "filter_bits",
    "filter_bytes_max",
    "blob_min_bytes",
    "compression",
    "operator",
];

/// The options of a table whose session keeps the operator that is among them.
pub fn table(
    py: Python<'_>,
    given: Option<&Bound<'_, PyDict>>,
    callbacks: &Callbacks,
) -> PyResult<TableOptions> {
    let given = Keywords::new(given, TABLE)?;
    let mut is_utxo = false;
    given.choose(py, "preset", &[("default", false), ("utxo", true)], &mut is_utxo)?;
    let mut options = if is_utxo { TableOptions::utxo() } else { TableOptions::default() };
    if let Some(bytes) = given.get("memory_bytes")? {
        options = options.within_memory(bytes);
    }
    given.set("write_buffer_bytes", &mut options.write_buffer_bytes)?;
    given.set("size_ratio", &mut options.size_ratio)?;
    let lookups = [("mixed", Lookups::Mixed), ("mostly_hit", Lookups::MostlyHit)];
    given.choose(py, "lookups", &lookups, &mut options.lookups)?;
    given.set("filter_bits", &mut options.filter_bits)?;
    given.set("filter_bytes_max", &mut options.filter_bytes_max)?;
    if let Some(bytes) = given.get("blob_min_bytes")? {
        options.blob_min_bytes = Some(bytes);
    }
    let compressions = [("none", Compression::None), ("fast", Compression::Fast)];
    given.choose(py, "compression", &compressions, &mut options.compression)?;
    let operator: Option<Bound<'_, MergeOperator>> = given.get("operator")?;
    callbacks.keep(&operator);
    options.operator = operator.map(|it| it.get().operator.clone());
    Ok(options)
}
