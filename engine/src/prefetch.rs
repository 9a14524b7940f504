//! Asks for cache lines ahead of their use.
#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// How many lines are where something begins.
const STARTS: usize = 4;

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

/// Asks for the first lines of `things`; the processor itself sees that they are read one after the other, and
/// asks for those that follow.
#[inline]
pub fn start<T>(things: &[T]) {
    let start = things.as_ptr().cast::<u8>();
    for at in (0..size_of_val(things).min(STARTS * LINE_BYTES)).step_by(LINE_BYTES) {
        address(start.wrapping_add(at));
    }
}

/// Asks for the line `bytes` bytes after the beginning of `thing`.
#[inline]
pub fn after<T>(thing: &T, bytes: usize) {
    address(std::ptr::from_ref(thing).cast::<u8>().wrapping_add(bytes));
}

/// Asks for the line where `thing` begins.
#[inline]
pub fn line<T>(thing: &T) {
    address(std::ptr::from_ref(thing).cast());
}

#[inline]
fn address(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and faults on no address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beyond_the_end_are_not_asked_for() {
        let bytes = [1; 200];
        for (start, length) in [(0, 200), (0, 4096), (199, 1), (200, 5), (5_000, 1), (63, 0)] {
            lines(&bytes, start, length);
        }
        lines(&[], 0, 64);
        start(&bytes);
        start::<u64>(&[]);
        after(&bytes, 100_000);
        whole(&bytes);
        whole(&());
        line(&bytes[199]);
        assert_eq!(bytes, [1; 200]);
    }
}
