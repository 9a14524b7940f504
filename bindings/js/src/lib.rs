//! varvite for JavaScript, by wasm-bindgen: tables and contexts in memory or in the browser's own files, and proofs that
//! are checked without a store.
//!
//! Every export takes what a person would pass (text or a `Uint8Array`), checks it, and throws an `Error` with the
//! engine's `kind`. Nothing here unwinds: WebAssembly is built to abort, so whatever could panic is refused before.
//! `js/` holds what is JavaScript itself: the pool of files of a browser, and the doors of the package.

// What `#[wasm_bindgen]` writes is unsafe, and it is all that is.
#![allow(unsafe_code)]
// Proofs alone need less of what is shared.
#![cfg_attr(not(feature = "stores"), allow(dead_code))]
// Objects of JavaScript are taken by value or by reference as the generated code wants it.
#![allow(clippy::needless_pass_by_value, clippy::missing_errors_doc)]

#[cfg(feature = "stores")]
mod batch;
#[cfg(feature = "stores")]
mod disk;
mod fault;
mod input;
#[cfg(feature = "stores")]
mod operator;
mod options;
#[cfg(feature = "stores")]
mod pool;
mod proof;
#[cfg(feature = "stores")]
mod range;
#[cfg(feature = "stores")]
mod session;
#[cfg(feature = "stores")]
mod shared;
#[cfg(feature = "stores")]
mod store;
#[cfg(feature = "suite")]
mod suite;
#[cfg(feature = "stores")]
mod table;
mod tree;
