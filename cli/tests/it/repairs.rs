//! What a repair says: whether anything was lost, or only damaged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::binary::run;
use crate::exits::{World, damage_pages, flip};

/// What each commit holds, by its hash, and the branches.
fn all(folder: &Path, store: &str, lower: &str) -> (BTreeMap<String, String>, String) {
    let log = run(folder, &format!("context log {store}{lower} --format jsonl")).ended(0);
    let commits = log.lines().map(|line| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let hash = entry["hash"].as_str().unwrap().to_owned();
        let dump = run(folder, &format!("context dump {store} {hash}{lower}")).ended(0);
        (hash, dump)
    });
    let commits = commits.collect();
    (commits, run(folder, &format!("context branch list {store}{lower} --format json")).ended(0))
}

/// A flip at any place: where the verdict is that all was kept, all was, and where anything is gone it is not.
#[test]
fn a_repair_tells_damage_from_loss() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create s").yes();
    for number in 0..3 {
        run(folder, &format!("context put s main a/x{number} value{number}")).yes();
    }
    run(folder, "context archive s --lower low --keep 1 --end-chunk").yes();
    for number in 3..6 {
        run(folder, &format!("context put s main a/x{number} value{number} --lower low")).yes();
    }
    let lower = " --lower low";
    let whole = all(folder, "s", lower);
    assert_eq!(whole.0.len(), 6);
    let (mut kept, mut lost) = (0, 0);
    let files = ["s", "low"].into_iter().flat_map(|dir| {
        let names = fs::read_dir(folder.join(dir)).unwrap();
        names.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect::<Vec<_>>()
    });
    for file in files.filter(|file| file.extension().is_some_and(|it| it == "pack")) {
        let length = fs::metadata(&file).unwrap().len() as usize;
        for at in (0..length).step_by(length / 24) {
            flip(&file, at);
            let ran = run(folder, "repair s out --lower low --format json");
            if let 0 | 3 = ran.code {
                let code = ran.code;
                let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
                let is_same = all(folder, "out", "") == whole;
                let place = format!("{} at {at}: {said}", file.display());
                assert_eq!(said["all_kept"], is_same, "{place}");
                assert_eq!(code == 0, said["whole"] == true, "{place}");
                if is_same && said["whole"] == false {
                    kept += 1;
                    fs::remove_dir_all(folder.join("out")).unwrap();
                    let told = run(folder, "repair s out --lower low");
                    assert!(
                        told.out.contains("something was damaged, and all was kept"),
                        "{told:?}"
                    );
                }
                lost += u32::from(!is_same);
            }
            let _ = fs::remove_dir_all(folder.join("out"));
            flip(&file, at);
        }
    }
    assert!(kept > 2 && lost > 5, "{kept} {lost}");
}

/// Hosts that name their commits themselves have no branch.
#[test]
fn a_store_without_branches_is_told_that_all_was_kept() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create s").yes();
    for number in 0..6 {
        run(folder, &format!("context put s main a/x{number} value{number}")).yes();
    }
    run(folder, "context branch remove s main").yes();
    let whole = all(folder, "s", "");
    let mut files = fs::read_dir(folder.join("s")).unwrap().map(|entry| entry.unwrap().path());
    let chunk = files.find(|it| it.extension().is_some_and(|it| it == "pack")).unwrap();
    let length = fs::metadata(&chunk).unwrap().len() as usize;
    let mut kept = 0;
    for at in (0..length).step_by(length / 24) {
        flip(&chunk, at);
        let ran = run(folder, "repair s out --format json");
        if let 0 | 3 = ran.code {
            let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            let is_same = all(folder, "out", "").0 == whole.0;
            assert_eq!(said["all_kept"], is_same, "{at}: {said}");
            kept += u32::from(is_same && said["whole"] == false);
        }
        let _ = fs::remove_dir_all(folder.join("out"));
        flip(&chunk, at);
    }
    assert!(kept > 2, "{kept}");
}

/// Bytes of a batch that was cut off may be those of a commit that was acknowledged.
#[test]
fn a_repair_does_not_say_that_nothing_was_lost_beside_a_batch_that_is_cut_off() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create s").yes();
    run(folder, "context put s main a/x value").yes();
    let mut files = fs::read_dir(folder.join("s")).unwrap().map(|entry| entry.unwrap().path());
    let chunk = files.find(|it| it.extension().is_some_and(|it| it == "pack")).unwrap();
    let mut bytes = fs::read(&chunk).unwrap();
    bytes.extend([7; 100]);
    fs::write(&chunk, bytes).unwrap();
    let ran = run(folder, "repair s out").ended(0);
    assert!(ran.contains("behind its last batch"), "{ran}");
    assert!(ran.contains("nothing was lost up to the last batch"), "{ran}");
}

/// Keys at the edge of a range have to be read.
#[test]
fn a_range_that_ends_within_damage_says_what_can_be_done() {
    let world = World::new();
    damage_pages(&world);
    let line = "table delete-range STORE t --last k00100";
    let (code, said) = world.run(line);
    assert_eq!(code, 3, "{said}");
    for part in ["nothing is deleted", "--all", "varvite repair ", " OUT makes a new store"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(world.run("table get STORE t k04999").0, 0);
    let (code, said) = world.run("table delete-range STORE t --all");
    assert_eq!(code, 0, "{said}");
}
