//! A session that was only just made is taken back, with nothing that is somebody else's.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::table::check::check;
use varvite::{Batch, Kind, Log, Result, Session, SessionOptions, SnapshotContent, TableOptions};

use crate::hooked_disk::{Call, HookedDisk};

fn options(log: Log) -> SessionOptions {
    SessionOptions { log, seed: Some(9), ..SessionOptions::default() }
}

/// A new session with a table, a snapshot, and all kinds of files.
fn made(disk: &Arc<dyn Disk>, log: Log) -> Session {
    let session = Session::create(Arc::clone(disk), options(log)).unwrap();
    let of_table = TableOptions { write_buffer_bytes: 1_000, ..TableOptions::default() };
    let mut table = session.create_table("t", of_table).unwrap();
    for number in 0..60_u64 {
        table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 40])).unwrap();
    }
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    session
}

#[test]
fn a_session_that_was_just_made_goes_with_all_of_it_and_with_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let of_system: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
    let simulated: Arc<dyn Disk> = SimDisk::new(1);
    for disk in [of_system, simulated] {
        for log in [Log::None, Log::Synced] {
            let session = made(&disk, log);
            for name in ["notes", "segments/mine"] {
                disk.open(name, Mode::Create, Access::Buffered).unwrap();
            }
            let reader = Session::open_read_only(Arc::clone(&disk), options(log)).unwrap();
            assert_eq!(reader.discard().unwrap_err().kind(), Kind::Invalid);
            session.discard().unwrap();
            assert_eq!(disk.list("").unwrap(), ["notes", "segments"]);
            assert_eq!(disk.list("segments").unwrap(), ["mine"]);
            let error = Session::open(Arc::clone(&disk), options(log)).unwrap_err();
            assert_eq!(error.kind(), Kind::Missing, "{error}");
            disk.remove("notes").unwrap();
            disk.remove("segments/mine").unwrap();
            disk.remove_directory("segments").unwrap();
            made(&disk, log).discard().unwrap();
            assert!(disk.list("").unwrap().is_empty());
        }
    }
}

#[test]
fn a_session_that_was_there_or_was_closed_stays() {
    let disk: Arc<dyn Disk> = SimDisk::new(1);
    let session = made(&disk, Log::Synced);
    let handle = session.clone();
    session.close().unwrap();
    // Another may have opened it since.
    assert_eq!(handle.discard().unwrap_err().kind(), Kind::Closed);
    let session = Session::open(Arc::clone(&disk), options(Log::Synced)).unwrap();
    assert_eq!(session.clone().discard().unwrap_err().kind(), Kind::Invalid);
    assert_eq!(session.list_snapshots().unwrap().len(), 1);
    assert_eq!(session.live_tables().unwrap(), ["t"]);
}

/// Somebody has moved the folder away and made another session in its place.
#[cfg(unix)]
#[test]
fn a_session_that_took_the_place_of_another_stays() {
    let above = tempfile::tempdir().unwrap();
    let [place, aside] = ["s", "aside"].map(|name| above.path().join(name));
    let session = made(&(OsDisk::create(&place).unwrap() as Arc<dyn Disk>), Log::Synced);
    fs::rename(&place, &aside).unwrap();
    let disk: Arc<dyn Disk> = OsDisk::create(&place).unwrap();
    let other = made(&disk, Log::Synced);
    assert_eq!(session.discard().unwrap_err().kind(), Kind::Poisoned);
    other.close().unwrap();
    for place in [place, aside] {
        let disk: Arc<dyn Disk> = OsDisk::new(&place).unwrap();
        let report = check(&disk, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings, Vec::new());
        let session = Session::open(disk, options(Log::Synced)).unwrap();
        assert_eq!(session.live_tables().unwrap(), ["t"]);
    }
}

/// The mark beside the log is durable before the session is marked as none: every image of every step says so.
#[test]
fn no_power_cut_leaves_the_mark_of_a_discard_alone_beside_its_log() {
    for n in 1..8 {
        let sim = SimDisk::new(n);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let session = Session::create(Arc::clone(&disk), options(Log::Synced)).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        table.update(Batch::new().insert(b"k", b"v")).unwrap();
        drop(table);
        sim.kill_at(n);
        session.discard().unwrap_err();
        assert!(sim.unsynced_count() <= 16, "{n}");
        for (crash, image) in sim.crash_images(16, 0) {
            let image: Arc<dyn Disk> = image;
            if Session::open_read_only(Arc::clone(&image), options(Log::None)).is_err() {
                Session::create(image, options(Log::Synced))
                    .unwrap_or_else(|error| panic!("call {n}, {crash:?}: {error}"));
            }
        }
    }
}

/// Nobody knows then by which name the power leaves it, so nothing of it may go.
#[test]
fn a_session_whose_mark_may_not_be_durable_stays() {
    let mut failed = 0;
    for n in 1.. {
        let sim = SimDisk::new(n);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let session = made(&disk, Log::Synced);
        sim.forget_names_on_failed_sync(true);
        sim.fail_at(n, Fault::Sync);
        let outcome = session.discard();
        sim.disarm();
        if outcome.is_ok() {
            break;
        }
        failed += 1;
        if disk.exists("session").unwrap() {
            // An opening to write makes the names durable before it counts on them.
            assert!(disk.exists("in-doubt.tmp").unwrap(), "sync {n}");
        }
        // The host makes one in its place, which it may do if there is none, and dies before that stands.
        let is_free = Session::open_read_only(Arc::clone(&disk), options(Log::None)).is_err();
        for at in 1..12 {
            let again = sim.crash(varvite::disk::sim::Crash::Process);
            if is_free {
                again.kill_at(at);
                let _ = Session::create(Arc::clone(&again) as _, options(Log::Synced));
            }
            for (crash, image) in again.crash_images(4, 6) {
                let image: Arc<dyn Disk> = image;
                match Session::open_read_only(Arc::clone(&image), options(Log::None)) {
                    Ok(session) if session.list_snapshots().unwrap().len() == 1 => {
                        let report = check(&image, |_| ControlFlow::Continue(())).unwrap();
                        assert_eq!(report.findings, Vec::new(), "sync {n}, {at}, {crash:?}");
                    }
                    Ok(session) => assert!(session.live_tables().unwrap().is_empty()),
                    Err(error) => {
                        assert_eq!(
                            error.kind(),
                            Kind::Missing,
                            "sync {n}, {at}, {crash:?}: {error}"
                        );
                    }
                }
            }
        }
    }
    assert!(failed > 3, "{failed}");
}

/// Names that a session gives with an ending alone are the host's without it.
#[test]
fn files_of_the_host_with_names_like_marks_stay() {
    let disk: Arc<dyn Disk> = SimDisk::new(1);
    let session = made(&disk, Log::Synced);
    for name in ["in-doubt", "half-copied"] {
        disk.open(name, Mode::Create, Access::Buffered).unwrap();
    }
    session.discard().unwrap();
    assert_eq!(disk.list("").unwrap(), ["half-copied", "in-doubt"]);
}

/// Wherever it ends, what is left is the session, whole, or reads as none, and one is made again there.
#[test]
fn a_crash_at_any_call_leaves_no_session_that_looks_damaged() {
    ends_anywhere(false);
    // The file that says so of log and checkpoint has the room of the reserve.
    ends_anywhere(true);
}

fn ends_anywhere(is_full: bool) {
    let (mut whole, mut nothing) = (0, 0);
    for n in 1.. {
        let sim = SimDisk::new(n);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let session = made(&disk, Log::Synced);
        sim.kill_at(n);
        if is_full {
            assert!(disk.exists("reserve").unwrap());
            sim.fail_at(1, Fault::Space);
        }
        let outcome = session.discard();
        let is_over = !sim.is_dead();
        for (crash, image) in sim.crash_images(4, 4) {
            let image: Arc<dyn Disk> = image;
            match Session::open_read_only(Arc::clone(&image), options(Log::None)) {
                Ok(session) => {
                    assert!(!is_over, "call {n}, {crash:?}");
                    let report = check(&image, |_| ControlFlow::Continue(())).unwrap();
                    assert_eq!(report.findings, Vec::new(), "call {n}, {crash:?}");
                    assert_eq!(session.list_snapshots().unwrap().len(), 1, "call {n}, {crash:?}");
                    whole += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Missing, "call {n}, {crash:?}: {error}");
                    let session = Session::create(image, options(Log::Synced)).unwrap();
                    assert!(session.live_tables().unwrap().is_empty(), "call {n}, {crash:?}");
                    nothing += 1;
                }
            }
        }
        if is_over {
            outcome.unwrap();
            break;
        }
    }
    assert!(whole > 1 && nothing > 20, "{whole}, {nothing}");
}

#[cfg_attr(not(unix), allow(dead_code))]
fn files(folder: &Path) -> Vec<PathBuf> {
    let inside = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    inside.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Before each call that changes something while what `make` gives is done, the folder is moved away, and another like it
/// takes its place: it loses nothing but by that call.
#[cfg_attr(not(unix), allow(dead_code))]
pub fn the_folder_of_another_stays<M: FnOnce() -> Result<()>>(make: impl Fn(Arc<dyn Disk>) -> M) {
    for n in 1.. {
        let above = tempfile::tempdir().unwrap();
        let [place, aside] = ["s", "aside"].map(|name| above.path().join(name));
        let (calls, there) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(Mutex::new(0)));
        let hook = {
            let (calls, there, place) = (Arc::clone(&calls), Arc::clone(&there), place.clone());
            move |call: Call, _: &str| {
                if !call.changes()
                    || calls.load(SeqCst) == u64::MAX
                    || calls.fetch_sub(1, SeqCst) != 1
                {
                    return;
                }
                calls.store(u64::MAX, SeqCst);
                fs::rename(&place, &aside).unwrap();
                let own = files(&aside);
                for file in &own {
                    let to = place.join(file.strip_prefix(&aside).unwrap());
                    fs::create_dir_all(to.parent().unwrap()).unwrap();
                    fs::copy(file, to).unwrap();
                }
                *there.lock().unwrap() = own.len();
            }
        };
        let disk = HookedDisk::new(OsDisk::create(&place).unwrap(), hook);
        let discard = make(disk);
        calls.store(n, SeqCst);
        let outcome = discard();
        if calls.load(SeqCst) != u64::MAX {
            outcome.unwrap();
            assert!(n > 15, "{n}");
            return;
        }
        let there = *there.lock().unwrap();
        // The last call removes the lock, behind all else.
        assert!(outcome.is_err() || there == 1, "call {n}");
        assert!(files(&place).len() + 1 >= there, "call {n}: {} of {there}", files(&place).len());
    }
}

#[cfg(unix)]
#[test]
fn a_session_that_takes_the_place_at_any_call_stays() {
    the_folder_of_another_stays(|disk| {
        let session = made(&disk, Log::Synced);
        || session.discard()
    });
}
