//! Removing a file in pieces. The system frees what it holds of a file in its cache when the last name and handle
//! go, some 250 µs a MiB: 4 ms for a segment of 16 MiB, for which an update would wait.

use std::sync::Arc;

use crate::disk::{Access, Disk, File, Mode, quietly, remove_quietly};

/// Bytes of a piece.
const PIECE_BYTES: u64 = 1 << 20;

/// A file on its way out.
#[derive(Debug)]
pub struct PiecewiseRemoval {
    disk: Arc<dyn Disk>,
    path: String,
    /// Whether nothing durable ever named it, so that nobody else can have it open or have linked it.
    is_private: bool,
    /// With the bytes that are left of it; none before the first piece.
    file: Option<(Arc<dyn File>, u64)>,
}

impl PiecewiseRemoval {
    /// The removal of the file at `path`. One that `is_private` is cut off piece by piece. Others may be read by
    /// other processes, or be linked from a backup, so the system is only asked to forget what it has cached.
    pub fn new(disk: &Arc<dyn Disk>, path: String, is_private: bool) -> PiecewiseRemoval {
        PiecewiseRemoval { disk: Arc::clone(disk), path, is_private, file: None }
    }

    /// Where it is.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Frees a piece, or removes the file when no more than one is left; whether it is gone. Best effort: the
    /// next opening finds what stays.
    pub fn go_on(&mut self) -> bool {
        let mut has_freed = false;
        quietly(|| has_freed = self.free_piece());
        if !has_freed {
            remove_quietly(&*self.disk, &self.path);
        }
        !has_freed
    }

    /// Whether there was more than a piece, and one of it is freed.
    fn free_piece(&mut self) -> bool {
        if self.file.is_none() {
            let mode = if self.is_private { Mode::Write } else { Mode::Read };
            let opened = self.disk.open(&self.path, mode, Access::Buffered);
            self.file = opened.and_then(|file| Ok((Arc::clone(&file), file.len()?))).ok();
        }
        let Some((file, left)) = &mut self.file else { return false };
        if *left <= PIECE_BYTES {
            return false;
        }
        *left -= PIECE_BYTES;
        if self.is_private {
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

    fn waiting(lengths: &[u64], is_private: bool) -> (Arc<MemoryDisk>, Arc<Removals>) {
        let memory = MemoryDisk::new();
        let removals = Removals::new(true);
        for (place, &length) in lengths.iter().enumerate() {
            let path = format!("{place}");
            let file = memory.open(&path, Mode::Create, Access::Buffered).unwrap();
            file.set_len(length).unwrap();
            let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
            let mut removal = PiecewiseRemoval::new(&disk, path, is_private);
            removals.leave(move || removal.go_on());
        }
        (memory, removals)
    }

    fn length(disk: &MemoryDisk, path: &str) -> Option<u64> {
        disk.open(path, Mode::Read, Access::Buffered).ok().map(|file| file.len().unwrap())
    }

    #[test]
    fn a_long_private_file_goes_a_piece_a_call() {
        let (disk, removals) = waiting(&[3 * PIECE_BYTES + 1], true);
        for left in [Some(2 * PIECE_BYTES + 1), Some(PIECE_BYTES + 1), Some(1), None] {
            removals.collect_some(4);
            assert_eq!(length(&disk, "0"), left);
        }
    }

    #[test]
    fn a_file_that_others_may_read_keeps_its_bytes_to_the_end() {
        let (disk, removals) = waiting(&[2 * PIECE_BYTES], false);
        removals.collect_some(4);
        assert_eq!(length(&disk, "0"), Some(2 * PIECE_BYTES));
        removals.collect_some(4);
        assert_eq!(length(&disk, "0"), None);
    }

    #[test]
    fn short_files_go_together_and_more_pieces_when_more_wait() {
        let (disk, removals) = waiting(&[10, 10, 10, 10, 10], true);
        removals.collect_some(4);
        assert_eq!((length(&disk, "3"), length(&disk, "4")), (None, Some(10)));

        let (disk, removals) = waiting(&[4 * PIECE_BYTES; 3], true);
        removals.collect_some(4);
        assert_eq!(length(&disk, "0"), Some(PIECE_BYTES), "three wait, so three pieces");
        removals.collect_some(4);
        assert_eq!((length(&disk, "0"), length(&disk, "1")), (None, Some(PIECE_BYTES)));
        assert_eq!(removals.collect(usize::MAX), 2, "whoever needs room waits for all");
        assert_eq!((length(&disk, "1"), length(&disk, "2")), (None, None));
    }

    #[test]
    fn what_cannot_be_opened_is_removed_at_once() {
        let (disk, removals) = waiting(&[10], true);
        disk.remove("0").unwrap();
        assert_eq!(removals.collect(1), 1);
    }
}
