//! A bar with rate and time left for whatever takes longer than two seconds. A command that does not say how far it is
//! has a wheel (`wheel.rs`).
//!
//! Silent when standard error is not a terminal, so that logs and pipes hold results only.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::print;
use crate::wheel::{self, PATIENCE};

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

/// Says `warning` on standard error.
pub fn warn(warning: &str) {
    if !is_quiet() {
        complain!("warning: {}", print::without_control(warning));
    }
}

/// Says each of them on standard error.
pub fn warn_of(warnings: impl IntoIterator<Item = String>) {
    warnings.into_iter().for_each(|warning| warn(&warning));
}

/// What a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, in binary units.
    Bytes,
    /// Anything else.
    Items,
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
            wheel::bar_begins();
            // Hidden by itself when standard error is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        }
    }

    /// Changes the total once it is known.
    pub fn set_total(&mut self, total: u64) {
        self.bar.set_length(total);
    }

    /// Takes the bar away.
    #[allow(clippy::unused_self)] // its drop does so
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if self.shown {
            wheel::bar_ends();
        }
    }
}

/// Runs the command called `what`, with a wheel unless nothing is to be said.
pub fn turning<T>(what: &str, action: impl FnOnce() -> T) -> T {
    if is_quiet() { action() } else { wheel::turning(what, action) }
}
