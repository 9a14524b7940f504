//! Looking at files from outside: what is in one, whether all are sound, and their pieces for programs.
//!
//! Nothing imports this room. It opens nothing for writing and survives what is damaged.

pub mod check;
pub mod inspect;
pub mod raw;
