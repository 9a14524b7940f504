//! Handles of a simulated disk: files, locks, queues.

use std::sync::{Arc, Mutex};

use super::content::{ContentChange, Keep};
use super::fault::{Call, Fault};
use super::state::State;
use crate::disk::entropy::Random;
use crate::disk::memory::{checked_length, lock};
use crate::disk::{Access, Completion, File, Lock, Queue, Read, SerialQueue, path as paths};
use crate::error::{Error, Kind, Result};

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) number: u64,
    pub(super) path: String,
    pub(super) writable: bool,
    pub(super) access: Access,
}

impl SimFile {
    fn check_aligned(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self.access {
            Access::Buffered => Ok(()),
            Access::Direct => {
                paths::check_aligned(&self.path, offset, bytes.len(), bytes.as_ptr().addr())
            }
        }
    }

    fn check_writable(&self) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(Error::new(Kind::Io, format!("{} was opened only to read", self.path)))
    }
}

impl State {
    /// What a write that fails, or that the process dies in, does all the same: a first part.
    fn write_partly(&mut self, number: u64, offset: usize, bytes: &[u8]) {
        let part = self.random.below(bytes.len() as u64 + 1) as usize;
        let whole = part / super::content::SECTOR * super::content::SECTOR;
        let State { files, clock, .. } = self;
        files.get_mut(&number).expect("a handle's file exists").write(
            offset,
            &bytes[..whole],
            clock,
        );
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.check_aligned(offset, buffer)?;
        let mut state = lock(&self.state);
        state.faults.enter(Call::reading(Fault::Read, "read"), &self.path)?;
        let live = &state.files[&self.number].live;
        let start = live.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let length = buffer.len().min(live.len() - start);
        buffer[..length].copy_from_slice(&live[start..start + length]);
        Ok(length)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.check_aligned(offset, bytes)?;
        let start = checked_length(&self.path, offset)?;
        let end = checked_length(&self.path, offset.saturating_add(bytes.len() as u64))?;
        let call = Call::growing(Fault::Write, "write");
        let mut state = lock(&self.state);
        let was_dead = state.faults.dead;
        let outcome = state.faults.enter(call, &self.path);
        let outcome = outcome.and_then(|()| state.check_room(call, &self.path, self.number, end));
        if let Err(error) = outcome {
            // A full disk takes nothing here, and the dead do not write.
            if !was_dead && state.check_room(call, &self.path, self.number, end).is_ok() {
                state.write_partly(self.number, start, bytes);
            }
            return Err(error);
        }
        let State { files, clock, .. } = &mut *state;
        files.get_mut(&self.number).expect("a handle's file exists").write(start, bytes, clock);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut state = lock(&self.state);
        let was_dead = state.faults.dead;
        let outcome = state.faults.enter(Call::changing(Fault::Sync, "sync"), &self.path);
        let State { files, faults, lose_cache, save_some, random, .. } = &mut *state;
        let (dead, content) = (faults.dead, files.get_mut(&self.number));
        let content = content.expect("a handle's file exists");
        match outcome {
            Ok(()) => content.sync(),
            // The dead never asked for the sync, so what was written may still persist.
            Err(_) if was_dead || dead => {}
            Err(_) => content.fail_sync(*lose_cache, |change| match random.below(3) {
                0 if *save_some && change.sectors() > 1 => Keep::Torn(random.next()),
                1 if *save_some => Keep::Whole,
                _ => Keep::Nothing,
            }),
        }
        outcome
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.check_writable()?;
        let length = checked_length(&self.path, length_bytes)?;
        let call = Call::growing(Fault::Write, "set the length of");
        let mut state = lock(&self.state);
        state.faults.enter(call, &self.path)?;
        state.check_room(call, &self.path, self.number, length)?;
        let State { files, clock, .. } = &mut *state;
        let content = files.get_mut(&self.number).expect("a handle's file exists");
        content.reserved = content.reserved.min(length);
        content.change(ContentChange::SetLength(length), clock);
        Ok(())
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        self.check_writable()?;
        let length = checked_length(&self.path, length_bytes)?;
        let call = Call::growing(Fault::Write, "reserve space for");
        let mut state = lock(&self.state);
        state.faults.enter(call, &self.path)?;
        state.check_room(call, &self.path, self.number, length)?;
        let content = state.files.get_mut(&self.number).expect("a handle's file exists");
        content.reserved = content.reserved.max(length);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        let mut state = lock(&self.state);
        state.faults.enter(Call::reading(Fault::Read, "measure"), &self.path)?;
        Ok(state.files[&self.number].live.len() as u64)
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn access(&self) -> Access {
        self.access
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        let content = state.files.get_mut(&self.number).expect("a handle's file exists");
        content.handles -= 1;
        if content.handles == 0 {
            state.closed(self.number);
        }
    }
}

#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) path: String,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        lock(&self.state).held.remove(&self.path);
    }
}

/// Completes any of its reads next.
#[derive(Debug)]
pub(super) struct SimQueue {
    serial: SerialQueue,
    random: Random,
}

impl SimQueue {
    pub(super) fn new(depth: usize, seed: u64) -> Self {
        SimQueue { serial: SerialQueue::new(depth), random: Random::new(seed) }
    }
}

impl Queue for SimQueue {
    fn depth(&self) -> usize {
        self.serial.depth()
    }

    fn pending(&self) -> usize {
        self.serial.pending()
    }

    fn submit(&mut self, read: Read) -> Result<()> {
        self.serial.submit(read)
    }

    fn complete(&mut self) -> Result<Option<Completion>> {
        let count = self.serial.pending() as u64;
        if count > 0 {
            let next = self.random.below(count) as usize;
            self.serial.waiting.swap(0, next);
        }
        self.serial.complete()
    }
}
