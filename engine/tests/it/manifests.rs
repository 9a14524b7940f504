//! Golden manifests and session files, and manifests that are refused although their checksum is right.

use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::raw::format::header::{FileKind, Header};
use varvite::raw::{
    Counts, Footer, LevelRecord, Manifest, MergeRecord, RunRecord, SegmentMeta, TableRecord,
    UnionRecord, decode_session, encode_session,
};
use varvite::table::inspect;
use varvite::{
    Compression, Error, Kind, Lookups, Session, SessionOptions, SnapshotContent, TableOptions,
};

use crate::golden::golden;

/// A segment of one page and one entry a key byte, without a filter.
fn segment(id: u64, first: &str, last: &str) -> SegmentMeta {
    let counts = Counts { inserts: 2, key_bytes: 2, value_bytes: 6, ..Counts::default() };
    let footer = Footer {
        pages: 1,
        filter_page: 2,
        filter_bytes: 0,
        index_page: 2,
        index_bytes: 60,
        blob_files: 0,
        blob_crc: 0,
        bits_per_entry: 0,
        salt: 0x99,
        packed_bytes: 0,
        counts,
    };
    let (first_key, last_key) = (first.into(), last.into());
    SegmentMeta { id, identity: 0x1000 + id, footer, first_key, last_key, blobs: Vec::new() }
}

fn table(name: &str) -> TableRecord {
    TableRecord {
        name: name.to_owned(),
        write_buffer_bytes: 1 << 20,
        size_ratio: 4,
        lookups: Lookups::Mixed,
        filter_bits: 10,
        filter_bytes_max: 1 << 16,
        blob_min_bytes: 65_537,
        compression: Compression::None,
        operator: None,
        seals: 0,
        base: RunRecord::new(),
        levels: Vec::new(),
        last: RunRecord::new(),
        union: None,
    }
}

fn merge() -> MergeRecord {
    MergeRecord {
        debt: 200,
        spent: 40,
        due: 9 << 20,
        bottom: true,
        to_last: true,
        done: false,
        filter_bits: 0,
        boundary: Some(b"c".to_vec()),
        outputs: vec![segment(5, "a", "c")],
        inputs: vec![vec![segment(2, "b", "m")], vec![segment(3, "d", "k"), segment(4, "n", "p")]],
    }
}

/// Two tables that become one: some of the first is merged, and the second has two runs.
fn union() -> UnionRecord {
    let merging = MergeRecord {
        due: 3 << 20,
        outputs: vec![segment(9, "a", "c")],
        inputs: vec![
            vec![segment(2, "b", "m")],
            vec![segment(3, "d", "k"), segment(4, "n", "p")],
            vec![segment(10, "a", "z")],
        ],
        ..merge()
    };
    let after = vec![Some(b"c".to_vec()), Some(b"e".to_vec()), Some(b"c".to_vec())];
    UnionRecord { merging, ends: vec![1, 3, 3], after }
}

fn manifest(label: &str, payload: &[u8], tables: Vec<TableRecord>) -> Manifest {
    let header = Header::new(FileKind::Snapshot, 0x0bad_cafe, 42);
    let (name, label) = ("slot-42".to_owned(), label.to_owned());
    Manifest { header, name, sequence: 3, label, payload: payload.to_vec(), tables }
}

/// Two tables: one with a merge in progress, one with a write buffer, an operator and a last run.
fn tables() -> Manifest {
    let levels =
        vec![LevelRecord { runs: vec![vec![segment(6, "a", "z")]], merging: Some(merge()) }];
    let utxo = TableRecord { seals: 5, levels, lookups: Lookups::MostlyHit, ..table("utxo") };
    let stake = TableRecord {
        operator: Some("add-u64".to_owned()),
        base: vec![segment(7, "e", "f")],
        last: vec![segment(8, "g", "h")],
        ..table("stake")
    };
    manifest("ledger", b"", vec![utxo, stake])
}

/// A union that is pending, beside a table that is none.
fn united() -> Manifest {
    let levels = vec![LevelRecord { runs: vec![vec![segment(6, "a", "z")]], merging: None }];
    let both = TableRecord { seals: 2, levels, union: Some(union()), ..table("both") };
    manifest("ledger", b"", vec![table("utxo"), both])
}

#[test]
fn session_files() {
    let bytes = golden("session/session.bin", &encode_session(0x1dea, 0x99));
    assert_eq!(decode_session(&bytes).unwrap(), (0x1dea, 0x99));
    assert_eq!(inspect::session("session", &bytes).damage_count(), 0);
    for length in 0..bytes.len() {
        assert!(decode_session(&bytes[..length]).is_err());
        assert!(inspect::session("session", &bytes[..length]).damage_count() > 0, "{length}");
    }
    assert_eq!(decode_session(&[&bytes[..], b"x"].concat()).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn snapshots() {
    let rows = [
        ("snapshot/empty.bin", manifest("", b"", Vec::new())),
        ("snapshot/payload.bin", manifest("slot 42", b"\x00\x01at 42", vec![table("utxo")])),
        ("snapshot/tables.bin", tables()),
        ("snapshot/union.bin", united()),
    ];
    for (name, manifest) in rows {
        let bytes = golden(name, &manifest.encode());
        let decoded = Manifest::decode(name, &bytes).unwrap();
        assert_eq!(decoded, manifest);
        assert_eq!(decoded.encode(), bytes);
        let outline = inspect::snapshot(name, &bytes);
        assert_eq!(outline.damage_count(), 0, "{outline}");
        for length in 0..bytes.len() {
            assert!(Manifest::decode(name, &bytes[..length]).is_err(), "{length}");
            assert!(inspect::snapshot(name, &bytes[..length]).damage_count() > 0, "{length}");
        }
    }
    let outline = inspect::snapshot("tables.bin", &tables().encode()).to_string();
    golden("snapshot/tables.outline.txt", format!("{outline}\n").as_bytes());
    let outline = inspect::snapshot("union.bin", &united().encode()).to_string();
    golden("snapshot/union.outline.txt", format!("{outline}\n").as_bytes());
}

/// `tables()` with its first table changed.
fn changed(change: impl Fn(&mut TableRecord)) -> Result<Manifest, Error> {
    let mut manifest = tables();
    change(&mut manifest.tables[0]);
    Manifest::decode("m", &manifest.encode())
}

/// The same with its merge changed.
fn merging(change: impl Fn(&mut MergeRecord)) -> Result<Manifest, Error> {
    changed(|table| change(table.levels[0].merging.as_mut().unwrap()))
}

#[test]
fn what_cannot_be_is_refused_whatever_the_checksum_says() {
    let rows = [
        ("clock", changed(|table| table.seals = u64::MAX)),
        ("runs", changed(|table| table.levels[0].runs = vec![RunRecord::new(); 4])),
        ("place", changed(|table| table.levels.push(LevelRecord::default()))),
        ("two last runs", changed(|table| table.last = vec![segment(9, "a", "b")])),
        ("not last", merging(|merge| merge.to_last = false)),
        ("not bottom", merging(|merge| merge.bottom = false)),
        ("done", merging(|merge| merge.done = true)),
        ("boundary", merging(|merge| merge.boundary = None)),
        ("other boundary", merging(|merge| merge.boundary = Some(b"x".to_vec()))),
        ("inputs", merging(|merge| merge.inputs = vec![RunRecord::new(); 6])),
        ("spent", merging(|merge| merge.spent = u64::MAX)),
        ("debt", merging(|merge| merge.debt = u64::MAX)),
        ("bits", merging(|merge| merge.filter_bits = 25)),
        ("two of an id", merging(|merge| merge.inputs[0][0].id = 3)),
        ("id", merging(|merge| merge.inputs[0][0].id = u64::MAX)),
        ("counts", merging(|merge| merge.inputs[0][0].footer.counts.inserts = (1 << 48) - 1)),
        ("operator", merging(|merge| merge.inputs[0][0].footer.counts.upserts = 1)),
        ("order", merging(|merge| merge.inputs[1].swap(0, 1))),
        ("name", changed(|table| table.name = "stake".to_owned())),
        ("no name", changed(|table| table.name = String::new())),
    ];
    for (what, decoded) in rows {
        assert_eq!(decoded.map_err(|error| error.kind()).unwrap_err(), Kind::Corrupt, "{what}");
    }
    // A merge without inputs is one that only has to be finished.
    merging(|merge| merge.inputs.clear()).unwrap();
}

/// `united()` with its union changed.
fn uniting(change: impl Fn(&mut UnionRecord)) -> Result<Manifest, Error> {
    let mut manifest = united();
    change(manifest.tables[1].union.as_mut().unwrap());
    Manifest::decode("m", &manifest.encode())
}

#[test]
fn unions_that_cannot_be_are_refused() {
    let beside = |change: &dyn Fn(&mut TableRecord)| {
        let mut manifest = united();
        change(&mut manifest.tables[1]);
        Manifest::decode("m", &manifest.encode())
    };
    let level = |bottom, to_last| {
        let merging = MergeRecord { bottom, to_last, ..merge() };
        vec![LevelRecord { runs: Vec::new(), merging: Some(merging) }, LevelRecord::default()]
    };
    let rows = [
        ("end before", uniting(|union| union.ends[0] = 0)),
        ("end beyond", uniting(|union| union.ends[2] = 4)),
        ("empty run", uniting(|union| union.merging.inputs[1].clear())),
        ("not last", uniting(|union| union.merging.to_last = false)),
        ("not bottom", uniting(|union| union.merging.bottom = false)),
        ("done", uniting(|union| union.merging.done = true)),
        ("boundary", uniting(|union| union.merging.boundary = None)),
        ("spent", uniting(|union| union.merging.spent = u64::MAX)),
        ("upserts", uniting(|union| union.merging.inputs[2][0].footer.counts.upserts = 1)),
        ("last run", beside(&|table| table.last = vec![segment(11, "a", "b")])),
        ("merge at the bottom", beside(&|table| table.levels = level(true, false))),
        ("merge to last", beside(&|table| table.levels = level(true, true)[..1].to_vec())),
    ];
    for (what, decoded) in rows {
        assert_eq!(decoded.map_err(|error| error.kind()).unwrap_err(), Kind::Corrupt, "{what}");
    }
    beside(&|table| table.levels = level(false, false)).unwrap();
    let record = united().encode();
    // The section says which table it is about: there are two, in order, each once.
    let at = record.len() - 4 - section_bytes();
    assert_eq!(record[at..at + 3], [1, 1, 1]);
    for (place, byte) in [(0, 0), (0, 2), (1, 0), (1, 2), (2, 2), (2, 9)] {
        let mut bytes = record.clone();
        bytes[at + place] = byte;
        let end = bytes.len() - 4;
        let checksum = varvite::raw::format::checksum::stored(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Manifest::decode("m", &bytes).unwrap_err().kind(), Kind::Corrupt, "{place}");
    }
}

/// Bytes of the section of unions in `united()`.
fn section_bytes() -> usize {
    let mut without = united();
    without.tables[1].union = None;
    united().encode().len() - without.encode().len()
}

#[test]
fn the_smallest_tables_come_back() {
    let small = |name: &str| {
        let (write_buffer_bytes, size_ratio) = (64, 2);
        let (filter_bits, filter_bytes_max) = (0, 0);
        TableRecord { write_buffer_bytes, size_ratio, filter_bits, filter_bytes_max, ..table(name) }
    };
    let names = ["a", "b", "c", "d", "e"];
    let manifest = manifest("", b"", names.map(small).to_vec());
    assert_eq!(Manifest::decode("m", &manifest.encode()).unwrap(), manifest);
}

#[test]
fn a_missing_segment_is_not_replaced_by_a_new_one() {
    let disk = MemoryDisk::seeded(1);
    let open = || Session::open(Arc::clone(&disk) as Arc<dyn Disk>, SessionOptions::default());
    let session =
        Session::create(Arc::clone(&disk) as Arc<dyn Disk>, SessionOptions::default()).unwrap();
    let fill = |session: &Session, name: &str| {
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        table.update(varvite::Batch::new().insert(b"key", name.as_bytes())).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot(name, content).unwrap();
    };
    fill(&session, "one");
    session.close().unwrap();
    let lost = disk.files().into_iter().find(|name| name.ends_with(".segment")).unwrap();
    disk.remove(&lost).unwrap();
    let session = open().unwrap();
    fill(&session, "two");
    assert!(!disk.exists(&lost).unwrap());
    let opened = session.open_snapshot("one", &varvite::OpenSnapshot::default());
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.detail().starts_with(&*lost), "{error}");
}

#[test]
fn a_segment_given_up_is_written_over_and_gone_at_closing() {
    let disk = MemoryDisk::seeded(1);
    let session =
        Session::create(Arc::clone(&disk) as Arc<dyn Disk>, SessionOptions::default()).unwrap();
    let options = TableOptions { write_buffer_bytes: 10_000, ..TableOptions::default() };
    let segments = || disk.files().into_iter().filter(|name| name.ends_with(".segment"));
    let fill = || {
        let mut table = session.create_table("t", options.clone()).unwrap();
        for number in 0..150_u32 {
            let key = number.to_be_bytes();
            table.update(varvite::Batch::new().insert(&key, &[0; 80])).unwrap();
        }
        table
    };
    // The first buffer is on its way to disk, where it is given up, and the second table's after it.
    drop(fill());
    let first: Vec<_> = segments().collect();
    assert_eq!(first.len(), 1);
    drop(fill());
    let second: Vec<_> = segments().collect();
    assert_eq!(second.len(), 1);
    assert_ne!(first, second, "every segment has a name of its own");
    session.close().unwrap();
    assert_eq!(segments().count(), 0);
}

#[test]
fn a_save_always_has_a_later_one() {
    let with = |sequence| Manifest { sequence, ..manifest("", b"", Vec::new()) }.encode();
    for sequence in [1, (1 << 62) - 1] {
        assert_eq!(Manifest::decode("m", &with(sequence)).unwrap().sequence, sequence);
    }
    for sequence in [0, 1 << 62, (1 << 62) + 1, u64::MAX] {
        let error = Manifest::decode("m", &with(sequence)).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{sequence}");
    }
}
