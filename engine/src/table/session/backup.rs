//! Backups: all live tables of one moment, in a folder of their own.
//!
//! Nothing is written out and no update waits: what the last checkpoint names is linked, and the log since
//! then is copied up to the moment. All in memory only on this side, so a crash leaves nothing behind.
//! The backup is a session with an identity of its own, so no file of one passes for the other's.
//! Every write and sync: `docs/design/durability.md`.

use std::sync::Arc;

use super::intake::Intake;
use super::lifecycle::Session;
use super::new_store::{Made, NewStore};
use super::transfer::Transferred;
use crate::disk::{Disk, entropy};
use crate::error::{Error, Kind, Result};
use crate::order::BTreeMap;
use crate::table::durable::folder::lost_among;
use crate::table::durable::snapshot::named_files;
use crate::table::durable::{
    Checkpoint, Frozen, LiveRecord, LogCopy, LogEnd, LogFile, LogRecord, log_files, read_checkpoint,
};
use crate::table::shared::{Log, SessionOptions, Verify};

/// What a backup has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackedUp {
    /// Live tables.
    pub tables: u64,
    /// Segments and blob files that came.
    pub moved: Transferred,
    /// Those that an earlier backup had brought.
    pub kept: Transferred,
    /// Updates in the log that was copied.
    pub log_records: u64,
    /// Bytes of it.
    pub log_bytes: u64,
}

impl Session {
    /// Backs up all live tables, as they are at one moment, to the root folder of `target`, whole or not at
    /// all: one that is empty, or has an earlier backup of this session, which becomes the new one.
    ///
    /// Updates go on meanwhile and wait for nothing; also from a session that only reads, beside its
    /// writer. Costs a link for each segment that is not there yet, or a copy and a sync where the file
    /// systems differ, a copy of the log since the last checkpoint (two log files and four write buffers
    /// of each table at most, as a rule), and a few small writes. With [`Verify::Full`] every byte that is
    /// there is read.
    ///
    /// [`Session::open`] opens the backup, with any kind of log; it is a session of its own. Snapshots
    /// are not in it: [`Session::export_snapshot`]. `Missing` where no table was ever live, `Invalid` in a session
    /// that was opened for writing without a log, `Exists` for a folder with something else, or with a
    /// backup that was written to since; `Closed` when somebody closes the session meanwhile; `Corrupt` for a
    /// damaged source.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use varvite::{Batch, Log, OpenTable, Session, SessionOptions, TableOptions, Verify};
    /// use varvite::disk::{Disk, memory::MemoryDisk};
    ///
    /// let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    /// let session = Session::create(MemoryDisk::seeded(1), options.clone())?;
    /// let mut table = session.create_table("utxo", TableOptions::utxo())?;
    /// table.update(Batch::new().insert(b"tx1#0", b"5 ada"))?;
    /// let backup: Arc<dyn Disk> = MemoryDisk::seeded(2);
    /// session.backup(&backup, Verify::Quick)?;
    /// table.update(Batch::new().delete(b"tx1#0"))?;
    ///
    /// let restored = Session::open(backup, options)?;
    /// let table = restored.open_table("utxo", &OpenTable::default())?;
    /// assert_eq!(table.get(b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn backup(&self, target: &Arc<dyn Disk>, verify: Verify) -> Result<BackedUp> {
        let store = &self.store;
        store.check_open()?;
        if !store.read_only {
            self.live.log_writer()?;
        }
        let checkpoint = log_files::checkpoint_beside(&*store.disk, store.identity)?;
        if checkpoint.is_none() {
            return Err(Error::missing(format!(
                "{} has no live tables to back up; a snapshot is exported",
                store.disk.root()
            )));
        }
        let seed = match entropy::seed(store.options.seed, &**target) {
            Err(error) if error.kind() == Kind::Invalid => {
                entropy::seed(store.options.seed, &*store.disk)
            }
            seed => seed,
        }?;
        let options = SessionOptions {
            seed: Some(seed),
            access: store.options.access,
            max_open_files: store.options.max_open_files,
            log: Log::Synced,
            ..SessionOptions::default()
        };
        let identity = store.identity;
        let before = NewStore::reopen(target, identity, options.clone(), verify)?;
        let mut new = match before {
            Some(before) => before,
            None => NewStore::create(target, (identity, Made::Backup), seed, options, verify)?,
        };
        let copied = if store.read_only { self.copy_beside(&mut new) } else { self.copy(&mut new) };
        // After a close nothing keeps the files that were to be copied.
        let closed = |error| store.check_open().err().unwrap_or(error);
        let (next_id, tables, log) = copied.map_err(closed)?;
        let backed_up = BackedUp {
            tables: tables.len() as u64,
            moved: new.intake.moved,
            kept: new.intake.kept,
            log_records: log.records(),
            log_bytes: log.bytes(),
        };
        new.write_checkpoint(next_id, tables, log)?;
        new.finish()?;
        Ok(backed_up)
    }

    /// Copies the live tables of this moment.
    fn copy(&self, new: &mut NewStore) -> Result<(u64, Vec<LiveRecord>, LogCopy)> {
        let Frozen { next_id, records, log, files, hold } = self.live.frozen()?;
        let copied = self.copy_log(&records, &log, new)?;
        // The values that the log refers to are held by their files, and may be long.
        drop(hold);
        let disk = &*self.store.disk;
        let tables = new.intake.copy_blobs(disk);
        let tables = tables.and_then(|()| self.copy_tables(&records, &copied, &mut new.intake));
        let named = records.iter().flat_map(|record| named_files(record.table.segments()));
        let tables = tables.map_err(|error| lost_among(disk, named, error))?;
        // The last holder of a file that nobody needs any more may be this one.
        drop(files);
        if self.store.is_sound() {
            self.store.remove_all();
        }
        Ok((next_id, tables, copied))
    }

    /// The same beside a writer in another process, which may remove what is to be copied: then again, but
    /// for what was copied before.
    fn copy_beside(&self, new: &mut NewStore) -> Result<(u64, Vec<LiveRecord>, LogCopy)> {
        let (disk, identity) = (&*self.store.disk, self.store.identity);
        let (checkpoint, copied) = log_files::beside_writer(disk, identity, |checkpoint| {
            let records = checkpoint.map_or(&[][..], |checkpoint| &checkpoint.tables);
            let found = log_files::find(disk, identity, checkpoint, &mut |_, _| Ok(()))?;
            let ends: Vec<_> = found.files.iter().map(LogFile::end).collect();
            let log = self.copy_log(records, &ends, new)?;
            new.intake.copy_blobs(disk)?;
            let tables = self.copy_tables(records, &log, &mut new.intake)?;
            Ok((checkpoint.map_or(1, |checkpoint| checkpoint.next_id), tables, log))
        })?;
        copied.map_err(|error| {
            let now = read_checkpoint(disk, identity);
            if error.kind() == Kind::Missing && now.is_ok_and(|now| now != checkpoint) {
                return Error::missing(format!(
                    "{} changed faster than it could be copied: back up to a folder on the same file \
                     system, from its writer, or when less is written ({error})",
                    self.store.disk.root()
                ));
            }
            let segments = checkpoint.as_ref().map(Checkpoint::segments).unwrap_or_default();
            lost_among(disk, named_files(segments), error)
        })
    }

    fn copy_log(
        &self,
        records: &[LiveRecord],
        ends: &[LogEnd],
        new: &mut NewStore,
    ) -> Result<LogCopy> {
        let (disk, identity) = (&*self.store.disk, self.store.identity);
        let mut log = new.begin_log(records.iter().flat_map(LiveRecord::points))?;
        new.intake.forget_announced();
        let from: BTreeMap<_, _> = records.iter().map(|record| (record.id, record.from)).collect();
        let mut bytes = Vec::new();
        for end in ends {
            log_files::read_to(disk, identity, *end, &mut |at, payload| {
                bytes.clear();
                let lacks = |id| from.get(&id).is_some_and(|from| at.after() > *from);
                let renumber = &mut |blob: &_| {
                    let blob = new.intake.announce_blob(blob);
                    log.add_blob(blob.id);
                    Ok(blob)
                };
                if LogRecord::rewrite(payload, &lacks, renumber, &mut bytes)? {
                    log.push(at, &bytes)?;
                }
                Ok(())
            })?;
        }
        Ok(log)
    }

    fn copy_tables(
        &self,
        records: &[LiveRecord],
        log: &LogCopy,
        intake: &mut Intake,
    ) -> Result<Vec<LiveRecord>> {
        let mut tables = Vec::new();
        for (record, points) in records.iter().zip(log.places()) {
            let table = intake.table(&*self.store.disk, &record.table)?;
            tables.push(LiveRecord { table, ..record.clone() }.placed(points));
        }
        Ok(tables)
    }
}
