//! A store: commits on a disk, one process that writes, any number that read.
//!
//! A commit is one append to the last chunk and one sync. Opening reads the control file and scans
//! the pack forward from its checkpoint; a reader's reload is the same scan. What the index knows
//! (commits by hash, or every object) is derived from the pack and lives in memory.
//! Order of every write and sync: `docs/design/durability.md`.

mod check;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::batch::Objects;
use super::commit::{Commit, CommitBody};
use super::configuration::Configuration;
use super::control::Control;
use super::hash::{self, Hash};
use super::node::{Load, Slot};
use super::options::{Index, Options};
use super::pack::{Chunk, Pack};
use super::paths;
use super::record::{self, Tag};
use super::tree::Tree;
use crate::cache::Cache;
use crate::disk::Disk;
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, HEAD, Position};
use crate::format::header::FileKind;

pub use check::Checked;
pub use write::CommitInfo;
use write::Writer;

/// What a store did and holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Commits found by hash.
    pub commits: u64,
    /// Objects found by hash; 0 with the minimal index.
    pub objects: u64,
    /// Bytes of all chunks.
    pub pack_bytes: u64,
    /// Bytes handed to the disk since the store was opened.
    pub written_bytes: u64,
    /// Syncs asked for since the store was opened, those of checkpoints included.
    pub syncs: u64,
    /// Memory that materialised nodes take.
    pub objects_bytes: u64,
    /// Chunks of the pack.
    pub chunks: u64,
    /// How often the store was cleared.
    pub generation: u64,
}

/// What the pack says, up to a place in its last chunk.
#[derive(Debug, Default)]
struct State {
    commits: HashMap<Hash, u64>,
    objects: Objects,
    branches: BTreeMap<Vec<u8>, Hash>,
    last_commit: u64,
    sequence: u64,
}

/// A context store. One handle writes; see [`Store::open_read_only`] for the others.
///
/// ```
/// use varvite::context::{CommitInfo, Configuration, Options, Store, Tree};
/// use varvite::disk::memory::MemoryDisk;
/// # fn main() -> varvite::Result<()> {
/// let mut store = Store::create(MemoryDisk::new(), Options::default())?;
/// let mut tree = Tree::empty(Configuration::TEZOS);
/// tree.add(&["data", "version"], b"genesis")?;
/// let hash = store.commit(&mut tree, &CommitInfo::new(&[], 0, "Tezos", "Genesis"))?;
/// let again = store.checkout(&hash)?;
/// assert_eq!(again.find(&["data", "version"])?.as_deref(), Some(&b"genesis"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Store {
    disk: Arc<dyn Disk>,
    options: Options,
    control: Control,
    pack: Arc<Pack>,
    state: State,
    /// Where the next scan of the last chunk begins.
    position: Position,
    writer: Option<Writer>,
}

impl Store {
    /// Makes a store in an empty folder and opens it for writing. `Exists` when one is there.
    pub fn create(disk: Arc<dyn Disk>, options: Options) -> Result<Store> {
        let lock = write::lock_store(&*disk)?;
        if disk.exists(paths::CONTROL)? {
            return Err(Error::new(
                Kind::Exists,
                format!(
                    "{} holds a context store already: open it, or choose another folder",
                    disk.root()
                ),
            ));
        }
        let control = Control {
            store: options.seed,
            configuration: options.configuration,
            index: options.index,
            generation: 0,
            bases: vec![0],
            position: Position::start(),
            last_commit: 0,
            branches: Vec::new(),
        };
        write::create_chunk(&*disk, &control, 0)?;
        control.replace(&disk)?;
        Self::open_with(disk, options, control, Some(lock))
    }

    /// Opens a store for writing. `Locked` when another process, or this one, writes to it already.
    /// Reads the control file, one record a commit, and the pack from the last checkpoint on; with
    /// [`Index::Always`] all of the pack.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Store> {
        let control = Control::read(&*disk)?;
        let lock = write::lock_store(&*disk)?;
        drop(control);
        // Read again: another writer may have replaced it before the lock was ours.
        let control = Control::read(&*disk)?;
        write::remove_leftovers(&*disk, &control)?;
        Self::open_with(disk, options, control, Some(lock))
    }

    /// Opens a store to read while another process may write to it. It sees the store as of now, until
    /// [`Store::reload`].
    pub fn open_read_only(disk: Arc<dyn Disk>, options: Options) -> Result<Store> {
        let control = Control::read(&*disk)?;
        Self::open_with(disk, options, control, None)
    }

    fn open_with(
        disk: Arc<dyn Disk>,
        mut options: Options,
        control: Control,
        lock: Option<Box<dyn crate::disk::Lock>>,
    ) -> Result<Store> {
        options.configuration = control.configuration;
        options.index = control.index;
        let cache = options.cache.clone().unwrap_or_else(|| Cache::new(options.pages_bytes));
        let pack = Arc::new(Pack::new(control.store, cache, options.objects_bytes));
        let position = control.position;
        let mut store =
            Store { disk, options, state: State::default(), pack, position, control, writer: None };
        store.load(lock)?;
        Ok(store)
    }

    /// Reads what the control file and the pack say into an empty state.
    fn load(&mut self, lock: Option<Box<dyn crate::disk::Lock>>) -> Result<()> {
        let last = self.control.bases.len() - 1;
        let always = self.options.index == Index::Always;
        for (number, base) in self.control.bases.iter().enumerate() {
            let path = paths::chunk(self.control.generation, number as u64);
            let (file, header) = append::open_reader(&*self.disk, &path, FileKind::Pack)?;
            if header.store != self.control.store {
                return Err(Error::invalid(format!(
                    "{path} belongs to another store: put the right file in its place"
                )));
            }
            let end = match self.control.bases.get(number + 1) {
                Some(next) => next - base,
                None => self.control.position.offset,
            };
            let chunk = Chunk::new(*base, file, self.pack.cache(), end);
            self.pack.add_chunk(Arc::clone(&chunk));
            if always {
                let state = &mut self.state;
                let from = Position::start();
                append::scan(&*chunk.file, header.identity, from, |position, payload| {
                    let start = base + position.offset + HEAD as u64;
                    apply(state, &path, *base, start, payload, true)
                })?;
            }
        }
        self.state.branches = self.control.branches.iter().cloned().collect();
        self.state.commits.clear();
        self.state.last_commit = self.control.last_commit;
        self.state.sequence = 0;
        self.position = self.control.position;
        self.walk_commits()?;
        let base = self.control.bases[last];
        let path = paths::chunk(self.control.generation, last as u64);
        if let Some(lock) = lock {
            let state = &mut self.state;
            let append = append::AppendFile::open(
                &*self.disk,
                &path,
                FileKind::Pack,
                self.position,
                |position, payload| {
                    let start = base + position.offset + HEAD as u64;
                    apply(state, &path, base, start, payload, always)
                },
            )?;
            self.position = append.end();
            self.pack.chunks()[last].extend(append.end().offset);
            self.writer = Some(Writer::new(append, lock));
            return Ok(());
        }
        self.scan()
    }

    /// Puts the commits before the checkpoint into the index, by walking back from the last one.
    fn walk_commits(&mut self) -> Result<()> {
        let mut offset = self.state.last_commit;
        let mut newest = None;
        while offset != 0 {
            let (hash, body) = self.commit_at(offset)?;
            newest.get_or_insert(body.sequence + 1);
            self.state.commits.insert(hash, offset);
            offset = body.previous;
        }
        self.state.sequence = newest.unwrap_or(0);
        Ok(())
    }

    /// Reads forward from the place reached so far.
    fn scan(&mut self) -> Result<()> {
        let last = self.control.bases.len() - 1;
        let base = self.control.bases[last];
        let path = paths::chunk(self.control.generation, last as u64);
        let always = self.options.index == Index::Always;
        let chunk = self.pack.chunks()[last].clone();
        let (_, header) = append::open_reader(&*self.disk, &path, FileKind::Pack)?;
        let state = &mut self.state;
        let scan =
            append::scan(&*chunk.file, header.identity, self.position, |position, payload| {
                let start = base + position.offset + HEAD as u64;
                apply(state, &path, base, start, payload, always)
            })?;
        self.position = scan.end;
        chunk.extend(scan.end.offset);
        Ok(())
    }

    /// Sees what was committed since the store was opened or last reloaded. Costs what is new. Does
    /// nothing for the handle that writes, which always sees its own commits.
    pub fn reload(&mut self) -> Result<()> {
        if self.writer.is_some() {
            return Ok(());
        }
        let control = Control::read(&*self.disk)?;
        let same_files = control.generation == self.control.generation
            && control.bases == self.control.bases
            && control.store == self.control.store;
        if same_files {
            return self.scan();
        }
        // Other files: read them afresh, and only then let go of the old ones.
        let cache = Arc::clone(self.pack.cache());
        let fresh = Store {
            disk: Arc::clone(&self.disk),
            options: self.options.clone(),
            pack: Arc::new(Pack::new(control.store, cache, self.options.objects_bytes)),
            state: State::default(),
            position: control.position,
            control,
            writer: None,
        };
        let mut fresh = fresh;
        fresh.load(None)?;
        *self = fresh;
        Ok(())
    }

    /// The hash configuration.
    pub fn configuration(&self) -> Configuration {
        self.control.configuration
    }

    /// Whether a commit with this hash is here. Reads nothing.
    pub fn exists(&self, commit: &Hash) -> bool {
        self.state.commits.contains_key(commit)
    }

    fn commit_offset(&self, commit: &Hash) -> Result<u64> {
        self.state.commits.get(commit).copied().ok_or_else(|| {
            Error::missing(format!(
                "commit {} is not in the store at {}: `varvite context log` lists those that are",
                hash::to_text(commit),
                self.disk.root()
            ))
        })
    }

    fn commit_at(&self, offset: u64) -> Result<(Hash, CommitBody)> {
        self.pack.record(offset, |file, place, record| {
            if record.tag != Tag::Commit {
                return Err(Error::corrupt(
                    file,
                    place,
                    "a commit",
                    format_args!("{:?}", record.tag),
                ));
            }
            Ok((record.hash, CommitBody::decode(file, place, offset, record.body)?))
        })
    }

    /// The tree of a commit, loaded as it is looked at. One read. `Missing` for an unknown commit.
    pub fn checkout(&self, commit: &Hash) -> Result<Tree> {
        let (_, body) = self.commit_at(self.commit_offset(commit)?)?;
        let load = Arc::clone(&self.pack) as Arc<dyn Load>;
        Ok(Tree::stored(self.configuration(), load, Slot::StoredNode(body.root)))
    }

    /// What a commit says. Two reads. `Missing` for an unknown commit.
    pub fn commit_info(&self, commit: &Hash) -> Result<Commit> {
        let (hash, body) = self.commit_at(self.commit_offset(commit)?)?;
        Ok(Commit {
            hash,
            tree: self.pack.hash(body.root)?,
            parents: body.parents,
            date: body.date,
            author: body.author,
            message: body.message,
            sequence: body.sequence,
        })
    }

    /// The commit that the store took last.
    pub fn last_commit(&self) -> Result<Option<Hash>> {
        match self.state.last_commit {
            0 => Ok(None),
            offset => self.commit_at(offset).map(|(hash, _)| Some(hash)),
        }
    }

    /// The commits of the store, newest first; at most `limit`. One read each.
    pub fn log(&self, limit: usize) -> Result<Vec<Hash>> {
        let mut hashes = Vec::new();
        let mut offset = self.state.last_commit;
        while offset != 0 && hashes.len() < limit {
            let (hash, body) = self.commit_at(offset)?;
            hashes.push(hash);
            offset = body.previous;
        }
        Ok(hashes)
    }

    /// The commit that a branch names.
    pub fn branch(&self, name: &[u8]) -> Option<Hash> {
        self.state.branches.get(name).copied()
    }

    /// All branches by name.
    pub fn branches(&self) -> Vec<(Vec<u8>, Hash)> {
        self.state.branches.iter().map(|(name, hash)| (name.clone(), *hash)).collect()
    }

    /// The hash that [`Store::commit`] would give, without committing.
    pub fn hash(&self, tree: &Tree, info: &CommitInfo) -> Result<Hash> {
        Ok(info.hash(&tree.hash()?))
    }

    /// What the store did and holds.
    pub fn stats(&self) -> Stats {
        let chunks = self.pack.chunks();
        Stats {
            commits: self.state.commits.len() as u64,
            objects: self.state.objects.len() as u64,
            pack_bytes: chunks.iter().map(|chunk| chunk.end()).sum(),
            written_bytes: self.writer.as_ref().map_or(0, |writer| writer.written_bytes),
            syncs: self.writer.as_ref().map_or(0, |writer| writer.syncs),
            objects_bytes: self.pack.objects.bytes(),
            chunks: chunks.len() as u64,
            generation: self.control.generation,
        }
    }
}

/// Adds what the records of one batch say. Their bytes were verified with the batch.
fn apply(
    state: &mut State,
    file: &str,
    base: u64,
    start: u64,
    payload: &[u8],
    always: bool,
) -> Result<()> {
    let mut at = 0;
    while at < payload.len() {
        let rest = &payload[at..];
        let offset = start + at as u64;
        let place = offset - base;
        let length = record::length(rest).filter(|length| *length <= rest.len() as u64);
        let length = length.ok_or_else(|| {
            Error::corrupt(file, place, "a record within its batch", "a longer one")
        })? as usize;
        let whole = &rest[..length];
        let head = record::split(file, place, whole)?;
        match head.tag {
            Tag::Commit => {
                let body = CommitBody::decode(file, place, offset, head.body)?;
                state.commits.insert(head.hash, offset);
                state.last_commit = offset;
                state.sequence = body.sequence + 1;
            }
            Tag::Reference if head.hash == [0; 32] => {
                state.branches.remove(head.body);
            }
            Tag::Reference => {
                state.branches.insert(head.body.to_vec(), head.hash);
            }
            _ if always => {
                state.objects.insert(head.hash, offset);
            }
            _ => {}
        }
        at += length;
    }
    Ok(())
}
