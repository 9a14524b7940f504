//! Snapshots that travel: into a folder of their own, and from one into another session.
//!
//! What is exported is a session with one snapshot, so everything that works on a session works on it.
//! Files go over as they are, linked where that can be: each carries its identity and its salt, and
//! its number is in its name and in the manifest only, so an import numbers them anew. Entries name
//! blob files by identity, which stays.
//!
//! Every write and sync: `docs/design/durability.md`.

use std::sync::Arc;

use super::lifecycle::Session;
use crate::disk::{Access, Disk, Linked, Mode, entropy, remove_quietly};
use crate::error::{Kind, Result};
use crate::file::replace;
use crate::format::checksum::crc;
use crate::format::hash::combine;
use crate::order::BTreeMap;
use crate::table::durable::folder::{Claim, lost_or_deleted, read_manifest, read_session};
use crate::table::durable::snapshot::{Manifest, NamedSegments};
use crate::table::durable::verify;
use crate::table::runs::blob::{BlobFile, BlobMeta};
use crate::table::runs::{Segment, SegmentMeta};
use crate::table::shared::paths::{self, SEGMENTS};
use crate::table::shared::{SegmentStore, SessionOptions, Verify};

/// What an export or an import moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transferred {
    /// Segment files and blob files.
    pub segments: u64,
    /// Their length together.
    pub bytes: u64,
    /// Bytes of those that had to be copied; the others share their blocks with the source.
    pub copied_bytes: u64,
}

impl Transferred {
    pub(super) fn add(&mut self, file_bytes: u64, linked: Linked) {
        self.segments += 1;
        self.bytes += file_bytes;
        self.copied_bytes += if linked == Linked::Copy { file_bytes } else { 0 };
    }
}

/// The segments of a manifest, each once.
fn distinct(manifest: &Manifest) -> BTreeMap<u64, SegmentMeta> {
    manifest.segments().map(|meta| (meta.id, meta.clone())).collect()
}

/// The blob files of a manifest, each once.
fn distinct_blobs(manifest: &Manifest) -> BTreeMap<u64, BlobMeta> {
    manifest.blobs().map(|meta| (meta.id, *meta)).collect()
}

/// Links or copies a file to the folder of `target`, where it is durable then but for its name.
fn send(from: &dyn Disk, path: &str, target: &dyn Disk) -> Result<Linked> {
    let linked = from.link_or_copy_to(path, target, path)?;
    if linked != Linked::HardLink {
        target.open(path, Mode::Write, Access::Buffered)?.sync()?;
    }
    Ok(linked)
}

impl Session {
    /// Exports the snapshot `name` to the root folder of `target`, which must be empty: it becomes a
    /// session with that one snapshot, whole or not at all. Also from a session that only reads.
    ///
    /// Costs a link for each segment, or a copy and a sync where the file systems differ, and four
    /// small writes. With [`Verify::Full`] what arrived is read, each byte. `Missing` without the
    /// snapshot; `Exists` or `Invalid` for a folder that is not empty; `Corrupt` for a damaged source.
    /// After an error nothing is left but empty folders. The new session's identity follows from what is
    /// exported and the seed in the options; without one, `target` draws it, or else this session's disk.
    ///
    /// ```
    /// use varvite::disk::{Disk, memory::MemoryDisk};
    /// use varvite::{Batch, OpenSnapshot, Session, SessionOptions, SnapshotContent, TableOptions, Verify};
    /// use std::sync::Arc;
    ///
    /// let here = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// let mut table = here.create_table("utxo", TableOptions::utxo())?;
    /// table.update(Batch::new().insert(b"tx1#0", b"5 ada"))?;
    /// here.save_snapshot("now", SnapshotContent { tables: &[&table], ..Default::default() })?;
    /// let parcel: Arc<dyn Disk> = MemoryDisk::seeded(1);
    /// here.export_snapshot("now", &parcel, Verify::Quick)?;
    ///
    /// let there = Session::create(MemoryDisk::seeded(1), SessionOptions { seed: Some(7), ..SessionOptions::default() })?;
    /// there.import_snapshot(&parcel, "now", "received", Verify::Full)?;
    /// let mut snapshot = there.open_snapshot("received", &OpenSnapshot::default())?;
    /// assert_eq!(snapshot.take("utxo")?.get(b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn export_snapshot(
        &self,
        name: &str,
        target: &Arc<dyn Disk>,
        verify: Verify,
    ) -> Result<Transferred> {
        self.store.check_open()?;
        let (manifest, _held) = self.read_held(name)?;
        let given = self.store.options.seed;
        let seed = entropy::seed(given, &**target);
        let seed = match seed {
            Err(error) if error.kind() == Kind::Invalid => entropy::seed(given, &*self.store.disk),
            seed => seed,
        }?;
        let (claim, _lock) = Claim::begin(target)?;
        let segments = distinct(&manifest);
        let files: BTreeMap<_, _> = manifest.files().collect();
        let outcome = self
            .export((name, seed), manifest.clone(), &segments, target, verify)
            .map_err(|error| lost_or_deleted(&*self.store.disk, &manifest, error));
        let outcome = outcome.and_then(|(identity, moved)| {
            // With this it is a session.
            claim.finish(identity, self.store.salt.number())?;
            Ok(moved)
        });
        // Best effort: the mark, which goes last, says that what stays is nothing.
        if outcome.is_err() && claim.retract().is_ok() {
            remove_quietly(&**target, &paths::snapshot(name));
            for path in files.values() {
                remove_quietly(&**target, path);
            }
            let _ = claim.give_up();
        }
        outcome
    }

    fn export(
        &self,
        (name, seed): (&str, u64),
        mut manifest: Manifest,
        segments: &BTreeMap<u64, SegmentMeta>,
        target: &Arc<dyn Disk>,
        verify: Verify,
    ) -> Result<(u64, Transferred)> {
        let store = &self.store;
        let path = paths::snapshot(name);
        // Its own, for both sessions may go on writing files with the same numbers.
        let identity = combine(store.identity, u64::from(crc(&manifest.encode())));
        let identity = combine(identity, seed);
        let there = SegmentStore::new(
            Arc::clone(target),
            SessionOptions {
                max_open_files: store.options.max_open_files,
                ..SessionOptions::default()
            },
            (identity, store.salt.number()),
            u64::MAX,
            None,
        );
        let mut moved = Transferred::default();
        for meta in distinct_blobs(&manifest).values() {
            let linked = send(&*store.disk, &paths::blob(meta.id), &**target)?;
            check_blob(&*there.open_blob(meta)?, verify)?;
            moved.add(meta.file_bytes(), linked);
        }
        for meta in segments.values() {
            let linked = send(&*store.disk, &paths::segment(meta.id), &**target)?;
            check(&there.open_segment(meta)?, verify)?;
            moved.add(meta.file_bytes(), linked);
        }
        target.sync_directory(SEGMENTS)?;
        manifest.header = Manifest::header(identity, name);
        manifest.sequence = 1;
        replace::replace(target, &path, &manifest.encode())?;
        Ok((identity, moved))
    }

    /// Imports the snapshot `name` of the session in the root folder of `source`, an export or any
    /// other that nobody writes to, as the snapshot `new_name`, whole or not at all.
    ///
    /// Costs a link or a copy and a sync for each segment, and one manifest. The source stays as it is,
    /// and may go afterwards. Header and footer of each file are checked, with [`Verify::Full`] every
    /// byte. `Missing`, `Corrupt`, `Version` for the source; `Exists` when the new name is taken. After
    /// an error nothing is left.
    pub fn import_snapshot(
        &self,
        source: &Arc<dyn Disk>,
        name: &str,
        new_name: &str,
        verify: Verify,
    ) -> Result<Transferred> {
        let moved = self.import_all(source, name, new_name, verify);
        if moved.is_err() {
            self.store.remove_all();
        }
        moved
    }

    fn import_all(
        &self,
        source: &Arc<dyn Disk>,
        name: &str,
        new_name: &str,
        verify: Verify,
    ) -> Result<Transferred> {
        self.store.check_writable()?;
        let (theirs, _) = read_session(&**source)?;
        let mut manifest = read_manifest(&**source, theirs, name)?;
        let (path, _changing) = self.claim(new_name)?;
        let mut moved = Transferred::default();
        let (mut numbers, mut named) = (BTreeMap::new(), NamedSegments::new());
        let mut held = Vec::new();
        let explain = |error| lost_or_deleted(&**source, &manifest, error);
        for (id, mut meta) in distinct_blobs(&manifest) {
            meta.id = self.store.new_id();
            let to = paths::blob(meta.id);
            let linked = source.link_or_copy_to(&paths::blob(id), &*self.store.disk, &to);
            let linked = linked.map_err(explain)?;
            let blob = self.store.adopt_blob_file(&meta)?;
            check_blob(&blob, verify)?;
            moved.add(meta.file_bytes(), linked);
            numbers.insert(id, meta.id);
            held.push(blob);
        }
        for (id, mut meta) in distinct(&manifest) {
            meta.id = self.store.new_id();
            for it in &mut meta.blobs {
                it.file.id = numbers[&it.file.id];
            }
            let to = paths::segment(meta.id);
            let linked = source.link_or_copy_to(&paths::segment(id), &*self.store.disk, &to);
            let linked = linked.map_err(explain)?;
            let segment = self.store.adopt_file(&meta)?;
            check(&segment, verify)?;
            moved.add(meta.file_bytes(), linked);
            numbers.insert(id, meta.id);
            named.insert(meta.id, segment);
        }
        for table in &mut manifest.tables {
            for meta in table.segments_mut() {
                meta.id = numbers[&meta.id];
                for it in &mut meta.blobs {
                    it.file.id = numbers[&it.file.id];
                }
            }
        }
        let Manifest { label, payload, tables, .. } = manifest;
        self.write_snapshot(new_name, &path, (label, payload, tables), &named)?;
        Ok(moved)
    }
}

pub(super) fn check(segment: &Arc<Segment>, verify: Verify) -> Result<()> {
    match verify {
        Verify::Quick => Ok(()),
        Verify::Full => verify::segment(segment),
    }
}

/// Header, footer and length, and with [`Verify::Full`] every byte.
pub(super) fn check_blob(blob: &BlobFile, verify: Verify) -> Result<()> {
    blob.file()?;
    match verify {
        Verify::Quick => Ok(()),
        Verify::Full => blob.verify(),
    }
}
