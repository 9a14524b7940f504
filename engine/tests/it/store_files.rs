//! The bodies of the fuzz targets `manifest`, `session_file` and `append`: a session, and a file that is
//! appended to, around bytes whose checksums are repaired.

use std::sync::{Arc, OnceLock};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::raw::file::append::{AppendFile, Position, open_reader, scan};
use varvite::raw::format::checksum::stored;
use varvite::raw::format::header::FileKind;
use varvite::{Session, Verify};

use crate::story::{Act, Story, opening, options};

const MANIFEST: &str = "snapshots/one.snapshot";

/// A session with one snapshot.
fn store() -> Arc<MemoryDisk> {
    static STORE: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    let tell = || {
        let disk = MemoryDisk::seeded(1);
        let mut story = Story::new(Arc::clone(&disk) as Arc<dyn Disk>);
        let acts = [
            Act::Begin,
            Act::Create("a"),
            Act::Create("b"),
            Act::Update("a", 1, 90),
            Act::Update("b", 2, 20),
            Act::Union("d", &["a", "b", "a"], false),
            Act::Supply("d", 5_000),
            Act::Save("one", &["a", "d"]),
        ];
        for act in acts {
            story.act(act).expect("memory does not fail");
        }
        drop(story.stop());
        disk
    };
    STORE.get_or_init(tell).snapshot()
}

/// `bytes` with a last word that is the checksum of the rest.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some((rest, checksum)) = bytes.split_last_chunk_mut::<4>() {
        *checksum = stored(rest).to_le_bytes();
    }
    bytes
}

/// Opens everything there is; errors are fine.
fn open_all(disk: Arc<MemoryDisk>) {
    let Ok(session) = Session::open(disk, options()) else { return };
    let listed = session.list_snapshots().unwrap_or_default();
    for info in listed {
        for verify in [Verify::Quick, Verify::Full] {
            let Ok(snapshot) = session.open_snapshot(&info.name, &opening(verify)) else {
                continue;
            };
            for mut table in snapshot.tables {
                drop(table.get(b"key"));
                drop(table.update(varvite::Batch::new().insert(b"key", b"value")));
                drop(table.stats());
            }
        }
    }
}

pub fn manifest(bytes: &[u8]) {
    let disk = store();
    disk.replace(MANIFEST, repaired(bytes)).expect("memory takes it");
    open_all(disk);
}

pub fn session_file(bytes: &[u8]) {
    let disk = store();
    disk.replace("session", repaired(bytes)).expect("memory takes it");
    open_all(disk);
}

pub fn append(bytes: &[u8]) {
    let disk = MemoryDisk::seeded(1);
    disk.replace("log", bytes).expect("memory takes it");
    let Ok((reader, header)) = open_reader(&*disk, "log", FileKind::Session) else { return };
    let mut count = 0_u64;
    let scanned = scan(&*reader, header.identity, Position::start(), |_, _| {
        count += 1;
        Ok(())
    });
    let each = |_: Position, _: &[u8]| Ok(());
    let opened = AppendFile::open(&*disk, "log", FileKind::Session, Position::start(), each);
    assert_eq!(scanned.is_ok(), opened.is_ok(), "reading and writing judge alike");
    if let Ok(mut file) = opened {
        file.push(b"one more").expect("a short record");
        file.sync().expect("memory takes it");
        let mut again = 0;
        let (reader, header) = open_reader(&*disk, "log", FileKind::Session).expect("it was open");
        scan(&*reader, header.identity, Position::start(), |_, _| {
            again += 1;
            Ok(())
        })
        .expect("what was written is read");
        assert_eq!(again, count + 1);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::damage::mutations;
    use crate::golden::golden;
    use crate::story::assert_reopens;

    fn seed(name: &str) -> Vec<u8> {
        let file =
            store().open(name, varvite::disk::Mode::Read, varvite::disk::Access::Buffered).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        bytes
    }

    pub fn seeds() -> [(&'static str, Vec<u8>); 3] {
        [
            ("manifest", seed(MANIFEST)),
            ("session_file", seed("session")),
            ("append", crate::golden::appended()),
        ]
    }

    #[test]
    fn session_file_and_manifest_are_read_and_written_as_ever() {
        let disk = MemoryDisk::seeded(1);
        let mut story = Story::plain(Arc::clone(&disk) as Arc<dyn Disk>);
        let save = Act::Save("one", &["a", "b"]);
        for act in [Act::Begin, Act::Create("a"), Act::Create("b"), Act::Update("a", 1, 12), save] {
            story.act(act).unwrap();
        }
        let written = |name| disk.bytes(name).unwrap();
        let session = golden("session/seed-42.bin", &written("session"));
        let manifest = golden("snapshot/two-tables.bin", &written(MANIFEST));
        disk.replace("session", session).unwrap();
        disk.replace(MANIFEST, manifest).unwrap();
        let saved = story.stop();
        assert_reopens(&(disk as Arc<dyn Disk>), &[&saved], &"golden");
    }

    #[test]
    fn no_mutation_of_a_manifest_makes_a_session_panic() {
        mutations(manifest, &seed(MANIFEST), 20_000);
    }

    #[test]
    fn no_mutation_of_the_session_file_makes_a_session_panic() {
        mutations(session_file, &seed("session"), 20_000);
    }

    #[test]
    fn no_mutation_of_an_appended_file_makes_it_panic() {
        mutations(append, &crate::golden::appended(), 20_000);
    }
}
