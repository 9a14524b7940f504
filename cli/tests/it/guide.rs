//! The commands of the guides, one by one.

use std::path::Path;

use tempfile::TempDir;

use crate::binary::{command, fed, run as command_line};

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
    /// Files of the reader's, from the folder of data, if that is there.
    wants: &'static [&'static str],
    /// What stands for something of the reader's.
    stands_for: &'static [(&'static str, &'static str)],
    /// What is said somewhere.
    says: &'static str,
}

const fn page(name: &'static str, says: &'static str) -> Page {
    Page { name, before: &[], wants: &[], stands_for: &[], says }
}

const PAGES: [Page; 9] = [
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
        wants: &[],
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
        wants: &[],
        stands_for: &[("COMMIT", "last~1")],
        says: "sound: 2 commits",
    },
    Page {
        name: "context",
        before: &[],
        wants: &["small.wl.gz", "small.expect"],
        stands_for: &[("CoV…", "last~1")],
        says: "sound: ",
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
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/workloads");
        if !page.wants.is_empty() && !data.is_dir() {
            assert!(std::env::var_os("CI").is_none(), "CI needs {}", data.display());
            eprintln!("skipped: {name}, since there is no {}", data.display());
            continue;
        }
        for file in page.wants {
            std::fs::copy(data.join(file), folder.path().join(file)).unwrap();
        }
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

/// Two ways to do the same, each in a folder of its own. What gives the first its entries is no program of ours.
#[test]
fn both_loads_of_the_guide_from_other_stores_take_entries() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/coming-from.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let block = guide.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let [piped, named] = block.lines().collect::<Vec<_>>()[..] else { panic!("{block}") };
    let piped = piped.strip_prefix("mdb_dump … | your-script | varvite ").unwrap();
    let named = named.split("  #").next().unwrap().trim_end().strip_prefix("varvite ").unwrap();
    for (line, keys) in [(piped, ["a", "b"]), (named, ["b", "a"])] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        let entries = keys.map(|key| format!("{{\"key\":\"{key}\",\"value\":\"1\"}}\n")).concat();
        std::fs::write(folder.join("entries.jsonl"), &entries).unwrap();
        let ran = if line == piped {
            fed(folder, line, entries.as_bytes())
        } else {
            command_line(folder, line)
        };
        assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
        assert_eq!(command_line(folder, "table scan STORE utxo").yes(), "a\t1\nb\t1\n", "{line}");
    }
    // And the way back, of which the same page speaks.
    assert!(guide.contains("`varvite table dump STORE utxo`"), "{guide}");
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
