//! The index: where the commit, or with [`Strategy::Always`] the object, with a hash is.
//!
//! Two tables without a log, in the folder `index` of the store, derived from the pack. A snapshot
//! of them says up to which place of the pack it knows everything; what is after that is read from
//! the pack again at opening. So nothing is synced for a commit, and an index that is lost, damaged
//! or of another store is made anew, never believed. Readers put what is newer into memory.
//! Format document: `docs/format/hash-index.md`.

mod sweep;

use std::collections::HashMap;
use std::sync::Arc;

use super::chunk::Place;
use super::paths;
use crate::cache::Cache;
use crate::context::hash::{CommitHash, Hash};
use crate::context::options::{Index as Strategy, Options};
use crate::context::warnings::Warnings;
use crate::disk::Disk;
use crate::disk::subfolder::{Subfolder, Traffic};
use crate::error::{Error, Kind, Result};
use crate::format::codec::{Decoder, Encoder};
use crate::format::hash::combine;
use crate::order;
use crate::sync::{Mutex, lock};
use crate::table::{
    Batch, OpenSnapshot, Session, SessionOptions, SnapshotContent, Table, TableOptions, View,
};

pub(crate) use sweep::{Sweep, SweepStage};

/// What snapshots of the index are labelled with.
const LABEL: &str = "context index";

/// How often a reader looks again for the snapshot that a writer just replaced.
const ATTEMPTS: usize = 20;

/// Entries that an opening gathers before it updates the tables.
const GATHERED: usize = 1 << 14;

/// Memory of the table of commits: one a block is few.
const COMMITS_BYTES: u64 = 1 << 20;

/// The most memory of an index of commits alone, with its merges and its pages.
const MINIMAL_BYTES: u64 = 4 << 20;

/// What a snapshot of the index says beside its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    /// Identity of the store.
    pub(crate) store: u64,
    /// How often the store had been cleared.
    pub(crate) epoch: u64,
    pub(crate) strategy: Strategy,
    /// Up to where everything is known.
    pub(crate) place: Place,
    /// Entries of each table.
    pub(crate) commits: u64,
    pub(crate) objects: u64,
}

impl Covered {
    /// Nothing of a store.
    pub(crate) fn nothing(store: u64, epoch: u64, strategy: Strategy) -> Covered {
        Covered { store, epoch, strategy, place: Place::start(0), commits: 0, objects: 0 }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u64(self.store);
        out.u64(self.epoch);
        out.u8(self.strategy.code());
        self.place.encode(&mut out);
        out.u64(self.commits);
        out.u64(self.objects);
        out.finish()
    }

    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<Covered> {
        let mut from = Decoder::new(file, 0, bytes);
        let (store, epoch) = (from.u64()?, from.u64()?);
        let strategy = Strategy::decode(&mut from)?;
        let place = Place::decode(&mut from)?;
        let (commits, objects) = (from.u64()?, from.u64()?);
        from.finish()?;
        Ok(Covered { store, epoch, strategy, place, commits, objects })
    }
}

/// The tables of an index, open.
#[derive(Debug)]
struct Tables {
    session: Session,
    commits: Table,
    objects: Table,
    /// The snapshot that they come from or were last saved as.
    saved: Option<String>,
    /// Entries were removed or put in of what is covered already, which no count need show.
    has_changed: bool,
    /// What takes the place of the table of objects once it is merged; until then what one takes the other does too.
    merged: Option<Table>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct HashIndex {
    folder: Arc<Subfolder>,
    options: Options,
    cache: Arc<Cache>,
    tables: Option<Tables>,
    /// What the tables cover.
    covered: Covered,
    /// Up to where an opening or a reload has brought it.
    pub(crate) reached: Place,
    /// The checkpoint that the control file named when a reader opened it.
    pub(crate) opened_at: Place,
    /// Entries that are in no table, because a table refused them or there is none to write to.
    commits: HashMap<Hash, u64>,
    objects: HashMap<Hash, u64>,
    /// Commits that were looked for in the pack, because of damage in the tables; between which two
    /// places of the history all of them are here: the newest, and the next that is not.
    passed: HashMap<Hash, u64>,
    passed_between: Option<(u64, u64)>,
    read_only: bool,
    /// There was one on disk, however little it covered.
    pub(crate) was_there: bool,
    /// Entries since it was saved, or that was tried; and where.
    unsaved: u64,
    tried: Place,
    /// It was begun again and has not reached the end of the pack.
    behind: bool,
    pub(crate) warnings: Arc<Warnings>,
}

/// A moment of one kind of entries: lookups in it wait for nobody.
#[derive(Default)]
pub(crate) struct Entries {
    /// The answer, where memory has it.
    known: Option<u64>,
    view: Option<View>,
}

impl Entries {
    /// The logical offset of the record with this hash.
    pub(crate) fn get(&self, hash: &Hash) -> Result<Option<u64>> {
        match (&self.view, self.known) {
            (Some(view), None) => view.get(hash)?.map(|value| offset(&value)).transpose(),
            (_, known) => Ok(known),
        }
    }
}

/// A moment of all entries, for many lookups.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// Of commits and objects: lookups wait for nobody.
    Views(Box<[View; 2]>),
    /// Not all are in tables, or those are about to be made again: whoever looks up waits for whoever changes the
    /// index of this epoch, and finds what came since too.
    Index(u64),
    /// There is nothing to look up.
    Nothing,
}

impl Lookup {
    /// See [`HashIndex::commits`]. `Invalid` while the index is to be made again, `Closed` once it is of
    /// another epoch.
    pub(crate) fn commits(&self, hash: &Hash, index: &Mutex<HashIndex>) -> Result<Entries> {
        self.entries(index, 0, |index| index.commits(hash))
    }

    /// The same for [`HashIndex::objects`].
    pub(crate) fn objects(&self, hash: &Hash, index: &Mutex<HashIndex>) -> Result<Entries> {
        self.entries(index, 1, |index| index.objects(hash))
    }

    fn entries(
        &self,
        index: &Mutex<HashIndex>,
        kind: usize,
        ask: impl FnOnce(&HashIndex) -> Entries,
    ) -> Result<Entries> {
        let epoch = match self {
            Lookup::Views(views) => {
                return Ok(Entries { known: None, view: Some(views[kind].clone()) });
            }
            Lookup::Nothing => return Ok(Entries::default()),
            Lookup::Index(epoch) => *epoch,
        };
        let index = lock(index);
        if index.covered.epoch != epoch {
            return Err(Error::new(Kind::Closed, "the store was cleared: ask again"));
        }
        if index.behind {
            return Err(Error::invalid("the index is to be made again by the store that writes"));
        }
        Ok(ask(&index))
    }
}

fn offset(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map_err(|_| {
        let found = format!("one of {}", value.len());
        Error::corrupt(paths::INDEX, 0, "an offset of 8 bytes", found)
    })?;
    Ok(u64::from_le_bytes(bytes))
}

impl HashIndex {
    /// The index of the store that `nothing` names, not open. `pages` is the cache of the pack.
    pub(crate) fn closed(
        disk: &Arc<dyn Disk>,
        options: &Options,
        pages: &Arc<Cache>,
        nothing: Covered,
        read_only: bool,
    ) -> HashIndex {
        // One that the host gives has everything in it. Else it would leave a large pack no page.
        let cache = match (&options.cache, nothing.strategy) {
            (Some(_), _) => Arc::clone(pages),
            (None, Strategy::Minimal) => Cache::new(options.index_bytes.min(MINIMAL_BYTES)),
            (None, Strategy::Always) => Cache::new(options.index_bytes),
        };
        HashIndex {
            folder: Subfolder::new(Arc::clone(disk), paths::INDEX),
            options: options.clone(),
            cache,
            tables: None,
            covered: nothing,
            reached: Place::start(0),
            opened_at: Place::start(0),
            commits: HashMap::new(),
            objects: HashMap::new(),
            passed: HashMap::new(),
            passed_between: None,
            read_only,
            was_there: false,
            unsaved: 0,
            tried: Place::start(0),
            behind: false,
            warnings: Arc::default(),
        }
    }

    /// Opens it, or makes one: only when the pack is known to be the store's that it was said to be of, with
    /// its checkpoint at `checkpoint`. What it covers is for the caller to complete from the pack. Damage is
    /// no error: the index is then empty again.
    pub(crate) fn open(&mut self, checkpoint: Place) -> Result<()> {
        self.opened_at = checkpoint;
        self.was_there = self.folder.exists("session")?;
        let nothing = self.covered;
        if self.was_there {
            match self.open_newest(&nothing) {
                Ok(()) => {}
                Err(error) if is_damage(&error) => {
                    self.warn(format!(
                        "the index cannot be used, so it is made from the pack again: {error}"
                    ));
                    self.tables = None;
                    self.covered = nothing;
                    self.reached = Place::start(0);
                }
                Err(error) => return Err(error),
            }
        }
        if self.tables.is_none() && !self.read_only {
            self.make_tables()?;
        }
        self.tried = self.covered.place;
        Ok(())
    }

    fn session_options(&self) -> SessionOptions {
        let cache = Some(Arc::clone(&self.cache));
        SessionOptions {
            // The store's, so that the same operations give the same bytes; 0 would be refused.
            seed: Some(combine(self.covered.store, self.covered.epoch).max(1)),
            cache,
            queue_depth: 16,
            max_open_files: self.options.max_open_files,
            ..SessionOptions::default()
        }
    }

    fn table_options(&self) -> [TableOptions; 2] {
        [COMMITS_BYTES.min(self.options.index_bytes), self.options.index_bytes].map(|bytes| {
            TableOptions {
                write_buffer_bytes: (bytes / 8).max(2048),
                filter_bytes_max: bytes / 2,
                ..TableOptions::default()
            }
        })
    }

    /// Opens the newest snapshot, however often a writer replaces it meanwhile.
    fn open_newest(&mut self, nothing: &Covered) -> Result<()> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.open_tables(nothing) {
                Err(error)
                    if self.read_only && error.kind() == Kind::Missing && attempts < ATTEMPTS => {}
                outcome => return outcome,
            }
        }
    }

    /// Opens the newest snapshot; an index without a fitting one is empty.
    fn open_tables(&mut self, nothing: &Covered) -> Result<()> {
        let disk = Arc::clone(&self.folder) as Arc<dyn Disk>;
        let options = self.session_options();
        let session = if self.read_only {
            Session::open_read_only(disk, options)?
        } else {
            Session::open(disk, options)?
        };
        session.expect_no_ranges();
        if let Some(warning) = session.warnings().into_iter().next() {
            return Err(Error::new(Kind::Corrupt, warning));
        }
        let mut names: Vec<String> =
            session.list_snapshots()?.into_iter().map(|snapshot| snapshot.name).collect();
        let newest = names.pop();
        if !self.read_only {
            // What a crash left between saving one and deleting the one before.
            names.iter().try_for_each(|name| session.delete_snapshot(name))?;
        }
        let Some(name) = newest else { return self.empty_tables(session) };
        let wanted = OpenSnapshot { label: Some(LABEL.to_owned()), ..OpenSnapshot::default() };
        let mut snapshot = session.open_snapshot(&name, &wanted)?;
        let covered = Covered::decode(paths::INDEX, &snapshot.payload)?;
        if covered.store != nothing.store || covered.strategy != nothing.strategy {
            return Err(Error::invalid("it belongs to another store"));
        }
        if covered.epoch != nothing.epoch {
            // Of before the store was cleared.
            if !self.read_only {
                session.delete_snapshot(&name)?;
            }
            return self.empty_tables(session);
        }
        let (commits, objects) = (snapshot.take("commits")?, snapshot.take("objects")?);
        self.tables = Some(Tables {
            session,
            commits,
            objects,
            saved: Some(name),
            has_changed: false,
            merged: None,
        });
        self.covered = covered;
        self.reached = covered.place;
        Ok(())
    }

    fn empty_tables(&mut self, session: Session) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        let [commits, objects] = self.table_options();
        let commits = session.create_table("commits", commits)?;
        let objects = session.create_table("objects", objects)?;
        self.tables = Some(Tables {
            session,
            commits,
            objects,
            saved: None,
            has_changed: false,
            merged: None,
        });
        Ok(())
    }

    /// Makes a session in the folder, whatever session is there.
    fn make_tables(&mut self) -> Result<()> {
        self.folder.make()?;
        let disk = Arc::clone(&self.folder) as Arc<dyn Disk>;
        let session = Session::create_over(disk, self.session_options())?;
        session.expect_no_ranges();
        self.empty_tables(session)
    }

    /// Forgets everything, to be filled from the pack again.
    pub(crate) fn start_again(&mut self, nothing: Covered) -> Result<()> {
        self.commits.clear();
        self.objects.clear();
        self.passed.clear();
        self.passed_between = None;
        self.covered = nothing;
        (self.reached, self.tried) = (Place::start(0), Place::start(0));
        self.unsaved = 0;
        self.behind = true;
        if self.read_only {
            self.tables = None;
            return Ok(());
        }
        // Nothing of them is needed, so neither is their closing.
        self.close();
        self.make_tables()
    }

    /// Lets go of the tables, whose files are removed next.
    pub(crate) fn close(&mut self) {
        self.behind = true;
        if let Some(Tables { session, .. }) = self.tables.take() {
            let _ = session.close();
        }
    }

    /// The cache that what it takes is charged to.
    #[cfg(test)]
    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Whether it was begun again and never brought to the end of the pack, because of an error: then
    /// what it does not know is no answer.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind
    }

    /// It knows the pack up to `end`. The tables take what is new.
    pub(crate) fn reach_end(&mut self, end: Place) -> Result<()> {
        self.reached = end;
        self.settle()?;
        self.behind = false;
        Ok(())
    }

    /// Whether there is an index on disk.
    pub(crate) fn is_saved(&self) -> bool {
        self.tables.as_ref().is_some_and(|tables| tables.saved.is_some())
    }

    /// Whether a sync of it failed: its tables take nothing any more, though the pack has all of it.
    pub(crate) fn has_stopped(&self) -> bool {
        self.tables.as_ref().is_some_and(|tables| tables.session.is_poisoned())
    }

    /// The pack goes on in chunk `number`, after the one that was read to its `end`.
    pub(crate) fn next_chunk(&mut self, end: Place, number: u64) {
        if self.reached == end {
            self.reached = Place::start(number);
        }
    }

    /// What the saved one covers.
    pub(crate) fn covered(&self) -> Option<Place> {
        self.is_saved().then_some(self.covered.place)
    }

    /// How many entries it took since it was saved, or that was tried.
    pub(crate) fn unsaved(&self) -> u64 {
        self.unsaved
    }

    /// Where the end of the pack was then.
    pub(crate) fn tried(&self) -> Place {
        self.tried
    }

    /// Entries that are in memory only.
    pub(crate) fn unsettled(&self) -> usize {
        self.commits.len() + self.objects.len()
    }

    pub(crate) fn keeps_objects(&self) -> bool {
        self.covered.strategy == Strategy::Always
    }

    /// Entries of both kinds, in tables and memory.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.covered.commits, self.covered.objects)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.folder.traffic()
    }

    /// Bytes that its tables take on disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let bytes = |table: &Table| table.stats().map_or(0, |stats| stats.disk_bytes);
        self.tables.as_ref().map_or(0, |it| bytes(&it.commits) + bytes(&it.objects))
    }

    pub(crate) fn warn(&self, warning: String) {
        let is_of_index = warning.starts_with("the index");
        self.warnings.add(if is_of_index { advising_rebuild(&warning) } else { warning });
    }

    /// Where a commit is that the tables could not be asked for, if a search has passed it, and between
    /// which places of the history, which ends with `last`, searches have passed all. Warns the first time. Of
    /// another epoch nothing is known.
    pub(crate) fn passed(
        &mut self,
        hash: &Hash,
        damage: &str,
        (epoch, last): (u64, u64),
    ) -> (Option<u64>, (u64, u64)) {
        if epoch != self.covered.epoch {
            return (None, (last, last));
        }
        if self.passed_between.is_none() {
            self.warnings.add(format!(
                "commits that the index has lost are looked for in the pack, one record each, until \
                 it is rebuilt: {damage}"
            ));
        }
        let between = *self.passed_between.get_or_insert((last, last));
        (self.passed.get(hash).copied(), between)
    }

    /// A search has passed `commits` of an epoch, and now all of the history between two places.
    pub(crate) fn pass(
        &mut self,
        epoch: u64,
        commits: Vec<(CommitHash, u64)>,
        (newest, next): (u64, u64),
    ) {
        if epoch != self.covered.epoch {
            return;
        }
        for (hash, offset) in commits {
            let place = self.passed.entry(*hash).or_insert(offset);
            *place = (*place).max(offset);
        }
        let before = self.passed_between.get_or_insert((newest, next));
        *before = (before.0.max(newest), before.1.min(next));
    }

    /// Where commits are looked up, to be asked for `hash` without holding up anybody.
    pub(crate) fn commits(&self, hash: &Hash) -> Entries {
        let known = self.commits.get(hash).copied();
        Entries { known, view: self.tables.as_ref().map(|tables| tables.commits.view()) }
    }

    /// The same for objects.
    pub(crate) fn objects(&self, hash: &Hash) -> Entries {
        let known = self.objects.get(hash).copied();
        Entries { known, view: self.tables.as_ref().map(|tables| tables.objects.view()) }
    }

    /// A moment of all entries. O(1).
    pub(crate) fn lookup(&self) -> Lookup {
        let is_all = self.unsettled() == 0 && !self.behind;
        match self.tables.as_ref().filter(|_| is_all) {
            Some(tables) => Lookup::Views(Box::new([tables.commits.view(), tables.objects.view()])),
            None => self.lookup_later(),
        }
    }

    /// The same for as long as the tables may be closed meanwhile.
    pub(crate) fn lookup_later(&self) -> Lookup {
        Lookup::Index(self.covered.epoch)
    }

    /// Those of `hashes` that are objects of the store. One batch of lookups.
    pub(crate) fn known_objects(&self, hashes: &[Hash]) -> Result<HashMap<Hash, u64>> {
        let mut known = HashMap::new();
        if let Some(tables) = &self.tables {
            let values = tables.objects.lookup(hashes)?;
            for (hash, value) in hashes.iter().zip(values.iter()) {
                if let Some(value) = value {
                    known.insert(*hash, offset(value)?);
                }
            }
        }
        if !self.objects.is_empty() {
            known.extend(hashes.iter().filter_map(|hash| Some((*hash, *self.objects.get(hash)?))));
        }
        Ok(known)
    }

    /// Puts a commit in; the tables take it with [`HashIndex::settle`].
    pub(crate) fn put_commit(&mut self, hash: &Hash, offset: u64) {
        self.covered.commits += u64::from(self.commits.insert(*hash, offset).is_none());
        self.unsaved += 1;
    }

    /// Puts an object in; the tables take it with [`HashIndex::settle`].
    pub(crate) fn put_object(&mut self, hash: &Hash, offset: u64) {
        self.covered.objects += u64::from(self.objects.insert(*hash, offset).is_none());
        self.unsaved += 1;
    }

    /// Puts objects in that were written. Those among the `known` ones were there at other places, which were not good
    /// enough, and are counted already.
    pub(crate) fn put_objects(
        &mut self,
        objects: &HashMap<Hash, u64>,
        known: Option<&HashMap<Hash, u64>>,
    ) {
        for (hash, offset) in objects {
            let counted = self.covered.objects;
            self.put_object(hash, *offset);
            if known.is_some_and(|known| known.contains_key(hash)) {
                self.covered.objects = counted;
            }
        }
    }

    /// Settles when much was put in.
    pub(crate) fn settle_some(&mut self) -> Result<()> {
        if self.commits.len() + self.objects.len() < GATHERED { Ok(()) } else { self.settle() }
    }

    /// Gives the tables what was put in, by one update of each, which also pays for merges. After an
    /// error everything is still found, and the next call tries again. Syncs nothing.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if self.read_only || self.unsettled() == 0 {
            return Ok(());
        }
        if self.tables.is_none() {
            self.make_tables()?;
        }
        let Some(tables) = &mut self.tables else { return Ok(()) };
        let mut failed = None;
        for (entries, table, merged) in [
            (&mut self.commits, &mut tables.commits, None),
            (&mut self.objects, &mut tables.objects, tables.merged.as_mut()),
        ] {
            if entries.is_empty() {
                continue;
            }
            let mut sorted: Vec<_> = entries.iter().collect();
            // In the order of the pack, so that the same store has the same bytes.
            order::sort_by(&mut sorted, |a, b| a.1.cmp(b.1));
            let mut batch = Batch::new();
            for (hash, offset) in sorted {
                batch.insert(hash, &offset.to_le_bytes());
            }
            table.update(&batch)?;
            failed = merged.and_then(|merged| merged.update(&batch).err()).or(failed);
            entries.clear();
            if entries.capacity() > GATHERED * 2 {
                entries.shrink_to(GATHERED);
            }
        }
        if let Some(error) = failed {
            self.give_up_merging(Some(&error));
        }
        Ok(())
    }

    /// Saves what is known as all of the pack up to `place`, which is durable.
    pub(crate) fn save(&mut self, place: Place) -> Result<()> {
        (self.unsaved, self.tried) = (0, place);
        // What is not known of the pack must not be taken for what is not there.
        if self.behind {
            return Ok(());
        }
        self.settle()?;
        let Some(tables) = &mut self.tables else { return Ok(()) };
        let covered = Covered { place, ..self.covered };
        if tables.saved.is_some() && covered == self.covered && !tables.has_changed {
            return Ok(());
        }
        let number = match &tables.saved {
            Some(name) => u64::from_str_radix(name, 16).unwrap_or(0) + 1,
            None => 0,
        };
        let name = format!("{number:016x}");
        let payload = covered.encode();
        let content = SnapshotContent {
            label: LABEL,
            payload: &payload,
            tables: &[&tables.commits, &tables.objects],
        };
        tables.session.save_snapshot(&name, content)?;
        (self.covered, tables.has_changed) = (covered, false);
        if let Some(old) = tables.saved.replace(name) {
            tables.session.delete_snapshot(&old)?;
        }
        Ok(())
    }

    /// The same where entries of what is older were put in, so that `place` may be that of before.
    pub(crate) fn save_older(&mut self, place: Place) -> Result<()> {
        self.settle()?;
        if let Some(tables) = &mut self.tables {
            tables.has_changed = true;
        }
        self.save(place)
    }
}

/// What is said of the index, whose files nobody restores: all of it is made again.
pub(crate) fn advising_rebuild(sentence: &str) -> String {
    let (mut told, mut rest, advice) = (String::new(), sentence, Error::CHECK_ADVICE.as_bytes());
    // By hand: the library's search is code that little else in a module for browsers needs.
    while let Some(place) = rest.as_bytes().windows(advice.len()).position(|it| it == advice) {
        told += &rest[..place];
        told += "run `varvite context check --rebuild-index`";
        rest = &rest[place + advice.len()..];
    }
    told + rest
}

/// Whether the error says that the index cannot be used, and not that the disk fails.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::Version | Kind::Invalid | Kind::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::file::append::Position;

    #[test]
    fn what_is_covered_comes_back_and_no_prefix_of_it_does() {
        let covered = Covered {
            store: 5,
            epoch: 2,
            strategy: Strategy::Always,
            place: Place {
                chunk: 3,
                position: Position { offset: 700, sequence: 8, chain: 0x1234 },
                before: 600,
            },
            commits: 10,
            objects: 4000,
        };
        let bytes = covered.encode();
        assert_eq!(Covered::decode("index", &bytes).unwrap(), covered);
        for length in 0..bytes.len() {
            assert!(Covered::decode("index", &bytes[..length]).is_err());
        }
    }

    #[test]
    fn what_was_begun_again_is_not_saved_before_it_knows_all() {
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let nothing = Covered::nothing(5, 0, Strategy::Minimal);
        let end = Place {
            chunk: 0,
            position: Position { offset: 700, sequence: 8, chain: 7 },
            before: 600,
        };
        let open = |read_only| {
            let (options, cache) = (Options::default(), Cache::new(0));
            let mut index = HashIndex::closed(&disk, &options, &cache, nothing, read_only);
            index.open(Place::start(0)).map(|()| index)
        };
        let mut index = open(false).unwrap();
        index.put_commit(&[1; 32], 300);
        index.reach_end(end).unwrap();
        index.save(end).unwrap();
        assert_eq!(open(true).unwrap().covered(), Some(end));
        // Filled from the pack, and cut short by an error after the first of two commits.
        index.start_again(nothing).unwrap();
        index.put_commit(&[2; 32], 400);
        assert!(index.is_behind());
        index.save(end).unwrap();
        assert!(!index.is_saved());
        assert_eq!(open(true).unwrap().covered(), None, "what it lacks is no answer");
        index.put_commit(&[1; 32], 300);
        index.reach_end(end).unwrap();
        index.save(end).unwrap();
        let reader = open(true).unwrap();
        assert_eq!((reader.covered(), reader.counts()), (Some(end), (2, 0)));
    }
}
