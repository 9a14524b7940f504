//! Calls of a simulated disk are counted, and chosen ones fail.

use std::io;

use crate::error::{Error, Result};

/// Which call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Any call of the disk or of a file.
    Any,
    /// Opening, listing, looking for, locking, or making a folder.
    Open,
    /// Reading bytes or a length.
    Read,
    /// Writing, setting a length, or preallocating. A failed write leaves some of its sectors.
    Write,
    /// Syncing a file or a folder. What a failed sync of a file should have made durable never will be; of
    /// a folder neither, after [`super::SimDisk::forget_names_on_failed_sync`].
    Sync,
    /// Renaming or linking.
    Rename,
    /// Removing a file or a folder.
    Remove,
    /// Whatever takes space; the error says that there is none.
    Space,
}

impl Fault {
    /// Every kind of fault.
    pub const ALL: [Fault; 8] = [
        Fault::Any,
        Fault::Open,
        Fault::Read,
        Fault::Write,
        Fault::Sync,
        Fault::Rename,
        Fault::Remove,
        Fault::Space,
    ];
}

/// How many calls there were, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Calls {
    /// Of [`Fault::Open`].
    pub opens: u64,
    /// Of [`Fault::Read`].
    pub reads: u64,
    /// Of [`Fault::Write`].
    pub writes: u64,
    /// Of [`Fault::Sync`].
    pub syncs: u64,
    /// Of [`Fault::Rename`].
    pub renames: u64,
    /// Of [`Fault::Remove`].
    pub removes: u64,
    /// Those of all the above that take space.
    pub growths: u64,
    /// Those of all the above that change or sync anything: what [`super::SimDisk::kill_at`] counts.
    pub mutations: u64,
}

impl Calls {
    /// How many calls a fault of this kind counts.
    #[must_use]
    pub fn of(&self, fault: Fault) -> u64 {
        match fault {
            Fault::Any => {
                self.opens + self.reads + self.writes + self.syncs + self.renames + self.removes
            }
            Fault::Open => self.opens,
            Fault::Read => self.reads,
            Fault::Write => self.writes,
            Fault::Sync => self.syncs,
            Fault::Rename => self.renames,
            Fault::Remove => self.removes,
            Fault::Space => self.growths,
        }
    }
}

/// A call about to be made.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) fault: Fault,
    pub(super) action: &'static str,
    pub(super) mutates: bool,
    pub(super) grows: bool,
}

impl Call {
    pub(super) fn reading(fault: Fault, action: &'static str) -> Self {
        Call { fault, action, mutates: false, grows: false }
    }

    pub(super) fn changing(fault: Fault, action: &'static str) -> Self {
        Call { fault, action, mutates: true, grows: false }
    }

    pub(super) fn growing(fault: Fault, action: &'static str) -> Self {
        Call { fault, action, mutates: true, grows: true }
    }
}

/// The count, and what is to fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) calls: Calls,
    /// Each with the count of its calls at which it strikes.
    armed: Vec<(Fault, u64)>,
    kill_at: Option<u64>,
    pub(super) dead: bool,
}

impl Faults {
    pub(super) fn arm(&mut self, n: u64, fault: Fault) {
        assert!(n > 0, "the first call is number 1");
        self.armed.push((fault, self.calls.of(fault) + n));
    }

    pub(super) fn disarm(&mut self) {
        self.armed.clear();
        self.kill_at = None;
    }

    pub(super) fn kill_at(&mut self, n: u64) {
        assert!(n > 0, "the first call is number 1");
        self.kill_at = Some(self.calls.mutations + n);
    }

    /// Counts a call on `path`, and fails if it is to fail.
    pub(super) fn enter(&mut self, call: Call, path: &str) -> Result<()> {
        let count = match call.fault {
            Fault::Open => &mut self.calls.opens,
            Fault::Read => &mut self.calls.reads,
            Fault::Write => &mut self.calls.writes,
            Fault::Sync => &mut self.calls.syncs,
            Fault::Rename => &mut self.calls.renames,
            Fault::Remove => &mut self.calls.removes,
            Fault::Any | Fault::Space => unreachable!("no call is of this class alone"),
        };
        *count += 1;
        self.calls.growths += u64::from(call.grows);
        self.calls.mutations += u64::from(call.mutates);
        self.dead |= call.mutates && self.kill_at.is_some_and(|at| self.calls.mutations >= at);
        if self.dead {
            return Err(error(call, path, io::Error::other("the simulated process was killed")));
        }
        let calls = self.calls;
        let concerns = |fault: Fault| match fault {
            Fault::Any => true,
            Fault::Space => call.grows,
            fault => fault == call.fault,
        };
        let strikes = |&(fault, at): &(Fault, u64)| concerns(fault) && calls.of(fault) == at;
        let Some(index) = self.armed.iter().position(strikes) else { return Ok(()) };
        Err(match self.armed.swap_remove(index).0 {
            Fault::Space => full(call, path),
            _ => error(call, path, io::Error::other("a simulated fault")),
        })
    }
}

fn error(call: Call, path: &str, source: io::Error) -> Error {
    Error::io(call.action, path, source)
}

/// `Io`: there is no space.
pub(super) fn full(call: Call, path: &str) -> Error {
    error(call, path, io::ErrorKind::StorageFull.into())
}
