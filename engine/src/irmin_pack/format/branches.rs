//! The file of branches: names and the commits that they name.

use super::bytes;
use super::control::HEADER;
use super::schema::Schema;
use crate::context::hash::CommitHash;
use crate::error::Result;
use crate::format::codec::Decoder;

/// One branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) name: Vec<u8>,
    /// Zeros when it was removed.
    pub(crate) hash: CommitHash,
    /// Where it is in the file.
    pub(crate) place: u64,
}

/// Every entry of the file, those of removed branches included.
pub(crate) fn decode(file: &str, bytes: &[u8], schema: Schema) -> Result<Vec<Branch>> {
    let mut decoder = Decoder::new(file, 0, bytes);
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    decoder.raw(HEADER as usize)?;
    let mut branches = Vec::new();
    while decoder.remaining() > 0 {
        let place = decoder.offset();
        let length = bytes::u32(&mut decoder)? as usize;
        let name = decoder.raw(length)?.to_vec();
        let hash = schema.hash(decoder.raw(schema.hash_bytes())?).into();
        branches.push(Branch { name, hash, place });
    }
    Ok(branches)
}
