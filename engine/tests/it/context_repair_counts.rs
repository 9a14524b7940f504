//! Repairs lose no commit that they need not, and count those that they do: where objects are there twice, where the
//! control file is older than a collection, where whole chunks are lost.

use std::sync::Arc;

use varvite::context::{
    CommitHash, CommitInfo, Durability, Index, Options, RepairedContext, Store,
};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};

use crate::collect_joins;
use crate::context_archive::{commit, made, open, options, packs, value};
use crate::context_repair::{flipped, repair, with};

/// How many commits the report says are lost.
fn told(found: &RepairedContext) -> u64 {
    let count = |detail: &str| {
        let (count, _) = detail.split_once(" more, of which nothing is left")?;
        count.parse::<u64>().ok()
    };
    found.lost.iter().map(|lost| count(&lost.detail).unwrap_or(1)).sum()
}

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

#[test]
fn a_control_file_of_before_a_collection_costs_no_commit() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, mut store, mut commits) = collect_joins::before(index);
        let older = disk.bytes("control").unwrap();
        let before = packs(&disk);
        collect_joins::joins(&mut store, &mut commits).unwrap();
        store.close().unwrap();
        let is_joined = |name: &String| name.starts_with("0000-000000-") && !before.contains(name);
        assert!(packs(&disk).iter().any(is_joined), "more chunks are in the first file");
        let mut counts = Vec::new();
        for control in [disk.bytes("control").unwrap(), older] {
            let (found, target) = repair(&with(&disk, "control", Some(control)), None).unwrap();
            let store = open(&target, Options::default()).unwrap();
            for (date, commit) in (0..).zip(&commits) {
                if store.exists(commit).unwrap() {
                    collect_joins::expect(&store.checkout(commit).unwrap(), date, &index);
                }
            }
            assert_eq!(store.check().unwrap().commits, found.commits);
            assert!(found.lost.is_empty() && found.missing.is_empty(), "{found:?}");
            counts.push((found.commits, found.last_commit, found.damage.len()));
        }
        assert_eq!(counts, [(2, commits.last().copied(), 0), (2, commits.last().copied(), 1)]);
    }
}

#[test]
fn chunks_behind_an_older_control_file_are_missed_and_their_commits_counted() {
    let (disk, mut commits) = made(Index::Minimal, 9);
    let older = disk.bytes("control").unwrap();
    let named = packs(&disk).len();
    let mut store = open(&disk, options(Index::Minimal, None)).unwrap();
    for block in 6..12 {
        commits.push(commit(&mut store, commits.last(), block).unwrap());
    }
    // What comes last needs nothing of those before.
    commits.push(say(&mut store, None, &["alone"], 80));
    store.close().unwrap();
    let image = with(&disk, "control", Some(older));
    let names = packs(&image);
    for count in [1, 3] {
        let lost = &names[named + 1..named + 1 + count];
        let image = lost.iter().fold(Arc::clone(&image), |image, name| with(&image, name, None));
        let (found, _) = repair(&image, None).unwrap();
        assert!(found.missing.iter().any(|it| it.starts_with(&lost[0])), "{found:?}");
        assert_eq!(found.missing.iter().any(|it| it.contains("2 chunks behind it")), count == 3);
        assert!(found.lost.iter().all(|it| !it.detail.contains("collected")), "{found:?}");
        assert_eq!(told(&found), commits.len() as u64 - found.commits, "{found:?}");
        assert!(found.commits >= 7, "{found:?}");
    }
}

#[test]
fn the_commits_of_the_first_chunk_that_is_whole_are_counted() {
    let disk = SimDisk::new(9);
    let made = Options { index: Index::Minimal, seed: Some(9), ..Options::default() };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, made).unwrap();
    let mut commits: Vec<_> = (0..4).map(|block| say(&mut store, None, &["a"], block)).collect();
    store.collect(&commits[2]).unwrap();
    while store.collect_step(100).unwrap() {}
    commits.extend((10..60).map(|block| say(&mut store, None, &["a"], block)));
    store.begin_chunk().unwrap();
    commits.extend((70..73).map(|block| say(&mut store, None, &["a"], block)));
    store.close().unwrap();
    let names = packs(&disk);
    let [_, lost, _] = &names[..] else { panic!("{names:?}") };
    let (found, _) = repair(&disk, None).unwrap();
    assert!(found.commits == 55 && found.is_whole(), "{found:?}");
    let (found, _) = repair(&with(&disk, lost, None), None).unwrap();
    assert_eq!((found.commits, told(&found)), (5, 50), "{found:?}");
}

/// A commit from elsewhere has a parent that was never in the store.
#[test]
fn a_parent_from_elsewhere_is_told_as_a_guess() {
    let elsewhere = made(Index::Minimal, 10).1[3];
    let disk = SimDisk::new(9);
    let made = Options { seed: Some(9), ..options(Index::Minimal, None) };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, made).unwrap();
    let first = say(&mut store, None, &["a"], 1);
    let before = packs(&disk);
    let second = say(&mut store, None, &["b"], 2);
    let own = packs(&disk);
    let mut tree = store.empty_tree();
    tree.add(&["c"], &value(3)).unwrap();
    let third = store.commit(&mut tree, &CommitInfo::new(&[elsewhere], 3, "a", "b")).unwrap();
    store.close().unwrap();
    let mut image = disk;
    for name in own.iter().filter(|name| !before.contains(name)) {
        image = with(&image, name, None);
    }
    let (found, target) = repair(&image, None).unwrap();
    let store = open(&target, Options::default()).unwrap();
    let kept = [first, second, third].map(|commit| store.exists(&commit).unwrap());
    assert_eq!(kept, [true, false, true], "{found:?}");
    let [lost] = &found.lost[..] else { panic!("{found:?}") };
    assert!(lost.commit.is_none() && lost.detail.contains("perhaps Co"), "{found:?}");
}

/// What a process that was killed in a commit leaves behind the last batch was never acknowledged.
#[test]
fn a_batch_that_was_cut_off_is_told_and_no_damage() {
    let (disk, commits) = made(Index::Minimal, 9);
    let name = packs(&disk).pop().unwrap();
    let bytes = disk.bytes(&name).unwrap();
    let next = disk.crash(Crash::Process);
    let mut store = open(&next, options(Index::Minimal, None)).unwrap();
    commit(&mut store, commits.last(), 7).unwrap();
    drop(store);
    let longer = next.bytes(&name).unwrap();
    let batch = &longer[bytes.len()..];
    assert!(batch.len() > 60 && longer.starts_with(&bytes));
    let with_tail = |tail: &[u8]| with(&disk, &name, Some([&bytes[..], tail].concat()));
    let lengths = [1, 27, 28, 29, batch.len() - 1];
    // After a power cut any block of it may be lost: its head, or what was behind it.
    let [mut headless, mut torn, mut holed] = [batch.to_vec(), batch.to_vec(), batch.to_vec()];
    headless[..30].fill(0);
    *torn.last_mut().unwrap() ^= 1;
    holed[29..60].fill(0);
    let others = [&[7][..], &[1; 5_000][..], &headless[..], &torn[..], &holed[..]];
    for tail in lengths.iter().map(|length| &batch[..*length]).chain(others) {
        let cut_off = with_tail(tail);
        let dynamic = Arc::clone(&cut_off) as Arc<dyn Disk>;
        let checked = Store::open_read_only(dynamic, options(Index::Minimal, None));
        assert_eq!(checked.unwrap().check().unwrap().commits, 6);
        let (found, target) = repair(&cut_off, None).unwrap();
        assert_eq!(found.commits, 6);
        assert!(found.is_whole() && found.damage.is_empty(), "{found:?}");
        let [told] = &found.unfinished[..] else { panic!("{found:?}") };
        assert!(told.starts_with(&name) && told.contains("that was cut off"), "{told}");
        assert_eq!(open(&target, Options::default()).unwrap().log(9).unwrap().len(), 6);
    }
    let (found, _) = repair(&disk, None).unwrap();
    assert!(found.is_whole() && found.unfinished.is_empty(), "{found:?}");
    // What a checkpoint knows was not cut off.
    let images = [
        flipped(&disk, &name, bytes.len() - 30),
        with(&disk, &name, Some(bytes[..bytes.len() - 1].to_vec())),
    ];
    for image in images {
        let (found, _) = repair(&image, None).unwrap();
        assert!(!found.is_whole() && found.unfinished.is_empty(), "{found:?}");
    }
}

/// Where nothing syncs the commits, no batch says that those before it were ever durable, and still a kill loses none.
#[test]
fn whole_commits_behind_a_damaged_one_that_no_sync_has_passed_are_kept() {
    let disk = SimDisk::new(9);
    let made = Options {
        index: Index::Minimal,
        durability: Durability::Written,
        seed: Some(9),
        ..Options::default()
    };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, made).unwrap();
    let name = packs(&disk).pop().unwrap();
    let mut ends = Vec::new();
    for block in 0..12 {
        say(&mut store, None, &["a"], block);
        ends.push(disk.bytes(&name).unwrap().len());
    }
    let killed = disk.crash(Crash::Process);
    drop(store);
    assert!(ends.is_sorted_by(|before, after| before < after), "{ends:?}");
    // The last batch but one is the last that anything is behind. A head is no part of what it is before.
    for (batch, at) in [(5, 4), (5, 40), (10, 4), (10, 40)] {
        let image = flipped(&killed, &name, ends[batch - 1] + at);
        let (found, target) = repair(&image, None).unwrap();
        let place = format!("{batch}, {at}: {found:?}");
        let whole = if at < 28 { 12 } else { 11 };
        assert!(found.commits == whole && !found.is_whole(), "{place}");
        assert!(found.unfinished.is_empty() && !found.damage.is_empty(), "{place}");
        let log = open(&target, Options::default()).unwrap().log(20).unwrap();
        assert_eq!(log.len() as u64, whole, "{place}");
    }
    for at in [4, 40] {
        let (found, _) = repair(&flipped(&killed, &name, ends[10] + at), None).unwrap();
        assert!(
            found.commits == 11 && found.is_whole() && found.unfinished.len() == 1,
            "{found:?}"
        );
    }
}
