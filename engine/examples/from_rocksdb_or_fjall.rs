//! What a program does with `RocksDB` or fjall, done with varvite: threads, transactions, iterators, checkpoints.
//!
//! A column family or keyspace is a table; `WriteBatch` is `commit` with a batch for each table; a
//! transaction is `begin`; a snapshot is `views`; a checkpoint is `backup`. A program that is to stay as it is takes an
//! adapter (`adapters/rocksdb`, `adapters/fjall`) instead.
//!
//! Run it with `cargo run --example from_rocksdb_or_fjall`.

use std::path::Path;
use std::sync::Arc;

use varvite::disk::{Disk, os::OsDisk};
use varvite::{Batch, Log, Result, Session, SessionOptions, TableOptions, Tables, Verify};

const TABLES: [&str; 2] = ["blocks", "utxo"];

/// `DB::open_cf` with `create_if_missing` and `create_missing_column_families`.
fn open(path: &Path) -> Result<(Session, Tables)> {
    // `Written` is a write without sync, `Synced` one with it.
    let options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
    let session = Session::open_or_create(path, options)?;
    let tables =
        session.open_or_create_tables(TABLES.map(|name| (name, TableOptions::default())))?;
    Ok((session, tables))
}

/// A transaction: it reads what it wrote, and stands whole or not at all.
fn spend(tables: &Tables, output: &[u8], block: u32) -> Result<bool> {
    let mut transaction = tables.begin();
    let Some(value) = transaction.get("utxo", output)? else { return Ok(false) };
    transaction.batch("utxo")?.delete(output).insert(&[output, b"'"].concat(), &value);
    transaction.batch("blocks")?.insert(&block.to_be_bytes(), output);
    assert!(transaction.get("utxo", output)?.is_none());
    transaction.commit()?;
    Ok(true)
}

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (path, copy) = (folder.path().join("db"), folder.path().join("checkpoint"));
    let (session, tables) = open(&path)?;

    // A batch over two tables: one record of the log.
    let (mut utxo, mut blocks) = (Batch::new(), Batch::new());
    for number in 0..100_u8 {
        utxo.insert(&[b't', number], &[number]);
    }
    blocks.insert(&0_u32.to_be_bytes(), b"genesis");
    tables.commit(&[("utxo", &utxo), ("blocks", &blocks)])?;

    // Writers come one after the other; readers wait for nobody, and see both tables at one moment.
    let before = tables.views();
    std::thread::scope(|scope| -> Result<()> {
        for thread in 0..4_u8 {
            let tables = tables.clone();
            scope.spawn(move || {
                for number in (thread * 5..).take(5) {
                    let spent = spend(&tables, &[b't', number], 1 + u32::from(number));
                    assert!(spent.expect("the disk works"), "nobody else spends it");
                }
            });
        }
        let tables = tables.clone();
        let reader = scope.spawn(move || -> Result<()> {
            for _ in 0..20 {
                let now = tables.views();
                let blocks = now.get("blocks")?.count()? - 1;
                let keys = now.get("utxo")?.iter().keys().collect::<Result<Vec<_>>>()?;
                let spent = keys.iter().filter(|key| key.len() == 3).count();
                assert_eq!(spent as u64, blocks);
            }
            Ok(())
        });
        reader.join().expect("it does not panic")
    })?;
    assert!(before.get("utxo")?.get(b"t\x00")?.is_some(), "a moment stays as it was");

    // Iterators: `IteratorMode::From` in both directions, a prefix, and many keys at once.
    let last = tables.range("blocks", ..)?.next_back().expect("there are some")?;
    let from: Vec<_> = tables.range("utxo", b"t\x61"..)?.collect::<Result<_>>()?;
    let back = tables.range("utxo", ..=b"t\x61")?.next_back().expect("there are some")?;
    assert!(last.0 == 20_u32.to_be_bytes() && from.len() == 3 && back.0 == b"t\x61");
    let prefixed = tables.prefix("utxo", b"t\x00")?.count();
    let found = tables.lookup("utxo", &[&b"t\x00"[..], b"t\x00'"])?;
    assert!(prefixed == 1 && found.get(0).is_none() && found.get(1) == Some(&[0]));

    // A checkpoint: files are linked, and the copy is a store of its own.
    let target: Arc<dyn Disk> = OsDisk::create(&copy)?;
    session.backup(&target, Verify::Quick)?;
    tables.commit(&[("utxo", Batch::new().delete_prefix(b"t"))])?;
    drop((before, tables, session)); // the process ends, without a close

    let (_session, tables) = open(&path)?;
    let (_copy, copied) = open(&copy)?;
    let (here, there) = (tables.view("utxo")?.count()?, copied.view("utxo")?.count()?);
    assert_eq!((here, there), (0, 100));
    println!("after reopening: {here} outputs here, {there} in the checkpoint");
    Ok(())
}
