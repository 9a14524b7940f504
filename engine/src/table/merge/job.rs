//! A merge in progress: paid for in small steps by whoever holds it, read by everybody meanwhile.
//!
//! Output is cut into segments. When one is finished a new state is published: the outputs so far,
//! the last key that they cover (the boundary), and the inputs without the segments that lie wholly
//! below it. Readers take keys up to the boundary from the outputs and later ones from the inputs,
//! so a merge frees space as it goes and can be resumed at its boundary after an error or a reopen.
//!
//! The filter of a finished segment is built while the next is merged, and that of the last one after it, for a part
//! of the debt of its own: at once it would take milliseconds.
//!
//! Invariant: a published state has the same content as the inputs had.

use std::sync::Arc;

use super::k_way::{Fetch, Merge, MergeSource};
use super::output::{BlobPlan, Output};
use super::union_merge::{AnyMerge, Groups, UnionMerge};
use crate::cache::Charge;
use crate::error::Result;
use crate::order;
use crate::order::BTreeSet;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use crate::table::buffer::WriteBuffer;
use crate::table::bytes::common_prefix;
use crate::table::bytes::operator::MergeOperator;
use crate::table::runs::{ReadOptions, Run, RunReader, Segment, chunk_bytes};
use crate::table::shared::{Purpose, SegmentStore};

/// One input of a merge.
#[derive(Clone, Debug)]
pub enum Input {
    /// A sealed write buffer.
    Buffer(WriteBuffer),
    /// A run.
    Run(Arc<Run>),
}

impl Input {
    /// What reading all of its entries costs.
    pub fn cost(&self) -> u64 {
        match self {
            Input::Buffer(buffer) => buffer.cost_bytes(),
            Input::Run(run) => run.cost(),
        }
    }

    /// How many entries it has.
    pub fn entry_count(&self) -> u64 {
        match self {
            Input::Buffer(buffer) => buffer.entry_count(),
            Input::Run(run) => run.entry_count(),
        }
    }

    /// Its segments.
    pub fn segments(&self) -> &[Arc<Segment>] {
        match self {
            Input::Buffer(_) => &[],
            Input::Run(run) => run.segments(),
        }
    }

    /// Leaves out the segments that lie wholly at or below `boundary`, which join `gone`.
    fn pass(&mut self, boundary: &[u8], gone: &mut Vec<Arc<Segment>>) {
        let Input::Run(run) = self else { return };
        if run.segments().first().is_some_and(|segment| segment.last_key() <= boundary) {
            gone.extend(Arc::make_mut(run).split_to(boundary));
        }
    }
}

/// Where a merge stands, as readers and snapshots see it.
#[derive(Clone, Debug)]
pub struct MergeState {
    /// Finished segments, in key order.
    pub outputs: Arc<Run>,
    /// The last key that the outputs cover; `None` before the first.
    pub boundary: Option<Arc<[u8]>>,
    /// What is left, newest first: entries after the boundary count, earlier ones do not.
    pub inputs: Vec<Input>,
    /// Cost of the input entries up to the boundary, and of the last filter when all is merged.
    pub spent: u64,
    /// Whether all is merged, so that the outputs are the result.
    pub done: bool,
}

/// What a merge is to do.
#[derive(Clone, Debug)]
pub struct MergePlan {
    /// What it is for.
    pub purpose: Purpose,
    /// Cost of all entries of all inputs, those below the boundary included, of the values that leave sparse
    /// blob files, and about that of the last filter.
    pub debt: u64,
    /// Nothing older lies below the inputs: deletes end here.
    pub bottom: bool,
    /// Filter bits an entry of the output; 0 for no filter.
    pub filter_bits: u8,
    /// What goes to blob files.
    pub blobs: BlobPlan,
    /// How the inputs belong together, if they are of several tables.
    pub groups: Option<Arc<Groups>>,
}

/// A run of an unfinished union, for readers.
#[derive(Clone, Debug)]
pub struct UnionPart {
    /// The run, which is not empty.
    pub run: Arc<Run>,
    /// Only keys after this one count.
    pub after: Option<Arc<[u8]>>,
    /// The first part behind the table that it is of.
    pub end: usize,
}

impl MergeState {
    /// Whether nobody else has its runs.
    fn is_unread(&self) -> bool {
        let is_unread = |input: &Input| match input {
            Input::Run(run) => Arc::strong_count(run) == 1,
            Input::Buffer(_) => true,
        };
        Arc::strong_count(&self.outputs) == 1 && self.inputs.iter().all(is_unread)
    }

    /// Goes on behind `finished`, at a cost of `spent` in all. Gives what is not needed any more.
    fn go_on(
        &mut self,
        finished: Option<Arc<Segment>>,
        spent: u64,
        end: bool,
    ) -> Vec<Arc<Segment>> {
        let mut gone = Vec::new();
        if let Some(segment) = finished {
            Arc::make_mut(&mut self.outputs).push(segment);
        }
        self.boundary = self.outputs.last_key().map(Arc::from);
        if end {
            for input in self.inputs.drain(..) {
                gone.extend(input.segments().iter().cloned());
            }
        } else if let Some(boundary) = &self.boundary {
            self.inputs.iter_mut().for_each(|input| input.pass(boundary, &mut gone));
        }
        (self.spent, self.done) = (spent, end);
        gone
    }

    /// The content of a union whose inputs belong together as `groups` say: its finished segments, if
    /// there are any, then what is left of its inputs.
    pub fn parts(&self, groups: &Groups) -> Vec<UnionPart> {
        let mut parts = Vec::with_capacity(self.inputs.len() + 1);
        if !self.outputs.is_empty() {
            parts.push(UnionPart { run: Arc::clone(&self.outputs), after: None, end: 0 });
        }
        let outputs = parts.len();
        let mut places = Vec::with_capacity(self.inputs.len() + 1);
        for (number, input) in self.inputs.iter().enumerate() {
            places.push(parts.len());
            let Input::Run(run) = input else { continue };
            if !run.is_empty() {
                let after = groups.after[number].clone().max(self.boundary.clone());
                let end = usize::from(groups.ends[number]);
                parts.push(UnionPart { run: Arc::clone(run), after, end });
            }
        }
        places.push(parts.len());
        for (number, part) in parts.iter_mut().enumerate() {
            part.end = places[if number < outputs { places.len() - 1 } else { part.end }];
        }
        parts
    }
}

/// The moving parts, held by the one who works.
struct Work {
    /// None until the first step after a start or a failure.
    merge: Option<AnyMerge>,
    builder: Option<Output>,
    /// A segment that has all its entries and not yet its filter, and what was spent when it had them.
    ending: Option<(Output, u64)>,
    /// The blob files that values are moved from, as found at the start.
    sparse: Arc<BTreeSet<u64>>,
    /// What the readers and the output take of the session's memory, and the readers' part of it.
    charge: Option<Charge>,
    readers_bytes: u64,
    /// Cost read so far, this segment's included.
    spent: u64,
    /// Still set when the lock is taken: whoever worked last panicked, as a host's operator may.
    under_way: bool,
}

/// A merge, shared by every table and view whose levels contain it.
pub struct MergeJob {
    plan: MergePlan,
    operator: Option<MergeOperator>,
    work: Mutex<Work>,
    state: Mutex<Arc<MergeState>>,
    spent: AtomicU64,
    done: AtomicBool,
    /// How far a helper has been asked to go.
    requested: AtomicU64,
    /// Last, because the folder's lock goes with it, and files are removed under the lock only.
    store: Arc<SegmentStore>,
}

impl std::fmt::Debug for MergeJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergeJob({} of {})", self.spent(), self.plan.debt)
    }
}

impl MergeJob {
    /// A merge of `inputs`, newest first.
    pub fn new(
        store: Arc<SegmentStore>,
        inputs: Vec<Input>,
        operator: Option<MergeOperator>,
        (purpose, bottom, filter_bits, blobs): (Purpose, bool, u8, BlobPlan),
    ) -> Arc<Self> {
        let entries: u64 = inputs.iter().map(Input::cost).sum();
        let moved: u64 = blobs.sparse(inputs.iter().flat_map(Input::segments)).values().sum();
        let debt = entries + moved + last_filter_cost(&inputs, filter_bits, &store);
        let state = MergeState {
            outputs: Arc::new(Run::default()),
            boundary: None,
            inputs,
            spent: 0,
            done: false,
        };
        Self::resume(
            store,
            MergePlan { purpose, debt, bottom, filter_bits, blobs, groups: None },
            operator,
            state,
        )
    }

    /// A merge that stands at `state` already.
    pub fn resume(
        store: Arc<SegmentStore>,
        plan: MergePlan,
        operator: Option<MergeOperator>,
        state: MergeState,
    ) -> Arc<Self> {
        let work = Work {
            merge: None,
            builder: None,
            ending: None,
            sparse: Arc::default(),
            charge: None,
            readers_bytes: 0,
            spent: state.spent,
            under_way: false,
        };
        Arc::new(MergeJob {
            store,
            plan,
            operator,
            work: Mutex::new(work),
            spent: AtomicU64::new(state.spent),
            done: AtomicBool::new(state.done),
            requested: AtomicU64::new(0),
            state: Mutex::new(Arc::new(state)),
        })
    }

    /// What it is to do.
    pub fn plan(&self) -> &MergePlan {
        &self.plan
    }

    /// What joins upserts in it.
    pub fn operator(&self) -> Option<&MergeOperator> {
        self.operator.as_ref()
    }

    /// Where it stands.
    pub fn state(&self) -> Arc<MergeState> {
        Arc::clone(&lock(&self.state))
    }

    /// The content of a union. See [`MergeState::parts`].
    pub fn parts(&self) -> Vec<UnionPart> {
        let groups = self.plan.groups.as_deref();
        self.state().parts(groups.expect("the merge is one of a union"))
    }

    /// Cost of the input entries read so far, and of what the last filter has of them.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Acquire)
    }

    /// At most how much is left to spend: 0 when all is done, and only then.
    pub fn debt_left(&self) -> u64 {
        if self.is_done() { 0 } else { self.plan.debt.saturating_sub(self.spent()).max(1) }
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Merges until at least `target` of the debt is spent; returns the cost of the entries read.
    /// After an error the merge stands at its boundary and can go on.
    pub fn advance_to(&self, target: u64) -> Result<u64> {
        // The whole debt means the end, also where entries after a boundary were read twice.
        let target = if target >= self.plan.debt { u64::MAX } else { target };
        if self.is_done() || self.spent() >= target {
            return Ok(0);
        }
        self.store.write(|| {
            let mut work = lock(&self.work);
            if work.under_way {
                self.restart(&mut work);
            }
            work.under_way = true;
            let before = work.spent;
            let read_before = work.merge.as_ref().map_or(0, AnyMerge::bytes_read);
            let outcome = self.advance(&mut work, target);
            let read = work.merge.as_ref().map_or(read_before, AnyMerge::bytes_read);
            self.store.counters.add_merge_read(read - read_before.min(read));
            if outcome.is_err() {
                self.restart(&mut work);
                // The disk may be full.
                self.store.spares.clear();
            }
            if self.is_done() {
                work.merge = None;
                work.charge = None;
            }
            if let Some(charge) = &work.charge {
                let ending = work.ending.as_ref().map(|(output, _)| output);
                let outputs = work.builder.iter().chain(ending).map(Output::memory_bytes);
                charge.set(work.readers_bytes + outputs.sum::<u64>());
            }
            self.store.spares.shed();
            work.under_way = false;
            self.spent.store(work.spent, Ordering::Release);
            outcome.map(|()| work.spent.saturating_sub(before))
        })
    }

    /// Merges all that is left.
    pub fn finish(&self) -> Result<u64> {
        self.advance_to(u64::MAX)
    }

    /// Asks the executor to work until `target` is spent. One request is under way at a time.
    pub fn request(self: &Arc<Self>, target: u64) {
        let Some(executor) = self.store.executor() else { return };
        if self.requested.fetch_max(target, Ordering::AcqRel) != 0 {
            return;
        }
        let request = Request { job: Arc::clone(self), helped: false };
        executor.execute(Box::new(move || request.help()));
    }

    /// What a helper does: small steps, so that a writer who needs the merge waits little. Errors are
    /// left to the writer, who meets them again.
    fn help(&self) {
        const STEP: u64 = 64 << 10;
        loop {
            let target = self.requested.load(Ordering::Acquire);
            let spent = self.spent();
            if self.store.paused().is_some() {
                self.requested.store(0, Ordering::Release);
                return;
            }
            if self.is_done() || spent >= target {
                let swapped =
                    self.requested.compare_exchange(target, 0, Ordering::AcqRel, Ordering::Acquire);
                if swapped.is_ok() {
                    return;
                }
            } else if self.advance_to(target.min(spent + STEP)).is_err() {
                self.requested.store(0, Ordering::Release);
                return;
            }
        }
    }

    fn advance(&self, work: &mut Work, target: u64) -> Result<()> {
        if self.is_done() {
            return Ok(());
        }
        if work.merge.is_none() {
            work.merge = Some(self.start()?);
            work.sparse = self.sparse();
            work.charge = self.store.charge();
            let inputs = self.state().inputs.len();
            work.readers_bytes = (inputs * chunk_bytes(inputs, self.store.access())) as u64;
        }
        let segment_bytes = self.store.segment_bytes();
        while work.spent < target {
            let Work { merge, builder, sparse, spent, .. } = &mut *work;
            let merge = merge.as_mut().expect("the merge was started");
            let mut moved = 0;
            let cost = merge.step(|entry| {
                if let Some(output) = builder {
                    moved = output.add(&self.store, entry)?;
                } else {
                    let about = segment_bytes.min(self.plan.debt.saturating_sub(*spent));
                    let made = self.store.build_segment(self.plan.filter_bits, about)?;
                    let output = Output::new(made, self.plan.blobs, self.plan.purpose);
                    let output = output.emptying(sparse);
                    moved = builder.insert(output).add(&self.store, entry)?;
                }
                Ok(())
            })?;
            let Some(cost) = cost else { return self.end(work, target) };
            *spent += cost + moved;
            if let Some((output, _)) = &mut work.ending {
                // Of entries with long values there are few, and as much time for each.
                let most = FILTERED_AN_ENTRY + (cost / BYTES_A_FILTERED) as usize;
                if output.build_filter(most) < most {
                    self.finish_ending(work)?;
                }
            }
            if work.builder.as_ref().is_some_and(|output| output.is_full(segment_bytes)) {
                self.finish_ending(work)?;
                let mut full = work.builder.take();
                if let Some(output) = full.as_mut().filter(|_| self.plan.filter_bits > 0) {
                    output.end_entries()?;
                }
                work.ending = full.map(|output| (output, work.spent));
                if self.plan.filter_bits == 0 {
                    self.finish_ending(work)?;
                }
            }
        }
        let exhausted = work.merge.as_ref().is_some_and(|merge| !merge.has_next());
        if exhausted { self.end(work, target) } else { Ok(()) }
    }

    /// Finishes the last segments, when all entries are merged, as far as `target` goes.
    fn end(&self, work: &mut Work, target: u64) -> Result<()> {
        let ending = work.ending.as_mut().map(|(output, _)| output);
        for output in ending.into_iter().chain(&mut work.builder) {
            loop {
                let built = output.build_filter(FILTERED_AT_ONCE);
                work.spent += built as u64 * FILTER_COST;
                if built < FILTERED_AT_ONCE {
                    break;
                }
                if work.spent >= target {
                    return Ok(());
                }
            }
        }
        self.finish_ending(work)?;
        self.finish_segment(work.builder.take(), work.spent, true)
    }

    /// Finishes the segment that has all its entries, if there is one.
    fn finish_ending(&self, work: &mut Work) -> Result<()> {
        let Some((output, spent)) = work.ending.take() else { return Ok(()) };
        self.finish_segment(Some(output), spent, false)
    }

    /// Readers of the inputs, after the boundary.
    fn start(&self) -> Result<AnyMerge> {
        let state = self.state();
        let boundary = state.boundary.as_deref();
        let groups = self.plan.groups.as_deref();
        let skip = shared_prefix(&state.inputs);
        let chunk_bytes = chunk_bytes(state.inputs.len(), self.store.access());
        let mut sources = Vec::with_capacity(state.inputs.len());
        for (number, input) in state.inputs.iter().enumerate() {
            // Of two limits the later one counts, and none is the earliest.
            let after = boundary.max(groups.and_then(|groups| groups.after[number].as_deref()));
            sources.push(match input {
                Input::Buffer(buffer) => {
                    let mut stream = buffer.stream();
                    if let Some(key) = after {
                        stream.seek(key);
                        if stream.peek().is_some_and(|entry| entry.key == key) {
                            stream.next();
                        }
                    }
                    MergeSource::Buffer(stream)
                }
                Input::Run(run) => {
                    let options = ReadOptions { chunk_bytes, skip, ..ReadOptions::default() };
                    let mut reader = RunReader::new(run, after, options)?;
                    if reader.peek().is_some_and(|entry| Some(entry.key) == after) {
                        reader.advance()?;
                    }
                    MergeSource::Run(reader)
                }
            });
        }
        let store = Arc::clone(&self.store);
        let fetch: Fetch = Box::new(move |reference| store.fetch(reference));
        let joining = (self.operator.clone(), fetch);
        Ok(match &self.plan.groups {
            None => AnyMerge::Levels(Merge::new(sources, skip, joining, self.plan.bottom)),
            Some(groups) => {
                AnyMerge::Union(UnionMerge::new(sources, Arc::clone(groups), skip, joining))
            }
        })
    }

    /// The blob files that values are moved from. What the outputs refer to counts too, so that a
    /// merge that goes on after a failure or a reopening finds the same.
    fn sparse(&self) -> Arc<BTreeSet<u64>> {
        let state = self.state();
        let inputs = state.inputs.iter().flat_map(Input::segments);
        let files = self.plan.blobs.sparse(state.outputs.segments().iter().chain(inputs));
        Arc::new(order::set(files.into_keys()))
    }

    /// Finishes a segment and publishes the state after it, when so much was spent. Where nobody reads that, it
    /// changes in place, which costs no more the more segments there are.
    fn finish_segment(&self, output: Option<Output>, spent: u64, end: bool) -> Result<()> {
        let finished = output.map(|output| output.finish(&self.store)).transpose()?;
        let mut gone = Vec::new();
        let mut published = lock(&self.state);
        if let Some(state) = Arc::get_mut(&mut published).filter(|state| state.is_unread()) {
            gone = state.go_on(finished, spent, end);
            drop(published);
        } else {
            drop(published);
            let before = self.state();
            let mut next = (*before).clone();
            gone.extend(next.go_on(finished, spent, end));
            drop(before);
            let before = std::mem::replace(&mut *lock(&self.state), Arc::new(next));
            drop(before);
        }
        self.done.store(end, Ordering::Release);
        // Only now, since it may remove files, for which no reader shall wait.
        drop(gone);
        Ok(())
    }

    /// Forgets the unfinished segment, so that the next step begins at the boundary again.
    fn restart(&self, work: &mut Work) {
        work.merge = None;
        work.charge = None;
        work.builder = None;
        work.ending = None;
        work.spent = self.state().spent;
    }
}

/// The request under way. When its executor drops it, or the help panics, the next one may come.
struct Request {
    job: Arc<MergeJob>,
    helped: bool,
}

impl Request {
    fn help(mut self) {
        self.job.help();
        self.helped = true;
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.helped {
            self.job.requested.store(0, Ordering::Release);
        }
    }
}

/// What it costs to put an entry into a filter, beside what merging costs. Both in bytes of entries.
const FILTER_COST: u64 = 16;
/// How many entries go into the filter of the segment before for each that is merged: its filter is done
/// when the next segment has half of its entries.
const FILTERED_AN_ENTRY: usize = 2;
/// And one more for so many bytes of it.
const BYTES_A_FILTERED: u64 = 64;
/// How many go into the last one in a step.
const FILTERED_AT_ONCE: usize = 64;

/// What the filter that is built when all entries are merged costs at most: the last segment has no more entries than
/// each input has in its last bytes of a segment.
pub fn last_filter_cost(inputs: &[Input], filter_bits: u8, store: &SegmentStore) -> u64 {
    if filter_bits == 0 {
        return 0;
    }
    let entries = |input: &Input| match input {
        Input::Buffer(buffer) => buffer.entry_count(),
        Input::Run(run) => {
            let (mut bytes, mut entries) = (0, 0);
            for segment in run.segments().iter().rev() {
                entries += segment.meta().entries();
                bytes += segment.meta().file_bytes();
                if bytes >= store.segment_bytes() {
                    break;
                }
            }
            entries
        }
    };
    inputs.iter().map(entries).sum::<u64>() * FILTER_COST
}

/// How many bytes all keys of all inputs share from their start.
fn shared_prefix(inputs: &[Input]) -> usize {
    let mut shared: Option<Vec<u8>> = None;
    let mut add = |key: &[u8]| match &mut shared {
        None => shared = Some(key.to_vec()),
        Some(shared) => shared.truncate(common_prefix(shared, key)),
    };
    for input in inputs {
        match input {
            Input::Buffer(buffer) => {
                let mut stream = buffer.stream();
                stream.peek().map(|entry| entry.key).into_iter().for_each(&mut add);
                stream.seek_last();
                stream.peek().map(|entry| entry.key).into_iter().for_each(&mut add);
            }
            Input::Run(run) => run.first_key().into_iter().chain(run.last_key()).for_each(&mut add),
        }
    }
    shared.map_or(0, |shared| shared.len())
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::disk::{Disk, Lock};
    use crate::format::hash::hash;
    use crate::sync::Mutex;
    use crate::table::bytes::{EntryKind, EntryRef};
    use crate::table::shared::{Executor, SessionOptions};
    use shuttle::thread;

    const ENTRIES: u64 = 6;

    #[derive(Debug)]
    struct NoLock;
    impl Lock for NoLock {}

    /// Counts helpers, each on a thread of its own.
    #[derive(Default)]
    struct Threads {
        started: AtomicU64,
        running: Arc<AtomicU64>,
        handles: Mutex<Vec<thread::JoinHandle<()>>>,
    }

    impl Executor for Threads {
        fn execute(&self, work: Box<dyn FnOnce() + Send>) {
            self.started.fetch_add(1, Ordering::SeqCst);
            let running = Arc::clone(&self.running);
            let handle = thread::spawn(move || {
                running.fetch_add(1, Ordering::SeqCst);
                work();
                running.fetch_sub(1, Ordering::SeqCst);
            });
            lock(&self.handles).push(handle);
        }
    }

    /// Drops what it is given.
    struct Dropping;

    impl Executor for Dropping {
        fn execute(&self, work: Box<dyn FnOnce() + Send>) {
            drop(work);
        }
    }

    fn buffer() -> WriteBuffer {
        let mut buffer = WriteBuffer::new(64);
        for number in 0..ENTRIES {
            let key = number.to_be_bytes();
            let entry = EntryRef { kind: EntryKind::Insert, key: &key, value: b"value" };
            buffer.insert(entry, hash(1, &key), &|_, _| Ok(None)).unwrap();
        }
        buffer
    }

    fn job(executor: Arc<dyn Executor>) -> Arc<MergeJob> {
        let disk = MemoryDisk::seeded(1);
        disk.create_directory("segments").expect("memory takes it");
        let options = SessionOptions { executor: Some(executor), ..SessionOptions::default() };
        let store = SegmentStore::new(disk, options, (1, 1), 1, Some((Box::new(NoLock), 1)));
        MergeJob::new(
            store,
            vec![Input::Buffer(buffer())],
            None,
            (Purpose::Merge, true, 10, BlobPlan::new(u32::MAX, crate::Compression::None)),
        )
    }

    /// What a reader may rely on in any state: all of the content, in outputs or in inputs.
    fn check(job: &MergeJob) {
        let was_done = job.is_done();
        let state = job.state();
        assert!(state.done || !was_done, "who sees that it is done sees the result");
        let inputs: u64 = state.inputs.iter().map(Input::cost).sum();
        let (left, there) = (inputs > 0, state.outputs.entry_count());
        assert!(if state.done { !left && there == ENTRIES } else { left && there == 0 });
        assert!(state.spent <= job.plan().debt);
    }

    #[test]
    fn two_payers_a_helper_and_a_reader_share_a_merge() {
        crate::sync::check_schedules(
            || {
                let executor = Arc::new(Threads::default());
                let job = job(Arc::<Threads>::clone(&executor));
                let debt = job.plan().debt;
                job.request(debt / 3);
                let payers: Vec<_> = (1..3)
                    .map(|payer| {
                        let job = Arc::clone(&job);
                        thread::spawn(move || {
                            let paid = job.advance_to(debt * payer / 4).expect("memory works");
                            job.request(debt);
                            paid + job.advance_to(debt / 2 + payer).expect("memory works")
                        })
                    })
                    .collect();
                let reader = {
                    let job = Arc::clone(&job);
                    thread::spawn(move || (0..3).for_each(|_| check(&job)))
                };
                let paid: u64 =
                    payers.into_iter().map(|payer| payer.join().expect("it pays")).sum();
                reader.join().expect("every state is whole");
                while let Some(handle) = { lock(&executor.handles).pop() } {
                    handle.join().expect("a helper ends");
                }
                // The last request asked for all, and none is lost.
                assert!(paid <= debt && job.spent() == debt && job.is_done());
                assert_eq!(job.requested.load(Ordering::SeqCst), 0);
                assert_eq!(executor.running.load(Ordering::SeqCst), 0);
                check(&job);
            },
            1500,
        );
    }

    #[test]
    fn a_dropped_request_leaves_room_for_the_next() {
        crate::sync::check_schedules(
            || {
                let job = job(Arc::new(Dropping));
                let threads: Vec<_> = (1..3)
                    .map(|target| {
                        let job = Arc::clone(&job);
                        thread::spawn(move || job.request(target))
                    })
                    .collect();
                threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
                assert_eq!(job.requested.load(Ordering::SeqCst), 0);
                job.finish().expect("memory works");
                check(&job);
            },
            500,
        );
    }

    /// The session ends while a helper and a payer work: both stop, and nothing is written after.
    #[test]
    fn nobody_writes_after_the_end_of_the_session() {
        crate::sync::check_schedules(
            || {
                let executor = Arc::new(Threads::default());
                let job = job(Arc::<Threads>::clone(&executor));
                job.request(u64::MAX);
                let payer = {
                    let job = Arc::clone(&job);
                    thread::spawn(move || job.finish().map_err(|error| error.kind()))
                };
                job.store.close();
                let files = job.store.disk.list("segments").expect("memory answers");
                let outcome = payer.join().expect("no panic");
                assert!(outcome.is_ok() || outcome == Err(crate::Kind::Closed));
                while let Some(handle) = { lock(&executor.handles).pop() } {
                    handle.join().expect("a helper ends");
                }
                assert_eq!(job.store.disk.list("segments").expect("memory answers"), files);
                check(&job);
            },
            1500,
        );
    }
}
