//! Seeded flips and cuts of the real Irmin's stores: the right answer, or an error that names the file.
//!
//! More of them: `VARVITE_DAMAGE_ROUNDS=2000 cargo test -p varvite-cli --test it irmin_damage`.

use std::sync::Arc;

use varvite::disk::memory::MemoryDisk;
use varvite::irmin_pack as irmin;
use varvite::{Error, Kind};

use crate::irmin::{Expectations, STORES, compare, copy_store, data, expectations, open};

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
    match error.kind() {
        Kind::Corrupt | Kind::Version => {
            ["store.", "index", "volume."].iter().any(|name| text.contains(name))
        }
        Kind::Missing => {
            damage.file.ends_with("mapping") || text.contains("names what is not there")
        }
        _ => false,
    }
}

fn examine(
    disk: &Arc<MemoryDisk>,
    expected: &Expectations,
    damage: &Damage,
    verify: irmin::Verify,
) {
    let told = |error: Error| {
        let Damage { file, what } = damage;
        assert!(is_allowed(&error, damage), "{file}, {what}: {:?}: {error}", error.kind());
    };
    let options = irmin::Options { verify, ..irmin::Options::default() };
    let store = match open(disk, &options) {
        Ok(store) => store,
        Err(error) => return told(error),
    };
    if damage.file != "store.branches" {
        assert_eq!(store.branches(), expected.branches);
    }
    let mut known = Vec::new();
    for commit in &expected.commits {
        if commit.listing.is_none() {
            match store.exists(&commit.hash) {
                Ok(exists) => assert!(!exists, "{}, {}", damage.file, damage.what),
                Err(error) => told(error),
            }
            continue;
        }
        known.push(commit.hash);
        if let Err(error) = compare(&store, commit) {
            told(error);
        }
    }
    known.sort_unstable();
    match store.log(usize::MAX) {
        Ok(mut log) => {
            log.sort_unstable();
            let fewer = damage.file.ends_with("mapping");
            let right = log == known || (fewer && log.iter().all(|hash| known.contains(hash)));
            assert!(right, "{}, {}: {} commits", damage.file, damage.what, log.len());
        }
        Err(error) => told(error),
    }
    if let Err(error) = store.check() {
        told(error);
    }
}

#[test]
fn damaged_stores_of_irmin_tell_it_or_answer_rightly() {
    let Some(stores) = data("irmin-stores") else { return };
    let rounds = std::env::var("VARVITE_DAMAGE_ROUNDS");
    let rounds = rounds.map_or(ROUNDS, |text| text.parse().expect("a number of rounds"));
    for (number, name) in STORES.into_iter().enumerate() {
        let folder = stores.join(name);
        let (sound, expected) = (copy_store(&folder), expectations(&folder));
        for round in 0..rounds {
            let disk = sound.snapshot();
            let damage = damage(&disk, (number as u64) << 32 | round);
            let run = || examine(&disk, &expected, &damage, irmin::Verify::Hashes);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let Damage { file, what } = &damage;
            assert!(outcome.is_ok(), "{name}, round {round}: {file}, {what}");
        }
    }
}
