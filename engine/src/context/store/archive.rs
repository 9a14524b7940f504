//! The lower layer: old chunks move, whole, to a folder on another disk, and back.
//!
//! Nothing is collected by it: every commit stays readable, and the horizon is where it was. What recent commits have
//! of a chunk that moves stays above in a sparse file, its *part*, and is read there. A chunk and its part are durable
//! in their places before the control file says so, and what they replace goes after. Order of every write and sync:
//! `docs/design/durability.md`.

mod attach;
mod round;

use std::sync::Arc;

use super::Store;
use super::tip::{Tip, Writer};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::control::{Above, Control, Row, State};
use crate::context::files::pack::Pack;
use crate::context::files::paths;
use crate::context::files::volume;
use crate::context::hash::CommitHash;
use crate::context::options::Index;
use crate::disk::{Disk, Lock, remove_quietly};
use crate::error::{Error, Kind, Result};

impl Store {
    /// Moves chunks before that of `target` to [`Options::lower`](crate::context::Options::lower), the oldest first. What `target`, the
    /// commits after it (and the few before it in its chunk), and those that branches and pins name have of them stays above, too, so whoever
    /// reads these never asks the lower disk. What is above of chunks that moved before is brought to the same state, and where
    /// `target` is older than what is below, its chunk and those after it come back. Works on at most `most` chunks, and returns on how many;
    /// 0 when nothing is left to do: one that moves counts, one of which the part above is made anew, and so much reading, to
    /// find out what these commits have, as 16 MiB take. A chunk that moves is copied, read once to be verified, and takes two syncs
    /// of the lower folder and four of the store's; a part that is made anew takes one, and with others together three more.
    ///
    /// What the marks of this take of memory, a collection takes that marks; they stay from one call to the next until it is done. A
    /// commit that was made since from a tree of an older one, and a commit that
    /// was pinned since, is read in the lower folder as far as it needs, until the next call that returns 0.
    ///
    /// Chunks that a collection has rewritten stay. After an error of the lower disk the chunk stays where it is,
    /// and the store goes on. `Invalid` without a lower folder, while a collection is under way, and where the lower folder
    /// has chunks of another store, of before the store was cleared, or another one of the same name; `Corrupt` for a chunk that is
    /// damaged; `Locked` while another store moves chunks there. Where recent commits have something that is lost in the lower folder,
    /// chunks move all the same, and then the call says which is missing; `Invalid` where that is the chunk that moved last.
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
        let (line, edge) = self.pack.chunk(offset).map_or((0, 0), |it| (it.number, it.base));
        let lower = self.expect_movable()?;
        {
            let tip = self.tip()?;
            let mut writer = tip.writer()?;
            if writer.below.round.as_ref().is_some_and(|round| line < round.line) {
                tip.drop_round(&mut writer);
            }
        }
        let back = self.move_back(&lower, line, most)?;
        Ok(back + self.bring_above(&lower, (line, edge), most - back)?)
    }

    /// Moves chunks back from [`Options::lower`](crate::context::Options::lower), the newest first, at most `most` of them, and returns how many:
    /// fewer when no more are left there. Once none is, the store collects again. Costs and refuses what
    /// [`Store::archive`] does; `Missing` when a chunk is not in the lower folder.
    pub fn unarchive(&mut self, most: u64) -> Result<u64> {
        let lower = self.expect_movable()?;
        {
            let tip = self.tip()?;
            let mut writer = tip.writer()?;
            tip.drop_round(&mut writer);
        }
        self.move_back(&lower, 0, most)
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

    /// `Missing` when a chunk is below and cannot be read, so that what is made of all chunks could not be made.
    pub(super) fn expect_below(&self) -> Result<()> {
        let chunks = self.pack.chunks();
        let Some(lower) = chunks.iter().rfind(|chunk| chunk.is_lower()) else { return Ok(()) };
        let gone = self.pack.files.get(lower).err().filter(|error| error.kind() == Kind::Missing);
        gone.map_or(Ok(()), |error| {
            Err(error.context(
                "the index cannot be made again without the lower folder, and stays as it is",
            ))
        })
    }

    /// `Invalid` when what was moved last is not in this lower folder: no folder would have all.
    fn expect_archive(&self, control: &Control, lower: &dyn Disk) -> Result<()> {
        let moved = control.chunks.iter().rfind(|row| is_below(row));
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
        let tip = self.tip()?;
        let lower = self.options.lower.clone().ok_or_else(|| {
            Error::invalid("the store was opened without a lower folder: open it with one")
        })?;
        if tip.writer()?.control.cursor.is_some() {
            return Err(Error::invalid(
                "a collection is under way: go on with it, or cancel it, before chunks are moved",
            ));
        }
        volume::expect_no_store(&*lower)?;
        Ok(lower)
    }

    /// Moves chunks from number `line` on back, the newest first, at most `most`; returns how many.
    fn move_back(&mut self, lower: &Arc<dyn Disk>, line: u64, most: u64) -> Result<u64> {
        let tip = self.tip()?;
        let mut writer = tip.writer()?;
        let next = |writer: &Writer| {
            let rows = writer.control.chunks.iter();
            rows.rev().take_while(|row| row.number >= line).find(|row| is_below(row)).copied()
        };
        if most == 0 || next(&writer).is_none() {
            return Ok(0);
        }
        let alone = volume::lock(lower)?;
        // What comes back may come from a disk that nobody can write to any more.
        drop(volume::remove_leftovers(&**lower));
        let mut moved = 0;
        while moved < most
            && let Some(row) = next(&writer)
        {
            tip.move_up(&self.pack, &mut writer, lower, alone.as_deref(), row)?;
            tip.remove_doomed(&mut writer, u64::MAX)?;
            moved += 1;
        }
        Ok(moved)
    }
}

/// Whether the chunk of the row is in the lower folder.
fn is_below(row: &Row) -> bool {
    matches!(row.state, State::Lower(_))
}

impl Tip {
    /// Moves the chunk of `row` back from the lower folder.
    fn move_up(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        lower: &Arc<dyn Disk>,
        alone: Option<&dyn Lock>,
        row: Row,
    ) -> Result<()> {
        let row = Row { state: State::Whole, ..row };
        let fresh = Chunk::collected(pack.cache(), pack.store, writer.control.epoch, &row);
        // Another writer may count on a file of that name.
        writer.check_lock()?;
        if writer.reuse(&fresh.path) {
            // Left by a move while somebody read it; a failure below is none of this folder.
            remove_quietly(&*self.disk, &fresh.path);
        }
        let copied = {
            let old = pack.numbered(row.number).expect("a chunk that is whole is in the pack");
            volume::copy(&pack.files, &old, &fresh, &self.disk)
        };
        if let Err(error) = copied {
            // A name in the store's folder that a failed sync may have lost is not synced again as if it could
            // come back.
            writer.poisoned |= self.disk.exists(&fresh.path).unwrap_or(true);
            let (what, root) = (&fresh.path, self.disk.root());
            return Err(error.context(format_args!("{what} was not moved to {root}")));
        }
        writer.syncs += 2;
        writer.written_bytes += fresh.end();
        volume::expect_alone(&**lower, alone)?;
        let old = self.put_places(pack, writer, &[row], 0)?;
        for old in old.iter().filter(|old| Arc::strong_count(old) == 1) {
            // What stays is the same chunk, which the next that is moved there is written over.
            remove_quietly(&**lower, &old.path);
        }
        Ok(())
    }

    /// Has the control file say `rows`, whose files are durable, in the place of those of their chunks, and readers find the
    /// chunks there; below for a round that keeps all from `edge` on. Returns what was in their place.
    fn put_places(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        rows: &[Row],
        edge: u64,
    ) -> Result<Vec<Arc<Chunk>>> {
        writer.check_lock()?;
        let before = writer.control.clone();
        let control = &mut writer.control;
        if rows.iter().any(is_below) {
            control.above.begin_round(edge, !control.chunks.iter().any(is_below));
            // What is below alone is written again where it is wanted anew.
            control.has_copies |= control.index == Index::Always;
        }
        for row in rows {
            let place = control.place_of(row.number).expect("its row was just seen");
            control.chunks[place] = *row;
        }
        if !control.chunks.iter().any(is_below) {
            control.above = Above::default();
        }
        // A thread that misses a file may read the new control file and find the new place before this does.
        let numbers = rows.iter().map(|row| row.number..row.number + 1);
        let old: Vec<_> = numbers.flat_map(|numbers| pack.chunks_of(numbers)).collect();
        if let Err(error) = self.write_places(pack, writer) {
            writer.control = before;
            return Err(error);
        }
        for row in rows {
            let fresh = Chunk::collected(pack.cache(), pack.store, writer.control.epoch, row);
            let fresh = Arc::new(fresh);
            if let Some(above) = fresh.above() {
                // Trees read it also after another handle has cleared the store.
                drop(pack.files.get(above));
            }
            pack.swap_chunk(fresh);
        }
        writer.doomed.extend(old.iter().filter_map(Chunk::above).map(Arc::clone));
        Ok(old)
    }

    /// Forgets what was found out of what recent commits have of old chunks, and removes what was made of that and has no name yet.
    pub(super) fn drop_round(&self, writer: &mut Writer) {
        let Some(round) = writer.below.round.take() else { return };
        for row in &round.unnamed {
            // Once the writer is poisoned it is not known what names it, or whose it is.
            if let State::Lower(Some(part)) = row.state
                && !writer.poisoned
                && writer.check_lock().is_ok()
            {
                let epoch = writer.control.epoch;
                remove_quietly(
                    &*self.disk,
                    &paths::sparse_chunk(epoch, row.number, part.generation),
                );
            }
        }
    }
}
