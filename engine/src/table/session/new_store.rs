//! A session that is made from what another had: for backups and repairs.
//!
//! Files are taken in under numbers of its own, then manifests, then the log as one file, then the
//! checkpoint, which names them. In a new folder nothing of it counts before the file `session` is
//! there, which comes last; in the folder of an earlier backup nothing before the checkpoint.
//! Every write and sync: `docs/design/durability.md`.

use std::sync::Arc;

use super::intake::Intake;
use super::lifecycle::Session;
use crate::disk::{Access, Disk, Mode, remove_quietly};
use crate::error::{Error, Kind, Result};
use crate::file::replace::Replacement;
use crate::format::checksum::crc;
use crate::format::hash::{Salt, combine};
use crate::table::durable::folder::{Claim, read_session};
use crate::table::durable::snapshot::{Manifest, named_files};
use crate::table::durable::{
    Checkpoint, LiveRecord, LogCopy, LogFile, LogPoint, Origin, log_files, read_checkpoint,
};
use crate::table::shared::paths::{self, CHECKPOINT};
use crate::table::shared::{Log, Pins, SegmentStore, SessionOptions, Verify};

/// What a session is made as, from what another had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// All of it; may be brought up to date later.
    Backup,
    /// What is whole of it.
    Repair,
}

/// The identity of a session that is made from `source`, whose own salt is `salt`: so the folder of a backup
/// is known for one, and for whose.
fn identity_of(source: u64, made: Made, salt: u64) -> u64 {
    let text = match made {
        Made::Backup => "backup",
        Made::Repair => "repair",
    };
    combine(combine(source, crc(text.as_bytes()).into()), salt)
}

/// The session that is made.
pub struct NewStore {
    store: Arc<SegmentStore>,
    pins: Arc<Pins>,
    claim: Option<Claim>,
    /// Where there was a backup before, it, open.
    before: Option<Session>,
    /// Numbers of the log files that are there.
    old_logs: Vec<u64>,
    next_log: u64,
    /// The log file that was begun last.
    begun: Option<u64>,
    /// How many manifests were written.
    saves: u64,
    pub intake: Intake,
}

impl NewStore {
    /// A session in the root folder of `disk`, which is empty, made from `source`.
    pub fn create(
        disk: &Arc<dyn Disk>,
        (source, made): (u64, Made),
        seed: u64,
        options: SessionOptions,
        verify: Verify,
    ) -> Result<NewStore> {
        let (claim, lock) = Claim::begin_copying(disk)?;
        let salt = Salt::new(seed).hash(b"salt");
        let identity = identity_of(source, made, salt);
        let held = Some((lock, seed));
        let store = SegmentStore::new(Arc::clone(disk), options, (identity, salt), 1, held);
        let intake = Intake::new(&store, verify, std::iter::empty(), std::iter::empty())?;
        Ok(NewStore {
            store,
            pins: Arc::default(),
            claim: Some(claim),
            before: None,
            old_logs: Vec::new(),
            next_log: 1,
            begun: None,
            saves: 0,
            intake,
        })
    }

    /// The earlier backup of `source` in the root folder of `disk`, opened to be brought up to date; none where
    /// there is no session. `Exists` for a session that is no backup of it, or one that was written to
    /// since.
    pub fn reopen(
        disk: &Arc<dyn Disk>,
        source: u64,
        options: SessionOptions,
        verify: Verify,
    ) -> Result<Option<NewStore>> {
        let (identity, salt) = match read_session(&**disk) {
            Err(error) if error.kind() == Kind::Missing => return Ok(None),
            found => found?,
        };
        let refused = |why: &str| {
            let root = disk.root();
            Error::new(Kind::Exists, format!("{root} holds {why}: choose another, empty folder"))
        };
        if identity != identity_of(source, Made::Backup, salt) {
            return Err(refused("a session that is no backup of this one"));
        }
        let options = SessionOptions { log: Log::None, ..options };
        let session = Session::open(Arc::clone(disk), options)?;
        let checkpoint = read_checkpoint(&**disk, identity)?;
        let Some(checkpoint) = checkpoint else {
            return Err(refused(
                "a backup that has lost its file checkpoint (`varvite repair` keeps what else is whole of it)",
            ));
        };
        if checkpoint.header.identity != Checkpoint::header(identity, Origin::Copied).identity {
            return Err(refused("a backup that was written to since"));
        }
        let checkpoint = &checkpoint;
        let log = log_files::find(&**disk, identity, Some(checkpoint), &mut |_, _| Ok(()))?;
        let ends: Vec<_> = log.files.iter().map(LogFile::end).collect();
        if ends != checkpoint.files {
            return Err(refused("a backup that was updated since"));
        }
        let blobs = log.blobs.values().flat_map(|blobs| blobs.values());
        let store = Arc::clone(&session.store);
        let mut old_logs = log.leftovers.clone();
        old_logs.extend(log.files.iter().map(|file| file.number));
        let intake = Intake::new(&store, verify, checkpoint.segments(), blobs)?;
        Ok(Some(NewStore {
            store,
            pins: Arc::clone(&session.pins),
            claim: None,
            before: Some(session),
            next_log: log.next,
            begun: None,
            old_logs,
            saves: 0,
            intake,
        }))
    }

    /// Begins its log, one file, for tables whose points in the other one's are these. May be called again: then
    /// the one before is given up, and goes.
    pub fn begin_log(&mut self, points: impl Iterator<Item = LogPoint>) -> Result<LogCopy> {
        if let Some(given_up) = self.begun.take() {
            remove_quietly(&*self.store.disk, &paths::log_file(given_up));
            self.old_logs.push(given_up);
        }
        let number = self.next_log;
        self.next_log += 1;
        self.begun = Some(number);
        LogCopy::begin(&self.store, number, points)
    }

    /// Writes `manifest`, of another session, whose segments were all taken in, as a snapshot of this one.
    pub fn save(&mut self, manifest: Manifest) -> Result<()> {
        self.intake.sync()?;
        self.saves += 1;
        let (name, sequence) = (manifest.name.clone(), self.saves);
        let header = Manifest::header(self.store.identity, &name);
        let files = self.intake.files(manifest.files().map(|(id, _)| id));
        let bytes = Manifest { header, sequence, ..manifest }.encode();
        self.pins.pin(&name, files);
        self.replace(&paths::snapshot(&name), &bytes)
    }

    /// Makes `tables` its live tables, whose segments were all taken in, with `log` behind them.
    pub fn write_checkpoint(
        &mut self,
        next_id: u64,
        tables: Vec<LiveRecord>,
        mut log: LogCopy,
    ) -> Result<()> {
        self.intake.sync()?;
        let end = log.finish()?;
        let header = Checkpoint::header(self.store.identity, Origin::Copied);
        let checkpoint = Checkpoint { header, next_id, files: vec![end], tables };
        let segments = named_files(checkpoint.segments()).map(|(id, _)| id);
        let files = self.intake.files(segments.chain(log.blobs()));
        self.pins.pin_live(&files);
        self.replace(CHECKPOINT, &checkpoint.encode())?;
        self.pins.set_live(files);
        Ok(())
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.store.check_lock()?;
        let replacement = Replacement::begin(&self.store.disk, path, Access::Buffered)?;
        replacement.file().write_at(0, bytes)?;
        self.store.or_poison(|| replacement.finish())
    }

    /// Makes it a session, or the backup that was there before the new one, and removes what nothing needs.
    pub fn finish(self) -> Result<()> {
        let disk = Arc::clone(&self.store.disk);
        if let Some(claim) = &self.claim {
            if self.saves > 0 {
                disk.open(&paths::saved(self.saves), Mode::Create, Access::Buffered)?;
                disk.sync_directory(paths::SNAPSHOTS)?;
            }
            claim.finish(self.store.identity, self.store.salt.number()).inspect_err(|_| {
                // Whoever is told that it failed finds no session.
                let _ = claim.retract();
            })?;
            remove_quietly(&*disk, &paths::half_copied());
        }
        for number in &self.old_logs {
            // What stays, the next opening or backup removes.
            remove_quietly(&*disk, &paths::log_file(*number));
        }
        self.pins.unpin_logged(&self.old_logs);
        // What was taken in and is not named goes.
        drop(self.intake);
        self.store.remove_all();
        if let Some(before) = self.before {
            // The new backup stands, whatever becomes of what the old one had.
            let _ = before.close();
        }
        Ok(())
    }
}
