//! Which old records stay: those that something which stays reaches.
//!
//! References only point back, so chunks are taken from the newest down, and records of a chunk too: when one
//! is reached, all that lead to it were. What older chunks are referred to for waits with them. A record is
//! marked as an object, with all that it refers to, or only as the base of a patch, for its bytes.
//! Design: `docs/design/collection.md`.

use std::ops::Range;
use std::sync::Arc;

use super::chunk::{Opening, Seal};
use super::chunk_files::Chunk;
use super::chunk_reader::ChunkReader;
use super::commit::CommitBody;
use super::mark_set::MarkSet;
use super::pack::Pack;
use super::patch;
use super::record::{self, Record, Tag};
use crate::cache::PAGE;
use crate::context::pieces::entry::{self, take_reference, take_references};
use crate::context::pieces::node::{Node, Slot};
use crate::error::{Error, Result};
use crate::file::append::HEAD;
use crate::format::codec::Decoder;
use crate::format::header;

/// What looking at a record costs beside its bytes, and each reference that it has: one of many in order, one
/// by itself, and one of a node that is put together from patches. Copying a byte costs one.
const LOOK: u64 = 256;
const VISIT: u64 = 512;
const PATCHED: u64 = 4096;
const REFERENCE: u64 = 32;

/// A mark in one word.
fn mark(offset: u64, is_object: bool) -> u64 {
    offset << 1 | u64::from(is_object)
}

/// The marks of one old chunk.
#[derive(Debug, Default)]
struct OfChunk {
    base: u64,
    set: MarkSet,
}

/// Where marking is.
#[derive(Debug)]
enum Stage {
    /// It looks at what is kept whole, from the target on: how many chunks were passed, and where in the
    /// next one it is.
    Roots(usize, Option<WholeScan>),
    /// It is about to take the old chunk with this index, less one.
    Below(usize),
    /// In that chunk.
    In(usize, Walk),
}

/// How far a chunk is that stays whole.
#[derive(Debug)]
enum WholeScan {
    Batches(Batches),
    /// It is sparse: pages of its mapping.
    Pages(Range<u32>),
}

/// A whole chunk whose records are looked at in order.
#[derive(Debug)]
struct Batches {
    reader: ChunkReader,
    /// The next byte, and where its batch ends.
    at: u64,
    end: u64,
}

/// A chunk on its way.
#[derive(Debug)]
struct Walk {
    reader: ChunkReader,
    /// Distance of the last record that was looked at: the newest come first.
    at: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Marks {
    /// All records from here on stay.
    edge: u64,
    /// Chunks in which something is older than that, in order.
    old: Vec<OfChunk>,
    /// Those in which something is not, up to where the collection began.
    whole: Vec<Arc<Chunk>>,
    stage: Stage,
    /// Marked when their chunks, or their places in the one under way, had been passed: still to be looked at.
    late: Vec<u64>,
}

impl Marks {
    /// Of a collection that keeps all from the commit at `edge` on, and the commits `kept`, which are older.
    /// What comes after this moment is told with [`Marks::add`].
    pub(crate) fn begin(pack: &Pack, edge: u64, kept: &[u64]) -> Marks {
        let chunks = pack.chunks();
        let old = chunks.iter().take_while(|chunk| chunk.base < edge);
        let old: Vec<_> =
            old.map(|chunk| OfChunk { base: chunk.base, ..OfChunk::default() }).collect();
        let whole = chunks[old.len() - 1..].to_vec();
        let mut marks = Marks { edge, old, whole, stage: Stage::Roots(0, None), late: Vec::new() };
        for commit in kept {
            marks.add(*commit);
        }
        marks
    }

    /// Chunks that are not passed.
    pub(crate) fn chunks_left(&self) -> usize {
        match &self.stage {
            Stage::Roots(passed, _) => self.old.len() + self.whole.len() - passed,
            Stage::Below(left) | Stage::In(left, _) => *left,
        }
    }

    /// Bytes of `chunks`, which are those of the pack, that it has still to pass.
    pub(crate) fn left_bytes(&self, chunks: &[Arc<Chunk>]) -> u64 {
        let (end, whole) = match &self.stage {
            Stage::Roots(passed, _) => (self.edge, &self.whole[*passed..]),
            Stage::Below(0) => (0, &[][..]),
            Stage::Below(left) | Stage::In(left, _) => (self.old[left - 1].base + 1, &[][..]),
        };
        let old = chunks.iter().take_while(|chunk| chunk.base < end);
        old.chain(whole).map(|chunk| chunk.end()).sum()
    }

    /// Keeps the object at `offset` and all that it reaches.
    pub(crate) fn add(&mut self, offset: u64) {
        if offset < self.edge {
            self.note(mark(offset, true));
        }
    }

    /// The place of the old chunk that `offset` is in.
    fn place(&self, offset: u64) -> usize {
        self.old.partition_point(|chunk| chunk.base <= offset).saturating_sub(1)
    }

    /// Takes a mark: to be looked at when its chunk is, or as late.
    fn note(&mut self, mark: u64) {
        let index = self.place(mark >> 1);
        let of = &mut self.old[index];
        // What is in no chunk any more is gone, and cannot be kept.
        let Some(distance) = (mark >> 1).checked_sub(of.base) else { return };
        let is_ahead = match &self.stage {
            Stage::Roots(..) => true,
            Stage::Below(left) => index < *left,
            Stage::In(left, walk) => index + 1 < *left || index + 1 == *left && distance < walk.at,
        };
        if of.set.insert(distance, mark & 1 == 1) && !is_ahead {
            self.late.push(mark);
        }
    }

    /// Works until it has cost about `credits` bytes; returns the cost, and whether all is marked.
    pub(crate) fn go_on(&mut self, pack: &Pack, credits: u64) -> Result<(u64, bool)> {
        let mut spent = 0;
        while spent < credits {
            if let Some(mark) = self.late.pop() {
                spent += self.visit_late(pack, mark)?;
                continue;
            }
            match &mut self.stage {
                Stage::Roots(index, _) if *index == self.whole.len() => {
                    self.stage = Stage::Below(self.old.len());
                }
                Stage::Roots(..) => spent += self.look_at_roots(pack)?,
                Stage::Below(0) => {
                    // Their files are to go.
                    self.whole.clear();
                    return Ok((spent, true));
                }
                Stage::Below(left) => {
                    let left = *left;
                    spent += LOOK;
                    self.enter(pack, left)?;
                }
                Stage::In(..) => spent += self.walk(pack, credits - spent)?,
            }
        }
        Ok((spent, false))
    }

    /// Begins with the old chunk before `left`, if anything in it stays.
    fn enter(&mut self, pack: &Pack, left: usize) -> Result<()> {
        let of = &self.old[left - 1];
        if of.set.is_empty() {
            self.stage = Stage::Below(left - 1);
            return Ok(());
        }
        let base = of.base;
        let chunk = pack.chunk(base).filter(|chunk| chunk.base == base).ok_or_else(|| {
            Error::corrupt("pack", base, "a chunk that is marked", "none: run `varvite check`")
        })?;
        // Those from the edge on were looked at.
        let at = self.edge - base;
        self.stage = Stage::In(left, Walk { reader: ChunkReader::open(pack, chunk)?, at });
        Ok(())
    }

    /// Looks at records of the current chunk from the newest down.
    fn walk(&mut self, pack: &Pack, credits: u64) -> Result<u64> {
        let mut spent = 0;
        let mut found = Vec::new();
        while spent < credits {
            let Stage::In(left, walk) = &mut self.stage else { return Ok(spent) };
            let index = *left - 1;
            let Some((distance, is_object)) = self.old[index].set.before(walk.at) else {
                self.stage = Stage::Below(index);
                return Ok(spent);
            };
            let before = walk.reader.read;
            let (chunk, offset) = (Arc::clone(&walk.reader.chunk), self.old[index].base + distance);
            let place = pack.place_in(&chunk, offset)?;
            let bytes = walk.reader.record(place, false)?;
            let record = record::take(&chunk.path, place, pack.store, offset, bytes)?;
            spent += look(pack, &chunk.path, mark(offset, is_object), &record, &mut found)?;
            spent += (walk.reader.read - before) / 8 + found.len() as u64 * REFERENCE;
            // Passed once it was looked at: a read that fails is done again.
            walk.at = distance;
            for mark in found.drain(..) {
                self.note(mark);
            }
        }
        Ok(spent)
    }

    /// Looks at a record whose chunk was passed before it was found.
    fn visit_late(&mut self, pack: &Pack, mark: u64) -> Result<u64> {
        let mut found = Vec::new();
        let looked =
            pack.record(mark >> 1, |file, _, record| look(pack, file, mark, record, &mut found));
        let cost = looked.inspect_err(|_| self.late.push(mark))?;
        let cost = cost + PATCHED + found.len() as u64 * REFERENCE;
        for mark in found {
            self.note(mark);
        }
        Ok(cost)
    }

    /// Looks at a page of a sparse chunk from the target on; returns the cost.
    fn look_at_page(&mut self, pack: &Pack, chunk: &Arc<Chunk>, number: u32) -> Result<u64> {
        let (edge, mut found, mut spent) = (self.edge, Vec::new(), PAGE as u64);
        let kept = pack.kept_in_page(chunk, number)?.into_iter();
        let kept: Vec<_> = kept.filter(|(offset, _)| *offset >= edge).collect();
        for (offset, _) in &kept {
            spent += pack.record(*offset, |file, place, record| {
                roots(pack, (file, place), *offset, record, edge, &mut found)
            })?;
        }
        self.keep_all(chunk, kept.into_iter().map(|(offset, _)| offset));
        for mark in found {
            self.note(mark);
        }
        Ok(spent)
    }

    /// Keeps records from the target on, which were looked at, if `chunk` is that of the target.
    fn keep_all(&mut self, chunk: &Chunk, offsets: impl IntoIterator<Item = u64>) {
        if let Some(of) = self.old.last_mut().filter(|of| of.base == chunk.base) {
            for offset in offsets {
                of.set.insert(offset - of.base, true);
            }
        }
    }

    /// Looks at one record of what stays whole, or at a page of a chunk that is sparse.
    fn look_at_roots(&mut self, pack: &Pack) -> Result<u64> {
        let Stage::Roots(index, scan) = &mut self.stage else { return Ok(0) };
        let (chunk, edge, mut found) = (Arc::clone(&self.whole[*index]), self.edge, Vec::new());
        let is_first = *index == 0;
        let scan = match scan {
            Some(scan) => scan,
            None if chunk.is_whole() => {
                let reader = ChunkReader::open(pack, Arc::clone(&chunk))?;
                // A commit is the last of its batch.
                let (at, end) = if is_first {
                    let length = pack.record(edge, |_, _, record| Ok(record.length as u64))?;
                    (edge - chunk.base, edge - chunk.base + length)
                } else {
                    (header::LENGTH as u64, header::LENGTH as u64)
                };
                scan.insert(WholeScan::Batches(Batches { reader, at, end }))
            }
            None => scan.insert(WholeScan::Pages(pack.mapping_pages(&chunk)?)),
        };
        let Batches { reader, at, end } = match scan {
            WholeScan::Batches(batches) => batches,
            WholeScan::Pages(pages) => {
                let Some(number) = pages.clone().next() else {
                    self.stage = Stage::Roots(*index + 1, None);
                    return Ok(LOOK);
                };
                let spent = self.look_at_page(pack, &chunk, number)?;
                if let Stage::Roots(_, Some(WholeScan::Pages(pages))) = &mut self.stage {
                    pages.start += 1;
                }
                return Ok(spent);
            }
        };
        if *at == *end {
            if *at >= chunk.end() {
                self.stage = Stage::Roots(*index + 1, None);
                return Ok(LOOK);
            }
            let head = reader.bytes(*at, HEAD)?;
            let length = u32::from_le_bytes(head[8..12].try_into().expect("four bytes"));
            *at += HEAD as u64;
            *end = *at + u64::from(length);
        }
        let (before, offset) = (reader.read, chunk.base + *at);
        let bytes = reader.record(*at, true)?;
        let record = record::take(&chunk.path, *at, pack.store, offset, bytes)?;
        let cost = roots(pack, (&chunk.path, *at), offset, &record, edge, &mut found)?;
        *at += record.length as u64;
        if *at > *end {
            return Err(Error::corrupt(
                &chunk.path,
                *end,
                "a record within its batch",
                "a longer one",
            ));
        }
        let cost = cost + (reader.read - before) / 8 + found.len() as u64 * REFERENCE;
        self.keep_all(&chunk, [offset]);
        for mark in found {
            self.note(mark);
        }
        Ok(cost)
    }

    /// Whether the object at `offset` stays, once all is marked.
    pub(crate) fn has_object(&self, offset: u64) -> bool {
        let of = &self.old[self.place(offset)];
        let distance = offset.checked_sub(of.base);
        offset >= self.edge || distance.and_then(|distance| of.set.get(distance)) == Some(true)
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

/// Finds what the record at `offset`, which stays, refers to below `edge`. The base of a patch is kept with
/// all that it refers to, which spares putting each node together, unless an earlier collection has kept the
/// base alone.
fn roots(
    pack: &Pack,
    (file, place): (&str, u64),
    offset: u64,
    record: &Record<'_>,
    edge: u64,
    found: &mut Vec<u64>,
) -> Result<u64> {
    let cost = LOOK + record.length as u64;
    let base = each_reference(file, place, offset, record, &mut |offset| {
        found.push(mark(offset, true));
    })?;
    if let Some(base) = base.filter(|base| *base < edge) {
        if pack.has_object(base)? {
            found.push(mark(base, true));
        } else {
            found.push(mark(base, false));
            children(&pack.read_node(offset)?, found)?;
        }
    }
    found.retain(|mark| mark >> 1 < edge);
    Ok(cost)
}

/// Finds what the marked record at `mark` refers to; returns what that cost.
fn look(
    pack: &Pack,
    file: &str,
    mark_at: u64,
    record: &Record<'_>,
    found: &mut Vec<u64>,
) -> Result<u64> {
    let (offset, is_object) = (mark_at >> 1, mark_at & 1 == 1);
    let cost = VISIT + record.length as u64;
    let is_patch = matches!(record.tag, Tag::FlatPatch | Tag::ValuesPatch | Tag::BranchPatch);
    if is_patch {
        let base = take_reference(&mut Decoder::new(file, 0, record.body), offset)?;
        found.push(mark(base, false));
        if is_object {
            let node = pack.read_node(offset)?;
            children(&node, found)?;
            let patches = node.base.map_or(0, |base| base.patches);
            return Ok(cost + PATCHED * (1 + u64::from(patches)));
        }
    } else if is_object {
        each_reference(file, 0, offset, record, &mut |offset| found.push(mark(offset, true)))?;
    }
    Ok(cost)
}

/// Adds the children of a node that was read.
fn children(node: &Node, found: &mut Vec<u64>) -> Result<()> {
    for index in 0..node.width() {
        match node.child(index) {
            Slot::StoredNode(offset) | Slot::StoredValue(offset) => found.push(mark(offset, true)),
            Slot::Embedded(bytes) => {
                entry::each_embedded_reference(&bytes, &mut |offset| {
                    found.push(mark(offset, true));
                })?;
            }
            Slot::Inline { .. } => {}
            Slot::Value(_) | Slot::Node(_) => unreachable!("a node that was read is clean"),
        }
    }
    Ok(())
}

/// Calls `each` with what the record at `at` says that it refers to, and returns the base of a patch.
fn each_reference(
    file: &str,
    place: u64,
    at: u64,
    record: &Record<'_>,
    each: &mut dyn FnMut(u64),
) -> Result<Option<u64>> {
    let mut from = Decoder::new(file, place, record.body);
    match record.tag {
        Tag::Flat | Tag::Values => {
            while from.remaining() > 0 {
                take_references(&mut from, at, true, each)?;
            }
        }
        Tag::Branch => {
            let is_dense = from.varint()? & 1 == 1;
            while from.remaining() > 0 {
                if !is_dense {
                    from.varint()?;
                }
                from.varint()?;
                each(take_reference(&mut from, at)?);
            }
        }
        Tag::FlatPatch | Tag::ValuesPatch | Tag::BranchPatch => {
            let base = take_reference(&mut from, at)?;
            patch::each_reference(record.tag, at, from, each)?;
            return Ok(Some(base));
        }
        Tag::Commit => each(CommitBody::decode(file, place, at, record.body)?.root),
        Tag::Value | Tag::Reference | Tag::Opening | Tag::Seal => {}
    }
    Ok(None)
}
