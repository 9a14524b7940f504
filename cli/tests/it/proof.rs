//! `proof`, and `conformance` with the vectors of the real Irmin and Octez.

use std::path::Path;

use crate::binary::{command, text, varvite};
use crate::context::replayed;
use crate::irmin::data;

/// Every vector file of the shared data holds, in every row.
#[test]
fn every_row_of_the_real_vectors_holds() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let mut files = Vec::new();
    for folder in ["irmin-vectors", "octez-proofs"] {
        let path = data.join(folder);
        if !path.is_dir() {
            assert!(std::env::var_os("CI").is_none(), "CI needs {}", path.display());
            eprintln!("skipped: there is no {}", path.display());
            return;
        }
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "gz") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert_eq!(files.len(), 23);
    let mut arguments = vec!["conformance", "--format", "json"];
    arguments.extend(files.iter().map(|path| text(path)));
    let ran = varvite(&arguments);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    for file in report["files"].as_array().unwrap() {
        assert_eq!(file["failed"], 0, "{file}");
    }
    // 475 tree proofs and 403 streams are among them.
    assert_eq!((ran.code, report["passed"].as_u64()), (0, Some(51_822)));
}

/// Makes room for the next proof: one that is there is not written over.
fn free(file: &Path) {
    if file.exists() {
        std::fs::remove_file(file).unwrap();
    }
}

/// A proof of three paths of a replayed store, and the root it is of.
fn made(folder: &Path, store: &str, more: &[&str]) -> (String, String) {
    let file = folder.join("p").to_str().unwrap().to_owned();
    free(Path::new(&file));
    let mut arguments = vec!["proof", "make", store, "last", "a/b", "a/x", "a"];
    arguments.extend(["--output", &file, "--format", "json"]);
    arguments.extend(more);
    let report = varvite(&arguments).json();
    assert_eq!(report["paths"], serde_json::json!(["value", "absent", "directory"]));
    assert_eq!(report["bytes"], std::fs::metadata(&file).unwrap().len());
    (file, report["root"].as_str().unwrap().to_owned())
}

#[test]
fn what_is_made_is_checked_against_a_root_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = replayed(folder.path());
    let mut sizes = Vec::new();
    for stream in [&[][..], &["--stream"]] {
        for encoding in ["v1", "v2", "json"] {
            let more = [stream, &["--encoding", encoding]].concat();
            let (file, root) = made(folder.path(), &store, &more);
            sizes.push(std::fs::metadata(&file).unwrap().len());
            let check = |paths: &[&str]| {
                varvite(
                    &[
                        &["proof", "check", &file, "--root", &root, "--configuration", "tezos"],
                        paths,
                    ]
                    .concat(),
                )
            };
            let report = check(&["a/b", "a", "--format", "json"]).json();
            assert_eq!(report[0]["is"], "value");
            assert_eq!(report[0]["value"], "\\x02");
            assert_eq!(report[1]["is"], "directory");
            // That nothing is there is proven too, but it is a no.
            let ran = check(&["a/b", "a/x", "--format", "json"]);
            let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!((ran.code, &report[1]["is"]), (1, &"absent".into()));
            let shown =
                varvite(&["proof", "show", &file, "--configuration", "tezos", "--format", "json"])
                    .json();
            assert_eq!(shown["form"], if stream.is_empty() { "tree" } else { "stream" });
            assert_eq!(shown["encoding"].as_str().unwrap().to_lowercase(), encoding);
            assert_eq!(
                (shown["values"].as_u64(), shown["directories"].as_u64()),
                (Some(1), Some(2))
            );
            assert!(
                varvite(&["proof", "show", &file, "--configuration", "tezos"])
                    .yes()
                    .contains("a/b")
            );
        }
    }
    assert!(sizes[1] < sizes[0] && sizes[0] < sizes[2], "{sizes:?}");
}

/// The hash after is proven by running the changes again, which the side that checks must know.
#[test]
fn changes_are_proven_from_root_to_root() {
    let folder = tempfile::tempdir().unwrap();
    let store = replayed(folder.path());
    let file = folder.path().join("p");
    let changes = ["--put", "a/b", "7", "--put", "new/one", "8", "--remove", "a/x"];
    for form in [&[][..], &["--stream"]] {
        free(&file);
        let make = ["proof", "make", &store, "last", "a/b", "-o", text(&file), "--format", "json"];
        let report = varvite(&[&make[..], &changes, form].concat()).json();
        let hash = |name: &str| report[name].as_str().unwrap().to_owned();
        let (root, after) = (hash("root"), hash("after"));
        assert_ne!(root, after);
        let check = |more: &[&str]| {
            varvite(
                &[
                    &["proof", "check", text(&file), "--root", &root, "--configuration", "tezos"],
                    more,
                ]
                .concat(),
            )
        };
        let right = [&["a/b", "--after", &after], &changes[..]].concat();
        assert!(check(&right).yes().contains("value"));
        // What is checked beside paths, and alone, is said: there is no table without a path.
        let proven = format!("proven: 3 changes lead from {root} to {after}\n");
        assert!(check(&right).yes().ends_with(&proven));
        check(&[&["a/b"], &changes[..]].concat()).yes();
        check(&["a/b"]).yes();
        // Other changes, none, another hash.
        check(&["a/b", "--after", &after, "--put", "a/b", "8"]).error(3, &["becomes"]);
        check(&["a/b", "--after", &after]).error(3, &["becomes"]);
        check(&[&["a/b", "--after", &root], &changes[..]].concat()).error(3, &["lead to", &after]);
        // The hash after is told apart even where no read notices.
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        check(&["a/b"]).yes();
        check(&right).error(3, &["ask for another"]);
    }
    let change = ["--put", "new/one", "8"];
    free(&file);
    let make = ["proof", "make", &store, "last", "-o", text(&file), "--format", "json"];
    let report = varvite(&[&make[..], &change].concat()).json();
    let (root, after) = (report["root"].as_str().unwrap(), report["after"].as_str().unwrap());
    let check =
        [&["proof", "check", text(&file), "--root", root, "--configuration", "tezos"][..], &change]
            .concat();
    let proven = format!("proven: 1 change leads from {root} to {after}\n");
    assert_eq!(varvite(&check).yes(), proven);
    assert_eq!(varvite(&["proof", "make", &store, "last"]).code, 2);
}

#[test]
fn what_is_wrong_with_a_proof_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let store = replayed(folder.path());
    let (file, root) = made(folder.path(), &store, &[]);
    let log = varvite(&["context", "log", &store, "--format", "json"]).json();
    assert_eq!(log[0]["tree"], root.as_str());
    let other = log[1]["tree"].as_str().unwrap();
    varvite(&["proof", "check", &file, "--root", other, "--configuration", "tezos", "a"])
        .error(3, &[other, &root]);
    varvite(&["proof", "check", &file, "--root", "Cononsense", "--configuration", "tezos", "a"])
        .error(2, &["Cononsense"]);
    varvite(&["proof", "make", &store, other, "a"]).error(2, &["not in the store"]);
    let sound = std::fs::read(&file).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&file, &bytes).unwrap();
        // The hash after is not checked by reading: there is no function to run.
        if !(35..67).contains(&at) {
            let ran = varvite(&[
                "proof",
                "check",
                &file,
                "--root",
                &root,
                "--configuration",
                "tezos",
                "a/b",
                "a",
            ]);
            ran.error(3, &["ask for another"]);
        }
    }
    std::fs::write(&file, &sound[..20]).unwrap();
    varvite(&["proof", "show", &file, "--configuration", "tezos"]).error(3, &[file.as_str()]);
    varvite(&["proof", "show", "nowhere", "--configuration", "tezos"]).error(2, &["nowhere"]);
}

/// A proof says of which configuration it is, and so may whoever made it up: the one who checks knows.
#[test]
fn the_configuration_is_told_by_the_one_who_checks() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = text(&store);
    varvite(&["context", "create", store, "--binary"]).yes();
    for number in 0..9 {
        varvite(&["context", "put", store, "main", &format!("d/{number}"), "1"]).yes();
    }
    let file = folder.path().join("p");
    for encoding in ["v1", "v2", "json"] {
        free(&file);
        let make = ["proof", "make", store, "last", "d/0", "--encoding", encoding];
        let report = varvite(&[&make[..], &["-o", text(&file), "--format", "json"]].concat());
        let report = report.json();
        assert_eq!(report["configuration"], "tezos-binary");
        let root = report["root"].as_str().unwrap();
        let check = ["proof", "check", text(&file), "--root", root, "d/0", "--configuration"];
        let show = ["proof", "show", text(&file), "--configuration"];
        for of in [&check[..], &show] {
            varvite(&[of, &["tezos-binary"]].concat()).yes();
            varvite(&[of, &["tezos"]].concat()).error(3, &["version"]);
            // There is no default.
            assert_eq!(varvite(&of[..of.len() - 1]).code, 2);
        }
        // Relabelled, names that are there could be told to be absent.
        let mut bytes = std::fs::read(&file).unwrap();
        match encoding {
            "v1" => bytes[1] = 0,
            "v2" => bytes[2] = 0,
            _ => {
                let text = String::from_utf8(bytes).unwrap();
                bytes = text.replacen("\"version\":2", "\"version\":0", 1).into_bytes();
            }
        }
        std::fs::write(&file, bytes).unwrap();
        let ran = varvite(&[&check[..], &["tezos-binary", "d/7"]].concat());
        ran.error(3, &["version", "ask for another"]);
    }
}

#[test]
fn without_a_file_the_proof_is_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let store = replayed(folder.path());
    let (file, _) = made(folder.path(), &store, &[]);
    let arguments = ["proof", "make", &store, "last", "a/b", "a/x", "a"];
    let output = command(&arguments).output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, std::fs::read(file).unwrap());
    let hex = ["proof", "make", &store, "last", "61/62", "61/78", "61", "--hex"];
    assert_eq!(command(&hex).output().unwrap().stdout, output.stdout);
}

#[test]
fn the_bench_measures_proofs_that_hold() {
    let arguments =
        ["bench", "proof", "--entries", "3000", "--operations", "1,20", "--rounds", "1"];
    let rows = varvite(&[&arguments[..], &["--format", "json"]].concat()).json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 12);
    for row in rows {
        let bytes = |name: &str| row[name].as_u64().unwrap();
        assert!(bytes("v2_bytes") < bytes("v1_bytes"), "{row}");
        assert!(bytes("v2_bytes") > 300 * bytes("operations"), "{row}");
    }
    // Two buckets an inode make smaller proofs than 32.
    assert!(rows[6]["v2_bytes"].as_u64() < rows[0]["v2_bytes"].as_u64());
}

/// Proofs of a store that the real Irmin wrote.
#[test]
fn stores_of_irmin_are_proven_as_ours_are() {
    let Some(stores) = data("irmin-stores") else { return };
    let store = stores.join("minimal-bigdirs/store");
    let store = text(&store);
    let log = varvite(&["context", "log", store, "--limit", "1", "--format", "json"]).json();
    let root = log[0]["tree"].as_str().unwrap();
    let dump = varvite(&["context", "dump", store, "last"]).yes();
    let lines = dump.lines().map(|line| serde_json::from_str(line).unwrap());
    let bindings: Vec<serde_json::Value> = lines.step_by(400).take(15).collect();
    assert!(bindings.len() > 5);
    let steps = |binding: &serde_json::Value| {
        let steps = binding["path"].as_array().unwrap();
        steps.iter().map(|step| step.as_str().unwrap()).collect::<Vec<_>>().join("/")
    };
    let paths: Vec<String> = bindings.iter().map(steps).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p");
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let make = [&["proof", "make", store, "last", "--hex", "-o", text(&file)], &paths[..]].concat();
    varvite(&make).yes();
    assert!(file.metadata().unwrap().len() < dump.len() as u64 / 2);
    let check = [
        "proof",
        "check",
        text(&file),
        "--root",
        root,
        "--configuration",
        "tezos",
        "--hex",
        "--format",
        "json",
    ];
    let report = varvite(&[&check[..], &paths[..]].concat()).json();
    for (found, binding) in report.as_array().unwrap().iter().zip(&bindings) {
        assert_eq!((&found["is"], &found["value"]), (&"value".into(), &binding["value"]));
    }
    let Some(samples) = data("irmin-pack-samples") else { return };
    let sample = samples.join("version_3_minimal");
    varvite(&["proof", "make", text(&sample), "last", "a"]).error(2, &["other hashes"]);
}
