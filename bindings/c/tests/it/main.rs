//! The C face from outside, one binary.
#![allow(unsafe_code, clippy::unwrap_used)] // it calls C's functions, and may fail at any place
#![allow(clippy::wildcard_imports, clippy::struct_field_names)] // C's names have their prefix already

mod calls; // how these tests call C's functions
mod collection; // what is there already, what is collected, what is pinned
mod conformance; // what every face replays
mod header; // the header is what the sources say
mod machine; // random steps through C's functions and on the models

/// The models of the engine's own tests, and their random numbers.
#[path = "../../../../engine/tests/it/model"]
mod model {
    #![allow(dead_code)] // the engine's tests use more of them
    pub mod context;
    pub mod table;
}
#[path = "../../../../engine/tests/it/random.rs"]
#[allow(dead_code)]
mod random;
