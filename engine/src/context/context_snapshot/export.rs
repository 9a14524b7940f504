//! Writing commits: their trees in post-order, with repeats of what was just written.

use std::sync::Arc;

use super::compressed::Compressor;
use super::frames::{CommitFileOpening, FrameWriter};
use super::{
    BRANCH, COMMIT, CommitFile, CommitFileOptions, CommitFileProgress, END, FLAT, LEAF,
    LEVEL_BYTES, NODE_WORTH, PATH_MAX, REPEAT, SAID_MAX, SLOTS, STACKED_DIRECTORY, STACKED_VALUE,
    VALUE, VALUE_WORTH, WAITING_MAX, Watch, commit_body, path_bytes, slot_of,
};
use crate::context::files::commit::Commit;
use crate::context::hash::{self, Hash};
use crate::context::pieces::node::{Body, INLINE, Load, Node, Slot};
use crate::context::pieces::{digest, entry};
use crate::disk::File;
use crate::error::{Error, Result};
use crate::format::codec::Encoder;

/// Memory for the pieces on a path but one, of which those further up are read again.
const NODES_MAX: usize = 16 << 20;

/// Writes one file.
pub(crate) struct Exporter<'a> {
    load: &'a dyn Load,
    out: FrameWriter,
    summary: CommitFile,
    /// The table of repeats: hash and weight of the last object of a slot that was worth it.
    repeats: Vec<(Hash, u8)>,
    waiting: usize,
    /// Commits that were written, and the bytes of their texts and parents.
    written: u64,
    said_bytes: usize,
    watch: Watch<'a>,
    told: CommitFileProgress,
}

/// A piece of a directory that is being written: what is below it, and what its record will say.
struct Level {
    /// None while it is let go.
    node: Option<Arc<Node>>,
    /// Where it can be read again, if it can.
    place: Option<u64>,
    node_bytes: usize,
    width: usize,
    /// None for a small one in its parent's record that was not hashed.
    hash: Option<Hash>,
    next: usize,
    body: Encoder,
    /// What its children weigh, and how many are on the stack.
    weight: usize,
    taken: usize,
    /// What the records above it take so far, and those on the longest path below it.
    above: usize,
    below: usize,
}

impl Level {
    fn new(node: Arc<Node>, place: Option<u64>, hash: Option<Hash>) -> Level {
        let mut body = Encoder::new();
        match &node.body {
            Body::Leaf { leaf, .. } => body.varint(leaf.len() as u64),
            Body::Branch(branch) => {
                body.varint(u64::from(branch.depth));
                body.varint(branch.pointers.len() as u64);
                for pointer in &branch.pointers {
                    body.varint(u64::from(pointer.bucket));
                }
            }
        }
        let (node_bytes, width) = (node.bytes(), node.width());
        Level {
            node: Some(node),
            place,
            node_bytes,
            width,
            hash,
            next: 0,
            body,
            weight: 0,
            taken: 0,
            above: 0,
            below: 0,
        }
    }

    fn node(&self) -> &Arc<Node> {
        self.node.as_ref().expect("the innermost is never let go")
    }

    fn tag(&self) -> u8 {
        match &self.node().body {
            Body::Leaf { flat: true, .. } => FLAT,
            Body::Leaf { .. } => LEAF,
            Body::Branch(_) => BRANCH,
        }
    }

    /// A child that weighs `weight` is on the stack.
    fn take(&mut self, weight: u8) {
        self.weight += usize::from(weight);
        self.taken += 1;
    }
}

/// The pieces from the root down to the one that is being written.
#[derive(Default)]
struct Path {
    levels: Vec<Level>,
    /// What those of them take that are held.
    node_bytes: usize,
    /// How many, from the root on, were let go, but for those that nobody could read again.
    let_go: usize,
}

impl Path {
    /// Goes down to `level`. `Invalid` when the path is too long to be written.
    fn push(&mut self, mut level: Level) -> Result<()> {
        if let Some(parent) = self.levels.last() {
            level.above = path_bytes(parent.body.bytes().len(), parent.above);
        }
        expect_path(path_bytes(level.body.bytes().len(), level.above))?;
        self.node_bytes += level.node_bytes;
        self.levels.push(level);
        while self.let_go + 1 < self.levels.len() {
            let level = &mut self.levels[self.let_go];
            // One that is let go is read again only after as much was read below it.
            if level.node.is_some() && self.node_bytes - level.node_bytes <= NODES_MAX {
                break;
            }
            if level.place.is_some() && level.node.take().is_some() {
                self.node_bytes -= level.node_bytes;
            }
            self.let_go += 1;
        }
        Ok(())
    }

    /// Goes back up from a piece that was written.
    fn pop(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.node_bytes -= level.node_bytes;
        }
    }

    /// The innermost piece.
    fn last(&mut self, load: &dyn Load) -> Result<Option<&mut Level>> {
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        if level.node.is_none()
            && let Some(place) = level.place
        {
            level.node = Some(load.node(place)?);
            self.node_bytes += level.node_bytes;
        }
        self.let_go = self.let_go.min(self.levels.len() - 1);
        Ok(self.levels.last_mut())
    }
}

/// `Invalid` when the records on a path take more than a file may have there.
fn expect_path(bytes: usize) -> Result<()> {
    if bytes <= PATH_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the records on one path of the commit take more than {PATH_MAX} bytes, each with {LEVEL_BYTES} more than it has, \
         which no snapshot of a commit can hold: its directories are too deep"
    )))
}

/// What became of a directory.
enum Entered {
    /// It is on the stack, and weighs so much.
    Repeated(u8),
    /// It has to be written.
    Level(Level),
}

impl<'a> Exporter<'a> {
    pub(crate) fn begin(
        file: Arc<dyn File>,
        opening: &CommitFileOpening,
        options: CommitFileOptions,
        load: &'a dyn Load,
        watch: Watch<'a>,
    ) -> Result<Exporter<'a>> {
        let compressor = options.zstd_level.map(Compressor::new).transpose()?;
        let out = FrameWriter::begin(file, opening, compressor)?;
        Ok(Exporter {
            load,
            watch,
            told: out.progress(),
            out,
            summary: CommitFile::new(opening),
            repeats: vec![([0; 32], 0); SLOTS],
            waiting: 0,
            written: 0,
            said_bytes: 0,
        })
    }

    /// Writes the tree at `root`, and the commit.
    pub(crate) fn commit(&mut self, root: &Slot, commit: &Commit) -> Result<()> {
        self.said_bytes += commit_body::said_bytes(commit);
        if self.said_bytes > SAID_MAX {
            return Err(Error::invalid(format!(
                "the commits have more than {SAID_MAX} bytes of texts and parents together, which no snapshot of \
                 commits can hold: write several"
            )));
        }
        self.tree(root)?;
        let mut body = Encoder::new();
        commit_body::put(commit, &mut body);
        self.waiting = 0;
        self.written += 1;
        self.out.put([&[COMMIT], body.bytes()])
    }

    /// Ends the file, which is not synced.
    pub(crate) fn finish(mut self) -> Result<CommitFile> {
        self.summary.stream_bytes = self.out.stream();
        let mut end = Encoder::new();
        self.summary.encode(&mut end);
        self.out.put([&[END], end.bytes()])?;
        let stream_bytes = self.out.stream();
        let (bytes, hash) = self.out.finish()?;
        Ok(CommitFile { stream_bytes, bytes, hash, ..self.summary })
    }

    fn tree(&mut self, root: &Slot) -> Result<()> {
        let mut path = Path::default();
        if let Entered::Level(level) = self.enter(root)? {
            path.push(level)?;
        }
        loop {
            self.tell(&path.levels)?;
            let Some(level) = path.last(self.load)? else { return Ok(()) };
            if level.next == level.width {
                let (weight, bytes) = self.leave(level)?;
                path.pop();
                if let Some(parent) = path.levels.last_mut() {
                    parent.take(weight);
                    parent.below = parent.below.max(bytes);
                }
                continue;
            }
            let child = level.node().child(level.next);
            level.next += 1;
            if child.is_value() {
                self.value(level, &child)?;
                continue;
            }
            if let Some(Body::Leaf { leaf, .. }) = level.node.as_ref().map(|node| &node.body) {
                let name = leaf.name(level.next - 1);
                entry::put_name(&mut level.body, STACKED_DIRECTORY, Some(name));
            }
            match self.enter(&child)? {
                Entered::Repeated(weight) => level.take(weight),
                Entered::Level(below) => path.push(below)?,
            }
        }
    }

    /// Says how far it is, after each frame.
    fn tell(&mut self, levels: &[Level]) -> Result<()> {
        let now = self.out.progress();
        if now.bytes == self.told.bytes {
            return Ok(());
        }
        // Each child of a piece counts as much as the others, whatever is below it.
        let mut part = 1e6 / self.summary.commits as f64;
        let mut share = part * self.written as f64;
        for (index, level) in levels.iter().enumerate() {
            part /= level.width as f64;
            // What the last one began was ended.
            let is_last = index + 1 == levels.len();
            share += part * level.next.saturating_sub(usize::from(!is_last)) as f64;
        }
        if levels.is_empty() {
            share += part;
        }
        let share = (share as u32).clamp(self.told.share, 1_000_000);
        self.told = CommitFileProgress { share, ..now };
        (self.watch)(&self.told)
    }

    /// Writes the value of the entry before the next one of `level`: in place if it is short.
    fn value(&mut self, level: &mut Level, slot: &Slot) -> Result<()> {
        let load = self.load;
        match slot {
            Slot::Inline { length, bytes } => {
                self.put_entry(level, &bytes[..usize::from(*length)], None)
            }
            Slot::Value(bytes) => self.put_entry(level, bytes, None),
            // From where it was read, since it may be long.
            Slot::StoredValue(offset) => load.read_value(*offset, &mut |bytes, hash| {
                let hash = match hash {
                    None if bytes.len() >= VALUE_WORTH => Some(load.hash(*offset)?),
                    hash => hash.copied(),
                };
                self.put_entry(level, bytes, hash)
            }),
            _ => unreachable!("directories are entered"),
        }
    }

    fn put_entry(&mut self, level: &mut Level, bytes: &[u8], known: Option<Hash>) -> Result<()> {
        let Some(Body::Leaf { leaf, .. }) = level.node.as_ref().map(|node| &node.body) else {
            unreachable!("a branch leads to pieces of its directory")
        };
        let name = Some(leaf.name(level.next - 1));
        if bytes.len() <= INLINE {
            entry::put_name(&mut level.body, bytes.len() as u8, name);
            level.body.raw(bytes);
            return Ok(());
        }
        entry::put_name(&mut level.body, STACKED_VALUE, name);
        let weight = bytes.len().min(255) as u8;
        if bytes.len() < VALUE_WORTH {
            self.put_value(bytes)?;
        } else {
            let hash = known.unwrap_or_else(|| hash::value(bytes));
            if self.repeat(&hash)?.is_none() {
                self.put_value(bytes)?;
                self.repeats[slot_of(&hash)] = (hash, weight);
            }
        }
        level.take(weight);
        Ok(())
    }

    fn put_value(&mut self, bytes: &[u8]) -> Result<()> {
        let mut head = Encoder::new();
        head.u8(VALUE);
        head.varint(bytes.len() as u64);
        self.out.put([head.bytes(), bytes])?;
        self.push(VALUE)
    }

    /// Writes a repeat of the object with this hash if its slot has it, and returns what it weighs.
    fn repeat(&mut self, hash: &Hash) -> Result<Option<u8>> {
        let slot = slot_of(hash);
        let (there, weight) = self.repeats[slot];
        if weight == 0 || there != *hash {
            return Ok(None);
        }
        let slot = (slot as u32).to_le_bytes();
        self.out.put([&[REPEAT], &slot[..3]])?;
        self.push(REPEAT)?;
        Ok(Some(weight))
    }

    /// Begins with a directory or a piece of one, unless it is a repeat.
    fn enter(&mut self, slot: &Slot) -> Result<Entered> {
        let hash = match slot {
            Slot::StoredNode(offset) => Some(self.load.hash(*offset)?),
            Slot::Node(node) => Some(digest::node(node, Some(self.load))?),
            // One that refers to nothing weighs a byte more than its entries at most.
            Slot::Embedded(bytes)
                if entry::embedded_hash(bytes).is_none()
                    && entry::entries(bytes).len() < usize::from(NODE_WORTH) =>
            {
                None
            }
            Slot::Embedded(bytes) => Some(digest::embedded(bytes)?),
            _ => unreachable!("values are not entered"),
        };
        if let Some(hash) = &hash
            && let Some(weight) = self.repeat(hash)?
        {
            return Ok(Entered::Repeated(weight));
        }
        let node = match slot {
            Slot::StoredNode(offset) => self.load.node(*offset)?,
            Slot::Node(node) => Arc::clone(node),
            Slot::Embedded(bytes) => Arc::new(entry::embedded_node(bytes)?),
            _ => unreachable!("values are not entered"),
        };
        if node.width() == 0 {
            return Err(Error::invalid(
                "the commit has an empty directory, which no snapshot of a commit can hold",
            ));
        }
        let place = if let Slot::StoredNode(offset) = slot { Some(*offset) } else { None };
        Ok(Entered::Level(Level::new(node, place, hash)))
    }

    /// Writes the record of a piece of which everything below was written; returns what it weighs, and what the
    /// records on the longest path from it down take.
    fn leave(&mut self, level: &Level) -> Result<(u8, usize)> {
        let bytes = path_bytes(level.body.bytes().len(), level.below);
        expect_path(bytes)?;
        let tag = level.tag();
        self.out.put([&[tag], level.body.bytes()])?;
        self.waiting -= level.taken;
        self.push(tag)?;
        let weight = (level.body.bytes().len() + level.weight).min(255) as u8;
        if weight > NODE_WORTH {
            let hash = match level.hash {
                Some(hash) => hash,
                None => digest::node(level.node(), Some(self.load))?,
            };
            self.repeats[slot_of(&hash)] = (hash, weight);
        }
        Ok((weight, bytes))
    }

    fn push(&mut self, tag: u8) -> Result<()> {
        self.summary.count(tag);
        self.waiting += 1;
        if self.waiting <= WAITING_MAX {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "more than {WAITING_MAX} objects of the commit would wait for their parents, which no snapshot \
             of a commit can hold: its directories are too wide and too deep"
        )))
    }
}
