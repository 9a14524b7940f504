//! Commits that the pack has and the index lacks, because it lost a file or a part of one.
//!
//! Nothing in the index says what it lost. So the suffix is read from entry to entry, and what was collected
//! or archived is found by who names it as a parent.

use std::collections::{HashMap, HashSet};

use super::reader::Reader;
use super::space::From;
use crate::context::hash::CommitHash;
use crate::error::{Error, Kind, Result};
use crate::irmin_pack::format::entry::{Address, EntryKind};

/// What is missing in an index.
#[derive(Debug, Default)]
pub(crate) struct Unindexed {
    /// Offset and hash of commits that are there, in order.
    pub(crate) commits: Vec<(u64, CommitHash)>,
    /// The oldest offset of each of them, by hash.
    pub(crate) by_hash: HashMap<CommitHash, u64>,
    /// Commits, and parents of theirs that they name by a hash that leads nowhere: only in stores before
    /// version 3, in which nothing is ever collected.
    pub(crate) nowhere: Vec<(CommitHash, CommitHash)>,
    /// Why the suffix was not read to its end.
    pub(crate) stopped: Option<Error>,
}

/// Finds them. Reads the head of every entry of the suffix, and every commit.
pub(crate) fn find(reader: &Reader) -> Result<Unindexed> {
    let mut found = Unindexed::default();
    let mut seen = HashSet::new();
    let mut stack = Vec::new();
    reader.index.scan(&mut |_, _, row| {
        if row.is_commit() && seen.insert(row.offset) {
            stack.push(row.offset);
        }
        Ok(())
    })?;
    // Damage on the way may make anything look like a commit.
    let mut suffix = |offset, hash| {
        if !seen.contains(&offset) && reader.commit(offset)?.hash == hash {
            seen.insert(offset);
            found.commits.push((offset, hash));
            stack.push(offset);
        }
        Ok(())
    };
    if let Err(error) = each_of_suffix(reader, &mut suffix) {
        if error.kind() == Kind::Io {
            return Err(error);
        }
        found.stopped = Some(error);
    }
    while let Some(offset) = stack.pop() {
        // What is wrong with a commit is told by who reads it for itself.
        let Ok(commit) = reader.commit(offset) else { continue };
        for (hash, address) in commit.parents.iter().zip(&commit.entry.parents) {
            match address {
                Address::Offset(at) => {
                    let is_new = !seen.contains(at) && reader.index.find(hash)?.is_none();
                    if is_new && reader.commit(*at).is_ok_and(|parent| parent.hash == *hash) {
                        seen.insert(*at);
                        found.commits.push((*at, *hash));
                        stack.push(*at);
                    }
                }
                Address::Hash(_) if reader.space.control.version < 3 => {
                    if reader.index.find(hash)?.is_none() {
                        found.nowhere.push((commit.hash, *hash));
                    }
                }
                Address::Hash(_) => {}
            }
        }
    }
    found.commits.sort_unstable();
    let newest_first = found.commits.iter().rev();
    found.by_hash = newest_first.map(|(at, hash)| (*hash, *at)).collect();
    Ok(found)
}

/// Calls `keep` with offset and hash of each commit of the suffix.
fn each_of_suffix(
    reader: &Reader,
    keep: &mut dyn FnMut(u64, CommitHash) -> Result<()>,
) -> Result<()> {
    let mut offset = reader.space.suffix_start();
    while offset < reader.space.end() {
        let (entry, _) = reader.head(offset, From::Anywhere)?;
        if entry.head.kind == EntryKind::Commit {
            keep(offset, entry.head.hash.into())?;
        }
        // Those without a length are of version 1, in which commits are found by their hashes only.
        let Some(length) = entry.head.length else { break };
        offset += length;
    }
    Ok(())
}
