//! The files of what is logged, opened again, walked through and refused.

use super::*;
use varvite::{Log, OpenTable};

/// A line of a call that is refused, which is `call` as if it were done.
fn refused(call: &str, error: &varvite::Error) -> String {
    format!(r#""do":"refused","kind":"{}","call":{{{call}}}"#, error.kind().name())
}

impl TableLines {
    fn open_logged(&mut self, folder: &Path, create: bool, seed: u64, log: (Log, &str)) {
        let options = SessionOptions { seed: Some(seed), log: log.0, ..SessionOptions::default() };
        let disk = OsDisk::create(folder).unwrap();
        let session =
            if create { Session::create(disk, options) } else { Session::open(disk, options) };
        self.session = Some(session.unwrap());
        let what = if create { "create_session" } else { "open_session" };
        self.line(&format!(r#""do":"{what}","seed":{seed},"log":"{}""#, log.1));
    }

    fn open_table(&mut self, name: &str, model: &Table) {
        let table = self.session().open_table(name, &OpenTable::default()).unwrap();
        self.tables.insert(name.to_owned(), (table, model.clone()));
        self.line(&format!(r#""do":"open_table","table":"{name}""#));
    }

    fn live_tables(&mut self, names: &[&str]) {
        assert_eq!(self.session().live_tables().unwrap(), names);
        let found = array(names.iter().map(|it| quoted(it.as_bytes())));
        self.line(&format!(r#""do":"live_tables","found":{found}"#));
    }

    /// Steps of a cursor from where a key is or would be.
    fn cursor(&mut self, name: &str, key: u64, steps: &str) {
        let key = key_of(key);
        let (table, model) = &self.tables[name];
        let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
        let mut expected = model.cursor(Bound::Unbounded, Bound::Unbounded);
        cursor.seek(&key);
        expected.seek(&key);
        let mut found = Vec::new();
        for step in steps.chars() {
            let (got, due) = match step {
                'n' => (cursor.next().unwrap(), expected.next()),
                _ => (cursor.previous().unwrap(), expected.previous()),
            };
            assert_eq!(got, due);
            found.extend([optional(due.map(|it| it.0)), optional(due.map(|it| it.1))]);
        }
        let (key, found) = (quoted(&key), array(found));
        self.line(&format!(
            r#""do":"cursor","table":"{name}","key":{key},"steps":"{steps}","found":{found}"#
        ));
    }

    fn refused_calls(&mut self) {
        let create = r#""do":"create_table","table":"a","write_buffer_bytes":1024,"size_ratio":2,"blob_min_bytes":60,"operator":"append""#;
        let save =
            r#""do":"save_snapshot","snapshot":"once","label":"mark","payload":"","tables":["a"]"#;
        let options = TableOptions::default().with_operator(MergeOperator::append());
        let content =
            SnapshotContent { label: "mark", payload: b"", tables: &[&self.tables["a"].0] };
        let (session, opening) = (self.session(), OpenTable::default());
        let lines = [
            refused(create, &session.create_table("a", options).map(drop).unwrap_err()),
            refused(save, &session.save_snapshot("once", content).map(drop).unwrap_err()),
            refused(
                r#""do":"open_table","table":"a""#,
                &session.open_table("a", &opening).map(drop).unwrap_err(),
            ),
            refused(
                r#""do":"open_table","table":"none""#,
                &session.open_table("none", &opening).map(drop).unwrap_err(),
            ),
            refused(
                r#""do":"open_snapshot","snapshot":"none","take":"a""#,
                &session.open_snapshot("none", &OpenSnapshot::default()).map(drop).unwrap_err(),
            ),
        ];
        for line in &lines {
            self.line(line);
        }
    }

    /// Everything that a table has, from both ends and from between.
    fn walk(&mut self, name: &str) {
        self.range(name, None, None);
        for steps in ["nnnpppp", "ppnnn", "nnnnnnnnnnpn"] {
            let key = self.random.below(95);
            self.cursor(name, key, steps);
        }
        self.cursor(name, 99, "npppn");
    }
}

#[test]
fn the_file_of_logged_tables_of_the_conformance_set_is_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let (random, tables) = (Random::new(21), BTreeMap::new());
    let mut set = TableLines { random, session: None, tables, shared: None, lines: String::new() };
    set.open_logged(folder.path(), true, 21, (Log::Written, "written"));
    for name in ["a", "b"] {
        set.create(name);
        (0..4).for_each(|_| set.update(name, 25));
    }
    set.save("once", "a");
    set.update("a", 10);
    set.delete_range("b", 30, 40);
    set.walk("a");
    set.refused_calls();
    let [mut a, mut b] = ["a", "b"].map(|name| set.tables[name].1.clone());
    set.close(folder.path());
    // What no snapshot has is in the log alone; three times, the last with another log.
    for (seed, log) in [(22, Log::Written), (23, Log::Written), (24, Log::Synced)] {
        let called = if log == Log::Synced { "synced" } else { "written" };
        set.open_logged(folder.path(), false, seed, (log, called));
        set.live_tables(&["a", "b"]);
        set.open_table("b", &b);
        set.open_table("a", &a);
        set.walk("b");
        set.lookup("a");
        set.update("a", 15);
        set.update("b", 15);
        set.walk("a");
        set.refused_calls();
        [a, b] = ["a", "b"].map(|name| set.tables[name].1.clone());
        set.close(folder.path());
    }
    // So many sessions that log little that what both tables need of their files becomes one file.
    for seed in 25..32 {
        set.open_logged(folder.path(), false, seed, (Log::Written, "written"));
        set.open_table("a", &a);
        set.open_table("b", &b);
        set.update("a", 2);
        [a, b] = ["a", "b"].map(|name| set.tables[name].1.clone());
        set.close(folder.path());
    }
    let logs = std::fs::read_dir(folder.path().join("log")).unwrap().count();
    assert!(logs < 10, "{logs} log files: none were joined");
    set.open_logged(folder.path(), false, 32, (Log::Written, "written"));
    set.open_table("a", &a);
    set.open_table("b", &b);
    set.walk("a");
    set.walk("b");
    set.close(folder.path());
    settle("logged.jsonl", &set.lines);
}

/// Kind and path of all that is at `path` and below, a directory before its children.
fn visited(model: &Node, path: &mut Steps, found: &mut Vec<String>) {
    let kind = if matches!(model, Node::Value(_)) { "\"value\"" } else { "\"directory\"" };
    found.push(array(std::iter::once(kind.to_owned()).chain(path.iter().map(|it| quoted(it)))));
    let Node::Directory(children) = model else { return };
    for (name, child) in children {
        path.push(name.clone());
        visited(child, path, found);
        path.pop();
    }
}

impl ContextLines {
    fn fold(&mut self, name: &str, path: &[&str]) {
        let path: Steps = path.iter().map(|it| it.as_bytes().to_vec()).collect();
        let (tree, model) = &self.trees[name];
        let (mut got, mut found) = (Vec::new(), Vec::new());
        let each = |path: &[Vec<u8>], tree: &Tree| {
            let kind = match tree.kind() {
                varvite::context::Kind::Value => "\"value\"",
                varvite::context::Kind::Directory => "\"directory\"",
            };
            got.push(array(
                std::iter::once(kind.to_owned()).chain(path.iter().map(|it| quoted(it))),
            ));
            Ok(())
        };
        tree.fold(&path, None, varvite::context::Order::Sorted, each).unwrap();
        if let Some(model @ Node::Directory(_)) = model.get(&path) {
            visited(model, &mut Vec::new(), &mut found);
        }
        assert_eq!(got, found);
        let (path, found) = (path_text(&path), array(found));
        self.line(&format!(r#""do":"fold","tree":"{name}","path":{path},"found":{found}"#));
    }

    /// A page of a directory, and how many children it has.
    fn page(&mut self, name: &str, (offset, length): (u64, u64)) {
        let (tree, model) = &self.trees[name];
        let Node::Directory(children) = model else { panic!("the root is a directory") };
        let page = children.iter().skip(offset as usize).take(length as usize);
        let listed = tree.list::<&[u8]>(&[], offset, length).unwrap();
        assert!(listed.iter().map(|it| &it.0).eq(page.clone().map(|it| it.0)));
        let count = tree.length::<&[u8]>(&[]).unwrap();
        assert_eq!(count, children.len() as u64);
        let kind =
            |it: &Node| if matches!(it, Node::Value(_)) { "\"value\"" } else { "\"directory\"" };
        let found = array(page.flat_map(|(name, child)| [quoted(name), kind(child).to_owned()]));
        self.line(&format!(
            r#""do":"page","tree":"{name}","offset":{offset},"length":{length},"found":{found},"count":{count}"#
        ));
    }

    /// Every value that differs from one tree to another.
    fn diff(&mut self, name: &str, after: &str) {
        let ((before, old), (later, new)) = (&self.trees[name], &self.trees[after]);
        let (old, new) = (BTreeMap::from_iter(old.values()), BTreeMap::from_iter(new.values()));
        let paths: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let told = |path: &[Vec<u8>], sides: (Option<&[u8]>, Option<&[u8]>)| {
            let sides = [optional(sides.0), optional(sides.1)];
            array(sides.into_iter().chain(path.iter().map(|it| quoted(it))))
        };
        let differs = paths.into_iter().filter(|path| old.get(*path) != new.get(*path));
        let found: Vec<_> = differs
            .map(|path| {
                let side = |of: &'_ BTreeMap<Steps, Vec<u8>>| of.get(path).cloned();
                told(path, (side(&old).as_deref(), side(&new).as_deref()))
            })
            .collect();
        let mut got = Vec::new();
        let each = |path: &[Vec<u8>], change: varvite::context::Change| {
            got.push(told(path, change.sides()));
            Ok(())
        };
        before.diff(later, each).unwrap();
        assert_eq!(got, found);
        let found = array(found);
        self.line(&format!(r#""do":"diff","tree":"{name}","after":"{after}","found":{found}"#));
    }

    fn branch(&mut self, store: &Store, name: &str, commit: Option<CommitHash>) {
        assert_eq!(store.branch(name.as_bytes()), commit);
        let found = optional(commit.as_ref().map(AsRef::as_ref));
        let name = quoted(name.as_bytes());
        self.line(&format!(r#""do":"branch","branch":{name},"found":{found}"#));
    }

    fn refused_calls(&mut self, store: &mut Store) {
        let unknown = CommitHash::from([7; 32]);
        let commit = quoted(unknown.as_ref());
        let lines = [
            refused(
                &format!(r#""do":"checkout","tree":"none","commit":{commit}"#),
                &store.checkout(&unknown).map(drop).unwrap_err(),
            ),
            refused(
                &format!(r#""do":"set_branch","branch":{},"commit":{commit}"#, quoted(b"side")),
                &store.set_branch(b"side", &unknown).unwrap_err(),
            ),
            refused(&format!(r#""do":"pin","commit":{commit}"#), &store.pin(&unknown).unwrap_err()),
            refused(
                &format!(r#""do":"collect","commit":{commit}"#),
                &store.collect(&unknown).map(drop).unwrap_err(),
            ),
        ];
        for line in &lines {
            self.line(line);
        }
    }
}

#[test]
fn the_file_of_walks_of_the_conformance_set_is_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let disk = || OsDisk::create(folder.path()).unwrap();
    let options = |seed| Options { seed: Some(seed), ..Options::default() };
    let mut set = ContextLines::new(Configuration::TEZOS, 25);
    let mut store = Store::create(disk(), options(25)).unwrap();
    set.line(r#""do":"create_store","seed":25"#);
    set.trees.insert("t".to_owned(), (store.empty_tree(), Node::empty()));
    set.line(r#""do":"empty_tree","tree":"t""#);
    let (mut commits, mut last) = (Vec::new(), None);
    for seed in 26..29 {
        (0..30).for_each(|_| set.change("t", 12));
        let parents: Vec<_> = last.into_iter().collect();
        let commit = set.commit(&mut store, "t", &parents);
        commits.push((commit, set.trees["t"].1.clone()));
        last = Some(commit);
        store.set_branch(b"main", &commit).unwrap();
        let (name, hash) = (quoted(b"main"), quoted(commit.as_ref()));
        set.line(&format!(r#""do":"set_branch","branch":{name},"commit":{hash}"#));
        let paths: [&[&str]; 4] = [&[], &["0"], &["1", "0"], &["9"]];
        for path in paths {
            set.fold("t", path);
        }
        for page in [(0, 1), (1, 5), (2, 0), (9, 9)] {
            set.page("t", page);
        }
        set.refused_calls(&mut store);
        set.trees.clear();
        store.close().unwrap();
        set.line(&format!(r#""do":"close_store","files":{}"#, files(folder.path())));
        store = Store::open(disk(), options(seed)).unwrap();
        set.line(&format!(r#""do":"open_store","seed":{seed}"#));
        set.branch(&store, "main", last);
        set.branch(&store, "side", None);
        let (first, model) = commits[0].clone();
        set.checkout(&store, "u", first, model);
        let (newest, model) = commits[commits.len() - 1].clone();
        set.checkout(&store, "t", newest, model);
        set.diff("u", "t");
        set.diff("t", "u");
        set.ask("t");
    }
    set.trees.clear();
    store.close().unwrap();
    set.line(&format!(r#""do":"close_store","files":{}"#, files(folder.path())));
    settle("walked.jsonl", &set.lines);
}
