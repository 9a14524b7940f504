//! Sessions.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use varvite::{LoadOrder, OpenSnapshot, OpenTable, SnapshotContent};

use crate::answer::{BackedUp, FilterStats, Finding, SessionStats, SnapshotInfo, Transferred};
use crate::callback::{Callbacks, MergeOperator, operators};
use crate::disk::Place;
use crate::fault::{Fault, Outcome, call, invalid};
use crate::held::{Held, Writing};
use crate::input::bytes;
use crate::lock::holding;
use crate::packed::{Packed, Values};
use crate::table::batch::Batch;
use crate::table::follower::Follower;
use crate::table::options::{self, VERIFY};
use crate::table::scrub::Scrub;
use crate::table::shared::{Tables as Shared, given_back};
use crate::table::snapshot::Snapshot;
use crate::table::stream::{Loader, Value, ValueWriter};
use crate::table::table::{Table, read_tables};

/// A folder of tables, open.
#[pyclass(frozen, module = "varvite")]
pub struct Session(Held<varvite::Session>, Py<Callbacks>);

type Given<'a, 'py> = &'a Bound<'py, PyDict>;
type Tables<'py> = Vec<PyRef<'py, Table>>;

impl Session {
    /// The session, in O(1): for calls that must not keep others from closing it.
    fn session(&self) -> Outcome<varvite::Session> {
        Ok(self.0.read()?.clone())
    }

    /// How tables are opened whose operators are among these, which the session keeps.
    fn open_options(
        &self,
        py: Python<'_>,
        verify: &str,
        given: &[Bound<'_, MergeOperator>],
    ) -> PyResult<OpenTable> {
        let verify = crate::input::choose(py, "verify", verify, VERIFY)?;
        self.1.get().keep(given);
        Ok(OpenTable { verify, operators: operators(given) })
    }

    fn opened(
        place: &Bound<'_, PyAny>,
        keywords: Option<Given<'_, '_>>,
        create: bool,
        open: fn(
            std::sync::Arc<dyn varvite::disk::Disk>,
            varvite::SessionOptions,
        ) -> varvite::Result<varvite::Session>,
    ) -> PyResult<Session> {
        let py = place.py();
        let (options, callbacks) = options::session(py, keywords)?;
        let place = Place::of(py, place)?;
        let session = call(py, || Ok(open(place.disk(create)?, options)?))?;
        Ok(Session(Held::new("session", session), Py::new(py, callbacks)?))
    }
}

fn borrowed<'a>(tables: &'a Tables<'_>) -> Vec<&'a Table> {
    tables.iter().map(|it| &**it).collect()
}

#[pymethods]
impl Session {
    /// Makes a session in an empty folder, and opens it.
    #[staticmethod]
    #[pyo3(signature = (place, **options))]
    fn create(place: &Bound<'_, PyAny>, options: Option<Given<'_, '_>>) -> PyResult<Session> {
        Session::opened(place, options, true, varvite::Session::create)
    }

    /// Opens a session for writing.
    #[staticmethod]
    #[pyo3(signature = (place, **options))]
    fn open(place: &Bound<'_, PyAny>, options: Option<Given<'_, '_>>) -> PyResult<Session> {
        Session::opened(place, options, false, varvite::Session::open)
    }

    /// Opens the session that is there for writing, or makes one: for programs that do not care whether they are the
    /// first to run.
    #[staticmethod]
    #[pyo3(signature = (place, **options))]
    fn open_or_create(
        place: &Bound<'_, PyAny>,
        options: Option<Given<'_, '_>>,
    ) -> PyResult<Session> {
        Session::opened(place, options, true, varvite::Session::open_or_create_on)
    }

    /// Opens a session to read its snapshots, also while another process writes. Changes nothing.
    #[staticmethod]
    #[pyo3(signature = (place, **options))]
    fn open_read_only(
        place: &Bound<'_, PyAny>,
        options: Option<Given<'_, '_>>,
    ) -> PyResult<Session> {
        Session::opened(place, options, false, varvite::Session::open_read_only)
    }

    /// A new, empty table. In a session with a log it is live: durable, and found again by `open_table`.
    #[pyo3(signature = (name, **options))]
    fn create_table(
        &self,
        py: Python<'_>,
        name: &str,
        options: Option<Given<'_, '_>>,
    ) -> PyResult<Table> {
        let options = options::table(py, options, self.1.get())?;
        let table = call(py, || Ok(self.session()?.create_table(name, options)?))?;
        Ok(Table::new(table, self.1.clone_ref(py)))
    }

    /// Opens the live table of this name, or makes one with these options.
    #[pyo3(signature = (name, **options))]
    fn open_or_create_table(
        &self,
        py: Python<'_>,
        name: &str,
        options: Option<Given<'_, '_>>,
    ) -> PyResult<Table> {
        let options = options::table(py, options, self.1.get())?;
        let table = call(py, || Ok(self.session()?.open_or_create_table(name, options)?))?;
        Ok(Table::new(table, self.1.clone_ref(py)))
    }

    /// Puts tables behind one handle that threads share; their own handles are closed then. After an error they are open
    /// as before.
    fn share(&self, py: Python<'_>, tables: Tables<'_>) -> PyResult<Shared> {
        let tables = borrowed(&tables);
        let (shared, session) = call(py, || {
            let session = self.session()?;
            // Before any is taken: none may be given twice.
            let mut names = tables
                .iter()
                .map(|it| Ok(it.0.read()?.name().to_owned()))
                .collect::<Outcome<Vec<_>>>()?;
            names.sort();
            let twice = names.windows(2).find(|it| it[0] == it[1]).map(|it| &it[0]);
            if let Some(name) = twice {
                return Err(Fault::invalid(format!("two tables are called \"{name}\"")));
            }
            let held: Vec<_> = tables.iter().map(|it| &it.0).collect();
            let shared = Held::take_all(&held, |taken| session.share(taken).map_err(given_back))?;
            Ok((shared, session))
        })?;
        Ok(Shared::new(shared, session, self.1.clone_ref(py)))
    }

    /// Opens every live table, behind one handle that threads share.
    #[pyo3(signature = (*, verify = "quick", operators = Vec::new()))]
    fn open_shared(
        &self,
        py: Python<'_>,
        verify: &str,
        operators: Vec<Bound<'_, MergeOperator>>,
    ) -> PyResult<Shared> {
        let options = self.open_options(py, verify, &operators)?;
        let (shared, session) = call(py, || {
            let session = self.session()?;
            Ok((session.open_shared(&options)?, session))
        })?;
        Ok(Shared::new(shared, session, self.1.clone_ref(py)))
    }

    /// Makes durable what a log that is written and not synced has.
    fn sync_log(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(self.session()?.sync_log()?))
    }

    /// Begins a scrub, which reads everything that the session keeps, a part at a time, beside whoever uses it. `place` is
    /// where an earlier one was left.
    #[pyo3(signature = (place = 0))]
    fn scrub(&self, py: Python<'_>, place: u64) -> PyResult<Scrub> {
        call(py, || Ok(Scrub::new(self.session()?.scrub(place)?)))
    }

    /// The names of the live tables, in order.
    fn live_tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || Ok(self.session()?.live_tables()?))
    }

    /// Opens a live table as it was last updated.
    #[pyo3(signature = (name, *, verify = "quick", operators = Vec::new()))]
    fn open_table(
        &self,
        py: Python<'_>,
        name: &str,
        verify: &str,
        operators: Vec<Bound<'_, MergeOperator>>,
    ) -> PyResult<Table> {
        let options = self.open_options(py, verify, &operators)?;
        let table = call(py, || Ok(self.session()?.open_table(name, &options)?))?;
        Ok(Table::new(table, self.1.clone_ref(py)))
    }

    /// Opens every live table, in the order of their names, in one pass over the log.
    #[pyo3(signature = (*, verify = "quick", operators = Vec::new()))]
    fn open_all(
        &self,
        py: Python<'_>,
        verify: &str,
        operators: Vec<Bound<'_, MergeOperator>>,
    ) -> PyResult<Vec<Table>> {
        let options = self.open_options(py, verify, &operators)?;
        let tables = call(py, || Ok(self.session()?.open_all(&options)?))?;
        Ok(tables.into_iter().map(|it| Table::new(it, self.1.clone_ref(py))).collect())
    }

    /// Makes `table` live under its name: for duplicates, and for tables from snapshots.
    fn publish(&self, py: Python<'_>, table: PyRef<'_, Table>) -> PyResult<()> {
        let table = &*table;
        call(py, || Ok(self.session()?.publish(&mut *table.0.write()?)?))
    }

    /// Deletes a live table, to which no handle may be open.
    fn delete_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        call(py, || Ok(self.session()?.delete_table(name)?))
    }

    /// Applies to each table its batch, all of them or none, also through a crash.
    fn update(
        &self,
        py: Python<'_>,
        updates: Vec<(PyRef<'_, Table>, PyRef<'_, Batch>)>,
    ) -> PyResult<()> {
        let given: Vec<(&Table, &Batch)> =
            updates.iter().map(|(table, batch)| (&**table, &**batch)).collect();
        // Always in the order of the addresses, so that two threads do not wait for each other.
        let place = |it: usize| std::ptr::from_ref(given[it].0).addr();
        let mut order: Vec<usize> = (0..given.len()).collect();
        order.sort_by_key(|it| place(*it));
        if order.windows(2).any(|it| place(it[0]) == place(it[1])) {
            return Err(invalid(py, "a table is given twice: join its operations in one batch"));
        }
        call(py, || {
            let session = self.session()?;
            let batches = given
                .iter()
                .map(|(_, it)| Ok(it.0.read()?.clone()))
                .collect::<Outcome<Vec<_>>>()?;
            let locks = || {
                order
                    .iter()
                    .map(|it| Ok((*it, given[*it].0.0.write()?)))
                    .collect::<Outcome<Vec<(usize, Writing<'_, varvite::Table>)>>>()
            };
            // Whoever has locked one already holds up everybody who needs it.
            let mut locked = if order.len() > 1 { holding(locks) } else { locks() }?;
            // The session applies them in the order given.
            locked.sort_by_key(|it| it.0);
            let mut updates: Vec<(&mut varvite::Table, &varvite::Batch)> =
                locked.iter_mut().map(|(at, table)| (&mut **table, &batches[*at])).collect();
            Ok(session.update(&mut updates)?)
        })
    }

    /// A table that binds every key that one of `tables` binds. A key of several gets their values joined by the merge
    /// operator, the leftmost as the newest; without one, the leftmost's. With `incremental` it is merged bit by bit,
    /// by later updates.
    #[pyo3(signature = (name, tables, *, incremental = false))]
    fn union(
        &self,
        py: Python<'_>,
        name: &str,
        tables: Tables<'_>,
        incremental: bool,
    ) -> PyResult<Table> {
        let tables = borrowed(&tables);
        let union = call(py, || {
            let session = self.session()?;
            read_tables(&tables, |tables| {
                Ok(if incremental {
                    session.incremental_union(name, tables)?
                } else {
                    session.union(name, tables)?
                })
            })
        })?;
        Ok(Table::new(union, self.1.clone_ref(py)))
    }

    /// Begins a table that is loaded whole. With `sort_bytes` keys come in any order and are sorted with about so much
    /// memory; without, they come in order.
    #[pyo3(signature = (name, *, sort_bytes = None, **options))]
    fn load_table(
        &self,
        py: Python<'_>,
        name: &str,
        sort_bytes: Option<u64>,
        options: Option<Given<'_, '_>>,
    ) -> PyResult<Loader> {
        let options = options::table(py, options, self.1.get())?;
        let order = match sort_bytes {
            None => LoadOrder::Sorted,
            Some(memory_bytes) => LoadOrder::Any {
                memory_bytes: crate::input::budget(py, memory_bytes, "sort_bytes")?,
            },
        };
        let loader = call(py, || Ok(self.session()?.load_table(name, options, order)?))?;
        let held = Held::new("loader", std::sync::Mutex::new(loader));
        Ok(Loader(held, self.1.clone_ref(py)))
    }

    /// Begins a value that comes in pieces.
    fn write_value(&self, py: Python<'_>) -> PyResult<ValueWriter> {
        call(py, || {
            let writer = self.session()?.write_value()?;
            Ok(ValueWriter(Held::new("value writer", std::sync::Mutex::new(writer))))
        })
    }

    /// The bytes of several values of this session.
    fn read_values(&self, py: Python<'_>, values: Vec<PyRef<'_, Value>>) -> PyResult<Values> {
        let values: Vec<&Value> = values.iter().map(|it| &**it).collect();
        call(py, || {
            let wanted =
                values.iter().map(|it| Ok(it.0.read()?.clone())).collect::<Outcome<Vec<_>>>()?;
            Ok(Values::new(Packed::of(&self.session()?.read_values(&wanted)?)))
        })
    }

    /// Saves tables as the snapshot `name`, whole or not at all.
    #[pyo3(signature = (name, tables, *, label = "", payload = None))]
    fn save_snapshot(
        &self,
        py: Python<'_>,
        name: &str,
        tables: Tables<'_>,
        label: &str,
        payload: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let tables = borrowed(&tables);
        let payload = payload.map(|it| bytes(it, "payload")).transpose()?.unwrap_or_default();
        call(py, || {
            let session = self.session()?;
            read_tables(&tables, |tables| {
                let content = SnapshotContent { label, payload: &payload, tables };
                Ok(session.save_snapshot(name, content)?)
            })
        })
    }

    /// Opens the snapshot `name`; `label` is the one that it must have.
    #[pyo3(signature = (name, *, label = None, verify = "quick", operators = Vec::new()))]
    fn open_snapshot(
        &self,
        py: Python<'_>,
        name: &str,
        label: Option<String>,
        verify: &str,
        operators: Vec<Bound<'_, MergeOperator>>,
    ) -> PyResult<Snapshot> {
        let OpenTable { verify, operators } = self.open_options(py, verify, &operators)?;
        let options = OpenSnapshot { verify, label, operators };
        let snapshot = call(py, || Ok(self.session()?.open_snapshot(name, &options)?))?;
        Ok(Snapshot::new(snapshot, self.1.clone_ref(py)))
    }

    /// What is known of all snapshots, by name, without opening them.
    fn snapshots(&self, py: Python<'_>) -> PyResult<Vec<SnapshotInfo>> {
        call(py, || {
            let found = self.session()?.list_snapshots()?;
            Ok(found
                .into_iter()
                .map(|it| SnapshotInfo {
                    name: it.name,
                    label: it.label,
                    sequence: it.sequence,
                    payload_bytes: it.payload_bytes,
                    disk_bytes: it.disk_bytes,
                    tables: it.tables.into_iter().map(|it| it.name).collect(),
                    damage: it.damage,
                })
                .collect())
        })
    }

    /// Deletes a snapshot. Tables opened from it stay usable.
    fn delete_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        call(py, || Ok(self.session()?.delete_snapshot(name)?))
    }

    /// Exports a snapshot to an empty folder, which becomes a session with that one snapshot.
    #[pyo3(signature = (name, target, *, verify = "quick"))]
    fn export_snapshot(
        &self,
        py: Python<'_>,
        name: &str,
        target: &Bound<'_, PyAny>,
        verify: &str,
    ) -> PyResult<Transferred> {
        let verify = crate::input::choose(py, "verify", verify, VERIFY)?;
        let target = Place::of(py, target)?;
        call(py, || {
            let session = self.session()?;
            Ok(moved(session.export_snapshot(name, &target.disk(true)?, verify)?))
        })
    }

    /// Imports a snapshot of the session in `source`, as `new_name` if that is given.
    #[pyo3(signature = (source, name, new_name = None, *, verify = "quick"))]
    fn import_snapshot(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        name: &str,
        new_name: Option<&str>,
        verify: &str,
    ) -> PyResult<Transferred> {
        let verify = crate::input::choose(py, "verify", verify, VERIFY)?;
        let source = Place::of(py, source)?;
        call(py, || {
            let (session, source) = (self.session()?, source.disk(false)?);
            Ok(moved(session.import_snapshot(&source, name, new_name.unwrap_or(name), verify)?))
        })
    }

    /// Backs up all live tables, as they are at one moment, to a folder that is empty, or has an earlier backup of this
    /// session, which becomes the new one. Updates go on meanwhile. `Session.open` opens the backup.
    #[pyo3(signature = (target, *, verify = "quick"))]
    fn backup(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        verify: &str,
    ) -> PyResult<BackedUp> {
        let verify = crate::input::choose(py, "verify", verify, VERIFY)?;
        let target = Place::of(py, target)?;
        call(py, || {
            let from = self.session()?.backup(&target.disk(true)?, verify)?;
            Ok(BackedUp {
                tables: from.tables,
                moved: moved(from.moved),
                kept: moved(from.kept),
                log_records: from.log_records,
                log_bytes: from.log_bytes,
            })
        })
    }

    /// Follows the live tables of a session that was opened to read, beside the process that updates them.
    #[pyo3(signature = (*, verify = "quick", operators = Vec::new()))]
    fn follow(
        &self,
        py: Python<'_>,
        verify: &str,
        operators: Vec<Bound<'_, MergeOperator>>,
    ) -> PyResult<Follower> {
        let options = self.open_options(py, verify, &operators)?;
        let follower = call(py, || Ok(self.session()?.follow(&options)?))?;
        Ok(Follower::new(follower, self.1.clone_ref(py)))
    }

    /// What was found wrong at opening, and which live tables the last checkpoint could not write.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || Ok(self.session()?.warnings()))
    }

    /// Whether a sync failed, so that updates raise `PoisonedError`.
    #[getter]
    fn is_poisoned(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || Ok(self.session()?.is_poisoned()))
    }

    /// Has updates do no merging; one that would have a table hold more than so many bytes in memory is refused.
    fn pause_merges(&self, py: Python<'_>, buffered_bytes_max: u64) -> PyResult<()> {
        call(py, || {
            self.session()?.pause_merges(buffered_bytes_max);
            Ok(())
        })
    }

    /// Has updates merge again.
    fn resume_merges(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || {
            self.session()?.resume_merges();
            Ok(())
        })
    }

    /// Whether merges are paused.
    #[getter]
    fn merges_are_paused(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || Ok(self.session()?.merges_are_paused()))
    }

    /// Where the session is.
    #[getter]
    fn root(&self, py: Python<'_>) -> PyResult<String> {
        call(py, || Ok(self.session()?.root().to_owned()))
    }

    /// What was counted since it was opened.
    fn stats(&self, py: Python<'_>) -> PyResult<SessionStats> {
        call(py, || Ok(tell(&self.session()?.stats())))
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Ends the session. Live tables are durable then; of the others, what is in no snapshot is gone. Its tables and
    /// views raise `ClosedError` from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || match self.0.take()? {
            Some(session) => Ok(session.close()?),
            None => Ok(()),
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.1)
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

pub fn moved(from: varvite::Transferred) -> Transferred {
    Transferred { segments: from.segments, bytes: from.bytes, copied_bytes: from.copied_bytes }
}

fn tell(from: &varvite::SessionStats) -> SessionStats {
    SessionStats {
        keys_looked_up: from.keys_looked_up,
        pages_read: from.pages_read,
        cache_hits: from.cache_hits,
        blobs_read: from.blobs_read,
        blob_read_bytes: from.blob_read_bytes,
        blob_written_bytes: from.blob_written_bytes,
        merge_read_bytes: from.merge_read_bytes,
        written_bytes: from.written_bytes(),
        write_out_bytes: from.write_out_bytes,
        merge_written_bytes: from.merge_written_bytes,
        snapshot_written_bytes: from.snapshot_written_bytes,
        load_written_bytes: from.load_written_bytes,
        log_records: from.log_records,
        log_written_bytes: from.log_written_bytes,
        log_syncs: from.log_syncs,
        checkpoints: from.checkpoints,
        filters: from
            .filters
            .iter()
            .map(|it| FilterStats {
                probes: it.probes,
                passes: it.passes,
                false_passes: it.false_passes,
            })
            .collect(),
    }
}

/// Checks every byte that snapshots and live tables of a session need, also beside its writer: what is wrong, or nothing.
#[pyfunction]
pub fn check(py: Python<'_>, place: &Bound<'_, PyAny>) -> PyResult<Vec<Finding>> {
    let place = Place::of(py, place)?;
    call(py, || {
        let disk = place.disk(false)?;
        let go_on = |_| std::ops::ControlFlow::Continue(());
        let report = varvite::table::check::check(&disk, go_on).map_err(Fault::from)?;
        Ok(report.findings.into_iter().map(tell_finding).collect())
    })
}

pub fn tell_finding(from: varvite::table::check::Finding) -> Finding {
    Finding {
        file: from.file,
        detail: from.detail,
        snapshots: from.snapshots,
        live_tables: from.live_tables,
    }
}
