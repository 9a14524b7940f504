//! Small trees that each rule must refuse, and some that it must not.

use super::*;

#[track_caller]
fn refuses(rule: fn(&Tree) -> Vec<String>, files: &[(&str, &str)], word: &str) {
    let found = rule(&Tree::with(files));
    assert!(found.iter().any(|line| line.contains(word)), "no complaint about {word}: {found:?}");
}

#[track_caller]
fn accepts(rule: fn(&Tree) -> Vec<String>, files: &[(&str, &str)]) {
    let found = rule(&Tree::with(files));
    assert!(found.is_empty(), "{found:?}");
}

const MAP: (&str, &str) = (
    "ARCHITECTURE.md",
    "```layers\ntable\nfile cache\ndisk\n```\n```order table\npage\nrun\ntable\nsession\n```\n",
);
const PAGE: (&str, &str) = ("engine/src/table/page.rs", "use crate::cache::Cache;\n");
const RUN: (&str, &str) =
    ("engine/src/table/run.rs", "use super::{\n    page::{self, Page},\n};\nuse crate::file;\n");
const TABLE: (&str, &str) =
    ("engine/src/table.rs", "mod page;\npub use session::Session;\nuse run::Run;\n");
const SESSION: (&str, &str) = ("engine/src/table/session.rs", "use super::{Table, run::Run};\n");
const CACHE: (&str, &str) = ("engine/src/cache.rs", "use crate::disk::Disk;\n");
const FILE: (&str, &str) = ("engine/src/file.rs", "");
const DISK: (&str, &str) = ("engine/src/disk.rs", "// use crate::table::Table;\n");

/// The sound tree with one file replaced.
fn changed(path: &'static str, text: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut files = vec![MAP, PAGE, RUN, TABLE, SESSION, CACHE, FILE, DISK];
    files.retain(|(name, _)| *name != path);
    files.push((path, text));
    files
}

#[test]
fn sound_layers_pass() {
    accepts(layers::complaints, &changed(DISK.0, DISK.1));
}

#[test]
fn upward_and_sideways_arrows_are_found() {
    let rule = layers::complaints;
    refuses(rule, &changed(DISK.0, "use crate::cache::Cache;"), "disk imports cache");
    refuses(
        rule,
        &changed(DISK.0, "fn f() { crate::table::run::go() }"),
        "disk imports table::run",
    );
    refuses(rule, &changed(CACHE.0, "use crate::{disk, file::Shape};"), "cache imports file");
    refuses(rule, &changed(PAGE.0, "use super::{a, run::Run};"), "table::page imports table::run");
    refuses(rule, &changed(PAGE.0, "use super::Table;"), "table::page imports table,");
    refuses(rule, &changed(TABLE.0, "use session::Session;"), "table imports table::session");
    refuses(
        rule,
        &changed("engine/src/table/bytes/page.rs", "use crate::disk::File;"),
        "names the disk",
    );
}

#[test]
fn cycles_and_strangers_are_found() {
    let rule = layers::complaints;
    let mut files = changed("engine/src/disk/os.rs", "use super::memory::Memory;");
    files.push(("engine/src/disk/memory.rs", "use crate::disk::os::Os;"));
    refuses(rule, &files, "circle: disk::memory, disk::os");
    refuses(rule, &changed("engine/src/mystery.rs", ""), "mystery is in no layer");
    refuses(rule, &changed("engine/src/table/new.rs", ""), "table::new is missing from the order");
    refuses(rule, &[MAP], "orders table::page, which does not exist");
    refuses(rule, &[], "ARCHITECTURE.md is missing");
}

/// A room in a face, and the program beside the engine.
const ROOMS: [(&str, &str); 8] = [
    (
        "ARCHITECTURE.md",
        "```layers\ncli\ntable\n```\n```order table\nruns\nread\n```\n```order table/runs\nrun\nreader\n```\n\
         ```order cli\ntext\ncommands\n```\n",
    ),
    ("engine/src/table.rs", "mod runs;\nuse runs::Run;\npub use read::View;\n"),
    ("engine/src/table/runs.rs", "mod run;\npub use run::Run;\n"),
    ("engine/src/table/runs/run.rs", ""),
    ("engine/src/table/runs/reader.rs", "use super::run::Run;\n"),
    ("engine/src/table/read.rs", "use crate::table::runs::Run;\n"),
    ("cli/src/text.rs", ""),
    ("cli/src/commands.rs", "use crate::text::Notation;\nuse varvite::table::Table;\n"),
];

#[test]
fn rooms_and_the_program_have_orders_of_their_own() {
    let rule = layers::complaints;
    let with = |path: &'static str, text: &'static str| {
        let mut files: Vec<_> = ROOMS.into_iter().filter(|(name, _)| *name != path).collect();
        files.push((path, text));
        files
    };
    accepts(rule, &ROOMS);
    let upward = with("engine/src/table/runs/run.rs", "use super::reader::Reader;");
    refuses(rule, &upward, "table::runs::run imports table::runs::reader");
    let door = with("engine/src/table/runs/reader.rs", "use super::Run;");
    refuses(rule, &door, "table::runs::reader imports table::runs,");
    let far = with("engine/src/table/runs/run.rs", "use crate::table::read::View;");
    refuses(rule, &far, "table::runs::run imports table::read");
    let stranger = with("engine/src/table/runs/new.rs", "");
    refuses(rule, &stranger, "table::runs::new is missing from the order");
    let program = with("cli/src/text.rs", "use crate::commands::run;");
    refuses(rule, &program, "cli::text imports cli::commands");
    let mut circle = with("cli/src/commands/a.rs", "use super::b::B;");
    circle.push(("cli/src/commands/b.rs", "use super::a::A;"));
    refuses(rule, &circle, "circle: cli::commands::a, cli::commands::b");
}

#[test]
fn the_context_sees_only_public_names_of_the_table() {
    let text = "```layers\ncontext\ntable\n```\n";
    let page = ("engine/src/table/page.rs", "");
    let good = ("engine/src/context.rs", "use crate::table::Table;");
    let table = ("engine/src/table.rs", "");
    accepts(layers::complaints, &[("ARCHITECTURE.md", text), page, table, good]);
    let bad = ("engine/src/context.rs", "use crate::table::page::Page;");
    refuses(layers::complaints, &[("ARCHITECTURE.md", text), page, table, bad], "only its public");
}

#[test]
fn long_files_are_found() {
    accepts(file_size, &[("engine/src/a.rs", &"x\n".repeat(800))]);
    refuses(file_size, &[("cli/src/a.rs", &"x\n".repeat(801))], "801");
    refuses(file_size, &[("README.md", &"x\n".repeat(151))], "README.md");
}

#[test]
fn wide_folders_are_found() {
    let names: Vec<_> = (0..17).map(|number| format!("engine/src/table/a/m{number}.rs")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    accepts(folder_size, &files[1..]);
    refuses(folder_size, &files, "engine/src/table/a has 17 files");
}

#[test]
fn names_of_two_meanings_are_found() {
    let first = ("engine/src/table/a.rs", "pub(super) struct Place<'a>;\nimpl Place<'_> {}\n");
    let tests = ("engine/src/table/b.rs", "#[cfg(test)]\nmod tests {\nstruct Place;\n}\n");
    let other = ("engine/src/proof/a.rs", "enum Place {}\n");
    accepts(type_names, &[first, tests, other]);
    let second = ("engine/src/table/c.rs", "type Place = u64;\n");
    refuses(type_names, &[first, second], "`Place` has several meanings in table");
}

#[test]
fn file_system_clock_thread_and_chance_are_found() {
    refuses(file_system, &[("engine/src/table.rs", "use std::fs::File;")], "table.rs");
    accepts(file_system, &[("engine/src/disk/os/file.rs", "use std::fs::File;")]);
    accepts(file_system, &[("engine/src/disk.rs", "/// not std::fs\nlet it = \"std::fs\";")]);
    refuses(descriptors, &[("engine/src/disk/os.rs", "let f = fs::File::open(p)?;")], "os.rs:1");
    refuses(descriptors, &[("engine/src/disk/os.rs", "o.write(true)\n    .open(p)")], "os.rs:2");
    accepts(descriptors, &[("engine/src/disk/os.rs", "with_descriptor(|| options.open(p))")]);
    refuses(determinism, &[("engine/src/a.rs", "\nlet t = Instant::now();")], "a.rs:2");
    refuses(determinism, &[("engine/src/a.rs", "std::thread::spawn(|| ());")], "std::thread");
    refuses(determinism, &[("engine/src/a.rs", "rand::random()")], "rand");
    accepts(determinism, &[("engine/src/disk/os.rs", "rustix::rand::getrandom(&mut bytes)")]);
    refuses(determinism, &[("engine/src/disk/os.rs", "Instant::now()")], "Instant");
    accepts(determinism, &[("engine/src/a.rs", "let operand = \"rand\"; // Instant\n")]);
    accepts(
        determinism,
        &[("engine/src/a.rs", "#[cfg(test)]\n#[allow(x)]\nmod tests { use std::thread; }")],
    );
    refuses(determinism, &[("engine/src/a.rs", "let q = '\"'; Instant::now(); '\"'")], "Instant");
}

#[test]
fn lonely_documents_modules_and_golden_files_are_found() {
    let document = ("docs/format/run-page.md", "");
    let module = ("engine/src/table/run_page.rs", "");
    let golden = ("golden/run-page/1.empty.bin", "");
    accepts(triples, &[document, module, golden, ("docs/format/README.md", "")]);
    refuses(triples, &[module, golden], "no docs/format/run-page.md");
    refuses(triples, &[document, golden], "no module called run_page.rs");
    refuses(triples, &[document, module], "no golden/run-page");
}

#[test]
fn unfinished_work_vague_names_and_walls_are_found() {
    let mark = concat!("// TO", "DO: later");
    refuses(unfinished, &[("cli/src/a.rs", mark)], "a.rs:1");
    refuses(unfinished, &[("docs/a.md", concat!("FIX", "ME"))], "a.md:1");
    refuses(unfinished, &[("a.rs", concat!("\n#[ig", "nore]"))], "a.rs:2");
    refuses(door_names, &[("engine/src/a/mod.rs", "")], "mod.rs");
    refuses(door_names, &[("a.rs", "    pub struct FileManager<T> {")], "FileManager");
    accepts(door_names, &[("a.rs", "struct Managers; // Manager")]);
}

#[test]
fn unsafe_without_a_reason_is_found() {
    refuses(unsafe_reasons, &[("a.rs", "\n unsafe { go() }")], "a.rs:2");
    accepts(unsafe_reasons, &[("a.rs", "// SAFETY: it is sound.\nunsafe { go() }")]);
}

#[test]
fn dead_links_and_machine_paths_are_found() {
    let files = [("docs/a.md", "[b](b.md#top) [c](../c.rs) [web](https://x.y)"), ("docs/b.md", "")];
    refuses(links, &files, "../c.rs");
    accepts(links, &[files[0], files[1], ("c.rs", "")]);
    refuses(machine_paths, &[("a.md", concat!("see /ho", "me/me/x"))], "a.md:1");
    refuses(machine_paths, &[("test", concat!("cd /wo", "rk/x"))], "test:1");
    for path in ["bindings/x/y.install", "bindings/x/y.py", "bindings/x/test", "bindings/x/y.ml"] {
        refuses(machine_paths, &[(path, concat!("\"/ro", "ot/lib/y\""))], &format!("{path}:1"));
    }
    accepts(machine_paths, &[("a.md", concat!("see $HOME/wo", "rk/x and me/ho", "me/x"))]);
}

#[test]
fn pages_that_no_list_names_are_found() {
    let pages = [("docs/guide/a.md", ""), ("docs/format/b.md", ""), ("docs/format/README.md", "")];
    let readme = ("README.md", "[a](docs/guide/a.md#top) [b](docs/format/README.md)");
    refuses(unlisted_pages, &[pages[0]], "docs/guide/a.md");
    refuses(unlisted_pages, &[readme, pages[1], pages[2]], "docs/format/b.md");
    accepts(unlisted_pages, &[readme, pages[0], pages[1], ("docs/format/README.md", "[b](b.md)")]);
}

#[test]
fn a_program_of_the_readme_that_nobody_runs_is_found() {
    let readme = ("README.md", "```rust,no_run\nfn main() {}\n```");
    refuses(readme_programs, &[readme], "README.md");
    let example = "engine/examples/readme_a.rs";
    accepts(readme_programs, &[readme, (example, "//! A.\n\nfn main() {}\n")]);
    refuses(readme_programs, &[readme, (example, "//! A.\n\nfn main() { }\n")], example);
}

#[test]
fn what_a_build_leaves_is_found() {
    let left = [
        "bindings/ocaml/varvite.install",
        "bindings/ocaml/_build/log",
        "bindings/python/python/varvite/_varvite.abi3.so",
        "bindings/python/x/control",
        "bindings/python/x/0000-000000.pack",
        "bindings/python/x/index/lock",
        "bindings/python/tests/__pycache__/test_table.cpython-311.pyc",
        "bindings/c/lib/varvite.pc",
        "engine/src/x.o",
    ];
    for path in left {
        refuses(products, &[(path, "")], path);
    }
    let bytes = Tree {
        others: BTreeSet::from(["bindings/c/tests/story".to_owned()]),
        bytes: BTreeSet::from(["bindings/c/tests/story".to_owned()]),
        ..Tree::default()
    };
    assert_eq!(products(&bytes).len(), 1);
    let ours = [
        "bindings/c/install",
        "bindings/c/varvite.pc.in",
        "golden/control/1.bin",
        "bench/target.rs",
    ];
    accepts(products, &ours.map(|path| (path, "")));
}

#[test]
fn a_run_of_no_test_is_refused() {
    let code = ("engine/tests/it/faults.rs", "fn every_call() {}\n");
    let script = ("test", "    step x env A=1 \\\n        \"${engine[@]}\" faults every_\n");
    let document = "`cargo test --test it -- every_`, `cargo test -p varvite --test it faults`\n";
    accepts(long_runs, &[code, script, ("CONTRIBUTING.md", document)]);
    refuses(
        long_runs,
        &[code, script, ("CONTRIBUTING.md", "`cargo test --test it faults`")],
        "every_",
    );
    refuses(
        long_runs,
        &[code, ("CONTRIBUTING.md", "`cargo test --test it -- faults crash::`")],
        "crash::",
    );
    let renamed = ("engine/tests/it/failures.rs", "fn every_call() {}\n");
    refuses(
        long_runs,
        &[renamed, script, ("CONTRIBUTING.md", document)],
        "no test is called faults",
    );
}

#[test]
fn a_release_with_tables_of_lines_is_refused() {
    let with = |profile: &'static str| [("Cargo.toml", profile)];
    accepts(
        release_profile,
        &with("[profile.release]\ndebug = false\nlto = true\n\n[profile.dev]\n"),
    );
    for profile in [
        "[profile.release]\ndebug = \"line-tables-only\"\n",
        "[profile.release]\nlto = true\n\n[profile.dev]\ndebug = false\n",
        "",
    ] {
        refuses(release_profile, &with(profile), "debug tables");
    }
}
