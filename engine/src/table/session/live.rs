//! What a session does with live tables: making, opening, updating together, and deleting them.
//!
//! Design: `docs/design/table.md`, "The log". Every write and sync: `docs/design/durability.md`.

use std::sync::Arc;

use super::lifecycle::Session;
use crate::error::{Error, Result};
use crate::format::codec::Decoder;
use crate::order::{self, BTreeMap};
use crate::table::buffer::Batch;
use crate::table::bytes::KeyRange;
use crate::table::bytes::operator::MergeOperator;
use crate::table::durable::folder::lost_among;
use crate::table::durable::snapshot::{TableRecord, named_files};
use crate::table::durable::{
    Checkpoint, LiveRecord, LogPlace, LogPoint, LogRecord, Opened, ShapeCut, log_files,
    no_live_table, scan,
};
use crate::table::runs::blob::BlobMeta;
use crate::table::shared::{OpenSnapshot, Operation, Verify, paths};
use crate::table::write::{Replaying, Table, update_all};
use crate::trace::{self, Action, Answer};

/// How a live table is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenTable {
    /// How much is checked first.
    pub verify: Verify,
    /// Merge operators by name, beside the built-in ones.
    pub operators: Vec<MergeOperator>,
}

/// The tables that were read, and where in the log that is.
type Replays = (Vec<Replay>, Option<LogPlace>);

/// Where the table of each id is among those that are read.
pub(super) type Places = BTreeMap<u64, usize>;

pub(super) fn places(replays: &[Replay]) -> Places {
    order::map(replays.iter().map(|replay| replay.id).zip(0..))
}

/// A table on its way back to where its log ends.
pub(super) struct Replay {
    pub(super) id: u64,
    from: LogPoint,
    pub(super) table: Table,
    replaying: Replaying,
    begun: Vec<LogPoint>,
    applied: LogPoint,
    cut: Option<ShapeCut>,
}

impl Replay {
    /// The same, to be changed apart from this one, whose buffers nobody records.
    pub(super) fn copied(&self) -> Replay {
        let table = self.table.copy_as(self.table.shared_name());
        let replaying = self.replaying.clone();
        Replay { table, replaying, begun: Vec::new(), cut: None, ..*self }
    }

    /// Whether the table lacks some of the record at `at`.
    fn lacks(&self, at: LogPoint) -> bool {
        at.after() > self.from
    }

    /// Applies one update that the table lacks.
    fn apply(&mut self, batch: &Batch, at: LogPoint) -> Result<()> {
        let skip = if (at.file, at.sequence) == (self.from.file, self.from.sequence) {
            self.from.skip
        } else {
            0
        };
        self.replay(batch, LogPoint { skip, ..at })
    }

    /// The same for a range that was deleted. Deleting it once more does no harm to a table that has
    /// a part of it already.
    fn delete_range(&mut self, range: &KeyRange, at: LogPoint) -> Result<()> {
        if self.lacks(at) {
            self.replay(Batch::new().push_range(range.clone()), at)?;
        }
        Ok(())
    }

    fn replay(&mut self, batch: &Batch, at: LogPoint) -> Result<()> {
        let (begun, cut) = self.table.replay(batch, at, &mut self.replaying)?;
        self.begun.extend(begun);
        if let Some(cut) = cut {
            self.cut = Some(cut.and(self.cut.take()));
        }
        self.applied = at.after();
        Ok(())
    }
}

impl Session {
    /// The names of the live tables, in order. In a session that only reads, as the last
    /// checkpoint has them. `Corrupt` when it or the log is damaged.
    ///
    /// ```
    /// use varvite::{Batch, Log, OpenTable, Session, SessionOptions, TableOptions};
    /// use varvite::disk::memory::MemoryDisk;
    ///
    /// let disk = MemoryDisk::seeded(1);
    /// let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    /// let session = Session::create(disk.clone(), options.clone())?;
    /// let mut table = session.create_table("utxo", TableOptions::utxo())?;
    /// table.update(Batch::new().insert(b"tx1#0", b"5 ada"))?;
    /// drop((table, session)); // as if the process had died
    ///
    /// let session = Session::open(disk, options)?;
    /// assert_eq!(session.live_tables()?, ["utxo"]);
    /// let table = session.open_table("utxo", &OpenTable::default())?;
    /// assert_eq!(table.get(b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn live_tables(&self) -> Result<Vec<String>> {
        self.store.check_open()?;
        if !self.store.read_only {
            return self.live.names();
        }
        let checkpoint = log_files::checkpoint_beside(&*self.store.disk, self.store.identity)?;
        let records = checkpoint.into_iter().flat_map(|checkpoint| checkpoint.tables);
        Ok(records.map(|record| record.table.name).collect())
    }

    /// Makes durable every update of a live table whose call has returned: for a host that logs with
    /// [`Log::Written`](crate::Log::Written) and says itself when a power cut may take no more.
    ///
    /// One sync of a file, or none when all is durable; updates go on meanwhile. `Invalid` without a log or in a
    /// session that only reads. `Io` when the sync fails: nobody knows then what is durable, so the session is
    /// poisoned, and this call and all that write say `Poisoned` until it is opened again.
    ///
    /// ```
    /// use varvite::{Batch, Log, Session, SessionOptions, TableOptions};
    /// use varvite::disk::memory::MemoryDisk;
    ///
    /// let options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
    /// let session = Session::create(MemoryDisk::seeded(1), options)?;
    /// let mut table = session.create_table("utxo", TableOptions::utxo())?;
    /// for block in [b"1", b"2", b"3"] {
    ///     table.update(Batch::new().insert(block, b"outputs"))?;
    /// }
    /// session.sync_log()?; // once for the three blocks
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn sync_log(&self) -> Result<()> {
        self.store.check_open()?;
        self.store.check_writable()?;
        let log = self.live.log_writer()?;
        self.store.write(|| log.sync()).map(drop)
    }

    /// Opens the live table `name` as it was last updated. `Missing`; `Locked` while another handle
    /// to it is open; `Corrupt`; `Invalid` in a session without a log, or without its operator.
    ///
    /// Reads the segments' footers, and applies what the log has since the last checkpoint: about
    /// as much as a log file and the write buffers hold. In a session that only reads the table is
    /// as the log was just then, and cannot be updated.
    pub fn open_table(&self, name: &str, options: &OpenTable) -> Result<Table> {
        self.given(name, || {
            let mut tables = self.open_live(Some(name), options)?;
            Ok(tables.pop().expect("one table was asked for"))
        })
    }

    /// Opens every live table, in the order of their names, in one pass over the log. See
    /// [`Session::open_table`].
    pub fn open_all(&self, options: &OpenTable) -> Result<Vec<Table>> {
        let mut opening = self.store.opening();
        let begun = self.store.begin();
        let mut tables = self.open_live(None, options)?;
        if let Some(begun) = &begun {
            self.store.record((Operation::OpenTable, ""), begun, tables.len() as u64);
        }
        for table in &mut tables {
            table.name_by(&mut opening);
        }
        Ok(tables)
    }

    fn open_live(&self, name: Option<&str>, options: &OpenTable) -> Result<Vec<Table>> {
        self.store.check_open()?;
        if self.store.read_only {
            return self.read_live(name, options);
        }
        self.store.check_writable()?;
        let log = self.live.log_writer()?;
        let mut writers = BTreeMap::new();
        let (mut tables, mut replays) = (BTreeMap::new(), Vec::new());
        let _places = self.live.keep_places();
        for Opened { name, writer, record, table_state } in self.live.open(name)? {
            if let Some(table_state) = table_state {
                let mut table = Table::resumed(&name, table_state);
                table.live_again(writer);
                tables.insert(name, table);
            } else {
                replays.push(self.replay_of(&record, options)?);
                writers.insert(name, writer);
            }
        }
        if !replays.is_empty() {
            let places = places(&replays);
            for file in log.files() {
                let wanted = replays.iter().any(|replay| file.is_needed(replay.id, replay.from));
                if wanted {
                    let (disk, identity) = (&*self.store.disk, self.store.identity);
                    let scanned = scan(disk, identity, file.number, |at, payload| {
                        self.replay_record(&mut replays, &places, at, payload)
                    })?;
                    file.expect_read(scanned.end)?;
                }
            }
        }
        for Replay { mut table, begun, applied, cut, .. } in replays {
            let name = table.name().to_owned();
            let writer = writers.remove(&name).expect("each has its writer");
            table.live_from(writer, begun, applied, cut);
            tables.insert(name, table);
        }
        Ok(tables.into_values().collect())
    }

    /// The table of `record` before its log.
    fn replay_of(&self, record: &LiveRecord, options: &OpenTable) -> Result<Replay> {
        let options = OpenSnapshot {
            verify: options.verify,
            label: None,
            operators: options.operators.clone(),
        };
        let mut opened = self.open_recorded(&record.table, &options);
        if !self.store.read_only {
            let files = || named_files(record.table.segments());
            opened = opened.map_err(|error| lost_among(&*self.store.disk, files(), error));
        }
        let (table, from) = (opened?, record.from);
        let cut = record.cut.clone();
        let replaying = Replaying::new(!self.store.read_only);
        Ok(Replay { id: record.id, from, table, replaying, begun: vec![from], applied: from, cut })
    }

    /// The same without a log of its own, beside whoever writes.
    fn read_live(&self, name: Option<&str>, options: &OpenTable) -> Result<Vec<Table>> {
        let (_, (replays, _)) = self.read_beside(name, options)?;
        Ok(replays.into_iter().map(|replay| replay.table).collect())
    }

    /// The live table `name`, or all, as checkpoint and log have them at one moment, and where that is in the log.
    pub(super) fn read_beside(
        &self,
        name: Option<&str>,
        options: &OpenTable,
    ) -> Result<(Option<Checkpoint>, Replays)> {
        let (disk, identity) = (&*self.store.disk, self.store.identity);
        let (checkpoint, read) = log_files::beside_writer(disk, identity, |checkpoint| {
            self.read_once(checkpoint, name, options)
        })?;
        let read = read.map_err(|error| {
            let segments = checkpoint.as_ref().map(Checkpoint::segments).unwrap_or_default();
            lost_among(disk, named_files(segments), error)
        })?;
        Ok((checkpoint, read))
    }

    fn read_once(
        &self,
        checkpoint: Option<&Checkpoint>,
        name: Option<&str>,
        options: &OpenTable,
    ) -> Result<(Vec<Replay>, Option<LogPlace>)> {
        let mut replays = Vec::new();
        for record in checkpoint.map_or(&[][..], |checkpoint| &checkpoint.tables) {
            if name.is_none_or(|name| name == record.table.name) {
                replays.push(self.replay_of(record, options)?);
            }
        }
        if let (Some(name), true) = (name, replays.is_empty()) {
            if checkpoint.is_none() {
                log_files::expect_none(&*self.store.disk, self.store.identity)?;
            }
            let tables = checkpoint.map_or(&[][..], |checkpoint| &checkpoint.tables);
            let names = tables.iter().map(|record| record.table.name.as_str());
            return Err(no_live_table(name, names));
        }
        let (disk, identity) = (&*self.store.disk, self.store.identity);
        let places = places(&replays);
        let found = log_files::find(disk, identity, checkpoint, &mut |at, payload| {
            self.replay_record(&mut replays, &places, at, payload)
        })?;
        Ok((replays, found.place()))
    }

    /// Applies what a record of the log has for each table.
    pub(super) fn replay_record(
        &self,
        replays: &mut [Replay],
        places: &Places,
        at: LogPoint,
        payload: &mut Decoder<'_>,
    ) -> Result<()> {
        let place = payload.clone();
        let wanted = |id| places.get(&id).is_some_and(|place| replays[*place].lacks(at));
        let (parts, blobs) = match LogRecord::decode(payload, &wanted)? {
            LogRecord::Update { parts, blobs } => (parts, blobs),
            LogRecord::DeleteRange(id, range) => {
                let Some(place) = places.get(&id) else { return Ok(()) };
                return replays[*place].delete_range(&range, at);
            }
            LogRecord::Begin(_) => {
                return Err(place.corrupt("an update", "the record that begins a file"));
            }
        };
        for (id, batch) in parts {
            if let (Some(index), Some(mut batch)) = (places.get(&id), batch) {
                let replay = &mut replays[*index];
                let has_operator = replay.table.options().operator.is_some();
                batch.check(has_operator).map_err(|error| place.corrupt("an update", error))?;
                if !blobs.is_empty() {
                    self.hold_blobs(&mut batch, &blobs)?;
                    let checked = replay.table.check_batch(&batch);
                    checked.map_err(|error| place.corrupt("an update", error))?;
                }
                replay.apply(&batch, at)?;
            }
        }
        Ok(())
    }

    /// Has a batch of the log hold the blob files that it refers to.
    fn hold_blobs(&self, batch: &mut Batch, blobs: &[BlobMeta]) -> Result<()> {
        let referred = batch.blob_identities();
        for meta in blobs.iter().filter(|blob| referred.contains(&blob.identity)) {
            let file = self.store.open_blob(meta)?;
            batch.hold(file, Arc::new(Arc::clone(&self.store)));
        }
        Ok(())
    }

    /// Makes `table` live under its name: from now on its updates go to the log, and
    /// [`Session::open_table`] finds it again. For duplicates, and for tables from snapshots.
    ///
    /// `Exists` when there is a live table of that name: [duplicate](Table::duplicate) it under
    /// another; `Invalid` when it is live already, belongs to another session, or there is no log.
    /// Writes out what its write buffers hold, and a checkpoint: O(write buffer + segments).
    pub fn publish(&self, table: &mut Table) -> Result<()> {
        self.store.check_writable()?;
        self.check_own(table)?;
        if table.is_live() {
            return Err(Error::invalid(format!("table {} is live already", table.name())));
        }
        let (shape, base) = table.written_out()?;
        let writer = self.live.add(table.name(), |named| {
            let (name, options) = (table.name(), table.options());
            Ok(TableRecord::new(name, options, &shape, base.as_deref(), named))
        })?;
        table.adopt(shape, base);
        table.live_again(writer);
        self.store.remove_all();
        Ok(())
    }

    pub(super) fn make_live(&self, mut table: Table) -> Result<Table> {
        self.publish(&mut table)?;
        Ok(table)
    }

    /// Deletes the live table `name`. `Missing`; `Locked` while a handle to it is open. Snapshots
    /// and duplicates keep what they have. Writes a checkpoint.
    pub fn delete_table(&self, name: &str) -> Result<()> {
        let nothing = |(): &()| Answer::Nothing;
        trace::store_call(
            self.store.options.recorder.as_ref(),
            Action::DeleteTable,
            |to| to.bytes(name.as_bytes()),
            nothing,
            || {
                self.store.observe((Operation::DeleteTable, name), 1, || {
                    self.store.check_writable()?;
                    paths::check_name("table", name)?;
                    self.live.remove(name)?;
                    self.store.remove_all();
                    self.live.keep_reserve_again();
                    Ok(())
                })
            },
        )
    }

    /// Applies each batch to its table, all of them or none, also through a crash: those of live
    /// tables are one record of the log. Costs and errors are those of [`Table::update`].
    ///
    /// ```
    /// use varvite::{Batch, Log, Session, SessionOptions, TableOptions};
    /// use varvite::disk::memory::MemoryDisk;
    ///
    /// let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    /// let session = Session::create(MemoryDisk::seeded(1), options)?;
    /// let mut utxo = session.create_table("utxo", TableOptions::utxo())?;
    /// let mut stake = session.create_table("stake", TableOptions::default())?;
    /// let (mut spent, mut earned) = (Batch::new(), Batch::new());
    /// spent.delete(b"tx0#7");
    /// earned.insert(b"pool1", b"5 ada");
    /// session.update(&mut [(&mut utxo, &spent), (&mut stake, &earned)])?;
    /// assert_eq!(stake.get(b"pool1")?.as_deref(), Some(&b"5 ada"[..]));
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn update(&self, updates: &mut [(&mut Table, &Batch)]) -> Result<()> {
        for (table, _) in updates.iter() {
            self.check_own(table)?;
        }
        update_all(&self.store, updates)
    }

    pub(super) fn check_own(&self, table: &Table) -> Result<()> {
        if Arc::ptr_eq(&table.store, &self.store) {
            return Ok(());
        }
        Err(Error::invalid(format!("table {} belongs to another session", table.name())))
    }
}
