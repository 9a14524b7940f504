//! `varvite doctor`: one file about a store, for a report of a fault; without what the store holds.
//!
//! It asks the program's own commands, each in a process of its own, so that one that breaks down is a finding
//! and not the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Map, Value, json};
use varvite::format::header::{FileKind, Header, LENGTH};
use varvite::{Error, Result};

use crate::exit::{Outcome, Verdict};
use crate::output;
use crate::print::{self, Format};
use crate::store::folder;

/// Gather what a report of a fault needs in one file: versions, statistics, checks, last errors; no contents
///
/// Never writes to the store. Names of tables, snapshots and branches are in it, keys and values are not: sentences
/// about damage name files and offsets. Exit code 3 when something is damaged.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store
    store: PathBuf,
    /// The file to write, which may not be there yet [default: print it]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Leave out the check, which reads every file
    #[arg(long)]
    quick: bool,
}

/// Files that are described one by one; the others are counted.
const FILES_MAX: usize = 2_000;

/// Characters of what a command says on standard error.
const SAID_MAX: usize = 4_000;

/// Gathers and writes the report.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    folder::disk(&arguments.store)?;
    let report = gathered(&arguments.store, arguments.quick)?;
    let damaged = report["commands"]
        .as_object()
        .is_some_and(|commands| commands.values().any(|command| command["exit_code"] == 3));
    let verdict = Verdict::sound(!damaged);
    let text = serde_json::to_string_pretty(&report).expect("a report is plain data") + "\n";
    let Some(out) = &arguments.out else {
        match format {
            Format::Json => print::json(&report)?,
            Format::Table => print::line(text.trim_end())?,
        }
        return Ok(verdict);
    };
    let name = out.display().to_string();
    output::write_new(out, text.as_bytes())?;
    if format == Format::Json {
        print::json(&json!({ "written": name, "bytes": text.len(), "damaged": damaged }))?;
    } else {
        print::line(&format!(
            "{name}: {}, send it with the report",
            print::bytes(text.len() as u64)
        ))?;
    }
    Ok(verdict)
}

fn gathered(store: &Path, quick: bool) -> Result<Value> {
    let mut commands: Vec<&[&str]> = vec![&["info"]];
    if folder::is_context(store) {
        commands.push(&["context", "stat"]);
        commands.push(&["context", "collect", "status"]);
    } else {
        commands.push(&["table", "list"]);
        commands.push(&["table", "snapshot", "list"]);
        commands.push(&["table", "merge", "status"]);
    }
    if !quick {
        commands.push(&["check"]);
    }
    let mut said = Map::new();
    for words in commands {
        said.insert(words.join(" "), asked(words, store)?);
    }
    Ok(json!({
        "program": env!("CARGO_PKG_VERSION"),
        "formats": formats(),
        "machine": machine(store),
        "files": files(store),
        "commands": said,
    }))
}

/// What a command of this program says of the store.
fn asked(words: &[&str], store: &Path) -> Result<Value> {
    let program =
        std::env::current_exe().map_err(|error| Error::io("find", "this program", error))?;
    let ran = Command::new(&program)
        .args(words)
        .arg(store)
        .args(["--format", "json", "--quiet"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::io("run", &program.display().to_string(), error))?;
    let out = String::from_utf8_lossy(&ran.stdout);
    let answer = serde_json::from_str::<Value>(&out).unwrap_or(Value::Null);
    let mut errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    if let Some((end, _)) = errors.char_indices().nth(SAID_MAX) {
        errors.truncate(end);
    }
    Ok(
        json!({ "exit_code": ran.status.code(), "answer": without_payloads(answer), "errors": errors }),
    )
}

/// What a host keeps in its snapshots is the host's, and so are the paths of a context, which are its keys.
fn without_payloads(mut answer: Value) -> Value {
    match &mut answer {
        Value::Object(fields) => {
            let is_hosts = |name: &str| {
                ["payload", "message", "path"].iter().any(|beginning| name.starts_with(beginning))
            };
            fields.retain(|name, _| !is_hosts(name));
            for value in fields.values_mut() {
                *value = without_payloads(value.take());
            }
        }
        Value::Array(values) => {
            for value in values {
                *value = without_payloads(value.take());
            }
        }
        _ => {}
    }
    answer
}

/// Versions of files that this program writes and reads.
fn formats() -> Value {
    let rows = FileKind::ALL.iter().map(|(_, _, name, writes, reads)| {
        ((*name).to_owned(), json!({ "writes": writes, "reads_from": reads }))
    });
    Value::Object(rows.collect())
}

fn machine(store: &Path) -> Value {
    let first = |file: &str, key: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key));
        line.map(|line| line.trim_start_matches(key).trim_matches([':', ' ', '\t', '"']).to_owned())
    };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let full = store.canonicalize().unwrap_or_default();
    // The longest folder that the store is in.
    let system = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (folder, kind) = (fields.nth(1)?, fields.next()?);
            full.starts_with(folder).then_some((folder.len(), kind, fields.next()?))
        })
        .max();
    json!({
        "system": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "kernel": first("/proc/sys/kernel/osrelease", ""),
        "distribution": first("/etc/os-release", "PRETTY_NAME="),
        "processor": first("/proc/cpuinfo", "model name"),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": first("/proc/meminfo", "MemTotal"),
        "file_system": system.map(|(_, kind, _)| kind),
        "mount_options": system.map(|(_, _, options)| options),
    })
}

/// Names, lengths and headers of the store's files.
fn files(store: &Path) -> Value {
    let (mut listed, mut others, mut bytes) = (Vec::new(), 0, 0);
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        // One that goes away while we look does not count.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                folders.push(path);
                continue;
            }
            bytes += metadata.len();
            if listed.len() >= FILES_MAX || !metadata.is_file() {
                others += 1;
                continue;
            }
            let name = path.strip_prefix(store).unwrap_or(&path).display().to_string();
            let mut file = json!({ "name": name, "bytes": metadata.len() });
            if let Some((kind, version)) = header(&path) {
                file["kind"] = kind.into();
                file["version"] = version.into();
            }
            listed.push(file);
        }
    }
    json!({ "files": listed, "not_listed": others, "bytes": bytes })
}

fn header(path: &Path) -> Option<(&'static str, u16)> {
    let mut start = [0; LENGTH];
    let mut file = fs::File::open(path).ok()?;
    std::io::Read::read_exact(&mut file, &mut start).ok()?;
    let header = Header::decode("file", &start).ok()?;
    Some((header.kind.name(), header.version))
}
