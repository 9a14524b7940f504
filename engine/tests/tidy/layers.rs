//! The layering rule: arrows between the modules of the engine, and between those of the program, from
//! their `crate::` and `super::` paths.
//!
//! `ARCHITECTURE.md` has the layers, and for a folder the order of what is in it: a block
//! ```` ```order table ```` for a face, ```` ```order table/merge ```` for a room in it, each step on a line
//! of its own or behind an arrow. The file beside a
//! folder is its door. It stands above all that is in the folder, unless the order places it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Tree, code};

/// Layers from the top down and orders from the bottom up, as `ARCHITECTURE.md` states them.
struct Map {
    layer: BTreeMap<String, usize>,
    orders: BTreeMap<String, Vec<Vec<String>>>,
}

impl Map {
    fn read(text: &str) -> Map {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut map = Map { layer: BTreeMap::new(), orders: BTreeMap::new() };
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(block) = line.strip_prefix("```").filter(|name| !name.is_empty()) else {
                continue;
            };
            let body = lines.by_ref().take_while(|line| *line != "```");
            let body: Vec<_> = body.flat_map(|line| line.split('→').map(words)).collect();
            if block == "layers" {
                for (depth, line) in body.iter().rev().enumerate() {
                    map.layer.extend(line.iter().map(|name| (name.clone(), depth)));
                }
            } else if let Some(face) = block.strip_prefix("order ") {
                map.orders.insert(face.to_owned(), body);
            }
        }
        map
    }
}

/// `engine/src/table/page.rs` is `table::page`; `engine/src/lib.rs` is the empty path. The program's
/// modules are below `cli`.
fn module_of(path: &str) -> Vec<&str> {
    let (root, inner) = match path.strip_prefix("cli/src/") {
        Some(inner) => (Some("cli"), inner),
        None => (None, path.trim_start_matches("engine/src/")),
    };
    let inner = inner.trim_end_matches(".rs");
    let inner = (!["lib", "main"].contains(&inner)).then_some(inner);
    root.into_iter().chain(inner.into_iter().flat_map(|inner| inner.split('/'))).collect()
}

/// The sources of the engine and of the program.
fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.rust("engine/src/").chain(tree.rust("cli/src/"))
}

/// The paths that begin at byte `at` of `text`, with groups multiplied out.
fn expand(text: &str, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        let rest = &text[at..];
        if rest.starts_with('{') {
            at += 1;
            loop {
                at += expand(&text[at..], &path, found);
                let end = text[at..].find([',', '}']);
                let Some(end) = end else { return text.len() };
                at += end + 1;
                let after = text[at..].trim_start();
                if text.as_bytes()[at - 1] == b'}' {
                    return at;
                }
                if after.starts_with('}') {
                    return at + text[at..].find('}').expect("just seen") + 1;
                }
            }
        }
        let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
            at += end;
        }
        if end == 0 || !text[at..].starts_with("::") {
            found.push(path);
            return at;
        }
        at += 2;
    }
}

/// Which modules `text`, the code of `module`, names.
fn arrows(module: &[&str], text: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let mut paths = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            // Who may see an item is no arrow.
            if text[..at].ends_with("pub(in ") {
                continue;
            }
            let before = text[..at].chars().next_back();
            if before.is_some_and(|it| it.is_alphanumeric() || it == '_' || it == ':') {
                continue;
            }
            expand(&text[at..], &[], &mut paths);
        }
    }
    let mut found = BTreeSet::new();
    for path in paths {
        let mut place: Vec<String> = module.iter().map(|part| (*part).to_owned()).collect();
        for part in path {
            match &*part {
                "crate" => place.retain(|part| part == "cli"),
                "super" => drop(place.pop()),
                _ => place.push(part),
            }
        }
        while !place.is_empty() && !modules.contains(&place.join("::")) {
            place.pop();
        }
        if !place.is_empty() {
            found.insert(place.join("::"));
        }
    }
    found
}

/// A door re-exports its room: such lines are no arrows. What it uses of its room is one.
fn child_arrows(module: &[&str], text: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let here = module.join("::");
    let uses = text.split(';').filter_map(|statement| {
        let line = statement.trim_start().lines().last()?.trim_start();
        let statement = statement.trim_start();
        let statement = if statement.starts_with("use ") { statement } else { line };
        statement.strip_prefix("use ")
    });
    uses.filter_map(|path| path.split("::").next())
        .map(|child| format!("{here}::{}", child.trim()))
        .filter(|child| modules.contains(child))
        .collect()
}

/// The arrows that point up, sideways or in a circle.
pub fn complaints(tree: &Tree) -> Vec<String> {
    let Some(architecture) = tree.texts.get("ARCHITECTURE.md") else {
        return vec!["ARCHITECTURE.md is missing".to_owned()];
    };
    let map = Map::read(architecture);
    let mut found = Vec::new();
    let modules: BTreeSet<String> =
        sources(tree).map(|(path, _)| module_of(path).join("::")).collect();
    let mut graph = Graph::new();
    for (path, text) in sources(tree) {
        let module = module_of(path);
        if module.is_empty() {
            continue;
        }
        let text = code(text);
        let mut to = arrows(&module, &text, &modules);
        to.extend(child_arrows(&module, &text, &modules));
        if module[0] == "context" {
            for inner in to.iter().filter(|it| it.starts_with("table::")) {
                found.push(format!("{path} uses {inner}: of the table only its public names"));
            }
        }
        let name = module.join("::");
        let is_pure =
            ["format", "outline"].contains(&module[0]) || name.starts_with("table::bytes");
        if is_pure && to.iter().any(|it| it.starts_with("disk")) {
            found.push(format!("{path} names the disk: it goes from bytes to bytes"));
        }
        graph.insert(name, to);
    }
    found.extend(layer_complaints(&map, &graph));
    for (folder, order) in &map.orders {
        found.extend(order_complaints(&folder.replace('/', "::"), order, &graph));
    }
    let folders: BTreeSet<_> =
        modules.iter().filter_map(|it| Some(it.rsplit_once("::")?.0)).collect();
    for folder in folders {
        let is_room = folder.starts_with("table::") && folder.split("::").count() == 2;
        if is_room && !map.orders.contains_key(&folder.replace("::", "/")) {
            found.push(format!("{folder} is a room without an order in ARCHITECTURE.md"));
        }
        found.extend(cycle(&inside(folder, &graph)));
    }
    found.extend(cycle(&inside("", &graph)));
    found
}

/// Which modules each module imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The arrows between the parts of a folder: its files, each with all that is in a folder of its own.
/// The door is a part that nothing imports here, since a door is part of the folder outside.
fn inside(folder: &str, graph: &Graph) -> Graph {
    let mut parts = Graph::new();
    for (from, arrows) in graph {
        let Some(from) = part_of(folder, from) else { continue };
        let to = arrows.iter().filter_map(|to| part_of(folder, to));
        let to: BTreeSet<_> = to.filter(|to| *to != from && *to != folder).collect();
        parts.entry(from).or_default().extend(to);
    }
    parts
}

/// The part of `folder` that `module` belongs to; the folder's own name for its door.
fn part_of(folder: &str, module: &str) -> Option<String> {
    let depth = if folder.is_empty() { 0 } else { folder.split("::").count() };
    let below = folder.is_empty() || module.starts_with(&format!("{folder}::"));
    (below || module == folder)
        .then(|| module.split("::").take(depth + 1).collect::<Vec<_>>().join("::"))
}

fn layer_complaints(map: &Map, graph: &Graph) -> Vec<String> {
    let top = |name: &str| name.split("::").next().expect("a split has a first part").to_owned();
    let mut found = Vec::new();
    for (from, arrows) in graph {
        let Some(height) = map.layer.get(&top(from)) else {
            found.push(format!("{from} is in no layer of ARCHITECTURE.md"));
            continue;
        };
        for to in arrows.iter().filter(|to| top(to) != top(from)) {
            if map.layer.get(&top(to)).is_none_or(|depth| depth >= height) {
                found.push(format!("{from} imports {to}, which is not below it"));
            }
        }
    }
    found
}

fn order_complaints(folder: &str, order: &[Vec<String>], graph: &Graph) -> Vec<String> {
    let door = folder.rsplit("::").next().expect("a split has a last part");
    let place = |part: &str| {
        let short = if part == folder { door } else { &part[folder.len() + 2..] };
        let listed = order.iter().position(|line| line.iter().any(|name| name == short));
        listed.or_else(|| (part == folder).then_some(order.len()))
    };
    let parts = || graph.keys().filter_map(|module| part_of(folder, module));
    let mut found = BTreeSet::new();
    for part in parts() {
        if place(&part).is_none() {
            found
                .insert(format!("{part} is missing from the order of {folder} in ARCHITECTURE.md"));
        }
    }
    for (module, arrows) in graph {
        let Some(from) = part_of(folder, module) else { continue };
        let Some(height) = place(&from) else { continue };
        for to in arrows.iter().filter_map(|to| part_of(folder, to)).filter(|to| *to != from) {
            if place(&to).is_none_or(|depth| depth >= height) {
                found.insert(format!("{module} imports {to}, which is not above it in the order"));
            }
        }
    }
    for name in order.iter().flatten().filter(|name| *name != door) {
        if parts().all(|part| part != format!("{folder}::{name}")) {
            found.insert(format!("ARCHITECTURE.md orders {folder}::{name}, which does not exist"));
        }
    }
    found.into_iter().collect()
}

/// One cycle, if there is any: what remains when modules that import nothing are taken away.
fn cycle(graph: &Graph) -> Option<String> {
    let mut left = graph.clone();
    loop {
        let free: Vec<_> =
            left.iter().filter(|(_, to)| to.is_empty()).map(|(name, _)| name.clone()).collect();
        if free.is_empty() {
            break;
        }
        for name in &free {
            left.remove(name);
        }
        for arrows in left.values_mut() {
            arrows.retain(|to| !free.contains(to) && graph.contains_key(to));
        }
    }
    let names: Vec<_> = left.keys().cloned().collect();
    (!names.is_empty())
        .then(|| format!("these import each other in a circle: {}", names.join(", ")))
}
