//! A process that commits and collects is killed a hundred times, at any moment.

#![cfg(unix)] // elsewhere a killed process does not leave its files at once

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use varvite::context::{CommitHash, CommitInfo, Index, Keep, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;

use crate::random::Random;

/// Where the process that commits does so, and how it indexes.
const DIR: &str = "VARVITE_TEST_COLLECTED_DIR";
const INDEX: &str = "VARVITE_TEST_COLLECTED_INDEX";

/// Commits that a collection keeps, and between two.
const KEEP: u64 = 12;
const EVERY: u64 = 16;

fn options(index: Index) -> Options {
    Options { index, seed: Some(5), chunk_bytes: 16_000, ..Options::default() }
}

/// What the commit of `level` changes.
fn change(tree: &mut Tree, level: u64) {
    let mut random = Random::new(level);
    for _ in 0..25 {
        let path = ["data".to_owned(), random.index(9).to_string(), random.index(60).to_string()];
        if random.index(6) == 0 {
            tree.remove(&path).unwrap();
        } else {
            let length = random.index(120);
            tree.add(&path, &random.bytes(length)).unwrap();
        }
    }
    tree.add(&["head"], &level.to_le_bytes()).unwrap();
}

/// The commit of `level` upon `last`.
fn commit(store: &mut Store, last: Option<CommitHash>, level: u64) -> CommitHash {
    let mut tree = last.map_or_else(|| store.empty_tree(), |last| store.checkout(&last).unwrap());
    change(&mut tree, level);
    let parents: Vec<CommitHash> = last.into_iter().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, level as i64, "killed", "")).unwrap()
}

/// The last commit and its level; level 0 for none.
fn last(store: &Store) -> (Option<CommitHash>, u64) {
    let last = store.log(1).unwrap().pop();
    let level = last.map_or(0, |last| store.commit_info(&last).unwrap().date);
    (last, level as u64)
}

/// Commits and collects until it is killed, as a process of the test below; alone it does nothing. It says
/// each level once that is committed.
#[test]
fn committer() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let index = if std::env::var_os(INDEX).is_some() { Index::Always } else { Index::Minimal };
    let mut store = Store::open(OsDisk::new(dir).unwrap(), options(index)).unwrap();
    let (mut head, mut level) = last(&store);
    let mut random = Random::new(level);
    loop {
        level += 1;
        head = Some(commit(&mut store, head, level));
        println!("level {level}");
        if level.is_multiple_of(EVERY) {
            store.collect_keeping(&Keep::Newest(KEEP)).unwrap();
        }
        store.collect_step(random.index(2000) as u64).unwrap();
    }
}

/// Lets the process commit some levels, and kills it; returns the last level that it said, if any.
fn killed(dir: &Path, index: Index, random: &mut Random) -> Option<u64> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "collect_killed::committer", "--nocapture"]).env(DIR, dir);
    if index == Index::Always {
        command.env(INDEX, "1");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child: Child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut levels = lines.filter_map(|line| line.split("level ").nth(1)?.parse().ok());
    let said = levels.by_ref().take(random.index(40)).last();
    // Any moment of the next levels.
    (0..random.index(1 << 18)).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    let said = levels.last().or(said);
    child.wait().unwrap();
    said
}

fn kills(index: Index, times: usize, seed: u64) {
    let folder = TempDir::new().unwrap();
    Store::create(OsDisk::new(folder.path()).unwrap(), options(index)).unwrap().close().unwrap();
    let mut reference = Store::create(MemoryDisk::new(), options(Index::Minimal)).unwrap();
    let (mut random, mut hashes) = (Random::new(seed), Vec::<CommitHash>::new());
    let (mut before, mut collections) = (0, 0);
    for time in 0..times {
        let said = killed(folder.path(), index, &mut random);
        let disk: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
        let store = Store::open_read_only(disk, options(index)).unwrap();
        let (_, level) = last(&store);
        assert!(level >= said.unwrap_or(before), "kill {time}: {level} after {said:?}, {before}");
        while (hashes.len() as u64) < level {
            let next = hashes.len() as u64 + 1;
            hashes.push(commit(&mut reference, hashes.last().copied(), next));
        }
        let log = store.log(usize::MAX).unwrap();
        assert!(log.len() as u64 >= KEEP.min(level), "kill {time}: {} at {level}", log.len());
        for (hash, expected) in log.iter().zip(hashes.iter().rev()) {
            assert_eq!(hash, expected, "kill {time}, level {level}");
        }
        // Each object of each kept commit by its hash.
        if time % 5 == 4 || time + 1 == times {
            store.check().unwrap_or_else(|error| panic!("kill {time}, level {level}: {error}"));
        }
        collections = store.collect_status().unwrap().collections;
        before = level;
    }
    assert!(before > 100 && collections > 5, "{before} levels, {collections} collections");
}

#[test]
fn a_process_killed_at_fifty_moments_goes_on_to_the_same_hashes() {
    kills(Index::Minimal, 50, 1);
}

#[test]
fn with_every_object_indexed_it_goes_on_as_well() {
    kills(Index::Always, 50, 2);
}
