//! What differs between two trees. Equal pieces are skipped without being read.

use std::sync::Arc;

use super::Tree;
use crate::context::observer::Operation;
use crate::context::pieces::node::{Body, Node, Slot, Target};
use crate::error::Result;
use crate::trace::{Action, DigestOfMany, Traced, Walk};

/// A value that one tree has and the other has not, or has otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only the second tree has it.
    Added(Vec<u8>),
    /// Only the first tree has it.
    Removed(Vec<u8>),
    /// Both have another.
    Updated(Vec<u8>, Vec<u8>),
}

impl Change {
    /// The value of before and that of after, where there is one.
    #[must_use]
    pub fn sides(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        match self {
            Change::Added(new) => (None, Some(new)),
            Change::Removed(old) => (Some(old), None),
            Change::Updated(old, new) => (Some(old), Some(new)),
        }
    }
}

/// What is called with path and change.
type EachChange<'a> = &'a mut dyn FnMut(&[Vec<u8>], Change) -> Result<()>;

/// A child with its name.
pub(super) type Item = (Vec<u8>, Slot);

/// What is still to be compared, below the first steps of the path.
struct Pending {
    depth: usize,
    name: Vec<u8>,
    before: Option<Slot>,
    after: Option<Slot>,
    /// Whether its path is that of the place to begin at, as far as it goes.
    leads: bool,
}

impl Tree {
    /// Calls `each` with path and change of every value that differs from this tree to `after`, by
    /// path. Costs the pieces that differ and their ancestors.
    pub fn diff(
        &self,
        after: &Tree,
        mut each: impl FnMut(&[Vec<u8>], Change) -> Result<()>,
    ) -> Result<()> {
        self.told_changes::<&[u8]>(after, None, &mut each)
    }

    /// The same from the path `from` on, to go on with a difference that was ended: what is there is told, what is
    /// before it is not, name by name. Costs what [`Tree::diff`] costs from there on, and all that differs in the
    /// directories on the way to it, also their pieces before it: those are read, but not what is below their names.
    ///
    /// ```
    /// use varvite::context::{Configuration, Tree};
    ///
    /// let before = Tree::empty(Configuration::TEZOS);
    /// let mut after = before.clone();
    /// for name in ["a", "b", "c"] {
    ///     after.add(&["data", name], b"1")?;
    /// }
    /// let mut told = Vec::new();
    /// before.diff_from(&after, &["data", "b"], |path, _| {
    ///     told.push(path[1].clone());
    ///     Ok(())
    /// })?;
    /// assert_eq!(told, [b"b", b"c"]);
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn diff_from<S: AsRef<[u8]>>(
        &self,
        after: &Tree,
        from: &[S],
        mut each: impl FnMut(&[Vec<u8>], Change) -> Result<()>,
    ) -> Result<()> {
        self.told_changes(after, Some(from), &mut each)
    }

    fn told_changes<S: AsRef<[u8]>>(
        &self,
        after: &Tree,
        from: Option<&[S]>,
        each: EachChange<'_>,
    ) -> Result<()> {
        let _span = self.span::<&[u8]>(Operation::Diff, &[]);
        let start: Vec<&[u8]> = from.unwrap_or(&[]).iter().map(AsRef::as_ref).collect();
        let Some(traced) = &self.traced else { return self.changes(after, &start, each) };
        let given = after.beside(traced);
        let other = given.as_ref().map_or_else(|| after.handle(), Traced::handle);
        let mut walk = Walk::begin(Some(traced));
        let outcome = self.changes(after, &start, &mut |path, change| {
            // Before the host takes it.
            let mut digest = DigestOfMany::default();
            digest.add(path.last().map(Vec::as_slice));
            let (old, new) = change.sides();
            digest.add(old);
            digest.add(new);
            let digest = digest.finish().hash.to_le_bytes();
            walk.ask(|all| all.add(Some(&digest)), || each(path, change))
        });
        let ended_at = walk.ended_at();
        if from.is_some() {
            let told = Action::DiffFrom;
            walk.end(told, |to| to.handle(other).path(&start).number(ended_at), &outcome);
        } else {
            walk.end(Action::Diff, |to| to.handle(other).number(ended_at), &outcome);
        }
        outcome
    }

    /// As a difference; made once, whatever is done with the changes.
    fn changes(&self, after: &Tree, from: &[&[u8]], each: EachChange<'_>) -> Result<()> {
        let mut path: Vec<Vec<u8>> = Vec::new();
        let mut stack = vec![Pending {
            depth: 0,
            name: Vec::new(),
            before: Some(self.root().clone()),
            after: Some(after.root().clone()),
            leads: true,
        }];
        let mut first = true;
        while let Some(pending) = stack.pop() {
            if !std::mem::take(&mut first) {
                path.truncate(pending.depth - 1);
                path.push(pending.name);
            }
            let (old, new) = (pending.before, pending.after);
            if self.alike(after, old.as_ref(), new.as_ref())? {
                continue;
            }
            let value = |tree: &Tree, slot: &Option<Slot>| match slot {
                Some(slot) => tree.bytes(slot),
                None => Ok(None),
            };
            // Where the next step of the way to the beginning is, if this is on it.
            let next = from.get(path.len()).filter(|_| pending.leads);
            match (value(self, &old)?, value(after, &new)?) {
                _ if next.is_some() => {}
                (Some(old), Some(new)) if old == new => {}
                (Some(old), Some(new)) => each(&path, Change::Updated(old, new))?,
                (Some(old), None) => each(&path, Change::Removed(old))?,
                (None, Some(new)) => each(&path, Change::Added(new))?,
                (None, None) => {}
            }
            let (mut left, mut right) = (Vec::new(), Vec::new());
            let directory = |tree: &Tree, slot: &Option<Slot>| match slot {
                Some(slot) => tree.open(slot),
                None => Ok(None),
            };
            self.unequal(
                after,
                directory(self, &old)?.as_ref(),
                directory(after, &new)?.as_ref(),
                &mut left,
                &mut right,
            )?;
            if let Some(next) = next {
                left.retain(|item| item.0.as_slice() >= *next);
                right.retain(|item| item.0.as_slice() >= *next);
            }
            push_pairs(&mut stack, path.len() + 1, next.copied(), left, right);
        }
        Ok(())
    }

    /// Whether both are surely equal, by identity or by hashes that are at hand.
    pub(super) fn alike(&self, other: &Tree, a: Option<&Slot>, b: Option<&Slot>) -> Result<bool> {
        let (Some(a), Some(b)) = (a, b) else { return Ok(a.is_none() && b.is_none()) };
        if a.is_value() != b.is_value() {
            return Ok(false);
        }
        if self.shares_pack(other) || !is_stored(a) || !is_stored(b) {
            if a.same(b) {
                return Ok(true);
            }
            if !self.shares_pack(other) {
                return Ok(false);
            }
        }
        match (a, b) {
            (Slot::StoredNode(x), Slot::StoredNode(y))
            | (Slot::StoredValue(x), Slot::StoredValue(y)) => {
                let load = |tree: &Tree, offset| {
                    tree.load().expect("a stored child comes from a pack").hash(offset)
                };
                Ok(load(self, *x)? == load(other, *y)?)
            }
            _ => Ok(false),
        }
    }

    fn shares_pack(&self, other: &Tree) -> bool {
        match (self.load(), other.load()) {
            (Some(a), Some(b)) => a.identity() == b.identity(),
            _ => true,
        }
    }

    /// Entries of two directories, leaving out pieces that are the same. Recursion is bounded by the
    /// depth of inodes.
    pub(super) fn unequal(
        &self,
        other: &Tree,
        a: Option<&Arc<Node>>,
        b: Option<&Arc<Node>>,
        left: &mut Vec<Item>,
        right: &mut Vec<Item>,
    ) -> Result<()> {
        if let (Some(a), Some(b)) = (a, b)
            && let (Body::Branch(x), Body::Branch(y)) = (&a.body, &b.body)
            && x.depth == y.depth
        {
            let buckets = x.pointers.iter().chain(&y.pointers).map(|pointer| pointer.bucket);
            let mut buckets: Vec<u16> = buckets.collect();
            buckets.sort_unstable();
            buckets.dedup();
            for bucket in buckets {
                let p = x.search(bucket).ok().map(|index| &x.pointers[index]);
                let q = y.search(bucket).ok().map(|index| &y.pointers[index]);
                if let (Some(p), Some(q)) = (p, q) {
                    let same = match (&p.target, &q.target) {
                        (Target::Stored(p), Target::Stored(q)) => p == q && self.shares_pack(other),
                        (Target::Live(p), Target::Live(q)) => Arc::ptr_eq(p, q),
                        _ => false,
                    };
                    if same {
                        continue;
                    }
                }
                let p = p.map(|pointer| self.directories().below(x, pointer)).transpose()?;
                let q = q.map(|pointer| other.directories().below(y, pointer)).transpose()?;
                self.unequal(other, p.as_ref(), q.as_ref(), left, right)?;
            }
            return Ok(());
        }
        if let Some(a) = a {
            self.directories().gather(a, left)?;
        }
        if let Some(b) = b {
            other.directories().gather(b, right)?;
        }
        Ok(())
    }
}

fn is_stored(slot: &Slot) -> bool {
    matches!(slot, Slot::StoredNode(_) | Slot::StoredValue(_) | Slot::Embedded(_))
}

/// Puts the pairs of equal names on the stack so that they come off by name.
fn push_pairs(
    stack: &mut Vec<Pending>,
    depth: usize,
    next: Option<&[u8]>,
    mut left: Vec<Item>,
    mut right: Vec<Item>,
) {
    left.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    right.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    loop {
        let order = match (left.last(), right.last()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Greater,
            (None, Some(_)) => std::cmp::Ordering::Less,
            (Some(a), Some(b)) => a.0.cmp(&b.0),
        };
        let before = if order.is_ge() { left.pop() } else { None };
        let after = if order.is_le() { right.pop() } else { None };
        let name = before.as_ref().or(after.as_ref()).expect("one side has it").0.clone();
        let leads = next == Some(name.as_slice());
        let [before, after] = [before, after].map(|item| item.map(|item| item.1));
        stack.push(Pending { depth, name, before, after, leads });
    }
}
