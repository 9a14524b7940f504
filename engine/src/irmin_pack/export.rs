//! Writing a context as a store of Irmin: version 5, one chunk, commits indexed.
//!
//! Every object is written once, after what it names. The control file comes last, so that a folder in
//! which an export was cut short is no store.

use std::collections::HashMap;
use std::sync::Arc;

use super::format::control::{Control, HEADER, Status};
use super::format::entry::{self, Address, Child, CommitEntry, EntryKind, Inode, Step};
use super::format::schema::{Binding, Schema};
use super::places::{Key, Places};
use super::read::index::{HEADER as INDEX_HEADER, IndexHeader, Row};
use crate::context::configuration::{Bucket, Configuration};
use crate::context::hash::{self, CommitHash, Hash};
use crate::context::pieces::digest;
use crate::context::pieces::entry as stored;
use crate::context::pieces::node::{Body, Branch, INLINE, Leaf, Load, Node, Slot, Target};
use crate::context::{Commit, Store};
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::replace::{self, Replacement};

/// What makes the folder a store.
const CONTROL: &str = "store.control";

/// Names up to this long are written where they are used.
const NAME_SHORT: usize = 3;

/// The number of the last name that the dictionary takes.
const NAMES_MAX: usize = 100_000;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// What an export wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Commits.
    pub commits: u64,
    /// Objects, commits included.
    pub objects: u64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Branches.
    pub branches: u64,
}

/// Writes every commit of `source`, with its branches, as a store of Irmin into the empty folder `target`.
/// Irmin opens it with minimal indexing. A parent that `source` does not have is named by its hash.
/// `watch` is told after every commit, and its error ends the export.
///
/// Reads every object once. Memory: about 64 MiB beside that of `source`, and 32 bytes a commit. Where
/// each object was written is kept in `scratch`, an empty folder that is the caller's to remove: about 30
/// bytes an object, 41 for a directory in the record of its parent, and nothing for a store of some ten thousand. `Exists` when one of the two
/// folders has anything in it, `Invalid` for hashes other than Tezos'.
pub fn export(
    source: &Store,
    target: &Arc<dyn Disk>,
    scratch: &Arc<dyn Disk>,
    watch: &mut dyn FnMut(&Exported) -> Result<()>,
) -> Result<Exported> {
    for folder in [target, scratch] {
        if !folder.list("")?.is_empty() {
            return Err(Error::new(
                Kind::Exists,
                format!("{} is not empty: give an empty folder", folder.root()),
            ));
        }
    }
    let tree = source.empty_tree();
    let load = tree.load().ok_or_else(|| Error::invalid("the store has nothing to load from"))?;
    if !load.hashes_alike() {
        return Err(Error::invalid("the store has SHA-1 hashes: only those of Tezos are written"));
    }
    target.create_directory("index")?;
    let mut export = Export {
        configuration: source.configuration(),
        load: Arc::clone(load),
        pack: Output::create(&**target, "store.0.suffix", 0)?,
        dict: Output::create(&**target, "store.dict", 0)?,
        index: Output::create(&**target, "index/log", INDEX_HEADER)?,
        names: HashMap::new(),
        places: Places::new(Arc::clone(scratch)),
        done: Exported::default(),
    };
    for commit in source.log(usize::MAX)?.iter().rev() {
        let root = source.checkout(commit)?.root().clone();
        export.commit(&root, source.commit_info(commit)?)?;
        watch(&export.done)?;
    }
    let mut branches = Output::create(&**target, "store.branches", HEADER)?;
    for (name, commit) in source.branches() {
        branches.put(&(name.len() as u32).to_be_bytes())?;
        branches.put(&name)?;
        branches.put(commit.as_ref())?;
        export.done.branches += 1;
    }
    branches.finish(&[0; HEADER as usize])?;
    export.finish(target)
}

/// A file that is appended to, behind a header that is known at the end.
struct Output {
    file: Arc<dyn File>,
    written: u64,
    buffer: Vec<u8>,
}

impl Output {
    fn create(disk: &dyn Disk, path: &str, header: u64) -> Result<Output> {
        let file = disk.open(path, Mode::Create, Access::Buffered)?;
        Ok(Output { file, written: header, buffer: Vec::new() })
    }

    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < BUFFER { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_at(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(&mut self, header: &[u8]) -> Result<()> {
        self.flush()?;
        self.file.write_at(0, header)?;
        self.file.sync()
    }
}

/// An entry of a directory that was written.
struct WrittenEntry {
    name: Vec<u8>,
    is_value: bool,
    offset: u64,
    hash: Hash,
}

/// A piece of a directory in work.
struct Frame {
    /// Its place in the source; none of a directory within the record of its parent.
    reference: Option<u64>,
    node: Arc<Node>,
    whole: bool,
    /// Where the children that were written are, and their hashes.
    done: Vec<(u64, Hash)>,
}

struct Export {
    configuration: Configuration,
    load: Arc<dyn Load>,
    pack: Output,
    dict: Output,
    index: Output,
    names: HashMap<Vec<u8>, u64>,
    places: Places,
    done: Exported,
}

impl Export {
    fn put(&mut self, hash: &Hash, kind: EntryKind, body: &[u8]) -> Result<u64> {
        let (offset, mut bytes) = (self.pack.end(), Vec::with_capacity(body.len() + 48));
        entry::put(&mut bytes, hash, kind, body);
        self.pack.put(&bytes)?;
        self.done.objects += 1;
        self.done.bytes += bytes.len() as u64;
        Ok(offset)
    }

    fn commit(&mut self, root: &Slot, commit: Commit) -> Result<()> {
        let Slot::StoredNode(root) = root else {
            unreachable!("a commit's tree is a stored directory")
        };
        let (tree, _) = self.directory(*root)?;
        let parent = |hash: &CommitHash| -> Result<Address> {
            let offset = self.places.get(Key::Commit(**hash))?;
            Ok(offset.map_or(Address::Hash(**hash), Address::Offset))
        };
        let entry = CommitEntry {
            tree: Address::Offset(tree),
            parents: commit.parents.iter().map(parent).collect::<Result<_>>()?,
            date: commit.date,
            author: commit.author,
            message: commit.message,
        };
        let mut body = Vec::new();
        entry.put(&mut body);
        let offset = self.put(&commit.hash, EntryKind::Commit, &body)?;
        let length = u32::try_from(self.pack.end() - offset).map_err(|_| {
            Error::invalid("a commit of more than 4 GiB cannot be in an index of Irmin")
        })?;
        let (hash, letter) = (commit.hash.to_bytes(), EntryKind::Commit as u8);
        let mut row = Vec::new();
        Row { hash, offset, length, letter }.put(Schema::Tezos, &mut row);
        self.index.put(&row)?;
        self.places.put(Key::Commit(hash), offset)?;
        self.done.commits += 1;
        Ok(())
    }

    fn frame(&self, reference: u64, whole: bool) -> Result<Frame> {
        let node = self.load.node(reference)?;
        Ok(Frame { reference: Some(reference), node, whole, done: Vec::new() })
    }

    /// Writes a directory with all below it that is not there yet: offset and hash.
    fn directory(&mut self, root: u64) -> Result<(u64, Hash)> {
        if let Some(offset) = self.places.get(Key::Stored(root))? {
            return Ok((offset, self.load.hash(root)?));
        }
        let mut stack = vec![self.frame(root, true)?];
        loop {
            let top = stack.last_mut().expect("the last one returns");
            let index = top.done.len();
            let child = match &top.node.body {
                Body::Leaf { leaf, .. } if index < leaf.len() => match leaf.slot(index) {
                    Slot::StoredNode(child) => (*child, true),
                    Slot::Embedded(bytes) => {
                        let hash = digest::embedded(bytes)?;
                        if let Some(offset) = self.places.get(Key::Embedded(hash))? {
                            top.done.push((offset, hash));
                            continue;
                        }
                        let mut node = stored::embedded_node(bytes)?;
                        node.hash = hash.into();
                        let node = Arc::new(node);
                        stack.push(Frame { reference: None, node, whole: true, done: Vec::new() });
                        continue;
                    }
                    value => {
                        let value = value.clone();
                        let written = self.value(&value)?;
                        top.done.push(written);
                        continue;
                    }
                },
                Body::Branch(branch) if index < branch.pointers.len() => {
                    match branch.pointers[index].target {
                        Target::Stored(child) => (child, false),
                        Target::Live(_) => unreachable!("a node that was read holds no live child"),
                    }
                }
                _ => {
                    let frame = stack.pop().expect("it is there");
                    let written = self.piece(&frame)?;
                    match frame.reference {
                        Some(reference) => self.places.put(Key::Stored(reference), written.0)?,
                        None => self.places.put(Key::Embedded(written.1), written.0)?,
                    }
                    match stack.last_mut() {
                        Some(above) => above.done.push(written),
                        None => return Ok(written),
                    }
                    continue;
                }
            };
            let (reference, whole) = child;
            if let Some(offset) = self.places.get(Key::Stored(reference))? {
                top.done.push((offset, self.load.hash(reference)?));
            } else {
                let frame = self.frame(reference, whole)?;
                stack.push(frame);
            }
        }
    }

    fn value(&mut self, slot: &Slot) -> Result<(u64, Hash)> {
        match slot {
            Slot::StoredValue(reference) => {
                let hash = self.load.hash(*reference)?;
                let key = Key::Stored(*reference);
                if let Some(offset) = self.places.get(key)? {
                    return Ok((offset, hash));
                }
                let value = self.load.value(*reference)?;
                let offset = self.put(&hash, EntryKind::Contents, &value)?;
                self.places.put(key, offset)?;
                Ok((offset, hash))
            }
            Slot::Inline { length, bytes } => {
                let value = &bytes[..usize::from(*length)];
                let hash = hash::value(value);
                let mut key = [0; INLINE + 1];
                key[..value.len()].copy_from_slice(value);
                key[INLINE] = *length;
                let key = Key::Short(key);
                if let Some(offset) = self.places.get(key)? {
                    return Ok((offset, hash));
                }
                let offset = self.put(&hash, EntryKind::Contents, value)?;
                self.places.put(key, offset)?;
                Ok((offset, hash))
            }
            _ => unreachable!("a node that was read holds no live child"),
        }
    }

    /// Writes a piece whose children were written.
    fn piece(&mut self, frame: &Frame) -> Result<(u64, Hash)> {
        let hash = match frame.reference {
            Some(reference) => self.load.hash(reference)?,
            None => *frame.node.hash.get().expect("it was hashed before it was entered"),
        };
        let offset = match &frame.node.body {
            Body::Leaf { leaf, .. } => {
                let items = items(leaf, &frame.done);
                if !frame.whole {
                    let inode = self.values(&items)?;
                    self.inode(&hash, EntryKind::Piece, &inode)?
                } else if items.len() <= self.configuration.entries() {
                    let inode = self.values(&items)?;
                    self.inode(&hash, EntryKind::Root, &inode)?
                } else {
                    let (inode, _) = self.split(0, items)?;
                    self.inode(&hash, EntryKind::Root, &inode)?
                }
            }
            Body::Branch(branch) => {
                let kind = if frame.whole { EntryKind::Root } else { EntryKind::Piece };
                self.inode(&hash, kind, &tree(branch, &frame.done))?
            }
        };
        Ok((offset, hash))
    }

    fn inode(&mut self, hash: &Hash, kind: EntryKind, inode: &Inode) -> Result<u64> {
        let mut body = Vec::new();
        inode.put(&mut body);
        self.put(hash, kind, &body)
    }

    fn values(&mut self, items: &[WrittenEntry]) -> Result<Inode> {
        let mut children = Vec::with_capacity(items.len());
        for item in items {
            children.push(Child {
                step: self.step(&item.name)?,
                is_value: item.is_value,
                address: Address::Offset(item.offset),
            });
        }
        Ok(Inode::Values(children))
    }

    /// The name's number in the dictionary, if it has one or gets one.
    fn step(&mut self, name: &[u8]) -> Result<Step> {
        if let Some(number) = self.names.get(name) {
            return Ok(Step::Number(*number));
        }
        if name.len() <= NAME_SHORT || self.names.len() > NAMES_MAX {
            return Ok(Step::Name(name.to_vec()));
        }
        let number = self.names.len() as u64;
        self.dict.put(&(name.len() as u32).to_be_bytes())?;
        self.dict.put(name)?;
        self.names.insert(name.to_vec(), number);
        Ok(Step::Number(number))
    }

    /// Writes the pieces below a tree of `items`: the tree, and its hash as a piece. Recursion is
    /// bounded by the depth limit.
    fn split(&mut self, depth: u32, items: Vec<WrittenEntry>) -> Result<(Inode, Hash)> {
        if depth >= self.configuration.depth_limit() {
            return Err(Error::invalid(
                "a directory whose names fall into one bucket at every depth has no such form",
            ));
        }
        let length = items.len() as u64;
        let mut buckets: Vec<(u64, Vec<WrittenEntry>)> = Vec::new();
        for item in items {
            let bucket = u64::from(Bucket::new(self.configuration, &item.name).at(depth));
            match buckets.binary_search_by_key(&bucket, |(number, _)| *number) {
                Ok(index) => buckets[index].1.push(item),
                Err(index) => buckets.insert(index, (bucket, vec![item])),
            }
        }
        let (mut pointers, mut hashes) = (Vec::new(), Vec::new());
        for (bucket, items) in buckets {
            let (inode, hash) = if items.len() <= self.configuration.entries() {
                let bindings: Vec<Binding<'_>> =
                    items.iter().map(|item| (&item.name[..], item.is_value, item.hash)).collect();
                let hash = Schema::Tezos.values(&bindings);
                (self.values(&items)?, hash)
            } else {
                self.split(depth + 1, items)?
            };
            let offset = if let Some(offset) = self.places.get(Key::Piece(hash))? {
                offset
            } else {
                let offset = self.inode(&hash, EntryKind::Piece, &inode)?;
                self.places.put(Key::Piece(hash), offset)?;
                offset
            };
            pointers.push((bucket, Address::Offset(offset)));
            hashes.push((bucket, hash));
        }
        let hash = Schema::Tezos.branch(u64::from(depth), length, &hashes);
        Ok((Inode::Tree { depth: u64::from(depth), length, pointers }, hash))
    }

    fn finish(mut self, target: &Arc<dyn Disk>) -> Result<Exported> {
        let bytes = self.index.end() - INDEX_HEADER;
        self.index.finish(&IndexHeader { bytes, generation: 0, fan_bytes: 0 }.encode())?;
        self.dict.finish(&[])?;
        self.pack.finish(&[])?;
        target.sync_directory("index")?;
        target.sync_directory("")?;
        let (dict_end, pack_end) = (self.dict.end(), self.pack.end());
        let control = Control::of_one_chunk(5, dict_end, pack_end, Status::Fresh);
        let mut replacement = Replacement::begin(target, CONTROL, Access::Buffered)?;
        replacement.write(&control.encode())?;
        replacement.sync()?;
        replacement.rename().map_err(|refused| refused.error)?;
        target.sync_directory("").inspect_err(|_| {
            // What the caller is told has failed is not to be found as a store.
            let _ = target.rename(CONTROL, &format!("{CONTROL}{}", replace::SUFFIX));
        })?;
        Ok(self.done)
    }
}

fn items(leaf: &Leaf, written: &[(u64, Hash)]) -> Vec<WrittenEntry> {
    let item = |(index, (offset, hash)): (usize, &(u64, Hash))| WrittenEntry {
        name: leaf.name(index).to_vec(),
        is_value: leaf.slot(index).is_value(),
        offset: *offset,
        hash: *hash,
    };
    written.iter().enumerate().map(item).collect()
}

fn tree(branch: &Branch, written: &[(u64, Hash)]) -> Inode {
    let pointer =
        |(pointer, (offset, _)): (&crate::context::pieces::node::Pointer, &(u64, Hash))| {
            (u64::from(pointer.bucket), Address::Offset(*offset))
        };
    Inode::Tree {
        depth: u64::from(branch.depth),
        length: branch.count(),
        pointers: branch.pointers.iter().zip(written).map(pointer).collect(),
    }
}
