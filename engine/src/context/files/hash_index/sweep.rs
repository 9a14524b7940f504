//! What went leaves the index "always": a walk over all objects, and a merge of what is dead behind it.

use std::ops::Bound;

use super::{HashIndex, offset};
use crate::context::hash::Hash;
use crate::error::Result;
use crate::table::Batch;

/// Where of the entries of objects as many are dead as this part of those that stay, and some, all are merged.
const DEAD_SHARE: u64 = 5;
const DEAD_FEW: u64 = 64;

/// How far a walk over all objects has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweep {
    after: Option<Hash>,
    /// Objects that it has passed and left.
    kept: u64,
    /// It is over, and what is dead is merged away.
    pub(crate) is_merging: bool,
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
        Ok(swept)
    }

    /// Begins to merge all objects, of which `sweep` has just left so many, if the table has many more entries: what is removed
    /// waits there with what removes it until enough has come to merge them, which few objects never do. Writes out
    /// the write buffer.
    pub(crate) fn begin_merging(&mut self, sweep: &mut Sweep) -> Result<bool> {
        let Some(tables) = self.tables.as_mut().filter(|_| !self.read_only) else {
            return Ok(false);
        };
        let entries = tables.objects.stats()?.physical_entries;
        if entries <= sweep.kept + sweep.kept / DEAD_SHARE + DEAD_FEW {
            return Ok(false);
        }
        tables.objects = tables.session.incremental_union("objects", &[&tables.objects])?;
        (tables.has_changed, tables.has_merged) = (true, true);
        sweep.is_merging = true;
        Ok(true)
    }

    /// Merges about so many bytes of entries of what was begun; returns how many are left.
    pub(crate) fn merge_some(&mut self, bytes: u64) -> Result<u64> {
        let Some(tables) = &mut self.tables else { return Ok(0) };
        tables.objects.supply_union_credits(bytes)
    }

    /// Whether it was merged since it was saved, and has at most so many bytes now.
    pub(crate) fn has_merged(&self, most: u64) -> bool {
        let merged = self.tables.as_ref().filter(|tables| tables.has_merged);
        merged.is_some_and(|it| it.objects.stats().is_ok_and(|stats| stats.disk_bytes <= most))
    }
}
