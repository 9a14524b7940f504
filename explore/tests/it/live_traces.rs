//! Traces that grow while they are shown, and one that only says that it is long.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::trace::{Recorder, Trace};
use varvite_explore::Limits;

use crate::stores;
use crate::world::World;

#[test]
fn what_is_still_recorded_is_gone_on_with_and_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
    let readings = AtomicU64::new(0);
    let clock = move || readings.fetch_add(1_000, Ordering::Relaxed);
    let recorder = Recorder::create(&disk, "live.trace", clock).unwrap();
    // Frames are written when they have so many bytes.
    let record = || (0..400).for_each(|number| recorder.mark(&format!("{number:01000}")));
    record();
    let file = folder.path().join("live.trace");
    let sources = stores::sources(&folder.path().join("chain"), &folder.path().join("ledger"));
    let world = World::showing(folder, Vec::new(), sources, vec![file.clone()], Limits::default());
    let blocks = || world.json("/api/trace")["blocks"].as_u64().unwrap();
    let first = blocks();
    assert!(first > 100, "{first}");
    // What was read could not be read again.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[200] ^= 1;
    let damage = |bytes: &[u8]| {
        let mut open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        open.write_all(bytes).unwrap();
    };
    damage(&bytes[..201]);
    record();
    let after_a_moment = || std::thread::sleep(Duration::from_millis(2_100));
    after_a_moment();
    let second = blocks();
    assert!(second > first + 100, "{first}, then {second}");
    bytes[200] ^= 1;
    damage(&bytes[..201]);
    recorder.finish().unwrap();
    after_a_moment();
    let said = world.json("/api/trace");
    assert_eq!((&said["blocks"], &said["is_ended"]), (&800.into(), &true.into()));
    // As one who reads it from its begin has it.
    let mut trace = Trace::open(&*disk, "live.trace").unwrap();
    let whole = varvite_sight::trace::summarise(&mut trace, "live.trace").unwrap();
    assert_eq!(
        said,
        serde_json::from_str::<Value>(&serde_json::to_string(&whole).unwrap()).unwrap()
    );
    // Another recording in its place is read from its begin.
    let other = Recorder::create(&disk, "other.trace", || 0).unwrap();
    other.mark("one");
    other.finish().unwrap();
    std::fs::rename(world.folder.path().join("other.trace"), &file).unwrap();
    after_a_moment();
    assert_eq!(blocks(), 1);
}

#[test]
fn a_trace_that_says_it_has_much_is_not_looked_through_for_ever() {
    let world = World::with_traces(Limits::default(), |folder| {
        let traces = stores::recorded(folder);
        // In place of its end a frame of any length, and forty gigabytes of it, which take no room.
        let mut bytes = std::fs::read(&traces[0]).unwrap();
        let end = bytes.len() - 12;
        bytes[end..].fill(0xff);
        std::fs::write(&traces[0], bytes).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&traces[0]).unwrap();
        file.set_len(40 << 30).unwrap();
        traces
    });
    let start = Instant::now();
    let answer = loop {
        let answer = world.get("/api/trace?trace=0");
        if answer.status != 503 || start.elapsed() > Duration::from_secs(20) {
            break answer;
        }
    };
    let said = String::from_utf8(answer.body).unwrap();
    assert!(answer.status == 500 && said.contains("record it again"), "{}: {said}", answer.status);
}
