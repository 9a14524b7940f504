//! Models: the same meaning in the least code, without disks.

pub mod context;
pub mod levels;
pub mod table;
