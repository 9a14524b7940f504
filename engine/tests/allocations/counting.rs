//! An allocator that counts what each thread, that is each test, allocates and holds.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's, counted.
pub struct Counting;

thread_local! {
    /// Bytes allocated by the thread since a test last set it.
    pub static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    /// Bytes that it holds, and the most that it held since a test last set that.
    pub static HELD: Cell<i64> = const { Cell::new(0) };
    pub static HELD_MOST: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size() as u64);
        HELD.set(HELD.get() + layout.size() as i64);
        HELD_MOST.set(HELD_MOST.get().max(HELD.get()));
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as i64);
        // SAFETY: the pointer came from `alloc` above, that is from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
