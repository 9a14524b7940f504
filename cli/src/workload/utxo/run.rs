//! The timed loop: one thread, a batch after the other.

use std::time::Instant;

use varvite::{Batch, Result, Session, Table, Values};

use super::model::{Model, found};
use super::pipeline;
use super::plan::{DiskUse, Measured, Mode, Plan, Stopwatch, fill};
use super::{Draw, Key, Numbers, key};
use crate::progress::Progress;

/// Runs `plan` on `table` of `session` and gives the table back in its last state.
pub fn run(
    session: &Session,
    table: Table,
    plan: &Plan,
    progress: &mut Progress,
) -> Result<(Table, Measured)> {
    warm_up(&table, plan)?;
    if plan.mode != Mode::Pipelined {
        return serial(session, table, plan, progress);
    }
    let stats_before = session.stats();
    let (table, mut measured) = pipeline::run(session, table, plan, progress)?;
    measured.stats_before = stats_before;
    Ok((table, measured))
}

fn warm_up(table: &Table, plan: &Plan) -> Result<()> {
    // Another beginning, so that the run's first lookups are not the warmest.
    let seed = plan.seed ^ plan.entries;
    let mut draw = Draw::new(plan.entries, plan.warm_up, plan.batch_size, false, seed);
    let (mut numbers, mut values) = (Numbers::default(), Values::default());
    for _ in 0..plan.warm_up {
        draw.next(&mut numbers);
        let keys: Vec<Key> = numbers.spent.iter().map(|number| key(*number)).collect();
        table.lookup_into(&keys, &mut values)?;
    }
    Ok(())
}

fn serial(
    session: &Session,
    table: Table,
    plan: &Plan,
    progress: &mut Progress,
) -> Result<(Table, Measured)> {
    let mut table = table;
    let mut measured = Measured::default();
    let mut model = plan.check.then(|| Model::new(plan.entries));
    let mut draw = plan.draw();
    let mut numbers = Numbers::default();
    let mut keys: Vec<Key> = Vec::with_capacity(plan.batch_size as usize);
    let (mut values, mut batch) = (Values::default(), Batch::new());
    for _ in 0..plan.settle {
        draw.next(&mut numbers);
        keys.clear();
        keys.extend(numbers.spent.iter().map(|number| key(*number)));
        fill(&mut batch, &keys, &numbers);
        table.update(&batch)?;
        if let Some(model) = &mut model {
            model.apply(&numbers);
        }
    }
    measured.stats_before = session.stats();
    let look_every = plan.batches.div_ceil(DiskUse::LOOKS);
    let mut stopwatch = Stopwatch::start();
    for done in 1..=plan.batches {
        let start = Instant::now();
        draw.next(&mut numbers);
        keys.clear();
        keys.extend(numbers.spent.iter().map(|number| key(*number)));
        if plan.mode != Mode::Update {
            table.lookup_into(&keys, &mut values)?;
            measured.lookups += keys.len() as u64;
            measured.wrong +=
                keys.len() as u64 - found(&values).filter(|found| *found).count() as u64;
        }
        if plan.mode != Mode::Lookup {
            fill(&mut batch, &keys, &numbers);
            table.update(&batch)?;
            measured.count_work(table.last_work());
        }
        measured.batches.push(start.elapsed().as_nanos() as u64);
        if done.is_multiple_of(look_every) {
            stopwatch.pause();
            measured.disk.look(session, &table)?;
            stopwatch.resume();
        }
        if let Some(model) = &mut model {
            stopwatch.pause();
            check(model, &table, plan.mode, &numbers, &values, &mut measured)?;
            stopwatch.resume();
        }
        progress.set(done);
    }
    stopwatch.stop(&mut measured);
    measured.stats = session.stats();
    if let Some(mut model) = model {
        measured.wrong += model.check_whole(&table)?;
        measured.checked += model.checks();
    }
    Ok((table, measured))
}

fn check(
    model: &mut Model,
    table: &Table,
    mode: Mode,
    numbers: &Numbers,
    values: &Values,
    measured: &mut Measured,
) -> Result<()> {
    if mode != Mode::Update {
        // The loop has counted these already; the model must agree that they were to be found.
        let expected = numbers.spent.iter().all(|number| model.holds(*number));
        assert!(expected, "the load looks up live numbers only");
        measured.checked += values.len() as u64;
    }
    if mode != Mode::Lookup {
        model.apply(numbers);
        measured.wrong += model.check_batch(table, numbers)?;
    }
    Ok(())
}
