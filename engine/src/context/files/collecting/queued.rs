//! Marks that wait for one another: sets of all chunks together fit no cache of the processor, so the memory for a number of
//! them is asked for before the first is put in.

/// How many wait at most.
const MOST: usize = 64;

/// The mark of one record of an old chunk, which waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedMark {
    pub(crate) index: usize,
    pub(crate) distance: u64,
    pub(crate) is_object: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    marks: Vec<QueuedMark>,
}

impl Queued {
    /// Lets one more wait; returns whether there are as many as may.
    pub(crate) fn push(&mut self, mark: QueuedMark) -> bool {
        self.marks.push(mark);
        self.marks.len() >= MOST
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = QueuedMark> + '_ {
        self.marks.iter().copied()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = QueuedMark> + '_ {
        self.marks.drain(..)
    }
}
