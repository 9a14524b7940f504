//! An allocator that remembers the largest allocation of each thread, that is of each test, and the most
//! that it had at once.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's, watched.
pub struct Counting;

thread_local! {
    /// In bytes, since a test last set it.
    pub static LARGEST: Cell<usize> = const { Cell::new(0) };
    /// Bytes in use and the most of them, since a test last set them.
    static IN_USE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// What `action` gives, and the most bytes that it had at once.
pub fn most<T>(action: impl FnOnce() -> T) -> (T, usize) {
    IN_USE.set((0, 0));
    let result = action();
    (result, IN_USE.get().1.cast_unsigned())
}

fn count(bytes: isize) {
    let (now, most) = IN_USE.get();
    IN_USE.set((now + bytes, most.max(now + bytes)));
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the pointer came from `alloc` above, that is from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
