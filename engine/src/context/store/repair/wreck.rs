//! What is known of a damaged store, and where its bytes are.
//!
//! Each chunk is read where it is whole, above or below, or as a collection has left it, whatever the control file says of it;
//! that only says where chunks begin, which commits count, and what branches and pins there were.

mod below;
mod parted;
mod place;
mod settle;

use std::sync::Arc;

use super::gathered::Gathered;
use super::salvage::{self, Records};
use crate::cache::Cache;
use crate::context::configuration::Configuration;
use crate::context::files::chunk::{Opening, Seal};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::commit::CommitBody;
use crate::context::files::control::{Control, Horizon, Row, State};
use crate::context::files::pack::Pack;
use crate::context::files::record::Tag;
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
    /// A sparse file that has some of its records, as a row that is not cut where another piece begins. They are read there
    /// first: what a collection writes otherwise than the chunk had it needs less.
    above: Option<Row>,
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

/// A chunk that is looked for.
#[derive(Clone, Copy)]
struct Sought<'a> {
    number: u64,
    /// What the control file says of it alone, or of it and those behind it.
    row: Option<Row>,
    found: &'a Candidates,
    /// Those behind it, the next one last.
    later: &'a [Piece],
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
    /// Whole chunks of which a collection has left all that is needed: read only where that is damaged.
    unread: BTreeSet<u64>,
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
            unread: BTreeSet::new(),
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

    /// Whether anything is damaged that was read, or not there.
    pub(super) fn is_damaged(&self) -> bool {
        !(self.damage.is_empty() && self.missing.is_empty())
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
                let whose = match whose(disk, &path, kind_of(chunk.2)) {
                    // Whoever needs it meets that again.
                    Err(error) if !is_above && error.kind() == Kind::Io => Whose::Damaged,
                    whose => whose?,
                };
                if let Whose::Store(store) = whose
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
            let sought = Sought { number, row, found: &found, later: &pieces };
            let piece = self.place(sought, &mut gathered, &scratch)?;
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
            pack.add_chunk(Arc::new(self.chunk_of(piece, pack.cache())));
        }
        self.pack = Arc::new(pack);
        Ok(())
    }

    fn chunk_of(&self, piece: &Piece, cache: &Cache) -> Chunk {
        let Row { number, base, length, state, .. } = piece.row;
        let collected = |row: &Row| Chunk::collected(cache, self.store, self.epoch, row);
        let mut chunk = match (state, &piece.above) {
            // Not believed to its end: its records say whether they are whole.
            (State::Whole, _) => Chunk::new(cache, self.store, self.epoch, number, base, length),
            (State::Sparse(_), Some(above)) => return collected(above),
            _ => collected(&piece.row),
        };
        chunk.above = piece.above.as_ref().map(|above| Arc::new(collected(above)));
        if chunk.above.is_some() && state == State::Whole && piece.missing.is_none() {
            // What is damaged above is read below, as that of an archive.
            chunk.state = State::Lower;
        }
        chunk
    }

    /// All commits and branches that can be found.
    pub(super) fn records(&mut self) -> Result<Records> {
        let mut records = Records::default();
        let mut last: Option<Arc<Chunk>> = None;
        for chunk in self.pack.chunks() {
            let above = chunk.above.as_ref().filter(|above| {
                last.replace(Arc::clone(above)).is_none_or(|last| last.path != above.path)
            });
            let is_read = chunk.above.is_none() || !self.unread.contains(&chunk.number);
            for chunk in [Some(&chunk).filter(|_| is_read), above].into_iter().flatten() {
                if let Err(error) = self.records_of(chunk, &mut records) {
                    if !is_loss(&error) {
                        return Err(error);
                    }
                    self.last_damage = self.last_damage.max(Some(chunk.logical_end()));
                    self.note(&error);
                }
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
                    // The whole chunk may have it, of which not all is read.
                    Err(error) => commit_at(&self.pack, offset).map_err(|_| error),
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
        let is_read = |piece: &Piece| !piece.lacks() && !self.unread.contains(&piece.row.number);
        let lacks = self.pieces.iter().any(|piece| !is_read(piece) && end(piece) > known);
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
    let lower = Some(Arc::clone(&disk));
    let options = Options { hashes_file_bytes: 0, lower, ..Options::default() };
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
