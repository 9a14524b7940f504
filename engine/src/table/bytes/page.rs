//! A page: 4,096 bytes of entries in key order, built in place and viewed without copying.
//!
//! An entry that does not fit an empty page goes on in raw overflow pages behind it. An entry may
//! leave out the start of its key, which the **head** of its group has: an entry before it that does
//! not leave out any. So a key is two pieces at most, and a search looks at no other entry. A page is
//! checked once, when it is read from disk: [`Page::check`] proves every offset in it, so that a
//! view of checked bytes reads without further checks. Invariant: keys ascend strictly.
//!
//! Format document: `docs/format/page.md`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use super::entry::{EntryKind, EntryRef, common_prefix, prefix};
use crate::error::{Error, Result};
use crate::format::checksum::page_crc;
use crate::prefetch;

/// The length of a page in bytes.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a page before its checksum; an overflow page holds this many bytes of a value.
pub const BODY_BYTES: usize = PAGE_BYTES - 4;

const HEADER_BYTES: usize = 8;
const SLOT_BYTES: usize = 2;
const KIND_SHIFT: u32 = 14;
/// In a slot: the entry leaves out the start of its key.
const SHARES: usize = 1 << 13;
const OFFSET_MASK: usize = SHARES - 1;
/// In the count of entries: some share.
const SOME_SHARE: usize = 1 << 15;
/// Bytes in front of what is left of a key: how far back the head is, and how many bytes are its.
const SHARE_BYTES: usize = 2;
/// The fewest bytes of a key that are shared. So the first eight of both keys are the same.
const SHARED_MIN: usize = 8;
/// What fits the byte that says how many bytes are shared, and the one that says how far back.
const SHARED_MAX: usize = 255;

/// Bytes of the value of an entry whose value is in a blob file.
const REFERENCE_BYTES: usize = 24;

/// In place of the common key length when keys differ in length.
const VARIABLE: usize = 0xffff;

#[inline]
fn get(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

#[inline]
fn put(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

/// How many overflow pages an entry needs behind its head page.
#[must_use]
pub fn overflow_pages(key_bytes: usize, value_bytes: usize) -> usize {
    (HEADER_BYTES + SLOT_BYTES + key_bytes + value_bytes)
        .saturating_sub(BODY_BYTES)
        .div_ceil(BODY_BYTES)
}

/// Writes the checksum into the last four bytes of a page.
pub fn seal(page: &mut [u8], identity: u64, page_number: u32) {
    let crc = page_crc(identity, page_number, &page[..BODY_BYTES]);
    page[BODY_BYTES..PAGE_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Checks the checksum of a page of any sort; `Corrupt` when it is wrong. `page_number` is the
/// page's place in the file, in pages.
pub fn check_seal(file: &str, page_number: u32, identity: u64, page: &[u8]) -> Result<()> {
    if page.len() != PAGE_BYTES {
        let offset = u64::from(page_number) * PAGE_BYTES as u64;
        let found = format!("{} bytes", page.len());
        return Err(Error::corrupt(file, offset, "a page of 4096 bytes", found));
    }
    let expected = page_crc(identity, page_number, &page[..BODY_BYTES]);
    let found =
        u32::from_le_bytes(page[BODY_BYTES..PAGE_BYTES].try_into().expect("four bytes are left"));
    if expected == found {
        return Ok(());
    }
    Err(Error::corrupt(
        file,
        u64::from(page_number) * PAGE_BYTES as u64 + BODY_BYTES as u64,
        format_args!("page checksum {expected:08x}"),
        format_args!("{found:08x}"),
    ))
}

/// Builds one page after another, each in 4,096 bytes of the caller's.
///
/// Entries are written once, behind room for as many slots as the page before had; with entries of
/// one size nothing ever moves.
#[derive(Debug, Default)]
pub struct PageBuilder {
    count: usize,
    /// Length of every key so far, or `VARIABLE`.
    key_bytes: usize,
    /// Room for slots in front of the entries.
    room: usize,
    /// Bytes of entries.
    data: usize,
    /// The last entry that does not share: its first bytes, its number, and its key among the data.
    head: GroupHead,
    /// How much the entries behind it share with it; 0 while there are none.
    group: usize,
    /// What the last entry left of its key, among the data, if it shares.
    rest: Option<Range<usize>>,
    /// Whether any entry shares.
    shares: bool,
}

#[derive(Debug, Default)]
struct GroupHead {
    word: u64,
    number: usize,
    key: Range<usize>,
}

impl PageBuilder {
    /// A builder of an empty page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries the page holds.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Where in the page its entries end so far.
    #[inline]
    #[must_use]
    pub fn end(&self) -> usize {
        self.start() + self.data
    }

    /// Whether the entry that was added last left out the start of its key.
    #[inline]
    #[must_use]
    pub fn last_shares(&self) -> bool {
        self.rest.is_some()
    }

    #[inline]
    fn start(&self) -> usize {
        HEADER_BYTES + self.room * SLOT_BYTES
    }

    /// Moves the entries so that there is room for `room` slots.
    #[cold]
    fn make_room(&mut self, page: &mut [u8], room: usize) {
        let start = self.start();
        page.copy_within(start..start + self.data, HEADER_BYTES + room * SLOT_BYTES);
        self.room = room;
    }

    /// Appends an entry to `page`, or returns false when it has no room left for it.
    #[inline]
    pub fn add(&mut self, page: &mut [u8], entry: EntryRef<'_>) -> bool {
        let page: &mut [u8; PAGE_BYTES] = page.try_into().expect("a page is 4,096 bytes");
        if self.count == 0 {
            self.key_bytes = entry.key.len();
        } else if self.key_bytes != entry.key.len()
            && self.key_bytes != VARIABLE
            && !self.widen(page, entry)
        {
            return false;
        }
        let word = prefix(entry.key);
        if self.count > 0 && word == self.head.word {
            let shared = self.shared(page, entry.key);
            if shared > 0 {
                return self.add_sharing(page, entry, shared);
            }
        }
        let frame = if self.key_bytes == VARIABLE { 2 } else { 0 };
        let Some(at) = self.place(page, frame + entry.key.len() + entry.value.len()) else {
            return false;
        };
        let slot = (entry.kind as usize) << KIND_SHIFT | self.data;
        put(page, HEADER_BYTES + self.count * SLOT_BYTES, slot);
        if frame > 0 {
            put(page, at, entry.key.len());
        }
        let (key, value) = page[at + frame..at + frame + entry.key.len() + entry.value.len()]
            .split_at_mut(entry.key.len());
        key.copy_from_slice(entry.key);
        value.copy_from_slice(entry.value);
        let key = self.data + frame..self.data + frame + entry.key.len();
        self.head = GroupHead { word, number: self.count, key };
        (self.group, self.rest) = (0, None);
        self.data += frame + entry.key.len() + entry.value.len();
        self.count += 1;
        true
    }

    /// Makes room for an entry of `size` bytes and its slot; says where it begins.
    #[inline]
    fn place(&mut self, page: &mut [u8; PAGE_BYTES], size: usize) -> Option<usize> {
        if HEADER_BYTES + (self.count + 1) * SLOT_BYTES + self.data + size > BODY_BYTES {
            return None;
        }
        if self.count == self.room || self.start() + self.data + size > BODY_BYTES {
            let spare = BODY_BYTES - HEADER_BYTES - self.data - size;
            self.make_room(page, (self.count + 16).min(spare / SLOT_BYTES));
        }
        Some(self.start() + self.data)
    }

    /// How many bytes of `key`, the first of which are those of the head, it shares with the head: as
    /// many as others do. 0 when it is to be stored whole, as the next head.
    fn shared(&self, page: &[u8; PAGE_BYTES], key: &[u8]) -> usize {
        let data = &page[self.start()..self.end()];
        let head = &data[self.head.key.clone()];
        let shared = common_prefix(head, key).min(SHARED_MAX);
        let is_near = self.count - self.head.number <= SHARED_MAX;
        if shared < SHARED_MIN || !is_near || (self.group > 0 && shared != self.group) {
            return 0;
        }
        // Who comes next may be nearer to this one than to the head.
        let rest = self.rest.clone().map_or(&[][..], |rest| &data[rest]);
        let is_nearer = common_prefix(rest, &key[shared..]) >= SHARED_MIN;
        if is_nearer && shared < SHARED_MAX { 0 } else { shared }
    }

    /// Appends an entry without the first `shared` bytes of its key.
    fn add_sharing(
        &mut self,
        page: &mut [u8; PAGE_BYTES],
        entry: EntryRef<'_>,
        shared: usize,
    ) -> bool {
        let frame = if self.key_bytes == VARIABLE { 2 } else { 0 };
        let rest = &entry.key[shared..];
        let size = frame + SHARE_BYTES + rest.len() + entry.value.len();
        let Some(at) = self.place(page, size) else { return false };
        let slot = (entry.kind as usize) << KIND_SHIFT | SHARES | self.data;
        put(page, HEADER_BYTES + self.count * SLOT_BYTES, slot);
        if frame > 0 {
            put(page, at, entry.key.len());
        }
        let bytes = &mut page[at + frame..at + size];
        (bytes[0], bytes[1]) = ((self.count - self.head.number) as u8, shared as u8);
        let (key, value) = bytes[SHARE_BYTES..].split_at_mut(rest.len());
        key.copy_from_slice(rest);
        value.copy_from_slice(entry.value);
        let start = self.data + frame + SHARE_BYTES;
        (self.group, self.rest) = (shared, Some(start..start + rest.len()));
        self.shares = true;
        self.data += size;
        self.count += 1;
        true
    }

    /// Gives every entry its key length, once, when a key of another length arrives; false when the
    /// page has no room for that and for the new entry.
    #[cold]
    fn widen(&mut self, page: &mut [u8; PAGE_BYTES], entry: EntryRef<'_>) -> bool {
        let grown = self.data + 2 * self.count;
        let size = 2 + entry.key.len() + entry.value.len();
        if HEADER_BYTES + (self.count + 1) * SLOT_BYTES + grown + size > BODY_BYTES {
            return false;
        }
        let old = *page;
        let old_start = self.start();
        let mut end = self.data;
        self.room = self.count + 1;
        for i in (0..self.count).rev() {
            let slot = get(&old, HEADER_BYTES + i * SLOT_BYTES);
            let from = slot & OFFSET_MASK;
            let to = self.start() + from + 2 * i;
            put(page, to, self.key_bytes);
            page[to + 2..to + 2 + end - from]
                .copy_from_slice(&old[old_start + from..old_start + end]);
            put(page, HEADER_BYTES + i * SLOT_BYTES, slot + 2 * i);
            end = from;
        }
        let moved = |place: &mut Range<usize>, number: usize| {
            *place = place.start + 2 * (number + 1)..place.end + 2 * (number + 1);
        };
        moved(&mut self.head.key, self.head.number);
        if let Some(rest) = &mut self.rest {
            moved(rest, self.count - 1);
        }
        self.data = grown;
        self.key_bytes = VARIABLE;
        true
    }

    /// Completes `page` with its checksum and begins an empty one.
    pub fn finish(&mut self, page: &mut [u8], identity: u64, page_number: u32) {
        assert!(self.count > 0, "a page holds at least one entry");
        if self.room != self.count {
            self.make_room(page, self.count);
        }
        let end = self.start() + self.data;
        page[end..BODY_BYTES].fill(0);
        self.frame(page, end, 0);
        seal(page, identity, page_number);
    }

    fn frame(&mut self, page: &mut [u8], end: usize, overflow: usize) {
        put(page, 0, self.count | if self.shares { SOME_SHARE } else { 0 });
        put(page, 2, self.key_bytes);
        put(page, 4, end);
        put(page, 6, overflow);
        self.room = self.count;
        (self.count, self.data) = (0, 0);
        (self.group, self.rest, self.shares) = (0, None, false);
    }

    /// Fills `page` with the head of an entry that no page can hold and returns the rest of its
    /// value, which goes to overflow pages through [`fill_overflow`]. The page must be empty.
    pub fn finish_large<'a>(
        &mut self,
        page: &mut [u8],
        entry: EntryRef<'a>,
        identity: u64,
        page_number: u32,
    ) -> &'a [u8] {
        assert!(self.count == 0, "a large entry has its page to itself");
        let overflow = overflow_pages(entry.key.len(), entry.value.len());
        assert!(overflow > 0 && u16::try_from(overflow).is_ok(), "{overflow} overflow pages");
        let start = HEADER_BYTES + SLOT_BYTES;
        let (head, rest) = entry.value.split_at(BODY_BYTES - start - entry.key.len());
        let (key, value) = page[start..BODY_BYTES].split_at_mut(entry.key.len());
        key.copy_from_slice(entry.key);
        value.copy_from_slice(head);
        put(page, HEADER_BYTES, (entry.kind as usize) << KIND_SHIFT);
        self.count = 1;
        self.key_bytes = entry.key.len();
        self.frame(page, rest.len() - (overflow - 1) * BODY_BYTES, overflow);
        seal(page, identity, page_number);
        rest
    }
}

/// Fills an overflow page with the start of `rest` and returns what is left.
pub fn fill_overflow<'a>(
    page: &mut [u8],
    rest: &'a [u8],
    identity: u64,
    page_number: u32,
) -> &'a [u8] {
    let (now, later) = rest.split_at(rest.len().min(BODY_BYTES));
    page[..now.len()].copy_from_slice(now);
    page[now.len()..BODY_BYTES].fill(0);
    seal(page, identity, page_number);
    later
}

/// A view of a checked page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    bytes: &'a [u8; PAGE_BYTES],
    count: usize,
    key_bytes: usize,
    start: usize,
    end: usize,
    overflow: usize,
    /// Whether any entry leaves out the start of its key.
    shares: bool,
}

impl<'a> Page<'a> {
    /// Checks a page that was read from page `page_number` of `file` and views it. Checksum, then
    /// every offset: `Corrupt` when something is off.
    pub fn check(file: &str, page_number: u32, identity: u64, bytes: &'a [u8]) -> Result<Self> {
        check_seal(file, page_number, identity, bytes)?;
        let page = Self::view(bytes);
        page.check_shape().map_err(|(at, expected)| {
            let offset = u64::from(page_number) * PAGE_BYTES as u64 + at as u64;
            Error::corrupt(file, offset, expected, get(bytes, at.min(PAGE_BYTES - 2)))
        })?;
        Ok(page)
    }

    /// Views bytes that [`Page::check`] accepted before. Other bytes may panic in later calls.
    #[inline]
    #[must_use]
    pub fn view(bytes: &'a [u8]) -> Self {
        let bytes: &[u8; PAGE_BYTES] = bytes.try_into().expect("a page is 4,096 bytes");
        let count = get(bytes, 0) & (SOME_SHARE - 1);
        let overflow = get(bytes, 6);
        Page {
            bytes,
            count,
            key_bytes: get(bytes, 2),
            start: HEADER_BYTES + count * SLOT_BYTES,
            end: if overflow == 0 { get(bytes, 4) } else { BODY_BYTES },
            overflow,
            shares: get(bytes, 0) & SOME_SHARE != 0,
        }
    }

    /// Where in the page the first wrong value is, and what was expected there.
    fn check_shape(&self) -> std::result::Result<(), (usize, &'static str)> {
        let overflowing = self.overflow > 0;
        if self.count == 0 || self.start > BODY_BYTES || (overflowing && self.count != 1) {
            return Err((0, "a count of entries that fits the page"));
        }
        let used = get(self.bytes, 4);
        if used > BODY_BYTES || self.end < self.start || (overflowing && used == 0) {
            return Err((4, "an end of data inside the page"));
        }
        // Keys ascend strictly, so one of them at most is empty.
        if (self.key_bytes == 0 && self.count != 1) || (overflowing && self.key_bytes == VARIABLE) {
            return Err((2, "a key length"));
        }
        if self.offset(0) != 0 || self.slot(0) & SHARES != 0 {
            return Err((HEADER_BYTES, "a first entry behind the slots, with its whole key"));
        }
        let data = self.end - self.start;
        let mut some_share = false;
        for i in 0..self.count {
            let at = HEADER_BYTES + i * SLOT_BYTES;
            let from = self.offset(i);
            let to = if i + 1 < self.count { self.offset(i + 1) } else { data };
            if to > data || from > to {
                return Err((at, "an entry inside the page"));
            }
            let frame = if self.key_bytes == VARIABLE { 2 } else { 0 };
            if from + frame > to {
                return Err((at, "an entry with room for its key"));
            }
            let key_bytes = self.length(i);
            let mut key_end = from + frame + key_bytes;
            if self.slot(i) & SHARES != 0 {
                some_share = true;
                let shared = self.check_share(i, from + frame, to, key_bytes)?;
                key_end = key_end + SHARE_BYTES - shared;
            }
            if key_end > to {
                return Err((at, "an entry with room for its key"));
            }
            let is_blob = self.slot(i) >> KIND_SHIFT == EntryKind::Blob as usize;
            if is_blob && (overflowing || to - key_end != REFERENCE_BYTES) {
                return Err((at, "a blob with a reference of 24 bytes"));
            }
            if key_bytes == 0 && i > 0 {
                return Err((self.start + from, "a key length"));
            }
        }
        if some_share == self.shares {
            return Ok(());
        }
        Err((0, "a count that says whether entries share"))
    }

    /// Checks what stands at `at` among the data: where the start of a key of `key_bytes` is that entry
    /// `i` leaves out. Gives its length.
    fn check_share(
        &self,
        i: usize,
        at: usize,
        to: usize,
        key_bytes: usize,
    ) -> std::result::Result<usize, (usize, &'static str)> {
        if at + SHARE_BYTES > to {
            return Err((HEADER_BYTES + i * SLOT_BYTES, "an entry with room for its key"));
        }
        let bytes = &self.bytes[self.start + at..];
        let (back, shared) = (usize::from(bytes[0]), usize::from(bytes[1]));
        // The head was checked before, since it comes before.
        let head = i.checked_sub(back).filter(|&head| back > 0 && self.slot(head) & SHARES == 0);
        let Some(head) = head else {
            return Err((self.start + at, "an entry before it that has its whole key"));
        };
        if shared < SHARED_MIN || shared > key_bytes || shared > self.length(head) {
            return Err((self.start + at, "8 bytes or more that both keys have"));
        }
        Ok(shared)
    }

    /// How many entries the page holds, at least 1.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many overflow pages follow; then the page has one entry.
    #[inline]
    #[must_use]
    pub fn overflow(&self) -> usize {
        self.overflow
    }

    /// The length of every key, or `None` when they differ.
    #[must_use]
    pub fn key_bytes(&self) -> Option<usize> {
        (self.key_bytes != VARIABLE).then_some(self.key_bytes)
    }

    /// The length of the value of a page's only entry, overflow pages included.
    #[must_use]
    pub fn large_value_bytes(&self) -> usize {
        assert!(self.overflow > 0, "only a large entry has overflow pages");
        let here = self.end - self.start - self.key_bytes;
        here + (self.overflow - 1) * BODY_BYTES + get(self.bytes, 4)
    }

    #[inline]
    fn slot(&self, i: usize) -> usize {
        get(self.bytes, HEADER_BYTES + i * SLOT_BYTES)
    }

    #[inline]
    fn offset(&self, i: usize) -> usize {
        self.slot(i) & OFFSET_MASK
    }

    /// The length of the key of entry `i`.
    #[inline]
    fn length(&self, i: usize) -> usize {
        if self.key_bytes == VARIABLE {
            get(self.bytes, self.start + self.offset(i))
        } else {
            self.key_bytes
        }
    }

    /// Whether any entry leaves out the start of its key.
    #[inline]
    #[must_use]
    pub fn shares(&self) -> bool {
        self.shares
    }

    /// Where in the page the key and the value of entry `i` lie, as (key start, key end, value end). Of a
    /// key that shares, only what [`Page::start_of`] leaves.
    #[inline]
    #[must_use]
    pub fn place(&self, i: usize) -> (usize, usize, usize) {
        let from = self.start + self.offset(i);
        let to = if i + 1 < self.count { self.start + self.offset(i + 1) } else { self.end };
        let (from, key_bytes) = if self.key_bytes == VARIABLE {
            (from + 2, get(self.bytes, from))
        } else {
            (from, self.key_bytes)
        };
        if self.shares && self.slot(i) & SHARES != 0 {
            let shared = usize::from(self.bytes[from + 1]);
            return (from + SHARE_BYTES, from + SHARE_BYTES + key_bytes - shared, to);
        }
        (from, from + key_bytes, to)
    }

    /// What the key of entry `i` leaves out: the start of its head's key. Empty if it does not share.
    #[inline]
    #[must_use]
    pub fn start_of(&self, i: usize) -> &'a [u8] {
        if !self.shares || self.slot(i) & SHARES == 0 {
            return &[];
        }
        let frame = if self.key_bytes == VARIABLE { 2 } else { 0 };
        let at = self.start + self.offset(i) + frame;
        let (back, shared) = (usize::from(self.bytes[at]), usize::from(self.bytes[at + 1]));
        let head = self.start + self.offset(i - back) + frame;
        &self.bytes[head..head + shared]
    }

    /// What entry `i` does.
    #[inline]
    #[must_use]
    pub fn kind(&self, i: usize) -> EntryKind {
        EntryKind::from_bits((self.slot(i) >> KIND_SHIFT) as u16)
            .expect("a checked page has only known kinds")
    }

    /// The key of entry `i`.
    #[inline]
    #[must_use]
    pub fn key(&self, i: usize) -> Cow<'a, [u8]> {
        let (from, to, _) = self.place(i);
        match self.start_of(i) {
            [] => Cow::Borrowed(&self.bytes[from..to]),
            start => Cow::Owned([start, &self.bytes[from..to]].concat()),
        }
    }

    /// The value of entry `i`. With overflow pages it is only what lies in this page.
    #[inline]
    #[must_use]
    pub fn value(&self, i: usize) -> &'a [u8] {
        assert!(i < self.count, "entry {i} of {}", self.count);
        let (_, middle, to) = self.place(i);
        &self.bytes[middle..to]
    }

    /// Entry `i`, whose key is `key`.
    #[inline]
    fn found<'b>(&self, i: usize, key: &'b [u8]) -> EntryRef<'b>
    where
        'a: 'b,
    {
        EntryRef { kind: self.kind(i), key, value: self.value(i) }
    }

    /// The number of the first entry whose key is not below `key`; the count when there is none.
    #[inline]
    #[must_use]
    pub fn seek(&self, key: &[u8]) -> usize {
        self.search(key).unwrap_or_else(|i| i)
    }

    /// The entry with this key.
    #[inline]
    #[must_use]
    pub fn find<'b>(&self, key: &'b [u8]) -> Option<EntryRef<'b>>
    where
        'a: 'b,
    {
        self.search(key).ok().map(|i| self.found(i, key))
    }

    /// The entry with this key, looked for first where `near` of 65,536 parts of the page lie before.
    #[inline]
    #[must_use]
    pub fn find_near<'b>(&self, key: &'b [u8], near: u16) -> Option<EntryRef<'b>>
    where
        'a: 'b,
    {
        let wanted = prefix(key);
        let guess = (self.count * usize::from(near)) >> 16;
        let (mut low, mut high) = (0, self.count);
        // Brackets the key by steps that double, away from the guess.
        match self.compare(guess, wanted, key) {
            Ordering::Equal => return Some(self.found(guess, key)),
            Ordering::Less => {
                low = guess + 1;
                let mut step = 1;
                while low + step - 1 < self.count {
                    match self.compare(low + step - 1, wanted, key) {
                        Ordering::Equal => return Some(self.found(low + step - 1, key)),
                        Ordering::Greater => {
                            high = low + step - 1;
                            break;
                        }
                        Ordering::Less => low += step,
                    }
                    step *= 2;
                }
            }
            Ordering::Greater => {
                high = guess;
                let mut step = 1;
                while high >= step {
                    match self.compare(high - step, wanted, key) {
                        Ordering::Equal => return Some(self.found(high - step, key)),
                        Ordering::Less => {
                            low = high - step + 1;
                            break;
                        }
                        Ordering::Greater => high -= step,
                    }
                    step *= 2;
                }
            }
        }
        self.search_between(low, high, wanted, key).ok().map(|i| self.found(i, key))
    }

    /// Asks for the lines that [`Page::find_near`] looks at first.
    #[inline]
    pub fn prefetch(bytes: &[u8], near: u16) {
        const SLOTS_BYTES: usize = 128;
        prefetch::lines(bytes, 0, SLOTS_BYTES);
        let guess = SLOTS_BYTES + (((BODY_BYTES - SLOTS_BYTES) * usize::from(near)) >> 16);
        prefetch::lines(bytes, guess.saturating_sub(SLOTS_BYTES) & !63, 4 * 64);
    }

    /// How entry `i` compares with the key, whose first eight bytes are `wanted`.
    #[inline]
    fn compare(&self, i: usize, wanted: u64, key: &[u8]) -> Ordering {
        if self.shares {
            return self.compare_pieces(i, wanted, key);
        }
        let here = if self.key_bytes != VARIABLE && self.key_bytes >= 8 {
            let at = self.start + self.offset(i);
            prefix(&self.bytes[at..at + 8])
        } else {
            prefix(self.whole(i))
        };
        here.cmp(&wanted).then_with(|| self.whole(i).cmp(key))
    }

    /// The key of an entry that does not share.
    #[inline]
    fn whole(&self, i: usize) -> &'a [u8] {
        let (from, to, _) = self.place(i);
        &self.bytes[from..to]
    }

    /// The same in a page with entries that share.
    #[inline]
    fn compare_pieces(&self, i: usize, wanted: u64, key: &[u8]) -> Ordering {
        if self.slot(i) & SHARES == 0 {
            let whole = self.whole(i);
            return prefix(whole).cmp(&wanted).then_with(|| whole.cmp(key));
        }
        // What is shared has eight bytes at least, which mostly decide.
        let start = self.start_of(i);
        prefix(start).cmp(&wanted).then_with(|| {
            let (key_start, key_rest) = key.split_at(key.len().min(start.len()));
            start.cmp(key_start).then_with(|| self.whole(i).cmp(key_rest))
        })
    }

    /// The number of the entry with this key, or that of the first one above it.
    #[inline]
    pub fn search(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        self.search_between(0, self.count, prefix(key), key)
    }

    /// Searches entries `low..high`; those before are below the key, those from `high` on above it.
    #[inline]
    fn search_between(
        &self,
        mut low: usize,
        high: usize,
        wanted: u64,
        key: &[u8],
    ) -> std::result::Result<usize, usize> {
        let mut size = high - low;
        while size > 0 {
            let middle = low + size / 2;
            match self.compare(middle, wanted, key) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => {
                    size -= size / 2 + 1;
                    low = middle + 1;
                }
                Ordering::Greater => size /= 2,
            }
        }
        Err(low)
    }
}
