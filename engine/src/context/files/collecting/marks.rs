//! Which old records stay: those that something which stays reaches.
//!
//! References only point back, so chunks are taken from the newest down, and records of a chunk too: when one
//! is reached, all that lead to it were. What older chunks are referred to for waits with them. A record is
//! marked as an object, with all that it refers to, or only as the base of a patch, for its bytes.
//! Design: `docs/design/collection.md`.

use std::ops::Range;
use std::sync::Arc;

use super::mark_set::MarkSet;
use super::queued::{Queued, QueuedMark};
use super::reached::{self, Hidden, HiddenOf, each_reached};
use super::whole_scan::WholeScan;
use crate::cache::PAGE;
use crate::context::files::chunk::{Opening, Seal};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::pack::Pack;
use crate::context::files::record::{self, Record};
use crate::context::pieces::entry;
use crate::context::pieces::node::{Node, Slot};
use crate::error::{Error, Result};

/// What looking at a record costs beside its bytes, and each reference that it has: one of many in order, one
/// by itself, and one of a node that is put together from patches. Copying a byte costs one. A visit is of an old record,
/// which is in order too: measured, so that a credit takes as long as in what comes before and behind, or the first
/// steps there are twice as long as those that a host has fitted its credits to.
const LOOK: u64 = 256;
const VISIT: u64 = 192;
const PATCHED: u64 = 4096;
const REFERENCE: u64 = 32;

/// What is written in full is on the disk before what it takes the place of goes: at most this part of the store more than
/// what has gone until then.
const AHEAD: u64 = 50;

/// How much a collection writes in full, without the bases that go with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merging {
    /// Nothing: each record that stays does so as it is.
    Nothing,
    /// As much as what goes before it makes room for.
    Freed,
    /// More than that, by a part of the store.
    Ahead,
}

/// What a record takes beside its body, with what the mapping has of it.
const AROUND: u64 = 48;
const ENTRY: u64 = 8;

/// Bytes of a reference to what is so far away.
fn varint_length(distance: u64) -> u64 {
    u64::from(70 - (distance | 1).leading_zeros()) / 7
}

/// A mark in one word.
fn mark(offset: u64, is_object: bool) -> u64 {
    offset << 1 | u64::from(is_object)
}

/// The marks of one old chunk.
#[derive(Debug)]
struct OfChunk {
    base: u64,
    /// Behind its records; none may be referred to where the chunk is gone.
    end: u64,
    set: MarkSet,
    /// Patches whose base stays for nothing else, so it goes: they are written anew without it.
    merged: MarkSet,
    /// Bytes of its file, and about how many of them stay.
    file_bytes: u64,
    kept_bytes: u64,
    /// By how much this chunk and the newer ones that are cleaned will be shorter, once it was passed: but for what is written
    /// in full.
    freed: i64,
}

/// Where marking is.
#[derive(Debug)]
enum Stage {
    /// It looks at what is kept whole, from the target on: how many chunks were passed, and where in the
    /// next one it is.
    Roots(usize, Option<WholeScan>),
    /// It is about to take the old chunk with this index, less one.
    Below(usize),
    /// Of that chunk, which was cleaned, it takes what stays from pages of the mapping.
    Fill(usize, Range<u32>),
    /// In that chunk.
    In(usize, Walk),
}

/// A chunk on its way.
#[derive(Debug)]
struct Walk {
    reader: ChunkReader,
    /// Distance of the last record that was looked at: the newest come first.
    at: u64,
}

impl Walk {
    /// Takes what the record at `offset` refers to; returns its length.
    fn look(
        &mut self,
        pack: &Pack,
        offset: u64,
        hidden: Option<&Hidden>,
        found: &mut Reached,
    ) -> Result<u64> {
        let (chunk, place) = (Arc::clone(&self.reader.chunk), self.reader.place(pack, offset)?);
        let bytes = self.reader.record(place, false)?;
        let record = record::take(&chunk.path, place, pack.store, offset, bytes)?;
        found.look((&chunk.path, place), offset, &record, hidden)?;
        Ok(record.length as u64)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Marks {
    /// All records from here on stay.
    edge: u64,
    /// How many of the old chunks were not cleaned before: of the others all stays that is there.
    unclean: usize,
    /// Chunks in which something is older than that, in order.
    old: Vec<OfChunk>,
    /// Those in which something is not, up to where the collection began.
    whole: Vec<Arc<Chunk>>,
    stage: Stage,
    /// Of bases that were not looked at yet, what the patches that are kept hide.
    hidden: HiddenOf,
    /// Of chunks that are still to be come to, and not in the sets yet.
    queued: Queued,
    /// Marked when their chunks, or their places in the one under way, had been passed: still to be looked at.
    late: Vec<u64>,
    /// Chunks that begin before are not looked at.
    floor: u64,
    /// Records before are in chunks that may be written anew with others in the place of theirs; 0 where none may.
    line: u64,
    /// By how much records that are written in full may still make files longer before anything becomes shorter.
    room: i64,
}

impl Marks {
    /// Of a collection that keeps all from the commit at `edge` on, and the commits `kept`, which are older, and that
    /// writes old chunks anew, but for those from that on which begins at `clean`, if it has cleaned some: what it left in
    /// them stays as it is. What comes after this moment is told with [`Marks::add`].
    /// `Corrupt` when one of those is nowhere.
    pub(crate) fn begin(
        pack: &Pack,
        edge: u64,
        kept: &[u64],
        clean: Option<u64>,
        merging: Merging,
    ) -> Result<Marks> {
        let mut marks = Marks::from(pack, edge, kept, clean)?;
        if merging != Merging::Nothing {
            marks.line = marks.unclean.checked_sub(1).map_or(0, |last| marks.old[last].end);
        }
        if merging == Merging::Ahead {
            let bytes = pack.chunks().iter().map(|chunk| chunk.end()).sum::<u64>();
            marks.room = (bytes / AHEAD) as i64;
        }
        Ok(marks)
    }

    /// The same where each record that stays does so as it is, and nothing was cleaned.
    pub(crate) fn verbatim(pack: &Pack, edge: u64, kept: &[u64]) -> Result<Marks> {
        Marks::from(pack, edge, kept, None)
    }

    fn from(pack: &Pack, edge: u64, kept: &[u64], clean: Option<u64>) -> Result<Marks> {
        let chunks = pack.chunks();
        let old = chunks.iter().take_while(|chunk| chunk.base < edge);
        let of = |chunk: &Arc<Chunk>| {
            let end = if chunk.has_file() { chunk.logical_end() } else { chunk.base };
            let (set, merged) = (MarkSet::default(), MarkSet::default());
            let (base, file_bytes) = (chunk.base, chunk.end());
            OfChunk { base, end, set, merged, file_bytes, kept_bytes: 0, freed: 0 }
        };
        let old: Vec<_> = old.map(of).collect();
        let unclean = clean.map_or(old.len(), |clean| old.partition_point(|of| of.base < clean));
        let whole = chunks[old.len() - 1..].to_vec();
        let mut marks = Marks {
            edge,
            unclean,
            old,
            whole,
            stage: Stage::Roots(0, None),
            hidden: HiddenOf::default(),
            queued: Queued::default(),
            late: Vec::new(),
            floor: 0,
            line: 0,
            room: 0,
        };
        kept.iter().try_for_each(|commit| marks.add(*commit, true))?;
        Ok(marks)
    }

    /// Whether any patch is written without its base.
    pub(crate) fn merges_any(&self) -> bool {
        self.old.iter().any(|of| !of.merged.is_empty())
    }

    /// About what they take of memory, with what reads for them.
    pub(crate) fn bytes(&self) -> usize {
        let reader = match &self.stage {
            Stage::Roots(_, Some(WholeScan::Batches(batches))) => batches.reader.held_bytes(),
            Stage::In(_, walk) => walk.reader.held_bytes(),
            _ => 0,
        };
        let sets = self.old.iter().map(|of| of.set.bytes() + of.merged.bytes()).sum::<usize>();
        let old = self.old.capacity() * size_of::<OfChunk>();
        let late = self.late.capacity() * size_of::<u64>();
        old + sets + late + self.hidden.bytes() + reader
    }

    /// Chunks that are not passed.
    pub(crate) fn chunks_left(&self) -> usize {
        match &self.stage {
            Stage::Roots(passed, _) => self.old.len() + self.whole.len() - passed,
            Stage::Below(left) | Stage::Fill(left, _) | Stage::In(left, _) => *left,
        }
    }

    /// Whether all is known that stays.
    pub(crate) fn is_done(&self) -> bool {
        // The roots go in a round of their own.
        matches!(self.stage, Stage::Below(0)) && self.late.is_empty() && self.whole.is_empty()
    }

    /// Bytes of `chunks`, which are those of the pack, that it has still to pass.
    pub(crate) fn left_bytes(&self, chunks: &[Arc<Chunk>]) -> u64 {
        let (end, whole) = match &self.stage {
            Stage::Roots(passed, _) => (self.edge, &self.whole[*passed..]),
            Stage::Below(0) => (0, &[][..]),
            Stage::Below(left) | Stage::Fill(left, _) | Stage::In(left, _) => {
                (self.old[left - 1].base + 1, &[][..])
            }
        };
        let old = chunks.iter().take_while(|chunk| chunk.base < end);
        old.chain(whole).map(|chunk| chunk.end()).sum()
    }

    /// Keeps the record at `offset`: an object with all that it reaches, or the base of a patch as it is. `Corrupt` when it
    /// is nowhere.
    pub(crate) fn add(&mut self, offset: u64, is_object: bool) -> Result<()> {
        if offset >= self.edge {
            return Ok(());
        }
        if !is_object {
            self.share(offset);
        }
        self.note(mark(offset, is_object))?;
        self.settle();
        Ok(())
    }

    /// The base at `offset` stays, whatever else needs it. One that was passed does, or is looked at as late.
    fn share(&mut self, offset: u64) {
        let index = self.place(offset);
        let distance = offset.checked_sub(self.old[index].base);
        if distance.is_some_and(|distance| self.is_ahead(index, distance)) {
            self.hidden.share(offset);
        }
    }

    /// Whether the record at `distance` of the old chunk with this index is still to be come to.
    fn is_ahead(&self, index: usize, distance: u64) -> bool {
        match &self.stage {
            Stage::Roots(..) => true,
            Stage::Below(left) | Stage::Fill(left, _) => index < *left,
            Stage::In(left, walk) => index + 1 < *left || index + 1 == *left && distance < walk.at,
        }
    }

    /// The place of the old chunk that `offset` is in.
    fn place(&self, offset: u64) -> usize {
        self.old.partition_point(|chunk| chunk.base <= offset).saturating_sub(1)
    }

    /// Takes a mark: to be looked at when its chunk is, or as late. `Corrupt` when it is of no chunk that is there:
    /// what stays refers to nothing that went.
    fn note(&mut self, mark: u64) -> Result<()> {
        let offset = mark >> 1;
        let index = self.place(offset);
        let of = &self.old[index];
        let distance = offset.checked_sub(of.base).filter(|_| offset < of.end);
        let Some(distance) = distance else {
            let expected = "a record that something refers to";
            return Err(Error::corrupt("pack", offset, expected, "no chunk"));
        };
        // No processor is asked for memory there.
        if !cfg!(varvite_js) && self.is_behind(index) {
            if self.queued.push(QueuedMark { index, distance, is_object: mark & 1 == 1 }) {
                self.settle();
            }
            return Ok(());
        }
        let is_ahead = self.is_ahead(index, distance);
        if self.old[index].set.insert(distance, mark & 1 == 1) && !is_ahead {
            self.late.push(mark);
        }
        Ok(())
    }

    /// Whether the old chunk with this index is still to be begun with, so that nobody asks for its marks before.
    fn is_behind(&self, index: usize) -> bool {
        match &self.stage {
            Stage::Roots(..) => true,
            Stage::Below(left) | Stage::Fill(left, _) => index < *left,
            Stage::In(left, _) => index + 1 < *left,
        }
    }

    /// Puts what is queued into the sets.
    fn settle(&mut self) {
        if cfg!(varvite_js) {
            return;
        }
        for of in self.queued.iter() {
            self.old[of.index].set.prefetch(of.distance);
        }
        for of in self.queued.drain() {
            self.old[of.index].set.insert(of.distance, of.is_object);
        }
    }

    /// Works until it has cost about `credits` bytes; returns the cost, and whether all is marked.
    pub(crate) fn go_on(&mut self, pack: &Pack, credits: u64) -> Result<(u64, bool)> {
        let outcome = self.mark(pack, credits);
        self.settle();
        outcome
    }

    fn mark(&mut self, pack: &Pack, credits: u64) -> Result<(u64, bool)> {
        let mut spent = 0;
        while spent < credits {
            // What comes now may ask for them.
            self.settle();
            if let Some(mark) = self.late.pop() {
                spent += self.visit_late(pack, mark)?;
                continue;
            }
            match &mut self.stage {
                Stage::Roots(index, _) if *index == self.whole.len() => {
                    self.stage = Stage::Below(self.old.len());
                }
                Stage::Roots(..) => spent += self.look_at_roots(pack, credits - spent)?,
                Stage::Below(0) => {
                    // Their files are to go.
                    self.whole.clear();
                    return Ok((spent, true));
                }
                Stage::Below(left) if self.old[*left - 1].base < self.floor => {
                    return Ok((spent, true));
                }
                Stage::Below(left) => {
                    let left = *left;
                    spent += LOOK;
                    self.enter(pack, left)?;
                }
                Stage::Fill(..) => spent += self.fill(pack)?,
                Stage::In(..) => spent += self.walk(pack, credits - spent)?,
            }
        }
        Ok((spent, false))
    }

    /// Works until all is known that stays in old chunks from that on which begins at `base`: what is older is not looked
    /// at, which nothing in those needs.
    pub(crate) fn go_down_to(&mut self, pack: &Pack, base: u64) -> Result<()> {
        const PART: u64 = 1 << 20;
        while self.go_some_down_to(pack, base, PART)? {}
        Ok(())
    }

    /// The same until it has cost about `credits` bytes; returns whether more is left.
    pub(crate) fn go_some_down_to(&mut self, pack: &Pack, base: u64, credits: u64) -> Result<bool> {
        self.floor = base;
        let is_left = |marks: &Marks| {
            let is_above = match &marks.stage {
                Stage::Roots(..) | Stage::Fill(..) | Stage::In(..) => true,
                Stage::Below(left) => *left > 0 && marks.old[left - 1].base >= base,
            };
            is_above || !marks.late.is_empty()
        };
        if is_left(self) && credits > 0 {
            self.go_on(pack, credits)?;
        }
        Ok(is_left(self))
    }

    /// Begins with the old chunk before `left`, if anything in it stays.
    fn enter(&mut self, pack: &Pack, left: usize) -> Result<()> {
        let (of, is_clean) = (&self.old[left - 1], left > self.unclean);
        if of.set.is_empty() && !(is_clean && of.end > of.base) {
            self.pass(left - 1);
            return Ok(());
        }
        let base = of.base;
        let chunk = pack
            .chunk(base)
            .filter(|chunk| chunk.base == base)
            .ok_or_else(|| Error::corrupt("pack", base, "a chunk that is marked", "none"))?;
        self.stage = if is_clean {
            Stage::Fill(left, pack.mapping_pages(&chunk)?)
        } else {
            self.walk_of(pack, left, chunk)?
        };
        Ok(())
    }

    fn walk_of(&self, pack: &Pack, left: usize, chunk: Arc<Chunk>) -> Result<Stage> {
        // Those from the edge on were looked at.
        let at = self.edge - chunk.base;
        let above = chunk.above.as_ref();
        let above = above.and_then(|above| ChunkReader::open(pack, Arc::clone(above)).ok());
        let reader = above.map_or_else(|| ChunkReader::open(pack, chunk), Ok)?;
        Ok(Stage::In(left, Walk { reader, at }))
    }

    /// Marks what a page of the mapping of a chunk has that was cleaned: it stays. Returns the cost.
    fn fill(&mut self, pack: &Pack) -> Result<u64> {
        let Stage::Fill(left, pages) = &mut self.stage else { return Ok(0) };
        let (left, next) = (*left, pages.clone().next());
        let base = self.old[left - 1].base;
        let chunk = pack.chunk(base).filter(|chunk| chunk.base == base);
        let chunk =
            chunk.ok_or_else(|| Error::corrupt("pack", base, "a chunk that is marked", "none"))?;
        let Some(number) = next else {
            self.stage = self.walk_of(pack, left, chunk)?;
            return Ok(LOOK);
        };
        for (offset, is_object) in pack.kept_in_page(&chunk, number)? {
            self.old[left - 1].set.insert(offset - base, is_object);
        }
        if let Stage::Fill(_, pages) = &mut self.stage {
            pages.start += 1;
        }
        Ok(4 * PAGE as u64)
    }

    /// All that stays in the old chunk with this index is known.
    fn pass(&mut self, index: usize) {
        let newer = self.freed_behind(index);
        if index < self.unclean {
            let of = &mut self.old[index];
            of.freed = newer + of.file_bytes as i64 - of.kept_bytes as i64;
        }
        self.stage = Stage::Below(index);
    }

    /// What goes of the disk before the old chunk with this index is written anew.
    fn freed_behind(&self, index: usize) -> i64 {
        self.old.get(index + 1).map_or(0, |newer| newer.freed)
    }

    /// Marks what was found; returns the cost. The base is of `patch`, if that may be written otherwise.
    fn note_all(&mut self, found: &mut Reached, patch: Option<u64>) -> Result<u64> {
        let cost = found.offsets.len() as u64 * REFERENCE;
        for offset in found.offsets.drain(..) {
            self.note(mark(offset, true))?;
        }
        if let Some((base, hidden)) = found.base.take() {
            match hidden {
                Some(hidden) => self.hidden.limit(base, hidden, patch),
                None => self.share(base),
            }
            self.note(mark(base, false))?;
        }
        Ok(cost)
    }

    /// The record at `offset`, if it is a patch that may be written otherwise.
    fn may_merge(&self, offset: u64) -> Option<u64> {
        (offset < self.line).then_some(offset)
    }

    /// Whether `patch` may be written without the base of `length` bytes at `offset`, which refers to what was `found`: then it
    /// is longer, and on the disk before the base goes.
    fn has_room(&mut self, patch: u64, offset: u64, length: u64, found: &Reached) -> bool {
        let place = self.place(patch);
        // References are by distance, which is more from the patch.
        let farther = |to: &u64| varint_length(patch - to) - varint_length(offset - to);
        let farther = found.offsets.iter().map(farther).sum::<u64>();
        let longer = (length + farther).saturating_sub(AROUND);
        if place == self.place(offset) {
            // In one file what the patch has more is what the base had.
            self.old[place].kept_bytes += longer;
            return true;
        }
        let longer = longer as i64;
        let has_room = longer <= self.room + self.freed_behind(place);
        if has_room {
            self.room -= longer;
        }
        has_room
    }

    /// The base at `distance` of the old chunk with this index, which was looked at, goes: `patch` is written without it.
    fn merge(&mut self, index: usize, distance: u64, patch: u64) {
        self.old[index].set.remove(distance);
        let place = self.place(patch);
        let of = &mut self.old[place];
        of.merged.insert(patch - of.base, false);
    }

    /// Whether the patch at `offset` is written anew, because something that it is a patch of goes.
    pub(crate) fn is_merged(&self, offset: u64) -> bool {
        let of = &self.old[self.place(offset)];
        let distance = offset.checked_sub(of.base);
        distance.is_some_and(|distance| of.merged.get(distance).is_some())
    }

    /// Whether the record at `offset` stays, as an object or for its bytes, once all is marked.
    pub(crate) fn has_record(&self, offset: u64) -> bool {
        let of = &self.old[self.place(offset)];
        let distance = offset.checked_sub(of.base);
        offset >= self.edge || distance.is_some_and(|distance| of.set.get(distance).is_some())
    }

    /// Looks at records of the current chunk from the newest down.
    fn walk(&mut self, pack: &Pack, credits: u64) -> Result<u64> {
        let (mut spent, mut found) = (0, Reached::below(self.edge));
        let Stage::In(_, walk) = &self.stage else { return Ok(spent) };
        let chunk = Arc::clone(&walk.reader.chunk);
        while spent < credits {
            let Stage::In(left, walk) = &mut self.stage else { return Ok(spent) };
            let index = *left - 1;
            let Some((distance, is_object)) = self.old[index].set.before(walk.at) else {
                self.pass(index);
                return Ok(spent);
            };
            let (before, offset) = (walk.reader.read, chunk.base + distance);
            let hidden = if is_object { Some(Hidden::default()) } else { self.hidden.get(offset) };
            let looked = walk.look(pack, offset, hidden.as_ref(), &mut found);
            let length = match looked {
                // What is not above is below.
                Err(_) if pack.is_lower(offset) => pack.record(offset, |file, place, record| {
                    found.look((file, place), offset, record, hidden.as_ref())?;
                    Ok(record.length as u64)
                }),
                looked => looked,
            }?;
            spent += VISIT + length + (walk.reader.read - before) / 8;
            let last = std::mem::replace(&mut walk.at, distance);
            let merged = if is_object { None } else { self.hidden.one_patch(offset) };
            let merged = merged.filter(|patch| self.has_room(*patch, offset, length, &found));
            // What it is a patch of is needed by the one that takes its place.
            let noted = self.note_all(&mut found, merged.or_else(|| self.may_merge(offset)));
            // Passed once it was looked at: what fails is done again.
            if let (Err(_), Stage::In(_, walk)) = (&noted, &mut self.stage) {
                walk.at = last;
            }
            spent += noted?;
            self.hidden.forget(offset);
            match merged {
                Some(patch) => self.merge(index, distance, patch),
                None => self.old[index].kept_bytes += length + ENTRY,
            }
        }
        Ok(spent)
    }

    /// Looks at a record whose chunk was passed before it was found, and puts together what is a patch.
    fn visit_late(&mut self, pack: &Pack, late: u64) -> Result<u64> {
        let (offset, is_object, mut found) = (late >> 1, late & 1 == 1, Reached::below(self.edge));
        let mut length = 0;
        let looked = pack.record(offset, |file, place, record| {
            length = record.length as u64;
            found.look((file, place), offset, record, None)?;
            if is_object && found.base.is_some() {
                children(&pack.read_node(offset)?, &mut found.offsets)?;
            } else if is_object {
                found.look((file, place), offset, record, Some(&Hidden::default()))?;
            }
            Ok(VISIT + PATCHED + record.length as u64)
        });
        let cost = looked.inspect_err(|_| self.late.push(late))?;
        let cost = cost + self.note_all(&mut found, None).inspect_err(|_| self.late.push(late))?;
        // Its chunk was counted without it.
        self.room -= (length + ENTRY) as i64;
        Ok(cost)
    }

    /// Looks at a page of a sparse chunk from the target on; returns the cost.
    fn look_at_page(&mut self, pack: &Pack, chunk: &Arc<Chunk>, number: u32) -> Result<u64> {
        let (edge, mut spent) = (self.edge, PAGE as u64);
        let kept = pack.kept_in_page(chunk, number)?.into_iter();
        for (offset, is_object) in kept.filter(|(offset, _)| *offset >= edge) {
            let (mut found, hidden) = (Reached::below(edge), is_object.then(Hidden::default));
            let length = pack.record(offset, |file, place, record| {
                found.look((file, place), offset, record, hidden.as_ref())?;
                Ok(record.length as u64)
            })?;
            self.keep(chunk, offset, is_object, length);
            spent += LOOK + length + self.note_all(&mut found, self.may_merge(offset))?;
        }
        Ok(spent)
    }

    /// Keeps a record from the target on, which was looked at, if `chunk` is that of the target.
    fn keep(&mut self, chunk: &Chunk, offset: u64, is_object: bool, length: u64) {
        if let Some(of) = self.old.last_mut().filter(|of| of.base == chunk.base) {
            of.set.insert(offset - of.base, is_object);
            of.kept_bytes += length + ENTRY;
        }
    }

    /// Looks at records of what stays whole, or at a page of a chunk that is sparse; returns the cost.
    fn look_at_roots(&mut self, pack: &Pack, credits: u64) -> Result<u64> {
        let Stage::Roots(index, scan) = &mut self.stage else { return Ok(0) };
        let (index, chunk) = (*index, Arc::clone(&self.whole[*index]));
        let scan = match scan {
            Some(scan) => scan,
            None => scan.insert(WholeScan::begin(pack, &chunk, (index == 0).then_some(self.edge))?),
        };
        if let WholeScan::Pages(pages) = scan {
            let Some(number) = pages.clone().next() else {
                self.stage = Stage::Roots(index + 1, None);
                return Ok(LOOK);
            };
            let spent = self.look_at_page(pack, &chunk, number)?;
            if let Stage::Roots(_, Some(WholeScan::Pages(pages))) = &mut self.stage {
                pages.start += 1;
            }
            return Ok(spent);
        }
        let (mut spent, mut found, whole) = (0, Reached::below(self.edge), Hidden::default());
        while spent < credits {
            let Stage::Roots(_, Some(WholeScan::Batches(batches))) = &mut self.stage else { break };
            let before = batches.reader.read;
            let Some(at) = batches.next(&chunk)? else {
                self.stage = Stage::Roots(index + 1, None);
                return Ok(spent + LOOK);
            };
            let offset = chunk.base + at;
            let bytes = batches.reader.record(at, true)?;
            let record = record::take(&chunk.path, at, pack.store, offset, bytes)?;
            found.look((&chunk.path, at), offset, &record, Some(&whole))?;
            let length = record.length as u64;
            spent += LOOK + length + (batches.reader.read - before) / 8;
            self.keep(&chunk, offset, true, length);
            spent += self.note_all(&mut found, self.may_merge(offset))?;
            // Passed once it was looked at.
            if let Stage::Roots(_, Some(WholeScan::Batches(batches))) = &mut self.stage {
                batches.pass(&chunk, length)?;
            }
        }
        Ok(spent)
    }

    /// Whether the object at `offset` stays, once all is marked.
    pub(crate) fn has_object(&self, offset: u64) -> bool {
        let of = &self.old[self.place(offset)];
        let distance = offset.checked_sub(of.base);
        offset >= self.edge || distance.and_then(|distance| of.set.get(distance)) == Some(true)
    }

    /// The first object of `chunk` from `offset` on that stays, but for those of the chunk itself.
    pub(crate) fn object_from(&self, chunk: &Chunk, offset: u64) -> Option<u64> {
        let set = &self.of(chunk)?.set;
        let mut distance = offset.checked_sub(chunk.base)?;
        loop {
            let (found, is_object) = set.from(distance)?;
            if is_object {
                return Some(chunk.base + found);
            }
            distance = found + 1;
        }
    }

    /// Whether something in `chunk` stays.
    pub(crate) fn keeps(&self, chunk: &Chunk) -> bool {
        self.of(chunk).is_some_and(|of| !of.set.is_empty())
    }

    fn of(&self, chunk: &Chunk) -> Option<&OfChunk> {
        self.old.get(self.place(chunk.base)).filter(|of| of.base == chunk.base)
    }

    /// The first record of `chunk` from `offset` on that stays, if anything in it does, its opening and its
    /// end among them, and whether something reaches it.
    pub(crate) fn kept_from(&self, chunk: &Chunk, offset: u64) -> Option<(u64, bool)> {
        let opening = chunk.base + Opening::PLACE;
        if offset <= opening {
            return Some((opening, true));
        }
        let end = chunk.logical_end() - Seal::RECORD;
        let marked = self.of(chunk)?.set.from(offset - chunk.base);
        let marked = marked.map(|(distance, is_object)| (chunk.base + distance, is_object));
        // Where the target is the end is among those that stay.
        marked.or_else(|| (offset <= end).then_some((end, true)))
    }
}

/// What one record refers to.
#[derive(Debug)]
struct Reached {
    /// What is not older is kept anyhow.
    edge: u64,
    offsets: Vec<u64>,
    /// Of a patch, with what is hidden of it; none when all is.
    base: Option<(u64, Option<Hidden>)>,
}

impl Reached {
    fn below(edge: u64) -> Reached {
        Reached { edge, offsets: Vec::new(), base: None }
    }

    /// Takes what the record at `offset` refers to, but for what is `hidden`; when all is, its base alone.
    fn look(
        &mut self,
        place: (&str, u64),
        offset: u64,
        record: &Record<'_>,
        hidden: Option<&Hidden>,
    ) -> Result<()> {
        let (edge, offsets) = (self.edge, &mut self.offsets);
        // What was found of a record before damage in it is not taken.
        offsets.clear();
        let base = match hidden {
            Some(hidden) => {
                let found = &mut |offset| {
                    if offset < edge {
                        offsets.push(offset);
                    }
                };
                let base = each_reached(place, offset, record, hidden, found)?;
                base.map(|(base, hidden)| (base, Some(hidden)))
            }
            None => reached::base(place, offset, record)?.map(|base| (base, None)),
        };
        self.base = base.filter(|(base, _)| *base < edge);
        Ok(())
    }
}

/// Adds the children of a node that was read.
pub(crate) fn children(node: &Node, found: &mut Vec<u64>) -> Result<()> {
    for index in 0..node.width() {
        match node.child(index) {
            Slot::StoredNode(offset) | Slot::StoredValue(offset) => found.push(offset),
            Slot::Embedded(bytes) => {
                entry::each_embedded_reference(&bytes, &mut |offset| found.push(offset))?;
            }
            Slot::Inline { .. } => {}
            Slot::Value(_) | Slot::Node(_) => unreachable!("a node that was read is clean"),
        }
    }
    Ok(())
}
