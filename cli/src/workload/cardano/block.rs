//! A block: its header, whether its body is the one the header names, and its transactions.

use minicbor::data::Type;
use minicbor::decode::{Decoder, Error};

use super::transaction::Transaction;
use super::{cbor, hash};

type Result<T> = std::result::Result<T, Error>;

/// The eras by the number that a stored block starts with.
const BYRON: u64 = 1;
const SHELLEY: u64 = 2;
const ALONZO: u64 = 5;
const CONWAY: u64 = 7;

/// What links a block to its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Height.
    pub number: u64,
    /// Time.
    pub slot: u64,
    /// The hash of the block before; `None` when the block says that there is none.
    pub previous: Option<[u8; 32]>,
    /// The hash of the header's own bytes.
    pub hash: [u8; 32],
}

/// A block with its parts as they stand in the file.
#[derive(Debug)]
pub struct Block<'b> {
    /// What links it to its chain.
    pub header: Header,
    /// Whether the parts of the body hash to what the header says.
    pub body_hash_holds: bool,
    bodies: Vec<&'b [u8]>,
    invalid: Vec<u64>,
}

impl<'b> Block<'b> {
    /// Reads a block as a node stores it: `[era, [header, bodies, witnesses, auxiliary, invalid]]`.
    pub fn parse(bytes: &'b [u8]) -> Result<Self> {
        let mut decoder = Decoder::new(bytes);
        cbor::definite(&mut decoder)?;
        let era = decoder.u64()?;
        if era <= BYRON {
            return Err(Error::message(
                "a block of the Byron era, which this replay does not read (Shelley to Conway only)",
            ));
        }
        if era > CONWAY {
            return Err(Error::message("a block of an era newer than Conway"));
        }
        let fields = cbor::definite(&mut decoder)?;
        let (header, announced) = parse_header(cbor::raw(&mut decoder)?, era)?;
        let raw_bodies = cbor::raw(&mut decoder)?;
        let mut parts = vec![raw_bodies];
        for _ in 2..fields {
            parts.push(cbor::raw(&mut decoder)?);
        }
        let mut invalid = Vec::new();
        if era >= ALONZO {
            let part =
                parts.get(3).ok_or_else(|| Error::message("a block without its fifth field"))?;
            cbor::elements(&mut Decoder::new(part), |decoder| {
                invalid.push(decoder.u64()?);
                Ok(())
            })?;
        }
        let mut bodies = Vec::new();
        cbor::elements(&mut Decoder::new(raw_bodies), |decoder| {
            bodies.push(cbor::raw(decoder)?);
            Ok(())
        })?;
        Ok(Block { header, body_hash_holds: body_hash(&parts) == announced, bodies, invalid })
    }

    /// Its transactions, in order.
    pub fn transactions(&self) -> impl Iterator<Item = Result<Transaction<'b>>> {
        self.bodies
            .iter()
            .enumerate()
            .map(|(index, body)| Transaction::parse(body, !self.invalid.contains(&(index as u64))))
    }
}

/// The hash over the hashes of each part.
fn body_hash(parts: &[&[u8]]) -> [u8; 32] {
    let hashes: Vec<u8> = parts.iter().flat_map(|part| hash(part)).collect();
    hash(&hashes)
}

/// The header and the body hash that it announces. Before Babbage two VRF proofs stood where one does.
fn parse_header(bytes: &[u8], era: u64) -> Result<(Header, [u8; 32])> {
    assert!((SHELLEY..=CONWAY).contains(&era), "checked by the caller");
    let mut decoder = Decoder::new(bytes);
    decoder.array()?;
    decoder.array()?;
    let number = decoder.u64()?;
    let slot = decoder.u64()?;
    let previous = if decoder.datatype()? == Type::Null {
        decoder.skip()?;
        None
    } else {
        Some(cbor::fixed(&mut decoder)?)
    };
    let between = if era <= ALONZO { 5 } else { 4 };
    for _ in 0..between {
        decoder.skip()?;
    }
    let announced = cbor::fixed(&mut decoder)?;
    Ok((Header { number, slot, previous, hash: hash(bytes) }, announced))
}
