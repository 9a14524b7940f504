//! A place in a run for cursors: moves either way, and reads ahead when it moves along.
//!
//! Invariant: `at` names an entry within the limits, or is `None` past either end.

use std::sync::Arc;

use super::run::Run;
use super::segment_meta::page_offset;
use crate::cache::Charge;
use crate::disk::Buffer;
use crate::error::Result;
use crate::table::bytes::{EntryRef, FIRST_PAGE, Index, PAGE_BYTES, Page};

/// Pages read at once when the place moves from page to page.
const READ_AHEAD: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
struct At {
    segment: usize,
    /// Which head page of the segment.
    head: usize,
    entry: usize,
}

/// A place in a run.
pub struct RunPlace {
    run: Arc<Run>,
    /// Only keys after this count.
    after: Option<Arc<[u8]>>,
    /// Only keys up to this count.
    up_to: Option<Arc<[u8]>>,
    at: Option<At>,
    window: Window,
    /// The value of the entry at the place, if it lies over several pages.
    large: Vec<u8>,
}

/// Consecutive pages of one segment.
struct Window {
    buffer: Buffer,
    /// For the buffer once it has more than one page, which few cursors that read a little come to.
    charge: Option<Charge>,
    segment: usize,
    first: u32,
    count: u32,
}

impl Window {
    fn holds(&self, segment: usize, page: u32) -> bool {
        self.segment == segment && page >= self.first && page - self.first < self.count
    }

    fn page(&self, page: u32) -> &[u8] {
        let start = (page - self.first) as usize * PAGE_BYTES;
        &self.buffer.as_slice()[start..start + PAGE_BYTES]
    }
}

impl RunPlace {
    /// A place in `run`, of which only keys after `after` and up to `up_to` count. What it reads ahead
    /// counts in `charge`.
    pub fn new(
        run: Arc<Run>,
        after: Option<Arc<[u8]>>,
        up_to: Option<Arc<[u8]>>,
        charge: Option<Charge>,
    ) -> Self {
        let buffer = Buffer::new(PAGE_BYTES);
        let window = Window { buffer, charge, segment: 0, first: 0, count: 0 };
        RunPlace { run, after, up_to, at: None, window, large: Vec::new() }
    }

    /// The entry here.
    pub fn peek(&self) -> Option<EntryRef<'_>> {
        let entry = self.raw_entry(self.at?);
        Some(if self.large.is_empty() { entry } else { EntryRef { value: &self.large, ..entry } })
    }

    /// The entry as it lies in its page, which the window holds and has checked.
    fn raw_entry(&self, at: At) -> EntryRef<'_> {
        Page::view(self.window.page(self.page_number(at))).entry(at.entry)
    }

    /// The index of a segment in which the place has been.
    fn index(&self, segment: usize) -> &Index {
        self.run.segments()[segment].loaded_index().expect("the place loaded it to get there")
    }

    fn page_number(&self, at: At) -> u32 {
        self.index(at.segment).span(at.head).page
    }

    /// Moves to the first entry with `key` or a greater one.
    pub fn seek_at_or_after(&mut self, key: &[u8]) -> Result<()> {
        let after = self.after.clone();
        if let Some(after) = after.as_deref().filter(|after| *after >= key) {
            self.find(after)?;
            self.skip_while(|found| found <= after, Self::step_forward)?;
        } else {
            self.find(key)?;
            self.skip_while(|found| found < key, Self::step_forward)?;
        }
        self.arrive()
    }

    /// Moves to the last entry with `key` or a smaller one.
    pub fn seek_at_or_before(&mut self, key: &[u8]) -> Result<()> {
        let up_to = self.up_to.clone();
        let key = up_to.as_deref().filter(|up_to| *up_to < key).unwrap_or(key);
        self.find(key)?;
        if self.at.is_none() {
            self.last()?;
        }
        self.skip_while(|found| found > key, Self::step_back)?;
        self.arrive()
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.seek_at_or_after(b"")
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        if let Some(up_to) = self.up_to.clone() {
            return self.seek_at_or_before(&up_to);
        }
        self.last()?;
        self.arrive()
    }

    /// Moves to the next entry.
    pub fn next(&mut self) -> Result<()> {
        self.step_forward()?;
        self.arrive()
    }

    /// Moves to the previous entry.
    pub fn previous(&mut self) -> Result<()> {
        self.step_back()?;
        self.arrive()
    }

    /// Checks the limits and fetches a value that lies over several pages.
    fn arrive(&mut self) -> Result<()> {
        self.large.clear();
        let Some(at) = self.at else { return Ok(()) };
        let key = self.raw_entry(at).key;
        let too_early = self.after.as_deref().is_some_and(|after| key <= after);
        let too_late = self.up_to.as_deref().is_some_and(|up_to| key > up_to);
        if too_early || too_late {
            self.at = None;
            return Ok(());
        }
        let segment = &self.run.segments()[at.segment];
        let number = self.page_number(at);
        let page = Page::view(self.window.page(number));
        if page.overflow() > 0 {
            self.large = segment.read_large(number, &page)?;
        }
        Ok(())
    }

    fn skip_while(
        &mut self,
        unwanted: impl Fn(&[u8]) -> bool,
        step: impl Fn(&mut Self) -> Result<()>,
    ) -> Result<()> {
        while let Some(at) = self.at {
            if !unwanted(self.raw_entry(at).key) {
                break;
            }
            step(self)?;
        }
        Ok(())
    }

    /// Moves to the first entry of the page that may hold `key`, or in it near `key`.
    fn find(&mut self, key: &[u8]) -> Result<()> {
        self.at = None;
        let segments = self.run.segments();
        if segments.is_empty() {
            return Ok(());
        }
        // The last segment that begins at or before the key, else the first.
        let segment = segments.partition_point(|it| it.first_key() <= key).saturating_sub(1);
        let head = segments[segment].index()?.seek(key);
        self.load(At { segment, head, entry: 0 })?;
        let at = At { segment, head, entry: 0 };
        let page = Page::view(self.window.page(self.page_number(at)));
        let entry = page.seek(key).min(page.count() - 1);
        self.at = Some(At { entry, ..at });
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.at = None;
        let Some(segment) = self.run.segments().len().checked_sub(1) else { return Ok(()) };
        let head = self.run.segments()[segment].index()?.heads() - 1;
        self.enter_at_end(segment, head)
    }

    fn enter_at_end(&mut self, segment: usize, head: usize) -> Result<()> {
        let at = At { segment, head, entry: 0 };
        self.load(at)?;
        let count = Page::view(self.window.page(self.page_number(at))).count();
        self.at = Some(At { entry: count - 1, ..at });
        Ok(())
    }

    fn step_forward(&mut self) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        let count = Page::view(self.window.page(self.page_number(at))).count();
        if at.entry + 1 < count {
            self.at = Some(At { entry: at.entry + 1, ..at });
            return Ok(());
        }
        let heads = self.index(at.segment).heads();
        let next = if at.head + 1 < heads {
            At { head: at.head + 1, entry: 0, ..at }
        } else if at.segment + 1 < self.run.segments().len() {
            At { segment: at.segment + 1, head: 0, entry: 0 }
        } else {
            self.at = None;
            return Ok(());
        };
        self.load(next)?;
        self.at = Some(next);
        Ok(())
    }

    fn step_back(&mut self) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        if at.entry > 0 {
            self.at = Some(At { entry: at.entry - 1, ..at });
            return Ok(());
        }
        if at.head > 0 {
            return self.enter_at_end(at.segment, at.head - 1);
        }
        let Some(segment) = at.segment.checked_sub(1) else {
            self.at = None;
            return Ok(());
        };
        let head = self.run.segments()[segment].index()?.heads() - 1;
        self.enter_at_end(segment, head)
    }

    /// Brings the page of `at` into the window; with its neighbours when the place moves along.
    fn load(&mut self, at: At) -> Result<()> {
        let segment = &self.run.segments()[at.segment];
        let page = segment.index()?.span(at.head).page;
        if self.window.holds(at.segment, page) {
            segment.check_page(page, self.window.page(page))?;
            return Ok(());
        }
        let window = &mut self.window;
        let same = window.segment == at.segment && window.count > 0;
        let end = FIRST_PAGE + segment.meta().footer.pages;
        let (first, count) = if same && page == window.first + window.count {
            (page, READ_AHEAD.min(end - page))
        } else if same && page + 1 == window.first {
            let count = READ_AHEAD.min(page + 1 - FIRST_PAGE);
            (page + 1 - count, count)
        } else {
            (page, 1)
        };
        let length = count as usize * PAGE_BYTES;
        if window.buffer.capacity() < length {
            if let Some(charge) = &window.charge {
                charge.set(length as u64);
            }
            window.buffer = Buffer::new(length);
        }
        window.count = 0;
        let bytes = &mut window.buffer.as_mut_slice()[..length];
        segment.file()?.read_exact_at(page_offset(first), bytes)?;
        (window.segment, window.first, window.count) = (at.segment, first, count);
        segment.check_page(page, window.page(page))?;
        Ok(())
    }
}
