//! What messages advise can be done: every command that one names is run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::binary::{Ran, text, varvite};

/// The program's own list.
#[allow(dead_code)]
#[path = "../../src/advice.rs"]
mod advice;

/// Folders and files for the commands of the list.
struct World(TempDir);

impl World {
    fn new() -> World {
        let world = World(TempDir::new().unwrap());
        let [store, live, context, irmin, dump, blocks] =
            ["STORE", "LIVE", "CONTEXT", "IRMIN", "DUMP", "BLOCKS"].map(|name| world.text(name));
        varvite(&["table", "put", &live, "t", "k", "v", "--create", "--live"]).yes();
        varvite(&["table", "put", &store, "t", "k", "v", "--create"]).yes();
        varvite(&["table", "snapshot", "create", &store, "kept"]).yes();
        fs::write(dump, varvite(&["table", "dump", &store, "t"]).yes()).unwrap();
        varvite(&["context", "create", &context]).yes();
        varvite(&["context", "put", &context, "main", "z", "w"]).yes();
        varvite(&["context", "put", &context, "main", "a/b", "v"]).yes();
        varvite(&["context", "export-irmin", &context, &irmin]).yes();
        fs::write(world.text("PATHS"), "{\"path\":[\"70\"],\"value\":\"01\"}\n").unwrap();
        let moved = world.text("MOVED");
        varvite(&["context", "snapshot", "export", &context, "main", &moved]).yes();
        fs::write(blocks, "B 0 S\ni a 01\nC 0 Tezos one\n").unwrap();
        fs::create_dir(world.text("UNDER")).unwrap();
        world
    }

    /// Traces of a few calls, of varvite and of Irmin.
    fn record(&self) {
        let [calls, rows] = ["CALLS", "ROWS"].map(|name| self.text(name));
        let few = ["--accounts", "20", "--blocks", "2", "--reads", "5", "--updates", "5"];
        varvite(&[&["bench", "context", "--memory", "--trace", &calls][..], &few].concat()).yes();
        varvite(&["trace", "convert", &calls, &rows]).yes();
    }

    fn text(&self, name: &str) -> String {
        text(&self.0.path().join(name)).to_owned()
    }

    fn run(&self, command: &str, arguments: &str) -> Ran {
        let words = arguments.split(' ').map(|word| {
            let name = word.split('/').next().unwrap_or_default();
            let is_name = name.len() > 2 && name.bytes().all(|byte| byte.is_ascii_uppercase());
            if is_name { self.text(word) } else { word.to_owned() }
        });
        let words: Vec<_> = command.split(' ').map(str::to_owned).chain(words).collect();
        varvite(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

#[test]
fn every_command_that_a_message_names_runs() {
    for (command, arguments) in advice::ALL {
        let world = World::new();
        if command.starts_with("trace") {
            world.record();
        }
        let ran = world.run(command, arguments);
        // There is no collection that it could end.
        let expected = i32::from(*command == "context collect cancel");
        assert_eq!(ran.code, expected, "{command} {arguments}: {ran:?}");
    }
}

/// The commands in backticks that the sources' strings name, comments left out.
fn named(folder: &Path, found: &mut BTreeSet<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named(&path, found);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        // A string may go on in the next line.
        let code = lines.collect::<Vec<_>>().join("\n").replace("\\\n", "");
        for part in code.split("`varvite ").skip(1) {
            let command = part.split('`').next().unwrap();
            let command: Vec<_> = command.split_whitespace().collect();
            found.insert((command.join(" "), path.clone()));
        }
    }
}

#[test]
fn messages_name_commands_of_the_list_only() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    named(&sources.join("../engine/src"), &mut found);
    named(&sources.join("src"), &mut found);
    assert!(found.len() > 8, "{found:?}");
    for (command, path) in found {
        if path.ends_with("advice.rs") {
            continue;
        }
        assert!(!path.starts_with(sources.join("src")), "{command} belongs in advice.rs: {path:?}");
        // Of the ways to replay any may be the one that made the store.
        let command = if command == "replay" { "replay blocks" } else { &command };
        assert!(advice::ALL.iter().any(|(known, _)| *known == command), "`{command}`: {path:?}");
    }
}

/// The lines that are commands to be typed.
fn typed(out: &str) -> Vec<String> {
    let lines = out.lines().filter_map(|line| line.split("varvite ").nth(1));
    lines.map(|line| line.split(" goes on").next().unwrap().to_owned()).collect()
}

#[test]
fn lines_that_say_what_to_type_can_be_typed() {
    let world = World::new();
    let store = world.text("STORE");
    let lines = (0..30_000).map(|n| format!("{{\"key\":\"k{n:05}\",\"value\":\"{n}\"}}\n"));
    fs::write(world.text("DUMP"), lines.collect::<String>()).unwrap();
    varvite(&["table", "load", &store, "long", &world.text("DUMP")]).yes();
    let part = varvite(&["scrub", &store, "--most", "0"]).yes();
    let [next] = &typed(&part)[..] else { panic!("{part}") };
    let words: Vec<_> = next.split(' ').collect();
    assert!(words.contains(&"--from"), "{part}");
    varvite(&words).yes();

    let index = fs::read_dir(world.text("CONTEXT")).unwrap().map(|it| it.unwrap().path());
    let index = index.filter(|path| text(path).contains("index")).max().unwrap();
    assert!(index.exists());
    assert_eq!(
        advice::rebuild_index(Path::new(&world.text("CONTEXT")), None),
        format!("varvite context check --rebuild-index {}", world.text("CONTEXT"))
    );
    varvite(&["context", "check", "--rebuild-index", &world.text("CONTEXT")]).yes();

    let segments = fs::read_dir(world.0.path().join("STORE/segments")).unwrap();
    let segment = segments.last().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[5_000] ^= 1;
    fs::write(&segment, bytes).unwrap();
    for command in [&["check", &store][..], &["scrub", &store]] {
        let ran = varvite(command);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(
            !ran.out.contains("`varvite check`"),
            "who has checked is not told to: {}",
            ran.out
        );
        let line = typed(&ran.out).pop().unwrap();
        let words: Vec<_> = line.split(" makes ").next().unwrap().split(' ').collect();
        assert_eq!((words[0], words[2]), ("repair", "OUT"), "{line}");
        let out = world.text("NEW");
        let ran = varvite(&["repair", words[1], &out]);
        assert_eq!(ran.code, 3, "the segment is lost: {ran:?}");
        varvite(&["check", &out]).yes();
        fs::remove_dir_all(out).unwrap();
    }
}

/// What a check of a part says at its end, typed into a shell, until nothing is left; how many parts there were.
#[cfg(unix)]
fn in_parts(arguments: &[&str]) -> usize {
    let mut ran = varvite(arguments);
    for parts in 1..100 {
        let out = std::mem::take(&mut ran.out);
        let [next] = &typed(&out)[..] else {
            let all = if parts > 1 { "sound from there on" } else { "sound" };
            assert!(out.contains(all) && !out.contains("so far"), "{out}");
            return parts;
        };
        assert_eq!(next.contains("--rate 0"), arguments.contains(&"--rate"), "{next}");
        assert!(out.contains("sound so far"), "{out}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("{} {next}", env!("CARGO_BIN_EXE_varvite"))]);
        ran = crate::binary::finish(shell);
        assert_eq!((ran.code, &*ran.err), (0, ""), "{next}");
    }
    panic!("no end: {arguments:?}");
}

#[test]
#[cfg(unix)]
fn checks_and_scrubs_go_on_as_they_say() {
    let world = World::new();
    let [store, context] = ["it's a store", "a context"].map(|name| world.text(name));
    fs::rename(world.text("STORE"), &store).unwrap();
    fs::rename(world.text("CONTEXT"), &context).unwrap();
    let lines = (0..30_000).map(|n| format!("{{\"key\":\"k{n:05}\",\"value\":\"{n}\"}}\n"));
    fs::write(world.text("DUMP"), lines.collect::<String>()).unwrap();
    varvite(&["table", "load", &store, "long", &world.text("DUMP")]).yes();
    varvite(&["context", "put", &context, "main", "a/c", "w"]).yes();
    varvite(&["context", "put", &context, "main", "a/d", "x"]).yes();
    for (arguments, least) in [
        (&["check", &*store, "--most", "0"][..], 2),
        (&["check", &*store, "--most", "0", "--snapshot", "kept", "--table", "t"], 1),
        (&["scrub", &*store, "--most", "0"], 2),
        (&["scrub", &*store, "--rate", "0", "--most", "0"], 2),
        (&["context", "check", &*context, "--most", "1"], 3),
        (&["context", "check", &*context, "--most", "2", "--from", "last~1"], 1),
    ] {
        let parts = in_parts(arguments);
        assert!(parts >= least, "{arguments:?}: {parts}");
    }
    let parts = in_parts(&["context", "check", &context, "--most", "2"]);
    assert_eq!(parts, 2, "three commits in twos");
    varvite(&["context", "check", &context, "--from", "nope"]).error(2, &["\"nope\""]);
    varvite(&["check", &context, "--most", "1"]).error(2, &["holds a context", "check"]);
}

/// What somebody types first who knows sqlite3: each leads to a command by its next line.
#[test]
fn words_of_sqlite_lead_to_commands() {
    let world = World::new();
    let store = world.text("STORE");
    for (tried, led) in [
        (&[&*store][..], "`varvite table shell`"),
        (&["open", &store], "`varvite table shell`"),
        (&[".tables"], "`varvite table list`"),
        (&["tables", &store], "`varvite table list`"),
        (&["get", &store, "t", "k"], "`varvite table get`"),
        (&["select", &store], "`varvite table scan`"),
        (&["put", &store, "t", "k", "v"], "`varvite table put`"),
        (&["dump", &store], "`varvite table dump`"),
        (&["table", "import", &store], "`varvite table load`"),
        (&["vacuum", &store], "`varvite table merge status`"),
        (&["pragma", "integrity_check"], "`varvite check`"),
        (&[".mode", "json"], "`--format`"),
        (&[".output", "file"], "> FILE"),
        (&[".read", "lines.sql"], "`varvite table shell`"),
        (&["begin"], "`varvite table put`"),
        (&[".quit"], "`varvite table shell`"),
        (&["alter", "table"], "`varvite table rename`"),
        (&["table", "delete", &store, "t"], "`varvite table delete-range`"),
        (&["table", "delete", &store, "t"], "`varvite table drop`"),
    ] {
        let ran = varvite(tried);
        assert_eq!(ran.code, 2, "{ran:?}");
        let tip = ran.err.lines().last().unwrap_or_default();
        assert!(tip.starts_with("  tip: ") && tip.contains(led), "{tried:?}: {}", ran.err);
    }
    // What begins otherwise is not meant.
    let ran = varvite(&["people"]);
    assert!(!ran.err.contains("explore") && varvite(&["chek"]).err.contains("'check'"), "{ran:?}");
    // A flag that looks alike is not told beside what is known to be meant.
    let ran = varvite(&["table", "scan", &store, "t", "--where", "k"]);
    assert!(ran.err.contains("--prefix") && !ran.err.contains("before"), "{ran:?}");
    let json = varvite(&["get", &store, "--format", "json"]);
    assert!(json.out.contains("varvite table get"), "{json:?}");
}

#[test]
fn flags_of_other_programs_lead_to_those_of_the_command_at_hand() {
    let mut all = BTreeSet::new();
    crate::exits::commands(&[], &mut all);
    let flags =
        ["--where", "--until", "--start", "--json", "-n", "--desc", "--force", "--db", "-o"];
    let (mut tips, mut of_where) = (0, 0);
    for name in &all {
        let words: Vec<_> = name.split(' ').collect();
        let help = varvite(&[&words[..], &["--help"]].concat()).yes();
        for flag in flags {
            let has = |flag: &str| {
                [" ", ", ", "\n"].iter().any(|end| help.contains(&format!("{flag}{end}")))
            };
            if has(flag) {
                continue;
            }
            let ran = varvite(&[&words[..], &[flag, "x"]].concat());
            assert_eq!(ran.code, 2, "{ran:?}");
            let Some(tip) = ran.err.split("tip: ").nth(1) else { continue };
            if tip.starts_with("to pass ") {
                continue; // how it would be a value
            }
            if tip.contains("`varvite table scan`") {
                of_where += 1;
                continue;
            }
            tips += 1;
            let told = tip.lines().next().unwrap().split(['`', '\'']);
            for word in told.filter(|word| word.starts_with("--") && *word != "-- -o") {
                let word = word.split(' ').next().unwrap();
                assert!(word == "--" || has(word), "{name} {flag}: {word} is none of it: {tip}");
            }
        }
    }
    assert!(tips > 100 && of_where > 5, "{tips}, {of_where}");
    let tip = |words: &[&str]| varvite(words).err.split("tip: ").nth(1).map(str::to_owned);
    assert!(tip(&["table", "list", "S", "--json"]).unwrap().contains("`--format`"));
    assert!(tip(&["table", "get", "S", "t", "k", "--where", "x"]).unwrap().contains("table scan"));
    assert!(tip(&["table", "restore", "S", "s", "--force"]).unwrap().contains("`--replace`"));
    assert!(tip(&["table", "scan", "--db", "S", "t"]).unwrap().contains("no flag"));
    // That of the parser alone.
    let of_none = tip(&["context", "log", "S", "--where", "x"]).unwrap_or_default();
    assert!(!of_none.contains('`'), "{of_none}");
}

#[test]
fn a_table_typed_for_a_command_is_called_what_it_is() {
    let world = World::new();
    let store = world.text("STORE");
    varvite(&["table", "put", &store, "people", "k", "v"]).yes();
    let ran = varvite(&["people", &store]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let tip = ran.err.lines().last().unwrap();
    assert!(tip.contains("that is a table: `varvite table scan`"), "{tip}");
    let (_, words) = tip.split_once(", with ").unwrap();
    let words: Vec<_> = words.split(' ').collect();
    assert_eq!(varvite(&[&["table", "scan"], &words[..]].concat()).yes(), "k\tv\n");
    // Where the store is the folder at hand.
    let mut here = crate::binary::command(&["people"]);
    here.current_dir(&store);
    let ran = crate::binary::finish(here);
    assert!(ran.err.contains("lists what is in it, with . people"), "{}", ran.err);
    let ran = varvite(&["people"]);
    assert!(ran.err.contains("no command and no path is called so"), "{}", ran.err);
    let ran = varvite(&["table", "merge", "pause", &store]);
    assert!(ran.err.contains("nothing merges between two commands"), "{}", ran.err);
    assert!(varvite(&["table", "merge", "--help"]).yes().contains("nothing to pause"));
}

#[test]
#[cfg(unix)]
fn a_store_whose_name_begins_like_a_flag_is_typed_again() {
    let world = World::new();
    let folder = world.0.path();
    fs::rename(folder.join("STORE"), folder.join("-odd store")).unwrap();
    let lines = (0..30_000).map(|n| format!("{{\"key\":\"k{n:05}\",\"value\":\"{n:0>40}\"}}\n"));
    fs::write(folder.join("DUMP"), lines.collect::<String>()).unwrap();
    let run = |words: &[&str]| {
        let mut program = crate::binary::command(words);
        program.current_dir(folder);
        crate::binary::finish(program)
    };
    run(&["table", "load", "./-odd store", "-t", "DUMP"]).error_of_usage("-- -t");
    // A segment and a file of values.
    run(&["table", "load", "--blob-min", "32", "--", "./-odd store", "-t", "DUMP"]).yes();
    let part = run(&["check", "--most=0", "--table=-t", "--", "-odd store"]).yes();
    let [next] = &typed(&part)[..] else { panic!("{part}") };
    assert!(next.contains("'./-odd store'") && next.contains("--table=-t"), "{next}");
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(folder);
    shell.args(["-c", &format!("{} {next}", env!("CARGO_BIN_EXE_varvite"))]);
    let ran = crate::binary::finish(shell);
    assert_eq!((ran.code, &*ran.err), (0, ""), "{next}");
}

#[test]
fn a_shell_takes_words_with_a_dot() {
    let world = World::new();
    let mut shell = crate::binary::command(&["table", "shell", &world.text("STORE")]);
    let lines = world.0.path().join("lines");
    fs::write(&lines, ".tables\n.get t k\nget t\n.quit\nget t k\n").unwrap();
    shell.stdin(fs::File::open(lines).unwrap());
    let ran = crate::binary::finish(shell);
    let said: Vec<_> = ran.out.lines().collect();
    assert_eq!((ran.code, said.len()), (2, 2), "{ran:?}");
    assert!(ran.err.contains("Usage: get <TABLE> <KEY>"), "as it is typed there: {}", ran.err);
    assert!(said[0].starts_with("t\t") && said[1] == "v", "{ran:?}");
}
