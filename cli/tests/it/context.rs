//! `conformance`, `replay blocks`, `bench context` and `context`.

use std::path::Path;

use crate::binary::varvite;

const EMPTY: &str = "81e47a19e6b29b0a65b9591762ce5143ed30d0261e5d24a3201752506b20f15c";
const ONE: &str = "7a31b1c8e3af61756b336bcfc3b0c292c89b40cc8a5080ba99c45463d110ce8b";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn conformance_counts_what_holds_and_ends_with_1_when_something_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.jsonl"), folder.path().join("bad.jsonl"));
    let line = |value: &str, hash: &str| format!("{{\"value\":\"{value}\",\"hash\":\"{hash}\"}}\n");
    std::fs::write(&good, line("", EMPTY) + &line("00", ONE)).unwrap();
    std::fs::write(&bad, line("", EMPTY) + &line("01", ONE)).unwrap();
    let report = varvite(&["conformance", text(&good), "--format", "json"]).json();
    assert_eq!((report["passed"].as_u64(), report["failed"].as_u64()), (Some(2), Some(0)));
    let ran = varvite(&["conformance", text(&good), text(&bad)]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let last = ran.out.lines().next_back().unwrap();
    assert!(last.starts_with("total\t") && last.contains("\t3\t1\t"), "{last}");
    std::fs::write(&bad, "{\"what\":1}\n").unwrap();
    varvite(&["conformance", text(&bad)]).error(2, &["bad.jsonl", "kind"]);
    std::fs::write(&bad, line("", EMPTY) + "not json\n").unwrap();
    varvite(&["conformance", text(&bad)]).error(3, &["line 2", "bad.jsonl"]);
}

/// A workload of two blocks, replayed into `store`.
pub fn replayed(folder: &Path) -> String {
    let (file, store) = (folder.join("w.wl"), folder.join("store"));
    let workload = "B 0 S\ni a/b 00ff\ni a/c/d 01\nC 1 me first\n\
                    B 1 R\nr a/b\nm a/x\nl a\nu a/b 02\nD a/c\nC 2 me the second\n";
    std::fs::write(&file, workload).unwrap();
    let report =
        varvite(&["replay", "blocks", text(&file), "--store", text(&store), "--format", "json"])
            .json();
    assert_eq!((report["blocks"].as_u64(), report["operations"].as_u64()), (Some(2), Some(5)));
    text(&store).to_owned()
}

/// Stores that the program makes, by each command that does.
#[test]
fn no_two_stores_of_the_program_have_one_identity() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut identities = std::collections::BTreeSet::new();
    for folder in &folders {
        let at = |name: &str| folder.path().join(name);
        replayed(folder.path());
        varvite(&["context", "create", text(&at("created"))]).yes();
        varvite(&["table", "put", text(&at("table")), "t", "a", "b", "--create"]).yes();
        for file in ["store/control", "store/index/session", "created/control", "table/session"] {
            let bytes = std::fs::read(at(file)).unwrap();
            // The store in the header.
            identities.insert(u64::from_le_bytes(bytes[20..28].try_into().unwrap()));
        }
    }
    assert_eq!((identities.len(), identities.contains(&0)), (8, false), "{identities:x?}");
    let [ours, theirs] = folders.each_ref().map(|folder| folder.path().join("store"));
    std::fs::copy(theirs.join("control"), ours.join("control")).unwrap();
    varvite(&["context", "log", text(&ours)]).error(2, &["belongs to another store"]);
}

#[test]
fn a_store_made_by_hand_takes_branches_and_merges() {
    let folder = tempfile::tempdir().unwrap();
    let store = text(&folder.path().join("store")).to_owned();
    let run = |arguments: &[&str]| {
        let (command, rest) = arguments.split_first().unwrap();
        varvite(&[&["context", command, &store], rest].concat())
    };
    run(&["create"]).yes();
    run(&["create"]).error(2, &["context store already"]);
    assert_eq!(varvite(&["context", "branch", "list", &store]).yes(), "");
    assert_eq!(varvite(&["context", "branch", "list", &store, "--format", "json"]).yes(), "{}\n");
    assert_eq!(run(&["log"]).yes(), "");
    let put = |branch: &str, path: &str, value: &str| {
        run(&["put", branch, path, value, "--date", "7", "--format", "json"]).json()
    };
    put("main", "alice/balance", "5");
    let base = put("main", "bob/balance", "7");
    let branch = |arguments: &[&str]| {
        varvite(&[&["context", "branch", arguments[0], &store], &arguments[1..]].concat())
    };
    branch(&["set", "side", "main"]).yes();
    put("side", "bob/balance", "8");
    put("main", "alice/balance", "6");
    let names = branch(&["list", "--format", "json"]).json();
    assert_ne!(names["main"], names["side"]);
    branch(&["set", "old", base["commit"].as_str().unwrap()]).yes();

    assert!(run(&["merge", "main", "side", "--dry-run"]).yes().contains("would be merged"));
    let merged = run(&["merge", "main", "side", "--format", "json"]).json();
    assert_eq!(merged["outcome"], "merged");
    assert_eq!(run(&["get", "main", "alice/balance"]).yes(), "6\n");
    assert_eq!(run(&["get", "main", "bob/balance"]).yes(), "8\n");
    let log = run(&["log", "--format", "json"]).json();
    assert_eq!(log[0]["hash"], merged["commit"]);
    assert_eq!(log[0]["message"], "merge side into main");
    assert_eq!(log[0]["parents"].as_array().unwrap().len(), 2);
    let forwarded = run(&["merge", "side", "main", "--format", "json"]).json();
    assert_eq!(
        (&forwarded["outcome"], &forwarded["commit"]),
        (&"forwarded".into(), &merged["commit"])
    );
    assert!(run(&["merge", "main", "old"]).yes().starts_with("main: unchanged"));

    put("side", "bob/balance", "9");
    put("main", "bob/balance", "10");
    let conflict = run(&["merge", "main", "side"]);
    assert_eq!(conflict.code, 1);
    for part in ["bob/balance", "8", "10", "9", "--prefer"] {
        assert!(conflict.out.contains(part), "{}", conflict.out);
    }
    assert_eq!(run(&["get", "main", "bob/balance"]).yes(), "10\n");
    run(&["merge", "main", "side", "--prefer", "theirs"]).yes();
    assert_eq!(run(&["get", "main", "bob/balance"]).yes(), "9\n");
    run(&["remove", "main", "bob"]).yes();
    let ran = run(&["remove", "main", "bob"]);
    assert!(ran.code == 1 && ran.out.starts_with("nothing is at"), "{ran:?}");
    run(&["merge", "main", "nobody"]).error(2, &["nobody"]);
    // A commit says what it likes, but not to the terminal.
    run(&["put", "red", "x", "y", "--message", "\u{1b}[31mred"]).yes();
    for shown in [run(&["log"]).yes(), branch(&["list"]).yes()] {
        assert!(shown.contains("\\x1b[31mred") && !shown.contains('\u{1b}'), "{shown}");
    }
    // What goes on to a program is never shortened.
    let long = "x".repeat(5000);
    let before = put("main", "long", "short");
    put("main", "long", &long);
    assert_eq!(run(&["get", "main", "long"]).yes(), format!("{long}\n"));
    let diff = run(&["diff", before["commit"].as_str().unwrap(), "main"]);
    assert_eq!((diff.code, diff.out), (1, format!("~\tlong\tshort\t{long}\n")));
    branch(&["remove", "old"]).yes();
    assert_eq!(branch(&["remove", "old"]).code, 1);
    run(&["check"]).yes();
}

#[test]
fn a_replayed_store_is_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let store = replayed(folder.path());
    let log = varvite(&["context", "log", &store, "--format", "json"]).json();
    assert_eq!(log[0]["message"], "the second");
    let first = log[1]["hash"].as_str().unwrap();
    assert_eq!(log[0]["parents"][0], first);
    assert_eq!(varvite(&["context", "get", &store, "last", "a/b"]).yes(), "\\x02\n");
    assert_eq!(varvite(&["context", "get", &store, first, "a/b", "--hex"]).code, 2);
    assert_eq!(varvite(&["context", "get", &store, "last", "a/b", "--full"]).yes(), "\\x02\n");
    assert_eq!(varvite(&["context", "get", &store, first, "61/62", "--hex"]).yes(), "00ff\n");
    let page = varvite(&["context", "ls", &store, first, "a", "--format", "json"]).json();
    assert_eq!(
        (page[0]["name"].as_str(), page[1]["kind"].as_str()),
        (Some("b"), Some("directory"))
    );
    let diff = varvite(&["context", "diff", &store, first, "last"]);
    assert_eq!(
        (diff.code, &*diff.out),
        (1, "~\ta/b\t\\x00ÿ\t\\x02\n-\ta/c/d\t\\x01\n".replace("ÿ", "\\xff").as_str())
    );
    let dump = varvite(&["context", "dump", &store, first, "--format", "jsonl"]).yes();
    assert_eq!(
        dump,
        "{\"path\":[\"61\",\"62\"],\"value\":\"00ff\"}\n{\"path\":[\"61\",\"63\",\"64\"],\"value\":\"01\"}\n"
    );
    assert!(varvite(&["context", "check", &store]).yes().starts_with("sound: 2 commits"));
    assert!(varvite(&["context", "tree", &store, first]).yes().contains("a/c/d\t1 byte"));
    let du = varvite(&["context", "du", &store, first, "--format", "json"]).json();
    assert_eq!((du[0]["values"].as_u64(), du[0]["bytes"].as_u64()), (Some(2), Some(3)));
    let stat = varvite(&["context", "stat", &store, "--format", "json"]).json();
    assert_eq!(stat["commits"], 2);
    varvite(&["inspect", &format!("{store}/control")]).yes();
}

#[test]
fn bad_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = replayed(folder.path());
    varvite(&["context", "get", &store, EMPTY, "a"]).error(2, &["Co", "not in the store"]);
    varvite(&["context", "get", &store, "nonsense", "a"]).error(2, &["nonsense"]);
    varvite(&["context", "get", &store, "last", "a"]).error(2, &["directory"]);
    assert_eq!(varvite(&["context", "get", &store, "last", "a/b/c"]).code, 1);
    let bad = folder.path().join("bad.wl");
    std::fs::write(&bad, "B 0 S\ni a 01\nq a\n").unwrap();
    varvite(&["replay", "blocks", text(&bad)]).error(3, &["line 3", "bad.wl"]);
    // One flipped bit in the pack.
    let pack = format!("{store}/0000-000000.pack");
    let mut bytes = std::fs::read(&pack).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let ran = varvite(&["context", "check", &store]);
    assert!(ran.code == 3 && ran.out.contains("0000-000000.pack is damaged at byte"), "{ran:?}");
}

#[test]
fn the_bench_gives_the_hashes_of_two_other_engines() {
    let arguments =
        ["bench", "context", "--accounts", "20000", "--blocks", "50", "--reads", "1000"];
    let rest = ["--updates", "300", "--inserts", "40", "--deletes", "10", "--format", "json"];
    let folder = tempfile::tempdir().unwrap();
    let lower = folder.path().join("lower");
    for place in [&["--memory"][..], &[], &["--lower", text(&lower)]] {
        let all: Vec<&str> = arguments.iter().chain(&rest).chain(place).copied().collect();
        let report = varvite(&all).json();
        // What was loaded goes first, and the blocks change it where it is then.
        let is_archive = report["archived_chunks"].as_u64().is_some_and(|chunks| chunks > 0);
        assert_eq!(is_archive, place.len() == 2, "{report}");
        if is_archive {
            assert!(report["archived_above_bytes"].as_u64() > Some(0), "{report}");
            for reads in ["lower_block_reads", "lower_find_reads"] {
                assert_eq!(report[reads], 0, "{report}");
            }
        }
        // The store is gone, and its chunks with it.
        assert!(!lower.join("0000-000000.pack").exists());
        assert_eq!(report["load_hash"], "CoWSQ7ad76qutwFzmP1G5AegdtSnTtgAViRMgzWRsSyoC8KQbNmq");
        assert_eq!(report["last_hash"], "CoWPBzVoMa5HQWfPShZ7J1P15MCtY2BxBF6tXnzD15BVDzyMRAw4");
        assert_eq!(report["missing"], 0);
    }
}

/// Damage in what two of three commits share, and in what one alone has: each is told with its commits.
#[test]
fn a_check_goes_on_after_damage_and_names_the_commits_that_it_touches() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = text(&store);
    varvite(&["context", "create", store]).yes();
    let long = |letter: &str| letter.repeat(300);
    let put = |path: &str, letter: &str| {
        varvite(&["context", "put", store, "main", path, &long(letter)]).yes();
        let log = varvite(&["context", "log", store, "--format", "json"]).json();
        log[0]["hash"].as_str().unwrap().to_owned()
    };
    let commits = [put("a/one", "x"), put("a/two", "y"), put("a/one", "z")];
    let pack = format!("{store}/0000-000000.pack");
    let sound = std::fs::read(&pack).unwrap();
    let mut bytes = sound.clone();
    for letter in [b'x', b'y'] {
        let place = bytes.windows(200).position(|window| window.iter().all(|it| *it == letter));
        bytes[place.unwrap() + 100] ^= 1;
    }
    std::fs::write(&pack, &bytes).unwrap();
    let check = |more: &[&str]| varvite(&[&["context", "check", store], more].concat());
    let ran = check(&[]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let last = ran.out.lines().last().unwrap();
    assert!(last.starts_with("damaged, "), "the verdict comes last, and once: {}", ran.out);
    assert!(!ran.out.contains("sound") && !ran.out.contains("varvite check"), "{}", ran.out);
    let report: serde_json::Value =
        serde_json::from_str(&check(&["--format", "json"]).out).unwrap();
    assert_eq!((&report["sound"], &report["commits"]), (&false.into(), &3.into()));
    for (path, touched) in [("a/one", &commits[..2]), ("a/two", &commits[1..])] {
        let all = report["findings"].as_array().unwrap().iter();
        let mut of_path = all.filter(|finding| finding["path"] == path);
        let finding = of_path.next().unwrap_or_else(|| panic!("{path}: {report}"));
        let mut named: Vec<_> = finding["commits"].as_array().unwrap().iter().collect();
        named.reverse();
        assert_eq!(named, touched.iter().collect::<Vec<_>>(), "{path}: {report}");
    }
    // Each commit can be checked alone.
    for (commit, code) in [(&commits[0], 3), (&commits[1], 3), (&commits[2], 3)] {
        assert_eq!(check(&["--commit", commit]).code, code);
    }
    let mut bytes = sound.clone();
    let place = bytes.windows(200).position(|window| window.iter().all(|it| *it == b'y')).unwrap();
    bytes[place + 100] ^= 1;
    std::fs::write(&pack, &bytes).unwrap();
    check(&["--commit", &commits[0]]).yes();
    assert_eq!(check(&["--commit", &commits[0], "--commit", "main"]).code, 3);
    std::fs::write(&pack, sound).unwrap();
    assert!(check(&[]).yes().starts_with("sound: 3 commits"));
}

/// A value that was removed and put again is in the pack twice, and a damage is in one of the two.
#[test]
fn a_check_accuses_no_commit_that_has_another_copy_of_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = text(&store);
    varvite(&["context", "create", store]).yes();
    let long = "x".repeat(300);
    varvite(&["context", "put", store, "main", "a", &long]).yes();
    varvite(&["context", "put", store, "main", "b", "c"]).yes();
    varvite(&["context", "remove", store, "main", "a"]).yes();
    varvite(&["context", "put", store, "main", "a", &long]).yes();
    let log = varvite(&["context", "log", store, "--format", "json"]).json();
    let hash = |number: usize| log[number]["hash"].as_str().unwrap().to_owned();
    let pack = format!("{store}/0000-000000.pack");
    let sound = std::fs::read(&pack).unwrap();
    let is_copy = |place: &usize| sound[*place..*place + 300] == *long.as_bytes();
    let places: Vec<_> = (0..sound.len() - 300).filter(is_copy).collect();
    let accused = [vec![hash(2), hash(3)], vec![hash(0)]];
    assert_eq!(places.len(), accused.len(), "it is there twice");
    for (place, accused) in places.into_iter().zip(accused) {
        let mut bytes = sound.clone();
        bytes[place + 100] ^= 1;
        std::fs::write(&pack, bytes).unwrap();
        let ran = varvite(&["context", "check", store, "--format", "json"]);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        // The batch that it is in is damaged, too, whatever is in it.
        let [finding, batch] = &report["findings"].as_array().unwrap()[..] else {
            panic!("{report}")
        };
        assert_eq!(finding["commits"], serde_json::json!(accused), "{report}");
        assert_eq!(batch["commits"], serde_json::json!([]), "{report}");
        assert!(batch["detail"].as_str().unwrap().contains("expected a batch"), "{report}");
        assert_eq!(report["unlisted"], 0, "{report}");
    }
}

/// A commit that is damaged hides those before it; all behind it are read.
#[test]
fn a_check_reads_all_commits_that_can_be_listed_and_says_how_many_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = text(&store);
    varvite(&["context", "create", store]).yes();
    for number in 0..10 {
        let message = format!("the message of number {number}");
        let put = ["context", "put", store, "main", "a", &number.to_string()];
        varvite(&[&put[..], &["--message", &message]].concat()).yes();
    }
    let pack = format!("{store}/0000-000000.pack");
    let mut bytes = std::fs::read(&pack).unwrap();
    let needle = b"the message of number 2";
    let place = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[place] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let ran = varvite(&["context", "check", store, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["commits"], &report["unlisted"]), (&7.into(), &3.into()), "{report}");
    let ran = varvite(&["context", "check", store]);
    assert!(ran.code == 3 && ran.out.contains("3 commits"), "{ran:?}");
}

/// Damage where an opening reads: a chunk of one branch that a collection rewrote, and the control file.
#[test]
fn a_check_names_what_is_damaged_at_its_end_and_advises_the_repair_and_not_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = text(&store);
    varvite(&["context", "create", store]).yes();
    let put = |branch: &str, number: usize| {
        varvite(&["context", "put", store, branch, "a", &format!("{branch}{number}")]).yes();
    };
    (0..5).for_each(|number| put("side", number));
    (0..2).for_each(|number| put("main", number));
    varvite(&["context", "collect", "run", store, "--keep", "1"]).yes();
    (2..5).for_each(|number| put("main", number));
    varvite(&["context", "collect", "run", store, "--keep", "1"]).yes();
    let log = varvite(&["context", "log", store, "--branch", "side", "--format", "json"]).json();
    let side = log[0]["hash"].as_str().unwrap().to_owned();
    let files = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let part = files.filter(|path| text(path).contains("0000-000000-")).max().unwrap();
    let sound = std::fs::read(&part).unwrap();
    let mut bytes = sound.clone();
    let end = bytes.len();
    bytes[end - 10] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let ran = varvite(&["context", "check", store, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let [finding] = &report["findings"].as_array().unwrap()[..] else { panic!("{report}") };
    let name = part.file_name().unwrap().to_str().unwrap();
    assert!(finding["detail"].as_str().unwrap().contains(name), "{report}");
    assert_eq!(finding["commits"], serde_json::json!([side]), "{report}");
    assert_eq!(report["warnings"], serde_json::json!([]), "{report}");
    for command in [&["context", "check", store][..], &["check", store]] {
        let out = varvite(command).ended(3);
        assert!(out.contains(&side[..8]) && out.contains(name), "{out}");
        assert!(out.contains("varvite repair") && !out.contains("varvite check"), "{out}");
    }
    assert_eq!(varvite(&["context", "get", store, "main", "a"]).yes(), "main4\n");
    put("main", 5);
    assert_eq!(varvite(&["context", "get", store, "main", "a"]).yes(), "main5\n");
    // Nobody has to put it back from a copy to keep all but that branch.
    let told = varvite(&["context", "get", store, "side", "a"]).error(3, &[name, "is damaged"]);
    assert!(told.contains("varvite repair") && !told.contains("varvite check"), "{told}");
    varvite(&["context", "collect", "run", store, "--keep", "1"])
        .error(3, &["nothing is collected", name]);
    std::fs::write(&part, sound).unwrap();
    varvite(&["context", "check", store]).yes();

    let control = format!("{store}/control");
    let mut bytes = std::fs::read(&control).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&control, bytes).unwrap();
    for command in [
        &["context", "check", store][..],
        &["check", store],
        &["context", "check", store, "--rebuild-index"],
    ] {
        let told = varvite(command).error(3, &["control is damaged", "varvite repair", store]);
        assert!(!told.contains("varvite check"), "{told}");
    }
    let told = varvite(&["context", "get", store, "main", "a"]).error(3, &["control is damaged"]);
    assert!(told.contains("varvite repair") && !told.contains("varvite check"), "{told}");
}

/// The newest commit is damaged: it reads as before it, writes nothing, and both say what to do.
#[test]
fn a_store_whose_newest_commit_is_damaged_is_read_as_it_was_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = text(&store);
    varvite(&["context", "create", store]).yes();
    for number in 0..3 {
        varvite(&["context", "put", store, "main", "a", &format!("value {number}")]).yes();
    }
    let log = varvite(&["context", "log", store, "--format", "json"]).json();
    let before = log[1]["hash"].as_str().unwrap().to_owned();
    let pack = format!("{store}/0000-000000.pack");
    let mut bytes = std::fs::read(&pack).unwrap();
    let author = bytes.windows(5).rposition(|it| it == b"value").unwrap();
    // Behind the tree is the commit, a few dozen bytes on.
    bytes[author + 60] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let ran = varvite(&["context", "log", store]);
    assert!(ran.code == 0 && ran.out.contains(&before), "{ran:?}");
    assert!(ran.err.contains("0000-000000.pack") && ran.err.contains("varvite repair"), "{ran:?}");
    varvite(&["context", "put", store, "main", "a", "x"]).error(3, &["at byte", "varvite repair"]);
    for part in [&[][..], &["--commit", "last"], &["--commit", &before], &["--most", "1"]] {
        let ran = varvite(&[&["context", "check", store][..], part].concat());
        assert!(ran.code == 3 && ran.out.contains("damaged, "), "{part:?}: {ran:?}");
        assert!(
            ran.out.contains("0000-000000.pack") && ran.out.contains("byte"),
            "{part:?}: {ran:?}"
        );
    }
    let mended = folder.path().join("mended");
    varvite(&["repair", store, text(&mended)]).ended(3);
    varvite(&["context", "put", text(&mended), "main", "a", "x", "--date", "2026-01-01"]).yes();
}
