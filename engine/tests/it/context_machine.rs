//! The state machine of the context: random steps on trees, a store, its readers and another store
//! must agree with nested maps and a reference hash, after every step.
//!
//! A case is a setup and a list of steps, both from a seed. When one fails, steps are taken out as
//! long as it still fails, and what is left is printed. `VARVITE_CONTEXT_STEPS` sets how many steps
//! are made on each disk, `VARVITE_SEED` where the seeds begin.

pub mod pair;
pub mod step;
mod world;

use varvite::context::Tree;

use pair::Pair;
use world::Counts;
pub use world::run;

use crate::random::{Random, mix, setting};
use crate::setup::DiskKind;
use crate::shrinking::{TRIES, fewer};

/// Steps of one case.
const CASE: usize = 120;

/// What must happen on every disk.
const HAPPENS: [&str; 40] = [
    "a fork",
    "a handle from before a commit was read",
    "a handle from before an opening or a clearing was read",
    "a tree of another life was committed",
    "a subtree was bound",
    "a subtree came from another store",
    "a subtree went to another store",
    "a directory shrank to the flat limit",
    "a directory shrank from 257 to 256",
    "a directory shrank below the flat limit",
    "a value became a directory",
    "a directory became a value",
    "a spill",
    "a commit",
    "an opening",
    "a clearing",
    "a reload brought news",
    "a reader read what was older",
    "a reader noticed a clearing",
    "a collection ended",
    "a collection was cancelled",
    "a commit beside a collection",
    "a commit went",
    "a pin",
    "an opening beside a collection that marks",
    "a chunk moved below",
    "what recent commits need of a chunk stayed above",
    "a commit was read beside damage",
    "a check told of damage above or below",
    "a repair beside damage above or below",
    "a lower folder was read by itself",
    "a chunk came back",
    "a collection was refused beside chunks below",
    "what collections took came back",
    "a file was written",
    "a range was written",
    "the same commits made the same file",
    "a file was written beside chunks below",
    "a file made a store",
    "a commit came from a file",
];

#[track_caller]
fn check_many(disk: DiskKind, steps_default: u64, more: &[&str]) {
    let steps = setting("VARVITE_CONTEXT_STEPS", steps_default);
    let first = setting("VARVITE_SEED", 1);
    let mut counts = Counts::new();
    for case in 0..steps.div_ceil(CASE as u64) {
        let seed = mix(first + case) ^ disk as u64;
        let setup = step::Setup::draw(disk, seed);
        let steps = step::draw(seed, CASE);
        match run(&setup, &steps) {
            Ok(more) => more.into_iter().for_each(|(what, count)| {
                *counts.entry(what).or_default() += count;
            }),
            Err(failure) => {
                let again = |steps: &[step::Step]| run(&setup, steps).map(drop);
                let (steps, failure) = fewer(steps, failure, &mut TRIES.clone(), again);
                panic!("{failure}\nwith {setup:?}\nand {} steps: {steps:#?}", steps.len());
            }
        }
    }
    println!("{disk:?}: {counts:#?}");
    // What is of one disk alone, or too rare for as few steps as the third takes, is rarer.
    let least = HAPPENS.iter().map(|what| (what, 4)).chain(more.iter().map(|what| (what, 2)));
    for (what, least) in least {
        let count = counts.get(what).copied().unwrap_or(0);
        assert!(count >= least || steps < steps_default, "{what}: {count} times in {steps} steps");
    }
}

#[test]
fn a_store_in_memory_agrees_with_nested_maps() {
    check_many(DiskKind::Memory, 6_000, &["a lower folder was no history by itself"]);
}

#[test]
fn a_store_on_the_operating_system_agrees_with_nested_maps() {
    check_many(DiskKind::Os, 3_000, &[]);
}

#[test]
fn a_store_on_a_disk_that_crashes_agrees_with_nested_maps() {
    check_many(
        DiskKind::Sim,
        6_000,
        &[
            "a crash",
            "a power cut cost what was not synced",
            "a collected commit came back from a file",
            "a lower folder was no history by itself",
        ],
    );
}

/// So few steps that Miri interprets them in minutes.
#[test]
fn interpreted_steps_agree_with_nested_maps() {
    let setup = step::Setup {
        objects_bytes: 20_000,
        pages_bytes: 40_000,
        index_bytes: 0,
        ..step::Setup::draw(DiskKind::Memory, 1)
    };
    run(&setup, &step::draw(3, if cfg!(miri) { 8 } else { 25 })).unwrap();
}

#[test]
fn trees_mean_what_nested_maps_mean() {
    let rounds = setting("VARVITE_CONTEXT_ROUNDS", 6);
    for (number, configuration) in step::configurations().into_iter().enumerate() {
        for round in 0..rounds {
            let mut random = Random::new(round * 100 + number as u64);
            let mut pairs = vec![Pair::empty(Tree::empty(configuration))];
            for step in 0..150 {
                let mut pair = pairs[random.index(pairs.len())].clone();
                pair.change(&mut random, &pairs, &mut |_| {});
                if random.one_in(3) {
                    pair.check(&mut random, &format!("{configuration:?} {round} {step}"));
                }
                if random.one_in(4) && pairs.len() < 6 {
                    pairs.push(pair);
                } else {
                    let place = random.index(pairs.len());
                    pairs[place] = pair;
                }
            }
            for pair in &pairs {
                pair.check(&mut random, "at the end");
                pair.check_folds(&mut random);
                pairs[0].check_diff(pair);
            }
        }
    }
}
