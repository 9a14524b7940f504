//! What a replay holds of a trace that lets go of nothing, what it joins, and what it says of trees that were not told whole.

use std::sync::Arc;

use varvite::context::{ChildOrder, CommitHash, CommitInfo, Configuration, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::trace::{Action, Answer, Argument, Call, KeyUpdate, Recorder, Trace};
use varvite::{Batch, Kind, Log, MergeOperator, Session, SessionOptions, TableOptions};
use varvite_sight::trace::Replay;
use varvite_sight::trace::irmin::ToRows;

fn call(action: Action, arguments: Vec<Argument>, answer: Answer) -> Call {
    Call { action, start_ns: 0, duration_ns: 0, thread: 0, depth: 0, arguments, answer }
}

fn on_a_store() -> Replay {
    let store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let session = Session::create(MemoryDisk::seeded(2), SessionOptions::default()).unwrap();
    Replay::new(Some(store), Some(session), TableOptions::default(), || 0)
}

/// A frame of a few bytes a call makes a tree that takes half a kilobyte.
#[test]
fn a_replay_holds_no_more_than_it_may() {
    let mut replay = on_a_store().holds(1 << 20);
    let mut ended = None;
    for handle in 1..10_000 {
        let made = call(Action::EmptyTree, Vec::new(), Answer::Handle(handle));
        if let Err(error) = replay.call(&made) {
            ended = Some((handle, error));
            break;
        }
    }
    let (handle, error) = ended.expect("it ends");
    assert!((1_000..3_000).contains(&handle), "{handle}");
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.detail().contains("empty_tree") && error.detail().contains("1 MiB"), "{error}");
    // One that lets go of what it has goes on.
    let mut replay = on_a_store().holds(1 << 20);
    for handle in 1..10_000 {
        replay.call(&call(Action::EmptyTree, Vec::new(), Answer::Handle(handle))).unwrap();
        let of = Argument::Handle(handle);
        replay.call(&call(Action::Release, vec![of], Answer::Nothing)).unwrap();
    }
    // What is written to a tree counts, and where it is.
    let mut replay = on_a_store().holds(1 << 20);
    replay.call(&call(Action::EmptyTree, Vec::new(), Answer::Handle(1))).unwrap();
    let error = (0..10_000).find_map(|number| {
        let path = Argument::Path(vec![format!("n{number}").into_bytes()]);
        let arguments = vec![Argument::Handle(1), path, Argument::Bytes(vec![0; 600])];
        replay.call(&call(Action::Add, arguments, Answer::Nothing)).err()
    });
    let error = error.expect("it ends");
    assert!(error.detail().contains("add n1"), "{error}");
}

fn path(name: &str) -> Argument {
    Argument::Path(name.split('/').map(|step| step.as_bytes().to_vec()).collect())
}

fn add(handle: u64, name: &str, bytes: usize) -> Call {
    let arguments = vec![Argument::Handle(handle), path(name), Argument::Bytes(vec![7; bytes])];
    call(Action::Add, arguments, Answer::Nothing)
}

fn made(action: Action, arguments: Vec<Argument>, handle: u64) -> Call {
    call(action, arguments, Answer::Handle(handle))
}

fn release(handle: u64) -> Call {
    call(Action::Release, vec![Argument::Handle(handle)], Answer::Nothing)
}

/// Only what came of such a tree may be another for that.
#[test]
fn what_did_not_come_of_a_tree_in_part_is_not_said_to_be_behind_one() {
    let given = Argument::Entries(vec![(vec![b"a".to_vec()], b"1".to_vec())]);
    let first = |calls: &[Call]| {
        let mut replay = on_a_store();
        let in_part = vec![Argument::Handle(5), given.clone()];
        replay.call(&call(Action::Given, in_part, Answer::Failed)).unwrap();
        for call in calls {
            replay.call(call).unwrap();
        }
        assert_eq!(replay.outcome().mismatches, 1);
        replay.outcome().first_mismatch.unwrap()
    };
    let wrong = |handle| call(Action::Hash, vec![Argument::Handle(handle)], Answer::Hash([7; 32]));
    let empty = || made(Action::EmptyTree, Vec::new(), 6);
    let joined = || {
        let arguments = vec![Argument::Handle(6), path("x"), Argument::Handle(5)];
        call(Action::AddTree, arguments, Answer::Nothing)
    };
    let copy = made(Action::Clone, vec![Argument::Handle(6)], 7);
    assert!(!first(&[empty(), wrong(6)]).contains("not have whole"));
    assert!(!first(&[empty(), copy.clone(), joined(), wrong(7)]).contains("not have whole"));
    assert!(first(&[empty(), joined(), wrong(6)]).contains("not have whole"));
    assert!(first(&[empty(), joined(), copy, wrong(7)]).contains("not have whole"));
}

/// As rows of Irmin have it that copy a directory, or the root itself, again and again.
#[test]
fn what_copies_share_is_held_once() {
    let mut replay = on_a_store().holds(2 << 20);
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    for number in 0..100 {
        replay.call(&add(1, &format!("a/{number}"), 1_000)).unwrap();
    }
    for number in 2..1_000 {
        let found = vec![Argument::Handle(1), path("a")];
        replay.call(&made(Action::FindTree, found, number)).unwrap();
        let to = path(&format!("b{number}"));
        let placed = vec![Argument::Handle(1), to, Argument::Handle(number)];
        replay.call(&call(Action::AddTree, placed, Answer::Nothing)).unwrap();
        replay.call(&release(number)).unwrap();
    }
    assert_eq!(replay.outcome().mismatches, 0);
}

/// Candidates for the next block on one tree that stays, and one path that is written again and again.
#[test]
fn what_was_let_go_of_or_written_over_is_not_held() {
    let mut replay = on_a_store().holds(2 << 20);
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    replay.call(&add(1, "a/k", 1_000)).unwrap();
    for number in 2..200 {
        replay.call(&made(Action::Clone, vec![Argument::Handle(1)], number)).unwrap();
        for entry in 0..100 {
            replay.call(&add(number, &format!("a/{entry}"), 1_000)).unwrap();
        }
        replay.call(&release(number)).unwrap();
    }
    for number in 0..20_000 {
        replay.call(&add(1, "a/k", 1_000 + number % 7)).unwrap();
    }
    assert_eq!(replay.outcome().mismatches, 0);
    // Those that stay are held, with the copies of what they changed.
    let kept = (1_000..20_000).find(|number| {
        replay.call(&made(Action::Clone, vec![Argument::Handle(1)], *number)).is_err()
            || replay.call(&add(*number, &format!("a/{number}"), 1_000)).is_err()
    });
    assert!((1_400..2_400).contains(&kept.expect("it ends")), "{kept:?}");
}

#[test]
fn what_a_tree_has_spilled_is_not_held() {
    let options = Options { tree_bytes: 1 << 20, ..Options::default() };
    let store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let replay = Replay::new(Some(store), None, TableOptions::default(), || 0);
    let mut replay = replay.holds(8 << 20);
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    for number in 0..40_000 {
        replay.call(&add(1, &format!("a/{number}"), 600)).unwrap();
    }
    assert_eq!(replay.outcome().mismatches, 0);
}

/// A directory of long names is copied whole for each of the clones that add a few bytes to it.
#[test]
fn copies_of_wide_directories_are_held() {
    let mut replay = on_a_store().holds(32 << 20);
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    for number in 0..200 {
        replay.call(&add(1, &format!("{number}{}", "x".repeat(10_000)), 1)).unwrap();
    }
    let kept = (2..1_000).find(|number| {
        replay.call(&made(Action::Clone, vec![Argument::Handle(1)], *number)).unwrap();
        replay.call(&add(*number, "b", 1)).is_err()
    });
    assert!((10..20).contains(&kept.expect("it ends")), "{kept:?}");
}

/// A table takes what its buffer and its levels take, be it that a tree or a draft has its number.
#[test]
fn tables_are_held_for_what_they_take_whatever_else_has_their_number() {
    let open = |number: u64| {
        let name = Argument::Bytes(number.to_string().into_bytes());
        call(Action::OpenTable, vec![name], Answer::Handle(number))
    };
    let mut replay = on_a_store().holds(8 << 20);
    let ended = (1..1_000).find(|number| replay.call(&open(*number)).is_err());
    assert!((60..70).contains(&ended.expect("it ends")), "{ended:?}");
    let mut replay = on_a_store().holds(8 << 20);
    let ended = (1..1_000).find(|number| {
        let tree = made(Action::EmptyTree, Vec::new(), *number);
        replay.call(&open(*number)).is_err() || replay.call(&tree).is_err()
    });
    assert!((60..70).contains(&ended.expect("it ends")), "{ended:?}");
    let given = |number: u64| {
        let entries = Argument::Entries(vec![(vec![b"a".to_vec()], b"1".to_vec())]);
        call(Action::Given, vec![Argument::Handle(number), entries], Answer::Nothing)
    };
    let mut replay = on_a_store().holds(8 << 20);
    let ended = (1..1_000).find(|number| {
        replay.call(&open(*number)).is_err() || replay.call(&given(*number)).is_err()
    });
    assert!((60..70).contains(&ended.expect("it ends")), "{ended:?}");
    // What was let go of is not held, whatever had the number.
    let mut replay = on_a_store().holds(1 << 20);
    for number in 1..500 {
        replay.call(&open(number)).unwrap();
        replay.call(&made(Action::EmptyTree, Vec::new(), number)).unwrap();
        replay.call(&release(number)).unwrap();
    }
}

/// A view of each state of a table.
#[test]
fn views_are_held_for_what_they_take() {
    let mut replay = on_a_store().holds(1 << 20);
    let name = Argument::Bytes(b"t".to_vec());
    replay.call(&call(Action::OpenTable, vec![name], Answer::Handle(1))).unwrap();
    let ended = (2..2_000).find(|number| {
        replay.call(&made(Action::View, vec![Argument::Handle(1)], *number)).is_err()
    });
    assert!((400..600).contains(&ended.expect("it ends")), "{ended:?}");
}

/// What the trace found and the replay does not is a mismatch, and nothing that is held.
#[test]
fn what_was_not_found_is_not_held() {
    let mut replay = on_a_store().holds(1 << 20);
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    for number in 2..5_000 {
        let found = vec![Argument::Handle(1), path("none")];
        replay.call(&made(Action::FindTree, found, number)).unwrap();
        replay.call(&release(number)).unwrap();
    }
    assert_eq!(replay.outcome().mismatches, 4_998);
}

/// A change of a directory whose pieces have two children each copies one for each level.
#[test]
fn copies_of_deep_directories_are_held() {
    let configuration = Configuration::new(2, 2, ChildOrder::HashBits).unwrap();
    let options = Options { configuration, ..Options::default() };
    let store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let most = 8 << 20;
    let mut base = store.empty_tree();
    let mut replay = Replay::new(Some(store), None, TableOptions::default(), || 0).holds(most);
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    for number in 0..5_000 {
        let name = number.to_string();
        base.add(&[&name], &[7]).unwrap();
        replay.call(&add(1, &name, 1)).unwrap();
    }
    let mut kept = vec![base];
    for number in 2.. {
        let mut copy = kept[0].clone();
        copy.add(&["b"], &[7]).unwrap();
        kept.push(copy);
        replay.call(&made(Action::Clone, vec![Argument::Handle(1)], number)).unwrap();
        if replay.call(&add(number, "b", 1)).is_err() {
            break;
        }
        assert!(kept.len() < 20_000, "it goes on");
    }
    let held = Tree::held_bytes(&kept) + 512 * kept.len() as u64;
    assert!((most / 2..most / 8 * 9 + (1 << 20)).contains(&held), "{held} of {}", kept.len());
}

/// However much is added to one tree, and though one name is long, it is seldom asked what it holds.
#[test]
fn a_tree_is_seldom_asked_what_it_holds() {
    let store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let ticks = std::cell::Cell::new(0);
    let clock = move || ticks.replace(ticks.get() + 7);
    let replay = Replay::new(Some(store), None, TableOptions::default(), || 0);
    let mut replay = replay.holds(16 << 20).counts_by(clock);
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    replay.call(&add(1, &format!("a/{}", "x".repeat(4_000)), 1)).unwrap();
    for number in 0..10_000 {
        replay.call(&add(1, &format!("a/b/{number}"), 10)).unwrap();
    }
    assert_eq!(replay.countings(), 0);
    // Where each change is of a copy that is let go of, they are asked: and what that takes is told.
    for number in 2..20_000 {
        replay.call(&made(Action::Clone, vec![Argument::Handle(1)], number)).unwrap();
        replay.call(&add(number, "a/b/1", 10)).unwrap();
        replay.call(&add(number, "a/b/2", 11)).unwrap();
        replay.call(&release(number)).unwrap();
    }
    assert!((1..100).contains(&replay.countings()), "{}", replay.countings());
    assert_eq!(replay.counting_ns(), 7 * replay.countings());
}

fn given(number: u64, values: u8) -> Call {
    let entries = (0..values)
        .map(|name| (vec![b"a".to_vec(), format!("{number}-{name}").into_bytes()], vec![7; 6_000]));
    let given = vec![Argument::Handle(1), Argument::Entries(entries.collect())];
    call(Action::Given, given, Answer::Nothing)
}

/// A commit of one value by the tree `handle`, which was empty.
fn committed(handle: u64, value: u8) -> (CommitHash, [Call; 2]) {
    let mut store = Store::create(MemoryDisk::seeded(9), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["v"], &[value; 1_000]).unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::new(&[], 7, "a", "b")).unwrap();
    let text = |text: &str| Argument::Bytes(text.as_bytes().to_vec());
    let arguments = vec![
        Argument::Handle(handle),
        Argument::Keys(Vec::new()),
        Argument::Number(7),
        text("a"),
        text("b"),
    ];
    let add = vec![Argument::Handle(handle), path("v"), Argument::Bytes(vec![value; 1_000])];
    let calls = [
        call(Action::Add, add, Answer::Nothing),
        call(Action::Commit, arguments, Answer::Hash(*hash)),
    ];
    (hash, calls)
}

/// What was made elsewhere is told as content. No collection of the replay's store takes it, and it is held.
#[test]
fn what_is_told_of_another_store_stays_in_memory() {
    let options = Options { tree_bytes: 1 << 20, ..Options::default() };
    let store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let replay = Replay::new(Some(store), None, TableOptions::default(), || 0);
    let mut replay = replay.holds(8 << 20);
    (0..6).for_each(|part| replay.call(&given(part, 100)).unwrap());
    replay.call(&made(Action::EmptyTree, Vec::new(), 2)).unwrap();
    let (hash, calls) = committed(2, 1);
    for it in &calls {
        replay.call(it).unwrap();
    }
    replay.call(&call(Action::Collect, vec![Argument::Hash(*hash)], Answer::Nothing)).unwrap();
    let step = call(Action::CollectStep, vec![Argument::Number(1 << 20)], Answer::Flag(false));
    replay.call(&step).unwrap();
    for part in 0..6 {
        let at = vec![Argument::Handle(1), path(&format!("a/{part}-7"))];
        replay.call(&call(Action::Mem, at, Answer::Flag(true))).unwrap();
    }
    let length = vec![Argument::Handle(1), path("a")];
    replay.call(&call(Action::Length, length, Answer::Number(600))).unwrap();
    let outcome = replay.outcome();
    assert_eq!(outcome.mismatches, 0, "{:?}", outcome.first_mismatch);
    let ended = (6..100).find(|part| replay.call(&given(*part, 100)).is_err());
    assert!((10..20).contains(&ended.expect("it ends")), "{ended:?}");
}

/// A tree of before the store was cleared is taken over by the commit, with what it has made.
#[test]
fn a_tree_that_is_taken_over_has_made_what_it_made_before() {
    let mut replay = on_a_store();
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    (10..20).for_each(|value| {
        let arguments = vec![Argument::Handle(1), path("v"), Argument::Bytes(vec![value; 1_000])];
        replay.call(&call(Action::Add, arguments, Answer::Nothing)).unwrap();
    });
    replay.call(&call(Action::Clear, Vec::new(), Answer::Nothing)).unwrap();
    let (_, calls) = committed(1, 5);
    for it in &calls {
        replay.call(it).unwrap();
    }
    let outcome = replay.outcome();
    assert_eq!((outcome.mismatches, outcome.calls), (0, 14), "{:?}", outcome.first_mismatch);
    // The same of a tree by itself.
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    (0..10_u8).for_each(|value| tree.add(&["v"], &[value; 1_000]).unwrap());
    let before = tree.made_bytes();
    store.clear().unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[], 7, "a", "b")).unwrap();
    assert!(before > 10_000 && tree.made_bytes() >= before, "{} {before}", tree.made_bytes());
}

/// New directories, hashes and copies: what all trees hold grows by no more than they say that they made.
#[test]
fn trees_hold_no_more_than_they_made() {
    for (seed, deep) in [(1, false), (2, true), (3, false), (4, true)] {
        let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
        let mut random: u64 = seed;
        let mut below = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % most
        };
        let mut trees = vec![store.empty_tree()];
        let (mut made, mut last) = (0, 0);
        for step in 0..3_000_i64 {
            let place = below(trees.len() as u64) as usize;
            let before: u64 = trees[place].made_bytes();
            let mut names = vec![format!("d{}", below(6)), format!("n{}", below(700))];
            if deep {
                let depth = below(30);
                names.extend((0..depth).map(|_| "x".to_owned()));
            }
            match below(40) {
                0 if trees.len() < 8 => {
                    let copy = trees[place].clone();
                    trees.push(copy);
                    continue;
                }
                1 if trees.len() > 3 => {
                    trees.swap_remove(place);
                    continue;
                }
                2 => drop(trees[place].hash().unwrap()),
                3 if !trees[place].is_empty().unwrap() => {
                    let info = CommitInfo::new(&[], step, "a", "b");
                    store.commit(&mut trees[place], &info).unwrap();
                }
                4 => {
                    let other = trees[below(trees.len() as u64) as usize].clone();
                    if let Some(found) = other.find_tree(&["d1"]).unwrap() {
                        trees[place].add_tree(&["d2", "grafted"], &found).unwrap();
                    }
                }
                5..8 => trees[place].remove(&names[..2]).unwrap(),
                _ => trees[place].add(&names, &vec![1; below(60) as usize]).unwrap(),
            }
            made += trees[place].made_bytes() - before;
            if step % 10 == 0 {
                let held = Tree::held_bytes(&trees);
                let most = (last + made) * 9 / 8 + 2_000;
                assert!(held <= most, "{seed} {step}: {held} of {last} + {made}");
                (last, made) = (held, 0);
            }
        }
    }
}

/// Each subtree has a path of its own, of any length.
#[test]
fn a_conversion_keeps_no_more_than_it_may() {
    let (mut to, most) = (ToRows::default(), 1 << 20);
    to.rows(&made(Action::EmptyTree, Vec::new(), 1));
    let found = |handle| made(Action::FindTree, vec![Argument::Handle(1), path("a/b")], handle);
    let ended = (2..100_000).find(|handle| {
        to.rows(&found(*handle));
        to.check(most).is_err()
    });
    assert!((3_000..6_000).contains(&ended.expect("it ends")), "{ended:?}");
    let error = to.check(most).unwrap_err();
    assert!(error.kind() == Kind::Invalid && error.detail().contains("1 MiB are"), "{error}");
    // Those that were let go of are not kept, nor those whose number another has.
    let mut to = ToRows::default();
    to.rows(&made(Action::EmptyTree, Vec::new(), 1));
    for handle in 2..20_000 {
        to.rows(&found(handle));
        to.rows(&found(handle));
        to.rows(&release(handle));
        to.check(most).unwrap();
    }
}

/// What is told of a tree has no path of its own.
#[test]
fn where_it_ended_is_said_without_a_gap() {
    let mut replay = on_a_store().holds(1 << 20);
    let entries = |name: &str| Argument::Entries(vec![(vec![name.into()], vec![7; 2 << 20])]);
    let given = vec![Argument::Handle(1), entries("big")];
    let error = replay.call(&call(Action::Given, given, Answer::Nothing)).unwrap_err();
    assert!(error.detail().contains("at given big, the trees"), "{error}");
    let mut replay = on_a_store();
    replay.call(&made(Action::EmptyTree, Vec::new(), 1)).unwrap();
    let wrong = call(Action::Hash, vec![Argument::Handle(1)], Answer::Hash([7; 32]));
    replay.call(&wrong).unwrap();
    let first = replay.outcome().first_mismatch.unwrap();
    assert!(first.starts_with("call 2, hash: "), "{first}");
}

/// The release of a draft that was committed stands within the commit, and is not run.
#[test]
fn drafts_that_were_committed_are_let_go_of() {
    let mut replay = on_a_store().holds(1 << 20);
    let name = Argument::Bytes(b"t".to_vec());
    replay.call(&call(Action::OpenTable, vec![name], Answer::Handle(1))).unwrap();
    for number in 2..2_000 {
        let begun = call(Action::Draft, vec![Argument::Handle(1)], Answer::Handle(number));
        replay.call(&begun).unwrap();
        let updates = vec![KeyUpdate::Insert(b"k".to_vec(), vec![7; 1_000])];
        let written = vec![Argument::Handle(number), Argument::Updates(updates.clone())];
        replay.call(&call(Action::Write, written, Answer::Nothing)).unwrap();
        let mut released = call(Action::Release, vec![Argument::Handle(number)], Answer::Nothing);
        released.depth = 1;
        replay.call(&released).unwrap();
        let committed = vec![Argument::Handle(1), Argument::Updates(updates)];
        replay.call(&call(Action::Update, committed, Answer::Nothing)).unwrap();
    }
    assert_eq!(replay.outcome().mismatches, 0);
}

/// A trace does not say which operator a table has: whoever replays it does.
#[test]
fn upserts_are_joined_by_the_operator_that_the_replay_is_given() {
    for log in [Log::None, Log::Written] {
        let traces = MemoryDisk::seeded(7);
        let disk = Arc::clone(&traces) as Arc<dyn Disk>;
        let recorder = Recorder::create(&disk, "t", || 0).unwrap();
        let with = |recorder| SessionOptions { log, recorder, ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(1), with(Some(recorder.clone()))).unwrap();
        let made = |operator| TableOptions { operator, ..TableOptions::default() };
        let mut sums = session.create_table("sums", made(Some(MergeOperator::add_u64()))).unwrap();
        let mut logs = session.create_table("logs", made(Some(MergeOperator::append()))).unwrap();
        for _ in 0..3 {
            sums.update(Batch::new().upsert(b"k", &7_u64.to_le_bytes())).unwrap();
            logs.update(Batch::new().upsert(b"k", b"x")).unwrap();
        }
        assert_eq!(sums.get(b"k").unwrap(), Some(21_u64.to_le_bytes().to_vec()));
        assert_eq!(logs.get(b"k").unwrap(), Some(b"xxx".to_vec()));
        drop((sums, logs, session));
        recorder.finish().unwrap();
        let replayed = |operators| {
            let own = Session::create(MemoryDisk::seeded(2), with(None)).unwrap();
            let replay = Replay::new(None, Some(own), TableOptions::default(), || 0);
            let mut replay = replay.joins(operators);
            let mut trace = Trace::open(&*traces, "t").unwrap();
            while let Some(call) = trace.next_call().unwrap() {
                replay.call(&call).unwrap();
            }
            replay.outcome().mismatches
        };
        let sums = || (Some("sums".to_owned()), MergeOperator::add_u64());
        assert_eq!(replayed(vec![sums(), (None, MergeOperator::append())]), 0);
        assert!(replayed(vec![sums()]) > 0 && replayed(Vec::new()) > 0);
    }
}

/// What was told of it is there, and the first mismatch says that it may be for what was not.
#[test]
fn a_tree_that_was_not_told_whole_is_no_mismatch_by_itself() {
    let entries =
        |name: &str| Argument::Entries(vec![(vec![name.as_bytes().to_vec()], b"1".to_vec())]);
    let of = || Argument::Handle(5);
    let given = [
        call(Action::Given, vec![of(), entries("a")], Answer::Nothing),
        call(Action::Given, vec![of(), entries("b")], Answer::Failed),
    ];
    let mut replay = on_a_store();
    for call in &given {
        replay.call(call).unwrap();
    }
    let outcome = replay.outcome();
    assert_eq!((outcome.calls, outcome.skipped, outcome.mismatches), (1, 1, 0));
    for name in ["a", "b"] {
        let path = Argument::Path(vec![name.as_bytes().to_vec()]);
        replay.call(&call(Action::Mem, vec![of(), path], Answer::Flag(true))).unwrap();
    }
    assert_eq!(replay.outcome().mismatches, 0);
    replay.call(&call(Action::Hash, vec![of()], Answer::Hash([7; 32]))).unwrap();
    let outcome = replay.outcome();
    let first = outcome.first_mismatch.unwrap();
    assert!(outcome.mismatches == 1 && first.contains("not have whole"), "{first}");
    // Rows have what was told, and leave out what is on a tree that is another.
    let mut to = ToRows::default();
    let mut rows: Vec<_> = given.iter().flat_map(|call| to.rows(call)).collect();
    let path = Argument::Path(vec![b"c".to_vec()]);
    rows.extend(to.rows(&call(
        Action::Add,
        vec![of(), path, Argument::Bytes(Vec::new())],
        Answer::Nothing,
    )));
    rows.extend(to.end());
    assert_eq!((rows.len(), to.left_out.calls(), to.left_out.following), (2, 2, 1), "{rows:?}");
    // One within a call is that one's.
    let mut within = given[0].clone();
    within.depth = 1;
    let mut to = ToRows::default();
    assert!(to.rows(&within).is_empty() && to.end().is_empty());
}
