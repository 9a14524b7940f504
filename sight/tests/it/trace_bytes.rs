//! Traces of any bytes, summed up, compared, shown, replayed and converted; the body is that of the fuzz target `trace_sight`.

use varvite::context::{Options, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::trace::Trace;
use varvite::{Session, SessionOptions, TableOptions};
use varvite_sight::trace::irmin::{FromRows, ToRows};
use varvite_sight::trace::{Replay, compare, comparison_page, summarise, summary_page};

/// What a program does with a trace that somebody sent. Frames have their checksums repaired, so that what is in them is
/// looked at.
pub fn trace(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    repair(&mut bytes);
    let disk = MemoryDisk::seeded(1);
    if disk.replace("t", &bytes[..]).is_err() {
        return;
    }
    let Ok(mut whole) = Trace::open(&*disk, "t") else { return };
    if let Ok(summary) = summarise(&mut whole, "t") {
        assert!(summary.timeline.len() <= 240 && summary.activity.len() <= 240);
        assert_eq!(summary.timeline.iter().map(|it| it.blocks).sum::<u64>(), summary.blocks);
        assert!(summary_page(&summary).ends_with("</html>\n"));
        let compared = compare(vec![summary.clone(), summary]);
        assert!(compared.worse.is_empty() && compared.better.is_empty(), "{compared:?}");
        assert!(comparison_page(&compared).ends_with("</html>\n"));
    }
    let store = Store::create(MemoryDisk::seeded(2), Options::default()).ok();
    let session = Session::create(MemoryDisk::seeded(3), SessionOptions::default()).ok();
    let mut replay = Replay::new(store, session, TableOptions::default(), || 0);
    let (mut to, mut rows) = (ToRows::default(), Vec::new());
    let Ok(mut calls) = Trace::open(&*disk, "t") else { return };
    while let Ok(Some(call)) = calls.next_call() {
        // What a disk in memory refuses, as for its size, is no fault of the trace.
        if replay.call(&call).is_err() {
            break;
        }
        rows.extend(to.rows(&call));
    }
    rows.extend(to.end());
    let outcome = replay.outcome();
    assert!(outcome.mismatches <= outcome.calls);
    drop(replay.end());
    let mut from = FromRows::default();
    for row in &rows {
        if from.calls(row).is_err() {
            break;
        }
    }
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
        let length = head[4..8].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
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
    use std::path::Path;

    use super::*;

    #[test]
    fn no_mutation_of_a_trace_panics_whoever_looks_at_it() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/trace");
        let seeds = ["both.bin", "transactions.bin"];
        let seeds = seeds.map(|name| std::fs::read(golden.join(name)).unwrap());
        // Numbers that follow from a seed.
        let mut state = 5_u64;
        let mut below = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let effort = std::env::var("VARVITE_EFFORT").ok().and_then(|it| it.parse::<usize>().ok());
        for round in 0..1_000 * effort.unwrap_or(1) {
            let mut bytes = seeds[round % seeds.len()].clone();
            for _ in 0..=below(4) {
                let at = 32 + below(bytes.len() - 32);
                bytes[at] = match below(3) {
                    0 => bytes[at] ^ (1 << below(8)),
                    1 => 0xff,
                    _ => below(256) as u8,
                };
            }
            trace(&bytes);
        }
    }
}
