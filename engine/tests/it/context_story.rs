//! A fixed script of acts on a context store that touches every operation, with its model beside it.
//! The tests of crashes, of failing calls and of damage tell it.

use std::collections::BTreeMap;
use std::sync::Arc;

use varvite::Result;
use varvite::context::hash::commit as commit_hash;
use varvite::context::{
    ChildOrder, CommitHash, CommitInfo, Configuration, Durability, Index, Options, Order, Store,
    Tree,
};
use varvite::disk::Disk;
use varvite::error::Kind;

use crate::model::context::{Node, Path};
use crate::random::Random;

#[derive(Clone, Copy, Debug)]
pub enum Act {
    Begin,
    /// Checks the last commit out, changes it as the number says, and commits.
    Commit(u64),
    /// Changes the working tree that lives from act to act, so that it spills.
    Work(u64),
    CommitWork,
    SetBranch(&'static str),
    TestAndSet(&'static str),
    RemoveBranch(&'static str),
    /// Asks everything that can be asked of the last commit and of the store.
    Read,
    /// Opens a reader, or lets it see what is new.
    Reader,
    CloseReader,
    Checkpoint,
    Chunk,
    Rebuild,
    Check,
    Clear,
    Reopen,
    End,
}

use Act::{
    Begin, Check, Checkpoint, Chunk, Clear, CloseReader, Commit, CommitWork, End, Read, Reader,
    Rebuild, RemoveBranch, Reopen, SetBranch, TestAndSet, Work,
};

pub const ACTS: &[Act] = &[
    Begin,
    Commit(1),
    Reader,
    SetBranch("main"),
    Work(2),
    Commit(3),
    Commit(4),
    CommitWork,
    SetBranch("side"),
    Read,
    Checkpoint,
    Commit(5),
    Reader,
    RemoveBranch("side"),
    Work(6),
    Reopen,
    TestAndSet("main"),
    Commit(7),
    Chunk,
    Commit(8),
    Rebuild,
    Reader,
    Check,
    Clear,
    Commit(9),
    Reader,
    Work(10),
    CommitWork,
    SetBranch("main"),
    Commit(11),
    Read,
    End,
];

/// Small in all, so that directories split, nodes are read again, trees spill, chunks end and the
/// index is written out.
pub fn options(index: Index, durability: Durability) -> Options {
    Options {
        configuration: Configuration::new(4, 6, ChildOrder::SeededHash).unwrap(),
        index,
        durability,
        objects_bytes: 1_500,
        // As small as the rest: tests open stores so often that making a cache took most of their time.
        hashes_bytes: 1_500,
        pages_bytes: 0,
        index_bytes: 1,
        tree_bytes: 600,
        chunk_bytes: 2_500,
        seed: Some(9),
        ..Options::default()
    }
}

/// What a store holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Each commit with its tree, the oldest first.
    pub commits: Vec<(CommitHash, Node)>,
    pub branches: BTreeMap<Vec<u8>, CommitHash>,
}

impl Told {
    fn last(&self) -> Option<CommitHash> {
        self.commits.last().map(|(hash, _)| *hash)
    }

    fn last_tree(&self) -> Node {
        self.commits.last().map_or_else(Node::empty, |(_, node)| node.clone())
    }

    fn push(&mut self, configuration: Configuration, number: u64, node: Node) {
        let parents: Vec<CommitHash> = self.last().into_iter().collect();
        let info = info(&parents, number);
        let tree = node.hash(configuration);
        let hash = commit_hash(&tree.into(), &parents, info.date, &info.author, &info.message);
        self.commits.push((hash, node));
    }
}

fn info(parents: &[CommitHash], number: u64) -> CommitInfo {
    CommitInfo::new(parents, number as i64, "Tezos", format!("lvl {number}"))
}

/// One change of a tree.
enum Edit {
    Add(Path, Vec<u8>),
    Remove(Path),
    /// Copies the subtree of the foreign tree to a path.
    Graft(Path),
}

fn edits(number: u64) -> Vec<Edit> {
    let mut random = Random::new(number);
    let name = |random: &mut Random| format!("{}", random.below(12)).into_bytes();
    let mut edits = Vec::new();
    for _ in 0..5 {
        let path = vec![b"data".to_vec(), name(&mut random)];
        let length = random.choose(&[1, 15, 16, 60]);
        edits.push(Edit::Add(path, random.bytes(length)));
    }
    let below = vec![b"data".to_vec(), name(&mut random), b"deep".to_vec()];
    edits.push(Edit::Add(below, random.bytes(20)));
    edits.push(Edit::Remove(vec![b"data".to_vec(), name(&mut random)]));
    if number % 3 == 2 {
        edits.push(Edit::Graft(vec![b"data".to_vec(), name(&mut random)]));
    }
    edits
}

fn foreign(configuration: Configuration) -> (Tree, Node) {
    let (mut tree, mut node) = (Tree::empty(configuration), Node::empty());
    for number in 0..8_u8 {
        let path = vec![vec![b'f', number]];
        tree.add(&path, &[number; 17]).unwrap();
        node.put(&path, Node::Value(vec![number; 17]));
    }
    (tree, node)
}

/// The store's side of the story.
pub struct Tale {
    disk: Arc<dyn Disk>,
    options: Options,
    store: Option<Store>,
    reader: Option<(Store, Told)>,
    work: Option<(Tree, Node)>,
    foreign: (Tree, Node),
    /// What the store holds by what it acknowledged.
    pub told: Told,
}

impl Tale {
    pub fn new(disk: Arc<dyn Disk>, options: &Options) -> Tale {
        let foreign = foreign(options.configuration);
        let options = options.clone();
        Tale {
            disk,
            options,
            store: None,
            reader: None,
            work: None,
            foreign,
            told: Told::default(),
        }
    }

    /// The tale as the next process goes on with it on `disk`: it opens the store, if there is one, and
    /// makes the working tree again, which went with the process before.
    pub fn resume(&self, disk: Arc<dyn Disk>) -> Result<Tale> {
        let store = match Store::open(Arc::clone(&disk), self.options.clone()) {
            Err(error) if error.kind() == Kind::Missing && self.told == Told::default() => None,
            opened => Some(opened?),
        };
        let mut tale = Tale { store, told: self.told.clone(), ..Tale::new(disk, &self.options) };
        if let Some((_, node)) = &self.work {
            let mut tree = Tree::empty(self.options.configuration);
            node.values().iter().try_for_each(|(path, value)| tree.add(path, value))?;
            tale.work = Some((tree, node.clone()));
        }
        Ok(tale)
    }

    /// Does again what the process before may have done or not.
    pub fn repeat(&mut self, act: Act) -> Result<()> {
        match act {
            Begin if self.store.is_some() => {}
            TestAndSet(name) => {
                let (now, last) = (self.store().branch(name.as_bytes()), self.told.last());
                let name = name.as_bytes();
                assert!(self.store().test_and_set_branch(name, now.as_ref(), last.as_ref())?);
                self.told = self.after(act);
            }
            _ => self.act(act)?,
        }
        Ok(())
    }

    /// Whether there is a store.
    pub fn has_begun(&self) -> bool {
        self.store.is_some()
    }

    /// What the store will hold once `act` is done.
    pub fn after(&self, act: Act) -> Told {
        let mut told = self.told.clone();
        let configuration = self.options.configuration;
        match act {
            Commit(number) => {
                let mut node = told.last_tree();
                for edit in &edits(number) {
                    self.edit_model(&mut node, edit);
                }
                told.push(configuration, number, node);
            }
            CommitWork => {
                let (_, node) = self.work.as_ref().expect("there was work");
                let number = 100 + told.commits.len() as u64;
                told.push(configuration, number, node.clone());
            }
            SetBranch(name) | TestAndSet(name) => {
                let last = told.last().expect("there was a commit");
                told.branches.insert(name.into(), last);
            }
            RemoveBranch(name) => drop(told.branches.remove(name.as_bytes())),
            Clear => told = Told::default(),
            _ => {}
        }
        told
    }

    fn edit_model(&self, node: &mut Node, edit: &Edit) {
        match edit {
            Edit::Add(path, value) => node.put(path, Node::Value(value.clone())),
            Edit::Remove(path) => node.remove(path),
            Edit::Graft(path) => node.put(path, self.foreign.1.clone()),
        }
    }

    fn edit(&self, tree: &mut Tree, edit: &Edit) -> Result<()> {
        match edit {
            Edit::Add(path, value) => tree.add(path, value),
            Edit::Remove(path) => tree.remove(path),
            Edit::Graft(path) => tree.add_tree(path, &self.foreign.0),
        }
    }

    pub fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("the story has begun")
    }

    /// Does `act`; what it changes is in `told` when it returned without an error.
    pub fn act(&mut self, act: Act) -> Result<()> {
        let after = self.after(act);
        match act {
            Begin => {
                let disk = Arc::clone(&self.disk);
                self.store = Some(Store::create(disk, self.options.clone())?);
            }
            Commit(number) => self.commit(number)?,
            Work(number) => self.work(number)?,
            CommitWork => self.commit_work()?,
            SetBranch(name) => {
                let last = self.told.last().expect("there was a commit");
                self.store().set_branch(name.as_bytes(), &last)?;
            }
            TestAndSet(name) => {
                let (old, last) = (self.told.branches[name.as_bytes()], self.told.last());
                let other = [3; 32].into();
                assert!(!self.store().test_and_set_branch(name.as_bytes(), Some(&other), None)?);
                let set =
                    self.store().test_and_set_branch(name.as_bytes(), Some(&old), last.as_ref())?;
                assert!(set);
            }
            RemoveBranch(name) => self.store().remove_branch(name.as_bytes())?,
            Read => self.read()?,
            Reader => self.reload()?,
            CloseReader => self.reader = None,
            Checkpoint => self.store().checkpoint()?,
            Chunk => self.store().begin_chunk()?,
            Rebuild => self.store().rebuild_index()?,
            Check => {
                let commits = self.told.commits.len() as u64;
                let checked = self.store().check()?;
                assert_eq!((checked.commits, checked.index_faults), (commits, Vec::new()));
            }
            Clear => {
                self.work = None;
                self.store().clear()?;
            }
            Reopen => {
                drop(self.store.take());
                let disk = Arc::clone(&self.disk);
                self.store = Some(Store::open(disk, self.options.clone())?);
                self.work = None;
            }
            End => self.store.take().expect("the story has begun").close()?,
        }
        self.told = after;
        Ok(())
    }

    fn commit(&mut self, number: u64) -> Result<()> {
        let parents: Vec<CommitHash> = self.told.last().into_iter().collect();
        let mut tree = match parents.first() {
            Some(last) => self.store().checkout(last)?,
            None => self.store().empty_tree(),
        };
        for edit in edits(number) {
            self.edit(&mut tree, &edit)?;
        }
        let info = info(&parents, number);
        let expected = self.after(Commit(number)).last();
        assert_eq!(Some(self.store().hash(&tree, &info)?), expected);
        assert_eq!(Some(self.store().commit(&mut tree, &info)?), expected);
        Ok(())
    }

    fn work(&mut self, number: u64) -> Result<()> {
        let (mut tree, mut node) = match self.work.take() {
            Some(work) => work,
            None => (self.store().empty_tree(), Node::empty()),
        };
        let mut outcome = Ok(());
        for edit in edits(number).iter().chain(&edits(number + 50)) {
            outcome = self.edit(&mut tree, edit);
            if outcome.is_err() {
                break;
            }
            self.edit_model(&mut node, edit);
        }
        // A change that failed changed nothing; those before it stay.
        self.work = Some((tree, node));
        outcome
    }

    fn commit_work(&mut self) -> Result<()> {
        let expected = self.after(CommitWork).last();
        let number = 100 + self.told.commits.len() as u64;
        let parents: Vec<CommitHash> = self.told.last().into_iter().collect();
        let (mut tree, node) = self.work.take().expect("there was work");
        let outcome = self.store().commit(&mut tree, &info(&parents, number));
        self.work = Some((tree, node));
        assert_eq!(Some(outcome?), expected);
        Ok(())
    }

    /// Every reading operation of a tree and of a store, with its right answer.
    fn read(&mut self) -> Result<()> {
        let (hash, node) = self.told.commits.last().expect("there was a commit").clone();
        let configuration = self.options.configuration;
        let always = self.options.index == Index::Always;
        let log: Vec<CommitHash> = self.told.commits.iter().rev().map(|(hash, _)| *hash).collect();
        let store = self.store();
        assert_eq!(store.last_commit()?, Some(hash));
        assert_eq!(store.log(usize::MAX)?, log);
        assert!(store.exists(&hash)? && !store.exists(&[5; 32].into())?);
        assert_eq!(store.commit_info(&hash)?.tree, node.hash(configuration));
        let mut tree = store.checkout(&hash)?;
        assert_eq!(tree.hash()?, node.hash(configuration));
        if always {
            let root = store.find_object(&node.hash(configuration).into())?.expect("it is kept");
            assert!(root.equal(&tree)?);
        }
        assert_eq!(values(&tree)?, node.values());
        for (path, value) in node.values() {
            assert_eq!(tree.find(&path)?, Some(value));
            assert!(tree.mem(&path)? && tree.mem_tree(&path[..1])?);
            assert!(tree.find_tree(&path)?.is_some());
        }
        let (data, length) = (["data"], tree.length(&["data"])?);
        let Some(Node::Directory(children)) = node.get(&[b"data".to_vec()]) else { panic!() };
        assert_eq!(length, children.len() as u64);
        let mut names: Vec<_> =
            tree.list(&data, 0, length)?.into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert!(names.iter().eq(children.keys()));
        let mut changes = 0;
        self.foreign.0.diff(&tree, |_, _| {
            changes += 1;
            Ok(())
        })?;
        assert_eq!(changes, node.values().len() + self.foreign.1.values().len());
        tree.clear(0);
        assert!(!tree.is_empty()? && !tree.equal(&self.foreign.0)?);
        Ok(())
    }

    fn reload(&mut self) -> Result<()> {
        if let Some((reader, told)) = &mut self.reader {
            if let Err(error) = reader.reload() {
                // It stands anywhere between what it saw and what there is.
                is_between(reader, told, &self.told)?;
                self.reader = None;
                return Err(error);
            }
            *told = self.told.clone();
        } else {
            let reader = Store::open_read_only(Arc::clone(&self.disk), self.options.clone())?;
            self.reader = Some((reader, self.told.clone()));
        }
        let (reader, told) = self.reader.as_ref().expect("it was just opened");
        holds(reader, told)
    }

    /// Store, working tree and reader hold what they should.
    pub fn is_intact(&self) -> Result<()> {
        if let Some((tree, node)) = &self.work {
            assert_eq!(values(tree)?, node.values(), "the working tree");
        }
        if let Some((reader, told)) = &self.reader {
            holds(reader, told)?;
        }
        self.store.as_ref().map_or(Ok(()), |store| holds(store, &self.told))
    }
}

fn values(tree: &Tree) -> Result<Vec<(Path, Vec<u8>)>> {
    let mut values = Vec::new();
    tree.fold::<&[u8]>(&[], None, Order::Sorted, |path, tree| {
        values.extend(tree.to_value()?.map(|value| (path.to_vec(), value)));
        Ok(())
    })?;
    Ok(values)
}

/// Compares all that can be read of a store; panics when an answer is wrong.
pub fn holds(store: &Store, told: &Told) -> Result<()> {
    let mut log = store.log(usize::MAX)?;
    log.reverse();
    assert!(log.iter().eq(told.commits.iter().map(|(hash, _)| hash)), "other commits");
    assert!(store.branches().iter().map(|(name, hash)| (name, hash)).eq(&told.branches));
    for (hash, node) in &told.commits {
        let tree = store.checkout(hash)?;
        assert_eq!(values(&tree)?, node.values(), "another content");
        assert_eq!(store.commit_info(hash)?.tree, node.hash(store.configuration()));
    }
    Ok(())
}

/// The reader holds `old` or a beginning of `new`, whole.
fn is_between(reader: &Store, old: &Told, new: &Told) -> Result<()> {
    let count = reader.log(usize::MAX)?.len();
    let beginning = Told {
        commits: new.commits.iter().take(count).cloned().collect(),
        branches: reader.branches().into_iter().collect(),
    };
    let old = Told { branches: beginning.branches.clone(), ..old.clone() };
    assert!(which(reader, &[&old, &beginning])?.is_some(), "it is neither");
    Ok(())
}

/// Which of `allowed` the store holds; an error if it cannot be read.
pub fn which(store: &Store, allowed: &[&Told]) -> Result<Option<usize>> {
    let mut log = store.log(usize::MAX)?;
    log.reverse();
    let branches: BTreeMap<_, _> = store.branches().into_iter().collect();
    let found = allowed.iter().position(|told| {
        log.iter().eq(told.commits.iter().map(|(hash, _)| hash)) && branches == told.branches
    });
    if let Some(found) = found {
        holds(store, allowed[found])?;
    }
    Ok(found)
}

/// Goes on with what is stored: one commit more, by the rules.
pub fn go_on(store: &mut Store, told: &Told, number: u64) -> Result<Told> {
    let mut after = told.clone();
    let mut node = told.last_tree();
    let parents: Vec<CommitHash> = told.last().into_iter().collect();
    let mut tree = match parents.first() {
        Some(last) => store.checkout(last)?,
        None => store.empty_tree(),
    };
    let value = number.to_be_bytes().repeat(3);
    let path = vec![b"on".to_vec(), number.to_be_bytes().to_vec()];
    tree.add(&path, &value)?;
    node.put(&path, Node::Value(value));
    let hash = store.commit(&mut tree, &info(&parents, number))?;
    after.push(store.configuration(), number, node);
    assert_eq!(after.last(), Some(hash));
    Ok(after)
}
