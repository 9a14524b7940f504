//! The server from outside: what it answers on real stores, and what it does with clients that are hostile or slow.

#![allow(clippy::unwrap_used)] // a test may fail at any place, and says which

mod api;
mod assets;
mod going_on;
mod hostile;
mod live_traces;
mod query_bytes; // mutated query strings; the body of a fuzz target
mod request_bytes; // mutated requests, in this process; the body of a fuzz target
mod slow;
mod stores;
mod world;

/// As the fuzz target, which has nothing but this file of the crate, names it.
mod query {
    pub use varvite_explore::Query;
}
