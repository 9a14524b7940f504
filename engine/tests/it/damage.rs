//! Damaged table files: every flipped bit and every cut is detected or does no harm, and no bytes
//! whatever make a decoder panic, hang, or take much memory.

use std::sync::Arc;

use varvite::disk::Access;
use varvite::disk::memory::MemoryDisk;
use varvite::error::{Error, Kind};
use varvite::raw::format::hash::{combine, hash};
use varvite::raw::{EntryKind, ReadOptions, Run, RunReader, Segment, SegmentMeta};
use varvite::table::inspect;

use crate::decoders::BODIES;
use crate::entries::{Entries, SALT};
use crate::golden::{seeds, small_segment};
use crate::random::setting;

/// Everything that can be asked of a segment; what a reader of the file would see.
fn answers(bytes: &[u8], meta: Option<&SegmentMeta>) -> Result<Entries, Error> {
    let disk = MemoryDisk::seeded(1);
    disk.replace("s", bytes)?;
    let segment = Arc::new(match meta {
        Some(meta) => Segment::open(&*disk, "s", meta.clone(), Access::Buffered)?,
        None => Segment::recover(&*disk, "s", 1, Access::Buffered)?,
    });
    let (index, filter, ranges) =
        (segment.index()?, segment.filter()?, segment.read_range_filter()?);
    let mut found = Entries::new();
    let mut reader = RunReader::new(
        &Run::new(vec![Arc::clone(&segment)]),
        None,
        ReadOptions { chunk_bytes: 4096, ..ReadOptions::default() },
    )?;
    while let Some(entry) = reader.peek() {
        assert!(index.find(entry.key).is_some(), "the index knows the key");
        assert!(filter.is_none_or(|filter| filter.probe(hash(SALT, entry.key))));
        assert!(ranges.as_ref().is_none_or(|filter| filter.may_hold(entry.key)));
        found.insert(entry.key.to_vec(), (entry.kind, entry.value.to_vec()));
        reader.advance()?;
    }
    Ok(found)
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    let good = small_segment();
    let expected = answers(&good, None).unwrap();
    assert_eq!(expected.len(), 4);
    let disk = MemoryDisk::seeded(1);
    disk.replace("s", good.clone()).unwrap();
    let meta = Segment::recover(&*disk, "s", 1, Access::Buffered).unwrap().meta().clone();
    let (mut detected, mut harmless) = (0, 0);
    let mut bytes = good.clone();
    for bit in 0..good.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        // Opening by manifest and opening alone take turns: both must notice.
        match answers(&bytes, (bit % 2 == 0).then_some(&meta)) {
            Ok(found) => {
                assert!(found == expected, "bit {bit} gives a wrong answer");
                harmless += 1;
            }
            Err(error) => {
                let kinds = [Kind::Corrupt, Kind::Version, Kind::Invalid];
                assert!(kinds.contains(&error.kind()), "bit {bit}: {error}");
                detected += 1;
            }
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    // Only the zeros behind the filters and the index, up to their page ends, are nobody's.
    let (filter, ranges) = (128, 40);
    let zeros = 3 * 4096 - (filter + ranges + meta.footer.index_bytes as usize);
    assert_eq!((detected, harmless), (8 * (good.len() - zeros), 8 * zeros));
}

#[test]
fn every_cut_is_detected() {
    let good = small_segment();
    for length in 0..good.len() {
        let error = answers(&good[..length], None).unwrap_err();
        let kinds = [Kind::Corrupt, Kind::Invalid];
        assert!(kinds.contains(&error.kind()), "{length} bytes: {error}");
    }
    let longer = [&good[..], &[0; 4096]].concat();
    assert_eq!(answers(&longer, None).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn an_outline_tells_what_is_damaged_and_shows_the_rest() {
    let good = small_segment();
    assert_eq!(inspect::segment("s", &good).damage_count(), 0);
    for page in 0..good.len() / 4096 {
        let mut bytes = good.clone();
        bytes[page * 4096 + 16] ^= 1;
        let outline = inspect::segment("s", &bytes);
        assert!(outline.damage_count() > 0, "page {page}");
        // Except for the header, whose identity all checksums need, damage stays where it is.
        assert!(page == 0 || outline.children.iter().any(|piece| piece.damage.is_none()));
    }
    for length in (0..good.len()).step_by(97) {
        assert!(inspect::segment("s", &good[..length]).damage_count() > 0, "{length} bytes");
    }
}

#[test]
fn a_page_in_another_place_is_detected() {
    let good = small_segment();
    let mut bytes = good.clone();
    bytes.copy_within(4096..2 * 4096, 2 * 4096);
    assert_eq!(answers(&bytes, None).unwrap_err().kind(), Kind::Corrupt);
    let entries = answers(&good, None).unwrap();
    assert_eq!(entries[b"grape".as_slice()].0, EntryKind::Delete);
}

/// One of many ways to change bytes, chosen by `seed`: flips, runs of one byte, numbers at their
/// limits, cuts, repeats.
fn mutate(bytes: &mut Vec<u8>, seed: u64) {
    for step in 0..=(seed % 4) {
        let draw = combine(seed, step);
        // Mostly near the start, where structure lies.
        let near = if draw & 1 == 0 { 128 } else { bytes.len() };
        let at = (draw >> 8) as usize % near.clamp(1, bytes.len().max(1));
        let Some(byte) = bytes.get_mut(at) else { return };
        match draw >> 1 & 7 {
            0..=2 => *byte ^= 1 << (draw >> 5 & 7),
            3 => *byte = [0, 1, 0x7f, 0x80, 0xff, 0xfe, 16, 64][(draw >> 5 & 7) as usize],
            4 => bytes.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0xff),
            5 => bytes.truncate(at),
            6 => bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = (draw >> 32) as u8),
            _ => {
                let length = bytes.len();
                bytes.copy_within(at..length.min(at + 16), (draw >> 40) as usize % (length - 15));
            }
        }
        if bytes.len() < 16 {
            return;
        }
    }
}

/// How many times as many mutations a run by command tries.
pub fn effort() -> u64 {
    setting("VARVITE_EFFORT", 1)
}

/// Runs `body` on `seed` and on `count` mutations of it, by command on more.
pub fn mutations(body: fn(&[u8]), seed: &[u8], count: u64) {
    body(seed);
    for number in 0..count * effort() {
        let mut bytes = seed.to_vec();
        mutate(&mut bytes, number);
        body(&bytes);
    }
}

#[test]
fn no_mutation_makes_a_decoder_panic() {
    for (name, body) in BODIES {
        let seeds = seeds();
        let seeds: Vec<_> = seeds.iter().filter(|(of, _)| *of == name).collect();
        assert!(!seeds.is_empty(), "{name} has a seed");
        // A whole file costs more than a decoder, and most of it is the decoders above.
        let count = if name == "segment" { 2_000 } else { 20_000 };
        let count = if cfg!(miri) { count / 2_000 } else { count };
        for (_, seed) in &seeds {
            mutations(body, seed, count / seeds.len() as u64);
        }
    }
}
