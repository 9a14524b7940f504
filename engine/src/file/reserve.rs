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

/// A power cut takes it in such pieces.
const SECTOR: usize = 512;

/// No longer one is known by zeros, which somebody else may keep for the same purpose.
const ZEROS_MAX: u64 = 16 << 20;

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
        if matches!(*held, Some(Held::Bytes(bytes)) if bytes < wanted) {
            // Somebody else may have put a file of that name there since.
            *held = None;
        }
        let Held::Bytes(bytes) = self.look(&mut held)? else { return Ok(()) };
        self.fill(&mut held, bytes, wanted)?;
        self.is_whole.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether it has been as long as was wanted last since it was given away.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    /// How long it is, as far as can be told; 0 where the name is somebody else's.
    pub fn bytes(&self) -> u64 {
        match self.look(&mut lock(&self.held)) {
            Ok(Held::Bytes(bytes)) => bytes,
            _ => 0,
        }
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
            // From where a piece begins: a power cut may have left a part of one.
            let from = bytes / PIECE * PIECE;
            file.write_at(from, &piece(from, PIECE))?;
            bytes = from + PIECE;
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
                if !may() {
                    return Err(error);
                }
                // Also where another had it meanwhile: what that left may be enough.
                let was_there = self.let_go();
                Ok((write()?, was_there))
            }
            outcome => Ok((outcome?, false)),
        }
    }

    /// Removes it; whether that made room.
    fn let_go(&self) -> bool {
        let mut held = lock(&self.held);
        *held = None;
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

/// Whether a file begins as a reserve does, or is as a power cut leaves one, which is never synced: short, or with zeros in
/// place of some of it. Reads no more than [`ZEROS_MAX`].
fn is_ours(file: &dyn File) -> Result<bool> {
    let mut piece_read = [0; PIECE as usize];
    let mut at = 0;
    loop {
        let mut read = 0;
        while read < piece_read.len() {
            match file.read_at(at + read as u64, &mut piece_read[read..])? {
                0 => break,
                more => read += more,
            }
        }
        let (found, expected) = (&piece_read[..read], piece(at, PIECE));
        if at == 0 && found.starts_with(SAID) {
            return Ok(true);
        }
        if at == 0 && file.len()? > ZEROS_MAX {
            return Ok(false);
        }
        let mut sectors = found.chunks(SECTOR).zip(expected.chunks(SECTOR));
        let is_left =
            |(found, of): (&[u8], &[u8])| found.iter().all(|it| *it == 0) || of.starts_with(found);
        if read == 0 || !sectors.all(is_left) {
            return Ok(read == 0);
        }
        at += PIECE;
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

    /// As where another has had the reserve between the two tries.
    #[test]
    fn room_that_comes_between_the_tries_is_enough() {
        let sim = SimDisk::new(1);
        let disk: Arc<dyn Disk> = Arc::clone(&sim) as _;
        let reserve = Reserve::new(&disk, "reserve");
        let file = disk.open("file", Mode::Create, Access::Buffered).unwrap();
        sim.capacity(Some(0));
        let comes = || {
            sim.capacity(None);
            true
        };
        assert_eq!(reserve.give(comes, || file.write_at(0, &[1; 100])).unwrap(), ((), false));
    }

    /// Whatever was known of the name before.
    #[test]
    fn a_file_that_somebody_puts_there_later_stays() {
        for kept in [0, 5_000] {
            let sim = SimDisk::new(1);
            let disk: Arc<dyn Disk> = Arc::clone(&sim) as _;
            let reserve = Reserve::new(&disk, "reserve");
            reserve.keep(kept).unwrap();
            if kept > 0 {
                disk.remove("reserve").unwrap();
            }
            let file = disk.open("reserve", Mode::Create, Access::Buffered).unwrap();
            file.write_at(0, b"mine").unwrap();
            let no_room =
                || Err(crate::Error::io("write to", "x", std::io::ErrorKind::StorageFull.into()));
            reserve.give(|| true, no_room as fn() -> Result<()>).unwrap_err();
            assert_eq!(sim.bytes("reserve").unwrap(), b"mine");
            reserve.keep(50_000).unwrap();
            assert_eq!(sim.bytes("reserve").unwrap(), b"mine");
            assert!(!reserve.is_whole());
        }
    }

    /// As somebody may keep it for the day of the full disk.
    #[test]
    fn many_zeros_are_not_taken_for_it() {
        for (bytes, is_ours) in [(ZEROS_MAX, true), (ZEROS_MAX + 1, false)] {
            let disk: Arc<dyn Disk> = SimDisk::new(1);
            let file = disk.open("reserve", Mode::Create, Access::Buffered).unwrap();
            file.set_len(bytes).unwrap();
            assert_eq!(is_there(&*disk, "reserve").unwrap(), is_ours);
            let reserve = Reserve::new(&disk, "reserve");
            assert_eq!(reserve.let_go(), is_ours);
            assert_eq!(disk.exists("reserve").unwrap(), !is_ours);
        }
    }

    #[test]
    fn a_file_that_begins_with_anything_else_is_not_taken_for_it() {
        for (begins, is_ours) in [
            (&b"mine"[..], false),
            (&[0, 0, 1][..], false),
            (&b""[..], true),
            (&SAID[..20], true),
            (&[0; 200][..], true),
            (&[&[0; 200][..], b"an image"].concat()[..], false),
            (&[&[0; 5_000][..], b"an image"].concat()[..], false),
            (&[&[0; 4_096][..], &piece(4_096, 700)[..]].concat()[..], true),
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
                let is_long = begins.len() as u64 > PIECE;
                assert!(is_long || now.starts_with(SAID));
                assert_eq!(now.len() as u64, 2 * PIECE);
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
