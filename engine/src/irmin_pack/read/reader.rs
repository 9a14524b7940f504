//! Nodes and values of a store of Irmin, as a tree wants them.
//!
//! The files have no checksums, so what is read is hashed again and compared: a node with the hashes
//! of its children, a value with its own. [`Verify::Trust`] leaves that out.

use std::sync::{Arc, OnceLock};

use super::index::Index;
use super::space::{From, Space};
use crate::context::configuration::{Bucket, Configuration};
use crate::context::hash::{CommitHash, Hash, TreeHash};
use crate::context::observer::Tally;
use crate::context::pieces::node::{Body, Branch, Leaf, Load, Node, Pointer, Scan, Slot, Target};
use crate::context::pieces::object_cache::ObjectCache;
use crate::error::{Error, Kind, Result};
use crate::format::codec::Decoder;
use crate::irmin_pack::format::entry::{
    Address, CommitEntry, EntryKind, Head, Inode, Step, UNSIZED_MAX,
};
use crate::irmin_pack::format::schema::{Binding, Schema};
use crate::sync::{Mutex, lock};

/// Whether what is read is hashed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verify {
    /// Every node and value, the first time it is read: costs a read of each child's hash.
    #[default]
    Hashes,
    /// Values only, as Irmin does; damage to a directory may go unnoticed.
    Trust,
}

/// What is advised where a directory is not as its shape would have it, which the folder of a store does not say.
pub const SHAPE_ADVICE: &str =
    "check the shape that the store was made with, or restore it from a snapshot or another copy";

/// References to hashes that no index entry leads to have this bit set.
const LOST: u64 = 1 << 63;

/// Bytes in which an entry without a written length is looked for first.
const UNSIZED_GUESS: u64 = 1024;

/// One store as it was when it was opened.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) space: Space,
    pub(crate) index: Index,
    pub(crate) schema: Schema,
    pub(crate) configuration: Configuration,
    pub(crate) verify: Verify,
    pub(crate) objects: ObjectCache<Arc<Node>>,
    /// Of these offsets in this process.
    pub(crate) identity: u64,
    lost: Mutex<Vec<Hash>>,
}

/// An entry's bytes and where they are.
pub(crate) struct Entry {
    pub(crate) file: String,
    pub(crate) place: u64,
    pub(crate) head: Head,
    pub(crate) bytes: Vec<u8>,
}

impl Entry {
    /// A decoder of the body.
    pub(crate) fn body(&self) -> Decoder<'_> {
        let start = self.head.body;
        Decoder::new(&self.file, self.place + start as u64, &self.bytes[start..])
    }

    /// `error`, which something that this entry names gave. Whether what was collected should have
    /// been kept, or the name is damaged, nothing tells; so the message has both places.
    fn named(&self, error: Error) -> Error {
        if error.kind() != Kind::Missing {
            return error;
        }
        let (file, place, kind) = (&self.file, self.place, self.head.kind.name());
        error.context(format_args!("the {kind} in {file} at byte {place} names what is not there"))
    }

    pub(crate) fn corrupt(
        &self,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Error {
        Error::corrupt(&self.file, self.place, expected, found)
    }
}

/// A commit as it was read, with the hashes of what it names.
pub(crate) struct ReadCommit {
    pub(crate) hash: CommitHash,
    pub(crate) tree: TreeHash,
    pub(crate) root: Slot,
    pub(crate) parents: Vec<CommitHash>,
    pub(crate) entry: CommitEntry,
}

/// What a piece of a directory says before its children.
struct Peek {
    /// Of a tree.
    depth: Option<u64>,
    count: u64,
}

/// A child of a directory with its name and reference.
type Item = (Vec<u8>, Slot);

impl Reader {
    pub(crate) fn new(
        space: Space,
        index: Index,
        schema: Schema,
        configuration: Configuration,
        verify: Verify,
        objects_bytes: u64,
    ) -> Reader {
        Reader {
            space,
            index,
            schema,
            configuration,
            verify,
            objects: ObjectCache::new(objects_bytes),
            identity: crate::context::files::pack::next_identity(),
            lost: Mutex::new(Vec::new()),
        }
    }

    /// The head of the entry at `offset`.
    pub(crate) fn head(&self, offset: u64, from: From) -> Result<(Entry, u64)> {
        let mut bytes = Vec::new();
        let most = Head::bytes_max(self.schema) as u64;
        let place = self.space.gather(offset, most, from, &mut bytes)?;
        let (file, position) = (place.part.name(), place.position);
        let head = Head::decode(self.schema, file, position, &bytes)?;
        let entry = Entry { file: file.to_owned(), place: position, head, bytes };
        Ok((entry, place.left))
    }

    /// The entry at `offset`; all of it if its length is written, otherwise at most `most` bytes.
    pub(crate) fn entry(&self, offset: u64, from: From, most: u64) -> Result<Entry> {
        let (mut entry, left) = self.head(offset, from)?;
        let room = if offset >= self.space.suffix_start() && from == From::Anywhere {
            self.space.end() - offset
        } else {
            left
        };
        let length = match entry.head.length {
            Some(length) if length > room => {
                return Err(entry.corrupt(
                    format_args!("an entry of at most {room} bytes"),
                    format_args!("one of {length}"),
                ));
            }
            Some(length) => length,
            None => room.min(most.max(entry.bytes.len() as u64)),
        };
        let have = entry.bytes.len() as u64;
        if length <= have {
            entry.bytes.truncate(length as usize);
        } else {
            let mut rest = Vec::new();
            self.space.gather(offset + have, length - have, from, &mut rest)?;
            entry.bytes.extend_from_slice(&rest);
        }
        Ok(entry)
    }

    /// Reads the body of the entry at `offset`, looking further when no length is written.
    pub(crate) fn decoded<T>(
        &self,
        offset: u64,
        from: From,
        decode: impl Fn(&Entry, &mut Decoder<'_>) -> Result<T>,
    ) -> Result<(Entry, T)> {
        let mut most = UNSIZED_GUESS;
        loop {
            let entry = self.entry(offset, from, most)?;
            let mut body = entry.body();
            match decode(&entry, &mut body) {
                Ok(value) => {
                    if entry.head.length.is_some() {
                        body.finish()?;
                    }
                    return Ok((entry, value));
                }
                Err(error) => {
                    let cut = entry.head.length.is_none() && entry.bytes.len() as u64 == most;
                    if !cut || most >= UNSIZED_MAX {
                        return Err(error);
                    }
                    most *= 8;
                }
            }
        }
    }

    /// The reference that stands for an address in a tree: never 0, as a cache of nodes wants it.
    fn reference(&self, address: &Address) -> Result<u64> {
        match address {
            Address::Offset(offset) => Ok(offset + 1),
            Address::Hash(hash) => {
                if let Some(row) = self.index.find(hash)? {
                    return Ok(row.offset + 1);
                }
                let mut lost = lock(&self.lost);
                let index = lost.iter().position(|known| known == hash).unwrap_or_else(|| {
                    lost.push(*hash);
                    lost.len() - 1
                });
                Ok(LOST | index as u64)
            }
        }
    }

    /// The offset behind a reference. A hash that the index does not know is `Missing` where collection may
    /// have taken its object, and `Corrupt` in a store where nothing was ever collected.
    pub(crate) fn offset(&self, reference: u64) -> Result<u64> {
        if reference & LOST == 0 {
            return Ok(reference - 1);
        }
        let hash = lock(&self.lost)[(reference & !LOST) as usize];
        let text = self.schema.text(&hash);
        if self.space.control.collected().is_none() {
            return Err(Error::corrupt(
                &self.index.folder,
                0,
                format_args!(
                    "an entry that leads to object {text}, which a directory or commit names"
                ),
                "none",
            ));
        }
        Err(Error::missing(format!("the index leads to no object {text}, which a directory names")))
    }

    fn stored_hash(&self, reference: u64) -> Result<Hash> {
        if reference & LOST != 0 {
            return Ok(lock(&self.lost)[(reference & !LOST) as usize]);
        }
        self.head(reference - 1, From::Anywhere).map(|(entry, _)| entry.head.hash)
    }

    fn slot_hash(&self, slot: &Slot) -> Result<Hash> {
        match slot {
            Slot::StoredNode(reference) | Slot::StoredValue(reference) => {
                self.stored_hash(*reference)
            }
            _ => unreachable!("what is read here is stored"),
        }
    }

    /// The body of a piece of a directory, and whether it is a whole one.
    fn inode(&self, offset: u64) -> Result<(Entry, Inode, bool)> {
        let (entry, inode) = self.decoded(offset, From::Anywhere, |entry, body| {
            if !entry.head.kind.is_directory() {
                return Err(entry.corrupt("a directory", entry.head.kind.name()));
            }
            Inode::take(self.schema, body)
        })?;
        let whole = match (entry.head.kind, &inode) {
            (EntryKind::Root | EntryKind::FlatOld, _) => true,
            (EntryKind::PieceOld, Inode::Tree { depth, .. }) => *depth == 0,
            _ => false,
        };
        if self.verify == Verify::Trust && leads_forward(offset, &inode) {
            return Err(entry.corrupt("children before their directory", "one behind it"));
        }
        Ok((entry, inode, whole))
    }

    /// The children of a leaf by name.
    fn items(
        &self,
        entry: &Entry,
        children: &[crate::irmin_pack::format::entry::Child],
    ) -> Result<Vec<Item>> {
        let mut items = Vec::with_capacity(children.len());
        for child in children {
            let name = match &child.step {
                Step::Name(name) => name.clone(),
                Step::Number(number) => {
                    let name = self.space.dict.name(*number);
                    let names = self.space.dict.len();
                    name.ok_or_else(|| {
                        entry.corrupt(format_args!("a name below number {names}"), number)
                    })?
                    .to_vec()
                }
            };
            let reference = self.reference(&child.address)?;
            let slot = if child.is_value {
                Slot::StoredValue(reference)
            } else {
                Slot::StoredNode(reference)
            };
            items.push((name, slot));
        }
        if !items.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(entry.corrupt("names in order, each once", "others"));
        }
        Ok(items)
    }

    /// Compares the hash of a piece with what its children give.
    fn verify_leaf(&self, entry: &Entry, items: &[Item], flat: bool) -> Result<()> {
        if self.verify == Verify::Trust {
            return Ok(());
        }
        let hashes: Vec<Hash> = items
            .iter()
            .map(|(_, slot)| self.slot_hash(slot).map_err(|error| entry.named(error)))
            .collect::<Result<_>>()?;
        let bindings: Vec<Binding<'_>> = items
            .iter()
            .zip(hashes)
            .map(|((name, slot), hash)| (&name[..], slot.is_value(), hash))
            .collect();
        let found = if flat { self.schema.flat(&bindings) } else { self.schema.values(&bindings) };
        self.same(entry, &found)
    }

    /// `Corrupt` unless the entry's hash is `found`.
    pub(crate) fn same(&self, entry: &Entry, found: &Hash) -> Result<()> {
        if entry.head.hash == *found {
            return Ok(());
        }
        let text = |hash| self.schema.text(hash);
        let kind = entry.head.kind.name();
        Err(entry
            .corrupt(format_args!("{kind} with the hash {}", text(found)), text(&entry.head.hash)))
    }

    /// The node of the directory, or piece of one, at `offset`.
    fn build(&self, offset: u64) -> Result<Node> {
        let (entry, inode, whole) = self.inode(offset)?;
        let flat_limit = self.configuration.stable_hash() as u64;
        let mut node = match inode {
            Inode::Values(children) => {
                let items = self.items(&entry, &children)?;
                if items.is_empty() && !whole {
                    return Err(entry.corrupt("an inode with entries", "an empty one"));
                }
                let flat = whole && items.len() as u64 <= flat_limit;
                self.verify_leaf(&entry, &items, flat)?;
                leaf(items, flat)
            }
            Inode::Tree { depth, length, pointers } if whole && length <= flat_limit => {
                let mut items = Vec::new();
                self.below(&entry, depth, &pointers, &mut items)?;
                if items.len() as u64 != length {
                    return Err(entry.corrupt(format_args!("{length} entries below"), items.len()));
                }
                items.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                if !items.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err(entry.corrupt("each name once", "one twice"));
                }
                self.verify_leaf(&entry, &items, true)?;
                leaf(items, true)
            }
            Inode::Tree { depth, length, pointers } => {
                if whole && depth != 0 {
                    return Err(entry.corrupt("a root of depth 0", depth));
                }
                self.branch(&entry, depth, length, &pointers)?
            }
        };
        node.hash = OnceLock::from(entry.head.hash);
        Ok(node)
    }

    /// Bucket and depth as they may be.
    fn check_pointers(&self, entry: &Entry, depth: u64, pointers: &[(u64, Address)]) -> Result<()> {
        let entries = self.configuration.entries() as u64;
        if depth >= u64::from(self.configuration.depth_limit()) {
            let limit = self.configuration.depth_limit();
            return Err(entry.corrupt(format_args!("a depth below {limit}"), depth));
        }
        let ordered = pointers.is_sorted_by(|a, b| a.0 < b.0);
        if pointers.is_empty() || !ordered || pointers.last().is_some_and(|last| last.0 >= entries)
        {
            return Err(entry.corrupt(format_args!("buckets in order below {entries}"), "others"));
        }
        Ok(())
    }

    fn branch(
        &self,
        entry: &Entry,
        depth: u64,
        length: u64,
        pointers: &[(u64, Address)],
    ) -> Result<Node> {
        self.check_pointers(entry, depth, pointers)?;
        let mut made = Vec::with_capacity(pointers.len());
        let mut hashes = Vec::with_capacity(pointers.len());
        let mut total = 0u64;
        for (bucket, address) in pointers {
            let reference = self.reference(address)?;
            let peeked = self.offset(reference).and_then(|offset| self.peek(offset));
            let (hash, peek) = peeked.map_err(|error| entry.named(error))?;
            let count = u32::try_from(peek.count).ok().filter(|count| *count > 0);
            let fits = peek.depth.is_none_or(|below| below == depth + 1);
            let Some(count) = count.filter(|_| fits) else {
                return Err(entry.corrupt(
                    format_args!("pieces of depth {} with entries", depth + 1),
                    format_args!("{} entries in bucket {bucket}", peek.count),
                ));
            };
            total += u64::from(count);
            hashes.push((*bucket, hash));
            let target = Target::Stored(reference);
            made.push(Pointer { bucket: *bucket as u16, count, target });
        }
        if total != length {
            return Err(entry.corrupt(format_args!("{length} entries below"), total));
        }
        if self.verify == Verify::Hashes {
            self.same(entry, &self.schema.branch(depth, length, &hashes))?;
        }
        Ok(Node::new(Body::Branch(Branch::new(depth as u32, made))))
    }

    /// Hash, depth and count of the piece at `offset`.
    fn peek(&self, offset: u64) -> Result<(Hash, Peek)> {
        const BODY: u64 = 32;
        let most = Head::bytes_max(self.schema) as u64 + BODY;
        let mut bytes = Vec::new();
        let place = self.space.gather(offset, most, From::Anywhere, &mut bytes)?;
        let (file, position) = (place.part.name(), place.position);
        let head = Head::decode(self.schema, file, position, &bytes)?;
        if !matches!(head.kind, EntryKind::Piece | EntryKind::PieceOld) {
            return Err(Error::corrupt(file, position, "a piece of a directory", head.kind.name()));
        }
        let mut body = Decoder::new(file, position + head.body as u64, &bytes[head.body..]);
        let (depth, count) = Inode::peek(&mut body)?;
        if count == 0 {
            return Err(Error::corrupt(file, position, "an inode with entries", "an empty one"));
        }
        Ok((head.hash, Peek { depth, count }))
    }

    /// Every entry below the pieces of a tree at `depth`. Recursion is bounded by the depth limit.
    fn below(
        &self,
        entry: &Entry,
        depth: u64,
        pointers: &[(u64, Address)],
        out: &mut Vec<Item>,
    ) -> Result<()> {
        self.check_pointers(entry, depth, pointers)?;
        for (bucket, address) in pointers {
            let reference = self.reference(address)?;
            let piece = self.offset(reference).and_then(|offset| self.inode(offset));
            let (piece, inode, whole) = piece.map_err(|error| entry.named(error))?;
            match inode {
                _ if whole => return Err(piece.corrupt("a piece of a directory", "a whole one")),
                Inode::Tree { depth: own, .. } if own != depth + 1 => {
                    return Err(piece.corrupt(format_args!("depth {}", depth + 1), own));
                }
                Inode::Tree { pointers, .. } => self.below(&piece, depth + 1, &pointers, out)?,
                Inode::Values(children) => {
                    let items = self.items(&piece, &children)?;
                    if items.is_empty() {
                        return Err(piece.corrupt("an inode with entries", "an empty one"));
                    }
                    let strays = |item: &Item| self.bucket(&item.0, depth) != *bucket;
                    if items.iter().any(strays) {
                        let names = format_args!("names of bucket {bucket} at depth {depth}");
                        return Err(piece.corrupt(names, "one of another").advised(SHAPE_ADVICE));
                    }
                    out.extend(items);
                }
            }
            if out.len() > self.configuration.stable_hash() {
                return Err(entry.corrupt("a directory hashed flat", "more entries"));
            }
        }
        Ok(())
    }

    /// The bucket of `name` at a depth below the limit.
    pub(crate) fn bucket(&self, name: &[u8], depth: u64) -> u64 {
        u64::from(Bucket::new(self.configuration, name).at(depth as u32))
    }

    /// What `name` leads to, without a look at anything beside the path.
    fn walk(&self, offset: u64, name: &[u8]) -> Result<Option<Slot>> {
        let mut offset = offset;
        let mut bucket = Bucket::new(self.configuration, name);
        loop {
            let (entry, inode, _) = self.inode(offset)?;
            match inode {
                Inode::Values(children) => {
                    let items = self.items(&entry, &children)?;
                    let found = items.binary_search_by(|item| item.0[..].cmp(name));
                    return Ok(found.ok().map(|index| items[index].1.clone()));
                }
                Inode::Tree { depth, pointers, .. } => {
                    self.check_pointers(&entry, depth, &pointers)?;
                    let number = u64::from(bucket.at(depth as u32));
                    let Ok(index) = pointers.binary_search_by_key(&number, |one| one.0) else {
                        return Ok(None);
                    };
                    offset = self.offset(self.reference(&pointers[index].1)?)?;
                }
            }
        }
    }

    /// The value at `offset`, compared with its hash.
    pub(crate) fn contents(&self, offset: u64) -> Result<(Entry, std::ops::Range<usize>)> {
        let entry = self.entry(offset, From::Anywhere, 0)?;
        if entry.head.kind != EntryKind::Contents {
            return Err(entry.corrupt("contents", entry.head.kind.name()));
        }
        let span = entry.head.body..entry.bytes.len();
        self.same(&entry, &self.schema.value(&entry.bytes[span.clone()]))?;
        Ok((entry, span))
    }

    /// The commit at `offset`, compared with its hash. `Missing` when it was collected.
    pub(crate) fn commit(&self, offset: u64) -> Result<ReadCommit> {
        let mut from = From::Anywhere;
        if self.head(offset, from)?.0.head.kind == EntryKind::CommitGone {
            from = From::Lower;
        }
        let (entry, body) = self.decoded(offset, from, |entry, body| match entry.head.kind {
            EntryKind::Commit | EntryKind::CommitOld => {
                CommitEntry::take(self.schema, entry.head.kind, body)
            }
            other => Err(entry.corrupt("a commit", other.name())),
        })?;
        let root = self.reference(&body.tree)?;
        // A commit that is kept keeps its tree, and the index the hashes of its parents.
        let gone = |error: Error| match error.kind() {
            Kind::Missing => entry.corrupt("a tree and parents that are there", error.detail()),
            _ => error,
        };
        let tree = TreeHash::new(self.stored_hash(root).map_err(gone)?);
        let parent = |address: &Address| match address {
            Address::Hash(hash) => Ok(CommitHash::new(*hash)),
            Address::Offset(offset) => self.parent(*offset),
        };
        let parents: Result<Vec<CommitHash>> = body.parents.iter().map(parent).collect();
        let parents = parents.map_err(gone)?;
        let found = self.schema.commit(&tree, &parents, body.date, &body.author, &body.message);
        self.same(&entry, &found)?;
        Ok(ReadCommit { hash: found, tree, root: Slot::StoredNode(root), parents, entry: body })
    }

    /// The hash of a parent: in its entry, or where that was collected, in the index.
    fn parent(&self, offset: u64) -> Result<CommitHash> {
        let error = match self.head(offset, From::Anywhere) {
            Ok((entry, _)) => return Ok(entry.head.hash.into()),
            Err(error) if error.kind() == Kind::Missing => error,
            Err(error) => return Err(error),
        };
        let mut found = None;
        self.index.scan(&mut |_, _, row| {
            if row.offset == offset {
                found = Some(row.hash);
            }
            Ok(())
        })?;
        found.map(CommitHash::new).ok_or(error)
    }
}

/// Without hashes nothing else would keep damage from making a circle.
fn leads_forward(offset: u64, inode: &Inode) -> bool {
    let forward = |address: &Address| matches!(address, Address::Offset(at) if *at >= offset);
    match inode {
        Inode::Values(children) => children.iter().any(|child| forward(&child.address)),
        Inode::Tree { pointers, .. } => pointers.iter().any(|(_, address)| forward(address)),
    }
}

fn leaf(items: Vec<Item>, flat: bool) -> Node {
    let names = items.iter().map(|(name, _)| name.len()).sum();
    let mut leaf = Leaf::with_capacity(items.len(), names);
    for (name, slot) in items {
        leaf.push(&name, slot);
    }
    Node::leaf(leaf, flat)
}

impl Load for Reader {
    fn node(&self, reference: u64) -> Result<Arc<Node>> {
        if let Some(node) = self.objects.get(reference) {
            return Ok(node);
        }
        let node = Arc::new(self.build(self.offset(reference)?)?);
        self.objects.insert(reference, Arc::clone(&node));
        Ok(node)
    }

    fn scan(
        &self,
        reference: u64,
        path: &[&[u8]],
        _: &mut Bucket<'_>,
        _: Option<&Tally>,
    ) -> Result<Scan> {
        if self.verify == Verify::Hashes {
            return self.node(reference).map(Scan::Node);
        }
        let found = self.walk(self.offset(reference)?, path[0])?;
        Ok(Scan::Slot(found.map(|slot| (1, slot))))
    }

    fn value(&self, reference: u64) -> Result<Arc<[u8]>> {
        let (entry, span) = self.contents(self.offset(reference)?)?;
        Ok(entry.bytes[span].into())
    }

    fn hash(&self, reference: u64) -> Result<Hash> {
        self.stored_hash(reference)
    }

    fn identity(&self) -> u64 {
        self.identity
    }

    fn hashes_alike(&self) -> bool {
        self.schema == Schema::Tezos
    }
}
