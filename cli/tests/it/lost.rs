//! Stores of which a file is gone or written over: whoever reads has the newest state, or ends with 3.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::binary::{run, text, varvite};

/// A store with a live table, a snapshot of an older state, and several log files, each named by the checkpoint.
fn live(dir: &Path) {
    let dir = text(dir);
    varvite(&["table", "put", dir, "t", "k", "old", "--create", "--live"]).yes();
    varvite(&["table", "snapshot", "create", dir, "s"]).yes();
    varvite(&["table", "put", dir, "t", "k", "new"]).yes();
    varvite(&["table", "put", dir, "t", "l", "newer"]).yes();
    varvite(&["table", "create", dir, "empty"]).yes();
}

/// Every file of a folder, relative to it.
fn files(dir: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            files(dir, &path, found);
        } else {
            found.push(path);
        }
    }
}

fn copied(from: &Path, to: &Path) {
    let mut found = Vec::new();
    files(from, Path::new(""), &mut found);
    for path in found {
        fs::create_dir_all(to.join(&path).parent().unwrap()).unwrap();
        fs::copy(from.join(&path), to.join(&path)).unwrap();
    }
}

const READS: [&[&str]; 6] = [
    &["table", "get", "DIR", "t", "k"],
    &["table", "scan", "DIR", "t"],
    &["table", "dump", "DIR", "t"],
    &["table", "count", "DIR", "t"],
    &["table", "stat", "DIR", "t"],
    &["table", "list", "DIR"],
];

fn read(dir: &Path, line: &[&str]) -> crate::binary::Ran {
    let line: Vec<_> = line.iter().map(|it| if *it == "DIR" { text(dir) } else { it }).collect();
    varvite(&line)
}

#[test]
fn commands_that_read_never_fall_back_to_an_older_state() {
    let folder = TempDir::new().unwrap();
    let sound = folder.path().join("sound");
    live(&sound);
    let mut all = Vec::new();
    files(&sound, Path::new(""), &mut all);
    assert!(all.len() > 6, "{all:?}");
    let newest = READS.map(|line| read(&sound, line).yes());
    assert_eq!(newest[0], "new\n");
    let mut told = 0;
    for (number, path) in all.iter().enumerate() {
        let dir = folder.path().join(format!("without-{number}"));
        copied(&sound, &dir);
        fs::remove_file(dir.join(path)).unwrap();
        for (line, newest) in READS.iter().zip(&newest) {
            let ran = read(&dir, line);
            if ran.code == 3 {
                told += 1;
            } else {
                assert_eq!((ran.code, &ran.out), (0, newest), "{line:?} without {path:?}: {ran:?}");
            }
        }
        if path != Path::new("checkpoint") {
            continue;
        }
        let says = ["checkpoint of the session at", "is not there", "`varvite repair`"];
        for line in READS {
            read(&dir, line).error(3, &says);
        }
        let backup = folder.path().join("backup");
        varvite(&["backup", text(&dir), text(&backup)]).error(3, &says);
        assert!(!backup.exists());
        assert_eq!(
            varvite(&["table", "get", text(&dir), "t", "k", "--snapshot", "s"]).yes(),
            "old\n"
        );
        let info = varvite(&["info", text(&dir)]);
        assert!(info.code == 3 && says.iter().all(|it| info.out.contains(it)), "{info:?}");
        assert!(info.out.contains("its state\tnot known\ntables of it\tnot known\n"), "{info:?}");
        let info = varvite(&["info", text(&dir), "--format", "json"]);
        let told: serde_json::Value = serde_json::from_str(&info.out).unwrap();
        assert_eq!((&told["live"], &told["tables"]), (&json!(null), &json!(null)));
    }
    assert!(told > 12, "{told}");
}

#[test]
fn a_session_that_was_written_over_is_checked_and_repaired_as_one_that_is_lost() {
    let folder = TempDir::new().unwrap();
    let sound = folder.path().join("sound");
    live(&sound);
    let newest = READS.map(|line| read(&sound, line).yes());
    let log = fs::read_dir(sound.join("log")).unwrap().next().unwrap().unwrap().path();
    for (number, bytes) in [fs::read(log).unwrap(), vec![0; 44]].into_iter().enumerate() {
        let dir = folder.path().join(format!("over-{number}"));
        copied(&sound, &dir);
        fs::write(dir.join("session"), bytes).unwrap();
        let checked = varvite(&["check", text(&dir)]);
        assert!(checked.code == 3 && checked.out.contains("`varvite repair`"), "{checked:?}");
        read(&dir, READS[0]).error(3, &["session is ", "`varvite repair`"]);
        varvite(&["table", "put", text(&dir), "t", "k", "v"]).error(3, &["`varvite repair`"]);
        let info = varvite(&["info", text(&dir)]);
        assert!(info.code == 3 && info.out.contains("its state\tnot known\n"), "{info:?}");
        let out = folder.path().join(format!("repaired-{number}"));
        let repaired = varvite(&["repair", text(&dir), text(&out)]).yes();
        assert!(repaired.contains("made anew, it was lost"), "{repaired}");
        // But for statistics, which have the size of the log.
        for (line, newest) in READS.iter().zip(&newest).filter(|(line, _)| line[1] != "stat") {
            assert_eq!(read(&out, line).yes(), *newest, "{line:?}");
        }
    }
}

/// What a power cut leaves of an update, and what damage leaves of the last one, look alike: no word is said of it that
/// nobody can know.
#[test]
fn an_update_that_is_not_whole_at_the_end_of_the_log_is_told() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("store");
    varvite(&["table", "put", text(&dir), "t", "k", "old", "--create", "--live"]).yes();
    varvite(&["table", "put", text(&dir), "t", "k", "new"]).yes();
    let log = dir.join("log/0000000000000002.log");
    let mut bytes = fs::read(&log).unwrap();
    let last = bytes.windows(3).rposition(|it| it == b"new").unwrap();
    bytes[last] = 0;
    fs::write(&log, &bytes).unwrap();
    let says = "log/0000000000000002.log ends at byte ";
    let known = "if it had been acknowledged, it is lost";
    let checked = varvite(&["check", text(&dir)]).yes();
    assert!(checked.contains("verdict\tsound up to the end of the log"), "{checked}");
    assert!(checked.contains(says) && checked.contains(known), "{checked}");
    let checked = varvite(&["check", text(&dir), "--format", "json"]).json();
    assert_eq!(checked["log_unfinished"]["file"], "log/0000000000000002.log");
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let repaired = varvite(&["repair", text(&dir), text(&one)]).yes();
    assert!(repaired.contains("verdict\tnothing was lost up to the end of the log"), "{repaired}");
    assert!(repaired.contains(says) && repaired.contains(known), "{repaired}");
    let line = ["repair", text(&dir), text(&two), "--format", "json"];
    assert_eq!(varvite(&line).json()["log_unfinished"], checked["log_unfinished"]);
    // A repaired log is whole.
    let checked = varvite(&["check", text(&one)]).yes();
    assert!(checked.contains("verdict\tsound ✓"), "{checked}");
}

/// A context of five commits, whose values are long enough that a collection leaves little of its first chunk.
fn context(folder: &Path, name: &str) {
    run(folder, &format!("context create {name}")).yes();
    for number in 1..=5 {
        let (path, value) = (format!("a/k{number}"), format!("v{number}{}", "x".repeat(1_000)));
        let date = format!("2026-01-0{number}");
        run(folder, &format!("context put {name} main {path} {value} --date {date}")).yes();
    }
}

/// What `info`, `check`, `context check`, `doctor` and a command that reads say of a damaged context: all of them 3.
fn is_damaged(folder: &Path, name: &str, says: &[&str]) {
    let commands = ["info", "check", "context check", "context log"];
    for command in commands {
        let ran = run(folder, &format!("{command} {name}"));
        let said = format!("{}{}", ran.out, ran.err);
        assert!(ran.code == 3 && says.iter().all(|it| said.contains(it)), "{ran:?}");
        assert!(said.contains("`varvite repair`"), "{ran:?}");
    }
    let ran = run(folder, &format!("context put {name} main b w"));
    assert!(ran.code == 3 && ran.err.contains("`varvite repair`"), "{ran:?}");
    let ran = run(folder, &format!("doctor {name} --format json"));
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &told["damaged"]), (3, &json!(true)), "{told}");
    assert_eq!(told["broken"], json!([]), "{told}");
}

#[test]
fn a_context_without_its_control_file_is_damaged_and_no_folder_of_something_else() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    context(folder, "c");
    fs::remove_file(folder.join("c/control")).unwrap();
    is_damaged(folder, "c", &["c has lost its file control"]);
    let info = run(folder, "info c --format json");
    let told: serde_json::Value = serde_json::from_str(&info.out).unwrap();
    assert_eq!(told["kind"], "context", "{told}");
    fs::create_dir(folder.join("low")).unwrap();
    run(folder, "check c --lower low").error(3, &["c has lost its file control"]);
    let repaired = run(folder, "repair c out");
    assert!(repaired.code == 3 && repaired.out.contains("5 commits kept"), "{repaired:?}");
    // What a creation leaves that was cut off has nothing to lose.
    run(folder, "context create begun").yes();
    for name in ["control", "index"] {
        let path = folder.join("begun").join(name);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
    assert_eq!(run(folder, "info begun").code, 1);
    run(folder, "context create begun").yes();
}

#[test]
fn a_context_that_lost_a_chunk_is_damaged() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    context(folder, "c");
    copied(&folder.join("c"), &folder.join("d"));
    fs::remove_file(folder.join("c/0000-000000.pack")).unwrap();
    is_damaged(folder, "c", &["0000-000000.pack is not there"]);
    run(folder, "context archive d --lower low --end-chunk").yes();
    run(folder, "context put d main b w --date 2026-02-01").yes();
    run(folder, "context collect run d --keep 2").yes();
    fs::remove_file(folder.join("d/0000-000000-1.pack")).unwrap();
    is_damaged(folder, "d", &["0000-000000-1.pack is not there"]);
}

#[test]
fn damage_of_an_index_is_mended_by_making_it_again() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    context(folder, "c");
    let snapshots = folder.join("c/index/snapshots");
    let mut snapshots = fs::read_dir(snapshots).unwrap().map(|it| it.unwrap().path());
    let snapshot = snapshots.find(|it| it.extension().is_some_and(|it| it == "snapshot")).unwrap();
    let mut bytes = fs::read(&snapshot).unwrap();
    bytes[60] ^= 1;
    fs::write(&snapshot, bytes).unwrap();
    let command = "context check --rebuild-index c";
    let checked = run(folder, "check c");
    assert!(checked.code == 3 && checked.out.contains("is damaged at byte"), "{checked:?}");
    assert!(
        checked.out.contains(&format!("make the index again: varvite {command}")),
        "{checked:?}"
    );
    for other in ["restore", "`varvite check`", "varvite repair"] {
        assert!(!checked.out.contains(other), "{checked:?}");
    }
    run(folder, command).yes();
    run(folder, "check c").yes();
}

#[test]
fn what_a_cut_leaves_behind_the_last_batch_is_no_damage_to_check_and_repair() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    context(folder, "c");
    let pack = folder.join("c/0000-000000.pack");
    let bytes = fs::read(&pack).unwrap();
    for (number, tail) in [vec![7; 27], vec![7; 28], vec![7; 5_000]].into_iter().enumerate() {
        fs::write(&pack, [&bytes[..], &tail].concat()).unwrap();
        run(folder, "check c").yes();
        let repaired = run(folder, &format!("repair c out{number}")).yes();
        let says = format!("no damage: 0000-000000.pack has {} bytes", tail.len());
        assert!(repaired.contains(&says) && repaired.contains("5 commits kept"), "{repaired}");
    }
}

/// Two copies of a store went on, and one has moved a chunk of the same number to the folder.
#[test]
fn a_repair_takes_what_the_store_has_before_a_chunk_of_another_copy() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    context(folder, "s");
    copied(&folder.join("s"), &folder.join("k"));
    run(folder, "context archive k --lower low --end-chunk").yes();
    run(folder, "context put k other q 1").yes();
    run(folder, "context archive k --lower low").yes();
    for number in 1..=3 {
        run(folder, &format!("context put s main b/k{number} w")).yes();
    }
    run(folder, "context branch set s old main").yes();
    // It is told before there is anything to move there.
    for command in ["context attach s low", "context archive s --lower low"] {
        run(folder, command).error(2, &["0000-000000.pack in low is not", "another copy"]);
    }
    let elsewhere = "context archive s --lower elsewhere --end-chunk --keep 100";
    run(folder, elsewhere).yes();
    for number in 4..=6 {
        run(folder, &format!("context put s main b/k{number} w")).yes();
        run(folder, elsewhere).yes();
    }
    let refused = run(folder, "context archive s --lower low --keep 1");
    refused.error(2, &["0000-000000.pack in low is not", "another copy"]);
    run(folder, "context collect run s --keep 3").yes();
    run(folder, "check s --lower low").yes();
    let alone = run(folder, "repair s one").yes();
    let beside = run(folder, "repair s two --lower low").yes();
    assert!(beside.contains("nothing was lost") && beside == alone, "{beside}");
    assert_eq!(run(folder, "context log two").yes(), run(folder, "context log one").yes());
}
