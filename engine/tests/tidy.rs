//! The house rules as a test: layers, sizes, words, links, and that document, module and golden file go
//! together.
//!
//! The layers and the orders of folders are read from `ARCHITECTURE.md`, so that page cannot lie.
//! Each rule is a function from a [`Tree`] of texts to complaints; `tidy/bad_input.rs` feeds each one
//! a small tree that it must refuse.

#![allow(clippy::unwrap_used, clippy::case_sensitive_file_extension_comparisons)] // a test may fail at any place, and says which

#[path = "tidy/bad_input.rs"]
mod bad_input;
#[path = "tidy/layers.rs"]
mod layers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The repository's texts by path from its root, and the names of all its other files.
#[derive(Default)]
struct Tree {
    texts: BTreeMap<String, String>,
    others: BTreeSet<String>,
    /// Those of `others` that are no text.
    bytes: BTreeSet<String>,
}

/// What is committed, or would be: the names that git gives, where the tree is git's.
fn committed(root: &Path) -> Option<BTreeSet<String>> {
    let listed = std::process::Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let names = String::from_utf8(listed.stdout).ok()?;
    listed.status.success().then(|| names.split_terminator('\0').map(str::to_owned).collect())
}

impl Tree {
    fn read() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the engine has a parent");
        let mut tree = Tree::default();
        let committed = committed(root);
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder)).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let path = folder.join(&name);
                let skipped = name == ".git"
                    || name.starts_with("target")
                    || (folder == Path::new("fuzz") && ["corpus", "artifacts"].contains(&&*name));
                if skipped {
                    continue;
                }
                if entry.file_type().unwrap().is_dir() {
                    folders.push(path);
                    continue;
                }
                let path = path.to_str().unwrap().to_owned();
                if committed.as_ref().is_some_and(|it| !it.contains(&path)) {
                    continue;
                }
                match fs::read_to_string(entry.path()) {
                    Ok(text) if is_text(&path) => drop(tree.texts.insert(path, text)),
                    Ok(_) => drop(tree.others.insert(path)),
                    Err(_) => {
                        tree.bytes.insert(path.clone());
                        tree.others.insert(path);
                    }
                }
            }
        }
        tree
    }

    fn with(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            if is_text(path) {
                tree.texts.insert((*path).to_owned(), (*text).to_owned());
            } else {
                tree.others.insert((*path).to_owned());
            }
        }
        tree
    }

    fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let inside = |name: &String| name == path || name.starts_with(&below);
        self.texts.keys().any(inside) || self.others.iter().any(inside)
    }

    fn rust(&self, under: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(move |(path, _)| path.starts_with(under) && path.ends_with(".rs"))
            .map(|(path, text)| (&**path, &**text))
    }
}

fn is_text(path: &str) -> bool {
    let ending = |name| Path::new(path).extension().is_some_and(|found| found == name);
    // Of the faces everything, whatever the language.
    let is_known = ["rs", "md", "toml", "yml", "sh"].into_iter().any(ending);
    is_known || path == "test" || path == ".ci/run" || path.starts_with("bindings/")
}

/// The code alone, line by line: comments and what stands in quotes become blanks, and unit tests at
/// the end of a file are cut off.
fn code(text: &str) -> String {
    let is_tests = |(at, mark): &(usize, &str)| {
        let mut after = text[at + mark.len()..].lines().skip_while(|line| line.starts_with("#["));
        after.next().is_some_and(|line| line.starts_with("mod "))
    };
    let tests = text.match_indices("#[cfg(test)]\n").find(is_tests);
    let text = &text[..tests.map_or(text.len(), |(at, _)| at)];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if next == '"' {
            closing_quote(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("b'\"'") {
            rest.find("\"'").expect("just seen") + 2
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        out.extend(rest[..length].chars().filter(|letter| *letter == '\n'));
        out.push(' ');
        rest = &rest[length..];
    }
    out
}

/// The length of the string literal that `text` begins with.
fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'\\' => escaped = !escaped,
            b'"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Where `word` stands in `line` as a whole word.
fn has_word(line: &str, word: &str) -> bool {
    let part = |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(word).any(|(at, _)| {
        !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next())
    })
}

fn file_size(tree: &Tree) -> Vec<String> {
    let long = |(path, text): (&str, &str)| {
        let lines = text.lines().count();
        (lines > 800).then(|| format!("{path} has {lines} lines: split it, the limit is 800"))
    };
    let mut found: Vec<_> = tree.rust("").filter_map(long).collect();
    for (path, limit) in [("README.md", 150), ("ARCHITECTURE.md", 300)] {
        let lines = tree.texts.get(path).map_or(0, |text| text.lines().count());
        if lines > limit {
            found.push(format!("{path} has {lines} lines: the limit is {limit}"));
        }
    }
    found
}

/// Folders that have rooms: at most 16 files side by side, so that a listing is read at a glance.
fn folder_size(tree: &Tree) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, _) in tree.rust("engine/src/").chain(tree.rust("cli/src/")) {
        let folder = path.rsplit_once('/').expect("a source is in a folder").0;
        *counts.entry(folder).or_default() += 1;
    }
    let wide = counts.into_iter().filter(|(_, count)| *count > 16);
    wide.map(|(folder, count)| format!("{folder} has {count} files side by side: make rooms"))
        .collect()
}

/// In one face, a name of a type has one meaning, also where it is private.
fn type_names(tree: &Tree) -> Vec<String> {
    let mut places: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for (path, text) in tree.rust("engine/src/") {
        let face = path["engine/src/".len()..].split(['/', '.']).next().unwrap_or("");
        let code = code(text);
        for line in code.lines() {
            let bare = match line.strip_prefix("pub") {
                Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |it| it.1),
                Some(rest) => rest,
                None => line,
            };
            let kinds = ["struct ", "enum ", "trait ", "type "];
            let name = kinds.iter().find_map(|kind| bare.trim_start().strip_prefix(kind));
            let is_item = !line.starts_with([' ', '\t']);
            let Some(name) = name.filter(|_| is_item) else { continue };
            let name = name.split(|it: char| !it.is_alphanumeric()).next().unwrap_or("");
            places.entry((face, name.to_owned())).or_default().push(path);
        }
    }
    let twice = places.into_iter().filter(|(_, paths)| paths.len() > 1);
    twice
        .map(|((face, name), paths)| {
            format!("`{name}` has several meanings in {face}: {}", paths.join(", "))
        })
        .collect()
}

fn file_system(tree: &Tree) -> Vec<String> {
    let allowed =
        |path: &str| path.starts_with("engine/src/disk/os") || path == "engine/src/disk/uring.rs";
    tree.rust("engine/src/")
        .filter(|(path, _)| !allowed(path))
        .filter(|(_, text)| {
            // Memory and the size of its pages are no files.
            let text = code(text).replace("rustix::mm", "").replace("rustix::param::page_size", "");
            ["std::fs", "rustix", "io_uring"].iter().any(|it| text.contains(it))
        })
        .map(|(path, _)| {
            format!("{path} names the file system: only disk/os* and disk/uring.rs do")
        })
        .collect()
}

/// Where the process has no descriptor left, what may be closed is closed, and whoever opens tries again.
fn descriptors(tree: &Tree) -> Vec<String> {
    const OPENS: [&str; 4] = ["File::open(", "File::create(", "read_dir(", "options.open("];
    let mut found = Vec::new();
    for (path, text) in tree.rust("engine/src/disk/os") {
        for (index, line) in code(text).lines().enumerate() {
            let opens =
                OPENS.iter().any(|it| line.contains(it)) || line.trim().starts_with(".open(");
            if opens && !line.contains("with_descriptor(") {
                found.push(format!("{path}:{} opens without `with_descriptor`", index + 1));
            }
        }
    }
    found
}

fn determinism(tree: &Tree) -> Vec<String> {
    const BANNED: [&str; 9] = [
        "Instant",
        "SystemTime",
        "std::thread",
        "thread_local",
        "RandomState",
        "getrandom",
        "fastrand",
        "rand",
        "println",
    ];
    // What `Disk::entropy` draws from, on one disk only.
    const ENTROPY: [&str; 3] = ["RandomState", "getrandom", "rand"];
    let mut found = Vec::new();
    for (path, text) in tree.rust("engine/src/") {
        for (index, line) in code(text).lines().enumerate() {
            for word in BANNED.into_iter().filter(|word| has_word(line, word)) {
                if path == "engine/src/disk/os.rs" && ENTROPY.contains(&word) {
                    continue;
                }
                found.push(format!(
                    "{path}:{} names `{word}`: clocks, threads, random numbers and the terminal \
                     belong to the host",
                    index + 1
                ));
            }
        }
    }
    found
}

/// `docs/format/X.md`, `engine/src/**/X.rs` and `golden/X/`, all three or none.
fn triples(tree: &Tree) -> Vec<String> {
    let format_of = |path: &String| {
        let name = path.strip_prefix("docs/format/")?.strip_suffix(".md")?;
        (name != "README").then(|| name.to_owned())
    };
    let golden_of =
        |path: &String| Some(path.strip_prefix("golden/")?.split_once('/')?.0.to_owned());
    let mut names: BTreeSet<String> = tree.texts.keys().filter_map(format_of).collect();
    names.extend(tree.texts.keys().chain(&tree.others).filter_map(golden_of));
    let mut found = Vec::new();
    for name in names {
        let document = format!("docs/format/{name}.md");
        let module = format!("/{}.rs", name.replace('-', "_"));
        if !tree.texts.contains_key(&document) {
            found.push(format!("golden/{name} has no {document}"));
        }
        if !tree.rust("engine/src/").any(|(path, _)| path.ends_with(&module)) {
            found.push(format!("{document} has no module called {}", &module[1..]));
        }
        if !tree.has(&format!("golden/{name}")) {
            found.push(format!("{document} has no golden/{name}/"));
        }
    }
    found
}

/// What marks work as unfinished, spelt so that this file does not contain it.
fn unfinished(tree: &Tree) -> Vec<String> {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("to", "do!("),
        concat!("unim", "plemented!("),
        concat!("#[ig", "nore"),
    ];
    let mut found = Vec::new();
    for (path, text) in &tree.texts {
        for (index, line) in text.lines().enumerate() {
            for mark in marks.iter().filter(|mark| line.contains(**mark)) {
                found.push(format!("{path}:{} has `{mark}`: finish it or leave it out", index + 1));
            }
        }
    }
    found
}

fn door_names(tree: &Tree) -> Vec<String> {
    let walls = tree.texts.keys().filter(|path| path.ends_with("/mod.rs"));
    let mut found: Vec<_> =
        walls.map(|path| format!("{path}: name the file after its folder, beside it")).collect();
    for (path, text) in tree.rust("") {
        for line in text.lines() {
            let name = ["struct ", "enum ", "trait "]
                .iter()
                .find_map(|kind| line.trim_start().trim_start_matches("pub ").strip_prefix(kind));
            let Some(name) = name else { continue };
            let name = name.split(|it: char| !it.is_alphanumeric()).next().unwrap_or("");
            let vague = ["Manager", "Handler", "Helper", "Util", "Utils", "Common"];
            if vague.iter().any(|ending| name.ends_with(ending)) {
                found.push(format!("{path}: `{name}` says nothing; name what it is"));
            }
        }
    }
    found
}

fn unsafe_reasons(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.rust("") {
        let lines: Vec<_> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let bare = line.split("//").next().unwrap_or("");
            let uses = ["unsafe {", "unsafe impl", "unsafe fn"].iter().any(|it| bare.contains(it));
            let reason = |line: &&str| line.contains("SAFETY:") || line.contains("# Safety");
            let before = &lines[index.saturating_sub(8)..=index];
            if uses && !bare.contains('"') && !before.iter().any(reason) {
                found.push(format!("{path}:{} is unsafe without `// SAFETY:`", index + 1));
            }
        }
    }
    found
}

/// Every relative link of every Markdown file leads to a file.
fn links(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = Path::new(path).parent().expect("a file has a folder");
        for (index, line) in text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = target.split('#').next().unwrap_or("");
                if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let mut parts: Vec<&str> = Vec::new();
                let joined = folder.join(target);
                for part in joined.to_str().expect("paths are UTF-8").split('/') {
                    match part {
                        "" | "." => {}
                        ".." => drop(parts.pop()),
                        name => parts.push(name),
                    }
                }
                if !tree.has(&parts.join("/")) {
                    found.push(format!(
                        "{path}:{} links to {target}, which is not there",
                        index + 1
                    ));
                }
            }
        }
    }
    found
}

/// Paths that exist on one machine only.
fn machine_paths(tree: &Tree) -> Vec<String> {
    let roots = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/Us", "ers/"),
        concat!("/fa", "rm/"),
    ];
    let mut found = Vec::new();
    for (path, text) in &tree.texts {
        for (index, line) in text.lines().enumerate() {
            for root in roots {
                let starts = |at: usize| {
                    let before = line[..at].chars().next_back();
                    !before.is_some_and(|it| it.is_alphanumeric() || "._-$})".contains(it))
                };
                if line.match_indices(root).any(|(at, _)| starts(at)) {
                    found.push(format!("{path}:{} has a path of one machine ({root})", index + 1));
                }
            }
        }
    }
    found
}

/// What a build or a test leaves behind is not the repository's.
fn products(tree: &Tree) -> Vec<String> {
    const ENDINGS: [&str; 19] = [
        "a", "cma", "cmi", "cmo", "cmt", "cmx", "cmxa", "dll", "dylib", "egg", "exe", "install",
        "lib", "o", "pyc", "pyd", "rlib", "so", "whl",
    ];
    const FOLDERS: [&str; 6] =
        ["_build", "__pycache__", ".mypy_cache", ".pytest_cache", "node_modules", "target"];
    // Of a session and a store of the engine's, which have bytes elsewhere.
    const FILES: [&str; 5] = ["checkpoint", "control", "lock", "session", "varvite.pc"];
    const SUFFIXES: [&str; 4] = ["blob", "pack", "segment", "snapshot"];
    let names = tree.texts.keys().chain(&tree.others);
    let is_product = |path: &String| {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let ending = name.rsplit_once('.').map_or("", |it| it.1);
        let is_store = path.starts_with("bindings/")
            && (FILES.contains(&name) || SUFFIXES.contains(&ending) || tree.bytes.contains(path));
        is_store || ENDINGS.contains(&ending) || folders.split('/').any(|it| FOLDERS.contains(&it))
    };
    let found = names.filter(|path| is_product(path));
    found.map(|path| format!("{path} is left by a build or a test: remove it")).collect()
}

/// Tables of lines are most of a program that has them.
fn release_profile(tree: &Tree) -> Vec<String> {
    let text = tree.texts.get("Cargo.toml").map_or("", String::as_str);
    let profile =
        text.split("[profile.release]\n").nth(1).map_or("", |it| it.split("\n[").next().unwrap());
    let is_small = profile.lines().any(|line| line == "debug = false");
    if is_small {
        vec![]
    } else {
        vec!["Cargo.toml: the release profile has debug tables".to_owned()]
    }
}

/// The words by which a command selects tests, of a line of a script or a command in a document.
fn selected(line: &str) -> Vec<&str> {
    let markers = [" -- ", "\"${engine[@]}\" ", "--test it "];
    let behind = markers.iter().find_map(|marker| line.split_once(marker));
    let is_of_tests = ["test ", "engine[@]"].iter().any(|it| line.contains(it));
    let words = behind.filter(|_| is_of_tests).map_or("", |(_, words)| words);
    let is_name = |word: &&str| {
        !word.starts_with('-')
            && word
                .bytes()
                .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b"_:".contains(&it))
    };
    words.split_whitespace().filter(is_name).collect()
}

/// Long runs select tests that there are, since none would pass without a word, and CONTRIBUTING has them all.
fn long_runs(tree: &Tree) -> Vec<String> {
    let text = |path: &str| tree.texts.get(path).map_or("", String::as_str);
    let document = text("CONTRIBUTING.md");
    let script = text("test").replace("\\\n", " ");
    let own: Vec<&str> = script.lines().flat_map(selected).collect();
    let listed: Vec<&str> = document.split('`').skip(1).step_by(2).flat_map(selected).collect();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (path, code) in ["engine/", "cli/tests/"].into_iter().flat_map(|under| tree.rust(under)) {
        names.extend(path.trim_end_matches(".rs").split('/'));
        names.extend(code.split("fn ").skip(1).filter_map(|it| it.split(['(', '<']).next()));
        names.extend(code.split("mod ").skip(1).filter_map(|it| it.split([';', ' ']).next()));
    }
    let is_there = |part: &str| names.iter().any(|name| name.contains(part));
    let unlisted = own.iter().filter(|word| !listed.contains(word));
    let unlisted =
        unlisted.map(|word| format!("CONTRIBUTING.md has no run of {word}, but `test` has"));
    let unknown = own.iter().chain(&listed).filter(|word| !word.split("::").all(is_there));
    unlisted.chain(unknown.map(|word| format!("no test is called {word}"))).collect()
}

/// The programs of the README are examples, which the tests run twice.
fn readme_programs(tree: &Tree) -> Vec<String> {
    let readme = tree.texts.get("README.md").map_or("", String::as_str);
    let mut complaints: Vec<_> = tree
        .texts
        .iter()
        .filter(|(path, _)| path.starts_with("engine/examples/readme_"))
        .filter(|(_, text)| {
            let program: String = text.lines().skip(2).flat_map(|line| [line, "\n"]).collect();
            !readme.contains(&format!("```rust,no_run\n{program}```"))
        })
        .map(|(path, _)| format!("{path}: README.md has no such program: copy one to the other"))
        .collect();
    let examples = tree.texts.keys().filter(|path| path.starts_with("engine/examples/readme_"));
    if readme.matches("```rust").count() != examples.count() {
        complaints.push("README.md: each program needs its engine/examples/readme_*.rs".to_owned());
    }
    complaints
}

/// Every page for readers has a link in the README, and those on formats one in the list of these.
fn unlisted_pages(tree: &Tree) -> Vec<String> {
    let text = |path: &str| tree.texts.get(path).map_or("", String::as_str);
    let mut complaints = Vec::new();
    for path in tree.texts.keys().filter(|it| it.starts_with("docs/") && it.ends_with(".md")) {
        let (list, link) = match path.strip_prefix("docs/format/") {
            Some(name) if name != "README.md" => ("docs/format/README.md", name),
            Some(_) | None => ("README.md", &**path),
        };
        if !text(list).contains(&format!("]({link}")) {
            complaints.push(format!("{list} has no link to {path}"));
        }
    }
    complaints
}

#[track_caller]
fn assert_tidy(rule: fn(&Tree) -> Vec<String>) {
    let complaints = rule(&Tree::read());
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
}

#[test]
fn imports_point_down_and_make_no_cycle() {
    assert_tidy(layers::complaints);
}

#[test]
fn files_are_short() {
    assert_tidy(file_size);
}

#[test]
fn folders_with_rooms_are_small() {
    assert_tidy(folder_size);
}

#[test]
fn a_type_name_has_one_meaning_in_a_face() {
    assert_tidy(type_names);
}

#[test]
fn only_the_disk_names_the_file_system() {
    assert_tidy(file_system);
}

#[test]
fn whatever_the_disk_opens_makes_room_where_there_is_none() {
    assert_tidy(descriptors);
}

#[test]
fn the_engine_is_deterministic_by_its_words() {
    assert_tidy(determinism);
}

#[test]
fn documents_modules_and_golden_files_go_together() {
    assert_tidy(triples);
}

#[test]
fn nothing_is_left_unfinished() {
    assert_tidy(unfinished);
}

#[test]
fn doors_stand_beside_their_rooms_and_names_say_something() {
    assert_tidy(door_names);
}

#[test]
fn unsafe_code_has_its_reason() {
    assert_tidy(unsafe_reasons);
}

#[test]
fn links_lead_somewhere() {
    assert_tidy(links);
}

#[test]
fn the_readme_leads_to_every_page() {
    assert_tidy(unlisted_pages);
}

#[test]
fn nothing_that_a_build_leaves_is_committed() {
    assert_tidy(products);
}

#[test]
fn the_programs_of_the_readme_are_run() {
    assert_tidy(readme_programs);
}

#[test]
fn no_text_names_a_path_of_one_machine() {
    assert_tidy(machine_paths);
}

#[test]
fn long_runs_select_tests_that_there_are() {
    assert_tidy(long_runs);
}

#[test]
fn releases_have_no_tables_of_lines() {
    assert_tidy(release_profile);
}
