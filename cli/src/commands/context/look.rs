//! The commands of `varvite context` that look: log, directories, values, figures, differences.

use std::io::{self, Write};

use clap::Args;
use serde_json::json;
use varvite::context::{Change, Commit, Depth, Kind, Order, Store, Tree};
use varvite::context::{CommitHash, TreeHash};
use varvite::{Error, Result};

use crate::advice::{CONTEXT_GET, CONTEXT_LS};
use crate::exit::{self, Failure, Outcome, Verdict};
use crate::hex;
use crate::print::records;
use crate::print::{self, Format, Output};
use crate::progress::{Progress, Unit};
use crate::store::context::{Folder, commit, text};
use crate::text::date;
use crate::text::view::View;
use crate::text::{self, Notation, Notations};

/// How many bytes of a value `get` prints to a terminal, and `diff`, which prints many.
const TERMINAL_GET: usize = 2048;
const TERMINAL_DIFF: usize = 64;

#[derive(Debug, Args)]
pub struct Log {
    #[command(flatten)]
    folder: Folder,
    /// How many at most
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Only what this commit or branch descends from, it included
    #[arg(long, value_name = "COMMIT")]
    branch: Option<String>,
    /// Only commits that changed what is at or below this path, compared with their first parent
    #[arg(long)]
    path: Option<String>,
    /// Steps of the path are hexadecimal
    #[arg(long, requires = "path")]
    hex: bool,
    /// Only commits of this date or later: 2026-01-31, 2026-01-31T12:00:00Z, or seconds since 1970
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    since: Option<String>,
    /// Only commits before this date
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    until: Option<String>,
}

/// A path in a commit.
#[derive(Debug, Args)]
pub struct Place {
    #[command(flatten)]
    folder: Folder,
    /// A commit: its hash or how that begins, a branch, or "last"; `~3` behind it goes three back
    commit: String,
    /// Steps joined by "/"
    #[arg(default_value = "")]
    path: String,
    #[command(flatten)]
    notations: Notations,
}

#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    place: Place,
    /// Show the value as what it means
    #[arg(long = "as", value_enum, value_name = "VIEW")]
    view: Option<View>,
    /// Print the bytes of the value as they are
    #[arg(long, conflicts_with_all = ["full", "view"])]
    raw: bool,
    /// Print long values whole to a terminal too
    #[arg(long)]
    full: bool,
}

#[derive(Debug, Args)]
pub struct Page {
    #[command(flatten)]
    place: Place,
    /// Children to skip
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// Children to list at most
    #[arg(long, default_value_t = 100)]
    length: u64,
}

#[derive(Debug, Args)]
pub struct Drawing {
    #[command(flatten)]
    place: Place,
    /// Levels to draw
    #[arg(long, default_value_t = 3)]
    depth: usize,
}

#[derive(Debug, Args)]
pub struct Between {
    #[command(flatten)]
    folder: Folder,
    /// The commit before
    before: String,
    /// The commit after
    after: String,
    #[command(flatten)]
    notations: Notations,
    /// Print long values whole to a terminal too
    #[arg(long)]
    full: bool,
}

impl Place {
    fn notation(&self) -> Notation {
        self.notations.path()
    }

    fn steps(&self) -> Result<Vec<Vec<u8>>> {
        self.notation().path(&self.path)
    }

    /// The subtree, or a sentence about why there is none.
    fn tree(&self) -> Result<std::result::Result<Tree, String>> {
        let store = self.folder.open()?;
        let commit = commit(&store, &self.commit)?;
        let (steps, root) = (self.steps()?, store.checkout(&commit)?);
        if let Some(tree) = root.find_tree(&steps)? {
            return Ok(Ok(tree));
        }
        // The longest part of the path that leads somewhere.
        let mut known = steps.len() - 1;
        while !root.mem_tree(&steps[..known])? {
            known -= 1;
        }
        let shown = |steps: &[Vec<u8>]| {
            let steps: Vec<_> = steps.iter().map(|step| self.notation().show_step(step)).collect();
            if steps.is_empty() {
                "the root".to_owned()
            } else {
                format!("\"{}\"", steps.join("/"))
            }
        };
        let (there, missing) = (shown(&steps[..known]), shown(&steps[known..=known]));
        let why = if root.mem(&steps[..known])? {
            format!("{there} is a value, and nothing is below a value: print it with {CONTEXT_GET}")
        } else {
            format!("{there} has no child {missing}: list what it has with {CONTEXT_LS}")
        };
        Ok(Err(format!("nothing is at {} in {}: {why}", shown(&steps), self.commit)))
    }

    /// The path for a sentence.
    fn shown(&self) -> String {
        if self.path.is_empty() {
            format!("the root of {}", self.commit)
        } else {
            format!("\"{}\"", self.path)
        }
    }
}

/// The answer when nothing is at a place.
pub fn nothing(why: &str, format: Format) -> Outcome {
    exit::note(Verdict::No);
    match format {
        Format::Json => print::json(&json!({"found": false, "why": why}))?,
        Format::Table => print::line(why)?,
    }
    Ok(Verdict::No)
}

/// The same where the output is a value or a list, which a sentence must not be taken for.
fn no_value(why: &str, format: Format) -> Outcome {
    match format {
        Format::Json => return nothing(why, format),
        Format::Table => complain!("{why}"),
    }
    Ok(Verdict::No)
}

/// The same of a list: a CSV has its columns, and no row.
fn no_list(why: &str, format: Format) -> Outcome {
    if records::output() != Output::Csv {
        return no_value(why, format);
    }
    complain!("{why}");
    print::json(&json!([]))?;
    Ok(Verdict::No)
}

/// Whether commits before one cannot be read: they are damaged, or in a lower folder that was not given.
fn hides_others(error: &Error) -> bool {
    matches!(error.kind(), varvite::Kind::Corrupt | varvite::Kind::Missing)
}

/// The newest commits that `list` gives, of which it takes the number, and what keeps the others from being listed.
fn newest<T>(
    store: &Store,
    most: usize,
    list: impl Fn(usize) -> Result<Vec<T>>,
) -> Result<(Vec<T>, Option<Error>)> {
    let damage = match list(most) {
        Ok(commits) => return Ok((commits, None)),
        Err(error) if hides_others(&error) => error,
        Err(error) => return Err(error),
    };
    let total = usize::try_from(store.stats().commits).unwrap_or(usize::MAX);
    let (mut commits, mut beyond) = (Vec::new(), most.min(total).saturating_add(1));
    while commits.len() + 1 < beyond {
        let middle = commits.len().midpoint(beyond);
        match list(middle) {
            Ok(more) if more.len() < middle => return Ok((more, Some(damage))),
            Ok(more) => commits = more,
            Err(_) => beyond = middle,
        }
    }
    Ok((commits, Some(damage)))
}

/// The commits that are asked for, and the damage that others are behind.
fn chosen(arguments: &Log) -> Result<(Vec<Commit>, Option<Error>)> {
    let store = arguments.folder.open()?;
    let day = |date: &Option<String>| date.as_deref().map(date::parse).transpose();
    let (since, until) = (day(&arguments.since)?, day(&arguments.until)?);
    let notation = Notation::new(arguments.hex);
    let path = arguments.path.as_deref().map(|path| notation.path(path)).transpose()?;
    let chooses = since.is_some() || until.is_some() || path.is_some();
    let most = if chooses { usize::MAX } else { arguments.limit };
    let mut listed: Box<dyn Iterator<Item = Result<Commit>>> = if let Some(name) = &arguments.branch
    {
        let head = [commit(&store, name)?];
        let (found, damage) = newest(&store, most, |most| store.history(&head, most))?;
        Box::new(found.into_iter().map(Ok).chain(damage.map(Err)))
    } else {
        let (hashes, damage) = newest(&store, most, |most| store.log(most))?;
        let read = hashes.into_iter().map(|hash| store.commit_info(&hash));
        Box::new(read.chain(damage.map(Err)))
    };
    let mut commits = Vec::new();
    let mut bar = Progress::endless("commits read", Unit::Items);
    let mut read = 0;
    while commits.len() < arguments.limit
        && let Some(commit) = listed.next()
    {
        let commit = match commit {
            Err(error) if hides_others(&error) => return Ok((commits, Some(error))),
            commit => commit?,
        };
        read += 1;
        bar.set(read);
        let is_in_time = since.is_none_or(|since| commit.date >= since)
            && until.is_none_or(|until| commit.date < until);
        let changed = |path: &Vec<Vec<u8>>| -> Result<bool> {
            let before = commit.parents.first().map(|parent| at(&store, parent, path));
            Ok(at(&store, &commit.hash, path)? != before.transpose()?.flatten())
        };
        match path.as_ref().filter(|_| is_in_time).map_or(Ok(is_in_time), changed) {
            Err(error) if hides_others(&error) => return Ok((commits, Some(error))),
            is_asked => commits.extend(is_asked?.then_some(commit)),
        }
    }
    Ok((commits, None))
}

/// The hash of what is at the path in the commit; nothing in one that is not in the store.
fn at(store: &Store, commit: &CommitHash, path: &[Vec<u8>]) -> Result<Option<TreeHash>> {
    if !store.exists(commit)? {
        return Ok(None);
    }
    store.checkout(commit)?.find_tree(path)?.map(|tree| tree.hash()).transpose()
}

/// The columns of `log` and `ls`.
const LOG: [&str; 14] = [
    "hash",
    "tree",
    "commit_hash",
    "tree_hash",
    "parents",
    "date",
    "date_iso",
    "author",
    "message",
    "sequence",
    "author_text",
    "author_hex",
    "message_text",
    "message_hex",
];
const LS: [&str; 6] = ["name", "name_text", "name_hex", "kind", "length", "hash"];

/// Runs `log`.
pub fn log(arguments: &Log, format: Format) -> Outcome {
    let (commits, damage) = chosen(arguments)?;
    let message = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if format == Format::Json {
        let all: Vec<_> = commits
            .iter()
            .map(|commit| {
                let parents: Vec<_> = commit.parents.iter().map(|hash| text(hash)).collect();
                json!({
                    "hash": text(&commit.hash), "tree": text(&commit.tree),
                    "commit_hash": text(&commit.hash), "tree_hash": text(&commit.tree),
                    "parents": parents, "date": commit.date, "date_iso": date::iso(commit.date), "author": message(&commit.author),
                    "message": message(&commit.message), "sequence": commit.sequence,
                    "author_text": Notation::Text.show(&commit.author), "author_hex": hex::encode(&commit.author),
                    "message_text": Notation::Text.show(&commit.message), "message_hex": hex::encode(&commit.message),
                })
            })
            .collect();
        records::columns(&LOG)?;
        let Some(damage) = damage else {
            print::json(&all)?;
            return Ok(Verdict::Yes);
        };
        all.into_iter().try_for_each(records::item)?;
        return Err(damage.into());
    }
    if commits.is_empty() && arguments.limit > 0 && damage.is_none() {
        print::aside("no commits")?;
        return Ok(Verdict::Yes);
    }
    let mut table = print::table(&[">number", "commit", "date", "author", "message"]);
    for commit in &commits {
        table.add_row(vec![
            commit.sequence.to_string(),
            text(&commit.hash),
            date::iso(commit.date),
            Notation::Text.show(&commit.author),
            Notation::Text.show(&commit.message),
        ]);
    }
    if !commits.is_empty() || damage.is_none() {
        print::line(&table.to_string())?;
    }
    damage.map_or(Ok(Verdict::Yes), |damage| Err(damage.into()))
}

/// Runs `ls`.
pub fn ls(arguments: &Page, format: Format) -> Outcome {
    let place = &arguments.place;
    records::columns(&LS)?;
    let tree = match place.tree()? {
        Ok(tree) => tree,
        Err(why) => return no_list(&why, format),
    };
    let notation = place.notation();
    let page = tree.list::<&[u8]>(&[], arguments.offset, arguments.length)?;
    let mut rows = Vec::new();
    for (name, child) in &page {
        let length = match child.to_value()? {
            Some(value) => value.len() as u64,
            None => child.length::<&[u8]>(&[])?,
        };
        rows.push((
            notation.show_step(name),
            child.kind(),
            length,
            text(child.hash()?.as_bytes()),
            name.clone(),
        ));
    }
    let kind = |kind| if kind == Kind::Value { "value" } else { "directory" };
    if format == Format::Json {
        let all: Vec<_> = rows
            .iter()
            .map(|row| json!({
                "name": row.0, "name_text": Notation::Text.show(&row.4), "name_hex": Notation::Hex.show(&row.4),
                "kind": kind(row.1), "length": row.2, "hash": row.3,
            }))
            .collect();
        print::json(&all)?;
        return Ok(Verdict::Yes);
    }
    let mut table = print::table(&["name", "kind", ">size", "hash"]);
    for (name, what, length, hash, _) in rows {
        table.add_row(vec![name, kind(what).to_owned(), print::count(length), hash]);
    }
    print::line(&table.to_string())?;
    Ok(Verdict::Yes)
}

/// The columns of a value before what it means.
const COLUMNS_OF_GET: [&str; 7] =
    ["found", "path", "path_text", "path_hex", "value", "value_text", "value_hex"];

/// Runs `get`.
pub fn get(arguments: &Get, format: Format) -> Outcome {
    let place = &arguments.place;
    let view = arguments.view.map(|_| "value_as");
    let columns = COLUMNS_OF_GET.into_iter().chain(view).chain(["hash", "why"]);
    if !arguments.raw {
        records::columns_of_result(&columns.collect::<Vec<_>>())?;
    }
    let tree = match place.tree()? {
        Ok(tree) => tree,
        Err(why) => return no_value(&why, format),
    };
    let Some(value) = tree.to_value()? else {
        return Err(Error::invalid(format!(
            "{} is a directory: list it with {CONTEXT_LS}",
            place.shown()
        ))
        .into());
    };
    match format {
        _ if arguments.raw => print::out().write_all(&value)?,
        Format::Json => {
            let mut said = json!({"found": true});
            text::put_path(&mut said, &place.steps()?);
            text::put(&mut said, "value", Notation::Hex, &value);
            if let Some(view) = arguments.view {
                said["value_as"] = view.value(&value);
            }
            said["hash"] = text(tree.hash()?.as_bytes()).into();
            print::json(&said)?;
        }
        Format::Table => {
            let most = print::value_bytes(TERMINAL_GET, arguments.full);
            let notation = place.notations.value();
            let shown = arguments.view.map(|view| view.show(notation, &value));
            print::line(&shown.unwrap_or_else(|| notation.show_up_to(&value, most)))?;
        }
    }
    Ok(Verdict::Yes)
}

/// Runs `tree`.
pub fn draw(arguments: &Drawing, format: Format) -> Outcome {
    let place = &arguments.place;
    records::columns(&["path", "kind", "length", "path_text", "path_hex"])?;
    let tree = match place.tree()? {
        Ok(tree) => tree,
        Err(why) => return no_list(&why, format),
    };
    let notation = place.notation();
    let (mut failed, mut drawn) = (None, 0);
    let outcome =
        tree.fold::<&[u8]>(&[], Some(Depth::Le(arguments.depth)), Order::Sorted, |path, tree| {
            let Some(name) = path.last() else { return Ok(()) };
            let (kind, length, unit) = match tree.to_value()? {
                Some(value) => ("value", value.len() as u64, ["byte", "bytes"]),
                None => ("directory", tree.length::<&[u8]>(&[])?, ["child", "children"]),
            };
            let said = if format == Format::Json {
                let mut record = json!({"path": [], "kind": kind, "length": length});
                text::put_path(&mut record, path);
                records::record(record)
            } else {
                let what = print::counted(length, unit[0], unit[1]);
                print::line(&if print::is_seen() {
                    format!("{}{}  ({what})", "  ".repeat(path.len() - 1), notation.show_step(name))
                } else {
                    let steps: Vec<_> = path.iter().map(|step| notation.show_step(step)).collect();
                    format!("{}\t{what}", steps.join("/"))
                })
            };
            drawn += 1;
            unless(said, &mut failed)
        });
    ended(outcome.map_err(|error| reached(error, "directories and values", drawn)), failed)?;
    Ok(Verdict::Yes)
}

/// Runs `stat`.
pub fn stat(arguments: &Folder, format: Format) -> Outcome {
    let store = arguments.open()?;
    let stats = store.stats();
    let configuration = store.configuration();
    let branches = store.branches();
    if format == Format::Json {
        let branches: serde_json::Map<_, _> = branches
            .iter()
            .map(|(name, hash)| (Notation::Text.show(name), text(hash).into()))
            .collect();
        print::json(&json!({
            "commits": stats.commits, "objects": stats.objects, "pack_bytes": stats.pack_bytes,
            "index_bytes": stats.index_bytes, "warnings": store.warnings(),
            "chunks": stats.chunks, "epoch": stats.epoch, "generation": stats.generation,
            "entries": configuration.entries(), "stable_hash": configuration.stable_hash(),
            "branches": branches,
        }))?;
        return Ok(Verdict::Yes);
    }
    let table = print::record(&[
        ("commits", print::count(stats.commits)),
        ("objects found by hash", print::count(stats.objects)),
        ("pack", print::bytes(stats.pack_bytes)),
        ("index", print::bytes(stats.index_bytes)),
        ("chunks", print::count(stats.chunks)),
        ("epoch", print::count(stats.epoch)),
        ("generation", print::count(stats.generation)),
        ("branching", configuration.entries().to_string()),
        ("hashed flat up to", configuration.stable_hash().to_string()),
        ("branches", branches.len().to_string()),
    ]);
    print::line(&table.to_string())?;
    for warning in store.warnings() {
        print::line(&print::record(&[("warning", warning.clone())]).to_string())?;
    }
    Ok(Verdict::Yes)
}

/// Runs `du`.
pub fn du(place: &Place, format: Format) -> Outcome {
    records::columns(&["name", "values", "bytes", "name_text", "name_hex"])?;
    let tree = match place.tree()? {
        Ok(tree) => tree,
        Err(why) => return no_list(&why, format),
    };
    let notation = place.notation();
    let mut rows: Vec<(Vec<u8>, u64, u64)> = Vec::new();
    let mut bar = Progress::endless("values", Unit::Items);
    let mut passed = 0;
    let outcome = tree.fold::<&[u8]>(&[], Some(Depth::Ge(1)), Order::Sorted, |path, tree| {
        if path.len() == 1 {
            rows.push((path[0].clone(), 0, 0));
        }
        if let Some(value) = tree.to_value()? {
            let row = rows.last_mut().expect("a child comes before what is below it");
            row.1 += 1;
            row.2 += value.len() as u64;
            passed += 1;
            bar.set(passed);
        }
        Ok(())
    });
    bar.finish();
    let damage = outcome.err().map(|error| {
        // Of the last one not all was read.
        rows.pop();
        reached(error, "children", rows.len() as u64)
    });
    if format == Format::Json {
        let all: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "name": notation.show_step(&row.0), "values": row.1, "bytes": row.2,
                    "name_text": Notation::Text.show(&row.0), "name_hex": hex::encode(&row.0),
                })
            })
            .collect();
        let Some(damage) = damage else {
            print::json(&all)?;
            return Ok(Verdict::Yes);
        };
        all.into_iter().try_for_each(records::item)?;
        return Err(damage.into());
    }
    let is_empty = rows.is_empty();
    let mut table = print::table(&["name", ">values", ">bytes"]);
    for (name, values, bytes) in rows {
        table.add_row(vec![notation.show_step(&name), print::count(values), print::count(bytes)]);
    }
    if !is_empty || damage.is_none() {
        print::line(&table.to_string())?;
    }
    damage.map_or(Ok(Verdict::Yes), |damage| Err(damage.into()))
}

/// The columns of `diff`, and of `dump`.
const DIFF: [&str; 9] = [
    "path",
    "before",
    "after",
    "path_text",
    "path_hex",
    "before_text",
    "before_hex",
    "after_text",
    "after_hex",
];

/// Runs `diff`.
pub fn diff(arguments: &Between, format: Format) -> Outcome {
    let store = arguments.folder.open()?;
    let tree = |text: &str| store.checkout(&commit(&store, text)?);
    let trees = [tree(&arguments.before)?, tree(&arguments.after)?];
    differences(&trees, arguments.notations, arguments.full, format)
}

/// Prints what changed from the first tree to the second.
pub fn differences(
    [before, after]: &[Tree; 2],
    notations: Notations,
    full: bool,
    format: Format,
) -> Outcome {
    let most = print::value_bytes(TERMINAL_DIFF, full);
    let (mut told, mut failed) = (0, None);
    records::columns(&DIFF)?;
    let outcome = before.diff(after, |path, change| {
        told += 1;
        exit::note(Verdict::No);
        let (sign, old, new) = match &change {
            Change::Added(new) => ('+', None, Some(new)),
            Change::Removed(old) => ('-', Some(old), None),
            Change::Updated(old, new) => ('~', Some(old), Some(new)),
        };
        let said = if format == Format::Json {
            let mut record = json!({"path": [], "before": null, "after": null});
            text::put_path(&mut record, path);
            for (name, value) in [("before", old), ("after", new)] {
                if let Some(value) = value {
                    text::put(&mut record, name, Notation::Hex, value);
                }
            }
            records::record(record)
        } else {
            let path: Vec<_> = path.iter().map(|step| notations.path().show_step(step)).collect();
            let bytes = |value: Option<&Vec<u8>>| {
                value.map(|value| notations.value().show_up_to(value, most))
            };
            let values: Vec<_> = [bytes(old), bytes(new)].into_iter().flatten().collect();
            print::line(&if print::is_seen() {
                format!("{sign} {}  {}", path.join("/"), values.join(" -> "))
            } else {
                format!("{sign}\t{}\t{}", path.join("/"), values.join("\t"))
            })
        };
        unless(said, &mut failed)
    });
    ended(outcome.map_err(|error| reached(error, "differences", told)), failed)?;
    Ok(Verdict::found(told == 0))
}

/// Damage with how many `what` came before it.
pub(super) fn reached(error: Error, what: &str, count: u64) -> Error {
    if error.kind() != varvite::Kind::Corrupt {
        return error;
    }
    Error::new(varvite::Kind::Corrupt, format!("{error}; {what} before it: {count}"))
}

/// Ends a walk when what was `said` could not be: nobody listens to the rest of it.
pub(super) fn unless(said: io::Result<()>, failed: &mut Option<io::Error>) -> Result<()> {
    said.map_err(|error| {
        *failed = Some(error);
        Error::invalid("the output is closed")
    })
}

/// How a walk ended: of what could not be said that counts, not how the walk was ended for it.
pub(super) fn ended<T>(
    outcome: Result<T>,
    failed: Option<io::Error>,
) -> std::result::Result<T, Failure> {
    failed.map_or_else(|| outcome.map_err(Failure::from), |error| Err(error.into()))
}
