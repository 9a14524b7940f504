//! `varvite bench` and `varvite demo`: figures by name, answers that are right.

use tempfile::TempDir;

use crate::binary::{keys, text, varvite};

fn setup(entries: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let report = varvite(&[
        "bench",
        "utxo",
        "setup",
        "--entries",
        entries,
        "--dir",
        text(folder.path()),
        "--format",
        "json",
    ])
    .json();
    assert_eq!(report["entries"].to_string(), entries);
    assert_eq!(
        keys(&report),
        ["cpu_us_per_entry", "disk_bytes", "entries", "peak_rss_bytes", "seconds", "written_bytes"]
    );
    folder
}

/// The names that programs rely on.
const RUN_KEYS: [&str; 16] = [
    "batch_us",
    "checkpoints",
    "cpu_us_per_op",
    "disk",
    "disk_bytes",
    "log_syncs",
    "log_written_bytes",
    "open_seconds",
    "ops_per_second",
    "peak_rss_bytes",
    "read_bytes",
    "reads_per_lookup",
    "work_per_batch",
    "write_amplification",
    "written_bytes",
    "wrong",
];

#[test]
fn every_mode_answers_as_the_model_on_every_cache_kind() {
    let folder = setup("20000");
    for mode in ["serial", "pipelined", "lookup", "update"] {
        for cache in ["page", "own", "direct"] {
            // More operations than entries: the draw goes round more than once.
            let report = varvite(&[
                "bench",
                "utxo",
                "run",
                "--dir",
                text(folder.path()),
                "--batches",
                "100",
                "--mode",
                mode,
                "--cache",
                cache,
                "--check",
                "--format",
                "json",
            ])
            .json();
            let mut expected = RUN_KEYS;
            expected.sort_unstable();
            assert_eq!(keys(&report), expected);
            assert_eq!(keys(&report["batch_us"]), ["max", "p50", "p99", "p999"]);
            assert_eq!(keys(&report["work_per_batch"]), ["max", "mean"]);
            assert_eq!(report["wrong"], 0, "{mode} {cache}");
            assert!(report["ops_per_second"].as_f64().unwrap() > 0.0);
            assert!(report["disk_bytes"].as_u64().unwrap() > 20_000 * 94);
        }
    }
}

#[test]
fn adjacent_batches_of_the_pipeline_overlap_and_are_corrected() {
    let folder = setup("2000");
    let out = varvite(&[
        "bench",
        "utxo",
        "run",
        "--dir",
        text(folder.path()),
        "--batches",
        "200",
        "--mode",
        "pipelined",
        "--check",
        "--helpers",
        "1",
    ])
    .yes();
    let row = out.lines().find(|line| line.contains("batch on its way")).expect("the row is there");
    let digits: String = row.chars().filter(char::is_ascii_digit).collect();
    assert!(digits.parse::<u64>().unwrap() > 100, "{row}");
    assert!(out.contains("wrong answers"), "{out}");
}

#[test]
fn a_run_leaves_the_store_as_it_was() {
    let folder = setup("5000");
    let run = |seed: &str| {
        varvite(&[
            "bench",
            "utxo",
            "run",
            "--dir",
            text(folder.path()),
            "--batches",
            "40",
            "--batch-size",
            "100",
            "--check",
            "--seed",
            seed,
            "--format",
            "json",
        ])
        .json()
    };
    assert_eq!(run("1")["wrong"], 0);
    assert_eq!(run("2")["wrong"], 0);
    let stat =
        varvite(&["table", "stat", text(folder.path()), "utxo", "--exact", "--format", "json"])
            .json();
    assert_eq!(stat["entries_exact"], 5_000);
}

#[test]
fn a_loaded_store_answers_as_the_model() {
    for compression in ["none", "lz4"] {
        let folder = TempDir::new().unwrap();
        let dir = text(folder.path());
        let setup = ["bench", "utxo", "setup", "--entries", "20000", "--dir", dir, "--loaded"];
        varvite(&[&setup[..], &["--compression", compression]].concat()).yes();
        let run = ["bench", "utxo", "run", "--dir", dir, "--batches", "100", "--check"];
        let report = varvite(&[&run[..], &["--format", "json"]].concat()).json();
        assert_eq!(report["wrong"], 0);
        let stat = ["table", "stat", dir, "utxo", "--snapshot", "utxo", "--format", "json"];
        assert_eq!(varvite(&stat).json()["compression"], compression);
    }
}

/// A run that begins after a turnover, on a store that nothing else keeps files of.
#[test]
fn a_settled_run_says_what_is_on_disk_in_its_course() {
    let folder = setup("20000");
    let dir = text(folder.path());
    let run = ["bench", "utxo", "run", "--dir", dir, "--batches", "80", "--settle", "80"];
    varvite(&[&run[..], &["--mode", "pipelined"]].concat()).error(2, &["--settle"]);
    let report =
        varvite(&[&run[..], &["--check", "--consume", "--format", "json"]].concat()).json();
    assert_eq!(report["wrong"], 0);
    let disk = |key: &str| report["disk"][key].as_f64().unwrap();
    let (mean, live) = (disk("mean_bytes"), 20_000.0 * 94.0);
    assert!(disk("table_bytes") + disk("spare_bytes") <= mean && mean <= disk("most_bytes"));
    assert!((disk("per_live_byte") - mean / live).abs() < 0.001, "{report}");
    varvite(&run).error(2, &["utxo"]);
}

#[test]
fn a_load_is_measured_sorted_and_not() {
    for sort in [&[][..], &["--sort", "--memory-mib", "1"]] {
        let folder = TempDir::new().unwrap();
        let dir = text(folder.path());
        let load = ["bench", "load", "--entries", "50000", "--dir", dir, "--format", "json"];
        let report = varvite(&[&load[..], sort].concat()).json();
        assert_eq!(
            keys(&report),
            [
                "cpu_seconds",
                "disk_bytes",
                "entries",
                "peak_rss_bytes",
                "seconds",
                "written_bytes",
                "wrong"
            ]
        );
        assert_eq!((&report["entries"], &report["wrong"]), (&50_000.into(), &0.into()));
        let (written, disk) = (&report["written_bytes"], &report["disk_bytes"]);
        let ratio = written.as_f64().unwrap() / disk.as_f64().unwrap();
        assert!(if sort.is_empty() { ratio < 1.01 } else { ratio > 1.5 }, "{report}");
        varvite(&load).error(2, &["store already"]);
    }
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let folder = setup("100");
    let dir = text(folder.path());
    varvite(&["bench", "utxo", "run", "--dir", dir, "--batches", "1"]).error(2, &["--batch-size"]);
    varvite(&[
        "bench",
        "utxo",
        "run",
        "--dir",
        dir,
        "--batches",
        "900000000000",
        "--batch-size",
        "100",
    ])
    .error(2, &["--batches"]);
    varvite(&["bench", "utxo", "setup", "--entries", "10", "--dir", dir])
        .error(2, &["snapshot \"utxo\" already", "choose an empty folder"]);
    let nowhere = folder.path().join("nowhere");
    varvite(&["bench", "utxo", "run", "--dir", text(&nowhere), "--batches", "1"])
        .error(2, &["does not exist", "nowhere"]);
}

#[test]
fn damage_ends_a_run_in_every_mode_and_names_the_file() {
    let folder = setup("300000");
    for entry in std::fs::read_dir(folder.path().join("segments")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // Every page but the first and the last few: header, filter, index and footer stay whole.
        let pages = bytes.len() / 4096;
        for page in 1..pages - 40 {
            bytes[page * 4096 + 1000] ^= 1;
        }
        std::fs::write(&path, bytes).unwrap();
    }
    for mode in ["serial", "pipelined", "lookup"] {
        let run = [
            "bench",
            "utxo",
            "run",
            "--dir",
            text(folder.path()),
            "--batches",
            "50",
            "--mode",
            mode,
        ];
        varvite(&run).error(3, &["segments/", "is damaged at byte"]);
    }
}

#[test]
fn upserts_are_compared_and_their_sums_are_right() {
    let report = varvite(&[
        "bench",
        "upsert",
        "--operations",
        "4000",
        "--buffer-entries",
        "100",
        "--rounds",
        "1",
        "--format",
        "json",
    ])
    .json();
    assert_eq!(
        keys(&report),
        [
            "insert_seconds",
            "lookup_insert_over_upsert",
            "lookup_insert_seconds",
            "operations",
            "upsert_over_insert",
            "upsert_seconds",
            "wrong"
        ]
    );
    assert_eq!(report["wrong"], 0);
}

#[test]
fn the_demo_needs_nothing_and_everything_is_right() {
    let report = varvite(&["demo", "--entries", "30000", "--format", "json"]).json();
    assert_eq!(report["run"]["wrong"], 0);
    assert_eq!(report["entries_walked"], 30_000);
    assert!(report["answers_compared_with_model"].as_u64().unwrap() > 30_000);
    assert_eq!(report["context_checked"]["hash_is_known"], true);
    assert!(report["context_checked"]["pieces"].as_u64().unwrap() > 20_000);
    let out = varvite(&["demo", "--entries", "30000"]).yes();
    assert!(out.contains("every one right ✓") && out.contains("\nlevel "), "{out}");
}

#[test]
fn a_kept_demo_can_be_looked_at() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    varvite(&["demo", "--entries", "5000", "--store", dir]).yes();
    let out = varvite(&["table", "stat", dir, "utxo"]).yes();
    assert!(out.contains("keys"), "{out}");
    let context = folder.path().join("context");
    let log = varvite(&["context", "log", text(&context), "--format", "json"]).json();
    assert_eq!(log[0]["hash"], "CoWPBzVoMa5HQWfPShZ7J1P15MCtY2BxBF6tXnzD15BVDzyMRAw4");
    varvite(&["demo", "--store", dir]).error(2, &["store already"]);
}

#[test]
fn a_killed_run_with_a_log_leaves_whole_batches() {
    let folder = setup("20000");
    let dir = text(folder.path());
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_varvite"))
        .args(["bench", "utxo", "run", "--dir", dir, "--batches", "100000", "--log", "written"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let log = folder.path().join("log");
    let length = || -> u64 {
        let files = std::fs::read_dir(&log).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    };
    while length() < 3_000_000 {
        assert!(run.try_wait().unwrap().is_none(), "the run ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let sound = varvite(&["check", dir, "--format", "json"]).json();
    assert_eq!((&sound["sound"], &sound["live_tables"]), (&true.into(), &1.into()), "{sound}");
    // Every batch deletes as many keys as it inserts.
    let stat = ["table", "stat", dir, "run", "--live", "--exact", "--format", "json"];
    assert_eq!(varvite(&stat).json()["entries_exact"], 20_000);
}

#[test]
fn bench_blob_copies_no_values_when_it_merges() {
    let bench = |blob_min: &str| {
        let folder = TempDir::new().unwrap();
        let dir = text(folder.path());
        let size = ["--entries", "3000", "--value-bytes", "8000", "--rounds", "2"];
        let run = ["bench", "blob", "--dir", dir, "--blob-min", blob_min, "--format", "json"];
        varvite(&[&run[..], &size].concat()).json()
    };
    let (apart, inline) = (bench("4096"), bench("65537"));
    for report in [&apart, &inline] {
        let names = [
            "blob_written_bytes",
            "blobs_read",
            "cpu_us_per_op",
            "live_bytes",
            "merge_read_bytes",
            "peak_disk_bytes",
            "peak_rss_bytes",
            "replaced",
            "seconds",
            "value_bytes",
            "written_bytes",
            "wrong",
        ];
        assert_eq!(keys(report), names);
        assert_eq!((&report["wrong"], &report["replaced"]), (&0.into(), &6000.into()));
    }
    let number = |report: &serde_json::Value, name: &str| report[name].as_u64().unwrap();
    assert_eq!(number(&inline, "blob_written_bytes"), 0);
    assert!(number(&apart, "merge_read_bytes") * 10 < number(&inline, "merge_read_bytes"));
    assert!(number(&apart, "written_bytes") < number(&inline, "written_bytes"));
    assert!(number(&apart, "peak_disk_bytes") < 4 * number(&apart, "live_bytes") + (32 << 20));
}

#[test]
fn ranges_of_a_small_store_are_right_with_every_seed() {
    for entries in ["2", "50", "1000"] {
        let folder = TempDir::new().unwrap();
        let dir = text(folder.path());
        varvite(&["bench", "range", "setup", "--entries", entries, "--dir", dir]).yes();
        for seed in ["1337", "18446744073709551615"] {
            let run = ["bench", "range", "run", "--dir", dir, "--seeks", "300", "--seed", seed];
            let report = varvite(&[&run[..], &["--format", "json"]].concat()).json();
            assert_eq!(report["wrong"], 0, "{report}");
        }
    }
}

#[test]
fn numbers_that_are_too_great_are_refused() {
    let most = "18446744073709551615";
    for words in [
        &["bench", "context", "--memory", "--objects-mib", most][..],
        &["bench", "context", "--memory", "--hashes-mib", "17592186044416"],
        &["bench", "context", "--memory", "--pages-mib", most],
        &["bench", "context", "--memory", "--accounts", "1", "--blocks", "3", "--deletes", "1000"],
        &["bench", "context", "--memory", "--accounts", "9", "--inserts", "0", "--deletes", most],
        &["bench", "proof", "--operations", most],
        &["bench", "proof", "--operations", "1,10000001"],
        &["bench", "upsert", "--buffer-entries", most],
        &["bench", "upsert", "--per-key", most, "--buffer-entries", most],
        &["trace", "replay", "none", "--objects-mib", most],
    ] {
        let ran = varvite(words);
        assert!(ran.code == 2 && !ran.err.contains("panicked"), "{ran:?}");
        assert!(ran.err.contains("for '--") || ran.err.contains("--accounts"), "{ran:?}");
    }
    // As many as there are may go.
    let few = ["bench", "context", "--memory", "--accounts", "9", "--blocks", "4", "--reads", "4"];
    varvite(&[&few[..], &["--inserts", "0", "--deletes", "1"]].concat()).yes();
}
