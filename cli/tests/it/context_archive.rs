//! `varvite context archive` and `attach`: two copies of a store, one that keeps all and one that collects.

use std::io::Write;
use std::process::Stdio;

use tempfile::TempDir;
use varvite::context::{CommitInfo, Keep, Options, Store};

use crate::binary::{command, run, text, varvite};
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
    // What can be read is listed before the refusal.
    let log = ["context", "log", &keeper, "--path", "accounts/a", "--format", "jsonl"];
    let listed = varvite(&log);
    assert_eq!(listed.code, 2, "{listed:?}");
    assert!(listed.err.contains("--lower"), "{listed:?}");
    let lines = |out: &str| out.lines().filter(|line| line.contains("\"tree_hash\"")).count();
    assert!((1..5).contains(&lines(&listed.out)), "{listed:?}");
    let all = varvite(&[&log[..], &below].concat()).yes();
    assert_eq!(lines(&all), 5, "{all}");
    assert!(all.starts_with(listed.out.lines().next().unwrap()), "{all}");
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
    let shell = |more: &[&str]| {
        let mut shell = command(&[&["context", "shell", &roller], more].concat());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.take().unwrap().write_all(b"get main~4 accounts/a\nbranch list\n").unwrap();
        shell.wait_with_output().unwrap()
    };
    let (with, without) = (shell(&below), shell(&[]));
    assert!(with.status.success() && with.stdout.starts_with(b"v\n"), "{with:?}");
    assert!(!without.status.success() && !without.stdout.starts_with(b"v\n"), "{without:?}");
    put(&roller, 7, &below);
    varvite(&[&["context", "check", &roller], &below[..]].concat()).yes();
    let again = ["context", "check", &roller, "--rebuild-index"];
    varvite(&[&again[..], &below].concat()).yes();
    varvite(&["context", "archive", &keeper, "--lower", &keeper])
        .error(2, &["is the folder of a store"]);
    let alone = varvite(&["context", "log", &lower, "--format", "json"]).json();
    assert_eq!(alone.to_string().matches("2026-01-01").count(), 5, "{alone}");
    // Its newest commit is damaged: an older history is not shown without a word.
    let names = std::fs::read_dir(&lower).unwrap().map(|it| it.unwrap().path());
    let newest = names.filter(|it| it.extension().is_some_and(|it| it == "pack")).max().unwrap();
    let mut bytes = std::fs::read(&newest).unwrap();
    let hash = varvite::context::hash::from_text(alone[0]["hash"].as_str().unwrap()).unwrap();
    let record = bytes.windows(32).position(|it| it == hash).unwrap();
    bytes[record + 40] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    let ran = varvite(&["context", "log", &lower]);
    assert!(ran.code == 0 && ran.err.contains("varvite repair"), "{ran:?}");
    varvite(&["context", "check", &lower, "--commit", "last"]).ended(3);
}

#[test]
fn what_is_left_alone_of_another_store_is_told() {
    let folder = TempDir::new().unwrap();
    for store in ["one", "other"] {
        run(folder.path(), &format!("context create {store}")).yes();
        for number in 1..=4 {
            run(folder.path(), &format!("context put {store} main a/{number} {store}")).yes();
        }
    }
    let foreign = folder.path().join("one/0000-000000-1.pack");
    std::fs::copy(folder.path().join("other/0000-000000.pack"), &foreign).unwrap();
    let said = run(folder.path(), "context collect run one --keep 1");
    assert!(
        said.code == 0 && said.err.contains("warning: ") && said.err.contains("0000-000000-1.pack"),
        "{said:?}"
    );
    assert!(foreign.exists());
    run(folder.path(), "context check one").yes();
}

#[test]
fn what_is_whole_of_a_damaged_archive_is_kept_by_one_command() {
    let folder = TempDir::new().unwrap();
    let [node, lower, out] =
        ["node", "lower", "out"].map(|name| text(&folder.path().join(name)).to_owned());
    varvite(&["context", "create", &node]).yes();
    let below = ["--lower", &lower];
    for number in 1..=5_u32 {
        let (name, value) = (format!("accounts/{number}"), "v".repeat(90));
        let put = ["context", "put", &node, "main", &name, &value, "--date", "2026-01-01"];
        varvite(&[&put[..], if number == 1 { &[] } else { &below }].concat()).yes();
        varvite(&["context", "archive", &node, "--lower", &lower, "--end-chunk"]).yes();
    }
    let repair = |more: &[&str], out: &str| {
        varvite(&[&["repair", &node, out, "--format", "json"], more].concat())
    };
    let whole = repair(&below, &out).json();
    assert_eq!((&whole["whole"], &whole["commits"]), (&true.into(), &5.into()), "{whole}");
    let dump = |store: &str, commit: &str, more: &[&str]| {
        varvite(&[&["context", "dump", store, commit], more].concat()).yes()
    };
    varvite(&["context", "check", &out]).yes();
    for commit in ["main", "main~4"] {
        assert_eq!(dump(&out, commit, &[]), dump(&node, commit, &below));
    }
    // It is not written over.
    repair(&below, &out).error(2, &["holds a context store already"]);
    // A volume that is lost is named, and so is what is lost with it.
    std::fs::remove_file(folder.path().join("lower/0000-000002.pack")).unwrap();
    let checked = varvite(&["context", "check", &node, "--lower", &lower]);
    assert_eq!(checked.code, 3, "{checked:?}");
    let advice = format!("varvite repair {node} OUT --lower {lower} makes");
    assert!(checked.out.contains("0000-000002.pack"), "{checked:?}");
    assert!(checked.out.contains(&advice), "{checked:?}");
    let less = repair(&below, &format!("{out}-less"));
    assert_eq!(less.code, 3, "{less:?}");
    assert!(less.out.contains("0000-000002.pack"), "{less:?}");
    // Without the folder nobody knows what is damaged.
    varvite(&["context", "check", &node]).error(2, &["--lower"]);
    // What is left of one that was cut off is no store.
    let half = format!("{out}-half");
    copy(out.as_ref(), half.as_ref());
    std::fs::rename(format!("{half}/control"), format!("{half}/half-made")).unwrap();
    for command in [&["context", "log", &half][..], &["check", &half], &["info", &half]] {
        varvite(command).error(2, &["remove the folder"]);
    }
    repair(&below, &half).error(2, &["remove the folder"]);
    varvite(&["repair", &node, &half, "--skip-damaged"]).error(2, &["--skip-damaged"]);
}

/// What a writer takes away meanwhile is no damage.
#[test]
fn a_check_beside_a_store_that_collects_finds_no_damage() {
    let folder = TempDir::new().unwrap();
    let node = folder.path().join("node");
    let options = Options { chunk_bytes: 4_000, ..Options::default() };
    let mut store = Store::open_or_create(&node, options).unwrap();
    let mut last = None;
    let mut commit = |store: &mut Store, number: u64| {
        let mut tree = match last {
            Some(last) => store.checkout(&last).unwrap(),
            None => store.empty_tree(),
        };
        for account in 0..20 {
            let name = format!("{}", (number * 7 + account) % 200);
            tree.add(&["accounts", &name], &[number as u8; 100]).unwrap();
        }
        let info = CommitInfo::new(&[], number as i64, "me", "block");
        last = Some(store.commit(&mut tree, &info).unwrap());
    };
    (0..40).for_each(|number| commit(&mut store, number));
    let mut number = 40;
    for _ in 0..8 {
        let check = ["context", "check", text(&node)];
        let mut child =
            command(&check).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            commit(&mut store, number);
            number += 1;
            store.collect_keeping(&Keep::Newest(3)).unwrap();
            store.collect_step(20_000).unwrap();
        }
        let ran = child.wait_with_output().unwrap();
        let said = [&ran.stdout[..], &ran.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(matches!(ran.status.code(), Some(0 | 2)), "{:?}: {said}", ran.status);
        assert!(!said.contains("damaged"), "{said}");
    }
}
