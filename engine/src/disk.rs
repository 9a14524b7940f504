//! The one interface through which everything touches a disk.
//!
//! What each call promises after a crash is part of its contract here, because the formats and
//! `docs/design/durability.md` are built on these promises and on nothing else:
//!
//! - bytes written are durable only after [`File::sync`] of that file returned;
//! - a file's length is durable with the same sync;
//! - a created, renamed or removed name is durable only after [`Disk::sync_directory`] of its folder, and
//!   where that fails, only after it was made anew;
//! - until then each of them may survive or not, independently; a torn write keeps whole 512-byte
//!   sectors of old and new.
//!
//! Paths are relative to the disk's root, UTF-8, with `/` between components.

mod buffer;
pub(crate) mod entropy;
pub mod memory;
pub(crate) mod open_files;
pub mod os;
pub(crate) mod path;
pub mod sim;
pub(crate) mod stand_in;
pub(crate) mod subfolder;
// The ring is asked for where it is tested, which is nowhere with 32 bits.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod uring;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(crate) use buffer::page_bytes;
pub use buffer::{ALIGNMENT, Buffer};

use crate::error::{Error, Kind, Result};

/// `Debug` by the name of the type alone, for what is behind `dyn Disk`, `dyn File` and the like: a table of methods keeps what
/// prints it, and with it what prints all that is in it.
macro_rules! names_itself {
    ($type:ident) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    };
}
pub(crate) use names_itself;

/// How [`Disk::open`] treats a file that is there, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only read; `Missing` when it is not there.
    Read,
    /// Read and write; `Missing` when it is not there.
    Write,
    /// Read and write a new file; `Exists` when it is there.
    Create,
}

/// Whether reads and writes go through the operating system's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Through the page cache.
    Buffered,
    /// Past it. Offsets, lengths and buffers must be multiples of [`ALIGNMENT`]. A file system that
    /// refuses gives a buffered file: ask [`File::access`].
    Direct,
}

/// How [`Disk::link_or_copy`] made the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// Both names share blocks, copied on write.
    Reflink,
    /// Both names are the same file.
    HardLink,
    /// The bytes were copied.
    Copy,
}

/// A folder of files.
pub trait Disk: Send + Sync + Debug {
    /// Opens the file at `path`. `Missing`, `Exists` or `Io`.
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>>;

    /// Gives `from` the name `to`, replacing what had it, atomically. Durable after the folder's sync.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file's name; handles stay usable. `Missing` when it is not there. Some file systems of Windows keep
    /// the name of an open file until its last handle is gone, and refuse to give that name to another.
    fn remove(&self, path: &str) -> Result<()>;

    /// The names in a folder (`""` is the root), files and folders, sorted. `Missing` without one.
    fn list(&self, directory: &str) -> Result<Vec<String>>;

    /// Makes a folder whose parent exists; does nothing when it is there already.
    fn create_directory(&self, path: &str) -> Result<()>;

    /// Removes a folder with nothing in it. `Missing` when it is not there, `Io` when it is not empty. A
    /// folder whose name may not be durable is removed and made anew; where no failed sync of a folder
    /// is forgotten, there is nothing to do, as here.
    fn remove_directory(&self, path: &str) -> Result<()> {
        let _ = path;
        Ok(())
    }

    /// Whether a file or folder has this name.
    fn exists(&self, path: &str) -> Result<bool>;

    /// Makes the names in a folder durable: those created, renamed or removed since the last call. After
    /// an error some of them may never be, though later calls succeed: whoever relies on such a name makes
    /// it anew first.
    fn sync_directory(&self, path: &str) -> Result<()>;

    /// Whether a name may be lost that a failed [`Disk::sync_directory`] should have saved. Such names are made anew.
    fn forgets_names(&self) -> bool {
        true
    }

    /// Takes the exclusive lock at `path` at once or fails with `Locked`, naming the text that the
    /// holder gave. The lock is released when the value is dropped or the process ends.
    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>>;

    /// The same lock on the folder itself (`""` is the root), which no one can remove and make again
    /// while its files stay. `None` where the system knows no such lock.
    fn lock_directory(&self, path: &str) -> Result<Option<Box<dyn Lock>>> {
        let _ = path;
        Ok(None)
    }

    /// Gives the content of `from` the further name `to`, in the cheapest way that works.
    /// `Exists` when `to` is there. The content is as durable as `from`'s only after a hard link;
    /// sync the new file otherwise.
    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked>;

    /// The same on another disk, where `to` is new: linked when both are folders of one file system,
    /// else copied. Sync the new file unless it is a hard link.
    fn link_or_copy_to(&self, from: &str, target: &dyn Disk, to: &str) -> Result<Linked> {
        copy_to(&self.open(from, Mode::Read, Access::Buffered)?, target, to)
    }

    /// Gives the file `from` of the operating system the further name `to` in here, as [`Disk::link_or_copy_to`] does; `None`
    /// where this is no folder of that system, as here.
    fn link_in(&self, from: &std::path::Path, to: &str) -> Result<Option<Linked>> {
        let _ = (from, to);
        Ok(None)
    }

    /// The root in the operating system's tree of folders, if it is there.
    fn folder(&self) -> Option<&std::path::Path> {
        None
    }

    /// How many files the process may have open, where the system says so: whoever opens many keeps to
    /// a part of it.
    fn open_files_max(&self) -> Option<u64> {
        None
    }

    /// A queue for up to `depth` reads at once.
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(SerialQueue::new(depth)))
    }

    /// A number that nobody else draws, from which a store's identity follows. The engine has no
    /// random source of its own. `Invalid` for a disk that has nothing to draw from, as here: then the
    /// host gives a seed. Where a test runs, the numbers follow from the disk's seed.
    fn entropy(&self) -> Result<u64> {
        Err(entropy::none(self.root()))
    }

    /// Where the root is, for messages.
    fn root(&self) -> &str;
}

/// Removes `path`, if that can be: for what nobody needs and the next opening would remove. Neither an error
/// nor a panic of a host's disk matters to the caller, who may be a destructor in a thread that panics.
pub(crate) fn remove_quietly(disk: &dyn Disk, path: &str) {
    quietly(|| {
        let _ = disk.remove(path);
    });
}

/// Does `work` on a host's disk whose outcome matters to nobody, also where it panics.
pub(crate) fn quietly(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// Copies `source` to a new file of another disk.
fn copy_to(source: &Arc<dyn File>, target: &dyn Disk, to: &str) -> Result<Linked> {
    let copy = target.open(to, Mode::Create, Access::Buffered)?;
    if let Err(error) = copy_bytes(&**source, &*copy) {
        // Half a copy must not look like the whole; the error matters more than this removal's.
        let _ = target.remove(to);
        return Err(error);
    }
    Ok(Linked::Copy)
}

fn copy_bytes(source: &dyn File, target: &dyn File) -> Result<()> {
    const PIECE_BYTES: usize = 256 << 10;
    let mut piece = vec![0; PIECE_BYTES];
    let mut offset = 0;
    loop {
        let length = source.read_at(offset, &mut piece)?;
        if length == 0 {
            return Ok(());
        }
        target.write_at(offset, &piece[..length])?;
        offset += length as u64;
    }
}

/// Held as long as the value lives.
pub trait Lock: Send + Sync + Debug {
    /// `Poisoned` when what was locked is no longer what has its name: somebody removed or replaced it,
    /// and another process may write to the folder.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// An open file. Reads and writes name their place; there is no cursor.
pub trait File: Send + Sync + Debug {
    /// Reads until `buffer` is full or the file ends; returns how many bytes were read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes all of `bytes`, growing the file when needed. Not durable before [`File::sync`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes all bytes and the length durable. After an error the file must not be trusted again:
    /// the operating system may have dropped the bytes, so no caller retries.
    fn sync(&self) -> Result<()>;

    /// Cuts or extends (with zeros) the file.
    fn set_len(&self, length_bytes: u64) -> Result<()>;

    /// Reserves space without changing the length, where the file system can; `Io` when full.
    fn preallocate(&self, length_bytes: u64) -> Result<()>;

    /// The length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the length is zero.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The path given to [`Disk::open`], for messages.
    fn path(&self) -> &str;

    /// What was granted, which is `Buffered` where direct access was refused.
    fn access(&self) -> Access {
        Access::Buffered
    }

    /// A hint: these bytes will not be written again soon, so start writing them out. Promises nothing.
    fn start_writeback(&self, offset: u64, length_bytes: u64) {
        let _ = (offset, length_bytes);
    }

    /// A hint: these bytes will not be read again soon. Promises nothing.
    fn forget(&self, offset: u64, length_bytes: u64) {
        let _ = (offset, length_bytes);
    }

    /// The operating system's handle, for a queue of the same disk.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    /// Fills `buffer` or fails with `Corrupt`, because a file that ends too early lost bytes.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let found = self.read_at(offset, buffer)?;
        if found == buffer.len() {
            return Ok(());
        }
        Err(Error::corrupt(
            self.path(),
            offset + found as u64,
            format_args!("{} bytes", buffer.len()),
            format_args!("the end of the file after {found}"),
        ))
    }
}

/// A read on its way: `length` bytes at `offset` into the start of `buffer`.
#[derive(Debug)]
pub struct Read {
    /// Where from.
    pub file: Arc<dyn File>,
    /// Byte offset in the file.
    pub offset: u64,
    /// How many bytes; at most the buffer's capacity.
    pub length: usize,
    /// Where to. Owned by the queue until the read completes.
    pub buffer: Buffer,
    /// The caller's mark, returned with the completion.
    pub tag: u64,
}

impl Read {
    /// `Invalid` when the buffer is too small for the length.
    pub(crate) fn check(&self) -> Result<()> {
        if self.length <= self.buffer.capacity() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a read of {} bytes does not fit its buffer of {}: use a larger buffer",
            self.length,
            self.buffer.capacity()
        )))
    }
}

/// A finished read. `outcome` holds the bytes read, fewer than asked only at the end of the file.
#[derive(Debug)]
pub struct Completion {
    /// The read, with its buffer.
    pub read: Read,
    /// Bytes read, or the error.
    pub outcome: Result<usize>,
}

impl Completion {
    /// The read with a full buffer, or `Corrupt` when the file ended too early, or the error.
    pub fn exact(self) -> Result<Read> {
        let found = self.outcome?;
        if found == self.read.length {
            return Ok(self.read);
        }
        Err(Error::corrupt(
            self.read.file.path(),
            self.read.offset + found as u64,
            format_args!("{} bytes", self.read.length),
            format_args!("the end of the file after {found}"),
        ))
    }
}

/// Reads in flight. Completions may come in any order. One thread at a time uses a queue.
pub trait Queue: Send + Debug {
    /// How many reads may be pending.
    fn depth(&self) -> usize;

    /// How many reads are pending: submitted and not yet returned by [`Queue::complete`].
    fn pending(&self) -> usize;

    /// Memory for a read, of a kind that this queue reads into at the least cost. Any other does too,
    /// and with any other queue.
    fn buffer(&mut self, length: usize) -> Buffer {
        Buffer::new(length)
    }

    /// Takes a read. `Invalid` when the queue is full. The read may start at once, or only when
    /// [`Queue::complete`] is called, so that several are submitted together.
    fn submit(&mut self, read: Read) -> Result<()>;

    /// Waits for one completion; `None` when nothing is pending.
    fn complete(&mut self) -> Result<Option<Completion>>;
}

/// The default queue: each read is done when its completion is asked for.
pub struct SerialQueue {
    depth: usize,
    waiting: std::collections::VecDeque<Read>,
}

names_itself!(SerialQueue);

impl SerialQueue {
    /// A queue for up to `depth` reads.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        SerialQueue { depth: depth.max(1), waiting: std::collections::VecDeque::new() }
    }
}

impl Queue for SerialQueue {
    fn depth(&self) -> usize {
        self.depth
    }

    fn pending(&self) -> usize {
        self.waiting.len()
    }

    fn submit(&mut self, read: Read) -> Result<()> {
        check_room(self.waiting.len(), self.depth)?;
        read.check()?;
        self.waiting.push_back(read);
        Ok(())
    }

    fn complete(&mut self) -> Result<Option<Completion>> {
        let Some(mut read) = self.waiting.pop_front() else { return Ok(None) };
        let length = read.length;
        let outcome = read.file.read_at(read.offset, &mut read.buffer.as_mut_slice()[..length]);
        Ok(Some(Completion { read, outcome }))
    }
}

/// `Invalid` when a queue of `depth` already holds `pending` reads.
pub(crate) fn check_room(pending: usize, depth: usize) -> Result<()> {
    if pending < depth {
        return Ok(());
    }
    Err(Error::new(
        Kind::Invalid,
        format!("the read queue is full ({depth} reads): complete one before submitting another"),
    ))
}

/// Does `reads` with as many in flight as the queue allows; calls `each` as they finish, in any order.
///
/// After an error every read still in flight is waited for, and the first error is returned.
pub fn read_batch(
    queue: &mut dyn Queue,
    reads: impl IntoIterator<Item = Read>,
    mut each: impl FnMut(Read) -> Result<()>,
) -> Result<()> {
    let mut reads = reads.into_iter();
    let mut failed = None;
    loop {
        while failed.is_none() && queue.pending() < queue.depth() {
            let Some(read) = reads.next() else { break };
            queue.submit(read)?;
        }
        let Some(completion) = queue.complete()? else { break };
        if let Err(error) = completion.exact().and_then(&mut each) {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}
