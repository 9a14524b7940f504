//! Tables of more files than may be open at a time: the same answers, on every disk, by many threads, beside
//! another process, through failing calls; and what is opened again is what it was.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::{
    Batch, Kind, OpenSnapshot, Result, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify,
};

use crate::hooked_disk::{Call, HookedDisk};

const KEYS: u64 = 1_000;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(most: usize) -> SessionOptions {
    SessionOptions { max_open_files: Some(most), segment_bytes: 16 << 10, ..Default::default() }
}

fn small() -> TableOptions {
    TableOptions {
        write_buffer_bytes: 10_000,
        size_ratio: 2,
        blob_min_bytes: Some(300),
        ..TableOptions::default()
    }
}

fn key(number: u64) -> Vec<u8> {
    (number * 919 % KEYS).to_be_bytes().to_vec()
}

fn change(table: &mut Table, model: &mut Model, from: u64, to: u64) -> Result<()> {
    for number in (from..to).step_by(20) {
        let mut batch = Batch::new();
        for number in number..(number + 20).min(to) {
            let length = if number.is_multiple_of(9) { 400 } else { 60 };
            let value = number.to_be_bytes().repeat(length / 8);
            batch.insert(&key(number), &value);
            model.insert(key(number), value);
        }
        table.update(&batch)?;
    }
    Ok(())
}

fn save(session: &Session, table: &Table, name: &str) -> Result<()> {
    session.save_snapshot(name, SnapshotContent { label: "", payload: b"", tables: &[table] })
}

/// Looks at every key, in batches of many files, and goes through all entries both ways.
fn compare(table: &Table, model: &Model) -> Result<()> {
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    for keys in keys.chunks(500) {
        let values = table.lookup(keys)?;
        for (place, key) in keys.iter().enumerate() {
            assert_eq!(values.get(place), model.get(key).map(Vec::as_slice));
        }
    }
    let mut cursor = table.view().cursor(Unbounded, Unbounded)?;
    let mut found = 0;
    while let Some((key, value)) = cursor.next()? {
        assert_eq!(model.get(key).map(Vec::as_slice), Some(value));
        found += 1;
    }
    assert_eq!(found, model.len());
    Ok(())
}

/// Descriptors of this process on files of tables below `folder`.
#[cfg(target_os = "linux")]
fn descriptors(folder: &std::path::Path) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let in_folder = |to: std::path::PathBuf| to.starts_with(folder.join("segments"));
    all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(in_folder)).count()
}

fn story(disk: &Arc<dyn Disk>, most: usize, look: impl Fn()) -> Result<()> {
    let session = Session::create(Arc::clone(disk), options(most))?;
    let (mut table, mut model) = (session.create_table("t", small())?, Model::new());
    for round in 0..3 {
        change(&mut table, &mut model, round * 600, (round + 1) * 600)?;
        look();
        compare(&table, &model)?;
        look();
    }
    save(&session, &table, "s")?;
    // Old states stay readable as long as somebody holds them, also what was closed meanwhile.
    let (old, before) = (table.view(), model.clone());
    let copy = table.duplicate("copy")?;
    session.delete_snapshot("s")?;
    change(&mut table, &mut model, 1, 1_500)?;
    while table.work(1 << 20)? > 0 {}
    compare(&copy, &before)?;
    for (key, value) in before.iter().step_by(7) {
        assert_eq!(old.get(key)?.as_ref(), Some(value));
    }
    compare(&table, &model)?;
    look();
    save(&session, &table, "now")?;
    drop((table, copy, old));
    session.close()?;
    for reads_only in [false, true] {
        let open = if reads_only { Session::open_read_only } else { Session::open };
        let session = open(Arc::clone(disk), options(most))?;
        let verify = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
        let snapshot = session.open_snapshot("now", &verify)?;
        compare(&snapshot.tables[0], &model)?;
        look();
        let files = disk.list("segments")?.len();
        assert!(files > 2 * most, "{files}");
    }
    Ok(())
}

#[test]
fn a_table_of_more_files_than_may_be_open_answers_the_same_on_every_disk() {
    for most in [1, 2, 7] {
        story(&(MemoryDisk::seeded(1) as _), most, || {}).unwrap();
        story(&(SimDisk::new(1) as _), most, || {}).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = OsDisk::create(folder.path()).unwrap();
    let most_seen = AtomicUsize::new(0);
    story(&disk, 8, || {
        #[cfg(target_os = "linux")]
        most_seen.fetch_max(descriptors(folder.path()), SeqCst);
    })
    .unwrap();
    // Eight, and what merges write at the time.
    assert!(most_seen.load(SeqCst) <= 8 + 16, "{}", most_seen.load(SeqCst));
}

#[test]
fn threads_share_few_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::create(OsDisk::create(folder.path()).unwrap(), options(5)).unwrap();
    let (mut table, mut model) = (session.create_table("t", small()).unwrap(), Model::new());
    change(&mut table, &mut model, 0, 1_500).unwrap();
    let (views, before) = ([(); 3].map(|()| table.duplicate("copy").unwrap()), model.clone());
    std::thread::scope(|scope| {
        for view in &views {
            scope.spawn(|| (0..3).for_each(|_| compare(view, &before).unwrap()));
        }
        change(&mut table, &mut model, 3, 1_000).unwrap();
    });
    compare(&table, &model).unwrap();
}

/// A closed store with the snapshot "s" of one table.
fn saved(disk: &Arc<dyn Disk>) -> Model {
    let session = Session::create(Arc::clone(disk), options(4)).unwrap();
    let (mut table, mut model) = (session.create_table("t", small()).unwrap(), Model::new());
    change(&mut table, &mut model, 0, 1_500).unwrap();
    while table.work(1 << 20).unwrap() > 0 {}
    save(&session, &table, "s").unwrap();
    drop(table);
    session.close().unwrap();
    model
}

#[test]
fn a_file_that_cannot_be_opened_again_is_an_error_and_the_next_try_goes_on() {
    let sim = SimDisk::new(1);
    let model = saved(&(Arc::clone(&sim) as _));
    let session = Session::open(Arc::clone(&sim) as _, options(1)).unwrap();
    let snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let table = &snapshot.tables[0];
    let keys: Vec<_> = model.keys().collect();
    let mut failed = 0;
    for fault in [Fault::Open, Fault::Read] {
        for n in 1..40 {
            sim.fail_at(n, fault);
            match table.lookup(&keys) {
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Io, "{error}");
                    failed += 1;
                }
                // One file was open, and was closed for the one that the disk refused.
                Ok(values) => assert_eq!(values.get(0), Some(&*model[keys[0]])),
            }
            sim.disarm();
        }
    }
    assert!(failed > 20, "{failed}");
    compare(table, &model).unwrap();
}

fn bytes(disk: &dyn Disk, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(path, Mode::Read, Access::Buffered).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    Some(bytes)
}

#[test]
fn another_file_under_the_name_of_one_that_was_closed_is_told() {
    let memory = MemoryDisk::seeded(1);
    let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
    let model = saved(&disk);
    let session = Session::open(Arc::clone(&disk), options(1)).unwrap();
    let snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let table = &snapshot.tables[0];
    compare(table, &model).unwrap();
    let mut told = 0;
    let mut names = disk.list("segments").unwrap();
    names.sort_by_key(|name| name.ends_with("blob"));
    let pairs = names.iter().zip(names.iter().skip(1));
    let alike = pairs.filter(|(name, other)| name.ends_with("blob") == other.ends_with("blob"));
    for (name, other) in alike.take(25) {
        let path = format!("segments/{name}");
        let right = bytes(&*disk, &path).unwrap();
        let wrong = bytes(&*disk, &format!("segments/{other}")).unwrap();
        memory.replace(&path, wrong).unwrap();
        match compare(table, &model) {
            // It was the one that is open still.
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), Kind::Corrupt, "{error}");
                assert!(error.detail().contains(&path), "{error}");
                told += 1;
            }
        }
        memory.replace(&path, right).unwrap();
        compare(table, &model).unwrap();
    }
    assert!(told > 5, "{told} of {}", names.len());
}

#[test]
fn a_reader_whose_file_another_process_removed_is_told_to_reload() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let model = saved(&disk);
    let reader = Session::open_read_only(Arc::clone(&disk), options(2)).unwrap();
    let snapshot = reader.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    compare(&snapshot.tables[0], &model).unwrap();
    let held = Session::open_read_only(Arc::clone(&disk), options(5_000)).unwrap();
    let held = held.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let writer = Session::open(Arc::clone(&disk), options(2)).unwrap();
    writer.delete_snapshot("s").unwrap();
    writer.close().unwrap();
    let error = compare(&snapshot.tables[0], &model).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    assert!(error.detail().contains("segments/") && error.detail().contains("reload"), "{error}");
    // Whoever has all of them open needs no names.
    compare(&held.tables[0], &model).unwrap();
}

#[test]
fn a_batch_over_many_files_holds_no_more_of_them_than_may_be_open() {
    let memory = MemoryDisk::seeded(1);
    let model = saved(&(Arc::<MemoryDisk>::clone(&memory) as _));
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let disk = HookedDisk::new(memory, move |call, _| {
        count.fetch_add(usize::from(call == Call::Open(Mode::Read)), SeqCst);
    });
    let session = Session::open_read_only(disk, options(5_000)).unwrap();
    let snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    opened.store(0, SeqCst);
    compare(&snapshot.tables[0], &model).unwrap();
    assert_eq!(opened.load(SeqCst), 0, "while there is room, nothing is opened twice");
}

#[test]
fn what_is_not_durable_is_made_so_before_it_takes_all_files() {
    let sim = SimDisk::new(1);
    let syncs = Arc::new(AtomicUsize::new(0));
    let (count, inner) = (Arc::clone(&syncs), Arc::clone(&sim));
    let disk = HookedDisk::new(inner as _, move |call, path| {
        let is_segment = call == Call::Sync && path.starts_with("segments/");
        count.fetch_add(usize::from(is_segment), SeqCst);
    });
    let session = Session::create(disk, options(5_000)).unwrap();
    let (mut table, mut model) = (session.create_table("t", small()).unwrap(), Model::new());
    change(&mut table, &mut model, 0, 1_000).unwrap();
    assert_eq!(syncs.load(SeqCst), 0, "no snapshot, no sync, as long as there are descriptors");
    drop(table);
    let sim = SimDisk::new(1);
    let session = Session::create(Arc::clone(&sim) as _, options(8)).unwrap();
    let mut table = session.create_table("t", small()).unwrap();
    // A failing one stops all writing, since nobody knows what of the file is lost.
    sim.fail_at(3, Fault::Sync);
    let failed = (0..300)
        .find_map(|round| change(&mut table, &mut Model::new(), round * 20, round * 20 + 20).err());
    let error = failed.expect("a sync was made, and failed");
    assert_eq!(error.kind(), Kind::Io, "{error}");
    let error = change(&mut table, &mut Model::new(), 0, 20).unwrap_err();
    assert_eq!(error.kind(), Kind::Poisoned, "{error}");
    assert!(session.is_poisoned());
    table.lookup(&[key(1)]).unwrap();
}

/// However many threads look something up at one moment, few queues are made, each of which may take a descriptor.
#[test]
fn many_threads_make_few_queues() {
    const THREADS: usize = 40;
    let memory = MemoryDisk::seeded(1);
    let model = saved(&(Arc::<MemoryDisk>::clone(&memory) as _));
    let queues = Arc::new(AtomicUsize::new(0));
    let (count, all) = (Arc::clone(&queues), std::sync::Barrier::new(THREADS));
    let met = std::sync::Mutex::new(std::collections::HashSet::new());
    let is_counted = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let now = Arc::clone(&is_counted);
    let disk = HookedDisk::new(memory, move |call, path| {
        count.fetch_add(usize::from(call == Call::Queue), SeqCst);
        let is_page = call == Call::Read && path.starts_with("segments/") && now.load(SeqCst);
        // At its first read each waits for the others, so that all have a queue at one moment.
        if is_page && met.lock().unwrap().insert(std::thread::current().id()) {
            all.wait();
        }
    });
    let session = Session::open_read_only(disk, options(16)).unwrap();
    let snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let (table, keys) = (&snapshot.tables[0], model.keys().collect::<Vec<_>>());
    table.lookup(&keys).unwrap();
    for _ in 0..2 {
        std::thread::scope(|scope| {
            let look = || {
                let values = table.lookup(&keys).unwrap();
                assert!(values.iter().eq(keys.iter().map(|key| Some(&*model[*key]))));
            };
            is_counted.store(true, SeqCst);
            for _ in 0..THREADS {
                scope.spawn(look);
            }
        });
        is_counted.store(false, SeqCst);
    }
    let queues = queues.load(SeqCst);
    assert!((1..=4).contains(&queues), "{queues} queues for 16 files");
}

/// A page that says what a file is may be damaged like any other, which no reload mends.
#[test]
fn a_damaged_first_page_is_damage_to_a_reader_too() {
    let memory = MemoryDisk::seeded(1);
    let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
    let model = saved(&disk);
    let reader = Session::open_read_only(Arc::clone(&disk), options(1)).unwrap();
    let snapshot = reader.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let table = &snapshot.tables[0];
    compare(table, &model).unwrap();
    let mut told = 0;
    for name in disk.list("segments").unwrap() {
        let path = format!("segments/{name}");
        let right = bytes(&*disk, &path).unwrap();
        let mut wrong = right.clone();
        wrong[100] ^= 1;
        memory.replace(&path, wrong).unwrap();
        if let Err(error) = compare(table, &model) {
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            told += 1;
        }
        memory.replace(&path, right).unwrap();
        compare(table, &model).unwrap();
    }
    assert!(told > 5, "{told}");
}

/// Only a manifest that is gone says so; a disk that does not answer does not.
#[test]
fn a_lost_file_beside_a_failing_disk_is_no_deletion() {
    let sim = SimDisk::new(1);
    saved(&(Arc::clone(&sim) as _));
    let name = sim.list("segments").unwrap().remove(0);
    sim.remove(&format!("segments/{name}")).unwrap();
    let mut failed = 0;
    for fault in [Fault::Open, Fault::Read] {
        // As far as there are calls, of which the last ones look at the manifest again.
        for n in 1..400 {
            let reader = Session::open_read_only(Arc::clone(&sim) as _, options(4)).unwrap();
            sim.fail_at(n, fault);
            let error = reader.open_snapshot("s", &OpenSnapshot::default()).unwrap_err();
            sim.disarm();
            assert!(!error.detail().contains("was deleted"), "{fault:?} {n}: {error}");
            failed += usize::from(error.kind() == Kind::Io);
        }
    }
    assert!(failed > 2, "{failed}");
}
