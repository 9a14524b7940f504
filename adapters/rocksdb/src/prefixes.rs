//! Prefixes of keys: which one a key has, and the keys that have it.

use std::fmt;
use std::ops;

/// The least key above all keys that begin with `prefix`; none when there is none.
pub(crate) fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// What a range of keys is given as: `a..b`, `a..`, `..b`, `..`, or a [`PrefixRange`].
pub trait IterateBounds {
    /// Where it begins, and before which key it ends.
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>);
}

impl IterateBounds for ops::RangeFull {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, None)
    }
}

impl<K: Into<Vec<u8>>> IterateBounds for ops::Range<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (Some(self.start.into()), Some(self.end.into()))
    }
}

impl<K: Into<Vec<u8>>> IterateBounds for ops::RangeFrom<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (Some(self.start.into()), None)
    }
}

impl<K: Into<Vec<u8>>> IterateBounds for ops::RangeTo<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, Some(self.end.into()))
    }
}

/// The keys that begin with it.
#[derive(Clone, Copy, Debug)]
pub struct PrefixRange<K>(pub K);

impl<K: Into<Vec<u8>>> IterateBounds for PrefixRange<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let prefix = self.0.into();
        let end = end_of(&prefix);
        ((!prefix.is_empty()).then_some(prefix), end)
    }
}

type Transform = for<'a> fn(&'a [u8]) -> &'a [u8];

/// Which prefix a key has, if it has one.
#[derive(Clone)]
pub struct SliceTransform(Kind);

#[derive(Clone)]
enum Kind {
    Fixed(usize),
    Whole,
    Hosts(Transform, Option<fn(&[u8]) -> bool>),
}

impl fmt::Debug for SliceTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Fixed(length) => write!(f, "SliceTransform({length})"),
            Kind::Whole => f.write_str("SliceTransform(noop)"),
            Kind::Hosts(..) => f.write_str("SliceTransform(a function)"),
        }
    }
}

impl SliceTransform {
    /// What a function of the host says. It is not recorded, so the name does not matter.
    pub fn create(
        _name: impl AsRef<str>,
        transform: for<'a> fn(&'a [u8]) -> &'a [u8],
        in_domain: Option<fn(&[u8]) -> bool>,
    ) -> SliceTransform {
        SliceTransform(Kind::Hosts(transform, in_domain))
    }

    /// The first `length` bytes; shorter keys have none.
    #[must_use]
    pub fn create_fixed_prefix(length: usize) -> SliceTransform {
        SliceTransform(Kind::Fixed(length))
    }

    /// The whole key.
    #[must_use]
    pub fn create_noop() -> SliceTransform {
        SliceTransform(Kind::Whole)
    }

    pub(crate) fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        match &self.0 {
            Kind::Fixed(length) => key.get(..*length),
            Kind::Whole => Some(key),
            Kind::Hosts(transform, in_domain) => {
                in_domain.is_none_or(|in_domain| in_domain(key)).then(|| transform(key))
            }
        }
    }
}
