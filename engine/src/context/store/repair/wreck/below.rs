//! Chunks in the lower folder, of which the store's own may have a part as well.

use std::ops::Range;
use std::sync::Arc;

use super::{Piece, Wreck, is_loss};
use crate::context::files::control::{Row, State};
use crate::context::files::paths;
use crate::context::files::record;
use crate::context::store::repair::gathered::{Gathered, Mended, Source};
use crate::context::store::repair::salvage;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::Result;
use crate::file::append::{self, HEAD};

impl Wreck {
    /// Whether a whole chunk is one of this store's history, as far as that can be seen: what is kept of it has the hashes of its
    /// commits in any case. `named` says what the control file says of it, perhaps with others, and whether that is there: then
    /// one of which nothing can be seen is none.
    pub(super) fn is_ours(
        &self,
        lower: &Arc<dyn Disk>,
        piece: &Piece,
        (named, is_kept): (Option<Row>, bool),
        after: Option<&Piece>,
    ) -> Result<bool> {
        let Row { number, length, .. } = piece.row;
        let chain = self.chain(lower, number, length)?;
        let is_last = |row: &Row| row.number + row.count == number + 1;
        if let Some(row) = named.filter(|row| matches!(row.state, State::Sparse(_)) && is_last(row))
        {
            let is_end = piece.row.base.checked_add(length) == Some(row.base + row.length);
            return Ok(chain.map_or(!is_kept, |chain| is_end && chain == row.chain));
        }
        let row = named.filter(|row| row.number == number);
        let row = row.filter(|row| row.state == State::Whole || row.state.is_lower());
        if row.is_some_and(|row| piece.opening.is_some_and(|it| it.base != row.base)) {
            return Ok(false);
        }
        let last = self.control.as_ref().filter(|control| control.last().number == number);
        match (last.map(|control| control.checkpoint), row) {
            // What follows the checkpoint is known to nobody, but what is before it.
            (Some(place), _) if place.before > 0 => {
                let path = paths::chunk(self.epoch, number);
                let file = lower.open(&path, Mode::Read, Access::Buffered)?;
                let identity = paths::chunk_identity(self.store, self.epoch, number);
                let found = append::position_after(&*file, identity, place.before)?;
                return Ok(found == Some(place.position));
            }
            (None, Some(row)) => return Ok(chain.is_none_or(|chain| chain == row.chain)),
            _ => {}
        }
        let next = after.filter(|after| after.row.number == number + 1);
        let Some(next) = next.and_then(|next| next.opening) else {
            // Nothing says where one ends that is in the middle of several, or how: but what is left of it is known.
            if let Some(row) = named.filter(|_| is_kept) {
                return self.has_part_of(lower, piece, &row);
            }
            return Ok(last.is_none());
        };
        let is_before = piece.opening.is_none_or(|it| it.base + length == next.base);
        Ok(is_before && chain.is_none_or(|chain| chain == next.chain))
    }

    /// Whether a whole chunk is as it was written.
    pub(super) fn is_sound(&self, disk: &dyn Disk, number: u64) -> Result<bool> {
        let file = disk.open(&paths::chunk(self.epoch, number), Mode::Read, Access::Buffered)?;
        let identity = paths::chunk_identity(self.store, self.epoch, number);
        Ok(append::remnants(&*file, identity, |_| ())?.is_none())
    }

    /// Where the chunk of `piece`, behind which the next begins at logical offset `next`, is damaged in the folder `disk`, and
    /// some of its records are above as well: the chunk with these, read where they are. Which file has them its row says, or
    /// else each of the `generations` that are there may, the newest first: one that was only begun has few, or none. Of a record
    /// its own checksum says that it is the one of its place.
    pub(super) fn with_above(
        &mut self,
        disk: &Arc<dyn Disk>,
        place: (&Piece, Option<u64>),
        (row, generations): (Option<&Row>, &[u64]),
    ) -> Result<Option<Arc<dyn Disk>>> {
        let (mut generations, known) = match row.map(|row| (row.state, row)) {
            Some((State::Both(above), row)) => (vec![above.generation], Some(row)),
            Some((State::Lower, _)) => (Vec::new(), None),
            // Without a control file, or with one of before the chunk moved.
            _ => (generations.to_vec(), None),
        };
        generations.sort_unstable();
        let mut mended: Option<Arc<dyn Disk>> = None;
        while let Some(generation) = generations.pop() {
            let so_far = mended.as_ref().unwrap_or(disk);
            let more = self.with_one_above((so_far, disk), place, (generation, known))?;
            mended = more.or(mended);
        }
        Ok(mended)
    }

    /// The same of the file above of one `generation`, with what is mended so far of the folder. Both files are in memory meanwhile,
    /// and none of either after.
    fn with_one_above(
        &mut self,
        (disk, folder): (&Arc<dyn Disk>, &Arc<dyn Disk>),
        (piece, next): (&Piece, Option<u64>),
        (generation, known): (u64, Option<&Row>),
    ) -> Result<Option<Arc<dyn Disk>>> {
        let number = piece.row.number;
        let chain = self.chain(disk, number, known.map_or(piece.row.length, |row| row.length))?;
        let is_right = known.map_or(chain.is_some(), |row| chain == Some(row.chain));
        if is_right && self.is_sound(&**disk, number)? {
            return Ok(None);
        }
        let path = paths::sparse_chunk(self.epoch, number, generation);
        let found = match read_all(&*self.source, &path) {
            Err(error) if is_loss(&error) => return Ok(None),
            found => found?,
        };
        let begins = Some(piece.row.base).filter(|base| *base != u64::MAX);
        let base = known.map(|row| row.base).or(begins);
        let Some(base) = base.or_else(|| self.opening_of(&found).map(|it| it.base)) else {
            return Ok(None);
        };
        let length = next.and_then(|next| next.checked_sub(base)).unwrap_or(piece.row.length);
        let length = known.map_or(length, |row| row.length);
        let identity = paths::sparse_identity(self.store, self.epoch, number, generation);
        let whole = paths::chunk(self.epoch, number);
        let bytes = read_all(&**disk, &whole)?;
        let mut mended = Mended::of(&self.source, &path, bytes.len() as u64);
        let mut count = 0_u64;
        let within = base..base.saturating_add(length);
        for entry in salvage::of_sparse(&found, (identity, self.store), &within) {
            let from = &found[entry.place as usize..];
            let Some(record) = record::length(from).and_then(|it| from.get(..it as usize)) else {
                continue;
            };
            let place = entry.distance as usize..entry.distance as usize + record.len();
            if place.end as u64 > length || bytes.get(place.clone()) == Some(record) {
                continue;
            }
            // What is whole below, or in a newer file, is not changed for what a copy may have there.
            let there = bytes.get(place.start..).unwrap_or_default();
            let at = base.saturating_add(entry.distance);
            if known.is_none()
                && record::take(&whole, entry.distance, self.store, at, there).is_ok()
            {
                continue;
            }
            // A collection may have written a node in full where the chunk has a patch and other records behind it.
            let is_whole_record = |place: usize| {
                let at = base.saturating_add(place as u64);
                let from = bytes.get(place..).unwrap_or_default();
                record::take(&whole, place as u64, self.store, at, from).is_ok()
            };
            if (place.start + 1..place.end).any(is_whole_record) {
                continue;
            }
            mended.take(entry.distance, entry.place, record.len() as u64);
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        let root = folder.root();
        self.tell(format!(
            "{whole} in {root} is damaged; {count} of its records are taken from {path}"
        ));
        let (disk, mended) = (Arc::clone(disk), Some(Arc::new(mended)));
        let source = Source { disk, header: None, mended };
        Ok(Some(Arc::new(Gathered::of_one(whole, source))))
    }
}

/// What becomes of two files of one chunk.
pub(super) enum United {
    /// The first is read as it is.
    No,
    /// The first with records of the second.
    Yes(Arc<dyn Disk>),
    /// They are of two histories, and whether it is the first that is not the store's.
    Parted(bool),
}

impl Wreck {
    /// The whole chunk of `piece`, which is damaged in the folder `disk`, with the records that the one in the folder `other` has of
    /// it, if that is of the same history and has more. Both are in memory meanwhile, and none of either after.
    pub(super) fn united(
        &mut self,
        disk: &Arc<dyn Disk>,
        other: &Arc<dyn Disk>,
        piece: &Piece,
        row: Option<Row>,
        after: Option<&Piece>,
    ) -> Result<United> {
        let number = piece.row.number;
        let is_own = Arc::ptr_eq(disk, &self.source);
        let is_sound = self.is_sound(&**disk, number)?;
        if is_sound && is_own {
            return Ok(United::No);
        }
        let theirs = self.whole(other, number, row)?;
        let bases = [piece.row.base, theirs.row.base];
        let base = bases.into_iter().find(|base| *base != u64::MAX);
        let Some(base) = base else { return Ok(United::No) };
        let is_it = bases.iter().all(|it| [base, u64::MAX].contains(it));
        let path = paths::chunk(self.epoch, number);
        let (bytes, found) = (read_all(&**disk, &path)?, read_all(&**other, &path)?);
        if !is_it || self.is_parted(base, &bytes, &found) {
            // That in the store's own folder is the store's, unless the end of the other one, and it alone, is the right one.
            let row = row.filter(|row| row.state == State::Whole || row.state.is_lower());
            let next = after.filter(|after| after.row.number == number + 1);
            let next = next.and_then(|next| next.opening).map(|next| next.chain);
            let end = row.map(|row| row.chain).or(next).filter(|end| *end != 0);
            let ends = |piece: &Piece| end == Some(piece.row.chain);
            let is_others = if is_own { ends(&theirs) && !ends(piece) } else { !ends(piece) };
            return Ok(United::Parted(is_others));
        }
        if is_sound || !self.is_ours(other, &theirs, (row, false), after)? {
            return Ok(United::No);
        }
        let identity = paths::chunk_identity(self.store, self.epoch, number);
        let (file, from) = (
            disk.open(&path, Mode::Read, Access::Buffered)?,
            other.open(&path, Mode::Read, Access::Buffered)?,
        );
        let is_head = |file: &dyn File, place: usize| {
            append::position_after(file, identity, place as u64).map(|end| end.is_some())
        };
        let mut mended = Mended::of(other, &path, bytes.len() as u64);
        let mut count = 0_u64;
        for record in salvage::of_whole(&found, self.store, base) {
            let head = record.start.checked_sub(HEAD).map(|head| head..record.start);
            let differs = |part: &Range<usize>| bytes.get(part.clone()) != found.get(part.clone());
            if let Some(head) = head.filter(|head| differs(head))
                && is_head(&*from, head.start)?
                && !is_head(&*file, head.start)?
            {
                mended.take(head.start as u64, head.start as u64, HEAD as u64);
            }
            let own = bytes.get(record.start..).unwrap_or_default();
            let place = record.start as u64;
            if !differs(&record)
                || record::take(&path, place, self.store, base.saturating_add(place), own).is_ok()
            {
                continue;
            }
            mended.take(place, place, record.len() as u64);
            count += 1;
        }
        if count == 0 {
            return Ok(United::No);
        }
        let (root, others) = (disk.root(), other.root());
        self.tell(format!(
            "{path} in {root} is damaged; {count} of its records are taken from that in {others}"
        ));
        let (disk, mended) = (Arc::clone(disk), Some(Arc::new(mended)));
        let source = Source { disk, header: None, mended };
        Ok(United::Yes(Arc::new(Gathered::of_one(path, source))))
    }

    /// Whether two files of a chunk, which begins at `base`, are of two histories: where one has a whole record the other has
    /// another one, or one that begins or ends within it.
    fn is_parted(&self, base: u64, bytes: &[u8], others: &[u8]) -> bool {
        let own = salvage::of_whole(bytes, self.store, base);
        let mut rest = &own[..];
        salvage::of_whole(others, self.store, base).into_iter().any(|record| {
            let before = rest.iter().take_while(|own| own.end <= record.start).count();
            rest = &rest[before..];
            let mut there = rest.iter().take_while(|own| own.start < record.end);
            there.any(|own| *own != record || bytes[own.clone()] != others[record.clone()])
        })
    }
}

/// All bytes of a file.
pub(super) fn read_all(disk: &dyn Disk, path: &str) -> Result<Vec<u8>> {
    let file = disk.open(path, Mode::Read, Access::Buffered)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}
