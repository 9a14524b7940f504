//! `varvite doctor`: one file about a store, for a report of a fault; without what the store holds.
//!
//! It asks the program's own commands, each in a process of its own, so that one that breaks down is a finding
//! and not the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Map, Value, json};
use varvite::context::Options;
use varvite::irmin_pack as irmin;
use varvite::raw::format::header::{FileKind, Header, LENGTH};
use varvite::{Error, MergeOperator, Result, SessionOptions, Table};

use super::explore::open_tables;
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::store::context::{Folder, Foreign};
use crate::store::folder;
use crate::system::files;
use crate::text::put_name;

/// Gather what a report of a fault needs in one file: versions, statistics, checks, last errors; no contents
///
/// Never writes to the store. Names of tables, snapshots and branches are in it; keys, values, paths of a context, folders, and
/// the names of files that are not the store's are not: sentences about damage name files and offsets. Exit code 3 when
/// something is damaged, or a command broke down.
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
    /// Say the options alone: the report asks for them so, in a process of its own
    #[arg(long, hide = true)]
    only_options: bool,
    #[command(flatten)]
    foreign: Foreign,
}

/// Files that are described one by one; the others are counted.
const FILES_MAX: usize = 2_000;

/// Characters of what a command says on standard error.
const SAID_MAX: usize = 4_000;

/// Tables that are described one by one.
const TABLES_MAX: usize = 32;

/// Gathers and writes the report.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    folder::disk(&arguments.store)?;
    if arguments.only_options {
        print::json(&options(arguments)?)?;
        return Ok(Verdict::Yes);
    }
    let report = gathered(arguments)?;
    let is_broken = report["broken"].as_array().is_some_and(|broken| !broken.is_empty());
    let damaged = report["damaged"] == true;
    let verdict = Verdict::sound(!damaged && !is_broken);
    let text = serde_json::to_string_pretty(&report).expect("a report is plain data") + "\n";
    let Some(out) = &arguments.out else {
        match format {
            Format::Json => print::json(&report)?,
            Format::Table => print::line(text.trim_end())?,
        }
        return Ok(verdict);
    };
    let name = out.display().to_string();
    files::write_new(out, text.as_bytes())?;
    if format == Format::Json {
        let mut said = json!({ "bytes": text.len(), "damaged": damaged });
        put_name(&mut said, "written", out.as_os_str());
        print::json(&said)?;
    } else {
        print::line(&format!(
            "{name}: {}, send it with the report",
            print::bytes(text.len() as u64)
        ))?;
    }
    Ok(verdict)
}

fn gathered(arguments: &Arguments) -> Result<Value> {
    let Arguments { store, quick, foreign, .. } = arguments;
    let shown = store.display().to_string();
    // Sentences begin with it, so that it can be told from all else and left out.
    let full = store.canonicalize().map_err(|error| Error::io("find", &shown, error))?;
    let asking = Asking { folder: full.display().to_string(), full, foreign: foreign.absolute()? };
    let is_context = folder::is_context(&asking.full);
    if foreign.lower().is_some() && !is_context {
        let detail = "is no context of varvite, so --lower is of none: leave it out";
        return Err(Error::invalid(format!("{shown} {detail}")));
    }
    if !irmin::is_store(&*folder::disk(store)?)? {
        foreign.expect_no_shape(store)?;
    }
    if let Some(lower) = foreign.lower() {
        folder::expect_lower(store, lower)?;
    }
    let mut said = Map::new();
    let mut ask = |words: &[&str], name: Option<&str>| {
        let answer = asking.asked(words, name)?;
        let key = words.iter().copied().chain(name).collect::<Vec<_>>().join(" ");
        Ok::<_, Error>(said.entry(key).or_insert(answer).clone())
    };
    let info = ask(&["info"], None)?;
    if info["answer"]["found"] == false {
        return Err(Error::missing(format!(
            "{shown} is no store, and has none in it: give the folder of a store"
        )));
    }
    // Of a folder of stores there is nothing else to say than which ones it has.
    let is_store = !info["answer"]["stores"].is_array();
    if is_context {
        ask(&["context", "stat"], None)?;
        // Old commits alone are never collected.
        if !folder::is_lower(&asking.full) {
            ask(&["context", "collect", "status"], None)?;
        }
    } else if is_store && info["answer"]["kind"] != "irmin" {
        let tables = ask(&["table", "list"], None)?;
        ask(&["table", "snapshot", "list"], None)?;
        ask(&["table", "merge", "status"], None)?;
        let tables = tables["answer"]["tables"].as_array().cloned().unwrap_or_default();
        for name in tables.iter().filter_map(|table| table["name"].as_str()).take(TABLES_MAX) {
            ask(&["table", "stat"], Some(name))?;
        }
    }
    if is_store && !folder::is_lower(&asking.full) {
        ask(&["doctor", "--only-options"], None)?;
    }
    if !*quick && is_store {
        ask(&["check"], None)?;
    }
    let damaged = said.values().any(|command| command["exit_code"] == 3);
    // What was killed, or panicked, has another status than those that commands end with. A file that is missing, or that the
    // disk does not read, keeps a command from its answer.
    let unread = |command: &Value| {
        let kind = command["answer"]["error"]["kind"].as_str();
        command["exit_code"] == 2 && kind.is_some_and(|kind| ["missing", "io"].contains(&kind))
    };
    let ended = |command: &Value| {
        command["exit_code"].as_i64().is_some_and(|it| it <= 3) && !unread(command)
    };
    let broken: Vec<_> = said.iter().filter(|it| !ended(it.1)).map(|it| it.0.clone()).collect();
    Ok(json!({
        "program": env!("CARGO_PKG_VERSION"),
        "formats": formats(),
        "machine": machine(&asking.full),
        "files": files(&asking.full),
        "commands": said,
        "damaged": damaged,
        "broken": broken,
    }))
}

/// What the store was made with; and what this program takes for all that a host says each time it opens one, which no store
/// keeps.
fn options(arguments: &Arguments) -> Result<Value> {
    let Arguments { store, foreign, .. } = arguments;
    let is_tables = !folder::is_context(store) && store.join("session").exists();
    if is_tables {
        let opened = open_tables(store, None)?;
        let tables: Vec<_> = opened.tables.iter().take(TABLES_MAX).map(table_options).collect();
        let usual = SessionOptions::default();
        return Ok(json!({
            "tables": tables, "of": opened.place,
            "usual": {
                "log": format!("{:?}", usual.log), "log_file_bytes": usual.log_file_bytes, "segment_bytes": usual.segment_bytes,
                "max_open_files": usual.max_open_files,
            },
        }));
    }
    let folder = Folder { store: store.clone(), foreign: foreign.clone() };
    let opened = folder.open_with(Options::default())?;
    let (configuration, stats, usual) =
        (opened.configuration(), opened.stats(), Options::default());
    // No file says it, but each commit of ours adds objects where they are found by hash.
    let index = match (stats.commits, stats.objects) {
        (0, _) => None,
        _ if irmin::is_store(&*folder::disk(store)?)? => None,
        (_, 0) => Some("minimal"),
        _ => Some("always"),
    };
    Ok(json!({
        "context": {
            "entries": configuration.entries(), "stable_hash": configuration.stable_hash(),
            "child_order": format!("{:?}", configuration.child_order()), "index": index,
        },
        "usual": {
            "objects_bytes": usual.objects_bytes, "hashes_bytes": usual.hashes_bytes,
            "hashes_file_bytes": usual.hashes_file_bytes, "pages_bytes": usual.pages_bytes,
            "index_bytes": usual.index_bytes, "tree_bytes": usual.tree_bytes,
            "chunk_bytes": usual.chunk_bytes, "durability": format!("{:?}", usual.durability),
            "max_open_files": usual.max_open_files,
        },
    }))
}

fn table_options(table: &Table) -> Value {
    let options = table.options();
    json!({
        "name": table.name(), "write_buffer_bytes": options.write_buffer_bytes,
        "size_ratio": options.size_ratio, "lookups": format!("{:?}", options.lookups),
        "filter_bits": options.filter_bits, "filter_bytes_max": options.filter_bytes_max,
        "blob_min_bytes": options.blob_min_bytes, "compression": format!("{:?}", options.compression),
        "operator": options.operator.as_ref().map(MergeOperator::name),
    })
}

/// Asks commands of this program about a store.
struct Asking {
    full: PathBuf,
    /// The same as sentences have it.
    folder: String,
    /// What commands for contexts are told besides.
    foreign: Foreign,
}

impl Asking {
    /// What a command says of the store.
    fn asked(&self, words: &[&str], name: Option<&str>) -> Result<Value> {
        let program =
            std::env::current_exe().map_err(|error| Error::io("find", "this program", error))?;
        let besides = if words[0] == "table" { Vec::new() } else { self.foreign.arguments() };
        let ran = Command::new(&program)
            .args(words)
            .args(besides)
            .args(["--format", "json", "--quiet", "--"])
            .arg(&self.full)
            .args(name)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Error::io("run", &program.display().to_string(), error))?;
        let out = String::from_utf8_lossy(&ran.stdout);
        let mut answer = serde_json::from_str::<Value>(&out).unwrap_or(Value::Null);
        self.clean(&mut answer);
        let mut errors = self.without_folder(&String::from_utf8_lossy(&ran.stderr));
        if let Some((end, _)) = errors.char_indices().nth(SAID_MAX) {
            errors.truncate(end);
        }
        Ok(json!({ "exit_code": ran.status.code(), "answer": answer, "errors": errors }))
    }

    /// Where the store is, and so who has it, is nobody's business.
    fn without_folder(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(lower) = self.foreign.lower() {
            text = text.replace(&lower.display().to_string(), "LOWER");
        }
        if self.folder.len() > 1 { text.replace(&self.folder, "STORE") } else { text }
    }

    /// What a host keeps in its snapshots is the host's, and paths of a context are its keys.
    fn clean(&self, answer: &mut Value) {
        match answer {
            Value::Object(fields) => {
                fields.retain(|name, _| !is_content(name));
                fields.values_mut().for_each(|value| self.clean(value));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.clean(value)),
            Value::String(text) => *text = self.without_folder(text),
            _ => {}
        }
    }
}

/// Whether a field of an answer has what a host wrote.
fn is_content(field: &str) -> bool {
    ["payload", "message", "path"].iter().any(|beginning| field.starts_with(beginning))
        || ["author", "key", "value"].contains(&field)
        || is_place(field)
}

/// Whether a field has the bytes of a path, in which a folder that is left out elsewhere would still be read.
fn is_place(field: &str) -> bool {
    ["folder_hex", "store_hex", "written_hex", "file_hex"].contains(&field)
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
    let system = mounted(&mounts, store);
    json!({
        "system": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "kernel": first("/proc/sys/kernel/osrelease", ""),
        "distribution": first("/etc/os-release", "PRETTY_NAME="),
        "processor": first("/proc/cpuinfo", "model name"),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": first("/proc/meminfo", "MemTotal"),
        "file_system": system.map(|(kind, _)| kind),
        "mount_options": system.map(|(_, options)| mount_options(options)),
    })
}

/// The kind and the options of the file system that `folder` is on: of the longest folder that it is in, and of several
/// that were mounted there the last.
fn mounted<'a>(mounts: &'a str, folder: &Path) -> Option<(&'a str, &'a str)> {
    let within = mounts.lines().enumerate().filter_map(|(at, line)| {
        let mut fields = line.split(' ');
        let (place, kind) = (unescaped(fields.nth(1)?), fields.next()?);
        let options = fields.next()?;
        folder.starts_with(&place).then_some((place.as_os_str().len(), at, kind, options))
    });
    within
        .max_by_key(|(length, at, ..)| (*length, *at))
        .map(|(_, _, kind, options)| (kind, options))
}

/// A folder of the list of mounts, in which blanks are octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).and_then(|it| std::str::from_utf8(it).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = code.filter(|_| bytes[at] == b'\\') {
            out.push(byte);
            at += 4;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    of_bytes(out)
}

#[cfg(unix)]
fn of_bytes(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes))
}

#[cfg(not(unix))]
fn of_bytes(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

/// Options of a mount that say how it behaves. Others may have names of users, hosts and folders.
const MOUNT_OPTIONS: [&str; 36] = [
    "rw",
    "ro",
    "relatime",
    "noatime",
    "strictatime",
    "lazytime",
    "nodiratime",
    "sync",
    "async",
    "dirsync",
    "discard",
    "nodiscard",
    "barrier",
    "nobarrier",
    "data",
    "commit",
    "delalloc",
    "nodelalloc",
    "errors",
    "journal_checksum",
    "journal_async_commit",
    "compress",
    "compress-force",
    "ssd",
    "nodatacow",
    "nodatasum",
    "dax",
    "inode64",
    "logbsize",
    "hard",
    "soft",
    "vers",
    "cache",
    "nobrl",
    "nolock",
    "size",
];

/// The options that say how a mount behaves, and how many others there are.
fn mount_options(options: &str) -> String {
    let name = |option: &&str| MOUNT_OPTIONS.contains(&option.split('=').next().unwrap_or(""));
    let (known, others): (Vec<_>, Vec<_>) = options.split(',').partition(name);
    let others = (!others.is_empty()).then(|| format!("and {} more", others.len()));
    known.into_iter().map(str::to_owned).chain(others).collect::<Vec<_>>().join(",")
}

/// Names, lengths and headers of the store's files; how many others there are.
fn files(store: &Path) -> Value {
    let (mut listed, mut not_listed, mut others, mut bytes) = (Vec::new(), 0, 0, 0);
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
            let known = if metadata.is_file() { header(&path) } else { None };
            let name = path.strip_prefix(store).unwrap_or(&path);
            if known.is_none() && !is_own(name) {
                others += 1;
                continue;
            }
            if listed.len() >= FILES_MAX {
                not_listed += 1;
                continue;
            }
            let mut file = json!({ "name": name.display().to_string(), "bytes": metadata.len() });
            if let Some((kind, version)) = known {
                file["kind"] = kind.into();
                file["version"] = version.into();
            }
            listed.push(file);
        }
    }
    json!({ "files": listed, "not_listed": not_listed, "others": others, "bytes": bytes })
}

/// Whether a file that does not say so has a name as stores give them.
fn is_own(name: &Path) -> bool {
    const NAMES: [&str; 6] = ["lock", "session", "control", "checkpoint", "log", "reserve"];
    const ENDINGS: [&str; 14] = [
        "segment", "blob", "snapshot", "saved", "pack", "log", "sparse", "prefix", "suffix",
        "mapping", "control", "dict", "branches", "volume",
    ];
    let is_one = |part: Option<&std::ffi::OsStr>, of: &[&str]| {
        part.and_then(|part| part.to_str()).is_some_and(|part| of.contains(&part))
    };
    is_one(name.file_name(), &NAMES) || is_one(name.extension(), &ENDINGS)
}

fn header(path: &Path) -> Option<(&'static str, u16)> {
    let mut start = [0; LENGTH];
    let mut file = fs::File::open(path).ok()?;
    std::io::Read::read_exact(&mut file, &mut start).ok()?;
    let header = Header::decode("file", &start).ok()?;
    Some((header.kind.name(), header.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_mounts_have_no_names_of_people_hosts_and_folders() {
        let options = "rw,noatime,vers=3.1.1,username=alice,domain=CORP,addr=10.0.0.7,data=ordered";
        assert_eq!(mount_options(options), "rw,noatime,vers=3.1.1,data=ordered,and 3 more");
        assert_eq!(mount_options("lowerdir=/srv/alice/a,upperdir=/b"), "and 2 more");
        assert_eq!(mount_options("ro"), "ro");
    }

    #[test]
    fn a_folder_is_on_the_last_mount_of_the_nearest_place() {
        let mounts = "/dev/a / ext4 rw 0 0\n/dev/b /mnt/my\\040disk xfs rw 0 0\n\
                      /dev/c /mnt/my\\040disk btrfs ro 0 0\n/dev/d /mnt/m ext2 rw 0 0\nodd\n";
        let of = |folder: &str| mounted(mounts, Path::new(folder));
        assert_eq!(of("/mnt/my disk/S"), Some(("btrfs", "ro")));
        assert_eq!(of("/mnt/my"), Some(("ext4", "rw")));
        assert_eq!(mounted("", Path::new("/")), None);
    }

    #[test]
    fn names_of_strangers_files_are_none_of_a_stores() {
        for own in ["lock", "segments/0000000000000001.segment", "0000-000000.pack", "store.dict"] {
            assert!(is_own(Path::new(own)), "{own}");
        }
        for other in ["notes/customer-x.pdf", "a", "pack", "key"] {
            assert!(!is_own(Path::new(other)), "{other}");
        }
    }
}
