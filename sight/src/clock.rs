//! A clock for timings and traces: it is read twice in each call, so what a reading takes is a share of what they cost.

use std::fmt;

/// Nanoseconds since the clock was made, by the processor's counter where that runs evenly, otherwise by the system.
///
/// A reading of the counter takes less than one of the system's clock. The first clock of a process finds out how
/// fast the counter runs, which takes some time.
///
/// ```
/// let clock = varvite_sight::Clock::new();
/// let (first, second) = (clock.now_ns(), clock.now_ns());
/// assert!(first <= second);
/// ```
#[derive(Clone)]
pub struct Clock {
    clock: quanta::Clock,
    begun: u64,
}

impl Clock {
    /// A clock that begins at 0.
    #[must_use]
    pub fn new() -> Clock {
        let clock = quanta::Clock::new();
        let begun = clock.raw();
        Clock { clock, begun }
    }

    /// Nanoseconds since it was made.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.clock.delta_as_nanos(self.begun, self.clock.raw())
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
