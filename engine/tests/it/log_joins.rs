//! Many short files of the log become one, whoever their tables are of: nothing is lost or done twice by that.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::disk::{Disk, Mode};
use varvite::table::check::check;
use varvite::{Batch, Kind, Log, MergeOperator, OpenTable, Session, Table, TableOptions, Verify};

use crate::hooked_disk::{Call, HookedDisk};
use crate::random::Random;
use crate::short_sessions::options;

/// What each table is to have.
type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn open(disk: &Arc<impl Disk + 'static>, log: Log) -> Session {
    Session::open(Arc::clone(disk) as Arc<dyn Disk>, options(log)).unwrap()
}

fn counting() -> TableOptions {
    let small = TableOptions { write_buffer_bytes: 2_000, ..TableOptions::default() };
    small.with_operator(MergeOperator::add_u64())
}

pub fn create(disk: &Arc<impl Disk + 'static>, names: &[String], log: Log) {
    let session = Session::create(Arc::clone(disk) as Arc<dyn Disk>, options(log)).unwrap();
    for name in names {
        drop(session.create_table(name, counting()).unwrap());
    }
    session.close().unwrap();
}

pub fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("t{number}")).collect()
}

pub fn table(session: &Session, name: &str) -> varvite::Result<Table> {
    session.open_table(name, &OpenTable::default())
}

/// What is added twice is seen.
pub fn add_one(table: &mut Table) -> varvite::Result<()> {
    table.update(Batch::new().upsert(b"count", &1_u64.to_le_bytes()))
}

fn counted(table: &Table) -> u64 {
    let value = table.get(b"count").unwrap();
    value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

fn log_bytes(disk: &MemoryDisk) -> (usize, usize) {
    let names = disk.list("log").unwrap();
    let length = |name: &String| disk.bytes(&format!("log/{name}")).unwrap().len();
    (names.len(), names.iter().map(length).sum())
}

pub fn assert_sound(disk: &Arc<dyn Disk>, place: &str) {
    let report = check(disk, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.findings, Vec::new(), "{place}");
    assert!(report.log_unfinished.is_none(), "{place}: {:?}", report.log_unfinished);
}

/// Nobody opens more than one of them, so each other one needs the file that it was updated in.
#[test]
fn sessions_of_a_table_each_leave_a_log_that_stays_small() {
    for (log, closes) in [(Log::Synced, true), (Log::Written, true), (Log::Synced, false)] {
        let disk = MemoryDisk::seeded(1);
        let names = names(30);
        create(&disk, &names, log);
        let mut most = (0, 0);
        for number in 0..130 {
            let session = open(&disk, log);
            add_one(&mut table(&session, &names[number * 7 % 30]).unwrap()).unwrap();
            assert_eq!(session.warnings(), Vec::<String>::new());
            if closes {
                session.close().unwrap();
            }
            let (files, bytes) = log_bytes(&disk);
            most = (most.0.max(files), most.1.max(bytes));
        }
        assert!(most.0 <= 21 && most.1 < 20_000, "{log:?}, closes: {closes}: {most:?}");
        let session = open(&disk, log);
        for (number, name) in names.iter().enumerate() {
            let times = (0..130).filter(|round| round * 7 % 30 == number).count() as u64;
            assert_eq!(counted(&table(&session, name).unwrap()), times, "{name}");
        }
        session.close().unwrap();
        // What is owed was done; from here on an opening writes nothing.
        let writes = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&writes);
        let hooked = HookedDisk::new(Arc::clone(&disk) as _, move |call, path| {
            let is_again = call == Call::Write && path.starts_with("log/");
            let changes = [Call::Write, Call::SetLen, Call::Rename, Call::Remove].contains(&call)
                || call == Call::Open(Mode::Create);
            if changes && !is_again && path != "lock" {
                seen.fetch_add(1, SeqCst);
            }
        });
        for name in &names[..3] {
            let session = open(&hooked, log);
            drop(table(&session, name).unwrap());
            session.close().unwrap();
            assert_eq!(writes.load(SeqCst), 0, "{log:?}, {closes}");
        }
        assert_sound(&(disk as Arc<dyn Disk>), "at the end");
    }
}

/// Also where they come with new tables.
#[test]
fn sessions_that_make_a_table_each_leave_a_log_that_stays_small() {
    let disk = MemoryDisk::seeded(1);
    create(&disk, &[], Log::Synced);
    for number in 0..60 {
        let session = open(&disk, Log::Synced);
        let mut table = session.create_table(&format!("t{number}"), counting()).unwrap();
        add_one(&mut table).unwrap();
        drop(table);
        session.close().unwrap();
        assert!(log_bytes(&disk).0 <= 21, "{number}: {:?}", log_bytes(&disk));
    }
    let session = open(&disk, Log::Synced);
    assert!(session.open_all(&OpenTable::default()).unwrap().iter().all(|it| counted(it) == 1));
}

/// A few records of each of many long files are kept, and the rest is let go.
#[test]
fn tables_at_rest_keep_no_long_files_for_a_few_records() {
    let disk = MemoryDisk::seeded(1);
    let names = names(20);
    create(&disk, &names, Log::Written);
    for name in &names[1..] {
        let session = open(&disk, Log::Written);
        let [mut one, mut busy] = [name, &names[0]].map(|name| table(&session, name).unwrap());
        add_one(&mut one).unwrap();
        for part in 0..3_u64 {
            busy.update(Batch::new().insert(&part.to_be_bytes(), &[7; 1_000])).unwrap();
        }
        drop((one, busy));
        session.close().unwrap();
    }
    let (files, bytes) = log_bytes(&disk);
    assert!(bytes < 3 * (2 * 4_000 + 4 * 2_000), "{files} files, {bytes} bytes");
    let session = open(&disk, Log::Written);
    assert!(names[1..].iter().all(|name| counted(&table(&session, name).unwrap()) == 1));
}

/// To write a table out for some short records would write all of its first level.
#[test]
fn short_updates_of_a_table_with_segments_write_no_segment() {
    let disk = MemoryDisk::seeded(1);
    create(&disk, &[], Log::Synced);
    let session = open(&disk, Log::Synced);
    // What is left in the buffer is replayed at each opening, and fills none.
    let of_table = TableOptions { write_buffer_bytes: 64_000, ..counting() };
    let mut large = session.create_table("t0", of_table).unwrap();
    for number in 0..100_u64 {
        large.update(Batch::new().insert(&number.to_be_bytes(), &[7; 1_000])).unwrap();
    }
    while large.work(u64::MAX).unwrap() > 0 {}
    drop(large);
    session.close().unwrap();
    assert!(!disk.list("segments").unwrap().is_empty());
    let written = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&written);
    let hooked = HookedDisk::new(Arc::clone(&disk) as _, move |call, path| {
        seen.fetch_add(u64::from(call == Call::Write && path.starts_with("segments/")), SeqCst);
    });
    let files = log_bytes(&disk).0;
    for _ in 0..30 {
        let session = open(&hooked, Log::Synced);
        add_one(&mut table(&session, "t0").unwrap()).unwrap();
        session.close().unwrap();
    }
    assert_eq!(written.load(SeqCst), 0);
    assert!(log_bytes(&disk).0 <= files + 12, "{files} and {:?}", log_bytes(&disk));
    assert_eq!(counted(&table(&open(&disk, Log::Synced), "t0").unwrap()), 30);
}

/// The sessions that go before leave a log over its limit: short files of `u`, one update of `t`, and long files of `v`,
/// which needs none of them once it goes on, since each of its updates fills its write buffer.
fn over_its_limit(disk: &Arc<impl Disk + 'static>) {
    create(disk, &["u".to_owned()], Log::Synced);
    for _ in 0..5 {
        let session = open(disk, Log::Synced);
        add_one(&mut table(&session, "u").unwrap()).unwrap();
        session.close().unwrap();
    }
    for number in 0..5_u64 {
        let session = open(disk, Log::Synced);
        if number == 0 {
            add_one(&mut session.create_table("t", counting()).unwrap()).unwrap();
            let small = TableOptions { write_buffer_bytes: 300, ..TableOptions::default() };
            drop(session.create_table("v", small).unwrap());
        }
        let mut busy = table(&session, "v").unwrap();
        for part in 0..7 {
            insert(&mut busy, number * 7 + part);
        }
        drop(busy);
        session.close().unwrap();
    }
}

fn insert(table: &mut Table, number: u64) {
    table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 470])).unwrap();
    while table.work(u64::MAX).unwrap() > 0 {}
}

/// What a table has in memory, and was written out, is not taken for newer than what was written out of it.
#[test]
fn what_was_written_out_before_files_became_one_is_there_after_the_next_checkpoints() {
    let disk = MemoryDisk::seeded(1);
    over_its_limit(&disk);
    let before = disk.list("log").unwrap();
    let session = open(&disk, Log::Synced);
    let [resting, mut busy] = ["t", "v"].map(|name| table(&session, name).unwrap());
    let mut number = 1_000;
    let is_there = |name: &String| disk.exists(&format!("log/{name}")).unwrap();
    while before.iter().any(is_there) {
        insert(&mut busy, number);
        number += 1;
        assert!(number < 1_050, "no checkpoint");
    }
    let joined = disk.list("log").unwrap()[0].clone();
    // The next checkpoints come with the next log files.
    let checkpoint = disk.bytes("checkpoint").unwrap();
    for _ in 0..30 {
        insert(&mut busy, number);
        number += 1;
    }
    assert_ne!(disk.bytes("checkpoint").unwrap(), checkpoint);
    assert_eq!(counted(&resting), 1);
    drop((resting, busy));
    session.close().unwrap();
    // Nobody has opened `u`, so what it needs of five files was made one.
    assert_eq!(disk.list("log").unwrap()[0], joined);
    let session = open(&disk, Log::Synced);
    let counts = ["u", "t"].map(|name| counted(&table(&session, name).unwrap()));
    assert_eq!(counts, [5, 1]);
    assert_eq!(table(&session, "v").unwrap().iter().count() as u64, number - 1_000 + 35);
}

/// A file that is no longer as the opening found it is not taken for all that there is, and stays.
#[test]
fn a_file_that_ends_early_when_it_is_joined_stays() {
    let sim = with_short_files(1, Log::Synced);
    let session = open(&sim, Log::Synced);
    let mut one = table(&session, "t3").unwrap();
    let files = sim.list("log").unwrap();
    let path = format!("log/{}", files[files.len() / 2]);
    let whole = sim.bytes(&path).unwrap();
    let zeros = vec![0; whole.len() - 32];
    sim.damage(&path, [&whole[..32], &zeros].concat()).unwrap();
    add_one(&mut one).unwrap();
    drop(one);
    let _ = session.close();
    assert!(sim.exists(&path).unwrap(), "{:?}", sim.list("log").unwrap());
    sim.damage(&path, whole).unwrap();
    let session = open(&sim, Log::Synced);
    let counts = ["t0", "t1", "t2", "t3"].map(|name| counted(&table(&session, name).unwrap()));
    assert_eq!(counts, [4, 4, 4, 5]);
}

/// A table is opened long after the session was, and its log is read again then.
#[test]
fn a_file_that_ends_early_when_a_table_is_opened_is_damaged() {
    let sim = with_short_files(1, Log::Synced);
    let session = open(&sim, Log::Synced);
    let files = sim.list("log").unwrap();
    let path = format!("log/{}", files[files.len() / 2]);
    let whole = sim.bytes(&path).unwrap();
    let zeros = vec![0; whole.len() - 32];
    sim.damage(&path, [&whole[..32], &zeros].concat()).unwrap();
    let opened: Vec<_> = (0..4).map(|number| table(&session, &format!("t{number}"))).collect();
    let errors: Vec<_> = opened.into_iter().filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].kind() == Kind::Corrupt && errors[0].to_string().contains(&path),
        "{errors:?}"
    );
    sim.damage(&path, whole).unwrap();
    let counts = ["t0", "t1", "t2", "t3"].map(|name| counted(&table(&session, name).unwrap()));
    assert_eq!(counts, [4; 4]);
}

/// Short files of four tables, four updates each: as many as the first update of the next session makes one of.
fn with_short_files(seed: u64, log: Log) -> Arc<SimDisk> {
    let sim = SimDisk::new(seed);
    create(&sim, &names(4), log);
    for number in 0..16 {
        let session = open(&sim, log);
        add_one(&mut table(&session, &format!("t{}", number % 4)).unwrap()).unwrap();
        // Also where updates are written alone, none of these may go.
        session.sync_log().unwrap();
    }
    sim
}

/// The one that the next session gives the file that takes the place of others.
pub fn next_log_file(disk: &dyn Disk) -> String {
    let names = disk.list("log").unwrap();
    let number = |name: &String| u64::from_str_radix(name.strip_suffix(".log")?, 16).ok();
    let last = names.iter().filter_map(number).max().unwrap();
    format!("log/{:016x}.log", last + 1)
}

/// Two of the tables are updated, once or twice; how often for certain, and whether the session was closed.
fn update_two(sim: &Arc<SimDisk>, log: Log) -> ([u64; 2], bool) {
    let mut done = [0; 2];
    let mut run = || {
        let session = Session::open(Arc::clone(sim) as Arc<dyn Disk>, options(log))?;
        let mut tables = [table(&session, "t0")?, table(&session, "t1")?];
        for which in [0, 1, 0] {
            add_one(&mut tables[which])?;
            done[which] += u64::from(log == Log::Synced);
        }
        drop(tables);
        session.close()
    };
    let is_closed = run().is_ok();
    (if is_closed { [2, 1] } else { done }, is_closed)
}

fn assert_counts(disk: &Arc<SimDisk>, least: [u64; 2], log: Log, place: &str) {
    let session = open(disk, log);
    assert_eq!(session.warnings(), Vec::<String>::new(), "{place}");
    let count = |name| counted(&table(&session, name).unwrap());
    let found = ["t0", "t1", "t2", "t3"].map(count);
    let is_right = (4 + least[0]..=6).contains(&found[0]) && (4 + least[1]..=5).contains(&found[1]);
    assert!(is_right && found[2..] == [4, 4], "{place}: {found:?}, at least {least:?} more");
}

/// Whatever is left, the next sessions find each update once, and go on to a log that is as small.
#[test]
fn a_crash_while_files_become_one_loses_and_repeats_nothing() {
    for log in [Log::Synced, Log::Written] {
        let mut kills = 0;
        for at in 1.. {
            let sim = with_short_files(at, log);
            let joined = next_log_file(&*sim);
            sim.kill_at(at);
            let (least, is_closed) = update_two(&sim, log);
            assert_eq!(is_closed, !sim.is_dead());
            for (crash, image) in sim.crash_images(4, 4) {
                let place = format!("{log:?}, killed at {at}, {crash:?}");
                let shared = Arc::clone(&image) as Arc<dyn Disk>;
                let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
                assert_eq!(report.findings, Vec::new(), "{place}");
                // No acknowledged update was ever in the new file alone.
                let of_joined = report.log_unfinished.filter(|it| it.file == joined);
                assert_eq!(of_joined, None, "{place}");
                assert_counts(&image, least, log, &place);
                for round in 0..10 {
                    let session = open(&image, log);
                    add_one(&mut table(&session, "t3").unwrap()).unwrap();
                    assert_eq!(counted(&table(&session, "t3").unwrap()), 5 + round, "{place}");
                }
                assert!(image.list("log").unwrap().len() <= 21, "{place}");
                // A file whose first record was torn is told until a checkpoint passes it.
                let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
                assert_eq!(report.findings, Vec::new(), "{place}");
            }
            if is_closed {
                assert!(sim.list("log").unwrap().len() < 4, "{:?}", sim.list("log").unwrap());
                break;
            }
            kills += 1;
        }
        assert!(kills > 20, "{log:?}: {kills}");
    }
}

/// Each call fails once: the session goes on or says why not, and nothing is lost or done twice.
#[test]
fn a_failure_while_files_become_one_loses_and_repeats_nothing() {
    let mut failed = 0;
    for fault in [Fault::Read, Fault::Open, Fault::Write, Fault::Sync, Fault::Space] {
        for at in 1.. {
            let sim = with_short_files(at, Log::Synced);
            sim.fail_at(at, fault);
            let before = sim.calls().of(fault);
            let (least, is_closed) = update_two(&sim, Log::Synced);
            let is_over = sim.calls().of(fault) - before < at;
            sim.disarm();
            let place = format!("{fault:?} at {at}");
            assert_counts(&sim, least, Log::Synced, &place);
            if is_over {
                assert!(is_closed, "{place}");
                break;
            }
            failed += 1;
        }
    }
    assert!(failed > 20, "{failed}");
}

/// A random session's updates, and what they make of the model.
fn random_update(random: &mut Random, table: &mut Table, of: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut batch = Batch::new();
    for _ in 0..=random.below(4) {
        let key = vec![b'a' + random.below(12) as u8];
        match random.below(8) {
            0 => {
                batch.delete(&key);
                of.remove(&key);
            }
            1 => {
                let end = vec![key[0] + random.below(3) as u8];
                batch.delete_range(Included(&key[..]), Excluded(&end[..]));
                of.retain(|it, _| *it < key || *it >= end);
            }
            2 | 3 => {
                let value = random.below(100).to_le_bytes();
                batch.insert(&key, &value);
                of.insert(key, value.to_vec());
            }
            _ => {
                batch.upsert(&key, &3_u64.to_le_bytes());
                let before =
                    of.get(&key).map_or(0, |it| u64::from_le_bytes(it[..].try_into().unwrap()));
                of.insert(key, (before + 3).to_le_bytes().to_vec());
            }
        }
    }
    // Some of them fill write buffers and log files.
    if random.below(12) == 0 {
        for number in 0..40_u64 {
            let key = [&b"long"[..], &number.to_be_bytes()].concat();
            batch.insert(&key, &[7; 40]);
            of.insert(key, vec![7; 40]);
        }
    }
    table.update(&batch).unwrap();
}

fn assert_is(disk: &Arc<dyn Disk>, model: &Model, place: &str) {
    let session = Session::open(Arc::clone(disk), options(Log::Synced)).unwrap();
    assert_eq!(session.warnings(), Vec::<String>::new(), "{place}");
    let found: Model = session
        .open_all(&OpenTable::default())
        .unwrap()
        .into_iter()
        .map(|table| {
            let entries = table.iter().map(|entry| {
                let (key, value) = entry.unwrap();
                (key.to_vec(), value.to_vec())
            });
            (table.name().to_owned(), entries.collect())
        })
        .collect();
    assert_eq!(found, *model, "{place}");
}

/// Tables that are opened early, late or not at all, made, dropped, backed up and followed, in sessions that are closed or
/// killed.
#[test]
fn random_short_sessions_find_what_those_before_acknowledged() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut sim = SimDisk::new(seed);
        create(&sim, &[], Log::Synced);
        let (mut model, mut made) = (Model::new(), 0);
        let mut most = 0;
        for round in 0..150 {
            let place = format!("seed {seed}, session {round}");
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            let session = open(&sim, Log::Synced);
            let reader = Session::open_read_only(Arc::clone(&disk), options(Log::None)).unwrap();
            let mut follower = reader.follow(&OpenTable::default()).unwrap();
            let mut opened: BTreeMap<String, Table> = BTreeMap::new();
            for _ in 0..=random.below(5) {
                let names: Vec<_> = model.keys().cloned().collect();
                match random.below(14) {
                    0 | 1 if names.len() < 12 => {
                        let name = format!("t{made}");
                        made += 1;
                        opened
                            .insert(name.clone(), session.create_table(&name, counting()).unwrap());
                        model.insert(name, BTreeMap::new());
                    }
                    2 if names.len() > 6 => {
                        let name = &names[random.below(names.len() as u64) as usize];
                        opened.remove(name);
                        session.delete_table(name).unwrap();
                        model.remove(name);
                    }
                    _ if names.is_empty() => {}
                    kind => {
                        let name = &names[random.below(names.len() as u64) as usize];
                        let table = opened
                            .entry(name.clone())
                            .or_insert_with(|| table(&session, name).unwrap());
                        if kind > 3 {
                            random_update(&mut random, table, model.get_mut(name).unwrap());
                        }
                        if kind == 4 {
                            opened.remove(name);
                        }
                    }
                }
                follower.reload().unwrap();
                for table in follower.tables() {
                    let entries = table.iter().map(|entry| entry.unwrap().0.to_vec());
                    let keys: Vec<_> = model[table.name()].keys().cloned().collect();
                    assert_eq!(entries.collect::<Vec<_>>(), keys, "{place}");
                }
            }
            if random.below(20) == 0 && !model.is_empty() {
                let target = MemoryDisk::seeded(seed) as Arc<dyn Disk>;
                session.backup(&target, Verify::Full).unwrap();
                assert_is(&target, &model, &place);
            }
            drop(opened);
            match random.below(3) {
                0 => drop(session),
                1 => {
                    session.close().unwrap();
                    assert_sound(&disk, &place);
                }
                _ => {
                    drop(session);
                    let images: Vec<_> = sim.crash_images(4, 2).collect();
                    sim = Arc::clone(&images[random.index(images.len())].1);
                }
            }
            if round % 10 == 9 {
                assert_is(&(Arc::clone(&sim) as Arc<dyn Disk>), &model, &place);
            }
            most = most.max(sim.list("log").unwrap().len());
        }
        assert!(most <= 40, "seed {seed}: {most} files");
    }
}
