//! Stores of Irmin copied into ours, and ours written as Irmin's; traces.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use varvite::context::{
    CommitInfo, Configuration, Cost, Observer, Operation, Options, Store, Tree,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::irmin_pack::{self as irmin, Choice, Migrated};
use varvite::{Error, Kind, Result};

use crate::binary::{command, text, varvite};
use crate::irmin::{STORES, compare, copy, copy_store, data, expectations, open};

fn ours() -> Store {
    Store::create(MemoryDisk::seeded(1), Options::default()).unwrap()
}

fn migrate(from: &Arc<MemoryDisk>, to: &mut Store, choice: &Choice) -> Result<Migrated> {
    let source = Arc::clone(from) as Arc<dyn Disk>;
    irmin::migrate(source, &irmin::Options::default(), to, choice, &mut |_| Ok(()))
}

/// Counts the checkpoints of a store.
#[derive(Default)]
struct Checkpoints(AtomicU64);

impl Observer for Checkpoints {
    fn now_ns(&self) -> u64 {
        0
    }

    fn record(&self, operation: Operation, _: &[&[u8]], _: u64, _: &Cost) {
        self.0.fetch_add(u64::from(operation == Operation::Checkpoint), Ordering::Relaxed);
    }
}

#[test]
fn a_migration_takes_checkpoints_between_commits() {
    let Some(stores) = data("irmin-stores") else { return };
    let from = copy_store(&stores.join("minimal-blocks"));
    let seen = Arc::new(Checkpoints::default());
    let observer = Some(Arc::clone(&seen) as Arc<dyn Observer>);
    let options = Options { chunk_bytes: 2_000, observer, ..Options::default() };
    let mut to = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let done = migrate(&from, &mut to, &Choice::default()).unwrap();
    assert_eq!(done.commits, 40);
    let far = 4 * 2_000;
    let due = to.stats().pack_bytes / far;
    let taken = seen.0.load(Ordering::Relaxed);
    assert!(due > 2 && (due / 2..=due).contains(&taken), "{taken} of {due}");
    assert!(!to.maintain().unwrap(), "no more is due");
}

fn export(from: &Store) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let target = Arc::clone(&disk) as Arc<dyn Disk>;
    let scratch: Arc<dyn Disk> = MemoryDisk::seeded(1);
    irmin::export(from, &target, &scratch, &mut |_| Ok(())).unwrap();
    disk
}

#[test]
fn every_store_comes_over_and_goes_back_with_every_hash() {
    let Some(stores) = data("irmin-stores") else { return };
    for name in STORES {
        let folder = stores.join(name);
        let (from, expected) = (copy_store(&folder), expectations(&folder));
        let mut to = ours();
        let done = migrate(&from, &mut to, &Choice::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let readable: Vec<_> =
            expected.commits.iter().filter(|commit| commit.listing.is_some()).collect();
        assert_eq!(done.commits, readable.len() as u64, "{name}");
        assert_eq!(done.collected, (expected.commits.len() - readable.len()) as u64, "{name}");
        let again = migrate(&from, &mut to, &Choice::default()).unwrap();
        assert_eq!((again.commits, again.present), (0, done.commits), "{name}");
        let back = export(&to);
        let theirs = open(&back, &irmin::Options::default()).unwrap();
        for store in [&to, &theirs] {
            for commit in &readable {
                compare(store, commit).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            assert_eq!(store.branches(), expected.branches, "{name}");
            let checked = store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(checked.commits, readable.len() as u64, "{name}");
            assert_eq!((checked.index_faults, checked.missing), (vec![], vec![]), "{name}");
        }
        let target = Arc::clone(&back) as Arc<dyn Disk>;
        let scratch: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let error = irmin::export(&to, &target, &scratch, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), Kind::Exists);
    }
}

/// The first of them even byte for byte: what Irmin would have written.
#[test]
fn small_stores_are_exported_as_irmin_wrote_them() {
    let Some(stores) = data("irmin-stores") else { return };
    for name in ["empty", "minimal-simple"] {
        let from = copy_store(&stores.join(name));
        let mut to = ours();
        migrate(&from, &mut to, &Choice::default()).unwrap();
        let back = export(&to);
        for file in ["store.control", "store.dict", "store.branches", "store.0.suffix", "index/log"]
        {
            assert!(back.bytes(file).unwrap() == from.bytes(file).unwrap(), "{name}: {file}");
        }
    }
}

#[test]
fn an_interrupted_migration_goes_on() {
    let Some(stores) = data("irmin-stores") else { return };
    let folder = stores.join("gc-once");
    let (from, expected) = (copy_store(&folder), expectations(&folder));
    let mut to = ours();
    let mut left = 4;
    let source = Arc::clone(&from) as Arc<dyn Disk>;
    let mut watch = |_: &Migrated| {
        left -= 1;
        if left == 0 { Err(Error::invalid("enough")) } else { Ok(()) }
    };
    let options = irmin::Options::default();
    let error = irmin::migrate(source, &options, &mut to, &Choice::default(), &mut watch);
    assert_eq!(error.unwrap_err().kind(), Kind::Invalid);
    let begun = to.log(99).unwrap().len() as u64;
    assert!(begun > 0 && begun < 15, "{begun}");
    let done = migrate(&from, &mut to, &Choice::default()).unwrap();
    assert_eq!((done.present, done.commits), (begun, 15 - begun));
    for commit in expected.commits.iter().filter(|commit| commit.listing.is_some()) {
        compare(&to, commit).unwrap();
    }
}

#[test]
fn some_commits_are_chosen() {
    let Some(stores) = data("irmin-stores") else { return };
    let folder = stores.join("minimal-blocks");
    let (from, expected) = (copy_store(&folder), expectations(&folder));
    let hash = |number: usize| expected.commits[number].hash;
    let mut to = ours();
    let choice = Choice { commits: vec![hash(30), hash(3), hash(17)], since: None };
    assert_eq!(migrate(&from, &mut to, &choice).unwrap().commits, 3);
    assert_eq!(to.log(99).unwrap(), [hash(30), hash(17), hash(3)]);
    let choice = Choice { commits: Vec::new(), since: Some(hash(28)) };
    let done = migrate(&from, &mut to, &choice).unwrap();
    assert_eq!((done.commits, done.present), (11, 1));
    for number in [3, 17, 28, 29, 30, 39] {
        compare(&to, &expected.commits[number]).unwrap();
    }
    assert_eq!(to.check().unwrap().commits, 14);
    let choice = Choice { commits: vec![[7; 32].into()], since: None };
    assert_eq!(migrate(&from, &mut to, &choice).unwrap_err().kind(), Kind::Missing);
    // Parents that are not here are named by their hashes.
    let back = export(&to);
    let theirs = open(&back, &irmin::Options::default()).unwrap();
    compare(&theirs, &expected.commits[17]).unwrap();
}

#[test]
fn what_cannot_come_over_says_so_and_leaves_nothing() {
    let Some(samples) = data("irmin-pack-samples") else { return };
    let Some(stores) = data("irmin-stores") else { return };
    let mut to = ours();
    let error = migrate(&copy(&samples.join("version_1")), &mut to, &Choice::default());
    assert_eq!(error.unwrap_err().kind(), Kind::Invalid);
    let from = copy_store(&stores.join("minimal-simple"));
    let binary = Options { configuration: Configuration::TEZOS_BINARY, ..Options::default() };
    let mut other = Store::create(MemoryDisk::seeded(1), binary).unwrap();
    let error = migrate(&from, &mut other, &Choice::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);

    // The name "b" of the first directory becomes "`", which nothing but its hash tells.
    let mut pack = from.bytes("store.0.suffix").unwrap();
    assert_eq!(pack[111], b'b');
    pack[111] = b'`';
    from.replace("store.0.suffix", pack).unwrap();
    for verify in [irmin::Verify::Hashes, irmin::Verify::Trust] {
        let options = irmin::Options { verify, ..irmin::Options::default() };
        let source = Arc::clone(&from) as Arc<dyn Disk>;
        let all = Choice::default();
        let error = irmin::migrate(source, &options, &mut to, &all, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("store.0.suffix"), "{error}");
        assert_eq!(to.last_commit().unwrap(), None);
    }
}

/// So many objects that where they are is looked up in the table on the scratch disk: nothing is written
/// twice, and what is written reads as it should.
#[test]
fn a_large_store_is_exported_with_a_table_of_places() {
    let mut store = ours();
    let mut tree = Tree::empty(Configuration::TEZOS);
    let mut parent = Vec::new();
    let mut changed = 0..90_000_u32;
    for round in 0..3_u8 {
        for number in changed {
            let name = format!("{number:x}");
            let value = [&number.to_be_bytes()[..], &[round; 16]].concat();
            tree.add(&["all", &name], &value).unwrap();
        }
        let info = CommitInfo::new(&parent, i64::from(round), "", "");
        parent = vec![store.commit(&mut tree, &info).unwrap()];
        changed = 50_000..50_500;
    }
    let (back, scratch) = (MemoryDisk::seeded(1), MemoryDisk::seeded(1));
    let disks = [Arc::clone(&back), Arc::clone(&scratch)].map(|disk| disk as Arc<dyn Disk>);
    let mut objects = Vec::new();
    let mut watch = |done: &irmin::Exported| {
        objects.push(done.objects);
        Ok(())
    };
    irmin::export(&store, &disks[0], &disks[1], &mut watch).unwrap();
    assert!(!scratch.files().is_empty(), "the maps were large enough");
    // 500 values, what is above them, and a commit.
    assert!(objects[0] > 90_000, "{objects:?}");
    for pair in objects.windows(2) {
        assert!((501..2_000).contains(&(pair[1] - pair[0])), "{objects:?}");
    }
    let theirs = open(&back, &irmin::Options::default()).unwrap();
    for hash in store.log(99).unwrap() {
        let (one, other) = (store.checkout(&hash).unwrap(), theirs.checkout(&hash).unwrap());
        assert!(crate::irmin::listing(&one).unwrap() == crate::irmin::listing(&other).unwrap());
    }
    assert_eq!(theirs.check().unwrap().commits, 3);
    let error = irmin::export(
        &store,
        &(MemoryDisk::seeded(1) as Arc<dyn Disk>),
        &disks[1],
        &mut |_| Ok(()),
    );
    assert_eq!(error.unwrap_err().kind(), Kind::Exists);
}

/// Directories around every limit, names that are long, short and many.
#[test]
fn a_store_of_ours_goes_to_irmin_and_back() {
    let mut store = ours();
    let mut tree = Tree::empty(Configuration::TEZOS);
    let mut parent = Vec::new();
    for count in [1_u32, 31, 32, 33, 255, 256, 257, 1_100, 40, 3_000] {
        for number in 0..count {
            let (name, value) = (format!("entry {number}"), number.to_be_bytes());
            tree.add(&[b"sizes".to_vec(), count.to_be_bytes().to_vec(), name.into()], &value)
                .unwrap();
        }
        if count == 40 {
            for number in 0..1_090 {
                let name = format!("entry {number}");
                let path = [b"sizes".to_vec(), 1_100_u32.to_be_bytes().to_vec(), name.into()];
                tree.remove(&path).unwrap();
            }
        }
        tree.add(&["long", "value"], &vec![count as u8; count as usize * 9]).unwrap();
        let info = CommitInfo::new(&parent, -i64::from(count), "me", "count");
        parent = vec![store.commit(&mut tree, &info).unwrap()];
        store.set_branch(b"head", &parent[0]).unwrap();
    }
    let theirs = open(&export(&store), &irmin::Options::default()).unwrap();
    assert_eq!(theirs.check().unwrap().commits, 10);
    assert_eq!(theirs.log(99).unwrap(), store.log(99).unwrap());
    assert_eq!(theirs.branches(), store.branches());
    for hash in store.log(99).unwrap() {
        let (one, other) = (store.checkout(&hash).unwrap(), theirs.checkout(&hash).unwrap());
        let mut differs = false;
        one.diff(&other, |_, _| {
            differs = true;
            Ok(())
        })
        .unwrap();
        assert!(!differs);
        assert_eq!(crate::irmin::listing(&one).unwrap(), crate::irmin::listing(&other).unwrap());
    }
    // Irmin's goes into Irmin's as well.
    let again = open(&export(&theirs), &irmin::Options::default()).unwrap();
    assert_eq!(again.check().unwrap(), theirs.check().unwrap());
}

#[test]
fn the_commands_migrate_and_export() {
    let Some(stores) = data("irmin-stores") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (ours, back) = (folder.path().join("ours"), folder.path().join("back"));
    let from = stores.join("lower-volumes").join("store");
    let run = |more: &[&str]| {
        let first = ["context", "migrate", text(&from), text(&ours), "--format", "json"];
        varvite(&[&first[..], more].concat())
    };
    assert_eq!(run(&["--commit", "last"]).json()["commits"], 1);
    let report = run(&[]).json();
    assert_eq!((report["commits"].as_u64(), report["present"].as_u64()), (Some(27), Some(1)));
    assert!(report["peak_rss_bytes"].as_u64().unwrap() < 200_000_000, "{report}");
    assert!(varvite(&["context", "check", text(&ours)]).yes().starts_with("sound: 28 commits"));
    varvite(&["context", "export-irmin", text(&ours), text(&back)]).yes();
    assert_eq!(folder.path().read_dir().unwrap().count(), 2, "the scratch folder is gone");
    assert!(varvite(&["context", "check", text(&back)]).yes().starts_with("sound: 28 commits"));
    varvite(&["context", "export-irmin", text(&ours), text(&back)]).error(2, &["not empty"]);
    assert_eq!(folder.path().read_dir().unwrap().count(), 2, "and after a failure");
    let scratch = folder.path().join("third.scratch");
    std::fs::create_dir(&scratch).unwrap();
    std::fs::write(scratch.join("mine"), "kept").unwrap();
    let third = folder.path().join("third");
    let export = varvite(&["context", "export-irmin", text(&ours), text(&third)]);
    export.error(2, &["third.scratch", "remove it"]);
    assert!(scratch.join("mine").exists() && !third.exists(), "it is not ours to remove");
    run(&["--since", "nowhere"]).error(2, &["there is no branch"]);
}

#[test]
fn a_recorded_trace_is_shown_with_its_cut_row() {
    let Some(workloads) = data("workloads") else { return };
    let file = workloads.join("tezos_actions_1commit.repr");
    let shown = varvite(&["trace", "show", text(&file)]).yes();
    for part in [
        "irmin trace of actions [0..300]",
        "rows=6 add=3 find=2 commit=1",
        "find [13..39] path=data/version found=false from=0",
        "add [39..81] path=data/version value=genesis from=0 (last use) to=1",
        "commit [214..296] commit=CoV8SQum",
        "date=1530374852 message=Genesis from=3 (last use)",
        "cut row [296..300]",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    assert_eq!(varvite(&["inspect", text(&file)]).yes(), shown);
    assert_eq!(varvite(&["trace", "show", text(&file), "--limit", "1"]).yes().lines().count(), 3);
    varvite(&[
        "trace",
        "show",
        text(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()),
    ])
    .error(2, &["IrmRepBT"]);
}

/// An export that was killed leaves its scratch folder and a part of the target: the next one goes on from there.
#[test]
fn a_killed_export_is_begun_again() {
    let Some(stores) = data("irmin-stores") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (ours, back) = (folder.path().join("ours"), folder.path().join("back"));
    let scratch = folder.path().join("back.scratch");
    let from = stores.join("minimal-bigdirs").join("store");
    varvite(&["context", "migrate", text(&from), text(&ours)]).yes();
    let export = ["context", "export-irmin", text(&ours), text(&back)];
    let commits = varvite(&["context", "log", text(&ours), "--format", "json"]).json();
    let mut killed = 0;
    for round in 0..30 {
        let mut running = command(&export).stdout(std::process::Stdio::null()).spawn().unwrap();
        // As soon as it has begun, and a little later each time.
        let started = std::time::Instant::now();
        while !scratch.exists() && started.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(150 * round));
        running.kill().unwrap();
        let ended = running.wait().unwrap().success();
        killed += u32::from(!ended && scratch.exists());
        if back.join("store.control").exists() {
            // It had come to its end; what it left beside is removed all the same.
            varvite(&export).error(2, &["not empty"]);
        } else {
            varvite(&export).yes();
        }
        assert!(!scratch.exists(), "round {round}");
        let log = varvite(&["context", "log", text(&back), "--format", "json"]).json();
        assert_eq!(log.as_array().unwrap().len(), commits.as_array().unwrap().len());
        std::fs::remove_dir_all(&back).unwrap();
    }
    assert!(killed > 0, "none was killed in its work");
}

/// What is not an export's own stays, even beside what is.
#[test]
fn only_what_an_export_left_is_removed() {
    let Some(stores) = data("irmin-stores") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (ours, back) = (folder.path().join("ours"), folder.path().join("back"));
    let from = stores.join("minimal-simple").join("store");
    varvite(&["context", "migrate", text(&from), text(&ours)]).yes();
    let export = ["context", "export-irmin", text(&ours), text(&back)];
    let (scratch, mark) = (folder.path().join("back.scratch"), "export-irmin");
    let left = b"scratch of varvite context export-irmin, version 1\n";
    let set = |text: &[u8], more: Option<&str>| {
        let _ = std::fs::remove_dir_all(&scratch);
        let _ = std::fs::remove_dir_all(&back);
        std::fs::create_dir_all(scratch.join("places")).unwrap();
        std::fs::write(scratch.join("places/session"), "a part of one").unwrap();
        std::fs::write(scratch.join(mark), text).unwrap();
        std::fs::create_dir_all(back.join("index")).unwrap();
        std::fs::write(back.join("store.0.suffix"), "a part of one").unwrap();
        std::fs::write(back.join("index/log"), "").unwrap();
        if let Some(name) = more {
            std::fs::write(folder.path().join(name), "mine").unwrap();
        }
    };
    set(left, None);
    varvite(&export).yes();
    for name in ["back/notes", "back/index/data", "back/store.1.suffix"] {
        set(left, Some(name));
        varvite(&export).error(2, &["back", "not empty"]);
        assert!(folder.path().join(name).exists() && back.join("store.0.suffix").exists());
    }
    set(left, Some("back.scratch/notes"));
    varvite(&export).error(2, &["back.scratch", "remove it"]);
    assert!(scratch.join("places/session").exists() && back.join("store.0.suffix").exists());
    set(b"another mark", None);
    varvite(&export).error(2, &["back.scratch", "remove it"]);
    // While another one runs, nothing is touched.
    set(left, None);
    let running = std::fs::File::open(scratch.join(mark)).unwrap();
    running.lock().unwrap();
    varvite(&export).error(2, &["under way"]);
    assert!(scratch.join("places/session").exists() && back.join("store.0.suffix").exists());
    drop(running);
    varvite(&export).yes();
    assert!(!scratch.exists());
}

/// What may befall a file of the index.
const LOSSES: [&str; 5] = ["removed", "emptied", "without entries", "cut in the header", "cut"];

/// Whether the file is another one now.
fn lose(disk: &MemoryDisk, file: &str, how: &str) -> bool {
    let Ok(bytes) = disk.bytes(file) else { return false };
    if bytes.len() < 32 {
        return false;
    }
    let fan = u64::from_be_bytes(bytes[24..32].try_into().unwrap()) as usize;
    let changed = match how {
        "removed" => {
            disk.remove(file).unwrap();
            return true;
        }
        "emptied" => Vec::new(),
        "without entries" => [&[0; 8], &bytes[8..32 + fan]].concat(),
        "cut in the header" => bytes[..20].to_vec(),
        // At half of its entries, of 45 bytes each, as its header then says.
        _ => {
            let entries = (bytes.len() - 32 - fan) / 45 / 2 * 45;
            [&(entries as u64).to_be_bytes(), &bytes[8..32 + fan + entries]].concat()
        }
    };
    let is_other = changed != bytes;
    disk.replace(file, changed).unwrap();
    is_other
}

/// Commits that only a lost part of the index led to are told by `check` and `log`, and come over: never fewer
/// commits and a sound verdict.
#[test]
fn commits_that_the_index_lost_are_found_or_told() {
    let Some(stores) = data("irmin-stores") else { return };
    let (mut found, mut refused) = (0, 0);
    for name in STORES {
        let folder = stores.join(name);
        let (sound, expected) = (copy_store(&folder), expectations(&folder));
        let readable: Vec<_> =
            expected.commits.iter().filter(|commit| commit.listing.is_some()).collect();
        for file in ["index/data", "index/log"] {
            for how in LOSSES {
                let disk = sound.snapshot();
                if !lose(&disk, file, how) {
                    continue;
                }
                let what = format!("{name}: {file} {how}");
                let mut to = ours();
                let done = match migrate(&disk, &mut to, &Choice::default()) {
                    Ok(done) => done,
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
                        assert!(error.detail().contains("index"), "{what}: {error}");
                        refused += 1;
                        continue;
                    }
                };
                assert_eq!(done.commits, readable.len() as u64, "{what}");
                for commit in &readable {
                    assert!(to.exists(&commit.hash).unwrap(), "{what}");
                }
                let store = open(&disk, &irmin::Options::default()).unwrap();
                let checked = store.check().unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(checked.commits, readable.len() as u64, "{what}");
                // Ten are told.
                let told = checked.index_faults.len() as u64;
                assert_eq!(told, done.unindexed.min(10), "{what}");
                // What leads through a part that contradicts the rest is told.
                let is_told = |error: Error| {
                    assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
                    assert!(error.detail().contains("index/data"), "{what}: {error}");
                };
                match store.log(usize::MAX) {
                    Ok(mut log) => {
                        log.sort_unstable();
                        let mut known: Vec<_> = readable.iter().map(|commit| commit.hash).collect();
                        known.sort_unstable();
                        assert_eq!(log, known, "{what}");
                    }
                    Err(error) => is_told(error),
                }
                for commit in &readable {
                    compare(&store, commit).unwrap_or_else(is_told);
                }
                found += done.unindexed;
            }
        }
    }
    assert!(found > 100 && refused > 5, "{found} found, {refused} refused");
}
