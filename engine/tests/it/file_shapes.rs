//! Appended and replaced files, through crashes, faults and damage.

use std::sync::Arc;

use varvite::Kind;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::raw::file::append::{self, AppendFile, HEAD, Position};
use varvite::raw::file::replace::{Replacement, remove_leftovers, replace, unfinished};
use varvite::raw::format::header::{FileKind, Header, LENGTH};

const KIND: FileKind = FileKind::Session;

fn header() -> Header {
    Header::new(KIND, 0x1234_5678, 9)
}

fn payload(index: u64) -> Vec<u8> {
    vec![index as u8; (index * 37 % 700) as usize]
}

/// Opens `log` for appending; gives the payloads found.
fn reopen(disk: &dyn Disk) -> varvite::Result<(AppendFile, Vec<Vec<u8>>)> {
    let mut found = Vec::new();
    let file = AppendFile::open(disk, "log", KIND, Position::start(), |at, bytes| {
        assert_eq!(at.sequence, found.len() as u64);
        found.push(bytes.to_vec());
        Ok(())
    })?;
    Ok((file, found))
}

fn filled(disk: &dyn Disk, count: u64) -> AppendFile {
    let mut file = AppendFile::create(disk, "log", header()).unwrap();
    for index in 0..count {
        file.push(&payload(index)).unwrap();
    }
    file.sync().unwrap();
    disk.sync_directory("").unwrap();
    file
}

/// Of two syncs the system tells one that writes of both were lost.
#[test]
fn a_sync_that_failed_is_told_to_those_that_come_later() {
    let sim = SimDisk::new(1);
    let mut file = filled(&*sim, 2);
    file.push(&payload(2)).unwrap();
    let flight = file.take_off(Vec::new());
    flight.write().unwrap();
    sim.fail_at(1, Fault::Sync);
    assert_eq!(file.synced_file().sync().unwrap_err().kind(), Kind::Io);
    assert_eq!(flight.sync().unwrap_err().kind(), Kind::Poisoned);
    file.land(flight, Ok(()), false).unwrap();
    assert!(file.is_poisoned());
    assert_eq!(file.push(&payload(3)).unwrap_err().kind(), Kind::Poisoned);
    assert_eq!(file.sync().unwrap_err().kind(), Kind::Poisoned);
}

#[test]
fn records_come_back_and_go_on() {
    let disk = MemoryDisk::new();
    let file = filled(&*disk, 10);
    let end = file.end();
    drop(file);
    let (mut file, found) = reopen(&*disk).unwrap();
    assert_eq!(found, (0..10).map(payload).collect::<Vec<_>>());
    assert_eq!((file.end(), file.written(), file.header()), (end, end, &header()));
    assert_eq!(file.push(&payload(10)).unwrap(), end);
    file.take_back();
    assert_eq!(file.end(), end);
    let big = vec![7; 600_000];
    file.push(&big).unwrap();
    file.sync().unwrap();
    assert_eq!(file.synced(), file.end().offset);
    let (_, found) = reopen(&*disk).unwrap();
    assert_eq!((found.len(), &found[10]), (11, &big));
    // From a position in the middle, only what follows is read.
    let (reader, header) = append::open_reader(&*disk, "log", KIND).unwrap();
    let mut count = 0;
    append::scan(&*reader, header.identity, end, |_, bytes| {
        count += 1;
        assert_eq!(bytes, big);
        Ok(())
    })
    .unwrap();
    assert_eq!(count, 1);
}

#[test]
fn reading_never_changes_the_file() {
    let disk = MemoryDisk::new();
    filled(&*disk, 3);
    let mut bytes = disk.bytes("log").unwrap();
    bytes.extend_from_slice(b"half a record");
    disk.replace("log", bytes.clone()).unwrap();
    let (reader, header) = append::open_reader(&*disk, "log", KIND).unwrap();
    let scan = append::scan(&*reader, header.identity, Position::start(), |_, _| Ok(())).unwrap();
    assert_eq!((scan.end.sequence, scan.tail_bytes), (3, 13));
    assert_eq!(disk.bytes("log").unwrap(), bytes);
    drop(reopen(&*disk).unwrap());
    assert_eq!(disk.bytes("log").unwrap().len(), bytes.len() - 13);
}

#[test]
fn every_cut_leaves_the_whole_records_before_it() {
    let disk = MemoryDisk::new();
    let mut file = AppendFile::create(&*disk, "log", header()).unwrap();
    let mut ends = vec![LENGTH as u64];
    for index in 0..4 {
        file.push(&payload(index)).unwrap();
        file.write().unwrap();
        ends.push(file.end().offset);
    }
    let bytes = disk.bytes("log").unwrap();
    for cut in 0..bytes.len() {
        disk.replace("log", &bytes[..cut]).unwrap();
        if cut < LENGTH {
            assert_eq!(reopen(&*disk).unwrap_err().kind(), Kind::Corrupt);
            continue;
        }
        let (_, found) = reopen(&*disk).unwrap();
        assert_eq!(found.len(), ends.iter().filter(|end| **end <= cut as u64).count() - 1);
    }
}

#[test]
fn a_flipped_bit_below_a_synced_end_is_corrupt_and_nothing_is_cut() {
    let disk = MemoryDisk::new();
    let mut file = filled(&*disk, 4);
    let synced = file.end().offset as usize;
    file.push(b"after the sync").unwrap();
    file.sync().unwrap();
    let bytes = disk.bytes("log").unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        disk.replace("log", damaged.clone()).unwrap();
        let outcome = reopen(&*disk);
        if bit / 8 < synced {
            let error = outcome.expect_err("damage below the synced end is found");
            assert!(
                matches!(error.kind(), Kind::Corrupt | Kind::Invalid | Kind::Version),
                "{error}"
            );
            assert_eq!(disk.bytes("log").unwrap(), damaged);
        } else {
            // Nothing says that the last record was synced, so it looks like one that a crash tore.
            assert_eq!(outcome.unwrap().1.len(), 4);
        }
    }
}

#[test]
fn a_file_shorter_than_a_known_position_is_corrupt() {
    let disk = MemoryDisk::new();
    let end = filled(&*disk, 4).end();
    let mut bytes = disk.bytes("log").unwrap();
    bytes.pop();
    disk.replace("log", bytes).unwrap();
    let error = AppendFile::open(&*disk, "log", KIND, end, |_, _| Ok(())).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
}

#[test]
fn records_of_another_place_or_file_do_not_count() {
    let disk = MemoryDisk::new();
    filled(&*disk, 2);
    let bytes = disk.bytes("log").unwrap();
    let mut twice = bytes.clone();
    twice.extend_from_slice(&bytes[LENGTH..]);
    disk.replace("log", twice).unwrap();
    assert_eq!(reopen(&*disk).unwrap().1.len(), 2);
    let mut other = Header { identity: 5, ..header() }.encode().to_vec();
    other.extend_from_slice(&bytes[LENGTH..]);
    disk.replace("log", other).unwrap();
    assert_eq!(reopen(&*disk).unwrap().1.len(), 0);
}

/// Appends groups of records with a sync after some; returns how many are acknowledged, and how many
/// were tried.
fn append_groups(disk: &SimDisk) -> (usize, usize, varvite::Result<()>) {
    let (mut acknowledged, mut tried) = (0, 0);
    let mut run = || -> varvite::Result<()> {
        let mut file = AppendFile::create(disk, "log", header())?;
        file.sync()?;
        disk.sync_directory("")?;
        for group in 0..6u64 {
            for record in 0..=group % 3 {
                file.push(&payload(group * 10 + record))?;
                tried += 1;
            }
            if group % 2 == 0 {
                file.write()?;
            } else {
                file.sync()?;
            }
            if group % 2 == 1 {
                acknowledged = tried;
            }
        }
        Ok(())
    };
    let outcome = run();
    (acknowledged, tried, outcome)
}

fn expected() -> Vec<Vec<u8>> {
    (0..6u64)
        .flat_map(|group| (0..=group % 3).map(move |record| payload(group * 10 + record)))
        .collect()
}

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_acknowledged() {
    let whole = SimDisk::new(3);
    append_groups(&whole).2.unwrap();
    for n in 1..=whole.calls().mutations + 1 {
        let disk = SimDisk::new(3);
        disk.kill_at(n);
        let (acknowledged, ..) = append_groups(&disk);
        for (crash, image) in disk.crash_images(8, 32) {
            let (mut file, found) = match reopen(&*image) {
                Ok(opened) => opened,
                Err(error) => {
                    assert!(acknowledged == 0 && n <= 4, "{n}, {crash:?}: {error}");
                    continue;
                }
            };
            assert!(found.len() >= acknowledged, "{n}, {crash:?}");
            assert_eq!(found, expected()[..found.len()], "{n}, {crash:?}");
            // And again: go on, crash in the middle of it, reopen. Names are the owner's to sync.
            image.sync_directory("").unwrap();
            file.push(b"next life").unwrap();
            file.write().unwrap();
            for (again, second) in image.crash_images(6, 8) {
                let later = match reopen(&*second) {
                    Ok((_, later)) => later,
                    Err(error) => {
                        // A file without a record was never promised to be one.
                        assert!(found.is_empty() && n <= 4, "{n}, {crash:?}, {again:?}: {error}");
                        continue;
                    }
                };
                // What an opening has found stays.
                assert!(later.len() >= found.len(), "{n}, {crash:?}, {again:?}");
                assert_eq!(later[..found.len()], found[..]);
                assert!(later.len() <= found.len() + 1);
                assert!(later.get(found.len()).is_none_or(|last| last == b"next life"));
            }
        }
    }
}

#[test]
fn a_failed_write_is_cut_back_and_a_failed_sync_poisons() {
    for fault in [Fault::Write, Fault::Space] {
        let disk = SimDisk::new(5);
        let mut file = filled(&*disk, 3);
        let end = file.end();
        disk.fail_at(1, fault);
        file.push(&payload(17)).unwrap();
        assert_eq!(file.write().unwrap_err().kind(), Kind::Io);
        assert_eq!((file.end(), file.file().len().unwrap()), (end, end.offset));
        for (crash, image) in disk.crash_images(8, 32) {
            assert_eq!(reopen(&*image).unwrap().1.len(), 3, "{crash:?}");
        }
        file.push(b"goes on").unwrap();
        file.sync().unwrap();
        assert_eq!(reopen(&*disk).unwrap().1[3], b"goes on");
    }
    let disk = SimDisk::new(5);
    let mut file = filled(&*disk, 3);
    disk.fail_at(1, Fault::Sync);
    file.push(b"lost").unwrap();
    assert_eq!(file.sync().unwrap_err().kind(), Kind::Io);
    assert_eq!(file.push(b"more").unwrap_err().kind(), Kind::Poisoned);
    assert_eq!(file.sync().unwrap_err().kind(), Kind::Poisoned);

    // The write and the cut both fail.
    let disk = SimDisk::new(5);
    let mut file = filled(&*disk, 3);
    disk.fail_at(1, Fault::Write);
    disk.fail_at(2, Fault::Write);
    file.push(b"lost").unwrap();
    assert_eq!(file.write().unwrap_err().kind(), Kind::Io);
    assert_eq!(file.write().unwrap_err().kind(), Kind::Poisoned);
}

#[test]
fn a_record_given_up_never_continues_another() {
    // A group fails after it was written whole; another of the same length takes its place; then the
    // power goes, and the second record of the first group is still on the disk.
    let disk = MemoryDisk::new();
    let start = filled(&*disk, 2).end();
    let (mut first, _) = reopen(&*disk).unwrap();
    first.push(b"first").unwrap();
    first.push(b"stale").unwrap();
    first.write().unwrap();
    let stale = disk.bytes("log").unwrap();
    first.file().set_len(start.offset).unwrap();
    let (mut second, found) = reopen(&*disk).unwrap();
    assert_eq!(found.len(), 2);
    second.push(b"other").unwrap();
    second.write().unwrap();
    let mut mixed = disk.bytes("log").unwrap();
    mixed.extend_from_slice(&stale[mixed.len()..]);
    disk.replace("log", mixed).unwrap();
    let (_, found) = reopen(&*disk).unwrap();
    assert_eq!(found[2..], [b"other".to_vec()]);
}

#[test]
fn a_hostile_length_takes_no_memory() {
    let disk = MemoryDisk::new();
    filled(&*disk, 1);
    let mut bytes = disk.bytes("log").unwrap();
    bytes[LENGTH + 8..LENGTH + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    disk.replace("log", bytes).unwrap();
    assert_eq!(reopen(&*disk).unwrap().1.len(), 0);
    assert_eq!(disk.bytes("log").unwrap().len(), LENGTH);
    assert_eq!(HEAD, 28);
}

fn shared(disk: &Arc<SimDisk>) -> Arc<dyn Disk> {
    Arc::<SimDisk>::clone(disk)
}

#[test]
fn a_replaced_file_is_the_old_or_the_new_after_every_crash_and_fault() {
    let steps = {
        let disk = SimDisk::new(1);
        replace(&shared(&disk), "a", &[1; 1500]).unwrap();
        disk.calls()
    };
    for n in 1..=2 * steps.mutations {
        let disk = SimDisk::new(1);
        disk.create_directory("d").unwrap();
        disk.sync_directory("").unwrap();
        replace(&shared(&disk), "d/a", &[1; 1500]).unwrap();
        disk.kill_at(n);
        let outcome = replace(&shared(&disk), "d/a", &[2; 2500]);
        for (crash, image) in disk.crash_images(8, 32) {
            let found = image.bytes("d/a").unwrap();
            let (old, new) = (found == [1; 1500], found == [2; 2500]);
            assert!(if outcome.is_ok() { new } else { old || new }, "{n}, {crash:?}");
            remove_leftovers(&*image, "d", |name| name == "a").unwrap();
            assert_eq!(image.list("d").unwrap(), ["a"]);
        }
    }
    for n in 1..=steps.of(Fault::Any) {
        let disk = SimDisk::new(1);
        replace(&shared(&disk), "a", &[1; 1500]).unwrap();
        disk.fail_at(n, Fault::Any);
        if replace(&shared(&disk), "a", &[2; 2500]).is_err() {
            let found = disk.bytes("a").unwrap();
            assert!(found == [1; 1500] || found == [2; 2500]);
            replace(&shared(&disk), "a", &[3; 10]).unwrap();
        }
    }
}

#[test]
fn leftovers_are_known_and_removed() {
    let disk = SimDisk::new(1);
    disk.open("a.tmp", Mode::Create, Access::Buffered).unwrap();
    assert_eq!((unfinished("a.tmp"), unfinished("a")), (Some("a"), None));
    replace(&shared(&disk), "a", b"1").unwrap();
    let unfinished = Replacement::begin(&shared(&disk), "a", Access::Buffered).unwrap();
    assert_eq!(disk.list("").unwrap(), ["a", "a.tmp"]);
    drop(unfinished);
    assert_eq!(disk.list("").unwrap(), ["a"]);
    disk.open("b.tmp", Mode::Create, Access::Buffered).unwrap();
    disk.open("c.tmp", Mode::Create, Access::Buffered).unwrap();
    assert_eq!(remove_leftovers(&*disk, "", |name| name == "b").unwrap(), 1);
    assert_eq!(disk.list("").unwrap(), ["a", "c.tmp"], "what is not ours stays");
}
