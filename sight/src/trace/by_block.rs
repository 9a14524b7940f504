//! Time by action of each block: a point is one block, or as many as make no more points than a chart shows.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use varvite::trace::Action;

/// Points at most; where there would be more, two become one.
const POINTS_MAX: usize = 480;

/// A block, or several that follow each other.
#[derive(Clone, Debug, Serialize)]
pub struct BlockTime {
    /// How many blocks came before it.
    pub number: u64,
    /// How many they are.
    pub blocks: u64,
    /// The slowest of them: its commit's hash, or what the host called it.
    pub name: String,
    /// Time in the calls of that one.
    pub slowest_ms: f64,
    /// When the last of them ended.
    pub second: f64,
    /// Transactions of all, where the host told of any.
    pub transactions: u64,
    /// Time in each action, of all.
    pub total_ms: BTreeMap<&'static str, f64>,
}

#[derive(Clone, Debug)]
struct Part {
    number: u64,
    blocks: u64,
    name: String,
    slowest_ns: u64,
    end_ns: u64,
    transactions: u64,
    total_ns: BTreeMap<Action, u64>,
}

impl Part {
    fn join(&mut self, other: Part) {
        self.blocks += other.blocks;
        if other.slowest_ns > self.slowest_ns {
            (self.name, self.slowest_ns) = (other.name, other.slowest_ns);
        }
        self.end_ns = other.end_ns;
        self.transactions = self.transactions.saturating_add(other.transactions);
        for (action, ns) in other.total_ns {
            let sum = self.total_ns.entry(action).or_default();
            *sum = sum.saturating_add(ns);
        }
    }
}

/// Blocks being gathered: those whose numbers are asked for.
#[derive(Clone, Debug)]
pub struct ByBlock {
    asked: Range<u64>,
    ended: u64,
    width: u64,
    parts: Vec<Part>,
    under_way: BTreeMap<Action, u64>,
}

impl ByBlock {
    pub fn new(asked: Range<u64>) -> ByBlock {
        ByBlock { asked, ended: 0, width: 1, parts: Vec::new(), under_way: BTreeMap::new() }
    }

    /// Counts a call that the host made.
    pub fn add(&mut self, action: Action, duration_ns: u64) {
        let sum = self.under_way.entry(action).or_default();
        *sum = sum.saturating_add(duration_ns);
    }

    /// Forgets what was counted since the last block.
    pub fn forget(&mut self) {
        self.under_way.clear();
    }

    /// Ends a block called `name`, whose calls took `slowest_ns` in all.
    pub fn end(&mut self, name: &str, end_ns: u64, slowest_ns: u64, transactions: u64) {
        let (number, total_ns) = (self.ended, std::mem::take(&mut self.under_way));
        self.ended += 1;
        if !self.asked.contains(&number) {
            return;
        }
        let name = name.to_owned();
        let part = Part { number, blocks: 1, name, slowest_ns, end_ns, transactions, total_ns };
        match self.parts.last_mut() {
            Some(last) if last.blocks < self.width => last.join(part),
            _ => self.parts.push(part),
        }
        if self.parts.len() > POINTS_MAX {
            let mut parts = std::mem::take(&mut self.parts).into_iter();
            while let Some(mut first) = parts.next() {
                if let Some(second) = parts.next() {
                    first.join(second);
                }
                self.parts.push(first);
            }
            self.width *= 2;
        }
    }

    /// Whether all that is asked for is there.
    pub fn is_full(&self) -> bool {
        self.ended >= self.asked.end
    }

    /// The points.
    pub fn points(self) -> Vec<BlockTime> {
        let ms = |ns: u64| ns as f64 / 1e6;
        let point = |part: Part| BlockTime {
            number: part.number,
            blocks: part.blocks,
            name: part.name,
            slowest_ms: ms(part.slowest_ns),
            second: part.end_ns as f64 / 1e9,
            transactions: part.transactions,
            total_ms: part.total_ns.iter().map(|(it, ns)| (it.name(), ms(*ns))).collect(),
        };
        self.parts.into_iter().map(point).collect()
    }
}
