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

#[test]
fn an_archive_rolls_by_one_command_and_what_is_whole_of_a_damaged_one_is_kept() {
    let folder = TempDir::new().unwrap();
    let [node, lower, copy_of, out, rolled] = ["node", "lower", "copy", "out", "rolled"]
        .map(|name| text(&folder.path().join(name)).to_owned());
    varvite(&["context", "create", &node]).yes();
    for number in 1..=5_u32 {
        let (name, value) = (format!("accounts/{number}"), "v".repeat(90));
        varvite(&["context", "put", &node, "main", &name, &value, "--date", "2026-01-01"]).yes();
        varvite(&["context", "archive", &node, "--lower", &lower, "--end-chunk"]).yes();
    }
    copy(node.as_ref(), copy_of.as_ref());
    // What recent commits have needs no folder.
    assert!(varvite(&["context", "dump", &node, "main"]).yes().lines().count() == 5);
    let repair = |more: &[&str], out: &str| {
        varvite(&[&["repair", &node, out, "--format", "json"], more].concat())
    };
    let whole = repair(&["--lower", &lower], &out).json();
    assert_eq!((&whole["whole"], &whole["commits"]), (&true.into(), &5.into()), "{whole}");
    let same = |store: &str| varvite(&["context", "dump", store, "main~4"]).yes();
    varvite(&["context", "check", &out]).yes();
    assert_eq!(same(&out), varvite(&["context", "dump", &node, "main~4", "--lower", &lower]).yes());
    // A volume that is lost is named, and recent commits are kept.
    std::fs::remove_file(folder.path().join("lower/0000-000002.pack")).unwrap();
    let checked = varvite(&["context", "check", &node, "--lower", &lower, "--format", "json"]);
    assert_eq!(checked.code, 3, "{checked:?}");
    assert!(checked.out.contains("0000-000002.pack"), "{checked:?}");
    let told = varvite(&["context", "check", &node, "--lower", &lower]);
    assert!(told.code == 3 && told.out.contains("varvite repair"), "{told:?}");
    let less = repair(&["--lower", &lower], &format!("{out}-less"));
    assert_eq!(less.code, 3, "{less:?}");
    assert!(
        less.out.contains("0000-000002.pack") && less.out.contains("\"commits\":4"),
        "{less:?}"
    );
    // And rolling by one command.
    let roll =
        ["context", "collect", "run", &node, "--keep", "1", "--leave-lower", "--lower", &lower];
    varvite(&["context", "collect", "run", &node, "--keep", "1"]).error(2, &["--leave-lower"]);
    varvite(&roll).yes();
    varvite(&["context", "check", &node]).yes();
    assert!(varvite(&["context", "dump", &node, "main"]).yes().lines().count() == 5);
    varvite(&["context", "get", &node, "main~1", "accounts/1"]).error(2, &["collected"]);
    varvite(&["repair", &rolled, &out]).error(2, &["does not exist"]);
}
