//! What the simulated disk adds: unsynced changes that crashes lose and tear, and calls that fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use varvite::Kind;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{ALIGNMENT, Access, Buffer, Disk, File, Mode, Read};

fn create(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(path, Mode::Create, Access::Buffered).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

/// A disk with a durable file.
fn durable(path: &str, bytes: &[u8]) -> (Arc<SimDisk>, Arc<dyn File>) {
    let disk = SimDisk::new(1);
    let file = create(&disk, path, bytes);
    file.sync().unwrap();
    disk.sync_directory("").unwrap();
    assert_eq!(disk.unsynced_count(), 0);
    (disk, file)
}

/// What the images hold at `path`.
fn contents(disk: &SimDisk, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    disk.crash_images(8, 32).map(|(_, image)| image.bytes(path).ok()).collect()
}

#[test]
fn synced_bytes_and_names_survive_every_crash() {
    let (disk, _file) = durable("a", b"12345");
    assert_eq!(disk.crash_images(8, 32).count(), 2);
    assert_eq!(contents(&disk, "a"), BTreeSet::from([Some(b"12345".to_vec())]));
    for seed in 0..20 {
        assert_eq!(disk.crash(Crash::Seed(seed)).bytes("a").unwrap(), b"12345");
    }
}

#[test]
fn unsynced_writes_are_lost_or_kept_independently() {
    let (disk, file) = durable("a", b"......");
    file.write_at(0, b"A").unwrap();
    file.write_at(2, b"B").unwrap();
    assert_eq!(disk.unsynced_count(), 2);
    let expected = ["......", "A.....", "..B...", "A.B..."].map(|text| Some(text.into()));
    assert_eq!(contents(&disk, "a"), BTreeSet::from(expected));
    file.sync().unwrap();
    assert_eq!(contents(&disk, "a").len(), 1);
}

#[test]
fn later_writes_win_over_earlier_ones_that_persist() {
    let (disk, file) = durable("a", b".");
    file.write_at(0, b"1").unwrap();
    file.write_at(0, b"2").unwrap();
    assert_eq!(disk.crash(Crash::Subset(0b01)).bytes("a").unwrap(), b"1");
    assert_eq!(disk.crash(Crash::Subset(0b10)).bytes("a").unwrap(), b"2");
    assert_eq!(disk.crash(Crash::Subset(0b11)).bytes("a").unwrap(), b"2");
}

#[test]
fn lengths_persist_apart_from_bytes() {
    let (disk, file) = durable("a", b"1");
    file.write_at(1, b"2").unwrap();
    assert_eq!(disk.unsynced_count(), 2);
    let expected = [&b"1"[..], b"1\0", b"12"].map(|bytes| Some(bytes.to_vec()));
    assert_eq!(contents(&disk, "a"), BTreeSet::from(expected));
    file.sync().unwrap();
    file.set_len(1).unwrap();
    file.write_at(2, b"3").unwrap();
    // Cut, grown, written: bytes from before the cut must not come back inside a longer file.
    let expected = [&b"12"[..], b"1", b"12\0", b"123", b"1\0\0", b"1\x003"];
    let expected: BTreeSet<_> = expected.map(|bytes| Some(bytes.to_vec())).into();
    let found = contents(&disk, "a");
    assert!(found.is_subset(&expected) && found.len() >= 5, "{found:?}");
}

#[test]
fn torn_writes_keep_whole_sectors_of_old_and_new() {
    let (disk, file) = durable("a", &[b'o'; 4096]);
    file.write_at(100, &[b'n'; 3000]).unwrap();
    let mut torn = 0;
    for (crash, image) in disk.crash_images(8, 200) {
        let bytes = image.bytes("a").unwrap();
        assert_eq!(bytes.len(), 4096, "{crash:?}");
        let touched = &bytes[100..3100];
        for (index, sector) in bytes.chunks(512).enumerate() {
            let inside =
                &sector[if index == 0 { 100 } else { 0 }..if index == 6 { 28 } else { 512 }];
            assert!(inside.iter().all(|byte| *byte == inside[0]), "{crash:?}, sector {index}");
        }
        torn += u32::from(touched.contains(&b'o') && touched.contains(&b'n'));
        assert!(bytes[..100].iter().chain(&bytes[3100..]).all(|byte| *byte == b'o'));
    }
    assert!(torn > 10, "{torn} torn images");
}

#[test]
fn new_names_are_lost_until_their_folder_is_synced() {
    let disk = SimDisk::new(1);
    let file = create(&disk, "a", b"1");
    file.sync().unwrap();
    assert!(!disk.crash(Crash::Subset(0)).exists("a").unwrap());
    assert_eq!(contents(&disk, "a"), BTreeSet::from([None, Some(b"1".to_vec())]));
    disk.sync_directory("").unwrap();
    assert_eq!(contents(&disk, "a"), BTreeSet::from([Some(b"1".to_vec())]));
}

#[test]
fn a_new_folder_needs_the_sync_of_its_parent() {
    let disk = SimDisk::new(1);
    disk.create_directory("folder").unwrap();
    create(&disk, "folder/a", b"1").sync().unwrap();
    disk.sync_directory("folder").unwrap();
    assert!(disk.crash(Crash::Subset(0)).list("").unwrap().is_empty());
    disk.sync_directory("").unwrap();
    assert_eq!(disk.crash(Crash::Subset(0)).bytes("folder/a").unwrap(), b"1");
}

#[test]
fn a_rename_may_persist_without_the_bytes_of_its_file() {
    let (disk, _old) = durable("a", b"old");
    create(&disk, "a.tmp", b"new");
    disk.rename("a.tmp", "a").unwrap();
    let found = contents(&disk, "a");
    assert!(found.contains(&Some(b"".to_vec())), "an empty file under the name: {found:?}");
    assert!(found.contains(&Some(b"\0\0\0".to_vec())), "{found:?}");
    assert!(found.contains(&Some(b"old".to_vec())) && found.contains(&Some(b"new".to_vec())));
    assert!(!found.contains(&None), "a rename is atomic: {found:?}");
}

#[test]
fn a_lost_rename_leaves_both_old_names() {
    let (disk, _old) = durable("a", b"old");
    create(&disk, "b", b"new").sync().unwrap();
    disk.sync_directory("").unwrap();
    disk.rename("b", "a").unwrap();
    let before = disk.crash(Crash::Subset(0));
    assert_eq!(
        (before.bytes("a").unwrap(), before.bytes("b").unwrap()),
        (b"old".into(), b"new".into())
    );
    let after = disk.crash(Crash::Subset(1));
    assert_eq!(after.list("").unwrap(), ["a"]);
    assert_eq!(after.bytes("a").unwrap(), b"new");
}

#[test]
fn a_rename_between_folders_is_durable_with_the_target_and_never_loses_the_file() {
    let disk = SimDisk::new(1);
    for folder in ["from", "over", "to"] {
        disk.create_directory(folder).unwrap();
    }
    disk.sync_directory("").unwrap();
    create(&disk, "from/a", b"1").sync().unwrap();
    disk.rename("from/a", "over/a").unwrap();
    disk.rename("over/a", "to/b").unwrap();
    disk.sync_directory("to").unwrap();
    for (crash, image) in disk.crash_images(8, 32) {
        assert_eq!(image.bytes("to/b").unwrap(), b"1", "{crash:?}");
        assert!(image.list("from").unwrap().is_empty(), "{crash:?}");
        assert!(image.list("over").unwrap().is_empty(), "{crash:?}");
    }
    disk.rename("to/b", "from/c").unwrap();
    disk.sync_directory("to").unwrap();
    for (crash, image) in disk.crash_images(8, 32) {
        let there = [image.exists("to/b").unwrap(), image.exists("from/c").unwrap()];
        assert!(there == [true, false] || there == [false, true], "{crash:?}");
    }
}

#[test]
fn an_unsynced_removal_may_be_undone() {
    let (disk, file) = durable("a", b"1");
    disk.remove("a").unwrap();
    drop(file);
    assert_eq!(contents(&disk, "a"), BTreeSet::from([None, Some(b"1".to_vec())]));
    disk.sync_directory("").unwrap();
    assert_eq!(contents(&disk, "a"), BTreeSet::from([None]));
    assert_eq!(disk.total_bytes(), 0);
}

#[test]
fn the_death_of_the_process_loses_nothing_written() {
    let disk = SimDisk::new(1);
    let file = create(&disk, "a", b"1");
    let held = disk.lock("lock", "me").unwrap();
    disk.kill();
    assert_eq!(file.write_at(0, b"2").unwrap_err().kind(), Kind::Io);
    assert!(file.sync().is_err() && file.len().is_err() && disk.list("").is_err());
    assert!(disk.is_dead());
    let image = disk.crash(Crash::Process);
    assert_eq!(image.bytes("a").unwrap(), b"1");
    image.lock("lock", "you").unwrap();
    drop(held);
}

#[test]
fn the_death_of_the_process_makes_nothing_durable() {
    let (disk, file) = durable("a", b"1");
    file.write_at(0, b"22").unwrap();
    create(&disk, "b", b"new");
    let image = disk.crash(Crash::Process);
    assert_eq!(
        (image.bytes("a").unwrap(), image.bytes("b").unwrap()),
        (b"22".into(), b"new".into())
    );
    let cut = image.crash(Crash::Subset(0));
    assert_eq!((cut.bytes("a").unwrap(), cut.exists("b").unwrap()), (b"1".into(), false));
    // Who opens it next can make it durable.
    image.open("a", Mode::Write, Access::Buffered).unwrap().sync().unwrap();
    assert_eq!(image.crash(Crash::Subset(0)).bytes("a").unwrap(), b"22");
}

#[test]
fn after_a_failed_sync_the_next_one_succeeds_and_saves_only_what_is_written_again() {
    let (disk, file) = durable("a", b"1");
    file.write_at(0, b"22").unwrap();
    disk.fail_at(1, Fault::Sync);
    file.sync().unwrap_err();
    file.sync().unwrap();
    assert_eq!((disk.bytes("a").unwrap(), disk.unsynced_count()), (b"22".into(), 0));
    assert_eq!(disk.crash(Crash::Subset(0)).bytes("a").unwrap(), b"1");
    // With the length, which was lost too.
    file.write_at(0, b"22").unwrap();
    assert_eq!(contents(&disk, "a").len(), 4);
    file.sync().unwrap();
    assert_eq!(disk.crash(Crash::Subset(0)).bytes("a").unwrap(), b"22");
}

#[test]
fn a_failed_sync_may_save_some_all_the_same() {
    let mut found = BTreeSet::new();
    for seed in 0..64 {
        let disk = SimDisk::new(seed);
        let file = create(&disk, "a", &[b'o'; 2000]);
        file.sync().unwrap();
        disk.sync_directory("").unwrap();
        disk.save_some_on_failed_sync(true);
        file.write_at(0, &[b'n'; 2000]).unwrap();
        disk.fail_at(1, Fault::Sync);
        file.sync().unwrap_err();
        let bytes = disk.crash(Crash::Subset(0)).bytes("a").unwrap();
        found.insert((bytes.contains(&b'o'), bytes.contains(&b'n')));
    }
    assert_eq!(found.len(), 3, "none, all and some: {found:?}");
}

#[test]
fn a_failed_sync_of_a_folder_may_have_its_names_forgotten() {
    for some in [false, true] {
        let mut found = BTreeSet::new();
        for seed in 0..64 {
            let disk = SimDisk::new(seed);
            for name in ["old", "gone"] {
                create(&disk, name, b"1").sync().unwrap();
            }
            disk.sync_directory("").unwrap();
            disk.forget_names_on_failed_sync(true);
            disk.save_some_on_failed_sync(some);
            create(&disk, "new", b"2").sync().unwrap();
            disk.rename("old", "moved").unwrap();
            disk.remove("gone").unwrap();
            disk.create_directory("folder").unwrap();
            disk.fail_at(1, Fault::Sync);
            disk.sync_directory("").unwrap_err();
            assert_eq!(disk.list("").unwrap(), ["folder", "moved", "new"]);
            disk.sync_directory("").unwrap();
            assert_eq!(disk.unsynced_count(), 0);
            let process = disk.crash(Crash::Process);
            assert_eq!(process.list("").unwrap(), ["folder", "moved", "new"]);
            for image in [disk.crash(Crash::Subset(u64::MAX)), process.crash(Crash::Seed(seed))] {
                found.insert(image.list("").unwrap());
            }
        }
        if some {
            assert!(found.len() > 8, "{found:?}");
        } else {
            assert_eq!(found, BTreeSet::from([vec!["gone".to_owned(), "old".to_owned()]]));
        }
    }
}

#[test]
fn forgotten_names_are_durable_once_they_are_made_anew() {
    let disk = SimDisk::new(1);
    create(&disk, "gone", b"1").sync().unwrap();
    disk.sync_directory("").unwrap();
    disk.forget_names_on_failed_sync(true);
    create(&disk, "new", b"2").sync().unwrap();
    disk.rename("gone", "going").unwrap();
    disk.create_directory("folder").unwrap();
    disk.fail_at(1, Fault::Sync);
    disk.sync_directory("").unwrap_err();
    create(&disk, "copy", b"2").sync().unwrap();
    disk.rename("copy", "new").unwrap();
    disk.rename("going", "gone").unwrap();
    disk.remove("gone").unwrap();
    disk.remove_directory("folder").unwrap();
    disk.create_directory("folder").unwrap();
    disk.sync_directory("").unwrap();
    create(&disk, "folder/a", b"3").sync().unwrap();
    disk.sync_directory("folder").unwrap();
    let image = disk.crash(Crash::Subset(0));
    assert_eq!(image.list("").unwrap(), ["folder", "new"]);
    assert_eq!(image.bytes("new").unwrap(), b"2");
    assert_eq!(image.bytes("folder/a").unwrap(), b"3");
}

/// A small workload with a call of every kind.
fn workload(disk: &SimDisk) -> varvite::Result<()> {
    disk.create_directory("d")?;
    let file = disk.open("d/a", Mode::Create, Access::Buffered)?;
    file.write_at(0, &[1; 2000])?;
    file.set_len(1500)?;
    file.sync()?;
    disk.sync_directory("d")?;
    disk.rename("d/a", "d/b")?;
    file.read_exact_at(0, &mut [0; 1500])?;
    disk.remove("d/b")
}

#[test]
fn every_call_can_be_made_to_fail_once() {
    for fault in Fault::ALL {
        let count = {
            let disk = SimDisk::new(1);
            workload(&disk).unwrap();
            disk.calls().of(fault)
        };
        assert!(count > 0, "{fault:?}");
        for n in 1..=count {
            let disk = SimDisk::new(1);
            disk.fail_at(n, fault);
            let error = workload(&disk).unwrap_err();
            assert_eq!(error.kind(), Kind::Io);
            assert_eq!(
                error.detail().contains("free some space"),
                fault == Fault::Space,
                "{error}"
            );
            assert_eq!(disk.calls().of(fault), n);
            disk.open("after", Mode::Create, Access::Buffered).unwrap();
        }
        let disk = SimDisk::new(1);
        disk.fail_at(count + 1, fault);
        workload(&disk).unwrap();
        disk.disarm();
        let _ = disk.remove("nothing");
        workload(&SimDisk::new(2)).unwrap();
    }
}

#[test]
fn killing_walks_every_change_of_a_workload() {
    let whole = SimDisk::new(1);
    workload(&whole).unwrap();
    let mutations = whole.calls().mutations;
    assert_eq!(mutations, 8);
    for n in 1..=mutations {
        let disk = SimDisk::new(1);
        disk.kill_at(n);
        workload(&disk).unwrap_err();
        assert!(disk.is_dead() && disk.calls().mutations == n);
        assert!(disk.list("").is_err());
        for (_, image) in disk.crash_images(8, 8) {
            image.list("").unwrap();
        }
    }
}

#[test]
fn a_failed_sync_loses_its_changes_for_good() {
    for lose in [false, true] {
        let (disk, file) = durable("a", b"old");
        disk.lose_cache_on_failed_sync(lose);
        file.write_at(0, b"new").unwrap();
        disk.fail_at(1, Fault::Sync);
        assert_eq!(file.sync().unwrap_err().kind(), Kind::Io);
        assert_eq!(disk.bytes("a").unwrap(), if lose { b"old" } else { b"new" });
        // Trying again reports success and saves nothing: that is why nobody may.
        file.sync().unwrap();
        assert_eq!(contents(&disk, "a").last(), Some(&Some(b"old".to_vec())));
        assert_eq!(disk.crash(Crash::Seed(1)).bytes("a").unwrap(), b"old");
    }
}

#[test]
fn a_failed_write_leaves_whole_sectors_of_a_first_part() {
    let mut lengths = BTreeSet::new();
    for seed in 0..30 {
        let disk = SimDisk::new(seed);
        let file = create(&disk, "a", b"");
        disk.fail_at(1, Fault::Write);
        file.write_at(0, &[7; 4096]).unwrap_err();
        lengths.insert(file.len().unwrap());
    }
    assert!(lengths.len() > 3 && lengths.iter().all(|length| length % 512 == 0), "{lengths:?}");
}

#[test]
fn a_full_disk_says_so_and_has_room_again_after_a_removal() {
    let disk = SimDisk::new(1);
    disk.capacity(Some(1000));
    let file = create(&disk, "a", &[1; 900]);
    let error = file.write_at(900, &[1; 101]).unwrap_err();
    assert!(error.kind() == Kind::Io && error.detail().contains("free some space"), "{error}");
    assert!(file.set_len(1001).is_err() && file.preallocate(1001).is_err());
    file.write_at(900, &[1; 50]).unwrap();
    file.write_at(0, &[2; 950]).unwrap();
    file.preallocate(1000).unwrap();
    let other = create(&disk, "b", b"");
    assert!(other.write_at(0, b"1").is_err());
    disk.remove("a").unwrap();
    assert!(other.write_at(0, b"1").is_err(), "a handle keeps the space");
    drop(file);
    other.write_at(0, &[1; 1000]).unwrap();
    disk.capacity(None);
    other.write_at(1000, b"1").unwrap();
}

#[test]
fn queues_complete_out_of_order_as_the_seed_says() {
    let order = |seed| {
        let disk = SimDisk::new(seed);
        let file = create(&disk, "a", &[0; 64]);
        let mut queue = disk.queue(64).unwrap();
        for tag in 0..64 {
            let (file, buffer) = (Arc::clone(&file), Buffer::new(ALIGNMENT));
            queue.submit(Read { file, offset: tag, length: 1, buffer, tag }).unwrap();
        }
        std::iter::from_fn(move || queue.complete().unwrap().map(|done| done.read.tag))
            .collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert!(!order(1).is_sorted());
}

#[test]
fn a_queue_reports_a_failing_read() {
    let disk = SimDisk::new(1);
    let file = create(&disk, "a", &[0; 64]);
    let mut queue = disk.queue(4).unwrap();
    for tag in 0..4 {
        let (file, buffer) = (Arc::clone(&file), Buffer::new(1));
        queue.submit(Read { file, offset: 0, length: 1, buffer, tag }).unwrap();
    }
    disk.fail_at(2, Fault::Read);
    let failed: Vec<bool> = std::iter::from_fn(|| queue.complete().unwrap())
        .map(|done| done.outcome.is_err())
        .collect();
    assert_eq!(failed, [false, true, false, false]);
}

#[test]
fn images_follow_from_the_seed_and_can_crash_again() {
    let images = |seed| {
        let disk = SimDisk::new(seed);
        let file = create(&disk, "a", &[1; 3000]);
        disk.sync_directory("").unwrap();
        file.write_at(1000, &[2; 5000]).unwrap();
        (0..20).map(|draw| disk.crash(Crash::Seed(draw)).bytes("a").unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(images(1), images(1));
    assert_ne!(images(1), images(2));

    let (disk, file) = durable("a", b"12");
    file.set_len(1).unwrap();
    let image = disk.crash(Crash::Subset(1));
    image.open("a", Mode::Write, Access::Buffered).unwrap().write_at(0, b"X").unwrap();
    assert_eq!(image.unsynced_count(), 1);
    assert_eq!(contents(&image, "a"), BTreeSet::from([Some(b"1".to_vec()), Some(b"X".to_vec())]));
    assert_eq!(disk.bytes("a").unwrap(), b"1");
}

#[test]
fn many_changes_are_drawn_instead_of_enumerated() {
    let (disk, file) = durable("a", &[0; 100]);
    for offset in 0..100 {
        file.write_at(offset, &[1]).unwrap();
    }
    assert_eq!(disk.unsynced_count(), 100);
    let kept: Vec<usize> = disk
        .crash_images(8, 64)
        .map(|(_, image)| image.bytes("a").unwrap().iter().map(|byte| usize::from(*byte)).sum())
        .collect();
    assert_eq!((kept.len(), kept[0]), (65, 100));
    let drawn = &kept[1..];
    assert!(drawn.iter().any(|count| *count < 10) && drawn.iter().any(|count| *count > 90));
    assert!(drawn.iter().any(|count| (35..65).contains(count)));
}

#[test]
fn a_damaged_file_shows_to_open_handles() {
    let (disk, file) = durable("a", b"12");
    disk.damage("a", b"1X").unwrap();
    let mut bytes = [0; 2];
    file.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"1X");
    assert_eq!(disk.crash(Crash::Subset(0)).bytes("a").unwrap(), b"1X");
    assert_eq!(disk.damage("b", b"").unwrap_err().kind(), Kind::Missing);
}
