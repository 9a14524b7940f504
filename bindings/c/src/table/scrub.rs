//! Scrubs: everything that a session keeps, read a part at a time beside whoever uses it.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use varvite::table::scrub::Scrub;

use super::session::session;
use crate::arena::{answer, varvite_arena};
use crate::args::Out;
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, varvite_error};
use crate::types::{varvite_scrub, varvite_session};

fn with<T>(scrub: *const varvite_scrub, body: impl FnOnce(&mut Scrub) -> Outcome<T>) -> Outcome<T> {
    let held = get(scrub)?;
    let mut scrub = held.write()?;
    body(scrub.get_mut().unwrap_or_else(PoisonError::into_inner))
}

/// Begins to read everything that the session keeps: manifests, the log, and every page of its files. `from` is what
/// `varvite_scrub_place` gave of a scrub that was left, or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_scrub(
    session: *mut varvite_session,
    from: u64,
    scrub: *mut *mut varvite_scrub,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(scrub, "scrub")?;
        place.set(put(Mutex::new(self::session(session)?.scrub(from)?))?);
        Ok(())
    })
}

/// Reads on, about `pages` pages of 4 KiB; `left` is how many there are still, 0 at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_scrub_work(
    scrub: *mut varvite_scrub,
    pages: u64,
    left: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(left, "answer")?;
        place.set(with(scrub, |it| Ok(it.work(pages)?))?);
        Ok(())
    })
}

/// What is damaged, of what was read so far: two items a finding, the file and a sentence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_scrub_findings(
    scrub: *mut varvite_scrub,
    findings: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, findings, |findings| {
        with(scrub, |scrub| {
            findings.fill(|arena| {
                for finding in scrub.findings() {
                    arena.give(finding.file.as_str());
                    arena.give(finding.detail.as_str());
                }
                Ok(())
            })
        })
    })
}

/// From where another scrub goes on, also of another process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_scrub_place(
    scrub: *mut varvite_scrub,
    place: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let to = Out::new(place, "place")?;
        to.set(with(scrub, |it| Ok(it.place()))?);
        Ok(())
    })
}

/// Closes a scrub.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_scrub_close(
    scrub: *mut varvite_scrub,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(scrub).map(drop))
}
