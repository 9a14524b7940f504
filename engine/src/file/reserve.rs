//! A file whose bytes mean nothing: its room goes to a write that makes more of it, when the disk is full.
//!
//! Nobody reads more of it than its beginning, and it may be missing, short or removed at any time. It is not synced:
//! what counts is that its blocks are taken. Its bytes differ from each other, since some file systems give no blocks to
//! what they can press.

use std::sync::{Arc, PoisonError};

use crate::disk::{Access, Disk, File, Mode, remove_quietly};
use crate::error::{Kind, Result};
use crate::sync::{AtomicBool, Mutex, Ordering, RwLock, lock};

/// What it begins with, for whoever finds it. A file of the same name that begins with anything else is somebody else's,
/// and stays as it is.
pub const SAID: &[u8] = b"Room for what frees more of it on a full disk. Nothing else is here, and the next session makes it again.\n";

/// It is written, and so takes room, in such pieces.
const PIECE: u64 = 4_096;

/// See the module.
#[derive(Debug)]
pub struct Reserve {
    disk: Arc<dyn Disk>,
    path: &'static str,
    /// How many bytes there are, once that was asked.
    held: Mutex<Option<Held>>,
    is_whole: AtomicBool,
    /// Held alone by whoever was given it, and together by all others who write what it is not for.
    given: RwLock<()>,
}

/// What there is at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Bytes(u64),
    /// A file of somebody else.
    Foreign,
}

impl Reserve {
    /// The file at `path`, whether it is there or not.
    pub fn new(disk: &Arc<dyn Disk>, path: &'static str) -> Reserve {
        let (is_whole, given) = (AtomicBool::new(false), RwLock::new(()));
        Reserve { disk: Arc::clone(disk), path, held: Mutex::new(None), is_whole, given }
    }

    /// Makes it `wanted` bytes long, rounded up to whole pieces, unless it is. Where there is no room for all of it, it
    /// has what there is. Only within [`Reserve::beside`].
    pub fn keep(&self, wanted: u64) -> Result<()> {
        let wanted = wanted.next_multiple_of(PIECE);
        let mut held = lock(&self.held);
        self.is_whole.store(false, Ordering::Release);
        let Held::Bytes(bytes) = self.look(&mut held)? else { return Ok(()) };
        self.fill(&mut held, bytes, wanted)?;
        self.is_whole.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether it has been as long as was wanted last since it was given away.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    fn fill(&self, held: &mut Option<Held>, mut bytes: u64, wanted: u64) -> Result<()> {
        if bytes >= wanted {
            return Ok(());
        }
        let file = match self.disk.open(self.path, Mode::Write, Access::Buffered) {
            Err(error) if error.kind() == Kind::Missing => {
                self.disk.open(self.path, Mode::Create, Access::Buffered)?
            }
            opened => opened?,
        };
        while bytes < wanted {
            // A power cut may have left it without its beginning.
            let from = if bytes < PIECE { 0 } else { bytes };
            let end = (bytes / PIECE + 1) * PIECE;
            file.write_at(from, &piece(from, end - from))?;
            bytes = end;
            *held = Some(Held::Bytes(bytes));
        }
        Ok(())
    }

    /// Does `write`, which is not to have its room, while nobody is given that.
    pub fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        let _together = self.given.read().unwrap_or_else(PoisonError::into_inner);
        write()
    }

    /// Does `write`, and where there was no room for it once more without the reserve, if it `may` have that. Gives
    /// whether it had.
    pub fn give<T>(
        &self,
        may: impl FnOnce() -> bool,
        mut write: impl FnMut() -> Result<T>,
    ) -> Result<(T, bool)> {
        match self.beside(&mut write) {
            Err(error) if error.is_no_space() => {
                let _alone = self.given.write().unwrap_or_else(PoisonError::into_inner);
                if may() && self.let_go() { Ok((write()?, true)) } else { Err(error) }
            }
            outcome => Ok((outcome?, false)),
        }
    }

    /// Removes it; whether that made room.
    fn let_go(&self) -> bool {
        let mut held = lock(&self.held);
        let is_there = matches!(self.look(&mut held), Ok(Held::Bytes(1..)));
        if is_there {
            remove_quietly(&*self.disk, self.path);
            *held = Some(Held::Bytes(0));
            self.is_whole.store(false, Ordering::Release);
        }
        is_there
    }

    fn look(&self, held: &mut Option<Held>) -> Result<Held> {
        if let Some(known) = held {
            return Ok(*known);
        }
        Ok(*held.insert(look(&*self.disk, self.path)?))
    }
}

/// Whether there is a reserve at `path`, of whatever length.
pub fn is_there(disk: &dyn Disk, path: &str) -> Result<bool> {
    match disk.open(path, Mode::Read, Access::Buffered) {
        // It is a folder, of the host's.
        Err(error) if matches!(error.kind(), Kind::Missing | Kind::Invalid) => Ok(false),
        file => is_ours(&*file?),
    }
}

fn look(disk: &dyn Disk, path: &str) -> Result<Held> {
    let file = match disk.open(path, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => return Ok(Held::Bytes(0)),
        file => file?,
    };
    let is_ours = is_ours(&*file)?;
    Ok(if is_ours { Held::Bytes(file.len()?) } else { Held::Foreign })
}

/// Whether a file begins as a reserve does, or as a power cut leaves one, which is never synced: short, or with zeros.
fn is_ours(file: &dyn File) -> Result<bool> {
    let mut begins = [0; SAID.len()];
    let mut read = 0;
    while read < begins.len() {
        match file.read_at(read as u64, &mut begins[read..])? {
            0 => break,
            more => read += more,
        }
    }
    let begins = &begins[..read];
    Ok(begins == &SAID[..read] || begins.iter().all(|byte| *byte == 0))
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
        let said = SAID.len().min(bytes.len());
        bytes[..said].copy_from_slice(&SAID[..said]);
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
        let write = |bytes: u64| file.write_at(0, &vec![1; bytes as usize]);
        // Another handle finds what is there.
        let reserve = Reserve::new(&disk, "reserve");
        // Not for a write that may not have it.
        assert!(reserve.give(|| false, || write(2 * PIECE)).unwrap_err().is_no_space());
        assert_eq!(disk.list("").unwrap(), ["file", "reserve"]);
        assert_eq!(reserve.give(|| true, || write(100)).unwrap(), ((), false));
        assert_eq!(reserve.give(|| true, || write(2 * PIECE)).unwrap(), ((), true));
        assert_eq!(disk.list("").unwrap(), ["file"]);
        assert!(reserve.give(|| true, || write(5 * PIECE)).unwrap_err().is_no_space());
        assert!(!reserve.is_whole());
        assert!(reserve.keep(PIECE * 2).unwrap_err().is_no_space());
        assert_eq!(sim.total_bytes(), 3 * PIECE);
        assert!(is_there(&*disk, "reserve").unwrap());
        let text = disk.open("reserve", Mode::Read, Access::Buffered).unwrap();
        let mut begins = vec![0; SAID.len()];
        text.read_exact_at(0, &mut begins).unwrap();
        assert_eq!(begins, SAID);
    }

    #[test]
    fn a_file_that_begins_with_anything_else_is_not_taken_for_it() {
        for (begins, is_ours) in [
            (&b"mine"[..], false),
            (&[0, 0, 1][..], false),
            (&b""[..], true),
            (&SAID[..20], true),
            (&[0; 200][..], true),
        ] {
            let sim = SimDisk::new(1);
            let disk: Arc<dyn Disk> = Arc::clone(&sim) as _;
            let file = disk.open("reserve", Mode::Create, Access::Buffered).unwrap();
            file.write_at(0, begins).unwrap();
            assert_eq!(is_there(&*disk, "reserve").unwrap(), is_ours);
            let reserve = Reserve::new(&disk, "reserve");
            reserve.keep(5_000).unwrap();
            assert_eq!(reserve.is_whole(), is_ours);
            let now = sim.bytes("reserve").unwrap();
            if is_ours {
                assert!(now.starts_with(SAID) && now.len() as u64 == 2 * PIECE);
            } else {
                assert_eq!(now, begins);
                sim.capacity(Some(0));
                reserve
                    .give(
                        || true,
                        || disk.open("x", Mode::Create, Access::Buffered)?.write_at(0, &[1]),
                    )
                    .unwrap_err();
                assert_eq!(sim.bytes("reserve").unwrap(), begins);
            }
        }
    }
}
