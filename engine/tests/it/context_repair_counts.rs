//! Repairs lose no commit that they need not, and count those that they do: where objects are there twice, where the
//! control file is older than a collection, where whole chunks are lost.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::sim::SimDisk;

use crate::context_archive::{open, value};
use crate::context_repair::{flipped, repair};

fn say(store: &mut Store, before: Option<&CommitHash>, path: &[&str], block: u8) -> CommitHash {
    let mut tree = match before {
        Some(before) => store.checkout(before).unwrap(),
        None => store.empty_tree(),
    };
    tree.add(path, &value(block)).unwrap();
    let parents: Vec<_> = before.into_iter().copied().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, i64::from(block), "a", "b")).unwrap()
}

/// A directory that the second commit writes again as it was, so many commits that do not change it, one that sets
/// its seventh value, and two more. Returns the second place of that value, too.
fn written_twice(between: u8) -> (Arc<SimDisk>, Vec<CommitHash>, usize) {
    let disk = SimDisk::new(9);
    let made = Options { index: Index::Minimal, seed: Some(9), ..Options::default() };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, made).unwrap();
    let mut commits = Vec::new();
    for twice in [false, true] {
        let mut tree = match commits.last() {
            Some(last) => store.checkout(last).unwrap(),
            None => store.empty_tree(),
        };
        tree.remove(&["d"]).unwrap();
        for block in 0..10 {
            tree.add(&["d", &format!("number {block}")], &value(block)).unwrap();
        }
        if twice {
            tree.add(&["x"], &value(50)).unwrap();
        }
        let parents: Vec<_> = commits.last().copied().into_iter().collect();
        let info = CommitInfo::new(&parents, i64::from(twice), "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    for block in 0..between {
        commits.push(say(&mut store, commits.last(), &["y"], 100 + block));
    }
    let changes = [(["d", "number 7"], 60), (["z", "1"], 61), (["d", "number 8"], 62)];
    for (path, block) in changes {
        commits.push(say(&mut store, commits.last(), &path, block));
    }
    store.close().unwrap();
    let bytes = disk.bytes("0000-000000.pack").unwrap();
    let mut places = (0..bytes.len() - 100).filter(|it| bytes[*it..it + 100] == value(7));
    let second = places.nth(1).expect("it was written twice");
    (disk, commits, second)
}

#[test]
fn a_damaged_copy_of_what_later_commits_have_not_costs_none_of_them() {
    for between in [0, 1, 5, 90] {
        let (disk, commits, second) = written_twice(between);
        let (found, target) =
            repair(&flipped(&disk, "0000-000000.pack", second + 50), None).unwrap();
        assert_eq!(found.commits, commits.len() as u64, "{between}: {found:?}");
        assert!(found.lost.is_empty() && !found.damage.is_empty(), "{between}: {found:?}");
        let store = open(&target, Options::default()).unwrap();
        assert_eq!(store.check().unwrap().commits, commits.len() as u64);
        let tree = store.checkout(commits.last().unwrap()).unwrap();
        for (name, block) in [("number 6", 6), ("number 7", 60), ("number 8", 62)] {
            assert_eq!(tree.find(&["d", name]).unwrap(), Some(value(block)), "{between}");
        }
    }
}
