//! The state machine: random steps through C's functions and on the models of the engine's own tests, which must agree
//! after every step. `VARVITE_STEPS` sets how many steps are made, `VARVITE_SEED` where the seeds begin.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::ptr::null;

use crate::calls::{Arena, NOTHING, bound, bytes, fails, key_of, ok, operation, read, slot, text};
use crate::model::context::{Node, Path};
use crate::model::table::{Change, Cursor, Table};
use crate::random::{Random, mix, setting};
use varvite_c::context::branch::*;
use varvite_c::context::proof::*;
use varvite_c::context::store::*;
use varvite_c::context::tree::*;
use varvite_c::table::cursor::*;
use varvite_c::table::lookup::*;
use varvite_c::table::operator::*;
use varvite_c::table::options::*;
use varvite_c::table::session::*;
use varvite_c::table::snapshot::*;
use varvite_c::table::stream::*;
use varvite_c::table::update::*;
use varvite_c::*;

/// Steps of one case.
const CASE: u64 = 120;

fn append(older: &[u8], newer: &[u8]) -> Vec<u8> {
    [older, newer].concat()
}

/// `append`, as a callback.
unsafe extern "C" fn append_callback(
    _: *mut std::ffi::c_void,
    older: varvite_bytes,
    newer: varvite_bytes,
    output: *mut varvite_output,
) -> i32 {
    [older, newer].into_iter().fold(VARVITE_OK, |status, piece| {
        // SAFETY: what a callback gets stays until it returns.
        status | unsafe { varvite_output_write(output, piece.data, piece.length) }
    })
}

/// Tables with what they must hold; a table, a view and a cursor are found by their place in the list.
struct Tables {
    random: Random,
    disk: *mut varvite_disk,
    session: *mut varvite_session,
    operator: *mut varvite_operator,
    tables: Vec<(*mut varvite_table, Table)>,
    views: Vec<(*mut varvite_view, Table)>,
    cursors: Vec<(*mut varvite_cursor, Cursor)>,
    snapshots: BTreeMap<String, Table>,
    arena: Arena,
    names: u64,
}

impl Tables {
    fn new(seed: u64) -> Tables {
        let mut tables = Tables {
            random: Random::new(seed),
            disk: slot(),
            session: slot(),
            operator: slot(),
            tables: Vec::new(),
            views: Vec::new(),
            cursors: Vec::new(),
            snapshots: BTreeMap::new(),
            arena: Arena::default(),
            names: 0,
        };
        ok!(varvite_disk_memory(seed, &raw mut tables.disk));
        ok!(varvite_session_create(tables.disk, null(), &raw mut tables.session));
        ok!(varvite_operator_new(
            text("append-here").as_ptr(),
            Some(append_callback),
            None,
            std::ptr::null_mut(),
            &raw mut tables.operator,
        ));
        tables.create();
        tables
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    fn create(&mut self) {
        let name = self.name();
        // SAFETY: options are numbers and pointers, for which zeros are values.
        let mut options: varvite_table_options = unsafe { std::mem::zeroed() };
        ok!(varvite_table_options_default(&raw mut options));
        options.write_buffer_bytes = 600;
        options.size_ratio = 2;
        options.blob_min_bytes = 40;
        options.merge_operator = self.operator;
        let mut table = slot();
        let (session, text) = (self.session, text(&name));
        ok!(varvite_session_create_table(
            session,
            text.as_ptr(),
            &raw const options,
            &raw mut table
        ));
        self.tables.push((table, Table::default()));
    }

    fn key(&mut self) -> Vec<u8> {
        key_of(self.random.below(60))
    }

    fn changes(&mut self, count: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..count {
            let key = self.key();
            let length = self.random.index(70);
            let value = self.random.bytes(length);
            changes.push(match self.random.below(4) {
                0 if self.random.one_in(9) => Change::DeleteRange(key, self.key()),
                0 if self.random.one_in(9) => Change::DeletePrefix(key[..key.len() - 1].to_vec()),
                0 => Change::Delete(key),
                1 => Change::Upsert(key, value),
                2 if self.random.one_in(9) => Change::Insert(Vec::new(), value),
                _ => Change::Insert(key, value),
            });
        }
        changes
    }

    fn update(&mut self) {
        let count = self.random.below(30);
        let changes = self.changes(count);
        let operations: Vec<_> = changes.iter().map(operation).collect();
        let index = self.random.index(self.tables.len());
        let (table, model) = &mut self.tables[index];
        ok!(varvite_table_apply(*table, operations.as_ptr(), operations.len()));
        model.update(&changes, Some(append));
    }

    fn lookup(&mut self) {
        let count = self.random.below(20);
        let keys: Vec<_> = (0..count).map(|_| self.key()).collect();
        let pieces: Vec<_> = keys.iter().map(|it| bytes(it)).collect();
        let from_view = !self.views.is_empty() && self.random.one_in(3);
        let model = if from_view {
            let (view, model) = &self.views[self.random.index(self.views.len())];
            ok!(varvite_view_lookup(*view, pieces.as_ptr(), pieces.len(), self.arena.place()));
            model
        } else {
            let (table, model) = &self.tables[self.random.index(self.tables.len())];
            ok!(varvite_table_lookup(*table, pieces.as_ptr(), pieces.len(), self.arena.place()));
            model
        };
        let expected: Vec<_> = keys.iter().map(|it| model.get(it).map(<[u8]>::to_vec)).collect();
        assert_eq!(self.arena.read(), expected);
    }

    fn bounds(&mut self) -> [Bound<Vec<u8>>; 2] {
        [(); 2].map(|()| {
            let key = self.key();
            match self.random.below(3) {
                0 => Bound::Unbounded,
                1 => Bound::Included(key),
                _ => Bound::Excluded(key),
            }
        })
    }

    fn range(&mut self) {
        let [lower, upper] = self.bounds();
        let (from, to) = (bound(&lower), bound(&upper));
        let index = self.random.index(self.tables.len());
        let (table, model) = &mut self.tables[index];
        let (from, to) = (&raw const from, &raw const to);
        let (lower, upper) = (lower.as_ref().map(|it| &it[..]), upper.as_ref().map(|it| &it[..]));
        match self.random.below(4) {
            0 => {
                ok!(varvite_table_delete_range(*table, from, to));
                model.delete_range(lower, upper);
            }
            1 => {
                let mut cursor = slot();
                ok!(varvite_table_cursor(*table, from, to, &raw mut cursor));
                self.cursors.push((cursor, model.cursor(lower, upper)));
            }
            _ => {
                ok!(varvite_table_range(*table, from, to, self.arena.place()));
                let expected: Vec<_> = model
                    .range(lower, upper)
                    .into_iter()
                    .flat_map(|(key, value)| [Some(key), Some(value)])
                    .collect();
                assert_eq!(self.arena.read(), expected);
            }
        }
    }

    fn step_cursor(&mut self) {
        if self.cursors.is_empty() {
            return;
        }
        let index = self.random.index(self.cursors.len());
        let to = self.key();
        let choice = self.random.below(8);
        let (cursor, model) = &mut self.cursors[index];
        let cursor = *cursor;
        let mut found = [NOTHING; 2];
        let [key, value] = &mut found;
        let expected = match choice {
            0 => {
                ok!(varvite_cursor_seek(cursor, &bytes(&to)));
                return model.seek(&to);
            }
            1 => {
                ok!(varvite_cursor_seek_first(cursor));
                return model.seek_first();
            }
            2 => {
                ok!(varvite_cursor_seek_last(cursor));
                return model.seek_last();
            }
            3 => {
                ok!(varvite_cursor_close(cursor));
                fails!(VARVITE_CLOSED, varvite_cursor_close(cursor));
                self.cursors.swap_remove(index);
                return;
            }
            4 | 5 => {
                ok!(varvite_cursor_next(cursor, &raw mut *key, &raw mut *value));
                model.next()
            }
            _ => {
                ok!(varvite_cursor_previous(cursor, &raw mut *key, &raw mut *value));
                model.previous()
            }
        };
        let expected = expected.map(|(key, value)| (key.to_vec(), value.to_vec()));
        let found = found.map(|it| read(&it));
        assert_eq!(found, [expected.clone().map(|it| it.0), expected.map(|it| it.1)]);
    }

    fn snapshot(&mut self) {
        let index = self.random.index(self.tables.len());
        if self.random.one_in(2) || self.snapshots.is_empty() {
            let name = self.name();
            let (table, model) = &self.tables[index];
            let payload = name.clone().into_bytes();
            let content = varvite_snapshot_content {
                label: null(),
                payload: bytes(&payload),
                tables: &raw const *table,
                table_count: 1,
            };
            let c_name = text(&name);
            ok!(varvite_session_save_snapshot(self.session, c_name.as_ptr(), &raw const content));
            self.snapshots.insert(name, model.clone());
            return;
        }
        let name = self.snapshots.keys().nth(self.random.index(self.snapshots.len()));
        let name = name.expect("drawn below their number").clone();
        let c_name = text(&name);
        let mut snapshot = slot();
        // SAFETY: options are numbers and pointers, for which zeros are values.
        let mut options: varvite_open_options = unsafe { std::mem::zeroed() };
        ok!(varvite_open_options_default(&raw mut options));
        (options.operators, options.operator_count) = (&raw const self.operator, 1);
        ok!(varvite_session_open_snapshot(
            self.session,
            c_name.as_ptr(),
            &raw const options,
            &raw mut snapshot
        ));
        ok!(varvite_snapshot_payload(snapshot, self.arena.place()));
        assert_eq!(self.arena.read(), [Some(name.clone().into_bytes())]);
        ok!(varvite_snapshot_tables(snapshot, self.arena.place()));
        let inside = String::from_utf8(self.arena.read()[0].clone().expect("a name")).unwrap();
        let (inside, mut table) = (text(&inside), slot());
        ok!(varvite_snapshot_take(snapshot, inside.as_ptr(), &raw mut table));
        ok!(varvite_snapshot_close(snapshot));
        self.tables.push((table, self.snapshots[&name].clone()));
        if self.random.one_in(2) {
            ok!(varvite_session_delete_snapshot(self.session, c_name.as_ptr()));
            self.snapshots.remove(&name);
        }
    }

    fn union(&mut self) {
        let picked: Vec<_> =
            (0..=self.random.index(3)).map(|_| self.random.index(self.tables.len())).collect();
        let handles: Vec<_> = picked.iter().map(|it| self.tables[*it].0).collect();
        let (name, mut union) = (text(&self.name()), slot());
        let (first, count, place) = (handles.as_ptr(), handles.len(), &raw mut union);
        if self.random.one_in(2) {
            ok!(varvite_session_union(self.session, name.as_ptr(), first, count, place));
        } else {
            let session = self.session;
            ok!(varvite_session_incremental_union(session, name.as_ptr(), first, count, place));
        }
        let models: Vec<_> = picked.iter().map(|it| &self.tables[*it].1).collect();
        let model = Table::union(&models, Some(append));
        self.tables.push((union, model));
    }

    fn derive(&mut self) {
        let index = self.random.index(self.tables.len());
        let name = text(&self.name());
        let (table, model) = self.tables[index].clone();
        if self.random.one_in(2) {
            let mut view = slot();
            ok!(varvite_table_view(table, &raw mut view));
            self.views.push((view, model));
        } else {
            let mut copy = slot();
            ok!(varvite_table_duplicate(table, name.as_ptr(), &raw mut copy));
            self.tables.push((copy, model));
        }
    }

    fn load(&mut self) {
        let (name, mut loader) = (text(&self.name()), slot());
        // SAFETY: options are numbers and pointers, for which zeros are values.
        let mut options: varvite_table_options = unsafe { std::mem::zeroed() };
        ok!(varvite_table_options_default(&raw mut options));
        options.merge_operator = self.operator;
        let (session, options) = (self.session, &raw const options);
        ok!(varvite_session_load_table(session, name.as_ptr(), options, 500, &raw mut loader));
        let mut model = Table::default();
        for _ in 0..self.random.below(30) {
            let (key, value) = (self.key(), self.random.bytes(9));
            let entry = [bytes(&key), bytes(&value)];
            ok!(varvite_loader_push(loader, entry.as_ptr(), 1, std::ptr::null_mut()));
            model.update(&[Change::Insert(key, value)], None);
        }
        let mut table = slot();
        ok!(varvite_loader_finish(loader, &raw mut table));
        self.tables.push((table, model));
    }

    fn close_one(&mut self) {
        if self.tables.len() > 1 {
            let index = self.random.index(self.tables.len());
            let (table, _) = self.tables.swap_remove(index);
            ok!(varvite_table_close(table));
            fails!(VARVITE_CLOSED, varvite_table_apply(table, null(), 0));
        }
        if !self.views.is_empty() {
            let index = self.random.index(self.views.len());
            ok!(varvite_view_close(self.views.swap_remove(index).0));
        }
    }

    /// Ends the session; what no snapshot has is gone, and every handle says so.
    fn reopen(&mut self) {
        ok!(varvite_session_close(self.session));
        for (table, _) in self.tables.drain(..) {
            fails!(VARVITE_CLOSED, varvite_table_range(table, null(), null(), self.arena.place()));
            ok!(varvite_table_close(table));
        }
        for (view, _) in self.views.drain(..) {
            ok!(varvite_view_close(view));
        }
        for (cursor, _) in self.cursors.drain(..) {
            ok!(varvite_cursor_close(cursor));
        }
        ok!(varvite_session_open(self.disk, null(), &raw mut self.session));
        ok!(varvite_session_snapshots(self.session, self.arena.place()));
        let names: Vec<_> = self.snapshots.keys().map(|it| Some(it.clone().into_bytes())).collect();
        let mut found = self.arena.read();
        found.sort();
        assert_eq!(found, names);
        self.create();
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..12 => self.update(),
            12..20 => self.lookup(),
            20..26 => self.range(),
            26..32 => self.step_cursor(),
            32..34 => self.snapshot(),
            34 => self.union(),
            35 => self.derive(),
            36 => self.load(),
            37 => self.create(),
            38 => self.close_one(),
            _ if self.random.one_in(4) => self.reopen(),
            _ => self.derive(),
        }
    }

    fn finish(mut self) {
        self.reopen();
        ok!(varvite_table_close(self.tables[0].0));
        ok!(varvite_session_close(self.session));
        ok!(varvite_operator_close(self.operator));
        ok!(varvite_disk_close(self.disk));
    }
}

#[test]
fn tables_through_c_agree_with_their_model() {
    let (steps, first) = (setting("VARVITE_STEPS", 3_000), setting("VARVITE_SEED", 1));
    for case in 0..steps.div_ceil(CASE) {
        let seed = mix(first + case);
        let mut tables = Tables::new(seed);
        (0..CASE).for_each(|_| tables.step());
        tables.finish();
    }
}

/// Working trees and commits with what they must hold.
struct Contexts {
    random: Random,
    disk: *mut varvite_disk,
    store: *mut varvite_store,
    trees: Vec<(*mut varvite_tree, Node)>,
    commits: Vec<(varvite_hash, Node)>,
    branches: BTreeMap<Vec<u8>, varvite_hash>,
    arena: Arena,
}

impl Contexts {
    fn new(seed: u64) -> Contexts {
        let (mut disk, mut store, mut tree) = (slot(), slot(), slot());
        ok!(varvite_disk_memory(seed, &raw mut disk));
        ok!(varvite_store_create(disk, null(), &raw mut store));
        ok!(varvite_store_empty_tree(store, &raw mut tree));
        Contexts {
            random: Random::new(seed),
            disk,
            store,
            trees: vec![(tree, Node::empty())],
            commits: Vec::new(),
            branches: BTreeMap::new(),
            arena: Arena::default(),
        }
    }

    fn path(&mut self) -> Path {
        (0..=self.random.index(3))
            .map(|depth| format!("{}", self.random.below([3, 5, 40][depth])).into_bytes())
            .collect()
    }

    fn change(&mut self) {
        let (path, length) = (self.path(), self.random.index(40));
        let value = self.random.bytes(length);
        let steps: Vec<_> = path.iter().map(|it| bytes(it)).collect();
        let (index, choice) = (self.random.index(self.trees.len()), self.random.below(5));
        let other = self.random.index(self.trees.len());
        let other = self.trees[other].clone();
        let (tree, model) = &mut self.trees[index];
        let (first, count) = (steps.as_ptr(), steps.len());
        match choice {
            0 => {
                ok!(varvite_tree_remove(*tree, first, count));
                model.remove(&path);
            }
            1 => {
                let mut part = slot();
                ok!(varvite_tree_find_tree(other.0, first, 1, &raw mut part));
                let found = other.1.get(&path[..1]);
                assert_eq!(part.is_null(), found.is_none());
                let Some(found) = found else { return };
                ok!(varvite_tree_add_tree(*tree, first, count, part));
                ok!(varvite_tree_close(part));
                model.put(&path, found.clone());
            }
            _ => {
                ok!(varvite_tree_add(*tree, first, count, &bytes(&value)));
                model.put(&path, Node::Value(value));
            }
        }
    }

    fn ask(&mut self) {
        let paths: Vec<_> = (0..5).map(|_| self.path()).collect();
        let steps: Vec<Vec<_>> =
            paths.iter().map(|path| path.iter().map(|it| bytes(it)).collect()).collect();
        let given: Vec<_> =
            steps.iter().map(|it| varvite_path { steps: it.as_ptr(), count: it.len() }).collect();
        let (tree, model) = &self.trees[self.random.index(self.trees.len())];
        ok!(varvite_tree_find_many(*tree, given.as_ptr(), given.len(), self.arena.place()));
        let value = |path: &Path| match model.get(path) {
            Some(Node::Value(value)) => Some(value.clone()),
            _ => None,
        };
        assert_eq!(self.arena.read(), paths.iter().map(value).collect::<Vec<_>>());
        let (first, count) = (steps[0].as_ptr(), steps[0].len());
        let (mut mem, mut mem_tree, mut length) = (9, 9, 9);
        ok!(varvite_tree_mem(*tree, first, count, &raw mut mem));
        ok!(varvite_tree_mem_tree(*tree, first, count, &raw mut mem_tree));
        ok!(varvite_tree_length(*tree, first, count, &raw mut length));
        ok!(varvite_tree_list(*tree, first, count, 0, u64::MAX, self.arena.place()));
        let found = model.get(&paths[0]);
        let names: Vec<Vec<u8>> = match found {
            Some(Node::Directory(children)) => children.keys().cloned().collect(),
            _ => Vec::new(),
        };
        assert_eq!(mem == 1, matches!(found, Some(Node::Value(_))));
        assert_eq!(mem_tree == 1, found.is_some());
        assert_eq!(length as usize, names.len());
        let listed = self.arena.read();
        let listed: Vec<_> = listed.into_iter().step_by(2).map(|it| it.expect("a name")).collect();
        assert_eq!(listed, names);
        let mut hash = varvite_hash { bytes: [0; 32] };
        ok!(varvite_tree_hash(*tree, &raw mut hash));
        let configuration = varvite::context::Configuration::TEZOS;
        assert_eq!(hash.bytes, model.hash(configuration));
    }

    fn commit(&mut self) {
        let (tree, model) = self.trees[self.random.index(self.trees.len())].clone();
        let parents: Vec<_> = self.commits.last().map(|it| it.0).into_iter().collect();
        let info = varvite_commit_info {
            parents: parents.as_ptr(),
            parent_count: parents.len(),
            date: self.commits.len() as i64,
            author: bytes(b"me"),
            message: NOTHING,
        };
        let mut hash = varvite_hash { bytes: [0; 32] };
        if model.is_empty() || matches!(model, Node::Value(_)) {
            fails!(
                VARVITE_INVALID,
                varvite_store_commit(self.store, tree, &raw const info, &raw mut hash)
            );
            return;
        }
        ok!(varvite_store_commit(self.store, tree, &raw const info, &raw mut hash));
        let root = model.hash(varvite::context::Configuration::TEZOS);
        let parents: Vec<_> = parents.iter().map(|it| it.bytes.into()).collect();
        let root = root.into();
        let expected = varvite::context::hash::commit(&root, &parents, info.date, b"me", b"");
        assert_eq!(hash.bytes, expected);
        self.commits.push((hash, model));
        if self.random.one_in(2) {
            let name = self.random.bytes(1);
            let c_name = bytes(&name);
            ok!(varvite_store_set_branch(self.store, &raw const c_name, &raw const hash));
            self.branches.insert(name, hash);
        }
    }

    fn checkout(&mut self) {
        if self.commits.is_empty() {
            return;
        }
        let (hash, model) = self.commits[self.random.index(self.commits.len())].clone();
        let mut tree = slot();
        ok!(varvite_store_checkout(self.store, &raw const hash, &raw mut tree));
        self.trees.push((tree, model));
        if self.trees.len() > 6 {
            ok!(varvite_tree_close(self.trees.remove(0).0));
        }
    }

    fn prove(&mut self) {
        let path = self.path();
        let (tree, model) = self.trees[self.random.index(self.trees.len())].clone();
        let look = Look { path, value: None };
        let look = Box::into_raw(Box::new(look));
        let mut proof = slot();
        let mut root = varvite_kinded { kind: 0, hash: varvite_hash { bytes: [0; 32] } };
        ok!(varvite_tree_kind(tree, &raw mut root.kind));
        ok!(varvite_tree_hash(tree, &raw mut root.hash));
        let stream = i32::from(self.random.one_in(2));
        ok!(varvite_proof_make(tree, stream, Some(look_at), look.cast(), &raw mut proof));
        ok!(varvite_proof_encode(proof, VARVITE_ENCODING_V2, self.arena.place()));
        let encoded = self.arena.read()[0].clone().expect("a proof");
        ok!(varvite_proof_close(proof));
        let given = bytes(&encoded);
        ok!(varvite_proof_decode(&raw const given, VARVITE_ENCODING_ANY, null(), &raw mut proof));
        let root = &raw const root;
        ok!(varvite_proof_verify(proof, null(), root, Some(look_at), look.cast()));
        ok!(varvite_proof_close(proof));
        // SAFETY: it came from a box above, and the callbacks are over.
        let look = unsafe { Box::from_raw(look) };
        let expected = match model.get(&look.path) {
            Some(Node::Value(value)) => Some(value.clone()),
            _ => None,
        };
        assert_eq!(look.value, expected);
    }

    fn reopen(&mut self) {
        ok!(varvite_store_close(self.store));
        for (tree, _) in self.trees.drain(..) {
            ok!(varvite_tree_close(tree));
        }
        ok!(varvite_store_open(self.disk, null(), &raw mut self.store));
        ok!(varvite_store_branches(self.store, self.arena.place()));
        let expected: Vec<_> = self
            .branches
            .iter()
            .flat_map(|(name, hash)| [Some(name.clone()), Some(hash.bytes.to_vec())])
            .collect();
        assert_eq!(self.arena.read(), expected);
        let mut tree = slot();
        ok!(varvite_store_empty_tree(self.store, &raw mut tree));
        self.trees.push((tree, Node::empty()));
        self.checkout();
    }

    fn step(&mut self) {
        match self.random.below(30) {
            0..15 => self.change(),
            15..21 => self.ask(),
            21..25 => self.commit(),
            25..28 => self.checkout(),
            28 => self.prove(),
            _ if self.random.one_in(3) => self.reopen(),
            _ => self.checkout(),
        }
    }
}

/// What a proof is made of: one path is looked at.
struct Look {
    path: Path,
    value: Option<Vec<u8>>,
}

unsafe extern "C" fn look_at(user: *mut std::ffi::c_void, tree: *mut varvite_tree) -> i32 {
    // SAFETY: it is the `Look` that was given with this callback.
    let look = unsafe { &mut *user.cast::<Look>() };
    let steps: Vec<_> = look.path.iter().map(|it| bytes(it)).collect();
    let mut arena = Arena::default();
    ok!(varvite_tree_find(tree, steps.as_ptr(), steps.len(), arena.place()));
    look.value = arena.read().remove(0);
    0
}

#[test]
fn contexts_through_c_agree_with_their_model() {
    let (steps, first) = (setting("VARVITE_STEPS", 3_000), setting("VARVITE_SEED", 1));
    for case in 0..steps.div_ceil(CASE) {
        let mut contexts = Contexts::new(mix(first + case) ^ 1);
        (0..CASE).for_each(|_| contexts.step());
        contexts.reopen();
        for (tree, _) in contexts.trees.drain(..) {
            ok!(varvite_tree_close(tree));
        }
        ok!(varvite_store_close(contexts.store));
        ok!(varvite_disk_close(contexts.disk));
    }
}
