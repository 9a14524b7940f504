//! Ordered reads of a view, in both directions.
//!
//! The cursor stands in a gap between keys. Each source (buffers, runs, halves of merges) has its own
//! place, or waits until it may be next; a tree of losers says which has the least (or greatest) key. A step
//! joins what the sources say of it from newest to oldest, in O(log sources) comparisons for each, and skips
//! keys that are not bound. Turning round places all sources anew at the gap.

use std::ops::Bound;
use std::sync::Arc;

use super::loser_tree::LoserTree;
use super::owned_bytes::Bytes;
use super::sources::{
    CursorSource, Direction, NextKeys, load_range_filters, place_in_buffer, settle, shared_prefix,
};
use super::told_steps::ToldSteps;
use super::unjoined::Unjoined;
use super::view::View;
use crate::error::Result;
use crate::table::bytes::EntryKind;
use crate::table::merge::Input;
use crate::table::runs::{NearestKey, PlaceMemory, Run, RunPlace, Seek};
use crate::trace::Bounds;

/// Memory for values above this is let go when they are passed, and counted until then.
const VALUES_KEPT: usize = 64 << 10;

/// Where the cursor stands between keys: at an end, or beside the key that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    Start,
    Before,
    After,
    End,
}

/// A place between the keys of a table at one moment; later updates do not move it.
///
/// [`Cursor::next`] gives the binding after the gap and passes it, [`Cursor::previous`] the one
/// before: after `next` gave a key, `previous` gives the same one. A seek reads a page of each run that may
/// have the next key, all of these together: most others are known, in memory, to have none so near, and
/// are read when the cursor comes there. Moving along costs one read for 16 pages of a run. Pages that are
/// in the session's cache are not read. All that it holds counts in the session's memory.
///
/// ```
/// # use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
/// use std::ops::Bound::{Excluded, Unbounded};
/// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
/// # let mut table = session.create_table("t", TableOptions::default())?;
/// table.update(Batch::new().insert(b"a", b"1").insert(b"b", b"2").insert(b"c", b"3"))?;
/// let mut cursor = table.cursor(Excluded(b"a"), Unbounded)?;
/// assert_eq!(cursor.next()?, Some((&b"b"[..], &b"2"[..])));
/// assert_eq!(cursor.previous()?, Some((&b"b"[..], &b"2"[..])));
/// assert_eq!(cursor.previous()?, None);
/// # Ok::<(), varvite::Error>(())
/// ```
pub struct Cursor {
    sources: Vec<CursorSource>,
    heads: NextKeys,
    /// Of equal keys the newest source is first.
    order: LoserTree,
    /// In an unfinished union, for each source the first one behind its table; else empty.
    ends: Vec<usize>,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    /// Where it stands; the sources are placed accordingly for `direction`.
    gap: Gap,
    /// None until the sources are placed.
    direction: Option<Direction>,
    /// How many of the sources that wait are placed together, the next time that the first of all waits.
    batch: usize,
    /// Whether a key was given since all sources were placed: then more are wanted, it seems.
    goes_on: bool,
    /// The key that the gap is beside; after a step the one that it gave.
    key: Vec<u8>,
    /// The key in work, until the step is done.
    next_key: Vec<u8>,
    /// What the sources say of the key that the last step gave, at `given`, and of the key in work, at the other place.
    said: [Unjoined; 2],
    given: usize,
    memory: PlaceMemory,
    /// Whether a recorder or an observer is told of what the cursor gives, and the steps that they were not told of yet.
    is_told: bool,
    steps: Option<Box<ToldSteps>>,
    /// Last, as in a view.
    view: View,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cursor({:?})", self.gap)
    }
}

fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    bound.map(<[u8]>::to_vec)
}

/// What comes next at a gap; `None` behind everything.
fn seek_at(direction: Direction, gap: Gap, key: &[u8]) -> Option<Seek<'_>> {
    Some(match (direction, gap) {
        (Direction::Forward, Gap::Start) => Seek::First,
        (Direction::Forward, Gap::Before) => Seek::AtOrAfter(key),
        (Direction::Forward, Gap::After) => Seek::After(key),
        (Direction::Backward, Gap::End) => Seek::Last,
        (Direction::Backward, Gap::After) => Seek::AtOrBefore(key),
        (Direction::Backward, Gap::Before) => Seek::Before(key),
        (Direction::Forward, Gap::End) | (Direction::Backward, Gap::Start) => return None,
    })
}

/// The key behind which nothing is wanted.
fn far(limit: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match limit {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
    }
}

impl Cursor {
    fn new(view: View, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Self {
        let (sources, ends) = sources(&view);
        let bytes = sources.len() * (size_of::<CursorSource>() + 2 * size_of::<u64>());
        let mut cursor = Cursor {
            memory: PlaceMemory::new(view.store.charge(), bytes as u64),
            is_told: ToldSteps::are_wanted(&view),
            steps: None,
            view,
            heads: NextKeys::new(sources.len(), shared_prefix(&lower, &upper)),
            order: LoserTree::default(),
            sources,
            ends,
            lower,
            upper,
            gap: Gap::Start,
            direction: None,
            batch: 1,
            goes_on: false,
            key: Vec::new(),
            next_key: Vec::new(),
            said: Default::default(),
            given: 0,
        };
        cursor.seek_first();
        cursor
    }

    fn go(&mut self, gap: Gap, key: &[u8]) {
        self.steps = None;
        self.gap = gap;
        self.direction = None;
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    /// Moves before the first key within the bounds. Reads nothing yet.
    pub fn seek_first(&mut self) {
        match std::mem::replace(&mut self.lower, Bound::Unbounded) {
            Bound::Unbounded => self.go(Gap::Start, b""),
            Bound::Included(key) => {
                self.go(Gap::Before, &key);
                self.lower = Bound::Included(key);
            }
            Bound::Excluded(key) => {
                self.go(Gap::After, &key);
                self.lower = Bound::Excluded(key);
            }
        }
    }

    /// Moves after the last key within the bounds. Reads nothing yet.
    pub fn seek_last(&mut self) {
        match std::mem::replace(&mut self.upper, Bound::Unbounded) {
            Bound::Unbounded => self.go(Gap::End, b""),
            Bound::Included(key) => {
                self.go(Gap::After, &key);
                self.upper = Bound::Included(key);
            }
            Bound::Excluded(key) => {
                self.go(Gap::Before, &key);
                self.upper = Bound::Excluded(key);
            }
        }
    }

    /// Moves before the first key within the bounds that is `key` or greater. Reads nothing yet.
    pub fn seek(&mut self, key: &[u8]) {
        if !self.is_after_lower(key) {
            self.seek_first();
        } else if self.is_before_upper(key) {
            self.go(Gap::Before, key);
        } else {
            self.seek_last();
        }
    }

    fn is_after_lower(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => key >= &lower[..],
            Bound::Excluded(lower) => key > &lower[..],
        }
    }

    fn is_before_upper(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => key <= &upper[..],
            Bound::Excluded(upper) => key < &upper[..],
        }
    }

    /// The next binding, or `None` at the upper bound. Within the pages at hand it reads nothing; the
    /// first step after a seek or a turn reads a page of each run that may have it, later ones up to 64 KiB
    /// at a time, or a page of a run that they come to. A value in a blob file is read, however long it is:
    /// where a table may have some of more than 16 MiB, which only [`crate::Session::write_value`] makes, step
    /// with [`Cursor::next_key`] and read these in pieces, by [`View::find`]. `Io`, `Corrupt`, `Closed`, `Invalid`
    /// for a value that memory has no room for, or `Missing` beside [another process](View), after which the
    /// cursor stands where it stood.
    #[allow(clippy::should_implement_trait)] // It lends its memory, which `Iterator` cannot.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step_whole(Direction::Forward)
    }

    /// The binding before, or `None` at the lower bound. Cost and errors as of [`Cursor::next`].
    pub fn previous(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step_whole(Direction::Backward)
    }

    /// As [`Cursor::next`], without reading a value that is in a blob file or calling a merge operator.
    pub fn next_key(&mut self) -> Result<Option<&[u8]>> {
        self.step_to_key(Direction::Forward)
    }

    /// As [`Cursor::previous`], without reading a value that is in a blob file or calling a merge operator.
    pub fn previous_key(&mut self) -> Result<Option<&[u8]>> {
        self.step_to_key(Direction::Backward)
    }

    /// The value of the key that the last step gave, also after one that failed; reads it now if it is in a
    /// blob file, and joins it if it has upserts. `Io`, `Corrupt`, `Closed`, or `Missing` beside
    /// [another process](View); `Invalid` for a value that memory has no room for, and what the table's merge
    /// operator fails with.
    pub fn value(&mut self) -> Result<&[u8]> {
        self.join(self.given)?;
        self.tell_value();
        Ok(&self.said[self.given].value)
    }

    /// Makes the value at a place whole.
    #[inline]
    fn join(&mut self, place: usize) -> Result<()> {
        if !self.said[place].is_whole() {
            self.said[place].join(&self.view.store, self.view.operator.as_ref())?;
            self.count_values();
        }
        Ok(())
    }

    /// Counts long values in the session's memory; short ones are kept for what comes next.
    #[inline]
    fn count_values(&mut self) {
        let bytes = self.said[0].held_bytes() + self.said[1].held_bytes();
        self.memory.count_values(if bytes > VALUES_KEPT { bytes as u64 } else { 0 });
    }

    /// Lets a long value of the step before go.
    #[inline]
    fn let_go_of_value(&mut self) {
        let before = &mut self.said[1 - self.given];
        if before.held_bytes() > VALUES_KEPT {
            *before = Unjoined::default();
        }
        self.count_values();
    }

    /// Tells the recorder, if there is one, that the value of the last key was read.
    #[inline]
    fn tell_value(&mut self) {
        if let Some(steps) = &mut self.steps {
            steps.value(&self.said[self.given].value);
        }
    }

    /// The key that the last step gave.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// As [`Cursor::value`], once.
    #[inline]
    pub(super) fn take_value(&mut self) -> Result<Bytes> {
        if self.said[self.given].is_whole() {
            self.tell_value();
            return Ok(Bytes::from(&self.said[self.given].value[..]));
        }
        // Made for this call: its memory is not kept for the next value.
        self.value()?;
        let value = std::mem::take(&mut self.said[self.given].value);
        self.count_values();
        Ok(Bytes::from(value))
    }

    /// A step without the value.
    fn step_to_key(&mut self, direction: Direction) -> Result<Option<&[u8]>> {
        let found = self.step(direction)?;
        if found && !self.said[self.given].is_whole() {
            // Nobody goes back to the key before, so that its value need not be kept for that.
            self.let_go_of_value();
        }
        Ok(found.then_some(&self.key))
    }

    /// A step with the value, which fails as if it had not been made.
    fn step_whole(&mut self, direction: Direction) -> Result<Option<(&[u8], &[u8])>> {
        if !self.step(direction)? {
            return Ok(None);
        }
        if !self.said[self.given].is_whole() {
            self.count_values();
            // Until the value is there it stands where it stood, also when the host's operator panics.
            self.given = 1 - self.given;
            let before = match direction {
                Direction::Forward => Gap::Before,
                Direction::Backward => Gap::After,
            };
            let passed = (std::mem::replace(&mut self.gap, before), self.direction.take());
            let steps = Unfinished(self.steps.take());
            self.join(1 - self.given)?;
            self.steps = steps.finish();
            (self.gap, self.direction) = passed;
            self.given = 1 - self.given;
            self.let_go_of_value();
        }
        self.tell_value();
        Ok(Some((&self.key, &self.said[self.given].value)))
    }

    /// Moves to the next bound key; false at the end.
    #[inline]
    fn step(&mut self, direction: Direction) -> Result<bool> {
        if self.is_told { self.told_step(direction) } else { self.step_on(direction) }
    }

    /// A step of which others are told, with those in the same direction before and behind it.
    #[cold]
    fn told_step(&mut self, direction: Direction) -> Result<bool> {
        let is_backward = direction == Direction::Backward;
        if self.steps.as_ref().is_none_or(|steps| steps.is_backward() != is_backward) {
            // Those before are told first.
            self.steps = None;
            if let Some(bounds) = self.rest(direction) {
                let steps = ToldSteps::begin(&self.view, bounds, is_backward);
                self.steps = Some(Box::new(steps));
            }
        }
        let begun = self.steps.as_ref().map(|steps| steps.clock());
        let outcome = self.step_on(direction);
        let Cursor { steps, key, .. } = self;
        if let (Some(told), Some(begun)) = (steps, begun)
            && !told.step(&begun, &outcome, key)
        {
            self.steps = None;
        }
        outcome
    }

    /// The bounds of what is left in a direction; none where nothing is.
    fn rest(&self, direction: Direction) -> Option<Bounds> {
        let near = match seek_at(direction, self.gap, &self.key)? {
            Seek::First | Seek::Last => Bound::Unbounded,
            Seek::AtOrAfter(key) | Seek::AtOrBefore(key) => Bound::Included(key.to_vec()),
            Seek::After(key) | Seek::Before(key) => Bound::Excluded(key.to_vec()),
        };
        Some(match direction {
            Direction::Forward => (near, self.upper.clone()),
            Direction::Backward => (self.lower.clone(), near),
        })
    }

    fn step_on(&mut self, direction: Direction) -> Result<bool> {
        self.view.store.check_open()?;
        self.turn(direction)?;
        loop {
            if self.heads.any_waits() {
                self.place_waiting(direction)?;
            }
            if !self.take_key(direction) {
                return Ok(false);
            }
            // Until it is done the sources do not stand together; after an error they are placed anew.
            self.direction = None;
            let bound = if self.ends.is_empty() {
                self.pass_key(direction)?
            } else {
                self.pass_key_of_union(direction)?
            };
            self.direction = Some(direction);
            std::mem::swap(&mut self.key, &mut self.next_key);
            self.gap = match direction {
                Direction::Forward => Gap::After,
                Direction::Backward => Gap::Before,
            };
            if bound {
                self.goes_on = true;
                self.given = 1 - self.given;
                if self.said[self.given].is_whole() {
                    self.let_go_of_value();
                }
                return Ok(true);
            }
        }
    }

    /// Places all sources for `direction`, unless they are.
    #[inline]
    fn turn(&mut self, direction: Direction) -> Result<()> {
        if self.direction == Some(direction) {
            return Ok(());
        }
        self.direction = None;
        self.place(direction)?;
        let Cursor { sources, heads, order, .. } = self;
        for source in 0..sources.len() {
            if !heads.waits(source) {
                heads.read(sources, source);
            }
        }
        order.rebuild(sources.len(), |one, other| heads.is_before(sources, one, other));
        self.direction = Some(direction);
        Ok(())
    }

    /// Places all sources at the gap, but for runs whose next key is known to be farther away: these wait.
    fn place(&mut self, direction: Direction) -> Result<()> {
        (self.batch, self.goes_on) = (1, false);
        let Cursor { sources, heads, memory, view, key, gap, lower, upper, .. } = self;
        let limit = if direction == Direction::Forward { upper } else { lower };
        heads.begin(direction, limit);
        let Some(seek) = seek_at(direction, *gap, key) else {
            self.place_nowhere(direction);
            return Ok(());
        };
        let far = far(limit);
        let mut unread = Vec::new();
        let mut place_run = |number, place: &mut RunPlace| {
            match place.nearest(seek) {
                NearestKey::Here => return place.aim(seek, far).map(|()| true),
                NearestKey::Unread(_) => return Ok(false),
                nearest => heads.wait(number, nearest, limit),
            }
            place.leave();
            Ok(true)
        };
        for (number, source) in sources.iter_mut().enumerate() {
            match source {
                CursorSource::Buffer(stream) => place_in_buffer(stream, seek),
                CursorSource::Run(place) => {
                    if !place_run(number, place)? {
                        unread.push(number);
                    }
                }
            }
        }
        if !unread.is_empty() {
            load_range_filters(&view.store, sources, &unread, seek)?;
            for number in unread {
                if let CursorSource::Run(place) = &mut sources[number] {
                    place_run(number, place)?;
                }
            }
        }
        settle(&view.store, sources, seek, memory)
    }

    /// Places sources that wait until the first one does not: one, then twice as many each time, since a key
    /// that was found may come before all of the others. Once a key was given the numbers go on from there, and
    /// also sources are placed that the cursor comes to later: a long range comes to most, and waits for the disk
    /// a few times and not once for each.
    fn place_waiting(&mut self, direction: Direction) -> Result<()> {
        while self.order.first().is_some_and(|first| self.heads.waits(first)) {
            // After an error the sources are placed anew.
            self.direction = None;
            let (batch, one_is_enough) = (self.batch, !self.goes_on);
            let Cursor { sources, heads, order, memory, view, key, gap, lower, upper, .. } = self;
            let limit = if direction == Direction::Forward { upper } else { lower };
            // A source that waits has no key between the place where it began to and the gap.
            let Some(seek) = seek_at(direction, *gap, key) else { break };
            let due = heads.take_due(batch, one_is_enough);
            for &(_, source) in &due {
                if let CursorSource::Run(place) = &mut sources[source] {
                    place.aim(seek, far(limit))?;
                }
            }
            settle(&view.store, sources, seek, memory)?;
            for &(_, source) in &due {
                heads.read(sources, source);
            }
            if due.len() == 1 {
                order.replay(|one, other| heads.is_before(sources, one, other));
            } else {
                order.rebuild(sources.len(), |one, other| heads.is_before(sources, one, other));
            }
            heads.rival = 0;
            heads.put_due(due);
            self.direction = Some(direction);
            self.batch = batch.saturating_mul(2);
        }
        Ok(())
    }

    /// Places all sources where nothing follows in `direction`.
    fn place_nowhere(&mut self, direction: Direction) {
        for source in &mut self.sources {
            match (source, direction) {
                (CursorSource::Run(place), _) => place.leave(),
                (CursorSource::Buffer(stream), Direction::Forward) => {
                    stream.seek_last();
                    stream.next();
                }
                (CursorSource::Buffer(stream), Direction::Backward) => {
                    stream.seek_first();
                    stream.previous();
                }
            }
        }
    }

    /// Copies the next key; false when no source has one within the bounds.
    #[inline]
    fn take_key(&mut self, direction: Direction) -> bool {
        let Some(first) = self.order.first() else { return false };
        let Some(entry) = self.sources[first].peek() else { return false };
        if self.heads.words[first] >= self.heads.limit {
            let within = match direction {
                Direction::Forward => self.is_before_upper(entry.key),
                Direction::Backward => self.is_after_lower(entry.key),
            };
            if !within {
                return false;
            }
        }
        self.next_key.clear();
        self.next_key.extend_from_slice(entry.key);
        true
    }

    /// The newest source that stands at the key.
    #[inline]
    fn at_key(&self) -> Option<usize> {
        let first = self.order.first()?;
        self.sources[first].peek().filter(|entry| entry.key == self.next_key).map(|_| first)
    }

    /// Moves the first source on; whether another one may stand at the key that it stood at.
    #[inline]
    fn advance(&mut self, first: usize, direction: Direction) -> Result<bool> {
        let Cursor { sources, heads, order, memory, .. } = self;
        let passed = heads.words[first];
        sources[first].step(direction, memory)?;
        heads.read(sources, first);
        if heads.words[first] < heads.rival {
            // It is first still, as mostly where one source has most of the entries.
            return Ok(false);
        }
        order.replay(|one, other| heads.is_before(sources, one, other));
        let now = order.first().expect("there is a source");
        heads.rival = 0;
        if now == first {
            heads.rival = order.losers().map(|loser| heads.words[loser]).min().unwrap_or(u64::MAX);
        }
        Ok(heads.words[now] == passed)
    }

    /// Gathers what the sources say of the key, newest first, and moves them past it; whether it is bound.
    fn pass_key(&mut self, direction: Direction) -> Result<bool> {
        let work = 1 - self.given;
        let mut oldest: Option<EntryKind> = None;
        // The first source stands at the key.
        let mut at_key = self.order.first();
        while let Some(source) = at_key {
            let entry = self.sources[source].peek().expect("it stands at the key");
            match oldest {
                None => {
                    oldest = Some(entry.kind);
                    self.said[work].begin(&self.view.store, entry)?;
                }
                // What was deleted leaves the upserts as they are.
                Some(EntryKind::Upsert) if entry.kind == EntryKind::Delete => {
                    oldest = Some(EntryKind::Insert);
                }
                Some(EntryKind::Upsert) => {
                    oldest = Some(entry.kind);
                    self.said[work].add(&self.view.store, entry)?;
                }
                Some(_) => {}
            }
            at_key = if self.advance(source, direction)? { self.at_key() } else { None };
        }
        Ok(oldest != Some(EntryKind::Delete))
    }

    /// The same of an unfinished union: an insert or a delete ends its table, and the next one joins as something older.
    fn pass_key_of_union(&mut self, direction: Direction) -> Result<bool> {
        let work = 1 - self.given;
        let (mut is_bound, mut from) = (false, 0);
        let mut at_key = self.order.first();
        while let Some(source) = at_key {
            let entry = self.sources[source].peek().expect("it stands at the key");
            if source >= from {
                if entry.kind != EntryKind::Upsert {
                    from = self.ends[source];
                }
                if entry.kind == EntryKind::Delete {
                    // Says nothing.
                } else if is_bound {
                    if self.view.operator.is_some() {
                        self.said[work].add(&self.view.store, entry)?;
                    }
                } else {
                    is_bound = true;
                    self.said[work].begin(&self.view.store, entry)?;
                }
            }
            at_key = if self.advance(source, direction)? { self.at_key() } else { None };
        }
        Ok(is_bound)
    }
}

/// Steps that failed, unless their last one comes to an end.
struct Unfinished(Option<Box<ToldSteps>>);

impl Unfinished {
    fn finish(mut self) -> Option<Box<ToldSteps>> {
        self.0.take()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(steps) = &mut self.0 {
            steps.fail();
        }
    }
}

impl View {
    /// A cursor before the first key between the bounds. Reads nothing yet. `Closed`.
    pub fn cursor(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<Cursor> {
        self.cursor_between(owned(lower), owned(upper))
    }

    pub(super) fn cursor_between(
        &self,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Result<Cursor> {
        self.store.check_open()?;
        Ok(Cursor::new(self.clone(), lower, upper))
    }

    /// How many keys are bound, exactly. Reads every page: see [`crate::TableStats`] for an estimate
    /// that reads none. `Io`, `Corrupt`, `Closed`, or `Missing` beside [another process](View).
    pub fn count(&self) -> Result<u64> {
        let mut cursor = self.cursor(Bound::Unbounded, Bound::Unbounded)?;
        let mut count = 0;
        while cursor.next_key()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// Every source of a view, from newest to oldest; for an unfinished union with the source behind the
/// table that each is of, else with an empty list.
fn sources(view: &View) -> (Vec<CursorSource>, Vec<usize>) {
    let run = |run: &Arc<Run>, after: Option<Arc<[u8]>>, up_to: Option<Arc<[u8]>>| {
        CursorSource::Run(RunPlace::new(Arc::clone(run), after, up_to))
    };
    let mut sources = Vec::with_capacity(32);
    sources.push(CursorSource::Buffer(view.active.stream()));
    sources.extend(view.base.iter().map(|base| run(base, None, None)));
    for sealed in view.shape.sealed.iter().rev() {
        sources.push(CursorSource::Buffer(sealed.buffer.stream()));
        sources.extend(sealed.base.iter().map(|base| run(base, None, None)));
    }
    for level in &view.shape.levels {
        sources.extend(level.runs.iter().map(|it| run(it, None, None)));
        let Some(merging) = &level.merging else { continue };
        let state = merging.job.state();
        let boundary = state.boundary.clone();
        sources.push(run(&state.outputs, None, boundary.clone().filter(|_| !state.done)));
        for input in &state.inputs {
            if let Input::Run(it) = input {
                sources.push(run(it, boundary.clone(), None));
            }
        }
    }
    sources.extend(view.shape.last.iter().map(|last| run(last, None, None)));
    let Some(union) = &view.shape.union else { return (sources, Vec::new()) };
    let (own, parts) = (sources.len(), union.job.parts());
    let mut ends = vec![own + parts.len(); own];
    ends.extend(parts.iter().map(|part| own + part.end));
    sources.extend(parts.iter().map(|part| run(&part.run, part.after.clone(), None)));
    (sources, ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::{Batch, Session, SessionOptions, TableOptions};

    /// Comparisons a step of a scan, either way, over a table of so many sealed buffers.
    fn compared(sources: u32) -> u64 {
        let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
        session.pause_merges(u64::MAX);
        let options = TableOptions { write_buffer_bytes: 64, ..TableOptions::default() };
        let mut table = session.create_table("t", options).unwrap();
        for number in 0..sources {
            // Each buffer is full with one entry, near those of others.
            let key = (number.wrapping_mul(0x9e37_79b1)).to_be_bytes();
            table.update(Batch::new().insert(&key, &[7; 64])).unwrap();
        }
        let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert!(cursor.sources.len() >= sources as usize, "{}", cursor.sources.len());
        cursor.next().unwrap();
        cursor.heads.compared.set(0);
        let mut steps = 1;
        while cursor.next().unwrap().is_some() {
            steps += 1;
        }
        assert_eq!(steps, u64::from(sources));
        cursor.heads.compared.get() / steps
    }

    #[test]
    fn a_step_costs_the_logarithm_of_the_sources() {
        for (sources, most) in [(10, 4), (100, 7), (1_000, 10), (10_000, 14)] {
            let compared = compared(sources);
            assert!(compared <= most, "{sources} sources: {compared} comparisons a step");
        }
    }
}
