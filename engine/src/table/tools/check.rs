//! Verifies a session from its files alone, and never writes.
//!
//! Everything that a manifest names is read: headers, checksums, key order, counts, filters and
//! indexes against the pages. What is wrong is told file by file; the check goes on after it.

use std::iter;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Error, Kind, Result};
use crate::order::{BTreeMap, BTreeSet};
use crate::table::durable::folder::{
    lost_file, lost_session, lost_snapshots, names_in, read_manifest, read_session, snapshot_names,
    told_identities, unfinished,
};
pub use crate::table::durable::log_files::UnfinishedUpdate;
use crate::table::durable::{Checkpoint, CheckpointTag, LogRecord, log_files, read_tag, verify};
use crate::table::runs::SegmentMeta;
use crate::table::runs::blob::BlobMeta;
use crate::table::shared::paths::{self, SEGMENTS, SNAPSHOTS};
use crate::table::shared::{SegmentStore, SessionOptions};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The file, relative to the session.
    pub file: String,
    /// What is wrong, where, and what to do.
    pub detail: String,
    /// The snapshots that need the file; empty when none does.
    pub snapshots: Vec<String>,
    /// The live tables that need it; empty when none does.
    pub live_tables: Vec<String>,
}

/// What a check read and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What is wrong; empty for a sound session.
    pub findings: Vec<Finding>,
    /// Manifests read.
    pub snapshots: u64,
    /// Segments read.
    pub segments: u64,
    /// Blob files read.
    pub blob_files: u64,
    /// Entries read.
    pub entries: u64,
    /// Bytes of the files read.
    pub bytes: u64,
    /// Segments and blob files that no manifest names: of a session that is open, or left by a crash.
    pub unreferenced: u64,
    /// Live tables.
    pub live_tables: u64,
    /// Updates that the log has since the checkpoint.
    pub log_records: u64,
    /// Bytes after the log's end, which no update claims: mostly zeros.
    pub log_tail_bytes: u64,
    /// The update at the log's end that is not whole, if there is one. That is no finding: what a power cut leaves of an
    /// update that was not acknowledged looks like this, too.
    pub log_unfinished: Option<UnfinishedUpdate>,
    /// The number of the file that comes next, when the check ended before the last one: see [`Selection::from`].
    pub next: Option<u64>,
    /// What says that a newer release wrote a file, which is no damage.
    pub(super) newer: Option<String>,
    /// What findings of files advise, if not what their errors do.
    pub(super) advice: Option<&'static str>,
}

/// What a check is to read. Manifests, the checkpoint and the log are read each time; what is selected are the files
/// that they name. Where nothing is selected, everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// What these snapshots need.
    pub snapshots: Vec<String>,
    /// What the live tables need.
    pub live: bool,
    /// Of snapshots and live tables only what tables of these names need.
    pub tables: Vec<String>,
    /// Passes over files with lower numbers: [`Report::next`] of a check that ended before.
    pub from: u64,
    /// Ends with the file after which so many bytes of files are read.
    pub most_bytes: Option<u64>,
}

impl Selection {
    fn has_snapshot(&self, name: &str) -> bool {
        self.is_of_all() || self.snapshots.iter().any(|it| it == name)
    }

    fn has_live(&self) -> bool {
        self.is_of_all() || self.live
    }

    fn is_of_all(&self) -> bool {
        self.snapshots.is_empty() && !self.live
    }

    fn has_table(&self, name: &str) -> bool {
        self.tables.is_empty() || self.tables.iter().any(|it| it == name)
    }

    /// Whether every file of the session is to be read, at once or in parts.
    fn is_whole(&self) -> bool {
        self.is_of_all() && self.tables.is_empty()
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes read so far.
    pub done_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
}

/// Checks the session in the root folder of `disk`, telling `progress`, which may break it off.
/// An error is returned only when there is no session to check, or a newer release wrote some of it (`Version`).
///
/// Reads every byte that a snapshot needs, once. Takes no lock, so a session may be open meanwhile: what its
/// writer removes during the check is not asked for, and what it puts in that place is checked instead.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use varvite::disk::{Disk, memory::MemoryDisk};
/// use varvite::{Session, SessionOptions, table::check::check};
///
/// let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
/// Session::create(disk.clone(), SessionOptions::default())?.close()?;
/// let report = check(&disk, |_| ControlFlow::Continue(()))?;
/// assert!(report.findings.is_empty());
/// # Ok::<(), varvite::Error>(())
/// ```
pub fn check(
    disk: &Arc<dyn Disk>,
    progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report> {
    check_selected(disk, &Selection::default(), progress)
}

/// The same of a part of the session, and in parts: where it ends before the last file, or is broken off,
/// [`Report::next`] says where another goes on. What is written between two parts may be passed over.
///
/// `Missing` when there is no snapshot or table of a name that is selected.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use varvite::disk::{Disk, memory::MemoryDisk};
/// use varvite::{Session, SessionOptions, table::check::{Selection, check_selected}};
///
/// let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
/// Session::create(disk.clone(), SessionOptions::default())?.close()?;
/// let mut part = Selection { most_bytes: Some(1 << 30), ..Selection::default() };
/// loop {
///     let report = check_selected(&disk, &part, |_| ControlFlow::Continue(()))?;
///     assert!(report.findings.is_empty());
///     let Some(next) = report.next else { break };
///     part.from = next;
/// }
/// # Ok::<(), varvite::Error>(())
/// ```
pub fn check_selected(
    disk: &Arc<dyn Disk>,
    selection: &Selection,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report> {
    let (identity, damage) = match read_session(&**disk) {
        Ok(identity) => (identity, None),
        Err(error) => {
            let (identity, damage) = told_identity(&**disk, error)?;
            // Unless somebody has made it while this looked, or begun to.
            if let Some(error) = unfinished(&**disk)? {
                return Err(error);
            }
            match read_session(&**disk) {
                Ok(identity) => (identity, None),
                Err(error) if error.kind() == Kind::Corrupt => ((identity, 0), Some(damage)),
                Err(error) => return Err(error),
            }
        }
    };
    let store =
        SegmentStore::new(Arc::clone(disk), SessionOptions::default(), identity, u64::MAX, None);
    let mut checker = Checker {
        disk: &**disk,
        selection,
        store,
        sound_segments: BTreeMap::new(),
        sound_blobs: BTreeMap::new(),
        has_vanished: false,
        now: NamedNow::default(),
    };
    let mut passes = 0;
    loop {
        passes += 1;
        checker.has_vanished = false;
        let mut report = Report::default();
        let needed = checker.manifests(damage.as_ref(), &mut report)?;
        let flow = checker.files(needed, &mut report, &mut progress);
        if let Some(detail) = report.newer.take() {
            return Err(Error::new(Kind::Version, detail));
        }
        if flow.is_break() || !checker.has_vanished || passes == PASSES_MAX {
            if flow.is_break() && checker.has_vanished {
                // What came in the place of what went was not read.
                report.next = report.next.or(Some(selection.from));
            }
            return if report.findings.is_empty() { Ok(report) } else { unless_gone(disk, report) };
        }
    }
}

/// The report, unless the session was removed while it was checked: then nothing of it is damaged.
fn unless_gone(disk: &Arc<dyn Disk>, report: Report) -> Result<Report> {
    match read_session(&**disk) {
        Err(error) if error.kind() == Kind::Missing => Err(error),
        _ => Ok(report),
    }
}

/// The identity of a session whose own file is damaged or lost, as `error` says, and that error: what
/// most of its other files say, and 0 when none does. Where they contradict each other, the error tells.
/// `error` when there is no session.
pub(super) fn told_identity(disk: &dyn Disk, error: Error) -> Result<(u64, Error)> {
    if ![Kind::Corrupt, Kind::Missing].contains(&error.kind()) {
        return Err(error);
    }
    if let Some(error) = unfinished(disk)? {
        return Err(error);
    }
    let told = told_identities(disk)?;
    let first = told.values().next().and_then(|files| files.first());
    let error = match (error.kind(), first) {
        (Kind::Missing, None) => return Err(error),
        (Kind::Missing, Some(file)) => lost_session(disk, file),
        _ => error,
    };
    let most = told.iter().max_by_key(|(_, files)| files.len());
    let identity = most.map_or(0, |(identity, _)| *identity);
    if told.len() < 2 {
        return Ok((identity, error));
    }
    let said = told.iter().map(|(of, files)| format!("{} of session {of:016x}", files.join(", ")));
    let said: Vec<_> = said.collect();
    let detail = format!(
        "{}; its other files contradict each other about whose they are: {}; they were checked as files \
         of {identity:016x}",
        error.detail(),
        said.join("; "),
    );
    Ok((identity, Error::new(Kind::Corrupt, detail)))
}

/// How often everything is looked at again because the writer replaced something meanwhile.
const PASSES_MAX: u32 = 100;

/// One check, in as many passes as the writer beside it makes necessary.
struct Checker<'a> {
    disk: &'a dyn Disk,
    selection: &'a Selection,
    store: Arc<SegmentStore>,
    /// What was read and is sound, which no further pass reads again.
    sound_segments: BTreeMap<u64, SegmentMeta>,
    sound_blobs: BTreeMap<u64, BlobMeta>,
    /// Whether something went during this pass, so that what came instead is to be checked.
    has_vanished: bool,
    /// What named files when that was looked at last in this pass.
    now: NamedNow,
}

/// What names files, as long as it is known to be what it was.
#[derive(Default)]
struct NamedNow {
    /// The names of manifests, and the greatest number of a save: each save and each deletion changes them.
    listing: Vec<String>,
    /// What each manifest names that was read; none where it cannot be read.
    manifests: BTreeMap<String, Option<BTreeSet<WantedFile>>>,
    /// Which live tables need what checkpoint and log name, none where nobody knows, and the tag of the checkpoint.
    /// Under one checkpoint the log only grows, and what it named when the pass began is among that.
    live: Option<(Option<CheckpointTag>, Option<LiveUsers>)>,
}

impl Checker<'_> {
    /// Reads every manifest, the checkpoint and the log, and gives what they need.
    fn manifests(
        &mut self,
        damage: Option<&Error>,
        report: &mut Report,
    ) -> Result<(Needed, NeededBlobs)> {
        self.now = NamedNow::default();
        let (mut needed, mut all) = (Needed::default(), User::default());
        let (selection, mut tables) = (self.selection, BTreeSet::new());
        let names = snapshot_names(self.disk)?;
        if let Some(name) = selection.snapshots.iter().find(|name| !names.contains(name)) {
            return Err(Error::missing(format!("there is no snapshot \"{name}\" to check")));
        }
        for name in names.into_iter().filter(|name| selection.has_snapshot(name)) {
            let user = User::of_snapshot(&name);
            match read_manifest(self.disk, self.store.identity, &name) {
                Ok(manifest) => {
                    let records = manifest.tables.iter().filter(|it| selection.has_table(&it.name));
                    for record in records {
                        tables.insert(record.name.clone());
                        needed.add(record.segments(), &paths::snapshot(&name), &user);
                    }
                }
                Err(error) if error.kind() == Kind::Missing => {
                    self.has_vanished = true;
                    continue;
                }
                Err(error) => report.add(&paths::snapshot(&name), &error, &user),
            }
            report.snapshots += 1;
            all.add(&user);
        }
        let (checkpoint, mut logged) = check_log(self.disk, self.store.identity, report);
        let records = checkpoint.iter().flat_map(|checkpoint| &checkpoint.tables);
        let is_selected = |name: &str| selection.has_live() && selection.has_table(name);
        for record in records.filter(|record| is_selected(&record.table.name)) {
            report.live_tables += 1;
            tables.insert(record.table.name.clone());
            let user = User { live_tables: vec![record.table.name.clone()], ..User::default() };
            needed.add(record.table.segments(), paths::CHECKPOINT, &user);
            all.add(&user);
        }
        // What is damaged may have had it, or what has taken the place of what went.
        let lost = selection.tables.iter().find(|name| !tables.contains(*name));
        if let Some(name) = lost.filter(|_| report.findings.is_empty() && !self.has_vanished) {
            return Err(Error::missing(format!("there is no table \"{name}\" to check")));
        }
        if !selection.is_whole() {
            logged.retain(|_, (_, user)| user.live_tables.iter().any(|name| is_selected(name)));
        }
        if let Some(error) = damage {
            // Without it nothing of the session opens.
            report.add(paths::SESSION, error, &all);
        }
        self.tell_contradictions(&needed, report);
        let mut blobs = needed_blobs(&needed);
        for (id, (meta, user)) in logged {
            let (known, users) = blobs.entry(id).or_insert((meta, User::default()));
            users.add(&user);
            if *known != meta {
                let expected = format_args!("blob file {id} as segments have it");
                let error = Error::corrupt(paths::LOG, 0, expected, "another description");
                report.add(paths::LOG, &error, &user);
            }
        }
        Ok((needed, blobs))
    }

    /// Reads the files that are needed, telling how far it is.
    fn files(
        &mut self,
        (needed, blobs): (Needed, NeededBlobs),
        report: &mut Report,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let on_disk = self.disk.list(SEGMENTS).unwrap_or_default();
        let on_disk: BTreeSet<_> = on_disk.iter().filter_map(|name| paths::file_id(name)).collect();
        let is_needed = |id: &&u64| needed.segments.contains_key(id) || blobs.contains_key(id);
        if self.selection.is_whole() {
            report.unreferenced = on_disk.iter().filter(|id| !is_needed(id)).count() as u64;
            let is_unnamed = |name: &str| paths::file_id(name).is_some_and(|id| !is_needed(&&id));
            if let Ok(Some(lost)) = lost_snapshots(self.disk, is_unnamed) {
                report.add(SNAPSHOTS, &lost, &User::default());
            }
        }
        // By number, so that a part says with one where the next begins.
        let blobs = blobs
            .into_values()
            .map(|(meta, user)| ((meta.id, false), (NeededFile::Blob(meta), user)));
        let segments = needed.segments.into_values();
        let segments =
            segments.map(|(meta, user)| ((meta.id, true), (NeededFile::Segment(meta), user)));
        let files = blobs.chain(segments).filter(|((id, _), _)| *id >= self.selection.from);
        let files: BTreeMap<_, _> = files.collect();
        let total_bytes = files.values().map(|(kept, _)| kept.file_bytes()).sum();
        let mut files = files.into_iter().peekable();
        while let Some(((number, _), (kept, user))) = files.next() {
            report.bytes += kept.file_bytes();
            match kept {
                NeededFile::Blob(meta) => {
                    let checked = self.blob(meta);
                    let named = (meta.id, meta.identity);
                    self.note((named, &[paths::blob(meta.id)]), checked, user, report);
                    report.blob_files += 1;
                }
                NeededFile::Segment(meta) => self.segment_of(&meta, user, report),
            }
            let next = files.peek().map(|((id, _), _)| *id);
            if next == Some(number) {
                // No two files have one number, but those of a damaged session: a part ends behind both.
                continue;
            }
            let flow = progress(Progress { done_bytes: report.bytes, total_bytes });
            let is_enough = self.selection.most_bytes.is_some_and(|most| report.bytes >= most);
            if flow.is_break() || is_enough {
                report.next = next;
                return flow;
            }
        }
        ControlFlow::Continue(())
    }

    fn segment_of(&mut self, meta: &SegmentMeta, user: User, report: &mut Report) {
        report.segments += 1;
        let checked = self.segment(meta);
        report.entries += if checked.is_ok() { meta.entries() } else { 0 };
        let blobs = meta.blobs.iter().map(|it| paths::blob(it.file.id));
        let files: Vec<_> = iter::once(paths::segment(meta.id)).chain(blobs).collect();
        self.note(((meta.id, meta.identity), &files), checked, user, report);
    }

    fn blob(&mut self, meta: BlobMeta) -> Result<()> {
        if self.sound_blobs.get(&meta.id) != Some(&meta) {
            self.store.open_blob(&meta)?.verify()?;
            self.sound_blobs.insert(meta.id, meta);
        }
        Ok(())
    }

    fn segment(&mut self, meta: &SegmentMeta) -> Result<()> {
        if self.sound_segments.get(&meta.id) != Some(meta) {
            verify::segment(&self.store.open_segment(meta)?)?;
            self.sound_segments.insert(meta.id, meta.clone());
        }
        Ok(())
    }

    /// Notes what is wrong with the first of `files`, which manifests name as `named`, and for which the others were
    /// needed, too. When one is missing because nobody needs it any more, nothing is wrong; nor when it is another one
    /// by now, since the number of a file that was deleted may be given again.
    fn note(
        &mut self,
        (named, files): (WantedFile, &[String]),
        checked: Result<()>,
        user: User,
        report: &mut Report,
    ) {
        let Err(error) = checked else { return };
        let is_missing = error.kind() == Kind::Missing;
        if !is_missing && !error.kind().is_of_bytes() {
            return report.add(&files[0], &error, &user);
        }
        let is_lost = |file: &&String| matches!(self.disk.exists(file), Ok(false));
        let lost = files.iter().find(|file| is_missing && is_lost(file));
        // Only now: a manifest goes before the files that it names.
        let user = self.still_needing(named, user);
        if user.is_empty() {
            self.has_vanished = true;
            return;
        }
        let error = lost.map_or(error, |file| lost_file(file));
        report.add(&files[0], &error, &user);
    }

    /// Tells where manifests contradict each other, unless one of them was deleted since, and the other one is of a
    /// file that has been given the number again.
    fn tell_contradictions(&mut self, needed: &Needed, report: &mut Report) {
        for (meta, file, user) in &needed.contradictions {
            let (known, users) = &needed.segments[&meta.id];
            let [ours, others] = [(meta, user), (known, users)]
                .map(|(meta, user)| self.still_needing((meta.id, meta.identity), user.clone()));
            if ours.is_empty() || others.is_empty() {
                self.has_vanished = true;
                continue;
            }
            let expected = format_args!("segment {} as other manifests have it", meta.id);
            report.add(file, &Error::corrupt(file, 0, expected, "another description"), user);
        }
    }

    /// Those of `user` that name this file at this moment. What names files is read again where it may have changed
    /// only, since much of a session may be damaged.
    fn still_needing(&mut self, named: WantedFile, mut user: User) -> User {
        let (disk, identity, now) = (self.disk, self.store.identity, &mut self.now);
        if !user.snapshots.is_empty() {
            let listing = names_in(disk, SNAPSHOTS).unwrap_or_default();
            if listing != now.listing {
                (now.listing, now.manifests) = (listing, BTreeMap::new());
            }
        }
        user.snapshots.retain(|name| {
            let read = || match read_manifest(disk, identity, name) {
                Ok(manifest) => Some(names_of(manifest.segments()).collect()),
                Err(error) => (error.kind() == Kind::Missing).then(BTreeSet::new),
            };
            let files = now.manifests.entry(name.clone()).or_insert_with(read);
            files.as_ref().is_none_or(|files| files.contains(&named))
        });
        if user.live_tables.is_empty() {
            return user;
        }
        let tag = read_tag(disk).unwrap_or_default();
        if now.live.as_ref().is_none_or(|(then, _)| tag.is_none() || *then != tag) {
            now.live = Some((tag, named_by_live(disk, identity)));
        }
        // Without the checkpoint nobody knows.
        if let Some((_, Some(files))) = &now.live {
            let tables = files.get(&named);
            user.live_tables.retain(|name| tables.is_some_and(|tables| tables.contains(name)));
        }
        user
    }
}

/// Files, each with the live tables that need it.
type LiveUsers = BTreeMap<WantedFile, Vec<String>>;

/// The files that checkpoint and log name; none where there is no checkpoint, or it cannot be read.
fn named_by_live(disk: &dyn Disk, identity: u64) -> Option<LiveUsers> {
    let mut files = LiveUsers::new();
    let (checkpoint, logged) = check_log(disk, identity, &mut Report::default());
    for record in &checkpoint?.tables {
        for file in names_of(record.table.segments()) {
            let tables = files.entry(file).or_default();
            if tables.last() != Some(&record.table.name) {
                tables.push(record.table.name.clone());
            }
        }
    }
    for (meta, user) in logged.into_values() {
        files.entry((meta.id, meta.identity)).or_default().extend(user.live_tables);
    }
    Some(files)
}

/// What a file is named by: its number, which another may have later, and its identity.
type WantedFile = (u64, u64);

/// What these segments and their blob files are named by.
fn names_of<'a>(
    segments: impl Iterator<Item = &'a SegmentMeta>,
) -> impl Iterator<Item = WantedFile> {
    segments.flat_map(|meta| {
        let blobs = meta.blobs.iter().map(|it| (it.file.id, it.file.identity));
        iter::once((meta.id, meta.identity)).chain(blobs)
    })
}

/// Who needs a file.
#[derive(Clone, Debug, Default)]
pub(super) struct User {
    pub(super) snapshots: Vec<String>,
    pub(super) live_tables: Vec<String>,
}

impl User {
    pub(super) fn of_snapshot(name: &str) -> User {
        User { snapshots: vec![name.to_owned()], live_tables: Vec::new() }
    }

    /// The live tables of `checkpoint` whose ids are among those asked for.
    pub(super) fn of_live(checkpoint: Option<&Checkpoint>, is_asked: impl Fn(u64) -> bool) -> User {
        let records = checkpoint.into_iter().flat_map(|checkpoint| &checkpoint.tables);
        let asked = records.filter(|record| is_asked(record.id));
        let live_tables = asked.map(|record| record.table.name.clone()).collect();
        User { live_tables, ..User::default() }
    }

    fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.live_tables.is_empty()
    }

    /// Adds the names of `other`, each once.
    pub(super) fn add(&mut self, other: &User) {
        for (all, more) in
            [(&mut self.snapshots, &other.snapshots), (&mut self.live_tables, &other.live_tables)]
        {
            for name in more {
                if !all.contains(name) {
                    all.push(name.clone());
                }
            }
        }
    }
}

/// A file that something names.
enum NeededFile {
    Segment(SegmentMeta),
    Blob(BlobMeta),
}

impl NeededFile {
    fn file_bytes(&self) -> u64 {
        match self {
            NeededFile::Segment(meta) => meta.file_bytes(),
            NeededFile::Blob(meta) => meta.file_bytes(),
        }
    }
}

/// The segments that are needed.
#[derive(Default)]
struct Needed {
    /// By id, as the first manifest describes them.
    segments: BTreeMap<u64, (SegmentMeta, User)>,
    /// Those that another file describes otherwise, with that and whoever it is of.
    contradictions: Vec<(SegmentMeta, String, User)>,
}

impl Needed {
    /// Notes that `user`, described in `file`, needs these segments.
    fn add<'a>(
        &mut self,
        segments: impl Iterator<Item = &'a SegmentMeta>,
        file: &str,
        user: &User,
    ) {
        for meta in segments {
            let new = || (meta.clone(), User::default());
            let (known, users) = self.segments.entry(meta.id).or_insert_with(new);
            if known != meta {
                self.contradictions.push((meta.clone(), file.to_owned(), user.clone()));
                continue;
            }
            for (all, one) in [
                (&mut users.snapshots, &user.snapshots),
                (&mut users.live_tables, &user.live_tables),
            ] {
                if !one.is_empty() && all.last() != one.last() {
                    all.extend(one.iter().cloned());
                }
            }
        }
    }
}

/// Blob files by their number.
pub(super) type NeededBlobs = BTreeMap<u64, (BlobMeta, User)>;

/// The blob files that these segments refer to.
fn needed_blobs(needed: &Needed) -> NeededBlobs {
    let mut blobs = NeededBlobs::new();
    for (segment, user) in needed.segments.values() {
        for it in &segment.blobs {
            let (_, users) = blobs.entry(it.file.id).or_insert((it.file, User::default()));
            users.add(user);
        }
    }
    blobs
}

/// Reads checkpoint and log of the store `identity`, telling what is wrong with them. Gives the
/// checkpoint and the blob files that the log refers to.
pub(super) fn check_log(
    disk: &dyn Disk,
    identity: u64,
    report: &mut Report,
) -> (Option<Checkpoint>, NeededBlobs) {
    let (mut records, mut blobs) = (0, NeededBlobs::new());
    let read = log_files::beside_writer(disk, identity, |checkpoint| {
        (records, blobs) = (0, NeededBlobs::new());
        log_files::find(disk, identity, checkpoint, &mut |_, payload| {
            records += 1;
            let record = LogRecord::decode(payload, &|_| false)?;
            for blob in record.blobs() {
                let (_, users) = blobs.entry(blob.id).or_insert((*blob, User::default()));
                users.add(&User::of_live(checkpoint, |id| record.tables().contains(&id)));
            }
            Ok(())
        })
    });
    let (checkpoint, found) = match read {
        Ok(read) => read,
        Err(error) => {
            report.add(paths::CHECKPOINT, &error, &User::default());
            return (None, NeededBlobs::new());
        }
    };
    match found {
        Ok(found) => {
            (report.log_records, report.log_tail_bytes) = (records, found.tail_bytes);
            // Its writer may have removed the file since.
            report.log_unfinished = log_files::unfinished(disk, identity, &found).ok().flatten();
        }
        Err(error) => {
            let user = User::of_live(checkpoint.as_ref(), |_| true);
            report.add(paths::LOG, &error, &user);
        }
    }
    (checkpoint, blobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::disk::sim::{Crash, SimDisk};
    use crate::{Batch, Session, SnapshotContent, TableOptions};

    /// Only a damaged session, or one that somebody made up, has a segment and a blob file of one number.
    #[test]
    fn parts_go_on_where_two_files_have_one_number() {
        let disk = MemoryDisk::seeded(1);
        let session = Session::create(disk.clone(), SessionOptions::default()).unwrap();
        let options = TableOptions { blob_min_bytes: Some(300), ..TableOptions::default() };
        for name in ["s", "t"] {
            let mut table = session.create_table(name, options.clone()).unwrap();
            table.update(Batch::new().insert(b"key", &[7; 400])).unwrap();
            let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
            session.save_snapshot(name, content).unwrap();
        }
        let manifest = |name| read_manifest(&*disk, session.store.identity, name).unwrap();
        let (first, mut second) = (manifest("s"), manifest("t"));
        session.close().unwrap();
        // Of one manifest it would be refused.
        let to = first.tables[0].segments().next().unwrap().id;
        let mut moved = None;
        for meta in second.tables[0].segments_mut() {
            for it in &mut meta.blobs {
                moved = Some(std::mem::replace(&mut it.file.id, to));
            }
        }
        disk.rename(&paths::blob(moved.unwrap()), &paths::blob(to)).unwrap();
        disk.replace(&paths::snapshot("t"), second.encode()).unwrap();
        let disk: Arc<dyn Disk> = disk;
        let mut part = Selection { most_bytes: Some(1), ..Selection::default() };
        let mut read = (0, 0);
        for _ in 0..9 {
            let report = check_selected(&disk, &part, |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(report.findings, Vec::new());
            read = (read.0 + report.segments, read.1 + report.blob_files);
            let Some(next) = report.next else { break };
            part.from = next;
        }
        assert_eq!(read, (2, 2), "each is read, and once");
    }

    /// Killed in a second attempt, too: what was the session is there whole, or is none.
    #[test]
    fn a_creation_over_a_session_that_is_begun_again_shows_no_half_of_it() {
        let (mut unfinished, mut seconds) = (0, 0);
        for n in 1..40 {
            let sim = SimDisk::new(n);
            let session = Session::create(sim.clone(), SessionOptions::default()).unwrap();
            for name in ["old", "older", "oldest"] {
                session
                    .save_snapshot(name, SnapshotContent { label: "", payload: b"", tables: &[] })
                    .unwrap();
            }
            drop(session);
            sim.kill_at(n);
            drop(Session::create_over(sim.clone(), SessionOptions::default()));
            let first = sim.crash(Crash::Process);
            for m in 1..40 {
                let sim = first.crash(Crash::Process);
                sim.kill_at(m);
                drop(Session::create_over(sim.clone(), SessionOptions::default()));
                let image = sim.crash(Crash::Process);
                let what = format!("killed at {n} and {m}");
                let shared: Arc<dyn Disk> = image.clone();
                let checked = check(&shared, |_| ControlFlow::Continue(()));
                seconds += 1;
                if let Ok(session) = Session::open(image.clone(), SessionOptions::default()) {
                    let count = session.list_snapshots().unwrap().len();
                    assert!([0, 3].contains(&count), "{what}: {count} snapshots");
                    assert_eq!(checked.unwrap().findings, Vec::new(), "{what}");
                } else {
                    // Whoever checks is told to go on, and not to put a file back.
                    let told = checked.unwrap_err();
                    assert_eq!(told.kind(), Kind::Missing, "{what}: {told}");
                    assert!(told.to_string().contains("make it again"), "{what}: {told}");
                    unfinished += 1;
                }
                drop(Session::create_over(image, SessionOptions::default()).unwrap());
            }
        }
        assert!(unfinished > 300 && seconds > 1_000, "{unfinished} of {seconds}");
    }
}
