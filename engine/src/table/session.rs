//! A folder of tables, open for writing by one process at a time.
//!
//! Layout: `session` (identity and salt), `lock`, `segments/`, `snapshots/`. What is durable is the
//! snapshots. At open every manifest is read; segments that none names are removed, unless a
//! manifest does not parse: then nothing is removed and [`Session::warnings`] tells.
//!
//! Format document: `docs/format/session.md`. Every write and sync: `docs/design/durability.md`.

mod live;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::checkpoint::read_checkpoint;

use super::counters::{Purpose, SessionStats};
use super::folder::{
    self, Claim, Others, deleted_meanwhile, holder, lost_or_deleted, missing_snapshot,
    read_manifest, read_manifest_bytes, read_session, snapshot_names,
};
use super::handle::Table;
use super::levels::{Merging, Shape};
use super::live::LiveTables;
use super::log::LogWriter;
use super::log_files;
use super::merge_job::{Input, MergeJob, MergePlan, MergeState};
use super::operator;
use super::options::{Log, OpenSnapshot, Operation, SessionOptions, TableOptions, Verify};
use super::output::BlobPlan;
use super::paths::{self, LOCK, SEGMENTS, SNAPSHOTS};
use super::pins::{Files, Named, Pins};
use super::segment::{Segment, SegmentMeta};
use super::snapshot::{
    self, LevelRecord, Manifest, MergeRecord, PAYLOAD_BYTES_MAX, SnapshotInfo, TableRecord,
    files_of, named_files, open_run,
};
use super::store::Store;
use super::union_merge::Groups;
use super::verify;
use crate::disk::{Access, Disk, entropy};
use crate::error::{Error, Kind, Result};
use crate::file::exclusive;
use crate::file::replace::{self, remove_leftovers};
use crate::format::hash::Salt;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

pub use live::OpenTable;

/// How often a listing is begun again because snapshots went while it was read.
const LISTINGS_MAX: u32 = 100;

/// What a snapshot is to hold.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotContent<'a> {
    /// The application's mark, which [`OpenSnapshot::label`] can ask for.
    pub label: &'a str,
    /// Bytes of the application's own, at most 16 MiB: what must be in step with the tables.
    pub payload: &'a [u8],
    /// Tables of this session, each with a name of its own.
    pub tables: &'a [&'a Table],
}

/// An open snapshot.
///
/// Its tables can be updated, if the session is open for writing; the snapshot stays as it is.
///
/// ```
/// # use varvite::{OpenSnapshot, Session, SessionOptions, SnapshotContent, TableOptions};
/// # use varvite::disk::memory::MemoryDisk;
/// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
/// # let utxo = session.create_table("utxo", TableOptions::utxo())?;
/// # let stake = session.create_table("stake", TableOptions::default())?;
/// let content = SnapshotContent { label: "ledger", payload: b"", tables: &[&utxo, &stake] };
/// session.save_snapshot("both", content)?;
/// let options = OpenSnapshot { label: Some("ledger".to_owned()), ..OpenSnapshot::default() };
/// let mut snapshot = session.open_snapshot("both", &options)?;
/// let stake = snapshot.take("stake")?;
/// assert_eq!(snapshot.tables.len(), 1);
/// assert!(snapshot.take("stake").is_err(), "it was taken");
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Debug)]
pub struct Snapshot {
    /// The label that it was saved with.
    pub label: String,
    /// The payload that it was saved with.
    pub payload: Vec<u8>,
    /// Its tables in the order given when it was saved.
    pub tables: Vec<Table>,
}

impl Snapshot {
    /// Takes the table called `name` out of it; `Missing` when there is none.
    pub fn take(&mut self, name: &str) -> Result<Table> {
        let place = self.tables.iter().position(|table| table.name() == name);
        let place = place.ok_or_else(|| {
            let names: Vec<_> = self.tables.iter().map(Table::name).collect();
            Error::missing(format!(
                "the snapshot has no table \"{name}\"; it has: {}",
                names.join(", ")
            ))
        })?;
        Ok(self.tables.remove(place))
    }
}

/// An open session. Clones are handles to the same one.
///
/// ```
/// use varvite::{Batch, OpenSnapshot, Session, SessionOptions, SnapshotContent, TableOptions};
/// use varvite::disk::memory::MemoryDisk;
///
/// let disk = MemoryDisk::seeded(1);
/// let session = Session::create(disk.clone(), SessionOptions::default())?;
/// let mut table = session.create_table("utxo", TableOptions::utxo())?;
/// table.update(Batch::new().insert(b"tx1#0", b"5 ada"))?;
/// let content = SnapshotContent { label: "", payload: b"slot 42", tables: &[&table] };
/// session.save_snapshot("slot-42", content)?;
/// session.close()?;
///
/// let session = Session::open(disk, SessionOptions::default())?;
/// let mut snapshot = session.open_snapshot("slot-42", &OpenSnapshot::default())?;
/// assert_eq!(snapshot.payload, b"slot 42");
/// assert_eq!(snapshot.take("utxo")?.get(b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Clone)]
pub struct Session {
    pins: Arc<Pins>,
    live: Arc<LiveTables>,
    /// Held by whoever saves or deletes a snapshot or closes, across all of its writes. Readers of
    /// snapshots take `pins` only, which nobody holds while the disk works.
    changing: Arc<Mutex<()>>,
    /// How many snapshots were saved, as far as those tell that are there; under `changing`.
    saves: Arc<AtomicU64>,
    /// Last, because the folder's lock goes with it, and files are removed under the lock only.
    pub(super) store: Arc<Store>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.store.disk.root())
    }
}

impl Session {
    /// Makes a session in the root folder of `disk`, which must be empty. `Exists` when there is a
    /// session, `Invalid` when there is something else, `Corrupt` when files of a session are there
    /// without the file `session`: nothing that may be data is ever removed. What a creation or an
    /// export has left that was cut short does not count.
    ///
    /// Its identity follows from the seed in the options; without one, `disk` draws it.
    pub fn create(disk: Arc<dyn Disk>, options: SessionOptions) -> Result<Self> {
        Self::create_beside(disk, options, Others::Refuse)
    }

    /// Makes a session in place of whatever session is there. Files that are no session's stay.
    pub(crate) fn create_over(disk: Arc<dyn Disk>, options: SessionOptions) -> Result<Self> {
        folder::clear(&*disk)?;
        Self::create_beside(disk, options, Others::Keep)
    }

    fn create_beside(disk: Arc<dyn Disk>, options: SessionOptions, others: Others) -> Result<Self> {
        let seed = entropy::seed(options.seed, &*disk)?;
        let (claim, lock) = Claim::begin(&disk, others)?;
        // The salt does not follow from the identity, which every file of the session shows.
        let from = Salt::new(seed);
        let (identity, salt) = (from.hash(b"identity"), from.hash(b"salt"));
        let store = Store::new(disk, options, (identity, salt), 1, Some((lock, seed)));
        let pins = Arc::new(Pins::default());
        let log = Self::start_log(&store, &pins, 1, Vec::new())?;
        claim.finish(identity, salt)?;
        let live = LiveTables::new(&store, &pins, log, None, None);
        Ok(Session { store, pins, live, changing: Arc::default(), saves: Arc::default() })
    }

    fn start_log(
        store: &Arc<Store>,
        pins: &Arc<Pins>,
        number: u64,
        older: Vec<super::log::LogFile>,
    ) -> Result<Option<LogWriter>> {
        if store.options.log == Log::None {
            return Ok(None);
        }
        LogWriter::start(store, pins, number, older).map(Some)
    }

    /// Opens the session in the root folder of `disk` for writing. `Missing` when there is none,
    /// `Locked` when another process has it. Reads every manifest.
    pub fn open(disk: Arc<dyn Disk>, options: SessionOptions) -> Result<Self> {
        let (identity, salt) = read_session(&*disk)?;
        let seed = entropy::seed(options.seed, &*disk)?;
        let lock = exclusive::lock(&*disk, LOCK, &holder())?;
        // What is found by its name, the session itself too, may not be durable there yet, when a process
        // died before it synced the folder; what that replaced or made superfluous must not go before.
        for folder in ["", SNAPSHOTS] {
            disk.sync_directory(folder)?;
        }
        let mut next_segment = 1;
        let mut on_disk = BTreeMap::new();
        for name in disk.list(SEGMENTS)? {
            if let Some(id) = paths::file_id(&name) {
                next_segment = next_segment.max(id.saturating_add(1));
                on_disk.insert(name, id);
            }
        }
        let store = Store::new(disk, options, (identity, salt), next_segment, Some((lock, seed)));
        let mut named = Named::default();
        let mut saves = 0;
        for name in snapshot_names(&*store.disk)? {
            match pin(&store, &name) {
                Ok((sequence, files)) => {
                    saves = saves.max(sequence);
                    named.snapshots.insert(name, files);
                }
                Err(error) => named.warnings.push(format!(
                    "snapshot {name} cannot be read, so no file was removed: {error}"
                )),
            }
        }
        let disk = &*store.disk;
        let found = read_checkpoint(disk, identity).and_then(|checkpoint| {
            let log = log_files::find(disk, identity, checkpoint.as_ref(), &mut |_, _| Ok(()))?;
            Ok((checkpoint, log))
        });
        let (checkpoint, log, damage) = match found {
            Ok((checkpoint, log)) => (checkpoint, Some(log), None),
            Err(error) if error.kind() == Kind::Io => return Err(error),
            Err(error) => (None, None, Some(error)),
        };
        if let Some(checkpoint) = &checkpoint {
            let files = named_files(checkpoint.segments());
            named.live = files.map(|(id, path)| (id, store.shared_file(id, path))).collect();
        }
        for (number, blobs) in log.iter().flat_map(|log| &log.blobs) {
            let files = blobs.keys().map(|id| (*id, store.shared_file(*id, paths::blob(*id))));
            named.log.insert(*number, files.collect());
        }
        if let Some(error) = &damage {
            named
                .warnings
                .push(format!("the live tables cannot be used, so no file was removed: {error}"));
        }
        for files in named.all() {
            // A file that is missing keeps its id: another must not pass for it.
            if let Some((&last, _)) = files.last_key_value() {
                store.number_above(last);
            }
            on_disk.retain(|_, id| !files.contains_key(id));
        }
        if named.warnings.is_empty() {
            remove_files(disk, on_disk.keys())?;
            for folder in [SNAPSHOTS, ""] {
                remove_leftovers(disk, folder, |name| paths::is_replaced(folder, name))?;
            }
        }
        let pins = Arc::new(Pins::new(named));
        let writer = match log {
            Some(log) if store.options.log != Log::None => {
                log.save_again(disk)?;
                log.remove_leftovers(disk)?;
                Self::start_log(&store, &pins, log.next, log.files)?
            }
            _ => None,
        };
        let live = LiveTables::new(&store, &pins, writer, checkpoint, damage.as_ref());
        let saves = Arc::new(AtomicU64::new(saves));
        Ok(Session { store, pins, live, changing: Arc::default(), saves })
    }

    /// Opens the session for reading snapshots, also while another process writes. Takes no lock
    /// and changes nothing; its tables cannot be updated. `Missing` when there is none. Reads one
    /// small file.
    pub fn open_read_only(disk: Arc<dyn Disk>, options: SessionOptions) -> Result<Self> {
        let identity = read_session(&*disk)?;
        let store = Store::new(disk, options, identity, u64::MAX, None);
        let pins = Arc::new(Pins::default());
        let live = LiveTables::new(&store, &pins, None, None, None);
        Ok(Session { store, pins, live, changing: Arc::default(), saves: Arc::default() })
    }

    /// Ends the session. Live tables are durable then. Of the others, everything since the last
    /// snapshot is gone, by design; tables and views that are still held give `Closed`.
    ///
    /// Costs a sync of the log, if there is one, and a listing of the folder. Waits for a snapshot that
    /// is being saved, and for updates and helpers to finish their segment.
    pub fn close(self) -> Result<()> {
        let _changing = lock(&self.changing);
        self.store.check_open()?;
        self.store.close();
        // Only now, when nothing is acknowledged any more and no sync fails elsewhere.
        let is_sound = self.store.is_sound();
        let synced = if is_sound { self.live.sync() } else { Ok(()) };
        // In a folder that took the place of this one, the files are another's.
        let synced = synced.and_then(|()| if is_sound { self.store.check_lock() } else { Ok(()) });
        let is_certain = self.pins.lock().warnings.is_empty();
        let removes = is_sound && synced.is_ok() && is_certain;
        let removed = if removes { self.remove_unnamed() } else { Ok(()) };
        self.store.unlock();
        synced.and(removed)
    }

    /// Removes the segments and blob files that nothing durable names.
    fn remove_unnamed(&self) -> Result<()> {
        let names = self.store.disk.list(SEGMENTS)?;
        let unnamed: Vec<_> = {
            let named = self.pins.lock();
            let named: BTreeSet<_> = named.all().flat_map(Files::keys).collect();
            let unnamed =
                |name: &&String| paths::file_id(name).is_some_and(|id| !named.contains(&id));
            names.iter().filter(unnamed).collect()
        };
        remove_files(&*self.store.disk, unnamed.into_iter())
    }

    /// What was found wrong at open; while there is anything, no file is removed at open or close.
    /// And which live tables the last checkpoint could not write out, and why.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.pins.lock().warnings.clone();
        warnings.extend(self.live.warnings());
        warnings
    }

    /// Whether a sync failed, so that updates give `Poisoned`: open the session again. Reads nothing.
    pub fn is_poisoned(&self) -> bool {
        !self.store.read_only && !self.store.is_sound()
    }

    /// A new, empty table. `Invalid` for a name or options that cannot be. Without a log nothing is
    /// written. With one the table is live: durable, and `Exists` when there is one of that name;
    /// it costs a checkpoint, O(segments of the live tables).
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.store.check_writable()?;
        paths::check_name("table", name)?;
        options.check()?;
        let table = Table::new(Arc::clone(&self.store), name, options, Shape::default(), None);
        if self.live.has_log() { self.make_live(table) } else { Ok(table) }
    }

    /// Saves `content` as the snapshot `name`, whole or not at all. `Exists` when the name is taken.
    ///
    /// Writes out what the tables' write buffers hold, syncs the segments that are not yet, and
    /// writes one manifest: O(write buffer + segments).
    pub fn save_snapshot(&self, name: &str, content: SnapshotContent<'_>) -> Result<()> {
        self.store.check_writable()?;
        paths::check_name("snapshot", name)?;
        if content.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a payload of {} bytes is too long for a snapshot: the limit is {PAYLOAD_BYTES_MAX}",
                content.payload.len()
            )));
        }
        let mut names = BTreeSet::new();
        for table in content.tables {
            if !Arc::ptr_eq(&table.store, &self.store) {
                return Err(Error::invalid(format!(
                    "table {} belongs to another session",
                    table.name()
                )));
            }
            if !names.insert(table.name()) {
                return Err(Error::invalid(format!(
                    "two tables of the snapshot are called {}: duplicate one under another name",
                    table.name()
                )));
            }
        }
        let (path, _changing) = self.claim(name)?;
        let count = content.tables.len() as u64;
        self.store.observe(Operation::SaveSnapshot, count, || self.save(name, &path, content))
    }

    /// The path of a new snapshot, and the right to make it. `Exists` when the name is taken. Held to
    /// the end, so that two makers of one name cannot pass each other.
    pub(super) fn claim(&self, name: &str) -> Result<(String, MutexGuard<'_, ()>)> {
        paths::check_name("snapshot", name)?;
        let path = paths::snapshot(name);
        let changing = lock(&self.changing);
        self.store.check_writable()?;
        if self.pins.lock().snapshots.contains_key(name) || self.store.disk.exists(&path)? {
            return Err(Error::new(
                Kind::Exists,
                format!(
                    "there is a snapshot {name} already: delete it first, or choose another name"
                ),
            ));
        }
        Ok((path, changing))
    }

    fn save(&self, name: &str, path: &str, content: SnapshotContent<'_>) -> Result<()> {
        let mut tables = Vec::new();
        let mut segments = BTreeMap::new();
        for table in content.tables {
            let (shape, base) = table.written_out()?;
            let (name, options, base) = (table.name(), table.options(), base.as_deref());
            tables.push(TableRecord::new(name, options, &shape, base, &mut segments));
        }
        let (label, payload) = (content.label.to_owned(), content.payload.to_vec());
        self.write_snapshot(name, path, (label, payload, tables), &segments)
    }

    /// Makes a snapshot of `segments` and what says where they belong: syncs, then one rename.
    pub(super) fn write_snapshot(
        &self,
        name: &str,
        path: &str,
        (label, payload, tables): (String, Vec<u8>, Vec<TableRecord>),
        segments: &snapshot::Named,
    ) -> Result<()> {
        self.store.sync_segments(segments.values())?;
        self.store.check_lock()?;
        let header = Manifest::header(self.store.identity, name);
        let sequence = self.next_save();
        let manifest = Manifest { header, name: name.to_owned(), sequence, label, payload, tables };
        let bytes = manifest.encode();
        self.store.count_manifest(bytes.len() as u64);
        let files = files_of(segments);
        // Kept from before the manifest can be there, so that it never names a file that is gone,
        // and that whoever sees it finds its files held.
        self.pins.keep(name, files);
        if let Err(error) = self.replace(path, &bytes) {
            // Without the new name nothing has changed; with it, it may or may not be durable.
            if self.store.disk.exists(path).unwrap_or(true) {
                return Err(self.poisoned_by(error));
            }
            self.pins.let_go(name);
            return Err(error);
        }
        Ok(())
    }

    /// Gives the file at `path` this content.
    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let replacement = replace::Replacement::begin(&self.store.disk, path, Access::Buffered)?;
        self.store.spares.make_room(|| replacement.file().write_at(0, bytes))?;
        replacement.finish()
    }

    /// The number of the next save. One that fails leaves a gap.
    fn next_save(&self) -> u64 {
        self.saves.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What a failed sync leaves on disk is unknown, so nothing more is written.
    fn poisoned_by(&self, error: Error) -> Error {
        self.store.poison();
        error
    }

    /// Opens the snapshot `name`. `Missing`, `Corrupt`, or `Invalid` for another label or operator.
    /// Reads the manifest, and header and footer of each segment; with [`Verify::Full`] every byte.
    pub fn open_snapshot(&self, name: &str, options: &OpenSnapshot) -> Result<Snapshot> {
        self.store.check_open()?;
        self.store.observe(Operation::OpenSnapshot, 1, || {
            let (manifest, _held) = self.read_held(name)?;
            if let Some(label) = &options.label
                && *label != manifest.label
            {
                return Err(Error::invalid(format!(
                    "snapshot {name} has the label \"{}\", not \"{label}\"",
                    manifest.label
                )));
            }
            let mut tables = Vec::new();
            for record in &manifest.tables {
                let opened = self
                    .open_recorded(record, options)
                    .map_err(|error| lost_or_deleted(&*self.store.disk, &manifest, error));
                tables.push(opened?);
            }
            Ok(Snapshot { label: manifest.label, payload: manifest.payload, tables })
        })
    }

    /// The manifest of a snapshot and counts of its files, so that none of them goes while they are
    /// opened, whoever deletes the snapshot meanwhile.
    pub(super) fn read_held(&self, name: &str) -> Result<(Manifest, Files)> {
        let manifest = read_manifest(&*self.store.disk, self.store.identity, name)?;
        let (files, certain) = {
            let named = self.pins.lock();
            let files = named.snapshots.get(name).cloned().unwrap_or_default();
            (files, named.warnings.is_empty())
        };
        let is_held = manifest.files().all(|(id, _)| files.contains_key(&id));
        // Where a manifest does not parse, and in a session that only reads, nothing is removed.
        if is_held || self.store.read_only || !certain {
            return Ok((manifest, files));
        }
        Err(deleted_meanwhile(name))
    }

    fn open_recorded(&self, record: &TableRecord, options: &OpenSnapshot) -> Result<Table> {
        let store = &self.store;
        let operator = record.operator.as_deref();
        let operator = operator
            .map(|name| operator::resolve(&record.name, name, &options.operators))
            .transpose()?;
        let table_options = TableOptions {
            write_buffer_bytes: record.write_buffer_bytes,
            size_ratio: record.size_ratio,
            lookups: record.lookups,
            filter_bits: record.filter_bits,
            filter_bytes_max: record.filter_bytes_max,
            blob_min_bytes: Some(record.blob_min_bytes),
            operator,
        };
        let _held = store.open_segments(record.segments())?;
        let mut verified = BTreeSet::new();
        let mut open = |meta: &SegmentMeta| {
            let segment = store.open_segment(meta)?;
            if options.verify == Verify::Full {
                verify::segment(&segment)?;
                for blob in segment.blobs() {
                    if verified.insert(blob.meta().id) {
                        blob.verify()?;
                    }
                }
            }
            Ok(segment)
        };
        let base = open_run(&record.base, &mut open)?;
        let base_cost = base.as_ref().map_or(0, |run| run.cost());
        let clock =
            record.seals * record.write_buffer_bytes + base_cost.min(record.write_buffer_bytes);
        let mut shape = Shape { seals: record.seals, ..Shape::default() };
        for level in &record.levels {
            shape.levels.push(open_level(store, &table_options, level, clock, &mut open)?);
        }
        shape.last = open_run(&record.last, &mut open)?;
        if let Some(union) = &record.union {
            let groups = Arc::new(union.groups());
            let merging = &union.merging;
            let union =
                open_merge(store, &table_options, (merging, Some(groups)), clock, &mut open)?;
            shape.union = Some(union);
        }
        Ok(Table::new(Arc::clone(store), &record.name, table_options, shape, base))
    }

    /// Every snapshot, by name; those that cannot be read say why. One manifest read each.
    pub fn list_snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        self.store.check_open()?;
        // A writer that replaces its snapshot by a newer one deletes the old name that was listed;
        // what is missing then is there under a name that only another listing shows.
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (snapshots, vanished) = self.list_once()?;
            if vanished == 0 || attempts == LISTINGS_MAX {
                return Ok(snapshots);
            }
        }
    }

    /// The snapshots of one listing that were still there when read, and how many were not.
    fn list_once(&self) -> Result<(Vec<SnapshotInfo>, usize)> {
        let (mut snapshots, mut vanished) = (Vec::new(), 0);
        for name in snapshot_names(&*self.store.disk)? {
            match read_manifest_bytes(&*self.store.disk, self.store.identity, &name) {
                Ok((manifest, length)) => {
                    snapshots.push(SnapshotInfo::new(&name, &manifest, length));
                }
                Err(error) if error.kind() == Kind::Missing => vanished += 1,
                Err(error) => snapshots.push(SnapshotInfo::damaged(&name, &error)),
            }
        }
        Ok((snapshots, vanished))
    }

    /// Deletes the snapshot `name`; `Missing` when there is none. Tables opened from it stay usable.
    /// Its segments go when nothing else holds them.
    pub fn delete_snapshot(&self, name: &str) -> Result<()> {
        self.store.check_writable()?;
        paths::check_name("snapshot", name)?;
        let _changing = lock(&self.changing);
        self.store.check_writable()?;
        self.store.check_lock()?;
        let removed = self.store.disk.remove(&paths::snapshot(name));
        removed.map_err(|error| missing_snapshot(&*self.store.disk, name, error))?;
        let synced = self.store.disk.sync_directory(SNAPSHOTS);
        synced.map_err(|error| self.poisoned_by(error))?;
        self.pins.let_go(name);
        Ok(())
    }

    /// Has updates and helpers do no merging, until [`Session::resume_merges`].
    ///
    /// Updates go on and gather in memory. One that would have a table hold more than
    /// `buffered_bytes_max` bytes of entries in sealed write buffers, beside the active one, is refused
    /// (`Invalid`) and changes nothing. What is asked for is still done: [`Table::work`],
    /// [`Table::supply_union_credits`], snapshots and unions. The debt is in [`Table::stats`]; after
    /// resuming, the next update of a table pays what is due of it, which [`Table::work`] can do before
    /// in pieces.
    ///
    /// ```
    /// # use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    /// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// # let mut table = session.create_table("t", TableOptions::default())?;
    /// session.pause_merges(64 << 20);
    /// table.update(Batch::new().insert(b"key", b"value"))?; // in the moment that counts
    /// assert_eq!(table.last_work(), 0);
    /// while table.work(1 << 20)? > 0 {} // in spare time
    /// session.resume_merges();
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn pause_merges(&self, buffered_bytes_max: u64) {
        self.store.pause_merges(buffered_bytes_max);
    }

    /// Has updates and helpers merge again. Nothing when merges are not paused.
    pub fn resume_merges(&self) {
        self.store.resume_merges();
    }

    /// Whether [`Session::pause_merges`] is in force.
    #[must_use]
    pub fn merges_are_paused(&self) -> bool {
        self.store.paused().is_some()
    }

    /// What was counted since the session was opened.
    pub fn stats(&self) -> SessionStats {
        self.store.counters.read()
    }

    /// Where the session is.
    pub fn root(&self) -> &str {
        self.store.disk.root()
    }
}

/// Which save a snapshot is, and the files of the segments that it names. None is opened.
fn pin(store: &Store, name: &str) -> Result<(u64, Files)> {
    let manifest = read_manifest(&*store.disk, store.identity, name)?;
    let files = manifest.files().map(|(id, path)| (id, store.shared_file(id, path)));
    Ok((manifest.sequence, files.collect()))
}

/// Removes files of the folder of segments; one that its last holder removed meanwhile is no error.
fn remove_files<'a>(disk: &dyn Disk, mut names: impl Iterator<Item = &'a String>) -> Result<()> {
    names.try_for_each(|name| match disk.remove(&format!("{SEGMENTS}/{name}")) {
        Err(error) if error.kind() == Kind::Missing => Ok(()),
        removed => removed,
    })
}

fn open_level(
    store: &Arc<Store>,
    options: &TableOptions,
    record: &LevelRecord,
    clock: u64,
    open: &mut dyn FnMut(&SegmentMeta) -> Result<Arc<Segment>>,
) -> Result<super::levels::Level> {
    let mut level = super::levels::Level::default();
    for run in &record.runs {
        level.runs.extend(open_run(run, open)?);
    }
    if let Some(record) = &record.merging {
        level.merging = Some(open_merge(store, options, (record, None), clock, open)?);
    }
    Ok(level)
}

/// A merge that goes on from its boundary; what is left is paid until the result is due.
fn open_merge(
    store: &Arc<Store>,
    options: &TableOptions,
    (record, groups): (&MergeRecord, Option<Arc<Groups>>),
    clock: u64,
    open: &mut dyn FnMut(&SegmentMeta) -> Result<Arc<Segment>>,
) -> Result<Merging> {
    let mut inputs = Vec::new();
    for input in &record.inputs {
        inputs.extend(open_run(input, open)?.map(Input::Run));
    }
    let state = MergeState {
        outputs: open_run(&record.outputs, open)?.unwrap_or_default(),
        boundary: record.boundary.as_deref().map(Arc::from),
        inputs,
        spent: record.spent,
        done: record.done,
    };
    let plan = MergePlan {
        purpose: Purpose::Merge,
        debt: record.debt,
        bottom: record.bottom,
        filter_bits: record.filter_bits,
        blobs: if groups.is_some() { BlobPlan::of_union(options) } else { BlobPlan::of(options) },
        groups,
    };
    let job = MergeJob::resume(Arc::clone(store), plan, options.operator.clone(), state);
    Ok(Merging {
        job,
        start: clock.min(record.due),
        spent_at_start: record.spent,
        due: record.due,
        to_last: record.to_last,
    })
}
