//! Frames: the stream cut into pieces that have a checksum and a running hash each.

use std::sync::Arc;

use super::CommitFileHead;
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

/// Bytes of a frame before its payload.
const HEAD: usize = 54;

/// Configuration, hash of the commit, checksum.
const OPENING: usize = 9 + 32 + 4;

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
}

impl FrameWriter {
    /// Writes header and opening to an empty file.
    pub(super) fn begin(
        file: Arc<dyn File>,
        configuration: Configuration,
        commit: &CommitHash,
    ) -> Result<FrameWriter> {
        let identity = identity_of(commit);
        let mut opening = Encoder::new();
        configuration.encode(&mut opening);
        opening.raw(commit.as_ref());
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
        })
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
        let length = self.payload.len() as u32;
        out.u64(self.number);
        out.u32(length);
        out.u32(length);
        out.u8(0);
        out.u8(u8::from(self.begins));
        out.raw(&self.running);
        let head = crc_append(crc(&self.identity.to_le_bytes()), out.bytes());
        out.u32(masked(crc_append(head, &self.payload)));
        out.raw(&self.payload);
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
    form: u8,
    begins: bool,
    running: Hash,
    checksum: u32,
    bytes: [u8; HEAD - 4],
}

/// Where the first frame is.
pub(crate) const FRAMES_START: usize = header::LENGTH + OPENING;

/// What the beginning of a file says, verified.
pub(crate) fn opening(path: &str, bytes: &[u8]) -> Result<(Configuration, CommitHash)> {
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
    let commit: CommitHash = body.raw(32)?.try_into().expect("32 bytes");
    if found.identity != identity_of(&commit) || found.store != 0 {
        return Err(start.corrupt("the commit that the header names", hash::to_text(&commit)));
    }
    Ok((configuration, commit))
}

/// Reads the stream.
pub(crate) struct FrameReader {
    file: Arc<dyn File>,
    path: String,
    length: u64,
    commit: CommitHash,
    configuration: Configuration,
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
}

impl FrameReader {
    /// Opens the file at `path`, and verifies its beginning.
    pub(crate) fn open(disk: &dyn Disk, path: &str) -> Result<FrameReader> {
        let file = disk.open(path, Mode::Read, Access::Buffered)?;
        let length = file.len()?;
        let mut bytes = vec![0; length.min(FRAMES_START as u64) as usize];
        file.read_exact_at(0, &mut bytes)?;
        let (configuration, commit) = opening(path, &bytes)?;
        Ok(FrameReader {
            file,
            path: path.to_owned(),
            length,
            commit,
            configuration,
            at: bytes.len() as u64,
            number: 0,
            running: hash::hash(&bytes),
            buffer: Vec::new(),
            taken: 0,
            place: 0,
            before: 0,
            payload: PAYLOAD_MAX,
            scratch: Vec::new(),
        })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn commit(&self) -> CommitHash {
        self.commit
    }

    pub(crate) fn configuration(&self) -> Configuration {
        self.configuration
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
            && (form != 0 || stored == payload)
            && begins <= 1
            && stored as u64 <= self.length - self.at - HEAD as u64;
        if !is_right {
            return Err(start.corrupt(format_args!("frame {}", self.number), "something else"));
        }
        let checksum = decoder.u32()?;
        let bytes = *bytes.first_chunk().expect("the checksum is at the end");
        let begins = begins == 1;
        Ok(Some(FrameHead { number, payload: stored, form, begins, running, checksum, bytes }))
    }

    /// Appends the next frame to the buffer. `Corrupt` when a record goes on in it and none is begun, or the
    /// other way round.
    fn load(&mut self, head: &FrameHead) -> Result<()> {
        let corrupt = |what: &str| {
            Err(Error::corrupt(&self.path, self.at, what, format_args!("frame {}", head.number)))
        };
        let rest = self.buffer.len() - self.taken;
        if head.begins != (rest == 0) || (!head.begins && self.payload != PAYLOAD_MAX) {
            return corrupt("a frame that goes on where the one before ends");
        }
        self.before += self.taken as u64;
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.resize(rest + head.payload, 0);
        let bytes = &mut self.buffer[rest..];
        self.file.read_exact_at(self.at + HEAD as u64, bytes)?;
        let sum = crc_append(crc(&u64::to_le_bytes(identity_of(&self.commit))), &head.bytes);
        if masked(crc_append(sum, bytes)) != head.checksum {
            return corrupt("a frame with its checksum");
        }
        if head.form != 0 {
            return Err(Error::new(
                Kind::Version,
                format!(
                    "{} has frames in form {}, which this release does not read: use a newer release, or \
                     ask for a file that is not compressed",
                    self.path, head.form
                ),
            ));
        }
        self.running = run_on(&self.running, bytes, &mut self.scratch);
        if self.running != head.running {
            return corrupt("a frame with its running hash");
        }
        self.at += HEAD as u64;
        self.place = self.at.saturating_sub(rest as u64);
        self.at += head.payload as u64;
        self.number += 1;
        self.payload = head.payload;
        Ok(())
    }

    /// Calls `take` with the next record, again with more of it where it goes on in another frame; what it
    /// leaves is the next record.
    pub(super) fn record<T>(
        &mut self,
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
                    self.taken = self.buffer.len() - decoder.remaining();
                    return Ok(taken);
                }
                Err(error) => {
                    let next = self.head()?.filter(|head| !head.begins);
                    let Some(head) = next.filter(|_| bytes.len() < RECORD_MAX) else {
                        return Err(error);
                    };
                    self.load(&head)?;
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
            self.at += (HEAD + head.payload) as u64;
            self.number += 1;
            self.running = head.running;
            stream_bytes += head.payload as u64;
        }
        Ok(CommitFileHead {
            commit: self.commit,
            configuration: self.configuration,
            frames: self.number,
            stream_bytes,
            bytes: self.length,
            hash: self.running,
        })
    }
}
