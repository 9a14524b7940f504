//! From a table's record to its shape: what a snapshot or a checkpoint recorded, opened.

use std::sync::Arc;

use super::snapshot::{LevelRecord, MergeRecord, RunRecord, TableRecord};
use super::verify;
use crate::error::Result;
use crate::order::BTreeSet;
use crate::table::bytes::operator;
use crate::table::merge::{
    BlobPlan, Groups, Input, MergeJob, MergePlan, MergeState, Merging, Shape,
};
use crate::table::runs::{Run, Segment, SegmentMeta};
use crate::table::shared::{OpenSnapshot, Purpose, SegmentStore, TableOptions, Verify};

/// A table's options, its shape, and the run that counts as part of its write buffer.
pub type Parts = (TableOptions, Shape, Option<Arc<Run>>);

/// What the table of `record` consists of, with every file of it opened; with [`Verify::Full`] every
/// byte was read. A merge goes on from its boundary. `Corrupt`, `Missing`, and `Invalid` for a merge
/// operator that is not there.
pub fn open_parts(
    store: &Arc<SegmentStore>,
    record: &TableRecord,
    options: &OpenSnapshot,
) -> Result<Parts> {
    let operator = record.operator.as_deref();
    let operator = operator
        .map(|name| operator::resolve(&record.name, name, &options.operators))
        .transpose()?;
    let table_options = TableOptions {
        write_buffer_bytes: record.write_buffer_bytes,
        size_ratio: record.size_ratio,
        lookups: record.lookups,
        filter_bits: record.filter_bits,
        filter_bytes_max: record.filter_bytes_max,
        blob_min_bytes: Some(record.blob_min_bytes),
        compression: record.compression,
        operator,
    };
    let _held = store.open_segments(record.segments())?;
    let mut verified = BTreeSet::new();
    let mut open = |meta: &SegmentMeta| {
        let segment = store.open_segment(meta)?;
        if options.verify == Verify::Full {
            verify::segment(&segment)?;
            for blob in segment.blobs() {
                if verified.insert(blob.meta().id) {
                    blob.verify()?;
                }
            }
        }
        Ok(segment)
    };
    let base = open_run(&record.base, &mut open)?;
    let base_cost = base.as_ref().map_or(0, |run| run.cost());
    let clock = record.seals * record.write_buffer_bytes + base_cost.min(record.write_buffer_bytes);
    let mut shape = Shape { seals: record.seals, ..Shape::default() };
    for level in &record.levels {
        shape.levels.push(open_level(store, &table_options, level, clock, &mut open)?);
    }
    shape.last = open_run(&record.last, &mut open)?;
    if let Some(union) = &record.union {
        let groups = Arc::new(union.groups());
        let merging = &union.merging;
        let union = open_merge(store, &table_options, (merging, Some(groups)), clock, &mut open)?;
        shape.union = Some(union);
    }
    Ok((table_options, shape, base))
}

fn open_level(
    store: &Arc<SegmentStore>,
    options: &TableOptions,
    record: &LevelRecord,
    clock: u64,
    open: &mut dyn FnMut(&SegmentMeta) -> Result<Arc<Segment>>,
) -> Result<crate::table::merge::Level> {
    let mut level = crate::table::merge::Level::default();
    for run in &record.runs {
        level.runs.extend(open_run(run, open)?);
    }
    if let Some(record) = &record.merging {
        level.merging = Some(open_merge(store, options, (record, None), clock, open)?);
    }
    Ok(level)
}

/// A merge that goes on from its boundary; what is left is paid until the result is due.
fn open_merge(
    store: &Arc<SegmentStore>,
    options: &TableOptions,
    (record, groups): (&MergeRecord, Option<Arc<Groups>>),
    clock: u64,
    open: &mut dyn FnMut(&SegmentMeta) -> Result<Arc<Segment>>,
) -> Result<Merging> {
    let mut inputs = Vec::new();
    for input in &record.inputs {
        inputs.extend(open_run(input, open)?.map(Input::Run));
    }
    let state = MergeState {
        outputs: open_run(&record.outputs, open)?.unwrap_or_default(),
        boundary: record.boundary.as_deref().map(Arc::from),
        inputs,
        spent: record.spent,
        done: record.done,
    };
    let plan = MergePlan {
        purpose: Purpose::Merge,
        debt: record.debt,
        bottom: record.bottom,
        filter_bits: record.filter_bits,
        blobs: if groups.is_some() { BlobPlan::of_union(options) } else { BlobPlan::of(options) },
        groups,
    };
    let job = MergeJob::resume(Arc::clone(store), plan, options.operator.clone(), state);
    Ok(Merging {
        job,
        start: clock.min(record.due),
        spent_at_start: record.spent,
        due: record.due,
        to_last: record.to_last,
    })
}

/// A run whose segments were opened by `open`.
fn open_run(
    record: &RunRecord,
    open: &mut dyn FnMut(&SegmentMeta) -> Result<Arc<Segment>>,
) -> Result<Option<Arc<Run>>> {
    if record.is_empty() {
        return Ok(None);
    }
    let segments = record.iter().map(open).collect::<Result<Vec<_>>>()?;
    Ok(Some(Arc::new(Run::new(segments))))
}
