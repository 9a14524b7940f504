//! Frames that are read: a stranger's bytes.

use std::ops::Bound;

use super::action::{Action, Answered, Field};
use super::frame::{
    Answer, Argument, Call, DEPTH, Digest, FAILED, KeyUpdate, NUMBERED, STEPS, THREAD,
    others_bytes, unzigzag,
};
use crate::error::{Error, Result};
use crate::format::codec::Decoder;

/// Memory that the arguments of any call may take.
const MEMORY_MIN: u64 = 64 << 20;

/// What they may take for each byte of the frame, up to so much: an entry of four may tell a path of sixteen steps.
const MEMORY_FACTOR: u64 = 32;
const MEMORY_OF_FACTOR_MAX: u64 = 2 << 30;

/// What they may take for each byte of the longest frames.
const MEMORY_FACTOR_OF_LONG: u64 = 4;

/// What each step, key or value takes beside its bytes: where they are, and what the allocator adds.
const STEP_MEMORY: u64 = 48;

/// What the arguments of a call may take, of a frame of so many bytes.
fn memory_max(frame: usize) -> u64 {
    let frame = frame as u64;
    let by_factor = frame.saturating_mul(MEMORY_FACTOR).min(MEMORY_OF_FACTOR_MAX);
    MEMORY_MIN.max(by_factor).max(frame.saturating_mul(MEMORY_FACTOR_OF_LONG))
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
    /// Where the steps of the last path are, by how many there are.
    paths: [Vec<(usize, usize)>; STEPS],
    handle: u64,
    start_ns: u64,
    thread: u64,
    /// How much memory the arguments of this call may still take.
    memory_left: u64,
}

impl FrameReader {
    /// Of a frame whose calls begin at `base` of the file.
    pub fn new(bytes: Vec<u8>, base: u64, calls: u32) -> FrameReader {
        FrameReader { bytes, base, calls, ..FrameReader::default() }
    }

    /// The next call; none at the end. `Corrupt` for bytes that no recorder writes.
    pub fn next(&mut self, file: &str) -> Result<Option<Call>> {
        let at = self.base + self.position as u64;
        if self.calls == 0 {
            let rest = self.bytes.get(self.position..).unwrap_or_default();
            if rest.iter().any(|byte| *byte != 0) {
                return Err(Error::corrupt(file, at, "zeros up to the end of a frame", "others"));
            }
            self.position = self.bytes.len();
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.bytes);
        let mut from = Decoder::new(file, at, &bytes[self.position..]);
        let call = self.read(&mut from, &bytes);
        self.position = bytes.len() - from.remaining();
        self.bytes = bytes;
        let call = call?;
        self.calls -= 1;
        Ok(Some(call))
    }

    fn read(&mut self, from: &mut Decoder<'_>, all: &[u8]) -> Result<Call> {
        let start = from.clone();
        self.memory_left = memory_max(all.len());
        let number = from.u8()?;
        let action =
            Action::of(number).ok_or_else(|| start.corrupt("an action of this version", number))?;
        let flags = from.u8()?;
        if flags & THREAD != 0 {
            self.thread = from.varint()?;
        }
        self.start_ns = self.start_ns.wrapping_add(unzigzag(from.varint()?));
        let duration_ns = from.varint()?;
        let mut arguments = Vec::with_capacity(action.fields().len());
        for field in action.fields() {
            arguments.push(self.argument(*field, from, all)?);
        }
        let failed = flags & FAILED != 0;
        let answer = if failed { Answer::Failed } else { self.answer(action, from)? };
        let (depth, thread, start_ns) = (flags & DEPTH, self.thread, self.start_ns);
        Ok(Call { action, depth, thread, start_ns, duration_ns, arguments, answer })
    }

    fn argument(&mut self, field: Field, from: &mut Decoder<'_>, all: &[u8]) -> Result<Argument> {
        Ok(match field {
            Field::Handle => Argument::Handle(self.handle(from)?),
            Field::Number => Argument::Number(from.varint()?),
            Field::Bytes => Argument::Bytes(from.bytes_with_length()?.to_vec()),
            Field::Hash => Argument::Hash(hash(from)?),
            Field::Path => Argument::Path(self.steps(from, all)?),
            Field::Keys => {
                let start = from.clone();
                let count = from.count(1)?;
                // Their bytes are in the frame but once.
                self.take(&start, (count as u64).saturating_mul(STEP_MEMORY))?;
                let mut keys = Vec::with_capacity(count);
                for _ in 0..count {
                    keys.push(from.bytes_with_length()?.to_vec());
                }
                Argument::Keys(keys)
            }
            Field::Entries => {
                let start = from.clone();
                let count = from.count(3)?;
                self.take(&start, (count as u64).saturating_mul(2 * STEP_MEMORY))?;
                let mut entries = Vec::with_capacity(count);
                for _ in 0..count {
                    let path = self.steps(from, all)?;
                    entries.push((path, from.bytes_with_length()?.to_vec()));
                }
                Argument::Entries(entries)
            }
            Field::Range => Argument::Range(bound(from)?, bound(from)?),
            Field::Updates => {
                let start = from.clone();
                let count = from.count(2)?;
                self.take(&start, (count as u64).saturating_mul(2 * STEP_MEMORY))?;
                let mut updates = Vec::with_capacity(count);
                for _ in 0..count {
                    updates.push(update(from)?);
                }
                Argument::Updates(updates)
            }
        })
    }

    fn handle(&mut self, from: &mut Decoder<'_>) -> Result<u64> {
        if let Some(moved) = from.varint()?.checked_sub(1) {
            self.handle = self.handle.wrapping_add(unzigzag(moved));
            return Ok(self.handle);
        }
        Ok(0)
    }

    fn steps(&mut self, from: &mut Decoder<'_>, all: &[u8]) -> Result<Vec<Vec<u8>>> {
        let start = from.clone();
        let length = from.varint()?;
        if !(1..=STEPS as u64).contains(&length) {
            // Each takes a byte at least.
            if length > from.remaining() as u64 {
                let left = from.remaining();
                return Err(start.corrupt(format_args!("{left} steps at most"), length));
            }
            let length = length as usize;
            self.take(&start, (length * size_of::<(usize, usize)>()) as u64)?;
            let mut places = Vec::with_capacity(length);
            for _ in 0..length {
                places.push(self.step(from, all)?);
            }
            return self.named(&start, all, &places);
        }
        let length = length as usize;
        let start = from.clone();
        let others = if others_bytes(length) == 1 { u16::from(from.u8()?) } else { from.u16()? };
        let mut steps = std::mem::take(&mut self.paths[length - 1]);
        let every = u16::MAX >> (STEPS - length);
        if others > every || steps.is_empty() && others != every {
            return Err(start.corrupt("steps of this path, and those that none was before", others));
        }
        steps.resize(length, (0, 0));
        for (at, step) in steps.iter_mut().enumerate() {
            if others >> at & 1 == 1 {
                *step = self.step(from, all)?;
            }
        }
        let path = self.named(&start, all, &steps);
        self.paths[length - 1] = steps;
        path
    }

    /// The names at `places` of the frame: each may be the same, in each path of a call, and have no bytes, so what those
    /// of a hostile file take could be any amount.
    fn named(
        &mut self,
        start: &Decoder<'_>,
        all: &[u8],
        places: &[(usize, usize)],
    ) -> Result<Vec<Vec<u8>>> {
        let bytes = places.iter().map(|(start, end)| (end - start) as u64 + STEP_MEMORY);
        self.take(start, bytes.sum())?;
        Ok(places.iter().map(|(start, end)| all[*start..*end].to_vec()).collect())
    }

    /// Takes memory for arguments of the call, if as much is left for it.
    #[inline]
    fn take(&mut self, start: &Decoder<'_>, bytes: u64) -> Result<()> {
        let left = self.memory_left.checked_sub(bytes);
        self.memory_left = left.ok_or_else(|| {
            let expected =
                format_args!("arguments that take {} bytes of memory at most", self.memory_left);
            start.corrupt(expected, bytes)
        })?;
        Ok(())
    }

    /// Where the name of a step is in the frame.
    fn step(&mut self, from: &mut Decoder<'_>, all: &[u8]) -> Result<(usize, usize)> {
        let start = from.clone();
        let told = from.varint()?;
        if told & 1 == 1 {
            let number = usize::try_from(told >> 1).unwrap_or(usize::MAX);
            let names = self.names.len();
            let name = self.names.get(number);
            let wrong = || start.corrupt(format_args!("one of {names} names"), told >> 1);
            return name.copied().ok_or_else(wrong);
        }
        let length = usize::try_from(told >> 1).unwrap_or(usize::MAX);
        let name = from.raw(length)?;
        let end = all.len() - from.remaining();
        let place = (end - name.len(), end);
        if name.len() >= NUMBERED {
            self.names.push(place);
        }
        Ok(place)
    }

    fn answer(&mut self, action: Action, from: &mut Decoder<'_>) -> Result<Answer> {
        let start = from.clone();
        Ok(match action.answered() {
            Answered::Nothing => Answer::Nothing,
            Answered::Flag => match from.u8()? {
                0 => Answer::Flag(false),
                1 => Answer::Flag(true),
                other => return Err(start.corrupt("yes or no", other)),
            },
            Answered::Number => Answer::Number(from.varint()?),
            Answered::Handle => Answer::Handle(self.handle(from)?),
            Answered::Hash => Answer::Hash(hash(from)?),
            Answered::Digest => match from.varint()?.checked_sub(1) {
                None => Answer::Digest(None),
                Some(length) => Answer::Digest(Some(Digest { length, hash: from.u32()? })),
            },
        })
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

#[cfg(test)]
mod tests {
    use super::super::frame::{CallHead, HEAD};
    use super::super::frame_builder::{FrameBuilder, LONG, SPARE, UNIT};
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
        let mut builder = FrameBuilder::new(0);
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
            builder.handle(number as u64 + 1);
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

    const HEAD_OF_CALL: CallHead =
        CallHead { action: Action::Mem, depth: 0, thread: 0, start_ns: 5, duration_ns: 5 };

    fn add_mem(builder: &mut FrameBuilder, handle: u64, path: &[&[u8]]) {
        builder.call(&HEAD_OF_CALL, false);
        builder.handle(handle);
        builder.path(path);
        builder.answer(&Answer::Flag(true));
    }

    fn read(bytes: &[u8], calls: u32) -> Vec<(u64, Vec<Vec<u8>>)> {
        let mut reader = FrameReader::new(bytes[HEAD..].to_vec(), 0, calls);
        let mut all = Vec::new();
        while let Some(call) = reader.next("a trace").unwrap() {
            let [Argument::Handle(handle), Argument::Path(path)] = &call.arguments[..] else {
                panic!("{call:?}")
            };
            all.push((*handle, path.clone()));
        }
        all
    }

    /// Each frame is read by itself, whatever was in the one before it in the same memory.
    #[test]
    fn a_frame_tells_nothing_by_what_another_told() {
        let long = [b'l'; 300];
        let mut builder = FrameBuilder::new(32);
        for handle in 1..100 {
            add_mem(&mut builder, handle, &[b"a", &long[handle as usize..], b"of four", b""]);
        }
        builder.clear(7_000);
        let paths: [&[&[u8]]; 4] =
            [&[b"a", &long[99..], b"of four", b""], &[], &[&long[..9]; 17], &[b"a", b"of four"]];
        for path in paths {
            add_mem(&mut builder, 0, path);
            add_mem(&mut builder, u64::MAX >> 2, path);
        }
        let found = read(builder.seal(1, 7_000), 8);
        for (at, path) in paths.iter().enumerate() {
            let path: Vec<Vec<u8>> = path.iter().map(|step| step.to_vec()).collect();
            assert_eq!(found[2 * at], (0, path.clone()));
            assert_eq!(found[2 * at + 1], (u64::MAX >> 2, path));
        }
        assert_eq!(found.len(), 8);
    }

    #[test]
    fn frames_end_with_pages_unless_their_calls_are_long() {
        let mut builder = FrameBuilder::new(32);
        let (mut offset, mut ends) = (32, Vec::new());
        for call in 0..5_000 {
            add_mem(&mut builder, call, &[format!("{call:050}").as_bytes()]);
            if builder.is_full(offset) {
                offset += builder.seal(1, offset).len() as u64;
                builder.clear(offset);
                ends.push(offset);
            }
        }
        assert_eq!(ends, (1..=ends.len() as u64).map(|end| end * UNIT).collect::<Vec<_>>());
        assert!(ends.len() >= 4, "{ends:?}");
        // Ones of half of it go over nearly every end.
        let mut builder = FrameBuilder::new(32);
        let (mut offset, mut lengths, name) = (32, Vec::new(), vec![7; 35_000]);
        for call in 0..100 {
            add_mem(&mut builder, call, &[&call.to_le_bytes(), &name[call as usize..]]);
            if builder.is_full(offset) {
                lengths.push(builder.seal(1, offset).len());
                offset += lengths[lengths.len() - 1] as u64;
                builder.clear(offset);
            }
        }
        assert!(lengths.len() > 15 && lengths.iter().all(|it| *it < LONG + UNIT as usize));
        // A frame that begins a little before an end has a call all the same.
        for before in [1, SPARE as u64 - HEAD as u64, SPARE as u64, 2 * SPARE as u64] {
            let offset = 3 * UNIT - before;
            let mut builder = FrameBuilder::new(offset);
            add_mem(&mut builder, 1, &[&[b'n'; 60]]);
            let _ = builder.is_full(offset);
            let bytes = builder.seal(1, offset);
            assert_eq!(read(bytes, 1).len(), 1, "{before}");
            assert!(bytes.len() < 3 * SPARE);
        }
    }

    #[test]
    fn behind_the_calls_of_a_frame_are_zeros_alone() {
        let mut builder = FrameBuilder::new(UNIT - 100);
        add_mem(&mut builder, 1, &[b"name"]);
        let bytes = builder.seal(1, UNIT - 100).to_vec();
        assert_eq!(bytes.len(), 100);
        assert_eq!(read(&bytes, 1).len(), 1);
        for at in [bytes.len() - 1, bytes.len() - 40] {
            let mut other = bytes[HEAD..].to_vec();
            other[at - HEAD] = 1;
            let mut reader = FrameReader::new(other, 0, 1);
            reader.next("a trace").unwrap().unwrap();
            let error = reader.next("a trace").unwrap_err();
            assert_eq!(error.kind(), crate::error::Kind::Corrupt, "{error}");
        }
    }

    /// A step of one byte may stand for a long name, many times.
    #[test]
    fn a_path_has_64_mib_at_most() {
        let name = vec![b'n'; 1 << 20];
        let mut builder = FrameBuilder::new(32);
        add_mem(&mut builder, 1, &[&name]);
        let steps = vec![&*name; 65];
        add_mem(&mut builder, 1, &steps[..63]);
        let whole = read(builder.seal(1, 32), 2);
        assert_eq!(whole[1].1.len(), 63);
        add_mem(&mut builder, 1, &steps);
        let mut reader = FrameReader::new(builder.seal(1, 32)[HEAD..].to_vec(), 0, 3);
        assert!(reader.next("a trace").is_ok() && reader.next("a trace").is_ok());
        let error = reader.next("a trace").unwrap_err();
        assert_eq!(error.kind(), crate::error::Kind::Corrupt, "{error}");
    }

    /// An entry of four bytes may tell a path of sixteen steps as long as the last one.
    #[test]
    fn the_names_of_a_call_have_64_mib_at_most() {
        let name = vec![b'n'; 1 << 20];
        let path = vec![&*name; STEPS];
        for (entries, is_sound) in [(3, true), (5, false), (100_000, false)] {
            let mut builder = FrameBuilder::new(32);
            builder.call(&CallHead { action: Action::Given, ..HEAD_OF_CALL }, false);
            builder.handle(1);
            builder.to.varint(entries);
            for _ in 0..entries {
                builder.path(&path);
                builder.to.varint(0);
            }
            builder.answer(&Answer::Nothing);
            let bytes = builder.seal(1, 32)[HEAD..].to_vec();
            let read = FrameReader::new(bytes, 0, 1).next("a trace");
            match read {
                Ok(call) => assert!(is_sound && call.is_some(), "{entries}"),
                Err(error) => {
                    assert_eq!(error.kind(), crate::error::Kind::Corrupt, "{error}");
                    assert!(!is_sound, "{entries}: {error}");
                }
            }
        }
    }

    /// Reads a frame with one call, whose arguments are `arguments`.
    fn read_call(action: Action, arguments: &[u8]) -> Result<Option<Call>> {
        let mut builder = FrameBuilder::new(32);
        builder.call(&CallHead { action, ..HEAD_OF_CALL }, false);
        builder.handle(1);
        builder.to.raw(arguments);
        builder.answer(&if action == Action::Lookup {
            Answer::Digest(None)
        } else {
            Answer::Nothing
        });
        let bytes = builder.seal(1, 32)[HEAD..].to_vec();
        FrameReader::new(bytes, 0, 1).next("a trace")
    }

    fn counted(count: usize, first: &[u8], other: &[u8]) -> Vec<u8> {
        let mut words = super::super::words::Words::default();
        words.varint(count as u64);
        words.raw(first);
        (1..count).for_each(|_| words.raw(other));
        words.bytes().to_vec()
    }

    /// Steps of one byte or of none take memory all the same, a hundred times their bytes and more.
    #[test]
    fn steps_keys_and_updates_without_bytes_are_counted() {
        const MANY: usize = 1_000_000;
        // A path of sixteen steps of a byte, then the same again in three bytes, and no value.
        let mut first = vec![16, 0xff, 0xff];
        (0..16).for_each(|_| first.extend([2, b'n']));
        first.push(0);
        let mut empty = vec![16, 0xff, 0xff];
        empty.extend([0; 17]);
        for first in [first, empty] {
            let few = read_call(Action::Given, &counted(1_000, &first, &[16, 0, 0, 0]));
            assert!(few.unwrap().is_some());
            let many = read_call(Action::Given, &counted(MANY, &first, &[16, 0, 0, 0]));
            assert_eq!(many.unwrap_err().kind(), crate::error::Kind::Corrupt);
        }
        // Keys and updates without bytes, of which a frame has as many as it has bytes.
        for (action, one) in [(Action::Lookup, &[0][..]), (Action::Update, &[1, 0][..])] {
            assert!(read_call(action, &counted(MANY / 10, one, one)).unwrap().is_some());
            let many = read_call(action, &counted(4 * MANY, one, one));
            assert_eq!(many.unwrap_err().kind(), crate::error::Kind::Corrupt);
        }
    }

    #[test]
    fn long_frames_allow_a_small_multiple_of_their_bytes() {
        assert_eq!(memory_max(0), 64 << 20);
        assert_eq!(memory_max(8 << 20), 256 << 20);
        assert_eq!(memory_max(128 << 20), 2 << 30);
        assert_eq!(memory_max(1 << 30), 4 << 30);
    }
}
