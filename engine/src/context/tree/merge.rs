//! Three-way merge of trees: what `theirs` changed since `base` is brought into `ours`.
//!
//! Decided value by value, as if a tree were a map of paths to values, and as cheaply as the pieces
//! allow: what only one side changed is taken whole, and equal pieces are never read. Nothing here
//! recurses over the depth of the tree.

use super::Tree;
use super::diff::Item;
use crate::context::observer::Operation;
use crate::context::pieces::node::Slot;
use crate::error::Result;
use crate::trace::{Action, Answer, Traced, Walk};

/// A value that both sides changed, each in its own way; `None` is a value that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides<'a> {
    /// What both started from.
    pub base: Option<&'a [u8]>,
    /// What one made of it.
    pub ours: Option<&'a [u8]>,
    /// What the other made of it.
    pub theirs: Option<&'a [u8]>,
}

/// What is to be done about a value that both sides changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// This is the value.
    Value(Vec<u8>),
    /// The value goes.
    Removed,
    /// It remains a conflict.
    Conflict,
}

impl Resolution {
    /// The value, or its removal.
    #[must_use]
    pub fn of(value: Option<&[u8]>) -> Resolution {
        value.map_or(Resolution::Removed, |value| Resolution::Value(value.to_vec()))
    }
}

/// `resolve`, of whose answers a recorder is told.
pub(crate) fn told<'w>(
    walk: &'w mut Walk<'_>,
    resolved: &'w mut Vec<Vec<u8>>,
    mut resolve: impl FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution> + 'w,
) -> impl FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution> + 'w {
    move |path, sides| {
        let resolution = walk.ask(|_| {}, || resolve(path, sides))?;
        resolved.push(match &resolution {
            Resolution::Conflict => vec![0],
            Resolution::Removed => vec![1],
            Resolution::Value(value) => [&[2], &value[..]].concat(),
        });
        Ok(resolution)
    }
}

/// A place where both sides changed something, and nobody said what it should be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Conflict {
    /// Where.
    pub path: Vec<Vec<u8>>,
    /// What both started from.
    pub base: Option<Tree>,
    /// What is there on our side, and in the merged tree.
    pub ours: Option<Tree>,
    /// What is there on their side.
    pub theirs: Option<Tree>,
}

/// What a merge came to.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The merged tree; at conflicts it has what our side has.
    pub tree: Tree,
    /// By path within each directory. Empty when everything could be merged.
    pub conflicts: Vec<Conflict>,
}

/// What is asked about a value that both changed.
pub(crate) type Resolve<'a> = &'a mut dyn FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution>;

/// A place of which each side has its own idea.
struct Disagreement {
    depth: usize,
    name: Vec<u8>,
    base: Option<Slot>,
    ours: Option<Slot>,
    theirs: Option<Slot>,
}

/// A merge under way.
struct TreeMerge<'a, F> {
    base: &'a Tree,
    ours: &'a Tree,
    theirs: &'a Tree,
    resolve: F,
    path: Vec<Vec<u8>>,
    stack: Vec<Disagreement>,
    merged: Merged,
}

impl Tree {
    /// Brings what `theirs` changed since `base` into a copy of this tree. `resolve` is asked, with
    /// the path, about each value that both changed in different ways.
    ///
    /// A value and a directory at one path, one from each side, are a conflict of which it is not
    /// asked. An empty `base` merges trees without a common past: what is on one side only is kept.
    /// Costs what `theirs` changed and the ancestors of that. `Invalid` when the trees have
    /// different hash configurations.
    ///
    /// ```
    /// use varvite::context::{Configuration, Resolution, Tree};
    /// # fn main() -> varvite::Result<()> {
    /// let mut base = Tree::empty(Configuration::TEZOS);
    /// base.add(&["alice"], b"5")?;
    /// base.add(&["bob"], b"7")?;
    /// let (mut ours, mut theirs) = (base.clone(), base.clone());
    /// ours.add(&["alice"], b"6")?;
    /// theirs.add(&["bob"], b"8")?;
    /// let merged = ours.merge(&base, &theirs, |_, _| Ok(Resolution::Conflict))?;
    /// assert!(merged.conflicts.is_empty());
    /// assert_eq!(merged.tree.find(&["alice"])?.as_deref(), Some(&b"6"[..]));
    /// assert_eq!(merged.tree.find(&["bob"])?.as_deref(), Some(&b"8"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge(
        &self,
        base: &Tree,
        theirs: &Tree,
        mut resolve: impl FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution>,
    ) -> Result<Merged> {
        let _span = self.span::<&[u8]>(Operation::Merge, &[]);
        let Some(traced) = &self.traced else { return self.bring(base, theirs, &mut resolve) };
        let given = [base.beside(traced), theirs.beside(traced)];
        let of = |given: &Option<Traced>, tree: &Tree| {
            given.as_ref().map_or_else(|| tree.handle(), Traced::handle)
        };
        let (base_handle, their_handle) = (of(&given[0], base), of(&given[1], theirs));
        let mut walk = Walk::begin(Some(traced));
        let mut resolved: Vec<Vec<u8>> = Vec::new();
        let mut outcome = self.bring(base, theirs, &mut told(&mut walk, &mut resolved, resolve));
        let answer = match &mut outcome {
            Ok(merged) => Answer::Handle(merged.tree.make_known(traced.recorder())),
            Err(_) => Answer::Failed,
        };
        let conflicts = outcome.as_ref().map_or(0, |merged| merged.conflicts.len() as u64);
        let action = Action::Merge;
        walk.end_with(
            action,
            |to| to.handle(base_handle).handle(their_handle).keys(&resolved).number(conflicts),
            answer,
        );
        outcome
    }

    fn bring(&self, base: &Tree, theirs: &Tree, resolve: Resolve<'_>) -> Result<Merged> {
        for tree in [base, theirs] {
            self.same_configuration(tree)?;
        }
        let root = Disagreement {
            depth: 0,
            name: Vec::new(),
            base: Some(base.root.clone()),
            ours: Some(self.root.clone()),
            theirs: Some(theirs.root.clone()),
        };
        let mut merge = TreeMerge {
            base,
            ours: self,
            theirs,
            resolve,
            path: Vec::new(),
            stack: vec![root],
            // A recorder is told of the merge as a whole.
            merged: Merged {
                tree: Tree { live_bytes: self.live_bytes, ..self.at(self.root.clone()) },
                conflicts: Vec::new(),
            },
        };
        while let Some(pending) = merge.stack.pop() {
            if pending.depth > 0 {
                merge.path.truncate(pending.depth - 1);
                merge.path.push(pending.name);
            }
            merge.place(pending.base.as_ref(), pending.ours.as_ref(), pending.theirs.as_ref())?;
        }
        Ok(merge.merged)
    }

    /// Whether `slot` of this tree and `of_other` of `other` hold the same.
    fn equal_slots(
        &self,
        slot: Option<&Slot>,
        other: &Tree,
        of_other: Option<&Slot>,
    ) -> Result<bool> {
        let (Some(a), Some(b)) = (slot, of_other) else {
            return Ok(slot.is_none() && of_other.is_none());
        };
        if a.is_value() != b.is_value() {
            return Ok(false);
        }
        if self.alike(other, Some(a), Some(b))? {
            return Ok(true);
        }
        Ok(self.at(a.clone()).inner_hash()? == other.at(b.clone()).inner_hash()?)
    }
}

/// What three versions come to when at most one side changed; `Err` when both did.
fn unchallenged<T: Copy + PartialEq>(base: T, ours: T, theirs: T) -> std::result::Result<T, ()> {
    if ours == theirs || theirs == base {
        return Ok(ours);
    }
    if ours == base { Ok(theirs) } else { Err(()) }
}

impl<F: FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution>> TreeMerge<'_, F> {
    /// Merges what base, our and their side have at the path.
    fn place(&mut self, b: Option<&Slot>, o: Option<&Slot>, t: Option<&Slot>) -> Result<()> {
        if self.theirs.equal_slots(t, self.base, b)? || self.ours.equal_slots(o, self.theirs, t)? {
            return Ok(());
        }
        if self.ours.equal_slots(o, self.base, b)? {
            return self.take_theirs(t);
        }
        let bytes =
            |tree: &Tree, slot: Option<&Slot>| slot.map_or(Ok(None), |slot| tree.bytes(slot));
        let (base_value, our_value, their_value) =
            (bytes(self.base, b)?, bytes(self.ours, o)?, bytes(self.theirs, t)?);
        let sides = Sides {
            base: base_value.as_deref(),
            ours: our_value.as_deref(),
            theirs: their_value.as_deref(),
        };
        let is_directory = |slot: Option<&Slot>| slot.is_some_and(|slot| !slot.is_value());
        let directories = is_directory(o) || is_directory(t);
        let resolution = match unchallenged(sides.base, sides.ours, sides.theirs) {
            Ok(None) if is_directory(b) || is_directory(o) => return self.descend(b, o, t),
            Ok(None) => return self.take_theirs(t),
            _ if directories => Resolution::Conflict,
            Ok(Some(value)) => Resolution::Value(value.to_vec()),
            Err(()) => (self.resolve)(&self.path, sides)?,
        };
        match resolution {
            Resolution::Value(value) => self.merged.tree.add(&self.path, &value),
            Resolution::Removed => self.merged.tree.remove(&self.path),
            Resolution::Conflict => {
                self.conflict(b, o, t);
                Ok(())
            }
        }
    }

    /// Puts their version at the path: a directory, or nothing.
    fn take_theirs(&mut self, theirs: Option<&Slot>) -> Result<()> {
        match theirs {
            Some(slot) => self.merged.tree.add_tree(&self.path, &self.theirs.at(slot.clone())),
            None => self.merged.tree.remove(&self.path),
        }
    }

    fn conflict(&mut self, base: Option<&Slot>, ours: Option<&Slot>, theirs: Option<&Slot>) {
        let at = |tree: &Tree, slot: Option<&Slot>| slot.map(|slot| tree.at(slot.clone()));
        self.merged.conflicts.push(Conflict {
            path: self.path.clone(),
            base: at(self.base, base),
            ours: at(self.ours, ours),
            theirs: at(self.theirs, theirs),
        });
    }

    /// Leaves the children that they changed to be merged, so that they come off the stack by name.
    fn descend(&mut self, b: Option<&Slot>, o: Option<&Slot>, t: Option<&Slot>) -> Result<()> {
        let open = |tree: &Tree, slot: Option<&Slot>| slot.map_or(Ok(None), |slot| tree.open(slot));
        let (base, ours, theirs) =
            (open(self.base, b)?, open(self.ours, o)?, open(self.theirs, t)?);
        let (mut left, mut right): (Vec<Item>, Vec<Item>) = (Vec::new(), Vec::new());
        self.base.unequal(self.theirs, base.as_ref(), theirs.as_ref(), &mut left, &mut right)?;
        left.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        right.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let depth = self.path.len() + 1;
        loop {
            let name = left.last().map(|item| &item.0).max(right.last().map(|item| &item.0));
            let Some(name) = name.cloned() else { return Ok(()) };
            let take =
                |items: &mut Vec<Item>| items.pop_if(|item| item.0 == name).map(|item| item.1);
            let (base, theirs) = (take(&mut left), take(&mut right));
            let ours = match &ours {
                Some(node) => self.ours.directories().find(node, &name)?,
                None => None,
            };
            self.stack.push(Disagreement { depth, name, base, ours, theirs });
        }
    }
}
