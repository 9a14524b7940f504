//! Reads what a session's folder says of itself: its own file and the manifests.

use super::paths::{self, LOCK, LOG, SEGMENTS, SESSION, SNAPSHOTS};
use super::snapshot::Manifest;
use crate::disk::{Access, Disk, Lock, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::replace::is_leftover;
use crate::format::codec::Encoder;
use crate::format::header::{FileKind, Header, LENGTH, checked_body, finish_with_checksum};

/// Largest manifest that is read: beyond any real one, so that a damaged folder costs little.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Length of the session's file.
const SESSION_BYTES: usize = LENGTH + 12;

/// Locks a folder in which there is to be a session and makes its folders. `Exists` when there is a
/// session, `Invalid` when there is something else; what a creation or an export left that was cut
/// short is removed, for without the session's file nothing names it.
pub fn claim(disk: &dyn Disk) -> Result<Box<dyn Lock>> {
    let ours = |name: &str| [LOCK, SEGMENTS, SNAPSHOTS, LOG].contains(&name) || is_leftover(name);
    let foreign = |name: &str| {
        Error::invalid(format!(
            "{} is not empty (it has {name}): choose an empty folder",
            disk.root()
        ))
    };
    let names = disk.list("")?;
    // Before what else is there: hosts keep files of their own beside a session's.
    if names.iter().any(|name| name == SESSION) {
        return Err(Error::new(
            Kind::Exists,
            format!("{} holds a session already: open it instead", disk.root()),
        ));
    }
    if let Some(name) = names.iter().find(|name| !ours(name)) {
        return Err(foreign(name));
    }
    let lock = disk.lock(LOCK, &holder())?;
    for folder in [SEGMENTS, SNAPSHOTS] {
        disk.create_directory(folder)?;
        for name in disk.list(folder)? {
            let is_segment = folder == SEGMENTS && paths::file_id(&name).is_some();
            let is_manifest = folder == SNAPSHOTS && paths::snapshot_name(&name).is_some();
            let path = format!("{folder}/{name}");
            if !is_segment && !is_manifest && !is_leftover(&name) {
                return Err(foreign(&path));
            }
            disk.remove(&path)?;
        }
    }
    // The session's own file makes it one, so it must not outlive a crash without its folders.
    disk.sync_directory("")?;
    Ok(lock)
}

/// What a lock says of the process that has it.
pub fn holder() -> String {
    format!("process {}", std::process::id())
}

pub fn read_session(disk: &dyn Disk) -> Result<(u64, u64)> {
    let opened = disk.open(SESSION, Mode::Read, Access::Buffered);
    let file = opened.map_err(|error| match error.kind() {
        Kind::Missing => Error::missing(format!(
            "{} is not a varvite session: it has no file called session; give the folder of one",
            disk.root()
        )),
        _ => error,
    })?;
    let mut bytes = [0; SESSION_BYTES];
    file.read_exact_at(0, &mut bytes)?;
    let found = decode_session(&bytes)?;
    if file.len()? != bytes.len() as u64 {
        return Err(Error::corrupt(SESSION, bytes.len() as u64, "the end", "more bytes"));
    }
    Ok(found)
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
    let names = disk.list(SNAPSHOTS)?;
    Ok(names.iter().filter_map(|name| paths::snapshot_name(name)).map(str::to_owned).collect())
}

pub fn read_manifest(disk: &dyn Disk, name: &str) -> Result<Manifest> {
    Ok(read_manifest_bytes(disk, name)?.0)
}

pub fn read_manifest_bytes(disk: &dyn Disk, name: &str) -> Result<(Manifest, u64)> {
    paths::check_name("snapshot", name)?;
    let path = paths::snapshot(name);
    let opened = disk.open(&path, Mode::Read, Access::Buffered);
    let file = opened.map_err(|error| missing_snapshot(disk, name, error))?;
    let length = file.len()?;
    if length > MANIFEST_BYTES_MAX {
        return Err(Error::corrupt(&path, length, "a manifest below 1 GiB", "more bytes"));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok((Manifest::decode(&path, &bytes)?, length))
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
    Error::new(
        Kind::Corrupt,
        format!(
            "{file} is not there, but what the session keeps is in it; \
             run `varvite check` and restore it from a snapshot or another copy"
        ),
    )
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

/// What an error means to whoever opens what snapshot `name` names: when a file was missing, the
/// snapshot was deleted meanwhile (`Missing`), or it has lost the file (`Corrupt`).
pub fn lost_or_deleted(disk: &dyn Disk, name: &str, manifest: &Manifest, error: Error) -> Error {
    if error.kind() != Kind::Missing {
        return error;
    }
    let error = lost_among(disk, manifest.files(), error);
    // Only now: a manifest goes before the files that it names.
    match read_manifest(disk, name) {
        Ok(now) if now == *manifest => error,
        _ => deleted_meanwhile(name),
    }
}

/// `Missing`: the snapshot was there a moment ago.
pub fn deleted_meanwhile(name: &str) -> Error {
    Error::missing(format!("the snapshot \"{name}\" was deleted while it was opened"))
}
