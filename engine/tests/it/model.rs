//! Models: the same meaning in the least code, without disks.

pub mod levels;
pub mod table;
pub mod context; // nested maps and a reference hash
pub mod context;
