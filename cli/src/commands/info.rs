//! `varvite info`: what a folder is.

pub mod doctor;
pub mod explore;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use varvite::irmin_pack as irmin;
use varvite::{Error, Kind, Result, SessionOptions};

use super::table::state::State;
use crate::advice::{CHECK, CONTEXT_LOG, INSPECT, LIST, SNAPSHOT_INFO};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::store::context::{Folder, Foreign, text};
use crate::store::{folder, tables};
use crate::system::measure::disk_bytes;
use crate::text::put_name;

/// Say what a folder is: a store of tables, a context, one of Irmin, or what stores are below it
///
/// Reads little and never writes. Exit code 3 when what it reads is damaged.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder
    store: PathBuf,
    #[command(flatten)]
    foreign: Foreign,
}

/// Stores that are named of those in a folder.
const BELOW: usize = 20;

/// What a folder is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Tables,
    Context,
    Irmin,
    /// Old commits of a context, without the rest of it.
    Lower,
}

impl What {
    /// What the folder is, if it is a store.
    fn of(path: &Path) -> Option<What> {
        if folder::disk(path).is_ok_and(|disk| irmin::is_store(&*disk).is_ok_and(|is_it| is_it)) {
            return Some(What::Irmin);
        }
        if folder::is_lower(path) {
            return Some(What::Lower);
        }
        if folder::is_context(path) {
            return Some(What::Context);
        }
        let has = |name: &str| path.join(name).exists();
        // One that has lost its first file is still told from a folder that is none.
        (has("session") || has("segments") && (has("snapshots") || has("checkpoint")))
            .then_some(What::Tables)
    }

    /// For people, and for programs.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            What::Tables => ("a store of tables", "tables"),
            What::Context => ("a context", "context"),
            What::Irmin => ("a context of Irmin, which is only read", "irmin"),
            What::Lower => ("the lower folder of a context, with old commits of it", "lower"),
        }
    }
}

/// What is said of a store: rows for people, keys for programs, what comes next, and whether it is sound.
struct Said {
    rows: Vec<(&'static str, String)>,
    json: Value,
    next: String,
    damage: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let path = &arguments.store;
    if is_commit_file(path) {
        let detail = format!(
            "{} is a snapshot of a commit of a context, not a folder: {SNAPSHOT_INFO} describes it",
            path.display()
        );
        return Err(Error::invalid(detail).into());
    }
    if path.is_file() {
        let detail = format!("{} is a file, not a folder: {INSPECT} decodes it", path.display());
        return Err(Error::invalid(detail).into());
    }
    folder::disk(path)?;
    let Some(what) = What::of(path) else {
        arguments.foreign.expect_none(path)?;
        return below(path, format);
    };
    let mut said = match what {
        What::Tables => {
            arguments.foreign.expect_none(path)?;
            of_tables(path)?
        }
        _ => of_context(path, &arguments.foreign)?,
    };
    let (name, kind) = what.names();
    let bytes = disk_bytes(path);
    let verdict = Verdict::sound(said.damage.is_none());
    match format {
        Format::Json => {
            said.json["kind"] = kind.into();
            said.json["disk_bytes"] = bytes.into();
            said.json["damage"] = said.damage.clone().into();
            print::json(&said.json)?;
        }
        Format::Table => {
            print::aside(&format!("{} is {name}", path.display()))?;
            if !print::is_seen() {
                said.rows.insert(0, ("kind", name.to_owned()));
                said.rows.extend(said.damage.clone().map(|damage| ("damage", damage)));
            } else if let Some(damage) = &said.damage {
                print::line(&format!("DAMAGED: {damage}"))?;
            }
            said.rows.push(("on disk", print::bytes(bytes)));
            print::line(&print::record(&said.rows).to_string())?;
            print::aside(&said.next)?;
        }
    }
    Ok(verdict)
}

/// Whether the file begins as snapshots of commits do.
fn is_commit_file(path: &Path) -> bool {
    // Others, as a pipe, may keep whoever opens them waiting.
    if !path.is_file() {
        return false;
    }
    let mut start = [0; 8];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"varviteX"
}

/// The answer, or what is damaged.
fn or_damage<T: Default>(outcome: Result<T>, damage: &mut Option<String>) -> Result<T> {
    match outcome {
        Err(error) if error.kind() == Kind::Corrupt => {
            damage.get_or_insert_with(|| error.to_string());
            Ok(T::default())
        }
        outcome => outcome,
    }
}

fn of_tables(path: &Path) -> Result<Said> {
    let mut damage = None;
    let opened = tables::open_read_only(path, SessionOptions::default()).map(Some);
    // What else is there was a store's, unless it says that it is none yet.
    let is_unfinished = path.join("session.tmp").exists();
    let opened = opened.map_err(|error| match error.kind() {
        Kind::Missing if !is_unfinished => Error::new(Kind::Corrupt, "the file session is lost"),
        _ => error,
    });
    let (mut snapshots, mut state) = (Vec::new(), None);
    if let Some(session) = or_damage(opened, &mut damage)? {
        snapshots = or_damage(session.list_snapshots(), &mut damage)?;
        // Several snapshots and no head: none of them is the newest state.
        state = match State::of(&session, None) {
            Err(error) if error.kind() == Kind::Invalid => Some(State::default()),
            state => or_damage(state.map(Some), &mut damage)?,
        };
    }
    let broken = snapshots.iter().find_map(|snapshot| snapshot.damage.clone());
    let damage = damage.or(broken);
    // What cannot be read is not known, which is another thing than that there is none.
    let unknown = || "not known".to_owned();
    let live = state.as_ref().map(|state| state.live);
    let snapshot = state.as_ref().and_then(|state| state.snapshot.clone());
    let tables: Option<Vec<_>> =
        state.as_ref().map(|state| state.tables.iter().map(|table| table.name.as_str()).collect());
    let names: Vec<_> = snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect();
    let rows = vec![
        ("its state", state.as_ref().map_or_else(unknown, State::place)),
        ("tables of it", tables.as_ref().map_or_else(unknown, |tables| some_of(tables))),
        ("snapshots", some_of(&names)),
    ];
    let json = json!({
        "live": live, "snapshot": snapshot, "tables": tables, "snapshots": names,
    });
    let next = match damage {
        Some(_) => format!("{CHECK} says all that is damaged"),
        None => format!("{LIST} shows the tables, {CHECK} verifies the store"),
    };
    Ok(Said { rows, json, next, damage })
}

fn of_context(path: &Path, foreign: &Foreign) -> Result<Said> {
    let mut damage = None;
    let folder = Folder { store: path.to_owned(), foreign: foreign.clone() };
    if let Some(lower) = folder.lower()
        && path.join("control").is_file()
    {
        folder::expect_lower(path, lower)?;
    }
    let opened = or_damage(folder.open().map(Some), &mut damage)?;
    let (mut rows, mut json) = (Vec::new(), json!({}));
    if let Some(store) = opened {
        let last = or_damage(store.last_commit(), &mut damage)?;
        let last = last.as_ref().map(|hash| text(hash));
        let branches: Vec<_> = store.branches();
        let names = branches.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        let names: Vec<_> = names.collect();
        let commits = store.stats().commits;
        let below = store.archived_bytes();
        json = json!({
            "commits": commits, "last_commit": last, "branches": names, "archived_bytes": below,
        });
        rows = vec![
            ("commits", print::count(commits)),
            ("newest commit", last.unwrap_or_else(|| "none".to_owned())),
            ("branches", some_of(&names.iter().map(String::as_str).collect::<Vec<_>>())),
        ];
        rows.extend((below > 0).then(|| ("in its lower folder", print::bytes(below))));
    }
    let next = format!("{CONTEXT_LOG} lists the commits, {CHECK} verifies the store");
    Ok(Said { rows, json, next, damage })
}

/// As many names as fit a line.
fn some_of(names: &[&str]) -> String {
    const MOST: usize = 5;
    let shown = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "none".to_owned(),
        count if count > MOST => format!("{shown} and {} more", count - MOST),
        _ => shown,
    }
}

/// What stores are in a folder that is none.
fn below(path: &Path, format: Format) -> Outcome {
    let entries = fs::read_dir(path);
    let entries = entries.map_err(|error| Error::io("list", &path.display().to_string(), error))?;
    let mut found: Vec<(PathBuf, What)> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| Some((entry.path(), What::of(&entry.path())?)))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let verdict = Verdict::found(!found.is_empty());
    match format {
        Format::Json => {
            let stores = found.iter().map(|(path, what)| {
                let mut store = json!({ "kind": what.names().1 });
                put_name(&mut store, "folder", path.as_os_str());
                store
            });
            let stores: Vec<_> = stores.collect();
            let mut said = json!({ "kind": null, "found": !stores.is_empty(), "stores": stores });
            if found.is_empty() {
                said["why"] = format!("{} is no store, and has none in it", path.display()).into();
            }
            print::json(&said)?;
        }
        Format::Table => {
            let stores = print::counted(found.len() as u64, "store", "stores");
            let sentence = format!("{} is no store; {stores} in it", path.display());
            if !print::is_seen() {
                let mut grid = print::table(&["folder", "kind"]);
                for (path, what) in &found {
                    grid.add_row(vec![path.display().to_string(), what.names().0.to_owned()]);
                }
                print::line(&grid.to_string())?;
                if found.is_empty() {
                    complain!("{sentence}");
                }
                return Ok(verdict);
            }
            print::line(&sentence)?;
            for (path, what) in found.iter().take(BELOW) {
                print::line(&format!("{} is {}", path.display(), what.names().0))?;
            }
            if found.len() > BELOW {
                print::line(&format!("and {} more", found.len() - BELOW))?;
            }
        }
    }
    Ok(verdict)
}
