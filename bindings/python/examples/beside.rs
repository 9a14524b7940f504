//! The Rust side of `bench/overhead.py`, and of `bindings/js/bench/overhead.mjs`, called with the entries of the table, the
//! accounts of the context and perhaps the bytes of a cache of the table's pages: it makes the same table and context, and does a round of a task whenever a line
//! names it, to answer with the processor time that the round took, in nanoseconds.

#![allow(unsafe_code, clippy::unwrap_used)] // it asks for a clock, and may fail at any place

use std::hint::black_box;
use std::io::BufRead;

use varvite::cache::Cache;
use varvite::context::{CommitInfo, Options, Store, Tree};
use varvite::disk::memory::MemoryDisk;
use varvite::{Batch, Session, SessionOptions, Table, TableOptions, Values};

const BATCH: u64 = 256;
const BATCHES: u64 = 100;

fn processor_ns() -> u64 {
    // SAFETY: a time is numbers, for which zeros are values.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it is a place for a time.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    assert_eq!(failed, 0, "every system of 64 bits has this clock");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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

fn name(number: u64) -> [u8; 16] {
    let mut name = [0; 16];
    name.copy_from_slice(format!("{:016x}", mix(number)).as_bytes());
    name
}

/// What a round looks at.
fn pick(round: u64, of: u64) -> Vec<u64> {
    let batch = |it| (0..BATCH).map(move |at| mix((round * BATCHES + it) * 1_000 + at) % of);
    (0..BATCHES).flat_map(batch).collect()
}

struct Rust {
    table: Table,
    store: Store,
    tree: Tree,
    entries: u64,
    accounts: u64,
    batch: Batch,
    values: Values,
}

impl Rust {
    fn new(session: &Session, entries: u64, accounts: u64) -> Rust {
        let mut table = session.create_table("t", TableOptions::utxo()).unwrap();
        let numbers: Vec<u64> = (0..entries).collect();
        for chunk in numbers.chunks(BATCH as usize) {
            let mut batch = Batch::new();
            for number in chunk {
                batch.insert(&key(*number), &[7; 60]);
            }
            table.update(&batch).unwrap();
        }
        let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
        let mut tree = store.empty_tree();
        for number in 0..accounts {
            let name = name(number);
            let path: [&[u8]; 4] = [b"data", b"contracts", &name, b"balance"];
            tree.add(&path, &number.to_be_bytes()).unwrap();
        }
        let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
        let tree = store.checkout(&commit).unwrap();
        let (batch, values) = (Batch::new(), Values::new());
        Rust { table, store, tree, entries, accounts, batch, values }
    }

    fn run(&mut self, task: &str, round: u64) -> u64 {
        let of =
            if task.contains("find") || task == "commit" { self.accounts } else { self.entries };
        let picked = pick(round, of);
        let keys: Vec<_> = picked.iter().map(|it| key(*it)).collect();
        let names: Vec<_> = picked.iter().map(|it| name(*it)).collect();
        let start = processor_ns();
        match task {
            "lookup" => {
                for keys in keys.chunks(BATCH as usize) {
                    self.table.lookup_into(keys, &mut self.values).unwrap();
                    assert!(black_box(&self.values).iter().all(|it| it.is_some()));
                }
            }
            "update" => {
                for keys in keys.chunks(BATCH as usize) {
                    self.batch.clear();
                    for key in keys {
                        self.batch.insert(key, &[7; 60]);
                    }
                    self.table.update(&self.batch).unwrap();
                }
            }
            "get" => {
                for key in &keys {
                    assert!(black_box(self.table.get(key).unwrap()).is_some());
                }
            }
            "find_each" | "find" => {
                for name in &names {
                    let path: [&[u8]; 4] = [b"data", b"contracts", name, b"balance"];
                    assert!(black_box(self.tree.find(&path).unwrap()).is_some());
                }
            }
            "commit" => {
                for name in &names[..2_560] {
                    let path: [&[u8]; 4] = [b"data", b"contracts", name, b"balance"];
                    self.tree.add(&path, &round.to_be_bytes()).unwrap();
                }
                self.store.commit(&mut self.tree, &CommitInfo::default()).unwrap();
            }
            other => panic!("there is no task {other}"),
        }
        processor_ns() - start
    }
}

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).map(|it| it.parse().unwrap()).collect();
    // Pages in a cache were verified when they came there; without one each read of a page verifies it.
    let cache = sizes.get(2).filter(|it| **it > 0).map(|it| Cache::new(*it));
    let options = SessionOptions { cache, ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let mut rust = Rust::new(&session, sizes[0], sizes[1]);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (task, round) = line.split_once(' ').unwrap();
        println!("{}", rust.run(task, round.parse().unwrap()));
    }
}
