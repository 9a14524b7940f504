//! Names that are chosen to hurt: the same bucket at every depth, the same internal hash.

use varvite::context::{ChildOrder, CommitInfo, Configuration, Options, Store, Tree, hash};
use varvite::disk::memory::MemoryDisk;
use varvite::error::Kind as ErrorKind;
use varvite::raw::name_hash;

use crate::context_machine::pair::Pair;
use crate::model::context::Node;
use crate::random::Random;

/// Inverse of OCaml's mixing of one word, up to where it meets the state.
fn word_that_mixes_to(mixed: u32) -> u32 {
    let inverse =
        |odd: u32| (0..5).fold(odd, |x, _| x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x))));
    mixed.wrapping_mul(inverse(0x1b87_3593)).rotate_right(15).wrapping_mul(inverse(0xcc9e_2d51))
}

/// Names that collide under every seed: in each pair of words, two bits flip and cancel out.
fn colliding_names(pairs: u32) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for number in 0..pairs {
        let (first, second) = (0x1234_5678 ^ number, 0x0bad_cafe ^ number);
        let flip = |bit: u32| [first ^ bit << 18, second ^ bit << 31].map(word_that_mixes_to);
        words.push([flip(0), flip(1)]);
    }
    (0..1usize << pairs)
        .map(|choice| {
            let chosen = words.iter().enumerate().flat_map(|(at, both)| both[choice >> at & 1]);
            chosen.flat_map(u32::to_le_bytes).collect()
        })
        .collect()
}

/// Binds `name` in both halves, or in neither.
fn add(pair: &mut Pair, name: &[u8]) -> varvite::Result<()> {
    pair.tree.add(&[name], name)?;
    pair.model.put(&[name.to_vec()], Node::Value(name.to_vec()));
    Ok(())
}

fn remove(pair: &mut Pair, name: &[u8]) {
    pair.tree.remove(&[name]).unwrap();
    pair.model.remove(&[name.to_vec()]);
}

#[test]
fn colliding_names_are_the_same_to_the_hash_under_every_seed() {
    let names = colliding_names(6);
    for seed in (0..60).chain([u32::MAX, 1 << 31]) {
        let hashes = names.iter().map(|name| name_hash::seeded(seed, name));
        assert_eq!(hashes.collect::<std::collections::HashSet<_>>().len(), 1, "seed {seed}");
    }
    assert_eq!(names.iter().collect::<std::collections::HashSet<_>>().len(), 64);
}

#[test]
fn names_that_collide_at_every_depth_are_kept_up_to_the_bound() {
    let names = colliding_names(6);
    for (entries, stable_hash, others) in [(32, 256, 300), (2, 0, 3), (3, 5, 40), (7, 7, 1)] {
        let what = format!("{entries} entries");
        let configuration =
            Configuration::new(entries, stable_hash, ChildOrder::SeededHash).unwrap();
        let (room, mut random) = (configuration.entries(), Random::new(1));
        // Those that do not collide make the directory large enough to be split.
        let options = Options { configuration, tree_bytes: 5_000, ..Options::default() };
        let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
        let mut pair = Pair::empty(store.empty_tree());
        for number in 0..others {
            add(&mut pair, format!("{number}").as_bytes()).unwrap();
        }
        let mut kept = Vec::new();
        let refused = names.iter().find(|name| {
            let outcome = add(&mut pair, name);
            kept.extend(outcome.is_ok().then(|| Vec::clone(name)));
            outcome.is_err_and(|error| {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
                let depth = format!("each of {} depths", configuration.depth_limit());
                assert!(error.detail().contains(&depth), "{what}: {error}");
                assert!(error.detail().contains("choose another name"), "{what}: {error}");
                true
            })
        });
        let refused = refused.expect("there are more names than room");
        // A directory of up to the flat limit has no buckets, so it holds more.
        let flat = configuration.stable_hash().saturating_sub(others);
        assert_eq!(kept.len(), room.max(flat), "{what}");
        pair.check(&mut random, &what);
        for round in 0..2 {
            for name in &kept {
                assert_eq!(pair.tree.find(&[name]).unwrap().as_ref(), Some(name), "{what}");
            }
            let all = pair.tree.list::<&[u8]>(&[], 0, u64::MAX).unwrap();
            assert_eq!(all.len(), others + kept.len(), "{what}");
            let mut paged = Vec::new();
            for offset in (0..all.len()).step_by(3) {
                paged.extend(pair.tree.list::<&[u8]>(&[], offset as u64, 3).unwrap());
            }
            assert!(paged.iter().map(|it| &it.0).eq(all.iter().map(|it| &it.0)), "{what}");
            if round == 0 {
                let hash = store.commit(&mut pair.tree, &CommitInfo::default()).unwrap();
                pair.tree = store.checkout(&hash).unwrap();
                assert!(add(&mut pair, refused).is_err(), "{what}: also when it is read again");
            }
        }
        // Another takes a place that becomes free; then all go, and the chain of pieces with them.
        remove(&mut pair, &kept[0]);
        add(&mut pair, refused).unwrap();
        pair.check(&mut random, &what);
        kept[0].clone_from(refused);
        for name in &kept {
            remove(&mut pair, name);
            pair.check(&mut random, &what);
        }
        assert_eq!(pair.tree.length::<&[u8]>(&[]).unwrap(), others as u64, "{what}");
    }
}

#[test]
fn names_whose_digests_begin_alike_stay_distinct() {
    // Among 60,000 names, those that share the first 12 bits of their digest.
    let names = (0..60_000_u32).map(|number| format!("name {number}").into_bytes());
    let alike: Vec<_> = names.filter(|name| hash::hash(name)[..2] < [0, 16][..]).collect();
    assert!(alike.len() > 8, "{}", alike.len());
    for (entries, stable_hash) in [(2, 2), (4, 0), (16, 8)] {
        let configuration = Configuration::new(entries, stable_hash, ChildOrder::HashBits).unwrap();
        let mut pair = Pair::empty(Tree::empty(configuration));
        let mut random = Random::new(2);
        for name in &alike {
            add(&mut pair, name).unwrap();
            pair.check(&mut random, "after an addition");
        }
        for name in &alike {
            assert_eq!(pair.tree.find(&[name]).unwrap().as_ref(), Some(name));
        }
        for name in &alike {
            remove(&mut pair, name);
            pair.check(&mut random, "after a removal");
        }
        assert!(pair.tree.is_empty().unwrap());
    }
}

#[test]
fn names_are_any_bytes_up_to_64_kib() {
    let mut names: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    // The seeded hash fills the last word up with zeros, so only the length tells these apart.
    names.extend((0..9).map(|length| vec![0; length]));
    names.extend((1..5).map(|zeros| [&b"abc"[..], &vec![0; zeros]].concat()));
    names.extend([
        b"a/b".to_vec(),
        b"/".to_vec(),
        b".".to_vec(),
        b"..".to_vec(),
        vec![0xff; 1 << 16],
    ]);
    names.sort();
    names.dedup();
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut pair = Pair::empty(store.empty_tree());
    for name in &names {
        add(&mut pair, name).unwrap();
    }
    pair.check(&mut Random::new(3), "in memory");
    let before = pair.tree.hash().unwrap();
    let error = pair.tree.add(&[vec![1; (1 << 16) + 1]], b"v").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.detail().contains("65537 bytes"), "{error}");
    assert_eq!(pair.tree.hash().unwrap(), before);
    let hash = store.commit(&mut pair.tree, &CommitInfo::default()).unwrap();
    pair.tree = store.checkout(&hash).unwrap();
    pair.check(&mut Random::new(4), "stored");
    for name in &names {
        assert_eq!(pair.tree.find(&[name]).unwrap().as_ref(), Some(name));
    }
}
