//! The log files of a session as they are found when it is opened.
//!
//! Those that the checkpoint names must be there and as long as it says; those after them follow
//! each other by their first records. So a log that lost something that was durable is known for
//! what it is, and what a crash left at its end is no more than that.

use std::fmt;
use std::sync::Arc;

use super::checkpoint::{Checkpoint, read_checkpoint};
use super::folder::read_session;
use super::log::{LogFile, LogPlace, scan, scan_on};
use super::log_record::{LogEnd, LogPoint, LogRecord};
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, HEAD, Position};
use crate::file::replace::remove_leftovers;
use crate::file::reserve;
use crate::format::checksum::{crc, crc_append};
use crate::format::codec::Decoder;
use crate::format::hash::combine;
use crate::format::header::FileKind;
use crate::order;
use crate::order::BTreeMap;
use crate::table::runs::blob::BlobMeta;
use crate::table::shared::paths::{self, LOG};

/// What a folder has of a log.
#[derive(Clone, Debug, Default)]
pub struct FoundLog {
    /// Files with records that may be needed, oldest first.
    pub files: Vec<LogFile>,
    /// The next file's number.
    pub next: u64,
    /// The blob files that records of each of them name, by log file and by their own number.
    pub blobs: BTreeMap<u64, BTreeMap<u64, BlobMeta>>,
    /// Files that nothing needs.
    pub leftovers: Vec<u64>,
    /// The first file that no checkpoint knows, and of which not even the first record is whole, though there is something
    /// in it. It is no file of `files`.
    pub unread: Option<u64>,
    /// Bytes after the end of the last file, which a crash left.
    pub tail_bytes: u64,
    /// Up to where the last file is known to be durable.
    pub synced: u64,
    /// Where the last record of the last file begins.
    pub last: u64,
}

/// How often a reader begins again because of what its writer did meanwhile.
const ATTEMPTS_MAX: u32 = 100;

/// Does `read` with the checkpoint of the session `identity` on `disk`, again while a writer beside it is what
/// makes it fail: it begins and removes log files, and takes back records whose write failed. What a
/// writer does moves on, so an error that comes twice with the same checkpoint is true. The outer
/// error is of the checkpoint itself. Where tables were made or deleted meanwhile, it is done again too.
pub fn beside_writer<T>(
    disk: &dyn Disk,
    identity: u64,
    mut read: impl FnMut(Option<&Checkpoint>) -> Result<T>,
) -> Result<(Option<Checkpoint>, Result<T>)> {
    let mut before: Option<(Option<Checkpoint>, String)> = None;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let checkpoint = read_checkpoint(disk, identity)?;
        match read(checkpoint.as_ref()) {
            Err(error) if attempts < ATTEMPTS_MAX => {
                let said = error.to_string();
                let is_lasting = ![Kind::Missing, Kind::Corrupt].contains(&error.kind());
                let is_same = before
                    .as_ref()
                    .is_some_and(|(with, text)| *with == checkpoint && *text == said);
                if is_lasting && read_checkpoint(disk, identity)? == checkpoint || is_same {
                    // Whoever gives up making a session removes it, and marks it as none before.
                    let gone = read_session(disk).err();
                    let gone = gone.filter(|error| error.kind() == Kind::Missing);
                    return Ok((checkpoint, Err(gone.unwrap_or(error))));
                }
                before = Some((checkpoint, said));
            }
            // The log may be younger than the checkpoint by a table that was made or deleted meanwhile,
            // without which the others never were as they were read.
            Ok(_)
                if attempts < ATTEMPTS_MAX
                    && listing(read_checkpoint(disk, identity)?.as_ref())
                        != listing(checkpoint.as_ref()) => {}
            outcome => return Ok((checkpoint, outcome)),
        }
    }
}

/// Which tables a checkpoint lists, and how many there ever were: after a change of the list it is another.
fn listing(checkpoint: Option<&Checkpoint>) -> Option<(u64, Vec<u64>)> {
    let checkpoint = checkpoint?;
    Some((checkpoint.next_id, checkpoint.tables.iter().map(|table| table.id).collect()))
}

/// Reads the log of the store `identity` whose checkpoint is `checkpoint`; calls `each` with place
/// and content of every record that may be needed. `Corrupt` when something is gone.
pub fn find(
    disk: &dyn Disk,
    identity: u64,
    checkpoint: Option<&Checkpoint>,
    each: &mut dyn FnMut(LogPoint, &mut Decoder<'_>) -> Result<()>,
) -> Result<FoundLog> {
    let numbers = log_numbers(disk)?;
    let listed = checkpoint.map_or(&[][..], |checkpoint| &checkpoint.files);
    for end in listed {
        if numbers.binary_search(&end.file).is_err() {
            return Err(Error::corrupt(
                paths::CHECKPOINT,
                0,
                format_args!("the file {}, which the live tables need", paths::log_file(end.file)),
                "no such file",
            ));
        }
    }
    let last = listed.last().map(|end| end.file);
    let highest = numbers.last().copied().max(last).unwrap_or(0);
    let mut found = FoundLog { next: highest.saturating_add(1), ..FoundLog::default() };
    for number in numbers {
        let named = listed.iter().find(|end| end.file == number);
        if named.is_none() && last.is_some_and(|last| number < last) {
            found.leftovers.push(number);
            continue;
        }
        if named.is_none() && is_alone(disk, identity, number)? {
            if checkpoint.is_none() {
                // It may be all that is left of live tables.
                return Err(lost_checkpoint(disk, &paths::log_file(number)));
            }
            found.leftovers.push(number);
            continue;
        }
        let (mut tables, mut blobs) = (BTreeMap::<u64, (u64, u64)>::new(), BTreeMap::new());
        let scanned = scan(disk, identity, number, |at, payload| {
            let start = payload.clone();
            let record = LogRecord::decode(payload, &|_| false)?;
            if let LogRecord::Begin(_) = record {
                return Err(payload.corrupt("an update", "the record that begins a file"));
            }
            // A table is in a checkpoint before anything of it is in the log.
            let Some(Checkpoint { next_id, .. }) = checkpoint else {
                return Err(lost_checkpoint(disk, &paths::log_file(number)));
            };
            if let Some(id) = record.tables().into_iter().find(|id| id >= next_id) {
                let expected = format_args!("tables below {next_id}, as the checkpoint has them");
                let found = format_args!("table {id}: the checkpoint is older than the log");
                return Err(start.corrupt(expected, found));
            }
            for (id, share) in record.shares(&start)? {
                let (last, bytes) = tables.entry(id).or_default();
                (*last, *bytes) = (at.sequence, bytes.saturating_add(share));
            }
            blobs.extend(record.blobs().iter().map(|blob| (blob.id, *blob)));
            each(at, &mut start.clone())
        })?;
        let blob_bytes = blobs.values().map(BlobMeta::file_bytes).sum();
        let file = LogFile { number, end: scanned.end, tables, blob_bytes };
        match named {
            Some(named) => {
                check_end(&file, *named, Some(number) == last)?;
                // What comes after it may follow a file without a record, so that nothing else would tell.
                if scanned.is_empty
                    && unfinished_in(disk, identity, number, Position::start().offset)?.is_some()
                {
                    found.unread.get_or_insert(number);
                }
            }
            None if scanned.is_empty => {
                // Only a checkpoint that names what comes after shows that it is not needed.
                if unfinished_in(disk, identity, number, Position::start().offset)?.is_some() {
                    found.unread.get_or_insert(number);
                } else {
                    found.leftovers.push(number);
                }
                continue;
            }
            // It has none before tables are live, see `LogWriter::show_that_tables_are_live`.
            None if checkpoint.is_none() => {
                return Err(lost_checkpoint(disk, &paths::log_file(number)));
            }
            None => check_follows(&file, scanned.before, found.files.last())?,
        }
        found.tail_bytes = scanned.tail_bytes;
        found.last = scanned.last;
        // The log was synced before the checkpoint that names it.
        found.synced = scanned.synced.max(named.map_or(0, |named| named.position.offset));
        if !blobs.is_empty() {
            found.blobs.insert(number, blobs);
        }
        found.files.push(file);
    }
    if found.files.is_empty() {
        // With nothing after it, it tells which numbers were given.
        found.leftovers.retain(|number| *number != highest);
    }
    // It is made after a checkpoint only, and never before that is durable.
    if checkpoint.is_none() && reserve::is_there(disk, paths::RESERVE)? {
        return Err(lost_checkpoint(disk, paths::RESERVE));
    }
    Ok(found)
}

/// `Corrupt`: the file at `path` is of live tables, and nothing says which segments are theirs.
fn lost_checkpoint(disk: &dyn Disk, path: &str) -> Error {
    Error::new(
        Kind::Corrupt,
        format!(
            "{} of the session at {} is not there, but {path} is of live tables that it named: put that file \
             back from a copy of the same moment, or have `varvite repair` keep what else is whole",
            paths::CHECKPOINT,
            disk.root()
        ),
    )
}

/// The checkpoint of the session `identity`, for whoever reads beside a writer; `None` where no table was ever live.
/// `Corrupt` where the log says that there was one: by the same rule as an opening to write.
pub fn checkpoint_beside(disk: &dyn Disk, identity: u64) -> Result<Option<Checkpoint>> {
    let (checkpoint, found) = beside_writer(disk, identity, |checkpoint| match checkpoint {
        Some(_) => Ok(()),
        None => expect_none(disk, identity),
    })?;
    found.map(|()| checkpoint)
}

/// `Corrupt` where the log says that there was a checkpoint, for whoever has found none.
pub fn expect_none(disk: &dyn Disk, identity: u64) -> Result<()> {
    find(disk, identity, None, &mut |_, _| Ok(())).map(drop)
}

/// Goes on from `place`, through the files that were begun since; calls `each` with place and content of every
/// record. Gives where that ends. `Corrupt` and `Missing` also when the writer beside it took a record back, or
/// removed a file: then all is to be read anew, with the checkpoint.
pub fn go_on(
    disk: &dyn Disk,
    identity: u64,
    mut place: LogPlace,
    each: &mut dyn FnMut(LogPoint, &mut Decoder<'_>) -> Result<()>,
) -> Result<LogPlace> {
    loop {
        let later = log_numbers(disk)?.into_iter().filter(|number| *number > place.end.file);
        let later: Vec<_> = later.collect();
        place = LogPlace::after(place.end.file, &scan_on(disk, identity, place, &mut *each)?);
        let mut begun = None;
        for number in later {
            if is_alone(disk, identity, number)? {
                // It is nothing before a checkpoint names it.
                continue;
            }
            // One without a record may be there before the last one has its end.
            if !scan(disk, identity, number, |_, _| Ok(()))?.is_empty {
                begun = Some(number);
                break;
            }
        }
        let Some(number) = begun else { return Ok(place) };
        place = LogPlace::after(place.end.file, &scan_on(disk, identity, place, &mut *each)?);
        let scanned = scan(disk, identity, number, &mut *each)?;
        let end = LogEnd { file: number, position: scanned.end };
        check_follows(&LogFile::ended(end), scanned.before, Some(&LogFile::ended(place.end)))?;
        place = LogPlace::after(number, &scanned);
    }
}

/// The numbers of the log files that are there, in order.
pub fn log_numbers(disk: &dyn Disk) -> Result<Vec<u64>> {
    let names = match disk.list(LOG) {
        Err(error) if error.kind() == Kind::Missing => Vec::new(),
        names => names?,
    };
    let mut numbers: Vec<_> = names.iter().filter_map(|name| paths::log_number(name)).collect();
    order::sort_by(&mut numbers, Ord::cmp);
    Ok(numbers)
}

/// What a log ends with where its last update is not whole. That is what a power cut leaves of an update before it was
/// acknowledged, and what damage leaves of the last one that was: nothing tells them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedUpdate {
    /// The file, relative to the session.
    pub file: String,
    /// Where its whole updates end, in bytes.
    pub at: u64,
    /// How many bytes there are behind, up to the last that is not zero.
    pub bytes: u64,
}

impl fmt::Display for UnfinishedUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnfinishedUpdate { file, at, bytes } = self;
        write!(
            f,
            "{file} ends at byte {at} with an update that is not whole ({bytes} bytes): one that is being written, or \
             that a crash cut off; if it had been acknowledged, it is lost"
        )
    }
}

/// What the log ends with that was `found`, if that is not whole; else what a file before it has, of which not even the
/// first record can be read. Beside a writer, none where it has gone on since.
pub fn unfinished(
    disk: &dyn Disk,
    identity: u64,
    found: &FoundLog,
) -> Result<Option<UnfinishedUpdate>> {
    let unread = found.unread.map(LogPlace::begin);
    for place in found.place().into_iter().chain(unread) {
        let position = place.end.position;
        let said = unfinished_in(disk, identity, place.end.file, position.offset)?;
        if said.is_some() && scan_on(disk, identity, place, |_, _| Ok(()))?.end == position {
            return Ok(said);
        }
    }
    Ok(None)
}

/// What is in log file `number` behind the last record that is whole, which ends at byte `at`.
fn unfinished_in(
    disk: &dyn Disk,
    identity: u64,
    number: u64,
    at: u64,
) -> Result<Option<UnfinishedUpdate>> {
    let (file, path) = open(disk, identity, number)?;
    let bytes = append::unfinished_bytes(&*file, at)?;
    Ok((bytes > 0).then_some(UnfinishedUpdate { file: path, at, bytes }))
}

/// The same for whoever reads it part by part, up to `end`; none where its writer has gone on since.
pub fn unfinished_behind(
    disk: &dyn Disk,
    identity: u64,
    number: u64,
    end: Position,
) -> Result<Option<UnfinishedUpdate>> {
    let said = unfinished_in(disk, identity, number, end.offset)?;
    if said.is_none() {
        return Ok(None);
    }
    let now = read_part(disk, identity, number, end, 1, &mut |_| Ok(()))?;
    Ok(said.filter(|_| now.end == end))
}

/// Whether log file `number` says that it follows itself: a copy has all in it that its tables need, and counts
/// only where a checkpoint names it. One that is damaged says nothing.
fn is_alone(disk: &dyn Disk, identity: u64, number: u64) -> Result<bool> {
    let (file, path) = match open(disk, identity, number) {
        Err(error) if error.kind() == Kind::Io => return Err(error),
        Err(_) => return Ok(false),
        Ok(opened) => opened,
    };
    let own = combine(identity, crc(path.as_bytes()).into());
    let (mut is_alone, mut is_read) = (false, false);
    let scanned = append::scan(&*file, own, Position::start(), |_, payload| {
        let mut from = Decoder::new(&path, 0, payload);
        if let Ok(LogRecord::Begin(Some(before))) = LogRecord::decode(&mut from, &|_| false) {
            is_alone = before.file == number;
        }
        is_read = true;
        // Its first record is enough.
        Err(Error::invalid("the first record"))
    });
    match scanned {
        Err(error) if error.kind() == Kind::Io && !is_read => Err(error),
        _ => Ok(is_alone),
    }
}

/// A part of a log file.
#[derive(Debug)]
pub struct ReadPart {
    /// Where it ends.
    pub end: Position,
    /// Whether the file's records end there, too.
    pub is_end: bool,
    /// Where the file before it ended, if the first record is in the part and says so.
    pub before: Option<LogEnd>,
}

/// Reads log file `number` of the store `identity` on from `from`, about `bytes` bytes and at least a record; calls
/// `each` with the content of every record but the first.
pub fn read_part(
    disk: &dyn Disk,
    identity: u64,
    number: u64,
    from: Position,
    bytes: u64,
    each: &mut dyn FnMut(&mut Decoder<'_>) -> Result<()>,
) -> Result<ReadPart> {
    let (file, path) = open(disk, identity, number)?;
    let mut part = ReadPart { end: from, is_end: false, before: None };
    let mut is_enough = false;
    let own = combine(identity, crc(path.as_bytes()).into());
    let ahead = bytes + HEAD as u64;
    let scanned = append::scan_part(&*file, own, from, ahead, |at, payload| {
        let mut content = Decoder::new(&path, at.offset + HEAD as u64, payload);
        if at.sequence > 0 {
            each(&mut content)?;
        } else if let LogRecord::Begin(named) = LogRecord::decode(&mut content, &|_| false)? {
            part.before = named;
        }
        part.end = after(at, payload);
        is_enough = part.end.offset - from.offset >= bytes;
        if is_enough { Err(Error::invalid("enough")) } else { Ok(()) }
    });
    if !is_enough {
        scanned?;
        part.is_end = true;
    }
    Ok(part)
}

/// Opens log file `number` of the store `identity` to read; with its path.
fn open(disk: &dyn Disk, identity: u64, number: u64) -> Result<(Arc<dyn File>, String)> {
    let path = paths::log_file(number);
    let (file, header) = append::open_reader(disk, &path, FileKind::Log)?;
    if (header.store, header.identity) != (identity, combine(identity, crc(path.as_bytes()).into()))
    {
        return Err(Error::corrupt(&path, 0, "the log file of this number", "another one"));
    }
    Ok((file, path))
}

/// The place after the record at `at`.
fn after(at: Position, payload: &[u8]) -> Position {
    Position {
        offset: at.offset + (HEAD + payload.len()) as u64,
        sequence: at.sequence + 1,
        chain: crc_append(at.chain, payload),
    }
}

/// What can be read of a log file that may be damaged.
#[derive(Debug)]
pub struct Salvaged {
    /// After the last record that is whole.
    pub end: Position,
    /// Where the file before it ended, as its first record says.
    pub before: Option<LogEnd>,
    /// Why there is nothing more, unless the file ends there by its own word.
    pub damage: Option<Error>,
    /// How many records seem to lie behind the end.
    pub behind: u64,
    /// How many bytes are there, up to the last that is not zero.
    pub unfinished_bytes: u64,
}

impl Salvaged {
    /// Whether log file `number`, of which this is, says that it follows itself: a copy counts only where a
    /// checkpoint names it.
    pub fn is_alone(&self, number: u64) -> bool {
        self.before.is_some_and(|before| before.file == number)
    }
}

/// Reads log file `number` of the store `identity` up to its first bad record; calls `each` with the others.
/// An error is of `each`, or `Io`: a disk that does not answer has damaged nothing.
pub fn salvage(
    disk: &dyn Disk,
    identity: u64,
    number: u64,
    each: &mut dyn FnMut(LogPoint, &mut Decoder<'_>) -> Result<()>,
) -> Result<Salvaged> {
    let (mut end, mut before, mut failed) = (Position::start(), None, None);
    let path = paths::log_file(number);
    let own = combine(identity, crc(path.as_bytes()).into());
    let mut read = || {
        let (file, _) = open(disk, identity, number)?;
        append::scan(&*file, own, Position::start(), |at, payload| {
            let mut from = Decoder::new(&path, at.offset + HEAD as u64, payload);
            if at.sequence == 0 {
                if let LogRecord::Begin(named) = LogRecord::decode(&mut from, &|_| false)? {
                    before = named;
                }
            } else {
                LogRecord::decode(&mut from.clone(), &|_| false)?;
                let point = LogPoint { file: number, sequence: at.sequence, skip: 0 };
                if let Err(error) = each(point, &mut from) {
                    failed = Some(error);
                    return Err(Error::invalid("the caller's"));
                }
            }
            end = after(at, payload);
            Ok(())
        })
    };
    let damage = read().err();
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(error) = damage.as_ref().filter(|error| error.kind() == Kind::Io) {
        return Err(Error::new(Kind::Io, error.detail()));
    }
    let (behind, unfinished_bytes) = match disk.open(&path, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Io => return Err(error),
        Err(_) => (0, 0),
        Ok(file) => (
            append::count_behind(&*file, own, end.offset)?.0,
            append::unfinished_bytes(&*file, end.offset)?,
        ),
    };
    Ok(Salvaged { end, before, damage, behind, unfinished_bytes })
}

/// Calls `each` with place and content of every record of the log file that ends at `end`, or has gone on
/// since: beside its writer, too.
pub fn read_to(
    disk: &dyn Disk,
    identity: u64,
    end: LogEnd,
    each: &mut dyn FnMut(LogPoint, &mut Decoder<'_>) -> Result<()>,
) -> Result<()> {
    let last = end.position.sequence.saturating_sub(1);
    let mut is_read = last == 0;
    if is_read {
        return Ok(());
    }
    let scanned = scan(disk, identity, end.file, |at, payload| {
        each(at, payload)?;
        is_read = at.sequence == last;
        // What is behind it, its writer may take back at any time.
        if is_read { Err(Error::invalid("the end")) } else { Ok(()) }
    });
    match scanned {
        _ if is_read => Ok(()),
        Err(error) => Err(error),
        Ok(found) => Err(Error::corrupt(
            &paths::log_file(end.file),
            found.end.offset,
            format_args!("{} records", end.position.sequence),
            format_args!("{} valid ones", found.end.sequence),
        )),
    }
}

/// `Corrupt` unless a file ends where the checkpoint says, or beyond it if it was the last one.
fn check_end(file: &LogFile, named: LogEnd, is_last: bool) -> Result<()> {
    let (found, expected) = (file.end, named.position);
    let is_right = found == expected || (is_last && found.offset > expected.offset);
    if is_right {
        return Ok(());
    }
    Err(Error::corrupt(
        &paths::log_file(file.number),
        found.offset,
        format_args!("{} records up to byte {}", expected.sequence, expected.offset),
        format_args!("{} valid ones", found.sequence),
    ))
}

/// `Corrupt` unless the file names the one before it, as long as that was found.
fn check_follows(file: &LogFile, named: Option<LogEnd>, before: Option<&LogFile>) -> Result<()> {
    if named == before.map(LogFile::end) {
        return Ok(());
    }
    let said = |end: Option<LogEnd>| match end {
        Some(end) => format!("{} of {} bytes", paths::log_file(end.file), end.position.offset),
        None => "no file".to_owned(),
    };
    Err(Error::corrupt(
        &paths::log_file(before.map_or(file.number, |before| before.number)),
        before.map_or(HEAD as u64, |before| before.end.offset),
        format_args!("{} before {}", said(named), paths::log_file(file.number)),
        said(before.map(LogFile::end)),
    ))
}

impl FoundLog {
    /// Where its records end; none without a file.
    pub fn place(&self) -> Option<LogPlace> {
        let end = self.files.last()?.end();
        let searched = end.position.offset + self.tail_bytes;
        Some(LogPlace { end, last: self.last, searched })
    }

    /// Makes durable what was found, so that nothing that comes later outlives it. Those before the
    /// last file are: they were synced before one came after them. Of the last one, what nothing says
    /// was synced is written again, for its sync may have failed.
    pub fn save_again(&self, disk: &dyn Disk) -> Result<()> {
        let Some(last) = self.files.last() else { return Ok(()) };
        let end = last.end.offset;
        if self.synced >= end {
            return Ok(());
        }
        let file = disk.open(&paths::log_file(last.number), Mode::Write, Access::Buffered)?;
        append::save_again(&*file, self.synced, end)
    }

    /// Removes what nothing needs.
    pub fn remove_leftovers(&self, disk: &dyn Disk) -> Result<()> {
        for number in &self.leftovers {
            disk.remove(&paths::log_file(*number))?;
        }
        match remove_leftovers(disk, LOG, |name| paths::is_replaced(LOG, name)) {
            Err(error) if error.kind() == Kind::Missing => Ok(()),
            removed => removed.map(drop),
        }
    }
}
