//! What a simulated file holds now, what of it is durable, and the changes between the two.

use std::sync::Arc;

use crate::disk::entropy::Random;

/// What a disk writes whole or not at all.
pub(super) const SECTOR: usize = 512;

/// A change that is not durable yet. A write past the end is two of them, because its bytes and the
/// new length persist independently.
#[derive(Clone, Debug)]
pub(super) enum ContentChange {
    Bytes { offset: usize, bytes: Arc<[u8]> },
    Grow(usize),
    SetLength(usize),
}

/// Which part of a change a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    Whole,
    /// Each sector by a coin of this seed.
    Torn(u64),
}

impl ContentChange {
    /// How many sectors it touches: one that touches several can be torn.
    pub(super) fn sectors(&self) -> usize {
        match self {
            ContentChange::Bytes { offset, bytes } => {
                (offset + bytes.len()).div_ceil(SECTOR) - offset / SECTOR
            }
            ContentChange::Grow(_) | ContentChange::SetLength(_) => 0,
        }
    }
}

/// Content being put together; bytes beyond the length may still be uncovered by a later change.
struct Draft<'a> {
    bytes: &'a mut Vec<u8>,
    length: usize,
}

impl Draft<'_> {
    fn apply(&mut self, change: &ContentChange, keep: Keep) {
        match (change, keep) {
            (_, Keep::Nothing) => {}
            (ContentChange::Grow(length), _) => self.length = self.length.max(*length),
            (ContentChange::SetLength(length), _) => {
                self.bytes.truncate(*length);
                self.length = *length;
            }
            (ContentChange::Bytes { offset, bytes }, keep) => self.write(*offset, bytes, keep),
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8], keep: Keep) {
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let mut random = match keep {
            Keep::Torn(seed) => Some(Random::new(seed)),
            Keep::Whole | Keep::Nothing => None,
        };
        let mut at = offset;
        while at < end {
            let next = (at / SECTOR + 1) * SECTOR;
            let next = if random.is_some() { next.min(end) } else { end };
            if random.as_mut().is_none_or(|random| random.below(2) == 0) {
                self.bytes[at..next].copy_from_slice(&bytes[at - offset..next - offset]);
            }
            at = next;
        }
    }
}

fn apply<'a>(base: &mut Vec<u8>, changes: impl Iterator<Item = (&'a ContentChange, Keep)>) {
    let length = base.len();
    let mut draft = Draft { bytes: base, length };
    for (change, keep) in changes {
        draft.apply(change, keep);
    }
    let length = draft.length;
    draft.bytes.resize(length, 0);
}

/// One file. Images share what did not change.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) live: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
    /// In the order they were made, with their place among all changes of the disk.
    pub(super) changes: Vec<(u64, ContentChange)>,
    /// The length that the changes lead to: less than what is read where a failed sync lost the rest.
    pub(super) length: usize,
    /// Space that was preallocated.
    pub(super) reserved: usize,
    pub(super) handles: usize,
}

impl Content {
    /// A file that holds `bytes` durably.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        let (length, bytes) = (bytes.len(), Arc::new(bytes));
        Content { live: Arc::clone(&bytes), durable: bytes, length, ..Content::default() }
    }

    /// The space that the file takes.
    pub(super) fn space(&self) -> usize {
        self.live.len().max(self.reserved)
    }

    /// The space that the file would take with a length of `length`.
    pub(super) fn space_with(&self, length: usize) -> usize {
        self.space().max(length)
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], clock: &mut u64) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.length {
            self.change(ContentChange::Grow(end), clock);
        }
        self.change(ContentChange::Bytes { offset, bytes: bytes.into() }, clock);
    }

    pub(super) fn change(&mut self, change: ContentChange, clock: &mut u64) {
        apply(Arc::make_mut(&mut self.live), std::iter::once((&change, Keep::Whole)));
        match change {
            ContentChange::Grow(length) | ContentChange::SetLength(length) => self.length = length,
            ContentChange::Bytes { .. } => {}
        }
        self.changes.push((*clock, change));
        *clock += 1;
    }

    pub(super) fn sync(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        let kept = changes.iter().map(|(_, change)| (change, Keep::Whole));
        apply(Arc::make_mut(&mut self.durable), kept);
    }

    /// A failed sync: the system takes the changes for saved, so that no later sync saves them. `keep`
    /// says what of each was, all the same.
    pub(super) fn fail_sync(
        &mut self,
        lose_cache: bool,
        mut keep: impl FnMut(&ContentChange) -> Keep,
    ) {
        let changes = std::mem::take(&mut self.changes);
        let kept = changes.iter().map(|(_, change)| (change, keep(change)));
        apply(Arc::make_mut(&mut self.durable), kept);
        self.length = self.durable.len();
        if lose_cache {
            self.live = Arc::clone(&self.durable);
        }
    }

    /// The same file without its handles and what they reserved, as the next process finds it.
    pub(super) fn without_handles(&self) -> Content {
        Content { handles: 0, reserved: 0, ..self.clone() }
    }

    /// What a crash leaves, `keep` deciding for each change.
    pub(super) fn after_crash(&self, mut keep: impl FnMut(u64, &ContentChange) -> Keep) -> Content {
        if self.changes.is_empty() {
            let (live, durable) = (Arc::clone(&self.durable), Arc::clone(&self.durable));
            return Content { live, durable, length: self.durable.len(), ..Content::default() };
        }
        let mut bytes = Vec::clone(&self.durable);
        apply(&mut bytes, self.changes.iter().map(|(at, change)| (change, keep(*at, change))));
        Content::durable(bytes)
    }
}
