//! Reading a commit: a stack of objects that no parent has taken yet, and the table of repeats.
//!
//! Everything is checked as it comes: that a directory has the only shape it can have, and by the hash of
//! the commit that all of it is what was written. Nothing recurses.

use std::sync::Arc;

use super::frames::FrameReader;
use super::import_state::{ImportState, KeptObject, STATE_MAX};
use super::order::{self, Listed};
use super::path::AgreedPath;
use super::repeats::Repeats;
use super::{
    BRANCH, COMMIT, CommitFile, Destination, END, FLAT, LEAF, LEVEL_BYTES, NODE_WORTH, PATH_MAX,
    REPEAT, SAID_MAX, SLOTS, STACKED_DIRECTORY, STACKED_VALUE, VALUE, VALUE_WORTH, WAITING_MAX,
    Watch, commit_body, path_bytes, slot_of,
};
use crate::context::configuration::Configuration;
use crate::context::files::commit::Commit;
use crate::context::hash::{self, Hash, TreeHash};
use crate::context::pieces::node::{
    Body, Branch, INLINE, Known, Leaf, Load, Node, Pointer, Slot, Target, UNKNOWN,
};
use crate::context::pieces::{digest, entry};
use crate::context::tree::{NAME_MAX, VALUE_MAX};
use crate::error::Result;
use crate::format::codec::Decoder;

/// When what is live takes about so many bytes it is put somewhere, if not before.
const LIVE_MAX: u64 = 8 << 20;

/// Bytes of the stream between two states for each byte of a state.
const STATE_SHARE: usize = 4;

/// About what an object takes in memory beside its bytes, and an entry of it.
const OBJECT_BYTES: usize = 256;
const ENTRY_BYTES: usize = 96;

/// A record of any kind.
enum StreamRecord {
    Object(TakenRecord),
    Commit(Commit),
    End,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Value,
    /// A directory that is hashed flat.
    Flat,
    /// A leaf of a larger one, whose entries are so many.
    Leaf,
    /// A branch at a depth.
    Branch(u8),
}

/// An object that waits for its parent, or that may come again.
#[derive(Clone, Debug)]
struct Waiting {
    slot: Slot,
    /// Of a live one it may be left to the hashing of its parent.
    hash: Hash,
    shape: Shape,
    weight: u8,
    /// Entries of a piece of a directory.
    below: u32,
    /// What the records take on the longest path from it down; none where that came by a repeat, or before an import that
    /// was cut off.
    reach: u32,
    path: AgreedPath,
}

impl Waiting {
    /// What a state says of it.
    fn kept(&self) -> KeptObject {
        let (shape, depth) = match self.shape {
            Shape::Value => (VALUE, 0),
            Shape::Flat => (FLAT, 0),
            Shape::Leaf => (LEAF, 0),
            Shape::Branch(depth) => (BRANCH, depth),
        };
        let Waiting { weight, below, .. } = *self;
        let offset = offset_of(&self.slot);
        KeptObject { offset, shape, depth, weight, below, path: self.path.to_bits() }
    }

    /// The same back, of what is there; none when that is another kind.
    fn of(
        configuration: Configuration,
        kept: &KeptObject,
        is_value: bool,
        hash: Hash,
    ) -> Option<Waiting> {
        let shape = match kept.shape {
            VALUE => Shape::Value,
            FLAT => Shape::Flat,
            LEAF => Shape::Leaf,
            BRANCH => Shape::Branch(kept.depth),
            _ => return None,
        };
        if is_value != (shape == Shape::Value) {
            return None;
        }
        let slot =
            if is_value { Slot::StoredValue(kept.offset) } else { Slot::StoredNode(kept.offset) };
        let path = AgreedPath::from_bits(configuration, kept.path)?;
        let KeptObject { weight, below, .. } = *kept;
        Some(Waiting { slot, hash, shape, weight, below, reach: 0, path })
    }
}

/// What a state named, found in the pack.
struct FoundState {
    commits: Vec<(Slot, Commit)>,
    stack: Vec<Waiting>,
    table: Vec<(usize, Waiting)>,
}

/// The digest of a state: of its commits, and of the hashes of its objects.
fn digest_of(commits: &[(Slot, Commit)], hashes: &[u8]) -> Hash {
    let mut all: Vec<u8> = Vec::with_capacity(32 * commits.len() + hashes.len());
    for (_, info) in commits {
        all.extend_from_slice(info.hash.as_ref());
    }
    all.extend_from_slice(hashes);
    hash::hash(&all)
}

/// Where an object is that has a record.
fn offset_of(slot: &Slot) -> u64 {
    match slot {
        Slot::StoredNode(offset) | Slot::StoredValue(offset) => *offset,
        _ => unreachable!("each has a record"),
    }
}

/// A record of an object, taken from the stream.
enum TakenRecord {
    Value(Arc<[u8]>),
    Leaf(LeafItem),
    Branch { depth: u32, buckets: Vec<u16>, length: usize },
    Repeat(usize),
}

struct LeafItem {
    leaf: Leaf,
    /// The entries that take from the stack, and whether a directory.
    taken: Vec<(usize, bool)>,
    flat: bool,
    length: usize,
}

/// See the module.
pub(crate) struct Intake {
    configuration: Configuration,
    summary: CommitFile,
    stack: Vec<Waiting>,
    table: Repeats<Waiting>,
    /// The commits so far with their roots.
    commits: Vec<(Slot, Commit)>,
    /// Bytes of their texts and parents.
    said_bytes: usize,
    /// Slots of the table that have something live.
    live_slots: Vec<usize>,
    live_bytes: usize,
    live_max: usize,
    /// Bytes of the stream at the last state, and of that state.
    kept_at: u64,
    kept_bytes: usize,
}

/// Where nothing is kept: a file that is only verified.
pub(crate) struct Unplaced;

impl Destination for Unplaced {
    fn put(&mut self, stack: &[Slot], table: &[Slot], _: bool) -> Result<(Vec<Slot>, Vec<Slot>)> {
        let forget = |slots: &[Slot]| {
            let one = |slot: &Slot| {
                if slot.is_value() { Slot::StoredValue(1) } else { Slot::StoredNode(1) }
            };
            slots.iter().map(one).collect()
        };
        Ok((forget(stack), forget(table)))
    }

    fn keep(&mut self, _: &ImportState) -> Result<()> {
        Ok(())
    }

    fn keeps(&self) -> bool {
        false
    }
}

/// Whether it is in memory; with `each` also whether it has no record of its own.
fn is_live(slot: &Slot, each: bool) -> bool {
    matches!(slot, Slot::Node(_) | Slot::Value(_)) || each && matches!(slot, Slot::Embedded(_))
}

impl Intake {
    /// An intake of the file of `reader`, of which about `live_max` bytes may be in memory, or fewer.
    pub(crate) fn new(reader: &FrameReader, live_max: u64) -> Intake {
        let configuration = reader.configuration();
        Intake {
            configuration,
            summary: CommitFile::new(&reader.opening()),
            stack: Vec::new(),
            table: Repeats::new(),
            commits: Vec::new(),
            said_bytes: 0,
            live_slots: Vec::new(),
            live_bytes: 0,
            live_max: live_max.min(LIVE_MAX) as usize,
            kept_at: 0,
            kept_bytes: 0,
        }
    }

    /// Reads the whole file, and puts what does not fit into memory to `target`. Returns the commits, each
    /// with its root, parents first, and what the file holds. The hash of the last commit was verified, and
    /// it descends from all others.
    pub(crate) fn read(
        mut self,
        reader: &mut FrameReader,
        target: &mut dyn Destination,
        watch: Watch<'_>,
    ) -> Result<(Vec<(Slot, Commit)>, CommitFile)> {
        let configuration = self.configuration;
        let mut told = reader.progress();
        let path = reader.path().to_owned();
        loop {
            self.summary.stream_bytes = reader.stream();
            let summary = self.summary;
            let (offset, record) = reader.record(whole_length, |decoder| {
                let start = decoder.clone();
                let record = match decoder.u8()? {
                    COMMIT => StreamRecord::Commit(commit_body::take(decoder)?),
                    END => {
                        summary.expect(decoder)?;
                        StreamRecord::End
                    }
                    tag => StreamRecord::Object(take_item(decoder, configuration, tag, &start)?),
                };
                Ok((start.offset(), record))
            })?;
            if reader.progress() != told {
                told = reader.progress();
                watch(&told)?;
            }
            let place = Decoder::new(&path, offset, &[]);
            match record {
                StreamRecord::Object(item) => self.push(&place, item)?,
                StreamRecord::Commit(info) => self.commit(&place, info)?,
                StreamRecord::End => {
                    // What several commits share is written once.
                    if self.commits.len() > 1 {
                        self.put_live(target, false)?;
                    }
                    return self.finish(reader, &place);
                }
            }
            if let Some(at) = reader.between_frames().filter(|_| self.is_state_due(reader, target))
            {
                self.keep(at, reader, target)?;
            } else if self.live_bytes >= self.live_max {
                self.put_live(target, false)?;
            }
        }
    }

    /// Takes the root off the stack, which is empty then.
    fn commit(&mut self, place: &Decoder<'_>, mut info: Commit) -> Result<()> {
        if self.commits.len() as u64 >= self.summary.commits {
            let most = format_args!("{} commits", self.summary.commits).to_string();
            return Err(place.corrupt(most, "one more"));
        }
        self.said_bytes += commit_body::said_bytes(&info);
        if self.said_bytes > SAID_MAX {
            let most = format_args!("at most {SAID_MAX} bytes of texts and parents of commits");
            return Err(place.corrupt(most, "more"));
        }
        let root = self.stack.pop().filter(|_| self.stack.is_empty());
        let root = root.filter(|root| self.is_directory(root));
        let Some(mut root) = root else {
            return Err(place.corrupt("a root for the commit, and nothing else", "another stack"));
        };
        complete(&mut root)?;
        let Commit { date, author, message, parents, .. } = &info;
        let tree = TreeHash::new(root.hash);
        let commit = hash::commit(&tree, parents, *date, author, message);
        (info.hash, info.tree) = (commit, tree);
        self.commits.push((root.slot, info));
        Ok(())
    }

    /// Checks that all was read, and what the commits are.
    fn finish(
        mut self,
        reader: &FrameReader,
        place: &Decoder<'_>,
    ) -> Result<(Vec<(Slot, Commit)>, CommitFile)> {
        reader.finish()?;
        let said = &self.summary;
        let last = self.commits.last().map(|(_, info)| info.hash);
        if last != Some(said.commit) || !self.stack.is_empty() {
            return Err(place.corrupt(
                format_args!("commit {}", hash::to_text(&said.commit)),
                last.map_or("none".to_owned(), |last| {
                    format!("what hashes to {}", hash::to_text(&last))
                }),
            ));
        }
        if self.commits.len() as u64 != said.commits {
            return Err(place.corrupt(format_args!("{} commits", said.commits), self.commits.len()));
        }
        // Lent and not copied: a hostile file has many.
        let lend = |(_, info): &mut (Slot, Commit)| (info.hash, std::mem::take(&mut info.parents));
        let listed: Vec<Listed> = self.commits.iter_mut().map(lend).collect();
        if !order::order(&listed).is_some_and(|order| order.is_sorted()) {
            return Err(place
                .corrupt("commits in their order, from all of which the last descends", "others"));
        }
        for ((_, info), (_, parents)) in self.commits.iter_mut().zip(listed) {
            info.parents = parents;
        }
        let (bytes, hash) = reader.ends();
        let file = CommitFile { stream_bytes: reader.stream(), bytes, hash, ..self.summary };
        Ok((self.commits, file))
    }

    fn is_directory(&self, object: &Waiting) -> bool {
        let flat_limit = self.configuration.stable_hash();
        match object.shape {
            Shape::Flat => true,
            Shape::Leaf | Shape::Branch(0) => object.below as usize > flat_limit,
            Shape::Value | Shape::Branch(_) => false,
        }
    }

    /// Pops what a record takes, and pushes what it is.
    fn push(&mut self, place: &Decoder<'_>, item: TakenRecord) -> Result<()> {
        let (tag, mut object) = match item {
            TakenRecord::Repeat(slot) => {
                let Some(object) = self.table.get(slot) else {
                    return Err(place.corrupt("a repeat of what came before", "one of nothing"));
                };
                let object = Waiting { reach: 0, ..object.clone() };
                return self.wait(place, REPEAT, object);
            }
            TakenRecord::Value(value) => (VALUE, self.value(value)),
            TakenRecord::Leaf(item) => {
                let tag = if item.flat { FLAT } else { LEAF };
                (tag, self.leaf(place, item)?)
            }
            TakenRecord::Branch { depth, buckets, length } => {
                (BRANCH, self.branch(place, depth, &buckets, length)?)
            }
        };
        let is_worth_it = match object.shape {
            Shape::Value => usize::from(object.weight) >= VALUE_WORTH,
            _ => object.weight > NODE_WORTH,
        };
        if is_worth_it {
            complete(&mut object)?;
            let slot = slot_of(&object.hash);
            let before = self.table.put(slot, object.clone());
            if before.is_some_and(|before| before.hash == object.hash) {
                return Err(place.corrupt("a repeat of what its slot has", "all of it again"));
            }
            self.live_slots.push(slot);
        }
        self.wait(place, tag, object)
    }

    fn wait(&mut self, place: &Decoder<'_>, tag: u8, object: Waiting) -> Result<()> {
        self.summary.count(tag);
        if self.stack.len() >= WAITING_MAX {
            let most = format_args!("at most {WAITING_MAX} objects that wait").to_string();
            return Err(place.corrupt(most, "one more"));
        }
        self.stack.push(object);
        Ok(())
    }

    fn value(&mut self, value: Arc<[u8]>) -> Waiting {
        self.live_bytes += OBJECT_BYTES + value.len();
        let weight = value.len().min(255) as u8;
        let (shape, path) = (Shape::Value, AgreedPath::default());
        let slot = Slot::Value(value);
        Waiting { slot, hash: UNKNOWN, shape, weight, below: 0, reach: 0, path }
    }

    /// Takes the last `count` objects off the stack.
    fn pop(&mut self, place: &Decoder<'_>, count: usize) -> Result<Vec<Waiting>> {
        let Some(from) = self.stack.len().checked_sub(count) else {
            return Err(place.corrupt("as many objects as the record takes", self.stack.len()));
        };
        Ok(self.stack.split_off(from))
    }

    fn leaf(&mut self, place: &Decoder<'_>, item: LeafItem) -> Result<Waiting> {
        let LeafItem { mut leaf, taken, flat, length } = item;
        let most =
            if flat { self.configuration.stable_hash() } else { self.configuration.entries() };
        if leaf.len() == 0 || leaf.len() > most {
            return Err(place.corrupt(format_args!("1 to {most} entries"), leaf.len()));
        }
        let children = self.pop(place, taken.len())?;
        let mut hashes = if taken.is_empty() { Vec::new() } else { vec![UNKNOWN; leaf.len()] };
        let reach = reach(place, length, &children)?;
        let mut weight = length;
        for (child, (index, directory)) in children.into_iter().zip(taken) {
            let fits =
                if directory { self.is_directory(&child) } else { child.shape == Shape::Value };
            if !fits {
                return Err(place.corrupt("a child of the kind that its entry says", "another"));
            }
            weight += usize::from(child.weight);
            hashes[index] = child.hash;
            *leaf.slot_mut(index) = child.slot;
        }
        if hashes.iter().any(|hash| *hash != UNKNOWN) {
            leaf.hashes().put(Known::Own(hashes));
        }
        self.live_bytes += OBJECT_BYTES + leaf.names().len() + ENTRY_BYTES * leaf.len();
        let below = leaf.len() as u32;
        let (shape, path) = if flat {
            (Shape::Flat, AgreedPath::default())
        } else {
            (Shape::Leaf, AgreedPath::of(self.configuration, &leaf))
        };
        let slot = Slot::Node(Arc::new(Node::leaf(leaf, flat)));
        let weight = weight.min(255) as u8;
        Ok(Waiting { slot, hash: UNKNOWN, shape, weight, below, reach, path })
    }

    fn branch(
        &mut self,
        place: &Decoder<'_>,
        depth: u32,
        buckets: &[u16],
        length: usize,
    ) -> Result<Waiting> {
        let configuration = self.configuration;
        let children = self.pop(place, buckets.len())?;
        let reach = reach(place, length, &children)?;
        let (mut weight, mut below, mut path) = (length, 0_u32, None);
        let mut hashes = Vec::with_capacity(children.len());
        let mut pointers = Vec::with_capacity(children.len());
        for (child, bucket) in children.into_iter().zip(buckets) {
            let is_piece = match child.shape {
                Shape::Leaf => true,
                Shape::Branch(at) => u32::from(at) == depth + 1,
                Shape::Value | Shape::Flat => false,
            };
            let above = child.path.prefix(configuration, depth);
            let fits = child.path.at(configuration, depth) == Some(*bucket)
                && path.is_none_or(|path| above == Some(path));
            let sum = below.checked_add(child.below);
            let (Some(above), Some(sum), true) = (above, sum, is_piece && fits) else {
                return Err(place.corrupt("a piece that belongs into its bucket", "another"));
            };
            (path, below) = (Some(above), sum);
            weight += usize::from(child.weight);
            hashes.push(child.hash);
            let target = match child.slot {
                Slot::Node(node) => Target::Live(node),
                Slot::StoredNode(offset) => Target::Stored(offset),
                _ => return Err(place.corrupt("a piece that belongs into its bucket", "another")),
            };
            pointers.push(Pointer { bucket: *bucket, count: child.below, target });
        }
        let Some(path) = path.filter(|_| below as usize > configuration.entries()) else {
            return Err(place.corrupt("a branch of more entries than a leaf has", below));
        };
        self.live_bytes += OBJECT_BYTES + ENTRY_BYTES * pointers.len();
        let branch = Branch::new(depth, pointers);
        branch.hashes().put(Known::Own(hashes));
        let slot = Slot::Node(Arc::new(Node::new(Body::Branch(branch))));
        let (shape, weight) = (Shape::Branch(depth as u8), weight.min(255) as u8);
        Ok(Waiting { slot, hash: UNKNOWN, shape, weight, below, reach, path })
    }

    /// A state is written when what a kill would cost is worth some of its own bytes.
    fn is_state_due(&self, reader: &FrameReader, target: &dyn Destination) -> bool {
        let worth = (2 * self.live_max).max(STATE_SHARE * self.kept_bytes) as u64;
        target.keeps() && reader.stream() >= self.kept_at.saturating_add(worth)
    }

    /// Puts everything to `target`, and how far this is, which is where a frame ends.
    fn keep(
        &mut self,
        (frames, running): (u64, Hash),
        reader: &FrameReader,
        target: &mut dyn Destination,
    ) -> Result<()> {
        // One that is never read costs what is put for it, too.
        if self.state_bytes() as u64 > STATE_MAX / 2 {
            self.kept_at = reader.stream();
            return Ok(());
        }
        self.put_live(target, true)?;
        let state = self.state(frames, running, reader.stream());
        (self.kept_at, self.kept_bytes) = (state.stream, self.state_bytes());
        target.keep(&state)
    }

    fn state_bytes(&self) -> usize {
        let commits = self.commits.iter().map(|(_, commit)| commit);
        ImportState::bytes_of(self.stack.len() + self.table.len(), commits)
    }

    /// How far this is; every object is in the pack.
    fn state(&self, frames: u64, running: Hash, stream: u64) -> ImportState {
        let said = &self.summary;
        let mut hashes = Vec::new();
        let mut kept = |object: &Waiting| {
            hashes.extend_from_slice(&object.hash);
            object.kept()
        };
        let roots: Vec<(u64, Commit)> =
            self.commits.iter().map(|(root, info)| (offset_of(root), info.clone())).collect();
        let stack: Vec<KeptObject> = self.stack.iter().map(&mut kept).collect();
        let slots = self.table.slots();
        let table: Vec<(u32, KeptObject)> = slots
            .map(|slot| (slot as u32, kept(self.table.get(slot).expect("it has something"))))
            .collect();
        ImportState {
            commit: said.commit,
            commits: said.commits as u32,
            frames,
            running,
            stream,
            counts: [said.values, said.directories, said.leaves, said.branches, said.repeats],
            digest: digest_of(&self.commits, &hashes),
            roots,
            stack,
            table,
        }
    }

    /// Goes on from `state`, where `reader` is, if `load` has all that it names; false, and nothing is
    /// changed, when it has not, or has others there.
    pub(crate) fn resume(
        &mut self,
        reader: &mut FrameReader,
        state: &ImportState,
        load: &dyn Load,
    ) -> Result<bool> {
        let Some(found) = self.find(state, load)? else { return Ok(false) };
        if !reader.resume(state.frames, &state.running, state.stream)? {
            return Ok(false);
        }
        let FoundState { commits, stack, table } = found;
        self.said_bytes = commits.iter().map(|(_, info)| commit_body::said_bytes(info)).sum();
        (self.commits, self.stack) = (commits, stack);
        for (slot, object) in table {
            self.table.put(slot, object);
        }
        let said = &mut self.summary;
        [said.values, said.directories, said.leaves, said.branches, said.repeats] = state.counts;
        (self.kept_at, self.kept_bytes) = (state.stream, self.state_bytes());
        Ok(true)
    }

    /// What `state` names, with the hashes that are there.
    fn find(&self, state: &ImportState, load: &dyn Load) -> Result<Option<FoundState>> {
        let of_table = state.table.iter().map(|(_, object)| object);
        let mut places: Vec<u64> = state.roots.iter().map(|(root, _)| *root).collect();
        places.extend(state.stack.iter().chain(of_table).map(|object| object.offset));
        // In the order in which they are on the disk.
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|index| places[*index]);
        let mut looked = vec![(false, UNKNOWN); places.len()];
        for index in order {
            let Some(found) = load.look(places[index], None)? else { return Ok(None) };
            looked[index] = found;
        }
        let mut looked = looked.into_iter();
        let mut commits = Vec::with_capacity(state.roots.len());
        for ((root, info), (is_value, tree)) in state.roots.iter().zip(&mut looked) {
            let (mut info, tree) = (info.clone(), TreeHash::new(tree));
            let Commit { date, author, message, parents, .. } = &info;
            let commit = hash::commit(&tree, parents, *date, author, message);
            (info.hash, info.tree) = (commit, tree);
            if is_value {
                return Ok(None);
            }
            commits.push((Slot::StoredNode(*root), info));
        }
        let mut hashes = Vec::new();
        let mut waiting = |object: &KeptObject, looked: Option<(bool, Hash)>| {
            let (is_value, hash) = looked.expect("one for each object");
            hashes.extend_from_slice(&hash);
            Waiting::of(self.configuration, object, is_value, hash)
        };
        let stack = state.stack.iter().map(|object| waiting(object, looked.next()));
        let stack: Option<Vec<Waiting>> = stack.collect();
        let table = state.table.iter();
        let table =
            table.map(|(slot, object)| Some((*slot as usize, waiting(object, looked.next())?)));
        let table: Option<Vec<(usize, Waiting)>> = table.collect();
        let (Some(stack), Some(table)) = (stack, table) else { return Ok(None) };
        let is_same = digest_of(&commits, &hashes) == state.digest;
        Ok(is_same.then_some(FoundState { commits, stack, table }))
    }

    /// Puts everything live to `target`; with `each`, so that each object of stack and table has a record.
    fn put_live(&mut self, target: &mut dyn Destination, each: bool) -> Result<()> {
        let mut table: Vec<usize> = std::mem::take(&mut self.live_slots);
        if each {
            table = self.table.slots().collect();
            let is_in_place = |slot: &usize| {
                self.table.get(*slot).is_some_and(|object| is_live(&object.slot, true))
            };
            table.retain(is_in_place);
        }
        let mut stack = Vec::new();
        for (index, object) in self.stack.iter_mut().enumerate() {
            if is_live(&object.slot, each) {
                complete(object)?;
                stack.push(index);
            }
        }
        let roots: Vec<usize> = (0..self.commits.len())
            .filter(|index| is_live(&self.commits[*index].0, each))
            .collect();
        let of_stack = stack.iter().map(|index| self.stack[*index].slot.clone());
        let of_roots = roots.iter().map(|index| self.commits[*index].0.clone());
        let on_top: Vec<Slot> = of_stack.chain(of_roots).collect();
        let of_table = |slot: &usize| self.table.get(*slot).map(|object| object.slot.clone());
        let of_table: Vec<Slot> = table.iter().filter_map(of_table).collect();
        let (on_top, of_table) = target.put(&on_top, &of_table, each)?;
        let mut on_top = on_top.into_iter();
        for (index, slot) in stack.into_iter().zip(&mut on_top) {
            self.stack[index].slot = slot;
        }
        for (index, slot) in roots.into_iter().zip(on_top) {
            self.commits[index].0 = slot;
        }
        self.live_bytes = 0;
        for (number, slot) in table.into_iter().zip(of_table) {
            if is_live(&slot, false) {
                self.live_slots.push(number);
            }
            if let Some(object) = self.table.get_mut(number) {
                object.slot = slot;
            }
        }
        Ok(())
    }
}

/// What the records take on the longest path down from one with a body of `length` bytes over `children`. `Corrupt` when
/// an export could not write that.
fn reach(place: &Decoder<'_>, length: usize, children: &[Waiting]) -> Result<u32> {
    let below = children.iter().map(|child| child.reach).max().unwrap_or(0);
    let bytes = path_bytes(length, below as usize);
    if bytes > PATH_MAX {
        let most = format_args!(
            "at most {PATH_MAX} bytes of records on one path, each with {LEVEL_BYTES} more than it has"
        );
        return Err(place.corrupt(most, bytes));
    }
    Ok(bytes as u32)
}

/// Hashes an object that is not yet.
fn complete(object: &mut Waiting) -> Result<()> {
    if object.hash == UNKNOWN {
        object.hash = match &object.slot {
            Slot::Node(node) => digest::node(node, None)?,
            Slot::Value(value) => hash::value(value),
            _ => unreachable!("what is not live has its hash"),
        };
    }
    Ok(())
}

/// How many bytes the record has that begins so, where it is a value.
fn whole_length(bytes: &[u8]) -> Option<usize> {
    let (tag, rest) = bytes.split_first()?;
    let mut decoder = Decoder::new("", 0, rest);
    let length = decoder.varint().ok().filter(|_| *tag == VALUE)?;
    let head = bytes.len() - decoder.remaining();
    Some(usize::try_from(length).unwrap_or(usize::MAX).saturating_add(head))
}

fn take_item(
    decoder: &mut Decoder<'_>,
    configuration: Configuration,
    tag: u8,
    start: &Decoder<'_>,
) -> Result<TakenRecord> {
    match tag {
        VALUE => {
            let length = decoder.clone().varint()?;
            if length <= INLINE as u64 || length > VALUE_MAX as u64 {
                let range = format!("a value of {} to {VALUE_MAX} bytes", INLINE + 1);
                return Err(start.corrupt(range, length));
            }
            Ok(TakenRecord::Value(decoder.bytes_with_length()?.into()))
        }
        FLAT | LEAF => take_leaf(decoder, configuration, tag == FLAT).map(TakenRecord::Leaf),
        BRANCH => take_branch(decoder, configuration),
        REPEAT => {
            let bytes = decoder.raw(3)?;
            let slot =
                usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16;
            if slot >= SLOTS {
                return Err(start.corrupt(format_args!("a slot below {SLOTS}"), slot));
            }
            Ok(TakenRecord::Repeat(slot))
        }
        other => Err(start.corrupt("a known kind of record", other)),
    }
}

fn take_leaf(
    decoder: &mut Decoder<'_>,
    configuration: Configuration,
    flat: bool,
) -> Result<LeafItem> {
    let start = decoder.clone();
    let most = if flat { configuration.stable_hash() } else { configuration.entries() };
    let count = decoder.count(1)?;
    if count > most {
        return Err(start.corrupt(format_args!("at most {most} entries"), count));
    }
    let mut leaf = Leaf::with_capacity(count, 0);
    let mut taken = Vec::new();
    for index in 0..count {
        let entry = decoder.clone();
        let before = leaf.names().len();
        let in_order = leaf.push_with(|names| {
            let what = entry::take_only_name(decoder, names)?;
            if names.len() - before > NAME_MAX {
                return Err(entry
                    .corrupt(format_args!("a name of at most {NAME_MAX} bytes"), "a longer one"));
            }
            match what {
                STACKED_VALUE | STACKED_DIRECTORY => {
                    taken.push((index, what == STACKED_DIRECTORY));
                    Ok(Slot::StoredValue(0))
                }
                length if usize::from(length) <= INLINE => {
                    Ok(Slot::value(decoder.raw(usize::from(length))?))
                }
                other => Err(entry.corrupt("a known kind of entry", other)),
            }
        })?;
        if !in_order {
            return Err(entry.corrupt("names in order", "a name out of order"));
        }
    }
    let length = start.remaining() - decoder.remaining();
    Ok(LeafItem { leaf, taken, flat, length })
}

fn take_branch(decoder: &mut Decoder<'_>, configuration: Configuration) -> Result<TakenRecord> {
    let start = decoder.clone();
    let (depth, limit) = (decoder.varint()?, configuration.depth_limit());
    let Some(depth) = u32::try_from(depth).ok().filter(|depth| *depth < limit) else {
        return Err(start.corrupt(format_args!("a depth below {limit}"), depth));
    };
    let count = decoder.count(1)?;
    let mut buckets: Vec<u16> = Vec::with_capacity(count.min(configuration.entries()));
    for _ in 0..count {
        let at = decoder.clone();
        let bucket = decoder.varint()?;
        let above = buckets.last().is_none_or(|last| u64::from(*last) < bucket);
        if !above || bucket >= configuration.entries() as u64 {
            return Err(at.corrupt("buckets in order", bucket));
        }
        buckets.push(bucket as u16);
    }
    Ok(TakenRecord::Branch { depth, buckets, length: start.remaining() - decoder.remaining() })
}
