//! Folders: what is in one, and one for a while.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use varvite::context::Store;
use varvite::disk::os::OsDisk;
use varvite::disk::{Disk, Lock};
use varvite::irmin_pack as irmin;
use varvite::raw::format::header::{FileKind, Header, LENGTH};
use varvite::{Error, Kind, Result};

use crate::store::noted::Noted;
use crate::system::volume;

/// The folder as a disk; `Missing` without it.
pub fn disk(folder: &Path) -> Result<Arc<OsDisk>> {
    if !folder.is_dir() {
        let what = match (folder.exists(), folder.is_symlink()) {
            (true, _) => "is not a folder",
            (false, true) => "is a link that leads nowhere",
            (false, false) => "does not exist",
        };
        return Err(Error::missing(format!(
            "{} {what}: give the folder of a varvite store",
            folder.display()
        )));
    }
    OsDisk::new(folder)
}

/// The folder in which a store is to be made, itself made if need be.
pub struct Target {
    folder: PathBuf,
    /// The folders that were made for it, the outermost last.
    made: Vec<PathBuf>,
    /// What is made in it.
    noted: Option<Arc<Noted>>,
}

impl Target {
    /// The folder, and the disk in it.
    pub fn create(folder: &Path) -> Result<(Self, Arc<Noted>)> {
        expect_no_dead_link(folder)?;
        let is_new = |it: &&Path| !it.as_os_str().is_empty() && !it.exists();
        let made = folder.ancestors().take_while(is_new).map(Path::to_owned).collect();
        let mut target = Target { folder: folder.to_owned(), made, noted: None };
        match OsDisk::create(folder) {
            Ok(disk) => {
                let noted = Arc::new(Noted::new(disk));
                target.noted = Some(Arc::clone(&noted));
                Ok((target, noted))
            }
            Err(error) => {
                target.give_up();
                Err(error)
            }
        }
    }

    /// Leaves no folder behind that is new and has nothing in it.
    pub fn give_up(self) {
        for folder in self.made {
            let _ = fs::remove_dir(folder);
        }
    }

    /// The same, and nothing of what this process has made there and did not come to be a store, as on a full disk: somebody
    /// would take it for a damaged one. What has become a store stays, whoever has made it, and so does what others have put
    /// there: a store that this process has made whole is removed by who holds it ([`crate::store::tables::remove_new`],
    /// [`crate::store::context::remove_new`]).
    pub fn take_back(self, error: &Error) {
        self.remove_parts(error);
        self.give_up();
    }

    fn remove_parts(&self, error: &Error) {
        // Asked for while it is full.
        volume::look();
        let Some(noted) = &self.noted else { return };
        let has_store = || ["session", "control"].iter().any(|it| self.folder.join(it).exists());
        // Making one may fail behind its last step: it is nobody's as long as nothing is there but what was made.
        let is_used = || has_store() && !noted.is_all();
        // Whoever makes a store leaves the file of its lock.
        if error.kind() == Kind::Locked || is_used() || !self.folder.join(LOCK).exists() {
            return;
        }
        // Whoever has it makes a store here, of what was there before, too. Without it nothing is removed.
        let Ok((_held, was_ours)) = held(&self.folder) else { return };
        if !has_store() || was_ours && !is_used() {
            noted.take_back(LOCK);
        }
    }
}

/// The right to make a store in `folder`, of a process that has none open there, and whether nobody has had it since this
/// process had, as far as that can be known.
fn held(folder: &Path) -> Result<(Vec<Box<dyn Lock>>, bool)> {
    let disk = OsDisk::new(folder)?;
    let holder = format!("process {}", std::process::id());
    let whole = disk.lock_directory("")?;
    // Nobody comes to have both locks from here on, but whoever tries to leaves its name.
    let text = fs::read(folder.join(LOCK)).unwrap_or_default();
    let was_ours = whole.is_some() && text == holder.as_bytes();
    let file = disk.lock(LOCK, &holder).or_else(|error| match error.kind() {
        // A full disk may have no room for who it is.
        Kind::Io => disk.lock(LOCK, ""),
        _ => Err(error),
    })?;
    Ok(([file].into_iter().chain(whole).collect(), was_ours))
}

/// Held by who writes to a store, or makes one.
const LOCK: &str = "lock";

/// `Missing` when `folder`, in which something is to be made, is a link to what is not there.
pub fn expect_no_dead_link(folder: &Path) -> Result<()> {
    if folder.is_symlink() && !folder.exists() {
        let shown = folder.display();
        return Err(Error::missing(format!(
            "{shown} is a link that leads nowhere: make the folder that it leads to, or choose another place"
        )));
    }
    Ok(())
}

/// Where `path` is: what is not there yet is where the nearest folder above it is.
fn whereabouts(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|above| {
        let there = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        Some(there.canonicalize().ok()?.join(path.strip_prefix(above).ok()?))
    })
}

/// `Invalid` where the options `names` are given one and the same place, of which each would take the other's for another
/// program's.
pub fn expect_two(names: [&str; 2], places: [Option<&Path>; 2]) -> Result<()> {
    if let [Some(one), Some(other)] = places
        && let (Some(one), Some(there)) = (whereabouts(one), whereabouts(other))
        && one == there
    {
        return Err(Error::invalid(format!(
            "{} and {} are both {}: give one of them another place",
            names[0],
            names[1],
            other.display()
        )));
    }
    Ok(())
}

/// Refuses to make a store in `target` when that is in the store `source`, which stays as it is.
pub fn apart(source: &Path, target: &Path) -> Result<()> {
    let Ok(own) = source.canonicalize() else { return Ok(()) };
    if whereabouts(target).is_some_and(|there| there.starts_with(&own)) {
        return Err(Error::invalid(format!(
            "{} is in the store {} itself: choose a place elsewhere",
            target.display(),
            source.display()
        )));
    }
    Ok(())
}

/// Shorter is the first chunk of a context whose creation was cut off before it had its control file.
const BEGUN_BYTES: u64 = 144;

/// Whether the folder is that of a context of ours that has lost its control file.
pub fn is_wreck(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    if ["control", "half-made", "session"].into_iter().any(has) || !has(LOCK) {
        return false;
    }
    let is_chunk = |name: &String| {
        let is_own = |kind| owner(folder, name, kind).is_some();
        let length = folder.join(name).metadata().map_or(0, |file| file.len());
        let is_pack = Path::new(name).extension().is_some_and(|it| it == "pack");
        is_pack && length > BEGUN_BYTES && (is_own(FileKind::Pack) || is_own(FileKind::Sparse))
    };
    let names = disk(folder).and_then(|disk| disk.list("")).unwrap_or_default();
    names.iter().any(is_chunk)
}

/// Whether the folder holds a context, ours or one of Irmin, or old commits of one.
pub fn is_context(folder: &Path) -> bool {
    // A repair that was cut off has not given the control file its name; opening says so.
    let has = |name: &str| folder.join(name).is_file();
    let is_whole = (has("control") || has("half-made")) && !folder.join("session").exists();
    let ours = is_whole || is_wreck(folder);
    ours || disk(folder).is_ok_and(|disk| irmin::is_store(&*disk).is_ok_and(|found| found))
        || is_lower(folder)
}

/// Whether the folder is that of a context of ours, or has old commits of one.
pub fn is_own(folder: &Path) -> bool {
    folder.join("control").is_file() || is_lower(folder)
}

/// Whether the folder has old commits that a context has moved there, and is no store. Chunks that are damaged, or of two
/// histories, are that too: whoever opens them says what is wrong.
pub fn is_lower(folder: &Path) -> bool {
    let is_wrong = |error: &Error| matches!(error.kind(), Kind::Corrupt | Kind::Invalid);
    disk(folder).is_ok_and(|disk| match Store::is_lower_folder(&*disk) {
        Ok(found) => found,
        Err(error) => is_wrong(&error),
    })
}

/// The store that the file `name` in a folder says it is of, if it can be read and is of this kind.
fn owner(folder: &Path, name: &str, kind: FileKind) -> Option<u64> {
    let mut bytes = Vec::new();
    File::open(folder.join(name)).ok()?.take(LENGTH as u64).read_to_end(&mut bytes).ok()?;
    Header::expect(name, &bytes, kind).ok().map(|header| header.store)
}

/// The stores that the first and the last chunk in a folder say they are of, as far as they can be read; `None` where
/// there is no chunk.
fn owners(folder: &Path) -> Result<Option<BTreeSet<u64>>> {
    let mut names = disk(folder)?.list("")?;
    names.retain(|name| Path::new(name).extension().is_some_and(|it| it == "pack"));
    names.sort_unstable();
    let ends = names.first().into_iter().chain(names.last());
    let stores = ends.filter_map(|name| owner(folder, name, FileKind::Pack));
    Ok((!names.is_empty()).then(|| stores.collect()))
}

/// Removes the chunks in `lower` that the store in `folder` has moved there, which goes too. A chunk of another store stays:
/// that may have taken the folder before this one did; and all stay while another moves chunks there.
pub fn remove_moved(lower: &Path, folder: &Path) {
    let (Some(own), Ok(disk)) = (owner(folder, "control", FileKind::Control), OsDisk::new(lower))
    else {
        return;
    };
    let Ok(_alone) = disk.lock_directory("") else { return };
    for name in disk.list("").unwrap_or_default() {
        let is_chunk = Path::new(&name).extension().is_some_and(|it| it == "pack");
        if is_chunk && owner(lower, &name, FileKind::Pack) == Some(own) {
            let _ = disk.remove(&name);
        }
    }
}

/// `Invalid` where `lower` cannot be the lower folder of the context in `folder`, which has moved chunks there: it is a
/// store's own, or has those of another. That is no damage of the store.
pub fn expect_lower(folder: &Path, lower: &Path) -> Result<()> {
    let mut own = owners(folder)?.unwrap_or_default();
    // The chunks there may all be damaged, or another's.
    own.extend(owner(folder, "control", FileKind::Control));
    let why = match (owners(lower)?, own) {
        _ if is_context(lower) && !is_lower(lower) || lower.join("session").is_file() => {
            "is the folder of a store"
        }
        (Some(below), own) if !below.is_empty() && !own.is_empty() && below.is_disjoint(&own) => {
            "has chunks of another store"
        }
        _ => return Ok(()),
    };
    let (shown, own) = (lower.display(), folder.display());
    Err(Error::invalid(format!(
        "{shown} {why}: give the folder that {own} has moved chunks to, or leave --lower out if it has moved none"
    )))
}

/// What is said of the folder of a lower layer that nothing has.
pub fn no_lower(dir: &Path) -> Error {
    Error::invalid(format!(
        "{} holds no context, and nothing else has a lower folder: leave --lower out",
        dir.display()
    ))
}

/// As [`expect_lower`], and `Missing` where nothing is in it.
pub fn expect_lower_with_chunks(folder: &Path, lower: &Path) -> Result<()> {
    expect_lower(folder, lower)?;
    if owners(lower)?.is_some() {
        return Ok(());
    }
    let (shown, own) = (lower.display(), folder.display());
    Err(Error::missing(format!(
        "{shown} has no chunks: give the folder that {own} has moved chunks to, or put them back from a copy"
    )))
}

/// A folder that goes away with its handle.
pub fn temporary() -> Result<tempfile::TempDir> {
    let folder = std::env::temp_dir();
    if !folder.is_dir() {
        let detail = "for what is made for a while: set TMPDIR to one that can be written to";
        return Err(Error::missing(format!("there is no folder {} {detail}", folder.display())));
    }
    temporary_in(&folder)
}

/// The same in `folder`.
pub fn temporary_in(folder: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("varvite-").tempdir_in(folder).map_err(|error| {
        // The error names the folder a second time.
        let error = std::io::Error::from(error.kind());
        Error::io("make a folder in", &folder.display().to_string(), error)
    })
}

#[cfg(test)]
mod tests {
    use varvite::disk::{Access, Mode};

    use super::*;

    fn make(disk: &Noted, names: &[&str]) {
        for name in names {
            disk.open(name, Mode::Create, Access::Buffered).expect("it is new");
        }
    }

    /// What stays in a folder in which this process has begun to make a store, and others have put something.
    fn left(error: &Error, is_held: bool) -> Vec<String> {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path().join("o");
        let (target, disk) = Target::create(&folder).expect("it is made");
        let other = OsDisk::new(&folder).expect("it is there");
        if is_held {
            // It has gone from this one.
            other.lock(LOCK, "another").expect("nobody else has it");
        } else {
            disk.lock(LOCK, "this").expect("nobody else has it");
        }
        let held = is_held.then(|| other.lock(LOCK, "another").expect("nobody else has it"));
        disk.create_directory("segments").expect("it has room");
        make(&disk, &["half-made.tmp", "0000-000000.pack", "segments/1.segment", "replaced"]);
        disk.rename("half-made.tmp", "half-made").expect("it is there");
        for name in ["0000-000007.pack", "reserve", "segments/2.segment", "replaced"] {
            let _ = fs::remove_file(folder.join(name));
            fs::write(folder.join(name), "of another").expect("it has room");
        }
        target.take_back(error);
        drop(held);
        let mut names = other.list("").expect("it stays");
        names.extend(other.list("segments").expect("it stays"));
        names
    }

    #[test]
    fn what_another_process_makes_in_the_same_folder_is_not_taken_back() {
        let full = || Error::io("write", "it", std::io::ErrorKind::StorageFull.into());
        let all =
            ["0000-000000.pack", "0000-000007.pack", "half-made", "lock", "replaced", "reserve"];
        let all = [&all[..], &["segments", "1.segment", "2.segment"]].concat();
        assert_eq!(left(&full(), true), all);
        let refused = |kind| Error::new(kind, "another makes one there");
        assert_eq!(left(&refused(Kind::Locked), true), all);
        // Between two of its steps, too.
        assert_eq!(left(&refused(Kind::Locked), false), all);
        let others = ["0000-000007.pack", "replaced", "reserve", "segments", "2.segment"];
        for error in [full(), refused(Kind::Corrupt), refused(Kind::Invalid)] {
            assert_eq!(left(&error, false), others);
        }
    }

    /// What fails behind the last step of making it leaves none, either, unless somebody has had it since.
    #[cfg(unix)]
    #[test]
    fn a_store_that_was_made_and_failed_is_taken_back_as_long_as_nobody_used_it() {
        let failed = || Error::io("list", "it", std::io::ErrorKind::Other.into());
        for used in ["", "lock", "segments/more", "session"] {
            let temporary = tempfile::tempdir().expect("a folder");
            let folder = temporary.path().join("o");
            let (target, disk) = Target::create(&folder).expect("it is made");
            let own = format!("process {}", std::process::id());
            drop(disk.lock(LOCK, &own).expect("nobody else has it"));
            disk.create_directory("segments").expect("it has room");
            make(&disk, &["session.tmp", "segments/1.segment"]);
            disk.rename("session.tmp", "session").expect("it is there");
            if !used.is_empty() {
                let name = folder.join(used);
                let _ = fs::remove_file(&name);
                fs::write(name, "process 1").expect("it has room");
            }
            target.take_back(&failed());
            assert_eq!(folder.join("session").exists(), !used.is_empty(), "{used}");
            assert_eq!(folder.exists(), !used.is_empty(), "{used}");
        }
    }

    /// Those of a store whose folder is moved there, because of which the creation was refused.
    #[test]
    fn chunks_that_came_before_anything_was_made_are_not_taken_back() {
        for is_locked in [false, true] {
            let temporary = tempfile::tempdir().expect("a folder");
            let (target, disk) = Target::create(temporary.path()).expect("it is there");
            if is_locked {
                disk.lock(LOCK, "this").expect("nobody has it");
            }
            let chunk = temporary.path().join("0000-000000.pack");
            fs::write(&chunk, "of another").expect("it has room");
            target.take_back(&Error::corrupt("it", 0, "nothing", "a chunk"));
            assert_eq!(disk.list("").expect("it is there"), ["0000-000000.pack"]);
        }
    }

    #[test]
    fn a_store_of_another_process_is_not_taken_back() {
        let full = Error::io("write", "it", std::io::ErrorKind::StorageFull.into());
        for name in ["control", "session"] {
            let temporary = tempfile::tempdir().expect("a folder");
            let (target, _) = Target::create(temporary.path()).expect("it is there");
            for name in [name, "0000-000000.pack"] {
                fs::write(temporary.path().join(name), "of another").expect("it has room");
            }
            target.take_back(&full);
            for name in [name, "0000-000000.pack"] {
                assert!(temporary.path().join(name).exists(), "{name}");
            }
        }
    }

    /// Where it cannot be had for another reason than that somebody has it, it keeps nobody out.
    #[test]
    fn without_a_lock_nothing_is_taken_back() {
        let full = Error::io("write", "it", std::io::ErrorKind::StorageFull.into());
        let temporary = tempfile::tempdir().expect("a folder");
        let (target, disk) = Target::create(temporary.path()).expect("it is there");
        make(&disk, &["half-made"]);
        fs::create_dir(temporary.path().join(LOCK)).expect("it has room");
        target.take_back(&full);
        assert!(temporary.path().join("half-made").exists());
    }

    #[test]
    fn chunks_of_another_store_stay_where_those_of_one_go() {
        let temporary = tempfile::tempdir().expect("a folder");
        let at = |name: &str| temporary.path().join(name);
        let chunk = |store: &str| {
            let disk = OsDisk::create(at(store)).expect("it is made");
            drop(Store::create(disk, varvite::context::Options::default()).expect("it is new"));
            fs::read(at(store).join("0000-000000.pack")).expect("its first chunk")
        };
        let (own, other) = (chunk("a"), chunk("b"));
        fs::create_dir(at("low")).expect("it has room");
        for (name, bytes) in [("0000-000000.pack", own), ("0000-000001.pack", other)] {
            fs::write(at("low").join(name), bytes).expect("it has room");
        }
        fs::write(at("low/notes.pack"), "mine").expect("it has room");
        remove_moved(&at("low"), &at("gone"));
        assert_eq!(fs::read_dir(at("low")).expect("it is there").count(), 3);
        remove_moved(&at("low"), &at("a"));
        let names = OsDisk::new(at("low")).and_then(|disk| disk.list("")).expect("they stay");
        assert_eq!(names, ["0000-000001.pack", "notes.pack"]);
    }
}
