//! Reads all of a store and recomputes every hash.

use std::collections::HashSet;
use std::sync::Arc;

use super::Store;
use crate::context::files::chunk::{Opening, Place, Seal};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::commit::CommitBody;
use crate::context::files::control::Control;
use crate::context::files::hash_index::{Entries, advising_rebuild, is_damage};
use crate::context::files::pack::Pack;
use crate::context::hash::{self, CommitHash, Hash, TreeHash};
use crate::context::observer::Operation;
use crate::context::pieces::digest;
use crate::context::pieces::entry;
use crate::context::pieces::node::{Body, Embedded, Load, Node, Slot, Target};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, Position};

/// What was checked, and found right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Commits.
    pub commits: u64,
    /// Pieces of directories, each once however many commits share it.
    pub nodes: u64,
    /// Values that are not inside their directory.
    pub values: u64,
    /// What is wrong with the index, at most ten sentences; it can be made again.
    pub index_faults: Vec<String>,
    /// Commits that the index knows and garbage collection took; none in our own format.
    pub collected: u64,
    /// What collected stores no longer have although something names it, at most ten sentences.
    pub missing: Vec<String>,
}

/// What a chunk says at its beginning and, once it has ended, at its end.
type Ends = (Opening, Option<Seal>);

/// What chunks say of the commits in them, compared with history from the newest commit on.
struct Chunks<'a> {
    store: &'a Store,
    /// Those that history has not gone past, the newest last; what they say, unless that is damaged.
    left: Vec<(Arc<Chunk>, Option<Ends>)>,
    /// The first and the last commit that it has passed in the newest of these; 0 for none.
    first: u64,
    last: u64,
    /// Where those begin of which something was found.
    told: Vec<u64>,
}

impl<'a> Chunks<'a> {
    /// Reads the opening and the end of each chunk. Gives an error for each that is wrong in itself or, where `follow` says
    /// so, does not follow the one before.
    fn of(store: &'a Store, pack: &Pack, follow: bool) -> (Chunks<'a>, Vec<Error>) {
        let control = &store.control;
        let mut left: Vec<(Arc<Chunk>, Option<Ends>)> = Vec::new();
        let mut errors = Vec::new();
        // Recent commits need nothing from a lower folder that was not given; others say so themselves.
        let has_lower = pack.files.lower().is_some();
        let is_there = |chunk: &Arc<Chunk>| chunk.has_file() && (has_lower || !chunk.is_lower());
        for chunk in pack.chunks().into_iter().filter(is_there) {
            let found = pack.beside_swaps(|| {
                let Some(chunk) = pack.chunk(chunk.base).filter(|chunk| chunk.has_file()) else {
                    return Ok(None);
                };
                let ends = (pack.read_opening(&chunk)?, pack.read_end(&chunk)?);
                Ok(Some((chunk, ends)))
            });
            let (chunk, (opening, end)) = match found {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                // It went while it was read.
                Err(error) if error.kind() == Kind::Collected && !pack.has_chunk(chunk.base) => {
                    continue;
                }
                Err(error) => {
                    errors.push(error);
                    left.push((chunk, None));
                    continue;
                }
            };
            let before =
                left.last().filter(|(before, _)| before.number + before.numbers == chunk.number);
            let follows = before.is_none_or(|(before, _)| before.sealed() == Some(opening.chain));
            let is_ours = opening.epoch == control.epoch
                && (opening.configuration, opening.index) == (control.configuration, control.index);
            if follow && !(follows && is_ours) {
                errors.push(wrong(&chunk, "an opening that continues the chunk before"));
                left.push((chunk, None));
                continue;
            }
            left.push((chunk, Some((opening, end))));
        }
        let told = left.iter().filter(|(_, ends)| ends.is_none()).map(|(chunk, _)| chunk.base);
        let told = told.collect();
        (Chunks { store, left, first: 0, last: 0, told }, errors)
    }

    /// The next older commit is at `offset`; 0 when there is none. Gives what chunks say otherwise.
    fn pass(&mut self, offset: u64) -> Vec<Error> {
        let horizon = &self.store.control.horizon;
        let mut errors = Vec::new();
        while let Some((chunk, ends)) =
            self.left.pop_if(|(chunk, _)| offset == 0 || chunk.base > offset)
        {
            let found = (self.first, self.last);
            let is_whole = chunk.base >= horizon.offset;
            let ends_otherwise =
                |end: Seal| is_whole && (end.first_commit, end.last_commit) != found;
            if let Some((opening, end)) = ends {
                let expected = if horizon.standing(opening.last_commit) == offset {
                    let expected = "an end that names the first and the last commit in it";
                    end.is_some_and(ends_otherwise).then_some(expected)
                } else {
                    Some("an opening that names the commit before it")
                };
                if let Some(expected) = expected {
                    self.told.push(chunk.base);
                    errors.push(wrong(&chunk, expected));
                }
            }
            (self.first, self.last) = (0, 0);
        }
        self.first = offset;
        if self.last == 0 {
            self.last = offset;
        }
        errors
    }
}

/// The first of them.
fn first_of(errors: Vec<Error>) -> Result<()> {
    errors.into_iter().next().map_or(Ok(()), Err)
}

fn wrong(chunk: &Chunk, expected: &str) -> Error {
    Error::corrupt(&chunk.path, Position::start().offset, expected, "another")
}

/// The most faults of an index that are told.
pub const FAULTS_MAX: usize = 10;

impl Store {
    /// Recomputes the hash of every commit, directory and value that the store's commits reach, and
    /// looks each up in the index; then reads the batches of the pack that no collection has rewritten, whatever is in them.
    /// `Corrupt` at the first that is wrong. Nothing that the handle has in
    /// memory of the pack is believed: each record is read once for itself and once for its parent, where
    /// the 16 MiB of memory that the check takes do not have it. Keeps 10 to 20 bytes for each beside that.
    pub fn check(&self) -> Result<Checked> {
        self.check_part(None, u64::MAX).map(|(checked, _)| checked)
    }

    /// A part of [`Store::check`]: of the commits as [`Store::log`] gives them, `most` from `from` on, or from the newest
    /// on; with the commit that the next part begins with, if one is left. All parts together find what the whole
    /// finds. Each reads the records of the commits before its own too, and nothing that these hold; the last one reads the
    /// batches. `Missing` when
    /// `from` is none of them.
    ///
    /// ```
    /// use varvite::context::{CommitInfo, Options, Store};
    /// use varvite::disk::memory::MemoryDisk;
    ///
    /// let mut store = Store::create(MemoryDisk::seeded(1), Options::default())?;
    /// for block in [b"1", b"2", b"3"] {
    ///     let mut tree = store.empty_tree();
    ///     tree.add(&["block"], block)?;
    ///     store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "block"))?;
    /// }
    /// let (mut from, mut commits) = (None, 0);
    /// loop {
    ///     let (checked, next) = store.check_part(from.as_ref(), 2)?;
    ///     commits += checked.commits;
    ///     from = next;
    ///     if from.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(commits, 3);
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn check_part(
        &self,
        from: Option<&CommitHash>,
        most: u64,
    ) -> Result<(Checked, Option<CommitHash>)> {
        let _span = self.span(Operation::Check);
        if let Some(history) = &self.history {
            return history.check(from, most);
        }
        let pack = &self.pack.uncached(&self.options);
        let end = self.place();
        let (mut chunks, errors) = Chunks::of(self, pack, from.is_none());
        first_of(errors)?;
        let mut checked = Checked::default();
        let mut seen = HashSet::new();
        let (mut has_begun, mut left) = (from.is_none(), most);
        let mut offset = self.newest_commit();
        while offset != 0 {
            let (stored, body) = self.commit_in(pack, offset)?;
            has_begun |= from == Some(&stored);
            if has_begun && left == 0 {
                self.expect_all(|| "the rest of the store".to_owned())?;
                return Ok((checked, Some(stored)));
            }
            let passed = chunks.pass(offset);
            if !has_begun {
                offset = self.commit_before(&body);
                continue;
            }
            left -= 1;
            Self::check_commit(pack, offset, &stored, &body).map_err(|error| self.judged(error))?;
            first_of(passed)?;
            let entries = self.index()?.commits(&stored);
            Self::check_entry(pack, "commit", &stored, &entries, &mut checked)?;
            checked.commits += 1;
            self.check_below(pack, body.root, &mut seen, &mut checked)
                .map_err(|error| self.judged(error))?;
            offset = self.commit_before(&body);
        }
        if let Some(from) = from.filter(|_| !has_begun) {
            let detail =
                format!("commit {} is not among those that are listed", hash::to_text(from));
            return Err(Error::missing(detail));
        }
        first_of(chunks.pass(0))?;
        self.check_batches(pack, end, |_| true, &mut Err)?;
        self.expect_all(|| "the rest of the store".to_owned())?;
        Ok((checked, None))
    }

    /// Calls `found` with what is wrong in each chunk, for whoever wants to know of more than [`Store::check`] comes to: where
    /// its beginning or its end is damaged, or says another history than there is, else the first of its batches that is
    /// not as it was written. An error of `found` ends it. Reads all of the pack that no collection has rewritten, and the
    /// records of the commits; nothing of a store of Irmin.
    pub fn check_chunks(&self, found: &mut dyn FnMut(Error) -> Result<()>) -> Result<()> {
        if self.history.is_some() {
            return Ok(());
        }
        let pack = &self.pack.uncached(&self.options);
        let end = self.place();
        let (mut chunks, errors) = Chunks::of(self, pack, true);
        errors.into_iter().try_for_each(&mut *found)?;
        let mut offset = self.newest_commit();
        while offset != 0 {
            let before = match self.commit_in(pack, offset) {
                Ok((_, body)) => self.commit_before(&body),
                // What is before it nobody knows.
                Err(error) => {
                    chunks.told.extend(pack.chunk(offset).map(|chunk| chunk.base));
                    found(self.judged(error))?;
                    break;
                }
            };
            chunks.pass(offset).into_iter().try_for_each(&mut *found)?;
            offset = before;
        }
        if offset == 0 {
            chunks.pass(0).into_iter().try_for_each(&mut *found)?;
        }
        self.check_batches(pack, end, |base| !chunks.told.contains(&base), found)
    }

    /// Calls `found` where what a chunk has up to `end` is not as it was written, be it nothing that a commit needs: its
    /// batches say what was durable, and branches are there where the control file is lost. `takes` says by its base
    /// whether a chunk is looked at.
    fn check_batches(
        &self,
        pack: &Pack,
        end: Place,
        takes: impl Fn(u64) -> bool,
        found: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<()> {
        for base in pack.chunks().into_iter().map(|chunk| chunk.base).filter(|base| takes(*base)) {
            let outcome = pack.beside_swaps(|| {
                // Of a chunk that was collected its mapping says what is there.
                let Some(chunk) = pack.chunk(base).filter(|chunk| chunk.is_whole()) else {
                    return Ok(());
                };
                let last = (chunk.number == end.chunk)
                    .then_some((end.position.offset, end.position.chain));
                let Some((end, chain)) = last.or(chunk.sealed().map(|it| (chunk.end(), it))) else {
                    // It began since.
                    return Ok(());
                };
                append::expect_chain(&*pack.files.get(&chunk)?, chunk.identity, end, chain)
            });
            let above = pack.beside_swaps(|| match pack.chunk(base) {
                Some(chunk) => match &chunk.above {
                    Some(above) => ChunkReader::expect_all(pack, above).map(drop),
                    None => Ok(()),
                },
                None => Ok(()),
            });
            let above = above.map_err(|error| {
                error.context(
                    "what recent commits need is read in the lower folder instead, and the next move of chunks writes \
                     it anew",
                )
            });
            for error in [outcome, above].into_iter().filter_map(Result::err) {
                found(self.judged(error))?;
            }
        }
        Ok(())
    }

    /// An error of a read of what this handle takes for kept: what is not there is damage, unless a writer
    /// beside this reader has collected it since.
    pub(super) fn judged(&self, error: Error) -> Error {
        if error.kind() != Kind::Collected {
            return error;
        }
        let own = (self.control.epoch, &self.control.horizon);
        let is_behind = self.tip.is_none()
            && Control::read(&*self.disk)
                .is_ok_and(|control| (control.epoch, &control.horizon) != own);
        if is_behind {
            let detail = error.detail();
            return Error::new(
                Kind::Collected,
                format!("{detail}; the store has collected since this handle read it: reload it"),
            );
        }
        Self::kept(error)
    }

    /// The same error of what a commit that was kept reaches, which nothing may have taken.
    pub(super) fn kept(error: Error) -> Error {
        if error.kind() != Kind::Collected {
            return error;
        }
        Error::new(
            Kind::Corrupt,
            format!(
                "a commit that was kept refers to what is not there: {}; restore the store from another \
                 copy",
                error.detail()
            ),
        )
    }

    /// Notes when the index does not lead to the record with this hash.
    fn check_entry(
        pack: &Pack,
        what: &str,
        hash: &Hash,
        entries: &Entries,
        checked: &mut Checked,
    ) -> Result<()> {
        let fault = match entries.get(hash) {
            Ok(Some(offset)) => match pack.hash(offset) {
                Ok(found) if found == *hash && pack.has_object(offset)? => return Ok(()),
                // Of an object that was there twice: such an entry is believed by nobody.
                Err(error) if error.kind() == Kind::Collected => {
                    format!("leads to a copy at {offset} that was collected")
                }
                Err(error) if !is_damage(&error) => return Err(error),
                _ => format!("leads to another place, {offset}"),
            },
            Ok(None) => "is not there".to_owned(),
            Err(error) if !is_damage(&error) => return Err(error),
            Err(error) => advising_rebuild(error.detail()),
        };
        if checked.index_faults.len() < FAULTS_MAX {
            checked.index_faults.push(format!("{what} {}: {fault}", hash::to_text(hash)));
        }
        Ok(())
    }

    fn check_object(&self, pack: &Pack, hash: &Hash, checked: &mut Checked) -> Result<()> {
        let index = self.index()?;
        if !index.keeps_objects() {
            return Ok(());
        }
        let entries = index.objects(hash);
        drop(index);
        Self::check_entry(pack, "object", hash, &entries, checked)
    }

    fn check_commit(
        pack: &Pack,
        offset: u64,
        stored: &CommitHash,
        body: &CommitBody,
    ) -> Result<()> {
        let tree = TreeHash::new(pack.hash(body.root)?);
        let found = hash::commit(&tree, &body.parents, body.date, &body.author, &body.message);
        Self::equal(pack, offset, "commit", &found, stored)
    }

    /// `Corrupt` unless what the record at `offset` has the hash that it says.
    fn equal(pack: &Pack, offset: u64, what: &str, found: &Hash, stored: &Hash) -> Result<()> {
        if found == stored {
            return Ok(());
        }
        pack.record(offset, |file, place, _| {
            Err(Error::corrupt(
                file,
                place,
                format_args!("a {what} that hashes to {}", hash::to_text(stored)),
                hash::to_text(found),
            ))
        })
    }

    fn check_below(
        &self,
        pack: &Pack,
        root: u64,
        seen: &mut HashSet<u64>,
        checked: &mut Checked,
    ) -> Result<()> {
        let mut stack = vec![root];
        while let Some(offset) = stack.pop() {
            if !seen.insert(offset) {
                continue;
            }
            let node = pack.node(offset)?;
            let stored = pack.hash(offset)?;
            // A copy without any hash, so that all of them are taken from the children's records.
            let mut copy = Arc::new(Node::clone(&node));
            drop(Node::edit(&mut copy).take_hashes());
            let found = digest::node(&copy, Some(pack))?;
            Self::equal(pack, offset, "directory", &found, &stored)?;
            checked.nodes += 1;
            self.check_object(pack, &stored, checked)?;
            match &node.body {
                Body::Leaf { leaf, .. } => {
                    for index in 0..leaf.len() {
                        match leaf.slot(index) {
                            Slot::StoredNode(child) => stack.push(*child),
                            Slot::StoredValue(child) => {
                                self.check_value(pack, *child, seen, checked)?;
                            }
                            Slot::Embedded(bytes) => {
                                self.check_embedded(
                                    pack, offset, bytes, seen, checked, &mut stack,
                                )?;
                            }
                            _ => {}
                        }
                    }
                }
                Body::Branch(branch) => {
                    for pointer in &branch.pointers {
                        let Target::Stored(child) = pointer.target else {
                            unreachable!("a node that was read holds no live child")
                        };
                        let below = pack.node(child)?;
                        branch.expect_part(&below)?;
                        let count = below.count();
                        if count != u64::from(pointer.count) {
                            return pack.record(offset, |file, place, _| {
                                Err(Error::corrupt(file, place, pointer.count, count))
                            });
                        }
                        stack.push(child);
                    }
                }
            }
        }
        Ok(())
    }

    fn check_value(
        &self,
        pack: &Pack,
        offset: u64,
        seen: &mut HashSet<u64>,
        checked: &mut Checked,
    ) -> Result<()> {
        if !seen.insert(offset) {
            return Ok(());
        }
        let found = hash::value(&pack.value(offset)?);
        Self::equal(pack, offset, "value", &found, &pack.hash(offset)?)?;
        checked.values += 1;
        self.check_object(pack, &found, checked)
    }

    /// A directory within the record at `at`. It is no object; what it refers to goes on the stack.
    fn check_embedded(
        &self,
        pack: &Pack,
        at: u64,
        bytes: &Embedded,
        seen: &mut HashSet<u64>,
        checked: &mut Checked,
        stack: &mut Vec<u64>,
    ) -> Result<()> {
        let mut inside = vec![bytes.clone()];
        while let Some(bytes) = inside.pop() {
            let node = entry::embedded_node(&bytes)?;
            let Body::Leaf { leaf, .. } = &node.body else { unreachable!("it is a leaf") };
            for index in 0..leaf.len() {
                match leaf.slot(index) {
                    Slot::StoredNode(child) => stack.push(*child),
                    Slot::StoredValue(child) => self.check_value(pack, *child, seen, checked)?,
                    Slot::Embedded(child) => inside.push(child.clone()),
                    _ => {}
                }
            }
            if let Some(stored) = entry::embedded_hash(&bytes) {
                let mut copy = Arc::new(node);
                drop(Node::edit(&mut copy).take_hashes());
                let found = digest::node(&copy, Some(pack))?;
                Self::equal(pack, at, "directory", &found, &stored)?;
            }
        }
        Ok(())
    }
}
