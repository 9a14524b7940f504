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
    let run = |arguments: &[&str], machine: &str| {
        let ran = Command::new("bash")
            .arg(root.join("bench/publish"))
            .args(arguments)
            .arg("--out")
            .arg(folder.path())
            .env("VARVITE", env!("CARGO_BIN_EXE_varvite"))
            .env("VARVITE_MACHINE", machine)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
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
        assert_eq!(names.len(), 7, "{names:?}");
        assert!(lines.iter().all(|it| it["figures"]["varvite"]["exit_code"] == 0));
        let operations = lines.iter().find(|it| it["benchmark"] == "table: operations").unwrap();
        assert_eq!(operations["figures"]["wrong"], 0);
    }
    runs.sort_unstable();
    assert_eq!(runs, [7, 14]);
    run(&["--page"], "none");
    let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert_eq!(page.matches("\"benchmark\":").count(), 21);
    // The name of a machine ends no script.
    assert_eq!(page.matches("</script>").count(), 2, "its own");
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http:") && page.contains("Content-Security-Policy"));
}
