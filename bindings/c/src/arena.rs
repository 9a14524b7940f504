//! Answers of any number and length: one arena of them, freed at once, used again by who likes.

use std::ffi::c_int;

use varvite::Values;

use crate::args::{NOTHING, view};
use crate::handle::{get, put, take};
use crate::status::{Fault, Outcome, call, varvite_error};
use crate::types::varvite_bytes;

/// What owns the memory of an arena.
pub struct varvite_arena_owner {
    _nothing: [u8; 0],
}

/// Answers. Begin with all zeros: `varvite_arena arena = {0};`. Each call that fills it uses its memory
/// again, so what it had is gone, also when the call fails. `varvite_arena_free` frees it. One thread at a
/// time uses an arena.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_arena {
    /// The answers, in the order that the function says.
    pub items: *const varvite_bytes,
    /// How many there are.
    pub count: usize,
    /// The library's own.
    pub owner: *mut varvite_arena_owner,
}

/// The memory behind an arena.
#[derive(Default)]
pub struct Memory {
    /// Of lookups, which fill it without a copy.
    pub values: Values,
    /// Of what the engine gives piece by piece.
    owned: Vec<Option<Vec<u8>>>,
    items: Vec<varvite_bytes>,
}

// SAFETY: the pointers in `items` lead into the other two fields, which move with them between threads.
unsafe impl Send for Memory {}
// SAFETY: nothing is changed through a shared reference.
unsafe impl Sync for Memory {}

impl Memory {
    /// The answers are those of `values`.
    pub fn use_values(&mut self) {
        self.items.extend(self.values.iter().map(|it| it.map_or(NOTHING, view)));
    }

    /// One more answer.
    pub fn give(&mut self, bytes: impl Into<Vec<u8>>) {
        self.give_optional(Some(bytes.into()));
    }

    /// One more answer, which may be that there is nothing.
    pub fn give_optional(&mut self, bytes: Option<Vec<u8>>) {
        // A vector's bytes stay where they are when the vector itself is moved.
        self.items.push(bytes.as_deref().map_or(NOTHING, view));
        self.owned.push(bytes);
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, count: usize) {
        self.owned.reserve(count);
        self.items.reserve(count);
    }
}

/// Has `body` fill an arena, which is empty when that fails.
pub fn fill(arena: *mut varvite_arena, body: impl FnOnce(&mut Memory) -> Outcome) -> Outcome {
    if arena.is_null() || !arena.is_aligned() {
        return Err(Fault::invalid("there is no place for the arena: pass the address of one"));
    }
    // SAFETY: neither NULL nor unaligned, and the caller promises an arena that nobody else uses meanwhile.
    let arena = unsafe { &mut *arena };
    let owner = arena.owner;
    (arena.items, arena.count) = (std::ptr::null(), 0);
    if owner.is_null() {
        let mut memory = Memory::default();
        body(&mut memory)?;
        (arena.items, arena.count) = (memory.items.as_ptr(), memory.items.len());
        arena.owner = put(memory)?;
        return Ok(());
    }
    let held = get(owner)?;
    let mut memory = held.write()?;
    memory.items.clear();
    memory.owned.clear();
    body(&mut memory)?;
    (arena.items, arena.count) = (memory.items.as_ptr(), memory.items.len());
    Ok(())
}

/// Frees an arena's memory and makes it all zeros, so freeing it twice does nothing more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_arena_free(
    arena: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = crate::args::Out::new(arena, "arena")?;
        // SAFETY: neither NULL nor unaligned, as was just seen, and the caller promises an arena there.
        let owner = unsafe { (*arena).owner };
        let empty =
            varvite_arena { items: std::ptr::null(), count: 0, owner: std::ptr::null_mut() };
        if !owner.is_null() {
            take(owner)?;
        }
        place.set(empty);
        Ok(())
    })
}
