//! Every file name of a session, made and recognised here and nowhere else.

use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Result};
use crate::file::replace;

/// The file that says what the session is.
pub const SESSION: &str = "session";
/// Held by the one process that writes.
pub const LOCK: &str = "lock";
/// Folder of segments.
pub const SEGMENTS: &str = "segments";
/// Folder of manifests.
pub const SNAPSHOTS: &str = "snapshots";

/// Put into the root folder, for the next opening, by a session that a sync has failed. Whether it outlives
/// a power cut does not matter: the names that are in doubt do not.
pub const IN_DOUBT: &str = "in-doubt";

/// Put into the root folder while a first copy of another session is made there: what is there then is
/// nothing yet, log and checkpoint too.
pub const HALF_COPIED: &str = "half-copied";

/// Folder of log files.
pub const LOG: &str = "log";
/// The file that says which tables are live.
pub const CHECKPOINT: &str = "checkpoint";

/// Room that goes to a write that frees more of it on a full disk; see [`Reserve`](crate::file::reserve::Reserve).
pub const RESERVE: &str = "reserve";

const LOG_SUFFIX: &str = ".log";
const SEGMENT_SUFFIX: &str = ".segment";
const BLOB_SUFFIX: &str = ".blob";
const SNAPSHOT_SUFFIX: &str = ".snapshot";
const DELETED_SUFFIX: &str = ".deleted";
const SAVED_SUFFIX: &str = ".saved";

/// No session gets that far, and none is given such a number. A file that has one is not ours: were ours
/// numbered above it, no manifest or checkpoint could name them.
pub const NUMBERS_END: u64 = 1 << 61;

/// `Invalid` for a number that the file `path` of the session at `root` cannot have, since it would not be
/// known for ours.
pub fn check_number(root: &str, path: &str, number: u64) -> Result<()> {
    if number < NUMBERS_END {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the session at {root} has come to the last number that a file may have, so it makes no {path}: \
         if somebody put the file before it there, remove that one; else export the snapshots to another session"
    )))
}

/// The path of [`IN_DOUBT`], which no session keeps.
pub fn in_doubt() -> String {
    format!("{IN_DOUBT}{}", replace::SUFFIX)
}

/// The path of [`HALF_COPIED`], which no session keeps.
pub fn half_copied() -> String {
    format!("{HALF_COPIED}{}", replace::SUFFIX)
}

/// The path of segment `id`.
pub fn segment(id: u64) -> String {
    format!("{SEGMENTS}/{id:016x}{SEGMENT_SUFFIX}")
}

/// The path of blob file `id`, in the same folder: one id is never both a segment's and a blob file's.
pub fn blob(id: u64) -> String {
    format!("{SEGMENTS}/{id:016x}{BLOB_SUFFIX}")
}

/// The id of the segment or blob file called `name` in their folder.
pub fn file_id(name: &str) -> Option<u64> {
    number(name.strip_suffix(SEGMENT_SUFFIX).or_else(|| name.strip_suffix(BLOB_SUFFIX))?)
}

/// The id of the segment called `name` in its folder.
pub fn segment_id(name: &str) -> Option<u64> {
    number(name.strip_suffix(SEGMENT_SUFFIX)?)
}

/// The path of log file `number`.
pub fn log_file(number: u64) -> String {
    format!("{LOG}/{number:016x}{LOG_SUFFIX}")
}

/// The number of the log file called `name` in its folder.
pub fn log_number(name: &str) -> Option<u64> {
    number(name.strip_suffix(LOG_SUFFIX)?)
}

fn number(digits: &str) -> Option<u64> {
    let is_ours = digits.len() == 16
        && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    is_ours.then(|| u64::from_str_radix(digits, 16).ok())?.filter(|number| *number < NUMBERS_END)
}

/// The path of the manifest of snapshot `name`.
pub fn snapshot(name: &str) -> String {
    format!("{SNAPSHOTS}/{name}{SNAPSHOT_SUFFIX}")
}

/// The snapshot whose manifest is called `name` in its folder.
pub fn snapshot_name(name: &str) -> Option<&str> {
    name.strip_suffix(SNAPSHOT_SUFFIX).filter(|name| check_name("snapshot", name).is_ok())
}

/// The path of the manifest of snapshot `name` while it is being deleted.
pub fn deleted(name: &str) -> String {
    format!("{}{DELETED_SUFFIX}", snapshot(name))
}

/// The snapshot whose manifest, called `name` in its folder, is being deleted.
pub fn deleted_name(name: &str) -> Option<&str> {
    snapshot_name(name.strip_suffix(DELETED_SUFFIX)?)
}

/// The path of the empty file whose name says how many snapshots were saved.
pub fn saved(number: u64) -> String {
    format!("{SNAPSHOTS}/{number:016x}{SAVED_SUFFIX}")
}

/// How many snapshots were saved, as the file called `name` in their folder says.
pub fn saved_number(name: &str) -> Option<u64> {
    number(name.strip_suffix(SAVED_SUFFIX)?)
}

/// Whether a session replaces a file of this name in `folder` whole.
pub fn is_replaced(folder: &str, name: &str) -> bool {
    match folder {
        "" => [SESSION, CHECKPOINT, IN_DOUBT, HALF_COPIED].contains(&name),
        SNAPSHOTS => {
            snapshot_name(name).or(deleted_name(name)).is_some() || saved_number(name).is_some()
        }
        LOG => log_number(name).is_some(),
        _ => false,
    }
}

/// `Invalid` unless `name` can name a table or snapshot on every file system.
pub fn check_name(what: &str, name: &str) -> Result<()> {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "\"{}\" cannot be the name of a {what}: use 1 to 64 of a-z, 0-9, - and _",
        name.escape_debug()
    )))
}

/// Tells the next opening that the names it finds may not be durable, as far as that can be.
pub fn tell_doubt(disk: &dyn Disk) {
    // A session whose creation fails takes everything back itself.
    if matches!(disk.exists(SESSION), Ok(true)) {
        let _ = disk.open(&in_doubt(), Mode::Create, Access::Buffered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognised_and_nothing_else() {
        for id in [0, 1, 0xabc, NUMBERS_END - 1] {
            let path = segment(id);
            assert_eq!(file_id(path.strip_prefix("segments/").unwrap()), Some(id));
            assert_eq!(file_id(blob(id).strip_prefix("segments/").unwrap()), Some(id));
        }
        for id in [NUMBERS_END, u64::MAX] {
            assert_eq!(file_id(segment(id).strip_prefix("segments/").unwrap()), None);
            assert!(check_number("root", &segment(id), id).is_err());
        }
        for name in ["1.segment", "000000000000000A.segment", "+000000000000001.segment", "lock"] {
            assert_eq!(file_id(name), None, "{name}");
        }
        assert_eq!(log_number(log_file(0x1f).strip_prefix("log/").unwrap()), Some(0x1f));
        assert_eq!(log_number("000000000000001f.segment"), None);
        assert_eq!(snapshot_name("slot-42.snapshot"), Some("slot-42"));
        assert_eq!(deleted_name("slot-42.snapshot.deleted"), Some("slot-42"));
        assert_eq!(saved_number(saved(0x1f).strip_prefix("snapshots/").unwrap()), Some(0x1f));
        assert_eq!(deleted_name("slot-42.deleted").or(snapshot_name("a.snapshot.deleted")), None);
        for (folder, name) in [("", SESSION), ("", CHECKPOINT), (SNAPSHOTS, "a.snapshot")] {
            assert!(is_replaced(folder, name), "{folder}/{name}");
            assert!(
                !is_replaced(SEGMENTS, name) && !is_replaced(folder, "data"),
                "{folder}/{name}"
            );
        }
        assert!(is_replaced(LOG, "0000000000000001.log") && !is_replaced(LOG, "x.log"));
        for name in ["", "a/b", "A", "..", &"x".repeat(65)] {
            assert!(check_name("snapshot", name).is_err(), "{name}");
        }
    }
}
