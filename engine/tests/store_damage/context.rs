//! The same for a context store: pack, control file and index, closed and as a crash leaves it.

use std::sync::Arc;

use varvite::context::{Durability, Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{Error, Kind};

use crate::allocations::LARGEST;
use crate::context_story::{Act, Tale, Told, options, which};

const ACTS: &[Act] = &[
    Act::Begin,
    Act::Commit(1),
    Act::SetBranch("main"),
    Act::Work(2),
    Act::Commit(3),
    Act::CommitWork,
    Act::Checkpoint,
    Act::Commit(4),
    Act::Chunk,
    Act::Commit(5),
    Act::SetBranch("side"),
    Act::Commit(6),
];

/// A store of two or more chunks, and what it held after each act.
struct Sound {
    disk: Arc<MemoryDisk>,
    options: Options,
    history: Vec<Told>,
}

fn sound(index: Index, closed: bool) -> Sound {
    let disk = MemoryDisk::seeded(1);
    // With a large buffer each table of the index is one segment.
    let small = options(index, Durability::Synced);
    let options = Options { tree_bytes: 2_000, index_bytes: 1 << 20, ..small };
    let mut tale = Tale::new(disk.clone(), &options);
    let mut history = Vec::new();
    for act in ACTS.iter().chain(closed.then_some(&Act::End)) {
        tale.act(*act).unwrap();
        history.push(tale.told.clone());
    }
    Sound { disk, options, history }
}

impl Sound {
    /// How many acts ago the store with `name` replaced holds what it then held. Never anything else.
    fn reads(&self, name: &str, bytes: Vec<u8>, what: &dyn std::fmt::Debug) -> Option<usize> {
        let disk = self.disk.snapshot();
        disk.replace(name, bytes).unwrap();
        let allowed: Vec<&Told> = self.history.iter().rev().collect();
        let opened = Store::open_read_only(disk as Arc<dyn Disk>, self.options.clone());
        // One that is read as it was before a damage says so, and who checks it hears of it.
        if let Ok(store) = &opened
            && let Some(told) = store.damage()
        {
            let folder = name.split('/').next().unwrap();
            assert!(told.contains(folder), "{name}, {what:?}: does not name it: {told}");
            assert_eq!(store.check().unwrap_err().kind(), Kind::Corrupt, "{name}, {what:?}");
            // What it knows are the first of the commits.
            let mut log = store.log(usize::MAX).unwrap_or_default();
            log.reverse();
            let commits = allowed[0].commits.iter().map(|(hash, _)| hash);
            assert!(log.iter().eq(commits.take(log.len())), "{name}, {what:?}: {log:?}");
            return None;
        }
        let answer =
            opened.and_then(|store| Ok((which(&store, &allowed)?, self.object_is_found(&store)?)));
        match answer {
            Ok((None, ())) => panic!("{name}, {what:?}: a wrong answer"),
            Ok((ago, ())) => ago,
            Err(error) => {
                is_told(name, &error, what);
                None
            }
        }
    }

    /// With every object indexed, the root of the last commit is found by its hash.
    fn object_is_found(&self, store: &Store) -> Result<(), Error> {
        if let Some(commit) = store.last_commit()?
            && self.options.index == Index::Always
        {
            let root = store.commit_info(&commit)?.tree;
            let found = store.find_object(&root)?.expect("it was stored");
            assert_eq!(found.hash()?, root);
        }
        Ok(())
    }

    fn last_chunk(&self) -> String {
        let files = self.disk.files().into_iter().filter(|name| name.contains(".pack"));
        files.max().expect("there is a chunk")
    }
}

fn is_told(name: &str, error: &Error, what: &dyn std::fmt::Debug) {
    let kinds = [Kind::Corrupt, Kind::Version, Kind::Invalid];
    assert!(kinds.contains(&error.kind()), "{name}, {what:?}: {error:?}");
    let folder = name.split('/').next().unwrap();
    assert!(error.detail().contains(folder), "{name}, {what:?}: does not name it: {error}");
}

/// Which bits of byte `at` of a file are flipped: all of headers, of footers as far as they have
/// fields, and of what is replaced whole; else one.
fn bits(name: &str, at: usize, bytes: &[u8]) -> std::ops::Range<u32> {
    let length = bytes.len();
    let footer = length.saturating_sub(4_096);
    let all = match name.rsplit('.').next() {
        Some("segment") => at < 64 || (footer..footer + 128).contains(&at) || at + 4 >= length,
        Some("pack") => at < 64,
        _ => true,
    };
    let bit = at as u32 % 8;
    if all { 0..8 } else { bit..bit + 1 }
}

fn damage_everywhere(index: Index, closed: bool) {
    let sound = sound(index, closed);
    let names: Vec<String> =
        sound.disk.files().into_iter().filter(|name| !name.ends_with("lock")).collect();
    let bytes_of = |name: &String| sound.disk.bytes(name).unwrap();
    let packs: usize =
        names.iter().filter(|name| name.contains(".pack")).map(|name| bytes_of(name).len()).sum();
    assert!((5_000..16_384).contains(&packs), "{packs} bytes");
    LARGEST.set(0);
    let last = sound.last_chunk();
    assert_eq!(sound.reads(&last, bytes_of(&last), &"nothing"), Some(0));
    let usual = LARGEST.get();
    let (mut told, mut harmless, mut earlier) = (0, 0, 0);
    let mut tally = |ago, bytes_lost_may_be: usize, what: &dyn std::fmt::Debug| {
        match ago {
            None => told += 1,
            Some(0) => harmless += 1,
            // What looks as a crash leaves it may pass for that: the end of the last chunk.
            Some(ago) if ago <= bytes_lost_may_be => earlier += 1,
            Some(ago) => panic!("{what:?}: what {ago} acts did is gone without a word"),
        }
        let largest = LARGEST.replace(0);
        assert!(largest <= 4 * usual + (256 << 10), "{what:?}: {largest} bytes");
    };
    for name in &names {
        let bytes = bytes_of(name);
        let is_open = *name == last && !closed;
        for at in 0..bytes.len() {
            for bit in bits(name, at, &bytes) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let ago = sound.reads(name, damaged, &(at, bit));
                tally(ago, usize::from(is_open), &(name, at, bit));
            }
            let ago = sound.reads(name, bytes[..at].to_vec(), &at);
            tally(ago, if is_open { ACTS.len() } else { 0 }, &(name, at));
        }
    }
    println!("{index:?}, closed {closed}: {told} told, {harmless} harmless, {earlier} earlier");
    // The index is derived, so damage of it is made good by the pack.
    assert!(told > 10_000 && harmless > 1_000, "{told} {harmless}");
    assert_eq!(earlier > 0, !closed, "{earlier}");
}

#[test]
fn damage_of_a_closed_context_is_told_or_does_no_harm() {
    damage_everywhere(Index::Minimal, true);
}

#[test]
fn damage_of_a_closed_context_of_indexed_objects_is_told_or_does_no_harm() {
    damage_everywhere(Index::Always, true);
}

#[test]
fn damage_of_a_context_that_was_not_closed_costs_at_most_the_last_batch() {
    damage_everywhere(Index::Minimal, false);
}
