//! Sessions under shuttle, which tries many orders of the threads' steps from outside. A binary of its
//! own: only these tests are built with the flag, and without it there is nothing here.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used)] // a test may fail at any place, and says which

#[path = "it/hooked_disk.rs"]
#[allow(dead_code)]
mod hooked_disk; // a disk that tells of calls before they are made
#[path = "interleavings/operations.rs"]
mod operations; // every operation beside every other, on a disk that fails
#[path = "interleavings/sessions.rs"]
mod sessions; // orders of the steps of several threads
