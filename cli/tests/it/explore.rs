//! `explore` and `demo --explore`: what is refused, and pages until somebody ends them.

#![cfg(feature = "explorer")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::binary::{command, command_in, run, varvite};

/// Asks the program that printed `url` for `target`.
fn ask(url: &str, target: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

fn end(mut child: Child) {
    let ended = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(ended.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
#[cfg(unix)]
fn a_store_is_shown_until_somebody_ends_it() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("S").display().to_string();
    assert_eq!(varvite(&["table", "create", &store, "utxo", "--create"]).code, 0);
    assert_eq!(varvite(&["table", "put", &store, "utxo", "key", "value"]).code, 0);
    // The folder that the store is in does as well.
    for shown in [&store, &folder.path().display().to_string()] {
        let words = ["explore", shown, "--listen", "127.0.0.1:0", "--format", "json"];
        let mut child = command(&words).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("http://") {
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended: {line}");
        }
        let at = line.find("http://").unwrap();
        let url = &line[at..][..line[at..].find('"').unwrap()];
        let said = ask(url, "/api/levels?table=utxo");
        assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("\"entries\":1,"), "{said}");
        assert!(ask(url, "/").contains("explorer.js"));
        end(child);
    }
}

/// What the explorer of `words` answers to each of `targets`.
#[cfg(unix)]
fn asked(words: &[&str], targets: &[&str]) -> Vec<String> {
    let mut all = vec!["explore"];
    all.extend_from_slice(words);
    all.extend(["--listen", "127.0.0.1:0"]);
    let mut child = command(&all).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("http://") {
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended: {line}");
    }
    let url = line[line.find("http://").unwrap()..].split(' ').next().unwrap().to_owned();
    let said = targets.iter().map(|target| ask(&url, target)).collect();
    end(child);
    said
}

#[test]
#[cfg(unix)]
fn an_archive_is_shown_with_its_lower_folder_and_without() {
    let folder = TempDir::new().unwrap();
    let (store, lower) = (folder.path().join("S"), folder.path().join("below"));
    let (store, lower) = (store.display().to_string(), lower.display().to_string());
    varvite(&["context", "create", &store]).yes();
    let below = ["--lower", &lower];
    for number in 1..=4 {
        let value = "v".repeat(number);
        let put = ["context", "put", &store, "main", "accounts/a", &value, "--date", "2026-01-01"];
        varvite(&[&put[..], if number == 1 { &[] } else { &below }].concat()).yes();
        let archive = ["context", "archive", &store, "--end-chunk"];
        varvite(&[&archive[..], &below].concat()).yes();
    }
    let log = ["context", "log", &store, "--limit", "100", "--format", "json"];
    let log = varvite(&[&log[..], &below].concat()).json();
    let oldest = log.as_array().unwrap().last().unwrap()["hash"].as_str().unwrap().to_owned();
    let old = format!("/api/tree?commit={oldest}");
    let with = asked(&[&store, "--lower", &lower], &["/api/overview", &old, "/api/collection"]);
    for said in &with {
        assert!(said.starts_with("HTTP/1.1 200 ") && !said.contains("\"damage\":\""), "{said}");
    }
    let without = asked(&[&store], &["/api/overview", "/api/tree", &old]);
    for said in &without[..2] {
        assert!(said.starts_with("HTTP/1.1 200 ") && !said.contains("\"damage\":\""), "{said}");
    }
    assert!(
        !without[2].starts_with("HTTP/1.1 200 ") && without[2].contains("lower"),
        "{}",
        without[2]
    );
    varvite(&["explore", &store, "--snapshot", "one"]).error(2, &["--snapshot"]);
    varvite(&["explore", &folder.path().display().to_string(), "--lower", &lower])
        .error(2, &["no context", "--lower"]);
}

#[test]
#[cfg(unix)]
fn a_snapshot_of_tables_is_shown_by_its_name() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("S").display().to_string();
    assert_eq!(varvite(&["table", "create", &store, "utxo", "--create"]).code, 0);
    assert_eq!(varvite(&["table", "put", &store, "utxo", "key", "value"]).code, 0);
    assert_eq!(varvite(&["table", "snapshot", "create", &store, "one"]).code, 0);
    assert_eq!(varvite(&["table", "put", &store, "utxo", "other", "value"]).code, 0);
    let said = asked(&[&store, "--snapshot", "one"], &["/api/levels"]);
    assert!(said[0].contains("\"entries\":1,") && said[0].contains("snapshot one"), "{}", said[0]);
    let said = asked(&[&store, "--snapshot", "none"], &["/api/overview"]);
    assert!(said[0].contains("none") && said[0].contains("\"damage\":\""), "{}", said[0]);
}

#[test]
#[cfg(unix)]
fn the_demo_is_shown_and_its_folder_goes_with_it() {
    let folder = TempDir::new().unwrap();
    let words = ["demo", "--entries", "1000", "--quiet", "--explore", "--listen", "127.0.0.1:0"];
    let mut child = command(&words)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let url = line.split(' ').next().unwrap().to_owned();
    let said = ask(&url, "/api/overview");
    for kind in ["\"kind\":\"tables\"", "\"kind\":\"context\""] {
        assert!(said.contains(kind), "{said}");
    }
    // The pages of traces have something to show, each once it was read.
    for (target, expected) in [
        ("/api/trace?trace=0", "\"blocks\":50"),
        ("/api/trace/actions?trace=0", "\"add\""),
        ("/api/compare?traces=0,1", "blocks-in-memory.trace"),
    ] {
        let mut said = ask(&url, target);
        for _ in 0..600 {
            if !said.starts_with("HTTP/1.1 503 ") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            said = ask(&url, target);
        }
        assert!(said.starts_with("HTTP/1.1 200 ") && said.contains(expected), "{target}: {said}");
    }
    end(child);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The lines of its guide as they stand, but for a port that nobody has and a demo of fewer entries, which would take a minute.
#[test]
#[cfg(unix)]
fn what_the_guide_types_shows_stores() {
    let guide = include_str!("../../../docs/guide/explorer.md");
    let block = guide.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let [store, demo] = block.lines().collect::<Vec<_>>()[..] else { panic!("{block}") };
    // Cargo builds the program and runs it.
    let demo = demo.strip_prefix("cargo run --release -- ").unwrap();
    let store = store.strip_prefix("varvite ").unwrap();
    let folder = TempDir::new().unwrap();
    run(folder.path(), "table put STORE t a b --create").yes();
    for line in [store.to_owned(), format!("{demo} --entries 1000 --quiet")] {
        let mut shown = command_in(folder.path(), &format!("{line} --listen 127.0.0.1:0"));
        shown.env("TMPDIR", folder.path()).stderr(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shown.spawn().unwrap();
        // The demo has its results where the other has its address.
        let said: Box<dyn Read> = if line == store {
            Box::new(child.stdout.take().unwrap())
        } else {
            Box::new(child.stderr.take().unwrap())
        };
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).unwrap();
        let url = line[line.find("http://").unwrap()..].split(' ').next().unwrap();
        assert!(ask(url, "/api/overview").starts_with("HTTP/1.1 200 "), "{line}");
        end(child);
    }
}

#[test]
fn what_cannot_be_shown_is_refused_before_anything_else() {
    let folder = TempDir::new().unwrap();
    let empty = folder.path().display().to_string();
    varvite(&["explore", &empty]).error(2, &["no store"]);
    varvite(&["explore", &empty, "--listen", "0.0.0.0:7878"])
        .error(2, &["other machines", "ssh -L"]);
    varvite(&["explore", &empty, "--listen", "here"]).error(2, &["127.0.0.1:7878"]);
    varvite(&["explore", &empty, "--trace", "nothing.trace"]).error(2, &["nothing.trace"]);
    varvite(&["demo", "--explore", "--listen", "192.168.0.1:1"]).error(2, &["other machines"]);
}
