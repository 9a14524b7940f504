//! What holds for one command holds for its siblings, and what a message advises does on that very store what was wished.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::binary::{Ran, fed, run};
use crate::exits::{World, damage_pages, flip};

/// The line with what the names of `world` stand for.
fn on(world: &World, line: &str) -> Ran {
    let arguments = world.arguments(line);
    crate::binary::varvite(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_new_branch_is_not_refused_because_of_commits_that_cannot_be_read() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    archive(folder);
    // Whether a hash begins so is not known then, and that is what is said.
    for line in ["context branch set n cafe main", "context put n beef x y"] {
        let said = run(folder, line).error(2, &["--lower", "begins with"]);
        assert!(!said.contains("cannot be called"), "{said}");
    }
    run(folder, "context branch set n cafe main --lower low").yes();
    run(folder, "context branch set n plain main").yes();
    let context = history(folder);
    damage_third(&context);
    let said = run(folder, "context branch set ce cafe main").error(3, &["damaged"]);
    assert!(!said.contains("cannot be called"), "{said}");
}

/// A context `n` whose first commit is in the lower folder `low`.
fn archive(folder: &Path) {
    run(folder, "context create n").yes();
    run(folder, "context put n main a 1 --message first").yes();
    run(folder, "context archive n --lower low --end-chunk").yes();
    run(folder, "context put n main a 2 --message second").yes();
    run(folder, "context archive n --lower low").yes();
    let _ = fs::remove_file(folder.join("n/0000-000000-1.pack"));
}

/// A context `ce` of five commits; its only chunk.
fn history(folder: &Path) -> std::path::PathBuf {
    run(folder, "context create ce").yes();
    for number in 1..=5 {
        run(folder, &format!("context put ce main a {number} --message message-{number}")).yes();
    }
    folder.join("ce/0000-000000.pack")
}

/// Damages the record of the third commit.
fn damage_third(chunk: &Path) {
    let bytes = fs::read(chunk).unwrap();
    let at = bytes.windows(9).position(|window| window == b"message-3").unwrap();
    flip(chunk, at);
}

#[test]
fn a_log_of_a_branch_lists_what_it_can() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    damage_third(&history(folder));
    for line in [
        "context log ce",
        "context log ce --branch main",
        "context log ce --branch main --since 2000-01-01",
    ] {
        let ran = run(folder, line);
        assert!(ran.code == 3 && ran.out.contains("message-5"), "{line}: {ran:?}");
        assert!(ran.out.contains("message-4") && ran.err.contains("damaged"), "{line}: {ran:?}");
    }
    archive(folder);
    for line in ["context log n", "context log n --limit 2", "context log n --branch main"] {
        let ran = run(folder, line);
        assert!(ran.code == 2 && ran.out.contains("second"), "{line}: {ran:?}");
        assert!(ran.err.contains("lower folder"), "{line}: {ran:?}");
    }
}

#[test]
fn a_range_without_keys_is_no_change() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a b --create").yes();
    let ran = run(folder, "table delete-range S t --first x --last z");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.out, "table t has no key in that range; nothing is saved\n");
    let said = run(folder, "table delete-range S t --prefix x --format json").value(1);
    assert!(said["found"] == false && said["snapshot"].is_null(), "{said}");
    assert!(run(folder, "table snapshot list S").yes().contains("head-0000000001"));
    let said = run(folder, "table delete-range S t --all --format json").json();
    assert!(said["found"] == true && said["snapshot"] == "head-0000000002", "{said}");
}

#[test]
fn damage_in_a_range_can_be_deleted() {
    let world = World::new();
    damage_pages(&world);
    assert_eq!(on(&world, "table scan STORE t").code, 3);
    let ran = on(&world, "table delete-range STORE t --all");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(on(&world, "table scan STORE t").yes(), "");
}

#[test]
fn a_table_that_is_to_become_live_again_does_so_as_is_advised() {
    for line in [
        "table create T t --live",
        "table load T t dump --live",
        "table put T t c d --live",
        "table get T t a --live",
        "table scan T t --live",
        "table count T t --live",
        "table follow T t a --changes 0",
    ] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        fs::write(folder.join("dump"), "{\"key\":\"k\",\"value\":\"v\"}\n").unwrap();
        run(folder, "table put T t a b --create").yes();
        let said = run(folder, line).error(2, &["there is no live table \"t\""]);
        let advised = said.split('`').find_map(|part| part.strip_prefix("varvite "));
        let words: Vec<_> = advised.unwrap_or_else(|| panic!("{said}")).split(' ').collect();
        let flags = words[2..].iter().map(|flag| format!(" {flag}")).collect::<String>();
        run(folder, &format!("{} {} T head-0000000001 t{flags}", words[0], words[1])).yes();
        let listed = run(folder, "table list T --format json").json();
        assert_eq!(listed["live"], true, "{line}: {said}");
        assert_eq!(run(folder, "table get T t a --live").yes(), "b\n", "{line}");
    }
}

#[test]
fn loads_advise_only_what_they_take() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    fs::write(folder.join("dump"), "{\"key\":\"k\",\"value\":\"v\"}\n").unwrap();
    let said = run(folder, "table load none t dump --into").error(2, &["none does not exist"]);
    assert!(!said.contains("--create"), "{said}");
    run(folder, "table load none t dump").error(2, &["--create makes a store"]);
    run(folder, "table load none t dump --create").yes();
    for (flags, rest) in [
        ("", ""),
        (" --sort", " and without --sort"),
        (" --sort --create --operator max", " and without --sort, --create and --operator"),
        (
            " --mostly-hit --blob-min 9 --compression lz4",
            " and without --mostly-hit, --blob-min and --compression",
        ),
    ] {
        let said = run(folder, &format!("table load none t dump{flags}")).error(2, &["--into"]);
        assert!(said.trim_end().ends_with(&format!("add to it with --into{rest}")), "{said}");
    }
    run(folder, "table load none t dump --into").yes();
}

#[test]
fn no_command_makes_a_twin_of_what_a_head_has() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put L t a b --create").yes();
    run(folder, "table put L u a b").yes();
    run(folder, "table create L w --live").yes();
    run(folder, "table put L w x y").yes();
    for line in ["table create L t", "table rename L w t", "table union L t w", "table put L t a c"]
    {
        run(folder, line).error(2, &["no live table \"t\"", "head-0000000002"]);
        assert_eq!(run(folder, "table list L --format csv").yes().lines().count(), 2, "{line}");
    }
    run(folder, "table rename L w v").yes();
    let said = run(folder, "table union L both v --format json").json();
    assert!(said["name"] == "both" && said["outcome"] == "united", "{said}");
    run(folder, "table restore L head-0000000002").yes();
    assert_eq!(run(folder, "table get L t a").yes(), "b\n");
}

#[test]
fn every_command_that_reads_a_range_says_how_far_it_came() {
    let world = World::new();
    damage_pages(&world);
    for line in [
        "table scan STORE t",
        "table scan STORE t --reverse",
        "table count STORE t",
        "table stat STORE t --exact",
    ] {
        let said = on(&world, line);
        assert_eq!(said.code, 3, "{said:?}");
        let before =
            said.err.split("entries before it: ").nth(1).unwrap_or_else(|| panic!("{said:?}"));
        let count: usize = before.split(' ').next().unwrap().parse().unwrap();
        assert!(before.contains(" of 5000 in the table"), "{said:?}");
        if line.contains("scan") {
            assert_eq!(said.out.lines().count(), count, "{line}");
            let last = said.out.lines().last().and_then(|line| line.split('\t').next());
            let last = last.map_or(String::new(), |key| format!("the last one {key}"));
            assert!(said.err.contains(&last) && said.err.contains("--skip-damaged"), "{said:?}");
        }
    }
    assert!(
        on(&world, "table scan STORE t --reverse")
            .err
            .contains("without --reverse, --skip-damaged")
    );
    for (line, is_whole) in [
        ("table scan STORE t --skip-damaged", true),
        ("table scan STORE t --skip-damaged --limit 9999", true),
        ("table scan STORE t --skip-damaged --limit 4000", false),
        ("table scan STORE t --skip-damaged --first k", false),
    ] {
        let ran = on(&world, line);
        let printed = ran.out.lines().count();
        let told = format!("{printed} entries printed");
        assert!(ran.code == 3 && ran.err.contains(&told), "{line}: {}", ran.err);
        let missing = format!("; {} are missing", 5000 - printed);
        assert_eq!(ran.err.contains(&missing), is_whole, "{line}: {}", ran.err);
    }
}

#[test]
fn every_walk_of_a_context_says_how_far_it_came() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create c").yes();
    run(folder, "context put c main z/y before").yes();
    for name in ["a", "b", "c", "d", "e"] {
        run(folder, &format!("context put c main {name}/v {}", name.repeat(300))).yes();
    }
    let chunk = folder.join("c/0000-000000.pack");
    let bytes = fs::read(&chunk).unwrap();
    let value = bytes.windows(200).position(|window| window.iter().all(|byte| *byte == b'd'));
    flip(&chunk, value.unwrap() + 100);
    for (line, lines, told) in [
        ("context dump c main", 3, "values before it: 3; --skip-damaged goes on after it"),
        ("context tree c main", 7, "directories and values before it: 7"),
        ("context du c main", 3, "children before it: 3"),
        ("context diff c main~5 main", 3, "differences before it: 3"),
    ] {
        let ran = run(folder, line);
        assert_eq!((ran.code, ran.out.lines().count()), (3, lines), "{line}: {ran:?}");
        assert!(ran.err.trim_end().ends_with(told), "{line}: {}", ran.err);
        if !line.contains("dump") {
            assert_eq!(run(folder, &format!("{line} --format json")).code, 3, "{line}");
        }
    }
    let rest = run(folder, "context dump c main --skip-damaged");
    assert_eq!((rest.code, rest.out.lines().count()), (3, 5), "{rest:?}");
    assert!(
        rest.err.contains("left out: d/v: ")
            && rest.err.contains("1 place left out, and 5 values printed; "),
        "{rest:?}"
    );
    let advice = "restore it from";
    assert!(!rest.err.contains(advice), "once is enough, at the end: {rest:?}");
    let loaded = fed(folder, "context load c rest", rest.out.as_bytes());
    assert!(loaded.code == 2 || loaded.code == 0, "{loaded:?}");
    for format in ["json", "jsonl"] {
        let rest = run(folder, &format!("context dump c main --skip-damaged --format {format}"));
        let last: serde_json::Value =
            serde_json::from_str(rest.out.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["varvite"]["exit_code"], &last["error"]["kind"]),
            (&3.into(), &"corrupt".into())
        );
    }
    // Any piece of the store that is damaged: what is left out and what is printed are all that there was.
    let whole = run(folder, "context dump c main~2").yes();
    let bytes = fs::read(&chunk).unwrap();
    for at in (100..bytes.len()).step_by(bytes.len() / 40) {
        flip(&chunk, at);
        let rest = run(folder, "context dump c main~2 --skip-damaged");
        assert!(matches!(rest.code, 0 | 3), "{at}: {rest:?}");
        let lines = rest.out.lines().filter(|line| whole.contains(line)).count();
        assert_eq!(lines, rest.out.lines().count(), "{at}: {rest:?}");
        assert_eq!(rest.code == 0, lines == whole.lines().count(), "{at}: {rest:?}");
        flip(&chunk, at);
    }
}

#[test]
fn a_number_is_told_in_the_right_form_however_it_comes() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let five = "give 5 as \\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00";
    fs::write(folder.join("lines"), "x\t5\n").unwrap();
    fs::write(folder.join("dump"), "{\"key\":\"x\",\"value\":\"5\"}\n").unwrap();
    fs::write(folder.join("five"), "5").unwrap();
    fs::write(folder.join("long"), "5".repeat(100)).unwrap();
    let create = "--create --operator add-u64";
    run(folder, &format!("table create S n {create}")).yes();
    for line in [
        "table put S n x 5".to_owned(),
        "table put S n --from lines".to_owned(),
        "table put S n --files x five".to_owned(),
        "table load S n dump --into".to_owned(),
        format!("table load NEW n dump {create}"),
    ] {
        run(folder, &line).error(2, &["table n adds numbers of 8 bytes", five]);
    }
    run(folder, "table put S n 78 05 --hex").error(2, &["give 0x05 as 0500000000000000"]);
    run(folder, "table put S n 78 0100 --hex").error(2, &["give 0x0100 as 0001000000000000"]);
    run(folder, "table load S n dump --compression none")
        .error(2, &["--into and without --compression"]);
    run(folder, "table put S n x five").error(2, &["\"five\" is none: \\x01\\x00", "is 1"]);
    run(folder, "table put S n --files x long").error(2, &["5…\" is none"]);
}

/// The log of live tables and their checkpoint are no part of a snapshot.
#[test]
fn a_snapshot_is_sound_beside_a_damaged_log() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a 1 --create --live").yes();
    run(folder, "table snapshot create S kept --live").yes();
    run(folder, "table put S t b 2").yes();
    let logs = fs::read_dir(folder.join("S/log")).unwrap().map(|it| it.unwrap().path());
    for file in logs.chain([folder.join("S/checkpoint")]) {
        flip(&file, 20);
    }
    assert_eq!(run(folder, "check S").code, 3);
    assert_eq!(run(folder, "table snapshot verify S kept").yes(), "snapshot kept: sound\n");
    assert_eq!(run(folder, "table get S t a --snapshot kept").yes(), "1\n");
}

#[test]
fn a_snapshot_is_verified_to_its_end() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for table in ["t", "u"] {
        let lines: String = (0..3_000).map(|n| format!("k{n:05}\t{n}\n")).collect();
        fs::write(folder.join("lines"), lines).unwrap();
        run(folder, &format!("table put S {table} --from lines --create")).yes();
    }
    run(folder, "table snapshot create S kept").yes();
    assert_eq!(run(folder, "table snapshot verify S kept").yes(), "snapshot kept: sound\n");
    let said = run(folder, "table snapshot verify S kept --format json").json();
    assert!(said["sound"] == true && said["findings"].as_array().unwrap().is_empty(), "{said}");
    let segments: Vec<_> = fs::read_dir(folder.join("S/segments")).unwrap().collect();
    let mut damaged = 0;
    for segment in segments {
        let path = segment.unwrap().path();
        if fs::metadata(&path).unwrap().len() > 9_000 {
            flip(&path, 5_000);
            damaged += 1;
        }
    }
    assert_eq!(damaged, 2);
    let ran = run(folder, "table snapshot verify S kept");
    assert!(ran.code == 3 && ran.err.is_empty(), "{ran:?}");
    assert_eq!(ran.out.matches("is damaged at byte").count(), damaged, "{ran:?}");
    assert!(ran.out.contains("snapshot kept: 2 findings\n"), "{ran:?}");
    assert!(ran.out.contains("varvite repair S OUT makes"), "{ran:?}");
    let said = run(folder, "table snapshot verify S kept --format json").value(3);
    assert!(
        said["sound"] == false && said["findings"].as_array().unwrap().len() == damaged,
        "{said}"
    );
}
