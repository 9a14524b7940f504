//! Damage beside damage, readers that have had enough, and files that are larger than memory.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binary::{Ran, command, text, varvite};

/// Far longer than any of these takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// Waits for the end of a program, which must come.
#[track_caller]
fn ended(child: &mut Child, mut meanwhile: impl FnMut(u32)) -> i32 {
    let start = Instant::now();
    loop {
        meanwhile(child.id());
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("no end after {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// What a command says that must end.
#[track_caller]
fn within(folder: &Path, command: &mut Command) -> Ran {
    let [out, err] = ["out", "err"].map(|name| folder.join(name));
    let [to_out, to_err] = [&out, &err].map(|path| fs::File::create(path).unwrap());
    let mut child = command.stdout(to_out).stderr(to_err).spawn().unwrap();
    let code = ended(&mut child, |_| {});
    let [out, err] = [out, err].map(|path| fs::read_to_string(path).unwrap());
    Ran { arguments: Vec::new(), code, out, err }
}

/// The end of a command whose reader takes one line of a long output, and what is on its standard error.
#[track_caller]
fn after_one_line(arguments: &[&str]) -> (i32, String) {
    let mut command = command(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::with_capacity(16, child.stdout.take().unwrap());
    let mut line = Vec::new();
    out.read_until(b'\n', &mut line).unwrap();
    assert!(!line.is_empty());
    drop(out);
    let code = ended(&mut child, |_| {});
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (code, err)
}

/// Changes the byte at `place` behind the start of each of `patterns`, in whichever files in `folder` have it.
fn damage(folder: &Path, patterns: &[Vec<u8>], place: usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let mut from = 0;
        for pattern in patterns {
            let found = bytes[from..].windows(pattern.len()).position(|window| window == pattern);
            if let Some(at) = found {
                from += at;
                bytes[from + place] ^= 1;
            }
        }
        if from > 0 {
            fs::write(&path, bytes).unwrap();
        }
    }
}

#[test]
fn damaged_values_beside_damaged_pages_are_passed_over() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let store = folder.join("s");
    let value = |number: u32| format!("v{number:05}").repeat(30);
    let lines: String =
        (0..600).map(|number| format!("k{number:05}\t{}\n", value(number))).collect();
    fs::write(folder.join("lines"), lines).unwrap();
    let (store, lines) = (text(&store), folder.join("lines"));
    let put = ["table", "put", store, "t", "--from", text(&lines), "--blob-min", "100", "--create"];
    varvite(&put).yes();
    let values: Vec<_> = (100..600).map(|number| value(number).into_bytes()).collect();
    damage(&folder.join("s/segments"), &values, 90);
    let segment = fs::read_dir(folder.join("s/segments")).unwrap().map(|it| it.unwrap().path());
    let segment = segment.min_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    crate::exits::flip(&segment, 4096 + 4096 + 1000);
    let ran = within(folder, &mut command(&["table", "scan", store, "t", "--skip-damaged"]));
    // A page of the file with values is that of some twenty.
    assert!(ran.code == 3 && (70..=100).contains(&ran.out.lines().count()), "{ran:?}");
    let values =
        ran.err.lines().filter(|line| line.starts_with("left out: the value of k")).count();
    let pages = ran.err.lines().filter(|line| line.starts_with("left out: keys after ")).count();
    assert!(pages == 1 && (200..560).contains(&values), "{pages} and {values}");
}

/// A context of which the last value is damaged, with a long list of others before it; the first commit has one.
fn damaged_at_the_end(folder: &Path) -> String {
    let store = folder.join("c");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line = |name: &str, value: &[u8]| {
        format!("{{\"path\": [\"{}\"], \"value\": \"{}\"}}\n", hex(name.as_bytes()), hex(value))
    };
    let mut lines: String =
        (0..6_000).map(|number| line(&format!("name{number:016}"), b"some value")).collect();
    lines += &line("z", &[b'z'; 200]);
    fs::write(folder.join("lines"), lines).unwrap();
    let (store, lines) = (text(&store).to_owned(), folder.join("lines"));
    varvite(&["context", "create", &store]).yes();
    varvite(&["context", "put", &store, "main", "a", "1"]).yes();
    varvite(&["context", "load", &store, "main", text(&lines)]).yes();
    let pack = folder.join("c/0000-000000.pack");
    let bytes = fs::read(&pack).unwrap();
    let at = bytes.windows(200).position(|window| window == [b'z'; 200]).unwrap();
    crate::exits::flip(&pack, at + 100);
    store
}

#[test]
fn a_context_is_read_no_further_than_somebody_listens() {
    let folder = TempDir::new().unwrap();
    let store = damaged_at_the_end(folder.path());
    for (arguments, code) in [
        (&["dump", &store, "main"][..], 0),
        (&["dump", &store, "main", "--format", "csv"], 0),
        (&["tree", &store, "main"], 0),
        (&["tree", &store, "main", "--format", "jsonl"], 0),
        (&["diff", &store, "main~1", "main"], 1),
        (&["diff", &store, "main~1", "main", "--format", "jsonl"], 1),
    ] {
        let arguments = [&["context"], arguments].concat();
        // Whoever reads on meets the damage.
        assert_eq!(varvite(&arguments).code, 3, "{arguments:?}");
        assert_eq!(after_one_line(&arguments), (code, String::new()), "{arguments:?}");
    }
}

/// The end of a command of whose output nobody reads anything.
#[track_caller]
fn unread(arguments: &[&str]) -> i32 {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command(arguments);
    let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    ended(&mut child, |_| {})
}

#[test]
fn an_answer_that_nobody_reads_is_the_exit_code_all_the_same() {
    let folder = TempDir::new().unwrap();
    let [store, context, empty] = ["s", "c", "empty"].map(|name| folder.path().join(name));
    fs::create_dir(&empty).unwrap();
    let [store, context, empty] = [text(&store), text(&context), text(&empty)];
    varvite(&["table", "put", store, "t", "k", "v", "--create"]).yes();
    varvite(&["context", "create", context]).yes();
    varvite(&["context", "put", context, "main", "a", "1"]).yes();
    for format in ["table", "json"] {
        for (words, code) in [
            (&["table", "list", store][..], 0),
            (&["table", "delete", store, "t", "none"], 1),
            (&["context", "ls", context, "main", "none"], 1),
            (&["info", empty], 1),
        ] {
            let words = [words, &["--format", format]].concat();
            assert_eq!(unread(&words), code, "{words:?}");
        }
    }
    let manifest = folder.path().join("s/snapshots/head-0000000001.snapshot");
    crate::exits::flip(&manifest, fs::metadata(&manifest).unwrap().len() as usize / 2);
    for words in [&["table", "snapshot", "list", store][..], &["inspect", text(&manifest)]] {
        assert_eq!(unread(words), 3, "{words:?}");
    }
}

/// A file is described by its first damage where it is too long to be read whole.
#[cfg(target_os = "linux")]
#[test]
fn a_long_file_that_is_damaged_is_checked_in_little_memory() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let (store, file) = (folder.join("s"), folder.join("value"));
    fs::write(&file, vec![b'v'; 1 << 20]).unwrap();
    let (store, value) = (text(&store), text(&file));
    varvite(&["table", "put", store, "t", "--files", "k", value, "--create"]).yes();
    let files = fs::read_dir(folder.join("s/segments")).unwrap().map(|it| it.unwrap().path());
    let blob = files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    // What is behind its end takes no room on the disk.
    fs::File::options().write(true).open(&blob).unwrap().set_len(100 << 20).unwrap();
    for words in [&["check", store][..], &["scrub", store, "--rate", "0"]] {
        let mut command = command(words);
        let said = fs::File::create(folder.join("said")).unwrap();
        let mut child = command.stdout(said).spawn().unwrap();
        let mut peak_kib = 0;
        let code = ended(&mut child, |id| {
            let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            peak_kib = peak_kib.max(kib.unwrap_or_default());
        });
        let out = fs::read_to_string(folder.join("said")).unwrap();
        assert!(code == 3 && out.contains("needed by"), "{code}: {out}");
        assert!((1..64 << 10).contains(&peak_kib), "{peak_kib} KiB: {words:?}");
    }
}
