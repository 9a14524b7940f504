//! Which children of a node changed, so that a walk visits those and a patch names them, and neither
//! looks at the rest or at what the node was.
//!
//! A record of a node may be a patch of a *base*. Changes are known since two moments: since the
//! node's own record (those are *recent*: only they can be live), and since the base of that record,
//! so that the next patch can be of the same base and the chain stays short.

use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};
use crate::prefetch;

/// The moment since which changes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// The record that the node was read from or written as.
    Record,
    /// The base of that record.
    Base,
}

/// What a node was written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Full,
    /// A patch of what it says since then.
    Patch(Since),
}

#[derive(Clone, Copy, Debug)]
struct Changed {
    /// Where the child is now.
    index: u32,
    recent: bool,
    /// It was not there in the base, in the record.
    added: bool,
    added_recently: bool,
}

/// The changes of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Whether the node has a record; all of it is new otherwise.
    tracked: bool,
    /// Children went that were there in the base, in the record.
    removed: bool,
    removed_recently: bool,
    /// By place.
    list: Vec<Changed>,
}

impl Changes {
    /// Those of a node that is as its full record says.
    pub(crate) fn none() -> Changes {
        Changes { tracked: true, ..Changes::default() }
    }

    fn search(&self, index: usize) -> std::result::Result<usize, usize> {
        self.list.binary_search_by_key(&(index as u32), |changed| changed.index)
    }

    /// Child `index` is another.
    pub(crate) fn replace(&mut self, index: usize) {
        if !self.tracked {
            return;
        }
        match self.search(index) {
            Ok(place) => self.list[place].recent = true,
            Err(place) => {
                let index = index as u32;
                let changed = Changed { index, recent: true, added: false, added_recently: false };
                self.list.insert(place, changed);
            }
        }
    }

    /// Child `index` is new, and those from there on moved up.
    pub(crate) fn insert(&mut self, index: usize) {
        if !self.tracked {
            return;
        }
        let (Ok(place) | Err(place)) = self.search(index);
        self.list[place..].iter_mut().for_each(|changed| changed.index += 1);
        let index = index as u32;
        let changed = Changed { index, recent: true, added: true, added_recently: true };
        self.list.insert(place, changed);
    }

    /// Child `index` is gone, and those behind it moved down.
    pub(crate) fn remove(&mut self, index: usize) {
        if !self.tracked {
            return;
        }
        let place = match self.search(index) {
            Ok(place) => {
                let changed = self.list.remove(place);
                self.removed |= !changed.added;
                self.removed_recently |= !changed.added_recently;
                place
            }
            Err(place) => {
                (self.removed, self.removed_recently) = (true, true);
                place
            }
        };
        self.list[place..].iter_mut().for_each(|changed| changed.index -= 1);
    }

    /// How many steps a walk over what may be live takes in a node of `width` children.
    pub(crate) fn steps(&self, width: usize) -> usize {
        if self.tracked { self.list.len() } else { width }
    }

    /// The child that is visited at a step, if it changed recently.
    #[inline]
    pub(crate) fn at(&self, step: usize) -> Option<usize> {
        if !self.tracked {
            return Some(step);
        }
        let changed = self.list[step];
        changed.recent.then_some(changed.index as usize)
    }

    /// How many children changed.
    pub(crate) fn count(&self, since: Since) -> usize {
        match since {
            Since::Base => self.list.len(),
            Since::Record => self.list.iter().filter(|changed| changed.recent).count(),
        }
    }

    /// How many children are new since the base.
    pub(crate) fn added(&self) -> usize {
        self.list.iter().filter(|changed| changed.added).count()
    }

    /// The children that changed, in order, and whether each is new; none when children went, which
    /// only a comparison can name.
    pub(crate) fn since(&self, since: Since) -> Option<impl Iterator<Item = (usize, bool)>> {
        let removed = match since {
            Since::Base => self.removed,
            Since::Record => self.removed_recently,
        };
        (self.tracked && !removed).then(|| {
            self.list.iter().filter_map(move |changed| match since {
                Since::Base => Some((changed.index as usize, changed.added)),
                Since::Record if changed.recent => {
                    Some((changed.index as usize, changed.added_recently))
                }
                Since::Record => None,
            })
        })
    }

    /// The node has a new record.
    pub(crate) fn settle(&mut self, form: Form) {
        match form {
            Form::Full => *self = Changes::none(),
            Form::Patch(Since::Record) => {
                self.list.retain(|changed| changed.recent);
                self.removed = self.removed_recently;
                for changed in &mut self.list {
                    changed.added = changed.added_recently;
                }
            }
            Form::Patch(Since::Base) => {}
        }
        self.removed_recently = false;
        for changed in &mut self.list {
            (changed.recent, changed.added_recently) = (false, false);
        }
    }

    /// Appends those of a clean node: how many there are, then each one's place and whether it is new.
    pub(crate) fn put(&self, out: &mut Encoder) {
        debug_assert!(self.tracked && self.list.iter().all(|changed| !changed.recent));
        out.varint((self.list.len() as u64) << 1 | u64::from(self.removed));
        for changed in &self.list {
            out.varint(u64::from(changed.index) << 1 | u64::from(changed.added));
        }
    }

    /// Empties them but for the memory that they have.
    pub(crate) fn empty(&mut self) {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        *self = Changes { list, ..Changes::default() };
    }

    /// Takes what [`Changes::put`] appended into those of nothing.
    pub(crate) fn take(&mut self, from: &mut Decoder<'_>) -> Result<()> {
        let head = from.varint()?;
        (self.tracked, self.removed) = (true, head & 1 == 1);
        self.list.reserve_exact((head >> 1).min(from.remaining() as u64) as usize);
        for _ in 0..head >> 1 {
            let one = from.varint()?;
            let (index, added) = ((one >> 1) as u32, one & 1 == 1);
            self.list.push(Changed { index, recent: false, added, added_recently: false });
        }
        Ok(())
    }

    /// Asks for the memory where they begin.
    pub(crate) fn prefetch(&self) {
        self.list.first().into_iter().for_each(prefetch::line);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.list.capacity() * size_of::<Changed>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Children by a number of their own and a version, changed at random; what the changes say must
    /// make the node now out of what it was, at both moments.
    #[test]
    fn changes_lead_from_what_was_to_what_is() {
        for seed in 1..200u64 {
            let mut state = seed;
            let mut random = move |bound: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % bound
            };
            let mut now: Vec<u32> = (0..10).collect();
            let (mut base, mut record) = (now.clone(), now.clone());
            let mut changes = Changes::none();
            let mut fresh = 100;
            for _ in 0..120 {
                fresh += 1;
                match random(8) {
                    0..3 if !now.is_empty() => {
                        let index = random(now.len());
                        now[index] = fresh;
                        changes.replace(index);
                    }
                    3..5 => {
                        let index = random(now.len() + 1);
                        now.insert(index, fresh);
                        changes.insert(index);
                    }
                    5 if now.len() > 1 && random(4) == 0 => {
                        let index = random(now.len());
                        now.remove(index);
                        changes.remove(index);
                    }
                    6 => {
                        let form = match random(3) {
                            0 => Form::Full,
                            1 => Form::Patch(Since::Record),
                            _ => Form::Patch(Since::Base),
                        };
                        match form {
                            Form::Full => base.clone_from(&now),
                            Form::Patch(Since::Record) => base.clone_from(&record),
                            Form::Patch(Since::Base) => {}
                        }
                        record.clone_from(&now);
                        changes.settle(form);
                        assert!(
                            (0..changes.steps(now.len())).all(|step| changes.at(step).is_none())
                        );
                    }
                    _ => {}
                }
                for (since, was) in [(Since::Base, &base), (Since::Record, &record)] {
                    let went = was.iter().any(|child| !now.contains(child));
                    let Some(changed) = changes.since(since) else {
                        assert!(went, "only children that went need a comparison");
                        continue;
                    };
                    let (mut made, mut old) = (Vec::new(), was.iter());
                    for (index, added) in changed {
                        made.extend(old.by_ref().take(index - made.len()));
                        made.push(now[index]);
                        if !added {
                            old.next();
                        }
                    }
                    made.extend(old);
                    assert_eq!(made, now, "seed {seed}, {since:?}");
                    assert_eq!(changes.since(since).unwrap().count(), changes.count(since));
                }
            }
        }
    }

    #[test]
    fn a_new_node_is_visited_whole() {
        let mut changes = Changes::default();
        changes.insert(0);
        assert_eq!((changes.steps(3), changes.at(2)), (3, Some(2)));
        assert!(changes.since(Since::Record).is_none());
    }
}
