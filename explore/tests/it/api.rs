//! What the endpoints say of real stores, beside what the engine says of them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use varvite::context::{CommitInfo, Configuration, Options, Store};
use varvite::disk::os::OsDisk;
use varvite::proof::{self, Kinded};
use varvite_explore::Limits;

use crate::stores;
use crate::world::World;

fn world() -> World {
    World::new(Limits::default())
}

#[test]
fn the_overview_names_every_store_and_one_that_is_damaged_with_the_reason() {
    let world = world();
    let said = world.json("/api/overview");
    let stores = said["stores"].as_array().unwrap();
    assert_eq!(stores.len(), 2);
    assert_eq!(stores[0]["about"]["commits"], 3);
    assert_eq!(stores[0]["about"]["last_commit"]["hash"], world.commits[2].as_str());
    assert_eq!(stores[0]["about"]["branches"]["main"], world.commits[2].as_str());
    assert_eq!(stores[1]["about"]["tables"][0]["entries"], 20_000);
    assert_eq!(stores[1]["writer"], Value::Null);
    let control = world.folder.path().join("chain/control");
    let mut bytes = std::fs::read(&control).unwrap();
    bytes[25] ^= 1;
    std::fs::write(&control, bytes).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_600));
    // Once may be a chance.
    assert_eq!(world.json("/api/overview")["stores"][0]["damage"], Value::Null);
    std::thread::sleep(std::time::Duration::from_millis(1_600));
    let said = world.json("/api/overview");
    assert!(said["stores"][0]["damage"].as_str().unwrap().contains("control"), "{said}");
    assert_eq!(said["stores"][1]["damage"], Value::Null);
    assert_eq!(world.get("/api/tree").status, 500);
    assert!(
        world.json("/api/space")["files"].as_array().unwrap().len() > 2,
        "its files are listed"
    );
    let pulse = world.json("/api/pulse");
    assert!(pulse["damage"].as_str().unwrap().contains("control"), "{pulse}");
    assert!(pulse["revision"].is_string() && pulse["writer"].is_null(), "{pulse}");
    assert_eq!(world.json("/api/pulse?store=1")["damage"], Value::Null);
}

/// A store whose steps and texts are as odd as they may be.
fn odd(folder: &Path) {
    let mut store = Store::open(OsDisk::new(folder).unwrap(), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["", "below"], b"1").unwrap();
    tree.add(&["a", ""], b"2").unwrap();
    tree.add(&["long"], "ü".repeat(70_000).as_bytes()).unwrap();
    let info = CommitInfo::new(&[], 9, "ö".repeat(200), format!("a{}", "ä".repeat(200)));
    store.commit(&mut tree, &info).unwrap();
    store.close().unwrap();
}

#[test]
fn steps_without_bytes_are_named_and_no_letter_is_cut() {
    let world = world();
    odd(&world.folder.path().join("chain"));
    let value = |path: &str| world.json(&format!("/api/tree?path={path}"))["value_text"].clone();
    assert_eq!((value("//below"), value("a/"), value("/a/")), ("1".into(), "2".into(), "2".into()));
    assert_eq!(world.json("/api/tree?path=/")["kind"], "directory");
    assert_eq!(world.json("/api/tree?path=/")["path_hex"], "/");
    assert_eq!(world.json("/api/tree?path=")["path_hex"], "");
    // The program that checks a proof cannot be given such a path, and would be given another.
    for path in ["//below", "/", "a/"] {
        for target in ["/api/proof", "/api/proof/file"] {
            let answer = world.get(&format!("{target}?path={path}"));
            let said = String::from_utf8(answer.body).unwrap();
            assert!(answer.status == 400 && said.contains("no bytes"), "{target} {path}: {said}");
        }
    }
    // Each child's name leads to it, as the pages put paths together.
    for child in world.json("/api/tree")["children"].as_array().unwrap() {
        let hex = child["name_hex"].as_str().unwrap();
        let digits: Vec<_> = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]).collect();
        let step = if digits.is_empty() { String::new() } else { format!("%{}", digits.join("%")) };
        assert_eq!(world.json(&format!("/api/tree?path=/{step}"))["hash"], child["hash"]);
    }
    let long = value("long");
    let long = long.as_str().unwrap();
    assert!(long.len() > 65_000 && long.chars().all(|it| it == 'ü'), "{}", long.len());
    let commit = &world.json("/api/commits?limit=1")["commits"][0];
    for (name, letter) in [("author", 'ö'), ("message", 'ä')] {
        let text = commit[name].as_str().unwrap();
        assert!(text.trim_start_matches('a').chars().all(|it| it == letter), "{text}");
    }
}

#[test]
fn what_takes_too_long_is_cut_and_goes_on_from_there() {
    let world = World::new(Limits { work: std::time::Duration::ZERO, ..Limits::default() });
    let (mut names, mut offset) = (BTreeSet::new(), 0);
    while offset < 300 {
        let said = world.json(&format!("/api/tree?path=accounts&offset={offset}&limit=200"));
        let rows = said["children"].as_array().unwrap();
        assert_eq!((rows.len(), &said["is_cut"]), (1, &(offset < 299).into()), "{offset}");
        names.insert(rows[0]["name"].as_str().unwrap().to_owned());
        offset += rows.len();
    }
    assert_eq!(names.len(), 300);
    let said = world.json("/api/commits");
    assert_eq!((said["commits"].as_array().unwrap().len(), &said["is_cut"]), (1, &true.into()));
    // A proof cannot be cut: what is made is given, for as long as the client waits.
    assert!(world.json("/api/proof?path=block")["bytes"].as_u64() > Some(0));
    assert_eq!(world.get("/api/proof/file?path=block").status, 200);
}

#[test]
fn those_who_measure_filters_at_once_do_not_count_each_other() {
    let world = world();
    let alone = world.json("/api/levels?store=1&probes=3000");
    let counts = |said: &Value| -> Vec<(u64, u64)> {
        let levels = said["levels"].as_array().unwrap().iter();
        levels.map(|it| (it["probes"].as_u64().unwrap(), it["passes"].as_u64().unwrap())).collect()
    };
    assert!(counts(&alone).iter().any(|it| it.0 > 0), "{alone}");
    std::thread::scope(|scope| {
        // One at a time; the others are told to ask again.
        let ask = || loop {
            let answer = world.get("/api/levels?store=1&probes=3000");
            if answer.status == 200 {
                break counts(&answer.json());
            }
            assert_eq!(answer.status, 503);
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        let all: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        for one in all {
            assert_eq!(one.join().unwrap(), counts(&alone));
        }
    });
}

#[test]
fn a_directory_is_paged_and_every_child_is_there_once() {
    let world = world();
    let mut names = BTreeSet::new();
    for offset in [0, 120, 240] {
        let said = world.json(&format!("/api/tree?path=accounts&offset={offset}&limit=120"));
        assert_eq!(said["length"], 300);
        for child in said["children"].as_array().unwrap() {
            assert_eq!(child["kind"], "directory");
            assert!(names.insert(child["name"].as_str().unwrap().to_owned()));
        }
    }
    assert_eq!(names.len(), 300);
    assert_eq!(world.json("/api/tree?path=accounts&offset=300")["children"], serde_json::json!([]));
    let value = world.json("/api/tree?path=odd/%ff%2f%22%3Cb%3E");
    assert_eq!((&value["kind"], &value["value_bytes"]), (&"value".into(), &300.into()));
    assert_eq!(value["path_hex"], "6f6464/ff2f223c623e");
    assert_eq!(world.get("/api/tree?path=accounts/nobody").status, 404);
    assert_eq!(world.get("/api/tree?commit=nothing").status, 404);
    assert_eq!(world.get("/api/tree?store=7").status, 404);
    assert_eq!(world.get("/api/tree?store=1").status, 404);
}

#[test]
fn a_diff_has_what_the_commit_changed() {
    let world = world();
    let [_, one, two] = &world.commits[..] else { panic!("three commits") };
    let said = world.json(&format!("/api/diff?after={two}"));
    assert_eq!(said["before"], one.as_str());
    assert_eq!(
        (&said["added"], &said["removed"], &said["updated"]),
        (&0.into(), &0.into(), &101.into())
    );
    assert_eq!(said["is_cut"], false);
    let said = world.json(&format!("/api/diff?before={two}&after={one}&path=accounts&limit=10"));
    assert_eq!((said["changes"].as_array().unwrap().len(), &said["is_cut"]), (10, &true.into()));
    let csv = world.get(&format!("/api/diff?after={two}&path=block&format=csv"));
    let text = String::from_utf8(csv.body.clone()).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(csv.header("content-type").unwrap().starts_with("text/csv"));
    assert!(
        world.get(&format!("/api/diff?after={}", world.commits[0])).status == 404,
        "the first has no parent"
    );
}

#[test]
fn a_proof_is_what_it_says_and_is_checked_without_the_store() {
    let world = world();
    let target = "path=accounts/account-0007/balance";
    let said = world.json(&format!("/api/proof?{target}"));
    for encoding in ["v1", "v2", "json"] {
        let file = world.get(&format!("/api/proof/file?{target}&encoding={encoding}"));
        assert!(file.header("content-disposition").unwrap().contains(&format!(".{encoding}\"")));
        let described = world.json(&format!("/api/proof?{target}&encoding={encoding}"));
        assert_eq!(described["bytes"], file.body.len());
        let (_, proof) = proof::decode_any(&file.body, Configuration::TEZOS).unwrap();
        let root = Kinded::directory(said["root"].as_str().unwrap().parse().unwrap());
        let tree = proof.open(Configuration::TEZOS, root).unwrap();
        let found = proof::read(&tree, &["accounts", "account-0007", "balance"]).unwrap();
        assert_eq!(found, proof::Read::Value(vec![1; 8]));
    }
    assert!(
        said["check"].as_str().unwrap().contains("--hex --configuration tezos --root Co"),
        "{said}"
    );
    assert_eq!(world.get(&format!("/api/proof/file?{target}&encoding=v3")).status, 400);
    let root = world.json("/api/proof?path=");
    assert!(root["check"].as_str().unwrap().ends_with(" \"\""), "the command names a path: {root}");
}

#[test]
fn levels_have_their_filters_measured() {
    let world = world();
    let said = world.json("/api/levels?store=1&probes=2000");
    assert_eq!(said["table"], "coins");
    assert_eq!(said["entries"], 20_000);
    assert!(!said["levels"].as_array().unwrap().is_empty(), "{said}");
    for level in said["levels"].as_array().unwrap() {
        let (probes, passes) =
            (level["probes"].as_u64().unwrap(), level["passes"].as_u64().unwrap());
        assert!(
            passes <= probes && probes <= 2_000 * level["segments"].as_u64().unwrap().max(1),
            "{level}"
        );
    }
    assert_eq!(world.get("/api/levels?store=0").status, 404);
    assert_eq!(world.get("/api/levels?store=1&table=nothing").status, 404);
    assert_eq!(world.get("/api/levels?store=1&probes=20001").status, 400);
}

#[test]
fn what_the_writer_adds_is_seen_beside_it() {
    let world = world();
    let before = world.json("/api/pulse?store=0");
    let mut store =
        Store::open(OsDisk::new(world.folder.path().join("chain")).unwrap(), Options::default())
            .unwrap();
    let parent = store.last_commit().unwrap().unwrap();
    let mut tree = store.checkout(&parent).unwrap();
    tree.add(&["new"], b"value").unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::new(&[parent], 9, "tester", "more")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_600));
    let after = world.json("/api/pulse?store=0");
    assert_ne!(before["revision"], after["revision"]);
    assert_eq!((&before["commits"], &after["commits"]), (&3.into(), &4.into()));
    if cfg!(target_os = "linux") {
        assert_eq!(after["writer"]["process"], std::process::id());
        assert!(after["writer"]["rss_bytes"].as_u64().unwrap() > 0);
    }
    assert_eq!(world.json("/api/tree?path=new")["value_text"], "value");
    // What changes without a commit is seen as well.
    store.set_branch(b"other", &hash).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_600));
    assert_ne!(after["revision"], world.json("/api/pulse?store=0")["revision"]);
    assert_eq!(
        world.json("/api/overview")["stores"][0]["about"]["branches"]["other"],
        varvite::context::hash::to_text(&hash)
    );
    let commits = world.json("/api/commits?limit=2");
    assert_eq!(
        (commits["all"].as_u64(), commits["commits"].as_array().unwrap().len()),
        (Some(4), 2)
    );
    store.close().unwrap();
}

#[test]
fn figures_for_prometheus_have_a_type_and_a_value() {
    let world = world();
    let text = String::from_utf8(world.get("/metrics").body).unwrap();
    for line in text.lines() {
        let ok = line.starts_with("# HELP varvite_")
            || line.starts_with("# TYPE varvite_")
            || line.starts_with("varvite_")
                && line.rsplit(' ').next().unwrap().parse::<f64>().is_ok();
        assert!(ok, "{line}");
    }
    assert!(text.contains("varvite_commits{store=\"chain\"} 3\n"), "{text}");
    assert!(
        text.contains("varvite_table_entries{store=\"ledger\",table=\"coins\"} 20000\n"),
        "{text}"
    );
    assert!(text.contains("varvite_store_up{store=\"chain\"} 1\n"), "{text}");
}

#[test]
fn space_is_the_files_and_weights_are_the_values() {
    let world = world();
    let said = world.json("/api/space?store=0");
    let sum: u64 =
        said["files"].as_array().unwrap().iter().map(|it| it["bytes"].as_u64().unwrap()).sum();
    assert_eq!(said["bytes"].as_u64(), Some(sum));
    assert!(
        said["categories"].as_array().unwrap().iter().any(|it| it["category"] == "chunks"),
        "{said}"
    );
    let chunks = said["chunks"].as_array().unwrap();
    assert_eq!((chunks.len(), &chunks[0]["state"]), (1, &"whole".into()), "{said}");
    assert_eq!(chunks[0]["written_bytes"], chunks[0]["disk_bytes"]);
    assert_eq!(world.json("/api/space?store=1")["chunks"], serde_json::json!([]));
    // The first commit wrote 300 accounts, the others a third of them.
    let commits = world.json("/api/commits")["commits"].clone();
    let added: Vec<_> = (0..3).map(|at| commits[at]["added_bytes"].as_u64().unwrap()).collect();
    assert!(added[0] > 500 && added[2] > 2 * added[0], "{added:?}");
    let said = world.json("/api/weights");
    let row = |name: &str| {
        let rows = said["children"].as_array().unwrap();
        let row = rows.iter().find(|it| it["name"] == name).unwrap();
        (row["values"].as_u64().unwrap(), row["bytes"].as_u64().unwrap())
    };
    assert_eq!((row("accounts"), row("odd"), row("block")), ((300, 2_400), (1, 300), (1, 1)));
    assert_eq!(world.json("/api/collection")["phase"], "none");
}

/// What no collection up to the newest commit takes is named, and of each chunk it is told what that is.
#[test]
fn chunks_are_live_dead_or_taken_for_what_stays() {
    let world = world();
    let said = world.json("/api/collection");
    // The branch is the newest commit, too.
    assert_eq!(said["stays"], serde_json::json!([world.commits[2]]));
    let of = format!("/api/sharing?commits={}", world.commits[2]);
    let chunks = world.json(&of)["chunks"].clone();
    let sum = |name: &str| -> u64 {
        chunks.as_array().unwrap().iter().map(|it| it[name].as_u64().unwrap()).sum()
    };
    let written = world.json("/api/space")["chunks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["written_bytes"].as_u64().unwrap())
        .sum::<u64>();
    assert_eq!(sum("taken_bytes"), 0);
    assert_eq!(sum("held_bytes") + sum("dead_bytes") + sum("taken_bytes"), written);
    assert!(sum("held_bytes") > 2_400 && sum("dead_bytes") > 0, "{chunks}");
}

/// What is in the lower folder is not dead, nor is what collections took; more branches than are counted together are said.
#[test]
fn chunks_that_are_below_or_taken_are_not_dead() {
    let folder = tempfile::tempdir().unwrap();
    let [collected, archived, lower] =
        ["collected", "archived", "lower"].map(|it| folder.path().join(it));
    std::fs::create_dir(&lower).unwrap();
    let sources = vec![stores::chunked(&collected, None), stores::chunked(&archived, Some(&lower))];
    let world = World::showing(folder, Vec::new(), sources, Vec::new(), Limits::default());
    let sum = |said: &Value, name: &str| -> u64 {
        said["chunks"].as_array().unwrap().iter().map(|it| it[name].as_u64().unwrap()).sum()
    };
    let [collected, archived] =
        [0, 1].map(|store| world.json(&format!("/api/sharing?store={store}&last=1")));
    assert!(sum(&collected, "taken_bytes") > 3_000, "{collected}");
    assert_eq!(sum(&collected, "dead_bytes"), collected["dead_bytes"].as_u64().unwrap());
    let chunks = archived["chunks"].as_array().unwrap();
    let below: Vec<_> = chunks.iter().filter(|it| it["state"] == "lower").collect();
    assert!(below.len() > 10 && below.len() < chunks.len(), "{archived}");
    assert!(below.iter().all(|it| it["dead_bytes"] == 0 && it["disk_bytes"].as_u64() > Some(0)));
    assert!(archived["dead_bytes"].as_u64() < Some(sum(&archived, "disk_bytes") / 2));
    let above = sum(&archived, "above_bytes");
    assert_eq!(sum(&world.json("/api/space?store=1"), "above_bytes"), above);
    let said = world.json("/api/collection?store=1");
    assert_eq!(said["above_bytes"], above);
    assert_eq!((said["stays"].as_array().unwrap().len(), &said["stays_cut"]), (32, &true.into()));
    assert_eq!(crate::api::world().json("/api/collection")["stays_cut"], false);
}

/// What is shown of files is the store's: a trace beside them is not counted, and of a store that is gone nothing is said.
#[test]
fn space_is_of_the_store_alone_and_of_one_that_is_there() {
    let world = world();
    let folder = world.folder.path();
    let bytes = || world.json("/api/space")["bytes"].as_u64().unwrap();
    let before = bytes();
    std::fs::create_dir(folder.join("chain/traces")).unwrap();
    for name in ["T", "x.pack", "traces/T"] {
        let trace = [&b"varviteT"[..], &[0; 5_000]].concat();
        std::fs::write(folder.join("chain").join(name), trace).unwrap();
    }
    assert_eq!(bytes(), before);
    let overview = world.json("/api/overview");
    assert_eq!(overview["stores"][0]["disk_bytes"].as_u64(), Some(before), "{overview}");
    std::fs::rename(folder.join("chain"), folder.join("moved")).unwrap();
    assert_eq!(world.get("/api/space").status, 404);
    let overview = world.json("/api/overview");
    assert!(overview["stores"][0]["disk_bytes"].is_null(), "{overview}");
    let metrics = String::from_utf8(world.get("/metrics").body).unwrap();
    let chain = metrics.lines().filter(|line| line.starts_with("varvite_disk_bytes"));
    assert_eq!(chain.count(), overview["stores"].as_array().unwrap().len() - 1, "{metrics}");
}

#[test]
fn traces_are_summed_up_and_compared() {
    let world = World::with_traces(Limits::default(), stores::recorded);
    let said = world.json("/api/trace?trace=1");
    assert_eq!((&said["name"], &said["blocks"]), (&"two.trace".into(), &30.into()));
    assert_eq!(said["is_ended"], Value::from(true));
    let adds: u64 = said["ranges"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["action"] == "add")
        .map(|it| it["calls"].as_u64().unwrap())
        .sum();
    assert_eq!(adds, 30);
    assert!(
        said["prefixes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["prefix"] == "a/b" && it["calls"] == 30),
        "{said}"
    );
    let csv = String::from_utf8(world.get("/api/trace/ranges?format=csv").body).unwrap();
    assert!(csv.starts_with("action,from_us,calls,mean_us,max_us,total_ms\r\n"), "{csv}");
    // What is nested has columns of its own.
    let first = |target: &str| {
        let text = String::from_utf8(world.get(&format!("{target}?format=csv")).body).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    for (target, columns) in [
        ("/api/trace", "latency.p99_us"),
        ("/api/trace/activity", "total_ms.add"),
        ("/api/trace/timeline", "p99_ms"),
        ("/api/trace/blocks", "commit_ms"),
        ("/api/trace/samples", "name,second,value"),
        ("/api/compare/only", "run,is_first,action,calls,total_ms"),
        ("/api/compare/runs", "block_latency.p99_us"),
        ("/api/compare/distributions", "run,name,action,share,us"),
    ] {
        assert!(first(target).contains(columns), "{target}: {}", first(target));
    }
    assert_eq!(world.get("/api/pulse?format=csv").status, 400);
    // That one has grown is seen without reading it.
    let before = world.json("/api/pulse")["trace_bytes"].clone();
    let grown = world.folder.path().join("two.trace");
    let bytes = std::fs::read(&grown).unwrap();
    std::fs::write(&grown, [&bytes[..], &[0; 9]].concat()).unwrap();
    assert_ne!(world.json("/api/pulse")["trace_bytes"], before);
    std::fs::write(&grown, bytes).unwrap();
    let compared = world.json("/api/compare");
    assert_eq!(compared["runs"].as_array().unwrap().len(), 2);
    assert_eq!(world.get("/api/compare?traces=0").status, 404);
    assert_eq!(world.get("/api/compare?traces=0,2").status, 400);
    assert_eq!(world.get("/api/trace?trace=2").status, 404);
    // One that is damaged is an answer that says so.
    let file = world.folder.path().join("one.trace");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes.extend_from_slice(&[0; 64]);
    std::fs::write(&file, bytes).unwrap();
    // A moment after it was read last.
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let answer = loop {
        let answer = world.get("/api/trace?trace=0");
        if answer.status != 503 {
            break answer;
        }
    };
    assert_eq!(answer.status, 500);
    let said = String::from_utf8(answer.body).unwrap();
    assert!(said.contains("record it again") && !said.contains("varvite check"), "{said}");
    // One that was killed says that it was not ended.
    let file = world.folder.path().join("two.trace");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 12]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert_eq!(world.json("/api/trace?trace=1")["is_ended"], Value::from(false));
}

/// Where `value` is not as the schema has it: names that must be there, and types.
fn wrong(root: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = &root["$defs"][name.rsplit('/').next().unwrap()];
        assert!(schema.is_object(), "{name} is defined");
        return wrong(root, schema, value, place);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => return Some(format!("{place} has no type in the schema")),
    };
    let is_number = kind == "integer" && types.contains(&"number");
    if !types.contains(&kind) && !is_number {
        return Some(format!("{place} is {kind}, the schema says {types:?}"));
    }
    if let Value::Array(values) = value {
        return values
            .iter()
            .enumerate()
            .find_map(|(at, it)| wrong(root, &schema["items"], it, &format!("{place}[{at}]")));
    }
    let Value::Object(fields) = value else { return None };
    let missing = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = missing.into_iter().find(|name| !fields.contains_key(*name)) {
        return Some(format!("{place} has no {missing}"));
    }
    fields.iter().find_map(|(name, it)| {
        let of = [&schema["properties"][name], &schema["additionalProperties"]];
        let place = format!("{place}.{name}");
        match of.iter().find(|it| it.is_object()) {
            Some(schema) => wrong(root, schema, it, &place),
            None => Some(format!("{place} is not in the schema")),
        }
    })
}

#[test]
fn every_answer_is_as_the_schema_says() {
    let world = World::with_traces(Limits::default(), stores::recorded);
    let schema = world.json("/api/schema");
    let mut seen = BTreeSet::new();
    for target in [
        "/api",
        "/api/overview",
        "/api/pulse",
        "/api/pulse?store=1",
        "/api/commits",
        "/api/tree",
        "/api/tree?path=accounts",
        "/api/tree?path=block",
        "/api/diff",
        "/api/diff?limit=1",
        "/api/proof?path=block",
        "/api/weights",
        "/api/levels?store=1",
        "/api/levels?store=1&probes=300",
        "/api/sharing",
        "/api/sharing?pieces=1",
        "/api/space",
        "/api/space?store=1",
        "/api/collection",
        "/api/trace",
        "/api/trace/activity",
        "/api/trace/ranges",
        "/api/trace/timeline",
        "/api/trace/actions",
        "/api/trace/blocks",
        "/api/trace/samples",
        "/api/trace/commits",
        "/api/trace/commits?from=3&to=9",
        "/api/compare",
        "/api/compare/only",
        "/api/compare/runs",
        "/api/compare/distributions",
        "/api/space/chunks",
        "/api/sharing/chunks",
    ] {
        let path = target.split('?').next().unwrap();
        seen.insert(path.to_owned());
        let of = &schema["properties"][path];
        assert!(of.is_object(), "{path} is in the schema");
        assert_eq!(wrong(&schema, of, &world.json(target), target), None);
    }
    let fault = world.get("/api/tree?path=nothing").json();
    assert_eq!(wrong(&schema, &schema["$defs"]["fault"], &fault, "fault"), None);
    let listed = world.json("/api");
    let others = ["/metrics", "/api/proof/file", "/api/schema"];
    for endpoint in listed["endpoints"].as_array().unwrap() {
        let path = endpoint["path"].as_str().unwrap();
        assert!(seen.contains(path) || others.contains(&path), "{path} is not tried");
    }
}

#[test]
fn blocks_of_a_trace_are_points_with_their_time_by_action() {
    let world = World::with_traces(Limits::default(), stores::recorded);
    let said = world.json("/api/trace/commits");
    let points = said["commits"].as_array().unwrap();
    assert_eq!((points.len(), &said["blocks"], &said["is_cut"]), (30, &30.into(), &false.into()));
    for (number, point) in points.iter().enumerate() {
        assert_eq!((&point["number"], &point["blocks"]), (&number.into(), &1.into()));
        assert!(point["name"].as_str().unwrap().starts_with("Co"), "{point}");
        assert!(point["total_ms"]["add"].as_f64() > Some(0.0), "{point}");
    }
    let some = world.json("/api/trace/commits?from=3&to=9&trace=1");
    assert_eq!(some["commits"].as_array().unwrap()[..], points[3..9]);
    let csv = world.get("/api/trace/commits?format=csv").body;
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 31, "{csv}");
    assert!(csv.lines().next().unwrap().contains("total_ms.commit"), "{csv}");
    assert_eq!(world.get("/api/trace/commits?trace=9").status, 404);
}

/// Of a long trace they are read again where somebody looks closer, be they commits or marks.
#[test]
fn blocks_that_are_zoomed_to_are_each_by_themselves() {
    let world = World::with_traces(Limits::default(), stores::recorded_long);
    let schema = world.json("/api/schema");
    for trace in [0, 1] {
        let all = world.json(&format!("/api/trace/commits?trace={trace}"));
        let points = all["commits"].as_array().unwrap();
        assert!(points.len() == 300 && points.iter().all(|it| it["blocks"] == 2), "{all}");
        let target = format!("/api/trace/commits?trace={trace}&from=101&to=109");
        let some = world.json(&target);
        assert_eq!(wrong(&schema, &schema["properties"]["/api/trace/commits"], &some, "it"), None);
        assert_eq!((&some["blocks"], &some["is_cut"]), (&600.into(), &false.into()));
        let near = some["commits"].as_array().unwrap();
        let numbers: Vec<_> = near.iter().map(|it| it["number"].as_u64().unwrap()).collect();
        assert!(numbers.into_iter().eq(101..109) && near.iter().all(|it| it["blocks"] == 1));
        // Those that are two on the whole have the same time together.
        let time = |of: &[Value]| -> f64 {
            let times = of.iter().flat_map(|it| it["total_ms"].as_object().unwrap().values());
            times.map(|it| it.as_f64().unwrap()).sum()
        };
        assert!((time(&near[1..3]) - time(&points[51..52])).abs() < 1e-9, "{some}");
    }
}

#[test]
fn the_schema_has_rows_too_and_what_is_text_has_none() {
    let world = world();
    let csv = world.get("/api/schema?format=csv");
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let csv = String::from_utf8(csv.body).unwrap();
    assert!(csv.starts_with("answer,field,type,always\r\n"), "{csv}");
    assert!(csv.contains("\r\n/api/collection,pins[],commit,true\r\n"), "{csv}");
    assert!(csv.contains("\r\nrun,worst_blocks[].name,string,true\r\n"), "{csv}");
    assert_eq!(world.json("/api/schema")["type"], "object");
    assert_eq!(world.get("/metrics?format=csv").status, 400);
}

/// Who reads values by the names of their columns does not fail on those that are just not there today.
#[test]
fn values_without_a_row_have_their_columns() {
    let world = World::with_traces(Limits::default(), stores::recorded);
    let first = |target: &str| {
        let answer = world.get(&format!("{target}format=csv"));
        assert_eq!(answer.status, 200, "{target}");
        String::from_utf8(answer.body).unwrap().lines().next().unwrap().to_owned()
    };
    for (none, some) in [
        ("/api/diff?before=last&after=last&", "/api/diff?"),
        ("/api/commits?limit=0&", "/api/commits?"),
        ("/api/compare/only?traces=1,1&", "/api/compare/only?"),
        ("/api/weights?path=block&", "/api/weights?"),
    ] {
        let columns = first(none);
        assert!(columns.contains(','), "{none}: {columns}");
        assert_eq!(columns, first(some), "{none}");
    }
    assert!(first("/api/collection?").starts_with("hash,tree,sequence"));
    // Of a trace each action has a column, besides.
    let none = first("/api/trace/commits?from=5&to=2&");
    assert!(!none.is_empty() && first("/api/trace/commits?").starts_with(&none), "{none}");
    for path in ["/api/pulse", "/metrics", "/api/proof/file", "/api/tree"] {
        let all = world.json("/api");
        let of = all["endpoints"].as_array().unwrap().iter().find(|it| it["path"] == path).unwrap();
        let lists = of["query"].as_array().unwrap().iter().any(|it| it == "format");
        assert_eq!(lists, path == "/api/tree", "{of}");
    }
}

#[test]
fn what_is_wrong_with_a_number_or_a_commit_is_said() {
    let world = world();
    let why = |target: &str| {
        let answer = world.get(target);
        (answer.status, answer.json()["error"]["message"].as_str().unwrap().to_owned())
    };
    let (status, said) = why("/api/compare?traces=0,1");
    assert!(status == 404 && said.contains("--trace"), "{said}");
    let (status, said) = why("/api/tree?store=ctx");
    assert!(status == 400 && said == "store is a number, in decimal digits", "{said}");
    let (status, said) = why("/api/sharing?commits=last,nothing,last");
    assert!(status == 404 && said.starts_with("number 2 of commits is neither"), "{said}");
    // As everywhere else.
    let said = world.json("/api/sharing?commits=last");
    assert_eq!(said["commits"][0]["hash"], world.commits[2].as_str());
}

#[test]
fn a_trace_that_takes_long_is_there_when_somebody_asks_again() {
    let limits = Limits { work: std::time::Duration::ZERO, ..Limits::default() };
    let world = World::with_traces(limits, stores::recorded);
    let mut busy = 0;
    let said = loop {
        let answer = world.get("/api/trace?trace=0");
        if answer.status == 200 {
            break answer.json();
        }
        assert_eq!((answer.status, answer.json()["error"]["kind"].as_str()), (503, Some("Busy")));
        busy += 1;
        assert!(busy < 1_000, "it is never there");
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert_eq!((&said["blocks"], busy > 0), (&30.into(), true));
    // What is no trace is said each time.
    std::fs::write(world.folder.path().join("one.trace"), b"something else").unwrap();
    for _ in 0..2 {
        let status = loop {
            let answer = world.get("/api/trace?trace=0");
            if answer.status != 503 {
                break answer.status;
            }
        };
        assert_eq!(status, 400);
    }
}
