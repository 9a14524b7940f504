//! The synthetic block workload: flat contracts and deep big maps, made from one seed.
//!
//! Two other engines gave the same commit hashes for it, so a run is also a proof of correctness.

use varvite::Result;
use varvite::context::Tree;

/// The splitmix64 generator. Source: Steele, Lea, Flood 2014.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// From a seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Fills `out` with the hex digits that stand for item `index` of the kind `tag`.
fn identity(tag: u64, index: u64, out: &mut [u8]) {
    let seed = SplitMix::new(tag.wrapping_mul(0x0100_0000_01b3) ^ index).next();
    let mut generator = SplitMix::new(seed);
    for chunk in out.chunks_mut(16) {
        let word = generator.next();
        for (place, digit) in chunk.iter_mut().enumerate() {
            *digit = DIGITS[(word >> (60 - 4 * place)) as usize & 15];
        }
    }
}

/// The directory of account `index`.
fn account(index: u64) -> [u8; 44] {
    let mut name = [b'0'; 44];
    identity(1, index, &mut name[4..]);
    name
}

fn with_cell<T>(index: u64, each: impl FnOnce(&[&[u8]; 9]) -> T) -> T {
    let mut key = [0; 64];
    identity(2, index, &mut key);
    let map = (index % 64).to_string();
    let (a, b, c) = (&key[..2], &key[2..4], &key[4..]);
    each(&[b"data", b"big_maps", b"index", map.as_bytes(), b"contents", a, b, c, b"data"])
}

fn account_path<'a>(name: &'a [u8; 44], leaf: &'a [u8]) -> [&'a [u8]; 5] {
    [b"data", b"contracts", b"index", name, leaf]
}

/// How much of each kind a block has.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Finds.
    pub reads: u64,
    /// Values replaced.
    pub updates: u64,
    /// Accounts and cells added.
    pub inserts: u64,
    /// Accounts removed.
    pub deletes: u64,
}

/// The workload and where it is. A copy goes on with the same blocks.
#[derive(Debug, Clone)]
pub struct Workload {
    generator: SplitMix,
    accounts: u64,
    cells: u64,
    live: Vec<u32>,
    /// Calls that change the tree, so far.
    pub writes: u64,
    /// Finds that found nothing, although there was something.
    pub missing: u64,
}

impl Workload {
    /// Before the first account.
    pub fn new(seed: u64) -> Workload {
        Workload {
            generator: SplitMix::new(seed),
            accounts: 0,
            cells: 0,
            live: Vec::new(),
            writes: 0,
            missing: 0,
        }
    }

    /// How many accounts were made.
    pub fn accounts(&self) -> u64 {
        self.accounts
    }

    /// The value of a cell, in `value`.
    fn cell_value(&mut self, value: &mut Vec<u8>) {
        let length = 8 + self.generator.below(120) as usize;
        value.clear();
        while value.len() < length {
            value.extend_from_slice(&self.generator.next().to_le_bytes());
        }
        value.truncate(length);
    }

    fn balance(&mut self) -> ([u8; 8], usize) {
        let bytes = self.generator.next().to_le_bytes();
        (bytes, 4 + self.generator.below(3) as usize)
    }

    fn add_account(&mut self, tree: &mut Tree) -> Result<()> {
        let index = self.accounts;
        let name = account(index);
        let (bytes, length) = self.balance();
        tree.add(&account_path(&name, b"balance"), &bytes[..length])?;
        tree.add(&account_path(&name, b"counter"), &(index as u16).to_le_bytes())?;
        self.live.push(index as u32);
        self.accounts += 1;
        self.writes += 2;
        Ok(())
    }

    fn put_cell(&mut self, tree: &mut Tree, index: u64, value: &mut Vec<u8>) -> Result<()> {
        self.cell_value(value);
        self.writes += 1;
        with_cell(index, |path| tree.add(path, value))
    }

    /// One commit's worth of loading, up to `accounts` in all.
    pub fn load(&mut self, tree: &mut Tree, accounts: u64) -> Result<()> {
        for _ in 0..(accounts - self.accounts).min(10_000) {
            self.add_account(tree)?;
        }
        let mut value = Vec::new();
        for _ in 0..5_000 {
            self.put_cell(tree, self.cells, &mut value)?;
            self.cells += 1;
        }
        Ok(())
    }

    /// The place of an account: half of the time among the first hundredth.
    fn pick(&mut self) -> usize {
        let live = self.live.len() as u64;
        let hot = self.generator.below(2) == 0;
        self.generator.below(if hot { (live / 100).max(1) } else { live }) as usize
    }

    /// The finds of one block.
    pub fn read(&mut self, tree: &Tree, mix: Mix) -> Result<()> {
        for index in 0..mix.reads {
            let found = if index % 4 == 3 {
                let cell = self.generator.below(self.cells);
                with_cell(cell, |path| tree.find(path))?
            } else {
                let place = self.pick();
                let name = account(u64::from(self.live[place]));
                tree.find(&account_path(&name, b"balance"))?
            };
            self.missing += u64::from(found.is_none());
        }
        Ok(())
    }

    /// Finds of `count` accounts, any as likely as any other.
    pub fn find_any(&mut self, tree: &Tree, count: u64) -> Result<()> {
        for _ in 0..count {
            let place = self.generator.below(self.live.len() as u64) as usize;
            let name = account(u64::from(self.live[place]));
            let found = tree.find(&account_path(&name, b"balance"))?;
            self.missing += u64::from(found.is_none());
        }
        Ok(())
    }

    /// The changes of one block.
    pub fn write(&mut self, tree: &mut Tree, mix: Mix) -> Result<()> {
        let mut value = Vec::new();
        for index in 0..mix.updates {
            if index % 4 == 3 {
                let cell = self.generator.below(self.cells);
                self.put_cell(tree, cell, &mut value)?;
            } else {
                let place = self.pick();
                let name = account(u64::from(self.live[place]));
                let (bytes, length) = self.balance();
                tree.add(&account_path(&name, b"balance"), &bytes[..length])?;
                self.writes += 1;
            }
        }
        for index in 0..mix.inserts {
            if index % 4 == 3 {
                self.put_cell(tree, self.cells, &mut value)?;
                self.cells += 1;
            } else {
                self.add_account(tree)?;
            }
        }
        for _ in 0..mix.deletes {
            let place = self.generator.below(self.live.len() as u64) as usize;
            let name = account(u64::from(self.live.swap_remove(place)));
            tree.remove(&account_path(&name, b"")[..4])?;
            self.writes += 1;
        }
        Ok(())
    }
}
