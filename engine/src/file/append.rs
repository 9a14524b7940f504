//! Append-only files of self-validating records, with a durable end.
//!
//! A record is 28 bytes and its payload: checksum of the head (over file identity, own offset and the
//! rest of the head), checksum of the payload (over the previous record's payload checksum and the
//! payload), length, sequence number, and how far the file was synced when the record was written.
//! The end is where the first invalid record would begin. Invariants:
//! - a record counts only right after the one it was written after, so that what a crash leaves of an
//!   attempt given up never continues another attempt;
//! - bytes below a later record's synced end were durable once: if they are invalid, the file is
//!   `Corrupt`, and nothing is cut. Above it, they are what a crash left, and the tail is cut.
//!
//! Format document: `docs/format/append.md`.

mod chain;

use std::sync::Arc;

use super::stand_in::StandIn;
use crate::disk::memory::MemoryDisk;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::format::checksum::{crc, crc_append};
use crate::format::codec::Encoder;
use crate::format::header::{self, FileKind, Header};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

pub(crate) use chain::expect_chain;

/// Bytes of a record before its payload.
pub const HEAD: usize = 28;

/// The longest payload of a record in bytes.
pub const PAYLOAD_MAX: usize = 1 << 30;

/// How much memory of what was written is kept for what is written next.
const KEPT_BYTES: usize = 4 << 20;

/// How much is read at once when a file is scanned.
const SCAN_BYTES: usize = 256 * 1024;

/// A place between two records, from which a scan can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Byte offset of the next record.
    pub offset: u64,
    /// The next record's sequence number.
    pub sequence: u64,
    /// The payload checksum of the record before.
    pub chain: u32,
}

impl Position {
    /// Before the first record.
    #[must_use]
    pub fn start() -> Self {
        Position { offset: header::LENGTH as u64, sequence: 0, chain: 0 }
    }
}

struct Head {
    payload_crc: u32,
    length: u32,
    sequence: u64,
    synced: u64,
}

impl Head {
    /// The checksum of a head's other 24 bytes, in the file `identity` at `offset`.
    fn crc(identity: u64, offset: u64, rest: &[u8]) -> u32 {
        let mut place = [0; 16];
        place[..8].copy_from_slice(&identity.to_le_bytes());
        place[8..].copy_from_slice(&offset.to_le_bytes());
        crc_append(crc(&place), rest)
    }

    fn encode(&self, identity: u64, offset: u64) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[4..8].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.synced.to_le_bytes());
        let crc = Self::crc(identity, offset, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The head in `bytes` if it is one written to this place, whose record ends by `file_end`.
    fn decode(identity: u64, offset: u64, file_end: u64, bytes: &[u8]) -> Option<Head> {
        let bytes: &[u8; HEAD] = bytes.first_chunk()?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let head = Head {
            payload_crc: u32_at(4),
            length: u32_at(8),
            sequence: u64_at(12),
            synced: u64_at(20),
        };
        // The cheap conditions first: a search for heads tries every byte.
        let plausible = head.synced <= offset
            && u64::from(head.length) <= file_end.saturating_sub(offset + HEAD as u64)
            && u32_at(0) == Self::crc(identity, offset, &bytes[4..]);
        plausible.then_some(head)
    }
}

/// What a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Where the records end.
    pub end: Position,
    /// Bytes after that, which no record claims.
    pub tail_bytes: u64,
    /// Up to where the file was durable when some record was written; 0 when none says so.
    pub synced: u64,
}

/// Opens the append-only file at `path` to read and checks that it is a `kind`.
pub fn open_reader(disk: &dyn Disk, path: &str, kind: FileKind) -> Result<(Arc<dyn File>, Header)> {
    let file = disk.open(path, Mode::Read, Access::Buffered)?;
    let header = read_header(&*file, kind)?;
    Ok((file, header))
}

fn read_header(file: &dyn File, kind: FileKind) -> Result<Header> {
    let mut bytes = [0; header::LENGTH];
    file.read_exact_at(0, &mut bytes)?;
    Header::expect(file.path(), &bytes, kind)
}

/// Calls `each` with position and payload of every record in `bytes`, a whole file.
pub fn scan_bytes(
    bytes: &[u8],
    identity: u64,
    each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<Scan> {
    let disk = MemoryDisk::new();
    disk.replace("file", bytes)?;
    let file = disk.open("file", Mode::Read, Access::Buffered)?;
    scan(&*file, identity, Position::start(), each)
}

/// Calls `each` with position and payload of every record from `from` on; changes nothing.
///
/// Reads the file once from there. A record that a writer is just appending, or that a crash left
/// half written, ends the scan. `Corrupt` when records that were once durable are damaged.
pub fn scan(
    file: &dyn File,
    identity: u64,
    from: Position,
    each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<Scan> {
    scan_on(file, identity, from, 0, each)
}

/// The same for who scanned it before, when there was nothing behind the records up to byte `searched`. Where no
/// record begins at their end still, what lies before that byte is not read again.
pub fn scan_on(
    file: &dyn File,
    identity: u64,
    from: Position,
    searched: u64,
    each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<Scan> {
    scan_ahead(file, identity, from, (searched, SCAN_BYTES), each)
}

/// The same for who wants about `bytes` bytes of records and then has `each` end it: hardly more is read.
pub fn scan_part(
    file: &dyn File,
    identity: u64,
    from: Position,
    bytes: u64,
    each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<Scan> {
    let ahead = bytes.clamp(HEAD as u64, SCAN_BYTES as u64) as usize;
    scan_ahead(file, identity, from, (0, ahead), each)
}

/// The same, where nothing was behind the records up to byte `searched`, with reads of `ahead` bytes at least.
fn scan_ahead(
    file: &dyn File,
    identity: u64,
    from: Position,
    (searched, ahead): (u64, usize),
    mut each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<Scan> {
    let mut window = Window { ahead, ..Window::new(file, file.len()?) };
    if window.file_end < from.offset {
        return Err(Error::corrupt(
            file.path(),
            window.file_end,
            format_args!("records up to byte {} at least", from.offset),
            "the end of the file",
        ));
    }
    let (mut end, mut synced, mut suspect) = (from, 0, None);
    loop {
        while let Some(head) = window.head(identity, end.offset)? {
            let length = head.length as usize;
            // Shorter where the file was cut while it is read.
            let record = window.at(end.offset, HEAD + length)?;
            let Some(payload) = record.get(HEAD..).filter(|payload| payload.len() == length) else {
                break;
            };
            let follows =
                head.sequence == end.sequence && crc_append(end.chain, payload) == head.payload_crc;
            if !follows {
                break;
            }
            each(end, payload)?;
            synced = synced.max(head.synced);
            end = Position {
                offset: end.offset + (HEAD + length) as u64,
                sequence: end.sequence + 1,
                chain: head.payload_crc,
            };
        }
        let is_blank = window.at(end.offset, HEAD)?.iter().all(|byte| *byte == 0);
        let first = if is_blank { searched.saturating_sub(HEAD as u64 - 1) } else { 0 };
        let Some(later) = synced_beyond(&mut window, identity, end.offset, first)? else { break };
        // A writer may have appended since the bytes at the end were read: whoever sees the later
        // record can see those that it says were synced, so they are looked for once more.
        if suspect == Some(end) {
            return Err(Error::corrupt(
                file.path(),
                end.offset,
                format_args!("a record, because those up to byte {later} were synced"),
                "none that is valid",
            ));
        }
        suspect = Some(end);
        window = Window { ahead, ..Window::new(file, file.len()?) };
    }
    Ok(Scan { end, tail_bytes: window.file_end.saturating_sub(end.offset), synced })
}

/// Where the record at `before` ends, as its head says; none when no head is there.
pub fn position_after(file: &dyn File, identity: u64, before: u64) -> Result<Option<Position>> {
    let file_end = file.len()?;
    if before.checked_add(HEAD as u64).is_none_or(|end| end > file_end) {
        return Ok(None);
    }
    let mut bytes = [0; HEAD];
    file.read_exact_at(before, &mut bytes)?;
    Ok(Head::decode(identity, before, file_end, &bytes).map(|head| Position {
        offset: before + HEAD as u64 + u64::from(head.length),
        sequence: head.sequence.wrapping_add(1),
        chain: head.payload_crc,
    }))
}

/// How many records seem to lie behind `end`, where the records of a file end: their heads are those of this
/// place, so they were written here, but what they were written after is not there. And where the first of them
/// is that is not the one at `end` itself. For whoever tells what was lost.
pub fn count_behind(file: &dyn File, identity: u64, end: u64) -> Result<(u64, Option<u64>)> {
    let mut window = Window::new(file, file.len()?);
    let (mut next, mut count, mut first) = (end, 0, None);
    while next.saturating_add(HEAD as u64) <= window.file_end {
        // No record is empty, and most of what is behind an end is zeros.
        let may_be = window.at(next, HEAD)?.get(8..12).is_some_and(|length| length != [0; 4]);
        let head = if may_be { window.head(identity, next)? } else { None };
        count += u64::from(head.is_some());
        first = first.or(head.as_ref().map(|_| next).filter(|next| *next > end));
        next += head.map_or(1, |head| HEAD as u64 + u64::from(head.length));
    }
    Ok((count, first))
}

/// How many bytes there are behind `end`, where the records of a file end, up to the last that is not zero: of a record
/// that is not whole.
pub fn unfinished_bytes(file: &dyn File, end: u64) -> Result<u64> {
    let mut window = Window::new(file, file.len()?);
    let (mut next, mut last) = (end, end);
    while next < window.file_end {
        let bytes = window.at(next, SCAN_BYTES)?;
        if bytes.is_empty() {
            break;
        }
        if let Some(place) = bytes.iter().rposition(|byte| *byte != 0) {
            last = next + place as u64 + 1;
        }
        next += bytes.len() as u64;
    }
    Ok(last - end)
}

/// What is found where a damaged file is read to its end.
pub enum Remnant<'a> {
    /// The payload of a record whose head is that of its place, at so many bytes; and whether it is as it was
    /// written.
    Record(u64, &'a [u8], bool),
    /// A byte that no such record has, with those behind it up to [`REMNANT_BYTES`].
    Byte(u64, &'a [u8]),
}

/// How many bytes there are with a byte that no record has, or all up to the end of the file.
pub const REMNANT_BYTES: usize = 64 << 10;

/// Calls `each` with all that is in `file`, whatever became of what was before, for whoever takes what is left. Returns
/// the first and the last place at which something is not as it was written; zeros at the end are none.
pub fn remnants(
    file: &dyn File,
    identity: u64,
    mut each: impl FnMut(&Remnant<'_>),
) -> Result<Option<(u64, u64)>> {
    let mut window = Window::new(file, file.len()?);
    let (mut next, mut damaged): (_, Option<(u64, u64)>) = (Position::start(), None);
    let mut is_at_record = true;
    while next.offset < window.file_end {
        let Some(head) = window.head(identity, next.offset)? else {
            let bytes = window.at(next.offset, REMNANT_BYTES)?;
            let Some(first) = bytes.first() else { break };
            if *first != 0 {
                damaged = Some((damaged.map_or(next.offset, |it| it.0), next.offset));
            }
            each(&Remnant::Byte(next.offset, bytes));
            (next.offset, is_at_record) = (next.offset + 1, false);
            continue;
        };
        let length = head.length as usize;
        let payload = window.at(next.offset + HEAD as u64, length)?;
        let is_whole = payload.len() == length;
        let follows = head.sequence == next.sequence
            && crc_append(next.chain, payload) == head.payload_crc
            && is_whole;
        // Behind a gap its chain cannot be told from a damage of its own.
        if !(follows && is_at_record) {
            damaged = Some((damaged.map_or(next.offset, |it| it.0), next.offset));
        }
        each(&Remnant::Record(next.offset + HEAD as u64, payload, follows));
        next = Position {
            offset: next.offset + (HEAD + length) as u64,
            sequence: head.sequence.wrapping_add(1),
            chain: head.payload_crc,
        };
        is_at_record = true;
    }
    Ok(damaged)
}

/// Up to where a later record says that the file was synced, if that is beyond `end`. None begins before
/// `first`.
fn synced_beyond(
    window: &mut Window<'_>,
    identity: u64,
    end: u64,
    first: u64,
) -> Result<Option<u64>> {
    let file_end = window.file_end;
    let mut next = first.max(end + 1);
    while next + HEAD as u64 <= file_end {
        let bytes = window.at(next, SCAN_BYTES)?;
        if bytes.len() < HEAD {
            break;
        }
        for (offset, bytes) in (next..).zip(bytes.windows(HEAD)) {
            // First what zeros and most bytes fail at, since the tail may be what space was reserved
            // for.
            let synced = u64::from_le_bytes(bytes[20..].try_into().expect("8 bytes"));
            // A head that is there although what it was written after is not: either the disk lost
            // synced bytes, or a crash lost unsynced ones, and the head says which.
            if synced > end && Head::decode(identity, offset, file_end, bytes).is_some() {
                return Ok(Some(synced));
            }
        }
        next += (bytes.len() - HEAD + 1) as u64;
    }
    Ok(None)
}

/// Writes the bytes of `file` from `from` to `end` once more, and syncs them.
///
/// For bytes that are read and may not be durable. A sync alone would not do: one that failed before,
/// in this process or another, has left the system in the belief that it has nothing to save.
pub fn save_again(file: &dyn File, from: u64, end: u64) -> Result<()> {
    let mut bytes = vec![0; (end.saturating_sub(from)).min(SCAN_BYTES as u64) as usize];
    let mut at = from;
    while at < end {
        let piece = &mut bytes[..(end - at).min(SCAN_BYTES as u64) as usize];
        file.read_exact_at(at, piece)?;
        file.write_at(at, piece)?;
        at += piece.len() as u64;
    }
    file.sync()
}

/// Bytes of a file, read ahead in large pieces.
struct Window<'a> {
    file: &'a dyn File,
    file_end: u64,
    start: u64,
    bytes: Vec<u8>,
    /// How many bytes are read at least, where there are as many.
    ahead: usize,
}

impl<'a> Window<'a> {
    fn new(file: &'a dyn File, file_end: u64) -> Self {
        Window { file, file_end, start: 0, bytes: Vec::new(), ahead: SCAN_BYTES }
    }

    /// The head at `offset` if it is one written to this place, whose record ends by the file's end.
    fn head(&mut self, identity: u64, offset: u64) -> Result<Option<Head>> {
        let file_end = self.file_end;
        Ok(Head::decode(identity, offset, file_end, self.at(offset, HEAD)?))
    }

    /// `length` bytes at `offset`, or those before the end of the file.
    fn at(&mut self, offset: u64, length: usize) -> Result<&[u8]> {
        let left = self.file_end.saturating_sub(offset);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        let inside =
            offset >= self.start && offset + length as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            let ahead = left.min(length.max(self.ahead) as u64) as usize;
            self.bytes.resize(ahead, 0);
            self.start = offset;
            let found = self.file.read_at(offset, &mut self.bytes)?;
            self.bytes.truncate(found);
        }
        let start = ((offset - self.start) as usize).min(self.bytes.len());
        Ok(&self.bytes[start..self.bytes.len().min(start + length)])
    }
}

/// A file that several threads may sync.
///
/// The system tells of lost writes once: after a sync that failed, one of another thread would say
/// that all is well, although what that thread wrote is gone too. So syncs take turns, and after the
/// first that failed there is none.
#[derive(Debug)]
pub struct SyncedFile {
    file: Arc<dyn File>,
    turn: Mutex<()>,
    poisoned: AtomicBool,
}

impl SyncedFile {
    fn new(file: Arc<dyn File>) -> Arc<Self> {
        Arc::new(SyncedFile { file, turn: Mutex::new(()), poisoned: AtomicBool::new(false) })
    }

    /// Makes what was written before the call durable. An error, or a panic of the host's disk,
    /// poisons the file: `Poisoned` is what all later syncs and appends give.
    pub fn sync(&self) -> Result<()> {
        struct Unfinished<'a>(&'a SyncedFile);
        impl Drop for Unfinished<'_> {
            fn drop(&mut self) {
                self.0.poison();
            }
        }
        let _turn = lock(&self.turn);
        self.check_sound()?;
        let unfinished = Unfinished(self);
        self.file.sync()?;
        std::mem::forget(unfinished);
        Ok(())
    }

    /// Cuts the file durably, so that what is reported as failed does not come back after a crash.
    fn cut(&self, length_bytes: u64) {
        if self.file.set_len(length_bytes).and_then(|()| self.sync()).is_err() {
            self.poison();
        }
    }

    fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    fn check_sound(&self) -> Result<()> {
        if !self.is_poisoned() {
            return Ok(());
        }
        Err(Error::new(
            Kind::Poisoned,
            format!(
                "{} cannot be appended to since a write or sync of it failed: reopen the store",
                self.file.path()
            ),
        ))
    }
}

/// Records on their way to the disk.
#[derive(Debug)]
pub struct Flight {
    file: Arc<SyncedFile>,
    from: u64,
    end: Position,
    bytes: Vec<u8>,
}

impl Flight {
    /// Writes them, in one write; none when there are no records.
    pub fn write(&self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { self.file.file.write_at(self.from, &self.bytes) }
    }

    /// Makes them, and all that was written before, durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    /// The memory that they take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// How many bytes they are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Poisons the file when it is dropped.
struct Poisoning<'a>(&'a SyncedFile);

impl Drop for Poisoning<'_> {
    fn drop(&mut self) {
        self.0.poison();
    }
}

/// An append-only file open for writing.
///
/// Records are [pushed](AppendFile::push), then written together, then synced together.
#[derive(Debug)]
pub struct AppendFile {
    file: Arc<SyncedFile>,
    header: Header,
    /// After the last record pushed.
    next: Position,
    /// After the last record written.
    written: Position,
    /// Up to where the file is known to be durable.
    synced: u64,
    /// Records pushed and not written.
    pushed: Vec<u8>,
}

impl AppendFile {
    /// Makes an empty file with `header`. One write; not durable before [`AppendFile::sync`] and the
    /// sync of its folder. `Exists`.
    pub fn create(disk: &dyn Disk, path: &str, header: Header) -> Result<AppendFile> {
        let file = disk.open(path, Mode::Create, Access::Buffered)?;
        file.write_at(0, &header.encode())?;
        Ok(Self::at(file, header, Position::start(), 0))
    }

    /// Makes a file with `header` and a first record, in one write; otherwise as
    /// [`AppendFile::create`]. A file that is there is written over in place, so that whoever has it open
    /// sees what becomes of it: for the rest of an attempt that failed before anything was durable.
    pub fn create_over(
        disk: &dyn Disk,
        path: &str,
        header: Header,
        first: impl FnOnce(&mut Encoder),
    ) -> Result<AppendFile> {
        let file = match disk.open(path, Mode::Create, Access::Buffered) {
            Err(error) if error.kind() == Kind::Exists => {
                disk.open(path, Mode::Write, Access::Buffered)?
            }
            created => created?,
        };
        let mut append = Self::at(file, header, Position::start(), 0);
        append.written.offset = 0;
        append.pushed = header.encode().to_vec();
        append.push_with(first)?;
        append.write()?;
        let end = append.end().offset;
        if append.file().len()? > end {
            append.file().set_len(end)?;
        }
        Ok(append)
    }

    /// The bytes of a file that has `header` and a first record.
    pub fn begun(header: Header, first: impl FnOnce(&mut Encoder)) -> Result<Vec<u8>> {
        let mut append = AppendFile { header, ..Self::standing_in("") };
        append.pushed = append.header.encode().to_vec();
        append.push_with(first)?;
        Ok(append.pushed)
    }

    /// Opens the file at `path` for appending and calls `each` with position and payload of every
    /// record from `from` on, up to where the file is durable. A tail that a crash left half written is
    /// cut, and what is found is durable afterwards: what no record says was synced is written again,
    /// and synced, unless there is nothing of it.
    pub fn open(
        disk: &dyn Disk,
        path: &str,
        kind: FileKind,
        from: Position,
        each: impl FnMut(Position, &[u8]) -> Result<()>,
    ) -> Result<AppendFile> {
        let file = disk.open(path, Mode::Write, Access::Buffered)?;
        let header = read_header(&*file, kind)?;
        let scan = scan(&*file, header.identity, from, each)?;
        if scan.tail_bytes > 0 {
            file.set_len(scan.end.offset)?;
        }
        // The records found may only be in the page cache, whether the process that wrote them died
        // before it synced them, or its sync failed.
        let proven = scan.synced.max(from.offset);
        if scan.end.offset == proven {
            return Ok(Self::at(file, header, scan.end, scan.synced));
        }
        // What was never synced to its first record may lack its header too.
        let unproven = if proven == Position::start().offset { 0 } else { proven };
        save_again(&*file, unproven, scan.end.offset)?;
        Ok(Self::at(file, header, scan.end, scan.end.offset))
    }

    /// What stands where the file at `path` is to be, which is not made yet: it has no record, takes none, and asks
    /// nothing of a disk.
    pub fn standing_in(path: &str) -> AppendFile {
        let header = Header::new(FileKind::Log, 0, 0);
        let start = Position::start();
        Self::at(Arc::new(StandIn::new(path)), header, start, start.offset)
    }

    fn at(file: Arc<dyn File>, header: Header, end: Position, synced: u64) -> AppendFile {
        let file = SyncedFile::new(file);
        AppendFile { file, header, next: end, written: end, synced, pushed: Vec::new() }
    }

    /// The header it was made with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// After the last record pushed.
    pub fn end(&self) -> Position {
        self.next
    }

    /// After the last record written.
    pub fn written(&self) -> Position {
        self.written
    }

    /// Up to which byte the file is known to be durable; 0 before the first sync.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// The file, to read records by their position.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file.file
    }

    /// The file, to sync it while others append; [`AppendFile::note_synced`] is told afterwards.
    pub fn synced_file(&self) -> &Arc<SyncedFile> {
        &self.file
    }

    /// Adds a record to those that the next write takes; returns where it will be. No disk access.
    /// `Invalid` when the payload is longer than [`PAYLOAD_MAX`], `Poisoned` after a failure.
    pub fn push(&mut self, payload: &[u8]) -> Result<Position> {
        self.push_with(|to| to.raw(payload))
    }

    /// The same with a payload of which several places have a part each; takes memory of its length and no more.
    pub(crate) fn push_parts(&mut self, parts: &[&[u8]]) -> Result<Position> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.pushed.reserve_exact(HEAD.saturating_add(length));
        self.push_with(|to| parts.iter().for_each(|part| to.raw(part)))
    }

    /// The same with a payload that `encode` puts where it is written from, so that it is not copied.
    pub fn push_with(&mut self, encode: impl FnOnce(&mut Encoder)) -> Result<Position> {
        self.file.check_sound()?;
        let (at, start) = (self.next, self.pushed.len());
        let mut to = Encoder::after(std::mem::take(&mut self.pushed));
        to.raw(&[0; HEAD]);
        encode(&mut to);
        self.pushed = to.finish();
        let payload = &self.pushed[start + HEAD..];
        let length = payload.len();
        if length > PAYLOAD_MAX {
            self.pushed.truncate(start);
            // Its memory is of a size that nothing else needs.
            self.pushed.shrink_to_fit();
            return Err(Error::invalid(format!(
                "a record of {length} bytes is longer than {PAYLOAD_MAX}: write it in pieces"
            )));
        }
        let payload_crc = crc_append(at.chain, payload);
        let head =
            Head { payload_crc, length: length as u32, sequence: at.sequence, synced: self.synced };
        let head = head.encode(self.header.identity, at.offset);
        self.pushed[start..start + HEAD].copy_from_slice(&head);
        self.next = Position {
            offset: at.offset + (HEAD + length) as u64,
            sequence: at.sequence + 1,
            chain: payload_crc,
        };
        Ok(at)
    }

    /// Writes the records pushed, in one write. After an error they are dropped and the file is cut
    /// back to where it was, durably; if that fails too, the file is poisoned.
    pub fn write(&mut self) -> Result<()> {
        self.file.check_sound()?;
        let flight = self.take_off(Vec::new());
        // Should the disk panic, what it did is not known, and nothing may follow.
        let panicked = Poisoning(&self.file);
        let outcome = flight.write();
        std::mem::forget(panicked);
        self.pushed = self.land(flight, outcome, false)?;
        self.pushed.clear();
        if self.pushed.capacity() > KEPT_BYTES {
            // What a long record took few others need.
            self.pushed = Vec::new();
        }
        Ok(())
    }

    /// The records pushed, to be written by a caller who lets others push meanwhile. Until it is
    /// [landed](AppendFile::land) there is no other. `spare` is memory for what is pushed next.
    pub fn take_off(&mut self, mut spare: Vec<u8>) -> Flight {
        spare.clear();
        Flight {
            file: Arc::clone(&self.file),
            from: self.written.offset,
            end: self.next,
            bytes: std::mem::replace(&mut self.pushed, spare),
        }
    }

    /// Notes how the writing of `flight`, and its sync if there was one, went; gives its memory
    /// back. After an error of the write, everything pushed so far is dropped, as
    /// [`AppendFile::write`] says; one of the sync poisons the file.
    pub fn land(
        &mut self,
        flight: Flight,
        outcome: Result<()>,
        is_synced: bool,
    ) -> Result<Vec<u8>> {
        if let Err(error) = outcome {
            self.take_back();
            self.file.cut(self.written.offset);
            return Err(error);
        }
        self.written = flight.end;
        if is_synced {
            self.synced = flight.end.offset;
        }
        Ok(flight.bytes)
    }

    /// The memory of the records pushed, and of those to come.
    pub fn memory_bytes(&self) -> usize {
        self.pushed.capacity()
    }

    /// The file was synced from outside after it was written up to `offset`.
    pub fn note_synced(&mut self, offset: u64) {
        self.synced = self.synced.max(offset);
    }

    /// Ends all writing: what a call of the disk did is not known. Drops the records pushed.
    pub fn abandon(&mut self) {
        self.take_back();
        self.file.poison();
    }

    /// Whether a failure has ended all writing.
    pub fn is_poisoned(&self) -> bool {
        self.file.is_poisoned()
    }

    /// Writes the records pushed and makes everything durable: one write, one sync. An error of the
    /// sync poisons the file.
    pub fn sync(&mut self) -> Result<()> {
        self.write()?;
        self.file.sync()?;
        self.synced = self.written.offset;
        Ok(())
    }

    /// Drops the records pushed since the last write.
    pub fn take_back(&mut self) {
        self.pushed.clear();
        self.next = self.written;
    }
}
