//! A fixed workload that touches every operation of a session, act by act beside its model.
//!
//! The crash, fault and determinism tests tell the same story: what an act acknowledged must be there
//! afterwards, what it refused must have changed nothing.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk};
use varvite::{
    Compression, Error, Kind, LoadOrder, Log, Lookups, OpenSnapshot, Session, SessionOptions,
    SnapshotContent, Table, TableOptions, Verify, View,
};

use crate::model::table::{self as model, Snapshot, Snapshots};
use crate::setup::{DiskKind, Help, Keys, Setup, Upserts};

pub const SETUP: Setup = Setup {
    disk: DiskKind::Sim,
    seed: 42,
    write_buffer_bytes: 900,
    size_ratio: 2,
    lookups: Lookups::Mixed,
    filter_bits: 10,
    filter_bytes_max: 1 << 20,
    upserts: Upserts::Tail,
    cache_bytes: None,
    access: Access::Buffered,
    queue_depth: 8,
    segment_bytes: 12_288,
    max_open_files: Some(3),
    helper: Help::None,
    keys: Keys::Hashed,
    key_count: 60,
    value_bytes_max: 70,
    log: Log::None,
    log_file_bytes: 64 << 20,
    blob_min_bytes: Some(60),
    compression: Compression::None,
};

pub fn options() -> SessionOptions {
    let (seed, segment_bytes) = (Some(SETUP.seed), SETUP.segment_bytes);
    SessionOptions {
        seed,
        segment_bytes,
        max_open_files: SETUP.max_open_files,
        ..SessionOptions::default()
    }
}

/// One call, or a few that change nothing.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Begin,
    Create(&'static str),
    Update(&'static str, u64, u32),
    Large(&'static str),
    /// Values are found and read later, in pieces and together.
    Find(&'static str, u64),
    /// A value written in pieces goes to no table.
    Stream,
    Load(&'static str, u64, LoadOrder),
    DeleteRange(&'static str, Option<u64>, Option<u64>),
    Export(&'static str),
    Import(&'static str, &'static str),
    Lookup(&'static str, u64),
    Walk(&'static str),
    Duplicate(&'static str, &'static str),
    /// A new table of those named, finished or not.
    Union(&'static str, &'static [&'static str], bool),
    Supply(&'static str, u64),
    Work(&'static str, u64),
    Save(&'static str, &'static [&'static str]),
    Delete(&'static str),
    Open(&'static str, Verify),
    Describe,
    CloseTable(&'static str),
    Reopen,
    ReadOnly(&'static str),
    End,
}

pub const ACTS: &[Act] = &[
    Act::Begin,
    Act::Create("a"),
    Act::Create("b"),
    Act::Update("a", 1, 40),
    Act::Save("one", &["a"]),
    Act::Update("a", 2, 30),
    Act::Update("b", 3, 12),
    Act::Large("a"),
    Act::Lookup("a", 4),
    Act::Find("a", 4),
    Act::Stream,
    Act::Walk("a"),
    Act::Save("two", &["a", "b"]),
    Act::Duplicate("a", "c"),
    Act::Update("c", 5, 25),
    Act::Update("a", 6, 25),
    Act::Work("c", 2_000),
    Act::Delete("one"),
    Act::Save("three", &["c", "a"]),
    Act::Describe,
    Act::ReadOnly("three"),
    Act::Reopen,
    Act::Open("two", Verify::Quick),
    Act::Update("a", 7, 30),
    Act::Lookup("a", 8),
    Act::Save("one", &["a"]),
    Act::Delete("two"),
    Act::Open("three", Verify::Full),
    Act::Update("c", 9, 60),
    Act::Work("c", u64::MAX),
    Act::Walk("c"),
    Act::CloseTable("b"),
    Act::Load("f", 10, LoadOrder::Sorted),
    Act::Load("g", 11, LoadOrder::Any { memory_bytes: 700 }),
    Act::Update("g", 12, 20),
    Act::Save("four", &["a", "c", "f", "g"]),
    Act::Export("four"),
    Act::Import("four", "back"),
    Act::Delete("four"),
    Act::Open("back", Verify::Full),
    Act::DeleteRange("a", Some(3), None),
    Act::Walk("a"),
    Act::DeleteRange("c", Some(30), Some(8)),
    Act::Save("cut", &["a", "c"]),
    Act::Delete("back"),
    Act::DeleteRange("c", None, None),
    Act::Update("c", 14, 40),
    Act::Walk("c"),
    Act::Delete("three"),
    Act::Union("d", &["a", "c", "a"], false),
    Act::Supply("d", 3_000),
    Act::Save("five", &["d", "a"]),
    Act::Update("d", 10, 40),
    Act::Lookup("d", 11),
    Act::Union("e", &["d", "c"], false),
    Act::Walk("e"),
    Act::CloseTable("d"),
    Act::Update("e", 12, 30),
    Act::Save("six", &["e"]),
    Act::Reopen,
    Act::Open("five", Verify::Full),
    Act::Open("six", Verify::Quick),
    Act::Walk("d"),
    Act::Supply("d", u64::MAX),
    Act::Delete("five"),
    Act::Update("e", 13, 60),
    Act::Walk("e"),
    Act::Union("c", &["e", "d"], true),
    Act::Save("seven", &["c", "e"]),
    Act::End,
];

/// The workload on its way.
pub struct Story {
    pub disk: Arc<dyn Disk>,
    session: Option<Session>,
    tables: BTreeMap<&'static str, (Table, model::Table)>,
    views: Vec<(View, model::Table)>,
    /// What was exported last.
    parcel: Option<Arc<dyn Disk>>,
    pub saved: Snapshots,
    /// Whether a table has compressed pages.
    is_compressed: bool,
}

impl Story {
    pub fn new(disk: Arc<dyn Disk>) -> Story {
        Story {
            disk,
            session: None,
            tables: BTreeMap::new(),
            views: Vec::new(),
            parcel: None,
            saved: Snapshots::new(),
            is_compressed: true,
        }
    }

    /// One of which no table has compressed pages.
    pub fn plain(disk: Arc<dyn Disk>) -> Story {
        Story { is_compressed: false, ..Story::new(disk) }
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("the story begins with a session")
    }

    fn table(&mut self, name: &str) -> &mut (Table, model::Table) {
        self.tables.get_mut(name).expect("the story made the table")
    }

    /// The snapshots that are there when `act` succeeds.
    pub fn saved_after(&self, act: Act) -> Snapshots {
        let mut after = self.saved.clone();
        match act {
            Act::Save(name, tables) => {
                after.insert(name.to_owned(), self.content(name, tables));
            }
            Act::Delete(name) => drop(after.remove(name)),
            Act::Import(name, new_name) => {
                after.insert(new_name.to_owned(), after[name].clone());
            }
            _ => {}
        }
        after
    }

    /// Does one act; the model follows only when it succeeds. Wrong answers panic.
    pub fn act(&mut self, act: Act) -> Result<(), Error> {
        match act {
            Act::Begin => {
                self.session = Some(Session::create(Arc::clone(&self.disk), options())?);
            }
            Act::Create(name) => {
                // One has compressed pages, and what is made of it.
                let is_compressed = self.is_compressed && name == "a";
                let compression = if is_compressed { Compression::Fast } else { SETUP.compression };
                let options = TableOptions { compression, ..SETUP.table_options() };
                let table = self.session().create_table(name, options)?;
                self.tables.insert(name, (table, model::Table::default()));
            }
            Act::Update(name, seed, count) => self.update(name, &SETUP.changes(seed, count))?,
            Act::Large(name) => {
                let large = vec![7; 70_000];
                self.update(name, &[model::Change::Insert(b"large".to_vec(), large)])?;
                let (table, model) = self.table(name);
                let view = (table.view(), model.clone());
                self.views.push(view);
            }
            Act::Find(name, seed) => self.find(name, seed)?,
            Act::Stream => {
                let mut writer = self.session().write_value()?;
                for piece in [vec![3; 5_000], vec![4; 70_000]] {
                    writer.write(&piece)?;
                }
                let value = writer.finish()?;
                let mut end = [0; 9];
                assert_eq!(
                    (value.read_at(74_995, &mut end)?, end),
                    (5, [4, 4, 4, 4, 4, 0, 0, 0, 0])
                );
            }
            Act::Load(name, seed, order) => self.load(name, seed, order)?,
            Act::DeleteRange(name, from, to) => self.delete_range(name, from, to)?,
            Act::Export(name) => {
                let parcel: Arc<dyn Disk> = MemoryDisk::seeded(1);
                self.session().export_snapshot(name, &parcel, Verify::Full)?;
                self.parcel = Some(parcel);
            }
            Act::Import(name, new_name) => {
                let parcel = self.parcel.as_ref().expect("the story exported before");
                self.session().import_snapshot(parcel, name, new_name, Verify::Full)?;
                self.saved.insert(new_name.to_owned(), self.saved[name].clone());
            }
            Act::Lookup(name, seed) => {
                let mut random = crate::random::Random::new(seed);
                let keys: Vec<_> = (0..30).map(|_| SETUP.any_key(&mut random)).collect();
                let (table, model) = self.table(name);
                let found = table.lookup(&keys)?;
                for (key, found) in keys.iter().zip(found.iter()) {
                    assert_eq!(found, model.get(key));
                }
            }
            Act::Walk(name) => {
                let (table, model) = self.table(name);
                equal(&table.view(), model)?;
            }
            Act::Duplicate(name, copy) => {
                let (table, model) = self.table(name);
                let pair = (table.duplicate(copy)?, model.clone());
                self.tables.insert(copy, pair);
            }
            Act::Union(name, of, whole) => self.union(name, of, whole)?,
            Act::Supply(name, credits) => {
                self.table(name).0.supply_union_credits(credits)?;
            }
            Act::Work(name, credits) => drop(self.table(name).0.work(credits)?),
            Act::Save(name, tables) => {
                let content = self.content(name, tables);
                let tables: Vec<_> = tables.iter().map(|name| &self.tables[name].0).collect();
                let (label, payload) = (&content.label, &content.payload);
                let given = SnapshotContent { label, payload, tables: &tables };
                self.session().save_snapshot(name, given)?;
                self.saved.insert(name.to_owned(), content);
            }
            Act::Delete(name) => {
                self.session().delete_snapshot(name)?;
                self.saved.remove(name);
            }
            Act::Open(name, verify) => self.open(name, verify)?,
            Act::Describe => {
                let listed = self.session().list_snapshots()?;
                // A manifest that could not be read now is told of in its place.
                let read = listed.iter().all(|info| info.damage.is_none());
                assert!(!read || listed.len() == self.saved.len(), "{listed:?}");
                for (table, _) in self.tables.values() {
                    table.stats()?;
                }
                self.session().stats();
            }
            Act::CloseTable(name) => {
                if let Some((table, _)) = self.tables.remove(name) {
                    table.close()?;
                }
            }
            Act::Reopen => {
                self.leave();
                self.session = None;
                self.session = Some(Session::open(Arc::clone(&self.disk), options())?);
            }
            Act::ReadOnly(name) => {
                let session = Session::open_read_only(Arc::clone(&self.disk), options())?;
                let snapshot = session.open_snapshot(name, &opening(Verify::Quick))?;
                for (table, (_, model)) in snapshot.tables.iter().zip(&self.saved[name].tables) {
                    equal(&table.view(), model)?;
                }
            }
            Act::End => {
                let session = self.session.take().expect("the story begins with a session");
                self.leave();
                session.close()?;
            }
        }
        Ok(())
    }

    fn find(&mut self, name: &str, seed: u64) -> Result<(), Error> {
        let mut random = crate::random::Random::new(seed);
        let mut keys: Vec<_> = (0..30).map(|_| SETUP.any_key(&mut random)).collect();
        keys.push(b"large".to_vec());
        let session = self.session().clone();
        let (table, model) = self.table(name);
        let found = table.view().find(&keys)?;
        for (key, found) in keys.iter().zip(&found) {
            let found = found.as_ref().map(varvite::Value::read).transpose()?;
            assert_eq!(found.as_deref(), model.get(key));
        }
        let values: Vec<_> = found.into_iter().flatten().collect();
        let read = session.read_values(&values)?;
        let expected = keys.iter().filter_map(|key| model.get(key));
        assert!(read.iter().flatten().eq(expected));
        Ok(())
    }

    fn update(&mut self, name: &str, changes: &[model::Change]) -> Result<(), Error> {
        let (table, model) = self.table(name);
        table.update(&model::batch(changes))?;
        model.update(changes, SETUP.join());
        Ok(())
    }

    fn union(&mut self, name: &'static str, of: &[&str], whole: bool) -> Result<(), Error> {
        let parts: Vec<_> = of.iter().map(|name| &self.tables[*name]).collect();
        let tables: Vec<_> = parts.iter().map(|(table, _)| table).collect();
        let table = if whole {
            self.session().union(name, &tables)?
        } else {
            self.session().incremental_union(name, &tables)?
        };
        let models: Vec<_> = parts.iter().map(|(_, model)| model).collect();
        let model = model::Table::union(&models, SETUP.join());
        self.tables.insert(name, (table, model));
        Ok(())
    }

    /// Deletes between two keys of the setup, in their order, the lower one excluded.
    fn delete_range(
        &mut self,
        name: &str,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<(), Error> {
        let mut keys = [from, to].map(|index| index.map(|index| SETUP.key(index)));
        if let [Some(from), Some(to)] = &mut keys
            && from > to
        {
            std::mem::swap(from, to);
        }
        let lower = keys[0].as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let upper = keys[1].as_deref().map_or(Bound::Unbounded, Bound::Included);
        let (table, model) = self.table(name);
        table.delete_range(lower, upper)?;
        model.delete_range(lower, upper);
        Ok(())
    }

    fn load(&mut self, name: &'static str, seed: u64, order: LoadOrder) -> Result<(), Error> {
        let mut stream: Vec<_> = SETUP.changes(seed, 80);
        stream.retain(|change| matches!(change, model::Change::Insert(..)));
        let mut model = model::Table::default();
        model.update(&stream, None);
        let mut loader = self.session().load_table(name, SETUP.table_options(), order)?;
        if order == LoadOrder::Sorted {
            for (key, value) in model.range(Bound::Unbounded, Bound::Unbounded) {
                loader.push(&key, &value)?;
            }
        } else {
            for change in &stream {
                let model::Change::Insert(key, value) = change else { continue };
                loader.push(key, value)?;
            }
        }
        self.tables.insert(name, (loader.finish()?, model));
        Ok(())
    }

    fn open(&mut self, name: &str, verify: Verify) -> Result<(), Error> {
        let snapshot = self.session().open_snapshot(name, &opening(verify))?;
        let expected = &self.saved[name];
        assert_eq!((&snapshot.label, &snapshot.payload), (&expected.label, &expected.payload));
        for (table, (name, model)) in snapshot.tables.into_iter().zip(&expected.tables) {
            let name = ["a", "b", "c", "d", "e", "f", "g"]
                .into_iter()
                .find(|it| it == name)
                .expect("a name of ours");
            self.tables.insert(name, (table, model.clone()));
        }
        Ok(())
    }

    /// What saving `tables` as `name` would save.
    pub fn content(&self, name: &str, tables: &[&str]) -> Snapshot {
        let copy = |name: &&str| ((*name).to_owned(), self.tables[*name].1.clone());
        Snapshot {
            label: "ledger".to_owned(),
            payload: format!("what {name} needs").into_bytes(),
            tables: tables.iter().map(copy).collect(),
        }
    }

    fn leave(&mut self) {
        self.tables.clear();
        self.views.clear();
    }

    /// Whether the session takes no more writes.
    pub fn is_poisoned(&self) -> bool {
        is_poisoned(self.session())
    }

    /// Every table and view still says what it said.
    pub fn is_intact(&self) -> Result<(), Error> {
        for (table, model) in self.tables.values() {
            equal(&table.view(), model)?;
        }
        for (view, model) in &self.views {
            equal(view, model)?;
        }
        Ok(())
    }

    /// Ends it without a farewell, as a process does that dies.
    pub fn stop(mut self) -> Snapshots {
        self.leave();
        self.saved
    }
}

/// Whether `session` takes no more writes.
pub fn is_poisoned(session: &Session) -> bool {
    let refused = session.delete_snapshot("none of this name").unwrap_err();
    refused.kind() == Kind::Poisoned
}

pub fn opening(verify: Verify) -> OpenSnapshot {
    let operators = SETUP.operator().into_iter().collect();
    OpenSnapshot { verify, label: Some("ledger".to_owned()), operators }
}

pub fn equal(view: &View, model: &model::Table) -> Result<(), Error> {
    let entries = view.iter().map(|entry| entry.map(|(key, value)| (key.into(), value.into())));
    let found = entries.collect::<Result<Vec<(Vec<u8>, Vec<u8>)>, Error>>()?;
    assert!(found == model.range(Bound::Unbounded, Bound::Unbounded), "another content");
    let mut cursor = view.cursor(Bound::Unbounded, Bound::Unbounded)?;
    cursor.seek_last();
    for (key, value) in found.iter().rev() {
        assert_eq!(cursor.previous()?, Some((&key[..], &value[..])));
    }
    Ok(())
}

/// Opens the session on `disk`; the snapshots must be one of `allowed`, whole, and it must be possible to
/// go on: write, save, and find it again. Returns which.
pub fn assert_reopens(
    disk: &Arc<dyn Disk>,
    allowed: &[&Snapshots],
    what: &dyn std::fmt::Debug,
) -> usize {
    let session = match Session::open(Arc::clone(disk), options()) {
        // Its creation was cut short; then it can be created.
        Err(error) if error.kind() == Kind::Missing && allowed.iter().all(|it| it.is_empty()) => {
            Session::create(Arc::clone(disk), options())
        }
        opened => opened,
    };
    let session = session.unwrap_or_else(|error| panic!("{what:?}: it does not open: {error}"));
    assert_eq!(session.warnings(), Vec::<String>::new(), "{what:?}");
    let listed = session.list_snapshots().unwrap();
    let names: Vec<_> = listed.iter().map(|info| &info.name).collect();
    let which = allowed.iter().position(|saved| saved.keys().collect::<Vec<_>>() == names);
    let which = which.unwrap_or_else(|| {
        let keys: Vec<Vec<_>> = allowed.iter().map(|saved| saved.keys().collect()).collect();
        panic!("{what:?}: found snapshots {names:?}, allowed are {keys:?}")
    });
    let mut last = None;
    for (name, expected) in allowed[which] {
        let snapshot = session
            .open_snapshot(name, &opening(Verify::Full))
            .unwrap_or_else(|error| panic!("{what:?}: snapshot {name} does not open: {error}"));
        assert_eq!(snapshot.payload, expected.payload, "{what:?}");
        assert_eq!(snapshot.tables.len(), expected.tables.len(), "{what:?}");
        for (table, (_, model)) in snapshot.tables.into_iter().zip(&expected.tables) {
            equal(&table.view(), model).unwrap_or_else(|error| panic!("{what:?}: {error}"));
            last = Some((table, model.clone()));
        }
    }
    let (mut table, mut model) = last.unwrap_or_else(|| {
        (session.create_table("a", SETUP.table_options()).unwrap(), model::Table::default())
    });
    let changes = SETUP.changes(99, 50);
    table.update(&model::batch(&changes)).unwrap();
    model.update(&changes, SETUP.join());
    let content = SnapshotContent { label: "ledger", payload: b"", tables: &[&table] };
    session.save_snapshot("after", content).unwrap();
    let again = session.open_snapshot("after", &opening(Verify::Full)).unwrap();
    equal(&again.tables[0].view(), &model).unwrap();
    which
}
