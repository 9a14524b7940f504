//! The power goes at every write and every sync of a workload: what was acknowledged is there again, whole.

use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::sim::SimDisk;

use crate::model::table::Snapshots;
use crate::random::setting;
use crate::story::{ACTS, Act, Story, assert_reopens};

/// Unsynced changes up to which every subset is tried, by default and where more images are asked for.
const EXHAUSTIVE: [usize; 2] = [6, 8];

/// Tells the story on a disk whose process dies at the `n`-th change or sync. Returns the disk, what was
/// acknowledged, and what is allowed besides; `None` when the story came to its end.
fn die_at(n: u64) -> Option<(Arc<SimDisk>, Act, Vec<Snapshots>)> {
    let sim = SimDisk::new(7);
    sim.kill_at(n);
    let mut story = Story::new(Arc::clone(&sim) as Arc<dyn Disk>);
    for act in ACTS {
        // What the act would have done may be done or not, when it dies on the way.
        let after = story.saved_after(*act);
        let outcome = story.act(*act);
        if sim.is_dead() {
            // An act may succeed though its last call, a removal say, was not made.
            let saved = story.stop();
            return Some((
                sim,
                *act,
                if outcome.is_ok() { vec![saved] } else { vec![saved, after] },
            ));
        }
        outcome.unwrap_or_else(|error| panic!("{act:?} failed without a reason: {error}"));
    }
    assert!(sim.calls().mutations < n, "the story ended before call {n}, yet nothing died");
    None
}

#[test]
fn every_crash_reopens_to_the_acknowledged_snapshots() {
    let seeded = setting("VARVITE_CRASH_IMAGES", 16);
    let exhaustive = EXHAUSTIVE[usize::from(seeded > 16)];
    let (mut images, mut before, mut after) = (0, 0, 0);
    let mut died = 0;
    while let Some((sim, act, allowed)) = die_at(died + 1) {
        died += 1;
        let allowed: Vec<_> = allowed.iter().collect();
        for (crash, image) in sim.crash_images(exhaustive, seeded) {
            let what = (died, act, crash);
            images += 1;
            let disk = Arc::clone(&image) as Arc<dyn Disk>;
            match assert_reopens(&disk, &allowed, &what) {
                0 => before += 1,
                _ => after += 1,
            }
        }
    }
    println!("{died} places, {images} images: {before} as before the act, {after} as after it");
    assert!(died > 100 && before > 100 && after > 10, "{died} {before} {after}");
}
