//! What a person reads, word for word, where the program says more of an error than the engine does: the name of a
//! file as it was typed, another advice, what is left behind. A sentence that changes is seen here.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use varvite::Log;

use crate::binary::run;
use crate::exits::flip;
use crate::setups::{archive, tables};

/// The same with the digits of checksums left out, which every store has others of.
fn masked(said: &str) -> String {
    let is_sum = |word: &str| word.len() == 8 && word.bytes().all(|it| it.is_ascii_hexdigit());
    let mask = |word: &str| {
        let bare = word.trim_end_matches([',', ';', '\n']);
        if is_sum(bare) { word.replace(bare, "SUM") } else { word.to_owned() }
    };
    said.split(' ').map(mask).collect::<Vec<_>>().join(" ")
}

/// A context C, and good.snap of it; one that is damaged in the folder `in`.
fn snapshots(folder: &Path) {
    run(folder, "context create C").yes();
    run(folder, "context put C main a/b 1 --date 2026-01-01").yes();
    run(folder, "context snapshot export C main good.snap").yes();
    fs::create_dir(folder.join("in")).unwrap();
    fs::copy(folder.join("good.snap"), folder.join("in/bad.snap")).unwrap();
    flip(&folder.join("in/bad.snap"), 40);
}

#[test]
fn of_a_snapshot_of_a_context() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    snapshots(folder);
    run(folder, "context create D --binary").yes();
    for line in [
        "context snapshot verify in/bad.snap",
        "context snapshot info in/bad.snap",
        "context snapshot import in/bad.snap NEW",
        "context snapshot import in/bad.snap D",
        "context snapshot diff good.snap in/bad.snap",
        "context snapshot verify ./in/bad.snap",
    ] {
        let name = line.split(' ').find(|word| word.ends_with("bad.snap")).unwrap();
        run(folder, line).says(
            3,
            &format!(
                "{name} is damaged at byte 32: expected an opening with its checksum, found another; export it \
                 again, or take another copy"
            ),
        );
    }
    run(folder, "context snapshot import good.snap NEW --configuration 2,2").says(
        2,
        "good.snap: its hash configuration is 32 entries, flat up to 256, by seeded hash, and 2 entries, flat up to \
         2, by seeded hash is asked for: nothing in the file vouches for it, so give --configuration only if the \
         chain has it",
    );
    run(folder, "context snapshot import good.snap D").says(
        2,
        "good.snap has another hash configuration (32 entries, flat up to 256, by seeded hash) than the store (2 \
         entries, flat up to 2, by hash bits): if the chain has it, import the file into a new store of it",
    );
    fs::write(folder.join("in/text"), "no snapshot at all, but some lines of text").unwrap();
    run(folder, "context snapshot verify in/text")
        .says(2, "in/text is not a varvite file: it does not begin with \"varvite\"");
    fs::copy(folder.join("C/control"), folder.join("in/other")).unwrap();
    run(folder, "context snapshot info in/other")
        .says(2, "in/other is a control, where a context snapshot is needed");
}

/// What fails of the store that is made is no matter of the file that was read.
#[cfg(target_os = "linux")]
#[test]
fn of_the_store_that_a_snapshot_is_read_into() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    run(folder, &format!("context put C main a {}", "v".repeat(40_000))).yes();
    run(folder, "context snapshot export C main good.snap").yes();
    let script = format!(
        "ulimit -f 8; exec {} context snapshot import good.snap NEW",
        env!("CARGO_BIN_EXE_varvite")
    );
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", &script]).current_dir(folder);
    crate::binary::finish(limited).says(
        2,
        "could not write 0000-000000.pack: File too large (os error 27); this process may write files of at most \
         8.0 KiB (ulimit -f): raise that and try again",
    );
}

#[test]
fn of_traces() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "bench context --accounts 20 --blocks 1 --memory --trace T").yes();
    run(folder, "trace convert T ROWS").yes();
    fs::create_dir(folder.join("in")).unwrap();
    let bad = folder.join("in/BAD");
    fs::copy(folder.join("T"), &bad).unwrap();
    flip(&bad, 30);
    for line in [
        "trace info in/BAD",
        "trace summary in/BAD",
        "trace replay in/BAD",
        "trace compare T in/BAD",
        "trace convert in/BAD OUT",
    ] {
        let said = run(folder, line).error(3, &[]);
        assert_eq!(
            masked(&said),
            "in/BAD is damaged at byte 28: expected header checksum SUM, found SUM; record it again, or take another \
             copy\n",
            "{line}"
        );
    }
    run(folder, "trace show T").says(
        2,
        "T is a trace of varvite, not of Irmin's benchmarks: `varvite trace info` says what it has, `varvite trace \
         summary` sums it up",
    );
    let rows = folder.join("in/ROWS");
    for (at, shown, replayed) in [
        (
            1,
            "in/ROWS is no trace of Irmin's benchmarks: it begins with neither IrmRepBT nor IrmStaBT; give one that they \
             recorded",
            "in/ROWS is neither a trace of varvite nor one of actions of Irmin's benchmarks: it begins with neither \
             \"varvite\" nor IrmRepBT",
        ),
        (
            11,
            "in/ROWS has version 1: versions up to 0 are known",
            "in/ROWS has version 1: versions up to 0 are known",
        ),
    ] {
        fs::copy(folder.join("ROWS"), &rows).unwrap();
        flip(&rows, at);
        run(folder, "trace show in/ROWS").says(2, shown);
        run(folder, "trace replay in/ROWS").says(2, replayed);
    }
}

/// A trace is read from its end, too, and of a pipe there is none: the system would wait for somebody to write. Rows of
/// Irmin's traces may come from one, so `convert` waits.
#[cfg(unix)]
#[test]
fn of_a_pipe_in_place_of_a_trace() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let made = std::process::Command::new("mkfifo").arg(folder.join("PIPE")).status().unwrap();
    assert!(made.success());
    for verb in ["info PIPE", "summary PIPE", "replay PIPE", "compare PIPE PIPE"] {
        run(folder, &format!("trace {verb}")).says(
            2,
            "PIPE is no file, and a trace is read at its places, or twice: write it to a file, and give that",
        );
    }
}

#[test]
fn of_which_snapshot_is_meant() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    tables(&folder.join("S"), Log::None, &["one", "two"]);
    tables(&folder.join("other"), Log::None, &["one"]);
    run(folder, "table get S t k").says(
        2,
        "the store has several snapshots and no head: choose one with --snapshot (one, two)",
    );
    let told = "the store has several snapshots and no head: name the one that is meant (one, two)";
    run(folder, "table diff S one").says(2, told);
    run(folder, "table diff other --with S").says(2, told);
    run(folder, "table diff S other").says(
        2,
        "other is a folder, where the name of a snapshot is needed: name another store by --with other",
    );
    run(folder, "table diff nosuch other")
        .says(2, "nosuch does not exist: give the folder of a varvite store");
    run(folder, "table diff S nosuch").says(2, "there is no snapshot \"nosuch\" in S: one, two");
    // One that is called as a folder is, too, is a snapshot.
    fs::create_dir(folder.join("two")).unwrap();
    run(folder, "table diff S one two").yes();
    run(folder, "table diff S two one").yes();
}

#[test]
fn of_tables_that_a_snapshot_alone_has() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put L n x y --create --live").yes();
    run(folder, "table snapshot create L kept").yes();
    run(folder, "table drop L n").yes();
    run(folder, "table put L m a b").yes();
    let is_in = "snapshots have one (kept), and `varvite table restore` makes it live";
    for line in ["get L n x", "scan L n", "dump L n", "count L n"] {
        run(folder, &format!("table {line}")).says(
            2,
            &format!(
                "there is no live table \"n\"; there are: m; {is_in}; --snapshot reads it there"
            ),
        );
    }
    run(folder, "table put L n x y").says(
        2,
        &format!(
            "there is no live table \"n\"; {is_in}; `varvite table create` makes an empty one"
        ),
    );
    run(folder, "table follow L n x")
        .says(2, &format!("there is no live table \"n\"; there are: m; {is_in}"));
    run(folder, "table get L nosuch x").says(2, "there is no live table \"nosuch\"; there are: m");
}

#[test]
fn of_loads_that_stop() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let line = |key: &str| format!("{{\"key\":\"{key}\",\"value\":\"1\"}}\n");
    fs::write(folder.join("dump"), line("b; c") + &line("a")).unwrap();
    run(folder, "table load S t dump --create").says(
        2,
        "dump, line 2: entry 2 has the key \"a\", which is below the key \"b; c\" of entry 1; sort the input, or give \
         --sort",
    );
    fs::write(folder.join("dump"), line("a") + &line("a")).unwrap();
    run(folder, "table load S t dump --create").says(
        2,
        "dump, line 2: entry 2 has the key \"a\", which is equal to the key \"a\" of entry 1; sort the input, or give \
         --sort",
    );
    // What is in a live table stays, which is said once.
    run(folder, "table put L t a 1 --create --live").yes();
    let many: String = (0..3_000).map(|n| line(&format!("{n:05}{}", "k".repeat(2_000)))).collect();
    fs::write(folder.join("dump"), many.clone() + "junk\n").unwrap();
    run(folder, "table load L t dump --into").says(
        3,
        "after 2091 entries, which stay: dump, line 3001, column 1: expected value; each line should be {\"key\": …, \
         \"value\": …}",
    );
    fs::write(folder.join("dump"), many + &line(&"k".repeat(5_000))).unwrap();
    run(folder, "table load L t dump --into").says(
        2,
        "after 2091 entries, which stay: dump, line 3001: a key of 5000 bytes is too long: the limit is 4000 bytes",
    );
}

#[test]
fn of_pages_that_are_damaged() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t k v --create").yes();
    let segment = folder.join("S/segments/0000000000000001.segment");
    flip(&segment, 5_000);
    let damage = "segments/0000000000000001.segment is damaged at byte 8188: expected page checksum SUM, found SUM; ";
    let check = "run `varvite check` and restore it from a snapshot or another copy";
    for line in ["scan S t", "dump S t"] {
        let said = run(folder, &format!("table {line}")).error(3, &[]);
        let stopped = format!(
            "{damage}{check}; entries before it: 0 of 1 in the table; --skip-damaged goes on after it\n"
        );
        assert_eq!(masked(&said), stopped, "{line}");
    }
    let skipped = run(folder, "table scan S t --skip-damaged");
    let left_out = format!("left out: keys before k\\x00: {}", damage.trim_end_matches("; "));
    assert_eq!(masked(skipped.err.lines().next().unwrap()), left_out, "{skipped:?}");
    let said = run(folder, "table get S t k").error(3, &[]);
    assert_eq!(masked(&said), format!("{damage}{check}\n"));
    // Who has checked is not told to check.
    let said = run(folder, "check S").ended(3);
    assert_eq!(
        masked(said.lines().next().unwrap()),
        format!("{damage}restore it from a snapshot or another copy (needed by head-0000000001)"),
    );
}

#[test]
fn of_files_that_are_lost() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t k v --create").yes();
    fs::remove_file(folder.join("S/segments/0000000000000001.segment")).unwrap();
    let lost =
        "segments/0000000000000001.segment is not there, but what the session keeps is in it; ";
    run(folder, "table get S t k").says(
        3,
        &format!("{lost}run `varvite check` and restore it from a snapshot or another copy"),
    );
    // Each advises what is next, once.
    for (command, advice) in [
        ("check", "restore it from a snapshot or another copy"),
        ("scrub", "restore a backup, or have `varvite repair` make a new store of what is whole"),
    ] {
        let said = run(folder, &format!("{command} S")).ended(3);
        let first = said.lines().next().unwrap();
        assert_eq!(first, format!("{lost}{advice} (needed by head-0000000001)"), "{command}");
    }
}

#[test]
fn of_a_store_of_irmin_with_another_shape() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C --binary").yes();
    for name in ["a", "b", "c", "d", "e"] {
        run(folder, &format!("context put C main d/{name} 1 --date 2026-01-01")).yes();
    }
    run(folder, "context export-irmin C I").yes();
    let said = run(folder, "context check I").ended(3);
    let advice = "; if its shape is not that of Tezos, say so with --shape and --hash-bits; otherwise restore it from a \
                  snapshot or another copy (";
    assert!(said.contains(advice), "{said}");
    let said = run(folder, "context ls I main d").error(3, &[]);
    let advice = "; check the shape that the store was made with, or restore it from a snapshot or another copy\n";
    assert!(said.ends_with(advice), "{said}");
    // Who has said a shape is told to look at it again.
    for given in ["--shape 2,2", "--shape 32,300", "--shape 4,256"] {
        let said = run(folder, &format!("context check I {given}")).ended(3);
        let again = "; check the shape that the store was made with, or restore it from a snapshot or another copy (";
        assert!(said.contains(again) && !said.contains("say so with"), "{given}: {said}");
    }
}

#[test]
fn of_a_migration_with_another_shape() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    for name in ["a", "b", "c", "d", "e"] {
        run(folder, &format!("context put C main d/{name} 1 --date 2026-01-01")).yes();
    }
    run(folder, "context export-irmin C I").yes();
    // The first commits have the same hash with either.
    let said = run(folder, "context migrate I NEW --shape 2,2");
    said.error(
        3,
        &["check the shape that the store was made with", "commits are in NEW: remove it"],
    );
    // What was copied stays: with the right shape a damaged source ends it in the same way.
    run(folder, "context check NEW").yes();
    std::fs::remove_dir_all(folder.join("NEW")).unwrap();
    run(folder, "context migrate I NEW").yes();
    run(folder, "context migrate I NEW --shape 2,2").says(
        2,
        "NEW has directories of another shape than I is said to have: give --shape and --hash-bits as when it was made, or \
         another folder",
    );
    run(folder, "context migrate I NEW").yes();
}

#[test]
fn of_histories_that_are_longer_than_a_merge_may_walk() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    run(folder, "context put C main a 1 --date 2026-01-01").yes();
    run(folder, "context branch set C side main").yes();
    run(folder, "context put C main b 1 --date 2026-01-02").yes();
    run(folder, "context put C side c 1 --date 2026-01-02").yes();
    for more in ["", " --dry-run"] {
        let line = format!("context merge C side main --depth 1{more}");
        let what = "the histories are longer than the limit of 1 commits: raise it with --depth";
        run(folder, &line).says(2, what);
    }
}

/// What would be taken and do nothing.
#[test]
fn of_options_that_are_of_another_kind_of_store() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put T t a b --create").yes();
    run(folder, "context create C").yes();
    run(folder, "context put C main a 1 --date 2026-01-01").yes();
    run(folder, "context export-irmin C I").yes();
    fs::create_dir(folder.join("w")).unwrap();
    for store in ["C", "T"] {
        for command in ["check", "info", "doctor"] {
            for (given, word) in
                [("--shape 2,2", "--shape"), ("--hash-bits", "--hash-bits"), ("--trust", "--trust")]
            {
                run(folder, &format!("{command} {store} {given}")).says(
                    2,
                    &format!(
                        "{store} is no store of Irmin, and {word} is of those alone: leave it out"
                    ),
                );
            }
        }
    }
    for line in ["log C", "get C main a", "check C", "merge C other main", "branch list C"] {
        run(folder, &format!("context {line} --shape 2,2")).error(2, &["C is no store of Irmin"]);
    }
    for command in ["check", "info"] {
        let what = "holds no context, and nothing else has a lower folder: leave --lower out";
        run(folder, &format!("{command} T --lower w")).says(2, &format!("T {what}"));
    }
    run(folder, "info w --lower w").error(2, &["w holds no context"]);
    for line in ["check I --lower C", "info I --lower C", "context log I --lower C"] {
        run(folder, line).says(
            2,
            "C is of a store of varvite, and I is one of Irmin: give the folder of its lower layer, or leave --lower out",
        );
    }
    run(folder, "check I --lower w --shape 32,256 --trust").yes();
}

#[test]
fn of_a_lower_folder_that_is_another_ones() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for store in ["A", "B"] {
        archive(folder, store, &format!("below-{store}"));
    }
    fs::create_dir(folder.join("empty")).unwrap();
    run(folder, "context check A --lower below-A").yes();
    let give = "give the folder that A has moved chunks to";
    let out = "or leave --lower out if it has moved none";
    for line in [
        "context check A",
        "check A",
        "context check A --most 1",
        "context check A --commit last~1",
        "doctor A",
        "repair A OUT",
    ] {
        run(folder, &format!("{line} --lower below-B"))
            .says(2, &format!("below-B has chunks of another store: {give}, {out}"));
        run(folder, &format!("{line} --lower B"))
            .says(2, &format!("B is the folder of a store: {give}, {out}"));
        assert!(!folder.join("OUT").exists(), "{line}");
    }
    run(folder, "context check A --lower empty")
        .says(2, &format!("empty has no chunks: {give}, or put them back from a copy"));
    // A chunk of it that is damaged, or another's in its place, is a damage.
    flip(&folder.join("below-A/0000-000000.pack"), 100);
    run(folder, "context check A --lower below-A").ended(3);
    // What is lost is lost: the rest is made a store of.
    run(folder, "repair A OUT --lower empty").ended(3);
    run(folder, "context get OUT main a").yes();
}

#[test]
fn of_an_output_that_cannot_be_written() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t k v --create").yes();
    let mut command = crate::binary::command_in(folder, "table list S");
    command.stdout(fs::File::create("/dev/full").unwrap());
    let output = command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: could not write the output: No space left on device (os error 28); free some space and try again\n"
    );
}
