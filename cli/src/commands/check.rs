//! `varvite check`: verify a whole store from its files, without writing.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use varvite::disk::Disk;
use varvite::table::check;

use super::context::check as context;
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::context::Folder;
use crate::store::folder;

/// Verify every file of a store and say what is wrong and where; never writes
///
/// Tables or a context. Works while another process writes. Exit code 1 when something is damaged.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store
    dir: PathBuf,
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
}

/// One thing that is wrong.
#[derive(Serialize)]
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
            detail: finding.detail,
            snapshots: finding.snapshots,
            live_tables: finding.live_tables,
        }
    }
}

impl Finding {
    /// Prints it with who needs the file.
    pub fn show(&self) -> std::io::Result<()> {
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
    if folder::is_context(&arguments.dir) {
        return context::of_folder(&Folder::of(&arguments.dir), format);
    }
    let disk: Arc<dyn Disk> = folder::disk(&arguments.dir)?;
    let mut bar = Progress::new("checking", 0, Unit::Bytes);
    let found = check::check(&disk, |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.done_bytes);
        ControlFlow::Continue(())
    })?;
    bar.finish();
    let findings = found.findings.into_iter().map(Finding::from);
    let report = Report {
        findings: findings.collect(),
        sound: false,
        snapshots: found.snapshots,
        segments: found.segments,
        entries: found.entries,
        bytes: found.bytes,
        unreferenced: found.unreferenced,
        live_tables: found.live_tables,
        log_records: found.log_records,
        log_tail_bytes: found.log_tail_bytes,
    };
    let report = Report { sound: report.findings.is_empty(), ..report };
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => {
            show(&report)?;
            if !report.sound {
                print::line(&format!(
                    "varvite repair {} OUT makes a new store in the folder OUT of what is whole",
                    arguments.dir.display()
                ))?;
            }
        }
    }
    Ok(Verdict::of(report.sound))
}

fn show(report: &Report) -> std::io::Result<()> {
    for finding in &report.findings {
        finding.show()?;
    }
    let verdict = match report.findings.len() {
        0 => "sound ✓".to_owned(),
        1 => "1 finding ✗".to_owned(),
        count => format!("{count} findings ✗"),
    };
    let rows = [
        ("verdict", verdict),
        ("snapshots", print::count(report.snapshots)),
        ("segments", print::count(report.segments)),
        ("entries", print::count(report.entries)),
        ("read", print::bytes(report.bytes)),
        ("segments that no snapshot names", print::count(report.unreferenced)),
        ("live tables", print::count(report.live_tables)),
        ("updates in the log", print::count(report.log_records)),
    ];
    print::line(&print::record(&rows).to_string())
}
