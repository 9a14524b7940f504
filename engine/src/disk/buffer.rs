//! Memory aligned for direct I/O.
//!
//! Large buffers are mapped by themselves: merges take and drop them all the time, and between small
//! allocations they would leave holes that a bounded memory cannot afford.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// What direct reads and writes need their offsets, lengths and memory to be multiples of.
pub const ALIGNMENT: usize = 4096;

/// From this size on, a buffer is a mapping of its own; Miri knows no mappings.
#[cfg(all(unix, not(miri)))]
const MAPPED_BYTES_MIN: usize = 128 << 10;

/// Zeroed memory of the operating system's, aligned to its pages.
#[cfg(all(unix, not(miri)))]
fn map(length: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new private mapping at an address of the kernel's choice touches no memory in use.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, flags) };
    NonNull::new(start.ok()?.cast())
}

/// Owned, zeroed, aligned memory of a whole number of [`ALIGNMENT`] units.
pub struct Buffer {
    start: NonNull<u8>,
    capacity: usize,
    /// Mapped by itself rather than allocated.
    #[cfg(unix)]
    mapped: bool,
    /// Set for a piece: what owns the memory, of which this is the only handle to this part.
    whole: Option<Arc<Buffer>>,
}

// SAFETY: a `Buffer` owns its memory alone, like a boxed slice; a piece owns its part alone, since
// nobody reads or writes through the handle to the whole.
unsafe impl Send for Buffer {}
// SAFETY: shared access gives only `&[u8]`.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Zeroed memory of at least `length` bytes, rounded up to the alignment.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let capacity = length.max(1).next_multiple_of(ALIGNMENT);
        #[cfg(all(unix, not(miri)))]
        if capacity >= MAPPED_BYTES_MIN
            && let Some(start) = map(capacity)
        {
            return Buffer { start, capacity, mapped: true, whole: None };
        }
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Buffer {
            start,
            capacity,
            #[cfg(unix)]
            mapped: false,
            whole: None,
        }
    }

    /// Pieces of `length` bytes, rounded up to the alignment, that lie one behind the other. The memory
    /// goes with the last of them; a rest too short for a piece is not used.
    #[must_use]
    pub fn split(self, length: usize) -> Vec<Buffer> {
        let capacity = length.max(1).next_multiple_of(ALIGNMENT);
        let (count, whole) = (self.capacity / capacity, Arc::new(self));
        let piece = |number: usize| {
            // SAFETY: piece `number` ends at `(number + 1) * capacity`, which is within the whole.
            let start = unsafe { whole.start.add(number * capacity) };
            let whole = Some(Arc::clone(&whole));
            Buffer {
                start,
                capacity,
                #[cfg(unix)]
                mapped: false,
                whole,
            }
        };
        (0..count).map(piece).collect()
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGNMENT).expect("a buffer is smaller than memory")
    }

    /// Bytes of memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Gives the memory back to the system, which gives zeros instead when it is touched again. What
    /// is not of a mapping stays as it is.
    pub fn release(&mut self) {
        #[cfg(target_os = "linux")]
        if self.whole.as_ref().map_or(self.mapped, |whole| whole.mapped) {
            use rustix::mm::{Advice, madvise};
            let start = self.start.as_ptr().cast();
            // SAFETY: whole pages of a private mapping of our own, to which `&mut self` is the only way.
            let released = unsafe { madvise(start, self.capacity, Advice::LinuxDontNeed) };
            debug_assert!(released.is_ok(), "pages of a mapping can be given back");
        }
    }

    /// All of it.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `capacity` initialised bytes start there and live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.capacity) }
    }

    /// All of it, to write.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.whole.is_some() {
            return;
        }
        #[cfg(unix)]
        if self.mapped {
            // SAFETY: mapped in `new` with this length, and nobody else has it.
            let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.capacity) };
            debug_assert!(unmapped.is_ok(), "a mapping of our own can be given back");
            return;
        }
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zeroed() {
        for length in [0, 1, 4095, 4096, 4097, 70_000, 300_000] {
            let mut buffer = Buffer::new(length);
            assert_eq!(buffer.as_slice().as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.capacity() >= length);
            assert!(buffer.as_slice() == vec![0; buffer.capacity()]);
            buffer.as_mut_slice().fill(7);
        }
    }

    #[test]
    fn pieces_share_memory_and_no_byte() {
        for (length, piece, count) in [(4096, 4096, 1), (40_000, 5000, 5), (300_000, 4096, 74)] {
            let mut pieces = Buffer::new(length).split(piece);
            assert_eq!(pieces.len(), count);
            // Memory that is given back is as usable, and nobody else's changes with it.
            pieces[0].as_mut_slice().fill(7);
            pieces[0].release();
            let is_mapped = cfg!(target_os = "linux") && length > 1 << 17;
            assert_eq!(pieces[0].as_slice()[0], if is_mapped { 0 } else { 7 });
            for (number, piece) in pieces.iter_mut().enumerate() {
                assert_eq!(piece.as_slice().as_ptr() as usize % ALIGNMENT, 0);
                piece.as_mut_slice().fill(number as u8);
            }
            pieces.swap_remove(0);
            let last = pieces.len();
            for piece in &pieces {
                let number = piece.as_slice()[0];
                assert!(usize::from(number) <= last);
                assert!(piece.as_slice() == vec![number; piece.capacity()]);
            }
        }
    }
}
