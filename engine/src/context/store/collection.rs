//! What is known of a collection that is under way. It lies with the writer, who asks it what a batch may
//! refer to.

use std::collections::HashMap;
use std::sync::Arc;

use crate::context::files::chunk_files::Chunk;
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::collecting::barrier::Barrier;
use crate::context::files::collecting::marks::{Marks, Merging};
use crate::context::files::collecting::rewrite::{Comparing, Rewriting};
use crate::context::files::control::{Cursor, Horizon, Row};
use crate::context::files::hash_index::{HashIndex, Sweep, SweepStage};
use crate::context::files::pack::Pack;
use crate::context::files::paths;
use crate::context::hash::{CommitHash, Hash};
use crate::error::{Error, Result};

/// Which commits a collection keeps, beside those that branches and pins name, and which stay above in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// So many, the newest.
    Newest(u64),
    /// Those from a moment on, in seconds since 1970: all from the oldest commit on that is not older, in the
    /// order in which the store took them.
    Since(i64),
}

impl Keep {
    /// Whether a commit of this date is kept to which so many newer ones lead. The newest always is.
    pub(super) fn keeps(&self, newer: u64, date: i64) -> bool {
        match *self {
            Keep::Newest(count) => newer < count.max(1),
            Keep::Since(since) => newer == 0 || date >= since,
        }
    }
}

/// What a collection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CollectPhase {
    /// None is under way.
    #[default]
    None,
    /// It finds out what stays; nothing was taken away.
    Marking,
    /// It takes away what does not stay; older commits are collected already.
    Cleaning,
}

/// How far a collection is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CollectStatus {
    /// What it does.
    pub phase: CollectPhase,
    /// Its steps do nothing until it is resumed.
    pub is_paused: bool,
    /// The commit from which on all stays.
    pub target: Option<CommitHash>,
    /// The commit from which on all is there, since a collection began to take away what is older; none where none did.
    pub history_from: Option<CommitHash>,
    /// Chunks that it has not passed, of those that it looks at now; for a reader those to be cleaned.
    pub chunks_left: u64,
    /// Bytes of the files that it has still to look at: while it marks those with marks ahead and those that it
    /// will clean. A credit passes some KiB of them: more of what goes, fewer of what stays. A reader knows
    /// those to be cleaned.
    pub left_bytes: u64,
    /// About how many credits it still takes, by what the bytes that it has passed took since it began or the store was
    /// opened: over those of a step, in how many steps it ends. None while it has passed little, once it is rid of all but what the index has of it, which is
    /// not in this, and for a reader.
    pub left_credits: Option<u64>,
    /// Bytes of files that it has put others in the place of, less those of the others, since the store was
    /// opened. They are free when the last reader has let go.
    pub reclaimed_bytes: u64,
    /// How many have ended.
    pub collections: u64,
    /// About what it takes of memory now, within no budget: most are its marks, some bytes for each old record that
    /// stays. 0 for a reader.
    pub memory_bytes: u64,
}

/// What becomes of the chunk that is being cleaned.
#[derive(Debug)]
pub(super) enum Sifting {
    Comparing(Comparing),
    Rewriting(Box<Rewriting>),
    /// All is in its file, which is to be synced.
    Copied(Box<Rewriting>),
    /// A file at this path is whole and synced; this is to name it, and does not yet.
    Written(String, Row),
}

/// One that is under way.
#[derive(Debug)]
pub(super) struct Collection {
    /// Where history will begin, or does.
    pub(super) horizon: Horizon,
    /// Nobody else has them before it takes away; from then on they stay what they are.
    pub(super) marks: Arc<Marks>,
    /// What stays is known, and older commits are collected.
    pub(super) cleaning: bool,
    /// The next chunk to be cleaned, by number, is the one before.
    pub(super) next: u64,
    pub(super) sifting: Option<Sifting>,
    /// How far the index is rid of what went, once all chunks are clean.
    pub(super) sweep: Option<Sweep>,
    pub(super) is_swept: bool,
    /// How far the index was made to lead to what stays, where it may lead to copies of that.
    pub(super) leading: Option<Leading>,
    pub(super) is_led: bool,
    /// Bytes that it had to look at in the beginning, and credits that it has taken.
    all_bytes: u64,
    pub(super) spent: u64,
}

/// Old objects that stay, in order.
#[derive(Debug, Default)]
pub(super) struct Leading {
    /// The chunk that is read.
    reader: Option<ChunkReader>,
    /// Logical offset of the next.
    next: u64,
    /// One of them is elsewhere too, and stays there: the next collection may take either.
    twice: bool,
}

/// What looking at an object of the index costs, removing one, and beginning with either.
const SEEN: u64 = 256;
const REMOVED: u64 = 1024;
const SEEK: u64 = 64 << 10;

/// What merging a byte of its entries costs.
const MERGED: u64 = 4;

/// What a swap or a sync costs beside the bytes.
pub(super) const SWAP: u64 = 768 << 10;

/// What beginning to merge the index costs, which writes out its write buffer.
fn begin_cost(index: &HashIndex) -> u64 {
    SEEK + index.buffer_bytes() * MERGED
}

/// What saving it costs, of which no byte was synced.
fn save_cost(index: &HashIndex) -> u64 {
    SWAP + index.disk_bytes() + index.buffer_bytes() * MERGED
}

/// What asking the index for an object costs.
const LED: u64 = 4096;

impl Leading {
    /// So many of them, with their hashes; none after the last.
    fn next_objects(
        &mut self,
        pack: &Pack,
        marks: &Marks,
        most: usize,
    ) -> Result<Vec<(Hash, u64)>> {
        let mut found = Vec::with_capacity(most);
        while found.len() < most {
            if self.reader.is_none() {
                let chunks = pack.chunks();
                let after = chunks.iter().find(|chunk| {
                    chunk.has_file() && chunk.logical_end() > self.next && marks.keeps(chunk)
                });
                let Some(chunk) = after else { return Ok(found) };
                self.next = self.next.max(chunk.base);
                self.reader = Some(ChunkReader::open(pack, Arc::clone(chunk))?);
            }
            let reader = self.reader.as_mut().expect("it was just put there");
            let chunk = Arc::clone(&reader.chunk);
            let Some(offset) = marks.object_from(&chunk, self.next) else {
                (self.reader, self.next) = (None, chunk.logical_end());
                continue;
            };
            let (tag, hash) = reader.named(pack, offset)?;
            self.next = offset + 1;
            if tag.is_object() {
                found.push((hash, offset));
            }
        }
        Ok(found)
    }
}

impl Collection {
    /// Of one that has come to chunk `cleaned`, if any: what that and the ones behind it have stays, so none of them is
    /// cleaned again. `Corrupt` when no chunk begins where old ones are said to end, or none is old.
    pub(super) fn new(
        pack: &Pack,
        horizon: Horizon,
        cleaned: Option<u64>,
        merging: Merging,
    ) -> Result<Collection> {
        let chunks = pack.chunks();
        let next = chunks.iter().find(|chunk| chunk.base >= horizon.offset);
        let is_old = chunks.first().is_some_and(|first| first.base < horizon.commit);
        let Some(next) = next.filter(|_| is_old && horizon.commit < horizon.offset) else {
            let expected = "a collection of chunks that are there";
            let found = format!("one up to logical offset {}", horizon.offset);
            return Err(Error::corrupt(paths::CONTROL, 0, expected, found));
        };
        let cleaned = cleaned.and_then(|number| chunks.iter().find(|it| it.number >= number));
        // What a crash leaves is sparse from there on, or gone.
        let is_clean = |chunk: &&Arc<Chunk>| {
            let base = chunk.base;
            let behind = chunks.iter().filter(|it| (base..horizon.commit).contains(&it.base));
            base < horizon.commit && behind.clone().all(|chunk| !chunk.is_whole())
        };
        let cleaned = cleaned.filter(is_clean);
        let (next, clean) = (cleaned.unwrap_or(next).number, cleaned.map(|chunk| chunk.base));
        let (edge, kept) = (horizon.commit, &horizon.kept);
        let marks = Marks::begin(pack, edge, kept, clean, merging)?;
        let mut collection = Collection {
            horizon,
            marks: Arc::new(marks),
            cleaning: false,
            next,
            sifting: None,
            sweep: None,
            is_swept: false,
            leading: None,
            is_led: false,
            all_bytes: 0,
            spent: 0,
        };
        collection.all_bytes = collection.left_bytes(&chunks);
        Ok(collection)
    }

    /// What may be referred to beside it.
    pub(super) fn barrier<'a>(&'a self, pack: &'a Pack) -> Barrier<'a> {
        if self.cleaning {
            Barrier::cleaning(pack, self.horizon.commit, &self.marks)
        } else {
            Barrier::marking(pack, self.horizon.commit)
        }
    }

    /// Keeps what was referred to, which is there.
    pub(super) fn keep(&mut self, roots: &[(u64, bool)]) -> Result<()> {
        roots.iter().try_for_each(|(offset, is_object)| self.marking().add(*offset, *is_object))
    }

    /// Its marks, to add some.
    pub(super) fn marking(&mut self) -> &mut Marks {
        Arc::get_mut(&mut self.marks).expect("nobody else has them before it takes away")
    }

    /// Rids the index of some objects that went, and then merges some of it if much of it is dead; returns what that cost. An
    /// index that is damaged, or behind, is made again without what went.
    pub(super) fn sweep(&mut self, index: &mut HashIndex, credits: u64) -> u64 {
        let Some(mut sweep) = self.sweep.take() else { return 0 };
        let spent = self.sweep_some(index, &mut sweep, credits);
        let spent = spent.unwrap_or_else(|_| {
            sweep.stage = SweepStage::Done;
            SEEK
        });
        self.is_swept = sweep.stage == SweepStage::Done;
        self.sweep = Some(sweep).filter(|_| !self.is_swept);
        spent
    }

    fn sweep_some(&self, index: &mut HashIndex, sweep: &mut Sweep, credits: u64) -> Result<u64> {
        let (marks, edge) = (&self.marks, self.horizon.commit);
        let goes = |offset| offset < edge && !marks.has_object(offset);
        match sweep.stage {
            SweepStage::Walking => {
                let most = (credits / SEEN).clamp(1, 4096) as usize;
                let swept = index.sweep(sweep, most, goes)?;
                if swept.is_done {
                    let is_worth = index.is_worth_merging(sweep)?;
                    sweep.stage = if is_worth { SweepStage::Beginning } else { SweepStage::Done };
                }
                Ok(SEEK + swept.seen as u64 * SEEN + swept.removed as u64 * REMOVED)
            }
            // The package for JavaScript leaves that to the table's own merges.
            _ if cfg!(varvite_js) => unreachable!("nothing else is begun there"),
            SweepStage::Beginning => {
                let spent = begin_cost(index);
                index.begin_merging()?;
                sweep.stage = SweepStage::Merging;
                Ok(spent)
            }
            SweepStage::Merging => {
                let (merged, left) = index.merge_some((credits / MERGED).max(1))?;
                if left == 0 {
                    sweep.stage =
                        if index.end_merging() { SweepStage::Saving } else { SweepStage::Done };
                }
                Ok(merged.max(1) * MERGED)
            }
            SweepStage::Saving | SweepStage::Done => {
                sweep.stage = SweepStage::Done;
                Ok(save_cost(index))
            }
        }
    }

    /// Whether what was merged of the index is saved next.
    pub(super) fn saves_index(&self) -> bool {
        !cfg!(varvite_js)
            && self.sweep.as_ref().is_some_and(|sweep| sweep.stage == SweepStage::Saving)
    }

    /// What the next part of ridding the index costs at least, if it is one that is done whole.
    pub(super) fn next_of_index(&self, index: &HashIndex) -> u64 {
        match self.sweep.as_ref().map(|sweep| sweep.stage) {
            _ if cfg!(varvite_js) => 0,
            Some(SweepStage::Beginning) => begin_cost(index),
            Some(SweepStage::Saving) => save_cost(index),
            _ => 0,
        }
    }

    /// Lets the index lead to some old objects that stay, where it leads to copies that go; returns what that
    /// cost, none when it is done. An index that is damaged is made again, and the next collection does this.
    pub(super) fn lead(
        &mut self,
        pack: &Pack,
        index: &mut HashIndex,
        credits: u64,
    ) -> Result<Option<u64>> {
        let Some(mut leading) = self.leading.take() else { return Ok(None) };
        let most = (credits / LED).clamp(1, 1024) as usize;
        let outcome = leading.next_objects(pack, &self.marks, most);
        // What could not be read is tried again.
        let found = match outcome {
            Ok(found) => found,
            Err(error) => {
                leading.reader = None;
                self.leading = Some(leading);
                return Err(error);
            }
        };
        let hashes: Vec<Hash> = found.iter().map(|(hash, _)| *hash).collect();
        let Ok(known) = index.known_objects(&hashes) else { return Ok(None) };
        let mut lost = HashMap::new();
        for (hash, offset) in &found {
            match known.get(hash).filter(|known| self.marks.has_object(**known)) {
                None => drop(lost.insert(*hash, *offset)),
                Some(known) => leading.twice |= known != offset,
            }
        }
        index.put_objects(&lost, Some(&known));
        if index.settle_some().is_err() {
            return Ok(None);
        }
        if found.is_empty() {
            self.is_led = !leading.twice;
            return Ok(None);
        }
        self.leading = Some(leading);
        Ok(Some(SEEK + found.len() as u64 * LED))
    }

    /// About what it takes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let sifting = match &self.sifting {
            Some(Sifting::Rewriting(rewriting) | Sifting::Copied(rewriting)) => {
                rewriting.held_bytes()
            }
            Some(Sifting::Comparing(_) | Sifting::Written(..)) | None => 0,
        };
        let leading = self.leading.as_ref().and_then(|leading| leading.reader.as_ref());
        (self.marks.bytes() + sifting + leading.map_or(0, ChunkReader::held_bytes)) as u64
    }

    /// Bytes of files that are still to be looked at, to be marked and to be cleaned.
    pub(super) fn left_bytes(&self, chunks: &[Arc<Chunk>]) -> u64 {
        let old = chunks.iter().filter(|chunk| chunk.number < self.next);
        let marked = if self.cleaning { 0 } else { self.marks.left_bytes(chunks) };
        marked + old.map(|chunk| chunk.end()).sum::<u64>()
    }

    /// What the bytes that are left take if they cost what those have cost that it has passed; none while that is less than
    /// a hundredth, and once only the index is left.
    pub(super) fn left_credits(&self, left_bytes: u64) -> Option<u64> {
        let passed = self.all_bytes.saturating_sub(left_bytes);
        let left = u128::from(self.spent) * u128::from(left_bytes);
        let is_known = passed > self.all_bytes / 100 && self.sweep.is_none() && !self.is_swept;
        is_known.then(|| (left / u128::from(passed)) as u64)
    }

    pub(super) fn cursor(&self) -> Cursor {
        let phase = if self.cleaning { 2 } else { 1 };
        Cursor { phase, target: self.horizon.commit, chunk: self.next }
    }
}
