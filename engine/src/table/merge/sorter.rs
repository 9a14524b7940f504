//! Sorts entries in bounded memory: full buffers are sorted and spilled as runs, which are merged.
//!
//! The runs are segments like any other, in the session's own folder, but nothing durable ever names
//! them: they go when they are read, when the sorter is dropped, or at the next opening after a crash.
//! Of several entries with one key the last one counts.
//!
//! Source: Knuth, The Art of Computer Programming 3, 5.4 (external sorting).

use std::sync::Arc;

use super::k_way::{Merge, MergeSource, SOURCES_MAX, no_fetch};
use super::output::BlobPlan;
use super::run_builder::RunBuilder;
use crate::cache::Charge;
use crate::error::Result;
use crate::table::bytes::{EntryKind, EntryRef, prefix};
use crate::table::runs::{ReadOptions, Run, RunReader};
use crate::table::shared::{Compression, SegmentStore};

/// Runs of one size that are merged into one, so that there are never more than a merge may have.
const FAN_IN: usize = 16;

/// Values stay in the sorted runs, however long they are, since they are soon written elsewhere.
const WHOLE: u32 = u32::MAX;

/// Where an entry lies in the arena. Later entries lie behind earlier ones.
#[derive(Clone, Copy)]
struct ArenaSpan {
    prefix: u64,
    at: u64,
    value_bytes: u32,
    key_bytes: u16,
}

/// A sorter that takes entries in any order.
pub struct Sorter {
    store: Arc<SegmentStore>,
    memory_bytes: u64,
    arena: Vec<u8>,
    places: Vec<ArenaSpan>,
    /// Spilled runs, oldest first, each with how often it was merged.
    runs: Vec<(u32, Arc<Run>)>,
    /// To the memory budget, and for how much.
    charge: Option<Charge>,
    charged_bytes: u64,
}

impl Sorter {
    /// A sorter that holds up to about `memory_bytes` of entries in memory.
    pub fn new(store: &Arc<SegmentStore>, memory_bytes: u64) -> Self {
        Sorter {
            store: Arc::clone(store),
            memory_bytes,
            arena: Vec::new(),
            places: Vec::new(),
            runs: Vec::new(),
            charge: store.charge(),
            charged_bytes: 0,
        }
    }

    /// Bytes of memory that it has taken from the system.
    fn taken(&self) -> u64 {
        (self.arena.capacity() + self.places.capacity() * size_of::<ArenaSpan>()) as u64
    }

    /// Charges what it has taken, after that changed.
    #[cold]
    fn charge_taken(&mut self) {
        self.charged_bytes = self.taken();
        if let Some(charge) = &self.charge {
            charge.set(self.charged_bytes);
        }
    }

    /// Takes the memory for `more` bytes of entries and their place: doubled as they come, but not
    /// beyond what was allowed.
    fn reserve(&mut self, more: usize) {
        /// What is taken at least, of each kind.
        const LEAST: usize = 4 << 10;
        let most = self.memory_bytes as usize;
        if self.arena.capacity() - self.arena.len() < more {
            let room = most.saturating_sub(self.arena.len()).min(self.arena.len().max(LEAST));
            self.arena.reserve_exact(room.max(more));
        }
        if self.places.capacity() == self.places.len() {
            let room = most / size_of::<ArenaSpan>();
            let room = room.saturating_sub(self.places.len());
            self.places.reserve_exact(room.min(self.places.len().max(LEAST)).max(1));
        }
        if self.taken() != self.charged_bytes {
            self.charge_taken();
        }
    }

    /// Adds an entry; writes when memory is full.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let held = self.arena.len() + self.places.len() * size_of::<ArenaSpan>();
        if held as u64 >= self.memory_bytes && !self.places.is_empty() {
            self.spill()?;
        }
        self.reserve(key.len() + value.len());
        self.places.push(ArenaSpan {
            prefix: prefix(key),
            at: self.arena.len() as u64,
            value_bytes: value.len() as u32,
            key_bytes: key.len() as u16,
        });
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        Ok(())
    }

    /// Sorts what is in memory and gives it to `emit`, then forgets it.
    fn drain(&mut self, mut emit: impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        let arena = &self.arena;
        let key = |place: &ArenaSpan| &arena[place.at as usize..][..usize::from(place.key_bytes)];
        self.places.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            let by_key = by_prefix.then_with(|| key(a).cmp(key(b)));
            // Where an empty key has an empty value, the next entry begins at the same place.
            by_key.then(a.at.cmp(&b.at)).then(a.value_bytes.cmp(&b.value_bytes))
        });
        let next = self.places.iter().skip(1).map(Some).chain([None]);
        for (place, next) in self.places.iter().zip(next) {
            if next.is_some_and(|next| next.prefix == place.prefix && key(next) == key(place)) {
                continue;
            }
            let value = place.at as usize + usize::from(place.key_bytes);
            let value = &arena[value..value + place.value_bytes as usize];
            emit(EntryRef { kind: EntryKind::Insert, key: key(place), value })?;
        }
        self.places.clear();
        self.arena.clear();
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let mut run = RunBuilder::new(&self.store, 0, 0, BlobPlan::new(WHOLE, Compression::None));
        self.drain(|entry| run.add(entry))?;
        self.runs.extend(run.finish()?.map(|run| (0, run)));
        while let Some(&(tier, _)) = self.runs.last() {
            let same = self.runs.iter().rev().take_while(|(other, _)| *other == tier).count();
            if same < FAN_IN {
                break;
            }
            self.merge_newest(same)?;
        }
        Ok(())
    }

    /// Makes one run of the newest `count`.
    fn merge_newest(&mut self, count: usize) -> Result<()> {
        let newest = self.runs.split_off(self.runs.len() - count);
        let tier = newest.iter().map(|(tier, _)| *tier).max().unwrap_or(0);
        let mut run = RunBuilder::new(&self.store, 0, 0, BlobPlan::new(WHOLE, Compression::None));
        merge(newest, |entry| run.add(entry))?;
        self.runs.extend(run.finish()?.map(|run| (tier + 1, run)));
        Ok(())
    }

    /// Gives every entry to `emit`, in the order of the keys.
    pub fn finish(mut self, emit: impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        if self.runs.is_empty() {
            return self.drain(emit);
        }
        self.spill()?;
        self.arena = Vec::new();
        self.places = Vec::new();
        self.charge_taken();
        // Up to 15 of each size are left, which in a long load is more than one merge takes.
        while self.runs.len() > SOURCES_MAX {
            self.merge_newest(FAN_IN)?;
        }
        merge(std::mem::take(&mut self.runs), emit)
    }
}

/// Merges runs, oldest first, whose segments go as they are read.
fn merge(
    runs: Vec<(u32, Arc<Run>)>,
    mut emit: impl FnMut(EntryRef<'_>) -> Result<()>,
) -> Result<()> {
    let mut sources = Vec::with_capacity(runs.len());
    for (_, run) in runs.into_iter().rev() {
        let options = ReadOptions { forget: true, ..ReadOptions::default() };
        sources.push(MergeSource::Run(RunReader::new(&run, None, options)?));
    }
    let mut merge = Merge::new(sources, 0, (None, no_fetch()), true);
    while merge.step(&mut emit)?.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::disk::memory::MemoryDisk;
    use crate::table::shared::SessionOptions;

    /// What is left of 393,215 spills: 15 runs of each of four sizes, and 5 of the largest.
    #[test]
    fn more_runs_than_a_merge_takes_are_merged_twice() {
        let disk = MemoryDisk::seeded(1);
        disk.create_directory("segments").unwrap();
        let lock = disk.lock("lock", "a test").unwrap();
        let options = SessionOptions::default();
        let store = SegmentStore::new(disk, options, (1, 1), 1, Some((lock, 1)));
        let mut sorter = Sorter::new(&store, 1 << 20);
        let sizes = (0..5).rev().flat_map(|tier| [tier].repeat(if tier == 4 { 5 } else { 15 }));
        for (number, tier) in sizes.enumerate() {
            // Of "last" the latest one counts.
            for key in [format!("{number:03}"), "last".to_owned()] {
                sorter.add(key.as_bytes(), &[number as u8]).unwrap();
            }
            sorter.spill().unwrap();
            // As if it had been merged so often.
            sorter.runs.last_mut().unwrap().0 = tier;
        }
        assert_eq!(sorter.runs.len(), SOURCES_MAX + 1);
        let mut found = Vec::new();
        sorter
            .finish(|entry| {
                found.push((String::from_utf8(entry.key.to_vec()).unwrap(), entry.value.to_vec()));
                Ok(())
            })
            .unwrap();
        let numbers = (0..=SOURCES_MAX).map(|number| (format!("{number:03}"), vec![number as u8]));
        let last = ("last".to_owned(), vec![SOURCES_MAX as u8]);
        assert_eq!(found, numbers.chain([last]).collect::<Vec<_>>());
    }
}
