//! The first 32 bytes of every file: what it is, which version wrote it, which file it is.
//!
//! Format document: `docs/format/header.md`.

use super::checksum::{crc, stored};
use super::codec::{Decoder, Encoder};
use crate::error::{Error, Kind, Result};

/// Length of the header in bytes.
pub const LENGTH: usize = 32;

const MAGIC: [u8; 7] = *b"varvite";

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// `b'S'`: what a session is: its identity and salt.
    Session,
    /// `b'R'`: one segment of a run.
    Segment,
    /// `b'B'`: large values of tables.
    Blob,
    /// `b'M'`: the manifest of a snapshot.
    Snapshot,
    /// `b'P'`: one chunk of a context's pack.
    Pack,
    /// `b'C'`: what a context store is made of now.
    Control,
    /// `b'L'`: one file of a session's log.
    Log,
    /// `b'K'`: a session's checkpoint: its live tables.
    Checkpoint,
    /// `b'H'`: what a collection kept of one chunk of a context's pack.
    Sparse,
    /// `b'X'`: one commit of a context, to be imported elsewhere.
    ContextSnapshot,
    /// `b'I'`: how far an import into a context is.
    ImportState,
    /// `b'T'`: calls of a host, to be replayed.
    Trace,
}

impl FileKind {
    /// Every kind with its letter, its name, the version that this release writes, and the oldest that it
    /// reads.
    pub const ALL: [(FileKind, u8, &'static str, u16, u16); 12] = [
        (FileKind::Session, b'S', "session", 2, 2),
        (FileKind::Segment, b'R', "segment", 4, 2),
        (FileKind::Blob, b'B', "blob", 2, 2),
        (FileKind::Snapshot, b'M', "snapshot", 2, 2),
        (FileKind::Pack, b'P', "pack", 2, 2),
        (FileKind::Control, b'C', "control", 3, 2),
        (FileKind::Log, b'L', "log", 2, 2),
        (FileKind::Checkpoint, b'K', "checkpoint", 3, 2),
        (FileKind::Sparse, b'H', "sparse", 1, 1),
        (FileKind::ContextSnapshot, b'X', "context snapshot", 1, 1),
        (FileKind::ImportState, b'I', "import state", 1, 1),
        (FileKind::Trace, b'T', "trace", 2, 2),
    ];

    fn row(self) -> (FileKind, u8, &'static str, u16, u16) {
        *Self::ALL.iter().find(|row| row.0 == self).expect("every kind has a row")
    }

    /// The kind's name, as `varvite inspect` prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The version that this release writes.
    #[must_use]
    pub fn version(self) -> u16 {
        self.row().3
    }
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the file holds.
    pub kind: FileKind,
    /// The version of its format.
    pub version: u16,
    /// The file's identity, mixed into its checksums.
    pub identity: u64,
    /// The store that the file was made in.
    pub store: u64,
}

impl Header {
    /// A header of this release's version.
    #[must_use]
    pub fn new(kind: FileKind, identity: u64, store: u64) -> Self {
        Header { kind, version: kind.version(), identity, store }
    }

    /// The 32 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = self.kind.row().1;
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.identity.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.store.to_le_bytes());
        let checksum = stored(&bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the header of `file`, whatever its kind. `Invalid` when it is no file of ours,
    /// `Corrupt` when it is cut or a checksum is wrong, `Version` when it is newer than this release or
    /// of a development version before it.
    pub fn decode(file: &str, bytes: &[u8]) -> Result<Header> {
        let begins = bytes.len().min(MAGIC.len());
        if begins == 0 || (bytes[..begins] != MAGIC[..begins] && !lost_magic(bytes)) {
            let what = "is not a varvite file: it does not begin with \"varvite\"";
            return Err(Error::of_file(Kind::Invalid, file, what));
        }
        if bytes.len() < LENGTH {
            let length = bytes.len() as u64;
            return Err(Error::corrupt(file, length, "a header of 32 bytes", "the end"));
        }
        if bytes[..MAGIC.len()] != MAGIC {
            return Err(Error::corrupt(file, 0, "\"varvite\"", "other bytes"));
        }
        let mut decoder = Decoder::new(file, 28, &bytes[28..LENGTH]);
        let expected = stored(&bytes[..28]);
        let found = decoder.u32()?;
        // Version 1 did not mask its checksums.
        let is_first = found == crc(&bytes[..28]) && bytes[8..10] == [1, 0];
        if found != expected && !is_first {
            return Err(Error::corrupt(
                file,
                28,
                format_args!("header checksum {expected:08x}"),
                format_args!("{found:08x}"),
            ));
        }
        let row = FileKind::ALL.iter().find(|row| row.1 == bytes[7]).ok_or_else(|| {
            let kind = bytes[7] as char;
            let what = format!("is of kind {kind:?}, which this release does not know: {NEWER}");
            Error::of_file(Kind::Version, file, what).advising(NEWER)
        })?;
        let mut decoder = Decoder::new(file, 8, &bytes[8..28]);
        let version = decoder.u16()?;
        let reserved = decoder.u16()?;
        if (1..row.4).contains(&version) && reserved == 0 {
            return Err(too_old(file, row.0, version));
        }
        if !(row.4..=row.3).contains(&version) || reserved != 0 {
            let (name, read) = (row.2, versions(row.0));
            let what =
                format!("is a {name} of version {version}; this release reads {read}: {NEWER}");
            return Err(Error::of_file(Kind::Version, file, what).advising(NEWER));
        }
        Ok(Header { kind: row.0, version, identity: decoder.u64()?, store: decoder.u64()? })
    }

    /// Whether `bytes`, a header that is damaged, may be that of the file with `identity` in `store`: one of the two is there.
    pub(crate) fn resembles(bytes: &[u8; LENGTH], identity: u64, store: u64) -> bool {
        bytes[12..20] == identity.to_le_bytes() || bytes[20..28] == store.to_le_bytes()
    }

    /// Decodes the header of `file` and checks that it is a `kind`; `Invalid` when it is another.
    /// A file that is empty was ours if its name says so, and is `Corrupt`.
    pub fn expect(file: &str, bytes: &[u8], kind: FileKind) -> Result<Header> {
        if bytes.is_empty() {
            return Err(Error::corrupt(file, 0, "a header of 32 bytes", "the end"));
        }
        let header = Self::decode(file, bytes)?;
        if header.kind == kind {
            return Ok(header);
        }
        let (found, needed) = (header.kind.name(), kind.name());
        let what = format!("is a {found}, where a {needed} is needed");
        Err(Error::of_file(Kind::Invalid, file, what))
    }
}

/// What to do about a file of a release to come.
const NEWER: &str = "use a newer release";

/// Which versions this release reads, for a message.
fn versions(kind: FileKind) -> String {
    let (.., newest, oldest) = kind.row();
    if oldest == newest {
        return format!("version {newest}");
    }
    format!("versions {oldest} to {newest}")
}

/// `Version` for a file of a development version before this one, with the way out.
fn too_old(file: &str, kind: FileKind, version: u16) -> Error {
    let way_out = match kind {
        FileKind::Pack | FileKind::Control => {
            "make the context again with this release, with `varvite replay` or `varvite context migrate`"
        }
        FileKind::Trace => {
            "record it again with this release, or read it with the version that wrote it"
        }
        _ => {
            "dump each table with the version that wrote it (`varvite table dump`), and load what it \
             printed with this one (`varvite table load`)"
        }
    };
    let (name, read) = (kind.name(), versions(kind));
    let what = format!(
        "is a {name} of version {version}, which an earlier development version wrote; this release reads {read}: \
         {way_out}"
    );
    Error::of_file(Kind::Version, file, what).advising(way_out)
}

/// Whether this is a header of ours but for its first bytes: the checksum is right with them.
fn lost_magic(bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk::<LENGTH>() else { return false };
    let mut whole = *bytes;
    whole[..MAGIC.len()].copy_from_slice(&MAGIC);
    stored(&whole[..28]).to_le_bytes() == whole[28..]
}

/// The bytes of a small file: what was encoded, and behind it the checksum of all of it.
#[must_use]
pub fn finish_with_checksum(mut to: Encoder) -> Vec<u8> {
    let checksum = stored(to.bytes());
    to.u32(checksum);
    to.finish()
}

/// A decoder of what stands between the header and the checksum at the end of `file`; `Corrupt` when
/// the checksum, which errors call `name`, is wrong. The header was decoded before.
pub fn checked_body<'a>(file: &'a str, bytes: &'a [u8], name: &str) -> Result<Decoder<'a>> {
    let end = bytes.len().saturating_sub(4).max(LENGTH);
    let found = Decoder::new(file, end as u64, &bytes[end..]).u32()?;
    let expected = stored(&bytes[..end]);
    if found != expected {
        return Err(Error::corrupt(
            file,
            end as u64,
            format_args!("{name} {expected:08x}"),
            format_args!("{found:08x}"),
        ));
    }
    Ok(Decoder::new(file, LENGTH as u64, &bytes[LENGTH..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_every_flipped_bit_is_noticed() {
        for (kind, ..) in FileKind::ALL {
            let header = Header::new(kind, 0x0123_4567_89ab_cdef, 42);
            let bytes = header.encode();
            assert_eq!(Header::decode("f", &bytes).unwrap(), header);
            for bit in 0..LENGTH * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                let error = Header::decode("f", &damaged).unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt, "bit {bit}");
            }
            for length in 0..LENGTH {
                let error = Header::expect("f", &bytes[..length], kind).unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt, "{length} bytes");
            }
            let letter = *b"Dear reader, this is a letter of more than thirty-two bytes.";
            for length in [1, 31, 32, letter.len()] {
                let error = Header::expect("f", &letter[..length], kind).unwrap_err();
                assert_eq!(error.kind(), Kind::Invalid, "{length} bytes");
            }
        }
    }
}
