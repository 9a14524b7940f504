//! The commands of `varvite context` that write: stores by hand, branches, merges.
//!
//! Each takes the store's lock, does one commit or one change of a branch, and closes the store.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use serde_json::json;
use varvite::context::CommitHash;
use varvite::context::{
    CommitInfo, Configuration, Conflict, Index, Limits, Merge, Options, Resolution, Store, Tree,
};
use varvite::{Error, Kind, Result};

use super::look::nothing;
use crate::advice::{BRANCHES, CONTEXT_DUMP};
use crate::exit::{self, Outcome, Verdict};
use crate::hex;
use crate::input;
use crate::print::records;
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::context::{
    Folder, Target, branch_name, check_branch_name, close, commit, open_to_write, remove_new, text,
};
use crate::store::folder;
use crate::text::date;
use crate::text::{self, Notation, Notations, put_name, put_path};

/// Make an empty store
#[derive(Debug, Args)]
pub struct Create {
    /// Folder of the store: missing or empty
    store: PathBuf,
    /// Find every object by its hash, not commits alone
    #[arg(long)]
    always: bool,
    /// The binary trees of rollups (2 entries, flat up to 2, hash bits) instead of the chain's
    #[arg(long)]
    binary: bool,
}

/// What a commit says.
#[derive(Debug, Args)]
struct Info {
    /// Who commits
    #[arg(long, default_value = "varvite")]
    author: String,
    /// Why; a sentence about the change when left out
    #[arg(long)]
    message: Option<String>,
    /// When: as 2026-01-31, 2026-01-31T12:00:00Z, or seconds since 1970; now when left out
    #[arg(long, allow_hyphen_values = true)]
    date: Option<String>,
}

/// Put a value into a branch and commit that
#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    target: Target,
    /// Branch; made when it is not there
    branch: String,
    /// Steps joined by "/"
    path: String,
    /// The value
    value: String,
    /// Also where a directory is, or a value is on the way, which it takes the place of
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    notations: Notations,
    #[command(flatten)]
    info: Info,
}

/// Put what `context dump` printed into a branch, all in one commit
///
/// What is in the branch stays where nothing else is put. All is held in memory until it is committed.
#[derive(Debug, Args)]
pub struct Load {
    #[command(flatten)]
    target: Target,
    /// Branch; made when it is not there
    branch: String,
    /// File to read; `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Also where a directory is, or a value is on the way, which an entry takes the place of
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    info: Info,
}

/// A line of a dump: steps and value in hexadecimal.
#[derive(Deserialize)]
struct Line {
    path: Vec<String>,
    value: String,
}

/// Remove a value or a directory from a branch and commit that
#[derive(Debug, Args)]
pub struct Remove {
    #[command(flatten)]
    target: Target,
    /// Branch
    branch: String,
    /// Steps joined by "/"
    path: String,
    /// Steps are hexadecimal
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    info: Info,
}

/// Set and remove branches
#[derive(Debug, Subcommand)]
pub enum Branch {
    /// List branches
    List {
        #[command(flatten)]
        folder: Folder,
    },
    /// Make a branch the name of a commit
    Set {
        #[command(flatten)]
        target: Target,
        /// Name of the branch
        branch: String,
        /// Hash of a commit, a branch, or "last"
        commit: String,
    },
    /// Remove a branch; its commits stay
    Remove {
        /// Folder of the store
        store: PathBuf,
        /// Name of the branch
        branch: String,
    },
}

/// Whose value a merge takes where both sides changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Ours,
    Theirs,
}

/// Merge a commit or branch into a branch
#[derive(Debug, Args)]
pub struct MergeInto {
    #[command(flatten)]
    folder: Folder,
    /// Branch that takes the changes; made when it is not there
    branch: String,
    /// What is merged into it: hash of a commit, a branch, or "last"
    from: String,
    /// Where both changed a value, take this side's instead of ending with a conflict
    #[arg(long, value_enum)]
    prefer: Option<Side>,
    /// Only say what would come of it
    #[arg(long)]
    dry_run: bool,
    /// Commits of the histories that are read at most
    #[arg(long, default_value_t = Limits::default().commits)]
    depth: usize,
    /// Steps and values of conflicts are printed in hexadecimal
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    info: Info,
}

impl Info {
    fn commit_info(&self, parents: &[CommitHash], otherwise: &str) -> Result<CommitInfo> {
        let date = match &self.date {
            Some(date) => date::parse(date)?,
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_err(|_| Error::invalid("the clock is before 1970: give --date"))?
                .as_secs()
                .cast_signed(),
        };
        let message = self.message.as_deref().unwrap_or(otherwise);
        Ok(CommitInfo::new(parents, date, &self.author, message))
    }
}

/// Runs `create`.
pub fn create(arguments: &Create, format: Format) -> Outcome {
    let options = Options {
        configuration: if arguments.binary {
            Configuration::TEZOS_BINARY
        } else {
            Configuration::TEZOS
        },
        index: if arguments.always { Index::Always } else { Index::Minimal },
        ..Options::default()
    };
    let (target, disk) = folder::Target::create(&arguments.store)?;
    let mut store = match Store::create(disk, options) {
        Ok(store) => store,
        Err(error) => {
            target.take_back(&error);
            return Err(error.into());
        }
    };
    // While the lock is held, so that the store can be taken back.
    if let Err(error) = store.checkpoint() {
        remove_new(store, target);
        return Err(error.into());
    }
    close(store)?;
    match format {
        Format::Json => {
            let mut said = json!({});
            put_name(&mut said, "store", arguments.store.as_os_str());
            print::json(&said)?;
        }
        Format::Table => {
            print::line(&format!("an empty store is in {}", arguments.store.display()))?;
        }
    }
    Ok(Verdict::Yes)
}

/// Commits a changed tree to a branch, and says so; where the action says that nothing changes, there is no commit.
fn change(
    target: &Target,
    branch: &str,
    info: &Info,
    message: &str,
    action: impl FnOnce(&mut Tree) -> Result<bool>,
    format: Format,
) -> Outcome {
    let mut store = target.open()?;
    let head = store.branch(&branch_name(branch)?);
    if head.is_none() {
        check_branch_name(&store, branch)?;
    }
    let mut tree = match &head {
        Some(head) => store.checkout(head)?,
        None => store.empty_tree(),
    };
    if !action(&mut tree)? {
        close(store)?;
        return say(branch, "unchanged", head.as_ref(), format);
    }
    let parents: Vec<CommitHash> = head.into_iter().collect();
    let commit = store.commit(&mut tree, &info.commit_info(&parents, message)?)?;
    store.set_branch(&branch_name(branch)?, &commit)?;
    close(store)?;
    say(branch, "committed", Some(&commit), format)
}

/// What became of a branch: one word, which is also what a program reads.
fn say(branch: &str, outcome: &str, commit: Option<&CommitHash>, format: Format) -> Outcome {
    let commit = commit.map(|hash| text(hash));
    let branch = Notation::Text.show(&branch_name(branch)?);
    match format {
        Format::Json => {
            print::json(&json!({
                "branch": branch, "outcome": outcome, "commit": commit, "commit_hash": commit,
            }))?;
        }
        Format::Table => {
            let commit = commit.map(|commit| format!(", at {commit}")).unwrap_or_default();
            print::line(&format!("{branch}: {outcome}{commit}"))?;
        }
    }
    Ok(Verdict::Yes)
}

/// Runs `put`.
pub fn put(arguments: &Put, format: Format) -> Outcome {
    let path = arguments.notations.path().path(&arguments.path)?;
    if path.is_empty() {
        let why = "a value needs a path: give at least one step, as in \"data/version\"";
        return Err(Error::invalid(why).into());
    }
    let value = arguments.notations.value().parse("value", &arguments.value)?;
    let message = format!("put {}", arguments.path);
    let Put { target, branch, info, .. } = arguments;
    let action = |tree: &mut Tree| {
        if !arguments.replace {
            expect_room(tree, &path)?;
        }
        tree.add(&path, &value).map(|()| true)
    };
    change(target, branch, info, &message, action, format)
}

/// Runs `load`.
pub fn load(arguments: &Load, format: Format) -> Outcome {
    let Load { target, branch, info, file, replace } = arguments;
    let (name, mut input) = input::open(file)?;
    let mut bar = Progress::endless("loading", Unit::Items);
    let action = |tree: &mut Tree| {
        let (mut bytes, mut number, mut changes) = (Vec::new(), 0_u64, false);
        while let Some(line) = input::text_line(&mut input, (&name, number + 1), &mut bytes)? {
            number += 1;
            let place = || format!("{name}, line {number}");
            if line.trim().is_empty() {
                continue;
            }
            let (path, value) = entry(line).ok_or_else(|| {
                let what = "expected {\"path\": [steps], \"value\": …} in hexadecimal";
                Error::new(
                    Kind::Corrupt,
                    format!("{}: {what}, as {CONTEXT_DUMP} prints it", place()),
                )
            })?;
            if !replace {
                expect_room(tree, &path).map_err(|error| error.context(place()))?;
            }
            tree.add(&path, &value).map_err(|error| error.context(place()))?;
            changes = true;
            bar.set(number);
        }
        Ok(changes)
    };
    change(target, branch, info, &format!("load {}", file.display()), action, format)
}

/// `Invalid` when a value at `path` would take the place of a directory, or of a value on the way.
fn expect_room(tree: &Tree, path: &[Vec<u8>]) -> Result<()> {
    let shown = |path: &[Vec<u8>]| {
        path.iter().map(|step| Notation::Text.show_step(step)).collect::<Vec<_>>().join("/")
    };
    let in_place = match tree.find_tree(path)? {
        Some(there) if there.kind() == varvite::context::Kind::Directory => {
            format!("\"{}\" is a directory of {}", shown(path), tree.length(path)?)
        }
        Some(_) => return Ok(()),
        None => {
            let mut above = (1..path.len()).map(|steps| &path[..steps]);
            let value = above.find_map(|path| match tree.mem(path) {
                Ok(false) => None,
                outcome => Some(outcome.map(|_| path)),
            });
            match value.transpose()? {
                None => return Ok(()),
                Some(path) => format!("\"{}\" is a value", shown(path)),
            }
        }
    };
    Err(Error::invalid(format!(
        "{in_place}, which would be gone: choose another path, or say --replace"
    )))
}

/// The path and value of a line.
fn entry(line: &str) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
    let line: Line = serde_json::from_str(line).ok()?;
    let path: Option<Vec<_>> = line.path.iter().map(|step| hex::decode(step)).collect();
    Some((path.filter(|path| !path.is_empty())?, hex::decode(&line.value)?))
}

/// The columns of a CSV of what was removed, or was not there.
const REMOVED: [&str; 6] = ["branch", "outcome", "commit", "commit_hash", "found", "why"];

/// Runs `remove`.
pub fn remove(arguments: &Remove, format: Format) -> Outcome {
    records::columns_of_result(&REMOVED)?;
    let path = Notation::new(arguments.hex).path(&arguments.path)?;
    let message = format!("remove {}", arguments.path);
    let Remove { target, branch, info, .. } = arguments;
    let why =
        format!("nothing is at \"{}\" in {branch}: there is nothing to remove", arguments.path);
    let is_absent = Cell::new(false);
    let action = |tree: &mut Tree| {
        if tree.mem_tree(&path)? {
            return tree.remove(&path).map(|()| true);
        }
        is_absent.set(true);
        Err(Error::missing(why.clone()))
    };
    if target.open()?.branch(&branch_name(branch)?).is_none() {
        let detail = format!("there is no branch \"{branch}\": {BRANCHES} lists them");
        return Err(Error::missing(detail).into());
    }
    let changed = change(target, branch, info, &message, action, format);
    if is_absent.get() { nothing(&why, format) } else { changed }
}

/// Runs `branch`.
pub fn branch(command: &Branch, format: Format) -> Outcome {
    match command {
        Branch::List { folder } => list(folder, format),
        Branch::Set { target, branch, commit: named } => {
            let mut store = target.open()?;
            if store.branch(&branch_name(branch)?).is_none() {
                check_branch_name(&store, branch)?;
            }
            let hash = commit(&store, named)?;
            store.set_branch(&branch_name(branch)?, &hash)?;
            close(store)?;
            say(branch, "set", Some(&hash), format)
        }
        Branch::Remove { store, branch } => {
            records::columns_of_result(&REMOVED)?;
            let mut store = open_to_write(store)?;
            if store.branch(&branch_name(branch)?).is_none() {
                return nothing(&format!("there is no branch \"{branch}\""), format);
            }
            store.remove_branch(&branch_name(branch)?)?;
            close(store)?;
            say(branch, "removed", None, format)
        }
    }
}

/// The columns of `branch list`.
const BRANCHES_LISTED: [&str; 8] = [
    "branch",
    "commit",
    "commit_hash",
    "date",
    "date_iso",
    "message",
    "message_text",
    "message_hex",
];

fn list(folder: &Folder, format: Format) -> Outcome {
    let store = folder.open()?;
    let mut table = print::table(&["branch", "commit", ">date", "message"]);
    let (mut all, mut rows) = (serde_json::Map::new(), Vec::new());
    for (name, commit) in store.branches() {
        let name = Notation::Text.show(&name);
        let info = match store.commit_info(&commit) {
            Ok(info) => Some(info),
            // Which commit it is, is known without the folder that has it.
            Err(error) if error.kind() == Kind::Missing && store.archived_bytes() > 0 => None,
            Err(error) => return Err(error.into()),
        };
        let shown = text(&commit);
        let message = info.as_ref().map(|info| Notation::Text.show(&info.message));
        let when = info.as_ref().map(|info| info.date);
        let mut row = json!({
            "branch": name, "commit": shown, "commit_hash": shown, "date": when,
            "date_iso": when.map(date::iso), "message": message, "message_text": null, "message_hex": null,
        });
        if let Some(info) = &info {
            text::put_both(&mut row, "message", &info.message);
        }
        rows.push(row);
        let message = message.unwrap_or_else(|| "is in the lower folder: give --lower".to_owned());
        let when = when.map_or_else(|| "-".to_owned(), date::iso);
        table.add_row(vec![name.clone(), shown.clone(), when, message]);
        all.insert(name, shown.into());
    }
    records::columns(&BRANCHES_LISTED)?;
    match format {
        Format::Json => records::whole_map(all, rows)?,
        Format::Table if all.is_empty() => print::aside("no branches")?,
        Format::Table => print::line(&table.to_string())?,
    }
    Ok(Verdict::Yes)
}

/// Runs `merge`.
pub fn merge(arguments: &MergeInto, format: Format) -> Outcome {
    let MergeInto { branch, from, .. } = arguments;
    let limits = Limits { commits: arguments.depth, ..Limits::default() };
    let resolve = |_: &[Vec<u8>], sides: varvite::context::Sides<'_>| {
        Ok(match arguments.prefer {
            Some(Side::Ours) => Resolution::of(sides.ours),
            Some(Side::Theirs) => Resolution::of(sides.theirs),
            None => Resolution::Conflict,
        })
    };
    let name = &branch_name(branch)?[..];
    if arguments.dry_run {
        let store = arguments.folder.open()?;
        let theirs = commit(&store, from)?;
        let Some(ours) = store.branch(name) else {
            check_branch_name(&store, branch)?;
            return say(branch, "would be forwarded", Some(&theirs), format);
        };
        let merged = store.merge_commits(&ours, &theirs, limits, resolve);
        return match merged.map_err(raised_by_depth)? {
            Merge::Unchanged => say(branch, "unchanged", Some(&ours), format),
            Merge::FastForward => say(branch, "would be forwarded", Some(&theirs), format),
            Merge::Merged(_) => say(branch, "would be merged", None, format),
            Merge::Conflicts(merged) => conflicts(arguments, &merged.conflicts, format),
        };
    }
    let mut store = arguments.folder.open_to_write()?;
    if store.branch(name).is_none() {
        check_branch_name(&store, branch)?;
    }
    let theirs = commit(&store, from)?;
    let info = arguments.info.commit_info(&[], &format!("merge {from} into {branch}"))?;
    let outcome = store.merge_branch(name, &theirs, &info, limits, resolve);
    let outcome = outcome.map_err(raised_by_depth)?;
    let head = store.branch(name);
    close(store)?;
    match outcome {
        Merge::Unchanged => say(branch, "unchanged", head.as_ref(), format),
        Merge::FastForward => say(branch, "forwarded", head.as_ref(), format),
        Merge::Merged(commit) => say(branch, "merged", Some(&commit), format),
        Merge::Conflicts(merged) => conflicts(arguments, &merged.conflicts, format),
    }
}

/// Says by which flag a limit is raised.
fn raised_by_depth(error: Error) -> Error {
    match error.detail().strip_suffix("commits: raise the limit") {
        Some(what) => Error::invalid(format!("{what}commits: raise it with --depth")),
        None => error,
    }
}

/// What is on one side of a conflict, as a person reads it.
fn side(notation: Notation, tree: Option<&Tree>) -> Result<String> {
    let Some(tree) = tree else { return Ok("nothing".to_owned()) };
    match tree.to_value()? {
        Some(value) => Ok(notation.show(&value)),
        None => Ok(format!("a directory of {}", tree.length::<&[u8]>(&[])?)),
    }
}

/// The same for a program.
fn side_json(tree: Option<&Tree>) -> Result<serde_json::Value> {
    let Some(tree) = tree else { return Ok(serde_json::Value::Null) };
    Ok(match tree.to_value()? {
        Some(value) => {
            let mut said = json!({});
            text::put(&mut said, "value", Notation::Hex, &value);
            said
        }
        None => json!({"directory": tree.hash()?.to_string()}),
    })
}

fn conflicts(arguments: &MergeInto, conflicts: &[Conflict], format: Format) -> Outcome {
    exit::note(Verdict::No);
    if format == Format::Json {
        let mut all = Vec::new();
        for conflict in conflicts {
            let mut said = json!({
                "path": [], "base": side_json(conflict.base.as_ref())?,
                "ours": side_json(conflict.ours.as_ref())?,
                "theirs": side_json(conflict.theirs.as_ref())?,
            });
            put_path(&mut said, &conflict.path);
            all.push(said);
        }
        let branch = &arguments.branch;
        print::json(&json!({"branch": branch, "outcome": "conflicts", "conflicts": all}))?;
        return Ok(Verdict::No);
    }
    let notation = Notation::new(arguments.hex);
    let mut table = print::table(&["path", "base", "ours", "theirs"]);
    for conflict in conflicts {
        let path: Vec<_> = conflict.path.iter().map(|step| notation.show_step(step)).collect();
        table.add_row(vec![
            path.join("/"),
            side(notation, conflict.base.as_ref())?,
            side(notation, conflict.ours.as_ref())?,
            side(notation, conflict.theirs.as_ref())?,
        ]);
    }
    print::line(&table.to_string())?;
    print::line(&format!(
        "{} in conflict, nothing was changed: choose with --prefer ours or --prefer theirs, or change one side",
        conflicts.len()
    ))?;
    Ok(Verdict::No)
}
