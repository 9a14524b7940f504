//! The pack: records by logical offset, in append-only chunks.
//!
//! A record's logical offset is its chunk's base plus its byte in the chunk's file; it never changes,
//! whatever file later holds the bytes. Whole pages are read through the shared page cache, the page
//! that still grows is read as it is; a record's checksum is verified whenever its bytes are read.
//! Format document: `docs/format/pack.md`.

pub(crate) mod chains;
mod looks;
mod swaps;

use std::sync::{Arc, OnceLock, Weak};

use super::chunk_files::{Chunk, Files};
use super::control::Row;
use super::evicted_hashes::EvictedHashes;
use super::patch::{self, PATCHES_MAX};
use super::paths;
use super::record::{self, Read, Record, Tag};
use super::sparse::{self, KeptRecord, State};
use crate::cache::{Cache, CachedPage, PAGE};
use crate::context::configuration::Bucket;
use crate::context::hash::Hash;
use crate::context::observer::{self, Meter, Tally};
use crate::context::options::Options;
use crate::context::pieces::changes::{Changes, Form, Since};
use crate::context::pieces::digest;
use crate::context::pieces::kept::Kept;
use crate::context::pieces::node::{
    Base, HashVector, Known, Load, Node, ReadValue, Scan, Slot, UNKNOWN,
};
use crate::context::pieces::object_cache::ObjectCache;
use crate::context::pieces::recent::Recent;
use crate::context::pieces::spare::Spares;
use crate::disk::Disk;
use crate::error::{Error, Kind, Result};
use crate::file::append::PAYLOAD_MAX;
use crate::format::codec::Decoder;
use crate::format::hash::combine;
use crate::order;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Bytes read at first past the page cache: most records are shorter.
const GUESS: usize = 960;

/// Spare nodes take this part of what the cache of nodes may take, and spare bytes as much.
const SPARES: u64 = 32;

/// Bytes read at first for a hash: most of those asked for are of small directories.
const GUESS_HASH: usize = 256;

/// A directory with a body of more bytes that paths lead on through becomes a node when it is first
/// looked at; a smaller one when it is looked at again soon.
pub(crate) const SMALL_BODY: usize = 96;

/// One with a body of more bytes becomes a node when it is looked at again soon, wherever its paths lead.
pub(crate) const MIDDLING_BODY: usize = 256;

/// How many looks at small directories count as soon. Of looks at pages it is as many as the cache has places:
/// a page that is wanted again later than that would be gone by then.
const RECENT_NODES: usize = 4096;
const RECENT_PAGES_MIN: u64 = 64;
const RECENT_PAGES_MAX: u64 = 16_384;

/// The most memory for nodes, and for pages, of a pack that is read to be checked.
const UNCACHED_BYTES: u64 = 8 << 20;

/// All chunks of one epoch, and what is cached of them.
#[derive(Debug)]
pub(crate) struct Pack {
    /// Of this pack in this process; offsets of another one mean nothing here.
    identity: u64,
    /// Of the store, part of every checksum.
    pub(crate) store: u64,
    chunks: Mutex<Vec<Arc<Chunk>>>,
    /// How often chunks became other files, or were found to be, and the right to look for that.
    swaps: AtomicU64,
    rereading: Mutex<()>,
    pub(crate) files: Arc<Files>,
    cache: Arc<Cache>,
    pub(crate) objects: ObjectCache<Kept>,
    /// The hashes of the children of nodes.
    pub(crate) hashes: ObjectCache<HashVector>,
    /// Those of them that were dear and had to go.
    pub(crate) evicted_hashes: EvictedHashes,
    pub(crate) spares: Spares,
    /// Small directories that were looked at, and pages.
    recent_nodes: Recent,
    recent_pages: Recent,
    meter: Option<Arc<Meter>>,
    /// Bytes that a working tree may hold before it spills.
    tree_bytes: u64,
    /// Who writes to the pack, while somebody does.
    spill: OnceLock<Weak<dyn Spill>>,
}

/// Whoever can write the live part of a working tree to the pack, without a commit.
pub(crate) trait Spill: Send + Sync {
    /// See [`Load::spill`].
    fn spill(&self, pack: &Pack, root: &mut Slot) -> Result<()>;

    /// Whether the collection that takes away, if one does, leaves the object at `offset`.
    fn leaves(&self, offset: u64) -> bool;
}

/// Numbers packs in the order in which the process opens them.
static OPENED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// A number for one more thing that offsets belong to.
pub(crate) fn next_identity() -> u64 {
    OPENED.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Bytes of a record: inside a page of the cache, or gathered.
enum Bytes {
    Page(CachedPage, usize),
    Gathered(Vec<u8>),
}

impl Bytes {
    fn slice(&self) -> &[u8] {
        match self {
            Bytes::Page(page, start) => &page[*start..],
            Bytes::Gathered(bytes) => bytes,
        }
    }
}

pub(super) fn collected(offset: u64) -> Error {
    Error::new(
        Kind::Collected,
        format!(
            "what is asked for, at logical offset {offset}, was collected: only commits that were kept \
             have all of their trees; check out one of those"
        ),
    )
}

impl Pack {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        (store, epoch): (u64, u64),
        cache: Arc<Cache>,
        options: &Options,
    ) -> Pack {
        let path = paths::evicted_hashes(epoch);
        let evicted = EvictedHashes::new(Arc::clone(&disk), path, options.hashes_file_bytes);
        let files =
            Arc::new(Files::new(disk, options.lower.clone(), store, options.max_open_files));
        Pack::over(files, store, cache, options, evicted)
    }

    fn over(
        files: Arc<Files>,
        store: u64,
        cache: Arc<Cache>,
        options: &Options,
        evicted_hashes: EvictedHashes,
    ) -> Pack {
        let recent_pages = cache.capacity_pages().clamp(RECENT_PAGES_MIN, RECENT_PAGES_MAX);
        Pack {
            meter: options.observer.clone().map(Meter::new),
            tree_bytes: options.tree_bytes,
            spill: OnceLock::new(),
            identity: next_identity(),
            store,
            chunks: Mutex::new(Vec::new()),
            swaps: AtomicU64::new(0),
            rereading: Mutex::new(()),
            files,
            cache,
            objects: ObjectCache::new(options.objects_bytes),
            hashes: ObjectCache::new(options.hashes_bytes),
            spares: Spares::new(options.objects_bytes / SPARES),
            evicted_hashes,
            recent_nodes: Recent::new(RECENT_NODES),
            recent_pages: Recent::new(recent_pages as usize),
        }
    }

    /// The same files with nothing cached of them, to be read from the disk.
    pub(crate) fn uncached(&self, options: &Options) -> Pack {
        let cache = Cache::new(options.pages_bytes.min(UNCACHED_BYTES));
        let objects_bytes = options.objects_bytes.min(UNCACHED_BYTES);
        let options = Options { objects_bytes, hashes_bytes: 0, observer: None, ..options.clone() };
        let no_file = EvictedHashes::new(self.files.shared_disk(), String::new(), 0);
        let pack = Pack::over(Arc::clone(&self.files), self.store, cache, &options, no_file);
        for chunk in self.chunks() {
            pack.add_chunk(Arc::new(chunk.again(pack.cache())));
        }
        pack
    }

    /// Lets working trees spill by `spill` for as long as it lives.
    pub(crate) fn set_spill(&self, spill: Weak<dyn Spill>) {
        // Set once: a pack has one writer.
        let _ = self.spill.set(spill);
    }

    /// Reads from a chunk's file, past the page cache.
    fn read(&self, chunk: &Arc<Chunk>, position: u64, bytes: &mut [u8]) -> Result<()> {
        observer::count(self.meter.as_ref(), |meter| &meter.bytes_read, bytes.len() as u64);
        self.files.get(chunk)?.read_exact_at(position, bytes)
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    pub(crate) fn add_chunk(&self, chunk: Arc<Chunk>) {
        let mut chunks = lock(&self.chunks);
        debug_assert!(chunks.last().is_none_or(|last| last.base < chunk.base));
        chunks.push(chunk);
    }

    /// Readers find `chunk` in the place of those with its numbers, which are returned.
    pub(crate) fn swap_chunk(&self, chunk: Arc<Chunk>) -> Vec<Arc<Chunk>> {
        self.swap_chunks(chunk.number..chunk.number + chunk.numbers, vec![chunk])
    }

    /// Readers find `fresh`, in order, in the place of those that have one of `numbers`, which are returned.
    pub(crate) fn swap_chunks(
        &self,
        numbers: std::ops::Range<u64>,
        fresh: Vec<Arc<Chunk>>,
    ) -> Vec<Arc<Chunk>> {
        let mut chunks = lock(&self.chunks);
        let first = chunks.partition_point(|old| old.number < numbers.start);
        let after = chunks.partition_point(|old| old.number < numbers.end);
        // Whoever sees that chunks are others knows that what it read before may not fit them.
        self.swaps.fetch_add(1, Ordering::AcqRel);
        order::splice(&mut chunks, first..after, fresh)
    }

    /// Forgets chunks that are gone and before all of `rows`, or for which one of those stands.
    pub(crate) fn forget_chunks(&self, rows: &[Row]) {
        lock(&self.chunks).retain(|chunk| {
            let after = rows.partition_point(|row| row.number <= chunk.number);
            let row = after.checked_sub(1).map(|place| &rows[place]);
            row.is_some_and(|row| {
                chunk.number == row.number || chunk.number >= row.number + row.count
            })
        });
    }

    /// Chunk `number`, if it is there and whole.
    pub(crate) fn numbered(&self, number: u64) -> Option<Arc<Chunk>> {
        let chunks = lock(&self.chunks);
        let index = chunks.binary_search_by_key(&number, |chunk| chunk.number).ok()?;
        Some(&chunks[index]).filter(|chunk| chunk.is_whole()).map(Arc::clone)
    }

    /// Those that have one of `numbers`.
    pub(crate) fn chunks_of(&self, numbers: std::ops::Range<u64>) -> Vec<Arc<Chunk>> {
        let chunks = lock(&self.chunks);
        let first = chunks.partition_point(|chunk| chunk.number < numbers.start);
        let after = chunks.partition_point(|chunk| chunk.number < numbers.end);
        chunks[first..after].to_vec()
    }

    pub(crate) fn chunks(&self) -> Vec<Arc<Chunk>> {
        lock(&self.chunks).clone()
    }

    /// The chunk that grows.
    pub(crate) fn last_chunk(&self) -> Arc<Chunk> {
        Arc::clone(lock(&self.chunks).last().expect("a pack has a chunk once it is loaded"))
    }

    /// The chunk that `offset` is or was in, unless its number is forgotten.
    pub(crate) fn chunk(&self, offset: u64) -> Option<Arc<Chunk>> {
        let chunks = lock(&self.chunks);
        let index = chunks.partition_point(|chunk| chunk.base <= offset);
        index.checked_sub(1).map(|index| Arc::clone(&chunks[index]))
    }

    /// Whether the chunk that `offset` is or was in has a file.
    pub(crate) fn has_chunk(&self, offset: u64) -> bool {
        self.chunk(offset).is_some_and(|chunk| chunk.has_file())
    }

    /// Whether the chunk that `offset` is or was in is in the lower folder.
    pub(crate) fn is_lower(&self, offset: u64) -> bool {
        self.chunk(offset).is_some_and(|chunk| chunk.is_lower())
    }

    /// The chunk and the byte of its file where the record of `offset` is. `Collected` when it is there no
    /// more.
    fn locate(&self, offset: u64) -> Result<(Arc<Chunk>, u64)> {
        let chunk = self.chunk(offset).ok_or_else(|| collected(offset))?;
        if let Some(found) = self.locate_above(&chunk, offset) {
            return Ok(found);
        }
        let place = self.place_in(&chunk, offset)?;
        Ok((chunk, place))
    }

    /// The byte of the file of `chunk`, which `offset` is or was in.
    pub(crate) fn place_in(&self, chunk: &Arc<Chunk>, offset: u64) -> Result<u64> {
        match chunk.state {
            State::Sparse(_) => {
                let entry = self.entry(chunk, offset)?.ok_or_else(|| collected(offset))?;
                Ok(entry.place)
            }
            State::Gone => Err(collected(offset)),
            _ => Ok(offset - chunk.base),
        }
    }

    /// What the mapping of `chunk`, which is sparse, says of `offset`. Reads at most one page.
    fn entry(&self, chunk: &Arc<Chunk>, offset: u64) -> Result<Option<KeptRecord>> {
        let distance = offset - chunk.base;
        if chunk.mapping().is_none() {
            self.files.get(chunk)?;
        }
        let mapping = chunk.mapping().expect("it was opened");
        let Some(number) = mapping.page_of(distance) else { return Ok(None) };
        let page = self.mapping_page(chunk, number)?;
        Ok(sparse::find(&page, distance))
    }

    /// A page of the mapping of `chunk`.
    fn mapping_page(&self, chunk: &Arc<Chunk>, number: u32) -> Result<CachedPage> {
        if let Some(page) = self.cache.get(chunk.key, number) {
            observer::count(self.meter.as_ref(), |meter| &meter.page_hits, 1);
            return Ok(page);
        }
        observer::count(self.meter.as_ref(), |meter| &meter.page_misses, 1);
        let mut bytes = [0; PAGE];
        self.read(chunk, u64::from(number) * PAGE as u64, &mut bytes)?;
        let mapping = chunk.mapping().expect("it was opened");
        mapping.check_page(&chunk.path, chunk.identity, number, &bytes)?;
        Ok(self.cache.insert(chunk.key, number, &bytes))
    }

    /// Puts all entries of the page into `entries` that has that of `distance`, if any has.
    pub(crate) fn mapping_entries(
        &self,
        chunk: &Arc<Chunk>,
        distance: u64,
        entries: &mut Vec<KeptRecord>,
    ) -> Result<()> {
        entries.clear();
        let mapping = chunk.mapping().expect("it was opened");
        if let Some(number) = mapping.page_of(distance) {
            entries.extend(sparse::entries(&*self.mapping_page(chunk, number)?));
        }
        Ok(())
    }

    /// The pages of the mapping of `chunk`, which is sparse.
    pub(crate) fn mapping_pages(&self, chunk: &Arc<Chunk>) -> Result<std::ops::Range<u32>> {
        self.files.get(chunk)?;
        Ok(chunk.mapping().expect("it was opened").pages())
    }

    /// What page `number` of the mapping of `chunk` says: the offset of each record, and whether something
    /// reaches it; else it is the base of patches alone.
    pub(crate) fn kept_in_page(&self, chunk: &Arc<Chunk>, number: u32) -> Result<Vec<(u64, bool)>> {
        let page = self.mapping_page(chunk, number)?;
        let entries = sparse::entries(&page);
        Ok(entries.map(|entry| (chunk.base + entry.distance, entry.is_object)).collect())
    }

    /// The same of all pages.
    pub(crate) fn kept_records(&self, chunk: &Arc<Chunk>) -> Result<Vec<(u64, bool)>> {
        let pages = self.mapping_pages(chunk)?;
        let mapping = chunk.mapping().expect("it was opened");
        let mut records = Vec::with_capacity(mapping.records.min(chunk.end() / 38) as usize);
        for number in pages {
            records.extend(self.kept_in_page(chunk, number)?);
        }
        let is_right = records.len() as u64 == mapping.records
            && records.is_sorted_by(|(before, _), (after, _)| before < after)
            && records.last().is_none_or(|(last, _)| *last < chunk.logical_end());
        if !is_right {
            let place = mapping.records_end();
            return Err(Error::corrupt(&chunk.path, place, "a mapping in order", "another"));
        }
        Ok(records)
    }

    /// The bytes of page `number`, which is whole.
    fn page(&self, chunk: &Arc<Chunk>, number: u32) -> Result<CachedPage> {
        if let Some(page) = self.cache.get(chunk.key, number) {
            observer::count(self.meter.as_ref(), |meter| &meter.page_hits, 1);
            return Ok(page);
        }
        observer::count(self.meter.as_ref(), |meter| &meter.page_misses, 1);
        let mut bytes = [0; PAGE];
        self.read(chunk, u64::from(number) * PAGE as u64, &mut bytes)?;
        Ok(self.cache.insert(chunk.key, number, &bytes))
    }

    /// Appends up to `length` bytes from `position` on, fewer at the end of the chunk: from pages as long as
    /// they are worth it, and the rest at once.
    fn gather(
        &self,
        chunk: &Arc<Chunk>,
        position: u64,
        length: usize,
        keep: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let end = chunk.records_end();
        let mut position = position;
        let mut left = (length as u64).min(end.saturating_sub(position)) as usize;
        while left > 0 {
            let Some(page) = self.page_worth(chunk, position, keep)? else {
                return self.read_on(chunk, position, left, out);
            };
            let start = (position % PAGE as u64) as usize;
            let count = left.min(PAGE - start);
            out.extend_from_slice(&page[start..start + count]);
            position += count as u64;
            left -= count;
        }
        Ok(())
    }

    /// Appends `length` bytes from `position` on, read past the page cache.
    fn read_on(
        &self,
        chunk: &Arc<Chunk>,
        position: u64,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let before = out.len();
        out.resize(before + length, 0);
        self.read(chunk, position, &mut out[before..])
    }

    /// The page at `position`, if it is whole and in memory, or should be: it was wanted before, not
    /// long ago. Of cold pages only the record is wanted.
    fn page_worth(
        &self,
        chunk: &Arc<Chunk>,
        position: u64,
        keep: bool,
    ) -> Result<Option<CachedPage>> {
        let number = (position / PAGE as u64) as u32;
        if (u64::from(number) + 1) * PAGE as u64 > chunk.records_end() {
            return Ok(None);
        }
        if let Some(page) = self.cache.get(chunk.key, number) {
            observer::count(self.meter.as_ref(), |meter| &meter.page_hits, 1);
            return Ok(Some(page));
        }
        if keep && self.recent_pages.again(combine(chunk.key, u64::from(number)) | 1) {
            return self.page(chunk, number).map(Some);
        }
        observer::count(self.meter.as_ref(), |meter| &meter.page_misses, 1);
        Ok(None)
    }

    /// At least the bytes of the record at `position`, if that many belong to the chunk. Pages are
    /// kept in the cache if `keep` and they are wanted repeatedly.
    fn bytes(&self, chunk: &Arc<Chunk>, position: u64, keep: bool) -> Result<Bytes> {
        let end = chunk.records_end();
        if position >= end {
            return Err(Error::corrupt(
                &chunk.path,
                position,
                "a record",
                "the end of the records",
            ));
        }
        let start = (position % PAGE as u64) as usize;
        let mut bytes = Vec::new();
        let first = self.page_worth(chunk, position, keep)?;
        let is_cold = first.is_none();
        if let Some(page) = first {
            match record::length(&page[start..]) {
                Some(length) if length <= (PAGE - start) as u64 => {
                    return Ok(Bytes::Page(page, start));
                }
                _ => bytes.extend_from_slice(&page[start..]),
            }
        }
        // Too few to say how many there are: the head of a record may lie across two pages.
        if bytes.len() < record::HEAD_MAX {
            let guess = if keep { GUESS } else { GUESS_HASH };
            let more = (guess as u64).min(end.saturating_sub(position)) as usize;
            let missing = more.saturating_sub(bytes.len());
            self.read_on(chunk, position + bytes.len() as u64, missing, &mut bytes)?;
        }
        if let Some(length) = record::length(&bytes)
            && length > bytes.len() as u64
        {
            // Never more than the chunk and a batch have, whatever a damaged length says.
            let room = end.saturating_sub(position).min(PAYLOAD_MAX as u64);
            // The pack may have grown since the end was read, and a page have become whole that has more than room.
            let missing = (length.min(room) as usize).saturating_sub(bytes.len());
            let position = position + bytes.len() as u64;
            if is_cold {
                // What follows is as cold, and the first page itself was only now wanted once.
                self.read_on(chunk, position, missing, &mut bytes)?;
            } else {
                self.gather(chunk, position, missing, keep, &mut bytes)?;
            }
        }
        Ok(Bytes::Gathered(bytes))
    }

    /// Reads and verifies the record at `offset`; `each` gets the file, the place of its body in it,
    /// and the record.
    pub(crate) fn record<T>(
        &self,
        offset: u64,
        each: impl FnOnce(&str, u64, &Record<'_>) -> Result<T>,
    ) -> Result<T> {
        self.record_at(offset, true, each)
    }

    fn record_at<T>(
        &self,
        offset: u64,
        keep: bool,
        each: impl FnOnce(&str, u64, &Record<'_>) -> Result<T>,
    ) -> Result<T> {
        let (mut each, mut made) = (Some(each), None);
        self.look_at(offset, keep, &mut |file, place, record| {
            made = each.take().map(|each| each(file, place, record)).transpose()?;
            Ok(())
        })
        .map_err(Error::of_context)?;
        Ok(made.expect("what was made of the record"))
    }

    /// What `each` makes of the value at `offset`.
    fn with_value<T>(&self, offset: u64, each: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.record(offset, |file, place, record| match record.tag {
            Tag::Value => Ok(each(record.body)),
            other => Err(Error::corrupt(file, place, "a value", format_args!("{other:?}"))),
        })
    }

    /// The node at `offset`, read from at most [`PATCHES_MAX`] records more.
    pub(crate) fn read_node(&self, offset: u64) -> Result<Node> {
        self.beside_merges(|| {
            self.record(offset, |file, place, record| {
                self.patched(file, place, offset, record, PATCHES_MAX)
            })
        })
    }

    /// Keeps the hashes of the children of the node at `offset`: those that are dear, because each would be a
    /// read, in a file once memory has no room for them.
    pub(crate) fn keep_hashes(&self, offset: u64, hashes: Known, is_dear: bool) {
        self.hashes.insert_as(offset, hashes.into_vector(), is_dear, &mut |offset, hashes| {
            // One with a gap would not be believed.
            if hashes.is_whole() {
                self.evicted_hashes.put(offset, hashes.hashes());
            }
        });
    }

    /// The hashes of the children of `node` at `offset` that went to a file, if they are what its record says.
    fn evicted_hashes_of(&self, offset: u64, node: &Node) -> Option<Known> {
        let hashes = Known::Own(self.evicted_hashes.get(offset, node.width())?);
        if node.hash.get() == Some(&digest::of_children(node, &hashes)) {
            return Some(hashes);
        }
        self.evicted_hashes.forget(offset);
        None
    }

    /// Keeps the node at `offset` in the cache.
    fn keep(&self, offset: u64, node: Node) -> Arc<Node> {
        let mut node = Arc::new(node);
        let mut scratch = Vec::with_capacity(record::SCRATCH);
        self.objects.insert(offset, Kept::new(&mut node, &mut scratch, &self.spares));
        node
    }

    /// The node that `record` at `offset` says, from at most `patches` further records; other arguments as
    /// those of [`record::read`].
    fn patched(
        &self,
        file: &str,
        place: u64,
        offset: u64,
        record: &Record<'_>,
        patches: u8,
    ) -> Result<Node> {
        let (under, changes) = match record::read(file, place, offset, record)? {
            Read::Full(node) => return Ok(Self::full(node, offset, record)),
            Read::Patch(under, changes) => (under, changes),
        };
        let base = match (self.objects.get(under), patches.checked_sub(1)) {
            (Some(kept), _) => kept.own(under),
            (None, Some(rest)) => self.record(under, |file, place, record| {
                self.patched(file, place, under, record, rest)
            })?,
            (None, None) => self.chain(under)?.nodes(None)?.0,
        };
        Self::patched_from(base, under, offset, record, changes)
    }

    /// The node of `record` at `offset`, which is no patch, as it was read.
    fn full(mut node: Node, offset: u64, record: &Record<'_>) -> Node {
        *node.changes_mut() = Changes::none();
        node.base = Some(Base { offset, patches: 0, under: 0 });
        node.hash = OnceLock::from(record.hash);
        node
    }

    /// The node of the patch `record` at `offset`: `node`, which is at `under`, with these changes.
    pub(crate) fn patched_from(
        mut node: Node,
        under: u64,
        offset: u64,
        record: &Record<'_>,
        changes: Decoder<'_>,
    ) -> Result<Node> {
        // More than the writer counts to are as many to it.
        let patches = (node.base.map_or(0, |base| base.patches) + 1).min(PATCHES_MAX);
        *node.changes_mut() = Changes::none();
        patch::apply(&mut node, record.tag, offset, changes)?;
        // What the patch says is known of the base, and nothing was changed since.
        node.changes_mut().settle(Form::Patch(Since::Base));
        node.base = Some(Base { offset, patches, under });
        node.hash = OnceLock::from(record.hash);
        Ok(node)
    }
}

impl Load for Pack {
    fn node(&self, offset: u64) -> Result<Arc<Node>> {
        if let Some(kept) = self.objects.get(offset) {
            observer::count_hit(self.meter.as_ref(), None);
            return Ok(kept.node(offset));
        }
        observer::count_miss(self.meter.as_ref(), None);
        Ok(self.keep(offset, self.read_node(offset)?))
    }

    /// A copy of what the caches hold: nobody knows whether the tree that changes it is ever committed.
    /// If it is, what it is written as takes the place of the old; if it is dropped, nothing is missing.
    fn take(&self, offset: u64, tally: Option<&Tally>) -> Result<Arc<Node>> {
        self.hashes.prefetch(offset);
        let node = if let Some(kept) = self.objects.get(offset) {
            observer::count_hit(self.meter.as_ref(), tally);
            kept.own_in(offset, &self.spares)
        } else {
            observer::count_miss(self.meter.as_ref(), tally);
            Arc::new(self.read_node(offset)?)
        };
        let known = self.hashes.get(offset).filter(|known| known.hashes().len() == node.width());
        let known = known.map(Known::from).or_else(|| self.evicted_hashes_of(offset, &node));
        if let Some(known) = known {
            node.hashes().put(known);
        }
        Ok(node)
    }

    fn scan(
        &self,
        offset: u64,
        path: &[&[u8]],
        bucket: &mut Bucket<'_>,
        tally: Option<&Tally>,
    ) -> Result<Scan> {
        // Where it lies: to count it as held would touch a line more, twice.
        if let Some(found) = self.objects.get_with(offset, |kept| kept.scan(path, bucket)) {
            observer::count_hit(self.meter.as_ref(), tally);
            return found;
        }
        observer::count_miss(self.meter.as_ref(), tally);
        self.beside_merges(|| {
            self.record(offset, |file, place, record| {
                if let Some(found) = record::find(file, place, offset, record, path)? {
                    // What leads further is passed often, and worth a node; a small one once that shows.
                    let leads = matches!(found, Some((_, Slot::StoredNode(_))));
                    let size = record.body.len();
                    let at_once = leads && size > SMALL_BODY || self.objects.has_room(offset);
                    let when_again = leads || size > MIDDLING_BODY;
                    if !(at_once || when_again && self.recent_nodes.again(offset)) {
                        return Ok(Scan::Slot(found));
                    }
                    if let Some(leaf) = record::kept_leaf(file, place, offset, record)? {
                        self.objects.insert(offset, Kept::Leaf(leaf));
                        return Ok(Scan::Slot(found));
                    }
                }
                let node = self.patched(file, place, offset, record, PATCHES_MAX)?;
                Ok(Scan::Node(self.keep(offset, node)))
            })
        })
    }

    fn value(&self, offset: u64) -> Result<Arc<[u8]>> {
        self.with_value(offset, |value| value.into())
    }

    fn value_bytes(&self, offset: u64) -> Result<Vec<u8>> {
        self.with_value(offset, <[u8]>::to_vec)
    }

    fn read_value(&self, offset: u64, each: &mut ReadValue<'_>) -> Result<()> {
        self.record(offset, |file, place, record| match record.tag {
            Tag::Value => each(record.body, Some(&record.hash)),
            other => Err(Error::corrupt(file, place, "a value", format_args!("{other:?}"))),
        })
    }

    fn equals(&self, offset: u64, value: &[u8]) -> Result<bool> {
        self.with_value(offset, |found| *found == *value)
    }

    fn hash(&self, offset: u64) -> Result<Hash> {
        // Asked once: whoever asks keeps it beside the reference. The rest of the page is seldom wanted.
        self.record_at(offset, false, |_, _, record| Ok(record.hash))
    }

    fn keep_siblings(&self, offset: u64, mut hashes: Vec<Hash>, is_spread: bool) {
        // Another tree may have read what this one has changed.
        let known = self.hashes.take(offset).filter(|known| known.hashes().len() == hashes.len());
        for (hash, known) in hashes.iter_mut().zip(known.iter().flat_map(HashVector::hashes)) {
            if *hash == UNKNOWN {
                *hash = *known;
            }
        }
        self.keep_hashes(offset, Known::Own(hashes), is_spread);
    }

    fn identity(&self) -> u64 {
        self.identity
    }

    /// The store, and how often it was cleared.
    fn origin(&self) -> Option<[u64; 2]> {
        lock(&self.chunks).first().map(|first| [self.store, first.epoch])
    }

    fn look(&self, offset: u64, wanted: Option<&Hash>) -> Result<Option<(bool, Hash)>> {
        // What is the base of patches alone has lost its children, perhaps.
        match self.has_object(offset) {
            Ok(true) => {}
            Err(error) if error.kind() != Kind::Corrupt => return Err(error),
            // What is damaged is written again, too.
            _ => return Ok(None),
        }
        // Nor is what will go as good as there.
        if self.will_go(offset) {
            return Ok(None);
        }
        if let Some(wanted) = wanted
            && !self.begins_as(offset, wanted)?
        {
            return Ok(None);
        }
        let found = self.record_at(offset, false, |_, _, record| Ok((record.tag, record.hash)));
        match found {
            Ok((Tag::Commit | Tag::Reference, _)) => Ok(None),
            Ok((tag, hash)) => Ok(Some((tag == Tag::Value, hash))),
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Collected) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn meter(&self) -> Option<&Arc<Meter>> {
        observer::observing(self.meter.as_ref())
    }

    fn embeds(&self) -> bool {
        true
    }

    fn budget(&self) -> u64 {
        self.tree_bytes
    }

    fn spill(&self, root: &mut Slot) -> Result<()> {
        match self.spill.get().and_then(Weak::upgrade) {
            Some(writer) => writer.spill(self, root),
            None => Ok(()),
        }
    }
}
