//! A wheel with the time that a command has taken, while it says nothing for longer than two seconds: neither a bar nor
//! its result.
//!
//! It turns on standard error and only where that is a terminal. Whoever prints takes it away first, so that it stands in
//! no line of another.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Work shorter than this shows nothing.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Between two pictures.
const TICK: Duration = Duration::from_millis(200);

/// The wheel of the command that runs, where somebody sees it.
static WHEEL: Mutex<Option<Wheel>> = Mutex::new(None);

/// What turns while a command is silent.
struct Wheel {
    what: String,
    start: Instant,
    /// Bars that say more.
    bars: usize,
    /// The result is on the terminal: who sees it needs no wheel, which would stand in its lines.
    is_over: bool,
    drawn: Option<ProgressBar>,
}

impl Wheel {
    fn new(what: &str) -> Wheel {
        Wheel { what: what.to_owned(), start: Instant::now(), bars: 0, is_over: false, drawn: None }
    }

    fn is_due(&self, since_start: Duration) -> bool {
        !self.is_over && self.bars == 0 && since_start > PATIENCE
    }

    /// The next picture.
    fn turn(&mut self) {
        if !self.is_due(self.start.elapsed()) {
            self.erase();
            return;
        }
        let (what, start) = (&self.what, self.start);
        let bar = self.drawn.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
            let bar = ProgressBar::new_spinner().with_elapsed(start.elapsed());
            bar.with_style(style.expect("the template is fixed"))
        });
        bar.set_message(what.clone());
        bar.tick();
    }

    fn erase(&mut self) {
        if let Some(bar) = self.drawn.take() {
            bar.finish_and_clear();
        }
    }
}

/// Does `action` to the wheel that turns, if one does.
fn wheel<T>(action: impl FnOnce(&mut Wheel) -> T) -> Option<T> {
    WHEEL.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(action)
}

/// Runs the command called `what`: a wheel says on a terminal how long it takes while nothing else is said.
pub fn turning<T>(what: &str, action: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return action();
    }
    let set = |it| *WHEEL.lock().unwrap_or_else(PoisonError::into_inner) = it;
    set(Some(Wheel::new(what)));
    let (ended, ends) = channel::<()>();
    let turns = thread::spawn(move || {
        while ends.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            wheel(Wheel::turn);
        }
    });
    let outcome = action();
    drop(ended);
    // It only draws; what it may have met is no reason to fail.
    let _ = turns.join();
    erase();
    set(None);
    outcome
}

/// Runs `action`, which says nothing of how far it is, and lets the wheel say `what`.
pub fn during<T>(what: &str, action: impl FnOnce() -> T) -> T {
    let before = wheel(|wheel| std::mem::replace(&mut wheel.what, what.to_owned()));
    let outcome = action();
    if let Some(before) = before {
        wheel(|wheel| wheel.what = before);
    }
    outcome
}

/// Takes the wheel away before a line is said beside the result.
pub fn erase() {
    wheel(Wheel::erase);
}

/// Takes the wheel away for good when the result, or what somebody types, stands where it turns.
pub fn give_way() {
    // Asked once, since it is asked before every line of a result.
    static IS_SEEN: OnceLock<bool> = OnceLock::new();
    if *IS_SEEN.get_or_init(|| io::stdout().is_terminal()) {
        stop();
    }
}

/// A bar is shown, which says more.
pub fn bar_begins() {
    wheel(|wheel| {
        wheel.bars += 1;
        wheel.erase();
    });
}

/// It is gone again.
pub fn bar_ends() {
    wheel(|wheel| wheel.bars = wheel.bars.saturating_sub(1));
}

/// Takes the wheel away for good.
pub fn stop() {
    wheel(|wheel| {
        wheel.is_over = true;
        wheel.erase();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_gives_its_outcome_at_once() {
        let start = Instant::now();
        assert_eq!(turning("nothing", || during("less", || 7)), 7);
        assert!(start.elapsed() < PATIENCE);
    }

    #[test]
    fn a_wheel_turns_only_while_nothing_else_is_said() {
        let mut wheel = Wheel::new("table union");
        assert!(!wheel.is_due(PATIENCE));
        assert!(wheel.is_due(PATIENCE * 2));
        wheel.bars = 1;
        assert!(!wheel.is_due(PATIENCE * 2), "a bar says more");
        wheel.bars = 0;
        wheel.is_over = true;
        assert!(!wheel.is_due(PATIENCE * 2), "the result is there");
    }
}
