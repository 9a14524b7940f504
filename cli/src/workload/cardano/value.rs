//! What an output is worth: lovelace and the assets beside it, added up on both sides of a
//! transaction until nothing is left.

use std::collections::BTreeMap;

use minicbor::data::Type;
use minicbor::decode::{Decoder, Error};

use super::cbor;

/// A minting policy and an asset name.
type Asset = ([u8; 28], Vec<u8>);

/// A sum of outputs, inputs and mints with signs; everything zero when both sides agree.
#[derive(Clone, Debug, Default)]
pub struct Balance {
    /// Lovelace that came in less lovelace that went out.
    pub lovelace: i128,
    assets: BTreeMap<Asset, i128>,
}

impl Balance {
    /// Adds `sign` times what the raw output `bytes` holds.
    pub fn add_output(&mut self, bytes: &[u8], sign: i128) -> Result<(), Error> {
        let mut decoder = Decoder::new(bytes);
        at_value(&mut decoder)?;
        if decoder.datatype()? != Type::Array {
            self.lovelace += sign * i128::from(decoder.u64()?);
            return Ok(());
        }
        if cbor::definite(&mut decoder)? != 2 {
            return Err(Error::message("a value that is not [lovelace, assets]"));
        }
        self.lovelace += sign * i128::from(decoder.u64()?);
        self.add_assets(&mut decoder, sign)
    }

    /// Adds `sign` times a map from policies to maps from names to amounts.
    pub fn add_assets(&mut self, decoder: &mut Decoder<'_>, sign: i128) -> Result<(), Error> {
        cbor::entries(decoder, |decoder| {
            let policy: [u8; 28] = cbor::fixed(decoder)?;
            cbor::entries(decoder, |decoder| {
                let name = decoder.bytes()?.to_vec();
                let amount: i128 = decoder.int()?.into();
                *self.assets.entry((policy, name)).or_default() += sign * amount;
                Ok(())
            })
        })
    }

    /// Whether as many of every asset came in as went out.
    pub fn assets_balance(&self) -> bool {
        self.assets.values().all(|amount| *amount == 0)
    }
}

/// The lovelace in a raw output.
pub fn lovelace(bytes: &[u8]) -> Result<u64, Error> {
    let mut decoder = Decoder::new(bytes);
    at_value(&mut decoder)?;
    if decoder.datatype()? == Type::Array {
        cbor::definite(&mut decoder)?;
    }
    decoder.u64()
}

/// Moves to the value: the second field of the older array, key 1 of the newer map.
fn at_value(decoder: &mut Decoder<'_>) -> Result<(), Error> {
    if decoder.datatype()? == Type::Array {
        decoder.array()?;
        return decoder.skip();
    }
    let count = decoder.map()?;
    let mut seen = 0;
    while count.is_none_or(|count| seen < count) && decoder.datatype()? != Type::Break {
        if decoder.u64()? == 1 {
            return Ok(());
        }
        decoder.skip()?;
        seen += 1;
    }
    Err(Error::message("an output without a value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_of_an_output_give_their_lovelace() {
        assert_eq!(lovelace(&[0x82, 0x41, 0xaa, 0x18, 0x64]).unwrap(), 100);
        assert_eq!(lovelace(&[0xa2, 0, 0x41, 0xaa, 1, 0x18, 0x64]).unwrap(), 100);
        assert!(lovelace(&[0xa1, 0, 0x41, 0xaa]).is_err());
        assert!(lovelace(&[0x82, 0x41]).is_err());
    }

    #[test]
    fn assets_balance_only_when_each_one_does() {
        let mut output = vec![0x82, 0x41, 0xaa, 0x82, 5, 0xa1, 0x58, 28];
        output.extend([7; 28]);
        output.extend([0xa1, 0x41, b'n', 3]);
        let mut balance = Balance::default();
        balance.add_output(&output, 1).unwrap();
        assert_eq!(balance.lovelace, 5);
        assert!(!balance.assets_balance());
        balance.add_output(&output, -1).unwrap();
        assert_eq!(balance.lovelace, 0);
        assert!(balance.assets_balance());
    }
}
