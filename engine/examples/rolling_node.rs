//! A node that keeps the newest state, the states of its last few epochs, and nothing older.
//!
//! The state is a live table, durable with each block. At the end of an epoch a snapshot keeps it, and the oldest one
//! goes, with the space that only it took. The node is started again now and then and goes on where it was. Another
//! process, which is this program started anew beside it, answers questions about any epoch that is there.
//!
//! Run it with `cargo run --example rolling_node`.

use std::path::Path;
use std::process::Command;

use varvite::disk::os::OsDisk;
use varvite::{
    Batch, Error, Kind, Log, OpenSnapshot, Result, Session, SessionOptions, SnapshotContent, Table,
    TableOptions,
};

const BLOCKS_OF_AN_EPOCH: u64 = 10;
const EPOCHS_KEPT: u64 = 3;
const ACCOUNTS: u64 = 2_000;

/// The key of the height, which no account has.
const HEIGHT: &[u8] = b"";

fn name_of(epoch: u64) -> String {
    format!("epoch-{epoch:06}")
}

/// What a block does: some accounts have another balance, and the height is its own.
fn changes(height: u64) -> Batch {
    let mut batch = Batch::new();
    for number in 0..200 {
        let account = (height * 37 + number * 11) % ACCOUNTS;
        batch.insert(&account.to_be_bytes(), &[&height.to_le_bytes()[..], &[0; 92]].concat());
    }
    batch.insert(HEIGHT, &height.to_le_bytes());
    batch
}

fn number(bytes: &[u8]) -> Result<u64> {
    let number = bytes.first_chunk().copied().map(u64::from_le_bytes);
    number.ok_or_else(|| Error::invalid("a number has 8 bytes"))
}

/// Keeps the state at the end of `epoch`, unless the node did so before it died, and forgets the oldest one.
fn end_epoch(session: &Session, state: &Table, epoch: u64) -> Result<()> {
    let there = session.list_snapshots()?;
    if there.iter().all(|info| info.name != name_of(epoch)) {
        let content = SnapshotContent {
            label: "balances 1",
            payload: &epoch.to_le_bytes(),
            tables: &[state],
        };
        session.save_snapshot(&name_of(epoch), content)?;
    }
    // Those before it too, should the node have died between the two.
    for old in there {
        if old.name < name_of((epoch + 1).saturating_sub(EPOCHS_KEPT)) {
            session.delete_snapshot(&old.name)?;
        }
    }
    Ok(())
}

/// The node: it goes on from the block that it has to block `last`, and ends without a word to the session. Returns how
/// many bytes were on disk after each epoch.
fn run(folder: &Path, last: u64) -> Result<Vec<u64>> {
    let options =
        SessionOptions { log: Log::Synced, log_file_bytes: 1 << 20, ..SessionOptions::default() };
    let session = Session::open_or_create(folder, options)?;
    let small = TableOptions { write_buffer_bytes: 64 << 10, ..TableOptions::default() };
    let mut state = session.open_or_create_table("balances", small)?;

    let mut height = state.get(HEIGHT)?.map_or(Ok(0), |height| number(&height))?;
    let mut bytes = Vec::new();
    loop {
        if height > 0 && height % BLOCKS_OF_AN_EPOCH == 0 {
            end_epoch(&session, &state, height / BLOCKS_OF_AN_EPOCH)?;
            bytes.push(bytes_in(folder).map_err(|error| {
                Error::new(Kind::Io, "the folder cannot be measured").with_source(error)
            })?);
        }
        if height == last {
            return Ok(bytes);
        }
        height += 1;
        state.update(&changes(height))?;
    }
}

fn bytes_in(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() { bytes_in(&entry.path())? } else { found.len() };
    }
    Ok(bytes)
}

/// The other process: it says which block changed `account` last, at the end of each epoch that is there.
fn tell_history(folder: &Path, account: u64) -> Result<()> {
    let reader = Session::open_read_only(OsDisk::new(folder)?, SessionOptions::default())?;
    for info in reader.list_snapshots()? {
        let mut snapshot = reader.open_snapshot(&info.name, &OpenSnapshot::default())?;
        let balance = snapshot.take("balances")?.get(&account.to_be_bytes())?;
        let block = balance.as_deref().map_or(Ok(0), number)?;
        println!("{} {block}", info.name);
    }
    Ok(())
}

/// What the other process says.
fn ask_history(folder: &Path) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).arg(folder).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn main() -> Result<()> {
    if let Some(folder) = std::env::args_os().nth(1) {
        return tell_history(Path::new(&folder), 11);
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("node");
    // The node starts eight times, and stops in the middle of an epoch too.
    let mut bytes = Vec::new();
    for last in [45, 100, 150, 200, 255, 300, 350, 400] {
        bytes.extend(run(&path, last)?);
    }

    // What is on disk does not grow with the chain.
    let (early, late) = bytes.split_at(bytes.len() / 2);
    let (early, late) = (early.iter().max(), late.iter().max());
    println!("most bytes on disk: {early:?} in the first half, {late:?} in the second");
    assert!(late.zip(early).is_some_and(|(late, early)| *late < 2 * early));

    let history = ask_history(&path);
    print!("account 11 was changed last by block\n{history}");
    let lines: Vec<_> = history.lines().filter_map(|line| line.split_once(' ')).collect();
    let epochs: Vec<_> = lines.iter().map(|(epoch, _)| *epoch).collect();
    assert_eq!(epochs, [name_of(38), name_of(39), name_of(40)]);
    let blocks: Vec<u64> = lines.iter().filter_map(|(_, block)| block.parse().ok()).collect();
    assert!(blocks.len() == 3 && blocks.is_sorted() && blocks[0] > 0);
    Ok(())
}
