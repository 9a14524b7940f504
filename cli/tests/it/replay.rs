//! `varvite replay cardano` on the preview chain that the project's data holds.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::{command, finish, keys, text, varvite};

/// The folder of the chain, or `None` with a word about it. In CI it must be there.
fn data() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/cardano-preview");
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "CI needs {}", path.display());
    eprintln!("skipped: there is no {}", path.display());
    None
}

/// The figures of the data's README.
fn expected() -> Value {
    json!({
        "blocks": 40_357,
        "batches": 2_150,
        "transactions": 3_838,
        "created": 32_780,
        "spent": 4_414,
        "unspent": 28_374,
        "lovelace": 29_999_980_923_860_447_u64,
        "fees": 964_139_553,
        "reference_inputs": 56,
        "missing_inputs": 0,
        "chain_breaks": 0,
        "body_hash_mismatches": 0,
        "ada_balanced": 3_838,
        "assets_balanced": 3_838,
        "last_header_hash": "f47eb039637ba8da866d5a400e81abe468833a158802a6edd708c0559240fc48",
        "utxo_digest": "ccf8335c2f58efaa7ab256f8c8cfb91dcdb30d824d100af5bfc5fe3fb08fd87c",
    })
}

/// A report without what differs from run to run, after these were there and plausible.
#[track_caller]
fn figures(mut report: Value) -> Value {
    // A number above 2^53 stands beside its text, for programs that read numbers as floating point.
    let text = report.as_object_mut().unwrap().remove("lovelace_text").unwrap();
    assert_eq!(text, report["lovelace"].to_string());
    let object = report.as_object_mut().expect("a report is an object");
    let cpu = object.remove("cpu_seconds").and_then(|value| value.as_f64()).expect("a number");
    let rss = object.remove("peak_rss_bytes").and_then(|value| value.as_u64()).expect("a number");
    assert!(cpu > 0.0 && rss > 1 << 20, "{cpu} {rss}");
    report
}

/// The first `count` chunks of the chain in a folder of their own, with the genesis beside it.
fn first_chunks(data: &Path, count: usize, indexes: bool) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let immutable = folder.path().join("immutable");
    fs::create_dir(&immutable).unwrap();
    fs::create_dir(folder.path().join("genesis")).unwrap();
    for file in ["byron-genesis.json", "shelley-genesis.json"] {
        fs::write(
            folder.path().join("genesis").join(file),
            fs::read(data.join("genesis").join(file)).unwrap(),
        )
        .unwrap();
    }
    for number in 0..count {
        for extension in ["chunk", "secondary"] {
            if extension == "chunk" || indexes {
                let name = format!("{number:05}.{extension}");
                // Read and written, not copied: the original may be read-only.
                let bytes = fs::read(data.join("immutable").join(&name)).unwrap();
                fs::write(immutable.join(name), bytes).unwrap();
            }
        }
    }
    (folder, immutable)
}

#[test]
fn every_figure_comes_out_on_each_cache_kind() {
    let Some(data) = data() else { return };
    let immutable = data.join("immutable");
    for cache in ["page", "own", "direct"] {
        for buffer in ["16", "8192"] {
            let ran = varvite(&[
                "replay",
                "cardano",
                text(&immutable),
                "--cache",
                cache,
                "--format",
                "json",
                "--write-buffer-kib",
                buffer,
            ]);
            assert_eq!(figures(ran.json()), expected(), "cache {cache}, buffer {buffer} KiB");
        }
    }
}

/// The trace of a replay knows how many transactions its blocks had, also one that goes on.
#[test]
fn a_recording_has_the_transactions_of_its_blocks() {
    let Some(data) = data() else { return };
    let (folder, immutable) = first_chunks(&data, 30, true);
    let place = |name: &str| folder.path().join(name);
    let store = place("store");
    let replayed = |name: &str, chain: &Path| {
        let file = place(name);
        let line = ["replay", "cardano", text(chain), "--store", text(&store), "--format", "json"];
        let line = [&line[..], &["--trace", text(&file)]].concat();
        let report = varvite(&line).json();
        let summary = varvite(&["trace", "summary", text(&file), "--format", "json"]).json();
        (report["transactions"].as_u64().unwrap(), summary)
    };
    let (first, summary) = replayed("first", &immutable);
    assert!(first > 0, "{summary}");
    assert_eq!(summary["transactions"], first);
    assert!(summary["transactions_per_second"].as_f64() > Some(0.0), "{summary}");
    let points = summary["block_times"].as_array().unwrap();
    let of_points: u64 = points.iter().map(|it| it["transactions"].as_u64().unwrap()).sum();
    assert_eq!(of_points, first);
    let (_longer, immutable) = first_chunks(&data, 60, true);
    let (all, summary) = replayed("second", &immutable);
    assert!(all > first, "{summary}");
    assert_eq!(summary["transactions"], all - first, "only what was replayed here");
    let (one, two, page) = (place("first"), place("second"), place("page"));
    varvite(&["trace", "compare", text(&one), text(&two), "--html", text(&page)]).yes();
    assert!(fs::read_to_string(page).unwrap().contains("Transactions a second"));
}

#[test]
fn the_table_for_people_says_the_same() {
    let Some(data) = data() else { return };
    let (store, chain) = (TempDir::new().unwrap(), data.join("immutable"));
    let out = varvite(&["replay", "cardano", text(&chain), "--store", text(store.path())]).yes();
    let line = out.lines().find(|line| line.contains("store on disk")).unwrap();
    assert!(line.contains("MiB"), "what was saved is on disk: {line}");
    for figure in ["40,357", "3,838 of 3,838 ✓", "29,999,980,923.860447", "f47eb03963", "0 ✓"] {
        assert!(out.contains(figure), "{figure} is not in\n{out}");
    }
    assert!(!out.contains('✗'), "{out}");
}

/// Runs `arguments` five times, and kills each run at a random moment before `most`; false when one was
/// faster than that and came to its end.
fn killed_five_times(arguments: &[&str], most: Duration, seed: u64) -> bool {
    let mut random = seed;
    (0..5).all(|_| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (random >> 40) as f64 / f64::from(1 << 24);
        let mut child = command(arguments).stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(most.mul_f64(share));
        child.kill().unwrap();
        !child.wait().unwrap().success()
    })
}

#[test]
fn a_replay_killed_at_five_moments_goes_on_and_gives_every_figure() {
    let Some(data) = data() else { return };
    let immutable = data.join("immutable");
    for (cache, seed) in [("page", 1_u64), ("own", 2), ("direct", 3)] {
        let whole = ["replay", "cardano", text(&immutable), "--cache", cache, "--format", "json"];
        let whole =
            [&whole[..], &["--snapshot-blocks", "700", "--write-buffer-kib", "32"]].concat();
        // How long a whole one takes, in another folder.
        let other = TempDir::new().unwrap();
        let start = Instant::now();
        varvite(&[&whole[..], &["--store", text(other.path())]].concat()).yes();
        // A machine that has less to do since then gets a new store and less time.
        let mut most = start.elapsed() / 6;
        let store = loop {
            let store = TempDir::new().unwrap();
            let arguments = [&whole[..], &["--store", text(store.path())]].concat();
            if killed_five_times(&arguments, most, seed) {
                break store;
            }
            most /= 2;
        };
        let arguments = [&whole[..], &["--store", text(store.path())]].concat();
        let report = varvite(&arguments).json();
        assert_eq!(figures(report), expected(), "cache {cache}");
        // Once more: nothing is left to do, and everything is summed up again.
        assert_eq!(figures(varvite(&arguments).json()), expected());
        let listed =
            varvite(&["table", "snapshot", "list", text(store.path()), "--format", "json"]);
        let listed = listed.json();
        assert_eq!(listed.as_array().unwrap().len(), 1, "older snapshots are deleted: {listed}");
        assert_eq!(varvite(&["check", text(store.path())]).code, 0);
    }
}

/// What a reader beside the writer says of the store at `path`: how many outputs it counts and which
/// snapshot is the newest. `None` before the first snapshot.
fn read_beside(path: &str) -> Option<(u64, String)> {
    let ran = varvite(&["table", "stat", path, "utxo", "--exact", "--format", "json"]);
    if ran.code != 0 {
        let sentence = ran.error(2, &[]);
        let expected = ["no snapshot yet", "not a varvite session", "does not exist"];
        assert!(expected.iter().any(|part| sentence.contains(part)), "{sentence}");
        return None;
    }
    let listed = varvite(&["table", "snapshot", "list", path, "--format", "json"]).json();
    let newest = listed.as_array().unwrap().last().unwrap()["name"].as_str().unwrap();
    Some((ran.json()["entries_exact"].as_u64().unwrap(), newest.to_owned()))
}

#[test]
fn a_store_is_read_while_a_replay_writes_it() {
    let Some(data) = data() else { return };
    let store = TempDir::new().unwrap();
    let immutable = data.join("immutable");
    let arguments = ["replay", "cardano", text(&immutable), "--store", text(store.path())];
    let small = ["--snapshot-blocks", "150", "--write-buffer-kib", "16"];
    let mut writer = command(&[&arguments[..], &small].concat());
    let mut writer = writer.stdout(std::process::Stdio::null()).spawn().unwrap();
    // Which moments are read is luck, and how many; every moment has outputs, and later ones come later.
    let mut last: Option<(u64, String)> = None;
    while writer.try_wait().unwrap().is_none() {
        let found = read_beside(text(store.path()));
        if let Some((count, newest)) = &found {
            let is_later = last.as_ref().is_none_or(|(_, last)| newest >= last);
            assert!(*count > 0 && is_later, "{newest} after {last:?}");
        }
        assert!(found.is_some() || last.is_none(), "no snapshot after {last:?}");
        last = found;
    }
    assert!(writer.wait().unwrap().success());
    assert_eq!(read_beside(text(store.path())).map(|(count, _)| count), Some(28_374));
}

#[test]
fn a_store_goes_on_when_the_chain_grows() {
    let Some(data) = data() else { return };
    let (_folder, immutable) = first_chunks(&data, 3, true);
    let store = TempDir::new().unwrap();
    let replay = |dir: &Path| {
        varvite(&[
            "replay",
            "cardano",
            text(dir),
            "--format",
            "json",
            "--store",
            text(store.path()),
        ])
    };
    assert_eq!(replay(&immutable).json()["blocks"], 648);
    // Another signature of the last header, which no index speaks against, makes another block.
    let last = immutable.join("00002.chunk");
    let whole = fs::read(&last).unwrap();
    let mut other = whole.clone();
    let near_the_end = other.len() - 100;
    other[near_the_end] ^= 1;
    fs::write(&last, other).unwrap();
    fs::remove_file(immutable.join("00002.secondary")).unwrap();
    replay(&immutable).error(2, &["another chain", "choose another --store"]);
    fs::write(&last, whole).unwrap();
    assert_eq!(figures(replay(&data.join("immutable")).json()), expected());
    replay(&immutable).error(2, &["up to 00199.chunk", "not there any more"]);
}

#[test]
fn a_damaged_chunk_ends_the_replay_and_names_the_place() {
    let Some(data) = data() else { return };
    let (_folder, immutable) = first_chunks(&data, 3, true);
    let store = TempDir::new().unwrap();
    let last = immutable.join("00002.chunk");
    let whole = fs::read(&last).unwrap();
    let replay = || {
        varvite(&[
            "replay",
            "cardano",
            text(&immutable),
            "--format",
            "json",
            "--store",
            text(store.path()),
        ])
    };
    fs::write(&last, &whole[..whole.len() - 1]).unwrap();
    replay().error(
        3,
        &["00002.chunk is damaged at byte", "ends inside the block", "fetch the file again"],
    );
    fs::write(&last, &whole[..1000]).unwrap();
    replay().error(3, &["00002.chunk is damaged at byte 1000", "its index lists a block"]);
    let mut flipped = whole.clone();
    flipped[50_000] ^= 4;
    fs::write(&last, flipped).unwrap();
    replay().error(3, &["00002.chunk is damaged at byte", "checksum"]);
    fs::write(immutable.join("00001.secondary"), [0; 57]).unwrap();
    replay().error(3, &["00001.secondary is damaged", "multiple of 56"]);
    fs::remove_file(immutable.join("00001.secondary")).unwrap();
    fs::write(&last, whole).unwrap();
    assert_eq!(replay().json()["blocks"], 648);
}

#[test]
fn without_an_index_a_cut_chunk_is_still_noticed() {
    let Some(data) = data() else { return };
    let (_folder, immutable) = first_chunks(&data, 1, false);
    let chunk = immutable.join("00000.chunk");
    let whole = fs::read(&chunk).unwrap();
    assert_eq!(
        varvite(&["replay", "cardano", text(&immutable), "--format", "json"]).json()["blocks"],
        216
    );
    fs::write(&chunk, &whole[..whole.len() - 7]).unwrap();
    let ran = varvite(&["replay", "cardano", text(&immutable)]);
    ran.error(3, &["00000.chunk is damaged", "goes on past the end"]);
    fs::write(&chunk, b"not a block").unwrap();
    varvite(&["replay", "cardano", text(&immutable)]).error(3, &["00000.chunk is damaged"]);
}

#[test]
fn a_chain_that_does_not_add_up_is_counted_and_answered_with_no() {
    let Some(data) = data() else { return };
    let (_folder, immutable) = first_chunks(&data, 1, false);
    let chunk = immutable.join("00000.chunk");
    let index = fs::read(data.join("immutable/00000.secondary")).unwrap();
    let whole = fs::read(&chunk).unwrap();
    // The end of the first header is its signature: another header hash, but the same body.
    let header_end =
        u16::from_be_bytes([index[8], index[9]]) + u16::from_be_bytes([index[10], index[11]]);
    let mut broken = whole.clone();
    broken[usize::from(header_end) - 1] ^= 1;
    fs::write(&chunk, broken).unwrap();
    let ran = varvite(&["replay", "cardano", text(&immutable), "--format", "json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["chain_breaks"], &report["body_hash_mismatches"]), (&json!(1), &json!(0)));
    let ran = varvite(&["replay", "cardano", text(&immutable)]);
    assert!(ran.code == 1 && ran.out.contains("1 ✗"), "{ran:?}");
}

#[test]
fn folders_that_are_not_a_chain_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("nowhere");
    varvite(&["replay", "cardano", text(&missing)])
        .error(2, &["there is no folder", "nowhere", "immutable"]);
    varvite(&["replay", "cardano", text(folder.path())]).error(2, &["holds no chunk files"]);
    let Some(data) = data() else { return };
    varvite(&["replay", "cardano", text(&data)])
        .error(2, &["no chunk files", "perhaps", "immutable"]);
    let (_other, immutable) = first_chunks(&data, 3, true);
    fs::remove_file(immutable.join("00001.chunk")).unwrap();
    varvite(&["replay", "cardano", text(&immutable)]).error(2, &["00001.chunk", "every chunk"]);
    varvite(&[
        "replay",
        "cardano",
        text(&data.join("immutable")),
        "--genesis",
        text(folder.path()),
    ])
    .error(2, &["byron-genesis.json", "--genesis"]);
    fs::write(folder.path().join("byron-genesis.json"), "{").unwrap();
    varvite(&[
        "replay",
        "cardano",
        text(&data.join("immutable")),
        "--genesis",
        text(folder.path()),
    ])
    .error(2, &["is not JSON"]);
}

#[test]
fn a_store_that_is_not_a_replays_is_left_alone() {
    let Some(data) = data() else { return };
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    varvite(&["bench", "utxo", "setup", "--entries", "1000", "--dir", text(&store)]).yes();
    let immutable = data.join("immutable");
    let ran = varvite(&["replay", "cardano", text(&immutable), "--store", text(&store)]);
    ran.error(2, &["snapshot \"utxo\"", "choose another --store"]);
    fs::write(folder.path().join("letter.txt"), "mine").unwrap();
    let ran = varvite(&["replay", "cardano", text(&immutable), "--store", text(folder.path())]);
    ran.error(2, &["not empty"]);
    assert_eq!(fs::read(folder.path().join("letter.txt")).unwrap(), b"mine");
}

#[test]
fn the_report_has_exactly_the_keys_that_programs_rely_on() {
    let Some(data) = data() else { return };
    let (_folder, immutable) = first_chunks(&data, 1, true);
    let ran = finish(command(&["replay", "cardano", text(&immutable), "--format", "json"]));
    let report = ran.json();
    let mut expected = keys(&expected()).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let more = ["cpu_seconds", "peak_rss_bytes", "lovelace_text"];
    expected.extend(more.map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(keys(&report), expected);
}

#[test]
fn rounds_add_up_to_as_many_chains() {
    let Some(data) = data() else { return };
    let chain = data.join("immutable");
    let replay = ["replay", "cardano", text(&chain), "--write-buffer-kib", "256"];
    let start = std::time::Instant::now();
    let report = varvite(&[&replay[..], &["--rounds", "3", "--format", "json"]].concat()).json();
    // One thread, so no more processor time than went by.
    let (took, cpu) = (start.elapsed().as_secs_f64(), report["cpu_seconds"].as_f64().unwrap());
    assert!(0.0 < cpu && cpu <= took, "{cpu} s of processor time in {took} s");
    for (name, once) in
        [("batches", 2_150), ("created", 32_780), ("spent", 4_414), ("unspent", 28_374)]
    {
        assert_eq!(report[name], 3 * once, "{name}");
    }
    assert_eq!((&report["missing_inputs"], &report["rounds"]), (&0.into(), &3.into()));
    assert_eq!(
        (&report["ada_balanced"], &report["transactions"]),
        (&11_514.into(), &11_514.into())
    );
    assert_eq!(report["operations"], 3 * (32_780 + 4_414 + 8));
    assert_eq!(keys(&report["batch_us"]), ["max", "p50", "p99", "p999"]);
    assert!(report["cpu_us_per_op"].as_f64().unwrap() > 0.0);
    let refused = [&replay[..], &["--rounds", "2", "--store", "s"]].concat();
    assert_eq!(varvite(&refused).code, 2);
}
