//! `table` on a store whose state is live: what is read and changed, saved, restored, dropped and renamed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use varvite::disk::os::OsDisk;
use varvite::{
    Batch, Log, MergeOperator, OpenTable, Session, SessionOptions, SnapshotContent, TableOptions,
};

use crate::binary::{Ran, command, finish, text, varvite};

fn table(more: &[&str]) -> Ran {
    varvite(&[&["table"], more].concat())
}

fn options() -> SessionOptions {
    SessionOptions { log: Log::Written, ..SessionOptions::default() }
}

/// A store as an application leaves it: two live tables, and a snapshot of one from before its last update.
fn application() -> TempDir {
    let folder = TempDir::new().unwrap();
    let session = Session::create(OsDisk::new(folder.path()).unwrap(), options()).unwrap();
    let mut utxo = session.create_table("utxo", TableOptions::default()).unwrap();
    let mut stake = session.create_table("stake", TableOptions::default()).unwrap();
    utxo.update(Batch::new().insert(b"tx1", b"old").insert(b"tx2", b"old")).unwrap();
    stake.update(Batch::new().insert(b"pool", b"7")).unwrap();
    let content = SnapshotContent { label: "app", payload: b"", tables: &[&utxo] };
    session.save_snapshot("slot-1", content).unwrap();
    utxo.update(Batch::new().insert(b"tx1", b"new").delete(b"tx2").insert(b"tx3", b"new")).unwrap();
    drop((utxo, stake));
    session.close().unwrap();
    folder
}

/// What the application finds when it opens its table again.
fn found(dir: &Path, table: &str, key: &str) -> Option<String> {
    let session = Session::open(OsDisk::new(dir).unwrap(), options()).unwrap();
    let opened = session.open_table(table, &OpenTable::default()).unwrap();
    let value = opened.get(key.as_bytes()).unwrap();
    drop(opened);
    session.close().unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

#[test]
fn live_tables_are_what_commands_read() {
    let folder = application();
    let dir = text(folder.path());
    let now = "tx1\tnew\ntx3\tnew\n";
    for live in [&[][..], &["--live"]] {
        let of = |more: &[&str]| table(&[more, live].concat());
        assert_eq!(of(&["get", dir, "utxo", "tx1"]).yes(), "new\n");
        assert_eq!(of(&["get", dir, "utxo", "tx2"]).code, 1);
        assert_eq!(of(&["scan", dir, "utxo"]).yes(), now);
        assert_eq!(of(&["dump", dir, "utxo"]).yes().lines().count(), 2);
        let stat = of(&["stat", dir, "utxo", "--exact", "--format", "json"]).json();
        assert_eq!(stat["entries_exact"], 2);
    }
    assert_eq!(table(&["scan", dir, "utxo", "--snapshot", "slot-1"]).yes(), "tx1\told\ntx2\told\n");
    // What only a snapshot has is not read without a word.
    table(&["drop", dir, "utxo"]).yes();
    for arguments in
        [&["get", dir, "utxo", "tx1"][..], &["scan", dir, "utxo"], &["put", dir, "utxo", "a", "b"]]
    {
        table(arguments)
            .error(2, &["no live table \"utxo\"", "(slot-1)", "`varvite table restore`"]);
    }
}

#[test]
fn a_change_of_a_live_table_is_what_the_application_sees() {
    let folder = application();
    let (path, dir) = (folder.path(), text(folder.path()));
    assert_eq!(
        table(&["put", dir, "utxo", "tx4", "by hand"]).yes(),
        "1 key put; saved in the log\n"
    );
    assert_eq!(found(path, "utxo", "tx4").as_deref(), Some("by hand"));
    let put = table(&["put", dir, "utxo", "tx5", "x", "--format", "json"]).json();
    assert_eq!(put, json!({ "snapshot": null, "operations": 1 }));
    table(&["delete", dir, "utxo", "tx4"]).yes();
    assert_eq!(found(path, "utxo", "tx4"), None);
    table(&["delete-range", dir, "utxo", "--prefix", "tx5"]).yes();
    assert_eq!(found(path, "utxo", "tx5"), None);
    table(&["union", dir, "both", "utxo", "stake"]).yes();
    assert_eq!(found(path, "both", "pool").as_deref(), Some("7"));
    table(&["union", dir, "before", "utxo", "--snapshot", "slot-1"]).yes();
    assert_eq!(found(path, "before", "tx2").as_deref(), Some("old"));
    let file = path.join("segments/lines");
    fs::write(&file, table(&["dump", dir, "utxo"]).yes()).unwrap();
    table(&["load", dir, "copy", text(&file)]).yes();
    fs::remove_file(file).unwrap();
    assert_eq!(found(path, "copy", "tx1").as_deref(), Some("new"));
    table(&["put", dir, "made", "a", "b"]).yes();
    assert_eq!(found(path, "made", "a").as_deref(), Some("b"));
    let listed = table(&["snapshot", "list", dir, "--format", "json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "no head was made: {listed}");
    // Of a snapshot, which the application would not see.
    for arguments in [
        &["put", dir, "utxo", "a", "b"][..],
        &["delete", dir, "utxo", "tx1"],
        &["delete-range", dir, "utxo", "--all"],
        &["drop", dir, "utxo"],
        &["rename", dir, "utxo", "other"],
    ] {
        table(&[arguments, &["--snapshot", "slot-1"]].concat())
            .error(2, &["has live tables", "leave --snapshot out"]);
    }
    assert_eq!(varvite(&["check", dir]).code, 0);
}

#[test]
fn a_store_becomes_live_by_hand_and_stays_so() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    table(&["put", dir, "t", "a", "1", "--create", "--live"]).yes();
    table(&["put", dir, "t", "b", "2"]).yes();
    assert_eq!(found(folder.path(), "t", "b").as_deref(), Some("2"));
    table(&["drop", dir, "t"]).yes();
    table(&["put", dir, "u", "a", "3"]).yes();
    assert_eq!(found(folder.path(), "u", "a").as_deref(), Some("3"), "also the first one again");
    table(&["put", dir, "u", "a", "3", "--live", "--snapshot", "x"]).error_of_usage("--snapshot");
}

#[test]
fn a_change_begins_from_the_snapshot_that_is_named_where_there_are_several() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    let session = Session::create(OsDisk::new(dir).unwrap(), SessionOptions::default()).unwrap();
    for (name, value) in [("one", b"1"), ("two", b"2")] {
        let mut made = session.create_table("t", TableOptions::default()).unwrap();
        made.update(Batch::new().insert(b"k", value)).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&made] };
        session.save_snapshot(name, content).unwrap();
    }
    session.close().unwrap();
    let file = folder.path().join("segments/lines");
    for arguments in [
        &["get", dir, "t", "k"][..],
        &["scan", dir, "t"],
        &["stat", dir, "t"],
        &["dump", dir, "t"],
        &["list", dir],
        &["put", dir, "t", "k", "v"],
        &["delete", dir, "t", "k"],
        &["delete-range", dir, "t", "--all"],
        &["union", dir, "u", "t"],
        &["load", dir, "u", text(&file)],
        &["drop", dir, "t"],
        &["rename", dir, "t", "u"],
        &["snapshot", "create", dir, "kept"],
    ] {
        // The helper asks whether the command has the flag that it is told to give.
        table(arguments).error(2, &["--snapshot (one, two)"]);
    }
    table(&["put", dir, "t", "more", "v", "--snapshot", "two"]).yes();
    assert_eq!(table(&["scan", dir, "t"]).yes(), "k\t2\nmore\tv\n");
    // Now there is a head, which a change from elsewhere would lose.
    table(&["put", dir, "t", "k", "v", "--snapshot", "one"])
        .error(2, &["head-0000000001", "leave --snapshot out", "`varvite table restore`"]);
    table(&["put", dir, "t", "k", "v", "--snapshot", "head-0000000001"]).yes();
    table(&["restore", dir, "one"]).error(2, &["a table t already", "--replace"]);
    table(&["restore", dir, "one", "--replace"]).yes();
    assert_eq!(table(&["scan", dir, "t"]).yes(), "k\t1\n");
}

#[test]
fn names_of_heads_are_the_programs_own() {
    let folder = TempDir::new().unwrap();
    let (dir, parcel) = (text(folder.path()), TempDir::new().unwrap());
    table(&["put", dir, "t", "k", "1", "--create"]).yes();
    for name in ["head-2", "head-0000000099"] {
        table(&["snapshot", "create", dir, name]).error(2, &[name, "choose another name"]);
    }
    table(&["snapshot", "create", dir, "head-office"]).yes();
    let to = parcel.path().join("parcel");
    table(&["snapshot", "export", dir, "head-0000000001", text(&to)]).yes();
    table(&["snapshot", "import", dir, text(&to)]).error(2, &["head-0000000001", "--as"]);
    table(&["snapshot", "import", dir, text(&to), "--as", "head-7"]).error(2, &["head-7"]);
    // One of a library's that only looks like a head stays.
    let session = Session::open(OsDisk::new(dir).unwrap(), SessionOptions::default()).unwrap();
    let made = session.create_table("t", TableOptions::default()).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&made] };
    session.save_snapshot("head-7", content).unwrap();
    drop(made);
    session.close().unwrap();
    table(&["put", dir, "t", "k", "2"]).yes();
    let listed = table(&["snapshot", "list", dir, "--format", "json"]).json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["head-0000000002", "head-7", "head-office"]);
    assert_eq!(table(&["get", dir, "t", "k"]).yes(), "2\n");
}

#[test]
fn live_tables_are_saved_and_restored_by_snapshots() {
    let folder = application();
    let (path, dir) = (folder.path(), text(folder.path()));
    for (name, live) in [("kept", &[][..]), ("again", &["--live"])] {
        let create = [&["snapshot", "create", dir, name], live].concat();
        assert_eq!(table(&create).yes(), format!("snapshot {name}: saved\n"));
        assert_eq!(table(&["get", dir, "stake", "pool", "--snapshot", name]).yes(), "7\n");
        assert_eq!(table(&["get", dir, "utxo", "tx1", "--snapshot", name]).yes(), "new\n");
    }
    table(&["delete-range", dir, "utxo", "--all"]).yes();
    table(&["drop", dir, "stake"]).yes();
    table(&["restore", dir, "kept"]).error(2, &["a table utxo already", "--replace"]);
    table(&["restore", dir, "kept", "nope"]).error(2, &["\"nope\"", "utxo"]);
    assert_eq!(found(path, "utxo", "tx1"), None, "nothing was changed");
    let said = table(&["restore", dir, "kept", "--replace"]).yes();
    assert_eq!(said, "kept: 2 tables restored; saved in the log\n");
    assert_eq!(found(path, "utxo", "tx1").as_deref(), Some("new"));
    assert_eq!(found(path, "stake", "pool").as_deref(), Some("7"));
    table(&["restore", dir, "slot-1", "utxo", "--replace"]).yes();
    assert_eq!(found(path, "utxo", "tx2").as_deref(), Some("old"));
    assert_eq!(varvite(&["check", dir]).code, 0);
    // A store of snapshots alone: nothing is live until that is asked for.
    let other = TempDir::new().unwrap();
    let there = text(other.path());
    table(&["put", there, "t", "k", "1", "--create"]).yes();
    table(&["snapshot", "create", there, "kept"]).yes();
    table(&["snapshot", "create", there, "live", "--live"]).error(2, &["no live tables"]);
    table(&["put", there, "t", "k", "2"]).yes();
    table(&["restore", there, "kept", "--live"]).yes();
    assert_eq!(found(other.path(), "t", "k").as_deref(), Some("1"));
    assert_eq!(table(&["get", there, "t", "k"]).yes(), "1\n");
}

#[test]
fn tables_are_listed_renamed_and_dropped() {
    let (live, by_head) = (application(), TempDir::new().unwrap());
    table(&["put", text(by_head.path()), "utxo", "tx1", "new", "tx3", "new", "--create"]).yes();
    table(&["put", text(by_head.path()), "stake", "pool", "7"]).yes();
    for (folder, is_live, snapshot) in
        [(&live, true, json!(null)), (&by_head, false, json!("head-0000000002"))]
    {
        let dir = text(folder.path());
        let list = table(&["list", dir]).yes();
        assert_eq!(list.lines().count(), 2, "{list}");
        assert!(list.contains("utxo") && list.contains("stake"), "{list}");
        let list = table(&["list", dir, "--format", "json"]).json();
        assert_eq!((&list["live"], &list["tables"][0]["name"]), (&is_live.into(), &json!("stake")));
        assert_eq!(list["snapshot"], snapshot);
        table(&["rename", dir, "utxo", "stake"]).error(2, &["a table stake already"]);
        table(&["rename", dir, "nope", "new"]).error(2, &["\"nope\"", "stake"]);
        table(&["drop", dir, "nope"]).error(2, &["\"nope\"", "stake"]);
        table(&["rename", dir, "utxo", "outputs"]).yes();
        assert_eq!(table(&["scan", dir, "outputs"]).yes(), "tx1\tnew\ntx3\tnew\n");
        assert_eq!(table(&["get", dir, "utxo", "tx1"]).code, 2);
        table(&["drop", dir, "outputs"]).yes();
        let list = table(&["list", dir, "--format", "json"]).json();
        let names = |list: &Value| -> Vec<String> {
            let rows = list["tables"].as_array().unwrap().iter();
            rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&list), ["stake"]);
        assert_eq!(varvite(&["check", dir]).code, 0);
    }
    let kept = table(&["list", text(live.path()), "--snapshot", "slot-1"]).yes();
    assert_eq!((kept.lines().count(), kept.split('\t').count()), (1, 4), "{kept}");
}

#[test]
fn tables_with_an_operator_of_their_program_are_listed_all_the_same() {
    let folder = TempDir::new().unwrap();
    let session = Session::create(OsDisk::new(folder.path()).unwrap(), options()).unwrap();
    let own = MergeOperator::new("own", |older, _| older.to_vec());
    drop(session.create_table("t", TableOptions::default().with_operator(own)).unwrap());
    session.close().unwrap();
    let list = table(&["list", text(folder.path()), "--format", "json"]).json();
    assert_eq!(list["tables"][0]["name"], "t");
    let info = varvite(&["info", text(folder.path()), "--format", "json"]).json();
    assert_eq!(info["tables"], json!(["t"]));
}

#[test]
fn what_a_store_is_is_said_in_one_screen() {
    let folder = TempDir::new().unwrap();
    let of = |name: &str| folder.path().join(name);
    let (live, snapshots, context) = (of("live"), of("snapshots-only"), of("context"));
    table(&["put", text(&live), "t", "k", "v", "--create", "--live"]).yes();
    table(&["put", text(&snapshots), "t", "k", "v", "--create"]).yes();
    varvite(&["context", "create", text(&context)]).yes();
    varvite(&["context", "put", text(&context), "main", "a/b", "v"]).yes();
    let info = |path: &Path| varvite(&["info", text(path), "--format", "json"]);
    let told = info(&live).json();
    assert_eq!((&told["kind"], &told["live"]), (&json!("tables"), &json!(true)));
    assert_eq!(told["tables"], json!(["t"]));
    let told = info(&snapshots).json();
    assert_eq!((&told["snapshot"], &told["live"]), (&json!("head-0000000001"), &json!(false)));
    let told = info(&context).json();
    assert_eq!((&told["kind"], &told["branches"]), (&json!("context"), &json!(["main"])));
    let irmin = of("irmin");
    varvite(&["context", "export-irmin", text(&context), text(&irmin)]).yes();
    assert_eq!(info(&irmin).json()["kind"], "irmin");
    let told = info(folder.path()).json();
    let kinds: Vec<_> = told["stores"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["context", "irmin", "tables", "tables"]);
    for (path, says) in [
        (live.as_path(), "kind\ta store of tables"),
        (&context, "kind\ta context\n"),
        (&irmin, "kind\ta context of Irmin"),
        (folder.path(), "context\ta context\n"),
    ] {
        let screen = varvite(&["info", text(path)]).yes();
        assert!(screen.contains(says) && screen.lines().count() < 24, "{screen}");
    }
    fs::create_dir(of("empty")).unwrap();
    assert_eq!(varvite(&["info", text(&of("empty"))]).code, 1);
    varvite(&["info", text(&of("nowhere"))]).error(2, &["does not exist"]);
    varvite(&["info", text(&live.join("session"))]).error(2, &["is a file", "`varvite inspect`"]);
    for file in ["session", "checkpoint"] {
        let kept = fs::read(live.join(file)).unwrap();
        fs::write(live.join(file), [&kept[..20], b"damaged"].concat()).unwrap();
        let ran = varvite(&["info", text(&live)]);
        assert!(ran.code == 3 && ran.out.contains("\ndamage\t"), "{file}: {ran:?}");
        fs::write(live.join(file), kept).unwrap();
    }
    fs::remove_file(live.join("session")).unwrap();
    let ran = varvite(&["info", text(&live)]);
    assert!(ran.out.contains("kind\ta store of tables") && ran.code == 3, "{ran:?}");
}

#[test]
fn keys_that_were_not_there_are_told_and_change_nothing() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    table(&["put", dir, "t", "a", "1", "b", "2", "--create"]).yes();
    let ran = table(&["delete", dir, "t", "x", "y"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "2 keys were not there\n"));
    assert_eq!(
        table(&["delete", dir, "t", "a", "x", "a"]).yes(),
        "1 key deleted; saved as head-0000000002; 1 key was not there\n"
    );
    let json = table(&["delete", dir, "t", "b", "x", "--format", "json"]).json();
    assert_eq!(
        json,
        json!({ "snapshot": "head-0000000003", "operations": 1, "missing": 1, "found": true })
    );
}

#[test]
fn a_command_that_fails_leaves_no_store_that_it_made() {
    let folder = TempDir::new().unwrap();
    let (new, lines) = (folder.path().join("new"), folder.path().join("lines"));
    fs::write(&lines, "{\"key\":\"a\",\"value\":\"1\"}\nno line\n").unwrap();
    for live in [&[][..], &["--live"]] {
        let load = ["table", "load", text(&new), "t", text(&lines), "--create"];
        varvite(&[&load[..], live].concat()).error(3, &["line 2"]);
        assert!(!new.exists());
        let put = ["table", "put", text(&new), "no/slash", "a", "b", "--create"];
        varvite(&[&put[..], live].concat()).error(2, &["no/slash"]);
        assert!(!new.exists());
    }
    let (one, parcel) = (folder.path().join("one"), folder.path().join("parcel"));
    table(&["put", text(&one), "t", "a", "1", "--create"]).yes();
    table(&["snapshot", "export", text(&one), "head-0000000001", text(&parcel)]).yes();
    table(&["snapshot", "import", text(&new), text(&parcel), "--create"]).error(2, &["--as"]);
    assert!(!new.exists());
    // What is somebody else's stays.
    fs::create_dir(&new).unwrap();
    let mut load = command(&["table", "load", text(&new), "t", text(&lines), "--create"]);
    assert_eq!(load.output().unwrap().status.code(), Some(3));
    table(&["put", text(&new), "t", "a", "1", "--create"]).yes();
    varvite(&["table", "load", text(&new), "u", text(&lines), "--create"]).error(3, &["line 2"]);
    assert_eq!(table(&["get", text(&new), "t", "a"]).yes(), "1\n");
}

#[test]
fn a_change_that_fails_leaves_no_live_table_that_it_made() {
    let folder = TempDir::new().unwrap();
    let (store, lines) = (folder.path().join("store"), folder.path().join("lines"));
    let store = text(&store);
    table(&["put", store, "t", "a", "1", "--create", "--live"]).yes();
    let before = table(&["list", store]).yes();
    table(&["put", store, "new", "x", "one", "--operator", "add-u64"]).error(2, &["8 bytes"]);
    fs::write(&lines, "no tab\n").unwrap();
    table(&["put", store, "new", "--from", text(&lines)]).error(3, &["line 1"]);
    fs::write(&lines, "a\t1\nno tab\n").unwrap();
    table(&["put", store, "new", "--from", text(&lines)]).error(3, &["line 2"]);
    fs::write(&lines, "{\"key\":\"a\",\"value\":\"1\"}\nno line\n").unwrap();
    table(&["load", store, "new", text(&lines)]).error(3, &["line 2"]);
    assert_eq!(table(&["list", store]).yes(), before);
}

#[test]
fn a_number_that_is_to_be_added_is_given_as_bytes() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    let put = ["put", dir, "t", "--create", "--operator", "add-u64"];
    let five = "\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00";
    table(&[&put[..], &["x", "5"]].concat()).error(2, &["8 bytes", &format!("give 5 as {five}")]);
    table(&[&put[..], &["78", "05", "--hex"]].concat())
        .error(2, &["give 0x05 as 0500000000000000"]);
    table(&[&put[..], &["x", "five"]].concat()).error(2, &["\"five\" is none"]);
    assert!(fs::read_dir(dir).unwrap().next().is_none(), "no store was left");
    table(&[&put[..], &["x", five]].concat()).yes();
    table(&["put", dir, "t", "x", five, "--upsert"]).yes();
    assert_eq!(table(&["get", dir, "t", "78", "--hex"]).yes(), "0a00000000000000\n");
}

#[test]
fn a_live_store_stays_one_when_its_last_table_is_dropped() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    table(&["put", dir, "t", "a", "1", "--create", "--live"]).yes();
    table(&["snapshot", "create", dir, "kept"]).yes();
    table(&["drop", dir, "t"]).yes();
    // The snapshot has one of that name, which is not what was asked for.
    table(&["get", dir, "t", "a"]).error(2, &["snapshots have one (kept)", "table restore"]);
    table(&["put", dir, "u", "a", "2", "--create"]).yes();
    assert_eq!(table(&["get", dir, "u", "a"]).yes(), "2\n");
    let info = varvite(&["info", dir, "--format", "json"]).json();
    assert!(!info.to_string().contains("head-"), "{info}");
}

#[test]
fn no_output_but_a_value_is_taken_for_one() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    varvite(&["context", "put", dir, "main", "a", "1"]).error(2, &["context"]);
    varvite(&["context", "create", dir]).yes();
    varvite(&["context", "put", dir, "main", "a", "1"]).yes();
    for raw in [&[][..], &["--raw"]] {
        let ran = varvite(&[&["context", "get", dir, "main", "nothing"][..], raw].concat());
        assert_eq!((ran.code, &*ran.out), (1, ""), "{ran:?}");
        assert!(ran.err.contains("nothing"), "{ran:?}");
    }
}

#[cfg(unix)]
#[test]
fn strange_arguments_and_closed_outputs_are_no_panic() {
    use std::os::unix::ffi::OsStrExt;
    let mut strange = command(&["table", "get", "store", "t"]);
    strange.arg(std::ffi::OsStr::from_bytes(b"\xff"));
    assert_eq!(strange.output().unwrap().status.code(), Some(2));
    let mut unheard = command(&["table", "get", "no-store", "t", "k"]);
    unheard.stderr(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    assert_eq!(unheard.status().unwrap().code(), Some(2));
    let folder = TempDir::new().unwrap();
    varvite(&["context", "create", text(folder.path())]).yes();
    let log = ["context", "log", text(folder.path()), "--since", "9223372036854775807-01-01"];
    varvite(&log).error(2, &["is no date"]);
    for year in ["2026", "20260103"] {
        varvite(&[&log[..4], &[year]].concat()).error(2, &["is no date", "@0"]);
    }
    assert_eq!(varvite(&[&log[..4], &["@2026"]].concat()).code, 0);
}

/// A change whose result nobody could be told of has not ended well.
#[cfg(unix)]
#[test]
fn an_output_that_cannot_be_written_is_a_failure() {
    let folder = TempDir::new().unwrap();
    let store = text(folder.path());
    varvite(&["table", "put", "--create", store, "t", "k", "v"]).yes();
    let changes =
        [&["put", store, "t", "k", "w"][..], &["delete", store, "t", "k"], &["count", store, "t"]];
    for (change, format) in
        changes.iter().flat_map(|it| ["table", "json", "jsonl"].map(|format| (it, format)))
    {
        let mut unheard = command(&[&["table"], *change, &["--format", format]].concat());
        unheard.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        finish(unheard).error(2, &["the output", "No space left"]);
    }
}

/// The limit of a file's size is an error, with its number, and not the end of the process.
#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let folder = TempDir::new().unwrap();
    let dump = folder.path().join("dump");
    let line = format!("{{\"key\":\"k\",\"value\":\"{}\"}}\n", "v".repeat(3 << 20));
    fs::write(&dump, line).unwrap();
    let store = folder.path().join("store");
    let binary = command(&["table", "load", "--create", text(&store), "t", text(&dump)]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 64 && exec \"$0\" \"$@\""]);
    limited.arg(binary.get_program()).args(binary.get_args());
    finish(limited).error(2, &["too large", "at most 32.0 KiB", "ulimit -f"]);
    assert!(!store.exists(), "what was made for it is gone");
}
