//! What a recorder writes down of both faces: arguments, answers, depths, handles, threads.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use varvite::context::{self, CommitInfo, Configuration, Depth, Index, Order, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::trace::{Action, Answer, Argument, Call, Digest, KeyUpdate, Recorder, Trace};
use varvite::{
    Batch, Kind, Log, MergeOperator, Observer, OpenSnapshot, OpenTable, Operation, Session,
    SessionOptions, SnapshotContent, TableOptions,
};

use crate::context_archive;
use crate::trace_bytes::{calls, clock};

struct Recording(Arc<MemoryDisk>, Arc<Recorder>);

impl Recording {
    fn new() -> Recording {
        let traces = MemoryDisk::seeded(7);
        let disk = Arc::clone(&traces) as Arc<dyn Disk>;
        Recording(traces, Recorder::create(&disk, "t", clock()).unwrap())
    }

    fn store(&self) -> Store {
        let options =
            context::Options { recorder: Some(self.1.clone()), ..context::Options::default() };
        Store::create(MemoryDisk::seeded(1), options).unwrap()
    }

    fn session(&self) -> Session {
        let recorder = Some(self.1.clone());
        let options = SessionOptions { recorder, ..SessionOptions::default() };
        Session::create(MemoryDisk::seeded(1), options).unwrap()
    }

    fn calls(&self) -> Vec<Call> {
        self.1.finish().unwrap();
        let (calls, end) = calls(&self.0.bytes("t").unwrap());
        assert_eq!(end.unwrap().cut_bytes, 0);
        calls
    }
}

fn path(steps: &[&str]) -> Argument {
    Argument::Path(steps.iter().map(|step| step.as_bytes().to_vec()).collect())
}

fn told(call: &Call) -> (Action, &[Argument], Answer) {
    (call.action, &call.arguments, call.answer)
}

#[test]
fn calls_of_a_context_have_their_arguments_and_answers() {
    let recording = Recording::new();
    let mut store = recording.store();
    let mut tree = store.empty_tree();
    tree.add(&["data", "a"], &[7; 40]).unwrap();
    tree.add(&["data", "a", "b"], b"1").unwrap();
    let copy = tree.clone();
    tree.remove(&["data", "a"]).unwrap();
    assert!(!tree.mem(&["data", "a", "b"]).unwrap());
    assert!(copy.find_tree(&["data"]).unwrap().is_some());
    assert!(copy.find_tree(&["nothing"]).unwrap().is_none());
    assert_eq!(copy.length(&["data"]).unwrap(), 1);
    assert_eq!(copy.list(&["data"], 0, 9).unwrap().len(), 1);
    assert_eq!(copy.find(&["data", "x"]).unwrap(), None);
    let hash = copy.hash().unwrap();
    assert!(store.commit(&mut tree, &CommitInfo::default()).is_err());
    let calls = recording.calls();
    let handle = Argument::Handle;
    let expected: [(Action, &[Argument], Answer); 13] = [
        (Action::EmptyTree, &[], Answer::Handle(1)),
        (
            Action::Add,
            &[handle(1), path(&["data", "a"]), Argument::Bytes(vec![7; 40])],
            Answer::Nothing,
        ),
        (
            Action::Add,
            &[handle(1), path(&["data", "a", "b"]), Argument::Bytes(b"1".to_vec())],
            Answer::Nothing,
        ),
        (Action::Clone, &[handle(1)], Answer::Handle(2)),
        (Action::Remove, &[handle(1), path(&["data", "a"])], Answer::Nothing),
        (Action::Mem, &[handle(1), path(&["data", "a", "b"])], Answer::Flag(false)),
        (Action::FindTree, &[handle(2), path(&["data"])], Answer::Handle(3)),
        (Action::Release, &[handle(3)], Answer::Nothing),
        (Action::FindTree, &[handle(2), path(&["nothing"])], Answer::Handle(0)),
        (Action::Length, &[handle(2), path(&["data"])], Answer::Number(1)),
        (
            Action::List,
            &[handle(2), path(&["data"]), Argument::Number(0), Argument::Number(9)],
            Answer::Digest(Some(Digest::of_all([Some(&b"a"[..])]))),
        ),
        (Action::Find, &[handle(2), path(&["data", "x"])], Answer::Digest(None)),
        (Action::Hash, &[handle(2)], Answer::Hash(*hash)),
    ];
    for (call, expected) in calls.iter().zip(expected) {
        assert_eq!(told(call), expected);
    }
    let commit = &calls[13];
    assert_eq!((commit.action, commit.answer, calls.len()), (Action::Commit, Answer::Failed, 14));
    let ends: Vec<_> = calls.iter().map(|call| call.start_ns + call.duration_ns).collect();
    assert!(ends.is_sorted(), "{ends:?}");
}

/// What is given of a tree that came from elsewhere.
#[test]
fn trees_from_elsewhere_are_told() {
    let recording = Recording::new();
    let mut store = recording.store();
    let mut made = Tree::empty(Configuration::TEZOS);
    made.add(&["a", "b"], &[1; 20]).unwrap();
    made.add(&["a", "c"], b"2").unwrap();
    let commit = store.commit(&mut made, &CommitInfo::default()).unwrap();
    // From here on it is known.
    made.add(&["d"], b"3").unwrap();
    let tree = store.checkout(&commit).unwrap();
    let mut inner = Vec::new();
    tree.fold::<&[u8]>(&[], None, Order::Sorted, |path, _| {
        inner.push(tree.mem(path)?);
        Ok(())
    })
    .unwrap();
    assert_eq!(inner.len(), 4);
    let calls = recording.calls();
    let names: Vec<_> = calls.iter().map(|call| (call.action.name(), call.depth)).collect();
    assert_eq!(&names[..4], [("given", 0), ("commit", 0), ("add", 0), ("checkout", 0)]);
    let Argument::Entries(entries) = &calls[0].arguments[1] else { panic!("{:?}", calls[0]) };
    let values: Vec<_> =
        entries.iter().map(|(path, value)| (path.join(&b'/'), value.len())).collect();
    assert_eq!(values, [(b"a/b".to_vec(), 20), (b"a/c".to_vec(), 1)]);
    assert_eq!(calls[0].arguments[0], calls[1].arguments[0]);
    assert_eq!(calls[1].arguments[0], calls[2].arguments[0]);
    assert_eq!(calls[1].answer, Answer::Hash(*commit));
}

/// What was recorded has its name and all of its bytes behind `finish`, and a sync that failed is not forgotten.
#[test]
fn what_is_finished_outlives_a_power_cut_and_a_failed_sync_is_told_again() {
    let sim = SimDisk::new(5);
    let disk = Arc::clone(&sim) as Arc<dyn Disk>;
    let recorder = Recorder::create(&disk, "t", clock()).unwrap();
    recorder.mark("a");
    recorder.finish().unwrap();
    let after = sim.crash(Crash::Subset(0)) as Arc<dyn Disk>;
    let mut trace = Trace::open(&*after, "t").unwrap();
    assert_eq!(trace.next_call().unwrap().unwrap().action, Action::Mark);
    // That of the file, and that of its folder.
    for number in 0..2 {
        let sim = SimDisk::new(6);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let recorder = Recorder::create(&disk, "t", clock()).unwrap();
        recorder.mark("a");
        sim.fail_at(sim.calls().of(Fault::Sync) + 1 + number, Fault::Sync);
        assert!(recorder.finish().is_err(), "{number}");
        let again = recorder.finish().unwrap_err();
        assert!(again.to_string().contains("ended before"), "{again}");
    }
}

/// Pages come to the disk in any order before a recording is ended, and those that did not are zeros.
#[test]
fn what_is_before_a_page_that_a_power_cut_lost_is_read() {
    let recording = Recording::new();
    let store = recording.store();
    let mut tree = store.empty_tree();
    for number in 0..2_000_u32 {
        tree.add(&[number.to_le_bytes()], &[7; 500]).unwrap();
    }
    let whole = recording.0.bytes("t").unwrap();
    let (mut starts, mut next) = (Vec::new(), 32);
    while next + 12 <= whole.len() {
        starts.push(next);
        let length = u32::from_le_bytes(whole[next + 4..next + 8].try_into().unwrap());
        next += 12 + length as usize;
    }
    assert!(starts.len() > 6 && next == whole.len(), "{starts:?} of {}", whole.len());
    let before = |frame: usize| calls(&whole[..starts[frame]]).0.len();
    let last = starts.len() - 1;
    let with = |bytes: &[u8], page: usize| {
        let mut bytes = bytes.to_vec();
        bytes[page..page + 4096].fill(0);
        bytes
    };
    let inner = |frame: usize| (starts[frame] + 5_000).next_multiple_of(4_096);
    // The page with the end of a frame and the head of the next, and one in the middle of a frame that others follow.
    let end = |frame: usize| starts[frame + 1] / 4_096 * 4_096;
    for (frame, page) in
        [(last - 1, end(last - 1)), (last - 1, inner(last - 1)), (3, end(3)), (3, inner(3))]
    {
        let (found, end) = calls(&with(&whole, page));
        assert_eq!(
            (found.len(), end.unwrap().cut_bytes as usize),
            (before(frame), whole.len() - starts[frame])
        );
    }
    // A page that is not as it was is damage, and so is any of what was ended, which was synced.
    let mut other = whole.clone();
    other[inner(3) + 7] ^= 1;
    assert_eq!(calls(&other).1.unwrap_err().kind(), Kind::Corrupt);
    drop((tree, store));
    recording.1.finish().unwrap();
    let ended = with(&recording.0.bytes("t").unwrap(), inner(3));
    assert_eq!(calls(&ended).1.unwrap_err().kind(), Kind::Corrupt);
}

/// The calls of a store never fail for its recorder: what it is told of a tree may be more than the call needs.
#[test]
fn what_cannot_be_read_is_not_told_and_fails_no_call() {
    let (upper, commits) = context_archive::made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let with_lower = context_archive::options(Index::Minimal, Some(&lower));
    let mut store = context_archive::open(&upper, with_lower).unwrap();
    store.archive(commits.last().unwrap(), u64::MAX).unwrap();
    store.close().unwrap();
    // What stayed above of the chunks is lost.
    for name in context_archive::packs(&upper) {
        if name.matches('-').count() == 2 {
            upper.remove(&name).unwrap();
        }
    }
    let mut found = Vec::new();
    for recording in [None, Some(Recording::new())] {
        let recorder = recording.as_ref().map(|it| Arc::clone(&it.1));
        let without =
            context::Options { recorder, ..context_archive::options(Index::Minimal, None) };
        let store = context_archive::open(&upper, without).unwrap();
        let tree = store.checkout(commits.last().unwrap()).unwrap();
        let mut copy = store.empty_tree();
        for (name, child) in tree.list::<&str>(&[], 0, 9).unwrap() {
            copy.add_tree(&[b"copy", &*name], &child).unwrap();
        }
        found.push(copy.hash().unwrap());
        assert_eq!(copy.find(&["copy", "lasting", "0"]).unwrap_err().kind(), Kind::Missing);
        let Some(recording) = recording else { continue };
        drop((tree, copy, store));
        let calls = recording.calls();
        let given = calls.iter().filter(|call| call.action == Action::Given);
        let answers: Vec<_> = given.map(|call| call.answer).collect();
        assert_eq!(answers, [Answer::Failed, Answer::Nothing], "of lasting and passing");
    }
    assert_eq!(found[0], found[1]);
}

/// Names count as values do: of a set the values are empty.
#[test]
fn a_large_tree_is_told_in_several_calls() {
    let recording = Recording::new();
    let mut store = recording.store();
    let mut made = Tree::empty(Configuration::TEZOS);
    for number in 0..20_000_u32 {
        let name = format!("a name of some length {number:05}");
        made.add(&[&name[..name.len() - 2], "which is long", &*name], b"").unwrap();
    }
    store.commit(&mut made, &CommitInfo::default()).unwrap();
    let mut entries = 0;
    let mut most = 0;
    for call in recording.calls().iter().filter(|call| call.action == Action::Given) {
        let Argument::Entries(told) = &call.arguments[1] else { panic!("{call:?}") };
        entries += told.len();
        most = most.max(told.len());
    }
    assert!(entries == 20_000 && most < 8_000, "{entries}, at most {most} at once");
}

#[test]
fn calls_of_a_session_have_their_arguments_and_answers() {
    let recording = Recording::new();
    let session = recording.session();
    let mut table = session.create_table("utxo", TableOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.insert(b"a", b"1").delete_prefix(b"x").delete(b"b");
    table.update(&batch).unwrap();
    let view = table.view();
    table.update(Batch::new().insert(b"a", b"2")).unwrap();
    assert_eq!(view.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let found = table.lookup(&[&b"a"[..], b"b"]).unwrap();
    assert_eq!(found.get(0), Some(&b"2"[..]));
    drop(view);
    let copy = table.duplicate("copy").unwrap();
    let digest = Digest::of_all([Some(&b"2"[..]), None]);
    let calls = recording.calls();
    let handle = Argument::Handle;
    let updates = vec![
        KeyUpdate::Insert(b"a".to_vec(), b"1".to_vec()),
        KeyUpdate::DeleteRange(
            std::ops::Bound::Included(b"x".to_vec()),
            std::ops::Bound::Excluded(b"y".to_vec()),
        ),
        KeyUpdate::Delete(b"b".to_vec()),
    ];
    let keys = Argument::Keys(vec![b"a".to_vec(), b"b".to_vec()]);
    let expected: [(Action, &[Argument], Answer); 8] = [
        (Action::OpenTable, &[Argument::Bytes(b"utxo".to_vec())], Answer::Handle(1)),
        (Action::Update, &[handle(1), Argument::Updates(updates)], Answer::Nothing),
        (Action::View, &[handle(1)], Answer::Handle(2)),
        (
            Action::Update,
            &[handle(1), Argument::Updates(vec![KeyUpdate::Insert(b"a".to_vec(), b"2".to_vec())])],
            Answer::Nothing,
        ),
        (
            Action::Get,
            &[handle(2), Argument::Bytes(b"a".to_vec())],
            Answer::Digest(Some(Digest::of(b"1"))),
        ),
        (Action::Lookup, &[handle(1), keys], Answer::Digest(Some(digest))),
        (Action::Release, &[handle(2)], Answer::Nothing),
        (Action::Duplicate, &[handle(1), Argument::Bytes(b"copy".to_vec())], Answer::Handle(3)),
    ];
    assert_eq!(calls.len(), expected.len(), "{calls:?}");
    for (call, expected) in calls.iter().zip(expected) {
        assert_eq!(told(call), expected);
    }
    drop(copy);
}

/// What panics is no call, and those after it are no deeper for it: a replay skips what is not at depth 0.
#[test]
fn a_call_after_an_operator_that_panicked_is_the_hosts_own() {
    let recording = Recording::new();
    let session = recording.session();
    let operator = MergeOperator::new("join", |older, newer| {
        assert!(newer != b"bad", "the operator fell over");
        [older, newer].concat()
    });
    let options = TableOptions::default().with_operator(operator);
    let mut table = session.create_table("t", options).unwrap();
    table.update(Batch::new().insert(b"a", b"1")).unwrap();
    for _ in 0..2 {
        let panics = || table.update(Batch::new().upsert(b"a", b"bad"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    }
    table.update(Batch::new().upsert(b"a", b"2")).unwrap();
    assert_eq!(table.get(b"a").unwrap().as_deref(), Some(&b"12"[..]));
    drop(table);
    let calls = recording.calls();
    let told: Vec<_> = calls.iter().map(|call| (call.action, call.depth)).collect();
    let expected =
        [Action::OpenTable, Action::Update, Action::Update, Action::Get, Action::Release];
    assert_eq!(told, expected.map(|action| (action, 0)));
}

/// An observer by whose clock time only goes on when it is told that a snapshot was opened.
struct Later(Arc<AtomicU64>);

impl Observer for Later {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn record(&self, operation: Operation, _: u64, _: u64) {
        if operation == Operation::OpenSnapshot {
            self.0.fetch_add(1_000_000, Ordering::Relaxed);
        }
    }
}

#[test]
fn tables_are_told_when_they_are_there_with_the_time_that_it_took() {
    let (traces, now) = (MemoryDisk::seeded(7), Arc::new(AtomicU64::new(0)));
    let clock = Arc::clone(&now);
    let disk = Arc::clone(&traces) as Arc<dyn Disk>;
    let recorder = Recorder::create(&disk, "t", move || clock.load(Ordering::Relaxed)).unwrap();
    let options = SessionOptions {
        log: Log::Written,
        recorder: Some(recorder.clone()),
        observer: Some(Arc::new(Later(now))),
        ..SessionOptions::default()
    };
    let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
    let table = session.create_table("t", TableOptions::default()).unwrap();
    assert!(session.create_table("t", TableOptions::default()).is_err());
    drop(table);
    assert!(session.open_table("absent", &OpenTable::default()).is_err());
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    assert!(table.duplicate("").is_err());
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop(session.open_snapshot("s", &OpenSnapshot::default()).unwrap());
    drop(table);
    recorder.finish().unwrap();
    let calls = calls(&traces.bytes("t").unwrap()).0;
    let of_tables =
        calls.iter().filter(|it| matches!(it.action, Action::OpenTable | Action::Duplicate));
    let told: Vec<_> = of_tables
        .map(|call| {
            let Some(Argument::Bytes(name)) = call.arguments.last() else { panic!("{call:?}") };
            let name = std::str::from_utf8(name).unwrap();
            (call.action, name, call.answer != Answer::Failed, call.duration_ns >= 1_000_000)
        })
        .collect();
    let expected = [
        (Action::OpenTable, "t", true, false),
        (Action::OpenTable, "t", false, false),
        (Action::OpenTable, "absent", false, false),
        (Action::OpenTable, "t", true, false),
        (Action::Duplicate, "", false, false),
        (Action::OpenTable, "t", true, true),
    ];
    assert_eq!(told, expected);
    assert!(calls.iter().all(|call| call.depth == 0), "{calls:?}");
}

/// A replay can open it again then, as the host did.
#[test]
fn a_live_table_is_let_go_of_when_its_handle_is() {
    let recording = Recording::new();
    let recorder = Some(recording.1.clone());
    let options = SessionOptions { log: Log::Written, recorder, ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    table.update(Batch::new().insert(b"a", b"1")).unwrap();
    drop(table);
    drop(session.open_table("t", &OpenTable::default()).unwrap());
    session.delete_table("t").unwrap();
    let told: Vec<_> = recording.calls().iter().map(|call| call.action).collect();
    let expected = [
        Action::OpenTable,
        Action::Update,
        Action::Release,
        Action::OpenTable,
        Action::Release,
        Action::DeleteTable,
    ];
    assert_eq!(told, expected);
}

/// A replay knows by that what a snapshot has.
#[test]
fn a_snapshot_is_told_with_its_tables() {
    let recording = Recording::new();
    let session = recording.session();
    let one = session.create_table("one", TableOptions::default()).unwrap();
    let two = session.create_table("two", TableOptions::default()).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&one, &two] };
    session.save_snapshot("s", content).unwrap();
    session.delete_snapshot("s").unwrap();
    assert!(session.delete_snapshot("s").is_err());
    drop((one, two));
    let calls = recording.calls();
    let handle = |call: &Call| match (call.answer, &call.arguments[..]) {
        (Answer::Handle(handle), _) => handle,
        (_, [Argument::Handle(handle)]) => *handle,
        _ => 0,
    };
    let told: Vec<_> = calls.iter().map(|call| (call.action, handle(call))).collect();
    let (one, two) = (handle(&calls[0]), handle(&calls[1]));
    let expected = [
        (Action::OpenTable, one),
        (Action::OpenTable, two),
        (Action::SaveTable, one),
        (Action::SaveTable, two),
        (Action::SaveSnapshot, 0),
        (Action::DeleteSnapshot, 0),
        (Action::DeleteSnapshot, 0),
    ];
    assert_eq!(told[..expected.len()], expected);
    assert_eq!(calls[expected.len() - 1].answer, Answer::Failed);
}

/// Of the steps of a range only some are timed, which stand for all of them, however many there are.
#[test]
fn ranges_of_any_length_have_their_time() {
    let recording = Recording::new();
    let session = recording.session();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let mut batch = Batch::new();
    for key in 0..100_u8 {
        batch.insert(&[key], b"value");
    }
    table.update(&batch).unwrap();
    let lengths = [1, 7, 8, 9, 15, 16, 17, 24, 32, 33, 40, 99];
    for length in lengths {
        assert_eq!(table.range(..).take(length).count(), length);
    }
    drop(table);
    let calls = recording.calls();
    let times = calls.iter().filter(|call| call.action == Action::Range);
    let times: Vec<_> = times.map(|call| call.duration_ns).collect();
    // Each step takes a microsecond of a clock that moves on by one at each reading.
    assert_eq!(times, lengths.map(|length| length as u64 * 1_000));
}

/// An observer whose next call panics.
#[derive(Default)]
struct Falling(std::sync::atomic::AtomicBool);

impl Falling {
    /// Runs `work`, in which the observer panics.
    fn within(&self, work: impl FnOnce()) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    }

    fn fall(&self) {
        let falls = self.0.swap(false, std::sync::atomic::Ordering::Relaxed);
        assert!(!falls, "the observer fell over");
    }
}

impl context::Observer for Falling {
    fn now_ns(&self) -> u64 {
        0
    }

    fn record(&self, _: context::Operation, _: &[&[u8]], _: u64, _: &context::Cost) {
        self.fall();
    }
}

#[test]
fn a_call_after_an_observer_that_panicked_is_the_hosts_own() {
    let (recording, observer) = (Recording::new(), Arc::new(Falling::default()));
    let options = context::Options {
        recorder: Some(recording.1.clone()),
        observer: Some(observer.clone()),
        ..context::Options::default()
    };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a", "b"], b"1").unwrap();
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let part = tree.find_tree(&["a"]).unwrap().unwrap();
    observer.within(|| drop(store.checkout(&commit)));
    observer.within(|| drop(tree.add_tree(&["c"], &part)));
    observer.within(|| drop(store.exists(&commit)));
    observer.within(|| drop(tree.fold::<&str>(&[], None, Order::Sorted, |_, _| Ok(()))));
    observer.within(|| drop(tree.diff(&part, |_, _| Ok(()))));
    observer.within(|| {
        let mut other = tree.clone();
        other.add(&["x"], b"2").unwrap();
    });
    observer.within(|| drop(store.commit(&mut tree, &CommitInfo::default())));
    assert!(part.find(&["b"]).unwrap().is_some());
    assert!(store.exists(&commit).unwrap());
    drop((tree, part, store));
    let deeper = recording.calls().into_iter().filter(|call| call.depth > 0).collect::<Vec<_>>();
    assert!(deeper.is_empty(), "{deeper:?}");
}

#[test]
fn threads_write_one_trace_and_every_call_is_whole() {
    let recording = Recording::new();
    let mut store = recording.store();
    let mut tree = store.empty_tree();
    for number in 0..200 {
        tree.add(&["data", &format!("{number}")], format!("{number}").as_bytes()).unwrap();
    }
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tree = store.checkout(&commit).unwrap();
            scope.spawn(move || {
                for number in (thread..200).step_by(4) {
                    assert!(tree.find(&["data", &format!("{number}")]).unwrap().is_some());
                }
            });
        }
    });
    drop(tree);
    let calls = recording.calls();
    let finds: Vec<_> = calls.iter().filter(|call| call.action == Action::Find).collect();
    assert_eq!(finds.len(), 200);
    for call in finds {
        let Argument::Path(path) = &call.arguments[1] else { panic!("{call:?}") };
        assert_eq!(call.answer, Answer::Digest(Some(Digest::of(&path[1]))), "{call:?}");
    }
}

#[test]
fn what_the_engine_calls_to_take_a_tree_over_is_within_that_call() {
    let recording = Recording::new();
    let mut from = recording.store().empty_tree();
    from.add(&["a", "b"], &[1; 20]).unwrap();
    let recorder = Some(recording.1.clone());
    let options = context::Options { recorder, ..context::Options::default() };
    let store = Store::create(MemoryDisk::seeded(2), options).unwrap();
    let mut into = store.empty_tree();
    into.add_tree(&["x"], &from).unwrap();
    assert!(into.mem(&["x", "a", "b"]).unwrap());
    let calls = recording.calls();
    let told: Vec<_> = calls.iter().map(|call| (call.action, call.depth)).collect();
    let at = told.iter().position(|call| *call == (Action::AddTree, 0)).unwrap();
    assert_eq!(told[at - 1], (Action::Fold, 1), "{told:?}");
    assert_eq!(told[at + 1], (Action::Mem, 0), "{told:?}");
}

/// Looks at a tree whenever it is told of another's operation.
struct Looks(Mutex<Option<Tree>>);

impl context::Observer for Looks {
    fn now_ns(&self) -> u64 {
        0
    }

    fn record(&self, _: context::Operation, _: &[&[u8]], _: u64, _: &context::Cost) {
        let tree = self.0.lock().unwrap().take();
        if let Some(tree) = tree {
            assert!(tree.mem(&["seen"]).unwrap());
        }
    }
}

#[test]
fn what_an_observer_calls_within_a_lookup_is_the_hosts_own() {
    let recording = Recording::new();
    let plain = recording.store();
    let mut other = plain.empty_tree();
    other.add(&["seen"], b"1").unwrap();
    let looks = Arc::new(Looks(Mutex::new(Some(other))));
    let options = context::Options {
        recorder: Some(recording.1.clone()),
        observer: Some(looks),
        ..context::Options::default()
    };
    let store = Store::create(MemoryDisk::seeded(2), options).unwrap();
    assert!(store.empty_tree().find(&["absent"]).unwrap().is_none());
    let calls = recording.calls();
    let told: Vec<_> = calls.iter().map(|call| (call.action, call.depth)).collect();
    let within = [(Action::Mem, 0), (Action::Release, 0), (Action::Find, 0), (Action::Release, 0)];
    assert!(told.ends_with(&within), "{told:?}");
}

/// Host's calls within a fold are the host's own, and the fold has its digest and where the host ended it.
#[test]
fn walks_are_calls_and_what_the_host_does_in_them_is_its_own() {
    let recording = Recording::new();
    let store = recording.store();
    let mut tree = store.empty_tree();
    for name in ["a", "b", "c"] {
        tree.add(&["x", name], name.as_bytes()).unwrap();
    }
    let before = tree.clone();
    tree.fold(&["x"], Some(Depth::Eq(1)), Order::Sorted, |path, _| {
        assert!(before.mem(&["x".as_bytes(), &path[0]])?);
        Ok(())
    })
    .unwrap();
    let enough = || varvite::Error::new(varvite::Kind::Closed, "enough");
    let ended = tree.fold::<&str>(&[], None, Order::Sorted, |path, _| {
        if path.is_empty() { Ok(()) } else { Err(enough()) }
    });
    assert_eq!(ended.unwrap_err().detail(), "enough");
    tree.add(&["x", "b"], b"2").unwrap();
    let mut changes = 0;
    before
        .diff(&tree, |_, _| {
            changes += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(changes, 1);
    let calls = recording.calls();
    let of = |action| calls.iter().filter(|call| call.action == action).collect::<Vec<_>>();
    let inner = of(Action::Mem);
    assert_eq!(inner.iter().map(|call| call.depth).collect::<Vec<_>>(), [0, 0, 0]);
    let (number, folds) = (Argument::Number, of(Action::Fold));
    assert_eq!(folds.len(), 2);
    let whole = Digest::of_all([Some(&b"a"[..]), Some(b"b"), Some(b"c")]);
    assert_eq!(
        (folds[0].depth, &folds[0].arguments[1..], folds[0].answer),
        (
            0,
            &[path(&["x"]), number(1), number(1), number(0), number(0)][..],
            Answer::Digest(Some(whole))
        )
    );
    let part = Digest::of_all([None, Some(&b"x"[..])]);
    assert_eq!(
        (&folds[1].arguments[1..], folds[1].answer),
        (&[path(&[]), number(0), number(0), number(0), number(2)][..], Answer::Digest(Some(part)))
    );
    // The clock moves on by 1,000 at each reading: two are of each of the three calls within, and two beside each of
    // those, which are the host's; the fold has its own two, and one on each side of the host's.
    assert!(folds[0].start_ns < inner[0].start_ns);
    assert_eq!(folds[0].duration_ns, 4_000);
    let diff = of(Action::Diff)[0];
    let one = Digest::of_all([Some(&b"b"[..]), Some(b"b"), Some(b"2")]).hash.to_le_bytes();
    let answer = Answer::Digest(Some(Digest::of_all([Some(&one[..])])));
    assert_eq!((diff.depth, diff.answer, &diff.arguments[2]), (0, answer, &number(0)));
    drop((tree, before));
}

#[test]
fn steps_of_a_cursor_in_one_direction_are_one_call() {
    let recording = Recording::new();
    let session = recording.session();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let mut batch = Batch::new();
    for number in 0..20_u8 {
        batch.insert(&[number], &[number, 1]);
    }
    table.update(&batch).unwrap();
    let mut cursor = table.cursor(Bound::Excluded(&[2]), Bound::Unbounded).unwrap();
    for _ in 0..3 {
        cursor.next().unwrap();
    }
    cursor.previous_key().unwrap();
    cursor.seek(&[18]);
    while cursor.next_key().unwrap().is_some() {}
    drop(cursor);
    let mut range = table.range(&[5][..]..&[9][..]);
    assert!(range.next().is_some() && range.next_back().is_some());
    drop(range);
    drop(table);
    let calls = recording.calls();
    let told: Vec<_> = calls
        .iter()
        .filter(|call| call.action == Action::Range)
        .map(|call| (call.depth, call.arguments[1..].to_vec(), call.answer))
        .collect();
    let digest = |of: fn(u8) -> Vec<u8>, numbers: &[u8]| {
        let all: Vec<_> = numbers.iter().map(|number| of(*number)).collect();
        Digest::of_all(all.iter().map(|it| Some(&it[..])))
    };
    let keys = |numbers: &[u8]| digest(|number| vec![number], numbers);
    let both = |numbers: &[u8]| {
        Answer::Digest(Some(keys(numbers).with(digest(|number| vec![number, 1], numbers))))
    };
    let call = |lower, upper, flags, count, answer| {
        let (flags, count) = (Argument::Number(flags), Argument::Number(count));
        (0, vec![Argument::Range(lower, upper), flags, count], answer)
    };
    let (open, at, behind) =
        (Bound::Unbounded, |it: u8| Bound::Included(vec![it]), |it: u8| Bound::Excluded(vec![it]));
    let alone = |numbers: &[u8]| Answer::Digest(Some(keys(numbers)));
    assert_eq!(
        told,
        [
            call(behind(2), open.clone(), 2, 3, both(&[3, 4, 5])),
            call(behind(2), at(5), 1, 1, alone(&[5])),
            call(at(18), open, 4, 2, alone(&[18, 19])),
            call(at(5), behind(9), 2, 1, both(&[5])),
            call(at(5), behind(9), 3, 1, both(&[8])),
        ]
    );
}

/// A step whose operator panicked gave nothing: its key's value is told with it, once it was given.
#[test]
fn a_step_that_panicked_is_made_again_by_another_call() {
    let recording = Recording::new();
    let session = recording.session();
    let falls = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let once = Arc::clone(&falls);
    let operator = MergeOperator::new("join", move |older, newer| {
        assert!(!once.swap(false, std::sync::atomic::Ordering::SeqCst), "the operator fell over");
        [older, newer].concat()
    });
    session.pause_merges(u64::MAX);
    let options = TableOptions { write_buffer_bytes: 64, ..TableOptions::default() };
    let mut table = session.create_table("t", options.with_operator(operator)).unwrap();
    table.update(Batch::new().insert(b"a", b"1").insert(b"b", &[2; 64])).unwrap();
    table.update(Batch::new().upsert(b"b", b"3")).unwrap();
    let joined = [&[2; 64][..], b"3"].concat();
    let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert_eq!(cursor.next_key().unwrap(), Some(&b"a"[..]));
    assert!(catch_unwind(AssertUnwindSafe(|| cursor.next().map(|_| ()))).is_err());
    assert_eq!(cursor.value().unwrap(), b"1");
    assert_eq!(cursor.next().unwrap(), Some((&b"b"[..], &joined[..])));
    drop((cursor, table));
    let calls = recording.calls();
    let ranges: Vec<_> = calls.iter().filter(|call| call.action == Action::Range).collect();
    let digest = |bytes: &[u8]| Digest::of_all([Some(bytes)]);
    let told: Vec<_> = ranges.iter().map(|call| call.answer).collect();
    let again = Answer::Digest(Some(digest(b"b").with(digest(&joined))));
    assert_eq!(told, [Answer::Failed, again]);
}
