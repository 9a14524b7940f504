//! Pending unions in a manifest: a section behind the tables, which is there only when one is pending.

use std::sync::Arc;

use super::{
    MergeRecord, NamedSegments, TableRecord, decode_optional, encode_optional, run_record,
};
use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};
use crate::table::merge::{Groups, Merging};

/// Of the section.
pub const TAG: u8 = 1;
/// Shortest record of a union: ten fields of one byte, of which the last are empty.
const UNION_RECORD_BYTES_MIN: usize = 9;

/// Runs that a pending union may have: so many that a place among them and a table's own runs fits
/// 16 bits.
pub const UNION_RUNS_MAX: usize = 4096;

/// The pending union of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnionRecord {
    /// The merge of the inputs that are left, the leftmost table's first.
    pub merging: MergeRecord,
    /// For each input, the number of the first one behind its table.
    pub ends: Vec<u64>,
    /// For each input, the key up to which its entries do not count.
    pub after: Vec<Option<Vec<u8>>>,
}

impl UnionRecord {
    /// The record of a pending or finished union, whose segments join `named`.
    pub fn new(union: &Merging, named: &mut NamedSegments) -> Self {
        let (state, plan) = (union.job.state(), union.job.plan());
        let groups = plan.groups.as_deref().expect("the merge is one of a union");
        let parts = state.parts(groups);
        let outputs = usize::from(!state.outputs.is_empty());
        let inputs = &parts[outputs..];
        let merging = MergeRecord {
            debt: plan.debt,
            spent: state.spent,
            due: union.due,
            bottom: true,
            to_last: true,
            done: state.done,
            filter_bits: plan.filter_bits,
            boundary: state.boundary.as_ref().map(|key| key.to_vec()),
            outputs: run_record(&state.outputs, named),
            inputs: inputs.iter().map(|part| run_record(&part.run, named)).collect(),
        };
        UnionRecord {
            merging,
            ends: inputs.iter().map(|part| (part.end - outputs) as u64).collect(),
            after: inputs.iter().map(|part| part.after.as_ref().map(|key| key.to_vec())).collect(),
        }
    }

    /// How its inputs belong together.
    pub fn groups(&self) -> Groups {
        Groups {
            ends: self.ends.iter().map(|&end| end as u16).collect(),
            after: self.after.iter().map(|key| key.as_deref().map(Arc::from)).collect(),
        }
    }

    fn encode(&self, to: &mut Encoder) {
        self.merging.encode(to);
        for (end, after) in self.ends.iter().zip(&self.after) {
            to.varint(*end);
            encode_optional(to, after.as_deref());
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        let merging = MergeRecord::decode(from, UNION_RUNS_MAX)?;
        let (mut ends, mut after) = (Vec::new(), Vec::new());
        for _ in &merging.inputs {
            ends.push(from.varint()?);
            after.push(decode_optional(from)?);
        }
        let record = UnionRecord { merging, ends, after };
        record.check().map_err(|expected| from.corrupt(expected, "another union"))?;
        Ok(record)
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        self.merging.check()?;
        if !self.merging.to_last {
            return Err("a union that becomes the last run");
        }
        if self.merging.inputs.iter().any(Vec::is_empty) {
            return Err("runs of a union that are not empty");
        }
        let count = self.ends.len() as u64;
        let mut ends = self.ends.iter().zip(0..);
        if ends.any(|(&end, number)| end <= number || end > count) {
            return Err("tables of a union that end behind their runs");
        }
        Ok(())
    }
}

/// The section: nothing when no table has a pending union.
pub fn encode(tables: &[TableRecord], to: &mut Encoder) {
    let pending = || tables.iter().enumerate().filter(|(_, table)| table.union.is_some());
    if pending().next().is_none() {
        return;
    }
    to.u8(TAG);
    to.varint(pending().count() as u64);
    for (number, table) in pending() {
        to.varint(number as u64);
        table.union.iter().for_each(|union| union.encode(to));
    }
}

/// Reads the section, behind its tag, into the tables that it is about.
pub fn decode(tables: &mut [TableRecord], from: &mut Decoder<'_>) -> Result<()> {
    let count = from.count(UNION_RECORD_BYTES_MIN)?;
    if count == 0 {
        return Err(from.corrupt("a pending union", "none"));
    }
    let mut next = 0;
    for _ in 0..count {
        let number = from.varint()?;
        let place = usize::try_from(number).ok().filter(|&place| place >= next);
        let Some((place, table)) = place.and_then(|place| Some((place, tables.get_mut(place)?)))
        else {
            return Err(from.corrupt("the number of a table, in order", number));
        };
        next = place + 1;
        table.union = Some(UnionRecord::decode(from)?);
        table.check().map_err(|expected| from.corrupt(expected, "another table"))?;
    }
    Ok(())
}
