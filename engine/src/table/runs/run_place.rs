//! A place in a run for cursors: moves either way, and reads ahead when it moves along.
//!
//! A seek has steps, so that a cursor's places take each together: [`RunPlace::nearest`] says from memory where
//! the entry can be, which may be far enough away to do nothing more; [`RunPlace::aim`] finds the page in memory, [`RunPlace::missing`] says what must be read of it, [`RunPlace::settle`] looks in the page.
//! Pages come from the cache where they are in it. Invariant: a place that stands does so at an entry
//! within the limits, in a checked page.

use std::sync::Arc;

use super::run::Run;
use super::segment::Segment;
use super::segment_meta::page_offset;
use crate::cache::{CachedPage, Charge};
use crate::disk::Buffer;
use crate::error::Result;
use crate::table::bytes::{
    EntryKind, EntryRef, FIRST_PAGE, Nearest, PAGE_BYTES, Page, RangeFilter,
};

/// Pages read at once at most when the place moves from page to page: from two on twice as many each
/// time, because most ranges are short.
const READ_AHEAD: u32 = 16;
/// Up to so many pages read ahead at once are kept in the cache: of more, the place is on a long way, and
/// who comes next will hardly begin there.
const KEPT_AHEAD: u32 = 4;

/// Where a place is to stand: at an entry after a gap between keys, or before one.
#[derive(Clone, Copy, Debug)]
pub enum Seek<'a> {
    /// At the first entry.
    First,
    /// At the first entry with this key or a greater one.
    AtOrAfter(&'a [u8]),
    /// At the first entry with a greater key.
    After(&'a [u8]),
    /// At the last entry.
    Last,
    /// At the last entry with this key or a smaller one.
    AtOrBefore(&'a [u8]),
    /// At the last entry with a smaller key.
    Before(&'a [u8]),
}

/// Where the entry of a seek in a run can be, before anything is read.
#[derive(Clone, Copy, Debug)]
pub enum NearestKey<'a> {
    /// There is none.
    None,
    /// From the place of the seek on.
    Here,
    /// From this key on, in the direction of the seek; it is one of a segment's ends.
    Key(&'a [u8]),
    /// From the keys with this beginning and these eight bytes behind it on.
    Head(&'a [u8], u64),
    /// The range filter of this segment would say, which is not in memory yet.
    Unread(&'a Arc<Segment>),
}

impl<'a> NearestKey<'a> {
    /// What the range filter of `segment` answers to `ask`.
    fn of(segment: &'a Arc<Segment>, ask: impl Fn(&RangeFilter) -> Nearest) -> NearestKey<'a> {
        let Some(filter) = segment.range_filter() else { return NearestKey::Unread(segment) };
        let Some(filter) = filter else { return NearestKey::Here };
        match ask(filter) {
            Nearest::Here => NearestKey::Here,
            Nearest::Head(head) => NearestKey::Head(&segment.first_key()[..filter.shared()], head),
        }
    }
}

/// A page that a place is to stand in, and where.
#[derive(Clone, Copy, Debug)]
struct Goal {
    segment: usize,
    /// Which head page of the segment.
    head: usize,
    page: u32,
    at: GoalEntry,
}

#[derive(Clone, Copy, Debug)]
enum GoalEntry {
    First,
    Last,
    Searched,
}

/// The memory that the places of a cursor take, which is charged while it lives.
#[derive(Debug, Default)]
pub struct PlaceMemory {
    charge: Option<Charge>,
    bytes: u64,
    /// Of these, what values take.
    values: u64,
}

impl PlaceMemory {
    /// Counted in `charge`, if there is one, from `bytes` on.
    pub fn new(charge: Option<Charge>, bytes: u64) -> PlaceMemory {
        let mut memory = PlaceMemory { charge, bytes: 0, values: 0 };
        memory.change(0, bytes);
        memory
    }

    /// The values that a cursor has joined take so many bytes.
    #[inline]
    pub fn count_values(&mut self, bytes: u64) {
        if bytes != self.values {
            let before = std::mem::replace(&mut self.values, bytes);
            self.change(before, bytes);
        }
    }

    /// What took `before` bytes takes `after`.
    fn change(&mut self, before: u64, after: u64) {
        self.bytes = self.bytes - before + after;
        if let Some(charge) = &self.charge
            && before != after
        {
            charge.set(self.bytes);
        }
    }
}

/// A place in a run.
pub struct RunPlace {
    run: Arc<Run>,
    /// Only keys after this count.
    after: Option<Arc<[u8]>>,
    /// Only keys up to this count.
    up_to: Option<Arc<[u8]>>,
    /// Where a seek leads that is under way.
    goal: Option<Goal>,
    /// Whether it stands at an entry; the next ones are of that then.
    stands: bool,
    /// Segment, head page and entry.
    segment: usize,
    head: usize,
    entry: usize,
    /// How many entries the page has.
    count: usize,
    kind: EntryKind,
    /// Where in the page key and value begin, and where the value ends.
    spans: (usize, usize, usize),
    page: HeldPage,
    window: Window,
    /// Pages that are read when it moves along next.
    ahead: u32,
    /// The value of the entry at the place, if it lies over several pages.
    large: Vec<u8>,
    /// The key of the entry at the place, if the page has it in pieces; else empty.
    joined: Vec<u8>,
    /// What is charged for this place.
    charged_bytes: u64,
}

/// The page at hand, which was checked.
enum HeldPage {
    None,
    /// Of the cache, of this segment and number.
    Cached(CachedPage, usize, u32),
    /// In the window, from this byte on.
    Window(usize),
}

/// Consecutive pages of one segment.
#[derive(Default)]
struct Window {
    buffer: Option<Buffer>,
    segment: usize,
    first: u32,
    count: u32,
    /// A bit for each page that was checked.
    checked: u32,
}

impl Window {
    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], Buffer::as_slice)
    }

    fn holds(&self, segment: usize, page: u32) -> bool {
        self.count > 0
            && self.segment == segment
            && page >= self.first
            && page - self.first < self.count
    }
}

impl RunPlace {
    /// A place in `run`, of which only keys after `after` and up to `up_to` count.
    pub fn new(run: Arc<Run>, after: Option<Arc<[u8]>>, up_to: Option<Arc<[u8]>>) -> Self {
        RunPlace {
            run,
            after,
            up_to,
            goal: None,
            stands: false,
            segment: 0,
            head: 0,
            entry: 0,
            count: 0,
            kind: EntryKind::Insert,
            spans: (0, 0, 0),
            page: HeldPage::None,
            window: Window::default(),
            ahead: 0,
            large: Vec::new(),
            joined: Vec::new(),
            charged_bytes: 0,
        }
    }

    /// The entry here.
    #[inline]
    pub fn peek(&self) -> Option<EntryRef<'_>> {
        if !self.stands {
            return None;
        }
        let (_, middle, to) = self.spans;
        let value = if self.large.is_empty() { &self.bytes()[middle..to] } else { &self.large };
        Some(EntryRef { kind: self.kind, key: self.key(), value })
    }

    /// The key of the entry in work.
    #[inline]
    fn key(&self) -> &[u8] {
        let (from, middle, _) = self.spans;
        if self.joined.is_empty() { &self.bytes()[from..middle] } else { &self.joined }
    }

    /// The page at hand.
    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.page {
            HeldPage::Cached(page, ..) => &page[..],
            HeldPage::Window(start) => &self.window.bytes()[*start..*start + PAGE_BYTES],
            HeldPage::None => &[],
        }
    }

    /// Where the entry of a seek can be, as far as memory knows.
    pub fn nearest(&self, seek: Seek<'_>) -> NearestKey<'_> {
        let segments = self.run.segments();
        let nearest = match self.limited(seek) {
            Seek::First => self.first_key_of(0),
            Seek::AtOrAfter(key) => self.nearest_after(key, false),
            Seek::After(key) => self.nearest_after(key, true),
            Seek::Last => self.last_key_before(segments.len()),
            Seek::AtOrBefore(key) => self.nearest_before(key, false),
            Seek::Before(key) => self.nearest_before(key, true),
        };
        if let NearestKey::Key(key) = nearest
            && !self.is_between_limits(key)
        {
            return NearestKey::None;
        }
        nearest
    }

    fn first_key_of(&self, segment: usize) -> NearestKey<'_> {
        let first = self.run.segments().get(segment).map(|found| found.first_key());
        first.map_or(NearestKey::None, NearestKey::Key)
    }

    fn last_key_before(&self, segment: usize) -> NearestKey<'_> {
        let before = segment.checked_sub(1).map(|before| &self.run.segments()[before]);
        before.map_or(NearestKey::None, |found| NearestKey::Key(found.last_key()))
    }

    fn nearest_after(&self, key: &[u8], passes: bool) -> NearestKey<'_> {
        let segment = self.run.seek(key);
        let Some(found) = self.run.segments().get(segment) else { return NearestKey::None };
        if passes && found.last_key() == key {
            return self.first_key_of(segment + 1);
        }
        if key < found.first_key() {
            return NearestKey::Key(found.first_key());
        }
        NearestKey::of(found, |filter| filter.at_or_after(key))
    }

    fn nearest_before(&self, key: &[u8], passes: bool) -> NearestKey<'_> {
        let begun = self.run.begun_by(key);
        let Some(segment) = begun.checked_sub(1) else { return NearestKey::None };
        let found = &self.run.segments()[segment];
        if passes && found.first_key() == key {
            return self.last_key_before(segment);
        }
        if found.last_key() < key {
            return NearestKey::Key(found.last_key());
        }
        NearestKey::of(found, |filter| filter.at_or_before(key))
    }

    /// Begins to seek: finds the page in memory, but for indexes at their first use. Nothing beyond `far`, in
    /// the direction of the seek, is wanted. `Io`, `Corrupt`.
    pub fn aim(&mut self, seek: Seek<'_>, far: Option<&[u8]>) -> Result<()> {
        (self.stands, self.goal, self.ahead) = (false, None, 1);
        self.goal = match self.limited(seek) {
            Seek::First => self.first_of(0, far)?,
            Seek::AtOrAfter(key) => self.goal_after(key, false, far)?,
            Seek::After(key) => self.goal_after(key, true, far)?,
            Seek::Last => self.last_before(self.run.segments().len(), far)?,
            Seek::AtOrBefore(key) => self.goal_before(key, false, far)?,
            Seek::Before(key) => self.goal_before(key, true, far)?,
        };
        Ok(())
    }

    /// Leaves the entry, for nothing beyond either end.
    pub fn leave(&mut self) {
        (self.stands, self.goal) = (false, None);
    }

    /// The seek within the limits.
    fn limited<'a>(&'a self, seek: Seek<'a>) -> Seek<'a> {
        match (seek, self.after.as_deref(), self.up_to.as_deref()) {
            (Seek::First, Some(after), _) => Seek::After(after),
            (Seek::AtOrAfter(key) | Seek::After(key), Some(after), _) if key <= after => {
                Seek::After(after)
            }
            (Seek::Last, _, Some(up_to)) => Seek::AtOrBefore(up_to),
            (Seek::AtOrBefore(key) | Seek::Before(key), _, Some(up_to)) if key > up_to => {
                Seek::AtOrBefore(up_to)
            }
            _ => seek,
        }
    }

    fn goal(&self, segment: usize, head: usize, at: GoalEntry) -> Result<Goal> {
        let page = self.run.segments()[segment].index()?.span(head).page;
        Ok(Goal { segment, head, page, at })
    }

    /// The first entry of a segment, if there is that segment and it is not beyond `far`.
    fn first_of(&self, segment: usize, far: Option<&[u8]>) -> Result<Option<Goal>> {
        let Some(found) = self.run.segments().get(segment) else { return Ok(None) };
        if far.is_some_and(|far| found.first_key() > far) {
            return Ok(None);
        }
        self.goal(segment, 0, GoalEntry::First).map(Some)
    }

    /// The same of the last entry of the segment before.
    fn last_before(&self, segment: usize, far: Option<&[u8]>) -> Result<Option<Goal>> {
        let Some(segment) = segment.checked_sub(1) else { return Ok(None) };
        let found = &self.run.segments()[segment];
        if far.is_some_and(|far| found.last_key() < far) {
            return Ok(None);
        }
        let head = found.index()?.heads() - 1;
        self.goal(segment, head, GoalEntry::Last).map(Some)
    }

    fn goal_after(&self, key: &[u8], passes: bool, far: Option<&[u8]>) -> Result<Option<Goal>> {
        let segment = self.run.seek(key);
        let Some(found) = self.run.segments().get(segment) else { return Ok(None) };
        if passes && found.last_key() == key {
            return self.first_of(segment + 1, far);
        }
        if key < found.first_key() {
            return self.first_of(segment, far);
        }
        let head = found.index()?.seek(key);
        self.goal(segment, head, GoalEntry::Searched).map(Some)
    }

    fn goal_before(&self, key: &[u8], passes: bool, far: Option<&[u8]>) -> Result<Option<Goal>> {
        let begun = self.run.begun_by(key);
        let Some(segment) = begun.checked_sub(1) else { return Ok(None) };
        let found = &self.run.segments()[segment];
        if passes && found.first_key() == key {
            return self.last_before(segment, far);
        }
        if found.last_key() < key {
            return self.last_before(begun, far);
        }
        let head = found.index()?.seek(key);
        self.goal(segment, head, GoalEntry::Searched).map(Some)
    }

    /// Asks for the memory where [`RunPlace::missing`] looks in the cache.
    #[inline]
    pub fn prefetch_place(&self) {
        if let Some(goal) = &self.goal
            && let Some(cached) = self.run.segments()[goal.segment].cached()
        {
            cached.prefetch_place(goal.page);
        }
    }

    /// What must be read before the place can settle: a page of a segment. `Corrupt`.
    pub fn missing(&mut self) -> Result<Option<(&Arc<Segment>, u32)>> {
        let Some(goal) = self.goal else { return Ok(None) };
        if self.take_at_hand(goal.segment, goal.page)? {
            return Ok(None);
        }
        Ok(Some((&self.run.segments()[goal.segment], goal.page)))
    }

    /// Takes the page that was missing. Gives the buffer back where the cache has the page now. `Corrupt`.
    pub fn take_page(
        &mut self,
        buffer: Buffer,
        memory: &mut PlaceMemory,
    ) -> Result<Option<Buffer>> {
        let Some(Goal { segment, page, .. }) = self.goal else { return Ok(Some(buffer)) };
        let from = &self.run.segments()[segment];
        let bytes = &buffer.as_slice()[..PAGE_BYTES];
        from.check_page(page, bytes)?;
        if let Some(cached) = from.cached() {
            let (held, is_kept) = cached.hold(page, bytes.try_into().expect("a page was read"));
            self.page = HeldPage::Cached(held, segment, page);
            self.charge(if is_kept { 0 } else { PAGE_BYTES as u64 }, memory);
            return Ok(Some(buffer));
        }
        self.window = Window { buffer: Some(buffer), segment, first: page, count: 1, checked: 1 };
        self.page = HeldPage::Window(0);
        self.charge(0, memory);
        Ok(None)
    }

    /// Memory that the place has and that the missing page may be read into, unless a cache is to have it.
    pub fn take_buffer(&mut self) -> Option<Buffer> {
        self.page = HeldPage::None;
        self.window.count = 0;
        self.window.buffer.take()
    }

    /// Counts the memory of the place, `more` beside its window and its large value.
    fn charge(&mut self, more: u64, memory: &mut PlaceMemory) {
        let window = self.window.buffer.as_ref().map_or(0, Buffer::capacity);
        let bytes = (window + self.large.capacity() + self.joined.capacity()) as u64 + more;
        memory.change(std::mem::replace(&mut self.charged_bytes, bytes), bytes);
    }

    /// Asks for the memory where [`RunPlace::settle`] looks.
    #[inline]
    pub fn prefetch(&self) {
        if self.goal.is_some() {
            Page::prefetch(self.bytes(), 1 << 15);
        }
    }

    /// Ends a seek in the page that is at hand now; whether it does: else the entry is in a neighbour, for
    /// which something may be missing. `Io` and `Corrupt` for a large value.
    pub fn settle(&mut self, seek: Seek<'_>, memory: &mut PlaceMemory) -> Result<bool> {
        let Some(goal) = self.goal.take() else { return Ok(true) };
        let page = Page::view(self.bytes());
        let entry = match (goal.at, self.limited(seek)) {
            (GoalEntry::First, _) | (GoalEntry::Searched, Seek::First) => Some(0),
            (GoalEntry::Last, _) | (GoalEntry::Searched, Seek::Last) => Some(page.count() - 1),
            (GoalEntry::Searched, Seek::AtOrAfter(key)) => Some(page.seek(key)),
            (GoalEntry::Searched, Seek::After(key)) => {
                Some(page.search(key).map_or_else(|entry| entry, |entry| entry + 1))
            }
            (GoalEntry::Searched, Seek::AtOrBefore(key)) => match page.search(key) {
                Ok(entry) => Some(entry),
                Err(entry) => entry.checked_sub(1),
            },
            (GoalEntry::Searched, Seek::Before(key)) => page.seek(key).checked_sub(1),
        };
        let count = page.count();
        match entry {
            Some(entry) if entry < count => {
                (self.segment, self.head) = (goal.segment, goal.head);
                self.stand(entry, memory)?;
                Ok(true)
            }
            Some(_) => {
                self.goal = self.head_after(goal.segment, goal.head)?;
                Ok(self.goal.is_none())
            }
            None => {
                self.goal = self.head_before(goal.segment, goal.head)?;
                Ok(self.goal.is_none())
            }
        }
    }

    fn head_after(&self, segment: usize, head: usize) -> Result<Option<Goal>> {
        if head + 1 < self.run.segments()[segment].index()?.heads() {
            return self.goal(segment, head + 1, GoalEntry::First).map(Some);
        }
        self.first_of(segment + 1, None)
    }

    fn head_before(&self, segment: usize, head: usize) -> Result<Option<Goal>> {
        match head.checked_sub(1) {
            Some(head) => self.goal(segment, head, GoalEntry::Last).map(Some),
            None => self.last_before(segment, None),
        }
    }

    /// Stands at an entry of the page at hand, if it is within the limits.
    fn stand(&mut self, entry: usize, memory: &mut PlaceMemory) -> Result<()> {
        let page = Page::view(self.bytes());
        let overflow = page.overflow();
        self.count = page.count();
        self.decode(entry, memory);
        if !self.large.is_empty() {
            self.large = Vec::new();
            self.charge(0, memory);
        }
        if self.is_within() && overflow > 0 {
            self.stands = false;
            let segment = &self.run.segments()[self.segment];
            let number = segment.index()?.span(self.head).page;
            self.large = segment.read_large(number, &Page::view(self.bytes()))?;
            self.charge(0, memory);
        }
        self.stands = self.is_within();
        Ok(())
    }

    #[inline]
    fn decode(&mut self, entry: usize, memory: &mut PlaceMemory) {
        let page = Page::view(self.bytes());
        let (kind, spans, shares) = (page.kind(entry), page.place(entry), page.shares());
        (self.entry, self.kind, self.spans, self.stands) = (entry, kind, spans, true);
        if shares || !self.joined.is_empty() {
            self.join(memory);
        }
    }

    /// Puts the pieces of the key of the entry in work together, if it has several.
    fn join(&mut self, memory: &mut PlaceMemory) {
        let mut joined = std::mem::take(&mut self.joined);
        let before = joined.capacity();
        joined.clear();
        let page = self.bytes();
        let start = Page::view(page).start_of(self.entry);
        if !start.is_empty() {
            joined.extend_from_slice(start);
            joined.extend_from_slice(&page[self.spans.0..self.spans.1]);
        }
        let grown = (joined.capacity() - before) as u64;
        self.joined = joined;
        self.charged_bytes += grown;
        memory.change(0, grown);
    }

    /// Whether the entry in work is within the limits.
    fn is_within(&self) -> bool {
        self.is_between_limits(self.key())
    }

    #[inline]
    fn is_between_limits(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| key > after)
            && self.up_to.as_deref().is_none_or(|up_to| key <= up_to)
    }

    /// Goes on to the next entry; does nothing past either end. `Io`, `Corrupt`.
    #[inline]
    pub fn next(&mut self, memory: &mut PlaceMemory) -> Result<()> {
        if self.stands && self.entry + 1 < self.count {
            self.decode(self.entry + 1, memory);
            self.stands = self.up_to.is_none() || self.is_within();
            return Ok(());
        }
        self.move_along(true, memory)
    }

    /// Goes back to the previous entry; does nothing past either end. `Io`, `Corrupt`.
    #[inline]
    pub fn previous(&mut self, memory: &mut PlaceMemory) -> Result<()> {
        if self.stands && self.entry > 0 {
            self.decode(self.entry - 1, memory);
            self.stands = self.after.is_none() || self.is_within();
            return Ok(());
        }
        self.move_along(false, memory)
    }

    /// Goes on to the neighbouring page, which is read with those that come behind it.
    fn move_along(&mut self, forward: bool, memory: &mut PlaceMemory) -> Result<()> {
        if !std::mem::take(&mut self.stands) {
            return Ok(());
        }
        let goal = if forward {
            self.head_after(self.segment, self.head)?
        } else {
            self.head_before(self.segment, self.head)?
        };
        let Some(goal) = goal else { return Ok(()) };
        if !self.take_at_hand(goal.segment, goal.page)? {
            self.read_ahead(&goal, forward, memory)?;
        }
        (self.segment, self.head) = (goal.segment, goal.head);
        let last = Page::view(self.bytes()).count() - 1;
        self.stand(if forward { 0 } else { last }, memory)
    }

    /// Has this page at hand, if that takes no read. `Corrupt`.
    fn take_at_hand(&mut self, segment: usize, page: u32) -> Result<bool> {
        if let HeldPage::Cached(_, of, number) = &self.page
            && (*of, *number) == (segment, page)
        {
            return Ok(true);
        }
        if self.window.holds(segment, page) {
            let number = page - self.window.first;
            let start = number as usize * PAGE_BYTES;
            if self.window.checked >> number & 1 == 0 {
                let bytes = &self.window.bytes()[start..start + PAGE_BYTES];
                let from = &self.run.segments()[segment];
                from.check_page(page, bytes)?;
                if self.window.count <= KEPT_AHEAD
                    && let Some(cached) = from.cached()
                {
                    cached.keep(page, bytes.try_into().expect("it is one page"));
                }
                self.window.checked |= 1 << number;
            }
            self.page = HeldPage::Window(start);
            return Ok(true);
        }
        let found = self.run.segments()[segment].cached().and_then(|cached| cached.get(page));
        let is_found = found.is_some();
        if let Some(found) = found {
            self.page = HeldPage::Cached(found, segment, page);
        }
        Ok(is_found)
    }

    /// Reads the page of `goal` and its neighbours on the way, and has it at hand.
    fn read_ahead(&mut self, goal: &Goal, forward: bool, memory: &mut PlaceMemory) -> Result<()> {
        let segment = &self.run.segments()[goal.segment];
        self.ahead = (2 * self.ahead).min(READ_AHEAD);
        let (first, count) = if forward {
            let end = FIRST_PAGE + segment.meta().footer.pages;
            (goal.page, self.ahead.min(end - goal.page))
        } else {
            let count = self.ahead.min(goal.page + 1 - FIRST_PAGE);
            (goal.page + 1 - count, count)
        };
        let length = count as usize * PAGE_BYTES;
        // What is at hand may be in the memory that is read into.
        (self.page, self.window.count) = (HeldPage::None, 0);
        if self.window.bytes().len() < length {
            self.window.buffer = Some(Buffer::new(length));
            self.charge(0, memory);
        }
        let segment = &self.run.segments()[goal.segment];
        let buffer = self.window.buffer.as_mut().expect("it was just made");
        let bytes = &mut buffer.as_mut_slice()[..length];
        segment.page_file()?.read_exact_at(page_offset(first), bytes)?;
        let buffer = self.window.buffer.take();
        self.window = Window { buffer, segment: goal.segment, first, count, checked: 0 };
        let is_held = self.take_at_hand(goal.segment, goal.page)?;
        assert!(is_held, "the page was just read");
        Ok(())
    }
}
