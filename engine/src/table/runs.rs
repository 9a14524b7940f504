//! Runs and the files that they consist of: immutable, sorted, written once.
//!
//! A [`Run`] is a list of [`Segment`]s in key order; a segment is one file of pages, a filter and an
//! index, and its large values lie in blob files beside it. Here a run is built segment by segment, read
//! from end to end ([`RunReader`]) and searched from any place in both directions ([`RunPlace`]).
//! Relies on `bytes` for what is in the files.

pub mod blob;
mod packed_file;
mod run;
mod run_place;
mod run_reader;
mod segment;
mod segment_builder;
mod segment_meta;

pub use run::Run;
pub use run_place::{NearestKey, PlaceMemory, RunPlace, Seek};
pub use run_reader::{ReadOptions, RunReader, chunk_bytes};
pub use segment::Segment;
pub use segment_builder::{Finished, SegmentBuilder, SegmentOptions};
pub use segment_meta::{BLOB_FILES_MAX, Counts, Footer, SegmentMeta, page_offset};
