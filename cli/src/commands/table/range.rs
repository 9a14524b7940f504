//! Which keys a command means: a prefix, or two bounds.

use std::ops::Bound;

use clap::Args;
use varvite::{Error, Result};

use crate::text::Notation;

/// Which keys.
#[derive(Debug, Args)]
pub struct KeyRange {
    /// Only keys that start with this
    #[arg(long, conflicts_with_all = ["first", "after", "last", "before"])]
    pub prefix: Option<String>,
    /// Only keys from this one on
    #[arg(long, value_name = "KEY", alias = "from", conflicts_with = "after")]
    pub first: Option<String>,
    /// Only keys after this one
    #[arg(long, value_name = "KEY")]
    pub after: Option<String>,
    /// Only keys up to this one
    #[arg(long, value_name = "KEY", conflicts_with = "before")]
    pub last: Option<String>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    pub before: Option<String>,
    /// Keys and values are hexadecimal
    #[arg(long)]
    pub hex: bool,
}

/// A bound of borrowed bytes.
pub fn as_slice(bound: &KeyBound) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// A bound that owns its key.
pub type KeyBound = Bound<Vec<u8>>;

/// The bounds that the arguments mean; crossing ones are refused.
pub fn bounds(arguments: &KeyRange, notation: Notation) -> Result<(KeyBound, KeyBound)> {
    let parse = |key: &Option<String>| -> Result<Option<Vec<u8>>> {
        key.as_ref().map(|key| notation.parse("key", key)).transpose()
    };
    if let Some(prefix) = parse(&arguments.prefix)? {
        let upper = after_prefix(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
        return Ok((Bound::Included(prefix), upper));
    }
    let lower = match (parse(&arguments.first)?, parse(&arguments.after)?) {
        (Some(key), _) => Bound::Included(key),
        (None, Some(key)) => Bound::Excluded(key),
        (None, None) => Bound::Unbounded,
    };
    let upper = match (parse(&arguments.last)?, parse(&arguments.before)?) {
        (Some(key), _) => Bound::Included(key),
        (None, Some(key)) => Bound::Excluded(key),
        (None, None) => Bound::Unbounded,
    };
    if let (
        Bound::Included(lower) | Bound::Excluded(lower),
        Bound::Included(upper) | Bound::Excluded(upper),
    ) = (&lower, &upper)
        && lower > upper
    {
        return Err(Error::invalid(
            "the first key is greater than the last: swap them (bounds are in the order of keys, whatever is \
             done with the range)",
        ));
    }
    Ok((lower, upper))
}

/// The least key above all that start with `prefix`; `None` when there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(&[1, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xff, 0xff]), None);
        assert_eq!(after_prefix(b""), None);
    }
}
