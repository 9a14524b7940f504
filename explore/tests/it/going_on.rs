//! What was cut, by its length or by the time for an answer, goes on where it ended; and what commits share.

use std::time::{Duration, Instant};

use serde_json::Value;
use varvite::context::{CommitHash, CommitInfo, Options, Store};
use varvite::disk::os::OsDisk;
use varvite_explore::Limits;

use crate::world::World;

fn hurried() -> World {
    World::new(Limits { work: Duration::ZERO, ..Limits::default() })
}

fn rows<'a>(said: &'a Value, name: &str) -> &'a [Value] {
    said[name].as_array().unwrap()
}

/// A raw path of one in hexadecimal.
fn raw(hex: &str) -> String {
    let mut raw = String::new();
    for (at, digit) in hex.char_indices() {
        let within = hex[..at].rsplit('/').next().map_or(0, str::len);
        if digit != '/' && within.is_multiple_of(2) {
            raw.push('%');
        }
        raw.push(digit);
    }
    raw
}

/// Asks until nothing is left; `from` is put behind the target. Gives all rows, and how many answers it took.
fn all(world: &World, target: &str, rows_name: &str, next: &str, from: &str) -> (Vec<Value>, u32) {
    let (mut found, mut answers, mut asked) = (Vec::new(), 0, target.to_owned());
    loop {
        let said = world.json(&asked);
        answers += 1;
        found.extend(rows(&said, rows_name).iter().cloned());
        match &said[next] {
            Value::Null => return (found, answers),
            Value::String(next) => asked = format!("{target}&{from}={}", raw_or_hash(next)),
            next => asked = format!("{target}&{from}={next}"),
        }
        assert!(answers < 1_000, "{asked} never ends");
    }
}

fn raw_or_hash(next: &str) -> String {
    if next.starts_with("Co") { next.to_owned() } else { raw(next) }
}

#[test]
fn a_diff_goes_on_from_the_change_that_it_ended_before() {
    let (world, hurried) = (World::new(Limits::default()), hurried());
    for path in ["", "accounts"] {
        let target = format!("/api/diff?path={path}");
        let whole = world.json(&format!("{target}&limit=1000"));
        assert_eq!((&whole["is_cut"], &whole["next_hex"]), (&false.into(), &Value::Null));
        let changes = rows(&whole, "changes");
        assert!(changes.len() >= 100);
        let (found, answers) =
            all(&world, &format!("{target}&limit=7"), "changes", "next_hex", "from");
        assert_eq!((&found[..], answers), (changes, (changes.len() as u32).div_ceil(7)), "{path}");
        let (found, answers) = all(&hurried, &target, "changes", "next_hex", "from");
        assert_eq!((&found[..], answers), (changes, changes.len() as u32), "{path}");
    }
}

#[test]
fn weights_go_on_with_the_next_child() {
    let (world, hurried) = (World::new(Limits::default()), hurried());
    let (mut whole, answers) =
        all(&world, "/api/weights?path=accounts", "children", "next", "offset");
    assert_eq!((whole.len(), answers), (300, 2));
    assert!(whole.iter().all(|it| it["bytes"] == 8 && it["values"] == 1 && it["is_cut"] == false));
    let (mut found, answers) =
        all(&hurried, "/api/weights?path=accounts", "children", "next", "offset");
    assert_eq!(answers, 300);
    for rows in [&mut whole, &mut found] {
        rows.sort_by_key(|it| it["name"].as_str().unwrap().to_owned());
    }
    // A child of one value is counted whole in any time.
    assert_eq!(found, whole);
    // One that is not says so, and its rest is below it.
    let (found, _) = all(&hurried, "/api/weights?path=", "children", "next", "offset");
    let of = |name: &str| found.iter().find(|it| it["name"] == name).unwrap().clone();
    assert_eq!((&of("accounts")["values"], &of("accounts")["is_cut"]), (&1.into(), &true.into()));
    assert_eq!((&of("block")["values"], &of("block")["is_cut"]), (&1.into(), &false.into()));
    let said = world.json("/api/weights?path=block");
    assert_eq!((rows(&said, "children").len(), &said["next"]), (0, &Value::Null));
}

#[test]
fn commits_go_on_before_the_last_one_and_an_offset_is_bounded() {
    let (world, hurried) = (World::new(Limits::default()), hurried());
    let whole = world.json("/api/commits");
    let commits = rows(&whole, "commits");
    assert_eq!((commits.len(), &whole["next"], &whole["is_cut"]), (3, &Value::Null, &false.into()));
    for (world, target) in [(&world, "/api/commits?limit=1"), (&hurried, "/api/commits?limit=9")] {
        let (found, answers) = all(world, target, "commits", "next", "before");
        assert_eq!((&found[..], answers), (commits, 3));
    }
    let said = world.json(&format!("/api/commits?before={}&offset=1", world.commits[2]));
    assert_eq!(rows(&said, "commits"), &commits[2..]);
    assert_eq!(rows(&world.json("/api/commits?offset=3"), "commits").len(), 0);
    assert_eq!(rows(&world.json("/api/commits?offset=9999"), "commits").len(), 0);
    let refused = world.get("/api/commits?offset=10001");
    assert_eq!(refused.status, 400, "{}", refused.head);
    assert_eq!(world.get("/api/commits?before=nothing").status, 404);
}

#[test]
fn sharing_is_what_the_engine_counts_however_many_answers_it_takes() {
    let (world, hurried) = (World::new(Limits::default()), hurried());
    let said = world.json("/api/sharing");
    assert_eq!((&said["is_cut"], &said["next"]), (&false.into(), &Value::Null));
    let found = rows(&said, "commits");
    let hashes: Vec<_> = found.iter().map(|it| it["hash"].as_str().unwrap()).collect();
    assert_eq!(hashes, world.commits.iter().rev().collect::<Vec<_>>());
    let disk = OsDisk::new(world.folder.path().join("chain")).unwrap();
    let store = Store::open_read_only(disk, Options::default()).unwrap();
    let commits: Vec<CommitHash> = hashes.iter().map(|it| it.parse().unwrap()).collect();
    let mut sharing = store.sharing(&commits).unwrap();
    while sharing.step(&store, 1_000).unwrap() {}
    let parts = sharing.parts();
    let bytes = |of: &dyn Fn(u32) -> bool| {
        parts.iter().filter(|it| of(it.commits)).map(|it| it.bytes).sum::<u64>()
    };
    for (place, row) in found.iter().enumerate() {
        let (own, holds) = (1 << place, |of: u32| of >> place & 1 == 1);
        assert_eq!(row["own_bytes"], bytes(&|of| of == own), "{row}");
        assert_eq!(row["all_bytes"], bytes(&|of| of == 0b111));
        assert_eq!(row["some_bytes"], bytes(&|of| holds(of) && of != own && of != 0b111));
    }
    assert!(found[0]["own_bytes"].as_u64().unwrap() > 100, "{said}");
    // Chunk by chunk what they hold, and the rest of each file is dead for them.
    let chunks = rows(&said, "chunks");
    let sum = |name: &str| chunks.iter().map(|it| it[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(chunks.len(), store.chunks().len());
    assert_eq!((sum("held_bytes"), sum("held_pieces")), (bytes(&|_| true), sharing.counted()));
    assert_eq!(sum("dead_bytes"), sum("disk_bytes") - sum("held_bytes"));
    assert_eq!(said["dead_bytes"], sum("dead_bytes"));
    let newest = world.json("/api/sharing?last=1");
    let dead = |said: &Value| rows(said, "chunks")[0]["dead_bytes"].as_u64().unwrap();
    assert!(dead(&newest) > dead(&said) + 100, "{newest}");
    let part = world.json("/api/sharing?pieces=3");
    assert_eq!(
        (&part["is_cut"], &rows(&part, "chunks")[0]["dead_bytes"]),
        (&true.into(), &Value::Null)
    );
    assert_eq!(
        (&said["counted"], &said["bytes"]),
        (&sharing.counted().into(), &bytes(&|_| true).into())
    );
    // A limit is kept to the piece, and what is asked next is more.
    let part = world.json("/api/sharing?pieces=3");
    assert_eq!(
        (&part["counted"], &part["is_cut"], &part["next"]),
        (&3.into(), &true.into(), &800_000.into())
    );
    assert_eq!(world.json("/api/sharing?pieces=800000")["commits"], said["commits"]);
    // A pair, by a branch and a hash; the same twice shares all.
    let pair = world.json(&format!("/api/sharing?commits=main,{}", world.commits[0]));
    assert_eq!(rows(&pair, "commits").len(), 2);
    let twice = world.json("/api/sharing?commits=main,main");
    assert_eq!((&twice["commits"][0]["own_bytes"], rows(&twice, "parts").len()), (&0.into(), 1));
    let csv = world.get("/api/sharing?format=csv");
    assert_eq!(String::from_utf8(csv.body).unwrap().lines().count(), 4);
    // In no time an answer takes one step, and the next goes on.
    let (store, _) = with_a_large_commit(&hurried);
    store.close().unwrap();
    let (mut answers, mut counted) = (0, 0);
    loop {
        let said = hurried.json("/api/sharing?last=1");
        answers += 1;
        let now = said["counted"].as_u64().unwrap();
        assert!(now > counted, "it goes on: {counted} then {now}");
        counted = now;
        if said["next"].is_null() {
            break;
        }
        assert_eq!(said["next"], said["pieces"]);
    }
    assert!(answers > 2, "{answers} answers of {counted} pieces");
}

/// The context with one more commit, which takes several answers in no time, open to write.
fn with_a_large_commit(world: &World) -> (Store, CommitHash) {
    let disk = OsDisk::new(world.folder.path().join("chain")).unwrap();
    let mut store = Store::open(disk, Options::default()).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..3_000 {
        tree.add(&["d", &format!("{}", number % 50), &format!("{number}")], &[number as u8; 300])
            .unwrap();
    }
    let hash = store.commit(&mut tree, &CommitInfo::new(&[], 9, "", "")).unwrap();
    (store, hash)
}

#[test]
fn a_count_goes_on_beside_the_writer() {
    let world = hurried();
    let (mut store, large) = with_a_large_commit(&world);
    let target = format!("/api/sharing?commits={}", varvite::context::hash::to_text(&large));
    let first = world.json(&target);
    assert_eq!(rows(&first, "commits").len(), 1);
    let mut counted = first["counted"].as_u64().unwrap();
    for block in 0..2_u8 {
        let mut tree = store.checkout(&large).unwrap();
        tree.add(&["block"], &[block]).unwrap();
        let info = CommitInfo::new(&[large], 10 + i64::from(block), "", "");
        let new = varvite::context::hash::to_text(&store.commit(&mut tree, &info).unwrap());
        // The store is opened anew once the explorer knows the commit.
        let start = Instant::now();
        while world.get(&format!("/api/tree?commit={new}")).status != 200 {
            assert!(start.elapsed() < Duration::from_secs(20), "the commit is never seen");
            std::thread::sleep(Duration::from_millis(100));
        }
        let now = world.json(&target)["counted"].as_u64().unwrap();
        assert!(now > counted, "it goes on: {counted} then {now}");
        counted = now;
    }
}

#[test]
fn sharing_is_refused_where_it_is_not_said() {
    let world = World::new(Limits::default());
    assert_eq!(world.get("/api/sharing?store=1").status, 404);
    assert_eq!(world.get("/api/sharing?commits=nothing").status, 404);
    assert_eq!(world.get("/api/sharing?last=33").status, 400);
    let many = vec!["main"; 33].join(",");
    assert_eq!(world.get(&format!("/api/sharing?commits={many}")).status, 400);
    assert_eq!(world.get(&format!("/api/sharing?commits={}", &many[5..])).status, 200);
}
