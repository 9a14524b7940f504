//! Damage of a chunk in the lower folder, or of what stays above of it: reads find what is whole, or say that something is
//! damaged, and never give a wrong answer; a repair loses nothing that is whole in one of the two places. All is put right
//! again, so that the model need not know of it.

use std::sync::Arc;

use varvite::Result;
use varvite::context::{CommitHash, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, Mode};
use varvite::error::Kind as ErrorKind;

use super::{World, options};
use crate::model::context::Node;
use crate::random::Random;

/// Whether `store` has all of a commit; panics where it has something else.
pub(super) fn reads(store: &Store, (hash, model): &(CommitHash, Arc<Node>)) -> Result<()> {
    let tree = store.checkout(hash)?;
    for (path, value) in model.values() {
        assert_eq!(tree.find(&path)?, Some(value), "{hash:?}: {path:?}");
    }
    Ok(())
}

fn read_all(disk: &Arc<dyn Disk>, name: &str) -> Vec<u8> {
    let file = disk.open(name, Mode::Read, Access::Buffered).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// Durable, so that no crash makes damage of it.
fn write_over(disk: &Arc<dyn Disk>, name: &str, bytes: &[u8]) {
    let file = disk.open(name, Mode::Write, Access::Buffered).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
}

impl World {
    pub(super) fn harm_chunks(&mut self, random: &mut Random) {
        let epoch = format!("{:04}-", self.store().stats().epoch);
        let chunks = self.store().chunks();
        let both: Vec<_> = chunks.iter().filter(|chunk| chunk.above_bytes > 0).collect();
        if both.is_empty() || self.held.commits.is_empty() {
            return;
        }
        let whole = format!("{epoch}{:06}.pack", both[random.index(both.len())].number);
        let prefix = format!("{}-", whole.strip_suffix(".pack").expect("it has one"));
        let names = self.disk.list("").unwrap();
        let Some(part) = names.into_iter().find(|name| name.starts_with(&prefix)) else {
            panic!("{whole} has nothing above");
        };
        let of_both = [(Arc::clone(&self.disk), part), (Arc::clone(&self.lower), whole)];
        let (above, below) =
            random.choose(&[(true, false), (true, false), (false, true), (true, true)]);
        let hit = of_both.iter().zip([above, below]).filter(|(_, is_hit)| *is_hit);
        let hit: Vec<_> = hit.map(|((disk, name), _)| (disk, name, read_all(disk, name))).collect();
        for (disk, name, bytes) in &hit {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(6) {
                let place = random.index(damaged.len());
                damaged[place] ^= 1 << random.below(8);
            }
            write_over(disk, name, &damaged);
        }
        self.read_harmed(below, random);
        if random.one_in(3) {
            self.repair_harmed(below);
        }
        for (disk, name, bytes) in &hit {
            write_over(disk, name, bytes);
        }
    }

    /// What is damaged above alone is whole below, so every read finds it.
    fn read_harmed(&mut self, below: bool, random: &mut Random) {
        let options = options(&self.setup, Some(&self.lower));
        let reader = match Store::open_read_only(Arc::clone(&self.disk), options) {
            Err(error) if below => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                return self.count("an opening told of damage below");
            }
            reader => reader.unwrap(),
        };
        let count = self.held.commits.len();
        for _ in 0..3 {
            let newest = count - 1 - random.index(count.min(3));
            let at = if random.one_in(2) { random.index(count) } else { newest };
            match reads(&reader, &self.held.commits[at]) {
                Ok(()) => self.count("a commit was read beside damage"),
                Err(error) => {
                    assert!(below, "what is damaged above is whole below: {error}");
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    self.count("a read told of damage below");
                }
            }
        }
        match reader.check() {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                self.count("a check told of damage above or below");
            }
        }
    }

    /// A commit is in the new store, as it was, or is told as lost, which none is where all is whole below.
    fn repair_harmed(&mut self, below: bool) {
        let target = MemoryDisk::seeded(7) as Arc<dyn Disk>;
        let lower = Arc::clone(&self.lower);
        let found = Store::repair(&self.disk, Some(&lower), &target, &mut |_, _| Ok(())).unwrap();
        assert!(below || found.lost.is_empty(), "{found:?}");
        let store = Store::open(target, options(&self.setup, None)).unwrap();
        for commit in &self.held.commits {
            if store.exists(&commit.0).unwrap() {
                reads(&store, commit).unwrap();
            } else {
                let named = |lost: Option<CommitHash>| lost.is_none() || lost == Some(commit.0);
                assert!(found.lost.iter().any(|it| named(it.commit)), "{:?}: {found:?}", commit.0);
            }
        }
        self.count("a repair beside damage above or below");
    }
}
