//! What is not there is in the README's list, name by name, and nothing else is.
//!
//! `names.txt` has the peer's public names; `adapters/peers/test names` looks whether the peer still has them.

use std::path::Path;

#[path = "../../peers/names.rs"]
mod names;

#[test]
fn the_readme_lists_every_name_of_the_peer_that_is_not_there() {
    let theirs = names::of_peer(Path::new(env!("CARGO_MANIFEST_DIR")));
    let ours = names::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[]);
    for there in
        ["KeyspaceCreateOptions::filter_policy", "Readable::get", "config::PinningPolicy::all"]
    {
        assert!(theirs.contains(there) && ours.contains(there), "{there} is read from both");
    }
    let missing = names::missing(&theirs, &ours);
    assert!(missing.contains("`start_ingestion`"), "what is not there is seen");
    names::hold_against_readme(Path::new(env!("CARGO_MANIFEST_DIR")), &missing);
}
