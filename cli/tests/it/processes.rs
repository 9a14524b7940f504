//! Backups, repairs, scrubs and followers beside a process of its own that writes, and processes that are killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use varvite::disk::os::OsDisk;
use varvite::{Batch, Log, OpenTable, Session, SessionOptions, Table, TableOptions};

use crate::binary::{command, finish, text, varvite};

/// Where the process that writes does so.
const DIR: &str = "VARVITE_TEST_WRITER_DIR";

/// Keys that are updated in turns.
const KEYS: u64 = 500;

fn options() -> SessionOptions {
    SessionOptions {
        log: Log::Written,
        log_file_bytes: 30_000,
        segment_bytes: 16_384,
        ..SessionOptions::default()
    }
}

/// What update `number` does to both tables.
fn batch(number: u64) -> Batch {
    let (mut batch, text) = (Batch::new(), number.to_string());
    batch.insert(b"first", text.as_bytes()).insert(b"last", text.as_bytes());
    batch.insert(format!("k{}", number % KEYS).as_bytes(), &[number as u8; 90]);
    batch
}

/// Updates two live tables together until it is killed, as a process of the other tests here; alone it does nothing.
#[test]
fn writer() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let disk = OsDisk::new(dir).unwrap();
    let session = Session::open(disk, options()).unwrap();
    let mut tables = session.open_all(&OpenTable::default()).unwrap();
    let mut number = number_in(&tables[0]);
    loop {
        number += 1;
        let batch = batch(number);
        let (one, two) = tables.split_at_mut(1);
        session.update(&mut [(&mut one[0], &batch), (&mut two[0], &batch)]).unwrap();
    }
}

/// Which update a table has last, of which it has all.
fn number_in(table: &Table) -> u64 {
    let [first, last] = [b"first" as &[u8], b"last"].map(|key| table.get(key).unwrap());
    assert_eq!(first, last, "half an update");
    first.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap())
}

/// A store with the tables `one` and `two` of no updates.
fn store(folder: &Path) {
    let session = Session::create(OsDisk::create(folder).unwrap(), options()).unwrap();
    for name in ["one", "two"] {
        let small = TableOptions { write_buffer_bytes: 4_000, ..TableOptions::default() };
        drop(session.create_table(name, small).unwrap());
    }
    session.close().unwrap();
}

/// Killed when it goes, as by a power supply.
struct Writer(Child);

impl Writer {
    fn start(dir: &Path) -> Writer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::writer", "--nocapture"]);
        command.env(DIR, dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Writer(command.spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Which update the store in `dir` has last: both tables have it, and all before it.
#[track_caller]
fn whole(dir: &Path) -> u64 {
    let check = varvite(&["check", text(dir), "--format", "json"]).json();
    assert_eq!(check["sound"], true, "{check}");
    let session =
        Session::open_read_only(OsDisk::new(dir).unwrap(), SessionOptions::default()).unwrap();
    let tables = session.open_all(&OpenTable::default()).unwrap();
    let numbers: Vec<_> = tables.iter().map(number_in).collect();
    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "{numbers:?}");
    let last = numbers[0];
    for number in last.saturating_sub(KEYS - 1).max(1)..=last {
        let found = tables[1].get(format!("k{}", number % KEYS).as_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&[number as u8; 90][..]), "{number} of {last}");
    }
    last
}

/// Waits until `is_there`, a while at most.
#[track_caller]
fn wait_until(mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_mins(1), "it does not come");
        thread::sleep(Duration::from_millis(5));
    }
}

fn count(dir: &Path, folder: &str) -> usize {
    fs::read_dir(dir.join(folder)).map_or(0, Iterator::count)
}

#[test]
fn a_store_is_followed_backed_up_and_scrubbed_while_its_writer_is_killed_again_and_again() {
    let folder = TempDir::new().unwrap();
    let [dir, out] = ["store", "backup"].map(|name| folder.path().join(name));
    store(&dir);
    let arguments = ["table", "follow", text(&dir), "two", "first", "last", "--every-ms", "1"];
    let mut follow = command(&[&arguments[..], &["--format", "json"]].concat());
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = || -> u64 {
        let mut value = || {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            line["value"].as_str().map_or(0, |text| text.parse().unwrap())
        };
        let (first, last) = (value(), value());
        assert_eq!(first, last, "lines that are printed together are of one moment");
        first
    };
    let (mut seen, mut backed_up) = (next(), 0);
    for _ in 0..3 {
        let writer = Writer::start(&dir);
        let before = seen;
        while seen < before + 200 {
            let number = next();
            assert!(number > seen, "{number} after {seen}");
            seen = number;
        }
        varvite(&["backup", text(&dir), text(&out)]).yes();
        let scrub = ["scrub", text(&dir), "--rate", "0", "--format", "json"];
        assert_eq!(varvite(&scrub).json()["sound"], true);
        drop(writer);
        let (now, there) = (whole(&dir), whole(&out));
        assert!(
            there > backed_up && there <= now && seen <= now,
            "{backed_up} {there} {seen} {now}"
        );
        backed_up = there;
        // What it had written is there, and the follower goes on to it.
        while seen < now {
            seen = next();
        }
        assert_eq!(seen, now);
    }
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn a_backup_that_is_killed_leaves_the_one_before_and_the_next_one_is_whole() {
    let folder = TempDir::new().unwrap();
    let [dir, out] = ["store", "backup"].map(|name| folder.path().join(name));
    store(&dir);
    let writer = Writer::start(&dir);
    wait_until(|| count(&dir, "segments") > 4);
    let mut before = 0;
    for round in 0..6_u64 {
        let mut backup = command(&["backup", text(&dir), text(&out), "--full"]);
        backup.stdout(Stdio::null()).stderr(Stdio::null());
        let mut backup = backup.spawn().unwrap();
        thread::sleep(Duration::from_millis(1 + round * 3));
        // It may be done by then.
        backup.kill().unwrap();
        backup.wait().unwrap();
        if out.join("session").exists() {
            let there = whole(&out);
            assert!(there >= before, "{there} after {before}");
        } else {
            assert_eq!(before, 0, "the backup is gone");
        }
        if round % 2 == 1 {
            varvite(&["backup", text(&dir), text(&out)]).yes();
            before = whole(&out);
            assert_eq!(count(&out, "log"), 1);
        }
    }
    drop(writer);
    assert!(before > 0 && before <= whole(&dir));
    // It opens to be written to, too.
    let writer = Writer::start(&out);
    wait_until(|| count(&out, "log") > 1);
    drop(writer);
    assert!(whole(&out) >= before);
}

#[test]
fn a_store_is_repaired_after_its_writer_was_killed_and_a_repair_that_was_killed_begins_again() {
    let folder = TempDir::new().unwrap();
    let [dir, out] = ["store", "repaired"].map(|name| folder.path().join(name));
    store(&dir);
    let writer = Writer::start(&dir);
    wait_until(|| count(&dir, "segments") > 4);
    drop(writer);
    let last = whole(&dir);
    fs::remove_file(dir.join("session")).unwrap();
    let ran = varvite(&["check", text(&dir)]);
    assert!(ran.code == 3 && ran.out.contains("varvite repair"), "{ran:?}");
    // Everybody else takes it for damaged too, and not for a folder without a store.
    let copy = folder.path().join("copy");
    for other in [
        &["scrub", text(&dir)][..],
        &["backup", text(&dir), text(&copy)],
        &["table", "list", text(&dir)],
    ] {
        let ran = varvite(other);
        assert!(ran.code == 3 && ran.err.contains("varvite repair"), "{other:?}: {ran:?}");
    }
    for milliseconds in [1, 4, 9] {
        let mut repair = command(&["repair", text(&dir), text(&out)]);
        let mut repair = repair.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(milliseconds));
        repair.kill().unwrap();
        repair.wait().unwrap();
        if out.join("session").exists() {
            assert_eq!(whole(&out), last);
            return;
        }
    }
    let report = varvite(&["repair", text(&dir), text(&out), "--format", "json"]).json();
    assert_eq!((&report["whole"], &report["session_was_lost"]), (&true.into(), &true.into()));
    assert_eq!(whole(&out), last);
}

#[test]
fn a_repair_of_what_is_no_store_leaves_no_folder_behind() {
    let folder = TempDir::new().unwrap();
    let [dir, above] = ["nothing", "above"].map(|name| folder.path().join(name));
    let out = above.join("repaired");
    fs::create_dir(&dir).unwrap();
    assert_eq!(varvite(&["repair", text(&dir), text(&out)]).code, 2);
    assert!(!above.exists());
    // A folder that was there stays.
    fs::create_dir(&above).unwrap();
    assert_eq!(varvite(&["repair", text(&dir), text(&out)]).code, 2);
    assert!(above.exists() && !out.exists());
}

#[test]
fn a_scrub_says_what_is_damaged_and_from_where_to_go_on() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("store");
    store(&dir);
    let writer = Writer::start(&dir);
    wait_until(|| count(&dir, "segments") > 8);
    drop(writer);
    whole(&dir);
    let scrub = |more: &[&str]| {
        varvite(&[&["scrub", text(&dir), "--rate", "0", "--format", "json"], more].concat())
    };
    let all = scrub(&[]).json();
    assert_eq!((&all["sound"], &all["done"]), (&true.into(), &true.into()), "{all}");
    assert!(all["bytes"].as_u64().unwrap() > 50_000 && all["next"].is_null(), "{all}");
    // A file that the checkpoint names, in the middle.
    let named: Vec<_> = fs::read_dir(dir.join("segments")).unwrap().collect();
    let mut found = 0;
    for entry in named {
        let path = entry.unwrap().path();
        let sound = fs::read(&path).unwrap();
        if sound.len() <= 5_000 {
            continue; // what was begun when the writer ended
        }
        let mut damaged = sound.clone();
        damaged[5_000] ^= 1;
        fs::write(&path, damaged).unwrap();
        let ran = varvite(&["scrub", text(&dir)]);
        fs::write(&path, sound).unwrap();
        if ran.code == 0 {
            continue;
        }
        found += 1;
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(ran.code == 3 && ran.out.contains(name), "{ran:?}");
        assert!(ran.out.contains("byte 8188") && ran.out.contains("varvite repair"), "{ran:?}");
        let number = u64::from_str_radix(name.split('.').next().unwrap(), 16).unwrap();
        assert_eq!(scrub(&["--from", &number.to_string()]).json()["sound"], true);
    }
    assert!(found > 0);
    // Each run gets on; what is small is read in one.
    let mut from = 0;
    for run in 0.. {
        let part = scrub(&["--most", "0", "--from", &from.to_string()]).json();
        assert_eq!(part["sound"], true, "{part}");
        if part["done"] == true {
            break;
        }
        let next = part["next"].as_u64().unwrap();
        assert!(next > from && run < 100, "{part}");
        from = next;
    }
    varvite(&["scrub", text(folder.path())]).error(2, &["session"]);
}

/// A store of many more files than a process may have open is backed up, refreshed, scrubbed, checked and repaired.
#[cfg(unix)]
#[test]
fn few_descriptors_are_enough_for_whole_stores() {
    const DESCRIPTORS: usize = 32;
    let few = |arguments: &[&str]| {
        let binary = command(arguments);
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\"")]);
        limited.arg(binary.get_program()).args(binary.get_args());
        finish(limited).yes()
    };
    let folder = TempDir::new().unwrap();
    let [dir, out, repaired] = ["store", "backup", "repaired"].map(|name| folder.path().join(name));
    let change = |table: &mut Table, from: u64| {
        for number in (from..from + 8_000).step_by(100) {
            let mut batch = Batch::new();
            for number in number..number + 100 {
                batch.insert(&(number * 919 % 20_000).to_be_bytes(), &[number as u8; 90]);
            }
            table.update(&batch).unwrap();
        }
    };
    let small = TableOptions { write_buffer_bytes: 40_000, ..TableOptions::default() };
    let session = Session::create(OsDisk::create(&dir).unwrap(), options()).unwrap();
    let mut table = session.create_table("t", small).unwrap();
    change(&mut table, 0);
    assert!(count(&dir, "segments") > 3 * DESCRIPTORS, "{}", count(&dir, "segments"));
    few(&["backup", text(&dir), text(&out), "--full"]);
    change(&mut table, 8_000);
    few(&["backup", text(&dir), text(&out), "--full"]);
    few(&["scrub", text(&dir), "--rate", "0"]);
    drop((table, session));
    few(&["check", text(&out)]);
    few(&["repair", text(&out), text(&repaired)]);
    for store in [&dir, &out, &repaired] {
        assert_eq!(few(&["table", "count", text(store), "t"]).trim(), "16000");
    }
}
