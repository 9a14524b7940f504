//! Where seeds come from: the host's options, or else the disk.
//!
//! A store's identity is part of every checksum, so no two stores may have the same. The engine
//! itself draws nothing: a disk is asked, and only some have anything to draw from.

use super::Disk;
use crate::error::{Error, Result};

/// A small seeded generator (Steele et al. 2014, splitmix).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// `Invalid`: the disk at `root` has nothing to draw from.
pub(super) fn none(root: &str) -> Error {
    Error::invalid(format!(
        "the disk at {root} has no entropy to draw a seed from: set `seed` in the options to a random \
         number, or use a disk that draws, such as `OsDisk` or `MemoryDisk::seeded`"
    ))
}

/// The seed that the host gave, or one that `disk` draws. `Invalid` for 0, which is what two stores
/// share whose hosts forgot to choose, and without either.
pub(crate) fn seed(given: Option<u64>, disk: &dyn Disk) -> Result<u64> {
    match given {
        Some(0) => Err(Error::invalid(
            "0 is no seed: every store needs its own, so set `seed` in the options to a random \
             number, or to `None` to have the disk draw one",
        )),
        Some(seed) => Ok(seed),
        None => disk.entropy().map(|drawn| drawn.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::MemoryDisk;
    use super::super::os::OsDisk;
    use super::super::sim::SimDisk;
    use super::super::subfolder::Subfolder;
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    #[test]
    fn a_seed_is_given_or_drawn_and_never_0() {
        let disk = MemoryDisk::new();
        assert_eq!(seed(Some(7), &*disk).unwrap(), 7);
        for (given, words) in [(Some(0), "0 is no seed"), (None, "no entropy")] {
            let error = seed(given, &*disk).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Invalid);
            assert!(error.to_string().contains(words), "{error}");
        }
        assert!(seed(None, &*MemoryDisk::seeded(7)).is_ok());
    }

    #[test]
    fn no_disk_draws_a_number_twice_and_seeded_disks_draw_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let draw = |disks: &[Arc<dyn Disk>]| -> Vec<u64> {
            disks.iter().flat_map(|disk| (0..4).map(|_| disk.entropy().unwrap())).collect()
        };
        let seeded = || -> Vec<Arc<dyn Disk>> {
            let (memory, sim) = (MemoryDisk::seeded(1), SimDisk::new(1));
            memory.entropy().unwrap();
            let image = sim.crash(super::super::sim::Crash::Process);
            let again = sim.crash(super::super::sim::Crash::Process);
            let of_image = image.crash(super::super::sim::Crash::Process);
            let folder = Subfolder::new(Arc::clone(&memory) as Arc<dyn Disk>, "part");
            let copies = [memory.snapshot(), memory.snapshot()];
            let of_copy = copies[0].snapshot();
            let [first, second] = copies;
            // The second image stands where the first does: only one of them comes to be.
            assert_eq!(image.entropy().unwrap(), again.entropy().unwrap());
            vec![memory, sim, image, of_image, folder, first, second, of_copy]
        };
        let drawn = draw(&seeded());
        assert_eq!(drawn, draw(&seeded()));
        let os: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
        let drawn = [drawn, draw(&[Arc::clone(&os), os])].concat();
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len(), "{drawn:x?}");
    }
}
