//! Random sessions over several tables, each of a few updates, so that short log files become one again and again, while
//! another process follows them. The power goes at any call, any call fails, files are damaged: what was acknowledged is
//! there, once, and nothing is half there; and no file stays that nothing needs.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::table::check::check;
use varvite::{
    Batch, Follower, Log, MergeOperator, OpenTable, Result, Session, SessionOptions,
    SnapshotContent, Table, TableOptions,
};

use crate::log_joins::{next_log_file, table};
use crate::random::{Random, setting};

/// What each table is to have.
type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Sessions of one seed.
const SESSIONS: u64 = 100;

fn options(log: Log, log_file_bytes: u64) -> SessionOptions {
    SessionOptions { log, log_file_bytes, seed: Some(3), ..SessionOptions::default() }
}

/// Every other table has an operator, and so no values in pieces.
fn adds(table: &str) -> bool {
    table.ends_with(['0', '2', '4', '6', '8'])
}

fn table_options(number: u64) -> TableOptions {
    let write_buffer_bytes = [600, 3_000, 64_000][number as usize % 3];
    let small = TableOptions {
        write_buffer_bytes,
        blob_min_bytes: Some(300),
        size_ratio: 2,
        ..TableOptions::default()
    };
    if number.is_multiple_of(2) { small.with_operator(MergeOperator::add_u64()) } else { small }
}

#[derive(Clone, Debug)]
enum Change {
    Insert(Vec<u8>, Vec<u8>),
    /// A value in pieces.
    Write(Vec<u8>, Vec<u8>),
    Add(Vec<u8>, u64),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

#[derive(Clone, Debug)]
enum Act {
    Create(String, u64),
    Drop(String),
    /// One update of a table or two.
    Update(Vec<(String, Vec<Change>)>),
    /// A snapshot of a table, in place of the one before.
    Save(String),
}

fn changes(random: &mut Random, table: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    for _ in 0..=random.below(3) {
        let key = vec![b'a' + random.below(10) as u8];
        changes.push(match random.below(12) {
            0 | 1 => Change::Delete(key),
            2 => {
                let end = vec![key[0] + random.below(3) as u8];
                Change::DeleteRange(key, end)
            }
            3 | 4 if !adds(table) => Change::Write([&b"long "[..], &key].concat(), {
                let length = 300 + random.index(900);
                random.bytes(length)
            }),
            3 => Change::Insert([&b"long "[..], &key].concat(), random.bytes(350)),
            4..8 => Change::Insert(key, random.below(100).to_le_bytes().to_vec()),
            _ if adds(table) => Change::Add(key, 1 + random.below(5)),
            _ => Change::Insert(key, random.bytes(20)),
        });
    }
    changes
}

fn draw(random: &mut Random, model: &Model, made: &mut u64) -> Act {
    let names: Vec<_> = model.keys().cloned().collect();
    let kind = random.below(40);
    if names.len() < 3 || kind == 0 && names.len() < 8 {
        *made += 1;
        return Act::Create(format!("t{made}"), *made);
    }
    let one = random.index(names.len());
    if kind == 1 && names.len() > 4 {
        return Act::Drop(names[one].clone());
    }
    if kind == 2 {
        return Act::Save(names[one].clone());
    }
    let mut updates = vec![(names[one].clone(), changes(random, &names[one]))];
    if random.one_in(4) {
        let other = &names[(one + 1) % names.len()];
        updates.push((other.clone(), changes(random, other)));
    }
    Act::Update(updates)
}

fn apply(model: &mut Model, act: &Act) {
    match act {
        Act::Create(name, _) => drop(model.insert(name.clone(), BTreeMap::new())),
        Act::Drop(name) => drop(model.remove(name)),
        Act::Save(_) => {}
        Act::Update(updates) => {
            for (name, changes) in updates {
                let of = model.get_mut(name).unwrap();
                for change in changes {
                    match change {
                        Change::Insert(key, value) | Change::Write(key, value) => {
                            of.insert(key.clone(), value.clone());
                        }
                        Change::Delete(key) => drop(of.remove(key)),
                        Change::DeleteRange(from, to) => {
                            of.retain(|key, _| key < from || key >= to);
                        }
                        Change::Add(key, more) => {
                            let number =
                                |it: &Vec<u8>| u64::from_le_bytes(it[..].try_into().unwrap());
                            let sum = of.get(key).map_or(0, number) + more;
                            of.insert(key.clone(), sum.to_le_bytes().to_vec());
                        }
                    }
                }
            }
        }
    }
}

fn batch(session: &Session, changes: &[Change]) -> Result<Batch> {
    let mut batch = Batch::new();
    for change in changes {
        match change {
            Change::Insert(key, value) => _ = batch.insert(key, value),
            Change::Write(key, value) => {
                let mut writer = session.write_value()?;
                value.chunks(500).try_for_each(|piece| writer.write(piece))?;
                batch.insert_value(key, &writer.finish()?);
            }
            Change::Delete(key) => _ = batch.delete(key),
            Change::DeleteRange(from, to) => {
                batch.delete_range(Included(&from[..]), Excluded(&to[..]));
            }
            Change::Add(key, more) => _ = batch.upsert(key, &more.to_le_bytes()),
        }
    }
    Ok(batch)
}

fn make(session: &Session, act: &Act) -> Result<()> {
    match act {
        Act::Create(name, number) => session.create_table(name, table_options(*number)).map(drop),
        Act::Drop(name) => session.delete_table(name),
        Act::Save(name) => {
            if session.list_snapshots()?.iter().any(|it| it.name == "s") {
                session.delete_snapshot("s")?;
            }
            let content =
                SnapshotContent { label: "", payload: b"", tables: &[&table(session, name)?] };
            session.save_snapshot("s", content)
        }
        Act::Update(updates) => {
            let tables = updates.iter().map(|(name, _)| table(session, name));
            let mut tables = tables.collect::<Result<Vec<_>>>()?;
            let batches = updates.iter().map(|(_, changes)| batch(session, changes));
            let batches = batches.collect::<Result<Vec<_>>>()?;
            let mut each: Vec<_> = tables.iter_mut().zip(&batches).collect();
            session.update(&mut each)
        }
    }
}

fn entries<'t>(tables: impl IntoIterator<Item = &'t Table>) -> Result<Model> {
    let mut found = Model::new();
    for table in tables {
        let entries =
            table.iter().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
        found.insert(table.name().to_owned(), entries.collect::<Result<_>>()?);
    }
    Ok(found)
}

/// What is found on `disk`, which is left as it is.
fn read(disk: &Arc<SimDisk>, options: &SessionOptions, place: &str) -> Model {
    let image = disk.crash(Crash::Process) as Arc<dyn Disk>;
    let report = check(&image, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.findings, Vec::new(), "{place}");
    let session = Session::open(image, options.clone());
    let session = session.unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(session.warnings(), Vec::<String>::new(), "{place}");
    let tables = session.open_all(&OpenTable::default()).unwrap();
    entries(&tables).unwrap_or_else(|error| panic!("{place}: {error}"))
}

/// What may be there when the power goes, the newest last.
struct Possible {
    states: Vec<Model>,
    log: Log,
}

impl Possible {
    fn newest(&self) -> &Model {
        self.states.last().unwrap()
    }

    fn push(&mut self, act: &Act) {
        let mut next = self.newest().clone();
        apply(&mut next, act);
        self.states.push(next);
    }

    /// `act` was acknowledged.
    fn done(&mut self, act: &Act) {
        self.push(act);
        // With a checkpoint the log is durable up to it.
        if self.log == Log::Synced || matches!(act, Act::Create(..) | Act::Drop(_)) {
            self.durable();
        }
    }

    fn durable(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }
}

#[derive(Debug, Default)]
struct Seen {
    acts: u64,
    kills: u64,
    failed: u64,
    poisoned: u64,
    joins: u64,
    /// Kills between the first call for the new file and the last for those in whose place it came.
    kills_in_joins: u64,
    reloads: u64,
    damaged: u64,
    noticed: u64,
    /// The most log files that sessions left that were closed.
    files_max: usize,
}

/// A disk, and what it is to have.
struct World {
    random: Random,
    sim: Arc<SimDisk>,
    options: SessionOptions,
    possible: Possible,
    /// Everything that was ever acknowledged, or may have been.
    ever: Vec<Model>,
    made: u64,
    follower: Option<Follower>,
}

/// How a session came to its end.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    is_dead: bool,
    is_poisoned: bool,
    is_closed: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed ^ 0x4a01);
        let log = random.choose(&[Log::Synced, Log::Written]);
        // Files are short with what is in blob files, or without.
        let options = options(log, random.choose(&[4_000, 100_000]));
        let sim = SimDisk::new(seed);
        Session::create(Arc::clone(&sim) as Arc<dyn Disk>, options.clone()).unwrap();
        let possible = Possible { states: vec![Model::new()], log };
        let (ever, made, follower) = (vec![Model::new()], 0, None);
        World { random, sim, options, possible, ever, made, follower }
    }

    /// Who follows the tables sees what was acknowledged last; or, once writing has ended, what was not any more.
    fn follow(&mut self, in_doubt: Option<&Act>, place: &str) {
        let options = SessionOptions { log: Log::None, ..self.options.clone() };
        let follower = self.follower.get_or_insert_with(|| {
            let disk = Arc::clone(&self.sim) as Arc<dyn Disk>;
            let reader = Session::open_read_only(disk, options).unwrap();
            reader.follow(&OpenTable::default()).unwrap()
        });
        follower.reload().unwrap_or_else(|error| panic!("{place}: {error}"));
        let found = entries(follower.tables()).unwrap_or_else(|error| panic!("{place}: {error}"));
        let mut doubtful = self.possible.newest().clone();
        if let Some(act) = in_doubt {
            apply(&mut doubtful, act);
        }
        let is_right = found == *self.possible.newest() || found == doubtful;
        assert!(
            is_right,
            "{place}: a follower sees {found:?} and not {:?}",
            self.possible.newest()
        );
    }

    /// A few acts and the end of a session, which may be killed, or one of its calls fails.
    fn session(&mut self, seen: &mut Seen, place: &str) -> Ended {
        let log_files = self.sim.list("log").unwrap().len();
        // Rather where there is much to join.
        let harm = self.random.below(if log_files > 9 { 4 } else { 12 });
        let mut follows = self.random.one_in(2);
        match harm {
            0 | 1 => {
                let calls = self.random.choose(&[30, 60, 150]);
                self.sim.kill_at(1 + self.random.below(calls));
            }
            2 => {
                let fault = self.random.choose(&Fault::ALL);
                let calls = self.random.choose(&[10, 30, 100]);
                self.sim.fail_at(1 + self.random.below(calls), fault);
                // Its calls are not to fail.
                follows &= ![Fault::Any, Fault::Open, Fault::Read].contains(&fault);
            }
            _ => {}
        }
        let fails = harm == 2;
        let disk = Arc::clone(&self.sim) as Arc<dyn Disk>;
        let session = match Session::open(disk, self.options.clone()) {
            Err(error) => {
                assert!(fails || self.sim.is_dead(), "{place}: {error}");
                seen.failed += u64::from(fails);
                return Ended { is_dead: self.sim.is_dead(), ..Ended::default() };
            }
            Ok(session) => session,
        };
        if !self.sim.is_dead() {
            // It has written again what it found.
            self.possible.durable();
        }
        for _ in 0..self.random.below(4) {
            let act = draw(&mut self.random, self.possible.newest(), &mut self.made);
            let place = format!("{place}, {act:?}");
            let made = make(&session, &act);
            let ended = Ended {
                is_dead: self.sim.is_dead(),
                is_poisoned: session.is_poisoned(),
                is_closed: false,
            };
            let mut in_doubt = None;
            if let Err(error) = made {
                assert!(fails || ended.is_dead, "{place}: {error}");
                seen.failed += u64::from(fails);
                // Otherwise nothing of it is there.
                in_doubt = Some(&act).filter(|_| ended.is_dead || ended.is_poisoned);
            } else {
                self.possible.done(&act);
                seen.acts += 1;
            }
            if follows && !ended.is_dead {
                self.follow(in_doubt, &place);
                seen.reloads += 1;
            }
            self.ever.push(self.possible.newest().clone());
            if let Some(act) = in_doubt {
                self.possible.push(act);
                self.ever.push(self.possible.newest().clone());
                return ended;
            }
            if ended.is_poisoned {
                return ended;
            }
        }
        // One that is killed while it writes a table out, after an update was logged, says so of that table.
        if !fails && !self.sim.is_dead() {
            assert_eq!(session.warnings(), Vec::<String>::new(), "{place}");
        }
        self.end(session, fails, place)
    }

    fn end(&mut self, session: Session, fails: bool, place: &str) -> Ended {
        let mut ended = Ended::default();
        if self.random.one_in(3) {
            match session.sync_log() {
                Ok(()) => self.possible.durable(),
                Err(error) => assert!(fails || self.sim.is_dead(), "{place}: {error}"),
            }
        }
        ended.is_poisoned = session.is_poisoned();
        if self.random.one_in(2) {
            drop(session);
        } else {
            match session.close() {
                Ok(()) if !self.sim.is_dead() => {
                    self.possible.durable();
                    ended.is_closed = !fails;
                }
                Ok(()) => {}
                Err(error) => {
                    assert!(fails || self.sim.is_dead(), "{place}: {error}");
                    ended.is_poisoned = fails;
                }
            }
        }
        ended.is_dead = self.sim.is_dead();
        ended
    }

    /// No segment or blob file stays that nothing names, and from the third session on that is only closed, all is as it is.
    fn assert_nothing_left(&self, is_closed: bool, seen: &mut Seen, place: &str) {
        let image = self.sim.crash(Crash::Process);
        let files = || ["log", "segments"].map(|folder| image.list(folder).unwrap());
        let open = || Session::open(Arc::clone(&image) as Arc<dyn Disk>, self.options.clone());
        let unreferenced = || {
            let image = Arc::clone(&image) as Arc<dyn Disk>;
            check(&image, |_| ControlFlow::Continue(())).unwrap().unreferenced
        };
        if is_closed {
            assert_eq!(unreferenced(), 0, "{place}: {:?}", files());
            seen.files_max = seen.files_max.max(files()[0].len());
        }
        // The first does what is owed. What a cut left of a file's first record stays until a checkpoint has passed it, and
        // goes with the second.
        for _ in 0..2 {
            open().unwrap().close().unwrap();
            assert_eq!(unreferenced(), 0, "{place}: {:?}", files());
        }
        let before = files();
        open().unwrap().close().unwrap();
        assert_eq!(files(), before, "{place}");
    }

    /// Some bytes of a file are others: that is noticed, or what is found was acknowledged once.
    fn damage(&mut self, seen: &mut Seen, place: &str) {
        let image = self.sim.crash(Crash::Process);
        let mut paths = vec!["checkpoint".to_owned()];
        for folder in ["log", "log", "segments"] {
            let names = image.list(folder).unwrap_or_default();
            if !names.is_empty() {
                paths.push(format!("{folder}/{}", names[self.random.index(names.len())]));
            }
        }
        let path = &paths[self.random.index(paths.len())];
        let Ok(mut bytes) = image.bytes(path) else { return };
        let at = self.random.index(bytes.len().max(1));
        let end = bytes.len().min(at + self.random.choose(&[1, 8, 600, 100_000]));
        match self.random.below(4) {
            0 => bytes.truncate(at),
            1 => bytes[at..end].fill(0),
            _ => bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0x5a),
        }
        image.damage(path, bytes).unwrap();
        seen.damaged += 1;
        let look = || -> Result<Option<Model>> {
            let session = Session::open(Arc::clone(&image) as Arc<dyn Disk>, self.options.clone())?;
            if !session.warnings().is_empty() {
                return Ok(None);
            }
            entries(&session.open_all(&OpenTable::default())?).map(Some)
        };
        let Ok(Some(found)) = look() else {
            seen.noticed += 1;
            return;
        };
        assert!(self.ever.contains(&found), "{place}: {path} damaged at {at}..{end}: {found:?}");
    }

    /// The machine goes on, or the power goes.
    fn go_on(&mut self, ended: Ended, seen: &mut Seen, place: &str) {
        let is_cut = if ended.is_dead { !self.random.one_in(3) } else { self.random.one_in(3) };
        let crash = if is_cut { Crash::Seed(self.random.next()) } else { Crash::Process };
        let place = format!("{place}, {ended:?}, {crash:?}");
        if is_cut || ended.is_dead {
            self.sim = self.sim.crash(crash);
            self.follower = None;
        }
        let found = read(&self.sim, &self.options, &place);
        // The process alone takes nothing but what it was about to do.
        let states = &mut self.possible.states;
        let least = if is_cut { 0 } else { states.len().saturating_sub(2) };
        let of = &states[least..];
        assert!(of.contains(&found), "{place}: {found:?} is none of {of:?}");
        // What a dead process has written is not durable yet.
        if is_cut {
            *states = vec![found];
        } else if states.last() != Some(&found) {
            states.pop();
        }
        if self.random.one_in(4) {
            // A power cut may bring back what was removed last.
            let is_closed = ended.is_closed && !is_cut;
            self.assert_nothing_left(is_closed, seen, &place);
        }
        if self.random.one_in(4) {
            self.damage(seen, &place);
        }
    }

    fn round(&mut self, seen: &mut Seen, place: &str) {
        let (joined, before) = (next_log_file(&*self.sim), self.sim.list("log").unwrap());
        let ended = self.session(seen, place);
        self.sim.disarm();
        let names = self.sim.crash(Crash::Process).list("log").unwrap();
        let at = names.iter().position(|name| joined.ends_with(name));
        // A session that set its number aside begins with the next one.
        let is_made = at.is_some_and(|at| at + 1 < names.len());
        let stay = before.iter().filter(|name| names.contains(name)).count();
        seen.joins += u64::from(is_made && stay + 3 < before.len());
        seen.kills_in_joins += u64::from(is_made && ended.is_dead);
        seen.kills += u64::from(ended.is_dead);
        seen.poisoned += u64::from(ended.is_poisoned);
        self.go_on(ended, seen, place);
    }
}

#[test]
fn the_power_goes_at_any_call_of_random_sessions_that_join_log_files() {
    let mut seen = Seen::default();
    let first = setting("VARVITE_SEED", 0);
    for seed in first..first + 4 * setting("VARVITE_EFFORT", 1) {
        let mut world = World::new(seed);
        for number in 0..SESSIONS {
            let place = format!("seed {seed}, {:?}, session {number}", world.options.log);
            world.round(&mut seen, &place);
        }
    }
    println!("{seen:?}");
    let is_enough = seen.kills > 40 && seen.failed > 10 && seen.joins > 10;
    let is_enough = is_enough && seen.kills_in_joins > 3 && seen.reloads > 100 && seen.noticed > 10;
    assert!(is_enough, "{seen:?}");
    // 29 were seen; without joins it grows with the sessions.
    assert!(seen.files_max <= 40, "{seen:?}");
}
