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

/// Reads a line of the input that messages call `name` behind what is in `line`, with its end; 0 at the end of the
/// input.
pub fn line(input: &mut dyn BufRead, name: &str, line: &mut Vec<u8>) -> Result<usize> {
    let read = input.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', line);
    let read = read.map_err(|error| Error::new(Kind::Io, format!("reading {name}: {error}")))?;
    if read > LINE_BYTES_MAX {
        let most = print::bytes(LINE_BYTES_MAX as u64);
        return Err(Error::invalid(format!("a line of {name} is longer than {most}")));
    }
    Ok(read)
}

/// The same of text, without the end; `None` at the end of the input.
pub fn text_line<'a>(
    input: &mut dyn BufRead,
    name: &str,
    bytes: &'a mut Vec<u8>,
) -> Result<Option<&'a str>> {
    bytes.clear();
    if line(input, name, bytes)? == 0 {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::new(Kind::Corrupt, format!("a line of {name} is not UTF-8")))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(Some(text.strip_suffix('\r').unwrap_or(text)))
}

/// The bytes of a file that messages call `name`.
pub fn read(file: &Path, name: &str) -> Result<Vec<u8>> {
    if file.is_dir() {
        return Err(Error::invalid(format!(
            "{name} is a folder: give one of its files, or use {CHECK} for a whole store"
        )));
    }
    let metadata = fs::metadata(file).map_err(|error| unreadable(name, error))?;
    if is_device(&metadata) {
        return Err(Error::invalid(format!(
            "{name} is a device, which may have no end: give a file, or a pipe from one"
        )));
    }
    fs::read(file).map_err(|error| unreadable(name, error))
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
    fn input_without_an_end_takes_no_more_memory_than_a_line_may() {
        let mut input = BufReader::new(io::repeat(b'x'));
        let mut bytes = Vec::new();
        let refused = line(&mut input, "it", &mut bytes).unwrap_err();
        assert!(refused.detail().contains("longer than 256.0 MiB"), "{refused}");
        let mut input = &b"a\r\n\nlast"[..];
        let mut lines = Vec::new();
        while let Some(line) = text_line(&mut input, "it", &mut bytes).unwrap() {
            lines.push(line.to_owned());
        }
        assert_eq!(lines, ["a", "", "last"]);
    }
}
