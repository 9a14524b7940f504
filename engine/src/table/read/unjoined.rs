//! What a table's sources say of one key, from newest to oldest, joined once the value is asked for: keys alone need
//! neither the host's merge operator nor blob files.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::table::bytes::operator::MergeOperator;
use crate::table::bytes::{EntryKind, EntryRef};
use crate::table::runs::blob::HeldBlob;
use crate::table::shared::SegmentStore;

/// Empty before the first entry. The older ones count only where those before are upserts, which whoever fills it sees to.
#[derive(Default)]
pub struct Unjoined {
    /// The newest, unless that is in a blob file; after [`Unjoined::join`] the whole.
    pub value: Vec<u8>,
    blob: Option<HeldBlob>,
    older: Vec<Older>,
    /// Of all that is older and in no blob file.
    bytes: Vec<u8>,
}

/// One that is older.
enum Older {
    /// In `bytes`, up to here.
    Until(usize),
    Blob(HeldBlob),
}

impl Unjoined {
    /// Begins with the newest entry of a key.
    #[inline]
    pub fn begin(&mut self, store: &SegmentStore, entry: EntryRef<'_>) -> Result<()> {
        self.clear();
        if entry.kind == EntryKind::Blob {
            self.blob = Some(store.blob(entry.value)?);
        } else {
            self.value.clear();
            self.value.extend_from_slice(entry.value);
        }
        Ok(())
    }

    /// Adds an older entry, which has a value.
    pub fn add(&mut self, store: &SegmentStore, entry: EntryRef<'_>) -> Result<()> {
        self.older.push(if entry.kind == EntryKind::Blob {
            Older::Blob(store.blob(entry.value)?)
        } else {
            self.bytes.extend_from_slice(entry.value);
            Older::Until(self.bytes.len())
        });
        Ok(())
    }

    #[inline]
    fn clear(&mut self) {
        self.blob = None;
        self.older.clear();
        self.bytes.clear();
    }

    /// Memory that it has.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.value.capacity() + self.bytes.capacity() + self.older.capacity() * size_of::<Older>()
    }

    /// Whether `value` is all of it.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.blob.is_none() && self.older.is_empty()
    }

    /// Reads what is in blob files, and joins. After an error or a panic of the operator it may be tried again.
    pub fn join(&mut self, store: &SegmentStore, operator: Option<&MergeOperator>) -> Result<()> {
        let read = |blob: &HeldBlob| {
            let value = blob.file.read_whole(&blob.span)?;
            store.counters.add_blobs(std::slice::from_ref(blob));
            Ok::<_, Error>(value)
        };
        let mut joined = self.blob.as_ref().map(read).transpose()?;
        let mut start = 0;
        for part in &self.older {
            let older = match part {
                Older::Until(end) => {
                    Cow::Borrowed(&self.bytes[std::mem::replace(&mut start, *end)..*end])
                }
                Older::Blob(blob) => Cow::Owned(read(blob)?),
            };
            let operator = operator.expect("a table with upserts has a merge operator");
            let newer = joined.as_deref().unwrap_or(&self.value);
            joined = Some(operator.apply(&older, newer)?);
        }
        if let Some(joined) = joined {
            self.value = joined;
        }
        self.clear();
        Ok(())
    }
}
