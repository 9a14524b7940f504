//! `varvite context dump`: every value of a commit, or all of them that can be read.

use std::io;
use std::vec;

use clap::Args;
use serde_json::json;
use varvite::context::{Kind, Order, Tree};
use varvite::{Error, Result};

use super::look::{ended, reached, unless};
use crate::advice;
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

/// How far the children of a directory were read.
struct Pages {
    /// The first child that was not.
    next: u64,
    /// Children that are asked for next.
    size: u64,
    /// Before which child there is one that cannot be read, where that is known.
    bad_before: u64,
}

impl Pages {
    fn new() -> Pages {
        Pages { next: 0, size: PAGE, bad_before: 0 }
    }

    /// The next children that can be read, none behind the last. `list` gives as many as are asked for, from one on, and
    /// `length` says how many there are; `lost` is told of those that cannot be read.
    ///
    /// Nothing says where a damaged piece of the directory ends, so where a page cannot be read the first child in it
    /// that cannot is searched for by halving: some dozen pages for each damage, however many children there are.
    fn next<T>(
        &mut self,
        mut list: impl FnMut(u64, u64) -> Result<Vec<T>>,
        length: impl Fn() -> Result<u64>,
        lost: &mut impl FnMut(String),
    ) -> Result<Vec<T>> {
        let (mut left, mut why, mut children) = (0, None::<Error>, u64::MAX);
        let page = loop {
            if self.next >= children {
                break Vec::new();
            }
            let error = match readable(list(self.next, self.size))? {
                Ok(page) => break page,
                Err(error) => error,
            };
            if children == u64::MAX {
                match readable(length())? {
                    Ok(length) => children = length,
                    Err(error) => {
                        lost(format!("all of it: {}", error.what()));
                        return Ok(Vec::new());
                    }
                }
            }
            if self.size == 1 {
                // The next ones are damaged with it, or the steps grow again.
                (left, why, self.bad_before) = (left + 1, Some(error), 0);
                self.next += 1;
            } else {
                self.bad_before = self.next + self.size;
                self.size /= 2;
            }
        };
        if let Some(why) = why {
            let children = print::counted(left, "child", "children");
            lost(format!("{children} of it: {}", why.what()));
        }
        self.next += page.len() as u64;
        self.size = match self.bad_before.saturating_sub(self.next) {
            0 => (self.size * 2).min(PAGE),
            before => (before / 2).max(1),
        };
        Ok(page)
    }
}

/// A directory of which some children were looked at.
struct Level {
    tree: Tree,
    pages: Pages,
    page: vec::IntoIter<(Vec<u8>, Tree)>,
}

impl Level {
    fn new(tree: Tree) -> Level {
        Level { tree, pages: Pages::new(), page: Vec::new().into_iter() }
    }

    /// The next child; `None` behind the last. Tells `lost` of children that cannot be read.
    fn next(&mut self, lost: &mut impl FnMut(String)) -> Result<Option<(Vec<u8>, Tree)>> {
        if self.page.len() == 0 {
            let list = |from, most| self.tree.list::<&[u8]>(&[], from, most);
            let length = || self.tree.length::<&[u8]>(&[]);
            self.page = self.pages.next(list, length, lost)?.into_iter();
        }
        Ok(self.page.next())
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
            Err(error) => lost(&path, error.what().to_owned()),
        }
        path.pop();
    }
    if losses == 0 {
        return Ok(Verdict::Yes);
    }
    // An error, so that JSON says it behind the values.
    let error = Error::new(
        varvite::Kind::Corrupt,
        format!(
            "{} left out, and {} printed; {} tells more, and {} keeps the commits that are whole",
            print::counted(losses, "place", "places"),
            print::counted(dumped, "value", "values"),
            advice::CONTEXT_CHECK,
            advice::REPAIR
        ),
    );
    Err(error.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The children that were read of `children`, of which `damaged` cannot be, how many were lost, and how many were asked
    /// for.
    fn read(children: u64, damaged: &BTreeSet<u64>) -> (Vec<u64>, u64, u64) {
        let (mut pages, mut read, mut lost, mut asked) = (Pages::new(), Vec::new(), 0, 0);
        loop {
            let list = |from: u64, most: u64| {
                asked += most;
                let end = (from + most).min(children);
                match damaged.range(from..end).next() {
                    Some(_) => Err(Error::new(varvite::Kind::Corrupt, "it is damaged")),
                    None => Ok((from..end).collect()),
                }
            };
            let mut told = |what: String| {
                lost += what.split(' ').next().unwrap().replace(',', "").parse::<u64>().unwrap();
            };
            let page = pages.next(list, || Ok(children), &mut told).unwrap();
            if page.is_empty() {
                return (read, lost, asked);
            }
            read.extend(page);
        }
    }

    #[test]
    fn damage_costs_some_pages_however_many_children_there_are() {
        let one_in = |step: u64, of: u64| (step / 2..of).step_by(step as usize).collect();
        let cases: [(u64, BTreeSet<u64>, u64); 9] = [
            (0, BTreeSet::new(), 1),
            (1, [0].into(), 12),
            (256, [255].into(), 12),
            (100_000, BTreeSet::new(), 0),
            (100_000, [200].into(), 12),
            (100_000, (50_000..60_000).collect(), 40),
            (100_000, one_in(300, 100_000), 12),
            (100_000, one_in(1000, 100_000), 12),
            (10_000, (0..10_000).collect(), 12),
        ];
        for (children, damaged, pages) in cases {
            let (read, lost, asked) = read(children, &damaged);
            let whole: Vec<u64> = (0..children).filter(|child| !damaged.contains(child)).collect();
            assert_eq!((read, lost), (whole, damaged.len() as u64), "{children}");
            // Each once, and so many pages for each damage, one for what is damaged together.
            let alone =
                damaged.iter().filter(|child| !damaged.contains(&(*child + 1))).count() as u64;
            let bound = children + damaged.len() as u64 + 2 * PAGE + alone.max(1) * pages * PAGE;
            assert!(
                asked <= bound,
                "{children} children, {} damaged: {asked} > {bound}",
                damaged.len()
            );
        }
    }
}
