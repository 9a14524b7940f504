//! Writing commits to a file, and taking them over from there.

use std::sync::Arc;

use super::tip::Tip;
use super::{CommitInfo, Store};
use crate::context::context_snapshot::export::Exporter;
use crate::context::context_snapshot::frames::{CommitFileOpening, FrameReader, begins_as_export};
use crate::context::context_snapshot::import_state::{ImportState, STATE_MAX};
use crate::context::context_snapshot::intake::{Intake, Unplaced};
use crate::context::context_snapshot::order::{self, Listed};
use crate::context::context_snapshot::{
    COMMITS_MAX, CommitFile, CommitFileOptions, CommitFileProgress, Destination, Watch,
};
use crate::context::files::batch::{self, Batch, LiveObjects};
use crate::context::files::commit::Commit;
use crate::context::files::pack::Pack;
use crate::context::files::paths;
use crate::context::hash::{self, CommitHash};
use crate::context::observer::Operation;
use crate::context::options::Options;
use crate::context::pieces::node::{Load, Slot};
use crate::context::pieces::{digest, entry};
use crate::context::tree::Tree;
use crate::disk::path::split;
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::exclusive;
use crate::file::replace::{self, NotRenamed, Replacement};
use crate::sync::lock;

/// What the file of an export ends with while it is written, and the lock beside it: names that no other program gives.
const EXPORT_SUFFIX: &str = ".export.tmp";
const EXPORT_LOCK: &str = ".export.lock";

impl Store {
    /// Writes the snapshot of a commit to the file `path` of `disk`, which must not be there. Its bytes
    /// depend on the commit and the hash configuration alone. `Missing` for an unknown commit. Reads all of the commit's
    /// tree once; memory grows with the depth of the tree and its largest value, and with nothing else. After an error no
    /// file has that name, unless the disk fails once more. One file, one sync of it and one of its folder. `Exists` where a
    /// file has the name already, which a sync of the folder has made durable then: a host that looks for the file itself
    /// does that itself.
    ///
    /// It is written as `path` with `.export.tmp` behind it, under a lock that has `.export.lock`. What a killed export has
    /// left there, of this commit or another, is written over; `Exists` where a file of another kind has one of these names.
    pub fn export_commit(
        &self,
        commit: &CommitHash,
        disk: &Arc<dyn Disk>,
        path: &str,
    ) -> Result<CommitFile> {
        self.export_commits(&[*commit], CommitFileOptions::default(), disk, path)
    }

    /// The same for several commits, in any order, each once, all of which one descends from through
    /// others of them ([`Store::commits_between`]): `Invalid` otherwise, and for more than 2^16 of them or 16 MiB of their
    /// texts and parents. Reads each tree, but for what it has in common with what was just written, and takes memory for
    /// the hashes of the commits.
    pub fn export_commits(
        &self,
        commits: &[CommitHash],
        options: CommitFileOptions,
        disk: &Arc<dyn Disk>,
        path: &str,
    ) -> Result<CommitFile> {
        self.export_commits_watched(commits, options, disk, path, &mut |_| Ok(()))
    }

    /// The same, and `watch` is told of each frame that was written; its error ends the export.
    pub fn export_commits_watched(
        &self,
        commits: &[CommitHash],
        options: CommitFileOptions,
        disk: &Arc<dyn Disk>,
        path: &str,
        watch: &mut dyn FnMut(&CommitFileProgress) -> Result<()>,
    ) -> Result<CommitFile> {
        let _span = self.span(Operation::Export);
        let listed = |commit: &CommitHash| Ok((*commit, self.info_of(commit)?.parents));
        let listed = commits.iter().map(listed).collect::<Result<Vec<Listed>>>()?;
        let in_order = order::order(&listed);
        let (Some(in_order), Ok(count)) = (in_order, u32::try_from(commits.len())) else {
            return Err(Error::invalid(
                "the commits of a snapshot are one or more, each once, and lead to a last one",
            ));
        };
        if count > COMMITS_MAX {
            return Err(Error::invalid(format!(
                "a snapshot has {COMMITS_MAX} commits at most, not {count}: write several"
            )));
        }
        // Two exports to one name would take each other's half for the whole.
        let alone = exclusive::lock_in_passing(disk, &format!("{path}{EXPORT_LOCK}"), "an export")?;
        let is_there = || {
            let there = format!("{path} is there already: remove it first, or choose another name");
            Error::new(Kind::Exists, there)
        };
        if disk.exists(path)? {
            // An export that was killed may have given it its name last, which a power cut takes away until then.
            disk.sync_directory(split(path).0)?;
            return Err(is_there());
        }
        let load = self.load_from();
        if !load.hashes_alike() {
            return Err(Error::invalid(
                "the store has other hashes than those that a snapshot of a commit is verified by",
            ));
        }
        let last = listed[*in_order.last().expect("there is one")].0;
        let opening =
            CommitFileOpening { configuration: self.configuration(), commits: count, commit: last };
        let working = format!("{path}{EXPORT_SUFFIX}");
        expect_leftover(&**disk, &working)?;
        let mut replacement = Replacement::begin_as(disk, path, working.clone(), Access::Buffered)?;
        let file = Arc::clone(replacement.file());
        let mut exporter = Exporter::begin(file, &opening, options, &*load, watch)?;
        for place in in_order {
            let commit = &listed[place].0;
            exporter.commit(&self.root_of(commit)?, &self.info_of(commit)?)?;
        }
        let written = exporter.finish()?;
        // It takes seconds, in which somebody may put a file of his own there.
        replacement.sync()?;
        alone.check()?;
        if disk.exists(path)? {
            return Err(is_there());
        }
        // What the caller is told has failed is not to be found under its name. Nothing is removed: by now it may be
        // somebody's.
        let take_back = || disk.rename(path, &working);
        replacement.rename().map_err(|NotRenamed { error, is_unchanged }| {
            if !is_unchanged {
                let _ = take_back();
            }
            error
        })?;
        disk.sync_directory(split(path).0).inspect_err(|_| drop(take_back()))?;
        Ok(written)
    }

    /// Takes over the commits in the file `path` of `disk`, which [`Store::export_commit`] or
    /// [`Store::export_commits`] wrote, with every hash verified. What came before them in the other store is
    /// not here, whatever their parents say. A commit that is here already is not written again.
    ///
    /// Objects are written in batches as they come, and mean nothing until a commit is behind them. When all
    /// of the file was verified, the commits are added, parents first, each as any commit: one sync. After an
    /// error of the file no commit was added; when the process dies, or the disk fails, the first of them may be
    /// there. What else was written goes with the next collection. `Invalid` when the store has another
    /// hash configuration.
    ///
    /// Each time when some 16 MiB of records were taken, or four times what it takes to say how far it is, that is
    /// written beside the pack: four syncs. After an import that was cut off the next one of the same commits goes
    /// on from there, in another process too, from a file that is compressed otherwise too, and beside other commits and
    /// collections; where a collection has taken what it needs it begins anew.
    pub fn import_commit(&mut self, disk: &dyn Disk, path: &str) -> Result<CommitFile> {
        self.import_commit_watched(disk, path, &mut |_| Ok(()))
    }

    /// The same, and `watch` is told of each frame that was read; its error ends the import.
    pub fn import_commit_watched(
        &mut self,
        disk: &dyn Disk,
        path: &str,
        watch: &mut dyn FnMut(&CommitFileProgress) -> Result<()>,
    ) -> Result<CommitFile> {
        let _span = self.span(Operation::Import);
        let tip = self.tip()?;
        let mut reader = FrameReader::open(disk, path)?;
        if reader.configuration() != self.configuration() {
            return Err(Error::invalid(format!(
                "{path} has another hash configuration ({}) than the store ({}): if the chain has it, import the \
                 file into a new store of it",
                reader.configuration(),
                self.configuration()
            )));
        }
        let opening = reader.opening();
        if self.is_here_to_stay(&tip, &opening.commit)? {
            // What is here is not written again, so the file is read once more where not all of it is.
            let intake = Intake::new(&reader, self.options.tree_bytes);
            let (commits, file) = intake.read(&mut reader, &mut Unplaced, watch)?;
            let mut all = true;
            for (_, said) in &commits {
                all = all && self.is_here_to_stay(&tip, &said.hash)?;
            }
            if all {
                self.forget_import(&opening)?;
                return Ok(file);
            }
            reader = FrameReader::open(disk, path)?;
        }
        let (commits, file) = match self.import_state()? {
            Some(state) if (state.commit, state.commits) == (opening.commit, opening.commits) => {
                let taken = self.take_over(&mut reader, &tip, Some(&state), watch);
                match taken {
                    // A collection takes what the state names, or the state lies, or the file is damaged: then it
                    // says so before anything is written again, and the state stays for one that is not.
                    // So it does where that is in a lower folder that was not given.
                    Err(error)
                        if matches!(error.kind(), Kind::Collected | Kind::Corrupt)
                            || self.options.lower.is_none() && self.is_below(&error) =>
                    {
                        let mut reader = FrameReader::open(disk, path)?;
                        let intake = Intake::new(&reader, self.options.tree_bytes);
                        intake.read(&mut reader, &mut Unplaced, watch)?;
                        self.forget_import(&opening)?;
                        let mut reader = FrameReader::open(disk, path)?;
                        self.take_over(&mut reader, &tip, None, watch)?
                    }
                    taken => taken?,
                }
            }
            _ => self.take_over(&mut reader, &tip, None, watch)?,
        };
        for (root, said) in commits {
            if self.is_here_to_stay(&tip, &said.hash)? {
                continue;
            }
            let load = Arc::clone(&self.pack) as Arc<dyn Load>;
            let mut tree = Tree::stored(self.configuration(), load, root);
            let info = CommitInfo::new(&said.parents, said.date, said.author, said.message);
            let commit = self.commit(&mut tree, &info)?;
            debug_assert_eq!(commit, said.hash, "it was verified");
        }
        self.forget_import(&opening)?;
        Ok(file)
    }

    /// Whether a commit is here and will stay, whatever a collection under way makes of what it marks. One in a
    /// lower folder that was not given is there; one in a chunk that is lost is not.
    fn is_here_to_stay(&self, tip: &Tip, commit: &CommitHash) -> Result<bool> {
        let stays = |offset| !self.has_collected(offset) && tip.outlives_marking(offset);
        match self.find_commit(commit) {
            Ok(found) => Ok(found.is_some_and(stays)),
            Err(error) if error.kind() == Kind::Missing && self.options.lower.is_none() => {
                let place = self.commit_entries(commit)?.get(commit)?;
                if place.is_some_and(|place| self.pack.is_lower(place)) {
                    return Ok(true);
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the file of `reader`, from where `state` says if that is of use, with its objects in the pack.
    fn take_over(
        &self,
        reader: &mut FrameReader,
        tip: &Arc<Tip>,
        state: Option<&ImportState>,
        watch: Watch<'_>,
    ) -> Result<(Vec<(Slot, Commit)>, CommitFile)> {
        let mut intake = Intake::new(reader, self.options.tree_bytes);
        if let Some(state) = state
            && !intake.resume(reader, state, &*self.pack)?
        {
            intake = Intake::new(reader, self.options.tree_bytes);
        }
        let mut target = ToPack { store: self, tip: Arc::clone(tip) };
        intake.read(reader, &mut target, watch)
    }

    /// How far an import is that was cut off; none when nothing of use says so. What is damaged, or of another store or of
    /// before a clearing, is of use to nobody any more, and removed; one of a newer release stays.
    fn import_state(&self) -> Result<Option<ImportState>> {
        let file = match self.disk.open(paths::IMPORT, Mode::Read, Access::Buffered) {
            Err(error) if error.kind() == Kind::Missing => return Ok(None),
            file => file?,
        };
        // What is longer no import of this release writes, so its end is not missed.
        let mut bytes = vec![0; file.len()?.min(STATE_MAX + 1) as usize];
        file.read_exact_at(0, &mut bytes)?;
        let (store, epoch) = (self.control.store, self.control.epoch);
        match ImportState::decode(paths::IMPORT, &bytes, store, epoch) {
            Ok(state) => Ok(Some(state)),
            Err(error) if error.kind() == Kind::Version => Ok(None),
            Err(_) => self.remove_import().map(|()| None),
        }
    }

    fn remove_import(&self) -> Result<()> {
        // Another writer may have come in beside this one, whose import has a state too.
        self.tip()?.writer()?.check_lock()?;
        self.disk.remove(paths::IMPORT)
    }

    /// Removes what says how far an import of this file is.
    fn forget_import(&self, opening: &CommitFileOpening) -> Result<()> {
        let said = self.import_state()?.map(|state| (state.commit, state.commits));
        if said == Some((opening.commit, opening.commits)) {
            self.remove_import()?;
        }
        Ok(())
    }

    /// Makes a store of the commits in the file `path` of `from`, in the empty folder `disk`: as
    /// [`Store::create`], and [`Store::import_commit`]. What can be seen of the file's beginning is verified before
    /// anything is made.
    ///
    /// `Invalid` unless the file has the hash configuration [`Options::configuration`]. The commit's hash vouches for what
    /// the trees hold, and not for how larger directories would be cut: with another configuration than the chain's the
    /// commits may be the same, and the next ones are not. Who trusts the file's word for it asks
    /// [`inspect_commit`](crate::context::inspect_commit) first.
    ///
    /// Where the file is refused nothing is left of the store; after an `Io` it stays, and an import into it goes on.
    pub fn create_from_commit(
        disk: Arc<dyn Disk>,
        options: Options,
        from: &dyn Disk,
        path: &str,
    ) -> Result<(Store, CommitFile)> {
        let found = FrameReader::open(from, path)?.configuration();
        if found != options.configuration {
            return Err(Error::invalid(format!(
                "{path} has the hash configuration {found}, where {} is asked for: nothing in the file vouches for it, so \
                 ask for that of the chain",
                options.configuration
            )));
        }
        let mut store = Store::create(disk, options)?;
        match store.import_commit(from, path) {
            Ok(file) => Ok((store, file)),
            Err(error) => {
                if error.kind() != Kind::Io {
                    // The file's error is what is told.
                    let _ = store.discard();
                }
                Err(error)
            }
        }
    }
}

/// `Exists` where something has the name `working` of the file in work that no export has left there. It is somebody's,
/// and stays.
fn expect_leftover(disk: &dyn Disk, working: &str) -> Result<()> {
    if !disk.exists(working)? || begins_as_export(disk, working)? {
        return Ok(());
    }
    Err(Error::new(
        Kind::Exists,
        format!(
            "{working} is there, which is no export that was cut off, and the snapshot is written under that name \
             first: move it away, or choose another name for the snapshot"
        ),
    ))
}

/// Objects go to the pack in batches without a commit.
struct ToPack<'a> {
    store: &'a Store,
    tip: Arc<Tip>,
}

impl Destination for ToPack<'_> {
    fn put(
        &mut self,
        stack: &[Slot],
        table: &[Slot],
        each: bool,
    ) -> Result<(Vec<Slot>, Vec<Slot>)> {
        drop(self.store.settled_index()?);
        self.tip.put_apart(&self.store.pack, stack, table, each)
    }

    fn keep(&mut self, state: &ImportState) -> Result<()> {
        let control = &self.store.control;
        let bytes = state.encode(control.store, control.epoch);
        self.tip.keep_state(&self.store.pack, &bytes)
    }

    fn keeps(&self) -> bool {
        true
    }
}

impl Tip {
    /// Appends what is live of `roots`, without a commit, and returns where all of these and of `among`,
    /// which are below them, are now; with `each` in a record of its own.
    fn put_apart(
        &self,
        pack: &Pack,
        roots: &[Slot],
        among: &[Slot],
        each: bool,
    ) -> Result<(Vec<Slot>, Vec<Slot>)> {
        let mut index = lock(&self.index);
        let mut writer = self.writer()?;
        let mut known = None;
        if index.keeps_objects() {
            // One for all, since what the table has is below the roots and below each other.
            let mut live = LiveObjects::default();
            for slot in roots.iter().chain(among) {
                match slot {
                    Slot::Node(node) => live.add(node),
                    Slot::Value(value) => live.hashes.push(hash::value(value)),
                    Slot::Embedded(bytes) if each => {
                        let node = Arc::new(entry::embedded_node(bytes)?);
                        live.hashes.push(digest::node(&node, None)?);
                        live.hashes.extend(batch::live_objects(&node));
                    }
                    _ => {}
                }
            }
            known = Some(index.known_objects(&live.hashes)?);
        }
        self.make_room(pack, &mut index, &mut writer)?;
        let start = writer.next_offset();
        let (roots, among, mut written) = writer.beside_collection(pack, |writer, barrier| {
            let mut sink = |parts: &[&[u8]]| writer.spill(&*self.disk, parts, pack);
            let batch = Batch::new(pack, start, known.as_ref()).behind(barrier);
            let mut batch = batch.in_pieces(&mut sink);
            let put = |slot| if each { batch.put_alone(slot) } else { batch.put_apart(slot) };
            let roots = roots.iter().map(put).collect::<Result<Vec<_>>>()?;
            let mut placed = Vec::with_capacity(among.len());
            for slot in among {
                // Of a leaf that is there already the values were not looked at.
                placed.push(match slot {
                    _ if each => batch.put_alone(slot)?,
                    Slot::Value(_) => batch.put_apart(slot)?,
                    _ => batch.placed(slot).unwrap_or_else(|| slot.clone()),
                });
            }
            Ok((roots, placed, batch.finish()))
        })?;
        let bytes = std::mem::take(&mut written.bytes);
        if !bytes.is_empty() {
            writer.append(&*self.disk, &bytes, false, pack)?;
        }
        index.put_objects(&written.fresh, known.as_ref());
        // What the index does not take now stays in memory until the next batch.
        let _ = index.settle();
        Ok((roots, among))
    }

    /// Makes the pack durable, and then the state of an import, which refers to it.
    fn keep_state(&self, pack: &Pack, bytes: &[u8]) -> Result<()> {
        let mut writer = self.writer()?;
        writer.sync(&*self.disk, pack.meter())?;
        // Another writer may have come in beside this one, whose import has a state too.
        writer.check_lock()?;
        replace::replace(&self.disk, paths::IMPORT, bytes)?;
        writer.syncs += 2;
        writer.written_bytes += bytes.len() as u64;
        Ok(())
    }
}
