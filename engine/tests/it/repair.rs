//! Damaged stores made anew: what is sound is kept as it was, what was lost is told, and the result is sound.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use crate::listed::Listed;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::raw::format::header::Header;
use varvite::raw::{Footer, PAGE_BYTES};
use varvite::table::check::{Finding, check};
use varvite::table::repair::{RepairOptions, Repaired, repair};
use varvite::{
    Batch, Error, Kind, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent,
    Table, TableOptions, Verify,
};

use crate::log_crash::{ACTS, Act, BLOB_ACTS, Live, Tale, equal, options};
use crate::model::table as model;
use crate::story::{self, SETUP, Story};

fn shared(disk: &Arc<MemoryDisk>) -> Arc<dyn Disk> {
    Arc::clone(disk) as Arc<dyn Disk>
}

fn findings(disk: &Arc<dyn Disk>) -> Vec<Finding> {
    check(disk, |_| ControlFlow::Continue(())).unwrap().findings
}

fn repaired(
    source: &Arc<MemoryDisk>,
    skip_damaged: bool,
) -> Result<(Arc<dyn Disk>, Repaired), Error> {
    let before = source.snapshot();
    let out: Arc<dyn Disk> = MemoryDisk::seeded(5);
    let options = RepairOptions { skip_damaged, ..RepairOptions::default() };
    let report = repair(&shared(source), &out, &options)?;
    for name in before.files() {
        assert!(source.bytes(&name).unwrap() == before.bytes(&name).unwrap(), "{name} was changed");
    }
    let checked = check(&out, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((checked.findings, checked.unreferenced), (Vec::new(), 0), "{report:?}");
    Ok((out, report))
}

/// Each way to damage a file: removed, cut at some places, one bit flipped at some.
fn damages(bytes: &[u8], count: usize) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found = vec![("removed".to_owned(), None)];
    for at in (0..bytes.len()).step_by(bytes.len().div_ceil(count).max(1)) {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (at % 8);
        found.push((format!("a bit at {at} flipped"), Some(flipped)));
        found.push((format!("cut to {at}"), Some(bytes[..at].to_vec())));
    }
    found
}

/// A told tale, left as by a crash, and what each of its tables was after each act.
fn told(acts: &[Act]) -> (Arc<MemoryDisk>, Live, BTreeMap<String, Vec<model::Table>>) {
    let disk = MemoryDisk::seeded(1);
    let mut tale = Tale::on(shared(&disk), Log::Synced);
    let mut states: BTreeMap<String, Vec<model::Table>> = BTreeMap::new();
    for act in &acts[..acts.len() - 1] {
        tale.act(*act).unwrap();
        for (name, table) in &tale.live {
            states.entry(name.clone()).or_default().push(table.clone());
        }
    }
    let live = tale.live.clone();
    (disk, live, states)
}

#[test]
fn a_sound_store_is_kept_whole() {
    for acts in [ACTS, BLOB_ACTS] {
        let (disk, live, _) = told(acts);
        let (out, report) = repaired(&disk, false).unwrap();
        assert!(report.losses.is_empty() && !report.session_was_lost, "{report:?}");
        assert_eq!(report.snapshots, ["one"]);
        assert!(report.live_tables.iter().all(|table| table.is_whole), "{report:?}");
        crate::log_crash::assert_reopens(&out, Log::Synced, &[&live], &"repaired");
    }
}

#[test]
fn each_damaged_or_lost_file_of_live_tables_costs_what_it_held_and_no_more() {
    let (mut whole, mut cut, mut left_out, mut none, mut halves) = (0_u64, 0, 0, 0, 0);
    for acts in [ACTS, BLOB_ACTS] {
        let (sound, live, states) = told(acts);
        for name in sound.files() {
            if name == "lock" || name.contains(".saved") {
                continue;
            }
            for (what, bytes) in damages(&sound.bytes(&name).unwrap(), 14) {
                let disk = sound.snapshot();
                match bytes {
                    Some(bytes) => disk.replace(&name, bytes).unwrap(),
                    None => disk.remove(&name).unwrap(),
                }
                let what = format!("{name} {what}");
                let found = findings(&shared(&disk));
                let (out, report) =
                    repaired(&disk, false).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(
                    report.session_was_lost,
                    name == "session" && !found.is_empty(),
                    "{what}"
                );
                let session =
                    Session::open_read_only(Arc::clone(&out), options(Log::None)).unwrap();
                let tables = session.open_all(&crate::log_crash::opening()).unwrap();
                let there: BTreeSet<_> = tables.iter().map(Table::name).collect();
                // Segments and blob files that tables need, not through the log, take these tables.
                let told = |name: &str, file: &str| {
                    report.losses.iter().any(|loss| {
                        loss.file.starts_with(file) && loss.live_tables.iter().any(|it| it == name)
                    })
                };
                let knows_tables = name != "checkpoint" || found.is_empty();
                for (table_name, expected) in &live {
                    if !there.contains(table_name.as_str()) {
                        let is_told = told(table_name, "segments/") || !knows_tables;
                        assert!(
                            is_told && !report.losses.is_empty(),
                            "{what}: {table_name} {report:?}"
                        );
                        *(if knows_tables { &mut left_out } else { &mut none }) += 1;
                        continue;
                    }
                    let table = tables.iter().find(|table| table.name() == table_name).unwrap();
                    let repaired =
                        report.live_tables.iter().find(|it| it.name == *table_name).unwrap();
                    if found.is_empty() || repaired.is_whole {
                        let is_last = equal(table, expected).unwrap();
                        // A last record that is lost, and nothing else, looks as if it never was.
                        let may_lack = name.starts_with("log/") && found.is_empty();
                        assert!(
                            is_last || may_lack,
                            "{what}: {table_name} is not whole {report:?}"
                        );
                        whole += 1;
                    } else {
                        assert!(!report.losses.is_empty(), "{what}");
                        cut += 1;
                    }
                    let was = states[table_name].iter().any(|state| equal(table, state).unwrap());
                    let is_half = repaired.ends_within_update;
                    halves += u64::from(is_half);
                    assert!(was || is_half, "{what}: {table_name} is a state that never was");
                }
                let keeps = report.snapshots == ["one"];
                let is_told = report.losses.iter().any(|loss| loss.snapshots == ["one"]);
                // A manifest that is not there looks like that of a snapshot that was deleted.
                let is_gone = what == "snapshots/one.snapshot removed";
                assert!((keeps != is_told) != is_gone, "{what}: {report:?}");
            }
        }
    }
    println!(
        "{whole} whole, {cut} cut, {halves} in an update, {left_out} left out, {none} unknown"
    );
    assert!(halves < cut && whole > 300 && cut > 50 && left_out > 50 && none > 20);
}

/// Filters follow from the entries: a segment with damage in nothing else costs no entry.
#[test]
fn damaged_filters_are_made_anew() {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(shared(&disk), SessionOptions::default()).unwrap();
    // With a blob file, and with a value that has overflow pages.
    let table_options = TableOptions { blob_min_bytes: Some(9_000), ..TableOptions::default() };
    let mut table = session.create_table("t", table_options).unwrap();
    for number in 0..500_u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let length = [20, 6_000, 9_500][usize::from(number == 50) + 2 * usize::from(number == 60)];
        table.update(Batch::new().insert(&key, &vec![number as u8; length])).unwrap();
    }
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("one", content).unwrap();
    drop(table);
    session.close().unwrap();
    let content = |disk: &Arc<dyn Disk>| {
        let session = Session::open_read_only(Arc::clone(disk), SessionOptions::default()).unwrap();
        let opening = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
        let table = session.open_snapshot("one", &opening).unwrap().take("t").unwrap();
        table.iter().collect::<Result<Vec<_>, _>>().unwrap()
    };
    let before = content(&shared(&disk));
    let name = disk.files().into_iter().find(|name| name.ends_with(".segment")).unwrap();
    let good = disk.bytes(&name).unwrap();
    let header = Header::decode("f", &good).unwrap();
    let (pages, last) = ((good.len() / PAGE_BYTES) as u32, &good[good.len() - PAGE_BYTES..]);
    let footer = Footer::decode("f", header.identity, pages, last).unwrap();
    let (page, _) = footer.range_filter().unwrap();
    for (at, keeps) in [(footer.filter_page, true), (page, true), (1, false)] {
        let mut bytes = good.clone();
        bytes[at as usize * PAGE_BYTES + 50] ^= 4;
        disk.replace(&name, bytes).unwrap();
        let (out, report) = repaired(&disk, false).unwrap();
        assert_eq!(report.losses.is_empty(), keeps, "page {at}: {report:?}");
        assert_eq!(report.filters_made_anew.len(), usize::from(keeps), "page {at}: {report:?}");
        if keeps {
            assert!(report.filters_made_anew[0].0 == name && content(&out) == before);
        }
    }
}

#[test]
fn the_log_is_kept_up_to_its_first_bad_record() {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions { seed: Some(3), log: Log::Synced, ..SessionOptions::default() };
    let session = Session::create(shared(&disk), options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let log = disk.files().into_iter().find(|name| name.starts_with("log/")).unwrap();
    let mut images = Vec::new();
    for round in 0..10_u8 {
        images.push(disk.bytes(&log).unwrap());
        table.update(Batch::new().insert(&[round], &[round; 20])).unwrap();
    }
    drop((table, session));
    let last = disk.bytes(&log).unwrap();
    for (round, before) in images.iter().enumerate().take(9).skip(1) {
        // The first byte that this update changed is the head of its record.
        let at =
            (0..last.len()).find(|at| before.get(*at).copied().unwrap_or(0) != last[*at]).unwrap();
        for (byte, behind) in [(at, 9 - round), (at + 30, 10 - round)] {
            let damaged = disk.snapshot();
            let mut bytes = last.clone();
            bytes[byte] ^= 4;
            damaged.replace(&log, bytes).unwrap();
            let (out, report) = repaired(&damaged, false).unwrap();
            let table = &report.live_tables[0];
            assert_eq!((table.log_records, table.is_whole), (round as u64, false), "{report:?}");
            assert_eq!(report.log_records_behind, behind as u64, "{round} {report:?}");
            let session = Session::open(out, crate::log_crash::options(Log::Synced)).unwrap();
            let mut table = session.open_table("t", &OpenTable::default()).unwrap();
            let found = table.listed(Bound::Unbounded, Bound::Unbounded).unwrap();
            let expected: Vec<_> = (0..round as u8).map(|it| (vec![it], vec![it; 20])).collect();
            assert_eq!(found, expected);
            table.update(Batch::new().insert(b"goes on", b"")).unwrap();
        }
    }
}

/// The story's snapshots, with merges and unions under way.
fn story_store() -> (Arc<MemoryDisk>, Story) {
    let disk = MemoryDisk::seeded(1);
    let mut story = Story::new(shared(&disk));
    for act in story::ACTS {
        story.act(*act).unwrap();
        if matches!(act, story::Act::Save("four", _)) {
            break;
        }
    }
    (disk, story)
}

#[test]
fn without_damaged_segments_all_other_keys_are_as_they_were() {
    let (sound, story) = story_store();
    let (mut kept, mut merged) = (0, 0);
    for name in sound.files().into_iter().filter(|name| name.starts_with("segments/")) {
        for is_removed in [false, true] {
            let disk = sound.snapshot();
            let mut bytes = sound.bytes(&name).unwrap();
            let middle = 4_096 + bytes.len() % 64;
            bytes[middle] ^= 1;
            if is_removed {
                disk.remove(&name).unwrap();
            } else {
                disk.replace(&name, bytes).unwrap();
            }
            let found = findings(&shared(&disk));
            let lost: BTreeSet<_> = found.iter().flat_map(|it| it.snapshots.clone()).collect();
            // Without leave, a snapshot is whole or left out.
            let (_, report) = repaired(&disk, false).unwrap();
            let there: BTreeSet<_> = report.snapshots.iter().cloned().collect();
            assert!(there.is_disjoint(&lost), "{name}: {report:?}");
            assert_eq!(there.len() + lost.len(), story.saved.len(), "{name}: {report:?}");
            let (out, report) = repaired(&disk, true).unwrap();
            assert_eq!(report.snapshots.len(), story.saved.len(), "{name}: {report:?}");
            let session = Session::open(out, story::options()).unwrap();
            for (snapshot, saved) in &story.saved {
                let is_of = |loss: &&varvite::table::repair::Loss| {
                    loss.snapshots.iter().any(|it| it == snapshot)
                };
                let spans: Vec<_> = report.losses.iter().filter(is_of).collect();
                let is_lost = |key: &[u8]| {
                    spans
                        .iter()
                        .filter_map(|loss| loss.keys.as_ref())
                        .any(|(first, last)| (&first[..]..=&last[..]).contains(&key))
                };
                let opened =
                    session.open_snapshot(snapshot, &story::opening(Verify::Full)).unwrap();
                for (mut table, (_, model)) in opened.tables.into_iter().zip(&saved.tables) {
                    let sound = |all: Vec<(Vec<u8>, Vec<u8>)>| {
                        all.into_iter().filter(|(key, _)| !is_lost(key)).collect::<Vec<_>>()
                    };
                    let expected = sound(model.range(Bound::Unbounded, Bound::Unbounded));
                    for _ in 0..2 {
                        let all = table.listed(Bound::Unbounded, Bound::Unbounded).unwrap();
                        assert_eq!(sound(all), expected, "{name}, {snapshot}, {is_removed}");
                        // Merges go on to their ends.
                        table.work(u64::MAX).unwrap();
                        merged += 1;
                    }
                    for seed in 0..6 {
                        table.update(&model::batch(&SETUP.changes(seed, 40))).unwrap();
                    }
                }
                kept += usize::from(!spans.is_empty());
            }
        }
    }
    assert!(kept > 10 && merged > 100, "{kept} {merged}");
}

#[test]
fn a_repair_that_is_cut_short_is_nothing_and_may_be_begun_again() {
    let (disk, live, _) = told(BLOB_ACTS);
    disk.remove("session").unwrap();
    let source = shared(&disk);
    let (mut n, mut none, mut there) = (0, 0, 0);
    loop {
        n += 1;
        let sim = SimDisk::new(3);
        sim.kill_at(n);
        let target = Arc::clone(&sim) as Arc<dyn Disk>;
        let outcome = repair(&source, &target, &RepairOptions::default());
        if !sim.is_dead() {
            outcome.unwrap();
            break;
        }
        for (crash, image) in sim.crash_images(3, 3) {
            let what = (n, crash);
            let image = image as Arc<dyn Disk>;
            match Session::open_read_only(Arc::clone(&image), options(Log::None)) {
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Missing, "{what:?}: {error}");
                    repair(&source, &image, &RepairOptions::default()).unwrap();
                    none += 1;
                }
                Ok(_) => there += 1,
            }
            crate::log_crash::assert_reopens(&image, Log::Synced, &[&live], &what);
        }
    }
    assert!(n > 20 && none > 40 && there > 0, "{n} {none} {there}");
    for fault in Fault::ALL {
        for n in 1..200 {
            let sim = SimDisk::new(3);
            sim.fail_at(n, fault);
            let target = Arc::clone(&sim) as Arc<dyn Disk>;
            let outcome = repair(&source, &target, &RepairOptions::default());
            sim.disarm();
            if sim.calls().of(fault) < n {
                break;
            }
            if outcome.is_err() {
                repair(&source, &target, &RepairOptions::default()).unwrap();
            }
            crate::log_crash::assert_reopens(&target, Log::Synced, &[&live], &(fault, n));
        }
    }
}

#[test]
fn where_nothing_says_what_was_in_a_store_nothing_is_made() {
    let (disk, _, _) = told(ACTS);
    for name in ["session", "checkpoint", "snapshots/one.snapshot"] {
        disk.remove(name).unwrap();
    }
    let out: Arc<dyn Disk> = MemoryDisk::seeded(5);
    let error = repair(&shared(&disk), &out, &RepairOptions::default()).unwrap_err();
    assert!([Kind::Corrupt, Kind::Missing].contains(&error.kind()), "{error}");
    assert_eq!(out.list("").unwrap(), Vec::<String>::new());
    // Nor over anything.
    let (disk, _, _) = told(ACTS);
    let taken = Session::create(Arc::clone(&out), options(Log::None)).unwrap();
    drop(taken);
    let error = repair(&shared(&disk), &out, &RepairOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Exists, "{error}");
}

#[test]
fn a_full_target_is_not_told_as_a_disk_that_does_not_answer() {
    let (source, _) = story_store();
    let source = shared(&source);
    let target = SimDisk::new(3);
    target.capacity(Some(20_000));
    let out = Arc::clone(&target) as Arc<dyn Disk>;
    let error = repair(&source, &out, &RepairOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert!(error.detail().contains("free some space"), "{error}");
    assert!(!error.detail().contains("does not answer"), "{error}");
    target.capacity(None);
    let report = repair(&source, &out, &RepairOptions::default()).unwrap();
    assert!(report.losses.is_empty());
}
