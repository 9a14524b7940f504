//! A branch in bytes: half of what it takes as a node, and a step through it touches one or two lines of
//! the processor's cache.
//!
//! ```text
//! its depth; patches of its record; which of 64 buckets have a pointer (eight bytes, one bit each)
//! base of its record; entries below pointers whose own count is not known (eight bytes each)
//! for each pointer: where it leads (eight bytes)
//! for each pointer: how many entries are below (four bytes)
//! its hash; its changes since its base; zeros up to a length that others have
//! ```

use std::sync::Arc;

use crate::context::configuration::Bucket;
use crate::context::hash::Hash;
use crate::context::pieces::node::{Base, Body, Branch, Node, Pointer, Target};
use crate::context::pieces::spare::{self, Spares};
use crate::format::codec::{Decoder, Encoder};

/// Buckets that have a bit.
const BUCKETS: u16 = 64;

/// Bytes before the offsets.
const HEAD: usize = 2 + 3 * 8;

/// Bytes of an offset, and of a count.
const OFFSET: usize = 8;
const COUNT: usize = 4;

/// A clean branch.
#[derive(Clone)]
pub(crate) struct KeptBranch(pub(super) Arc<[u8]>);

impl KeptBranch {
    /// A branch that is better kept in bytes; none of another node. Uses the memory of `scratch`.
    pub(super) fn new(node: &Node, scratch: &mut Vec<u8>, spares: &Spares) -> Option<KeptBranch> {
        let Body::Branch(branch) = &node.body else { return None };
        let (base, hash) = (node.base?, node.hash.get()?);
        let depth = u8::try_from(branch.depth).ok()?;
        let mut buckets = 0_u64;
        for pointer in &branch.pointers {
            buckets |= 1 << Some(pointer.bucket).filter(|bucket| *bucket < BUCKETS)?;
        }
        let mut out = Encoder::over(std::mem::take(scratch));
        out.u8(depth);
        out.u8(base.patches);
        out.u64(buckets);
        out.u64(base.under);
        out.u64(branch.unknown());
        for pointer in &branch.pointers {
            match pointer.target {
                Target::Stored(offset) => out.u64(offset),
                Target::Live(_) => unreachable!("a clean node holds nothing live"),
            }
        }
        branch.pointers.iter().for_each(|pointer| out.u32(pointer.count));
        out.raw(hash);
        node.changes().put(&mut out);
        *scratch = out.finish();
        spare::pad(scratch);
        Some(KeptBranch(spares.run(scratch)))
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        let word = self.0[at..].first_chunk().expect("it is as long as it was made");
        u64::from_le_bytes(*word)
    }

    #[inline]
    fn buckets(&self) -> u64 {
        self.word(2)
    }

    /// Where the pointer of the name of `bucket` leads.
    #[inline]
    pub(super) fn find(&self, bucket: &mut Bucket<'_>) -> Option<u64> {
        let (bucket, buckets) = (bucket.at(u32::from(self.0[0])), self.buckets());
        if bucket >= BUCKETS || buckets >> bucket & 1 == 0 {
            return None;
        }
        let before = buckets & ((1 << bucket) - 1);
        Some(self.word(HEAD + OFFSET * before.count_ones() as usize))
    }

    /// The node, which was at logical offset `offset`.
    pub(super) fn node(&self, offset: u64) -> Node {
        let mut node = Node::new(Body::Branch(Branch::new(0, Vec::new())));
        self.put(&mut node, offset);
        node
    }

    /// Puts the node into `node`, a branch of nothing.
    pub(super) fn put(&self, node: &mut Node, offset: u64) {
        let Body::Branch(branch) = &mut node.body else { unreachable!("a branch is asked for") };
        let mut buckets = self.buckets();
        let count = buckets.count_ones() as usize;
        let (offsets, rest) = self.0[HEAD..].split_at(OFFSET * count);
        let (counts, rest) = rest.split_at(COUNT * count);
        let (hash, changes) = rest.split_at(size_of::<Hash>());
        let (pointers, own) = branch.begin(u32::from(self.0[0]), count + 1, self.word(18));
        for (offset, count) in offsets.as_chunks().0.iter().zip(counts.as_chunks().0) {
            let bucket = buckets.trailing_zeros() as u16;
            buckets &= buckets - 1;
            let target = Target::Stored(u64::from_le_bytes(*offset));
            pointers.push(Pointer { bucket, count: u32::from_le_bytes(*count), target });
        }
        let mut from = Decoder::new("", 0, changes);
        own.take(&mut from).expect("they are as they were put there");
        node.base = Some(Base { offset, patches: self.0[1], under: self.word(10) });
        node.hash = Hash::try_from(hash).expect("as long as a hash").into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::configuration::Configuration;
    use crate::context::pieces::changes::{Changes, Form, Since};

    fn branch(buckets: &[u16], depth: u32, unknown: u64) -> Node {
        let pointers = buckets
            .iter()
            .map(|bucket| Pointer {
                bucket: *bucket,
                count: u32::from(*bucket) * 3 + u32::from(unknown == 0),
                target: Target::Stored(1 << 40 | u64::from(*bucket)),
            })
            .collect();
        let mut node = Node::new(Body::Branch(Branch::partial(depth, pointers, unknown)));
        *node.changes_mut() = Changes::none();
        node.base = Some(Base { offset: 1 << 50, patches: 3, under: 9 });
        node.hash = [7; 32].into();
        node
    }

    #[test]
    fn a_branch_in_bytes_is_the_branch_it_was() {
        let configuration = Configuration::TEZOS;
        let many: Vec<u16> = (0..32).collect();
        let cases: [(&[u16], u64); 4] = [(&many, 0), (&[0, 5, 31], 70), (&[63], 0), (&[1, 2], 0)];
        for (buckets, unknown) in cases {
            let mut before = branch(buckets, 2, unknown);
            let Body::Branch(own) = &mut before.body else { unreachable!() };
            own.pointer_mut(0);
            own.remove(buckets.len() - 1);
            before.changes_mut().settle(Form::Patch(Since::Base));
            let kept =
                KeptBranch::new(&before, &mut Vec::new(), &Spares::new(0)).expect("it is narrow");
            let after = kept.node(1 << 50);
            let mut again = branch(&[3, 9], 1, 4);
            again.empty();
            kept.put(&mut again, 1 << 50);
            assert_eq!(format!("{again:?}"), format!("{after:?}"));
            let (Body::Branch(a), Body::Branch(b)) = (&before.body, &after.body) else { panic!() };
            assert_eq!((a.depth, a.count(), a.unknown()), (b.depth, b.count(), b.unknown()));
            let pointers = |branch: &Branch| -> Vec<_> {
                let pointer = |it: &Pointer| (it.bucket, it.count, format!("{:?}", it.target));
                branch.pointers.iter().map(pointer).collect()
            };
            assert_eq!(pointers(a), pointers(b));
            assert_eq!((before.base, &before.hash), (after.base, &after.hash));
            let changes = |node: &Node| format!("{:?}", node.changes());
            assert_eq!(changes(&before), changes(&after));
            let mut found = 0;
            for name in 0..1000_u32 {
                let name = name.to_le_bytes();
                let wanted = Bucket::new(configuration, &name).at(2);
                let there = a.pointers.iter().find(|pointer| pointer.bucket == wanted);
                let offset = there.map(|_| 1 << 40 | u64::from(wanted));
                assert_eq!(kept.find(&mut Bucket::new(configuration, &name)), offset);
                found += usize::from(offset.is_some());
            }
            assert_eq!(found > 0, a.pointers.iter().any(|pointer| pointer.bucket < 32));
        }
    }

    #[test]
    fn a_wide_or_deep_one_stays_a_node() {
        let kept = |node: &Node| KeptBranch::new(node, &mut Vec::new(), &Spares::new(0)).is_some();
        assert!(kept(&branch(&[63], 255, 0)) && !kept(&branch(&[64], 0, 0)));
        assert!(!kept(&branch(&[1], 256, 0)));
        let unread = Node::new(Body::Branch(Branch::new(0, Vec::new())));
        assert!(!kept(&unread));
    }
}
