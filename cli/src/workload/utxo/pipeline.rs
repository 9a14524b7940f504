//! The pipelined loop: two threads take turns, and the lookups of a batch run while the batch
//! before it is applied.
//!
//! The thread of batch n looks its keys up in the state before batch n−1. Then it receives the table
//! with the delta of batch n−1, corrects its answers with the delta, applies its own batch, keeps a
//! view of the result for its next lookups, and hands the table over. The generator's state is
//! handed over first, on its own, so that the other thread can begin.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use varvite::{Batch, Error, Kind, Result, Session, Table, Values, View};

use super::model::Model;
use super::plan::{Measured, Plan, Stopwatch, fill};
use super::{Draw, Key, Numbers, VALUE, key};
use crate::progress::Progress;

/// Keys are hashes already: their first eight bytes place them.
#[derive(Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut word = [0; 8];
        let length = bytes.len().min(8);
        word[..length].copy_from_slice(&bytes[..length]);
        self.0 = u64::from_le_bytes(word);
    }

    // The length that an array's hash writes first says nothing here.
    fn write_usize(&mut self, _: usize) {}
}

/// What a batch leaves under each key: whether it is there.
type Delta = HashMap<Key, bool, BuildHasherDefault<FirstBytes>>;

/// Handed over with the right to write.
struct Baton {
    table: Table,
    delta: Delta,
    model: Option<Model>,
    work: Measured,
}

/// One thread's ends of the two channels in each direction.
struct Ends {
    draws: (SyncSender<Draw>, Receiver<Draw>),
    batons: (SyncSender<Baton>, Receiver<Baton>),
}

/// Runs `plan` with two threads, this one and one more.
pub fn run(
    session: &Session,
    table: Table,
    plan: &Plan,
    progress: &mut Progress,
) -> Result<(Table, Measured)> {
    let (draw_a, draw_from_a) = sync_channel(1);
    let (draw_b, draw_from_b) = sync_channel(1);
    let (baton_a, baton_from_a) = sync_channel(1);
    let (baton_b, baton_from_b) = sync_channel(1);
    let view = table.view();
    let model = plan.check.then(|| Model::new(plan.entries));
    let start = Baton { table, delta: Delta::default(), model, work: Measured::default() };
    let draw = plan.draw();
    let stopwatch = Stopwatch::start();
    draw_b.send(draw).expect("the channel has room for one");
    baton_b.send(start).expect("the channel has room for one");
    let even = Ends { draws: (draw_a, draw_from_b), batons: (baton_a, baton_from_b) };
    let odd = Ends { draws: (draw_b, draw_from_a), batons: (baton_b, baton_from_a) };
    let other = view.clone();
    let (mine, theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(move || turns(1, plan, odd, other, None));
        let mine = turns(0, plan, even, view, Some(progress));
        (mine, theirs.join().expect("the other thread does not panic"))
    });
    // A thread that failed leaves the other without its baton: the error is whichever is not that.
    let ((mut measured, last), (other_measured, other_last)) = match (mine, theirs) {
        (Ok(mine), Ok(theirs)) => (mine, theirs),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => return Err(error),
        (Err(mine), Err(theirs)) => {
            return Err(if mine.kind() == Kind::Closed { theirs } else { mine });
        }
    };
    stopwatch.stop(&mut measured);
    measured.stats = session.stats();
    measured.batches.append(other_measured.batches);
    measured.lookups += other_measured.lookups;
    measured.patched += other_measured.patched;
    measured.wrong += other_measured.wrong;
    let Baton { table, model, work, .. } =
        last.or(other_last).expect("the thread of the last batch keeps the baton");
    (measured.work, measured.work_max) = (work.work, work.work_max);
    if let Some(mut model) = model {
        measured.wrong += model.check_whole(&table)?;
        measured.checked = model.checks();
    }
    Ok((table, measured))
}

/// Every second batch from `first` on. The ends are its own, so that the other thread learns of an
/// early return by their going away.
#[allow(clippy::needless_pass_by_value)]
fn turns(
    first: u64,
    plan: &Plan,
    ends: Ends,
    mut view: View,
    mut progress: Option<&mut Progress>,
) -> Result<(Measured, Option<Baton>)> {
    let stopped = |_| Error::new(Kind::Closed, "the other thread of the pipeline stopped");
    let mut measured = Measured::default();
    let mut numbers = Numbers::default();
    let mut keys: Vec<Key> = Vec::with_capacity(plan.batch_size as usize);
    let (mut values, mut batch) = (Values::default(), Batch::new());
    let mut found = Vec::with_capacity(plan.batch_size as usize);
    for turn in (first..plan.batches).step_by(2) {
        let mut draw = ends.draws.1.recv().map_err(stopped)?;
        let start = Instant::now();
        draw.next(&mut numbers);
        // Nobody waits for it after the last batch.
        let _ = ends.draws.0.send(draw);
        keys.clear();
        keys.extend(numbers.spent.iter().map(|number| key(*number)));
        view.lookup_into(&keys, &mut values)?;
        fill(&mut batch, &keys, &numbers);
        let mut delta =
            Delta::with_capacity_and_hasher(keys.len() * 2, BuildHasherDefault::default());
        delta.extend(keys.iter().map(|key| (*key, false)));
        let fresh = numbers.fresh..numbers.fresh + keys.len() as u64;
        delta.extend(fresh.map(|number| (key(number), true)));

        let mut baton = ends.batons.1.recv().map_err(stopped)?;
        found.clear();
        for (key, value) in keys.iter().zip(values.iter()) {
            let patch = baton.delta.get(key).copied();
            measured.patched += u64::from(patch.is_some());
            found.push(patch.unwrap_or(value == Some(&VALUE[..])));
        }
        measured.lookups += keys.len() as u64;
        measured.wrong += found.iter().filter(|found| !**found).count() as u64;
        baton.table.update(&batch)?;
        baton.work.count_work(baton.table.last_work());
        baton.delta = delta;
        view = baton.table.view();
        if let Some(model) = &mut baton.model {
            let agreed = model.wrong(&numbers.spent, found.iter().copied());
            let counted = found.iter().filter(|found| !**found).count() as u64;
            assert_eq!(agreed, counted, "the load looks up live numbers only");
            model.apply(&numbers);
            measured.wrong += model.check_batch(&baton.table, &numbers)?;
        }
        measured.batches.push(start.elapsed().as_nanos() as u64);
        if let Some(progress) = &mut progress {
            progress.set(turn + 1);
        }
        if turn + 1 == plan.batches {
            return Ok((measured, Some(baton)));
        }
        ends.batons.0.send(baton).map_err(|_| stopped(std::sync::mpsc::RecvError))?;
    }
    Ok((measured, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_tells_keys_apart() {
        let mut delta = Delta::default();
        delta.extend((0..1000).map(|number| (key(number), number % 2 == 0)));
        assert_eq!(delta.len(), 1000);
        assert!((0..1000).all(|number| delta[&key(number)] == (number % 2 == 0)));
    }
}
