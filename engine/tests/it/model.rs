//! Models: the same meaning in the least code, without disks.

pub mod levels;
pub mod table;
