//! `varvite context archive` and `attach`: two copies of a store, one that keeps all and one that collects.

use tempfile::TempDir;

use crate::binary::{text, varvite};
use crate::json::copy;

#[test]
fn a_store_that_has_collected_takes_its_history_from_the_folder_of_a_copy() {
    let folder = TempDir::new().unwrap();
    let [keeper, roller, lower] =
        ["keeper", "roller", "lower"].map(|name| text(&folder.path().join(name)).to_owned());
    varvite(&["context", "create", &keeper]).yes();
    let below = ["--lower", &lower];
    let put = |store: &str, number: u32, more: &[&str]| {
        let value = "v".repeat(number as usize);
        let put = ["context", "put", store, "main", "accounts/a", &value, "--date", "2026-01-01"];
        varvite(&[&put[..], more].concat()).yes();
    };
    let archive = |more: &[&str]| {
        varvite(&[&["context", "archive", &keeper], &below[..], more].concat()).yes()
    };
    for number in 1..=5 {
        put(&keeper, number, if number == 1 { &[] } else { &below });
        archive(&["--end-chunk"]);
    }
    varvite(&[&["context", "unarchive", &keeper], &below[..]].concat()).yes();
    copy(keeper.as_ref(), roller.as_ref());
    varvite(&["context", "collect", "run", &roller, "--keep", "2"]).yes();
    varvite(&["context", "get", &roller, "main~4", "accounts/a"]).error(2, &["collected"]);
    archive(&["--keep", "3"]);
    let attach = ["context", "attach", &roller, &lower, "--format", "json"];
    // Not yet all that it has collected.
    varvite(&attach).error(2, &["context snapshot import", "is not in"]);
    put(&keeper, 6, &below);
    archive(&[]);
    let attached = varvite(&attach).json();
    assert_eq!(attached["commits"], 5);
    assert!(attached["attached_chunks"].as_u64().unwrap() >= 4, "{attached}");
    let get = ["context", "get", &roller, "main~4", "accounts/a"];
    varvite(&get).error(2, &["--lower"]);
    assert_eq!(varvite(&[&get[..], &below].concat()).yes(), "v\n");
    put(&roller, 7, &below);
    varvite(&[&["context", "check", &roller], &below[..]].concat()).yes();
    let again = ["context", "check", &roller, "--rebuild-index"];
    varvite(&[&again[..], &below].concat()).yes();
    varvite(&["context", "archive", &keeper, "--lower", &keeper])
        .error(2, &["is the folder of a store"]);
    let alone = varvite(&["context", "log", &lower, "--format", "json"]).json();
    assert_eq!(alone.to_string().matches("2026-01-01").count(), 5, "{alone}");
}
