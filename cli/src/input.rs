//! What commands read besides stores: files and standard input.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use varvite::{Error, Result};

use crate::advice::CHECK;
use crate::wheel;

/// Bytes read from an input at once.
const READ_BYTES: usize = 256 << 10;

/// The file at `path`, or standard input, with its name for errors.
pub fn open(path: &Path) -> Result<(String, Box<dyn BufRead>)> {
    if path.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            wheel::stop(); // somebody types
        }
        let input = BufReader::with_capacity(READ_BYTES, io::stdin());
        return Ok(("standard input".to_owned(), Box::new(input)));
    }
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|error| unreadable(&name, error).context(format!("opening {name}")))?;
    Ok((name, Box::new(BufReader::with_capacity(READ_BYTES, file))))
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
