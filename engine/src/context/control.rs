//! The control file: what a store is made of now, and a checkpoint from which to scan.
//!
//! It is replaced whole when the set of files changes (a chunk begins, a generation begins) and now
//! and then so that the scan stays short. Everything after the checkpoint is found in the pack.
//! Format document: `docs/format/control.md`.

use std::sync::Arc;

use super::configuration::Configuration;
use super::hash::Hash;
use super::options::Index;
use super::paths;
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::Position;
use crate::file::replace::replace;
use crate::format::codec::Encoder;
use crate::format::header::{FileKind, Header, checked_body, finish_with_checksum};

/// The largest control file that is believed.
const LENGTH_MAX: u64 = 1 << 26;

/// The content of a control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Identity of the store, part of every checksum.
    pub(crate) store: u64,
    pub(crate) configuration: Configuration,
    pub(crate) index: Index,
    /// How often everything was cleared.
    pub(crate) generation: u64,
    /// The bases of the chunks, which are numbered from 0; the last one is appended to.
    pub(crate) bases: Vec<u64>,
    /// Where the scan of the last chunk begins.
    pub(crate) position: Position,
    /// Logical offset of the last commit before that; 0 for none.
    pub(crate) last_commit: u64,
    /// Branches as of that place, by name.
    pub(crate) branches: Vec<(Vec<u8>, Hash)>,
}

impl Control {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.raw(&Header::new(FileKind::Control, self.generation, self.store).encode());
        self.configuration.encode(&mut out);
        out.u8(match self.index {
            Index::Minimal => 0,
            Index::Always => 1,
        });
        out.u64(self.position.offset);
        out.u64(self.position.sequence);
        out.u32(self.position.chain);
        out.u64(self.last_commit);
        out.varint(self.bases.len() as u64);
        for base in &self.bases {
            out.u64(*base);
        }
        out.varint(self.branches.len() as u64);
        for (name, hash) in &self.branches {
            out.bytes_with_length(name);
            out.raw(hash);
        }
        finish_with_checksum(out)
    }

    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<Control> {
        let header = Header::expect(file, bytes, FileKind::Control)?;
        let mut decoder = checked_body(file, bytes, "checksum")?;
        let configuration = Configuration::decode(&mut decoder)?;
        let start = decoder.clone();
        let index = match decoder.u8()? {
            0 => Index::Minimal,
            1 => Index::Always,
            other => return Err(start.corrupt("index strategy 0 or 1", other)),
        };
        let position =
            Position { offset: decoder.u64()?, sequence: decoder.u64()?, chain: decoder.u32()? };
        let last_commit = decoder.u64()?;
        let count = decoder.count(8)?;
        let bases: Vec<u64> = (0..count).map(|_| decoder.u64()).collect::<Result<_>>()?;
        if bases.is_empty() || !bases.is_sorted_by(|a, b| a < b) {
            return Err(decoder.corrupt("chunks in order", "none, or out of order"));
        }
        let count = decoder.count(33)?;
        let mut branches = Vec::with_capacity(count);
        for _ in 0..count {
            let name = decoder.bytes_with_length()?.to_vec();
            branches.push((name, decoder.raw(32)?.try_into().expect("32 bytes")));
        }
        decoder.finish()?;
        Ok(Control {
            store: header.store,
            configuration,
            index,
            generation: header.identity,
            bases,
            position,
            last_commit,
            branches,
        })
    }

    /// The number of the last chunk and the place in it up to which everything was saved.
    pub(crate) fn checkpoint(&self) -> (u64, u64) {
        (self.bases.len() as u64 - 1, self.position.offset)
    }

    /// Reads the control file of a store. `Missing` without one.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Control> {
        let file = disk.open(paths::CONTROL, Mode::Read, Access::Buffered).map_err(|error| {
            if error.kind() == Kind::Missing {
                return Error::missing(format!(
                    "{} holds no context store: it has no file \"{}\"; give the folder of one, or \
                     create one there",
                    disk.root(),
                    paths::CONTROL
                ));
            }
            error
        })?;
        let length = file.len()?;
        if length > LENGTH_MAX {
            return Err(Error::corrupt(
                paths::CONTROL,
                LENGTH_MAX,
                format_args!("at most {LENGTH_MAX} bytes"),
                format_args!("{length}"),
            ));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(0, &mut bytes)?;
        Control::decode(paths::CONTROL, &bytes)
    }

    /// Makes this the control file, durably. Two syncs: of the new file, and of the folder once it is
    /// renamed.
    pub(crate) fn replace(&self, disk: &Arc<dyn Disk>) -> Result<()> {
        replace(disk, paths::CONTROL, &self.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_every_flipped_bit_is_noticed() {
        let control = Control {
            store: 5,
            configuration: Configuration::TEZOS,
            index: Index::Always,
            generation: 2,
            bases: vec![0, 1 << 20],
            position: Position { offset: 32, sequence: 0, chain: 0 },
            last_commit: 77,
            branches: vec![(b"main".to_vec(), [3; 32])],
        };
        let bytes = control.encode();
        assert_eq!(Control::decode("control", &bytes).unwrap(), control);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Control::decode("control", &damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Control::decode("control", &bytes[..length]).is_err());
        }
    }
}
