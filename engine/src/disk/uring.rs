//! Reads through `io_uring`: many in flight for one system call.
//!
//! A submitted read is only noted in the ring. Asking for a completion hands over all that was noted
//! and waits, but only when none is ready, so that a batch shares the cost of the system call.
//! Invariant: while the kernel may write to a buffer, its `Read` lies in a slot and is neither touched
//! nor dropped; dropping the queue waits for all of them.
//! Source: Axboe, "Efficient IO with `io_uring`", 2019.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, opcode, types};

use super::{ALIGNMENT, Access, Buffer, Completion, Queue, Read, SerialQueue, check_room};
use crate::error::{Error, Result};

/// The most that one request asks of the kernel; a longer read is continued.
const REQUEST_MAX: usize = 1 << 30;

/// The most requests that a ring notes before it hands them over.
const RING_MAX: u32 = 1024;

/// A read with the kernel, and how many bytes earlier requests for it brought.
struct InFlight {
    read: Read,
    done: usize,
}

/// A queue on a ring of its own.
pub(super) struct RingQueue {
    ring: IoUring,
    depth: usize,
    /// By the number given to the kernel. `None` is free, and on the list of the free.
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
    in_flight: usize,
    ready: VecDeque<Completion>,
    /// Slots whose request ended early and must be continued.
    again: Vec<u32>,
    /// Reads that the ring cannot do: of files without a descriptor, or of no bytes.
    serial: SerialQueue,
    cached: CachedReads,
    known: KnownMemory,
}

/// Memory that the kernel was told of once, so that it need not find and hold its pages for each read.
#[derive(Debug, Default)]
struct KnownMemory {
    /// Pieces to be handed out.
    pieces: Vec<Buffer>,
    /// Never handed out, so that all of the memory stays while the kernel knows it.
    anchor: Option<Buffer>,
    /// Where all pieces lie.
    span: Range<usize>,
    was_tried: bool,
}

impl KnownMemory {
    /// Bytes of a piece: a page of a table, which is what is read by the thousand.
    const PIECE_BYTES: usize = 4096;
    /// Pieces at most: the memory is held, for which there are limits.
    const PIECES_MAX: usize = 1024;

    /// Tells the kernel of `count` pieces, once. It may refuse; then there are none.
    fn make(&mut self, ring: &IoUring, count: usize) {
        if mem::replace(&mut self.was_tried, true) {
            return;
        }
        let mut whole = Buffer::new((count.min(Self::PIECES_MAX) + 1) * Self::PIECE_BYTES);
        let bytes = whole.as_mut_slice();
        let start = bytes.as_mut_ptr();
        let memory = libc::iovec { iov_base: start.cast(), iov_len: bytes.len() };
        // SAFETY: the memory is alive, and the anchor keeps it so as long as the ring may be used.
        if unsafe { ring.submitter().register_buffers(&[memory]) }.is_ok() {
            self.span = start.addr()..start.addr() + bytes.len();
            self.pieces = whole.split(Self::PIECE_BYTES);
            self.anchor = self.pieces.pop();
        }
    }

    fn contains(&self, bytes: &[u8]) -> bool {
        self.span.contains(&bytes.as_ptr().addr())
    }
}

/// Whether it pays to ask for bytes in the page cache before a request is noted.
///
/// Bytes that are there come cheaper by a plain read that refuses to wait, by a sixth of the cost;
/// asking in vain costs a third of it. So the asking stops while most bytes are not there.
#[derive(Debug)]
struct CachedReads {
    score: u32,
    since_asked: u32,
}

impl CachedReads {
    const SCORE_MAX: u32 = 64;
    /// What one read in vain takes away.
    const PENALTY: u32 = 4;
    /// One read in so many is a probe while the score is nought.
    const PROBE: u32 = 64;

    fn new() -> Self {
        CachedReads { score: Self::SCORE_MAX, since_asked: 0 }
    }

    /// Does `read` if that needs no disk; whether it is done.
    fn try_read(&mut self, read: &mut Read) -> bool {
        self.since_asked += 1;
        if self.score == 0 && self.since_asked < Self::PROBE {
            return false;
        }
        self.since_asked = 0;
        let Some(descriptor) = read.file.descriptor() else { return false };
        let memory = io::IoSliceMut::new(&mut read.buffer.as_mut_slice()[..read.length]);
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        let found = rustix::io::preadv2(descriptor, &mut [memory], read.offset, flags);
        let done = found.is_ok_and(|found| found == read.length);
        self.score = if done {
            (self.score + 1).min(Self::SCORE_MAX)
        } else {
            self.score.saturating_sub(Self::PENALTY)
        };
        done
    }
}

impl RingQueue {
    /// A queue for `depth` reads, or `None` where the kernel or a container forbids rings.
    pub(super) fn new(depth: usize) -> Option<RingQueue> {
        let depth = depth.clamp(1, 1 << 15);
        let requests = (depth as u32).min(RING_MAX);
        let completions = (depth as u32).next_power_of_two().max(requests.next_power_of_two() * 2);
        // Completions are only looked for in a system call, so the kernel need not interrupt us.
        let ring = IoUring::builder()
            .setup_coop_taskrun()
            .setup_cqsize(completions)
            .dontfork()
            .build(requests)
            .or_else(|_| IoUring::builder().setup_cqsize(completions).build(requests))
            .ok()?;
        Some(RingQueue {
            ring,
            depth,
            slots: Vec::with_capacity(depth),
            free: Vec::new(),
            in_flight: 0,
            ready: VecDeque::new(),
            again: Vec::new(),
            serial: SerialQueue::new(depth),
            cached: CachedReads::new(),
            known: KnownMemory::default(),
        })
    }

    /// Notes a request for what is missing of the read in `slot`.
    fn request(&mut self, slot: u32) -> io::Result<()> {
        let flight =
            self.slots[slot as usize].as_mut().expect("a slot is filled before its request");
        let read = &mut flight.read;
        let descriptor = read.file.descriptor().expect("files without one are read serially");
        let descriptor = types::Fd(descriptor.as_raw_fd());
        let rest = &mut read.buffer.as_mut_slice()[flight.done..read.length];
        let offset = read.offset + flight.done as u64;
        let (start, length) = (rest.as_mut_ptr(), rest.len().min(REQUEST_MAX) as u32);
        let entry = if self.known.contains(rest) {
            opcode::ReadFixed::new(descriptor, start, length, 0).offset(offset).build()
        } else {
            opcode::Read::new(descriptor, start, length).offset(offset).build()
        };
        let entry = entry.user_data(u64::from(slot));
        loop {
            // SAFETY: the memory belongs to the `Buffer` in the slot, which does not move it, and the
            // slot is emptied only when the completion has come; `drop` waits for that or leaks the
            // slots. The file in the slot keeps the descriptor open until then.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            // The ring is full of noted requests: hand them over to make room.
            self.enter(0)?;
        }
    }

    /// Hands over what is noted and waits for `wanted` completions; what can be tried again is.
    fn enter(&self, wanted: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // A signal, or no memory or room for completions at this moment. The caller takes
                // what is ready and comes back.
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Moves what the kernel finished to `ready`, and what it left short to `again`.
    fn reap(&mut self) {
        for entry in self.ring.completion() {
            let slot = entry.user_data() as u32;
            let place = &mut self.slots[slot as usize];
            let flight = place.as_mut().expect("a completion belongs to a filled slot");
            let mut outcome = Ok(flight.done);
            if let Ok(found) = usize::try_from(entry.result()) {
                flight.done += found;
                let cut = flight.read.file.access() == Access::Direct
                    && !flight.done.is_multiple_of(ALIGNMENT);
                if found > 0 && flight.done < flight.read.length && !cut {
                    self.again.push(slot);
                    continue;
                }
                outcome = Ok(flight.done);
            }
            let InFlight { mut read, .. } = place.take().expect("it was filled a moment ago");
            self.free.push(slot);
            self.in_flight -= 1;
            if entry.result() < 0 {
                // Interrupted, refused or failed: reading it the plain way either brings the bytes or
                // the error that names the file.
                let length = read.length;
                outcome = read.file.read_at(read.offset, &mut read.buffer.as_mut_slice()[..length]);
            }
            self.ready.push_back(Completion { read, outcome });
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(&format!("hand over {} reads", self.in_flight), "through io_uring", error)
    }
}

impl Queue for RingQueue {
    fn depth(&self) -> usize {
        self.depth
    }

    fn pending(&self) -> usize {
        self.in_flight + self.ready.len() + self.serial.pending()
    }

    fn buffer(&mut self, length: usize) -> Buffer {
        if length != KnownMemory::PIECE_BYTES {
            return Buffer::new(length);
        }
        self.known.make(&self.ring, self.depth);
        self.known.pieces.pop().unwrap_or_else(|| Buffer::new(length))
    }

    fn submit(&mut self, mut read: Read) -> Result<()> {
        check_room(self.pending(), self.depth)?;
        read.check()?;
        if read.length == 0 || read.file.descriptor().is_none() {
            return self.serial.submit(read);
        }
        if read.file.access() == Access::Buffered && self.cached.try_read(&mut read) {
            let outcome = Ok(read.length);
            self.ready.push_back(Completion { read, outcome });
            return Ok(());
        }
        let flight = Some(InFlight { read, done: 0 });
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = flight;
            slot
        } else {
            self.slots.push(flight);
            self.slots.len() as u32 - 1
        };
        self.in_flight += 1;
        self.request(slot).map_err(|error| {
            // It was never noted, so the kernel does not know it.
            self.slots[slot as usize] = None;
            self.free.push(slot);
            self.in_flight -= 1;
            self.failed(error)
        })
    }

    fn complete(&mut self) -> Result<Option<Completion>> {
        loop {
            if let Some(completion) = self.ready.pop_front() {
                return Ok(Some(completion));
            }
            if self.in_flight == 0 {
                return self.serial.complete();
            }
            self.reap();
            while let Some(slot) = self.again.pop() {
                self.request(slot).map_err(|error| {
                    self.again.push(slot);
                    self.failed(error)
                })?;
            }
            if self.ready.is_empty() {
                self.enter(1).map_err(|error| self.failed(error))?;
                self.reap();
            }
        }
    }
}

impl Drop for RingQueue {
    fn drop(&mut self) {
        // Noted requests are handed over too: only their completion says that they are over.
        while self.in_flight > self.again.len() {
            if self.enter(1).is_err() {
                // The kernel may still write to the buffers, so nobody else may ever get their memory.
                mem::forget(mem::take(&mut self.slots));
                return;
            }
            self.reap();
        }
    }
}

impl fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingQueue({} of {} pending)", self.pending(), self.depth)
    }
}

/// Asks the kernel to start writing these bytes of `file` out. A hint.
pub(super) fn start_writeback(file: &fs::File, offset: u64, length_bytes: u64) {
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length_bytes)) else {
        return;
    };
    // A length of zero would mean "to the end" to the system call.
    if length > 0 {
        // SAFETY: a call on an open descriptor, which touches no memory of ours.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE);
        }
    }
}
