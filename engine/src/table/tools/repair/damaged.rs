//! A table's record without those of its segments that are damaged.
//!
//! What is left is searched as before: each run without some of its range. A merge goes on from the last
//! output that is left, so what the others had is taken from its inputs again, as far as they still have it.

use crate::order::BTreeMap;
use crate::table::durable::snapshot::{MergeRecord, RunRecord, TableRecord, UnionRecord};
use crate::table::runs::SegmentMeta;

/// The least and the greatest key between which a lost segment is missed, where that is more than the keys that it
/// had: a merge that takes up its last outputs again meets what they had left out, deleted keys too.
pub(super) fn missed_ranges(
    record: &TableRecord,
    is_bad: &dyn Fn(&SegmentMeta) -> bool,
) -> BTreeMap<u64, (Vec<u8>, Vec<u8>)> {
    let of_levels = record.levels.iter().filter_map(|level| level.merging.as_ref());
    let merges = of_levels.chain(record.union.iter().map(|union| &union.merging));
    let mut ranges = BTreeMap::new();
    for merging in merges {
        let Some(boundary) = &merging.boundary else { continue };
        let sound = merging.outputs.iter().rposition(|meta| !is_bad(meta));
        let first = sound.map_or(Vec::new(), |at| merging.outputs[at].last_key.clone());
        for lost in &merging.outputs[sound.map_or(0, |at| at + 1)..] {
            ranges.insert(lost.id, (first.clone(), boundary.clone()));
        }
    }
    ranges
}

/// The record without the segments that are bad.
pub(super) fn without(record: &TableRecord, is_bad: &dyn Fn(&SegmentMeta) -> bool) -> TableRecord {
    let mut record = record.clone();
    let clean = |run: &mut RunRecord| run.retain(|meta| !is_bad(meta));
    clean(&mut record.base);
    clean(&mut record.last);
    for level in &mut record.levels {
        level.runs.iter_mut().for_each(clean);
        level.runs.retain(|run| !run.is_empty());
        if let Some(merging) = &mut level.merging {
            clean_merge(merging, is_bad);
            merging.inputs.retain(|run| !run.is_empty());
            if merging.inputs.is_empty() && merging.outputs.is_empty() {
                level.merging = None;
            }
        }
    }
    if let Some(union) = &mut record.union {
        clean_merge(&mut union.merging, is_bad);
        drop_empty_inputs(union);
        if union.merging.inputs.is_empty() && union.merging.outputs.is_empty() {
            record.union = None;
        }
    }
    record
}

fn clean_merge(merging: &mut MergeRecord, is_bad: &dyn Fn(&SegmentMeta) -> bool) {
    merging.outputs.retain(|meta| !is_bad(meta));
    merging.inputs.iter_mut().for_each(|run| run.retain(|meta| !is_bad(meta)));
    merging.boundary = merging.outputs.last().map(|meta| meta.last_key.clone());
}

/// Leaves out the inputs of a union that have no segments any more; the others move up.
fn drop_empty_inputs(union: &mut UnionRecord) {
    let mut place = 0;
    while place < union.merging.inputs.len() {
        if !union.merging.inputs[place].is_empty() {
            place += 1;
            continue;
        }
        union.merging.inputs.remove(place);
        union.ends.remove(place);
        union.after.remove(place);
        for end in &mut union.ends {
            if *end > place as u64 {
                *end -= 1;
            }
        }
    }
}
