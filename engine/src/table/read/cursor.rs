//! Ordered reads of a view, in both directions.
//!
//! The cursor stands in a gap between keys. Each source (buffers, runs, halves of merges) has its own
//! place; a tree of losers says which has the least (or greatest) key. A step joins what the sources say of
//! it from newest to oldest, in O(log sources) comparisons for each, and skips keys that are not bound. Turning round places all sources anew at the gap.

use std::ops::Bound;
use std::sync::Arc;

use super::loser_tree::LoserTree;
use super::view::View;
use crate::cache::Charge;
use crate::error::Result;
use crate::table::buffer::BufferStream;
use crate::table::bytes::{EntryKind, EntryRef, PAGE_BYTES, operator, prefix};
use crate::table::merge::{Binding, Input};
use crate::table::runs::blob::HeldBlob;
use crate::table::runs::{Run, RunPlace};

/// Up to so many sources their pages, a page each, are not charged to the budget: short scans are many, and
/// hold that for a moment. What is read ahead always is.
const SOURCES_UNCHARGED: usize = 16;

enum CursorSource {
    Buffer(BufferStream),
    Run(Box<RunPlace>),
}

impl CursorSource {
    fn peek(&self) -> Option<EntryRef<'_>> {
        match self {
            CursorSource::Buffer(stream) => stream.peek(),
            CursorSource::Run(place) => place.peek(),
        }
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        match (self, direction) {
            (CursorSource::Buffer(stream), Direction::Forward) => stream.next(),
            (CursorSource::Buffer(stream), Direction::Backward) => stream.previous(),
            (CursorSource::Run(place), Direction::Forward) => place.next()?,
            (CursorSource::Run(place), Direction::Backward) => place.previous()?,
        }
        Ok(())
    }

    /// Moves to the first entry after the gap.
    fn place_after(&mut self, gap: &Gap) -> Result<()> {
        match (self, gap) {
            (CursorSource::Buffer(stream), Gap::Start) => stream.seek_first(),
            (CursorSource::Run(place), Gap::Start) => place.seek_first()?,
            (CursorSource::Buffer(stream), Gap::End) => {
                stream.seek_last();
                stream.next();
            }
            (CursorSource::Run(place), Gap::End) => {
                place.seek_last()?;
                place.next()?;
            }
            (source, Gap::Before(key)) => source.seek_at_or_after(key)?,
            (source, Gap::After(key)) => {
                source.seek_at_or_after(key)?;
                if source.peek().is_some_and(|entry| entry.key == &key[..]) {
                    source.step(Direction::Forward)?;
                }
            }
        }
        Ok(())
    }

    /// Moves to the last entry before the gap.
    fn place_before(&mut self, gap: &Gap) -> Result<()> {
        match (self, gap) {
            (CursorSource::Buffer(stream), Gap::End) => stream.seek_last(),
            (CursorSource::Run(place), Gap::End) => place.seek_last()?,
            (source, Gap::Start) => {
                source.place_after(&Gap::Start)?;
                source.step(Direction::Backward)?;
            }
            (source, Gap::After(key)) => source.seek_at_or_before(key)?,
            (source, Gap::Before(key)) => {
                source.seek_at_or_before(key)?;
                if source.peek().is_some_and(|entry| entry.key == &key[..]) {
                    source.step(Direction::Backward)?;
                }
            }
        }
        Ok(())
    }

    fn seek_at_or_after(&mut self, key: &[u8]) -> Result<()> {
        match self {
            CursorSource::Buffer(stream) => stream.seek(key),
            CursorSource::Run(place) => place.seek_at_or_after(key)?,
        }
        Ok(())
    }

    fn seek_at_or_before(&mut self, key: &[u8]) -> Result<()> {
        match self {
            CursorSource::Buffer(stream) => {
                stream.seek(key);
                match stream.peek().map(|entry| entry.key == key) {
                    Some(true) => {}
                    Some(false) => stream.previous(),
                    None => stream.seek_last(),
                }
            }
            CursorSource::Run(place) => place.seek_at_or_before(key)?,
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Where the cursor stands between keys.
#[derive(Clone, Debug)]
enum Gap {
    Start,
    Before(Vec<u8>),
    After(Vec<u8>),
    End,
}

/// A place between the keys of a table at one moment; later updates do not move it.
///
/// [`Cursor::next`] gives the binding after the gap and passes it, [`Cursor::previous`] the one
/// before: after `next` gave a key, `previous` gives the same one. Moving along costs one read for
/// 16 pages of every run; a seek costs one page of every run.
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
    key: Vec<u8>,
    value: Vec<u8>,
    /// What the key is bound to, or the upserts in `value` join, when that is not fetched yet.
    blob: Option<HeldBlob>,
    /// Whether `value` holds upserts that join `blob`.
    joins: bool,
    /// For the pages that the sources hold, where they are more than a few.
    _charge: Option<Charge>,
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

impl Cursor {
    pub(in crate::table) fn new(view: View, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Self {
        let (sources, ends) = sources(&view);
        let many = sources.len() > SOURCES_UNCHARGED;
        let charge = if many { view.store.charge() } else { None };
        if let Some(charge) = &charge {
            charge.set((sources.len() * (PAGE_BYTES + size_of::<RunPlace>())) as u64);
        }
        let mut cursor = Cursor {
            view,
            heads: NextKeys { words: vec![0; sources.len()], ..NextKeys::default() },
            order: LoserTree::default(),
            sources,
            ends,
            lower: owned(lower),
            upper: owned(upper),
            gap: Gap::Start,
            direction: None,
            key: Vec::new(),
            value: Vec::new(),
            blob: None,
            joins: false,
            _charge: charge,
        };
        cursor.seek_first();
        cursor
    }

    fn go(&mut self, gap: Gap) {
        self.gap = gap;
        self.direction = None;
    }

    /// Moves before the first key within the bounds. Reads nothing yet.
    pub fn seek_first(&mut self) {
        self.go(match &self.lower {
            Bound::Unbounded => Gap::Start,
            Bound::Included(key) => Gap::Before(key.clone()),
            Bound::Excluded(key) => Gap::After(key.clone()),
        });
    }

    /// Moves after the last key within the bounds. Reads nothing yet.
    pub fn seek_last(&mut self) {
        self.go(match &self.upper {
            Bound::Unbounded => Gap::End,
            Bound::Included(key) => Gap::After(key.clone()),
            Bound::Excluded(key) => Gap::Before(key.clone()),
        });
    }

    /// Moves before the first key within the bounds that is `key` or greater. Reads nothing yet.
    pub fn seek(&mut self, key: &[u8]) {
        if !self.is_after_lower(key) {
            self.seek_first();
        } else if self.is_before_upper(key) {
            self.go(Gap::Before(key.to_vec()));
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
    /// first step after a seek or a turn reads a page of each run, later ones up to 64 KiB at a time. A
    /// value in a blob file is read. `Io`, `Corrupt`, `Closed`, after which the cursor stands where it
    /// stood.
    #[allow(clippy::should_implement_trait)] // It lends its memory, which `Iterator` cannot.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step_whole(Direction::Forward)
    }

    /// The binding before, or `None` at the lower bound. Cost and errors as of [`Cursor::next`].
    pub fn previous(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step_whole(Direction::Backward)
    }

    /// As [`Cursor::next`], without reading a value that is in a blob file.
    pub fn next_key(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.step(Direction::Forward)?.then_some(&self.key))
    }

    /// As [`Cursor::previous`], without reading a value that is in a blob file.
    pub fn previous_key(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.step(Direction::Backward)?.then_some(&self.key))
    }

    /// The value of the key that the last step gave; reads it now if it is in a blob file. `Io`,
    /// `Corrupt`, `Closed`.
    pub fn value(&mut self) -> Result<&[u8]> {
        let Some(blob) = &self.blob else { return Ok(&self.value) };
        let value = blob.file.read_whole(&blob.span)?;
        self.view.store.counters.add_blobs(std::slice::from_ref(blob));
        self.value = match &self.view.operator {
            Some(operator) if self.joins => operator.apply(&value, &self.value),
            _ => value,
        };
        self.blob = None;
        Ok(&self.value)
    }

    /// A step with the value, which fails as if it had not been made.
    fn step_whole(&mut self, direction: Direction) -> Result<Option<(&[u8], &[u8])>> {
        if !self.step(direction)? {
            return Ok(None);
        }
        if self.blob.is_some() {
            // Until the value is there it stands where it stood, also when the host's operator panics.
            let key = self.key.clone();
            let before = match direction {
                Direction::Forward => Gap::Before(key),
                Direction::Backward => Gap::After(key),
            };
            let passed = (std::mem::replace(&mut self.gap, before), self.direction.take());
            self.value()?;
            (self.gap, self.direction) = passed;
        }
        Ok(Some((&self.key, &self.value)))
    }

    /// Moves to the next bound key; false at the end.
    fn step(&mut self, direction: Direction) -> Result<bool> {
        self.view.store.check_open()?;
        self.turn(direction)?;
        loop {
            if !self.take_key() {
                return Ok(false);
            }
            let within = match direction {
                Direction::Forward => self.is_before_upper(&self.key),
                Direction::Backward => self.is_after_lower(&self.key),
            };
            if !within {
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
            // In the memory of the key before, since every step comes here.
            let mut key = match std::mem::replace(&mut self.gap, Gap::Start) {
                Gap::Before(key) | Gap::After(key) => key,
                Gap::Start | Gap::End => Vec::new(),
            };
            key.clone_from(&self.key);
            self.gap = match direction {
                Direction::Forward => Gap::After(key),
                Direction::Backward => Gap::Before(key),
            };
            if bound {
                return Ok(true);
            }
        }
    }

    /// Places all sources for `direction`, unless they are.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        if self.direction == Some(direction) {
            return Ok(());
        }
        self.direction = None;
        for source in &mut self.sources {
            match direction {
                Direction::Forward => source.place_after(&self.gap)?,
                Direction::Backward => source.place_before(&self.gap)?,
            }
        }
        let Cursor { sources, heads, order, .. } = self;
        heads.read(sources, direction);
        order.rebuild(sources.len(), |one, other| heads.is_before(sources, one, other));
        self.direction = Some(direction);
        Ok(())
    }

    /// Copies the next key; false when no source has one.
    fn take_key(&mut self) -> bool {
        let first = self.order.first().and_then(|first| self.sources[first].peek());
        let Some(entry) = first else { return false };
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        true
    }

    /// The newest source that stands at the key.
    #[inline]
    fn at_key(&self) -> Option<usize> {
        let first = self.order.first()?;
        self.sources[first].peek().filter(|entry| entry.key == self.key).map(|_| first)
    }

    /// Moves the first source on.
    fn advance(&mut self, first: usize, direction: Direction) -> Result<()> {
        let Cursor { sources, heads, order, .. } = self;
        sources[first].step(direction)?;
        heads.read_one(sources, first);
        order.replay(|one, other| heads.is_before(sources, one, other));
        Ok(())
    }

    /// Joins what the sources say of the key, newest first, and moves them past it; whether it is bound.
    fn pass_key(&mut self, direction: Direction) -> Result<bool> {
        (self.blob, self.joins) = (None, false);
        let mut newest: Option<EntryKind> = None;
        while let Some(source) = self.at_key() {
            let entry = self.sources[source].peek().expect("it stands at the key");
            match newest {
                None | Some(EntryKind::Upsert) if entry.kind == EntryKind::Blob => {
                    self.blob = Some(self.view.store.blob(entry.value)?);
                    self.joins = newest.is_some();
                    newest = Some(EntryKind::Blob);
                }
                None => {
                    newest = Some(entry.kind);
                    self.value.clear();
                    self.value.extend_from_slice(entry.value);
                }
                Some(kind @ EntryKind::Upsert) => {
                    let newer = EntryRef { kind, key: &self.key, value: &self.value };
                    let joined = operator::combine(self.view.operator.as_ref(), entry, newer);
                    let (kind, value) = joined.expect("an upsert joins what is older");
                    newest = Some(kind);
                    self.value = value;
                }
                Some(_) => {}
            }
            self.advance(source, direction)?;
        }
        Ok(newest != Some(EntryKind::Delete))
    }

    /// The same of an unfinished union.
    fn pass_key_of_union(&mut self, direction: Direction) -> Result<bool> {
        (self.blob, self.joins) = (None, false);
        let store = Arc::clone(&self.view.store);
        let operator = self.view.operator.clone();
        let fetch = |reference: &[u8]| store.fetch(reference);
        let mut binding = Binding::new(operator.as_ref(), &fetch);
        while let Some(source) = self.at_key() {
            let entry = self.sources[source].peek().expect("it stands at the key");
            binding.take(source, self.ends[source], entry)?;
            self.advance(source, direction)?;
        }
        let bound = binding.finish();
        if let Some((EntryKind::Blob, reference)) = &bound {
            self.blob = Some(store.blob(reference)?);
        }
        Ok(bound.map(|(_, value)| self.value = value).is_some())
    }
}

/// The first eight bytes of each source's key, so that few comparisons look at the sources.
#[derive(Default)]
struct NextKeys {
    /// Less is nearer; the greatest number where there is no key.
    words: Vec<u64>,
    /// All ones when the cursor moves backward, else zeros.
    flip: u64,
    /// How often two sources were compared.
    #[cfg(test)]
    compared: std::cell::Cell<u64>,
}

impl NextKeys {
    fn read(&mut self, sources: &[CursorSource], direction: Direction) {
        self.flip = if direction == Direction::Backward { u64::MAX } else { 0 };
        (0..sources.len()).for_each(|source| self.read_one(sources, source));
    }

    #[inline]
    fn read_one(&mut self, sources: &[CursorSource], source: usize) {
        let entry = sources[source].peek();
        self.words[source] = entry.map_or(u64::MAX, |entry| prefix(entry.key) ^ self.flip);
    }

    /// Whether the cursor comes to the key of `one` before that of `other`; of equal keys the newest one's
    /// comes first.
    #[inline]
    fn is_before(&self, sources: &[CursorSource], one: usize, other: usize) -> bool {
        #[cfg(test)]
        self.compared.set(self.compared.get() + 1);
        let (a, b) = (self.words[one], self.words[other]);
        if a != b {
            return a < b;
        }
        match (sources[one].peek(), sources[other].peek()) {
            (Some(a), Some(b)) => {
                let order = a.key.cmp(b.key);
                let order = if self.flip == 0 { order } else { order.reverse() };
                order.then(one.cmp(&other)).is_lt()
            }
            (a, b) => (a.is_none(), one) < (b.is_none(), other),
        }
    }
}

impl View {
    /// Every key between the bounds with its value, in key order, all of them in memory. Reads each
    /// page between the bounds, 64 KiB at a time. `Io`, `Corrupt`, `Closed`.
    pub fn range(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut cursor = self.cursor(lower, upper)?;
        let mut found = Vec::new();
        while let Some((key, value)) = cursor.next()? {
            found.push((key.to_vec(), value.to_vec()));
        }
        Ok(found)
    }

    /// A cursor before the first key between the bounds. Reads nothing yet. `Closed`.
    pub fn cursor(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<Cursor> {
        self.store.check_open()?;
        Ok(Cursor::new(self.clone(), lower, upper))
    }

    /// How many keys are bound, exactly. Reads every page: see [`crate::TableStats`] for an estimate
    /// that reads none. `Io`, `Corrupt`, `Closed`.
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
        let charge = view.store.charge();
        CursorSource::Run(Box::new(RunPlace::new(Arc::clone(run), after, up_to, charge)))
    };
    let mut sources = vec![CursorSource::Buffer(view.active.stream())];
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
