//! How commits are named and found: beginnings of hashes, `~`, branches, dates, paths.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::{Ran, command, text, varvite};

/// A context with three commits of main, a day apart, and one of another branch.
struct World {
    _folder: TempDir,
    store: String,
    commits: Vec<String>,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        let store = text(&folder.path().join("c")).to_owned();
        varvite(&["context", "create", &store]).yes();
        let commits = [
            ("main", "a/b", "1", "2026-01-01"),
            ("main", "c", "2", "2026-01-02T12:00:00Z"),
            ("main", "a/b", "3", "2026-01-03"),
            ("side", "a/b", "4", "2026-01-04"),
        ];
        let commits = commits.map(|(branch, path, value, date)| {
            let put = ["context", "put", &store, branch, path, value, "--date", date];
            let said = varvite(&[&put[..], &["--format", "json"]].concat()).json();
            said["commit_hash"].as_str().unwrap().to_owned()
        });
        World { _folder: folder, store, commits: commits.to_vec() }
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Ran {
        varvite(&[&["context", name, &self.store], arguments].concat())
    }

    /// The value at a/b.
    fn get(&self, commit: &str) -> String {
        self.run("get", &[commit, "a/b"]).yes().trim_end().to_owned()
    }

    /// The places of the listed commits among all.
    fn log(&self, arguments: &[&str]) -> Vec<usize> {
        let json = self.run("log", &[arguments, &["--format", "json"]].concat()).json();
        let listed = json.as_array().unwrap().iter();
        let place = |commit: &Value| self.commits.iter().position(|hash| commit["hash"] == **hash);
        listed.map(|commit| place(commit).unwrap()).collect()
    }
}

#[test]
fn a_commit_is_named_by_how_its_hash_begins_and_by_steps_back() {
    let world = World::new();
    assert_eq!(world.get(&world.commits[0][..12]), "1");
    assert_eq!(world.get("last"), "4");
    assert_eq!(world.get("main"), "3");
    assert_eq!(world.get("main~"), "1");
    assert_eq!(world.get("main~2"), "1");
    assert_eq!(world.get(&format!("{}~1", &world.commits[2][..12])), "1");
    world.run("get", &["main~3", "a/b"]).error(2, &["main has only 2 commits before it, not 3"]);
    world.run("get", &["main~x", "a/b"]).error(2, &["write main~3"]);
    world.run("get", &["Coxxxx", "a/b"]).error(2, &["there is no branch \"Coxxxx\""]);
    // Every hash begins with Co; two of four commits have more in common now and then.
    let alike = world.run("get", &["Co", "a/b"]).error(2, &["there is no branch \"Co\""]);
    assert!(!alike.contains("commits begin"), "{alike}");
}

#[test]
fn branches_cannot_be_taken_for_words() {
    let world = World::new();
    for name in ["last", "main~1", "branch:x", &world.commits[0], ""] {
        let says = &["a branch cannot be called", "choose another name"];
        world.run("put", &[name, "p", "v"]).error(2, says);
        varvite(&["context", "branch", "set", &world.store, name, "main"]).error(2, says);
        world.run("merge", &[name, "main"]).error(2, says);
    }
    // Beginnings of hashes too, in both notations.
    for name in [&world.commits[0][..8], &"0123456789".repeat(4)] {
        let refused = varvite(&["context", "branch", "set", &world.store, name, "side"]);
        refused.error(2, &["a branch cannot be called", "choose another name"]);
    }
    varvite(&["context", "branch", "set", &world.store, "Cobalt", "side"]).yes();
    assert_eq!(world.get("Cobalt"), "4");
    assert_eq!(world.get("branch:Cobalt"), "4");
    world.run("get", &["branch:none", "a/b"]).error(2, &["there is no branch \"none\""]);
    let says = &["there is no branch \"nope\"", "`varvite context branch list`"];
    world.run("log", &["--branch", "nope"]).error(2, says);
}

#[test]
fn a_branch_is_listed_as_it_is_typed() {
    let world = World::new();
    let branch = |words: &[&str]| {
        let (name, rest) = words.split_first().unwrap();
        varvite(&[&["context", "branch", name, &world.store], rest].concat())
    };
    let said = branch(&["set", "a\nb\\x00", "side"]).yes();
    assert!(said.starts_with("a\\x0ab\\x00: set"), "{said}");
    let listed = branch(&["list"]).yes();
    let name = listed.split('\t').next().unwrap();
    assert_eq!(name, "a\\x0ab\\x00");
    assert_eq!(world.get(name), "4");
    world.run("put", &[name, "a/b", "5"]).yes();
    assert_eq!(world.get(&format!("branch:{name}")), "5");
    world.run("merge", &[name, "main", "--prefer", "ours"]).yes();
    assert_eq!(branch(&["list"]).yes().lines().count(), 3);
    branch(&["remove", name]).yes();
    branch(&["set", "a\\q", "side"]).error(2, &["begins no escape"]);
}

#[test]
fn the_log_is_of_a_branch_a_path_and_a_time() {
    let world = World::new();
    assert_eq!(world.log(&[]), [3, 2, 1, 0]);
    assert_eq!(world.log(&["--branch", "main"]), [2, 1, 0]);
    assert_eq!(world.log(&["--branch", "main~1", "--limit", "1"]), [1]);
    assert_eq!(world.log(&["--branch", "main", "--path", "a/b"]), [2, 0]);
    assert_eq!(world.log(&["--branch", "main", "--path", "61/62", "--hex"]), [2, 0]);
    assert_eq!(world.log(&["--path", "nowhere"]), [0; 0]);
    assert_eq!(world.log(&["--since", "2026-01-02", "--until", "2026-01-03"]), [1]);
    assert_eq!(world.log(&["--since", "2026-01-02T12:00:01Z", "--limit", "1"]), [3]);
    world.run("log", &["--since", "soon"]).error(2, &["\"soon\" is no date: write 2026-01-31"]);
    let first = world.run("log", &["--branch", "main~2", "--format", "json"]).json();
    assert_eq!(first[0]["date_iso"], "2026-01-01T00:00:00Z");
    assert_eq!(first[0]["date"], 1_767_225_600);
    assert_ne!(first[0]["commit_hash"], first[0]["tree_hash"]);
    assert!(world.run("log", &[]).yes().contains("2026-01-02T12:00:00Z"));
}

#[test]
fn paths_and_values_are_written_apart_and_a_value_is_got_as_it_is() {
    let world = World::new();
    world.run("put", &["main", "k", "00ff", "--hex-value"]).yes();
    assert_eq!(world.run("get", &["main", "k", "--hex-value"]).yes(), "00ff\n");
    assert_eq!(world.run("get", &["main", "6b", "--hex-path"]).yes(), "\\x00\\xff\n");
    assert_eq!(world.run("get", &["main", "6b", "--hex"]).yes(), "00ff\n");
    let raw = command(&["context", "get", &world.store, "main", "k", "--raw"]).output().unwrap();
    assert_eq!((raw.status.code(), &raw.stdout[..]), (Some(0), &b"\x00\xff"[..]));
    let got = world.run("get", &["main", "k", "--format", "json"]).json();
    assert_eq!((&got["value"], &got["value_text"]), (&json!("00ff"), &json!("\\x00\\xff")));
    assert_eq!((&got["path"], &got["path_text"]), (&json!(["6b"]), &json!("k")));
}
