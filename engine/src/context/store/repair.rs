//! A new store of the commits that are whole in a damaged one.
//!
//! Nothing of the old store is believed but what has a checksum of its own, and a commit counts when the new store, which takes
//! over what differs from the commit before, comes to its hash. The new store has no control file under its name before all is
//! there, so one that was cut off opens nowhere. Design: `docs/design/durability.md`.

mod gathered;
mod made;
mod salvage;
mod unread;
mod wreck;

use std::sync::Arc;

use super::Store;
use crate::context::files::paths;
use crate::context::hash::{self, CommitHash};
use crate::context::options::{Durability, Options};
use crate::disk::Disk;
use crate::disk::stand_in::StandIn;
use crate::error::{Kind, Result};
use crate::order::{BTreeMap, BTreeSet};
use made::NewStore;
use salvage::Records;
use unread::AsDamaged;
use wreck::{Wreck, commit_at, is_loss};

/// A commit that is not in the new store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostCommit {
    /// Its hash; none where nothing that is left says it.
    pub commit: Option<CommitHash>,
    /// What of it is damaged or missing, with the file.
    pub detail: String,
}

/// What a repair has kept, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedContext {
    /// How many commits are in the new store.
    pub commits: u64,
    /// The newest of them.
    pub last_commit: Option<CommitHash>,
    /// Commits that are not, the oldest first.
    pub lost: Vec<LostCommit>,
    /// Branches of the new store.
    pub branches: u64,
    /// Something that was said of branches is lost, or may be: those of the new store may name older commits than they did, or be
    /// back that were removed, and others may be missing.
    pub branches_may_be_older: bool,
    /// Nothing says which branches there were, since chunks alone are left: the new store has none.
    pub branches_unknown: bool,
    /// Branches whose commit is lost, with the commit that each named.
    pub lost_branches: Vec<(Vec<u8>, CommitHash)>,
    /// What is damaged, or was not used, a sentence each, files of which no commit that is known has need among them.
    pub damage: Vec<String>,
    /// What is not there, a sentence each: chunks, of the lower folder too.
    pub missing: Vec<String>,
    /// Bytes behind the last batch, which the next opening would have removed: what a commit or a change of a branch leaves
    /// that is cut off. Nothing says that it was ever acknowledged, so it counts as no damage, whatever the bytes are, as
    /// in a check.
    pub unfinished: Vec<String>,
}

impl RepairedContext {
    /// Whether nothing was lost, and nothing damaged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty()
            && self.lost_branches.is_empty()
            && !self.branches_may_be_older
            && !self.branches_unknown
            && self.damage.is_empty()
            && self.missing.is_empty()
    }
}

impl Store {
    /// Makes a new store on `target`, which is empty, of the commits that are whole in the damaged one on `source`, whose
    /// old chunks are in `lower` if it is an archive. Nothing is written to the old ones, and nobody may write to them meanwhile.
    /// Every commit of the new store has the hash that it had. Its index is new; branches and pins are there whose
    /// commits are.
    ///
    /// What differs from the commit before is read of each, so a damage costs the commits that have what it
    /// hit, and no others. Takes memory for what each commit says, for each sparse chunk whose mapping is
    /// damaged, and for where in the store's folder the records are that are damaged in the lower one.
    ///
    /// What the disk of `lower` does not open, list or read counts as damaged, and is told; an error of `source` ends the repair.
    ///
    /// `watch` is told how many commits were looked at, of how many; its error ends the repair. What an error or a crash leaves on
    /// `target` is no store, and opening it says so. `Invalid` or `Exists` when `target` is not empty, `Missing` when `source`
    /// has nothing of a store, `Version` when a newer release has written some of it.
    pub fn repair(
        source: &Arc<dyn Disk>,
        lower: Option<&Arc<dyn Disk>>,
        target: &Arc<dyn Disk>,
        watch: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<RepairedContext> {
        super::write::expect_empty(&**target)?;
        let unread = lower.map(AsDamaged::over);
        let lower = unread.as_ref().map(|it| Arc::clone(it) as Arc<dyn Disk>);
        let mut wreck = Wreck::find(source, lower.as_ref())?;
        let mut records = wreck.records()?;
        let lost = find_more(&mut wreck, &mut records)?;
        let mut repaired = RepairedContext { lost, ..RepairedContext::default() };
        let (configuration, index) = (wreck.configuration, wreck.index);
        let in_work = StandIn::new(Arc::clone(target), paths::CONTROL, paths::HALF_MADE);
        // Until it has its name nothing of it counts, and its last checkpoint syncs all.
        let durability = Durability::Written;
        let options = Options { configuration, index, durability, ..Options::default() };
        let mut copy = NewStore::new(Store::create(in_work, options)?);
        let count = records.commits.len() as u64;
        for (passed, (commit, body)) in (1..).zip(records.commits.values()) {
            watch(passed, count)?;
            match copy.take(&mut wreck, *commit, body) {
                Ok(()) => {}
                Err(error) if is_loss(&error) => {
                    wreck.note(&error);
                    let detail = error.detail().to_owned();
                    repaired.lost.push(LostCommit { commit: Some(*commit), detail });
                }
                Err(error) => return Err(error),
            }
        }
        repaired.lost.retain(|lost| lost.commit.is_none_or(|it| !copy.has(&it)));
        copy.name(&mut wreck, &records, &mut repaired)?;
        (repaired.commits, repaired.last_commit) = (copy.commits(), copy.last);
        copy.store.close()?;
        // Where nothing else is damaged nobody needed it.
        if wreck.is_damaged() {
            unread.iter().flat_map(|unread| unread.told()).for_each(|told| wreck.tell(told));
        }
        // From here on it is a store.
        target.rename(paths::HALF_MADE, paths::CONTROL)?;
        target.sync_directory("").inspect_err(|_| {
            // What the caller is told has failed is not to be found as a store.
            let _ = target.rename(paths::CONTROL, paths::HALF_MADE);
        })?;
        [repaired.damage, repaired.missing, repaired.unfinished] = wreck.told();
        Ok(repaired)
    }
}

/// Finds the commits that others name as the one before, where the record itself was not found by reading all, and tells those
/// that are lost.
fn find_more(wreck: &mut Wreck, records: &mut Records) -> Result<Vec<LostCommit>> {
    let horizon = wreck.horizon();
    let mut lost = Vec::new();
    // By whom each is named.
    let mut ahead: Vec<(u64, Option<u64>)> = records
        .commits
        .iter()
        .map(|(offset, (_, body))| (horizon.standing(body.previous), Some(*offset)))
        .collect();
    ahead.extend(horizon.kept.iter().map(|kept| (*kept, None)));
    ahead.extend(wreck.control.as_ref().map(|control| (control.last_commit, None)));
    let mut looked = BTreeSet::new();
    while let Some((offset, by)) = ahead.pop() {
        let offset = horizon.standing(offset);
        if offset == 0 || records.commits.contains_key(&offset) || !looked.insert(offset) {
            continue;
        }
        match commit_at(&wreck.pack, offset) {
            Ok((commit, body)) => {
                ahead.push((body.previous, Some(offset)));
                records.commits.insert(offset, (commit, body));
            }
            // Which commits were collected nothing says, or a control file of before the last collection.
            Err(error) if !wreck.knows_horizon() && error.kind() == Kind::Collected => {}
            Err(error) if is_loss(&error) => {
                wreck.note(&error);
                lost.push((offset, by, error.detail().to_owned()));
            }
            Err(error) => return Err(error),
        }
    }
    // Copies that a collection has not taken yet are no commits any more.
    records.commits.retain(|offset, _| !horizon.has_collected(*offset));
    let (from, first) = wreck.whole_from();
    let known = lost.iter().filter(|lost| lost.0 >= from).count() as u64;
    let mut told = tell_lost(records, lost);
    told.extend(tell_gaps((from, first), records, known));
    Ok(told)
}

/// The lost commits, with what those after them say. The parent of the commit that follows may be the one that is lost, but
/// others may have been committed between them, and the parent of one that was imported may never have been there.
fn tell_lost(records: &Records, mut lost: Vec<(u64, Option<u64>, String)>) -> Vec<LostCommit> {
    lost.sort_unstable();
    let known: BTreeSet<CommitHash> = records.commits.values().map(|it| it.0).collect();
    let guessed = |by: Option<u64>| {
        let (after, body) = records.commits.get(&by?)?;
        let mut unknown = body.parents.iter().filter(|parent| !known.contains(*parent));
        let parent = unknown.next().filter(|_| unknown.clone().next().is_none())?;
        Some((*parent, *after))
    };
    let one = |(_, by, detail): (u64, Option<u64>, String)| match guessed(by) {
        Some((commit, after)) => LostCommit {
            commit: None,
            detail: format!(
                "{detail}; perhaps {}, which commit {} behind it names as its parent",
                hash::to_text(&commit),
                hash::to_text(&after)
            ),
        },
        None => LostCommit { commit: None, detail },
    };
    lost.into_iter().map(one).collect()
}

/// Commits from logical offset `from` on of which nothing is left but that the numbers of those beside them leave room, beyond
/// `told` that are known. `first` is the number of the first, where that is known.
fn tell_gaps(
    (from, first): (u64, Option<u64>),
    records: &Records,
    told: u64,
) -> Option<LostCommit> {
    let mut sequences: Vec<u64> = records.commits.range(from..).map(|it| it.1.1.sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    let first = first.or(sequences.first().copied())?;
    let room = (sequences.last()? + 1).checked_sub(first + sequences.len() as u64)?;
    let unknown = room.checked_sub(told).filter(|unknown| *unknown > 0)?;
    let detail = format!(
        "{unknown} more, of which nothing is left: the commits beside them are numbered as if they were there"
    );
    Some(LostCommit { commit: None, detail })
}

/// The branches as they were at the end, as far as that is known.
fn branches(wreck: &Wreck, records: &Records, known: u64) -> BTreeMap<Vec<u8>, CommitHash> {
    let mut branches = BTreeMap::new();
    branches.extend(wreck.control.iter().flat_map(|control| control.branches.iter().cloned()));
    for (name, commit) in records.references.range(known..).map(|(_, reference)| reference) {
        if **commit == [0; 32] {
            branches.remove(name);
        } else {
            branches.insert(name.clone(), *commit);
        }
    }
    branches
}
