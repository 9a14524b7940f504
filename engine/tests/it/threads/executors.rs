//! Executors that a host might have, good and bad ones.

use std::sync::Mutex;
use std::thread::JoinHandle;

use varvite::Executor;

use crate::random::Random;

type Work = Box<dyn FnOnce() + Send>;

/// What becomes of work that is handed over.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// A thread of its own for each.
    Threads,
    /// It is dropped.
    Dropped,
    /// It is done when the test says so.
    Later,
    /// Some of what was handed over is done now, in any order, by whoever hands over more.
    OddOrder,
}

pub struct TestExecutor {
    manner: Manner,
    threads: Mutex<Vec<JoinHandle<()>>>,
    waiting: Mutex<(Vec<Work>, Random)>,
}

impl TestExecutor {
    pub fn new(manner: Manner) -> Self {
        let waiting = Mutex::new((Vec::new(), Random::new(7)));
        TestExecutor { manner, threads: Mutex::default(), waiting }
    }

    /// Does what is still waiting, and waits for every thread: a panic in one is one here.
    pub fn finish(&self) {
        loop {
            let work = self.waiting.lock().unwrap().0.pop();
            let Some(work) = work else { break };
            work();
        }
        loop {
            let thread = self.threads.lock().unwrap().pop();
            let Some(thread) = thread else { break };
            thread.join().expect("a helper does not panic");
        }
    }
}

impl Executor for TestExecutor {
    #[allow(clippy::disallowed_methods)] // a host's threads outlive the scope that hands over the work
    fn execute(&self, work: Work) {
        match self.manner {
            Manner::Threads => self.threads.lock().unwrap().push(std::thread::spawn(work)),
            Manner::Dropped => drop(work),
            Manner::Later => self.waiting.lock().unwrap().0.push(work),
            Manner::OddOrder => {
                let mut now = Vec::new();
                {
                    let (waiting, random) = &mut *self.waiting.lock().unwrap();
                    waiting.push(work);
                    while waiting.len() > 1 && !random.one_in(3) {
                        let place = random.index(waiting.len());
                        now.push(waiting.swap_remove(place));
                    }
                }
                for work in now {
                    work();
                }
            }
        }
    }
}
