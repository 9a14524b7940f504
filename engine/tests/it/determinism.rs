//! The same operations and the same seed give the same bytes in the same files.

use std::collections::BTreeMap;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::story::{ACTS, Act, Story};

/// Every file with its bytes, after each act.
fn tell() -> Vec<BTreeMap<String, Vec<u8>>> {
    let disk = MemoryDisk::seeded(1);
    let mut story = Story::new(Arc::clone(&disk) as Arc<dyn Disk>);
    let mut files = Vec::new();
    for act in ACTS {
        story.act(*act).unwrap();
        // The lock file names the process, which is no part of the store.
        let names = disk.files().into_iter().filter(|name| name != "lock");
        files.push(names.map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect());
    }
    files
}

#[test]
fn the_same_operations_give_the_same_files_after_every_act() {
    let (first, second) = (tell(), tell());
    for (act, (first, second)) in ACTS.iter().zip(first.iter().zip(&second)) {
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(first), names(second), "after {act:?}");
        for (name, bytes) in first {
            assert!(*bytes == second[name], "{name} differs after {act:?}");
        }
    }
    let most = first.iter().map(BTreeMap::len).max().unwrap();
    assert!(most > 8, "the story leaves enough files to compare: {most}");
    assert!(matches!(ACTS.last(), Some(Act::End)));
}
