//! Traces: recorded, replayed, converted, summed up, compared; and the report of a fault.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{run, varvite};

pub fn recorded(folder: &Path) -> Value {
    let line = "bench context --memory --accounts 500 --blocks 5 --reads 40 --updates 20 --inserts 3 \
                --deletes 2 --trace T --timings --format json";
    run(folder, line).json()
}

#[test]
fn a_load_is_recorded_and_replayed_with_every_answer_and_hash() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let bench = recorded(folder);
    let info = run(folder, "trace info T --format json").json();
    // Loading is one commit at least.
    let commits = info["actions"]["commit"].as_u64().unwrap();
    assert!(commits >= 6, "{info}");
    assert!(info["actions"]["find"].as_u64().unwrap() >= 200, "{info}");
    for more in ["", " --index always", " --store S", " --store A --index always"] {
        let line = format!("trace replay T --format json{more}");
        let replayed = run(folder, &line).json();
        assert_eq!(replayed["mismatches"], 0, "{more}: {replayed}");
        assert_eq!(replayed["commits"], commits, "{more}");
        assert!(replayed["cpu_seconds"].as_f64().unwrap() > 0.0);
        let actions = replayed["actions"].as_array().unwrap();
        let finds = actions.iter().find(|it| it["action"] == "find").unwrap();
        assert!(finds["latency"]["p50_us"].as_f64().unwrap() > 0.0, "{finds}");
    }
    let last = run(folder, "context log S --format json").yes();
    assert!(last.contains(bench["last_hash"].as_str().unwrap()), "{last}");
    // On the store that has it all, nothing changes.
    let again = run(folder, "trace replay T --store S --beside A --format json").json();
    assert_eq!((&again["mismatches"], &again["beside"]["mismatches"]), (&0.into(), &0.into()));
    assert_eq!(again["beside"]["commits"], commits);
    run(folder, "check S").yes();
}

#[test]
fn a_load_is_recorded_by_name_as_with_its_own_option() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let bench = recorded(folder);
    let load = "bench context --accounts 500 --blocks 5 --reads 40 --updates 20 --inserts 3 \
                --deletes 2 --dir STORE";
    let line = format!("trace record R {load} --format json");
    let said = run(folder, &line).json();
    assert_eq!(said["last_hash"], bench["last_hash"], "{said}");
    let of = |name: &str| run(folder, &format!("trace info {name} --format json")).json();
    assert_eq!(of("R")["actions"]["find"], of("T")["actions"]["find"]);
    // What its store takes on disk is among what was measured, of one in a folder.
    let samples = |name: &str| {
        let said = run(folder, &format!("trace summary {name} --format json")).json();
        said["samples"].as_object().unwrap().clone()
    };
    let disk = samples("R")["disk_bytes"].as_array().unwrap().clone();
    assert!(disk.len() >= 2 && disk.last().unwrap()[1].as_u64() > disk[0][1].as_u64(), "{disk:?}");
    assert!(!samples("T").contains_key("disk_bytes"));
    // Said in front it is of the load too, and what a load refuses is told as the load tells it.
    run(folder, "--format json trace record Q bench context --memory --accounts 9 --blocks 1")
        .json();
    run(folder, "trace record X check STORE").error(2, &["no load", "bench context"]);
    run(folder, "trace record X bench context --blocks many").error(2, &["many", "bench context"]);
    run(folder, "trace record R bench context --memory --accounts 9").error(2, &["exist"]);
    assert!(!folder.join("X").exists());
}

/// Chunks in a lower folder are a store's: they go with it, or are there for it, and nobody's are left.
#[test]
fn a_load_with_a_lower_folder_leaves_no_chunks_without_a_store() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let load =
        "bench context --accounts 300 --blocks 5 --reads 20 --updates 20 --inserts 3 --deletes 2";
    let plain = run(folder, &format!("{load} --format json")).json();
    // The second time as the first.
    for _ in 0..2 {
        let said = run(folder, &format!("{load} --lower LOW --format json")).json();
        assert!(said["archived_chunks"].as_u64() > Some(0), "{said}");
        assert!(!folder.join("LOW").exists());
        // Moving them is none of what a block writes and syncs.
        let of = |name: &str| (said[name].as_f64().unwrap(), plain[name].as_f64().unwrap());
        for name in ["syncs_per_commit", "written_bytes_per_write"] {
            let (moved, alone) = of(name);
            assert!(moved < 1.5 * alone, "{name}: {moved} and {alone}");
        }
    }
    run(folder, &format!("{load} --dir STORE --lower LOW")).yes();
    assert!(fs::read_dir(folder.join("LOW")).unwrap().count() > 0);
    run(folder, "context check STORE --lower LOW").yes();
    // Before anything is made.
    let ran = run(folder, &format!("{load} --dir OTHER --trace MADE --lower LOW"));
    ran.error(2, &["not empty", "--lower"]);
    assert!(!folder.join("OTHER").exists() && !folder.join("MADE").exists());
}

/// What the reader finds behind the blocks is none of their calls.
#[test]
fn the_finds_of_a_load_are_those_of_its_blocks() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(
        folder,
        "bench context --accounts 300 --blocks 5 --reads 20 --updates 20 --inserts 3 --deletes 2 --trace T",
    )
    .yes();
    let summary = run(folder, "trace summary T --format json").json();
    let actions = summary["actions"].as_array().unwrap();
    let finds = actions.iter().find(|it| it["action"] == "find" && it["prefix"] == "").unwrap();
    let calls = finds["calls"].as_u64().unwrap();
    assert!((100..1_000).contains(&calls), "{calls}");
}

#[test]
fn a_trace_beside_the_files_of_a_store_takes_none_of_its_bytes() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create S").yes();
    let bytes = || run(folder, "info S --format json").json()["disk_bytes"].clone();
    let before = bytes();
    assert!(before.as_u64() > Some(0), "{before}");
    run(folder, "bench context --accounts 10 --blocks 1 --deletes 0 --memory --trace S/T.pack")
        .yes();
    fs::create_dir(folder.join("S/traces")).unwrap();
    fs::rename(folder.join("S/T.pack"), folder.join("S/traces/T")).unwrap();
    assert_eq!(bytes(), before);
}

#[test]
fn other_answers_and_other_files_are_found() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    // The commits that a trace begins with are not in an empty store.
    run(folder, "replay blocks T").error(2, &[]);
    let bytes = fs::read(folder.join("T")).unwrap();
    let mut cut = bytes.clone();
    cut.truncate(bytes.len() - 5);
    fs::write(folder.join("CUT"), &cut).unwrap();
    let info = run(folder, "trace info CUT --quiet --format json").json();
    assert!(info["cut_bytes"].as_u64().unwrap() > 0, "{info}");
    let mut flipped = bytes.clone();
    flipped[100] ^= 1;
    fs::write(folder.join("FLIPPED"), &flipped).unwrap();
    for command in ["info", "summary", "replay"] {
        let ran = run(folder, &format!("trace {command} FLIPPED"));
        ran.error(3, &["FLIPPED is damaged at byte 32"]);
    }
    run(folder, "trace info NOTHING").error(2, &["NOTHING"]);
    fs::write(folder.join("TEXT"), "no trace at all").unwrap();
    run(folder, "trace info TEXT").error(2, &["is not a varvite file"]);
    run(folder, "trace compare T").ended(2);
    run(folder, "bench context --memory --accounts 10 --blocks 1 --trace T").error(2, &["exist"]);
}

#[test]
fn a_trace_on_another_history_has_mismatches() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let line = "bench context --dir S --accounts 300 --blocks 1 --trace T --format json";
    run(folder, line).json();
    // Of another seed: the calls that go on from a checkout miss their commit.
    let line = "bench context --dir O --accounts 300 --blocks 1 --seed 7 --trace U --format json";
    run(folder, line).json();
    let bytes = fs::read(folder.join("T")).unwrap();
    fs::write(folder.join("TRACE"), &bytes).unwrap();
    let replayed = run(folder, "trace replay TRACE --store S --format json").json();
    assert_eq!(replayed["mismatches"], 0, "{replayed}");
    run(folder, "trace compare T U --format json").json();
}

#[test]
fn traces_go_to_irmin_and_back() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    recorded(folder);
    let out = run(folder, "trace convert T R --format json").json();
    assert!(out["rows"].as_u64().unwrap() > 300, "{out}");
    let left_out = out["left_out_by_action"].as_object().unwrap().values();
    assert_eq!(out["left_out"], left_out.map(|it| it.as_u64().unwrap()).sum::<u64>(), "{out}");
    assert_eq!(out["left_out_following"], 0, "{out}");
    let shown = run(folder, "trace show R --limit 0").yes();
    assert!(shown.contains("irmin trace of actions") && !shown.contains("DAMAGED"), "{shown}");
    let replayed = run(folder, "trace replay R --format json").json();
    assert_eq!(replayed["mismatches"], 0, "{replayed}");
    assert!(replayed["commits"].as_u64().unwrap() >= 6, "{replayed}");
    let back = run(folder, "trace convert R B --format json").json();
    assert_eq!(back["mismatches"], 0, "{back}");
    let replayed = run(folder, "trace replay B --format json").json();
    assert_eq!(replayed["mismatches"], 0, "{replayed}");
}

#[test]
fn pages_need_nothing_else_and_figures_add_up() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let bench = recorded(folder);
    let timings = &bench["timings"];
    assert_eq!(timings["blocks"], 5);
    let summary = run(folder, "trace summary T --html PAGE --format json").json();
    let calls: u64 =
        summary["actions"].as_array().unwrap().iter().map(|it| it["calls"].as_u64().unwrap()).sum();
    assert!(summary["calls"] == calls && calls > 300, "{summary}");
    let blocks: u64 = summary["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["blocks"].as_u64().unwrap())
        .sum();
    assert_eq!(summary["blocks"], blocks);
    assert_eq!(blocks, 5, "what is loaded first is none");
    assert!(summary["samples"]["cpu_ns"].as_array().unwrap().len() >= 2, "{summary}");
    run(folder, "trace replay T --trace U --store S").yes();
    let compared = run(folder, "trace compare T U T --html BOTH --format json").json();
    assert_eq!(compared["runs"].as_array().unwrap().len(), 3);
    assert!(compared["runs"].as_array().unwrap().iter().all(|it| it["blocks"] == 5), "{compared}");
    for page in ["PAGE", "BOTH"] {
        let page = fs::read_to_string(folder.join(page)).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        for outside in ["http:", "https:", "<script", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("<svg") && !page.contains("NaN"), "{page}");
    }
}

/// Of a store of Irmin's, each file that it must have.
#[test]
fn a_report_of_a_store_that_lacks_a_file_says_so() {
    let Some(stores) = crate::irmin::data("irmin-stores") else { return };
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let source = stores.join("gc-once/store");
    for name in ["store.dict", "index"] {
        let mut copy = std::process::Command::new("cp");
        copy.arg("-r").arg(&source).arg(folder.join("s"));
        assert!(copy.status().unwrap().success());
        let lost = folder.join("s").join(name);
        let gone = if lost.is_dir() { fs::remove_dir_all(&lost) } else { fs::remove_file(&lost) };
        gone.unwrap();
        let codes = ["check s", "doctor s"].map(|line| run(folder, line).code);
        assert!(codes[1] == 3 || codes == [0, 0], "{name}: {codes:?}");
        assert!(name != "store.dict" || codes == [3, 3], "{name}: {codes:?}");
        fs::remove_dir_all(folder.join("s")).unwrap();
    }
}

#[test]
fn a_report_of_a_fault_has_no_contents_and_says_what_is_damaged() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table create S utxo --create").yes();
    run(folder, "table put S utxo secretkey secretvalue").yes();
    let report = run(folder, "doctor S").yes();
    assert!(!report.contains("secretkey") && !report.contains("secretvalue"), "{report}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["commands"]["check"]["answer"]["sound"], true, "{report}");
    assert!(report["formats"]["segment"]["writes"].as_u64().unwrap() > 1);
    let options = &report["commands"]["doctor --only-options"]["answer"];
    let table = &options["tables"][0];
    assert_eq!(
        (&table["name"], &options["of"]),
        (&"utxo".into(), &"snapshot head-0000000002".into()),
        "{options}"
    );
    assert!(table["size_ratio"].as_u64() >= Some(2), "{options}");
    assert!(table["filter_bits"].is_u64() && table["write_buffer_bytes"].is_u64(), "{options}");
    let files = report["files"]["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["kind"] == "session"), "{files:?}");
    run(folder, "doctor S --out OUT").yes();
    run(folder, "doctor S --out OUT").error(2, &["OUT"]);
    let session = folder.join("S/session");
    let mut bytes = fs::read(&session).unwrap();
    bytes[25] ^= 1;
    fs::write(&session, bytes).unwrap();
    let report = run(folder, "doctor S").ended(3);
    assert!(report.contains("session is damaged"), "{report}");
    run(folder, "bench context --dir C --accounts 50 --blocks 1 --format json").json();
    let report = run(folder, "doctor C --quick").json();
    assert_eq!(report["commands"]["context stat"]["exit_code"], 0, "{report}");
    let options = &report["commands"]["doctor --only-options"]["answer"];
    assert_eq!(
        (&options["context"]["entries"], &options["context"]["index"]),
        (&32.into(), &"minimal".into()),
        "{options}"
    );
    assert!(options["usual"]["objects_bytes"].as_u64() > Some(0), "{options}");
    assert!(report["commands"]["check"].is_null());
}

/// Flips a bit of each byte of a file that holds `bytes`, where they are.
fn damage(file: &Path, bytes: &[u8]) {
    let mut all = fs::read(file).unwrap();
    let places = all.windows(bytes.len()).enumerate().filter(|(_, it)| *it == bytes);
    let places: Vec<_> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{}", file.display());
    for at in places {
        all[at] ^= 1;
    }
    fs::write(file, all).unwrap();
}

#[test]
fn a_report_has_no_paths_of_the_context_no_folders_and_no_strangers_files() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("Secretfolder")).unwrap();
    let home = folder.join("Secretfolder");
    let value = "a value that is long enough to be told from all others, and hidden";
    run(&home, "context create C").yes();
    let store = home.join("C").display().to_string();
    varvite(&["context", "put", &store, "main", "data/contracts/secretname", value]).yes();
    fs::write(home.join("C/customer-x.pdf"), b"%PDF").unwrap();
    let mut files = fs::read_dir(home.join("C")).unwrap().flatten().map(|it| it.path());
    let pack = files.find(|it| it.extension().is_some_and(|it| it == "pack")).unwrap();
    damage(&pack, value.as_bytes());
    let said = run(&home, "doctor C").ended(3);
    let report: Value = serde_json::from_str(&said).unwrap();
    let findings = report["commands"]["check"]["answer"]["findings"].as_array().unwrap();
    assert!(!findings.is_empty() && findings[0]["detail"].is_string(), "{report}");
    for hidden in ["secretname", "contracts", "customer", "Secretfolder", "hidden"] {
        assert!(!said.contains(hidden), "{hidden}: {said}");
    }
    assert_eq!(report["files"]["others"], 1, "{report}");
    // Of an archive it looks at what lies below, too, and does not say where that is.
    run(&home, "context create A").yes();
    let (store, lower) = (home.join("A").display().to_string(), folder.join("Secretlower"));
    let lower = lower.display().to_string();
    varvite(&["context", "put", &store, "main", "data/a", "b"]).yes();
    varvite(&["context", "archive", &store, "--lower", &lower, "--end-chunk"]).yes();
    let ran = varvite(&["doctor", &store, "--lower", &lower]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(ran.code == 0 && !ran.out.contains("Secretlower"), "{ran:?}");
    assert_eq!(report["commands"]["check"]["exit_code"], 0, "{report}");
    assert_eq!(report["commands"]["context stat"]["exit_code"], 0, "{report}");
    // Of a folder of stores it says which there are, and not where; of tables what each level has.
    run(&home, "table create S utxo --create").yes();
    varvite(&["doctor", &home.join("S").display().to_string(), "--lower", &lower])
        .error(2, &["no context", "--lower"]);
    let report = run(&home, "doctor S").json();
    assert!(report["commands"]["table stat utxo"]["answer"]["levels"].is_array(), "{report}");
    let ran = run(folder, "doctor Secretfolder").yes();
    assert!(!ran.contains("Secretfolder") && ran.contains("STORE/S"), "{ran}");
}

#[cfg(unix)]
#[test]
fn names_that_are_no_text_are_refused_and_not_others() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = TempDir::new().unwrap();
    let odd = folder.path().join(OsStr::from_bytes(b"a\xff.trace"));
    let run = |words: &[&str], odd: &Path| {
        let program = env!("CARGO_BIN_EXE_varvite");
        std::process::Command::new(program).args(words).arg(odd).output().unwrap()
    };
    let load = ["bench", "context", "--memory", "--accounts", "9", "--blocks", "1", "--trace"];
    let ran = run(&load, &odd);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("UTF-8"), "{ran:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(&odd, b"there").unwrap();
    let ran = run(&["trace", "info"], &odd);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("UTF-8"), "{ran:?}");
    // And a folder of such a name is told of.
    let store = folder.path().join(OsStr::from_bytes(b"\xff"));
    assert!(run(&["context", "create"], &store).status.success());
    let ran = run(&["info", "--format", "json"], folder.path());
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
}
