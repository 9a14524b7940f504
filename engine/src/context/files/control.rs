//! The control file: what a store is made of now, and a checkpoint from which to scan.
//!
//! It is replaced whole now and then so that the scan stays short, and when chunks are taken away or
//! moved. Everything after the checkpoint, new chunks too, is found in the pack, so one that is older
//! than the pack opens the same store. Format document: `docs/format/control.md`.

use std::sync::Arc;

use super::chunk::{CHUNKS_MAX, Place, chunk_end};
use super::paths;
use super::sparse::SparseFile;
pub(crate) use super::sparse::State;
use crate::context::configuration::Configuration;
use crate::context::hash::CommitHash;
use crate::context::options::Index;
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::replace::replace;
use crate::format::codec::{Decoder, Encoder};
use crate::format::header::{self, FileKind, Header, checked_body, finish_with_checksum};

/// The largest control file that is believed.
const LENGTH_MAX: u64 = 1 << 26;

/// The most commits below the horizon that are kept, and the most pins.
pub(crate) const KEPT_MAX: usize = 1 << 20;

/// The most bytes of all branches together, names and hashes.
pub(crate) const BRANCHES_BYTES_MAX: usize = 16 << 20;

/// A chunk, as the control file knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) number: u64,
    /// How many chunks with numbers from that on it stands for: more than one of those that are gone, or whose
    /// records are together in one sparse file.
    pub(crate) count: u64,
    pub(crate) base: u64,
    /// Logical bytes; of the last one those before the checkpoint.
    pub(crate) length: u64,
    /// Payload checksum of its last batch, or of the one before the checkpoint.
    pub(crate) chain: u32,
    pub(crate) state: State,
}

/// Where history begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// Logical offset of the oldest commit that is there with all after it; 0 when nothing was
    /// collected.
    pub(crate) commit: u64,
    /// Logical offset below which only what is kept is there.
    pub(crate) offset: u64,
    /// Sequence number of that commit.
    pub(crate) sequence: u64,
    /// Logical offsets of older commits that were kept.
    pub(crate) kept: Vec<u64>,
}

impl Horizon {
    /// The newest commit at or before `offset` that was not collected; 0 for none.
    pub(crate) fn standing(&self, offset: u64) -> u64 {
        if offset >= self.commit {
            return offset;
        }
        let after = self.kept.partition_point(|kept| *kept <= offset);
        after.checked_sub(1).map_or(0, |index| self.kept[index])
    }

    /// Whether the commit at `offset` was collected.
    pub(crate) fn has_collected(&self, offset: u64) -> bool {
        self.standing(offset) != offset
    }
}

/// How far a collection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// 1 while it marks, 2 while it cleans.
    pub(crate) phase: u8,
    /// Logical offset of the commit that will be the horizon.
    pub(crate) target: u64,
    /// The chunk that is next, from the newest down.
    pub(crate) chunk: u64,
}

/// The content of a control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Identity of the store, part of every checksum.
    pub(crate) store: u64,
    pub(crate) configuration: Configuration,
    pub(crate) index: Index,
    /// How often everything was cleared.
    pub(crate) epoch: u64,
    /// Where the scan begins.
    pub(crate) checkpoint: Place,
    /// Logical offset of the last commit before that; 0 for none.
    pub(crate) last_commit: u64,
    /// Of the first commit in the last chunk; 0 for none.
    pub(crate) first_commit: u64,
    pub(crate) horizon: Horizon,
    pub(crate) cursor: Option<Cursor>,
    /// How many collections have ended.
    pub(crate) collections: u64,
    /// Steps of a collection do nothing.
    pub(crate) is_paused: bool,
    /// A collection was cancelled while it took away, and none has ended since: objects that it would have taken
    /// may be there twice, and the index may lead to the copy that goes first.
    pub(crate) has_copies: bool,
    /// The same, whatever the index: something that is not kept may be there still.
    pub(crate) is_unfinished: bool,
    /// Logical offsets of the commits that each collection keeps, ascending.
    pub(crate) pins: Vec<u64>,
    /// The chunks up to that of the checkpoint, without a gap between those of two rows; never empty.
    pub(crate) chunks: Vec<Row>,
    /// Branches as of the checkpoint, by name.
    pub(crate) branches: Vec<(Vec<u8>, CommitHash)>,
}

impl Control {
    /// That of an epoch without a commit.
    pub(crate) fn empty(
        store: u64,
        configuration: Configuration,
        index: Index,
        epoch: u64,
    ) -> Control {
        let checkpoint = Place::start(0);
        let length = checkpoint.position.offset;
        Control {
            store,
            configuration,
            index,
            epoch,
            checkpoint,
            last_commit: 0,
            first_commit: 0,
            horizon: Horizon::default(),
            cursor: None,
            collections: 0,
            is_paused: false,
            has_copies: false,
            is_unfinished: false,
            pins: Vec::new(),
            chunks: vec![Row {
                number: 0,
                count: 1,
                base: 0,
                length,
                chain: 0,
                state: State::Whole,
            }],
            branches: Vec::new(),
        }
    }

    /// The chunk of the checkpoint.
    pub(crate) fn last(&self) -> &Row {
        self.chunks.last().expect("a control file names a chunk")
    }

    /// A place as a logical offset, if its chunk is there.
    pub(crate) fn offset_of(&self, place: Place) -> Option<u64> {
        let row = self.row(place.chunk).filter(|row| row.number == place.chunk)?;
        Some(row.base + place.position.offset)
    }

    /// Where the row of chunk `number` is in the table, if it is there.
    pub(crate) fn place_of(&self, number: u64) -> Option<usize> {
        let after = self.chunks.partition_point(|row| row.number <= number);
        let place = after.checked_sub(1)?;
        (number - self.chunks[place].number < self.chunks[place].count).then_some(place)
    }

    /// The row of chunk `number`, or that which stands for it and others.
    pub(crate) fn row(&self, number: u64) -> Option<&Row> {
        self.place_of(number).map(|place| &self.chunks[place])
    }

    /// The rows that begin with one of `numbers`.
    pub(crate) fn rows(&self, numbers: std::ops::Range<u64>) -> &[Row] {
        let first = self.chunks.partition_point(|row| row.number < numbers.start);
        let after = self.chunks.partition_point(|row| row.number < numbers.end);
        &self.chunks[first..after]
    }

    /// Leaves out rows at the front whose chunks are gone, and makes one row of those between two others.
    pub(crate) fn join_gone(&mut self) {
        let gone = self.chunks.iter().take_while(|row| row.state == State::Gone).count();
        self.chunks.drain(..gone);
        self.chunks.dedup_by(|row, before| {
            let both = row.state == State::Gone && before.state == State::Gone;
            if both {
                before.count += row.count;
                before.length += row.length;
                before.chain = 0;
            }
            both
        });
    }

    /// The checkpoint as a logical offset, also when chunks were added since.
    pub(crate) fn reaches(&self) -> u64 {
        self.offset_of(self.checkpoint).expect("the chunk of the checkpoint is there")
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.raw(&Header::new(FileKind::Control, self.epoch, self.store).encode());
        self.configuration.encode(&mut out);
        out.u8(self.index.code());
        self.checkpoint.encode(&mut out);
        out.u64(self.last_commit);
        out.u64(self.first_commit);
        out.u64(self.horizon.commit);
        out.u64(self.horizon.offset);
        out.u64(self.horizon.sequence);
        out.varint(self.horizon.kept.len() as u64);
        self.horizon.kept.iter().for_each(|kept| out.u64(*kept));
        out.u8(self.cursor.map_or(0, |cursor| cursor.phase));
        if let Some(cursor) = self.cursor {
            out.u64(cursor.target);
            out.u64(cursor.chunk);
        }
        out.u64(self.collections);
        let (copies, unfinished) = (u8::from(self.has_copies), u8::from(self.is_unfinished));
        out.u8(u8::from(self.is_paused) | copies << 1 | unfinished << 2);
        out.varint(self.pins.len() as u64);
        self.pins.iter().for_each(|pin| out.u64(*pin));
        out.varint(self.chunks.len() as u64);
        out.varint(self.chunks[0].number);
        out.varint(self.chunks[0].base);
        for row in &self.chunks {
            let (state, sparse) = match row.state {
                State::Whole => (0, None),
                State::Sparse(sparse) if row.count == 1 => (1, Some(sparse)),
                State::Sparse(sparse) => (4, Some(sparse)),
                State::Lower => (2, None),
                State::Both(sparse) => (5, Some(sparse)),
                State::Gone => (3, None),
            };
            out.varint(row.length << 3 | state);
            if matches!(state, 3 | 4) {
                out.varint(row.count);
            }
            if row.state == State::Gone {
                continue;
            }
            out.u32(row.chain);
            if let Some(sparse) = sparse {
                out.varint(sparse.generation);
                out.varint(sparse.bytes);
                out.u32(sparse.sum);
            }
        }
        out.varint(self.branches.len() as u64);
        for (name, hash) in &self.branches {
            out.bytes_with_length(name);
            out.raw(hash.as_ref());
        }
        finish_with_checksum(out)
    }

    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<Control> {
        let header = Header::expect(file, bytes, FileKind::Control)?;
        let mut from = checked_body(file, bytes, "checksum")?;
        let configuration = Configuration::decode(&mut from)?;
        let index = Index::decode(&mut from)?;
        let start = from.clone();
        let checkpoint = Place::decode(&mut from)?;
        let (last_commit, first_commit) = (from.u64()?, from.u64()?);
        let horizon = take_horizon(&mut from)?;
        let at = from.clone();
        let cursor = match from.u8()? {
            0 => None,
            phase @ 1..=2 => Some(Cursor { phase, target: from.u64()?, chunk: from.u64()? }),
            other => return Err(at.corrupt("a phase from 0 to 2", other)),
        };
        let fits = cursor.is_none_or(|Cursor { phase, target, .. }| {
            target > 0 && (phase == 1 || target == horizon.commit)
        });
        if !fits {
            return Err(at.corrupt("a collection to a commit, which is the horizon's", "another"));
        }
        let is_first = header.version == 2;
        let (mut collections, mut flags, mut pins) = (0, 0, Vec::new());
        if !is_first {
            collections = from.u64()?;
            let at = from.clone();
            flags = from.u8()?;
            if flags > 7 {
                return Err(at.corrupt("0 to 7 for a pause, copies and a cancel", flags));
            }
            pins = take_commits(&mut from, "pins")?;
        }
        let chunks = take_rows(&mut from, is_first)?;
        let last = chunks.last().expect("there is one");
        let (position, before) = (checkpoint.position, checkpoint.before);
        let is_start = checkpoint == Place::start(last.number);
        let fits = checkpoint.chunk == last.number
            && last.state == State::Whole
            && last.length == position.offset
            && last.chain == position.chain
            && (is_start || before < position.offset)
            && last_commit < last.base + last.length;
        if !fits {
            return Err(start.corrupt("a checkpoint in the last chunk", "another place"));
        }
        let branches = take_branches(&mut from)?;
        from.finish()?;
        Ok(Control {
            store: header.store,
            configuration,
            index,
            epoch: header.identity,
            checkpoint,
            last_commit,
            first_commit,
            horizon,
            cursor,
            collections,
            is_paused: flags & 1 == 1,
            has_copies: flags & 2 == 2,
            is_unfinished: flags & 4 == 4,
            pins,
            chunks,
            branches,
        })
    }

    /// Reads the control file of a store. `Missing` without one.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Control> {
        let file = disk.open(paths::CONTROL, Mode::Read, Access::Buffered).map_err(|error| {
            if error.kind() == Kind::Missing {
                if disk.exists(paths::HALF_MADE).unwrap_or(false) {
                    return half_made(disk);
                }
                return Error::missing(format!(
                    "{} holds no context store: it has no file \"{}\"; give the folder of one, or \
                     create one there",
                    disk.root(),
                    paths::CONTROL
                ));
            }
            error
        })?;
        let length = file.len()?;
        if length > LENGTH_MAX {
            return Err(Error::corrupt(
                paths::CONTROL,
                LENGTH_MAX,
                format_args!("at most {LENGTH_MAX} bytes"),
                format_args!("{length}"),
            ));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(0, &mut bytes)?;
        Control::decode(paths::CONTROL, &bytes)
    }

    /// The epoch that the control file says, which takes no more than its header.
    pub(crate) fn read_epoch(disk: &dyn Disk) -> Result<u64> {
        let file = disk.open(paths::CONTROL, Mode::Read, Access::Buffered)?;
        let mut bytes = [0; header::LENGTH];
        file.read_exact_at(0, &mut bytes)?;
        Ok(Header::expect(paths::CONTROL, &bytes, FileKind::Control)?.identity)
    }

    /// Makes this the control file, durably. Two syncs: of the new file, and of the folder once it is
    /// renamed.
    pub(crate) fn replace(&self, disk: &Arc<dyn Disk>) -> Result<()> {
        replace(disk, paths::CONTROL, &self.encode())
    }
}

/// What is said of a folder that a repair has not come to the end of.
pub(crate) fn half_made(disk: &dyn Disk) -> Error {
    Error::invalid(format!(
        "{} holds a part of a store, of which a repair was cut off, or the removal: remove the folder, and repair the \
         damaged store again if there was one",
        disk.root()
    ))
}

fn take_horizon(from: &mut Decoder<'_>) -> Result<Horizon> {
    let start = from.clone();
    let (commit, offset, sequence) = (from.u64()?, from.u64()?, from.u64()?);
    let kept = take_commits(from, "kept commits")?;
    if kept.last().is_some_and(|last| *last >= commit) {
        return Err(start.corrupt("kept commits below the horizon", "others"));
    }
    Ok(Horizon { commit, offset, sequence, kept })
}

/// Logical offsets of commits, ascending.
fn take_commits(from: &mut Decoder<'_>, what: &str) -> Result<Vec<u64>> {
    let start = from.clone();
    let count = from.count(8)?;
    if count > KEPT_MAX {
        return Err(start.corrupt(format_args!("at most {KEPT_MAX} {what}"), count));
    }
    let commits: Vec<u64> = (0..count).map(|_| from.u64()).collect::<Result<_>>()?;
    if commits.first() == Some(&0) || !commits.is_sorted_by(|a, b| a < b) {
        return Err(start.corrupt(format_args!("{what} in order"), "others"));
    }
    Ok(commits)
}

fn take_sparse(from: &mut Decoder<'_>) -> Result<SparseFile> {
    Ok(SparseFile { generation: from.varint()?, bytes: from.varint()?, sum: from.u32()? })
}

/// What a file of kept records may have beside twice what the chunk had.
const SPARSE_MORE: u64 = 1 << 20;

/// The table of chunks; `is_first` is that of version 2, which had no sparse ones.
fn take_rows(from: &mut Decoder<'_>, is_first: bool) -> Result<Vec<Row>> {
    let start = from.clone();
    let count = from.count(5)?;
    let (mut number, mut base) = (from.varint()?, from.varint()?);
    if count == 0 || count as u64 > CHUNKS_MAX || number > base {
        return Err(start.corrupt(format_args!("1 to {CHUNKS_MAX} chunks"), count));
    }
    let mut rows = Vec::with_capacity(count);
    let shift = if is_first { 2 } else { 3 };
    for _ in 0..count {
        let at = from.clone();
        let head = from.varint()?;
        let (length, state) = (head >> shift, head & ((1 << shift) - 1));
        let stands = if matches!(state, 3 | 4) && !is_first { from.varint()? } else { 1 };
        let is_joined = state == 4 && !is_first;
        let chain = if state == 3 && !is_first { 0 } else { from.u32()? };
        let state = match state {
            0 => State::Whole,
            1 | 4 if !is_first => State::Sparse(take_sparse(from)?),
            2 => State::Lower,
            3 => State::Gone,
            5 => State::Both(take_sparse(from)?),
            other => {
                return Err(Error::new(
                    Kind::Version,
                    format!(
                        "{}: chunk {number} is in a state ({other}) that this release does not know: \
                         use a newer release",
                        paths::CONTROL
                    ),
                ));
            }
        };
        // A file of one chunk has a state of its own.
        let fewest = if is_joined { 2 } else { 1 };
        if !(fewest..=length).contains(&stands) {
            return Err(
                at.corrupt("a chunk of a byte at least", format_args!("{stands} of {length}"))
            );
        }
        if let Some(SparseFile { generation, bytes, .. }) = state.sparse() {
            // Of records and a mapping of eight bytes for each there can be no more.
            let most = length.saturating_mul(2).saturating_add(SPARSE_MORE);
            if bytes > most || generation >= u64::from(u32::MAX) {
                let found = format_args!("{bytes}, generation {generation}");
                return Err(at.corrupt(format_args!("a file of at most {most} bytes"), found));
            }
        }
        rows.push(Row { number, count: stands, base, length, chain, state });
        number += stands;
        base = chunk_end(base, length)
            .filter(|_| length > 0)
            .ok_or_else(|| at.corrupt("the length of a chunk that ends below 2^61", length))?;
    }
    Ok(rows)
}

fn take_branches(from: &mut Decoder<'_>) -> Result<Vec<(Vec<u8>, CommitHash)>> {
    let count = from.count(33)?;
    let mut branches = Vec::with_capacity(count);
    for _ in 0..count {
        let name = from.bytes_with_length()?.to_vec();
        branches.push((name, from.raw(32)?.try_into().expect("32 bytes")));
    }
    Ok(branches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::pieces::entry::OFFSET_MAX;
    use crate::file::append::Position;

    fn row(number: u64, base: u64, length: u64, state: State) -> Row {
        let chain = if state == State::Gone { 0 } else { 7 };
        Row { number, count: 1, base, length, chain, state }
    }

    #[test]
    fn it_comes_back_and_every_flipped_bit_is_noticed() {
        let position = Position { offset: 40, sequence: 2, chain: 7 };
        let control = Control {
            checkpoint: Place { chunk: 11, position, before: 35 },
            last_commit: 177,
            first_commit: 170,
            horizon: Horizon { commit: 99, offset: 120, sequence: 4, kept: vec![8, 77] },
            cursor: Some(Cursor { phase: 1, target: 130, chunk: 4 }),
            collections: 6,
            is_paused: true,
            has_copies: true,
            is_unfinished: true,
            pins: vec![77, 130],
            chunks: vec![
                Row { number: 1, count: 3, ..row(3, 5, 50, State::Gone) },
                row(4, 55, 60, State::Sparse(SparseFile { generation: 2, bytes: 5_000, sum: 9 })),
                Row {
                    count: 4,
                    ..row(5, 115, 20, State::Sparse(SparseFile { generation: 3, bytes: 9, sum: 8 }))
                },
                row(9, 135, 5, State::Lower),
                row(10, 140, 5, State::Both(SparseFile { generation: 7, bytes: 11, sum: 6 })),
                row(11, 145, 40, State::Whole),
            ],
            branches: vec![(b"main".to_vec(), [3; 32].into())],
            ..Control::empty(5, Configuration::TEZOS, Index::Always, 2)
        };
        let bytes = control.encode();
        assert_eq!(Control::decode("control", &bytes).unwrap(), control);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Control::decode("control", &damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Control::decode("control", &bytes[..length]).is_err());
        }
    }

    #[test]
    fn one_row_stands_for_chunks_that_are_gone_between_two_that_are_there() {
        let mut control = Control::empty(5, Configuration::TEZOS, Index::Minimal, 0);
        let states =
            [State::Gone, State::Lower, State::Gone, State::Gone, State::Gone, State::Whole];
        control.chunks = (0..).zip(states).map(|(at, state)| row(at, at * 40, 40, state)).collect();
        control.join_gone();
        let numbers = |control: &Control| -> Vec<(u64, u64, u64)> {
            control.chunks.iter().map(|row| (row.number, row.count, row.length)).collect()
        };
        let joined = [(1, 1, 40), (2, 3, 120), (5, 1, 40)];
        assert_eq!(numbers(&control), joined);
        let places: Vec<_> = (0..7).map(|number| control.place_of(number)).collect();
        assert_eq!(places, [None, Some(0), Some(1), Some(1), Some(1), Some(2), None]);
        control.join_gone();
        assert_eq!(numbers(&control), joined);
        let position = Position { offset: 40, sequence: 2, chain: 7 };
        control.checkpoint = Place { chunk: 5, position, before: 35 };
        assert_eq!(Control::decode("control", &control.encode()).unwrap(), control);
        for stands in [0, 121] {
            control.chunks[1].count = stands;
            assert!(Control::decode("control", &control.encode()).is_err());
        }
    }

    #[test]
    fn below_the_horizon_only_what_was_kept_stands() {
        let horizon = Horizon { commit: 100, offset: 150, sequence: 9, kept: vec![20, 40] };
        for (offset, standing) in [(0, 0), (19, 0), (20, 20), (39, 20), (99, 40), (100, 100)] {
            assert_eq!(horizon.standing(offset), standing);
        }
        assert!(horizon.has_collected(30) && !horizon.has_collected(40));
        assert!(!Horizon::default().has_collected(1));
    }

    #[test]
    fn chunks_that_no_pack_reaches_are_refused() {
        let control = |base, length| {
            let position = Position { offset: length, sequence: 2, chain: 7 };
            Control {
                checkpoint: Place { chunk: 0, position, before: 35 },
                chunks: vec![row(0, base, length, State::Whole)],
                ..Control::empty(5, Configuration::TEZOS, Index::Minimal, 0)
            }
        };
        let most = control(OFFSET_MAX - 40, 40);
        assert_eq!(Control::decode("control", &most.encode()).unwrap(), most);
        for (base, length) in
            [(OFFSET_MAX - 40, 41), (OFFSET_MAX, 1), (u64::MAX, 1), (1 << 60 | 1, 1 << 60)]
        {
            let error = Control::decode("control", &control(base, length).encode()).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        }
    }

    #[test]
    fn a_checkpoint_stays_where_it_was_when_chunks_are_added() {
        let mut control = Control::empty(5, Configuration::TEZOS, Index::Minimal, 0);
        let start = control.reaches();
        control.chunks.push(row(1, 1_000, 500, State::Whole));
        control.chunks.push(row(2, 1_500, 500, State::Whole));
        assert_eq!(control.reaches(), start);
        assert_eq!(control.offset_of(Place::start(2)), Some(1_500 + start));
        assert_eq!(control.offset_of(Place::start(3)), None);
    }
}
