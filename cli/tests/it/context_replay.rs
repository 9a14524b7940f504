//! `replay blocks` that is killed and goes on, and bad input of every context command.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use varvite::context::{Options, Store};
use varvite::disk::os::OsDisk;

use crate::binary::{command, text, varvite};

/// The real workload with what it must give, or `None` with a word about it. In CI it must be there.
fn data() -> Option<(PathBuf, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/workloads");
    if folder.is_dir() {
        return Some((folder.join("small.wl.gz"), folder.join("small.expect")));
    }
    assert!(std::env::var_os("CI").is_none(), "CI needs {}", folder.display());
    eprintln!("skipped: there is no {}", folder.display());
    None
}

/// A workload of `blocks` blocks that write only, so that nothing is read that could be summed up.
fn workload(folder: &Path, blocks: u64) -> PathBuf {
    let mut lines = String::new();
    let mut random = 1_u64;
    for block in 0..blocks {
        writeln!(lines, "B {block} {}", if block == 0 { "S" } else { "R" }).unwrap();
        for _ in 0..60 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            let (kind, name, value) = (random >> 60, random >> 52 & 0xfff, random >> 20);
            match kind {
                0 => writeln!(lines, "d accounts/{name:04x}/balance"),
                1 => writeln!(lines, "D accounts/{name:04x}"),
                _ => writeln!(lines, "i accounts/{name:04x}/balance {value:032x}"),
            }
            .unwrap();
        }
        writeln!(lines, "C {block} Tezos level {block}").unwrap();
    }
    let file = folder.join("made.wl");
    fs::write(&file, lines).unwrap();
    file
}

/// The commits of a store, oldest first, as `context log` has them.
fn log(store: &Path) -> Vec<Value> {
    let limit = ["--limit", "1000000", "--format", "json"];
    let mut log = varvite(&[&["context", "log", text(store)][..], &limit].concat()).json();
    let log = log.as_array_mut().unwrap();
    log.reverse();
    log.clone()
}

fn pack_bytes(store: &Path) -> u64 {
    let files = fs::read_dir(store).into_iter().flatten().flatten();
    let packs = files.filter(|file| file.file_name().to_string_lossy().contains(".pack"));
    packs.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Kills a replay whenever its pack has grown by another sixth, and lets it go on; in the end everything
/// is as in a run that nobody killed. When exactly a kill arrives is luck, so any moment is right, also
/// one after the end.
fn killed_and_resumed(arguments: &[&str], blocks: u64) {
    let folder = TempDir::new().unwrap();
    let (whole, store) = (folder.path().join("whole"), folder.path().join("store"));
    let rest = |store| [arguments, &["--store", store, "--format", "json"]].concat();
    let (run_whole, run) = (rest(text(&whole)), rest(text(&store)));
    let report = varvite(&run_whole).json();
    assert_eq!((&report["blocks"], &report["mismatches"]), (&blocks.into(), &0.into()));
    let (expected, end) = (log(&whole), pack_bytes(&whole));
    assert_eq!(expected.len() as u64, blocks);
    let mut before = 0;
    for sixth in 1..6 {
        let mut child = command(&run).stdout(Stdio::null()).spawn().unwrap();
        while pack_bytes(&store) < end * sixth / 6 && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let left = log(&store);
        assert_eq!(left, expected[..left.len()], "a beginning of the same commits");
        assert!(left.len() >= before, "{} commits after {before}", left.len());
        before = left.len();
        assert!(varvite(&["context", "check", text(&store)]).yes().starts_with("sound"));
    }
    let report = varvite(&run).json();
    assert_eq!((&report["blocks"], &report["mismatches"]), (&blocks.into(), &0.into()), "{report}");
    // Without expectations the last one is done again, to see that the store is one of this file.
    let again = usize::from(!arguments.contains(&"--expect"));
    assert_eq!(
        report["resumed"],
        before.saturating_sub(again),
        "what was committed is not done again"
    );
    assert_eq!(log(&store), expected);
    assert!(varvite(&["context", "check", text(&store)]).yes().starts_with("sound"));
}

#[test]
fn a_replay_killed_in_the_middle_goes_on_to_the_same_hashes() {
    let folder = TempDir::new().unwrap();
    let file = workload(folder.path(), 300);
    for index in ["minimal", "always"] {
        killed_and_resumed(&["replay", "blocks", text(&file), "--index", index], 300);
    }
}

#[test]
fn a_replay_of_the_real_blocks_killed_in_the_middle_goes_on_to_the_real_hashes() {
    let Some((file, expected)) = data() else { return };
    let replay = ["replay", "blocks", text(&file), "--expect", text(&expected)];
    killed_and_resumed(&replay, 207);
}

#[test]
fn a_replay_goes_on_only_where_the_store_is_one_of_its_file() {
    let folder = TempDir::new().unwrap();
    let (file, store) = (folder.path().join("w.wl"), folder.path().join("store"));
    let block =
        |id: u64, value: u64| format!("B {id} R\ni a/{id} {value:02x}\nC {id} me no {id}\n");
    let blocks = |values: &[u64]| -> String {
        values.iter().enumerate().map(|(id, value)| block(id as u64, *value)).collect()
    };
    let replay = |values: &[u64]| {
        fs::write(&file, blocks(values)).unwrap();
        let arguments = ["replay", "blocks", text(&file), "--store", text(&store)];
        let report = varvite(&[&arguments[..], &["--format", "json"]].concat()).json();
        (report["resumed"].as_u64().unwrap(), log(&store).len())
    };
    assert_eq!(replay(&[1, 2, 3]), (0, 3));
    assert_eq!(replay(&[1, 2, 3]), (2, 3), "nothing is new");
    assert_eq!(replay(&[1, 2, 3, 4, 5]), (2, 5), "the file grew");
    assert_eq!(replay(&[1, 2, 3]), (2, 5), "the store has more");
    // Dates and messages are alike, but the blocks are not.
    assert_eq!(replay(&[1, 2, 3, 4, 6]), (0, 6));
    assert_eq!(replay(&[1, 2, 3, 4, 6, 7]), (4, 7));
}

/// How often the index of a store was saved, as the name of its snapshot says.
fn saves(store: &Path) -> u64 {
    let names = fs::read_dir(store.join("index/snapshots")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let number = |name: String| u64::from_str_radix(name.strip_suffix(".snapshot")?, 16).ok();
    names.filter_map(number).max().unwrap() + 1
}

#[test]
fn a_replay_saves_the_index_between_blocks() {
    let folder = TempDir::new().unwrap();
    let (file, store) = (workload(folder.path(), 1_100), folder.path().join("store"));
    varvite(&["replay", "blocks", text(&file), "--store", text(&store)]).yes();
    // Once when 1,024 commits were not saved, and once at the end.
    assert_eq!(saves(&store), 2);
}

/// The binary with `arguments`, in a process that may have `files` open.
#[cfg(unix)]
fn with_files(files: u32, arguments: &[&str]) -> crate::binary::Ran {
    let binary = command(arguments);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
    limited.arg(binary.get_program()).args(arguments).stdin(Stdio::null());
    crate::binary::finish(limited)
}

#[cfg(unix)]
#[test]
fn a_store_of_many_chunks_is_used_by_a_process_that_may_open_few_files() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = Options { chunk_bytes: 1, ..Options::default() };
    let mut store = Store::create(OsDisk::create(&path).unwrap(), options).unwrap();
    for number in 0..300_i64 {
        let mut tree = store.empty_tree();
        tree.add(&["a"], &number.to_le_bytes().repeat(9)).unwrap();
        let info = varvite::context::CommitInfo::new(&[], number, "a", "b");
        let hash = store.commit(&mut tree, &info).unwrap();
        store.set_branch(b"main", &hash).unwrap();
    }
    // Not closed, so that a scan opens chunks, too.
    drop(store);
    let path = text(&path);
    for files in [24, 32, 64, 100, 128] {
        let value = format!("{files}");
        with_files(files, &["context", "put", path, "main", "b", &value]).yes();
        assert_eq!(with_files(files, &["context", "get", path, "main", "b"]).yes().trim(), value);
        let log = ["context", "log", path, "--limit", "1000", "--format", "json"];
        assert!(with_files(files, &log).json().as_array().unwrap().len() > 300);
        with_files(files, &["check", path]).yes();
    }
}

/// A store of two blocks.
fn small(folder: &Path) -> String {
    let (file, store) = (folder.join("w.wl"), folder.join("store"));
    fs::write(&file, "B 0 S\ni a/b 00ff\nC 1 me first\nB 1 R\nu a/b 02\nC 2 me second\n").unwrap();
    varvite(&["replay", "blocks", text(&file), "--store", text(&store)]).yes();
    text(&store).to_owned()
}

/// The command ends with `code` and says exactly `sentence`.
#[track_caller]
fn says(arguments: &[&str], code: i32, sentence: &str) {
    let ran = varvite(arguments);
    assert_eq!((ran.code, &*ran.err, &*ran.out), (code, &*format!("error: {sentence}\n"), ""));
}

#[test]
fn an_unknown_commit_is_told_with_where_to_look() {
    let folder = TempDir::new().unwrap();
    let store = small(folder.path());
    let unknown = "CoWK2wKGHVrVFThafrbTMmG7NXYUREDTDiagMRjwdi28xL8GWxkN";
    let missing = format!(
        "commit {unknown} is not in the store at {store}: `varvite context log` lists those that are"
    );
    for what in ["ls", "get", "tree", "du", "dump"] {
        says(&["context", what, &store, unknown], 2, &missing);
    }
    says(&["context", "diff", &store, "last", unknown], 2, &missing);
    says(&["context", "diff", &store, unknown, "last"], 2, &missing);
    says(
        &["context", "ls", &store, "CoV9"],
        2,
        "there is no branch \"CoV9\", and no commit whose hash begins so: `varvite context branch list` and \
         `varvite context log` show which there are",
    );
}

#[test]
fn a_path_that_leads_nowhere_is_told_with_how_far_it_leads() {
    let folder = TempDir::new().unwrap();
    let store = small(folder.path());
    let through = "nothing is at \"a/b/c/d\" in last: \"a/b\" is a value, and nothing is below a \
                   value: print it with `varvite context get`\n";
    let absent = "nothing is at \"a/x\" in last: \"a\" has no child \"x\": list what it has with \
                  `varvite context ls`\n";
    let above = "nothing is at \"x/y\" in last: the root has no child \"x\": list what it has with \
                 `varvite context ls`\n";
    for what in ["ls", "get", "tree", "du"] {
        for (path, sentence) in [("a/b/c/d", through), ("a/x", absent), ("x/y", above)] {
            let ran = varvite(&["context", what, &store, "last", path]);
            // What they print is a value, or a list.
            assert_eq!((ran.code, &*ran.out, &*ran.err), (1, "", sentence), "{what} {path}");
            let json = varvite(&["context", what, &store, "last", path, "--format", "json"]);
            let report: Value = serde_json::from_str(&json.out).unwrap();
            assert_eq!((json.code, &report["found"]), (1, &false.into()), "{what} {path}");
        }
    }
    says(
        &["context", "get", &store, "last", "a"],
        2,
        "\"a\" is a directory: list it with `varvite context ls`",
    );
    says(
        &["context", "get", &store, "last"],
        2,
        "the root of last is a directory: list it with `varvite context ls`",
    );
    says(
        &["context", "get", &store, "last", "zz", "--hex"],
        2,
        "the step \"zz\" is not hexadecimal: give an even number of digits, or leave --hex out",
    );
}

#[test]
fn a_store_is_written_by_one_at_a_time_and_read_meanwhile() {
    let folder = TempDir::new().unwrap();
    let store = small(folder.path());
    let writer = Store::open(OsDisk::new(&store).unwrap(), Options::default()).unwrap();
    let refused =
        format!("{store}/lock is locked by process {}: close it there first", std::process::id());
    says(&["context", "check", &store, "--rebuild-index"], 2, &refused);
    let file = folder.path().join("w.wl");
    let again = ["replay", "blocks", text(&file), "--store", &store];
    says(&again, 2, &refused);
    assert!(varvite(&["context", "check", &store]).yes().starts_with("sound: 2 commits"));
    drop(writer);
    varvite(&again).yes();
    let rebuilt = varvite(&["context", "check", &store, "--rebuild-index"]).yes();
    assert!(
        rebuilt.starts_with("sound: 2 commits, 2 pieces of directories, 0 values"),
        "{rebuilt}"
    );
}

#[test]
fn a_folder_that_is_no_context_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let (store, other) = (small(folder.path()), folder.path().join("other"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "mine").unwrap();
    let file = folder.path().join("w.wl");
    let name = text(&other);
    says(
        &["replay", "blocks", text(&file), "--store", name],
        2,
        &format!(
            "{name} is not empty (it has letter.txt): choose an empty folder for the context store"
        ),
    );
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "nothing was made there");
    let none = format!(
        "{name} holds no context store: it has no file \"control\"; give the folder of one, or \
         create one there"
    );
    says(&["context", "log", name], 2, &none);
    says(&["context", "check", name, "--rebuild-index"], 2, &none);
    let nowhere = folder.path().join("nowhere");
    let missing =
        format!("{} does not exist: give the folder of a varvite store", nowhere.display());
    says(&["context", "stat", text(&nowhere)], 2, &missing);
    // The check of whole stores knows contexts too.
    assert!(varvite(&["check", &store]).yes().starts_with("sound: 2 commits"));
    let bench = ["bench", "context", "--accounts", "10", "--blocks", "1", "--dir", &store];
    says(
        &bench,
        2,
        &format!("{store} holds a context store already: open it, or choose another folder"),
    );
}

#[test]
fn a_bad_line_of_a_workload_is_named_by_its_number() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("bad.wl");
    let name = text(&file);
    for (lines, number, what) in [
        ("B 0 S\ni a 01\nq a\n", 3, "it is no operation of the format"),
        ("B 0 S\ni a 0\n", 2, "the value is not hex"),
        ("# c\n\nr a\n", 3, "no block has begun"),
        ("B 0 S\nB 1 S\n", 2, "a block begins before the one before it ended"),
        ("B x S\n", 1, "the block has no number"),
        ("B 0 Q\n", 1, "the block is neither S nor R"),
        ("B 0 S\ni a 01\nC now me text\n", 3, "the date is not a number of seconds"),
    ] {
        fs::write(&file, lines).unwrap();
        let sentence =
            format!("line {number} of {name}: {what}; the format is in docs/guide/context.md");
        says(&["replay", "blocks", name], 3, &sentence);
    }
    fs::write(&file, "B 7 S\ni a 01\n").unwrap();
    let cut = format!("{name} ends within block 7: it is cut short, get it again");
    says(&["replay", "blocks", name], 3, &cut);
    let good = workload(folder.path(), 2);
    let bad = format!(
        "line 1 of {name} is not \"<id> <commit> <root> <checksum>\": give the .expect file of the \
         workload"
    );
    says(&["replay", "blocks", text(&good), "--expect", name], 3, &bad);
}

#[test]
fn files_of_another_kind_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let store = small(folder.path());
    let file = folder.path().join("vectors.json");
    let name = text(&file);
    for (content, sentence) in [
        (
            "{\"what\": 1}\n",
            format!(
                "{name} is of a kind that is not known here: give trees, inodes, proofs, encoded \
                 proofs, commits, contents, nodes, seeded hashes or commit scripts"
            ),
        ),
        ("", format!("{name} holds no vector: give another file")),
        ("[]", format!("{name} holds no vector: give another file")),
    ] {
        fs::write(&file, content).unwrap();
        says(&["conformance", name], 2, &sentence);
    }
    fs::write(&file, [0xff, 0xfe, 0]).unwrap();
    says(&["conformance", name], 2, &format!("{name} is not text: give a vector file"));
    varvite(&["conformance", &format!("{store}/control")]).error(2, &["control", "vector file"]);
    let dumps = folder.path().join("dumps");
    fs::create_dir(&dumps).unwrap();
    let none = format!(
        "{} has no expected.json: give the folder with it and the dumps that it names",
        dumps.display()
    );
    says(&["replay", "tezos-json", text(&dumps)], 2, &none);
    says(
        &["inspect", name],
        2,
        &format!("{name} is not a varvite file: it does not begin with \"varvite\""),
    );
}
