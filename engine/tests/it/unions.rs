//! Unions: what they bind, what they refuse, what they cost on disk, and that none of their work is lost.

use std::ops::Bound;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, Kind, MergeOperator, OpenSnapshot, Session, SessionOptions, SnapshotContent, Table,
    TableOptions,
};

use crate::listed::Listed;

const SEGMENT_BYTES: u64 = 20_000;

fn options() -> SessionOptions {
    SessionOptions { segment_bytes: SEGMENT_BYTES, ..SessionOptions::default() }
}

fn session() -> (Arc<MemoryDisk>, Session) {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
    (disk, session)
}

fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 4_000, ..TableOptions::default() }
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn table(session: &Session, name: &str, keys: impl Iterator<Item = u64>) -> Table {
    let mut table = session.create_table(name, small()).unwrap();
    for number in keys {
        let value = format!("{name} has {number}, {number:0>60}");
        table.update(Batch::new().insert(&key(number), value.as_bytes())).unwrap();
    }
    table
}

fn all(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    table.listed(Bound::Unbounded, Bound::Unbounded).unwrap()
}

fn segments(disk: &MemoryDisk) -> u64 {
    let files = disk.files().into_iter().filter(|name| name.ends_with(".segment"));
    files.map(|name| disk.bytes(&name).unwrap().len() as u64).sum()
}

/// The segments of a table's union that are finished, as its manifest names them.
fn finished(session: &Session, disk: &MemoryDisk, union: &Table) -> Vec<u64> {
    let content = SnapshotContent { label: "", payload: b"", tables: &[union] };
    session.save_snapshot("look", content).unwrap();
    let bytes = disk.bytes("snapshots/look.snapshot").unwrap();
    let manifest = varvite::raw::Manifest::decode("look", &bytes).unwrap();
    session.delete_snapshot("look").unwrap();
    let record = manifest.tables[0].union.as_ref();
    record.map_or(Vec::new(), |union| union.merging.outputs.iter().map(|it| it.id).collect())
}

#[test]
fn three_hundred_tables_become_one() {
    let (_disk, session) = session();
    let tables: Vec<_> = (0..300_u64)
        .map(|number| {
            let mut table = session.create_table(&format!("t{number}"), small()).unwrap();
            let own = number.to_be_bytes();
            let mut batch = Batch::new();
            batch.insert(&own, &own).insert(b"all", &own).insert(b"even", &own);
            if number % 2 == 1 || number < 100 {
                batch.delete(b"even");
            }
            table.update(&batch).unwrap();
            table
        })
        .collect();
    let all_of_them: Vec<_> = tables.iter().collect();
    let mut union = session.incremental_union("union", &all_of_them).unwrap();
    for _ in 0..2 {
        assert_eq!(union.view().count().unwrap(), 302);
        assert_eq!(union.get(b"all").unwrap(), Some(0_u64.to_be_bytes().to_vec()));
        assert_eq!(union.get(b"even").unwrap(), Some(100_u64.to_be_bytes().to_vec()));
        assert_eq!(union.get(&key(299)).unwrap(), Some(key(299).to_vec()));
        union.supply_union_credits(u64::MAX).unwrap();
    }
    assert_eq!(union.stats().unwrap().physical_entries, 302);
}

#[test]
fn what_cannot_be_united_is_refused() {
    let (_disk, session) = session();
    let (_other_disk, other) = self::session();
    let with = |name: &str, operator: Option<MergeOperator>| {
        session.create_table(name, TableOptions { operator, ..small() }).unwrap()
    };
    let (plain, add) = (with("plain", None), with("add", Some(MergeOperator::add_u64())));
    let foreign = table(&other, "foreign", 0..3);
    let refused: [(&str, &[&Table], &str); 5] = [
        ("union", &[], "at least one"),
        ("union", &[&plain, &foreign], "foreign belongs to another session"),
        ("union", &[&plain, &add], "plain is none"),
        ("union", &[&add, &add, &plain], "add is \"add-u64\""),
        ("../union", &[&plain], "name"),
    ];
    for (name, tables, says) in refused {
        let error = session.incremental_union(name, tables).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.detail().contains(says), "{error}");
    }
    session.clone().close().unwrap();
    assert_eq!(session.union("union", &[&plain]).unwrap_err().kind(), Kind::Closed);
}

#[test]
fn a_union_of_too_many_runs_is_refused_until_its_tables_are_finished() {
    let (_disk, session) = session();
    let mut union = table(&session, "t", 0..200);
    let mut unions = 0;
    let error = loop {
        match session.incremental_union("union", &[&union, &union]) {
            Ok(next) => union = next,
            Err(error) => break error,
        }
        unions += 1;
        assert!(unions < 13, "each has twice the runs");
    };
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.detail().contains("supply_union_credits"), "{error}");
    assert!(unions > 6 && union.view().count().unwrap() == 200);
    let debt = union.remaining_union_debt();
    assert!(debt > 0);
    assert_eq!(union.supply_union_credits(0).unwrap(), debt);
    let left = union.supply_union_credits(debt / 2).unwrap();
    assert!(left < debt && left == union.remaining_union_debt(), "{left} of {debt}");
    assert_eq!(union.supply_union_credits(u64::MAX).unwrap(), 0);
    assert_eq!(union.supply_union_credits(7).unwrap(), 0, "nothing is left, whatever is paid");
    let union = session.union("union", &[&union, &union]).unwrap();
    assert_eq!(union.stats().unwrap().physical_entries, 200);
}

#[test]
fn a_union_goes_on_from_its_finished_segments_after_a_reopening() {
    let (disk, session) = session();
    let (left, right) = (table(&session, "a", 0..2_000), table(&session, "b", 1_000..3_000));
    let mut union = session.incremental_union("union", &[&left, &right]).unwrap();
    let expected = all(&union);
    assert_eq!(expected.len(), 3_000);
    let debt = union.remaining_union_debt();
    union.supply_union_credits(debt / 2).unwrap();
    let written = session.stats().merge_written_bytes;
    let before = finished(&session, &disk, &union);
    assert!(before.len() >= 5, "{before:?}");
    let content = SnapshotContent { label: "", payload: b"", tables: &[&union, &left] };
    session.save_snapshot("half", content).unwrap();
    let kept = union.stats().unwrap().merges[0].kept_bytes;
    // More is done after the snapshot, then the session ends in the middle.
    union.supply_union_credits(debt / 4).unwrap();
    let merge = union.stats().unwrap().merges[0];
    assert!(merge.kept_bytes <= merge.spent_bytes, "{merge:?}");
    session.close().unwrap();

    let session = Session::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
    let mut snapshot = session.open_snapshot("half", &OpenSnapshot::default()).unwrap();
    let mut union = snapshot.take("union").unwrap();
    assert_eq!(all(&union), expected);
    let left_over = union.remaining_union_debt();
    let merge = union.stats().unwrap().merges[0];
    assert_eq!((merge.spent_bytes, merge.kept_bytes), (kept, kept), "as it was told before");
    assert!(kept > 0 && merge.debt_bytes - kept == left_over, "{merge:?}");
    assert!(left_over <= debt - debt / 2 + 3 * SEGMENT_BYTES, "{left_over} of {debt}");
    assert_eq!(finished(&session, &disk, &union), before, "finished segments are kept");
    union.supply_union_credits(u64::MAX).unwrap();
    assert_eq!(all(&union), expected);
    let again = session.stats().merge_written_bytes;
    assert!(again < written + 3 * SEGMENT_BYTES, "{written} before, {again} after");
    assert_eq!(snapshot.take("a").unwrap().view().count().unwrap(), 2_000);
}

#[test]
fn a_fork_of_an_unfinished_union_is_independent_and_shares_the_work() {
    let (_disk, session) = session();
    let (left, right) = (table(&session, "a", 0..500), table(&session, "b", 250..750));
    let mut union = session.incremental_union("union", &[&left, &right]).unwrap();
    let debt = union.remaining_union_debt();
    union.supply_union_credits(debt / 3).unwrap();
    let mut fork = union.duplicate("fork").unwrap();
    assert_eq!(fork.remaining_union_debt(), union.remaining_union_debt());
    fork.update(Batch::new().delete(&key(0)).insert(&key(999), b"fork")).unwrap();
    union.update(Batch::new().insert(&key(0), b"union")).unwrap();
    fork.supply_union_credits(u64::MAX).unwrap();
    assert_eq!(union.remaining_union_debt(), 0, "what one pays, both have");
    let written = session.stats().merge_written_bytes;
    union.supply_union_credits(u64::MAX).unwrap();
    assert_eq!(session.stats().merge_written_bytes, written);
    assert_eq!((fork.get(&key(0)).unwrap(), fork.view().count().unwrap()), (None, 750));
    assert_eq!(union.get(&key(0)).unwrap().as_deref(), Some(&b"union"[..]));
    assert_eq!(union.view().count().unwrap(), 750);
    assert_eq!(left.get(&key(0)).unwrap().map(|value| value.len()), Some(69));
}

#[test]
fn deletes_above_a_pending_union_are_kept_until_it_is_done() {
    let (_disk, session) = session();
    let (left, right) = (table(&session, "a", 0..400), table(&session, "b", 200..600));
    let steep = TableOptions { write_buffer_bytes: 500, size_ratio: 2, ..TableOptions::default() };
    let options = session.create_table("empty", steep).unwrap();
    let mut union = session.incremental_union("union", &[&left, &right, &options]).unwrap();
    drop((left, right, options));
    // Enough for several levels of its own while it is pending, then beyond.
    let (mut pending, mut levels) = (0, 0);
    for round in 0..60 {
        let mut batch = Batch::new();
        for number in round * 9..round * 9 + 9 {
            batch.delete(&key(number)).delete(&key(number + 10_000));
        }
        union.update(&batch).unwrap();
        assert_eq!(union.view().count().unwrap(), 600 - (round + 1) * 9);
        pending += u64::from(union.remaining_union_debt() > 0);
        levels = levels.max(union.stats().unwrap().levels.len());
    }
    assert!(pending > 30 && levels >= 4, "{pending} {levels}");
    union.work(u64::MAX).unwrap();
    assert_eq!(union.remaining_union_debt(), 0);
    for number in 1_000..1_200 {
        union.update(Batch::new().insert(&key(number), b"late").delete(&key(number))).unwrap();
        assert_eq!(union.view().count().unwrap(), 60);
    }
    assert_eq!(all(&union).first().map(|(key, _)| key.clone()), Some(key(540).to_vec()));
}

#[test]
fn a_union_holds_no_more_than_what_it_has_not_passed() {
    let (disk, session) = session();
    let (left, right) = (table(&session, "a", 0..3_000), table(&session, "b", 1_500..4_500));
    let mut union = session.incremental_union("union", &[&left, &right]).unwrap();
    let expected = all(&union);
    drop((left, right));
    // Spare files are not counted: what nothing holds is written over.
    let held = |union: &Table| union.stats().unwrap().disk_bytes;
    let (debt, inputs) = (union.remaining_union_debt(), held(&union));
    assert!(inputs <= segments(&disk));
    let mut most = 0;
    while union.remaining_union_debt() > 0 {
        union.supply_union_credits(debt / 50).unwrap();
        most = most.max(held(&union));
    }
    // Beyond the data itself: of each run one segment not yet passed.
    let slack = 14 * (SEGMENT_BYTES + 8_192);
    println!("{inputs} bytes of inputs, at most {most}, {} at the end", held(&union));
    assert!(most <= inputs + slack, "{most} bytes, {inputs} before");
    assert!(held(&union) < inputs && all(&union) == expected);
    drop(union);
    session.close().unwrap();
    assert_eq!(segments(&disk), 0);
}

#[test]
fn a_lookup_in_an_unfinished_union_reads_what_it_would_in_every_table() {
    let (_disk, session) = session();
    let tables: Vec<_> = (0..8_u64)
        .map(|number| {
            let name = format!("t{number}");
            table(&session, &name, (0..200).map(|it| it * 8 + number))
        })
        .collect();
    let tables: Vec<_> = tables.iter().collect();
    let mut union = session.incremental_union("union", &tables).unwrap();
    let keys: Vec<_> = (0..1_600).map(key).collect();
    let mut reads = || {
        let before = session.stats().pages_read;
        assert!(union.lookup(&keys).unwrap().iter().all(|value| value.is_some()));
        let reads = session.stats().pages_read - before;
        union.supply_union_credits(u64::MAX).unwrap();
        reads
    };
    let (pending, complete) = (reads(), reads());
    // Filters keep all but a few false positives away from the tables without the key.
    println!("{pending} pages for 1,600 keys while it is pending, {complete} afterwards");
    assert!(pending < 1_600 + 200 && complete <= 1_600, "{pending} {complete}");
}

/// A manifest records at most 4,096 runs of a union.
#[test]
fn a_union_takes_as_many_runs_as_can_be_recorded_and_no_more() {
    const MOST: u64 = 4_096;
    let (_disk, session) = session();
    let table = |number: u64| {
        let mut table = session.create_table(&format!("t{number}"), small()).unwrap();
        table.update(Batch::new().insert(&key(number), b"1")).unwrap();
        table
    };
    let tables: Vec<_> = (0..=MOST).map(table).collect();
    let all_of_them: Vec<_> = tables.iter().collect();
    let refused = session.incremental_union("union", &all_of_them).unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
    let mut union = session.incremental_union("union", &all_of_them[1..]).unwrap();
    let edges = [0, 1, 2, MOST - 1, MOST];
    let check = |union: &Table| {
        let found = union.lookup(&edges.map(key)).unwrap();
        let found: Vec<_> = found.iter().map(|value| value.is_some()).collect();
        assert_eq!(found, [false, true, true, true, true]);
    };
    check(&union);
    let content = SnapshotContent { label: "", payload: b"", tables: &[&union] };
    session.save_snapshot("pending", content).unwrap();
    let pending = session.open_snapshot("pending", &OpenSnapshot::default()).unwrap();
    check(&pending.tables[0]);
    while union.remaining_union_debt() > 0 {
        union.supply_union_credits(1 << 20).unwrap();
    }
    check(&union);
}
