//! The recorder: takes calls from both faces and writes them, a frame at a time.
//!
//! A call is written when it ends, so what it called stands before it. A recording that fails goes on with
//! nothing: the store's calls never fail for it, and [`Recorder::finish`] says so.

use std::fmt;
use std::ops::Bound;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::action::Action;
use super::frame::{Answer, CallHead, Digest, FRAME_BYTES_MAX, HEAD, end_frame};
use super::frame_builder::FrameBuilder;
use crate::disk::{Access, Disk, File, Mode, path as paths, remove_quietly};
use crate::error::{Error, Result};
use crate::format::header::{FileKind, Header, LENGTH};
use crate::order::BTreeMap;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// What a host gives a [`Recorder`].
pub trait Host: Send + Sync {
    /// The host's clock, in nanoseconds from any fixed point.
    fn now_ns(&self) -> u64;

    /// A number of the calling thread, by which calls of one thread are told from those of others; small ones cost least. A
    /// closure that is the host says 0 of each, and threads of one number count as one: where one of them is in a call, those of
    /// the other are recorded as made within it. A host with several threads that call has a type of its own that numbers
    /// them, as `varvite_sight::Process` does.
    fn thread(&self) -> u64 {
        0
    }
}

impl<C: Fn() -> u64 + Send + Sync> Host for C {
    fn now_ns(&self) -> u64 {
        self()
    }
}

/// A host that is asked for both at once.
trait Moments: Host {
    /// The thread and the time.
    fn moment(&self) -> (u64, u64);
}

impl<H: Host> Moments for H {
    fn moment(&self) -> (u64, u64) {
        (self.thread(), self.now_ns())
    }
}

/// Whether this program ever made a recorder. One that cannot, as a module for browsers that offers none, has nobody who
/// sets this: the compiler sees it, and leaves out all that comes after a question for it.
static MADE: AtomicBool = AtomicBool::new(false);

/// To begin what only a recorder does.
#[inline]
fn there_is_one() {
    assert!(MADE.load(std::sync::atomic::Ordering::Relaxed), "whoever records has made a recorder");
}

/// In front of an error that was told before.
const ENDED: &str = "the recording has ended before: ";

/// Threads of the first block of depths; each block behind it has as many as all before it.
const DEPTHS: usize = 64;

/// Blocks of depths behind the first: a host that makes threads as it goes, and numbers them on, has its own up to the 65,536th.
const BLOCKS: usize = 10;

/// How many calls each thread is in.
struct Depths {
    few: [AtomicU64; DEPTHS],
    /// Of 64, 128, … threads: made for the first of them.
    blocks: [OnceLock<Box<[AtomicU64]>>; BLOCKS],
    /// Those of greater numbers, behind a lock.
    more: Mutex<BTreeMap<u64, u64>>,
}

impl Depths {
    fn new() -> Depths {
        Depths {
            few: [const { AtomicU64::new(0) }; DEPTHS],
            blocks: [const { OnceLock::new() }; BLOCKS],
            more: Mutex::new(BTreeMap::new()),
        }
    }

    #[inline]
    fn slot(&self, thread: u64) -> Option<&AtomicU64> {
        match self.few.get(usize::try_from(thread).ok()?) {
            None => self.slot_of_block(thread),
            few => few,
        }
    }

    #[cold]
    fn slot_of_block(&self, thread: u64) -> Option<&AtomicU64> {
        let block = thread.ilog2() - DEPTHS.ilog2();
        let first = (DEPTHS as u64) << block;
        let depths = self.blocks.get(block as usize)?;
        let depths = depths.get_or_init(|| (0..first).map(|_| AtomicU64::new(0)).collect());
        depths.get((thread - first) as usize)
    }

    #[inline]
    fn of(&self, thread: u64) -> u64 {
        match self.slot(thread) {
            Some(depth) => depth.load(Ordering::Relaxed),
            None => lock(&self.more).get(&thread).copied().unwrap_or(0),
        }
    }

    /// Goes one deeper; gives the depth before.
    fn enter(&self, thread: u64) -> u64 {
        let Some(depth) = self.slot(thread) else {
            let mut more = lock(&self.more);
            let depth = more.entry(thread).or_insert(0);
            *depth += 1;
            return *depth - 1;
        };
        depth.fetch_add(1, Ordering::Relaxed)
    }

    fn leave(&self, thread: u64) {
        let Some(depth) = self.slot(thread) else {
            let mut more = lock(&self.more);
            // Threads come and go: only those that are in a call are kept.
            match more.get_mut(&thread) {
                Some(depth) if *depth > 1 => *depth -= 1,
                _ => drop(more.remove(&thread)),
            }
            return;
        };
        depth.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Writes down every call of the stores and sessions that are given it.
///
/// A call costs some nanoseconds a step of its path, the bytes of its arguments, two readings of the
/// clock and a lock; every 64 KiB one write of whole pages. Nothing is synced before [`Recorder::finish`].
///
/// ```
/// use std::time::Instant;
/// use varvite::context::{Options, Store};
/// use varvite::disk::Disk;
/// use varvite::disk::memory::MemoryDisk;
/// use varvite::trace::{Action, Recorder, Trace};
///
/// let (disk, start) = (MemoryDisk::seeded(1), Instant::now());
/// let traces: std::sync::Arc<dyn Disk> = MemoryDisk::seeded(2);
/// let recorder = Recorder::create(&traces, "a.trace", move || start.elapsed().as_nanos() as u64)?;
/// let options = Options { recorder: Some(recorder.clone()), ..Options::default() };
/// let store = Store::create(disk, options)?;
/// let mut tree = store.empty_tree();
/// tree.add(&["data", "version"], b"genesis")?;
/// drop(tree);
/// recorder.finish()?;
///
/// let mut trace = Trace::open(&*traces, "a.trace")?;
/// let mut actions = Vec::new();
/// while let Some(call) = trace.next_call()? {
///     actions.push(call.action);
/// }
/// assert_eq!(actions, [Action::EmptyTree, Action::Add, Action::Release]);
/// # Ok::<(), varvite::Error>(())
/// ```
pub struct Recorder {
    disk: Arc<dyn Disk>,
    host: Box<dyn Moments>,
    begun_ns: u64,
    handles: AtomicU64,
    depths: Depths,
    writing: Mutex<Writing>,
}

struct Writing {
    file: Arc<dyn File>,
    identity: u64,
    offset: u64,
    frame: FrameBuilder,
    calls: u64,
    /// What a frame has at most, which no reader takes more of.
    frame_bytes_max: usize,
    /// Whether the end stands behind what is written.
    is_ended: bool,
    /// The first error, behind which nothing is written; once it was told, what says so again.
    outcome: Result<()>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writing = lock(&self.writing);
        write!(f, "Recorder({}, {} calls)", writing.file.path(), writing.calls)
    }
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    start_ns: u64,
    /// When it was over, before what is only recorded of it was made, as a digest.
    end_ns: Option<u64>,
    /// Of the time in between, what the host took to answer.
    aside_ns: u64,
    thread: u64,
    depth: u8,
    /// Whether calls of the thread are deeper until it ends.
    is_outer: bool,
}

/// Takes the arguments of a call in the order of its fields.
pub(crate) struct Arguments<'a>(&'a mut FrameBuilder);

impl Arguments<'_> {
    pub fn handle(&mut self, handle: u64) -> &mut Self {
        self.0.handle(handle);
        self
    }

    pub fn number(&mut self, number: u64) -> &mut Self {
        self.0.to.varint(number);
        self
    }

    pub fn path<S: AsRef<[u8]>>(&mut self, path: &[S]) -> &mut Self {
        self.0.path(path);
        self
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.to.bytes_with_length(bytes);
        self
    }

    pub fn hash(&mut self, hash: &[u8; 32]) -> &mut Self {
        self.0.to.raw(hash);
        self
    }

    pub fn keys<S: AsRef<[u8]>>(&mut self, keys: &[S]) -> &mut Self {
        self.number(keys.len() as u64);
        for key in keys {
            self.0.to.bytes_with_length(key.as_ref());
        }
        self
    }

    pub fn entries(&mut self, entries: &[(Vec<Vec<u8>>, Vec<u8>)]) -> &mut Self {
        self.number(entries.len() as u64);
        for (path, value) in entries {
            self.path(path).bytes(value);
        }
        self
    }

    /// One of the updates whose number stands before them: an insert (0), a delete (1), an upsert (2), or an
    /// insert of a value in a blob file (3), of which only the place is told.
    pub fn update(&mut self, kind: u8, key: &[u8], value: &[u8]) {
        self.0.to.u8(kind);
        self.bytes(key);
        if kind != 1 {
            self.bytes(value);
        }
    }

    /// A delete of a range among them.
    pub fn range(&mut self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) {
        self.0.to.u8(4);
        self.bounds(bounds);
    }

    /// Keys between two bounds.
    pub fn bounds(&mut self, (lower, upper): (Bound<&[u8]>, Bound<&[u8]>)) -> &mut Self {
        for bound in [lower, upper] {
            match bound {
                Bound::Unbounded => self.0.to.u8(0),
                Bound::Included(key) => {
                    self.0.to.u8(1);
                    self.bytes(key);
                }
                Bound::Excluded(key) => {
                    self.0.to.u8(2);
                    self.bytes(key);
                }
            }
        }
        self
    }
}

impl Recorder {
    /// Begins a recording in a new file at `path`. `Exists` when there is one; `Io`.
    ///
    /// A closure is a host whose calls are all of one thread: see [`Host::thread`].
    pub fn create(
        disk: &Arc<dyn Disk>,
        path: &str,
        host: impl Host + 'static,
    ) -> Result<Arc<Recorder>> {
        let identity = disk.entropy()?;
        let file = disk.open(path, Mode::Create, Access::Buffered)?;
        let written = file.write_at(0, &Header::new(FileKind::Trace, identity, 0).encode());
        if let Err(error) = written {
            // Else it would keep the same command from running again.
            drop(file);
            remove_quietly(&**disk, path);
            return Err(error);
        }
        MADE.store(true, std::sync::atomic::Ordering::Relaxed);
        Ok(Arc::new(Recorder {
            disk: Arc::clone(disk),
            begun_ns: host.now_ns(),
            host: Box::new(host),
            handles: AtomicU64::new(1),
            depths: Depths::new(),
            writing: Mutex::new(Writing {
                file,
                identity,
                offset: LENGTH as u64,
                frame: FrameBuilder::new(LENGTH as u64),
                calls: 0,
                frame_bytes_max: FRAME_BYTES_MAX,
                is_ended: false,
                outcome: Ok(()),
            }),
        }))
    }

    /// Says where the host is in its load: the name of the block that begins.
    pub fn mark(&self, name: &str) {
        let begun = self.begin();
        self.end(begun, Action::Mark, |to| to.bytes(name.as_bytes()), Answer::Nothing);
    }

    /// Says what the host measured: `name` in docs/format/trace.md, or one of its own.
    pub fn sample(&self, name: &str, number: u64) {
        let begun = self.begin();
        let action = Action::Sample;
        self.end(begun, action, |to| to.bytes(name.as_bytes()).number(number), Answer::Nothing);
    }

    /// Writes what is left and the end, by which readers know that nothing is missing, and syncs the file and its name; returns how many
    /// calls it has. What is called afterwards is recorded too: the first such call takes the end away, and one comes again with
    /// the next `finish`, or when the recorder is dropped. The first error of
    /// the recording, if there was one: nothing is written from there on, so it is an error each time. `Invalid` for a call that takes more than 1 GiB.
    pub fn finish(&self) -> Result<u64> {
        let mut writing = lock(&self.writing);
        writing.end();
        if let Err(error) = &writing.outcome {
            let (kind, detail) = (error.kind(), error.detail());
            let again = detail.strip_prefix(ENDED).unwrap_or(detail);
            let again = Error::new(kind, format!("{ENDED}{again}"));
            std::mem::replace(&mut writing.outcome, Err(again))?;
        }
        let folder = paths::split(writing.file.path()).0.to_owned();
        let synced = writing.file.sync().and_then(|()| self.disk.sync_directory(&folder));
        if let Err(error) = &synced {
            // The system may have dropped what it could not write: another sync would say that all is there.
            writing.outcome = Err(Error::new(error.kind(), format!("{ENDED}{}", error.detail())));
        }
        synced.map(|()| writing.calls)
    }

    /// Begins a call in which others may be made. Where a host's code runs within, [`run`] sees to what it panics.
    pub(crate) fn begin(&self) -> Begun {
        there_is_one();
        let (thread, start_ns) = self.host.moment();
        let depth = self.depths.enter(thread).min(63) as u8;
        Begun { start_ns, end_ns: None, aside_ns: 0, thread, depth, is_outer: true }
    }

    /// Begins a call in which the engine makes no other. One that a host's observer makes in it is the host's own.
    #[inline]
    pub(crate) fn begin_inner(&self) -> Begun {
        there_is_one();
        let (thread, start_ns) = self.host.moment();
        let depth = self.depth_of(thread);
        Begun { start_ns, end_ns: None, aside_ns: 0, thread, depth, is_outer: false }
    }

    #[inline]
    fn depth_of(&self, thread: u64) -> u8 {
        self.depths.of(thread).min(63) as u8
    }

    /// Notes that a call is over: what is made of its answer from here on is not its time.
    pub(crate) fn stop(&self, begun: &mut Begun) {
        begun.end_ns = Some(self.host.now_ns());
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    /// Runs what the host does within a call: its calls are no deeper than that one, and its time is not that one's.
    pub(crate) fn aside<T>(&self, begun: &mut Begun, host: impl FnOnce() -> T) -> T {
        struct Within<'a>(&'a Depths, u64);
        impl Drop for Within<'_> {
            fn drop(&mut self) {
                self.0.enter(self.1);
            }
        }
        let start_ns = self.host.now_ns();
        self.depths.leave(begun.thread);
        let within = Within(&self.depths, begun.thread);
        let outcome = host();
        drop(within);
        begun.aside_ns += self.host.now_ns().saturating_sub(start_ns);
        outcome
    }

    /// Writes a call down; `answer` is of the kind that its action has, or that it failed.
    pub(crate) fn end(
        &self,
        begun: Begun,
        action: Action,
        arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
        answer: Answer,
    ) {
        let end_ns = begun.end_ns.unwrap_or_else(|| self.host.now_ns());
        let duration_ns = end_ns.saturating_sub(begun.start_ns);
        self.forget(begun);
        let duration_ns = duration_ns.saturating_sub(begun.aside_ns);
        self.write((begun, duration_ns), action, arguments, answer);
    }

    /// Writes down a call that ends now, which began at a time and took so long in all, the host's other calls in
    /// between.
    pub(crate) fn end_spent(
        &self,
        (start_ns, duration_ns): (u64, u64),
        action: Action,
        arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
        answer: Answer,
    ) {
        let thread = self.host.thread();
        let depth = self.depth_of(thread);
        let begun = Begun { start_ns, end_ns: None, aside_ns: 0, thread, depth, is_outer: false };
        self.write((begun, duration_ns), action, arguments, answer);
    }

    fn write(
        &self,
        (begun, duration_ns): (Begun, u64),
        action: Action,
        arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
        answer: Answer,
    ) {
        there_is_one();
        let Begun { start_ns, thread, depth, .. } = begun;
        let start_ns = start_ns.saturating_sub(self.begun_ns);
        let head = CallHead { action, depth, thread, start_ns, duration_ns };
        let mut writing = lock(&self.writing);
        if writing.outcome.is_err() {
            return;
        }
        writing.go_on();
        writing.frame.call(&head, matches!(answer, Answer::Failed));
        arguments(&mut Arguments(&mut writing.frame));
        writing.frame.answer(&answer);
        writing.frame.expect();
        writing.calls += 1;
        let offset = writing.offset;
        if writing.frame.is_full(offset) {
            writing.write();
        }
    }

    /// Takes back what began and is no call.
    #[inline]
    pub(crate) fn forget(&self, begun: Begun) {
        there_is_one();
        if begun.is_outer {
            self.depths.leave(begun.thread);
        }
    }

    fn new_handle(&self) -> u64 {
        there_is_one();
        self.handles.fetch_add(1, Ordering::Relaxed)
    }
}

impl Writing {
    /// Writes the frame, if there is anything in it, and begins the next.
    fn write(&mut self) {
        if self.frame.calls > 0 && self.outcome.is_ok() {
            let most = self.frame_bytes_max;
            if self.frame.to.len() - HEAD > most {
                self.outcome = Err(Error::invalid(format!(
                    "a call takes more than the {most} bytes that a trace has for one: give it in parts"
                )));
            } else {
                let bytes = self.frame.seal(self.identity, self.offset);
                self.outcome = self.file.write_at(self.offset, bytes);
                self.offset += bytes.len() as u64;
            }
        }
        self.frame.clear(self.offset);
    }

    /// Writes what is left, and behind it the end, which the next frame is written over.
    fn end(&mut self) {
        self.write();
        if self.outcome.is_ok() {
            let end = end_frame(self.identity, self.offset);
            self.outcome = self.file.write_at(self.offset, &end);
            self.is_ended = true;
        }
    }

    /// Takes the end away, if it stands: from here on it would say of calls that are in memory only, or that a full disk
    /// leaves out, that they were never made.
    fn go_on(&mut self) {
        if std::mem::take(&mut self.is_ended) {
            // Durable before anything is written: after a power cut it would stand in front of that.
            self.outcome = self.file.set_len(self.offset).and_then(|()| self.file.sync());
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        there_is_one();
        // Without a sync: who wants to know calls `finish`.
        lock(&self.writing).end();
    }
}

/// A handle that a recorder knows by a number.
#[derive(Debug)]
pub(crate) struct Traced {
    recorder: Arc<Recorder>,
    handle: u64,
}

impl Traced {
    /// A new one, that the answer of a call gives.
    pub fn new(recorder: &Arc<Recorder>) -> Traced {
        Traced { recorder: Arc::clone(recorder), handle: recorder.new_handle() }
    }

    pub fn handle(&self) -> u64 {
        self.handle
    }

    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Whether `other` is of the same recording.
    pub fn knows(&self, other: Option<&Traced>) -> bool {
        other.is_some_and(|it| Arc::ptr_eq(&it.recorder, &self.recorder))
    }
}

impl Clone for Traced {
    fn clone(&self) -> Self {
        let begun = self.recorder.begin_inner();
        let copy = Traced::new(&self.recorder);
        let answer = Answer::Handle(copy.handle);
        self.recorder.end(begun, Action::Clone, |to| to.handle(self.handle), answer);
        copy
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let begun = self.recorder.begin_inner();
        let handle = self.handle;
        self.recorder.end(begun, Action::Release, |to| to.handle(handle), Answer::Nothing);
    }
}

/// Runs `work` as a call that begins now; where it panics, as in a host's operator, the call is none.
pub(crate) fn run<T>(recorder: &Recorder, work: impl FnOnce() -> T) -> (Begun, T) {
    struct Depth<'a>(&'a Recorder, Begun);
    impl Drop for Depth<'_> {
        fn drop(&mut self) {
            self.0.forget(self.1);
        }
    }
    let depth = Depth(recorder, recorder.begin());
    let outcome = work();
    let begun = depth.1;
    std::mem::forget(depth);
    (begun, outcome)
}

/// Runs `work` as a call on `traced`, if anything is recorded.
pub(crate) fn call<T>(
    traced: Option<&Traced>,
    action: Action,
    arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
    answer: impl FnOnce(&T) -> Answer,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(Traced { recorder, handle }) = traced else { return work() };
    let (mut begun, outcome) = run(recorder, work);
    recorder.stop(&mut begun);
    let answer = outcome.as_ref().map_or(Answer::Failed, answer);
    recorder.end(begun, action, |to| arguments(to.handle(*handle)), answer);
    outcome
}

/// The same of a call in which nobody makes another.
#[inline]
pub(crate) fn inner_call<T>(
    traced: Option<&Traced>,
    action: Action,
    arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
    answer: impl FnOnce(&T) -> Answer,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(Traced { recorder, handle }) = traced else { return work() };
    let mut begun = recorder.begin_inner();
    let outcome = work();
    recorder.stop(&mut begun);
    let answer = outcome.as_ref().map_or(Answer::Failed, answer);
    recorder.end(begun, action, |to| arguments(to.handle(*handle)), answer);
    outcome
}

/// The same of a call in which nobody makes another.
#[inline]
pub(crate) fn begin_inner(traced: Option<&Traced>) -> Option<Begun> {
    Some(traced?.recorder.begin_inner())
}

/// Ends a call on `traced`, if it began.
pub(crate) fn end(
    traced: Option<&Traced>,
    begun: Option<Begun>,
    action: Action,
    arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
    outcome: &Result<()>,
) {
    let (Some(Traced { recorder, handle }), Some(begun)) = (traced, begun) else { return };
    let answer = if outcome.is_ok() { Answer::Nothing } else { Answer::Failed };
    recorder.end(begun, action, |to| arguments(to.handle(*handle)), answer);
}

/// Runs `work` as a call on a store, if anything is recorded.
pub(crate) fn store_call<T>(
    recorder: Option<&Arc<Recorder>>,
    action: Action,
    arguments: impl for<'a, 'b> FnOnce(&'a mut Arguments<'b>) -> &'a mut Arguments<'b>,
    answer: impl FnOnce(&T) -> Answer,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(recorder) = recorder else { return work() };
    let (mut begun, outcome) = run(recorder, work);
    recorder.stop(&mut begun);
    let answer = outcome.as_ref().map_or(Answer::Failed, answer);
    recorder.end(begun, action, arguments, answer);
    outcome
}

/// What stands for a value that was found, or was not.
pub(crate) fn found(value: Option<&[u8]>) -> Answer {
    Answer::Digest(value.map(Digest::of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::disk::sim::{Fault, SimDisk};
    use crate::error::Kind;
    use crate::trace::frame::DigestOfMany;
    use crate::trace::{Trace, Walk};

    fn recorder(disk: &Arc<dyn Disk>) -> Arc<Recorder> {
        Recorder::create(disk, "t", || 0).unwrap()
    }

    fn read(disk: &dyn Disk) -> Result<u64> {
        let mut trace = Trace::open(disk, "t")?;
        while trace.next_call()?.is_some() {}
        Ok(trace.end().calls)
    }

    #[test]
    fn a_call_that_no_reader_takes_ends_the_recording() {
        let disk = MemoryDisk::seeded(1);
        let recorder = recorder(&(disk.clone() as Arc<dyn Disk>));
        lock(&recorder.writing).frame_bytes_max = 300_000;
        recorder.mark(&"n".repeat(200_000));
        recorder.mark(&"n".repeat(300_001));
        recorder.mark("behind it");
        for _ in 0..2 {
            let error = recorder.finish().unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            assert!(error.detail().contains("300000 bytes"), "{error}");
        }
        drop(recorder);
        assert_eq!(read(&*disk).unwrap(), 1);
    }

    #[test]
    fn nothing_is_written_behind_what_could_not_be_written() {
        let sim = SimDisk::new(1);
        let recorder = recorder(&(sim.clone() as Arc<dyn Disk>));
        recorder.mark("first");
        assert_eq!(recorder.finish().unwrap(), 1);
        recorder.mark(&"lost".repeat(1_000));
        sim.fail_at(1, Fault::Any);
        let first = recorder.finish().unwrap_err();
        sim.disarm();
        recorder.mark("behind it");
        for _ in 0..2 {
            let again = recorder.finish().unwrap_err();
            assert_eq!(again.kind(), first.kind());
            assert!(again.detail().ends_with(first.detail()), "{again}");
        }
        drop(recorder);
        assert_eq!(read(&*sim).unwrap(), 1);
    }

    #[test]
    fn threads_with_numbers_64_apart_are_two() {
        /// Threads are numbered by whoever asks, which is one thread here.
        struct Numbered(Arc<AtomicU64>);
        impl Host for Numbered {
            fn now_ns(&self) -> u64 {
                0
            }
            fn thread(&self) -> u64 {
                self.0.load(Ordering::Relaxed)
            }
        }
        let disk = MemoryDisk::seeded(1);
        let thread = Arc::new(AtomicU64::new(0));
        let traces = disk.clone() as Arc<dyn Disk>;
        let recorder = Recorder::create(&traces, "t", Numbered(Arc::clone(&thread))).unwrap();
        let numbers = [0, 63, 64, 127, 128, 255, 1_000, 65_535, 65_536, u64::MAX];
        let in_calls: Vec<_> = numbers
            .into_iter()
            .map(|number| {
                thread.store(number, Ordering::Relaxed);
                (number, recorder.begin())
            })
            .collect();
        for (number, begun) in in_calls {
            thread.store(number, Ordering::Relaxed);
            recorder.mark("within");
            recorder.end(begun, Action::Mark, |to| to.bytes(b"around"), Answer::Nothing);
            recorder.mark("behind");
        }
        recorder.finish().unwrap();
        assert!(lock(&recorder.depths.more).is_empty());
        let mut trace = Trace::open(&*disk, "t").unwrap();
        let mut depths = Vec::new();
        while let Some(call) = trace.next_call().unwrap() {
            depths.push((call.thread, call.depth));
        }
        let expected = numbers.into_iter().flat_map(|it| [(it, 1), (it, 0), (it, 0)]);
        assert_eq!(depths, expected.collect::<Vec<_>>());
    }

    /// The answer is what only the recording needs, however long a digest takes.
    #[test]
    fn the_time_of_a_call_ends_before_its_answer_is_made() {
        let disk = MemoryDisk::seeded(1);
        let now = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&now);
        let traces = disk.clone() as Arc<dyn Disk>;
        let host = move || clock.load(Ordering::Relaxed);
        let recorder = Recorder::create(&traces, "t", host).unwrap();
        let traced = Traced::new(&recorder);
        let answer = |(): &()| {
            now.fetch_add(1_000_000, Ordering::Relaxed);
            Answer::Digest(None)
        };
        let work = || {
            now.fetch_add(7, Ordering::Relaxed);
            Ok(())
        };
        call(Some(&traced), Action::Get, |to| to.bytes(b"k"), answer, work).unwrap();
        inner_call(Some(&traced), Action::Get, |to| to.bytes(b"k"), answer, work).unwrap();
        store_call(Some(&recorder), Action::CommitInfo, |to| to.hash(&[1; 32]), answer, work)
            .unwrap();
        let mut walk = Walk::begin(Some(&traced));
        let passed = |_: &mut DigestOfMany| {
            now.fetch_add(1_000_000, Ordering::Relaxed);
        };
        walk.ask(passed, || Ok(())).unwrap();
        now.fetch_add(7, Ordering::Relaxed);
        walk.end(Action::Diff, |to| to.handle(0).number(0), &Ok(()));
        recorder.finish().unwrap();
        let mut trace = Trace::open(&*disk, "t").unwrap();
        while let Some(call) = trace.next_call().unwrap() {
            assert_eq!(call.duration_ns, 7, "{call:?}");
        }
        assert_eq!(trace.end().calls, 4);
    }
}
