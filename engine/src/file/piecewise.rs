//! Removing a file in pieces. The system frees what it holds of a file in its cache when the last name and handle
//! go, some 250 µs a MiB: 4 ms for a segment of 16 MiB, for which an update would wait. So it is asked to forget one
//! piece after another first. That leaves the file as it is, for another process may read it, and a backup or the store
//! that it came from may have another name for the same bytes. Only of what a store made for itself alone, and nothing
//! durable ever named, pieces are cut off, which frees their blocks as well: otherwise the last step waits for all of them.

use std::sync::Arc;

use crate::disk::{Access, Disk, File, Mode, quietly};
use crate::error::{Error, Kind};

/// Bytes of a piece.
pub const PIECE_BYTES: u64 = 512 << 10;

/// A file on its way out.
#[derive(Debug)]
pub struct PiecewiseRemoval {
    disk: Arc<dyn Disk>,
    path: String,
    is_cut: bool,
    /// With the bytes that are left of it; none before the first piece.
    file: Option<(Arc<dyn File>, u64)>,
    /// Why it stays.
    failure: Option<Error>,
}

impl PiecewiseRemoval {
    /// The removal of the file at `path`.
    pub fn new(disk: &Arc<dyn Disk>, path: String) -> PiecewiseRemoval {
        let disk = Arc::clone(disk);
        PiecewiseRemoval { disk, path, is_cut: false, file: None, failure: None }
    }

    /// The same for a file that has no other name and that no other process reads: its pieces are cut off.
    #[must_use]
    pub fn cutting(self) -> PiecewiseRemoval {
        PiecewiseRemoval { is_cut: true, ..self }
    }

    /// Where it is.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Why it stays, once all is done that could be, if it does.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref().filter(|error| error.kind() != Kind::Missing)
    }

    /// Frees a piece, or removes the file when no more than one is left; whether all is done. Best effort: the
    /// next opening finds what stays.
    pub fn go_on(&mut self) -> bool {
        let mut has_freed = false;
        quietly(|| has_freed = self.free_piece());
        if !has_freed {
            quietly(|| self.failure = self.disk.remove(&self.path).err());
        }
        !has_freed
    }

    /// Whether there was more than a piece, and one of it is freed.
    fn free_piece(&mut self) -> bool {
        if self.file.is_none() {
            let mode = if self.is_cut { Mode::Write } else { Mode::Read };
            let opened = self.disk.open(&self.path, mode, Access::Buffered);
            self.file = opened.and_then(|file| Ok((Arc::clone(&file), file.len()?))).ok();
        }
        let Some((file, left)) = &mut self.file else { return false };
        if *left <= PIECE_BYTES {
            return false;
        }
        *left -= PIECE_BYTES;
        if self.is_cut {
            return file.set_len(*left).is_ok();
        }
        file.forget(*left, PIECE_BYTES);
        true
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::super::removals::Removals;
    use super::*;
    use crate::disk::memory::MemoryDisk;

    fn waiting(lengths: &[u64]) -> (Arc<MemoryDisk>, Arc<Removals>) {
        let memory = MemoryDisk::new();
        let removals = Removals::new(true);
        for (place, &length) in lengths.iter().enumerate() {
            let path = format!("{place}");
            let file = memory.open(&path, Mode::Create, Access::Buffered).unwrap();
            file.set_len(length).unwrap();
            let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
            let mut removal = PiecewiseRemoval::new(&disk, path);
            removals.leave(move || removal.go_on());
        }
        (memory, removals)
    }

    fn left(disk: &MemoryDisk) -> usize {
        disk.list("").unwrap().len()
    }

    #[test]
    fn a_long_file_goes_after_as_many_calls_as_it_has_pieces_and_whole() {
        let (disk, removals) = waiting(&[3 * PIECE_BYTES + 1]);
        let file = disk.open("0", Mode::Read, Access::Buffered).unwrap();
        for there in [1, 1, 1, 0] {
            removals.collect_some(4);
            assert_eq!(left(&disk), there);
        }
        assert_eq!(file.len().unwrap(), 3 * PIECE_BYTES + 1, "others may have it by another name");
    }

    #[test]
    fn what_nobody_else_reads_is_cut_off_piece_by_piece() {
        let memory = MemoryDisk::new();
        let file = memory.open("0", Mode::Create, Access::Buffered).unwrap();
        file.set_len(2 * PIECE_BYTES + 1).unwrap();
        let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
        let mut removal = PiecewiseRemoval::new(&disk, "0".to_owned()).cutting();
        for (is_gone, length) in [(false, PIECE_BYTES + 1), (false, 1), (true, 1)] {
            assert_eq!(removal.go_on(), is_gone);
            assert_eq!((file.len().unwrap(), left(&memory)), (length, usize::from(!is_gone)));
        }
    }

    #[test]
    fn short_files_go_together_and_more_pieces_when_more_wait() {
        let (disk, removals) = waiting(&[10, 10, 10, 10, 10]);
        removals.collect_some(4);
        assert_eq!(left(&disk), 1);

        let (disk, removals) = waiting(&[2 * PIECE_BYTES; 32]);
        removals.collect_some(64);
        assert_eq!(left(&disk), 0, "a crowd of 32 is allowed 64 pieces");

        let (disk, removals) = waiting(&[3 * PIECE_BYTES; 3]);
        removals.collect_some(4);
        assert_eq!(
            left(&disk),
            2,
            "three wait, so three pieces: two of the first file, and one of the second"
        );
        for there in [2, 1, 1, 1, 0] {
            removals.collect_piece();
            assert_eq!(left(&disk), there);
        }

        let (disk, removals) = waiting(&[9 * PIECE_BYTES; 2]);
        removals.collect_some(4);
        assert_eq!(left(&disk), 2);
        assert_eq!(removals.collect(usize::MAX), 2, "whoever needs room waits for all");
        assert_eq!(left(&disk), 0);
    }

    #[test]
    fn what_cannot_be_opened_is_removed_at_once() {
        let (disk, removals) = waiting(&[10]);
        disk.remove("0").unwrap();
        assert_eq!(removals.collect(1), 1);
    }

    #[test]
    fn a_file_half_gone_stays_when_removals_are_stopped() {
        let (disk, removals) = waiting(&[3 * PIECE_BYTES]);
        removals.collect_some(4);
        removals.stop();
        assert_eq!((removals.collect(usize::MAX), left(&disk)), (0, 1));
    }
}
