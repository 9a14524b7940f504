//! Answers of any number and length: one arena of them, freed at once, used again by who likes.

use std::ffi::c_int;
use std::ptr::NonNull;

use varvite::Values;

use crate::args::{NOTHING, view};
use crate::handle::{get, is_inherited, put, take};
use crate::status::{Fault, Outcome, call, varvite_error};
use crate::types::varvite_bytes;

/// What owns the memory of an arena.
pub struct varvite_arena_owner {
    _nothing: [u8; 0],
}

/// Answers. Begin with all zeros: `varvite_arena arena = {0};`. Each call that fills it uses its memory
/// again, so what it had is gone, also when the call fails. `varvite_arena_free` frees it. One thread at a
/// time uses an arena, and no callback the one of the call that it is called by.
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

/// The place of answers of any number, which nothing is in from the beginning of a call on.
pub struct Answer {
    place: NonNull<varvite_arena>,
    /// The memory, out of the handle as long as the call runs: nothing can be wrong with the arena once it has done
    /// what it is to do.
    memory: Memory,
    /// The handle that the memory goes back to.
    owner: *mut varvite_arena_owner,
}

/// A `call` that fills an arena. It is emptied before anything can fail, and looked at before anything is done.
pub fn answer(
    error: *mut varvite_error,
    arena: *mut varvite_arena,
    body: impl FnOnce(Answer) -> Outcome,
) -> c_int {
    if !arena.is_null() && arena.is_aligned() {
        // SAFETY: neither NULL nor unaligned, and the caller promises an arena that nobody else uses meanwhile.
        unsafe { ((*arena).items, (*arena).count) = (std::ptr::null(), 0) };
    }
    call(error, || body(Answer::new(arena)?))
}

impl Answer {
    fn new(arena: *mut varvite_arena) -> Outcome<Answer> {
        let place = NonNull::new(arena).filter(|it| it.is_aligned()).ok_or_else(|| {
            Fault::invalid("there is no place for the arena: pass the address of one")
        })?;
        // SAFETY: neither NULL nor unaligned, and the caller promises an arena there.
        let mut owner = unsafe { (*arena).owner };
        if owner.is_null() || is_inherited(owner) {
            owner = std::ptr::null_mut();
            return Ok(Answer { place, memory: Memory::default(), owner });
        }
        let mut memory = std::mem::take(&mut *get(owner)?.write()?);
        memory.items.clear();
        memory.owned.clear();
        Ok(Answer { place, memory, owner })
    }

    /// Has `body` give the answers. The arena stays empty when that fails.
    pub fn fill(mut self, body: impl FnOnce(&mut Memory) -> Outcome) -> Outcome {
        body(&mut self.memory)?;
        let mut memory = std::mem::take(&mut self.memory);
        let (items, count) = (memory.items.as_ptr(), memory.items.len());
        // A callback may have freed the arena, which is against what it promised, and no reason to lose the answers.
        let is_back = !self.owner.is_null()
            && get(self.owner)
                .and_then(|held| {
                    std::mem::swap(&mut *held.write()?, &mut memory);
                    Ok(())
                })
                .is_ok();
        let owner = if is_back { self.owner } else { put(memory)? };
        self.owner = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe { self.place.write(varvite_arena { items, count, owner }) };
        Ok(())
    }
}

impl Drop for Answer {
    /// Gives the memory back after a failure, to be used again.
    fn drop(&mut self) {
        if self.owner.is_null() {
            return;
        }
        if let Ok(held) = get(self.owner)
            && let Ok(mut memory) = held.write()
        {
            *memory = std::mem::take(&mut self.memory);
        }
    }
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
        // What a process has from its parent is the parent's to free: here it goes when this process ends.
        if !owner.is_null() && !is_inherited(owner) {
            take(owner)?;
        }
        place.set(empty);
        Ok(())
    })
}
