//! Files that commands make beside stores.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use varvite::{Error, Kind, Result};

/// Writes a file that must not be there: what somebody named by mistake stays what it is, and no half of one is left.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path.display().to_string();
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let detail = format!("{name} is there already: name another file, or remove it");
            return Err(Error::new(Kind::Exists, detail));
        }
        Err(error) => return Err(Error::io("make", &name, error)),
    };
    file.write_all(bytes).map_err(|error| {
        // What failed is told; half of a file is of no use.
        let _ = fs::remove_file(path);
        Error::io("write", &name, error)
    })
}
