//! Stores of Irmin: read as they are, taken over, written.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use varvite::irmin_pack::{self, Choice, Options, Verify};

use crate::answer::{Exported, Migrated};
use crate::context::options::{Configuration, or_tezos};
use crate::context::store::Store;
use crate::disk::Place;
use crate::fault::{Answers, call, locked_callback};
use crate::input::{Keywords, hash, hashes};

type Given<'a, 'py> = &'a Bound<'py, PyDict>;

const OPTIONS: &[&str] = &["configuration", "verify", "lower", "objects_bytes", "pages_bytes"];

fn options(py: Python<'_>, given: Option<Given<'_, '_>>) -> PyResult<(Options, Option<Place>)> {
    let given = Keywords::new(given, OPTIONS)?;
    let configuration = or_tezos(given.get::<Configuration>("configuration")?);
    let mut options = Options { configuration, ..Options::default() };
    let verifies = [("hashes", Verify::Hashes), ("trust", Verify::Trust)];
    given.choose(py, "verify", &verifies, &mut options.verify)?;
    given.budget(py, "objects_bytes", &mut options.objects_bytes)?;
    given.budget(py, "pages_bytes", &mut options.pages_bytes)?;
    let lower = given.object("lower")?.map(|it| Place::of(py, &it)).transpose()?;
    Ok((options, lower))
}

/// Whether a folder holds a store of Irmin, of any version.
#[pyfunction]
pub fn is_irmin(py: Python<'_>, place: &Bound<'_, PyAny>) -> PyResult<bool> {
    let place = Place::of(py, place)?;
    call(py, || Ok(irmin_pack::is_store(&*place.disk(false)?)?))
}

/// Opens a store of Irmin, as in the data folder of a Tezos node, to read, as of now. Writes nothing.
#[pyfunction]
#[pyo3(signature = (place, **options))]
pub fn open_irmin(
    py: Python<'_>,
    place: &Bound<'_, PyAny>,
    options: Option<Given<'_, '_>>,
) -> PyResult<Store> {
    let (place, (mut options, lower)) = (Place::of(py, place)?, self::options(py, options)?);
    call(py, || {
        options.lower = lower.map(|it| it.disk(false)).transpose()?;
        Ok(Store::new(irmin_pack::open(place.disk(false)?, &options)?))
    })
}

/// Copies commits of a store of Irmin into `target`: all, or those in `commits`, or those after `since`. `watch` is told
/// how far it is.
#[pyfunction]
#[pyo3(signature = (source, target, *, commits = None, since = None, watch = None, **options))]
pub fn migrate_irmin(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    target: PyRef<'_, Store>,
    commits: Option<&Bound<'_, PyAny>>,
    since: Option<&Bound<'_, PyAny>>,
    watch: Option<Py<PyAny>>,
    options: Option<Given<'_, '_>>,
) -> PyResult<Migrated> {
    let (source, (mut options, lower)) = (Place::of(py, source)?, self::options(py, options)?);
    let choice = Choice { commits: hashes(commits)?, since: since.map(hash).transpose()? };
    let target = &*target;
    call(py, || {
        options.lower = lower.map(|it| it.disk(false)).transpose()?;
        let mut answers = Answers::default();
        let mut watching = |migrated: &irmin_pack::Migrated| {
            let Some(watch) = &watch else { return Ok(()) };
            let told = tell_migrated(migrated);
            answers.check(locked_callback(|py| watch.call1(py, (told,)).map(drop)))
        };
        let source = source.disk(false)?;
        let mut target = target.0.write()?;
        let outcome = irmin_pack::migrate(source, &options, &mut target, &choice, &mut watching);
        Ok(tell_migrated(&answers.outcome(outcome)?))
    })
}

fn tell_migrated(from: &irmin_pack::Migrated) -> Migrated {
    Migrated {
        commits: from.commits,
        present: from.present,
        collected: from.collected,
        unindexed: from.unindexed,
        changes: from.changes,
        branches: from.branches,
        offset: from.offset,
        end: from.end,
    }
}

/// Writes every commit of `source`, with its branches, as a store of Irmin into the empty folder `target`. `scratch` is
/// an empty folder that is the caller's to remove. `watch` is told how far it is.
#[pyfunction]
#[pyo3(signature = (source, target, scratch, *, watch = None))]
pub fn export_irmin(
    py: Python<'_>,
    source: PyRef<'_, Store>,
    target: &Bound<'_, PyAny>,
    scratch: &Bound<'_, PyAny>,
    watch: Option<Py<PyAny>>,
) -> PyResult<Exported> {
    let (target, scratch) = (Place::of(py, target)?, Place::of(py, scratch)?);
    let source = &*source;
    call(py, || {
        let mut answers = Answers::default();
        let mut watching = |exported: &irmin_pack::Exported| {
            let Some(watch) = &watch else { return Ok(()) };
            let told = tell_exported(exported);
            answers.check(locked_callback(|py| watch.call1(py, (told,)).map(drop)))
        };
        let (target, scratch) = (target.disk(true)?, scratch.disk(true)?);
        let source = source.0.read()?;
        let outcome = irmin_pack::export(&source, &target, &scratch, &mut watching);
        Ok(tell_exported(&answers.outcome(outcome)?))
    })
}

fn tell_exported(from: &irmin_pack::Exported) -> Exported {
    Exported {
        commits: from.commits,
        objects: from.objects,
        bytes: from.bytes,
        branches: from.branches,
    }
}
