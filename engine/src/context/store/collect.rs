//! Collection: what nothing that is kept reaches leaves the pack, chunk by chunk, beside commits.
//!
//! A step holds the writer's lock, which orders it with commits and spills, so what they refer to is
//! known to it. Nothing is taken away before the control file says where history begins; a chunk goes when
//! the control file names what takes its place. Design: `docs/design/collection.md`.

mod doomed;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::Store;
use super::collection::{Collection, Keep, Leading, SWAP, Sifting};
use super::tip::{self, Tip, Writer};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::collecting::marks::Merging;
use crate::context::files::collecting::rewrite::{Compared, Comparing, Rewriting};
use crate::context::files::control::{Control, Horizon, Row, State};
use crate::context::files::hash_index::{HashIndex, Sweep};
use crate::context::files::pack::Pack;
use crate::context::files::sparse::SparseFile;
use crate::context::hash::{self, CommitHash};
use crate::context::observer::Operation;
use crate::context::options::Index;
use crate::context::pieces::node::Load;
use crate::error::{Error, Kind, Result};
use crate::order;
use crate::sync::lock;
use crate::trace::{Action, Answer};

use doomed::{CREDIT, PIECE};

/// Sparse chunks that have less than this part of a whole one, and are neighbours, become one, so many at a time:
/// a store would keep a file for each old chunk of which anything stays.
const SMALL: u64 = 4;
const JOINED_MAX: usize = 256;

/// So many neighbours of which nothing stays go by one swap.
const GONE_MAX: usize = 4096;

impl Store {
    /// Begins a collection: commits that the store took before `target` go, but for those that branches name
    /// and those that are pinned; all from `target` on stays, on every branch. [`Store::collect_step`] does
    /// the work. Ends the last chunk, and a pause; five syncs or more, and two reads for each pin, as has an opening
    /// while a collection marks.
    ///
    /// A working tree that was never committed loses what it spilled before `target`, if it had more than
    /// [`Options::tree_bytes`](crate::context::Options::tree_bytes): its reads and its commit give `Collected` from then on.
    ///
    /// `Invalid` while one is under way, `Missing` for an unknown commit, `Collected` for one that is no more.
    pub fn collect(&mut self, target: &CommitHash) -> Result<()> {
        let _span = self.span(Operation::Collect);
        let offset = self.commit_offset(target)?;
        self.collect_at(offset, target)
    }

    /// The same with the record at `offset` of `target`, which may be there twice.
    fn collect_at(&mut self, offset: u64, target: &CommitHash) -> Result<()> {
        self.told(
            Action::Collect,
            |to| to.hash(target),
            |store| store.begin_collection(offset, target),
        )
    }

    fn begin_collection(&mut self, offset: u64, target: &CommitHash) -> Result<()> {
        if offset < self.control.horizon.commit {
            return Err(Error::new(
                Kind::Collected,
                format!(
                    "commit {} was kept by an earlier collection, and what came after it is collected: \
                     collect to a newer commit",
                    hash::to_text(target)
                ),
            ));
        }
        let tip = self.tip()?;
        if tip.writer()?.control.cursor.is_some() {
            return Err(Error::invalid(
                "a collection is under way: go on with it, or cancel it, before the next",
            ));
        }
        self.expect_rolling()?;
        let sequence = self.commit_at(offset)?.1.sequence;
        let kept = self.kept_below(offset)?;
        let before = {
            let mut writer = tip.writer()?;
            // One that was begun for a collection that could not begin is as good as another.
            if writer.append.end().offset > tip::FIRST_BYTES {
                tip.roll(&self.pack, &mut writer, true)?;
            }
            let line = self.pack.chunk(offset).map(|chunk| chunk.logical_end());
            let line = line.expect("the target is in a chunk");
            let horizon = Horizon { commit: offset, offset: line, sequence, kept };
            // What one that was cancelled wrote ahead is there still.
            let is_unfinished = writer.control.is_unfinished;
            let merging = if is_unfinished { Merging::Freed } else { Merging::Ahead };
            let collection = Collection::new(&self.pack, horizon, None, merging)?;
            let before = writer.control.clone();
            writer.control.cursor = Some(collection.cursor());
            writer.control.is_paused = false;
            // From here on nothing older is referred to unseen. What a move has marked is not told what commits refer to
            // meanwhile, and keeps files open that are to go.
            writer.live = None;
            writer.collection = Some(collection);
            before
        };
        // An index that cannot be saved is in nobody's way: it is made again from the pack.
        let begun = self.checkpoint().or_else(|_| {
            let mut writer = tip.writer()?;
            tip.write_places(&self.pack, &mut writer)
        });
        begun.inspect_err(|_| {
            let mut writer = lock(&tip.writer);
            writer.restore(&before);
            // What could not be begun is none.
            writer.collection = None;
        })
    }

    /// Begins a collection of what `keep` does not keep. `false` when one is under way or paused, or nothing would go, neither a
    /// commit nor what a cancelled collection, a pin or a branch that was removed has left behind, so a host may call it
    /// after each commit. Reads one record for each commit that is kept, with a date one for
    /// each that there is.
    pub fn collect_keeping(&mut self, keep: &Keep) -> Result<bool> {
        let _span = self.span(Operation::Collect);
        {
            let tip = self.tip()?;
            let writer = tip.writer()?;
            if writer.control.cursor.is_some() || writer.control.is_paused {
                return Ok(false);
            }
        }
        // Before commits are read that are below.
        self.expect_rolling()?;
        let horizon = self.control.horizon.commit;
        let (mut target, mut goes, mut passed) = (None, false, 0);
        let mut offset = self.newest_commit();
        while offset >= horizon.max(1) {
            let (hash, body) = self.commit_at(offset)?;
            let stays = keep.keeps(passed, body.date);
            // Behind one that goes there may be one that is not older than a date.
            match (stays, keep) {
                (true, _) => (target, goes) = (Some((offset, hash)), false),
                (false, Keep::Since(_)) => goes = true,
                (false, Keep::Newest(_)) => {
                    goes = true;
                    break;
                }
            }
            passed += 1;
            offset = self.commit_before(&body);
        }
        goes = goes || self.has_left_behind(horizon)?;
        match target.filter(|_| goes) {
            Some((offset, target)) => self.collect_at(offset, &target).map(|()| true),
            None => Ok(false),
        }
    }

    /// Whether something older than the commit at `horizon`, which was the target of the last collection, is there that need
    /// not be: a collection was cancelled as it took it away, or it was kept for a pin or a branch that is no more.
    fn has_left_behind(&self, horizon: u64) -> Result<bool> {
        if horizon == 0 {
            return Ok(false);
        }
        if self.tip()?.writer()?.control.is_unfinished {
            return Ok(true);
        }
        let kept = self.kept_below(horizon)?;
        Ok(self.control.horizon.kept.iter().any(|commit| kept.binary_search(commit).is_err()))
    }

    /// Does work of about `credits` KiB read or written for the collection that is under way; returns whether
    /// some is left. `false` without one, and while it is paused. After an error of which the store is not
    /// poisoned the next call goes on.
    pub fn collect_step(&mut self, credits: u64) -> Result<bool> {
        let (action, answer) = (Action::CollectStep, |more: &bool| Answer::Flag(*more));
        self.told_with(
            action,
            |to| to.number(credits),
            answer,
            |store| store.go_on_collecting(credits),
        )
    }

    fn go_on_collecting(&mut self, credits: u64) -> Result<bool> {
        let _span = self.span(Operation::CollectStep);
        let tip = self.tip()?;
        self.resume_collection()?;
        let asks_index = {
            let writer = tip.writer()?;
            let collection = writer.collection.as_ref();
            collection.is_some_and(|it| it.sweep.is_some() || it.leading.is_some())
        };
        let mut index = asks_index.then(|| lock(&self.index));
        let mut writer = tip.writer()?;
        let pack = Arc::clone(&self.pack);
        let credits = credits.max(1).saturating_mul(CREDIT);
        let removed = tip.remove_doomed(&mut writer, credits)?;
        if writer.control.is_paused {
            return Ok(false);
        }
        let Some(mut collection) = writer.collection.take() else { return Ok(false) };
        let mut left = credits.saturating_sub(removed);
        let mut outcome = Ok(true);
        while left > 0 && matches!(outcome, Ok(true)) {
            // What cannot be done in parts waits for a step that has room for it, or nothing else.
            let room = if left == credits { u64::MAX } else { left };
            if collection.leading.is_some() {
                let Some(index) = &mut index else { break };
                let spent = tip.lead(&pack, &mut writer, &mut collection, index, left);
                outcome = spent.map_err(Self::kept).map(|spent| {
                    left = left.saturating_sub(spent);
                    true
                });
                continue;
            }
            if collection.sweep.is_some() {
                // The index comes before the writer: it is the next step's.
                let Some(index) = &mut index else { break };
                if collection.next_of_index(index) > room {
                    break;
                }
                let spent = tip.sweep(&pack, &mut writer, &mut collection, index, left);
                outcome = spent.map_err(Self::kept).map(|spent| {
                    left = left.saturating_sub(spent);
                    true
                });
                continue;
            }
            if Tip::next_whole(&pack, &writer, &collection) > room {
                break;
            }
            let step = tip.step(&pack, &mut writer, &mut collection, left);
            outcome = step.map_err(Self::kept).map(|spent| {
                left = left.saturating_sub(spent.unwrap_or(left));
                spent.is_some()
            });
        }
        let is_horizon_new = collection.cleaning && self.control.horizon != writer.control.horizon;
        if is_horizon_new {
            self.control.horizon = writer.control.horizon.clone();
        }
        if !matches!(outcome, Ok(false)) {
            collection.spent += (credits - left) / CREDIT;
            writer.collection = Some(collection);
        }
        drop(writer);
        if is_horizon_new {
            self.publish();
        }
        outcome
    }

    /// How many collections have ended.
    pub(super) fn collections(&self) -> u64 {
        self.tip.as_ref().map_or(self.control.collections, |tip| tip.collections())
    }

    /// Lets steps do nothing until [`Store::collect_resume`], also of whoever opens the store later. Takes a
    /// checkpoint.
    pub fn collect_pause(&mut self) -> Result<()> {
        let _span = self.span(Operation::Collect);
        self.told(
            Action::CollectPause,
            |to| to,
            |store| store.change_control(|control| control.is_paused = true),
        )
    }

    /// Lets steps go on. Takes a checkpoint.
    pub fn collect_resume(&mut self) -> Result<()> {
        let _span = self.span(Operation::Collect);
        self.told(
            Action::CollectResume,
            |to| to,
            |store| store.change_control(|control| control.is_paused = false),
        )
    }

    /// Ends the collection that is under way; returns whether one was. Commits that are collected already stay
    /// so, and what it has not taken away of them the next one does. A pause stays. Takes a checkpoint.
    pub fn collect_cancel(&mut self) -> Result<bool> {
        let _span = self.span(Operation::Collect);
        self.told(Action::CollectCancel, |to| to, Store::end_collecting)
    }

    fn end_collecting(&mut self) -> Result<bool> {
        let tip = self.tip()?;
        if tip.writer()?.control.cursor.is_none() {
            return Ok(false);
        }
        self.change_control(|control| {
            let takes_away = control.cursor.take().is_some_and(|cursor| cursor.phase == 2);
            control.has_copies |= takes_away && control.index == Index::Always;
            control.is_unfinished |= takes_away;
        })?;
        lock(&self.index).give_up_merging(None);
        let mut writer = tip.writer()?;
        if let Some(mut collection) = writer.collection.take() {
            tip.give_up(&mut writer, &mut collection);
        }
        Ok(true)
    }

    /// Changes what the control file says, which is written: three syncs at most. After an error it is as it was.
    pub(super) fn change_control(&mut self, change: impl FnOnce(&mut Control)) -> Result<()> {
        let tip = self.tip()?;
        let mut writer = tip.writer()?;
        let before = writer.control.clone();
        change(&mut writer.control);
        tip.write_places(&self.pack, &mut writer).inspect_err(|_| writer.restore(&before))
    }

    /// Goes on with the collection that the control file names, unless that is under way: it marks again.
    pub(super) fn resume_collection(&mut self) -> Result<()> {
        let tip = self.tip()?;
        let (cursor, mut horizon) = {
            let writer = tip.writer()?;
            let cursor = writer.control.cursor.filter(|_| writer.collection.is_none());
            let Some(cursor) = cursor else { return Ok(()) };
            (cursor, writer.control.horizon.clone())
        };
        self.control.horizon = horizon.clone();
        let mut cleaned = Some(cursor.chunk);
        if horizon.commit != cursor.target || cursor.phase == 1 {
            cleaned = None;
            let kept = self.kept_below(cursor.target)?;
            let sequence = self.commit_at(cursor.target)?.1.sequence;
            let line = self.pack.chunk(cursor.target).map_or(0, |chunk| chunk.logical_end());
            horizon = Horizon { commit: cursor.target, offset: line, sequence, kept };
        }
        // What it wrote ahead before it was cut off is there still.
        let merging = if cleaned.is_some() { Merging::Freed } else { Merging::Ahead };
        let collection = Collection::new(&self.pack, horizon, cleaned, merging)?;
        let mut writer = tip.writer()?;
        writer.live = None;
        writer.collection = Some(collection);
        // What went as it cleaned may have been written again, and is marked now if a tree of before is committed.
        writer.control.has_copies |= cursor.phase == 2 && writer.control.index == Index::Always;
        Ok(())
    }
}

/// A swap encodes the control file twice, and reads and writes it.
fn swap_cost(writer: &Writer) -> u64 {
    SWAP.max(4 * writer.control_bytes)
}

impl Tip {
    fn collections(&self) -> u64 {
        lock(&self.writer).control.collections
    }

    /// What the next part of the work costs at least, if it is one that is done whole: a sync or a swap.
    fn next_whole(pack: &Pack, writer: &Writer, collection: &Collection) -> u64 {
        let is_whole = match &collection.sifting {
            Some(Sifting::Copied(_) | Sifting::Written(..)) => true,
            Some(_) => false,
            // The control file says where history begins.
            None if !collection.cleaning => collection.marks.is_done(),
            None => match collection.next.checked_sub(1).and_then(|number| writer.row(number)) {
                // What nothing is kept of goes by a swap.
                Some(row) => pack
                    .chunk(row.base)
                    .is_some_and(|chunk| chunk.has_file() && !collection.marks.keeps(&chunk)),
                // That there is none any more.
                None => collection.is_swept,
            },
        };
        if is_whole { swap_cost(writer) } else { 0 }
    }

    /// Does a part of the work worth about `credits` bytes; returns what it cost, none when all is done.
    fn step(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
        credits: u64,
    ) -> Result<Option<u64>> {
        if !collection.cleaning {
            if collection.marks.is_done() {
                return self
                    .raise_horizon(pack, writer, collection)
                    .map(|()| Some(swap_cost(writer)));
            }
            let (spent, _) = collection.marking().go_on(pack, credits)?;
            return Ok(Some(spent.max(1)));
        }
        if collection.sifting.is_some() {
            let sifted = self.sift(pack, writer, collection, credits);
            let Err(error) = sifted else { return sifted.map(Some) };
            self.give_up(writer, collection);
            return self.find_room(pack, writer, collection, error, credits).map(Some);
        }
        match collection.next.checked_sub(1).and_then(|number| writer.row(number)) {
            Some(row) => self.begin_clean(pack, writer, collection, &row).map(Some),
            None if !collection.is_swept => {
                collection.sweep = Some(Sweep::default());
                Ok(Some(CREDIT))
            }
            None => self.end_collection(pack, writer, collection),
        }
    }

    /// What was to be written met `error`: where the disk was full, what is in the way of the next attempt goes, or that
    /// writes less. Returns what that cost.
    fn find_room(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
        error: Error,
        credits: u64,
    ) -> Result<u64> {
        if !error.is_no_space() || writer.poisoned {
            return Err(error);
        }
        let removed = self.remove_doomed(writer, credits)?;
        if removed > 0 {
            return Ok(removed);
        }
        if pack.evicted_hashes.give_up() {
            return Ok(CREDIT);
        }
        if !collection.marks.merges_any() {
            return Err(error);
        }
        // What is written in full is longer than what it takes the place of: all as it is may find room.
        let (horizon, next) = (collection.horizon.clone(), collection.next);
        *collection = Collection::new(pack, horizon, Some(next), Merging::Nothing)?;
        // As behind a crash: what is gone may have been written again, and is marked now if it is referred to.
        writer.control.has_copies |= writer.control.index == Index::Always;
        self.warnings.add(format!(
            "the disk has no room for what a collection writes in full: it marks what is left once more, and \
             leaves each record as it is ({})",
            error.detail()
        ));
        Ok(CREDIT)
    }

    /// What could not be written is begun anew by the next step; its room is for others until then.
    pub(super) fn give_up(&self, writer: &mut Writer, collection: &mut Collection) {
        let path = match collection.sifting.take() {
            Some(Sifting::Rewriting(rewriting) | Sifting::Copied(rewriting)) => {
                rewriting.path().to_owned()
            }
            Some(Sifting::Written(path, _)) => path,
            Some(Sifting::Comparing(_)) | None => return,
        };
        // Once the writer is poisoned it is not known what names it, or whose it is.
        if !writer.poisoned && writer.check_lock().is_ok() {
            let _ = self.disk.remove(&path);
        }
    }

    /// All is marked: from now on older commits are collected.
    fn raise_horizon(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
    ) -> Result<()> {
        let before = (writer.control.horizon.clone(), writer.control.cursor);
        writer.control.horizon = collection.horizon.clone();
        collection.cleaning = true;
        writer.control.cursor = Some(collection.cursor());
        self.write_places(pack, writer).inspect_err(|_| {
            collection.cleaning = false;
            (writer.control.horizon, writer.control.cursor) = before;
        })?;
        self.set_leaving(&collection.marks);
        collection.leading = writer.control.has_copies.then(Leading::default);
        Ok(())
    }

    /// Lets the index lead to what stays, where it may lead to copies; what it was told is durable before the
    /// control file says that it has no more of them to lead to. Returns what that cost.
    fn lead(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
        index: &mut HashIndex,
        credits: u64,
    ) -> Result<u64> {
        if let Some(spent) = collection.lead(pack, index, credits)? {
            return Ok(spent);
        }
        if collection.is_led {
            writer.sync(&*self.disk, pack.meter())?;
            // One that is behind is made again from the pack, whose newest records count then.
            collection.is_led = !index.is_behind() && index.save(writer.place()).is_ok();
        }
        Ok(SWAP)
    }

    /// Rids the index of what went; what was merged is saved. Returns what that cost.
    fn sweep(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
        index: &mut HashIndex,
        credits: u64,
    ) -> Result<u64> {
        let spent = collection.next_of_index(index);
        if collection.saves_index() && !index.is_behind() {
            writer.sync(&*self.disk, pack.meter())?;
            // One that cannot be saved is in nobody's way.
            let _ = index.save(writer.place());
        }
        Ok(collection.sweep(index, credits).max(spent))
    }

    /// Writes the control file with the places of chunks as they are now.
    pub(super) fn write_places(&self, pack: &Pack, writer: &mut Writer) -> Result<()> {
        writer.sync(&*self.disk, pack.meter())?;
        let checkpoint = writer.checkpoint();
        self.write_control(pack, writer, checkpoint)
    }

    /// Looks at the chunk of `row`: passes it, takes it away, or begins to rewrite it.
    fn begin_clean(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
        row: &Row,
    ) -> Result<u64> {
        let pass = |collection: &mut Collection| {
            collection.next = row.number;
            Ok(CREDIT)
        };
        let chunk = pack.chunk(row.base).filter(|chunk| chunk.has_file());
        let Some(chunk) = chunk else { return pass(collection) };
        if !collection.marks.keeps(&chunk) {
            let gone = Self::gone(pack, writer, collection, row);
            self.swap(pack, writer, collection, gone)?;
            return Ok(swap_cost(writer));
        }
        let (joined, row) = self.neighbours(pack, writer, collection, row, &chunk);
        collection.sifting = Some(if chunk.is_whole() || joined.len() > 1 {
            self.begin_rewrite(pack, writer, &joined, row)?
        } else {
            Sifting::Comparing(Comparing::begin(pack, &chunk)?)
        });
        Ok(CREDIT * joined.len() as u64)
    }

    /// The row that will stand for the chunk of `row`, of which nothing stays, and for those before it of which nothing
    /// does either: each swap writes the whole control file.
    fn gone(pack: &Pack, writer: &Writer, collection: &Collection, row: &Row) -> Row {
        let goes = |before: &&Row| {
            let chunk = pack.chunk(before.base).filter(|chunk| chunk.number == before.number);
            chunk.is_some_and(|chunk| !(chunk.has_file() && collection.marks.keeps(&chunk)))
        };
        let rows = writer.control.chunks.iter().rev();
        let rows = rows.skip_while(|before| before.number >= row.number).take(GONE_MAX);
        let first = rows.take_while(goes).last().unwrap_or(row);
        Row {
            number: first.number,
            count: row.number + row.count - first.number,
            base: first.base,
            length: row.base + row.length - first.base,
            chain: 0,
            state: State::Gone,
        }
    }

    /// The sparse chunks before `chunk`, and that, which are to be one file because they are small, in order, and
    /// the row that will stand for them and for those between them of which nothing stays.
    fn neighbours(
        &self,
        pack: &Pack,
        writer: &Writer,
        collection: &Collection,
        row: &Row,
        chunk: &Arc<Chunk>,
    ) -> (Vec<Arc<Chunk>>, Row) {
        let (mut joined, mut all) = (vec![Arc::clone(chunk)], *row);
        let mut room = self.chunk_bytes;
        let takes = |row: &Row, room: &mut u64| match row.state {
            State::Sparse(SparseFile { bytes, .. }) if bytes <= self.chunk_bytes / SMALL => {
                let rest = room.checked_sub(bytes);
                *room = rest.unwrap_or(*room);
                rest.is_some()
            }
            _ => false,
        };
        if !takes(row, &mut room) {
            return (joined, all);
        }
        let rows = writer.control.chunks.iter().rev();
        for before in rows.skip_while(|before| before.number >= row.number).take(4 * JOINED_MAX) {
            let chunk = pack.chunk(before.base).filter(|chunk| chunk.has_file());
            let Some(chunk) = chunk.filter(|chunk| collection.marks.keeps(chunk)) else {
                // Nothing of it stays, so it takes no room.
                continue;
            };
            if joined.len() == JOINED_MAX || !takes(before, &mut room) {
                break;
            }
            let end = all.base + all.length;
            all = Row { chain: all.chain, ..*before };
            all.length = end - before.base;
            all.count = row.number + row.count - before.number;
            joined.push(chunk);
        }
        joined.reverse();
        (joined, all)
    }

    /// Begins a file for `chunks`, for which `row` will stand, over what an attempt has left.
    fn begin_rewrite(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        chunks: &[Arc<Chunk>],
        row: Row,
    ) -> Result<Sifting> {
        // Another writer may have made a file of this name, and count on it.
        writer.check_lock()?;
        let rewriting = Rewriting::begin(&*self.disk, pack, chunks, row)?;
        writer.reuse(rewriting.path());
        Ok(Sifting::Rewriting(Box::new(rewriting)))
    }

    /// Goes on with the chunk that is being cleaned; returns what that cost.
    fn sift(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
        credits: u64,
    ) -> Result<u64> {
        match &mut collection.sifting {
            None => Ok(CREDIT),
            Some(Sifting::Comparing(comparing)) => {
                let (spent, outcome) = comparing.go_on(pack, &collection.marks, credits)?;
                match outcome {
                    Compared::NotYet => {}
                    Compared::Equal => {
                        // One that stands for many numbers is looked at once.
                        collection.next = comparing.chunk().number;
                        collection.sifting = None;
                    }
                    Compared::Differs => {
                        let chunk = Arc::clone(comparing.chunk());
                        let row = writer.row(chunk.number).expect("it is being cleaned");
                        collection.sifting =
                            Some(self.begin_rewrite(pack, writer, &[chunk], row)?);
                    }
                }
                Ok(spent + CREDIT)
            }
            Some(Sifting::Rewriting(rewriting)) => {
                let (spent, is_done) = rewriting.go_on(pack, &collection.marks, credits)?;
                if is_done && let Some(Sifting::Rewriting(done)) = collection.sifting.take() {
                    collection.sifting = Some(Sifting::Copied(done));
                }
                Ok(spent.max(1))
            }
            Some(Sifting::Copied(rewriting)) => {
                let (path, row) = (rewriting.path().to_owned(), rewriting.finish()?);
                collection.sifting = Some(Sifting::Written(path, row));
                writer.syncs += 1;
                Ok(swap_cost(writer))
            }
            Some(Sifting::Written(_, row)) => {
                let row = *row;
                self.end_chunk(pack, writer, collection, row)?;
                Ok(swap_cost(writer))
            }
        }
    }

    /// A chunk was rewritten to its end: what was made takes its place.
    fn end_chunk(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
        row: Row,
    ) -> Result<()> {
        writer.check_lock()?;
        // A name that a failed sync may have lost is never synced again as if it could come back.
        writer.poisoned = true;
        self.disk.sync_directory("")?;
        writer.poisoned = false;
        writer.syncs += 1;
        if let State::Sparse(sparse) = row.state {
            writer.written_bytes += sparse.bytes;
        }
        self.swap(pack, writer, collection, row)?;
        collection.sifting = None;
        Ok(())
    }

    /// Puts the file, or none, that `row` says into the place of those that it stands for.
    fn swap(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
        row: Row,
    ) -> Result<()> {
        let rows = &mut writer.control.chunks;
        let first = rows.partition_point(|before| before.number < row.number);
        let after = rows.partition_point(|before| before.number < row.number + row.count);
        let rows = order::splice(rows, first..after, vec![row]);
        let before = (writer.control.cursor, collection.next);
        collection.next = row.number;
        writer.control.cursor = Some(collection.cursor());
        // A thread that misses a file may read the new control file and find the new one before this does.
        let mut old = pack.chunks_of(row.number..row.number + row.count);
        old.retain(|chunk| chunk.has_file());
        if let Err(error) = self.write_places(pack, writer) {
            order::splice(&mut writer.control.chunks, first..first + 1, rows);
            (writer.control.cursor, collection.next) = before;
            return Err(error);
        }
        let chunk = Chunk::collected(pack.cache(), pack.store, writer.control.epoch, &row);
        let (bytes, chunk) = (chunk.end(), Arc::new(chunk));
        if chunk.has_file() {
            // Trees that have it open read it also when another handle clears the store.
            drop(pack.files.get(&chunk));
        }
        pack.swap_chunk(chunk);
        writer.freed_bytes += old.iter().map(|old| old.end()).sum::<u64>();
        writer.made_bytes += bytes;
        writer.doomed.extend(old);
        Ok(())
    }

    /// All chunks are clean: there is no collection any more. Rows of chunks that are gone at the front are
    /// forgotten.
    fn end_collection(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        collection: &mut Collection,
    ) -> Result<Option<u64>> {
        let removed = self.remove_doomed(writer, PIECE)?;
        if removed > 0 {
            return Ok(Some(removed));
        }
        let before = writer.control.clone();
        writer.control.cursor = None;
        writer.control.collections += 1;
        writer.control.has_copies &= !collection.is_led;
        writer.control.is_unfinished = false;
        writer.control.join_gone();
        if let Err(error) = self.write_places(pack, writer) {
            writer.control = before;
            return Err(error);
        }
        pack.forget_chunks(&writer.control.chunks);
        collection.sifting = None;
        Ok(None)
    }
}

impl Writer {
    /// What collections have given back of the disk.
    fn reclaimed(&self) -> u64 {
        self.freed_bytes.saturating_sub(self.made_bytes)
    }

    /// Puts back what a change made of the control file that could not be written.
    fn restore(&mut self, before: &Control) {
        self.control.cursor = before.cursor;
        self.control.is_paused = before.is_paused;
        self.control.has_copies = before.has_copies;
        self.control.is_unfinished = before.is_unfinished;
        self.control.pins.clone_from(&before.pins);
    }

    /// What the table of chunks says of chunk `number`, if it is there.
    fn row(&self, number: u64) -> Option<Row> {
        self.control.row(number).copied()
    }
}
