//! How far the pack was read, and where the records go that a scan of it finds.

use crate::context::files::chunk::{Opening, Place, Seal};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::commit::CommitBody;
use crate::context::files::control::Control;
use crate::context::files::hash_index::HashIndex;
use crate::context::files::record::{self, Tag};
use crate::context::hash::{CommitHash, Hash};
use crate::context::store::State;
use crate::context::store::tip::Checkpoint;
use crate::error::{Error, Result};
use crate::file::append::{HEAD, Position};
use crate::sync::{Mutex, MutexGuard, lock};

/// How far the pack was read.
#[derive(Clone, Copy, Debug)]
pub(in crate::context::store) struct End {
    pub(in crate::context::store) place: Place,
    /// Logical offset of the first commit in the last chunk; 0 for none.
    pub(in crate::context::store) first_commit: u64,
    /// The last chunk has ended, and this is before its end.
    pub(in crate::context::store) sealed: Option<Checkpoint>,
}

impl End {
    pub(in crate::context::store) fn of(control: &Control) -> End {
        End { place: control.checkpoint, first_commit: control.first_commit, sealed: None }
    }
}

/// Where the records of a chunk go. The state changes at its end only, so that a scan that fails
/// halfway changed nothing.
pub(in crate::context::store) struct ScanTarget<'a> {
    end: End,
    /// Place and sequence number of the last commit.
    last: Option<(u64, u64)>,
    /// Branches set, or removed by a hash of zeros.
    references: Vec<(Vec<u8>, CommitHash)>,
    index: &'a Mutex<HashIndex>,
    /// The index, held while the scan reads, unless somebody may ask it meanwhile: then its records wait.
    held: Option<MutexGuard<'a, HashIndex>>,
    waiting: Vec<(Tag, Hash, u64)>,
    /// The index stands where the scan begins, so it takes the records as they come.
    together: bool,
}

impl<'a> ScanTarget<'a> {
    /// A target of what is behind `end`. While the store is read nobody waits for the scan.
    pub(in crate::context::store) fn new(
        index: &'a Mutex<HashIndex>,
        end: End,
        is_read: bool,
    ) -> ScanTarget<'a> {
        let guard = lock(index);
        let together = guard.reached == end.place;
        let held = (!is_read).then_some(guard);
        let (references, waiting) = (Vec::new(), Vec::new());
        ScanTarget { end, last: None, references, index, held, waiting, together }
    }

    /// Takes the records of one batch. Their bytes were verified with the batch.
    pub(in crate::context::store) fn apply(
        &mut self,
        chunk: &Chunk,
        position: Position,
        payload: &[u8],
    ) -> Result<()> {
        let file = &*chunk.path;
        let corrupt = |what| Err(Error::corrupt(file, position.offset, what, "another batch"));
        if self.end.sealed.is_some() {
            return corrupt("nothing after the end of the chunk");
        }
        let mut opened = false;
        each_record(chunk, position, payload, |offset, tag, hash, body| {
            let place = offset - chunk.base;
            match &mut self.held {
                Some(index) if self.together => put(index, tag, hash, offset),
                None if self.together => self.waiting.push((tag, *hash, offset)),
                _ => {}
            }
            match tag {
                Tag::Commit => {
                    let body = CommitBody::decode(file, place, offset, body)?;
                    self.last = Some((offset, body.sequence));
                    if self.end.first_commit == 0 {
                        self.end.first_commit = offset;
                    }
                }
                Tag::Reference => self.references.push((body.to_vec(), CommitHash::new(*hash))),
                Tag::Opening => {
                    let opening = Opening::decode(file, place, body)?;
                    opened = (opening.number, opening.base) == (chunk.number, chunk.base);
                }
                Tag::Seal => {
                    let seal = Seal::decode(file, place, body)?;
                    let is_right = seal.length == position.offset + Seal::BATCH
                        && (seal.sequence, seal.chain) == (position.sequence, position.chain);
                    if !is_right {
                        return corrupt("the end of this chunk");
                    }
                    let End { place, first_commit, .. } = self.end;
                    let place = Place { position, ..place };
                    self.end.sealed = Some(Checkpoint { place, first_commit });
                }
                _ => {}
            }
            Ok(())
        })?;
        if opened != (position.sequence == 0) {
            return corrupt("the batch that begins this chunk, and only there");
        }
        self.end.place.before = position.offset;
        self.held.as_mut().map_or(Ok(()), |index| index.settle_some())
    }

    /// What was read ends at `position`.
    pub(in crate::context::store) fn finish(
        mut self,
        state: &Mutex<State>,
        position: Position,
    ) -> End {
        self.end.place.position = position;
        let mut index = self.held.unwrap_or_else(|| lock(self.index));
        for (tag, hash, offset) in self.waiting {
            put(&mut index, tag, &hash, offset);
        }
        if self.together {
            index.reached = self.end.place;
        }
        let mut state = lock(state);
        if let Some((offset, sequence)) = self.last {
            state.last_commit = offset;
            state.sequence = sequence.saturating_add(1);
        }
        for (name, hash) in self.references {
            if *hash == [0; 32] {
                state.branches.remove(&name);
            } else {
                state.branches.insert(name, hash);
            }
        }
        self.end
    }
}

pub(in crate::context::store) fn put(
    index: &mut HashIndex,
    tag: Tag,
    hash: &[u8; 32],
    offset: u64,
) {
    match tag {
        Tag::Commit => index.put_commit(hash, offset),
        _ if tag.is_object() && index.keeps_objects() => index.put_object(hash, offset),
        _ => {}
    }
}

/// Calls `each` with logical offset, tag, hash and body of every record of a batch.
pub(in crate::context::store) fn each_record(
    chunk: &Chunk,
    position: Position,
    payload: &[u8],
    mut each: impl FnMut(u64, Tag, &[u8; 32], &[u8]) -> Result<()>,
) -> Result<()> {
    let file = &*chunk.path;
    let mut at = 0;
    while at < payload.len() {
        let rest = &payload[at..];
        let place = position.offset + (HEAD + at) as u64;
        let length = record::length(rest).filter(|length| *length <= rest.len() as u64);
        let length = length.ok_or_else(|| {
            Error::corrupt(file, place, "a record within its batch", "a longer one")
        })? as usize;
        let head = record::split(file, place, &rest[..length])?;
        each(chunk.base + place, head.tag, &head.hash, head.body)?;
        at += length;
    }
    Ok(())
}
