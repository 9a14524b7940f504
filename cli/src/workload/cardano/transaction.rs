//! A transaction body: what it spends, reads, makes, mints and pays.
//!
//! The identifier is the hash of the body's bytes as they stand in the block; encoding the body
//! again could give other bytes for the same meaning.

use minicbor::decode::{Decoder, Error};

use super::cbor;
use super::value::Balance;
use super::{Key, key};

type Result<T> = std::result::Result<T, Error>;

/// What a certificate changes about deposits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// A stake key is registered for the deposit of the protocol parameters.
    StakeRegistration,
    /// Its deposit is returned.
    StakeDeregistration,
    /// A pool is registered, or one that is there changes its parameters.
    PoolRegistration([u8; 28]),
    /// A pool ends with the given epoch.
    PoolRetirement([u8; 28], u64),
    /// A deposit that the certificate states itself; negative when it is returned.
    Deposit(i128),
}

/// An output that the transaction makes.
#[derive(Clone, Copy, Debug)]
pub struct Output<'b> {
    /// Under which key the table holds it.
    pub key: Key,
    /// Its CBOR, as it stands in the block.
    pub bytes: &'b [u8],
}

/// One transaction, with the effects that its validity gives it.
#[derive(Debug, Default)]
pub struct Transaction<'b> {
    /// Whether its scripts passed; one that failed spends its collateral instead.
    pub valid: bool,
    /// What it takes out of the table, each once, sorted.
    pub spends: Vec<Key>,
    /// What it only reads.
    pub reads: Vec<Key>,
    /// What it makes.
    pub outputs: Vec<Output<'b>>,
    /// What it pays in fees; for one that failed, what its collateral pays.
    pub fee: u64,
    /// Set for one that failed without stating what its collateral pays: the fee is what is left.
    pub fee_is_the_rest: bool,
    /// Of a valid one: deposits it pays or gets back.
    pub certificates: Vec<Certificate>,
    /// Withdrawals and mints less fee, donations, proposals' deposits and outputs.
    pub balance: Balance,
}

/// The fields as they come, before validity decides which of them count.
#[derive(Default)]
struct Body<'b> {
    inputs: Vec<Key>,
    collateral: Vec<Key>,
    reads: Vec<Key>,
    outputs: Vec<&'b [u8]>,
    collateral_return: Option<&'b [u8]>,
    total_collateral: Option<u64>,
    fee: u64,
    paid: i128,
    certificates: Vec<Certificate>,
    minted: Balance,
}

impl<'b> Transaction<'b> {
    /// Reads the raw body `bytes`.
    pub fn parse(bytes: &'b [u8], valid: bool) -> Result<Self> {
        let id = super::hash(bytes);
        let mut body = Body::default();
        cbor::entries(&mut Decoder::new(bytes), |decoder| body.field(decoder))?;
        let mut transaction = Transaction { valid, reads: body.reads, ..Transaction::default() };
        if valid {
            transaction.spends = body.inputs;
            transaction.fee = body.fee;
            transaction.certificates = body.certificates;
            transaction.balance = body.minted;
            transaction.balance.lovelace -= body.paid + i128::from(body.fee);
            for (index, bytes) in body.outputs.into_iter().enumerate() {
                transaction.make(&id, index, bytes)?;
            }
        } else {
            transaction.spends = body.collateral;
            transaction.fee = body.total_collateral.unwrap_or(0);
            transaction.fee_is_the_rest = body.total_collateral.is_none();
            transaction.balance.lovelace -= i128::from(transaction.fee);
            if let Some(bytes) = body.collateral_return {
                transaction.make(&id, body.outputs.len(), bytes)?;
            }
        }
        transaction.spends.sort_unstable();
        transaction.spends.dedup();
        transaction.reads.sort_unstable();
        transaction.reads.dedup();
        Ok(transaction)
    }

    fn make(&mut self, id: &[u8; 32], index: usize, bytes: &'b [u8]) -> Result<()> {
        let index = u16::try_from(index).map_err(|_| Error::message("more than 65,536 outputs"))?;
        self.outputs.push(Output { key: key(id, index), bytes });
        self.balance.add_output(bytes, -1)
    }
}

impl<'b> Body<'b> {
    /// Reads one field: its number in the ledger's CDDL, then its value.
    fn field(&mut self, decoder: &mut Decoder<'b>) -> Result<()> {
        match decoder.u64()? {
            0 => inputs(decoder, &mut self.inputs),
            1 => cbor::elements(decoder, |decoder| {
                self.outputs.push(cbor::raw(decoder)?);
                Ok(())
            }),
            2 => decoder.u64().map(|fee| self.fee = fee),
            4 => cbor::elements(decoder, |decoder| {
                self.certificates.extend(certificate(decoder)?);
                Ok(())
            }),
            5 => cbor::entries(decoder, |decoder| {
                decoder.skip()?;
                self.paid -= i128::from(decoder.u64()?);
                Ok(())
            }),
            9 => self.minted.add_assets(decoder, 1),
            13 => inputs(decoder, &mut self.collateral),
            16 => cbor::raw(decoder).map(|bytes| self.collateral_return = Some(bytes)),
            17 => decoder.u64().map(|total| self.total_collateral = Some(total)),
            18 => inputs(decoder, &mut self.reads),
            20 => cbor::elements(decoder, |decoder| {
                let mut proposal = Decoder::new(cbor::raw(decoder)?);
                proposal.array()?;
                self.paid += i128::from(proposal.u64()?);
                Ok(())
            }),
            22 => decoder.u64().map(|donation| self.paid += i128::from(donation)),
            _ => decoder.skip(),
        }
    }
}

fn inputs(decoder: &mut Decoder<'_>, keys: &mut Vec<Key>) -> Result<()> {
    cbor::elements(decoder, |decoder| {
        if cbor::definite(decoder)? != 2 {
            return Err(Error::message("an input that is not [transaction, index]"));
        }
        let id = cbor::fixed(decoder)?;
        keys.push(key(&id, decoder.u16()?));
        Ok(())
    })
}

/// The certificate's effect on deposits, or none. Kinds are numbered as in the ledger's CDDL.
fn certificate(decoder: &mut Decoder<'_>) -> Result<Option<Certificate>> {
    let mut decoder = Decoder::new(cbor::raw(decoder)?);
    decoder.array()?;
    let kind = decoder.u8()?;
    // How many fields stand before the deposit that newer kinds state themselves.
    let stated = |decoder: &mut Decoder<'_>, before: usize, sign: i128| {
        for _ in 0..before {
            decoder.skip()?;
        }
        Ok(Some(Certificate::Deposit(sign * i128::from(decoder.u64()?))))
    };
    match kind {
        0 => Ok(Some(Certificate::StakeRegistration)),
        1 => Ok(Some(Certificate::StakeDeregistration)),
        3 => Ok(Some(Certificate::PoolRegistration(cbor::fixed(&mut decoder)?))),
        4 => {
            let pool = cbor::fixed(&mut decoder)?;
            Ok(Some(Certificate::PoolRetirement(pool, decoder.u64()?)))
        }
        7 | 16 => stated(&mut decoder, 1, 1),
        8 | 17 => stated(&mut decoder, 1, -1),
        11 | 12 => stated(&mut decoder, 2, 1),
        13 => stated(&mut decoder, 3, 1),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{0: [[tx 1…, 5], the same again], 1: [[addr, 10]], 2: 3, 13: [[tx 2…, 1]], 16: [addr, 4], 17: 6}`
    fn body() -> Vec<u8> {
        let mut bytes = vec![0xa6, 0, 0x82];
        for _ in 0..2 {
            bytes.extend([0x82, 0x58, 32]);
            bytes.extend([1; 32]);
            bytes.push(5);
        }
        bytes.extend([1, 0x81, 0x82, 0x41, 0xaa, 10, 2, 3, 13, 0x81, 0x82, 0x58, 32]);
        bytes.extend([2; 32]);
        bytes.extend([1, 16, 0x82, 0x41, 0xaa, 4, 17, 6]);
        bytes
    }

    #[test]
    fn an_input_listed_twice_counts_once() {
        let bytes = body();
        let transaction = Transaction::parse(&bytes, true).unwrap();
        assert_eq!(transaction.spends, [key(&[1; 32], 5)]);
        assert_eq!(transaction.outputs.len(), 1);
        assert_eq!(transaction.outputs[0].key, key(&super::super::hash(&bytes), 0));
        assert_eq!(transaction.balance.lovelace, -13);
    }

    #[test]
    fn one_that_failed_spends_its_collateral_and_returns_the_rest_after_its_outputs() {
        let bytes = body();
        let transaction = Transaction::parse(&bytes, false).unwrap();
        assert_eq!(transaction.spends, [key(&[2; 32], 1)]);
        assert_eq!(transaction.outputs.len(), 1);
        assert_eq!(transaction.outputs[0].key, key(&super::super::hash(&bytes), 1));
        assert_eq!(transaction.balance.lovelace, -10);
    }

    #[test]
    fn certificates_of_every_kind_have_the_right_deposit() {
        let read = |bytes: &[u8]| certificate(&mut Decoder::new(bytes)).unwrap();
        assert_eq!(read(&[0x82, 0, 0x82, 0, 0x41, 1]), Some(Certificate::StakeRegistration));
        assert_eq!(read(&[0x83, 7, 0x82, 0, 0x41, 1, 9]), Some(Certificate::Deposit(9)));
        assert_eq!(read(&[0x83, 8, 0x82, 0, 0x41, 1, 9]), Some(Certificate::Deposit(-9)));
        assert_eq!(read(&[0x85, 13, 0x80, 0x41, 1, 0x80, 9]), Some(Certificate::Deposit(9)));
        assert_eq!(read(&[0x83, 2, 0x80, 0x41, 1]), None);
    }
}
