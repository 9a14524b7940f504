//! The files in `golden/`: what earlier builds wrote is still read, and written again byte for byte.
//!
//! `VARVITE_WRITE_GOLDEN=1` writes them anew, and then, in a second run, the dumps in the documents that
//! show them. That is only right when a format changes before its first release.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use varvite::context::{Options, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk};
use varvite::error::Kind;
use varvite::raw::file::append::{AppendFile, Position};
use varvite::raw::format::hash::hash;
use varvite::raw::format::header::{FileKind, Header};
use varvite::raw::{
    EntryKind, EntryRef, Filter, FilterBuilder, Index, IndexBuilder, Manifest, Nearest, PAGE_BYTES,
    Page, PageBuilder, PagePacker, RangeFilter, RangeFilterBuilder, ReadOptions, Run, RunReader,
    Segment, SegmentBuilder, SegmentOptions, seal,
};
use varvite::table::check::check;
use varvite::table::inspect;
use varvite::table::repair::{RepairOptions, repair};
use varvite::{
    Batch, OpenSnapshot, Session, SessionOptions, SnapshotContent, TableOptions, Verify,
};

use crate::decoders::IDENTITY;
use crate::entries::{Entries, SALT, build, page_entries};
use crate::random::mix;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../golden").join(name)
}

/// The golden file `name`, which must hold `written`.
pub fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let path = path(name);
    // Not what is right already: in the second run the documents are read from it meanwhile.
    let is_right = std::fs::read(&path).is_ok_and(|bytes| bytes == written);
    if !is_right && std::env::var_os("VARVITE_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, written).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(bytes == written, "{name} is not written as it was");
    bytes
}

fn entry<'a>(kind: EntryKind, key: &'a [u8], value: &'a [u8]) -> EntryRef<'a> {
    EntryRef { kind, key, value }
}

/// The three entries of the worked example in `docs/format/page.md`.
fn example() -> [EntryRef<'static>; 3] {
    [
        entry(EntryKind::Insert, b"apple", b"red"),
        entry(EntryKind::Delete, b"grape", b""),
        entry(EntryKind::Upsert, b"lemon", b"+1"),
    ]
}

fn built_page(entries: &[EntryRef<'_>]) -> Vec<u8> {
    let (mut builder, mut page) = (PageBuilder::new(), vec![0; PAGE_BYTES]);
    for entry in entries {
        assert!(builder.add(&mut page, *entry));
    }
    builder.finish(&mut page, IDENTITY, 1);
    page
}

/// Of a segment whose pages are not packed.
fn segment_header() -> Header {
    Header { version: 3, ..Header::new(FileKind::Segment, IDENTITY, 42) }
}

/// Every seed for mutations: a decoder's name and good bytes for it.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut meta = varvite::raw::format::codec::Encoder::new();
    let segment = small_segment();
    let disk = MemoryDisk::seeded(1);
    disk.replace("s", segment.clone()).unwrap();
    Segment::recover(&*disk, "s", 7, Access::Buffered).unwrap().meta().encode(&mut meta);
    vec![
        (
            "header",
            Header { version: 3, ..Header::new(FileKind::Segment, IDENTITY, 42) }.encode().to_vec(),
        ),
        ("page", built_page(&example())),
        ("page", built_page(&variable())),
        ("page", built_page(&sharing())),
        ("page", large_page()),
        ("filter", filter().encode(IDENTITY, 1)),
        ("range_filter", range_filter().encode(IDENTITY, 1)),
        ("index", plain_index().encode(IDENTITY, 1)),
        ("index", tied_index().encode(IDENTITY, 1)),
        ("footer", segment[segment.len() - PAGE_BYTES..].to_vec()),
        ("segment_meta", meta.finish()),
        ("segment", segment),
        ("segment", packed_segment()),
        ("packed_pages", packed_pages()),
        ("segment_meta", blob_segment_meta()),
        ("blob", blobs().file("blob")),
    ]
}

fn variable() -> [EntryRef<'static>; 3] {
    [
        entry(EntryKind::Insert, b"a", b"one"),
        entry(EntryKind::Insert, b"ab", b"two"),
        entry(EntryKind::Insert, b"abcdefghij", b""),
    ]
}

/// Outputs of two transactions, as the document has them.
fn sharing() -> [EntryRef<'static>; 4] {
    [
        entry(EntryKind::Insert, b"transaction-1\0\0", b"red"),
        entry(EntryKind::Insert, b"transaction-1\0\x01", b"green"),
        entry(EntryKind::Delete, b"transaction-1\0\x02", b""),
        entry(EntryKind::Insert, b"transaction-2\0\0", b"blue"),
    ]
}

fn large_page() -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    let value: Vec<u8> = (0..5_000u32).map(|i| i as u8).collect();
    let large = entry(EntryKind::Insert, b"large", &value);
    assert_eq!(PageBuilder::new().finish_large(&mut page, large, IDENTITY, 1).len(), 923);
    page
}

fn filter() -> Filter {
    let mut builder = FilterBuilder::new(10);
    for entry in example() {
        builder.add(hash(SALT, entry.key));
    }
    builder.finish(SALT).unwrap()
}

fn range_filter() -> RangeFilter {
    let mut builder = RangeFilterBuilder::default();
    for key in small_entries().keys() {
        builder.add(key);
    }
    builder.finish().unwrap()
}

fn plain_index() -> Index {
    let mut builder = IndexBuilder::new();
    builder.add(b"apple", b"", 0);
    builder.add(b"grape", b"fig", 0);
    builder.finish(b"lemon")
}

/// The second page overflows, and the third's first word is that of the key before it.
fn tied_index() -> Index {
    let mut builder = IndexBuilder::new();
    builder.add(b"key-aaaaaaaa-1", b"", 0);
    builder.add(b"key-bbbbbbbb-1", b"key-aaaaaaaa-2", 2);
    builder.add(b"key-bbbbbbbb-2", b"key-bbbbbbbb-1", 0);
    builder.finish(b"key-c")
}

fn small_entries() -> Entries {
    let copied = |entry: EntryRef<'_>| (entry.key.to_vec(), (entry.kind, entry.value.to_vec()));
    let value: Vec<u8> = (0..5_000u32).map(|i| i as u8).collect();
    let mut entries: Entries = example().into_iter().map(copied).collect();
    entries.insert(b"melon".to_vec(), (EntryKind::Insert, value));
    entries
}

/// A segment of the example's entries and one with an overflow page.
pub fn small_segment() -> Vec<u8> {
    let disk = MemoryDisk::seeded(1);
    build(&*disk, "s", &small_entries(), 10);
    disk.bytes("s").unwrap()
}

#[test]
fn headers() {
    let header = segment_header();
    let bytes = golden("header/segment.bin", &header.encode());
    assert_eq!(Header::decode("f", &bytes).unwrap(), header);
    // Those of no release so far, right in themselves.
    for (version, advice) in [(99, "use a newer release"), (0, "use a newer release"), (1, "load")]
    {
        let other = Header { version, ..header }.encode();
        let error = Header::decode("f", &other).unwrap_err();
        assert_eq!(error.kind(), Kind::Version);
        assert!(error.detail().contains(advice), "{error}");
    }
}

#[test]
fn pages() {
    let pages = [
        ("page/fixed.bin", &example()[..], false),
        ("page/variable.bin", &variable(), false),
        ("page/shared.bin", &sharing(), true),
    ];
    for (name, entries, shares) in pages {
        let bytes = golden(name, &built_page(entries));
        let page = Page::check("f", 1, IDENTITY, &bytes).unwrap();
        let expected = entries.iter().map(|it| (it.key.to_vec(), (it.kind, it.value.to_vec())));
        assert_eq!(page_entries(&page), expected.collect::<Vec<_>>());
        assert_eq!(page.shares(), shares);
    }
    let bytes = golden("page/large.bin", &large_page());
    let page = Page::check("f", 1, IDENTITY, &bytes).unwrap();
    assert_eq!((page.overflow(), page.large_value_bytes()), (1, 5_000));
}

#[test]
fn filters() {
    let bytes = golden("filter/ten-bits.bin", &filter().encode(IDENTITY, 1));
    let filter = Filter::decode("f", 1, IDENTITY, &bytes).unwrap();
    assert!(example().iter().all(|entry| filter.probe(hash(SALT, entry.key))));
    assert!(!filter.probe(hash(SALT, b"durian")));
}

#[test]
fn range_filters() {
    let bytes = golden("filter/ranges.bin", &range_filter().encode(IDENTITY, 1));
    let filter = RangeFilter::decode("f", 1, IDENTITY, &bytes).unwrap();
    assert_eq!(filter, range_filter());
    assert!(small_entries().keys().all(|key| filter.may_hold(key)));
    // From `banana` on nothing comes before `g`, and from `jam` back nothing is behind `g`.
    let head = |nearest| match nearest {
        Nearest::Here => 0,
        Nearest::Head(head) => head >> 56,
    };
    assert_eq!(head(filter.at_or_after(b"banana")), u64::from(b'g'));
    assert_eq!(head(filter.at_or_before(b"jam")), u64::from(b'g'));
}

#[test]
fn indexes() {
    let bytes = golden("index/plain.bin", &plain_index().encode(IDENTITY, 1));
    let index = Index::decode("f", 1, IDENTITY, &bytes).unwrap();
    assert_eq!(index, plain_index());
    assert_eq!(index.find(b"banana").unwrap().page, 1);
    let bytes = golden("index/tied.bin", &tied_index().encode(IDENTITY, 1));
    let index = Index::decode("f", 1, IDENTITY, &bytes).unwrap();
    let span = index.find(b"key-bbbbbbbb-1").unwrap();
    assert_eq!((span.page, span.count, index.ties()), (2, 3, 2));
    assert_eq!(index.find(b"key-bbbbbbbb-2").unwrap().page, 5);
}

#[test]
fn segments() {
    let bytes = golden("segment/small.bin", &small_segment());
    let disk = MemoryDisk::seeded(1);
    disk.replace("s", bytes.clone()).unwrap();
    let segment = Segment::recover(&*disk, "s", 1, Access::Buffered).unwrap();
    let run = Run::new(vec![segment.into()]);
    let mut reader = RunReader::new(&run, None, ReadOptions::default()).unwrap();
    for (key, (kind, value)) in small_entries() {
        assert_eq!(reader.peek(), Some(entry(kind, &key, &value)));
        reader.advance().unwrap();
    }
    assert_eq!(reader.peek(), None);
    let outline = inspect::segment("small.bin", &bytes).to_string();
    golden("segment/small.outline.txt", format!("{outline}\n").as_bytes());
}

/// The same entries in packed pages.
fn packed_segment() -> Vec<u8> {
    let disk = MemoryDisk::seeded(1);
    let options = SegmentOptions {
        id: 1,
        identity: IDENTITY,
        store: 0x0570_4e00,
        salt: SALT,
        bits_per_entry: 10,
        range_filter: true,
        access: Access::Buffered,
    };
    let mut builder = SegmentBuilder::new(&*disk, "s", options).unwrap();
    builder.pack();
    for (key, (kind, value)) in &small_entries() {
        builder.add(entry(*kind, key, value)).unwrap();
    }
    builder.finish().unwrap();
    disk.bytes("s").unwrap()
}

/// Pages as the fuzz target takes them: how many, their stored lengths, what is stored of each.
fn packed_pages() -> Vec<u8> {
    let mut packer = PagePacker::default();
    let noise = (0..512).flat_map(|number| mix(number).to_le_bytes()).collect();
    let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
    for (number, mut page) in (1..).zip([built_page(&example()), built_page(&sharing()), noise]) {
        seal(&mut page, IDENTITY, number);
        let stored = packer.pack(&page);
        lengths.extend((stored.len() as u16).to_le_bytes());
        bytes.extend_from_slice(stored);
    }
    [&[3], &lengths[..], &bytes].concat()
}

#[test]
fn packed_segments() {
    let bytes = golden("segment/packed.bin", &packed_segment());
    assert_eq!(Header::decode("f", &bytes).unwrap().version, 4);
    let disk = MemoryDisk::seeded(1);
    disk.replace("s", bytes.clone()).unwrap();
    let segment = Segment::recover(&*disk, "s", 1, Access::Buffered).unwrap();
    let run = Run::new(vec![segment.into()]);
    let mut reader = RunReader::new(&run, None, ReadOptions::default()).unwrap();
    for (key, (kind, value)) in small_entries() {
        assert_eq!(reader.peek(), Some(entry(kind, &key, &value)));
        reader.advance().unwrap();
    }
    assert_eq!(reader.peek(), None);
    let outline = inspect::segment("packed.bin", &bytes).to_string();
    golden("segment/packed.outline.txt", format!("{outline}\n").as_bytes());
}

/// What the version before wrote is read, and built anew in this version with the same entries.
#[test]
fn segments_of_version_2_are_read() {
    let bytes = std::fs::read(path("segment/version-2.bin")).unwrap();
    assert_eq!(Header::decode("f", &bytes).unwrap().version, 2);
    let disk = MemoryDisk::seeded(1);
    disk.replace("s", bytes.clone()).unwrap();
    let segment = Segment::recover(&*disk, "s", 1, Access::Buffered).unwrap();
    let run = Run::new(vec![segment.into()]);
    let mut reader = RunReader::new(&run, None, ReadOptions::default()).unwrap();
    let mut found = Entries::new();
    while let Some(entry) = reader.peek() {
        found.insert(entry.key.to_vec(), (entry.kind, entry.value.to_vec()));
        reader.advance().unwrap();
    }
    assert_eq!(found, small_entries());
    // Nothing shares in it, so pages and filter are written as they were; a range filter follows now.
    let pages = PAGE_BYTES..5 * PAGE_BYTES;
    assert_eq!(bytes[pages.clone()], small_segment()[pages]);
    assert_eq!(inspect::segment("version-2.bin", &bytes).damage_count(), 0);
}

/// A store of the version before is opened, read and merged, and what merges write is of this version.
#[test]
fn a_store_with_segments_of_version_2_goes_on() {
    // The first output of each transaction comes before, so that no pages share then, the others after.
    let key = |number: u64| {
        [&mix(number % 600).to_be_bytes().repeat(4), &[(number / 600) as u8][..]].concat()
    };
    let disk = MemoryDisk::seeded(1);
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let options = TableOptions { write_buffer_bytes: 4_000, ..TableOptions::default() };
    let session = Session::create(shared(), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", options).unwrap();
    for number in 0..600 {
        table.update(Batch::new().insert(&key(number), b"before")).unwrap();
    }
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop(table);
    session.close().unwrap();
    let versions = || -> Vec<u16> {
        let files = disk.files().into_iter().filter(|name| name.ends_with(".segment"));
        files
            .map(|name| Header::decode("f", &disk.bytes(&name).unwrap()).unwrap().version)
            .collect()
    };
    for name in disk.files().into_iter().filter(|name| name.ends_with(".segment")) {
        let mut bytes = disk.bytes(&name).unwrap();
        let header = Header { version: 2, ..Header::decode("f", &bytes).unwrap() };
        bytes[..32].copy_from_slice(&header.encode());
        seal(&mut bytes[..PAGE_BYTES], header.identity, 0);
        disk.replace(&name, bytes).unwrap();
    }
    assert!(versions().len() > 3 && versions().iter().all(|&version| version == 2));

    let session = Session::open(shared(), SessionOptions::default()).unwrap();
    let full = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
    let mut table = session.open_snapshot("s", &full).unwrap().take("t").unwrap();
    session.delete_snapshot("s").unwrap();
    for number in 600..2_400 {
        let mut batch = Batch::new();
        batch.insert(&key(number), b"after");
        if number.is_multiple_of(3) {
            batch.delete(&key(number - 600));
        }
        table.update(&batch).unwrap();
    }
    let expected = |number: u64| match number {
        1_800.. => Some(&b"after"[..]),
        _ if number.is_multiple_of(3) => None,
        600.. => Some(&b"after"[..]),
        _ => Some(&b"before"[..]),
    };
    for number in 0..2_400 {
        assert_eq!(table.get(&key(number)).unwrap().as_deref(), expected(number), "{number}");
    }
    let bound = (0..2_400).filter(|&number| expected(number).is_some()).count();
    assert_eq!((table.iter().count(), table.iter().rev().count()), (bound, bound));
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("both", content).unwrap();
    drop(table);
    session.close().unwrap();
    let files = || disk.files().into_iter().filter(|name| name.ends_with(".segment"));
    let shares = files().any(|name| {
        let outline = inspect::segment(&name, &disk.bytes(&name).unwrap()).to_string();
        outline.contains("sharing=") && !outline.contains("sharing=0 ")
    });
    assert!(versions().contains(&3) && shares, "{:?}", versions());

    // Both kinds in one store are checked and repaired.
    let target = MemoryDisk::seeded(2);
    let other = Arc::clone(&target) as Arc<dyn Disk>;
    assert!(check(&shared(), |_| ControlFlow::Continue(())).unwrap().findings.is_empty());
    let repaired = repair(&shared(), &other, &RepairOptions::default()).unwrap();
    assert!(repaired.losses.is_empty());
    let session = Session::open(other, SessionOptions::default()).unwrap();
    let table = session.open_snapshot("both", &full).unwrap().take("t").unwrap();
    assert_eq!(table.iter().count(), bound);
}

/// What a newer release wrote is no damage: nobody may be led to repair it away.
#[test]
fn a_segment_of_a_newer_release_is_not_called_damaged() {
    let Blobs(disk) = blobs();
    let name = disk.files().into_iter().find(|name| name.ends_with(".segment")).unwrap();
    let mut bytes = disk.bytes(&name).unwrap();
    let header = Header { version: 5, ..Header::decode("f", &bytes).unwrap() };
    bytes[..32].copy_from_slice(&header.encode());
    seal(&mut bytes[..PAGE_BYTES], header.identity, 0);
    disk.replace(&name, bytes).unwrap();
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let target = MemoryDisk::seeded(2);
    let other = || Arc::clone(&target) as Arc<dyn Disk>;
    let skipping = RepairOptions { skip_damaged: true, ..RepairOptions::default() };
    for error in [
        check(&shared(), |_| ControlFlow::Continue(())).map(drop).unwrap_err(),
        repair(&shared(), &other(), &RepairOptions::default()).map(drop).unwrap_err(),
        repair(&shared(), &other(), &skipping).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Version, "{error}");
        assert!(error.detail().contains("newer release"), "{error}");
    }
}

/// A session with a snapshot whose table has two values in a blob file and one in the run.
struct Blobs(Arc<MemoryDisk>);

fn blobs() -> Blobs {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions { seed: Some(7), ..SessionOptions::default() };
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let options = TableOptions { blob_min_bytes: Some(32), ..TableOptions::default() };
    let mut table = session.create_table("contracts", options).unwrap();
    let mut batch = Batch::new();
    for (key, value) in large_and_small() {
        batch.insert(key, value);
    }
    table.update(&batch).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("blobs", content).unwrap();
    Blobs(disk)
}

fn large_and_small() -> [(&'static [u8], &'static [u8]); 3] {
    let values: [&[u8]; 3] = [&[0xab; 40], b"short", b"a value of more than 32 bytes in a file"];
    [(b"code", values[0]), (b"nonce", values[1]), (b"storage", values[2])]
}

impl Blobs {
    /// The only file whose name ends so.
    fn file(&self, end: &str) -> Vec<u8> {
        let names: Vec<_> = self.0.files().into_iter().filter(|it| it.ends_with(end)).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        self.0.bytes(&names[0]).unwrap()
    }
}

/// A segment with a blob file, as a manifest describes it.
fn blob_segment_meta() -> Vec<u8> {
    let manifest = Manifest::decode("s", &blobs().file(".snapshot")).unwrap();
    let mut meta = varvite::raw::format::codec::Encoder::new();
    manifest.segments().next().unwrap().encode(&mut meta);
    meta.finish()
}

#[test]
fn blob_files_with_their_segments_and_manifests() {
    let written = blobs();
    let disk = MemoryDisk::seeded(1);
    for folder in ["segments", "snapshots"] {
        disk.create_directory(folder).unwrap();
    }
    let is_read = |name: &String| name != "lock" && !name.contains(".saved");
    for name in written.0.files().into_iter().filter(is_read) {
        let (_, kind) = name.rsplit_once('.').unwrap_or(("", "session"));
        let golden_name = match kind {
            "blob" => "blob/small.bin",
            "session" => "session/seed-7.bin",
            kind => &format!("{kind}/blobs.bin"),
        };
        disk.replace(&name, golden(golden_name, &written.0.bytes(&name).unwrap())).unwrap();
    }
    let outline = inspect::blob("small.bin", &written.file(".blob"));
    golden("blob/small.outline.txt", format!("{outline}\n").as_bytes());
    assert_eq!(outline.damage_count(), 0);
    let session = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    let options = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
    let table = session.open_snapshot("blobs", &options).unwrap().take("contracts").unwrap();
    for (key, value) in large_and_small() {
        assert_eq!(table.get(key).unwrap().as_deref(), Some(value));
    }
    let stats = table.stats().unwrap();
    assert_eq!((stats.blob_files, stats.blob_bytes, stats.blob_disk_bytes), (1, 79, 12_288));
}

/// A file with two groups of records, each synced.
pub fn appended() -> Vec<u8> {
    let disk = MemoryDisk::seeded(1);
    let header = Header::new(FileKind::Session, 0x1234_5678, 9);
    let mut file = AppendFile::create(&*disk, "log", header).unwrap();
    file.push(b"first").unwrap();
    file.push(b"").unwrap();
    file.sync().unwrap();
    file.push(b"third record").unwrap();
    file.sync().unwrap();
    disk.bytes("log").unwrap()
}

#[test]
fn appended_files() {
    let bytes = golden("append/three-records.bin", &appended());
    let disk = MemoryDisk::seeded(1);
    disk.replace("log", bytes).unwrap();
    let mut found = Vec::new();
    let each = |at: Position, payload: &[u8]| {
        found.push((at.sequence, payload.to_vec()));
        Ok(())
    };
    AppendFile::open(&*disk, "log", FileKind::Session, Position::start(), each).unwrap();
    let expected = [(0, &b"first"[..]), (1, b""), (2, b"third record")];
    assert_eq!(found, expected.map(|(sequence, payload)| (sequence, payload.to_vec())));
}

/// A document whose dumps show the files as they are, in lines of as many bytes as before. What a file
/// has more of stays hidden, for the author to show.
fn with_new_dumps(text: &str) -> String {
    let mut blocks = text.split("```hex ");
    let mut written = blocks.next().unwrap().to_owned();
    for block in blocks {
        let (name, rest) = block.split_once('\n').unwrap();
        let (dump, rest) = rest.split_once("```").unwrap();
        let bytes = std::fs::read(path(name)).unwrap();
        written.extend(["```hex ", name, "\n"]);
        for line in dump.lines() {
            let (offset, listed) = line.split_once(": ").unwrap();
            let at = usize::from_str_radix(offset, 16).unwrap().min(bytes.len());
            let end = (at + listed.split(' ').count()).min(bytes.len());
            let listed: Vec<_> = bytes[at..end].iter().map(|it| format!("{it:02x}")).collect();
            if !listed.is_empty() {
                written.extend([offset, ": ", &listed.join(" "), "\n"]);
            }
        }
        written.extend(["```", rest]);
    }
    written
}

/// The hexadecimal examples in the format documents are the golden files.
#[test]
fn documents_show_the_golden_files() {
    let mut shown = Vec::new();
    let nouns = [
        "append",
        "header",
        "page",
        "filter",
        "index",
        "segment",
        "blob",
        "session",
        "snapshot",
        "pack",
        "control",
        "sparse",
        "context-snapshot",
        "import-state",
        "hash-index",
        "log",
        "checkpoint",
        "trace",
        "irmin-pack",
    ];
    for noun in nouns {
        let document = path(&format!("../docs/format/{noun}.md"));
        let mut text = std::fs::read_to_string(&document).unwrap();
        if std::env::var_os("VARVITE_WRITE_GOLDEN").is_some() {
            text = with_new_dumps(&text);
            std::fs::write(&document, &text).unwrap();
        }
        for block in text.split("```hex ").skip(1) {
            let (name, rest) = block.split_once('\n').unwrap();
            let bytes = std::fs::read(path(name)).unwrap();
            let mut described = vec![false; bytes.len()];
            for line in rest.split_once("```").unwrap().0.lines() {
                let (offset, listed) = line.split_once(": ").unwrap();
                let offset = usize::from_str_radix(offset, 16).unwrap();
                for (at, byte) in (offset..).zip(listed.split(' ')) {
                    assert_eq!(u8::from_str_radix(byte, 16).unwrap(), bytes[at], "{name} {at:#x}");
                    described[at] = true;
                }
            }
            let hidden = (0..bytes.len()).filter(|&at| !described[at] && bytes[at] != 0).count();
            // A segment is shown in parts, the other files whole.
            assert!(hidden == 0 || noun == "segment", "{name}: {hidden} bytes are not shown");
            shown.push(name.to_owned());
        }
    }
    assert_eq!(shown.len(), 33, "{shown:?}");
}

/// Files of the version before, whose headers have unmasked checksums.
#[test]
fn files_of_the_version_before_are_refused_with_the_way_out() {
    let read = |name: &str| std::fs::read(path(&format!("header/before-{name}.bin"))).unwrap();
    let disk = MemoryDisk::seeded(1);
    for folder in ["segments", "snapshots", "log"] {
        disk.create_directory(folder).unwrap();
    }
    disk.replace("session", read("table")).unwrap();
    disk.replace("segments/0000000000000001.segment", b"still there").unwrap();
    let before = disk.files();
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    for outcome in [
        Session::open(shared(), SessionOptions::default()).map(drop),
        Session::open_read_only(shared(), SessionOptions::default()).map(drop),
        varvite::table::check::check(&shared(), |_| std::ops::ControlFlow::Continue(())).map(drop),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), Kind::Version);
        assert_eq!(
            error.detail(),
            "session is a session of version 1, which an earlier development version wrote; this \
             release reads version 2: dump each table with the version that wrote it (`varvite \
             table dump`), and load what it printed with this one (`varvite table load`)"
        );
    }
    assert_eq!(disk.files(), before, "nothing is written or removed");

    let disk = MemoryDisk::seeded(1);
    disk.replace("control", read("context")).unwrap();
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    for outcome in [
        Store::open(shared(), Options::default()).map(drop),
        Store::open_read_only(shared(), Options::default()).map(drop),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), Kind::Version);
        assert_eq!(
            error.detail(),
            "control is a control of version 1, which an earlier development version wrote; this \
             release reads versions 2 to 4: make the context again with this release, with `varvite \
             replay` or `varvite context migrate`"
        );
    }
    // Damage of such a file is damage.
    let mut bytes = read("table");
    bytes[20] ^= 1;
    assert_eq!(Header::decode("session", &bytes).unwrap_err().kind(), Kind::Corrupt);
}
