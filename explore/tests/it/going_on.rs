//! What was cut, by its length or by the time for an answer, goes on where it ended.

use std::time::Duration;

use serde_json::Value;
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
