//! Reads what a session's folder says of itself: its own file and the manifests.

use std::sync::Arc;

use super::checkpoint::read_any_checkpoint;
use super::snapshot::Manifest;
use crate::disk::{Access, Disk, Lock, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::exclusive;
use crate::file::replace;
use crate::file::reserve;
use crate::format::codec::Encoder;
use crate::format::header::{FileKind, Header, LENGTH, checked_body, finish_with_checksum};
use crate::order;
use crate::order::BTreeMap;
use crate::table::shared::paths::{
    self, CHECKPOINT, LOCK, LOG, RESERVE, SEGMENTS, SESSION, SNAPSHOTS,
};
use crate::table::shared::tell_doubt;

/// Largest manifest that is read: beyond any real one, so that a damaged folder costs little.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Length of the session's file.
const SESSION_BYTES: usize = LENGTH + 12;

/// A folder that is to become a session: locked, marked, with its folders and nothing in them.
///
/// The mark is the session's own file under the name that it has before it is finished. It is durable
/// before anything else is made, and goes by the rename that makes the session. So where it is, all
/// that is there is of a creation or an export that was cut short; where neither is, files of a
/// session are all that is left of one, and are never removed.
#[derive(Debug)]
pub struct Claim {
    disk: Arc<dyn Disk>,
}

impl Claim {
    /// Claims the root folder of `disk`. `Exists` when there is a session, `Invalid` when there is
    /// something else, `Corrupt` when a session has lost its own file. What a creation or an export has
    /// left that was cut short is removed.
    pub fn begin(disk: &Arc<dyn Disk>) -> Result<(Claim, Box<dyn Lock>)> {
        expect_free(&**disk)?;
        let lock = exclusive::lock(&**disk, LOCK, &exclusive::holder())?;
        // Again: another process may have made a session before the lock was ours.
        let is_marked = expect_free(&**disk)?;
        let left = left_over(&**disk, is_marked)?;
        if !is_marked {
            disk.open(&mark(), Mode::Create, Access::Buffered)?.sync()?;
        } else if left.is_empty() {
            // The sync that should have made it durable may have failed. Beside files it is: they came after. It is never
            // away: a removal of files may have failed, too, and then the power brings them back.
            make_empty(&**disk, &paths::in_doubt(), &mark())?;
        }
        disk.sync_directory("")?;
        left.iter().try_for_each(|path| disk.remove(path))?;
        // It says that tables are live, and none is.
        if reserve::is_there(&**disk, RESERVE)? {
            absent(disk.remove(RESERVE))?;
        }
        make_folders(&**disk)?;
        end_copying(&**disk)?;
        Ok((Claim { disk: Arc::clone(disk) }, lock))
    }

    /// The same for a copy of another session with log and checkpoint. Should it be cut short, they are
    /// removed by the next claim, since a mark of its own says that they are nothing yet.
    pub fn begin_copying(disk: &Arc<dyn Disk>) -> Result<(Claim, Box<dyn Lock>)> {
        let (claim, lock) = Claim::begin(disk)?;
        disk.open(&paths::half_copied(), Mode::Create, Access::Buffered)?.sync()?;
        disk.sync_directory("")?;
        Ok((claim, lock))
    }

    /// Claims the root folder of `disk`, whatever session is there: that ends with the rename of its own
    /// file to the mark, under the lock. Files that are not ours stay. `Locked` when somebody has it.
    pub fn begin_over(disk: &Arc<dyn Disk>) -> Result<(Claim, Box<dyn Lock>)> {
        let lock = exclusive::lock(&**disk, LOCK, &exclusive::holder())?;
        let mark = mark();
        let is_session = disk.exists(SESSION)?;
        if !is_session && disk.exists(&mark)? {
            // Anew: the sync that should have made the first rename durable may have failed, and then
            // the power brings the session back, which must not have lost a file. By an empty file, since
            // a kill between the two must not show the session, which may have lost some already.
            make_empty(&**disk, &format!("{CHECKPOINT}{}", replace::SUFFIX), SESSION)?;
            disk.rename(SESSION, &mark)?;
        } else if is_session {
            disk.rename(SESSION, &mark)?;
        } else {
            disk.open(&mark, Mode::Create, Access::Buffered)?.sync()?;
        }
        disk.sync_directory("")?;
        clear(&**disk)?;
        make_folders(&**disk)?;
        Ok((Claim { disk: Arc::clone(disk) }, lock))
    }

    /// Makes the folder a session. What it has to begin with is durable.
    pub fn finish(&self, identity: u64, salt: u64) -> Result<()> {
        let bytes = encode_session(identity, salt);
        let file = self.disk.open(&mark(), Mode::Write, Access::Buffered)?;
        file.set_len(bytes.len() as u64)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        self.disk.rename(&mark(), SESSION)?;
        sync_names(&*self.disk, "")
    }

    /// Makes the folder none again, after [`Claim::finish`] failed: before anything in it is removed.
    pub fn retract(&self) -> Result<()> {
        // Beside the mark it is somebody's who put it there: ours has not got its name.
        if self.disk.exists(SESSION)? && !self.disk.exists(&mark())? {
            self.disk.rename(SESSION, &mark())?;
            self.disk.sync_directory("")?;
        }
        absent(self.disk.remove(&paths::in_doubt()))
    }

    /// Gives the folder up; what was made in it was removed. The mark goes after that is durable.
    pub fn give_up(self) -> Result<()> {
        for folder in [SEGMENTS, SNAPSHOTS] {
            self.disk.sync_directory(folder)?;
        }
        self.disk.remove(&mark())
    }
}

/// Makes the names in `folder` of a session durable. After an error they are in doubt, which the next
/// opening is told.
fn sync_names(disk: &dyn Disk, folder: &str) -> Result<()> {
    disk.sync_directory(folder).inspect_err(|_| tell_doubt(disk))
}

/// Removes the mark of a copy that was cut short, once nothing of it can come back.
fn end_copying(disk: &dyn Disk) -> Result<()> {
    let mark = paths::half_copied();
    if !disk.exists(&mark)? {
        return Ok(());
    }
    if disk.exists(LOG)? {
        disk.sync_directory(LOG)?;
    }
    disk.sync_directory("")?;
    disk.remove(&mark)
}

fn mark() -> String {
    format!("{SESSION}{}", replace::SUFFIX)
}

fn foreign(disk: &dyn Disk, path: &str) -> Error {
    Error::invalid(format!("{} is not empty (it has {path}): choose an empty folder", disk.root()))
}

/// `Corrupt`: a session has lost the file that makes it one.
pub fn lost_session(disk: &dyn Disk, path: &str) -> Error {
    Error::new(
        Kind::Corrupt,
        format!(
            "{} has {path} of a session, but not the file {SESSION}, without which it cannot be read: \
             put that file back from a copy, which may be of any age, have `varvite repair` make a new store \
             of what is there, or choose another folder; nothing was removed",
            disk.root()
        ),
    )
}

/// `Missing`, if the folder, whose file `session` is damaged or lost, is only being made a session, or was
/// when its maker died.
pub fn unfinished(disk: &dyn Disk) -> Result<Option<Error>> {
    let is_made = match disk.open(SESSION, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => false,
        // What a creation over a session puts there for a moment, beside the mark.
        file => !file?.is_empty()?,
    };
    if is_made || !disk.exists(&mark())? {
        return Ok(None);
    }
    Ok(Some(Error::missing(format!(
        "{} is not a varvite session yet: somebody is making it one, or died while he did; make it again; \
         nothing that is in it counts",
        disk.root()
    ))))
}

/// Whether a session names a file of `folder` so, or one that it is about to put there.
fn is_ours(folder: &str, name: &str) -> bool {
    match folder {
        SEGMENTS => paths::file_id(name).is_some(),
        "" if name == RESERVE => true,
        _ => paths::is_replaced(folder, replace::unfinished(name).unwrap_or(name)),
    }
}

/// The names in `folder` that a session has given. One `reserve` of the host's is not among them.
fn own_names(disk: &dyn Disk, folder: &str) -> Result<Vec<String>> {
    let mut names = names_in(disk, folder)?;
    // These are marks with the ending alone.
    let marks = [paths::in_doubt(), paths::half_copied()];
    let is_bare = |name: &String| marks.iter().any(|mark| replace::unfinished(mark) == Some(name));
    names.retain(|name| is_ours(folder, name) && !(folder.is_empty() && is_bare(name)));
    if folder.is_empty() && !reserve::is_there(disk, RESERVE)? {
        names.retain(|name| name != RESERVE);
    }
    Ok(names)
}

/// Removes every file of what was a session but the mark; what is not ours stays.
fn clear(disk: &dyn Disk) -> Result<()> {
    for folder in ["", SNAPSHOTS, SEGMENTS, LOG] {
        let mut names = match own_names(disk, folder) {
            // It is a file, of somebody's.
            Err(error) if error.kind() == Kind::Invalid => continue,
            names => names?,
        };
        names.retain(|name| *name != mark());
        for name in &names {
            disk.remove(&if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            })?;
        }
        if [SNAPSHOTS, ""].contains(&folder) && !names.is_empty() {
            // So that no crash brings back a snapshot, or live tables, without their segments.
            disk.sync_directory(folder)?;
        }
    }
    Ok(())
}

/// Removes the session in the root folder of `disk`; what is not ours stays. The caller holds its lock, of which
/// `is_held` makes sure before each step, and the file of the lock goes last: until then nobody makes another here.
///
/// First it is marked as one that is not made yet, so whoever reads it finds none instead of a damaged one, and
/// whoever makes one here, should this process die meanwhile, clears what is left.
pub fn remove(disk: &dyn Disk, is_held: &dyn Fn() -> Result<()>) -> Result<()> {
    is_held()?;
    // It says that log and checkpoint are nothing. A full disk may have no room for it, and then they go all the same.
    let made = || disk.open(&paths::half_copied(), Mode::Create, Access::Buffered).map(drop);
    if made().is_err_and(|error| error.is_no_space()) && reserve::is_there(disk, RESERVE)? {
        is_held()?;
        absent(disk.remove(RESERVE))?;
        let _ = made();
    }
    // So that no power cut leaves the mark alone beside log and checkpoint.
    sync_names(disk, "")?;
    is_held()?;
    disk.rename(SESSION, &mark())?;
    // Before anything goes: else a power cut could bring back a session without its files.
    disk.sync_directory("").inspect_err(|_| {
        // Nobody knows which of the names the power leaves: all of it stays, by the one that it had.
        let _ = disk.rename(&mark(), SESSION);
        tell_doubt(disk);
    })?;
    remove_all(disk, is_held)
}

/// The same without the mark, for a session that counts for nothing once something else is gone, which nobody has open.
/// `is_held` makes sure of the lock of that.
pub fn remove_all(disk: &dyn Disk, is_held: &dyn Fn() -> Result<()>) -> Result<()> {
    let gone = |path: &str| {
        is_held()?;
        absent(disk.remove(path))
    };
    let [mark, half_copied] = [mark(), paths::half_copied()];
    for folder in ["", LOG, SNAPSHOTS, SEGMENTS] {
        let mut names = match own_names(disk, folder) {
            // It is a file, of somebody's.
            Err(error) if error.kind() == Kind::Invalid => continue,
            names => names?,
        };
        names.retain(|name| ![&mark, &half_copied].contains(&name));
        if folder.is_empty() {
            names.iter().try_for_each(|name| gone(name))?;
            continue;
        }
        names.iter().try_for_each(|name| gone(&format!("{folder}/{name}")))?;
        is_held()?;
        // Where somebody has a file there, it stays.
        if disk.remove_directory(folder).is_err() && disk.exists(folder)? {
            disk.sync_directory(folder)?;
        }
    }
    disk.sync_directory("")?;
    gone(&half_copied)?;
    gone(&mark)?;
    disk.sync_directory("")?;
    gone(LOCK)
}

/// What is not there need not be removed.
fn absent(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() == Kind::Missing => Ok(()),
        removed => removed,
    }
}

/// The names in `folder` of a session; none where it is not there, since a copy may leave out what is empty.
pub fn names_in(disk: &dyn Disk, folder: &str) -> Result<Vec<String>> {
    match disk.list(folder) {
        Err(error) if error.kind() == Kind::Missing => Ok(Vec::new()),
        names => names,
    }
}

/// Whether a folder of a session is not there, which a copy of it may have left out because it was empty.
fn is_left_out(disk: &dyn Disk, folder: &str) -> Result<bool> {
    match disk.list(folder) {
        Err(error) if error.kind() == Kind::Missing => Ok(true),
        names => names.map(|_| false),
    }
}

/// Makes `folder` of a session, durably, where a copy of it has left it out.
pub fn make_left_out(disk: &dyn Disk, folder: &str) -> Result<()> {
    if !is_left_out(disk, folder)? {
        return Ok(());
    }
    disk.create_directory(folder)?;
    sync_names(disk, "")
}

/// `Corrupt`, where the folder of snapshots is not there beside files that nothing names: then it was not left
/// out because it was empty, as far as is known. `is_unnamed` says of a file in that of segments whether
/// anything else names it.
pub fn lost_snapshots(disk: &dyn Disk, is_unnamed: impl Fn(&str) -> bool) -> Result<Option<Error>> {
    if !is_left_out(disk, SNAPSHOTS)? {
        return Ok(None);
    }
    let names = names_in(disk, SEGMENTS)?;
    let unnamed = names.iter().filter(|name| is_unnamed(name)).count();
    Ok((unnamed > 0).then(|| {
        Error::new(
            Kind::Corrupt,
            format!(
                "{SNAPSHOTS}/ is not there, and {unnamed} files in {SEGMENTS}/ may be what its snapshots need: \
                 put it back, or make an empty folder of that name to do without them; until then no file is \
                 removed, and no snapshot is saved"
            ),
        )
    }))
}

/// What an error means to whoever saves a snapshot: without the folder, where to look for it.
pub fn unless_left_out(disk: &dyn Disk, error: Error) -> Error {
    if error.kind() != Kind::Missing || !matches!(is_left_out(disk, SNAPSHOTS), Ok(true)) {
        return error;
    }
    Error::missing(format!(
        "{SNAPSHOTS}/ is not there, so no snapshot can be saved: put it back, or make an empty folder of that \
         name, and open the session at {} again",
        disk.root()
    ))
}

/// Makes the folders of a session, durably. What is there and empty is made anew: a sync after which its
/// name, or the removal of what was in it, was to be durable may have failed.
fn make_folders(disk: &dyn Disk) -> Result<()> {
    for folder in [SEGMENTS, SNAPSHOTS] {
        if make_folder(disk, folder)? {
            // The session's own file makes it one, so it must not outlive a crash beside what was to go.
            disk.sync_directory(folder)?;
        }
    }
    disk.sync_directory("")
}

/// Makes one of them, anew unless there is something in it; whether there is.
pub fn make_folder(disk: &dyn Disk, folder: &str) -> Result<bool> {
    match disk.list(folder) {
        Ok(names) if names.is_empty() => disk.remove_directory(folder)?,
        Ok(_) => return Ok(true),
        Err(error) if error.kind() == Kind::Missing => {}
        Err(error) => return Err(error),
    }
    disk.create_directory(folder)?;
    Ok(false)
}

/// What makes the names of a session durable at opening, before anything is removed that they, or those
/// that they replaced, need: a process that died had perhaps not synced them.
///
/// Where a sync of their folder failed, no other does what that did not. So after a session that said so
/// they are made anew, for a `sync` each. Gives what could not be, since there was no room for it, and why.
pub fn make_names_durable(
    disk: &Arc<dyn Disk>,
    found: &[String],
    are_all_read: bool,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let saved = saves(&**disk)?;
    let in_doubt = disk.exists(&paths::in_doubt())?;
    if in_doubt {
        let mut names = vec![SESSION.to_owned()];
        if disk.exists(CHECKPOINT)? {
            names.push(CHECKPOINT.to_owned());
        }
        names.extend(found.iter().map(|name| paths::snapshot(name)));
        names.extend(saved.last().map(|number| paths::saved(*number)));
        for path in names {
            match replace::renew(disk, &path) {
                Err(error) if error.is_no_space() => warnings.push(format!(
                    "{path} could not be made certain to outlive a power cut, so no file was removed: {error}"
                )),
                renewed => renewed?,
            }
        }
    }
    sync_names(&**disk, "")?;
    if !is_left_out(&**disk, SNAPSHOTS)? {
        sync_names(&**disk, SNAPSHOTS)?;
    }
    for number in saved.iter().rev().skip(1) {
        disk.remove(&paths::saved(*number))?;
    }
    if in_doubt && are_all_read && warnings.is_empty() {
        disk.remove(&paths::in_doubt())?;
    }
    Ok(warnings)
}

/// The numbers of saves that files tell by their names, in their order.
pub fn saves(disk: &dyn Disk) -> Result<Vec<u64>> {
    let names = names_in(disk, SNAPSHOTS)?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| paths::saved_number(name)).collect();
    order::sort_by(&mut numbers, Ord::cmp);
    Ok(numbers)
}

/// Ends the deletions of snapshots that a process began and perhaps did not make durable.
///
/// The manifest has another name then, and the first one may be back after a crash. It goes by a new,
/// empty file that takes it over and is removed: what was deleted never gets its name back.
pub fn end_deletions(disk: &Arc<dyn Disk>) -> Result<Option<String>> {
    let names = names_in(&**disk, SNAPSHOTS)?;
    let names: Vec<_> = names.iter().filter_map(|name| paths::deleted_name(name)).collect();
    if names.is_empty() {
        return Ok(None);
    }
    match end_deletions_of(disk, &names) {
        Err(error) if error.is_no_space() => Ok(Some(format!(
            "the deletion of snapshot {} could not be made durable, so no file was removed: {error}",
            names[0]
        ))),
        ended => ended.map(|()| None),
    }
}

fn end_deletions_of(disk: &Arc<dyn Disk>, names: &[&str]) -> Result<()> {
    // First, so that whoever meets the empty file knows what it is. Nobody needs the manifest's bytes.
    for name in names {
        let deleted = paths::deleted(name);
        make_empty(&**disk, &format!("{deleted}{}", replace::SUFFIX), &deleted)?;
    }
    sync_names(&**disk, SNAPSHOTS)?;
    for name in names {
        let path = paths::snapshot(name);
        if disk.exists(&path)? && !is_deleted(&**disk, name)? {
            // Another was saved since.
            continue;
        }
        make_empty(&**disk, &format!("{path}{}", replace::SUFFIX), &path)?;
        disk.remove(&path)?;
    }
    sync_names(&**disk, SNAPSHOTS)?;
    names.iter().try_for_each(|name| disk.remove(&paths::deleted(name)))
}

/// Puts a new, empty file at `path`, by way of `working`.
fn make_empty(disk: &dyn Disk, working: &str, path: &str) -> Result<()> {
    match disk.remove(working) {
        Err(error) if error.kind() != Kind::Missing => return Err(error),
        _ => {}
    }
    disk.open(working, Mode::Create, Access::Buffered)?.sync()?;
    disk.rename(working, path)
}

/// Whether the file of snapshot `name` stands for its deletion, which an opening ends.
fn is_deleted(disk: &dyn Disk, name: &str) -> Result<bool> {
    let length = match disk.open(&paths::snapshot(name), Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => return Ok(false),
        file => file?.len()?,
    };
    Ok(length == 0 && disk.exists(&paths::deleted(name))?)
}

/// Whether the root folder, in which there is no session and nothing foreign, has the mark.
fn expect_free(disk: &dyn Disk) -> Result<bool> {
    let names = disk.list("")?;
    // Before what else is there: hosts keep files of their own beside a session's.
    if names.iter().any(|name| name == SESSION) {
        return Err(Error::new(
            Kind::Exists,
            format!("{} holds a session already: open it instead", disk.root()),
        ));
    }
    let (mark, copying) = (mark(), paths::half_copied());
    for name in &names {
        let is_of_copy = is_checkpoint(name) && names.contains(&copying);
        if name == CHECKPOINT && !is_of_copy {
            return Err(lost_session(disk, name));
        }
        if name == RESERVE && !reserve::is_there(disk, name)? {
            return Err(foreign(disk, name));
        }
        if name == RESERVE && !names.contains(&mark) {
            return Err(lost_session(disk, name));
        }
        let is_ours = is_of_copy
            || [&mark, &copying, &paths::in_doubt()].contains(&name)
            || [LOCK, RESERVE, SEGMENTS, SNAPSHOTS, LOG].contains(&name.as_str());
        if !is_ours {
            return Err(foreign(disk, name));
        }
    }
    Ok(names.contains(&mark))
}

/// Whether a file in the root folder is the checkpoint, or one that is being written.
fn is_checkpoint(name: &str) -> bool {
    replace::unfinished(name).unwrap_or(name) == CHECKPOINT
}

/// The files in the folders of a session that is none. All of them may go when the folder is marked,
/// but a log with a record, which nothing that was cut short leaves.
fn left_over(disk: &dyn Disk, is_marked: bool) -> Result<Vec<String>> {
    let mut left = Vec::new();
    let is_copy = disk.exists(&paths::half_copied())?;
    if is_copy {
        let names = disk.list("")?;
        left.extend(names.into_iter().filter(|name| is_checkpoint(name)));
    }
    for folder in [SEGMENTS, SNAPSHOTS, LOG] {
        for name in names_in(disk, folder)? {
            let path = format!("{folder}/{name}");
            if !is_ours(folder, &name) {
                return Err(foreign(disk, &path));
            }
            let is_log = folder == LOG && paths::log_number(&name).is_some();
            let has_records =
                is_log && disk.open(&path, Mode::Read, Access::Buffered)?.len()? > LENGTH as u64;
            if !is_marked || (has_records && !is_copy) {
                return Err(lost_session(disk, &path));
            }
            left.push(path);
        }
    }
    Ok(left)
}

/// A file in the folders of a session.
fn file_of_session(disk: &dyn Disk) -> Result<Option<String>> {
    for folder in [SEGMENTS, SNAPSHOTS, LOG] {
        let names = match disk.list(folder) {
            // Or a file of somebody's.
            Err(error) if [Kind::Missing, Kind::Invalid].contains(&error.kind()) => continue,
            names => names?,
        };
        if let Some(name) = names.iter().find(|name| is_ours(folder, name)) {
            return Ok(Some(format!("{folder}/{name}")));
        }
    }
    Ok(None)
}

/// What an error means to whoever reads the file `session`: beside the files of a session, another file in its place is
/// damage. Elsewhere it may be somebody's.
fn damaged_session(disk: &dyn Disk, error: Error) -> Error {
    let is_damage = match error.kind() {
        Kind::Corrupt => true,
        Kind::Invalid => matches!(file_of_session(disk), Ok(Some(_))),
        _ => false,
    };
    if !is_damage {
        return error;
    }
    Error::new(Kind::Corrupt, error.what()).advised(
        "put it back from a copy, which may be of any age, or have `varvite repair` make a new store of what is there",
    )
}

/// Why the root folder has no file `session`.
fn no_session(disk: &dyn Disk) -> Result<Error> {
    if let Some(error) = unfinished(disk)? {
        return Ok(error);
    }
    if let Some(path) = file_of_session(disk)? {
        // Unless somebody began to make one while this looked.
        let begun = unfinished(disk)?;
        return Ok(begun.unwrap_or_else(|| lost_session(disk, &path)));
    }
    Ok(Error::missing(format!(
        "{} is not a varvite session: it has no file called session; give the folder of one",
        disk.root()
    )))
}

/// Identity and salt of the session in the root folder. `Missing` when there is none or none yet, `Corrupt` when it has
/// lost the file that makes it one.
pub fn read_session(disk: &dyn Disk) -> Result<(u64, u64)> {
    let open = || disk.open(SESSION, Mode::Read, Access::Buffered);
    let is_missing = |error: &Error| error.kind() == Kind::Missing;
    let file = match open() {
        Err(error) if is_missing(&error) => {
            let why = no_session(disk)?;
            // Or somebody has made one by now.
            open().map_err(|error| if is_missing(&error) { why } else { error })?
        }
        file => file?,
    };
    let read = || {
        let mut bytes = [0; SESSION_BYTES];
        file.read_exact_at(0, &mut bytes)?;
        let found = decode_session(&bytes)?;
        if file.len()? != bytes.len() as u64 {
            return Err(Error::corrupt(SESSION, bytes.len() as u64, "the end", "more bytes"));
        }
        Ok(found)
    };
    read().map_err(|error| damaged_session(disk, error))
}

/// The bytes of the session's file. Format document: `docs/format/session.md`.
#[must_use]
pub fn encode_session(identity: u64, salt: u64) -> Vec<u8> {
    let mut to = Encoder::new();
    to.raw(&Header::new(FileKind::Session, identity, identity).encode());
    to.u64(salt);
    finish_with_checksum(to)
}

/// Identity and salt from the bytes of a session's file; `Corrupt` when they are none.
pub fn decode_session(bytes: &[u8]) -> Result<(u64, u64)> {
    let header = Header::expect(SESSION, bytes, FileKind::Session)?;
    let mut from = checked_body(SESSION, bytes, "checksum")?;
    let salt = from.u64()?;
    from.finish()?;
    Ok((header.identity, salt))
}

pub fn snapshot_names(disk: &dyn Disk) -> Result<Vec<String>> {
    let names = names_in(disk, SNAPSHOTS)?;
    Ok(names.iter().filter_map(|name| paths::snapshot_name(name)).map(str::to_owned).collect())
}

/// The manifest of snapshot `name` of the session `identity`. `Corrupt` when the file is that of
/// another snapshot, or of another session.
pub fn read_manifest(disk: &dyn Disk, identity: u64, name: &str) -> Result<Manifest> {
    Ok(read_manifest_bytes(disk, identity, name)?.0)
}

/// The same, and the file's length.
pub fn read_manifest_bytes(disk: &dyn Disk, identity: u64, name: &str) -> Result<(Manifest, u64)> {
    let (manifest, length) = read_any_manifest(disk, name)?;
    manifest.expect(&paths::snapshot(name), identity, name)?;
    Ok((manifest, length))
}

/// The manifest that is where that of snapshot `name` is to be, whosever it is, and its length.
pub fn read_any_manifest(disk: &dyn Disk, name: &str) -> Result<(Manifest, u64)> {
    paths::check_name("snapshot", name)?;
    let path = paths::snapshot(name);
    let opened = disk.open(&path, Mode::Read, Access::Buffered);
    let file = opened.map_err(|error| missing_snapshot(disk, name, error))?;
    let length = file.len()?;
    // Or it was, and the opening that ends the deletion has removed it by now.
    if length == 0 && (is_deleted(disk, name)? || !disk.exists(&path)?) {
        return Err(missing_snapshot(disk, name, Error::missing(path)));
    }
    if length > MANIFEST_BYTES_MAX {
        return Err(Error::corrupt(&path, length, "a manifest below 1 GiB", "more bytes"));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok((Manifest::decode(&path, &bytes)?, length))
}

/// Of which session the files in the root folder of `disk` are, as checkpoint and manifests say: of each
/// session the files that name it. Those that are damaged say nothing.
pub fn told_identities(disk: &dyn Disk) -> Result<BTreeMap<u64, Vec<String>>> {
    let mut told = BTreeMap::<u64, Vec<String>>::new();
    match read_any_checkpoint(disk) {
        Err(error) if error.kind() == Kind::Io => return Err(error),
        Ok(Some(checkpoint)) => {
            told.entry(checkpoint.header.store).or_default().push(CHECKPOINT.to_owned());
        }
        _ => {}
    }
    for name in snapshot_names(disk)? {
        match read_any_manifest(disk, &name) {
            Err(error) if error.kind() == Kind::Io => return Err(error),
            Ok((manifest, _)) => {
                told.entry(manifest.header.store).or_default().push(paths::snapshot(&name));
            }
            Err(_) => {}
        }
    }
    Ok(told)
}

pub fn missing_snapshot(disk: &dyn Disk, name: &str, error: Error) -> Error {
    if error.kind() != Kind::Missing {
        return error;
    }
    let names = snapshot_names(disk).unwrap_or_default();
    let there = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
    Error::missing(format!("there is no snapshot \"{name}\" in {}: {there}", disk.root()))
}

/// `Corrupt`: the session names `file`, but it is not there.
pub fn lost_file(file: &str) -> Error {
    Error::of_file(Kind::Corrupt, file, "is not there, but what the session keeps is in it")
        .advised(Error::CHECK_ADVICE)
}

/// The error, or [`lost_file`] when it says that one of `files` is missing, and it is.
pub fn lost_among(
    disk: &dyn Disk,
    mut files: impl Iterator<Item = (u64, String)>,
    error: Error,
) -> Error {
    if error.kind() != Kind::Missing {
        return error;
    }
    let lost = files.find(|(_, path)| matches!(disk.exists(path), Ok(false)));
    lost.map_or(error, |(_, path)| lost_file(&path))
}

/// What an error means to whoever opens what a snapshot names: when a file was missing, or another one, the
/// snapshot was deleted meanwhile (`Missing`), or it has lost the file (`Corrupt`). The number of a file that
/// was deleted may be given again, and that one be half written.
pub fn lost_or_deleted(disk: &dyn Disk, manifest: &Manifest, error: Error) -> Error {
    let is_missing = error.kind() == Kind::Missing;
    if !is_missing && !error.kind().is_of_bytes() {
        return error;
    }
    let error = lost_among(disk, manifest.files(), error);
    // Only now: a manifest goes before the files that it names.
    match read_manifest(disk, manifest.header.store, &manifest.name) {
        Ok(now) if now == *manifest => error,
        // What cannot be read is not gone.
        Err(now) if now.kind() != Kind::Missing => error,
        _ => deleted_meanwhile(&manifest.name),
    }
}

/// `Missing`: the snapshot was there a moment ago.
pub fn deleted_meanwhile(name: &str) -> Error {
    Error::missing(format!("the snapshot \"{name}\" was deleted while it was opened"))
}
