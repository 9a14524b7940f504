//! The merge operator: how an upsert joins an older value.
//!
//! Invariant: the function is associative, `f(f(a, b), c) = f(a, f(b, c))`, because merges join
//! neighbours in any grouping, though never in another order. Its name is recorded with each
//! snapshot, so that no store is reopened under another meaning.

use std::fmt;
use std::sync::Arc;

use super::entry::{EntryKind, EntryRef};
use crate::error::{Error, Kind, Result};

type Function = dyn Fn(&[u8], &[u8]) -> Result<Vec<u8>> + Send + Sync;

/// A named, associative function of an older and a newer value.
///
/// ```
/// let longest = varvite::MergeOperator::new("longest", |older, newer| {
///     if newer.len() >= older.len() { newer.to_vec() } else { older.to_vec() }
/// });
/// assert_eq!(longest.name(), "longest");
/// ```
#[derive(Clone)]
pub struct MergeOperator {
    name: Arc<str>,
    function: Arc<Function>,
    /// Not one of ours, so it may fail or panic.
    is_hosts: bool,
}

impl MergeOperator {
    /// An operator called `name` that joins `(older, newer)`. It must be associative and should not
    /// panic: an update in which it does changes nothing, but merges and lookups call it as well.
    pub fn new(
        name: &str,
        function: impl Fn(&[u8], &[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::fallible(name, move |older, newer| Ok(function(older, newer)))
    }

    /// The same of a function that may fail. The call that needed it gives its error, and an update changes nothing.
    /// Errors of another kind are told as `Invalid`, since they say nothing of this store.
    ///
    /// It is no check of what comes in: merges call it too, long after the update that brought a value. A table has no
    /// way past a pair for which it fails, so all of its later updates fail, deletes as well, until it is opened with an
    /// operator of that name that joins them. It opens, and reads whatever needs no such join. So let it fail for what should
    /// not be there at all.
    ///
    /// ```
    /// use varvite::{Error, MergeOperator};
    ///
    /// let sum = MergeOperator::fallible("sum", |older, newer| {
    ///     let number = |bytes: &[u8]| {
    ///         let bytes = bytes.try_into().map_err(|_| Error::invalid("a sum that has not 8 bytes"))?;
    ///         Ok::<_, Error>(u64::from_le_bytes(bytes))
    ///     };
    ///     Ok((number(older)?.wrapping_add(number(newer)?)).to_le_bytes().to_vec())
    /// });
    /// assert_eq!(sum.apply(&[1; 8], &[2; 8])?, [3; 8]);
    /// assert!(sum.apply(b"?", &[0; 8]).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn fallible(
        name: &str,
        function: impl Fn(&[u8], &[u8]) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let name: Arc<str> = Arc::from(name);
        let called = Arc::clone(&name);
        // Of other kinds this store would be taken for closed, poisoned or damaged.
        let function = move |older: &[u8], newer: &[u8]| {
            function(older, newer).map_err(|error| match error.kind() {
                Kind::Invalid => error,
                _ => Error::invalid(format!("the merge operator \"{called}\" failed: {error}")),
            })
        };
        MergeOperator { name, function: Arc::new(function), is_hosts: true }
    }

    fn ours(
        name: &str,
        function: impl Fn(&[u8], &[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        MergeOperator { is_hosts: false, ..Self::new(name, function) }
    }

    /// `"add-u64"`: values are little-endian integers of up to 8 bytes; the sum wraps.
    pub fn add_u64() -> Self {
        let number = |bytes: &[u8]| {
            let mut padded = [0; 8];
            let length = bytes.len().min(8);
            padded[..length].copy_from_slice(&bytes[..length]);
            u64::from_le_bytes(padded)
        };
        Self::ours("add-u64", move |older, newer| {
            number(older).wrapping_add(number(newer)).to_le_bytes().to_vec()
        })
    }

    /// `"max"`: the greater value in byte order.
    pub fn max() -> Self {
        Self::ours("max", |older, newer| older.max(newer).to_vec())
    }

    /// `"append"`: the older value followed by the newer.
    pub fn append() -> Self {
        Self::ours("append", |older, newer| [older, newer].concat())
    }

    /// The built-in operator called `name`, if there is one.
    pub fn built_in(name: &str) -> Option<Self> {
        [Self::add_u64(), Self::max(), Self::append()].into_iter().find(|it| it.name() == name)
    }

    /// The name that snapshots record.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the host's, and so may fail or panic.
    pub(in crate::table) fn is_hosts(&self) -> bool {
        self.is_hosts
    }

    /// `older` joined by `newer`. What its function failed with: none of [`MergeOperator::new`] and none that is built in
    /// fails.
    pub fn apply(&self, older: &[u8], newer: &[u8]) -> Result<Vec<u8>> {
        (self.function)(older, newer)
    }
}

impl fmt::Debug for MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MergeOperator({})", self.name)
    }
}

/// What stands for `older` and `newer` of one key: `None` when it is `newer` as it is. What the operator failed with.
///
/// A table without an operator refuses upserts at the door, so here there is one whenever needed.
pub fn combine(
    operator: Option<&MergeOperator>,
    older: EntryRef<'_>,
    newer: EntryRef<'_>,
) -> Result<Option<(EntryKind, Vec<u8>)>> {
    if newer.kind != EntryKind::Upsert {
        return Ok(None);
    }
    let joined = |kind| {
        let operator = operator.expect("a table with upserts has a merge operator");
        Ok(Some((kind, operator.apply(older.value, newer.value)?)))
    };
    match older.kind {
        EntryKind::Insert => joined(EntryKind::Insert),
        EntryKind::Upsert => joined(EntryKind::Upsert),
        EntryKind::Delete => Ok(Some((EntryKind::Insert, newer.value.to_vec()))),
        EntryKind::Blob => unreachable!("a blob is fetched before it is joined"),
    }
}

/// The operator of a table that recorded `name`, from those that the caller gave and the built-in
/// ones. `Invalid` when it is none of them.
pub fn resolve(table: &str, name: &str, given: &[MergeOperator]) -> Result<MergeOperator> {
    let found = given.iter().find(|operator| operator.name() == name).cloned();
    found.or_else(|| MergeOperator::built_in(name)).ok_or_else(|| {
        let names: Vec<_> = given.iter().map(MergeOperator::name).collect();
        let given = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Error::invalid(format!(
            "table {table} was made with the merge operator \"{name}\", but the operators given \
             are: {given}; open it with the operator of that name"
        ))
        .with_source(UnknownOperator { name: name.to_owned() })
    })
}

/// What stands behind the error where a table is opened without the merge operator that it was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOperator {
    name: String,
}

impl UnknownOperator {
    /// The name of the merge operator.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl std::fmt::Display for UnknownOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no merge operator \"{}\" is given", self.name)
    }
}

impl std::error::Error for UnknownOperator {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_operators_are_associative() {
        let values: [&[u8]; 4] = [b"", b"a", b"bc", &[0xff; 8]];
        for name in ["add-u64", "max", "append"] {
            let operator = MergeOperator::built_in(name).unwrap();
            for (a, b, c) in [(0, 1, 2), (1, 2, 3), (3, 0, 1), (2, 3, 3)] {
                let (a, b, c) = (values[a], values[b], values[c]);
                let join = |older: &[u8], newer: &[u8]| operator.apply(older, newer).unwrap();
                assert_eq!(join(&join(a, b), c), join(a, &join(b, c)), "{name}");
            }
        }
    }

    /// Whose operator reads another store that is closed has not closed this one.
    #[test]
    fn whatever_an_operator_fails_with_is_told_as_invalid() {
        for kind in [Kind::Closed, Kind::Poisoned, Kind::Corrupt, Kind::Missing, Kind::Invalid] {
            let failing = move |_: &[u8], _: &[u8]| Err(Error::new(kind, "elsewhere"));
            let error = MergeOperator::fallible("f", failing).apply(b"", b"").unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains("elsewhere"), "{error}");
        }
    }

    #[test]
    fn only_upserts_look_at_what_is_older() {
        type Joined = Option<(EntryKind, &'static [u8])>;
        let entry = |kind, value| EntryRef { kind, key: b"k", value };
        let add = MergeOperator::append();
        let rows: [(EntryKind, EntryKind, Joined); 5] = [
            (EntryKind::Insert, EntryKind::Insert, None),
            (EntryKind::Upsert, EntryKind::Delete, None),
            (EntryKind::Insert, EntryKind::Upsert, Some((EntryKind::Insert, b"on"))),
            (EntryKind::Upsert, EntryKind::Upsert, Some((EntryKind::Upsert, b"on"))),
            (EntryKind::Delete, EntryKind::Upsert, Some((EntryKind::Insert, b"n"))),
        ];
        for (older, newer, expected) in rows {
            let found = combine(Some(&add), entry(older, b"o"), entry(newer, b"n")).unwrap();
            assert_eq!(found, expected.map(|(kind, value)| (kind, value.to_vec())));
        }
    }
}
