//! What commands that fail leave behind, and whose: stores that they made, locks, files of another process; and what is
//! said of a folder that is not the right one.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::binary::{Ran, finish, on_small_volume, run};
use crate::exits::flip;
use crate::setups::archive;

/// The same where a file may have so many blocks of 512 bytes.
fn limited(folder: &Path, line: &str, blocks: u32) -> Ran {
    let program = env!("CARGO_BIN_EXE_varvite");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("ulimit -f {blocks}; exec {program} {line}")]);
    shell.current_dir(folder).stdin(Stdio::null());
    finish(shell)
}

#[test]
fn a_store_that_was_made_for_what_failed_is_not_left() {
    let lines: String = (0..20_000).map(|n| format!("k{n:06},{n:040}\n")).collect();
    for line in [
        "table put S t a b --create",
        "table put S t a b --create --live",
        "table load S t lines --create",
        "table load S t lines --create --live",
        "context create S",
    ] {
        let (mut failed, mut blocks) = (0, 0);
        loop {
            let folder = TempDir::new().unwrap();
            let folder = folder.path();
            fs::write(folder.join("lines"), format!("key,value\n{lines}")).unwrap();
            let ran = limited(folder, line, blocks);
            if ran.code == 0 {
                break;
            }
            ran.error(2, &[]);
            assert!(!folder.join("S").exists(), "{line}, files of {blocks} blocks");
            failed += 1;
            blocks = blocks + blocks / 2 + 1;
        }
        assert!(failed > 0, "{line}");
    }
}

/// Nothing is said to stay of what goes with the store that was made for it.
#[test]
fn what_goes_with_a_new_store_is_not_said_to_stay() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    // More than one update takes.
    let lines: String = (0..100_000).map(|n| format!("k{n:06}\t{n:040}\n")).collect();
    fs::write(folder.join("F"), format!("{lines}no tab\n")).unwrap();
    let ran = run(folder, "table put S t --from F --create --live");
    assert!(ran.code == 3 && !ran.err.contains("which stay"), "{ran:?}");
    assert!(!folder.join("S").exists());
    run(folder, "table put S t a b --create --live").yes();
    let ran = run(folder, "table put S t --from F");
    ran.error(3, &["entries, which stay"]);
}

/// On a volume of 16 KiB, where any step may be the one that has no room.
#[test]
fn a_full_disk_is_left_empty_and_named() {
    let mount = TempDir::new().unwrap();
    let script = r#"
        for words in "table put $1/s t a b --create" "context create $1/s"; do
            "$2" $words 2>"$1.said"; echo "code $?"; cat "$1.said"; ls "$1"
        done; rm "$1.said"
    "#;
    let Some(ran) = on_small_volume(mount.path(), "16k", script) else { return };
    assert_eq!(ran.code, 0, "{ran:?}");
    let out = ran.out;
    let lines: Vec<_> = out.lines().collect();
    let [first, said, second, other] = lines[..] else { panic!("something is left: {out}") };
    assert_eq!([first, second], ["code 2", "code 2"], "{out}");
    let volume = format!("the full volume is {}", mount.path().canonicalize().unwrap().display());
    assert!(said.contains(&volume) && other.contains(&volume), "{out}");
}

/// A store without live tables saves its state anew for every change, for which there may be no room.
#[test]
fn a_full_disk_is_told_what_gives_room() {
    let mount = TempDir::new().unwrap();
    let script = r#"
        "$2" table put "$1/s" t a b --create && "$2" table put "$1/s" u a b || exit 3
        cat /dev/zero >"$1/fill" 2>/dev/null
        "$2" table drop "$1/s" u 2>&1; echo "code $?"
        rm "$1/fill"; "$2" table snapshot create "$1/s" kept; cat /dev/zero >"$1/fill" 2>/dev/null
        "$2" table drop "$1/s" u 2>&1; echo "code $?"
        "$2" table snapshot delete "$1/s" kept; echo "code $?"
    "#;
    let Some(ran) = on_small_volume(mount.path(), "400k", script) else { return };
    assert_eq!(ran.code, 0, "{ran:?}");
    let out = ran.out;
    let told: Vec<_> = out.lines().filter(|line| line.starts_with("error: ")).collect();
    let [none, one] = told[..] else { panic!("{out}") };
    assert!(none.contains("; free some space and try again; the full volume"), "{none}");
    let advice =
        "; free some space, as by `varvite table snapshot delete`, and try again; the full";
    assert!(one.contains(advice), "{one}");
    assert!(out.ends_with("kept: deleted\ncode 0\n"), "{out}");
}

/// What a command says of which the call `name` fails when it comes for the `when`-th time; none without strace.
#[cfg(target_os = "linux")]
fn failing(folder: &Path, line: &str, name: &str, when: u32) -> Option<Ran> {
    let mut traced = std::process::Command::new("strace");
    traced.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace=?{name}")]);
    traced.args(["-e", &format!("inject=?{name}:error=EIO:when={when}")]);
    traced.arg(env!("CARGO_BIN_EXE_varvite")).args(line.split(' '));
    traced.current_dir(folder).stdin(Stdio::null());
    let mut probe = std::process::Command::new("strace");
    probe.args(["-f", "-qq", "-o", "/dev/null", "true"]);
    probe.status().is_ok_and(|status| status.success()).then(|| finish(traced))
}

#[cfg(target_os = "linux")]
#[test]
fn whatever_call_fails_once_no_store_is_left() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put H t a b --create").yes();
    run(folder, "table snapshot create H keep").yes();
    run(folder, "context create C").yes();
    run(folder, "context put C main a 1").yes();
    for line in [
        "table create o t --create",
        "table snapshot export H keep o",
        "context create o",
        "context export-irmin C o",
    ] {
        let mut failed = 0;
        for (name, most) in [("getdents64", 12), ("unlink", 6), ("unlinkat", 3)] {
            for when in 1..=most {
                let Some(ran) = failing(folder, line, name, when) else {
                    eprintln!("skipped: there is no strace, or it may not trace");
                    return;
                };
                let is_left = folder.join("o").exists();
                if ran.code == 0 {
                    assert!(is_left, "{line}, {name} {when}: {ran:?}");
                    // What lies beside is told.
                    let scratch = folder.join("o.scratch");
                    let is_told = ran.err.contains("warning: could not ");
                    assert_eq!(scratch.exists(), is_told, "{line}, {name} {when}: {ran:?}");
                    let _ = fs::remove_dir_all(scratch);
                    fs::remove_dir_all(folder.join("o")).unwrap();
                    continue;
                }
                failed += 1;
                assert!(ran.err.contains("error: "), "{line}, {name} {when}: {ran:?}");
                if is_left {
                    // Whole, and only not closed.
                    let whole = match line {
                        "table create o t --create" => {
                            run(folder, "table list o").yes().starts_with("t\t")
                        }
                        "context create o" => run(folder, "context check o").code == 0,
                        _ => false,
                    };
                    assert!(whole, "{line}, {name} {when}: {ran:?}");
                    fs::remove_dir_all(folder.join("o")).unwrap();
                    continue;
                }
                // A scratch folder may lie beside; the same again takes it away.
                run(folder, line).yes();
                fs::remove_dir_all(folder.join("o")).unwrap();
                assert!(!folder.join("o.scratch").exists(), "{line}, {name} {when}");
            }
        }
        assert!(failed > 0, "{line}");
    }
}

#[test]
fn a_load_that_does_not_begin_leaves_no_folder() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    fs::write(folder.join("T"), "mine").unwrap();
    let load = "bench context --accounts 10 --blocks 1 --deletes 0";
    for line in
        ["--dir C --lower a/LOW", "--dir a/NEW --lower a/LOW --trace T", "--dir a/NEW --trace T"]
    {
        run(folder, &format!("{load} {line}")).error(2, &[]);
        assert!(!folder.join("a").exists(), "{line}");
    }
    run(folder, "context check C").yes();
}

/// What cannot be read may be newer than what can.
#[test]
fn damage_is_no_reason_to_say_that_no_commit_is_newer() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    for (branch, date) in [("main", "2026-01-01"), ("side", "2026-02-01"), ("main", "2026-01-03")] {
        run(folder, &format!("context put C {branch} needle{branch} 1 --date {date}")).yes();
    }
    let pack = folder.join("C/0000-000000.pack");
    let bytes = fs::read(&pack).unwrap();
    // The last is that of the commit's message.
    let at = bytes.windows(10).rposition(|window| window == b"needleside").unwrap();
    flip(&pack, at);
    let ran = run(folder, "context collect run C --since 2026-01-15");
    ran.error(3, &["0000-000000.pack is damaged"]);
    flip(&pack, at);
    let line = "context collect run C --since 2026-03-01";
    run(folder, line).error(2, &["no commit is from 2026-03-01"]);
}

#[test]
fn a_folder_that_was_not_empty_gets_no_lock() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put H t a b --create").yes();
    run(folder, "table snapshot create H keep").yes();
    run(folder, "table put L t a b --create --live").yes();
    for line in ["table snapshot export H keep o", "backup L o", "repair H o"] {
        fs::create_dir_all(folder.join("o/segments")).unwrap();
        fs::write(folder.join("o/segments/mine"), "x").unwrap();
        run(folder, line).error(2, &["mine"]);
        let left: Vec<_> = fs::read_dir(folder.join("o")).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{line}: {left:?}");
        assert_eq!(fs::read(folder.join("o/segments/mine")).unwrap(), b"x");
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_nowhere_is_told_as_that() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put L t a b --create --live").yes();
    run(folder, "context create C").yes();
    std::os::unix::fs::symlink("nowhere", folder.join("o")).unwrap();
    fs::write(folder.join("f"), "").unwrap();
    for line in ["backup L o", "repair L o", "repair C o", "context export-irmin C o"] {
        run(folder, line).error(2, &["o is a link that leads nowhere"]);
    }
    run(folder, "context export-irmin C f").error(2, &["f is a file, where a folder is needed"]);
    // Nor do the folders that were made for it stay, whatever failed.
    run(folder, "context put C main a/needle 1").yes();
    let pack = folder.join("C/0000-000000.pack");
    let bytes = fs::read(&pack).unwrap();
    flip(&pack, bytes.windows(6).position(|window| window == b"needle").unwrap());
    run(folder, "context export-irmin C made/for/it").error(3, &["0000-000000.pack is damaged"]);
    assert!(!folder.join("made").exists());
    assert!(!folder.join("o.scratch").exists() && !folder.join("f.scratch").exists());
}

#[test]
fn old_commits_move_to_the_folder_that_has_the_others() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for store in ["n", "m"] {
        archive(folder, store, &format!("{store}-low"));
    }
    run(folder, "context archive n --lower n-low").yes();
    run(folder, "context archive n --lower m-low").error(2, &["belong to another store"]);
    fs::create_dir(folder.join("empty")).unwrap();
    for wrong in ["empty", "gone"] {
        let said = run(folder, &format!("context archive n --lower {wrong}"));
        said.error(2, &["0000-000000.pack was moved to another folder", wrong]);
    }
    assert!(!folder.join("gone").exists());
    // A file of another store is damage, and says nothing of the folder below.
    for name in ["0000-000001.pack", "control"] {
        let kept = fs::read(folder.join("n").join(name)).unwrap();
        fs::copy(folder.join("m").join(name), folder.join("n").join(name)).unwrap();
        for line in ["repair n OUT --lower n-low", "doctor n --lower n-low"] {
            let ran = run(folder, line);
            assert!(!ran.err.contains("give the folder"), "{name}, {line}: {ran:?}");
            let _ = fs::remove_dir_all(folder.join("OUT"));
        }
        fs::write(folder.join("n").join(name), kept).unwrap();
    }
    for line in ["repair n OUT --lower m-low", "doctor n --lower m-low"] {
        run(folder, line).error(2, &["m-low has chunks of another store: give the folder"]);
    }
    // One that has nothing below takes no other's folder either.
    run(folder, "context create new").yes();
    run(folder, "context put new main a 1").yes();
    run(folder, "context archive new --lower m-low").error(2, &["belong to another store"]);
    run(folder, "context unarchive new --lower m-low").error(2, &["belong to another store"]);
    run(folder, "context unarchive new --lower empty").yes();
}

/// A folder that is not the right one is told before anything is made of it.
#[test]
fn the_lower_folder_of_another_store_costs_nothing() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for store in ["n", "m"] {
        archive(folder, store, &format!("{store}-low"));
    }
    let said = run(folder, "context check n --rebuild-index --lower m-low");
    said.error(2, &["m-low has chunks of another store"]);
    // It needs nothing from below.
    assert_eq!(run(folder, "context get n last a").yes(), "2\n");
    run(folder, "context check n --rebuild-index --lower n-low").yes();
    for line in ["info n --lower m-low", "check n --lower m-low", "doctor n --lower m-low"] {
        run(folder, line).error(2, &["m-low has chunks of another store"]);
    }
    run(folder, "info n --lower n-low").yes();
    run(folder, "info n").yes();
    run(folder, "table put T t a b --create").yes();
    for line in ["info n --lower T", "check n --lower T", "doctor n --lower T"] {
        run(folder, line).error(2, &["T is the folder of a store"]);
    }
}

/// The chunk that is written to may be the only one that is not below.
#[test]
fn a_file_of_another_store_is_damage_to_a_check_of_an_archive() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    archive(folder, "a", "low");
    run(folder, "context create b").yes();
    run(folder, "context put b main x 1").yes();
    let own = folder.join("a/0000-000001.pack");
    let kept = fs::read(&own).unwrap();
    fs::copy(folder.join("b/0000-000000.pack"), &own).unwrap();
    for command in ["check", "context check"] {
        let said = run(folder, &format!("{command} a --lower low"));
        said.error(3, &["belongs to another store: move it out of this folder"]);
    }
    fs::write(&own, kept).unwrap();
    run(folder, "check a --lower low").yes();
}

/// What was there before a context is made stays, whoever made it.
#[test]
fn a_folder_index_is_somebodys_where_no_store_is() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create c").yes();
    run(folder, "context put c main x 1").yes();
    run(folder, "context snapshot export c last file").yes();
    run(folder, "context export-irmin c irmin").yes();
    for live in ["", " --live"] {
        run(folder, &format!("table put d/index t a b --create{live}")).yes();
        for line in [
            "context create d",
            "context snapshot import file d",
            "context migrate irmin d",
            "repair c d",
        ] {
            run(folder, line).error(2, &["it has index"]);
            assert_eq!(fs::read_dir(folder.join("d")).unwrap().count(), 1, "{line}");
        }
        assert_eq!(run(folder, "table get d/index t a").yes(), "b\n");
        fs::remove_dir_all(folder.join("d")).unwrap();
    }
}

#[test]
fn old_commits_that_are_damaged_are_no_absence() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    archive(folder, "n", "low");
    let chunk = folder.join("low/0000-000000.pack");
    flip(&chunk, 20);
    for command in ["info", "check", "context check", "context log"] {
        let ran = run(folder, &format!("{command} low"));
        let said = format!("{}{}", ran.out, ran.err);
        assert!(ran.code == 3 && said.contains("0000-000000.pack is damaged"), "{ran:?}");
    }
    let ran = run(folder, "doctor low");
    assert!(ran.code == 3 && ran.out.contains("is damaged"), "{ran:?}");
    // Two histories in one folder are none of damage, and no absence either.
    flip(&chunk, 20);
    fs::copy(&chunk, folder.join("low/0001-000000.pack")).unwrap();
    for command in ["info", "check", "context check"] {
        run(folder, &format!("{command} low")).error(2, &["which are two histories"]);
    }
}

#[test]
fn the_newest_state_can_go_where_it_is_damaged() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a 1 --create").yes();
    run(folder, "table snapshot create S kept").yes();
    run(folder, "table put S t a 2").yes();
    run(folder, "table snapshot delete S head-0000000002").error(2, &["newest state"]);
    flip(&folder.join("S/snapshots/head-0000000002.snapshot"), 60);
    assert_eq!(run(folder, "table get S t a").code, 3);
    let ran = run(folder, "table snapshot delete S head-0000000002");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(run(folder, "table get S t a").yes(), "1\n");
    assert_eq!(run(folder, "check S").code, 0);
}

#[test]
fn branches_are_listed_whose_commits_are_below() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create n").yes();
    run(folder, "context put n main a 1 --message first").yes();
    run(folder, "context branch set n old main").yes();
    run(folder, "context archive n --lower low --end-chunk").yes();
    run(folder, "context put n main a 2 --message second").yes();
    run(folder, "context archive n --lower low").yes();
    // What branches name stays above.
    let listed = run(folder, "context branch list n").yes();
    assert!(listed.contains("second") && listed.contains("first"), "{listed}");
    fs::remove_file(folder.join("n/0000-000000-1.pack")).unwrap();
    let listed = run(folder, "context branch list n").yes();
    assert!(listed.contains("second") && listed.contains("old"), "{listed}");
    assert!(listed.contains("is in the lower folder: give --lower"), "{listed}");
    let whole = run(folder, "context branch list n --lower low --format json").json();
    assert_eq!(run(folder, "context branch list n --format json").json(), whole);
    let rows = run(folder, "context branch list n --format jsonl").yes();
    assert!(rows.lines().any(|row| row.contains("\"message\":null")), "{rows}");
}

#[test]
fn a_file_of_another_store_is_damage_to_a_check() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for store in ["a", "b"] {
        run(folder, &format!("context create {store}")).yes();
        run(folder, &format!("context put {store} main x 1 --date 2026-01-01")).yes();
    }
    for name in ["0000-000000.pack", "control"] {
        let (own, other) = (folder.join("a").join(name), folder.join("b").join(name));
        let kept = fs::read(&own).unwrap();
        fs::copy(other, &own).unwrap();
        for command in ["check", "context check"] {
            let said = run(folder, &format!("{command} a"));
            said.error(3, &["belongs to another store: move it out of this folder"]);
        }
        fs::write(&own, kept).unwrap();
        run(folder, "check a").yes();
    }
}

/// A collection that meets damage while it finds out what stays has taken nothing, and is ended.
#[test]
fn a_collection_that_cannot_go_on_is_none() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    let path = |n: u32| format!("[\"646972\",\"{}\"]", hex(&format!("needle{n:02}")));
    let line = |n: u32| format!("{{\"path\":{},\"value\":\"{}\"}}\n", path(n), "ab".repeat(40));
    let lines: String = (0..40).map(line).collect();
    fs::write(folder.join("paths"), lines).unwrap();
    run(folder, "context load C main paths").yes();
    for n in 0..3 {
        run(folder, &format!("context put C main x{n} 1")).yes();
    }
    let pack = folder.join("C/0000-000000.pack");
    let bytes = fs::read(&pack).unwrap();
    let at = bytes.windows(8).position(|window| window == b"needle05").unwrap();
    flip(&pack, at);
    let error = run(folder, "context collect run C --keep 1");
    error.error(3, &["nothing is collected: 0000-000000.pack is damaged"]);
    let status = run(folder, "context collect status C --format json").json();
    assert_eq!((&status["phase"], &status["kept_commits"]), (&"none".into(), &4.into()));
    // Without the damage it comes to its end.
    flip(&pack, at);
    let said = run(folder, "context collect run C --keep 1").yes();
    assert!(said.starts_with("3 commits collected, 1 kept"), "{said}");
}

#[test]
fn a_date_to_come_keeps_no_commit_and_is_refused() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    for (n, date) in ["2026-01-01", "2026-01-02", "2026-01-03"].iter().enumerate() {
        run(folder, &format!("context put C main a {n} --date {date}")).yes();
    }
    run(folder, "context collect run C --since 2030-01-01")
        .error(2, &["no commit is from 2030-01-01", "the newest is from 2026-01-03", "--keep 1"]);
    assert_eq!(run(folder, "context log C").yes().lines().count(), 3);
    let said = run(folder, "context collect run C --since 2026-01-02").yes();
    assert!(said.starts_with("1 commit collected, 2 kept"), "{said}");
}

/// Old commits that are elsewhere stay, whatever is said of what to keep, and whether or not they can be read.
#[test]
fn a_collection_of_an_archive_is_refused_before_anything_is_pinned() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    archive(folder, "n", "low");
    for keep in
        ["--keep 1", "--since 2026-01-01", "--since 2030-01-01", "--to last", "--keep 1 --every 1"]
    {
        let ran = run(folder, &format!("context collect run n {keep}"));
        ran.error(2, &["the store has chunks in its lower folder", "`varvite context unarchive`"]);
    }
    assert_eq!(run(folder, "context pin list n --format json").json(), serde_json::json!([]));
}

#[cfg(unix)]
#[test]
fn a_conversion_that_finds_no_room_names_the_file_that_it_was_to_make() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "bench context --accounts 200 --blocks 3 --memory --trace T").yes();
    run(folder, "trace convert T ROWS").yes();
    for line in ["trace convert ROWS OUT", "trace convert T OUT"] {
        let said = limited(folder, line, 1).error(2, &["could not write", "OUT"]);
        assert!(!said.contains(".varvite-"), "{line}: {said}");
    }
    run(folder, "trace convert ROWS OUT/").error(2, &["OUT/ is the name of a folder"]);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2);
}

/// A file that a command makes has its name once it is whole, and the rights of any other.
#[cfg(unix)]
#[test]
fn a_file_that_is_made_is_whole_or_not_there() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a 1 --create").yes();
    let ran = limited(folder, "doctor S --quick --out report", 1);
    ran.error(2, &["could not write report"]);
    let names = || fs::read_dir(folder).unwrap().flatten().map(|it| it.file_name());
    assert_eq!(names().collect::<Vec<_>>(), ["S"]);
    run(folder, "doctor S --quick --out report").yes();
    fs::write(folder.join("usual"), "").unwrap();
    let mode = |name: &str| folder.join(name).metadata().unwrap().permissions().mode();
    assert_eq!(mode("report"), mode("usual"));
    run(folder, "doctor S --quick --out report").error(2, &["report is there already"]);
    run(folder, "doctor S --quick --out none/report").error(2, &["none/report"]);
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// A load outlives the recording of it, and says what it found.
#[test]
fn a_full_disk_below_a_trace_leaves_the_report() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let load = "bench context --memory --accounts 2000 --blocks 20";
    run(folder, &format!("{load} --trace whole")).yes();
    for line in [&format!("{load} --trace cut"), "trace replay whole --trace cut"] {
        let ran = limited(folder, &format!("{line} --format json"), 64);
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        assert!(ran.err.contains("cut"), "{line}: {ran:?}");
        for told in ["\"peak_rss_bytes\"", "\"status\": \"error\"", "could not write cut"] {
            assert!(ran.out.contains(told), "{line}: {told}: {ran:?}");
        }
        fs::remove_file(folder.join("cut")).unwrap();
    }
}
