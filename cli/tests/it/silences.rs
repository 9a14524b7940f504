//! What commands did or found without a word: another state of a store, half of a load, half of a copy, commits that
//! cannot be listed, stores of which a part is elsewhere.

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::binary::{finish, run, text, varvite};
use crate::exits::{World, flip};

#[test]
fn what_leaves_the_state_when_a_table_becomes_live_is_told() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put L t a 1 --create").yes();
    run(folder, "table put L u b 2").yes();
    fs::write(folder.join("empty"), "").unwrap();
    // An input without entries changes nothing, the state of the store least of all.
    assert_eq!(
        run(folder, "table put L n --from empty --live").yes(),
        "0 keys put; nothing is saved\n"
    );
    assert!(run(folder, "table load L n empty --live").yes().ends_with("; nothing is saved\n"));
    assert_eq!(run(folder, "table get L t a").yes(), "1\n");
    assert!(run(folder, "table put L t a 1").yes().ends_with("head-0000000003\n"));
    let said = run(folder, "table put L n x y --live").yes();
    assert!(
        said.starts_with("1 key put; saved in the log; tables t, u of head-0000000003 "),
        "{said}"
    );
    assert!(said.contains("`varvite table restore`"), "{said}");
    run(folder, "table restore L head-0000000003").yes();
    assert_eq!(run(folder, "table get L u b").yes(), "2\n");
    // What is taken from the state itself has not left it.
    run(folder, "table put M t a 1 --create").yes();
    run(folder, "table put M u b 2").yes();
    let restore = "table restore M head-0000000002 t --live --format json";
    let left = json!({ "snapshot": "head-0000000002", "tables": ["u"] });
    assert_eq!(run(folder, restore).json()["left"], left);
    run(folder, "table put N t a 1 --create").yes();
    let said = run(folder, "table restore N head-0000000001 --live").yes();
    assert_eq!(said, "head-0000000001: 1 table restored; saved in the log\n");
}

#[test]
fn the_newest_state_is_not_deleted_as_a_snapshot() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a 1 --create").yes();
    run(folder, "table snapshot create S kept").yes();
    run(folder, "table put S t a 2").yes();
    run(folder, "table snapshot delete S head-0000000002").error(2, &["newest state"]);
    assert_eq!(run(folder, "table get S t a").yes(), "2\n");
    run(folder, "table snapshot delete S kept").yes();
}

#[test]
fn half_of_a_load_is_told_with_the_line_that_ended_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let one = "\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00";
    let key = |n: u32| format!("{n:05}{}", "k".repeat(2_000));
    let good: String = (0..3_000).map(|n| format!("{}\t{one}\n", key(n))).collect();
    fs::write(folder.join("lines"), format!("{good}x\t123\n")).unwrap();
    run(folder, &format!("table put N n x {one} --operator add-u64 --create --live")).yes();
    run(folder, "table put N n --from lines").error(
        2,
        &["after ", " entries, which stay: lines, line 3001: table n adds numbers of 8 bytes"],
    );
    let escaped = one.replace('\\', "\\\\");
    let line = |key: &str, value: &str| format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}\n");
    let good: String = (0..3_000).map(|n| line(&key(n), &escaped)).collect();
    let long = "k".repeat(70_000);
    for (bad, what) in [(line("x", "123"), "8 bytes"), (line(&long, &escaped), "70000 bytes")] {
        fs::write(folder.join("dump"), good.clone() + &bad).unwrap();
        run(folder, "table load N n dump --into")
            .error(2, &["after ", " entries, which stay: dump, line 3001: ", what]);
    }
    fs::write(folder.join("dump"), line("a", &escaped) + &line("x", "123")).unwrap();
    run(folder, "table load N m dump --operator add-u64").error(2, &["dump, line 2: ", "8 bytes"]);
    fs::write(folder.join("csv"), "key,value\na,1\nx,123\n").unwrap();
    run(folder, "table load N n csv --into").error(2, &["csv, line 2: ", "8 bytes"]);
}

/// What is in a folder, for a message.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(unix)]
#[test]
fn a_copy_that_fails_leaves_no_part_of_a_store() {
    let world = World::new();
    let program = env!("CARGO_BIN_EXE_varvite");
    let limited = |line: &str| {
        let script = format!("ulimit -f 0; exec {program} {}", world.arguments(line).join(" "));
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script]);
        finish(command)
    };
    for line in [
        "table snapshot export STORE kept OUT",
        "backup LIVE OUT",
        "repair STORE OUT",
        "repair CONTEXT OUT",
    ] {
        limited(line).ended(2);
        assert!(!world.path("OUT").exists(), "{line}: {:?}", names(&world.path("OUT")));
        // An empty folder that was there stays, and what was in one.
        fs::create_dir(world.path("OUT")).unwrap();
        limited(line).ended(2);
        assert_eq!(names(&world.path("OUT")), Vec::<String>::new(), "{line}");
        fs::write(world.path("OUT/lock"), "").unwrap();
        limited(line).ended(2);
        assert!(world.path("OUT/lock").exists(), "{line}");
        fs::remove_dir_all(world.path("OUT")).unwrap();
    }
}

#[test]
fn what_is_only_being_made_is_no_damaged_store() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a 1 --create").yes();
    // As an export leaves it that is killed.
    fs::rename(folder.join("S/session"), folder.join("S/session.tmp")).unwrap();
    fs::write(folder.join("S/half-copied.tmp"), "").unwrap();
    run(folder, "info S").error(2, &["make it again"]);
}

/// An archive `node` with five commits, of which the folder `below` has the old ones.
fn archive(folder: &Path) {
    run(folder, "context create node").yes();
    for number in 1..=5 {
        let lower = if number == 1 { "" } else { " --lower below" };
        let value = "v".repeat(number);
        run(folder, &format!("context put node main accounts/a {value}{lower}")).yes();
        run(folder, "context archive node --lower below --end-chunk").yes();
    }
}

#[test]
fn an_archive_without_its_lower_folder_and_the_folder_itself_are_what_they_are() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    archive(folder);
    for line in ["collect status node", "collect pause node", "collect resume node"] {
        let said = run(folder, &format!("context {line} --format json")).json();
        assert_eq!(said["kept_commits"], 5, "{line}: {said}");
    }
    let info = run(folder, "info node --format json").json();
    assert_eq!(info["commits"], 5, "{info}");
    assert!(info["archived_bytes"].as_u64() > Some(0), "{info}");
    run(folder, "check node").error(2, &["--lower"]);
    run(folder, "check node --lower below").yes();
    let report = run(folder, "doctor node --lower below").json();
    let hidden = text(&folder.canonicalize().unwrap()).to_owned();
    assert!(!report.to_string().contains(&hidden), "{report}");
    assert_eq!(report["commands"]["check"]["answer"]["sound"], true, "{report}");
    // The folder alone is a history, and every command that only looks takes it.
    let info = run(folder, "info below --format json").json();
    assert_eq!((&info["kind"], &info["damage"]), (&json!("lower"), &json!(null)), "{info}");
    run(folder, "check below").yes();
    let report = run(folder, "doctor below").json();
    assert_eq!(report["commands"]["check"]["answer"]["sound"], true, "{report}");
    run(folder, "table list below").error(2, &["holds a context"]);
    run(folder, "table put S t a 1 --create").yes();
    run(folder, "check S --lower below").error(2, &["holds no context"]);
}

#[test]
fn a_collection_that_cannot_begin_has_not_begun() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    let message = "m".repeat(300);
    run(folder, "context put C main a 1").yes();
    run(folder, &format!("context put C main a 2 --message {message}")).yes();
    run(folder, "context put C main a 3").yes();
    let pack = folder.join("C/0000-000000.pack");
    let bytes = fs::read(&pack).unwrap();
    let at = bytes.windows(200).position(|window| window.iter().all(|byte| *byte == b'm'));
    flip(&pack, at.unwrap() + 50);
    // What is newer is listed all the same.
    assert_eq!(run(folder, "context log C").ended(3).lines().count(), 1);
    let records = run(folder, "context log C --format json").value(3);
    assert!(records[0]["hash"].is_string() && records[1]["error"].is_object(), "{records}");
    let ran = run(folder, "context collect run C --keep 1");
    assert_eq!(ran.code, 3, "{ran:?}");
    let status = run(folder, "context collect status C --format json").json();
    assert_eq!(status["phase"], "none", "{status}");
}

#[test]
fn the_shape_of_a_store_of_irmin_can_be_told_to_every_check() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C --binary").yes();
    for name in ["a", "b", "c", "d", "e"] {
        run(folder, &format!("context put C main d/{name} 1")).yes();
    }
    run(folder, "context export-irmin C I").yes();
    let ran = run(folder, "check I");
    assert!(ran.code == 3 && ran.out.contains("say so with --shape and --hash-bits"), "{ran:?}");
    run(folder, "check I --shape 2,2 --hash-bits").yes();
    let report = run(folder, "doctor I --shape 2,2 --hash-bits").json();
    assert_eq!(report["damaged"], false, "{report}");
    let part = run(folder, "context check I --shape 2,2 --hash-bits --most 1").yes();
    assert!(part.contains("I --shape 2,2 --hash-bits --most 1 --from "), "{part}");
}

#[test]
fn a_report_has_no_folder_in_hexadecimal_and_is_of_a_store() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("p")).unwrap();
    run(folder, "doctor p").error(2, &["is no store"]);
    run(folder, "table put p/S t a 1 --create").yes();
    let report = run(folder, "doctor p --quick").yes();
    let full = folder.canonicalize().unwrap();
    let hex: String = text(&full).bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(report.contains("STORE/S") && !report.contains(&hex), "{report}");
}

#[test]
fn what_changes_were_proven_to_lead_to_is_in_the_json() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    run(folder, "context put C main a/b 1").yes();
    let log = run(folder, "context log C --format json").json();
    let root = log[0]["tree_hash"].as_str().unwrap().to_owned();
    run(folder, "proof make C main a/b --put q/z 1 -o pf").yes();
    let check = format!("proof check pf --root {root} --configuration tezos a/b --put q/z 1");
    let said = run(folder, &check).yes();
    let after = said.trim_end().rsplit(' ').next().unwrap().to_owned();
    let json = run(folder, &format!("{check} --format json")).json();
    assert_eq!(json[1], json!({ "root": root, "changes": 1, "after": after }), "{json}");
    assert_eq!((&json[0]["value"], &json[0]["value_hex"]), (&json!("1"), &json!("31")), "{json}");
    assert_eq!((&json[0]["path"], &json[0]["path_hex"]), (&json!("a/b"), &json!("61/62")));
}

#[test]
fn nothing_is_made_in_a_store_that_is_read() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    run(folder, "context put C main a/b 1").yes();
    run(folder, "context export-irmin C I").yes();
    for line in [
        "context migrate I I/new",
        "context export-irmin C C/x",
        "context snapshot export C last C/0007.pack",
    ] {
        run(folder, line).error(2, &["itself", "elsewhere"]);
    }
    for made in ["I/new", "C/x", "C/x.scratch", "C/0007.pack"] {
        assert!(!folder.join(made).exists(), "{made}");
    }
    run(folder, "context archive C --lower I").error(2, &["store of Irmin"]);
    run(folder, "trace info ..").error(2, &["no name of a file"]);
    run(folder, "context merge C last main --dry-run").error(2, &["cannot be called"]);
}

#[test]
fn an_empty_input_is_no_all_clear_and_no_commit() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    fs::write(folder.join("empty"), "\n").unwrap();
    run(folder, "replay blocks empty").error(2, &["empty"]);
    run(folder, "context create C").yes();
    run(folder, "context put C main a/b 1").yes();
    let said = run(folder, "context load C main empty").yes();
    assert!(said.starts_with("main: unchanged, at Co"), "{said}");
    assert_eq!(run(folder, "context log C").yes().lines().count(), 1);
    let deep = "[".repeat(100_000);
    fs::write(folder.join("deep.json"), deep).unwrap();
    run(folder, "conformance deep.json").error(3, &["deep.json", "1000 levels"]);
}

#[test]
fn a_snapshot_is_looked_for_in_a_store_that_is_there() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a 1 --create").yes();
    fs::create_dir(folder.join("kept")).unwrap();
    run(folder, "table diff nosuch kept").error(2, &["nosuch does not exist"]);
    run(folder, "table diff S kept").error(2, &["kept is a folder", "--with"]);
}

#[test]
fn csv_of_a_list_has_the_names_of_its_columns_whatever_is_in_it() {
    let world = World::new();
    varvite(&["table", "create", text(&world.path("EMPTY")), "t", "--create"]).yes();
    varvite(&["table", "drop", text(&world.path("EMPTY")), "t"]).yes();
    for (some, none) in [
        ("table list STORE", "table list EMPTY"),
        ("table snapshot list STORE", "table snapshot list BARE"),
        ("context branch list CONTEXT", "context branch list NEW"),
        ("context pin list CONTEXT", "context pin list NEW"),
    ] {
        if !world.path("NEW").exists() {
            varvite(&["context", "create", text(&world.path("NEW"))]).yes();
            varvite(&["context", "pin", "add", text(&world.path("CONTEXT")), "main"]).yes();
            let bare = text(&world.path("BARE")).to_owned();
            varvite(&["table", "create", &bare, "t", "--create", "--live"]).yes();
        }
        let [some, none] = [some, none].map(|line| {
            let mut words = world.arguments(line);
            words.extend(["--format".to_owned(), "csv".to_owned()]);
            let out = varvite(&words.iter().map(String::as_str).collect::<Vec<_>>()).yes();
            (out.lines().next().unwrap_or_default().to_owned(), out.lines().count())
        });
        assert!(some.1 > 1 && some.0.contains(','), "{some:?}");
        assert_eq!(none, (some.0, 1));
    }
    let words = world.arguments("table follow LIVE t nope k00001 --changes 0 --format csv");
    let out = varvite(&words.iter().map(String::as_str).collect::<Vec<_>>()).yes();
    let columns = out.lines().next().unwrap_or_default();
    assert!(columns.contains("value_text,value_hex") && out.contains(",true"), "{out}");
}
