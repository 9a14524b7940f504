//! A node's record as a patch: what to change in an older record of it.
//!
//! A patch is made from the changes that the node noted, or, when children went, by comparison with
//! the base. Read, it is applied in place. Format document: `docs/format/pack.md`.

use std::cmp::Ordering;

use super::record::{Tag, put_pointer, take_pointer, target_offset};
use crate::context::pieces::entry::{Places, put_entry, take_entry, take_references};
use crate::context::pieces::node::{Body, Branch, Leaf, Node, Pointer, Slot, Target};
use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};

/// The most records that a node is read from, less one.
pub(crate) const PATCHES_MAX: u8 = 8;

const REPLACE: u64 = 0;
const REMOVE: u64 = 1;
const INSERT: u64 = 2;

/// The tag and body of `node` as a patch of `base`, which is at `under`; none when the two are of
/// different kinds.
pub(crate) fn put_difference(
    out: &mut Encoder,
    at: u64,
    node: &Node,
    base: &Node,
    under: u64,
    places: &dyn Places,
) -> Option<Tag> {
    out.varint(at - under);
    match (&node.body, &base.body) {
        (Body::Leaf { leaf, flat }, Body::Leaf { leaf: old, .. }) => {
            put_leaf_changes(out, at, leaf, old, places);
            Some(if *flat { Tag::FlatPatch } else { Tag::ValuesPatch })
        }
        (Body::Branch(branch), Body::Branch(old)) if branch.depth == old.depth => {
            put_branch_changes(out, at, branch, old, places);
            Some(Tag::BranchPatch)
        }
        _ => None,
    }
}

/// The tag and body of `node` as a patch of the record at `under`: `changed` are the children that are
/// other than there, in order, and whether they are new.
pub(crate) fn put_changes(
    out: &mut Encoder,
    at: u64,
    node: &Node,
    changed: impl Iterator<Item = (usize, bool)>,
    under: u64,
    places: &dyn Places,
) -> Tag {
    out.varint(at - under);
    let mut next = 0;
    for (child, new) in changed {
        out.varint(((child - next) as u64) << 2 | if new { INSERT } else { REPLACE });
        match &node.body {
            Body::Leaf { leaf, .. } => {
                put_entry(out, at, new.then(|| leaf.name(child)), leaf.slot(child), places);
            }
            Body::Branch(branch) => {
                let pointer = &branch.pointers[child];
                if new {
                    out.varint(u64::from(pointer.bucket));
                }
                put_pointer(out, at, pointer, places);
            }
        }
        next = child + 1;
    }
    match &node.body {
        Body::Leaf { flat: true, .. } => Tag::FlatPatch,
        Body::Leaf { .. } => Tag::ValuesPatch,
        Body::Branch(_) => Tag::BranchPatch,
    }
}

/// Whether a slot will be read as `old` is, once it is written.
fn unchanged(new: &Slot, old: &Slot, places: &dyn Places) -> bool {
    match (new, old) {
        (Slot::Node(node), Slot::Embedded(bytes)) => places.embedded(node) == Some(bytes),
        (Slot::Node(node), Slot::StoredNode(offset)) => {
            places.embedded(node).is_none() && places.node(node) == *offset
        }
        (Slot::Value(value), Slot::StoredValue(offset)) => places.value(value) == *offset,
        _ => new.same(old),
    }
}

fn put_leaf_changes(out: &mut Encoder, at: u64, new: &Leaf, old: &Leaf, places: &dyn Places) {
    let (mut next, mut next_old, mut kept) = (0, 0, 0u64);
    while next < new.len() || next_old < old.len() {
        let order = match (next < new.len(), next_old < old.len()) {
            (true, true) => new.name(next).cmp(old.name(next_old)),
            (true, false) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Equal => {
                if unchanged(new.slot(next), old.slot(next_old), places) {
                    kept += 1;
                } else {
                    out.varint(kept << 2 | REPLACE);
                    put_entry(out, at, None, new.slot(next), places);
                    kept = 0;
                }
                next += 1;
                next_old += 1;
            }
            Ordering::Less => {
                out.varint(kept << 2 | INSERT);
                put_entry(out, at, Some(new.name(next)), new.slot(next), places);
                kept = 0;
                next += 1;
            }
            Ordering::Greater => {
                out.varint(kept << 2 | REMOVE);
                kept = 0;
                next_old += 1;
            }
        }
    }
}

fn put_branch_changes(out: &mut Encoder, at: u64, new: &Branch, old: &Branch, places: &dyn Places) {
    let (mut next, mut next_old, mut kept) = (0, 0, 0u64);
    let (new, old) = (&new.pointers, &old.pointers);
    while next < new.len() || next_old < old.len() {
        let bucket = |pointers: &Vec<Pointer>, index: usize| {
            pointers.get(index).map_or(u32::MAX, |pointer| u32::from(pointer.bucket))
        };
        match bucket(new, next).cmp(&bucket(old, next_old)) {
            Ordering::Equal => {
                let (a, b) = (&new[next], &old[next_old]);
                let same = a.count == b.count
                    && target_offset(&a.target, places) == target_offset(&b.target, places);
                if same {
                    kept += 1;
                } else {
                    out.varint(kept << 2 | REPLACE);
                    put_pointer(out, at, a, places);
                    kept = 0;
                }
                next += 1;
                next_old += 1;
            }
            Ordering::Less => {
                out.varint(kept << 2 | INSERT);
                out.varint(u64::from(new[next].bucket));
                put_pointer(out, at, &new[next], places);
                kept = 0;
                next += 1;
            }
            Ordering::Greater => {
                out.varint(kept << 2 | REMOVE);
                kept = 0;
                next_old += 1;
            }
        }
    }
}

/// Makes of `node`, which is the base, what the record with `tag` at `at` says.
pub(crate) fn apply(node: &mut Node, tag: Tag, at: u64, mut changes: Decoder<'_>) -> Result<()> {
    match (&mut node.body, tag) {
        (Body::Leaf { leaf, flat }, Tag::FlatPatch | Tag::ValuesPatch) => {
            *flat = tag == Tag::FlatPatch;
            apply_to_leaf(leaf, at, &mut changes)
        }
        (Body::Branch(branch), Tag::BranchPatch) => apply_to_branch(branch, at, &mut changes),
        _ => Err(changes.corrupt("a patch of the same kind as its base", "another")),
    }
}

fn apply_to_leaf(leaf: &mut Leaf, at: u64, changes: &mut Decoder<'_>) -> Result<()> {
    let (mut name, mut inside) = (Vec::new(), Vec::new());
    let mut next = 0;
    while changes.remaining() > 0 {
        let start = changes.clone();
        let head = changes.varint()?;
        next += kept(head, leaf.len() - next, &start)?;
        match head & 3 {
            INSERT => {
                name.clear();
                let slot = take_entry(changes, at, true, &mut name, &mut inside)?;
                let above = next == 0 || leaf.name(next - 1) < &name[..];
                let below = next == leaf.len() || &name[..] < leaf.name(next);
                if !(above && below) {
                    return Err(start.corrupt("names in order", "a name out of order"));
                }
                leaf.insert(next, &name, slot);
                next += 1;
            }
            _ if next == leaf.len() => return Err(start.corrupt("an entry to change", "none")),
            REMOVE => leaf.remove(next),
            REPLACE => {
                *leaf.slot_mut(next) = take_entry(changes, at, false, &mut name, &mut inside)?;
                next += 1;
            }
            other => return Err(start.corrupt("a known kind of change", other)),
        }
    }
    leaf.share(inside);
    Ok(())
}

fn kept(head: u64, left: usize, start: &Decoder<'_>) -> Result<usize> {
    let kept = head >> 2;
    if kept > left as u64 {
        return Err(start.corrupt(format_args!("at most {left} children to keep"), kept));
    }
    Ok(kept as usize)
}

fn apply_to_branch(branch: &mut Branch, at: u64, changes: &mut Decoder<'_>) -> Result<()> {
    let mut next = 0;
    while changes.remaining() > 0 {
        let start = changes.clone();
        let head = changes.varint()?;
        next += kept(head, branch.pointers.len() - next, &start)?;
        match head & 3 {
            INSERT => {
                let bucket = changes.varint()?;
                let above = next == 0 || u64::from(branch.pointers[next - 1].bucket) < bucket;
                let below =
                    branch.pointers.get(next).is_none_or(|old| bucket < u64::from(old.bucket));
                let bucket = u16::try_from(bucket)
                    .ok()
                    .filter(|_| above && below)
                    .ok_or_else(|| start.corrupt("buckets in order", bucket))?;
                let pointer = take_pointer(changes, at, bucket)?;
                branch.insert(next, pointer);
                next += 1;
            }
            _ if next == branch.pointers.len() => {
                return Err(start.corrupt("a pointer to change", "none"));
            }
            REMOVE => branch.remove(next),
            REPLACE => {
                let bucket = branch.pointers[next].bucket;
                *branch.pointer_mut(next) = take_pointer(changes, at, bucket)?;
                next += 1;
            }
            other => return Err(start.corrupt("a known kind of change", other)),
        }
    }
    Ok(())
}

/// What a patch does at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchStep {
    Replace,
    Remove,
    Insert,
}

impl PatchStep {
    /// Whether a child of the base is other, or gone.
    pub(crate) fn takes_old(self) -> bool {
        self != PatchStep::Insert
    }

    /// Whether a child comes that the base has not.
    pub(crate) fn puts_new(self) -> bool {
        self != PatchStep::Remove
    }
}

/// Takes the head of a change: how many children stay as they are before it, and what it does.
pub(crate) fn take_step(changes: &mut Decoder<'_>) -> Result<(u64, PatchStep)> {
    let start = changes.clone();
    let head = changes.varint()?;
    let step = match head & 3 {
        REPLACE => PatchStep::Replace,
        REMOVE => PatchStep::Remove,
        INSERT => PatchStep::Insert,
        other => return Err(start.corrupt("a known kind of change", other)),
    };
    Ok((head >> 2, step))
}

/// Takes what `step` of the patch with `tag` at `at` puts, and calls `each` with what that refers to.
pub(crate) fn take_put(
    tag: Tag,
    step: PatchStep,
    at: u64,
    changes: &mut Decoder<'_>,
    each: &mut dyn FnMut(u64),
) -> Result<()> {
    let is_new = step == PatchStep::Insert;
    match tag {
        _ if !step.puts_new() => {}
        Tag::BranchPatch => {
            if is_new {
                changes.varint()?;
            }
            let Target::Stored(offset) = take_pointer(changes, at, 0)?.target else {
                unreachable!("what is read is stored")
            };
            each(offset);
        }
        _ => take_references(changes, at, is_new, each)?,
    }
    Ok(())
}
