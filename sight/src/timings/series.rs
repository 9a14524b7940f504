//! Sums and a histogram for each action of each prefix.

use std::collections::HashMap;

use rapidhash::fast::RandomState;
use varvite::{OperationCost, context};

use super::durations::Durations;
use super::{Face, Limits};
use crate::text;

/// An action's number: a context's operation, or a table's behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionId(u8);

/// How many actions there may be.
pub const ACTIONS: usize = 64;

const TABLE: u8 = 48;

/// A context's action.
pub fn context_action(operation: context::Operation) -> ActionId {
    ActionId((operation as u8).min(TABLE - 1))
}

/// A table's action.
pub fn table_action(operation: varvite::Operation) -> ActionId {
    ActionId(TABLE + (operation as u8).min(ACTIONS as u8 - 1 - TABLE))
}

/// Names of a context's operations, in their order.
const CONTEXT_NAMES: [&str; 35] = [
    "find",
    "mem",
    "mem_tree",
    "find_tree",
    "list",
    "length",
    "fold",
    "diff",
    "merge",
    "add",
    "add_tree",
    "remove",
    "hash",
    "spill",
    "checkout",
    "commit",
    "exists",
    "log",
    "history",
    "branch",
    "reload",
    "checkpoint",
    "begin_chunk",
    "clear",
    "check",
    "rebuild_index",
    "commit_info",
    "collect",
    "collect_step",
    "pin",
    "archive",
    "unarchive",
    "attach",
    "export",
    "import",
];

/// Names of a table's.
const TABLE_NAMES: [&str; 13] = [
    "lookup",
    "update",
    "merge",
    "save_snapshot",
    "open_snapshot",
    "log",
    "checkpoint",
    "get",
    "range",
    "transaction",
    "open_table",
    "duplicate",
    "delete_table",
];

impl ActionId {
    /// The action at a place among all.
    pub fn at(index: usize) -> ActionId {
        ActionId(index as u8)
    }

    /// What it is called; `other` for one that a later release of the engine tells of.
    pub fn name(self) -> String {
        let name = match self.face() {
            Face::Context => CONTEXT_NAMES.get(self.index()),
            Face::Table => TABLE_NAMES.get(self.index() - usize::from(TABLE)),
        };
        name.copied().unwrap_or("other").to_owned()
    }

    /// Whether its time is within that of another action too, or has that of others in it.
    pub fn is_inner(self) -> bool {
        use context::Operation::{BeginChunk, Checkpoint, Import, Spill};
        use varvite::Operation as Table;
        const INNER: u64 = 1 << Spill as u8
            | 1 << Checkpoint as u8
            | 1 << BeginChunk as u8
            | 1 << Import as u8
            | 1 << (TABLE + Table::Merge as u8)
            | 1 << (TABLE + Table::Log as u8)
            | 1 << (TABLE + Table::Checkpoint as u8)
            | 1 << (TABLE + Table::Transaction as u8);
        INNER >> self.0 & 1 == 1
    }

    /// Its place among all.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Which face it is of.
    pub fn face(self) -> Face {
        if self.0 < TABLE { Face::Context } else { Face::Table }
    }
}

/// What actions cost, of either face.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub cache_hits: u64,
    pub reads: u64,
    pub sync_ns: u64,
}

impl Cost {
    pub fn of_context(cost: &context::Cost) -> Cost {
        Cost {
            bytes_read: cost.bytes_read,
            bytes_written: cost.bytes_written,
            cache_hits: cost.node_hits + cost.page_hits,
            reads: cost.page_misses,
            sync_ns: cost.sync_ns,
        }
    }

    pub fn of_table(cost: &OperationCost) -> Cost {
        Cost {
            bytes_read: cost.bytes_read,
            bytes_written: cost.bytes_written,
            cache_hits: cost.cache_hits,
            reads: cost.pages_read,
            sync_ns: cost.sync_ns,
        }
    }

    fn add(&mut self, other: &Cost) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut self.cache_hits, other.cache_hits);
        // Most find all in memory.
        if other.bytes_read | other.bytes_written | other.reads | other.sync_ns == 0 {
            return;
        }
        add(&mut self.bytes_read, other.bytes_read);
        add(&mut self.bytes_written, other.bytes_written);
        add(&mut self.reads, other.reads);
        add(&mut self.sync_ns, other.sync_ns);
    }
}

/// One action of one prefix.
#[derive(Clone, Debug)]
pub struct Sums {
    pub action: ActionId,
    /// What it is called, for one that was told of.
    pub prefix: usize,
    pub things: u64,
    pub total_ns: u64,
    pub cost: Cost,
    pub durations: Durations,
}

/// The longest prefix that is told apart; one that is longer counts with the prefix of fewer steps.
const KEY_BYTES: usize = 128;

/// Prefixes that are compared before any is looked up.
const RECENT: usize = 4;

/// What a step of up to 16 bytes is told from others by, and most of the longer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ends {
    length: usize,
    /// The first 8 bytes; of a shorter step the first 4, or all.
    first: u64,
    /// As many of the last ones.
    last: u64,
}

impl Ends {
    fn of(step: &[u8]) -> Ends {
        let length = step.len();
        let (first, last) = match (step.first_chunk(), step.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => short(step),
        };
        Ends { length, first, last }
    }
}

/// The ends of a step of less than 8 bytes.
fn short(step: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (step.first_chunk(), step.last_chunk()) {
        return (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into());
    }
    (step.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
}

/// A prefix that was asked for not long ago: its number, and the ends of its steps.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    number: usize,
    steps: usize,
    ends: [Ends; context::PREFIX_STEPS],
    /// Whether a step is longer than what its ends tell.
    is_long: bool,
}

impl Recent {
    fn of(number: usize, prefix: &[&[u8]]) -> Recent {
        let mut recent = Recent { number, steps: prefix.len(), ..Recent::default() };
        recent.ends.iter_mut().zip(prefix).for_each(|(to, step)| *to = Ends::of(step));
        recent.is_long = prefix.iter().any(|step| step.len() > 16);
        recent
    }
}

/// Whether `key` stands for the steps of `prefix`.
fn is_of(key: &[u8], prefix: &[&[u8]]) -> bool {
    let mut rest = key;
    let same = prefix.iter().all(|step| match rest.split_first() {
        Some((length, after)) if usize::from(*length) == step.len() && after.starts_with(step) => {
            rest = &after[step.len()..];
            true
        }
        _ => false,
    });
    same && rest.is_empty()
}

/// All sums, by prefix and action.
#[derive(Clone, Debug)]
pub struct Series {
    prefixes_max: usize,
    /// Which prefix has which number. Steps stand behind their lengths.
    numbers: HashMap<Box<[u8]>, usize, RandomState>,
    prefixes: Vec<Box<[u8]>>,
    /// For each prefix and action where its sums are, plus one.
    places: Vec<[u16; ACTIONS]>,
    sums: Vec<Sums>,
    /// Prefixes that were asked for, not all of them long ago.
    recent: [Recent; RECENT],
}

impl Series {
    pub fn new(prefixes_max: usize) -> Series {
        let mut series = Series {
            prefixes_max: prefixes_max.min(Limits::PREFIXES_MAX),
            numbers: HashMap::default(),
            prefixes: Vec::new(),
            places: Vec::new(),
            sums: Vec::new(),
            recent: [Recent::default(); RECENT],
        };
        series.reset();
        series
    }

    pub fn reset(&mut self) {
        self.numbers.clear();
        self.prefixes.clear();
        self.places.clear();
        self.sums.clear();
        self.recent = [Recent::of(self.new_prefix(&[]), &[]); RECENT];
    }

    fn new_prefix(&mut self, key: &[u8]) -> usize {
        let number = self.prefixes.len();
        self.prefixes.push(key.into());
        self.numbers.insert(key.into(), number);
        self.places.push([0; ACTIONS]);
        number
    }

    /// The number of `prefix`, or of as many of its steps as have one.
    fn number(&mut self, prefix: &[&[u8]]) -> usize {
        // Mostly it is one of the last few, which costs a comparison of some words.
        let known = self.recent.iter().find(|recent| {
            let same = recent.steps == prefix.len()
                && prefix.iter().zip(&recent.ends).all(|(step, ends)| Ends::of(step) == *ends);
            same && (!recent.is_long || is_of(&self.prefixes[recent.number], prefix))
        });
        match known {
            Some(recent) => recent.number,
            None => self.looked_up(prefix),
        }
    }

    #[inline(never)]
    fn looked_up(&mut self, asked: &[&[u8]]) -> usize {
        let mut prefix = asked;
        let number = loop {
            let mut key = [0; KEY_BYTES];
            let mut length = 0;
            let fits = prefix.iter().all(|step| {
                let end = length + 1 + step.len();
                let fits = end <= KEY_BYTES;
                if fits {
                    key[length] = step.len() as u8;
                    key[length + 1..end].copy_from_slice(step);
                    length = end;
                }
                fits
            });
            let key = &key[..length];
            if let Some(number) = self.numbers.get(key).filter(|_| fits) {
                break *number;
            }
            // The empty prefix is always there, and does not count.
            if fits && self.prefixes.len() <= self.prefixes_max {
                break self.new_prefix(key);
            }
            prefix = &prefix[..prefix.len() - 1];
        };
        if asked.len() == prefix.len() && asked.len() <= context::PREFIX_STEPS {
            self.recent.rotate_right(1);
            self.recent[0] = Recent::of(number, prefix);
        }
        number
    }

    /// Adds an action on `things` things.
    pub fn record(
        &mut self,
        action: ActionId,
        prefix: &[&[u8]],
        duration_ns: u64,
        things: u64,
        cost: &Cost,
    ) {
        let prefix = self.number(prefix);
        let place = &mut self.places[prefix][action.index()];
        if *place == 0 {
            let (cost, durations) = (Cost::default(), Durations::default());
            self.sums.push(Sums { action, prefix, things: 0, total_ns: 0, cost, durations });
            *place = self.sums.len() as u16;
        }
        let sums = &mut self.sums[usize::from(*place) - 1];
        sums.things = sums.things.saturating_add(things);
        sums.total_ns = sums.total_ns.saturating_add(duration_ns);
        sums.cost.add(cost);
        sums.durations.record(duration_ns);
    }

    /// All sums.
    pub fn all(&self) -> &[Sums] {
        &self.sums
    }

    /// A prefix as text: its steps, joined by `/`.
    pub fn text(&self, prefix: usize) -> String {
        let mut rest = &*self.prefixes[prefix];
        text::path(std::iter::from_fn(|| {
            let (length, after) = rest.split_first()?;
            let (step, after) = after.split_at(usize::from(*length));
            rest = after;
            Some(step)
        }))
    }
}
