//! The state machine: random steps on a session and on its model must agree, after every step.
//!
//! A case is a setup and a list of steps, both from a seed. When one fails, steps are taken out as
//! long as it still fails, and what is left is printed. `VARVITE_STEPS` sets how many steps are made on
//! each disk, `VARVITE_SEED` where the seeds begin.

pub mod step;
mod world;

use std::sync::atomic::Ordering::SeqCst;

use step::Step;
use varvite::Log;
use world::live::SHORTENED;
pub use world::run;

use crate::random::{mix, setting};
use crate::setup::{DiskKind, Help, Keys, Setup, Upserts};
use crate::shrinking::{TRIES, fewer};

/// Steps of one case.
const CASE: usize = 150;

/// The steps without as many as can go while it still fails, and with smaller batches.
fn shrink(setup: &Setup, steps: Vec<Step>, failure: String) -> (Vec<Step>, String) {
    let mut tries = TRIES;
    let (mut steps, mut failure) = fewer(steps, failure, &mut tries, |steps| run(setup, steps));
    for index in 0..steps.len() {
        while let Step::Update { table, seed, count } = steps[index] {
            let mut smaller = steps.clone();
            smaller[index] = Step::Update { table, seed, count: count / 2 };
            match run(setup, &smaller) {
                Err(what) if count > 1 && tries > 0 => (steps, failure) = (smaller, what),
                _ => break,
            }
            tries -= 1;
        }
    }
    (steps, failure)
}

#[track_caller]
fn check(setup: &Setup, steps: Vec<Step>) {
    let Err(failure) = run(setup, &steps) else { return };
    let (steps, failure) = shrink(setup, steps, failure);
    panic!("{failure}\nwith {setup:?}\nand {} steps: {steps:#?}", steps.len());
}

fn check_many(disk: DiskKind, steps_default: u64) {
    let steps = setting("VARVITE_STEPS", steps_default);
    let first = setting("VARVITE_SEED", 1);
    for case in 0..steps.div_ceil(CASE as u64) {
        let seed = mix(first + case) ^ disk as u64;
        let setup = Setup::draw(disk, seed);
        check(&setup, step::draw(&setup, seed, CASE));
    }
    let shortened = SHORTENED.load(SeqCst);
    let is_enough = shortened > 3 || steps < steps_default || disk != DiskKind::Memory;
    assert!(is_enough, "a log became short {shortened} times");
}

#[test]
fn a_session_on_memory_agrees_with_its_model() {
    check_many(DiskKind::Memory, 9_000);
}

#[test]
fn a_session_on_the_operating_system_agrees_with_its_model() {
    check_many(DiskKind::Os, 3_000);
}

#[test]
fn a_session_on_a_disk_that_crashes_agrees_with_its_model() {
    check_many(DiskKind::Sim, 6_000);
}

/// What the Haskell library got wrong once: an index of 16 bits somewhere in a batch.
#[test]
fn batches_of_100_000_keys_agree_with_the_model() {
    let setup = Setup {
        write_buffer_bytes: 1 << 20,
        keys: Keys::Hashed,
        key_count: 150_000,
        value_bytes_max: 30,
        upserts: Upserts::AddU64,
        helper: Help::None,
        ..Setup::draw(DiskKind::Memory, 3)
    };
    let update = |seed| Step::Update { table: 0, seed, count: 100_000 };
    let lookup = |seed| Step::Lookup { table: 0, seed, count: 100_000 };
    let steps = vec![
        update(1),
        lookup(2),
        Step::View { table: 0 },
        update(3),
        lookup(4),
        Step::Save { seed: 5 },
        update(6),
        lookup(7),
        Step::Compare,
        Step::Reopen { closed: true },
        Step::Compare,
    ];
    check(&setup, steps);
}

/// Touches every page, frame and buffer that unsafe code has to do with, in so few steps that Miri
/// interprets them in minutes.
#[test]
fn interpreted_steps_agree_with_the_model() {
    let update = |seed| Step::Update { table: 0, seed, count: 25 };
    let lookup = |seed| Step::Lookup { table: 0, seed, count: 10 };
    let steps = [
        update(1),
        lookup(2),
        Step::View { table: 0 },
        update(3),
        Step::Find { table: 0, seed: 4 },
        Step::Cursor { table: 0, seed: 5 },
        Step::Move { cursor: 0, seed: 6 },
        Step::Save { seed: 9 },
        update(7),
        Step::Range { table: 0, seed: 8 },
        Step::Union { seed: 10 },
        Step::Supply { table: 1, credits: u64::MAX },
        Step::Compare,
        Step::Reopen { closed: true },
        lookup(11),
    ];
    let caches = [Some(65_000), None];
    for cache_bytes in caches.into_iter().take(if cfg!(miri) { 1 } else { 2 }) {
        let setup = Setup {
            write_buffer_bytes: 700,
            size_ratio: 2,
            filter_bits: 10,
            filter_bytes_max: 1 << 20,
            cache_bytes,
            queue_depth: 64,
            max_open_files: None,
            segment_bytes: 8_192,
            helper: Help::AtOnce,
            keys: Keys::Hashed,
            key_count: 30,
            value_bytes_max: 60,
            log: Log::Synced,
            blob_min_bytes: Some(40),
            ..Setup::draw(DiskKind::Memory, 1)
        };
        check(&setup, steps.to_vec());
    }
}
