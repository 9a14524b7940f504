//! The directory of a pool, bytes to bytes: what number each path has. The fields: `docs/design/js.md`.

use varvite::raw::format::checksum::crc;
use varvite::{Error, Kind, Result};

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Folder,
    File(u32),
}

/// The names of a pool at one moment.
#[derive(Debug, Default)]
pub struct Directory {
    pub generation: u64,
    /// How many bytes it takes of its file; what is behind them is left over from a longer one.
    pub length: usize,
    pub places: Vec<(String, Place)>,
}

const MAGIC: &[u8; 8] = b"VARVPOOL";
const VERSION: u32 = 1;
/// Magic, version, length, generation, count.
const HEAD_BYTES: usize = 8 + 4 + 4 + 8 + 4;
const CHECKSUM_BYTES: usize = 4;
const FOLDER: u32 = u32::MAX;

impl Directory {
    /// No directory is longer: some hundred thousand names.
    pub const BYTES_MAX: u32 = 16 << 20;

    /// The newest whole one of both copies, and which it is; an empty one where both files are empty. `Corrupt` when there
    /// is none, and `Version` when a newer release wrote one.
    pub fn newest(copies: &[Vec<u8>; 2], root: &str) -> Result<(Directory, usize)> {
        let mut found: Option<(Directory, usize)> = None;
        for (number, copy) in copies.iter().enumerate() {
            let Some(directory) = Self::decode(copy, root)? else { continue };
            if found.as_ref().is_none_or(|(it, _)| it.generation < directory.generation) {
                found = Some((directory, number));
            }
        }
        match found {
            Some(found) => Ok(found),
            // The first one that is ever written, to copy 0, may be torn: nothing was durable before it.
            None if copies[1].is_empty() => Ok((Directory::default(), 1)),
            None => {
                Err(Error::corrupt(root, 0, "a whole directory of the pool", "two that are not"))
            }
        }
    }

    /// `None` for bytes that are not a whole directory.
    fn decode(bytes: &[u8], root: &str) -> Result<Option<Directory>> {
        if bytes.len() < HEAD_BYTES || &bytes[..8] != MAGIC {
            return Ok(None);
        }
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (version, length, count) = (number(8), number(12) as usize, number(24));
        if version > VERSION {
            return Err(Error::new(
                Kind::Version,
                format!(
                    "the pool {root} has version {version}, and this release reads {VERSION}: use a newer one"
                ),
            ));
        }
        let Some(end) = length
            .checked_sub(CHECKSUM_BYTES)
            .filter(|&it| it >= HEAD_BYTES && length <= bytes.len())
        else {
            return Ok(None);
        };
        if crc(&bytes[..end]) != number(end) {
            return Ok(None);
        }
        let mut places = Vec::new();
        let mut at = HEAD_BYTES;
        for _ in 0..count {
            let Some(rest) = bytes[..end].get(at..).filter(|it| it.len() >= 6) else {
                return Ok(None);
            };
            let width = usize::from(u16::from_le_bytes([rest[4], rest[5]]));
            let Some(name) = rest.get(6..6 + width) else { return Ok(None) };
            let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
            let place = match number(at) {
                FOLDER => Place::Folder,
                file => Place::File(file),
            };
            places.push((name.to_owned(), place));
            at += 6 + width;
        }
        let generation = u64::from(number(16)) | u64::from(number(20)) << 32;
        Ok(Some(Directory { generation, length, places }))
    }

    /// The bytes of a directory.
    pub fn encode<'a>(
        generation: u64,
        places: impl Iterator<Item = (&'a str, Place)>,
        root: &str,
    ) -> Result<Vec<u8>> {
        let mut bytes = vec![0; HEAD_BYTES];
        let mut count = 0_u32;
        for (path, place) in places {
            let width = u16::try_from(path.len()).map_err(|_| {
                Error::invalid(format!("a path of {} bytes is too long", path.len()))
            })?;
            let number = match place {
                Place::Folder => FOLDER,
                Place::File(number) => number,
            };
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&width.to_le_bytes());
            bytes.extend_from_slice(path.as_bytes());
            count += 1;
        }
        let length =
            u32::try_from(bytes.len() + CHECKSUM_BYTES).ok().filter(|&it| it <= Self::BYTES_MAX);
        let length =
            length.ok_or_else(|| Error::invalid(format!("the pool {root} has too many names")))?;
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..24].copy_from_slice(&generation.to_le_bytes());
        bytes[24..28].copy_from_slice(&count.to_le_bytes());
        let checksum = crc(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        Ok(bytes)
    }
}
