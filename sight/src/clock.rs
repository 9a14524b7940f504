//! A clock for timings and traces: it is read twice in each call, so what a reading takes is a share of what they cost.
#![allow(clippy::disallowed_methods)] // It is a clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds since the clock was made, by the processor's counter where that runs evenly, otherwise by the system.
///
/// A reading of the counter takes less than one of the system's clock. The first clock of a process finds out how
/// fast the counter runs, which takes some time. Once a second the two are compared: where the counter began anew, as
/// after a sleep, or runs unevenly, as on a machine that was moved, it is the system's clock from there on.
///
/// ```
/// let clock = varvite_sight::Clock::new();
/// let (first, second) = (clock.now_ns(), clock.now_ns());
/// assert!(first <= second);
/// ```
#[derive(Clone)]
pub struct Clock {
    counter: quanta::Clock,
    begun: u64,
    /// Nanoseconds of a reading, in parts of 2^[`PARTS`].
    rate: u64,
    /// Readings of the counter in a second.
    second: u64,
    checks: Arc<Checks>,
}

/// The same for all copies of a clock.
struct Checks {
    begun: Instant,
    /// The reading at which counter and system were compared last.
    last: AtomicU64,
    /// Whether the counter is not gone by any more.
    is_uneven: AtomicBool,
}

/// Bits of the part of a nanosecond that is told of a reading, which takes 2^20 nanoseconds at most.
const PARTS: u32 = 44;

/// By how much the counter may be off before it is not gone by: what it takes to read both, and a hundredth.
const OFF_MAX: Duration = Duration::from_millis(50);

impl Clock {
    /// A clock that begins at 0.
    #[must_use]
    pub fn new() -> Clock {
        let counter = quanta::Clock::new();
        let begun = counter.raw();
        // Known once, a reading is one multiplication.
        let readings: u64 = 1 << 40;
        let rate = u128::from(counter.delta_as_nanos(0, readings).max(1)) << PARTS >> 40;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let second = ((1_000_000_000_u128 << PARTS) / u128::from(rate.max(1))) as u64;
        let (last, is_uneven) = (AtomicU64::new(begun), AtomicBool::new(false));
        let checks = Arc::new(Checks { begun: Instant::now(), last, is_uneven });
        Clock { counter, begun, rate, second, checks }
    }

    /// Nanoseconds since it was made.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        let reading = self.counter.raw();
        // One that is behind the last is very far ahead here.
        if reading.wrapping_sub(self.checks.last.load(Ordering::Relaxed)) > self.second {
            return self.checked(reading);
        }
        self.elapsed(reading)
    }

    /// Nanoseconds up to a reading; 0 for one of before.
    #[inline]
    fn elapsed(&self, reading: u64) -> u64 {
        let readings = reading.saturating_sub(self.begun);
        ((u128::from(readings) * u128::from(self.rate)) >> PARTS) as u64
    }

    #[cold]
    fn checked(&self, reading: u64) -> u64 {
        let elapsed = self.checks.begun.elapsed();
        // Between the two the thread may have stood still.
        let after = self.counter.raw();
        let by_counter = [reading, after].map(|it| self.elapsed(it));
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let off = OFF_MAX.as_nanos() as u64 + elapsed_ns / 100;
        let is_even = reading >= self.begun
            && after >= reading
            && by_counter[0] <= elapsed_ns.saturating_add(off)
            && by_counter[1].saturating_add(off) >= elapsed_ns;
        // What another thread read a moment before this one is no step back.
        if self.checks.is_uneven.load(Ordering::Relaxed) || !is_even {
            self.checks.is_uneven.store(true, Ordering::Relaxed);
            // No reading of the next years is within a second of it, so each comes here.
            self.checks.last.store(reading.wrapping_add(1 << 63), Ordering::Relaxed);
            return elapsed_ns;
        }
        self.checks.last.fetch_max(reading, Ordering::Relaxed);
        by_counter[0]
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Clock({} ns)", self.now_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_on(clock: &Clock) {
        let (start, first) = (Instant::now(), clock.now_ns());
        assert!(first < 10_000_000_000, "{first}");
        std::thread::sleep(Duration::from_millis(20));
        let (passed, really) = (clock.now_ns() - first, start.elapsed().as_nanos() as u64);
        assert!(passed >= 15_000_000 && passed <= really + 50_000_000, "{passed} of {really}");
    }

    /// A counter that began anew is far behind where it was, and one of another machine far ahead.
    #[test]
    fn a_clock_goes_on_where_the_counter_jumped() {
        let clock = Clock::new();
        goes_on(&clock);
        for begun in [clock.counter.raw() + (1 << 50), clock.counter.raw() >> 1] {
            let jumped = Clock { begun, ..Clock::new() };
            jumped.checks.last.store(begun, Ordering::Relaxed);
            goes_on(&jumped);
            goes_on(&jumped.clone());
        }
        goes_on(&clock);
        assert!(!clock.checks.is_uneven.load(Ordering::Relaxed));
    }

    #[test]
    fn a_clock_is_looked_after_once_a_second() {
        let clock = Clock::new();
        assert!(clock.counter.delta_as_nanos(0, clock.second).abs_diff(1_000_000_000) < 1_000);
        // A year is as long as by the counter's own measure, to a second.
        let year = clock.second * 365 * 86_400;
        let by_counter = clock.counter.delta_as_nanos(0, year);
        let off = clock.elapsed(clock.begun + year).abs_diff(by_counter);
        assert!(off < 1_000_000_000, "{off} ns");
        let before = clock.checks.last.load(Ordering::Relaxed);
        let late = Clock { second: 0, ..clock.clone() };
        goes_on(&late);
        assert!(clock.checks.last.load(Ordering::Relaxed) > before);
        assert!(!clock.checks.is_uneven.load(Ordering::Relaxed));
    }
}
