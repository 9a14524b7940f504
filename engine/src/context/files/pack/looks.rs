//! What can be said of a place of the pack without following what lies there.

use std::sync::{Arc, Weak};

use super::Pack;
use crate::context::files::chunk::{Opening, Seal};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::record::{self, Tag};
use crate::context::files::sparse::{KeptRecord, State};
use crate::context::hash::Hash;
use crate::error::{Error, Kind, Result};
use crate::format::checksum::crc_append;
use crate::format::codec::Encoder;
use crate::sync::Ordering;

impl Pack {
    /// Whether the record at `offset` is there with all that it refers to.
    pub(crate) fn has_object(&self, offset: u64) -> Result<bool> {
        self.has(offset, |entry| entry.is_object)
    }

    /// Whether the record at `offset` is there at all.
    pub(crate) fn has_record(&self, offset: u64) -> Result<bool> {
        self.has(offset, |_| true)
    }

    fn has(&self, offset: u64, is_enough: impl Fn(KeptRecord) -> bool) -> Result<bool> {
        self.beside_swaps(|| {
            let Some(chunk) = self.chunk(offset) else { return Ok(false) };
            Ok(match chunk.state {
                State::Sparse(_) => self.entry(&chunk, offset)?.is_some_and(&is_enough),
                State::Gone => false,
                _ => true,
            })
        })
    }

    /// Whether nobody can say where the record of `offset` is, since the file that a collection has made of its chunk is
    /// damaged.
    pub(crate) fn is_torn(&self, offset: u64) -> bool {
        let Some(chunk) = self.chunk(offset) else { return false };
        let error = self.has_record(offset).err();
        error.is_some_and(|error| self.files.is_torn(&chunk, &error))
    }

    /// Does `read` with a record, and again where another that it is a patch of is no more: a collection that did away with
    /// that has first written the one without it. Until chunks are what they were when it began.
    pub(super) fn beside_merges<T>(&self, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let before = self.swaps.load(Ordering::Acquire);
            match read() {
                Err(error)
                    if error.kind() == Kind::Collected
                        && self.swaps.load(Ordering::Acquire) != before => {}
                outcome => return outcome,
            }
        }
    }

    /// Whether the collection that takes away, if one does, will take the object at `offset`.
    pub(crate) fn will_go(&self, offset: u64) -> bool {
        self.spill.get().and_then(Weak::upgrade).is_some_and(|writer| !writer.leaves(offset))
    }

    /// Where the record of `offset` is in the file that `chunk`, which is in the lower folder, has above. None where it
    /// is only below, or that file is damaged, or not there.
    pub(super) fn locate_above(
        &self,
        chunk: &Arc<Chunk>,
        offset: u64,
    ) -> Option<(Arc<Chunk>, u64)> {
        let above = chunk.above.as_ref().filter(|above| !above.is_lost.load(Ordering::Relaxed))?;
        match self.entry(above, offset) {
            Ok(entry) => Some((Arc::clone(above), entry?.place)),
            // Another file has taken its place.
            Err(_) if self.has_moved(above, offset) => {
                self.locate_above(&self.chunk(offset)?, offset)
            }
            Err(error) => {
                above.note_lost(&error);
                None
            }
        }
    }

    /// Where the record of `offset` is below, if `chunk` is the file above of a chunk that is there.
    pub(super) fn below(&self, chunk: &Arc<Chunk>, offset: u64) -> Option<(Arc<Chunk>, u64)> {
        if chunk.is_whole() || self.has_moved(chunk, offset) {
            return None;
        }
        let whole = self.chunk(offset).filter(|whole| whole.is_lower())?;
        let place = offset - whole.base;
        Some((whole, place))
    }

    /// Does `read` with the file that has the record of `offset`, and with the chunk below where that fails of what is above:
    /// what is damaged or lost there is whole below. With where it was done.
    pub(super) fn above_or_below<T>(
        &self,
        offset: u64,
        mut read: impl FnMut(&Arc<Chunk>, u64) -> Result<T>,
    ) -> Result<(Arc<Chunk>, u64, T)> {
        let (mut chunk, mut position) = self.locate(offset)?;
        let mut found = read(&chunk, position);
        if found.is_err()
            && let Some(below) = self.below(&chunk, offset)
        {
            (chunk, position) = below;
            found = read(&chunk, position);
        }
        Ok((chunk, position, found?))
    }

    /// Whether the record of `offset`, or something that it refers to, is in the lower folder alone.
    pub(crate) fn is_only_below(&self, offset: u64) -> bool {
        let chunk = self.chunk(offset).filter(|chunk| chunk.is_lower());
        chunk.is_some_and(|chunk| !self.is_object_above(&chunk, offset))
    }

    /// A record that is above as the base of a patch alone has not all there that it refers to.
    fn is_object_above(&self, chunk: &Arc<Chunk>, offset: u64) -> bool {
        let above = chunk.above.as_ref().filter(|above| !above.is_lost.load(Ordering::Relaxed));
        let Some(above) = above else { return false };
        match self.entry(above, offset) {
            Ok(entry) => entry.is_some_and(|entry| entry.is_object),
            Err(_) if self.has_moved(above, offset) => {
                self.chunk(offset).is_some_and(|chunk| self.is_object_above(&chunk, offset))
            }
            Err(error) => {
                above.note_lost(&error);
                false
            }
        }
    }

    /// The opening of `chunk`, which nothing but scans read. `Corrupt` when it is not what it was.
    pub(crate) fn read_opening(&self, chunk: &Arc<Chunk>) -> Result<Opening> {
        if chunk.is_whole() {
            return self.files.read_opening(chunk);
        }
        self.record(chunk.base + Opening::PLACE, |file, place, record| match record.tag {
            Tag::Opening => Opening::decode(file, place, record.body),
            other => Err(Error::corrupt(file, place, "an opening", format_args!("{other:?}"))),
        })
    }

    /// The end of `chunk`, if it has ended. `Corrupt` when what it says is not so.
    pub(crate) fn read_end(&self, chunk: &Arc<Chunk>) -> Result<Option<Seal>> {
        if chunk.is_whole() {
            return self.files.read_end(chunk);
        }
        let length = chunk.logical_end() - chunk.base;
        let offset = chunk.logical_end().saturating_sub(Seal::RECORD);
        self.record(offset, |file, place, record| {
            let corrupt = || Error::corrupt(file, place, "the end of the chunk", "another");
            if record.tag != Tag::Seal {
                return Err(corrupt());
            }
            let seal = Seal::decode(file, place, record.body)?;
            let mut bytes = Encoder::new();
            record::put(&mut bytes, self.store, offset, Tag::Seal, &record.hash, record.body);
            let chain = crc_append(seal.chain, bytes.bytes());
            // One that stands for several has the end of the last of them.
            let is_long =
                if chunk.numbers > 1 { seal.length < length } else { seal.length == length };
            let is_right = is_long && chunk.sealed() == Some(chain);
            if is_right { Ok(Some(seal)) } else { Err(corrupt()) }
        })
    }

    /// Whether the bytes at `offset` begin as the record of an object with `hash` does. What else they say is not
    /// followed, and that they are not of a record is no damage.
    pub(super) fn begins_as(&self, offset: u64, hash: &Hash) -> Result<bool> {
        let begun = self.beside_swaps(|| {
            let mut bytes = Vec::with_capacity(record::HEAD_MAX + record::HASH);
            self.above_or_below(offset, |chunk, position| {
                bytes.clear();
                self.gather(chunk, position, record::HEAD_MAX + record::HASH, false, &mut bytes)
            })?;
            Ok(record::begins_as(&bytes, hash))
        });
        match begun {
            Err(error) if error.kind() == Kind::Collected => Ok(false),
            begun => begun,
        }
    }
}
