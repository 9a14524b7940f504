//! The files of live tables: as ever in `golden/`, any damage told, any bytes survived. The bodies of
//! the fuzz targets `log_record`, `log_file` and `checkpoint`.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::raw::file::append::{AppendFile, Position, scan};
use varvite::raw::format::checksum::stored;
use varvite::raw::format::codec::{Decoder, Encoder};
use varvite::raw::format::header::FileKind;
use varvite::raw::{Checkpoint, LogRecord, encode_begin, encode_delete_range, encode_update};
use varvite::{
    Batch, Error, Kind, Log, MergeOperator, OpenTable, Session, SessionOptions, TableOptions,
};

use crate::listed::Listed;

const FIRST: &str = "log/0000000000000001.log";

const CHECKPOINT: &str = "checkpoint";

fn options() -> SessionOptions {
    SessionOptions {
        seed: Some(42),
        log: Log::Synced,
        log_file_bytes: 600,
        ..SessionOptions::default()
    }
}

fn table_options() -> TableOptions {
    TableOptions { write_buffer_bytes: 400, size_ratio: 2, ..TableOptions::default() }
        .with_operator(MergeOperator::add_u64())
}

fn batch(number: u8) -> Batch {
    let mut batch = Batch::new();
    batch.insert(&[b'k', number], &[number; 20]).delete(&[b'k', number.wrapping_sub(9)]);
    batch.upsert(b"sum", &[1]);
    batch
}

/// How far the golden store goes.
const UPDATES: u8 = 40;

/// And the one whose checkpoint has a merge with inputs.
const MERGING: u8 = 48;

/// Makes a session of two live tables and `updates` updates.
fn make(updates: u8) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options())
        .expect("memory does not fail");
    let mut utxo = session.create_table("utxo", table_options()).expect("memory does not fail");
    let mut stake = session.create_table("stake", table_options()).expect("memory does not fail");
    for number in 0..updates {
        let (first, second) = (batch(number), batch(number / 4));
        if number % 4 == 0 {
            session
                .update(&mut [(&mut utxo, &first), (&mut stake, &second)])
                .expect("memory does not fail");
        } else {
            utxo.update(&first).expect("memory does not fail");
        }
    }
    drop((utxo, stake));
    disk
}

/// Two tables with four updates, of which ranges were deleted.
fn make_deleted() -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options())
        .expect("memory does not fail");
    let mut one = session.create_table("one", table_options()).expect("memory does not fail");
    let mut two = session.create_table("two", table_options()).expect("memory does not fail");
    for number in 0..2 {
        one.update(&batch(number)).expect("memory does not fail");
        two.update(&batch(number)).expect("memory does not fail");
    }
    one.delete_range(Bound::Included(b"k\x01"), Bound::Excluded(b"l"))
        .expect("memory does not fail");
    two.delete_range(Bound::Excluded(b"a"), Bound::Unbounded).expect("memory does not fail");
    drop((one, two));
    disk
}

/// A table with values in pieces, each bound to a key or two, in the log and in no segment.
fn make_streamed() -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    // Blob files count as log, and it shall be one file, without zeros behind it.
    let options = SessionOptions { log: Log::Written, log_file_bytes: 1 << 20, ..options() };
    let session =
        Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).expect("memory does not fail");
    let options = TableOptions { operator: None, ..table_options() };
    let mut code = session.create_table("code", options).expect("memory does not fail");
    for number in 0..2 {
        let mut writer = session.write_value().expect("memory does not fail");
        for piece in 1..=3 {
            writer.write(&[number * 16 + piece; 25]).expect("memory does not fail");
        }
        let value = writer.finish().expect("memory does not fail");
        let mut batch = Batch::new();
        batch.insert(b"short", &[number]).insert_value(&[b'k', number], &value);
        batch.insert_value(b"last", &value);
        code.update(&batch).expect("memory does not fail");
    }
    drop(code);
    disk
}

fn streamed_store() -> Arc<MemoryDisk> {
    static STORE: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    STORE.get_or_init(make_streamed).snapshot()
}

fn store() -> Arc<MemoryDisk> {
    static STORE: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    STORE.get_or_init(|| make(UPDATES)).snapshot()
}

type Content = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

fn answers_in(session: &Session) -> Result<Content, Error> {
    let tables = session.open_all(&OpenTable::default())?;
    tables.iter().map(|table| table.listed(Bound::Unbounded, Bound::Unbounded)).collect()
}

/// What a reader finds, and, the same, what a writer finds.
fn answers(disk: &Arc<MemoryDisk>) -> Result<Content, Error> {
    let reader = Session::open_read_only(Arc::clone(disk) as Arc<dyn Disk>, options())?;
    let read = answers_in(&reader);
    let writer = Session::open(Arc::clone(disk) as Arc<dyn Disk>, options())?;
    let found = answers_in(&writer);
    if let (Ok(read), Ok(found)) = (&read, &found) {
        assert_eq!(read, found, "reading and writing judge alike");
    }
    assert_eq!(read.is_ok(), found.is_ok(), "{read:?} {found:?}");
    assert_eq!(found.is_ok(), writer.warnings().is_empty());
    found
}

/// The payload of a record, whatever it is: what decodes is encoded again as it was.
pub fn log_record(bytes: &[u8]) {
    let Ok(record) = LogRecord::decode(&mut Decoder::new("f", 0, bytes), &|_| true) else {
        return;
    };
    let mut to = Encoder::new();
    match record {
        LogRecord::Begin(before) => encode_begin(&mut to, before),
        LogRecord::Update { parts, blobs } => encode_update(
            &mut to,
            parts.iter().map(|(id, batch)| (*id, &**batch.as_ref().expect("all are wanted"))),
            &blobs,
        ),
        LogRecord::DeleteRange(id, range) => encode_delete_range(&mut to, id, &range),
    }
    assert_eq!(to.bytes(), bytes, "another encoding");
}

/// Opens, updates and opens again what there is; errors are fine.
fn open_all(disk: &Arc<MemoryDisk>) {
    let Ok(session) = Session::open(Arc::clone(disk) as Arc<dyn Disk>, options()) else { return };
    if let Ok(tables) = session.open_all(&OpenTable::default()) {
        for mut table in tables {
            drop(table.get(b"sum"));
            drop(table.listed(Bound::Unbounded, Bound::Unbounded));
            drop(table.update(&batch(9)));
            drop(table.stats());
        }
    }
}

/// A log file whose one record has these bytes, after the one that begins the file.
pub fn log_file(bytes: &[u8]) {
    // Where there are blob files to refer to, or not.
    let disk = if bytes.first() == Some(&4) { streamed_store() } else { store() };
    let name = last_log(&disk);
    let old = disk.bytes(&name).expect("the last log file");
    let header = varvite::raw::format::header::Header::decode(&name, &old[..32]).expect("a header");
    let mut first = Vec::new();
    let made = MemoryDisk::seeded(1);
    made.replace("old", old).expect("memory takes it");
    let reader = varvite::raw::file::append::open_reader(&*made, "old", FileKind::Log);
    let (reader, _) = reader.expect("it is sound");
    scan(&*reader, header.identity, Position::start(), |at, payload| {
        if at.sequence == 0 {
            first = payload.to_vec();
        }
        Ok(())
    })
    .expect("it is sound");
    let mut file = AppendFile::create(&*made, "new", header).expect("memory takes it");
    file.push(&first).expect("a short record");
    file.push(bytes).expect("a short record");
    file.sync().expect("memory takes it");
    disk.replace(&name, made.bytes("new").expect("just made")).expect("memory takes it");
    open_all(&disk);
}

/// A checkpoint whose checksum is repaired.
pub fn checkpoint(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if let Some((rest, checksum)) = bytes.split_last_chunk_mut::<4>() {
        *checksum = stored(rest).to_le_bytes();
    }
    if let Ok(decoded) = Checkpoint::decode(CHECKPOINT, &bytes) {
        assert_eq!(decoded.encode(), bytes, "another encoding");
    }
    let disk = store();
    disk.replace(CHECKPOINT, bytes).expect("memory takes it");
    open_all(&disk);
}

fn last_log(disk: &MemoryDisk) -> String {
    let files = disk.files().into_iter().filter(|name| name.starts_with("log/"));
    files.max().expect("there is a log file")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::damage::mutations;
    use crate::golden::golden;
    use std::ops::ControlFlow;
    use varvite::Kind;
    use varvite::table::check::check;
    use varvite::table::inspect;

    #[test]
    fn log_and_checkpoint_are_read_and_written_as_ever() {
        let disk = make(4);
        let written = |name| disk.bytes(name).unwrap();
        let log = golden("log/first.bin", &written(FIRST));
        let first = golden("checkpoint/two-tables.bin", &written(CHECKPOINT));
        let expected = answers(&disk.snapshot()).unwrap();
        disk.replace(FIRST, log.clone()).unwrap();
        disk.replace(CHECKPOINT, first.clone()).unwrap();
        assert_eq!(answers(&disk).unwrap(), expected);
        let outline = inspect::log("first.bin", &log);
        assert_eq!(outline.damage_count(), 0, "{outline}");
        golden("log/first.outline.txt", format!("{outline}\n").as_bytes());
        let disk = make_deleted();
        let range = golden("log/range.bin", &disk.bytes(FIRST).unwrap());
        let outline = inspect::log("range.bin", &range);
        assert_eq!(outline.damage_count(), 0, "{outline}");
        golden("log/range.outline.txt", format!("{outline}\n").as_bytes());
        disk.replace(FIRST, range).unwrap();
        let left =
            vec![(b"k\0".to_vec(), vec![0; 20]), (b"sum".to_vec(), vec![2, 0, 0, 0, 0, 0, 0, 0])];
        assert_eq!(answers(&disk).unwrap(), [left, Vec::new()]);
        let disk = make_streamed();
        let blobs = golden("log/blobs.bin", &disk.bytes(FIRST).unwrap());
        let outline = inspect::log("blobs.bin", &blobs);
        assert_eq!(outline.damage_count(), 0, "{outline}");
        golden("log/blobs.outline.txt", format!("{outline}\n").as_bytes());
        disk.replace(FIRST, blobs).unwrap();
        let value = |number: u8| [1, 2, 3].map(|piece| [number * 16 + piece; 25]).concat();
        let bound: [(&[u8], _); 4] =
            [(b"k\0", value(0)), (b"k\x01", value(1)), (b"last", value(1)), (b"short", vec![1])];
        let bound = bound.map(|(key, value)| (key.to_vec(), value));
        assert_eq!(answers(&disk).unwrap(), [bound.to_vec()]);
        let disk = make(UPDATES);
        let second = golden("log/second.bin", &disk.bytes(&last_log(&disk)).unwrap());
        assert_eq!(inspect::log("second.bin", &second).damage_count(), 0);
        let later = golden("checkpoint/segments.bin", &disk.bytes(CHECKPOINT).unwrap());
        let in_work = make(MERGING).bytes(CHECKPOINT).unwrap();
        let in_work = golden("checkpoint/merging.bin", &in_work);
        let outline = inspect::checkpoint("merging.bin", &in_work).to_string();
        assert_eq!(outline.matches("input [").count(), 3, "no merge is under way: {outline}");
        for (name, bytes) in
            [("two-tables.bin", first), ("segments.bin", later), ("merging.bin", in_work)]
        {
            let decoded = Checkpoint::decode(CHECKPOINT, &bytes).unwrap();
            assert_eq!(decoded.encode(), bytes);
            let outline = inspect::checkpoint(name, &bytes);
            assert_eq!(outline.damage_count(), 0, "{outline}");
            for length in 0..bytes.len() {
                assert!(Checkpoint::decode(name, &bytes[..length]).is_err(), "{length}");
                assert!(inspect::checkpoint(name, &bytes[..length]).damage_count() > 0);
            }
            golden(
                &format!("checkpoint/{}", name.replace(".bin", ".outline.txt")),
                format!("{outline}\n").as_bytes(),
            );
        }
    }

    /// What the tables hold after each number of updates.
    fn history() -> Vec<Content> {
        (0..=UPDATES).map(|updates| answers(&make(updates)).unwrap()).collect()
    }

    /// Whether the answer is right; it may be one from before the last `lost` updates at most.
    fn check_after(
        sound: &MemoryDisk,
        name: &str,
        bytes: &[u8],
        history: &[Content],
        lost: usize,
    ) -> bool {
        let disk = sound.snapshot();
        disk.replace(name, bytes).unwrap();
        let as_dyn = Arc::clone(&disk) as Arc<dyn Disk>;
        let report = check(&as_dyn, |_| ControlFlow::Continue(())).unwrap();
        let told = !report.findings.is_empty();
        assert!(disk.bytes(name).unwrap() == bytes, "the check wrote to {name}");
        let before = disk.files();
        match answers(&disk) {
            Ok(found) => {
                let place = history.iter().rposition(|content| *content == found);
                let place = place.unwrap_or_else(|| panic!("{name}: a wrong answer: {found:?}"));
                assert!(place + 1 + lost >= history.len(), "{name}: {place} updates");
                assert!(!told, "{name}: told of what is sound: {report:?}");
                place + 1 == history.len()
            }
            Err(error) => {
                let kinds = [Kind::Corrupt, Kind::Version, Kind::Invalid];
                assert!(kinds.contains(&error.kind()), "{name}: {error:?}");
                assert!(told, "{name}: the check does not tell of {error:?}");
                for file in before {
                    assert!(disk.exists(&file).unwrap(), "{file} was removed");
                }
                false
            }
        }
    }

    #[test]
    fn damage_of_log_and_checkpoint_is_told_or_ends_the_log_early() {
        let (sound, history) = (store(), history());
        assert!(disk_is_as_expected(&sound, history.last().unwrap()));
        let files = sound.files();
        let ours = files.iter().filter(|name| name.starts_with("log/") || *name == CHECKPOINT);
        let (mut told, mut harmless) = (0, 0);
        for name in ours {
            let bytes = sound.bytes(name).unwrap();
            // Behind the last record are zeros, which are nobody's.
            let claimed = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            for at in 0..claimed {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                // Only the last update can pass for one that a crash cut short.
                let is_right = check_after(&sound, name, &damaged, &history, 1);
                *if is_right { &mut harmless } else { &mut told } += 1;
            }
            // Where the last file is cut, so many may: it looks like one that was never longer.
            let lost = if *name == last_log(&sound) { usize::from(UPDATES) } else { 0 };
            for length in (0..bytes.len()).step_by(3) {
                check_after(&sound, name, &bytes[..length], &history, lost);
            }
        }
        assert!(told > 1_000 && harmless < told / 20, "{told} {harmless}");
    }

    fn disk_is_as_expected(disk: &Arc<MemoryDisk>, expected: &Content) -> bool {
        let files = disk.files();
        let logs = files.iter().filter(|name| name.starts_with("log/")).count();
        logs > 1 && answers(&disk.snapshot()).unwrap() == *expected
    }

    #[test]
    fn a_log_file_that_is_gone_is_told() {
        let sound = store();
        for name in sound.files() {
            if name.starts_with("log/") && name != last_log(&sound) {
                let disk = sound.snapshot();
                disk.remove(&name).unwrap();
                assert_eq!(answers(&disk).unwrap_err().kind(), Kind::Corrupt, "{name}");
            }
        }
        let disk = sound.snapshot();
        disk.remove(CHECKPOINT).unwrap();
        let session = Session::open(disk as Arc<dyn Disk>, options()).unwrap();
        assert_eq!(session.live_tables().unwrap_err().kind(), Kind::Corrupt);
    }

    /// The last record of the store with values in pieces.
    fn streamed_record() -> Vec<u8> {
        let disk = streamed_store();
        let reader = varvite::raw::file::append::open_reader(&*disk, FIRST, FileKind::Log);
        let (reader, header) = reader.unwrap();
        let mut last = Vec::new();
        let each = |_, payload: &[u8]| {
            last = payload.to_vec();
            Ok(())
        };
        scan(&*reader, header.identity, Position::start(), each).unwrap();
        last
    }

    /// What is cut or changed in a record is told, or cannot be told from another record.
    #[test]
    fn a_record_that_refers_to_blob_files_is_checked_against_their_list() {
        let record = streamed_record();
        let decode = |bytes: &[u8]| LogRecord::decode(&mut Decoder::new("f", 0, bytes), &|_| true);
        let LogRecord::Update { parts, blobs } = decode(&record).unwrap() else { panic!() };
        assert_eq!((record[0], parts.len(), blobs.len(), blobs[0].bytes), (4, 1, 1, 75));
        for length in 0..record.len() {
            // Without its parts it is a record of nothing.
            let is_whole = length == 31;
            assert_eq!(decode(&record[..length]).is_ok(), is_whole, "{length}");
        }
        let refused = |at: usize, byte: u8, what: &str| {
            let mut changed = record.clone();
            changed[at] ^= byte;
            let error = decode(&changed).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(error.detail().contains(what), "{at}: {error}");
        };
        refused(0, 2 ^ 4, "");
        refused(1, 1, "a blob file");
        refused(2, 1, "a reference into a blob file");
        refused(18, 75, "a reference into a blob file");
        let span = record.len() - 24;
        refused(span, 1, "a reference into a blob file");
        refused(span + 8, 1, "a reference into a blob file");
        refused(span + 16, 128, "a reference into a blob file");
    }

    pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
        let mut to = Encoder::new();
        let (first, second) = (batch(1), batch(2));
        encode_update(&mut to, [(1, &first), (2, &second)].into_iter(), &[]);
        let mut seeds = vec![("checkpoint", store().bytes(CHECKPOINT).unwrap())];
        for record in [to.finish(), streamed_record()] {
            seeds.extend([("log_record", record.clone()), ("log_file", record)]);
        }
        seeds
    }

    #[test]
    fn no_bytes_make_the_log_panic() {
        for (name, seed) in seeds() {
            match name {
                "log_record" => mutations(log_record, &seed, 20_000),
                "log_file" => mutations(log_file, &seed, 4_000),
                _ => mutations(checkpoint, &seed, 4_000),
            }
        }
    }
}

/// A table beside live ones that cannot be used would acknowledge what no log has.
#[test]
fn where_the_log_cannot_be_used_no_table_is_made() {
    let whole = make(UPDATES);
    let checkpoint = whole.bytes(CHECKPOINT).unwrap();
    let newer = {
        let mut bytes = checkpoint.clone();
        bytes[8] = 9;
        let sum = stored(&bytes[..28]);
        bytes[28..32].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    let flipped = |place: usize| {
        let mut bytes = checkpoint.clone();
        bytes[place] ^= 1;
        bytes
    };
    let logs: Vec<_> = whole.files().into_iter().filter(|name| name.starts_with("log/")).collect();
    let ways = [Some(newer), Some(flipped(40)), Some(flipped(checkpoint.len() - 1)), None];
    for (number, way) in ways.into_iter().enumerate() {
        for log in [Log::Written, Log::Synced] {
            let disk = whole.snapshot();
            match &way {
                Some(bytes) => disk.replace(CHECKPOINT, bytes.clone()).unwrap(),
                None => disk.remove(&logs[0]).unwrap(),
            }
            let options = SessionOptions { log, ..options() };
            let session = Session::open(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
            assert!(!session.warnings().is_empty(), "{number}");
            for name in ["utxo", "another"] {
                let error = session.create_table(name, table_options()).unwrap_err();
                let kind = if number == 0 { Kind::Version } else { Kind::Corrupt };
                assert_eq!(error.kind(), kind, "{number} {name}: {error}");
            }
        }
    }
}
