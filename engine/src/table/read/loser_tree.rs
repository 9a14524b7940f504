//! A tree of losers: which of many sources is first, told anew in O(log sources) comparisons.
//!
//! Each leaf is a source, each inner node has the one that lost there, and the root the one that never
//! did. When that one changes, only the nodes above its leaf are played again.
//!
//! A merge's few sources are alike, and there a [scan](crate::table::merge) is quicker, whose branches nobody
//! has to guess. A cursor's are of very different lengths, from a write buffer to the last level, so most
//! games end as they did before: from four sources on the tree wins, and below they differ by nanoseconds.
//!
//! Source: Knuth 1973, The Art of Computer Programming, volume 3, section 5.4.1.

/// See the module. What comes first is the caller's to say, in the same way until the next rebuilding.
#[derive(Debug, Default)]
pub struct LoserTree {
    /// The first of all, then the losers: the children of node `i` are `2i` and `2i + 1`, and those that
    /// are not below its length are the leaves, `length + source`.
    nodes: Vec<u32>,
    /// Who won below each node, while it is rebuilt.
    winners: Vec<u32>,
}

impl LoserTree {
    /// Plays `count` sources against each other: `is_before` says of two which one comes first.
    /// `count - 1` comparisons.
    pub fn rebuild(&mut self, count: usize, mut is_before: impl FnMut(usize, usize) -> bool) {
        self.nodes.clear();
        self.nodes.resize(count, 0);
        let winners = &mut self.winners;
        winners.resize(count, 0);
        for node in (1..count).rev() {
            let [one, other] = [2 * node, 2 * node + 1]
                .map(|child| if child < count { winners[child] } else { (child - count) as u32 });
            let wins = is_before(one as usize, other as usize);
            (winners[node], self.nodes[node]) = if wins { (one, other) } else { (other, one) };
        }
        if count > 1 {
            self.nodes[0] = winners[1];
        }
    }

    /// The first source; `None` when there are none.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.nodes.first().map(|&source| source as usize)
    }

    /// Plays again for the first source, which has changed. At most log2(sources), rounded up,
    /// comparisons.
    #[inline]
    pub fn replay(&mut self, mut is_before: impl FnMut(usize, usize) -> bool) {
        let Some(&first) = self.nodes.first() else { return };
        let mut winner = first;
        let mut node = self.nodes.len().midpoint(first as usize);
        while node > 0 {
            if is_before(self.nodes[node] as usize, winner as usize) {
                std::mem::swap(&mut self.nodes[node], &mut winner);
            }
            node /= 2;
        }
        self.nodes[0] = winner;
    }
}

impl LoserTree {
    /// Those that lost against the first one: of all others, one of them is the first.
    #[inline]
    pub fn losers(&self) -> impl Iterator<Item = usize> {
        let length = self.nodes.len();
        let mut node = self.first().map_or(0, |first| length.midpoint(first));
        std::iter::from_fn(move || {
            let loser = (node > 0).then(|| self.nodes[node] as usize)?;
            node /= 2;
            Some(loser)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hash::Salt;

    /// Merges `count` lists through the tree; the numbers in order, and how many comparisons it took.
    fn merged(lists: &[Vec<u64>]) -> (Vec<(u64, usize)>, u64) {
        let mut places = vec![0; lists.len()];
        let mut compared = 0;
        let mut tree = LoserTree::default();
        let mut out = Vec::new();
        let head = |places: &[usize], list: usize| {
            (lists[list].get(places[list]).copied().unwrap_or(u64::MAX), list)
        };
        tree.rebuild(lists.len(), |one, other| {
            compared += 1;
            head(&places, one) < head(&places, other)
        });
        while let Some(first) = tree.first() {
            let Some(&number) = lists[first].get(places[first]) else { break };
            out.push((number, first));
            places[first] += 1;
            tree.replay(|one, other| {
                compared += 1;
                head(&places, one) < head(&places, other)
            });
        }
        (out, compared)
    }

    #[test]
    fn the_least_comes_first_and_of_equals_the_first_source() {
        let salt = Salt::new(1);
        let draw = |seed: u64, below: u64| salt.hash(&seed.to_le_bytes()) % below;
        for count in 0..40_u64 {
            let lists: Vec<Vec<u64>> = (0..count)
                .map(|list| {
                    let seed = (count * 64 + list) * 16;
                    let mut list: Vec<_> =
                        (1..=draw(seed, 9)).map(|number| draw(seed + number, 20)).collect();
                    list.sort_unstable();
                    list
                })
                .collect();
            let all = lists.iter().enumerate();
            let mut expected: Vec<_> =
                all.flat_map(|(list, numbers)| numbers.iter().map(move |it| (*it, list))).collect();
            expected.sort_unstable();
            assert_eq!(merged(&lists).0, expected, "{count}");
        }
    }

    #[test]
    fn a_step_compares_as_often_as_the_sources_can_be_halved() {
        for count in [1_u64, 2, 3, 10, 100, 1_000, 10_000] {
            let lists: Vec<Vec<u64>> =
                (0..count).map(|list| (0..10).map(|step| step * count + list).collect()).collect();
            let (out, compared) = merged(&lists);
            let depth = u64::from(count.next_power_of_two().ilog2());
            assert_eq!(out.len() as u64, 10 * count);
            assert!(compared < count + (out.len() as u64) * depth + 1, "{count}: {compared}");
        }
    }
}
