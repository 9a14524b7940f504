//! The genesis files: the outputs that exist before the first block, and the parameters that the
//! balances need.

use std::fs;
use std::path::Path;

use serde_json::Value;
use varvite::{Error, Kind, Result};

use super::{Key, hash, key};

/// What a replay takes from `byron-genesis.json` and `shelley-genesis.json`.
#[derive(Clone, Debug)]
pub struct Genesis {
    /// The first outputs: key and CBOR.
    pub outputs: Vec<(Key, Vec<u8>)>,
    /// The hash that the first block names as the one before it.
    pub hash: [u8; 32],
    /// Lovelace for registering a stake key.
    pub key_deposit: u64,
    /// Lovelace for registering a pool.
    pub pool_deposit: u64,
    /// Slots in an epoch.
    pub epoch_slots: u64,
}

impl Genesis {
    /// Reads both files of a folder. `Missing` without them, `Invalid` when they are not what they
    /// should be.
    pub fn read(folder: &Path) -> Result<Genesis> {
        let byron = json(&folder.join("byron-genesis.json"))?;
        let shelley = json(&folder.join("shelley-genesis.json"))?;
        let number = |pointer: &str| {
            shelley
                .pointer(pointer)
                .and_then(Value::as_u64)
                .filter(|number| *number > 0)
                .ok_or_else(|| {
                    not_genesis(
                        &folder.join("shelley-genesis.json"),
                        &format!("number at {pointer}"),
                    )
                })
        };
        Ok(Genesis {
            outputs: outputs(&byron, &shelley, folder)?,
            hash: canonical_hash(&byron),
            key_deposit: number("/protocolParams/keyDeposit")?,
            pool_deposit: number("/protocolParams/poolDeposit")?,
            epoch_slots: number("/epochLength")?,
        })
    }
}

/// The Byron genesis hash is over its canonical JSON: sorted keys, no spaces. `serde_json` keeps
/// objects sorted, so printing it again is enough.
fn canonical_hash(byron: &Value) -> [u8; 32] {
    hash(byron.to_string().as_bytes())
}

fn json(path: &Path) -> Result<Value> {
    let text = fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::missing(format!(
            "there is no {}: give the folder of the genesis files with --genesis",
            path.display()
        )),
        _ => Error::io("read", &path.display().to_string(), error),
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        Error::invalid(format!("{} is not JSON ({error}): fetch it again", path.display()))
    })
}

fn not_genesis(path: &Path, expected: &str) -> Error {
    Error::invalid(format!("{} has no {expected}: is it a genesis file?", path.display()))
}

fn outputs(byron: &Value, shelley: &Value, folder: &Path) -> Result<Vec<(Key, Vec<u8>)>> {
    let path = folder.join("byron-genesis.json");
    let balances = byron["nonAvvmBalances"]
        .as_object()
        .ok_or_else(|| not_genesis(&path, "object nonAvvmBalances"))?;
    if byron["avvmDistr"].as_object().is_some_and(|vouchers| !vouchers.is_empty()) {
        return Err(Error::invalid(format!(
            "{} holds vouchers (avvmDistr), which belong to a chain with Byron blocks: this replay \
             reads chains that start in the Shelley era or later",
            path.display()
        )));
    }
    let mut outputs = Vec::new();
    for (address, lovelace) in balances {
        let raw = base58(address).ok_or_else(|| not_genesis(&path, "base58 in every address"))?;
        let lovelace = lovelace.as_str().and_then(|text| text.parse().ok());
        outputs.push(output(&raw, lovelace.ok_or_else(|| not_genesis(&path, "amount"))?));
    }
    if let Some(funds) = shelley["initialFunds"].as_object() {
        let path = folder.join("shelley-genesis.json");
        for (address, lovelace) in funds {
            let raw = crate::hex::decode(address)
                .ok_or_else(|| not_genesis(&path, "hex in every address of initialFunds"))?;
            let lovelace = lovelace.as_u64().ok_or_else(|| not_genesis(&path, "amount"))?;
            outputs.push(output(&raw, lovelace));
        }
    }
    Ok(outputs)
}

/// A genesis output is made by a transaction that nobody wrote: its identifier is the hash of the
/// address, its index 0.
fn output(address: &[u8], lovelace: u64) -> (Key, Vec<u8>) {
    let mut encoder = minicbor::Encoder::new(Vec::new());
    encoder
        .array(2)
        .and_then(|encoder| encoder.bytes(address))
        .and_then(|encoder| encoder.u64(lovelace))
        .expect("writing to memory cannot fail");
    (key(&hash(address), 0), encoder.into_writer())
}

/// Base 58 with Bitcoin's alphabet, by repeated multiplication; addresses are short.
fn base58(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut reversed: Vec<u8> = Vec::with_capacity(text.len());
    for character in text.bytes() {
        let mut carry = ALPHABET.iter().position(|letter| *letter == character)?;
        for byte in &mut reversed {
            carry += usize::from(*byte) * 58;
            *byte = carry as u8;
            carry >>= 8;
        }
        while carry > 0 {
            reversed.push(carry as u8);
            carry >>= 8;
        }
    }
    reversed.extend(text.bytes().take_while(|character| *character == b'1').map(|_| 0));
    reversed.reverse();
    Some(reversed)
}

/// `Missing` when `folder` is not there at all, so that a wrong path is named first.
pub fn check_folder(folder: &Path, what: &str) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let detail = if folder.exists() {
        format!("{} is not a folder: give {what}", folder.display())
    } else {
        format!("there is no folder {}: give {what}", folder.display())
    };
    Err(Error::new(Kind::Missing, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base58_matches_known_pairs() {
        assert_eq!(base58("2NEpo7TZRRrLZSi2U").unwrap(), b"Hello World!");
        assert_eq!(base58("11233QC4").unwrap(), [0, 0, 0x28, 0x7f, 0xb4, 0xcd]);
        assert_eq!(base58(""), Some(vec![]));
        assert_eq!(base58("0"), None);
    }
}
