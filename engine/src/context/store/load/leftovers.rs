//! What an opening removes: files that nothing names, once it is certain that they are none of the store.

use crate::context::files::control::State as ChunkState;
use crate::context::files::paths;
use crate::context::files::sparse::SparseFile;
use crate::context::store::Store;
use crate::disk::remove_quietly;
use crate::error::Result;
use crate::file::replace;

impl Store {
    /// Removes files in work, chunks that were never finished, and those of before a clearing. All that
    /// has a batch was read.
    pub(super) fn remove_leftovers(&self) -> Result<()> {
        replace::remove_leftovers(&*self.disk, "", paths::is_replaced)?;
        let (first, last) = (self.control.chunks[0].number, self.end.place.chunk);
        let names = self.disk.list("")?;
        for name in &names {
            if paths::is_evicted_hashes(name) {
                // Of a process that died while it made the file. It means nothing to anybody.
                remove_quietly(&*self.disk, name);
            }
            let Some((epoch, number, generation)) = paths::parse_chunk(name) else { continue };
            let is_needed = epoch == self.control.epoch
                && (first..=last).contains(&number)
                && self.is_needed(&names, number, generation);
            if !is_needed {
                self.disk.remove(name)?;
            }
        }
        Ok(())
    }

    /// Whether a file of chunk `number`, which is of this epoch, may be what is left of it. Where the file
    /// that the control file names is not among `names`, that is another copy: nothing goes.
    fn is_needed(&self, names: &[String], number: u64, generation: Option<u64>) -> bool {
        let Some(row) = self.control.row(number) else { return false };
        let epoch = self.control.epoch;
        let (right, named) = match row.state {
            ChunkState::Whole => (None, paths::chunk(epoch, number)),
            // It stays as long as that which was moved is not seen.
            ChunkState::Lower(part) => {
                let right = part.map(|part| part.generation);
                let is_it = generation.is_some() && generation == right;
                return is_it || !self.is_in_lower(number);
            }
            ChunkState::Sparse(SparseFile { generation, .. }) => {
                (Some(generation), paths::sparse_chunk(epoch, row.number, generation))
            }
            ChunkState::Gone => return false,
        };
        row.number == number && generation == right || !names.contains(&named)
    }

    /// Whether chunk `number` is in the lower folder, and the right one.
    fn is_in_lower(&self, number: u64) -> bool {
        let chunk = self.pack.numbered(number).filter(|chunk| chunk.is_lower());
        chunk.is_some_and(|chunk| self.pack.files.get(&chunk).is_ok())
    }
}
