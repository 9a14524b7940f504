//! `varvite context check`: every hash of a context recomputed, every object looked up.

use clap::Args;
use serde_json::json;
use varvite::context::{Options, Store};
use varvite::irmin_pack as irmin;

use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::store::context::Folder;
use crate::store::folder::disk;

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    /// First make the index from the pack again; takes the store's lock
    #[arg(long)]
    rebuild_index: bool,
}

/// Runs `check`.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let folder = &arguments.folder.store;
    if arguments.rebuild_index {
        let mut store = Store::open(disk(folder)?, Options::default())?;
        store.rebuild_index()?;
        store.close()?;
    }
    of_folder(&arguments.folder, format)
}

/// Checks the context in the folder and prints what was found.
pub fn of_folder(arguments: &Folder, format: Format) -> Outcome {
    let (store, folder) = (arguments.open()?, &arguments.store);
    let is_foreign = irmin::is_store(&*disk(folder)?)?;
    let checked = store.check()?;
    let faults = &checked.index_faults;
    let is_sound = faults.is_empty() && checked.missing.is_empty();
    match format {
        Format::Json => print::json(&json!({
            "commits": checked.commits, "nodes": checked.nodes, "values": checked.values,
            "index_faults": faults, "warnings": store.warnings(),
            "collected": checked.collected, "missing": checked.missing,
        }))?,
        Format::Table => {
            print::line(&format!(
                "{}: {}, {}, {}",
                if is_sound { "sound" } else { "damaged, as said below" },
                print::counted(checked.commits, "commit", "commits"),
                print::counted(checked.nodes, "piece of directories", "pieces of directories"),
                print::counted(checked.values, "value", "values")
            ))?;
            if checked.collected > 0 {
                print::line(&format!("{} commits were collected", checked.collected))?;
            }
            for missing in &checked.missing {
                print::line(&format!("missing: {missing}"))?;
            }
            for fault in store.warnings().iter().chain(faults) {
                print::line(&format!("index: {fault}"))?;
            }
            if !faults.is_empty() && is_foreign {
                print::line(
                    "let Irmin make its index again, or `varvite context migrate` the store",
                )?;
            } else if !faults.is_empty() {
                print::line(&format!(
                    "make the index again: varvite context check --rebuild-index {}",
                    folder.display()
                ))?;
            }
        }
    }
    Ok(Verdict::of(is_sound))
}
