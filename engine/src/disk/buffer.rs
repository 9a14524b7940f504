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

/// Bytes of a page of the system's, the least that it gives and takes; 4 to 64 KiB.
#[must_use]
pub fn page_bytes() -> usize {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        rustix::param::page_size()
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    ALIGNMENT
}

/// Where the pages of `page` bytes lie, from `start` on, that are wholly in the `length` bytes from
/// there on.
#[cfg(any(test, all(target_os = "linux", not(miri))))]
fn whole_pages(start: usize, length: usize, page: usize) -> std::ops::Range<usize> {
    let first = start.next_multiple_of(page) - start;
    let end = (start + length) / page * page;
    first..end.saturating_sub(start).max(first)
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

    /// Gives the system those of its pages back that lie wholly in here; it gives zeros instead when
    /// they are touched again. Its pages may be larger than [`ALIGNMENT`]: what shares one with others
    /// stays as it is, and so does what is not of a mapping.
    pub fn release(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if self.is_mapped() {
            use rustix::mm::{Advice, madvise};
            let pages = whole_pages(self.start.as_ptr().addr(), self.capacity, page_bytes());
            let start = self.start.as_ptr().wrapping_add(pages.start).cast();
            // SAFETY: whole pages of the system's, of a private mapping of our own, and none but the
            // bytes in here is in them, to which `&mut self` is the only way.
            let released = pages.is_empty()
                || unsafe { madvise(start, pages.len(), Advice::LinuxDontNeed) }.is_ok();
            debug_assert!(released, "pages of a mapping can be given back");
        }
    }

    /// Whether it is a mapping, or of one.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn is_mapped(&self) -> bool {
        self.whole.as_ref().map_or(self.mapped, |whole| whole.is_mapped())
    }

    /// What all of `pieces` were split from, when they are all that there are of it; else nothing, and
    /// the pieces are gone.
    #[must_use]
    pub fn join(pieces: Vec<Buffer>) -> Option<Buffer> {
        let whole = pieces.first().and_then(|piece| piece.whole.clone());
        drop(pieces);
        whole.and_then(Arc::into_inner)
    }

    /// Says of pieces whether they were split from the same memory: then it is the same number.
    #[must_use]
    pub fn origin(&self) -> usize {
        self.whole.as_ref().map_or(0, |whole| Arc::as_ptr(whole).addr())
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
            for piece in &mut pieces {
                piece.as_mut_slice().fill(7);
            }
            pieces[0].release();
            let is_mapped = cfg!(target_os = "linux") && !cfg!(miri) && length > 1 << 17;
            let is_released = is_mapped && pieces[0].capacity() >= page_bytes();
            assert_eq!(pieces[0].as_slice()[0], if is_released { 0 } else { 7 });
            for piece in &pieces[1..] {
                assert!(piece.as_slice() == vec![7; piece.capacity()]);
            }
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

    #[test]
    fn only_whole_pages_of_the_system_are_given_back() {
        const KIB: usize = 1024;
        for (start, length, page, expected) in [
            (0, 4 * KIB, 4 * KIB, 0..4 * KIB),
            (0, 4 * KIB, 16 * KIB, 0..0),
            (4 * KIB, 4 * KIB, 64 * KIB, 60 * KIB..60 * KIB),
            (64 * KIB, 64 * KIB, 64 * KIB, 0..64 * KIB),
            (4 * KIB, 40 * KIB, 16 * KIB, 12 * KIB..28 * KIB),
            (12 * KIB, 20 * KIB, 16 * KIB, 4 * KIB..20 * KIB),
        ] {
            assert_eq!(whole_pages(start, length, page), expected, "{start} {length} {page}");
        }
    }

    #[test]
    fn pieces_are_joined_only_when_all_are_there() {
        let mut pieces = Buffer::new(300_000).split(65_536);
        assert_eq!(pieces.len(), 4);
        let mut small = pieces.pop().unwrap().split(4096);
        assert!(small.iter().all(|piece| piece.origin() == small[0].origin()));
        assert_ne!(small[0].origin(), pieces[0].origin());
        small[15].as_mut_slice()[4095] = 9;
        let mut joined = Buffer::join(small).expect("all of it");
        assert_eq!((joined.capacity(), joined.as_slice()[65_535]), (65_536, 9));
        joined.release();
        let is_released = cfg!(target_os = "linux") && !cfg!(miri);
        assert_eq!(joined.as_slice()[65_535], if is_released { 0 } else { 9 });
        let mut small = joined.split(4096);
        let held = small.pop();
        assert!(Buffer::join(small).is_none());
        drop((held, pieces));
    }
}
