//! Stores of Irmin (`irmin-pack`), as Tezos nodes have them, opened as they are.
//!
//! [`open`] gives an ordinary [`Store`](crate::context::Store) to read; nothing is ever written to
//! the folder, and another process may go on writing to it. [`migrate`] copies its commits into a store
//! of ours, [`export`] writes one of ours as Irmin would have it.
//! Format document: `docs/format/irmin-pack.md`.

mod export;
mod format;
pub mod inspect;
mod migrate;
mod places;
mod read;

pub use export::{Exported, export};
pub use format::schema::Schema;
pub use format::trace;
pub use migrate::{Choice, Migrated, migrate};
pub use read::open::{Options, is_store, open};
pub use read::reader::{SHAPE_ADVICE, Verify};
