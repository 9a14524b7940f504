//! What a batch may refer to, beside a collection and after one.
//!
//! References to what is older than the commit where history begins, or will begin, are in question. While
//! a collection marks, they become roots of it; afterwards only what was kept as an object may be referred
//! to. Design: `docs/design/collection.md`.

use std::cell::RefCell;

use super::marks::Marks;
use crate::context::files::pack::Pack;
use crate::context::pieces::entry;
use crate::context::pieces::node::{Body, Node, Slot, Target};
use crate::error::{Error, Kind, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Barrier<'a> {
    pack: &'a Pack,
    /// What is older is in question.
    edge: u64,
    is_archive: bool,
    /// What stays, once that is known.
    marks: Option<&'a Marks>,
    /// What will have to stay, while that is not known: as an object, or only for its bytes.
    roots: Option<RefCell<Vec<(u64, bool)>>>,
}

impl<'a> Barrier<'a> {
    /// While no collection is under way, below a horizon at `edge`.
    pub(crate) fn below(pack: &'a Pack, edge: u64) -> Barrier<'a> {
        Barrier { pack, edge, is_archive: false, marks: None, roots: None }
    }

    /// The same in an archive: what is in the lower folder alone is written again where it is wanted, so that recent commits
    /// need nothing from there. What is older than `marked` will have to stay above, if that is given.
    pub(crate) fn of_archive(pack: &'a Pack, edge: u64, marked: Option<u64>) -> Barrier<'a> {
        let roots = marked.map(|_| RefCell::default());
        let edge = marked.map_or(edge, |marked| marked.max(edge));
        Barrier { is_archive: true, roots, ..Barrier::below(pack, edge) }
    }

    /// While one marks that keeps all from `edge` on.
    pub(crate) fn marking(pack: &'a Pack, edge: u64) -> Barrier<'a> {
        Barrier { roots: Some(RefCell::default()), ..Barrier::below(pack, edge) }
    }

    /// While one takes away what is not marked.
    pub(crate) fn cleaning(pack: &'a Pack, edge: u64, marks: &'a Marks) -> Barrier<'a> {
        Barrier { marks: Some(marks), ..Barrier::below(pack, edge) }
    }

    /// What a collection has to keep because of what was referred to.
    pub(crate) fn into_roots(self) -> Vec<(u64, bool)> {
        self.roots.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Whether the object at `offset` may be referred to, which then stays, and is no worse than another.
    pub(crate) fn allows(&self, offset: u64) -> Result<bool> {
        Ok(!(self.is_archive && self.pack.is_only_below(offset)) && self.is_seen(offset, true)?)
    }

    /// The same as [`Barrier::is_there`], but that what is in a damaged chunk is not: where something else will do it is
    /// written again.
    fn is_seen(&self, offset: u64, is_object: bool) -> Result<bool> {
        match self.is_there(offset, is_object) {
            Err(error) if error.kind() == Kind::Corrupt => Ok(false),
            is_there => is_there,
        }
    }

    /// Whether the record at `offset` is there, as an object or at least for its bytes, and then stays.
    fn is_there(&self, offset: u64, is_object: bool) -> Result<bool> {
        if offset >= self.edge {
            return Ok(true);
        }
        let is_there = match (self.marks, is_object) {
            (Some(marks), true) => marks.has_object(offset),
            (Some(marks), false) => marks.has_record(offset),
            (None, true) => self.pack.has_object(offset)?,
            (None, false) => self.pack.has_record(offset)?,
        };
        if let Some(roots) = self.roots.as_ref().filter(|_| is_there) {
            roots.borrow_mut().push((offset, is_object));
        }
        Ok(is_there)
    }

    /// Whether a patch may be of the record at `offset`, which then stays for its bytes at least: a collection may have done
    /// away with it where what was a patch of it stays.
    pub(crate) fn allows_base(&self, offset: u64) -> Result<bool> {
        self.is_seen(offset, false)
    }

    /// `Collected` unless the object at `offset` may be referred to.
    pub(crate) fn expect(&self, offset: u64) -> Result<()> {
        if self.is_there(offset, true)? {
            return Ok(());
        }
        Err(Error::new(
            Kind::Collected,
            "the tree holds parts that were collected, of a commit that is gone or of its own that no \
             commit had: check out a commit that was kept, and change that",
        ))
    }

    /// `Collected` unless all may be referred to that `node` refers to and does not have from the record that
    /// it was made from; returns whether that record may be referred to.
    pub(crate) fn expect_children(&self, node: &Node) -> Result<bool> {
        let has_record = node.base.map_or(Ok(false), |base| self.allows(base.offset))?;
        if has_record {
            let changes = node.changes();
            for step in 0..changes.steps(node.width()) {
                if let Some(index) = changes.at(step) {
                    self.expect_child(node, index)?;
                }
            }
        } else {
            (0..node.width()).try_for_each(|index| self.expect_child(node, index))?;
        }
        Ok(has_record)
    }

    fn expect_child(&self, node: &Node, index: usize) -> Result<()> {
        match &node.body {
            Body::Leaf { leaf, .. } => self.expect_slot(leaf.slot(index)),
            Body::Branch(branch) => match &branch.pointers[index].target {
                Target::Stored(offset) => self.expect(*offset),
                Target::Live(_) => Ok(()),
            },
        }
    }

    /// The same for one slot. What is live is looked at when it is written itself.
    fn expect_slot(&self, slot: &Slot) -> Result<()> {
        match slot {
            Slot::StoredNode(offset) | Slot::StoredValue(offset) => self.expect(*offset),
            Slot::Embedded(bytes) => {
                let mut refused = Ok(());
                entry::each_embedded_reference(bytes, &mut |offset| {
                    if refused.is_ok() {
                        refused = self.expect(offset);
                    }
                })?;
                refused
            }
            Slot::Inline { .. } | Slot::Value(_) | Slot::Node(_) => Ok(()),
        }
    }
}
