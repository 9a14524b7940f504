//! A `UTxO` ledger that changes to another fork in one step, also through a power cut.
//!
//! Each block leaves a record of what it changed, in the same transaction, and the height stands beside them. A reorganisation undoes blocks by
//! these records and applies those of the other fork, all in one transaction: whoever looks sees the old tip or
//! the new one, and so does the node after a crash.
//!
//! Run it with `cargo run --example utxo_reorganisations`.

use std::collections::BTreeMap;
use std::sync::Arc;

use varvite::disk::{Disk, sim::SimDisk};
use varvite::{Error, Log, Result, Session, SessionOptions, TableOptions, Tables, Transaction};

/// The deepest reorganisation.
const DEPTH: u64 = 10;

/// The key of the height, which comes before those of all records.
const HEIGHT: &[u8] = b"";

struct Block {
    spends: Vec<Vec<u8>>,
    makes: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Ledger {
    tables: Tables,
    session: Session,
}

impl Ledger {
    fn open(disk: Arc<dyn Disk>) -> Result<Ledger> {
        let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
        let session = Session::open_or_create_on(disk, options)?;
        let tables = session.open_or_create_tables([
            ("undo", TableOptions::default()),
            ("utxo", TableOptions::utxo()),
        ])?;
        Ok(Ledger { tables, session })
    }

    /// How many blocks are applied.
    fn height(&self) -> Result<u64> {
        Self::height_in(&mut self.tables.begin())
    }

    fn height_in(draft: &mut Transaction) -> Result<u64> {
        let height = draft.get("undo", HEIGHT)?;
        Ok(height.map_or(0, |height| u64::from_be_bytes(height[..].try_into().expect("8 bytes"))))
    }

    /// Applies a block at `height`. A record for each output: what it was, or nothing if it is new.
    fn apply(draft: &mut Transaction, height: u64, block: &Block) -> Result<()> {
        let record = |key: &[u8]| [&height.to_be_bytes(), key].concat();
        draft.batch("undo")?.insert(&record(b""), b"");
        for key in &block.spends {
            let Some(output) = draft.get("utxo", key)? else {
                return Err(Error::invalid(format!("block {height} spends what is not there")));
            };
            draft.batch("undo")?.insert(&record(key), &[&[1], &output[..]].concat());
            draft.batch("utxo")?.delete(key);
        }
        for (key, output) in &block.makes {
            draft.batch("undo")?.insert(&record(key), &[0]);
            draft.batch("utxo")?.insert(key, output);
        }
        if let Some(old) = height.checked_sub(DEPTH) {
            draft.batch("undo")?.delete_prefix(&old.to_be_bytes());
        }
        Ok(())
    }

    fn undo(draft: &mut Transaction, height: u64) -> Result<()> {
        if draft.get("undo", &height.to_be_bytes())?.is_none() {
            return Err(Error::invalid(format!("block {height} is too old to be undone")));
        }
        for entry in draft.prefix("undo", height.to_be_bytes())? {
            let (record, was) = entry?;
            let utxo = draft.batch("utxo")?;
            match (&record[8..], &was[..]) {
                ([], _) => utxo,
                (key, [0, ..]) => utxo.delete(key),
                (key, was) => utxo.insert(key, &was[1..]),
            };
        }
        draft.batch("undo")?.delete_prefix(&height.to_be_bytes());
        Ok(())
    }

    /// Goes `back` blocks back and on by `blocks`, or, after an error, nowhere.
    fn switch(&self, back: u64, blocks: &[Block]) -> Result<()> {
        // Read in the draft, so that nobody changes it in between.
        let mut draft = self.tables.begin();
        let mut height = Self::height_in(&mut draft)?;
        for _ in 0..back {
            Self::undo(&mut draft, height)?;
            height -= 1;
        }
        for block in blocks {
            height += 1;
            Self::apply(&mut draft, height, block)?;
        }
        draft.batch("undo")?.insert(HEIGHT, &height.to_be_bytes());
        draft.commit()
    }

    fn outputs(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let entries = self.tables.range("utxo", ..)?;
        entries.map(|entry| entry.map(|(key, output)| (key.into(), output.into()))).collect()
    }
}

fn block(name: &str, spends: &[&str]) -> Block {
    let output = |number: u8| (format!("{name}#{number}").into_bytes(), vec![number; 40]);
    let spends = spends.iter().map(|key| key.as_bytes().to_vec()).collect();
    Block { spends, makes: (0..3).map(output).collect() }
}

fn main() -> Result<()> {
    let disk = SimDisk::new(1);
    let ledger = Ledger::open(Arc::<SimDisk>::clone(&disk))?;
    ledger.switch(0, &[block("a", &[]), block("b", &["a#0"])])?;
    let fork = ledger.outputs()?;
    ledger.switch(0, &[block("c", &["a#1", "b#0"]), block("d", &["c#2"])])?;
    let before = ledger.outputs()?;

    // A fork from block 2 that spends otherwise; one of its blocks spends what only the old fork has.
    let wrong = ledger.switch(2, &[block("x", &["b#1"]), block("y", &["c#0"])]);
    assert!(wrong.is_err() && ledger.outputs()? == before, "all of it or nothing");
    ledger.switch(2, &[block("x", &["b#1"]), block("y", &["x#0", "b#2"]), block("z", &[])])?;
    let after = ledger.outputs()?;
    assert_eq!(ledger.height()?, 5);
    assert!(after.contains_key(&b"a#1"[..]) && !after.contains_key(&b"d#0"[..]));

    // Back to where the forks part: every output as it was.
    ledger.switch(3, &[])?;
    assert_eq!(ledger.outputs()?, fork);

    // To the beginning, and no farther; the height is told there too.
    ledger.switch(2, &[])?;
    assert_eq!((ledger.height()?, ledger.outputs()?.len()), (0, 0));
    assert!(ledger.switch(1, &[]).is_err());
    ledger.switch(0, &[block("a", &[]), block("b", &["a#0"])])?;

    let next = [block("n", &[]), block("o", &["n#1"]), block("p", &["o#0"])];
    ledger.switch(2, &next)?;
    let last = ledger.outputs()?;
    ledger.session.close()?;

    // The power goes at each call of the disk in such a change: the node finds what was before it or after.
    let (mut befores, mut afters) = (0, 0);
    for call in 1.. {
        let disk = SimDisk::new(1);
        let ledger = Ledger::open(Arc::<SimDisk>::clone(&disk))?;
        ledger.switch(0, &[block("a", &[]), block("b", &["a#0"])])?;
        disk.kill_at(call);
        let is_told = ledger.switch(2, &next).is_ok();
        for (_, image) in disk.crash_images(4, 40) {
            let found = Ledger::open(image)?.outputs()?;
            assert!(found == last || found == fork && !is_told);
            *(if found == last { &mut afters } else { &mut befores }) += 1;
        }
        if is_told {
            break;
        }
    }
    assert!(befores > 0 && afters > 0);
    println!("after power cuts: {befores} times the tip before, {afters} times the one after");
    Ok(())
}
