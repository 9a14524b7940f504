//! What commits share, as it is counted; and differences and logs that go on from where they ended.

use std::collections::BTreeMap;
use std::ops::Bound;

use varvite::context::{
    Change, CommitHash, CommitInfo, Options, SHARED_COMMITS_MAX, SharedChunk, Sharing, Store, Tree,
};
use varvite::disk::memory::MemoryDisk;
use varvite::{Error, Kind, Result};

use crate::random::Random;

/// A store of commits in a row, each with some changes in many and in few directories.
fn history(seed: u64, commits: usize) -> (Store, Vec<CommitHash>) {
    history_of(seed, commits, Options::default())
}

fn history_of(seed: u64, commits: usize, options: Options) -> (Store, Vec<CommitHash>) {
    let mut random = Random::new(seed);
    let mut store = Store::create(MemoryDisk::seeded(seed), options).unwrap();
    let (mut tree, mut all) = (store.empty_tree(), Vec::new());
    for _ in 0..3_000 {
        put(&mut tree, &mut random);
    }
    for date in 0..commits {
        for _ in 0..=random.below(40) {
            put(&mut tree, &mut random);
            let account = format!("{}", random.below(1_000));
            if random.below(3) == 0 {
                tree.remove(&["accounts", &account]).unwrap();
            }
        }
        let parents: Vec<_> = all.last().copied().into_iter().collect();
        let info = CommitInfo::new(&parents, date as i64, "me", "");
        all.push(store.commit(&mut tree, &info).unwrap());
    }
    (store, all)
}

fn put(tree: &mut Tree, random: &mut Random) {
    let account = format!("{}", random.below(1_000));
    let value = vec![random.below(256) as u8; random.below(90) as usize];
    match random.below(3) {
        0 => tree.add(&["accounts", &account, "balance"], &value).unwrap(),
        1 => tree.add(&["accounts", &account, "code", "a", "b"], &value).unwrap(),
        _ => tree.add(&["maps", &account], &value).unwrap(),
    }
}

fn counted(store: &Store, commits: &[CommitHash], at_once: u64) -> Sharing {
    let mut sharing = store.sharing(commits).unwrap();
    while sharing.step(store, at_once).unwrap() {}
    assert_eq!(sharing.waiting(), 0);
    sharing
}

/// Pieces and bytes of what the commit at `place` holds, or of all for none.
fn held(sharing: &Sharing, place: Option<usize>) -> (u64, u64) {
    let of = |commits: u32| place.is_none_or(|place| commits >> place & 1 == 1);
    let parts = sharing.parts();
    let parts = parts.iter().filter(|part| of(part.commits));
    parts.fold((0, 0), |sum, part| (sum.0 + part.pieces, sum.1 + part.bytes))
}

#[test]
fn what_commits_share_adds_up_to_what_each_holds_and_all_to_the_pack() {
    for seed in 0..4 {
        let (store, commits) = history(seed, 12);
        let all = counted(&store, &commits, 7);
        assert_eq!(
            all.parts(),
            counted(&store, &commits, 1_000_000).parts(),
            "however many at once"
        );
        assert_eq!(all.counted(), held(&all, None).0);
        for (place, commit) in commits.iter().enumerate() {
            let alone = counted(&store, &[*commit], 100);
            assert_eq!(alone.parts().len(), 1);
            assert_eq!(held(&alone, Some(0)), held(&all, Some(place)), "{seed}: commit {place}");
        }
        for pair in commits.windows(2) {
            let both = counted(&store, pair, 100);
            assert_eq!(held(&both, Some(0)), held(&counted(&store, &pair[..1], 100), Some(0)));
            let parts = both.parts();
            let bytes =
                |of| parts.iter().filter(|it| it.commits == of).map(|it| it.bytes).sum::<u64>();
            // A commit adds what its parent does not hold, and nothing but records of its own beside that.
            let added = store.commit_info(&pair[1]).unwrap().added_bytes;
            assert!((1..=added).contains(&bytes(0b10)), "{} of {added}", bytes(0b10));
            assert!(bytes(0b11) > 2 * bytes(0b10), "{parts:?}");
        }
        // Nothing was collected, so each object of the pack is some commit's.
        let checked = store.check().unwrap();
        assert_eq!(held(&all, None).0, checked.nodes + checked.values, "{seed}");
        assert!(held(&all, None).1 < store.stats().pack_bytes);
    }
}

/// Of each chunk what the commits hold; what a collection leaves of it is about that.
#[test]
fn what_commits_hold_is_told_chunk_by_chunk() {
    for seed in 1..4 {
        let options = Options { seed: Some(seed), chunk_bytes: 8_000, ..Options::default() };
        let (mut store, commits) = history_of(seed, 30, options);
        let before = store.chunks();
        assert!(before.len() > 10, "{}", before.len());
        // In steps, of which each says how far it came: what is newer is counted whole.
        let whole = counted(&store, &commits, 1_000_000);
        let mut sharing = store.sharing(&commits).unwrap();
        assert!(sharing.chunks().is_empty() && sharing.next_offset().is_some());
        while sharing.step(&store, 40).unwrap() {
            let next = sharing.next_offset().unwrap();
            let done = |it: &SharedChunk| it.base > next;
            let now: Vec<_> = sharing.chunks().into_iter().filter(done).collect();
            assert_eq!(now, whole.chunks()[..now.len()]);
        }
        assert_eq!((sharing.chunks(), sharing.next_offset()), (whole.chunks(), None));
        let sum = |sharing: &Sharing| {
            let chunks = sharing.chunks();
            chunks.iter().fold((0, 0), |sum, it| (sum.0 + it.pieces, sum.1 + it.bytes))
        };
        assert_eq!(sum(&whole), held(&whole, None));
        for chunk in whole.chunks() {
            let own = before.iter().find(|it| it.base == chunk.base).expect("it is a chunk");
            assert!((1..=own.disk_bytes).contains(&chunk.bytes), "{chunk:?} of {own:?}");
        }
        // None holds what was before it, but for what is shared.
        let last = counted(&store, &commits[29..], 100);
        assert!(sum(&last).1 < sum(&whole).1);
        store.collect(&commits[29]).unwrap();
        while store.collect_step(1_000).unwrap() {}
        let after = store.chunks();
        let left: u64 = after[..after.len() - 1].iter().map(|it| it.disk_bytes).sum();
        let base = after[after.len() - 1].base;
        // It may have dropped bases of patches, and has nothing besides.
        let found = counted(&store, &commits[29..], 100);
        assert!(sum(&found).0 <= sum(&last).0, "{:?} of {:?}", sum(&found), sum(&last));
        let held: u64 = found.chunks().iter().filter(|it| it.base < base).map(|it| it.bytes).sum();
        assert!((held..2 * held + 8_000).contains(&left), "{left}, held {held}");
    }
}

/// When only bases of patches are left to count, none of which says that somebody wants it.
#[test]
fn a_commit_that_goes_while_only_bases_are_left_ends_the_count() {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    let commit = |store: &mut Store, tree: &mut Tree, change: &dyn Fn(&mut Tree)| {
        change(tree);
        let made = store.commit(tree, &CommitInfo::default()).unwrap();
        store.begin_chunk().unwrap();
        made
    };
    commit(&mut store, &mut tree, &|tree| {
        for name in 0..60 {
            tree.add(&["wide", &format!("name-{name}")], b"1").unwrap();
        }
    });
    let patched = commit(&mut store, &mut tree, &|tree| {
        tree.add(&["wide", "name-7"], b"2").unwrap();
    });
    let last = commit(&mut store, &mut tree, &|tree| {
        tree.remove(&["wide"]).unwrap();
        tree.add(&["other"], b"3").unwrap();
    });
    let all = counted(&store, &[patched], 1).counted();
    let mut sharing = store.sharing(&[patched]).unwrap();
    assert!(sharing.step(&store, all - 1).unwrap());
    assert_eq!(sharing.waiting(), 1);
    store.collect(&last).unwrap();
    while store.collect_step(1_000).unwrap() {}
    assert_eq!(sharing.step(&store, 1).unwrap_err().kind(), Kind::Collected);
}

#[test]
fn the_same_commit_twice_shares_everything_and_too_many_are_refused() {
    let (store, commits) = history(9, 2);
    let twice = counted(&store, &[commits[1]; 2], 10);
    assert_eq!(twice.parts().iter().map(|it| it.commits).collect::<Vec<_>>(), [0b11]);
    let all = vec![commits[0]; SHARED_COMMITS_MAX];
    assert_eq!(counted(&store, &all, 10).parts()[0].commits, u32::MAX);
    let more = vec![commits[0]; SHARED_COMMITS_MAX + 1];
    assert_eq!(store.sharing(&more).unwrap_err().kind(), Kind::Invalid);
    assert_eq!(store.sharing(&[[7; 32].into()]).unwrap_err().kind(), Kind::Missing);
    assert!(!store.sharing(&[]).unwrap().step(&store, 1).unwrap());
}

fn changes(before: &Tree, after: &Tree) -> BTreeMap<Vec<Vec<u8>>, Change> {
    let mut all = BTreeMap::new();
    before
        .diff(after, |path, change| {
            all.insert(path.to_vec(), change);
            Ok(())
        })
        .unwrap();
    all
}

#[test]
fn a_difference_goes_on_from_any_path() {
    for seed in 0..4 {
        let (store, commits) = history(seed, 6);
        let mut random = Random::new(seed);
        let before = store.checkout(&commits[0]).unwrap();
        let mut after = store.checkout(&commits[5]).unwrap();
        // What was a value is a directory, and the other way.
        after.add(&["maps", "now", "below"], b"1").unwrap();
        after.add(&["accounts"], b"gone").unwrap();
        let all = changes(&before, &after);
        assert!(all.len() > 300, "{}", all.len());
        let paths: Vec<_> = all.keys().cloned().collect();
        for _ in 0..60 {
            let mut from = paths[random.below(paths.len() as u64) as usize].clone();
            match random.below(4) {
                0 => from.truncate(1),
                1 => from.push(b"0".to_vec()),
                2 => from.last_mut().unwrap().push(b'!'),
                _ => {}
            }
            let mut told = Vec::new();
            let mut tell = |path: &[Vec<u8>], change| {
                told.push((path.to_vec(), change));
                Ok(())
            };
            before.diff_from(&after, &from, &mut tell).unwrap();
            let rest = all.range((Bound::Included(from.clone()), Bound::Unbounded));
            let rest: Vec<_> = rest.map(|(path, change)| (path.clone(), change.clone())).collect();
            assert_eq!(told, rest, "{seed}: from {from:?}");
        }
        // Ended after each change and gone on with from the one that was not taken.
        let (mut taken, mut from) = (Vec::new(), Some(Vec::new()));
        while let Some(start) = from.take() {
            let one = |path: &[Vec<u8>], _| -> Result<()> {
                if taken.len() % 5 == 4 && start != path {
                    from = Some(path.to_vec());
                    return Err(Error::new(Kind::Closed, "enough"));
                }
                taken.push(path.to_vec());
                Ok(())
            };
            let ended = before.diff_from(&after, &start, one);
            assert_eq!(ended.is_err(), from.is_some());
        }
        assert_eq!(taken, paths);
    }
}

#[test]
fn a_log_goes_on_before_any_commit() {
    let (store, commits) = history(3, 30);
    let newest: Vec<_> = commits.iter().rev().copied().collect();
    let reader = store.reader().unwrap();
    for (place, commit) in newest.iter().enumerate() {
        let rest = &newest[place + 1..];
        assert_eq!(store.log_before(commit, usize::MAX).unwrap(), rest);
        assert_eq!(reader.log_before(commit, 4).unwrap(), rest[..rest.len().min(4)]);
    }
    assert_eq!(store.log_before(&[1; 32].into(), 1).unwrap_err().kind(), Kind::Missing);
}
