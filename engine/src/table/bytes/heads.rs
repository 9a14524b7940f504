//! The heads of a segment's keys while it is written: ascending numbers in some two bytes each.
//!
//! Each is kept as its difference to the one before, in a coding of one byte for seven bits. Where that takes too
//! much, the lowest bits go, of all heads alike: a range filter, whose buckets are far wider than what is left
//! out, then sets the buckets that a head may be in. Invariant: a head lies within the `2^shift` numbers from its
//! step on, and the first and the last are known exactly.

/// Bytes of a piece, so that nothing is copied as they grow in number.
const PIECE_BYTES: usize = 16 << 10;
/// The most that a step takes.
const STEP_BYTES_MAX: usize = 10;
/// Steps may take two bytes and a half each, and this many together before.
const FREE_BYTES: usize = 4 << 10;
/// How many bits go at a time.
const COARSER_BITS: u32 = 3;

/// Different heads, in ascending order.
#[derive(Debug, Default)]
pub struct HeadList {
    first: u64,
    last: u64,
    count: usize,
    /// How many of their lowest bits were left out.
    shift: u32,
    pieces: Vec<Vec<u8>>,
    /// Bytes in all pieces.
    length: usize,
}

impl HeadList {
    /// How many were added.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first and the last; `None` when there is none.
    pub fn ends(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.first, self.last))
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.pieces.iter().map(Vec::capacity).sum()
    }

    /// Adds a head that is not below the last one; one that equals it is there already.
    #[inline]
    pub fn add(&mut self, head: u64) {
        if self.count == 0 {
            self.first = head;
        } else if head == self.last {
            return;
        } else {
            self.push((head >> self.shift) - (self.last >> self.shift));
        }
        self.last = head;
        self.count += 1;
        if self.length > FREE_BYTES + 5 * self.count / 2 {
            self.recode(self.shift + COARSER_BITS);
        }
    }

    /// Appends a step, unless it is none.
    #[inline]
    fn push(&mut self, mut step: u64) {
        if step == 0 {
            return;
        }
        if self.pieces.last().is_none_or(|it| it.capacity() - it.len() < STEP_BYTES_MAX) {
            self.pieces.push(Vec::with_capacity(PIECE_BYTES));
        }
        let Some(piece) = self.pieces.last_mut() else { return };
        let before = piece.len();
        while step >= 0x80 {
            piece.push(step as u8 | 0x80);
            step >>= 7;
        }
        piece.push(step as u8);
        self.length += piece.len() - before;
    }

    /// Keeps all heads without their `shift` lowest bits.
    #[cold]
    fn recode(&mut self, shift: u32) {
        let by = shift - self.shift;
        let old = HeadList { pieces: std::mem::take(&mut self.pieces), ..*self };
        (self.shift, self.length) = (shift, 0);
        let mut last = self.first >> shift;
        old.each_step(|it| {
            self.push((it >> by) - last);
            last = it >> by;
        });
    }

    /// Calls `each` with every head without its lowest bits, those that are equal then once.
    fn each_step(&self, mut each: impl FnMut(u64)) {
        let mut at = self.first >> self.shift;
        each(at);
        for piece in &self.pieces {
            let (mut step, mut bits) = (0, 0);
            for &byte in piece {
                step |= u64::from(byte & 0x7f) << bits;
                bits += 7;
                if byte < 0x80 {
                    at += step;
                    each(at);
                    (step, bits) = (0, 0);
                }
            }
        }
    }

    /// Calls `each` with the least and the greatest number that a head may be, in ascending order.
    pub fn each(&self, mut each: impl FnMut(u64, u64)) {
        if self.count > 0 {
            let rest = (1 << self.shift) - 1;
            self.each_step(|it| {
                let low = it << self.shift;
                each(low.max(self.first), (low | rest).min(self.last));
            });
        }
    }

    /// Puts `bits` bits in front of all, those of `top`, of which as many fall off at the end.
    pub fn put_in_front(&mut self, top: u64, bits: u32) {
        if self.count == 0 {
            return;
        }
        let behind = |head: u64| top | head.checked_shr(bits).unwrap_or(0);
        let old = HeadList { pieces: std::mem::take(&mut self.pieces), ..*self };
        let (first, last) = (behind(self.first), behind(self.last));
        // Where fewer bits fall off than were left out, steps stay as they are, and how many of the
        // heads are equal now is not known.
        let shift = self.shift.saturating_sub(bits);
        *self = HeadList { first, last: first, shift, count: 1, ..HeadList::default() };
        let (mut at, mut count) = (first >> shift, 0);
        old.each_step(|it| {
            let next = behind(it << old.shift) >> shift;
            self.push(next - at);
            count += usize::from(next != at);
            at = next;
        });
        self.last = last;
        self.count = if shift > 0 { old.count } else { count + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hash::hash;

    fn heads(sorted: &[u64]) -> HeadList {
        let mut heads = HeadList::default();
        for head in sorted {
            heads.add(*head);
        }
        heads
    }

    /// That each of `sorted` lies in a span, and each span has one.
    fn check(heads: &HeadList, sorted: &[u64]) -> u64 {
        let mut spans = Vec::new();
        heads.each(|low, high| spans.push((low, high)));
        let mut left = sorted.iter().peekable();
        for (low, high) in &spans {
            assert!(left.peek().is_some_and(|head| (low..=high).contains(head)), "{low}..={high}");
            while left.next_if(|head| (low..=high).contains(head)).is_some() {}
        }
        assert_eq!(left.next(), None, "a head in no span");
        assert_eq!(heads.ends(), sorted.first().copied().zip(sorted.last().copied()));
        spans.iter().map(|(low, high)| high - low).max().unwrap_or(0)
    }

    fn spread(count: u64) -> Vec<u64> {
        let mut heads: Vec<_> = (0..count).map(|it| hash(3, &it.to_le_bytes())).collect();
        heads.sort_unstable();
        heads
    }

    #[test]
    fn few_heads_and_dense_ones_are_kept_exactly() {
        let few = spread(400);
        assert_eq!(check(&heads(&few), &few), 0);
        let dense: Vec<_> = (1 << 40..(1 << 40) + 100_000).collect();
        let kept = heads(&dense);
        assert_eq!((check(&kept, &dense), kept.count()), (0, dense.len()));
        assert!(kept.memory_bytes() < 2 * dense.len());
        assert_eq!((heads(&[]).ends(), heads(&[7, 7, 7]).count()), (None, 1));
        assert_eq!(check(&heads(&[0, u64::MAX]), &[0, u64::MAX]), 0);
    }

    #[test]
    fn many_heads_take_two_bytes_and_a_half_and_are_kept_more_finely_than_buckets() {
        let count: u64 = if cfg!(miri) { 3_000 } else { 170_000 };
        let clusters = (0..count).map(|it: u64| hash(5, &(it / 100).to_le_bytes()) ^ (it % 100));
        let mut clusters: Vec<_> = clusters.collect();
        clusters.sort_unstable();
        for (sorted, is_exact) in [(spread(count), false), (clusters, true)] {
            let kept = heads(&sorted);
            let width = check(&kept, &sorted);
            assert_eq!(kept.count(), sorted.len());
            assert_eq!(width == 0, is_exact);
            assert!(width < u64::MAX / count / 6 / 50, "{width}");
            let most = 5 * sorted.len() / 2 + FREE_BYTES + PIECE_BYTES;
            assert!(kept.length <= most && kept.memory_bytes() <= most + PIECE_BYTES);
        }
    }

    #[test]
    fn what_comes_in_front_moves_all_heads() {
        for (count, bits) in [(300, 8), (300, 64), (20_000, 8), (20_000, 24), (20_000, 56)] {
            let sorted = spread(if cfg!(miri) { count / 10 } else { count });
            let top =
                if bits == 64 { 5 } else { 0xabcd_ef01_2345_6789 >> (64 - bits) << (64 - bits) };
            let mut kept = heads(&sorted);
            kept.put_in_front(top, bits);
            let moved = sorted.iter().map(|head| top | head.checked_shr(bits).unwrap_or(0));
            let mut moved: Vec<_> = moved.collect();
            moved.dedup();
            check(&kept, &moved);
            assert!(kept.count() >= moved.len());
            // And on with larger ones.
            let more = [moved[moved.len() - 1], u64::MAX - 1, u64::MAX];
            for head in &more {
                kept.add(*head);
            }
            moved.extend(&more);
            check(&kept, &moved);
        }
    }
}
