//! Writing: a [`Table`] takes updates.
//!
//! An update pays for merges, is logged if the table is live, and then changes memory only. Deleting a
//! range is an update of its own kind. Relies on `merge` for the schedule, on `durable` for the log, on
//! `read` for views.

mod prepared;
mod range_delete;
mod replay;
mod table;
mod update;

pub use prepared::{Leftover, Prepared, install_all};
pub use replay::Replaying;
pub use table::Table;
pub use update::update_all;
