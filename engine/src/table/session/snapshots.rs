//! What a session does with snapshots: saving, opening, listing and deleting them.
//!
//! Saving writes out what the write buffers hold, makes every file that the manifest is to name durable,
//! and then writes the manifest, which appears by one rename. Opening reads the manifest, and each
//! record in it becomes a table. Every write and sync: `docs/design/durability.md`.

use std::sync::Arc;

use super::lifecycle::Session;
use crate::disk::{Access, remove_quietly};
use crate::error::{Error, Kind, Result};
use crate::file::replace::Replacement;
use crate::order::{BTreeMap, BTreeSet};
use crate::sync::{MutexGuard, lock};
use crate::table::durable::folder::{
    deleted_meanwhile, lost_or_deleted, missing_snapshot, read_manifest, read_manifest_bytes,
    snapshot_names,
};
use crate::table::durable::open_parts;
use crate::table::durable::snapshot::{
    self, Manifest, PAYLOAD_BYTES_MAX, SnapshotInfo, TableRecord, files_of,
};
use crate::table::shared::paths::{self, SNAPSHOTS};
use crate::table::shared::{Files, OpenSnapshot, Operation};
use crate::table::write::Table;
use crate::trace::{self, Action, Answer};

/// How often a listing is begun again because snapshots went while it was read.
const LISTINGS_MAX: u32 = 100;

/// What a snapshot is to hold; what is not said is nothing: `SnapshotContent { tables, ..Default::default() }`.
#[derive(Clone, Copy, Debug, Default)]
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
/// let content = SnapshotContent { label: "ledger", tables: &[&utxo, &stake], ..Default::default() };
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
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::missing(format!("the snapshot has no table \"{name}\"; it has: {names}"))
        })?;
        Ok(self.tables.remove(place))
    }
}

impl Session {
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
        self.store.remove_all();
        let count = content.tables.len() as u64;
        content.tables.iter().for_each(|table| table.told_as_saved());
        let recorder = self.store.options.recorder.as_ref();
        let (action, nothing) = (Action::SaveSnapshot, |(): &()| Answer::Nothing);
        trace::store_call(
            recorder,
            action,
            |to| to.bytes(name.as_bytes()),
            nothing,
            || {
                let told = (Operation::SaveSnapshot, "");
                self.store.observe(told, count, || self.save(name, &path, content))
            },
        )
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
        segments: &snapshot::NamedSegments,
    ) -> Result<()> {
        if !segments.is_empty() {
            self.live.begin_log()?;
        }
        self.store.sync_segments(segments.values())?;
        self.store.check_lock()?;
        let header = Manifest::header(self.store.identity, name);
        let sequence = self.next_save()?;
        let manifest = Manifest { header, name: name.to_owned(), sequence, label, payload, tables };
        let bytes = manifest.encode();
        self.store.count_manifest(bytes.len() as u64);
        let files = files_of(segments);
        let written = self.begin_replacing(path, &bytes).and_then(|replacement| {
            // Kept from before the manifest can be there, so that it never names a file that is gone,
            // and that whoever sees it finds its files held. Not before: a panic of the host's disk until
            // here leaves nothing behind.
            self.pins.pin(name, files);
            self.store.unless_panicked(|| replacement.finish())
        });
        if let Err(error) = written {
            // Without the new name nothing has changed; with it, it may or may not be durable.
            let exists = self.store.unless_panicked(|| self.store.disk.exists(path));
            if exists.unwrap_or(true) {
                return Err(self.poisoned_by(error));
            }
            self.pins.unpin(name);
            // No manifest has the number, so it may come again.
            remove_quietly(&*self.store.disk, &paths::saved(sequence));
            return Err(error);
        }
        self.note_saved(sequence);
        Ok(())
    }

    /// A file with this content that is to become the one at `path`.
    fn begin_replacing(&self, path: &str, bytes: &[u8]) -> Result<Replacement> {
        let replacement = Replacement::begin(&self.store.disk, path, Access::Buffered)?;
        self.store.spares.make_room(|| replacement.file().write_at(0, bytes))?;
        Ok(replacement)
    }

    /// What a failed sync leaves on disk is unknown, so nothing more is written.
    fn poisoned_by(&self, error: Error) -> Error {
        self.store.poison();
        error
    }

    /// Opens the snapshot `name`. `Missing`, `Corrupt`, or `Invalid` for another label or operator.
    /// Reads the manifest, and header and footer of each segment; with [`crate::Verify::Full`] every byte.
    pub fn open_snapshot(&self, name: &str, options: &OpenSnapshot) -> Result<Snapshot> {
        self.store.check_open()?;
        let mut opening = self.store.opening();
        let mut snapshot = self.store.observe((Operation::OpenSnapshot, ""), 1, || {
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
        })?;
        for table in &mut snapshot.tables {
            table.name_by(&mut opening);
        }
        Ok(snapshot)
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

    /// The table of `record`, opened.
    pub(super) fn open_recorded(
        &self,
        record: &TableRecord,
        options: &OpenSnapshot,
    ) -> Result<Table> {
        let (table_options, shape, base) = open_parts(&self.store, record, options)?;
        Ok(Table::new(Arc::clone(&self.store), &record.name, table_options, shape, base))
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
        let nothing = |(): &()| Answer::Nothing;
        trace::store_call(
            self.store.options.recorder.as_ref(),
            Action::DeleteSnapshot,
            |to| to.bytes(name.as_bytes()),
            nothing,
            || self.take_away(name),
        )
    }

    fn take_away(&self, name: &str) -> Result<()> {
        self.store.check_writable()?;
        paths::check_name("snapshot", name)?;
        let _changing = lock(&self.changing);
        self.store.check_writable()?;
        self.store.check_lock()?;
        let disk = &self.store.disk;
        let deleted = paths::deleted(name);
        // Under another name until that is durable: were it gone, and the sync failed, the next opening
        // would not know that it may be back.
        let rename = || disk.rename(&paths::snapshot(name), &deleted);
        let renamed = self.store.unless_panicked(rename);
        renamed.map_err(|error| missing_snapshot(&**disk, name, error))?;
        self.store.or_poison(|| disk.sync_directory(SNAPSHOTS))?;
        self.pins.unpin(name);
        // What stays is nothing, and the next opening removes it.
        remove_quietly(&**disk, &deleted);
        self.store.remove_all();
        Ok(())
    }
}
