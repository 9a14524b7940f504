//! What a case of the context's machine is made of: a setup and steps, from seeds or bytes, printable.
//!
//! A step means something in every state (numbers are taken modulo what is there), so a failing list stays
//! a list of steps when some are taken out.

use varvite::context::{ChildOrder, Configuration, Durability, Index};

use crate::random::Random;
use crate::setup::DiskKind;

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A random change of a handle's tree.
    Change(u8, u64),
    /// A directory grows past the flat limit and shrinks below it.
    Narrow(u8, u64),
    /// A value becomes a directory and back.
    Turn(u8, u64),
    /// Binds a subtree of another handle.
    Graft(u8, u64),
    /// Binds a subtree of the other store.
    Import(u8, u64),
    /// The other store takes a subtree, and commits.
    Export(u8, u64),
    Fork(u8),
    Drop(u8),
    /// Gives memory of a tree back.
    Release(u8, u64),
    Compare(u8, u64),
    Diff(u8, u64),
    Commit(u8, u64),
    /// A new handle, of a commit or empty.
    Checkout(u64),
    Branch(u64),
    OpenReader,
    Reload(u8),
    Look(u8, u64),
    Checkpoint,
    Chunk,
    Rebuild,
    /// Something that a collection is made of.
    Collect(u64),
    /// Chunks move to the lower folder or back, or are attached from there.
    Move(u64),
    /// Commits go to a file, or come from one.
    File(u64),
    Clear,
    Check,
    /// The store is closed, or dropped, and opened again.
    Reopen(bool),
    /// The power goes, or the process dies: on the simulated disk only.
    Crash(u64),
}

/// The steps of a case.
pub fn draw(seed: u64, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut draw = |_| {
        let (at, seed) = (random.next() as u8, random.next());
        step(random.below(100) as u8, at, seed)
    };
    (0..count).map(&mut draw).collect()
}

/// The step that three numbers make, the first of which is taken modulo 100.
pub fn step(kind: u8, at: u8, seed: u64) -> Step {
    match kind % 100 {
        0..16 => Step::Change(at, seed),
        16..20 => Step::File(seed),
        20..25 => Step::Move(seed),
        25..32 => Step::Collect(seed),
        32..34 => Step::Narrow(at, seed),
        34..37 => Step::Turn(at, seed),
        37..41 => Step::Graft(at, seed),
        41..43 => Step::Import(at, seed),
        43 => Step::Export(at, seed),
        44..48 => Step::Fork(at),
        48 => Step::Drop(at),
        49..52 => Step::Release(at, seed),
        52..56 => Step::Compare(at, seed),
        56..58 => Step::Diff(at, seed),
        58..71 => Step::Commit(at, seed),
        71..77 => Step::Checkout(seed),
        77..81 => Step::Branch(seed),
        81 => Step::OpenReader,
        82..86 => Step::Reload(at),
        86..90 => Step::Look(at, seed),
        90..92 => Step::Checkpoint,
        92 => Step::Chunk,
        93 => Step::Rebuild,
        94 if seed.is_multiple_of(2) => Step::Clear,
        94 | 95 => Step::Check,
        96 | 97 => Step::Reopen(seed.is_multiple_of(2)),
        _ => Step::Crash(seed),
    }
}

/// How a store is made and what it may hold in memory.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub disk: DiskKind,
    pub seed: u64,
    pub configuration: Configuration,
    pub index: Index,
    pub durability: Durability,
    pub objects_bytes: u64,
    pub pages_bytes: u64,
    pub index_bytes: u64,
    pub tree_bytes: u64,
    pub chunk_bytes: u64,
}

/// The configurations of Tezos, and small ones that split and merge at every other step.
pub fn configurations() -> [Configuration; 6] {
    [
        Configuration::TEZOS,
        Configuration::TEZOS_BINARY,
        Configuration::new(3, 5, ChildOrder::SeededHash).unwrap(),
        Configuration::new(4, 9, ChildOrder::HashBits).unwrap(),
        Configuration::new(2, 0, ChildOrder::SeededHash).unwrap(),
        Configuration::new(8, 3, ChildOrder::HashBits).unwrap(),
    ]
}

impl Setup {
    /// Small numbers, so that evicted nodes are read again, patches are made of read ones, trees spill
    /// and chunks end.
    pub fn draw(disk: DiskKind, seed: u64) -> Setup {
        let mut random = Random::new(seed ^ 0x0c07_e87a);
        let tezos = random.one_in(3);
        let other = random.choose(&configurations());
        Setup {
            disk,
            seed,
            configuration: if tezos { Configuration::TEZOS } else { other },
            index: random.choose(&[Index::Minimal, Index::Always]),
            durability: random.choose(&[Durability::Synced, Durability::Written]),
            objects_bytes: random.choose(&[0, 20_000, 1 << 20]),
            pages_bytes: random.choose(&[0, 40_000, 1 << 20]),
            index_bytes: random.choose(&[0, 1 << 20]),
            tree_bytes: random.choose(&[0, 3_000, 20_000, 128 << 20]),
            chunk_bytes: random.choose(&[4_000, 60_000, 1 << 20]),
        }
    }
}
