//! The lower layer: old chunks move, whole, to a folder on another disk, and back.
//!
//! Nothing is collected by it: every commit stays readable, and the horizon is where it was. A chunk is durable in
//! its new place before the control file says so, and leaves the old one after. Order of every write and sync:
//! `docs/design/durability.md`.

mod attach;
mod live;

use std::sync::Arc;

use super::Store;
use super::collection::Keep;
use super::tip::{Tip, Writer};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::collecting::live::Live;
use crate::context::files::control::{Control, Row, State};
use crate::context::files::hash_index::HashIndex;
use crate::context::files::pack::Pack;
use crate::context::files::volume::{self, NotCopied};
use crate::context::hash::CommitHash;
use crate::context::observer::Operation;
use crate::context::options::Index;
use crate::context::pieces::node::Load;
use crate::disk::{Disk, Lock, remove_quietly};
use crate::error::{Error, Kind, Result};
use crate::sync::lock;

impl Store {
    /// Moves chunks that end before that of `target` to [`Options::lower`](crate::context::Options::lower), the oldest first, at most `most` of
    /// them, and returns how many: fewer when no more are left. What commits from `target` on, branches and pins need of
    /// them stays above too, so that only older commits are read there. Reads what stays above first, and what that reaches
    /// in the chunks that move, now and then all that it reaches: one call for several chunks costs less than one for each.
    /// Each chunk is copied, read once to be verified, and takes two syncs of the lower folder and four of the store's.
    ///
    /// Chunks that a collection has rewritten stay. After an error of the lower disk the chunk stays where it is,
    /// and the store goes on. `Invalid` without a lower folder, while a collection is under way, and where the lower folder
    /// has chunks of another store, of before the store was cleared, or another one of the same name; `Corrupt` for a chunk that is
    /// damaged; `Locked` while another store moves chunks there.
    ///
    /// ```
    /// use varvite::context::{CommitInfo, Options, Store};
    /// use varvite::disk::memory::MemoryDisk;
    /// # fn main() -> varvite::Result<()> {
    /// let lower = MemoryDisk::seeded(2);
    /// let options = Options { lower: Some(lower), chunk_bytes: 1, ..Options::default() };
    /// let mut store = Store::create(MemoryDisk::seeded(1), options)?;
    /// let mut commits = Vec::new();
    /// for block in 0..3 {
    ///     let mut tree = store.empty_tree();
    ///     tree.add(&["block"], &[block])?;
    ///     commits.push(store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "block"))?);
    /// }
    /// assert!(store.archive(&commits[2], u64::MAX)? > 0);
    /// assert_eq!(store.checkout(&commits[0])?.find(&["block"])?, Some(vec![0]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn archive(&mut self, target: &CommitHash, most: u64) -> Result<u64> {
        let _span = self.span(Operation::Archive);
        let offset = self.commit_offset(target)?;
        let line = self.pack.chunk(offset).map_or(0, |chunk| chunk.number);
        let next = |rows: &[Row]| {
            let old = |row: &&Row| row.state == State::Whole && row.number < line;
            rows.iter().find(old).copied()
        };
        let is_due = most > 0 && next(&self.tip()?.writer()?.control.chunks).is_some();
        let kept = if is_due { self.kept_below(offset)? } else { Vec::new() };
        self.move_chunks(Some((offset, kept)), most, next)
    }

    /// Reads about `credits` KiB of what the next [`Store::archive`] from `target` on has to read before it moves the first chunk;
    /// returns whether some is left. That call finds done what was done here, also where commits came meanwhile, and where it is of
    /// a newer commit in the same chunk. So who commits between two steps waits for one of them, and not for all. After an error of
    /// the disk the next call goes on. `Invalid` where that call would be: without a lower folder, and while a collection is
    /// under way, which forgets what was done.
    pub fn archive_step(&mut self, target: &CommitHash, credits: u64) -> Result<bool> {
        let _span = self.span(Operation::Archive);
        let offset = self.commit_offset(target)?;
        let line = self.pack.chunk(offset).map_or(0, |chunk| chunk.number);
        let tip = self.tip()?;
        self.lower()?;
        let old = |row: &&Row| row.state == State::Whole && row.number < line;
        let writer = tip.writer()?;
        expect_no_collection(&writer)?;
        let first = writer.control.chunks.iter().find(old).map(|row| row.base);
        drop(writer);
        let Some(base) = first else { return Ok(false) };
        let kept = self.kept_below(offset)?;
        let mut writer = tip.writer()?;
        let before = (writer.control.epoch, writer.live.take());
        let mut live = Live::begun(&self.pack, before, (offset, kept), base)?;
        let credits = credits.max(1).saturating_mul(1024);
        let is_left = live.marks.go_some_down_to(&self.pack, base, credits);
        // What the disk did not read now it may read the next time; marks that meet damage are begun anew.
        if is_left.as_ref().err().is_none_or(|error| error.kind() == Kind::Io) {
            writer.live = Some(live);
        }
        is_left
    }

    /// The lower folder; `Invalid` where none was given.
    fn lower(&self) -> Result<&Arc<dyn Disk>> {
        self.options.lower.as_ref().ok_or_else(|| {
            Error::invalid("the store was opened without a lower folder: open it with one")
        })
    }

    /// The commit from which on [`Store::archive`] leaves above what `keep` says: the oldest of those that are above. None in
    /// an empty store. Reads one record for each commit that stays, with a date one for each that is above; what is in
    /// the lower folder is not read.
    pub fn archive_target(&self, keep: &Keep) -> Result<Option<CommitHash>> {
        let chunks = self.pack.chunks();
        let is_above = |chunk: &&Arc<Chunk>| chunk.state == State::Whole;
        let edge = chunks.iter().find(is_above).map_or(0, |chunk| chunk.base);
        let (mut target, mut passed) = (None, 0);
        let mut offset = self.newest_commit();
        while offset >= edge.max(1) {
            let (hash, body) = self.commit_at(offset)?;
            // Behind one that is older there may be one that is not.
            if keep.keeps(passed, body.date) {
                target = Some(hash);
            } else if matches!(keep, Keep::Newest(_)) {
                break;
            }
            passed += 1;
            offset = self.commit_before(&body);
        }
        target.map_or_else(|| self.last_commit(), |target| Ok(Some(target)))
    }

    /// Moves chunks back from [`Options::lower`](crate::context::Options::lower), the newest first, at most `most` of them, and returns how many:
    /// fewer when no more are left there. Once none is, the store collects again. Costs and refuses what
    /// [`Store::archive`] does; `Missing` when a chunk is not in the lower folder.
    pub fn unarchive(&mut self, most: u64) -> Result<u64> {
        let _span = self.span(Operation::Unarchive);
        self.move_chunks(None, most, |rows| rows.iter().rfind(|row| row.state.is_lower()).copied())
    }

    /// Bytes of the chunks that are in the lower folder. Reads nothing.
    pub fn archived_bytes(&self) -> u64 {
        let chunks = self.pack.chunks();
        chunks.iter().filter(|chunk| chunk.is_lower()).map(|chunk| chunk.end()).sum()
    }

    /// `Invalid` when a chunk is in the lower folder: what a collection would take away there, others may count on.
    pub(super) fn expect_rolling(&self) -> Result<()> {
        if self.pack.chunks().iter().any(|chunk| chunk.is_lower()) {
            return Err(Error::invalid(
                "the store has chunks in its lower folder, so it keeps every commit: bring them back before it \
                 collects, with `varvite context unarchive`",
            ));
        }
        Ok(())
    }

    /// Whether the error is that of a chunk below which cannot be read because the folder was not given, or has it not.
    pub(super) fn is_below(&self, error: &Error) -> bool {
        error.kind() == Kind::Missing
            && self.pack.chunks().iter().any(|chunk| {
                let opened = chunk.is_lower().then(|| self.pack.files.get(chunk));
                opened.is_some_and(|it| it.is_err_and(|it| it.kind() == Kind::Missing))
            })
    }

    /// An error when a chunk is below that is not there, another store's, or damaged so that `index`, which is made of all
    /// chunks, could not be made: commits may be whole in one whose beginning or end is damaged, objects are asked for there.
    pub(super) fn expect_below(&self, index: &HashIndex) -> Result<()> {
        for chunk in self.pack.chunks().iter().filter(|chunk| chunk.is_lower()) {
            let found = if index.keeps_objects() {
                self.pack.read_opening(chunk).and_then(|_| self.pack.read_end(chunk)).map(drop)
            } else {
                self.pack.files.get(chunk).map(drop)
            };
            found.map_err(|error| {
                error.context(
                    "the index cannot be made again without all that is in the lower folder, and stays as it is",
                )
            })?;
        }
        Ok(())
    }

    /// `Invalid` when `lower` is not the folder of this store, or has not what was moved last.
    fn expect_own(&self, control: &Control, lower: &dyn Disk, to: State) -> Result<()> {
        if to == State::Whole {
            // A clearing leaves what is below, of which nothing is to come back.
            return volume::expect_own(lower, control.store);
        }
        let last = control.chunks.iter().rfind(|row| row.state.is_lower());
        let is_there = |row: &Row| volume::is_of(lower, control.store, control.epoch, row.number);
        if !last.is_some_and(is_there) {
            volume::expect_room(lower, control, self.pack.cache())?;
        }
        volume::expect_last(lower, control, self.pack.cache())
    }

    /// Moves chunks down, of which what is needed from a commit on, or for others that are older, stays above; without one
    /// they come back.
    fn move_chunks(
        &mut self,
        from: Option<(u64, Vec<u64>)>,
        most: u64,
        next: impl Fn(&[Row]) -> Option<Row>,
    ) -> Result<u64> {
        let to = if from.is_some() { State::Lower } else { State::Whole };
        let tip = self.tip()?;
        let lower = Arc::clone(self.lower()?);
        // An index that cannot be written, as on a full disk, keeps no chunk from going: it is made again with the folder.
        if next(&tip.writer()?.control.chunks).is_some() && to == State::Lower {
            drop(self.settled_index());
        }
        let shared = Arc::clone(&self.index);
        let mut index = lock(&shared);
        let mut writer = tip.writer()?;
        expect_no_collection(&writer)?;
        volume::expect_no_store(&*lower)?;
        if most == 0 || next(&writer.control.chunks).is_none() {
            let has_moved = to == State::Whole && writer.moved == Some((writer.control.epoch, to));
            if most > 0 && !has_moved {
                // That all is there already, or came back, is said of the right folder alone.
                self.expect_own(&writer.control, &*lower, to)?;
            }
            return Ok(0);
        }
        let alone = volume::lock(&lower)?;
        self.look_below(&mut writer, &*lower, to)?;
        let mut live = match from {
            Some(from) => {
                let first = next(&writer.control.chunks).map_or(0, |row| row.base);
                let before = (writer.control.epoch, writer.live.take());
                Some(Live::of(&self.pack, before, from, first)?)
            }
            None => None,
        };
        let mut moved = 0;
        while moved < most
            && let Some(row) = next(&writer.control.chunks)
        {
            if to == State::Lower && index.covered().is_none_or(|place| place.chunk <= row.number) {
                // An opening completes the index from the pack, and needs nothing from below.
                writer.sync(&*self.disk, self.pack.meter())?;
                if let Err(error) = index.save(writer.place()) {
                    index.warn(format!(
                        "the index is not saved, so it is made again with the lower folder: {error}"
                    ));
                }
            }
            let state = match &live {
                Some(live) => match tip.write_above(&self.pack, &mut writer, &live.marks, &row) {
                    // It is moved to make room.
                    Err(error) if live::is_full(&error, &writer) => {
                        // What the others refer to may be in it, so that is made up for as soon as can be.
                        writer.needed_bytes = None;
                        index.warn(format!(
                            "there was no room above for what recent commits need of a chunk, which they read in the \
                             lower folder: {error}"
                        ));
                        State::Lower
                    }
                    state => state?,
                },
                None => to,
            };
            let row = Row { state, ..row };
            let done = tip.move_chunk(&self.pack, &mut writer, &lower, alone.as_deref(), row);
            done.inspect_err(|_| tip.drop_above(&mut writer, &row))?;
            tip.remove_doomed(&mut writer, u64::MAX)?;
            moved += 1;
        }
        if let Some(live) = &mut live {
            if let Err(error) = tip.tend(&self.pack, &mut writer, live) {
                if writer.poisoned {
                    return Err(error);
                }
                index.warn(format!(
                    "what is above of chunks in the lower folder is as it was, and a later move looks after it: {error}"
                ));
            }
            tip.remove_doomed(&mut writer, u64::MAX)?;
        }
        // For the next call, if that does not take them all.
        writer.live = live.filter(|_| next(&writer.control.chunks).is_some());
        writer.moved = Some((writer.control.epoch, to));
        Ok(moved)
    }

    /// Looks through the lower folder before chunks go `to` there, or come back. Where they go one by one that is listed
    /// once: while it has a chunk of this store, which says so, no other store takes it. A copy may.
    fn look_below(&self, writer: &mut Writer, lower: &dyn Disk, to: State) -> Result<()> {
        let control = &writer.control;
        let (store, epoch) = (control.store, control.epoch);
        let goes_on = writer.moved.take() == Some((epoch, to));
        if to != State::Lower {
            if !goes_on {
                // It may be on a disk that nobody can write to any more.
                let _ = volume::remove_leftovers(lower, store);
            }
            // Between two calls another copy may have moved chunks there.
            let of_copy = volume::of_copy(lower, control, self.pack.cache())?;
            writer.is_shared = of_copy.is_some();
            if let Some(path) = of_copy {
                self.warnings.add(format!(
                    "what comes back stays in {} as well: {path} is of another copy of the store, or of this one before it was \
                     put back from a backup, and may count on what else is there",
                    lower.root()
                ));
            }
            return Ok(());
        }
        let last = control.chunks.iter().rfind(|row| row.state.is_lower());
        let is_there = |row: &Row| volume::is_of(lower, store, epoch, row.number);
        if !(goes_on && last.is_some_and(is_there)) {
            volume::remove_leftovers(lower, store)?;
            volume::expect_room(lower, control, self.pack.cache())?;
        }
        volume::expect_last(lower, control, self.pack.cache())
    }
}

/// `Invalid` while a collection is under way.
fn expect_no_collection(writer: &Writer) -> Result<()> {
    if writer.control.cursor.is_some() {
        return Err(Error::invalid(
            "a collection is under way: go on with it, or cancel it, before chunks are moved",
        ));
    }
    Ok(())
}

impl Tip {
    /// Moves the chunk of `row` to where that says.
    fn move_chunk(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        lower: &Arc<dyn Disk>,
        alone: Option<&dyn Lock>,
        row: Row,
    ) -> Result<()> {
        let place = writer.control.place_of(row.number).expect("its row was just seen");
        let goes_down = row.state.is_lower();
        let disk = if goes_down { lower } else { &self.disk };
        let epoch = writer.control.epoch;
        let fresh = Arc::new(Chunk::collected(pack.cache(), pack.store, epoch, &row));
        // Another writer may count on a file of that name.
        writer.check_lock()?;
        if !goes_down && writer.reuse(&fresh.path) && self.may_remove(&*self.disk, &fresh) {
            // Left by a move while somebody read it; a failure below is none of this folder.
            remove_quietly(&*self.disk, &fresh.path);
        }
        let copied = {
            let old = pack.numbered(row.number).expect("a chunk that is whole is in the pack");
            volume::copy(&pack.files, &old, &fresh, disk)
        };
        if let Err(NotCopied { error, may_be_there }) = copied {
            // A name in the store's folder that a failed sync may have lost is not synced again as if it could
            // come back. In the lower folder nothing counts on it, and it is written anew.
            writer.poisoned |= !goes_down && may_be_there;
            let (what, root) = (&fresh.path, disk.root());
            return Err(error.context(format_args!("{what} was not moved to {root}")));
        }
        writer.syncs += 2;
        writer.written_bytes += fresh.end();
        writer.check_lock()?;
        volume::expect_alone(&**lower, alone)?;
        // A thread that misses a file may read the new control file and find the new place before this does.
        let old = pack.chunks_of(row.number..row.number + 1);
        let before = std::mem::replace(&mut writer.control.chunks[place], row);
        let had_copies = writer.control.has_copies;
        // What is below alone is written again where a commit has it again.
        writer.control.has_copies |= goes_down && writer.control.index == Index::Always;
        if let Err(error) = self.write_places(pack, writer) {
            writer.control.chunks[place] = before;
            writer.control.has_copies = had_copies;
            return Err(error);
        }
        if !goes_down {
            // Trees read it also after another handle has cleared the store.
            drop(pack.files.get(&fresh));
        }
        pack.swap_chunk(fresh);
        if goes_down {
            writer.doomed.extend(old);
        } else {
            writer.doomed.extend(old.iter().filter_map(Chunk::own));
            // What stays is the same chunk, which the next that is moved there is written over.
            let stays = writer.is_shared;
            for old in old.iter().filter(|old| !stays && Arc::strong_count(old) == 1) {
                let is_of_copy = old.is_of_copy(&**lower, pack.store);
                if self.may_remove(&**lower, old) && matches!(is_of_copy, Ok(false)) {
                    remove_quietly(&**lower, &old.path);
                }
            }
        }
        Ok(())
    }
}
