//! `varvite repair` of a context: a new store of the commits that are whole.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use varvite::context::{RepairedContext, Store};
use varvite::disk::Disk;
use varvite::irmin_pack as irmin;
use varvite::{Error, Result};

use crate::advice::{CONTEXT_MIGRATE, told};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::context::text;
use crate::store::folder::{self, Target};
use crate::text::Notation;

/// Commits that are named for a person.
const NAMED: usize = 20;

#[derive(Serialize)]
struct Report {
    /// Nothing was damaged, and nothing lost.
    whole: bool,
    /// Nothing that is known was lost, whatever was damaged.
    all_kept: bool,
    commits: u64,
    last_commit: Option<String>,
    branches: u64,
    branches_may_be_older: bool,
    lost_commits: Vec<Lost>,
    lost_branches: Vec<LostBranch>,
    damage: Vec<String>,
    missing: Vec<String>,
    unfinished: Vec<String>,
}

#[derive(Serialize)]
struct Lost {
    /// Null where nothing that is left says it.
    commit: Option<String>,
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
    let names = disk.list("")?;
    let is_session = names.iter().any(|name| name == "session" || name == "segments");
    let is_chunk = |name: &String| Path::new(name).extension().is_some_and(|it| it == "pack");
    Ok(!is_session && (folder::is_context(dir) || names.iter().any(is_chunk)))
}

/// Makes the new store, and says what is not in it.
pub fn run(dir: &Path, out: &Path, lower: Option<&Path>, format: Format) -> Outcome {
    let source: Arc<dyn Disk> = folder::disk(dir)?;
    // Nothing in an empty folder is all that is left of it.
    lower.map_or(Ok(()), |lower| folder::expect_lower(dir, lower))?;
    let lower =
        lower.map(|lower| folder::disk(lower).map(|disk| disk as Arc<dyn Disk>)).transpose()?;
    let (made, target) = Target::create(out)?;
    let target: Arc<dyn Disk> = target;
    let mut bar = Progress::new("taking over commits", 0, Unit::Items);
    let repaired = Store::repair(&source, lower.as_ref(), &target, &mut |passed, total| {
        bar.set_total(total);
        bar.set(passed);
        Ok(())
    });
    let found = repaired.inspect_err(|error| made.take_back(error))?;
    bar.finish();
    let report = report(found);
    let verdict = Verdict::sound(report.whole);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(verdict)
}

fn report(found: RepairedContext) -> Report {
    let lost = found.lost.iter().map(|lost| Lost {
        commit: lost.commit.map(|commit| text(&commit)),
        detail: told(&lost.detail),
    });
    let branches = found.lost_branches.iter().map(|(name, commit)| LostBranch {
        name: Notation::Text.show_step(name),
        commit: text(commit),
    });
    Report {
        whole: found.is_whole(),
        all_kept: found.lost.is_empty()
            && found.lost_branches.is_empty()
            && !found.branches_may_be_older
            && !found.branches_unknown
            && found.missing.is_empty(),
        commits: found.commits,
        last_commit: found.last_commit.map(|commit| text(&commit)),
        branches: found.branches,
        branches_may_be_older: found.branches_may_be_older,
        lost_commits: lost.collect(),
        lost_branches: branches.collect(),
        damage: found.damage.iter().map(|it| told(it)).collect(),
        missing: found.missing,
        unfinished: found.unfinished,
    }
}

fn show(report: &Report) -> std::io::Result<()> {
    for missing in &report.missing {
        print::line(&format!("missing: {missing}"))?;
    }
    for damage in &report.damage {
        print::line(&format!("damaged: {damage}"))?;
    }
    for lost in report.lost_commits.iter().take(NAMED) {
        let commit = lost.commit.as_deref().unwrap_or("whose hash is not known");
        print::line(&format!("lost: commit {commit}: {}", lost.detail))?;
    }
    if report.lost_commits.len() > NAMED {
        let more = (report.lost_commits.len() - NAMED) as u64;
        let more = print::counted(more, "commit", "commits");
        print::line(&format!("lost: {more} more, which --format json names"))?;
    }
    for branch in &report.lost_branches {
        print::line(&format!(
            "lost: branch {}, which named commit {}",
            branch.name, branch.commit
        ))?;
    }
    if report.branches_may_be_older {
        print::line(
            "branches may name older commits than they did: what was said of them last may be lost",
        )?;
    }
    for unfinished in &report.unfinished {
        print::line(&format!("no damage: {unfinished}"))?;
    }
    let last =
        report.last_commit.as_ref().map_or(String::new(), |last| format!(", the last {last}"));
    print::line(&format!(
        "{}: {} kept{last}, {}",
        match report {
            Report { whole: true, unfinished, .. } if !unfinished.is_empty() =>
                "nothing was lost up to the last batch \u{2713}",
            Report { whole: true, .. } => "nothing was lost \u{2713}",
            Report { all_kept: true, unfinished, .. } if !unfinished.is_empty() =>
                "something was damaged, and all was kept up to the last batch \u{2713}",
            Report { all_kept: true, .. } => "something was damaged, and all was kept \u{2713}",
            _ => "not all was kept \u{2717}",
        },
        print::counted(report.commits, "commit", "commits"),
        print::counted(report.branches, "branch", "branches")
    ))
}
