//! Visiting a tree in pre-order.

use std::sync::Arc;

use super::{Kind, Tree};
use crate::context::observer::Operation;
use crate::context::pieces::node::{Body, Node, Slot, Target};
use crate::error::Result;
use crate::order;
use crate::trace::{Action, Walk};

/// Which depths below the start are visited; 0 is the start itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Exactly this one.
    Eq(usize),
    /// Those above it.
    Lt(usize),
    /// This one and those above it.
    Le(usize),
    /// Those below it.
    Gt(usize),
    /// This one and those below it.
    Ge(usize),
}

impl Depth {
    fn includes(self, depth: usize) -> bool {
        match self {
            Depth::Eq(bound) => depth == bound,
            Depth::Lt(bound) => depth < bound,
            Depth::Le(bound) => depth <= bound,
            Depth::Gt(bound) => depth > bound,
            Depth::Ge(bound) => depth >= bound,
        }
    }

    /// Whether anything below `depth` can be included.
    fn goes_below(self, depth: usize) -> bool {
        match self {
            Depth::Eq(bound) | Depth::Le(bound) => depth < bound,
            Depth::Lt(bound) => depth + 1 < bound,
            Depth::Gt(_) | Depth::Ge(_) => true,
        }
    }
}

impl Depth {
    /// The number of its kind in a trace, from 1 on, and its bound.
    fn numbers(self) -> (u64, u64) {
        let (kind, bound) = match self {
            Depth::Eq(bound) => (1, bound),
            Depth::Lt(bound) => (2, bound),
            Depth::Le(bound) => (3, bound),
            Depth::Gt(bound) => (4, bound),
            Depth::Ge(bound) => (5, bound),
        };
        (kind, bound as u64)
    }
}

/// The order of the children of one directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// By name. A directory above the flat limit is gathered in memory to sort it.
    #[default]
    Sorted,
    /// As stored: one piece at a time, in bounded memory.
    Undefined,
}

/// What is called with path and subtree.
type EachTree<'a> = &'a mut dyn FnMut(&[Vec<u8>], &Tree) -> Result<()>;

/// Children of one directory still to be visited.
enum Rest {
    Sorted(std::vec::IntoIter<(Vec<u8>, Slot)>),
    /// Pieces on the way down, each with the place of its next child.
    Stored(Vec<(Arc<Node>, usize)>),
}

impl Tree {
    /// Calls `each` with the path relative to `path` and the subtree there, a directory before its
    /// children. Calls it not at all when `path` leads nowhere or to a value. An error of `each` ends
    /// the fold and is returned.
    pub fn fold<S: AsRef<[u8]>>(
        &self,
        path: &[S],
        depth: Option<Depth>,
        order: Order,
        mut each: impl FnMut(&[Vec<u8>], &Tree) -> Result<()>,
    ) -> Result<()> {
        let _span = self.span(Operation::Fold, path);
        // What is visited has no number that a recorder knows: it is told of it when a call takes it.
        let start = || Ok(self.slot(path, None)?.map(|slot| self.at(slot)));
        if self.traced.is_none() {
            return self.visit(start()?, depth, order, &mut each);
        }
        let mut walk = Walk::begin(self.traced.as_ref());
        let visited = &mut |steps: &[Vec<u8>], tree: &Tree| {
            // Nobody promises another order.
            let told = steps.last().filter(|_| order == Order::Sorted).map(Vec::as_slice);
            walk.ask(|digest| digest.add(told), || each(steps, tree))
        };
        let outcome = start().and_then(|start| self.visit(start, depth, order, visited));
        let (kind, bound) = depth.map_or((0, 0), Depth::numbers);
        let (order, ended_at) = (u64::from(order == Order::Undefined), walk.ended_at());
        walk.end(
            Action::Fold,
            |to| to.path(path).number(kind).number(bound).number(order).number(ended_at),
            &outcome,
        );
        outcome
    }

    /// As a fold, from `start` on; made once, whatever is done with what it visits.
    fn visit(
        &self,
        start: Option<Tree>,
        depth: Option<Depth>,
        order: Order,
        each: EachTree<'_>,
    ) -> Result<()> {
        let depth = depth.unwrap_or(Depth::Ge(0));
        let Some(start) = start else { return Ok(()) };
        if start.kind() == Kind::Value {
            return Ok(());
        }
        let mut steps: Vec<Vec<u8>> = Vec::new();
        if depth.includes(0) {
            each(&steps, &start)?;
        }
        if !depth.goes_below(0) {
            return Ok(());
        }
        let mut stack = vec![self.rest(start.root(), order)?];
        while let Some(rest) = stack.last_mut() {
            let Some((name, slot)) = self.next_child(rest)? else {
                stack.pop();
                steps.pop();
                continue;
            };
            steps.push(name);
            if depth.includes(steps.len()) {
                each(&steps, &self.at(slot.clone()))?;
            }
            if !slot.is_value() && depth.goes_below(steps.len()) {
                stack.push(self.rest(&slot, order)?);
            } else {
                steps.pop();
            }
        }
        Ok(())
    }

    fn rest(&self, slot: &Slot, order: Order) -> Result<Rest> {
        let node = self.open(slot)?.expect("only directories are entered");
        match (order, &node.body) {
            (Order::Sorted, Body::Branch(_)) => {
                // A made-up proof may say any number.
                let mut children = Vec::with_capacity(node.count().min(1 << 12) as usize);
                self.directories().gather(&node, &mut children)?;
                order::sort_by(&mut children, |a, b| a.0.cmp(&b.0));
                Ok(Rest::Sorted(children.into_iter()))
            }
            // A leaf is stored by name.
            _ => Ok(Rest::Stored(vec![(node, 0)])),
        }
    }

    fn next_child(&self, rest: &mut Rest) -> Result<Option<(Vec<u8>, Slot)>> {
        let pieces = match rest {
            Rest::Sorted(children) => return Ok(children.next()),
            Rest::Stored(pieces) => pieces,
        };
        while let Some((node, next)) = pieces.last_mut() {
            let index = *next;
            *next += 1;
            match &node.body {
                Body::Leaf { leaf, .. } if index < leaf.len() => {
                    return Ok(Some((leaf.name(index).to_vec(), leaf.slot(index).apart())));
                }
                Body::Branch(branch) if index < branch.pointers.len() => {
                    let piece = match &branch.pointers[index].target {
                        Target::Live(node) => Arc::clone(node),
                        Target::Stored(offset) => self.directories().stored(*offset)?,
                    };
                    pieces.push((piece, 0));
                }
                _ => {
                    pieces.pop();
                }
            }
        }
        Ok(None)
    }
}
