//! Where a chunk is read: whole, in either folder, with what collections have left of it beside it, or that alone.

use std::sync::Arc;

use super::below::United;
use super::parted::SparseBytes;
use super::{Piece, Sought, Wreck, is_loss, kind_of, path_of};
use crate::cache::PAGE;
use crate::context::files::chunk::{Opening, Seal};
use crate::context::files::chunk_files;
use crate::context::files::control::{Row, State};
use crate::context::files::paths;
use crate::context::files::record::{self, Tag};
use crate::context::files::sparse::{self, KeptRecord, SparseFile};
use crate::context::store::repair::gathered::{Gathered, Source};
use crate::context::store::repair::salvage;
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Result};
use crate::file::append::{self, Position};
use crate::format::header::{self, Header};

impl Wreck {
    /// The chunk that is looked for; none where nothing was ever said of one.
    pub(super) fn place(
        &mut self,
        sought: Sought<'_>,
        gathered: &mut Gathered,
        scratch: &Arc<dyn Disk>,
    ) -> Result<Option<Piece>> {
        if let Some(mut piece) = self.whole_of(sought, gathered)? {
            piece.above = self.beside(&piece, sought, gathered, scratch)?;
            return Ok(Some(piece));
        }
        let row = sought.row;
        let why = row.map(|row| self.lost(&row));
        if let Some(piece) = self.collected(sought, gathered, scratch)? {
            if row.is_some_and(|row| row.state.is_lower()) {
                // It has what recent commits need of the chunk.
                self.missing.extend(why);
            }
            return Ok(Some(piece));
        }
        let (Some(row), Some(why)) = (row, why) else { return Ok(None) };
        if row.state == State::Gone {
            return Ok(Some(Piece { row, opening: None, missing: None, above: None }));
        }
        let row = Row { state: State::Whole, ..row };
        Ok(Some(Piece { row, opening: None, missing: Some(why), above: None }))
    }

    /// The same where one of the folders has all of it.
    fn whole_of(
        &mut self,
        Sought { number, row, found, later }: Sought<'_>,
        gathered: &mut Gathered,
    ) -> Result<Option<Piece>> {
        let mut places = Vec::new();
        if found.above {
            places.push((Arc::clone(&self.source), false));
        }
        // Which may be that of several, this one among them.
        let named = self.control.as_ref().and_then(|control| control.row(number)).copied();
        let is_kept = named.map_or(Ok(false), |row| self.is_kept(&row))?;
        if let Some(lower) = self.lower.as_ref().filter(|_| found.below) {
            places.push((Arc::clone(lower), true));
        }
        // Where both are there, a move was cut off between them, and either may be damaged since.
        if places.len() > 1
            && !self
                .is_sound(&*places[0].0, number)
                .or_else(|error| if is_kept { Ok(false) } else { Err(error) })?
        {
            places.reverse();
        }
        for (disk, is_below) in places.clone() {
            let looked = self.whole(&disk, number, row).and_then(|piece| {
                let is_ours = !(is_below || is_kept)
                    || self.is_ours(&disk, &piece, (named, is_kept), later.last())?;
                Ok((piece, is_ours))
            });
            let (piece, is_ours) = match looked {
                // What a collection left may be enough, and then nobody needs it.
                Err(_) if is_kept => continue,
                looked => looked?,
            };
            if !is_ours {
                if !is_kept {
                    self.tell_parted(number, &disk);
                }
                continue;
            }
            let other = places.iter().map(|it| &it.0).find(|it| !Arc::ptr_eq(it, &disk));
            let united = match other.filter(|_| !is_kept) {
                Some(other) => self.united(&disk, other, &piece, row, later.last())?,
                None => United::No,
            };
            let (disk, piece) = match united {
                United::Yes(united) => (Arc::clone(&united), self.whole(&united, number, row)?),
                United::Parted(true) => {
                    self.tell_parted(number, &disk);
                    continue;
                }
                United::Parted(false) => {
                    if let Some(other) = other {
                        self.tell_parted(number, other);
                    }
                    (disk, piece)
                }
                United::No => (disk, piece),
            };
            let next = later.last().filter(|next| next.row.number == number + 1);
            let next = next.and_then(Piece::begins);
            let above = (row.as_ref(), &found.generations[..]);
            let mended =
                if is_kept { None } else { self.with_above(&disk, (&piece, next), above)? };
            let (disk, piece) = match mended {
                Some(mended) => (Arc::clone(&mended), self.whole(&mended, number, row)?),
                None => (disk, piece),
            };
            let header = if is_kept {
                self.unread.insert(number);
                self.right_header(&disk, number, None)?
            } else {
                self.header_for(&disk, number, None)?
            };
            gathered
                .files
                .insert(paths::chunk(self.epoch, number), Source { disk, header, mended: None });
            return Ok(Some(piece));
        }
        Ok(None)
    }

    /// Tells that the file of chunk `number` in the folder of `disk` is of another copy.
    fn tell_parted(&mut self, number: u64, disk: &Arc<dyn Disk>) {
        self.tell(format!(
            "{} in {} has another history than the store: it is of another copy, and not used",
            paths::chunk(self.epoch, number),
            disk.root()
        ));
    }

    /// What collections have left of the chunk of `piece`, which is there whole: the file that its
    /// row names, or else the newest whose mapping is whole, or of one whose mapping is not what the chunk has not. That of an
    /// archive has no record that the chunk has not.
    fn beside(
        &mut self,
        piece: &Piece,
        Sought { number, row, found, later }: Sought<'_>,
        gathered: &mut Gathered,
        scratch: &Arc<dyn Disk>,
    ) -> Result<Option<Row>> {
        let generations = found.generations.clone();
        if row.is_some_and(|row| row.state.is_lower()) {
            return Ok(None);
        }
        if let Some(row) = row
            && let State::Sparse(SparseFile { generation, .. }) = row.state
            && generations.contains(&generation)
        {
            let named = (number, generation, None);
            let found = self.sparse(named, Some(row), &[], gathered, scratch)?;
            return Ok(found.and_then(|it| it.above));
        }
        let mut ranks = Vec::new();
        for generation in generations {
            ranks.push((self.is_verified(number, generation)?, generation));
        }
        ranks.sort_unstable();
        let whole: Vec<&Piece> = [piece].into_iter().chain(later).collect();
        while let Some((_, generation)) = ranks.pop() {
            let of = (number, generation, None);
            let found = self.sparse(of, None, &whole, gathered, scratch)?;
            if let Some(mut above) = found.and_then(|found| found.above) {
                // Where it has the end of this chunk, a copy's is known by that.
                if above.length - 1 + Seal::RECORD == piece.row.length {
                    above.chain = piece.row.chain;
                }
                return Ok(Some(above));
            }
        }
        Ok(None)
    }

    /// Why the file of the chunk of `row` is not read.
    fn lost(&self, row: &Row) -> String {
        let path = match row.state {
            State::Sparse(it) => paths::sparse_chunk(self.epoch, row.number, it.generation),
            _ => paths::chunk(self.epoch, row.number),
        };
        match &self.lower {
            None if row.state.is_lower() => {
                format!(
                    "{path} was moved to the lower folder, which was not given: repair with --lower"
                )
            }
            Some(lower) if row.state.is_lower() => {
                format!("{path} is not in the lower folder {}", lower.root())
            }
            _ => format!("{path} is not there"),
        }
    }

    /// Whether the store's folder has what a collection left of the chunk of `row`, as it was written. Then one of its number
    /// in the lower folder may be not needed, and another copy's.
    fn is_kept(&self, row: &Row) -> Result<bool> {
        let State::Sparse(SparseFile { generation, .. }) = row.state else { return Ok(false) };
        self.is_verified(row.number, generation)
    }

    /// Whether the mapping of what a collection left is as it was written.
    fn is_verified(&self, number: u64, generation: u64) -> Result<bool> {
        let path = paths::sparse_chunk(self.epoch, number, generation);
        let identity = paths::sparse_identity(self.store, self.epoch, number, generation);
        let file = self.source.open(&path, Mode::Read, Access::Buffered);
        match file.and_then(|file| sparse::verify(&*file, identity, generation)) {
            Err(error) if !is_loss(&error) => Err(error),
            verified => Ok(verified.is_ok()),
        }
    }

    /// What collections have left of it, in the newest of its files that can be read.
    fn collected(
        &mut self,
        Sought { number, row, found, later }: Sought<'_>,
        gathered: &mut Gathered,
        scratch: &Arc<dyn Disk>,
    ) -> Result<Option<Piece>> {
        let named = match row.map(|row| row.state) {
            Some(State::Sparse(sparse) | State::Both(sparse)) => Some(sparse.generation),
            Some(State::Gone) => Some(u64::MAX),
            Some(State::Whole | State::Lower) => Some(0),
            None => None,
        };
        let mut generations = found.generations.clone();
        generations.sort_unstable_by_key(|generation| (Some(*generation) == named, *generation));
        let limit = later.iter().rev().find_map(Piece::begins);
        while let Some(generation) = generations.pop() {
            // Of another generation the row knows neither how long it is nor of how many chunks.
            let row = row.filter(|_| Some(generation) == named);
            let of = (number, generation, limit);
            if let Some(piece) = self.sparse(of, row, &[], gathered, scratch)? {
                let last = self.control.as_ref().map(|control| control.last().number);
                let is_younger = last.is_some_and(|last| number > last);
                if is_younger || named.is_some_and(|named| generation > named) {
                    self.has_older_control = true;
                    self.tell(format!(
                        "{} is older than what collections have written since",
                        paths::CONTROL
                    ));
                }
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// The header that the file should have, if its own is damaged, which is told.
    fn header_for(
        &mut self,
        disk: &Arc<dyn Disk>,
        number: u64,
        generation: Option<u64>,
    ) -> Result<Option<[u8; header::LENGTH]>> {
        let right = self.right_header(disk, number, generation)?;
        if right.is_some() {
            let path = path_of((self.epoch, number, generation));
            let error = Error::corrupt(&path, 0, "the header of this chunk", "another");
            self.tell(error.detail().to_owned());
        }
        Ok(right)
    }

    /// The header that the file should have, if its own is damaged.
    fn right_header(
        &self,
        disk: &Arc<dyn Disk>,
        number: u64,
        generation: Option<u64>,
    ) -> Result<Option<[u8; header::LENGTH]>> {
        let path = path_of((self.epoch, number, generation));
        let kind = kind_of(generation);
        let identity = match generation {
            Some(generation) => paths::sparse_identity(self.store, self.epoch, number, generation),
            None => paths::chunk_identity(self.store, self.epoch, number),
        };
        let file = disk.open(&path, Mode::Read, Access::Buffered)?;
        let mut bytes = [0; header::LENGTH];
        let found = file.read_at(0, &mut bytes)?;
        let right = Header::new(kind, identity, self.store).encode();
        if Header::expect(&path, &bytes[..found], kind).is_ok_and(|it| it.identity == identity) {
            return Ok(None);
        }
        Ok(Some(right))
    }

    /// A whole chunk in the folder of `disk`.
    pub(super) fn whole(
        &self,
        disk: &Arc<dyn Disk>,
        number: u64,
        row: Option<Row>,
    ) -> Result<Piece> {
        let path = paths::chunk(self.epoch, number);
        let length = disk.open(&path, Mode::Read, Access::Buffered)?.len()?;
        let opening = match chunk_files::look_for(&**disk, self.store, self.epoch, number) {
            Ok(chunk_files::Found::Chunk(opening)) if opening.number == number => Some(opening),
            Err(error) if !is_loss(&error) => return Err(error),
            _ => None,
        };
        let base = row.map(|row| row.base).or(opening.map(|opening| opening.base));
        let chain = self.chain(disk, number, length)?.unwrap_or(0);
        // Without either it follows the one before, which is not known yet.
        let base = base.unwrap_or(if number == 0 { 0 } else { u64::MAX });
        let row = Row { number, count: 1, base, length, chain, state: State::Whole };
        Ok(Piece { row, opening, missing: None, above: None })
    }

    /// The checksum of the last batch of a chunk, where its end is whole.
    pub(super) fn chain(
        &self,
        disk: &Arc<dyn Disk>,
        number: u64,
        length: u64,
    ) -> Result<Option<u32>> {
        let path = paths::chunk(self.epoch, number);
        let file = disk.open(&path, Mode::Read, Access::Buffered)?;
        let last = length.saturating_sub(Seal::BATCH).max(Position::start().offset);
        let identity = paths::chunk_identity(self.store, self.epoch, number);
        let end = append::position_after(&*file, identity, last)?;
        Ok(end.filter(|end| end.offset == length).map(|end| end.chain))
    }

    /// The sparse chunk of this number and generation, before a logical offset if that is known, written anew in memory where
    /// its mapping is damaged; none when nothing in it can be found, or is needed beside the chunks that are there `whole`, or
    /// it is of another history than these.
    fn sparse(
        &mut self,
        (number, generation, limit): (u64, u64, Option<u64>),
        row: Option<Row>,
        whole: &[&Piece],
        gathered: &mut Gathered,
        scratch: &Arc<dyn Disk>,
    ) -> Result<Option<Piece>> {
        let path = paths::sparse_chunk(self.epoch, number, generation);
        let identity = paths::sparse_identity(self.store, self.epoch, number, generation);
        let file = self.source.open(&path, Mode::Read, Access::Buffered)?;
        let verified = match sparse::verify(&*file, identity, generation) {
            Err(error) if !is_loss(&error) => return Err(error),
            verified => verified,
        };
        // Of a collection that was cut off there may be one beside a chunk, which nobody needs.
        let is_told = whole.is_empty() || self.control.is_none();
        let header = if verified.is_ok() || is_told {
            self.header_for(&Arc::clone(&self.source), number, Some(generation))?
        } else {
            None
        };
        let mut bytes = Vec::new();
        if row.is_none() || verified.is_err() {
            bytes.resize(usize::try_from(file.len()?).unwrap_or(usize::MAX), 0);
            file.read_exact_at(0, &mut bytes)?;
        }
        let mut head = [0; PAGE];
        let count = file.read_at(0, &mut head)?;
        let opening = self.opening_of(&head[..count]);
        let base = row.map(|row| row.base).or(opening.map(|opening| opening.base));
        let base = base.or(whole.first().and_then(|piece| piece.begins()));
        let Some(base) = base else {
            self.tell(format!("{path} does not say where it begins, so nothing of it is found"));
            return Ok(None);
        };
        let end = row.map(|row| row.base + row.length).or(limit);
        let end = end.unwrap_or(base.saturating_add(1 << 31));
        let mut records = Vec::new();
        if row.is_none() || verified.is_err() {
            records = salvage::of_sparse(&bytes, (identity, self.store), &(base..end));
        }
        let found = SparseBytes { bytes: &bytes, base, is_verified: verified.is_ok() };
        let Some(records) = self.needed_beside(found, records, whole, gathered)? else {
            self.tell(format!(
                "{path} has another history than the store: it is of another copy, and not used"
            ));
            return Ok(None);
        };
        if verified.is_err() && records.is_empty() && !whole.is_empty() {
            return Ok(None);
        }
        let (mut disk, header) = (Arc::clone(&self.source), header.filter(|_| verified.is_ok()));
        let file = match verified {
            Ok(file) => file,
            Err(error) => {
                if is_told {
                    let count = records.len();
                    self.tell(format!("{}; {count} records are found without", error.detail()));
                    self.last_damage = self.last_damage.max(Some(end));
                }
                disk = Arc::clone(scratch);
                let of = (identity, self.store, generation);
                salvage::rewrite(scratch, &path, of, &bytes, &records)?
            }
        };
        gathered.files.insert(path, Source { disk, header, mended: None });
        let state = State::Sparse(file);
        if let Some(row) = row {
            let row = Row { state, ..row };
            return Ok(Some(Piece { row, opening, missing: None, above: Some(row) }));
        }
        let last = records.last();
        // What was written in full is longer than it was in the chunk.
        let length = last.map_or(0, |last| Self::end_of(&bytes, last));
        let length = limit.map_or(length, |limit| length.min(limit.saturating_sub(base)));
        let row = Row { number, count: 1, base, length, chain: 0, state };
        let above = Row { length: last.map_or(1, |last| last.distance + 1), ..row };
        Ok(Some(Piece { row, opening, missing: None, above: Some(above) }))
    }

    /// The opening in the bytes of a sparse file, its first record.
    pub(super) fn opening_of(&self, bytes: &[u8]) -> Option<Opening> {
        let rest = bytes.get(header::LENGTH..)?;
        let length = record::length(rest)? as usize;
        let found = record::split("", 0, rest.get(..length)?).ok()?;
        let opening = Opening::decode("", 0, found.body).ok()?;
        let offset = opening.base.checked_add(Opening::PLACE)?;
        let found = record::take("", 0, self.store, offset, rest).ok()?;
        (found.tag == Tag::Opening && opening.epoch == self.epoch).then_some(opening)
    }

    /// How far behind the begin of its chunk a record ends.
    fn end_of(bytes: &[u8], entry: &KeptRecord) -> u64 {
        let length = bytes.get(entry.place as usize..).and_then(record::length);
        entry.distance + length.unwrap_or(0)
    }
}
