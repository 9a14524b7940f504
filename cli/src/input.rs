//! What commands read besides stores: files and standard input.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use varvite::{Error, Kind, Result};

use crate::advice::CHECK;
use crate::print;
use crate::wheel;

/// Standard input was opened by a command, which may have read more of it than it took.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether a command has taken standard input, so that nobody else knows what of it is left.
pub fn is_taken() -> bool {
    IS_TAKEN.load(Ordering::Relaxed)
}

/// Bytes read from an input at once.
const READ_BYTES: usize = 256 << 10;

/// The file at `path`, or standard input, with its name for errors.
pub fn open(path: &Path) -> Result<(String, Box<dyn BufRead>)> {
    if path.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            wheel::stop(); // somebody types
        }
        IS_TAKEN.store(true, Ordering::Relaxed);
        let input = BufReader::with_capacity(READ_BYTES, io::stdin());
        return Ok(("standard input".to_owned(), Box::new(input)));
    }
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|error| unreadable(&name, error).context(format!("opening {name}")))?;
    Ok((name, Box::new(BufReader::with_capacity(READ_BYTES, file))))
}

/// Bytes of a line at most: what has no line ends takes no more memory than this.
const LINE_BYTES_MAX: usize = 256 << 20;

/// Why the input that messages call `name` cannot be read.
pub fn failed(name: &str, error: &io::Error) -> Error {
    Error::new(Kind::Io, format!("reading {name}: {error}"))
}

/// Reads line `number` of the input that messages call `name` behind what is in `line`, with its end; 0 at the end of
/// the input.
pub fn line(
    input: &mut dyn BufRead,
    (name, number): (&str, u64),
    line: &mut Vec<u8>,
) -> Result<usize> {
    line_up_to(LINE_BYTES_MAX, input, (name, number), line)
}

/// The same of a line of at most so many bytes. Memory is taken as they arrive, and where there is none left, that is an
/// error.
pub fn line_up_to(
    most: usize,
    input: &mut dyn BufRead,
    (name, number): (&str, u64),
    line: &mut Vec<u8>,
) -> Result<usize> {
    let before = line.len();
    loop {
        let bytes = input.fill_buf().map_err(|error| failed(name, &error))?;
        let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let length = end.unwrap_or(bytes.len());
        let read = line.len() - before;
        if read + length > most {
            let most = print::bytes(most as u64);
            return Err(Error::invalid(format!("line {number} of {name} is longer than {most}")));
        }
        if line.try_reserve(length).is_err() {
            let read = print::bytes((read + length) as u64);
            let detail = format!(
                "line {number} of {name} is longer than there is memory for: {read} are read"
            );
            return Err(Error::invalid(detail));
        }
        line.extend_from_slice(&bytes[..length]);
        input.consume(length);
        if end.is_some() || length == 0 {
            return Ok(line.len() - before);
        }
    }
}

/// The same of text, without the end; `None` at the end of the input.
pub fn text_line<'a>(
    input: &mut dyn BufRead,
    (name, number): (&str, u64),
    bytes: &'a mut Vec<u8>,
) -> Result<Option<&'a str>> {
    bytes.clear();
    if line(input, (name, number), bytes)? == 0 {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::new(Kind::Corrupt, format!("line {number} of {name} is not UTF-8")))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(Some(text.strip_suffix('\r').unwrap_or(text)))
}

/// An error of line `number` of the input that messages call `name`: what cannot be read there is damage of the input,
/// and not an argument that somebody typed.
pub fn in_line((name, number): (&str, u64), error: &Error) -> Error {
    Error::new(Kind::Corrupt, format!("{name}, line {number}: {}", error.detail()))
}

/// An error of what line `number` of the input that messages call `name` asks for, and cannot be done: as its kind says.
pub fn at_line((name, number): (&str, u64), error: Error) -> Error {
    match error.kind() {
        Kind::Invalid => error.context(format!("{name}, line {number}")),
        // That is no matter of the line.
        _ => error,
    }
}

/// The bytes of a file that messages call `name`.
pub fn read(file: &Path, name: &str) -> Result<Vec<u8>> {
    if file.is_dir() {
        return Err(Error::invalid(format!(
            "{name} is a folder: give one of its files, or use {CHECK} for a whole store"
        )));
    }
    expect_an_end(file, name)?;
    fs::read(file).map_err(|error| unreadable(name, error))
}

/// `Invalid` when the file that messages call `name` is a device, `Missing` when there is none.
fn expect_an_end(file: &Path, name: &str) -> Result<()> {
    let metadata = fs::metadata(file).map_err(|error| unreadable(name, error))?;
    if is_device(&metadata) {
        return Err(Error::invalid(format!(
            "{name} is a device, which may have no end: give a file, or a pipe from one"
        )));
    }
    Ok(())
}

/// The first eight bytes of a file, which say what it is; fewer when there are no more. A pipe, of which they would be
/// gone, has none.
pub fn start(file: &Path) -> Result<Vec<u8>> {
    let name = file.display().to_string();
    expect_an_end(file, &name)?;
    let mut bytes = Vec::new();
    if file.is_file() {
        let read = File::open(file).and_then(|file| file.take(8).read_to_end(&mut bytes));
        read.map_err(|error| unreadable(&name, error))?;
    }
    Ok(bytes)
}

fn is_device(metadata: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = metadata.file_type();
        kind.is_char_device() || kind.is_block_device()
    }
    #[cfg(not(unix))]
    {
        !metadata.is_file()
    }
}

/// Why the file that messages call `name` cannot be read.
fn unreadable(name: &str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::missing(format!("there is no file {name}")),
        _ => Error::io("read", name, error),
    }
}

/// Errors of a file that is no part of a store name it as the user did, and advise `instead` of a check of the store.
pub fn apart(file: &Path, error: Error, instead: &str) -> Error {
    // An error of another file is not changed.
    if !error.file().is_some_and(|name| is_named(file, name)) {
        return error;
    }
    let error = error.with_file(&file.display().to_string());
    // Where a disk is full, or a newer release wrote it, another copy is no help.
    if error.kind() == Kind::Corrupt { error.with_advice(instead) } else { error }
}

/// Whether an error that names `name` is of `file`: the disk of its folder calls it by its name alone, or with the
/// folder before it.
fn is_named(file: &Path, name: &str) -> bool {
    let plain = |path: &Path| path.strip_prefix(".").unwrap_or(path).to_owned();
    let name = plain(Path::new(name));
    name == plain(file) || file.file_name().is_some_and(|own| name == Path::new(own))
}

/// The text of `path`, unpacked if it is gzipped.
pub fn read_text(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| unreadable(&name, error))?;
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .map_err(|error| Error::io("unpack", &name, error))?;
        return Ok(text);
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid(format!("{name} is not text: give a vector file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_file_is_told_as_the_user_named_it_and_one_of_another_as_it_is() {
        let told = |error| apart(Path::new("in/a.snap"), error, "take another copy").to_string();
        for name in ["a.snap", "in/a.snap", "./in/a.snap"] {
            assert_eq!(
                told(Error::corrupt(name, 7, "a", "b")),
                "in/a.snap is damaged at byte 7: expected a, found b; take another copy"
            );
        }
        let other = || Error::corrupt("out/a.snap", 7, "in/a.snap", "a.snap");
        assert_eq!(told(other()), other().to_string());
        let plain = || Error::invalid(format!("a.snap is no good; run {CHECK}"));
        assert_eq!(told(plain()), plain().to_string());
    }

    #[test]
    fn input_without_an_end_takes_no_more_memory_than_a_line_may() {
        let mut input = BufReader::new(io::repeat(b'x'));
        let mut bytes = Vec::new();
        let refused = line(&mut input, ("it", 1), &mut bytes).unwrap_err();
        assert!(refused.detail().contains("line 1 of it is longer than 256.0 MiB"), "{refused}");
        let mut input = &b"a\r\n\nlast"[..];
        let mut lines = Vec::new();
        while let Some(line) = text_line(&mut input, ("it", 1), &mut bytes).unwrap() {
            lines.push(line.to_owned());
        }
        assert_eq!(lines, ["a", "", "last"]);
    }
}
