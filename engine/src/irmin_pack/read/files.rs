//! Reading a store's files by pages of the shared cache.

use std::sync::Arc;

use crate::cache::{Cache, PAGE};
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Result};
use crate::format::hash::combine;

/// A file of which the bytes from `start` to `end` belong to the store.
#[derive(Debug)]
pub(crate) struct Part {
    file: Arc<dyn File>,
    name: String,
    cache: Arc<Cache>,
    key: u64,
    /// Its first valid byte.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Part {
    /// Opens a file to read. `name` is what messages call it.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &str,
        name: String,
        cache: &Arc<Cache>,
    ) -> Result<Part> {
        let file = disk.open(path, Mode::Read, Access::Buffered)?;
        let end = file.len()?;
        let key = combine(cache.join(), 0);
        Ok(Part { file, name, cache: Arc::clone(cache), key, start: 0, end })
    }

    /// The same file with other bounds. `Corrupt` when it is shorter.
    pub(crate) fn bounded(mut self, start: u64, end: u64, who: &str) -> Result<Part> {
        if end > self.end || start > end {
            return Err(Error::corrupt(
                &self.name,
                self.end,
                format_args!("bytes {start} to {end}, as {who} says"),
                "the end of the file",
            ));
        }
        (self.start, self.end) = (start, end);
        Ok(self)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Appends `length` bytes from byte `position` of the file on, fewer at its end.
    pub(crate) fn gather(&self, position: u64, length: u64, out: &mut Vec<u8>) -> Result<()> {
        let mut position = position;
        let mut left = length.min(self.end.saturating_sub(position)) as usize;
        out.reserve(left);
        while left > 0 {
            let number = position / PAGE as u64;
            let start = (position % PAGE as u64) as usize;
            let whole = (number + 1) * PAGE as u64 <= self.end;
            // What is long would only push other pages out.
            if let Some(number) = u32::try_from(number).ok().filter(|_| whole && left < 16 * PAGE) {
                let count = left.min(PAGE - start);
                let page = if let Some(page) = self.cache.get(self.key, number) {
                    page
                } else {
                    let mut bytes = [0; PAGE];
                    self.file.read_exact_at(u64::from(number) * PAGE as u64, &mut bytes)?;
                    self.cache.insert(self.key, number, &bytes)
                };
                out.extend_from_slice(&page[start..start + count]);
                position += count as u64;
                left -= count;
            } else {
                let before = out.len();
                out.resize(before + left, 0);
                self.file.read_exact_at(position, &mut out[before..])?;
                left = 0;
            }
        }
        Ok(())
    }

    /// All bytes from `start` to `end`, past the cache.
    pub(crate) fn read(&self, start: u64, end: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (end.min(self.end) - start) as usize];
        self.file.read_exact_at(start, &mut bytes)?;
        Ok(bytes)
    }
}

/// The bytes of a small file; none when it is not there. `Corrupt` when it has more than `most`.
pub(crate) fn small(disk: &dyn Disk, path: &str, most: u64) -> Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Mode::Read, Access::Buffered) {
        Ok(file) => file,
        Err(error) if error.kind() == crate::error::Kind::Missing => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.len()?;
    if length > most {
        return Err(Error::corrupt(path, most, format_args!("at most {most} bytes"), length));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(Some(bytes))
}
