//! Seeded flips and cuts of the real Irmin's stores: the right answer, or an error that names the file,
//! and never an allocation out of proportion. One test for each store.
//!
//! More of them: `VARVITE_DAMAGE_ROUNDS=2000 cargo test -p varvite-cli --test it irmin_damage -- --nocapture`.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use varvite::context::{ChildOrder, CommitHash, Configuration};
use varvite::disk::memory::MemoryDisk;
use varvite::irmin_pack as irmin;
use varvite::{Error, Kind, Result};

use crate::allocations::LARGEST;
use crate::irmin::{Expectations, Expected, compare, copy, copy_store, data, expectations};
use crate::irmin::{listing, open};

/// Damages for each store.
const ROUNDS: u64 = 60;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What was done to which file.
struct Damage {
    file: String,
    what: String,
}

fn damage(disk: &MemoryDisk, seed: u64) -> Damage {
    let mut random = Random(seed);
    let mut files = disk.files();
    files.retain(|file| !file.ends_with("lock") && !disk.bytes(file).unwrap().is_empty());
    // Half of them anywhere, half in a file of any size.
    let sizes: Vec<u64> = files.iter().map(|file| disk.bytes(file).unwrap().len() as u64).collect();
    let mut index = random.below(files.len() as u64) as usize;
    if random.below(2) == 0 {
        let mut at = random.below(sizes.iter().sum());
        index = sizes
            .iter()
            .position(|size| {
                let here = at < *size;
                at = at.saturating_sub(*size);
                here
            })
            .unwrap();
    }
    let file = files.swap_remove(index);
    let mut bytes = disk.bytes(&file).unwrap();
    let at = random.below(bytes.len() as u64) as usize;
    let what = if random.below(4) == 0 {
        bytes.truncate(at);
        format!("cut to {at} bytes")
    } else {
        let bit = random.below(8);
        bytes[at] ^= 1 << bit;
        format!("bit {bit} of byte {at}")
    };
    disk.replace(&file, bytes).unwrap();
    Damage { file, what }
}

/// A mapping has no checksum, so what it lost looks collected; and an address that was damaged may lead
/// to what was collected, which the error of the object that has it says.
fn is_allowed(error: &Error, damage: &Damage) -> bool {
    let text = error.to_string();
    let names_file = ["store.", "index", "volume."].iter().any(|name| text.contains(name));
    match error.kind() {
        Kind::Corrupt => names_file && text.contains("byte"),
        Kind::Version => names_file,
        Kind::Missing => {
            damage.file.ends_with("mapping") || text.contains("names what is not there")
        }
        _ => false,
    }
}

/// Small caches, so that a large allocation stands out.
fn options() -> irmin::Options {
    irmin::Options { objects_bytes: 64 << 10, pages_bytes: 64 << 10, ..irmin::Options::default() }
}

/// A store, and what is known of it.
struct Sound {
    disk: Arc<MemoryDisk>,
    options: irmin::Options,
    expected: Expectations,
    /// Hashes of all commits that are there, in order; none where even the sound store has a wrong index.
    log: Option<Vec<CommitHash>>,
}

impl Sound {
    /// One of the real Irmin's, with what Irmin itself read.
    fn store(name: &str) -> Option<Sound> {
        let folder = data("irmin-stores")?.join(name);
        let expected = expectations(&folder);
        let there = expected.commits.iter().filter(|commit| commit.listing.is_some());
        let mut log: Vec<_> = there.map(|commit| commit.hash).collect();
        log.sort_unstable();
        Some(Sound { disk: copy_store(&folder), options: options(), expected, log: Some(log) })
    }

    /// A sample, with what we read of it undamaged, which other tests compare with what is known.
    fn sample(name: &str) -> Option<Sound> {
        let disk = copy(&data("irmin-pack-samples")?.join(name));
        let mut options = options();
        if name == "corrupted_inode" {
            options.configuration = Configuration::new(2, 3, ChildOrder::SeededHash).unwrap();
        }
        let store = open(&disk, &options).unwrap();
        let read = |hash: CommitHash| -> Result<Expected> {
            let info = store.commit_info(&hash)?;
            let listing = listing(&store.checkout(&hash)?)?;
            Ok(Expected {
                hash,
                tree: info.tree,
                parents: info.parents,
                date: info.date,
                author: info.author,
                message: info.message,
                listing: Some(Arc::new(listing)),
            })
        };
        let log = store.log(usize::MAX).ok().map(|mut log| {
            log.sort_unstable();
            log
        });
        let heads = store.branches().into_iter().map(|(_, hash)| hash);
        let hashes: BTreeSet<_> = heads.chain(log.iter().flatten().copied()).collect();
        let commits = hashes.into_iter().filter_map(|hash| read(hash).ok()).collect();
        let expected = Expectations { commits, branches: store.branches() };
        Some(Sound { disk, options, expected, log })
    }

    /// Reads all that `disk` has, compares it, and counts the errors, of which each must be allowed.
    fn examine(&self, disk: &Arc<MemoryDisk>, damage: &Damage) -> u64 {
        let mut errors = 0;
        let mut told = |error: &Error| {
            errors += 1;
            assert!(is_allowed(error, damage), "{:?}: {error}", error.kind());
        };
        let store = match open(disk, &self.options) {
            Ok(store) => store,
            Err(error) => {
                told(&error);
                return errors;
            }
        };
        if damage.file != "store.branches" {
            assert_eq!(store.branches(), self.expected.branches);
        }
        for commit in &self.expected.commits {
            if commit.listing.is_none() {
                match store.exists(&commit.hash) {
                    Ok(exists) => assert!(!exists, "a collected commit is back"),
                    Err(error) => told(&error),
                }
            } else if let Err(error) = compare(&store, commit) {
                told(&error);
            }
        }
        match (store.log(usize::MAX), &self.log) {
            (Ok(mut log), Some(known)) => {
                log.sort_unstable();
                let fewer = damage.file.ends_with("mapping");
                let right = log == *known || (fewer && log.iter().all(|hash| known.contains(hash)));
                assert!(right, "{} commits", log.len());
            }
            (Ok(_), None) => {}
            (Err(error), _) => told(&error),
        }
        if let Err(error) = store.check() {
            told(&error);
        }
        errors
    }

    /// Damages and examines as often as is asked for.
    fn rounds(&self, name: &str, number: u64) {
        let rounds = std::env::var("VARVITE_DAMAGE_ROUNDS");
        let rounds = rounds.map_or(ROUNDS, |text| text.parse().expect("a number of rounds"));
        let none = Damage { file: String::new(), what: String::new() };
        LARGEST.set(0);
        let faults = self.examine(&self.disk, &none);
        let usual = LARGEST.get();
        let (mut told, mut largest) = (0, 0);
        for round in 0..rounds {
            let disk = self.disk.snapshot();
            let damage = damage(&disk, number << 32 | round);
            LARGEST.set(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| self.examine(&disk, &damage)));
            let (Damage { file, what }, here) = (&damage, LARGEST.get());
            assert!(outcome.is_ok(), "{name}, round {round}: {file}, {what}");
            assert!(here <= usual + (256 << 10), "{name}, {file}, {what}: {here} bytes at once");
            told += u64::from(outcome.unwrap() > 0);
            largest = largest.max(here);
        }
        println!(
            "{name}: {rounds} damages, {told} told, the others harmless; {largest} bytes at most at once, {usual} usually"
        );
        assert!(told > 0 && (told < rounds || faults > 0));
    }
}

macro_rules! damaged {
    ($($kind:ident $test:ident $number:literal $name:literal;)*) => {
        $(#[test]
        fn $test() {
            if let Some(sound) = Sound::$kind($name) {
                sound.rounds($name, $number);
            }
        })*

        /// All stores and samples that there are have a test above.
        #[test]
        fn none_is_left_out() {
            let (Some(stores), Some(samples)) = (data("irmin-stores"), data("irmin-pack-samples"))
            else {
                return;
            };
            let mut left: BTreeSet<_> = [stores, samples]
                .iter()
                .flat_map(|folder| std::fs::read_dir(folder).unwrap())
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.file_type().unwrap().is_dir())
                .map(|entry| entry.file_name().into_string().unwrap())
                .collect();
            $(assert!(left.remove($name), "there is no {}", $name);)*
            assert!(left.is_empty(), "not damaged: {left:?}");
        }
    };
}

damaged! {
    store empty 0 "empty";
    store minimal_simple 1 "minimal-simple";
    store always_simple 2 "always-simple";
    store mwc_simple 3 "mwc-simple";
    store minimal_edge 4 "minimal-edge";
    store minimal_bigdirs 5 "minimal-bigdirs";
    store always_index_merged 6 "always-index-merged";
    store minimal_blocks 7 "minimal-blocks";
    store gc_only 8 "gc-only";
    store gc_once 9 "gc-once";
    store chunked 10 "chunked";
    store lower_empty 11 "lower-empty";
    store lower_volumes 12 "lower-volumes";
    store gc_pending_lower 23 "gc-pending-lower";
    sample sample_corrupted 13 "corrupted";
    sample sample_corrupted_inode 14 "corrupted_inode";
    sample sample_empty_store 15 "empty_store";
    sample sample_version_1 16 "version_1";
    sample sample_version_2_always 17 "version_2_always";
    sample sample_version_2_minimal 18 "version_2_minimal";
    sample sample_version_2_to_3_always 19 "version_2_to_3_always";
    sample sample_version_3_always 20 "version_3_always";
    sample sample_version_3_minimal 21 "version_3_minimal";
    sample sample_version_3_minimal_gced 22 "version_3_minimal_gced";
}
