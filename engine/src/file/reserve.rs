//! A file whose bytes mean nothing: its room goes to a write that makes more of it, when the disk is full.
//!
//! Nobody reads it, and it may be missing, short or removed at any time. It is not synced: what counts is that its
//! blocks are taken. Its bytes differ from each other, since some file systems give no blocks to what they can press.

use std::sync::Arc;

use crate::disk::{Access, Disk, Mode, remove_quietly};
use crate::error::{Kind, Result};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// What it begins with, for whoever finds it.
pub const SAID: &[u8] = b"Room for what frees more of it on a full disk. Nothing else is here, and the next session makes it again.\n";

/// It is written, and so takes room, in such pieces.
const PIECE: u64 = 4_096;

/// See the module.
#[derive(Debug)]
pub struct Reserve {
    disk: Arc<dyn Disk>,
    path: &'static str,
    /// How many bytes there are, once that was asked.
    bytes: Mutex<Option<u64>>,
    is_whole: AtomicBool,
}

impl Reserve {
    /// The file at `path`, whether it is there or not.
    pub fn new(disk: &Arc<dyn Disk>, path: &'static str) -> Reserve {
        let is_whole = AtomicBool::new(false);
        Reserve { disk: Arc::clone(disk), path, bytes: Mutex::new(None), is_whole }
    }

    /// Makes it `wanted` bytes long, rounded up to whole pieces, unless it is. Where there is no room for all of it, it
    /// has what there is.
    pub fn keep(&self, wanted: u64) -> Result<()> {
        let wanted = wanted.next_multiple_of(PIECE);
        let mut bytes = lock(&self.bytes);
        self.is_whole.store(false, Ordering::Release);
        self.fill(&mut bytes, wanted)?;
        self.is_whole.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether it has been as long as was wanted last since it was given away.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    fn fill(&self, bytes: &mut Option<u64>, wanted: u64) -> Result<()> {
        let mut held = self.held(bytes)?;
        if held >= wanted {
            return Ok(());
        }
        let file = match self.disk.open(self.path, Mode::Write, Access::Buffered) {
            Err(error) if error.kind() == Kind::Missing => {
                self.disk.open(self.path, Mode::Create, Access::Buffered)?
            }
            opened => opened?,
        };
        while held < wanted {
            let end = (held / PIECE + 1) * PIECE;
            file.write_at(held, &piece(held, end - held))?;
            held = end;
            *bytes = Some(held);
        }
        Ok(())
    }

    /// Does `write`, and where there was no room for it once more without the reserve.
    pub fn give<T>(&self, mut write: impl FnMut() -> Result<T>) -> Result<T> {
        match write() {
            Err(error) if error.is_no_space() && self.let_go() => write(),
            outcome => outcome,
        }
    }

    /// Removes it; whether that made room.
    fn let_go(&self) -> bool {
        let mut bytes = lock(&self.bytes);
        let held = self.held(&mut bytes).unwrap_or(0);
        if held > 0 {
            remove_quietly(&*self.disk, self.path);
            *bytes = Some(0);
            self.is_whole.store(false, Ordering::Release);
        }
        held > 0
    }

    fn held(&self, bytes: &mut Option<u64>) -> Result<u64> {
        if let Some(known) = bytes {
            return Ok(*known);
        }
        let found = match self.disk.open(self.path, Mode::Read, Access::Buffered) {
            Err(error) if error.kind() == Kind::Missing => 0,
            file => file?.len()?,
        };
        Ok(*bytes.insert(found))
    }
}

/// The bytes of it from `at` on.
fn piece(at: u64, length: u64) -> Vec<u8> {
    let mut state = at ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes: Vec<u8> = (0..length)
        .map(|_| {
            // Marsaglia 2003: xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect();
    if at == 0 {
        bytes[..SAID.len()].copy_from_slice(SAID);
    }
    bytes
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::disk::sim::SimDisk;

    #[test]
    fn it_takes_the_room_that_there_is_and_gives_it_once() {
        let sim = SimDisk::new(1);
        let disk: Arc<dyn Disk> = Arc::clone(&sim) as _;
        let reserve = Reserve::new(&disk, "reserve");
        reserve.keep(5_000).unwrap();
        assert_eq!(sim.total_bytes(), 2 * PIECE);
        sim.capacity(Some(3 * PIECE + 100));
        assert!(reserve.keep(5 * PIECE).unwrap_err().is_no_space());
        assert_eq!(sim.total_bytes(), 3 * PIECE);
        let file = disk.open("file", Mode::Create, Access::Buffered).unwrap();
        // Another handle finds what is there.
        let reserve = Reserve::new(&disk, "reserve");
        reserve.give(|| file.write_at(0, &vec![1; 2 * PIECE as usize])).unwrap();
        assert_eq!(disk.list("").unwrap(), ["file"]);
        assert!(
            reserve
                .give(|| file.write_at(0, &vec![1; 5 * PIECE as usize]))
                .unwrap_err()
                .is_no_space()
        );
        assert!(reserve.keep(PIECE * 2).unwrap_err().is_no_space());
        assert_eq!(sim.total_bytes(), 3 * PIECE);
        let text = disk.open("reserve", Mode::Read, Access::Buffered).unwrap();
        let mut begins = vec![0; SAID.len()];
        text.read_exact_at(0, &mut begins).unwrap();
        assert_eq!(begins, SAID);
    }
}
