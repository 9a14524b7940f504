//! Stores in a browser: what they hold, what is merged and collected, where their space and time went.
//!
//! A small server on the machine itself. It only reads, beside the program that writes; it listens on loopback
//! addresses and nowhere else; its pages are in the binary and ask nobody else for anything. Who has stores gives
//! each as a [`Source`] that says how it is opened; the engine knows nothing of this crate.
//!
//! What the server answers is described by `docs/guide/explorer.schema.json`.

mod answer;
mod api;
mod assets;
mod outgoing;
mod query;
mod routes;
mod schema;
mod server;
mod sources;

pub use query::{Query, Refused};
pub use server::{Explorer, Limits, check_address};
pub use sources::{OpenTables, Opens, Source};
