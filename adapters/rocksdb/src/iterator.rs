//! Iterators in both directions, over what is stored and what a transaction wrote.

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::Arc;

use varvite::Cursor;

use crate::db::DB;
use crate::error::Error;
use crate::options::ReadOptions;
use crate::prefixes::SliceTransform;
use crate::reads::{DBAccess, Overlay, Reader};

/// Which way an iterator goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To greater keys.
    Forward,
    /// To lesser keys.
    Reverse,
}

/// Where an iterator begins, and which way it goes.
#[derive(Clone, Copy, Debug)]
pub enum IteratorMode<'a> {
    /// At the least key, forward.
    Start,
    /// At the greatest key, in reverse.
    End,
    /// At the key, or where there is none at the next one that way.
    From(&'a [u8], Direction),
}

/// A key and its value.
pub type KVBytes = (Box<[u8]>, Box<[u8]>);

/// What the cursor over the stored entries has ahead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Unread,
    Entry,
    Nothing,
}

/// Stored entries and those of a transaction, merged in the order of their keys.
struct Walk {
    cursor: Cursor,
    overlay: Option<Arc<Overlay>>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    prefixes: Option<SliceTransform>,
    /// The prefix with which it ends.
    prefix: Option<Vec<u8>>,
    direction: Direction,
    ahead: Ahead,
    /// What is ahead: key and value.
    stored: (Vec<u8>, Vec<u8>),
    /// Where it stands, if it does.
    entry: (Vec<u8>, Vec<u8>),
    is_valid: bool,
    error: Option<Error>,
}

/// The first or last entry of `overlay` between the bounds, which may cross.
fn written<'a>(
    overlay: &'a Overlay,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
) -> Option<(&'a Vec<u8>, &'a Option<Vec<u8>>)> {
    if let (Included(from) | Excluded(from), Included(to) | Excluded(to)) = bounds
        && (from > to || from == to && bounds != (Included(from), Included(to)))
    {
        return None;
    }
    let mut range = overlay.range::<[u8], _>(bounds);
    match direction {
        Direction::Forward => range.next(),
        Direction::Reverse => range.next_back(),
    }
}

impl Walk {
    fn new(reader: Reader, options: ReadOptions) -> Result<Walk, Error> {
        let (lower, upper) = (options.lower, options.upper);
        let bounds = match (&lower, &upper) {
            // Bounds that cross leave nothing.
            (Some(lower), Some(upper)) if lower >= upper => {
                (Included(&**lower), Excluded(&**lower))
            }
            _ => {
                let lower = lower.as_deref().map_or(Unbounded, Included);
                (lower, upper.as_deref().map_or(Unbounded, Excluded))
            }
        };
        Ok(Walk {
            cursor: reader.view.cursor(bounds.0, bounds.1)?,
            overlay: reader.overlay.filter(|overlay| !overlay.is_empty()),
            lower,
            upper,
            prefixes: reader.prefix,
            prefix: None,
            direction: Direction::Forward,
            ahead: Ahead::Unread,
            stored: Default::default(),
            entry: Default::default(),
            is_valid: false,
            error: None,
        })
    }

    /// Reads what the cursor has ahead.
    fn look(&mut self) -> Result<(), Error> {
        if self.ahead != Ahead::Unread {
            return Ok(());
        }
        let found = match self.direction {
            Direction::Forward => self.cursor.next()?,
            Direction::Reverse => self.cursor.previous()?,
        };
        self.ahead = Ahead::Nothing;
        if let Some((key, value)) = found {
            self.ahead = Ahead::Entry;
            for (to, from) in [(&mut self.stored.0, key), (&mut self.stored.1, value)] {
                to.clear();
                to.extend_from_slice(from);
            }
        }
        Ok(())
    }

    /// Goes to the first entry beyond `gap` in its direction, of those ahead.
    fn step(&mut self, mut gap: Bound<Vec<u8>>) -> Result<bool, Error> {
        let overlay = self.overlay.clone();
        loop {
            self.look()?;
            let by_transaction = overlay.as_ref().and_then(|overlay| {
                let gap = gap.as_ref().map(Vec::as_slice);
                let bounds = match self.direction {
                    Direction::Forward => (gap, self.upper.as_deref().map_or(Unbounded, Excluded)),
                    Direction::Reverse => (self.lower.as_deref().map_or(Unbounded, Included), gap),
                };
                written(overlay, bounds, self.direction)
            });
            let Some((key, value)) = by_transaction else { return Ok(self.take_stored()) };
            if self.ahead == Ahead::Entry {
                let is_nearer = match self.direction {
                    Direction::Forward => self.stored.0 < *key,
                    Direction::Reverse => self.stored.0 > *key,
                };
                if is_nearer {
                    return Ok(self.take_stored());
                }
                if self.stored.0 == *key {
                    self.ahead = Ahead::Unread;
                }
            }
            if let Some(value) = value {
                self.entry = (key.clone(), value.clone());
                return Ok(true);
            }
            gap = Excluded(key.clone());
        }
    }

    fn take_stored(&mut self) -> bool {
        if self.ahead != Ahead::Entry {
            return false;
        }
        std::mem::swap(&mut self.entry, &mut self.stored);
        self.ahead = Ahead::Unread;
        true
    }

    /// Steps, and says where it stands then.
    fn go(&mut self, gap: Bound<Vec<u8>>) {
        match self.step(gap) {
            Ok(is_there) => self.is_valid = is_there && self.has_prefix(),
            Err(error) => (self.is_valid, self.error) = (false, Some(error)),
        }
    }

    fn has_prefix(&self) -> bool {
        let (Some(prefixes), Some(prefix)) = (&self.prefixes, &self.prefix) else { return true };
        prefixes.prefix(&self.entry.0) == Some(prefix)
    }

    fn turn(&mut self, direction: Direction) {
        (self.direction, self.ahead, self.error) = (direction, Ahead::Unread, None);
    }

    fn note_prefix(&mut self, key: Option<&[u8]>) {
        let prefixes = self.prefixes.as_ref();
        self.prefix = prefixes.zip(key).and_then(|(it, key)| it.prefix(key).map(<[u8]>::to_vec));
    }

    fn seek_end(&mut self, direction: Direction) {
        self.turn(direction);
        self.prefix = None;
        match direction {
            Direction::Forward => {
                self.cursor.seek_first();
                self.go(self.lower.clone().map_or(Unbounded, Included));
            }
            Direction::Reverse => {
                self.cursor.seek_last();
                self.go(self.upper.clone().map_or(Unbounded, Excluded));
            }
        }
        if self.is_valid {
            let key = self.entry.0.clone();
            self.note_prefix(Some(&key));
        }
    }

    fn seek(&mut self, key: &[u8], direction: Direction) {
        self.turn(direction);
        self.note_prefix(Some(key));
        match direction {
            Direction::Forward => {
                self.cursor.seek(key);
                let lower = self.lower.clone().filter(|lower| &**lower > key);
                self.go(Included(lower.unwrap_or_else(|| key.to_vec())));
            }
            Direction::Reverse => {
                // Behind the key, which is before the least of the greater ones.
                self.cursor.seek(&[key, &[0]].concat());
                let upper = self.upper.clone().filter(|upper| &**upper <= key);
                self.go(upper.map_or_else(|| Included(key.to_vec()), Excluded));
            }
        }
    }

    /// One on, from where it stands.
    fn advance(&mut self, direction: Direction) {
        if !self.is_valid {
            return;
        }
        let key = self.entry.0.clone();
        if self.direction != direction {
            self.turn(direction);
            match direction {
                Direction::Forward => self.cursor.seek(&[&key[..], &[0]].concat()),
                Direction::Reverse => self.cursor.seek(&key),
            }
        }
        self.go(Excluded(key));
    }
}

/// An iterator that is moved by hand. It stands at an entry or nowhere.
pub struct DBRawIteratorWithThreadMode<'a, D: DBAccess> {
    walk: Result<Walk, Error>,
    of: PhantomData<fn() -> &'a D>,
}

/// One over a [`DB`].
pub type DBRawIterator<'a> = DBRawIteratorWithThreadMode<'a, DB>;

impl<D: DBAccess> DBRawIteratorWithThreadMode<'_, D> {
    pub(crate) fn new(reader: Result<Reader, Error>, options: ReadOptions) -> Self {
        let walk = reader.and_then(|reader| Walk::new(reader, options));
        DBRawIteratorWithThreadMode { walk, of: PhantomData }
    }

    fn with(&mut self, action: impl FnOnce(&mut Walk)) {
        if let Ok(walk) = &mut self.walk {
            action(walk);
        }
    }

    /// Whether it stands at an entry.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.walk.as_ref().is_ok_and(|walk| walk.is_valid)
    }

    /// Why it stands nowhere, if that is not the end.
    pub fn status(&self) -> Result<(), Error> {
        let error = self.walk.as_ref().map_or_else(Some, |walk| walk.error.as_ref());
        error.cloned().map_or(Ok(()), Err)
    }

    /// To the least key.
    pub fn seek_to_first(&mut self) {
        self.with(|walk| walk.seek_end(Direction::Forward));
    }

    /// To the greatest key.
    pub fn seek_to_last(&mut self) {
        self.with(|walk| walk.seek_end(Direction::Reverse));
    }

    /// To `key`, or the next greater one.
    #[allow(clippy::needless_pass_by_value)] // the peer's shape
    pub fn seek<K: AsRef<[u8]>>(&mut self, key: K) {
        self.with(|walk| walk.seek(key.as_ref(), Direction::Forward));
    }

    /// To `key`, or the next lesser one.
    #[allow(clippy::needless_pass_by_value)] // the peer's shape
    pub fn seek_for_prev<K: AsRef<[u8]>>(&mut self, key: K) {
        self.with(|walk| walk.seek(key.as_ref(), Direction::Reverse));
    }

    /// To the next greater key.
    #[allow(clippy::should_implement_trait)] // the peer's shape
    pub fn next(&mut self) {
        self.with(|walk| walk.advance(Direction::Forward));
    }

    /// To the next lesser key.
    pub fn prev(&mut self) {
        self.with(|walk| walk.advance(Direction::Reverse));
    }

    /// The key where it stands.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.item().map(|(key, _)| key)
    }

    /// The value where it stands.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.item().map(|(_, value)| value)
    }

    /// Both.
    #[must_use]
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        let walk = self.walk.as_ref().ok().filter(|walk| walk.is_valid)?;
        Some((&walk.entry.0, &walk.entry.1))
    }
}

/// Entries one after the other, in one direction.
pub struct DBIteratorWithThreadMode<'a, D: DBAccess> {
    raw: DBRawIteratorWithThreadMode<'a, D>,
    direction: Direction,
    is_over: bool,
}

/// Those of a [`DB`].
pub type DBIterator<'a> = DBIteratorWithThreadMode<'a, DB>;

impl<'a, D: DBAccess> DBIteratorWithThreadMode<'a, D> {
    pub(crate) fn new(raw: DBRawIteratorWithThreadMode<'a, D>, mode: IteratorMode<'_>) -> Self {
        let mut new =
            DBIteratorWithThreadMode { raw, direction: Direction::Forward, is_over: false };
        new.set_mode(mode);
        new
    }

    /// Begins again, where `mode` says.
    pub fn set_mode(&mut self, mode: IteratorMode<'_>) {
        self.is_over = false;
        match mode {
            IteratorMode::Start => self.raw.seek_to_first(),
            IteratorMode::End => self.raw.seek_to_last(),
            IteratorMode::From(key, Direction::Forward) => self.raw.seek(key),
            IteratorMode::From(key, Direction::Reverse) => self.raw.seek_for_prev(key),
        }
        self.direction = match mode {
            IteratorMode::Start => Direction::Forward,
            IteratorMode::End => Direction::Reverse,
            IteratorMode::From(_, direction) => direction,
        };
    }
}

impl<D: DBAccess> Iterator for DBIteratorWithThreadMode<'_, D> {
    type Item = Result<KVBytes, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let Some((key, value)) = self.raw.item() else {
            self.is_over = true;
            return self.raw.status().err().map(Err);
        };
        let entry = (key.into(), value.into());
        match self.direction {
            Direction::Forward => self.raw.next(),
            Direction::Reverse => self.raw.prev(),
        }
        Some(Ok(entry))
    }
}

impl<D: DBAccess> FusedIterator for DBIteratorWithThreadMode<'_, D> {}

impl<'a, D: DBAccess> From<DBIteratorWithThreadMode<'a, D>> for DBRawIteratorWithThreadMode<'a, D> {
    fn from(iterator: DBIteratorWithThreadMode<'a, D>) -> Self {
        iterator.raw
    }
}
