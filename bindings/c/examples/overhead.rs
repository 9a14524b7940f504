//! What C's functions cost over Rust's: `cargo run --release -p varvite-c --example overhead`. Processor time of the same
//! work on two equal stores in memory, by turns; the lower quartile of the rounds. Numbers after it make it smaller: the
//! entries of the table, then the accounts of the context.
//!
//! The functions are called by pointers that the compiler cannot see through, as a program in C calls them.

#![allow(unsafe_code, clippy::unwrap_used)] // it calls C's functions, and may fail at any place
#![allow(clippy::wildcard_imports, clippy::struct_field_names)] // C's names have their prefix already

use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::time::Duration;

use varvite::context::{CommitInfo, Options, Store, Tree};
use varvite::disk::memory::MemoryDisk;
use varvite::{Batch, Session, SessionOptions, Table, TableOptions, Values};
use varvite_c::context::store::*;
use varvite_c::context::tree::*;
use varvite_c::table::lookup::*;
use varvite_c::table::session::*;
use varvite_c::table::update::*;
use varvite_c::*;

const BATCH: usize = 256;
const BATCHES: usize = 100;
const ROUNDS: usize = 41;

macro_rules! must {
    ($function:ident: $type:ty, $($argument:expr),*) => {{
        let function: $type = black_box($function);
        // SAFETY: every pointer leads to what the function says, and lives until it returns.
        assert_eq!(unsafe { function($($argument,)* null_mut()) }, VARVITE_OK);
    }};
}

type Apply = unsafe extern "C" fn(
    *mut varvite_table,
    *const varvite_operation,
    usize,
    *mut varvite_error,
) -> i32;
type Lookup = unsafe extern "C" fn(
    *mut varvite_table,
    *const varvite_bytes,
    usize,
    *mut varvite_arena,
    *mut varvite_error,
) -> i32;
type Find = unsafe extern "C" fn(
    *mut varvite_tree,
    *const varvite_bytes,
    usize,
    *mut varvite_arena,
    *mut varvite_error,
) -> i32;
type FindMany = unsafe extern "C" fn(
    *mut varvite_tree,
    *const varvite_path,
    usize,
    *mut varvite_arena,
    *mut varvite_error,
) -> i32;
type Add = unsafe extern "C" fn(
    *mut varvite_tree,
    *const varvite_bytes,
    usize,
    *const varvite_bytes,
    *mut varvite_error,
) -> i32;
type Commit = unsafe extern "C" fn(
    *mut varvite_store,
    *mut varvite_tree,
    *const varvite_commit_info,
    *mut varvite_hash,
    *mut varvite_error,
) -> i32;

fn processor() -> Duration {
    // SAFETY: a time is numbers, for which zeros are values.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it is a place for a time.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    assert_eq!(failed, 0, "every system of 64 bits has this clock");
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Both by turns, which of them first by turns too.
fn compare(what: &str, count: usize, mut rust: impl FnMut(), mut c: impl FnMut()) {
    let mut times = [Vec::new(), Vec::new()];
    let mut time = |which: usize, run: &mut dyn FnMut()| {
        let start = processor();
        run();
        times[which].push(processor().saturating_sub(start).as_nanos() as f64 / count as f64);
    };
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            time(0, &mut rust);
            time(1, &mut c);
        } else {
            time(1, &mut c);
            time(0, &mut rust);
        }
    }
    let [rust, c] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 4]
    });
    println!("{what:<34} {rust:>9.1} ns {c:>9.1} ns {:>+7.1} %", (c / rust - 1.0) * 100.0);
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

fn bytes(bytes: &[u8]) -> varvite_bytes {
    varvite_bytes { data: bytes.as_ptr(), length: bytes.len() }
}

fn rust_table(entries: u64) -> (Session, Table) {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", TableOptions::utxo()).unwrap();
    for first in (0..entries).step_by(BATCH) {
        let mut batch = Batch::new();
        for number in first..first + BATCH as u64 {
            batch.insert(&key(number), &[7; 60]);
        }
        table.update(&batch).unwrap();
    }
    (session, table)
}

fn c_table(entries: u64) -> *mut varvite_table {
    let (mut disk, mut session, mut table) = (null_mut(), null_mut(), null_mut());
    // SAFETY: options are numbers and pointers, for which zeros are values; every pointer leads to what the function
    // says.
    unsafe {
        let mut options: table::options::varvite_table_options = std::mem::zeroed();
        table::options::varvite_table_options_utxo(&raw mut options, null_mut());
        varvite_disk_memory(1, &raw mut disk, null_mut());
        varvite_session_create(disk, null(), &raw mut session, null_mut());
        let name = c"t".as_ptr();
        varvite_session_create_table(session, name, &raw const options, &raw mut table, null_mut());
    }
    for first in (0..entries).step_by(BATCH) {
        let keys: Vec<_> = (first..first + BATCH as u64).map(key).collect();
        let batch: Vec<_> = keys.iter().map(|it| insert(it)).collect();
        must!(varvite_table_apply: Apply, table, batch.as_ptr(), batch.len());
    }
    table
}

fn insert(key: &[u8]) -> varvite_operation {
    let (kind, value) = (VARVITE_INSERT, bytes(&[7; 60]));
    varvite_operation { kind, key: bytes(key), value, held: null_mut() }
}

fn tables(entries: u64) {
    let (_session, mut table) = rust_table(entries);
    let c_table = c_table(entries);
    let pick = |round: u64| -> Vec<[u8; 34]> {
        (0..BATCH as u64).map(|it| key(mix(round * 1_000 + it) % entries)).collect()
    };
    let (mut values, mut rust_round, mut c_round) = (Values::new(), 0, 0);
    let mut arena = varvite_arena { items: null(), count: 0, owner: null_mut() };
    compare(
        "a key of a lookup of 256",
        BATCH * BATCHES,
        || {
            for _ in 0..BATCHES {
                rust_round += 1;
                let keys = pick(rust_round);
                table.lookup_into(&keys, &mut values).unwrap();
                assert!(black_box(&values).iter().all(|it| it.is_some()));
            }
        },
        || {
            for _ in 0..BATCHES {
                c_round += 1;
                let keys = pick(c_round);
                let pieces: Vec<_> = keys.iter().map(|it| bytes(it)).collect();
                must!(varvite_table_lookup: Lookup, c_table, pieces.as_ptr(), BATCH, &raw mut arena);
                // SAFETY: the lookup filled it.
                let items = unsafe { std::slice::from_raw_parts(arena.items, arena.count) };
                assert!(black_box(items).iter().all(|it| !it.data.is_null()));
            }
        },
    );
    let (mut batch, mut rust_round, mut c_round) = (Batch::new(), 0, 0);
    compare(
        "an operation of an update of 256",
        BATCH * BATCHES,
        || {
            for _ in 0..BATCHES {
                rust_round += 1;
                batch.clear();
                for key in pick(rust_round) {
                    batch.insert(&key, &[7; 60]);
                }
                table.update(&batch).unwrap();
            }
        },
        || {
            for _ in 0..BATCHES {
                c_round += 1;
                let keys = pick(c_round);
                let batch: Vec<_> = keys.iter().map(|it| insert(it)).collect();
                must!(varvite_table_apply: Apply, c_table, batch.as_ptr(), BATCH);
            }
        },
    );
}

fn account(number: u64) -> [[u8; 9]; 4] {
    let mut name = [0; 9];
    let text = format!("{:09x}", mix(number) >> 28);
    name.copy_from_slice(text.as_bytes());
    [*b"data     ", *b"contracts", name, *b"balance  "]
}

fn filled(store: &Store, accounts: u64) -> Tree {
    let mut tree = store.empty_tree();
    for number in 0..accounts {
        tree.add(&account(number), &number.to_be_bytes()).unwrap();
    }
    tree
}

fn contexts(accounts: u64) {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = filled(&store, accounts);
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let mut tree = store.checkout(&hash).unwrap();

    let (mut disk, mut c_store, mut c_tree) = (null_mut(), null_mut(), null_mut());
    let mut c_hash = varvite_hash { bytes: [0; 32] };
    let info = varvite_commit_info {
        parents: null(),
        parent_count: 0,
        date: 0,
        author: bytes(b""),
        message: bytes(b""),
    };
    // SAFETY: every pointer leads to what the function says.
    unsafe {
        varvite_disk_memory(1, &raw mut disk, null_mut());
        varvite_store_create(disk, null(), &raw mut c_store, null_mut());
        varvite_store_empty_tree(c_store, &raw mut c_tree, null_mut());
    }
    for number in 0..accounts {
        let path = account(number);
        let (steps, value) = (path.each_ref().map(|it| bytes(it)), number.to_be_bytes());
        must!(varvite_tree_add: Add, c_tree, steps.as_ptr(), 4, &bytes(&value));
    }
    must!(varvite_store_commit: Commit, c_store, c_tree, &raw const info, &raw mut c_hash);
    assert_eq!(c_hash.bytes, hash);
    // SAFETY: as above.
    unsafe { varvite_store_checkout(c_store, &raw const c_hash, &raw mut c_tree, null_mut()) };

    let pick = |round: u64| -> Vec<_> {
        (0..BATCH as u64).map(|it| account(mix(round * 1_000 + it) % accounts)).collect()
    };
    let mut arena = varvite_arena { items: null(), count: 0, owner: null_mut() };
    let (mut rust_round, mut c_round) = (0, 0);
    let rust_finds = |tree: &Tree, rust_round: &mut u64| {
        for _ in 0..BATCHES {
            *rust_round += 1;
            for path in pick(*rust_round) {
                assert!(black_box(tree.find(&path).unwrap()).is_some());
            }
        }
    };
    compare(
        "a find of 256 in one call",
        BATCH * BATCHES,
        || rust_finds(&tree, &mut rust_round),
        || {
            for _ in 0..BATCHES {
                c_round += 1;
                let paths = pick(c_round);
                let steps: Vec<_> =
                    paths.iter().map(|path| path.each_ref().map(|it| bytes(it))).collect();
                let paths: Vec<_> =
                    steps.iter().map(|it| varvite_path { steps: it.as_ptr(), count: 4 }).collect();
                must!(varvite_tree_find_many: FindMany, c_tree, paths.as_ptr(), BATCH, &raw mut arena);
                // SAFETY: the call filled it.
                let items = unsafe { std::slice::from_raw_parts(arena.items, arena.count) };
                assert!(black_box(items).iter().all(|it| !it.data.is_null()));
            }
        },
    );
    let (mut rust_round, mut c_round) = (0, 0);
    compare(
        "a find in a call of its own",
        BATCH * BATCHES,
        || rust_finds(&tree, &mut rust_round),
        || {
            for _ in 0..BATCHES {
                c_round += 1;
                for path in pick(c_round) {
                    let steps = path.each_ref().map(|it| bytes(it));
                    must!(varvite_tree_find: Find, c_tree, steps.as_ptr(), 4, &raw mut arena);
                    assert_eq!(arena.count, 1);
                }
            }
        },
    );
    let (mut rust_round, mut c_round) = (0u64, 0u64);
    compare(
        "a change of a commit of 2,560",
        BATCH * 10,
        || {
            for _ in 0..10 {
                rust_round += 1;
                for path in pick(rust_round) {
                    tree.add(&path, &rust_round.to_be_bytes()).unwrap();
                }
            }
            store.commit(&mut tree, &CommitInfo::default()).unwrap();
        },
        || {
            for _ in 0..10 {
                c_round += 1;
                let value = c_round.to_be_bytes();
                for path in pick(c_round) {
                    let steps = path.each_ref().map(|it| bytes(it));
                    must!(varvite_tree_add: Add, c_tree, steps.as_ptr(), 4, &bytes(&value));
                }
            }
            must!(varvite_store_commit: Commit, c_store, c_tree, &raw const info, &raw mut c_hash);
        },
    );
}

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).map(|it| it.parse().unwrap()).collect();
    println!("{:<34} {:>12} {:>12} {:>9}", "processor time of", "Rust", "C", "overhead");
    tables(sizes.first().copied().unwrap_or(1_000_000));
    contexts(sizes.get(1).copied().unwrap_or(100_000));
}
