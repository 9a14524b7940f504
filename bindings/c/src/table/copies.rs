//! Whole copies of sessions: backups, and what a repair makes of a damaged one.

use std::ffi::c_int;

use varvite::table::repair::{RepairOptions, repair};

use super::options::verify;
use super::session::session;
use crate::arena::{answer, varvite_arena};
use crate::args::{flag, wanted};
use crate::status::{call, varvite_error};
use crate::types::{disk, varvite_disk, varvite_session};

/// What a backup has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_backed_up {
    /// Live tables.
    pub tables: u64,
    /// Segment files and blob files that came.
    pub segments: u64,
    /// Their length together.
    pub bytes: u64,
    /// Bytes of those that had to be copied; the others share their blocks with the source.
    pub copied_bytes: u64,
    /// Segment files and blob files that an earlier backup had brought.
    pub kept_segments: u64,
    /// Their length together.
    pub kept_bytes: u64,
    /// Updates in the log that was copied.
    pub log_records: u64,
    /// Bytes of it.
    pub log_bytes: u64,
}

/// What a repair kept and lost.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_repaired {
    /// 1 when the file `session` was lost or damaged; else 0.
    pub session_was_lost: c_int,
    /// Snapshots that were kept.
    pub snapshots: u64,
    /// Live tables that were kept.
    pub live_tables: u64,
    /// Of these, those that have all updates, as far as can be known.
    pub whole_live_tables: u64,
    /// Files that were damaged or lost.
    pub losses: u64,
    /// Segment files and blob files that were linked or copied.
    pub segments: u64,
    /// Their length together.
    pub bytes: u64,
    /// Bytes of those that had to be copied.
    pub copied_bytes: u64,
    /// Records of the log that were kept.
    pub log_records: u64,
    /// Records that seem to lie behind a bad one, and cannot be read for it.
    pub log_records_behind: u64,
}

/// Backs up all live tables, as they are at one moment, to the root folder of `target`: one that is empty, or has an
/// earlier backup of this session, which becomes the new one. Updates go on meanwhile. `verify` is one of
/// VARVITE_VERIFY_…; `backed_up` may be NULL. `varvite_session_open` opens the backup.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_backup(
    session: *mut varvite_session,
    target: *mut varvite_disk,
    verify: u32,
    backed_up: *mut varvite_backed_up,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (target, verify) = (disk(target)?, self::verify(verify)?);
        let place = wanted(backed_up, "numbers")?;
        let from = self::session(session)?.backup(&target, verify)?;
        if let Some(place) = place {
            place.set(varvite_backed_up {
                tables: from.tables,
                segments: from.moved.segments,
                bytes: from.moved.bytes,
                copied_bytes: from.moved.copied_bytes,
                kept_segments: from.kept.segments,
                kept_bytes: from.kept.bytes,
                log_records: from.log_records,
                log_bytes: from.log_bytes,
            });
        }
        Ok(())
    })
}

/// Makes a new session in the root folder of `target`, which is empty, of what is whole in the one in that of `source`,
/// which nobody writes to. With `skip_damaged` 1 a table or snapshot with damaged segments is kept without their entries;
/// with 0 it is left out. `seed` is as of the options of a session. `losses` gets four items for each file that is damaged
/// or lost: its name, a sentence, and the keys between which entries are missing or older, both included, or NULL twice.
/// `repaired` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_repair(
    source: *mut varvite_disk,
    target: *mut varvite_disk,
    skip_damaged: c_int,
    seed: u64,
    repaired: *mut varvite_repaired,
    losses: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, losses, |losses| {
        let (source, target) = (disk(source)?, disk(target)?);
        let skip_damaged = flag(skip_damaged, "skip_damaged")?;
        let options = RepairOptions { skip_damaged, seed: (seed != 0).then_some(seed) };
        let place = wanted(repaired, "numbers")?;
        losses.fill(|arena| {
            let from = repair(&source, &target, &options)?;
            if let Some(place) = place {
                place.set(varvite_repaired {
                    session_was_lost: c_int::from(from.session_was_lost),
                    snapshots: from.snapshots.len() as u64,
                    live_tables: from.live_tables.len() as u64,
                    whole_live_tables: from.live_tables.iter().filter(|it| it.is_whole).count()
                        as u64,
                    losses: from.losses.len() as u64,
                    segments: from.moved.segments,
                    bytes: from.moved.bytes,
                    copied_bytes: from.moved.copied_bytes,
                    log_records: from.log_records,
                    log_records_behind: from.log_records_behind,
                });
            }
            for loss in from.losses {
                let (first, last) = loss.keys.unzip();
                arena.give(loss.file);
                arena.give(loss.detail);
                arena.give_optional(first);
                arena.give_optional(last);
            }
            Ok(())
        })
    })
}
