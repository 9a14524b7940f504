//! Frames that are written.
//!
//! A path is told by what differs from the last one of as many steps. Names are interned with a table of a fixed size
//! that forgets: a name may be told again, which costs its bytes.

use super::frame::{
    Answer, CallHead, DEPTH, FAILED, HEAD, NUMBERED, STEPS, THREAD, frame_checksum, others_bytes,
    zigzag,
};
use super::words::Words;

/// Frames of recorders end where the file has a multiple of these bytes: the system writes whole pages for half of what
/// it takes to write to the middle of one.
pub const UNIT: u64 = 64 * 1024;

/// Bytes up to such a place that are left empty, rather than that a call goes beyond.
pub const SPARE: usize = 128;

/// Bytes after which a frame ends wherever it is, as when its calls are as long.
pub const LONG: usize = 2 * UNIT as usize;

/// Bytes of most calls.
const CALL_BYTES: usize = 128;

/// Slots of the table of names.
const SLOTS: usize = 1 << 11;

/// What a name of up to 16 bytes is told from others by, and most of the longer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let (first, last) =
            if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
                (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
            } else {
                let all = short(name);
                (all, all)
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
    match *name {
        [] => 0,
        [one] => one.into(),
        [one, two] => u16::from_le_bytes([one, two]).into(),
        [one, two, three, ..] => u32::from_le_bytes([one, two, three, 0]).into(),
    }
}

/// A name that was told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    ends: Ends,
    /// Where it is in the frame.
    start: u32,
}

/// Whether a name that was told in `to` is `step`, whose ends are `ends`.
#[inline]
fn is_told(to: &Words, told: &Told, step: &[u8], ends: &Ends) -> bool {
    // One branch for the three: mostly all are the same, or some step is another.
    let others = (told.ends.first ^ ends.first)
        | (told.ends.last ^ ends.last)
        | u64::from(told.ends.length ^ ends.length);
    // Two words have all of a name of 16 bytes.
    others == 0 && (step.len() <= 16 || to.bytes()[told.start as usize..][..step.len()] == *step)
}

/// Names that were told and have numbers.
#[derive(Debug)]
struct Names {
    /// For a name's hash its number, plus one, and behind that more of the hash: of most names that are another it
    /// tells without a look at them.
    slots: Box<[(u16, u16); SLOTS]>,
    told: Vec<Told>,
}

impl Names {
    fn clear(&mut self) {
        self.slots.fill((0, 0));
        self.told.clear();
    }

    /// Tells a step, whose ends are `ends`. Mostly one or two of a path's are told: those that are not have the registers.
    #[inline(never)]
    fn step(&mut self, to: &mut Words, step: &[u8], ends: Ends) -> Told {
        let length = step.len();
        if length < NUMBERED {
            to.word((length as u64) << 1 | ends.first << 8, 1 + length);
            return Told { ends, start: 0 };
        }
        let (slot, tag) = ends.slot();
        let (number, other) = self.slots[slot];
        if number > 0 && other == tag {
            let number = u64::from(number) - 1;
            let told = self.told[number as usize];
            if is_told(to, &told, step, &ends) {
                to.varint(number << 1 | 1);
                return told;
            }
        }
        to.varint((length as u64) << 1);
        let told = Told { ends, start: to.len() as u32 };
        to.raw(step);
        self.told.push(told);
        // Names behind these are told again, too.
        self.slots[slot] = (u16::try_from(self.told.len()).unwrap_or(0), tag);
        told
    }
}

/// The steps of the last path of a number of steps; where there was none, of a length that no step has.
type Last = [Told; STEPS];

/// No step: nothing is as long.
const NONE: Told = Told { ends: Ends { first: 0, last: 0, length: u32::MAX }, start: 0 };

/// A frame that is being written: its head's room and its calls.
#[derive(Debug)]
pub struct FrameBuilder {
    pub(super) to: Words,
    pub(super) calls: u32,
    /// At this length it is looked at whether the frame is full.
    due: usize,
    names: Names,
    /// Paths, by how many steps they have.
    paths: Box<[Last; STEPS]>,
    handle: u64,
    start_ns: u64,
    thread: u64,
}

impl FrameBuilder {
    /// A frame that will be at `offset` of its file.
    pub fn new(offset: u64) -> FrameBuilder {
        let mut builder = FrameBuilder {
            to: Words::default(),
            calls: 0,
            due: 0,
            names: Names { slots: Box::new([(0, 0); SLOTS]), told: Vec::new() },
            paths: Box::new([[NONE; STEPS]; STEPS]),
            handle: 0,
            start_ns: 0,
            thread: 0,
        };
        builder.clear(offset);
        builder
    }

    /// Begins the next frame in the same memory, which will be at `offset`.
    pub fn clear(&mut self, offset: u64) {
        self.to.clear();
        self.to.raw(&[0; HEAD]);
        self.calls = 0;
        self.names.clear();
        self.paths.fill([NONE; STEPS]);
        (self.handle, self.start_ns, self.thread) = (0, 0, 0);
        self.due = HEAD;
        self.is_full_at(offset);
    }

    /// Whether it is time for the next one, of a frame that will be at `offset`.
    #[inline]
    pub fn is_full(&mut self, offset: u64) -> bool {
        self.to.len() >= self.due && self.is_full_at(offset)
    }

    /// The same, and when that is asked again.
    #[cold]
    fn is_full_at(&mut self, offset: u64) -> bool {
        let length = self.to.len();
        let room = self.room(offset);
        self.due = length + room.saturating_sub(SPARE);
        room <= SPARE || length >= LONG
    }

    /// Bytes up to the next place where frames end.
    fn room(&self, offset: u64) -> usize {
        let end = offset + self.to.len() as u64;
        (end.next_multiple_of(UNIT) - end) as usize
    }

    /// Begins a call; arguments and answer follow.
    #[inline]
    pub fn call(&mut self, head: &CallHead, failed: bool) {
        self.calls += 1;
        let other_thread = head.thread != self.thread;
        let flags = head.depth.min(DEPTH)
            | if failed { FAILED } else { 0 }
            | if other_thread { THREAD } else { 0 };
        let word = u64::from(head.action.number()) | u64::from(flags) << 8;
        let start = zigzag(head.start_ns.wrapping_sub(self.start_ns));
        self.start_ns = head.start_ns;
        if other_thread {
            self.to.word(word, 2);
            self.thread = head.thread;
            self.to.varint(head.thread);
            self.to.long_varint(start);
            self.to.long_varint(head.duration_ns);
        } else {
            self.to.head(word, start, head.duration_ns);
        }
    }

    /// A handle, by how far it is from the one before; 0 for none.
    #[inline]
    pub fn handle(&mut self, handle: u64) {
        if handle == 0 {
            return self.to.u8(0);
        }
        let moved = handle.wrapping_sub(self.handle);
        self.handle = handle;
        self.to.varint(zigzag(moved).wrapping_add(1));
    }

    /// A path, as far as it differs from the last one of as many steps.
    pub fn path<S: AsRef<[u8]>>(&mut self, path: &[S]) {
        let FrameBuilder { to, names, paths, .. } = self;
        let length = path.len();
        if !(1..=STEPS).contains(&length) {
            to.varint(length as u64);
            for step in path {
                let step = step.as_ref();
                names.step(to, step, Ends::of(step));
            }
            return;
        }
        let steps = &mut paths[length - 1];
        let (place, mut others) = (to.len() + 1, 0_u16);
        let bytes = others_bytes(length);
        // Which steps are others is put there when it is known.
        to.word(length as u64, 1 + bytes);
        for (at, (step, before)) in path.iter().zip(steps).enumerate() {
            let step = step.as_ref();
            let ends = Ends::of(step);
            if !is_told(to, before, step, &ends) {
                *before = names.step(to, step, ends);
                others |= 1 << at;
            }
        }
        to.bytes_mut()[place..place + bytes].copy_from_slice(&others.to_le_bytes()[..bytes]);
    }

    /// An answer of the kind that its action has.
    #[inline]
    pub fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Nothing | Answer::Failed => {}
            Answer::Flag(flag) => self.to.u8(u8::from(*flag)),
            Answer::Number(number) => self.to.varint(*number),
            Answer::Handle(handle) => self.handle(*handle),
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

    /// The bytes of the frame, which begins at `offset` of the file `identity`, up to where frames end if that is near.
    pub fn seal(&mut self, identity: u64, offset: u64) -> &[u8] {
        let (calls, room) = (self.calls, self.room(offset));
        if room <= SPARE {
            self.to.raw(&[0; SPARE][..room]);
        }
        let bytes = self.to.bytes_mut();
        let length = (bytes.len() - HEAD) as u32;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..12].copy_from_slice(&calls.to_le_bytes());
        let checksum = frame_checksum(identity, offset, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}
