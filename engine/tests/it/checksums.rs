//! Checksums that cover checksums: pieces of one store, each right in itself, put into another of
//! the same layout are noticed; and what a crash left of one attempt never continues the next.

use std::ops::{Bound, Range};
use std::sync::Arc;

use varvite::context::{CommitInfo, Configuration, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::raw::file::append::{AppendFile, HEAD, Position, open_reader, scan};
use varvite::raw::format::header::{self, FileKind, Header};
use varvite::raw::{Checkpoint, Manifest, PAGE_BYTES, check_seal, decode_session, seal};
use varvite::{
    Batch, Error, Kind, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent,
    TableOptions, Verify,
};

use crate::context_files::record_length;
use crate::listed::Listed;

const PACK: &str = "0000-000000.pack";

/// A context store with this seed, not closed: two commits, with values and messages of `filled`.
fn context(seed: u64, filled: [u8; 2]) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let options = Options { seed: Some(seed), ..Options::default() };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    let mut parents = Vec::new();
    for (number, byte) in (0..).zip(filled) {
        tree.add(&["data", "long"], &[byte; 40]).unwrap();
        tree.add(&["data", "other"], &[byte ^ 1; 30]).unwrap();
        let info = CommitInfo::new(&parents, number, "author", String::from(byte as char));
        parents = vec![store.commit(&mut tree, &info).unwrap()];
    }
    store.set_branch(b"main", &parents[0]).unwrap();
    disk
}

/// What each commit has under `data/long`, oldest first, as far as the store says that it is sound.
fn commits(disk: &Arc<MemoryDisk>) -> Result<Vec<Vec<u8>>, Error> {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let store = Store::open_read_only(disk, Options::default())?;
    store.check()?;
    let mut found = Vec::new();
    for hash in store.log(9)?.iter().rev() {
        found.extend(store.checkout(hash)?.find(&["data", "long"])?);
    }
    Ok(found)
}

/// The places of the records of an append-only file, heads included.
fn batches(disk: &MemoryDisk, path: &str, kind: FileKind) -> Vec<Range<usize>> {
    scanned(disk, path, kind).unwrap()
}

fn scanned(disk: &MemoryDisk, path: &str, kind: FileKind) -> Result<Vec<Range<usize>>, Error> {
    let (file, header) = open_reader(disk, path, kind)?;
    let mut found = Vec::new();
    scan(&*file, header.identity, Position::start(), |at, payload| {
        found.push(at.offset as usize..at.offset as usize + HEAD + payload.len());
        Ok(())
    })?;
    Ok(found)
}

/// Whether a scan of the pack finds it damaged, or less in it than its opening and three batches.
fn is_cut(disk: &MemoryDisk) -> bool {
    scanned(disk, PACK, FileKind::Pack).map_or(true, |batches| batches.len() < 4)
}

/// `disk` with the bytes at `range` of `file` as `other` has them; `None` where they are the same.
fn spliced(
    disk: &Arc<MemoryDisk>,
    other: &MemoryDisk,
    file: &str,
    range: &Range<usize>,
) -> Option<Arc<MemoryDisk>> {
    let (mut bytes, others) = (disk.bytes(file).unwrap(), other.bytes(file).unwrap());
    assert_eq!(bytes.len(), others.len(), "{file}: the layouts are equal");
    if bytes[range.clone()] == others[range.clone()] {
        return None;
    }
    bytes[range.clone()].copy_from_slice(&others[range.clone()]);
    let disk = disk.snapshot();
    disk.replace(file, bytes).unwrap();
    Some(disk)
}

/// The places of the records in the batches of a pack.
fn records(disk: &MemoryDisk) -> Vec<Range<usize>> {
    let bytes = disk.bytes(PACK).unwrap();
    let mut found = Vec::new();
    for batch in batches(disk, PACK, FileKind::Pack) {
        let mut at = batch.start + HEAD;
        while at < batch.end {
            let length = record_length(&bytes[at..batch.end]).unwrap();
            found.push(at..at + length);
            at += length;
        }
    }
    found
}

#[test]
fn a_record_of_another_store_with_the_same_identity_is_noticed() {
    let (disk, other) = (context(42, *b"ab"), context(42, *b"xy"));
    let whole = commits(&disk).unwrap();
    assert_eq!(whole, [vec![b'a'; 40], vec![b'b'; 40]]);
    let records = records(&disk);
    assert!(records.len() >= 10, "{records:?}");
    let mut changed = 0;
    for range in records {
        let Some(mixed) = spliced(&disk, &other, PACK, &range) else { continue };
        changed += 1;
        match commits(&mixed) {
            // Damaged, or cut as what a crash left: then what was before it is there, as it was.
            Err(error) => assert_eq!(error.kind(), Kind::Corrupt, "{range:?}: {error}"),
            Ok(found) => assert!(whole.starts_with(&found), "{range:?}: {found:?}"),
        }
        assert!(is_cut(&mixed), "{range:?}: nothing is cut");
    }
    assert!(changed >= 9, "{changed}");
}

/// A session of this seed with a snapshot, two tables of which one is live, values in a blob file, and a
/// log: everything of `byte`.
fn session(seed: u64, byte: u8) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions {
        seed: Some(seed),
        log: Log::Synced,
        log_file_bytes: 1 << 20,
        ..Default::default()
    };
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let options = TableOptions {
        blob_min_bytes: Some(200),
        write_buffer_bytes: 3_000,
        filter_bits: 10,
        ..TableOptions::default()
    };
    let mut table = session.create_table("live", options).unwrap();
    for number in 0..60_u8 {
        let mut batch = Batch::new();
        batch.insert(&[b'k', number], &[byte; 150]);
        if number < 2 {
            batch.insert(&[b'b', number], &[byte; 5_000]);
        }
        table.update(&batch).unwrap();
    }
    let content = SnapshotContent { label: "", payload: &[byte; 9], tables: &[&table] };
    session.save_snapshot("one", content).unwrap();
    for number in 0..3_u8 {
        table.update(Batch::new().insert(&[b'z', number], &[byte; 30])).unwrap();
    }
    drop(table);
    session.close().unwrap();
    disk
}

type Content = Vec<(Vec<u8>, Vec<u8>)>;

/// The payload and every entry of the snapshot and of the live table.
fn answers(disk: &Arc<MemoryDisk>) -> Result<(Vec<u8>, Content, Content), Error> {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let session = Session::open_read_only(disk, SessionOptions::default())?;
    let options = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
    let mut snapshot = session.open_snapshot("one", &options)?;
    let saved = snapshot.take("live")?.listed(Bound::Unbounded, Bound::Unbounded)?;
    let live = session.open_table("live", &OpenTable::default())?;
    Ok((snapshot.payload, saved, live.listed(Bound::Unbounded, Bound::Unbounded)?))
}

/// The pieces of a file that carry a checksum of their own, but for those in a pack's batches.
fn pieces(disk: &MemoryDisk, file: &str) -> Vec<Range<usize>> {
    let bytes = disk.bytes(file).unwrap();
    let kind = Header::decode(file, &bytes).unwrap().kind;
    let mut pieces: Vec<_> = std::iter::once(0..header::LENGTH).collect();
    match kind {
        FileKind::Segment | FileKind::Blob => {
            pieces.extend((0..bytes.len()).step_by(PAGE_BYTES).map(|at| at..at + PAGE_BYTES));
        }
        FileKind::Pack | FileKind::Log => pieces.extend(batches(disk, file, kind)),
        _ => pieces.push(header::LENGTH..bytes.len()),
    }
    pieces
}

#[test]
fn pieces_of_another_session_are_noticed_in_every_kind_of_file() {
    let (disk, other) = (session(7, b'a'), session(8, b'x'));
    let whole = answers(&disk).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    let is_file =
        |name: &String| !["lock", "reserve"].contains(&&**name) && !name.contains(".saved");
    for file in disk.files().into_iter().filter(is_file) {
        let kind = Header::decode(&file, &disk.bytes(&file).unwrap()).unwrap().kind.name();
        for range in pieces(&disk, &file) {
            let Some(mixed) = spliced(&disk, &other, &file, &range) else { continue };
            let is_last = |all: &Vec<Range<usize>>| all.last() == Some(&range);
            let last = kind == "log" && is_last(&pieces(&disk, &file));
            match answers(&mixed) {
                Err(error) => assert!(
                    matches!(error.kind(), Kind::Corrupt | Kind::Invalid),
                    "{file} {range:?}: {error}"
                ),
                // The last record of a log is cut, as if a crash had left it.
                Ok(found) => assert!(
                    last && found != whole && whole.2.len() == found.2.len() + 1,
                    "{file} {range:?}: not noticed"
                ),
            }
            kinds.insert(kind);
        }
    }
    let expected = ["blob", "checkpoint", "log", "segment", "session", "snapshot"];
    assert!(kinds.iter().eq(&expected), "{kinds:?}");
}

#[test]
fn pieces_of_another_context_are_noticed() {
    let (disk, other) = (context(7, *b"ab"), context(8, *b"xy"));
    let whole = commits(&disk).unwrap();
    for file in ["control", PACK] {
        for range in pieces(&disk, file).into_iter().chain(records(&disk)) {
            if range.end > disk.bytes(file).unwrap().len() {
                continue;
            }
            let Some(mixed) = spliced(&disk, &other, file, &range) else { continue };
            match commits(&mixed) {
                Err(error) => assert!(
                    matches!(error.kind(), Kind::Corrupt | Kind::Invalid),
                    "{file} {range:?}: {error}"
                ),
                Ok(found) => {
                    assert!(file == PACK && whole.starts_with(&found), "{range:?}: {found:?}");
                    assert!(is_cut(&mixed), "{range:?}");
                }
            }
        }
    }
}

/// What is wrong with a file of these bytes.
type Fault<'a> = &'a dyn Fn(&[u8]) -> Option<Kind>;

/// Small files: their last four bytes are the checksum of all before, their header's among them.
#[test]
fn the_header_of_another_file_is_noticed_on_every_small_file() {
    let disk = session(7, b'a');
    let context = context(7, *b"ab");
    let decoders: [(FileKind, &str, Fault<'_>); 4] = [
        (FileKind::Session, "session", &|bytes| decode_session(bytes).err().map(|it| it.kind())),
        (FileKind::Snapshot, "snapshots/one.snapshot", &|bytes| {
            Manifest::decode("m", bytes).err().map(|it| it.kind())
        }),
        (FileKind::Checkpoint, "checkpoint", &|bytes| {
            Checkpoint::decode("c", bytes).err().map(|it| it.kind())
        }),
        (FileKind::Control, "control", &|bytes| {
            let disk = context.snapshot();
            disk.replace("control", bytes).unwrap();
            Store::open_read_only(disk, Options::default()).err().map(|it| it.kind())
        }),
    ];
    for (kind, path, decode) in decoders {
        let from = if kind == FileKind::Control { &context } else { &disk };
        let mut bytes = from.bytes(path).unwrap();
        assert_eq!(decode(&bytes), None, "{path}");
        let own = Header::decode(path, &bytes).unwrap();
        for (identity, store) in [(own.identity ^ 1, own.store), (own.identity, own.store ^ 1)] {
            let other = Header { identity, store, ..own }.encode();
            bytes[..header::LENGTH].copy_from_slice(&other);
            assert_eq!(decode(&bytes), Some(Kind::Corrupt), "{path}");
        }
    }
}

/// The first page of a segment or blob file is a header with the checksum of a page behind it.
#[test]
fn the_page_of_a_header_covers_the_header() {
    let mut page = vec![0; PAGE_BYTES];
    page[..header::LENGTH].copy_from_slice(&Header::new(FileKind::Segment, 5, 6).encode());
    seal(&mut page, 5, 0);
    check_seal("s", 0, 5, &page).unwrap();
    page[..header::LENGTH].copy_from_slice(&Header::new(FileKind::Segment, 5, 7).encode());
    assert_eq!(check_seal("s", 0, 5, &page).unwrap_err().kind(), Kind::Corrupt);
}

/// An export's identity follows from the manifest, which ends in its own checksum.
#[test]
fn exports_of_two_snapshots_are_two_sessions() {
    let disk = session(7, b'a');
    let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    let session = Session::open(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let table = session.create_table("other", TableOptions::default()).unwrap();
    let content = SnapshotContent { label: "", payload: b"two", tables: &[&table] };
    session.save_snapshot("two", content).unwrap();
    let identity = |name: &str| {
        let target = MemoryDisk::seeded(3);
        let shared = Arc::clone(&target) as Arc<dyn Disk>;
        session.export_snapshot(name, &shared, Verify::Quick).unwrap();
        decode_session(&target.bytes("session").unwrap()).unwrap().0
    };
    assert_ne!(identity("one"), identity("two"));
    assert_eq!(identity("two"), identity("two"));
}

/// `new` up to the end of record `number`, and then what `old` has: the power goes after an attempt
/// whose record `number` was lost while its successor came to the disk, and again after the next one.
fn crashed_twice(new: &[u8], old: &[u8], records: &[Range<usize>], number: usize) -> Vec<u8> {
    let end = records[number].end;
    assert_ne!(new[records[number].clone()], old[records[number].clone()]);
    [&new[..end], &old[end..]].concat()
}

fn appended(payloads: &[&[u8]]) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let header = Header::new(FileKind::Log, 3, 4);
    let mut file = AppendFile::create(&*disk, "file", header).unwrap();
    file.sync().unwrap();
    for payload in payloads {
        file.push(payload).unwrap();
        file.write().unwrap();
    }
    disk
}

#[test]
fn no_successor_of_a_lost_record_joins_one_of_the_same_length() {
    let old = appended(&[b"first", b"lost record", b"successor", b"and another"]);
    let new = appended(&[b"first", b"next record"]);
    let records = batches(&old, "file", FileKind::Log);
    let (new, old_bytes) = (new.bytes("file").unwrap(), old.bytes("file").unwrap());
    let disk = MemoryDisk::seeded(1);
    disk.replace("file", crashed_twice(&new, &old_bytes, &records, 1)).unwrap();
    assert_eq!(batches(&disk, "file", FileKind::Log), records[..2]);
    let each = |_: Position, _: &[u8]| Ok(());
    AppendFile::open(&*disk, "file", FileKind::Log, Position::start(), each).unwrap();
    assert_eq!(disk.bytes("file").unwrap(), new);
}

#[test]
fn no_successor_of_a_lost_commit_joins_one_of_the_same_length() {
    // After the opening and a commit. The branch update is the successor; `lost` and `next` differ in one
    // byte of each value.
    let (old, new) = (context(42, *b"ab"), context(42, *b"ac"));
    let places = batches(&old, PACK, FileKind::Pack);
    assert_eq!(places, batches(&new, PACK, FileKind::Pack));
    let mixed = new.snapshot();
    let (new, old) = (new.bytes(PACK).unwrap(), old.bytes(PACK).unwrap());
    mixed.replace(PACK, crashed_twice(&new, &old, &places, 2)).unwrap();
    assert_eq!(commits(&mixed).unwrap(), [vec![b'a'; 40], vec![b'c'; 40]]);
    let store = Store::open(Arc::clone(&mixed) as Arc<dyn Disk>, Options::default()).unwrap();
    assert_eq!(store.branch(b"main"), None, "a branch that never named this commit");
    drop(store);
    assert_eq!(mixed.bytes(PACK).unwrap(), new[..places[2].end], "the successor is cut");
}

#[test]
fn no_successor_of_a_lost_update_joins_one_of_the_same_length() {
    const LOG: &str = "log/0000000000000001.log";
    let updated = |bytes: &[u8]| {
        let disk = MemoryDisk::seeded(1);
        let options =
            SessionOptions { seed: Some(7), log: Log::Written, ..SessionOptions::default() };
        let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        for (number, byte) in (0..).zip(bytes) {
            table.update(Batch::new().insert(&[number], &[*byte; 20])).unwrap();
        }
        drop(table);
        disk
    };
    let (old, new) = (updated(b"abs"), updated(b"ac"));
    let places = batches(&old, LOG, FileKind::Log);
    // The first record begins the file.
    assert_eq!(places.len(), 4);
    let bytes = crashed_twice(&new.bytes(LOG).unwrap(), &old.bytes(LOG).unwrap(), &places, 2);
    new.replace(LOG, bytes).unwrap();
    let options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
    let session = Session::open(Arc::clone(&new) as Arc<dyn Disk>, options).unwrap();
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    let found = table.listed(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert_eq!(found, [(vec![0], vec![b'a'; 20]), (vec![1], vec![b'c'; 20])]);
}
