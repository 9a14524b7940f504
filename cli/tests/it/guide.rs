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

/// A page whose commands are run as they stand, in a folder of its own.
struct Page {
    name: &'static str,
    /// What the reader has before.
    before: &'static [&'static str],
    /// What stands for something of the reader's.
    stands_for: &'static [(&'static str, &'static str)],
    /// What is said somewhere.
    says: &'static str,
}

const fn page(name: &'static str, says: &'static str) -> Page {
    Page { name, before: &[], stands_for: &[], says }
}

const PAGES: [Page; 8] = [
    page("traces", "beside: mismatches\t0"),
    page("durability", "created; saved in the log"),
    page("memory", "wrong answers\t0"),
    page("context-snapshots", "outcome\timported"),
    page("rolling-nodes", "collections before\t1"),
    page("archive-nodes", "1 chunk moved to slow"),
    Page {
        name: "backup",
        before: &[
            "table put ledger utxo tx1 5 --create --live",
            "context create node",
            "context put node main a/b 1",
            "context put node main a/b 2",
            "context archive node --lower slow --end-chunk",
        ],
        stands_for: &[],
        says: "nothing was lost",
    },
    Page {
        name: "coming-from-irmin",
        before: &[
            "context create ours",
            "context put ours main data/contracts/alice 1",
            "context put ours main data/contracts/bob 2",
            "context export-irmin ours NODE/context",
        ],
        stands_for: &[("COMMIT", "last~1")],
        says: "sound: 2 commits",
    },
];

/// Runs a line of a page, and gives what it says.
fn run(line: &str, page: &Page, folder: &Path) -> (i32, String) {
    let line = line.split("  #").next().unwrap().trim_end();
    let words = line.split(' ').map(|word| {
        let known = page.stands_for.iter().find(|(name, _)| *name == word);
        known.map_or(word, |(_, meant)| meant)
    });
    let words: Vec<_> = words.collect();
    let ran = command(&words).current_dir(folder).output().unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(err, "", "{}: {line}", page.name);
    (ran.status.code().unwrap(), String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn every_command_of_other_guides_runs_as_it_stands() {
    for page in &PAGES {
        let name = page.name;
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/guide/{name}.md"));
        let guide = std::fs::read_to_string(file).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("NODE")).unwrap();
        for line in page.before {
            assert_eq!(run(line, page, folder.path()).0, 0, "{name}: {line}");
        }
        let blocks = guide.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
        let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
        assert!(lines.len() > 2, "{name}: {lines:?}");
        let mut said = String::new();
        for line in lines {
            let typed = line.strip_prefix("varvite ").unwrap();
            let (code, out) = run(typed, page, folder.path());
            // Two commits differ.
            let expected = i32::from(typed.starts_with("context diff"));
            assert_eq!(code, expected, "{name}: {line}");
            said.push_str(&out);
        }
        assert!(said.contains(page.says), "{name}: {said}");
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
