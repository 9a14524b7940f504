//! What a collection writes anew is believed from then on, so it is what was there.

use std::sync::Arc;

use crate::context::files::collecting::marks::{Marks, Merging};
use crate::context::files::collecting::rewrite::merged;
use crate::context::files::record::{Record, Tag};
use crate::context::hash::{self, CommitHash};
use crate::context::options::Options;
use crate::context::pieces::kept::Kept;
use crate::context::pieces::node::Known;
use crate::context::store::{CommitInfo, Store};
use crate::context::tree::Tree;
use crate::disk::memory::MemoryDisk;
use crate::error::Kind;

fn root(store: &Store, commit: &CommitHash) -> u64 {
    store.commit_at(store.commit_offset(commit).unwrap()).unwrap().1.root
}

#[test]
fn a_node_that_is_wrong_in_memory_or_has_another_hash_is_not_written_anew() {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    for name in 0..20_u8 {
        tree.add(&[format!("n{name:02}")], &[name; 60]).unwrap();
    }
    let mut change = |tree: &mut Tree, value: u8| {
        tree.add(&["n03"], &[value; 60]).unwrap();
        let info = CommitInfo::new(&[], i64::from(value), "a", "b");
        let commit = store.commit(tree, &info).unwrap();
        root(&store, &commit)
    };
    let first = change(&mut tree, 50);
    let (second, third) = (change(&mut tree, 51), change(&mut tree, 52));
    let pack = &store.pack;
    // Nothing stays, so that all bases go.
    let marks = Marks::begin(pack, third + 1, &[], None, Merging::Ahead).unwrap();
    let written = |hash| {
        pack.record(second, |file, place, record| {
            assert_eq!(record.tag, Tag::FlatPatch);
            let record = Record { hash, ..*record };
            merged(pack, &marks, (file, place), second, &record)
        })
    };
    let hash = pack.record(second, |_, _, record| Ok(record.hash)).unwrap();
    let right = written(hash).unwrap().0;
    assert!(right.is_some());
    let mut other = Arc::new(pack.read_node(third).unwrap());
    let wrong = Kept::new(&mut other, &mut Vec::new(), &pack.spares);
    pack.objects.insert(first, wrong);
    assert_eq!(written(hash).unwrap().0, right);
    let value = |name| [if name == 3 { 51 } else { name }; 60];
    let hashes = (0..20).map(|name| hash::value(&value(name))).collect();
    pack.keep_hashes(second, Known::Own(hashes), false);
    assert_eq!(written(hash).unwrap().0, right);
    assert_eq!(written([7; 32]).unwrap_err().kind(), Kind::Corrupt);
}
