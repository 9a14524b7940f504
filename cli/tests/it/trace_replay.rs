//! Where replays begin: at a commit, from a snapshot, on tables that were there, beside a store of Irmin.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use varvite::context::{ChildOrder, CommitInfo, Configuration, Options, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::trace::Recorder;
use varvite::{
    Batch, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent, TableOptions,
};

use crate::binary::run;
use crate::json::copy;
use crate::setups::tables;
use crate::traces::recorded;

/// Hashes of the commits of a store, the oldest first.
fn commits(folder: &Path, store: &str) -> Vec<String> {
    let said = run(folder, &format!("context log {store} --format json")).json();
    let all = said.as_array().unwrap().iter().rev();
    all.map(|commit| commit["hash"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_replay_goes_on_from_a_commit_of_a_snapshot_and_beside_a_store_of_irmin() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    let whole = run(folder, "trace replay T --store S --format json").json();
    let all = commits(folder, "S");
    assert_eq!(whole["commits"], all.len(), "{all:?}");
    let at = &all[all.len() - 4];
    run(folder, &format!("context snapshot export S {at} F")).yes();
    let line = format!("trace replay T --store N --snapshot F --at {at} --format json");
    let said = run(folder, &line).json();
    assert_eq!((&said["mismatches"], &said["commits"]), (&0.into(), &3.into()), "{said}");
    assert!(said["skipped"].as_u64() > whole["skipped"].as_u64(), "{said}");
    assert_eq!(commits(folder, "N").last(), all.last());
    // On the store that has it, too; and there is no other way to begin.
    let line = format!("trace replay T --store S --at {at} --format json");
    assert_eq!(run(folder, &line).json()["commits"], 3);
    run(folder, &format!("trace replay T --store S --snapshot F --at {at}")).error(2, &["already"]);
    run(folder, &format!("trace replay T --at {at}")).error(2, &[]);
    run(folder, "context put S other x/y z").yes();
    run(folder, "trace replay T --store S --at other").error(2, &["other", "--at"]);
    // Irmin's store has the commits and is only read: all is compared that can be.
    run(folder, "context export-irmin N I").yes();
    let line = format!("trace replay T --store S --at {at} --beside I --format json");
    let said = run(folder, &line).json();
    let beside = &said["beside"];
    assert_eq!((&said["mismatches"], &beside["mismatches"]), (&0.into(), &0.into()), "{said}");
    assert_eq!((&beside["commits"], &said["commits"]), (&3.into(), &3.into()), "{said}");
    assert!(beside["seconds"].as_f64() > Some(0.0) && beside["cpu_seconds"].is_number(), "{said}");
    assert!(beside["disk_bytes"].as_u64() > Some(0), "{said}");
}

/// What fails before the first call leaves no store: the next run would take it for one that was there.
#[test]
fn a_replay_that_does_not_begin_leaves_no_store() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    fs::write(folder.join("file"), "mine").unwrap();
    for line in [
        "--store a/N --beside file",
        "--store a/N --beside a/M --at nosuch",
        "--store a/N --at nosuch",
        "--store a/N --objects-mib 100000",
        "--store a/N --snapshot nosuch",
        "--store a/N --snapshot T",
    ] {
        run(folder, &format!("trace replay T {line}")).error(2, &[]);
        assert!(!folder.join("a").exists(), "{line}");
    }
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    trace_of_a_table(folder, "KEPT", Log::None);
    run(folder, "trace replay T --store S").yes();
    for (line, said) in [
        ("KEPT.trace --index always", "--index is of a context"),
        ("KEPT.trace --objects-mib 1", "--objects-mib is of a context"),
        ("KEPT.trace --beside B --beside-index always", "--beside-index is of a context"),
        ("T --log synced", "--log is of tables"),
        ("T --upsert max", "--upsert is of tables"),
        ("T --collect", "--collect is of a store that was there"),
        ("T --store NEW --collect", "--collect is of a store that was there"),
        ("T --store S --index always", "S has one"),
        ("T --beside S --beside-index always", "S has one"),
    ] {
        run(folder, &format!("trace replay {line}")).error(2, &[said]);
        assert!(!folder.join("NEW").exists() && !folder.join("B").exists(), "{line}");
    }
    run(folder, "trace replay T --beside-index always").ended(2);
    run(folder, "trace replay T --store NEW --index always --objects-mib 84").yes();
    run(folder, "trace replay T --store NEW --collect").yes();
    run(folder, "context export-irmin S I").yes();
    let said = "--collect is of a store that may be changed, and I is one of Irmin, which is only read: leave it out\n";
    for line in ["--store I", "--beside I", "--store NEWER --beside I"] {
        let told = run(folder, &format!("trace replay T {line} --collect")).error(2, &[]);
        assert_eq!(told, said, "{line}");
    }
    run(folder, "trace replay T --store I --beside S --collect").yes();
}

#[test]
fn what_both_sides_would_have_is_refused() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    for line in ["--store N --beside N", "--store S --beside ./S", "--store a/b/N --beside a/b/N"] {
        let line = format!("trace replay T {line}");
        run(folder, &line).error(2, &["--store and --beside are both"]);
        assert!(!folder.join("N").exists() && !folder.join("a").exists(), "{line}");
    }
    let line = "trace replay T --store N --beside M --trace R --beside-trace ./R";
    run(folder, line).error(2, &["--trace and --beside-trace are both"]);
    assert!(["N", "M", "R"].iter().all(|it| !folder.join(it).exists()));
}

#[test]
fn a_damaged_store_ends_a_replay_as_damage() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    run(folder, "trace replay T --store S").yes();
    let all = commits(folder, "S");
    let pack = folder.join("S/0000-000000.pack");
    let bytes = fs::read(&pack).unwrap();
    let at = all[all.len() - 3].clone();
    // All of its data, from behind the opening on.
    let mut damaged = bytes.clone();
    for place in (bytes.len() / 3..bytes.len() * 2 / 3).step_by(64) {
        damaged[place] ^= 1;
    }
    fs::write(&pack, damaged).unwrap();
    let ran = run(folder, &format!("trace replay T --store S --at {at}"));
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("is damaged"), "{ran:?}");
}

/// A program that asks for each commit before it makes it, from a snapshot of one.
#[test]
fn a_commit_of_the_snapshot_may_be_asked_for_before_it_is_made() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let disk: Arc<dyn Disk> = OsDisk::new(folder).unwrap();
    let recorder = Recorder::create(&disk, "ASKS", || 0).unwrap();
    let options = Options { recorder: Some(Arc::clone(&recorder)), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut own =
        Store::create(OsDisk::create(folder.join("OWN")).unwrap(), Options::default()).unwrap();
    let [mut tree, mut same] = [store.empty_tree(), own.empty_tree()];
    for tree in [&mut tree, &mut same] {
        tree.add(&["a"], b"1").unwrap();
    }
    let commit = own.commit(&mut same, &CommitInfo::default()).unwrap();
    assert!(!store.exists(&commit).unwrap());
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop((tree, same));
    own.close().unwrap();
    recorder.finish().unwrap();
    run(folder, "context snapshot export OWN last F").yes();
    let said = run(folder, "trace replay ASKS --snapshot F --format json").json();
    assert_eq!((&said["mismatches"], &said["commits"]), (&0.into(), &1.into()), "{said}");
}

#[test]
fn tables_that_were_there_are_opened_and_read() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    trace_of_a_table(folder, "LIVE", Log::Written);
    trace_of_a_table(folder, "KEPT", Log::None);
    // New tables have nothing of it.
    for trace in ["LIVE.trace", "KEPT.trace"] {
        run(folder, &format!("trace replay {trace} --format json")).ended(1);
    }
    let said =
        run(folder, "trace replay KEPT.trace --store KEPT --tables one --format json").json();
    assert_eq!((&said["mismatches"], &said["calls"]), (&0.into(), &4.into()), "{said}");
    // The snapshot has what it had, so that it is so again.
    run(folder, "trace replay KEPT.trace --store KEPT --tables one").yes();
    run(folder, "trace replay LIVE.trace --store LIVE --log written").yes();
    // A live table was changed: it has what the trace put there, and so the second time not what it had.
    run(folder, "trace replay LIVE.trace --store LIVE --log written --format json").ended(1);
    run(folder, "trace replay KEPT.trace --store KEPT --tables two").error(2, &["two"]);
    run(folder, "trace replay KEPT.trace --store KEPT --snapshot FILE").error(2, &["--tables"]);
    run(folder, "trace replay KEPT.trace --at last").error(2, &["--at"]);
}

/// Records a program that opens the table `t`, which has a key, reads it and removes it. The store is as it was before.
fn trace_of_a_table(folder: &Path, store: &str, log: Log) {
    let names: &[&str] = if log == Log::None { &["one"] } else { &[] };
    tables(&folder.join(store), log, names);
    let options = SessionOptions { log, ..SessionOptions::default() };
    // Of a copy, so that the store itself stays.
    copy(&folder.join(store), &folder.join(format!("{store}.copy")));
    let traces = OsDisk::new(folder).unwrap() as Arc<dyn Disk>;
    let recorder = Recorder::create(&traces, &format!("{store}.trace"), || 0).unwrap();
    let options = SessionOptions { recorder: Some(recorder.clone()), ..options };
    let session =
        Session::open(OsDisk::new(folder.join(format!("{store}.copy"))).unwrap(), options).unwrap();
    let mut table = match log {
        Log::None => {
            session.open_snapshot("one", &OpenSnapshot::default()).unwrap().take("t").unwrap()
        }
        _ => session.open_table("t", &OpenTable::default()).unwrap(),
    };
    assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"value"[..]));
    table.update(Batch::new().delete(b"k")).unwrap();
    drop(table);
    session.close().unwrap();
    recorder.finish().unwrap();
}

/// The commands of tables take the newest head for the state of a store, and remove those before it.
#[test]
fn a_trace_saves_no_snapshots_in_a_store_that_somebody_has() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let traces: Arc<dyn Disk> = OsDisk::new(folder).unwrap();
    let recorder = Recorder::create(&traces, "T", || 0).unwrap();
    let options =
        SessionOptions { recorder: Some(Arc::clone(&recorder)), ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let mut table = session.create_table("utxo", TableOptions::default()).unwrap();
    table.update(Batch::new().insert(b"key", b"theirs")).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("head-0000000007", content).unwrap();
    drop((table, session));
    recorder.finish().unwrap();
    run(folder, "table create S utxo --create").yes();
    run(folder, "table put S utxo key value").yes();
    let get = |store| run(folder, &format!("table get {store} utxo key")).yes().trim().to_owned();
    assert_eq!(get("S"), "value");
    let said = run(folder, "trace replay T --store S --format json").json();
    assert_eq!((&said["mismatches"], &said["skipped"]), (&0.into(), &1.into()), "{said}");
    assert_eq!(get("S"), "value");
    for line in ["--store S --collect", "--store NEW --beside S --collect"] {
        let ran = run(folder, &format!("trace replay T {line}"));
        ran.error(2, &["head-0000000007", "--collect"]);
        assert_eq!(get("S"), "value");
    }
    // Nor by tables that are live.
    for line in ["--store S --log written", "--store NEW --beside S --beside-log synced"] {
        let ran = run(folder, &format!("trace replay T {line}"));
        ran.error(2, &["log would make the tables of the trace the state of S"]);
        assert_eq!(get("S"), "value");
        assert!(!folder.join("NEW").exists());
    }
    // A new store has all that the trace has.
    run(folder, "trace replay T --store NEW").yes();
    assert_eq!(get("NEW"), "theirs");
}

#[test]
fn a_trace_of_irmin_that_was_cut_is_said_to_be() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    run(folder, "trace convert T R").yes();
    let bytes = fs::read(folder.join("R")).unwrap();
    let whole = run(folder, "trace replay R --format json").json();
    assert_eq!(whole["cut_bytes"], 0, "{whole}");
    fs::write(folder.join("CUT"), &bytes[..bytes.len() - 3]).unwrap();
    let cut = run(folder, "trace replay CUT --quiet --format json").json();
    assert!(cut["cut_bytes"].as_u64() > Some(0) && cut["is_ended"].is_null(), "{cut}");
    let ran = run(folder, "trace replay CUT");
    assert!(ran.code == 0 && ran.err.contains("was cut"), "{ran:?}");
    let ran = run(folder, "trace convert CUT B");
    assert!(ran.code == 0 && ran.err.contains("was cut"), "{ran:?}");
}

/// Rows of Irmin may come out of a pipe; what is read at its places, or twice, is told to be a file.
#[test]
#[cfg(unix)]
fn rows_are_converted_from_a_pipe_and_nothing_else_is_read_from_one() {
    use std::io::Write;
    use std::process::Stdio;

    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    run(folder, "trace convert T R").yes();
    let piped = |name: &str, words: &[&str]| {
        let bytes = fs::read(folder.join(name)).unwrap();
        let mut command = crate::binary::command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let out = folder.join("OUT").display().to_string();
    let (code, err) = piped("R", &["trace", "convert", "/dev/stdin", &out]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(run(folder, "trace replay OUT").code, 0);
    let other = folder.join("OTHER").display().to_string();
    for words in [
        &["trace", "convert", "/dev/stdin", &other][..],
        &["trace", "replay", "/dev/stdin"],
        &["trace", "summary", "/dev/stdin"],
    ] {
        let (code, err) = piped("T", words);
        assert!(code == 2 && err.contains("write it to a file"), "{words:?}: {err}");
    }
    assert!(!folder.join("OTHER").exists());
    let (code, err) = piped("T", &["trace", "show", "/dev/stdin"]);
    assert!(code == 2 && err.contains("is a trace of varvite"), "{err}");
}

/// A byte of a hash in a row is damage of the file, which is named.
#[test]
fn a_damaged_hash_in_rows_is_damage_of_the_file() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    run(folder, "trace convert T R").yes();
    let mut bytes = fs::read(folder.join("R")).unwrap();
    let at = bytes.windows(3).position(|it| it == b"\x34Co").unwrap();
    bytes[at + 10] ^= 1;
    fs::write(folder.join("FLIPPED"), &bytes).unwrap();
    for line in ["trace replay FLIPPED", "trace convert FLIPPED OUT"] {
        let ran = run(folder, line);
        assert!(ran.code == 3 && ran.err.contains("FLIPPED is damaged in row"), "{ran:?}");
        assert!(!folder.join("OUT").exists());
    }
}

/// Of a trace that was ended nothing is lost without a word, and of one that was not it is said.
#[test]
fn a_trace_that_was_not_ended_is_said_to_be_and_damage_of_one_that_was_is_damage() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    let commands = |name: &str| {
        ["trace info", "trace replay", "trace summary", "trace compare T", "trace convert"].map(
            |it| {
                if it == "trace convert" {
                    format!("{it} {name} OUT{name}")
                } else {
                    format!("{it} {name}")
                }
            },
        )
    };
    let whole = fs::read(folder.join("T")).unwrap();
    for line in commands("T") {
        let ran = run(folder, &line);
        assert!(ran.code == 0 && !ran.err.contains("warning"), "{line}: {ran:?}");
        let says = if line.contains("compare") { "\tyes\n" } else { "ended" };
        assert!(line.contains("convert") || ran.out.contains(says), "{line}: {ran:?}");
    }
    assert_eq!(run(folder, "trace replay T --format json").json()["is_ended"], true);
    // As recorders of before wrote it, and as one that was killed.
    fs::write(folder.join("KILLED"), &whole[..whole.len() - 12]).unwrap();
    fs::write(folder.join("HALF"), &whole[..whole.len() / 2]).unwrap();
    for (name, words) in [("KILLED", "calls may be missing"), ("HALF", "are no whole frame")] {
        for line in commands(name) {
            let ran = run(folder, &line);
            assert!(ran.code == 0 && ran.err.contains("was not ended"), "{line}: {ran:?}");
            assert!(ran.err.contains(words), "{line}: {ran:?}");
        }
        let said = run(folder, &format!("trace summary {name} --quiet --format json")).json();
        assert_eq!(said["is_ended"], false);
    }
    // A byte of the last frame, and what stands behind the end.
    let mut flipped = whole.clone();
    let last = flipped.len() - 20;
    flipped[last] ^= 1;
    fs::write(folder.join("FLIPPED"), &flipped).unwrap();
    fs::write(folder.join("TWICE"), [&whole[..], &whole].concat()).unwrap();
    for name in ["FLIPPED", "TWICE"] {
        for line in commands(name) {
            let ran = run(folder, &line);
            assert!(ran.code == 3 && ran.err.contains(name), "{line}: {ran:?}");
        }
    }
}

#[test]
fn any_option_of_the_library_can_be_tried_on_either_side() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    let sets = "--set pages_bytes=65536 --set hashes_bytes=0 --beside B \
                --beside-set objects_bytes=100000";
    let said = run(folder, &format!("trace replay T --store S {sets} --format json")).json();
    let beside = &said["beside"];
    assert_eq!((&said["mismatches"], &beside["mismatches"]), (&0.into(), &0.into()), "{said}");
    for (set, part) in [
        ("speed=9", "pages_bytes"),
        ("pages_bytes", "pages_bytes="),
        ("pages_bytes=many", "no number"),
    ] {
        let ran = run(folder, &format!("trace replay T --set {set}"));
        assert!(ran.code == 2 && ran.err.contains(part), "{ran:?}");
    }
    trace_of_a_table(folder, "O", Log::None);
    let refused = |set: &str| run(folder, &format!("trace replay O.trace --store N --set {set}"));
    refused("size_ratio=99").error(2, &[]);
    refused("filter_bits=1000").error(2, &["filter_bits"]);
    refused("direct=2").error(2, &["direct", "1 or 0"]);
    assert!(!folder.join("N").exists());
    // What is refused is refused before a store or a recording is made.
    for set in [
        "pages_bytes=99999999999999",
        "durability=2",
        "segment_bytes=100000000",
        "cache_bytes=1099511627776",
    ] {
        run(folder, &format!("trace replay T --store N --trace M --set {set}")).error(2, &[]);
        assert!(!folder.join("N").exists() && !folder.join("M").exists(), "{set}");
    }
}

/// An option is what the store is made with.
#[test]
fn options_that_are_tried_are_those_of_the_store() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    let sets = "--set chunk_bytes=8192 --set durability=0";
    run(folder, &format!("trace replay T --store S {sets} --beside B")).yes();
    let chunks = |name: &str| {
        let files = fs::read_dir(folder.join(name)).unwrap().map(|it| it.unwrap().path());
        files.filter(|it| it.extension().is_some_and(|it| it == "pack")).count()
    };
    assert!(chunks("S") >= 3 * chunks("B"), "{} and {}", chunks("S"), chunks("B"));
}

/// What would do nothing is refused, whatever else is right.
#[test]
fn options_of_what_the_trace_does_not_have_are_refused() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    trace_of_a_table(folder, "R", Log::None);
    fs::create_dir(folder.join("LOWER")).unwrap();
    for (line, word) in [
        ("T --set segment_bytes=1000000", "segment_bytes"),
        ("T --set size_ratio=4", "size_ratio"),
        ("T --beside B --beside-set compression=1", "compression"),
        ("R.trace --set pages_bytes=1000000", "pages_bytes"),
        ("R.trace --set durability=0", "durability"),
        ("R.trace --store S --lower LOWER", "--lower"),
    ] {
        run(folder, &format!("trace replay {line}")).error(2, &[word]);
        assert!(!folder.join("B").exists() && !folder.join("S").exists(), "{line}");
    }
    // It is an option of both.
    assert_eq!(run(folder, "trace replay T --set max_open_files=50").code, 0);
    assert_eq!(run(folder, "trace replay R.trace --set max_open_files=50").code, 1);
}

#[test]
fn a_replay_on_an_archive_reads_what_lies_below() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    run(folder, "trace replay T --store S").yes();
    let all = commits(folder, "S");
    let at = &all[all.len() - 4];
    // The chunk that has them ends, and moves once there is another behind it.
    run(folder, "context archive S --lower BELOW --end-chunk").yes();
    run(folder, "context put S main x/y z --lower BELOW").yes();
    run(folder, "context archive S --lower BELOW --end-chunk").yes();
    let line = format!("trace replay T --store S --at {at} --format json");
    assert_ne!(run(folder, &line).code, 0, "it is read without what lies below");
    let said = run(folder, &format!("{line} --lower BELOW")).json();
    assert_eq!((&said["mismatches"], &said["commits"]), (&0.into(), &3.into()), "{said}");
    run(folder, &format!("trace replay T --store S --lower NONE --at {at}")).error(2, &["NONE"]);
}

/// Both sides of a replay beside each other are runs that are laid beside each other, be one of them Irmin's.
#[test]
fn what_the_store_beside_does_is_recorded_too() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    run(folder, "trace replay T --store S").yes();
    let all = commits(folder, "S");
    run(folder, "context export-irmin S I").yes();
    let at = &all[all.len() - 4];
    let from =
        format!("trace replay T --store S --at {at} --trace OWN --beside I --beside-trace IRMIN");
    let said = run(folder, &format!("{from} --format json")).json();
    assert_eq!((&said["mismatches"], &said["beside"]["mismatches"]), (&0.into(), &0.into()));
    let summary = |name: &str| run(folder, &format!("trace summary {name} --format json")).json();
    let [own, irmin] = ["OWN", "IRMIN"].map(summary);
    let finds = |summary: &serde_json::Value| {
        let actions = summary["actions"].as_array().unwrap();
        let find = actions.iter().find(|it| it["action"] == "find");
        find.unwrap_or_else(|| panic!("{summary}"))["calls"].as_u64()
    };
    assert!(finds(&irmin) > Some(0) && finds(&irmin) == finds(&own), "{irmin}");
    assert!(irmin["is_ended"] == true && irmin["samples"]["disk_bytes"].is_array(), "{irmin}");
    // What the process uses is that of both, so it is neither's.
    assert!(irmin["samples"]["cpu_ns"].is_null(), "{irmin}");
    assert!(own["samples"]["cpu_ns"].is_null() && own["samples"]["disk_bytes"].is_array());
    // Irmin's store takes no commits, and has the blocks of the other, also without what is loaded first.
    assert_eq!((&own["blocks"], &irmin["blocks"]), (&3.into(), &3.into()), "{irmin}");
    let line = "trace replay T --store N --trace NEW --beside I --beside-trace READ";
    run(folder, line).yes();
    let [new, read] = ["NEW", "READ"].map(summary);
    assert_eq!((&new["blocks"], &read["blocks"]), (&5.into(), &5.into()), "{read}");
    let compared = run(folder, "trace compare OWN IRMIN --format json").json();
    assert_eq!(compared["runs"].as_array().unwrap().len(), 2);
    run(folder, &from).error(2, &["OWN"]);
    run(folder, "trace replay T --beside-trace X").ended(2);
    // What does not begin leaves no recording either.
    run(folder, "trace replay T --at nosuch --beside B --beside-trace X").error(2, &[]);
    assert!(!folder.join("X").exists() && !folder.join("B").exists());
}

/// Transactions are those of the blocks that are run, and not of those that are left out.
#[test]
fn a_replay_from_a_commit_has_the_transactions_of_its_blocks() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let disk: Arc<dyn Disk> = OsDisk::new(folder).unwrap();
    let recorder = Recorder::create(&disk, "T", || 0).unwrap();
    let options = Options { recorder: Some(Arc::clone(&recorder)), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    recorder.sample("transactions", 7);
    let mut tree = store.empty_tree();
    for block in 1..=5_u64 {
        recorder.mark("blocks");
        tree.add(&["block"], &block.to_le_bytes()).unwrap();
        recorder.sample("transactions", 7 + 100 * block);
        store.commit(&mut tree, &CommitInfo::default()).unwrap();
    }
    drop((tree, store));
    recorder.finish().unwrap();
    run(folder, "trace replay T --store S --trace ALL").yes();
    let at = &commits(folder, "S")[2];
    run(folder, &format!("trace replay T --store S --at {at} --trace SOME")).yes();
    for (name, blocks, transactions) in [("T", 5, 500), ("ALL", 5, 500), ("SOME", 2, 200)] {
        let summary = run(folder, &format!("trace summary {name} --format json")).json();
        let found = (&summary["blocks"], &summary["transactions"]);
        assert_eq!(found, (&blocks.into(), &transactions.into()), "{name}");
    }
}

#[test]
fn a_trace_of_another_shape_is_replayed_with_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let disk: Arc<dyn Disk> = OsDisk::new(folder).unwrap();
    let recorder = Recorder::create(&disk, "SHAPED", || 0).unwrap();
    let configuration = Configuration::new(2, 3, ChildOrder::HashBits).unwrap();
    let recorded = Some(Arc::clone(&recorder));
    let options = Options { configuration, recorder: recorded, ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..50_u8 {
        tree.add(&[[b'a', number]], &[number]).unwrap();
    }
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop(tree);
    store.close().unwrap();
    recorder.finish().unwrap();
    assert_eq!(run(folder, "trace replay SHAPED").code, 1, "its hashes are not those of Tezos");
    run(folder, "trace replay SHAPED --shape 2,3 --hash-bits --store S --beside B").yes();
    run(folder, "trace replay SHAPED --shape 2,3 --store S").error(2, &["--shape", "leave it out"]);
    assert_eq!(run(folder, "trace replay SHAPED --shape 3,3").code, 1, "nor of this shape");
    run(folder, "trace replay SHAPED --shape 2").ended(2);
    trace_of_a_table(folder, "KEPT", varvite::Log::None);
    run(folder, "trace replay KEPT.trace --shape 2,3").error(2, &["--shape is of a context"]);
    run(folder, "trace replay KEPT.trace --hash-bits").error(2, &["--hash-bits is of a context"]);
}

#[test]
fn the_store_beside_has_a_lower_folder_and_a_log_of_its_own() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    run(folder, "trace replay T --store S").yes();
    let all = commits(folder, "S");
    let at = &all[all.len() - 4];
    run(folder, "context archive S --lower BELOW --end-chunk").yes();
    run(folder, "context put S main x/y z --lower BELOW").yes();
    run(folder, "context archive S --lower BELOW --end-chunk").yes();
    run(folder, "trace replay T --store O").yes();
    let line = format!("trace replay T --store O --at {at} --beside S");
    assert_ne!(run(folder, &line).code, 0, "it is read without what lies below");
    run(folder, &format!("{line} --beside-lower BELOW")).yes();
    run(folder, "trace replay T --beside-lower BELOW").ended(2);
    trace_of_a_table(folder, "KEPT", varvite::Log::None);
    run(folder, "trace replay KEPT.trace --beside L --beside-lower BELOW")
        .error(2, &["--beside-lower"]);
    run(folder, "trace replay T --beside L --beside-log synced").error(2, &["--beside-log"]);
    assert!(!folder.join("L").exists());
    run(folder, "trace replay KEPT.trace --store K --beside L --beside-log written");
    let live =
        |name: &str| run(folder, &format!("info {name} --format json")).json()["live"].clone();
    assert_ne!(live("L"), live("K"));
}

/// A trace does not say how a table joins upserts, and may let go of nothing.
#[test]
fn a_replay_is_told_the_operators_of_tables_and_what_it_may_hold() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let traces = OsDisk::new(folder).unwrap() as Arc<dyn Disk>;
    let recorder = Recorder::create(&traces, "a.trace", || 0).unwrap();
    let options = SessionOptions { recorder: Some(recorder.clone()), ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let operator = Some(varvite::MergeOperator::add_u64());
    let options = TableOptions { operator, ..TableOptions::default() };
    let mut table = session.create_table("balances", options).unwrap();
    for _ in 0..3 {
        table.update(Batch::new().upsert(b"k", &7_u64.to_le_bytes())).unwrap();
    }
    assert_eq!(table.get(b"k").unwrap(), Some(21_u64.to_le_bytes().to_vec()));
    let others: Vec<_> = (0..100)
        .map(|number| session.create_table(&number.to_string(), TableOptions::default()).unwrap())
        .collect();
    drop((table, others, session));
    recorder.finish().unwrap();
    let replay = |flags: &str| run(folder, &format!("trace replay a.trace{flags}"));
    replay("").ended(1);
    for operator in ["add-u64", "balances=add-u64"] {
        replay(&format!(" --upsert {operator}")).yes();
    }
    let told = replay(" --upsert balanecs=add-u64")
        .error(2, &["--upsert balanecs=", "10, 11", "and others"]);
    assert!(!told.contains("2, 3"), "{told}");
    let refused = replay(" --upsert balances=sum");
    assert!(refused.code == 2 && refused.err.contains("use add-u64, max, append"), "{refused:?}");
    replay(" --upsert add-u64 --held-mib 1").error(2, &["open_table", "--held-mib"]);
    // What it found before is told: an answer's code wins.
    let ran = replay(" --store NEW --held-mib 1 --format json");
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(ran.code == 1 && said["mismatches"].as_u64() > Some(0), "{ran:?}");
    assert!(said["first_mismatch"].as_str().is_some_and(|it| it.contains("update")), "{ran:?}");
    let error = &said["varvite"]["error"]["message"];
    assert!(error.as_str().is_some_and(|it| it.contains("open_table")), "{ran:?}");
    // Of a trace that was not read to its end nothing is said, nor is a store that was removed on disk.
    assert!(said["cut_bytes"].is_null() && said["disk_bytes"] == 0, "{ran:?}");
    assert!(!folder.join("NEW").exists());
}
