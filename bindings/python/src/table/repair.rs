//! What is whole in a damaged session, made a new one.

use pyo3::prelude::*;
use varvite::table::repair::{self, RepairOptions};

use crate::answer::{Loss, Repaired, RepairedTable};
use crate::disk::Place;
use crate::fault::{Outcome, call};
use crate::table::session::moved;

/// Makes a new session in the empty folder `target` of what is whole in the one in `source`, which nobody writes to. With
/// `skip_damaged` a table or snapshot with damaged segments is kept without their entries, whose ranges of keys are told;
/// else it is left out.
#[pyfunction]
#[pyo3(name = "repair", signature = (source, target, *, skip_damaged = false, seed = None))]
pub fn repair_session(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    skip_damaged: bool,
    seed: Option<u64>,
) -> PyResult<Repaired> {
    let (source, target) = (Place::of(py, source)?, Place::of(py, target)?);
    let from = call(py, || -> Outcome<_> {
        let (source, target) = (source.disk(false)?, target.disk(true)?);
        Ok(repair::repair(&source, &target, &RepairOptions { skip_damaged, seed })?)
    })?;
    let tables = from.live_tables.into_iter().map(|it| RepairedTable {
        name: it.name,
        log_records: it.log_records,
        left_out: it.left_out,
        is_whole: it.is_whole,
        ends_within_update: it.ends_within_update,
    });
    let losses = from.losses.into_iter().map(|it| Loss {
        file: it.file,
        detail: it.detail,
        snapshots: it.snapshots,
        live_tables: it.live_tables,
        keys: it.keys,
        entries: it.entries,
    });
    Ok(Repaired {
        session_was_lost: from.session_was_lost,
        snapshots: from.snapshots,
        live_tables: tables.collect(),
        losses: losses.collect(),
        moved: moved(from.moved),
        log_records: from.log_records,
        log_records_behind: from.log_records_behind,
    })
}
