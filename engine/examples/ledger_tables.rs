//! A ledger's tables as Cardano's consensus layer wants them, on one varvite table.
//!
//! Consensus keeps a handle for each of the last blocks. A block is applied by duplicating the
//! handle of its parent and pushing the block's differences; a fork is another duplicate of the same
//! parent; the handles of an abandoned fork are just closed. A snapshot holds the table, the ledger
//! state's own bytes and the size together, so that one cannot be there without the others.
//!
//! Run it with `cargo run --example ledger_tables`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, OpenSnapshot, Result, Session, SessionOptions, SnapshotContent, Table, TableOptions,
};

type TxIn = Vec<u8>;
type TxOut = Vec<u8>;
/// What a block changes: outputs that it makes, and `None` for those that it spends.
type Diffs = BTreeMap<TxIn, Option<TxOut>>;

/// The backend: one session for all handles.
struct Backend {
    session: Session,
}

/// The ledger's tables as of one block.
struct Handle {
    session: Session,
    table: Table,
    /// How many outputs there are: counted from the differences, kept in snapshots.
    size: u64,
}

impl Backend {
    const LABEL: &str = "ledger tables v1";
    const TABLE: &str = "utxo";

    fn create(disk: Arc<dyn Disk>) -> Result<Self> {
        Ok(Backend { session: Session::create(disk, SessionOptions::default())? })
    }

    fn open(disk: Arc<dyn Disk>) -> Result<Self> {
        Ok(Backend { session: Session::open(disk, SessionOptions::default())? })
    }

    /// Empty tables.
    fn new_tables(&self) -> Result<Handle> {
        let table = self.session.create_table(Self::TABLE, TableOptions::utxo())?;
        Ok(Handle { session: self.session.clone(), table, size: 0 })
    }

    /// The tables of a snapshot and the ledger state that was saved with them.
    fn open_snapshot(&self, name: &str) -> Result<(Handle, Vec<u8>)> {
        let label = Some(Self::LABEL.to_owned());
        let mut snapshot =
            self.session.open_snapshot(name, &OpenSnapshot { label, ..OpenSnapshot::default() })?;
        let (size, state) = snapshot.payload.split_at(8);
        let size = u64::from_le_bytes(size.try_into().expect("8 bytes"));
        let state = state.to_vec();
        let table = snapshot.take(Self::TABLE)?;
        Ok((Handle { session: self.session.clone(), table, size }, state))
    }
}

impl Handle {
    fn close(self) -> Result<()> {
        self.table.close()
    }

    /// An independent copy, at no cost.
    fn duplicate(&self) -> Result<Handle> {
        let table = self.table.duplicate(Backend::TABLE)?;
        Ok(Handle { session: self.session.clone(), table, size: self.size })
    }

    /// The outputs of those keys that are there.
    fn read(&self, keys: &[TxIn]) -> Result<BTreeMap<TxIn, TxOut>> {
        let values = self.table.lookup(keys)?;
        let found = keys.iter().zip(values.iter());
        Ok(found.filter_map(|(key, value)| Some((key.clone(), value?.to_vec()))).collect())
    }

    /// The first `count` outputs after `key`, or from the start.
    fn read_range(&self, after: Option<&TxIn>, count: usize) -> Result<Vec<(TxIn, TxOut)>> {
        let lower = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_slice()));
        let mut cursor = self.table.cursor(lower, Bound::Unbounded)?;
        let mut outputs = Vec::new();
        while outputs.len() < count {
            let Some((key, value)) = cursor.next()? else { break };
            outputs.push((key.to_vec(), value.to_vec()));
        }
        Ok(outputs)
    }

    /// Everything, in pages.
    fn read_all(&self, page: usize) -> Result<BTreeMap<TxIn, TxOut>> {
        let mut all = BTreeMap::new();
        loop {
            let outputs = self.read_range(all.last_key_value().map(|(key, _)| key), page)?;
            if outputs.is_empty() {
                return Ok(all);
            }
            all.extend(outputs);
        }
    }

    /// Applies what a block changes. A ledger spends only what is there and makes only what is not.
    fn push_diffs(&mut self, diffs: &Diffs) -> Result<()> {
        let mut batch = Batch::new();
        let (mut made, mut spent) = (0, 0);
        for (key, output) in diffs {
            if let Some(output) = output {
                batch.insert(key, output);
                made += 1;
            } else {
                batch.delete(key);
                spent += 1;
            }
        }
        self.table.update(&batch)?;
        self.size = self.size + made - spent;
        Ok(())
    }

    /// The tables after a block on top of these.
    fn duplicate_with_diffs(&self, diffs: &Diffs) -> Result<Handle> {
        let mut next = self.duplicate()?;
        next.push_diffs(diffs)?;
        Ok(next)
    }

    /// Saves the tables together with the ledger state's own bytes.
    fn take_snapshot(&self, name: &str, state: &[u8]) -> Result<()> {
        let payload = [&self.size.to_le_bytes()[..], state].concat();
        let tables = &[&self.table];
        let content = SnapshotContent { label: Backend::LABEL, payload: &payload, tables };
        self.session.save_snapshot(name, content)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// A made-up output of transaction `transaction`.
fn output(transaction: u32, index: u16) -> (TxIn, TxOut) {
    let key = [&transaction.wrapping_mul(0x9e37_79b9).to_be_bytes()[..], &index.to_be_bytes()];
    (key.concat(), format!("output {index} of transaction {transaction}").into_bytes())
}

/// A block that spends every seventh output, counted from `first`, and makes `count` new ones.
fn block(tables: &BTreeMap<TxIn, TxOut>, first: usize, transaction: u32, count: u16) -> Diffs {
    let spent = tables.keys().skip(first).step_by(7).map(|key| (key.clone(), None));
    let made = (0..count).map(|index| output(transaction, index)).map(|(key, it)| (key, Some(it)));
    spent.chain(made).collect()
}

/// The same in a plain map.
fn apply(tables: &BTreeMap<TxIn, TxOut>, diffs: &Diffs) -> BTreeMap<TxIn, TxOut> {
    let mut next = tables.clone();
    for (key, output) in diffs {
        match output {
            Some(output) => next.insert(key.clone(), output.clone()),
            None => next.remove(key),
        };
    }
    next
}

/// Compares a handle with the map that it should be, in every way to read it.
fn check(handle: &Handle, expected: &BTreeMap<TxIn, TxOut>) -> Result<()> {
    assert_eq!(handle.size(), expected.len() as u64);
    assert_eq!(&handle.read_all(100)?, expected);
    let mut keys: Vec<TxIn> = expected.keys().step_by(3).cloned().collect();
    let found = keys.len();
    keys.extend((0..5).map(|index| output(u32::MAX, index).0)); // nobody made these
    assert_eq!(handle.read(&keys)?.len(), found);
    let middle = expected.keys().nth(expected.len() / 2).expect("never empty here");
    let after = (Bound::Excluded(middle.clone()), Bound::Unbounded);
    let expected = expected.range(after).take(10).map(|(key, value)| (key.clone(), value.clone()));
    assert_eq!(handle.read_range(Some(middle), 10)?, expected.collect::<Vec<_>>());
    Ok(())
}

fn main() -> Result<()> {
    let disk = MemoryDisk::seeded(1);
    let backend = Backend::create(disk.clone())?;
    let genesis: Diffs =
        (0..1_000).map(|index| output(0, index)).map(|(k, v)| (k, Some(v))).collect();

    // A chain of four blocks; consensus keeps a handle for each.
    let mut expected = vec![apply(&BTreeMap::new(), &genesis)];
    let mut chain = vec![backend.new_tables()?.duplicate_with_diffs(&genesis)?];
    for number in 1..=4 {
        let parent = &expected[expected.len() - 1];
        let diffs = block(parent, number as usize, number, 200);
        chain.push(chain[chain.len() - 1].duplicate_with_diffs(&diffs)?);
        expected.push(apply(parent, &diffs));
    }

    // Two forks of two blocks each from block 2; both are alive at once, and so is the chain.
    let mut forks = Vec::new();
    for fork in [1_u32, 2] {
        let first = block(&expected[2], fork as usize, 100 * fork, 300);
        let after_first = apply(&expected[2], &first);
        let second = block(&after_first, fork as usize + 2, 100 * fork + 1, 50);
        let mut tip = chain[2].duplicate_with_diffs(&first)?;
        tip.push_diffs(&second)?;
        forks.push((tip, apply(&after_first, &second)));
    }
    for (handle, expected) in chain.iter().zip(&expected) {
        check(handle, expected)?;
    }
    for (tip, expected) in &forks {
        check(tip, expected)?;
    }

    // The second fork wins and is saved with its state; the rest goes.
    let (winner, winner_expected) = forks.pop().expect("two forks");
    winner.take_snapshot("slot-4", b"ledger state at slot 4")?;
    let (loser, _) = forks.pop().expect("one fork");
    loser.close()?;
    for handle in chain {
        handle.close()?;
    }
    check(&winner, &winner_expected)?;
    let after = block(&winner_expected, 0, 500, 10);
    let unsaved = winner.duplicate_with_diffs(&after)?;
    check(&unsaved, &apply(&winner_expected, &after))?;
    unsaved.close()?;
    winner.close()?;
    backend.session.close()?;

    // Another process finds what was saved, and only that.
    let backend = Backend::open(disk)?;
    let (restored, state) = backend.open_snapshot("slot-4")?;
    assert_eq!(state, b"ledger state at slot 4");
    check(&restored, &winner_expected)?;
    println!("5 blocks and 2 forks of 2, every handle as a plain map has it");
    println!("restored at slot 4: {} outputs, with the ledger's own state", restored.size());
    restored.close()?;
    backend.session.close()
}
