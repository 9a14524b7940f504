//! Short files of the log that become one, whose records refer to values in blob files: none of these goes while the new
//! file needs it, and none stays that nothing needs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::table::check::{Report, check};
use varvite::{Batch, Log, OpenTable, Result, Session, SessionOptions, Table, TableOptions, Value};

use crate::log_joins::{names, next_log_file, table};
use crate::random::Random;

/// What each table is to have.
type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

const TABLES: usize = 4;

/// Long enough that files are short with the blob files that their records list.
fn options(log: Log) -> SessionOptions {
    SessionOptions { log, log_file_bytes: 200_000, seed: Some(3), ..SessionOptions::default() }
}

fn table_options() -> TableOptions {
    TableOptions {
        write_buffer_bytes: 64_000,
        blob_min_bytes: Some(500),
        ..TableOptions::default()
    }
}

fn open(disk: &Arc<impl Disk + 'static>, log: Log) -> Result<Session> {
    Session::open(Arc::clone(disk) as Arc<dyn Disk>, options(log))
}

fn value(number: u64) -> Vec<u8> {
    Random::new(number).bytes(700 + number as usize % 5 * 100)
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn written(session: &Session, value: &[u8]) -> Result<Value> {
    let mut writer = session.write_value()?;
    writer.write(value)?;
    writer.finish()
}

/// Binds a value in pieces to a key, and deletes another one.
fn put(session: &Session, table: &mut Table, number: u64) -> Result<()> {
    table.update(&putting(session, number)?)
}

fn putting(session: &Session, number: u64) -> Result<Batch> {
    let written = written(session, &value(number))?;
    let mut batch = Batch::new();
    batch.insert_value(&key(number % 12), &written);
    batch.delete(&key((number + 5) % 12));
    Ok(batch)
}

fn put_in(model: &mut BTreeMap<Vec<u8>, Vec<u8>>, number: u64) {
    model.insert(key(number % 12), value(number));
    model.remove(&key((number + 5) % 12));
}

/// A key gets a value that another table has, where that has one.
fn rebind(session: &Session, from: &str, to: &str) -> Result<()> {
    let (from, mut to) = (table(session, from)?, table(session, to)?);
    let found = from.view().find(&[key(1)])?.remove(0);
    let mut batch = Batch::new();
    match found {
        Some(found) => _ = batch.insert_value(b"of another", &found),
        None => _ = batch.delete(b"of another"),
    }
    to.update(&batch)
}

fn rebind_in(model: &mut Model, from: &str, to: &str) {
    let found = model[from].get(&key(1)).cloned();
    let of = model.get_mut(to).unwrap();
    match found {
        Some(value) => drop(of.insert(b"of another".to_vec(), value)),
        None => drop(of.remove(&b"of another"[..])),
    }
}

fn read(session: &Session) -> Result<Model> {
    let mut found = Model::new();
    for table in session.open_all(&OpenTable::default())? {
        let mut entries = BTreeMap::new();
        for entry in &table {
            let (key, value) = entry?;
            entries.insert(key.to_vec(), value.to_vec());
        }
        found.insert(table.name().to_owned(), entries);
    }
    Ok(found)
}

fn blob_files(disk: &dyn Disk) -> usize {
    let names = disk.list("segments").unwrap();
    names.iter().filter(|name| name.ends_with("blob")).count()
}

/// Files of the log, and segments and blob files.
fn files(disk: &dyn Disk) -> [Vec<String>; 2] {
    ["log", "segments"].map(|folder| disk.list(folder).unwrap())
}

fn report(disk: &Arc<SimDisk>, place: &str) -> Report {
    let shared = Arc::clone(disk) as Arc<dyn Disk>;
    let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.findings, Vec::new(), "{place}");
    report
}

fn assert_sound(disk: &Arc<SimDisk>, place: &str) {
    report(disk, place);
}

/// A session that was closed leaves no segment or blob file that nothing names, and nothing that one which comes after it
/// and logs nothing would remove.
fn assert_nothing_left(disk: &Arc<SimDisk>, log: Log, place: &str) {
    assert_eq!(report(disk, place).unreferenced, 0, "{place}: {:?}", files(&**disk));
    let before = files(&**disk);
    open(disk, log).unwrap().close().unwrap();
    assert_eq!(files(&**disk), before, "{place}");
}

/// File `joined` took the place of all of `before`: of the log it and that of the session are there.
fn assert_joined(disk: &SimDisk, joined: &str, before: &[String], place: &str) {
    let after = disk.list("log").unwrap();
    let stay = after.iter().filter(|name| before.contains(name)).count();
    assert!(disk.exists(joined).unwrap() && stay == 0 && after.len() == 2, "{place}: {after:?}");
}

/// So many short files, each of an update with a value in a blob file, that the next session's first update makes one of
/// them. With `both` each record is of `t1` as well; without, a table gets a value of another one.
fn with_short_files(seed: u64, log: Log, both: bool) -> (Arc<SimDisk>, Model) {
    let sim = SimDisk::new(seed);
    let session = Session::create(Arc::clone(&sim) as Arc<dyn Disk>, options(log)).unwrap();
    let mut model = Model::new();
    for name in names(TABLES) {
        drop(session.create_table(&name, table_options()).unwrap());
        model.insert(name, BTreeMap::new());
    }
    session.close().unwrap();
    for number in 0..16_u64 {
        let session = open(&sim, log).unwrap();
        let name = format!("t{}", number as usize % TABLES);
        let mut one = table(&session, &name).unwrap();
        put_in(model.get_mut(&name).unwrap(), number);
        if both && name != "t1" {
            let mut other = table(&session, "t1").unwrap();
            let batches = [number, 100 + number].map(|it| putting(&session, it).unwrap());
            session.update(&mut [(&mut one, &batches[0]), (&mut other, &batches[1])]).unwrap();
            put_in(model.get_mut("t1").unwrap(), 100 + number);
        } else {
            put(&session, &mut one, number).unwrap();
        }
        drop(one);
        // Early, since the second update of a session that finds more than eight of them makes one of these.
        if !both && number == 5 {
            rebind(&session, "t1", "t2").unwrap();
            rebind_in(&mut model, "t1", "t2");
        }
        session.sync_log().unwrap();
    }
    // With that of the session that made the tables.
    assert_eq!(sim.list("log").unwrap().len(), 17);
    (sim, model)
}

/// Session by session until a file has taken the place of others, so often that those have been taken the place of as well.
#[test]
fn values_in_blob_files_are_found_after_files_became_one() {
    for (log, closes) in [(Log::Synced, true), (Log::Written, true), (Log::Synced, false)] {
        let (sim, mut model) = with_short_files(1, log, false);
        let mut joins = 0;
        for number in 16..100_u64 {
            let place = format!("{log:?}, closes: {closes}, session {number}");
            let (joined, before) = (next_log_file(&*sim), sim.list("log").unwrap());
            let session = open(&sim, log).unwrap();
            let name = format!("t{}", number as usize * 7 % TABLES);
            put(&session, &mut table(&session, &name).unwrap(), number).unwrap();
            put_in(model.get_mut(&name).unwrap(), number);
            assert_eq!(session.warnings(), Vec::<String>::new(), "{place}");
            if closes {
                session.close().unwrap();
            } else {
                drop(session);
            }
            let after = sim.list("log").unwrap();
            let is_joined = sim.exists(&joined).unwrap()
                && after.iter().filter(|name| before.contains(name)).count() + 3 < before.len();
            joins += u64::from(is_joined);
            if number % 3 == 0 {
                let image = sim.crash_images(0, 0).next().unwrap().1;
                assert_eq!(read(&open(&image, log).unwrap()).unwrap(), model, "{place}");
                assert_sound(&image, &place);
            }
            assert!(sim.list("log").unwrap().len() <= 24, "{place}: {after:?}");
        }
        assert!(joins > 4, "{log:?}, closes: {closes}: {joins}");
        assert_eq!(read(&open(&sim, log).unwrap()).unwrap(), model);
    }
}

/// The records of a table that was deleted are in no file that takes the place of others; so its values go with the files.
/// The session that deletes it makes one file of them when it is closed, and if it is not, then the next one does.
#[test]
fn blob_files_go_that_only_records_list_which_the_new_file_has_not() {
    let log = Log::Synced;
    for closes in [true, false] {
        let place = format!("closes: {closes}");
        let (sim, mut model) = with_short_files(1, log, true);
        let (mut joined, mut before) = (next_log_file(&*sim), sim.list("log").unwrap());
        assert_eq!(blob_files(&*sim), 28, "{place}");
        let session = open(&sim, log).unwrap();
        session.delete_table("t1").unwrap();
        model.remove("t1");
        if closes {
            session.close().unwrap();
            assert_joined(&sim, &joined, &before, &place);
            assert_eq!(blob_files(&*sim), 28 - 16, "{place}");
            assert_nothing_left(&sim, log, &place);
        } else {
            drop(session);
            // But for those that only `t1` needed, of which there are four, and the one of no table.
            (joined, before) = (next_log_file(&*sim), sim.list("log").unwrap());
            assert_eq!(before.len(), 12 + 1, "{before:?}");
        }
        let session = open(&sim, log).unwrap();
        put(&session, &mut table(&session, "t0").unwrap(), 20).unwrap();
        put_in(model.get_mut("t0").unwrap(), 20);
        session.close().unwrap();
        if !closes {
            assert_joined(&sim, &joined, &before, &place);
        }
        // One more, and without one for each session's update of the table.
        assert_eq!(blob_files(&*sim), 28 + 1 - 16, "{place}");
        assert_nothing_left(&sim, log, &place);
        assert_eq!(read(&open(&sim, log).unwrap()).unwrap(), model, "{place}");
        // Nothing else needs the others.
        let session = open(&sim, log).unwrap();
        for name in ["t0", "t2", "t3"] {
            session.delete_table(name).unwrap();
        }
        session.close().unwrap();
        assert_eq!(blob_files(&*sim), 0, "{place}: {:?}", sim.list("log").unwrap());
        assert_nothing_left(&sim, log, &place);
    }
}

/// Sessions that close, of `count` tables, and of small log files: each updates the table of its number with `update`.
fn one_by_one(
    count: usize,
    update: impl Fn(&Session, &mut Table, u64) -> Result<()>,
) -> (Arc<SimDisk>, SessionOptions) {
    let options = SessionOptions { log_file_bytes: 4_000, ..options(Log::Synced) };
    let sim = SimDisk::new(1);
    let session = Session::create(Arc::clone(&sim) as Arc<dyn Disk>, options.clone()).unwrap();
    for name in names(count).iter().chain([&"busy".to_owned()]) {
        drop(session.create_table(name, small()).unwrap());
    }
    session.close().unwrap();
    for (number, name) in names(count).iter().enumerate() {
        let session = Session::open(Arc::clone(&sim) as Arc<dyn Disk>, options.clone()).unwrap();
        update(&session, &mut table(&session, name).unwrap(), number as u64).unwrap();
        session.close().unwrap();
    }
    (sim, options)
}

fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 2_000, ..table_options() }
}

/// What a table may keep of the log, with those options.
const KEPT_MAX: u64 = 2 * 4_000 + 4 * 2_000;

/// How long a blob file with a value of 3,000 bytes is.
const BLOB_FILE_BYTES: u64 = 3 * 4_096;

fn blob_bytes(sim: &SimDisk) -> u64 {
    let names = sim.list("segments").unwrap();
    let names = names.iter().filter(|name| name.ends_with("blob"));
    names.map(|name| sim.bytes(&format!("segments/{name}")).unwrap().len() as u64).sum()
}

/// A file of the log that has a record of a table at rest does not keep the values of another table for ever, which needs
/// none of them.
#[test]
fn tables_at_rest_keep_no_values_of_other_tables_for_a_few_records() {
    let (sim, options) = one_by_one(40, |session, one, number| {
        one.update(Batch::new().insert(b"key", &number.to_le_bytes()))?;
        let mut busy = table(session, "busy")?;
        for part in 0..3 {
            let written = written(session, &Random::new(number * 3 + part).bytes(3_000))?;
            let mut batch = Batch::new();
            busy.update(batch.insert_value(&key(part), &written))?;
        }
        Ok(())
    });
    // What the table may keep, and what the last session logged.
    let most = KEPT_MAX + 3 * BLOB_FILE_BYTES;
    assert!(blob_bytes(&sim) <= most, "{} of {most}: {:?}", blob_bytes(&sim), files(&*sim));
    let session = Session::open(Arc::clone(&sim) as Arc<dyn Disk>, options).unwrap();
    let found = read(&session).unwrap();
    for (number, name) in names(40).iter().enumerate() {
        let value = (number as u64).to_le_bytes().to_vec();
        assert_eq!(found[name], BTreeMap::from([(b"key".to_vec(), value)]));
    }
    let values = (0..3).map(|part| (key(part), Random::new(39 * 3 + part).bytes(3_000)));
    assert_eq!(found["busy"], values.collect());
}

/// Nor is one kept by records of several tables: each of those at rest needs its own part, and not the values of another.
#[test]
fn tables_at_rest_keep_no_values_that_another_table_got_in_the_same_update() {
    let (sim, options) = one_by_one(40, |session, one, number| {
        let mut busy = table(session, "busy")?;
        let mut other = table(session, &names(40)[(number as usize + 1) % 40])?;
        let (mut short, mut long) = (Batch::new(), Batch::new());
        short.insert(b"key", &number.to_le_bytes());
        for part in 0..3 {
            let written = written(session, &Random::new(number * 3 + part).bytes(3_000))?;
            long.insert_value(&key(part), &written);
        }
        session.update(&mut [(one, &short), (&mut other, &short), (&mut busy, &long)])
    });
    // Beside what a table may keep, the three values of the last update, and those that the table has written out before it.
    let most = KEPT_MAX + 2 * 3 * BLOB_FILE_BYTES;
    assert!(blob_bytes(&sim) <= most, "{} of {most}: {:?}", blob_bytes(&sim), files(&*sim));
    let session = Session::open(Arc::clone(&sim) as Arc<dyn Disk>, options).unwrap();
    let found = read(&session).unwrap();
    for (number, name) in names(40).iter().enumerate() {
        let last = if number == 0 { 39 } else { number as u64 };
        let value = last.to_le_bytes().to_vec();
        assert_eq!(found[name], BTreeMap::from([(b"key".to_vec(), value)]));
    }
    let values = (0..3).map(|part| (key(part), Random::new(39 * 3 + part).bytes(3_000)));
    assert_eq!(found["busy"], values.collect());
}

/// Tables at rest may together keep more of the log than one may. Nothing is to be done about that, so nothing is.
#[test]
fn sessions_that_log_nothing_write_nothing_however_much_tables_at_rest_keep() {
    let (sim, options) = one_by_one(12, |session, one, number| {
        let written = written(session, &Random::new(number).bytes(3_000))?;
        let mut batch = Batch::new();
        one.update(batch.insert_value(b"key", &written))
    });
    assert!(blob_bytes(&sim) > 2 * KEPT_MAX);
    assert_writes_nothing(&sim, &options);
}

/// The same where the records are so short that half of the log is what frames them.
#[test]
fn sessions_that_log_nothing_write_no_short_records_anew() {
    let (sim, options) = one_by_one(12, |_, one, number| {
        (0..60).try_for_each(|part| one.update(Batch::new().insert(&[number as u8, part], b"")))
    });
    assert_writes_nothing(&sim, &options);
}

fn assert_writes_nothing(sim: &Arc<SimDisk>, options: &SessionOptions) {
    // The last file of the log has no update.
    let open = || Session::open(Arc::clone(sim) as Arc<dyn Disk>, options.clone()).unwrap();
    let session = open();
    drop(session.create_table("new", small()).unwrap());
    session.close().unwrap();
    let seen = || (files(&**sim), sim.bytes("checkpoint").unwrap());
    // Whatever those before it have left to do.
    open().close().unwrap();
    let before = seen();
    for _ in 0..3 {
        open().close().unwrap();
        assert!(seen() == before, "{:?}", files(&**sim));
    }
}

/// What the next session does, in which files become one: how many of its updates were acknowledged.
fn go_on(sim: &Arc<SimDisk>, log: Log) -> (usize, Result<()>) {
    let mut done = 0;
    let mut run = || {
        let session = open(sim, log)?;
        for number in [16, 21] {
            put(&session, &mut table(&session, "t0")?, number)?;
            done += 1;
        }
        rebind(&session, "t1", "t3")?;
        done += 1;
        session.close()
    };
    let ended = run();
    (done, ended)
}

/// What is there after each of those updates, the first before all of them.
fn states(before: &Model) -> Vec<Model> {
    let mut states = vec![before.clone()];
    for number in [16, 21] {
        let mut next = states.last().unwrap().clone();
        put_in(next.get_mut("t0").unwrap(), number);
        states.push(next);
    }
    let mut next = states.last().unwrap().clone();
    rebind_in(&mut next, "t1", "t3");
    states.push(next);
    states
}

fn assert_one_of(found: &Model, states: &[Model], place: &str) -> usize {
    let which = states.iter().position(|state| state == found);
    which.unwrap_or_else(|| panic!("{place}: none of {} states", states.len()))
}

#[test]
fn a_crash_while_files_with_blobs_become_one_loses_no_value() {
    for log in [Log::Synced, Log::Written] {
        let mut kills = 0;
        for at in 1.. {
            let (sim, before) = with_short_files(at, log, false);
            let (states, joined) = (states(&before), next_log_file(&*sim));
            let short = sim.list("log").unwrap();
            sim.kill_at(at);
            let (done, ended) = go_on(&sim, log);
            let least = if log == Log::Synced || ended.is_ok() { done } else { 0 };
            for (crash, image) in sim.crash_images(3, 3) {
                let place = format!("{log:?}, killed at {at}, {crash:?}");
                assert_sound(&image, &place);
                let session = open(&image, log).unwrap();
                assert_eq!(session.warnings(), Vec::<String>::new(), "{place}");
                let found = read(&session).unwrap();
                drop(session);
                let which = assert_one_of(&found, &states[least..], &place) + least;
                // The next ones go on, and read each value where it is by then.
                for round in 0..2 {
                    let (done, ended) = go_on(&image, log);
                    ended.unwrap();
                    assert_eq!(done, 3, "{place}");
                    let now = read(&open(&image, log).unwrap()).unwrap();
                    let all = self::states(&states[which]);
                    assert_eq!(now["t0"], all[3]["t0"], "{place}, {round}");
                    assert_eq!(now["t3"], all[3]["t3"], "{place}, {round}");
                }
                // The first of them has made one of what there was, whatever the crash left of the new file.
                let after = image.list("log").unwrap();
                let stay = after.iter().filter(|name| short.contains(name)).count();
                assert!(stay == 0 && after.len() <= 5, "{place}: {after:?}");
                assert_nothing_left(&image, log, &place);
            }
            if !sim.is_dead() {
                ended.unwrap();
                sim.disarm();
                assert_joined(&sim, &joined, &short, "not killed");
                assert_nothing_left(&sim, log, "not killed");
                break;
            }
            kills += 1;
        }
        assert!(kills > 30, "{log:?}: {kills}");
    }
}

#[test]
fn a_failure_while_files_with_blobs_become_one_loses_no_value() {
    let mut failed = 0;
    for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::Any) {
        for at in 1.. {
            let (sim, before) = with_short_files(at, Log::Synced, false);
            let (states, short) = (states(&before), sim.list("log").unwrap());
            let so_far = sim.calls().of(fault);
            sim.fail_at(at, fault);
            let (done, ended) = go_on(&sim, Log::Synced);
            let is_over = sim.calls().of(fault) - so_far < at;
            sim.disarm();
            let place = format!("{fault:?} at {at}");
            let session = open(&sim, Log::Synced).unwrap();
            assert_eq!(session.warnings(), Vec::<String>::new(), "{place}");
            assert_one_of(&read(&session).unwrap(), &states[done..], &place);
            drop(session);
            assert_sound(&sim, &place);
            let (done, again) = go_on(&sim, Log::Synced);
            again.unwrap();
            let now = read(&open(&sim, Log::Synced).unwrap()).unwrap();
            assert_eq!((done, &now["t0"]), (3, &states[3]["t0"]), "{place}");
            let after = sim.list("log").unwrap();
            let stay = after.iter().filter(|name| short.contains(name)).count();
            assert!(stay == 0 && after.len() <= 4, "{place}: {after:?}");
            assert_nothing_left(&sim, Log::Synced, &place);
            if is_over {
                ended.unwrap();
                break;
            }
            failed += 1;
        }
    }
    assert!(failed > 30, "{failed}");
}
