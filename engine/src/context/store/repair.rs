//! A new store of the commits that are whole in a damaged one.
//!
//! Nothing of the old store is believed but what has a checksum of its own: a table of chunks that is whole, the
//! heads of batches, records. A commit counts when the new store, which takes over what differs from the commit
//! before, comes to its hash. Design: `docs/design/durability.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::load::read_control;
use super::{CommitInfo, Store};
use crate::cache::Cache;
use crate::context::configuration::Configuration;
use crate::context::files::chunk_files::{self, Chunk, Found};
use crate::context::files::commit::CommitBody;
use crate::context::files::control::{Control, Row, State};
use crate::context::files::pack::Pack;
use crate::context::files::paths;
use crate::context::files::record::{self, Tag};
use crate::context::hash::{self, CommitHash};
use crate::context::options::{Index, Options};
use crate::context::pieces::node::{Load, Slot};
use crate::context::tree::{Change, Tree};
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append;
use crate::format::header::{self, FileKind, Header};

/// Memory for pages of the damaged store.
const PAGES_BYTES: u64 = 16 << 20;

/// A commit that is not in the new store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostCommit {
    /// Its hash.
    pub commit: CommitHash,
    /// What of it is damaged or missing, with the file.
    pub detail: String,
}

/// What a repair has kept, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// How many commits are in the new store.
    pub commits: u64,
    /// The newest of them.
    pub last_commit: Option<CommitHash>,
    /// Commits that are not, the oldest first. Those of which nothing is known are not among them.
    pub lost: Vec<LostCommit>,
    /// Branches that are as they were.
    pub branches: u64,
    /// Branches whose commit is lost, with the commit that each named.
    pub lost_branches: Vec<(Vec<u8>, CommitHash)>,
    /// What is damaged, a sentence each, files of which no commit that is known has need among them, and places where a
    /// commit was that a kept one names as the one before.
    pub damage: Vec<String>,
    /// What is not there, a sentence each: chunks, of the lower folder too.
    pub missing: Vec<String>,
}

/// What is known of a damaged store.
struct Wreck {
    source: Arc<dyn Disk>,
    lower: Option<Arc<dyn Disk>>,
    store: u64,
    epoch: u64,
    configuration: Configuration,
    index: Index,
    /// None when its file is damaged or not there.
    control: Option<Control>,
    damage: BTreeSet<String>,
    missing: BTreeSet<String>,
}

/// What records say that are whole by themselves.
#[derive(Default)]
struct Records {
    /// By logical offset.
    commits: BTreeMap<u64, (CommitHash, CommitBody)>,
    /// Branches that were set, or removed by a hash of zeros, by logical offset.
    references: BTreeMap<u64, (Vec<u8>, CommitHash)>,
}

impl Store {
    /// Makes a new store on `target` of the commits that are whole in the damaged one on `source`, whose old chunks
    /// are in `lower` if it is an archive. Nothing is written to the old ones, and nobody may write to them meanwhile.
    /// Every commit of the new store has the hash that it had. Its index is new; branches are there whose commits
    /// are, and pins.
    ///
    /// What differs from the commit before is read of each, so a damage costs the commits that have what it
    /// hit, and no others. Of a store that has collected, or moved chunks, the control file says what is left of old chunks;
    /// where that is damaged too, what is in whole chunks is kept, and a sentence of the damage counts the other files.
    ///
    /// `watch` is told how many commits were looked at, of how many; its error ends the repair. `Exists` when `target`
    /// has a store, `Missing` when `source` has nothing of one.
    pub fn repair(
        source: &Arc<dyn Disk>,
        lower: Option<&Arc<dyn Disk>>,
        target: Arc<dyn Disk>,
        watch: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Repaired> {
        let mut wreck = Wreck::find(source, lower)?;
        let (configuration, index) = (wreck.configuration, wreck.index);
        let mut copy =
            Store::create(target, Options { configuration, index, ..Options::default() })?;
        let packs = wreck.packs()?;
        let records = wreck.records(&packs[0]);
        let mut repaired = Repaired::default();
        let mut kept: HashMap<CommitHash, u64> = HashMap::new();
        let mut last = None;
        for (passed, (offset, (commit, body))) in (1..).zip(&records.commits) {
            watch(passed, records.commits.len() as u64)?;
            if kept.contains_key(commit) {
                continue;
            }
            let before = body.parents.iter().find(|parent| kept.contains_key(*parent)).copied();
            let before = before.or(last).map(|before: CommitHash| (before, kept[&before]));
            // Where chunks are below and above each copy may have what the other has not.
            let mut outcome = Ok(());
            for pack in &packs {
                outcome = wreck.copy(pack, &mut copy, before, *commit, body);
                match &outcome {
                    Err(error) if is_loss(error) => {}
                    _ => break,
                }
            }
            match outcome {
                Ok(()) => {
                    kept.insert(*commit, *offset);
                    last = Some(*commit);
                    copy.maintain()?;
                }
                Err(error) if is_loss(&error) => {
                    wreck.note(&error);
                    let detail = error.detail().to_owned();
                    repaired.lost.push(LostCommit { commit: *commit, detail });
                }
                Err(error) => return Err(error),
            }
        }
        for (name, commit) in wreck.branches(&records) {
            if kept.contains_key(&commit) {
                copy.set_branch(&name, &commit)?;
                repaired.branches += 1;
            } else {
                repaired.lost_branches.push((name, commit));
            }
        }
        for pin in wreck.control.iter().flat_map(|control| &control.pins) {
            if let Some((commit, _)) =
                records.commits.get(pin).filter(|it| kept.contains_key(&it.0))
            {
                copy.pin(commit)?;
            }
        }
        copy.close()?;
        repaired.commits = kept.len() as u64;
        repaired.last_commit = last;
        repaired.damage = wreck.damage.into_iter().collect();
        repaired.missing = wreck.missing.into_iter().collect();
        Ok(repaired)
    }
}

/// Whether the error is of the damaged store, which costs what is read; another ends the repair.
fn is_loss(error: &Error) -> bool {
    matches!(
        error.kind(),
        Kind::Corrupt | Kind::Missing | Kind::Collected | Kind::Invalid | Kind::Version
    )
}

impl Wreck {
    /// Finds out what store it was.
    fn find(source: &Arc<dyn Disk>, lower: Option<&Arc<dyn Disk>>) -> Result<Wreck> {
        let mut damage = BTreeSet::new();
        let control = match read_control(&**source) {
            Ok(control) => Some(control),
            Err(error) if is_loss(&error) => {
                damage.insert(error.detail().to_owned());
                None
            }
            Err(error) => return Err(error),
        };
        let (store, epoch, configuration, index) = match &control {
            Some(control) => (control.store, control.epoch, control.configuration, control.index),
            None => {
                let names = source.list("")?;
                let found = names.iter().filter_map(|name| paths::parse_chunk(name));
                let left = found.filter(|(.., generation)| generation.is_some()).count();
                if left > 0 {
                    damage.insert(format!(
                        "{left} sparse files are not read: which records of which chunks they have, {} said",
                        paths::CONTROL
                    ));
                }
                Self::of_chunks(source, lower)?
            }
        };
        Ok(Wreck {
            source: Arc::clone(source),
            lower: lower.map(Arc::clone),
            store,
            epoch,
            configuration,
            index,
            control,
            damage,
            missing: BTreeSet::new(),
        })
    }

    /// What the first chunk that can be read says of its store, of those of the newest epoch.
    fn of_chunks(
        source: &Arc<dyn Disk>,
        lower: Option<&Arc<dyn Disk>>,
    ) -> Result<(u64, u64, Configuration, Index)> {
        let mut chunks = Vec::new();
        for disk in std::iter::once(source).chain(lower) {
            let names = disk.list("")?;
            let found = names.iter().filter_map(|name| paths::parse_chunk(name));
            let whole = found.filter(|(.., generation)| generation.is_none());
            chunks.extend(whole.map(|(epoch, number, _)| (epoch, number, disk)));
        }
        let newest = chunks.iter().map(|chunk| chunk.0).max();
        chunks.retain(|chunk| Some(chunk.0) == newest);
        for (epoch, number, disk) in chunks {
            let path = paths::chunk(epoch, number);
            let file = disk.open(&path, Mode::Read, Access::Buffered)?;
            let mut bytes = [0; header::LENGTH];
            let found = file.read_at(0, &mut bytes)?;
            let Ok(header) = Header::expect(&path, &bytes[..found], FileKind::Pack) else {
                continue;
            };
            if let Ok(Found::Chunk(opening)) =
                chunk_files::look_for(&**disk, header.store, epoch, number)
            {
                return Ok((header.store, epoch, opening.configuration, opening.index));
            }
        }
        Err(Error::missing(format!(
            "{} has no control file and no chunk that can be read: nothing is left of a store",
            source.root()
        )))
    }

    fn note(&mut self, error: &Error) {
        let all = if error.kind() == Kind::Missing { &mut self.missing } else { &mut self.damage };
        all.insert(error.detail().to_owned());
    }

    /// The pack, and where chunks are below with a part above, the same by what is below alone.
    fn packs(&mut self) -> Result<Vec<Arc<Pack>>> {
        let rows = self.control.as_ref().map(|control| control.chunks.clone());
        let rows = rows.unwrap_or_default();
        let mut packs = vec![self.pack(&rows)?];
        if rows.iter().any(|row| matches!(row.state, State::Lower(Some(_)))) && self.lower.is_some()
        {
            let below = |row: &Row| match row.state {
                State::Lower(_) => Row { state: State::Lower(None), ..*row },
                _ => *row,
            };
            let rows: Vec<Row> = rows.iter().map(below).collect();
            packs.push(self.pack(&rows)?);
        }
        Ok(packs)
    }

    /// The chunks that `rows` name, and those that are there besides.
    fn pack(&mut self, rows: &[Row]) -> Result<Arc<Pack>> {
        let options = Options { lower: self.lower.clone(), ..Options::default() };
        let cache = Cache::new(PAGES_BYTES);
        let pack = Pack::new(Arc::clone(&self.source), (self.store, self.epoch), cache, &options);
        for row in rows {
            let mut row = *row;
            if row.state == State::Whole {
                // More may follow what the table knows of the last one.
                row.length = self.length(&self.source, row.number)?.unwrap_or(row.length);
            }
            self.add(&pack, &row);
        }
        let named = rows.last().map(|row| row.number + row.count);
        let mut next = rows.last().map_or(0, |row| {
            row.base + if row.state == State::Whole { self.length_of(&pack) } else { row.length }
        });
        for number in self.numbers_from(named.unwrap_or(0))? {
            let above = self.length(&self.source, number)?;
            let (disk, state) = match (&self.lower, above) {
                (_, Some(_)) => (Arc::clone(&self.source), State::Whole),
                (Some(lower), None) => (Arc::clone(lower), State::Lower(None)),
                (None, None) => continue,
            };
            let length = self.length(&disk, number)?.unwrap_or(0);
            let base = match chunk_files::look_for(&*disk, self.store, self.epoch, number) {
                Ok(Found::Chunk(opening)) if opening.number == number => opening.base,
                Ok(_) if number > 0 && next == 0 => continue,
                Ok(_) => next,
                Err(error) if is_loss(&error) => {
                    self.note(&error);
                    next
                }
                Err(error) => return Err(error),
            };
            if base < next || length == 0 {
                continue;
            }
            self.add(&pack, &Row { number, count: 1, base, length, chain: 0, state });
            next = base + length;
        }
        Ok(Arc::new(pack))
    }

    /// Bytes of the last chunk of `pack`.
    fn length_of(&self, pack: &Pack) -> u64 {
        pack.chunks().last().map_or(0, |last| last.end())
    }

    /// Bytes of the whole chunk `number` in the folder of `disk`, if it is there.
    fn length(&self, disk: &Arc<dyn Disk>, number: u64) -> Result<Option<u64>> {
        let path = paths::chunk(self.epoch, number);
        match disk.open(&path, Mode::Read, Access::Buffered) {
            Ok(file) => file.len().map(Some),
            Err(error) if error.kind() == Kind::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The numbers of whole chunks from `first` on, in order.
    fn numbers_from(&self, first: u64) -> Result<BTreeSet<u64>> {
        let mut numbers = BTreeSet::new();
        // What is below and younger than the table is a copy that another store has moved there.
        let lower = self.lower.iter().filter(|_| self.control.is_none());
        for disk in std::iter::once(&self.source).chain(lower) {
            let names = disk.list("")?;
            let found = names.iter().filter_map(|name| paths::parse_chunk(name));
            numbers.extend(found.filter_map(|(epoch, number, generation)| {
                let is_it = epoch == self.epoch && number >= first && generation.is_none();
                is_it.then_some(number)
            }));
        }
        Ok(numbers)
    }

    /// Adds the chunk of `row`, whose end is not believed where it has records that say whether they are whole.
    fn add(&mut self, pack: &Pack, row: &Row) {
        let chunk = Chunk::collected(pack.cache(), self.store, self.epoch, row);
        let chunk = if chunk.is_whole() { chunk.unsealed() } else { chunk };
        let chunk = Arc::new(chunk);
        pack.add_chunk(Arc::clone(&chunk));
        for part in [Some(&chunk).filter(|chunk| chunk.has_file()), chunk.hot()] {
            if let Some(Err(error)) = part.map(|part| pack.files.get(part))
                && is_loss(&error)
            {
                self.note(&error);
            }
        }
    }

    /// Gathers commits and branches: those in chunks that are there, and those that lead to each other.
    fn records(&mut self, pack: &Arc<Pack>) -> Records {
        let mut records = Records::default();
        for chunk in pack.chunks() {
            let outcome = self.records_of(pack, &chunk, &mut records);
            if let Err(error) = outcome {
                self.note(&error);
            }
        }
        let horizon = self.control.as_ref().map(|control| control.horizon.clone());
        let horizon = horizon.unwrap_or_default();
        let mut ahead: Vec<u64> =
            records.commits.values().map(|(_, body)| horizon.standing(body.previous)).collect();
        ahead.extend(&horizon.kept);
        ahead.extend(self.control.as_ref().map(|control| control.last_commit));
        while let Some(offset) = ahead.pop() {
            let offset = horizon.standing(offset);
            if offset == 0 || records.commits.contains_key(&offset) {
                continue;
            }
            match commit_at(pack, offset) {
                Ok((commit, body)) => {
                    ahead.push(body.previous);
                    records.commits.insert(offset, (commit, body));
                }
                Err(error) => self.note(&error),
            }
        }
        // Copies that a collection has not taken yet are no commits any more.
        records.commits.retain(|offset, _| !horizon.has_collected(*offset));
        records
    }

    fn records_of(&self, pack: &Arc<Pack>, chunk: &Arc<Chunk>, into: &mut Records) -> Result<()> {
        if let Some(sparse) =
            chunk.hot().or(Some(chunk)).filter(|it| !it.is_whole() && it.has_file())
        {
            for (offset, is_object) in pack.kept_records(sparse)? {
                if is_object && let Ok((commit, body)) = commit_at(pack, offset) {
                    into.commits.insert(offset, (commit, body));
                }
            }
        }
        if !chunk.is_whole() {
            return Ok(());
        }
        let file = pack.files.get(chunk)?;
        let file_end = file.len()?.min(chunk.end());
        let damaged = append::salvage(&*file, chunk.identity, file_end, |place, payload| {
            let mut at = 0;
            while let Some(length) = record::length(&payload[at..]) {
                let Some(bytes) = payload.get(at..at.saturating_add(length as usize)) else {
                    break;
                };
                let (place, offset) = (place + at as u64, chunk.base + place + at as u64);
                if let Ok(found) = record::take(&chunk.path, place, self.store, offset, bytes) {
                    take(chunk, place, offset, &found, into);
                }
                at += length as usize;
            }
        })?;
        if let Some(place) = damaged {
            return Err(Error::corrupt(&chunk.path, place, "a batch", "none that is whole"));
        }
        Ok(())
    }

    /// The branches as they were at the end.
    fn branches(&self, records: &Records) -> BTreeMap<Vec<u8>, CommitHash> {
        let mut branches = BTreeMap::new();
        let mut known = 0;
        if let Some(control) = &self.control {
            branches.extend(control.branches.iter().cloned());
            known = control.reaches();
        }
        for (_, (name, commit)) in records.references.range(known..) {
            if **commit == [0; 32] {
                branches.remove(name);
            } else {
                branches.insert(name.clone(), *commit);
            }
        }
        branches
    }

    /// Has `copy` commit what `body` says, with what differs from `before`, which is in both.
    fn copy(
        &self,
        pack: &Arc<Pack>,
        copy: &mut Store,
        before: Option<(CommitHash, u64)>,
        commit: CommitHash,
        body: &CommitBody,
    ) -> Result<()> {
        let stored = |root| {
            let load = Arc::clone(pack) as Arc<dyn Load>;
            Tree::stored(self.configuration, load, Slot::StoredNode(root))
        };
        let (old, mut tree) = match before {
            Some((hash, offset)) => {
                (stored(commit_at(pack, offset)?.1.root), copy.checkout(&hash)?)
            }
            None => (Tree::empty(self.configuration), copy.empty_tree()),
        };
        old.diff(&stored(body.root), |path, change| match change {
            Change::Added(value) | Change::Updated(_, value) => tree.add(path, &value),
            Change::Removed(_) => tree.remove(path),
        })?;
        let info = CommitInfo::new(&body.parents, body.date, &body.author, &body.message);
        let found = copy.hash(&tree, &info)?;
        if found != commit {
            return Err(Error::new(
                Kind::Corrupt,
                format!("what is left of it hashes to {}", hash::to_text(&found)),
            ));
        }
        copy.commit(&mut tree, &info).map(drop)
    }
}

fn commit_at(pack: &Pack, offset: u64) -> Result<(CommitHash, CommitBody)> {
    pack.record(offset, |file, place, record| match record.tag {
        Tag::Commit => {
            Ok((record.hash.into(), CommitBody::decode(file, place, offset, record.body)?))
        }
        other => Err(Error::corrupt(file, place, "a commit", format_args!("{other:?}"))),
    })
}

/// Takes what a record says of commits and branches.
fn take(chunk: &Chunk, place: u64, offset: u64, found: &record::Record<'_>, into: &mut Records) {
    match found.tag {
        Tag::Commit => {
            if let Ok(body) = CommitBody::decode(&chunk.path, place, offset, found.body) {
                into.commits.insert(offset, (found.hash.into(), body));
            }
        }
        Tag::Reference => {
            let named = (found.body.to_vec(), CommitHash::new(found.hash));
            into.references.insert(offset, named);
        }
        _ => {}
    }
}
