//! Calls of a trace that pass many things, run again: folds, diffs, merges and ranges.

use std::ops::Bound;

use varvite::context::{Change, Depth, Order, Resolution, Sides, Tree};
use varvite::trace::{Digest, DigestOfMany};
use varvite::{Error, Kind, Result, Value, View};

/// The depth that a trace names so. `Invalid` for one that it does not.
pub fn depth(kind: u64, bound: u64) -> Result<Option<Depth>> {
    let odd = || Error::invalid("the trace has a fold to a depth of another kind: record it again");
    let bound = usize::try_from(bound).map_err(|_| odd())?;
    Ok(match kind {
        0 => None,
        1 => Some(Depth::Eq(bound)),
        2 => Some(Depth::Lt(bound)),
        3 => Some(Depth::Le(bound)),
        4 => Some(Depth::Gt(bound)),
        5 => Some(Depth::Ge(bound)),
        _ => return Err(odd()),
    })
}

/// Ends a walk where the host did.
struct Ended {
    digest: DigestOfMany,
    count: u64,
    at: u64,
}

impl Ended {
    fn new(at: u64) -> Ended {
        Ended { digest: DigestOfMany::default(), count: 0, at }
    }

    fn pass(&mut self, told: Option<&[u8]>) -> Result<()> {
        self.digest.add(told);
        self.count += 1;
        if self.count == self.at {
            return Err(Error::new(Kind::Closed, "the host ended here"));
        }
        Ok(())
    }

    fn finish(&self, outcome: Result<()>) -> Result<Digest> {
        if self.at == 0 || self.count != self.at {
            outcome?;
        }
        Ok(self.digest.finish())
    }
}

/// A fold as far as the host let it go.
pub fn fold(
    tree: &Tree,
    path: &[Vec<u8>],
    (depth, order): (Option<Depth>, Order),
    ended_at: u64,
) -> Result<Digest> {
    let mut ended = Ended::new(ended_at);
    let outcome = tree.fold(path, depth, order, |steps, _| {
        ended.pass(steps.last().filter(|_| order == Order::Sorted).map(Vec::as_slice))
    });
    ended.finish(outcome)
}

/// A diff as far as the host let it go, all of it or from a path on.
pub fn diff(
    before: &Tree,
    after: &Tree,
    from: Option<&[Vec<u8>]>,
    ended_at: u64,
) -> Result<Digest> {
    let mut ended = Ended::new(ended_at);
    let pass = |path: &[Vec<u8>], change: Change| {
        let (old, new) = change.sides();
        let of = Digest::of_all([path.last().map(Vec::as_slice), old, new]);
        ended.pass(Some(&of.hash.to_le_bytes()))
    };
    let outcome = match from {
        Some(from) => before.diff_from(after, from, pass),
        None => before.diff(after, pass),
    };
    ended.finish(outcome)
}

/// Answers what the host answered, one after the other; what it was not asked is a conflict.
pub fn resolutions(
    resolved: &[Vec<u8>],
) -> impl FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution> + '_ {
    let mut left = resolved.iter();
    move |_, _| {
        Ok(match left.next().map(Vec::as_slice) {
            Some([1]) => Resolution::Removed,
            Some([2, value @ ..]) => Resolution::Value(value.to_vec()),
            _ => Resolution::Conflict,
        })
    }
}

/// Steps of a cursor: backward where the lowest bit of `flags` is set, with the values where the second is, and to the
/// end where the third is.
pub fn range(
    view: &View,
    (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
    flags: u64,
    count: u64,
) -> Result<Digest> {
    let (is_backward, has_values, is_over) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    let (mut keys, mut values) = (DigestOfMany::default(), DigestOfMany::default());
    let mut cursor = view.cursor(lower, upper)?;
    if is_backward {
        cursor.seek_last();
    }
    let mut left = count.saturating_add(u64::from(is_over));
    while left > 0 {
        left -= 1;
        if has_values {
            let entry = if is_backward { cursor.previous()? } else { cursor.next()? };
            let Some((key, value)) = entry else { break };
            keys.add(Some(key));
            values.add(Some(value));
        } else {
            let key = if is_backward { cursor.previous_key()? } else { cursor.next_key()? };
            let Some(key) = key else { break };
            keys.add(Some(key));
        }
    }
    let keys = keys.finish();
    Ok(if has_values { keys.with(values.finish()) } else { keys })
}

/// What stands for values that were found and not read.
pub fn lengths(found: &[Option<Value>]) -> Digest {
    let mut digest = DigestOfMany::default();
    for value in found {
        let length = value.as_ref().map(|value| value.len().to_le_bytes());
        digest.add(length.as_ref().map(<[u8; 8]>::as_slice));
    }
    digest.finish()
}
