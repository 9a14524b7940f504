//! What the host brings panics: its merge operator, or its disk. One table that cannot be written out is
//! not the others' concern, and a panic where something is made durable is what an error there is.

use std::ops::Bound::Unbounded;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::{
    Batch, Error, Kind, Log, MergeOperator, OpenTable, Result, Session, SnapshotContent, Table,
    TableOptions,
};

use crate::hooked_disk::{Call, HookedDisk};
use crate::listed::Listed;
use crate::log::options;

fn content(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    table.listed(Unbounded, Unbounded).unwrap()
}

/// What is wrong with a table when a checkpoint wants to write it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Operator,
    /// The operator gives an error, and does not panic.
    Fails,
    Write,
    Open,
}

/// A table idles while the log grows, and a checkpoint that another table's update writes has to write
/// it out: its operator panics there, or the disk does for its segment.
#[test]
fn a_panic_for_an_idle_table_is_no_concern_of_the_others() {
    for wrong in [Wrong::Operator, Wrong::Fails, Wrong::Write, Wrong::Open] {
        let (sim, is_armed) = (SimDisk::new(1), Arc::new(AtomicBool::new(false)));
        let armed = Arc::clone(&is_armed);
        let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
            let stands = match wrong {
                Wrong::Operator | Wrong::Fails => false,
                Wrong::Write => call == Call::Write,
                Wrong::Open => matches!(call, Call::Open(_)) && call.changes(),
            };
            let panics = stands && path.starts_with("segments/") && armed.load(SeqCst);
            assert!(!panics, "the disk fell over");
        });
        let armed = Arc::clone(&is_armed);
        let operator = MergeOperator::fallible("join", move |older, newer| {
            assert!(wrong != Wrong::Operator || !armed.load(SeqCst), "the operator fell over");
            if wrong == Wrong::Fails && armed.load(SeqCst) {
                return Err(Error::invalid("the operator fell over"));
            }
            Ok([older, newer].concat())
        });
        let session = Session::create(disk, options(Log::Written)).unwrap();
        let small = TableOptions { write_buffer_bytes: 700, ..TableOptions::default() };
        let joining = small.with_operator(operator.clone());
        let mut first = session.create_table("first", joining).unwrap();
        first.update(Batch::new().insert(b"key", b"one")).unwrap();
        let mut bad = first.duplicate("bad").unwrap();
        session.publish(&mut bad).unwrap();
        drop(first);
        session.delete_table("first").unwrap();
        // On disk there is a value that the buffer's is joined to when both are written out.
        bad.update(Batch::new().upsert(b"key", b", two")).unwrap();
        // It makes no segments of its own.
        let large = TableOptions { write_buffer_bytes: 1 << 20, ..TableOptions::default() };
        let mut good = session.create_table("good", large.clone()).unwrap();
        let insert = |table: &mut Table, number: u64| {
            table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 40]))
        };
        is_armed.store(true, SeqCst);
        let mut number = 0;
        while session.warnings().is_empty() {
            insert(&mut good, number).unwrap();
            number += 1;
            assert!(number < 1_000, "{wrong:?}: nobody wrote the idle table out");
        }
        let warnings = session.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let says = |text: &str| {
            let panicked = text.contains("panicked") == (wrong != Wrong::Fails);
            [text.contains("table bad"), panicked, text.contains("fell over")]
        };
        assert_eq!(says(&warnings[0]), [true; 3], "{warnings:?}");
        assert!(!session.is_poisoned());
        let before = session.stats().checkpoints;
        for _ in 0..200 {
            insert(&mut good, number).unwrap();
            number += 1;
        }
        assert!(session.stats().checkpoints > before + 2, "{wrong:?}");
        let refused = bad.update(Batch::new().insert(b"refused", b"")).unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
        assert_eq!(says(&refused.to_string())[1..], [true; 2], "{refused}");

        is_armed.store(false, SeqCst);
        bad.update(Batch::new().upsert(b"key", b", three")).unwrap();
        assert_eq!(session.warnings(), Vec::<String>::new());
        let joined = b"one, two, three".to_vec();
        assert_eq!(content(&bad), [(b"key".to_vec(), joined.clone())]);
        insert(&mut good, number).unwrap();
        let expected = content(&good);
        drop((bad, good, session));
        let session = Session::open(sim, options(Log::Written)).unwrap();
        let opened = OpenTable { operators: vec![operator], ..OpenTable::default() };
        let tables = session.open_all(&opened).unwrap();
        assert_eq!(content(&tables[0]), [(b"key".to_vec(), joined)], "{wrong:?}");
        assert_eq!(content(&tables[1]), expected, "{wrong:?}");
    }
}

/// Something that a session does with the tables made so far.
type Act<'a> = Box<dyn FnOnce(&mut Vec<Table>) -> Result<()> + 'a>;

/// Everything that a session makes durable, call by call.
fn make_durable(session: &Session) -> Vec<Act<'_>> {
    let small = || TableOptions { write_buffer_bytes: 300, size_ratio: 2, ..Default::default() };
    let mut acts: Vec<Act<'_>> = Vec::new();
    for name in ["a", "b"] {
        acts.push(Box::new(move |tables| {
            session.create_table(name, small()).map(|table| tables.push(table))
        }));
    }
    for number in 0_u64..40 {
        acts.push(Box::new(move |tables| {
            for table in tables.iter_mut() {
                table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 60]))?;
            }
            Ok(())
        }));
        if number % 10 == 5 {
            acts.push(Box::new(move |tables| {
                let mut writer = session.write_value()?;
                writer.write(&[9; 500])?;
                let value = writer.finish()?;
                tables.first_mut().map_or(Ok(()), |table| {
                    table.update(Batch::new().insert_value(&number.to_le_bytes(), &value))
                })
            }));
        }
        let name = format!("s{}", number / 10);
        if number % 10 == 7 {
            acts.push(Box::new(move |tables| {
                let tables: Vec<_> = tables.iter().collect();
                let content = SnapshotContent { label: "", payload: b"", tables: &tables };
                session.save_snapshot(&name, content)
            }));
        } else if number % 20 == 9 {
            acts.push(Box::new(move |_| session.delete_snapshot(&name)));
        }
    }
    acts.push(Box::new(move |tables| {
        let Some(table) = tables.first() else { return Ok(()) };
        let mut copy = table.duplicate("copy")?;
        session.publish(&mut copy)
    }));
    acts.push(Box::new(move |_| session.delete_table("copy")));
    acts
}

/// Whether the call makes something durable, or gives a file its name, so that nobody knows what is there
/// after a panic of it. Files that are written over are renamed as well, which matters to nobody.
fn is_decisive(call: Call, path: &str) -> bool {
    let is_spare = path.starts_with("segments/");
    match call {
        Call::Sync | Call::SyncDirectory => true,
        Call::Rename => !is_spare,
        _ => false,
    }
}

/// After a panic of any such call nobody knows what is durable, so there is no more writing, and what
/// was acknowledged before is found after a power cut.
#[test]
fn a_panic_where_something_is_made_durable_poisons_the_session() {
    let mut seen = 0;
    for nth in 1.. {
        let (sim, countdown) = (SimDisk::new(nth as u64), Arc::new(AtomicUsize::new(0)));
        let (left, what) = (Arc::clone(&countdown), Arc::new(std::sync::Mutex::new(None)));
        let found = Arc::clone(&what);
        let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
            if left.load(SeqCst) > 0 && is_decisive(call, path) && left.fetch_sub(1, SeqCst) == 1 {
                *found.lock().unwrap() = Some((call, path.to_owned()));
                panic!("the host's disk panics");
            }
        });
        let session = Session::create(disk, options(Log::Synced)).unwrap();
        countdown.store(nth, SeqCst);
        let (mut tables, mut acknowledged) = (Vec::new(), Vec::new());
        for act in make_durable(&session) {
            let done = catch_unwind(AssertUnwindSafe(|| act(&mut tables)));
            if done.is_err() || session.is_poisoned() {
                break;
            }
            done.unwrap().unwrap();
            acknowledged = tables.iter().map(|it| (it.name().to_owned(), content(it))).collect();
        }
        let Some(what) = what.lock().unwrap().clone() else { break };
        assert!(session.is_poisoned(), "{what:?}");
        seen += 1;
        let mut updates = tables.iter_mut();
        let more = updates.all(|table| {
            let refused = table.update(Batch::new().insert(b"more", b"")).unwrap_err();
            refused.kind() == Kind::Poisoned
        });
        assert!(more, "{what:?}");
        let cut = sim.crash(Crash::Subset(0));
        let session = Session::open(cut as Arc<dyn Disk>, options(Log::Synced)).unwrap();
        for (name, content) in acknowledged {
            let table = session.open_table(&name, &OpenTable::default()).unwrap();
            let found = self::content(&table);
            let kept = content.iter().filter(|it| found.contains(it)).count();
            assert_eq!(kept, content.len(), "{name}: {what:?}");
        }
    }
    assert!(seen > 150, "{seen}");
}

/// A panic of any other call leaves what was there: the same can be done again, and is done then. One in
/// the removal of what nobody needs is not even told.
#[test]
fn after_a_panic_of_any_other_call_the_same_can_be_done_again() {
    let (mut told, mut untold) = (0, 0);
    for nth in 1.. {
        let countdown = Arc::new(AtomicUsize::new(0));
        let (left, what) = (Arc::clone(&countdown), Arc::new(std::sync::Mutex::new(None)));
        let found = Arc::clone(&what);
        let sim = SimDisk::new(nth as u64);
        let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
            let counts = call.changes() && call != Call::Write && !is_decisive(call, path);
            if counts && left.load(SeqCst) > 0 && left.fetch_sub(1, SeqCst) == 1 {
                *found.lock().unwrap() = Some((call, path.to_owned()));
                panic!("the host's disk panics");
            }
        });
        let session = Session::create(disk, options(Log::Written)).unwrap();
        countdown.store(nth, SeqCst);
        let mut tables = Vec::new();
        for number in 0..make_durable(&session).len() {
            let act = || make_durable(&session).swap_remove(number);
            if let Ok(done) = catch_unwind(AssertUnwindSafe(|| act()(&mut tables))) {
                done.unwrap();
                continue;
            }
            let what = what.lock().unwrap().clone();
            assert!(!session.is_poisoned(), "act {number}: {what:?} is no reason to stop");
            told += 1;
            let again = act()(&mut tables);
            again.unwrap_or_else(|error| panic!("act {number}, {what:?}: {error}"));
        }
        let acknowledged: Vec<_> = tables.iter().map(content).collect();
        let snapshots = session.list_snapshots().unwrap().len();
        drop((tables, session));
        let session = Session::open(sim as Arc<dyn Disk>, options(Log::Written)).unwrap();
        let tables = session.open_all(&OpenTable::default()).unwrap();
        let found: Vec<_> = tables.iter().map(content).collect();
        assert_eq!((found, session.list_snapshots().unwrap().len()), (acknowledged, snapshots));
        let Some((call, _)) = what.lock().unwrap().take() else { break };
        untold += usize::from(call == Call::Remove);
    }
    assert!(told > 20 && untold > 20, "{told} {untold}");
}

/// A second panic while the first one unwinds would end the process. So whoever is dropped there calls no
/// disk, or bears that it panics.
#[test]
fn a_disk_that_panics_at_every_call_from_one_on_ends_no_process() {
    let mut panics = 0;
    for nth in 1..400 {
        let left = Arc::new(AtomicUsize::new(nth));
        let disk: Arc<dyn Disk> = HookedDisk::new(SimDisk::new(1), move |_, _| {
            let before = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            assert!(before.is_ok(), "the host's disk panics");
        });
        let life = catch_unwind(AssertUnwindSafe(|| {
            let session = Session::create(disk, options(Log::Written)).unwrap();
            let mut tables = Vec::new();
            for act in make_durable(&session) {
                act(&mut tables).unwrap();
            }
        }));
        panics += usize::from(life.is_err());
    }
    assert_eq!(panics, 399, "the story has more calls");
}
