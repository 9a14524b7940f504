//! The lower layer: old chunks move, whole, to a folder on another disk, and back.
//!
//! Nothing is collected by it: every commit stays readable, and the horizon is where it was. What newer commits have
//! of a chunk that moves is above too, in a sparse file, and read there; a copy that may be wrong in nothing but how
//! much it has. Both are durable before the control file names them, and the old file goes after. Order of every write and sync:
//! `docs/design/durability.md`.

mod attach;

use std::sync::Arc;

use super::Store;
use super::collection::Round;
use super::tip::{Tip, Writer};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::collecting::marks::Marks;
use crate::context::files::collecting::rewrite::{Compared, Comparing, Rewriting};
use crate::context::files::control::{Control, Row, State};
use crate::context::files::hash_index::is_damage;
use crate::context::files::pack::Pack;
use crate::context::files::sparse::SparseFile;
use crate::context::files::volume;
use crate::context::hash::CommitHash;
use crate::context::options::Index;
use crate::disk::{Disk, remove_quietly};
use crate::error::{Error, Result};

impl Store {
    /// Moves chunks that end before that of `target` to [`Options::lower`](crate::context::Options::lower), the oldest first, at most `most` of
    /// them, and returns how many: fewer when no more are left. What `target` and the commits after it have of them, and
    /// those that branches and pins name, stays above too, so reading these never asks the lower disk. Chunks that moved
    /// before are brought to the same state, as far as `most` leaves room.
    ///
    /// The first call reads what these commits reach in old chunks; the next ones go on with what it found, until no
    /// chunk is left that is older than its target. Each chunk is copied, read once to be verified, and takes two syncs
    /// of the lower folder and four of the store's.
    ///
    /// Chunks that a collection has rewritten stay. After an error of the lower disk the chunk stays where it is,
    /// and the store goes on. `Invalid` without a lower folder, while a collection is under way, and where
    /// another chunk has the name in the lower folder; `Corrupt` for a chunk that is damaged.
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
        let offset = self.commit_offset(target)?;
        let line = self.pack.chunk(offset).map_or(0, |chunk| chunk.number);
        let lower = self.expect_movable()?;
        let tip = self.tip()?;
        self.expect_archive(&tip.writer()?.control, &*lower)?;
        let (mut moved, mut left) = (0, most);
        while left > 0 {
            let is_begun = {
                let writer = tip.writer()?;
                let old = |row: &Row| row.state == State::Whole && row.number < line;
                writer.round.is_some() || !writer.control.chunks.iter().any(old)
            };
            if !is_begun {
                self.begin_round(offset)?;
            }
            let mut writer = tip.writer()?;
            let Some(mut round) = writer.round.take() else { break };
            let outcome = tip.go_on(&self.pack, &mut writer, &lower, &mut round, left);
            // An error leaves the round as it was, but for what was done.
            if !matches!(outcome, Ok((_, _, true))) {
                writer.round = Some(round);
            }
            let (gone_down, done, _) = outcome?;
            moved += gone_down;
            left -= done;
        }
        Ok(moved)
    }

    /// Finds out what the commit at `offset`, those after it, and those that are kept have of older chunks.
    fn begin_round(&self, offset: u64) -> Result<()> {
        let kept = self.kept_below(offset)?;
        let line = self.pack.chunk(offset).map_or(0, |chunk| chunk.number);
        let mut marks = Marks::begin(&self.pack, offset, &kept)?;
        while !marks.go_on(&self.pack, u64::MAX)?.1 {}
        self.tip()?.writer()?.round = Some(Round { marks, line, next: 0 });
        Ok(())
    }

    /// Brings what is above of chunks that are below to what the commits from that at `offset` on have of them.
    pub(super) fn renew_hot(&self, offset: u64) -> Result<()> {
        self.expect_movable()?;
        self.begin_round(offset)?;
        let tip = self.tip()?;
        let mut writer = tip.writer()?;
        let Some(mut round) = writer.round.take() else { return Ok(()) };
        // That of the commit too.
        let line = round.line + 1;
        while round.next < line && tip.renew_next(&self.pack, &mut writer, &mut round, line)? {}
        Ok(())
    }

    /// Copies chunks back from [`Options::lower`](crate::context::Options::lower), the newest first, at most `most` of them, and returns how many:
    /// fewer when no more are left there. Once none is, the store collects again. Nothing below is removed, since another
    /// copy of the store may count on it. Costs and refuses what [`Store::archive`] does; `Missing` when a chunk is not in
    /// the lower folder.
    pub fn unarchive(&mut self, most: u64) -> Result<u64> {
        let lower = self.expect_movable()?;
        let tip = self.tip()?;
        let mut writer = tip.writer()?;
        writer.round = None;
        let mut moved = 0;
        let is_below = |row: &&Row| matches!(row.state, State::Lower(_));
        while moved < most
            && let Some(row) = writer.control.chunks.iter().rfind(is_below).copied()
        {
            tip.move_up(&self.pack, &mut writer, &lower, row)?;
            tip.remove_doomed(&mut writer, u64::MAX)?;
            moved += 1;
        }
        Ok(moved)
    }

    /// Whether what [`Store::archive`] began is not at its end: another call has something to do, if only with what is
    /// above of chunks that moved.
    pub fn is_archiving(&self) -> Result<bool> {
        Ok(self.tip()?.writer()?.round.is_some())
    }

    /// Bytes of the chunks that are in the lower folder. Reads nothing.
    pub fn archived_bytes(&self) -> u64 {
        let chunks = self.pack.chunks();
        chunks.iter().filter(|chunk| chunk.is_lower()).map(|chunk| chunk.end()).sum()
    }

    /// Reads every chunk that is in the lower folder to its end; a sentence for each that is damaged or not there. What is
    /// above of them too is read there by [`Store::check`].
    pub fn check_archived(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for chunk in self.pack.chunks().iter().filter(|chunk| chunk.is_lower()) {
            let file = self.pack.files.get(chunk);
            match file.and_then(|file| volume::scan(&*file, chunk, |_, _| Ok(()))) {
                Err(error) if is_damage(&error) => found.push(error.detail().to_owned()),
                outcome => outcome?,
            }
        }
        Ok(found)
    }

    /// `Invalid` when a chunk is in the lower folder: what a collection would take away there, others may count on.
    pub(super) fn expect_rolling(&self) -> Result<()> {
        if self.pack.chunks().iter().any(|chunk| chunk.is_lower()) {
            return Err(Error::invalid(
                "the store has chunks in its lower folder, so it keeps every commit: bring them back before it \
                 collects, with `varvite context unarchive`, or leave them with `varvite context collect run --leave-lower`",
            ));
        }
        Ok(())
    }

    /// `Invalid` when what was moved last is not in this lower folder: no folder would have all.
    fn expect_archive(&self, control: &Control, lower: &dyn Disk) -> Result<()> {
        let moved = control.chunks.iter().rfind(|row| matches!(row.state, State::Lower(_)));
        let chunk = moved.and_then(|row| self.pack.numbered(row.number));
        if let Some(chunk) = chunk
            && !lower.exists(&chunk.path)?
        {
            return Err(Error::invalid(format!(
                "{} was moved to another folder and is not in {}: give the folder that has the chunks of this \
                 store, which may be on a disk that is not mounted",
                chunk.path,
                lower.root()
            )));
        }
        Ok(())
    }

    /// The lower folder, if chunks may move now.
    fn expect_movable(&self) -> Result<Arc<dyn Disk>> {
        let lower = self.options.lower.clone().ok_or_else(|| {
            Error::invalid("the store was opened without a lower folder: open it with one")
        })?;
        if self.tip()?.writer()?.control.cursor.is_some() {
            return Err(Error::invalid(
                "a collection is under way: go on with it, or cancel it, before chunks are moved",
            ));
        }
        volume::expect_no_store(&*lower)?;
        Ok(lower)
    }
}

impl Tip {
    /// Moves chunks, the oldest first, and then renews what is above of those that moved before, at most `most` all
    /// together. Returns how many moved, how many it worked on, and whether the round is at its end.
    fn go_on(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        lower: &Arc<dyn Disk>,
        round: &mut Round,
        most: u64,
    ) -> Result<(u64, u64, bool)> {
        let (mut moved, mut done, line) = (0, 0, round.line);
        let is_old = |row: &&Row| row.state == State::Whole && row.number < line;
        while done < most
            && let Some(row) = writer.control.chunks.iter().find(is_old).copied()
        {
            self.move_down(pack, writer, lower, &round.marks, row)?;
            self.remove_doomed(writer, u64::MAX)?;
            (moved, done) = (moved + 1, done + 1);
        }
        while done < most {
            if !self.renew_next(pack, writer, round, line)? {
                return Ok((moved, done, true));
            }
            done += 1;
        }
        Ok((moved, done, false))
    }

    /// Writes anew what is above of the next chunk before `line` that is below and should have other records above.
    /// `false` when there is none.
    fn renew_next(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        round: &mut Round,
        line: u64,
    ) -> Result<bool> {
        while round.next < line {
            let number = round.next;
            let row = writer.control.row(number).copied();
            let chunk = row.and_then(|row| pack.numbered(row.number));
            let renewed = match (row, chunk) {
                (Some(row), Some(chunk)) if chunk.is_lower() => {
                    if has_marked(pack, &round.marks, &chunk)? { None } else { Some((row, chunk)) }
                }
                _ => None,
            };
            if let Some((row, chunk)) = renewed {
                let hot = self.write_hot(pack, writer, &round.marks, row, &chunk)?;
                self.put(pack, writer, Row { state: State::Lower(hot), ..row })?;
                drop(chunk);
                self.remove_doomed(writer, u64::MAX)?;
                round.next = number + 1;
                return Ok(true);
            }
            round.next = number + row.map_or(1, |row| row.count);
        }
        Ok(false)
    }

    /// Moves the chunk of `row` to the lower folder, and what `marks` has of it to a file above.
    fn move_down(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        lower: &Arc<dyn Disk>,
        marks: &Marks,
        row: Row,
    ) -> Result<()> {
        let below = Row { state: State::Lower(None), ..row };
        let epoch = writer.control.epoch;
        let fresh = Chunk::collected(pack.cache(), pack.store, epoch, &below);
        let old = pack.numbered(row.number).expect("a chunk that is whole is in the pack");
        // Another writer may count on a file of that name.
        writer.check_lock()?;
        // In the lower folder nothing counts on it after an error, and it is written anew.
        volume::copy(&pack.files, &old, &fresh, lower).map_err(|error| {
            error.context(format_args!("{} was not moved to {}", fresh.path, lower.root()))
        })?;
        writer.syncs += 2;
        writer.written_bytes += fresh.end();
        let hot = self.write_hot(pack, writer, marks, row, &old)?;
        drop(old);
        self.put(pack, writer, Row { state: State::Lower(hot), ..row })
    }

    /// Copies the chunk of `row` back from the lower folder.
    fn move_up(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        lower: &Arc<dyn Disk>,
        row: Row,
    ) -> Result<()> {
        let row = Row { state: State::Whole, ..row };
        let fresh = Chunk::collected(pack.cache(), pack.store, writer.control.epoch, &row);
        writer.check_lock()?;
        if writer.reuse(&fresh.path) {
            // Left by a move while somebody read it; a failure below is none of this folder.
            remove_quietly(&*self.disk, &fresh.path);
        }
        let old = pack.numbered(row.number).expect("a chunk that is below is in the pack");
        if let Err(error) = volume::copy(&pack.files, &old, &fresh, &self.disk) {
            // A name in the store's folder that a failed sync may have lost is not synced again as if it could
            // come back.
            writer.poisoned |= self.disk.exists(&fresh.path).unwrap_or(true);
            let (what, root) = (&fresh.path, lower.root());
            return Err(error.context(format_args!("{what} was not moved back from {root}")));
        }
        drop(old);
        writer.syncs += 2;
        writer.written_bytes += fresh.end();
        self.put(pack, writer, row)
    }

    /// Writes what `marks` has of `chunk` to a file above, durably; none where that is nothing.
    fn write_hot(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        marks: &Marks,
        row: Row,
        chunk: &Arc<Chunk>,
    ) -> Result<Option<SparseFile>> {
        if !marks.keeps(chunk) {
            return Ok(None);
        }
        writer.check_lock()?;
        let mut rewriting = Rewriting::begin(&*self.disk, pack, std::slice::from_ref(chunk), row)?;
        writer.reuse(rewriting.path());
        let written = (|| {
            while !rewriting.go_on(pack, marks, u64::MAX)?.1 {}
            rewriting.finish()
        })();
        let written = written.inspect_err(|_| {
            // Its room is for others until it is made again.
            remove_quietly(&*self.disk, rewriting.path());
        })?;
        writer.check_lock()?;
        // A name that a failed sync may have lost is never synced again as if it could come back.
        writer.poisoned = true;
        self.disk.sync_directory("")?;
        writer.poisoned = false;
        writer.syncs += 2;
        let State::Sparse(sparse) = written.state else { return Ok(None) };
        writer.written_bytes += sparse.bytes;
        Ok(Some(sparse))
    }

    /// Has the control file say `row`, whose files are durable, in the place of the row of its chunk, and readers find
    /// the chunk there.
    fn put(&self, pack: &Pack, writer: &mut Writer, row: Row) -> Result<()> {
        writer.check_lock()?;
        let place = writer.control.place_of(row.number).expect("its row was just seen");
        let had_copies = writer.control.has_copies;
        // What is below alone is written again where it is wanted anew.
        let is_below = matches!(row.state, State::Lower(_));
        writer.control.has_copies |= is_below && writer.control.index == Index::Always;
        // A thread that misses a file may read the new control file, and find the new chunk before this does.
        let old = pack.chunks_of(row.number..row.number + 1);
        let before = std::mem::replace(&mut writer.control.chunks[place], row);
        if let Err(error) = self.write_places(pack, writer) {
            writer.control.chunks[place] = before;
            writer.control.has_copies = had_copies;
            return Err(error);
        }
        let epoch = writer.control.epoch;
        let fresh = Arc::new(Chunk::collected(pack.cache(), pack.store, epoch, &row));
        if let Some(above) = fresh.above() {
            // Trees read it also after another handle has cleared the store.
            drop(pack.files.get(above));
        }
        pack.swap_chunk(fresh);
        writer.doomed.extend(old.iter().filter_map(Chunk::above).map(Arc::clone));
        Ok(())
    }
}

/// Whether what is above of `chunk`, which is below, is what `marks` has of it.
fn has_marked(pack: &Pack, marks: &Marks, chunk: &Arc<Chunk>) -> Result<bool> {
    let Some(hot) = chunk.hot().filter(|_| marks.keeps(chunk)) else {
        return Ok(chunk.hot().is_none() && !marks.keeps(chunk));
    };
    let mut comparing = Comparing::begin(pack, hot)?;
    loop {
        match comparing.go_on(pack, marks, u64::MAX)?.1 {
            Compared::NotYet => {}
            Compared::Equal => return Ok(true),
            Compared::Differs => return Ok(false),
        }
    }
}
