//! Each kind of disk of the engine keeps what every disk promises, and what is its own.

use std::io::Write as _;

use varvite::Kind;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::SimDisk;
use varvite::disk::{Access, Disk, Mode};

use crate::disk_promises::{self, all, fails, file, for_each_promise, read};

/// Runs one promise on every kind of disk.
fn on_every_disk(promise: fn(&dyn Disk)) {
    let folder = tempfile::tempdir().unwrap();
    promise(&*OsDisk::create(folder.path().join("ring")).unwrap());
    std::fs::create_dir(folder.path().join("plain")).unwrap();
    promise(&*OsDisk::without_ring(folder.path().join("plain")).unwrap());
    promise(&*MemoryDisk::new());
    promise(&*SimDisk::new(7));
    let windows = SimDisk::new(7);
    windows.keep_open_names(true);
    promise(&*windows);
}

/// One test a promise.
macro_rules! promises {
    ($($name:ident)*) => {
        mod every_disk {
            $(#[test] fn $name() { super::on_every_disk(super::disk_promises::$name); })*
        }
    };
}
for_each_promise!(promises);

#[test]
fn a_missing_root_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("nowhere");
    let detail = fails(Kind::Missing, OsDisk::new(&root));
    assert!(detail.contains("nowhere") && detail.contains("create it first"), "{detail}");
    std::fs::File::create(&root).unwrap().write_all(b"x").unwrap();
    fails(Kind::Invalid, OsDisk::new(&root));
}

#[test]
fn another_disk_on_the_same_folder_meets_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let held = OsDisk::new(folder.path()).unwrap().lock("lock", "process 1").unwrap();
    let other = OsDisk::new(folder.path()).unwrap();
    assert!(fails(Kind::Locked, other.lock("lock", "process 2")).contains("process 1"));
    drop(held);
    other.lock("lock", "process 2").unwrap();
}

#[cfg(unix)]
#[test]
fn a_folder_is_locked_as_a_file_is_and_knows_when_it_is_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("store");
    let disk = OsDisk::create(&root).unwrap();
    let held = disk.lock_directory("").unwrap().expect("a folder can be locked here");
    fails(Kind::Locked, OsDisk::new(&root).unwrap().lock_directory(""));
    held.check().unwrap();
    let file = disk.lock("lock", "process 1").unwrap();
    file.check().unwrap();
    disk.remove("lock").unwrap();
    assert!(fails(Kind::Poisoned, file.check()).contains("lock"));
    // The lock file alone would let another process in.
    let other = disk.lock("lock", "process 2").unwrap();
    fails(Kind::Poisoned, file.check());
    drop((file, other));
    std::fs::rename(&root, parent.path().join("moved")).unwrap();
    std::fs::create_dir(&root).unwrap();
    fails(Kind::Poisoned, held.check());
    drop(held);
    disk.lock_directory("").unwrap().unwrap().check().unwrap();
}

#[test]
fn a_ring_reads_files_without_a_descriptor_too() {
    let folder = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(folder.path()).unwrap();
    let memory = MemoryDisk::new();
    let (real, other) = (file(&*disk, "a", b"real"), file(&*memory, "a", b"memo"));
    let mut queue = disk.queue(10).unwrap();
    for tag in 0..10 {
        queue.submit(read(if tag % 2 == 0 { &real } else { &other }, 0, 4, tag)).unwrap();
    }
    let mut count = 0;
    while let Some(done) = queue.complete().unwrap() {
        let done = done.exact().unwrap();
        let expected = if done.tag % 2 == 0 { b"real" } else { b"memo" };
        assert_eq!(&done.buffer.as_slice()[..4], expected);
        count += 1;
    }
    assert_eq!(count, 10);
}

#[test]
fn a_memory_disk_is_looked_into_and_copied() {
    let disk = MemoryDisk::new();
    disk.create_directory("folder").unwrap();
    let handle = file(&*disk, "folder/a", b"12345");
    disk.link_or_copy("folder/a", "b").unwrap();
    let copy = disk.snapshot();
    disk.replace("folder/a", b"new").unwrap();
    assert_eq!(all(&*handle), b"new");
    assert_eq!(copy.bytes("folder/a").unwrap(), b"12345");
    copy.open("b", Mode::Write, Access::Buffered).unwrap().write_at(0, b"x").unwrap();
    assert_eq!(copy.bytes("folder/a").unwrap(), b"x2345");
    assert_eq!(disk.bytes("b").unwrap(), b"new");
    assert_eq!((disk.total_bytes(), copy.total_bytes()), (6, 10));
    assert_eq!(disk.files(), ["b", "folder/a"]);
}
