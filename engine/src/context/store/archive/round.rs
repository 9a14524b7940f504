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
use crate::context::files::control::{Above, Row, State};
use crate::context::files::hash_index::HashIndex;
use crate::context::files::pack::{Pack, is_made_up_for};
use crate::context::files::sparse::SparseFile;
use crate::context::files::volume;
use crate::context::pieces::node::Load;
use crate::context::store::Store;
use crate::context::store::collection::Round;
use crate::context::store::tip::{Tip, Writer};
use crate::disk::{Disk, Lock, remove_quietly};
use crate::error::{Error, Kind, Result};
use crate::sync::lock;

/// What is read to find out what to do counts as a chunk when it has cost so many bytes.
const UNIT: u64 = 16 << 20;

/// So many parts are named by one control file, whatever that takes.
const UNNAMED_MAX: usize = 4096;

impl Store {
    /// Brings above what all from chunk `line` on has of older ones, which begins at logical offset `edge`, and moves these;
    /// works on at most `most` chunks, and returns on how many.
    pub(super) fn bring_above(
        &mut self,
        lower: &Arc<dyn Disk>,
        (line, edge): (u64, u64),
        most: u64,
    ) -> Result<u64> {
        let mut work = Work { most, done: 0 };
        while work.is_left() && self.is_round_due(line, edge)? {
            // An index that cannot be written, as on a full disk, keeps no chunk from going: it is made again with the folder.
            drop(self.settled_index());
            let tip = self.tip()?;
            let alone = volume::lock(lower)?;
            self.expect_folder(lower)?;
            let begun = tip.writer()?.below.round.take();
            let mut round = begun.map_or_else(|| self.begin_round(line, edge), Ok)?;
            let moving = Moving { tip: &tip, pack: &self.pack, lower, alone: alone.as_deref() };
            let outcome = moving.go_on(&self.index, &mut round, &mut work);
            let mut writer = lock(&tip.writer);
            match outcome {
                Ok(true) => {}
                // What was lost below when it was marked is there again: what that reaches is found by another round.
                Err(Stop::Over(error)) => {
                    writer.below.round = Some(round);
                    tip.drop_round(&mut writer);
                    return Err(error);
                }
                Ok(false) => writer.below.round = Some(round),
                // An error leaves it as it was, but for what was done.
                Err(Stop::Call(error)) => {
                    writer.below.round = Some(round);
                    return Err(error);
                }
            }
        }
        Ok(work.done.min(most))
    }

    /// Whether there is anything to do. One that cannot end because of what is lost below makes way for another that moves
    /// more chunks.
    fn is_round_due(&self, line: u64, edge: u64) -> Result<bool> {
        let tip = self.tip()?;
        let mut writer = tip.writer()?;
        let moves = |writer: &Writer| {
            let mut rows = writer.control.chunks.iter();
            rows.any(|row| row.state == State::Whole && row.number < line)
        };
        if let Some(round) = &writer.below.round {
            let is_stuck = round.is_stuck && round.line < line && moves(&writer);
            if !is_stuck {
                return Ok(true);
            }
            tip.drop_round(&mut writer);
        }
        let (below, above) = (&writer.below, writer.control.above);
        let is_known = above.from != 0 && above.until == 0 && !above.is_round && edge >= above.from;
        let is_due = below.is_wanted || !below.has_ended || !is_known;
        let has_below = writer.control.chunks.iter().any(is_below);
        // Before the first chunk there is nothing.
        Ok(edge != 0 && (moves(&writer) || has_below && (is_due || self.has_suspect_part())))
    }

    /// Whether something above was found damaged, or not there.
    fn has_suspect_part(&self) -> bool {
        let chunks = self.pack.chunks();
        chunks.iter().any(|chunk| chunk.any_part().is_some_and(|part| part.is_suspect()))
    }

    /// `Invalid` when chunks of this store may not go to this lower folder, whose lock is held.
    fn expect_folder(&self, lower: &Arc<dyn Disk>) -> Result<()> {
        volume::remove_leftovers(&**lower)?;
        let tip = self.tip()?;
        let writer = tip.writer()?;
        volume::expect_room(&**lower, writer.control.store, writer.control.epoch)?;
        self.expect_archive(&writer.control, &**lower)
    }

    fn begin_round(&self, line: u64, edge: u64) -> Result<Round> {
        let seen = {
            let tip = self.tip()?;
            let writer = tip.writer()?;
            (writer.chunk.number, writer.append.end().offset)
        };
        let kept = self.kept_below(edge)?;
        let marks = Marks::begin_below(&self.pack, edge, &kept)?;
        Ok(Round {
            marks,
            line,
            edge,
            seen,
            next: 0,
            unnamed: Vec::new(),
            unnamed_bytes: 0,
            spent: 0,
            lost: None,
            is_stuck: false,
        })
    }
}

/// How much a call may do, and has done, in chunks.
struct Work {
    most: u64,
    done: u64,
}

impl Work {
    fn is_left(&self) -> bool {
        self.done < self.most
    }

    /// Reading has cost `bytes` more.
    fn spend(&mut self, round: &mut Round, bytes: u64) {
        round.spent += bytes;
        self.done += round.spent / UNIT;
        round.spent %= UNIT;
    }
}

/// Why a round does not go on.
enum Stop {
    /// The call fails; the next one goes on.
    Call(Error),
    /// So does this round, and another is to begin.
    Over(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Call(error)
    }
}

/// Who moves chunks, and where from and to.
struct Moving<'a> {
    tip: &'a Tip,
    pack: &'a Pack,
    lower: &'a Arc<dyn Disk>,
    alone: Option<&'a dyn Lock>,
}

impl Moving<'_> {
    /// Goes on with the marks, then moves old chunks, the oldest first, and then writes parts anew that have other records than
    /// they should, until the work is done; returns whether the round is at its end.
    fn go_on(
        &self,
        index: &crate::sync::Mutex<HashIndex>,
        round: &mut Round,
        work: &mut Work,
    ) -> std::result::Result<bool, Stop> {
        if !self.mark(round, work)? {
            return Ok(false);
        }
        let mut index = lock(index);
        let mut guard = self.tip.writer()?;
        let writer = &mut *guard;
        if !self.look_on(writer, round, work)? {
            return Ok(false);
        }
        let is_old = |row: &&Row, line| row.state == State::Whole && row.number < line;
        while work.is_left()
            && let Some(row) = writer.control.chunks.iter().find(|row| is_old(row, round.line))
        {
            let row = *row;
            self.cover(writer, &mut index, row.number)?;
            self.move_down(writer, round, row)?;
            self.tip.remove_doomed(writer, u64::MAX)?;
            work.done += 1;
        }
        let renewed = self.renew(writer, round, work);
        if !matches!(renewed, Ok(false)) {
            // At the end, or where it is not known when there is more.
            self.name(writer, round)?;
        }
        self.tip.remove_doomed(writer, u64::MAX)?;
        if !renewed? {
            return Ok(false);
        }
        if let Some(error) = round.marks.take_lost() {
            return Err(Stop::Over(error));
        }
        self.end(writer, round)?;
        Ok(true)
    }

    /// Goes on with the marks; returns whether all is marked.
    fn mark(&self, round: &mut Round, work: &mut Work) -> Result<bool> {
        while work.is_left() {
            let (spent, is_done) = round.marks.go_on(self.pack, UNIT - round.spent)?;
            work.spend(round, spent);
            if is_done {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Marks what was written since it last did so has of old chunks, and what was kept since; returns whether all is marked.
    fn look_on(&self, writer: &mut Writer, round: &mut Round, work: &mut Work) -> Result<bool> {
        loop {
            if round.marks.has_late() && round.next > 0 {
                // Parts that were compared are compared again.
                self.name(writer, round)?;
                (round.next, round.lost, round.is_stuck) = (0, None, false);
            }
            if !self.mark(round, work)? {
                return Ok(false);
            }
            let (seen, read) = round.marks.look_on(self.pack, round.seen)?;
            work.spend(round, read);
            if seen == round.seen && !round.marks.has_late() {
                return Ok(true);
            }
            round.seen = seen;
        }
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

    /// Moves the chunk of `row` to the lower folder, and what is marked of it to a file above.
    fn move_down(&self, writer: &mut Writer, round: &Round, row: Row) -> Result<()> {
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
        let part = self.write_part(writer, &round.marks, row, &old)?;
        drop(old);
        if part.is_some() {
            self.sync_names(writer)?;
        }
        volume::expect_alone(&**lower, self.alone)?;
        let row = Row { state: State::Lower(part), ..row };
        self.tip.put_places(pack, writer, &[row], round.edge).map(drop)
    }

    /// Writes the parts of chunks below anew that have other records than they should, as far as the work goes; `true` when
    /// there are no more. What is lost below is passed, until all others are as they should be.
    fn renew(&self, writer: &mut Writer, round: &mut Round, work: &mut Work) -> Result<bool> {
        while work.is_left() {
            let rows = writer.control.rows(round.next..round.line);
            let Some(row) = rows.iter().find(|row| is_below(row)).copied() else {
                let Some(lost) = round.lost.take() else { return Ok(true) };
                (round.next, round.is_stuck) = (lost, true);
                continue;
            };
            match self.renew_part(writer, round, work, row) {
                Err(error) if is_lost(&error) && !round.is_stuck => {
                    round.lost.get_or_insert(row.number);
                }
                renewed => renewed?,
            }
            round.next = row.number + 1;
        }
        Ok(false)
    }

    /// The same of the chunk of `row`.
    fn renew_part(
        &self,
        writer: &mut Writer,
        round: &mut Round,
        work: &mut Work,
        row: Row,
    ) -> Result<()> {
        let chunk = self.pack.numbered(row.number).expect("it is in the pack as in the table");
        let (read, is_equal) = has_marked(self.pack, &round.marks, &chunk)?;
        work.spend(round, read);
        if is_equal {
            return Ok(());
        }
        let part = self.write_part(writer, &round.marks, row, &chunk)?;
        drop(chunk);
        work.done += 1;
        round.unnamed.push(Row { state: State::Lower(part), ..row });
        round.unnamed_bytes += part.map_or(0, |part| part.bytes);
        // A control file has a row for each chunk: it is written when as much was written of parts.
        if round.unnamed_bytes >= writer.control_bytes || round.unnamed.len() >= UNNAMED_MAX {
            self.name(writer, round)?;
            self.tip.remove_doomed(writer, u64::MAX)?;
        }
        Ok(())
    }

    /// Has the control file name the parts that were written.
    fn name(&self, writer: &mut Writer, round: &mut Round) -> Result<()> {
        if round.unnamed.is_empty() {
            return Ok(());
        }
        self.sync_names(writer)?;
        volume::expect_alone(&**self.lower, self.alone)?;
        self.tip.put_places(self.pack, writer, &round.unnamed, round.edge)?;
        round.unnamed.clear();
        round.unnamed_bytes = 0;
        Ok(())
    }

    /// Makes the names of new parts durable.
    fn sync_names(&self, writer: &mut Writer) -> Result<()> {
        writer.check_lock()?;
        // A name that a failed sync may have lost is never synced again as if it could come back.
        writer.poisoned = true;
        self.tip.disk.sync_directory("")?;
        writer.poisoned = false;
        writer.syncs += 1;
        Ok(())
    }

    /// Writes what `marks` has of `chunk` to a file above, synced; none where that is nothing. Its name is not durable.
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
        writer.syncs += 1;
        let State::Sparse(part) = written.state else { return Ok(None) };
        writer.written_bytes += part.bytes;
        Ok(Some(part))
    }

    /// All that is above is what it should be.
    fn end(&self, writer: &mut Writer, round: &Round) -> Result<()> {
        let above = Above { from: round.edge, until: 0, is_round: false };
        let before = std::mem::replace(&mut writer.control.above, above);
        if before != above
            && let Err(error) = self.tip.write_places(self.pack, writer)
        {
            writer.control.above = before;
            return Err(error);
        }
        (writer.below.has_ended, writer.below.is_wanted) = (true, false);
        Ok(())
    }
}

/// Whether the error is one of a read below of what is not there, or damaged there.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), Kind::Missing | Kind::Corrupt | Kind::Invalid)
}

/// Whether what is above of `chunk`, which is below, is what `marks` has of it, and what was read to see that.
fn has_marked(pack: &Pack, marks: &Marks, chunk: &Arc<Chunk>) -> Result<(u64, bool)> {
    let is_kept = marks.keeps(chunk);
    let part = chunk.part().filter(|part| is_kept && !part.is_suspect());
    let Some(part) = part else {
        return Ok((0, !is_kept && chunk.above().is_none()));
    };
    let mut read = 0;
    let mut compare = || {
        let mut comparing = Comparing::begin(pack, part)?;
        loop {
            let (bytes, compared) = comparing.go_on(pack, marks, u64::MAX)?;
            read += bytes;
            match compared {
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
        Err(error) if is_made_up_for(&error) => {
            part.spoil();
            Ok((read, false))
        }
        equal => Ok((read, equal?)),
    }
}
