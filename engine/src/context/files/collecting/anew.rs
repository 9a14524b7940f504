//! A record written anew, because the base that it was a patch of goes: as a patch of the nearest of its bases that
//! stays, or in full. It keeps its logical offset, so what refers to it, and its references, stay right. It says how long
//! the chain was whose place it takes, so that patches of it count on from there: the chain may come back, with chunks
//! that are attached.

use std::sync::Arc;

use super::marks::Marks;
use super::reached;
use crate::context::files::pack::Pack;
use crate::context::files::patch;
use crate::context::files::record::{self, Record};
use crate::context::pieces::entry::Places;
use crate::context::pieces::node::{Embedded, Node};
use crate::error::Result;
use crate::format::codec::Encoder;

/// Of a node that was read: all of it is stored.
struct AllStored;

impl Places for AllStored {
    fn node(&self, _: &Arc<Node>) -> u64 {
        unreachable!("a node that was read is clean")
    }

    fn embedded(&self, _: &Arc<Node>) -> Option<&Embedded> {
        None
    }

    fn value(&self, _: &Arc<[u8]>) -> u64 {
        unreachable!("a node that was read is clean")
    }
}

/// The bytes to be written for `record`, which is at `offset`, if they are others: the base of which it is a patch does
/// not stay. `file` and `place` say where it was read.
pub(super) fn record_anew(
    pack: &Pack,
    marks: &Marks,
    (file, place): (&str, u64),
    offset: u64,
    record: &Record<'_>,
) -> Result<Option<Vec<u8>>> {
    let base = reached::base((file, place), offset, record)?;
    let Some(mut gone) = base.filter(|base| !marks.stays(*base)) else { return Ok(None) };
    let under = loop {
        let base =
            pack.record(gone, |file, place, record| reached::base((file, place), gone, record))?;
        match base {
            Some(base) if !marks.stays(base) => gone = base,
            base => break base,
        }
    };
    let node = pack.node_of(file, place, offset, record)?;
    let stands_for = node.base.map_or(0, |base| base.patches);
    let mut full = Encoder::new();
    let mut tag = record::put_full(&mut full, offset, &node, &AllStored);
    let mut body = full.finish();
    if let Some(under) = under {
        let (mut out, base) = (Encoder::new(), pack.read_node(under)?);
        let patch = patch::put_difference(&mut out, offset, &node, &base, under, &AllStored);
        let changes = out.finish();
        if let Some(patch) = patch.filter(|_| changes.len() < body.len()) {
            (tag, body) = (patch, changes);
        }
    }
    let mut anew = Encoder::new();
    record::put_anew(&mut anew, pack.store, offset, (tag, stands_for), &record.hash, &body);
    Ok(Some(anew.finish()))
}
