//! Makes a new session of what is whole in a damaged one, and says what was lost.
//!
//! The damaged session is read only; all of it stays as it is. Kept are the snapshots whose every file is
//! sound, the live tables whose segments are, and of the log what comes before its first bad record, for
//! each table as far as it needs it. What is made is a session of its own, durable and whole before it
//! has its name.
//!
//! Every write and sync: `docs/design/durability.md`.

mod damaged;
mod log;

use std::sync::Arc;

use super::check::{UnfinishedUpdate, told_identity};
use crate::disk::{Disk, entropy};
use crate::error::{Error, Kind, Result};
use crate::order::{BTreeMap, BTreeSet};
use crate::table::durable::folder::{lost_snapshots, read_manifest, read_session, snapshot_names};
use crate::table::durable::snapshot::TableRecord;
use crate::table::durable::{LiveRecord, read_checkpoint, verify};
use crate::table::runs::blob::BlobMeta;
use crate::table::runs::{Segment, SegmentMeta};
use crate::table::session::{Made, NewStore, Transferred};
use crate::table::shared::{SegmentStore, SessionOptions, Verify, paths};

/// How a session is repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Keep a table or snapshot with damaged segments without the entries of these: in their ranges of keys,
    /// which are told, keys may be missing, or have older values, or be back that were deleted. Else such a
    /// table or snapshot is left out.
    pub skip_damaged: bool,
    /// From what the new session's identity follows; see [`SessionOptions::seed`].
    pub seed: Option<u64>,
}

/// Something that was not kept, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file that is damaged or lost, relative to the session.
    pub file: String,
    /// What is wrong with it.
    pub detail: String,
    /// The snapshots that it took something from.
    pub snapshots: Vec<String>,
    /// The live tables that it took something from.
    pub live_tables: Vec<String>,
    /// Between which keys entries are missing, or older, of a segment that was left out, both included; an
    /// empty first one stands for the beginning. Of other files none.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
    /// How many entries these were.
    pub entries: u64,
}

/// A live table of the new session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedTable {
    /// Its name.
    pub name: String,
    /// Updates of it in the log that were kept.
    pub log_records: u64,
    /// Updates of it that were read behind a bad record, and so left out.
    pub left_out: u64,
    /// Whether it has all updates, as far as can be known.
    pub is_whole: bool,
    /// Whether it ends in the middle of an update: its segments have the first operations, and the rest was in
    /// the part of the log that is lost.
    pub ends_within_update: bool,
    /// Whether its segments lack keys that updates deleted which were in the part of the log that is lost:
    /// between the keys that a loss tells, it never was as it is. Only with `skip_damaged`.
    pub lacks_keys: bool,
}

/// What a repair kept and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Whether the file `session` was lost or damaged.
    pub session_was_lost: bool,
    /// The snapshots that were kept, in the order of their names.
    pub snapshots: Vec<String>,
    /// The live tables that were kept, in the order of their names.
    pub live_tables: Vec<RepairedTable>,
    /// What was lost; empty when all was sound.
    pub losses: Vec<Loss>,
    /// Segments whose filters alone were damaged, with what was wrong: they were written anew with all their
    /// entries, so nothing is lost.
    pub filters_made_anew: Vec<(String, String)>,
    /// Segments and blob files that were linked or copied.
    pub moved: Transferred,
    /// Records of the log that were kept.
    pub log_records: u64,
    /// Records that seem to lie behind a bad one in its file, and cannot be read for it.
    pub log_records_behind: u64,
    /// The update at the log's end that is not whole, if there is one, and was left out. That is no loss that is known: a
    /// power cut leaves the same of an update that was not acknowledged.
    pub log_unfinished: Option<UnfinishedUpdate>,
}

/// Makes a new session in the root folder of `target`, which is empty, of what is whole in the one in
/// that of `source`, which nobody writes to. `Missing` or `Corrupt` where there is no session, or nothing
/// that says what was in one; `Exists` or `Invalid` for a folder with something in it; `Io` when a disk does not
/// answer, which is no damage. After an error nothing in the folder counts, and a repair to it may be begun
/// again.
///
/// Reads every byte that a snapshot or a live table needs, links or copies each file, and copies the log.
///
/// ```
/// use std::sync::Arc;
/// use varvite::disk::{Disk, memory::MemoryDisk};
/// use varvite::{Session, SessionOptions, SnapshotContent, TableOptions, table::repair};
///
/// let disk = MemoryDisk::seeded(1);
/// let session = Session::create(disk.clone(), SessionOptions::default())?;
/// let table = session.create_table("utxo", TableOptions::utxo())?;
/// session.save_snapshot("s", SnapshotContent { tables: &[&table], ..Default::default() })?;
/// drop((table, session));
/// disk.remove("session")?;
///
/// let (disk, out): (Arc<dyn Disk>, Arc<dyn Disk>) = (disk, MemoryDisk::seeded(2));
/// let repaired = repair::repair(&disk, &out, &repair::RepairOptions::default())?;
/// assert!(repaired.session_was_lost && repaired.losses.is_empty());
/// assert_eq!(Session::open(out, SessionOptions::default())?.list_snapshots()?.len(), 1);
/// # Ok::<(), varvite::Error>(())
/// ```
pub fn repair(
    source: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    options: &RepairOptions,
) -> Result<Repaired> {
    make(source, target, options).map_err(|error| match error.kind() {
        // What is full is the folder that it writes to, which its own sentence says.
        Kind::Io if !error.is_no_space() => error.context(
            "the repair was ended, since a disk that does not answer is no damage: see to it, or copy what can \
             be read to a sound one, and repair that",
        ),
        _ => error,
    })
}

fn make(
    source: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    options: &RepairOptions,
) -> Result<Repaired> {
    let (identity, was_lost) = match read_session(&**source) {
        Ok((identity, _)) => (identity, false),
        Err(error) => {
            let said = error.to_string();
            let (identity, _) = told_identity(&**source, error)?;
            if identity == 0 {
                return Err(Error::new(
                    Kind::Corrupt,
                    format!(
                        "{said}; and no manifest or checkpoint of {} can be read, so nothing says what was in \
                         it: restore a backup",
                        source.root()
                    ),
                ));
            }
            (identity, true)
        }
    };
    let reading = SessionOptions::default();
    let store = SegmentStore::new(Arc::clone(source), reading, (identity, 0), u64::MAX, None);
    let seed = entropy::seed(options.seed, &**target)?;
    let made = (identity, Made::Repair);
    let new = NewStore::create(target, made, seed, SessionOptions::default(), Verify::Quick)?;
    let mut repairer = Repairer {
        source: &**source,
        store,
        skip_damaged: options.skip_damaged,
        segments: BTreeMap::new(),
        blobs: BTreeMap::new(),
        new,
        report: Repaired { session_was_lost: was_lost, ..Repaired::default() },
    };
    repairer.snapshots()?;
    repairer.live_tables()?;
    repairer.tell_lost_snapshots()?;
    let Repairer { new, mut report, .. } = repairer;
    report.moved = new.intake.moved;
    new.finish()?;
    Ok(report)
}

/// A least and a greatest key.
type KeySpan = (Vec<u8>, Vec<u8>);

/// Why a file is not whole; none when it is.
type BadFile = Option<(String, String)>;

/// A repair under way.
struct Repairer<'a> {
    source: &'a dyn Disk,
    store: Arc<SegmentStore>,
    skip_damaged: bool,
    /// What was read and what was found, by the file's number, with the description that it was read for.
    segments: BTreeMap<u64, (SegmentMeta, BadFile)>,
    blobs: BTreeMap<u64, (BlobMeta, BadFile)>,
    new: NewStore,
    report: Repaired,
}

impl Repairer<'_> {
    fn snapshots(&mut self) -> Result<()> {
        for name in snapshot_names(self.source)? {
            let mut manifest = match read_manifest(self.source, self.store.identity, &name) {
                Ok(manifest) => manifest,
                // Its deletion was under way.
                Err(error) if error.kind() == Kind::Missing => continue,
                Err(error) if is_no_damage(&error) => return Err(error),
                Err(error) => {
                    self.report.lose(
                        &paths::snapshot(&name),
                        &error,
                        &Holder::Snapshot(&name),
                        None,
                    );
                    continue;
                }
            };
            let kept = manifest.tables.iter().map(|it| self.table(it, &Holder::Snapshot(&name)));
            // Of all of them, so that all is told.
            let kept = kept.collect::<Result<Vec<_>>>()?;
            if kept.iter().all(Option::is_some) {
                manifest.tables.clear();
                for table in kept.into_iter().flatten() {
                    manifest.tables.push(self.new.intake.table(self.source, &table)?);
                }
                self.new.save(manifest)?;
                self.report.snapshots.push(name);
            }
        }
        Ok(())
    }

    fn live_tables(&mut self) -> Result<()> {
        let checkpoint = match read_checkpoint(self.source, self.store.identity) {
            Ok(checkpoint) => checkpoint,
            Err(error) if is_no_damage(&error) => return Err(error),
            Err(error) => {
                let error = Error::new(
                    error.kind(),
                    format!("{}; so it is not known which tables were live", error.detail()),
                );
                self.report.lose(paths::CHECKPOINT, &error, &Holder::Nobody, None);
                return Ok(());
            }
        };
        let Some(checkpoint) = checkpoint else { return self.log_without_checkpoint() };
        let mut kept = Vec::new();
        for record in &checkpoint.tables {
            if let Some(table) = self.table(&record.table, &Holder::Live(&record.table.name))? {
                let table = self.new.intake.table(self.source, &table)?;
                kept.push(LiveRecord { table, ..record.clone() });
            }
        }
        let before = self.report.clone();
        let (mut log, mut tables) = self.copy_log(&checkpoint, &kept)?;
        let lacking: BTreeSet<_> = tables
            .iter()
            .filter(|table| table.lacks_keys)
            .map(|table| table.name.clone())
            .collect();
        let is_lacking = |record: &LiveRecord| lacking.contains(&record.table.name);
        if !lacking.is_empty() && !self.skip_damaged {
            // Without its log such a table never was as it is: it is left out, and the log read for the others.
            self.report = before;
            for record in kept.iter().filter(|record| is_lacking(record)) {
                self.lose_ranges(record, false);
            }
            kept.retain(|record| !is_lacking(record));
            (log, tables) = self.copy_log(&checkpoint, &kept)?;
        }
        for record in kept.iter().filter(|record| is_lacking(record)) {
            self.lose_ranges(record, true);
        }
        let placed = kept.into_iter().zip(log.places());
        let records: Vec<_> = placed.map(|(record, points)| record.placed(points)).collect();
        self.report.log_records = log.records();
        self.new.write_checkpoint(checkpoint.next_id, records, log)?;
        self.report.live_tables = tables;
        Ok(())
    }

    /// Where the folder of snapshots is gone, what is told is that alone: nobody knows what was in it.
    fn tell_lost_snapshots(&mut self) -> Result<()> {
        let is_unnamed =
            |name: &str| paths::segment_id(name).is_some_and(|id| !self.segments.contains_key(&id));
        if let Some(lost) = lost_snapshots(self.source, is_unnamed)? {
            self.report.lose(paths::SNAPSHOTS, &lost, &Holder::Nobody, None);
        }
        Ok(())
    }

    /// What is to be kept of the table of `record`; none when it cannot be kept for `user`.
    fn table(&mut self, record: &TableRecord, user: &Holder<'_>) -> Result<Option<TableRecord>> {
        let mut bad = BTreeMap::new();
        for meta in record.segments() {
            if let Some((file, detail)) = self.segment(meta)? {
                bad.entry(meta.id).or_insert((meta.clone(), file, detail));
            }
        }
        let found = if bad.is_empty() {
            Some(record.clone())
        } else if self.skip_damaged {
            Some(damaged::without(record, &|meta| bad.contains_key(&meta.id)))
        } else {
            None
        };
        let is_left_out = found.is_none();
        let mut ranges = damaged::missed_ranges(record, &|meta| bad.contains_key(&meta.id));
        for (meta, file, detail) in bad.into_values() {
            let error = Error::new(Kind::Corrupt, detail);
            let range = ranges.remove(&meta.id);
            let range = range.unwrap_or((meta.first_key.clone(), meta.last_key.clone()));
            let lost = (!is_left_out).then(|| (range, meta.entries()));
            self.report.lose(&file, &error, user, lost);
        }
        Ok(found)
    }

    /// What is wrong with a segment, or with a blob file that it refers to. An error is of the disk.
    fn segment(&mut self, meta: &SegmentMeta) -> Result<BadFile> {
        for it in &meta.blobs {
            if let Some(damage) = self.blob(&it.file)? {
                return Ok(Some(damage));
            }
        }
        if let Some((of, damage)) = self.segments.get(&meta.id)
            && of == meta
        {
            return Ok(damage.clone());
        }
        let damage = match self.store.open_segment(meta) {
            Ok(segment) => self.open_segment(&segment)?,
            Err(error) => damage(Err(error), || paths::segment(meta.id))?,
        };
        self.segments.insert(meta.id, (meta.clone(), damage.clone()));
        Ok(damage)
    }

    /// What is wrong with a segment, unless it is that of its filters: these are made anew.
    fn open_segment(&mut self, segment: &Arc<Segment>) -> Result<BadFile> {
        let path = || paths::segment(segment.meta().id);
        let found = damage(verify::segment(segment), path)?;
        if found.is_none() || damage(verify::segment_but_filters(segment), path)?.is_some() {
            return Ok(found);
        }
        self.report.filters_made_anew.extend(found);
        self.new.intake.write_anew(segment);
        Ok(None)
    }

    fn blob(&mut self, meta: &BlobMeta) -> Result<BadFile> {
        if let Some((of, damage)) = self.blobs.get(&meta.id)
            && of == meta
        {
            return Ok(damage.clone());
        }
        let read = self.store.open_blob(meta).and_then(|blob| blob.verify());
        let damage = damage(read, || paths::blob(meta.id))?;
        self.blobs.insert(meta.id, (*meta, damage.clone()));
        Ok(damage)
    }
}

/// Whether an error ends the repair: a disk that does not answer has damaged nothing, and neither has a newer
/// release.
fn is_no_damage(error: &Error) -> bool {
    [Kind::Io, Kind::Version].contains(&error.kind())
}

/// What is wrong with the file `path`, as reading it said.
fn damage(read: Result<()>, path: impl Fn() -> String) -> Result<BadFile> {
    match read {
        Err(error) if is_no_damage(&error) => Err(error),
        Err(error) => Ok(Some((path(), error.detail().to_owned()))),
        Ok(()) => Ok(None),
    }
}

/// For whom something is needed.
enum Holder<'a> {
    Snapshot(&'a str),
    Live(&'a str),
    Nobody,
}

impl Repaired {
    /// Notes that `file` took something from `user`: so many entries in a range of keys, or all.
    fn lose(&mut self, file: &str, error: &Error, user: &Holder<'_>, lost: Option<(KeySpan, u64)>) {
        let (keys, entries) = lost.unzip();
        let (detail, entries) = (error.detail(), entries.unwrap_or(0));
        let known =
            |loss: &&mut Loss| (&*loss.file, &*loss.detail, &loss.keys) == (file, detail, &keys);
        if self.losses.iter_mut().find(known).is_none() {
            self.losses.push(Loss {
                file: file.to_owned(),
                detail: detail.to_owned(),
                snapshots: Vec::new(),
                live_tables: Vec::new(),
                keys: keys.clone(),
                entries,
            });
        }
        let loss = self.losses.iter_mut().find(known).expect("it was just put there");
        let (names, name) = match user {
            Holder::Snapshot(name) => (&mut loss.snapshots, name),
            Holder::Live(name) => (&mut loss.live_tables, name),
            Holder::Nobody => return,
        };
        if !names.iter().any(|known| known == name) {
            names.push((*name).to_owned());
        }
    }
}
