//! Describes what every file of ours begins with.

use crate::format::header::{self, Header};
use crate::outline::Outline;

/// The outline of the first 32 bytes of any file of ours.
#[must_use]
pub fn header(file: &str, bytes: &[u8]) -> Outline {
    let outline = Outline::new("header", 0..bytes.len().min(header::LENGTH) as u64);
    if bytes.len() < header::LENGTH {
        return outline.damaged("the file ends inside the header");
    }
    match Header::decode(file, bytes) {
        Ok(header) => outline
            .field("kind", header.kind.name())
            .field("version", header.version)
            .field("identity", format_args!("{:016x}", header.identity))
            .field("store", format_args!("{:016x}", header.store)),
        Err(error) => outline.damaged(error),
    }
}
