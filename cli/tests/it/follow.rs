use std::io::{BufRead, BufReader};
use std::process::Stdio;

use tempfile::TempDir;
use varvite::disk::os::OsDisk;
use varvite::{Batch, Log, Session, SessionOptions, TableOptions};

use crate::binary::{command, text, varvite};

/// Two processes on one folder: one updates, the other prints what it finds, which is one moment each time.
#[test]
fn values_of_a_live_table_are_printed_as_another_process_updates_it() {
    let folder = TempDir::new().unwrap();
    let dir = text(folder.path());
    let options =
        SessionOptions { log: Log::Synced, log_file_bytes: 5_000, ..SessionOptions::default() };
    let session = Session::create(OsDisk::new(folder.path()).unwrap(), options).unwrap();
    let table_options = TableOptions { write_buffer_bytes: 2_000, ..TableOptions::default() };
    let mut table = session.create_table("t", table_options).unwrap();
    table.update(Batch::new().insert(b"first", b"0").insert(b"last", b"0")).unwrap();

    let arguments = ["table", "follow", dir, "t", "first", "last", "gone", "--format", "json"];
    let more = ["--every-ms", "1", "--changes", "6"];
    let mut child = command(&[&arguments[..], &more].concat());
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let mut record: serde_json::Value =
            serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        // Both notations of the bytes are shown elsewhere to be right.
        record.as_object_mut().unwrap().retain(|name, _| ["key", "value"].contains(&&**name));
        record
    };
    let of = |key: &str, value: Option<&str>| serde_json::json!({ "key": key, "value": value });
    assert_eq!((next(), next()), (of("first", Some("0")), of("last", Some("0"))));
    assert_eq!(next(), of("gone", None));
    let mut before = 0;
    for round in 1..=6_u32 {
        // Each round fills log files, so that checkpoints come and files go beside the follower.
        let least = before + 1;
        for number in least..least + 100 {
            let value = number.to_string();
            let mut batch = Batch::new();
            batch.delete_prefix(b"k").insert(format!("k{number}").as_bytes(), &[7; 90]);
            if number == least {
                batch.insert(b"first", value.as_bytes()).insert(b"last", value.as_bytes());
            }
            table.update(&batch).unwrap();
        }
        let value = least.to_string();
        assert_eq!(
            (next(), next()),
            (of("first", Some(&value)), of("last", Some(&value))),
            "{round}"
        );
        before += 100;
    }
    assert!(child.wait().unwrap().success());
    varvite(&["table", "follow", dir, "other", "k"]).error(2, &["\"other\"", "t"]);
    session.delete_table("t").unwrap_err();
    drop(table);
    session.close().unwrap();
}
