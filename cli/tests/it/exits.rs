//! Exit codes: 1 for what is not there, 3 for what is damaged, in every command.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::binary::{command, text, varvite};

/// Commands that read no store and no file of one; what they read else is damaged in tests of their own.
const WITHOUT: [&str; 12] = [
    "demo",
    "conformance",
    "completions",
    "replay cardano",
    "replay tezos-json",
    "bench utxo setup",
    "bench range setup",
    "bench load",
    "bench blob",
    "bench upsert",
    "bench proof",
    "bench snapshot",
];
/// Those that make a new context only: `Exists` in a folder with anything.
const MAKERS: [&str; 2] = ["context create", "bench context"];

/// What every command is run with: STORE has tables, LIVE live ones, CONTEXT commits, DUMP and PROOF are
/// files, PARCEL is an export, UNDER an empty folder, OUT is not there.
const COMMANDS: &str = "
    table get STORE t k00001
    table get LIVE t k00001
    table put STORE t k v
    table put STORE t k v --create
    table put LIVE t k v
    table delete STORE t k00001
    table delete LIVE t k00001
    table delete-range STORE t --all
    table delete-range LIVE t --all
    table union STORE u t
    table union LIVE u t
    table scan STORE t
    table scan LIVE t
    table count STORE t
    table count LIVE t --prefix k
    table stat STORE t
    table stat LIVE t --exact
    table dump STORE t
    table dump LIVE t --binary
    table list STORE
    table list LIVE
    table create STORE new
    table create LIVE new --operator add-u64
    table diff STORE kept
    table diff STORE --with LIVE
    table drop STORE t
    table drop LIVE t
    table rename STORE t u
    table rename LIVE t u
    table restore STORE kept
    table restore LIVE kept --replace
    table follow LIVE t k00001 --changes 1
    table load STORE new DUMP
    table load LIVE new DUMP
    table load LIVE t DUMP --into
    table merge status STORE
    table merge status LIVE
    table merge finish STORE t
    table merge finish LIVE t
    table snapshot list STORE
    table snapshot info STORE kept
    table snapshot create STORE more
    table snapshot create LIVE more
    table snapshot delete STORE kept
    table snapshot verify STORE kept
    table snapshot export STORE kept OUT
    table snapshot import STORE PARCEL --as more
    check STORE
    check LIVE
    check CONTEXT
    scrub STORE --rate 0
    scrub LIVE --rate 0
    backup LIVE OUT
    info STORE
    info LIVE
    info CONTEXT
    inspect STORE/session
    inspect CONTEXT/control
    inspect MOVED
    context log CONTEXT
    context ls CONTEXT main
    context get CONTEXT main a/b
    context tree CONTEXT main
    context stat CONTEXT
    context du CONTEXT main
    context diff CONTEXT main last
    context dump CONTEXT main
    context check CONTEXT
    context put CONTEXT main a/c v
    context load CONTEXT main PATHS
    context remove CONTEXT main a/b
    context branch list CONTEXT
    context branch set CONTEXT other last
    context branch remove CONTEXT main
    context collect run CONTEXT --keep 1
    context collect status CONTEXT
    context collect pause CONTEXT
    context collect resume CONTEXT
    context collect cancel CONTEXT
    context archive CONTEXT --lower BELOW
    context attach CONTEXT UNDER
    context unarchive CONTEXT --lower UNDER
    context pin list CONTEXT
    context pin add CONTEXT last
    context pin remove CONTEXT last
    context merge CONTEXT main last
    context snapshot export CONTEXT main OUT
    context snapshot import SENT CONTEXT
    context snapshot verify MOVED
    context snapshot info MOVED
    context snapshot diff MOVED SENT
    context shell CONTEXT
    table shell STORE
    context export-irmin CONTEXT OUT
    repair CONTEXT MENDED
    proof make CONTEXT main a/b
    bench utxo run --dir STORE --batches 1
    bench range run --dir STORE --seeks 1
    replay blocks BLOCKS --store CONTEXT
";

/// The folders and files that the commands above name.
pub struct World {
    pub folder: TempDir,
}

impl World {
    pub fn new() -> World {
        let world = World { folder: TempDir::new().unwrap() };
        let of = |name: &str| world.path(name).to_str().unwrap().to_owned();
        let line = |n: u32| format!("{{\"key\":\"k{n:05}\",\"value\":\"{n}\"}}\n");
        let lines: String = (0..5000).map(line).collect();
        fs::write(of("DUMP"), lines).unwrap();
        fs::write(of("PATHS"), "{\"path\":[\"61\",\"62\"],\"value\":\"01\"}\n").unwrap();
        fs::write(of("BLOCKS"), "B 0 S\ni a 01\nC 0 Tezos one\n").unwrap();
        for (store, live) in [("STORE", &[][..]), ("LIVE", &["--live"])] {
            let store = of(store);
            let load = ["table", "load", &store, "t", &of("DUMP"), "--create"];
            varvite(&[&load[..], live].concat()).yes();
            varvite(&["table", "snapshot", "create", &store, "kept"]).yes();
        }
        let context = of("CONTEXT");
        varvite(&["context", "create", &context]).yes();
        varvite(&["context", "put", &context, "main", "z/y", "w"]).yes();
        varvite(&["context", "put", &context, "main", "a/b", &"v".repeat(300)]).yes();
        for file in ["SENT", "MOVED"] {
            varvite(&["context", "snapshot", "export", &context, "main", &of(file)]).yes();
        }
        varvite(&["table", "snapshot", "export", &of("STORE"), "kept", &of("PARCEL")]).yes();
        fs::create_dir(of("UNDER")).unwrap();
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The arguments of a line, with what it names.
    pub fn arguments(&self, line: &str) -> Vec<String> {
        let words = line.split(' ').map(|word| {
            let name = word.split('/').next().unwrap_or_default();
            let is_name = name.len() > 2 && name.bytes().all(|byte| byte.is_ascii_uppercase());
            if is_name { text(&self.path(word)).to_owned() } else { word.to_owned() }
        });
        words.collect()
    }

    /// The exit code of a line, on the folders as they are before it.
    pub fn run(&self, line: &str) -> (i32, String) {
        let arguments = self.arguments(line);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = command(&arguments).output().unwrap();
        let [out, err] = [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let out = out.chars().take(1000).collect::<String>();
        if let Some(out) = line.contains("OUT").then(|| self.path("OUT")).filter(|out| out.exists())
        {
            fs::remove_dir_all(out).unwrap();
        }
        let code = ran.status.code().unwrap_or(-1);
        let said = format!("{line}: {code}\n{out}\n{err}");
        assert!(!err.contains("panicked"), "{said}");
        (code, said)
    }
}

pub fn lines() -> impl Iterator<Item = &'static str> {
    COMMANDS.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The commands below `group`, as its help lists them.
pub fn commands(group: &[&str], found: &mut BTreeSet<String>) {
    let help = varvite(&[group, &["--help"]].concat()).yes();
    let Some(listed) = help.split("Commands:").nth(1) else {
        found.insert(group.join(" "));
        return;
    };
    let listed = listed.split("Options:").next().unwrap();
    for line in listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = line.trim().split(' ').next().unwrap();
        if name != "help" {
            commands(&[group, &[name]].concat(), found);
        }
    }
}

pub fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    // Links of an export stay as they are.
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn every_command_that_reads_a_store_is_run_on_a_damaged_one() {
    let mut all = BTreeSet::new();
    commands(&[], &mut all);
    let elsewhere = [
        "context migrate",
        "doctor",
        "explore",
        "proof check",
        "proof show",
        "trace compare",
        "trace convert",
        "trace info",
        "trace record",
        "trace replay",
        "trace show",
        "trace summary",
    ];
    for command in &all {
        let is_run = lines().any(|line| format!("{line} ").starts_with(&format!("{command} ")));
        let is_known = [&WITHOUT[..], &MAKERS, &elsewhere].concat().contains(&command.as_str());
        assert!(is_run != is_known, "`{command}` is damaged nowhere, or twice");
    }
}

#[test]
fn damage_is_3_in_every_command() {
    let world = World::new();
    flip(&world.path("STORE/session"), 25);
    flip(&world.path("LIVE/session"), 25);
    flip(&world.path("CONTEXT/control"), 25);
    flip(&world.path("MOVED"), 25);
    for line in lines() {
        let (code, said) = world.run(line);
        assert_eq!(code, 3, "{said}");
    }
    for maker in MAKERS {
        let line = if maker == "bench context" {
            "bench context --accounts 10 --blocks 1 --dir CONTEXT".to_owned()
        } else {
            format!("{maker} CONTEXT")
        };
        let (code, said) = world.run(&line);
        assert_eq!(code, 2, "{said}");
    }
}

/// What meets a damaged page or record, where [`damage_pages`] made some.
pub const DAMAGED: [&str; 28] = [
    "table get STORE t k00001",
    "table get LIVE t k00001",
    "table scan STORE t",
    "table scan LIVE t",
    "table scan STORE t --reverse",
    "table scan STORE t --skip-damaged",
    "table dump STORE t",
    "table dump STORE t --skip-damaged",
    "table dump LIVE t --binary --skip-damaged",
    "table stat STORE t --exact",
    "table delete STORE t k00001",
    "table diff STORE kept",
    "table diff LIVE --with STORE",
    "table snapshot verify STORE kept",
    "table snapshot export STORE kept OUT --full",
    "backup LIVE OUT --full",
    "check STORE",
    "check LIVE",
    "scrub LIVE --rate 0",
    "repair STORE OUT",
    "repair STORE OUT --skip-damaged",
    "repair CONTEXT OUT",
    "check CONTEXT",
    "context check CONTEXT",
    "context check CONTEXT --commit main",
    "context get CONTEXT main a/b",
    "context dump CONTEXT main",
    "inspect CONTEXT/0000-000000.pack",
];

/// Damages a page of both stores of tables and a value of the context.
pub fn damage_pages(world: &World) {
    for store in ["STORE", "LIVE"] {
        let segments = fs::read_dir(world.path(store).join("segments")).unwrap();
        let segments = segments.map(|it| it.unwrap().path());
        flip(&segments.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap(), 5_000);
    }
    let pack = world.path("CONTEXT/0000-000000.pack");
    let bytes = fs::read(&pack).unwrap();
    let value = bytes.windows(200).position(|window| window.iter().all(|byte| *byte == b'v'));
    flip(&pack, value.unwrap() + 100);
}

#[test]
fn a_damaged_page_or_record_is_3_where_it_is_read() {
    let world = World::new();
    damage_pages(&world);
    for line in DAMAGED {
        let (code, said) = world.run(line);
        assert_eq!(code, 3, "{said}");
    }
    // What is elsewhere in the table is read all the same.
    assert_eq!(world.run("table get STORE t k04999").0, 0);
    fs::write(world.path("DUMP"), "{\"key\"").unwrap();
    assert_eq!(world.run("table load LIVE new DUMP").0, 3);
}

#[test]
fn what_is_not_there_is_1_in_every_command() {
    let world = World::new();
    assert_eq!(world.run("table load CHANGED t DUMP --create").0, 0);
    assert_eq!(world.run("table put CHANGED t k00001 other").0, 0);
    for line in [
        "table get STORE t nope",
        "table get LIVE t nope",
        "table get STORE t nope --raw",
        "table get STORE t nope --format json",
        "table delete STORE t nope",
        "table delete LIVE t nope nor",
        "table delete-range STORE t --first x --last z",
        "table delete-range LIVE t --prefix nope",
        "table diff STORE kept --with CHANGED",
        "context get CONTEXT main a/c",
        "context ls CONTEXT main c",
        "context tree CONTEXT main c",
        "context du CONTEXT main c",
        "context remove CONTEXT main c",
        "context branch remove CONTEXT nope",
    ] {
        let (code, said) = world.run(line);
        assert_eq!(code, 1, "{said}");
    }
    let root =
        varvite(&["context", "log", text(&world.path("CONTEXT")), "--format", "json"]).json();
    let root = root[0]["tree"].as_str().unwrap();
    assert_eq!(world.run("proof make CONTEXT main a/b a/c --output PROOF").0, 0);
    let told = "--configuration tezos";
    let check = format!("proof check PROOF --root {root} {told}");
    for (path, expected) in [("a/b", 0), ("a/c", 1), ("a/d", 1)] {
        let (code, said) = world.run(&format!("{check} {path}"));
        assert_eq!(code, expected, "{said}");
    }
    let at = fs::metadata(world.path("PROOF")).unwrap().len() as usize - 3;
    flip(&world.path("PROOF"), at);
    for line in [format!("{check} a/b"), format!("proof show PROOF {told}")] {
        let (code, said) = world.run(&line);
        // A value is only compared with the hash by `check`.
        assert!(code == 3 || line.contains("show"), "{said}");
    }
    // What was to be looked into is missing itself: nothing could be answered.
    for line in ["table get STORE nope k", "table get STORE t k --snapshot nope", "context log OUT"]
    {
        let (code, said) = world.run(line);
        assert_eq!(code, 2, "{said}");
    }
}
