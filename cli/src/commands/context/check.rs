//! `varvite context check`: every hash of a context recomputed, every object looked up; after damage, every
//! commit walked to find what else it touches.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;

use clap::Args;
use serde_json::json;
use varvite::context::hash;
use varvite::context::{self, Checked, CommitHash, Store, Tree, TreeHash, directory_hash};
use varvite::irmin_pack as irmin;
use varvite::{Error, Kind, Result};

use crate::advice::{self, CONTEXT_LOG, CONTEXT_MIGRATE, RESTORE_ADVICE};
use crate::exit::{self, Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::context::{Folder, commit, text};
use crate::store::folder::{disk, expect_lower, expect_lower_with_chunks};
use crate::text::Notation;
use crate::wheel;

/// Children of a directory that are read at once. Names and hashes of all of them are kept until its hash is computed.
const PAGE: u64 = 4096;
/// What is said behind a file that could not be read, beside damage.
const UNREAD: &str = "so what is behind it was not checked";
/// How often a check begins again because of what a writer beside it took away.
const ATTEMPTS: usize = 4;
/// What is advised where the shape of a store of Irmin may be another than was said.
const SHAPE_ADVICE: &str = "if its shape is not that of Tezos, say so with --shape and --hash-bits; otherwise restore \
                            it from a snapshot or another copy";
/// Commits that are named of those that a damage touches.
const NAMED: usize = 5;

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    /// First make the index from the pack again; takes the store's lock
    #[arg(long)]
    rebuild_index: bool,
    #[command(flatten)]
    part: Part,
}

/// Which commits are checked; without any of these, all are.
#[derive(Debug, Default, Args)]
struct Part {
    /// Check only what these commits hold, by reading it: a hash, a branch, or "last"; can be repeated
    #[arg(long, value_name = "COMMIT", conflicts_with_all = ["most", "from"])]
    commit: Vec<String>,
    /// Check commit by commit as `context log` lists them, with the index and all that belongs to them, and end after so
    /// many; then it says where to go on
    #[arg(long, value_name = "COMMITS", value_parser = clap::value_parser!(u64).range(1..))]
    most: Option<u64>,
    /// Begin with this commit of that list
    #[arg(long, value_name = "COMMIT")]
    from: Option<String>,
}

impl Part {
    fn is_all(&self) -> bool {
        self.commit.is_empty() && self.most.is_none() && self.from.is_none()
    }

    /// The command that goes on from `next`.
    fn continued(&self, folder: &Folder, next: &CommitHash) -> String {
        let most = self.most.map_or(String::new(), |most| format!(" --most {most}"));
        let (store, given) = (advice::typed(&folder.store), folder.foreign.typed());
        format!("varvite context check {store}{given}{most} --from {}", text(next))
    }
}

/// A damage, and the commits that cannot be read whole for it.
struct Finding {
    detail: String,
    path: Option<String>,
    commits: Vec<String>,
    /// It is of a chunk, and what needs it is said with what was found in it, if anything was.
    is_of_chunk: bool,
}

/// Reads what commits hold, each directory and value once, and goes on after damage.
#[derive(Default)]
struct Walk {
    findings: Vec<Finding>,
    /// Where each sentence is among the findings.
    places: BTreeMap<String, usize>,
    /// What is damaged in and below each directory and value that was read, by where it is stored: one that is stored
    /// twice may be damaged in one place alone.
    seen: HashMap<u64, Rc<[usize]>>,
    /// No damage, as most of them have: once for all.
    sound: Rc<[usize]>,
    commits: u64,
    /// The commit behind a part of them.
    next: Option<CommitHash>,
    /// Commits that could not be listed.
    unlisted: u64,
    directories: u64,
    values: u64,
    /// Whether hashes are recomputed here; those of Irmin's stores are as they are read.
    hashes: bool,
    /// The shape of a store of Irmin was given, which may be the wrong one.
    has_shape: bool,
    /// The folder of the lower layer was given: what is not there, or is another store's, is a damage as any other.
    has_lower: bool,
}

/// A child of a directory.
type Child = (Vec<u8>, context::Kind, TreeHash);

/// A directory whose children are being looked at.
struct Level {
    tree: Tree,
    /// Where it is stored, and what it should hash to.
    place: Option<u64>,
    hash: TreeHash,
    /// Children that were listed, those of them that are still to be looked at, and whether there are no more.
    from: u64,
    page: std::vec::IntoIter<(Vec<u8>, Tree)>,
    is_last: bool,
    /// All that were looked at; none where one has no hash, or hashes are not computed.
    children: Option<Vec<Child>>,
    found: Vec<usize>,
}

/// What became of a directory or value.
enum Entered {
    /// Where damage in and below it is.
    Done(Rc<[usize]>),
    /// Its children are to be looked at.
    Level(Box<Level>),
}

impl Walk {
    /// The place of a finding; `Err` when the disk failed and nothing is known.
    fn found(&mut self, error: Error, path: &[String]) -> Result<usize> {
        let is_damage = match error.kind() {
            Kind::Corrupt => true,
            Kind::Missing | Kind::Invalid => self.has_lower,
            _ => false,
        };
        if !is_damage {
            return Err(error);
        }
        let error = match error.advice() {
            // The folder of a store of Irmin does not say it. Where it was said, it is to be looked at again.
            Some(irmin::SHAPE_ADVICE) if !self.has_shape => error.with_advice(SHAPE_ADVICE),
            Some(Error::CHECK_ADVICE) if self.has_shape => error.with_advice(irmin::SHAPE_ADVICE),
            // That is what is run.
            Some(Error::CHECK_ADVICE | Error::REPAIR_ADVICE) => error.with_advice(RESTORE_ADVICE),
            _ => error,
        };
        Ok(self.add(error.detail().to_owned(), (!path.is_empty()).then(|| path.join("/"))))
    }

    /// The place of a finding that says `detail`, and of which `path` is known.
    fn add(&mut self, detail: String, path: Option<String>) -> usize {
        if let Some(place) = self.places.get(&detail) {
            let known = &mut self.findings[*place];
            known.path = known.path.take().or(path);
            return *place;
        }
        let place = self.findings.len();
        self.places.insert(detail.clone(), place);
        self.findings.push(Finding { detail, path, commits: Vec::new(), is_of_chunk: false });
        place
    }

    /// A disk that fails ends the check; damage that was found by then is told all the same, and that behind it.
    fn ended(&mut self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if error.kind() == Kind::Io && !self.findings.is_empty() => {
                let place = self.add(format!("{}; {UNREAD}", error.what()), None);
                self.findings[place].is_of_chunk = true;
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// A finding where `expected` is the hash of what is there, unless `found` is.
    fn compared(
        &mut self,
        what: &str,
        expected: &[u8; 32],
        found: Result<[u8; 32]>,
        path: &[String],
    ) -> Result<Option<usize>> {
        let detail = match found {
            Ok(found) if found == *expected => return Ok(None),
            Ok(found) => format!("a {what} hashes to {}, not to {}", text(&found), text(expected)),
            Err(error) => return self.found(error, path).map(Some),
        };
        self.found(Error::new(Kind::Corrupt, detail), path).map(Some)
    }

    /// Reads what the commit holds.
    fn commit(&mut self, store: &Store, commit: &CommitHash) -> Result<()> {
        let mut found = Vec::new();
        if self.hashes {
            let hash = store.commit_info(commit).map(|it| {
                hash::commit(&it.tree, &it.parents, it.date, &it.author, &it.message).into()
            });
            found.extend(self.compared("commit", commit, hash, &[])?);
        }
        match store.checkout(commit) {
            Ok(tree) => found.extend(self.tree(&tree)?.iter()),
            Err(error) => found.push(self.found(error, &[])?),
        }
        found.sort_unstable();
        found.dedup();
        for place in found {
            self.findings[place].commits.push(text(commit));
        }
        self.commits += 1;
        Ok(())
    }

    /// Where damage in and below the directory or value is. Nothing recurses: a tree may be as deep as a path is long.
    fn tree(&mut self, root: &Tree) -> Result<Rc<[usize]>> {
        let (mut levels, mut path): (Vec<Level>, Vec<String>) = (Vec::new(), Vec::new());
        let mut entered = self.enter(root.clone(), &path)?;
        loop {
            match entered {
                Entered::Level(level) => levels.push(*level),
                Entered::Done(found) => match levels.last_mut() {
                    None => return Ok(found),
                    Some(above) => {
                        above.found.extend(found.iter());
                        path.pop();
                    }
                },
            }
            let level = levels.last_mut().expect("one was pushed, or took what was found");
            entered = if let Some((name, child)) = self.next(level, &path)? {
                path.push(Notation::Text.show_step(&name));
                self.enter(child, &path)?
            } else {
                let level = levels.pop().expect("it was just looked at");
                Entered::Done(self.leave(level, &path)?)
            };
        }
    }

    /// Looks at a directory or value, unless it was before.
    fn enter(&mut self, tree: Tree, path: &[String]) -> Result<Entered> {
        let place = tree.stored_at();
        if let Some(found) = place.and_then(|place| self.seen.get(&place)) {
            return Ok(Entered::Done(Rc::clone(found)));
        }
        let hash = match tree.hash() {
            Ok(hash) => hash,
            Err(error) => return Ok(Entered::Done([self.found(error, path)?].into())),
        };
        let mut found = Vec::new();
        match tree.to_value() {
            Ok(Some(value)) => {
                self.values += 1;
                if self.hashes {
                    found.extend(self.compared("value", &hash, Ok(hash::value(&value)), path)?);
                }
            }
            Ok(None) => {
                self.directories += 1;
                let children = self.hashes.then(Vec::new);
                let page = Vec::new().into_iter();
                let level =
                    Level { tree, place, hash, from: 0, page, is_last: false, children, found };
                return Ok(Entered::Level(Box::new(level)));
            }
            Err(error) => found.push(self.found(error, path)?),
        }
        Ok(Entered::Done(self.settled(place, found)))
    }

    /// The next child of a directory; what cannot be listed is a finding, and nothing is behind it.
    fn next(&mut self, level: &mut Level, path: &[String]) -> Result<Option<(Vec<u8>, Tree)>> {
        loop {
            if let Some((name, child)) = level.page.next() {
                level.children = match (level.children.take(), child.hash()) {
                    (Some(mut children), Ok(hash)) => {
                        children.push((name.clone(), child.kind(), hash));
                        Some(children)
                    }
                    _ => None,
                };
                return Ok(Some((name, child)));
            }
            if level.is_last {
                return Ok(None);
            }
            match level.tree.list::<&[u8]>(&[], level.from, PAGE) {
                Ok(page) => {
                    level.from += page.len() as u64;
                    level.is_last = (page.len() as u64) < PAGE;
                    level.page = page.into_iter();
                }
                Err(error) => {
                    level.found.push(self.found(error, path)?);
                    (level.is_last, level.children) = (true, None);
                }
            }
        }
    }

    /// Where damage in and below a directory is whose children were looked at.
    fn leave(&mut self, level: Level, path: &[String]) -> Result<Rc<[usize]>> {
        let Level { tree, place, hash, children, mut found, .. } = level;
        if let Some(children) = children {
            let recomputed =
                directory_hash(tree.configuration(), &children).map(TreeHash::to_bytes);
            found.extend(self.compared("directory", &hash, recomputed, path)?);
        }
        Ok(self.settled(place, found))
    }

    /// Notes what was found in and below what is stored at `place`.
    fn settled(&mut self, place: Option<u64>, mut found: Vec<usize>) -> Rc<[usize]> {
        found.sort_unstable();
        found.dedup();
        let found = if found.is_empty() { Rc::clone(&self.sound) } else { found.into() };
        self.seen.extend(place.map(|place| (place, Rc::clone(&found))));
        found
    }
}

/// Runs `check`.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    if arguments.rebuild_index {
        // Before the one that is there is thrown away.
        expect_right(&arguments.folder)?;
        let folder = &arguments.folder;
        let mut store = folder.open_to_write().map_err(|error| as_damage(folder, error))?;
        wheel::during("making the index again", || store.rebuild_index())?;
        store.close()?;
    }
    check(&arguments.folder, &arguments.part, format)
}

/// Checks the context in the folder and prints what was found.
pub fn of_folder(arguments: &Folder, format: Format) -> Outcome {
    check(arguments, &Part::default(), format)
}

/// The folder of the lower layer, where the store is one of ours and it was given.
fn own_lower(arguments: &Folder) -> Result<Option<&Path>> {
    let is_foreign = irmin::is_store(&*disk(&arguments.store)?)?;
    Ok(arguments.lower().filter(|_| !is_foreign))
}

/// `Invalid` where another lower folder was given than that of the store, or what only one of Irmin has: that is no damage
/// of it.
fn expect_right(arguments: &Folder) -> Result<()> {
    let Folder { store, foreign } = arguments;
    if irmin::is_store(&*disk(store)?)? {
        // Opening it says so.
        return foreign.options(store).map(drop);
    }
    foreign.expect_no_shape(store)?;
    foreign.lower().map_or(Ok(()), |lower| expect_lower(store, lower))
}

/// Reads what is to be checked.
fn walk(arguments: &Folder, store: &Store, part: &Part) -> Result<(Walk, Checked)> {
    let lower = own_lower(arguments)?;
    if let Some(lower) = lower
        && store.archived_bytes() > 0
    {
        expect_lower_with_chunks(&arguments.store, lower)?;
    }
    let hashes = !irmin::is_store(&*disk(&arguments.store)?)?;
    let (has_lower, has_shape) = (lower.is_some(), arguments.foreign.has_shape());
    let mut walk = Walk { hashes, has_shape, has_lower, ..Walk::default() };
    let mut checked = Checked::default();
    if part.is_all() {
        match wheel::during("recomputing every hash", || store.check()) {
            Ok(found) => checked = found,
            Err(error) => {
                walk.found(error, &[])?;
                let outcome = walk_all(&mut walk, store);
                walk.ended(outcome)?;
            }
        }
    } else if part.commit.is_empty() {
        let from = part.from.as_ref().map(|name| commit(store, name)).transpose()?;
        let most = part.most.unwrap_or(u64::MAX);
        let found = wheel::during("checking", || store.check_part(from.as_ref(), most));
        match found {
            Ok((found, next)) => (checked, walk.next) = (found, next),
            Err(error) => {
                // Damage may keep it from being listed: then it is read all the same.
                if error.kind() != Kind::Missing {
                    walk.found(error, &[])?;
                }
                let outcome = walk_part(&mut walk, store, part);
                walk.ended(outcome)?;
            }
        }
    } else {
        // What "last" names, and a branch, is older than it was.
        if let Some(told) = store.damage() {
            let place = walk.add(told, None);
            walk.findings[place].is_of_chunk = true;
        }
        for name in &part.commit {
            let outcome = walk.commit(store, &commit(store, name)?);
            walk.ended(outcome)?;
        }
    }
    Ok((walk, checked))
}

/// The same once more, where a writer beside this has collected or cleared meanwhile: then what is not there is no damage.
fn walk_beside(arguments: &Folder, part: &Part) -> Result<(Store, Walk, Checked)> {
    expect_right(arguments)?;
    let mut store = arguments.open().map_err(|error| as_damage(arguments, error))?;
    for _ in 1..ATTEMPTS {
        let outcome = walk(arguments, &store, part);
        let is_suspect = match &outcome {
            Ok((walk, checked)) => !(walk.findings.is_empty() && checked.missing.is_empty()),
            Err(error) => matches!(error.kind(), Kind::Collected | Kind::Missing),
        };
        match is_suspect.then(|| arguments.open()) {
            Some(Ok(fresh)) if moment(&fresh) != moment(&store) => store = fresh,
            _ => return outcome.map(|(walk, checked)| (store, walk, checked)),
        }
    }
    let (walk, checked) = walk(arguments, &store, part)?;
    Ok((store, walk, checked))
}

/// Files of another store among those of this one are damage to who checks it, as they are in a store of tables. A check is
/// no advice to it.
fn as_damage(arguments: &Folder, error: Error) -> Error {
    let is_own = arguments.store.join("control").is_file();
    if error.kind() == Kind::Invalid && is_own {
        return Error::new(Kind::Corrupt, error.detail());
    }
    match error.advice() {
        Some(Error::CHECK_ADVICE | Error::REPAIR_ADVICE) if is_own => {
            error.with_advice(&advice::repair_context(&arguments.store, arguments.lower()))
        }
        Some(Error::CHECK_ADVICE | Error::REPAIR_ADVICE) => error.with_advice(RESTORE_ADVICE),
        _ => error,
    }
}

/// What changes when a writer takes something away.
fn moment(store: &Store) -> (u64, u64, u64) {
    let stats = store.stats();
    (stats.epoch, stats.generation, stats.commits)
}

fn check(arguments: &Folder, part: &Part, format: Format) -> Outcome {
    let folder = &arguments.store;
    let (store, walk, checked) = walk_beside(arguments, part)?;
    let is_foreign = !walk.hashes;
    let Walk { findings, commits, directories, values, unlisted, next, .. } = walk;
    let (commits, nodes) = (checked.commits.max(commits), checked.nodes.max(directories));
    let values = checked.values.max(values);
    // What the pack lacks is among the findings.
    let damage = store.damage();
    let told = store.warnings().into_iter().filter(|told| Some(told) != damage.as_ref());
    let index: Vec<_> = told.chain(checked.index_faults.clone()).collect();
    let count = findings.len() + index.len() + checked.missing.len();
    let verdict = Verdict::sound(count == 0);
    match format {
        Format::Json => print::json(&json!({
            "sound": count == 0, "commits": commits, "nodes": nodes, "values": values,
            "index_faults": checked.index_faults, "warnings": store.warnings(),
            "collected": checked.collected, "missing": checked.missing, "unlisted": unlisted,
            "done": next.is_none(), "next": next.map(|next| text(&next)),
            "findings": findings.iter().map(|finding| json!({
                "detail": finding.detail, "path": finding.path, "commits": finding.commits,
            })).collect::<Vec<_>>(),
        }))?,
        Format::Table => {
            for finding in &findings {
                finding.show()?;
            }
            for missing in &checked.missing {
                print::line(&format!("missing: {missing}"))?;
            }
            for fault in &index {
                print::line(&format!("index: {fault}"))?;
            }
            let is_of_index = index.iter().any(|fault| !fault.starts_with("the collection"));
            if is_of_index && is_foreign {
                print::line(&format!(
                    "let Irmin make its index again, or take the store over with {CONTEXT_MIGRATE}"
                ))?;
            } else if is_of_index {
                let command = advice::rebuild_index(folder, arguments.lower());
                print::line(&format!("make the index again: {command}"))?;
            }
            if !findings.is_empty() && !is_foreign {
                print::line(&advice::repair_context(folder, arguments.lower()))?;
            }
            if checked.collected > 0 {
                print::line(&format!("{} commits were collected", checked.collected))?;
            }
            if unlisted > 0 {
                let unlisted = print::counted(unlisted, "commit", "commits");
                print::line(&format!("not read, for what lists them is damaged: {unlisted}"))?;
            }
            if let Some(next) = &next {
                print::line(&format!("{} goes on", part.continued(arguments, next)))?;
            }
            let verdict = match count {
                0 if next.is_some() => "sound so far".to_owned(),
                0 if part.from.is_some() => "sound from there on".to_owned(),
                0 => "sound".to_owned(),
                _ => format!("damaged, {}", print::counted(count as u64, "finding", "findings")),
            };
            let (one, many) = if checked.nodes > 0 || part.is_all() {
                ("piece of directories", "pieces of directories")
            } else {
                ("directory", "directories")
            };
            // Short values are in the records of their directories, and with these are not counted.
            let place = if checked.nodes > 0 { " outside of them" } else { "" };
            print::line(&format!(
                "{verdict}: {}, {}, {}{place}",
                print::counted(commits, "commit", "commits"),
                print::counted(nodes, one, many),
                print::counted(values, "value", "values")
            ))?;
        }
    }
    Ok(verdict)
}

/// Walks every commit, as far back as they can be listed.
fn walk_all(walk: &mut Walk, store: &Store) -> Result<()> {
    let commits = all_commits(walk, store)?;
    let mut bar = Progress::new("looking for what is damaged", commits.len() as u64, Unit::Items);
    for commit in &commits {
        walk.commit(store, commit)?;
        bar.set(walk.commits);
    }
    bar.finish();
    chunks(walk, store)
}

/// Tells of each chunk that is damaged, whatever needs it.
fn chunks(walk: &mut Walk, store: &Store) -> Result<()> {
    wheel::during("reading every chunk", || {
        store.check_chunks(&mut |error| {
            let place = walk.found(error, &[])?;
            walk.findings[place].is_of_chunk = true;
            Ok(())
        })
    })
}

/// Walks the commits of a part, and with the first and the last the chunks, of which the others read little.
fn walk_part(walk: &mut Walk, store: &Store, part: &Part) -> Result<()> {
    let commits = all_commits(walk, store)?;
    let from = match &part.from {
        None => 0,
        Some(name) => {
            let first = commit(store, name)?;
            let place = commits.iter().position(|commit| *commit == first);
            match place {
                Some(place) => place,
                // It is among those that damage keeps from being listed, which is told.
                None if !walk.findings.is_empty() => commits.len(),
                None => {
                    let detail = format!("{name} is not listed by {CONTEXT_LOG}");
                    return Err(Error::missing(detail));
                }
            }
        }
    };
    let most = part.most.map_or(usize::MAX, |most| most as usize);
    let mut left = commits[from..].iter();
    let mut bar = Progress::new("checking", left.len().min(most) as u64, Unit::Items);
    for commit in left.by_ref().take(most) {
        walk.commit(store, commit)?;
        bar.set(walk.commits);
    }
    walk.next = left.next().copied();
    bar.finish();
    let is_at_an_end = part.from.is_none() || walk.next.is_none();
    if is_at_an_end { chunks(walk, store) } else { Ok(()) }
}

/// The commits, the newest first, as far back as they can be listed.
fn all_commits(walk: &mut Walk, store: &Store) -> Result<Vec<CommitHash>> {
    let total = store.stats().commits;
    let (mut commits, is_all) = match store.log(usize::MAX) {
        Ok(commits) => (commits, true),
        Err(error) => {
            walk.found(error, &[])?;
            (listed(walk, store, total as usize)?, false)
        }
    };
    // A commit that cannot be read hides those before it, but not those of other branches.
    for (_, head) in store.branches() {
        if !commits.contains(&head) {
            commits.push(head);
        }
    }
    if !is_all {
        walk.unlisted = total.saturating_sub(commits.len() as u64);
    }
    Ok(commits)
}

/// The newest commits, as many as can be listed, at most `most`.
fn listed(walk: &mut Walk, store: &Store, most: usize) -> Result<Vec<CommitHash>> {
    let (mut commits, mut beyond) = (Vec::new(), most.saturating_add(1));
    while commits.len() + 1 < beyond {
        let middle = commits.len().midpoint(beyond);
        match store.log(middle) {
            Ok(more) if more.len() < middle => return Ok(more),
            Ok(more) => commits = more,
            Err(error) => {
                walk.found(error, &[])?;
                beyond = middle;
            }
        }
    }
    Ok(commits)
}

impl Finding {
    fn show(&self) -> std::io::Result<()> {
        exit::note_damage();
        let at = self.path.as_ref().map_or(String::new(), |path| format!("\"{path}\": "));
        let named = self.commits.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>();
        let more = self.commits.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let touched = match self.commits.len() {
            0 if self.is_of_chunk => return print::line(&format!("{at}{}", self.detail)),
            0 => "no commit that can be listed needs it".to_owned(),
            _ => format!("commits {}{more} need it", named.join(", ")),
        };
        print::line(&format!("{at}{} ({touched})", self.detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_placethe_disk_fails_behind_it() {
        let failed = || Err(Error::io("read", "b.pack", std::io::ErrorKind::TimedOut.into()));
        let mut walk = Walk::default();
        assert_eq!(walk.ended(failed()).map_err(|it| it.kind()), Err(Kind::Io));
        walk.found(Error::corrupt("a.pack", 7, "one", "two"), &[]).expect("it is damage");
        walk.ended(failed()).expect("it is told with what was found");
        let said: Vec<_> = walk.findings.iter().map(|it| it.detail.as_str()).collect();
        let [damage, unread] = said[..] else { panic!("{said:?}") };
        assert!(damage.starts_with("a.pack is damaged at byte 7"), "{damage}");
        assert!(unread.starts_with("could not read b.pack: "), "{unread}");
        assert!(unread.ends_with(UNREAD), "{unread}");
        let other = Error::new(Kind::Collected, "it went");
        assert_eq!(walk.ended(Err(other)).map_err(|it| it.kind()), Err(Kind::Collected));
    }
}
