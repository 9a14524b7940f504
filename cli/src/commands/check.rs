//! `varvite check`: verify a whole store from its files, without writing.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use varvite::Error;
use varvite::disk::Disk;
use varvite::outline::Outline;
use varvite::table::check::Selection;
use varvite::table::{check, inspect};

use super::context::check as context;
use super::repair::Unfinished;
use crate::advice::{self, CONTEXT_CHECK};
use crate::exit::{self, Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::context::{Folder, Foreign};
use crate::store::folder;

/// Verify every file of a store and say what is wrong and where; never writes
///
/// Tables or a context. Works while another process writes. Exit code 3 when something is damaged. Options select a
/// part of a store of tables; `varvite context check` has those for a context.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store
    dir: PathBuf,
    /// Only what this snapshot needs; give it again for more
    #[arg(long, value_name = "NAME")]
    snapshot: Vec<String>,
    /// Only what the live tables need, and the snapshots that are named
    #[arg(long)]
    live: bool,
    /// Only what tables of this name need; give it again for more
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// End after about so many mebibytes of files, one file at least; then it says from where to go on. Snapshots, the
    /// checkpoint and the log are read each time
    #[arg(long, value_name = "MIB")]
    most: Option<u64>,
    /// Go on from there: the number of a file
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    #[command(flatten)]
    foreign: Foreign,
}

impl Arguments {
    fn selection(&self) -> Selection {
        Selection {
            snapshots: self.snapshot.clone(),
            live: self.live,
            tables: self.table.clone(),
            from: self.from,
            most_bytes: self.most.map(|mebibytes| mebibytes.saturating_mul(1 << 20)),
        }
    }

    /// The command that goes on from the file `next`.
    fn continued(&self, next: u64) -> String {
        let mut words = vec!["varvite check".to_owned(), advice::typed(&self.dir)];
        words.extend(self.snapshot.iter().map(|name| advice::option("--snapshot", name)));
        words.extend(self.live.then(|| "--live".to_owned()));
        words.extend(self.table.iter().map(|name| advice::option("--table", name)));
        words.extend(self.most.map(|most| format!("--most {most}")));
        words.push(format!("--from {next}"));
        words.join(" ")
    }
}

#[derive(Serialize)]
struct Report {
    sound: bool,
    findings: Vec<Finding>,
    snapshots: u64,
    segments: u64,
    entries: u64,
    bytes: u64,
    unreferenced: u64,
    live_tables: u64,
    log_records: u64,
    log_tail_bytes: u64,
    log_unfinished: Option<Unfinished>,
    done: bool,
    next: Option<u64>,
}

/// One thing that is wrong.
#[derive(Clone, Serialize)]
pub struct Finding {
    file: String,
    detail: String,
    snapshots: Vec<String>,
    live_tables: Vec<String>,
}

impl From<check::Finding> for Finding {
    fn from(finding: check::Finding) -> Finding {
        Finding {
            file: finding.file,
            detail: advice::told(&finding.detail),
            snapshots: finding.snapshots,
            live_tables: finding.live_tables,
        }
    }
}

impl Finding {
    /// Prints it with who needs the file.
    pub fn show(&self) -> std::io::Result<()> {
        exit::note_damage();
        let live = self.live_tables.iter().map(|name| format!("live table {name}"));
        let users: Vec<_> = self.snapshots.iter().cloned().chain(live).collect();
        let is_of_all = ["checkpoint", "log"].contains(&&*self.file);
        let needed = if users.is_empty() && is_of_all {
            "the live tables need it".to_owned()
        } else if users.is_empty() {
            "no snapshot needs it".to_owned()
        } else {
            format!("needed by {}", users.join(", "))
        };
        print::line(&format!("{} ({needed})", self.detail))
    }
}

/// Checks and prints what was found.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let selection = arguments.selection();
    if folder::is_context(&arguments.dir) {
        if selection != Selection::default() {
            return Err(Error::invalid(format!(
                "{} holds a context, of which {CONTEXT_CHECK} checks a part; these options are for tables",
                arguments.dir.display()
            ))
            .into());
        }
        let (store, foreign) = (arguments.dir.clone(), arguments.foreign.clone());
        return context::of_folder(&Folder { store, foreign }, format);
    }
    arguments.foreign.expect_none(&arguments.dir)?;
    let disk: Arc<dyn Disk> = folder::disk(&arguments.dir)?;
    let mut bar = Progress::new("checking", 0, Unit::Bytes);
    let found = check::check_selected(&disk, &selection, |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.done_bytes);
        ControlFlow::Continue(())
    })?;
    bar.finish();
    if found.findings.is_empty() && arguments.from > 0 && found.segments + found.blob_files == 0 {
        return Err(nothing_from(arguments.from).into());
    }
    let mut findings: Vec<_> = found.findings.into_iter().map(Finding::from).collect();
    add_pieces(&arguments.dir, &mut findings);
    let report = Report {
        findings,
        sound: false,
        snapshots: found.snapshots,
        segments: found.segments,
        entries: found.entries,
        bytes: found.bytes,
        unreferenced: found.unreferenced,
        live_tables: found.live_tables,
        log_records: found.log_records,
        log_tail_bytes: found.log_tail_bytes,
        log_unfinished: found.log_unfinished.as_ref().map(Unfinished::from),
        done: found.next.is_none(),
        next: found.next,
    };
    let report = Report { sound: report.findings.is_empty(), ..report };
    let verdict = Verdict::sound(report.sound);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => {
            show(&report, arguments.from > 0)?;
            if let Some(next) = report.next {
                print::line(&format!("{} goes on", arguments.continued(next)))?;
            }
            if !report.sound {
                print::line(&advice::repair(&arguments.dir))?;
            }
        }
    }
    Ok(verdict)
}

/// What is wrong with what the snapshot `name` of the store in `dir` needs.
pub fn of_snapshot(dir: &Path, name: &str) -> varvite::Result<Vec<Finding>> {
    let disk: Arc<dyn Disk> = folder::disk(dir)?;
    let selection = Selection { snapshots: vec![name.to_owned()], ..Selection::default() };
    let found = check::check_selected(&disk, &selection, |_| ControlFlow::Continue(()))?;
    // What live tables alone need is checked with any selection.
    let needed = found.findings.into_iter().filter(|it| {
        it.snapshots.iter().any(|snapshot| snapshot == name) || it.live_tables.is_empty()
    });
    let is_of_log = |file: &str| file == "checkpoint" || file.starts_with("log/");
    let needed = needed.filter(|it| !it.snapshots.is_empty() || !is_of_log(&it.file));
    let mut findings: Vec<_> = needed.map(Finding::from).collect();
    add_pieces(dir, &mut findings);
    Ok(findings)
}

/// What is said where reading goes on from a number and finds nothing: that is no word on what is stored.
pub fn nothing_from(number: u64) -> Error {
    Error::missing(format!(
        "no file has the number {number} or a greater one, so nothing was read: give the number that the part before said"
    ))
}

/// A longer file is not looked into for its other damaged pieces.
const LOOKED_INTO_BYTES: u64 = 64 << 20;

/// Adds every damaged piece of the files with findings: who found one has left the file at the first.
pub fn add_pieces(dir: &Path, findings: &mut Vec<Finding>) {
    for index in 0..findings.len() {
        let file = findings[index].file.clone();
        if findings[..index].iter().any(|finding| finding.file == file) {
            continue;
        }
        let path = dir.join(&file);
        // Values may be of any length, and who checks a store in use has no memory to spare.
        if !fs::metadata(&path).is_ok_and(|file| file.len() <= LOOKED_INTO_BYTES) {
            continue;
        }
        // One that cannot be read is told already.
        let Ok(bytes) = fs::read(path) else { continue };
        let Ok(outline) = inspect::file(&file, &bytes) else { continue };
        let mut pieces = Vec::new();
        damages(&outline, &mut pieces);
        for detail in pieces {
            let what = detail.split("; ").next().unwrap_or_default();
            let is_known = findings.iter().any(|finding| finding.detail.starts_with(what));
            if !is_known && what.contains("damaged at byte") {
                findings.push(Finding { detail: advice::told(&detail), ..findings[index].clone() });
            }
        }
    }
}

fn damages(outline: &Outline, found: &mut Vec<String>) {
    found.extend(outline.damage.clone());
    outline.children.iter().for_each(|child| damages(child, found));
}

/// Prints the report; `is_rest` when an earlier part has said what is before it.
fn show(report: &Report, is_rest: bool) -> std::io::Result<()> {
    for finding in &report.findings {
        finding.show()?;
    }
    let verdict = match report.findings.len() {
        0 if !report.done => "sound so far ✓".to_owned(),
        0 if is_rest => "sound from there on ✓".to_owned(),
        0 if report.log_unfinished.is_some() => "sound up to the end of the log ✓".to_owned(),
        0 => "sound ✓".to_owned(),
        1 => "1 finding ✗".to_owned(),
        count => format!("{count} findings ✗"),
    };
    let mut rows = vec![
        ("verdict", verdict),
        ("snapshots", print::count(report.snapshots)),
        ("segments", print::count(report.segments)),
        ("entries", print::count(report.entries)),
        ("read", print::bytes(report.bytes)),
        ("segments that no snapshot names", print::count(report.unreferenced)),
        ("live tables", print::count(report.live_tables)),
        ("updates in the log", print::count(report.log_records)),
    ];
    rows.extend(report.log_unfinished.as_ref().map(|it| ("the end of the log", it.sentence())));
    print::line(&print::record(&rows).to_string())
}
