//! What the adapters have in common: a folder with live tables, behind one handle.
//!
//! Everything here stands on varvite's public interface.

mod names;
mod store;

pub use names::{name_of, table_name};
pub use store::{Store, Way, io_kind};
