//! `varvite context snapshot`: a commit that travels as a file.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::binary::{command, text, varvite};
use crate::exits::flip;

/// A folder with a store that has a commit, and the commit's file.
fn world() -> (TempDir, [String; 3]) {
    let folder = TempDir::new().unwrap();
    let paths = ["here", "file", "there"].map(|name| text(&folder.path().join(name)).to_owned());
    let [here, file, _] = &paths;
    varvite(&["context", "create", here]).yes();
    for number in 0..20 {
        let path = format!("accounts/{number}");
        varvite(&["context", "put", here, "main", &path, &"v".repeat(100 + number)]).yes();
    }
    varvite(&["context", "snapshot", "export", here, "main", file]).yes();
    (folder, paths)
}

#[test]
fn a_commit_travels_and_both_stores_write_the_same_file() {
    let (folder, [here, file, there]) = world();
    let snapshot = |more: &[&str]| {
        varvite(&[&["context", "snapshot"], more, &["--format", "json"]].concat()).json()
    };
    let imported = snapshot(&["import", &file, &there]);
    assert_eq!(imported["outcome"], "imported");
    assert_eq!(snapshot(&["import", &file, &there])["outcome"], "present");
    let again = text(&folder.path().join("again")).to_owned();
    let exported = snapshot(&["export", &there, "last", &again]);
    assert_eq!(fs::read(&file).unwrap(), fs::read(&again).unwrap());
    assert_eq!(exported["bytes"], fs::metadata(&file).unwrap().len());
    for key in ["commit", "hash", "objects", "bytes"] {
        assert_eq!(exported[key], imported[key], "{key}");
        assert_eq!(snapshot(&["verify", &file])[key], imported[key], "{key}");
    }
    assert_eq!(snapshot(&["info", &file])["hash"], imported["hash"]);
    // It is added to a store with other commits, too.
    varvite(&["context", "put", &here, "main", "more", "1"]).yes();
    let next = text(&folder.path().join("next")).to_owned();
    snapshot(&["export", &here, "main", &next]);
    snapshot(&["import", &next, &there]);
    assert_eq!(varvite(&["context", "get", &there, "last", "more"]).yes(), "1\n");
    varvite(&["context", "check", &there]).yes();
}

#[test]
fn a_range_travels_compressed() {
    let (folder, [here, _, there]) = world();
    let range = text(&folder.path().join("range")).to_owned();
    let export = ["context", "snapshot", "export", &here, "main", &range];
    let refused = varvite(&[&export[..], &["--compress", "20"]].concat());
    assert!(refused.code == 2 && refused.err.contains("1..=19"), "{}", refused.err);
    varvite(&[&export[..], &["--since", "main~3", "--compress", "3"]].concat()).yes();
    let json = |arguments: &[&str]| varvite(&[arguments, &["--format", "json"]].concat()).json();
    let verified = json(&["context", "snapshot", "verify", &range]);
    assert_eq!(
        (&verified["commits"], &verified["bytes"]),
        (&4.into(), &fs::metadata(&range).unwrap().len().into())
    );
    assert_eq!(json(&["context", "snapshot", "info", &range])["commits"], 4);
    assert_eq!(json(&["context", "snapshot", "import", &range, &there])["hash"], verified["hash"]);
    for (back, number) in [("last", "19"), ("last~3", "16")] {
        varvite(&["context", "get", &there, back, &format!("accounts/{number}")]).yes();
    }
    let listed = varvite(&["context", "ls", &there, "last~3", "accounts"]).yes();
    assert_eq!(listed.lines().count(), 17, "{listed}");
    // The other way round there is no range.
    let other = text(&folder.path().join("other")).to_owned();
    let export = ["context", "snapshot", "export", &here, "main~3", &other, "--since", "main"];
    varvite(&export).error(2, &["does not descend"]);
    assert!(!std::path::Path::new(&other).exists());
}

#[test]
fn two_files_are_compared_as_their_commits_are() {
    let (folder, [here, file, _]) = world();
    let other = text(&folder.path().join("other")).to_owned();
    varvite(&["context", "put", &here, "main", "accounts/7", "changed"]).yes();
    varvite(&["context", "remove", &here, "main", "accounts/8"]).yes();
    varvite(&["context", "put", &here, "main", "new/path", "added"]).yes();
    let export = ["context", "snapshot", "export", &here, "main", &other];
    varvite(&[&export[..], &["--since", "main~1", "--compress", "3"]].concat()).yes();
    for format in ["table", "json", "jsonl", "csv"] {
        let format = ["--format", format];
        let diff = ["context", "snapshot", "diff", &file, &other];
        let found = varvite(&[&diff[..], &format].concat());
        let diff = ["context", "diff", &here, "main~3", "main"];
        let expected = varvite(&[&diff[..], &format].concat());
        assert_eq!(found.code, expected.code);
        let plain = |out: &str| out.replace("context snapshot diff", "context diff");
        assert_eq!(plain(&found.out), expected.out);
        assert_eq!(found.out.matches("new").count(), expected.out.matches("new").count());
    }
    let scratch = folder.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let diff = ["context", "snapshot", "diff", &file, &file, "--scratch", text(&scratch)];
    assert_eq!(varvite(&diff).yes(), "");
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left");
    flip(other.as_ref(), 200);
    varvite(&["context", "snapshot", "diff", &file, &other]).error(3, &[&other]);
    let missing = text(&folder.path().join("missing")).to_owned();
    varvite(&["context", "snapshot", "diff", &missing, &file]).error(2, &["does not exist"]);
}

#[test]
fn an_import_that_is_killed_goes_on_and_says_so() {
    let folder = TempDir::new().unwrap();
    let [here, file, there] =
        ["here", "file", "there"].map(|name| text(&folder.path().join(name)).to_owned());
    varvite(&["context", "create", &here]).yes();
    let paths = folder.path().join("paths");
    let line = |n: u32| {
        format!(
            "{{\"path\":[\"{:04x}\"],\"value\":\"{}\"}}\n",
            n,
            format!("{n:08x}").repeat(10_000)
        )
    };
    fs::write(&paths, (0..800).map(line).collect::<String>()).unwrap();
    varvite(&["context", "load", &here, "main", text(&paths)]).yes();
    varvite(&["context", "snapshot", "export", &here, "main", &file]).yes();
    let whole = fs::metadata(&file).unwrap().len();
    assert!(whole > 27 << 20, "more than a state covers: {whole}");
    let import = ["context", "snapshot", "import", &file, &there];
    let mut child = command(&import).spawn().unwrap();
    while !std::path::Path::new(&there).join("import").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a state");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = varvite(&[&import[..], &["--format", "json"]].concat());
    assert!(ran.err.contains("where an import was cut off"), "{}", ran.err);
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
    let resumed = said["resumed_bytes"].as_u64().unwrap();
    assert!(resumed > 16 << 20 && resumed < whole, "{resumed} of {whole}");
    assert!(!std::path::Path::new(&there).join("import").exists());
    let again = text(&folder.path().join("again")).to_owned();
    varvite(&["context", "snapshot", "export", &there, "last", &again]).yes();
    assert!(fs::read(&again).unwrap() == fs::read(&file).unwrap());
    assert!(fs::metadata(there + "/0000-000000.pack").unwrap().len() < whole * 3 / 2);
}

#[test]
fn a_store_is_made_only_with_the_hash_configuration_that_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let [here, file, there] =
        ["here", "file", "there"].map(|name| text(&folder.path().join(name)).to_owned());
    varvite(&["context", "create", &here, "--binary"]).yes();
    varvite(&["context", "put", &here, "main", "data/a", "1"]).yes();
    let export = ["context", "snapshot", "export", &here, "main", &file];
    let json = |arguments: &[&str]| varvite(&[arguments, &["--format", "json"]].concat()).json();
    for said in [json(&export), json(&["context", "snapshot", "info", &file])] {
        assert_eq!((&said["entries"], &said["stable_hash"]), (&2.into(), &2.into()));
        assert_eq!(said["child_order"], "hash bits");
    }
    let verified = varvite(&["context", "snapshot", "verify", &file]).yes();
    assert!(verified.contains("2 entries, flat up to 2, by hash bits"), "{verified}");
    let import = ["context", "snapshot", "import", &file, &there];
    let with = |name: &str| varvite(&[&import[..], &["--configuration", name]].concat());
    let says = ["2 entries, flat up to 2, by hash bits", "--configuration"];
    varvite(&import).error(2, &says);
    for other in ["tezos", "2,2", "32,256,bits"] {
        with(other).error(2, &says);
    }
    for none in ["binary", "2", "2,2,hash", "1,1", "3,2,bits", ""] {
        let refused = with(none);
        assert!(refused.code == 2 && refused.err.contains("--configuration"), "{}", refused.err);
    }
    assert!(!std::path::Path::new(&there).exists(), "nothing was made");
    for name in ["tezos-binary", "2,2,bits", "any"] {
        with(name).yes();
        fs::remove_dir_all(&there).unwrap();
    }
    // Of a store that is there its own counts.
    varvite(&["context", "create", &there]).yes();
    with("any").error(2, &["another hash configuration", "flat up to 256"]);
}

#[test]
fn the_benchmark_measures_both_ways() {
    let bench = ["bench", "snapshot", "--accounts", "200", "--blocks", "2", "--format", "json"];
    let said = varvite(&bench).json();
    for side in ["export", "import"] {
        let side = &said[side];
        for key in ["objects", "bytes", "peak_rss_bytes"] {
            assert!(side[key].as_u64().unwrap() > 0, "{key}: {side}");
        }
        assert!(side["cpu_seconds"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(said["export"]["hash"], said["import"]["hash"]);
    let packed = varvite(&[&bench[..], &["--compress", "3"]].concat()).json();
    assert_eq!(packed["export"]["hash"], said["export"]["hash"]);
    assert!(packed["export"]["bytes"].as_u64() < said["export"]["bytes"].as_u64());
}

#[test]
fn a_damaged_or_cut_file_is_named_and_gives_no_commit() {
    let (_folder, [_, file, there]) = world();
    let length = fs::metadata(&file).unwrap().len();
    flip(file.as_ref(), length as usize / 2);
    let verify = ["context", "snapshot", "verify", &file];
    varvite(&verify).error(3, &[&file, "at byte"]);
    varvite(&["context", "snapshot", "import", &file, &there]).error(3, &[&file, "at byte"]);
    assert!(!Path::new(&there).exists(), "nothing is left of it");
    flip(file.as_ref(), length as usize / 2);
    varvite(&verify).yes();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 1).unwrap();
    varvite(&verify).error(3, &[&file]);
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf8_is_told_as_such() {
    use std::os::unix::ffi::OsStrExt as _;

    let (folder, [here, ..]) = world();
    let name = folder.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    let mut child = command(&["context", "snapshot", "export", &here, "main"]);
    let output = child.arg(name).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("is not UTF-8"), "{said}");
}
