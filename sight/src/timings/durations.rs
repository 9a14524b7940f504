//! Counts of durations, in the classes that a histogram of two digits has: a record is two additions, and the
//! histogram is made when somebody asks for figures.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Classes of one length between a power of two and the next.
const HALF: u64 = 128;

/// The longest that is told apart; what is longer counts as a day.
const DAY_NS: u64 = 86_400_000_000_000;

/// How often a duration of each class was told.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    counts: Vec<u32>,
    /// All of them.
    told: u64,
    longest_ns: u64,
    /// What classes had before their count could grow no more and began anew: few ever do.
    before: BTreeMap<usize, u64>,
}

/// The class of a duration: each of its own below 256 ns, then 128 of a length for each power of two.
fn class(duration_ns: u64) -> usize {
    // The highest eight bits are kept, and how many there are behind them.
    let behind = u64::from(56 - (duration_ns | 0xff).leading_zeros());
    (behind * HALF + (duration_ns >> behind)) as usize
}

/// The shortest duration of a class.
fn shortest(class: usize) -> u64 {
    let class = class as u64;
    let behind = (class / HALF).saturating_sub(1);
    (class - behind * HALF) << behind
}

impl Durations {
    /// Adds one.
    pub fn record(&mut self, duration_ns: u64) {
        self.told = self.told.saturating_add(1);
        self.longest_ns = self.longest_ns.max(duration_ns);
        let class = class(duration_ns.min(DAY_NS));
        if class >= self.counts.len() {
            // Most of what is told once is told again within a few powers of two.
            let classes = class + HALF as usize;
            self.counts.reserve_exact(classes - self.counts.len());
            self.counts.resize(classes, 0);
        }
        if self.counts[class] == u32::MAX {
            self.carry(class);
        }
        self.counts[class] += 1;
    }

    /// Begins the count of a class anew.
    #[cold]
    fn carry(&mut self, class: usize) {
        let count = std::mem::take(&mut self.counts[class]);
        let before = self.before.entry(class).or_default();
        *before = before.saturating_add(u64::from(count));
    }

    /// How many there were.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// The longest.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// Adds all of them to `histogram`, which grows by itself.
    pub fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (class, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            // It has the same classes, so the shortest stands for all; a day is nothing that it cannot hold.
            let before = self.before.get(&class).copied().unwrap_or(0);
            let _ = histogram.record_n(shortest(class), before.saturating_add(u64::from(*count)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `Limits::prefixes` says of it.
    #[test]
    fn an_action_takes_21_kb_at_most() {
        let mut all = Durations::default();
        for power in 0..64 {
            all.record(1 << power);
        }
        let bytes = all.counts.capacity() * size_of::<u32>();
        assert!((20_000..21_500).contains(&bytes), "{bytes}");
    }

    /// Finds in memory take less than 256 ns, where a class has one nanosecond: it is full within days.
    #[test]
    fn a_class_that_is_full_counts_on() {
        let mut all = Durations::default();
        for duration in [5, 5, 100, 1_000] {
            all.record(duration);
        }
        all.counts[5] = u32::MAX;
        all.told = u64::from(u32::MAX) + 2;
        // By turns, and a single one that is longer than all.
        for _ in 0..10 {
            all.record(5);
            all.record(1_000);
        }
        all.record(90_000);
        assert_eq!(all.told(), u64::from(u32::MAX) + 23);
        let mut found: Histogram<u64> = Histogram::new(2).unwrap();
        all.add_to(&mut found);
        let of = |duration| found.count_at(duration);
        assert_eq!(of(5), u64::from(u32::MAX) + 10);
        assert_eq!((of(100), of(1_000), of(90_000)), (1, 11, 1));
        assert_eq!(found.len(), all.told());
        // Until it is full again, and again.
        for _ in 0..40 {
            all.counts[5] = u32::MAX;
            all.record(5);
        }
        let mut found: Histogram<u64> = Histogram::new(2).unwrap();
        all.add_to(&mut found);
        assert_eq!(found.count_at(5), 41 * u64::from(u32::MAX) + 1);
    }

    #[test]
    fn classes_are_those_of_the_histogram() {
        let mut all = Durations::default();
        let mut expected: Histogram<u32> = Histogram::new(2).unwrap();
        for power in 0..64 {
            for near in [0, 1, 2, 3, 77] {
                for duration in [(1_u64 << power) + (near << power >> 7), (1 << power) - 1] {
                    let class = class(duration.min(DAY_NS));
                    assert!(
                        shortest(class) <= duration && duration.min(DAY_NS) < shortest(class + 1)
                    );
                    all.record(duration);
                    expected.record(duration.min(DAY_NS)).unwrap();
                }
            }
        }
        let mut found: Histogram<u64> = Histogram::new(2).unwrap();
        all.add_to(&mut found);
        assert_eq!((found.len(), found.max()), (expected.len(), expected.max()));
        for share in 0..=1000 {
            let share = f64::from(share) / 1e3;
            assert_eq!(
                found.value_at_quantile(share),
                expected.value_at_quantile(share),
                "{share}"
            );
        }
    }
}
