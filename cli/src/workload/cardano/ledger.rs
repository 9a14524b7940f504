//! Applying blocks to a `UTxO` set and checking that everything adds up.
//!
//! Inputs are resolved from the set in one batch a block, except outputs that the same block made.
//! [`Progress`] is everything that a later process needs to go on: it travels in a snapshot's payload.

use std::collections::{BTreeMap, HashMap, HashSet};

use minicbor::decode::Error as CborError;
use serde::{Deserialize, Serialize};
use varvite::Result;

use super::Key;
use super::block::{Block, Header};
use super::genesis::Genesis;
use super::immutable::Place;
use super::transaction::{Certificate, Transaction};
use super::value::Balance;

/// One change of the set: the output made under `key`, or `None` when it is spent.
#[derive(Clone, Copy, Debug)]
pub struct Change<'b> {
    /// Which output.
    pub key: Key,
    /// Its CBOR.
    pub output: Option<&'b [u8]>,
}

/// The set that inputs are resolved from.
pub trait UtxoSet {
    /// Calls `each` with the position in `keys` and the output, for every key, in order.
    fn resolve(&mut self, keys: &[Key], each: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()>;

    /// Applies a block's changes, in order, as one batch.
    fn apply(&mut self, changes: &[Change<'_>]) -> Result<()>;
}

/// How far a replay came and what it counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Where the next block starts.
    pub next: Place,
    /// Where the last block starts.
    pub last: Place,
    /// The hash of the last header, in hex; empty before the first block.
    pub last_header_hash: String,
    /// Blocks applied.
    pub blocks: u64,
    /// Blocks with transactions: one batch each.
    pub batches: u64,
    /// Transactions.
    pub transactions: u64,
    /// Outputs made, those of genesis apart.
    pub created: u64,
    /// Outputs spent.
    pub spent: u64,
    /// Fees of valid transactions, in lovelace.
    pub fees: u64,
    /// Inputs that were only read.
    pub reference_inputs: u64,
    /// Inputs that the set did not hold.
    pub missing_inputs: u64,
    /// Headers that do not name the one before them.
    pub chain_breaks: u64,
    /// Bodies that do not hash to what their header says.
    pub body_hash_mismatches: u64,
    /// Transactions whose lovelace balances.
    pub ada_balanced: u64,
    /// Transactions whose assets balance.
    pub assets_balanced: u64,
    /// Processor time of earlier processes, in nanoseconds.
    pub cpu_ns: u64,
    /// Every registered pool and the epoch it retires with, for the deposits of new pools.
    pub pools: BTreeMap<String, Option<u64>>,
}

impl Progress {
    /// Whether everything that was checked held.
    pub fn sound(&self) -> bool {
        self.missing_inputs == 0
            && self.chain_breaks == 0
            && self.body_hash_mismatches == 0
            && self.ada_balanced == self.transactions
            && self.assets_balanced == self.transactions
    }
}

/// Why a block could not be applied.
#[derive(Debug)]
pub enum Failure {
    /// Its bytes are not a block's.
    Cbor(CborError),
    /// The set failed.
    Set(varvite::Error),
}

impl From<CborError> for Failure {
    fn from(error: CborError) -> Self {
        Failure::Cbor(error)
    }
}

impl From<varvite::Error> for Failure {
    fn from(error: varvite::Error) -> Self {
        Failure::Set(error)
    }
}

/// An input that has to come from the set.
struct Wanted {
    transaction: usize,
    consumed: bool,
}

/// Applies blocks one after the other.
#[derive(Debug)]
pub struct Ledger {
    genesis: Genesis,
    /// What was counted so far.
    pub progress: Progress,
    last_hash: Option<[u8; 32]>,
}

impl Ledger {
    /// Goes on from `progress`, or starts when it is the default.
    pub fn new(genesis: Genesis, progress: Progress) -> Ledger {
        let last_hash = crate::hex::decode(&progress.last_header_hash)
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        Ledger { genesis, progress, last_hash }
    }

    /// Applies one block, which stands at `place` and ends where `next` says.
    ///
    /// After an error the counts may hold half of the block: they must not be saved.
    pub fn apply(
        &mut self,
        block: &Block<'_>,
        place: Place,
        next: Place,
        set: &mut impl UtxoSet,
    ) -> std::result::Result<(), Failure> {
        let transactions = block.transactions().collect::<std::result::Result<Vec<_>, _>>()?;
        let mut progress = std::mem::take(&mut self.progress);
        self.check_header(&block.header, &mut progress);
        progress.body_hash_mismatches += u64::from(!block.body_hash_holds);
        progress.blocks += 1;
        progress.batches += u64::from(!transactions.is_empty());
        progress.last = place;
        progress.next = next;
        progress.last_header_hash = crate::hex::encode(&block.header.hash);
        self.last_hash = Some(block.header.hash);
        let outcome = if transactions.is_empty() {
            Ok(())
        } else {
            self.apply_transactions(&transactions, block.header.slot, &mut progress, set)
        };
        self.progress = progress;
        outcome
    }

    fn check_header(&self, header: &Header, progress: &mut Progress) {
        let expected = self.last_hash.unwrap_or(self.genesis.hash);
        // The very first block may also say outright that nothing is before it.
        let holds = match header.previous {
            Some(previous) => previous == expected,
            None => self.last_hash.is_none(),
        };
        progress.chain_breaks += u64::from(!holds);
    }

    fn apply_transactions(
        &self,
        transactions: &[Transaction<'_>],
        slot: u64,
        progress: &mut Progress,
        set: &mut impl UtxoSet,
    ) -> std::result::Result<(), Failure> {
        let epoch = slot / self.genesis.epoch_slots;
        let mut balances = Vec::with_capacity(transactions.len());
        let mut whole = vec![true; transactions.len()];
        let mut changes = Vec::new();
        let mut made: HashMap<Key, &[u8]> = HashMap::new();
        let mut spent: HashSet<Key> = HashSet::new();
        let (mut keys, mut wanted) = (Vec::new(), Vec::new());
        for (index, transaction) in transactions.iter().enumerate() {
            let mut balance = transaction.balance.clone();
            balance.lovelace -= self.deposits(&transaction.certificates, epoch, progress);
            for key in &transaction.spends {
                if !spent.insert(*key) {
                    progress.missing_inputs += 1; // spent by an earlier transaction of this block
                    whole[index] = false;
                    continue;
                }
                changes.push(Change { key: *key, output: None });
                if let Some(output) = made.get(key) {
                    balance.add_output(output, 1)?;
                    progress.spent += 1;
                } else {
                    keys.push(*key);
                    wanted.push(Wanted { transaction: index, consumed: true });
                }
            }
            for key in transaction.reads.iter().filter(|key| !made.contains_key(*key)) {
                keys.push(*key);
                wanted.push(Wanted { transaction: index, consumed: false });
            }
            for output in &transaction.outputs {
                made.insert(output.key, output.bytes);
                changes.push(Change { key: output.key, output: Some(output.bytes) });
            }
            progress.transactions += 1;
            progress.created += transaction.outputs.len() as u64;
            progress.reference_inputs += transaction.reads.len() as u64;
            progress.fees += if transaction.valid { transaction.fee } else { 0 };
            balances.push(balance);
        }
        resolve(set, &keys, &wanted, &mut balances, &mut whole, progress)?;
        for ((transaction, balance), whole) in transactions.iter().zip(&balances).zip(whole) {
            let rest = transaction.fee_is_the_rest && balance.lovelace >= 0;
            progress.ada_balanced += u64::from(whole && (balance.lovelace == 0 || rest));
            progress.assets_balanced += u64::from(whole && balance.assets_balance());
        }
        Ok(set.apply(&changes)?)
    }

    /// What the certificates of one transaction cost, less what they give back.
    fn deposits(&self, certificates: &[Certificate], epoch: u64, progress: &mut Progress) -> i128 {
        let key_deposit = i128::from(self.genesis.key_deposit);
        let mut total = 0;
        for certificate in certificates {
            total += match certificate {
                Certificate::StakeRegistration => key_deposit,
                Certificate::StakeDeregistration => -key_deposit,
                Certificate::Deposit(lovelace) => *lovelace,
                Certificate::PoolRegistration(pool) => {
                    // A pool that is there pays nothing for new parameters, unless it has retired.
                    match progress.pools.insert(crate::hex::encode(pool), None) {
                        Some(None) => 0,
                        Some(Some(retired)) if epoch < retired => 0,
                        _ => i128::from(self.genesis.pool_deposit),
                    }
                }
                Certificate::PoolRetirement(pool, last) => {
                    progress.pools.insert(crate::hex::encode(pool), Some(*last));
                    0
                }
            };
        }
        total
    }

    /// The outputs that exist before the first block, as one batch.
    pub fn apply_genesis(&self, set: &mut impl UtxoSet) -> Result<()> {
        let outputs = self.genesis.outputs.iter();
        let changes: Vec<_> =
            outputs.map(|(key, output)| Change { key: *key, output: Some(output) }).collect();
        set.apply(&changes)
    }
}

/// Fetches every wanted output from the set and credits it to its transaction.
fn resolve(
    set: &mut impl UtxoSet,
    keys: &[Key],
    wanted: &[Wanted],
    balances: &mut [Balance],
    whole: &mut [bool],
    progress: &mut Progress,
) -> std::result::Result<(), Failure> {
    let mut unreadable = None;
    set.resolve(keys, &mut |position, output| {
        let Wanted { transaction, consumed } = wanted[position];
        let Some(output) = output else {
            progress.missing_inputs += 1;
            whole[transaction] = false;
            return;
        };
        if consumed {
            progress.spent += 1;
            if let Err(error) = balances[transaction].add_output(output, 1) {
                unreadable.get_or_insert(error);
            }
        }
    })?;
    unreadable.map_or(Ok(()), |error| Err(error.into()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sha2::{Digest, Sha256};

    use super::super::{Chain, lovelace};
    use super::*;

    /// A set that shares nothing with the table.
    #[derive(Default)]
    struct Map(HashMap<Key, Vec<u8>>);

    impl UtxoSet for Map {
        fn resolve(
            &mut self,
            keys: &[Key],
            each: &mut dyn FnMut(usize, Option<&[u8]>),
        ) -> Result<()> {
            for (position, key) in keys.iter().enumerate() {
                each(position, self.0.get(key).map(Vec::as_slice));
            }
            Ok(())
        }

        fn apply(&mut self, changes: &[Change<'_>]) -> Result<()> {
            for change in changes {
                match change.output {
                    Some(output) => self.0.insert(change.key, output.to_vec()),
                    None => self.0.remove(&change.key),
                };
            }
            Ok(())
        }
    }

    impl Map {
        fn lovelace(&self) -> u64 {
            self.0.values().map(|output| lovelace(output).unwrap()).sum()
        }

        fn digest(&self) -> String {
            let mut keys: Vec<_> = self.0.keys().collect();
            keys.sort_unstable();
            let mut hasher = Sha256::new();
            for key in keys {
                hasher.update(&key[..32]);
                hasher.update([0, 0, key[32], key[33]]);
                hasher.update(lovelace(&self.0[key]).unwrap().to_be_bytes());
            }
            crate::hex::encode(&hasher.finalize())
        }
    }

    fn data() -> Option<std::path::PathBuf> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/cardano-preview");
        if path.is_dir() {
            return Some(path);
        }
        assert!(std::env::var_os("CI").is_none(), "CI needs {}", path.display());
        eprintln!("skipped: there is no {}", path.display());
        None
    }

    /// The figures of the data's README, epoch by epoch, without any table.
    #[test]
    fn the_preview_chain_adds_up_in_a_plain_map() {
        let Some(data) = data() else { return };
        let chain = Chain::open(&data.join("immutable")).unwrap();
        let genesis = Genesis::read(&data.join("genesis")).unwrap();
        let epoch_slots = genesis.epoch_slots;
        let mut ledger = Ledger::new(genesis, Progress::default());
        let mut set = Map::default();
        ledger.apply_genesis(&mut set).unwrap();
        let mut epochs = Vec::new();
        for number in 0..chain.chunks() {
            let chunk = chain.chunk(number).unwrap();
            let mut offset = 0;
            while let Some((block, next)) = chunk.block(offset).unwrap() {
                while epochs.len() as u64 <= block.header.slot / epoch_slots {
                    let progress = &ledger.progress;
                    let counts = [progress.blocks, progress.transactions, progress.created];
                    epochs.push((counts, progress.spent, set.0.len(), set.lovelace()));
                }
                let place = Place { chunk: number, offset };
                let next_place = Place { chunk: number, offset: next };
                ledger.apply(&block, place, next_place, &mut set).unwrap();
                offset = next;
            }
        }
        assert_eq!(epochs.len(), 10);
        assert_eq!(epochs[0], ([0, 0, 0], 0, 8, 30_000_000_000_000_000));
        assert_eq!(epochs[3], ([13_012, 4, 7], 4, 11, 29_999_998_493_149_629));
        assert_eq!(epochs[8], ([34_243, 824, 27_926], 824, 27_110, 29_999_996_207_440_859));
        assert_eq!(epochs[9], ([37_506, 1_741, 29_892], 2_028, 27_872, 29_999_984_428_577_037));
        let progress = &ledger.progress;
        assert!(progress.sound(), "{progress:?}");
        assert_eq!(
            (progress.blocks, progress.batches, progress.transactions),
            (40_357, 2_150, 3_838)
        );
        assert_eq!((progress.created, progress.spent, set.0.len()), (32_780, 4_414, 28_374));
        assert_eq!((progress.fees, progress.reference_inputs), (964_139_553, 56));
        assert_eq!(set.lovelace(), 29_999_980_923_860_447);
        assert_eq!(
            progress.last_header_hash,
            "f47eb039637ba8da866d5a400e81abe468833a158802a6edd708c0559240fc48"
        );
        assert_eq!(
            set.digest(),
            "ccf8335c2f58efaa7ab256f8c8cfb91dcdb30d824d100af5bfc5fe3fb08fd87c"
        );
    }
}
