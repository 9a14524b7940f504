//! Bodies of answers: how many bytes of them may wait for clients that are slow.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

/// A body that is no longer is not counted: of these a connection has one at most.
const SHORT: usize = 1 << 20;

/// Bytes that are given to a connection at once. It asks for more when they have gone.
const PART: usize = 64 << 10;

/// Counts what waits for clients.
#[derive(Debug)]
pub struct Outgoing {
    most: usize,
    waiting: AtomicUsize,
}

impl Outgoing {
    /// Of long bodies that have `most` bytes together.
    pub fn new(most: usize) -> Arc<Outgoing> {
        Arc::new(Outgoing { most, waiting: AtomicUsize::new(0) })
    }

    /// A body of `bytes`, if there is room for it. One that is longer than all may be goes out where no other waits.
    pub fn body(self: &Arc<Outgoing>, bytes: Vec<u8>) -> Option<Body> {
        if bytes.len() <= SHORT {
            return Some(bytes.into());
        }
        let length = bytes.len();
        let with = |waiting: usize| {
            let all = waiting.saturating_add(length);
            (all <= self.most || waiting == 0).then_some(all)
        };
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).ok()?;
        let outgoing = Arc::clone(self);
        Some(Body::new(Counted { bytes: bytes.into(), length, outgoing }))
    }
}

/// A body, counted until its last bytes were taken or nobody waits for them any more.
struct Counted {
    bytes: Bytes,
    length: usize,
    outgoing: Arc<Outgoing>,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.bytes.len().min(PART);
        let data = (part > 0).then(|| self.bytes.split_to(part));
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.outgoing.waiting.fetch_sub(self.length, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bodies_have_room_together_or_go_alone() {
        let outgoing = Outgoing::new(4 * SHORT);
        let body = |bytes: usize| outgoing.body(vec![0; bytes]);
        let two = [body(2 * SHORT), body(2 * SHORT)];
        assert!(two.iter().all(Option::is_some) && body(SHORT + 1).is_none());
        assert!(body(SHORT).is_some(), "a short one always has");
        drop(two);
        let alone = body(5 * SHORT);
        assert!(alone.is_some() && body(SHORT + 1).is_none());
        drop(alone);
        assert!(body(SHORT + 1).is_some());
    }
}
