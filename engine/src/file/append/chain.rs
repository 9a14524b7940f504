//! Whether records follow one another as they were written, for whoever needs none of them.

use super::{HEAD, Head, Position, SCAN_BYTES, Window};
use crate::disk::File;
use crate::error::{Error, Result};
use crate::format::checksum::crc_append;

/// Reads the records of `file` up to byte `end`, so far as they were there once; the last has the payload checksum `chain`.
/// `Corrupt` at the first that is not as it was written. Has 256 KiB of them in memory, however long one is.
pub(crate) fn expect_chain(file: &dyn File, identity: u64, end: u64, chain: u32) -> Result<()> {
    let corrupt = |place| Error::corrupt(file.path(), place, "a batch", "none that is whole");
    let mut window = Window::new(file, end);
    let mut next = Position::start();
    while next.offset < end {
        let head = window.head(identity, next.offset)?.ok_or_else(|| corrupt(next.offset))?;
        if head.sequence != next.sequence
            || payload_crc(&mut window, next, &head)? != Some(head.payload_crc)
        {
            return Err(corrupt(next.offset));
        }
        next = Position {
            offset: next.offset + HEAD as u64 + u64::from(head.length),
            sequence: next.sequence + 1,
            chain: head.payload_crc,
        };
    }
    if (next.offset, next.chain) == (end, chain) {
        return Ok(());
    }
    Err(Error::corrupt(file.path(), end, "the end of the last batch", "another"))
}

/// The checksum of the payload of the record at `place`; none when the file ends before.
fn payload_crc(window: &mut Window<'_>, place: Position, head: &Head) -> Result<Option<u32>> {
    let (mut crc, mut at) = (place.chain, place.offset + HEAD as u64);
    let end = at + u64::from(head.length);
    while at < end {
        let bytes = window.at(at, (end - at).min(SCAN_BYTES as u64) as usize)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        crc = crc_append(crc, bytes);
        at += bytes.len() as u64;
    }
    Ok(Some(crc))
}
