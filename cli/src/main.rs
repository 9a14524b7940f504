//! The command line of varvite.
#![allow(dead_code)]
mod hex;
mod workload;
fn main() {}
