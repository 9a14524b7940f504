//! Readers, checks and inspections of a session at every call of the disk, with each kind of log: they see
//! one state that was or is, and never damage that is none.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::raw::file::append::{self, AppendFile, Position};
use varvite::raw::format::header::{FileKind, Header};
use varvite::table::check::check;
use varvite::table::inspect;
use varvite::{
    Batch, Follower, Kind, Log, OpenTable, Session, SessionOptions, SnapshotContent, Table,
    TableOptions,
};

use crate::hooked_disk::{Call, HookedDisk};
use crate::listed::Listed as _;
use crate::log_crash::{ACTS, Act, BLOB_ACTS, Live, Tale, equal, opening, options};
use crate::random::setting;

fn bytes_of(disk: &dyn Disk, path: &str) -> varvite::Result<Vec<u8>> {
    let file = disk.open(path, Mode::Read, Access::Buffered)?;
    let mut bytes = vec![0; file.len()? as usize];
    let found = file.read_at(0, &mut bytes)?;
    bytes.truncate(found);
    Ok(bytes)
}

/// What a check and an inspection of every file say that is wrong. Segments and files in work may be half
/// written; they are inspected all the same, and nothing must break.
fn wrong(disk: &Arc<dyn Disk>) -> Vec<String> {
    let report = check(disk, |_| ControlFlow::Continue(())).unwrap();
    let mut wrong: Vec<_> = report.findings.iter().map(|it| format!("{it:?}")).collect();
    for folder in ["", "log", "snapshots", "segments"] {
        for name in disk.list(folder).unwrap_or_default() {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            // What tells the number of saves is empty: its name says it.
            if ["log", "snapshots", "segments"].contains(&&*path) || path.contains(".saved") {
                continue;
            }
            let Ok(bytes) = bytes_of(&**disk, &path) else { continue };
            let outline = inspect::file(&path, &bytes);
            let damages = outline.map_or(1, |outline| outline.damage_count());
            if damages > 0 && folder != "segments" && !path.contains(".tmp") {
                wrong.push(format!("{path} is inspected with {damages} damages"));
            }
        }
    }
    wrong
}

/// What a reader may find at this moment.
#[derive(Default)]
struct Watch {
    allowed: Vec<Live>,
    begun: bool,
    looks: u64,
    news: u64,
    /// One that goes on at each look, and one that does so now and then.
    followers: Vec<Follower>,
    /// Times that a follower came to another moment.
    moved: u64,
}

impl Watch {
    /// Opens, checks and inspects what is on `disk`.
    fn look(&mut self, disk: &Arc<dyn Disk>, what: &str) {
        let session = match Session::open_read_only(Arc::clone(disk), SessionOptions::default()) {
            Err(error) if error.kind() == Kind::Missing && !self.begun => return,
            opened => opened.unwrap_or_else(|error| panic!("{what}: {error}")),
        };
        self.looks += 1;
        let tables = session.open_all(&opening());
        let tables = tables.unwrap_or_else(|error| panic!("{what}: {error}"));
        let is_one = |live: &Live| {
            live.len() == tables.len()
                && tables.iter().zip(live).all(|(table, (name, model))| {
                    table.name() == name && equal(table, model).unwrap()
                })
        };
        let found = self.allowed.iter().position(is_one);
        let found = found.unwrap_or_else(|| panic!("{what}: neither what was nor what is"));
        self.news += found as u64;
        self.follow(&session, what);
        assert_eq!(wrong(disk), Vec::<String>::new(), "{what}");
    }
}

impl Watch {
    /// Goes on with the followers, each of which is to have what a reader may find.
    fn follow(&mut self, session: &Session, what: &str) {
        while self.followers.len() < 2 {
            self.followers
                .push(session.follow(&opening()).unwrap_or_else(|error| panic!("{what}: {error}")));
        }
        let looks = self.looks;
        for (number, follower) in self.followers.iter_mut().enumerate() {
            if number > 0 && !looks.is_multiple_of(7) {
                continue;
            }
            let reloaded = follower.reload();
            let moved =
                reloaded.unwrap_or_else(|error| panic!("{what}: follower {number}: {error}"));
            self.moved += u64::from(moved);
            let is_one = |live: &Live| {
                live.len() == follower.tables().len()
                    && follower.tables().zip(live).all(|(table, (name, model))| {
                        table.name() == name && equal(table, model).unwrap()
                    })
            };
            assert!(self.allowed.iter().any(is_one), "{what}: follower {number} has another state");
        }
    }
}

/// Tells the tale with a look before each call that changes anything, while the `n`-th write fails.
fn look_at_every_call(acts: &[Act], log: Log, failing: Option<u64>) -> (u64, u64) {
    let sim = SimDisk::new(7);
    if let Some(n) = failing {
        sim.fail_at(n, Fault::Write);
    }
    let inner = Arc::clone(&sim) as Arc<dyn Disk>;
    let watch: Arc<Mutex<Watch>> = Arc::default();
    let (seen, disk) = (Arc::clone(&watch), Arc::clone(&inner));
    let hooked = HookedDisk::new(inner, move |call, path| {
        if call.changes() {
            let what = format!("{log:?}, {failing:?}, before {call:?} of {path}");
            seen.lock().unwrap().look(&disk, &what);
        }
    });
    let mut tale = Tale::on(hooked, log);
    for act in acts {
        {
            let mut watch = watch.lock().unwrap();
            watch.allowed = vec![tale.live.clone(), tale.after(*act)];
            watch.begun |= !matches!(act, Act::Begin);
        }
        if let Err(error) = tale.act(*act) {
            assert_eq!(error.kind(), Kind::Io, "{act:?}: {error}");
            if !matches!(act, Act::Begin | Act::Reopen | Act::End) {
                tale.act(*act).unwrap_or_else(|error| panic!("{act:?} again: {error}"));
                continue;
            }
            break;
        }
    }
    let watch = watch.lock().unwrap();
    assert!(watch.followers.is_empty() || watch.moved > 3 || failing.is_some(), "{}", watch.moved);
    (watch.looks, watch.news)
}

#[test]
fn at_every_call_of_a_writer_a_reader_a_check_and_an_inspection_see_what_was_or_what_is() {
    for log in [Log::Written, Log::Synced] {
        for acts in [ACTS, BLOB_ACTS] {
            let (looks, news) = look_at_every_call(acts, log, None);
            println!("{log:?}: {looks} looks, {news} of them at what is new");
            assert!(looks > 200 && news > 5, "{looks} {news}");
        }
    }
}

#[test]
fn the_same_while_a_write_fails_and_is_taken_back() {
    let stride = (2_000 / setting("VARVITE_BESIDE", 100).max(1)).max(1);
    for log in [Log::Written, Log::Synced] {
        for n in (5..400).step_by(stride as usize) {
            look_at_every_call(ACTS, log, Some(n));
        }
    }
}

#[test]
fn a_session_without_a_log_is_read_at_every_call_of_its_writer() {
    let inner: Arc<dyn Disk> = MemoryDisk::new();
    let (begun, saved) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (disk, seen, looks) = (Arc::clone(&inner), Arc::clone(&saved), Arc::clone(&begun));
    let hooked = HookedDisk::new(inner, move |call, path| {
        if !call.changes() || looks.load(SeqCst) == 0 {
            return;
        }
        looks.fetch_add(1, SeqCst);
        let what = format!("before {call:?} of {path}");
        assert_eq!(wrong(&disk), Vec::<String>::new(), "{what}");
        let session = Session::open_read_only(Arc::clone(&disk), SessionOptions::default());
        let session = session.unwrap_or_else(|error| panic!("{what}: {error}"));
        // One is there always, but while it is replaced there may be two.
        let listed = session.list_snapshots().unwrap();
        let newest = listed.last().map(|info| info.name.clone()).unwrap();
        let now = seen.load(SeqCst);
        let snapshot = session.open_snapshot(&newest, &varvite::OpenSnapshot::default()).unwrap();
        let found = number_in(&snapshot.tables[0]).unwrap();
        assert!(found == now || found == now + 1, "{what}: {found} after {now}");
    });
    let options = SessionOptions { seed: Some(42), ..SessionOptions::default() };
    let session = Session::create(hooked, options).unwrap();
    let mut table = session.create_table("t", small_table()).unwrap();
    for number in 1..20_u64 {
        table.update(&numbered(number)).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot(&format!("s{number:03}"), content).unwrap();
        saved.store(number, SeqCst);
        begun.fetch_max(1, SeqCst);
        if number > 1 {
            session.delete_snapshot(&format!("s{:03}", number - 1)).unwrap();
        }
    }
    drop(table);
    session.close().unwrap();
    assert!(begun.load(SeqCst) > 150, "{begun:?}");
}

fn small_table() -> TableOptions {
    TableOptions { write_buffer_bytes: 2_000, ..TableOptions::default() }
}

/// One update that says its number at both ends, with some bytes between.
fn numbered(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.insert(b"a", &number.to_le_bytes()).insert(b"z", &number.to_le_bytes());
    let length = number as usize * 37 % 300;
    batch.insert(&[b'k', number as u8 % 16], &vec![number as u8; length]);
    batch
}

/// The number of the update that a table has come to; it must have it whole.
fn number_in(table: &Table) -> varvite::Result<u64> {
    let all: BTreeMap<_, _> =
        table.listed(Bound::Unbounded, Bound::Unbounded)?.into_iter().collect();
    let [first, last] = [b"a", b"z"].map(|key| all.get(&key[..]).cloned());
    assert_eq!(first, last, "half an update");
    Ok(first.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap())))
}

/// A session whose writer makes `steps` updates at each of the calls of readers that `strikes` names.
struct Busy {
    raw: Arc<dyn Disk>,
    disk: Arc<dyn Disk>,
    calls: Arc<AtomicU64>,
    strikes: Arc<Mutex<(u64, u64, u64)>>,
    done: Arc<AtomicU64>,
}

impl Busy {
    fn new(log: Log) -> Busy {
        let raw: Arc<dyn Disk> = MemoryDisk::new();
        let options = SessionOptions { log_file_bytes: 3_000, ..options(log) };
        let session = Session::create(Arc::clone(&raw), options).unwrap();
        let table = Mutex::new((session.create_table("t", small_table()).unwrap(), session));
        let (calls, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        // The first call that the writer works at, the last one, and how much.
        let strikes: Arc<Mutex<(u64, u64, u64)>> = Arc::default();
        let (count, updates, when) = (Arc::clone(&calls), Arc::clone(&done), Arc::clone(&strikes));
        let disk = HookedDisk::new(Arc::clone(&raw), move |_, _| {
            let call = count.fetch_add(1, SeqCst) + 1;
            let (first, last, steps) = *when.lock().unwrap();
            if (first..=last).contains(&call) {
                let (table, _) = &mut *table.lock().unwrap();
                for _ in 0..steps {
                    let number = updates.load(SeqCst) + 1;
                    table.update(&numbered(number)).unwrap();
                    updates.store(number, SeqCst);
                }
            }
        });
        Busy { raw, disk, calls, strikes, done }
    }

    /// Does `read` with the writer at work; returns how many calls there were, and between which
    /// updates.
    fn beside<T>(&self, strikes: (u64, u64, u64), read: impl FnOnce() -> T) -> (T, u64, u64, u64) {
        self.calls.store(0, SeqCst);
        let before = self.done.load(SeqCst);
        *self.strikes.lock().unwrap() = strikes;
        let found = read();
        *self.strikes.lock().unwrap() = (0, 0, 0);
        (found, self.calls.load(SeqCst), before, self.done.load(SeqCst))
    }
}

#[test]
fn a_writer_at_any_call_of_a_reader_leaves_it_one_acknowledged_state() {
    for log in [Log::Written, Log::Synced] {
        let busy = Busy::new(log);
        let read = || {
            let session =
                Session::open_read_only(Arc::clone(&busy.disk), SessionOptions::default());
            number_in(&session?.open_table("t", &OpenTable::default())?)
        };
        let check = || check(&busy.disk, |_| ControlFlow::Continue(())).unwrap();
        for steps in [1, 3, 40] {
            let (mut call, mut most) = (1, u64::MAX);
            while call <= most {
                for last in [call, call + 20] {
                    let what = (log, steps, call, last);
                    let (found, calls, before, after) = busy.beside((call, last, steps), read);
                    let found = found.unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    assert!(
                        (before..=after).contains(&found),
                        "{what:?}: {found}, {before} to {after}"
                    );
                    let (report, more, ..) = busy.beside((call, last, steps), check);
                    assert_eq!(report.findings, Vec::new(), "{what:?}");
                    most = calls.max(more).min(120);
                }
                call += 1;
            }
            assert!(call > 10, "{call}");
        }
        assert_eq!(wrong(&busy.raw), Vec::<String>::new());
    }
}

#[test]
fn a_writer_at_any_call_of_a_follower_leaves_it_one_acknowledged_state() {
    for log in [Log::Written, Log::Synced] {
        let busy = Busy::new(log);
        let session = Session::open_read_only(Arc::clone(&busy.disk), SessionOptions::default());
        let mut follower = session.unwrap().follow(&OpenTable::default()).unwrap();
        let mut last = 0;
        for steps in [0, 1, 3, 40] {
            let (mut call, mut most) = (1, u64::MAX);
            while call <= most {
                for end in [call, call + 20] {
                    let what = (log, steps, call, end);
                    let reload = || {
                        let moved = follower.reload()?;
                        number_in(follower.table("t")?).map(|number| (number, moved))
                    };
                    let (found, calls, before, after) = busy.beside((call, end, steps), reload);
                    let (found, moved) = found.unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    assert!(
                        (before..=after).contains(&found),
                        "{what:?}: {found}, {before} to {after}"
                    );
                    assert_eq!(moved, found != last, "{what:?}");
                    last = found;
                    most = calls.clamp(2, 120);
                }
                call += 1;
            }
        }
        // When nothing was written it reads next to nothing.
        follower.reload().unwrap();
        let (_, calls, ..) = busy.beside((0, 0, 0), || follower.reload().unwrap());
        assert!(calls < 20, "{calls} calls");
    }
}

/// The live tables by name, and the number that the first has come to.
type Listed = (Vec<String>, u64);

/// A session whose writer updates a table and makes and deletes others, step by step.
struct Changing {
    session: Session,
    table: Table,
    /// What there was after each step.
    states: Vec<Listed>,
}

impl Changing {
    fn new(disk: &Arc<dyn Disk>) -> Changing {
        let options = SessionOptions { log_file_bytes: 3_000, ..options(Log::Written) };
        let session = Session::create(Arc::clone(disk), options).unwrap();
        let table = session.create_table("t", small_table()).unwrap();
        Changing { session, table, states: vec![(vec!["t".to_owned()], 0)] }
    }

    fn step(&mut self) {
        let (mut names, mut number) = self.states.last().unwrap().clone();
        match self.states.len() % 4 {
            1 if names.len() < 4 => {
                let name = format!("more-{}", self.states.len());
                self.session.create_table(&name, small_table()).unwrap();
                names.push(name);
                names.sort();
            }
            1 => self.session.delete_table(&names.remove(0)).unwrap(),
            _ => {
                number += 1;
                self.table.update(&numbered(number)).unwrap();
            }
        }
        self.states.push((names, number));
    }
}

/// What a reader has of several tables was there at one moment, also while tables are made and deleted:
/// the list is not older than what the tables hold.
#[test]
fn tables_that_are_made_and_deleted_beside_a_reader_are_of_the_moment_of_the_others() {
    for steps in [1, 2, 3, 5, 9] {
        for call in 1..25 {
            let raw: Arc<dyn Disk> = MemoryDisk::new();
            let changing = Arc::new(Mutex::new(Changing::new(&raw)));
            (0..7).for_each(|_| changing.lock().unwrap().step());
            let (calls, writer) = (AtomicU64::new(0), Arc::clone(&changing));
            let disk: Arc<dyn Disk> = HookedDisk::new(raw, move |_, _| {
                if calls.fetch_add(1, SeqCst) + 1 == call {
                    (0..steps).for_each(|_| writer.lock().unwrap().step());
                }
            });
            let session = Session::open_read_only(disk, SessionOptions::default()).unwrap();
            let tables = session.open_all(&OpenTable::default()).unwrap();
            let names: Vec<_> = tables.iter().map(|table| table.name().to_owned()).collect();
            let found = (names, number_in(tables.last().unwrap()).unwrap());
            let states = &changing.lock().unwrap().states;
            assert!(states[7..].contains(&found), "{steps} steps at call {call}: {found:?}");
        }
    }
}

const KIND: FileKind = FileKind::Log;

/// Reads an appended file while `act` happens before the `n`-th call of the reader; what it found, and
/// whether there was such a call.
fn scan_beside(
    disk: &Arc<MemoryDisk>,
    n: u64,
    act: impl Fn() + Send + Sync + 'static,
) -> (varvite::Result<Vec<Vec<u8>>>, bool) {
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let hooked = HookedDisk::new(Arc::clone(disk) as Arc<dyn Disk>, move |call, _| {
        if matches!(call, Call::Read | Call::Len) && count.fetch_add(1, SeqCst) + 1 == n {
            act();
        }
    });
    let mut found = Vec::new();
    let scanned = append::open_reader(&*hooked, "log", KIND).and_then(|(file, header)| {
        append::scan(&*file, header.identity, Position::start(), |_, bytes| {
            found.push(bytes.to_vec());
            Ok(())
        })
    });
    (scanned.map(|_| found), calls.load(SeqCst) >= n)
}

/// A file of `count` records, each synced, with zeros ahead of it.
fn appended(disk: &Arc<MemoryDisk>, count: u64) -> AppendFile {
    let _ = disk.remove("log");
    let mut file = AppendFile::create(&**disk, "log", Header::new(KIND, 3, 4)).unwrap();
    for number in 0..count {
        file.push(&vec![number as u8; 100_000]).unwrap();
        file.sync().unwrap();
    }
    file.file().write_at(file.end().offset, &vec![0; 400_000]).unwrap();
    file
}

#[test]
fn a_file_that_grows_into_its_zeros_beneath_a_reader_is_whole() {
    for steps in [1, 2, 4] {
        let disk = MemoryDisk::new();
        for n in 1.. {
            let file = Mutex::new(appended(&disk, 3));
            let (found, was_there) = scan_beside(&disk, n, move || {
                let mut file = file.lock().unwrap();
                for number in 3..3 + steps {
                    file.push(&vec![number as u8; 100_000 / steps as usize]).unwrap();
                    file.sync().unwrap();
                }
            });
            let found = found.unwrap_or_else(|error| panic!("{steps} at call {n}: {error}"));
            let count = found.len() as u64;
            assert!(count >= 3 && count <= 3 + steps, "{steps} at call {n}: {count}");
            assert!((0..).zip(&found).all(|(number, bytes)| bytes[0] == number));
            if !was_there {
                break;
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_beneath_a_reader_breaks_nothing() {
    let disk = MemoryDisk::new();
    let end = appended(&disk, 5).end().offset;
    let step = end / 31;
    for n in 1.. {
        let mut met = false;
        for length in (0..end).step_by(step as usize).chain([40, 59, 60, 61, end - 1]) {
            drop(appended(&disk, 5));
            let raw = Arc::clone(&disk);
            let (found, was_there) = scan_beside(&disk, n, move || {
                let file = raw.open("log", Mode::Write, Access::Buffered).unwrap();
                file.set_len(length).unwrap();
            });
            met |= was_there;
            match found {
                Ok(found) => assert!((0..).zip(&found).all(|(number, it)| it[0] == number)),
                // Records that were synced are gone, which is so.
                Err(error) => assert_eq!(error.kind(), Kind::Corrupt, "{n}, {length}: {error}"),
            }
        }
        if !met {
            break;
        }
    }
}

/// Without a log the number of a segment comes again once what had it was deleted. A reader that has the old one is neither
/// given the new one for it, nor told that a healthy store is damaged.
#[test]
fn numbers_that_come_again_are_two_segments_to_a_reader() {
    let row = |name: &str| {
        let mut batch = Batch::new();
        for number in 0..40_u8 {
            batch.insert(&[number], format!("{name} {number} {:40}", "").as_bytes());
        }
        batch
    };
    let holds = |table: &Table, name: &str| {
        let all = table.listed(Bound::Unbounded, Bound::Unbounded)?;
        let right = |(key, value): &(Vec<u8>, Vec<u8>)| {
            *value == format!("{name} {} {:40}", key[0], "").into_bytes()
        };
        assert!(all.len() == 40 && all.iter().all(right), "{name}: {all:?}");
        varvite::Result::Ok(())
    };
    let blob = |blob_min_bytes| TableOptions { blob_min_bytes, ..small_table() };
    for (max_open_files, options) in [Some(1), None]
        .into_iter()
        .flat_map(|most| [Some(32), None].map(|blob_min_bytes| (most, blob(blob_min_bytes))))
    {
        let memory = MemoryDisk::seeded(1);
        let disk = Arc::clone(&memory) as Arc<dyn Disk>;
        let session = Session::create(Arc::clone(&disk), SessionOptions::default()).unwrap();
        let mut table = session.create_table("t", options).unwrap();
        for name in ["one", "two"] {
            table.update(&row(name)).unwrap();
            let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
            session.save_snapshot(name, content).unwrap();
        }
        drop(table);
        let reading = SessionOptions { max_open_files, ..SessionOptions::default() };
        let reader = Session::open_read_only(Arc::clone(&disk), reading).unwrap();
        let open = |name: &str| reader.open_snapshot(name, &varvite::OpenSnapshot::default());
        let two = open("two").unwrap();
        holds(&two.tables[0], "two").unwrap();
        session.delete_snapshot("two").unwrap();
        session.close().unwrap();
        let before = disk.list("segments").unwrap();
        // What the snapshot "one" needs.
        let kept: Vec<_> = before.iter().map(|name| format!("segments/{name}")).collect();
        let session = Session::open(Arc::clone(&disk), SessionOptions::default()).unwrap();
        let one = session.open_snapshot("one", &varvite::OpenSnapshot::default()).unwrap();
        let mut table = one.tables.into_iter().next().unwrap();
        // What was the number of a blob file may be that of a segment, and the other way round.
        for _ in 0..2 {
            table.update(&row("three")).unwrap();
        }
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("three", content).unwrap();
        assert_ne!(disk.list("segments").unwrap(), before);
        let three = open("three").unwrap();
        holds(&three.tables[0], "three").unwrap();
        let mut told = 0;
        let mut is_told_to_reload = |when: &str| {
            let Err(error) = holds(&two.tables[0], "two") else { return };
            assert_eq!(error.kind(), Kind::Missing, "{when}: {error}");
            assert!(error.to_string().contains("reload") && max_open_files.is_some(), "{error}");
            told += 1;
        };
        is_told_to_reload("written");
        // While they are being written: nothing there yet, a header, much but no footer, half over a spare one.
        let paths = disk.list("segments").unwrap().into_iter();
        let paths: Vec<_> = paths.map(|name| format!("segments/{name}")).collect();
        let whole: Vec<_> = paths.iter().map(|path| memory.bytes(path).unwrap()).collect();
        for length in [0, 4_096, 131_072] {
            for (path, bytes) in paths.iter().zip(&whole).filter(|(path, _)| !kept.contains(path)) {
                let mut bytes = bytes.clone();
                bytes.resize(length, 7);
                memory.replace(path, bytes).unwrap();
            }
            is_told_to_reload(&format!("cut to {length}"));
        }
        for (path, bytes) in paths.iter().zip(whole) {
            memory.replace(path, bytes).unwrap();
        }
        assert!(told > 3 || max_open_files.is_none(), "{told}");
        holds(&open("one").unwrap().tables[0], "one").unwrap();
        holds(&three.tables[0], "three").unwrap();
    }
}

/// Whoever opens one snapshot at the same time shares its files, so that each goes when nothing names it any more, and not before.
#[test]
fn who_opens_a_snapshot_at_once_shares_its_files() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    // Hundreds of segments, so that one opens them while the other looks which are open.
    let few = SessionOptions {
        max_open_files: Some(1),
        segment_bytes: 8_192,
        ..SessionOptions::default()
    };
    let session = Session::create(Arc::clone(&disk), few.clone()).unwrap();
    let mut table = session.create_table("t", small_table()).unwrap();
    for number in 0..400_u64 {
        table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 3_000])).unwrap();
    }
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("a", content).unwrap();
    let all = table.listed(Bound::Unbounded, Bound::Unbounded).unwrap();
    drop(table);
    session.close().unwrap();
    for round in 0..20 {
        let session = Session::open(Arc::clone(&disk), few.clone()).unwrap();
        let open = |name: &str| session.open_snapshot(name, &varvite::OpenSnapshot::default());
        std::thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| open("a").unwrap()));
            for one in both {
                one.join().unwrap();
            }
        });
        let kept = open("a").unwrap();
        session.delete_snapshot("a").unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&kept.tables[0]] };
        session.save_snapshot("a", content).unwrap();
        drop(kept);
        session.close().unwrap();
        let session = Session::open(Arc::clone(&disk), few.clone()).unwrap();
        let found = session.open_snapshot("a", &varvite::OpenSnapshot::default()).unwrap();
        let found = found.tables[0].listed(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert!(found == all, "{round}");
        session.close().unwrap();
    }
}

/// Somebody makes a session, or has begun to, while another looks for one: at no call is that damage.
#[test]
fn a_folder_that_becomes_a_session_meanwhile_is_not_damaged() {
    let whole = MemoryDisk::seeded(1);
    let session =
        Session::create(Arc::clone(&whole) as Arc<dyn Disk>, SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", small_table()).unwrap();
    table.update(Batch::new().insert(b"key", b"value")).unwrap();
    session
        .save_snapshot("a", SnapshotContent { label: "", payload: b"", tables: &[&table] })
        .unwrap();
    drop(table);
    session.close().unwrap();
    let (mut calls, mut found) = (0, 0);
    for (ended, checks) in [(true, false), (false, false), (true, true), (false, true)] {
        for n in 0..=20 {
            let disk = MemoryDisk::seeded(2);
            for folder in ["segments", "snapshots", "log"] {
                disk.create_directory(folder).unwrap();
            }
            let (inner, from) = (Arc::clone(&disk), Arc::clone(&whole));
            let at = AtomicU64::new(0);
            let reader = HookedDisk::new(disk, move |_, _| {
                if at.fetch_add(1, SeqCst) != n {
                    return;
                }
                for path in from.files() {
                    let bytes = from.bytes(&path).unwrap();
                    let is_mark = path == "session" && !ended;
                    inner.replace(if is_mark { "session.tmp" } else { &path }, bytes).unwrap();
                }
            });
            let reader = reader as Arc<dyn Disk>;
            let looked = if checks {
                check(&reader, |_| ControlFlow::Continue(())).map(|report| {
                    assert!(report.findings.is_empty(), "{ended} {n}: {:?}", report.findings);
                })
            } else {
                Session::open_read_only(reader, SessionOptions::default()).map(drop)
            };
            match looked {
                Ok(()) => found += 1,
                Err(error) => assert_eq!(error.kind(), Kind::Missing, "{ended} {n}: {error}"),
            }
            calls += 1;
        }
    }
    assert!(found > 3 && calls > 40, "{found} of {calls}");
}
