//! What went leaves the index "always": a walk over all objects, and a merge of what is dead behind it.

use std::ops::Bound;

use super::{HashIndex, offset};
use crate::context::hash::Hash;
use crate::error::{Error, Result};
use crate::table::Batch;

/// Where of the entries of objects as many are dead as this part of those that stay, and some, all are merged.
const DEAD_SHARE: u64 = 5;
const DEAD_FEW: u64 = 64;

/// So many bytes of entries a merge writes at most: the disk takes them beside what is there.
const MERGED_MAX: u64 = 16 << 20;

/// An entry of objects: its key, its value, and what the table counts for it beside these.
const ENTRY_BYTES: u64 = 32 + 8 + 16;

/// How far a walk over all objects has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweep {
    after: Option<Hash>,
    /// Objects that it has passed and left.
    kept: u64,
    /// Objects that the index had when it last removed some, and how many came since it began.
    known: Option<u64>,
    came: u64,
    pub(crate) stage: SweepStage,
}

/// What is done next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SweepStage {
    /// What goes is removed.
    #[default]
    Walking,
    /// A merge begins, which writes out the write buffer.
    Beginning,
    Merging,
    /// What was merged is saved: the files of before stay until then.
    Saving,
    Done,
}

/// What a part of such a walk did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swept {
    pub(crate) seen: usize,
    pub(crate) removed: usize,
    pub(crate) is_done: bool,
}

impl HashIndex {
    /// Looks at the next objects, at most `most`, and removes those of which `goes` says so by their offset.
    /// One seek, one page for some 90 of them, and an update.
    pub(crate) fn sweep(
        &mut self,
        sweep: &mut Sweep,
        most: usize,
        goes: impl Fn(u64) -> bool,
    ) -> Result<Swept> {
        let mut swept = Swept { seen: 0, removed: 0, is_done: true };
        // What was written again has taken the place of what would go.
        self.settle()?;
        let known = self.covered.objects;
        sweep.came += known.saturating_sub(sweep.known.unwrap_or(known));
        let Some(tables) = self.tables.as_mut().filter(|_| !self.read_only) else {
            return Ok(swept);
        };
        let from = sweep.after.as_ref().map_or(Bound::Unbounded, |hash| Bound::Excluded(&hash[..]));
        let mut cursor = tables.objects.cursor(from, Bound::Unbounded)?;
        let (mut batch, mut last) = (Batch::new(), None);
        while swept.seen < most
            && let Some((key, value)) = cursor.next()?
        {
            swept.seen += 1;
            if goes(offset(value)?) {
                batch.delete(key);
                swept.removed += 1;
            }
            last = Hash::try_from(key).ok();
        }
        drop(cursor);
        if swept.removed > 0 {
            tables.objects.update(&batch)?;
            self.covered.objects = self.covered.objects.saturating_sub(swept.removed as u64);
            self.unsaved += swept.removed as u64;
            tables.has_changed = true;
        }
        swept.is_done = swept.seen < most;
        sweep.after = last.or(sweep.after);
        sweep.kept += (swept.seen - swept.removed) as u64;
        sweep.known = Some(self.covered.objects);
        Ok(swept)
    }

    /// Whether the table has many more entries than objects that stay, by what `sweep` has just left and what came meanwhile:
    /// what is removed waits there with what removes it until enough has come to merge them, which few objects never do. A long
    /// table takes what it needs by itself, and would take much of the disk to be written again.
    pub(crate) fn is_worth_merging(&self, sweep: &Sweep) -> Result<bool> {
        let may_merge = !self.read_only && !cfg!(varvite_js);
        let Some(tables) = self.tables.as_ref().filter(|_| may_merge) else {
            return Ok(false);
        };
        let stats = tables.objects.stats()?;
        let stays = sweep.kept + sweep.came;
        let written = stays.saturating_mul(ENTRY_BYTES).saturating_add(stats.buffer_bytes);
        let is_much = stats.physical_entries > stays + stays / DEAD_SHARE + DEAD_FEW;
        Ok(is_much && written <= MERGED_MAX)
    }

    /// Bytes of entries that a merge begins with writing out.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let stats = self.tables.as_ref().and_then(|tables| tables.objects.stats().ok());
        stats.map_or(0, |stats| stats.buffer_bytes)
    }

    /// Begins to merge all objects into another table.
    pub(crate) fn begin_merging(&mut self) -> Result<()> {
        let Some(tables) = &mut self.tables else { return Ok(()) };
        tables.merged = None;
        let merged = tables.session.incremental_union("objects", &[&tables.objects]);
        match merged {
            Ok(merged) => tables.merged = Some(merged),
            Err(error) => {
                self.give_up_merging(Some(&error));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Merges about so many bytes of entries; returns how many that were, and how many are left.
    pub(crate) fn merge_some(&mut self, bytes: u64) -> Result<(u64, u64)> {
        let merged = self.tables.as_mut().and_then(|tables| tables.merged.as_mut());
        let Some(merged) = merged else { return Ok((0, 0)) };
        let before = merged.remaining_union_debt();
        let left = merged.supply_union_credits(bytes);
        let left = left.inspect_err(|error| self.give_up_merging(Some(error)))?;
        Ok((bytes.min(before), left))
    }

    /// What was merged takes the place of the table that it was merged of. `false` where nothing was.
    pub(crate) fn end_merging(&mut self) -> bool {
        let Some(tables) = &mut self.tables else { return false };
        let Some(merged) = tables.merged.take() else { return false };
        (tables.objects, tables.has_changed) = (merged, true);
        true
    }

    /// Ends a merge, if one is under way: the table stays as it is, and the room of what was merged is free again.
    pub(crate) fn give_up_merging(&mut self, error: Option<&Error>) {
        let Some(tables) = self.tables.as_mut().filter(|_| !cfg!(varvite_js)) else { return };
        if tables.merged.take().is_none() && error.is_none() {
            return;
        }
        tables.session.free_spares();
        if error.is_some_and(Error::is_no_space) {
            let sentence = "the disk has no room to merge the index of all objects behind a collection: what is dead of it \
                            stays until one finds room, or enough has come to merge it";
            self.warnings.add(sentence.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::Cache;
    use crate::context::files::chunk::Place;
    use crate::context::files::hash_index::Covered;
    use crate::context::hash;
    use crate::context::options::{Index, Options};
    use crate::disk::Disk;
    use crate::disk::sim::{Crash, SimDisk};
    use crate::file::append::Position;

    fn end(offset: u64) -> Place {
        let position = Position { offset, sequence: 8, chain: 7 };
        Place { chunk: 0, position, before: 600 }
    }

    fn opened(disk: &Arc<SimDisk>) -> HashIndex {
        let nothing = Covered::nothing(5, 0, Index::Always);
        let options = Options { index: Index::Always, ..Options::default() };
        let (disk, cache) = (Arc::clone(disk) as Arc<dyn Disk>, Cache::new(0));
        let mut index = HashIndex::closed(&disk, &options, &cache, nothing, false);
        index.open(Place::start(0)).unwrap();
        index
    }

    fn named(number: u64) -> Hash {
        hash::value(&number.to_le_bytes())
    }

    fn put(index: &mut HashIndex, numbers: std::ops::Range<u64>) {
        for number in numbers {
            index.put_object(&named(number), number);
            index.settle_some().unwrap();
        }
        index.settle().unwrap();
    }

    /// An index of so many objects, saved.
    fn made(disk: &Arc<SimDisk>, count: u64) -> HashIndex {
        let mut index = opened(disk);
        put(&mut index, 0..count);
        index.reach_end(end(700)).unwrap();
        index.save(end(700)).unwrap();
        index
    }

    /// Walks over all, which removes those of which `goes` says so.
    fn walked(index: &mut HashIndex, goes: impl Fn(u64) -> bool + Copy) -> Sweep {
        let mut sweep = Sweep::default();
        while !index.sweep(&mut sweep, 1_000, goes).unwrap().is_done {}
        sweep
    }

    fn has(index: &HashIndex, number: u64) -> bool {
        !index.known_objects(&[named(number)]).unwrap().is_empty()
    }

    #[test]
    fn a_long_index_is_not_merged() {
        let most = MERGED_MAX / ENTRY_BYTES;
        for (count, is_worth) in [(most * 2 + 2, false), (most, true)] {
            let mut index = made(&SimDisk::new(1), count);
            let sweep = walked(&mut index, |number| number % 2 == 0);
            assert_eq!(index.is_worth_merging(&sweep).unwrap(), is_worth, "{count}");
        }
    }

    /// What comes while the walk is under way is not dead, be it in front of it or behind.
    #[test]
    fn what_came_since_a_walk_began_is_not_dead() {
        let mut index = made(&SimDisk::new(1), 20_000);
        let (mut sweep, mut next) = (Sweep::default(), 20_000);
        while !index.sweep(&mut sweep, 500, |_| false).unwrap().is_done {
            put(&mut index, next..next + 500);
            next += 500;
        }
        assert!(next > 40_000 && !index.is_worth_merging(&sweep).unwrap());
    }

    /// Commits and checkpoints go on beside it, and the room of what is dead comes back.
    #[test]
    fn an_index_is_merged_beside_commits_and_checkpoints() {
        let disk = SimDisk::new(1);
        let mut index = made(&disk, 40_000);
        let sweep = walked(&mut index, |number| number % 8 > 0);
        assert!(index.is_worth_merging(&sweep).unwrap());
        index.begin_merging().unwrap();
        let (mut next, mut left, mut merged) = (40_000, 1, 0);
        while left > 0 {
            let some;
            (some, left) = index.merge_some(200_000).unwrap();
            merged += some;
            put(&mut index, next..next + 50);
            next += 50;
            if next == 40_100 {
                index.save(end(800)).unwrap();
                assert_eq!(opened(&disk.crash(Crash::Process)).covered(), Some(end(800)));
            }
        }
        assert!(next > 40_200 && merged >= 40_000 * ENTRY_BYTES, "{next} {merged}");
        assert!(index.end_merging() && !index.end_merging());
        index.save(end(900)).unwrap();
        drop(index);
        let index = opened(&disk);
        assert_eq!(index.covered(), Some(end(900)));
        for number in 0..next {
            assert_eq!(has(&index, number), number % 8 == 0 || number >= 40_000, "{number}");
        }
        let stats = index.tables.as_ref().unwrap().objects.stats().unwrap();
        assert!(stats.union_debt_bytes == 0 && stats.physical_entries < 8_000, "{stats:?}");
    }

    /// Where the disk has no room for it the index is as it was, and what was merged takes none.
    #[test]
    fn a_merge_that_finds_no_room_gives_it_back() {
        for beside in [10_000, 100_000, 400_000] {
            let disk = SimDisk::new(1);
            let mut index = made(&disk, 40_000);
            let sweep = walked(&mut index, |number| number % 4 == 0);
            index.tables.as_ref().unwrap().session.free_spares();
            let before = disk.total_bytes();
            disk.capacity(Some(before + beside));
            for _ in 0..2 {
                assert!(index.is_worth_merging(&sweep).unwrap());
                let begun = index.begin_merging();
                let failed = begun.and_then(|()| {
                    while index.merge_some(100_000)?.1 > 0 {}
                    Ok(())
                });
                assert!(failed.unwrap_err().is_no_space(), "{beside}");
                assert!(!index.end_merging());
                assert!(disk.total_bytes() <= before + 5_000, "{beside}: {}", disk.total_bytes());
            }
            assert_eq!(index.warnings.all().len(), 1);
            disk.capacity(None);
            put(&mut index, 40_000..40_010);
            for number in 0..40_010 {
                assert_eq!(has(&index, number), number % 4 > 0 || number >= 40_000, "{number}");
            }
        }
    }
}
