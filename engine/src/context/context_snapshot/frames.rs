//! Frames: the stream cut into pieces that have a checksum and a running hash each.

use std::sync::Arc;

use super::compressed::{Compressor, Expander};
use super::{COMMITS_MAX, CommitFileHead, CommitFileProgress};
use crate::context::configuration::Configuration;
use crate::context::hash::{self, CommitHash, Hash};
use crate::context::tree::VALUE_MAX;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::format::checksum::{crc, crc_append, masked};
use crate::format::codec::{Decoder, Encoder};
use crate::format::header::{self, FileKind, Header};

/// A frame ends with the first record that brings it to so many bytes.
const FULL: usize = 1 << 18;

/// The most bytes of the stream in a frame.
const PAYLOAD_MAX: usize = 1 << 20;

/// A buffer of more bytes is of a long record.
const LONG: usize = 4 * PAYLOAD_MAX;

/// A compressed frame has at least this part of its payload, so that a short file costs no long work.
const EXPANSION_MAX: usize = 64;

/// Bytes of a frame before its payload.
const HEAD: usize = 54;

/// Configuration, count of commits, hash of the last one, checksum.
const OPENING: usize = 9 + 4 + 32 + 4;

/// A payload as it is, and compressed by zstd.
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// More than any record has: the largest are values.
const RECORD_MAX: usize = VALUE_MAX + 16;

fn checksum(identity: u64, bytes: &[u8]) -> u32 {
    masked(crc_append(crc(&identity.to_le_bytes()), bytes))
}

/// The running hash after `payload`.
fn run_on(running: &Hash, payload: &[u8], scratch: &mut Vec<u8>) -> Hash {
    scratch.clear();
    scratch.extend_from_slice(running);
    scratch.extend_from_slice(payload);
    hash::hash(scratch)
}

fn identity_of(commit: &CommitHash) -> u64 {
    u64::from_le_bytes(*commit.first_chunk().expect("a hash has 32 bytes"))
}

/// Whether the file at `path` begins as one that an export writes, has nothing yet, or the zeros that a power cut leaves.
pub(crate) fn begins_as_export(disk: &dyn Disk, path: &str) -> Result<bool> {
    let file = disk.open(path, Mode::Read, Access::Buffered)?;
    let mut bytes = [0; 8];
    let found = file.read_at(0, &mut bytes)?;
    let right = Header::new(FileKind::ContextSnapshot, 0, 0).encode();
    Ok(bytes[..found] == right[..found] || bytes == [0; 8])
}

/// Writes the stream.
pub(super) struct FrameWriter {
    file: Arc<dyn File>,
    /// Where the next frame begins.
    at: u64,
    identity: u64,
    number: u64,
    running: Hash,
    payload: Vec<u8>,
    begins: bool,
    /// Bytes of the stream.
    stream: u64,
    scratch: Vec<u8>,
    compressor: Option<Compressor>,
}

/// What the beginning of a file says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitFileOpening {
    pub(crate) configuration: Configuration,
    /// How many commits the file has.
    pub(crate) commits: u32,
    /// The last of them.
    pub(crate) commit: CommitHash,
}

impl FrameWriter {
    /// Writes header and opening to an empty file.
    pub(super) fn begin(
        file: Arc<dyn File>,
        opening: &CommitFileOpening,
        compressor: Option<Compressor>,
    ) -> Result<FrameWriter> {
        let identity = identity_of(&opening.commit);
        let said = opening;
        let mut opening = Encoder::new();
        said.configuration.encode(&mut opening);
        opening.u32(said.commits);
        opening.raw(said.commit.as_ref());
        let sum = checksum(identity, opening.bytes());
        opening.u32(sum);
        let mut out = Encoder::new();
        out.raw(&Header::new(FileKind::ContextSnapshot, identity, 0).encode());
        out.raw(opening.bytes());
        let bytes = out.finish();
        file.write_at(0, &bytes)?;
        Ok(FrameWriter {
            file,
            at: bytes.len() as u64,
            identity,
            number: 0,
            running: hash::hash(&bytes),
            payload: Vec::new(),
            begins: true,
            stream: 0,
            scratch: Vec::new(),
            compressor,
        })
    }

    /// How far it is.
    pub(super) fn progress(&self) -> CommitFileProgress {
        CommitFileProgress { bytes: self.at, total: None, resumed: 0, share: 0 }
    }

    /// Bytes of the stream so far.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// Appends a record.
    pub(super) fn put(&mut self, parts: [&[u8]; 2]) -> Result<()> {
        for mut rest in parts {
            self.stream += rest.len() as u64;
            while self.payload.len() + rest.len() > PAYLOAD_MAX {
                let (now, later) = rest.split_at(PAYLOAD_MAX - self.payload.len());
                self.payload.extend_from_slice(now);
                self.write()?;
                self.begins = false;
                rest = later;
            }
            self.payload.extend_from_slice(rest);
        }
        if self.payload.len() >= FULL {
            self.write()?;
            self.begins = true;
        }
        Ok(())
    }

    /// Writes what is gathered as a frame.
    fn write(&mut self) -> Result<()> {
        self.running = run_on(&self.running, &self.payload, &mut self.scratch);
        let mut out = Encoder::over(std::mem::take(&mut self.scratch));
        let packed = match &mut self.compressor {
            Some(compressor) => compressor.compress(&self.payload)?,
            None => None,
        };
        let packed = packed.filter(|packed| self.payload.len() <= packed.len() * EXPANSION_MAX);
        let (form, stored) = match packed {
            Some(packed) => (ZSTD, packed),
            None => (PLAIN, &self.payload[..]),
        };
        out.u64(self.number);
        out.u32(self.payload.len() as u32);
        out.u32(stored.len() as u32);
        out.u8(form);
        out.u8(u8::from(self.begins));
        out.raw(&self.running);
        let head = crc_append(crc(&self.identity.to_le_bytes()), out.bytes());
        out.u32(masked(crc_append(head, stored)));
        out.raw(stored);
        self.file.write_at(self.at, out.bytes())?;
        self.at += out.bytes().len() as u64;
        self.number += 1;
        self.scratch = out.finish();
        self.payload.clear();
        Ok(())
    }

    /// Ends the stream; returns the file's length and the running hash.
    pub(super) fn finish(mut self) -> Result<(u64, Hash)> {
        if !self.payload.is_empty() {
            self.write()?;
        }
        Ok((self.at, self.running))
    }
}

/// What stands before a frame's payload.
#[derive(Clone, Copy)]
struct FrameHead {
    number: u64,
    payload: usize,
    /// Bytes in the file.
    stored: usize,
    form: u8,
    begins: bool,
    running: Hash,
    checksum: u32,
    bytes: [u8; HEAD - 4],
}

/// Where the first frame is.
pub(crate) const FRAMES_START: usize = header::LENGTH + OPENING;

/// What the beginning of a file says, verified.
pub(crate) fn opening(path: &str, bytes: &[u8]) -> Result<CommitFileOpening> {
    let found = Header::expect(path, bytes, FileKind::ContextSnapshot)?;
    let opening = &bytes[header::LENGTH..bytes.len().min(FRAMES_START)];
    let mut decoder = Decoder::new(path, header::LENGTH as u64, opening);
    let start = decoder.clone();
    let body = decoder.raw(OPENING - 4)?;
    let sum = checksum(found.identity, body);
    if decoder.u32()? != sum {
        return Err(start.corrupt("an opening with its checksum", "another"));
    }
    let mut body = Decoder::new(path, header::LENGTH as u64, body);
    let configuration = Configuration::decode(&mut body)?;
    let commits = body.u32()?;
    let commit: CommitHash = body.raw(32)?.try_into().expect("32 bytes");
    if !(1..=COMMITS_MAX).contains(&commits) {
        return Err(start.corrupt(format_args!("1 to {COMMITS_MAX} commits"), commits));
    }
    if found.identity != identity_of(&commit) || found.store != 0 {
        return Err(start.corrupt("the commit that the header names", hash::to_text(&commit)));
    }
    Ok(CommitFileOpening { configuration, commits, commit })
}

/// Reads the stream.
pub(crate) struct FrameReader {
    file: Arc<dyn File>,
    path: String,
    length: u64,
    opening: CommitFileOpening,
    /// Where the next frame begins, and its number.
    at: u64,
    number: u64,
    running: Hash,
    /// Bytes of the stream from the record on that is read, and how many of them were taken.
    buffer: Vec<u8>,
    taken: usize,
    /// Where the first byte of the buffer would be, if all were in the last frame read.
    place: u64,
    /// Bytes of the stream before the buffer.
    before: u64,
    /// Of the last frame read.
    payload: usize,
    scratch: Vec<u8>,
    expander: Option<Expander>,
    /// Where reading began, if not at the first frame.
    resumed: u64,
}

impl FrameReader {
    /// Opens the file at `path`, and verifies its beginning.
    pub(crate) fn open(disk: &dyn Disk, path: &str) -> Result<FrameReader> {
        let file = disk.open(path, Mode::Read, Access::Buffered)?;
        let length = file.len()?;
        let mut bytes = vec![0; length.min(FRAMES_START as u64) as usize];
        file.read_exact_at(0, &mut bytes)?;
        let opening = opening(path, &bytes)?;
        Ok(FrameReader {
            file,
            path: path.to_owned(),
            length,
            opening,
            at: bytes.len() as u64,
            number: 0,
            running: hash::hash(&bytes),
            buffer: Vec::new(),
            taken: 0,
            place: 0,
            before: 0,
            payload: PAYLOAD_MAX,
            scratch: Vec::new(),
            expander: None,
            resumed: 0,
        })
    }

    /// Goes to the end of the first `frames` frames, which have `stream` bytes, if the running hash there is
    /// `running`; of what comes before only the heads are read. Nothing was read before.
    pub(super) fn resume(&mut self, frames: u64, running: &Hash, stream: u64) -> Result<bool> {
        let (start, opened) = (self.at, self.running);
        let mut bytes = 0;
        while self.number < frames {
            let Some(head) = self.head()? else { break };
            self.at += (HEAD + head.stored) as u64;
            self.number += 1;
            (self.running, self.payload) = (head.running, head.payload);
            bytes += head.payload as u64;
        }
        if (self.number, &self.running, bytes) == (frames, running, stream) {
            (self.before, self.place, self.resumed) = (stream, self.at, self.at);
            return Ok(true);
        }
        (self.at, self.running, self.number, self.payload) = (start, opened, 0, PAYLOAD_MAX);
        Ok(false)
    }

    /// The frames that were read, and the running hash, if the last record ended with a frame.
    pub(super) fn between_frames(&self) -> Option<(u64, Hash)> {
        (self.taken == self.buffer.len()).then_some((self.number, self.running))
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn opening(&self) -> CommitFileOpening {
        self.opening
    }

    pub(crate) fn configuration(&self) -> Configuration {
        self.opening.configuration
    }

    /// How far it is.
    pub(super) fn progress(&self) -> CommitFileProgress {
        let share = u128::from(self.at) * 1_000_000 / u128::from(self.length.max(1));
        CommitFileProgress {
            bytes: self.at,
            total: Some(self.length),
            resumed: self.resumed,
            share: share as u32,
        }
    }

    /// Bytes of the file, and the running hash after what was read.
    pub(super) fn ends(&self) -> (u64, Hash) {
        (self.length, self.running)
    }

    /// Bytes of the stream that were taken.
    pub(super) fn stream(&self) -> u64 {
        self.before + self.taken as u64
    }

    /// The head of the next frame; none at the end of the file.
    fn head(&self) -> Result<Option<FrameHead>> {
        if self.at == self.length {
            return Ok(None);
        }
        // A file that grows while it is read had its length at the beginning.
        let Some(left) = (self.length - self.at).checked_sub(HEAD as u64) else {
            return Err(Error::corrupt(&self.path, self.at, "another frame", "the end"));
        };
        let mut bytes = [0; HEAD];
        self.file.read_exact_at(self.at, &mut bytes)?;
        let mut decoder = Decoder::new(&self.path, self.at, &bytes);
        let start = decoder.clone();
        let number = decoder.u64()?;
        let payload = decoder.u32()? as usize;
        let stored = decoder.u32()? as usize;
        let form = decoder.u8()?;
        let begins = decoder.u8()?;
        let running = decoder.raw(32)?.try_into().expect("32 bytes");
        let is_right = number == self.number
            && (1..=PAYLOAD_MAX).contains(&payload)
            && stored <= payload
            && payload <= stored.saturating_mul(EXPANSION_MAX)
            && (form != PLAIN || stored == payload)
            && begins <= 1
            && stored as u64 <= left;
        if !is_right {
            return Err(start.corrupt(format_args!("frame {}", self.number), "something else"));
        }
        let checksum = decoder.u32()?;
        let bytes = *bytes.first_chunk().expect("the checksum is at the end");
        let begins = begins == 1;
        Ok(Some(FrameHead { number, payload, stored, form, begins, running, checksum, bytes }))
    }

    /// Appends the next frame to the buffer. `Corrupt` when a record goes on in it and none is begun, or the
    /// other way round, and when the frame before ended early.
    fn load(&mut self, head: &FrameHead) -> Result<()> {
        let corrupt = |what: &str| {
            Err(Error::corrupt(&self.path, self.at, what, format_args!("frame {}", head.number)))
        };
        let rest = self.buffer.len() - self.taken;
        if head.begins != (rest == 0) || (!head.begins && self.payload != PAYLOAD_MAX) {
            return corrupt("a frame that goes on where the one before ends");
        }
        if self.payload < FULL {
            return corrupt("the last frame, since the one before is not full");
        }
        if head.form > ZSTD {
            return Err(Error::new(
                Kind::Version,
                format!(
                    "{} has frames in form {}, which this release does not read: use a newer release, or \
                     ask for a file that is not compressed",
                    self.path, head.form
                ),
            ));
        }
        self.before += self.taken as u64;
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.resize(rest + head.payload, 0);
        let mut stored = Vec::new();
        let packed = head.form == ZSTD;
        if packed {
            stored.resize(head.stored, 0);
        }
        let from = if packed { &mut stored[..] } else { &mut self.buffer[rest..] };
        self.file.read_exact_at(self.at + HEAD as u64, from)?;
        let sum =
            crc_append(crc(&u64::to_le_bytes(identity_of(&self.opening.commit))), &head.bytes);
        if masked(crc_append(sum, from)) != head.checksum {
            return corrupt("a frame with its checksum");
        }
        if packed {
            let expander = match &mut self.expander {
                Some(expander) => expander,
                None => self.expander.insert(Expander::new()?),
            };
            if !expander.expand(&stored, &mut self.buffer[rest..]) {
                return corrupt("a compressed frame of the length that it says");
            }
        }
        self.running = run_on(&self.running, &self.buffer[rest..], &mut self.scratch);
        if self.running != head.running {
            return corrupt("a frame with its running hash");
        }
        self.at += HEAD as u64;
        self.place = self.at.saturating_sub(rest as u64);
        self.at += head.stored as u64;
        self.number += 1;
        self.payload = head.payload;
        Ok(())
    }

    /// Bytes of the frames that go on with a record, up to the one with its byte `enough`. Reads their heads.
    fn goes_on(&mut self, enough: usize) -> Result<usize> {
        let (at, number) = (self.at, self.number);
        let mut bytes = 0;
        let outcome = loop {
            match self.head() {
                Ok(Some(head)) if !head.begins && bytes < enough => {
                    bytes += head.payload;
                    self.at += (HEAD + head.stored) as u64;
                    self.number += 1;
                }
                Ok(_) => break Ok(bytes),
                Err(error) => break Err(error),
            }
        };
        (self.at, self.number) = (at, number);
        outcome
    }

    /// Has the rest of the buffer in one of its size and `more` bytes.
    fn move_rest(&mut self, more: usize) {
        let mut rest = Vec::with_capacity(self.buffer.len() - self.taken + more);
        rest.extend_from_slice(&self.buffer[self.taken..]);
        self.before += self.taken as u64;
        self.place += self.taken as u64;
        (self.buffer, self.taken) = (rest, 0);
    }

    /// Calls `take` with the next record, again with more of it where it goes on in another frame; what it
    /// leaves is the next record. `whole` says how many bytes one has, if its beginning does.
    pub(super) fn record<T>(
        &mut self,
        whole: impl Fn(&[u8]) -> Option<usize>,
        mut take: impl FnMut(&mut Decoder<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.taken == self.buffer.len() {
            let Some(head) = self.head()? else {
                return Err(Error::corrupt(&self.path, self.at, "another frame", "the end"));
            };
            self.load(&head)?;
        }
        loop {
            let bytes = &self.buffer[self.taken..];
            let place = self.place + self.taken as u64;
            let mut decoder = Decoder::new(&self.path, place, bytes);
            match take(&mut decoder) {
                Ok(taken) => {
                    let left = decoder.remaining();
                    if left > 0 && self.payload.saturating_sub(left) >= FULL {
                        return Err(
                            decoder.corrupt("the end of a frame that is full", "more of it")
                        );
                    }
                    self.taken = self.buffer.len() - left;
                    if left <= PAYLOAD_MAX && self.buffer.capacity() > LONG {
                        // What a long record took is wanted for what is made of it.
                        self.move_rest(0);
                    }
                    return Ok(taken);
                }
                Err(error) => {
                    let next = self.head()?.filter(|head| !head.begins);
                    let Some(head) = next.filter(|_| bytes.len() < RECORD_MAX) else {
                        return Err(error);
                    };
                    let length = bytes.len();
                    let enough = match whole(bytes) {
                        Some(whole) if (length + 1..=RECORD_MAX).contains(&whole) => {
                            // No more of it than there is, whatever its beginning says.
                            let more = self.goes_on(whole - length)?;
                            self.move_rest(more);
                            whole
                        }
                        // It is not for what it lacks that it cannot be taken.
                        Some(_) => return Err(error),
                        // Twice as much each time, so that a record of many frames is not parsed for each of them.
                        None => (2 * length).min(RECORD_MAX),
                    };
                    self.load(&head)?;
                    while self.buffer.len() - self.taken < enough
                        && let Some(head) = self.head()?.filter(|head| !head.begins)
                    {
                        self.load(&head)?;
                    }
                }
            }
        }
    }

    /// `Corrupt` unless everything was read.
    pub(super) fn finish(&self) -> Result<()> {
        if self.taken == self.buffer.len() && self.at == self.length {
            return Ok(());
        }
        let place = self.place + self.taken as u64;
        Err(Error::corrupt(&self.path, place, "the end of the file", "more bytes"))
    }

    /// See [`inspect_commit`](super::inspect_commit).
    pub(super) fn heads(mut self) -> Result<CommitFileHead> {
        let mut stream_bytes = 0;
        while let Some(head) = self.head()? {
            self.at += (HEAD + head.stored) as u64;
            self.number += 1;
            self.running = head.running;
            stream_bytes += head.payload as u64;
        }
        Ok(CommitFileHead {
            commit: self.opening.commit,
            commits: u64::from(self.opening.commits),
            configuration: self.opening.configuration,
            frames: self.number,
            stream_bytes,
            bytes: self.length,
            hash: self.running,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;

    const FILE: &str = "f";

    /// A file of records of `lengths` bytes, the last byte 1, with frames that end after those `cut` names too.
    fn written(lengths: &[usize], cut: &[usize]) -> Arc<MemoryDisk> {
        let disk = MemoryDisk::seeded(1);
        let file = disk.open(FILE, Mode::Create, Access::Buffered).unwrap();
        let configuration = Configuration::TEZOS;
        let opening =
            CommitFileOpening { configuration, commits: 1, commit: CommitHash::new([7; 32]) };
        let mut writer = FrameWriter::begin(file, &opening, None).unwrap();
        for (index, length) in lengths.iter().enumerate() {
            writer.put([&vec![0; length - 1], &[1]]).unwrap();
            if cut.contains(&index) && !writer.payload.is_empty() {
                writer.write().unwrap();
                writer.begins = true;
            }
        }
        writer.finish().unwrap();
        disk
    }

    /// Reads records up to their 1.
    fn read(disk: &MemoryDisk) -> Result<Vec<usize>> {
        let mut reader = FrameReader::open(disk, FILE)?;
        let mut lengths = Vec::new();
        while reader.finish().is_err() {
            let take = |decoder: &mut Decoder<'_>| {
                let before = decoder.remaining();
                while decoder.u8()? != 1 {}
                Ok(before - decoder.remaining())
            };
            lengths.push(reader.record(|_| None, take)?);
        }
        Ok(lengths)
    }

    #[test]
    fn frames_end_where_the_format_says_and_nowhere_else() {
        let lengths = [FULL - 1, 9, 7, FULL, PAYLOAD_MAX, 3, PAYLOAD_MAX + 5, 2 * PAYLOAD_MAX, 8];
        assert_eq!(read(&written(&lengths, &[])).unwrap(), lengths);
        for cut in [0, 2, 5] {
            let error = read(&written(&lengths, &[cut])).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "after {cut}: {error}");
        }
    }

    #[test]
    fn a_full_frame_takes_no_further_record() {
        // One frame of two records, made of two of the longest record that go on in each other.
        let disk = written(&[PAYLOAD_MAX - 4], &[]);
        let mut bytes = disk.bytes(FILE).unwrap();
        let at = FRAMES_START + HEAD;
        bytes[at + FULL] = 1;
        let (beginning, rest) = bytes.split_at_mut(at);
        let running = run_on(&hash::hash(&beginning[..FRAMES_START]), rest, &mut Vec::new());
        let head = &mut beginning[FRAMES_START..];
        head[18..50].copy_from_slice(&running);
        let sum = crc_append(crc(&[7; 8]), &head[..HEAD - 4]);
        head[HEAD - 4..].copy_from_slice(&masked(crc_append(sum, rest)).to_le_bytes());
        disk.replace(FILE, bytes).unwrap();
        let error = read(&disk).unwrap_err();
        assert!(error.to_string().contains("the end of a frame that is full"), "{error}");
    }
}
