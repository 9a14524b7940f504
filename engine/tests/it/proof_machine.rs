//! Random functions on random trees: what is recorded verifies, in every form and encoding, and what
//! is read of a proof is what the whole tree has, or not in the proof.

use std::sync::Arc;

use varvite::Result;
use varvite::context::{
    ChildOrder, CommitInfo, Configuration, Index, Kind, Options, Order, Store, Tree,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::error::Kind as ErrorKind;
use varvite::proof::{self, Encoding, Kinded, Proof, Read};

use crate::random::{Random, setting};

type Path = Vec<Vec<u8>>;

/// One access of a function.
#[derive(Clone, Debug)]
pub enum Step {
    Find(Path),
    Mem(Path),
    MemTree(Path),
    Hash(Path),
    Length(Path),
    List(Path, u64, u64),
    Fold(Path),
    Add(Path, Vec<u8>),
    Remove(Path),
    Copy(Path, Path),
}

/// What the accesses find.
pub fn run(tree: &mut Tree, steps: &[Step]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for step in steps {
        found.push(match step {
            Step::Find(path) => format!("{:?}", tree.find(path)?),
            Step::Mem(path) => format!("{}", tree.mem(path)?),
            Step::MemTree(path) => format!("{}", tree.mem_tree(path)?),
            Step::Hash(path) => {
                let below = tree.find_tree(path)?;
                format!("{:?}", below.map(|tree| tree.hash()).transpose()?)
            }
            Step::Length(path) => format!("{}", tree.length(path)?),
            Step::List(path, offset, length) => {
                let page = tree.list(path, *offset, *length)?;
                let names = page.iter().map(|(name, tree)| (name, tree.kind() == Kind::Value));
                format!("{:?}", names.collect::<Vec<_>>())
            }
            Step::Fold(path) => {
                let mut all = Vec::new();
                tree.fold(path, None, Order::Sorted, |path, tree| {
                    all.push((path.to_vec(), tree.to_value()?));
                    Ok(())
                })?;
                format!("{all:?}")
            }
            Step::Add(path, value) => format!("{:?}", tree.add(path, value)?),
            Step::Remove(path) => format!("{:?}", tree.remove(path)?),
            Step::Copy(from, to) => match tree.find_tree(from)? {
                Some(below) => format!("{:?}", tree.add_tree(to, &below)?),
                None => String::new(),
            },
        });
    }
    Ok(found)
}

pub fn path(random: &mut Random) -> Path {
    let length = random.choose(&[1, 1, 2, 2, 2, 3, 4]);
    let mut path: Path = (0..length)
        .map(|_| match random.below(4) {
            0 => vec![b'a' + random.below(3) as u8],
            1 => format!("name {}", random.below(9)).into_bytes(),
            _ => format!("n{}", random.below(40)).into_bytes(),
        })
        .collect();
    // Into the wide directory, where inodes are.
    if random.one_in(2) {
        path.truncate(2);
        path.insert(0, b"wide".to_vec());
        path[1] = format!("{:03}", random.below(310)).into_bytes();
        path.truncate(random.choose(&[1, 2, 2, 2, 3]));
    }
    path
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = random.choose(&[0, 1, 15, 16, 40, 300]);
    random.bytes(length)
}

pub fn step(random: &mut Random) -> Step {
    let at = path(random);
    match random.below(16) {
        0..3 => Step::Find(at),
        3 => Step::Mem(at),
        4 => Step::MemTree(at),
        5 => Step::Hash(at),
        6 => Step::Length(at),
        7 => Step::List(at, random.below(300), random.below(9)),
        8 if random.one_in(4) => Step::Fold(at),
        8..12 => Step::Add(at, value(random)),
        12..15 => Step::Remove(at),
        _ => Step::Copy(at, path(random)),
    }
}

/// A tree with small directories and a wide one of `wide` entries.
pub fn tree(configuration: Configuration, random: &mut Random, wide: u64) -> Tree {
    let mut tree = Tree::empty(configuration);
    for number in 0..wide {
        tree.add(&["wide".to_owned(), format!("{number:03}")], &random.bytes(20)).unwrap();
    }
    for _ in 0..60 {
        tree.add(&path(random), &value(random)).unwrap();
    }
    tree
}

/// The same tree out of a store.
fn stored(tree: &Tree, index: Index) -> Tree {
    let configuration = tree.configuration();
    let options = Options { configuration, index, objects_bytes: 20_000, ..Options::default() };
    let disk = MemoryDisk::seeded(1) as Arc<dyn Disk>;
    let mut store = Store::create(disk, options).unwrap();
    let hash = store.commit(&mut tree.clone(), &CommitInfo::default()).unwrap();
    store.checkout(&hash).unwrap()
}

/// The encodings that can take proofs of a configuration.
fn encodings(proof: &Proof, configuration: Configuration) -> Vec<Encoding> {
    let mut all = vec![Encoding::Json];
    if [2, 32].contains(&configuration.entries()) {
        all.extend([Encoding::V1, Encoding::V2]);
    }
    if !proof.is_stream() {
        all.push(Encoding::Irmin);
    }
    all
}

/// What is read of the tree in a proof is what `tree` has.
fn three_outcomes(shown: &Tree, tree: &Tree, random: &mut Random) -> [u32; 3] {
    let mut counts = [0; 3];
    for _ in 0..30 {
        let at = path(random);
        let there = proof::read(tree, &at).unwrap();
        match proof::read(shown, &at).unwrap() {
            Read::Hidden => {
                counts[0] += 1;
                let error = shown.find_tree(&at).and_then(|tree| tree.unwrap().to_value());
                assert_eq!(error.unwrap_err().kind(), ErrorKind::Hidden);
            }
            found => {
                counts[if found == Read::Absent { 1 } else { 2 }] += 1;
                assert_eq!(found, there, "{at:?}");
            }
        }
    }
    counts
}

fn round(configuration: Configuration, seed: u64, counts: &mut [u32; 3]) {
    let mut random = Random::new(seed);
    let wide = random.choose(&[4, 40, 257, 262, 305]);
    let mut tree = tree(configuration, &mut random, wide);
    match seed % 4 {
        0 => tree = stored(&tree, Index::Minimal),
        1 => tree = stored(&tree, Index::Always),
        _ => {}
    }
    let length = random.choose(&[0, 1, 2, 5, 30]);
    let steps: Vec<Step> = (0..length).map(|_| step(&mut random)).collect();
    let what = format!("{configuration:?} {seed} {steps:?}");
    let root = Kinded::directory(tree.hash().unwrap());
    let mut plain = tree.clone();
    let expected = run(&mut plain, &steps).unwrap();

    let (recording, found) = proof::record(&tree, |tree| run(tree, &steps)).unwrap();
    assert_eq!(found, expected, "{what}");
    assert_eq!(recording.before(), root);
    assert_eq!(recording.after(), Kinded::of(&plain).unwrap(), "{what}");
    for made in [recording.tree_proof().unwrap(), recording.stream_proof().unwrap()] {
        for encoding in encodings(&made, configuration) {
            let bytes = made.encode(encoding).unwrap();
            let length = made.encoded_length(encoding).unwrap();
            assert_eq!(length, bytes.len() as u64, "{encoding:?} {what}");
            let read = Proof::decode(&bytes, encoding, configuration).unwrap();
            assert_eq!(read, made, "{encoding:?} {what}");
        }
        let found = made.verify(configuration, root, |tree| run(tree, &steps));
        assert_eq!(found.unwrap(), expected, "{what}");
        // Another function needs something else, or leaves another tree, or finds the same.
        let mut others = steps.clone();
        others.push(step(&mut random));
        let mut plain = tree.clone();
        let expected = run(&mut plain, &others).unwrap();
        match made.verify(configuration, root, |tree| run(tree, &others)) {
            Ok(found) => {
                assert_eq!(found, expected);
                assert_eq!(made.after, Kinded::of(&plain).unwrap());
            }
            Err(error) => {
                assert!([ErrorKind::Hidden, ErrorKind::Corrupt].contains(&error.kind()), "{error}");
            }
        }
        let shown = made.open(configuration, root).unwrap();
        for (count, more) in counts.iter_mut().zip(three_outcomes(&shown, &tree, &mut random)) {
            *count += more;
        }
        // A proof is enough to make itself of it.
        let (again, found) = proof::record(&shown, |tree| run(tree, &steps)).unwrap();
        let again = if made.is_stream() { again.stream_proof() } else { again.tree_proof() };
        assert_eq!(
            (again.unwrap(), found),
            (made, run(&mut tree.clone(), &steps).unwrap()),
            "{what}"
        );
    }
}

#[test]
fn whatever_is_recorded_verifies() {
    let configurations = [
        Configuration::TEZOS,
        Configuration::TEZOS_BINARY,
        Configuration::new(3, 5, ChildOrder::SeededHash).unwrap(),
        Configuration::new(4, 9, ChildOrder::HashBits).unwrap(),
        Configuration::new(2, 0, ChildOrder::SeededHash).unwrap(),
    ];
    let rounds = setting("VARVITE_PROOF_ROUNDS", 40);
    let mut counts = [0; 3];
    for (number, configuration) in configurations.into_iter().enumerate() {
        for seed in 0..rounds {
            round(configuration, seed * 10 + number as u64, &mut counts);
        }
    }
    assert!(counts.iter().all(|count| *count > 100), "each outcome of a read is there: {counts:?}");
}

#[test]
fn shrinking_and_overwriting_verify() {
    for configuration in [Configuration::TEZOS, Configuration::TEZOS_BINARY] {
        let mut tree = Tree::empty(configuration);
        for number in 0..300 {
            tree.add(&["d".to_owned(), format!("{number}")], &[7; 40]).unwrap();
        }
        let root = Kinded::of(&tree).unwrap();
        // To 256 entries and fewer, to 32, to nothing; and old values that are looked at.
        for left in [260, 256, 200, 33, 32, 1, 0] {
            let function = |tree: &mut Tree| {
                let mut old = Vec::new();
                for number in left..300 {
                    let path = ["d".to_owned(), format!("{number}")];
                    old.push(tree.find(&path)?);
                    tree.remove(&path)?;
                }
                let path = ["d".to_owned(), "0".to_owned()];
                old.push(tree.find(&path)?);
                tree.add(&path, b"new")?;
                tree.add(&path, b"newer")?;
                Ok(old)
            };
            let (recording, old) = proof::record(&tree, function).unwrap();
            assert_ne!(recording.after(), root);
            for made in [recording.tree_proof().unwrap(), recording.stream_proof().unwrap()] {
                let bytes = made.encode(Encoding::V2).unwrap();
                let made = Proof::decode(&bytes, Encoding::V2, configuration).unwrap();
                assert_eq!(made.verify(configuration, root, function).unwrap(), old);
            }
        }
    }
}

#[test]
fn misuse_says_what_to_do() {
    let mut tree = Tree::empty(Configuration::TEZOS);
    for number in 0..20 {
        tree.add(&[format!("{number}")], &[number; 20]).unwrap();
    }
    let (_, kept) = proof::record(&tree, |tree| Ok(tree.clone())).unwrap();
    let error = kept.find(&["1"]).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Invalid && error.detail().contains("keep values"),
        "{error}"
    );

    let (recording, _) = proof::record(&tree, |tree| tree.find(&["1"])).unwrap();
    let made = recording.tree_proof().unwrap();
    // A tree out of a proof is no tree of a store.
    let mut shown = made.open(Configuration::TEZOS, recording.before()).unwrap();
    let disk = MemoryDisk::seeded(1) as Arc<dyn Disk>;
    let mut store = Store::create(disk, Options::default()).unwrap();
    let error = store.commit(&mut shown, &CommitInfo::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Hidden, "{error}");
    assert_eq!(store.last_commit().unwrap(), None);

    // An error of the function is the error.
    let mine = || varvite::Error::missing("mine");
    let error = proof::record(&tree, |_| Err::<(), _>(mine())).unwrap_err();
    assert_eq!(error.detail(), "mine");
    let error = made.verify(Configuration::TEZOS, made.before, |_| Err::<(), _>(mine()));
    assert_eq!(error.unwrap_err().detail(), "mine");

    // Deeper than a tree proof goes: a stream does.
    let deep: Vec<String> = (0..600).map(|depth| format!("{depth}")).collect();
    tree.add(&deep, b"down here").unwrap();
    let (recording, found) = proof::record(&tree, |tree| tree.find(&deep)).unwrap();
    let error = recording.tree_proof().unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.detail().contains("stream"), "{error}");
    let made = recording.stream_proof().unwrap();
    let checked = made.verify(Configuration::TEZOS, made.before, |tree| tree.find(&deep));
    assert_eq!(checked.unwrap(), found);

    // Copies of copies: 2 to the power of 40 places of one value.
    let mut copies = Tree::empty(Configuration::TEZOS);
    copies.add(&["a"], &[5; 20]).unwrap();
    for _ in 0..40 {
        let below = copies.clone();
        copies = Tree::empty(Configuration::TEZOS);
        copies.add_tree(&["a"], &below).unwrap();
        copies.add_tree(&["b"], &below).unwrap();
    }
    let bottom = vec!["a"; 41];
    let (recording, found) = proof::record(&copies, |tree| tree.find(&bottom)).unwrap();
    assert_eq!(recording.tree_proof().unwrap_err().kind(), ErrorKind::Invalid);
    let made = recording.stream_proof().unwrap();
    let checked = made.verify(Configuration::TEZOS, made.before, |tree| tree.find(&bottom));
    assert_eq!(checked.unwrap(), found);
    assert_eq!(made.shown(Configuration::TEZOS, 1000).unwrap().len(), 1000);
    assert_eq!(made.summary(Configuration::TEZOS).unwrap().directories, 41);
}
