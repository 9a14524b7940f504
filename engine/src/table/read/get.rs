//! The value of one key: the search of `lookup.rs` without what only many keys need.
//!
//! It goes through the same places in the same order, from newest to oldest, borrows them all, and allocates
//! nothing but the value. A page that is not in the cache is read at once: there are no others to wait
//! for together.

use std::sync::Arc;

use super::view::View;
use crate::error::{Error, Result};
use crate::table::buffer::WriteBuffer;
use crate::table::bytes::operator::MergeOperator;
use crate::table::bytes::{EntryKind, EntryRef, PAGE_BYTES, Page, VALUE_BYTES_MAX};
use crate::table::merge::{Input, Shape};
use crate::table::runs::{Run, Segment, page_offset};
use crate::table::shared::{LookupCounts, Named, Operation, Scratch, SegmentStore};
use crate::trace::{self, Action};

/// What a table is at one moment, borrowed.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    pub name: &'a Named,
    pub active: &'a WriteBuffer,
    pub base: Option<&'a Arc<Run>>,
    pub shape: &'a Shape,
    pub operator: Option<&'a MergeOperator>,
    pub store: &'a Arc<SegmentStore>,
}

impl View {
    /// The value of `key`. At most about one page read; the value is all that it allocates. Several keys
    /// are cheaper together, with [`View::lookup`].
    ///
    /// A value of more than 16 MiB, which only [`crate::Session::write_value`] makes, is `Invalid`: find
    /// it with [`View::find`] and read it in pieces with [`crate::Value::read_at`]. `Io`, `Corrupt`,
    /// `Closed`, or `Missing` beside [another process](View).
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.shape.union.is_some() {
            return self.get_of_union(key);
        }
        let View { name, active, base, shape, operator, store } = self;
        let (base, operator) = (base.as_ref(), operator.as_ref());
        Moment { name, active, base, shape, operator, store }.get(key)
    }

    /// The same in an unfinished union.
    pub(in crate::table) fn get_of_union(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = self.find_as(Operation::Get, &[key])?;
        let Some(value) = found.pop().flatten() else { return Ok(None) };
        check_length(value.len())?;
        value.read().map(Some)
    }
}

/// `Invalid` for a value that is too long to be given whole.
fn check_length(length: u64) -> Result<()> {
    if length <= VALUE_BYTES_MAX as u64 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the value has {length} bytes, and get gives one of at most {VALUE_BYTES_MAX} whole: find it with \
         View::find and read it in pieces with Value::read_at"
    )))
}

impl Moment<'_> {
    /// See [`View::get`]. There is no unfinished union.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let answer = |found: &Option<Vec<u8>>| trace::found(found.as_deref());
        let traced = self.name.traced();
        trace::call(traced, Action::Get, |to| to.bytes(key), answer, || self.get_now(key))
    }

    fn get_now(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.store.check_open()?;
        self.store.observe((Operation::Get, self.name), 1, || {
            let mut search = KeySearch {
                moment: *self,
                key,
                hash: self.store.salt.hash(key),
                newer: None,
                found: None,
                scratch: None,
                counts: LookupCounts { keys: 1, ..LookupCounts::default() },
            };
            if !search.search()? {
                search.found = search.newer.take();
            }
            self.store.counters.add_lookup(&search.counts);
            if let Some(scratch) = search.scratch {
                self.store.put_scratch(scratch);
            }
            Ok(search.found)
        })
    }
}

struct KeySearch<'a> {
    moment: Moment<'a>,
    key: &'a [u8],
    hash: u64,
    /// Upserts found so far, joined.
    newer: Option<Vec<u8>>,
    found: Option<Vec<u8>>,
    /// Taken when the first page is read.
    scratch: Option<Scratch>,
    counts: LookupCounts,
}

impl KeySearch<'_> {
    /// Looks everywhere, from newest to oldest, until what the key is bound to is settled; whether it is.
    fn search(&mut self) -> Result<bool> {
        let Moment { active, base, shape, .. } = self.moment;
        if self.in_buffer(active)? || self.in_runs(base, 0)? {
            return Ok(true);
        }
        for sealed in shape.sealed.iter().rev() {
            if self.in_buffer(&sealed.buffer)? || self.in_runs(&sealed.base, 0)? {
                return Ok(true);
            }
        }
        for (number, level) in shape.levels.iter().enumerate() {
            if self.in_runs(&level.runs, number)? {
                return Ok(true);
            }
            let Some(merging) = &level.merging else { continue };
            let state = merging.job.state();
            let boundary = state.boundary.as_deref();
            let is_merged = state.done || boundary.is_none_or(|boundary| self.key <= boundary);
            if is_merged && self.in_runs([&state.outputs], number + 1)? {
                return Ok(true);
            }
            if boundary.is_none_or(|boundary| self.key > boundary) {
                let runs = state.inputs.iter().filter_map(|input| match input {
                    Input::Run(run) => Some(run),
                    Input::Buffer(_) => None,
                });
                if self.in_runs(runs, number)? {
                    return Ok(true);
                }
            }
        }
        self.in_runs(&shape.last, shape.levels.len())
    }

    fn in_buffer(&mut self, buffer: &WriteBuffer) -> Result<bool> {
        match buffer.get(self.key, self.hash) {
            Some(entry) => self.take(entry),
            None => Ok(false),
        }
    }

    fn in_runs<'b>(
        &mut self,
        runs: impl IntoIterator<Item = &'b Arc<Run>>,
        level: usize,
    ) -> Result<bool> {
        for run in runs {
            if self.in_run(run, level)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn in_run(&mut self, run: &Run, level: usize) -> Result<bool> {
        let Some(number) = run.locate(self.key) else { return Ok(false) };
        let segment = &run.segments()[number];
        if let Some(filter) = segment.filter()? {
            let is_ours = segment.salt() == self.moment.store.salt.number();
            let hash = if is_ours { self.hash } else { segment.hash(self.key) };
            let passes = filter.probe(hash);
            self.counts.level(level).probes += 1;
            self.counts.level(level).passes += u64::from(passes);
            if !passes {
                return Ok(false);
            }
        }
        let Some((span, near)) = segment.index()?.find_near(self.key) else { return Ok(false) };
        let number = span.page;
        if let Some(page) = segment.cached().and_then(|cached| cached.get(number)) {
            self.counts.cache_hits += 1;
            return self.in_page(segment, (number, near), &page[..], level);
        }
        self.counts.page_reads += 1;
        let mut scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => self.moment.store.take_scratch()?,
        };
        let mut buffer = scratch.buffer();
        self.scratch = Some(scratch);
        let bytes = &mut buffer.as_mut_slice()[..PAGE_BYTES];
        segment.page_file()?.read_exact_at(page_offset(number), bytes)?;
        segment.check_page(number, bytes)?;
        if let Some(cached) = segment.cached() {
            cached.keep(number, (&*bytes).try_into().expect("one page was read"));
        }
        let is_settled = self.in_page(segment, (number, near), bytes, level)?;
        if let Some(scratch) = &mut self.scratch {
            scratch.give_back(buffer);
        }
        Ok(is_settled)
    }

    /// Takes what a checked page says of the key, looked for first at `near`.
    fn in_page(
        &mut self,
        segment: &Segment,
        (number, near): (u32, u16),
        bytes: &[u8],
        level: usize,
    ) -> Result<bool> {
        let page = Page::view(bytes);
        let Some(entry) = page.find_near(self.key, near) else {
            self.counts.level(level).false_passes += 1;
            return Ok(false);
        };
        if page.overflow() == 0 {
            return self.take(entry);
        }
        self.counts.page_reads += page.overflow() as u64;
        let value = segment.read_large(number, &page)?;
        self.take(EntryRef { value: &value, ..entry })
    }

    /// Takes what a place says of the key; whether that settles it.
    fn take(&mut self, entry: EntryRef<'_>) -> Result<bool> {
        let fetched;
        let (kind, older) = match entry.kind {
            EntryKind::Delete => {
                self.found = self.newer.take();
                return Ok(true);
            }
            EntryKind::Blob => {
                let store = self.moment.store;
                let blob = store.blob(entry.value)?;
                check_length(blob.span.length)?;
                fetched = blob.file.read_whole(&blob.span)?;
                store.counters.add_blobs(std::slice::from_ref(&blob));
                if self.newer.is_none() {
                    self.found = Some(fetched);
                    return Ok(true);
                }
                (EntryKind::Insert, &fetched[..])
            }
            kind => (kind, entry.value),
        };
        let joined = match self.newer.take() {
            None => older.to_vec(),
            Some(newer) => {
                let operator = self.moment.operator.expect("a table with upserts has an operator");
                operator.apply(older, &newer)?
            }
        };
        if kind == EntryKind::Upsert {
            self.newer = Some(joined);
            return Ok(false);
        }
        self.found = Some(joined);
        Ok(true)
    }
}
