//! Segments in the making, with the blob files that their large values go to.
//!
//! A value of a certain length is written to a blob file once, by whoever first writes its entry to
//! disk; after that merges copy the reference. Only values of **sparse** files, of which less than a
//! quarter is still referred to, are copied to a new file, so that the old one can go.

use std::sync::Arc;

use crate::error::Result;
use crate::order;
use crate::order::{BTreeMap, BTreeSet};
use crate::table::bytes::{EntryKind, EntryRef};
use crate::table::runs::blob::{
    BLOB_FILE_BYTES, BlobBuilder, BlobFile, BlobMeta, BlobSpan, BlobUse, HeldBlob,
};
use crate::table::runs::{BLOB_FILES_MAX, Segment, SegmentBuilder};
use crate::table::shared::{Compression, Purpose, SegmentStore, TableOptions};

/// A file is sparse when less than one byte of so many is referred to.
const SPARSE: u64 = 4;

/// What goes to blob files, how much moves from one to another, and whether what stays is compressed.
#[derive(Clone, Copy, Debug)]
pub struct BlobPlan {
    /// Values of at least so many bytes are put there.
    pub min_bytes: u32,
    /// A merge chooses no further file to empty once those that it chose hold so many live bytes. So
    /// what a merge moves stays in proportion to the updates that pay for it.
    pub move_max: u64,
    /// Whether pages are compressed.
    pub compression: Compression,
}

impl BlobPlan {
    /// For what moves no values.
    pub fn new(min_bytes: u32, compression: Compression) -> Self {
        BlobPlan { min_bytes, move_max: 0, compression }
    }

    /// For the merges of a table with these options.
    pub fn of(options: &TableOptions) -> Self {
        let move_max = options.write_buffer_bytes * u64::from(options.size_ratio);
        let compression = options.compression;
        BlobPlan { min_bytes: options.blob_min(), move_max, compression }
    }

    /// For a union of tables, which is paid for by what it takes: it empties every sparse file.
    pub fn of_union(options: &TableOptions) -> Self {
        BlobPlan { move_max: u64::MAX, ..BlobPlan::of(options) }
    }

    /// Of the files that `segments` refer to, those that a merge of them empties: the sparsest of
    /// those of which less than a quarter is referred to, by identity, each with the bytes that are.
    pub fn sparse<'a>(
        &self,
        segments: impl Iterator<Item = &'a Arc<Segment>>,
    ) -> BTreeMap<u64, u64> {
        let mut files: BTreeMap<u64, (u64, BlobMeta)> = BTreeMap::new();
        for it in segments.flat_map(|segment| &segment.meta().blobs) {
            files.entry(it.file.identity).or_insert((0, it.file)).0 += it.bytes;
        }
        // Of a segment that a merge has half behind it all references count, so this errs towards
        // leaving values where they are.
        let mut sparse: Vec<_> = files
            .into_values()
            .filter(|(bytes, file)| bytes.saturating_mul(SPARSE) < file.bytes)
            .collect();
        let place = |(bytes, file): &(u64, BlobMeta)| {
            let share = (u128::from(*bytes) << 32) / u128::from(file.bytes);
            (share, file.identity)
        };
        order::sort_by(&mut sparse, |a, b| place(a).cmp(&place(b)));
        let (mut chosen, mut moved) = (BTreeMap::new(), 0);
        for (bytes, file) in sparse {
            if moved >= self.move_max {
                break;
            }
            moved += bytes;
            chosen.insert(file.identity, bytes);
        }
        chosen
    }
}

/// References of the segment in work to one blob file.
#[derive(Debug, Default)]
struct Uses {
    entries: u64,
    bytes: u64,
    /// None while it is the one in work.
    file: Option<Arc<BlobFile>>,
}

/// A segment in the making.
pub struct Output {
    segment: SegmentBuilder,
    blobs: BlobPlan,
    /// Files whose values are copied to another one.
    sparse: Arc<BTreeSet<u64>>,
    purpose: Purpose,
    uses: BTreeMap<u64, Uses>,
    blob: Option<BlobBuilder>,
}

impl Output {
    /// Begins with the segment that `segment` builds.
    pub fn new(mut segment: SegmentBuilder, blobs: BlobPlan, purpose: Purpose) -> Self {
        if blobs.compression == Compression::Fast {
            segment.pack();
        }
        Output {
            segment,
            blobs,
            sparse: Arc::default(),
            purpose,
            uses: BTreeMap::new(),
            blob: None,
        }
    }

    /// The same, which copies the values of `sparse` files.
    #[must_use]
    pub fn emptying(self, sparse: &Arc<BTreeSet<u64>>) -> Self {
        Output { sparse: Arc::clone(sparse), ..self }
    }

    /// The key added last; empty before the first.
    #[inline]
    pub fn last_key(&self) -> &[u8] {
        self.segment.last_key()
    }

    /// Appends an entry, whose key must be above the last one. Returns the bytes of a value that was
    /// moved from one blob file to another.
    #[inline]
    pub fn add(&mut self, store: &SegmentStore, entry: EntryRef<'_>) -> Result<u64> {
        let is_large = entry.value.len() >= self.blobs.min_bytes as usize;
        if entry.kind == EntryKind::Blob || (is_large && entry.kind == EntryKind::Insert) {
            return self.add_blob(store, entry);
        }
        self.segment.add(entry)?;
        Ok(0)
    }

    #[cold]
    fn add_blob(&mut self, store: &SegmentStore, entry: EntryRef<'_>) -> Result<u64> {
        if entry.kind == EntryKind::Insert {
            let span = self.blob(store)?.add(entry.value)?;
            return self.refer(entry.key, span, None).map(|()| 0);
        }
        let HeldBlob { span, file } = store.blob(entry.value)?;
        if !self.sparse.contains(&span.file) {
            return self.refer(entry.key, span, Some(file)).map(|()| 0);
        }
        let value = store.fetch(entry.value)?;
        let moved = self.blob(store)?.add(&value)?;
        self.refer(entry.key, moved, None)?;
        Ok(span.length)
    }

    fn refer(&mut self, key: &[u8], span: BlobSpan, file: Option<Arc<BlobFile>>) -> Result<()> {
        let value = span.encode();
        self.segment.add(EntryRef { kind: EntryKind::Blob, key, value: &value })?;
        let uses = self.uses.entry(span.file).or_default();
        uses.entries += 1;
        uses.bytes += span.length;
        if uses.file.is_none() {
            uses.file = file;
        }
        Ok(())
    }

    /// The blob file in work, which has room.
    fn blob(&mut self, store: &SegmentStore) -> Result<&mut BlobBuilder> {
        if self.blob.as_ref().is_some_and(|blob| blob.bytes_so_far() >= BLOB_FILE_BYTES) {
            self.end_blob(store)?;
        }
        let blob = match self.blob.take() {
            Some(blob) => blob,
            None => store.build_blob()?,
        };
        Ok(self.blob.insert(blob))
    }

    fn end_blob(&mut self, store: &SegmentStore) -> Result<()> {
        if let Some(blob) = self.blob.take() {
            let file = store.adopt_blob(blob, self.purpose)?;
            let identity = file.meta().identity;
            self.uses.entry(identity).or_default().file = Some(file);
        }
        Ok(())
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> u64 {
        let blob = self.blob.as_ref().map_or(0, BlobBuilder::memory_bytes);
        (self.segment.memory_bytes() + blob) as u64
    }

    /// Whether the segment is to end here: at `segment_bytes`, because its filter's hashes take half as much
    /// memory, or because its list of blob files is full.
    #[inline]
    pub fn is_full(&self, segment_bytes: u64) -> bool {
        self.segment.bytes_so_far() >= segment_bytes
            || self.segment.counts().entries() >= (segment_bytes / 16).max(1 << 16)
            // One more entry may begin two files: one that it refers to, or a new one to write.
            || self.uses.len() + 2 > BLOB_FILES_MAX as usize
    }

    /// Writes what there is of the segment's pages, so that it takes little memory until it is finished. After the
    /// last entry.
    pub fn end_entries(&mut self) -> Result<()> {
        self.segment.end_entries()
    }

    /// Puts up to `most` entries into the segment's filter, after the last was added; how many there were.
    pub fn build_filter(&mut self, most: usize) -> usize {
        self.segment.build_filter(most)
    }

    /// Finishes the files. Does not sync them.
    pub fn finish(mut self, store: &SegmentStore) -> Result<Arc<Segment>> {
        self.end_blob(store)?;
        let (mut list, mut files) = (Vec::new(), Vec::new());
        for Uses { entries, bytes, file } in self.uses.into_values() {
            let file = file.expect("every blob file referred to is held");
            list.push(BlobUse { file: *file.meta(), entries, bytes });
            files.push(file);
        }
        self.segment.refer_to(list);
        Ok(store.adopt(self.segment.finish()?, files, self.purpose))
    }
}
