//! The engine's tests from outside, one binary.
#![allow(clippy::unwrap_used)] // a test may fail at any place, and says which

mod disk_suite; // what every disk promises, as statements that all of them pass
mod file_shapes; // appended and replaced files, through crashes and faults
mod sim_disk; // what the simulated disk adds: crashes and faults
