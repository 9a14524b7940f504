//! Turns of those who write to the tables behind a shared handle, in the order in which they come.
//!
//! The engine has one at a time write, and everybody else wait without an end. A face needs more of a wait: it ends when
//! the handle is closed, and when the caller is asked for (a signal), and it does not wait for itself. What stands in the
//! way may be a transaction of the caller's own, and a face cannot know: a task of a pool, or of an asynchronous runtime,
//! goes from thread to thread, and a thread from task to task. So a turn belongs to a call or to a transaction, never to
//! a thread, and who waits for a transaction through which nothing is done has patience for a while only.
//!
//! Invariant: whoever has the turn is alone with the engine's tables, so no call waits inside the engine for another.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a transaction through which nothing is done is waited for, unless the program says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// So often is who waits asked whether to go on.
const ASKED: Duration = Duration::from_millis(100);

/// What the clones of a shared handle take turns by.
pub struct Turns {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    /// Who waits, the next one first.
    waiting: VecDeque<u64>,
    /// How many waited so far.
    came: u64,
    holder: Option<Holder>,
    patience: Duration,
    is_closed: bool,
}

/// Who has the turn.
enum Holder {
    /// A call, which ends by itself.
    Call,
    /// A transaction, which ends when the program says so.
    Transaction {
        /// Calls through it that are not over.
        calls: usize,
        /// When the last of them ended.
        used: Instant,
    },
}

/// Why a turn is not to be had.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// Somebody has it, and to wait could be for ever.
    Busy,
    /// The handle was closed.
    Closed,
    /// The caller was asked, and would not go on.
    Stopped(E),
}

impl Default for Turns {
    fn default() -> Turns {
        let state = State {
            waiting: VecDeque::new(),
            came: 0,
            holder: None,
            patience: PATIENCE,
            is_closed: false,
        };
        Turns { state: Mutex::new(state), moved: Condvar::new() }
    }
}

impl State {
    /// How long a wait that began at `began` may go on as things are; `None` for as long as it takes.
    fn patience_left(&self, began: Instant) -> Option<Duration> {
        let Some(Holder::Transaction { calls: 0, used }) = self.holder else { return None };
        Some(self.patience.saturating_sub(began.max(used).elapsed()))
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long who waits for a transaction has patience while nothing is done through it. None at all is an error at once,
    /// as an asynchronous runtime wants it.
    pub fn set_patience(&self, patience: Duration) {
        self.lock().patience = patience;
        self.moved.notify_all();
    }

    /// See [`Turns::set_patience`].
    pub fn patience(&self) -> Duration {
        self.lock().patience
    }

    /// Nobody gets a turn any more; who has one keeps it.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.moved.notify_all();
    }

    /// The turn, if it can be had at once.
    pub fn try_take<E>(self: &Arc<Self>) -> Result<Turn, Refusal<E>> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Refusal::Closed);
        }
        if state.holder.is_some() || !state.waiting.is_empty() {
            return Err(Refusal::Busy);
        }
        state.holder = Some(Holder::Call);
        Ok(Turn { turns: Arc::clone(self) })
    }

    /// The turn, after all who came before. `asked` says now and then whether to go on waiting; nothing is locked
    /// meanwhile.
    pub fn take<E>(
        self: &Arc<Self>,
        mut asked: impl FnMut() -> Result<(), E>,
    ) -> Result<Turn, Refusal<E>> {
        match self.try_take() {
            Err(Refusal::Busy) => {}
            done => return done,
        }
        let place = Place::new(self);
        let began = Instant::now();
        let mut last = began;
        loop {
            let mut state = self.lock();
            if state.is_closed {
                return Err(Refusal::Closed);
            }
            if state.holder.is_none() && state.waiting.front() == Some(&place.number) {
                state.holder = Some(Holder::Call);
                return Ok(Turn { turns: Arc::clone(self) });
            }
            let left = state.patience_left(began);
            if left == Some(Duration::ZERO) {
                return Err(Refusal::Busy);
            }
            let span = left.map_or(ASKED, |left| left.min(ASKED));
            drop(self.moved.wait_timeout(state, span));
            if last.elapsed() < ASKED {
                continue;
            }
            // Whoever is asked may come for a turn itself, or wait for somebody who does.
            place.step_aside();
            let answer = asked();
            place.step_back();
            answer.map_err(Refusal::Stopped)?;
            last = Instant::now();
        }
    }
}

/// A place among those who wait, given up when it is dropped.
struct Place<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Place<'_> {
    fn new(turns: &Turns) -> Place<'_> {
        let mut state = turns.lock();
        let number = state.came;
        state.came += 1;
        state.waiting.push_back(number);
        Place { turns, number }
    }
}

impl Place<'_> {
    /// Lets those behind pass.
    fn step_aside(&self) {
        self.turns.lock().waiting.retain(|it| *it != self.number);
        self.turns.moved.notify_all();
    }

    /// Before all who came later again.
    fn step_back(&self) {
        let mut state = self.turns.lock();
        let at = state.waiting.partition_point(|it| *it < self.number);
        state.waiting.insert(at, self.number);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.step_aside();
    }
}

/// The right to write, until it is dropped.
pub struct Turn {
    turns: Arc<Turns>,
}

impl Turn {
    /// A transaction has it from now on, until that ends.
    pub fn begin(&self) {
        self.turns.lock().holder = Some(Holder::Transaction { calls: 0, used: Instant::now() });
        self.turns.moved.notify_all();
    }

    /// A call through the transaction, until it is dropped: nobody loses patience meanwhile.
    pub fn using(&self) -> Using<'_> {
        if let Some(Holder::Transaction { calls, .. }) = &mut self.turns.lock().holder {
            *calls += 1;
        }
        Using { turn: self }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().holder = None;
        self.turns.moved.notify_all();
    }
}

/// See [`Turn::using`].
pub struct Using<'a> {
    turn: &'a Turn,
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        if let Some(Holder::Transaction { calls, used }) = &mut self.turn.turns.lock().holder {
            *calls -= 1;
            *used = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::mpsc;
    use std::thread;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_hours(1);

    fn taken(turns: &Arc<Turns>) -> Result<Turn, Refusal<Infallible>> {
        turns.take(|| Ok(()))
    }

    fn refusal(outcome: Result<Turn, Refusal<Infallible>>) -> Option<Refusal<Infallible>> {
        outcome.err()
    }

    /// Waits until so many wait.
    fn until_waiting(turns: &Turns, count: usize) {
        while turns.lock().waiting.len() < count {
            thread::yield_now();
        }
    }

    /// What is asked may itself come for a turn, or wait for who does.
    #[test]
    fn who_is_asked_holds_up_nobody() {
        let turns = Arc::<Turns>::default();
        let first = taken(&turns).unwrap();
        let mut first = Some(first);
        let mut asked = 0;
        let turn = turns.take(|| {
            asked += 1;
            drop(first.take());
            // Behind in the queue, and yet it comes.
            let theirs = Arc::clone(&turns);
            let other = thread::spawn(move || drop(taken(&theirs).unwrap()));
            other.join().unwrap();
            drop(taken(&turns).unwrap());
            Ok::<(), Infallible>(())
        });
        assert!(turn.is_ok() && asked == 1, "{asked}");
        drop(turn);
        assert!(turns.try_take::<Infallible>().is_ok());
    }

    #[test]
    fn turns_come_in_order() {
        let turns = Arc::<Turns>::default();
        let first = taken(&turns).unwrap();
        assert_eq!(refusal(turns.try_take()), Some(Refusal::Busy));
        let (done, order) = mpsc::channel();
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (theirs, done) = (Arc::clone(&turns), done.clone());
                let thread = thread::spawn(move || {
                    let _turn = taken(&theirs).unwrap();
                    done.send(number).unwrap();
                });
                until_waiting(&turns, number + 1);
                thread
            })
            .collect();
        drop(first);
        for it in threads {
            it.join().unwrap();
        }
        drop(done);
        assert_eq!(order.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(turns.try_take::<Infallible>().is_ok());
    }

    #[test]
    fn a_transaction_is_waited_for_whoever_began_it() {
        let turns = Arc::<Turns>::default();
        turns.set_patience(LONG);
        let turn = taken(&turns).unwrap();
        turn.begin();
        // It ends on another thread than the one that began it, which waits.
        let theirs = Arc::clone(&turns);
        let other = thread::spawn(move || {
            until_waiting(&theirs, 1);
            drop(turn);
        });
        assert!(taken(&turns).is_ok());
        other.join().unwrap();
    }

    #[test]
    fn patience_is_for_transactions_that_are_not_used() {
        let turns = Arc::<Turns>::default();
        turns.set_patience(SHORT);
        let turn = taken(&turns).unwrap();
        turn.begin();
        let began = Instant::now();
        assert_eq!(refusal(taken(&turns)), Some(Refusal::Busy));
        assert!(began.elapsed() >= SHORT);
        // A call that takes its time is no reason to give up, and neither are many.
        let theirs = Arc::clone(&turns);
        let waits = thread::spawn(move || taken(&theirs).map(drop));
        for _ in 0..8 {
            let using = turn.using();
            thread::sleep(2 * SHORT);
            drop(using);
            assert!(!waits.is_finished());
        }
        drop(turn);
        assert_eq!(waits.join().unwrap(), Ok(()));
        // Who has none does not wait at all, but for calls, which end by themselves.
        turns.set_patience(Duration::ZERO);
        let turn = taken(&turns).unwrap();
        let theirs = Arc::clone(&turns);
        let waits = thread::spawn(move || taken(&theirs).map(drop));
        until_waiting(&turns, 1);
        drop(turn);
        assert_eq!(waits.join().unwrap(), Ok(()));
        let turn = taken(&turns).unwrap();
        turn.begin();
        assert_eq!(refusal(taken(&turns)), Some(Refusal::Busy));
        drop(turn);
        assert!(turns.try_take::<Infallible>().is_ok(), "who gave up is not waited for");
    }

    #[test]
    fn waits_end_by_a_close_and_by_the_caller() {
        let turns = Arc::<Turns>::default();
        let turn = taken(&turns).unwrap();
        turn.begin();
        let mut asked = 0;
        let outcome = turns.take(|| {
            asked += 1;
            if asked == 2 { Err("a signal") } else { Ok(()) }
        });
        assert_eq!(outcome.err(), Some(Refusal::Stopped("a signal")));
        let theirs = Arc::clone(&turns);
        let waits = thread::spawn(move || taken(&theirs).map(drop));
        until_waiting(&turns, 1);
        turns.close();
        assert_eq!(waits.join().unwrap(), Err(Refusal::Closed));
        drop(turn);
        assert_eq!(refusal(taken(&turns)), Some(Refusal::Closed));
    }
}
