//! `varvite repair`: a new store of what is whole in a damaged one.

mod context;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use varvite::Error;
use varvite::disk::Disk;
use varvite::table::check::UnfinishedUpdate;
use varvite::table::repair::{self, RepairOptions};

use crate::advice::told;
use crate::exit::{Outcome, Verdict};
use crate::hex;
use crate::print::{self, Format};
use crate::store::folder::{self, Target};

/// Make a new store of what is whole in a damaged one, and say what was lost
///
/// The damaged store stays as it is; nobody may write to it meanwhile. Kept are snapshots and live
/// tables whose files are sound, and the log up to its first bad record; of a context the commits that are
/// whole. Exit code 3 when something was lost, or a context was damaged, also where all of it was kept.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the damaged store
    dir: PathBuf,
    /// Folder of the new store; missing or empty
    out: PathBuf,
    /// Keep tables with damaged segments without the entries of these: keys in their ranges may be missing,
    /// older, or back that were deleted
    #[arg(long)]
    skip_damaged: bool,
    /// Folder of the lower layer, if the store is a context that is an archive
    #[arg(long, value_name = "DIR", conflicts_with = "skip_damaged")]
    lower: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    whole: bool,
    session_was_lost: bool,
    snapshots: Vec<String>,
    live_tables: Vec<LiveTable>,
    losses: Vec<Loss>,
    filters_made_anew: Vec<String>,
    segments: u64,
    bytes: u64,
    copied_bytes: u64,
    log_records: u64,
    log_records_behind: u64,
    log_unfinished: Option<Unfinished>,
}

/// An update at the end of the log that is not whole.
#[derive(Serialize)]
pub struct Unfinished {
    file: String,
    at: u64,
    bytes: u64,
    #[serde(skip)]
    sentence: String,
}

impl From<&UnfinishedUpdate> for Unfinished {
    fn from(update: &UnfinishedUpdate) -> Unfinished {
        let UnfinishedUpdate { file, at, bytes, .. } = update;
        Unfinished { file: file.clone(), at: *at, bytes: *bytes, sentence: update.to_string() }
    }
}

impl Unfinished {
    /// What is to be said of it.
    pub fn sentence(&self) -> String {
        self.sentence.clone()
    }
}

#[derive(Serialize)]
struct LiveTable {
    name: String,
    whole: bool,
    log_records: u64,
    left_out: u64,
    ends_within_update: bool,
}

#[derive(Serialize)]
struct Loss {
    file: String,
    detail: String,
    snapshots: Vec<String>,
    live_tables: Vec<String>,
    /// In hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_key: Option<String>,
    entries: u64,
}

/// Repairs and prints what was kept and lost.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    folder::apart(&arguments.dir, &arguments.out)?;
    if context::is_one(&arguments.dir)? {
        if arguments.skip_damaged {
            return Err(Error::invalid(format!(
                "{} holds a context, of which commits are whole or left out: leave --skip-damaged out",
                arguments.dir.display()
            ))
            .into());
        }
        return context::run(&arguments.dir, &arguments.out, arguments.lower.as_deref(), format);
    }
    if arguments.lower.is_some() {
        return Err(folder::no_lower(&arguments.dir).into());
    }
    let source: Arc<dyn Disk> = folder::disk(&arguments.dir)?;
    let (made, target) = Target::create(&arguments.out)?;
    let target: Arc<dyn Disk> = target;
    let options =
        RepairOptions { skip_damaged: arguments.skip_damaged, ..RepairOptions::default() };
    let repaired = repair::repair(&source, &target, &options);
    let found = repaired.inspect_err(|error| made.take_back(error))?;
    let losses = found.losses.into_iter().map(|loss| {
        let (first_key, last_key) = loss.keys.unzip();
        Loss {
            file: loss.file,
            detail: told(&loss.detail),
            snapshots: loss.snapshots,
            live_tables: loss.live_tables,
            first_key: first_key.map(|key| hex::encode(&key)),
            last_key: last_key.map(|key| hex::encode(&key)),
            entries: loss.entries,
        }
    });
    let losses: Vec<_> = losses.collect();
    let live_tables = found.live_tables.into_iter().map(|table| LiveTable {
        name: table.name,
        whole: table.is_whole,
        log_records: table.log_records,
        left_out: table.left_out,
        ends_within_update: table.ends_within_update,
    });
    let report = Report {
        whole: losses.is_empty(),
        session_was_lost: found.session_was_lost,
        snapshots: found.snapshots,
        live_tables: live_tables.collect(),
        losses,
        filters_made_anew: found.filters_made_anew.into_iter().map(|(file, _)| file).collect(),
        segments: found.moved.segments,
        bytes: found.moved.bytes,
        copied_bytes: found.moved.copied_bytes,
        log_records: found.log_records,
        log_records_behind: found.log_records_behind,
        log_unfinished: found.log_unfinished.as_ref().map(Unfinished::from),
    };
    let verdict = Verdict::sound(report.whole);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(verdict)
}

fn show(report: &Report) -> std::io::Result<()> {
    for loss in &report.losses {
        let live = loss.live_tables.iter().map(|name| format!("live table {name}"));
        let snapshots = loss.snapshots.iter().map(|name| format!("snapshot {name}"));
        let users: Vec<_> = snapshots.chain(live).collect();
        let of =
            if users.is_empty() { "nothing that is known".to_owned() } else { users.join(", ") };
        let what = match (&loss.first_key, &loss.last_key) {
            (Some(first), Some(last)) => {
                let entries = print::counted(loss.entries, "entry", "entries");
                format!("{entries} from key {first} to {last}, of {of}")
            }
            _ => of,
        };
        print::line(&format!("lost: {what}: {}", loss.detail))?;
    }
    for file in &report.filters_made_anew {
        print::line(&format!("made anew: the filters of {file}, whose entries are whole"))?;
    }
    for table in report.live_tables.iter().filter(|table| !table.whole) {
        let left_out = print::counted(table.left_out, "later update", "later updates");
        print::line(&format!("live table {} is not whole; {left_out} of it left out", table.name))?;
    }
    let names: Vec<_> = report.live_tables.iter().map(|table| table.name.as_str()).collect();
    let verdict = match report.log_unfinished {
        _ if !report.whole => "not all was kept ✗",
        Some(_) => "nothing was lost up to the end of the log ✓",
        None => "nothing was lost ✓",
    };
    let session = if report.session_was_lost { "made anew, it was lost" } else { "sound" };
    let mut rows = vec![
        ("verdict", verdict.to_owned()),
        ("the file session", session.to_owned()),
        ("snapshots kept", report.snapshots.join(", ")),
        ("live tables kept", names.join(", ")),
        ("updates in the log kept", print::count(report.log_records)),
        ("behind a bad record", print::count(report.log_records_behind)),
        ("read and kept", print::bytes(report.bytes)),
        ("of which had to be copied", print::bytes(report.copied_bytes)),
    ];
    rows.extend(report.log_unfinished.as_ref().map(|it| ("the end of the log", it.sentence())));
    print::line(&print::record(&rows).to_string())
}
