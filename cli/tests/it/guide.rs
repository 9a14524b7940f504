//! The commands of the guides, one by one.

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

/// Pages whose commands are run as they stand, each page in a folder of its own; with what must be said.
const PAGES: [(&str, &str); 6] = [
    ("traces", "beside: mismatches\t0"),
    ("durability", "created; saved in the log"),
    ("memory", "wrong answers\t0"),
    ("context-snapshots", "outcome\timported"),
    ("rolling-nodes", "collections before\t1"),
    ("archive-nodes", "1 chunk moved to slow"),
];

#[test]
fn every_command_of_other_guides_runs_as_it_stands() {
    for (page, result) in PAGES {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/guide/{page}.md"));
        let guide = std::fs::read_to_string(file).unwrap();
        let folder = TempDir::new().unwrap();
        let blocks = guide.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
        let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
        assert!(lines.len() > 2, "{page}: {lines:?}");
        let mut said = String::new();
        for line in lines {
            let words: Vec<_> = line.strip_prefix("varvite ").unwrap().split(' ').collect();
            let ran = command(&words).current_dir(folder.path()).output().unwrap();
            let err = String::from_utf8(ran.stderr).unwrap();
            assert_eq!((ran.status.code(), err.as_str()), (Some(0), ""), "{page}: {line}");
            said.push_str(std::str::from_utf8(&ran.stdout).unwrap());
        }
        assert!(said.contains(result), "{page}: {said}");
    }
}

/// The README leads to every page of the guide.
#[test]
fn every_page_of_the_guide_is_in_the_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let pages = std::fs::read_dir(root.join("docs/guide")).unwrap();
    for page in pages.map(|page| page.unwrap().file_name().into_string().unwrap()) {
        let is_page = Path::new(&page).extension().is_some_and(|it| it == "md");
        assert!(!is_page || readme.contains(&format!("(docs/guide/{page})")), "{page}");
    }
}
