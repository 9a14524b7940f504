//! Traces that were recorded: actions, ranges, blocks over time, and several beside each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::json;
use varvite::disk::os::OsDisk;
use varvite::trace::Trace;
use varvite_sight::trace::summary::{Summary, summarise};

use super::{Made, State, Until};
use crate::answer::{Answer, Fault};
use crate::query::Query;

/// Traces beside each other.
const COMPARED_MAX: usize = 8;

type Kept = (Option<SystemTime>, u64, Arc<Summary>);

/// The traces, each summed up when it is first asked for and again when it has grown.
pub struct Traces {
    files: Vec<PathBuf>,
    summed: Mutex<BTreeMap<usize, Kept>>,
}

impl Traces {
    pub fn new(files: Vec<PathBuf>) -> Traces {
        Traces { files, summed: Mutex::default() }
    }

    pub fn names(&self) -> Vec<String> {
        let name =
            |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.files.iter().map(name).collect()
    }

    fn summary(&self, number: u64) -> Result<Arc<Summary>, Fault> {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let missing =
            || Fault::missing("there is no such trace: give some to the program with --trace");
        let file = self.files.get(at).ok_or_else(missing)?;
        let metadata = std::fs::metadata(file);
        let (modified, bytes) = metadata.map_or((None, 0), |it| (it.modified().ok(), it.len()));
        // Two who ask for it at once sum it up once.
        let mut summed = self.summed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, length, summary)) = summed.get(&at)
            && (*when, *length) == (modified, bytes)
        {
            return Ok(Arc::clone(summary));
        }
        let folder =
            file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let mut trace = Trace::open(&*OsDisk::new(folder)?, &name)?;
        let summary = Arc::new(summarise(&mut trace, &name)?);
        summed.insert(at, (modified, bytes, Arc::clone(&summary)));
        Ok(summary)
    }
}

fn value(summary: &impl serde::Serialize) -> Result<serde_json::Value, Fault> {
    serde_json::to_value(summary).map_err(|error| {
        Fault::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "Encoding", error.to_string())
    })
}

fn summed(state: &State, query: &Query, rows: &'static str) -> Made {
    let summary = state.traces.summary(query.number("trace", 0, u64::MAX)?)?;
    Ok(Answer::Json(value(&*summary)?, rows))
}

/// `/api/trace`.
pub fn summary(state: &State, query: &Query, _: &Until) -> Made {
    summed(state, query, "prefixes")
}

/// `/api/trace/activity`.
pub fn activity(state: &State, query: &Query, _: &Until) -> Made {
    summed(state, query, "activity")
}

/// `/api/trace/ranges`.
pub fn ranges(state: &State, query: &Query, _: &Until) -> Made {
    summed(state, query, "ranges")
}

/// `/api/trace/timeline`.
pub fn timeline(state: &State, query: &Query, _: &Until) -> Made {
    summed(state, query, "timeline")
}

/// `/api/compare`.
pub fn compare(state: &State, query: &Query, _: &Until) -> Made {
    let count = state.traces.files.len() as u64;
    let mut numbers = query.numbers("traces", COMPARED_MAX, count)?;
    if numbers.is_empty() {
        numbers = (0..count.min(COMPARED_MAX as u64)).collect();
    }
    if numbers.len() < 2 {
        return Err(Fault::missing("two traces are needed: give some to the program with --trace"));
    }
    let runs = numbers.iter().map(|number| Ok((*state.traces.summary(*number)?).clone()));
    let compared = varvite_sight::trace::compare(runs.collect::<Result<_, Fault>>()?);
    let mut said = value(&compared)?;
    let changes: Vec<_> = [&compared.worse, &compared.better].into_iter().flatten().collect();
    said["changes"] = json!(value(&changes)?);
    Ok(Answer::Json(said, "changes"))
}
