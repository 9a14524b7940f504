//! Frames: calls as bytes. Names and times are told within a frame, so each is read by itself.
//!
//! Names are interned with a table of a fixed size that forgets: a name may be told again, which costs its bytes.

use std::ops::Bound;

use super::action::{Action, Answered, Field};
use super::words::Words;
use crate::error::{Error, Result};
use crate::format::checksum::{crc, crc_append, masked};
use crate::format::codec::Decoder;
use crate::format::hash::Salt;

/// Bytes of a frame before its calls.
pub const HEAD: usize = 12;

/// Bytes of calls after which a frame ends.
pub const FRAME_BYTES: usize = 64 * 1024;

/// The most bytes of a frame's calls.
pub const FRAME_BYTES_MAX: usize = 1 << 30;

/// What stands for bytes in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many bytes, or how many things.
    pub length: u64,
    /// The low half of their hash under salt 0.
    pub hash: u32,
}

const SALT: Salt = Salt::new(0);

impl Digest {
    /// Of one value.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest { length: bytes.len() as u64, hash: SALT.hash(bytes) as u32 }
    }

    /// Of several, each of which may be absent.
    pub fn of_all<'a>(all: impl IntoIterator<Item = Option<&'a [u8]>>) -> Digest {
        let mut digest = DigestOfMany::default();
        all.into_iter().for_each(|bytes| digest.add(bytes));
        digest.finish()
    }

    /// Of several, and of something else of each of them.
    #[must_use]
    pub fn with(self, other: Digest) -> Digest {
        Digest { length: self.length, hash: self.hash ^ other.hash.rotate_left(1) }
    }
}

/// The digest of several things, one after the other.
///
/// ```
/// use varvite::trace::{Digest, DigestOfMany};
///
/// let mut many = DigestOfMany::default();
/// many.add(Some(b"a"));
/// many.add(None);
/// assert_eq!(many.finish(), Digest::of_all([Some(&b"a"[..]), None]));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestOfMany {
    length: u64,
    hash: u64,
}

impl DigestOfMany {
    /// Adds one, which may be absent.
    pub fn add(&mut self, bytes: Option<&[u8]>) {
        self.length += 1;
        let own = bytes.map_or(0, |bytes| SALT.hash(bytes) | 1);
        let mut pair = [0; 16];
        pair[..8].copy_from_slice(&self.hash.to_le_bytes());
        pair[8..].copy_from_slice(&own.to_le_bytes());
        self.hash = SALT.hash(&pair);
    }

    /// The digest of all that were added.
    #[must_use]
    pub fn finish(&self) -> Digest {
        Digest { length: self.length, hash: self.hash as u32 }
    }
}

/// What becomes of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyUpdate {
    /// The key has this value.
    Insert(Vec<u8>, Vec<u8>),
    /// The key is absent.
    Delete(Vec<u8>),
    /// The key's value is combined with this one.
    Upsert(Vec<u8>, Vec<u8>),
    /// The key has a value that was written apart, which the trace does not have.
    Large(Vec<u8>),
    /// The keys between two bounds are absent.
    DeleteRange(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A tree, a table or a view.
    Handle(u64),
    /// Steps.
    Path(Vec<Vec<u8>>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A number.
    Number(u64),
    /// The hash of a commit.
    Hash([u8; 32]),
    /// Several keys.
    Keys(Vec<Vec<u8>>),
    /// Paths with values.
    Entries(Vec<(Vec<Vec<u8>>, Vec<u8>)>),
    /// What becomes of keys, in this order.
    Updates(Vec<KeyUpdate>),
    /// Keys between two bounds.
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Nothing,
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(u64),
    /// What was found, if anything was.
    Digest(Option<Digest>),
    /// A hash.
    Hash([u8; 32]),
    /// A new handle; 0 for none.
    Handle(u64),
    /// It failed.
    Failed,
}

/// A call as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was called.
    pub action: Action,
    /// How many calls of the thread it was made in: 0 for those that the host made itself.
    pub depth: u8,
    /// The host's number of the thread.
    pub thread: u64,
    /// When it began, by the host's clock, from the beginning of the recording.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// What it was given.
    pub arguments: Vec<Argument>,
    /// What it gave.
    pub answer: Answer,
}

const DEPTH: u8 = 0x3f;
const FAILED: u8 = 0x40;
const THREAD: u8 = 0x80;

/// Bytes of most calls.
const CALL_BYTES: usize = 128;

/// Slots of the table of names.
const SLOTS: usize = 1 << 11;

/// What a name of up to 16 bytes is told from others by, and most of the longer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    /// The first 8 bytes, little-endian; all of a shorter name.
    first: u64,
    /// The last 8 bytes; as `first` of a shorter name.
    last: u64,
    length: u32,
}

impl Ends {
    #[inline]
    fn of(name: &[u8]) -> Ends {
        let length = name.len();
        let (first, last) = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => {
                let all = short(name);
                (all, all)
            }
        };
        Ends { first, last, length: length as u32 }
    }

    /// The place in the table of names, and more of the hash; which one that is changes no file's meaning.
    #[inline]
    fn slot(&self) -> (usize, u16) {
        let mixed = self.first.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.last.wrapping_mul(0xbf58_476d_1ce4_e5b9)
            ^ u64::from(self.length);
        let hash = mixed.wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash >> 53) as usize, (hash >> 37) as u16)
    }
}

/// All of a name of less than 8 bytes, little-endian.
#[inline]
fn short(name: &[u8]) -> u64 {
    let length = name.len();
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (length - 4));
    }
    name.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A name that was told.
#[derive(Clone, Copy, Debug)]
struct Told {
    ends: Ends,
    /// Where it is in the frame.
    start: u32,
}

/// A frame that is being written: its head's room and its calls.
#[derive(Debug)]
pub struct FrameBuilder {
    pub(super) to: Words,
    pub(super) calls: u32,
    /// For a name's hash its number, plus one, and behind that more of the hash: of most names that are another it
    /// tells without a look at them.
    slots: Box<[(u16, u16); SLOTS]>,
    names: Vec<Told>,
    /// The steps of the path before.
    path: Vec<u32>,
    start_ns: u64,
    thread: u64,
}

impl Default for FrameBuilder {
    fn default() -> Self {
        let mut builder = FrameBuilder {
            to: Words::default(),
            calls: 0,
            slots: Box::new([(0, 0); SLOTS]),
            names: Vec::new(),
            path: Vec::new(),
            start_ns: 0,
            thread: 0,
        };
        builder.clear();
        builder
    }
}

impl FrameBuilder {
    /// Begins the next frame in the same memory.
    pub fn clear(&mut self) {
        self.to.clear();
        self.to.raw(&[0; HEAD]);
        self.calls = 0;
        self.slots.fill((0, 0));
        self.names.clear();
        self.path.clear();
        (self.start_ns, self.thread) = (0, 0);
    }

    /// Whether it is time for the next one.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.to.len() >= HEAD + FRAME_BYTES
    }

    /// Begins a call; arguments and answer follow.
    #[inline]
    pub fn call(&mut self, head: &CallHead, failed: bool) {
        self.calls += 1;
        let other_thread = head.thread != self.thread;
        let flags = head.depth.min(DEPTH)
            | if failed { FAILED } else { 0 }
            | if other_thread { THREAD } else { 0 };
        self.to.word(u64::from(head.action.number()) | u64::from(flags) << 8, 2);
        if other_thread {
            self.thread = head.thread;
            self.to.varint(head.thread);
        }
        let moved = head.start_ns.wrapping_sub(self.start_ns) as i64;
        self.start_ns = head.start_ns;
        self.to.long_varint(((moved << 1) ^ (moved >> 63)) as u64);
        self.to.long_varint(head.duration_ns);
    }

    /// A path, as far as it differs from the one before.
    pub fn path<S: AsRef<[u8]>>(&mut self, path: &[S]) {
        let same = |(step, number): &(&S, &u32)| {
            let step = step.as_ref();
            self.is_told(**number, step, &Ends::of(step))
        };
        let shared = path.iter().zip(&self.path).take_while(same).count();
        self.path.truncate(shared);
        self.to.varints(shared as u64, (path.len() - shared) as u64);
        for step in &path[shared..] {
            self.step(step.as_ref());
        }
    }

    /// Whether the name of a number is `step`, whose ends are `ends`.
    #[inline]
    fn is_told(&self, number: u32, step: &[u8], ends: &Ends) -> bool {
        let told = &self.names[number as usize];
        // Two words have all of a name of 16 bytes.
        told.ends == *ends
            && (step.len() <= 16 || self.to.bytes()[told.start as usize..][..step.len()] == *step)
    }

    #[inline]
    fn step(&mut self, step: &[u8]) {
        let ends = Ends::of(step);
        let (slot, tag) = ends.slot();
        let (number, other) = self.slots[slot];
        let known = u32::from(number).checked_sub(1).filter(|_| other == tag);
        if let Some(known) = known.filter(|known| self.is_told(*known, step, &ends)) {
            self.to.varint(u64::from(number));
            self.path.push(known);
            return;
        }
        let number = self.names.len() as u32;
        self.to.varints(0, step.len() as u64);
        self.to.raw(step);
        self.names.push(Told { ends, start: (self.to.len() - step.len()) as u32 });
        self.path.push(number);
        // Names behind these are told again, too.
        self.slots[slot] = (u16::try_from(number + 1).unwrap_or(0), tag);
    }

    /// An answer of the kind that its action has.
    #[inline]
    pub fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Nothing | Answer::Failed => {}
            Answer::Flag(flag) => self.to.u8(u8::from(*flag)),
            Answer::Number(number) | Answer::Handle(number) => self.to.varint(*number),
            Answer::Digest(None) => self.to.u8(0),
            Answer::Digest(Some(digest)) => {
                self.to.varint(digest.length.saturating_add(1));
                self.to.word(digest.hash.into(), 4);
            }
            Answer::Hash(hash) => self.to.raw(hash),
        }
    }

    /// Asks for the memory of the next call: until it is made the host does something else, and who gives the lock
    /// back waits for what was written.
    #[inline]
    pub fn expect(&self) {
        self.to.expect(CALL_BYTES);
    }

    /// The bytes of the frame, which begins at `offset` of the file `identity`.
    pub fn seal(&mut self, identity: u64, offset: u64) -> &[u8] {
        let calls = self.calls;
        let bytes = self.to.bytes_mut();
        let length = (bytes.len() - HEAD) as u32;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..12].copy_from_slice(&calls.to_le_bytes());
        let checksum = frame_checksum(identity, offset, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// The checksum of a frame's bytes behind it, in the file `identity` at `offset`.
pub fn frame_checksum(identity: u64, offset: u64, rest: &[u8]) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&identity.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    masked(crc_append(crc(&place), rest))
}

/// What every call begins with.
#[derive(Clone, Copy, Debug)]
pub struct CallHead {
    pub action: Action,
    pub depth: u8,
    pub thread: u64,
    pub start_ns: u64,
    pub duration_ns: u64,
}

/// Reads the calls of a frame, one after the other.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// What the frame has, and how much of it was read.
    bytes: Vec<u8>,
    position: usize,
    base: u64,
    calls: u32,
    names: Vec<(usize, usize)>,
    path: Vec<u32>,
    start_ns: u64,
    thread: u64,
}

impl FrameReader {
    /// Of a frame whose calls begin at `base` of the file.
    pub fn new(bytes: Vec<u8>, base: u64, calls: u32) -> FrameReader {
        FrameReader { bytes, base, calls, ..FrameReader::default() }
    }

    /// The next call; none at the end. `Corrupt` for bytes that no recorder writes.
    pub fn next(&mut self, file: &str) -> Result<Option<Call>> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        if self.calls == 0 && rest.is_empty() {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.bytes);
        let at = self.base + self.position as u64;
        let mut from = Decoder::new(file, at, &bytes[self.position..]);
        let call = self.read(&mut from, &bytes);
        self.position = bytes.len() - from.remaining();
        self.bytes = bytes;
        match (call, self.calls) {
            (Ok(_), 0) => Err(Error::corrupt(file, at, "the end of a frame", "another call")),
            (Ok(call), calls) => {
                self.calls = calls - 1;
                Ok(Some(call))
            }
            (Err(error), _) => Err(error),
        }
    }

    fn read(&mut self, from: &mut Decoder<'_>, all: &[u8]) -> Result<Call> {
        let start = from.clone();
        let number = from.u8()?;
        let action =
            Action::of(number).ok_or_else(|| start.corrupt("an action of this version", number))?;
        let flags = from.u8()?;
        if flags & THREAD != 0 {
            self.thread = from.varint()?;
        }
        let moved = from.varint()?;
        let moved = (moved >> 1) as i64 ^ -((moved & 1) as i64);
        self.start_ns = self.start_ns.wrapping_add(moved as u64);
        let duration_ns = from.varint()?;
        let mut arguments = Vec::with_capacity(action.fields().len());
        for field in action.fields() {
            arguments.push(self.argument(*field, from, all)?);
        }
        let failed = flags & FAILED != 0;
        let answer = if failed { Answer::Failed } else { answer(action, from)? };
        let (depth, thread, start_ns) = (flags & DEPTH, self.thread, self.start_ns);
        Ok(Call { action, depth, thread, start_ns, duration_ns, arguments, answer })
    }

    fn argument(&mut self, field: Field, from: &mut Decoder<'_>, all: &[u8]) -> Result<Argument> {
        Ok(match field {
            Field::Handle => Argument::Handle(from.varint()?),
            Field::Number => Argument::Number(from.varint()?),
            Field::Bytes => Argument::Bytes(from.bytes_with_length()?.to_vec()),
            Field::Hash => Argument::Hash(hash(from)?),
            Field::Path => Argument::Path(self.steps(from, all)?),
            Field::Keys => {
                let count = from.count(1)?;
                let keys = (0..count).map(|_| from.bytes_with_length().map(<[u8]>::to_vec));
                Argument::Keys(keys.collect::<Result<_>>()?)
            }
            Field::Entries => {
                let count = from.count(3)?;
                let mut entries = Vec::new();
                for _ in 0..count {
                    let path = self.steps(from, all)?;
                    entries.push((path, from.bytes_with_length()?.to_vec()));
                }
                Argument::Entries(entries)
            }
            Field::Range => Argument::Range(bound(from)?, bound(from)?),
            Field::Updates => {
                let count = from.count(2)?;
                Argument::Updates((0..count).map(|_| update(from)).collect::<Result<_>>()?)
            }
        })
    }

    fn steps(&mut self, from: &mut Decoder<'_>, all: &[u8]) -> Result<Vec<Vec<u8>>> {
        let start = from.clone();
        let shared = from.varint()?;
        if shared > self.path.len() as u64 {
            return Err(start.corrupt(format_args!("{} steps at most", self.path.len()), shared));
        }
        self.path.truncate(shared as usize);
        let count = from.count(1)?;
        for _ in 0..count {
            let start = from.clone();
            let number = match from.varint()?.checked_sub(1) {
                Some(number) if number < self.names.len() as u64 => number as u32,
                Some(number) => {
                    let names = self.names.len();
                    return Err(start.corrupt(format_args!("one of {names} names"), number));
                }
                None => {
                    let name = from.bytes_with_length()?;
                    let end = all.len() - from.remaining();
                    self.names.push((end - name.len(), end));
                    self.names.len() as u32 - 1
                }
            };
            self.path.push(number);
        }
        let name = |number: &u32| {
            let (start, end) = self.names[*number as usize];
            all[start..end].to_vec()
        };
        Ok(self.path.iter().map(name).collect())
    }
}

fn hash(from: &mut Decoder<'_>) -> Result<[u8; 32]> {
    Ok(from.raw(32)?.try_into().expect("raw gives as many bytes as are asked for"))
}

fn update(from: &mut Decoder<'_>) -> Result<KeyUpdate> {
    let start = from.clone();
    let bytes = |from: &mut Decoder<'_>| from.bytes_with_length().map(<[u8]>::to_vec);
    Ok(match from.u8()? {
        0 => KeyUpdate::Insert(bytes(from)?, bytes(from)?),
        1 => KeyUpdate::Delete(bytes(from)?),
        2 => KeyUpdate::Upsert(bytes(from)?, bytes(from)?),
        3 => {
            let key = bytes(from)?;
            from.bytes_with_length()?;
            KeyUpdate::Large(key)
        }
        4 => KeyUpdate::DeleteRange(bound(from)?, bound(from)?),
        other => return Err(start.corrupt("an update from 0 to 4", other)),
    })
}

fn bound(from: &mut Decoder<'_>) -> Result<Bound<Vec<u8>>> {
    let start = from.clone();
    let kind = from.u8()?;
    let key = |from: &mut Decoder<'_>| from.bytes_with_length().map(<[u8]>::to_vec);
    match kind {
        0 => Ok(Bound::Unbounded),
        1 => key(from).map(Bound::Included),
        2 => key(from).map(Bound::Excluded),
        other => Err(start.corrupt("a bound from 0 to 2", other)),
    }
}

fn answer(action: Action, from: &mut Decoder<'_>) -> Result<Answer> {
    let start = from.clone();
    Ok(match action.answered() {
        Answered::Nothing => Answer::Nothing,
        Answered::Flag => match from.u8()? {
            0 => Answer::Flag(false),
            1 => Answer::Flag(true),
            other => return Err(start.corrupt("yes or no", other)),
        },
        Answered::Number => Answer::Number(from.varint()?),
        Answered::Handle => Answer::Handle(from.varint()?),
        Answered::Hash => Answer::Hash(hash(from)?),
        Answered::Digest => match from.varint()?.checked_sub(1) {
            None => Answer::Digest(None),
            Some(length) => Answer::Digest(Some(Digest { length, hash: from.u32()? })),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        for length in 0..40 {
            names.push(vec![b'n'; length]);
            // Each with one byte that is another: at the ends, and where only a look at all of it tells.
            for place in 0..length {
                let mut name = vec![b'n'; length];
                name[place] = b'o';
                names.push(name);
            }
        }
        names
    }

    #[test]
    fn names_that_are_alike_are_told_apart() {
        let mut builder = FrameBuilder::default();
        let head = |start_ns| CallHead {
            action: Action::Mem,
            depth: 0,
            thread: 0,
            start_ns,
            duration_ns: 1 << 40,
        };
        let names = names();
        let paths: Vec<Vec<&[u8]>> = (0..2000)
            .map(|number| {
                let name = |at: usize| &*names[at % names.len()];
                vec![name(number), name(number / 2), b"n", name(number * 7)]
            })
            .collect();
        for (number, path) in paths.iter().enumerate() {
            builder.call(&head(number as u64 * 200), false);
            builder.to.varint(number as u64);
            builder.path(path);
            builder.answer(&Answer::Flag(true));
        }
        let bytes = builder.seal(0, 0).to_vec();
        // Not by those that were told before them.
        assert!(bytes.len() < 2000 * 70, "{}", bytes.len());
        let mut reader = FrameReader::new(bytes[HEAD..].to_vec(), 0, paths.len() as u32);
        for (number, path) in paths.iter().enumerate() {
            let call = reader.next("a trace").unwrap().unwrap();
            let expected = path.iter().map(|step| step.to_vec()).collect();
            assert_eq!(call.arguments[1], Argument::Path(expected), "{number}");
            assert_eq!((call.start_ns, call.duration_ns), (number as u64 * 200, 1 << 40));
        }
        assert!(reader.next("a trace").unwrap().is_none());
    }
}
