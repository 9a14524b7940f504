//! Stores of Irmin (`irmin-pack`), as Tezos nodes have them, opened as they are.
//!
//! [`open`] gives an ordinary [`Store`](crate::context::Store) to read; nothing is ever written to
//! the folder, and another process may go on writing to it. [`migrate`] copies its commits into a store
//! of ours, [`export`] writes one of ours as Irmin would have it.
//! Format document: `docs/format/irmin-pack.md`.

mod branches;
mod bytes;
mod check;
mod control;
mod dict;
mod entry;
mod export;
mod files;
mod index;
pub mod inspect;
mod migrate;
mod open;
mod places;
mod reader;
mod schema;
mod sha1;
mod space;
pub mod trace;
mod unindexed;

pub use export::{Exported, export};
pub use migrate::{Choice, Migrated, migrate};
pub use open::{Options, is_store, open};
pub use reader::Verify;
pub use schema::Schema;
