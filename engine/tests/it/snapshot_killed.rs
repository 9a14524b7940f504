//! A process that commits, collects, exports, imports and archives is killed at any moment, again and again
//! (`VARVITE_EFFORT`): every store and every file has the same hashes to the end.

#![cfg(unix)] // elsewhere a killed process does not leave its files at once

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use varvite::context::{
    CommitHash, CommitInfo, Index, Keep, Options, Store, Tree, inspect_commit, verify_commit,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;

use crate::random::{Random, setting};

/// Where the process works: the store that commits, the one that imports, and the files between them.
const DIR: &str = "VARVITE_TEST_EXPORTED_DIR";

/// Levels from one file to the next, and how many commits collections keep.
const EVERY: u64 = 4;
const KEEP: u64 = 6;

fn options(index: Index) -> Options {
    // So small a tree that each frame of a file makes a state of the import.
    Options { index, seed: Some(5), chunk_bytes: 400_000, tree_bytes: 16_000, ..Options::default() }
}

/// Those of the store that keeps all commits, old ones in a folder of their own.
fn keeping(dir: &Path) -> Options {
    Options { lower: Some(disk(dir, "below")), ..options(Index::Minimal) }
}

fn disk(dir: &Path, name: &str) -> Arc<dyn Disk> {
    OsDisk::create(dir.join(name)).unwrap()
}

fn file(level: u64) -> String {
    format!("{level:06}.snapshot")
}

/// What the commit of `level` changes: small things, and now and then one that fills a frame.
fn change(tree: &mut Tree, level: u64) {
    let mut random = Random::new(level);
    for _ in 0..20 {
        let path = ["data".to_owned(), random.index(9).to_string(), random.index(60).to_string()];
        let length = random.index(120);
        tree.add(&path, &random.bytes(length)).unwrap();
    }
    for number in 0..4_u64 {
        if level == 1 || random.one_in(8) {
            tree.add(&["large".to_owned(), number.to_string()], &random.bytes(270_000)).unwrap();
        }
    }
    tree.add(&["head"], &level.to_le_bytes()).unwrap();
}

fn commit(store: &mut Store, last: Option<CommitHash>, level: u64) -> CommitHash {
    let mut tree = last.map_or_else(|| store.empty_tree(), |last| store.checkout(&last).unwrap());
    change(&mut tree, level);
    let parents: Vec<CommitHash> = last.into_iter().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, level as i64, "killed", "")).unwrap()
}

fn level_of(store: &Store, commit: &CommitHash) -> u64 {
    store.commit_info(commit).unwrap().date as u64
}

/// One commit more, perhaps at the beginning of a chunk, and some chunks move to the lower folder or back.
fn archive(kept: &mut Store, random: &mut Random) {
    if random.one_in(2) {
        kept.begin_chunk().unwrap();
    }
    let last = kept.last_commit().unwrap();
    let level = last.map_or(1, |last| level_of(kept, &last) + 1);
    let last = commit(kept, last, level);
    if random.one_in(3) {
        let most = 1 + random.index(3) as u64;
        let back = random.one_in(4);
        let moved = if back { kept.unarchive(most) } else { kept.archive(&last, most) }.unwrap();
        if moved > 0 {
            println!("{} {moved}", if back { "unarchived" } else { "archived" });
        }
    }
}

/// Takes the file of `level` over, and says where it went on.
fn import(store: &mut Store, files: &dyn Disk, level: u64) {
    let mut told = false;
    let watch = &mut |done: &varvite::context::CommitFileProgress| {
        if done.resumed > 0 && !told {
            println!("resumed {}", done.resumed);
        }
        told = true;
        // Whoever kills this process hears how far it is.
        println!("frame");
        Ok(())
    };
    store.import_commit_watched(files, &file(level), watch).unwrap();
}

/// Commits, collects, exports, imports and archives until it is killed, as a process of the test below; alone it does
/// nothing. It says each level once that is committed.
#[test]
fn exporter() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let dir = Path::new(&dir);
    let mut from = Store::open(disk(dir, "from"), options(Index::Minimal)).unwrap();
    let mut to = Store::open(disk(dir, "to"), options(Index::Always)).unwrap();
    let mut kept = Store::open(disk(dir, "kept"), keeping(dir)).unwrap();
    let files = disk(dir, "files");
    let mut head = from.branch(b"head");
    let mut level = head.map_or(0, |head| level_of(&from, &head));
    let mut random = Random::new(level);
    let mut names = files.list("").unwrap();
    names.retain(|name| name.ends_with(".snapshot"));
    names.sort_unstable();
    if let Some(last) = names.pop() {
        // Where it was when it was killed, perhaps.
        import(&mut to, &*files, last[..6].parse().unwrap());
    }
    loop {
        level += 1;
        head = Some(commit(&mut from, head, level));
        from.set_branch(b"head", &head.unwrap()).unwrap();
        println!("level {level}");
        from.collect_step(random.index(2000) as u64).unwrap();
        to.collect_step(random.index(2000) as u64).unwrap();
        archive(&mut kept, &mut random);
        if !level.is_multiple_of(EVERY) {
            continue;
        }
        if !files.exists(&file(level)).unwrap() {
            from.export_commit(&head.unwrap(), &files, &file(level)).unwrap();
        }
        import(&mut to, &*files, level);
        println!("imported {level}");
        from.collect_keeping(&Keep::Newest(KEEP)).unwrap();
        to.collect_keeping(&Keep::Newest(KEEP / 2)).unwrap();
        let old = level.saturating_sub(5 * EVERY);
        if files.exists(&file(old)).unwrap() {
            // An old state comes back beside the new ones, and goes with a later collection.
            import(&mut from, &*files, old);
            println!("back {old}");
            files.remove(&file(old)).unwrap();
        }
    }
}

/// What a process said until it was killed.
#[derive(Default)]
struct Said {
    level: Option<u64>,
    imported: u64,
    resumed: u64,
    back: u64,
    archived: u64,
    unarchived: u64,
}

/// Lets the process work for a while, and kills it: at any moment, or in the middle of an import.
fn killed(dir: &Path, imports: bool, random: &mut Random) -> Said {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "snapshot_killed::exporter", "--nocapture"]).env(DIR, dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child: Child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = Said::default();
    let mut hear = |line: &str| {
        let number = |what: &str| line.split(what).nth(1)?.parse::<u64>().ok();
        said.level = number("level ").or(said.level);
        said.imported += u64::from(line.contains("imported "));
        said.resumed += u64::from(line.contains("resumed "));
        said.back += u64::from(line.contains("back "));
        said.archived += u64::from(line.starts_with("archived "));
        said.unarchived += u64::from(line.starts_with("unarchived "));
    };
    if imports {
        // The first frames of an import of what it has just exported, behind which its state is written.
        let (mut works, mut frames) = (false, 0);
        while frames < 2
            && let Some(line) = lines.next()
        {
            hear(&line);
            works |= line.contains("level ");
            frames += u32::from(works && line == "frame");
        }
    } else {
        let said = lines.by_ref().filter(|line| line != "frame");
        said.take(random.index(24)).for_each(|line| hear(&line));
        // Any moment of what it does next.
        (0..random.index(1 << 20)).for_each(|_| std::hint::spin_loop());
    }
    child.kill().unwrap();
    lines.for_each(|line| hear(&line));
    child.wait().unwrap();
    said
}

#[test]
fn stores_and_files_of_a_process_killed_at_any_moment_have_the_same_hashes() {
    let times = 25 * setting("VARVITE_EFFORT", 1);
    let folder = TempDir::new().unwrap();
    for (name, index) in [("from", Index::Minimal), ("to", Index::Always)] {
        Store::create(disk(folder.path(), name), options(index)).unwrap().close().unwrap();
    }
    let kept = Store::create(disk(folder.path(), "kept"), keeping(folder.path())).unwrap();
    kept.close().unwrap();
    let files = disk(folder.path(), "files");
    let mut reference = Store::create(MemoryDisk::new(), options(Index::Minimal)).unwrap();
    let (mut random, mut hashes) = (Random::new(setting("VARVITE_SEED", 7)), Vec::new());
    let (mut before, mut imported, mut resumed, mut back) = (0, 0, 0, 0);
    let (mut archived, mut unarchived) = (0, 0);
    for time in 0..times {
        let said = killed(folder.path(), time % 2 == 1, &mut random);
        let open_as = |name, options| {
            let store = Store::open_read_only(disk(folder.path(), name), options);
            store.unwrap_or_else(|error| panic!("kill {time}, {name}: {error}"))
        };
        let [from, to, kept] = [
            open_as("from", options(Index::Minimal)),
            open_as("to", options(Index::Always)),
            open_as("kept", keeping(folder.path())),
        ];
        let level = from.branch(b"head").map_or(0, |head| level_of(&from, &head));
        assert!(level >= said.level.unwrap_or(before), "kill {time}: {level}, {:?}", said.level);
        // A commit may be there that its branch does not name yet.
        while (hashes.len() as u64) < level + 1 {
            let next = hashes.len() as u64 + 1;
            hashes.push(commit(&mut reference, hashes.last().copied(), next));
        }
        let all = kept.log(usize::MAX).unwrap().len() as u64;
        let last = kept.last_commit().unwrap().map_or(0, |last| level_of(&kept, &last));
        assert_eq!(all, last, "kill {time}: every commit is kept");
        for (name, store) in [("from", &from), ("to", &to), ("kept", &kept)] {
            for commit in store.log(usize::MAX).unwrap() {
                let level = level_of(store, &commit);
                assert_eq!(commit, hashes[level as usize - 1], "kill {time}, {name}, {level}");
            }
            if time % 5 == 4 || time + 1 == times {
                let checked = store.check();
                let checked =
                    checked.unwrap_or_else(|error| panic!("kill {time}, {name}: {error}"));
                assert!(checked.index_faults.is_empty(), "{time}, {name}: {checked:?}");
            }
        }
        for name in files.list("").unwrap() {
            let Some(level) = name.strip_suffix(".snapshot") else { continue };
            let level: usize = level.parse().unwrap();
            let said = inspect_commit(&*files, &name).unwrap();
            assert_eq!(said.commit, hashes[level - 1], "kill {time}, {name}");
            if time + 1 == times {
                let target = MemoryDisk::new();
                let disk = Arc::clone(&target) as Arc<dyn Disk>;
                let again = reference.export_commit(&said.commit, &disk, &name).unwrap();
                assert_eq!(again, verify_commit(&*files, &name).unwrap(), "{name}");
            }
        }
        (before, imported) = (level, imported + said.imported);
        (resumed, back) = (resumed + said.resumed, back + said.back);
        (archived, unarchived) = (archived + said.archived, unarchived + said.unarchived);
    }
    println!("{before} levels, {imported} imports, {resumed} resumed, {back} brought back");
    assert!(before > 2 * times && imported > times / 4 && back > 0, "{before}, {imported}, {back}");
    assert!(resumed > 0, "no import went on");
    println!("{archived} times chunks went below, {unarchived} times they came back");
    assert!(archived > times / 5 && unarchived > 0, "{archived}, {unarchived}");
}
