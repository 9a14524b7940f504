//! What every table, view and merge of a session shares: the disk, the segments, the readers.
//!
//! Segments are counted: a run or a snapshot's pin holds each. When the last of them lets go, the file is
//! removed by whoever writes next, or with the store, unless the session was closed or poisoned meanwhile. Then it stays, and the next open
//! removes it after every manifest was read.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};

use super::counters::{Counters, Purpose};
use super::held_lock::HeldLock;
use super::options::{Executor, SessionOptions};
use super::paths::{self, SEGMENTS, tell_doubt};
use super::scratch::{Scratch, Scratches};
use super::unsynced::{Unsynced, UnsyncedFiles};
use crate::cache::{Cache, CachedFile, Charge};
use crate::disk::{Access, Disk, Lock, Mode, quietly};
use crate::error::{Error, Kind, Result};
use crate::file::piecewise::{PIECE_BYTES, PiecewiseRemoval};
use crate::file::removals::Removals;
use crate::file::shared::{Counted, SharedFile};
use crate::file::spare::SpareFiles;
use crate::format::hash::{Salt, combine};
use crate::order::BTreeMap;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, RwLock, lock};
use crate::table::bytes::FIRST_PAGE;
use crate::table::runs::blob::{BlobBuilder, BlobFile, BlobMeta, BlobSpan, HeldBlob};
use crate::table::runs::{Finished, Segment, SegmentBuilder, SegmentMeta, SegmentOptions};

/// See the module.
pub struct SegmentStore {
    pub(in crate::table) disk: Arc<dyn Disk>,
    pub(in crate::table) options: SessionOptions,
    /// The store's identity, from which files derive theirs.
    pub(in crate::table) identity: u64,
    /// Of the filters of new segments.
    pub(in crate::table) salt: Salt,
    /// Of this opening; 0 where it only reads.
    seed: u64,
    pub(in crate::table) read_only: bool,
    pub(in crate::table) counters: Counters,
    /// Stopped when the session is closed or poisoned.
    removals: Arc<Removals>,
    counted: Counted,
    unsynced: UnsyncedFiles,
    pub(in crate::table) spares: Arc<SpareFiles>,
    /// Of this opening of the store, in the cache.
    cache_number: u64,
    /// Shared with blob files, since references to them may outlive everything else.
    pub(in crate::table) closed: Arc<AtomicBool>,
    /// While merges are paused, how many bytes of sealed write buffers a table may hold; else the
    /// greatest number.
    paused_bytes_max: AtomicU64,
    /// Held shared by whoever writes segments or the log, so that the end of the session can wait for
    /// them. Not to be taken twice by one thread: the end may come between.
    working: RwLock<()>,
    /// Syncs of files in the folder of segments that were begun, and how many of these the last sync of
    /// the folder came after.
    names_owed: AtomicU64,
    names_synced: AtomicU64,
    /// Held while the folder is synced.
    naming: Mutex<()>,
    next_segment: AtomicU64,
    segments: Mutex<HashMap<u64, Weak<Segment>>>,
    /// By identity: copies of one file, which came with different snapshots, have the same.
    blobs: Mutex<HashMap<u64, Vec<Weak<BlobFile>>>>,
    files: Mutex<HashMap<u64, Weak<SharedFile>>>,
    scratches: Scratches,
    no_ranges: AtomicBool, // are read: new segments have no range filters
    lock: HeldLock,
}

/// How many files that were let go an update removes at most: freeing one may take a millisecond, and a
/// reader may let go of thousands at once. Whoever makes a segment removes as many.
const REMOVED_AT_ONCE: usize = 4;

impl Drop for SegmentStore {
    /// The last handle of the session goes: nobody else is there to remove what was let go, and afterwards
    /// the folder is not locked any more.
    fn drop(&mut self) {
        self.spares.clear();
        self.removals.stop();
    }
}

/// How many files are made durable at most where so many are not that they take too many descriptors. More
/// than one, so that those that others pinned meanwhile become fewer.
const SYNCED_AT_ONCE: usize = 2;

/// Poisons the session when it is dropped.
struct Poisoning<'a>(&'a SegmentStore);

impl Drop for Poisoning<'_> {
    fn drop(&mut self) {
        self.0.poison();
    }
}

impl SegmentStore {
    pub fn new(
        disk: Arc<dyn Disk>,
        options: SessionOptions,
        (identity, salt): (u64, u64),
        next_segment: u64,
        lock: Option<(Box<dyn Lock>, u64)>,
    ) -> Arc<Self> {
        let (lock, seed) = lock.unzip();
        let cache_number = options.cache.as_ref().map_or(0, |cache| cache.join());
        let (is_writer, lock) = (lock.is_some(), HeldLock::new(lock));
        let removals = lock.removals();
        let counted = Counted::new(&disk, &removals, options.max_open_files);
        let counted = if is_writer { counted } else { counted.of_reader() };
        Arc::new(SegmentStore {
            counted,
            unsynced: UnsyncedFiles::default(),
            spares: SpareFiles::for_files_of(&disk, options.segment_bytes, &removals),
            disk,
            options,
            identity,
            salt: Salt::new(salt),
            seed: seed.unwrap_or(0),
            read_only: !is_writer,
            counters: Counters::default(),
            cache_number,
            removals,
            closed: Arc::default(),
            paused_bytes_max: AtomicU64::new(u64::MAX),
            working: RwLock::new(()),
            names_owed: AtomicU64::new(0),
            names_synced: AtomicU64::new(0),
            naming: Mutex::new(()),
            next_segment: AtomicU64::new(next_segment),
            segments: Mutex::new(HashMap::new()),
            blobs: Mutex::new(HashMap::new()),
            files: Mutex::new(HashMap::new()),
            scratches: Scratches::default(),
            no_ranges: AtomicBool::new(false),
            lock,
        })
    }

    /// Bytes at which a segment ends.
    pub fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes.min(1 << 32)
    }

    pub fn access(&self) -> Access {
        self.options.access
    }

    pub fn executor(&self) -> Option<&Arc<dyn Executor>> {
        if cfg!(varvite_js) { None } else { self.options.executor.as_ref() }
    }

    /// `Closed` once the session is.
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(
                Kind::Closed,
                format!("the session at {} was closed: open it again", self.disk.root()),
            ));
        }
        Ok(())
    }

    /// `Closed`, `Poisoned`, or `Invalid` for a read-only session.
    pub fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            return Err(Error::invalid(format!(
                "the session at {} is open for reading only: open it for writing",
                self.disk.root()
            )));
        }
        if self.lock.is_poisoned() {
            return Err(Error::new(
                Kind::Poisoned,
                format!(
                    "a sync failed earlier, so the session at {} takes no more writes: \
                     fix the disk, then open the session again",
                    self.disk.root()
                ),
            ));
        }
        Ok(())
    }

    /// Has updates and helpers merge nothing, until a table holds more than so many bytes.
    pub fn pause_merges(&self, buffered_bytes_max: u64) {
        self.paused_bytes_max.store(buffered_bytes_max.min(u64::MAX - 1), Ordering::Release);
    }

    /// Has them merge again.
    pub fn resume_merges(&self) {
        self.paused_bytes_max.store(u64::MAX, Ordering::Release);
    }

    /// Whether merges are paused, and then how many bytes of sealed write buffers a table may hold.
    pub fn paused(&self) -> Option<u64> {
        let most = self.paused_bytes_max.load(Ordering::Acquire);
        (most < u64::MAX).then_some(most)
    }

    /// Whether what is durable is known, by the only one who changes it.
    pub fn is_sound(&self) -> bool {
        !self.read_only && !self.lock.is_poisoned()
    }

    /// Removes some of the files whose last holder let them go, for whoever has to be quick.
    pub fn remove_some(&self) {
        self.removals.collect_some(REMOVED_AT_ONCE);
    }

    /// Leaves the long file at `path`, which is none of them, to [`SegmentStore::remove_some_of_long`] and to
    /// whoever finds no room; `after` is done then.
    pub fn leave_long(&self, path: String, after: impl Fn() + Send + 'static) {
        let mut removal = PiecewiseRemoval::new(&self.disk, path);
        self.removals.leave_long(move || removal.go_on() && (after(), true).1);
    }

    /// Whether long files wait to be removed.
    pub fn has_long(&self) -> bool {
        self.removals.has_long()
    }

    /// Removes them all.
    pub fn remove_long(&self) {
        self.removals.collect_long(usize::MAX);
    }

    /// Removes pieces of them, one at least and about so many bytes, for whoever has to be quick.
    pub fn remove_some_of_long(&self, bytes: u64) {
        let pieces = usize::try_from(bytes / PIECE_BYTES).unwrap_or(usize::MAX);
        self.removals.collect_pieces_of_long(pieces.max(1));
    }

    /// Removes all of them.
    pub fn remove_all(&self) {
        self.removals.collect(usize::MAX);
    }

    /// Stops all writing: what was synced is what there is.
    pub fn poison(&self) {
        if self.lock.poison() {
            return;
        }
        self.removals.stop();
        if !self.read_only {
            quietly(|| {
                // A folder that another has by now is not ours to write to.
                if self.lock.is_ours() {
                    tell_doubt(&*self.disk);
                }
            });
        }
    }

    /// Does work that writes segments or the log, unless the session has ended.
    pub fn write<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _working = self.working.read().unwrap_or_else(PoisonError::into_inner);
        self.check_writable()?;
        work()
    }

    /// Later calls give `Closed` and files are no longer removed. Waits for removals under way and for
    /// those who write segments or the log now, at most to the end of their segment: what they made is
    /// known then, and none of them changes a folder that the next session has.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.removals.stop();
        drop(self.working.write().unwrap_or_else(PoisonError::into_inner));
        self.scratches.clear();
    }

    /// `Poisoned` when the folder's lock was taken from it: then another may write there too.
    pub fn check_lock(&self) -> Result<()> {
        self.lock.check().inspect_err(|_| self.poison())
    }

    /// Lets the next session have the folder.
    pub fn unlock(&self) {
        self.lock.release();
    }

    /// New segments have no range filters from now on: of what the session holds no ranges are read.
    pub fn expect_no_ranges(&self) {
        self.no_ranges.store(true, Ordering::Relaxed);
    }

    /// A builder of a new segment of about so many bytes. `Closed` or `Poisoned` when there are to be
    /// none any more.
    pub fn build_segment(&self, filter_bits: u8, about_bytes: u64) -> Result<SegmentBuilder> {
        self.check_writable()?;
        self.keep_unsynced_few()?;
        let id = self.new_id();
        let options = SegmentOptions {
            id,
            identity: self.new_identity(id),
            store: self.identity,
            salt: self.salt.number(),
            bits_per_entry: u32::from(filter_bits),
            range_filter: !self.no_ranges.load(Ordering::Relaxed),
            access: self.options.access,
        };
        let path = paths::segment(id);
        let spare = self.spares.take(&path, options.access, about_bytes)?;
        let mut builder = if let Some(file) = spare {
            SegmentBuilder::over(file, options)
        } else {
            // Nor is anything made in a folder that is another's.
            self.check_lock()?;
            SegmentBuilder::new(&*self.disk, &path, options)?
        };
        builder.count_file(|file| {
            let shared = SharedFile::unkept(&self.counted, path, file);
            shared.spare_in(&self.spares);
            shared
        });
        if let Some(cache) = &self.options.cache
            && self.live_bytes() < cache.budget_bytes() / 10 * 9
        {
            builder.fill_cache(self.cached_file(cache, (id, options.identity), 0));
        }
        Ok(builder)
    }

    /// Bytes of all segments that somebody holds. While they fit the cache, what merges write goes
    /// there too, since it replaces what was there; beyond that it would push out what is hot.
    fn live_bytes(&self) -> u64 {
        // Let go only after the lock, since that may remove a file.
        let held: Vec<_> = lock(&self.segments).values().filter_map(Weak::upgrade).collect();
        held.iter().map(|segment| segment.meta().file_bytes()).sum()
    }

    /// Identities alone are not different for certain: a copy of a store has the same ones, and
    /// snapshots of both may come into a third.
    fn cached_file(
        &self,
        cache: &Arc<Cache>,
        (id, identity): (u64, u64),
        page_count: u32,
    ) -> CachedFile {
        let identity = combine(combine(identity, id), self.cache_number);
        CachedFile::new(cache, identity, page_count)
    }

    fn cached(&self, meta: &SegmentMeta) -> Option<CachedFile> {
        let cache = self.options.cache.as_ref()?;
        Some(self.cached_file(cache, (meta.id, meta.identity), FIRST_PAGE + meta.footer.pages))
    }

    /// A charge to the budget of the cache, if there is one, for what is kept beside the pages.
    pub fn charge(&self) -> Option<Charge> {
        self.options.cache.as_ref().map(Cache::charge)
    }

    /// New segments get ids above `id`.
    pub fn number_above(&self, id: u64) {
        self.next_segment.fetch_max(id.saturating_add(1), Ordering::Relaxed);
    }

    /// The identity of a new segment or blob file. Entries and backups know it by this, so a copy of the
    /// store, opened with another seed, uses another.
    fn new_identity(&self, id: u64) -> u64 {
        combine(combine(self.identity, id), self.seed)
    }

    /// A builder of a new blob file.
    pub fn build_blob(&self) -> Result<BlobBuilder> {
        self.check_writable()?;
        self.keep_unsynced_few()?;
        self.remove_some();
        let id = self.next_segment.fetch_add(1, Ordering::Relaxed);
        let file = self.disk.open(&paths::blob(id), Mode::Create, self.options.access)?;
        let shared = SharedFile::unkept(&self.counted, paths::blob(id), Arc::clone(&file));
        let identity = self.new_identity(id);
        Ok(BlobBuilder::new(
            (id, identity, self.identity),
            file,
            shared,
            &self.closed,
            &self.spares,
        ))
    }

    /// The blob file that a builder finished.
    pub fn adopt_blob(&self, builder: BlobBuilder, purpose: Purpose) -> Result<Arc<BlobFile>> {
        let file = builder.finish()?;
        self.counters.add_written(purpose, file.meta().file_bytes());
        self.counters.add_blob_written(file.meta().file_bytes());
        remember(&self.files, file.meta().id, file.shared());
        self.remember_blob(&file)?;
        self.unsynced.note(&file);
        Ok(file)
    }

    /// Adds a blob file to those that entries may name. `Invalid` when another one, which is no copy
    /// of it, has its identity.
    fn remember_blob(&self, file: &Arc<BlobFile>) -> Result<()> {
        let mut blobs = lock(&self.blobs);
        if blobs.len().is_power_of_two() {
            // Now and then, those that are gone.
            blobs.retain(|_, files| files.iter().any(|file| file.strong_count() > 0));
        }
        let copies = blobs.entry(file.meta().identity).or_default();
        copies.retain(|copy| copy.strong_count() > 0);
        let held: Vec<_> = copies.iter().filter_map(Weak::upgrade).collect();
        let is_copy = held.iter().all(|copy| copy.meta().is_copy_of(file.meta()));
        if is_copy {
            copies.push(Arc::downgrade(file));
        }
        drop(blobs);
        // Perhaps the last to hold them, and then they go from disk.
        drop(held);
        if is_copy {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{} has the identity of another file of the session: it comes from a copy of the store \
             that went on with the same seed, so the two cannot be in one session",
            paths::blob(file.meta().id)
        )))
    }

    /// The blob file of this identity that is open, with that number if one is given.
    fn held_blob(&self, identity: u64, id: Option<u64>) -> Option<Arc<BlobFile>> {
        // Let go only after the lock, since that may remove a file.
        let copies: Vec<_> =
            lock(&self.blobs).get(&identity)?.iter().filter_map(Weak::upgrade).collect();
        copies.into_iter().find(|file| id.is_none_or(|id| id == file.meta().id))
    }

    /// The value that an entry refers to, whose source the caller holds.
    pub fn blob(&self, reference: &[u8]) -> Result<HeldBlob> {
        let span = BlobSpan::decode(reference);
        let file = span.and_then(|span| self.held_blob(span.file, None));
        match span.zip(file) {
            Some((span, file)) => Ok(HeldBlob { span, file }),
            None => Err(Error::corrupt(
                SEGMENTS,
                0,
                "a blob file that the segment of its entry lists",
                "one that it does not",
            )),
        }
    }

    /// The bytes of the value that an entry refers to.
    pub fn fetch(&self, reference: &[u8]) -> Result<Vec<u8>> {
        let blob = self.blob(reference)?;
        let value = blob.file.read_whole(&blob.span)?;
        self.counters.add_blobs(std::slice::from_ref(&blob));
        Ok(value)
    }

    /// A blob file that a manifest names. In a session that only reads it is opened at once, since
    /// another process may remove it.
    pub fn open_blob(&self, meta: &BlobMeta) -> Result<Arc<BlobFile>> {
        let file = if let Some(file) = self.held_blob(meta.identity, Some(meta.id)) {
            file
        } else {
            let shared = self.shared_file(meta.id, paths::blob(meta.id));
            let file = Arc::new(BlobFile::new(*meta, shared, &self.closed));
            self.remember_blob(&file)?;
            file
        };
        if file.meta() != meta {
            return Err(Error::corrupt(
                &paths::blob(meta.id),
                0,
                "the blob file as every segment describes it",
                "different descriptions",
            ));
        }
        if self.read_only {
            file.file()?;
        }
        Ok(file)
    }

    /// The segment that a builder finished, which refers to `blobs`.
    pub fn adopt(
        &self,
        finished: Finished,
        blobs: Vec<Arc<BlobFile>>,
        purpose: Purpose,
    ) -> Arc<Segment> {
        self.counters.add_written(purpose, finished.meta.file_bytes());
        let id = finished.meta.id;
        let Finished { meta, index, filter, cached, counted, .. } = finished;
        let cached = cached.or_else(|| self.cached(&meta)).inspect(|it| charge_open(it, &meta));
        let shared = counted.expect("the files of a session are counted");
        remember(&self.files, id, &shared);
        let segment = Segment::adopt(meta, index, filter, shared).with_cache(cached);
        let segment = Arc::new(segment.with_blobs(blobs));
        remember(&self.segments, id, &segment);
        self.unsynced.note(&segment);
        segment
    }

    /// The counted file at `path` that a manifest names by `id`. Not opened yet.
    pub fn shared_file(&self, id: u64, path: String) -> Arc<SharedFile> {
        if self.read_only {
            // Another file may have the number by now. Who reads shares what is open by what it is.
            return SharedFile::kept(&self.counted, path, self.options.access);
        }
        if let Some(file) = lock(&self.files).get(&id).and_then(Weak::upgrade) {
            return file;
        }
        let file = SharedFile::kept(&self.counted, path, self.options.access);
        remember_first(&self.files, id, file)
    }

    /// A number for a new segment.
    pub fn new_id(&self) -> u64 {
        self.next_segment.fetch_add(1, Ordering::Relaxed)
    }

    /// The counted file at `path` that was put there from elsewhere: gone with its last holder, and at
    /// once when it does not open.
    fn take_in(&self, id: u64, path: &str) -> Result<Arc<SharedFile>> {
        // To be synced by this handle, which must be able to write for that on some systems.
        let opened = self.disk.open(path, Mode::Write, self.options.access);
        let file = opened.inspect_err(|_| drop(self.disk.remove(path)))?;
        let shared = SharedFile::unkept(&self.counted, path, file);
        remember(&self.files, id, &shared);
        Ok(shared)
    }

    /// The segment in a file that was put in its place from elsewhere: not synced, and gone with its
    /// last holder, also when it is not what `meta` says.
    pub fn adopt_file(&self, meta: &SegmentMeta) -> Result<Arc<Segment>> {
        let shared = self.take_in(meta.id, &paths::segment(meta.id))?;
        self.keep_unsynced_few()?;
        let segment = Segment::open_shared(meta.clone(), shared)?.unsynced();
        let blobs = meta.blobs.iter().map(|it| self.open_blob(&it.file)).collect::<Result<_>>()?;
        let cached = self.cached(meta).inspect(|it| charge_open(it, meta));
        let segment = Arc::new(segment.with_cache(cached).with_blobs(blobs));
        remember(&self.segments, meta.id, &segment);
        self.unsynced.note(&segment);
        Ok(segment)
    }

    /// The same for a blob file.
    pub fn adopt_blob_file(&self, meta: &BlobMeta) -> Result<Arc<BlobFile>> {
        let shared = self.take_in(meta.id, &paths::blob(meta.id))?;
        // What was just opened counts as known, and this one somebody else has written.
        shared.doubt();
        self.keep_unsynced_few()?;
        let file = Arc::new(BlobFile::new(*meta, shared, &self.closed).unsynced());
        file.file()?;
        self.remember_blob(&file)?;
        self.unsynced.note(&file);
        Ok(file)
    }

    /// Counts the bytes of a manifest written.
    pub fn count_manifest(&self, bytes: u64) {
        self.counters.add_written(Purpose::Snapshot, bytes);
    }

    /// The segment that a manifest names, with its footer checked. Opened once however many runs
    /// share it.
    pub fn open_segment(&self, meta: &SegmentMeta) -> Result<Arc<Segment>> {
        if let Some(segment) = self.held_segment(meta)? {
            return Ok(segment);
        }
        let shared = self.shared_file(meta.id, paths::segment(meta.id));
        self.equip(Segment::open_shared(meta.clone(), shared)?)
    }

    /// The segment of `meta` if it is open. One of other content under its number is damage, but not where this session
    /// only reads: a writer without a log gives a number again once what had it was deleted.
    fn held_segment(&self, meta: &SegmentMeta) -> Result<Option<Arc<Segment>>> {
        let held = lock(&self.segments).get(&meta.id).and_then(Weak::upgrade);
        match held {
            Some(segment) if segment.meta() == meta => Ok(Some(segment)),
            Some(_) if !self.read_only => Err(Error::corrupt(
                &paths::segment(meta.id),
                0,
                "the segment as every manifest describes it",
                "different descriptions",
            )),
            _ => Ok(None),
        }
    }

    /// Opens those of `metas` that nobody has open yet, all reads in flight together. Whoever holds
    /// what is returned finds them by [`SegmentStore::open_segment`] without a read.
    pub fn open_segments<'a>(
        &self,
        metas: impl Iterator<Item = &'a SegmentMeta>,
    ) -> Result<Vec<Arc<Segment>>> {
        let mut missing = BTreeMap::new();
        for meta in metas {
            if self.held_segment(meta)?.is_none() {
                missing.insert(meta.id, meta);
            }
        }
        let file = |meta: &SegmentMeta| self.shared_file(meta.id, paths::segment(meta.id));
        let listed = missing.into_values().map(|meta| (meta, file(meta))).collect();
        let mut scratch = self.take_scratch()?;
        let segments = Segment::open_all(listed, &mut *scratch.queue)?;
        self.put_scratch(scratch);
        segments.into_iter().map(|segment| self.equip(segment)).collect()
    }

    /// A segment as this store uses it, with cache and blob files.
    fn equip(&self, segment: Segment) -> Result<Arc<Segment>> {
        let (id, meta) = (segment.meta().id, segment.meta());
        let blobs = meta.blobs.iter().map(|it| self.open_blob(&it.file)).collect::<Result<_>>()?;
        let cached = self.cached(meta).inspect(|it| charge_open(it, meta));
        let segment = Arc::new(segment.with_cache(cached).with_blobs(blobs));
        let mut open = lock(&self.segments);
        let held = open.get(&id).and_then(Weak::upgrade);
        if held.as_ref().is_none_or(|held| held.meta() != segment.meta()) {
            note(&mut open, id, &segment);
        }
        drop(open);
        Ok(held.filter(|held| held.meta() == segment.meta()).unwrap_or(segment))
    }

    /// Makes segments and their blob files durable with their names. A failure poisons the session.
    ///
    /// Others sync files meanwhile: nobody waits but for one file, or for the folder.
    pub fn sync_segments<'a>(
        &self,
        mut segments: impl Iterator<Item = &'a Arc<Segment>>,
    ) -> Result<()> {
        self.check_writable()?;
        segments.try_for_each(|segment| {
            segment.blobs().iter().try_for_each(|blob| self.sync_blob(blob))?;
            if segment.is_synced() {
                return Ok(());
            }
            self.owe_name();
            self.time_sync(|| self.or_poison(|| segment.sync()))
        })?;
        self.sync_names()
    }

    /// The same for blob files alone.
    pub fn sync_blobs<'a>(
        &self,
        blobs: impl Iterator<Item = &'a Arc<BlobFile>> + Clone,
    ) -> Result<()> {
        self.check_writable()?;
        blobs.clone().try_for_each(|blob| self.sync_blob(blob))?;
        self.sync_names()?;
        blobs.for_each(|blob| blob.note_durable());
        Ok(())
    }

    fn sync_blob(&self, blob: &BlobFile) -> Result<()> {
        if blob.is_synced() {
            return Ok(());
        }
        self.owe_name();
        self.time_sync(|| self.or_poison(|| blob.sync()))
    }

    /// Notes that a name is to be made durable. Before the sync of its file, so that whoever finds that
    /// one done finds this too.
    fn owe_name(&self) {
        self.names_owed.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes the names durable of all files that were synced before, unless they are. A failure poisons
    /// the session.
    pub fn sync_names(&self) -> Result<()> {
        let _naming = lock(&self.naming);
        // A sync of the folder that failed was told of names that another would not be told of.
        self.check_writable()?;
        let owed = self.names_owed.load(Ordering::Acquire);
        if owed > self.names_synced.load(Ordering::Acquire) {
            self.or_poison(|| self.disk.sync_directory(SEGMENTS))?;
            self.names_synced.store(owed, Ordering::Release);
        }
        Ok(())
    }

    /// Does `sync`, which makes something durable. An error of it poisons the session.
    pub fn or_poison<T>(&self, sync: impl FnOnce() -> Result<T>) -> Result<T> {
        self.unless_panicked(sync).inspect_err(|_| self.poison())
    }

    /// Does `work`. When the host's disk panics in it, nobody knows what is durable, so that poisons the
    /// session.
    pub fn unless_panicked<T>(&self, work: impl FnOnce() -> T) -> T {
        let panicked = Poisoning(self);
        let outcome = work();
        std::mem::forget(panicked);
        outcome
    }

    /// Makes some of the oldest files durable that are not, if so many are that half of those that may be
    /// open cannot be closed: what is not durable stays open. A failure poisons the session.
    fn keep_unsynced_few(&self) -> Result<()> {
        let mut left = SYNCED_AT_ONCE;
        while left > 0 && self.counted.has_many_unsynced() {
            let Some(oldest) = self.unsynced.take() else { break };
            let is_done = self.sync_if_wanted(&oldest)?;
            left -= usize::from(is_done);
        }
        Ok(())
    }

    /// Makes one file durable, without its name, unless it is gone or somebody else is at it; whether that was to be
    /// done, and was.
    pub fn sync_if_wanted(&self, file: &Unsynced) -> Result<bool> {
        if !file.is_wanted() {
            return Ok(false);
        }
        self.check_writable()?;
        self.owe_name();
        self.or_poison(|| file.sync_if_free())
    }

    /// A scratch that an earlier lookup left, or a new one.
    pub fn take_scratch(&self) -> Result<Scratch> {
        if let Some(scratch) = self.scratches.take() {
            return Ok(scratch);
        }
        self.scratches.make(&*self.disk, &self.counted, self.options.queue_depth, self.charge())
    }

    /// Keeps a scratch with nothing under way for the next lookup.
    pub fn put_scratch(&self, scratch: Scratch) {
        if !self.closed.load(Ordering::Acquire) {
            self.scratches.put(scratch);
        }
    }
}

/// Counts what an open segment takes beside index and filter: itself, its file with handle and name, and
/// its places in the lists of the session and of its run.
fn charge_open(cached: &CachedFile, meta: &SegmentMeta) {
    let keys = 2 * (meta.first_key.len() + meta.last_key.len());
    cached.charge((size_of::<Segment>() + size_of::<SharedFile>() + keys + 600) as u64);
}

/// Notes what `id` is, unless another thread did meanwhile; returns what it is.
fn remember_first<T>(map: &Mutex<HashMap<u64, Weak<T>>>, id: u64, thing: Arc<T>) -> Arc<T> {
    let mut locked = lock(map);
    if let Some(first) = locked.get(&id).and_then(Weak::upgrade) {
        return first;
    }
    note(&mut locked, id, &thing);
    thing
}

/// Notes what `id` is as long as somebody holds it, and now and then forgets what nobody holds.
fn remember<T>(map: &Mutex<HashMap<u64, Weak<T>>>, id: u64, thing: &Arc<T>) {
    note(&mut lock(map), id, thing);
}

fn note<T>(map: &mut HashMap<u64, Weak<T>>, id: u64, thing: &Arc<T>) {
    if map.len() == map.capacity() {
        map.retain(|_, held| held.strong_count() > 0);
    }
    map.insert(id, Arc::downgrade(thing));
}
