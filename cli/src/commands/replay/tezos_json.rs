//! `varvite replay tezos-json`: whole real contexts, committed one after the other as differences.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use varvite::context::hash;
use varvite::context::{CommitInfo, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::{Error, Result};

use crate::exit::{Outcome, Verdict};
use crate::hex;
use crate::input::read_text;
use crate::print::{self, Format};
use crate::system::measure::cpu_ns;
use crate::workload::tezos_json::{Content, Expected, ExpectedCommit, content, expected};

/// Commit real Tezos contexts and compare with the headers of their blocks
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder with `expected.json` and the contexts that it names
    dir: PathBuf,
    /// Folder for the store, missing or empty [default: in memory]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Compared {
    level: u64,
    values: usize,
    added: u64,
    removed: u64,
    updated: u64,
    data_matches: bool,
    root_matches: bool,
    context_matches: bool,
    context_hash: String,
    cpu_ms: f64,
}

/// Replays the folder and prints what came out.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let path = arguments.dir.join("expected.json");
    if !path.is_file() {
        return Err(Error::missing(format!(
            "{} has no expected.json: give the folder with it and the dumps that it names",
            arguments.dir.display()
        ))
        .into());
    }
    let expected = expected(&path, &read_text(&path)?)?;
    let disk: Arc<dyn Disk> = match &arguments.store {
        Some(folder) => OsDisk::create(folder)?,
        None => MemoryDisk::seeded(1),
    };
    let mut store = Store::create(disk, Options::default())?;
    let mut tree = Tree::empty(store.configuration());
    let mut before = Content::new();
    let mut levels = Vec::new();
    for commit in &expected.commits {
        let path = [commit.file.clone(), format!("{}.gz", commit.file)]
            .map(|name| arguments.dir.join(name))
            .into_iter()
            .find(|path| path.exists());
        let path = path.ok_or_else(|| {
            Error::missing(format!("{} has no {}", arguments.dir.display(), commit.file))
        })?;
        let after = content(&path, &read_text(&path)?)?;
        levels.push(level(&mut store, &mut tree, &expected, commit, &before, &after)?);
        before = after;
    }
    store.close()?;
    let sound = levels.iter().all(|it| it.data_matches && it.root_matches && it.context_matches);
    let verdict = Verdict::found(sound);
    match format {
        Format::Json => print::json(&levels)?,
        Format::Table => {
            let header =
                &[">level", ">values", ">added", ">removed", ">updated", "hashes", ">CPU ms"];
            let mut table = print::table(header);
            for level in &levels {
                let verdict = match (level.data_matches, level.root_matches, level.context_matches)
                {
                    (true, true, true) => "data, root, context: equal",
                    (false, ..) => "data differs",
                    (true, false, _) => "root differs",
                    (true, true, false) => "context differs",
                };
                table.add_row(vec![
                    print::count(level.level),
                    print::count(level.values as u64),
                    print::count(level.added),
                    print::count(level.removed),
                    print::count(level.updated),
                    verdict.to_owned(),
                    format!("{:.1}", level.cpu_ms),
                ]);
            }
            print::line(&table.to_string())?;
        }
    }
    Ok(verdict)
}

fn path_of(steps: &[String]) -> Vec<&str> {
    std::iter::once("data").chain(steps.iter().map(String::as_str)).collect()
}

fn level(
    store: &mut Store,
    tree: &mut Tree,
    expected: &Expected,
    commit: &ExpectedCommit,
    before: &Content,
    after: &Content,
) -> Result<Compared> {
    let start = cpu_ns();
    let (mut added, mut removed, mut updated) = (0, 0, 0);
    for steps in before.keys().filter(|steps| !after.contains_key(*steps)) {
        tree.remove(&path_of(steps))?;
        removed += 1;
    }
    for (steps, value) in after {
        match before.get(steps) {
            Some(old) if old == value => continue,
            Some(_) => updated += 1,
            None => added += 1,
        }
        tree.add(&path_of(steps), value)?;
    }
    let constant = |text: &str| {
        hex::decode(text).ok_or_else(|| Error::invalid(format!("{text:?} is not hexadecimal")))
    };
    tree.add(&["protocol"], &constant(&expected.protocol_value_hex)?)?;
    tree.add(&["test_chain"], &constant(&expected.test_chain_value_hex)?)?;
    let parents = [commit.parent_context_hash.parse()?];
    let info = CommitInfo::new(&parents, commit.timestamp, &commit.author, &commit.message);
    let found = store.commit(tree, &info)?;
    let data = tree.find_tree(&["data"])?.map(|data| data.hash()).transpose()?;
    Ok(Compared {
        level: commit.level,
        values: after.len(),
        added,
        removed,
        updated,
        data_matches: data == Some(commit.data_subtree_hash.parse()?),
        root_matches: tree.hash()? == hash::from_text(&commit.root_tree_hash)?,
        context_matches: found == hash::from_text(&commit.context_hash)?,
        context_hash: hash::to_text(&found),
        cpu_ms: (cpu_ns() - start) as f64 / 1e6,
    })
}
