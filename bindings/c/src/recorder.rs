//! Recorders of traces: every call that the program makes, in a file that `varvite trace` replays and sums up.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use varvite::trace::Recorder;
use varvite_sight::Process;

use crate::args::{Out, text};
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, varvite_error};
use crate::types::{disk, varvite_disk, varvite_recorder};

/// The recorder of a handle; none for NULL.
pub(crate) fn recorder(handle: *const varvite_recorder) -> Outcome<Option<Arc<Recorder>>> {
    if handle.is_null() {
        return Ok(None);
    }
    let held = get(handle)?;
    let recorder = held.read()?;
    Ok(Some(Arc::clone(&*recorder)))
}

fn with<T>(handle: *const varvite_recorder, body: impl FnOnce(&Recorder) -> T) -> Outcome<T> {
    let held = get(handle)?;
    let recorder = held.read()?;
    Ok(body(&recorder))
}

/// Begins a trace in a new file `path` of `disk`, for the options of sessions and stores, which may share it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_recorder_create(
    disk: *mut varvite_disk,
    path: *const c_char,
    recorder: *mut *mut varvite_recorder,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(recorder, "recorder")?;
        let (disk, path) = (self::disk(disk)?, text(path, "path")?);
        place.set(put(Recorder::create(&disk, path, Process::new())?)?);
        Ok(())
    })
}

/// Says where the program is in its load: the name of the block that begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_recorder_mark(
    recorder: *mut varvite_recorder,
    name: *const c_char,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let name = text(name, "name")?;
        with(recorder, |it| it.mark(name))
    })
}

/// Says what the program measured: "cpu_ns", "rss_bytes" and others of docs/format/trace.md, or a name of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_recorder_sample(
    recorder: *mut varvite_recorder,
    name: *const c_char,
    number: u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let name = text(name, "name")?;
        with(recorder, |it| it.sample(name, number))
    })
}

/// Writes what is left and syncs the file; `calls` is how many it has. What is called afterwards is recorded too. The
/// first error of the recording, if there was one: calls themselves do not fail for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_recorder_finish(
    recorder: *mut varvite_recorder,
    calls: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(calls, "answer")?;
        place.set(with(recorder, Recorder::finish)??);
        Ok(())
    })
}

/// Lets go of the recorder. What was opened with it goes on to be recorded, but is not synced any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_recorder_close(
    recorder: *mut varvite_recorder,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(recorder).map(drop))
}
