//! Which old records stay: those that something which stays reaches.
//!
//! References only point back, so chunks are taken from the newest down, and records of a chunk too: when one
//! is reached, all that lead to it were. What older chunks are referred to for waits with them. A record is
//! marked as an object, with all that it refers to, or only as the base of a patch, for its bytes.
//! Design: `docs/design/collection.md`.

use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use super::chunk::{Opening, Seal};
use super::chunk_files::Chunk;
use super::commit::CommitBody;
use super::pack::Pack;
use super::patch;
use super::record::{self, Record, Tag};
use super::rewrite::ChunkReader;
use crate::context::pieces::entry::{self, take_reference, take_references};
use crate::context::pieces::node::{Node, Slot};
use crate::error::{Error, Result};
use crate::file::append::HEAD;
use crate::format::codec::Decoder;
use crate::format::header;

/// What looking at a record costs beside its bytes, and what putting a patched node together does.
const LOOK: u64 = 64;
const PATCHED: u64 = 2048;

/// Marks that wait with a chunk before doubles among them go.
const DOUBLES: usize = 4096;

/// A mark in one word, so that they sort by offset, and at one offset objects last.
fn mark(offset: u64, is_object: bool) -> u64 {
    offset << 1 | u64::from(is_object)
}

/// Sorts `marks` and leaves one of each offset: that of an object if there is one.
fn tidy(marks: &mut Vec<u64>) {
    marks.sort_unstable_by(|a, b| b.cmp(a));
    marks.dedup_by_key(|mark| *mark >> 1);
    marks.reverse();
}

/// The marks of one old chunk.
#[derive(Debug, Default)]
struct OfChunk {
    base: u64,
    /// Sorted, without doubles, once the chunk was passed; until then as they came.
    marks: Vec<u64>,
    /// So many are sorted and without doubles.
    tidied: usize,
}

impl OfChunk {
    fn add(&mut self, mark: u64) {
        self.marks.push(mark);
        if self.marks.len() > 2 * self.tidied + DOUBLES {
            tidy(&mut self.marks);
            self.tidied = self.marks.len();
        }
    }
}

/// Where marking is.
#[derive(Debug)]
enum Stage {
    /// It looks at what is kept whole, from the target on: how many chunks were passed, and where in the
    /// next one it is.
    Roots(usize, Option<Batches>),
    /// It is about to take the old chunk with this index, less one.
    Below(usize),
    /// In that chunk.
    In(usize, Walk),
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
    left: BinaryHeap<u64>,
    /// Marked, the newest first.
    passed: Vec<u64>,
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
    /// Records of the last old chunk that stay whatever reaches them.
    tail: Vec<u64>,
    /// Found when their chunks had been passed, and those of them that are still to be looked at.
    late: BTreeSet<u64>,
    late_left: Vec<u64>,
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
        let mut marks = Marks {
            edge,
            old,
            whole,
            stage: Stage::Roots(0, None),
            tail: Vec::new(),
            late: BTreeSet::new(),
            late_left: Vec::new(),
        };
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
        let ahead = match &self.stage {
            Stage::Roots(..) => self.old.len(),
            Stage::Below(left) => *left,
            Stage::In(left, _) => *left - 1,
        };
        if index < ahead {
            self.old[index].add(mark);
        } else if let Stage::In(left, walk) = &mut self.stage
            && index == *left - 1
            && walk.passed.last().is_none_or(|passed| mark >> 1 < passed >> 1)
        {
            walk.left.push(mark);
        } else if !self.is_passed(index, mark) && self.late.insert(mark) {
            self.late_left.push(mark);
        }
    }

    /// Whether a passed chunk has `mark`, or that of an object where it is of a base.
    fn is_passed(&self, index: usize, mark: u64) -> bool {
        match &self.stage {
            Stage::In(left, walk) if index == *left - 1 => {
                let has = |mark: &u64| walk.passed.binary_search_by(|have| mark.cmp(have)).is_ok();
                has(&mark) || has(&(mark | 1))
            }
            _ => {
                let marks = &self.old[index].marks;
                marks.binary_search(&mark).is_ok() || marks.binary_search(&(mark | 1)).is_ok()
            }
        }
    }

    /// Works until it has cost about `credits` bytes; returns the cost, and whether all is marked.
    pub(crate) fn go_on(&mut self, pack: &Pack, credits: u64) -> Result<(u64, bool)> {
        let mut spent = 0;
        while spent < credits {
            if let Some(mark) = self.late_left.pop() {
                spent += self.visit_late(pack, mark)?;
                continue;
            }
            match &mut self.stage {
                Stage::Roots(index, _) if *index == self.whole.len() => {
                    self.stage = Stage::Below(self.old.len());
                }
                Stage::Roots(..) => spent += self.look_at_roots(pack)?,
                Stage::Below(0) => {
                    self.finish();
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
        let of = &mut self.old[left - 1];
        if of.marks.is_empty() {
            self.stage = Stage::Below(left - 1);
            return Ok(());
        }
        let base = of.base;
        let chunk = pack.chunks().into_iter().find(|chunk| chunk.base == base);
        let chunk = chunk.ok_or_else(|| {
            Error::corrupt("pack", base, "a chunk that is marked", "none: run `varvite check`")
        })?;
        let walk = Walk {
            reader: ChunkReader::open(pack, chunk)?,
            left: BinaryHeap::from(std::mem::take(&mut of.marks)),
            passed: Vec::new(),
        };
        self.stage = Stage::In(left, walk);
        Ok(())
    }

    /// Looks at records of the current chunk from the newest down.
    fn walk(&mut self, pack: &Pack, credits: u64) -> Result<u64> {
        let mut spent = 0;
        let mut found = Vec::new();
        while spent < credits {
            let Stage::In(left, walk) = &mut self.stage else { return Ok(spent) };
            // It leaves the heap once it was looked at: a read that fails is done again.
            let Some(mark) = walk.left.peek().copied() else {
                let (index, mut passed) = (*left - 1, std::mem::take(&mut walk.passed));
                passed.reverse();
                self.old[index].marks = passed;
                self.stage = Stage::Below(index);
                return Ok(spent);
            };
            if walk.passed.last().is_some_and(|passed| passed >> 1 == mark >> 1) {
                walk.left.pop();
                continue;
            }
            let before = walk.reader.read;
            let place = pack.place_in(&walk.reader.chunk, mark >> 1)?;
            let path = Arc::clone(&walk.reader.chunk);
            let bytes = walk.reader.record(place, false)?;
            let record = record::take(&path.path, place, pack.store, mark >> 1, bytes)?;
            spent += look(pack, &path.path, mark, &record, &mut found)?;
            spent += (walk.reader.read - before) / 8;
            walk.left.pop();
            walk.passed.push(mark);
            let base = self.old[self.old_index()].base;
            for mark in found.drain(..) {
                match &mut self.stage {
                    Stage::In(_, walk) if mark >> 1 >= base => walk.left.push(mark),
                    _ => self.note(mark),
                }
            }
        }
        Ok(spent)
    }

    fn old_index(&self) -> usize {
        match &self.stage {
            Stage::In(left, _) => *left - 1,
            _ => 0,
        }
    }

    /// Looks at a record whose chunk was passed before it was found.
    fn visit_late(&mut self, pack: &Pack, mark: u64) -> Result<u64> {
        let mut found = Vec::new();
        let looked =
            pack.record(mark >> 1, |file, _, record| look(pack, file, mark, record, &mut found));
        let cost = looked.inspect_err(|_| self.late_left.push(mark))?;
        for mark in found {
            self.note(mark);
        }
        Ok(cost + PATCHED)
    }

    /// Puts what was found late to the rest.
    fn finish(&mut self) {
        let last = self.old.len() - 1;
        self.old[last].marks.append(&mut self.tail);
        let mut grown = vec![last];
        for mark in std::mem::take(&mut self.late) {
            let index = self.place(mark >> 1);
            self.old[index].marks.push(mark);
            grown.push(index);
        }
        grown.dedup();
        for index in grown {
            tidy(&mut self.old[index].marks);
        }
        // Their files are to go.
        self.whole.clear();
    }

    /// Looks at one record of what stays whole, or at all of a chunk that is sparse.
    fn look_at_roots(&mut self, pack: &Pack) -> Result<u64> {
        let Stage::Roots(index, batches) = &mut self.stage else { return Ok(0) };
        let (chunk, edge, mut found) = (Arc::clone(&self.whole[*index]), self.edge, Vec::new());
        let is_first = *index == 0;
        if !chunk.is_whole() {
            let (passed, mut spent) = (*index + 1, LOOK);
            let kept = pack.kept_records(&chunk)?.into_iter().map(|(offset, _)| offset);
            let kept: Vec<u64> = kept.filter(|offset| *offset >= edge).collect();
            for offset in &kept {
                spent += pack.record(*offset, |file, place, record| {
                    roots(pack, (file, place), *offset, record, edge, &mut found)
                })?;
            }
            self.stage = Stage::Roots(passed, None);
            if is_first {
                self.tail.extend(kept.into_iter().map(|offset| mark(offset, true)));
            }
            for mark in found {
                self.note(mark);
            }
            return Ok(spent);
        }
        if batches.is_none() {
            let reader = ChunkReader::open(pack, Arc::clone(&chunk))?;
            // A commit is the last of its batch.
            let (at, end) = if is_first {
                let length = pack.record(edge, |_, _, record| Ok(record.length as u64))?;
                (edge - chunk.base, edge - chunk.base + length)
            } else {
                (header::LENGTH as u64, header::LENGTH as u64)
            };
            *batches = Some(Batches { reader, at, end });
        }
        let Some(Batches { reader, at, end }) = batches else { return Ok(0) };
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
        let cost = cost + (reader.read - before) / 8;
        if is_first {
            self.tail.push(mark(offset, true));
        }
        for mark in found {
            self.note(mark);
        }
        Ok(cost)
    }

    /// Whether the object at `offset` stays, once all is marked.
    pub(crate) fn has_object(&self, offset: u64) -> bool {
        offset >= self.edge
            || self.old[self.place(offset)].marks.binary_search(&mark(offset, true)).is_ok()
    }

    /// What stays of `chunk` once all is marked, in order, its opening and end among them, and whether
    /// something reaches it; none when nothing does.
    pub(crate) fn kept(&self, chunk: &Chunk) -> Vec<(u64, bool)> {
        let of = self.old.iter().find(|of| of.base == chunk.base);
        let Some(of) = of.filter(|of| !of.marks.is_empty()) else { return Vec::new() };
        let mut kept = vec![(chunk.base + Opening::PLACE, true)];
        kept.extend(of.marks.iter().map(|mark| (mark >> 1, mark & 1 == 1)));
        kept.push((chunk.logical_end() - Seal::RECORD, true));
        // Where the target is they are among those that stay.
        kept.dedup_by_key(|(offset, _)| *offset);
        kept
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
    let cost = LOOK + record.length as u64;
    let is_patch = matches!(record.tag, Tag::FlatPatch | Tag::ValuesPatch | Tag::BranchPatch);
    if is_patch {
        let base = take_reference(&mut Decoder::new(file, 0, record.body), offset)?;
        found.push(mark(base, false));
        if is_object {
            children(&pack.read_node(offset)?, found)?;
            return Ok(cost + PATCHED);
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
