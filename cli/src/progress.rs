//! A bar with rate and time left for whatever takes longer than two seconds.
//!
//! Silent when standard error is not a terminal, so that logs and pipes hold results only.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::print;

static QUIET: AtomicBool = AtomicBool::new(false);

/// Shows no bars and no warnings from now on.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether only results and errors are to be said.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// What is said once, when the command has ended.
static WARNING: Mutex<Option<&str>> = Mutex::new(None);

/// Says `warning` on standard error when the command has ended, once.
pub fn warn_at_the_end(warning: &'static str) {
    *WARNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(warning);
}

/// Says what was to be said at the end.
pub fn tell() {
    let warning = WARNING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(warning) = warning.filter(|_| !is_quiet()) {
        complain!("warning: {warning}");
    }
}

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two pictures of what only turns.
const TICK: Duration = Duration::from_millis(200);

/// What a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, in binary units.
    Bytes,
    /// Anything else.
    Items,
}

/// Runs `action`, which says nothing of how far it is: after two seconds, says how long it has taken.
pub fn during<T>(what: &str, action: impl FnOnce() -> T) -> T {
    let (ended, ends) = channel::<()>();
    let what = what.to_owned();
    let shows = thread::spawn(move || {
        if is_quiet() || ends.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("the template is fixed"));
        bar.set_message(what);
        bar.enable_steady_tick(TICK);
        // It is the other side that goes away.
        let _ = ends.recv();
        bar.finish_and_clear();
    });
    let outcome = action();
    drop(ended);
    // It only draws; what it may have met is no reason to fail.
    let _ = shows.join();
    outcome
}

/// A bar that appears when the work turns out to be long.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: bool,
}

impl Progress {
    /// A bar for `total` units of work called `what`.
    pub fn new(what: &str, total: u64, unit: Unit) -> Progress {
        Self::of(what, Some(total), unit)
    }

    /// The same for work of which `done` units were done before: rate and time left are of the rest.
    pub fn from(what: &str, done: u64, total: u64, unit: Unit) -> Progress {
        let progress = Self::new(what, total, unit);
        progress.bar.set_position(done);
        progress.bar.reset_eta();
        progress
    }

    /// The same for work of which nobody knows how much there is, as what comes through a pipe.
    pub fn endless(what: &str, unit: Unit) -> Progress {
        Self::of(what, None, unit)
    }

    fn of(what: &str, total: Option<u64>, unit: Unit) -> Progress {
        let template = match (unit, total) {
            (Unit::Bytes, Some(_)) => {
                "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}, {eta} left"
            }
            (Unit::Bytes, None) => "{msg} {bytes} {binary_bytes_per_sec}, {elapsed}",
            (Unit::Items, Some(_)) => "{msg} {wide_bar} {human_pos}/{human_len} {rate}, {eta} left",
            (Unit::Items, None) => "{msg} {human_pos} {rate}, {elapsed}",
        };
        let rate = |state: &ProgressState, out: &mut dyn Write| {
            // An unfinished line is no reason to stop the work.
            let _ = write!(out, "{}/s", print::count(state.per_sec() as u64));
        };
        let style = ProgressStyle::with_template(template).expect("the template is fixed");
        let style = style.with_key("rate", rate);
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        bar.set_style(style);
        bar.set_message(what.to_owned());
        Progress { bar, start: Instant::now(), shown: false }
    }

    /// Says how much is done.
    pub fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        if !self.shown && !is_quiet() && self.start.elapsed() > PATIENCE {
            self.shown = true;
            // Hidden by itself when standard error is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        }
    }

    /// Changes the total once it is known.
    pub fn set_total(&mut self, total: u64) {
        self.bar.set_length(total);
    }

    /// Takes the bar away.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_gives_its_outcome_at_once() {
        let start = Instant::now();
        assert_eq!(during("nothing", || 7), 7);
        assert!(start.elapsed() < PATIENCE);
    }
}
