//! Trees of another handle, made trees of this one.
//!
//! Two handles of one store know the same logical offsets, as long as neither was cleared; a copy of
//! its folder that went another way knows the older ones. So of each stored piece this handle is asked:
//! a record of the same kind and hash at the same offset has the same content, whatever lies around it.
//! Only pieces of which it has none are copied, and what is below them is asked about in turn.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Order, Tree, made};
use crate::context::hash::Hash;
use crate::context::pieces::entry;
use crate::context::pieces::node::{Embedded, Load, Node, Slot};
use crate::error::Result;

/// A node on its way, of which the children before `next` are done.
struct Frame {
    /// The node that it is a copy of: its offset, or its address.
    of: Of,
    node: Node,
    next: usize,
}

/// What a node is found again by: a small directory by its bytes. Addresses are those of nodes that the tree keeps.
#[derive(PartialEq, Eq, Hash)]
enum Of {
    Stored(u64),
    Live(*const Node),
    Embedded(Embedded),
}

/// What becomes of a slot.
enum Step {
    Done(Slot),
    Copy(Box<Frame>),
}

struct Adoption<'a> {
    from: &'a dyn Load,
    to: &'a dyn Load,
    /// What was copied, for places that share it.
    copied: HashMap<Of, Arc<Node>>,
    /// Memory of what was read to be copied, and of all copies.
    bytes: u64,
    made_bytes: u64,
}

impl Tree {
    /// The same content as a tree of `load`. What `load` has at the same places is referred to, and the
    /// rest is copied; all is where the two are not of one store.
    pub(crate) fn taken_over(&self, load: &Arc<dyn Load>) -> Result<Tree> {
        if let Some(from) = &self.load
            && from.origin().is_some()
            && from.origin() == load.origin()
        {
            let (from, to, copied) = (&**from, &**load, HashMap::new());
            let mut adoption = Adoption { from, to, copied, bytes: 0, made_bytes: 0 };
            if let Some(root) = adoption.adopt(&self.root)? {
                let live_bytes = self.live_bytes.saturating_add(adoption.bytes);
                let made_bytes = made(self.made_bytes, adoption.made_bytes);
                let load = Some(Arc::clone(load));
                let taken = Tree::of(self.configuration, load, root);
                return Ok(Tree { live_bytes, made_bytes, ..taken });
            }
        }
        let mut copy = self.copied(Arc::clone(load))?;
        copy.made_bytes = made(copy.made_bytes, self.made_bytes);
        Ok(copy)
    }

    /// The same content as a tree of `load`, to which it spills. Reads all of it.
    fn copied(&self, load: Arc<dyn Load>) -> Result<Tree> {
        if let Some(value) = self.to_value()? {
            return Ok(Tree::of_value(self.configuration, &value));
        }
        let mut copy = Tree { load: Some(load), ..Tree::empty(self.configuration) };
        self.fold::<&[u8]>(&[], None, Order::Undefined, |path, tree| match tree.to_value()? {
            Some(value) => copy.add(path, &value),
            None => Ok(()),
        })?;
        Ok(copy)
    }
}

impl Adoption<'_> {
    /// The slot as one of `to`; none when more has to be copied than a working tree may hold.
    fn adopt(&mut self, root: &Slot) -> Result<Option<Slot>> {
        let mut stack = match self.step(root)? {
            Step::Done(slot) => return Ok(Some(slot)),
            Step::Copy(frame) => vec![*frame],
        };
        while let Some(top) = stack.last_mut() {
            if self.bytes > self.to.budget() {
                return Ok(None);
            }
            if top.next < top.node.width() {
                match self.step(&top.node.child(top.next))? {
                    Step::Done(slot) => {
                        top.node.put_child(top.next, slot);
                        top.next += 1;
                    }
                    Step::Copy(frame) => stack.push(*frame),
                }
                continue;
            }
            let Frame { of, node, .. } = stack.pop().expect("the loop saw it");
            self.made_bytes = made(self.made_bytes, node.bytes() as u64 + node.bytes_to_come());
            let node = Arc::new(node);
            if stack.is_empty() {
                return Ok(Some(Slot::Node(node)));
            }
            // The place that it is for is looked at again, and finds it here.
            self.copied.insert(of, node);
        }
        unreachable!("the last frame returns")
    }

    fn step(&mut self, slot: &Slot) -> Result<Step> {
        Ok(match slot {
            Slot::Inline { .. } | Slot::Value(_) => Step::Done(slot.clone()),
            Slot::StoredValue(offset) => {
                if self.is_there(*offset, true)? {
                    return Ok(Step::Done(slot.clone()));
                }
                let value = self.from.value(*offset)?;
                self.bytes += value.len() as u64;
                self.made_bytes = made(self.made_bytes, value.len() as u64 + 16);
                Step::Done(Slot::Value(value))
            }
            Slot::StoredNode(offset) => {
                let of = Of::Stored(*offset);
                if let Some(node) = self.copied.get(&of) {
                    return Ok(Step::Done(Slot::Node(Arc::clone(node))));
                }
                if self.is_there(*offset, false)? {
                    return Ok(Step::Done(slot.clone()));
                }
                let node = self.from.node(*offset)?.anew();
                self.bytes += node.bytes() as u64;
                Step::Copy(Box::new(Frame { of, node, next: 0 }))
            }
            Slot::Embedded(bytes) => {
                if entry::embedded_hash(bytes).is_none() {
                    // It refers to nothing.
                    return Ok(Step::Done(slot.clone()));
                }
                let of = Of::Embedded(bytes.clone());
                if let Some(node) = self.copied.get(&of) {
                    return Ok(Step::Done(Slot::Node(Arc::clone(node))));
                }
                // What is there is written within its parent again. Its hash is not taken over: what has
                // one has no live node below it without.
                let node = entry::embedded_node(bytes)?.anew();
                self.bytes += node.bytes() as u64;
                Step::Copy(Box::new(Frame { of, node, next: 0 }))
            }
            Slot::Node(node) => {
                let of = Of::Live(Arc::as_ptr(node));
                match self.copied.get(&of) {
                    Some(node) => Step::Done(Slot::Node(Arc::clone(node))),
                    None => Step::Copy(Box::new(Frame { of, node: node.anew(), next: 0 })),
                }
            }
        })
    }

    /// Whether both have the same value, or the same node, at `offset`.
    fn is_there(&self, offset: u64, is_value: bool) -> Result<bool> {
        // First where it certainly is: what is at this place of the other may be the midst of anything.
        let here: Option<(bool, Hash)> = self.from.look(offset, None)?;
        let Some((kind, hash)) = here.filter(|(kind, _)| *kind == is_value) else {
            return Ok(false);
        };
        Ok(self.to.look(offset, Some(&hash))? == Some((kind, hash)))
    }
}
