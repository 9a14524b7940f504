//! Whether what a collection left and the whole chunks are of one history, as their records say.

use std::sync::Arc;

use super::below::read_all;
use super::{Piece, Wreck};
use crate::context::files::control::{Row, State};
use crate::context::files::paths;
use crate::context::files::record::{self, Tag};
use crate::context::files::sparse::{KeptRecord, SparseFile};
use crate::context::store::repair::gathered::{Gathered, Source};
use crate::context::store::repair::salvage;
use crate::disk::Disk;
use crate::error::Result;
use crate::order::BTreeMap;

/// What a sparse file has, in memory.
#[derive(Clone, Copy)]
pub(super) struct SparseBytes<'a> {
    pub(super) bytes: &'a [u8],
    /// The logical offset from which its distances count.
    pub(super) base: u64,
    /// Whether its mapping is as it was written.
    pub(super) is_verified: bool,
}

/// What a whole chunk has where a sparse file has a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// The same bytes.
    Same,
    /// The same object: a collection may have written a patch otherwise.
    Otherwise,
    /// Another record, or none.
    Another,
}

impl Wreck {
    /// Those of `records` that are needed beside the `whole` chunks: all of a file that is as it was written, and of another one
    /// what no chunk has as it is there. None where the file is of another copy of the store, which went on by itself: a
    /// record in it is not the one of the sound chunk that it would be of.
    pub(super) fn needed_beside(
        &self,
        found: SparseBytes<'_>,
        mut records: Vec<KeptRecord>,
        whole: &[&Piece],
        gathered: &Gathered,
    ) -> Result<Option<Vec<KeptRecord>>> {
        let mut matches = BTreeMap::new();
        let is_there = |piece: &&&Piece| piece.row.state == State::Whole && piece.missing.is_none();
        for piece in whole.iter().filter(is_there) {
            self.matches(found, &records, piece, gathered, &mut matches)?;
        }
        let is_another =
            |entry: &KeptRecord| matches.get(&entry.distance) == Some(&Likeness::Another);
        let is_seal = |entry: &&KeptRecord| found.bytes[entry.place as usize] == Tag::Seal as u8;
        // Without the mapping something may only seem to be a record.
        let is_parted = if found.is_verified {
            records.iter().any(is_another)
        } else {
            records.last().filter(is_seal).is_some_and(is_another)
        };
        if is_parted {
            return Ok(None);
        }
        if !found.is_verified && !whole.is_empty() {
            records.retain(|entry| {
                matches.get(&entry.distance).is_none_or(|it| *it == Likeness::Otherwise)
            });
        }
        Ok(Some(records))
    }

    /// Whether the file of `row`, which stands for several chunks, has something of that of `piece`, which is whole in the folder
    /// `lower`, and nothing that this has otherwise.
    pub(super) fn has_part_of(
        &self,
        lower: &Arc<dyn Disk>,
        piece: &Piece,
        row: &Row,
    ) -> Result<bool> {
        let State::Sparse(SparseFile { generation, .. }) = row.state else { return Ok(false) };
        let path = paths::sparse_chunk(self.epoch, row.number, generation);
        let bytes = read_all(&*self.source, &path)?;
        let identity = paths::sparse_identity(self.store, self.epoch, row.number, generation);
        let within = row.base..row.base.saturating_add(row.length);
        let records = salvage::of_sparse(&bytes, (identity, self.store), &within);
        let found = SparseBytes { bytes: &bytes, base: row.base, is_verified: true };
        let source = Source { disk: Arc::clone(lower), header: None, mended: None };
        let whole = Gathered::of_one(paths::chunk(self.epoch, piece.row.number), source);
        let mut matches = BTreeMap::new();
        self.matches(found, &records, piece, &whole, &mut matches)?;
        let is_any = matches.values().any(|it| *it == Likeness::Same);
        Ok(is_any && !matches.values().any(|it| *it == Likeness::Another))
    }

    /// What the chunk of `piece` has where the records are, by their distances; nothing of what is damaged there.
    fn matches(
        &self,
        found: SparseBytes<'_>,
        records: &[KeptRecord],
        piece: &Piece,
        gathered: &Gathered,
        into: &mut BTreeMap<u64, Likeness>,
    ) -> Result<()> {
        let (begin, length) = (piece.row.base, piece.row.length);
        let place = |entry: &KeptRecord| {
            let offset = found.base.checked_add(entry.distance)?;
            offset.checked_sub(begin).filter(|place| *place < length)
        };
        if !records.iter().any(|entry| place(entry).is_some()) {
            return Ok(());
        }
        let path = paths::chunk(self.epoch, piece.row.number);
        let is_sound = self.is_sound(gathered, piece.row.number)?;
        let there = read_all(gathered, &path)?;
        for entry in records {
            let Some(place) = place(entry) else { continue };
            let own = found.bytes.get(entry.place as usize..).unwrap_or_default();
            let rest = there.get(place as usize..).unwrap_or_default();
            let take = |bytes| record::take(&path, place, self.store, begin + place, bytes).ok();
            let Some(own_record) = take(own) else { continue };
            let outcome = match take(rest) {
                Some(it) if own.get(..own_record.length) == rest.get(..it.length) => Likeness::Same,
                Some(it)
                    if it.hash == own_record.hash
                        && it.tag.is_object()
                        && own_record.tag.is_object() =>
                {
                    Likeness::Otherwise
                }
                None if !is_sound => continue,
                _ => Likeness::Another,
            };
            into.insert(entry.distance, outcome);
        }
        Ok(())
    }
}
