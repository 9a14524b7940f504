//! `varvite context dump`: every value of a commit, or all of them that can be read.

use std::io;
use std::vec;

use clap::Args;
use serde_json::json;
use varvite::context::{Kind, Order, Tree};
use varvite::{Error, Result};

use super::look::{ended, reached, unless};
use crate::exit::{Outcome, Verdict};
use crate::hex;
use crate::print::{self, Output, records};
use crate::store::context::{Folder, commit};
use crate::text::{self, Notation};

#[derive(Debug, Args)]
pub struct Dump {
    #[command(flatten)]
    folder: Folder,
    /// A commit: its hash or how that begins, a branch, or "last"; `~3` behind it goes three back
    commit: String,
    /// Leave out what is damaged, say what it is, and go on; values come in the order in which they are stored
    #[arg(long)]
    skip_damaged: bool,
}

const DUMP: [&str; 6] = ["path", "path_text", "path_hex", "value", "value_text", "value_hex"];

/// Runs `dump`.
pub fn dump(arguments: &Dump) -> Outcome {
    let store = arguments.folder.open()?;
    let tree = store.checkout(&commit(&store, &arguments.commit)?)?;
    records::columns(&DUMP)?;
    if arguments.skip_damaged {
        return dump_what_is_whole(tree);
    }
    let (mut failed, mut dumped) = (None, 0);
    let outcome = tree.fold::<&[u8]>(&[], None, Order::Sorted, |path, tree| {
        if let Some(value) = tree.to_value()? {
            dumped += 1;
            return unless(put(path, &value), &mut failed);
        }
        Ok(())
    });
    let told = |error: Error| match error.kind() {
        varvite::Kind::Corrupt => {
            let error = reached(error, "values", dumped);
            Error::new(error.kind(), format!("{error}; --skip-damaged goes on after it"))
        }
        _ => error,
    };
    ended(outcome.map_err(told), failed)?;
    Ok(Verdict::Yes)
}

fn put(path: &[Vec<u8>], value: &[u8]) -> io::Result<()> {
    let mut record = json!({"path": []});
    text::put_path(&mut record, path);
    if records::output() == Output::Csv {
        text::put(&mut record, "value", Notation::Hex, value);
    } else {
        // What `load` reads is no longer than it must be.
        record = json!({"path": record["path"], "value": hex::encode(value)});
    }
    records::record(record)
}

/// Children that are read at once where nothing is damaged.
const PAGE: u64 = 256;

/// A directory of which some children were looked at.
struct Level {
    tree: Tree,
    /// The first child behind `page`.
    next: u64,
    page: vec::IntoIter<(Vec<u8>, Tree)>,
}

impl Level {
    fn new(tree: Tree) -> Level {
        Level { tree, next: 0, page: Vec::new().into_iter() }
    }

    /// The next child; `None` behind the last. Tells `lost` of children that cannot be read.
    fn next(&mut self, lost: &mut impl FnMut(String)) -> Result<Option<(Vec<u8>, Tree)>> {
        loop {
            if let Some(child) = self.page.next() {
                return Ok(Some(child));
            }
            let whole = self.tree.list::<&[u8]>(&[], self.next, PAGE);
            if let Ok(page) = readable(whole)? {
                if page.is_empty() {
                    return Ok(None);
                }
                self.next += page.len() as u64;
                self.page = page.into_iter();
                continue;
            }
            let (first, mut why) = (self.next, None);
            let children = match readable(self.tree.length::<&[u8]>(&[]))? {
                Ok(children) => children,
                Err(error) => {
                    lost(format!("all of it: {error}"));
                    return Ok(None);
                }
            };
            // One by one, since nothing says where a damaged piece of the directory ends.
            while self.next < children {
                match readable(self.tree.list::<&[u8]>(&[], self.next, 1))? {
                    Ok(page) => {
                        self.next += 1;
                        self.page = page.into_iter();
                        break;
                    }
                    Err(error) => why = Some(error),
                }
                self.next += 1;
            }
            let left = self.next - first - self.page.len() as u64;
            if let Some(why) = why {
                lost(format!("{} of it: {why}", print::counted(left, "child", "children")));
            }
            if self.page.len() == 0 {
                return Ok(None);
            }
        }
    }
}

/// Damage apart from what keeps everything from being read.
fn readable<T>(outcome: Result<T>) -> Result<std::result::Result<T, Error>> {
    match outcome {
        Ok(it) => Ok(Ok(it)),
        Err(error) if error.kind() == varvite::Kind::Corrupt => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

fn dump_what_is_whole(root: Tree) -> Outcome {
    let (mut path, mut dumped, mut losses): (Vec<Vec<u8>>, u64, u64) = (Vec::new(), 0, 0);
    let mut levels = vec![Level::new(root)];
    while let Some(level) = levels.last_mut() {
        let mut lost = |of: &[Vec<u8>], what: String| {
            losses += 1;
            let steps: Vec<_> = of.iter().map(|step| Notation::Text.show_step(step)).collect();
            let place = if steps.is_empty() { "the root".to_owned() } else { steps.join("/") };
            complain!("left out: {place}: {what}");
        };
        let Some((name, child)) = level.next(&mut |what| lost(&path, what))? else {
            levels.pop();
            path.pop();
            continue;
        };
        path.push(name);
        if child.kind() == Kind::Directory {
            levels.push(Level::new(child));
            continue;
        }
        match readable(child.to_value())? {
            Ok(Some(value)) => {
                dumped += 1;
                put(&path, &value)?;
            }
            Ok(None) => {}
            Err(error) => lost(&path, error.to_string()),
        }
        path.pop();
    }
    if losses == 0 {
        return Ok(Verdict::Yes);
    }
    complain!("{} printed", print::counted(dumped, "value", "values"));
    Ok(Verdict::Damaged)
}
