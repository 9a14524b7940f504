//! `varvite context collect` and `pin`: taking old commits out of a store, and what stays.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use varvite::context::{CollectPhase, CollectStatus, Keep, Store};
use varvite::{Error, Kind, Result};

use super::look::nothing;
use crate::advice::{self, COLLECT_CANCEL, COLLECT_RESUME, COLLECT_RUN, UNARCHIVE};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format, records};
use crate::progress::{Progress, Unit};
use crate::store::context::{Folder, Target, close, commit, open_to_write, text};
use crate::system::measure::disk_bytes;
use crate::text::{Notation, date, put_both};

/// Credits of a step: so many KiB are read or written between two pictures of the bar.
const STEP: u64 = 4096;

/// Take old commits out of a store, and give their room back
#[derive(Debug, Subcommand)]
pub enum Collect {
    Run(Run),
    /// Say how far a collection is, and what it keeps
    Status(Folder),
    /// Let a collection rest, also of whoever opens the store later
    Pause(Place),
    /// Let a collection that rests go on
    Resume(Place),
    /// End a collection; what it has taken away stays away
    Cancel(Place),
}

/// Collect to the end: begin one, or go on with the one that is under way
///
/// What branches and pins name stays, and every commit from the target on. Nobody else may write meanwhile; readers
/// may read. Interrupted, also by a crash, it goes on when it is called again.
#[derive(Debug, Args)]
pub struct Run {
    /// Folder of the store
    store: PathBuf,
    /// Keep so many of the newest commits
    #[arg(long, value_name = "COMMITS", group = "target", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Keep commits from this date on: 2026-01-31, 2026-01-31T12:00:00Z, or seconds since 1970
    #[arg(long, value_name = "DATE", group = "target", allow_hyphen_values = true)]
    since: Option<String>,
    /// Keep all from this commit on: a hash or its beginning, a branch, `main~3`
    #[arg(long, value_name = "COMMIT", group = "target")]
    to: Option<String>,
    /// Pin every so many-th commit before, so that a thinned history stays
    #[arg(long, value_name = "COMMITS", requires = "target", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
}

/// A store that is changed.
#[derive(Debug, Args)]
pub struct Place {
    /// Folder of the store
    store: PathBuf,
}

/// Commits that stay whatever is collected
#[derive(Debug, Subcommand)]
pub enum Pin {
    /// List pinned commits, the oldest first
    List(Folder),
    /// Keep a commit with its tree through every collection
    Add {
        #[command(flatten)]
        target: Target,
        /// Hash of a commit or its beginning, a branch, or "last"
        commit: String,
    },
    /// Let collections take a commit that was pinned
    Remove {
        #[command(flatten)]
        target: Target,
        /// Hash of a commit or its beginning, a branch, or "last"
        commit: String,
    },
}

/// Runs `context collect`.
pub fn collect(command: &Collect, format: Format) -> Outcome {
    match command {
        Collect::Run(arguments) => run(arguments, format),
        Collect::Status(folder) => {
            let store = folder.open()?;
            show(&folder.store, &store, &store.collect_status()?, format)?;
            Ok(Verdict::Yes)
        }
        Collect::Pause(place) => change(&place.store, Store::collect_pause, format),
        Collect::Resume(place) => change(&place.store, Store::collect_resume, format),
        Collect::Cancel(place) => {
            records::columns_of_result(&CANCELLED)?;
            let mut store = open_to_write(&place.store)?;
            if !store.collect_cancel()? {
                return nothing("no collection is under way", format);
            }
            show(&place.store, &store, &store.collect_status()?, format)?;
            close(store)?;
            Ok(Verdict::Yes)
        }
    }
}

fn change(folder: &Path, action: fn(&mut Store) -> Result<()>, format: Format) -> Outcome {
    let mut store = open_to_write(folder)?;
    action(&mut store)?;
    show(folder, &store, &store.collect_status()?, format)?;
    close(store)?;
    Ok(Verdict::Yes)
}

/// Begins what the arguments say; `false` when nothing would go.
fn begin(arguments: &Run, store: &mut Store) -> Result<bool> {
    let Run { keep, since, to, every, store: folder } = arguments;
    let status = store.collect_status()?;
    if status.is_paused {
        let (shown, resume) = (folder.display(), advice::of(COLLECT_RESUME, folder));
        return Err(Error::invalid(format!(
            "collections of {shown} are paused: {resume} ends the pause"
        )));
    }
    let is_told = keep.is_some() || since.is_some() || to.is_some();
    match (status.phase, is_told) {
        (CollectPhase::None, false) => {
            return Err(Error::invalid(
                "no collection is under way: say what to keep, with --keep COMMITS, --since DATE or --to COMMIT",
            ));
        }
        (CollectPhase::None, true) => {}
        (_, false) => return Ok(true),
        (_, true) => {
            let (run, cancel) =
                (advice::of(COLLECT_RUN, folder), advice::of(COLLECT_CANCEL, folder));
            return Err(Error::invalid(format!(
                "a collection is under way: {run} without a word of what to keep goes on to its end, and {cancel} ends it \
                 as it is; then begin another"
            )));
        }
    }
    // Without that folder the dates of old commits cannot be read.
    if store.archived_bytes() > 0 {
        return Err(Error::invalid(format!(
            "the store has chunks in its lower folder, so it keeps every commit: bring them back before it collects, with \
             {UNARCHIVE}"
        )));
    }
    // Pins stay, so everything that may be wrong is found out before them.
    let target = to.as_ref().map(|target| commit(store, target)).transpose()?;
    let keep = match (keep, since) {
        (Some(count), _) => Some(Keep::Newest(*count)),
        (None, Some(since)) => Some(Keep::Since(kept_since(store, since)?)),
        (None, None) => None,
    };
    if let Some(nth) = every {
        store.pin_every(*nth)?;
    }
    match (target, keep) {
        (Some(target), _) => store.collect(&target).map(|()| true),
        (None, Some(keep)) => store.collect_keeping(&keep),
        (None, None) => unreachable!("it is told what to keep"),
    }
}

/// The date that `text` says. `Invalid` where no commit is from then or later: a slip of the year would take all of the
/// history.
fn kept_since(store: &Store, text: &str) -> Result<i64> {
    let since = date::parse(text)?;
    let Some(newest) = store.last_commit()? else { return Ok(since) };
    let newest = store.commit_info(&newest)?.date;
    if newest >= since {
        return Ok(since);
    }
    // What cannot be read may be from then.
    for commit in store.log(usize::MAX)? {
        if store.commit_info(&commit)?.date >= since {
            return Ok(since);
        }
    }
    Err(Error::invalid(format!(
        "no commit is from {} or later, the newest is from {}: give an earlier date, or --keep 1 to keep that one alone",
        date::iso(since),
        date::iso(newest)
    )))
}

fn run(arguments: &Run, format: Format) -> Outcome {
    let folder = &arguments.store;
    let mut store = open_to_write(folder)?;
    let before = disk_bytes(folder);
    let commits = store.stats().commits;
    let is_new = store.collect_status()?.phase == CollectPhase::None;
    let has_begun = begin(arguments, &mut store).map_err(|error| match error.kind() {
        Kind::Corrupt => error.context("nothing is collected"),
        _ => error,
    })?;
    if has_begun && let Err(error) = go_on(&mut store) {
        return Err(stopped(store, folder, is_new, error).into());
    }
    let kept = store.stats().commits;
    close(store)?;
    let after = disk_bytes(folder);
    match format {
        Format::Json => print::json(&json!({
            "collected": has_begun, "collected_commits": commits.saturating_sub(kept), "kept_commits": kept,
            "before_bytes": before, "disk_bytes": after,
        }))?,
        Format::Table if !has_begun => print::line("nothing is older than what is kept")?,
        Format::Table => print::line(&format!(
            "{} collected, {} kept; {} on disk, {} before",
            print::counted(commits.saturating_sub(kept), "commit", "commits"),
            print::count(kept),
            print::bytes(after),
            print::bytes(before)
        ))?,
    }
    Ok(Verdict::Yes)
}

/// Goes on with a collection to its end.
fn go_on(store: &mut Store) -> Result<()> {
    let mut bar = Progress::endless("collecting", Unit::Bytes);
    let mut all = 0;
    let mut phase = CollectPhase::None;
    while store.collect_step(STEP)? {
        let status = store.collect_status()?;
        if status.phase != phase {
            phase = status.phase;
            let what =
                if phase == CollectPhase::Marking { "finding out what stays" } else { "cleaning" };
            bar.finish();
            all = status.left_bytes;
            bar = Progress::new(what, all, Unit::Bytes);
        }
        bar.set(all.saturating_sub(status.left_bytes));
    }
    bar.finish();
    Ok(())
}

/// Why a collection could not go on. One that was begun by this command and cannot find out what stays has taken nothing
/// away, and would fail again: it is ended.
fn stopped(mut store: Store, folder: &Path, is_new: bool, error: Error) -> Error {
    let is_marking = store.collect_status().is_ok_and(|it| it.phase == CollectPhase::Marking);
    if error.kind() != Kind::Corrupt || !is_marking {
        return error;
    }
    if is_new && store.collect_cancel().is_ok_and(|is_ended| is_ended) && store.close().is_ok() {
        return error.context("nothing is collected");
    }
    let cancel = advice::of(COLLECT_CANCEL, folder);
    Error::new(error.kind(), format!("{}; {cancel} ends the collection", error.detail()))
}

fn name(phase: CollectPhase) -> &'static str {
    match phase {
        CollectPhase::None => "none",
        CollectPhase::Marking => "marking",
        CollectPhase::Cleaning => "cleaning",
    }
}

/// The columns of a CSV of what was ended, or was not under way.
const CANCELLED: [&str; 11] = [
    "phase",
    "paused",
    "target",
    "history_from",
    "kept_commits",
    "collections",
    "left_bytes",
    "reclaimed_bytes",
    "disk_bytes",
    "found",
    "why",
];

fn show(
    folder: &Path,
    store: &Store,
    status: &CollectStatus,
    format: Format,
) -> std::io::Result<()> {
    let target = status.target.map(|commit| text(&commit));
    let from = status.history_from.map(|commit| text(&commit));
    // By the store's own figure: commits that cannot be listed here, as those of an archive, are kept all the same.
    let kept = store.stats().commits;
    let chunks = store.chunks();
    // What was ever written to the pack, less what there is of it.
    let written = chunks.last().map_or(0, |last| last.base + last.written_bytes);
    let left: u64 = chunks.iter().map(|chunk| chunk.disk_bytes).sum();
    let reclaimed = written.saturating_sub(left);
    if format == Format::Json {
        return print::json(&json!({
            "phase": name(status.phase), "paused": status.is_paused, "target": target, "history_from": from,
            "kept_commits": kept,
            "collections": status.collections, "left_bytes": status.left_bytes,
            "reclaimed_bytes": reclaimed, "disk_bytes": disk_bytes(folder),
        }));
    }
    let rest = if status.is_paused { ", at rest" } else { "" };
    let mut rows = vec![
        ("collection", format!("{}{rest}", name(status.phase))),
        ("keeps all from", target.or(from).unwrap_or_else(|| "-".to_owned())),
        ("commits", print::count(kept)),
        ("collections before", print::count(status.collections)),
        ("reclaimed by them", print::bytes(reclaimed)),
        ("disk", print::bytes(disk_bytes(folder))),
    ];
    if status.phase != CollectPhase::None {
        rows.push(("still to look at", print::bytes(status.left_bytes)));
    }
    print::line(&print::record(&rows).to_string())
}

/// Runs `context pin`.
pub fn pin(command: &Pin, format: Format) -> Outcome {
    match command {
        Pin::List(folder) => list(folder, format),
        Pin::Add { target, commit: named } => {
            let mut store = target.open()?;
            let hash = commit(&store, named)?;
            store.pin(&hash)?;
            close(store)?;
            say(&text(&hash), "pinned", format)
        }
        Pin::Remove { target, commit: named } => {
            records::columns_of_result(&["commit_hash", "done", "found", "why"])?;
            let mut store = target.open()?;
            let hash = commit(&store, named)?;
            let was_pinned = store.unpin(&hash)?;
            close(store)?;
            if was_pinned {
                return say(&text(&hash), "no longer pinned", format);
            }
            nothing(&format!("commit {} is not pinned", text(&hash)), format)
        }
    }
}

fn say(commit: &str, what: &str, format: Format) -> Outcome {
    match format {
        Format::Json => print::json(&json!({"commit_hash": commit, "done": what}))?,
        Format::Table => print::line(&format!("{commit}: {what}"))?,
    }
    Ok(Verdict::Yes)
}

/// The columns of `pin list`.
const PINS: [&str; 6] =
    ["commit_hash", "date", "date_iso", "message", "message_text", "message_hex"];

fn list(folder: &Folder, format: Format) -> Outcome {
    let store = folder.open()?;
    let mut table = print::table(&["commit", ">date", "message"]);
    let mut rows: Vec<Value> = Vec::new();
    for commit in store.pins()? {
        let info = store.commit_info(&commit)?;
        let message = Notation::Text.show(&info.message);
        let mut row = json!({
            "commit_hash": text(&commit), "date": info.date, "date_iso": date::iso(info.date), "message": message,
        });
        put_both(&mut row, "message", &info.message);
        rows.push(row);
        table.add_row(vec![text(&commit), date::iso(info.date), message]);
    }
    records::columns(&PINS)?;
    match format {
        Format::Json => records::whole(&rows)?,
        Format::Table if rows.is_empty() => print::aside("no pins")?,
        Format::Table => print::line(&table.to_string())?,
    }
    Ok(Verdict::Yes)
}
