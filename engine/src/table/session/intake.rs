//! Files of another session that a session takes in: linked or copied under numbers of its own, each
//! content once.
//!
//! A file is known by its identity and all that a manifest says of it, so whoever takes the same ones in
//! again, for the next backup, finds them and copies nothing. What is taken in goes with its last
//! holder until something durable names it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::transfer::{Transferred, check, check_blob};
use crate::disk::{Disk, Linked};
use crate::error::{Kind, Result};
use crate::table::durable::snapshot::{NamedSegments, TableRecord};
use crate::table::runs::SegmentMeta;
use crate::table::runs::blob::{BlobFile, BlobMeta};
use crate::table::shared::{Files, SegmentStore, Verify, paths};

/// See the module.
pub struct Intake {
    there: Arc<SegmentStore>,
    verify: Verify,
    /// What is there and what was found there before, by identity, under the numbers that they have there.
    known: BTreeMap<u64, SegmentMeta>,
    known_blobs: BTreeMap<u64, BlobMeta>,
    /// Of the blob files that were there before, those that are whole, by their numbers.
    sound_blobs: BTreeMap<u64, Arc<BlobFile>>,
    /// What was taken in, by its number there.
    segments: NamedSegments,
    blobs: BTreeMap<u64, Arc<BlobFile>>,
    /// Blob files that have a number there and are yet to be copied, by that, with the number that they have
    /// where they come from.
    announced: BTreeMap<u64, (BlobMeta, u64)>,
    /// What came.
    pub moved: Transferred,
    /// What was there already.
    pub kept: Transferred,
}

impl Intake {
    /// Of the session whose files `there` has. Where `known` are whole, they are not copied again; blob files are
    /// looked at now, so that nobody waits for that later. `Io`.
    pub fn new<'a>(
        there: &Arc<SegmentStore>,
        verify: Verify,
        known: impl Iterator<Item = &'a SegmentMeta>,
        known_blobs: impl Iterator<Item = &'a BlobMeta>,
    ) -> Result<Intake> {
        let (mut segments, mut blobs) = (BTreeMap::new(), BTreeMap::new());
        for meta in known {
            blobs.extend(meta.blobs.iter().map(|it| (it.file.identity, it.file)));
            segments.insert(meta.identity, meta.clone());
        }
        blobs.extend(known_blobs.map(|meta| (meta.identity, *meta)));
        let mut sound_blobs = BTreeMap::new();
        for meta in blobs.values() {
            let file = there.open_blob(meta).and_then(|file| {
                check_blob(&file, verify)?;
                Ok(file)
            });
            if let Some(file) = whole(file)? {
                sound_blobs.insert(meta.id, file);
            }
        }
        Ok(Intake {
            there: Arc::clone(there),
            verify,
            known: segments,
            known_blobs: blobs,
            sound_blobs,
            segments: NamedSegments::new(),
            blobs: BTreeMap::new(),
            announced: BTreeMap::new(),
            moved: Transferred::default(),
            kept: Transferred::default(),
        })
    }

    /// Gives a blob file as it is called there. It may have to be [copied](Intake::copy_blobs) yet.
    pub fn announce_blob(&mut self, meta: &BlobMeta) -> BlobMeta {
        if let Some(known) = self.known_blobs.get(&meta.identity).filter(|it| it.is_copy_of(meta)) {
            let known = *known;
            if self.blobs.contains_key(&known.id) || self.announced.contains_key(&known.id) {
                return known;
            }
            if let Some(file) = self.sound_blobs.get(&known.id) {
                self.kept.add(meta.file_bytes(), Linked::HardLink);
                self.blobs.insert(known.id, Arc::clone(file));
                return known;
            }
        }
        let new = BlobMeta { id: self.there.new_id(), ..*meta };
        self.known_blobs.insert(new.identity, new);
        self.announced.insert(new.id, (new, meta.id));
        new
    }

    /// Copies the blob files that were announced.
    pub fn copy_blobs(&mut self, source: &dyn Disk) -> Result<()> {
        while let Some((&id, &(new, from))) = self.announced.first_key_value() {
            let to = paths::blob(id);
            let linked = source.link_or_copy_to(&paths::blob(from), &*self.there.disk, &to)?;
            let file = self.there.adopt_blob_file(&new)?;
            check_blob(&file, self.verify)?;
            self.moved.add(new.file_bytes(), linked);
            self.blobs.insert(id, file);
            self.announced.remove(&id);
        }
        Ok(())
    }

    /// Forgets those that were announced and not copied: whoever needed them begins anew.
    pub fn forget_announced(&mut self) {
        for (new, _) in std::mem::take(&mut self.announced).into_values() {
            self.known_blobs.remove(&new.identity);
        }
    }

    /// Takes a blob file in and gives it as it is called there.
    fn blob(&mut self, source: &dyn Disk, meta: &BlobMeta) -> Result<BlobMeta> {
        let new = self.announce_blob(meta);
        self.copy_blobs(source)?;
        Ok(new)
    }

    /// Takes a segment in, with the blob files that it refers to, and gives it as it is called there.
    pub fn segment(&mut self, source: &dyn Disk, meta: &SegmentMeta) -> Result<SegmentMeta> {
        let mut new = meta.clone();
        for it in &mut new.blobs {
            it.file = self.blob(source, &it.file)?;
        }
        if let Some(known) = self.known.get(&meta.identity) {
            new.id = known.id;
            if new == *known && self.segments.contains_key(&new.id) {
                return Ok(new);
            }
            if new == *known
                && let Some(segment) = whole(self.there.open_segment(&new))?
                && whole(check(&segment, self.verify))?.is_some()
            {
                self.kept.add(new.file_bytes(), Linked::HardLink);
                self.segments.insert(new.id, segment);
                return Ok(new);
            }
        }
        new.id = self.there.new_id();
        let to = paths::segment(new.id);
        let linked = source.link_or_copy_to(&paths::segment(meta.id), &*self.there.disk, &to)?;
        let segment = self.there.adopt_file(&new)?;
        check(&segment, self.verify)?;
        self.moved.add(new.file_bytes(), linked);
        self.known.insert(new.identity, new.clone());
        self.segments.insert(new.id, segment);
        Ok(new)
    }

    /// Takes all segments of `table` in and gives it as it is there.
    pub fn table(&mut self, source: &dyn Disk, table: &TableRecord) -> Result<TableRecord> {
        let mut table = table.clone();
        for meta in table.segments_mut() {
            *meta = self.segment(source, meta)?;
        }
        Ok(table)
    }

    /// Makes all that was taken in durable.
    pub fn sync(&self) -> Result<()> {
        self.there.sync_segments(self.segments.values())?;
        self.there.sync_blobs(self.blobs.values())
    }

    /// The counted files with these numbers, which were all taken in.
    pub fn files(&self, numbers: impl Iterator<Item = u64>) -> Files {
        let file = |id| {
            let segment = self.segments.get(&id).map(|it| it.shared());
            let shared = segment.or_else(|| self.blobs.get(&id).map(|it| it.shared()));
            (id, Arc::clone(shared.expect("it was taken in")))
        };
        numbers.map(file).collect()
    }
}

/// What was found, or none where it is damaged or lost: then another copy is made.
fn whole<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if [Kind::Corrupt, Kind::Missing, Kind::Version].contains(&error.kind()) => {
            Ok(None)
        }
        found => found.map(Some),
    }
}
