//! Traces that were recorded: actions, ranges, blocks over time, and several beside each other.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::http::StatusCode;
use serde_json::json;
use varvite::Kind;
use varvite::disk::os::OsDisk;
use varvite::trace::Trace;
use varvite_sight::trace::{BlockTime, Summary, Summing, blocks_between};

use super::{Made, State, Until};
use crate::answer::{Answer, Fault};
use crate::query::Query;
use crate::sources::{REST, lock, try_lock};

/// Traces beside each other.
const COMPARED_MAX: usize = 8;

/// How long a trace is read before who asked for it is told to ask again: others wait for the thread that waits.
const WAIT: Duration = Duration::from_millis(500);

/// One that grows is gone on with at most so often, and less often when that takes long: others time what is recorded.
const MOMENT: Duration = Duration::from_secs(2);
const SHARE: u32 = 4;

/// When the file was changed, and how long it was then.
type Look = (Option<SystemTime>, u64);

/// What is known of a trace.
#[derive(Default)]
enum Summed {
    #[default]
    Nothing,
    /// A thread reads it.
    Reading,
    /// Of a file that looked so. One that has grown is enough until that time.
    Done(Look, Instant, Arc<Summary>),
    Failed(Look, Instant, Fault),
}

/// A recording that had not ended when it was read, up to there: what follows is added.
struct Growing {
    trace: Trace,
    summing: Summing,
    asked: Instant,
}

/// A file, and what is known of it.
struct One {
    file: PathBuf,
    summed: Mutex<Summed>,
    /// Held by the thread that reads.
    growing: Mutex<Option<Growing>>,
    changed: Condvar,
}

/// The traces, each summed up when it is first asked for and again when it has grown.
pub struct Traces(Vec<Arc<One>>);

impl Traces {
    pub fn new(files: Vec<PathBuf>) -> Traces {
        let one = |file| {
            let (summed, growing) = (Mutex::default(), Mutex::default());
            Arc::new(One { file, summed, growing, changed: Condvar::new() })
        };
        Traces(files.into_iter().map(one).collect())
    }

    pub fn names(&self) -> Vec<String> {
        let name = |one: &Arc<One>| {
            one.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        self.0.iter().map(name).collect()
    }

    /// Closes files that nobody has asked for since a while: they may have been removed.
    pub fn rest(&self) {
        let Some(before) = Instant::now().checked_sub(REST) else { return };
        for one in &self.0 {
            let Some(mut growing) = try_lock(&one.growing) else { continue };
            if growing.as_ref().is_some_and(|it| it.asked < before) {
                *growing = None;
            }
        }
    }

    /// How long each is: another number when one has grown, or is another.
    pub fn lengths(&self) -> Vec<u64> {
        self.0.iter().map(|one| one.look().1).collect()
    }

    /// The sum of a trace. One that takes long is read on by a thread of its own, one for each trace at most, and is
    /// there when somebody asks again.
    fn summary(&self, number: u64, until: &Until) -> Result<Arc<Summary>, Fault> {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let missing =
            || Fault::missing("there is no such trace: give some to the program with --trace");
        let one = self.0.get(at).ok_or_else(missing)?;
        let end = Instant::now() + WAIT.min(until.left());
        let mut summed = lock(&one.summed);
        // What was read while somebody waited is good enough, however much was written meanwhile.
        let mut has_waited = false;
        loop {
            match &*summed {
                Summed::Reading => {}
                Summed::Done(look, ended, summary) if has_waited || one.is_enough(look, ended) => {
                    return Ok(Arc::clone(summary));
                }
                Summed::Failed(look, ended, fault) if has_waited || one.is_enough(look, ended) => {
                    return Err(fault.clone());
                }
                Summed::Nothing | Summed::Done(..) | Summed::Failed(..) => {
                    let reader = Arc::clone(one);
                    let begun = std::thread::Builder::new().spawn(move || reader.read());
                    begun.map_err(|_| Fault::busy("no thread is free to read the trace"))?;
                    *summed = Summed::Reading;
                }
            }
            has_waited = true;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Fault::busy("the trace is still being read: ask again in a moment"));
            }
            let waited = one.changed.wait_timeout(summed, left);
            summed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl One {
    fn look(&self) -> Look {
        let metadata = std::fs::metadata(&self.file);
        metadata.map_or((None, 0), |it| (it.modified().ok(), it.len()))
    }

    /// Whether what was read of it still does: nothing was written since, or only a moment ago was it read and it has
    /// only grown.
    fn is_enough(&self, look: &Look, stale: &Instant) -> bool {
        let now = self.look();
        now == *look || (now.1 >= look.1 && Instant::now() < *stale)
    }

    /// Reads the trace and says that it did, however that ended.
    fn read(&self) {
        let (look, start) = (self.look(), Instant::now());
        let summed = std::panic::catch_unwind(AssertUnwindSafe(|| self.sum()));
        let took = start.elapsed();
        let stale = |took: Duration| Instant::now() + MOMENT.max(took * SHARE);
        let summed = match summed {
            // What is read once takes long once.
            Ok(Ok((summary, has_gone_on))) => {
                let ended = summary.is_ended;
                let took = if has_gone_on || ended { took } else { Duration::ZERO };
                Summed::Done(look, stale(took), Arc::new(summary))
            }
            Ok(Err(error)) => Summed::Failed(look, stale(took), error.into()),
            Err(_) => {
                let why = "the trace could not be summed up; that is a fault of this program";
                let fault = Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "Panicked", why);
                Summed::Failed(look, stale(took), fault)
            }
        };
        *lock(&self.summed) = summed;
        self.changed.notify_all();
    }

    /// The sum, and whether it went on from one before.
    fn sum(&self) -> varvite::Result<(Summary, bool)> {
        let mut kept = lock(&self.growing);
        // What an error or a panic leaves is not gone on with.
        let mut before = kept.take();
        self.with(|disk, name| {
            let has_gone_on = match &mut before {
                Some(before) => before.trace.go_on(disk, name)?,
                None => false,
            };
            let mut growing = match before.filter(|_| has_gone_on) {
                Some(before) => before,
                None => Growing {
                    trace: Trace::open(disk, name)?,
                    summing: Summing::default(),
                    asked: Instant::now(),
                },
            };
            growing.summing.read(&mut growing.trace)?;
            growing.asked = Instant::now();
            let end = growing.trace.end();
            let summary = growing.summing.summary(name, end);
            *kept = (!end.is_ended).then_some(growing);
            Ok((summary, has_gone_on))
        })
    }

    /// What `read` makes of the trace's folder, and of its name.
    fn with<T>(
        &self,
        read: impl FnOnce(&OsDisk, &str) -> varvite::Result<T>,
    ) -> varvite::Result<T> {
        let folder =
            self.file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = self.file.file_name().unwrap_or_default();
        let name = name.to_str().ok_or_else(|| {
            let why = "the name of the trace is no UTF-8: rename the file, and give it again";
            varvite::Error::invalid(why)
        })?;
        // It is no file of a store, which could be checked.
        let told = |error: varvite::Error| match error.kind() {
            Kind::Corrupt => error.with_advice("record it again, or take another copy"),
            _ => error,
        };
        let disk = OsDisk::new(folder)?;
        read(&disk, name).map_err(told)
    }
}

fn value(summary: &impl serde::Serialize) -> Result<serde_json::Value, Fault> {
    serde_json::to_value(summary).map_err(|error| {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "Encoding", error.to_string())
    })
}

fn summed(state: &State, query: &Query, until: &Until, rows: &'static str) -> Made {
    let summary = state.traces.summary(query.number("trace", 0, u64::MAX)?, until)?;
    Ok(Answer::Json(value(&*summary)?, rows))
}

/// `/api/trace`.
pub fn summary(state: &State, query: &Query, until: &Until) -> Made {
    summed(state, query, until, "prefixes")
}

/// `/api/trace/activity`.
pub fn activity(state: &State, query: &Query, until: &Until) -> Made {
    summed(state, query, until, "activity")
}

/// `/api/trace/ranges`.
pub fn ranges(state: &State, query: &Query, until: &Until) -> Made {
    summed(state, query, until, "ranges")
}

/// `/api/trace/timeline`.
pub fn timeline(state: &State, query: &Query, until: &Until) -> Made {
    summed(state, query, until, "timeline")
}

/// `/api/trace/actions`.
pub fn actions(state: &State, query: &Query, until: &Until) -> Made {
    summed(state, query, until, "actions")
}

/// `/api/trace/blocks`.
pub fn blocks(state: &State, query: &Query, until: &Until) -> Made {
    summed(state, query, until, "worst_blocks")
}

/// `/api/trace/commits`. Of some blocks the trace is read again, as far as there is time: they are each by itself then, where
/// they are few enough.
pub fn commits(state: &State, query: &Query, until: &Until) -> Made {
    let trace = query.number("trace", 0, u64::MAX)?;
    let summary = state.traces.summary(trace, until)?;
    let (from, to) = (query.number("from", 0, u64::MAX)?, query.number("to", u64::MAX, u64::MAX)?);
    let is_all = from == 0 && to >= summary.blocks;
    let (points, is_cut) = if is_all || summary.block_times.iter().all(|it| it.blocks == 1) {
        let asked = |it: &&BlockTime| it.number >= from && it.number < to;
        (summary.block_times.iter().filter(asked).cloned().collect(), false)
    } else {
        let one = &state.traces.0[usize::try_from(trace).unwrap_or(usize::MAX)];
        let goes_on = || !until.is_over();
        one.with(|disk, name| {
            let mut trace = Trace::open(disk, name)?;
            blocks_between(&mut trace, summary.has_commits, from..to, goes_on)
        })?
    };
    let said = json!({ "blocks": summary.blocks, "is_cut": is_cut, "commits": value(&points)? });
    Ok(Answer::Json(said, "commits"))
}

/// `/api/trace/samples`.
pub fn samples(state: &State, query: &Query, until: &Until) -> Made {
    let summary = state.traces.summary(query.number("trace", 0, u64::MAX)?, until)?;
    let points = summary.samples.iter().flat_map(|(name, points)| {
        let row = move |(second, value): &(f64, u64)| json!({ "name": name, "second": second, "value": value });
        points.iter().map(row)
    });
    Ok(Answer::Json(json!({ "samples": points.collect::<Vec<_>>() }), "samples"))
}

/// The runs that the query names, or the first ones.
fn runs(state: &State, query: &Query, until: &Until) -> Result<Vec<Summary>, Fault> {
    let count = state.traces.0.len() as u64;
    let too_few = "two traces are needed: give some to the program with --trace";
    if count == 0 {
        // There is no number that could be given.
        return Err(Fault::missing(too_few));
    }
    let mut numbers = query.numbers("traces", COMPARED_MAX, count)?;
    if numbers.is_empty() {
        numbers = (0..count.min(COMPARED_MAX as u64)).collect();
    }
    if numbers.len() < 2 {
        return Err(Fault::missing(too_few));
    }
    let names = state.traces.names();
    let of = |number: &u64| {
        let mut summary = (*state.traces.summary(*number, until)?).clone();
        // Two files in two folders may have one name.
        let is_named = |name: &&String| **name == summary.name;
        if names.iter().filter(is_named).count() > 1 {
            summary.name = format!("{} ({})", summary.name, number + 1);
        }
        Ok(summary)
    };
    numbers.iter().map(of).collect()
}

fn compared(state: &State, query: &Query, until: &Until, rows: &'static str) -> Made {
    let compared = varvite_sight::trace::compare(runs(state, query, until)?);
    let mut said = value(&compared)?;
    let changes: Vec<_> = [&compared.worse, &compared.better].into_iter().flatten().collect();
    said["changes"] = json!(value(&changes)?);
    Ok(Answer::Json(said, rows))
}

/// `/api/compare`.
pub fn compare(state: &State, query: &Query, until: &Until) -> Made {
    compared(state, query, until, "changes")
}

/// `/api/compare/only`.
pub fn only(state: &State, query: &Query, until: &Until) -> Made {
    compared(state, query, until, "only")
}

/// `/api/compare/runs`: of each run what is one figure.
pub fn runs_beside(state: &State, query: &Query, until: &Until) -> Made {
    let mut rows = value(&runs(state, query, until)?)?;
    for (number, row) in rows.as_array_mut().into_iter().flatten().enumerate() {
        if let Some(row) = row.as_object_mut() {
            row.retain(|name, it| !it.is_array() && (!it.is_object() || name == "block_latency"));
            row.insert("run".to_owned(), (number + 1).into());
        }
    }
    Ok(Answer::Json(json!({ "runs": rows }), "runs"))
}

/// `/api/compare/distributions`.
pub fn distributions(state: &State, query: &Query, until: &Until) -> Made {
    let mut rows = Vec::new();
    for (number, run) in runs(state, query, until)?.iter().enumerate() {
        for (action, points) in &run.distributions {
            rows.extend(points.iter().map(|(us, share)| {
                json!({ "run": number + 1, "name": run.name, "action": action, "share": share, "us": us })
            }));
        }
    }
    Ok(Answer::Json(json!({ "distributions": rows }), "distributions"))
}
