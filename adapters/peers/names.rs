//! The public names of a crate: its types, and their methods, read from the lines of its formatted sources.
//!
//! Bodies are not read: a name is a line that rustfmt puts at a known depth. What macros make is seen where it is listed
//! name by name, as options that are ignored are. A name is `Type`, `Type::method`, or the same below a module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Methods of the types of one file.
struct Source {
    /// Its modules, from the root of the crate on.
    module: String,
    text: String,
    methods: BTreeMap<String, BTreeSet<String>>,
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The word that `text` begins with.
fn word(text: &str) -> &str {
    let end = text.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(text.len());
    &text[..end]
}

/// What comes after the brackets that `text` begins with, if it does.
fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    for (place, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if !text[..place].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let end = if character == '>' { place + 1 } else { place };
            return text[end..].trim_start();
        }
    }
    text
}

/// The type whose methods the block of `head` has: of an `impl` without a trait, or a public trait.
fn owner(head: &str) -> Option<(&str, bool)> {
    let head = head.split(" where").next().unwrap_or(head);
    if let Some(name) = head.strip_prefix("pub trait ") {
        return Some((word(name), true));
    }
    let of = after_generics(head.strip_prefix("impl")?.trim_start());
    (!of.replace("for<", "").contains(" for ")).then(|| (word(of), false))
}

/// The function that `line` begins, if it is public; those of a trait all are.
fn function(line: &str, is_of_trait: bool) -> Option<&str> {
    let mut line = line.trim_start();
    match line.strip_prefix("pub ") {
        Some(rest) => line = rest,
        None if is_of_trait => {}
        None => return None,
    }
    for before in ["const ", "unsafe "] {
        line = line.strip_prefix(before).unwrap_or(line);
    }
    line.strip_prefix("fn ").map(word)
}

/// The public functions in the body of each macro.
fn macros(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for part in text.split("\nmacro_rules! ").skip(1) {
        let body = part.split("\n}").next().unwrap_or(part);
        let names = body.lines().filter_map(|line| function(line, false));
        let names = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        found.insert(word(part).to_owned(), names);
    }
    found
}

/// The methods of each type, with those that `macros` put there.
fn methods(
    text: &str,
    macros: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut head = String::new();
    let mut at: Option<(String, bool)> = None;
    let mut is_in_call = false;
    for line in text.lines() {
        if line.starts_with('}') {
            (at, is_in_call) = (None, false);
            head.clear();
        } else if line.starts_with("impl") || line.starts_with("pub trait ") || !head.is_empty() {
            format!("{head} {}", line.trim()).trim_start().clone_into(&mut head);
            if line.ends_with('{') {
                at = owner(&head).map(|(name, is_trait)| (name.to_owned(), is_trait));
                head.clear();
            } else if line.ends_with('}') {
                head.clear();
            }
        } else if let Some((name, is_trait)) = &at {
            let methods = found.entry(name.clone()).or_default();
            let depth = line.len() - line.trim_start().len();
            let call = line.trim_start();
            if depth == 4 && line.ends_with("! {") {
                is_in_call = true;
            } else if depth == 4 && call.contains("!(") && line.ends_with(");") {
                methods.extend(macros.get(word(call)).cloned().unwrap_or_default());
            } else if depth == 4 && call == "}" {
                is_in_call = false;
            } else if is_in_call && depth == 8 && call.contains('(') && !call.starts_with('/') {
                methods.insert(word(call).to_owned());
            } else if depth == 4
                && let Some(name) = function(line, *is_trait)
            {
                methods.insert(name.to_owned());
            }
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<Source> {
    let mut paths = Vec::new();
    files(folder, &mut paths);
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a source");
    let texts: Vec<(String, String)> = paths
        .iter()
        .map(|path| {
            let below = path.strip_prefix(folder).expect("it is below").with_extension("");
            let below = below.iter().filter_map(|it| it.to_str()).filter(|it| *it != "mod");
            (below.collect::<Vec<_>>().join("::"), read(path))
        })
        .collect();
    let macros = texts.iter().flat_map(|(_, text)| macros(text)).collect();
    let source = |(module, text): (String, String)| {
        let methods = methods(&text, &macros);
        Source { module, text, methods }
    };
    texts.into_iter().map(source).collect()
}

/// The paths of a `use`, each with the name under which it is seen.
fn uses(tree: &str, before: &str, found: &mut Vec<(String, String)>) {
    let mut depth = 0;
    let mut start = 0;
    let tree = tree.trim();
    for (place, character) in tree.char_indices().chain([(tree.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = tree[start..place].trim();
                start = place + 1;
                if let Some((path, rest)) = part.split_once('{') {
                    uses(rest.strip_suffix('}').unwrap_or(rest), &format!("{before}{path}"), found);
                } else if !part.is_empty() {
                    let (path, name) = part.split_once(" as ").unwrap_or((part, ""));
                    let last = path.rsplit("::").next().unwrap_or(path);
                    let name = if name.is_empty() { last } else { name };
                    found.push((format!("{before}{path}"), name.to_owned()));
                }
            }
            _ => {}
        }
    }
}

/// The public names of the crate whose sources are in `folder`; `others` are crates whose names it shows as its own.
pub fn of(folder: &Path, others: &[(&str, &Path)]) -> BTreeSet<String> {
    let own = sources(folder);
    let others: Vec<_> = others.iter().map(|(name, path)| (*name, sources(path))).collect();
    let mut names = BTreeSet::new();
    show(&own, &others, "lib", "", &mut names);
    names
}

/// Whether the attributes at the end of `text` give what comes next to tests alone.
fn is_of_tests(text: &str) -> bool {
    let attributes = text.lines().rev().take_while(|line| line.starts_with("#["));
    attributes.into_iter().any(|line| line.contains("feature = \"__") || line == "#[cfg(test)]")
}

/// Adds what `module` shows.
fn show(
    own: &[Source],
    others: &[(&str, Vec<Source>)],
    module: &str,
    prefix: &str,
    names: &mut BTreeSet<String>,
) {
    let Some(source) = own.iter().find(|it| it.module == module) else { return };
    let mut is_private = false;
    for item in source.text.split("\npub ") {
        // A feature of the peer's own tests.
        let was_private = std::mem::replace(&mut is_private, is_of_tests(item));
        if was_private || item.starts_with("//") {
            continue;
        }
        let (kind, rest) = item.split_once([' ', '\n']).unwrap_or((item, ""));
        let name = word(rest);
        match kind {
            "mod" => {
                names.insert(format!("{prefix}{name}"));
                let below = format!("{prefix}{name}::");
                if rest[name.len()..].starts_with(" {") {
                    let inside = rest.split("\n}").next().unwrap_or(rest);
                    for part in inside.split("pub use ").skip(1) {
                        let mut found = Vec::new();
                        uses(part.split(';').next().unwrap_or(part), "", &mut found);
                        for it in &found {
                            add(own, others, it, &below, names);
                        }
                    }
                } else {
                    let path =
                        if module == "lib" { name.to_owned() } else { format!("{module}::{name}") };
                    show(own, others, &path, &below, names);
                }
            }
            "use" => {
                let mut found = Vec::new();
                uses(rest.split(';').next().unwrap_or(rest), "", &mut found);
                for it in &found {
                    add(own, others, it, prefix, names);
                }
            }
            "struct" | "enum" | "trait" | "type" => {
                let path = format!("{module}::{name}").replace("lib::", "");
                add(own, others, &(path, name.to_owned()), prefix, names);
            }
            "fn" | "const" => {
                names.insert(format!("{prefix}{name}"));
            }
            _ => {}
        }
    }
}

/// Adds the type at `path` as `name`, with its methods.
fn add(
    own: &[Source],
    others: &[(&str, Vec<Source>)],
    (path, name): &(String, String),
    prefix: &str,
    names: &mut BTreeSet<String>,
) {
    let path = path.trim_start_matches("crate::").trim_start_matches("self::");
    let (module, kind) = path.rsplit_once("::").unwrap_or(("", path));
    let first = path.split("::").next().unwrap_or(path);
    let other = others.iter().find(|(name, _)| *name == first);
    let (from, module) = other.map_or((own, module), |(_, sources)| (sources, ""));
    names.insert(format!("{prefix}{name}"));
    // Of types of one name those that are near; methods may be in another file than the type.
    let near = |it: &&Source| it.module == module || it.module.starts_with(&format!("{module}::"));
    let mut all: Vec<_> = from.iter().filter(|it| it.methods.contains_key(kind)).collect();
    if all.iter().any(near) {
        let is_one_of_several =
            from.iter().filter(|it| it.text.contains(&format!("pub struct {kind} {{"))).count() > 1;
        all.retain(|it| !is_one_of_several || near(it));
    }
    for method in all.iter().flat_map(|it| &it.methods[kind]) {
        names.insert(format!("{prefix}{name}::{method}"));
    }
}

/// What of `theirs` is not in `ours`, as lines of a list: types without their methods first, then methods by type.
pub fn missing(theirs: &BTreeSet<String>, ours: &BTreeSet<String>) -> String {
    let gone: BTreeSet<&String> = theirs.difference(ours).collect();
    let within = |name: &str| name.rsplit_once("::").map_or(String::new(), |(of, _)| of.to_owned());
    let whole: Vec<_> = gone.iter().filter(|it| !gone.contains(&within(it))).collect();
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in whole {
        let of = within(name);
        let is_method = ours.contains(&of) && !of.is_empty();
        let (of, name) = if is_method {
            (of.clone(), &name[of.len() + 2..])
        } else {
            (String::new(), &name[..])
        };
        lines.entry(of).or_default().push(format!("`{name}`"));
    }
    let line = |(of, names): (&String, &Vec<String>)| {
        let of = if of.is_empty() { "whole".to_owned() } else { format!("`{of}`") };
        format!("- {of}: {}\n", names.join(", "))
    };
    lines.iter().map(line).collect()
}

/// The names of the peer of the adapter in `folder`, from the file that is checked in. With `VARVITE_PEER` they are held
/// against the peer's sources, which it names (`FOLDER`, then `CRATE=FOLDER` for those whose names it shows).
pub fn of_peer(folder: &Path) -> BTreeSet<String> {
    let file = folder.join("tests/names.txt");
    if let Ok(peer) = std::env::var("VARVITE_PEER") {
        let mut parts = peer.split_whitespace();
        let sources = Path::new(parts.next().expect("a folder"));
        let others: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let others: Vec<_> = others.iter().map(|(name, path)| (*name, Path::new(*path))).collect();
        let names = of(sources, &others);
        let text: String = names.iter().flat_map(|name| [&**name, "\n"]).collect();
        if std::env::var_os("VARVITE_WRITE_NAMES").is_some() {
            fs::write(&file, text).expect("the file can be written");
        } else {
            let there = fs::read_to_string(&file).expect("the file of names");
            assert_eq!(
                there, text,
                "the peer has other names: VARVITE_WRITE_NAMES=1 writes the file anew"
            );
        }
    }
    let text = fs::read_to_string(&file).expect("the file of names");
    text.lines().map(str::to_owned).collect()
}

/// Whether the list at the end of the README of the adapter in `folder` is `missing`.
pub fn hold_against_readme(folder: &Path, missing: &str) {
    let file = folder.join("README.md");
    let readme = fs::read_to_string(&file).expect("the README");
    let heading = "\n## Every name that is not there\n\n";
    let (before, list) = readme.split_once(heading).expect("the README has the list");
    let (words, list) = list.split_once("\n\n").expect("a paragraph and the list");
    if std::env::var_os("VARVITE_WRITE_NAMES").is_some() {
        let text = format!("{before}{heading}{words}\n\n{missing}");
        fs::write(&file, text).expect("the README can be written");
    } else {
        assert_eq!(list, missing, "README.md: VARVITE_WRITE_NAMES=1 writes the list anew");
    }
}
