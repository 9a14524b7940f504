//! A round: what recent commits have of old chunks is found out, and brought above.
//!
//! Which records these are say marks as those of a collection. They are of the moment when the round began; what was
//! written since is looked at before each chunk, under the writer's lock. Until the last chunk a part may lack what
//! another refers to, and the control file says so. Design: `docs/design/collection.md`.

use std::sync::Arc;

use super::is_below;
use crate::context::files::chunk::{Opening, Seal};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::collecting::marks::Marks;
use crate::context::files::collecting::rewrite::{Compared, Comparing, Rewriting};
use crate::context::files::control::{Row, State};
use crate::context::files::hash_index::HashIndex;
use crate::context::files::pack::{Pack, spoils};
use crate::context::files::sparse::SparseFile;
use crate::context::files::volume;
use crate::context::pieces::node::Load;
use crate::context::store::Store;
use crate::context::store::collection::Round;
use crate::context::store::tip::{Tip, Writer};
use crate::disk::{Disk, Lock, remove_quietly};
use crate::error::Result;

impl Store {
    /// Begins a round to chunk `line`, which begins at logical offset `edge`, unless one is under way; `false` when there is
    /// nothing to do.
    pub(super) fn has_begun_round(&self, line: u64, edge: u64) -> Result<bool> {
        let tip = self.tip()?;
        let seen = {
            let writer = tip.writer()?;
            if writer.below.round.is_some() {
                return Ok(true);
            }
            let rows = &writer.control.chunks;
            let moves = rows.iter().any(|row| row.state == State::Whole && row.number < line);
            let (below, above) = (&writer.below, writer.control.above);
            let is_due = below.is_wanted || !below.has_ended || above == 0 || edge < above;
            // Before the first chunk there is nothing.
            if edge == 0
                || !moves && !(rows.iter().any(is_below) && (is_due || self.has_spoiled_part()))
            {
                return Ok(false);
            }
            (writer.chunk.number, writer.append.end().offset)
        };
        let kept = self.kept_below(edge)?;
        let mut marks = Marks::begin_below(&self.pack, edge, &kept)?;
        while !marks.go_on(&self.pack, u64::MAX)?.1 {}
        tip.writer()?.below.round = Some(Round { marks, line, edge, seen, next: 0 });
        Ok(true)
    }

    /// Whether something above was found damaged, or not there.
    fn has_spoiled_part(&self) -> bool {
        let chunks = self.pack.chunks();
        chunks.iter().any(|chunk| chunk.any_part().is_some() && chunk.part().is_none())
    }
}

/// Who moves chunks, and where from and to.
pub(super) struct Moving<'a> {
    pub(super) tip: &'a Tip,
    pub(super) pack: &'a Pack,
    pub(super) lower: &'a Arc<dyn Disk>,
    pub(super) alone: Option<&'a dyn Lock>,
}

impl Moving<'_> {
    /// Moves old chunks, the oldest first, and then writes parts anew that have other records than they should, until
    /// `done` is `most`; returns whether the round is at its end.
    pub(super) fn go_on(
        &self,
        writer: &mut Writer,
        index: &mut HashIndex,
        round: &mut Round,
        most: u64,
        done: &mut u64,
    ) -> Result<bool> {
        let (seen, is_news) = round.marks.look_on(self.pack, round.seen)?;
        if is_news {
            round.next = 0;
        }
        while !round.marks.go_on(self.pack, u64::MAX)?.1 {}
        round.seen = seen;
        let is_old = |row: &&Row, line| row.state == State::Whole && row.number < line;
        while *done < most
            && let Some(row) = writer.control.chunks.iter().find(|row| is_old(row, round.line))
        {
            let row = *row;
            self.cover(writer, index, row.number)?;
            self.move_down(writer, &round.marks, row)?;
            self.tip.remove_doomed(writer, u64::MAX)?;
            *done += 1;
        }
        while *done < most {
            if !self.renew_next(writer, round)? {
                self.end(writer, round)?;
                return Ok(true);
            }
            self.tip.remove_doomed(writer, u64::MAX)?;
            *done += 1;
        }
        Ok(false)
    }

    /// Saves the index, if it covers less than up to chunk `number`, so that no opening has to ask the folder.
    fn cover(&self, writer: &mut Writer, index: &mut HashIndex, number: u64) -> Result<()> {
        if index.covered().is_none_or(|place| place.chunk <= number) {
            writer.sync(&*self.tip.disk, self.pack.meter())?;
            if let Err(error) = index.save(writer.place()) {
                index.warn(format!(
                    "the index is not saved, so it is made again with the lower folder: {error}"
                ));
            }
        }
        Ok(())
    }

    /// Moves the chunk of `row` to the lower folder, and what `marks` has of it to a file above.
    fn move_down(&self, writer: &mut Writer, marks: &Marks, row: Row) -> Result<()> {
        let (pack, lower) = (self.pack, self.lower);
        let below = Row { state: State::Lower(None), ..row };
        let fresh = Chunk::collected(pack.cache(), pack.store, writer.control.epoch, &below);
        writer.check_lock()?;
        let old = pack.numbered(row.number).expect("a chunk that is whole is in the pack");
        // In the lower folder nothing counts on it after an error, and it is written anew.
        volume::copy(&pack.files, &old, &fresh, lower).map_err(|error| {
            error.context(format_args!("{} was not moved to {}", fresh.path, lower.root()))
        })?;
        writer.syncs += 2;
        writer.written_bytes += fresh.end();
        let part = self.write_part(writer, marks, row, &old)?;
        drop(old);
        volume::expect_alone(&**lower, self.alone)?;
        let row = Row { state: State::Lower(part), ..row };
        self.tip.put_place(pack, writer, row).map(drop)
    }

    /// Writes the part of the next chunk below anew that has other records than it should; `false` when there is none.
    fn renew_next(&self, writer: &mut Writer, round: &mut Round) -> Result<bool> {
        while let Some(row) = writer
            .control
            .chunks
            .iter()
            .find(|row| row.number >= round.next && row.number < round.line && is_below(row))
        {
            let row = *row;
            let chunk = self.pack.numbered(row.number).expect("it is in the pack as in the table");
            if !has_marked(self.pack, &round.marks, &chunk)? {
                let part = self.write_part(writer, &round.marks, row, &chunk)?;
                drop(chunk);
                let renewed = Row { state: State::Lower(part), ..row };
                self.tip.put_place(self.pack, writer, renewed)?;
                round.next = row.number + 1;
                return Ok(true);
            }
            round.next = row.number + 1;
        }
        Ok(false)
    }

    /// Writes what `marks` has of `chunk` to a file above, durably; none where that is nothing.
    fn write_part(
        &self,
        writer: &mut Writer,
        marks: &Marks,
        row: Row,
        chunk: &Arc<Chunk>,
    ) -> Result<Option<SparseFile>> {
        if !marks.keeps(chunk) {
            return Ok(None);
        }
        let disk = &self.tip.disk;
        writer.check_lock()?;
        let chunks = std::slice::from_ref(chunk);
        let mut rewriting = Rewriting::begin(&**disk, self.pack, chunks, row)?;
        writer.reuse(rewriting.path());
        let mut write = || {
            while !rewriting.go_on(self.pack, marks, u64::MAX)?.1 {}
            rewriting.finish()
        };
        let written = match write() {
            Ok(written) => written,
            Err(error) => {
                // Its room is for others until it is made again.
                remove_quietly(&**disk, rewriting.path());
                return Err(error);
            }
        };
        writer.check_lock()?;
        // A name that a failed sync may have lost is never synced again as if it could come back.
        writer.poisoned = true;
        disk.sync_directory("")?;
        writer.poisoned = false;
        writer.syncs += 2;
        let State::Sparse(part) = written.state else { return Ok(None) };
        writer.written_bytes += part.bytes;
        Ok(Some(part))
    }

    /// All that is above is what it should be.
    fn end(&self, writer: &mut Writer, round: &Round) -> Result<()> {
        let before = std::mem::replace(&mut writer.control.above, round.edge);
        if before != round.edge
            && let Err(error) = self.tip.write_places(self.pack, writer)
        {
            writer.control.above = before;
            return Err(error);
        }
        self.pack.set_above(round.edge);
        (writer.below.has_ended, writer.below.is_wanted) = (true, false);
        Ok(())
    }
}

/// Whether what is above of `chunk`, which is below, is what `marks` has of it.
fn has_marked(pack: &Pack, marks: &Marks, chunk: &Arc<Chunk>) -> Result<bool> {
    let is_kept = marks.keeps(chunk);
    let Some(part) = chunk.part().filter(|_| is_kept) else {
        return Ok(!is_kept && chunk.above().is_none());
    };
    let compare = || {
        let mut comparing = Comparing::begin(pack, part)?;
        loop {
            match comparing.go_on(pack, marks, u64::MAX)?.1 {
                Compared::NotYet => {}
                Compared::Equal => break,
                Compared::Differs => return Ok(false),
            }
        }
        // Of all else marking has read the records, and spoiled a part that has not one of them as it was.
        let mut reader = ChunkReader::open(pack, Arc::clone(part))?;
        for offset in [chunk.base + Opening::PLACE, chunk.logical_end() - Seal::RECORD] {
            reader.named(pack, offset)?;
        }
        Ok(true)
    };
    match compare() {
        // It is made anew of what is below.
        Err(error) if spoils(&error) => {
            part.spoil();
            Ok(false)
        }
        equal => equal,
    }
}
