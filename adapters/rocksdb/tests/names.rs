//! What is not there is in the README's list, name by name, and nothing else is.
//!
//! `names.txt` has the peer's public names; `adapters/peers/test names` looks whether the peer still has them.

use std::collections::BTreeSet;
use std::path::Path;

#[path = "../../peers/names.rs"]
mod names;

/// The peer's methods of these are, in the adapter, those of one type.
fn of_one_database(name: &str) -> String {
    let method = name.rsplit("::").next().unwrap_or(name);
    match name.split("::").next() {
        Some("DBWithThreadMode" | "OptimisticTransactionDB") if name.contains("::") => {
            format!("DBCommon::{method}")
        }
        _ => name.to_owned(),
    }
}

#[test]
fn the_readme_lists_every_name_of_the_peer_that_is_not_there() {
    let peers = names::of_peer(Path::new(env!("CARGO_MANIFEST_DIR")));
    let ours = names::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[]);
    let theirs: BTreeSet<String> = peers.iter().map(|name| of_one_database(name)).collect();
    for there in ["Options::set_wal_dir", "DBCommon::get_cf_opt", "Transaction::get_cf_opt"] {
        assert!(theirs.contains(there) && ours.contains(there), "{there} is read from both");
    }
    let missing = names::missing(&theirs, &ours);
    assert!(missing.contains("`set_comparator`"), "what is not there is seen");
    names::hold_against_readme(Path::new(env!("CARGO_MANIFEST_DIR")), &missing);
}
