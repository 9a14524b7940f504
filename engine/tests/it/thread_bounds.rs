//! What may go from thread to thread, and what threads may share: a bound that is lost does not compile. And that no
//! number is too large for a call.

use varvite::context::{CommitHash, CommitInfo, Keep, Options, Reader, Store, Tree, TreeHash};
use varvite::disk::{memory::MemoryDisk, os::OsDisk, sim::SimDisk};
use varvite::proof::{Proof, Recording};
use varvite::{
    Batch, Cursor, Error, Follower, Keys, Loader, MergeOperator, Range, Session, SessionOptions,
    Snapshot, Table, TableOptions, Tables, Transaction, Value, ValueWriter, Values, View, Views,
};

fn moves<T: Send + 'static>() {}
fn is_shared<T: Send + Sync + 'static>() {}
fn is_handed_out<T: Clone + Send + Sync + 'static>() {}

#[test]
fn handles_go_where_hosts_need_them() {
    is_handed_out::<Tables>();
    is_handed_out::<View>();
    is_handed_out::<Views>();
    is_handed_out::<Tree>();
    is_handed_out::<Batch>();
    is_handed_out::<Value>();
    is_handed_out::<CommitHash>();
    is_handed_out::<TreeHash>();
    is_handed_out::<Reader>();
    is_handed_out::<SessionOptions>();
    is_handed_out::<TableOptions>();
    is_handed_out::<Options>();
    is_handed_out::<MergeOperator>();
    is_shared::<Session>();
    is_shared::<Table>();
    is_shared::<Store>();
    is_shared::<Snapshot>();
    is_shared::<Follower>();
    is_shared::<Values>();
    is_shared::<Proof>();
    is_shared::<Error>();
    is_shared::<MemoryDisk>();
    is_shared::<OsDisk>();
    is_shared::<SimDisk>();
    moves::<Range>();
    moves::<Keys>();
    moves::<Cursor>();
    moves::<Transaction>();
    moves::<ValueWriter>();
    moves::<Loader>();
    moves::<Recording>();
}

#[test]
fn an_index_behind_the_last_gives_nothing() {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let options = TableOptions { blob_min_bytes: Some(100), ..TableOptions::default() };
    let mut table = session.create_table("t", options).unwrap();
    table.update(Batch::new().insert(b"short", b"1").insert(b"long", &[2; 5_000])).unwrap();
    let values = table.lookup(&[&b"short"[..], b"none"]).unwrap();
    assert_eq!(values.get(0), Some(&b"1"[..]));
    for index in [1, 2, usize::MAX] {
        assert_eq!(values.get(index), None);
    }
    for key in [&b"short"[..], b"long"] {
        let found = table.view().find(&[key]).unwrap().remove(0).unwrap();
        for offset in [found.len(), found.len() + 1, u64::MAX] {
            assert_eq!(found.read_at(offset, &mut [0; 8]).unwrap(), 0);
        }
    }
    assert_eq!(session.scrub(u64::MAX).unwrap().work(u64::MAX).unwrap(), 0);
    assert_eq!(table.work(u64::MAX).unwrap(), 0);
    assert_eq!(table.supply_union_credits(u64::MAX).unwrap(), 0);

    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a", "b"], b"1").unwrap();
    let commit = store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "")).unwrap();
    for offset in [1, 2, u64::MAX] {
        assert!(tree.list(&["a"], offset, u64::MAX).unwrap().is_empty());
    }
    assert_eq!(tree.list(&["a"], 0, u64::MAX).unwrap().len(), 1);
    assert_eq!(store.log(usize::MAX).unwrap(), [commit]);
    assert!(store.log_before(&commit, usize::MAX).unwrap().is_empty());
    assert_eq!(store.history(&[commit], usize::MAX).unwrap().len(), 1);
    assert!(!store.collect_keeping(&Keep::Newest(u64::MAX)).unwrap());
    assert!(!store.collect_step(u64::MAX).unwrap());
}
