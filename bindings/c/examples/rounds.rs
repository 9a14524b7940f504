//! The Rust side of the benchmarks of faces that are programs of another language: it does a round of the work when it is
//! told to on its standard input, and says the nanoseconds of processor time an item, so that both take turns in one run.
//!
//! `cargo run --release -p varvite-c --example rounds -- ENTRIES ACCOUNTS`, then lines as `lookup 7`: what, and which
//! round. Keys are made outside of what is timed.

#![allow(unsafe_code, clippy::unwrap_used)] // it asks the system's clock, and may fail at any place

use std::hint::black_box;
use std::io::BufRead;
use std::time::Duration;

use varvite::context::{CommitInfo, Options, Store, Tree};
use varvite::disk::memory::MemoryDisk;
use varvite::{Batch, Session, SessionOptions, Table, TableOptions, Values};

const BATCH: u64 = 256;
const BATCHES: u64 = 100;

fn processor() -> Duration {
    // SAFETY: a time is numbers, for which zeros are values.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it is a place for a time.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    assert_eq!(failed, 0, "every system of 64 bits has this clock");
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Numbers that look unrelated. Source: Steele et al. 2014 (`SplitMix64`).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(number: u64) -> [u8; 34] {
    let mut key = [0; 34];
    for (at, part) in key.chunks_mut(8).enumerate() {
        part.copy_from_slice(&mix(number * 8 + at as u64).to_le_bytes()[..part.len()]);
    }
    key
}

fn account(number: u64) -> [[u8; 9]; 4] {
    let mut name = [0; 9];
    name.copy_from_slice(format!("{:09x}", mix(number) >> 28).as_bytes());
    [*b"data     ", *b"contracts", name, *b"balance  "]
}

/// The numbers of a batch, of things that are there.
fn picked(batch: u64, of: u64) -> impl Iterator<Item = u64> {
    (0..BATCH).map(move |it| mix(batch * 1_000 + it) % of)
}

fn table(entries: u64) -> (Session, Table) {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", TableOptions::utxo()).unwrap();
    for first in (0..entries).step_by(BATCH as usize) {
        let mut batch = Batch::new();
        for number in first..first + BATCH {
            batch.insert(&key(number), &[7; 60]);
        }
        table.update(&batch).unwrap();
    }
    (session, table)
}

fn context(accounts: u64) -> (Store, Tree) {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..accounts {
        tree.add(&account(number), &number.to_be_bytes()).unwrap();
    }
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let tree = store.checkout(&hash).unwrap();
    (store, tree)
}

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).map(|it| it.parse().unwrap()).collect();
    let [entries, accounts] = sizes[..] else { panic!("rounds ENTRIES ACCOUNTS") };
    let (_session, mut table) = table(entries);
    let (mut store, mut tree) = context(accounts);
    let (mut values, mut batch) = (Values::new(), Batch::new());
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (what, round) = line.split_once(' ').unwrap();
        let first = round.parse::<u64>().unwrap() * BATCHES;
        let batches = first..first + BATCHES;
        let mut spent = Duration::ZERO;
        let mut items = BATCH * BATCHES;
        match what {
            "lookup" | "update" => {
                for number in batches {
                    let keys: Vec<_> = picked(number, entries).map(key).collect();
                    let start = processor();
                    if what == "lookup" {
                        table.lookup_into(&keys, &mut values).unwrap();
                        assert!(black_box(&values).iter().all(|it| it.is_some()));
                    } else {
                        batch.clear();
                        for key in &keys {
                            batch.insert(key, &[7; 60]);
                        }
                        table.update(&batch).unwrap();
                    }
                    spent += processor().saturating_sub(start);
                }
            }
            "find" => {
                for number in batches {
                    let paths: Vec<_> = picked(number, accounts).map(account).collect();
                    let start = processor();
                    for path in &paths {
                        assert!(black_box(tree.find(path).unwrap()).is_some());
                    }
                    spent += processor().saturating_sub(start);
                }
            }
            "commit" => {
                items = BATCH * 10;
                let value = first.to_be_bytes();
                for number in first..first + 10 {
                    let paths: Vec<_> = picked(number, accounts).map(account).collect();
                    let start = processor();
                    for path in &paths {
                        tree.add(path, &value).unwrap();
                    }
                    spent += processor().saturating_sub(start);
                }
                let start = processor();
                store.commit(&mut tree, &CommitInfo::default()).unwrap();
                spent += processor().saturating_sub(start);
            }
            _ => panic!("nobody knows how to do {what}"),
        }
        println!("{}", spent.as_nanos() as f64 / items as f64);
    }
}
