//! Batch lookups: buffers, then filters, then indexes, then one page read for each key left.
//!
//! Keys go through in groups, all of a group one step at a time, and each step asks for the memory
//! that the next one looks at: filters, indexes, the cache's sets, pages. Page reads of the whole
//! batch are in flight together, and a page is searched when it arrives. A key is looked for from the
//! newest source to the oldest and leaves at the first insert or delete, so older pages are not read
//! for it. Cost: about one page read per key not in memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::values::Values;
use super::view::View;
use crate::cache;
use crate::disk::Read;
use crate::error::Result;
use crate::table::buffer::WriteBuffer;
use crate::table::bytes::{EntryKind, EntryRef, PAGE_BYTES, Page, prefix as key_prefix};
use crate::table::merge::{Input, Merging, Shape, UnionPart};
use crate::table::runs::blob::{self, HeldBlob};
use crate::table::runs::{Run, Segment, page_offset};
use crate::table::shared::{LookupCounts, Operation, Scratch};
use crate::trace::{self, Action, Answer, Digest};

/// Keys whose filter lines are fetched together: few enough to stay in the nearest cache.
const GROUP: usize = 32;
/// No segment of a run may hold the key.
const NOWHERE: u32 = u32::MAX;

/// One place to look, from newest to oldest.
enum LookupSource {
    Buffer(WriteBuffer),
    Run(RunSource),
}

/// A run, perhaps only up to or after the boundary of a merge.
struct RunSource {
    run: Arc<Run>,
    /// Counted under this number in the statistics.
    level: usize,
    boundary: Option<(u64, Arc<[u8]>)>,
    /// Whether keys after the boundary count, rather than those up to it.
    after: bool,
}

impl RunSource {
    fn whole(run: &Arc<Run>, level: usize) -> LookupSource {
        LookupSource::Run(RunSource { run: Arc::clone(run), level, boundary: None, after: false })
    }

    /// The segment that may hold `key`, or [`NOWHERE`].
    #[inline]
    fn locate(&self, prefix: u64, key: &[u8]) -> u32 {
        if let Some((boundary_prefix, boundary)) = &self.boundary {
            let is_after = match prefix.cmp(boundary_prefix) {
                std::cmp::Ordering::Equal => key > &**boundary,
                order => order.is_gt(),
            };
            if is_after != self.after {
                return NOWHERE;
            }
        }
        self.run.locate(key).map_or(NOWHERE, |segment| segment as u32)
    }
}

/// Everything of a view, from newest to oldest; for an unfinished union with the source behind the
/// table that each is of, else with an empty list.
fn sources(view: &View) -> (Vec<LookupSource>, Vec<u32>) {
    let Shape { sealed, levels, last, union, .. } = &*view.shape;
    let mut sources = Vec::with_capacity(16);
    sources.push(LookupSource::Buffer(view.active.clone()));
    sources.extend(view.base.iter().map(|run| RunSource::whole(run, 0)));
    for sealed in sealed.iter().rev() {
        sources.push(LookupSource::Buffer(sealed.buffer.clone()));
        sources.extend(sealed.base.iter().map(|run| RunSource::whole(run, 0)));
    }
    for (level, runs) in levels.iter().enumerate() {
        sources.extend(runs.runs.iter().map(|run| RunSource::whole(run, level)));
        let Some(merging) = &runs.merging else { continue };
        let state = merging.job.state();
        let boundary = state.boundary.as_ref().map(|key| (key_prefix(key), Arc::clone(key)));
        if !state.outputs.is_empty() {
            let boundary = if state.done { None } else { boundary.clone() };
            let run = Arc::clone(&state.outputs);
            sources.push(LookupSource::Run(RunSource {
                run,
                level: level + 1,
                boundary,
                after: false,
            }));
        }
        for input in &state.inputs {
            let Input::Run(run) = input else { continue };
            let (run, boundary) = (Arc::clone(run), boundary.clone());
            sources.push(LookupSource::Run(RunSource { run, level, boundary, after: true }));
        }
    }
    sources.extend(last.iter().map(|run| RunSource::whole(run, levels.len())));
    let ends =
        union.as_ref().map_or(Vec::new(), |union| add_union(union, &mut sources, levels.len()));
    (sources, ends)
}

/// Adds what a union is made of; returns of each source which is the first behind its table.
fn add_union(union: &Merging, sources: &mut Vec<LookupSource>, level: usize) -> Vec<u32> {
    let parts = union.job.parts();
    let own = sources.len();
    let mut ends = vec![(own + parts.len()) as u32; own];
    for UnionPart { run, after, end } in parts {
        let boundary = after.map(|key| (key_prefix(&key), key));
        sources.push(LookupSource::Run(RunSource { run, level, boundary, after: true }));
        ends.push((own + end) as u32);
    }
    ends
}

impl View {
    /// The values of `keys`, in their order. All page reads of the batch are in flight together:
    /// about one per key that is not in memory. `Io`, `Corrupt`, `Closed`, or `Missing` beside
    /// [another process](View).
    ///
    /// Values are given whole, however long they are, where [`View::get`] refuses those of more than 16 MiB;
    /// `Invalid` where memory has no room for them. Where a table may have such, which only
    /// [`crate::Session::write_value`] makes, find them with [`View::find`].
    pub fn lookup<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Values> {
        let mut values = Values::new();
        self.lookup_into(keys, &mut values)?;
        Ok(values)
    }

    /// Like [`View::lookup`], into memory that is used again.
    pub fn lookup_into<K: AsRef<[u8]>>(&self, keys: &[K], values: &mut Values) -> Result<()> {
        let traced = self.name.traced();
        let answer = |found: &&mut Values| Answer::Digest(Some(Digest::of_all(found.iter())));
        let looked_up = trace::call(
            traced,
            Action::Lookup,
            |to| to.keys(keys),
            answer,
            move || {
                self.store.check_open()?;
                let (count, told) = (keys.len() as u64, (Operation::Lookup, &**self.name));
                self.store.observe(told, count, || lookup(self, keys, values))?;
                Ok(values)
            },
        );
        looked_up.map(|_| ())
    }
}

/// A value that is in a blob file, with the upserts that join it.
pub struct PendingBlob {
    /// Which key's.
    pub index: usize,
    pub blob: HeldBlob,
    pub newer: Option<Vec<u8>>,
}

/// Looks `keys` up in `view` and fetches the blobs among the values, all together.
fn lookup<K: AsRef<[u8]>>(view: &View, keys: &[K], values: &mut Values) -> Result<()> {
    let (mut scratch, blobs) = search(view, keys, values)?;
    if !blobs.is_empty() {
        fetch(view, &mut scratch, blobs, values)?;
    }
    view.store.put_scratch(scratch);
    Ok(())
}

/// Puts the values of `blobs` where they belong.
#[cold]
pub fn fetch(
    view: &View,
    scratch: &mut Scratch,
    blobs: Vec<PendingBlob>,
    values: &mut Values,
) -> Result<()> {
    for PendingBlob { index, blob, .. } in &blobs {
        // Compared with the file before the memory is taken.
        blob.file.check_span(&blob.span)?;
        blob.file.file()?;
        values.make_room(*index, blob.span.length)?;
    }
    let held: Vec<_> = blobs.iter().map(|it| it.blob.clone()).collect();
    blob::fetch(&mut *scratch.queue, &held, |number, at, piece| {
        values.fill(blobs[number].index, at as usize, piece);
    })?;
    view.store.counters.add_blobs(&held);
    for PendingBlob { index, newer, .. } in blobs {
        if let Some(newer) = newer {
            let operator = view.operator.as_ref();
            let operator = operator.expect("a table with upserts has a merge operator");
            let joined = operator.apply(values.get(index).unwrap_or_default(), &newer)?;
            values.set(index, &joined);
        }
    }
    Ok(())
}

/// Looks `keys` up in `view`. What is in blob files is not fetched.
pub fn search<K: AsRef<[u8]>>(
    view: &View,
    keys: &[K],
    values: &mut Values,
) -> Result<(Scratch, Vec<PendingBlob>)> {
    // One search for all kinds of keys, where size counts more.
    #[cfg(varvite_js)]
    let keys = &keys.iter().map(K::as_ref).collect::<Vec<_>>();
    search_now(view, keys, values)
}

fn search_now<K: AsRef<[u8]>>(
    view: &View,
    keys: &[K],
    values: &mut Values,
) -> Result<(Scratch, Vec<PendingBlob>)> {
    values.reset(keys.len());
    let (sources, ends) = sources(view);
    let mut scratch = view.store.take_scratch()?;
    let mut search = Search {
        view,
        sources: &sources,
        ends: &ends,
        keys,
        values,
        scratch: &mut scratch,
        next_source: vec![0; keys.len()],
        waiting: std::iter::repeat_with(|| None).take(keys.len()).collect(),
        held: Vec::with_capacity(GROUP),
        upserts: HashMap::new(),
        blobs: Vec::new(),
        counts: LookupCounts { keys: keys.len() as u64, ..LookupCounts::default() },
    };
    let mut hashes = [0; GROUP];
    let mut located = vec![NOWHERE; GROUP * sources.len()];
    for start in (0..keys.len()).step_by(GROUP) {
        let group = start..(start + GROUP).min(keys.len());
        search.group(group, &mut hashes, &mut located)?;
    }
    while search.complete()? {
        search.search_held()?;
    }
    assert!(search.held.is_empty(), "every page held was searched");
    let (counts, blobs) = (search.counts, search.blobs);
    view.store.counters.add_lookup(&counts);
    Ok((scratch, blobs))
}

/// A page that may hold a key.
struct Candidate<'a> {
    segment: &'a Arc<Segment>,
    page: u32,
    /// How far into the page the key is looked for first.
    near: u16,
    level: usize,
}

/// A page of the cache that waits to be searched.
struct WaitingPage<'a> {
    index: usize,
    at: Candidate<'a>,
    page: cache::CachedPage,
}

/// The places of the bits that are set.
fn ones(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        place
    })
}

struct Search<'a, K> {
    view: &'a View,
    sources: &'a [LookupSource],
    /// In an unfinished union, for each source the first one behind its table; else empty.
    ends: &'a [u32],
    keys: &'a [K],
    values: &'a mut Values,
    scratch: &'a mut Scratch,
    /// For each key, the source to look in next. While merges are paused, buffers are so many as
    /// memory allows.
    next_source: Vec<u32>,
    /// The page that each key waits for.
    waiting: Vec<Option<Candidate<'a>>>,
    /// Pages of the cache that wait to be searched.
    held: Vec<WaitingPage<'a>>,
    /// Upserts found so far, joined, for keys whose older value is still looked for.
    upserts: HashMap<usize, Vec<u8>>,
    /// Values found to be in blob files.
    blobs: Vec<PendingBlob>,
    counts: LookupCounts,
}

impl<'a, K: AsRef<[u8]>> Search<'a, K> {
    fn key(&self, index: usize) -> &[u8] {
        self.keys[index].as_ref()
    }

    /// Starts the search for a group of keys.
    fn group(
        &mut self,
        group: std::ops::Range<usize>,
        hashes: &mut [u64; GROUP],
        located: &mut [u32],
    ) -> Result<()> {
        let width = self.sources.len();
        let mut waiting = 0u32;
        for index in group.clone() {
            let slot = index - group.start;
            hashes[slot] = self.view.store.salt.hash(self.key(index));
            if self.search_buffers(index, hashes[slot])? {
                continue;
            }
            waiting |= 1 << slot;
            self.locate(index, hashes[slot], &mut located[slot * width..(slot + 1) * width])?;
        }
        let row = |slot: usize| &located[slot * width..(slot + 1) * width];
        let mut found = [const { None }; GROUP];
        for slot in ones(waiting) {
            let index = group.start + slot;
            found[slot] = self.next_segment(index, hashes[slot], Some(row(slot)))?;
            if let Some((segment, _)) = found[slot] {
                segment.index()?.prefetch(self.key(index));
            }
        }
        let mut places = [const { None }; GROUP];
        for slot in ones(waiting) {
            let Some((segment, level)) = found[slot] else { continue };
            let index = group.start + slot;
            match segment.index()?.find_near(self.key(index)) {
                Some((span, near)) => {
                    if let Some(cached) = segment.cached() {
                        cached.prefetch_place(span.page);
                    }
                    places[slot] = Some(Candidate { segment, page: span.page, near, level });
                }
                None => self.advance(index, hashes[slot], Some(row(slot)))?,
            }
        }
        for Candidate { segment, page, .. } in places.iter().flatten() {
            let Some(cached) = segment.cached() else { break };
            cached.prefetch(*page);
        }
        for (index, place) in group.zip(places) {
            if let Some(place) = place {
                self.read(index, place)?;
            }
        }
        self.search_held()
    }

    /// Searches the pages of the cache, now that the lines asked for have had time to come. They may
    /// be of keys of earlier groups, whose reads completed meanwhile.
    fn search_held(&mut self) -> Result<()> {
        while let Some(WaitingPage { index, at, page }) = self.held.pop() {
            if !self.search_page(&at, index, &page[..])? {
                let hash = self.view.store.salt.hash(self.key(index));
                self.advance(index, hash, None)?;
            }
        }
        Ok(())
    }

    /// Looks in the buffers that come before any run; whether that settles the key.
    fn search_buffers(&mut self, index: usize, hash: u64) -> Result<bool> {
        let sources = self.sources;
        while let Some(LookupSource::Buffer(buffer)) = sources.get(self.next_source[index] as usize)
        {
            self.next_source[index] += 1;
            let found = buffer.get(self.keys[index].as_ref(), hash);
            if let Some(entry) = found
                && self.take(index, entry)?
            {
                return Ok(true);
            }
        }
        Ok(self.next_source[index] as usize == sources.len() && {
            self.settle_unbound(index);
            true
        })
    }

    /// Finds the segment for the key in every run and fetches its filter line.
    fn locate(&mut self, index: usize, hash: u64, row: &mut [u32]) -> Result<()> {
        let key = self.keys[index].as_ref();
        let prefix = key_prefix(key);
        let salt = self.view.store.salt.number();
        for (source, place) in self.sources.iter().zip(row) {
            let LookupSource::Run(source) = source else { continue };
            *place = source.locate(prefix, key);
            if *place == NOWHERE {
                continue;
            }
            let segment = &source.run.segments()[*place as usize];
            if segment.salt() == salt
                && let Some(filter) = segment.filter()?
            {
                filter.prefetch(hash);
            }
        }
        Ok(())
    }

    /// Takes what a source says of a key; whether that settles it.
    #[inline]
    fn take(&mut self, index: usize, entry: EntryRef<'_>) -> Result<bool> {
        if !self.ends.is_empty() {
            return self.take_in_union(index, entry);
        }
        let upserts = &mut self.upserts;
        let newer = if upserts.is_empty() { None } else { upserts.remove(&index) };
        match (entry.kind, newer) {
            (EntryKind::Insert, None) => self.values.set(index, entry.value),
            (EntryKind::Delete, None) => {}
            (EntryKind::Delete, Some(newer)) => self.values.set(index, &newer),
            (EntryKind::Upsert, None) => {
                upserts.insert(index, entry.value.to_vec());
                return Ok(false);
            }
            (EntryKind::Blob, newer) => {
                let blob = self.view.store.blob(entry.value)?;
                self.blobs.push(PendingBlob { index, blob, newer });
            }
            (kind, Some(newer)) => {
                let operator = self.view.operator.as_ref();
                let operator = operator.expect("a table with upserts has a merge operator");
                let joined = operator.apply(entry.value, &newer)?;
                if kind == EntryKind::Upsert {
                    upserts.insert(index, joined);
                    return Ok(false);
                }
                self.values.set(index, &joined);
            }
        }
        Ok(true)
    }

    /// As [`Search::take`]: an insert or a delete ends only the table that it is of, and values of
    /// different tables join.
    fn take_in_union(&mut self, index: usize, entry: EntryRef<'_>) -> Result<bool> {
        let source = self.next_source[index] as usize - 1;
        let operator = self.view.operator.as_ref();
        let newer = self.upserts.remove(&index);
        let fetched;
        let entry = match (entry.kind, operator) {
            (EntryKind::Blob, None) => {
                let blob = self.view.store.blob(entry.value)?;
                self.blobs.push(PendingBlob { index, blob, newer: None });
                return Ok(true);
            }
            (EntryKind::Blob, Some(_)) => {
                fetched = self.view.store.fetch(entry.value)?;
                EntryRef { kind: EntryKind::Insert, key: entry.key, value: &fetched }
            }
            _ => entry,
        };
        let is_final = operator.is_none() && entry.kind == EntryKind::Insert;
        let joined = match (entry.kind, newer, operator) {
            (EntryKind::Delete, newer, _) => newer,
            (_, Some(newer), Some(operator)) => Some(operator.apply(entry.value, &newer)?),
            (_, newer, _) => newer.or_else(|| Some(entry.value.to_vec())),
        };
        self.upserts.extend(joined.map(|value| (index, value)));
        if entry.kind != EntryKind::Upsert {
            self.next_source[index] = self.ends[source];
        }
        let is_settled = is_final || self.next_source[index] as usize == self.sources.len();
        if is_settled {
            self.settle_unbound(index);
        }
        Ok(is_settled)
    }

    /// No source is left: only upserts, if any, say what the key is bound to.
    fn settle_unbound(&mut self, index: usize) {
        if let Some(value) = self.upserts.remove(&index) {
            self.values.set(index, &value);
        }
    }

    /// Goes on with a key from its next source until it is settled or waits for a page. `located`
    /// holds the segments found before, if the key is still in its group.
    fn advance(&mut self, index: usize, hash_: u64, located: Option<&[u32]>) -> Result<()> {
        while let Some((segment, level)) = self.next_segment(index, hash_, located)? {
            if let Some((span, near)) = segment.index()?.find_near(self.key(index)) {
                return self.read(index, Candidate { segment, page: span.page, near, level });
            }
        }
        Ok(())
    }

    /// The next segment that may hold a key, and the level of its run; `None` when the key is settled.
    fn next_segment(
        &mut self,
        index: usize,
        hash_: u64,
        located: Option<&[u32]>,
    ) -> Result<Option<(&'a Arc<Segment>, usize)>> {
        let sources = self.sources;
        loop {
            let place = self.next_source[index] as usize;
            let Some(source) = sources.get(place) else {
                self.settle_unbound(index);
                return Ok(None);
            };
            self.next_source[index] += 1;
            let source = match source {
                LookupSource::Buffer(buffer) => {
                    let found = buffer.get(self.keys[index].as_ref(), hash_);
                    if let Some(entry) = found
                        && self.take(index, entry)?
                    {
                        return Ok(None);
                    }
                    continue;
                }
                LookupSource::Run(source) => source,
            };
            let key = self.keys[index].as_ref();
            let segment = match located {
                Some(row) => row[place],
                None => source.locate(key_prefix(key), key),
            };
            if segment == NOWHERE {
                continue;
            }
            let segment = &source.run.segments()[segment as usize];
            if self.may_hold(segment, index, hash_, source.level)? {
                return Ok(Some((segment, source.level)));
            }
        }
    }

    fn may_hold(
        &mut self,
        segment: &Segment,
        index: usize,
        hash_: u64,
        level: usize,
    ) -> Result<bool> {
        let Some(filter) = segment.filter()? else { return Ok(true) };
        let store = &self.view.store;
        let hash_ = if segment.salt() == store.salt.number() {
            hash_
        } else {
            segment.hash(self.key(index))
        };
        let passes = filter.probe(hash_);
        self.counts.level(level).probes += 1;
        self.counts.level(level).passes += u64::from(passes);
        Ok(passes)
    }

    /// Gets the page that may hold the key: from the cache, to be searched at the end of the group, or
    /// by a read that completes later.
    fn read(&mut self, index: usize, at: Candidate<'a>) -> Result<()> {
        if let Some(page) = at.segment.cached().and_then(|cached| cached.get(at.page)) {
            self.counts.cache_hits += 1;
            Page::prefetch(&page[..], at.near);
            self.held.push(WaitingPage { index, at, page });
            return Ok(());
        }
        while self.scratch.queue.pending() == self.scratch.queue.depth() {
            self.complete()?;
        }
        let read = Read {
            file: at.segment.page_file()?,
            offset: page_offset(at.page),
            length: PAGE_BYTES,
            buffer: self.scratch.buffer(),
            tag: index as u64,
        };
        self.counts.page_reads += 1;
        self.waiting[index] = Some(at);
        self.scratch.queue.submit(read)
    }

    /// Waits for one read and goes on with its key; false when none is pending.
    fn complete(&mut self) -> Result<bool> {
        let Some(completion) = self.scratch.queue.complete()? else { return Ok(false) };
        let read = completion.exact()?;
        let index = read.tag as usize;
        let at = self.waiting[index].take().expect("a completed read was submitted");
        let bytes = &read.buffer.as_slice()[..PAGE_BYTES];
        at.segment.check_page(at.page, bytes)?;
        if let Some(cached) = at.segment.cached() {
            cached.keep(at.page, bytes.try_into().expect("one page was read"));
        }
        let settled = self.search_page(&at, index, bytes)?;
        self.scratch.give_back(read.buffer);
        if !settled {
            let hash = self.view.store.salt.hash(self.key(index));
            self.advance(index, hash, None)?;
        }
        Ok(true)
    }

    /// Takes what a checked page says of a key; whether that settles it.
    fn search_page(&mut self, at: &Candidate<'_>, index: usize, bytes: &[u8]) -> Result<bool> {
        let page = Page::view(bytes);
        let Some(entry) = page.find_near(self.keys[index].as_ref(), at.near) else {
            self.counts.level(at.level).false_passes += 1;
            return Ok(false);
        };
        if page.overflow() == 0 {
            return self.take(index, entry);
        }
        self.counts.page_reads += page.overflow() as u64;
        let value = at.segment.read_large(at.page, &page)?;
        self.take(index, EntryRef { value: &value, ..entry })
    }
}
