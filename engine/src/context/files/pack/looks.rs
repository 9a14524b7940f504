//! What can be said of a place of the pack without following what lies there.

use std::sync::Weak;

use super::Pack;
use crate::context::files::record;
use crate::context::files::sparse::State;
use crate::context::hash::Hash;
use crate::error::{Kind, Result};

impl Pack {
    /// Whether the record at `offset` is there with all that it refers to.
    pub(crate) fn has_object(&self, offset: u64) -> Result<bool> {
        self.beside_swaps(|| {
            let Some(chunk) = self.chunk(offset) else { return Ok(false) };
            Ok(match chunk.state {
                State::Whole | State::Lower => true,
                State::Sparse(_) => {
                    self.entry(&chunk, offset)?.is_some_and(|entry| entry.is_object)
                }
                State::Gone => false,
            })
        })
    }

    /// Whether the collection that takes away, if one does, will take the object at `offset`.
    pub(crate) fn will_go(&self, offset: u64) -> bool {
        self.spill.get().and_then(Weak::upgrade).is_some_and(|writer| !writer.leaves(offset))
    }

    /// Whether the bytes at `offset` begin as the record of an object with `hash` does. What else they say is not
    /// followed, and that they are not of a record is no damage.
    pub(super) fn begins_as(&self, offset: u64, hash: &Hash) -> Result<bool> {
        let begun = self.beside_swaps(|| {
            let (chunk, position) = self.locate(offset)?;
            let mut bytes = Vec::with_capacity(record::HEAD_MAX + record::HASH);
            self.gather(&chunk, position, record::HEAD_MAX + record::HASH, false, &mut bytes)?;
            Ok(record::begins_as(&bytes, hash))
        });
        match begun {
            Err(error) if error.kind() == Kind::Collected => Ok(false),
            begun => begun,
        }
    }
}
