//! The table in twenty lines, as in the README: run it twice.

use varvite::{Batch, Log, OpenSnapshot, Session, SessionOptions, SnapshotContent, TableOptions};

fn main() -> varvite::Result<()> {
    let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    let session = Session::open_or_create("ledger", options)?;
    let mut utxo = session.open_or_create_table("utxo", TableOptions::utxo())?;

    let mut block = Batch::new();
    block.insert(b"tx1#0", b"5 ada").insert(b"tx1#1", b"2 ada").delete(b"tx0#7");
    utxo.update(&block)?; // durable, all of it or nothing
    let before = utxo.view(); // a moment, for any number of readers
    utxo.update(Batch::new().delete(b"tx1#0"))?;
    assert_eq!(utxo.get(b"tx1#0")?, None);
    assert_eq!(before.get(b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));

    let name = format!("slot-{}", session.list_snapshots()?.len());
    let content = SnapshotContent { label: "ledger", payload: b"slot 42", tables: &[&utxo] };
    session.save_snapshot(&name, content)?;
    let mut snapshot = session.open_snapshot(&name, &OpenSnapshot::default())?;
    assert_eq!(snapshot.take("utxo")?.get(b"tx1#1")?.as_deref(), Some(&b"2 ada"[..]));
    session.close()
}
