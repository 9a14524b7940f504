//! Operations on one directory, whatever the pieces it is cut into.
//!
//! The cut depends only on the set of entries: up to the flat limit one leaf; above, leaves of at
//! most `entries` and branches. Every change is made in two steps: load what it needs, which may
//! fail and changes nothing that can be seen, then apply it, which cannot fail.

use std::sync::Arc;

use super::entry;
use super::node::{Body, Branch, Leaf, Load, Node, Pointer, Scan, Slot, Target};
use crate::context::configuration::{Bucket, Configuration};
use crate::context::observer::Tally;
use crate::error::{Error, Kind, Result};
use crate::order;

/// How directories are cut, and where stored pieces come from.
#[derive(Clone, Copy)]
pub(crate) struct Directories<'a> {
    pub(crate) configuration: Configuration,
    pub(crate) load: Option<&'a dyn Load>,
    /// What the operation counts by itself, if it does.
    pub(crate) tally: Option<&'a Tally>,
}

/// An entry on its way from one leaf to another.
type LeafEntry = (Vec<u8>, Slot);

/// Where a step leads.
pub(crate) enum Passed<'n> {
    /// To a directory that is live.
    Live(&'n Arc<Node>),
    /// What [`Directories::find_path`] says.
    Slot(Option<(usize, Slot)>),
}

/// What [`Directories::find_path`] says of the directory, or piece of one, that is `leaf`.
pub(crate) fn find_in(leaf: &Leaf, path: &[&[u8]]) -> Result<Option<(usize, Slot)>> {
    let Ok(index) = leaf.search(path[0]) else { return Ok(None) };
    found_at(leaf.slot(index), path).map(Some)
}

/// The same of the first step's slot.
fn found_at(slot: &Slot, path: &[&[u8]]) -> Result<(usize, Slot)> {
    if let Slot::Embedded(bytes) = slot
        && let Some((taken, inner)) = entry::find_embedded(bytes, &path[1..])?
    {
        return Ok((1 + taken, inner));
    }
    Ok((1, slot.apart()))
}

impl Directories<'_> {
    /// The node, to change it; what is copied for that is told.
    #[inline]
    fn edit<'n>(&self, node: &'n mut Arc<Node>) -> &'n mut Node {
        let is_shared = Arc::strong_count(node) > 1;
        let node = Node::edit(node);
        if is_shared {
            self.copied(node);
        }
        node
    }

    /// Tells that a change made `node` of what was live. The package for JavaScript has nobody who asks.
    #[cfg_attr(varvite_js, inline(always))]
    #[cfg_attr(not(varvite_js), inline(never))]
    fn copied(&self, node: &Node) {
        if cfg!(varvite_js) {
            return;
        }
        if let Some(load) = self.load {
            load.note_copied(node.bytes() as u64 + node.bytes_to_come());
        }
    }

    /// A directory of one entry.
    pub(crate) fn single(&self, name: &[u8], slot: Slot) -> Slot {
        if self.load.is_some_and(Load::embeds)
            && self.configuration.stable_hash() >= 1
            && let Some(bytes) = entry::single(name, &slot)
        {
            return Slot::Embedded(bytes);
        }
        let mut leaf = Leaf::with_capacity(1, name.len());
        leaf.push(name, slot);
        let node = Node::leaf(leaf, self.configuration.stable_hash() >= 1);
        self.copied(&node);
        Slot::Node(Arc::new(node))
    }

    /// The node at `offset`.
    pub(crate) fn stored(&self, offset: u64) -> Result<Arc<Node>> {
        self.load.expect("a stored child is only reached through its pack").node(offset)
    }

    /// The node at `offset`, to be changed.
    pub(crate) fn taken(&self, offset: u64) -> Result<Arc<Node>> {
        self.load.expect("a stored child is only reached through its pack").take(offset, self.tally)
    }

    /// What [`Directories::find_path`] says of the directory at `offset`.
    pub(crate) fn find_stored(&self, offset: u64, path: &[&[u8]]) -> Result<Option<(usize, Slot)>> {
        let mut bucket = Bucket::new(self.configuration, path[0]);
        self.find_from(offset, path, &mut bucket)
    }

    fn scan(&self, offset: u64, path: &[&[u8]], bucket: &mut Bucket<'_>) -> Result<Scan> {
        self.load
            .expect("a stored child is only reached through its pack")
            .scan(offset, path, bucket, self.tally)
    }

    /// What a pointer of `branch` leads to. `Corrupt` when that is no part of the directory: what recurses counts on it.
    pub(crate) fn below(&self, branch: &Branch, pointer: &Pointer) -> Result<Arc<Node>> {
        match &pointer.target {
            Target::Live(node) => Ok(Arc::clone(node)),
            Target::Stored(offset) => {
                let node = self.stored(*offset)?;
                branch.expect_part(&node)?;
                pointer.expect_count(node.count())?;
                Ok(node)
            }
        }
    }

    /// What `name` leads to.
    pub(crate) fn find(&self, root: &Arc<Node>, name: &[u8]) -> Result<Option<Slot>> {
        Ok(self.find_path(root, &[name])?.map(|(_, slot)| slot))
    }

    /// Where the first steps of `path` lead, and how many: one, and as many as lead through directories
    /// that are in place there. None when the first leads nowhere. A path has a step.
    pub(crate) fn find_path(&self, root: &Node, path: &[&[u8]]) -> Result<Option<(usize, Slot)>> {
        match self.pass(root, path)? {
            Passed::Live(node) => Ok(Some((1, Slot::Node(Arc::clone(node))))),
            Passed::Slot(found) => Ok(found),
        }
    }

    /// The same, which counts no reference to what is live.
    pub(crate) fn pass<'n>(&self, root: &'n Node, path: &[&[u8]]) -> Result<Passed<'n>> {
        let mut bucket = Bucket::new(self.configuration, path[0]);
        let mut node = root;
        let offset = loop {
            match &node.body {
                Body::Leaf { leaf, .. } => {
                    let Ok(index) = leaf.search(path[0]) else { return Ok(Passed::Slot(None)) };
                    return match leaf.slot(index) {
                        Slot::Node(next) => Ok(Passed::Live(next)),
                        slot => found_at(slot, path).map(Some).map(Passed::Slot),
                    };
                }
                Body::Branch(branch) => match branch.search(bucket.at(branch.depth)) {
                    Ok(index) => match &branch.pointers[index].target {
                        Target::Live(next) => node = next,
                        Target::Stored(offset) => break *offset,
                    },
                    Err(_) => return Ok(Passed::Slot(None)),
                },
            }
        };
        self.find_from(offset, path, &mut bucket).map(Passed::Slot)
    }

    /// The same of the directory, or piece of one, at `offset`; `bucket` is of the first step.
    fn find_from(
        &self,
        mut offset: u64,
        path: &[&[u8]],
        bucket: &mut Bucket<'_>,
    ) -> Result<Option<(usize, Slot)>> {
        loop {
            let node = match self.scan(offset, path, bucket)? {
                Scan::Slot(found) => return Ok(found),
                Scan::Piece(next) => {
                    offset = next;
                    continue;
                }
                Scan::Node(node) => node,
            };
            match &node.body {
                Body::Leaf { leaf, .. } => return find_in(leaf, path),
                Body::Branch(branch) => match branch.search(bucket.at(branch.depth)) {
                    Ok(index) => match &branch.pointers[index].target {
                        Target::Stored(next) => offset = *next,
                        // Recursion is bounded, because each branch is deeper than the one above.
                        Target::Live(next) => return self.find_path(next, path),
                    },
                    Err(_) => return Ok(None),
                },
            }
        }
    }

    /// The slot of `name`, which must be there, to change what is in it.
    pub(crate) fn slot_mut<'n>(
        &self,
        root: &'n mut Arc<Node>,
        name: &[u8],
    ) -> Result<&'n mut Slot> {
        let mut bucket = Bucket::new(self.configuration, name);
        let mut node = root;
        loop {
            match &mut self.edit(node).body {
                Body::Leaf { leaf, .. } => {
                    let index = leaf.search(name).expect("the entry was found before");
                    return Ok(leaf.slot_mut(index));
                }
                Body::Branch(branch) => {
                    let index =
                        branch.search(bucket.at(branch.depth)).expect("the entry was found before");
                    node = self.thaw(branch, index)?;
                }
            }
        }
    }

    /// Makes what a pointer leads to live, and returns it.
    fn thaw<'n>(&self, branch: &'n mut Branch, index: usize) -> Result<&'n mut Arc<Node>> {
        if let Target::Stored(offset) = branch.pointers[index].target {
            let node = self.taken(offset)?;
            branch.expect_part(&node)?;
            branch.learn(index, node.count())?;
            branch.pointers[index].target = Target::Live(node);
        }
        match &mut branch.pointer_mut(index).target {
            Target::Live(node) => Ok(node),
            Target::Stored(_) => unreachable!("it was just made live"),
        }
    }

    /// Makes the pieces on the way to `name` live.
    fn thaw_path(&self, root: &mut Arc<Node>, name: &[u8]) -> Result<()> {
        let mut bucket = Bucket::new(self.configuration, name);
        let mut node = root;
        loop {
            if matches!(node.body, Body::Leaf { .. }) {
                return Ok(());
            }
            let Body::Branch(branch) = &mut self.edit(node).body else { unreachable!() };
            let Ok(index) = branch.search(bucket.at(branch.depth)) else { return Ok(()) };
            node = self.thaw(branch, index)?;
        }
    }

    /// Binds `name`, which must not be there. `Invalid` when names were chosen to fall into one
    /// bucket at every depth that the configuration allows.
    pub(crate) fn insert(&self, root: &mut Arc<Node>, name: &[u8], slot: Slot) -> Result<()> {
        self.thaw_path(root, name)?;
        let mut split = self.split_for(root, name, &slot)?;
        let mut bucket = Bucket::new(self.configuration, name);
        let flat_limit = self.configuration.stable_hash();
        let late = self.settles_late();
        let mut node = root;
        loop {
            if matches!(node.body, Body::Leaf { .. })
                && let Some(split) = split.take()
            {
                *node = split;
                return Ok(());
            }
            match &mut self.edit(node).body {
                Body::Leaf { leaf, flat } => {
                    let index = leaf.search(name).expect_err("the entry is new");
                    leaf.insert(index, name, slot);
                    // Only a whole directory is flat, or becomes more than flat when it grows.
                    *flat = *flat && leaf.len() <= flat_limit;
                    return Ok(());
                }
                Body::Branch(branch) => {
                    if late {
                        branch.note(name, true);
                    }
                    let number = bucket.at(branch.depth);
                    match branch.search(number) {
                        Ok(index) => {
                            let pointer = branch.pointer_mut(index);
                            pointer.count += 1;
                            let Target::Live(next) = &mut pointer.target else {
                                unreachable!("the path was made live")
                            };
                            node = next;
                        }
                        Err(index) => {
                            let mut leaf = Leaf::with_capacity(1, name.len());
                            leaf.push(name, slot);
                            let node = Node::leaf(leaf, false);
                            self.copied(&node);
                            let target = Target::Live(Arc::new(node));
                            branch.insert(index, Pointer { bucket: number, count: 1, target });
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// What must take the place of the leaf where `name` goes, if it is full.
    fn split_for(&self, root: &Arc<Node>, name: &[u8], slot: &Slot) -> Result<Option<Arc<Node>>> {
        let mut bucket = Bucket::new(self.configuration, name);
        let mut node = Arc::clone(root);
        let mut depth = 0;
        loop {
            let next = match &node.body {
                Body::Leaf { leaf, .. } => {
                    let entries = self.configuration.entries();
                    let room = if depth == 0 {
                        entries.max(self.configuration.stable_hash())
                    } else {
                        entries
                    };
                    if leaf.len() < room {
                        return Ok(None);
                    }
                    let mut items: Vec<(&[u8], &Slot)> =
                        (0..leaf.len()).map(|index| (leaf.name(index), leaf.slot(index))).collect();
                    let at = leaf.search(name).expect_err("the entry is new");
                    items.insert(at, (name, slot));
                    return self.part(depth, &items).map(Some);
                }
                Body::Branch(branch) => match branch.search(bucket.at(branch.depth)) {
                    Ok(index) => {
                        let pointer = &branch.pointers[index];
                        if pointer.count == u32::MAX {
                            return Err(Error::invalid(format!(
                                "a bucket of the directory has {} entries, and no more fit: use another directory",
                                u32::MAX
                            )));
                        }
                        depth = branch.depth + 1;
                        self.below(branch, pointer)?
                    }
                    Err(_) => return Ok(None),
                },
            };
            node = next;
        }
    }

    /// The piece at `depth` that holds `items`, which are sorted. Recursion ends at the depth limit.
    fn part(&self, depth: u32, items: &[(&[u8], &Slot)]) -> Result<Arc<Node>> {
        if items.len() <= self.configuration.entries() {
            let names = items.iter().map(|(name, _)| name.len()).sum();
            let mut leaf = Leaf::with_capacity(items.len(), names);
            for (name, slot) in items {
                leaf.push(name, (*slot).clone());
            }
            let node = Node::leaf(leaf, false);
            self.copied(&node);
            return Ok(Arc::new(node));
        }
        let limit = self.configuration.depth_limit();
        if depth >= limit {
            return Err(Error::new(
                Kind::Invalid,
                format!(
                    "{} names of one directory fall into the same bucket at each of {limit} depths, \
                     which the hash configuration cannot represent: choose another name",
                    items.len()
                ),
            ));
        }
        let mut keyed: Vec<(u16, (&[u8], &Slot))> = items
            .iter()
            .map(|item| (Bucket::new(self.configuration, item.0).at(depth), *item))
            .collect();
        // Names stay sorted within a bucket.
        order::sort_by(&mut keyed, |a, b| (a.0, a.1.0).cmp(&(b.0, b.1.0)));
        let mut pointers = Vec::new();
        for group in keyed.chunk_by(|a, b| a.0 == b.0) {
            let items: Vec<_> = group.iter().map(|(_, item)| *item).collect();
            let target = Target::Live(self.part(depth + 1, &items)?);
            pointers.push(Pointer { bucket: group[0].0, count: items.len() as u32, target });
        }
        let node = Node::new(Body::Branch(Branch::new(depth, pointers)));
        self.copied(&node);
        Ok(Arc::new(node))
    }

    /// Removes `name`, which must be there.
    pub(crate) fn remove(&self, root: &mut Arc<Node>, name: &[u8]) -> Result<()> {
        self.thaw_path(root, name)?;
        let late = self.settles_late();
        let (mut above, merged) = if late { (0, None) } else { self.merge_for(root, name)? };
        let mut bucket = Bucket::new(self.configuration, name);
        let flat_limit = self.configuration.stable_hash();
        let mut is_root = true;
        let mut node = root;
        loop {
            if above == 0
                && let Some(merged) = merged
            {
                self.copied(&merged);
                *node = merged;
                return Ok(());
            }
            above = above.wrapping_sub(1);
            match &mut self.edit(node).body {
                Body::Leaf { leaf, flat } => {
                    let index = leaf.search(name).expect("the entry was found before");
                    leaf.remove(index);
                    *flat = is_root && leaf.len() <= flat_limit;
                    return Ok(());
                }
                Body::Branch(branch) => {
                    if late {
                        branch.note(name, false);
                    }
                    let index =
                        branch.search(bucket.at(branch.depth)).expect("the entry was found before");
                    if branch.pointers[index].count == 1 {
                        branch.remove(index);
                        return Ok(());
                    }
                    let pointer = branch.pointer_mut(index);
                    pointer.count -= 1;
                    let Target::Live(next) = &mut pointer.target else {
                        unreachable!("the path was made live")
                    };
                    node = next;
                    is_root = false;
                }
            }
        }
    }

    /// The leaf that a branch on the way to `name` turns into when `name` goes, and how many pieces
    /// are above it.
    fn merge_for(&self, root: &Arc<Node>, name: &[u8]) -> Result<(usize, Option<Arc<Node>>)> {
        let mut bucket = Bucket::new(self.configuration, name);
        let (entries, flat_limit) =
            (self.configuration.entries() as u64, self.configuration.stable_hash() as u64);
        let mut node = Arc::clone(root);
        let mut above = 0;
        loop {
            let Body::Branch(branch) = &node.body else { return Ok((0, None)) };
            let rest = branch.count() - 1;
            let flat = above == 0 && rest <= flat_limit;
            if flat || rest <= entries {
                let leaf = self.merged(&node, Some(name))?;
                return Ok((above, Some(Arc::new(Node::leaf(leaf, flat)))));
            }
            let index = branch.search(bucket.at(branch.depth)).expect("the entry was found before");
            let next = self.below(branch, &branch.pointers[index])?;
            node = next;
            above += 1;
        }
    }

    /// Every entry below `node` in one leaf, but for `without`.
    fn merged(&self, node: &Arc<Node>, without: Option<&[u8]>) -> Result<Leaf> {
        let mut items = Vec::with_capacity(node.count() as usize);
        self.gather(node, &mut items)?;
        items.retain(|(item, _)| Some(&item[..]) != without);
        order::sort_by(&mut items, |a, b| a.0.cmp(&b.0));
        let names = items.iter().map(|(name, _)| name.len()).sum();
        let mut leaf = Leaf::with_capacity(items.len(), names);
        for (name, slot) in items {
            leaf.push(&name, slot);
        }
        Ok(leaf)
    }

    /// Whether directories may be cut otherwise than by their size until [`settle`](Self::settle).
    pub(crate) fn settles_late(&self) -> bool {
        self.load.is_some_and(Load::settles_late)
    }

    /// Cuts every directory of `slot` by its size.
    ///
    /// Looks at what Irmin looks at, whose changes wait for this moment and happen by name: all of a
    /// branch that has few enough entries for one leaf at the departure of one.
    pub(crate) fn settle(&self, slot: &mut Slot) -> Result<()> {
        let Slot::Node(root) = slot else { return Ok(()) };
        let mut stack = vec![root];
        let entries = self.configuration.entries() as u64;
        while let Some(node) = stack.pop() {
            // What has a hash was settled since.
            if node.hash.get().is_some() {
                continue;
            }
            if let Body::Branch(branch) = &node.body {
                let count = branch.count();
                let flat = branch.depth == 0 && count <= self.configuration.stable_hash() as u64;
                let fewest = branch.fewest().unwrap_or(count).min(count);
                if flat {
                    *node = Arc::new(Node::leaf(self.merged(node, None)?, true));
                } else if fewest <= entries {
                    let leaf = self.merged(node, None)?;
                    let items: Vec<(&[u8], &Slot)> =
                        (0..leaf.len()).map(|index| (leaf.name(index), leaf.slot(index))).collect();
                    *node = self.part(branch.depth, &items)?;
                }
            }
            let node = Node::edit(node);
            if let Body::Branch(branch) = &mut node.body {
                branch.settled();
            }
            stack.extend(node.live_mut());
        }
        Ok(())
    }

    /// Every entry below `node`, in stored order. Recursion is bounded, because each branch is deeper than the one above.
    pub(crate) fn gather(&self, node: &Arc<Node>, out: &mut Vec<LeafEntry>) -> Result<()> {
        self.page(node, &mut 0, &mut u64::MAX.clone(), out)
    }

    /// Skips `skip` entries and appends up to `left` of those that follow, in stored order; whole
    /// pieces are skipped by their counts.
    pub(crate) fn page(
        &self,
        node: &Arc<Node>,
        skip: &mut u64,
        left: &mut u64,
        out: &mut Vec<LeafEntry>,
    ) -> Result<()> {
        match &node.body {
            Body::Leaf { leaf, .. } => {
                let start = (*skip).min(leaf.len() as u64);
                *skip -= start;
                let count = (leaf.len() as u64 - start).min(*left);
                *left -= count;
                for index in start as usize..(start + count) as usize {
                    out.push((leaf.name(index).to_vec(), leaf.slot(index).apart()));
                }
            }
            Body::Branch(branch) => {
                for pointer in &branch.pointers {
                    if *left == 0 {
                        break;
                    }
                    if pointer.count != 0 && u64::from(pointer.count) <= *skip {
                        *skip -= u64::from(pointer.count);
                        continue;
                    }
                    self.page(&self.below(branch, pointer)?, skip, left, out)?;
                }
            }
        }
        Ok(())
    }
}
