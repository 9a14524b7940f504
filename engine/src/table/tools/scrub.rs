//! Reads everything that a session keeps, a part at a time, and says what is damaged.
//!
//! What nobody reads may rot unseen until it is needed. A scrub reads it beside whoever uses the session: what
//! manifests and checkpoint name, the log, and of each segment and blob file every page from the disk, whose
//! checksum it compares. It does not compare the content of pages with each other; a check does.
//!
//! Invariant: what is read was named when the scrub began, or by the log, and a file that went meanwhile
//! because nothing names it any more is passed over. Where that cannot be known, it stays to be read.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::check::{Finding, Progress, Report, User, check_log};
use crate::disk::{Access, Buffer, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::Position;
use crate::table::bytes::{FIRST_PAGE, PAGE_BYTES, check_seal};
use crate::table::durable::folder::{
    lost_file, lost_snapshots, read_manifest, read_session, snapshot_names,
};
use crate::table::durable::log_files::UnfinishedUpdate;
use crate::table::durable::{Checkpoint, LogEnd, LogRecord, log_files, read_checkpoint};
use crate::table::runs::blob::{self, BlobMeta};
use crate::table::runs::{Segment, SegmentMeta, page_offset};
use crate::table::session::Session;
use crate::table::shared::paths;

/// Pages of one read.
const READ_PAGES: u64 = 32;

/// What to do about damage.
const ADVICE: &str = "restore a backup, or have `varvite repair` make a new store of what is whole";

/// A scrub under way; see [`Session::scrub`].
pub struct Scrub {
    session: Session,
    checkpoint: Option<Checkpoint>,
    logs: VecDeque<LogPart>,
    /// Where the log file ended that was read last.
    log_before: Option<LogEnd>,
    /// What the log ends with where that is not whole, and what the first file has of which no record can be read.
    unfinished: Option<UnfinishedUpdate>,
    unread: Option<UnfinishedUpdate>,
    /// The other files, by their number.
    files: BTreeMap<u64, Kept>,
    open: Option<OpenFile>,
    /// Files with lower numbers are passed over.
    from: u64,
    /// How often the log was begun to be read.
    readings: u64,
    /// Whether files were read.
    has_begun: bool,
    /// Bytes of files that were read.
    file_bytes: u64,
    /// Whether a file was read to its end.
    has_finished: bool,
    buffer: Buffer,
    findings: Vec<Finding>,
    /// What says that a newer release wrote a file, until it is told.
    newer: Option<Error>,
    progress: Progress,
}

/// A log file that is read up to `at`.
struct LogPart {
    number: u64,
    at: Position,
    /// Where it ends, as the checkpoint says, and whether it may have gone on since.
    named: Option<(Position, bool)>,
}

/// A file that something names.
struct Kept {
    what: What,
    user: User,
    /// A manifest or the checkpoint names it.
    is_planned: bool,
    /// Which reading of the log found it named there last, if one did.
    logged: Option<u64>,
}

enum What {
    Segment(SegmentMeta),
    Blob(BlobMeta),
}

impl What {
    fn path(&self) -> String {
        match self {
            What::Segment(meta) => paths::segment(meta.id),
            What::Blob(meta) => paths::blob(meta.id),
        }
    }

    fn file_bytes(&self) -> u64 {
        match self {
            What::Segment(meta) => meta.file_bytes(),
            What::Blob(meta) => meta.file_bytes(),
        }
    }

    /// Whether both are one file. Without a log another may get the number of one that was deleted.
    fn is_same(&self, other: &What) -> bool {
        match (self, other) {
            (What::Segment(one), What::Segment(other)) => one.identity == other.identity,
            (What::Blob(one), What::Blob(other)) => one.identity == other.identity,
            _ => false,
        }
    }
}

/// The file that is read, page by page.
struct OpenFile {
    number: u64,
    kept: Kept,
    /// None for a blob file.
    segment: Option<Segment>,
    file: std::sync::Arc<dyn File>,
    identity: u64,
    next: u64,
    end: u64,
}

/// What names files, and what is wrong with that.
#[derive(Default)]
struct Plan {
    checkpoint: Option<Checkpoint>,
    files: BTreeMap<u64, Kept>,
    findings: Vec<Finding>,
    /// The first error that says that a newer release wrote something.
    newer: Option<Error>,
    /// The first of these that says nothing of damage: the disk did not answer.
    unread: Option<Error>,
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scrub({}, {:?} at {})", self.session.root(), self.progress, self.place())
    }
}

impl Session {
    /// Begins to read everything that the session keeps, from the disk, beside whoever uses it, also another
    /// process: [`Scrub::work`] goes on by a bounded part. With `from`, the [place](Scrub::place) of a scrub
    /// that was left, files that it had read are passed over; 0 is the beginning.
    ///
    /// Reads every manifest and the checkpoint, O(segments). `Closed`, `Io` when a folder cannot be listed.
    ///
    /// ```
    /// use varvite::{Session, SessionOptions, disk::memory::MemoryDisk};
    ///
    /// let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// let mut scrub = session.scrub(0)?;
    /// while scrub.work(256)? > 0 {} // a mebibyte now and then
    /// assert!(scrub.findings().is_empty());
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn scrub(&self, from: u64) -> Result<Scrub> {
        self.store.check_open()?;
        let (disk, identity) = (&*self.store.disk, self.store.identity);
        let mut plan = plan(disk, identity)?;
        if let Some(newer) = plan.newer {
            return Err(newer);
        }
        plan.files.retain(|number, _| *number >= from);
        let total_bytes = plan.files.values().map(|kept| kept.what.file_bytes()).sum();
        let mut scrub = Scrub {
            session: self.clone(),
            checkpoint: plan.checkpoint,
            logs: VecDeque::new(),
            log_before: None,
            unfinished: None,
            unread: None,
            files: plan.files,
            open: None,
            from,
            readings: 0,
            has_begun: false,
            file_bytes: 0,
            has_finished: false,
            buffer: Buffer::new(READ_PAGES as usize * PAGE_BYTES),
            findings: plan.findings,
            newer: None,
            progress: Progress { done_bytes: 0, total_bytes },
        };
        // What the checkpoint says of the log is not known where it is damaged, which is told.
        if !scrub.findings.iter().any(|finding| finding.file == paths::CHECKPOINT) {
            scrub.plan_log()?;
        }
        // Without one there is hardly a log.
        if scrub.checkpoint.is_none()
            && let Err(error) = log_files::checkpoint_beside(disk, identity)
            && error.kind() == Kind::Corrupt
            && scrub.findings.is_empty()
        {
            scrub.logs.clear();
            let user = User::default();
            scrub.findings.push(Finding::advising(paths::CHECKPOINT, &error, &user, ADVICE));
        }
        Ok(scrub)
    }
}

impl Scrub {
    /// Reads on, about `pages` pages of 4 KiB, with at most a log record, or a filter and an index, more. Gives how
    /// many are left, 0 at the end. What is damaged, or cannot be read, is one of the
    /// [findings](Scrub::findings), and the scrub goes on with the next file. `Closed`; `Io` when a folder cannot be listed;
    /// `Version` for a file that a newer release wrote, which is no damage.
    pub fn work(&mut self, pages: u64) -> Result<u64> {
        let mut left = pages;
        while left > 0 && !self.is_done() {
            self.session.store.check_open()?;
            let read = if self.logs.is_empty() {
                let read = self.read_pages(left)?;
                self.file_bytes += read * PAGE_BYTES as u64;
                read
            } else {
                self.read_log(left)
            };
            if let Some(newer) = self.newer.take() {
                return Err(newer);
            }
            self.progress.done_bytes += read * PAGE_BYTES as u64;
            self.progress.total_bytes = self.progress.total_bytes.max(self.progress.done_bytes);
            left = left.saturating_sub(read.max(1));
        }
        if self.is_done() {
            self.progress.done_bytes = self.progress.total_bytes;
            return Ok(0);
        }
        let bytes = self.progress.total_bytes - self.progress.done_bytes;
        Ok(bytes.div_ceil(PAGE_BYTES as u64).max(1))
    }

    /// What is damaged, of what was read so far: file, place and next step.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What the log ended with when it was read, where its last update is not whole: see [`Report::log_unfinished`]. It
    /// is no finding, since a crash leaves the same.
    #[must_use]
    pub fn log_unfinished(&self) -> Option<&UnfinishedUpdate> {
        self.unfinished.as_ref().or(self.unread.as_ref())
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// From where another scrub goes on, also of another process: the number of the file that comes next. The
    /// log, manifests and checkpoint are read each time.
    #[must_use]
    pub fn place(&self) -> u64 {
        let next = self.open.as_ref().map(|open| open.number);
        let next = next.or_else(|| self.files.keys().next().copied());
        match next {
            _ if !self.logs.is_empty() && !self.has_begun => self.from,
            Some(number) => number,
            None => 0,
        }
    }

    /// Whether a run that is to read about `most_bytes` bytes may end here, and the next one go on from the
    /// [place](Scrub::place): only what is read of files counts, since each run reads the log first, and it
    /// finishes one at least, since a half is read again.
    #[must_use]
    pub fn may_end(&self, most_bytes: u64) -> bool {
        self.file_bytes >= most_bytes && self.has_finished
    }

    fn is_done(&self) -> bool {
        self.logs.is_empty() && self.open.is_none() && self.files.is_empty()
    }

    /// Lists the log files that the checkpoint names, and those behind them.
    fn plan_log(&mut self) -> Result<()> {
        (self.readings, self.log_before) = (self.readings + 1, None);
        (self.unfinished, self.unread) = (None, None);
        let disk = &*self.session.store.disk;
        let listed = self.checkpoint.as_ref().map_or(&[][..], |checkpoint| &checkpoint.files);
        let last = listed.last().map_or(0, |end| end.file);
        for end in listed {
            let named = Some((end.position, end.file == last));
            self.logs.push_back(LogPart { number: end.file, at: Position::start(), named });
        }
        for number in log_files::log_numbers(disk)?.into_iter().filter(|number| *number > last) {
            self.logs.push_back(LogPart { number, at: Position::start(), named: None });
        }
        Ok(())
    }

    /// Reads on in the log; how many pages.
    fn read_log(&mut self, pages: u64) -> u64 {
        if let Ok(read) = self.read_log_part(pages) {
            if self.logs.is_empty() {
                self.forget_unlogged();
            }
            return read;
        }
        // Damage, or what its writer did meanwhile: then all of it is read at once, which tells.
        self.logs.clear();
        let mut report = Report::advising(ADVICE);
        let store = &self.session.store;
        let (_, blobs) = check_log(&*store.disk, store.identity, &mut report);
        for (_, (meta, user)) in blobs {
            self.keep_logged(meta, &user);
        }
        (self.unfinished, self.unread) = (report.log_unfinished.take(), None);
        if report.findings.is_empty() && report.newer.is_none() {
            self.forget_unlogged();
        }
        self.newer = report.newer.take().map(|detail| Error::new(Kind::Version, detail));
        self.findings.extend(report.findings);
        pages
    }

    /// When the log was read: what an earlier reading found there, and nothing names any more, may be gone.
    fn forget_unlogged(&mut self) {
        let reading = Some(self.readings);
        self.files.retain(|_, kept| kept.is_planned || kept.logged == reading);
    }

    fn read_log_part(&mut self, pages: u64) -> Result<u64> {
        let (disk, identity) = (&*self.session.store.disk, self.session.store.identity);
        let Some(log) = self.logs.front_mut() else { return Ok(0) };
        let (number, from) = (log.number, log.at);
        let mut blobs = Vec::new();
        let bytes = pages * PAGE_BYTES as u64;
        let part = log_files::read_part(disk, identity, number, from, bytes, &mut |payload| {
            let record = LogRecord::decode(payload, &|_| false)?;
            let tables = record.tables();
            blobs.extend(record.blobs().iter().map(|blob| (*blob, tables.clone())));
            Ok(())
        })?;
        log.at = part.end;
        let gone_on = Error::new(Kind::Corrupt, "it ends elsewhere");
        let is_first = from == Position::start() && part.end != from;
        let is_alone = part.before.is_some_and(|before| before.file == number);
        let mut is_over = part.is_end;
        match log.named {
            None if is_first && is_alone && self.checkpoint.is_some() => is_over = true,
            None if is_first && part.before != self.log_before => return Err(gone_on),
            Some((end, may_go_on)) if part.is_end => {
                let is_right = part.end == end || may_go_on && part.end.offset > end.offset;
                if !is_right {
                    return Err(gone_on);
                }
            }
            _ => {}
        }
        // Its first record alone says that tables were live.
        if self.checkpoint.is_none() && part.end != Position::start() {
            return Err(gone_on);
        }
        if is_over {
            let (is_empty, is_named) = (part.end == Position::start(), log.named.is_some());
            if !is_alone || is_named {
                // Its writer may have removed the file since.
                let said = log_files::unfinished_behind(disk, identity, number, part.end);
                let said = said.ok().flatten();
                if is_empty {
                    self.unread = self.unread.take().or_else(|| said.clone());
                }
                if !is_empty || is_named {
                    self.unfinished = said;
                }
            }
            if is_named || part.end != Position::start() && !is_alone {
                self.log_before = Some(LogEnd { file: number, position: part.end });
            }
            self.logs.pop_front();
        }
        for (meta, tables) in blobs {
            let user = User::of_live(self.checkpoint.as_ref(), |id| tables.contains(&id));
            self.keep_logged(meta, &user);
        }
        Ok((part.end.offset - from.offset).div_ceil(PAGE_BYTES as u64))
    }

    /// A blob file that the log names is to be read, unless another reading of the log had passed it.
    fn keep_logged(&mut self, meta: BlobMeta, user: &User) {
        if meta.id < self.from {
            return;
        }
        let (progress, has_begun) = (&mut self.progress, self.has_begun);
        let kept = match self.files.entry(meta.id) {
            Entry::Vacant(_) if has_begun => return,
            Entry::Vacant(entry) => {
                progress.total_bytes += meta.file_bytes();
                let what = What::Blob(meta);
                entry.insert(Kept { what, user: User::default(), is_planned: false, logged: None })
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        kept.logged = Some(self.readings);
        kept.user.add(user);
    }

    /// Reads on in the segments and blob files; how many pages.
    fn read_pages(&mut self, pages: u64) -> Result<u64> {
        let mut open = if let Some(open) = self.open.take() {
            open
        } else {
            let Some((number, kept)) = self.files.pop_first() else { return Ok(0) };
            self.has_begun = true;
            match OpenFile::open(&*self.session.store.disk, number, kept) {
                Ok(open) => open,
                Err(refused) => {
                    let (kept, error) = *refused;
                    return self.refused(number, kept, &error);
                }
            }
        };
        let first = open.place();
        match open.read(pages, &mut self.buffer) {
            Ok(true) => {
                self.has_finished = true;
                Ok(open.pages() - first)
            }
            Ok(false) => {
                let read = open.place() - first;
                self.open = Some(open);
                Ok(read)
            }
            Err(error) => {
                let read = open.pages() - first;
                self.has_finished = true;
                self.note(&open.kept, &error);
                Ok(read)
            }
        }
    }

    /// What becomes of a file that does not open; how many pages that is.
    fn refused(&mut self, number: u64, kept: Kept, error: &Error) -> Result<u64> {
        let pages = kept.what.file_bytes() / PAGE_BYTES as u64;
        self.has_finished = true;
        let is_missing = error.kind() == Kind::Missing;
        if !is_missing && !error.kind().is_of_bytes() {
            self.note(&kept, error);
            return Ok(pages);
        }
        match self.is_named(number, &kept) {
            Ok(Some(true)) if is_missing => self.note(&kept, &lost_file(&kept.what.path())),
            Ok(Some(true)) => self.note(&kept, error),
            Ok(Some(false)) => {}
            unknown => {
                // It comes again, when that is known.
                let is_planned = kept.is_planned && unknown.is_err();
                let kept = Kept { is_planned, ..kept };
                self.files.insert(number, kept);
                self.has_finished = false;
                return unknown.map(|_| 0);
            }
        }
        Ok(pages)
    }

    /// Whether something names a file still that is not there, or is another one; none when the log, which is read once
    /// more for that, part by part, is to tell. What went meanwhile as well is forgotten. `Io` when what names files
    /// cannot be read.
    fn is_named(&mut self, number: u64, kept: &Kept) -> Result<Option<bool>> {
        let (disk, identity) = (&*self.session.store.disk, self.session.store.identity);
        let now = plan(disk, identity)?;
        if let Some(error) = now.newer.or(now.unread) {
            return Err(error);
        }
        if now.findings.iter().any(|finding| !self.findings.contains(finding)) {
            // What was damaged since does not say what it names.
            return Ok(Some(true));
        }
        let is_named = |number: u64, kept: &Kept| {
            now.files.get(&number).is_some_and(|it| it.what.is_same(&kept.what))
        };
        for (number, kept) in &mut self.files {
            kept.is_planned &= is_named(*number, kept);
        }
        self.files.retain(|_, kept| kept.is_planned || kept.logged.is_some());
        if is_named(number, kept) {
            return Ok(Some(true));
        }
        if kept.logged.is_none() {
            return Ok(Some(false));
        }
        // A log file goes when a later checkpoint does without it.
        if now.checkpoint == self.checkpoint {
            return Ok(Some(true));
        }
        self.checkpoint = now.checkpoint;
        self.plan_log()?;
        Ok(None)
    }

    /// Notes what is wrong with a file.
    fn note(&mut self, kept: &Kept, error: &Error) {
        if error.kind() == Kind::Version {
            self.newer = Some(Error::new(Kind::Version, error.detail()));
            return;
        }
        let file = kept.what.path();
        self.findings.push(Finding::advising(&file, error, &kept.user, ADVICE));
    }
}

impl OpenFile {
    fn open(
        disk: &dyn Disk,
        number: u64,
        kept: Kept,
    ) -> std::result::Result<OpenFile, Box<(Kept, Error)>> {
        // From the disk, not from what the system remembers of it, where that can be.
        let path = kept.what.path();
        let opened = match &kept.what {
            What::Segment(meta) => Segment::open(disk, &path, meta.clone(), Access::Direct)
                .and_then(|segment| {
                    let (file, pages) = (segment.page_file()?, u64::from(meta.footer.pages));
                    Ok((file, Some(segment), meta.identity, pages))
                }),
            What::Blob(meta) => disk.open(&path, Mode::Read, Access::Direct).and_then(|file| {
                if blob::read_meta(&*file, meta.id)? != *meta {
                    let expected = "the blob file that is named";
                    return Err(Error::corrupt(&path, 0, expected, "another"));
                }
                // Without header and footer.
                Ok((file, None, meta.identity, meta.file_bytes() / PAGE_BYTES as u64 - 2))
            }),
        };
        match opened {
            Ok((file, segment, identity, pages)) => {
                let next = u64::from(FIRST_PAGE);
                Ok(OpenFile { number, kept, segment, file, identity, next, end: next + pages })
            }
            Err(error) => Err(Box::new((kept, error))),
        }
    }

    fn pages(&self) -> u64 {
        self.kept.what.file_bytes() / PAGE_BYTES as u64
    }

    /// Pages of the file in front of the next one to read.
    fn place(&self) -> u64 {
        let first = u64::from(FIRST_PAGE);
        match &self.segment {
            // Packed pages take fewer; how many up to here is told well enough by their share.
            Some(segment) if segment.meta().footer.is_packed() => {
                let packed = u64::from(segment.meta().footer.list_page()) - first;
                first + (self.next - first) * packed / (self.end - first)
            }
            _ => self.next,
        }
    }

    /// Reads up to `pages` pages; whether that was all.
    fn read(&mut self, pages: u64, buffer: &mut Buffer) -> Result<bool> {
        let count = pages.min(READ_PAGES).min(self.end - self.next);
        let bytes = &mut buffer.as_mut_slice()[..count as usize * PAGE_BYTES];
        self.file.read_exact_at(page_offset(self.next as u32), bytes)?;
        for (page, bytes) in (self.next..).zip(bytes.chunks_exact(PAGE_BYTES)) {
            check_seal(self.file.path(), page as u32, self.identity, bytes)?;
        }
        self.next += count;
        if self.next < self.end {
            return Ok(false);
        }
        if let Some(segment) = &self.segment {
            segment.index()?;
            segment.filter()?;
            segment.read_range_filter()?;
            segment.read_blob_list()?;
        }
        Ok(true)
    }
}

/// What manifests and checkpoint name now.
fn plan(disk: &dyn Disk, identity: u64) -> Result<Plan> {
    let mut plan = Plan::default();
    let whose = read_session(disk).and_then(|(of, _)| {
        let another =
            || Error::corrupt(paths::SESSION, 0, "the session that was opened", "another");
        if of == identity { Ok(()) } else { Err(another()) }
    });
    if let Err(error) = whose {
        plan.add(paths::SESSION, error, &User::default());
    }
    for name in snapshot_names(disk)? {
        let user = User::of_snapshot(&name);
        match read_manifest(disk, identity, &name) {
            Ok(manifest) => plan.keep(manifest.segments(), &user),
            Err(error) if error.kind() == Kind::Missing => {}
            Err(error) => plan.add(&paths::snapshot(&name), error, &user),
        }
    }
    match read_checkpoint(disk, identity) {
        Ok(checkpoint) => {
            for record in checkpoint.iter().flat_map(|checkpoint| &checkpoint.tables) {
                let user = User::of_live(checkpoint.as_ref(), |id| id == record.id);
                plan.keep(record.table.segments(), &user);
            }
            plan.checkpoint = checkpoint;
        }
        Err(error) => plan.add(paths::CHECKPOINT, error, &User::default()),
    }
    // Blob files may be named by the log, which is read later; what snapshots need are segments, too.
    let is_unnamed =
        |name: &str| paths::segment_id(name).is_some_and(|id| !plan.files.contains_key(&id));
    if let Some(lost) = lost_snapshots(disk, is_unnamed)? {
        plan.add(paths::SNAPSHOTS, lost, &User::default());
    }
    Ok(plan)
}

impl Plan {
    fn add(&mut self, file: &str, error: Error, user: &User) {
        if error.kind() == Kind::Version {
            self.newer.get_or_insert(error);
            return;
        }
        self.findings.push(Finding::advising(file, &error, user, ADVICE));
        if error.kind() == Kind::Io {
            self.unread.get_or_insert(error);
        }
    }

    /// `user` needs these segments, with their blob files.
    fn keep<'a>(&mut self, segments: impl Iterator<Item = &'a SegmentMeta>, user: &User) {
        for meta in segments {
            self.keep_one(meta.id, user, || What::Segment(meta.clone()));
            for it in &meta.blobs {
                self.keep_one(it.file.id, user, || What::Blob(it.file));
            }
        }
    }

    fn keep_one(&mut self, number: u64, user: &User, what: impl FnOnce() -> What) {
        let new = || Kept { what: what(), user: User::default(), is_planned: true, logged: None };
        self.files.entry(number).or_insert_with(new).user.add(user);
    }
}
