//! Writing one commit to a file, and taking over one from there.

use std::sync::Arc;

use super::tip::Tip;
use super::{CommitInfo, Store};
use crate::context::context_snapshot::export::Exporter;
use crate::context::context_snapshot::frames::FrameReader;
use crate::context::context_snapshot::intake::{Intake, Unplaced};
use crate::context::context_snapshot::{CommitFile, Destination};
use crate::context::files::batch::{self, Batch};
use crate::context::files::pack::Pack;
use crate::context::hash::{self, CommitHash};
use crate::context::options::Options;
use crate::context::pieces::node::{Load, Slot};
use crate::context::tree::Tree;
use crate::disk::{Access, Disk};
use crate::error::{Error, Kind, Result};
use crate::file::replace::Replacement;
use crate::sync::lock;

impl Store {
    /// Writes the snapshot of a commit to the file `path` of `disk`, which must not be there. Its bytes
    /// depend on the commit alone. `Missing` for an unknown commit. Reads all of the commit's tree once, in
    /// bounded memory; after an error no file is there. One file, one sync of it and one of its folder.
    pub fn export_commit(
        &self,
        commit: &CommitHash,
        disk: &Arc<dyn Disk>,
        path: &str,
    ) -> Result<CommitFile> {
        let info = self.commit_info(commit)?;
        let tree = self.checkout(commit)?;
        if disk.exists(path)? {
            return Err(Error::new(
                Kind::Exists,
                format!("{path} is there already: remove it first, or choose another name"),
            ));
        }
        let load = self.load_from();
        if !load.hashes_alike() {
            return Err(Error::invalid(
                "the store has other hashes than those that a snapshot of a commit is verified by",
            ));
        }
        let replacement = Replacement::begin(disk, path, Access::Buffered)?;
        let file = Arc::clone(replacement.file());
        let exporter = Exporter::begin(file, self.configuration(), commit, &*load)?;
        let written = exporter.write(tree.root(), &info)?;
        replacement.finish()?;
        Ok(written)
    }

    /// Takes over the commit in the file `path` of `disk`, which [`Store::export_commit`] wrote, with every
    /// hash verified. What came before it in the other store is not here, whatever its parents say. A commit
    /// that is here already is not written again.
    ///
    /// Objects are written in batches as they come, and mean nothing until the commit is behind them: one
    /// sync, as of any commit. After an error, or when the process dies, no commit was added; what was
    /// written goes with the next collection. `Invalid` when the store has another hash configuration.
    pub fn import_commit(&mut self, disk: &dyn Disk, path: &str) -> Result<CommitFile> {
        let tip = self.tip()?;
        let mut reader = FrameReader::open(disk, path)?;
        if reader.configuration() != self.configuration() {
            return Err(Error::invalid(format!(
                "{path} has another hash configuration than the store: import it into a new store"
            )));
        }
        let mut intake = Intake::new(&reader, self.options.tree_bytes);
        if self.exists(&reader.commit())? {
            let (_, _, file) = intake.read(&mut reader, &mut Unplaced)?;
            return Ok(file);
        }
        let mut target = ToPack { store: self, tip };
        let (root, said, file) = intake.read(&mut reader, &mut target)?;
        drop(intake);
        let load = Arc::clone(&self.pack) as Arc<dyn Load>;
        let mut tree = Tree::stored(self.configuration(), load, root);
        let info = CommitInfo::new(&said.parents, said.date, said.author, said.message);
        let commit = self.commit(&mut tree, &info)?;
        debug_assert_eq!(commit, file.commit, "it was verified");
        Ok(file)
    }

    /// Makes a store of the commit in the file `path` of `from`, in the empty folder `disk`: as
    /// [`Store::create`] with the file's hash configuration, and [`Store::import_commit`]. What can be seen
    /// of the file's beginning is verified before anything is made.
    pub fn create_from_commit(
        disk: Arc<dyn Disk>,
        options: Options,
        from: &dyn Disk,
        path: &str,
    ) -> Result<(Store, CommitFile)> {
        let configuration = FrameReader::open(from, path)?.configuration();
        let mut store = Store::create(disk, Options { configuration, ..options })?;
        let file = store.import_commit(from, path)?;
        Ok((store, file))
    }
}

/// Objects go to the pack in batches without a commit.
struct ToPack<'a> {
    store: &'a Store,
    tip: Arc<Tip>,
}

impl Destination for ToPack<'_> {
    fn put(&mut self, stack: &[Slot], table: &[Slot]) -> Result<(Vec<Slot>, Vec<Slot>)> {
        drop(self.store.settled_index()?);
        self.tip.put_apart(&self.store.pack, stack, table)
    }
}

impl Tip {
    /// Appends what is live of `roots`, without a commit, and returns where all of these and of `among`,
    /// which are below them, are now.
    fn put_apart(
        &self,
        pack: &Pack,
        roots: &[Slot],
        among: &[Slot],
    ) -> Result<(Vec<Slot>, Vec<Slot>)> {
        let mut index = lock(&self.index);
        let mut writer = self.writer()?;
        let mut known = None;
        if index.keeps_objects() {
            let mut hashes = Vec::new();
            for slot in roots.iter().chain(among) {
                match slot {
                    Slot::Node(node) => hashes.extend(batch::live_objects(node)),
                    Slot::Value(value) => hashes.push(hash::value(value)),
                    _ => {}
                }
            }
            known = Some(index.known_objects(&hashes)?);
        }
        self.make_room(pack, &mut index, &mut writer)?;
        let start = writer.next_offset();
        let (roots, among, mut written) = writer.beside_collection(pack, |writer, barrier| {
            let mut sink = |bytes: &[u8]| writer.spill(&*self.disk, bytes, pack.meter());
            let batch = Batch::new(pack, start, known.as_ref()).behind(barrier);
            let mut batch = batch.in_pieces(&mut sink);
            let put = |slot| batch.put_apart(slot);
            let roots = roots.iter().map(put).collect::<Result<Vec<_>>>()?;
            let mut placed = Vec::with_capacity(among.len());
            for slot in among {
                // Of a leaf that is there already the values were not looked at.
                placed.push(match slot {
                    Slot::Value(_) => batch.put_apart(slot)?,
                    _ => batch.placed(slot).unwrap_or_else(|| slot.clone()),
                });
            }
            Ok((roots, placed, batch.finish()))
        })?;
        let bytes = std::mem::take(&mut written.bytes);
        if !bytes.is_empty() {
            writer.append(&*self.disk, &bytes, false, pack.meter())?;
        }
        written.fresh.iter().for_each(|(hash, offset)| index.put_object(hash, *offset));
        // What the index does not take now stays in memory until the next batch.
        let _ = index.settle();
        Ok((roots, among))
    }
}
