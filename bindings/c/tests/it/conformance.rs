//! The conformance files in `bindings/conformance`: what every face replays. `README.md` there says what the lines mean.
//!
//! The answers are the models'; the engine must give the same, and its files are told by length and checksum.
//! `VARVITE_WRITE_CONFORMANCE=1 cargo test -p varvite-c conformance` writes them anew.

mod reopened;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use varvite::context::hash::to_hex;
use varvite::context::{CommitHash, CommitInfo, Configuration, Keep, Options, Store, Tree};
use varvite::disk::os::OsDisk;
use varvite::proof::{Encoding, record};
use varvite::{
    MergeOperator, OpenSnapshot, Session, SessionOptions, SnapshotContent, TableOptions,
};

use crate::calls::key_of;
use crate::model::context::{Node, Path as Steps};
use crate::model::table::{Change, Table, batch};
use crate::random::Random;

fn join(older: &[u8], newer: &[u8]) -> Vec<u8> {
    [older, newer].concat()
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", to_hex(bytes))
}

fn optional(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "null".to_owned(), quoted)
}

fn array(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// The checksum that zip files have, which every language has or has in eight lines.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320))
    })
}

/// Every file below `root` but the locks, by path: its length and checksum.
fn files(root: &Path) -> String {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if entry.file_name() != "lock" {
                let bytes = std::fs::read(entry.path()).unwrap();
                found.insert(path.to_str().unwrap().to_owned(), (bytes.len(), crc32(&bytes)));
            }
        }
    }
    array(found.into_iter().map(|(path, (length, crc))| format!("[\"{path}\",{length},{crc}]")))
}

/// Compares with the file that is there, or writes it.
fn settle(name: &str, lines: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../conformance").join(name);
    if std::env::var_os("VARVITE_WRITE_CONFORMANCE").is_some() {
        std::fs::write(&path, lines).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = lines.lines().zip(found.lines()).position(|(made, found)| made != found);
    assert!(
        lines == found,
        "bindings/conformance/{name} is not what the model and the engine say, from line \
         {differs:?} on: run VARVITE_WRITE_CONFORMANCE=1 cargo test -p varvite-c conformance"
    );
}

struct TableLines {
    random: Random,
    session: Option<Session>,
    tables: BTreeMap<String, (varvite::Table, Table)>,
    /// Those that are behind one handle, and what they should hold.
    shared: Option<(varvite::Tables, BTreeMap<String, Table>)>,
    lines: String,
}

/// A batch as a line has it.
fn operations(changes: &[Change]) -> String {
    array(changes.iter().map(|change| match change {
        Change::Insert(key, value) => format!("[\"insert\",{},{}]", quoted(key), quoted(value)),
        Change::Delete(key) => format!("[\"delete\",{}]", quoted(key)),
        Change::Upsert(key, value) => format!("[\"upsert\",{},{}]", quoted(key), quoted(value)),
        Change::DeleteRange(from, before) => {
            format!("[\"delete_range\",{},{}]", quoted(from), quoted(before))
        }
        Change::DeletePrefix(prefix) => format!("[\"delete_prefix\",{}]", quoted(prefix)),
    }))
}

impl TableLines {
    fn line(&mut self, line: &str) {
        writeln!(self.lines, "{{{line}}}").unwrap();
    }

    fn open(&mut self, folder: &Path, create: bool, seed: u64) {
        let options = SessionOptions { seed: Some(seed), ..SessionOptions::default() };
        let disk = OsDisk::create(folder).unwrap();
        let session =
            if create { Session::create(disk, options) } else { Session::open(disk, options) };
        self.session = Some(session.unwrap());
        let what = if create { "create_session" } else { "open_session" };
        self.line(&format!(r#""do":"{what}","seed":{seed}"#));
    }

    fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    fn create(&mut self, name: &str) {
        let options = TableOptions {
            write_buffer_bytes: 1024,
            size_ratio: 2,
            blob_min_bytes: Some(60),
            ..TableOptions::default()
        };
        let options = options.with_operator(MergeOperator::append());
        let table = self.session().create_table(name, options).unwrap();
        self.tables.insert(name.to_owned(), (table, Table::default()));
        self.line(&format!(
            r#""do":"create_table","table":"{name}","write_buffer_bytes":1024,"size_ratio":2,"blob_min_bytes":60,"operator":"append""#
        ));
    }

    fn changes(&mut self, count: usize) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..count {
            let key = key_of(self.random.below(90));
            let length = self.random.index(24) + if self.random.one_in(12) { 60 } else { 0 };
            let value = self.random.bytes(length);
            changes.push(match self.random.below(20) {
                0..4 => Change::Delete(key),
                4..8 => Change::Upsert(key, value),
                8 => Change::DeleteRange(key, key_of(self.random.below(90))),
                // Those of ten keys.
                9 => Change::DeletePrefix(key[..6].to_vec()),
                _ => Change::Insert(key, value),
            });
        }
        changes
    }

    fn update(&mut self, name: &str, count: usize) {
        let changes = self.changes(count);
        let (table, model) = self.tables.get_mut(name).unwrap();
        table.update(&batch(&changes)).unwrap();
        model.update(&changes, Some(join));
        let operations = operations(&changes);
        self.line(&format!(r#""do":"update","table":"{name}","operations":{operations}"#));
    }

    fn lookup(&mut self, name: &str) {
        let keys: Vec<_> = (0..9).map(|_| key_of(self.random.below(100))).collect();
        let (table, model) = &self.tables[name];
        let found = table.lookup(&keys).unwrap();
        let expected: Vec<_> = keys.iter().map(|it| model.get(it)).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        let keys = array(keys.iter().map(|it| quoted(it)));
        let found = array(expected.into_iter().map(optional));
        self.line(&format!(r#""do":"lookup","table":"{name}","keys":{keys},"found":{found}"#));
    }

    fn range(&mut self, name: &str, lower: Option<u64>, upper: Option<u64>) {
        let (lower, upper) = (lower.map(key_of), upper.map(key_of));
        let from = lower.as_ref().map_or(Bound::Unbounded, |it| Bound::Included(&it[..]));
        let to = upper.as_ref().map_or(Bound::Unbounded, |it| Bound::Excluded(&it[..]));
        let (table, model) = &self.tables[name];
        let expected = model.range(from, to);
        let entries = table.range((from, to)).map(|entry| {
            let (key, value) = entry.unwrap();
            (key.into(), value.into())
        });
        assert_eq!(entries.collect::<Vec<(Vec<u8>, Vec<u8>)>>(), expected);
        let found = array(expected.iter().flat_map(|it| [quoted(&it.0), quoted(&it.1)]));
        let (from, to) = (optional(lower.as_deref()), optional(upper.as_deref()));
        self.line(&format!(
            r#""do":"range","table":"{name}","from":{from},"before":{to},"found":{found}"#
        ));
    }

    /// What begins with a prefix, from the front, and the keys of it from the back.
    fn prefix(&mut self, name: &str, prefix: &[u8]) {
        let (table, model) = &self.tables[name];
        let all = model.range(Bound::Unbounded, Bound::Unbounded);
        let expected: Vec<_> = all.into_iter().filter(|it| it.0.starts_with(prefix)).collect();
        let entries = table.prefix(prefix).map(|entry| {
            let (key, value) = entry.unwrap();
            (key.into(), value.into())
        });
        assert_eq!(entries.collect::<Vec<(Vec<u8>, Vec<u8>)>>(), expected);
        let keys = table.prefix(prefix).keys().rev().map(|it| it.unwrap().to_vec());
        assert!(keys.eq(expected.iter().rev().map(|it| it.0.clone())));
        let prefix = quoted(prefix);
        let found = array(expected.iter().flat_map(|it| [quoted(&it.0), quoted(&it.1)]));
        self.line(&format!(r#""do":"prefix","table":"{name}","prefix":{prefix},"found":{found}"#));
        let keys = array(expected.iter().rev().map(|it| quoted(&it.0)));
        self.line(&format!(
            r#""do":"keys_back","table":"{name}","prefix":{prefix},"found":{keys}"#
        ));
    }

    /// Deletes a range of one table by itself.
    fn delete_range(&mut self, name: &str, lower: u64, upper: u64) {
        let (lower, upper) = (key_of(lower), key_of(upper));
        let (table, model) = self.tables.get_mut(name).unwrap();
        table.delete_range(Bound::Included(&lower[..]), Bound::Excluded(&upper[..])).unwrap();
        model.update(&[Change::DeleteRange(lower.clone(), upper.clone())], Some(join));
        let (from, to) = (quoted(&lower), quoted(&upper));
        self.line(&format!(r#""do":"delete_range","table":"{name}","from":{from},"before":{to}"#));
    }

    fn save(&mut self, snapshot: &str, name: &str) {
        let content =
            SnapshotContent { label: "mark", payload: b"slot", tables: &[&self.tables[name].0] };
        self.session().save_snapshot(snapshot, content).unwrap();
        self.line(&format!(
            r#""do":"save_snapshot","snapshot":"{snapshot}","label":"mark","payload":"{}","tables":["{name}"]"#,
            to_hex(b"slot")
        ));
    }

    fn take(&mut self, snapshot: &str, name: &str, model: &Table) {
        let mut opened = self.session().open_snapshot(snapshot, &OpenSnapshot::default()).unwrap();
        let table = opened.take(name).unwrap();
        self.tables.insert(name.to_owned(), (table, model.clone()));
        self.line(&format!(r#""do":"open_snapshot","snapshot":"{snapshot}","take":"{name}""#));
    }

    fn union(&mut self, name: &str, of: [&str; 2]) {
        let [left, right] = of.map(|it| &self.tables[it]);
        let union = self.session().union(name, &[&left.0, &right.0]).unwrap();
        let model = Table::union(&[&left.1, &right.1], Some(join));
        self.tables.insert(name.to_owned(), (union, model));
        self.line(&format!(r#""do":"union","table":"{name}","of":["{}","{}"]"#, of[0], of[1]));
    }

    /// Puts tables behind one handle, until the session is closed.
    fn share(&mut self, names: [&str; 2]) {
        let (tables, models): (Vec<_>, BTreeMap<_, _>) = names
            .iter()
            .map(|name| {
                let (table, model) = self.tables.remove(*name).unwrap();
                (table, ((*name).to_owned(), model))
            })
            .unzip();
        self.shared = Some((self.session().share(tables).unwrap(), models));
        self.line(&format!(r#""do":"share","tables":["{}","{}"]"#, names[0], names[1]));
    }

    /// A transaction over the shared tables that reads what it wrote, and stands or not.
    fn transaction(&mut self, names: [&str; 2], ends: &str) {
        let (shared, mut models) = self.shared.clone().unwrap();
        let mut transaction = shared.begin();
        let mut steps = Vec::new();
        for step in 0..8 {
            let name = names[self.random.index(2)];
            let model = models.get_mut(name).unwrap();
            if step % 2 == 0 {
                let changes = self.changes(10);
                transaction.batch(name).unwrap().append(&batch(&changes));
                model.update(&changes, Some(join));
                steps.push(format!(r#"["update","{name}",{}]"#, operations(&changes)));
                continue;
            }
            let keys: Vec<_> = (0..5).map(|_| key_of(self.random.below(100))).collect();
            let found = transaction.lookup(name, &keys).unwrap();
            let expected: Vec<_> = keys.iter().map(|it| model.get(it)).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected);
            let keys = array(keys.iter().map(|it| quoted(it)));
            let found = array(expected.into_iter().map(optional));
            steps.push(format!(r#"["lookup","{name}",{keys},{found}]"#));
        }
        if ends == "commit" {
            transaction.commit().unwrap();
            self.shared = Some((shared, models));
        } else {
            transaction.rollback();
        }
        let steps = array(steps);
        self.line(&format!(r#""do":"transaction","steps":{steps},"ends":"{ends}""#));
    }

    fn shared_lookup(&mut self, name: &str) {
        let keys: Vec<_> = (0..9).map(|_| key_of(self.random.below(100))).collect();
        let (shared, models) = self.shared.as_ref().unwrap();
        let found = shared.lookup(name, &keys).unwrap();
        let expected: Vec<_> = keys.iter().map(|it| models[name].get(it)).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        let keys = array(keys.iter().map(|it| quoted(it)));
        let found = array(expected.into_iter().map(optional));
        self.line(&format!(
            r#""do":"shared_lookup","table":"{name}","keys":{keys},"found":{found}"#
        ));
    }

    fn save_shared(&mut self, snapshot: &str) {
        let (shared, _) = self.shared.as_ref().unwrap();
        shared.with(|tables| {
            let tables: Vec<&varvite::Table> = tables.iter().collect();
            let content = SnapshotContent { label: "mark", payload: b"slot", tables: &tables };
            self.session().save_snapshot(snapshot, content).unwrap();
        });
        self.line(&format!(
            r#""do":"save_shared","snapshot":"{snapshot}","label":"mark","payload":"{}""#,
            to_hex(b"slot")
        ));
    }

    /// Closes the tables and the session, and tells the files.
    fn close(&mut self, folder: &Path) {
        self.shared = None;
        self.tables.clear();
        self.session.take().unwrap().close().unwrap();
        self.line(&format!(r#""do":"close_session","files":{}"#, files(folder)));
    }
}

#[test]
fn the_table_file_of_the_conformance_set_is_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut set = TableLines {
        random: Random::new(5),
        session: None,
        tables: BTreeMap::new(),
        shared: None,
        lines: String::new(),
    };
    set.open(folder.path(), true, 11);
    set.create("a");
    for round in 0..8 {
        set.update("a", 20);
        set.lookup("a");
        if round % 3 == 0 {
            set.range("a", Some(10), Some(30));
            set.prefix("a", b"key 04");
        }
    }
    set.delete_range("a", 70, 75);
    set.range("a", Some(60), None);
    set.prefix("a", b"");
    set.prefix("a", b"none");
    set.save("first", "a");
    let saved = set.tables["a"].1.clone();
    set.update("a", 20);
    set.create("b");
    set.update("b", 40);
    set.union("both", ["a", "b"]);
    set.lookup("both");
    set.range("both", None, Some(20));
    set.save("second", "both");
    let both = set.tables["both"].1.clone();
    set.close(folder.path());
    set.open(folder.path(), false, 12);
    set.take("first", "a", &saved);
    set.lookup("a");
    set.take("second", "both", &both);
    set.range("both", Some(60), None);
    set.prefix("both", b"key 0");
    set.update("both", 30);
    set.lookup("both");
    set.save("third", "both");
    let pair = ["c", "d"];
    for name in pair {
        set.create(name);
        set.update(name, 20);
    }
    set.share(pair);
    for ends in ["commit", "rollback", "commit", "commit"] {
        set.transaction(pair, ends);
        set.shared_lookup("c");
        set.shared_lookup("d");
    }
    set.save_shared("shared");
    let (_, models) = set.shared.clone().unwrap();
    set.close(folder.path());
    set.open(folder.path(), false, 14);
    set.take("shared", "d", &models["d"]);
    set.range("d", None, None);
    set.close(folder.path());
    settle("table.jsonl", &set.lines);
}

struct ContextLines {
    configuration: Configuration,
    random: Random,
    trees: BTreeMap<String, (Tree, Node)>,
    lines: String,
}

fn path_text(path: &Steps) -> String {
    array(path.iter().map(|it| quoted(it)))
}

impl ContextLines {
    fn new(configuration: Configuration, seed: u64) -> ContextLines {
        let (random, trees) = (Random::new(seed), BTreeMap::new());
        ContextLines { configuration, random, trees, lines: String::new() }
    }

    fn line(&mut self, line: &str) {
        writeln!(self.lines, "{{{line}}}").unwrap();
    }

    /// A path; of a large directory when that is `wide`.
    fn path(&mut self, wide: u64) -> Steps {
        if wide > 100 {
            return vec![b"wide".to_vec(), format!("{}", self.random.below(wide)).into_bytes()];
        }
        (0..=self.random.index(3))
            .map(|depth| format!("{}", self.random.below([2, 3, wide][depth])).into_bytes())
            .collect()
    }

    fn change(&mut self, name: &str, wide: u64) {
        let (path, length) = (self.path(wide), self.random.index(30));
        let value = self.random.bytes(length);
        let is_removed = self.random.one_in(6);
        let (tree, model) = self.trees.get_mut(name).unwrap();
        let steps = path_text(&path);
        if is_removed {
            tree.remove(&path).unwrap();
            model.remove(&path);
            self.line(&format!(r#""do":"remove","tree":"{name}","path":{steps}"#));
            return;
        }
        tree.add(&path, &value).unwrap();
        let value_text = quoted(&value);
        model.put(&path, Node::Value(value));
        self.line(&format!(r#""do":"add","tree":"{name}","path":{steps},"value":{value_text}"#));
    }

    fn find(&mut self, name: &str) -> Steps {
        let path = self.path(12);
        let (tree, model) = &self.trees[name];
        let value = match model.get(&path) {
            Some(Node::Value(value)) => Some(value.clone()),
            _ => None,
        };
        assert_eq!(tree.find(&path).unwrap(), value);
        let (steps, value) = (path_text(&path), optional(value.as_deref()));
        self.line(&format!(r#""do":"find","tree":"{name}","path":{steps},"found":{value}"#));
        path
    }

    /// What is at a path, and the children of the directory that it goes through, which has them by name.
    fn ask(&mut self, name: &str) {
        let path = self.find(name);
        let (tree, model) = &self.trees[name];
        let above = &path[..1].to_vec();
        let listed: Vec<_> = match model.get(above) {
            Some(Node::Directory(children)) => children
                .iter()
                .map(|(name, child)| (name.clone(), matches!(child, Node::Value(_))))
                .collect(),
            _ => Vec::new(),
        };
        let names = tree.list(above, 0, u64::MAX).unwrap();
        assert!(names.iter().map(|it| &it.0).eq(listed.iter().map(|it| &it.0)));
        let kind = |is_value| if is_value { "\"value\"" } else { "\"directory\"" };
        let listed = array(
            listed.into_iter().flat_map(|(name, value)| [quoted(&name), kind(value).to_owned()]),
        );
        let above = path_text(above);
        self.line(&format!(r#""do":"list","tree":"{name}","path":{above},"found":{listed}"#));
    }

    fn commit(&mut self, store: &mut Store, name: &str, parents: &[CommitHash]) -> CommitHash {
        let (tree, model) = self.trees.get_mut(name).unwrap();
        let root = model.hash(self.configuration);
        assert_eq!(tree.hash().unwrap(), root);
        let date = 1_600_000_000 + parents.len() as i64;
        let hash = store.commit(tree, &CommitInfo::new(parents, date, "baker", "level")).unwrap();
        let expected =
            varvite::context::hash::commit(&root.into(), parents, date, b"baker", b"level");
        assert_eq!(hash, expected);
        self.line(&format!(r#""do":"hash","tree":"{name}","hash":{}"#, quoted(&root)));
        let parents = array(parents.iter().map(|it| quoted(it.as_ref())));
        let (author, message) = (quoted(b"baker"), quoted(b"level"));
        self.line(&format!(
            r#""do":"commit","tree":"{name}","parents":{parents},"date":{date},"author":{author},"message":{message},"hash":{}"#,
            quoted(hash.as_ref())
        ));
        hash
    }

    fn checkout(&mut self, store: &Store, name: &str, commit: CommitHash, model: Node) {
        self.trees.insert(name.to_owned(), (store.checkout(&commit).unwrap(), model));
        let commit = quoted(commit.as_ref());
        self.line(&format!(r#""do":"checkout","tree":"{name}","commit":{commit}"#));
    }

    fn prove(&mut self, name: &str, stream: bool, (encoding, called): (Encoding, &str)) {
        let paths: Vec<_> = (0..3).map(|_| self.path(12)).collect();
        let (tree, model) = &self.trees[name];
        let look = |tree: &mut Tree| {
            paths.iter().map(|it| tree.find(it)).collect::<varvite::Result<Vec<_>>>()
        };
        let (recording, found) = record(tree, look).unwrap();
        let expected = paths.iter().map(|path| match model.get(path) {
            Some(Node::Value(value)) => Some(value.clone()),
            _ => None,
        });
        assert!(found.into_iter().eq(expected));
        let proof = if stream { recording.stream_proof() } else { recording.tree_proof() };
        let proof = quoted(&proof.unwrap().encode(encoding).unwrap());
        let paths = array(paths.iter().map(path_text));
        self.line(&format!(
            r#""do":"prove_finds","tree":"{name}","paths":{paths},"stream":{stream},"encoding":"{called}","proof":{proof}"#
        ));
    }
}

#[test]
fn the_context_file_of_the_conformance_set_is_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let disk = || OsDisk::create(folder.path()).unwrap();
    let options = || Options { seed: Some(13), ..Options::default() };
    let mut store = Store::create(disk(), options()).unwrap();
    let mut set = ContextLines::new(Configuration::TEZOS, 6);
    set.line(r#""do":"create_store","seed":13"#);
    set.trees.insert("t".to_owned(), (store.empty_tree(), Node::empty()));
    set.line(r#""do":"empty_tree","tree":"t""#);
    (0..40).for_each(|_| set.change("t", 12));
    (0..4).for_each(|_| set.ask("t"));
    let first = set.commit(&mut store, "t", &[]);
    let first_model = set.trees["t"].1.clone();
    // A directory beyond the flat limit of 256 entries.
    (0..400).for_each(|_| set.change("t", 900));
    assert!(set.trees["t"].0.length(&["wide"]).unwrap() > 256);
    (0..3).for_each(|_| set.ask("t"));
    let second = set.commit(&mut store, "t", &[first]);
    set.checkout(&store, "u", first, first_model);
    (0..10).for_each(|_| set.change("u", 12));
    let third = set.commit(&mut store, "u", &[first]);
    let merged = set.commit(&mut store, "t", &{
        let mut parents = [second, third];
        parents.sort_unstable();
        parents
    });
    for (name, commit) in [("main", merged), ("side", third)] {
        store.set_branch(name.as_bytes(), &commit).unwrap();
        let (name, commit) = (quoted(name.as_bytes()), quoted(commit.as_ref()));
        set.line(&format!(r#""do":"set_branch","branch":{name},"commit":{commit}"#));
    }
    let encodings = [(Encoding::V1, "v1"), (Encoding::V2, "v2"), (Encoding::Json, "json")];
    for encoding in encodings {
        set.prove("u", false, encoding);
        set.prove("t", true, encoding);
    }
    set.trees.clear();
    store.close().unwrap();
    set.line(&format!(r#""do":"close_store","files":{}"#, files(folder.path())));
    settle("context.jsonl", &set.lines);
}

/// Trees that are hashed and proven otherwise, and a branch whose name is no text.
#[test]
fn the_file_of_the_binary_shape_of_the_conformance_set_is_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = Configuration::TEZOS_BINARY;
    let options = Options { seed: Some(17), configuration, ..Options::default() };
    let mut store = Store::create(OsDisk::create(folder.path()).unwrap(), options).unwrap();
    let mut set = ContextLines::new(configuration, 10);
    set.line(r#""do":"create_store","seed":17,"configuration":"tezos-binary""#);
    set.trees.insert("t".to_owned(), (store.empty_tree(), Node::empty()));
    set.line(r#""do":"empty_tree","tree":"t""#);
    (0..60).for_each(|_| set.change("t", 12));
    (0..6).for_each(|_| {
        set.find("t");
    });
    let first = set.commit(&mut store, "t", &[]);
    (0..60).for_each(|_| set.change("t", 300));
    let second = set.commit(&mut store, "t", &[first]);
    let (name, commit) = (quoted(b"\xff\0 main"), quoted(second.as_ref()));
    store.set_branch(b"\xff\0 main", &second).unwrap();
    set.line(&format!(r#""do":"set_branch","branch":{name},"commit":{commit}"#));
    let encodings = [(Encoding::V1, "v1"), (Encoding::V2, "v2"), (Encoding::Json, "json")];
    for encoding in encodings {
        set.prove("t", false, encoding);
        set.prove("t", true, encoding);
    }
    set.trees.clear();
    store.close().unwrap();
    set.line(&format!(r#""do":"close_store","files":{}"#, files(folder.path())));
    settle("binary.jsonl", &set.lines);
}

/// What a collection takes, and what pins and branches keep.
struct KeepingLines {
    store: Store,
    context: ContextLines,
    commits: Vec<(CommitHash, Node)>,
}

impl KeepingLines {
    fn line(&mut self, line: &str) {
        self.context.line(line);
    }

    fn hash(&self, number: usize) -> String {
        quoted(self.commits[number].0.as_ref())
    }

    fn commit(&mut self) {
        (0..20).for_each(|_| self.context.change("t", 300));
        let parents: Vec<_> = self.commits.last().map(|it| it.0).into_iter().collect();
        let hash = self.context.commit(&mut self.store, "t", &parents);
        let model = self.context.trees["t"].1.clone();
        self.commits.push((hash, model));
    }

    fn pin(&mut self, number: usize) {
        self.store.pin(&self.commits[number].0).unwrap();
        let commit = self.hash(number);
        self.line(&format!(r#""do":"pin","commit":{commit}"#));
    }

    fn unpin(&mut self, number: usize, was: bool) {
        assert_eq!(self.store.unpin(&self.commits[number].0).unwrap(), was);
        let commit = self.hash(number);
        self.line(&format!(r#""do":"unpin","commit":{commit},"was":{was}"#));
    }

    /// Commits with numbers that the n-th divides are pinned, but for those that go.
    fn pin_every(&mut self, nth: usize, pinned: &[usize]) {
        let before = self.store.pins().unwrap().len();
        let added = self.store.pin_every(nth as u64).unwrap();
        assert_eq!(added as usize + before, pinned.len());
        self.line(&format!(r#""do":"pin_every","nth":{nth},"added":{added}"#));
        let pins = self.store.pins().unwrap();
        assert!(pins.iter().eq(pinned.iter().map(|it| &self.commits[*it].0)));
        let found = array(pins.iter().map(|it| quoted(it.as_ref())));
        self.line(&format!(r#""do":"pins","found":{found}"#));
    }

    fn collect(&mut self, number: usize) {
        self.store.collect(&self.commits[number].0).unwrap();
        let commit = self.hash(number);
        self.line(&format!(r#""do":"collect","commit":{commit}"#));
    }

    fn collect_keep(&mut self, newest: u64, began: bool) {
        assert_eq!(self.store.collect_keeping(&Keep::Newest(newest)).unwrap(), began);
        self.line(&format!(r#""do":"collect_keep","newest":{newest},"began":{began}"#));
    }

    fn collect_to_the_end(&mut self, credits: u64) {
        while self.store.collect_step(credits).unwrap() {}
        self.line(&format!(r#""do":"collect_to_the_end","credits":{credits}"#));
    }

    /// Which commits are there, with what they have; the others are collected.
    fn kept(&mut self, kept: &[usize]) {
        for number in 0..self.commits.len() {
            let (commit, model) = self.commits[number].clone();
            if kept.contains(&number) {
                self.context.checkout(&self.store, "u", commit, model);
                self.context.ask("u");
                continue;
            }
            let error = self.store.checkout(&commit).map(drop).unwrap_err();
            assert_eq!(error.kind(), varvite::Kind::Collected);
            let commit = self.hash(number);
            self.line(&format!(r#""do":"is_collected","commit":{commit}"#));
        }
    }
}

#[test]
fn the_file_of_collections_of_the_conformance_set_is_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let disk = || OsDisk::create(folder.path()).unwrap();
    let options = |seed| Options { seed: Some(seed), chunk_bytes: 4096, ..Options::default() };
    let mut context = ContextLines::new(Configuration::TEZOS, 8);
    let store = Store::create(disk(), options(15)).unwrap();
    context.line(r#""do":"create_store","seed":15,"chunk_bytes":4096"#);
    context.trees.insert("t".to_owned(), (store.empty_tree(), Node::empty()));
    context.line(r#""do":"empty_tree","tree":"t""#);
    let mut set = KeepingLines { store, context, commits: Vec::new() };
    (0..16).for_each(|_| set.commit());
    set.pin(3);
    set.pin(5);
    set.store.set_branch(b"kept", &set.commits[7].0).unwrap();
    let commit = set.hash(7);
    set.line(&format!(r#""do":"set_branch","branch":{},"commit":{commit}"#, quoted(b"kept")));
    set.collect(10);
    set.collect_keep(2, false);
    set.commit();
    set.collect_to_the_end(16);
    set.kept(&[3, 5, 7, 10, 11, 12, 13, 14, 15, 16]);
    set.unpin(3, true);
    set.unpin(3, false);
    set.pin_every(6, &[5, 12]);
    set.collect_keep(3, true);
    set.collect_to_the_end(16);
    set.kept(&[5, 7, 12, 14, 15, 16]);
    let KeepingLines { store, context: mut lines, .. } = set;
    lines.trees.clear();
    store.close().unwrap();
    lines.line(&format!(r#""do":"close_store","files":{}"#, files(folder.path())));
    settle("collect.jsonl", &lines.lines);
}
