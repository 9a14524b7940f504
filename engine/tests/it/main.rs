//! The engine's tests from outside, one binary.

mod disk_suite; // what every disk promises, as statements that all of them pass
mod file_shapes; // appended and replaced files, through crashes and faults
mod sim_disk; // what the simulated disk adds: crashes and faults

mod model; // models: the same meaning in the least code
mod random; // numbers that follow from a seed
mod table_machine; // random steps on a session and on its model
