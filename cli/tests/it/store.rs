//! `varvite table`, `check` and `inspect`: stores by hand, sound, busy and damaged.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use varvite::disk::os::OsDisk;
use varvite::raw::format::header::{FileKind, Header};
use varvite::{Batch, MergeOperator, Session, SessionOptions, SnapshotContent, TableOptions};

use crate::binary::{command, finish, on_small_volume, text, varvite};

/// A store with a table of four fruits.
fn fruits() -> TempDir {
    let folder = TempDir::new().unwrap();
    let out = varvite(&[
        "table",
        "put",
        text(folder.path()),
        "fruit",
        "apple",
        "red",
        "banana",
        "yellow",
        "cherry",
        "red",
        "date",
        "brown",
        "--create",
    ])
    .yes();
    assert_eq!(out, "4 keys put; saved as head-0000000001\n");
    folder
}

fn scan(folder: &TempDir, more: &[&str]) -> String {
    let mut arguments = vec!["table", "scan", text(folder.path()), "fruit"];
    arguments.extend(more);
    varvite(&arguments).yes()
}

#[test]
fn what_is_put_is_got_scanned_and_deleted() {
    let folder = fruits();
    let dir = text(folder.path());
    assert_eq!(varvite(&["table", "get", dir, "fruit", "banana"]).yes(), "yellow\n");
    let ran = varvite(&["table", "get", dir, "fruit", "grape"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err, "there is no key grape in table fruit\n");
    let got = varvite(&["table", "get", dir, "fruit", "apple", "--format", "json"]).json();
    assert_eq!((&got["key"], &got["value"]), (&json!("apple"), &json!("red")));
    assert_eq!((&got["key_hex"], &got["value_hex"]), (&json!("6170706c65"), &json!("726564")));

    assert_eq!(scan(&folder, &[]), "apple\tred\nbanana\tyellow\ncherry\tred\ndate\tbrown\n");
    assert_eq!(scan(&folder, &["--reverse", "--limit", "2"]), "date\tbrown\ncherry\tred\n");
    assert_eq!(
        scan(&folder, &["--first", "banana", "--before", "date"]),
        "banana\tyellow\ncherry\tred\n"
    );
    assert_eq!(
        scan(&folder, &["--after", "banana", "--last", "date"]),
        "cherry\tred\ndate\tbrown\n"
    );
    assert_eq!(scan(&folder, &["--prefix", "c"]), "cherry\tred\n");
    assert_eq!(scan(&folder, &["--prefix", "x", "--format", "json"]), "[]\n");
    let listed: serde_json::Value =
        serde_json::from_str(&scan(&folder, &["--limit", "1", "--format", "json"])).unwrap();
    let both = ["apple", "apple", "6170706c65", "red", "red", "726564"];
    let names = ["key", "key_text", "key_hex", "value", "value_text", "value_hex"];
    let entry: serde_json::Map<_, _> =
        names.into_iter().zip(both).map(|(name, it)| (name.to_owned(), it.into())).collect();
    assert_eq!(listed, json!([entry]));

    let out = varvite(&["table", "delete", dir, "fruit", "apple", "date"]).yes();
    assert_eq!(out, "2 keys deleted; saved as head-0000000002\n");
    assert_eq!(scan(&folder, &[]), "banana\tyellow\ncherry\tred\n");
    let heads = varvite(&["table", "snapshot", "list", dir, "--format", "json"]).json();
    assert_eq!(heads.as_array().unwrap().len(), 1, "the head before is gone: {heads}");
    let dumped = varvite(&["table", "dump", dir, "fruit", "--hex"]).yes();
    assert_eq!(dumped.lines().next().unwrap(), r#"{"key":"62616e616e61","value":"79656c6c6f77"}"#);
}

#[test]
fn bytes_that_are_not_text_go_in_and_out_unchanged() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    varvite(&["table", "put", dir, "raw", "--create", "--hex", "00ff5c", "0a"]).yes();
    assert_eq!(varvite(&["table", "scan", dir, "raw"]).yes(), "\\x00\\xff\\\\\t\\x0a\n");
    assert_eq!(varvite(&["table", "get", dir, "raw", "\\x00\\xff\\\\"]).yes(), "\\x0a\n");
    varvite(&["table", "get", dir, "raw", "zz", "--hex"]).error(2, &["not hexadecimal"]);
    varvite(&["table", "get", dir, "raw", "\\q"]).error(2, &["backslash"]);
}

#[test]
fn upserts_join_by_the_tables_own_operator_only() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    let put = ["table", "put", dir, "log", "k", "a", "--create", "--upsert"];
    varvite(&put).error(2, &["no merge operator"]);
    varvite(&[&put[..], &["--operator", "append"]].concat()).yes();
    varvite(&["table", "put", dir, "log", "k", "b", "--upsert"]).yes();
    assert_eq!(varvite(&["table", "get", dir, "log", "k"]).yes(), "ab\n");
    let wrong = [&put[..], &["--operator", "max"]].concat();
    varvite(&wrong).error(2, &["table log", "\"append\"", "\"max\""]);
    let unknown = [&put[..], &["--operator", "median"]].concat();
    varvite(&unknown).error(2, &["median", "add-u64, max, append"]);
    assert_eq!(varvite(&["table", "get", dir, "log", "k"]).yes(), "ab\n");
}

#[test]
fn an_operator_that_only_its_program_knows_is_named() {
    let folder = TempDir::new().unwrap();
    let session =
        Session::create(OsDisk::new(folder.path()).unwrap(), SessionOptions::default()).unwrap();
    let first = MergeOperator::new("first-wins", |older, _| older.to_vec());
    let options = TableOptions::default().with_operator(first);
    let mut table = session.create_table("own", options).unwrap();
    table.update(Batch::new().upsert(b"k", b"v")).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("mine", content).unwrap();
    drop(table);
    session.close().unwrap();
    let put = ["table", "put", text(folder.path()), "own", "k", "w"];
    varvite(&put).error(2, &["\"first-wins\""]);
    // Nothing is merged for these.
    let info = varvite(&["table", "snapshot", "info", text(folder.path()), "mine"]).yes();
    assert!(info.contains("operator first-wins"), "{info}");
    varvite(&["table", "snapshot", "verify", text(folder.path()), "mine"]).yes();
}

#[test]
fn snapshots_are_made_described_verified_and_deleted() {
    let folder = fruits();
    let dir = text(folder.path());
    let snapshot = |more: &[&str]| varvite(&[&["table", "snapshot"], more].concat());
    assert_eq!(
        snapshot(&["create", dir, "before", "--label", "kept"]).yes(),
        "snapshot before: saved\n"
    );
    varvite(&["table", "put", dir, "fruit", "elder", "black"]).yes();
    let before = varvite(&["table", "get", dir, "fruit", "elder", "--snapshot", "before"]);
    assert_eq!(before.code, 1);
    let info = snapshot(&["info", dir, "before", "--format", "json"]).json();
    assert_eq!((&info["label"], &info["tables"][0]["name"]), (&json!("kept"), &json!("fruit")));
    assert_eq!(snapshot(&["verify", dir, "before"]).yes(), "snapshot before: sound\n");
    assert!(snapshot(&["list", dir]).yes().contains("head-0000000002"));
    snapshot(&["create", dir, "before"]).error(2, &["before"]);
    snapshot(&["create", dir, "a/b"]).error(2, &["a/b"]);
    snapshot(&["info", dir, "after"]).error(2, &["\"after\"", "before"]);
    snapshot(&["delete", dir, "before"]).yes();
    snapshot(&["delete", dir, "before"]).error(2, &["before"]);
    snapshot(&["verify", dir, "../session"]).error(2, &["../session"]);
}

#[test]
fn a_dump_loads_again_whatever_its_bytes_are() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    let mut put = vec!["table", "put", dir, "raw", "--create", "--hex"];
    put.extend(["00", "", "ff5c0a", "c3a9", "2261", "0d0a22", "80", "00ff", "81", "e28080"]);
    varvite(&put).yes();
    let all = varvite(&["table", "scan", dir, "raw", "--hex"]).yes();
    for form in [&[][..], &["--hex"], &["--binary"]] {
        let mut dump = command(&[&["table", "dump", dir, "raw"], form].concat());
        let dumped = dump.output().unwrap().stdout;
        let file = folder.path().join("dump");
        fs::write(&file, dumped).unwrap();
        let hex: Vec<_> = form.iter().filter(|form| **form == "--hex").copied().collect();
        for sort in [&[][..], &["--sort"]] {
            let other = TempDir::new().unwrap();
            let load = ["table", "load", text(other.path()), "raw", text(&file), "--create"];
            let load = [&load[..], &hex, sort].concat();
            let out = varvite(&load).yes();
            assert!(out.starts_with("5 entries loaded in "), "{out}");
            let loaded = varvite(&["table", "scan", text(other.path()), "raw", "--hex"]).yes();
            assert_eq!(loaded, all, "{form:?} {sort:?}");
            varvite(&load).error(2, &["a table raw already"]);
        }
    }
    fs::remove_file(folder.path().join("dump")).unwrap();
}

#[test]
fn a_snapshot_under_another_name_is_told_and_can_be_deleted() {
    let folder = fruits();
    let dir = text(folder.path());
    let of = |name: &str| folder.path().join(format!("snapshots/{name}.snapshot"));
    varvite(&["table", "put", dir, "fruit", "elder", "black"]).yes();
    // The older state under the name of the newest.
    varvite(&["table", "snapshot", "create", dir, "base"]).yes();
    let head = fs::read_dir(folder.path().join("snapshots")).unwrap();
    let heads = head.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let newest = heads.filter_map(|name| Some(name.strip_suffix(".snapshot")?.to_owned()));
    let newest = newest.filter(|name| name.starts_with("head-")).max().unwrap();
    let kept = fs::read(of(&newest)).unwrap();
    fs::copy(of("base"), of(&newest)).unwrap();
    let both = [newest.as_str(), "\"base\""];
    varvite(&["table", "get", dir, "fruit", "apple"]).error(3, &both);
    let listed = varvite(&["table", "snapshot", "list", dir]);
    assert!(both.iter().all(|name| listed.out.contains(name)), "{listed:?}");
    for arguments in [&["check", dir][..], &["table", "snapshot", "verify", dir, &newest]] {
        let ran = varvite(arguments);
        let told = ran.out.clone() + &ran.err;
        assert!(ran.code == 3 && both.iter().all(|name| told.contains(name)), "{ran:?}");
    }
    fs::write(of(&newest), kept).unwrap();
    assert_eq!(varvite(&["table", "get", dir, "fruit", "elder"]).yes(), "black\n");
    assert_eq!(varvite(&["check", dir]).code, 0);
}

#[test]
fn a_lost_session_file_loses_nothing_to_a_command_that_creates() {
    let folder = fruits();
    let dir = text(folder.path());
    let elsewhere = TempDir::new().unwrap();
    let (session, kept) = (folder.path().join("session"), elsewhere.path().join("session"));
    fs::copy(&session, &kept).unwrap();
    fs::remove_file(&session).unwrap();
    let put = ["table", "put", dir, "fruit", "fig", "green", "--create"];
    varvite(&put).error(3, &["file session", "nothing was removed"]);
    fs::copy(&kept, &session).unwrap();
    varvite(&put).yes();
    assert_eq!(varvite(&["table", "get", dir, "fruit", "apple"]).yes(), "red\n");
}

#[test]
fn a_snapshot_travels_to_another_store() {
    let folder = fruits();
    let dir = text(folder.path());
    let (parcel, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (to, there) = (text(parcel.path()), text(other.path()));
    let head = "head-0000000001";
    let snapshot = |more: &[&str]| varvite(&[&["table", "snapshot"], more].concat());
    let out = snapshot(&["export", dir, head, to, "--full"]).yes();
    assert!(out.starts_with("snapshot head-0000000001: exported"), "{out}");
    assert_eq!(varvite(&["check", to]).code, 0);
    snapshot(&["export", dir, head, to]).error(2, &["a store already"]);
    let nowhere = parcel.path().join("nowhere");
    snapshot(&["export", dir, "none", text(&nowhere)]).error(2, &["\"none\"", head]);
    assert!(!nowhere.exists());
    snapshot(&["import", there, to]).error(2, &["not a varvite session"]);
    let import = ["import", there, to, "--create", "--full", "--as", "gift", "--format", "json"];
    let moved = snapshot(&import).json();
    assert_eq!((&moved["snapshot"], &moved["outcome"]), (&json!("gift"), &json!("imported")));
    assert_eq!((&moved["segments"], &moved["copied_bytes"]), (&json!(1), &json!(0)));
    assert_eq!(varvite(&["table", "get", there, "fruit", "date"]).yes(), "brown\n");
    snapshot(&import).error(2, &["gift"]);
    snapshot(&["import", there, there]).error(2, &["gift already"]);
    let segment = fs::read_dir(parcel.path().join("segments")).unwrap().next().unwrap().unwrap();
    let mut bytes = fs::read(segment.path()).unwrap();
    bytes[5000] ^= 1;
    fs::remove_file(segment.path()).unwrap();
    fs::write(segment.path(), bytes).unwrap();
    snapshot(&["import", there, to, "--full", "--as", "again"]).error(3, &["is damaged at byte"]);
    assert_eq!(varvite(&["check", there]).code, 0);
}

/// What only manifests and files are needed for does not ask for the operator of a host.
#[test]
fn a_snapshot_travels_though_its_operator_is_not_built_in() {
    let (folder, parcel) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let disk = OsDisk::new(text(folder.path())).unwrap();
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    let newer = MergeOperator::new("newer", |_: &[u8], newer: &[u8]| newer.to_vec());
    let options = TableOptions::default().with_operator(newer);
    let mut table = session.create_table("t", options).unwrap();
    table.update(Batch::new().upsert(b"key", b"value")).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("one", content).unwrap();
    drop((table, session));
    let (dir, to) = (text(folder.path()), text(parcel.path()));
    let moved = varvite(&["table", "snapshot", "export", dir, "one", to, "--full"]).yes();
    assert!(moved.starts_with("snapshot one: exported"), "{moved}");
    assert_eq!(varvite(&["check", to]).code, 0);
}

#[test]
fn large_values_come_from_files_and_go_out_as_they_are() {
    let (folder, parcel) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (dir, file) = (text(folder.path()), parcel.path().join("long"));
    let long: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&file, &long).unwrap();
    let short = parcel.path().join("short");
    fs::write(&short, "short\n").unwrap();
    let put = ["table", "put", dir, "code", "--create", "--blob-min", "4096", "--files"];
    let out = varvite(&[&put[..], &["a", text(&file), "b", text(&short)]].concat()).yes();
    assert_eq!(out, "2 keys put; saved as head-0000000001\n");
    let raw = ["table", "get", dir, "code", "a", "--raw"];
    assert!(command(&raw).output().unwrap().stdout == long);
    assert_eq!(varvite(&["table", "get", dir, "code", "b", "--raw"]).yes(), "short\n");
    assert_eq!(varvite(&["table", "get", dir, "code", "b"]).yes(), "short\\x0a\n");
    assert_eq!(varvite(&["table", "get", dir, "code", "c", "--raw"]).code, 1);
    let stat = varvite(&["table", "stat", dir, "code", "--format", "json"]).json();
    assert_eq!((&stat["blob_files"], &stat["blob_bytes"]), (&json!(1), &json!(1_200_000)));
    let out = varvite(&["table", "stat", dir, "code"]).yes();
    assert!(out.contains("in blob files") && out.contains("in 1 file"), "{out}");
    varvite(&["table", "put", dir, "code", "a", "b", "--blob-min", "5000"]).error(2, &["blob-min"]);
    varvite(&["table", "put", dir, "code", "--files", "a", "nowhere"]).error(2, &["nowhere"]);
    assert_eq!(varvite(&["check", dir]).code, 0);
    let mut names =
        fs::read_dir(folder.path().join("segments")).unwrap().map(|it| it.unwrap().path());
    let blob = names.find(|path| path.extension().is_some_and(|it| it == "blob")).unwrap();
    let outline = varvite(&["inspect", text(&blob)]).yes();
    assert!(outline.contains("bytes=1200000"), "{outline}");
    let mut bytes = fs::read(&blob).unwrap();
    bytes[5_000] ^= 1;
    fs::write(&blob, bytes).unwrap();
    varvite(&raw).error(3, &["is damaged at byte"]);
    assert_eq!(varvite(&["check", dir]).code, 3);
}

#[test]
fn a_compressed_table_says_what_it_saves() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    let line =
        |number| json!({ "key": format!("{number:06}"), "value": format!("an address, {number}") });
    let lines: Vec<_> = (0..10_000).map(|number| line(number).to_string()).collect();
    let dump = folder.path().join("dump.jsonl");
    fs::write(&dump, lines.join("\n")).unwrap();
    let store = &format!("{dir}/store");
    let load = |name, compression| {
        let load = ["table", "load", store, name, text(&dump), "--create"];
        varvite(&[&load[..], &["--compression", compression]].concat()).yes();
        let stat = varvite(&["table", "stat", store, name, "--format", "json"]).json();
        let bytes = |key: &str| stat[key].as_u64().unwrap();
        (stat["compression"].clone(), bytes("disk_bytes"), bytes("unpacked_disk_bytes"))
    };
    let (name, plain, unpacked) = load("plain", "none");
    assert_eq!((name, plain), (json!("none"), unpacked));
    let (name, packed, unpacked) = load("packed", "lz4");
    assert_eq!((name, unpacked), (json!("lz4"), plain));
    assert!(packed * 3 < plain * 2, "{packed} of {plain}");
    let out = varvite(&["table", "stat", store, "packed"]).yes();
    assert!(out.contains("lz4; ") && out.contains(" without it"), "{out}");
    let dump_of = |name| varvite(&["table", "dump", store, name]).yes();
    assert_eq!(dump_of("packed"), dump_of("plain"));
    varvite(&["table", "create", store, "empty", "--compression", "lz4"]).yes();
    let stat = varvite(&["table", "stat", store, "empty", "--format", "json"]).json();
    assert_eq!(stat["compression"], json!("lz4"));
    let into = ["table", "load", store, "packed", text(&dump), "--into", "--compression", "lz4"];
    assert_eq!(varvite(&into).code, 2);
    assert_eq!(varvite(&["check", store]).code, 0);
}

#[test]
fn a_range_is_deleted_by_its_bounds() {
    let folder = fruits();
    let dir = text(folder.path());
    let delete = ["table", "delete-range", dir, "fruit"];
    for nothing in ["--prefix", "--first"] {
        let words = [&delete[..], &[nothing, ""]].concat();
        varvite(&words).error(2, &["no bound is given", "--all"]);
    }
    varvite(&delete).error(2, &["--all"]);
    let middle = [&delete[..], &["--after", "apple", "--before", "date"]].concat();
    assert_eq!(varvite(&middle).yes(), "range deleted; saved as head-0000000002\n");
    assert_eq!(scan(&folder, &[]), "apple\tred\ndate\tbrown\n");
    varvite(&[&delete[..], &["--prefix", "da"]].concat()).yes();
    assert_eq!(scan(&folder, &[]), "apple\tred\n");
    varvite(&["table", "delete-range", dir, "veg", "--all"]).error(2, &["\"veg\""]);
    varvite(&[&delete[..], &["--all"]].concat()).yes();
    assert_eq!(scan(&folder, &[]), "");
    let stat = varvite(&["table", "stat", dir, "fruit", "--exact", "--format", "json"]).json();
    assert_eq!(stat["entries_exact"], 0);
}

#[test]
fn a_load_that_fails_leaves_the_store_as_it_was() {
    let folder = fruits();
    let dir = text(folder.path());
    let file = folder.path().join("segments").join("lines");
    let line = |key: &str| format!("{{\"key\":\"{key}\",\"value\":\"v\"}}\n");
    fs::write(&file, [line("b"), line("a"), line("b")].concat()).unwrap();
    let load = ["table", "load", dir, "new", text(&file)];
    varvite(&load).error(2, &["entry 2", "\"a\"", "below", "\"b\" of entry 1", "sort"]);
    varvite(&[&load[..], &["--sort"]].concat()).yes();
    assert_eq!(varvite(&["table", "scan", dir, "new"]).yes(), "a\tv\nb\tv\n");
    fs::write(&file, [&line("a"), "no line\n"].concat()).unwrap();
    varvite(&["table", "load", dir, "newer", text(&file)]).error(3, &["line 2"]);
    fs::remove_file(&file).unwrap();
    varvite(&["table", "load", dir, "newer", text(&file)]).error(2, &["opening"]);
    assert_eq!(scan(&folder, &[]).lines().count(), 4);
    assert_eq!(varvite(&["check", dir]).code, 0);
}

#[test]
fn what_a_user_gets_wrong_is_said_in_one_sentence() {
    let folder = fruits();
    let dir = text(folder.path());
    let long = "k".repeat(4_001);
    varvite(&["table", "put", dir, "fruit", &long, "v"]).error(2, &["4001 bytes", "4000"]);
    varvite(&["table", "put", dir, "fruit", "a", "b", "c"]).error(2, &["no value"]);
    varvite(&["table", "put", dir, "no/slash", "a", "b"]).error(2, &["no/slash"]);
    varvite(&["table", "get", dir, "veg", "a"]).error(2, &["\"veg\"", "fruit"]);
    varvite(&["table", "delete", dir, "veg", "a"]).error(2, &["\"veg\"", "fruit"]);
    varvite(&["table", "scan", dir, "fruit", "--first", "z", "--last", "a"]).error(2, &["swap"]);
    varvite(&["table", "get", dir, "fruit", "a", "--snapshot", "x/y"]).error(2, &["x/y"]);
    let nowhere = folder.path().join("nowhere");
    varvite(&["table", "put", text(&nowhere), "t", "a", "b"]).error(2, &["nowhere", "--create"]);
    varvite(&["table", "get", text(&nowhere), "t", "a"]).error(2, &["nowhere", "does not exist"]);
    varvite(&["check", text(&nowhere)]).error(2, &["nowhere"]);
    let foreign = TempDir::new().unwrap();
    fs::write(foreign.path().join("holiday.jpg"), "…").unwrap();
    varvite(&["table", "get", text(foreign.path()), "t", "a"]).error(2, &["not a varvite session"]);
    varvite(&["table", "put", text(foreign.path()), "t", "a", "b", "--create"])
        .error(2, &["not empty", "holiday.jpg"]);
    varvite(&["check", text(foreign.path())]).error(2, &["not a varvite session"]);
    assert_eq!(scan(&folder, &[]).lines().count(), 4, "nothing was lost");
}

#[test]
fn a_locked_store_names_its_holder_and_can_be_read() {
    let folder = fruits();
    let dir = text(folder.path());
    let session =
        Session::open(OsDisk::new(folder.path()).unwrap(), SessionOptions::default()).unwrap();
    let holder = format!("process {}", std::process::id());
    varvite(&["table", "put", dir, "fruit", "fig", "green"]).error(2, &[&holder]);
    assert_eq!(scan(&folder, &[]).lines().count(), 4);
    assert_eq!(varvite(&["check", dir]).code, 0);
    session.close().unwrap();
    varvite(&["table", "put", dir, "fruit", "fig", "green"]).yes();
}

#[test]
fn a_newer_version_is_named_as_such() {
    let folder = fruits();
    let path = folder.path().join("session");
    let mut bytes = fs::read(&path).unwrap();
    let header = Header::decode("session", &bytes).unwrap();
    assert_eq!(header.kind, FileKind::Session);
    bytes[..32].copy_from_slice(&Header { version: 900, ..header }.encode());
    fs::write(&path, bytes).unwrap();
    let dir = text(folder.path());
    varvite(&["table", "get", dir, "fruit", "apple"]).error(2, &["session", "version", "900"]);
    varvite(&["table", "put", dir, "fruit", "a", "b"]).error(2, &["900"]);
    // So it is in every file, and in every command that reads all of them.
    let (folder, mut newer) = (fruits(), 0);
    let dir = text(folder.path());
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        let header = Header::decode("it", &bytes).unwrap();
        let mut other = bytes.clone();
        other[..32].copy_from_slice(&Header { version: 900, ..header }.encode());
        fs::write(&path, other).unwrap();
        let [checked, scrubbed] = ["check", "scrub"].map(|command| varvite(&[command, dir]));
        assert_eq!(scrubbed.code, checked.code, "{}: {scrubbed:?} {checked:?}", path.display());
        if checked.code == 2 {
            let said = scrubbed.error(2, &["version 900", "use a newer release"]);
            assert!(!said.contains("restore"), "{said}");
            newer += 1;
        }
        fs::write(&path, bytes).unwrap();
    }
    assert!(newer > 1, "{newer}");
}

/// Every file of a store that says something by its bytes, with its path below the folder.
fn files(folder: &TempDir) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for sub in ["segments", "snapshots"] {
        let Ok(entries) = fs::read_dir(folder.path().join(sub)) else { continue };
        found.extend(entries.map(|entry| entry.unwrap().path()));
    }
    found.push(folder.path().join("session"));
    found.retain(|path| fs::metadata(path).unwrap().len() > 0);
    found.sort();
    found
}

#[test]
fn check_says_which_file_is_damaged_and_never_writes() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    varvite(&["bench", "utxo", "setup", "--entries", "20000", "--dir", dir]).yes();
    let sound = varvite(&["check", dir, "--format", "json"]).json();
    assert_eq!((&sound["sound"], &sound["findings"]), (&json!(true), &json!([])));
    assert!(sound["entries"].as_u64().unwrap() >= 20_000, "{sound}");
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        for content in [&damaged[..], &bytes[..bytes.len() / 2]] {
            fs::write(&path, content).unwrap();
            let ran = varvite(&["check", dir]);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(ran.code, 3, "{name}: {ran:?}");
            assert!(ran.out.contains(name), "{name} is not in {ran:?}");
            assert_eq!(fs::read(&path).unwrap(), content, "check does not write");
        }
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(varvite(&["check", dir]).code, 0);
}

#[test]
fn inspect_outlines_every_file_sound_or_damaged() {
    let folder = fruits();
    for path in files(&folder) {
        let sound = varvite(&["inspect", text(&path)]).yes();
        assert!(sound.lines().count() >= 3 && !sound.contains("DAMAGED"), "{sound}");
        let outline = varvite(&["inspect", text(&path), "--format", "json"]).json();
        assert!(outline.is_object(), "{outline}");
        let bytes = fs::read(&path).unwrap();
        for length in [bytes.len() - 1, bytes.len() / 2, 40, 32] {
            fs::write(&path, &bytes[..length.min(bytes.len())]).unwrap();
            let ran = varvite(&["inspect", text(&path)]);
            assert_eq!(ran.code, 3, "{length} bytes of {}: {ran:?}", path.display());
            assert!(!ran.out.is_empty(), "what can be read is shown");
        }
        fs::write(&path, bytes).unwrap();
    }
    let foreign = folder.path().join("letter.txt");
    fs::write(&foreign, "Dear reader, this is a letter of more than thirty-two bytes.").unwrap();
    varvite(&["inspect", text(&foreign)]).error(2, &["not a varvite file"]);
    varvite(&["inspect", text(&folder.path().join("none"))]).error(2, &["none"]);
    varvite(&["inspect", text(folder.path())]).error(2, &["folder"]);
}

#[test]
fn a_full_disk_is_said_and_nothing_is_lost() {
    let mount = TempDir::new().unwrap();
    let script = r#"
        "$2" table put "$1" kept a b --create || exit 78
        "$2" bench utxo setup --entries 200000 --dir "$1/bench"; echo "code $?" >&2
        "$2" check "$1" || exit 79
        "$2" table get "$1" kept a
    "#;
    let Some(ran) = on_small_volume(mount.path(), "3m", script) else { return };
    let (out, err) = (ran.out, ran.err);
    assert_eq!(ran.code, 0, "{out}\n{err}");
    assert!(
        err.contains("error: ") && err.contains("free some space") && err.contains("code 2"),
        "{err}"
    );
    assert!(out.ends_with("b\n"), "{out}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    varvite(&["bench", "utxo", "setup", "--entries", "50000", "--dir", dir]).yes();
    for arguments in [&["table", "dump", dir, "utxo", "--hex"][..], &["table", "scan", dir, "utxo"]]
    {
        let mut child =
            command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        drop(lines);
        let output = child.wait_with_output().unwrap();
        assert!(!line.is_empty());
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    }
}

#[test]
fn completions_and_help_are_there() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(varvite(&["completions", shell]).yes().contains("replay"), "{shell}");
    }
    assert!(varvite(&["--help"]).yes().contains("demo"));
    let ran = finish(command(&["frobnicate"]));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("error:") && ran.err.contains("frobnicate"), "{ran:?}");
}

#[test]
fn tables_are_united_whole_or_bit_by_bit() {
    let folder = fruits();
    let dir = text(folder.path());
    let more = ["banana", "green", "elder", "black"];
    varvite(&[&["table", "put", dir, "more"], &more[..]].concat()).yes();
    varvite(&["table", "snapshot", "create", dir, "before"]).yes();
    varvite(&["table", "delete", dir, "fruit", "apple"]).yes();
    let out = varvite(&["table", "union", dir, "all", "more", "fruit"]).yes();
    assert_eq!(out, "all is a union of 2; saved as head-0000000004\n");
    let all = "banana\tgreen\ncherry\tred\ndate\tbrown\nelder\tblack\n";
    assert_eq!(varvite(&["table", "scan", dir, "all"]).yes(), all);

    let arguments = ["table", "union", dir, "pending", "fruit", "more", "--snapshot", "before"];
    let json = ["--credits", "1", "--format", "json"];
    let report = varvite(&[&arguments[..], &json].concat()).json();
    assert_eq!(report["snapshot"], "head-0000000005");
    let debt = report["union_debt_bytes"].as_u64().unwrap();
    let stat = varvite(&["table", "stat", dir, "pending", "--format", "json"]).json();
    // What was merged of a segment that was not finished is merged again.
    assert!(debt > 0 && stat["union_debt_bytes"].as_u64().unwrap() >= debt, "{stat}");
    assert_eq!(stat["merges"][0]["union"], true);
    assert!(varvite(&["table", "stat", dir, "pending"]).yes().contains("of it in the union"));
    let whole = "apple\tred\nbanana\tyellow\ncherry\tred\ndate\tbrown\nelder\tblack\n";
    assert_eq!(varvite(&["table", "scan", dir, "pending"]).yes(), whole);
    varvite(&["table", "put", dir, "pending", "fig", "violet"]).yes();
    assert_eq!(varvite(&["table", "get", dir, "pending", "apple"]).yes(), "red\n");

    let ran = varvite(&["table", "union", dir, "all", "more"]);
    assert!(ran.code != 0 && ran.err.contains("there is a table all already"), "{}", ran.err);
    let ran = varvite(&["table", "union", dir, "new", "none"]);
    assert!(ran.code != 0 && ran.err.contains("it has: fruit, more, all, pending"), "{}", ran.err);
    varvite(&["check", dir]).yes();
}

#[test]
fn damaged_pages_are_told_and_passed_over_where_that_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    let file = folder.path().join("segments/lines");
    let line = |n: u32| format!("{{\"key\":\"k{n:05}\",\"value\":\"{n}\"}}\n");
    let lines: String = (0..20_000).map(line).collect();
    let other = TempDir::new().unwrap();
    let source = other.path().join("lines");
    fs::write(&source, &lines).unwrap();
    varvite(&["table", "load", dir, "t", text(&source), "--create"]).yes();
    drop(file);
    let segments = fs::read_dir(folder.path().join("segments")).unwrap();
    let path = segments.last().unwrap().unwrap().path();
    let sound = fs::read(&path).unwrap();
    let pages = 20_000 * 13 / 4096;
    for damaged in [&[0][..], &[3], &[3, 4], &[5, 20], &[pages / 2], &[1, 7, 9, 10, 40]] {
        let mut bytes = sound.clone();
        for page in damaged {
            bytes[4096 + page * 4096 + 1000] ^= 1;
        }
        fs::write(&path, &bytes).unwrap();
        let stopped = varvite(&["table", "dump", dir, "t"]);
        assert_eq!(stopped.code, 3, "{}", stopped.err);
        let before = stopped.out.lines().count();
        let told = format!("entries before it: {before} of 20000 in the table");
        assert!(stopped.err.contains(&told) && stopped.err.contains("--skip-damaged"), "{told}");
        assert_eq!(varvite(&["table", "scan", dir, "t"]).out.lines().count(), before);
        let all = varvite(&["table", "dump", dir, "t", "--skip-damaged"]);
        assert_eq!(all.code, 3);
        let printed = all.out.lines().count();
        let told = format!("{printed} entries printed; {} are missing", 20_000 - printed);
        assert!(all.err.contains(&told), "{told}: {}", all.err);
        // A page of these has 200 to 500 entries; no sound one is left out, and nothing else is printed.
        let missing = 20_000 - printed;
        assert!((150 * damaged.len()..600 * damaged.len()).contains(&missing), "{missing}");
        let mut expected = lines.lines();
        assert!(all.out.lines().all(|entry| expected.any(|line| line == entry)));
        let places = all.err.lines().filter(|line| line.starts_with("left out: ")).count();
        assert!(places <= damaged.len() && places >= damaged.len() - 1, "{}", all.err);
        let scanned = varvite(&["table", "scan", dir, "t", "--skip-damaged"]);
        assert_eq!((scanned.code, scanned.out.lines().count()), (3, printed));
        let check = varvite(&["check", dir]);
        let found = check.out.matches("is damaged at byte").count();
        assert_eq!((check.code, found), (3, damaged.len()), "all are told: {}", check.out);
    }
    fs::write(&path, sound).unwrap();
    assert_eq!(varvite(&["table", "dump", dir, "t", "--skip-damaged"]).yes(), lines);
}

#[test]
fn a_dump_of_very_long_values_loads_again() {
    let (folder, parcel) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (dir, file) = (text(folder.path()), parcel.path().join("long"));
    fs::write(&file, vec![b'x'; 20_000_000]).unwrap();
    varvite(&["table", "put", dir, "t", "--create", "--files", "b", text(&file)]).yes();
    varvite(&["table", "put", dir, "t", "a", "1", "c", "3"]).yes();
    for form in [&[][..], &["--binary"]] {
        let dump = parcel.path().join("dump");
        let dumped = command(&[&["table", "dump", dir, "t"], form].concat()).output().unwrap();
        fs::write(&dump, dumped.stdout).unwrap();
        for sort in [&[][..], &["--sort"]] {
            let other = TempDir::new().unwrap();
            let to = text(other.path());
            let load = ["table", "load", to, "t", text(&dump), "--create"];
            varvite(&[&load[..], sort].concat()).yes();
            let raw = command(&["table", "get", to, "t", "b", "--raw"]).output().unwrap().stdout;
            assert!(raw == vec![b'x'; 20_000_000], "{form:?} {sort:?}");
            let stat = varvite(&["table", "stat", to, "t", "--exact", "--format", "json"]).json();
            assert_eq!(stat["entries_exact"], 3);
            assert_eq!(varvite(&["check", to]).code, 0);
        }
    }
}

/// Deletes of keys that were not there make an estimate from counts too low, and nothing tells by how much.
#[test]
fn the_number_of_keys_is_given_by_its_bounds_or_counted() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    let session = Session::create(OsDisk::new(dir).unwrap(), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let (mut puts, mut deletes) = (Batch::new(), Batch::new());
    for number in 0..9_000_u32 {
        puts.insert(format!("there {number}").as_bytes(), b"v");
        deletes.delete(format!("never there {number}").as_bytes());
    }
    table.update(&puts).unwrap();
    table.update(&deletes).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("one", content).unwrap();
    drop(table);
    session.close().unwrap();
    let keys = |more: &[&str]| {
        let out = varvite(&[&["table", "stat", dir, "t"], more].concat()).yes();
        out.lines().find(|line| line.contains("keys")).unwrap().to_owned()
    };
    let line = keys(&[]);
    assert!(line.contains("0 to 9,000; --exact counts them"), "{line}");
    assert!(!line.contains("about"), "{line}");
    assert!(keys(&["--exact"]).contains("9,000 exactly"));
}

#[test]
fn options_beyond_reason_are_refused() {
    let folder = TempDir::new().unwrap();
    let dir = &folder.path().join("b").display().to_string();
    assert_eq!(varvite(&["bench", "utxo", "setup", "--entries", "300", "--dir", dir]).code, 0);
    let run = ["bench", "utxo", "run", "--dir", dir, "--batches", "2", "--batch-size", "10"];
    for more in [
        &["--helpers", "1000000"][..],
        &["--memory-mib", "18446744073709551615"],
        &["--memory-mib", "0"],
        &["--cache", "own", "--cache-mib", "18446744073709551615"],
    ] {
        let words = [&run[..], more].concat();
        assert_eq!(varvite(&words).code, 2, "{more:?}");
    }
}

#[test]
#[cfg(unix)]
fn copies_of_a_store_are_not_made_within_it() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (store, link) = (path("S"), path("L"));
    assert_eq!(varvite(&["table", "create", &store, "t", "--create", "--live"]).code, 0);
    std::os::unix::fs::symlink(&store, &link).unwrap();
    let files = |store: &str| std::fs::read_dir(store).unwrap().count();
    let before = files(&store);
    for command in ["backup", "repair"] {
        for out in [path("S/sub"), path("S/segments/a/b"), path("L/sub"), link.clone()] {
            varvite(&[command, &store, &out]).error(2, &["elsewhere"]);
        }
    }
    assert_eq!(files(&store), before);
    let context = path("C");
    varvite(&["context", "create", &context]).yes();
    varvite(&["repair", &context, &path("C/sub")]).error(2, &["elsewhere"]);
    // A pipe has an end.
    let shown =
        format!("cat {store}/session | {} inspect /dev/stdin", env!("CARGO_BIN_EXE_varvite"));
    let shown = std::process::Command::new("sh").args(["-c", &shown]).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    varvite(&["backup", &store, &path("beside")]).yes();
    varvite(&["inspect", "/dev/zero"]).error(2, &["/dev/zero", "file"]);
    std::os::unix::fs::symlink(path("nowhere"), path("D")).unwrap();
    varvite(&["check", &path("D")]).error(2, &["link that leads nowhere"]);
}
