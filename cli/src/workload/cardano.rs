//! A Cardano chain as a workload: the blocks of a node's `immutable` folder, what they spend and
//! make, and whether it all adds up.
//!
//! The `UTxO` set is a table: the key is the transaction's hash and the output's index, the value the
//! output's CBOR as it stands in the block. Nothing here decodes more than the replay checks.
//! CBOR is read with `minicbor`; hashes and identifiers are taken over the bytes of the file, never
//! over a re-encoding.

mod block;
mod cbor;
mod genesis;
mod immutable;
mod ledger;
mod transaction;
mod value;

pub use genesis::Genesis;
pub use immutable::{Chain, Place};
pub use ledger::{Change, Failure, Ledger, Progress, UtxoSet};
pub use value::lovelace;

/// Where an output lives in the table: transaction hash, then its index, big-endian.
pub type Key = [u8; 34];

/// The key of output `index` of transaction `id`.
pub fn key(id: &[u8; 32], index: u16) -> Key {
    let mut key = [0; 34];
    key[..32].copy_from_slice(id);
    key[32..].copy_from_slice(&index.to_be_bytes());
    key
}

/// `BLAKE2b` with 32 bytes of output, the chain's hash for everything.
pub fn hash(bytes: &[u8]) -> [u8; 32] {
    let digest = blake2b_simd::Params::new().hash_length(32).hash(bytes);
    digest.as_bytes().try_into().expect("the hash has 32 bytes")
}
