//! How much disk a table takes over what is alive, against the bounds of `docs/design/costs.md`.

use std::sync::Arc;

use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, Mode};
use varvite::{Batch, Session, SessionOptions, Table, TableOptions};

use crate::random::mix;

const BUFFER_BYTES: u64 = 32 << 10;
const SEGMENT_BYTES: u64 = 128 << 10;
/// Keys alive, each of 34 bytes with a value of 60.
const ALIVE: u64 = 40_000;
const BATCH: u64 = 50;
/// What a live entry takes in the pages, the index and the filters of one run.
const ENTRY_BYTES: u64 = 100;
const COST: u64 = 34 + 60 + 16;

fn key(number: u64) -> [u8; 34] {
    let mut key = [0; 34];
    for (part, bytes) in key.chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&mix(number ^ ((part as u64) << 56)).to_be_bytes()[..bytes.len()]);
    }
    key
}

fn session() -> (Arc<MemoryDisk>, Session) {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions { segment_bytes: SEGMENT_BYTES, ..SessionOptions::default() };
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    (disk, session)
}

/// A table of `ALIVE` keys, the first of them 0.
fn full(session: &Session, ratio: u32) -> Table {
    let options = TableOptions {
        write_buffer_bytes: BUFFER_BYTES,
        size_ratio: ratio,
        ..TableOptions::default()
    };
    let mut table = session.create_table("t", options).unwrap();
    for start in (0..ALIVE).step_by(BATCH as usize) {
        update(&mut table, &[], &(start..start + BATCH).collect::<Vec<_>>());
    }
    table
}

fn update(table: &mut Table, deletes: &[u64], inserts: &[u64]) {
    let mut batch = Batch::new();
    for number in deletes {
        batch.delete(&key(*number));
    }
    for number in inserts {
        batch.insert(&key(*number), &[5; 60]);
    }
    table.update(&batch).unwrap();
}

fn held(table: &Table) -> u64 {
    table.stats().unwrap().disk_bytes
}

/// The levels above the last run of a table of `ALIVE` keys.
fn depth(ratio: u64) -> u32 {
    let fits = |depth: &u32| ALIVE * COST <= ratio.pow(depth + 1) * BUFFER_BYTES;
    (1..64).find(fits).unwrap()
}

/// At most so many bytes stand above the last run: T - 1 runs and a merge of T on every level, and for
/// each merge the segments that it has written and not yet taken from its inputs.
fn above(ratio: u64) -> u64 {
    let depth = depth(ratio);
    let runs: u64 = (0..depth).map(|level| (2 * ratio - 1) * ratio.pow(level) * BUFFER_BYTES).sum();
    let segment = SEGMENT_BYTES + SEGMENT_BYTES / 16 + (8 << 10);
    runs + 3 * BUFFER_BYTES + u64::from(depth + 1) * (ratio + 2) * segment
}

#[test]
fn a_full_turnover_stays_within_the_bound_of_space() {
    for ratio in [2, 4, 8] {
        let (_disk, session) = session();
        let mut table = full(&session, ratio as u32);
        let live = ALIVE * ENTRY_BYTES;
        let (mut most, mut sum, mut count) = (0, 0, 0);
        for start in (0..2 * ALIVE).step_by(BATCH as usize) {
            // The keys go in another order than they came.
            let spent: Vec<_> = (start..start + BATCH)
                .map(|it| it / ALIVE * ALIVE + it % ALIVE * 7_919 % ALIVE)
                .collect();
            update(&mut table, &spent, &(ALIVE + start..ALIVE + start + BATCH).collect::<Vec<_>>());
            let held = held(&table);
            most = most.max(held);
            (sum, count) = (sum + held, count + 1);
        }
        assert_eq!(table.view().count().unwrap(), ALIVE);
        let bound = live + above(ratio);
        let share = |bytes: u64| bytes as f64 / live as f64;
        println!(
            "ratio {ratio}, {} levels: {:.2} of the live data on average, {:.2} at most, bound {:.2}",
            depth(ratio),
            share(sum / count),
            share(most),
            share(bound)
        );
        assert!(most <= bound, "{most} of {bound}");
    }
}

#[test]
fn after_mass_deletion_space_comes_back_with_further_updates_or_a_union() {
    for ratio in [2, 4] {
        let (disk, session) = session();
        let mut table = full(&session, ratio as u32);
        let before = held(&table);
        let mut most = 0;
        for start in (0..ALIVE).step_by(BATCH as usize) {
            update(&mut table, &(start..start + BATCH).collect::<Vec<_>>(), &[]);
            most = most.max(held(&table));
        }
        assert_eq!(table.view().count().unwrap(), 0);
        let deleted = held(&table);
        assert!(most <= before + above(ratio), "{most} after {before}");
        // A union of the table alone merges all of it: what is dead goes at once.
        let union = session.union("rest", &[&table]).unwrap();
        assert_eq!((held(&union), union.stats().unwrap().physical_entries), (0, 0));
        drop(union);
        // Or by updates: every level passes on what it has within two of its periods.
        let due: u64 = (0..=depth(ratio)).map(|it| 2 * ratio.pow(it + 1) * BUFFER_BYTES).sum();
        let mut passed = 0;
        let mut number = 1 << 40;
        while passed < due {
            let fresh: Vec<_> = (number..number + BATCH).collect();
            update(&mut table, &[], &fresh);
            update(&mut table, &fresh, &[]);
            number += BATCH;
            passed += BATCH * (COST + 34 + 16);
        }
        println!(
            "ratio {ratio}: {before} bytes, at most {most} while all is deleted, {deleted} then, {} \
             after updates of {passed}",
            held(&table)
        );
        // Nothing of what was deleted is left, only what the levels hold of the last updates.
        assert!(held(&table) <= above(ratio), "{} of {}", held(&table), above(ratio));
        let rest = session.union("rest", &[&table]).unwrap();
        drop((table, rest));
        session.close().unwrap();
        assert!(disk.list("segments").unwrap().is_empty());
    }
}

/// Also those of a write-out whose buffer still counts, because it is settled later.
#[test]
fn statistics_count_every_file_that_is_finished() {
    let (disk, session) = session();
    let options = TableOptions {
        write_buffer_bytes: 8_000,
        size_ratio: 16, // no merge, so no files that wait to be written over
        blob_min_bytes: Some(200),
        ..TableOptions::default()
    };
    let mut table = session.create_table("t", options).unwrap();
    let on_disk = |kind: &str| -> u64 {
        let names = disk.files().into_iter().filter(|name| name.ends_with(kind));
        names.map(|name| disk.bytes(&name).unwrap().len() as u64).sum()
    };
    let mut unsettled = 0;
    for number in 0..400 {
        let value = vec![5; if number % 20 == 0 { 300 } else { 60 }];
        table.update(Batch::new().insert(&key(number), &value)).unwrap();
        table.work(u64::MAX).unwrap();
        let stats = table.stats().unwrap();
        let found = (stats.disk_bytes, stats.blob_disk_bytes);
        assert_eq!(found, (on_disk(".segment"), on_disk(".blob")), "after {number}");
        assert_eq!(stats.physical_entries, number + 1);
        let in_levels: u64 = stats.levels.iter().map(|level| level.disk_bytes).sum();
        unsettled += u64::from(stats.disk_bytes > in_levels);
    }
    assert!(unsettled > 50, "{unsettled}");
}

fn bytes_of_files(disk: &MemoryDisk) -> u64 {
    let length = |name: &String| {
        let path = format!("segments/{name}");
        disk.open(&path, Mode::Read, Access::Buffered).unwrap().len().unwrap()
    };
    disk.list("segments").unwrap().iter().map(length).sum()
}

/// What a session says that it keeps to be written over is what lies in its folder beside the tables' files, and
/// no more than two segments.
#[test]
fn spare_files_are_told_to_the_byte_and_bounded() {
    let (disk, session) = session();
    let mut table = full(&session, 4);
    let mut most = 0;
    for start in (0..ALIVE).step_by(BATCH as usize) {
        let spent: Vec<_> = (start..start + BATCH).collect();
        let fresh: Vec<_> = spent.iter().map(|number| number + ALIVE).collect();
        update(&mut table, &spent, &fresh);
        if start % (40 * BATCH) == 0 {
            // No segment is in work then, which nobody counts.
            table.work(u64::MAX).unwrap();
            let spare = session.stats().spare_bytes;
            assert_eq!(bytes_of_files(&disk), held(&table) + spare, "{start}");
            most = most.max(spare);
        }
    }
    assert!(most > 0 && most <= 2 * (1 << 20) / 16 * 17, "{most}");
    drop(table);
    session.close().unwrap();
    let session = Session::open(disk, SessionOptions::default()).unwrap();
    assert_eq!(session.stats().spare_bytes, 0);
}
