//! An archive with the index "always" whose commits have again what older ones had: whatever is above, what a new commit
//! refers to is there without the lower folder.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Error, Kind};

use crate::context_archive::{archived, open, options, packs, value};
use crate::context_repair::{flipped, with};

fn long(lower: Option<&Arc<SimDisk>>) -> Options {
    Options { chunk_bytes: 1 << 20, ..options(Index::Always, lower) }
}

type Change<'c> = (&'c [&'c str], Option<u8>);

/// Sets values, or removes what has none, and ends the chunk.
fn next(store: &mut Store, on: Option<&CommitHash>, changes: &[Change<'_>]) -> CommitHash {
    let mut tree = on.map_or_else(|| store.empty_tree(), |on| store.checkout(on).unwrap());
    for (path, to) in changes {
        match to {
            Some(block) => tree.add(path, &value(*block)).unwrap(),
            None => tree.remove(path).unwrap(),
        }
    }
    let parents: Vec<_> = on.into_iter().copied().collect();
    let commit = store.commit(&mut tree, &CommitInfo::new(&parents, 1, "a", "b")).unwrap();
    store.begin_chunk().unwrap();
    commit
}

fn expect(upper: &Arc<SimDisk>, commit: &CommitHash, values: &[(&[&str], u8)]) {
    let store = open(upper, long(None)).unwrap();
    let tree = store.checkout(commit).unwrap();
    for (path, block) in values {
        assert_eq!(tree.find(path).unwrap(), Some(value(*block)), "{path:?}");
    }
}

/// A file above of which most is needed is not left with an object that nothing needs, while what that refers to goes.
#[test]
fn a_directory_that_comes_back_needs_nothing_from_below() {
    let (upper, lower) = (SimDisk::new(9), SimDisk::new(2));
    let made = Options { seed: Some(9), ..long(Some(&lower)) };
    let mut store = Store::create(Arc::clone(&upper) as Arc<dyn Disk>, made).unwrap();
    let first = next(&mut store, None, &[(&["x", "a"], Some(1))]);
    // Long enough for records of their own.
    let names: Vec<String> = (0..40).map(|name| format!("name {name}")).collect();
    let stays: Vec<_> = names.iter().map(|name| ["stays", name.as_str()]).collect();
    let beside: Vec<_> = names[..8].iter().map(|name| ["x", name.as_str()]).collect();
    let paths = stays.iter().chain(&beside).map(|path| &path[..]);
    let changes: Vec<Change<'_>> = paths.zip(100..).map(|(path, to)| (path, Some(to))).collect();
    let both = next(&mut store, Some(&first), &changes);
    let recent = next(&mut store, Some(&both), &[(&["y"], Some(3))]);
    assert_eq!(store.archive(&recent, u64::MAX).unwrap(), 2);
    let has = [(&["x", "a"][..], 1), (beside[7].as_slice(), 147), (stays[3].as_slice(), 103)];
    expect(&upper.crash(Crash::Process), &recent, &has);
    let without = next(&mut store, Some(&recent), &[(&["x"], None)]);
    let recent = next(&mut store, Some(&without), &[(&["y"], Some(4))]);
    drop(store);
    let mut store = open(&upper, long(Some(&lower))).unwrap();
    assert_eq!(store.archive(&recent, u64::MAX).unwrap(), 2);
    let mut again = vec![(&["x", "a"][..], Some(1))];
    again.extend_from_slice(&changes[40..]);
    let again = next(&mut store, Some(&recent), &again);
    store.close().unwrap();
    expect(&upper, &again, &has);
}

/// What a call has found serves the next one, with what commits between the two have taken over from before.
#[test]
fn what_comes_back_between_two_parts_of_a_move_stays_above() {
    let (upper, lower) = (SimDisk::new(9), SimDisk::new(2));
    let made = Options { seed: Some(9), ..long(Some(&lower)) };
    let mut store = Store::create(Arc::clone(&upper) as Arc<dyn Disk>, made).unwrap();
    let mut last = next(&mut store, None, &[(&["y"], Some(1))]);
    last = next(&mut store, Some(&last), &[(&["x", "a"], Some(2)), (&["x", "b"], Some(3))]);
    last = next(&mut store, Some(&last), &[(&["x"], None)]);
    // Long enough that a call which reads it again is seen.
    for block in 20..60 {
        last = next(&mut store, Some(&last), &[(&["z", &block.to_string()], Some(block))]);
    }
    let target = last;
    for block in 60..100 {
        last = next(&mut store, Some(&last), &[(&["z", &block.to_string()], Some(block))]);
    }
    let reads = || upper.calls().reads;
    let before = reads();
    assert_eq!(store.archive(&target, 1).unwrap(), 1);
    let first = reads() - before;
    let again = [(&["x", "a"][..], Some(2)), (&["x", "b"][..], Some(3))];
    last = next(&mut store, Some(&last), &again);
    let before = reads();
    assert_eq!(store.archive(&target, 1).unwrap(), 1);
    let second = reads() - before;
    assert!(store.archive(&target, u64::MAX).unwrap() > 3);
    store.close().unwrap();
    expect(&upper, &last, &[(&["x", "a"], 2), (&["x", "b"], 3), (&["z", "99"], 99), (&["y"], 1)]);
    assert!(second * 2 < first, "{first} and {second}");
}

/// A file above that found no room is made up for when the next chunks move, so that those above lead nowhere else.
#[test]
fn what_found_no_room_above_is_there_after_the_next_move() {
    let mut failed = 0;
    for at in 1..40 {
        let (upper, lower) = (SimDisk::new(9), SimDisk::new(2));
        let made = Options { seed: Some(9), ..long(Some(&lower)) };
        let mut store = Store::create(Arc::clone(&upper) as Arc<dyn Disk>, made).unwrap();
        let mut last = next(&mut store, None, &[(&["y"], Some(1))]);
        last = next(&mut store, Some(&last), &[(&["y"], Some(2))]);
        // From now on this handle tends what is above when that has grown much.
        assert_eq!(store.archive(&last, u64::MAX).unwrap(), 1);
        last = next(&mut store, Some(&last), &[(&["x", "a"], Some(1))]);
        last = next(&mut store, Some(&last), &[(&["x", "b"], Some(2))]);
        last = next(&mut store, Some(&last), &[(&["y"], Some(3))]);
        upper.fail_at(at, Fault::Space);
        if store.archive(&last, u64::MAX).is_err() {
            continue;
        }
        upper.disarm();
        failed += usize::from(store.warnings().iter().any(|it| it.contains("no room above")));
        last = next(&mut store, Some(&last), &[(&["y"], Some(4))]);
        last = next(&mut store, Some(&last), &[(&["y"], Some(5))]);
        store.archive(&last, u64::MAX).unwrap();
        store.close().unwrap();
        expect(&upper, &last, &[(&["x", "a"], 1), (&["x", "b"], 2), (&["y"], 5)]);
    }
    assert!(failed > 1, "{failed}");
}

/// What is said of the chunk `name` in the lower folder, which is damaged.
fn tells_of_damage(error: &Error, name: &str, place: usize) {
    let text = error.to_string();
    assert_eq!(error.kind(), Kind::Corrupt, "{place}: {text}");
    assert!(text.contains(name) && !text.contains(".tmp"), "{place}: {text}");
    assert!(text.contains("simulation"), "{place}: the folder is not named: {text}");
    assert!(error.advice().is_some_and(|it| it.contains("varvite repair")), "{place}: {text}");
}

/// No chunk goes where the one before it is seen to be damaged, and none comes back that is.
#[test]
fn a_damaged_byte_of_the_chunk_that_was_moved_last_is_met() {
    let index = Index::Minimal;
    let (upper, lower, commits) = archived(index, 9, 3);
    let name = "0000-000002.pack";
    let length = lower.bytes(name).unwrap().len();
    let at_ends = (0..144).chain(length - 102..length);
    for place in at_ends {
        let (upper, lower) = (upper.crash(Crash::Process), flipped(&lower, name, place));
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        let error = store.archive(&commits[4], u64::MAX).unwrap_err();
        tells_of_damage(&error, name, place);
        assert_eq!(packs(&lower).len(), 3, "{place}");
    }
    for place in (0..length).step_by(7).chain([length - 1]) {
        let (upper, lower) = (upper.crash(Crash::Process), flipped(&lower, name, place));
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        tells_of_damage(&store.unarchive(u64::MAX).unwrap_err(), name, place);
        assert_eq!(packs(&lower).len(), 3, "{place}");
    }
}

/// A chunk that came back and stayed in the lower folder all the same, and is damaged there: it is the store's own, of no copy.
#[test]
fn a_damaged_chunk_that_was_left_below_says_the_way_out() {
    let index = Index::Minimal;
    let (upper, lower, commits) = archived(index, 9, 4);
    let name = "0000-000003.pack";
    let bytes = lower.bytes(name).unwrap();
    let mut store = open(&upper, options(index, Some(&lower))).unwrap();
    assert_eq!(store.unarchive(1).unwrap(), 1);
    store.close().unwrap();
    let length = bytes.len();
    for place in [9, length - 101, length - 90, length - 75] {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        let (upper, lower) = (upper.crash(Crash::Process), with(&lower, name, Some(damaged)));
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        let error = store.archive(&commits[4], u64::MAX).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), Kind::Corrupt, "{place}: {text}");
        assert!(text.contains(name) && text.contains("simulation"), "{place}: {text}");
        assert!(error.advice().is_some_and(|it| it.contains("remove")), "{place}: {text}");
        assert!(!text.contains("another folder"), "{place}: {text}");
        // Nor does it show that another copy counts on the folder.
        assert_eq!(store.unarchive(1).unwrap(), 1, "{place}");
        assert_eq!(store.warnings(), Vec::<String>::new(), "{place}");
        assert_eq!(packs(&lower).len(), 3, "{place}");
        lower.remove(name).unwrap();
        assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 2, "{place}");
    }
}
