//! What recent commits need of chunks in the lower folder: it stays above, in a sparse file for each of them, so that the
//! lower disk is for old commits alone.
//!
//! Nothing depends on it: each record is below as well, and is read there when what is above lacks it, or is damaged or
//! lost. Design: `docs/design/collection.md`.

use std::sync::Arc;

use crate::context::files::chunk_files::{Chunk, is_lost};
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::collecting::live::Live;
use crate::context::files::collecting::marks::Marks;
use crate::context::files::collecting::rewrite::Rewriting;
use crate::context::files::control::{Row, State};
use crate::context::files::pack::Pack;
use crate::context::files::paths;
use crate::context::files::sparse::SparseFile;
use crate::context::options::Index;
use crate::context::store::tip::{Tip, Writer};
use crate::disk::remove_quietly;
use crate::error::{Error, Kind, Result};

/// A file above is written anew once less than one in so many of its records is needed.
const NEEDED: u64 = 2;

/// What is above of all chunks may take so many chunks, and so many times what was needed when that was last looked at,
/// before it is looked at again: that takes a read of all that is needed.
const CHUNKS: u64 = 4;
const TIMES: u64 = 2;

/// Whether there was no room for a file that nothing depends on.
pub(super) fn is_full(error: &Error, writer: &Writer) -> bool {
    error.is_no_space() && !writer.poisoned
}

impl Writer {
    /// Whether what is above waits until it has grown, after this error of looking at it: each call would read all of that again,
    /// to find the same. A disk that fails for the first time may do better with the next call.
    fn puts_off(&mut self, error: &Error) -> bool {
        let is_first = !std::mem::replace(&mut self.has_failed_to_tend, true);
        !(is_first && error.kind() == Kind::Io)
    }
}

impl Tip {
    /// Writes what is needed of the chunk of `row` to a file above, of which nothing is named yet: durable when this returns
    /// what the control file is to say.
    pub(super) fn write_above(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        marks: &Marks,
        row: &Row,
    ) -> Result<State> {
        let chunk = pack.numbered(row.number).expect("a chunk that is whole is in the pack");
        if !marks.keeps(&chunk) {
            return Ok(State::Lower);
        }
        let sparse = self.copy_needed(pack, writer, marks, &chunk, row)?;
        self.name_above(writer).inspect_err(|_| {
            self.drop_above(writer, &Row { state: State::Both(sparse), ..*row });
        })?;
        Ok(State::Both(sparse))
    }

    /// Makes the names of new files durable.
    fn name_above(&self, writer: &mut Writer) -> Result<()> {
        writer.check_lock()?;
        // A name that a failed sync may have lost is never synced again as if it could come back.
        writer.poisoned = true;
        self.disk.sync_directory("")?;
        writer.poisoned = false;
        writer.syncs += 1;
        Ok(())
    }

    /// The same for one chunk, read from the file of `chunk`; its name is not durable. On a full disk what is kept there
    /// for reading goes first.
    fn copy_needed(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        marks: &Marks,
        chunk: &Arc<Chunk>,
        row: &Row,
    ) -> Result<SparseFile> {
        match self.copy_once(pack, writer, marks, chunk, row) {
            Err(error) if is_full(&error, writer) && pack.evicted_hashes.give_up() => {
                self.copy_once(pack, writer, marks, chunk, row)
            }
            copied => copied,
        }
    }

    fn copy_once(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        marks: &Marks,
        chunk: &Arc<Chunk>,
        row: &Row,
    ) -> Result<SparseFile> {
        // Another writer may have made a file of this name, and count on it.
        writer.check_lock()?;
        let mut rewriting = Rewriting::begin(&*self.disk, pack, &[Arc::clone(chunk)], *row)?;
        writer.reuse(rewriting.path());
        let written = (|| {
            while !rewriting.go_on(pack, marks, u64::MAX)?.1 {}
            rewriting.finish()
        })();
        let path = rewriting.path();
        let written = written.inspect_err(|_| self.remove_unnamed(writer, path))?;
        let sparse = written.state.sparse().expect("it was just made");
        writer.syncs += 1;
        writer.written_bytes += sparse.bytes;
        Ok(sparse)
    }

    /// Removes the file above that `row` would have named.
    pub(super) fn drop_above(&self, writer: &mut Writer, row: &Row) {
        if let State::Both(SparseFile { generation, .. }) = row.state {
            let path = paths::sparse_chunk(writer.control.epoch, row.number, generation);
            self.remove_unnamed(writer, &path);
        }
    }

    fn remove_unnamed(&self, writer: &mut Writer, path: &str) {
        // Once the writer is poisoned it is not known what names it, or whose it is.
        if !writer.poisoned && writer.check_lock().is_ok() {
            remove_quietly(&*self.disk, path);
        }
    }

    /// Rids what is above of what is no longer needed, and brings up what a commit has taken over from an old one, if much
    /// was added since that was last done, or this handle has not done it.
    pub(super) fn tend(&self, pack: &Pack, writer: &mut Writer, live: &mut Live) -> Result<()> {
        let above = |writer: &Writer| -> u64 {
            let rows = writer.control.chunks.iter().filter(|row| row.state.is_lower());
            rows.filter_map(|row| row.state.sparse()).map(|sparse| sparse.bytes).sum()
        };
        let most = writer.needed_bytes.map(|needed| TIMES * needed + CHUNKS * self.chunk_bytes);
        if most.is_some_and(|most| above(writer) <= most) {
            return Ok(());
        }
        if let Err(error) = live.marks.go_down_to(pack, 0) {
            writer.needed_bytes = writer.puts_off(&error).then(|| above(writer));
            return Err(error);
        }
        let rows = writer.control.chunks.clone();
        let (mut fresh, mut failed, mut is_full) = (Vec::new(), None::<Error>, false);
        for row in rows.into_iter().filter(|row| row.state.is_lower() && row.number < live.line) {
            let Some(chunk) = pack.numbered(row.number) else { continue };
            match self.renewed(pack, writer, &live.marks, &chunk, &row) {
                Ok(state) if state == row.state => {}
                Ok(state) => fresh.push(Row { state, ..row }),
                Err(error) if writer.poisoned => return Err(error),
                // That one stays as it is, and the others are seen to while there is room.
                Err(error) => {
                    is_full = error.is_no_space();
                    failed = Some(error);
                }
            }
            if is_full {
                break;
            }
        }
        if !fresh.is_empty() {
            let named = self.name_above(writer).and_then(|()| self.put_above(pack, writer, &fresh));
            named.inspect_err(|_| fresh.iter().for_each(|row| self.drop_above(writer, row)))?;
        }
        // Where a file found no room, the next call tries again.
        let is_seen_to = match &failed {
            Some(error) => !is_full && writer.puts_off(error),
            None => true,
        };
        writer.needed_bytes = is_seen_to.then(|| above(writer));
        writer.has_failed_to_tend &= failed.is_some();
        failed.map_or(Ok(()), Err)
    }

    /// What the control file is to say of `chunk`, which is in the lower folder: as it does, or the file above that was
    /// written in the place of that which it has.
    fn renewed(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        marks: &Marks,
        chunk: &Arc<Chunk>,
        row: &Row,
    ) -> Result<State> {
        if !marks.keeps(chunk) {
            return Ok(State::Lower);
        }
        let mut source = chunk;
        if let Some(above) = &chunk.above {
            match ChunkReader::expect_all(pack, above) {
                Ok(there) => {
                    let (mut needed, mut lacks, mut next) = (0, false, chunk.base);
                    let mut unneeded = there.iter().filter(|record| record.1).count();
                    while let Some((offset, is_object)) = marks.kept_from(chunk, next) {
                        needed += 1;
                        match there.binary_search_by_key(&offset, |record| record.0) {
                            Ok(place) => unneeded -= usize::from(is_object && there[place].1),
                            Err(_) => lacks = true,
                        }
                        next = offset + 1;
                    }
                    // The index would lead a commit to an object of which the file says that it is there with all that it
                    // refers to, which the others may have no more.
                    let is_led = writer.control.index == Index::Always && unneeded > 0;
                    if !(lacks || is_led) && needed * NEEDED > there.len() as u64 {
                        return Ok(row.state);
                    }
                    source = if lacks { chunk } else { above };
                }
                Err(error) if is_lost(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.copy_needed(pack, writer, marks, source, row).map(State::Both)
    }

    /// Puts the files that `fresh` says in the place of those that the chunks have above.
    fn put_above(&self, pack: &Pack, writer: &mut Writer, fresh: &[Row]) -> Result<()> {
        let before = writer.control.chunks.clone();
        for row in fresh {
            let place = writer.control.place_of(row.number).expect("its row was just seen");
            writer.control.chunks[place] = *row;
        }
        if let Err(error) = self.write_places(pack, writer) {
            writer.control.chunks = before;
            return Err(error);
        }
        for row in fresh {
            let chunk = Chunk::collected(pack.cache(), pack.store, writer.control.epoch, row);
            let old = pack.swap_chunk(Arc::new(chunk));
            writer.doomed.extend(old.iter().filter_map(Chunk::own));
        }
        Ok(())
    }
}
