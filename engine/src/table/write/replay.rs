//! Updates that the log has, applied once more.
//!
//! The table worked when they were logged, so it is to open: what stood in no update's way then is in none's here.
//! Merges are paid for as in an update, which bounds what is held in memory. Should that fail, the rest is applied
//! without, as a reader does it, and what is owed is asked for by the next update, which says why not. The log bounds
//! how much that is.
//!
//! Buffers may end elsewhere than they did, where a checkpoint wrote one out, or ranges found other keys to delete. So
//! entries may meet in one that never met, and if the host's operator fails for them the buffer ends between the two.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::table::Table;
use crate::error::{Error, Kind, Result};
use crate::table::buffer::Batch;
use crate::table::bytes::EntryRef;
use crate::table::bytes::operator;
use crate::table::durable::{LogPoint, ShapeCut};

/// How many more buffers may end early than because they are full: each takes memory however little is in it, and an
/// operator that never answers would end one at each entry.
const EARLY_ENDS: u64 = 64;

/// What a table that is brought up to its log has come to.
#[derive(Clone, Debug)]
pub struct Replaying {
    /// Whether merges are paid for.
    pays: bool,
    /// Buffers that ended because they were full, and before.
    full: u64,
    early: u64,
}

impl Replaying {
    /// Nothing was applied yet; where nobody writes, nobody pays.
    pub fn new(pays: bool) -> Replaying {
        Replaying { pays, full: 0, early: 0 }
    }
}

impl Table {
    /// Applies an update that the log has at `at`, and pays for it as long as `replaying` has it. Gives where new
    /// buffers begin, and what was cut.
    pub(in crate::table) fn replay(
        &mut self,
        batch: &Batch,
        at: LogPoint,
        replaying: &mut Replaying,
    ) -> Result<(Vec<LogPoint>, Option<ShapeCut>)> {
        let expanded = match batch.ranges() {
            [] => None,
            _ => Some(self.expand(batch, at.skip)?),
        };
        let (points, from) = match &expanded {
            Some(expanded) => (&expanded.points, LogPoint { skip: 0, ..at }),
            None => (batch, at),
        };
        if replaying.pays {
            // What panics is the host's, and as good as an error.
            let paid = catch_unwind(AssertUnwindSafe(|| self.pay(points)));
            replaying.pays = matches!(paid, Ok(Ok(())));
        }
        let mut begun = self.put_again(points, from, replaying)?;
        if let Some(expanded) = &expanded {
            expanded.place(&mut begun);
        }
        self.count_in_budget(begun.len());
        Ok((begun, expanded.and_then(|it| it.shape_cut(at))))
    }

    /// As `put`, with buffers that end where the operator fails.
    fn put_again(
        &mut self,
        batch: &Batch,
        at: LogPoint,
        replaying: &mut Replaying,
    ) -> Result<Vec<LogPoint>> {
        let options = Arc::clone(&self.options);
        let operator = options.operator.as_ref();
        let panicked = RefCell::new(None);
        let join = |older: EntryRef<'_>, newer: EntryRef<'_>| {
            let joined =
                catch_unwind(AssertUnwindSafe(|| operator::combine(operator, older, newer)));
            joined.unwrap_or_else(|payload| {
                panicked.replace(Some(payload));
                Err(Error::new(Kind::Invalid, "the merge operator panicked"))
            })
        };
        let (seals, before) = (self.shape.seals, replaying.clone());
        let full = |table: &Table, early| {
            before.full + (table.shape.seals - seals) - (early - before.early)
        };
        let mut early = before.early;
        let mut ends_before = |table: &Table, error| {
            if early >= EARLY_ENDS + full(table, early) {
                return Err(error);
            }
            early += 1;
            panicked.replace(None);
            Ok(())
        };
        let begun = self.put_joined(batch, at, &join, &mut ends_before);
        if let (Err(_), Some(payload)) = (&begun, panicked.take()) {
            resume_unwind(payload);
        }
        (replaying.full, replaying.early) = (full(self, early), early);
        begun
    }
}
