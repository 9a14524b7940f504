//! A fault, then an opening, then updates, then a power cut: what was acknowledged before the fault and
//! after it is there, whole, and what an opening has found stays.
//!
//! Between the two the machine goes on: what a process that died had not synced, and what a failed sync
//! lost, is read as if it were there.

use std::fmt::Debug;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Error, Kind, Log, Session, SessionOptions};

use crate::log_crash::{self, ACTS, BLOB_ACTS, Live, Tale};
use crate::model::table::{self as model, Snapshots};
use crate::random::setting;
use crate::story::{self, SETUP, Story};

/// What goes wrong first.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The `n`-th sync fails. Reads give what was lost, as on Linux, or the system drops it; nothing of
    /// it is durable, or some; names, where it was a folder's, are forgotten, or saved by the next.
    Sync { n: u64, lose: bool, some: bool, forget: bool },
    /// The `n`-th write fails.
    Write { n: u64 },
    /// The process dies at the `n`-th change or sync. Then perhaps that sync of a session's next opening
    /// fails, after which names are forgotten.
    Death { n: u64, then: Option<u64> },
}

impl Trouble {
    /// About `most` of them, for a disk on which a whole story makes as many calls as `whole`.
    fn drawn(whole: &SimDisk, most: u64) -> Vec<Trouble> {
        let calls = whole.calls();
        let mut all = Vec::new();
        for n in 1..=calls.syncs {
            all.push(Trouble::Sync { n, lose: false, some: false, forget: true });
            all.push(Trouble::Sync { n, lose: n % 2 == 0, some: n % 2 == 1, forget: n % 3 > 0 });
        }
        all.extend((1..=calls.writes).step_by(3).map(|n| Trouble::Write { n }));
        let then = |n: u64| [None, Some(1), Some(2), Some(3)][n as usize / 2 % 4];
        all.extend((1..=calls.mutations).map(|n| Trouble::Death { n, then: then(n) }));
        let stride = (all.len() as u64).div_ceil(most.max(1)).max(1);
        all.into_iter().step_by(stride as usize).collect()
    }

    /// A disk on which it will happen.
    fn disk(self) -> Arc<SimDisk> {
        let sim = SimDisk::new(7);
        match self {
            Trouble::Sync { n, lose, some, forget } => {
                sim.forget_names_on_failed_sync(forget);
                sim.lose_cache_on_failed_sync(lose);
                sim.save_some_on_failed_sync(some);
                sim.fail_at(n, Fault::Sync);
            }
            Trouble::Write { n } => sim.fail_at(n, Fault::Write),
            Trouble::Death { n, .. } => sim.kill_at(n),
        }
        sim
    }

    /// The same disk as the next process finds it.
    fn after(self, sim: Arc<SimDisk>) -> Arc<SimDisk> {
        sim.disarm();
        if let Trouble::Death { .. } = self { sim.crash(Crash::Process) } else { sim }
    }

    /// The same for a session, whose next opening may fail.
    fn after_opening(self, sim: Arc<SimDisk>, options: SessionOptions) -> Arc<SimDisk> {
        let sim = self.after(sim);
        if let Trouble::Death { then: Some(n), .. } = self {
            sim.forget_names_on_failed_sync(true);
            sim.fail_at(n, Fault::Sync);
            drop(Session::open(Arc::clone(&sim) as Arc<dyn Disk>, options));
            sim.disarm();
        }
        sim
    }

    fn drops_cache(self) -> bool {
        matches!(self, Trouble::Sync { lose: true, .. })
    }

    fn number(self) -> u64 {
        let (Trouble::Sync { n, .. } | Trouble::Write { n } | Trouble::Death { n, .. }) = self;
        n
    }
}

/// What the power leaves: nothing of what was not durable, and some of it.
fn cuts(number: u64) -> [Crash; 3] {
    [Crash::Subset(0), Crash::Seed(number), Crash::Seed(number + 1_000)]
}

/// Opens the live tables, which are one of `allowed`, and updates them if `goes_on`. Returns what they
/// were since, oldest first.
fn open_and_go_on(
    disk: &Arc<dyn Disk>,
    log: Log,
    allowed: &[Live],
    goes_on: bool,
    what: &dyn Debug,
) -> Vec<Live> {
    let session = match Session::open(Arc::clone(disk), log_crash::options(log)) {
        Err(error) if error.kind() == Kind::Missing && allowed.iter().any(Live::is_empty) => {
            Session::create(Arc::clone(disk), log_crash::options(log))
        }
        opened => opened,
    };
    let session = session.unwrap_or_else(|error| panic!("{what:?}: it does not open: {error}"));
    assert_eq!(session.warnings(), Vec::<String>::new(), "{what:?}");
    let mut tables = session
        .open_all(&log_crash::opening())
        .unwrap_or_else(|error| panic!("{what:?}: no live tables: {error}"));
    let is_one = |live: &&Live| {
        live.len() == tables.len()
            && tables.iter().zip(live.iter()).all(|(table, (name, model))| {
                table.name() == name && log_crash::equal(table, model).unwrap()
            })
    };
    let found = allowed.iter().find(is_one);
    let found = found.unwrap_or_else(|| panic!("{what:?}: none of {} contents", allowed.len()));
    let mut states = vec![found.clone()];
    for seed in if goes_on { 300..303 } else { 0..0 } {
        for table in &mut tables {
            let changes = log_crash::changes(table.name(), seed);
            table.update(&model::batch(&changes)).unwrap();
            let mut live = states.last().unwrap().clone();
            live.get_mut(table.name()).unwrap().update(&changes, SETUP.join());
            states.push(live);
        }
    }
    drop((tables, session));
    states
}

/// Tells the tale until the trouble comes, opens what it left, goes on and cuts the power; `false` when
/// no call failed.
fn live_tables(acts: &[log_crash::Act], log: Log, trouble: Trouble) -> bool {
    let sim = trouble.disk();
    let mut tale = Tale::new(&sim, log);
    for act in acts {
        let after = tale.after(*act);
        let outcome = tale.act(*act);
        if outcome.is_ok() && !sim.is_dead() {
            continue;
        }
        let mut allowed: Vec<Live> = tale.history.iter().rev().cloned().collect();
        // What was written outlives the process, unless the system drops it.
        if log == Log::Synced || !trouble.drops_cache() {
            allowed.truncate(1);
        }
        if outcome.is_err() {
            allowed.push(after);
        }
        drop(tale);
        let sim = trouble.after_opening(sim, log_crash::options(log));
        let what = (trouble, log, *act);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let goes_on = !trouble.number().is_multiple_of(3);
        let mut states = open_and_go_on(&disk, log, &allowed, goes_on, &what);
        if log == Log::Synced {
            states.drain(..states.len() - 1);
        }
        let states: Vec<_> = states.iter().collect();
        for crash in cuts(trouble.number()) {
            let disk = sim.crash(crash) as Arc<dyn Disk>;
            log_crash::assert_reopens(&disk, log, &states, &(what, crash));
        }
        return true;
    }
    false
}

#[test]
fn live_tables_keep_what_was_acknowledged_around_a_fault_and_an_opening() {
    let most = setting("VARVITE_REOPENINGS", 400);
    for log in [Log::Synced, Log::Written] {
        for acts in [ACTS, BLOB_ACTS] {
            let whole = SimDisk::new(7);
            let mut tale = Tale::new(&whole, log);
            for act in acts {
                tale.act(*act).unwrap();
            }
            drop(tale);
            let drawn = Trouble::drawn(&whole, most / 4);
            let met = drawn.iter().filter(|it| live_tables(acts, log, **it)).count();
            println!("{log:?}: {met} of {} troubles", drawn.len());
            assert!(met * 2 > drawn.len(), "{met} of {}", drawn.len());
        }
    }
}

/// The snapshots of a session without a log are one of `allowed`; saves another of them as `name`.
/// Returns which.
fn saves_another(
    disk: &Arc<dyn Disk>,
    allowed: &[&Snapshots],
    name: &str,
    what: &dyn Debug,
) -> Result<usize, Error> {
    let session = match Session::open(Arc::clone(disk), story::options()) {
        Err(error) if error.kind() == Kind::Missing && allowed.iter().all(|it| it.is_empty()) => {
            Session::create(Arc::clone(disk), story::options())
        }
        opened => opened,
    }?;
    assert_eq!(session.warnings(), Vec::<String>::new(), "{what:?}");
    let names: Vec<_> = session.list_snapshots()?.into_iter().map(|info| info.name).collect();
    let is_one = |saved: &&Snapshots| saved.keys().eq(&names);
    let which = allowed.iter().position(is_one);
    let which = which.unwrap_or_else(|| panic!("{what:?}: found {names:?}"));
    let opening = story::opening(varvite::Verify::Full);
    for (name, expected) in allowed[which] {
        let snapshot = session.open_snapshot(name, &opening)?;
        for (table, (_, model)) in snapshot.tables.iter().zip(&expected.tables) {
            story::equal(&table.view(), model)?;
        }
    }
    let table = session.create_table("a", SETUP.table_options())?;
    let content = varvite::SnapshotContent { label: "ledger", payload: b"", tables: &[&table] };
    session.save_snapshot(name, content)?;
    Ok(which)
}

fn snapshots(trouble: Trouble) -> bool {
    let sim = trouble.disk();
    let mut story = Story::new(Arc::clone(&sim) as Arc<dyn Disk>);
    for act in story::ACTS {
        let after = story.saved_after(*act);
        let outcome = story.act(*act);
        if outcome.is_ok() && !sim.is_dead() {
            continue;
        }
        let saved = story.stop();
        let allowed = [&saved, &after];
        let sim = trouble.after_opening(sim, story::options());
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let what = (trouble, *act);
        let which = saves_another(&disk, &allowed[..=usize::from(outcome.is_err())], "xx", &what)
            .unwrap_or_else(|error| panic!("{what:?}: {error}"));
        let mut saved = allowed[which].clone();
        let empty = (("a".to_owned()), model::Table::default());
        let content = model::Snapshot {
            label: "ledger".to_owned(),
            payload: Vec::new(),
            tables: vec![empty],
        };
        saved.insert("xx".to_owned(), content);
        for crash in cuts(trouble.number()) {
            let disk = sim.crash(crash) as Arc<dyn Disk>;
            saves_another(&disk, &[&saved], "xy", &(what, crash))
                .unwrap_or_else(|error| panic!("{what:?}, {crash:?}: {error}"));
        }
        return true;
    }
    false
}

#[test]
fn snapshots_stay_around_a_fault_and_an_opening() {
    let most = setting("VARVITE_REOPENINGS", 400) / 4;
    let whole = SimDisk::new(7);
    let mut story = Story::new(Arc::clone(&whole) as Arc<dyn Disk>);
    for act in story::ACTS {
        story.act(*act).unwrap();
    }
    drop(story);
    let drawn = Trouble::drawn(&whole, most);
    let met = drawn.iter().filter(|it| snapshots(**it)).count();
    println!("{met} of {} troubles", drawn.len());
    assert!(met * 2 > drawn.len(), "{met} of {}", drawn.len());
}

mod context {
    use super::*;
    use crate::context_story::{ACTS, Tale, Told, go_on, options, which};
    use varvite::context::{Durability, Index, Options, Store};

    /// Opens the store, which is one of `allowed`.
    fn open(
        disk: &Arc<dyn Disk>,
        options: &Options,
        allowed: &[Told],
        what: &dyn Debug,
    ) -> Option<(Store, Told)> {
        let store = match Store::open(Arc::clone(disk), options.clone()) {
            Err(error) if error.kind() == Kind::Missing && allowed.contains(&Told::default()) => {
                return None;
            }
            opened => opened.unwrap_or_else(|error| panic!("{what:?}: it does not open: {error}")),
        };
        let each: Vec<_> = allowed.iter().collect();
        let found = which(&store, &each).unwrap_or_else(|error| panic!("{what:?}: {error}"));
        let found = found.unwrap_or_else(|| panic!("{what:?}: none of {} contents", allowed.len()));
        let checked = store.check().unwrap_or_else(|error| panic!("{what:?}: {error}"));
        assert_eq!(checked.index_faults, Vec::<String>::new(), "{what:?}");
        Some((store, allowed[found].clone()))
    }

    fn store(options: &Options, trouble: Trouble) -> bool {
        let sim = trouble.disk();
        // A store relies on a file system that keeps changes of names for the next sync.
        sim.forget_names_on_failed_sync(false);
        let mut tale = Tale::new(Arc::clone(&sim) as Arc<dyn Disk>, options);
        let mut history = vec![Told::default()];
        for act in ACTS {
            let after = tale.after(*act);
            let outcome = tale.act(*act);
            history.push(tale.told.clone());
            if outcome.is_ok() && !sim.is_dead() {
                continue;
            }
            drop(tale);
            let mut allowed: Vec<Told> = history.into_iter().rev().collect();
            if options.durability == Durability::Synced || !trouble.drops_cache() {
                allowed.truncate(1);
            }
            allowed.push(after);
            let what = (trouble, options.durability, *act);
            let sim = trouble.after(sim);
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            let Some((mut store, mut told)) = open(&disk, options, &allowed, &what) else {
                return true;
            };
            let mut states = vec![told.clone()];
            if !trouble.number().is_multiple_of(3) {
                for number in 0..2 {
                    told = go_on(&mut store, &told, 2_000 + number).unwrap();
                    states.insert(0, told.clone());
                }
            }
            if options.durability == Durability::Synced {
                states.truncate(1);
            }
            drop(store);
            for crash in cuts(trouble.number()) {
                let disk = sim.crash(crash) as Arc<dyn Disk>;
                let what = (what, crash);
                let (mut store, told) = open(&disk, options, &states, &what).expect("it was there");
                go_on(&mut store, &told, 3_000).unwrap();
            }
            return true;
        }
        false
    }

    #[test]
    fn a_context_keeps_what_was_acknowledged_around_a_fault_and_an_opening() {
        let most = setting("VARVITE_REOPENINGS", 400);
        for durability in [Durability::Synced, Durability::Written] {
            for index in [Index::Minimal, Index::Always] {
                let options = options(index, durability);
                let whole = SimDisk::new(7);
                let mut tale = Tale::new(Arc::clone(&whole) as Arc<dyn Disk>, &options);
                for act in ACTS {
                    tale.act(*act).unwrap();
                }
                drop(tale);
                let drawn = Trouble::drawn(&whole, most / 4);
                let met = drawn.iter().filter(|it| store(&options, **it)).count();
                println!("{index:?}, {durability:?}: {met} of {} troubles", drawn.len());
                assert!(met * 3 > drawn.len(), "{met} of {}", drawn.len());
            }
        }
    }
}
