//! What is known of a damaged store, and where its bytes are.
//!
//! Each chunk is read where it is whole, above or below, or as a collection has left it, whatever the control file says of it;
//! that only says where chunks begin, which commits count, and what branches and pins there were.

mod below;
mod settle;

use std::sync::Arc;

use super::gathered::{Gathered, Source};
use super::salvage::{self, Records};
use crate::cache::Cache;
use crate::context::configuration::Configuration;
use crate::context::files::chunk::{Opening, Seal};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::commit::CommitBody;
use crate::context::files::control::{Control, Horizon, Row, State};
use crate::context::files::pack::Pack;
use crate::context::files::record::{self, Tag};
use crate::context::files::sparse::{self, KeptRecord, SparseFile};
use crate::context::files::{chunk_files, paths};
use crate::context::hash::CommitHash;
use crate::context::options::{Index, Options};
use crate::context::store::load::read_control;
use crate::disk::memory::MemoryDisk;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, HEAD, Position};
use crate::format::header::{self, FileKind, Header};
use crate::order::{BTreeMap, BTreeSet};

/// Memory for pages of the damaged store.
const PAGES_BYTES: u64 = 16 << 20;

/// Whether the error is of the damaged store, which costs what is read; another ends the repair.
pub(super) fn is_loss(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::Missing | Kind::Collected | Kind::Invalid)
}

/// One chunk, or several in one sparse file, as it can be read.
struct Piece {
    row: Row,
    /// What its opening says, where that is whole.
    opening: Option<Opening>,
    /// Why it is not there at all, if it is not.
    missing: Option<String>,
}

impl Piece {
    /// Nothing of it can be read, or not all of it.
    fn lacks(&self) -> bool {
        self.missing.is_some() || self.row.state != State::Whole
    }

    /// Logical offset at which it begins, if a file says so.
    fn begins(&self) -> Option<u64> {
        let has_file = self.missing.is_none() && self.row.state != State::Gone;
        Some(self.row.base).filter(|base| has_file && *base != u64::MAX)
    }
}

/// The files that may be a chunk.
#[derive(Default)]
struct Candidates {
    above: bool,
    below: bool,
    generations: Vec<u64>,
}

pub(super) struct Wreck {
    source: Arc<dyn Disk>,
    lower: Option<Arc<dyn Disk>>,
    store: u64,
    epoch: u64,
    pub(super) configuration: Configuration,
    pub(super) index: Index,
    /// None when it is damaged, not there, or of another store.
    pub(super) control: Option<Control>,
    /// Collections have written files that the control file does not name, so it is of before them.
    has_older_control: bool,
    pub(super) pack: Arc<Pack>,
    pieces: Vec<Piece>,
    /// The last logical offset at which something is not as it was written.
    last_damage: Option<u64>,
    damage: BTreeSet<String>,
    missing: BTreeSet<String>,
    unfinished: BTreeSet<String>,
}

/// Whose a file is, as its header says.
enum Whose {
    Store(u64),
    Damaged,
}

/// `Version` when a newer release has written the file.
fn whose(disk: &Arc<dyn Disk>, path: &str, kind: FileKind) -> Result<Whose> {
    let file = disk.open(path, Mode::Read, Access::Buffered)?;
    let mut bytes = [0; header::LENGTH];
    let found = file.read_at(0, &mut bytes)?;
    match Header::expect(path, &bytes[..found], kind) {
        Ok(header) => Ok(Whose::Store(header.store)),
        Err(error) if error.kind() == Kind::Version => Err(error.context(
            "another release has written a part of the store, and what this one cannot read is no damage",
        )),
        Err(_) => Ok(Whose::Damaged),
    }
}

/// The chunks of a folder: epoch, number and generation.
fn chunks(disk: &Arc<dyn Disk>) -> Result<Vec<(u64, u64, Option<u64>)>> {
    let names = disk.list("")?;
    Ok(names.iter().filter_map(|name| paths::parse_chunk(name)).collect())
}

fn path_of((epoch, number, generation): (u64, u64, Option<u64>)) -> String {
    match generation {
        Some(generation) => paths::sparse_chunk(epoch, number, generation),
        None => paths::chunk(epoch, number),
    }
}

fn kind_of(generation: Option<u64>) -> FileKind {
    if generation.is_some() { FileKind::Sparse } else { FileKind::Pack }
}

impl Wreck {
    /// Finds out what store it was, and where each of its chunks can be read. `Missing` when nothing is left, `Version` when
    /// a newer release has written some of it.
    pub(super) fn find(source: &Arc<dyn Disk>, lower: Option<&Arc<dyn Disk>>) -> Result<Wreck> {
        let mut damage = BTreeSet::new();
        let mut control = find_control(source, &mut damage)?;
        let (above, mut stores) = (chunks(source)?, BTreeMap::new());
        for chunk in &above {
            if let Whose::Store(store) = whose(source, &path_of(*chunk), kind_of(chunk.2))? {
                *stores.entry(store).or_insert(0_u64) += 1;
            }
        }
        if let Some(found) = &control
            && !stores.is_empty()
            && !stores.contains_key(&found.store)
        {
            damage.insert(format!(
                "{} is of another store than all chunks, so it is not used",
                paths::CONTROL
            ));
            control = None;
        }
        let below = lower.map(chunks).transpose()?.unwrap_or_default();
        if stores.is_empty() && control.is_none() {
            let lower = lower.iter().flat_map(|lower| below.iter().map(move |it| (*lower, it)));
            for (lower, chunk) in lower {
                if let Whose::Store(store) = whose(lower, &path_of(*chunk), kind_of(chunk.2))? {
                    *stores.entry(store).or_insert(0) += 1;
                }
            }
        }
        let most = stores.iter().max_by_key(|(store, count)| (**count, u64::MAX - **store));
        let store = control.as_ref().map(|control| control.store).or(most.map(|most| *most.0));
        let Some(store) = store else {
            return Err(Error::missing(format!(
                "{} has no control file and no chunk that says whose it is: nothing is left of a store",
                source.root()
            )));
        };
        let of = if above.is_empty() { &below } else { &above };
        let epoch = match &control {
            Some(control) => control.epoch,
            None => newest_epoch(source, store, of, &mut damage)?,
        };
        let (configuration, index) = control.as_ref().map_or_else(
            || (Configuration::TEZOS, Index::Minimal),
            |control| (control.configuration, control.index),
        );
        let nothing: Arc<dyn Disk> = Arc::new(Gathered::default());
        let mut wreck = Wreck {
            source: Arc::clone(source),
            lower: lower.map(Arc::clone),
            store,
            epoch,
            configuration,
            index,
            control,
            has_older_control: false,
            pack: Arc::new(pack_over(nothing, store, epoch)),
            pieces: Vec::new(),
            last_damage: None,
            damage,
            missing: BTreeSet::new(),
            unfinished: BTreeSet::new(),
        };
        wreck.gather(&above, &below)?;
        Ok(wreck)
    }

    pub(super) fn note(&mut self, error: &Error) {
        let all = if error.kind() == Kind::Missing { &mut self.missing } else { &mut self.damage };
        all.insert(error.detail().to_owned());
    }

    pub(super) fn tell(&mut self, damage: String) {
        self.damage.insert(damage);
    }

    /// What is damaged, what is not there, and what was not finished.
    pub(super) fn told(self) -> [Vec<String>; 3] {
        [self.damage, self.missing, self.unfinished].map(|told| told.into_iter().collect())
    }

    pub(super) fn horizon(&self) -> Horizon {
        self.control.as_ref().map(|control| control.horizon.clone()).unwrap_or_default()
    }

    /// Finds a place for each chunk, from the newest down, since each names the one before.
    fn gather(
        &mut self,
        above: &[(u64, u64, Option<u64>)],
        below: &[(u64, u64, Option<u64>)],
    ) -> Result<()> {
        let mut candidates: BTreeMap<u64, Candidates> = BTreeMap::new();
        let source = Arc::clone(&self.source);
        let (lower, epoch) = (self.lower.clone(), self.epoch);
        for (disk, chunks) in [(Some(&source), above), (lower.as_ref(), below)] {
            let Some(disk) = disk else { continue };
            for chunk in chunks.iter().filter(|chunk| chunk.0 == epoch) {
                let is_above = Arc::ptr_eq(disk, &source);
                if !is_above && chunk.2.is_some() {
                    continue;
                }
                let path = path_of(*chunk);
                if let Whose::Store(store) = whose(disk, &path, kind_of(chunk.2))?
                    && store != self.store
                {
                    self.tell(format!(
                        "{path} in {} is of another store, so it is not used",
                        disk.root()
                    ));
                    continue;
                }
                let found = candidates.entry(chunk.1).or_default();
                match chunk.2 {
                    Some(generation) => found.generations.push(generation),
                    None if is_above => found.above = true,
                    None => found.below = true,
                }
            }
        }
        let rows = self.control.as_ref().map(|control| control.chunks.clone()).unwrap_or_default();
        for row in &rows {
            candidates.entry(row.number).or_default();
        }
        let newest = above.iter().filter(|chunk| chunk.0 == self.epoch).map(|chunk| chunk.1).max();
        let newest = newest.max(rows.last().map(|row| row.number));
        let mut gathered = Gathered::default();
        let scratch: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let mut pieces: Vec<Piece> = Vec::new();
        for (number, found) in candidates.into_iter().rev() {
            if newest.is_some_and(|newest| number > newest) {
                self.tell(format!(
                    "{} in the lower folder is younger than all of the store, so it is of another copy, and not used",
                    paths::chunk(self.epoch, number)
                ));
                continue;
            }
            let row = self.control.as_ref().and_then(|control| control.row(number)).copied();
            let row = row.filter(|row| row.number == number);
            let piece = self.place(number, row, &found, &pieces, &mut gathered, &scratch)?;
            pieces.extend(piece);
        }
        pieces.reverse();
        self.settle(pieces, &mut gathered);
        let mut known = self.pieces.iter().filter_map(|piece| piece.opening);
        if self.control.is_none() {
            match known.next() {
                Some(opening) => {
                    (self.configuration, self.index) = (opening.configuration, opening.index);
                }
                None => self.tell(
                    "no chunk says how hashes are made, so those of Tezos are tried".to_owned(),
                ),
            }
        }
        let pack = pack_over(Arc::new(gathered), self.store, self.epoch);
        for piece in &self.pieces {
            let Row { number, base, length, state, .. } = piece.row;
            let chunk = match state {
                // Not believed to its end: its records say whether they are whole.
                State::Whole => {
                    Chunk::new(pack.cache(), self.store, self.epoch, number, base, length)
                }
                _ => Chunk::collected(pack.cache(), self.store, self.epoch, &piece.row),
            };
            pack.add_chunk(Arc::new(chunk));
        }
        self.pack = Arc::new(pack);
        Ok(())
    }

    /// The chunk of this number, of which those behind it are in `later`, the next one last; none where nothing was ever
    /// said of one.
    fn place(
        &mut self,
        number: u64,
        row: Option<Row>,
        found: &Candidates,
        later: &[Piece],
        gathered: &mut Gathered,
        scratch: &Arc<dyn Disk>,
    ) -> Result<Option<Piece>> {
        let mut places = Vec::new();
        if found.above {
            places.push((Arc::clone(&self.source), false));
        }
        let is_kept = row.map_or(Ok(false), |row| self.is_kept(&row))?;
        if let Some(lower) = self.lower.as_ref().filter(|_| found.below && !is_kept) {
            places.push((Arc::clone(lower), true));
        }
        // Where both are there, a move was cut off between them, and either may be damaged since.
        if places.len() > 1 && !self.is_sound(&places[0].0, number)? {
            places.reverse();
        }
        for (disk, is_below) in places {
            let piece = self.whole(&disk, number, row)?;
            if is_below && !self.is_ours(&disk, &piece, row, later.last())? {
                self.tell(format!(
                    "{} in {} has another history than the store: it is of another copy, and not used",
                    paths::chunk(self.epoch, number),
                    disk.root()
                ));
                continue;
            }
            let next = later.last().filter(|next| next.row.number == number + 1);
            let next = next.and_then(Piece::begins);
            let above = (row.as_ref(), &found.generations[..]);
            let (disk, piece) = match self.with_above(&disk, (&piece, next), above)? {
                Some(mended) => (Arc::clone(&mended), self.whole(&mended, number, row)?),
                None => (disk, piece),
            };
            let header = self.header_for(&disk, number, None)?;
            gathered
                .files
                .insert(paths::chunk(self.epoch, number), Source { disk, header, mended: None });
            return Ok(Some(piece));
        }
        let why = row.map(|row| self.lost(&row));
        if let Some(piece) = self.collected(number, row, found, later, gathered, scratch)? {
            if row.is_some_and(|row| row.state.is_lower()) {
                // It has what recent commits need of the chunk.
                self.missing.extend(why);
            }
            return Ok(Some(piece));
        }
        let (Some(row), Some(why)) = (row, why) else { return Ok(None) };
        if row.state == State::Gone {
            return Ok(Some(Piece { row, opening: None, missing: None }));
        }
        let row = Row { state: State::Whole, ..row };
        Ok(Some(Piece { row, opening: None, missing: Some(why) }))
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
    /// in the lower folder is not needed, and may be another copy's.
    fn is_kept(&self, row: &Row) -> Result<bool> {
        let State::Sparse(SparseFile { generation, .. }) = row.state else { return Ok(false) };
        let path = paths::sparse_chunk(self.epoch, row.number, generation);
        let identity = paths::sparse_identity(self.store, self.epoch, row.number, generation);
        let file = self.source.open(&path, Mode::Read, Access::Buffered);
        match file.and_then(|file| sparse::verify(&*file, identity, generation)) {
            Err(error) if !is_loss(&error) => Err(error),
            verified => Ok(verified.is_ok()),
        }
    }

    /// What collections have left of the chunk of this number, in the newest of its files that can be read.
    fn collected(
        &mut self,
        number: u64,
        row: Option<Row>,
        found: &Candidates,
        later: &[Piece],
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
            if let Some(piece) = self.sparse(of, row, gathered, scratch)? {
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

    /// The header that the file should have, if its own is damaged.
    fn header_for(
        &mut self,
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
        self.tell(
            Error::corrupt(&path, 0, "the header of this chunk", "another").detail().to_owned(),
        );
        Ok(Some(right))
    }

    /// A whole chunk in the folder of `disk`.
    fn whole(&self, disk: &Arc<dyn Disk>, number: u64, row: Option<Row>) -> Result<Piece> {
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
        Ok(Piece { row, opening, missing: None })
    }

    /// The checksum of the last batch of a chunk, where its end is whole.
    fn chain(&self, disk: &Arc<dyn Disk>, number: u64, length: u64) -> Result<Option<u32>> {
        let path = paths::chunk(self.epoch, number);
        let file = disk.open(&path, Mode::Read, Access::Buffered)?;
        let last = length.saturating_sub(Seal::BATCH).max(Position::start().offset);
        let identity = paths::chunk_identity(self.store, self.epoch, number);
        let end = append::position_after(&*file, identity, last)?;
        Ok(end.filter(|end| end.offset == length).map(|end| end.chain))
    }

    /// The sparse chunk of this number and generation, before a logical offset if that is known, written anew in memory where
    /// its mapping is damaged; none when nothing in it can be found.
    fn sparse(
        &mut self,
        (number, generation, limit): (u64, u64, Option<u64>),
        row: Option<Row>,
        gathered: &mut Gathered,
        scratch: &Arc<dyn Disk>,
    ) -> Result<Option<Piece>> {
        let path = paths::sparse_chunk(self.epoch, number, generation);
        let identity = paths::sparse_identity(self.store, self.epoch, number, generation);
        let header = self.header_for(&Arc::clone(&self.source), number, Some(generation))?;
        let file = self.source.open(&path, Mode::Read, Access::Buffered)?;
        let verified = sparse::verify(&*file, identity, generation);
        let mut bytes = Vec::new();
        if row.is_none() || verified.is_err() {
            bytes.resize(usize::try_from(file.len()?).unwrap_or(usize::MAX), 0);
            file.read_exact_at(0, &mut bytes)?;
        }
        let opening = self.opening_of(&bytes);
        let Some(base) = row.map(|row| row.base).or(opening.map(|opening| opening.base)) else {
            self.tell(format!("{path} does not say where it begins, so nothing of it is found"));
            return Ok(None);
        };
        let end = row.map(|row| row.base + row.length).or(limit);
        let end = end.unwrap_or(base.saturating_add(1 << 31));
        let found = || salvage::of_sparse(&bytes, (identity, self.store), &(base..end));
        let (file, records) = match verified {
            Ok(file) => {
                let source = Source { disk: Arc::clone(&self.source), header, mended: None };
                gathered.files.insert(path, source);
                (file, if row.is_some() { Vec::new() } else { found() })
            }
            Err(error) if is_loss(&error) => {
                let found = found();
                let of = (identity, self.store, generation);
                let file = salvage::rewrite(scratch, &path, of, &bytes, &found)?;
                let count = found.len();
                self.tell(format!("{}; {count} records are found without", error.detail()));
                self.last_damage = self.last_damage.max(Some(end));
                gathered
                    .files
                    .insert(path, Source { disk: Arc::clone(scratch), header: None, mended: None });
                (file, found)
            }
            Err(error) => return Err(error),
        };
        let row = row.unwrap_or_else(|| {
            let length = records.last().map_or(0, |last| Self::end_of(&bytes, last));
            // What was written in full is longer than it was in the chunk.
            let length = limit.map_or(length, |limit| length.min(limit.saturating_sub(base)));
            Row { number, count: 1, base, length, chain: 0, state: State::Gone }
        });
        let row = Row { state: State::Sparse(file), ..row };
        Ok(Some(Piece { row, opening, missing: None }))
    }

    /// The opening in the bytes of a sparse file, its first record.
    fn opening_of(&self, bytes: &[u8]) -> Option<Opening> {
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

    /// All commits and branches that can be found.
    pub(super) fn records(&mut self) -> Result<Records> {
        let mut records = Records::default();
        for chunk in self.pack.chunks() {
            if let Err(error) = self.records_of(&chunk, &mut records) {
                if !is_loss(&error) {
                    return Err(error);
                }
                self.last_damage = self.last_damage.max(Some(chunk.logical_end()));
                self.note(&error);
            }
        }
        Ok(records)
    }

    fn records_of(&mut self, chunk: &Arc<Chunk>, into: &mut Records) -> Result<()> {
        if !chunk.has_file() {
            return Ok(());
        }
        if !chunk.is_whole() {
            let mut reader = ChunkReader::open(&self.pack, Arc::clone(chunk))?;
            for (offset, is_object) in self.pack.kept_records(chunk)? {
                let found = match reader.named(&self.pack, offset) {
                    Ok((Tag::Commit, _)) if is_object => commit_at(&self.pack, offset),
                    Ok(_) => continue,
                    Err(error) => Err(error),
                };
                match found {
                    Ok(found) => drop(into.commits.insert(offset, found)),
                    // It costs what needs it.
                    Err(error) if is_loss(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        let file = self.pack.files.get(chunk)?;
        let damaged = salvage::whole(&*file, (chunk.identity, self.store, chunk.base), into)?;
        if let Some((first, last)) = damaged {
            if let Some((end, told)) = self.cut_off(chunk, &*file, into)? {
                self.unfinished.insert(told);
                // An opening would remove them, and so some of what they need may be lost.
                into.commits.retain(|offset, _| *offset < chunk.base + end);
                into.references.retain(|offset, _| *offset < chunk.base + end);
                return Ok(());
            }
            self.last_damage = self.last_damage.max(Some(chunk.base + last));
            self.note(&Error::corrupt(&chunk.path, first, "a batch", "none that is whole"));
            return Ok(());
        }
        let newest = self.pack.last_chunk().number;
        let length = file.len()?;
        if chunk.number != newest && self.chain_of(chunk, length)?.is_none() {
            return Err(Error::corrupt(&chunk.path, length, "the end of the chunk", "none"));
        }
        Ok(())
    }

    /// Where the last chunk ends, and what is to be said of bytes behind it that the next opening would have removed, as a
    /// check passes over them: neither the control file nor a batch behind them says that they were ever durable, and no
    /// batch behind them has a commit.
    fn cut_off(
        &self,
        chunk: &Arc<Chunk>,
        file: &dyn File,
        found: &Records,
    ) -> Result<Option<(u64, String)>> {
        let Some(control) = self.control.as_ref().filter(|_| !self.has_older_control) else {
            return Ok(None);
        };
        if chunk.number != self.pack.last_chunk().number {
            return Ok(None);
        }
        let end = match append::scan(file, chunk.identity, Position::start(), |_, _| Ok(())) {
            Ok(scan) => scan.end.offset,
            Err(error) if is_loss(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let known = (control.checkpoint.chunk, control.checkpoint.position.offset);
        // Commits that nobody has synced do not say so, and a kill loses none of them.
        let (_, behind) = append::count_behind(file, chunk.identity, end)?;
        let is_more = behind.is_some_and(|place| found.go_on_from(chunk.base + place));
        if known > (chunk.number, end) || is_more {
            return Ok(None);
        }
        let bytes = append::unfinished_bytes(file, end)?;
        let (path, s) = (&chunk.path, if bytes == 1 { "" } else { "s" });
        let told = format!(
            "{path} has {bytes} byte{s} behind its last batch, at byte {end}, of one that was cut off: if it had been \
             acknowledged, it is lost"
        );
        Ok(Some((end, told)))
    }

    fn chain_of(&self, chunk: &Arc<Chunk>, length: u64) -> Result<Option<u32>> {
        let last = length.saturating_sub(Seal::BATCH).max(Position::start().offset);
        let end = append::position_after(&*self.pack.files.get(chunk)?, chunk.identity, last)?;
        Ok(end
            .filter(|end| end.offset == length && last + HEAD as u64 <= length)
            .map(|it| it.chain))
    }

    /// From which logical offset on records of branches say more than the control file, and whether some of them may be
    /// lost, so that what is known of branches may be older than they were.
    pub(super) fn branches_from(&self) -> (u64, bool) {
        let known = self.control.as_ref().map_or(0, Control::reaches);
        let is_hit = self.last_damage.is_some_and(|last| last >= known);
        let end = |piece: &Piece| piece.row.base + piece.row.length;
        let lacks = self.pieces.iter().any(|piece| piece.lacks() && end(piece) > known);
        let begins = self.pieces.first().is_some_and(|first| first.row.number > 0) && known == 0;
        let is_short = self.pieces.last().is_some_and(|last| end(last) < known);
        (known, is_hit || lacks || begins || is_short)
    }

    /// Whether the control file says which commits were collected.
    pub(super) fn knows_horizon(&self) -> bool {
        self.control.is_some() && !self.has_older_control
    }

    /// Logical offset from which on all commits should be there, one for each sequence number, and the first of these
    /// numbers, where it is known.
    pub(super) fn whole_from(&self) -> (u64, Option<u64>) {
        let horizon = self.horizon();
        if self.knows_horizon() && horizon.commit > 0 {
            return (horizon.commit, Some(horizon.sequence));
        }
        let control = self.control.as_ref();
        // What is above of one in the lower folder is not all that was to stay.
        let is_archived = |row: &Row| {
            control.and_then(|it| it.row(row.number)).is_some_and(|row| row.state.is_lower())
        };
        let last = self.pieces.iter().rfind(|piece| {
            matches!(piece.row.state, State::Sparse(_) | State::Gone) && !is_archived(&piece.row)
        });
        let line = last.map_or(0, |last| last.row.base + last.row.length).max(horizon.offset);
        (line, (line == 0).then_some(0))
    }

    /// Whether the folder is that of a store, and not one to which it has moved chunks.
    pub(super) fn is_store(&self) -> Result<bool> {
        let has = |name| self.source.exists(name);
        Ok(self.control.is_some() || has(paths::LOCK)? || has(paths::INDEX)?)
    }
}

fn pack_over(disk: Arc<dyn Disk>, store: u64, epoch: u64) -> Pack {
    let options = Options { hashes_file_bytes: 0, ..Options::default() };
    Pack::new(disk, (store, epoch), Cache::new(PAGES_BYTES), &options)
}

/// The control file, and of what epoch the chunks say that the store is by now.
fn find_control(source: &Arc<dyn Disk>, damage: &mut BTreeSet<String>) -> Result<Option<Control>> {
    let control = match Control::read(&**source) {
        Ok(control) => control,
        Err(error) if error.kind() == Kind::Missing => {
            damage.insert(format!("{} is not there", paths::CONTROL));
            return Ok(None);
        }
        Err(error) if is_loss(&error) => {
            damage.insert(error.detail().to_owned());
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    match read_control(&**source) {
        Ok(control) => Ok(Some(control)),
        Err(error) if is_loss(&error) => {
            damage.insert(error.detail().to_owned());
            Ok(Some(control))
        }
        Err(error) => Err(error),
    }
}

/// The epoch of the newest history: a first chunk with nothing but its opening is what a clearing has begun.
fn newest_epoch(
    source: &Arc<dyn Disk>,
    store: u64,
    chunks: &[(u64, u64, Option<u64>)],
    damage: &mut BTreeSet<String>,
) -> Result<u64> {
    let epochs: BTreeSet<u64> = chunks.iter().map(|chunk| chunk.0).collect();
    let newest = epochs.last().copied().unwrap_or(0);
    let mut chosen = newest;
    for epoch in epochs.iter().rev().copied() {
        chosen = epoch;
        let more = chunks.iter().any(|chunk| chunk.0 == epoch && (chunk.1, chunk.2) != (0, None));
        if more || chunk_files::is_begun(&**source, store, epoch)? {
            break;
        }
        chosen = newest;
    }
    if epochs.len() > 1 {
        damage.insert(format!(
            "there are chunks of {} epochs, of before and after the store was cleared, and {} would say which counts: \
             {chosen} is taken, the newest that has more than a beginning",
            epochs.len(),
            paths::CONTROL
        ));
    }
    Ok(chosen)
}

pub(super) fn commit_at(pack: &Pack, offset: u64) -> Result<(CommitHash, CommitBody)> {
    pack.record(offset, |file, place, record| match record.tag {
        Tag::Commit => {
            Ok((record.hash.into(), CommitBody::decode(file, place, offset, record.body)?))
        }
        other => Err(Error::corrupt(file, place, "a commit", format_args!("{other:?}"))),
    })
}
