//! Stores of Irmin that the project's data holds: read whole, compared with what is known of them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use varvite::context::{ChildOrder, CommitHash, Configuration, Order, Store, Tree, TreeHash};
use varvite::disk::memory::MemoryDisk;
use varvite::irmin_pack::{self as irmin, Schema};
use varvite::{Kind, Result};

use crate::binary::{text, varvite};

/// The 14 stores that the real Irmin made; in the last a collection was killed over its lower layer, and a
/// volume has more data than its control file knows of.
pub const STORES: [&str; 14] = [
    "empty",
    "minimal-simple",
    "always-simple",
    "mwc-simple",
    "minimal-edge",
    "minimal-bigdirs",
    "always-index-merged",
    "minimal-blocks",
    "gc-only",
    "gc-once",
    "chunked",
    "lower-empty",
    "lower-volumes",
    "gc-pending-lower",
];

/// A folder of the project's data, or `None` with a word about it. In CI it must be there.
pub fn data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(name);
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "CI needs {}", path.display());
    eprintln!("skipped: there is no {}", path.display());
    None
}

/// A copy of a folder in memory.
pub fn copy(folder: &Path) -> Arc<MemoryDisk> {
    fn walk(folder: &Path, name: &str, disk: &MemoryDisk) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{name}{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                varvite::disk::Disk::create_directory(disk, &path).unwrap();
                walk(&entry.path(), &format!("{path}/"), disk);
            } else {
                disk.replace(&path, std::fs::read(entry.path()).unwrap()).unwrap();
            }
        }
    }
    let disk = MemoryDisk::seeded(1);
    walk(folder, "", &disk);
    disk
}

/// One of the stores, in memory: its root, with the lower layer inside.
pub fn copy_store(folder: &Path) -> Arc<MemoryDisk> {
    let disk = copy(&folder.join("store"));
    let lower = folder.join("lower");
    if lower.is_dir() {
        varvite::disk::Disk::create_directory(&*disk, "lower").unwrap();
        let below = copy(&lower);
        for volume in std::fs::read_dir(&lower).unwrap() {
            let volume = volume.unwrap().file_name().into_string().unwrap();
            let path = format!("lower/{volume}");
            varvite::disk::Disk::create_directory(&*disk, &path).unwrap();
        }
        for file in below.files() {
            disk.replace(&format!("lower/{file}"), below.bytes(&file).unwrap()).unwrap();
        }
    }
    disk
}

pub fn open(disk: &Arc<MemoryDisk>, options: &irmin::Options) -> Result<Store> {
    irmin::open(Arc::clone(disk) as Arc<dyn varvite::disk::Disk>, options)
}

/// Every value by its path.
pub type Listing = BTreeMap<Vec<Vec<u8>>, Vec<u8>>;

pub fn listing(tree: &Tree) -> Result<Listing> {
    let mut all = Listing::new();
    tree.fold::<&[u8]>(&[], None, Order::Undefined, |path, tree| {
        if let Some(value) = tree.to_value()? {
            all.insert(path.to_vec(), value);
        }
        Ok(())
    })?;
    Ok(all)
}

fn bytes(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

pub fn hash<H: From<[u8; 32]>>(text: &str) -> H {
    let mut hash = [0; 32];
    hash[..text.len() / 2].copy_from_slice(&bytes(text));
    hash.into()
}

/// One commit as `expect.json.gz` has it.
pub struct Expected {
    pub hash: CommitHash,
    pub tree: TreeHash,
    pub parents: Vec<CommitHash>,
    pub date: i64,
    pub author: Vec<u8>,
    pub message: Vec<u8>,
    /// What its tree holds; none where garbage collection took it.
    pub listing: Option<Arc<Listing>>,
}

/// What is known of a store.
pub struct Expectations {
    pub commits: Vec<Expected>,
    pub branches: Vec<(Vec<u8>, CommitHash)>,
}

pub fn expectations(folder: &Path) -> Expectations {
    let packed = std::fs::File::open(folder.join("expect.json.gz")).unwrap();
    let mut json = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut json).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let string = |value: &Value| value.as_str().unwrap().to_owned();
    let pair = |pair: &Value| {
        let path = string(&pair[0]);
        (path.split('/').map(bytes).collect(), bytes(&string(&pair[1])))
    };
    let listings: BTreeMap<String, Arc<Listing>> = json["trees"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(root, all)| {
            (root.clone(), Arc::new(all.as_array().unwrap().iter().map(pair).collect()))
        })
        .collect();
    let commit = |commit: &Value| {
        let full = commit["readable"] == "full";
        assert!(full || commit["readable"] == "absent", "{commit}");
        let mut parents: Vec<_> =
            commit["parents"].as_array().unwrap().iter().map(|it| hash(&string(it))).collect();
        parents.sort_unstable();
        Expected {
            hash: hash(&string(&commit["hash"])),
            tree: hash(&string(&commit["tree"])),
            parents,
            date: string(&commit["date"]).parse().unwrap(),
            author: bytes(&string(&commit["author"])),
            message: bytes(&string(&commit["message"])),
            listing: full.then(|| Arc::clone(&listings[&string(&commit["tree"])])),
        }
    };
    let branches = json["branches"].as_object().unwrap().iter();
    Expectations {
        commits: json["commits"].as_array().unwrap().iter().map(commit).collect(),
        branches: branches
            .map(|(name, hash_text)| (name.clone().into_bytes(), hash(&string(hash_text))))
            .collect(),
    }
}

/// Whether what the store says of a commit is right: `Some` of an error, if there is one.
pub fn compare(store: &Store, expected: &Expected) -> Result<()> {
    let info = store.commit_info(&expected.hash)?;
    assert_eq!(info.hash, expected.hash);
    assert_eq!(info.tree, expected.tree);
    assert_eq!(info.parents, expected.parents);
    assert_eq!(info.date, expected.date);
    assert_eq!((&info.author, &info.message), (&expected.author, &expected.message));
    let tree = store.checkout(&expected.hash)?;
    assert_eq!(tree.hash()?, expected.tree);
    let found = listing(&tree)?;
    assert!(found == **expected.listing.as_ref().unwrap(), "another listing");
    Ok(())
}

#[test]
fn every_store_of_the_real_irmin_reads_as_it_was_written() {
    let Some(stores) = data("irmin-stores") else { return };
    for name in STORES {
        let folder = stores.join(name);
        let disk = copy_store(&folder);
        let before: Vec<_> =
            disk.files().iter().map(|file| (file.clone(), disk.bytes(file).unwrap())).collect();
        let expected = expectations(&folder);
        for verify in [irmin::Verify::Hashes, irmin::Verify::Trust] {
            let options = irmin::Options { verify, ..irmin::Options::default() };
            let store = open(&disk, &options).unwrap();
            assert_eq!(store.branches(), expected.branches, "{name}");
            let mut log = store.log(usize::MAX).unwrap();
            let newest = log.first().copied();
            assert_eq!(store.last_commit().unwrap(), newest, "{name}");
            let mut known = Vec::new();
            for commit in &expected.commits {
                if commit.listing.is_some() {
                    assert!(store.exists(&commit.hash).unwrap(), "{name}");
                    compare(&store, commit).unwrap_or_else(|error| panic!("{name}: {error}"));
                    known.push(commit.hash);
                } else {
                    assert!(!store.exists(&commit.hash).unwrap(), "{name}");
                    let error = store.checkout(&commit.hash).unwrap_err();
                    assert_eq!(error.kind(), Kind::Missing, "{name}: {error}");
                    assert!(error.to_string().contains("absent"), "{name}: {error}");
                }
            }
            log.sort_unstable();
            known.sort_unstable();
            assert_eq!(log, known, "{name}");
            assert_eq!(store.warnings(), [""; 0], "{name}");
            let checked = store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(checked.commits, known.len() as u64, "{name}");
            assert_eq!(checked.collected, (expected.commits.len() - known.len()) as u64, "{name}");
            assert_eq!((checked.index_faults, checked.missing), (vec![], vec![]), "{name}");
        }
        let after: Vec<_> =
            disk.files().iter().map(|file| (file.clone(), disk.bytes(file).unwrap())).collect();
        assert!(before == after, "{name} was written to");
    }
}

/// A store without its lower layer says that the layer is wanted.
#[test]
fn a_lower_layer_elsewhere_is_asked_for_and_taken() {
    let Some(stores) = data("irmin-stores") else { return };
    let folder = stores.join("lower-volumes");
    let expected = expectations(&folder);
    let upper = copy(&folder.join("store"));
    let store = open(&upper, &irmin::Options::default()).unwrap();
    let error = store.checkout(&expected.commits[0].hash).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing);
    assert!(error.to_string().contains("lower layer"), "{error}");
    compare(&store, expected.commits.last().unwrap()).unwrap();
    let lower = copy(&folder.join("lower"));
    let options = irmin::Options { lower: Some(lower), ..irmin::Options::default() };
    let store = open(&upper, &options).unwrap();
    for commit in &expected.commits {
        compare(&store, commit).unwrap();
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("s");
    copy_out(&upper, &moved);
    let first = Schema::Tezos.text(&expected.commits[0].hash);
    varvite(&["context", "tree", text(&moved), &first]).error(2, &["lower layer"]);
    let lower = folder.join("lower");
    varvite(&["context", "tree", text(&moved), &first, "--lower", text(&lower)]).yes();
}

/// Writes a folder in memory to one of the system.
pub fn copy_out(disk: &MemoryDisk, folder: &Path) {
    for file in disk.files() {
        let path = folder.join(&file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, disk.bytes(&file).unwrap()).unwrap();
    }
}

fn simple(pairs: &[(&str, &str)]) -> Listing {
    let path = |path: &str| path.split('/').map(|step| step.as_bytes().to_vec()).collect();
    pairs.iter().map(|(name, value)| (path(name), value.as_bytes().to_vec())).collect()
}

#[test]
fn the_samples_of_every_version_read_as_they_should() {
    let Some(samples) = data("irmin-pack-samples") else { return };
    let options = irmin::Options::default();
    let first = open(&copy(&samples.join("version_1")), &options).unwrap();
    let (bar, foo) = (first.branch(b"bar").unwrap(), first.branch(b"foo").unwrap());
    assert_eq!(bar, hash::<CommitHash>("14b2cdef4adbd60aac5ba915d540e8d9db1cdffb"));
    assert_eq!(foo, hash::<CommitHash>("c6ed25ff0bc10b7112c257998c0cbbe71982871c"));
    let tree = |hash| listing(&first.checkout(hash).unwrap()).unwrap();
    assert_eq!(tree(&bar), simple(&[("a/b/c", "z"), ("a/d", "x")]));
    assert_eq!(tree(&foo), simple(&[("b", "y")]));
    assert_eq!(first.check().unwrap().commits, 3);
    let empty = open(&copy(&samples.join("empty_store")), &options).unwrap();
    assert_eq!((empty.log(9).unwrap(), empty.last_commit().unwrap()), (vec![], None));

    let commit = hash("22e159de13b427226e5901defd17f0c14e744205");
    let orphan = hash("c9bfadf2d211aa6da8e2d00732628a0880b7ee98");
    for name in [
        "version_2_always",
        "version_2_minimal",
        "version_2_to_3_always",
        "version_3_always",
        "version_3_minimal",
        "version_3_minimal_gced",
    ] {
        let disk = copy(&samples.join(name));
        let store = open(&disk, &options).unwrap();
        assert_eq!(store.log(9).unwrap(), [commit], "{name}");
        let tree = store.checkout(&commit).unwrap();
        assert_eq!(listing(&tree).unwrap(), simple(&[("step-n01/step-b01", "b01")]), "{name}");
        let info = store.commit_info(&commit).unwrap();
        assert_eq!(
            info.tree,
            hash::<TreeHash>("fe0084f902d55464e9e6dbd82fb60fcf058bb6b1"),
            "{name}"
        );
        assert_eq!((info.date, info.author.len(), info.message.len()), (0, 0, 0), "{name}");
        let found = store.find_object(&orphan).unwrap();
        assert_eq!(found.is_some(), name.ends_with("always"), "{name}");
        store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        // Trees with other hashes than Tezos' are only read.
        let mut changed = tree.clone();
        changed.add(&["x"], b"y").unwrap();
        assert_eq!(changed.hash().unwrap_err().kind(), Kind::Invalid, "{name}");
    }
}

#[test]
fn check_finds_the_damage_of_the_corrupted_samples() {
    let Some(samples) = data("irmin-pack-samples") else { return };
    let cut = open(&copy(&samples.join("corrupted")), &irmin::Options::default()).unwrap();
    let checked = cut.check().unwrap();
    assert_eq!((checked.commits, checked.index_faults.len()), (2, 3), "{checked:?}");
    for (fault, word) in checked.index_faults.iter().zip([
        "contents 95cb0bfd2977c761298d9624e4b4d4c72a39974a at offset 331",
        "e40af3267e92203b17eba902aa6665d554e334ae at offset 354",
        "commit (version 1) c6ed25ff0bc10b7112c257998c0cbbe71982871c at offset 388",
    ]) {
        assert!(fault.contains(word), "{fault}");
    }
    assert_eq!(varvite(&["context", "check", text(&samples.join("corrupted"))]).code, 3);

    // The library's test says that the first commit is sound and the head is not.
    let configuration = Configuration::new(2, 3, ChildOrder::SeededHash).unwrap();
    let options = irmin::Options { configuration, ..irmin::Options::default() };
    let disk = copy(&samples.join("corrupted_inode"));
    let store = open(&disk, &options).unwrap();
    let sound = hash("1b1e259ca4e7bb8dc32c73ade93d8181c29cebe6");
    assert_eq!(listing(&store.checkout(&sound).unwrap()).unwrap().len(), 7);
    let head = store.branch(b"master").unwrap();
    let error = store.checkout(&head).and_then(|tree| listing(&tree)).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    let error = store.check().unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    // The empty inode at offset 696, behind a header of 16 bytes.
    assert!(error.to_string().contains("store.pack is damaged at byte 712"), "{error}");

    // A wrong hash in the middle.
    let disk = copy(&samples.join("version_3_always"));
    let mut pack = disk.bytes("store.0.suffix").unwrap();
    pack[54..56].copy_from_slice(&[0x1b, 0x12]);
    disk.replace("store.0.suffix", pack).unwrap();
    let store = open(&disk, &irmin::Options::default()).unwrap();
    let error = store.check().unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("store.0.suffix"), "{error}");
}

/// The commands, on a store in a folder.
#[test]
fn every_command_takes_a_store_of_irmin() {
    let Some(stores) = data("irmin-stores") else { return };
    let folder = stores.join("lower-volumes").join("store");
    let store = text(&folder);
    let log = varvite(&["context", "log", store, "--limit", "99", "--format", "json"]).json();
    let log = log.as_array().unwrap();
    assert_eq!(log.len(), 28);
    let (last, first) = (log[0]["hash"].as_str().unwrap(), log[27]["hash"].as_str().unwrap());
    assert!(last.starts_with("Co") && first.starts_with("Co"));
    for commit in [first, last, "last"] {
        varvite(&["context", "ls", store, commit, "data"]).yes();
        varvite(&["context", "tree", store, commit]).yes();
        varvite(&["context", "du", store, commit]).yes();
        assert!(!varvite(&["context", "dump", store, commit]).yes().is_empty());
    }
    assert_eq!(varvite(&["context", "get", store, last, "no/where"]).code, 1);
    assert_eq!(varvite(&["context", "diff", store, first, last]).code, 1);
    assert_eq!(varvite(&["context", "stat", store, "--format", "json"]).json()["commits"], 28);
    assert!(varvite(&["context", "check", store]).yes().starts_with("sound: 28 commits"));
    varvite(&["context", "branch", "list", store]).yes();
    varvite(&["context", "put", store, "main", "a", "b"]).error(2, &["only read", "migrate"]);
    for file in [
        "store/store.control",
        "store/store.dict",
        "store/store.branches",
        "store/store.2.suffix",
        "store/store.3.suffix",
        "store/store.3.prefix",
        "store/store.3.mapping",
        "store/index/log",
        "lower/volume.1/volume.control",
        "lower/volume.1/volume.data",
        "lower/volume.1/volume.mapping",
    ] {
        let path = stores.join("lower-volumes").join(file);
        let outline = varvite(&["inspect", text(&path)]).yes();
        assert!(outline.starts_with("irmin "), "{outline}");
    }
    let data = stores.join("always-index-merged/store/index/data");
    let outline = varvite(&["inspect", text(&data)]).yes();
    assert!(outline.contains("fan-out"), "{outline}");
}
