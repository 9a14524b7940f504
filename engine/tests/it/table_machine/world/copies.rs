//! Steps that copy or read the whole store beside the session: backups, followers, repairs and scrubs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::table::check::check;
use varvite::table::repair::{RepairOptions, repair};
use varvite::{Follower, Kind, Log, Session, SessionOptions, Verify};

use super::{Outcome, World, compare, ok, refused, same};
use crate::model::table as model;
use crate::random::Random;
use crate::setup::DiskKind;

/// What was copied out of the store, and who looks at it from outside.
#[derive(Default)]
pub(super) struct Copies {
    backup: Option<(Arc<dyn Disk>, Option<tempfile::TempDir>)>,
    follower: Option<(Follower, BTreeMap<String, model::Table>)>,
    /// It has all files open that its tables are in.
    follower_keeps_files: bool,
}

/// Fewer files than this a reader keeps open on every disk, also beside those that it does not need any more.
const KEPT_OPEN: usize = 200;

impl Copies {
    /// The power went: who looked at the disk of before is gone with it.
    pub(super) fn end_followers(&mut self) {
        self.follower = None;
    }
}

impl World {
    fn reader(&self) -> Result<Session, String> {
        let options = SessionOptions {
            cache: self.cache.clone(),
            max_open_files: self.setup.max_open_files,
            ..SessionOptions::default()
        };
        ok(Session::open_read_only(Arc::clone(&self.disk), options))
    }

    /// Backs the live tables up, mostly to where there is a backup, by the session itself or beside it.
    pub(super) fn back_up(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let verify = random.choose(&[Verify::Quick, Verify::Full]);
        if self.setup.log == Log::None {
            let target: Arc<dyn Disk> = MemoryDisk::seeded(1);
            let outcome = self.session.backup(&target, verify);
            return refused("a backup without a log", outcome, Kind::Invalid);
        }
        let before = self.copies.backup.take().filter(|_| random.below(4) > 0);
        let (target, folder) = match (before, self.setup.disk) {
            (Some(before), _) => before,
            (None, DiskKind::Memory) => (MemoryDisk::seeded(seed | 1) as Arc<dyn Disk>, None),
            (None, DiskKind::Sim) => (SimDisk::new(seed) as Arc<dyn Disk>, None),
            (None, DiskKind::Os) => {
                let folder = tempfile::tempdir().unwrap();
                (ok(OsDisk::new(folder.path()))? as Arc<dyn Disk>, Some(folder))
            }
        };
        let made = if random.one_in(3) {
            self.reader()?.backup(&target, verify)
        } else {
            self.session.backup(&target, verify)
        };
        same("the tables of a backup", &ok(made)?.tables, &(self.live.len() as u64))?;
        let there = ok(Session::open_read_only(Arc::clone(&target), SessionOptions::default()))?;
        self.find_live(&there)?;
        let report = ok(check(&target, |_| ControlFlow::Continue(())))?;
        same("what a check finds in a backup", &report.findings, &Vec::new())?;
        same("files that a backup does not need", &report.unreferenced, &0)?;
        self.copies.backup = Some((target, folder));
        Ok(())
    }

    /// Follows the live tables: as they were at the last look until the next.
    pub(super) fn follow(&mut self) -> Outcome {
        let opening = self.opening();
        let mut follower = match self.copies.follower.take() {
            None => ok(self.reader()?.follow(&opening))?,
            Some((mut follower, before)) => {
                // Files that are not open any more may be gone.
                if self.copies.follower_keeps_files {
                    for (name, model) in &before {
                        let table = ok(follower.table(name))?;
                        compare("a followed table before the next look", &table.view(), model)?;
                    }
                }
                ok(follower.reload())?;
                follower
            }
        };
        same("how many tables are followed", &follower.tables().len(), &self.live.len())?;
        for (name, model) in &self.live {
            compare("a followed table", &ok(follower.table(name))?.view(), model)?;
        }
        same("a second look", &ok(follower.reload())?, &false)?;
        let files = ok(self.disk.list("segments"))?.len();
        self.copies.follower_keeps_files = self.setup.max_open_files.is_none() && files < KEPT_OPEN;
        self.copies.follower = Some((follower, self.live.clone()));
        Ok(())
    }

    /// A repair of what is sound keeps all of it, as it stands or as the death of its process leaves it.
    pub(super) fn repair(&mut self, seed: u64) -> Outcome {
        let source = match &self.sim {
            Some(sim) if seed.is_multiple_of(2) => sim.crash(Crash::Process) as Arc<dyn Disk>,
            _ => Arc::clone(&self.disk),
        };
        let out: Arc<dyn Disk> = MemoryDisk::seeded(seed | 1);
        let report = ok(repair(&source, &out, &RepairOptions::default()))?;
        same("what a repair lost", &report.losses, &Vec::new())?;
        let names: Vec<_> = self.saved.keys().cloned().collect();
        same("the snapshots of a repair", &report.snapshots, &names)?;
        let there = ok(Session::open_read_only(Arc::clone(&out), SessionOptions::default()))?;
        self.find_live(&there)?;
        let mut random = Random::new(seed);
        for name in &names {
            self.open_in(&there, &mut random, name, true)?;
        }
        Ok(())
    }

    /// A scrub in parts, by the session itself or beside it, finds nothing.
    pub(super) fn scrub(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let pages = random.choose(&[1, 7, 1_000]);
        let session = if random.one_in(2) { self.reader()? } else { self.session.clone() };
        let mut scrub = ok(session.scrub(0))?;
        while ok(scrub.work(pages))? > 0 {}
        same("what a scrub finds", &scrub.findings(), &&[][..])
    }
}
