//! Merges of trees against nested maps, of histories against all ancestors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use varvite::context::{
    ChildOrder, CommitHash, CommitInfo, Configuration, Limits, Merge, Options, Resolution, Sides,
    Store, Tree,
};
use varvite::disk::memory::MemoryDisk;
use varvite::error::{Kind as ErrorKind, Result};

use crate::model::context::{Node, Path};
use crate::random::{Random, setting};

/// What the caller says about a value that both changed: the first byte of the values decides.
fn verdict(sides: &Sides<'_>) -> Resolution {
    let first = |value: Option<&[u8]>| value.and_then(|value| value.first().copied()).unwrap_or(7);
    match first(sides.ours).wrapping_add(first(sides.theirs)) % 3 {
        0 => Resolution::Conflict,
        1 => Resolution::Removed,
        _ => Resolution::Value(vec![first(sides.base), first(sides.ours), first(sides.theirs)]),
    }
}

/// Three-way merge without a shortcut. Pushes the paths of conflicts, by name in each directory.
fn merge_nodes(
    sides: [Option<&Node>; 3],
    path: &mut Path,
    conflicts: &mut Vec<Path>,
) -> Option<Node> {
    let [base, ours, theirs] = sides;
    if theirs == base || ours == theirs {
        return ours.cloned();
    }
    if ours == base {
        return theirs.cloned();
    }
    let value = |node: Option<&Node>| match node {
        Some(Node::Value(value)) => Some(value.clone()),
        _ => None,
    };
    let (b, o, t) = (value(base), value(ours), value(theirs));
    let merged = if o == t || t == b {
        Ok(o.clone())
    } else if o == b {
        Ok(t.clone())
    } else {
        Err(())
    };
    let is_directory = |node: Option<&Node>| matches!(node, Some(Node::Directory(_)));
    let outcome = match merged {
        Ok(None) => None,
        _ if is_directory(ours) || is_directory(theirs) => Some(Resolution::Conflict),
        Ok(Some(value)) => Some(Resolution::Value(value)),
        Err(()) => {
            Some(verdict(&Sides { base: b.as_deref(), ours: o.as_deref(), theirs: t.as_deref() }))
        }
    };
    match outcome {
        Some(Resolution::Conflict) => {
            conflicts.push(path.clone());
            ours.cloned()
        }
        Some(Resolution::Removed) => None,
        Some(Resolution::Value(value)) => Some(Node::Value(value)),
        None => {
            let children = |node: Option<&Node>| match node {
                Some(Node::Directory(children)) => children.clone(),
                _ => BTreeMap::new(),
            };
            let all = [children(base), children(ours), children(theirs)];
            let names: BTreeSet<&Vec<u8>> = all.iter().flat_map(BTreeMap::keys).collect();
            let mut merged = BTreeMap::new();
            for name in names {
                path.push(name.clone());
                let below = [all[0].get(name), all[1].get(name), all[2].get(name)];
                if let Some(node) = merge_nodes(below, path, conflicts) {
                    merged.insert(name.clone(), node);
                }
                path.pop();
            }
            (!merged.is_empty()).then_some(Node::Directory(merged))
        }
    }
}

fn path(random: &mut Random) -> Path {
    let length = 1 + random.below(3);
    (0..length).map(|_| format!("n{}", random.below(7)).into_bytes()).collect()
}

/// Changes a tree and its model at random.
fn change(tree: &mut Tree, model: &mut Node, random: &mut Random) {
    for _ in 0..random.below(12) {
        let path = path(random);
        if random.one_in(3) {
            tree.remove(&path).unwrap();
            model.remove(&path);
        } else {
            let length = random.choose(&[1, 15, 16, 40]);
            let mut value = vec![b'v'; length];
            value[0] = random.below(6) as u8;
            tree.add(&path, &value).unwrap();
            model.put(&path, Node::Value(value));
        }
    }
    // One directory around the size at which inodes begin and end.
    for _ in 0..random.below(3) {
        let first = random.below(300);
        for number in first..(first + random.below(300)).min(300) {
            let path = [b"big".to_vec(), format!("{number:03}").into_bytes()];
            if random.one_in(2) {
                tree.remove(&path).unwrap();
                model.remove(&path);
            } else {
                let value = vec![random.below(3) as u8];
                tree.add(&path, &value).unwrap();
                model.put(&path, Node::Value(value));
            }
        }
    }
}

/// Leaves the tree as it is, or stores it, so that parts of it are read from a pack.
fn store_one_in(n: u64, tree: &mut Tree, store: &mut Store, random: &mut Random) {
    if random.one_in(n) && !tree.is_empty().unwrap() {
        let info = CommitInfo::new(&[], random.next() as i64, "", "");
        store.commit(tree, &info).unwrap();
    }
}

fn store_of(configuration: Configuration) -> Store {
    let options = Options { configuration, ..Options::default() };
    Store::create(MemoryDisk::seeded(1), options).unwrap()
}

#[test]
fn merged_trees_are_what_merged_maps_are() {
    let configurations = [
        Configuration::TEZOS,
        Configuration::TEZOS_BINARY,
        Configuration::new(3, 5, ChildOrder::SeededHash).unwrap(),
    ];
    let (mut conflicts, mut clean) = (0, 0);
    for round in 0..setting("VARVITE_MERGES", 300) {
        let mut random = Random::new(round);
        let configuration = random.choose(&configurations);
        let mut stores = [store_of(configuration), store_of(configuration)];
        let (mut base, mut base_model) = (Tree::empty(configuration), Node::empty());
        change(&mut base, &mut base_model, &mut random);
        store_one_in(2, &mut base, &mut stores[0], &mut random);
        let (mut ours, mut our_model) = (base.clone(), base_model.clone());
        change(&mut ours, &mut our_model, &mut random);
        store_one_in(3, &mut ours, &mut stores[0], &mut random);
        let (mut theirs, mut their_model) = (base.clone(), base_model.clone());
        change(&mut theirs, &mut their_model, &mut random);
        // Now and then from another store, whose offsets mean nothing in the first.
        let place = usize::from(random.one_in(4));
        store_one_in(3, &mut theirs, &mut stores[place], &mut random);

        let merged = ours.merge(&base, &theirs, |_, sides| Ok(verdict(&sides))).unwrap();
        let mut expected = Vec::new();
        let sides = [Some(&base_model), Some(&our_model), Some(&their_model)];
        let model = merge_nodes(sides, &mut Vec::new(), &mut expected).unwrap_or_else(Node::empty);
        assert_eq!(merged.tree.hash().unwrap(), model.hash(configuration), "round {round}");
        let found: Vec<&Path> = merged.conflicts.iter().map(|conflict| &conflict.path).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "round {round}");
        for conflict in &merged.conflicts {
            let sides = [
                (&conflict.base, &base_model),
                (&conflict.ours, &our_model),
                (&conflict.theirs, &their_model),
            ];
            for (tree, model) in sides {
                let found = tree.as_ref().map(|tree| tree.hash().unwrap());
                let model = model.get(&conflict.path).map(|node| node.hash(configuration).into());
                assert_eq!(found, model, "round {round}: a side of a conflict");
            }
        }
        // What was merged is as good as any tree.
        let mut tree = merged.tree;
        if !tree.is_empty().unwrap() {
            stores[0].commit(&mut tree, &CommitInfo::default()).unwrap();
            assert_eq!(tree.hash().unwrap(), model.hash(configuration));
        }
        conflicts += expected.len();
        clean += usize::from(expected.is_empty());
        // What was merged from is untouched.
        assert_eq!(ours.hash().unwrap(), our_model.hash(configuration));
        assert_eq!(theirs.hash().unwrap(), their_model.hash(configuration));
    }
    assert!(conflicts > 100 && clean > 30, "{conflicts} conflicts, {clean} without one");
}

#[test]
fn a_merge_reads_what_changed_and_no_more() {
    let mut store = store_of(Configuration::TEZOS);
    let mut base = store.empty_tree();
    for number in 0..20_000 {
        base.add(&["accounts".to_owned(), format!("{number}")], b"a balance of sixteen").unwrap();
    }
    store.commit(&mut base, &CommitInfo::default()).unwrap();
    let (mut ours, mut theirs) = (base.clone(), base.clone());
    ours.add(&["accounts", "17"], b"ours").unwrap();
    theirs.add(&["accounts", "18"], b"theirs").unwrap();
    store.commit(&mut ours, &CommitInfo::default()).unwrap();
    store.commit(&mut theirs, &CommitInfo::default()).unwrap();
    let written = store.stats().written_bytes;
    let mut merged =
        ours.merge(&base, &theirs, |path, _| panic!("only one side changed {path:?}")).unwrap();
    store.commit(&mut merged.tree, &CommitInfo::default()).unwrap();
    assert!(store.stats().written_bytes - written < 4096, "the merged tree shares the rest");
    assert_eq!(merged.tree.find(&["accounts", "18"]).unwrap().as_deref(), Some(&b"theirs"[..]));
}

/// A history and what every commit descends from.
struct History {
    store: Store,
    commits: Vec<CommitHash>,
    ancestors: Vec<BTreeSet<usize>>,
}

/// What the counter of a commit must be: one bit for each commit that it descends from.
fn bits(ancestors: &BTreeSet<usize>) -> u128 {
    ancestors.iter().fold(0, |bits, commit| bits | 1 << commit)
}

#[allow(clippy::unnecessary_wraps)] // what a merge asks
fn count(_: &[Vec<u8>], sides: Sides<'_>) -> Result<Resolution> {
    let number = |value: Option<&[u8]>| {
        value.map_or(0, |value| u128::from_le_bytes(value.try_into().expect("16 bytes")))
    };
    let sum = number(sides.ours) + number(sides.theirs) - number(sides.base);
    Ok(Resolution::Value(sum.to_le_bytes().to_vec()))
}

/// Commits on three branches that fork and merge at random. Each commit but a merge sets its bit in a
/// counter, and a value of its own.
fn history(random: &mut Random, length: usize) -> History {
    let mut store = store_of(Configuration::TEZOS);
    let (mut commits, mut ancestors): (Vec<CommitHash>, Vec<BTreeSet<usize>>) =
        (Vec::new(), Vec::new());
    let mut heads: Vec<usize> = Vec::new();
    for number in 0..length {
        let date = number as i64;
        let (hash, mut below) = if heads.len() > 1 && random.one_in(2) {
            let (a, b) = (random.choose(&heads), random.choose(&heads));
            let outcome =
                store.merge_commits(&commits[a], &commits[b], Limits::default(), count).unwrap();
            let Merge::Merged(mut tree) = outcome else { continue };
            let info = CommitInfo::new(&[commits[a], commits[b]], date, "", "merge");
            let hash = store.commit(&mut tree, &info).unwrap();
            (hash, ancestors[a].union(&ancestors[b]).copied().collect())
        } else {
            let parent = if heads.is_empty() || random.one_in(12) {
                None
            } else {
                Some(random.choose(&heads))
            };
            let mut tree = match parent {
                Some(parent) => store.checkout(&commits[parent]).unwrap(),
                None => store.empty_tree(),
            };
            let below = parent.map(|parent| ancestors[parent].clone()).unwrap_or_default();
            let place = commits.len();
            let before = tree.find(&["counter"]).unwrap();
            let before =
                before.map_or(0, |bytes| u128::from_le_bytes(bytes.try_into().expect("16 bytes")));
            let sum = before | 1 << place;
            tree.add(&["counter"], &sum.to_le_bytes()).unwrap();
            tree.add(&["own".to_owned(), place.to_string()], b"x").unwrap();
            let parents: Vec<CommitHash> =
                parent.map(|parent| commits[parent]).into_iter().collect();
            (store.commit(&mut tree, &CommitInfo::new(&parents, date, "", "")).unwrap(), below)
        };
        let place = commits.len();
        below.insert(place);
        commits.push(hash);
        ancestors.push(below);
        if heads.len() < 3 {
            heads.push(place);
        } else {
            let head = random.index(heads.len());
            heads[head] = place;
        }
    }
    History { store, commits, ancestors }
}

impl History {
    /// The commits with a value of their own among these.
    fn own(&self, ancestors: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_merge = |place: &usize| {
            self.store.commit_info(&self.commits[*place]).unwrap().message == b"merge"
        };
        ancestors.iter().copied().filter(|place| !is_merge(place)).collect()
    }

    fn lowest(&self, a: usize, b: usize) -> BTreeSet<CommitHash> {
        let common: BTreeSet<usize> =
            self.ancestors[a].intersection(&self.ancestors[b]).copied().collect();
        let lowest = common.iter().filter(|candidate| {
            !common
                .iter()
                .any(|other| other != *candidate && self.ancestors[*other].contains(candidate))
        });
        lowest.map(|place| self.commits[*place]).collect()
    }
}

#[test]
fn crossing_histories_have_the_lowest_ancestors_and_lose_no_change() {
    let (mut several, mut none) = (0, 0);
    for round in 0..setting("VARVITE_HISTORIES", 60) {
        let mut random = Random::new(round);
        let history = history(&mut random, 60);
        let store = &history.store;
        let limits = Limits::default();
        for _ in 0..60 {
            let a = random.index(history.commits.len());
            let b = random.index(history.commits.len());
            let (ours, theirs) = (&history.commits[a], &history.commits[b]);
            let lowest = store.lowest_common_ancestors(ours, theirs, limits).unwrap();
            let expected = history.lowest(a, b);
            assert_eq!(lowest.iter().copied().collect::<BTreeSet<_>>(), expected, "round {round}");
            assert_eq!(lowest.len(), expected.len());
            several += usize::from(lowest.len() > 1);
            none += usize::from(lowest.is_empty());
            let all = history.ancestors[a].union(&history.ancestors[b]).copied().collect();
            match store.merge_commits(ours, theirs, limits, count).unwrap() {
                Merge::Unchanged => assert!(history.ancestors[a].contains(&b)),
                Merge::FastForward => assert!(a != b && history.ancestors[b].contains(&a)),
                Merge::Conflicts(merged) => panic!("round {round}: {:?}", merged.conflicts),
                Merge::Merged(tree) => {
                    let own = history.own(&all);
                    let sum = tree.find(&["counter"]).unwrap().unwrap();
                    assert_eq!(sum, bits(&own).to_le_bytes(), "round {round}: {a} and {b}");
                    assert_eq!(tree.length(&["own"]).unwrap(), own.len() as u64);
                }
            }
        }
    }
    assert!(several > 50 && none > 50, "{several} with several ancestors, {none} without one");
}

#[test]
fn histories_come_with_children_before_parents() {
    let mut random = Random::new(5);
    let history = history(&mut random, 80);
    let last = history.commits.len() - 1;
    let commits = history.store.history(&[history.commits[last]], usize::MAX).unwrap();
    let expected: BTreeSet<CommitHash> =
        history.ancestors[last].iter().map(|place| history.commits[*place]).collect();
    assert_eq!(commits.iter().map(|commit| commit.hash).collect::<BTreeSet<_>>(), expected);
    assert_eq!(commits.len(), expected.len());
    let place: BTreeMap<CommitHash, usize> =
        commits.iter().enumerate().map(|(place, commit)| (commit.hash, place)).collect();
    for (at, commit) in commits.iter().enumerate() {
        assert!(commit.parents.iter().all(|parent| place[parent] > at));
    }
    let first = history.store.history(&[history.commits[last]], 3).unwrap();
    assert_eq!(first, commits[..3]);
    let unknown = history.store.history(&[[9; 32].into()], 3).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Missing);
}

/// A commit whose only value is its message.
fn commit(store: &mut Store, parents: &[CommitHash], message: &str) -> CommitHash {
    let mut tree = store.empty_tree();
    tree.add(&["value"], message.as_bytes()).unwrap();
    store.commit(&mut tree, &CommitInfo::new(parents, 0, "", message)).unwrap()
}

#[test]
fn a_parent_taken_after_its_child_is_an_ancestor_all_the_same() {
    // In one store in order, to know the hashes; then the youngest first.
    let mut ordered = store_of(Configuration::TEZOS);
    let root = commit(&mut ordered, &[], "root");
    let middle = commit(&mut ordered, &[root], "middle");
    let (left, right) =
        (commit(&mut ordered, &[middle], "left"), commit(&mut ordered, &[middle, root], "right"));
    let mut store = store_of(Configuration::TEZOS);
    let limits = Limits::default();
    assert_eq!(commit(&mut store, &[middle], "left"), left);
    assert_eq!(commit(&mut store, &[middle, root], "right"), right);
    let missing = store.lowest_common_ancestors(&left, &right, limits).unwrap();
    assert_eq!(missing, [[0; 32]; 0], "parents that are not in the store end a history");
    assert_eq!(commit(&mut store, &[], "root"), root);
    assert_eq!(commit(&mut store, &[root], "middle"), middle);
    for store in [&ordered, &store] {
        assert_eq!(store.lowest_common_ancestors(&left, &right, limits).unwrap(), [middle]);
        assert_eq!(store.lowest_common_ancestors(&left, &root, limits).unwrap(), [root]);
    }
}

#[test]
fn limits_are_errors_that_say_so() {
    let mut store = store_of(Configuration::TEZOS);
    let (a, b) = (commit(&mut store, &[], "a"), commit(&mut store, &[], "b"));
    let left = commit(&mut store, &[a, b], "left");
    let right = commit(&mut store, &[b, a], "right");
    let ask = |limits| store.lowest_common_ancestors(&left, &right, limits);
    assert_eq!(ask(Limits { commits: 4, bases: 2 }).unwrap(), [a, b]);
    for limits in [Limits { commits: 3, bases: 2 }, Limits { commits: 4, bases: 1 }] {
        let error = ask(limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("raise the limit"), "{error}");
    }
    let error =
        store.lowest_common_ancestors(&left, &[1; 32].into(), Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
}

#[test]
fn a_ladder_of_crossings_is_climbed_to_its_foot() {
    let mut store = store_of(Configuration::TEZOS);
    let mut rungs = (commit(&mut store, &[], "0"), commit(&mut store, &[], "0'"));
    for step in 0..400 {
        let next = |store: &mut Store, side: &str| {
            let mut tree = store.checkout(&rungs.0).unwrap();
            tree.add(&[side], step.to_string().as_bytes()).unwrap();
            let info = CommitInfo::new(&[rungs.0, rungs.1], step, side, "");
            store.commit(&mut tree, &info).unwrap()
        };
        rungs = (next(&mut store, "left"), next(&mut store, "right"));
    }
    let conflict = |_: &[Vec<u8>], _: Sides<'_>| Ok(Resolution::Conflict);
    let outcome = store.merge_commits(&rungs.0, &rungs.1, Limits::default(), conflict).unwrap();
    assert!(!matches!(outcome, Merge::Unchanged | Merge::FastForward));
    let few = Limits { bases: 100, ..Limits::default() };
    let error = store.merge_commits(&rungs.0, &rungs.1, few, conflict).unwrap_err();
    assert!(error.to_string().contains("raise the limit"), "{error}");
}

#[test]
fn a_branch_takes_what_it_lacks_and_nothing_in_a_conflict() {
    let disk = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk) as _, Options::default()).unwrap();
    let keep = |_: &[Vec<u8>], _: Sides<'_>| Ok(Resolution::Conflict);
    let limits = Limits::default();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"1").unwrap();
    tree.add(&["b"], b"1").unwrap();
    let base = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let on = |store: &mut Store, path: &str, value: &str| {
        let mut tree = tree.clone();
        tree.add(&[path], value.as_bytes()).unwrap();
        store.commit(&mut tree, &CommitInfo::new(&[base], 1, path, value)).unwrap()
    };
    let (left, right, other) =
        (on(&mut store, "a", "2"), on(&mut store, "b", "2"), on(&mut store, "a", "3"));
    let info = CommitInfo::new(&[[7; 32].into()], 5, "us", "both");

    // A branch that is not there, one with nothing of its own, one that has it all.
    let new = store.merge_branch(b"main", &base, &info, limits, keep).unwrap();
    assert!(matches!(new, Merge::FastForward) && store.branch(b"main") == Some(base));
    let forward = store.merge_branch(b"main", &left, &info, limits, keep).unwrap();
    assert!(matches!(forward, Merge::FastForward) && store.branch(b"main") == Some(left));
    let same = store.merge_branch(b"main", &base, &info, limits, keep).unwrap();
    assert!(matches!(same, Merge::Unchanged) && store.branch(b"main") == Some(left));

    let held = |store: &Store| (store.stats().commits, store.stats().written_bytes);
    let before = held(&store);
    let conflicts = store.merge_branch(b"main", &other, &info, limits, keep).unwrap();
    let Merge::Conflicts(merged) = conflicts else { panic!("both changed \"a\"") };
    let [conflict] = &merged.conflicts[..] else { panic!("{:?}", merged.conflicts) };
    let value = |tree: &Option<Tree>| tree.as_ref().unwrap().to_value().unwrap().unwrap();
    assert_eq!(conflict.path, [b"a"]);
    let sides = [value(&conflict.base), value(&conflict.ours), value(&conflict.theirs)];
    assert_eq!(sides, [b"1", b"2", b"3"]);
    assert_eq!((held(&store), store.branch(b"main")), (before, Some(left)));

    let merged = store.merge_branch(b"main", &right, &info, limits, keep).unwrap();
    let Merge::Merged(merged) = merged else { panic!("only \"b\" is new") };
    drop(store);
    let store = Store::open(disk, Options::default()).unwrap();
    assert_eq!(store.branch(b"main"), Some(merged));
    let commit = store.commit_info(&merged).unwrap();
    let mut parents = vec![left, right];
    parents.sort_unstable();
    assert_eq!((commit.parents, &commit.author[..], commit.date), (parents, &b"us"[..], 5));
    let tree = store.checkout(&merged).unwrap();
    for path in ["a", "b"] {
        assert_eq!(tree.find(&[path]).unwrap().as_deref(), Some(&b"2"[..]));
    }
}
