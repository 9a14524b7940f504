//! One open file of the operating system.

use std::fs;
use std::io;

use crate::disk::{ALIGNMENT, Access, File, path as paths};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct OsFile {
    file: fs::File,
    path: String,
    access: Access,
}

impl OsFile {
    /// Asks for `access` and takes what the file system grants.
    pub(super) fn new(file: fs::File, path: &str, access: Access) -> Self {
        ask_untimed(&file);
        let granted = access == Access::Direct && ask_direct(&file);
        let access = if granted { Access::Direct } else { Access::Buffered };
        OsFile { file, path: path.to_owned(), access }
    }

    fn check(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self.access {
            Access::Buffered => Ok(()),
            Access::Direct => {
                paths::check_aligned(&self.path, offset, bytes.len(), bytes.as_ptr().addr())
            }
        }
    }

    fn error(&self, action: &str, error: io::Error) -> Error {
        Error::io(action, &self.path, error)
    }
}

#[cfg(target_os = "linux")]
fn ask_direct(file: &fs::File) -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    if !is_aligned_for(direct_alignment(file)) {
        return false;
    }
    fcntl_getfl(file).is_ok_and(|flags| fcntl_setfl(file, flags | OFlags::DIRECT).is_ok())
}

/// Of what memory and offsets must be multiples, where the system says so. Sectors may be larger than
/// [`ALIGNMENT`], as the system's pages may.
#[cfg(target_os = "linux")]
fn direct_alignment(file: &fs::File) -> Option<[u32; 2]> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_told = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN);
    is_told.then_some([found.stx_dio_mem_align, found.stx_dio_offset_align])
}

/// Whether what is a multiple of [`ALIGNMENT`] is one of each of these; zero is told of a file that takes no
/// direct access.
#[cfg(any(test, target_os = "linux"))]
fn is_aligned_for(alignment: Option<[u32; 2]>) -> bool {
    alignment.is_none_or(|units| {
        units.iter().all(|&unit| unit > 0 && (ALIGNMENT as u32).is_multiple_of(unit))
    })
}

/// Asks that reads leave the file's time of access alone: looking at it costs each of them. Only who
/// owns the file may ask.
fn ask_untimed(file: &fs::File) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        let _ = fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags | OFlags::NOATIME));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

#[cfg(not(target_os = "linux"))]
fn ask_direct(_: &fs::File) -> bool {
    false
}

#[cfg(unix)]
fn read_once(file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(unix)]
fn write_all(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_once(file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

#[cfg(windows)]
fn write_all(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        match std::os::windows::fs::FileExt::seek_write(file, rest, offset + done as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => done += written,
        }
    }
    Ok(())
}

/// Elsewhere, as in a browser, there are no files; proofs and trees in memory need none.
#[cfg(not(any(unix, windows)))]
fn read_once(_: &fs::File, _: u64, _: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(any(unix, windows)))]
fn write_all(_: &fs::File, _: u64, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl File for OsFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.check(offset, buffer)?;
        let mut done = 0;
        while done < buffer.len() {
            match read_once(&self.file, offset + done as u64, &mut buffer[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.error("read", error)),
            }
            // A direct read stops within a unit only where the file ends, and could not go on from there.
            if self.access == Access::Direct && !done.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes)?;
        write_all(&self.file, offset, bytes).map_err(|error| self.error("write", error))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.error("sync", error))
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.file.set_len(length_bytes).map_err(|error| self.error("set the length of", error))
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        #[cfg(target_os = "linux")]
        if length_bytes > 0 {
            use rustix::fs::{FallocateFlags, fallocate};
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, length_bytes) {
                // Not every file system can; then the writes find out whether there is room.
                Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
                Err(error) => return Err(self.error("reserve space for", error.into())),
            }
        }
        let _ = length_bytes;
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        let metadata = self.file.metadata().map_err(|error| self.error("measure", error))?;
        Ok(metadata.len())
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn access(&self) -> Access {
        self.access
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    fn start_writeback(&self, offset: u64, length_bytes: u64) {
        crate::disk::uring::start_writeback(&self.file, offset, length_bytes);
    }

    #[cfg(target_os = "linux")]
    fn forget(&self, offset: u64, length_bytes: u64) {
        // A length of zero would mean "to the end" to the system call.
        if let Some(length) = std::num::NonZeroU64::new(length_bytes) {
            // A hint: nothing depends on whether it is taken.
            let _ =
                rustix::fs::fadvise(&self.file, offset, Some(length), rustix::fs::Advice::DontNeed);
        }
    }

    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd as _;
        Some(self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_access_is_taken_only_where_our_alignment_suits() {
        for sound in [None, Some([1, 512]), Some([512, 4096]), Some([4096, 4096])] {
            assert!(is_aligned_for(sound), "{sound:?}");
        }
        for other in [[0, 0], [4096, 16_384], [65_536, 512], [512, 3000]] {
            assert!(!is_aligned_for(Some(other)), "{other:?}");
        }
    }
}
