//! The working tree: paths to values, copied on write in pieces, loaded when looked at.
//!
//! A clone is a save point that costs one reference count. A change copies the pieces on its path,
//! those only that another handle shares. Nothing here recurses over the depth of the tree.
//! Semantics: those of Octez' context (directories exist only while they hold something).

mod adopt;
mod bindings;
mod diff;
mod fold;
mod memory;
mod merge;
mod recorded;

use std::fmt;
use std::sync::Arc;

pub use bindings::directory_hash;
pub use diff::Change;
pub use fold::{Depth, Order};
use memory::{CHANGE_BYTES, Counted, ENTRY_BYTES};
pub use merge::{Conflict, Merged, Resolution, Sides};
pub(crate) use merge::{Resolve, told};

use super::configuration::Configuration;
use super::hash::{self, TreeHash};
use super::observer::{Operation, Span, Tally};
use super::pieces::digest;
use super::pieces::directory::{Directories, Passed};
use super::pieces::entry;
use super::pieces::node::{Load, Node, Slot};
use crate::error::{Error, Result};
use crate::trace::{self, Action, Answer, Traced};

/// The longest name of a child in bytes.
pub const NAME_MAX: usize = 1 << 16;

/// The longest value in bytes.
pub const VALUE_MAX: usize = 1 << 28;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Value,
    /// A directory.
    Directory,
}

/// A versioned tree of values: a handle to one state, cheap to clone.
///
/// Every call may read what is not in memory, and fails then as a read does: `Io`, `Corrupt` where an object is damaged or its file
/// gone, `Missing` where it is in a lower folder that was not given, `Collected` where a collection took it, and `Hidden` in a tree
/// made of a proof that does not show it. A change that fails changes nothing.
///
/// ```
/// use varvite::context::{Configuration, Tree};
/// # fn main() -> varvite::Result<()> {
/// let mut tree = Tree::empty(Configuration::TEZOS);
/// tree.add(&["data", "version"], b"genesis")?;
/// let before = tree.clone();
/// tree.remove(&["data"])?;
/// assert!(tree.is_empty()?);
/// assert_eq!(before.find(&["data", "version"])?.as_deref(), Some(&b"genesis"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tree {
    configuration: Configuration,
    load: Option<Arc<dyn Load>>,
    root: Slot,
    /// About how many bytes became live since the tree was last written out.
    live_bytes: u64,
    /// The same ever, with what was copied of what other handles have.
    made_bytes: u64,
    /// It never spills.
    stays_live: bool,
    /// What a recorder knows it by.
    traced: Option<Traced>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stored_at() {
            Some(offset) => write!(f, "Tree(stored at {offset})"),
            None => f.write_str("Tree(in memory)"),
        }
    }
}

impl Tree {
    /// The empty tree.
    #[must_use]
    pub fn empty(configuration: Configuration) -> Tree {
        Tree::of(configuration, None, Slot::empty_directory())
    }

    fn of(configuration: Configuration, load: Option<Arc<dyn Load>>, root: Slot) -> Tree {
        let (live_bytes, made_bytes, stays_live) = (0, 0, false);
        Tree { configuration, load, root, live_bytes, made_bytes, stays_live, traced: None }
    }

    /// A tree that is one value.
    #[must_use]
    pub fn of_value(configuration: Configuration, value: &[u8]) -> Tree {
        Tree::of(configuration, None, Slot::value(value))
    }

    /// The tree at a place of a pack.
    pub(crate) fn stored(configuration: Configuration, load: Arc<dyn Load>, root: Slot) -> Tree {
        Tree::of(configuration, Some(load), root)
    }

    pub(crate) fn root(&self) -> &Slot {
        &self.root
    }

    pub(crate) fn set_root(&mut self, load: Arc<dyn Load>, root: Slot) {
        self.load = Some(load);
        self.root = root;
        self.live_bytes = 0;
    }

    pub(crate) fn load(&self) -> Option<&Arc<dyn Load>> {
        self.load.as_ref()
    }

    pub(crate) fn directories(&self) -> Directories<'_> {
        self.counted_directories(None)
    }

    /// The same, of which `tally` counts the pieces.
    fn counted_directories<'a>(&'a self, tally: Option<&'a Tally>) -> Directories<'a> {
        Directories { configuration: self.configuration, load: self.load.as_deref(), tally }
    }

    /// The hash configuration.
    pub fn configuration(&self) -> Configuration {
        self.configuration
    }

    fn at(&self, root: Slot) -> Tree {
        Tree::of(self.configuration, self.load.clone(), root)
    }

    /// The directory in `slot`, unless it is a value.
    pub(crate) fn open(&self, slot: &Slot) -> Result<Option<Arc<Node>>> {
        match slot {
            Slot::Node(node) => Ok(Some(Arc::clone(node))),
            Slot::StoredNode(offset) => self.directories().stored(*offset).map(Some),
            Slot::Embedded(bytes) => entry::embedded_node(bytes).map(|node| Some(Arc::new(node))),
            _ => Ok(None),
        }
    }

    /// The bytes in `slot`, unless it is a directory.
    pub(crate) fn bytes(&self, slot: &Slot) -> Result<Option<Vec<u8>>> {
        match slot {
            Slot::Inline { length, bytes } => Ok(Some(bytes[..usize::from(*length)].to_vec())),
            Slot::Value(value) => Ok(Some(value.to_vec())),
            Slot::StoredValue(offset) => {
                let load = self.load.as_ref().expect("a stored value comes from a pack");
                load.value_bytes(*offset).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether `value` is in `slot`.
    fn holds(&self, slot: &Slot, value: &[u8]) -> Result<bool> {
        Ok(match slot {
            Slot::Inline { length, bytes } => bytes[..usize::from(*length)] == *value,
            Slot::Value(held) => **held == *value,
            Slot::StoredValue(offset) => {
                let load = self.load.as_ref().expect("a stored value comes from a pack");
                load.equals(*offset, value)?
            }
            _ => false,
        })
    }

    /// What is at `path`.
    fn slot<S: AsRef<[u8]>>(&self, path: &[S], tally: Option<&Tally>) -> Result<Option<Slot>> {
        let (known, slot) = self.walk(path, tally)?;
        Ok((known == path.len()).then_some(slot))
    }

    /// How many steps of `path` lead somewhere, and what is there.
    fn walk<S: AsRef<[u8]>>(&self, path: &[S], tally: Option<&Tally>) -> Result<(usize, Slot)> {
        let directories = self.counted_directories(tally);
        // A path of a usual length takes no memory of its own.
        let (mut few, many): ([&[u8]; 16], Vec<&[u8]>);
        let steps = if path.len() <= 16 {
            few = [&[]; 16];
            few.iter_mut().zip(path).for_each(|(to, step)| *to = step.as_ref());
            &few[..path.len()]
        } else {
            many = path.iter().map(AsRef::as_ref).collect();
            &many
        };
        let (mut known, mut slot, is_end) = Self::pass_live(&directories, &self.root, steps)?;
        while !is_end && known < steps.len() {
            let rest = &steps[known..];
            let found = match &slot {
                Slot::Node(node) => directories.find_path(node, rest)?,
                Slot::StoredNode(offset) => directories.find_stored(*offset, rest)?,
                Slot::Embedded(bytes) => entry::find_embedded(bytes, rest)?,
                _ => None,
            };
            let Some((taken, next)) = found else { break };
            (known, slot) = (known + taken, next);
        }
        Ok((known, slot))
    }

    /// How many steps lead through what is live and to the first that is not, what is there, and whether none leads on.
    fn pass_live(
        directories: &Directories<'_>,
        root: &Slot,
        steps: &[&[u8]],
    ) -> Result<(usize, Slot, bool)> {
        let Slot::Node(root) = root else { return Ok((0, root.clone(), false)) };
        let (mut known, mut node) = (0, root);
        while known < steps.len() {
            match directories.pass(node, &steps[known..])? {
                Passed::Live(next) => (known, node) = (known + 1, next),
                Passed::Slot(Some((taken, slot))) => return Ok((known + taken, slot, false)),
                Passed::Slot(None) => break,
            }
        }
        Ok((known, Slot::Node(Arc::clone(node)), true))
    }

    /// The value at `path`; none when nothing is there, or a directory.
    ///
    /// Reads at most one object per piece of each directory on the path that no cache holds.
    pub fn find<S: AsRef<[u8]>>(&self, path: &[S]) -> Result<Option<Vec<u8>>> {
        trace::inner_call(
            self.traced.as_ref(),
            Action::Find,
            |to| to.path(path),
            |found: &Option<Vec<u8>>| trace::found(found.as_deref()),
            || {
                let span = self.span(Operation::Find, path);
                match self.slot(path, span.as_ref().map(Span::tally))? {
                    Some(slot) => self.bytes(&slot),
                    None => Ok(None),
                }
            },
        )
    }

    /// Whether a value is at `path`. Never reads the value.
    pub fn mem<S: AsRef<[u8]>>(&self, path: &[S]) -> Result<bool> {
        trace::inner_call(
            self.traced.as_ref(),
            Action::Mem,
            |to| to.path(path),
            |found| Answer::Flag(*found),
            || {
                let span = self.span(Operation::Mem, path);
                Ok(self
                    .slot(path, span.as_ref().map(Span::tally))?
                    .is_some_and(|slot| slot.is_value()))
            },
        )
    }

    /// Whether anything is at `path`, a value or a directory.
    pub fn mem_tree<S: AsRef<[u8]>>(&self, path: &[S]) -> Result<bool> {
        trace::inner_call(
            self.traced.as_ref(),
            Action::MemTree,
            |to| to.path(path),
            |found| Answer::Flag(*found),
            || {
                let span = self.span(Operation::MemTree, path);
                Ok(self.slot(path, span.as_ref().map(Span::tally))?.is_some())
            },
        )
    }

    /// What is at `path`, as a tree of its own; the whole for the empty path.
    pub fn find_tree<S: AsRef<[u8]>>(&self, path: &[S]) -> Result<Option<Tree>> {
        recorded::found_tree(self.traced.as_ref(), path, || {
            let span = self.span(Operation::FindTree, path);
            Ok(self.slot(path, span.as_ref().map(Span::tally))?.map(|slot| self.at(slot)))
        })
    }

    /// Whether this is a value or a directory.
    pub fn kind(&self) -> Kind {
        if self.root.is_value() { Kind::Value } else { Kind::Directory }
    }

    /// Logical offset at which the store has it; none where it is not stored, or within its parent's record. Two that
    /// are equal may be stored twice.
    pub fn stored_at(&self) -> Option<u64> {
        match &self.root {
            Slot::StoredNode(offset) | Slot::StoredValue(offset) => Some(*offset),
            _ => None,
        }
    }

    /// The value, if the tree is one.
    pub fn to_value(&self) -> Result<Option<Vec<u8>>> {
        self.bytes(&self.root)
    }

    /// Whether it is a directory without entries; a value is never empty.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.open(&self.root)?.is_some_and(|node| node.width() == 0))
    }

    /// How many children the directory at `path` has; 0 for a value or nothing. Reads no child.
    pub fn length<S: AsRef<[u8]>>(&self, path: &[S]) -> Result<u64> {
        trace::inner_call(
            self.traced.as_ref(),
            Action::Length,
            |to| to.path(path),
            |length| Answer::Number(*length),
            || {
                let span = self.span(Operation::Length, path);
                match self.slot(path, span.as_ref().map(Span::tally))? {
                    Some(slot) => Ok(self.open(&slot)?.map_or(0, |node| node.count())),
                    None => Ok(0),
                }
            },
        )
    }

    /// Up to `length` children of the directory at `path` after the first `offset`, in stored order:
    /// by name up to the flat limit, by bucket above it. Costs the page: pieces before it are skipped
    /// by their counts. Empty for a value or nothing.
    pub fn list<S: AsRef<[u8]>>(
        &self,
        path: &[S],
        offset: u64,
        length: u64,
    ) -> Result<Vec<(Vec<u8>, Tree)>> {
        trace::inner_call(
            self.traced.as_ref(),
            Action::List,
            |to| to.path(path).number(offset).number(length),
            |page: &Vec<_>| recorded::listed(page),
            || {
                let span = self.span(Operation::List, path);
                let Some(mut slot) = self.slot(path, span.as_ref().map(Span::tally))? else {
                    return Ok(Vec::new());
                };
                if self.directories().settles_late() {
                    self.directories().settle(&mut slot)?;
                }
                let Some(node) = self.open(&slot)? else { return Ok(Vec::new()) };
                let mut page = Vec::new();
                self.directories().page(
                    &node,
                    &mut offset.clone(),
                    &mut length.clone(),
                    &mut page,
                )?;
                Ok(page.into_iter().map(|(name, slot)| (name, self.at(slot))).collect())
            },
        )
    }

    /// Binds `value` at `path`. A directory there is replaced, and so is a value on the way, by a
    /// directory. The empty path makes the tree that value. `Invalid` when a name is longer than
    /// [`NAME_MAX`], the value longer than [`VALUE_MAX`], or the directory cannot represent the name;
    /// then nothing is changed.
    pub fn add<S: AsRef<[u8]>>(&mut self, path: &[S], value: &[u8]) -> Result<()> {
        let begun = trace::begin_inner(self.traced.as_ref());
        let outcome = self.add_value(path, value);
        trace::end(
            self.traced.as_ref(),
            begun,
            Action::Add,
            |to| to.path(path).bytes(value),
            &outcome,
        );
        outcome
    }

    fn add_value<S: AsRef<[u8]>>(&mut self, path: &[S], value: &[u8]) -> Result<()> {
        let span = self.span_of_change(Operation::Add, path);
        let tally = span.as_ref().map(Span::tally);
        check_value(path, value.len())?;
        let (known, slot) = self.walk(path, tally)?;
        if known == path.len() && self.holds(&slot, value)? {
            return Ok(());
        }
        // Held nodes would look shared, and be copied.
        drop(slot);
        self.put(path, known, Slot::value(value), tally)
    }

    /// Binds `tree` at `path` in O(path), sharing it. An empty tree removes what is there. A tree of
    /// another store is copied, because its offsets mean nothing here; of one of another handle of this
    /// store only what this handle has not, for one look at each piece where the two meet.
    pub fn add_tree<S: AsRef<[u8]>>(&mut self, path: &[S], tree: &Tree) -> Result<()> {
        let Some(traced) = &self.traced else { return self.bind(path, tree) };
        let given = tree.beside(traced);
        let other = given.as_ref().map_or_else(|| tree.handle(), Traced::handle);
        let recorder = Arc::clone(traced.recorder());
        let (begun, outcome) = trace::run(&recorder, || self.bind(path, tree));
        let (action, traced) = (Action::AddTree, self.traced.as_ref());
        trace::end(traced, Some(begun), action, |to| to.path(path).handle(other), &outcome);
        outcome
    }

    fn bind<S: AsRef<[u8]>>(&mut self, path: &[S], tree: &Tree) -> Result<()> {
        let span = self.span_of_change(Operation::AddTree, path);
        let tally = span.as_ref().map(Span::tally);
        self.same_configuration(tree)?;
        if tree.is_empty()? {
            return self.remove_at(path);
        }
        // What is shared its own handle has made.
        let (mut live_bytes, mut made_bytes) = (tree.live_bytes, 0);
        let root = match (&self.load, &tree.load) {
            (_, None) => tree.root.clone(),
            (None, Some(load)) => {
                self.load = Some(Arc::clone(load));
                tree.root.clone()
            }
            (Some(own), Some(load)) if own.identity() == load.identity() => tree.root.clone(),
            (Some(own), Some(_)) => {
                let taken = tree.taken_over(own)?;
                live_bytes = taken.live_bytes;
                made_bytes = taken.made_bytes.saturating_sub(tree.made_bytes);
                taken.root
            }
        };
        self.live_bytes = self.live_bytes.saturating_add(live_bytes);
        self.made_bytes = made(self.made_bytes, made_bytes);
        let (known, slot) = self.walk(path, tally)?;
        if known == path.len() && slot.same(&root) {
            return Ok(());
        }
        drop(slot);
        self.put(path, known, root, tally)
    }

    fn same_configuration(&self, other: &Tree) -> Result<()> {
        if other.configuration == self.configuration {
            return Ok(());
        }
        Err(Error::invalid(
            "the trees have different hash configurations: rebuild one under the other's",
        ))
    }

    /// Removes what is at `path`, and the directories above that become empty with it.
    pub fn remove<S: AsRef<[u8]>>(&mut self, path: &[S]) -> Result<()> {
        let begun = trace::begin_inner(self.traced.as_ref());
        let outcome = self.remove_at(path);
        trace::end(self.traced.as_ref(), begun, Action::Remove, |to| to.path(path), &outcome);
        outcome
    }

    fn remove_at<S: AsRef<[u8]>>(&mut self, path: &[S]) -> Result<()> {
        let span = self.span_of_change(Operation::Remove, path);
        let tally = span.as_ref().map(Span::tally);
        let mut slot = self.root.clone();
        let mut keep = None;
        for (index, step) in path.iter().enumerate() {
            let Some(node) = self.open(&slot)? else { return Ok(()) };
            let Some(next) = self.counted_directories(tally).find(&node, step.as_ref())? else {
                return Ok(());
            };
            if node.count() > 1 {
                keep = Some(index);
            }
            slot = next;
        }
        // Held nodes would look shared, and be copied.
        drop(slot);
        let Some(keep) = keep else {
            self.root = Slot::empty_directory();
            return Ok(());
        };
        self.spill_if_large()?;
        self.made_bytes = made(self.made_bytes, CHANGE_BYTES * path.len() as u64);
        self.change(tally, |directories, root| {
            let mut slot = root;
            for step in &path[..keep] {
                slot = directories.slot_mut(live(directories, slot)?, step.as_ref())?;
            }
            directories.remove(live(directories, slot)?, path[keep].as_ref())
        })
    }

    /// Runs a change of the root, and counts what it makes live.
    fn change(
        &mut self,
        tally: Option<&Tally>,
        action: impl FnOnce(&Directories<'_>, &mut Slot) -> Result<()>,
    ) -> Result<()> {
        let Tree { configuration, load, root, live_bytes, made_bytes, .. } = self;
        let counted = load.as_deref().map(Counted::new);
        let load = counted.as_ref().map(|counted| counted as &dyn Load);
        let outcome = action(&Directories { configuration: *configuration, load, tally }, root);
        let (taken, copied) = counted.map_or((0, 0), |counted| counted.bytes());
        *live_bytes += taken;
        *made_bytes = made(*made_bytes, taken + copied);
        outcome
    }

    /// Binds `new` at `path`, of which `known` steps lead somewhere.
    fn put<S: AsRef<[u8]>>(
        &mut self,
        path: &[S],
        known: usize,
        new: Slot,
        tally: Option<&Tally>,
    ) -> Result<()> {
        if let Some(step) = path.iter().find(|step| step.as_ref().len() > NAME_MAX) {
            return Err(Error::invalid(format!(
                "a name of {} bytes is longer than {NAME_MAX}: choose a shorter one",
                step.as_ref().len()
            )));
        }
        let value = if let Slot::Value(value) = &new { value.len() } else { 0 };
        check_value(path, value)?;
        self.spill_if_large()?;
        let names: usize = path.iter().map(|step| step.as_ref().len()).sum();
        let steps = (path.len() - known) as u64 + 1;
        let added = (names + value) as u64 + ENTRY_BYTES * steps;
        self.live_bytes += added;
        self.made_bytes = made(self.made_bytes, added + CHANGE_BYTES * path.len() as u64);
        let most = self.configuration.stable_hash();
        self.change(tally, |directories, root| {
            let mut slot = root;
            let above = known.min(path.len().saturating_sub(1));
            for step in &path[..above] {
                slot = directories.slot_mut(live(directories, slot)?, step.as_ref())?;
            }
            if let (Slot::Embedded(bytes), [name]) = (&*slot, &path[above..])
                && let Some(bytes) = entry::with_inline(bytes, name.as_ref(), &new, most)?
            {
                *slot = Slot::Embedded(bytes);
                return Ok(());
            }
            if above < known {
                slot = directories.slot_mut(live(directories, slot)?, path[above].as_ref())?;
            }
            let Some(step) = path.get(known) else {
                *slot = new;
                return Ok(());
            };
            let mut chain = new;
            for step in path[known + 1..].iter().rev() {
                chain = directories.single(step.as_ref(), chain);
            }
            if slot.is_value() {
                *slot = directories.single(step.as_ref(), chain);
                return Ok(());
            }
            directories.insert(live(directories, slot)?, step.as_ref(), chain)
        })
    }

    /// The hash: that of the value, or of the directory as Tezos defines it. Hashes what changed
    /// since the last call, and reads the hashes of its stored siblings.
    pub fn hash(&self) -> Result<TreeHash> {
        let _span = self.span::<&[u8]>(Operation::Hash, &[]);
        self.inner_hash()
    }

    /// [`Tree::hash`] as part of a call that an observer is told of: it counts there. A recorder writes it
    /// down, one deeper.
    pub(in crate::context) fn inner_hash(&self) -> Result<TreeHash> {
        let answer = |hash: &TreeHash| Answer::Hash(**hash);
        trace::inner_call(self.traced.as_ref(), Action::Hash, |to| to, answer, || self.root_hash())
    }

    fn root_hash(&self) -> Result<TreeHash> {
        let hash = match &self.root {
            Slot::Node(_) if self.directories().settles_late() => {
                let mut root = self.root.clone();
                self.directories().settle(&mut root)?;
                let Slot::Node(node) = &root else { unreachable!("a directory stays one") };
                digest::node(node, self.load.as_deref())
            }
            Slot::Node(node) => digest::node(node, self.load.as_deref()),
            Slot::StoredNode(offset) | Slot::StoredValue(offset) => {
                self.load.as_ref().expect("a stored root comes from a pack").hash(*offset)
            }
            Slot::Embedded(bytes) => digest::embedded(bytes),
            Slot::Inline { length, bytes } => Ok(hash::value(&bytes[..usize::from(*length)])),
            Slot::Value(value) => Ok(hash::value(value)),
        };
        hash.map(TreeHash::new)
    }

    /// Whether both have the same hash and kind.
    pub fn equal(&self, other: &Tree) -> Result<bool> {
        Ok(self.kind() == other.kind() && self.hash()? == other.hash()?)
    }
}

/// `Invalid` for a value that no record may hold.
fn check_value<S: AsRef<[u8]>>(path: &[S], length: usize) -> Result<()> {
    if length <= VALUE_MAX {
        return Ok(());
    }
    let names: Vec<_> = path.iter().map(|step| step.as_ref().escape_ascii().to_string()).collect();
    Err(Error::invalid(format!(
        "the value of {length} bytes at \"{}\" is longer than {VALUE_MAX}: bind it in parts",
        names.join("/")
    )))
}

/// [`Tree::made_bytes`] after a change. The package for JavaScript has nobody who asks.
#[inline]
fn made(before: u64, bytes: u64) -> u64 {
    if cfg!(varvite_js) { before } else { before.saturating_add(bytes) }
}

/// The directory in `slot`, which is one, made live.
fn live<'n>(directories: &Directories<'_>, slot: &'n mut Slot) -> Result<&'n mut Arc<Node>> {
    match slot {
        Slot::StoredNode(offset) => *slot = Slot::Node(directories.taken(*offset)?),
        Slot::Embedded(bytes) => {
            let node = entry::embedded_node(bytes)?;
            if let Some(load) = directories.load {
                load.note(node.bytes() as u64);
                load.note_copied(node.bytes_to_come());
            }
            *slot = Slot::Node(Arc::new(node));
        }
        _ => {}
    }
    match slot {
        Slot::Node(node) => Ok(node),
        _ => unreachable!("only directories are entered"),
    }
}
