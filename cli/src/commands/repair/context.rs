//! `varvite repair` of a context: a new store of the commits that are whole.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use varvite::context::{Repaired, Store};
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::irmin_pack as irmin;
use varvite::{Error, Result};

use crate::advice::CONTEXT_MIGRATE;
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::context::text;
use crate::store::folder;
use crate::text::Notation;

/// Commits that are named for a person.
const NAMED: usize = 20;

#[derive(Serialize)]
struct Report {
    whole: bool,
    commits: u64,
    last_commit: Option<String>,
    branches: u64,
    lost_commits: Vec<Lost>,
    lost_branches: Vec<LostBranch>,
    damage: Vec<String>,
    missing: Vec<String>,
}

#[derive(Serialize)]
struct Lost {
    commit: String,
    detail: String,
}

#[derive(Serialize)]
struct LostBranch {
    name: String,
    commit: String,
}

/// Whether the folder has a context, or chunks of one whose control file is lost.
pub fn is_one(dir: &Path) -> Result<bool> {
    let disk = folder::disk(dir)?;
    if irmin::is_store(&*disk)? {
        return Err(Error::invalid(format!(
            "{} is a store of Irmin, which is only read: {CONTEXT_MIGRATE} takes over what is whole",
            dir.display()
        )));
    }
    Ok(folder::is_context(dir) || Store::is_lower_folder(&*disk).unwrap_or(true))
}

/// Makes the new store, and says what is not in it.
pub fn run(dir: &Path, out: &Path, lower: Option<&Path>, format: Format) -> Outcome {
    let source: Arc<dyn Disk> = folder::disk(dir)?;
    let lower =
        lower.map(|lower| folder::disk(lower).map(|disk| disk as Arc<dyn Disk>)).transpose()?;
    let target: Arc<dyn Disk> = OsDisk::create(out)?;
    let mut bar = Progress::endless("taking over commits", Unit::Items);
    let found = Store::repair(&source, lower.as_ref(), target, &mut |passed, _| {
        bar.set(passed);
        Ok(())
    })?;
    bar.finish();
    let report = report(found);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(Verdict::sound(report.whole))
}

fn report(found: Repaired) -> Report {
    let lost = found.lost.into_iter();
    let branches = found.lost_branches.into_iter();
    let report = Report {
        whole: false,
        commits: found.commits,
        last_commit: found.last_commit.map(|commit| text(&commit)),
        branches: found.branches,
        lost_commits: lost
            .map(|lost| Lost { commit: text(&lost.commit), detail: lost.detail })
            .collect(),
        lost_branches: branches
            .map(|(name, commit)| LostBranch {
                name: Notation::Text.show_step(&name),
                commit: text(&commit),
            })
            .collect(),
        damage: found.damage,
        missing: found.missing,
    };
    let whole = report.lost_commits.is_empty()
        && report.lost_branches.is_empty()
        && report.damage.is_empty()
        && report.missing.is_empty();
    Report { whole, ..report }
}

fn show(report: &Report) -> std::io::Result<()> {
    for missing in &report.missing {
        print::line(&format!("missing: {missing}"))?;
    }
    for damage in &report.damage {
        print::line(&format!("damaged: {damage}"))?;
    }
    for lost in report.lost_commits.iter().take(NAMED) {
        print::line(&format!("lost: commit {}: {}", lost.commit, lost.detail))?;
    }
    if report.lost_commits.len() > NAMED {
        let more = (report.lost_commits.len() - NAMED) as u64;
        print::line(&format!(
            "and {} more; --format json names all",
            print::counted(more, "commit", "commits")
        ))?;
    }
    for branch in &report.lost_branches {
        print::line(&format!(
            "lost: branch {}, which named commit {}",
            branch.name, branch.commit
        ))?;
    }
    let last =
        report.last_commit.as_ref().map_or(String::new(), |last| format!(", the last {last}"));
    print::line(&format!(
        "{} kept{last}, {}",
        print::counted(report.commits, "commit", "commits"),
        print::counted(report.branches, "branch", "branches")
    ))
}
