//! Entries of a table in order, also past what is damaged.
//!
//! A page that cannot be read hides all keys from where it stands to where the next page begins. Nothing
//! says where that is, so the least key from which reading goes on again is searched for by halving.

use std::ops::Bound;

use varvite::table::Cursor;
use varvite::{Error, Kind, Result, Table};

use super::range::{KeyBound, as_slice};
use crate::text::Notation;

/// Above every key that begins with what stands before it, as far as keys are.
const ABOVE: [u8; 8] = [0xff; 8];

/// Keys between two looks at how far a count is.
const LOOK: u64 = 4096;

/// Keys that were left out.
struct Lost {
    /// The last one before them, and the first one after.
    after: Option<Vec<u8>>,
    before: Option<Vec<u8>>,
    /// Whether it is the value of one key, which is `before`.
    is_value: bool,
    detail: String,
}

/// The error with how much was read before it, the key `last` at the end. Which flag goes on is said by commands that
/// have one.
pub fn stopped(table: &Table, error: &Error, count: u64, last: Option<&[u8]>) -> Error {
    let last =
        last.map_or(String::new(), |key| format!(", the last one {}", Notation::Text.show(key)));
    let of = table.stats().map_or(String::new(), |stats| {
        let (least, most) = (stats.logical_entries_min, stats.logical_entries_max);
        if least == most {
            format!(" of {most} in the table")
        } else {
            format!(" of {least} to {most} in the table")
        }
    });
    Error::new(Kind::Corrupt, format!("{error}; entries before it: {count}{of}{last}"))
}

/// How many keys are within the bounds; `tell` is told the number now and then. Damage says how many were before it.
pub fn count_keys(
    table: &Table,
    lower: &KeyBound,
    upper: &KeyBound,
    mut tell: impl FnMut(u64),
) -> Result<u64> {
    let mut count = 0;
    let counted = table.cursor(as_slice(lower), as_slice(upper)).and_then(|mut cursor| {
        while cursor.next_key()?.is_some() {
            count += 1;
            if count % LOOK == 0 {
                tell(count);
            }
        }
        Ok(())
    });
    match counted {
        Ok(()) => Ok(count),
        Err(error) if error.kind() == Kind::Corrupt => Err(stopped(table, &error, count, None)),
        Err(error) => Err(error),
    }
}

/// Reads entries in order.
pub struct Reader<'a> {
    table: &'a Table,
    cursor: Cursor,
    upper: KeyBound,
    skips: bool,
    /// Where it goes on: the bound after the last entry, when none was read since.
    place: KeyBound,
    /// Whether an entry was read since, which is the place then.
    has_moved: bool,
    /// The entry.
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// How many there were.
    pub count: u64,
    lost: Vec<Lost>,
}

impl<'a> Reader<'a> {
    /// Entries within the bounds; with `skips` it goes on past what is damaged.
    pub fn new(table: &'a Table, lower: KeyBound, upper: KeyBound, skips: bool) -> Result<Self> {
        let mut lost = None;
        let cursor = match table.cursor(as_slice(&lower), as_slice(&upper)) {
            Err(error) if skips && error.kind() == Kind::Corrupt => {
                lost = Some(error);
                table.cursor(Bound::Excluded(&ABOVE), Bound::Unbounded)?
            }
            cursor => cursor?,
        };
        let (key, value) = (Vec::new(), Vec::new());
        let lists = Vec::new();
        let mut reader = Reader {
            table,
            cursor,
            upper,
            skips,
            place: lower,
            has_moved: false,
            key,
            value,
            count: 0,
            lost: lists,
        };
        if let Some(error) = lost {
            reader.skip(&error)?;
        }
        Ok(reader)
    }

    /// Goes to the next entry; false when there is none.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            match self.cursor.next() {
                Ok(None) => return Ok(false),
                Ok(Some((key, value))) => {
                    self.key.clear();
                    self.key.extend_from_slice(key);
                    self.value.clear();
                    self.value.extend_from_slice(value);
                    self.count += 1;
                    self.has_moved = true;
                    return Ok(true);
                }
                Err(error) if error.kind() != Kind::Corrupt => return Err(error),
                Err(error) => {
                    // Only ever forward: what was passed over is not read again.
                    if std::mem::take(&mut self.has_moved) {
                        self.place = Bound::Excluded(self.key.clone());
                    }
                    if !self.skips {
                        return Err(self.stopped(&error));
                    }
                    self.skip(&error)?;
                }
            }
        }
    }

    fn stopped(&self, error: &Error) -> Error {
        let last = match &self.place {
            Bound::Excluded(key) => Some(&key[..]),
            _ => None,
        };
        stopped(self.table, error, self.count, last)
    }

    /// Goes on after what cannot be read.
    fn skip(&mut self, error: &Error) -> Result<()> {
        let detail = error.what().to_owned();
        let after = match &self.place {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        // The key can be read where only its value is damaged.
        let key = self
            .at(&as_slice(&self.place).map(<[u8]>::to_vec))
            .and_then(|mut cursor| Ok(cursor.next_key()?.map(<[u8]>::to_vec)));
        let (place, before, is_value) = match key {
            Ok(Some(key)) => (Bound::Excluded(key.clone()), Some(key), true),
            Ok(None) => (Bound::Excluded(ABOVE.to_vec()), None, false),
            Err(error) if error.kind() != Kind::Corrupt => return Err(error),
            Err(_) => {
                let next = self.next_readable(after.as_deref().unwrap_or_default())?;
                let place = next.clone().map_or(Bound::Excluded(ABOVE.to_vec()), Bound::Included);
                (place, next, false)
            }
        };
        self.lost.push(Lost { after, before, is_value, detail });
        self.cursor = self.at(&place)?;
        self.place = place;
        Ok(())
    }

    fn at(&self, lower: &KeyBound) -> Result<Cursor> {
        let (lower, upper) = (as_slice(lower), as_slice(&self.upper));
        // Bounds that cross hold nothing.
        if let (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) = (lower, upper)
            && low > high
        {
            return self.table.cursor(Bound::Included(high), Bound::Excluded(high));
        }
        self.table.cursor(lower, upper)
    }

    /// Whether reading goes on from `key`.
    fn is_readable(&self, key: &[u8]) -> Result<bool> {
        let read = self.at(&Bound::Included(key.to_vec())).and_then(|mut cursor| {
            cursor.next_key()?;
            Ok(())
        });
        match read {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == Kind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// About the least key above `low` from which reading goes on; `None` when there is none.
    fn next_readable(&self, low: &[u8]) -> Result<Option<Vec<u8>>> {
        for length in (0..=low.len()).rev() {
            let prefix = &low[..length];
            let above = [prefix, &ABOVE].concat();
            if !self.is_readable(&above)? {
                continue;
            }
            let first = low.get(length).map_or(0, |byte| u16::from(*byte) + 1);
            let byte = self.least_byte(prefix, first)?;
            if byte == first && first > 0 {
                // What is below that byte was found unreadable to its end.
                let found = if byte > 255 { above } else { [prefix, &[byte as u8]].concat() };
                return Ok(Some(found));
            }
            return self.least_below(prefix, byte, above).map(Some);
        }
        Ok(None)
    }

    /// The least byte from `first` on after which, behind `prefix`, reading goes on; 256 for none.
    fn least_byte(&self, prefix: &[u8], first: u16) -> Result<u16> {
        let (mut bad, mut good) = (first, 256);
        while bad < good {
            let middle = bad.midpoint(good);
            if self.is_readable(&[prefix, &[middle as u8]].concat())? {
                good = middle;
            } else {
                bad = middle + 1;
            }
        }
        Ok(good)
    }

    /// The least key at or below `prefix` and `byte` from which reading goes on; `above` is one.
    fn least_below(&self, prefix: &[u8], byte: u16, above: Vec<u8>) -> Result<Vec<u8>> {
        let (mut prefix, mut byte, mut found) = (prefix.to_vec(), byte, above);
        loop {
            if byte < 256 {
                found = [&prefix[..], &[byte as u8]].concat();
            }
            if byte == 0 {
                return Ok(found);
            }
            prefix.push((byte - 1) as u8);
            let is_longest = prefix.len() >= varvite::table::KEY_BYTES_MAX - ABOVE.len();
            if is_longest || !self.is_readable(&[&prefix[..], &ABOVE].concat())? {
                return Ok(found);
            }
            byte = self.least_byte(&prefix, 0)?;
        }
    }

    /// Whether anything was left out so far.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Says on standard error what was left out, and how many entries were printed; whether nothing was left out.
    pub fn tell(&self, notation: Notation, is_whole_table: bool) -> Result<bool> {
        for lost in &self.lost {
            let show = |key: &Option<Vec<u8>>| key.as_ref().map(|key| notation.show(key));
            let keys = match (show(&lost.after), show(&lost.before)) {
                (_, Some(key)) if lost.is_value => format!("the value of {key}"),
                (None, None) => "all keys".to_owned(),
                (Some(after), None) => format!("keys after {after}"),
                (None, Some(before)) => format!("keys before {before}"),
                (Some(after), Some(before)) => format!("keys after {after} and before {before}"),
            };
            complain!("left out: {keys}: {}", lost.detail);
        }
        let printed = match self.count {
            1 => "1 entry printed".to_owned(),
            count => format!("{count} entries printed"),
        };
        if !self.lost.is_empty() && !is_whole_table {
            complain!("{printed}");
        }
        if !self.lost.is_empty() && is_whole_table {
            let stats = self.table.stats()?;
            let [least, most] = [stats.logical_entries_min, stats.logical_entries_max]
                .map(|entries| entries.saturating_sub(self.count));
            let missing =
                if least == most { most.to_string() } else { format!("{least} to {most}") };
            let are = if most == 1 { "is" } else { "are" };
            complain!("{printed}; {missing} {are} missing");
        }
        Ok(self.lost.is_empty())
    }
}
