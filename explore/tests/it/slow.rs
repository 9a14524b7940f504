//! Stores that take long to open, or cannot be: others are shown meanwhile, and every request has a status. And branches
//! whose names are taken for something else.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use varvite::Error;
use varvite::context::hash::to_text;
use varvite::context::{CommitInfo, Options, Store};
use varvite::disk::os::OsDisk;
use varvite_explore::{Limits, Opens, Source};

use crate::stores;
use crate::world::World;

/// The context of `folder`, as `open` opens it.
fn opened_by(
    folder: &Path,
    open: impl Fn(&Path) -> varvite::Result<Store> + Send + Sync + 'static,
) -> Source {
    let place = folder.to_owned();
    Source {
        name: "chain".to_owned(),
        folder: folder.to_owned(),
        kind: "context",
        opens: Opens::Context(Box::new(move || open(&place))),
    }
}

fn open(place: &Path) -> varvite::Result<Store> {
    Store::open_read_only(OsDisk::new(place)?, Options::default())
}

/// A context that takes so long to open, and tables that do not.
fn with_a_slow_one(takes: Duration, limits: Limits) -> World {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("chain"), folder.path().join("ledger"));
    let commits = stores::context(&one);
    stores::tables(&two);
    let mut sources = stores::sources(&one, &two);
    sources[0] = opened_by(&one, move |place| {
        std::thread::sleep(takes);
        open(place)
    });
    World::showing(folder, commits, sources, Vec::new(), limits)
}

#[test]
fn a_store_that_is_being_opened_holds_up_no_other() {
    let world = with_a_slow_one(Duration::from_secs(4), Limits::default());
    assert_eq!(world.json("/api/levels?store=1")["table"], "coins");
    let start = Instant::now();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let answer = world.get("/api/commits?store=0");
                assert_eq!(answer.status, 503);
                assert_eq!(answer.json()["error"]["kind"], "Busy");
            });
        }
        threads.spawn(|| assert_eq!(world.get("/api/levels?store=1").status, 200));
    });
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    let all = world.json("/api/overview");
    assert_eq!(
        (&all["stores"][0]["damage"], &all["stores"][0]["opening"]),
        (&Value::Null, &true.into())
    );
    assert_eq!(all["stores"][1]["opening"], false);
    let pulse = world.json("/api/pulse?store=0");
    assert_eq!(
        (&pulse["damage"], &pulse["opening"], &pulse["revision"]),
        (&Value::Null, &true.into(), &Value::Null)
    );
    assert_eq!(all["stores"][1]["about"]["tables"][0]["name"], "coins");
    let figures = String::from_utf8(world.get("/metrics").body).unwrap();
    assert!(!figures.contains("varvite_store_up{store=\"chain\"}"), "{figures}");
    assert!(figures.contains("varvite_store_up{store=\"ledger\"} 1"), "{figures}");
    assert_eq!(world.json("/api/commits?store=0")["all"], 3);
}

/// Forty who ask for it wait half a second together, and not each on a worker.
#[test]
fn many_who_ask_for_a_store_that_is_being_opened_hold_up_no_other() {
    let world = with_a_slow_one(Duration::from_secs(20), Limits::default());
    assert_eq!(world.json("/api/levels?store=1")["table"], "coins");
    std::thread::scope(|threads| {
        for _ in 0..40 {
            threads.spawn(|| assert_eq!(world.get("/api/commits?store=0").status, 503));
        }
        std::thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        assert_eq!(world.get("/api/levels?store=1").status, 200);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    });
}

/// Figures are asked for each minute, which is less often than a store that nobody asks for is closed.
#[test]
fn figures_of_a_store_that_opens_slowly_are_there_the_next_time() {
    let limits = Limits { rest: Duration::from_millis(700), ..Limits::default() };
    let world = with_a_slow_one(Duration::from_secs(1), limits);
    let figures = || String::from_utf8(world.get("/metrics").body).unwrap();
    let up = "varvite_store_up{store=\"chain\"} 1";
    assert!(!figures().contains(up));
    std::thread::sleep(Duration::from_secs(4));
    let second = figures();
    assert!(
        second.contains(up) && second.contains("varvite_commits{store=\"chain\"} 3"),
        "{second}"
    );
}

/// Rest begins when it is open, however long that took.
#[test]
fn a_store_is_not_closed_as_it_is_opened() {
    let limits = Limits { rest: Duration::from_millis(700), ..Limits::default() };
    let world = with_a_slow_one(Duration::from_millis(1_800), limits);
    assert_eq!(world.get("/api/commits?store=0").status, 503);
    std::thread::sleep(Duration::from_millis(1_700));
    assert_eq!(world.get("/api/commits?store=0").status, 200);
}

/// One whose opening failed after a while is tried again once a file of it has changed.
#[test]
fn what_failed_slowly_is_tried_again_when_it_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("chain");
    let commits = stores::context(&place);
    let control = place.join("control");
    let whole = std::fs::read(&control).unwrap();
    let mut damaged = whole.clone();
    damaged[25] ^= 1;
    std::fs::write(&control, damaged).unwrap();
    let openings = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&openings);
    let source = opened_by(&place, move |place| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(800));
        open(place)
    });
    let world = World::showing(folder, commits, vec![source], Vec::new(), Limits::default());
    assert_eq!(world.get("/api/commits").status, 503);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(world.get("/api/commits").status, 500);
    // As long as it is as it was, nobody opens it again.
    std::thread::sleep(Duration::from_millis(1_700));
    assert_eq!(world.get("/api/commits").status, 500);
    assert_eq!(openings.load(Ordering::Relaxed), 1);
    std::fs::write(&control, whole).unwrap();
    let start = Instant::now();
    let mut statuses = Vec::new();
    while statuses.last() != Some(&200) {
        assert!(start.elapsed() < Duration::from_secs(8), "{statuses:?}");
        std::thread::sleep(Duration::from_millis(200));
        statuses.push(world.get("/api/commits").status);
    }
    // While it is opened again, that is what is said.
    statuses.dedup();
    assert!(matches!(&statuses[..], [500, 503, 200] | [503, 200]), "{statuses:?}");
}

/// An opening beside a writer may fail by chance: what was open before is shown until the next one. One that fails again is
/// told of.
#[test]
fn what_is_open_is_shown_until_an_opening_has_failed_twice() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("chain");
    let commits = stores::context(&place);
    let failures = Arc::new(AtomicU64::new(0));
    let left = Arc::clone(&failures);
    let source = opened_by(&place, move |place| {
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok() {
            std::thread::sleep(Duration::from_millis(600));
            return Err(Error::corrupt("chain", 0, "a store", "another file"));
        }
        open(place)
    });
    let world = World::showing(folder, commits, vec![source], Vec::new(), Limits::default());
    assert_eq!(world.get("/api/commits").status, 200);
    let ask = |seconds: u64| {
        let start = Instant::now();
        let mut statuses = Vec::new();
        while start.elapsed() < Duration::from_secs(seconds) {
            statuses.push(world.get("/api/commits").status);
            std::thread::sleep(Duration::from_millis(100));
        }
        statuses
    };
    failures.store(1, Ordering::Relaxed);
    std::fs::write(place.join("one"), b"1").unwrap();
    let statuses = ask(5);
    assert_eq!(failures.load(Ordering::Relaxed), 0);
    assert!(statuses.iter().all(|it| *it == 200), "{statuses:?}");
    failures.store(100, Ordering::Relaxed);
    for number in 0..3 {
        std::fs::write(place.join("other"), number.to_string()).unwrap();
        ask(2);
    }
    assert_eq!(world.get("/api/commits").status, 500);
}

/// A connection on which nothing moves is ended; before that it has a status.
#[test]
fn who_waits_as_long_as_a_connection_may_is_told_so() {
    let idle = Duration::from_millis(1_500);
    let limits = Limits { workers: 1, idle, ..Limits::default() };
    let world = with_a_slow_one(Duration::from_secs(10), limits);
    std::thread::scope(|threads| {
        // One worker, and each waits on it for half a second.
        for _ in 0..8 {
            threads.spawn(|| assert_eq!(world.get("/api/commits?store=0").status, 503));
        }
    });
}

#[test]
fn a_store_that_cannot_be_opened_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("chain");
    let commits = stores::context(&place);
    let (has_failed, has_panicked) = (AtomicBool::new(false), AtomicBool::new(false));
    let source = opened_by(&place, move |place| {
        assert!(has_panicked.swap(true, Ordering::Relaxed), "the first time");
        if !has_failed.swap(true, Ordering::Relaxed) {
            return Err(Error::corrupt("chain", 0, "a store", "another file"));
        }
        open(place)
    });
    let world = World::showing(folder, commits, vec![source], Vec::new(), Limits::default());
    let kinds: Vec<_> = (0..2)
        .map(|_| {
            let answer = world.get("/api/commits");
            assert_eq!(answer.status, 500);
            answer.json()["error"]["kind"].clone()
        })
        .collect();
    assert_eq!(kinds, ["Panicked", "Corrupt"]);
    assert_eq!(world.json("/api/commits")["all"], 3);
}

#[test]
fn any_branch_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("chain");
    let mut store = Store::open_or_create(&place, Options::default()).unwrap();
    let names: [&[u8]; 4] = [b"last", b"a,b", b"\xff\x00", b"branch:a"];
    let mut tree = store.empty_tree();
    let commits: Vec<_> = names
        .iter()
        .map(|name| {
            tree.add(&["name"], name).unwrap();
            let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
            store.set_branch(name, &hash).unwrap();
            to_text(&hash)
        })
        .collect();
    drop(tree);
    store.close().unwrap();
    let source = opened_by(&place, open);
    let world =
        World::showing(folder, commits.clone(), vec![source], Vec::new(), Limits::default());
    let of = |name: &str| world.json(&format!("/api/tree?commit={name}"))["commit"].clone();
    assert_eq!(of("last"), commits[3], "the newest");
    assert_eq!(of("branch:last"), commits[0]);
    assert_eq!(of("branch:a,b"), commits[1]);
    assert_eq!(of("branch-hex:ff00"), commits[2]);
    assert_eq!(of("branch:branch:a"), commits[3]);
    let shared = world.json("/api/sharing?commits=branch-hex:612c62,branch:last,branch-hex:FF00");
    let shared: Vec<_> =
        shared["commits"].as_array().unwrap().iter().map(|it| &it["hash"]).collect();
    assert_eq!(shared, [&commits[1], &commits[0], &commits[2]]);
    // A hash is that commit, though a branch is called like it.
    let mut store =
        Store::open(OsDisk::new(world.folder.path().join("chain")).unwrap(), Options::default())
            .unwrap();
    let other = commits[1].parse().unwrap();
    store.set_branch(commits[0].as_bytes(), &other).unwrap();
    store.close().unwrap();
    std::thread::sleep(Duration::from_millis(1_700));
    assert_eq!(of(&format!("branch:{}", commits[0])), commits[1]);
    assert_eq!(of(&commits[0]), commits[0]);
    assert_eq!(of(&format!("hash:{}", commits[0])), commits[0]);
    for (name, status) in
        [("hash:a,b", 404), ("branch:none", 404), ("branch-hex:f", 400), ("branch-hex:xx", 400)]
    {
        assert_eq!(world.get(&format!("/api/tree?commit={name}")).status, status, "{name}");
    }
}
