//! Reading: a view of a table at one moment, and what is asked of it.
//!
//! A [`View`] holds the active buffer, and the shape with all older entries. Lookups go through both from
//! the newest entry to the oldest; a cursor merges them in key order. Nothing here waits for a writer
//! or changes anything. Relies on `merge` for the shape, and on what that stands on.

mod cursor;
mod get;
mod lookup;
mod loser_tree;
mod owned_bytes;
mod range;
mod sources;
pub mod stats;
mod told_steps;
mod unjoined;
mod value;
mod values;
mod view;

pub use cursor::Cursor;
pub use get::Moment;
pub use owned_bytes::Bytes;
pub use range::{KeyBounds, Keys, Range};
pub use value::{Value, ValueLocation, ValueWriter};
pub use values::Values;
pub use view::View;
