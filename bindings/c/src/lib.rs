//! varvite for C.
//!
//! What a caller must know stands in `include/varvite.h`, which is made from these sources, and in the
//! README beside it; why it is so, in `docs/design/c.md`. Each function checks its arguments, then calls the
//! engine's function of the same name. `status::call` is the only way in, so nothing unwinds into C.

// The names are C's, because this is where its header comes from. A function's safety is the same for
// all, so it is said once, here: pointers are NULL where that is allowed, or lead to as much as the
// argument beside them says; texts end with NUL; nobody else uses an out-parameter or an arena meanwhile.
// The comments are the header's, where names stand without backticks, and pointers are looked at in functions that are
// not for C.
#![allow(unsafe_code, non_camel_case_types, clippy::missing_safety_doc)]
#![allow(clippy::doc_markdown, clippy::not_unsafe_ptr_arg_deref)]

mod arena;
mod args;
mod handle;
mod recorder;
mod status;
mod types;

pub mod context;
pub mod table;

pub use arena::*;
pub use args::{VARVITE_EXCLUDED, VARVITE_INCLUDED, VARVITE_UNBOUNDED, varvite_bound};
pub use recorder::*;
pub use status::{
    VARVITE_BUSY, VARVITE_CALLBACK, VARVITE_CLOSED, VARVITE_COLLECTED, VARVITE_CORRUPT,
    VARVITE_EXISTS, VARVITE_HIDDEN, VARVITE_INVALID, VARVITE_IO, VARVITE_LOCKED, VARVITE_MISSING,
    VARVITE_OK, VARVITE_PANIC, VARVITE_POISONED, VARVITE_SENTENCE_BYTES, VARVITE_VERSION,
    varvite_error,
};
pub use types::*;
