//! How far an import is: what it needs to go on where a frame of the file ends.
//!
//! The objects are in the pack already, so the state only says where each is that a later record may take or
//! repeat. It is believed when the pack has, at every one of these places, the objects whose hashes made its
//! digest. Format document: `docs/format/import-state.md`.

use super::{SLOTS, WAITING_MAX, commit_body};
use crate::context::files::commit::Commit;
use crate::context::hash::{CommitHash, Hash};
use crate::error::{Error, Result};
use crate::format::checksum::{crc, crc_append, masked};
use crate::format::codec::{Decoder, Encoder};
use crate::format::hash::combine;
use crate::format::header::{self, FileKind, Header};

/// The longest state: of a full table and of a range with long messages. Beyond it none is written.
pub(crate) const STATE_MAX: u64 = 64 << 20;

/// Bytes of an object.
const OBJECT: usize = 23;

/// An object that the pack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptObject {
    /// Where its record is.
    pub(crate) offset: u64,
    /// A value, a flat directory, a leaf, or a branch, as the tag of its record.
    pub(crate) shape: u8,
    pub(crate) depth: u8,
    pub(crate) weight: u8,
    pub(crate) below: u32,
    pub(crate) path: u64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImportState {
    /// The last commit of the file, and how many it has.
    pub(crate) commit: CommitHash,
    pub(crate) commits: u32,
    /// Frames that were taken, the running hash after them, and their bytes of the stream.
    pub(crate) frames: u64,
    pub(crate) running: Hash,
    pub(crate) stream: u64,
    /// Records of values, flat directories, leaves, branches, and repeats.
    pub(crate) counts: [u64; 5],
    /// The commits that were read, each with the place of its root.
    pub(crate) roots: Vec<(u64, Commit)>,
    pub(crate) stack: Vec<KeptObject>,
    /// By slot, ascending.
    pub(crate) table: Vec<(u32, KeptObject)>,
    /// Over the hashes of all objects above, in their order.
    pub(crate) digest: Hash,
}

/// The identity of the file in `epoch` of a store.
fn identity_of(store: u64, epoch: u64) -> u64 {
    combine(combine(store, epoch), u64::from(b'I'))
}

fn checksum(identity: u64, bytes: &[u8]) -> u32 {
    masked(crc_append(crc(&identity.to_le_bytes()), bytes))
}

impl KeptObject {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.offset);
        out.u8(self.shape);
        out.u8(self.depth);
        out.u8(self.weight);
        out.u32(self.below);
        out.u64(self.path);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<KeptObject> {
        Ok(KeptObject {
            offset: decoder.u64()?,
            shape: decoder.u8()?,
            depth: decoder.u8()?,
            weight: decoder.u8()?,
            below: decoder.u32()?,
            path: decoder.u64()?,
        })
    }
}

impl ImportState {
    /// About how many bytes a state of so many objects has, and of these commits.
    pub(super) fn bytes_of<'a>(objects: usize, commits: impl Iterator<Item = &'a Commit>) -> usize {
        let of_commit = |commit: &Commit| 32 + commit_body::said_bytes(commit);
        objects * (OBJECT + 3) + commits.map(of_commit).sum::<usize>()
    }

    /// The file in `epoch` of the store with the identity `store`.
    pub(crate) fn encode(&self, store: u64, epoch: u64) -> Vec<u8> {
        let identity = identity_of(store, epoch);
        let mut out = Encoder::new();
        out.raw(&Header::new(FileKind::ImportState, identity, store).encode());
        out.raw(self.commit.as_ref());
        out.u32(self.commits);
        out.u64(self.frames);
        out.raw(&self.running);
        out.u64(self.stream);
        self.counts.iter().for_each(|count| out.u64(*count));
        out.raw(&self.digest);
        out.varint(self.roots.len() as u64);
        for (root, commit) in &self.roots {
            out.u64(*root);
            commit_body::put(commit, &mut out);
        }
        out.varint(self.stack.len() as u64);
        self.stack.iter().for_each(|object| object.encode(&mut out));
        out.varint(self.table.len() as u64);
        for (slot, object) in &self.table {
            out.raw(&slot.to_le_bytes()[..3]);
            object.encode(&mut out);
        }
        let sum = checksum(identity, &out.bytes()[header::LENGTH..]);
        out.u32(sum);
        out.finish()
    }

    /// The state in `bytes` of a file called `file`; `Invalid` when it is of another store or epoch.
    pub(crate) fn decode(file: &str, bytes: &[u8], store: u64, epoch: u64) -> Result<ImportState> {
        let found = Header::expect(file, bytes, FileKind::ImportState)?;
        if (found.identity, found.store) != (identity_of(store, epoch), store) {
            return Err(Error::invalid(format!("{file} is of another store")));
        }
        Self::decode_any(file, bytes)
    }

    /// The same of any store.
    pub(crate) fn decode_any(file: &str, bytes: &[u8]) -> Result<ImportState> {
        let identity = Header::expect(file, bytes, FileKind::ImportState)?.identity;
        let rest = &bytes[header::LENGTH..];
        let body = &rest[..rest.len().saturating_sub(4)];
        let mut end = Decoder::new(file, (header::LENGTH + body.len()) as u64, &rest[body.len()..]);
        let start = end.clone();
        if end.u32()? != checksum(identity, body) {
            return Err(start.corrupt("a state with its checksum", "another"));
        }
        let mut decoder = Decoder::new(file, header::LENGTH as u64, body);
        let state = Self::take(&mut decoder)?;
        decoder.finish()?;
        Ok(state)
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<ImportState> {
        let mut hash = || decoder.raw(32).map(|bytes| Hash::try_from(bytes).expect("32 bytes"));
        let commit = CommitHash::new(hash()?);
        let (commits, frames) = (decoder.u32()?, decoder.u64()?);
        let running = decoder.raw(32)?.try_into().expect("32 bytes");
        let stream = decoder.u64()?;
        let mut counts = [0; 5];
        for count in &mut counts {
            *count = decoder.u64()?;
        }
        let digest = decoder.raw(32)?.try_into().expect("32 bytes");
        let start = decoder.clone();
        let count = decoder.count(19)?;
        if count as u64 > u64::from(commits) {
            return Err(start.corrupt(format_args!("at most {commits} commits"), count));
        }
        let mut roots = Vec::with_capacity(count);
        for _ in 0..count {
            roots.push((decoder.u64()?, commit_body::take(decoder)?));
        }
        let start = decoder.clone();
        let count = decoder.count(OBJECT)?;
        if count > WAITING_MAX {
            return Err(start.corrupt(format_args!("at most {WAITING_MAX} objects"), count));
        }
        let stack = (0..count).map(|_| KeptObject::decode(decoder)).collect::<Result<_>>()?;
        let count = decoder.count(OBJECT + 3)?;
        let mut table: Vec<(u32, KeptObject)> = Vec::with_capacity(count);
        for _ in 0..count {
            let start = decoder.clone();
            let bytes = decoder.raw(3)?;
            let slot = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            if slot as usize >= SLOTS || table.last().is_some_and(|last| last.0 >= slot) {
                return Err(start.corrupt("slots in order", slot));
            }
            table.push((slot, KeptObject::decode(decoder)?));
        }
        Ok(ImportState {
            commit,
            commits,
            frames,
            running,
            stream,
            counts,
            roots,
            stack,
            table,
            digest,
        })
    }
}
