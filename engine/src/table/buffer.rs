//! Operations on their way to disk: a batch of them, and the write buffer that gathers them.
//!
//! A [`WriteBuffer`] is a few sorted layers that views share and updates merge; a small filter before
//! them says of most keys that none has them. Blob files that an operation refers to are held. Relies
//! on `bytes` for entries and on `runs` for blob files.

mod batch;
mod key_filter;
mod layer;
mod stream;
mod write_buffer;

pub use batch::Batch;
pub use stream::BufferStream;
pub use write_buffer::{Combine, PREFETCHED, WriteBuffer};
