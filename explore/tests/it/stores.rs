//! Stores that are shown: a context and a table, small, and the same each time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use varvite::context::{CommitInfo, Options, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::trace::Recorder;
use varvite::{Batch, Log, OpenTable, Session, SessionOptions, TableOptions};
use varvite_explore::{OpenTables, Opens, Source};

/// A step that no text is.
const ODD: &[u8] = b"\xff/\"<b>";

/// Makes a context of three commits, whose hashes it gives.
pub fn context(folder: &Path) -> Vec<String> {
    let mut store = Store::open_or_create(folder, Options::default()).unwrap();
    let mut commits = Vec::new();
    let mut tree = store.empty_tree();
    for block in 0..3_u8 {
        for account in 0..300 {
            if account % 3 == usize::from(block) || block == 0 {
                let name = format!("account-{account:04}");
                tree.add(&[b"accounts".as_slice(), name.as_bytes(), b"balance"], &[block; 8])
                    .unwrap();
            }
        }
        tree.add(&[b"odd".as_slice(), ODD], &[b'x'; 300]).unwrap();
        tree.add(&["block"], &[block]).unwrap();
        let parents: Vec<_> = store.last_commit().unwrap().into_iter().collect();
        let info = CommitInfo::new(&parents, i64::from(block), "tester", format!("block {block}"));
        let hash = store.commit(&mut tree, &info).unwrap();
        commits.push(varvite::context::hash::to_text(&hash));
    }
    store.set_branch(b"main", &store.last_commit().unwrap().unwrap()).unwrap();
    store.close().unwrap();
    commits
}

/// So that most entries are in runs, which have filters.
fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 64 << 10, ..TableOptions::default() }
}

/// Makes a store of one table, `coins`.
pub fn tables(folder: &Path) {
    // Its log is short, so that most of the table is in its runs.
    let (log, log_file_bytes) = (Log::Written, 64 << 10);
    let options = SessionOptions { log, log_file_bytes, ..SessionOptions::default() };
    let session = Session::open_or_create(folder, options).unwrap();
    let mut table = session.open_or_create_table("coins", small()).unwrap();
    for start in 0..40_u32 {
        let mut batch = Batch::new();
        for number in start * 500..(start + 1) * 500 {
            batch.insert(&number.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 60]);
        }
        table.update(&batch).unwrap();
    }
    session.close().unwrap();
}

/// Makes a context of forty commits, each in a chunk of its own and a branch; what is before the thirtieth is in the lower
/// folder, if there is one, and else collected.
pub fn chunked(folder: &Path, lower: Option<&Path>) -> Source {
    let lower = lower.map(|lower| OsDisk::new(lower).unwrap() as Arc<dyn Disk>);
    let options = Options { chunk_bytes: 1, lower, ..Options::default() };
    let mut store = Store::open_or_create(folder, options.clone()).unwrap();
    let mut tree = store.empty_tree();
    let mut commits = Vec::new();
    for block in 0..40_u8 {
        tree.add(&["block"], &[block; 300]).unwrap();
        tree.add(&["kept", &(block / 10).to_string()], &[block; 300]).unwrap();
        let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
        store.set_branch(&[block], &commit).unwrap();
        commits.push(commit);
    }
    drop(tree);
    if options.lower.is_some() {
        store.archive(&commits[30], u64::MAX).unwrap();
        store.attach().unwrap();
    } else {
        store.collect(&commits[30]).unwrap();
        while store.collect_step(1 << 20).unwrap() {}
    }
    store.close().unwrap();
    let place = folder.to_owned();
    Source {
        name: "chunked".to_owned(),
        folder: folder.to_owned(),
        kind: "context",
        opens: Opens::Context(Box::new(move || {
            Store::open_read_only(OsDisk::new(&place)?, options.clone())
        })),
    }
}

/// Two traces of more blocks than a chart has points: commits, and marks alone.
pub fn recorded_long(folder: &Path) -> Vec<PathBuf> {
    let disk: Arc<dyn Disk> = OsDisk::new(folder).unwrap();
    let recorder = |name: &str| {
        let readings = AtomicU64::new(0);
        let clock = move || readings.fetch_add(1_000, Ordering::Relaxed);
        Recorder::create(&disk, name, clock).unwrap()
    };
    let [commits, marks] = ["commits.trace", "marks.trace"].map(recorder);
    let options = Options { recorder: Some(Arc::clone(&commits)), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..600_u64 {
        tree.add(&["block"], &number.to_le_bytes()).unwrap();
        store.commit(&mut tree, &CommitInfo::default()).unwrap();
        marks.mark(&number.to_string());
    }
    drop(tree);
    store.close().unwrap();
    commits.finish().unwrap();
    marks.finish().unwrap();
    vec![folder.join("commits.trace"), folder.join("marks.trace")]
}

/// Two traces that the engine recorded. The second asks for something too.
pub fn recorded(folder: &Path) -> Vec<PathBuf> {
    let disk: Arc<dyn Disk> = OsDisk::new(folder).unwrap();
    let record = |name: &str| {
        let recorder = Recorder::create(&disk, name, {
            let readings = AtomicU64::new(0);
            move || readings.fetch_add(1_000, Ordering::Relaxed)
        })
        .unwrap();
        let options = Options { recorder: Some(Arc::clone(&recorder)), ..Options::default() };
        let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
        let mut tree = store.empty_tree();
        for number in 0..30_u8 {
            recorder.sample("rss_bytes", number.into());
            tree.add(&["a", "b", &number.to_string()], &[number]).unwrap();
            store.commit(&mut tree, &CommitInfo::new(&[], 0, "t", "m")).unwrap();
        }
        if name == "two.trace" {
            tree.mem(&["a", "b"]).unwrap();
        }
        store.close().unwrap();
        recorder.finish().unwrap();
        folder.join(name)
    };
    vec![record("one.trace"), record("two.trace")]
}

/// Both as they are shown.
pub fn sources(one: &Path, two: &Path) -> Vec<Source> {
    let opens =
        |path: PathBuf| move || Store::open_read_only(OsDisk::new(&path)?, Options::default());
    let open_tables = |path: PathBuf| {
        move || {
            let session = Session::open_read_only(OsDisk::new(&path)?, SessionOptions::default())?;
            let tables = session.open_all(&OpenTable::default())?;
            Ok(OpenTables { session, tables, place: "live".to_owned() })
        }
    };
    let source = |name: &str, kind, folder: &Path, opens| Source {
        name: name.to_owned(),
        folder: folder.to_owned(),
        kind,
        opens,
    };
    vec![
        source("chain", "context", one, Opens::Context(Box::new(opens(one.to_owned())))),
        source("ledger", "tables", two, Opens::Tables(Box::new(open_tables(two.to_owned())))),
    ]
}
