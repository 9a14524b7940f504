//! Reads all of a store and recomputes every hash.

use std::collections::HashSet;
use std::rc::Rc;

use super::index::Row;
use super::reader::{Reader, SHAPE_ADVICE};
use super::space::From;
use super::unindexed;
use crate::context::Checked;
use crate::context::pieces::node::{Body, Load, Node, Slot, Target};
use crate::context::store::FAULTS_MAX;
use crate::error::{Error, Kind, Result};
use crate::irmin_pack::format::entry::EntryKind;

/// Buckets on the way to a piece of a directory, the last first.
struct Way {
    bucket: u16,
    depth: u32,
    above: Option<Rc<Way>>,
}

struct Check<'a> {
    reader: &'a Reader,
    checked: Checked,
    seen: HashSet<u64>,
}

/// Checks the commits at `commits` with all that they reach, and every entry of the index. `Corrupt`
/// at the first object that is damaged; what was collected is counted. Commits that the index lacks are
/// checked too, and told. The index and these belong to the first part of a check.
pub(super) fn check(reader: &Reader, commits: &[u64], is_first: bool) -> Result<Checked> {
    let mut check = Check { reader, checked: Checked::default(), seen: HashSet::new() };
    let mut unindexed = Vec::new();
    if is_first {
        check.index()?;
        unindexed = check.unindexed()?;
    }
    let mut commits: Vec<u64> = commits.iter().copied().chain(unindexed).collect();
    commits.sort_unstable_by(|a, b| b.cmp(a));
    commits.dedup();
    for offset in &commits {
        match reader.commit(*offset) {
            Ok(commit) => {
                check.checked.commits += 1;
                if let Slot::StoredNode(root) = commit.root {
                    let what = format!("commit {}", reader.schema.text(&commit.hash));
                    check.below(root, &what)?;
                }
            }
            Err(error) if error.kind() == Kind::Missing => check.checked.collected += 1,
            // The index leads beyond the end: said there.
            Err(_) if *offset >= reader.space.end() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(check.checked)
}

fn note(faults: &mut Vec<String>, fault: String) {
    if faults.len() < FAULTS_MAX {
        faults.push(fault);
    }
}

impl Check<'_> {
    /// Whether each entry of the index leads to the object that it names.
    fn index(&mut self) -> Result<()> {
        let Check { reader, checked, .. } = self;
        reader.index.scan(&mut |file, place, row| {
            let fault = match Self::row(reader, &row) {
                Ok(None) => return Ok(()),
                Ok(Some(fault)) => fault,
                Err(error) if error.kind() == Kind::Io => return Err(error),
                Err(error) => error.detail().to_owned(),
            };
            let kind = EntryKind::of(row.letter).map_or("unknown kind", EntryKind::name);
            let text = reader.schema.text(&row.hash);
            let offset = row.offset;
            note(
                &mut checked.index_faults,
                format!("{file} at byte {place}: {kind} {text} at offset {offset}: {fault}"),
            );
            Ok(())
        })
    }

    /// Tells of commits that are in the pack and not in the index: their offsets.
    fn unindexed(&mut self) -> Result<Vec<u64>> {
        let Check { reader, checked, .. } = self;
        let found = unindexed::find(reader)?;
        let folder = &reader.index.folder;
        let text = |hash| reader.schema.text(hash);
        for (offset, hash) in &found.commits {
            let hash = text(hash);
            note(
                &mut checked.index_faults,
                format!("{folder}: commit {hash} at offset {offset} of the pack is missing"),
            );
        }
        for (commit, parent) in &found.nowhere {
            let (commit, parent) = (text(commit), text(parent));
            note(
                &mut checked.index_faults,
                format!("{folder}: commit {parent}, a parent of {commit}, is missing"),
            );
        }
        if let Some(error) = &found.stopped {
            note(
                &mut checked.index_faults,
                format!("{folder}: what else is missing cannot be told: {}", error.detail()),
            );
        }
        Ok(found.commits.into_iter().map(|(offset, _)| offset).collect())
    }

    fn row(reader: &Reader, row: &Row) -> Result<Option<String>> {
        let (entry, _) = match reader.head(row.offset, From::Anywhere) {
            Err(error) if error.kind() == Kind::Missing => return Ok(None),
            outcome => outcome?,
        };
        let head = entry.head;
        let gone = head.kind == EntryKind::CommitGone && row.is_commit();
        if head.hash != row.hash {
            return Ok(Some(format!("there is {}", reader.schema.text(&head.hash))));
        }
        if head.kind as u8 != row.letter && !gone {
            return Ok(Some(format!("there is {}", head.kind.name())));
        }
        let length = head.length.filter(|length| *length != u64::from(row.length));
        Ok(length.map(|length| format!("it has {length} bytes, not {}", row.length)))
    }

    /// Checks what is below the directory that `what` names.
    fn below(&mut self, root: u64, what: &str) -> Result<()> {
        let mut stack: Vec<(u64, Option<Rc<Way>>)> = vec![(root, None)];
        while let Some((reference, way)) = stack.pop() {
            if !self.seen.insert(reference) {
                continue;
            }
            let node = match self.reader.node(reference) {
                Ok(node) => node,
                Err(error) if error.kind() == Kind::Missing => {
                    note(&mut self.checked.missing, format!("{what}: {error}"));
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.checked.nodes += 1;
            match &node.body {
                Body::Leaf { leaf, .. } => {
                    self.placed(reference, &node, way.as_deref())?;
                    for index in 0..leaf.len() {
                        match leaf.slot(index) {
                            Slot::StoredNode(child) => stack.push((*child, None)),
                            Slot::StoredValue(child) => self.value(*child, what)?,
                            _ => {}
                        }
                    }
                }
                Body::Branch(branch) => {
                    for pointer in &branch.pointers {
                        let (bucket, depth) = (pointer.bucket, branch.depth);
                        let way = Rc::new(Way { bucket, depth, above: way.clone() });
                        if let Target::Stored(child) = pointer.target {
                            stack.push((child, Some(way)));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, reference: u64, what: &str) -> Result<()> {
        if !self.seen.insert(reference) {
            return Ok(());
        }
        match self.reader.value(reference) {
            Ok(_) => self.checked.values += 1,
            Err(error) if error.kind() == Kind::Missing => {
                note(&mut self.checked.missing, format!("{what}: {error}"));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether the names of a leaf belong to the buckets that led to it.
    fn placed(&self, reference: u64, node: &Node, way: Option<&Way>) -> Result<()> {
        let Body::Leaf { leaf, .. } = &node.body else { return Ok(()) };
        let mut next = way;
        while let Some(way) = next {
            for index in 0..leaf.len() {
                let found = self.reader.bucket(leaf.name(index), u64::from(way.depth));
                if found != u64::from(way.bucket) {
                    let (entry, _) =
                        self.reader.head(self.reader.offset(reference)?, From::Anywhere)?;
                    return Err(Error::corrupt(
                        &entry.file,
                        entry.place,
                        format_args!("names of bucket {} at depth {}", way.bucket, way.depth),
                        format_args!("one of {found}"),
                    )
                    .advised(SHAPE_ADVICE));
                }
            }
            next = way.above.as_deref();
        }
        Ok(())
    }
}
