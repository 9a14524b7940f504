//! The growing end of a pack: what commits append to, and what working trees spill to.
//!
//! One lock orders the two, and guards the control file; it is taken after that of the index. A
//! spilled batch has no commit record: it is written, not synced, counts for nothing at recovery, and
//! becomes durable with the sync of the commit that refers to it. Invariant: a chunk is durable to its
//! end before the next one has a name, so whatever follows it in the folder, it is whole.

use std::sync::{Arc, Weak};

use super::State;
use super::collection::Collection;
use crate::context::files::batch::{self, Batch};
use crate::context::files::chunk::{CHUNKS_MAX, Opening, Place, Seal, chunk_end};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::collecting::barrier::Barrier;
use crate::context::files::collecting::live::Live;
use crate::context::files::collecting::marks::Marks;
use crate::context::files::control::{Control, Row, State as ChunkState};
use crate::context::files::hash_index::{HashIndex, is_damage};
use crate::context::files::pack::{Pack, Spill};
use crate::context::files::paths::{self, whose};
use crate::context::files::record::{self, Tag};
use crate::context::observer::{self, Meter, Operation, Span};
use crate::context::options::{Index, Options};
use crate::context::pieces::digest;
use crate::context::pieces::node::{Load, Slot};
use crate::context::warnings::Warnings;
use crate::disk::{Disk, Lock};
use crate::error::{Error, Kind, Result};
use crate::file::append::{AppendFile, HEAD, Position};
use crate::file::piecewise::PiecewiseRemoval;
use crate::format::header::{self, FileKind, Header};
use crate::sync::{Mutex, MutexGuard, lock};

/// Bytes after a checkpoint that make the next batch take another, so that opening scans at most
/// about so many, however often the process died since.
const CHECKPOINT_BYTES: u64 = 16 << 20;

/// The same in chunks, where those are small.
const CHECKPOINT_CHUNKS: u64 = 4;

/// More than one more chunk takes, the last commit in it included.
const BATCHES_MAX: u64 = 1 << 50;

/// New bytes of the pack for each byte of the control file before it is written again, so that a long
/// table of chunks adds at most 3 % to what is written.
const CONTROL_SHARE: u64 = 32;

/// So many more chunks only collections begin: each takes one before it can take any away.
const COLLECTIONS_LEFT: u64 = 64;

/// Commits after which an index of commits is saved: so many are read at opening.
const INDEX_COMMITS: u64 = 1024;

/// How many times that, or with all objects in it how many times the distance of two checkpoints, passes
/// before a commit saves the index itself, since nobody else did.
const INDEX_PATIENCE: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Tip {
    pub(super) disk: Arc<dyn Disk>,
    /// The identity of the store.
    pub(super) store: u64,
    pub(super) chunk_bytes: u64,
    pub(super) writer: Mutex<Writer>,
    pub(super) index: Arc<Mutex<HashIndex>>,
    pub(super) warnings: Arc<Warnings>,
    state: Arc<Mutex<State>>,
    /// What a collection that takes away leaves, as long as it is under way: whoever reads asks this, and not
    /// the writer, who may be at the disk.
    leaving: Mutex<Weak<Marks>>,
}

/// What is under the tip's lock.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a fact that the others say nothing about
pub(super) struct Writer {
    pub(super) append: AppendFile,
    lock: Box<dyn Lock>,
    /// The chunk that is appended to.
    pub(super) chunk: Arc<Chunk>,
    /// Where the last batch begins.
    before: u64,
    /// Logical offsets of the first and the last commit in the chunk; 0 for none.
    pub(super) first_commit: u64,
    pub(super) last_commit: u64,
    /// Of a chunk that has ended, where its last batch begins.
    sealed: Option<Checkpoint>,
    /// The chunk's name is not yet durable.
    is_new: bool,
    /// Up to here it was durable when it was opened; 0 if it was begun since.
    opened_to: u64,
    /// What the store is made of; its checkpoint and branches are put in when it is written.
    pub(super) control: Control,
    /// Logical offset up to which the control file covers, and its length.
    recorded: u64,
    pub(super) control_bytes: u64,
    /// A change of the folder failed: which files count is not known.
    pub(super) poisoned: bool,
    pub(super) written_bytes: u64,
    pub(super) syncs: u64,
    /// The collection that is under way, and chunks whose files are to go with their last reader.
    pub(super) collection: Option<Collection>,
    pub(super) doomed: Vec<Arc<Chunk>>,
    /// Of one of those files, which is under way.
    pub(super) removal: Option<PiecewiseRemoval>,
    /// Bytes of files that collections have put others in the place of since the store was opened, and of the others.
    pub(super) freed_bytes: u64,
    pub(super) made_bytes: u64,
    /// The epoch of the chunks that were moved since the lower folder was looked through, and where they went.
    pub(super) moved: Option<(u64, ChunkState)>,
    /// Another copy of the store has chunks in the lower folder that come back, so they stay there too.
    pub(super) is_shared: bool,
    /// What was found to be needed of chunks that go to the lower folder, where some are left to go, and how much of all
    /// that are there was needed above.
    pub(super) live: Option<Live>,
    pub(super) needed_bytes: Option<u64>,
    /// The disk failed when what is above was looked at last.
    pub(super) has_failed_to_tend: bool,
    /// How many chunks there may be at a time.
    pub(super) chunks_max: u64,
}

/// What the control file says of a place from which to scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    pub(super) place: Place,
    /// Logical offset of the first commit before it in its chunk; 0 for none.
    pub(super) first_commit: u64,
}

/// Where a writer begins.
pub(super) struct Start {
    pub(super) append: AppendFile,
    pub(super) lock: Box<dyn Lock>,
    pub(super) chunk: Arc<Chunk>,
    pub(super) before: u64,
    pub(super) first_commit: u64,
    pub(super) last_commit: u64,
    pub(super) sealed: Option<Checkpoint>,
    pub(super) control: Control,
}

impl Tip {
    pub(super) fn new(
        disk: &Arc<dyn Disk>,
        options: &Options,
        start: Start,
        index: Arc<Mutex<HashIndex>>,
        state: Arc<Mutex<State>>,
    ) -> Arc<Tip> {
        let store = start.control.store;
        let opened_to = start.append.end().offset;
        let warnings = Arc::clone(&lock(&index).warnings);
        let writer = Writer {
            append: start.append,
            lock: start.lock,
            chunk: start.chunk,
            before: start.before,
            first_commit: start.first_commit,
            last_commit: start.last_commit,
            sealed: start.sealed,
            is_new: false,
            opened_to,
            recorded: start.control.reaches(),
            control_bytes: start.control.encode().len() as u64,
            control: start.control,
            poisoned: false,
            written_bytes: 0,
            syncs: 0,
            collection: None,
            doomed: Vec::new(),
            removal: None,
            freed_bytes: 0,
            made_bytes: 0,
            moved: None,
            is_shared: false,
            live: None,
            needed_bytes: None,
            has_failed_to_tend: false,
            chunks_max: CHUNKS_MAX,
        };
        Arc::new(Tip {
            disk: Arc::clone(disk),
            store,
            chunk_bytes: options.chunk_bytes,
            writer: Mutex::new(writer),
            index,
            warnings,
            state,
            leaving: Mutex::default(),
        })
    }

    /// From now on a collection takes away all older objects but `marks`.
    pub(super) fn set_leaving(&self, marks: &Arc<Marks>) {
        *lock(&self.leaving) = Arc::downgrade(marks);
    }

    /// The writer, alone. `Poisoned` after a failure.
    pub(super) fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = lock(&self.writer);
        if writer.poisoned {
            return Err(Error::new(
                Kind::Poisoned,
                "the context store stopped writing after a failure: reopen it",
            ));
        }
        Ok(writer)
    }

    /// Ends all writing, for whoever removes the store. `Poisoned` when another writer has taken it.
    pub(super) fn end(&self) -> Result<()> {
        let mut writer = lock(&self.writer);
        writer.check_lock()?;
        writer.poisoned = true;
        Ok(())
    }

    /// Makes sure that the folder is still this writer's.
    pub(super) fn check_lock(&self) -> Result<()> {
        lock(&self.writer).check_lock()
    }

    /// The end of the pack.
    pub(super) fn place(&self) -> Place {
        lock(&self.writer).place()
    }

    /// Whether the commit at `offset` is there and will stay, whatever becomes of what keeps it now. While a
    /// collection marks, what it keeps is chosen again by the next opening.
    pub(super) fn stays_for_good(&self, offset: u64) -> bool {
        let writer = lock(&self.writer);
        let marking = writer.collection.as_ref().filter(|one| !one.cleaning);
        marking.is_none_or(|one| offset >= one.horizon.commit) && writer.stays(offset)
    }

    /// Whether the commit at `offset`, which is there, is none that a collection that marks may take. One
    /// whose horizon counts already, and that an opening marks anew, takes nothing that is there.
    pub(super) fn outlives_marking(&self, offset: u64) -> bool {
        let writer = lock(&self.writer);
        let marking = writer.collection.as_ref().filter(|one| !one.cleaning);
        let undecided = marking.filter(|one| one.horizon != writer.control.horizon);
        undecided.is_none_or(|one| offset >= one.horizon.commit)
    }

    /// Bytes written to pack and control file, and syncs.
    pub(super) fn traffic(&self) -> (u64, u64) {
        let writer = lock(&self.writer);
        (writer.written_bytes, writer.syncs)
    }

    /// Begins another chunk when the last is long or ended, and writes the control file when its place is
    /// far; an index that [`Store::maintain`](super::Store::maintain) never saved is saved at another
    /// commit than these. What cannot be saved of it is read again at the next opening.
    pub(super) fn make_room(
        &self,
        pack: &Pack,
        index: &mut HashIndex,
        writer: &mut Writer,
    ) -> Result<()> {
        let rolls = writer.sealed.is_some() || writer.append.end().offset > self.chunk_bytes;
        // At the end of a chunk it costs a sync less, so it waits a little for one.
        let far = self.far(writer);
        let far = if rolls { far } else { far.saturating_add(far / 4) };
        let is_far = writer.next_offset() > writer.recorded.saturating_add(far);
        if !(rolls || is_far) {
            if self.is_index_due(index, writer, INDEX_PATIENCE) {
                writer.sync(&*self.disk, pack.meter())?;
                let before = index.traffic().written_bytes;
                let _ = index.save(writer.place());
                let bytes = index.traffic().written_bytes - before;
                observer::count(pack.meter(), |meter| &meter.bytes_written, bytes);
            }
            return Ok(());
        }
        if !rolls {
            writer.sync(&*self.disk, pack.meter())?;
        }
        let mut checkpoint = writer.checkpoint();
        if rolls {
            writer.seal(&*self.disk, pack)?;
            // All up to there is durable, while the new chunk is not.
            checkpoint = writer.checkpoint();
            self.begin_chunk(pack, writer, COLLECTIONS_LEFT)?;
        }
        if is_far { self.write_control(pack, writer, checkpoint) } else { Ok(()) }
    }

    /// Whether one of the next commits would have to begin a chunk, which there may be.
    pub(super) fn ends_soon(&self, writer: &Writer) -> bool {
        let count = writer.control.chunks.len() as u64 + COLLECTIONS_LEFT;
        // One that has no commit yet is not replaced, however short chunks are.
        writer.first_commit != 0
            && writer.append.end().offset > self.chunk_bytes - self.chunk_bytes / 8
            && count < writer.chunks_max
    }

    /// Whether a checkpoint would shorten what the next opening reads by much.
    pub(super) fn is_checkpoint_due(&self, index: &HashIndex, writer: &Writer) -> bool {
        writer.next_offset() > writer.recorded.saturating_add(self.far(writer))
            || self.is_index_due(index, writer, 1)
    }

    /// How many bytes of the pack may follow the control file's place before it is written again.
    fn far(&self, writer: &Writer) -> u64 {
        let far = self.chunk_bytes.saturating_mul(CHECKPOINT_CHUNKS).min(CHECKPOINT_BYTES);
        far.max(writer.control_bytes.saturating_mul(CONTROL_SHARE))
    }

    /// Whether what the index has not saved takes long to find again, by `patience`.
    fn is_index_due(&self, index: &HashIndex, writer: &Writer, patience: u64) -> bool {
        if !index.keeps_objects() {
            return index.unsaved() >= INDEX_COMMITS * patience;
        }
        let tried = writer.control.offset_of(index.tried()).unwrap_or(0);
        writer.next_offset() > tried.saturating_add(self.far(writer).saturating_mul(patience))
    }

    /// Ends the chunk and begins another one, of which a collection may have the last.
    pub(super) fn roll(&self, pack: &Pack, writer: &mut Writer, collects: bool) -> Result<()> {
        writer.seal(&*self.disk, pack)?;
        self.begin_chunk(pack, writer, if collects { 0 } else { COLLECTIONS_LEFT })
    }

    /// Begins the chunk after the one that has ended, if more than `left` may follow. Its name becomes durable
    /// with its content.
    fn begin_chunk(&self, pack: &Pack, writer: &mut Writer, left: u64) -> Result<()> {
        let (number, end) = (writer.chunk.number + 1, writer.place().position);
        let most = chunk_end(writer.chunk.base, end.offset.saturating_add(BATCHES_MAX));
        let count = writer.control.chunks.len() as u64;
        let chunks_max = writer.chunks_max;
        if count + left >= chunks_max || most.is_none() {
            return Err(Error::invalid(format!(
                "the store has {count} chunks, and {chunks_max} of 2^61 bytes together are the limit: \
                 collect what is old, or copy what you keep to a store with larger chunks"
            )));
        }
        let control = &writer.control;
        let opening = Opening {
            epoch: control.epoch,
            number,
            base: writer.chunk.base + end.offset,
            chain: end.chain,
            last_commit: lock(&self.state).last_commit,
            configuration: control.configuration,
            index: control.index,
        };
        writer.lock.check().inspect_err(|_| writer.poisoned = true)?;
        let append = create_chunk(&*self.disk, writer.control.store, &opening)?;
        let old = writer.go_on(pack, append, &opening);
        pack.files.count(&old);
        Ok(())
    }

    /// Replaces the control file by one that says how the store is at `checkpoint`, which is durable.
    pub(super) fn write_control(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        checkpoint: Checkpoint,
    ) -> Result<()> {
        let Checkpoint { place, first_commit } = checkpoint;
        let mut control = writer.control.clone();
        let row = control.place_of(place.chunk).expect("the chunk of the checkpoint is there");
        control.chunks.truncate(row + 1);
        let last = control.chunks.last_mut().expect("the checkpoint is in one");
        last.length = place.position.offset;
        last.chain = place.position.chain;
        control.checkpoint = place;
        {
            let state = lock(&self.state);
            control.last_commit = state.last_commit;
            control.branches = state.branches();
        }
        control.first_commit = first_commit;
        self.replace_control(pack, writer, &control)?;
        writer.recorded = control.reaches();
        Ok(())
    }

    /// Makes `control` the store's, after the pack before it is durable.
    pub(super) fn replace_control(
        &self,
        pack: &Pack,
        writer: &mut Writer,
        control: &Control,
    ) -> Result<()> {
        let bytes = control.encode().len() as u64;
        // Another writer may have come in beside this one: nothing more is written over its files.
        writer.lock.check().inspect_err(|_| writer.poisoned = true)?;
        let before = Control::read(&*self.disk).ok();
        // As long as it is not known what became of it, and for good where the disk panics.
        writer.poisoned = true;
        let replaced = control.replace(&self.disk);
        writer.poisoned = false;
        if let Err(error) = replaced {
            if error.is_no_space() {
                // The next attempt has its room.
                pack.evicted_hashes.give_up();
            }
            // Before it has its name nothing has changed, and the call may be repeated. From then on
            // either may be found after a crash, and the two disagree about what comes next.
            let now = Control::read(&*self.disk).ok();
            writer.poisoned = now.is_none() || now != before;
            return Err(error);
        }
        // The folder was synced with it.
        writer.is_new = false;
        writer.syncs += 2;
        writer.control_bytes = bytes;
        writer.written_bytes += bytes;
        observer::count(pack.meter(), |meter| &meter.bytes_written, bytes);
        Ok(())
    }
}

/// Bytes of a chunk that has only begun.
pub(super) const FIRST_BYTES: u64 = header::LENGTH as u64 + Opening::BATCH;

/// Makes the file of a chunk with the batch that begins it, over what an attempt has left that failed
/// before anything in it was durable. Not durable.
pub(super) fn create_chunk(disk: &dyn Disk, store: u64, opening: &Opening) -> Result<AppendFile> {
    let path = paths::chunk(opening.epoch, opening.number);
    whose::expect_free(disk, store, &path, FIRST_BYTES)?;
    let identity = paths::chunk_identity(store, opening.epoch, opening.number);
    let header = Header::new(FileKind::Pack, identity, store);
    AppendFile::create_over(disk, &path, header, |out| {
        let offset = opening.base + Position::start().offset + HEAD as u64;
        record::put(out, store, offset, Tag::Opening, &[0; 32], &opening.encode());
    })
}

impl Writer {
    /// `Poisoned`, from now on, when another writer has taken the store.
    pub(super) fn check_lock(&mut self) -> Result<()> {
        self.lock.check().inspect_err(|_| self.poisoned = true)
    }

    /// Logical offset of the first record of the next batch.
    pub(super) fn next_offset(&self) -> u64 {
        self.chunk.base + self.append.end().offset + HEAD as u64
    }

    /// The end of the pack.
    pub(super) fn place(&self) -> Place {
        Place { chunk: self.chunk.number, position: self.append.end(), before: self.before }
    }

    /// Logical offset of the end of what readers may be told of: of what is durable, if the store syncs.
    pub(super) fn shown_end(&self, is_synced: bool) -> u64 {
        let end = match is_synced {
            true if self.is_new => 0,
            true => self.append.synced().max(self.opened_to),
            false => self.append.end().offset,
        };
        self.chunk.base + end
    }

    /// The last place from which a scan finds all that follows: before the end of a chunk, so that it
    /// sees that the chunk has ended.
    pub(super) fn checkpoint(&self) -> Checkpoint {
        let (place, first_commit) = (self.place(), self.first_commit);
        self.sealed.unwrap_or(Checkpoint { place, first_commit })
    }

    /// Appends one batch, durably if `synced`. On a full disk what is kept there for reading goes first.
    pub(super) fn append(
        &mut self,
        disk: &dyn Disk,
        payload: &[u8],
        synced: bool,
        pack: &Pack,
    ) -> Result<()> {
        self.append_parts(disk, &[payload], synced, pack)
    }

    /// The same, of a batch whose bytes are in several places.
    fn append_parts(
        &mut self,
        disk: &dyn Disk,
        payload: &[&[u8]],
        synced: bool,
        pack: &Pack,
    ) -> Result<()> {
        debug_assert!(self.sealed.is_none(), "a chunk that has ended is never appended to");
        let at = self.append.push_parts(payload)?;
        if let Err(error) = self.append.write() {
            if !(error.is_no_space() && pack.evicted_hashes.give_up()) {
                return Err(error);
            }
            self.append.push_parts(payload)?;
            self.append.write()?;
        }
        self.before = at.offset;
        let bytes = self.append.end().offset - at.offset;
        self.written_bytes += bytes;
        observer::count(pack.meter(), |meter| &meter.bytes_written, bytes);
        if synced {
            self.sync(disk, pack.meter())?;
        }
        self.chunk.extend(self.append.end().offset);
        Ok(())
    }

    /// Appends one batch without a commit, and returns where the next one's first record will be.
    pub(super) fn spill(&mut self, disk: &dyn Disk, payload: &[&[u8]], pack: &Pack) -> Result<u64> {
        self.append_parts(disk, payload, false, pack)?;
        Ok(self.next_offset())
    }

    /// Does `write` with what it may refer to, and tells the collection, if one marks, what it did refer to.
    pub(super) fn beside_collection<T>(
        &mut self,
        pack: &Pack,
        write: impl FnOnce(&mut Writer, Option<&Barrier<'_>>) -> Result<T>,
    ) -> Result<T> {
        let mut collection = self.collection.take();
        let horizon = self.control.horizon.commit;
        let barrier = match &collection {
            Some(collection) => Some(collection.barrier(pack)),
            // The index may lead to an old object that no commit had when chunks moved last.
            None if self.is_archive() => {
                let marked = self.live.as_ref().map(|live| live.edge);
                Some(Barrier::of_archive(pack, horizon, marked))
            }
            None => (horizon > 0).then(|| Barrier::below(pack, horizon)),
        };
        let outcome = write(self, barrier.as_ref());
        let roots = barrier.map(Barrier::into_roots).unwrap_or_default();
        let kept = collection.as_mut().map_or(Ok(()), |collection| collection.keep(&roots));
        self.collection = collection;
        if let Some(live) = &mut self.live
            && roots.iter().try_for_each(|root| live.marks.add(root.0, root.1)).is_err()
        {
            self.live = None;
        }
        kept.and(outcome)
    }

    /// Whether the index may lead to what is in the lower folder alone, or will be.
    fn is_archive(&self) -> bool {
        let control = &self.control;
        let is_below = || control.chunks.iter().any(|row| row.state.is_lower());
        control.index == Index::Always && (self.live.is_some() || is_below())
    }

    /// Whether the commit at `offset` is there and will stay.
    pub(super) fn stays(&self, offset: u64) -> bool {
        let going = self.collection.as_ref().is_some_and(|one| one.horizon.has_collected(offset));
        !going && !self.control.horizon.has_collected(offset)
    }

    /// A commit is at `offset`.
    pub(super) fn note_commit(&mut self, offset: u64) {
        self.last_commit = offset;
        if self.first_commit == 0 {
            self.first_commit = offset;
        }
    }

    /// Makes everything appended durable; does nothing when it is.
    pub(super) fn sync(&mut self, disk: &dyn Disk, meter: Option<&Arc<Meter>>) -> Result<()> {
        if self.append.synced() == self.append.end().offset && !self.is_new {
            return Ok(());
        }
        // The host's clock: should it panic, the state does not know of what was written.
        let was_poisoned = std::mem::replace(&mut self.poisoned, true);
        let start_ns = meter.map_or(0, |meter| meter.now_ns());
        self.poisoned = was_poisoned;
        self.append.sync()?;
        self.syncs += 1;
        if self.is_new {
            // It stays so after an error, and where the disk panics.
            self.poisoned = true;
            disk.sync_directory("")?;
            self.poisoned = false;
            self.syncs += 1;
            self.is_new = false;
        }
        if let Some(meter) = meter {
            // Nor of what was synced.
            self.poisoned = true;
            let duration_ns = meter.now_ns().saturating_sub(start_ns);
            self.poisoned = false;
            observer::count(Some(meter), |meter| &meter.sync_ns, duration_ns);
        }
        Ok(())
    }

    /// Ends the chunk, durably.
    pub(super) fn seal(&mut self, disk: &dyn Disk, pack: &Pack) -> Result<()> {
        if self.sealed.is_some() {
            return self.sync(disk, pack.meter());
        }
        let end = self.append.end();
        let seal = Seal {
            length: end.offset + Seal::BATCH,
            sequence: end.sequence,
            chain: end.chain,
            first_commit: self.first_commit,
            last_commit: self.last_commit,
        };
        let mut batch = Batch::new(pack, self.next_offset(), None);
        batch.put(Tag::Seal, &[0; 32], &seal.encode());
        let checkpoint = self.checkpoint();
        self.append(disk, &batch.finish().bytes, false, pack)?;
        self.sealed = Some(checkpoint);
        debug_assert_eq!(self.append.end().offset, seal.length);
        self.sync(disk, pack.meter())?;
        let chain = self.append.end().chain;
        self.chunk.seal_verified(chain);
        let row = self.control.chunks.last_mut().expect("a control file names a chunk");
        (row.length, row.chain) = (seal.length, chain);
        Ok(())
    }

    /// Goes on with the first chunk, which is durable, of the epoch of `control`, which is recorded. Returns
    /// the last chunk of the epoch before.
    pub(super) fn begin_epoch(
        &mut self,
        pack: &Pack,
        control: Control,
        append: AppendFile,
        opening: &Opening,
    ) -> Arc<Chunk> {
        self.recorded = control.reaches();
        self.control = control;
        let old = self.go_on(pack, append, opening);
        self.is_new = false;
        (self.live, self.needed_bytes) = (None, None);
        self.syncs += 2;
        old
    }

    /// Goes on with another chunk, and returns the one before, whose file is not counted yet.
    fn go_on(&mut self, pack: &Pack, append: AppendFile, opening: &Opening) -> Arc<Chunk> {
        let end = append.end();
        let control = &mut self.control;
        let chunk = Chunk::new(
            pack.cache(),
            pack.store,
            opening.epoch,
            opening.number,
            opening.base,
            end.offset,
        );
        let chunk = Arc::new(chunk);
        chunk.pin(Arc::clone(append.file()));
        pack.add_chunk(Arc::clone(&chunk));
        let row = Row {
            count: 1,
            number: opening.number,
            base: opening.base,
            length: end.offset,
            chain: end.chain,
            state: ChunkState::Whole,
        };
        if opening.number > 0 {
            control.chunks.push(row);
        } else {
            control.chunks = vec![row];
        }
        self.written_bytes += end.offset;
        self.append = append;
        self.before = Position::start().offset;
        (self.first_commit, self.last_commit) = (0, 0);
        self.sealed = None;
        (self.is_new, self.opened_to) = (true, 0);
        std::mem::replace(&mut self.chunk, chunk)
    }
}

impl Spill for Tip {
    fn leaves(&self, offset: u64) -> bool {
        let marks = lock(&self.leaving).upgrade();
        marks.is_none_or(|marks| marks.has_object(offset))
    }

    fn spill(&self, pack: &Pack, root: &mut Slot) -> Result<()> {
        let Slot::Node(node) = &*root else { return Ok(()) };
        if node.width() == 0 {
            return Ok(());
        }
        let _span: Option<Span<'_>> = Span::begin(pack.meter().cloned(), Operation::Spill, &[]);
        digest::node(node, Some(pack))?;
        let mut index = lock(&self.index);
        let mut writer = self.writer()?;
        if index.is_behind() {
            // It cannot say what is stored already: the tree stays in memory.
            return Ok(());
        }
        // A tree of before the store was cleared: its offsets mean nothing in the files of now.
        if !Arc::ptr_eq(&pack.last_chunk(), &writer.chunk) {
            return Ok(());
        }
        let mut known = None;
        if index.keeps_objects() {
            match index.known_objects(&batch::live_objects(node)) {
                // The next commit makes the index again.
                Err(error) if is_damage(&error) => return Ok(()),
                objects => known = Some(objects?),
            }
        }
        self.make_room(pack, &mut index, &mut writer)?;
        let start = writer.next_offset();
        let (offset, mut written) = writer.beside_collection(pack, |writer, barrier| {
            let mut sink = |parts: &[&[u8]]| writer.spill(&*self.disk, parts, pack);
            let batch = Batch::new(pack, start, known.as_ref()).behind(barrier);
            let mut batch = batch.in_pieces(&mut sink);
            let offset = batch.put_tree(node)?;
            Ok((offset, batch.finish()))
        })?;
        let bytes = std::mem::take(&mut written.bytes);
        if !bytes.is_empty() {
            writer.append(&*self.disk, &bytes, false, pack)?;
        }
        index.put_objects(&written.fresh, known.as_ref());
        // What the index does not take now stays in memory until the next commit.
        let _ = index.settle();
        drop(index);
        drop(writer);
        *root = Slot::StoredNode(offset);
        written.settle(pack);
        Ok(())
    }
}
