//! What people are told who ask for help, or for something that cannot be done as they ask it.

use std::fs;

use tempfile::TempDir;
use varvite::context::{Options, Store};
use varvite::disk::os::OsDisk;

use crate::binary::{text, varvite};

/// A store with one key.
fn store() -> TempDir {
    let folder = TempDir::new().unwrap();
    varvite(&["table", "put", text(folder.path()), "fruit", "apple", "red", "--create"]).yes();
    folder
}

#[test]
fn each_command_says_in_a_line_of_its_own_what_it_does() {
    for group in [&[][..], &["table"], &["table", "snapshot"], &["bench"], &["replay"]] {
        let help = varvite(&[group, &["--help"]].concat()).yes();
        let commands = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
        let lines = commands.lines().filter_map(|line| line.trim().split_once("  "));
        let said: Vec<_> = lines.collect();
        assert!(said.len() > 2, "{help}");
        for (name, what) in said.iter().map(|(name, what)| (name, what.trim())) {
            let alike = said.iter().filter(|(_, other)| other.trim() == what).count();
            assert_eq!(alike, 1, "{group:?} {name}: {what}");
            assert!(what.len() > 10, "{name}: {what}");
        }
    }
}

#[test]
fn a_folder_that_is_no_store_of_tables_is_called_what_it_is() {
    let folder = TempDir::new().unwrap();
    let (empty, file) = (folder.path().join("empty"), folder.path().join("file"));
    fs::create_dir(&empty).unwrap();
    fs::write(&file, b"text").unwrap();
    let context = folder.path().join("context");
    let made = Store::create(OsDisk::create(&context).unwrap(), Options::default()).unwrap();
    made.close().unwrap();
    for (path, says) in [
        (&empty, "it has no file called session; give the folder of one"),
        (&file, "is not a folder"),
        (&context, "holds a context, not tables: look into it with `varvite context log`"),
    ] {
        varvite(&["table", "get", text(path), "t", "k"]).error(2, &[says]);
        varvite(&["table", "put", text(path), "t", "k", "v"]).error(2, &[says]);
    }
    varvite(&["table", "put", text(&file), "t", "k", "v", "--create"])
        .error(2, &["is a file, where a folder is needed"]);
    let none = folder.path().join("none");
    varvite(&["table", "snapshot", "import", text(&none), text(store().path())])
        .error(2, &["does not exist", "--create"]);
}

#[test]
fn a_folder_that_is_a_store_already_is_not_benched_in() {
    let folder = store();
    let dir = text(folder.path());
    for command in [
        &["bench", "load", "--entries", "10", "--dir", dir][..],
        &["bench", "blob", "--entries", "10", "--dir", dir],
        &["bench", "upsert", "--operations", "10", "--dir", dir],
        &["table", "snapshot", "export", dir, "head-0000000001", dir],
    ] {
        varvite(command).error(2, &["holds a store already: choose an empty folder"]);
    }
}

#[test]
fn a_small_bench_gives_right_figures_too() {
    let folder = TempDir::new().unwrap();
    for (operations, per_key) in [("10", "10"), ("10", "1"), ("1000", "7"), ("1000", "500")] {
        let counts = ["--operations", operations, "--per-key", per_key, "--rounds", "1"];
        let report = varvite(&[&["bench", "upsert", "--format", "json"][..], &counts].concat());
        assert_eq!(report.json()["wrong"], 0, "{operations} on each {per_key}");
    }
    let dir = folder.path().join("blobs");
    let sizes = ["--entries", "40", "--rounds", "2", "--format", "json"];
    let report = varvite(&[&["bench", "blob", "--dir", text(&dir)][..], &sizes].concat()).json();
    let (peak, live) = (&report["peak_disk_bytes"], &report["live_bytes"]);
    assert!(peak.as_u64().unwrap() > 0, "{report}");
    assert_eq!(live.as_u64(), Some(40 * (34 + 16_384)));
}

#[test]
fn the_size_of_a_cache_that_is_not_used_is_refused() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    varvite(&["bench", "utxo", "setup", "--entries", "1000", "--dir", dir]).yes();
    let run = ["bench", "utxo", "run", "--dir", dir, "--batches", "2", "--cache-mib", "8"];
    for cache in [&[][..], &["--cache", "page"], &["--cache", "direct"]] {
        varvite(&[&run[..], cache].concat()).error(2, &["--cache-mib", "add --cache own"]);
    }
    varvite(&[&run[..], &["--cache", "own"]].concat()).yes();
}

#[test]
fn a_damaged_dump_says_where_and_to_dump_again() {
    let folder = store();
    let (dir, dump) = (text(folder.path()), folder.path().join("dump"));
    fs::write(&dump, b"varvite dump 1\n\x01a\x05b").unwrap();
    varvite(&["table", "load", dir, "t", text(&dump)])
        .error(3, &["byte 19", "dump the table again"]);
    fs::write(&dump, b"{\"key\":\"a\",\"value\":\"b\"}\n{\"ke").unwrap();
    let said = varvite(&["table", "load", dir, "t", text(&dump)]).error(3, &["line 2, column 4"]);
    assert!(!said.contains("line 1"), "{said}");
}

#[test]
fn a_live_table_that_is_not_there_is_told_beside_those_that_are() {
    let folder = TempDir::new().unwrap();
    let options = varvite::SessionOptions {
        log: varvite::Log::Written,
        ..varvite::SessionOptions::default()
    };
    let session = varvite::Session::create(OsDisk::new(folder.path()).unwrap(), options).unwrap();
    drop(session.create_table("stake", varvite::TableOptions::default()).unwrap());
    session.close().unwrap();
    let dir = text(folder.path());
    varvite(&["table", "get", dir, "utxo", "k", "--live"]).error(2, &["\"utxo\"", "stake"]);
}

#[test]
fn a_lock_and_files_that_lost_their_beginning_are_inspected() {
    let folder = store();
    let lock = varvite(&["inspect", text(&folder.path().join("lock"))]).yes();
    assert!(lock.contains("last held by=process"), "{lock}");
    let segments = fs::read_dir(folder.path().join("segments")).unwrap();
    let segment = segments.last().unwrap().unwrap().path();
    let snapshot = folder.path().join("snapshots/head-0000000001.snapshot");
    for (path, inside) in
        [(folder.path().join("session"), "salt"), (snapshot, "table fruit"), (segment, "entries=1")]
    {
        let bytes = fs::read(&path).unwrap();
        for damaged in [[&b"VARVITE"[..], &bytes[7..]].concat(), [&[0; 12], &bytes[12..]].concat()]
        {
            fs::write(&path, damaged).unwrap();
            let ran = varvite(&["inspect", text(&path)]);
            assert_eq!(ran.code, 3, "{ran:?}");
            assert!(ran.out.contains(inside) && ran.out.contains("DAMAGED"), "{}", ran.out);
        }
        fs::write(&path, b"").unwrap();
        assert_eq!(varvite(&["inspect", text(&path)]).code, 3);
        fs::write(&path, [&b"VARVITE"[..], &bytes[7..]].concat()).unwrap();
        varvite(&["table", "get", text(folder.path()), "fruit", "apple"])
            .error(3, &["is damaged at byte 0"]);
        assert_eq!(varvite(&["check", text(folder.path())]).code, 3, "{}", path.display());
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(varvite(&["check", text(folder.path())]).code, 0);
}

#[test]
fn a_store_of_an_earlier_development_version_is_refused_with_the_way_out() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/header");
    let folder = TempDir::new().unwrap();
    let (table, context) = (folder.path().join("table"), folder.path().join("context"));
    for (path, file, name) in
        [(&table, "session", "before-table.bin"), (&context, "control", "before-context.bin")]
    {
        fs::create_dir(path).unwrap();
        fs::copy(golden.join(name), path.join(file)).unwrap();
    }
    let (table, context) = (text(&table), text(&context));
    let version = "of version 1, which an earlier development version wrote";
    let says = ["session is a session", version, "`varvite table dump`", "`varvite table load`"];
    for arguments in [
        &["table", "get", table, "t", "k"][..],
        &["table", "put", table, "t", "k", "v", "--create"],
        &["table", "dump", table, "t"],
        &["check", table],
    ] {
        varvite(arguments).error(2, &says);
    }
    let says = ["control is a control", version, "`varvite replay`", "`varvite context migrate`"];
    for arguments in [
        &["context", "log", context][..],
        &["context", "put", context, "main", "a", "v"],
        &["context", "check", context],
        &["check", context],
    ] {
        varvite(arguments).error(2, &says);
    }
    for (path, file) in [(table, "session"), (context, "control")] {
        let names = fs::read_dir(path).unwrap().map(|it| it.unwrap().file_name());
        let names: Vec<_> = names.filter(|name| name != "lock").collect();
        assert_eq!(names, [file], "nothing is written or removed");
    }
    let file = golden.join("before-table.bin");
    assert!(varvite(&["inspect", text(&file)]).out.contains("earlier development version"));
}

#[test]
fn a_file_that_is_none_of_a_store_is_not_sent_to_a_check_of_one() {
    let folder = store();
    let (dir, file) = (text(folder.path()), folder.path().join("file"));
    let mut dump = crate::binary::command(&["table", "dump", dir, "fruit", "--binary"]);
    fs::write(&file, dump.output().unwrap().stdout).unwrap();
    varvite(&["inspect", text(&file)]).error(2, &["is a dump of a table", "`varvite table load`"]);
    fs::write(&file, "hello\n").unwrap();
    let said = varvite(&["trace", "show", text(&file)]).error(3, &["give a trace"]);
    assert!(!said.contains("varvite check"), "{said}");
}

#[test]
fn a_limit_of_nothing_is_no_lack() {
    let folder = store();
    let context = folder.path().join("context");
    varvite(&["context", "create", text(&context)]).yes();
    assert_eq!(varvite(&["context", "log", text(&context)]).yes(), "");
    varvite(&["context", "put", text(&context), "main", "a", "v"]).yes();
    let none = varvite(&["context", "log", text(&context), "--limit", "0"]).yes();
    assert!(!none.contains("no commits"), "{none}");
    let scan = ["table", "scan", text(folder.path()), "fruit", "--limit", "0"];
    assert_eq!(varvite(&scan).yes(), "");
    assert_eq!(varvite(&[&scan[..], &["--format", "json"]].concat()).yes(), "[]\n");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::TempDir::new().unwrap();
    let pages = folder.path().join("man");
    varvite(&["man", pages.to_str().unwrap()]).yes();
    let mut all = std::collections::BTreeSet::new();
    crate::exits::commands(&[], &mut all);
    for command in all {
        let page = pages.join(format!("varvite-{}.1", command.replace(' ', "-")));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("{command}"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{command}");
    }
}
