//! The command line of varvite.
fn main() {}
