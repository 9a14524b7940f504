//! Models: the same meaning in the least code, without disks.

pub mod context; // nested maps and a reference hash
pub mod levels; // the schedule of merges
pub mod table; // sorted maps, cursors and snapshots
