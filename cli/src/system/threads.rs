//! A few threads that help with merges: the executor that the engine asks its host for.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use varvite::{Error, Executor, Kind, Result};

type Work = Box<dyn FnOnce() + Send>;

/// Threads that take work in the order in which it comes. Dropping the pool waits for them.
pub struct Pool {
    queue: Option<Mutex<Sender<Work>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// `count` threads.
    pub fn new(count: usize) -> Result<Arc<Pool>> {
        assert!(count > 0, "without threads work would wait for ever");
        let (queue, work) = channel::<Work>();
        let work = Arc::new(Mutex::new(work));
        let mut threads = Vec::with_capacity(count);
        for index in 0..count {
            let work = work.clone();
            let thread = Builder::new().name(format!("merge-{index}"));
            let spawned = thread.spawn(move || serve(&work));
            threads.push(spawned.map_err(|error| {
                Error::new(Kind::Io, format!("could not start a thread: {error}"))
            })?);
        }
        Ok(Arc::new(Pool { queue: Some(Mutex::new(queue)), threads }))
    }
}

fn serve(work: &Mutex<Receiver<Work>>) {
    loop {
        // The lock is held while waiting: the threads take turns at the queue's end.
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = next else { return };
        work();
    }
}

impl Executor for Pool {
    fn execute(&self, work: Work) {
        let queue = self.queue.as_ref().expect("the queue lives as long as the pool");
        let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.send(work).expect("the threads live as long as the queue");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue = None;
        let own = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last handle may go away inside a piece of work; a thread cannot wait for itself.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn all_work_is_done_before_the_pool_goes() {
        let pool = Pool::new(2).unwrap();
        let sum = Arc::new(AtomicU64::new(0));
        for number in 1..=100 {
            let sum = sum.clone();
            pool.execute(Box::new(move || {
                sum.fetch_add(number, Ordering::Relaxed);
            }));
        }
        drop(pool);
        assert_eq!(sum.load(Ordering::Relaxed), 5050);
    }
}
