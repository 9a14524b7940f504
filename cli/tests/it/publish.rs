//! `bench/publish`: a run is added to the machine's history, and the page has all histories that are there.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

#[test]
#[cfg(unix)]
fn runs_are_added_and_shown_beside_another_machines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = TempDir::new().unwrap();
    // Peers are another program's, which takes long to build.
    let peers = folder.path().join("peers");
    let program = r#"#!/usr/bin/env bash
while [ $# -gt 0 ]; do case $1 in --results) out=$2 ;; --setting) setting=$2 ;; esac; shift; done
for spec in varvite lmdb:sorted=1; do
    echo "{\"entries\":7,\"setting\":\"$setting\",\"spec\":\"$spec\",\"slices\":[{\"operations\":9,\"seconds\":0.5,\"cpu_seconds\":0.2}]}" >>"$out"
done
"#;
    std::fs::write(&peers, program).unwrap();
    std::fs::set_permissions(&peers, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = |arguments: &[&str], machine: &str| {
        let ran = Command::new("bash")
            .arg(root.join("bench/publish"))
            .args(arguments)
            .arg("--out")
            .arg(folder.path())
            .env("VARVITE", env!("CARGO_BIN_EXE_varvite"))
            .env("VARVITE_MACHINE", machine)
            .env("VARVITE_COMPARE", &peers)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    // Without a history there is nothing to show, and that is said.
    let ran = Command::new("bash")
        .arg(root.join("bench/publish"))
        .args(["--page", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && said.contains("there is no history"), "{said}");
    run(&["--quick"], "one </script><b>");
    run(&["--quick"], "two");
    run(&["--quick"], "two");
    let files = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().path());
    let mut runs: Vec<usize> = Vec::new();
    for file in files.filter(|it| it.extension().is_some_and(|it| it == "jsonl")) {
        let text = std::fs::read_to_string(file).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        runs.push(lines.len());
        let names: std::collections::BTreeSet<_> =
            lines.iter().map(|it| it["benchmark"].as_str().unwrap()).collect();
        assert_eq!(names.len(), 12 + 2, "{names:?}");
        let saved: Vec<_> = lines
            .iter()
            .filter(|it| it["benchmark"].as_str().unwrap().starts_with("table: snapshot"))
            .collect();
        assert!(saved.len().is_multiple_of(4) && !saved.is_empty(), "{names:?}");
        assert!(saved.iter().all(|it| it["figures"]["seconds"].as_f64() > Some(0.0)), "{saved:?}");
        let (peers, own): (Vec<_>, Vec<_>) =
            lines.iter().partition(|it| it["figures"]["spec"].is_string());
        assert!(own.iter().all(|it| it["figures"]["varvite"]["exit_code"] == 0));
        assert!(peers.iter().all(|it| it["figures"]["slices"][0]["operations"] == 9), "{peers:?}");
        let of = |name| peers.iter().filter(|it| it["benchmark"] == name).count();
        assert_eq!((of("peers: page"), of("peers: synced")), (peers.len() / 2, peers.len() / 2));
        let operations = lines.iter().find(|it| it["benchmark"] == "table: operations").unwrap();
        assert_eq!(operations["figures"]["wrong"], 0);
    }
    runs.sort_unstable();
    assert_eq!(runs, [12 + 4, 2 * (12 + 4)]);
    // A copy that lost its last line end takes no line of another file.
    for file in std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().path()) {
        if file.extension().is_some_and(|it| it == "jsonl") {
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, text.trim_end()).unwrap();
        }
    }
    run(&["--page"], "none");
    let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert_eq!(page.matches("\"benchmark\":").count(), 48);
    let runs = page.lines().filter(|line| line.starts_with("{\"time\""));
    assert!(
        runs.clone().count() == 48 && runs.clone().all(|it| it.matches("\"time\":").count() == 1)
    );
    // The name of a machine ends no script.
    assert_eq!(page.matches("</script>").count(), 2, "its own");
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http:") && page.contains("Content-Security-Policy"));
}
