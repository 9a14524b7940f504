//! The commands of `varvite context` that look: log, directories, values, figures, differences.

use clap::Args;
use serde_json::json;
use varvite::context::{Change, Depth, Kind, Order, Tree};
use varvite::{Error, Result};

use crate::advice::{CONTEXT_GET, CONTEXT_LS};
use crate::exit::{Outcome, Verdict};
use crate::hex;
use crate::print::{self, Format};
use crate::store::context::{Folder, commit, text};
use crate::text::Notation;

/// How many bytes of a value `get` prints to a terminal, and `diff`, which prints many.
const TERMINAL_GET: usize = 2048;
const TERMINAL_DIFF: usize = 64;

#[derive(Debug, Args)]
pub struct Log {
    #[command(flatten)]
    folder: Folder,
    /// How many
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

/// A path in a commit.
#[derive(Debug, Args)]
pub struct Place {
    #[command(flatten)]
    folder: Folder,
    /// Hash of a commit, a branch, or "last"
    commit: String,
    /// Steps joined by "/"
    #[arg(default_value = "")]
    path: String,
    /// Steps and values are hexadecimal
    #[arg(long)]
    hex: bool,
}

#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    place: Place,
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
    /// Steps and values are printed in hexadecimal
    #[arg(long)]
    hex: bool,
    /// Print long values whole to a terminal too
    #[arg(long)]
    full: bool,
}

#[derive(Debug, Args)]
pub struct Dump {
    #[command(flatten)]
    folder: Folder,
    /// Hash of a commit, a branch, or "last"
    commit: String,
}

impl Place {
    fn notation(&self) -> Notation {
        Notation::new(self.hex)
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
            let steps: Vec<_> = steps.iter().map(|step| self.notation().show(step)).collect();
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
    match format {
        Format::Json => print::json(&json!({"found": false, "why": why}))?,
        Format::Table => print::line(why)?,
    }
    Ok(Verdict::No)
}

/// Runs `log`.
pub fn log(arguments: &Log, format: Format) -> Outcome {
    let store = arguments.folder.open()?;
    let mut commits = Vec::new();
    for hash in store.log(arguments.limit)? {
        commits.push(store.commit_info(&hash)?);
    }
    let message = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if format == Format::Json {
        let all: Vec<_> = commits
            .iter()
            .map(|commit| {
                let parents: Vec<_> = commit.parents.iter().map(text).collect();
                json!({
                    "hash": text(&commit.hash), "tree": text(&commit.tree),
                    "parents": parents, "date": commit.date, "author": message(&commit.author),
                    "message": message(&commit.message), "sequence": commit.sequence,
                })
            })
            .collect();
        print::json(&all)?;
        return Ok(Verdict::Yes);
    }
    if commits.is_empty() && arguments.limit > 0 {
        print::line("no commits")?;
        return Ok(Verdict::Yes);
    }
    let mut table = print::table(&[">number", "=commit", ">date", "author", "message"]);
    for commit in &commits {
        table.add_row(vec![
            commit.sequence.to_string(),
            text(&commit.hash),
            commit.date.to_string(),
            Notation::Text.show(&commit.author),
            Notation::Text.show(&commit.message),
        ]);
    }
    print::line(&table.to_string())?;
    Ok(Verdict::Yes)
}

/// Runs `ls`.
pub fn ls(arguments: &Page, format: Format) -> Outcome {
    let place = &arguments.place;
    let tree = match place.tree()? {
        Ok(tree) => tree,
        Err(why) => return nothing(&why, format),
    };
    let notation = place.notation();
    let page = tree.list::<&[u8]>(&[], arguments.offset, arguments.length)?;
    let mut rows = Vec::new();
    for (name, child) in &page {
        let length = match child.to_value()? {
            Some(value) => value.len() as u64,
            None => child.length::<&[u8]>(&[])?,
        };
        rows.push((notation.show(name), child.kind(), length, text(&child.hash()?)));
    }
    let kind = |kind| if kind == Kind::Value { "value" } else { "directory" };
    if format == Format::Json {
        let all: Vec<_> = rows
            .iter()
            .map(|row| json!({"name": row.0, "kind": kind(row.1), "length": row.2, "hash": row.3}))
            .collect();
        print::json(&all)?;
        return Ok(Verdict::Yes);
    }
    let mut table = print::table(&["name", "kind", ">bytes or children", "=hash"]);
    for (name, what, length, hash) in rows {
        table.add_row(vec![name, kind(what).to_owned(), print::count(length), hash]);
    }
    print::line(&table.to_string())?;
    Ok(Verdict::Yes)
}

/// Runs `get`.
pub fn get(arguments: &Get, format: Format) -> Outcome {
    let place = &arguments.place;
    let tree = match place.tree()? {
        Ok(tree) => tree,
        Err(why) => return nothing(&why, format),
    };
    let Some(value) = tree.to_value()? else {
        return Err(Error::invalid(format!(
            "{} is a directory: list it with {CONTEXT_LS}",
            place.shown()
        ))
        .into());
    };
    match format {
        Format::Json => print::json(&json!({"value": hex::encode(&value)}))?,
        Format::Table => {
            let most = print::value_bytes(TERMINAL_GET, arguments.full);
            print::line(&place.notation().show_up_to(&value, most))?;
        }
    }
    Ok(Verdict::Yes)
}

/// Runs `tree`.
pub fn draw(arguments: &Drawing, format: Format) -> Outcome {
    let place = &arguments.place;
    let tree = match place.tree()? {
        Ok(tree) => tree,
        Err(why) => return nothing(&why, format),
    };
    let notation = place.notation();
    let mut failed = None;
    tree.fold::<&[u8]>(&[], Some(Depth::Le(arguments.depth)), Order::Sorted, |path, tree| {
        let Some(name) = path.last() else { return Ok(()) };
        let (kind, length, unit) = match tree.to_value()? {
            Some(value) => ("value", value.len() as u64, ["byte", "bytes"]),
            None => ("directory", tree.length::<&[u8]>(&[])?, ["child", "children"]),
        };
        let line = if format == Format::Json {
            let path: Vec<_> = path.iter().map(|step| hex::encode(step)).collect();
            json!({"path": path, "kind": kind, "length": length}).to_string()
        } else {
            let indent = "  ".repeat(path.len() - 1);
            let what = print::counted(length, unit[0], unit[1]);
            format!("{indent}{}  ({what})", notation.show(name))
        };
        if failed.is_none() {
            failed = print::line(&line).err();
        }
        Ok(())
    })?;
    failed.map_or(Ok(Verdict::Yes), |error| Err(error.into()))
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
        print::line(&format!("warning: {warning}"))?;
    }
    Ok(Verdict::Yes)
}

/// Runs `du`.
pub fn du(place: &Place, format: Format) -> Outcome {
    let tree = match place.tree()? {
        Ok(tree) => tree,
        Err(why) => return nothing(&why, format),
    };
    let notation = place.notation();
    let mut rows: Vec<(String, u64, u64)> = Vec::new();
    tree.fold::<&[u8]>(&[], Some(Depth::Ge(1)), Order::Sorted, |path, tree| {
        if path.len() == 1 {
            rows.push((notation.show(&path[0]), 0, 0));
        }
        if let Some(value) = tree.to_value()? {
            let row = rows.last_mut().expect("a child comes before what is below it");
            row.1 += 1;
            row.2 += value.len() as u64;
        }
        Ok(())
    })?;
    if format == Format::Json {
        let all: Vec<_> = rows
            .iter()
            .map(|row| json!({"name": row.0, "values": row.1, "bytes": row.2}))
            .collect();
        print::json(&all)?;
        return Ok(Verdict::Yes);
    }
    let mut table = print::table(&["name", ">values", ">bytes"]);
    for (name, values, bytes) in rows {
        table.add_row(vec![name, print::count(values), print::count(bytes)]);
    }
    print::line(&table.to_string())?;
    Ok(Verdict::Yes)
}

/// Runs `diff`.
pub fn diff(arguments: &Between, format: Format) -> Outcome {
    let store = arguments.folder.open()?;
    let tree = |text: &str| store.checkout(&commit(&store, text)?);
    let (before, after) = (tree(&arguments.before)?, tree(&arguments.after)?);
    let notation = Notation::new(arguments.hex);
    let most = print::value_bytes(TERMINAL_DIFF, arguments.full);
    let (mut same, mut failed) = (true, None);
    before.diff(&after, |path, change| {
        same = false;
        let (sign, old, new) = match &change {
            Change::Added(new) => ('+', None, Some(new)),
            Change::Removed(old) => ('-', Some(old), None),
            Change::Updated(old, new) => ('~', Some(old), Some(new)),
        };
        let line = if format == Format::Json {
            let path: Vec<_> = path.iter().map(|step| hex::encode(step)).collect();
            let value = |value: Option<&Vec<u8>>| value.map(|value| hex::encode(value));
            json!({"path": path, "before": value(old), "after": value(new)}).to_string()
        } else {
            let path: Vec<_> = path.iter().map(|step| notation.show(step)).collect();
            let bytes =
                |value: Option<&Vec<u8>>| value.map(|value| notation.show_up_to(value, most));
            let values: Vec<_> = [bytes(old), bytes(new)].into_iter().flatten().collect();
            format!("{sign} {}  {}", path.join("/"), values.join(" -> "))
        };
        if failed.is_none() {
            failed = print::line(&line).err();
        }
        Ok(())
    })?;
    failed.map_or(Ok(Verdict::found(same)), |error| Err(error.into()))
}

/// Runs `dump`.
pub fn dump(arguments: &Dump) -> Outcome {
    let store = arguments.folder.open()?;
    let tree = store.checkout(&commit(&store, &arguments.commit)?)?;
    let mut failed = None;
    tree.fold::<&[u8]>(&[], None, Order::Sorted, |path, tree| {
        if let Some(value) = tree.to_value()?
            && failed.is_none()
        {
            let path: Vec<_> = path.iter().map(|step| hex::encode(step)).collect();
            let line = json!({"path": path, "value": hex::encode(&value)});
            failed = print::line(&line.to_string()).err();
        }
        Ok(())
    })?;
    failed.map_or(Ok(Verdict::Yes), |error| Err(error.into()))
}
