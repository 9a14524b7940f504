//! `varvite replay cardano`: a node's blocks from genesis on, with the `UTxO` set in a table.
//!
//! With `--store` the replay saves a snapshot now and then, whose payload is the [`Progress`] so far.
//! Killed at any moment, it goes on from the last one; a finished one is only summed up again.

mod rounds;

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use sha2::{Digest, Sha256};
use varvite::{
    Batch, Error, Kind, Observer, Result, Session, SessionOptions, SnapshotContent, SnapshotInfo,
    Table, TableOptions, Values, Verify,
};

use crate::exit::{self, Outcome, Verdict};
use crate::flags::{CompressionKind, Tuning};
use crate::hex;
use crate::print::{self, Format};
use crate::progress::{Progress as Bar, Unit};
use crate::sight;
use crate::store::folder::temporary;
use crate::store::tables;
use crate::system::measure;
use crate::workload::cardano::{
    Chain, Change, Failure, Genesis, Key, Ledger, Place, Progress, UtxoSet, lovelace,
};

/// What snapshots of a replay are labelled with.
const LABEL: &str = "varvite replay cardano";
/// What their names start with; the number of blocks follows.
const PREFIX: &str = tables::REPLAY;
/// The table.
const TABLE: &str = "utxo";

/// Replay a Cardano chain from genesis: every input is resolved from the table
///
/// Checks the chain of headers, the bodies' hashes, that no input is missing, and that the lovelace
/// and the assets of every transaction balance. Exit code 1 when something does not hold.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder `immutable` of a node's database
    dir: PathBuf,
    /// Folder of the genesis files [default: DIR/../genesis]
    #[arg(long, value_name = "DIR")]
    genesis: Option<PathBuf>,
    /// Keep the store here and go on from its last snapshot [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Blocks between two snapshots of a kept store
    #[arg(long, value_name = "BLOCKS", default_value_t = 20_000, requires = "store", value_parser = clap::value_parser!(u64).range(1..))]
    snapshot_blocks: u64,
    /// Seconds between two snapshots of a kept store
    #[arg(long, value_name = "SECONDS", default_value_t = 20, requires = "store")]
    snapshot_seconds: u64,
    /// Write buffer of the table in KiB; a small one makes a short chain use the disk
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    write_buffer_kib: Option<u64>,
    /// Store pages compressed where that saves an eighth: for values that are alike
    #[arg(long, value_enum, default_value_t)]
    compression: CompressionKind,
    /// Replay the chain so many times into one table, each time under other keys
    #[arg(long, default_value_t = 1, conflicts_with = "store", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    rounds: u64,
    #[command(flatten)]
    tuning: Tuning,
    #[command(flatten)]
    sight: sight::Flags,
}

/// What a replay found, by the names that programs rely on.
#[derive(Debug, Serialize)]
struct Report {
    blocks: u64,
    batches: u64,
    transactions: u64,
    created: u64,
    spent: u64,
    unspent: u64,
    lovelace: u128,
    fees: u64,
    reference_inputs: u64,
    missing_inputs: u64,
    chain_breaks: u64,
    body_hash_mismatches: u64,
    ada_balanced: u64,
    assets_balanced: u64,
    last_header_hash: String,
    utxo_digest: String,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
    #[serde(flatten)]
    rounds: Option<rounds::Figures>,
    /// Of every action, with --timings.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<varvite_sight::Report>,
}

/// The table as a set of outputs.
struct Utxo {
    table: Table,
    values: Values,
    batch: Batch,
    salt: rounds::Salt,
    clock: rounds::Clock,
    timings: Option<Arc<sight::Observed>>,
    tracing: sight::Tracing,
    /// Transactions of all rounds before this one.
    earlier: u64,
}

impl UtxoSet for Utxo {
    fn resolve(&mut self, keys: &[Key], each: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let keys = self.salt.keys(keys);
        self.clock.start();
        self.table.lookup_into(&keys, &mut self.values)?;
        self.clock.stop(0);
        for (position, value) in self.values.iter().enumerate() {
            each(position, value);
        }
        Ok(())
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Result<()> {
        self.batch.clear();
        for change in changes {
            let key = self.salt.key(&change.key);
            match change.output {
                Some(output) => self.batch.insert(&key, output),
                None => self.batch.delete(&key),
            };
        }
        self.clock.start();
        self.table.update(&self.batch)?;
        self.clock.stop(changes.len() as u64);
        Ok(())
    }
}

/// Runs the replay and prints what it found.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let start = Instant::now();
    let chain = Chain::open(&arguments.dir)?;
    let beside = || arguments.dir.join("..").join("genesis");
    let genesis = Genesis::read(&arguments.genesis.clone().unwrap_or_else(beside))?;
    let temporary = match arguments.store {
        Some(_) => None,
        None => Some(temporary()?),
    };
    let kept = arguments.store.as_deref();
    let folder = kept.or(temporary.as_ref().map(tempfile::TempDir::path));
    let folder = folder.expect("either kept or temporary");
    let timings = arguments.sight.timings();
    let observer = timings.clone().map(|it| it as Arc<dyn Observer>);
    let tracing = sight::Tracing::to(arguments.sight.trace.as_deref(), Some(folder))?;
    let recorder = tracing.recorder();
    let tuned = SessionOptions { observer, recorder, ..arguments.tuning.options(folder)? };
    let session = tables::open_or_create(folder, tuned)?;
    let mut options = TableOptions::utxo();
    if let Some(kibibytes) = arguments.write_buffer_kib {
        options.write_buffer_bytes = kibibytes << 10;
    }
    options.compression = arguments.compression.into();
    let (mut set, mut ledger) = begin(&session, options, &chain, genesis.clone(), tracing)?;
    set.timings.clone_from(&timings);
    let resumed = ledger.progress.blocks;
    apply_chain(arguments, &session, &chain, &mut ledger, &mut set)?;
    if arguments.store.is_some() && ledger.progress.blocks > resumed {
        save(&session, &ledger.progress, &set.table)?;
    }
    let is_sound = |progress: &Progress| progress.sound();
    let mut sound = is_sound(&ledger.progress);
    let mut total = ledger.progress.clone();
    for round in 1..arguments.rounds {
        set.earlier = total.transactions;
        set.salt = rounds::Salt::of(round);
        ledger = Ledger::new(genesis.clone(), Progress::default());
        ledger.apply_genesis(&mut set)?;
        apply_chain(arguments, &session, &chain, &mut ledger, &mut set)?;
        sound &= is_sound(&ledger.progress);
        rounds::add(&mut total, &ledger.progress);
    }
    let figures = (arguments.rounds > 1).then(|| set.clock.figures(arguments.rounds));
    let mut report = sum_up(&total, &set.table, figures)?;
    report.timings = timings.as_ref().map(|it| it.report());
    let verdict = Verdict::found(sound);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => {
            let reads = session.stats();
            let lookups = (reads.pages_read, reads.keys_looked_up);
            // The table's own figures leave out what its write buffers hold and a snapshot has saved.
            let saved = print::bytes(measure::disk_bytes(folder));
            let disk = match kept {
                Some(_) => saved,
                None => format!("{saved}; nothing is saved without --store"),
            };
            show(&report, resumed, start.elapsed(), lookups, disk)?;
            report.timings.as_ref().map_or(Ok(()), sight::show)?;
        }
    }
    let Utxo { table, tracing, .. } = set;
    drop(table);
    session.close()?;
    Ok(exit::recorded(tracing.finish(), verdict))
}

/// The set and the ledger as the newest snapshot has them, or at genesis.
fn begin(
    session: &Session,
    new_table: TableOptions,
    chain: &Chain,
    genesis: Genesis,
    tracing: sight::Tracing,
) -> Result<(Utxo, Ledger)> {
    let (table, progress) = match last_snapshot(session)? {
        None => {
            if let Some(other) = session.list_snapshots()?.first() {
                return Err(Error::invalid(format!(
                    "{} holds snapshot \"{}\", which no replay made: choose another --store",
                    session.root(),
                    other.name
                )));
            }
            (session.create_table(TABLE, new_table)?, None)
        }
        Some(name) => {
            let mut options = tables::options(Verify::Quick);
            options.label = Some(LABEL.to_owned());
            let mut snapshot = session.open_snapshot(&name, &options)?;
            let progress = serde_json::from_slice(&snapshot.payload).map_err(|error| {
                Error::invalid(format!(
                    "the payload of snapshot \"{name}\" is not a replay's ({error}): choose \
                     another --store"
                ))
            })?;
            (snapshot.take(TABLE)?, Some(progress))
        }
    };
    let fresh = progress.is_none();
    let ledger = Ledger::new(genesis, progress.unwrap_or_default());
    let (salt, clock) = (rounds::Salt::default(), rounds::Clock::default());
    let (values, batch) = (Values::default(), Batch::new());
    let mut set = Utxo { table, values, batch, salt, clock, timings: None, tracing, earlier: 0 };
    if fresh {
        ledger.apply_genesis(&mut set)?;
    } else {
        check_same_chain(session, chain, &ledger.progress)?;
    }
    Ok((set, ledger))
}

/// Whether a replay saved it: those of users may begin like ours.
fn is_ours(info: &SnapshotInfo) -> bool {
    let digits = info.name.strip_prefix(PREFIX).unwrap_or_default();
    let is_number = digits.len() == 10 && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number && (info.label == LABEL || info.damage.is_some())
}

/// The replay's snapshot with the most blocks.
fn last_snapshot(session: &Session) -> Result<Option<String>> {
    let snapshots = session.list_snapshots()?;
    let ours = snapshots.into_iter().filter(is_ours).map(|info| info.name);
    Ok(ours.max()) // zeros in the number keep names in order
}

/// `Invalid` when the last block that the store knows is not in this chain.
fn check_same_chain(session: &Session, chain: &Chain, progress: &Progress) -> Result<()> {
    let Place { chunk, offset } = progress.last;
    if progress.blocks == 0 {
        return Ok(());
    }
    if chunk >= chain.chunks() {
        return Err(Error::invalid(format!(
            "{} has the chain up to {chunk:05}.chunk, which is not there any more: give the folder \
             that it was filled from, or choose another --store",
            session.root()
        )));
    }
    let last = chain.chunk(chunk)?;
    let found = last.block(offset)?.map(|(block, _)| hex::encode(&block.header.hash));
    if found.as_deref() == Some(progress.last_header_hash.as_str()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} was filled from another chain: block {} there is not the one in {chunk:05}.chunk; \
         choose another --store",
        session.root(),
        progress.last_header_hash
    )))
}

fn apply_chain(
    arguments: &Arguments,
    session: &Session,
    chain: &Chain,
    ledger: &mut Ledger,
    set: &mut Utxo,
) -> Result<()> {
    let mut bar = Bar::new("replaying", chain.bytes(), Unit::Bytes);
    let (cpu_before, cpu_start) = (ledger.progress.cpu_ns, measure::cpu_ns());
    let sampled_before = set.tracing.sampling_ns();
    // What samples of a recording take is no store's time.
    let cpu = |tracing: &sight::Tracing| {
        cpu_before + (measure::cpu_ns() - cpu_start) - (tracing.sampling_ns() - sampled_before)
    };
    let mut saved_blocks = ledger.progress.blocks;
    let mut saved_at = Instant::now();
    let first = ledger.progress.next;
    let mut done = chain.bytes_before(first)?;
    // From here on: what a replay that goes on had before is not done in this recording.
    set.tracing.count("transactions", set.earlier + ledger.progress.transactions);
    for number in first.chunk..chain.chunks() {
        let chunk = chain.chunk(number)?;
        let mut offset = if number == first.chunk { first.offset } else { 0 };
        while let Some((block, end)) = chunk.block(offset)? {
            let place = Place { chunk: number, offset };
            let next = Place { chunk: number, offset: end };
            set.tracing.mark(&format!("slot {}", block.header.slot));
            set.tracing.tick();
            ledger.apply(&block, place, next, set).map_err(|failure| match failure {
                Failure::Cbor(error) => chunk.unreadable(offset, &error),
                Failure::Set(error) => error,
            })?;
            set.tracing.count("transactions", set.earlier + ledger.progress.transactions);
            if let Some(timings) = &set.timings {
                timings.end_block(&ledger.progress.last_header_hash);
            }
            done += end - offset;
            offset = end;
            bar.set(done);
            ledger.progress.cpu_ns = cpu(&set.tracing);
            let due = ledger.progress.blocks - saved_blocks >= arguments.snapshot_blocks
                || saved_at.elapsed() >= Duration::from_secs(arguments.snapshot_seconds);
            if arguments.store.is_some() && due {
                save(session, &ledger.progress, &set.table)?;
                (saved_blocks, saved_at) = (ledger.progress.blocks, Instant::now());
            }
        }
    }
    bar.finish();
    ledger.progress.cpu_ns = cpu(&set.tracing);
    Ok(())
}

/// Saves the state, then removes the snapshots before it.
fn save(session: &Session, progress: &Progress, table: &Table) -> Result<()> {
    let name = format!("{PREFIX}{:010}", progress.blocks);
    let payload = serde_json::to_vec(progress).expect("progress is plain data");
    let content = SnapshotContent { label: LABEL, payload: &payload, tables: &[table] };
    match session.save_snapshot(&name, content) {
        Err(error) if error.kind() != Kind::Exists => return Err(error),
        _ => {}
    }
    for info in session.list_snapshots()? {
        if is_ours(&info) && info.name != name {
            session.delete_snapshot(&info.name)?;
        }
    }
    Ok(())
}

/// Walks the whole table for what is left and its digest.
fn sum_up(progress: &Progress, table: &Table, rounds: Option<rounds::Figures>) -> Result<Report> {
    let cpu_before = measure::cpu_ns();
    let (mut unspent, mut total) = (0, 0u128);
    let mut hasher = Sha256::new();
    let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded)?;
    while let Some((key, output)) = cursor.next()? {
        let amount = lovelace(output).map_err(|error| {
            Error::invalid(format!("the table holds something that is not an output: {error}"))
        })?;
        unspent += 1;
        total += u128::from(amount);
        hasher.update(&key[..32]);
        hasher.update([0, 0]); // the digest has indexes of 32 bits, keys have 16
        hasher.update(&key[32..]);
        hasher.update(amount.to_be_bytes());
    }
    let cpu_ns = progress.cpu_ns + measure::cpu_ns() - cpu_before;
    Ok(Report {
        blocks: progress.blocks,
        batches: progress.batches,
        transactions: progress.transactions,
        created: progress.created,
        spent: progress.spent,
        unspent,
        lovelace: total,
        fees: progress.fees,
        reference_inputs: progress.reference_inputs,
        missing_inputs: progress.missing_inputs,
        chain_breaks: progress.chain_breaks,
        body_hash_mismatches: progress.body_hash_mismatches,
        ada_balanced: progress.ada_balanced,
        assets_balanced: progress.assets_balanced,
        last_header_hash: progress.last_header_hash.clone(),
        utxo_digest: hex::encode(&hasher.finalize()),
        cpu_seconds: cpu_ns as f64 / 1e9,
        peak_rss_bytes: measure::peak_rss_bytes(),
        rounds,
        timings: None,
    })
}

fn show(
    report: &Report,
    resumed: u64,
    took: Duration,
    (pages_read, keys): (u64, u64),
    disk: String,
) -> std::io::Result<()> {
    let count = print::count;
    let ada = |lovelace: u128| {
        let whole = u64::try_from(lovelace / 1_000_000).unwrap_or(u64::MAX);
        format!("{}.{:06}", count(whole), lovelace % 1_000_000)
    };
    let mark = |sound: bool| if sound { "✓" } else { "✗" };
    let zero = |number: u64| format!("{} {}", count(number), mark(number == 0));
    let all = |number: u64| {
        let sound = number == report.transactions;
        format!("{} of {} {}", count(number), count(report.transactions), mark(sound))
    };
    let mut rows = vec![
        ("blocks", count(report.blocks)),
        ("batches (blocks with transactions)", count(report.batches)),
        ("transactions", count(report.transactions)),
        ("outputs created", count(report.created)),
        ("outputs spent", count(report.spent)),
        ("outputs left", count(report.unspent)),
        ("ada left", ada(report.lovelace)),
        ("ada paid in fees", ada(report.fees.into())),
        ("reference inputs", count(report.reference_inputs)),
        ("missing inputs", zero(report.missing_inputs)),
        ("breaks in the chain of headers", zero(report.chain_breaks)),
        ("bodies that are not their header's", zero(report.body_hash_mismatches)),
        ("transactions whose ada balances", all(report.ada_balanced)),
        ("transactions whose assets balance", all(report.assets_balanced)),
        ("last header", report.last_header_hash.clone()),
        ("digest of what is left", report.utxo_digest.clone()),
    ];
    rows.extend(report.rounds.iter().flat_map(rounds::Figures::rows));
    if resumed > 0 {
        rows.push(("blocks of earlier runs", count(resumed)));
    }
    rows.extend([
        ("time", print::seconds(took.as_secs_f64())),
        ("processor time, all runs", print::seconds(report.cpu_seconds)),
        ("peak memory", print::bytes(report.peak_rss_bytes)),
        ("store on disk", disk),
        ("pages read per lookup", format!("{:.3}", pages_read as f64 / keys.max(1) as f64)),
    ]);
    print::line(&print::record(&rows).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_exactly_the_keys_that_programs_rely_on() {
        let disk = varvite::disk::memory::MemoryDisk::seeded(1);
        let session = Session::create(disk, varvite::SessionOptions::default()).unwrap();
        let table = session.create_table(TABLE, TableOptions::utxo()).unwrap();
        let report = sum_up(&Progress::default(), &table, None).unwrap();
        let value = serde_json::to_value(report).unwrap();
        let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = [
            "blocks",
            "batches",
            "transactions",
            "created",
            "spent",
            "unspent",
            "lovelace",
            "fees",
            "reference_inputs",
            "missing_inputs",
            "chain_breaks",
            "body_hash_mismatches",
            "ada_balanced",
            "assets_balanced",
            "last_header_hash",
            "utxo_digest",
            "cpu_seconds",
            "peak_rss_bytes",
        ];
        keys.sort_unstable();
        expected.sort_unstable();
        assert_eq!(keys, expected);
    }
}
