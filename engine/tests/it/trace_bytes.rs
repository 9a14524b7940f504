//! The bytes of traces: the golden file, cut and damaged ones, and what a fuzz target does with any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use varvite::context::{CommitInfo, Configuration, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::trace::{self, Call, Recorder, Trace};
use varvite::{Batch, Session, SessionOptions, TableOptions};

/// A clock that each reading moves on by a microsecond.
pub fn clock() -> impl Fn() -> u64 + Send + Sync + 'static {
    let readings = AtomicU64::new(0);
    move || readings.fetch_add(1_000, Ordering::Relaxed)
}

/// Some calls of both faces, as a trace.
pub fn recorded() -> Vec<u8> {
    let traces = MemoryDisk::seeded(7);
    let disk = Arc::clone(&traces) as Arc<dyn Disk>;
    let recorder = Recorder::create(&disk, "a.trace", clock()).unwrap();
    recorder.mark("block 1");
    let options = Options { recorder: Some(recorder.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["data", "one"], b"1").unwrap();
    tree.add(&["data", "two"], b"2").unwrap();
    assert!(tree.find(&["data", "one"]).unwrap().is_some());
    let mut made = Tree::empty(Configuration::TEZOS);
    made.add(&["x"], b"y").unwrap();
    tree.add_tree(&["copy"], &made).unwrap();
    let commit =
        store.commit(&mut tree, &CommitInfo::new(&[[3; 32].into()], -1, "me", "hi")).unwrap();
    assert!(store.exists(&commit).unwrap());
    drop(tree);
    let options = SessionOptions { recorder: Some(recorder.clone()), ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    table.update(Batch::new().insert(b"a", b"1").delete(b"b").delete_prefix(b"c")).unwrap();
    assert!(table.get(b"a").unwrap().is_some());
    assert!(table.lookup(&[b"a", b"b"]).unwrap().get(1).is_none());
    recorder.sample("cpu_ns", 12_345);
    drop(table);
    recorder.finish().unwrap();
    traces.bytes("a.trace").unwrap()
}

/// Two transactions that read what they wrote, the second of which is rolled back, as a trace.
pub fn recorded_transactions() -> Vec<u8> {
    let traces = MemoryDisk::seeded(7);
    let disk = Arc::clone(&traces) as Arc<dyn Disk>;
    let recorder = Recorder::create(&disk, "a.trace", clock()).unwrap();
    let options = SessionOptions { recorder: Some(recorder.clone()), ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
    let table = session.create_table("t", TableOptions::default()).unwrap();
    let tables = session.share(vec![table]).unwrap();
    let mut block = tables.begin();
    // Nothing is written yet, so that is a read of the table itself.
    assert!(block.get("t", b"a").unwrap().is_none());
    block.batch("t").unwrap().insert(b"a", b"1").insert(b"b", b"2");
    assert!(block.get("t", b"a").unwrap().is_some());
    block.batch("t").unwrap().delete(b"a");
    assert_eq!(block.range("t", ..).unwrap().count(), 1);
    block.batch("t").unwrap().insert(b"c", b"3");
    block.commit().unwrap();
    let mut block = tables.begin();
    block.batch("t").unwrap().delete_prefix(b"b");
    assert!(block.lookup("t", &[b"b", b"c"]).unwrap().get(0).is_none());
    block.rollback();
    assert!(tables.get("t", b"b").unwrap().is_some());
    drop(tables);
    recorder.finish().unwrap();
    traces.bytes("a.trace").unwrap()
}

/// The calls of a trace up to its end or its first fault, and how it ended.
pub fn calls(bytes: &[u8]) -> (Vec<Call>, varvite::Result<trace::TraceEnd>) {
    let disk = MemoryDisk::seeded(1);
    disk.replace("t", bytes).unwrap();
    let mut calls = Vec::new();
    let mut read = || {
        let mut trace = Trace::open(&*disk, "t")?;
        while let Some(call) = trace.next_call()? {
            calls.push(call);
        }
        Ok(trace.end())
    };
    let end = read();
    (calls, end)
}

/// The body of the fuzz target: frames with their checksums repaired.
pub fn trace(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    repair(&mut bytes);
    let (read, end) = calls(&bytes);
    if let Ok(end) = end {
        assert_eq!(read.len() as u64, end.calls);
        assert_eq!(end.bytes + end.cut_bytes, bytes.len() as u64);
    }
    let _ = trace::inspect("t", &bytes);
}

/// Gives header and frames the checksums that they should have.
fn repair(bytes: &mut [u8]) {
    use varvite::raw::format::checksum::{crc, crc_append, masked, stored};
    if bytes.len() < 32 {
        return;
    }
    let checksum = stored(&bytes[..28]);
    bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
    let identity = bytes[12..20].to_vec();
    let mut offset = 32;
    while let Some(head) = bytes.get(offset..offset + 12) {
        let length = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
        let end = offset + 12 + length;
        if end > bytes.len() {
            return;
        }
        let place = [&identity[..], &(offset as u64).to_le_bytes()].concat();
        let checksum = masked(crc_append(crc(&place), &bytes[offset + 4..end]));
        bytes[offset..offset + 4].copy_from_slice(&checksum.to_le_bytes());
        offset = end;
    }
}

#[cfg(test)]
mod tests {
    use varvite::Kind;
    use varvite::trace::{Action, Argument};

    use super::*;
    use crate::golden::golden;
    use crate::random::Random;

    #[test]
    fn the_trace_is_written_as_it_was_and_read() {
        let bytes = golden("trace/both.bin", &recorded());
        let (calls, end) = calls(&bytes);
        let end = end.unwrap();
        assert_eq!((end.frames, end.cut_bytes, end.bytes), (1, 0, bytes.len() as u64));
        assert!(end.is_ended);
        // As recorders of before wrote it.
        let (same, end) = super::calls(&bytes[..bytes.len() - 12]);
        assert_eq!((same, end.unwrap().is_ended), (calls.clone(), false));
        let names: Vec<_> = calls.iter().map(|call| call.action.name()).collect();
        let expected = [
            "mark",
            "empty_tree",
            "add",
            "add",
            "find",
            "given",
            "add_tree",
            "release",
            "commit",
            "exists",
            "release",
            "open_table",
            "update",
            "get",
            "lookup",
            "sample",
            "release",
        ];
        assert_eq!(names, expected);
        assert!(calls.iter().all(|call| call.depth == 0 && call.duration_ns >= 1_000), "{calls:?}");
        let outline = trace::inspect("a.trace", &bytes);
        assert_eq!(outline.damage_count(), 0, "{outline}");
    }

    #[test]
    fn a_trace_of_the_first_version_is_refused_for_its_version() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/trace/version-1.bin");
        let bytes = std::fs::read(path).unwrap();
        let (calls, end) = calls(&bytes);
        let error = end.unwrap_err();
        assert_eq!((calls.len(), error.kind()), (0, Kind::Version));
        assert!(error.to_string().contains("version 1"), "{error}");
        let outline = trace::inspect("a.trace", &bytes);
        assert!(outline.to_string().contains("version 1"), "{outline}");
    }

    #[test]
    fn reads_of_transactions_are_written_as_they_were_and_read() {
        let bytes = golden("trace/transactions.bin", &recorded_transactions());
        let (calls, end) = calls(&bytes);
        assert_eq!(end.unwrap().cut_bytes, 0);
        let count = |action| calls.iter().filter(|call| call.action == action).count();
        // The third write is that of the commit, which no read asked for.
        assert_eq!((count(Action::Draft), count(Action::Write), count(Action::Update)), (2, 4, 1));
        let drafts: Vec<_> = calls
            .iter()
            .filter(|call| call.action == Action::Draft)
            .map(|call| (call.arguments.clone(), call.answer))
            .collect();
        let of = |action| {
            let found = calls.iter().filter(move |call| call.action == action);
            found.map(|call| (call.arguments[0].clone(), call.depth)).collect::<Vec<_>>()
        };
        let table = Argument::Handle(1);
        let own: Vec<_> = drafts
            .iter()
            .map(|(arguments, answer)| {
                assert_eq!(&arguments[..], std::slice::from_ref(&table));
                let trace::Answer::Handle(own) = answer else { panic!("{answer:?}") };
                Argument::Handle(*own)
            })
            .collect();
        let (first, second) = (own[0].clone(), own[1].clone());
        assert_eq!(of(Action::Get)[..2], [(table, 0), (first, 0)]);
        assert_eq!(of(Action::Lookup), [(second.clone(), 0)]);
        let all = calls.iter().find(|call| call.action == Action::Update).unwrap();
        assert!(matches!(&all.arguments[1], Argument::Updates(all) if all.len() == 4), "{all:?}");
        assert!(of(Action::Release).contains(&(second, 0)), "what was rolled back is released");
    }

    #[test]
    fn a_trace_that_was_cut_is_read_up_to_its_last_whole_frame() {
        let traces = MemoryDisk::seeded(7);
        let disk = Arc::clone(&traces) as Arc<dyn Disk>;
        let recorder = Recorder::create(&disk, "a", clock()).unwrap();
        for number in 0..3_000 {
            recorder.mark(&format!("{number:060}"));
        }
        assert_eq!(recorder.finish().unwrap(), 3_000);
        let bytes = traces.bytes("a").unwrap();
        let (all, end) = calls(&bytes);
        assert_eq!((all.len(), end.unwrap().frames), (3_000, 4));
        // Each but the last ends where pages of the file do; behind that one is the end.
        let mut offset = 32;
        for end in [1 << 16, 2 << 16, 3 << 16, bytes.len() - 12] {
            let length = u32::from_le_bytes(bytes[offset + 4..offset + 8].try_into().unwrap());
            offset += 12 + length as usize;
            assert_eq!(offset, end);
        }
        let mut random = Random::new(3);
        for _ in 0..300 {
            let cut = 32 + random.below(bytes.len() as u64 - 32) as usize;
            let (some, end) = calls(&bytes[..cut]);
            let end = end.unwrap();
            assert_eq!(some, all[..some.len()]);
            assert_eq!((end.bytes + end.cut_bytes, end.is_ended), (cut as u64, false));
            assert_eq!(end.frames, u64::from(end.bytes > 32) + (end.bytes - 32) / 66_000);
        }
        // A flipped bit in front of whole frames is damage, in the last one of those that were not ended the end.
        let mut flipped = bytes.clone();
        flipped[5_000] ^= 1;
        assert_eq!(calls(&flipped).1.unwrap_err().kind(), Kind::Corrupt);
        let mut flipped = bytes[..bytes.len() - 12].to_vec();
        assert!(!calls(&flipped).1.unwrap().is_ended);
        let last = flipped.len() - 9;
        flipped[last] ^= 1;
        let (some, end) = calls(&flipped);
        assert!(some.len() < 3_000 && end.unwrap().cut_bytes > 0);
    }

    /// A trace of one frame that was finished: no bit of it can be another without a word.
    #[test]
    fn what_is_damaged_of_a_finished_trace_is_told_wherever_it_is() {
        let bytes = recorded();
        let (all, end) = calls(&bytes);
        assert!(end.unwrap().is_ended);
        for at in 32..bytes.len() {
            for bit in [0, 3, 6, 7] {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                match calls(&flipped) {
                    (_, Err(error)) => assert_eq!(error.kind(), Kind::Corrupt, "{at}: {error}"),
                    // Of the end itself: every call is there.
                    (some, Ok(end)) => {
                        assert!(at >= bytes.len() - 12 && !end.is_ended, "{at}, bit {bit}");
                        assert_eq!((&some, end.cut_bytes), (&all, 12), "{at}, bit {bit}");
                    }
                }
                assert!(trace::inspect("t", &flipped).damage_count() > 0, "{at}, bit {bit}");
            }
        }
        // Two in one file, or anything else behind the end.
        for behind in [&bytes[..], &[0], &[0; 12], &bytes[bytes.len() - 12..]] {
            let longer = [&bytes[..], behind].concat();
            let (some, end) = calls(&longer);
            assert_eq!((some, end.unwrap_err().kind()), (all.clone(), Kind::Corrupt));
            assert!(trace::inspect("t", &longer).damage_count() > 0);
        }
    }

    /// The power went: of what was not synced, the system kept how long the file was, and no bytes.
    #[test]
    fn zeros_behind_the_last_frame_are_a_recording_that_was_not_ended() {
        let whole = recorded();
        let ended = whole.len() - 12;
        let (all, _) = calls(&whole);
        for zeros in [1, 11, 12, 13, 4_096, 200_000] {
            let longer = [&whole[..ended], &vec![0; zeros]].concat();
            let (some, end) = calls(&longer);
            let end = end.unwrap();
            assert_eq!((&some, end.is_ended, end.cut_bytes), (&all, false, zeros as u64));
            // Some bytes of the frame came to the disk, or none.
            for lost in [20, 100, ended - 32] {
                let begun = [&whole[..ended - lost], &vec![0; lost + zeros]].concat();
                let (some, end) = calls(&begun);
                let end = end.unwrap();
                assert_eq!(
                    (some.len(), end.is_ended, end.frames),
                    (0, false, 0),
                    "{zeros}, {lost}"
                );
            }
            // A page behind them came to the disk, and that of the next head did not.
            let odd = [&longer[..], b"x"].concat();
            let (some, end) = calls(&odd);
            assert!(some == all && end.is_ok_and(|end| !end.is_ended), "{zeros}");
        }
    }

    #[test]
    fn a_recording_that_goes_on_is_ended_again() {
        let traces = MemoryDisk::seeded(7);
        let disk = Arc::clone(&traces) as Arc<dyn Disk>;
        let recorder = Recorder::create(&disk, "a", clock()).unwrap();
        let read = || {
            let (calls, end) = calls(&traces.bytes("a").unwrap());
            let end = end.unwrap();
            assert_eq!(end.cut_bytes, 0);
            (calls.len(), end.is_ended)
        };
        assert_eq!(read(), (0, false));
        recorder.finish().unwrap();
        assert_eq!(read(), (0, true));
        recorder.mark("one");
        recorder.finish().unwrap();
        recorder.finish().unwrap();
        assert_eq!(read(), (1, true));
        // It is in memory only, so it is missing where the program is killed.
        recorder.mark("two");
        assert_eq!(read(), (1, false));
        // As when the program is killed later on.
        (0..3_000).for_each(|number| recorder.mark(&format!("{number:060}")));
        let (some, is_ended) = read();
        assert!((900..3_002).contains(&some) && !is_ended, "{some}");
        drop(recorder);
        assert_eq!(read(), (3_002, true));
    }

    /// Each bit of each frame's length: in front of whole frames it is damage and never the end.
    #[test]
    fn a_flipped_bit_in_a_frames_length_is_no_end() {
        let traces = MemoryDisk::seeded(7);
        let disk = Arc::clone(&traces) as Arc<dyn Disk>;
        let recorder = Recorder::create(&disk, "a", clock()).unwrap();
        for number in 0..3_000 {
            recorder.mark(&format!("{number:060}"));
        }
        recorder.finish().unwrap();
        let bytes = traces.bytes("a").unwrap();
        let mut frames = Vec::new();
        let mut offset = 32;
        // Without its end, as one that was killed.
        let bytes = &bytes[..bytes.len() - 12];
        while offset < bytes.len() {
            frames.push(offset);
            let length = u32::from_le_bytes(bytes[offset + 4..offset + 8].try_into().unwrap());
            offset += 12 + length as usize;
        }
        let last = frames.pop().unwrap();
        assert_eq!(frames.len(), 3);
        // One that reaches exactly to the end of the file hides those behind it as well.
        for frame in &frames {
            let mut long = bytes.to_vec();
            let length = (bytes.len() - frame - 12) as u32;
            long[frame + 4..frame + 8].copy_from_slice(&length.to_le_bytes());
            let error = calls(&long).1.expect_err("frames are behind it");
            assert_eq!(error.kind(), Kind::Corrupt, "the frame at {frame}: {error}");
        }
        for frame in frames {
            for bit in 0..32 {
                let mut flipped = bytes.to_vec();
                flipped[frame + 4 + bit / 8] ^= 1 << (bit % 8);
                let error = calls(&flipped).1.expect_err("the length is not as it was");
                assert_eq!(
                    error.kind(),
                    Kind::Corrupt,
                    "bit {bit} of the frame at {frame}: {error}"
                );
            }
        }
        // Nothing is behind the last frame, so none can tell: what is read is all before it.
        let mut flipped = bytes.to_vec();
        flipped[last + 6] ^= 0x40;
        assert_eq!(calls(&flipped).1.unwrap().bytes, last as u64);
    }

    #[test]
    fn no_mutation_of_a_trace_panics() {
        let seeds = [recorded(), recorded_transactions()];
        let mut random = Random::new(11);
        let effort = std::env::var("VARVITE_EFFORT").ok().and_then(|it| it.parse::<u64>().ok());
        for _ in 0..20_000 * effort.unwrap_or(1) {
            let mut bytes = seeds[random.below(2) as usize].clone();
            for _ in 0..=random.below(4) {
                let at = 8 + random.below(bytes.len() as u64 - 8) as usize;
                bytes[at] = match random.below(3) {
                    0 => bytes[at] ^ (1 << random.below(8)),
                    1 => 0xff,
                    _ => random.below(256) as u8,
                };
            }
            if random.below(4) == 0 {
                bytes.truncate(random.below(bytes.len() as u64) as usize);
            }
            trace(&bytes);
        }
    }

    #[test]
    fn a_recording_that_finds_no_room_for_its_header_leaves_no_file() {
        use varvite::disk::sim::{Fault, SimDisk};
        let sim = SimDisk::new(1);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        sim.fail_at(1, Fault::Write);
        assert!(Recorder::create(&disk, "a", clock()).is_err());
        sim.disarm();
        assert!(!disk.exists("a").unwrap());
        Recorder::create(&disk, "a", clock()).unwrap();
    }

    #[test]
    fn a_disk_that_is_full_stops_the_recording_and_nothing_else() {
        use varvite::disk::sim::{Fault, SimDisk};
        let sim = SimDisk::new(1);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let recorder = Recorder::create(&disk, "a", clock()).unwrap();
        let options = Options { recorder: Some(recorder.clone()), ..Options::default() };
        let store = Store::create(MemoryDisk::seeded(1), options).unwrap();
        recorder.finish().unwrap();
        let mut tree = store.empty_tree();
        sim.fail_at(1, Fault::Write);
        for number in 0..5_000 {
            tree.add(&["data", &format!("{number}")], &[7; 30]).unwrap();
        }
        sim.disarm();
        assert!(recorder.finish().is_err());
        let bytes = sim.bytes("a").unwrap();
        let (calls, end) = calls(&bytes);
        // What was called behind the first end is missing.
        assert!(!end.unwrap().is_ended);
        assert!(calls.iter().all(|call| call.action != Action::Find));
    }
}
