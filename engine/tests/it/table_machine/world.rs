//! A session beside its model, and what each step does to both.

mod blobs;
mod copies;
pub mod live;
mod whole;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use varvite::cache::Cache;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::table::check::check;
use varvite::{
    Batch, Bytes, Cursor, Error, Executor, Kind, OpenSnapshot, Range, Session, SessionOptions,
    SnapshotContent, Table, TableOptions, Value, Verify, View,
};

use super::step::Step;
use crate::listed::Listed;
use crate::model::table as model;
use crate::random::Random;
use crate::setup::{DiskKind, Help, Setup};

/// Most tables, views, cursors and snapshots alive at once.
const ALIVE: usize = 4;

type Work = Box<dyn FnOnce() + Send>;

/// Holds the work that a table handed out until the machine has it done.
#[derive(Default)]
struct Later(Mutex<Vec<Work>>);

impl Executor for Later {
    fn execute(&self, work: Work) {
        self.0.lock().unwrap().push(work);
    }
}

struct AtOnce;

impl Executor for AtOnce {
    fn execute(&self, work: Work) {
        work();
    }
}

pub struct World {
    setup: Setup,
    disk: Arc<dyn Disk>,
    sim: Option<Arc<SimDisk>>,
    folder: Option<tempfile::TempDir>,
    later: Arc<Later>,
    cache: Option<Arc<Cache>>,
    session: Session,
    tables: Vec<(Table, model::Table)>,
    views: Vec<(View, model::Table)>,
    cursors: Vec<(Cursor, model::Cursor)>,
    /// Values that were found or written in pieces, perhaps not read yet.
    values: Vec<(Value, Vec<u8>)>,
    saved: model::Snapshots,
    /// What the live tables hold, whether there is a handle to them or not.
    live: BTreeMap<String, model::Table>,
    copies: copies::Copies,
    named: u64,
    random: Random,
}

/// What differs, as a sentence; a step fails with it.
pub type Outcome = Result<(), String>;

fn ok<T>(outcome: Result<T, Error>) -> Result<T, String> {
    outcome.map_err(|error| format!("{error:?}"))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    let (mut found, mut expected) = (format!("{found:?}"), format!("{expected:?}"));
    found.truncate(400);
    expected.truncate(400);
    Err(format!("{what}: found {found}, expected {expected}"))
}

fn refused<T>(what: &str, outcome: Result<T, Error>, kind: Kind) -> Outcome {
    match outcome {
        Ok(_) => Err(format!("{what} was not refused")),
        Err(error) => same(what, &error.kind(), &kind),
    }
}

impl World {
    pub fn new(setup: Setup) -> Result<World, String> {
        let mut folder = None;
        let mut sim = None;
        let disk: Arc<dyn Disk> = match setup.disk {
            DiskKind::Memory => MemoryDisk::seeded(1),
            DiskKind::Sim => Arc::clone(sim.insert(SimDisk::new(setup.seed))) as _,
            DiskKind::Os => {
                let place = folder.insert(tempfile::tempdir().unwrap()).path().to_owned();
                ok(OsDisk::new(place.to_str().unwrap()))?
            }
        };
        let later = Arc::new(Later::default());
        let cache = setup.cache_bytes.map(Cache::new);
        let options = options(&setup, &later, cache.as_ref());
        let session = ok(Session::create(Arc::clone(&disk), options))?;
        Ok(World {
            setup,
            disk,
            sim,
            folder,
            later,
            cache,
            session,
            tables: Vec::new(),
            views: Vec::new(),
            cursors: Vec::new(),
            values: Vec::new(),
            saved: model::Snapshots::new(),
            live: BTreeMap::new(),
            copies: copies::Copies::default(),
            named: 0,
            random: Random::new(setup.seed),
        })
    }

    fn new_name(&mut self) -> String {
        self.named += 1;
        format!("t{}", self.named)
    }

    fn at(&self, table: u8) -> usize {
        usize::from(table) % self.tables.len()
    }

    pub fn step(&mut self, step: Step) -> Outcome {
        if self.tables.is_empty() {
            self.create()?;
        }
        match step {
            Step::Create => self.create()?,
            Step::Update { table, seed, count } => self.update(self.at(table), seed, count)?,
            Step::Lookup { table, seed, count } => self.lookup(self.at(table), seed, count)?,
            Step::Find { table, seed } => self.find(self.at(table), seed)?,
            Step::Stream { table, seed } => self.stream(self.at(table), seed)?,
            Step::Range { table, seed } => self.range(self.at(table), seed)?,
            Step::View { table } => {
                let (table, model) = &self.tables[self.at(table)];
                self.views.push((table.view(), model.clone()));
                self.views.drain(..self.views.len().saturating_sub(ALIVE));
            }
            Step::DropView => drop((!self.views.is_empty()).then(|| self.views.remove(0))),
            Step::Cursor { table, seed } => self.cursor(self.at(table), seed)?,
            Step::Move { cursor, seed } => {
                if !self.cursors.is_empty() {
                    let index = usize::from(cursor) % self.cursors.len();
                    self.travel(index, &mut Random::new(seed), 12)?;
                }
            }
            Step::DropCursor => drop((!self.cursors.is_empty()).then(|| self.cursors.remove(0))),
            Step::Duplicate { table } => {
                let name = self.new_name();
                let (table, model) = &self.tables[self.at(table)];
                self.tables.push((ok(table.duplicate(&name))?, model.clone()));
                self.tables.drain(..self.tables.len().saturating_sub(ALIVE));
            }
            Step::Union { seed } => self.union(seed)?,
            Step::Supply { table, credits } => self.supply(self.at(table), credits)?,
            Step::Close { table } => {
                let (table, _) = self.tables.remove(self.at(table));
                ok(table.close())?;
            }
            Step::OpenLive { seed } => self.open_live(seed)?,
            Step::Publish { table } => self.publish(self.at(table))?,
            Step::DeleteLive { seed } => self.delete_live(seed)?,
            Step::Together { seed, count } => self.update_together(seed, count)?,
            Step::DeleteRange { table, seed } => self.delete_range(self.at(table), seed)?,
            Step::Travel { seed } => self.travel_snapshot(seed)?,
            Step::Load { table, seed } => self.load(self.at(table), seed)?,
            Step::Work { table, credits } => {
                let index = self.at(table);
                let left = ok(self.tables[index].0.work(credits))?;
                if credits == u64::MAX {
                    same("work left after unbounded credits", &left, &0)?;
                }
            }
            Step::Pause { seed } => self.pause(seed),
            Step::Help { seed } => self.help(seed),
            Step::Save { seed } => self.save(seed)?,
            Step::Open { seed } => self.open(seed)?,
            Step::Delete { seed } => self.delete(seed)?,
            Step::List => self.list()?,
            Step::ReadOnly { seed } => self.read_only(seed)?,
            Step::BackUp { seed } => self.back_up(seed)?,
            Step::Follow => self.follow()?,
            Step::Repair { seed } => self.repair(seed)?,
            Step::Scrub { seed } => self.scrub(seed)?,
            Step::Refused { table, seed } => self.refused(self.at(table), seed)?,
            Step::Compare => self.compare()?,
            Step::Reopen { closed } => self.reopen(closed, None)?,
            Step::Crash { seed } => self.reopen(false, Some(seed))?,
            Step::Restarts { seed } => self.restarts(seed)?,
        }
        self.follow_live();
        self.watch()
    }

    /// Looks at a little of what must not have changed.
    fn watch(&mut self) -> Outcome {
        for index in 0..self.views.len() {
            let key = self.setup.any_key(&mut self.random);
            let (view, model) = &self.views[index];
            let found = ok(view.get(&key))?;
            same("a view's value", &found.as_deref(), &model.get(&key))?;
        }
        if !self.cursors.is_empty() {
            let mut random = self.random.clone();
            let index = random.index(self.cursors.len());
            self.travel(index, &mut random, 2)?;
            self.random = random;
        }
        self.read_held()
    }

    fn create(&mut self) -> Outcome {
        let name = self.new_name();
        let table = ok(self.session.create_table(&name, self.setup.table_options()))?;
        self.tables.push((table, model::Table::default()));
        self.follow_live();
        self.tables.drain(..self.tables.len().saturating_sub(ALIVE));
        Ok(())
    }

    fn update(&mut self, index: usize, seed: u64, count: u32) -> Outcome {
        let changes = self.setup.changes(seed, count);
        let mut batch = model::batch(&changes);
        if seed.is_multiple_of(5) {
            // The same of two batches.
            let (first, rest) = changes.split_at(seed as usize % (changes.len() + 1));
            batch = model::batch(first);
            batch.append(&model::batch(rest));
        }
        self.apply(index, &changes, &batch)
    }

    /// Applies `batch`, which means `changes`.
    fn apply(&mut self, index: usize, changes: &[model::Change], batch: &Batch) -> Outcome {
        let (table, model) = &mut self.tables[index];
        if let Err(error) = table.update(batch) {
            // Too much gathered while merges were paused: nothing changed, and then it works.
            same("an update refused", &error.kind(), &Kind::Invalid)?;
            same("merges paused", &self.session.merges_are_paused(), &true)?;
            compare("a table that refused", &table.view(), model)?;
            self.session.resume_merges();
            ok(table.update(batch))?;
        }
        model.update(changes, self.setup.join());
        Ok(())
    }

    fn lookup(&mut self, index: usize, seed: u64, count: u32) -> Outcome {
        let mut random = Random::new(seed);
        let keys: Vec<_> = (0..count).map(|_| self.setup.any_key(&mut random)).collect();
        let (table, model) = &self.tables[index];
        let found = ok(table.lookup(&keys))?;
        same("the count of values", &found.len(), &keys.len())?;
        for (key, found) in keys.iter().zip(found.iter()) {
            same(&format!("the value of {key:?}"), &found, &model.get(key))?;
        }
        let view = table.view();
        for key in keys.iter().take(8) {
            let what = format!("the value of {key:?} alone");
            same(&what, &ok(table.get(key))?.as_deref(), &model.get(key))?;
            same(&what, &ok(view.get(key))?.as_deref(), &model.get(key))?;
        }
        Ok(())
    }

    fn pause(&mut self, seed: u64) {
        if self.session.merges_are_paused() {
            self.session.resume_merges();
        } else {
            let buffers = seed % 4;
            self.session.pause_merges(buffers * self.setup.write_buffer_bytes);
        }
    }

    /// A union of some tables, the same one perhaps several times.
    fn union(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let count = 1 + random.index(ALIVE);
        let chosen: Vec<_> = (0..count).map(|_| random.index(self.tables.len())).collect();
        let name = self.new_name();
        let tables: Vec<_> = chosen.iter().map(|index| &self.tables[*index].0).collect();
        let models: Vec<_> = chosen.iter().map(|index| &self.tables[*index].1).collect();
        let union = if random.one_in(4) {
            let union = ok(self.session.union(&name, &tables))?;
            same("the debt of a whole union", &union.remaining_union_debt(), &0)?;
            union
        } else {
            ok(self.session.incremental_union(&name, &tables))?
        };
        let model = model::Table::union(&models, self.setup.join());
        self.tables.push((union, model));
        self.tables.drain(..self.tables.len().saturating_sub(ALIVE));
        Ok(())
    }

    fn supply(&mut self, index: usize, credits: u64) -> Outcome {
        let table = &mut self.tables[index].0;
        let before = table.remaining_union_debt();
        let left = ok(table.supply_union_credits(credits))?;
        let after = table.remaining_union_debt();
        same("a growing debt", &(after > before), &false)?;
        same("what is left to do", &left, &after)?;
        let is_paid = credits == 0 || after + credits <= before || after == 0;
        same("whether the credits were spent", &is_paid, &true)
    }

    fn bounds(&self, random: &mut Random) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let mut draw = || match random.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(self.setup.any_key(random)),
            _ => Bound::Included(self.setup.any_key(random)),
        };
        (draw(), draw())
    }

    fn range(&mut self, index: usize, seed: u64) -> Outcome {
        let (lower, upper) = self.bounds(&mut Random::new(seed));
        let (lower, upper) = (lower.as_ref().map(|it| &it[..]), upper.as_ref().map(|it| &it[..]));
        let (table, model) = &self.tables[index];
        same("a range", &ok(table.listed(lower, upper))?, &model.range(lower, upper))?;
        let mut random = Random::new(seed ^ 1);
        from_both_ends("a range", table.range((lower, upper)), model.range(lower, upper), seed)?;
        let key = self.setup.any_key(&mut random);
        let prefix = &key[..random.index(key.len() + 1)];
        let begins = |(key, _): &(Vec<u8>, Vec<u8>)| key.starts_with(prefix);
        let all = model.range(Bound::Unbounded, Bound::Unbounded).into_iter();
        from_both_ends("a prefix", table.prefix(prefix), all.filter(begins).collect(), seed)
    }

    fn cursor(&mut self, index: usize, seed: u64) -> Outcome {
        let (lower, upper) = self.bounds(&mut Random::new(seed));
        let (lower, upper) = (lower.as_ref().map(|it| &it[..]), upper.as_ref().map(|it| &it[..]));
        let (table, model) = &self.tables[index];
        self.cursors.push((ok(table.cursor(lower, upper))?, model.cursor(lower, upper)));
        self.cursors.drain(..self.cursors.len().saturating_sub(ALIVE));
        Ok(())
    }

    /// Moves a cursor about, mostly in one direction.
    fn travel(&mut self, index: usize, random: &mut Random, count: u64) -> Outcome {
        let forward = random.one_in(2);
        for _ in 0..count {
            let key = self.setup.any_key(random);
            let (cursor, model) = &mut self.cursors[index];
            match random.below(16) {
                0 => (cursor.seek(&key), model.seek(&key)).0,
                1 => (cursor.seek_first(), model.seek_first()).0,
                2 => (cursor.seek_last(), model.seek_last()).0,
                3 => {
                    let expected = model.next();
                    let found = ok(cursor.next_key())?;
                    same("the next key", &found, &expected.map(|(key, _)| key))?;
                    if let Some((_, value)) = expected {
                        same("its value", &ok(cursor.value())?, &value)?;
                        same("its value again", &ok(cursor.value())?, &value)?;
                    }
                }
                it if (it < 6) != forward => same("next", &ok(cursor.next())?, &model.next())?,
                _ => same("previous", &ok(cursor.previous())?, &model.previous())?,
            }
        }
        Ok(())
    }

    /// Has some of the work done that was handed out, in an order of its own, and drops some.
    fn help(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        let mut waiting = std::mem::take(&mut *self.later.0.lock().unwrap());
        while !waiting.is_empty() {
            let work = waiting.swap_remove(random.index(waiting.len()));
            if random.one_in(4) { drop(work) } else { work() }
        }
    }

    fn save(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let name = format!("s{}", random.below(ALIVE as u64));
        let label = format!("label {}", random.below(3));
        let payload = random.bytes((seed % 50) as usize);
        let all = random.one_in(3);
        let chosen: Vec<_> = (0..self.tables.len()).filter(|_| all || random.one_in(2)).collect();
        let mut names = std::collections::BTreeSet::new();
        let twins = chosen.iter().any(|index| !names.insert(self.tables[*index].0.name()));
        let tables: Vec<_> = chosen.iter().map(|index| &self.tables[*index].0).collect();
        let content = SnapshotContent { label: &label, payload: &payload, tables: &tables };
        let outcome = self.session.save_snapshot(&name, content);
        if twins {
            return refused("two tables of one name in a snapshot", outcome, Kind::Invalid);
        }
        if self.saved.contains_key(&name) {
            return refused("a snapshot that exists", outcome, Kind::Exists);
        }
        ok(outcome)?;
        let copy = |index: &usize| {
            let (table, model) = &self.tables[*index];
            (table.name().to_owned(), model.clone())
        };
        let tables = chosen.iter().map(copy).collect();
        self.saved.insert(name, model::Snapshot { label, payload, tables });
        Ok(())
    }

    fn open_options(&self, random: &mut Random, label: &str) -> OpenSnapshot {
        OpenSnapshot {
            verify: if random.one_in(3) { Verify::Full } else { Verify::Quick },
            label: random.one_in(2).then(|| label.to_owned()),
            operators: self.setup.operator().into_iter().collect(),
        }
    }

    /// Opens a snapshot in `session` and compares a little of it, or all when `whole`.
    fn open_in(
        &self,
        session: &Session,
        random: &mut Random,
        name: &str,
        whole: bool,
    ) -> Result<Vec<(Table, model::Table)>, String> {
        let expected = &self.saved[name];
        let options = self.open_options(random, &expected.label);
        let snapshot = ok(session.open_snapshot(name, &options))?;
        same("label", &snapshot.label, &expected.label)?;
        same("payload", &snapshot.payload, &expected.payload)?;
        same("count of tables", &snapshot.tables.len(), &expected.tables.len())?;
        let mut tables = Vec::new();
        for (table, (name, model)) in snapshot.tables.into_iter().zip(&expected.tables) {
            same("name of a table", &table.name(), &&name[..])?;
            if whole {
                compare("an opened table", &table.view(), model)?;
            }
            tables.push((table, model.clone()));
        }
        Ok(tables)
    }

    fn open(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let name = format!("s{}", random.below(ALIVE as u64));
        let Some(expected) = self.saved.get(&name) else {
            let outcome = self.session.open_snapshot(&name, &OpenSnapshot::default());
            return refused("a snapshot that is not there", outcome, Kind::Missing);
        };
        if random.one_in(6) {
            let mut options = self.open_options(&mut random, &expected.label);
            options.label = Some("another".to_owned());
            let outcome = self.session.open_snapshot(&name, &options);
            return refused("another label", outcome, Kind::Invalid);
        }
        let opened = self.open_in(&self.session, &mut random, &name, false)?;
        self.tables.extend(opened);
        self.tables.drain(..self.tables.len().saturating_sub(ALIVE));
        Ok(())
    }

    fn delete(&mut self, seed: u64) -> Outcome {
        let name = format!("s{}", seed % ALIVE as u64);
        let outcome = self.session.delete_snapshot(&name);
        match self.saved.remove(&name) {
            Some(_) => ok(outcome),
            None => refused("deleting what is not there", outcome, Kind::Missing),
        }
    }

    fn list(&mut self) -> Outcome {
        let found = ok(self.session.list_snapshots())?;
        let names: Vec<_> = found.iter().map(|info| info.name.clone()).collect();
        same("the snapshots", &names, &self.saved.keys().cloned().collect())?;
        for (info, saved) in found.iter().zip(self.saved.values()) {
            same("its damage", &info.damage, &None)?;
            same("its label", &info.label, &saved.label)?;
            same("its payload", &info.payload_bytes, &(saved.payload.len() as u64))?;
            let names: Vec<_> = info.tables.iter().map(|table| table.name.clone()).collect();
            let expected = saved.tables.iter().map(|(name, _)| name.clone()).collect();
            same("its tables", &names, &expected)?;
        }
        Ok(())
    }

    /// A second session reads a snapshot while this one writes.
    fn read_only(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let options = SessionOptions { cache: self.cache.clone(), ..SessionOptions::default() };
        let reader = ok(Session::open_read_only(Arc::clone(&self.disk), options.clone()))?;
        let locked = Session::open(Arc::clone(&self.disk), options);
        refused("a second writer", locked, Kind::Locked)?;
        for (mut table, _) in self.find_live(&reader)? {
            refused("a reader's update", table.update(&Batch::new()), Kind::Invalid)?;
        }
        let names: Vec<_> = self.saved.keys().cloned().collect();
        if names.is_empty() {
            return Ok(());
        }
        let name = &names[random.index(names.len())];
        for (mut table, _) in self.open_in(&reader, &mut random, name, true)? {
            refused("a reader's update", table.update(&Batch::new()), Kind::Invalid)?;
        }
        Ok(())
    }

    /// Calls that must fail and change nothing.
    fn refused(&mut self, index: usize, seed: u64) -> Outcome {
        let (table, _) = &mut self.tables[index];
        let mut batch = Batch::new();
        batch.insert(b"refused", b"with the rest of its batch");
        match seed % 4 {
            0 => {
                let outcome = table.update(batch.insert(&[1; 4_001], b""));
                refused("a key of that length", outcome, Kind::Invalid)
            }
            1 if self.setup.join().is_none() => {
                let outcome = table.update(batch.upsert(b"key", b"value"));
                refused("an upsert without an operator", outcome, Kind::Invalid)
            }
            2 => {
                let content = SnapshotContent { label: "", payload: b"", tables: &[] };
                let outcome = self.session.save_snapshot("../outside", content);
                refused("a name with a slash", outcome, Kind::Invalid)
            }
            _ => {
                let options = TableOptions { size_ratio: 1, ..TableOptions::default() };
                let outcome = self.session.create_table("t", options);
                refused("a size ratio of 1", outcome, Kind::Invalid)?;
                let outcome = self.session.create_table("", TableOptions::default());
                refused("an empty name", outcome, Kind::Invalid)
            }
        }
    }

    fn compare(&mut self) -> Outcome {
        for (table, model) in &self.tables {
            compare("a table", &table.view(), model)?;
            same("the count of keys", &ok(table.view().count())?, &(model.len() as u64))?;
            let stats = ok(table.stats())?;
            let bounds = stats.logical_entries_min..=stats.logical_entries_max;
            let within = bounds.contains(&(model.len() as u64));
            let guessed = bounds.contains(&stats.logical_entries);
            same(
                "whether the logical size is within its bounds",
                &(within, guessed),
                &(true, true),
            )?;
        }
        for (view, model) in &self.views {
            compare("a view", view, model)?;
        }
        Ok(())
    }

    fn reopen(&mut self, closed: bool, crash: Option<u64>) -> Outcome {
        if self.tables.is_empty() {
            self.create()?;
        }
        let session = self.session.clone();
        if closed {
            ok(session.close())?;
            if let Some((value, _)) = self.values.first() {
                refused("reading a value of a closed session", value.read(), Kind::Closed)?;
            }
            let (table, _) = &mut self.tables[0];
            refused("a closed session's update", table.update(&Batch::new()), Kind::Closed)?;
            refused("a closed session's lookup", table.get(b"key"), Kind::Closed)?;
        } else {
            drop(session);
        }
        self.restart(crash)?;
        let names: Vec<_> = self.saved.keys().cloned().collect();
        let mut random = self.random.clone();
        for name in names {
            let opened = self.open_in(&self.session, &mut random, &name, true)?;
            if self.tables.is_empty() {
                self.tables = opened;
            }
        }
        self.random = random;
        let found = self.find_live(&self.session)?;
        // Some stay open, and one that nobody opens must be there again the next time too.
        self.tables.extend(found.into_iter().skip(1).take(2));
        self.tables.drain(..self.tables.len().saturating_sub(ALIVE));
        Ok(())
    }

    /// The session and all that is open of it goes, perhaps with the power, and the next one begins.
    fn restart(&mut self, crash: Option<u64>) -> Outcome {
        if let (Some(sim), Some(seed)) = (&self.sim, crash) {
            let image = sim.crash(Crash::Seed(seed));
            self.disk = Arc::clone(&image) as _;
            self.sim = Some(image);
            self.copies.end_followers();
        }
        self.tables.clear();
        self.views.clear();
        self.cursors.clear();
        self.values.clear();
        self.later.0.lock().unwrap().clear();
        // The lock goes with the last handle, so the old session ends before the new one begins.
        let parking = ok(Session::create(MemoryDisk::seeded(1), SessionOptions::default()))?;
        self.session = parking;
        let options = options(&self.setup, &self.later, self.cache.as_ref());
        self.session = ok(Session::open(Arc::clone(&self.disk), options))?;
        same("warnings", &self.session.warnings(), &Vec::new())
    }

    /// The last look: everything is right, the check finds nothing, and nothing is left behind.
    pub fn end(mut self) -> Outcome {
        self.compare()?;
        self.reopen(true, None)?;
        let report = ok(check(&self.disk, |_| ControlFlow::Continue(())))?;
        same("what the check finds", &report.findings, &Vec::new())?;
        same("snapshots that it reads", &report.snapshots, &(self.saved.len() as u64))?;
        same("live tables that it reads", &report.live_tables, &(self.live.len() as u64))?;
        let names: Vec<_> = self.saved.keys().cloned().collect();
        for name in names {
            ok(self.session.delete_snapshot(&name))?;
        }
        self.tables.clear();
        for name in self.live.keys() {
            ok(self.session.delete_table(name))?;
        }
        ok(self.session.clone().close())?;
        // Work that was never done holds its session, which holds who was to do it.
        self.later.0.lock().unwrap().clear();
        let left = ok(self.disk.list("segments"))?;
        same("segments that nothing holds", &left, &Vec::new())?;
        drop(self.folder.take());
        Ok(())
    }
}

/// Makes the steps of a case; what differs from the model, or panics, is told.
pub fn run(setup: &Setup, steps: &[Step]) -> Result<(), String> {
    let all = || {
        let mut world = World::new(*setup)?;
        for (index, step) in steps.iter().enumerate() {
            world.step(*step).map_err(|what| format!("step {index}, {step:?}: {what}"))?;
        }
        world.end().map_err(|what| format!("at the end: {what}"))
    };
    catch_unwind(AssertUnwindSafe(all)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

fn options(setup: &Setup, later: &Arc<Later>, cache: Option<&Arc<Cache>>) -> SessionOptions {
    let executor: Option<Arc<dyn Executor>> = match setup.helper {
        Help::None => None,
        Help::AtOnce => Some(Arc::new(AtOnce)),
        Help::Later => Some(Arc::clone(later) as _),
    };
    SessionOptions {
        seed: Some(setup.seed),
        access: setup.access,
        cache: cache.cloned(),
        queue_depth: setup.queue_depth,
        max_open_files: setup.max_open_files,
        segment_bytes: setup.segment_bytes,
        executor,
        log: setup.log,
        log_file_bytes: setup.log_file_bytes,
        ..SessionOptions::default()
    }
}

/// Takes a range from both ends, in an order that `seed` says, with values or keys alone, until they meet.
fn from_both_ends(
    what: &str,
    range: Range,
    expected: Vec<(Vec<u8>, Vec<u8>)>,
    seed: u64,
) -> Outcome {
    let mut random = Random::new(seed);
    let (backward, keys_alone) = (random.below(3), random.one_in(2));
    let mut expected = expected.into_iter().map(|(key, value)| (key, Some(value)));
    let whole = |entry: Result<(Bytes, Bytes), Error>| {
        entry.map(|(key, value)| (Vec::from(key), Some(Vec::from(value))))
    };
    let mut found: Entries = if keys_alone {
        Box::new(range.keys().map(|key| key.map(|key| (key.into(), None))))
    } else {
        Box::new(range.map(whole))
    };
    // A range is fused: both ends are asked again when it is over.
    let mut after_end = 0;
    while after_end < 3 {
        let is_back = random.below(2) < backward;
        let wanted = if is_back { expected.next_back() } else { expected.next() };
        let wanted = wanted.map(|(key, value)| (key, value.filter(|_| !keys_alone)));
        let found = if is_back { found.next_back() } else { found.next() };
        after_end += u32::from(wanted.is_none());
        same(what, &found.map(ok).transpose()?, &wanted)?;
    }
    Ok(())
}

/// A key, and its value where that was asked for.
type Entry = (Vec<u8>, Option<Vec<u8>>);

/// Owned, as what a range gives is promised to be.
type Entries = Box<dyn DoubleEndedIterator<Item = Result<Entry, Error>> + Send>;

/// All of it, forward and backward.
fn compare(what: &str, view: &View, model: &model::Table) -> Outcome {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let expected = model.range(all.0, all.1);
    same(what, &ok(view.listed(all.0, all.1))?, &expected)?;
    let mut cursor = ok(view.cursor(all.0, all.1))?;
    cursor.seek_last();
    for (key, value) in expected.iter().rev() {
        same(what, &ok(cursor.previous())?, &Some((&key[..], &value[..])))?;
    }
    same(what, &ok(cursor.previous())?, &None)?;
    let keys: Vec<_> = expected.iter().map(|(key, _)| key).collect();
    let found = ok(view.lookup(&keys))?;
    for ((_, value), found) in expected.iter().zip(found.iter()) {
        same(what, &found, &Some(&value[..]))?;
    }
    Ok(())
}
