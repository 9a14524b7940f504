//! A store of Irmin read where it lies: its files, its index, its space of offsets, and what they say.
//!
//! [`open()`] makes a store of the context out of a [`Reader`](reader::Reader), which finds entries in a
//! [`Space`](space::Space) of files; commits that the index lost are found by scanning.
//! Relies on `format` for what is in the files.

mod check;
mod files;
pub(super) mod index;
pub(super) mod open;
pub(super) mod reader;
pub(super) mod space;
mod unindexed;
