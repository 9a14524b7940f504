//! The table face.

mod batch;
mod entry;
mod operator;
mod write_buffer;

pub use batch::{Batch, Values};
pub use operator::MergeOperator;
