//! What a recorder writes down of both faces: arguments, answers, depths, handles, threads.

use std::sync::Arc;

use varvite::context::{self, CommitInfo, Configuration, Order, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::trace::{Action, Answer, Argument, Call, Digest, KeyUpdate, Recorder};
use varvite::{Batch, Session, SessionOptions, TableOptions};

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
