//! The public interface of the library is what `api.txt` says, so that a change of it is seen in review.
//! `VARVITE_WRITE_API=1` writes the file anew.
//!
//! It is read from the sources: public items of public modules, those that such modules re-export, one by one or as
//! a module, and the public functions, fields and traits of these types. Of `raw`, whose signatures are no promise, only
//! the name is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, UseTree, Visibility};

/// An item and its place.
struct Found {
    module: String,
    /// As which the module is seen from outside.
    shown: String,
    is_public_module: bool,
    item: Item,
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether it is there for tests alone.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("cfg") && it.meta.to_token_stream().to_string().contains("test")
    })
}

/// Tokens with blanks only between words, however the library that prints them sets them.
fn text(tokens: &impl ToTokens) -> String {
    let tokens = tokens.to_token_stream().to_string();
    let is_word = |it: char| it.is_alphanumeric() || it == '_' || it == '\'';
    let mut text = String::new();
    let mut characters = tokens.chars().peekable();
    while let Some(character) = characters.next() {
        if !character.is_whitespace() {
            text.push(character);
        } else if text.chars().last().is_some_and(is_word)
            && characters.peek().is_some_and(|it| is_word(*it))
        {
            text.push(' ');
        }
    }
    text
}

/// The items that the calls of macros among `items` make: of macros of the same file that put one name for another.
fn expanded(items: &[Item]) -> Vec<Item> {
    let macros =
        || items.iter().filter_map(|item| if let Item::Macro(it) = item { Some(it) } else { None });
    let mut made = Vec::new();
    for call in macros().filter(|it| it.ident.is_none()) {
        let rules =
            macros().find(|it| it.ident.as_ref().is_some_and(|it| call.mac.path.is_ident(it)));
        let Some(rules) = rules else { continue };
        let (rules, given) = (text(&rules.mac.tokens), text(&call.mac.tokens));
        let name = given.rsplit(|it: char| !it.is_alphanumeric()).next().expect("there is one");
        let (pattern, body) = rules.split_once("=>{").expect("a macro has a body");
        let parameter = pattern.strip_suffix(":ident)").and_then(|it| it.rsplit('$').next());
        let parameter = parameter.expect("a macro takes documentation and a name");
        let body = body.rsplit_once('}').expect("it ends").0;
        let body = body
            .replace("$(#[$document])*", "")
            .replace(&format!("${parameter}"), &format!(" {name}"));
        made.extend(syn::parse_file(&body).expect("it is Rust").items);
    }
    made
}

/// Gathers the items of `items` and of the modules below.
fn gather(folder: &Path, items: Vec<Item>, module: &str, all: &mut Vec<Found>) {
    let made = expanded(&items);
    for item in items.into_iter().chain(made) {
        if let Item::Mod(below) = &item {
            let name = below.ident.to_string();
            if is_of_tests(&below.attrs) {
                continue;
            }
            let module = format!("{module}::{name}");
            let (file, inside) = (folder.join(format!("{name}.rs")), folder.join(&name));
            let items = if let Some((_, items)) = &below.content {
                items.clone()
            } else {
                let source = fs::read_to_string(&file).expect("the file of the module");
                syn::parse_file(&source).expect("it is Rust").items
            };
            gather(&inside, items, &module, all);
        }
        let (module, shown) = (module.to_owned(), String::new());
        all.push(Found { module, shown, is_public_module: false, item });
    }
}

/// The paths that a `use` in module `before` gives, and as what.
fn paths(tree: &UseTree, before: &str, found: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(path) => paths(&path.tree, &format!("{before}::{}", path.ident), found),
        UseTree::Name(name) if name.ident == "self" => {
            let last = before.rsplit("::").next().unwrap_or(before);
            found.push((before.to_owned(), last.to_owned()));
        }
        UseTree::Name(name) => {
            found.push((format!("{before}::{}", name.ident), name.ident.to_string()));
        }
        UseTree::Rename(name) => {
            found.push((format!("{before}::{}", name.ident), name.rename.to_string()));
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| paths(tree, before, found)),
        UseTree::Glob(_) => {}
    }
}

/// `path` from the root on.
fn absolute(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split("::") {
        match part {
            "crate" => parts = vec!["varvite"],
            "self" => {}
            "super" => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("::")
}

/// Where items stand, and what the modules import.
struct Names {
    declared: BTreeSet<(String, String)>,
    imported: BTreeMap<(String, String), String>,
}

impl Names {
    fn of(all: &[Found]) -> Names {
        let (mut declared, mut imported) = (BTreeSet::new(), BTreeMap::new());
        for found in all {
            if let Some((name, _)) = head(&found.item) {
                declared.insert((found.module.clone(), name));
            }
            if let Item::Use(it) = &found.item {
                let mut given = Vec::new();
                paths(&it.tree, &found.module, &mut given);
                imported.extend(
                    given
                        .into_iter()
                        .map(|(path, name)| ((found.module.clone(), name), absolute(&path))),
                );
            }
        }
        Names { declared, imported }
    }

    /// The module and the name under which the item at `path` is declared, if it is one of ours.
    fn resolve(&self, path: &str) -> Option<(String, String)> {
        let (module, name) = path.rsplit_once("::")?;
        let place = (module.to_owned(), name.to_owned());
        if self.declared.contains(&place) {
            return Some(place);
        }
        if let Some(path) = self.imported.get(&place) {
            return self.resolve(path);
        }
        // What stands behind a module that has another name here.
        let (above, last) = module.rsplit_once("::")?;
        let real = self.imported.get(&(above.to_owned(), last.to_owned()))?;
        self.resolve(&format!("{real}::{name}"))
    }
}

/// Has `module`, and the public ones in it, be public under the name `shown`, and so the modules that these re-export.
fn reach(module: &str, shown: &str, all: &mut [Found]) {
    let is_module = |it: &Found, path: &str| match &it.item {
        Item::Mod(below) => format!("{}::{}", it.module, below.ident) == path,
        _ => false,
    };
    let mut reached = Vec::new();
    for found in all.iter_mut().filter(|it| it.module == module) {
        found.is_public_module = true;
        shown.clone_into(&mut found.shown);
        match &found.item {
            Item::Mod(below) if is_public(&below.vis) => {
                let name = &below.ident;
                reached.push((format!("{module}::{name}"), name.to_string()));
            }
            Item::Use(it) if is_public(&it.vis) => paths(&it.tree, module, &mut reached),
            _ => {}
        }
    }
    for (path, name) in reached {
        if name != "raw" && all.iter().any(|it| is_module(it, &path)) {
            reach(&path, &format!("{shown}::{name}"), all);
        }
    }
}

/// What an item is called and whether it is public.
fn head(item: &Item) -> Option<(String, &Visibility)> {
    Some(match item {
        Item::Struct(it) => (it.ident.to_string(), &it.vis),
        Item::Enum(it) => (it.ident.to_string(), &it.vis),
        Item::Trait(it) => (it.ident.to_string(), &it.vis),
        Item::Type(it) => (it.ident.to_string(), &it.vis),
        Item::Fn(it) => (it.sig.ident.to_string(), &it.vis),
        Item::Const(it) => (it.ident.to_string(), &it.vis),
        _ => return None,
    })
}

fn is_open(attributes: &[Attribute]) -> &'static str {
    let is_open = attributes.iter().any(|it| it.path().is_ident("non_exhaustive"));
    if is_open { "#[non_exhaustive] " } else { "" }
}

/// The lines of the traits that a type derives.
fn derive(name: &syn::Ident, attributes: &[Attribute], lines: &mut BTreeSet<String>) {
    for list in attributes.iter().filter(|it| it.path().is_ident("derive")) {
        if let syn::Meta::List(list) = &list.meta {
            let traits = list.tokens.to_string();
            let traits = traits.split(',').map(str::trim).filter(|it| !it.is_empty());
            lines.extend(traits.map(|it| format!("impl {it} for {name}")));
        }
    }
}

/// The lines of a public item.
fn describe(item: &Item, lines: &mut BTreeSet<String>) {
    match item {
        Item::Struct(it) => {
            let (name, generics) = (&it.ident, text(&it.generics));
            derive(name, &it.attrs, lines);
            lines.insert(
                format!("struct {name}{generics} {}", is_open(&it.attrs)).trim_end().into(),
            );
            let fields = match &it.fields {
                Fields::Named(fields) => fields.named.iter().collect(),
                Fields::Unnamed(fields) => fields.unnamed.iter().collect(),
                Fields::Unit => Vec::new(),
            };
            for (number, field) in
                fields.into_iter().enumerate().filter(|(_, it)| is_public(&it.vis))
            {
                let field_name =
                    field.ident.as_ref().map_or(number.to_string(), ToString::to_string);
                lines.insert(format!("struct {name}.{field_name}: {}", text(&field.ty)));
            }
        }
        Item::Enum(it) => {
            let (name, generics) = (&it.ident, text(&it.generics));
            derive(name, &it.attrs, lines);
            lines.insert(format!("enum {name}{generics} {}", is_open(&it.attrs)).trim_end().into());
            for variant in &it.variants {
                let fields = text(&variant.fields).replace("#[doc=", "#[doc =");
                let fields =
                    if fields.contains("#[doc") { undocumented(&variant.fields) } else { fields };
                lines.insert(format!("enum {name}::{}{fields}", variant.ident));
            }
        }
        Item::Trait(it) => {
            lines.insert(format!(
                "trait {}{}: {}",
                it.ident,
                text(&it.generics),
                text(&it.supertraits)
            ));
            for below in &it.items {
                if let TraitItem::Fn(function) = below {
                    let default = if function.default.is_some() { " { … }" } else { "" };
                    lines.insert(format!("trait {}::{}{default}", it.ident, text(&function.sig)));
                }
            }
        }
        Item::Type(it) => {
            lines.insert(format!("type {}{}={}", it.ident, text(&it.generics), text(&it.ty)));
        }
        Item::Fn(it) => drop(lines.insert(text(&it.sig))),
        Item::Const(it) => drop(lines.insert(format!("const {}: {}", it.ident, text(&it.ty)))),
        _ => {}
    }
}

/// Fields without their documentation.
fn undocumented(fields: &Fields) -> String {
    let one = |it: &syn::Field| match &it.ident {
        Some(name) => format!("{name}: {}", text(&it.ty)),
        None => text(&it.ty),
    };
    let all: Vec<_> = fields.iter().map(one).collect();
    format!("{{{}}}", all.join(", "))
}

/// The lines of what the implementation gives to a type.
fn implement(it: &syn::ItemImpl, lines: &mut BTreeSet<String>) {
    let syn::Type::Path(path) = &*it.self_ty else { return };
    let Some(last) = path.path.segments.last() else { return };
    let own = text(last);
    if let Some((_, name, _)) = &it.trait_ {
        lines.insert(format!("impl {} for {own}", text(name)));
        return;
    }
    for below in &it.items {
        match below {
            ImplItem::Fn(function) if is_public(&function.vis) && !is_of_tests(&function.attrs) => {
                lines.insert(format!("{own}::{}", text(&function.sig)));
            }
            ImplItem::Const(constant) if is_public(&constant.vis) => {
                lines.insert(format!("{own}::const {}: {}", constant.ident, text(&constant.ty)));
            }
            _ => {}
        }
    }
}

/// Where a type belongs, with a colon: types of two faces may have one name.
fn face(module: &str) -> String {
    module.split("::").nth(1).map_or_else(String::new, |face| format!("{face}: "))
}

/// `lines` of an item in `module`, with its face.
fn of_face(module: &str, lines: BTreeSet<String>) -> impl Iterator<Item = String> {
    let face = face(module);
    lines.into_iter().map(move |line| format!("{face}{line}"))
}

/// The line of one of our traits for a type of somebody else's, or for every type of a kind.
fn lend(it: &syn::ItemImpl, name: &syn::Path) -> String {
    let limits = it.generics.where_clause.as_ref().map_or_else(String::new, text);
    let generics = text(&it.generics);
    format!("impl{generics} {} for {} {limits}", text(name), text(&*it.self_ty)).trim_end().into()
}

/// Every line of the interface.
fn interface() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = fs::read_to_string(folder.join("lib.rs")).expect("the root");
    let mut all = Vec::new();
    gather(&folder, syn::parse_file(&root).expect("it is Rust").items, "varvite", &mut all);
    reach("varvite", "varvite", &mut all);
    let names = Names::of(&all);
    let (mut exported, mut lines) = (BTreeSet::new(), BTreeSet::new());
    for found in all.iter().filter(|it| it.is_public_module) {
        match &found.item {
            Item::Use(it) if is_public(&it.vis) => {
                let mut given = Vec::new();
                paths(&it.tree, &found.module, &mut given);
                exported
                    .extend(given.iter().filter_map(|(path, _)| names.resolve(&absolute(path))));
                lines.insert(format!("{}: use {}", found.shown, text(&it.tree)));
            }
            Item::Mod(it) if is_public(&it.vis) => {
                lines.insert(format!("{}: mod {}", found.shown, it.ident));
            }
            item => {
                if let Some((name, _)) = head(item).filter(|(_, visibility)| is_public(visibility))
                {
                    lines.insert(format!("{}: {name}", found.shown));
                    exported.insert((found.module.clone(), name));
                }
            }
        }
    }
    for found in &all {
        let named = head(&found.item).filter(|(_, visibility)| is_public(visibility));
        if named.is_some_and(|(name, _)| exported.contains(&(found.module.clone(), name))) {
            let mut own = BTreeSet::new();
            describe(&found.item, &mut own);
            lines.extend(of_face(&found.module, own));
        }
        let Item::Impl(it) = &found.item else { continue };
        if is_of_tests(&it.attrs) {
            continue;
        }
        let ours = |path: &syn::Path| {
            let steps: Vec<_> = path.segments.iter().map(|it| it.ident.to_string()).collect();
            let path = absolute(&format!("{}::{}", found.module, steps.join("::")));
            names.resolve(&path).filter(|of| exported.contains(of))
        };
        let of = if let syn::Type::Path(of) = &*it.self_ty { ours(&of.path) } else { None };
        if let Some((module, _)) = of {
            let mut own = BTreeSet::new();
            implement(it, &mut own);
            lines.extend(of_face(&module, own));
        } else if let Some((_, name, _)) = &it.trait_
            && let Some((module, _)) = ours(name)
        {
            lines.extend(of_face(&module, BTreeSet::from([lend(it, name)])));
        }
    }
    lines
}

/// What another crate can reach and a change could take away unseen: a module of a re-exported one, and no private
/// function that is called as a public one.
#[test]
fn the_listing_has_what_is_reached_by_a_module_and_nothing_else() {
    let found = interface();
    let check =
        ["varvite::table::check: check_selected", "table: struct Selection.tables: Vec<String>"];
    let hash = ["context: impl Ord for CommitHash", "context: impl FromStr for TreeHash"]; // by a macro
    // Two types of one name, and a trait of ours for types of others.
    let two = [
        "context: struct Options.objects_bytes: u64",
        "irmin_pack: struct Options.objects_bytes: u64",
        "table: impl KeyBounds for ops::RangeFull",
    ];
    for line in check.iter().chain(&hash).chain(&two) {
        assert!(found.contains(*line), "{line} is not listed");
    }
    for part in ["fn segment(id:u64)", "State::fn check_room", "fn put_varint", "AppendFile"] {
        let listed = found.iter().find(|line| line.contains(part));
        assert_eq!(listed, None, "a private item is listed");
    }
}

#[test]
fn the_public_interface_is_what_the_file_says() {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api.txt");
    let found = interface();
    assert!(found.len() > 300, "the sources were not read: {}", found.len());
    if std::env::var_os("VARVITE_WRITE_API").is_some() {
        let text = found.iter().fold(String::new(), |text, line| text + line + "\n");
        fs::write(&file, text).expect("the file is written");
    }
    let said = fs::read_to_string(&file).expect("tests/api.txt");
    let said: BTreeSet<String> = said.lines().map(str::to_owned).collect();
    let gone: Vec<_> = said.difference(&found).map(|line| format!("- {line}")).collect();
    let new: Vec<_> = found.difference(&said).map(|line| format!("+ {line}")).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "the public interface changed; if that is meant, VARVITE_WRITE_API=1 writes tests/api.txt anew, and \
         CHANGELOG.md says so:\n{}\n{}",
        gone.join("\n"),
        new.join("\n")
    );
}
