//! A snapshot on its way: a crash or a failing call leaves a whole export or none, and a damaged export is
//! refused with nothing left behind.

use std::sync::Arc;

use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::{Batch, Kind, Session, SessionOptions, SnapshotContent, Table, TableOptions, Verify};

use crate::hooked_disk::{Call, HookedDisk};
use crate::story::{ACTS, Act, Story, assert_reopens, equal, opening, options};

/// A session in memory with the story's snapshots "three" and "four", which have merges under way.
fn source() -> (Arc<dyn Disk>, Story) {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut story = Story::new(Arc::clone(&disk));
    for act in ACTS {
        story.act(*act).unwrap();
        if matches!(act, Act::Save("four", _)) {
            break;
        }
    }
    story.saved.retain(|name, _| *name == "four");
    (disk, story)
}

fn reader(disk: &Arc<dyn Disk>) -> Session {
    Session::open_read_only(Arc::clone(disk), options()).unwrap()
}

#[test]
fn a_crash_leaves_a_whole_export_or_a_folder_to_export_to_again() {
    let (disk, story) = source();
    let session = reader(&disk);
    let (mut before, mut after, mut n) = (0, 0, 0);
    loop {
        n += 1;
        let sim = SimDisk::new(3);
        sim.kill_at(n);
        let target = Arc::clone(&sim) as Arc<dyn Disk>;
        let outcome = session.export_snapshot("four", &target, Verify::Full);
        if !sim.is_dead() {
            outcome.unwrap();
            break;
        }
        for (crash, image) in sim.crash_images(3, 6) {
            let image = image as Arc<dyn Disk>;
            match Session::open_read_only(Arc::clone(&image), options()) {
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Missing, "{n} {crash:?}: {error}");
                    session.export_snapshot("four", &image, Verify::Quick).unwrap();
                    before += 1;
                }
                Ok(_) => after += 1,
            }
            assert_reopens(&image, &[&story.saved], &(n, crash));
        }
    }
    assert!(n > 20 && before > 20 && after > 0, "{n} calls: {before} before, {after} after");
}

#[test]
fn a_failing_call_leaves_nothing_of_an_export() {
    let (disk, story) = source();
    let session = reader(&disk);
    let mut failed = 0;
    for fault in Fault::ALL {
        for n in 1..60 {
            let sim = SimDisk::new(3);
            sim.fail_at(n, fault);
            let target = Arc::clone(&sim) as Arc<dyn Disk>;
            if let Err(error) = session.export_snapshot("four", &target, Verify::Quick) {
                assert_eq!(error.kind(), Kind::Io, "{fault:?} {n}: {error}");
                let left = target.list("segments").unwrap_or_default();
                assert!(left.is_empty(), "{fault:?} {n}: {left:?}");
                assert!(!target.exists("session").unwrap(), "{fault:?} {n}");
                session.export_snapshot("four", &target, Verify::Quick).unwrap();
                failed += 1;
            }
            if sim.calls().of(fault) < n {
                break;
            }
            assert_reopens(&target, &[&story.saved], &(fault, n));
        }
    }
    assert!(failed > 30, "{failed}");
}

/// What somebody puts where the file `session` would be stays, if that does not get its name.
#[test]
fn a_failing_export_takes_nothing_of_anybody_else() {
    let (disk, _) = source();
    let session = reader(&disk);
    let sim = SimDisk::new(3);
    let inner = Arc::clone(&sim);
    let target = HookedDisk::new(Arc::clone(&sim) as Arc<dyn Disk>, move |call, path| {
        if call == Call::Rename && path == "session.tmp" {
            let file = inner.open("session", Mode::Create, Access::Buffered).unwrap();
            file.write_at(0, b"mine").unwrap();
            inner.fail_at(1, Fault::Rename);
        }
    });
    let target = target as Arc<dyn Disk>;
    let error = session.export_snapshot("four", &target, Verify::Quick).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert_eq!(sim.bytes("session").unwrap(), b"mine");
    assert!(sim.list("segments").unwrap().is_empty());
}

#[test]
fn a_damaged_export_is_refused_and_leaves_nothing() {
    let (disk, story) = source();
    let (mut detected, mut harmless) = (0, 0);
    let parcel = MemoryDisk::seeded(1);
    reader(&disk).export_snapshot("four", &(Arc::clone(&parcel) as _), Verify::Quick).unwrap();
    let target: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let session = Session::create(Arc::clone(&target), SessionOptions::default()).unwrap();
    let files: Vec<_> = parcel.files().into_iter().filter(|name| name != "lock").collect();
    assert!(files.len() > 4, "{files:?}");
    for name in &files {
        let whole = parcel.bytes(name).unwrap();
        for (at, cut) in
            (0..whole.len()).step_by(whole.len().div_ceil(40)).zip([false, true].iter().cycle())
        {
            let mut bytes = whole.clone();
            if *cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << (at % 8);
            }
            parcel.replace(name, &bytes[..]).unwrap();
            let source = Arc::clone(&parcel) as Arc<dyn Disk>;
            let outcome = session.import_snapshot(&source, "four", "four", Verify::Full);
            let Err(error) = outcome else {
                // Bytes that mean nothing, behind an index: what there is to say is still right.
                let snapshot = session.open_snapshot("four", &opening(Verify::Full)).unwrap();
                for (table, (_, model)) in snapshot.tables.iter().zip(&story.saved["four"].tables) {
                    equal(&table.view(), model).unwrap();
                }
                drop(snapshot);
                session.delete_snapshot("four").unwrap();
                harmless += 1;
                continue;
            };
            detected += 1;
            let kind = error.kind();
            let right = [Kind::Corrupt, Kind::Version, Kind::Invalid].contains(&kind);
            assert!(right, "{name} at {at}: {kind:?}");
            assert!(target.list("segments").unwrap().is_empty(), "{name} at {at}");
            let left = target.list("snapshots").unwrap();
            assert!(left.iter().all(|name| name.contains(".saved")), "{name} at {at}: {left:?}");
        }
        parcel.replace(name, &whole[..]).unwrap();
        parcel.remove(name).unwrap();
        let source = Arc::clone(&parcel) as Arc<dyn Disk>;
        let outcome = session.import_snapshot(&source, "four", "four", Verify::Quick);
        // Without them what is there contradicts itself; without a manifest there is no such snapshot.
        let is_damage = name.starts_with("segments/") || name == "session";
        let kind = if is_damage { Kind::Corrupt } else { Kind::Missing };
        assert_eq!(outcome.unwrap_err().kind(), kind, "{name}");
        parcel.replace(name, &whole[..]).unwrap();
    }
    assert!(detected > 3 * harmless, "{detected} detected, {harmless} harmless");
    let source = Arc::clone(&parcel) as Arc<dyn Disk>;
    session.import_snapshot(&source, "four", "four", Verify::Full).unwrap();
    session.open_snapshot("four", &opening(Verify::Full)).unwrap();
}

/// Between two folders of one file system nothing is copied, and each side may go without the other.
#[test]
fn folders_of_one_file_system_share_blocks() {
    let (disk, story) = source();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| OsDisk::create(folder.path().join(name)).unwrap() as Arc<dyn Disk>;
    let (first, second, third) = (at("first"), at("second"), at("third"));
    reader(&disk).export_snapshot("four", &first, Verify::Full).unwrap();
    let moved = reader(&first).export_snapshot("four", &second, Verify::Full).unwrap();
    assert_eq!(moved.copied_bytes, 0);
    let session = Session::create(Arc::clone(&third), options()).unwrap();
    for name in ["one", "two"] {
        let moved = session.import_snapshot(&second, "four", name, Verify::Quick).unwrap();
        assert_eq!(moved.copied_bytes, 0);
    }
    session.delete_snapshot("one").unwrap();
    let kept = session.open_snapshot("two", &opening(Verify::Full)).unwrap();
    let names: Vec<_> = kept.tables.iter().map(Table::name).collect();
    assert_eq!(names.len(), story.saved["four"].tables.len());
    drop(kept);
    session.close().unwrap();
    assert_reopens(&first, &[&story.saved], &"first");
    assert_reopens(&second, &[&story.saved], &"second");
}

/// Header, footer and length of a blob file are looked at also where not every byte is.
#[test]
fn a_blob_file_that_was_cut_or_exchanged_is_refused_at_once() {
    let parcel = |byte: u8| {
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(u64::from(byte));
        let options = SessionOptions { seed: Some(u64::from(byte)), ..SessionOptions::default() };
        let session = Session::create(disk, options).unwrap();
        let options = TableOptions { blob_min_bytes: Some(100), ..TableOptions::default() };
        let mut table = session.create_table("t", options).unwrap();
        table.update(Batch::new().insert(b"long", &vec![byte; 20_000])).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("s", content).unwrap();
        let parcel = MemoryDisk::seeded(9);
        session.export_snapshot("s", &(Arc::clone(&parcel) as _), Verify::Full).unwrap();
        parcel
    };
    let is_blob = |name: &String| name.rsplit_once('.').is_some_and(|(_, kind)| kind == "blob");
    let (sound, other) = (parcel(1), parcel(2));
    let [name, others] = [&sound, &other].map(|it| it.files().into_iter().find(is_blob).unwrap());
    let whole = sound.bytes(&name).unwrap();
    let flipped = |place: usize| {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        bytes
    };
    let cut = whole[..whole.len() - 4_096].to_vec();
    let ways = [Vec::new(), cut, other.bytes(&others).unwrap(), flipped(30)];
    let target: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let session = Session::create(Arc::clone(&target), SessionOptions::default()).unwrap();
    for (number, way) in ways.into_iter().enumerate() {
        let source = sound.snapshot();
        source.replace(&name, way).unwrap();
        let source = source as Arc<dyn Disk>;
        let error = session.import_snapshot(&source, "s", "s", Verify::Quick).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{number}: {error}");
        assert!(target.list("segments").unwrap().is_empty(), "{number}");
    }
    session.import_snapshot(&(sound as _), "s", "s", Verify::Quick).unwrap();
}
