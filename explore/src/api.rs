//! The endpoints under `/api`, and `/metrics`.

mod context;
mod metrics;
mod overview;
mod proof;
mod sharing;
mod space;
mod tables;
mod text;
mod traces;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::answer::{self, Answer, Fault};
use crate::outgoing::Outgoing;
use crate::query::Query;
use crate::schema;
use crate::server::Limits;
use crate::sources::{Shown, Source};
use sharing::Sharings;
use traces::Traces;

/// What all requests share.
pub struct State {
    pub stores: Vec<Arc<Shown>>,
    pub traces: Traces,
    pub sharings: Sharings,
    pub started: Instant,
    pub answered: AtomicU64,
    address: SocketAddr,
    workers: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    work: Duration,
    answer: Duration,
    outgoing: Arc<Outgoing>,
}

impl State {
    pub fn new(
        sources: Vec<Source>,
        traces: Vec<PathBuf>,
        address: SocketAddr,
        limits: Limits,
    ) -> State {
        State {
            stores: sources.into_iter().map(|it| Arc::new(Shown::new(it, limits.rest))).collect(),
            traces: Traces::new(traces),
            sharings: Sharings::default(),
            started: Instant::now(),
            answered: AtomicU64::new(0),
            address,
            workers: Arc::new(Semaphore::new(limits.workers.max(1))),
            waiting: Arc::new(Semaphore::new(limits.waiting.max(1))),
            work: limits.work,
            answer: limits.idle / 6 * 5,
            outgoing: Outgoing::new(limits.outgoing_bytes),
        }
    }

    /// Whether `host` is how a browser on this machine names us: another name that leads here is somebody's trick.
    pub fn is_own(&self, host: &str) -> bool {
        let (port, host) = (self.address.port(), host.to_ascii_lowercase());
        // A browser leaves port 80 out.
        let (name, named) = match host.rsplit_once(':') {
            Some((name, digits)) if !digits.ends_with(']') => (name, digits.parse().ok()),
            _ => (&*host, Some(80)),
        };
        // A name with a dot behind is the same.
        let name = name.strip_suffix('.').unwrap_or(name);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
        named == Some(port) && (name == "localhost" || bare.parse().is_ok_and(is_loopback))
    }

    /// The store that the request is about.
    pub fn store(&self, query: &Query) -> Result<&Arc<Shown>, Fault> {
        let number = query.number("store", 0, u64::MAX)?;
        let shown = usize::try_from(number).ok().and_then(|number| self.stores.get(number));
        shown.ok_or_else(|| {
            Fault::missing(format!("there is no store {number}: /api/overview lists them"))
        })
    }
}

/// When an answer that takes long is to be ended as it is: at some time, or when nobody waits for it any more.
pub struct Until {
    end: Instant,
    is_alone: Arc<AtomicBool>,
}

impl Until {
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end || self.is_alone.load(Ordering::Relaxed)
    }

    /// Nothing more is made for a client that went away.
    pub fn expect_client(&self) -> Result<(), Fault> {
        let is_alone = self.is_alone.load(Ordering::Relaxed);
        if is_alone { Err(Fault::busy("nobody waits for the answer any more")) } else { Ok(()) }
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Who waits for an answer; dropped when he does no more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Made = Result<Answer, Fault>;

/// An endpoint: its path, the names that its query may have, and what it does.
pub struct Endpoint {
    pub path: &'static str,
    names: &'static [&'static str],
    /// For people.
    about: &'static str,
    /// Whether it has rows, which are comma-separated values too.
    has_rows: bool,
    make: fn(&State, &Query, &Until) -> Made,
}

macro_rules! endpoint {
    ($path:literal, [$($name:literal),*], $about:literal, $make:expr) => {
        Endpoint {
            path: $path, names: &["format", $($name),*], about: $about, has_rows: true, make: $make
        }
    };
    ($path:literal, [$($name:literal),*], $about:literal, $make:expr, without rows) => {
        Endpoint { has_rows: false, ..endpoint!($path, [$($name),*], $about, $make) }
    };
}

static ENDPOINTS: &[Endpoint] = &[
    endpoint!("/api", [], "what can be asked for", list),
    endpoint!("/api/schema", [], "the JSON schema of all answers", schema),
    endpoint!("/api/overview", [], "the stores, and the traces beside them", overview::overview),
    endpoint!(
        "/api/pulse",
        ["store"],
        "what changes while a writer goes on: sizes, memory and I/O, and a number that is another when the files are",
        overview::pulse,
        without rows
    ),
    endpoint!(
        "/api/commits",
        ["store", "before", "offset", "limit"],
        "commits, newest first",
        context::commits
    ),
    endpoint!(
        "/api/tree",
        ["store", "commit", "path", "offset", "limit"],
        "a directory or value of a commit",
        context::tree
    ),
    endpoint!(
        "/api/diff",
        ["store", "before", "after", "path", "from", "limit"],
        "values that differ between two commits",
        context::diff
    ),
    endpoint!(
        "/api/proof",
        ["store", "commit", "path", "encoding"],
        "what a proof of a path would be",
        proof::describe,
        without rows
    ),
    endpoint!(
        "/api/proof/file",
        ["store", "commit", "path", "encoding"],
        "the proof",
        proof::file,
        without rows
    ),
    endpoint!(
        "/api/weights",
        ["store", "commit", "path", "offset", "limit"],
        "values and bytes below each child",
        context::weights
    ),
    endpoint!("/api/levels", ["store", "table", "probes"], "the shape of a table", tables::levels),
    endpoint!("/api/space", ["store"], "files of a store by what they are", space::space),
    endpoint!("/api/space/chunks", ["store"], "the same, its rows the chunks", space::chunk_rows),
    endpoint!(
        "/api/sharing",
        ["store", "commits", "last", "pieces"],
        "pieces of the pack that commits share, and those of one alone",
        sharing::sharing
    ),
    endpoint!(
        "/api/sharing/chunks",
        ["store", "commits", "last", "pieces"],
        "the same, its rows the chunks",
        sharing::chunk_rows
    ),
    endpoint!(
        "/api/collection",
        ["store"],
        "collection, pins and the archive",
        context::collection
    ),
    endpoint!(
        "/api/trace",
        ["trace"],
        "a trace summed up: actions, ranges, blocks over time",
        traces::summary
    ),
    endpoint!(
        "/api/trace/activity",
        ["trace"],
        "the same, its rows the time by action over time",
        traces::activity
    ),
    endpoint!(
        "/api/trace/ranges",
        ["trace"],
        "the same, its rows the calls by decade of their time",
        traces::ranges
    ),
    endpoint!(
        "/api/trace/timeline",
        ["trace"],
        "the same, its rows the blocks over time",
        traces::timeline
    ),
    endpoint!(
        "/api/trace/actions",
        ["trace"],
        "the same, its rows the actions of all prefixes",
        traces::actions
    ),
    endpoint!(
        "/api/trace/blocks",
        ["trace"],
        "the same, its rows the slowest blocks",
        traces::blocks
    ),
    endpoint!(
        "/api/trace/commits",
        ["trace", "from", "to"],
        "time by action of each block, or of those of some numbers",
        traces::commits
    ),
    endpoint!("/api/trace/samples", ["trace"], "what the process used over time", traces::samples),
    endpoint!("/api/compare", ["traces"], "traces beside each other", traces::compare),
    endpoint!("/api/compare/runs", ["traces"], "the same, its rows the runs", traces::runs_beside),
    endpoint!(
        "/api/compare/only",
        ["traces"],
        "the same, its rows the actions that one of two runs called alone",
        traces::only
    ),
    endpoint!(
        "/api/compare/distributions",
        ["traces"],
        "time of a call by share of calls, of each run and action",
        traces::distributions
    ),
    endpoint!("/metrics", [], "figures for Prometheus", metrics::metrics, without rows),
];

/// The endpoint at `path`.
pub fn find(path: &str) -> Option<&'static Endpoint> {
    ENDPOINTS.iter().find(|endpoint| endpoint.path == path)
}

/// Makes the answer on a thread for such work, if not too many wait for one already.
pub async fn run(state: &Arc<State>, endpoint: &'static Endpoint, raw: &str) -> Response<Body> {
    state.answered.fetch_add(1, Ordering::Relaxed);
    let query = match Query::parse(raw, endpoint.names) {
        Ok(query) => query,
        Err(refused) => return answer::fault(&refused.into()),
    };
    let as_csv = match query.text("format").as_ref().map(Option::as_deref) {
        Ok(None | Some("json")) => false,
        Ok(Some("csv")) => true,
        _ => {
            let why = "format is json or csv";
            return answer::fault(&Fault::new(StatusCode::BAD_REQUEST, "Refused", why));
        }
    };
    let busy = || Fault::busy("too many requests wait: ask again later");
    let Ok(waiting) = Arc::clone(&state.waiting).try_acquire_owned() else {
        return answer::fault(&busy());
    };
    // A connection on which nothing moves is ended: before that the client has a status.
    let end = tokio::time::Instant::now() + state.answer;
    let worker = Arc::clone(&state.workers).acquire_owned();
    let Ok(Ok(worker)) = tokio::time::timeout_at(end, worker).await else {
        return answer::fault(&busy());
    };
    let shared = Arc::clone(state);
    // A client that goes away ends this future; what was begun for it is told.
    let client = Waiting(Arc::default());
    let is_alone = Arc::clone(&client.0);
    let made = tokio::task::spawn_blocking(move || {
        // They go with the work, which may not hear of that at once.
        let _permits = (waiting, worker);
        let end = work_end(Instant::now(), end.into_std(), shared.work, shared.answer);
        let until = Until { end, is_alone };
        match (endpoint.make)(&shared, &query, &until) {
            // Here, as what is long takes time to write.
            Ok(made) => {
                let columns: answer::Columns<'_> = &|rows| schema::columns(endpoint.path, rows);
                answer::sent(made, as_csv.then_some(columns), &shared.outgoing)
            }
            Err(fault) => answer::fault(&fault),
        }
    });
    match tokio::time::timeout_at(end, made).await {
        Ok(Ok(response)) => return response,
        Ok(Err(_)) => {}
        Err(_) => {
            let why = "the answer takes longer than a connection waits: ask for less of it";
            return answer::fault(&Fault::busy(why));
        }
    }
    let why = "the answer could not be made; that is a fault of this program";
    answer::fault(&Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "Panicked", why))
}

/// When work that begins at `start` is cut short, whose client is told of no answer at `end`: what is cut is still an answer,
/// where there is time to send it.
fn work_end(start: Instant, end: Instant, work: Duration, answer: Duration) -> Instant {
    (start + work).min(end.checked_sub(answer / 10).unwrap_or(end))
}

#[expect(clippy::unnecessary_wraps, reason = "as all endpoints")]
fn list(_: &State, _: &Query, _: &Until) -> Made {
    let rows: Vec<_> = ENDPOINTS
        .iter()
        .map(|it| {
            let names = it.names.iter().filter(|name| it.has_rows || **name != "format");
            json!({ "path": it.path, "query": names.collect::<Vec<_>>(), "about": it.about })
        })
        .collect();
    Ok(Answer::Json(json!({ "endpoints": rows }), "endpoints"))
}

#[expect(clippy::unnecessary_wraps, reason = "as all endpoints")]
fn schema(_: &State, _: &Query, _: &Until) -> Made {
    Ok(Answer::Listed("application/schema+json", schema::TEXT.to_owned(), schema::listed().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_for_a_client_that_went_away_is_over() {
        let client = Waiting(Arc::default());
        let end = Instant::now() + Duration::from_mins(10);
        let until = Until { end, is_alone: Arc::clone(&client.0) };
        assert!(!until.is_over() && until.expect_client().is_ok());
        drop(client);
        assert!(until.is_over() && until.expect_client().is_err());
    }

    #[test]
    fn work_is_cut_before_its_client_is_told_of_no_answer() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let end = |answer: Duration| work_end(start, start + answer, 8 * second, answer) - start;
        assert_eq!(end(5 * second), Duration::from_millis(4_500));
        assert_eq!(end(50 * second), 8 * second);
    }

    #[test]
    fn only_names_of_this_machine_are_our_own() {
        let at = |port| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            State::new(Vec::new(), Vec::new(), address, Limits::default())
        };
        let (first, other) = (at(80), at(7878));
        for host in ["localhost", "localhost:80", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80"]
        {
            assert!(first.is_own(host) && !other.is_own(host), "{host}");
        }
        for host in [
            "localhost:7878",
            "LocalHost:7878",
            "localhost.:7878",
            "127.0.0.1:7878",
            "[::1]:7878",
            "[0:0:0:0:0:FFFF:7F00:1]:7878",
        ] {
            assert!(other.is_own(host) && !first.is_own(host), "{host}");
        }
        let others = [
            "localhost.example",
            "localhost..",
            "localhostx",
            "localhostx:80",
            "10.0.0.1",
            "",
            ":80",
            "[::1]x",
        ];
        for host in others {
            assert!(!first.is_own(host) && !other.is_own(host), "{host}");
        }
    }
}
