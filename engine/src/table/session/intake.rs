//! Files of another session that a session takes in: linked or copied under numbers of its own, each
//! content once.
//!
//! A file is known by its identity and all that a manifest says of it, so whoever takes the same ones in
//! again, for the next backup, finds them and copies nothing. Segments of versions whose identities did not
//! depend on the opening may share one with a segment of a copy of the store, so their bytes are compared.
//! What is taken in goes with its last holder until something durable names it.

use std::sync::Arc;

use super::transfer::{Transferred, check, check_blob};
use crate::disk::{Access, Disk, Linked, Mode};
use crate::error::{Kind, Result};
use crate::format::hash::second_of;
use crate::format::header::{self, FileKind, Header};
use crate::order::BTreeMap;
use crate::table::durable::snapshot::{NamedSegments, TableRecord};
use crate::table::runs::blob::{BlobFile, BlobMeta, BlobUse};
use crate::table::runs::{ReadOptions, Run, RunReader, Segment, SegmentMeta};
use crate::table::shared::{Files, Purpose, SegmentStore, Verify, paths};

/// An identity that is a combination of the store's and a number below this has nothing of an opening in it:
/// no store has so many files, and of those with one hardly any looks like that.
const NUMBERS: u64 = 1 << 40;

/// Bytes of each of two files that are compared at a time.
const COMPARED_BYTES: usize = 256 << 10;

/// See the module.
pub struct Intake {
    there: Arc<SegmentStore>,
    verify: Verify,
    /// What is there and what was found there before, by identity, under the numbers that they have there.
    known: BTreeMap<u64, SegmentMeta>,
    known_blobs: BTreeMap<u64, BlobMeta>,
    /// Segments with damaged filters, by their numbers where they come from.
    to_write_anew: BTreeMap<u64, Arc<Segment>>,
    /// The segments that were asked for, by their numbers where they come from: as they are there, and here.
    taken: BTreeMap<u64, (SegmentMeta, SegmentMeta)>,
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
            to_write_anew: BTreeMap::new(),
            taken: BTreeMap::new(),
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

    /// When this one is to be taken in, its entries are, with filters made from them.
    pub fn write_anew(&mut self, theirs: &Arc<Segment>) {
        self.to_write_anew.insert(theirs.meta().id, Arc::clone(theirs));
    }

    /// Writes the entries of a segment to one of the session's own; `blobs` are as they are called here.
    fn made_anew(&self, theirs: &Arc<Segment>, blobs: &[BlobUse]) -> Result<Arc<Segment>> {
        let footer = &theirs.meta().footer;
        let bits = footer.bits_per_entry as u8;
        let mut builder = self.there.build_segment(bits, theirs.meta().file_bytes())?;
        let run = Run::new(vec![Arc::clone(theirs)]);
        let mut reader = RunReader::new(&run, None, ReadOptions::default())?;
        while let Some(entry) = reader.peek() {
            builder.add(entry)?;
            reader.advance()?;
        }
        builder.refer_to(blobs.to_vec());
        let files = blobs.iter().map(|it| Arc::clone(&self.blobs[&it.file.id])).collect();
        Ok(self.there.adopt(builder.finish()?, files, Purpose::Snapshot))
    }

    /// Takes a segment in, with the blob files that it refers to, and gives it as it is called there.
    pub fn segment(&mut self, source: &dyn Disk, meta: &SegmentMeta) -> Result<SegmentMeta> {
        if let Some((_, new)) = self.taken.get(&meta.id).filter(|(theirs, _)| theirs == meta) {
            return Ok(new.clone());
        }
        let mut new = meta.clone();
        for it in &mut new.blobs {
            it.file = self.blob(source, &it.file)?;
        }
        if let Some(theirs) = self.to_write_anew.get(&meta.id).filter(|it| it.meta() == meta) {
            let segment = self.made_anew(theirs, &new.blobs)?;
            let new = segment.meta().clone();
            self.moved.add(new.file_bytes(), Linked::Copy);
            self.segments.insert(new.id, segment);
            self.taken.insert(meta.id, (meta.clone(), new.clone()));
            return Ok(new);
        }
        let mut verify = self.verify;
        if let Some(known) = self.known.get(&meta.identity).cloned() {
            new.id = known.id;
            if new == known
                && let Some(segment) = self.known_segment(&known)?
            {
                if self.is_same(source, meta, &known)? {
                    if self.segments.insert(new.id, segment).is_none() {
                        self.kept.add(new.file_bytes(), Linked::HardLink);
                    }
                    self.taken.insert(meta.id, (meta.clone(), new.clone()));
                    return Ok(new);
                }
                // Another one, or damage, which is not to take the place of what is whole.
                verify = Verify::Full;
            }
        }
        new.id = self.there.new_id();
        let to = paths::segment(new.id);
        let linked = source.link_or_copy_to(&paths::segment(meta.id), &*self.there.disk, &to)?;
        let segment = self.there.adopt_file(&new)?;
        check(&segment, verify)?;
        self.moved.add(new.file_bytes(), linked);
        self.known.insert(new.identity, new.clone());
        self.segments.insert(new.id, segment);
        self.taken.insert(meta.id, (meta.clone(), new.clone()));
        Ok(new)
    }

    /// The segment that is there as `known`, if it is whole.
    fn known_segment(&self, known: &SegmentMeta) -> Result<Option<Arc<Segment>>> {
        if let Some(segment) = self.segments.get(&known.id) {
            return Ok(Some(Arc::clone(segment)));
        }
        let Some(segment) = whole(self.there.open_segment(known))? else { return Ok(None) };
        Ok(whole(check(&segment, self.verify))?.map(|()| segment))
    }

    /// Whether two segments of one description are one: by their identity, or else by their bytes.
    fn is_same(&self, source: &dyn Disk, meta: &SegmentMeta, known: &SegmentMeta) -> Result<bool> {
        let open =
            |disk: &dyn Disk, id| disk.open(&paths::segment(id), Mode::Read, Access::Buffered);
        let (theirs, ours) = (open(source, meta.id)?, open(&*self.there.disk, known.id)?);
        let mut head = [0; header::LENGTH];
        ours.read_exact_at(0, &mut head)?;
        let header = Header::expect(ours.path(), &head, FileKind::Segment)?;
        if second_of(header.store, header.identity) >= NUMBERS {
            return Ok(true);
        }
        let (mut one, mut other) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
        let mut at = 0;
        while at < meta.file_bytes() {
            let length = (meta.file_bytes() - at).min(COMPARED_BYTES as u64) as usize;
            theirs.read_exact_at(at, &mut one[..length])?;
            ours.read_exact_at(at, &mut other[..length])?;
            if one[..length] != other[..length] {
                return Ok(false);
            }
            at += length as u64;
        }
        Ok(true)
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

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::format::hash::combine;
    use crate::table::bytes::{EntryKind, EntryRef};
    use crate::table::runs::{SegmentBuilder, SegmentOptions};
    use crate::table::shared::SessionOptions;

    /// The segment 5 of store 1, as versions before the seed in identities wrote it.
    fn old(disk: &dyn Disk, value: &[u8]) -> SegmentMeta {
        let options = SegmentOptions {
            id: 5,
            identity: combine(1, 5),
            store: 1,
            salt: 9,
            bits_per_entry: 10,
            range_filter: true,
            access: Access::Buffered,
        };
        let mut builder = SegmentBuilder::new(disk, &paths::segment(5), options).unwrap();
        builder.add(EntryRef { kind: EntryKind::Insert, key: b"key", value }).unwrap();
        builder.finish().unwrap().meta
    }

    #[test]
    fn old_segments_of_two_branches_are_told_apart_by_their_bytes() {
        let disks = [(); 2].map(|()| MemoryDisk::new());
        let metas = [(&disks[0], b"one"), (&disks[1], b"two")].map(|(disk, value)| {
            disk.create_directory("segments").unwrap();
            old(&**disk, value)
        });
        assert_eq!(metas[0], metas[1], "nothing but the bytes tells them apart");
        let there = MemoryDisk::new();
        there.create_directory("segments").unwrap();
        let (disk, options) = (Arc::clone(&there) as Arc<dyn Disk>, SessionOptions::default());
        let lock = there.lock("lock", "a test").unwrap();
        let store = SegmentStore::new(disk, options, (2, 9), 1, Some((lock, 7)));
        let mut intake =
            Intake::new(&store, Verify::Quick, std::iter::empty(), std::iter::empty()).unwrap();
        let first = intake.segment(&*disks[0], &metas[0]).unwrap();
        let mut next =
            Intake::new(&store, Verify::Quick, [&first].into_iter(), std::iter::empty()).unwrap();
        let again = next.segment(&*disks[0], &metas[0]).unwrap();
        assert_eq!((again, next.kept.segments), (first.clone(), 1));
        let mut next =
            Intake::new(&store, Verify::Quick, [&first].into_iter(), std::iter::empty()).unwrap();
        let other = next.segment(&*disks[1], &metas[1]).unwrap();
        assert_eq!((next.kept.segments, next.moved.segments), (0, 1));
        assert!(
            there.bytes(&paths::segment(first.id)).unwrap()
                == disks[0].bytes(&paths::segment(5)).unwrap()
        );
        assert!(
            there.bytes(&paths::segment(other.id)).unwrap()
                == disks[1].bytes(&paths::segment(5)).unwrap()
        );
        // Damage of the source takes no place of what is whole.
        let mut bytes = disks[0].bytes(&paths::segment(5)).unwrap();
        bytes[4_200] ^= 1;
        disks[0].replace(&paths::segment(5), bytes).unwrap();
        let mut next =
            Intake::new(&store, Verify::Quick, [&first].into_iter(), std::iter::empty()).unwrap();
        assert_eq!(next.segment(&*disks[0], &metas[0]).unwrap_err().kind(), Kind::Corrupt);
    }
}
