//! An older version of any one file, put back: it is noticed, or what is found was acknowledged once.
//!
//! Of which files the second can be true, and why, is in a table of `docs/design/durability.md`, which
//! these tests hold to its word.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::context::{self, CommitHash, CommitInfo, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::table::check::check;
use varvite::{
    Batch, Log, OpenTable, Session, SessionOptions, SnapshotContent, Table, TableOptions,
};

use crate::identities::{all_files, contents};

/// Files of a session of which an older version may pass, as the table calls them.
const SESSION_ROWS: [&str; 3] = ["manifest", "checkpoint", "last log file"];

/// How the names of tables begin that are published and never updated.
const PUBLISHED: &str = "published-";

/// Those of a context store.
const CONTEXT_ROWS: [&str; 1] = ["last chunk"];

/// Every version of every file.
#[derive(Default)]
struct History(BTreeMap<String, Vec<Vec<u8>>>);

impl History {
    fn note(&mut self, disk: &MemoryDisk) {
        for (name, bytes) in all_files(disk) {
            let versions = self.0.entry(name).or_default();
            if versions.last() != Some(&bytes) {
                versions.push(bytes);
            }
        }
    }

    /// A copy of `disk` for each version of a file that it does not have.
    fn put_back(&self, disk: &MemoryDisk, mut body: impl FnMut(&str, Arc<MemoryDisk>)) -> u32 {
        let now = all_files(disk);
        let mut count = 0;
        for (name, versions) in &self.0 {
            for bytes in versions.iter().filter(|bytes| now.get(name) != Some(bytes)) {
                let copy = disk.snapshot();
                copy.replace(name, bytes.clone()).unwrap();
                body(name, copy);
                count += 1;
            }
        }
        count
    }
}

/// A session that goes through everything, and what it was found to hold after each act.
struct Tale {
    disk: Arc<MemoryDisk>,
    options: SessionOptions,
    history: History,
    acknowledged: BTreeMap<String, BTreeSet<String>>,
}

impl Tale {
    fn note(&mut self) {
        self.history.note(&self.disk);
        let copy = self.disk.snapshot() as Arc<dyn Disk>;
        for (name, content) in contents(&copy, &self.options).unwrap() {
            self.acknowledged.entry(name).or_default().insert(content);
        }
    }

    fn update(&mut self, table: &mut Table, number: u8) {
        for step in 0..4 {
            let (key, value) = ([step, number % 3], vec![number; 20 + 30 * usize::from(step)]);
            table.update(Batch::new().insert(&key, &value)).unwrap();
            self.note();
        }
    }

    fn save(&mut self, session: &Session, name: &str, table: &Table) {
        let content = SnapshotContent { label: "", payload: b"", tables: &[table] };
        session.save_snapshot(name, content).unwrap();
        self.note();
    }

    /// Two rounds with an opening between: updates, and snapshots replaced under old and new names.
    fn tell(log: Log) -> Tale {
        let options = SessionOptions { log, log_file_bytes: 900, ..SessionOptions::default() };
        let disk = MemoryDisk::seeded(1);
        let (history, acknowledged) = (History::default(), BTreeMap::new());
        let mut tale = Tale { disk: disk.clone(), options, history, acknowledged };
        let small = TableOptions {
            write_buffer_bytes: 400,
            blob_min_bytes: Some(60),
            ..TableOptions::default()
        };
        Session::create(disk.clone(), tale.options.clone()).unwrap().close().unwrap();
        for round in 0..2 {
            let session = Session::open(disk.clone(), tale.options.clone()).unwrap();
            tale.note();
            let mut table = if log == Log::None || round == 0 {
                session.create_table("utxo", small.clone()).unwrap()
            } else {
                session.open_table("utxo", &OpenTable::default()).unwrap()
            };
            tale.note();
            for number in 0..3 {
                let number = round * 3 + number;
                tale.update(&mut table, number);
                tale.save(&session, &format!("head-{number}"), &table);
                if number > 0 {
                    session.delete_snapshot(&format!("head-{}", number - 1)).unwrap();
                    session.delete_snapshot("head").unwrap();
                    tale.note();
                }
                tale.save(&session, "head", &table);
                // The same again, so that its files are held by both.
                session.delete_snapshot("head").unwrap();
                tale.save(&session, "head", &table);
            }
            // A snapshot whose files another has, too, is gone by its manifest alone.
            tale.save(&session, "twin", &table);
            session.delete_snapshot("twin").unwrap();
            tale.note();
            if log != Log::None {
                let name = format!("other-{round}");
                let mut other = session.create_table(&name, small.clone()).unwrap();
                tale.note();
                // What a table has when it is published is in no log.
                session
                    .publish(&mut table.duplicate(&format!("{PUBLISHED}{round}")).unwrap())
                    .unwrap();
                tale.note();
                // Of a table that has an update the log tells.
                let named = [&mut table, &mut other].into_iter().take(2 - usize::from(round));
                for table in named {
                    table.update(Batch::new().insert(b"later", &[round])).unwrap();
                    tale.note();
                }
            }
            drop(table);
            session.close().unwrap();
            tale.note();
        }
        tale
    }
}

/// What the table of the document calls a file of a session.
#[allow(clippy::case_sensitive_file_extension_comparisons)] // as the engine makes them
fn kind(name: &str) -> &'static str {
    match name {
        "session" => "session",
        "checkpoint" => "checkpoint",
        _ if name.ends_with(".snapshot") => "manifest",
        _ if name.contains(".saved") => "number of saves",
        _ if name.ends_with(".blob") => "blob file",
        _ if name.ends_with(".segment") => "segment",
        _ if name.ends_with(".log") => "last log file",
        _ if name.ends_with(".pack") => "last chunk",
        _ if name.starts_with("index/") => "index",
        "control" => "control",
        _ => panic!("{name} is of no kind"),
    }
}

/// The rows of the document's table, by their first words.
fn documented(heading: &str) -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/design/durability.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, part) = text.split_once(heading).expect("the document has the heading");
    let part = part.split("\n#").next().unwrap();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| **")?.split_once("**"));
    rows.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn an_older_file_of_a_session_is_noticed_or_was_acknowledged() {
    let mut silent = BTreeSet::new();
    for log in [Log::None, Log::Synced] {
        let tale = Tale::tell(log);
        let shared = tale.disk.snapshot() as Arc<dyn Disk>;
        let last = contents(&shared, &tale.options).unwrap();
        let (mut noticed, mut same) = (BTreeSet::new(), BTreeSet::new());
        let count = tale.history.put_back(&tale.disk, |name, copy| {
            let shared = copy as Arc<dyn Disk>;
            let is_sound = check(&shared, |_| ControlFlow::Continue(()))
                .is_ok_and(|report| report.findings.is_empty());
            let found = match contents(&shared, &tale.options) {
                Ok(found) if is_sound => found,
                _ => {
                    noticed.insert(kind(name));
                    return;
                }
            };
            if found == last {
                same.insert(kind(name));
                return;
            }
            // A table that has an update is told by the log, whichever file is older.
            for (part, content) in &last {
                let is_live = part.starts_with("live ") && !content.is_empty();
                let is_told = is_live && !part.contains(PUBLISHED);
                assert!(!is_told || found.contains_key(part), "{name}: {part} is gone");
            }
            for (part, content) in found {
                let known = tale.acknowledged.get(&part);
                assert!(known.is_some_and(|known| known.contains(&content)), "{name}: {part}");
            }
            silent.insert(kind(name));
        });
        assert!(count > 30, "{count}");
        assert!(noticed.contains("manifest") && same.contains("segment"), "{noticed:?} {same:?}");
        assert_eq!(noticed.contains("last log file"), log != Log::None, "{noticed:?}");
    }
    assert_eq!(silent, BTreeSet::from(SESSION_ROWS));
    assert_eq!(documented("### Older files of a session"), SESSION_ROWS.map(String::from).into());
}

/// An older manifest or checkpoint may name files that went since, and not those that came. Whoever is told
/// so puts the right one back, and that must still find all of its own.
#[test]
fn an_opening_that_misses_a_file_removes_none() {
    let mut restored = BTreeSet::new();
    for log in [Log::None, Log::Synced] {
        let tale = Tale::tell(log);
        let now = all_files(&tale.disk);
        let shared = tale.disk.snapshot() as Arc<dyn Disk>;
        let last = contents(&shared, &tale.options).unwrap();
        tale.history.put_back(&tale.disk, |name, copy| {
            let shared = Arc::clone(&copy) as Arc<dyn Disk>;
            let Err(error) = contents(&shared, &tale.options) else { return };
            match now.get(name) {
                Some(bytes) => copy.replace(name, bytes.clone()).unwrap(),
                None => copy.remove(name).unwrap(),
            }
            let found = contents(&shared, &tale.options);
            let found = found.unwrap_or_else(|lost| panic!("{name}: {error}; restored: {lost}"));
            assert_eq!(found, last, "{name}: {error}");
            restored.insert(kind(name));
        });
    }
    assert!(restored.contains("manifest") && restored.contains("checkpoint"), "{restored:?}");
}

/// A checkpoint names a log file that has no record yet, too: where an older one is put back, it stays.
#[test]
fn an_empty_log_file_stays_for_the_checkpoint_that_names_it() {
    let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    let small = TableOptions { write_buffer_bytes: 400, ..TableOptions::default() };
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(disk.clone(), options.clone()).unwrap();
    // Needs the log's first file to the end.
    let mut kept = session.create_table("kept", TableOptions::default()).unwrap();
    kept.update(Batch::new().insert(b"first", b"1")).unwrap();
    let mut table = session.create_table("t", small).unwrap();
    for number in 0..20_u8 {
        table.update(Batch::new().insert(&[number], &[number; 40])).unwrap();
    }
    session.publish(&mut table.duplicate("p").unwrap()).unwrap();
    let older = disk.bytes("checkpoint").unwrap();
    drop((kept, table));
    session.close().unwrap();
    // The file of this session gets no record.
    let session = Session::open(disk.clone(), options.clone()).unwrap();
    for name in ["p", "t"] {
        session.delete_table(name).unwrap();
    }
    session.close().unwrap();
    let newer = disk.bytes("checkpoint").unwrap();
    disk.replace("checkpoint", older).unwrap();
    let session = Session::open(disk.clone(), options.clone()).unwrap();
    let warning = session.warnings().concat();
    assert!(warning.contains("no file was removed, and none will be"), "{warning}");
    drop(session);
    disk.replace("checkpoint", newer).unwrap();
    let session = Session::open(disk.clone(), options).unwrap();
    assert_eq!(session.warnings(), Vec::<String>::new());
    let tables = session.open_all(&OpenTable::default()).unwrap();
    assert_eq!(tables.len(), 1);
    assert!(tables[0].get(b"first").unwrap().is_some());
}

/// What is found of a context store: its commits and branches.
type Told = (Vec<CommitHash>, Vec<(Vec<u8>, CommitHash)>);

fn told(disk: Arc<dyn Disk>) -> varvite::Result<Option<Told>> {
    let store = Store::open(disk, context::Options::default())?;
    let checked = store.check()?;
    let is_sound = checked.index_faults.is_empty() && store.warnings().is_empty();
    Ok(is_sound.then_some((store.log(1000)?, store.branches())))
}

#[test]
fn an_older_file_of_a_context_store_is_noticed_or_was_acknowledged() {
    let disk = MemoryDisk::seeded(1);
    let options = context::Options { chunk_bytes: 2000, ..context::Options::default() };
    Store::create(disk.clone(), options.clone()).unwrap().close().unwrap();
    let (mut history, mut acknowledged) = (History::default(), Vec::new());
    let mut note = |disk: &MemoryDisk| {
        history.note(disk);
        acknowledged.push(told(disk.snapshot()).unwrap().expect("it is sound"));
    };
    for round in 0..3_u8 {
        let mut store = Store::open(disk.clone(), options.clone()).unwrap();
        let mut tree = store.empty_tree();
        for number in 0..8_u8 {
            tree.add(&["data", &number.to_string()], &[round * 8 + number; 200]).unwrap();
            let hash = store.commit(&mut tree, &CommitInfo::new(&[], 0, "a", "b")).unwrap();
            note(&disk);
            if number == 5 {
                store.set_branch(b"main", &hash).unwrap();
                store.checkpoint().unwrap();
                note(&disk);
            }
        }
        if round < 2 {
            store.close().unwrap();
            note(&disk);
        }
    }
    let last = told(disk.snapshot()).unwrap().unwrap();
    let (mut noticed, mut silent) = (BTreeSet::new(), BTreeSet::new());
    let count = history.put_back(&disk, |name, copy| match told(copy) {
        Err(_) | Ok(None) => {
            noticed.insert(kind(name));
        }
        Ok(Some(found)) if found == last => {}
        Ok(Some(found)) => {
            assert!(acknowledged.contains(&found), "{name}: {} commits", found.0.len());
            silent.insert(kind(name));
        }
    });
    assert!(count > 30 && noticed.contains("last chunk"), "{count} {noticed:?}");
    assert_eq!(silent, BTreeSet::from(CONTEXT_ROWS));
    assert_eq!(
        documented("### Older files of a context store"),
        CONTEXT_ROWS.map(String::from).into()
    );
}
