//! The context in twenty lines, as in the README: run it twice.

use varvite::context::{CommitInfo, Options, Store};

fn main() -> varvite::Result<()> {
    let mut store = Store::open_or_create("context", Options::default())?;
    let mut tree = store.empty_tree();
    tree.add(&["contracts", "alice", "balance"], b"5")?;
    let genesis = store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "genesis"))?;

    let mut tree = store.checkout(&genesis)?; // read as it is looked at
    let before = tree.clone(); // a save point, in O(1)
    tree.add(&["contracts", "bob", "balance"], b"2")?;
    let block = store.commit(&mut tree, &CommitInfo::new(&[genesis], 1, "me", "level 1"))?;
    assert_eq!(before.length(&["contracts"])?, 1);
    store.set_branch(b"main", &block)?;
    store.close()
}
