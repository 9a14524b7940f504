//! Ranges as iterators: owned, from both ends, with keys alone when asked.
//!
//! An iterator is a view with up to two cursors, one for each end that is used, which are made when they are.
//! They meet where the key that one comes to was given by the other. So nothing is borrowed, nothing is
//! read before the first step, and a scan from one end has the sources of one cursor.

use std::iter::FusedIterator;
use std::ops::{self, Bound};

use super::cursor::Cursor;
use super::owned_bytes::Bytes;
use super::view::View;
use crate::error::Result;

/// The ranges of Rust over anything that has bytes: `a..b`, `a..=b`, `a..`, `..b`, `..`, or a pair of
/// [`Bound`]s.
///
/// `RangeBounds<K>` would leave open what `K` is of a pair of bounds, of two byte strings and of `..`, so
/// that each call would have to say it. A range whose bounds cross is empty.
pub trait KeyBounds {
    /// Where it begins and where it ends.
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>);
}

fn owned<K: AsRef<[u8]>>(bound: Bound<K>) -> Bound<Vec<u8>> {
    bound.map(|key| key.as_ref().to_vec())
}

impl<K: AsRef<[u8]>> KeyBounds for (Bound<K>, Bound<K>) {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (owned(self.0), owned(self.1))
    }
}

impl KeyBounds for ops::RangeFull {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::Range<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (owned(Bound::Included(self.start)), owned(Bound::Excluded(self.end)))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::RangeInclusive<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let (start, end) = self.into_inner();
        (owned(Bound::Included(start)), owned(Bound::Included(end)))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::RangeFrom<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (owned(Bound::Included(self.start)), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::RangeTo<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, owned(Bound::Excluded(self.end)))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::RangeToInclusive<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, owned(Bound::Included(self.end)))
    }
}

/// The bounds of the keys that begin with `prefix`.
fn prefix_bounds(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return (Bound::Included(prefix.to_vec()), Bound::Excluded(end));
        }
    }
    // Nothing is above keys that begin with the greatest bytes.
    (Bound::Included(prefix.to_vec()), Bound::Unbounded)
}

/// Keys with their values, from a view that it holds: see [`View::range`].
///
/// It is owned and `Send`, goes from both ends, and reads nothing before it is asked. An error is its last
/// item: after it, as after the end, it gives `None` for ever. Each step costs what one of a [`Cursor`]
/// does, and an allocation for a key or value of more than 62 bytes. Each end that is used holds a page of
/// each run that it came to, and 16 of those along which it went far, counted in the session's memory; after the
/// last item it holds nothing more.
pub struct Range {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    front: Option<Box<Cursor>>,
    back: Option<Box<Cursor>>,
    /// Whether each end has given a key, at which the other ends.
    is_front_begun: bool,
    is_back_begun: bool,
    is_over: bool,
    /// None after the end. Last, because the folder's lock goes with it, and files are removed under the lock only.
    view: Option<View>,
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Range({:?}, {:?})", self.lower, self.upper)
    }
}

impl Range {
    fn new(view: View, (lower, upper): (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Range {
        Range {
            view: Some(view),
            lower,
            upper,
            front: None,
            back: None,
            is_front_begun: false,
            is_back_begun: false,
            is_over: false,
        }
    }

    /// The keys alone: values in blob files are not read.
    #[must_use]
    pub fn keys(self) -> Keys {
        Keys(self)
    }

    /// A cursor over the whole range; none after the end.
    fn make_cursor(&self) -> Result<Option<Box<Cursor>>> {
        let Some(view) = &self.view else { return Ok(None) };
        let (lower, upper) = (self.lower.clone(), self.upper.clone());
        view.cursor_between(lower, upper).map(|cursor| Some(Box::new(cursor)))
    }

    /// Moves the front on; whether it came to a key that the back has not given.
    fn step_front(&mut self) -> Result<Option<&mut Cursor>> {
        if self.front.is_none() {
            self.front = self.make_cursor()?;
        }
        let Some(front) = self.front.as_deref_mut() else { return Ok(None) };
        let Some(key) = front.next_key()? else { return Ok(None) };
        let meets = self.is_back_begun && self.back.as_ref().is_some_and(|back| key >= back.key());
        self.is_front_begun = true;
        Ok(if meets { None } else { self.front.as_deref_mut() })
    }

    fn step_back(&mut self) -> Result<Option<&mut Cursor>> {
        if self.back.is_none() {
            self.back = self.make_cursor()?;
            self.back.as_deref_mut().map(Cursor::seek_last);
        }
        let Some(back) = self.back.as_deref_mut() else { return Ok(None) };
        let Some(key) = back.previous_key()? else { return Ok(None) };
        let meets = self.is_front_begun && self.front.as_ref().is_some_and(|it| key <= it.key());
        self.is_back_begun = true;
        Ok(if meets { None } else { self.back.as_deref_mut() })
    }

    /// As `step_front`, past `count` keys.
    fn skip_front(&mut self, count: usize) -> Result<Option<&mut Cursor>> {
        for _ in 0..count {
            if self.step_front()?.is_none() {
                return Ok(None);
            }
        }
        self.step_front()
    }

    fn skip_back(&mut self, count: usize) -> Result<Option<&mut Cursor>> {
        for _ in 0..count {
            if self.step_back()?.is_none() {
                return Ok(None);
            }
        }
        self.step_back()
    }

    /// One item, made of what `step` came to; nothing more after an error or the end.
    #[inline]
    fn give<T>(
        &mut self,
        step: impl FnOnce(&mut Range) -> Result<Option<&mut Cursor>>,
        item: impl FnOnce(&mut Cursor) -> Result<T>,
    ) -> Option<Result<T>> {
        if self.is_over {
            return None;
        }
        // Also where a host's operator panics: what comes next is not known then.
        self.is_over = true;
        let found = match step(self) {
            Ok(None) => None,
            Ok(Some(cursor)) => Some(item(cursor)),
            Err(error) => Some(Err(error)),
        };
        if let Some(Ok(_)) = found {
            self.is_over = false;
        } else {
            // Nothing is held for what does not go on.
            (self.front, self.back, self.view) = (None, None, None);
        }
        found
    }
}

fn entry(cursor: &mut Cursor) -> Result<(Bytes, Bytes)> {
    let value = cursor.take_value()?;
    Ok((Bytes::from(cursor.key()), value))
}

impl Iterator for Range {
    type Item = Result<(Bytes, Bytes)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.give(Range::step_front, entry)
    }

    /// Values that are passed over are not read.
    fn nth(&mut self, count: usize) -> Option<Self::Item> {
        self.give(|range| range.skip_front(count), entry)
    }
}

impl DoubleEndedIterator for Range {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.give(Range::step_back, entry)
    }

    /// Values that are passed over are not read.
    fn nth_back(&mut self, count: usize) -> Option<Self::Item> {
        self.give(|range| range.skip_back(count), entry)
    }
}

impl FusedIterator for Range {}

/// Keys without their values, from a view that it holds: see [`Range::keys`].
#[derive(Debug)]
pub struct Keys(Range);

impl Iterator for Keys {
    type Item = Result<Bytes>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.give(Range::step_front, |cursor| Ok(Bytes::from(cursor.key())))
    }
}

impl DoubleEndedIterator for Keys {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.give(Range::step_back, |cursor| Ok(Bytes::from(cursor.key())))
    }
}

impl FusedIterator for Keys {}

impl View {
    /// Every key in `range` with its value, in key order, from either end. Reads nothing yet; the first step
    /// from an end reads a page of each run that may have the first key, all of them together. An item may be
    /// `Io`, `Corrupt`, `Closed`, or `Missing` beside [another process](View), and is the last one then.
    ///
    /// Values are given whole, however long they are, and `Invalid` is the item of one that memory has no room
    /// for: where there may be some of more than 16 MiB, which only [`crate::Session::write_value`] makes, go through
    /// the [keys](Range::keys) and read these in pieces, by [`View::find`].
    ///
    /// ```
    /// # use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    /// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// # let mut table = session.create_table("t", TableOptions::default())?;
    /// table.update(Batch::new().insert(b"a", b"1").insert(b"b", b"2").insert(b"c", b"3"))?;
    /// for entry in table.range(b"a"..b"c") {
    ///     let (key, value) = entry?;
    ///     println!("{key:?} is bound to {} bytes", value.len());
    /// }
    /// let last = table.range(b"b"..).next_back().expect("there is one")?;
    /// assert!(last.0 == b"c" && last.1 == b"3");
    /// # Ok::<(), varvite::Error>(())
    /// ```
    #[must_use]
    pub fn range(&self, range: impl KeyBounds) -> Range {
        Range::new(self.clone(), range.into_bounds())
    }

    /// Every key that begins with `prefix` with its value. See [`View::range`].
    ///
    /// ```
    /// # use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    /// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// # let mut table = session.create_table("t", TableOptions::default())?;
    /// table.update(Batch::new().insert(b"tx1#0", b"5").insert(b"tx1#1", b"2").insert(b"tx2#0", b"9"))?;
    /// let outputs = table.prefix(b"tx1#").keys().collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(outputs, [b"tx1#0", b"tx1#1"]);
    /// # Ok::<(), varvite::Error>(())
    /// ```
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::new(self.clone(), prefix_bounds(prefix.as_ref()))
    }

    /// Every key with its value. See [`View::range`].
    #[must_use]
    pub fn iter(&self) -> Range {
        self.range(..)
    }
}

impl IntoIterator for &View {
    type Item = Result<(Bytes, Bytes)>;
    type IntoIter = Range;

    fn into_iter(self) -> Range {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one_of_its_length() {
        let bounds = |prefix: &[u8]| prefix_bounds(prefix).1;
        assert_eq!(bounds(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(bounds(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(bounds(b"\xff\xff"), Bound::Unbounded);
        assert_eq!(bounds(b""), Bound::Unbounded);
    }

    #[test]
    fn iterators_are_owned() {
        fn owned<T: Send + 'static>() {}
        owned::<Range>();
        owned::<Keys>();
    }
}
