//! What the program asks of the machine it runs on: its clocks and counts, its volumes, its threads, new files.

pub mod files;
pub mod measure;
pub mod threads;
pub mod volume;
