//! The guide to operating a live store, command by command.

use std::path::Path;

use tempfile::TempDir;

use crate::binary::command;

#[test]
fn every_command_of_the_guide_to_operating_does_what_it_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/operating.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let folder = TempDir::new().unwrap();
    let mut said = String::new();
    let blocks = guide.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert!(lines.len() > 20, "{lines:?}");
    for line in lines {
        let words: Vec<_> = line.strip_prefix("varvite ").unwrap().split(' ').collect();
        let ran = command(&words).current_dir(folder.path()).output().unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!((ran.status.code(), err.as_str()), (Some(0), ""), "{line}");
        said.extend([line, "\n", std::str::from_utf8(&ran.stdout).unwrap()]);
    }
    for result in [
        "varvite table get ledger utxo tx1\n5\n",
        "varvite table scan ledger utxo --limit 10\ntx1\t5\ntx2\t7\n",
        "varvite table get ledger-restored utxo tx1\n5\n",
        "varvite table list ledger\n",
        "before-upgrade: 1 table restored; saved in the log\n",
        "varvite table dump ledger utxo --skip-damaged\n{\"key\":\"tx1\",\"value\":\"5\"}\n",
    ] {
        assert!(said.contains(result), "{result}: {said}");
    }
    let restored = said.matches("varvite table get ledger utxo tx1\n5\n").count();
    assert_eq!(restored, 2, "before the wrong value and after the restore: {said}");
}
