//! Looking at files from outside: what is in one, whether all are sound, at once or in parts, and their pieces for
//! programs.
//!
//! Nothing imports this room. It writes nothing to what it looks at and survives what is damaged; a repair makes
//! another session of what is whole.

pub mod check;
mod findings;
pub mod inspect;
pub mod raw;
pub mod repair;
pub mod scrub;
