//! Iterators that own what they need.

use varvite::{Bytes, Range, View};

use crate::error::Result;
use crate::slice::{KvPair, UserKey, UserValue};

/// An entry of an iterator, or the error in its place.
pub struct Guard(varvite::Result<(Bytes, Bytes)>);

impl Guard {
    /// The key and the value.
    pub fn into_inner(self) -> Result<KvPair> {
        let (key, value) = self.0?;
        Ok((key.into(), value.into()))
    }

    /// The key, and the value where `wants` says so.
    pub fn into_inner_if(
        self,
        wants: impl Fn(&UserKey) -> bool,
    ) -> Result<(UserKey, Option<UserValue>)> {
        let (key, value) = self.into_inner()?;
        let value = wants(&key).then_some(value);
        Ok((key, value))
    }

    /// The key.
    pub fn key(self) -> Result<UserKey> {
        Ok(self.0?.0.into())
    }

    /// The value.
    pub fn value(self) -> Result<UserValue> {
        Ok(self.0?.1.into())
    }

    /// The length of the value.
    pub fn size(self) -> Result<u32> {
        Ok(self.0?.1.len() as u32)
    }
}

/// Entries in key order, from either end, as of the moment when it was made. It borrows nothing and may go to
/// another thread. As long as it lives the folder of the database stays locked.
pub struct Iter(Option<Range>);

impl Iter {
    /// What `pick` takes from a view; nothing without one.
    pub(crate) fn over(view: Option<&View>, pick: impl FnOnce(&View) -> Range) -> Iter {
        Iter(view.map(pick))
    }
}

impl Iterator for Iter {
    type Item = Guard;

    fn next(&mut self) -> Option<Guard> {
        self.0.as_mut()?.next().map(Guard)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Guard> {
        self.0.as_mut()?.next_back().map(Guard)
    }
}
