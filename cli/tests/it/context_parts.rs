//! A context checked in parts: together they find what the whole finds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use varvite::context::{CommitInfo, Options, Store};
use varvite::disk::os::OsDisk;

use crate::binary::{command, finish, text, varvite};

/// What a check prints, and how it ends.
fn checked(arguments: &[&str]) -> (i32, Value) {
    let mut program = command(&["context", "check"]);
    program.args(arguments).args(["--format", "json"]);
    let ran = finish(program);
    assert!(!ran.err.contains("panicked"), "{ran:?}");
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}")))
}

/// The sentences of what is wrong.
fn found(report: &Value) -> BTreeSet<String> {
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    let details = list("findings").into_iter().map(|it| it["detail"].clone());
    let rest = ["index_faults", "missing", "warnings"].into_iter().flat_map(list);
    details.chain(rest).map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// The same of all parts, the worst exit code, and how many parts there were.
fn in_parts(arguments: &[&str]) -> (i32, BTreeSet<String>, usize) {
    let (mut worst, mut all, mut from) = (0, BTreeSet::new(), None::<String>);
    for parts in 1..50 {
        let mut words = [arguments, &["--most", "1"]].concat();
        if let Some(from) = &from {
            words.extend(["--from", from]);
        }
        let (code, report) = checked(&words);
        worst = worst.max(code);
        all.extend(found(&report));
        from = report["next"].as_str().map(str::to_owned);
        if from.is_none() {
            return (worst, all, parts);
        }
    }
    panic!("no end");
}

/// Where the bytes of a file that matter may be.
fn places(file: &Path) -> impl Iterator<Item = usize> + use<> {
    let length = fs::metadata(file).unwrap().len() as usize;
    (0..12).map(move |part| (length * part / 12 + 7) % length.max(1))
}

/// The files below the folders.
fn files(folders: &[&Path]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(files(&[&path]));
            } else if fs::metadata(&path).unwrap().len() > 0 {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Damages each file in places, and compares the whole with the parts; how often anything was found, and how often only
/// what belongs to no commit.
fn compare(folders: &[&Path], arguments: &[&str]) -> (usize, usize) {
    let (code, report) = checked(arguments);
    assert_eq!((code, found(&report).len()), (0, 0), "{report}");
    let (code, all, parts) = in_parts(arguments);
    assert!(code == 0 && all.is_empty() && parts >= 4, "{parts}: {all:?}");
    let (mut damages, mut of_index) = (0, 0);
    for file in files(folders) {
        let sound = fs::read(&file).unwrap();
        for at in places(&file) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x10;
            fs::write(&file, bytes).unwrap();
            let whole = finish({
                let mut program = command(&["context", "check"]);
                program.args(arguments).args(["--format", "json"]);
                program
            });
            let whole: Value = serde_json::from_str(&whole.out).unwrap();
            // What does not open is checked neither way.
            if whole.get("sound").is_some() {
                let expected = found(&whole);
                let (code, all, _) = in_parts(arguments);
                let missing: Vec<_> = expected.difference(&all).collect();
                assert!(
                    missing.is_empty(),
                    "{} at {at}: {missing:?} not in {all:?}",
                    file.display()
                );
                assert_eq!(code == 3, !expected.is_empty(), "{} at {at}", file.display());
                damages += usize::from(!expected.is_empty());
                of_index +=
                    usize::from(whole["index_faults"].as_array().is_some_and(|it| !it.is_empty()));
            }
        }
        fs::write(&file, sound).unwrap();
    }
    (damages, of_index)
}

fn context(folder: &Path, more: &[&str]) -> String {
    let context = text(&folder.join("c")).to_owned();
    varvite(&[&["context", "create", &context], more].concat()).yes();
    context
}

#[test]
fn parts_find_what_the_whole_finds() {
    let folder = TempDir::new().unwrap();
    let store = context(folder.path(), &["--always"]);
    let lower = folder.path().join("lower");
    let archive = ["context", "archive", &store, "--lower", text(&lower), "--end-chunk"];
    for number in ["1", "2", "3", "4", "5"] {
        let path = format!("a/{number}");
        let put = ["context", "put", &store, "main", &path, &number.repeat(300)];
        let over = ["--lower", text(&lower)];
        // From then on there are chunks below.
        let is_over = number == "5";
        varvite(&[&put[..], if is_over { &over } else { &[] }].concat()).yes();
        if number == "2" || number == "4" {
            varvite(&archive).yes();
        }
    }
    let arguments = [&*store, "--lower", text(&lower)];
    let (damages, of_index) = compare(&[Path::new(&store), &lower], &arguments);
    assert!(damages > 20 && of_index > 2, "{damages}, {of_index}");
}

/// Whoever puts one file back from a copy wants to know of the others before the next check.
#[test]
fn each_damaged_chunk_is_named_by_one_check_and_by_its_parts() {
    type Place<'a> = &'a dyn Fn(&Path) -> usize;
    let folder = TempDir::new().unwrap();
    let store = context(folder.path(), &[]);
    let lower = folder.path().join("lower");
    let over = ["--lower", text(&lower)];
    for number in ["1", "2", "3", "4"] {
        let value = number.repeat(300);
        let put = ["context", "put", &store, "main", &format!("a/{number}"), &value];
        varvite(&[&put[..], if number == "1" { &[] } else { &over }].concat()).yes();
        let archive = ["context", "archive", &store, over[0], over[1], "--end-chunk"];
        varvite(&archive).yes();
    }
    let arguments = [&*store, over[0], over[1]];
    let chunk = |number: usize| lower.join(format!("0000-00000{number}.pack"));
    // The head of the batch behind the opening; an opening; a value; an end.
    let value = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        bytes
            .windows(9)
            .position(|it| it.iter().all(|byte| *byte == it[0] && *byte > b'0'))
            .unwrap()
    };
    let end = |path: &Path| fs::metadata(path).unwrap().len() as usize - 3;
    let cases: [&[(usize, Place<'_>)]; 4] = [
        &[(0, &|_| 150), (1, &|_| 150)],
        &[(1, &value), (0, &|_| 150)],
        &[(0, &|_| 80), (1, &|_| 80), (2, &end)],
        &[(2, &value), (0, &end), (1, &|_| 150)],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let sound: Vec<_> = (0..3).map(|number| fs::read(chunk(number)).unwrap()).collect();
        for (number, place) in case {
            let mut bytes = sound[*number].clone();
            bytes[place(&chunk(*number))] ^= 1;
            fs::write(chunk(*number), bytes).unwrap();
        }
        let (code, report) = checked(&arguments);
        let (_, in_parts, _) = in_parts(&arguments);
        assert_eq!(code, 3, "{report}");
        for (damaged, _) in case {
            let name = format!("0000-00000{damaged}.pack is damaged");
            for found in [&found(&report), &in_parts] {
                assert!(
                    found.iter().any(|it| it.starts_with(&name)),
                    "{number}: {name}: {found:?}"
                );
            }
        }
        for (number, bytes) in sound.iter().enumerate() {
            fs::write(chunk(number), bytes).unwrap();
        }
    }
    assert_eq!(checked(&arguments).0, 0);
}

#[test]
fn parts_of_a_store_of_irmin_find_what_the_whole_finds() {
    let folder = TempDir::new().unwrap();
    let store = context(folder.path(), &[]);
    for number in ["1", "2", "3", "4", "5"] {
        let path = format!("a/{number}");
        varvite(&["context", "put", &store, "main", &path, &number.repeat(300)]).yes();
    }
    let irmin = text(&folder.path().join("irmin")).to_owned();
    varvite(&["context", "export-irmin", &store, &irmin]).yes();
    let (damages, of_index) = compare(&[Path::new(&irmin)], &[&irmin]);
    assert!(damages > 5 && of_index > 1, "{damages}, {of_index}");
}

/// A path may be as long as anybody likes, and the walk over what it leads to takes no stack for it.
#[test]
fn a_tree_of_any_depth_is_checked() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep");
    let mut store = Store::create(OsDisk::create(&path).unwrap(), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&vec!["a"; 100_000], b"value").unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
    store.close().unwrap();
    let (code, report) = checked(&[text(&path), "--commit", "last"]);
    assert_eq!((code, &report["sound"]), (0, &true.into()), "{report}");
    assert_eq!((&report["nodes"], &report["values"]), (&100_000.into(), &1.into()));
}
