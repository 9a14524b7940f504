//! A lower folder by itself, and at another copy of the same store.
//!
//! A chunk says what store it is of, where it begins and what came before it, so those of a folder say
//! together whether they are a history, and whether it is that of a store. Design: `docs/design/collection.md`.

use std::sync::Arc;

use crate::cache::Cache;
use crate::context::files::chunk::{CHUNKS_MAX, Opening, Place};
use crate::context::files::chunk_files::{Chunk, Files};
use crate::context::files::control::{Control, Horizon, Row, State};
use crate::context::files::paths;
use crate::context::files::record::Tag;
use crate::context::files::volume::{self, FoundChunk};
use crate::context::observer::Operation;
use crate::context::options::{Index, Options};
use crate::context::pieces::node::Load;
use crate::context::store::load::{each_record, put};
use crate::context::store::{Store, tip};
use crate::disk::Disk;
use crate::disk::memory::MemoryDisk;
use crate::error::{Error, Kind, Result};
use crate::file::append::Position;
use crate::sync::lock;

impl Store {
    /// Whether the folder has chunks that a store has moved there, and is no store.
    pub fn is_lower_folder(disk: &dyn Disk) -> Result<bool> {
        volume::list(disk).map(|found| found.is_some())
    }

    /// Opens what a lower folder has by itself, to read: the history from its first commit to the last that was moved
    /// there. It has no branches, which are the store's. The index is made in memory: one record a commit is read, or
    /// with [`Index::Always`] all. Nothing is written.
    ///
    /// `Missing` without chunks, or when one between others or the first is not there, as where the store had collected
    /// before: then only the store has the rest, which is opened with the folder. `Invalid` when they are no history
    /// together. Where the newest commit is damaged it reads what is before it, as [`Store::open_read_only`] does, and
    /// [`Store::warnings`] says so.
    ///
    /// ```
    /// use varvite::context::{CommitInfo, Options, Store};
    /// use varvite::disk::memory::MemoryDisk;
    /// # fn main() -> varvite::Result<()> {
    /// let lower = MemoryDisk::seeded(2);
    /// let options = Options { lower: Some(lower.clone()), chunk_bytes: 1, ..Options::default() };
    /// let mut store = Store::create(MemoryDisk::seeded(1), options)?;
    /// let mut commits = Vec::new();
    /// for block in 0..3 {
    ///     let mut tree = store.empty_tree();
    ///     tree.add(&["block"], &[block])?;
    ///     commits.push(store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "block"))?);
    /// }
    /// store.archive(&commits[2], u64::MAX)?;
    /// let alone = Store::open_lower_folder(lower, Options::default())?;
    /// assert_eq!(alone.checkout(&commits[1])?.find(&["block"])?, Some(vec![1]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_lower_folder(lower: Arc<dyn Disk>, options: Options) -> Result<Store> {
        let root = lower.root().to_owned();
        let Some((store, epoch, numbers)) = volume::list(&*lower)? else {
            return Err(Error::missing(format!("{root} has no chunks of a store")));
        };
        let above: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let files =
            Files::new(Arc::clone(&above), Some(Arc::clone(&lower)), store, options.max_open_files);
        let cache = Cache::new(0);
        let mut rows: Vec<Row> = Vec::new();
        let mut last: Option<FoundChunk> = None;
        let mut last_commit = 0;
        for number in numbers {
            let expected = rows.len() as u64;
            if number != expected {
                return Err(Error::missing(format!(
                    "{} is not in {root}, which has {} only: open the store that it belongs to, with this as its \
                     lower folder, or put the chunk back",
                    paths::chunk(epoch, expected),
                    paths::chunk(epoch, number)
                )));
            }
            let found = volume::find(&files, &cache, epoch, number)?.ok_or_else(|| {
                Error::missing(format!("{} is no longer in {root}", paths::chunk(epoch, number)))
            })?;
            if last.is_some_and(|last| !last.is_before(&found.opening)) {
                return Err(other_history(&root, number, epoch));
            }
            if found.seal.last_commit != 0 {
                last_commit = found.seal.last_commit;
            }
            rows.push(found.row);
            last = Some(found);
        }
        let last = last.expect("there is a number");
        // What a store has above: a chunk in which nothing is yet.
        let opening = Opening {
            number: last.row.number + 1,
            base: last.row.base + last.row.length,
            chain: last.row.chain,
            last_commit,
            ..last.opening
        };
        drop(tip::create_chunk(&*above, store, &opening)?);
        let checkpoint = Place::start(opening.number);
        let (number, base, length) = (opening.number, opening.base, checkpoint.position.offset);
        rows.push(Row { number, count: 1, base, length, chain: 0, state: State::Whole });
        let empty = Control::empty(store, opening.configuration, opening.index, epoch);
        Control { checkpoint, last_commit, chunks: rows, ..empty }.replace(&above)?;
        // In memory, where what memory has no room for has no room either.
        let options = Options { lower: Some(lower), hashes_file_bytes: 0, ..options };
        Store::open_read_only(above, options)
    }

    /// Makes the store an archive again that collections have taken old commits from: the chunks that it has no more,
    /// or not whole, are those in [`Options::lower`], which another copy of the same store has moved there. Returns how
    /// many; from then on every commit is readable, and the store keeps them all until [`Store::unarchive`] has brought
    /// the chunks back. Every byte of them is read, verified and written anew, a chunk at a time, since a sync of whoever put
    /// it there may have failed; then one replacement of the control file, and what the store had of these chunks goes. `0` when no chunk is missing, after a look at each below; commits that a cancelled
    /// collection has taken, and no chunk with them, are readable again then too.
    ///
    /// `Invalid` for chunks of another store, or of a copy whose history is another, or where the last commit is in one of
    /// them; `Missing` when one is not there: take commits over by a snapshot ([`Store::export_commits`], [`Store::import_commit`]). `Invalid` without
    /// a lower folder and while a collection is under way; `Locked` while another store moves chunks there.
    pub fn attach(&mut self) -> Result<u64> {
        self.attach_watched(&mut |_, _| Ok(()))
    }

    /// The same, and `watch` is told after each chunk how many bytes were read and of how many; its error ends it, with the
    /// store as it was.
    pub fn attach_watched(&mut self, watch: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<u64> {
        let _span = self.span(Operation::Attach);
        let tip = self.tip()?;
        let control = {
            let writer = tip.writer()?;
            if writer.control.cursor.is_some() {
                return Err(Error::invalid(
                    "a collection is under way: go on with it, or cancel it, before chunks are attached",
                ));
            }
            writer.control.clone()
        };
        let lower = self.lower()?;
        volume::expect_no_store(&**lower)?;
        let alone = volume::lock(lower)?;
        volume::remove_leftovers(&**lower, control.store)?;
        let found = self.find_missing(&control, &**lower)?;
        if found.is_empty() && control.horizon.commit == 0 {
            volume::expect_no_copy(&**lower, &control, self.pack.cache())?;
            return Ok(0);
        }
        let last = self.state().last_commit;
        let has_last = |row: &Row| (row.base..row.base + row.length).contains(&last);
        if last != 0 && found.iter().any(|found| has_last(&found.row)) {
            return Err(Error::invalid(
                "the last commit would be in the lower folder, without which the store could not be opened then: \
                 commit once more before the chunks are attached",
            ));
        }
        // What the store has of them goes, so they must outlive a power cut however they came there.
        self.take_older(&found, lower, &control.horizon, watch)?;
        let mut writer = tip.writer()?;
        volume::expect_alone(&**lower, alone.as_deref())?;
        let mut rows: Vec<Row> = writer.control.chunks.clone();
        rows.retain(|row| row.state == State::Whole || row.state.is_lower());
        rows.extend(found.iter().map(|found| found.row));
        rows.sort_unstable_by_key(|row| row.number);
        let before = writer.control.clone();
        // What is marked is marked of chunks that began elsewhere, and of those that come nothing is above.
        (writer.live, writer.needed_bytes) = (None, None);
        writer.control.chunks = rows;
        writer.control.horizon = Horizon::default();
        writer.control.is_unfinished = false;
        // What a collection took may have been written again since.
        writer.control.has_copies |= before.index == Index::Always;
        // A thread that misses a file may read the new control file and find what is below before this does.
        let there = self.pack.chunks_of(0..found.last().map_or(0, |found| found.row.number + 1));
        if let Err(error) = tip.write_places(&self.pack, &mut writer) {
            writer.control = before;
            return Err(error);
        }
        self.control.horizon = Horizon::default();
        let count = found.len() as u64;
        let old = self.put_found(there, &found);
        writer.doomed.extend(old.into_iter().filter(|chunk| chunk.has_file()));
        tip.remove_doomed(&mut writer, u64::MAX)?;
        drop(writer);
        self.publish();
        Ok(count)
    }

    /// The chunks that the store has no more, or not whole, as they are below, the oldest first.
    fn find_missing(&self, control: &Control, lower: &dyn Disk) -> Result<Vec<FoundChunk>> {
        let root = lower.root();
        // What is damaged, above or below, no other folder makes good.
        let refused = |error: Error| match error.kind() {
            Kind::Invalid | Kind::Missing => does_not_continue(root, error),
            _ => error.context(format_args!("the lower folder {root}")),
        };
        // Those of other epochs have other names.
        if volume::owner(lower).map_err(refused)?.is_some_and(|store| store != control.store) {
            let other = Error::invalid(format!("the chunks in {root} belong to another store"));
            return Err(refused(other));
        }
        let mut found: Vec<FoundChunk> = Vec::new();
        // The opening of the chunk after the next one.
        let mut after: Option<Opening> = None;
        let mut rows = control.chunks.iter().rev().peekable();
        for number in (0..=control.last().number).rev() {
            while rows.peek().is_some_and(|row| row.number > number) {
                rows.next();
            }
            let row = rows.peek().filter(|row| row.count == 1 && row.number == number);
            let whole = row.filter(|row| row.state == State::Whole || row.state.is_lower());
            if let Some(row) = whole {
                let chunk = self.pack.numbered(number).expect("it is in the pack as in the table");
                let follows = after.is_none_or(|next| {
                    (next.base, next.chain) == (row.base + row.length, row.chain)
                });
                if !follows {
                    return Err(refused(other_history(root, number + 1, control.epoch)));
                }
                after = Some(self.pack.files.read_opening(&chunk)?);
                continue;
            }
            let next = after.expect("the last chunk is whole");
            let below = volume::find(&self.pack.files, self.pack.cache(), control.epoch, number);
            let below = below.map_err(refused)?.ok_or_else(|| {
                refused(Error::missing(format!(
                    "{} is not in {root}, and this store has it no more",
                    paths::chunk(control.epoch, number)
                )))
            })?;
            let is_ours = (below.opening.configuration, below.opening.index)
                == (control.configuration, control.index);
            if !is_ours || !below.is_before(&next) {
                return Err(refused(other_history(root, number, control.epoch)));
            }
            after = Some(below.opening);
            found.push(below);
        }
        let rows = control.chunks.len() + found.len();
        if rows as u64 > CHUNKS_MAX {
            return Err(Error::invalid(format!("with them the store would have {rows} chunks")));
        }
        found.reverse();
        Ok(found)
    }

    /// Writes what was found anew in `lower`, reads it to its end, and what is whole of before `horizon`, and has the index
    /// lead to what is in them: one that was made again knows no commit that was collected. It is saved before the control
    /// file drops the horizon; until then an entry that leads to what went is not believed.
    fn take_older(
        &self,
        found: &[FoundChunk],
        lower: &Arc<dyn Disk>,
        horizon: &Horizon,
        watch: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        drop(self.settled_index()?);
        let mut older = self.pack.chunks();
        older.retain(|chunk| chunk.is_whole() && chunk.base < horizon.commit);
        let found = found.iter().map(|found| (Arc::clone(&found.chunk), true));
        let mut older: Vec<_> =
            older.into_iter().map(|chunk| (chunk, false)).chain(found).collect();
        older.sort_unstable_by_key(|(chunk, _)| chunk.number);
        let all: u64 = older.iter().map(|(chunk, _)| chunk.end()).sum();
        let mut done = 0;
        let mut index = lock(&self.index);
        for (chunk, is_found) in &older {
            let mut each = |position: Position, payload: &[u8]| {
                each_record(chunk, position, payload, |offset, tag, hash, _| {
                    let is_known = match tag {
                        // Of one that is there twice the newer counts.
                        Tag::Commit => {
                            index.commits(hash).get(hash)?.is_some_and(|known| known >= offset)
                        }
                        _ if tag.is_object() && index.keeps_objects() => {
                            index.objects(hash).get(hash)?.is_some()
                        }
                        _ => true,
                    };
                    if !is_known {
                        put(&mut index, tag, hash, offset);
                    }
                    Ok(())
                })?;
                index.settle_some()
            };
            if *is_found {
                volume::renew(&self.pack.files, lower, chunk, &mut each)?;
            } else {
                volume::scan(&*self.pack.files.get(chunk)?, chunk, &mut each)?;
            }
            done += chunk.end();
            watch(done, all)?;
        }
        let tip = self.tip()?;
        let mut writer = tip.writer()?;
        writer.sync(&*self.disk, self.pack.meter())?;
        index.save_older(writer.place())
    }

    /// Readers find what was found in the place of all that is not whole of what was `there` before the control file said
    /// so, which is returned.
    fn put_found(&self, there: Vec<Arc<Chunk>>, found: &[FoundChunk]) -> Vec<Arc<Chunk>> {
        let end = found.last().map_or(0, |found| found.row.number + 1);
        let (whole, old): (Vec<_>, Vec<_>) = there.into_iter().partition(|chunk| chunk.is_whole());
        // They were opened as they were before they were written anew.
        let (cache, Control { store, epoch, .. }) = (self.pack.cache(), &self.control);
        let found = found.iter().map(|it| Chunk::collected(cache, *store, *epoch, &it.row));
        let mut fresh: Vec<_> = found.map(Arc::new).chain(whole).collect();
        fresh.sort_unstable_by_key(|chunk| chunk.number);
        self.pack.swap_chunks(0..end, fresh);
        old
    }
}

fn does_not_continue(root: &str, error: Error) -> Error {
    error.context(format_args!(
        "{root} does not continue this store: use the lower folder of a copy of it, or take commits over with \
         `varvite context snapshot export` and `varvite context snapshot import`"
    ))
}

fn other_history(root: &str, number: u64, epoch: u64) -> Error {
    Error::invalid(format!(
        "{} in {root} has another history than its neighbours: it is of another copy of the store, which went on by \
         itself",
        paths::chunk(epoch, number)
    ))
}
