//! The control files: `store.control` in versions 3 to 5, and a volume's.
//!
//! They say which bytes of which files belong to the store. Format document:
//! `docs/format/irmin-pack.md`.

use super::bytes;
use crate::context::preimage::{put_u64, put_varint};
use crate::error::{Error, Kind, Result};
use crate::format::codec::Decoder;

/// The most bytes that a control file may have.
pub(crate) const BYTES_MAX: u64 = 4096;

/// Bytes at the start of files of versions 1 and 2, which later versions leave in place.
pub(crate) const HEADER: u64 = 16;

/// What garbage collection left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Address of the first byte that the suffix holds.
    pub(crate) suffix_start: u64,
    /// Part of the names of prefix and mapping.
    pub(crate) generation: u64,
    /// Address of the commit that the last collection was for.
    pub(crate) target: Option<u64>,
    /// Bytes at the start of the first chunk that are no longer live.
    pub(crate) dead_bytes: u64,
    /// Bytes of the mapping, unless all of its file counts.
    pub(crate) mapping_end: Option<u64>,
}

/// What happened to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It was one of version 1 or 2 up to this address; files keep their old header.
    Upgraded(u64),
    /// Nothing yet.
    Fresh,
    /// Objects other than commits were indexed, so nothing may be collected.
    Indexed,
    /// Garbage was collected.
    Collected(Collected),
}

/// What `store.control` says; for versions 1 and 2, which have none, what the headers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// 1 to 5.
    pub(crate) version: u32,
    pub(crate) dict_end: u64,
    /// Valid bytes of the last chunk; of the only one before version 4.
    pub(crate) chunk_end: u64,
    pub(crate) upgraded_from: Option<u64>,
    pub(crate) checksum: Option<u32>,
    pub(crate) chunk_start: u64,
    pub(crate) chunk_count: u64,
    pub(crate) volumes: u64,
    pub(crate) status: Status,
}

/// What a volume's control file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeControl {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) mapping_end: u64,
    pub(crate) checksum: u32,
}

/// Adler-32.
pub(crate) fn adler(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (1u32, 0u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    high << 16 | low
}

/// The version in the eight characters that `decoder` is at.
fn version(decoder: &mut Decoder<'_>) -> Result<u32> {
    let start = decoder.clone();
    let bytes = decoder.raw(8)?;
    let number =
        std::str::from_utf8(bytes).ok().filter(|text| text.bytes().all(|c| c.is_ascii_digit()));
    match number.and_then(|text| text.parse().ok()) {
        Some(number) => Ok(number),
        None => Err(start.corrupt("a version in eight digits", "other bytes")),
    }
}

/// Compares the checksum, stored at byte `place`, with that of the payload without it.
fn check_sum(file: &str, bytes: &[u8], place: usize) -> Result<u32> {
    let mut payload = bytes[8..].to_vec();
    let at = place - 8;
    let stored = u64::from_be_bytes(payload[at..at + 8].try_into().expect("it was read before"));
    payload[at..at + 8].fill(0);
    let expected = adler(&payload);
    if stored == u64::from(expected) {
        return Ok(expected);
    }
    Err(Error::corrupt(
        file,
        place as u64,
        format_args!("checksum {expected:08x}"),
        format_args!("{stored:08x}"),
    ))
}

fn newer(file: &str, version: u32) -> Error {
    Error::new(
        Kind::Version,
        format!("{file} has version {version}: versions 1 to 5 are known, use a newer release"),
    )
}

impl Control {
    /// That of a store whose pack is one file.
    pub(crate) fn of_one_chunk(
        version: u32,
        dict_end: u64,
        chunk_end: u64,
        status: Status,
    ) -> Control {
        Control {
            version,
            dict_end,
            chunk_end,
            upgraded_from: None,
            checksum: None,
            chunk_start: 0,
            chunk_count: 1,
            volumes: 0,
            status,
        }
    }

    /// Reads `store.control`. `Version` for one that is newer than 5.
    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<Control> {
        let mut decoder = Decoder::new(file, 0, bytes);
        let version = version(&mut decoder)?;
        if !(3..=5).contains(&version) {
            return Err(newer(file, version));
        }
        let (dict_end, chunk_end) = (bytes::offset(&mut decoder)?, bytes::offset(&mut decoder)?);
        let mut control = Control::of_one_chunk(version, dict_end, chunk_end, Status::Fresh);
        if version >= 4 {
            if bytes::present(&mut decoder)? {
                control.upgraded_from = Some(if version == 4 { 3 } else { decoder.varint()? });
            }
            let place = decoder.offset() as usize;
            decoder.raw(8)?;
            control.checksum = Some(check_sum(file, bytes, place)?);
            control.chunk_start = decoder.varint()?;
            control.chunk_count = decoder.varint()?;
            if version == 5 {
                control.volumes = decoder.varint()?;
            }
        }
        let start = decoder.clone();
        control.status = Self::status(file, version, &mut decoder)?;
        decoder.finish()?;
        if version == 3
            && let Status::Collected(collected) = &control.status
        {
            control.chunk_start = collected.generation;
        }
        let most = 1 << 32;
        if control.chunk_count == 0 || control.chunk_start.max(control.chunk_count) > most {
            return Err(start.corrupt("some chunks", control.chunk_count));
        }
        Ok(control)
    }

    fn status(file: &str, version: u32, decoder: &mut Decoder<'_>) -> Result<Status> {
        let start = decoder.clone();
        Ok(match decoder.varint()? {
            0 => Status::Upgraded(bytes::offset(decoder)?),
            1 => Status::Fresh,
            2 => Status::Indexed,
            3 => {
                let suffix_start = bytes::offset(decoder)?;
                let generation = decoder.varint()?;
                let mut collected = Collected {
                    suffix_start,
                    generation,
                    target: None,
                    dead_bytes: 0,
                    mapping_end: None,
                };
                if version >= 4 {
                    collected.target = Some(bytes::offset(decoder)?);
                    collected.dead_bytes = bytes::offset(decoder)?;
                }
                if version == 5 && bytes::present(decoder)? {
                    collected.mapping_end = Some(bytes::offset(decoder)?);
                }
                Status::Collected(collected)
            }
            tag @ 4..=18 => {
                return Err(Error::new(
                    Kind::Version,
                    format!(
                        "{file} has status {tag}, which newer versions of Irmin use: use a newer release"
                    ),
                ));
            }
            other => return Err(start.corrupt("a status", other)),
        })
    }

    /// The bytes of a version-5 control file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = b"00000005".to_vec();
        put_u64(&mut out, self.dict_end);
        put_u64(&mut out, self.chunk_end);
        match self.upgraded_from {
            None => out.push(0),
            Some(version) => {
                out.push(0xff);
                put_varint(&mut out, version);
            }
        }
        let place = out.len();
        put_u64(&mut out, 0);
        put_varint(&mut out, self.chunk_start);
        put_varint(&mut out, self.chunk_count);
        put_varint(&mut out, self.volumes);
        match &self.status {
            Status::Upgraded(end) => {
                out.push(0);
                put_u64(&mut out, *end);
            }
            Status::Fresh => out.push(1),
            Status::Indexed => out.push(2),
            Status::Collected(collected) => {
                out.push(3);
                put_u64(&mut out, collected.suffix_start);
                put_varint(&mut out, collected.generation);
                put_u64(&mut out, collected.target.unwrap_or(0));
                put_u64(&mut out, collected.dead_bytes);
                match collected.mapping_end {
                    None => out.push(0),
                    Some(end) => {
                        out.push(0xff);
                        put_u64(&mut out, end);
                    }
                }
            }
        }
        let sum = adler(&out[8..]);
        out[place..place + 8].copy_from_slice(&u64::from(sum).to_be_bytes());
        out
    }

    /// Bytes before the first valid one in the first chunk and in the dictionary.
    pub(crate) fn header_bytes(&self) -> u64 {
        match self.status {
            _ if self.version < 3 => HEADER,
            Status::Upgraded(_) => HEADER,
            _ => 0,
        }
    }

    /// What garbage collection left, if it ran.
    pub(crate) fn collected(&self) -> Option<&Collected> {
        match &self.status {
            Status::Collected(collected) => Some(collected),
            _ => None,
        }
    }
}

impl VolumeControl {
    /// Reads a volume's control file.
    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<VolumeControl> {
        let mut decoder = Decoder::new(file, 0, bytes);
        let version = version(&mut decoder)?;
        if version != 5 {
            return Err(newer(file, version));
        }
        let (start, end) = (bytes::offset(&mut decoder)?, bytes::offset(&mut decoder)?);
        let mapping_end = bytes::offset(&mut decoder)?;
        let place = decoder.offset() as usize;
        decoder.raw(8)?;
        decoder.finish()?;
        let checksum = check_sum(file, bytes, place)?;
        Ok(VolumeControl { start, end, mapping_end, checksum })
    }
}

/// End of valid bytes and version, from the header of a file of version 1 or 2.
pub(crate) fn old_header(file: &str, bytes: &[u8]) -> Result<(u64, u32)> {
    let mut decoder = Decoder::new(file, 0, bytes);
    let end = bytes::offset(&mut decoder)?;
    let start = decoder.clone();
    match version(&mut decoder)? {
        version @ 1..=2 => Ok((end, version)),
        other => Err(start.corrupt("version 1 or 2", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
        let pair =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks_exact(2).map(pair).collect()
    }

    #[test]
    fn files_of_every_version_are_read() {
        let third =
            bytes("3030303030303033 0000000000000018 000000000000002a 03 000000000000007a 01");
        let control = Control::decode("f", &third).unwrap();
        assert_eq!((control.dict_end, control.chunk_end, control.chunk_start), (24, 42, 1));
        assert_eq!(control.collected().unwrap().suffix_start, 122);
        let fourth = bytes(
            "3030303030303034 0000000000000018 00000000000000a4 00 0000000010fe0162 00 01 \
             00 00000000000000a4",
        );
        let control = Control::decode("f", &fourth).unwrap();
        assert_eq!((control.status.clone(), control.header_bytes()), (Status::Upgraded(164), 16));
        assert_eq!(Control::decode("f", &control.encode()).unwrap().status, control.status);
    }

    #[test]
    fn every_flipped_bit_of_a_checked_file_is_noticed() {
        let control = Control {
            version: 5,
            dict_end: 1234,
            chunk_end: 99,
            upgraded_from: Some(3),
            checksum: None,
            chunk_start: 2,
            chunk_count: 3,
            volumes: 1,
            status: Status::Collected(Collected {
                suffix_start: 700,
                generation: 3,
                target: Some(600),
                dead_bytes: 5,
                mapping_end: Some(48),
            }),
        };
        let bytes = control.encode();
        let back = Control::decode("f", &bytes).unwrap();
        assert_eq!(Control { checksum: None, ..back }, control);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Control::decode("f", &damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Control::decode("f", &bytes[..length]).is_err());
        }
    }
}
