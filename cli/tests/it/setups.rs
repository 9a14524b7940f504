//! Stores that several tests begin with.

use std::path::Path;

use varvite::disk::os::OsDisk;
use varvite::{Batch, Log, Session, SessionOptions, SnapshotContent, TableOptions};

use crate::binary::run;

/// A context with two commits of the branch main, which put 1 and then 2 at `a`; the first of them is in the folder `lower`.
pub fn archive(folder: &Path, store: &str, lower: &str) {
    run(folder, &format!("context create {store}")).yes();
    for (value, more) in [(1, " --end-chunk"), (2, "")] {
        let put = format!("context put {store} main a {value} --date 2026-01-0{value}");
        run(folder, &put).yes();
        run(folder, &format!("context archive {store} --lower {lower}{more}")).yes();
    }
}

/// A store with a table t, which has the value "value" at k, and snapshots `names` of it; with a log it is live.
pub fn tables(folder: &Path, log: Log, names: &[&str]) {
    let options = SessionOptions { log, ..SessionOptions::default() };
    let session = Session::create(OsDisk::create(folder).unwrap(), options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    table.update(Batch::new().insert(b"k", b"value")).unwrap();
    for name in names {
        let content = SnapshotContent { tables: &[&table], label: "l", payload: b"" };
        session.save_snapshot(name, content).unwrap();
    }
    drop(table);
    session.close().unwrap();
}
