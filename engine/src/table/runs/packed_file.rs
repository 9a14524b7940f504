//! The pages of a segment that stores them compressed, read as if they lay one page behind the other.

use std::sync::Arc;

use crate::disk::{Access, Buffer, File};
use crate::error::{Error, Result};
use crate::table::bytes::{FIRST_PAGE, PAGE_BYTES, PageList};

/// A view of a segment file in which page `n` of entries is at byte `4096 n`. Only they are in it.
///
/// It has no descriptor, so a queue reads it through [`File::read_at`].
pub struct PackedFile {
    file: Arc<dyn File>,
    pages: Arc<PageList>,
    identity: u64,
}

crate::disk::names_itself!(PackedFile);

impl PackedFile {
    /// The pages that `pages` lists of `file`.
    pub fn new(file: Arc<dyn File>, pages: Arc<PageList>, identity: u64) -> Self {
        PackedFile { file, pages, identity }
    }

    /// Nothing is written through the view.
    fn read_only<T>(&self) -> Result<T> {
        Err(Error::invalid(format!("{}: compressed pages are only read", self.path())))
    }

    /// The bytes of the file in which pages from `first` to before `end` are, for a read of its kind.
    fn span(&self, first: u32, end: u32) -> (u64, u64) {
        let (start, end) = (self.pages.offset(first), self.pages.offset(end));
        match self.file.access() {
            Access::Buffered => (start, end),
            // Stored pages end in front of whole pages, so that what is read is there.
            Access::Direct => {
                (start - start % PAGE_BYTES as u64, end.next_multiple_of(PAGE_BYTES as u64))
            }
        }
    }
}

impl File for PackedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let (page, count) = (offset / PAGE_BYTES as u64, buffer.len() / PAGE_BYTES);
        let last = u64::from(FIRST_PAGE + self.pages.pages());
        let is_whole = offset.is_multiple_of(PAGE_BYTES as u64)
            && buffer.len().is_multiple_of(PAGE_BYTES)
            && page >= u64::from(FIRST_PAGE);
        if !is_whole {
            return Err(Error::invalid(format!(
                "{}: {} bytes at {offset} are no whole pages of entries",
                self.path(),
                buffer.len()
            )));
        }
        if page >= last {
            return Ok(0);
        }
        let count = (count as u64).min(last - page) as u32;
        let first = page as u32;
        let (start, end) = self.span(first, first + count);
        let mut stored = Buffer::new((end - start) as usize);
        self.file.read_exact_at(start, &mut stored.as_mut_slice()[..(end - start) as usize])?;
        let stored = &stored.as_slice()[(self.pages.offset(first) - start) as usize..];
        let length = count as usize * PAGE_BYTES;
        let of = (self.path(), self.identity);
        self.pages.unpack(of, first, stored, &mut buffer[..length])?;
        Ok(length)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        self.read_only()
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn set_len(&self, _: u64) -> Result<()> {
        self.read_only()
    }

    fn preallocate(&self, _: u64) -> Result<()> {
        self.read_only()
    }

    fn len(&self) -> Result<u64> {
        Ok(u64::from(FIRST_PAGE + self.pages.pages()) * PAGE_BYTES as u64)
    }

    fn path(&self) -> &str {
        self.file.path()
    }

    fn access(&self) -> Access {
        self.file.access()
    }

    fn forget(&self, offset: u64, length_bytes: u64) {
        let first = (offset / PAGE_BYTES as u64) as u32;
        let end = first + (length_bytes / PAGE_BYTES as u64) as u32;
        if first >= FIRST_PAGE && end <= FIRST_PAGE + self.pages.pages() {
            let start = self.pages.offset(first);
            self.file.forget(start, self.pages.offset(end) - start);
        }
    }
}
