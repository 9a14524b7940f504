//! A simulated disk that loses, tears, reorders and fails what a real one may.
//!
//! It knows what is durable and, in order, every change that is not: bytes, lengths and names, each of
//! which persists independently of the others until its sync. From that, crash images are drawn: all
//! subsets while there are few, seeded ones otherwise. Everything follows from the seed.
//! It is public so that users can crash-test their own programs. Sources: the fault model of
//! Pillai et al. 2014 (what persists) and Rebello et al. 2020 (failed syncs).

mod content;
mod fault;
mod file;
mod names;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::entropy::Random;
use super::memory::lock;
use super::{Access, Disk, File, Linked, Lock, Mode, Queue, path as paths};
use crate::error::Result;

use content::{Content, ContentChange, Keep};
use fault::{Call, Faults};
pub use fault::{Calls, Fault};
use file::{SimFile, SimLock, SimQueue};
use names::{Entry, NameChange, Names};
use state::State;

/// What a crash leaves of the changes that were not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Crash {
    /// The process died, the machine did not: everything is there, and no more of it durable than
    /// before.
    Process,
    /// The power went: the changes whose bit is set persist, whole; bit 0 is the oldest change. Changes
    /// beyond the 64th are lost.
    Subset(u64),
    /// The power went: a random part of the changes persists, some of them torn.
    Seed(u64),
}

/// A simulated disk.
///
/// ```
/// use varvite::disk::{Access, Disk, File, Mode, sim::{Crash, SimDisk}};
/// let disk = SimDisk::new(1);
/// let file = disk.open("a", Mode::Create, Access::Buffered)?;
/// file.write_at(0, b"12")?;
/// file.sync()?;
/// // The name is not durable before its folder is synced.
/// assert!(!disk.crash(Crash::Subset(0)).exists("a")?);
/// disk.sync_directory("")?;
/// assert_eq!(disk.crash(Crash::Subset(0)).bytes("a")?, b"12");
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    seed: u64,
}

impl SimDisk {
    /// An empty disk that behaves as `seed` says.
    #[must_use]
    pub fn new(seed: u64) -> Arc<SimDisk> {
        Self::with(seed, Names::new(), BTreeMap::new(), 1)
    }

    fn with(
        seed: u64,
        names: Names,
        files: BTreeMap<u64, Content>,
        next_number: u64,
    ) -> Arc<SimDisk> {
        let state = State {
            names,
            files,
            next_number,
            clock: 0,
            random: Random::new(seed),
            entropy: Random::new(!seed),
            held: HashMap::new(),
            faults: Faults::default(),
            capacity: None,
            lose_cache: false,
            save_some: false,
            forget_names: false,
            keep_open_names: false,
            doomed: BTreeMap::new(),
        };
        Arc::new(SimDisk { state: Arc::new(Mutex::new(state)), seed })
    }

    /// The seed it was made with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The disk as it is found after a crash at this moment; this disk is not changed. The image has
    /// no locks, faults or capacity. After a power cut everything in it is durable; after the death of
    /// the process what was not durable still is not, so a power cut may follow it.
    #[must_use]
    pub fn crash(&self, crash: Crash) -> Arc<SimDisk> {
        let state = lock(&self.state);
        let mut random = Random::new(self.seed);
        match crash {
            Crash::Process => {
                let files = state.files.iter();
                let files = files.map(|(number, content)| (*number, content.without_handles()));
                let names = state.names.clone();
                let image = Self::with(random.next(), names, files.collect(), state.next_number);
                let mut found = lock(&image.state);
                found.clock = state.clock;
                (found.keep_open_names, found.doomed) =
                    (state.keep_open_names, state.doomed.clone());
                let doomed: Vec<u64> = found.doomed.keys().copied().collect();
                for file in doomed {
                    found.closed(file);
                }
                found.sweep();
                drop(found);
                image
            }
            Crash::Subset(mask) => {
                let changes = state.unsynced();
                let place = |at| changes.binary_search(&at).unwrap_or(usize::MAX);
                let keep = |at| place(at) < 64 && mask >> place(at) & 1 == 1;
                let keep = |at, _| if keep(at) { Keep::Whole } else { Keep::Nothing };
                let (names, files) = state.image(keep);
                Self::with(random.next(), names, files, state.next_number)
            }
            Crash::Seed(seed) => {
                let mut random = Random::new(random.next() ^ seed);
                // Nearly nothing, nearly everything and anything between are all worth drawing.
                let odds = [1, 16, 32, 48, 63][random.below(5) as usize];
                let image_seed = random.next();
                let (names, files) = state.image(|_, sectors| {
                    let (kept, torn) = (random.below(64) < odds, random.below(4) == 0);
                    match (kept, torn && sectors > 1) {
                        (false, _) => Keep::Nothing,
                        (true, false) => Keep::Whole,
                        (true, true) => Keep::Torn(random.next()),
                    }
                });
                Self::with(image_seed, names, files, state.next_number)
            }
        }
    }

    /// Images to check a program against: the process's death; then every subset when at most
    /// `max_exhaustive` changes (at most 16) are not durable; then, when there are more of them or some
    /// can be torn, `seeded` random ones.
    pub fn crash_images(
        &self,
        max_exhaustive: usize,
        seeded: u64,
    ) -> impl Iterator<Item = (Crash, Arc<SimDisk>)> + '_ {
        let (count, tearable) = {
            let state = lock(&self.state);
            (state.unsynced().len(), state.tearable())
        };
        let exhaustive = count <= max_exhaustive.min(16);
        let subsets = if exhaustive { 1 << count } else { 0 };
        let draws = if exhaustive && !tearable { 0 } else { seeded };
        std::iter::once(Crash::Process)
            .chain((0..subsets).map(Crash::Subset))
            .chain((0..draws).map(Crash::Seed))
            .map(|crash| (crash, self.crash(crash)))
    }

    /// How many changes are not durable: of bytes, of lengths, of names. A write past the end is two.
    pub fn unsynced_count(&self) -> usize {
        lock(&self.state).unsynced().len()
    }

    /// Makes the `n`-th call from now (1 is the next) of those that `fault` counts fail, once.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        lock(&self.state).faults.arm(n, fault);
    }

    /// Takes back all that [`SimDisk::fail_at`] and [`SimDisk::kill_at`] ordered and that has not happened.
    pub fn disarm(&self) {
        lock(&self.state).faults.disarm();
    }

    /// Kills the process at the `n`-th call from now that changes or syncs anything: that call is not
    /// made (some sectors of a write may be), it and every later call fail. The images of
    /// [`SimDisk::crash`] are what it leaves.
    pub fn kill_at(&self, n: u64) {
        lock(&self.state).faults.kill_at(n);
    }

    /// Kills the process now: every call fails from here on.
    pub fn kill(&self) {
        lock(&self.state).faults.dead = true;
    }

    /// Whether the process was killed.
    pub fn is_dead(&self) -> bool {
        lock(&self.state).faults.dead
    }

    /// The calls so far.
    pub fn calls(&self) -> Calls {
        lock(&self.state).faults.calls
    }

    /// Gives the disk room for this many bytes of files; `None` is no bound.
    pub fn capacity(&self, bytes: Option<u64>) {
        lock(&self.state).capacity = bytes;
    }

    /// Whether a failed sync of a file also takes the lost changes from what is read afterwards, as
    /// when the system drops the pages; otherwise they stay readable until the crash, and the system
    /// takes them for saved: a second sync succeeds and saves nothing. Linux does the latter.
    pub fn lose_cache_on_failed_sync(&self, lose: bool) {
        lock(&self.state).lose_cache = lose;
    }

    /// Whether a failed sync of a folder has the disk forget the changes of its names, as Linux may: they
    /// are seen until the power goes, a second sync succeeds and saves none of them, and only names that
    /// are made anew become durable. Otherwise the next sync saves them.
    pub fn forget_names_on_failed_sync(&self, forget: bool) {
        lock(&self.state).forget_names = forget;
    }

    /// Whether a failed sync makes a random part of the changes durable all the same, those of a file
    /// torn, too; otherwise it saves none.
    pub fn save_some_on_failed_sync(&self, some: bool) {
        lock(&self.state).save_some = some;
    }

    /// Whether open files keep their names, as on the file systems of Windows that know no other way (FAT, older
    /// versions of NTFS, shares): no file takes the name of one that is open, and one that is removed has its name,
    /// which nobody can use, until its last handle is gone. There a failed sync of a folder forgets nothing.
    pub fn keep_open_names(&self, keep: bool) {
        lock(&self.state).keep_open_names = keep;
    }

    /// The bytes of all files that have a name or a handle.
    pub fn total_bytes(&self) -> u64 {
        lock(&self.state).space()
    }

    /// All bytes of the file at `path`, as they are now. `Missing`. Not a call that is counted.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        let state = lock(&self.state);
        let (_, file) = state.names.file(path)?;
        Ok(Vec::clone(&state.files[&file].live))
    }

    /// Gives the file at `path` other bytes, durably, as a failing device would. `Missing`.
    pub fn damage(&self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<()> {
        let mut state = lock(&self.state);
        let (_, file) = state.names.file(path)?;
        let handles = state.files[&file].handles;
        state.files.insert(file, Content { handles, ..Content::durable(bytes.into()) });
        Ok(())
    }
}

impl SimDisk {
    /// Counts a call, which may fail, and gives the state to do it.
    fn enter(&self, call: Call, path: &str) -> Result<std::sync::MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        state.faults.enter(call, path)?;
        Ok(state)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        paths::check(path)?;
        let call = match mode {
            Mode::Create => Call::growing(Fault::Open, "create"),
            Mode::Read | Mode::Write => Call::reading(Fault::Open, "open"),
        };
        let mut state = self.enter(call, path)?;
        let number = match mode {
            Mode::Create => state.create(path)?,
            Mode::Read | Mode::Write => state.names.file(path)?.1,
        };
        state.check_name(path, number)?;
        let content = state.files.get_mut(&number).expect("a named file exists");
        content.handles += 1;
        Ok(Arc::new(SimFile {
            state: Arc::clone(&self.state),
            number,
            path: path.to_owned(),
            writable: mode != Mode::Read,
            access,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        paths::check(from)?;
        paths::check(to)?;
        let mut state = self.enter(Call::changing(Fault::Rename, "rename"), from)?;
        let (from_folder, file) = state.names.file(from)?;
        let (folder, there) = state.names.find(to)?;
        match there {
            Some(Entry::Folder(_)) => return Err(paths::is_folder(to)),
            Some(Entry::File(same)) if same == file => return Ok(()),
            Some(Entry::File(other)) if state.keeps_name(other) => return Err(paths::is_open(to)),
            _ => {}
        }
        state.check_name(from, file)?;
        let [from, to] = [from, to].map(|path| paths::split(path).1.to_owned());
        let State { names, clock, .. } = &mut *state;
        names.change(folder, NameChange::Move { from_folder, from, to, file }, clock);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        let mut state = self.enter(Call::changing(Fault::Remove, "remove"), path)?;
        let (folder, file) = state.names.file(path)?;
        state.check_name(path, file)?;
        let is_kept = state.keeps_name(file);
        state.doomed.insert(file, (folder, paths::split(path).1.to_owned()));
        if !is_kept {
            state.closed(file);
        }
        Ok(())
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        let mut state = self.enter(Call::changing(Fault::Remove, "remove the folder"), path)?;
        let (folder, number) = match state.names.find(path)? {
            (folder, Some(Entry::Folder(number))) => (folder, number),
            (_, Some(Entry::File(_))) => return Err(paths::is_file(path)),
            (_, None) => return Err(paths::missing(path)),
        };
        if !state.names.list(number).is_empty() {
            return Err(paths::is_not_empty(path));
        }
        let name = paths::split(path).1.to_owned();
        let State { names, clock, .. } = &mut *state;
        names.change(folder, NameChange::Remove { name, entry: Entry::Folder(number) }, clock);
        Ok(())
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        paths::check_directory(directory)?;
        let state = self.enter(Call::reading(Fault::Open, "list"), directory)?;
        Ok(state.names.list(state.names.folder(directory)?))
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        let mut state = self.enter(Call::growing(Fault::Open, "create the folder"), path)?;
        match state.names.find(path)? {
            (_, Some(Entry::Folder(_))) => {}
            (_, Some(Entry::File(_))) => return Err(paths::exists(path)),
            (folder, None) => {
                let number = state.number();
                state.names.make_folder(number);
                state.add(folder, path, Entry::Folder(number));
            }
        }
        Ok(())
    }

    fn exists(&self, path: &str) -> Result<bool> {
        paths::check_directory(path)?;
        let state = self.enter(Call::reading(Fault::Open, "look for"), path)?;
        if path.is_empty() {
            return Ok(true);
        }
        Ok(state.names.find(path).is_ok_and(|(_, entry)| entry.is_some()))
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        paths::check_directory(path)?;
        let mut state = lock(&self.state);
        let was_dead = state.faults.dead;
        let outcome = state.faults.enter(Call::changing(Fault::Sync, "sync the folder"), path);
        let folder = match state.names.folder(path) {
            Ok(folder) => folder,
            Err(error) => return outcome.and(Err(error)),
        };
        let State { names, faults, forget_names, save_some, random, .. } = &mut *state;
        match outcome {
            Ok(()) => names.sync(folder),
            // The dead never asked for it.
            Err(_) if was_dead || faults.dead || !*forget_names => {}
            Err(_) => names.fail_sync(folder, || *save_some && random.below(2) == 0),
        }
        state.sweep();
        outcome
    }

    fn forgets_names(&self) -> bool {
        !lock(&self.state).keep_open_names
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        paths::check(path)?;
        let mut state = self.enter(Call::growing(Fault::Open, "lock"), path)?;
        if let Some(other) = state.held.get(path) {
            return Err(paths::locked(path, other));
        }
        let file = match state.names.file(path) {
            Ok((_, file)) => file,
            Err(error) if error.kind() == crate::Kind::Missing => state.create(path)?,
            Err(error) => return Err(error),
        };
        let State { files, clock, .. } = &mut *state;
        let content = files.get_mut(&file).expect("a named file exists");
        content.change(ContentChange::SetLength(0), clock);
        content.write(0, holder.as_bytes(), clock);
        state.held.insert(path.to_owned(), holder.to_owned());
        Ok(Box::new(SimLock { state: Arc::clone(&self.state), path: path.to_owned() }))
    }

    /// Links or copies as the seed says: a program must do with either.
    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        paths::check(from)?;
        paths::check(to)?;
        let call = Call::growing(Fault::Rename, "link");
        let mut state = self.enter(call, from)?;
        let (_, file) = state.names.file(from)?;
        let (folder, there) = state.names.find(to)?;
        if there.is_some() {
            return Err(paths::exists(to));
        }
        if state.random.below(2) == 0 {
            state.add(folder, to, Entry::File(file));
            return Ok(Linked::HardLink);
        }
        let bytes = Arc::clone(&state.files[&file].live);
        let copy = state.create(to)?;
        if let Err(error) = state.check_room(call, to, copy, bytes.len()) {
            let name = paths::split(to).1.to_owned();
            let State { names, clock, .. } = &mut *state;
            names.change(folder, NameChange::Remove { name, entry: Entry::File(copy) }, clock);
            return Err(error);
        }
        let State { files, clock, .. } = &mut *state;
        files.get_mut(&copy).expect("it was just made").write(0, &bytes, clock);
        Ok(if state.random.below(2) == 0 { Linked::Reflink } else { Linked::Copy })
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        let seed = lock(&self.state).random.next();
        Ok(Box::new(SimQueue::new(depth, seed)))
    }

    fn entropy(&self) -> Result<u64> {
        let mut state = self.enter(Call::reading(Fault::Open, "draw entropy for"), "")?;
        Ok(state.entropy.next())
    }

    fn root(&self) -> &'static str {
        "simulation"
    }
}
