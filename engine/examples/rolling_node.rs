//! A node that keeps the newest state, the states of its last few epochs, and nothing older.
//!
//! The state is a live table, durable with each block. At the end of an epoch a snapshot keeps it, and the oldest one
//! goes, with the space that only it took. Another process answers questions about any epoch that is there.
//!
//! Run it with `cargo run --example rolling_node`.

use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, Log, OpenSnapshot, Result, Session, SessionOptions, SnapshotContent, Table, TableOptions,
};

const BLOCKS_OF_AN_EPOCH: u64 = 20;
const EPOCHS_KEPT: u64 = 3;
const ACCOUNTS: u64 = 2_000;

fn name_of(epoch: u64) -> String {
    format!("epoch-{epoch:06}")
}

/// What a block does: some accounts have another balance.
fn changes(height: u64) -> Batch {
    let mut batch = Batch::new();
    for number in 0..200 {
        let account = (height * 37 + number * 11) % ACCOUNTS;
        batch.insert(&account.to_be_bytes(), &[&height.to_le_bytes()[..], &[0; 92]].concat());
    }
    batch
}

/// Keeps the state at the end of `epoch`, and forgets the oldest one.
fn end_epoch(session: &Session, state: &Table, epoch: u64) -> Result<()> {
    let content =
        SnapshotContent { label: "balances 1", payload: &epoch.to_le_bytes(), tables: &[state] };
    session.save_snapshot(&name_of(epoch), content)?;
    // Those before it too, should the node have died between the two.
    for old in session.list_snapshots()? {
        if old.name < name_of((epoch + 1).saturating_sub(EPOCHS_KEPT)) {
            session.delete_snapshot(&old.name)?;
        }
    }
    Ok(())
}

/// What another process answers: the block that changed `account` last, at the end of each epoch that is there.
fn history(disk: &std::sync::Arc<MemoryDisk>, account: u64) -> Result<Vec<(String, Option<u64>)>> {
    let disk = std::sync::Arc::<MemoryDisk>::clone(disk);
    let reader = Session::open_read_only(disk, SessionOptions::default())?;
    let mut answers = Vec::new();
    for info in reader.list_snapshots()? {
        let mut snapshot = reader.open_snapshot(&info.name, &OpenSnapshot::default())?;
        let balance = snapshot.take("balances")?.get(&account.to_be_bytes())?;
        let block = balance.and_then(|it| it.first_chunk().copied().map(u64::from_le_bytes));
        answers.push((info.name, block));
    }
    Ok(answers)
}

fn main() -> Result<()> {
    let disk = MemoryDisk::seeded(1);
    let options =
        SessionOptions { log: Log::Synced, log_file_bytes: 1 << 20, ..SessionOptions::default() };
    let session = Session::create(disk.clone(), options)?;
    let small = TableOptions { write_buffer_bytes: 64 << 10, ..TableOptions::default() };
    let mut state = session.create_table("balances", small)?;

    let mut bytes = Vec::new();
    for height in 1..=40 * BLOCKS_OF_AN_EPOCH {
        state.update(&changes(height))?;
        if height % BLOCKS_OF_AN_EPOCH == 0 {
            end_epoch(&session, &state, height / BLOCKS_OF_AN_EPOCH)?;
            bytes.push(disk.total_bytes());
        }
    }
    let names: Vec<_> = session.list_snapshots()?.into_iter().map(|info| info.name).collect();
    assert_eq!(names, [name_of(38), name_of(39), name_of(40)]);

    // What is on disk does not grow with the chain.
    let (early, late) = (bytes[..20].iter().max(), bytes[20..].iter().max());
    println!("most bytes on disk: {early:?} in the first 20 epochs, {late:?} in the last 20");
    assert!(late.zip(early).is_some_and(|(late, early)| *late < 2 * early));

    let answers = history(&disk, 11)?;
    for (name, block) in &answers {
        println!("{name}: account 11 was changed last by block {block:?}");
    }
    assert!(answers.len() == 3 && answers.windows(2).all(|two| two[0].1 <= two[1].1));
    Ok(())
}
