//! Hashes of children that memory has no room for, in a file: one read instead of one a child.
//!
//! What it gives back is believed only after it was hashed against its node's record, so nothing is synced
//! and no byte of it matters: a file that is damaged, cut or full costs reads. It has a name only while it is
//! made, so it goes with the process. Slots of a kibibyte, any of which take a vector together, are given anew
//! as soon as what they hold is of no use; when all are taken, the hand passes on. Format document:
//! `docs/format/pack.md`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::context::hash::Hash;
use crate::disk::{Access, Disk, File, Mode, remove_quietly};
use crate::error::Result;
use crate::sync::{Mutex, lock};

/// Hashes in a slot: of all children of most branches.
const SLOT_HASHES: usize = 32;
const SLOT_BYTES: u64 = (SLOT_HASHES * size_of::<Hash>()) as u64;

/// Ends the slots of a vector.
const NONE: u32 = u32::MAX;

/// The file, and what is where in it.
#[derive(Debug)]
pub(crate) struct EvictedHashes {
    disk: Arc<dyn Disk>,
    path: String,
    state: Mutex<EvictedState>,
}

#[derive(Debug)]
struct EvictedState {
    /// The most slots; 0 once it is turned off.
    slots_max: u32,
    file: Option<Arc<dyn File>>,
    /// The first slot of what is kept for an offset.
    first: HashMap<u64, u32>,
    slots: Vec<HashSlot>,
    free: Vec<u32>,
    hand: u32,
}

#[derive(Clone, Copy, Debug)]
struct HashSlot {
    /// Offset of the node; 0 for none.
    owner: u64,
    next: u32,
}

impl EvictedHashes {
    /// Makes no file before something is kept; then one at `path` of at most `bytes_max`.
    pub(crate) fn new(disk: Arc<dyn Disk>, path: String, bytes_max: u64) -> EvictedHashes {
        let slots_max = (bytes_max / SLOT_BYTES).min(u64::from(NONE)) as u32;
        let state = EvictedState {
            slots_max,
            file: None,
            first: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
        };
        EvictedHashes { disk, path, state: Mutex::new(state) }
    }

    /// Keeps the hashes of the children of the node at `offset`, if that can be. An error turns it off.
    pub(crate) fn put(&self, offset: u64, hashes: &[Hash]) {
        let mut state = lock(&self.state);
        let count = hashes.len().div_ceil(SLOT_HASHES);
        // One that is wider than a quarter of the file would cost too many others their place.
        if count == 0 || count > state.slots_max as usize / 4 || state.first.contains_key(&offset) {
            return;
        }
        if self.write(&mut state, offset, hashes).is_err() {
            state.turn_off();
        }
    }

    fn write(&self, state: &mut EvictedState, offset: u64, hashes: &[Hash]) -> Result<()> {
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(state.file.insert(self.make()?)),
        };
        let mut next = NONE;
        for part in hashes.chunks(SLOT_HASHES).rev() {
            let slot = state.slot();
            file.write_at(u64::from(slot) * SLOT_BYTES, part.as_flattened())?;
            // Without an owner until the whole is there, so that the hand passes over its own.
            state.slots[slot as usize].next = next;
            next = slot;
        }
        state.first.insert(offset, next);
        while next != NONE {
            let slot = &mut state.slots[next as usize];
            slot.owner = offset;
            next = slot.next;
        }
        Ok(())
    }

    /// A new file, whose name goes at once: no process finds it, and what a crash leaves is free.
    fn make(&self) -> Result<Arc<dyn File>> {
        let file = self.disk.open(&self.path, Mode::Create, Access::Buffered)?;
        // Where it cannot be removed, the next opening to write does it.
        remove_quietly(&*self.disk, &self.path);
        Ok(file)
    }

    /// What may be the `count` hashes of the children of the node at `offset`: for the caller to verify.
    pub(crate) fn get(&self, offset: u64, count: usize) -> Option<Vec<Hash>> {
        let (file, slots) = {
            let state = lock(&self.state);
            let mut slot = *state.first.get(&offset)?;
            let mut slots = Vec::with_capacity(count.div_ceil(SLOT_HASHES));
            while slot != NONE {
                slots.push(slot);
                slot = state.slots[slot as usize].next;
            }
            (Arc::clone(state.file.as_ref()?), slots)
        };
        if slots.len() != count.div_ceil(SLOT_HASHES) {
            return None;
        }
        let mut hashes = vec![[0; size_of::<Hash>()]; count];
        // Another thread may give the slots anew meanwhile, which is like damage.
        for (part, slot) in hashes.chunks_mut(SLOT_HASHES).zip(slots) {
            let read = file.read_exact_at(u64::from(slot) * SLOT_BYTES, part.as_flattened_mut());
            if read.is_err() {
                self.forget(offset);
                return None;
            }
        }
        Some(hashes)
    }

    /// Gives up what is kept for an offset, because it is of no use any more.
    pub(crate) fn forget(&self, offset: u64) {
        lock(&self.state).forget(offset);
    }

    /// Turns it off, so that its space is for what is written; `false` if it took none.
    pub(crate) fn give_up(&self) -> bool {
        let mut state = lock(&self.state);
        let took = state.file.is_some();
        if took {
            state.turn_off();
        }
        took
    }

    /// How many nodes something is kept of.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        lock(&self.state).first.len()
    }

    /// The file, to be damaged.
    #[cfg(test)]
    pub(crate) fn file(&self) -> Option<Arc<dyn File>> {
        lock(&self.state).file.clone()
    }
}

impl EvictedState {
    /// A slot that is free from now on.
    fn slot(&mut self) -> u32 {
        loop {
            if let Some(slot) = self.free.pop() {
                return slot;
            }
            let count = self.slots.len() as u32;
            if count < self.slots_max {
                self.slots.push(HashSlot { owner: 0, next: NONE });
                return count;
            }
            self.hand = (self.hand + 1) % count;
            self.forget(self.slots[self.hand as usize].owner);
        }
    }

    fn forget(&mut self, offset: u64) {
        let Some(mut slot) = self.first.remove(&offset) else { return };
        while slot != NONE {
            self.free.push(slot);
            let freed = HashSlot { owner: 0, next: NONE };
            slot = std::mem::replace(&mut self.slots[slot as usize], freed).next;
        }
    }

    fn turn_off(&mut self) {
        *self = EvictedState {
            slots_max: 0,
            file: None,
            first: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::disk::sim::{Fault, SimDisk};

    fn hashes(offset: u64, count: usize) -> Vec<Hash> {
        (0..count).map(|place| [(offset as usize + place) as u8; 32]).collect()
    }

    #[test]
    fn it_gives_back_what_it_keeps_within_its_bound_and_leaves_no_name() {
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let kept = EvictedHashes::new(Arc::clone(&disk), "0000.hashes".to_owned(), 64 << 10);
        assert!(kept.get(1, 2).is_none() && kept.file().is_none());
        let width = |offset: u64| 2 + (offset as usize * 7) % 200;
        for offset in 1..2_000 {
            kept.put(offset, &hashes(offset, width(offset)));
            assert_eq!(kept.get(offset, width(offset)), Some(hashes(offset, width(offset))));
            if offset % 3 == 0 {
                kept.forget(offset);
                assert_eq!(kept.get(offset, width(offset)), None);
            }
            assert_eq!(kept.get(offset, 300), None, "of another width");
        }
        assert!(disk.list("").unwrap().is_empty());
        assert!(kept.file().unwrap().len().unwrap() <= 64 << 10);
        let found =
            (1..2_000).filter_map(|offset| Some((offset, kept.get(offset, width(offset))?)));
        let found: Vec<(u64, Vec<Hash>)> = found.collect();
        assert!(found.len() > 10 && found.len() == kept.count());
        assert!(found.iter().all(|(offset, found)| *found == hashes(*offset, width(*offset))));
        for (offset, _) in &found {
            kept.forget(*offset);
        }
        let state = lock(&kept.state);
        assert_eq!((state.free.len(), state.slots.len()), (64, 64), "no slot is lost");
        drop(state);
        kept.put(1, &hashes(1, 17 * 32));
        assert_eq!(kept.count(), 0, "wider than a quarter");
    }

    #[test]
    fn a_disk_that_fails_turns_it_off_and_a_file_that_is_cut_gives_nothing() {
        for fault in [Fault::Open, Fault::Write, Fault::Space] {
            let disk = SimDisk::new(1);
            let kept =
                EvictedHashes::new(Arc::clone(&disk) as _, "0000.hashes".to_owned(), 1 << 20);
            if fault != Fault::Open {
                kept.put(1, &hashes(1, 32));
                assert_eq!(kept.get(1, 32), Some(hashes(1, 32)));
            }
            disk.fail_at(1, fault);
            kept.put(2, &hashes(2, 32));
            kept.put(3, &hashes(3, 32));
            assert!(kept.count() == 0 && kept.file().is_none(), "{fault:?}");
            assert!(kept.get(1, 32).is_none() && disk.list("").unwrap().is_empty());
        }
        let kept = EvictedHashes::new(MemoryDisk::seeded(1), "0000.hashes".to_owned(), 1 << 20);
        (1..=2).for_each(|offset| kept.put(offset, &hashes(offset, 32)));
        kept.file().unwrap().set_len(1_500).unwrap();
        assert_eq!((kept.get(1, 32), kept.get(2, 32)), (Some(hashes(1, 32)), None));
        assert_eq!(kept.count(), 1, "and it is not read again");
        let none = EvictedHashes::new(MemoryDisk::seeded(1), "0000.hashes".to_owned(), 0);
        none.put(1, &hashes(1, 2));
        assert!(none.count() == 0 && none.file().is_none());
    }
}
