//! Live tables through power cuts at every write and sync, deaths of the process, and failing calls:
//! what was acknowledged is there, nothing is half there.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::raw::KeyRange;
use varvite::table::check::check;
use varvite::{
    Compression, Error, Kind, Log, OpenTable, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Value,
};

use crate::faults::is_failed_sync;
use crate::listed::Listed;
use crate::model::table as model;
use crate::random::{Random, setting};
use crate::story::{SETUP, is_poisoned};

/// What the live tables hold, by name.
pub type Live = BTreeMap<String, model::Table>;

#[derive(Clone, Copy, Debug)]
pub enum Act {
    Begin,
    Create(&'static str),
    Update(&'static str, u64),
    Both(&'static str, &'static str, u64),
    /// A value in pieces, bound to a key or two beside other changes, in a table without upserts.
    Stream(&'static str, u64),
    /// The same with a value that is found in another table.
    Rebind(&'static str, &'static str, u64),
    /// A range between two of the keys, or all.
    DeleteRange(&'static str, Option<(u64, u64)>),
    Publish(&'static str, &'static str),
    Close(&'static str),
    Open(&'static str),
    Delete(&'static str),
    Save(&'static str, &'static str),
    Reopen,
    End,
}

pub const ACTS: &[Act] = &[
    Act::Begin,
    Act::Create("a"),
    Act::Update("a", 1),
    Act::Create("b"),
    Act::Both("b", "a", 2),
    Act::Update("a", 3),
    Act::Update("a", 4),
    Act::Both("a", "b", 5),
    Act::Save("one", "a"),
    Act::Update("a", 6),
    Act::Publish("a", "c"),
    Act::Both("a", "c", 7),
    Act::Close("b"),
    Act::Update("a", 8),
    Act::Update("c", 9),
    Act::DeleteRange("a", Some((20, 45))),
    Act::Update("a", 10),
    Act::Reopen,
    Act::Open("a"),
    Act::Update("a", 11),
    Act::Open("c"),
    Act::Both("a", "c", 12),
    Act::DeleteRange("c", None),
    Act::Update("a", 13),
    Act::Update("a", 14),
    Act::Open("b"),
    Act::Both("a", "b", 15),
    Act::Close("c"),
    Act::Delete("c"),
    Act::Update("a", 16),
    Act::DeleteRange("a", Some((0, 50))),
    Act::Update("b", 17),
    Act::Reopen,
    Act::Open("b"),
    Act::Update("b", 18),
    Act::Update("b", 19),
    Act::End,
];

/// The same for values in blob files, of tables without upserts.
pub const BLOB_ACTS: &[Act] = &[
    Act::Begin,
    Act::Create("v"),
    Act::Stream("v", 1),
    Act::Create("w"),
    Act::Update("v", 2),
    Act::Stream("w", 3),
    Act::Rebind("w", "v", 4),
    Act::Update("v", 5),
    Act::Update("v", 6),
    Act::Rebind("w", "v", 7),
    Act::Stream("v", 8),
    Act::Publish("v", "x"),
    Act::Stream("x", 9),
    Act::DeleteRange("v", Some((0, 50))),
    Act::Both("v", "w", 10),
    Act::Reopen,
    Act::Open("w"),
    Act::Rebind("w", "w", 11),
    Act::Stream("w", 12),
    Act::Open("x"),
    Act::Close("x"),
    Act::Delete("x"),
    Act::Save("one", "w"),
    Act::Update("w", 13),
    Act::Stream("w", 14),
    Act::Reopen,
    Act::Open("v"),
    Act::Stream("v", 15),
    Act::Update("v", 16),
    Act::End,
];

pub fn options(log: Log) -> SessionOptions {
    SessionOptions { seed: Some(42), log, log_file_bytes: 1_500, ..SessionOptions::default() }
}

pub fn opening() -> OpenTable {
    OpenTable { operators: SETUP.operator().into_iter().collect(), ..OpenTable::default() }
}

/// Tables of these names have a merge operator.
fn has_operator(name: &str) -> bool {
    ["a", "b", "c"].contains(&name)
}

fn table_options(name: &str) -> TableOptions {
    let options = SETUP.table_options();
    let compression =
        if ["a", "v"].contains(&name) { Compression::Fast } else { Compression::None };
    let operator = options.operator.filter(|_| has_operator(name));
    TableOptions { operator, compression, ..options }
}

pub fn changes(name: &str, seed: u64) -> Vec<model::Change> {
    let mut changes = SETUP.changes(seed, 4 + (seed % 3) as u32 * 4);
    for change in &mut changes {
        if let (model::Change::Upsert(key, value), false) = (&change, has_operator(name)) {
            *change = model::Change::Insert(key.clone(), value.clone());
        }
    }
    changes
}

/// The value that is written in pieces.
fn streamed(seed: u64) -> Vec<u8> {
    Random::new(seed).bytes([0, 40, 700, 9_000][seed as usize % 4])
}

/// The keys that a value is bound to.
fn keys(seed: u64) -> Vec<Vec<u8>> {
    (seed..=seed + seed % 2).map(|number| SETUP.key(number)).collect()
}

fn bind(live: &mut Live, name: &str, seed: u64, value: &[u8]) {
    let insert = |key| model::Change::Insert(key, value.to_vec());
    let changes: Vec<_> = keys(seed).into_iter().map(insert).collect();
    live.get_mut(name).expect("it is live").update(&changes, None);
}

/// The longest value of a table that is not empty, with its key.
fn longest(table: &model::Table) -> (Vec<u8>, Vec<u8>) {
    let all = table.range(Bound::Unbounded, Bound::Unbounded);
    all.into_iter().max_by_key(|(_, value)| value.len()).expect("it is not empty")
}

/// From the first of two keys, or everything; the second key stays.
fn range(keys: Option<(u64, u64)>) -> KeyRange {
    let Some((one, other)) = keys else {
        return KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded };
    };
    let mut keys = [SETUP.key(one), SETUP.key(other)];
    keys.sort();
    let [lower, upper] = keys;
    KeyRange { lower: Bound::Included(lower), upper: Bound::Excluded(upper) }
}

pub fn equal(table: &Table, model: &model::Table) -> Result<bool, Error> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    Ok(table.listed(all.0, all.1)? == model.range(all.0, all.1))
}

pub struct Tale {
    disk: Arc<dyn Disk>,
    log: Log,
    session: Option<Session>,
    tables: BTreeMap<&'static str, Table>,
    pub live: Live,
    /// What was live after each act since something was last made durable for sure.
    pub history: Vec<Live>,
}

impl Tale {
    pub fn new(sim: &Arc<SimDisk>, log: Log) -> Tale {
        Self::on(Arc::clone(sim) as Arc<dyn Disk>, log)
    }

    pub fn on(disk: Arc<dyn Disk>, log: Log) -> Tale {
        let (tables, live) = (BTreeMap::new(), Live::new());
        Tale { disk, log, session: None, tables, history: vec![live.clone()], live }
    }

    /// What is live when `act` is done.
    pub fn after(&self, act: Act) -> Live {
        let mut live = self.live.clone();
        let mut update = |name: &str, seed| {
            live.get_mut(name).expect("it is live").update(&changes(name, seed), SETUP.join());
        };
        match act {
            Act::Update(name, seed) => update(name, seed),
            Act::Both(first, second, seed) => {
                update(first, seed);
                update(second, seed + 100);
            }
            Act::Stream(name, seed) => {
                update(name, seed);
                bind(&mut live, name, seed, &streamed(seed));
            }
            Act::Rebind(name, from, seed) => {
                let (_, value) = longest(&self.live[from]);
                update(name, seed);
                bind(&mut live, name, seed, &value);
            }
            Act::DeleteRange(name, keys) => {
                let range = range(keys);
                let (lower, upper) = range.bounds();
                live.get_mut(name).expect("it is live").delete_range(lower, upper);
            }
            Act::Create(name) => drop(live.insert(name.to_owned(), model::Table::default())),
            Act::Publish(name, copy) => drop(live.insert(copy.to_owned(), live[name].clone())),
            Act::Delete(name) => drop(live.remove(name)),
            _ => {}
        }
        live
    }

    pub fn session(&self) -> &Session {
        self.session.as_ref().expect("the tale begins with a session")
    }

    pub fn act(&mut self, act: Act) -> Result<(), Error> {
        let after = self.after(act);
        match act {
            Act::Begin => {
                self.session = Some(Session::create(Arc::clone(&self.disk), options(self.log))?);
            }
            Act::Create(name) => {
                let table = self.session().create_table(name, table_options(name))?;
                self.tables.insert(name, table);
            }
            Act::Update(name, seed) => {
                let table = self.tables.get_mut(name).expect("it is open");
                table.update(&model::batch(&changes(name, seed)))?;
            }
            Act::Both(first, second, seed) => self.both(first, second, seed)?,
            Act::Stream(name, seed) => {
                let mut writer = self.session().write_value()?;
                streamed(seed).chunks(3_000).try_for_each(|piece| writer.write(piece))?;
                self.bind(name, seed, &writer.finish()?)?;
            }
            Act::Rebind(name, from, seed) => {
                let (key, _) = longest(&self.live[from]);
                let found = self.tables[from].view().find(&[key])?.remove(0);
                self.bind(name, seed, &found.expect("it is bound"))?;
            }
            Act::DeleteRange(name, keys) => {
                let table = self.tables.get_mut(name).expect("it is open");
                let range = range(keys);
                let (lower, upper) = range.bounds();
                table.delete_range(lower, upper)?;
            }
            Act::Publish(name, copy) => {
                let mut table = self.tables[name].duplicate(copy)?;
                self.session().publish(&mut table)?;
                self.tables.insert(copy, table);
            }
            Act::Close(name) => drop(self.tables.remove(name)),
            Act::Open(name) => {
                let table = self.session().open_table(name, &opening())?;
                assert!(equal(&table, &self.live[name])?, "{name} opens as another");
                self.tables.insert(name, table);
            }
            Act::Delete(name) => self.session().delete_table(name)?,
            Act::Save(name, table) => {
                let tables = &[&self.tables[table]];
                let content = SnapshotContent { label: "", payload: b"", tables };
                self.session().save_snapshot(name, content)?;
            }
            Act::Reopen => {
                self.tables.clear();
                self.session = None;
                self.session = Some(Session::open(Arc::clone(&self.disk), options(self.log))?);
            }
            Act::End => {
                self.tables.clear();
                let session = self.session.take().expect("the tale begins with a session");
                session.close()?;
            }
        }
        let unsynced = matches!(
            act,
            Act::Update(..)
                | Act::Both(..)
                | Act::Stream(..)
                | Act::Rebind(..)
                | Act::DeleteRange(..)
                | Act::Save(..)
                | Act::Close(_)
                | Act::Open(_)
        );
        if self.log == Log::Synced || !unsynced {
            self.history.clear();
        }
        self.live = after;
        self.history.push(self.live.clone());
        Ok(())
    }

    fn both(&mut self, first: &str, second: &str, seed: u64) -> Result<(), Error> {
        let mut tables = self.tables.iter_mut();
        let mut found: Vec<_> =
            tables.by_ref().filter(|(name, _)| [first, second].contains(name)).collect();
        if *found[0].0 != first {
            found.swap(0, 1);
        }
        let batches = [(first, seed), (second, seed + 100)];
        let batches = batches.map(|(name, seed)| model::batch(&changes(name, seed)));
        let mut updates: Vec<_> = found.into_iter().map(|(_, table)| table).zip(&batches).collect();
        self.session.as_ref().expect("the tale begins with a session").update(&mut updates)
    }

    /// Binds keys to a value without a copy of it, beside other changes.
    fn bind(&mut self, name: &str, seed: u64, value: &Value) -> Result<(), Error> {
        let mut batch = model::batch(&changes(name, seed));
        for key in keys(seed) {
            batch.insert_value(&key, value);
        }
        self.tables.get_mut(name).expect("it is open").update(&batch)
    }

    fn is_intact(&self) -> Result<(), Error> {
        for (name, table) in &self.tables {
            assert!(equal(table, &self.live[*name])?, "{name} changed");
        }
        Ok(())
    }
}

/// Opens what a crash left: it must be one of `allowed`, whole, and go on. Returns which.
pub fn assert_reopens(
    disk: &Arc<dyn Disk>,
    log: Log,
    allowed: &[&Live],
    what: &dyn std::fmt::Debug,
) -> usize {
    let session = match Session::open(Arc::clone(disk), options(log)) {
        Err(error) if error.kind() == Kind::Missing && allowed.iter().any(|it| it.is_empty()) => {
            Session::create(Arc::clone(disk), options(log))
        }
        opened => opened,
    };
    let session = session.unwrap_or_else(|error| panic!("{what:?}: it does not open: {error}"));
    assert_eq!(session.warnings(), Vec::<String>::new(), "{what:?}");
    let tables = session.open_all(&opening());
    let mut tables = tables.unwrap_or_else(|error| panic!("{what:?}: no live tables: {error}"));
    let is_one = |live: &&&Live| {
        live.len() == tables.len()
            && tables
                .iter()
                .zip(live.iter())
                .all(|(table, (name, model))| table.name() == name && equal(table, model).unwrap())
    };
    let which = allowed.iter().position(|live| is_one(&live));
    let which = which.unwrap_or_else(|| panic!("{what:?}: none of {} contents", allowed.len()));
    let mut expected = allowed[which].clone();
    for seed in 200..204 {
        for table in &mut tables {
            let changes = changes(table.name(), seed);
            table.update(&model::batch(&changes)).unwrap();
            expected.get_mut(table.name()).unwrap().update(&changes, SETUP.join());
        }
    }
    drop((tables, session));
    let report = check(disk, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.findings, report.unreferenced), (Vec::new(), 0), "{what:?}");
    let session = Session::open(Arc::clone(disk), options(log)).unwrap();
    for table in session.open_all(&opening()).unwrap() {
        assert!(equal(&table, &expected[table.name()]).unwrap(), "{what:?}: {}", table.name());
    }
    which
}

/// Tells the tale until the process dies at the `n`-th change or sync; `false` when it came to its end.
fn die_at(n: u64, acts: &[Act], log: Log, tally: &mut [u64; 3]) -> bool {
    let sim = SimDisk::new(7);
    sim.kill_at(n);
    let mut tale = Tale::new(&sim, log);
    for act in acts {
        let after = tale.after(*act);
        let outcome = tale.act(*act);
        if sim.is_dead() {
            let mut allowed: Vec<_> = tale.history.iter().rev().cloned().collect();
            if outcome.is_err() {
                allowed.insert(1, after);
            }
            drop(tale);
            let seeded = setting("VARVITE_CRASH_IMAGES", 32) / 4;
            for (crash, image) in sim.crash_images(4, seeded) {
                // What was written outlives the process whatever was promised.
                let most = if crash == Crash::Process { 2 } else { allowed.len() };
                let allowed: Vec<_> = allowed.iter().take(most).collect();
                let disk = image as Arc<dyn Disk>;
                let which = assert_reopens(&disk, log, &allowed, &(n, act, crash));
                tally[which.min(2)] += 1;
            }
            return true;
        }
        outcome.unwrap_or_else(|error| panic!("{act:?} failed without a reason: {error}"));
    }
    assert!(sim.calls().mutations < n, "the tale ended before call {n}, yet nothing died");
    false
}

fn every_crash(acts: &[Act], log: Log) -> [u64; 3] {
    let mut tally = [0; 3];
    let mut n = 1;
    while die_at(n, acts, log, &mut tally) {
        n += 1;
    }
    println!("{n} places; as before, as after, as earlier: {tally:?}");
    assert!(n > 200, "{n}");
    tally
}

#[test]
fn the_tales_have_segments_with_compressed_pages() {
    for acts in [ACTS, BLOB_ACTS] {
        let disk = MemoryDisk::seeded(1);
        let mut tale = Tale::on(Arc::clone(&disk) as Arc<dyn Disk>, Log::Written);
        let mut compressed = 0;
        for act in acts {
            tale.act(*act).unwrap();
            let segments = disk.files().into_iter().filter(|path| path.ends_with(".segment"));
            // Its version; all others are of version 3.
            compressed +=
                segments.filter(|path| disk.bytes(path).unwrap().get(8) == Some(&4)).count();
        }
        assert!(compressed > 10, "{compressed}");
    }
}

#[test]
fn a_synced_log_loses_nothing_and_halves_nothing() {
    for acts in [ACTS, BLOB_ACTS] {
        let [before, after, earlier] = every_crash(acts, Log::Synced);
        assert!(before > 1_000 && after > 40 && earlier == 0, "{before} {after} {earlier}");
    }
}

#[test]
fn a_written_log_outlives_the_process_and_is_a_beginning_after_a_power_cut() {
    for acts in [ACTS, BLOB_ACTS] {
        let [before, after, earlier] = every_crash(acts, Log::Written);
        assert!(before > 1_000 && after > 5 && earlier > 100, "{before} {after} {earlier}");
    }
}

/// Tells the tale while the `n`-th call of `fault` fails; returns whether writing stopped.
fn fail(acts: &[Act], fault: Fault, n: u64, log: Log, lose: bool) -> (u64, bool) {
    let sim = SimDisk::new(7);
    sim.lose_cache_on_failed_sync(lose);
    sim.fail_at(n, fault);
    let mut tale = Tale::new(&sim, log);
    let (mut failures, mut poisoned) = (0, false);
    let mut perhaps = Vec::new();
    'acts: for act in acts {
        let what = (fault, n, *act);
        let after = tale.after(*act);
        let mut retried = false;
        while let Err(error) = tale.act(*act) {
            if retried {
                // The first failure stopped all writing, or had come after the session was there.
                let is_there = matches!(act, Act::Begin) && error.kind() == Kind::Exists;
                // One that reads first finds what the system took back.
                let is_gone =
                    lose && matches!(act, Act::Rebind(..)) && error.kind() == Kind::Corrupt;
                let is_told = is_there || is_gone || error.kind() == Kind::Poisoned;
                assert!(is_told, "{what:?}: {error:?}");
                poisoned = true;
                break 'acts;
            }
            failures += 1;
            assert_eq!(error.kind(), Kind::Io, "{what:?}: {error:?}");
            if let Err(lost) = tale.is_intact() {
                let dropped = lose && is_failed_sync(&error) && lost.kind() == Kind::Corrupt;
                let session = tale.session.as_ref();
                let is_poisoned = session.is_some_and(is_poisoned);
                assert!(dropped && is_poisoned, "{what:?}: {error:?}; not intact: {lost:?}");
            }
            if lose && log == Log::Written && matches!(act, Act::Reopen | Act::End) {
                // Told of it, and the system took back what nobody had asked to be durable.
                return (failures, false);
            }
            perhaps.push(after.clone());
            if matches!(act, Act::End) {
                break;
            }
            retried = true;
        }
    }
    let crash = if log == Log::Synced { Crash::Seed(n) } else { Crash::Process };
    let live = tale.live.clone();
    drop(tale);
    let mut allowed = vec![&live];
    if poisoned {
        allowed.extend(&perhaps);
    }
    // A system that drops what it could not sync takes it from those who did not ask for a sync, too.
    if !(lose && poisoned && log == Log::Written) {
        let disk = sim.crash(crash) as Arc<dyn Disk>;
        assert_reopens(&disk, log, &allowed, &(fault, n, log, lose));
    }
    (failures, poisoned)
}

#[test]
fn every_failing_call_gives_an_error_and_the_log_loses_nothing() {
    let (mut runs, mut failed, mut stopped) = (0_u64, 0_u64, 0_u64);
    let tales = [ACTS, BLOB_ACTS].into_iter();
    for (acts, log) in tales.flat_map(|acts| [(acts, Log::Written), (acts, Log::Synced)]) {
        let sim = SimDisk::new(7);
        let mut tale = Tale::new(&sim, log);
        for act in acts {
            tale.act(*act).unwrap();
        }
        drop(tale);
        let calls = sim.calls();
        let all: u64 = Fault::ALL.iter().map(|fault| calls.of(*fault)).sum();
        let stride = all.div_ceil(setting("VARVITE_FAULTS", 2_000) / 4).max(1);
        for fault in Fault::ALL {
            for n in (1..=calls.of(fault)).step_by(stride as usize) {
                for lose in [false, true] {
                    let (failures, poisoned) = fail(acts, fault, n, log, lose);
                    runs += 1;
                    failed += u64::from(failures > 0);
                    stopped += u64::from(poisoned);
                }
            }
        }
    }
    println!("{runs} runs, {failed} with a failure, {stopped} stopped writing");
    assert!(failed > runs / 4 && stopped > 20, "{runs} {failed} {stopped}");
}
