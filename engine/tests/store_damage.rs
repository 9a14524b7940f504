//! A small store, damaged everywhere: the right answer or an error that names the damage, never a wrong
//! answer, a panic, or an allocation out of proportion. The same of proofs in JSON, which anybody may send.
//! A binary of its own, for its counting allocator.
#![allow(clippy::unwrap_used)]

#[path = "store_damage/allocations.rs"]
mod allocations;
#[path = "store_damage/commit_files.rs"]
mod commit_files;
#[path = "store_damage/context.rs"]
mod context;
#[path = "it/context_story.rs"]
#[allow(dead_code)]
mod context_story;
#[path = "it/model"]
#[allow(dead_code)]
mod model {
    pub mod context;
    pub mod table;
}
#[path = "store_damage/packed.rs"]
mod packed;
#[path = "store_damage/proofs.rs"]
mod proofs;
#[path = "it/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "store_damage/repairs.rs"]
mod repairs;
#[path = "it/setup.rs"]
#[allow(dead_code)]
mod setup;
#[path = "it/story.rs"]
#[allow(dead_code)]
mod story;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::irmin_pack as irmin;
use varvite::table::check::{Finding, check};
use varvite::{Error, Kind, Session, SnapshotContent, TableOptions, Verify, View};

use allocations::LARGEST;
use story::{SETUP, opening, options};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What is paid of the union: one segment and a little more.
const UNION_CREDITS: u64 = 3_500;

/// A table of a run, a sealed write buffer that is written out and the base of the next, a half-done
/// union of it with itself, and a manifest, in about 100 KiB, most of which fills pages up.
fn store() -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
    let options = TableOptions { write_buffer_bytes: 2_500, ..SETUP.table_options() };
    let mut table = session.create_table("t", options).unwrap();
    for round in 0..4_u64 {
        let mut batch = varvite::Batch::new();
        for index in 0..20 {
            let key = SETUP.key((index * 3 + round * 11) % SETUP.key_count);
            let value = format!("round {round}, number {index}");
            // Two values are long enough for a blob file.
            let times = if round == 0 && index < 2 { 5 } else { 1 };
            batch.insert(&key, value.repeat(times).as_bytes());
        }
        batch.delete(&SETUP.key(round));
        table.update(&batch).unwrap();
    }
    // Opened again it has a base, which otherwise the union and the snapshot would each write.
    let content = SnapshotContent { label: "ledger", payload: b"", tables: &[&table] };
    session.save_snapshot("before", content).unwrap();
    let table = session.open_snapshot("before", &opening(Verify::Quick)).unwrap().tables.remove(0);
    session.delete_snapshot("before").unwrap();
    let mut union = session.incremental_union("union", &[&table, &table]).unwrap();
    union.supply_union_credits(UNION_CREDITS).unwrap();
    assert!(union.remaining_union_debt() > 0);
    let tables = [&table, &union];
    let content = SnapshotContent { label: "ledger", payload: b"payload", tables: &tables };
    session.save_snapshot("one", content).unwrap();
    assert!(table.stats().unwrap().blob_files > 0);
    drop((table, union));
    session.close().unwrap();
    disk
}

/// All that a reader gets out of the store.
fn answers(disk: &Arc<MemoryDisk>) -> Result<(String, Vec<u8>, Entries), Error> {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let session = Session::open_read_only(disk, options())?;
    let snapshot = session.open_snapshot("one", &opening(Verify::Quick))?;
    let mut entries = Vec::new();
    for table in &snapshot.tables {
        entries.extend(entries_of(&table.view())?);
    }
    Ok((snapshot.label, snapshot.payload, entries))
}

/// Each entry forward, backward and by its key.
fn entries_of(view: &View) -> Result<Entries, Error> {
    let entries = view.iter().map(|entry| entry.map(|(key, value)| (key.into(), value.into())));
    let entries = entries.collect::<Result<Entries, Error>>()?;
    let mut keys: Vec<Vec<u8>> =
        view.iter().keys().rev().map(|key| key.map(Vec::from)).collect::<Result<_, Error>>()?;
    keys.reverse();
    assert!(keys.iter().eq(entries.iter().map(|(key, _)| key)), "keys alone differ");
    let mut cursor = view.cursor(Bound::Unbounded, Bound::Unbounded)?;
    cursor.seek_last();
    for (key, value) in entries.iter().rev() {
        assert_eq!(cursor.previous()?, Some((&key[..], &value[..])), "backward differs");
    }
    let keys: Vec<_> = (0..SETUP.key_count).map(|index| SETUP.key(index)).collect();
    let found = view.lookup(&keys)?;
    let map: BTreeMap<_, _> = entries.iter().cloned().collect();
    for (key, found) in keys.iter().zip(found.iter()) {
        assert_eq!(found, map.get(key).map(|value| &value[..]), "lookup differs from range");
    }
    Ok(entries)
}

/// Which bits of byte `at` of a file of `length` bytes are flipped, one after the other: all of headers,
/// of footers as far as they have fields, and of manifests; one of the rest, zeros that fill pages up too.
fn bits(name: &str, at: usize, length: usize) -> std::ops::Range<u32> {
    let has_pages = name.starts_with("segments/");
    let footer = length.saturating_sub(4_096);
    let in_footer = (footer..footer + 128).contains(&at) || at + 4 >= length;
    let special = !has_pages || at < 128 || in_footer;
    let bit = at as u32 % 8;
    if special { 0..8 } else { bit..bit + 1 }
}

/// Whether byte `at` is one of the zeros that fill a page up behind a filter or an index. Other pages
/// end in a checksum.
fn fills_up(bytes: &[u8], at: usize) -> bool {
    let end = (at + 1).next_multiple_of(4_096).min(bytes.len());
    bytes[at..end].iter().all(|byte| *byte == 0)
}

/// What is wrong with the store, by its own word.
fn findings(disk: &Arc<MemoryDisk>) -> Result<Vec<Finding>, Error> {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    Ok(check(&disk, |_| ControlFlow::Continue(()))?.findings)
}

/// The store with one file replaced gives the right answer or a fitting error.
fn assert_detected(
    sound: &MemoryDisk,
    name: &str,
    bytes: Vec<u8>,
    expected: &(String, Vec<u8>, Entries),
    what: &dyn std::fmt::Debug,
) -> bool {
    let disk = sound.snapshot();
    disk.replace(name, bytes).unwrap();
    match answers(&disk) {
        Ok(found) => {
            assert!(found == *expected, "{name}, {what:?}: a wrong answer");
            false
        }
        Err(error) => {
            let kinds = [Kind::Corrupt, Kind::Version, Kind::Invalid];
            assert!(kinds.contains(&error.kind()), "{name}, {what:?}: {error:?}");
            assert!(error.detail().contains(name), "{name}, {what:?}: does not name it: {error}");
            true
        }
    }
}

/// The files that say something by their bytes.
fn files_with_bytes(disk: &MemoryDisk) -> Vec<String> {
    let bytes = |name: &String| disk.bytes(name).unwrap().len();
    disk.files().into_iter().filter(|name| name != "lock" && bytes(name) > 0).collect()
}

#[test]
fn damage_anywhere_is_told_or_does_no_harm() {
    let sound = store();
    let expected = answers(&sound).unwrap();
    LARGEST.set(0);
    answers(&sound).unwrap();
    let usual = LARGEST.get();
    let files = files_with_bytes(&sound);
    assert!(files.len() >= 4 && sound.total_bytes() < 100_000, "{files:?} {}", sound.total_bytes());
    let (mut told, mut unread, mut filling, mut cuts) = (0, 0, 0, 0);
    for name in &files {
        let bytes = sound.bytes(name).unwrap();
        for at in 0..bytes.len() {
            for bit in bits(name, at, bytes.len()) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                LARGEST.set(0);
                let was_told =
                    assert_detected(&sound, name, damaged.clone(), &expected, &(at, bit));
                let largest = LARGEST.get();
                assert!(largest <= 4 * usual + (256 << 10), "{name} {at} {bit}: {largest} bytes");
                if was_told {
                    told += 1;
                } else if fills_up(&bytes, at) {
                    filling += 1;
                } else {
                    // Who reads everything must meet it.
                    unread += 1;
                    let disk = sound.snapshot();
                    disk.replace(name, damaged).unwrap();
                    let found = findings(&disk).unwrap();
                    let is_found = found.iter().any(|finding| finding.file.contains(name));
                    assert!(is_found, "{name} {at} {bit}: neither reader nor check tells");
                }
            }
        }
        for length in 0..bytes.len() {
            assert_detected(&sound, name, bytes[..length].to_vec(), &expected, &length);
            cuts += 1;
        }
    }
    println!(
        "{told} told, {unread} found by the check alone, {filling} in zeros that fill pages up, {cuts} cuts; \
         usual largest allocation {usual} bytes"
    );
    // Readers leave out filters that no lookup asks, and lists of blob files, each with a page of its
    // own, which manifests have too.
    assert!(told > 50_000 && unread < told / 3, "{told} {unread}");
}

#[test]
fn the_check_finds_every_damaged_byte_and_changes_nothing() {
    let sound = store();
    let expected = answers(&sound).unwrap();
    assert_eq!(findings(&sound).unwrap(), Vec::new());
    for name in files_with_bytes(&sound) {
        let bytes = sound.bytes(&name).unwrap();
        for at in (0..bytes.len()).step_by(3) {
            let disk = sound.snapshot();
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            disk.replace(&name, damaged.clone()).unwrap();
            match findings(&disk) {
                Ok(found) => {
                    let told = found.iter().any(|finding| finding.file.contains(&name));
                    // Zeros that fill up a page after a filter or an index are nobody's.
                    let filling = bytes[at] == 0 && answers(&disk).is_ok_and(|it| it == expected);
                    assert!(told || filling, "{name} at {at}: {found:?}");
                }
                Err(error) => assert!(name == "session", "{name} at {at}: {error:?}"),
            }
            assert!(disk.bytes(&name).unwrap() == damaged, "the check wrote to {name}");
        }
    }
}

#[test]
fn nothing_is_removed_while_a_manifest_cannot_be_read() {
    let sound = store();
    let name = "snapshots/one.snapshot";
    let bytes = sound.bytes(name).unwrap();
    for at in 0..bytes.len() {
        let disk = sound.snapshot();
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        disk.replace(name, damaged).unwrap();
        let before = disk.files();
        let session = Session::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
        assert_eq!(session.warnings().len(), 1, "at {at}");
        let listed = session.list_snapshots().unwrap();
        assert!(listed[0].damage.is_some(), "at {at}: {listed:?}");
        session.close().unwrap();
        assert_eq!(disk.files(), before, "at {at}");
        // The manifest mended, everything is there.
        disk.replace(name, bytes.clone()).unwrap();
        answers(&disk).unwrap();
    }
}

/// The store of Irmin in `golden/`, which has no checksums: what a damaged length asks for is not taken.
#[test]
fn damage_of_a_store_of_irmin_takes_no_memory() {
    let sound = MemoryDisk::seeded(1);
    sound.create_directory("index").unwrap();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/irmin-pack");
    let files = ["store.control", "store.dict", "store.branches", "store.0.suffix", "index/log"];
    for file in files {
        sound.replace(file, std::fs::read(folder.join(file)).unwrap()).unwrap();
    }
    let read = |disk: &Arc<MemoryDisk>| -> Result<usize, Error> {
        let options = irmin::Options::default();
        let store = irmin::open(Arc::clone(disk) as Arc<dyn Disk>, &options)?;
        let mut values = 0;
        for commit in store.log(usize::MAX)? {
            let order = varvite::context::Order::Undefined;
            store.checkout(&commit)?.fold::<&[u8]>(&[], None, order, |_, tree| {
                values += usize::from(tree.to_value()?.is_some());
                Ok(())
            })?;
        }
        Ok(values)
    };
    LARGEST.set(0);
    assert_eq!(read(&sound).unwrap(), 8);
    let usual = LARGEST.get();
    for file in files {
        let bytes = sound.bytes(file).unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let disk = sound.snapshot();
                disk.replace(file, damaged).unwrap();
                LARGEST.set(0);
                let outcome = read(&disk);
                assert!(outcome.is_err() || outcome.unwrap() == 8, "{file} {at} {bit}");
                let largest = LARGEST.get();
                assert!(largest <= 2 * usual + (64 << 10), "{file} {at} {bit}: {largest} bytes");
            }
        }
    }
}
