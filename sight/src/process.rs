//! A program as the host of a recorder.

use std::sync::atomic::{AtomicU64, Ordering};

use varvite::trace::Host;

use crate::Clock;

/// The host of a [recorder](varvite::trace::Recorder) in a program with threads: a [`Clock`], and the threads by the order
/// in which they came.
///
/// ```
/// use std::sync::Arc;
/// use varvite::disk::Disk;
/// use varvite::disk::memory::MemoryDisk;
/// use varvite::trace::Recorder;
///
/// let traces: Arc<dyn Disk> = MemoryDisk::seeded(1);
/// let recorder = Recorder::create(&traces, "a.trace", varvite_sight::Process::new())?;
/// std::thread::scope(|threads| {
///     threads.spawn(|| recorder.mark("beside"));
///     recorder.mark("here");
/// });
/// assert_eq!(recorder.finish()?, 2);
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Process(Clock);

impl Process {
    /// One whose clock begins now.
    #[must_use]
    pub fn new() -> Process {
        Process::default()
    }

    /// One whose time is that of `clock`.
    #[must_use]
    pub fn by(clock: Clock) -> Process {
        Process(clock)
    }
}

impl Host for Process {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    #[inline]
    fn thread(&self) -> u64 {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static OWN: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        // One that is as good as over is counted with the first.
        OWN.try_with(|own| *own).unwrap_or(0)
    }
}
