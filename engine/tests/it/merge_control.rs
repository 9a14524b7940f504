//! A host that pauses merges, has them done ahead, or ends the session in the middle of one.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, Executor, Kind, OpenSnapshot, Session, SessionOptions, SnapshotContent, Table,
    TableOptions,
};

use crate::listed::Listed;

const BUFFER_BYTES: u64 = 4_000;
/// What an entry of these tests costs.
const COST: u64 = 8 + 70 + 16;

fn session(executor: Option<Arc<dyn Executor>>) -> (Arc<MemoryDisk>, Session) {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions { executor, ..options() };
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    (disk, session)
}

fn options() -> SessionOptions {
    SessionOptions { segment_bytes: 12_288, ..SessionOptions::default() }
}

fn table(session: &Session) -> Table {
    let options = TableOptions { write_buffer_bytes: BUFFER_BYTES, ..TableOptions::default() };
    session.create_table("t", options).unwrap()
}

fn insert(table: &mut Table, numbers: std::ops::Range<u64>) {
    for number in numbers {
        table.update(Batch::new().insert(&number.to_be_bytes(), &[number as u8; 70])).unwrap();
    }
}

fn check(table: &Table, count: u64) {
    assert_eq!(table.view().count().unwrap(), count);
    let keys: Vec<_> = (0..count).map(u64::to_be_bytes).collect();
    for (number, value) in (0..count).zip(table.lookup(&keys).unwrap().iter()) {
        assert_eq!(value, Some(&[number as u8; 70][..]));
    }
}

#[test]
fn paused_updates_merge_nothing_and_are_refused_when_they_hold_too_much() {
    let (_disk, session) = session(None);
    let mut table = table(&session);
    insert(&mut table, 0..1_000);
    let written = session.stats().written_bytes();
    session.pause_merges(3 * BUFFER_BYTES);
    let mut debts = vec![table.stats().unwrap().debt_bytes];
    let mut made = 1_000;
    let error = loop {
        let batch = Batch::new().insert(&u64::to_be_bytes(made), &[made as u8; 70]).clone();
        if let Err(error) = table.update(&batch) {
            break error;
        }
        assert_eq!(table.last_work(), 0);
        made += 1;
        debts.push(table.stats().unwrap().debt_bytes);
        assert!(made < 2_000, "it is refused at some time");
    };
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.detail().contains("resume merges"), "{error}");
    assert_eq!(session.stats().written_bytes(), written);
    let stats = table.stats().unwrap();
    // Two or three sealed buffers, the one that was there included, and an active one that is nearly full.
    let held = stats.buffer_bytes;
    assert!((3 * BUFFER_BYTES..=4 * BUFFER_BYTES + 2 * COST).contains(&held), "{held}");
    assert!(debts.is_sorted() && debts[debts.len() - 1] >= debts[0] + BUFFER_BYTES, "{debts:?}");
    check(&table, made);
    // Worked off in pieces, updates go on; and resumed, nothing is left to do that was paused.
    let mut pieces = 0;
    while table.work(2_000).unwrap() > 0 {
        // An entry more for each merge that this works on.
        assert!(table.last_work() <= 2_000 + 8 * COST, "{}", table.last_work());
        pieces += 1;
    }
    assert!(pieces > 3, "{pieces}");
    insert(&mut table, made..made + 30);
    assert_eq!(table.last_work(), 0);
    assert!(session.merges_are_paused());
    session.resume_merges();
    insert(&mut table, made + 30..3_000);
    check(&table, 3_000);
}

#[test]
fn what_was_paused_is_paid_by_the_next_update_unless_it_was_worked_off() {
    for works in [false, true] {
        let (_disk, session) = session(None);
        let mut table = table(&session);
        insert(&mut table, 0..1_000);
        session.pause_merges(20 * BUFFER_BYTES);
        insert(&mut table, 1_000..1_700);
        assert_eq!(session.union("union", &[&table]).unwrap().view().count().unwrap(), 1_700);
        if works {
            while table.work(5_000).unwrap() > 0 {}
        }
        session.resume_merges();
        insert(&mut table, 1_700..1_701);
        // Buffers gathered in the pause, each written out and merged at most at the bound's rate.
        let paused = 700 * COST + BUFFER_BYTES;
        let work = table.last_work();
        println!("{work} bytes of work after a pause of {paused}, worked off: {works}");
        assert!(if works { work < 3 * BUFFER_BYTES } else { work > BUFFER_BYTES });
        assert!(work <= (3 + 2 + 4) * paused);
        check(&table, 1_701);
    }
}

/// Keeps what it is given until it is asked to do it.
#[derive(Default)]
struct Later(Mutex<Vec<Box<dyn FnOnce() + Send>>>, AtomicU64);

impl Executor for Later {
    fn execute(&self, work: Box<dyn FnOnce() + Send>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.lock().unwrap().push(work);
    }
}

#[test]
fn helpers_rest_while_merges_are_paused() {
    let later = Arc::new(Later::default());
    let (_disk, session) = session(Some(Arc::clone(&later) as _));
    let mut table = table(&session);
    insert(&mut table, 0..60);
    let asked = later.1.load(Ordering::SeqCst);
    assert!(asked > 0, "a write-out is under way");
    session.pause_merges(u64::MAX);
    let written = session.stats().written_bytes();
    let waiting = std::mem::take(&mut *later.0.lock().unwrap());
    for work in waiting {
        work();
    }
    insert(&mut table, 60..400);
    assert_eq!(session.stats().written_bytes(), written);
    assert_eq!(later.1.load(Ordering::SeqCst), asked, "nobody was asked");
    session.resume_merges();
    insert(&mut table, 400..600);
    assert!(later.1.load(Ordering::SeqCst) > asked, "helpers are asked again");
    check(&table, 600);
}

/// The finished segments of the merges of the only table of snapshot `name`.
fn finished(disk: &MemoryDisk, name: &str) -> Vec<u64> {
    let bytes = disk.bytes(&format!("snapshots/{name}.snapshot")).unwrap();
    let manifest = varvite::raw::Manifest::decode(name, &bytes).unwrap();
    let levels = manifest.tables[0].levels.iter();
    let outputs = levels.filter_map(|level| level.merging.as_ref()).filter(|it| !it.done);
    outputs.flat_map(|merging| merging.outputs.iter().map(|segment| segment.id)).collect()
}

#[test]
fn closing_interrupts_merges_and_loses_none_of_their_finished_segments() {
    let (disk, session) = session(None);
    let mut table = table(&session);
    let save = |session: &Session, table: &Table, name: &str| {
        let content = SnapshotContent { label: "", payload: b"", tables: &[table] };
        session.save_snapshot(name, content).unwrap();
    };
    // A merge of the last run, somewhere in its middle.
    let (mut keys, mut before) = (2_000, Vec::new());
    insert(&mut table, 0..keys);
    while before.len() < 4 {
        assert!(keys < 10_000, "no merge was long enough");
        insert(&mut table, keys..keys + 50);
        keys += 50;
        save(&session, &table, "one");
        before = finished(&disk, "one");
        if before.len() < 4 {
            session.delete_snapshot("one").unwrap();
        }
    }
    table.work(20_000).unwrap();
    session.close().unwrap();
    assert_eq!(table.work(1).unwrap_err().kind(), Kind::Closed);
    for round in 0..3 {
        let session = Session::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
        let mut snapshot = session.open_snapshot("one", &OpenSnapshot::default()).unwrap();
        let mut table = snapshot.take("t").unwrap();
        let name = format!("again-{round}");
        save(&session, &table, &name);
        assert_eq!(finished(&disk, &name), before, "the merge goes on from them");
        let debt = table.stats().unwrap().debt_bytes;
        assert_eq!(table.work(u64::MAX).unwrap(), 0);
        // What the reading of the part that was done cost is not paid again, but for a segment of each.
        assert!(table.last_work() <= debt + 6 * 12_288, "{} of {debt}", table.last_work());
        check(&table, keys);
        if round < 2 {
            session.close().unwrap();
        }
    }
}

/// More write buffers wait than fit a number of 16 bits: every key is found behind them, also one of
/// a union that is pending under them.
#[test]
fn lookups_go_through_more_buffers_than_sixteen_bits_count() {
    const BUFFERS: u64 = 65_536 + 50;
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let tiny = TableOptions { write_buffer_bytes: 64, ..TableOptions::default() };
    let mut old = session.create_table("old", tiny.clone()).unwrap();
    old.update(Batch::new().insert(b"oldest", b"1").insert(b"hidden", b"1")).unwrap();
    let other = old.duplicate("other").unwrap();
    let union = session.incremental_union("union", &[&old, &other]).unwrap();
    for mut table in [old, union] {
        session.pause_merges(u64::MAX);
        let mut batch = Batch::new();
        batch.insert(b"hidden", b"2");
        for number in 0..BUFFERS {
            batch.insert(&number.to_be_bytes(), &[7; 64]);
        }
        table.update(&batch).unwrap();
        let edges = [0, 1, 48, 49, 50, 51, 52, BUFFERS - 1, BUFFERS];
        let numbers: Vec<_> = edges.into_iter().map(u64::to_be_bytes).collect();
        let found = table.lookup(&numbers).unwrap();
        for (number, found) in edges.into_iter().zip(found.iter()) {
            assert_eq!(found, (number < BUFFERS).then_some(&[7; 64][..]), "{number}");
        }
        assert_eq!(table.get(b"oldest").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(table.get(b"hidden").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(table.get(b"absent").unwrap(), None);
        let last = (BUFFERS - 1).to_be_bytes();
        let range = table.listed(Bound::Included(&last), Bound::Unbounded).unwrap();
        let keys: Vec<_> = range.iter().map(|(key, _)| &key[..]).collect();
        assert_eq!(keys, [&last[..], b"hidden", b"oldest"]);
        session.resume_merges();
    }
}
