//! A folder of tables, open for writing by one process at a time.
//!
//! Layout: `session` (identity and salt), `lock`, `segments/`, `snapshots/`. What is durable is the
//! snapshots. At open every manifest is read; segments that none names are removed, unless a
//! manifest does not parse, a file that one names is lost, or their folder is: then nothing is removed
//! and [`Session::warnings`] tells.
//!
//! Format document: `docs/format/session.md`. Every write and sync: `docs/design/durability.md`.

use std::sync::Arc;

use crate::order;
use crate::order::BTreeMap;
use crate::table::durable::read_checkpoint;

use crate::disk::{Access, Disk, Lock, Mode, entropy, remove_quietly};
use crate::error::{Kind, Result};
use crate::file::exclusive;
use crate::file::replace::remove_leftovers;
use crate::format::hash::Salt;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::table::durable::folder::{self, Claim, read_manifest, read_session, snapshot_names};
use crate::table::durable::snapshot::named_files;
use crate::table::durable::{LiveTables, LogWriter, log_files};
use crate::table::merge::Shape;
use crate::table::shared::paths::{self, LOCK, LOG, SEGMENTS, SNAPSHOTS};
use crate::table::shared::{
    CreatedNames, Files, Log, Operation, PinnedFiles, Pins, SegmentStore, SessionOptions,
    SessionStats, TableOptions,
};
use crate::table::write::Table;

/// How many numbers of saves are passed over where nothing tells the greatest one that was given.
const SAVES_SKIPPED: u64 = 1 << 32;

/// An open session. Clones are handles to the same one.
///
/// Errors of every call, beside those that it names: `Io` where the disk fails, `Corrupt` where what is read is damaged, `Closed`
/// after [`Session::close`]; of calls that write, `Invalid` on a session to read, `Poisoned` after a sync that failed.
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
    pub(in crate::table) pins: Arc<Pins>,
    pub(in crate::table) live: Arc<LiveTables>,
    /// Held by whoever saves or deletes a snapshot or closes, across all of its writes. Readers of
    /// snapshots take `pins` only, which nobody holds while the disk works.
    pub(in crate::table) changing: Arc<Mutex<()>>,
    /// How many snapshots were saved; under `changing`.
    saves: Arc<AtomicU64>,
    /// Of which number a file tells that; under `changing`.
    saved: Arc<AtomicU64>,
    created: Arc<CreatedNames>,
    /// Whether this handle, or the one that it is a clone of, has made it.
    pub(in crate::table) is_new: bool,
    /// Last, because the folder's lock goes with it, and files are removed under the lock only.
    pub(in crate::table) store: Arc<SegmentStore>,
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
        let seed = entropy::seed(options.seed, &*disk)?;
        let (claim, lock) = Claim::begin(&disk)?;
        Self::create_claimed(disk, options, seed, &claim, lock)
    }

    /// Says that no ranges of its tables will be read, so that what it writes needs no range filters.
    pub(crate) fn expect_no_ranges(&self) {
        self.store.expect_no_ranges();
    }

    /// Makes a session in place of whatever session is there. Files that are no session's stay.
    pub(crate) fn create_over(disk: Arc<dyn Disk>, options: SessionOptions) -> Result<Self> {
        let seed = entropy::seed(options.seed, &*disk)?;
        let (claim, lock) = Claim::begin_over(&disk)?;
        Self::create_claimed(disk, options, seed, &claim, lock)
    }

    /// Removes the session in the root folder of `disk`, which nobody has open, but for what is not its own there. Before
    /// each step `is_held` makes sure of the lock of the store that it is a part of.
    pub(crate) fn remove_all(disk: &dyn Disk, is_held: &dyn Fn() -> Result<()>) -> Result<()> {
        folder::remove_all(disk, is_held)
    }

    fn create_claimed(
        disk: Arc<dyn Disk>,
        options: SessionOptions,
        seed: u64,
        claim: &Claim,
        lock: Box<dyn Lock>,
    ) -> Result<Self> {
        // The salt does not follow from the identity, which every file of the session shows.
        let from = Salt::new(seed);
        let (identity, salt) = (from.hash(b"identity"), from.hash(b"salt"));
        let store = SegmentStore::new(disk, options, (identity, salt), 1, Some((lock, seed)));
        let pins = Arc::new(Pins::default());
        let log = Self::start_log(&store, &pins, 1, Vec::new())?;
        log.iter().try_for_each(LogWriter::begin)?;
        claim.finish(identity, salt).inspect_err(|_| {
            // Nobody may find a session whose name is not durable, save to it, and lose it to the mark.
            let _ = claim.retract();
        })?;
        let live = LiveTables::new(&store, &pins, log, None, None);
        Ok(Session { is_new: true, ..Self::over(store, pins, live, [0, 0]) })
    }

    /// The greatest number of a save, and the one that a file tells.
    fn over(
        store: Arc<SegmentStore>,
        pins: Arc<Pins>,
        live: Arc<LiveTables>,
        numbers: [u64; 2],
    ) -> Session {
        let [saves, saved] = numbers.map(|number| Arc::new(AtomicU64::new(number)));
        let (changing, created) = (Arc::default(), Arc::default());
        Session { pins, live, changing, saves, saved, created, is_new: false, store }
    }

    fn start_log(
        store: &Arc<SegmentStore>,
        pins: &Arc<Pins>,
        number: u64,
        older: Vec<crate::table::durable::LogFile>,
    ) -> Result<Option<LogWriter>> {
        if store.options.log == Log::None {
            return Ok(None);
        }
        // Anew, if it is empty: a sync after which its name was to be durable may have failed.
        folder::make_folder(&*store.disk, LOG)?;
        LogWriter::start(store, pins, number, older).map(Some)
    }

    /// Opens the session in the root folder of `disk` for writing. `Missing` when there is none,
    /// `Locked` when another process has it. Reads every manifest.
    pub fn open(disk: Arc<dyn Disk>, options: SessionOptions) -> Result<Self> {
        read_session(&*disk)?;
        let seed = entropy::seed(options.seed, &*disk)?;
        let lock = exclusive::lock(&*disk, LOCK, &exclusive::holder())?;
        // Now nobody makes another in its place.
        let (identity, salt) = read_session(&*disk)?;
        folder::make_left_out(&*disk, SEGMENTS)?;
        let undeleted = folder::end_deletions(&disk)?;
        let mut next_segment = 1;
        let mut on_disk = BTreeMap::new();
        for name in disk.list(SEGMENTS)? {
            if let Some(id) = paths::file_id(&name) {
                next_segment = next_segment.max(id.saturating_add(1));
                on_disk.insert(name, id);
            }
        }
        let store =
            SegmentStore::new(disk, options, (identity, salt), next_segment, Some((lock, seed)));
        let mut named = PinnedFiles::default();
        let saved = folder::saves(&*store.disk)?.pop().unwrap_or(0);
        let mut saves = saved;
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
        if saved == 0 && !named.warnings.is_empty() {
            // Nobody knows which number the one has that cannot be read.
            saves = saves.saturating_add(SAVES_SKIPPED);
        }
        let found: Vec<_> = named.snapshots.keys().cloned().collect();
        let are_all_read = named.warnings.is_empty();
        named.warnings.extend(folder::make_names_durable(&store.disk, &found, are_all_read)?);
        named.warnings.extend(undeleted);
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
            named.live = order::map(files.map(|(id, path)| (id, store.shared_file(id, path))));
        }
        for (number, blobs) in log.iter().flat_map(|log| &log.blobs) {
            let files = blobs.keys().map(|id| (*id, store.shared_file(*id, paths::blob(*id))));
            named.log.insert(*number, order::map(files));
        }
        if let Some(error) = &damage {
            named
                .warnings
                .push(format!("the live tables cannot be used, so no file was removed: {error}"));
        }
        let lost = lost_file(disk, &named, &on_disk)?;
        named.warnings.extend(lost);
        for files in named.all() {
            // A file that is missing keeps its id: another must not pass for it.
            if let Some((&last, _)) = files.last_key_value() {
                store.number_above(last);
            }
            on_disk.retain(|_, id| !files.contains_key(id));
        }
        // The folder of snapshots is made before anything goes, and not at all where it may have had some.
        match folder::lost_snapshots(disk, |name| on_disk.contains_key(name))? {
            Some(lost) => named.warnings.push(lost.detail().to_owned()),
            None => folder::make_left_out(disk, SNAPSHOTS)?,
        }
        if let Some(log) = &log
            && log.next > 1
        {
            // Also where nothing is logged: who follows the tables of a backup holds what the next one brings
            // to an end.
            store.number_above(first_number(log.next));
        }
        let is_certain = named.warnings.is_empty();
        if is_certain {
            remove_files(disk, on_disk.keys())?;
            for folder in [SNAPSHOTS, ""] {
                remove_leftovers(disk, folder, |name| paths::is_replaced(folder, name))?;
            }
        }
        let pins = Arc::new(Pins::new(named));
        let writer = match log {
            Some(log) if store.options.log != Log::None => {
                log.save_again(disk)?;
                if is_certain {
                    log.remove_leftovers(disk)?;
                }
                Self::start_log(&store, &pins, log.next, log.files)?
            }
            _ => None,
        };
        let live = LiveTables::new(&store, &pins, writer, checkpoint, damage.as_ref());
        Ok(Self::over(store, pins, live, [saves, saved]))
    }

    /// Opens the session for reading snapshots, also while another process writes. Takes no lock
    /// and changes nothing; its tables cannot be updated. `Missing` when there is none. Reads one
    /// small file.
    pub fn open_read_only(disk: Arc<dyn Disk>, options: SessionOptions) -> Result<Self> {
        let identity = read_session(&*disk)?;
        let store = SegmentStore::new(disk, options, identity, u64::MAX, None);
        let pins = Arc::new(Pins::default());
        let live = LiveTables::new(&store, &pins, None, None, None);
        Ok(Self::over(store, pins, live, [0, 0]))
    }

    /// Ends the session. Live tables are durable then. Of the others, everything since the last
    /// snapshot is gone, by design; tables and views that are still held give `Closed`.
    ///
    /// Costs a sync of the log, if there is one, and a listing of the folder; and a checkpoint where sessions before it
    /// left much of a log and ended before one was due. Waits for a snapshot that is being saved, and for updates and
    /// helpers to finish their segment.
    pub fn close(self) -> Result<()> {
        let _changing = lock(&self.changing);
        self.store.check_open()?;
        let was_sound = self.store.is_sound();
        // In a folder that took the place of this one, the files are another's.
        let locked = if was_sound { self.store.check_lock() } else { Ok(()) };
        // It lets log files go, and nothing is removed while something is doubtful.
        let is_certain = self.pins.lock().warnings.is_empty();
        let settles = was_sound && is_certain && locked.is_ok();
        let settled = if settles { self.live.settle() } else { Ok(()) };
        // The log has all that a checkpoint would have, unless a sync failed.
        let settled = if self.store.is_sound() { Ok(()) } else { settled };
        self.store.remove_long();
        self.store.close();
        // Only now, when nothing is acknowledged any more and no sync fails elsewhere.
        let is_sound = self.store.is_sound();
        let synced = if is_sound { self.live.end() } else { Ok(()) };
        let synced = locked.and(settled).and(synced);
        let synced = synced.and_then(|()| if is_sound { self.store.check_lock() } else { Ok(()) });
        let removes = is_sound && synced.is_ok() && is_certain;
        let removed = if removes { self.remove_unnamed() } else { Ok(()) };
        if removes {
            self.live.keep_reserve_at_end();
        }
        self.store.unlock();
        synced.and(removed)
    }

    /// Removes the segments and blob files that nothing durable names.
    fn remove_unnamed(&self) -> Result<()> {
        let names = self.store.disk.list(SEGMENTS)?;
        let unnamed: Vec<_> = {
            let named = self.pins.lock();
            let named = order::set(named.all().flat_map(Files::keys));
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

    /// A new, empty table. `Invalid` for a name or options that cannot be; `Exists` when there is one of that name:
    /// a live one or, without a log, one that was created and is not dropped yet (tables that only snapshots have do not
    /// count). Without a log nothing is written. With one the table is live, and durable; it costs a checkpoint,
    /// O(segments of the live tables).
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.given(name, || self.create_now(name, options))
    }

    /// Runs what gives the host table `name`, which a recorder is told of if there is one.
    pub(super) fn given(&self, name: &str, work: impl FnOnce() -> Result<Table>) -> Result<Table> {
        let mut opening = self.store.opening();
        match self.store.observe((Operation::OpenTable, name), 1, work) {
            Ok(mut table) => {
                table.name_by(&mut opening);
                Ok(table)
            }
            Err(error) => {
                opening.failed(name);
                Err(error)
            }
        }
    }

    fn create_now(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.store.check_writable()?;
        paths::check_name("table", name)?;
        options.check()?;
        let is_logged = self.store.options.log != Log::None;
        let created = if is_logged { None } else { Some(self.created.take(name)?) };
        let mut table = Table::new(Arc::clone(&self.store), name, options, Shape::default(), None);
        table.created = created;
        // Where the log cannot be used, this says why: a table beside it would acknowledge what no log has.
        if is_logged { self.make_live(table) } else { Ok(table) }
    }

    /// The number of the next save, which a file tells from now on, so that it never comes again: it is
    /// durable with the manifest. A save that fails leaves a gap.
    pub(super) fn next_save(&self) -> Result<u64> {
        let number = self.saves.load(Ordering::Relaxed) + 1;
        paths::check_number(self.store.disk.root(), &paths::saved(number), number)?;
        self.saves.store(number, Ordering::Relaxed);
        let disk = &*self.store.disk;
        let made = disk.open(&paths::saved(number), Mode::Create, Access::Buffered);
        made.map_err(|error| folder::unless_left_out(disk, error))?;
        Ok(number)
    }

    /// Removes the file of the save before `number`, which is durable, best effort: the next opening does.
    pub(super) fn note_saved(&self, number: u64) {
        let before = self.saved.swap(number, Ordering::Relaxed);
        if before > 0 {
            remove_quietly(&*self.store.disk, &paths::saved(before));
        }
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
        SessionStats { spare_bytes: self.store.spares.bytes(), ..self.store.counters.read() }
    }

    /// Gives files back that are kept to be written over.
    pub(crate) fn free_spares(&self) {
        self.store.spares.clear();
    }

    /// Where the session is.
    pub fn root(&self) -> &str {
        self.store.disk.root()
    }
}

/// Above which number the files of an opening begin whose first log file has the number `log`: none is given
/// twice, since who follows live tables may hold what its writers removed long ago. The numbers of a
/// log's life have room for 2^36 openings.
fn first_number(log: u64) -> u64 {
    if log < 1 << 36 { log << 24 } else { 0 }
}

/// Which save a snapshot is, and the files of the segments that it names. None is opened.
fn pin(store: &SegmentStore, name: &str) -> Result<(u64, Files)> {
    let manifest = read_manifest(&*store.disk, store.identity, name)?;
    let files = manifest.files().map(|(id, path)| (id, store.shared_file(id, path)));
    Ok((manifest.sequence, order::map(files)))
}

/// What to say of a file that `named` has and the folder has not. Then what names it may be older than
/// what was there, and files that nothing names now may be those that the right one names.
fn lost_file(
    disk: &dyn Disk,
    named: &PinnedFiles,
    on_disk: &BTreeMap<String, u64>,
) -> Result<Option<String>> {
    for file in named.all().flat_map(Files::values) {
        let path = file.path();
        let name = path.strip_prefix(SEGMENTS).and_then(|name| name.strip_prefix('/'));
        // Numbers beyond those that new files get are not listed.
        if name.is_none_or(|name| !on_disk.contains_key(name)) && !disk.exists(path)? {
            return Ok(Some(format!(
                "no file was removed, and none will be until this session is opened without what names \
                 a lost one: {}, or delete the snapshot or table that needs it",
                folder::lost_file(path)
            )));
        }
    }
    Ok(None)
}

/// Removes files of the folder of segments; one that its last holder removed meanwhile is no error.
fn remove_files<'a>(disk: &dyn Disk, mut names: impl Iterator<Item = &'a String>) -> Result<()> {
    names.try_for_each(|name| match disk.remove(&format!("{SEGMENTS}/{name}")) {
        Err(error) if error.kind() == Kind::Missing => Ok(()),
        removed => removed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::disk::sim::{Crash, Fault, SimDisk};
    use crate::{OpenSnapshot, SnapshotContent};

    fn saved(disk: Arc<dyn Disk>) -> Session {
        let session = Session::create(disk, SessionOptions::default()).unwrap();
        let table = session.create_table("t", TableOptions::default()).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("old", content).unwrap();
        drop(table);
        session
    }

    #[test]
    fn a_creation_over_a_session_that_somebody_has_takes_nothing() {
        let disk = MemoryDisk::seeded(1);
        let session = saved(disk.clone());
        let before = disk.files();
        let error = Session::create_over(disk.clone(), SessionOptions::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Locked, "{error}");
        assert_eq!(disk.files(), before);
        session.open_snapshot("old", &OpenSnapshot::default()).unwrap();
        session.close().unwrap();
        let session = Session::create_over(disk.clone(), SessionOptions::default()).unwrap();
        assert!(session.list_snapshots().unwrap().is_empty());
    }

    #[test]
    fn the_last_number_of_a_save_is_the_end_of_saving() {
        let disk = MemoryDisk::seeded(1);
        let session = saved(disk.clone());
        let mut manifest = read_manifest(&*disk, session.store.identity, "old").unwrap();
        session.close().unwrap();
        manifest.sequence = paths::NUMBERS_END - 2;
        disk.replace("snapshots/old.snapshot", manifest.encode()).unwrap();
        let session = Session::open(disk.clone(), SessionOptions::default()).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[] };
        session.save_snapshot("last", content).unwrap();
        for _ in 0..2 {
            let error = session.save_snapshot("more", content).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
        }
        session.open_snapshot("last", &OpenSnapshot::default()).unwrap();
    }

    /// Whatever happens on the way, what is found is the old session, whole, or none, or the new one; and
    /// creating over it again goes on.
    #[test]
    fn a_creation_over_a_session_leaves_that_or_none_or_the_new_one() {
        let (mut old, mut none, mut new) = (0, 0, 0);
        let mut check = |disk: Arc<SimDisk>, what: &str| {
            match Session::open(disk.clone(), SessionOptions::default()) {
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Missing, "{what}: {error}");
                    none += 1;
                }
                Ok(session) => {
                    assert_eq!(session.warnings(), Vec::<String>::new(), "{what}");
                    let snapshots = session.list_snapshots().unwrap();
                    for info in &snapshots {
                        session.open_snapshot(&info.name, &OpenSnapshot::default()).unwrap();
                    }
                    *if snapshots.is_empty() { &mut new } else { &mut old } += 1;
                }
            }
            let session = Session::create_over(disk.clone(), SessionOptions::default()).unwrap();
            drop(session);
            let image = disk.crash(Crash::Subset(0));
            let session = Session::open(image, SessionOptions::default()).unwrap();
            assert!(session.list_snapshots().unwrap().is_empty(), "{what}");
            assert_eq!(session.warnings(), Vec::<String>::new(), "{what}");
        };
        for n in 1..40 {
            for forget in [false, true] {
                let sim = SimDisk::new(n);
                drop(saved(sim.clone()));
                sim.forget_names_on_failed_sync(forget);
                sim.fail_at(n, Fault::Sync);
                drop(Session::create_over(sim.clone(), SessionOptions::default()));
                sim.disarm();
                check(sim.crash(Crash::Subset(0)), &format!("sync {n}, {forget}, cut"));
                check(sim, &format!("sync {n}, {forget}"));
            }
            let sim = SimDisk::new(n);
            drop(saved(sim.clone()));
            sim.kill_at(n);
            drop(Session::create_over(sim.clone(), SessionOptions::default()));
            for (crash, image) in sim.crash_images(4, 8) {
                check(image, &format!("killed at {n}, {crash:?}"));
            }
        }
        assert!(old > 10 && none > 10 && new > 10, "{old} {none} {new}");
    }
}
