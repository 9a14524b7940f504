//! Reads a trace, a frame at a time, up to its last whole frame.

use std::sync::Arc;

use super::frame::{Call, FRAME_BYTES_MAX, HEAD, end_frame, frame_checksum};
use super::frame_reader::FrameReader;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Result};
use crate::format::header::{FileKind, Header, LENGTH};

/// Bytes that are looked through at once for a frame behind one whose length cannot be right.
const WINDOW_BYTES: usize = 1 << 20;

/// Frames that are longer are not found so; those of recorders end with the call that brings them to 128 KiB.
const SOUGHT_BYTES_MAX: usize = 1 << 20;

/// What a system writes at once.
const PAGE_BYTES: usize = 4 << 10;

/// Bytes whose checksum is compared at most, so that a file made for it cannot cost much.
const HASHED_BYTES_MAX: usize = 64 << 20;

/// How a trace ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEnd {
    /// Calls that were read.
    pub calls: u64,
    /// Frames that were read.
    pub frames: u64,
    /// Bytes up to the end of the last whole frame, or of the trace if it was ended.
    pub bytes: u64,
    /// Bytes behind it: of a frame that a recording did not end, or of none.
    pub cut_bytes: u64,
    /// Whether all was read that there is: [`Recorder::finish`](super::Recorder::finish) has written the end. Where it has
    /// not, as when the program was killed, or before it wrote ends, calls may be missing.
    pub is_ended: bool,
}

/// What a frame begins with.
struct Head {
    checksum: u32,
    length: u32,
    calls: u32,
}

impl Head {
    fn of(bytes: &[u8]) -> Head {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        Head { checksum: u32_at(0), length: u32_at(4), calls: u32_at(8) }
    }
}

/// A trace that is read. Holds one frame.
#[derive(Debug)]
pub struct Trace {
    file: Arc<dyn File>,
    identity: u64,
    length: u64,
    frame: FrameReader,
    end: TraceEnd,
}

impl Trace {
    /// Opens the trace at `path`. `Missing`, `Io`, `Corrupt`, or `Invalid` when it is another file.
    pub fn open(disk: &dyn Disk, path: &str) -> Result<Trace> {
        let file = disk.open(path, Mode::Read, Access::Buffered)?;
        let mut bytes = [0; LENGTH];
        let length = file.len()?;
        let head = &mut bytes[..LENGTH.min(length as usize)];
        file.read_exact_at(0, head)?;
        let identity = Header::expect(file.path(), head, FileKind::Trace)?.identity;
        let end = TraceEnd { bytes: LENGTH as u64, ..TraceEnd::default() };
        Ok(Trace { file, identity, length, frame: FrameReader::default(), end })
    }

    /// The next call; none at the end, after which [`Trace::end`] says what was there. `Corrupt` for a frame in
    /// front of others that is not as it was written, `Io`.
    pub fn next_call(&mut self) -> Result<Option<Call>> {
        loop {
            if let Some(call) = self.frame.next(self.file.path())? {
                self.end.calls += 1;
                return Ok(Some(call));
            }
            if !self.next_frame()? {
                return Ok(None);
            }
        }
    }

    /// Goes on with a recording that had not ended: after this, [`Trace::next_call`] gives what was written since. Says
    /// no, and changes nothing, where the file at `path` is another recording, or the one that was read had an end:
    /// what is there is then to be opened and read from its begin. `Missing`, `Io`, `Corrupt`, or `Invalid` when it is
    /// another file.
    pub fn go_on(&mut self, disk: &dyn Disk, path: &str) -> Result<bool> {
        let now = Trace::open(disk, path)?;
        let is_same = now.identity == self.identity && now.length >= self.end.bytes;
        if self.end.is_ended || !is_same {
            return Ok(false);
        }
        (self.file, self.length) = (now.file, now.length);
        Ok(true)
    }

    /// What was read so far.
    #[must_use]
    pub fn end(&self) -> TraceEnd {
        self.end
    }

    /// Bytes of the file.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length
    }

    /// Whether a whole frame begins somewhere behind the head at `offset`.
    fn has_frame_behind(&self, offset: u64) -> Result<bool> {
        let (mut start, mut hashed) = (offset + HEAD as u64, 0);
        while start + HEAD as u64 <= self.length {
            let window = (self.length - start).min(WINDOW_BYTES as u64) as usize;
            let mut bytes = vec![0; window];
            self.file.read_exact_at(start, &mut bytes)?;
            for (at, head) in bytes.windows(HEAD).enumerate() {
                let Head { checksum, length, calls } = Head::of(head);
                let place = start + at as u64;
                let fits = length as usize <= SOUGHT_BYTES_MAX
                    && (1..=length).contains(&calls)
                    && place + HEAD as u64 + u64::from(length) <= self.length;
                if !fits {
                    continue;
                }
                let mut rest = vec![0; 8 + length as usize];
                self.file.read_exact_at(place + 4, &mut rest)?;
                if frame_checksum(self.identity, place, &rest) == checksum {
                    return Ok(true);
                }
                hashed += rest.len();
                if hashed > HASHED_BYTES_MAX {
                    return Ok(false);
                }
            }
            // The heads that begin in the last bytes of the window are in the next one too.
            start += (window - HEAD + 1) as u64;
        }
        Ok(false)
    }

    /// The head at `place`; none where the recording has its end.
    fn head_at(&self, place: u64) -> Result<Option<Head>> {
        let mut head = [0; HEAD];
        self.file.read_exact_at(place, &mut head)?;
        Ok((head != end_frame(self.identity, place)).then(|| Head::of(&head)))
    }

    /// Whether the file ends as `finish` ends it, behind what is at `offset`.
    fn has_end_behind(&self, offset: u64) -> Result<bool> {
        let place = self.length - HEAD as u64;
        Ok(place >= offset + HEAD as u64 && self.head_at(place)?.is_none())
    }

    /// Whether there are only zeros from `start` on, as where the system gave the file its length and then no bytes. It
    /// has no more of them than a frame.
    fn is_empty_from(&self, start: u64) -> Result<bool> {
        let mut place = start;
        if self.length - start > (HEAD + FRAME_BYTES_MAX) as u64 {
            return Ok(false);
        }
        while place < self.length {
            let mut bytes = vec![0; (self.length - place).min(WINDOW_BYTES as u64) as usize];
            self.file.read_exact_at(place, &mut bytes)?;
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            place += bytes.len() as u64;
        }
        Ok(true)
    }

    /// Whether the power went while it was recorded, before the bytes of a page that begins at `start` or later and before
    /// `end` reached the disk, or those of the head at `start`: they are zeros. Pages come there in any order, but what
    /// was ended was synced.
    fn has_hole(&self, start: u64, end: u64) -> Result<bool> {
        if self.has_end_behind(start)? {
            return Ok(false);
        }
        let is_empty = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let mut head = [0; HEAD];
        self.file.read_exact_at(start, &mut head)?;
        if is_empty(&head) {
            return Ok(true);
        }
        let mut place = start.next_multiple_of(PAGE_BYTES as u64);
        while place < end {
            let mut bytes = vec![0; (self.length - place).min(WINDOW_BYTES as u64) as usize];
            self.file.read_exact_at(place, &mut bytes)?;
            let wanted = bytes.len().min((end - place) as usize).next_multiple_of(PAGE_BYTES);
            if bytes.chunks(PAGE_BYTES).take(wanted / PAGE_BYTES).any(is_empty) {
                return Ok(true);
            }
            place += WINDOW_BYTES as u64;
        }
        Ok(false)
    }

    /// The end of the trace at `offset`, or damage: what a recording did not end has no frame behind it, so where one
    /// is, it is the length that is not as it was.
    fn cut_or_corrupt(&self, offset: u64, length: u32) -> Result<bool> {
        let left = self.length - offset;
        // It has no more bytes than one frame either, and those of a file made for it are not looked through.
        if left > (HEAD + FRAME_BYTES_MAX) as u64 {
            let expected = "a frame, or less than the longest one has";
            return Err(Error::corrupt(
                self.file.path(),
                offset,
                expected,
                format_args!("{left} bytes"),
            ));
        }
        if !self.has_end_behind(offset)? && !self.has_frame_behind(offset)? {
            return Ok(false);
        }
        let expected = format_args!("a frame of less than {left} bytes, with others behind it");
        Err(Error::corrupt(self.file.path(), offset + 4, expected, length))
    }

    fn next_frame(&mut self) -> Result<bool> {
        let offset = self.end.bytes;
        let left = self.length.saturating_sub(offset);
        self.end.cut_bytes = left;
        if left < HEAD as u64 {
            return Ok(false);
        }
        let Some(Head { checksum, length, calls }) = self.head_at(offset)? else {
            let end = offset + HEAD as u64;
            if end < self.length {
                let behind = self.length - end;
                let expected = "nothing behind the end of the recording";
                return Err(Error::corrupt(
                    self.file.path(),
                    end,
                    expected,
                    format_args!("{behind} bytes"),
                ));
            }
            (self.end.bytes, self.end.cut_bytes, self.end.is_ended) = (end, 0, true);
            return Ok(false);
        };
        let end = offset + HEAD as u64 + u64::from(length);
        if end > self.length || length as usize > FRAME_BYTES_MAX {
            if self.has_hole(offset, offset + HEAD as u64)? {
                return Ok(false);
            }
            return self.cut_or_corrupt(offset, length);
        }
        let mut bytes = vec![0; 8 + length as usize];
        self.file.read_exact_at(offset + 4, &mut bytes)?;
        let expected = frame_checksum(self.identity, offset, &bytes);
        if checksum != expected {
            if end == self.length {
                return self.cut_or_corrupt(offset, length);
            }
            // The power went: of what was not synced the system has the length alone, or some pages.
            if self.is_empty_from(end)? || self.has_hole(offset, end)? {
                return Ok(false);
            }
            let expected = format_args!("frame checksum {expected:08x}");
            let found = format_args!("{checksum:08x}");
            return Err(Error::corrupt(self.file.path(), offset, expected, found));
        }
        bytes.drain(..8);
        self.frame = FrameReader::new(bytes, offset + HEAD as u64, calls);
        self.end.frames += 1;
        (self.end.bytes, self.end.cut_bytes) = (end, self.length - end);
        Ok(true)
    }
}
