//! Outputs of transactions: keys of which several begin with the same 32 bytes, as in `varvite bench range`.

use crate::draw::{KEY_BYTES, Key, key};

/// Bytes of a key that name the transaction.
pub const PREFIX_BYTES: usize = KEY_BYTES - 2;
/// Outputs of a transaction.
pub const OUTPUTS: u64 = 3;

/// What the keys of a transaction begin with.
pub type Prefix = [u8; PREFIX_BYTES];

/// The key of output `number` of all.
pub fn output(number: u64) -> Key {
    let mut key = key(number / OUTPUTS);
    key[PREFIX_BYTES..].copy_from_slice(&((number % OUTPUTS) as u16).to_be_bytes());
    key
}

/// What `key` begins with.
pub fn prefix(key: &Key) -> Prefix {
    *key.first_chunk().expect("a key is longer")
}

/// The least key with `prefix`.
pub fn first(prefix: &Prefix) -> Key {
    with(prefix, 0)
}

/// The greatest key with `prefix`.
pub fn last(prefix: &Prefix) -> Key {
    with(prefix, u8::MAX)
}

fn with(prefix: &Prefix, byte: u8) -> Key {
    let mut key = [byte; KEY_BYTES];
    key[..PREFIX_BYTES].copy_from_slice(prefix);
    key
}
