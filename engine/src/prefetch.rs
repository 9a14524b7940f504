//! Asks for cache lines ahead of their use, and for large pages.
#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Asks for the lines of `bytes` from `start` for `length` bytes, as far as they exist.
#[inline]
pub fn lines(bytes: &[u8], start: usize, length: usize) {
    let end = bytes.len().min(start + length);
    for at in (start..end).step_by(LINE_BYTES) {
        line(&bytes[at]);
    }
}

/// Asks for the lines of `thing` itself, without what it points to.
#[inline]
pub fn whole<T>(thing: &T) {
    let start = std::ptr::from_ref(thing).cast::<u8>();
    for at in (0..size_of::<T>()).step_by(LINE_BYTES) {
        address(start.wrapping_add(at));
    }
}

/// Asks for the line where `thing` begins.
#[inline]
pub fn line<T>(thing: &T) {
    address(std::ptr::from_ref(thing).cast());
}

#[inline]
fn address(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and faults on no address; this one is of a live value.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Bytes of a large page, where the system has them.
#[cfg(any(test, all(target_os = "linux", not(miri))))]
const LARGE_BYTES: usize = 2 << 20;

/// Where the large pages lie that are wholly in the `length` bytes from `start` on.
#[cfg(any(test, all(target_os = "linux", not(miri))))]
fn large_pages(start: usize, length: usize) -> std::ops::Range<usize> {
    let first = start.next_multiple_of(LARGE_BYTES);
    first..((start + length) / LARGE_BYTES * LARGE_BYTES).max(first)
}

/// Room for `count` things that will be looked at anywhere: in large pages, if there is much of it and the system gives some,
/// so that the processor finds its pages in fewer steps.
#[must_use]
pub fn scattered<T>(count: usize) -> Vec<T> {
    let room = Vec::with_capacity(count);
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        let start: *const T = room.as_ptr();
        let pages = large_pages(start.addr(), count * size_of::<T>());
        if !pages.is_empty() {
            let first = start.cast_mut().cast::<u8>().wrapping_add(pages.start - start.addr());
            // SAFETY: the advice changes no byte, and these are whole pages within an allocation of our own.
            let _ = unsafe { madvise(first.cast(), pages.len(), Advice::LinuxHugepage) };
        }
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_are_whole_and_within() {
        for (start, length, expected) in [
            (0, LARGE_BYTES, 0..LARGE_BYTES),
            (1, LARGE_BYTES, LARGE_BYTES..LARGE_BYTES),
            (1, 2 * LARGE_BYTES - 1, LARGE_BYTES..2 * LARGE_BYTES),
            (5, 9, LARGE_BYTES..LARGE_BYTES),
            (4096, 5 * LARGE_BYTES, LARGE_BYTES..5 * LARGE_BYTES),
        ] {
            assert_eq!(large_pages(start, length), expected);
        }
        let mut room: Vec<u64> = scattered(1 << 20);
        room.extend(0..1 << 20);
        assert_eq!((room.len(), room.capacity(), room[1 << 19]), (1 << 20, 1 << 20, 1 << 19));
        assert_eq!(scattered::<u64>(0).capacity(), 0);
    }

    #[test]
    fn places_beyond_the_end_are_not_asked_for() {
        let bytes = [1; 200];
        for (start, length) in [(0, 200), (0, 4096), (199, 1), (200, 5), (5_000, 1), (63, 0)] {
            lines(&bytes, start, length);
        }
        lines(&[], 0, 64);
        whole(&bytes);
        whole(&());
        line(&bytes[199]);
        assert_eq!(bytes, [1; 200]);
    }
}
