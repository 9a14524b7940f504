//! The stores at a glance, and what of them changes while a writer goes on.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};
use varvite::Kind;

use super::text::{hash, head, shown};
use super::{Made, State, Until, tables};
use crate::answer::{Answer, Fault};
use crate::query::Query;
use crate::sources::{Shown, files};

/// `/api/overview`.
#[expect(clippy::unnecessary_wraps, reason = "as all endpoints")]
pub fn overview(state: &State, _: &Query, until: &Until) -> Made {
    let folders: Vec<&Path> = state.stores.iter().map(|it| &*it.source.folder).collect();
    let mut rows = Vec::new();
    state.stores.iter().for_each(Shown::begin);
    for (number, store) in state.stores.iter().enumerate() {
        // Of one that is gone nothing is said, nor of one whose files are too many to be counted now.
        let bytes = store.source.folder.is_dir().then(|| {
            let (found, is_cut) = files(&store.source.folder, &folders, || until.is_over());
            (!is_cut).then(|| found.iter().map(|file| file.bytes).sum::<u64>())
        });
        let bytes = bytes.flatten();
        let mut row = json!({
            "store": number, "name": store.source.name, "kind": store.source.kind, "disk_bytes": bytes,
            "writer": writer(&store.source.folder).map(|it| it.process), "damage": null, "opening": false, "is_cut": false,
        });
        // One that cannot be opened is shown with the reason, and the others as they are.
        if until.is_over() && !rows.is_empty() {
            row["is_cut"] = true.into();
            rows.push(row);
            continue;
        }
        match about(store) {
            Ok(about) => row["about"] = about,
            Err(fault) if fault.is_busy() => row["opening"] = true.into(),
            Err(fault) => row["damage"] = fault.why.into(),
        }
        rows.push(row);
    }
    Ok(Answer::Json(
        json!({
            "version": env!("CARGO_PKG_VERSION"), "seconds": state.started.elapsed().as_secs(),
            "answered": state.answered.load(Ordering::Relaxed), "traces": state.traces.names(), "stores": rows,
        }),
        "stores",
    ))
}

fn about(shown: &Arc<Shown>) -> Result<Value, Fault> {
    if let Some(open) = shown.tables() {
        return tables::about(&*open?);
    }
    let Some(open) = shown.context() else { return Ok(Value::Null) };
    let store = open?;
    let stats = store.stats();
    let mut warnings = store.warnings();
    let last = match store.last_commit()?.map(|last| store.commit_info(&last)) {
        Some(Ok(info)) => {
            json!({ "hash": hash(&info.hash), "date": info.date, "sequence": info.sequence, "message": named(&info.message) })
        }
        // What it has of older commits may be in a folder that was not given: that is no damage.
        Some(Err(error)) if error.kind() == Kind::Missing => {
            warnings.push(error.to_string());
            Value::Null
        }
        Some(Err(error)) => return Err(error.into()),
        None => Value::Null,
    };
    let branches: Map<String, Value> = store
        .branches()
        .into_iter()
        .take(1_000)
        .map(|(name, commit)| (named(&name), hash(&commit).into()))
        .collect();
    let configuration = store.configuration();
    Ok(json!({
        "commits": stats.commits, "objects": stats.objects, "pack_bytes": stats.pack_bytes,
        "index_bytes": stats.index_bytes, "chunks": stats.chunks, "collections": stats.generation,
        "epoch": stats.epoch, "entries": configuration.entries(), "stable_hash": configuration.stable_hash(),
        "last_commit": last, "branches": branches, "warnings": warnings,
    }))
}

fn named(bytes: &[u8]) -> String {
    shown(head(bytes, 256))
}

/// A process that has a store to write.
pub struct Writer {
    pub process: u32,
    pub rss_bytes: u64,
    pub cpu_seconds: f64,
    /// By name, as the system counts them.
    pub io: Vec<(String, u64)>,
}

/// The process that the lock of the store names, if it lives and may be looked at.
pub fn writer(folder: &Path) -> Option<Writer> {
    let text = fs::read_to_string(folder.join("lock")).ok()?;
    let process: u32 = text.strip_prefix("process ")?.trim().parse().ok()?;
    // The number may be another program's by now: one that writes has the lock open.
    let of = |name: &str| format!("/proc/{process}/{name}");
    let lock = fs::canonicalize(folder.join("lock")).ok()?;
    let mut open = fs::read_dir(of("fd")).ok()?.flatten();
    open.find(|file| fs::read_link(file.path()).is_ok_and(|target| target == lock))?;
    let status = fs::read_to_string(of("status")).unwrap_or_default();
    let rss = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok()
    });
    let stat = fs::read_to_string(of("stat")).unwrap_or_default();
    // Behind the name, which may have any letters; the clock ticks a hundred times a second on Linux.
    let ticks: u64 = stat.rsplit(')').next().map_or(0, |rest| {
        rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
    });
    let io = fs::read_to_string(of("io")).unwrap_or_default();
    let io = io.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    Some(Writer {
        process,
        rss_bytes: rss.unwrap_or(0) << 10,
        cpu_seconds: ticks as f64 / 100.0,
        io: io.collect(),
    })
}

/// `/api/pulse`. Of a store that cannot be opened the process that writes is still said.
pub fn pulse(state: &State, query: &Query, until: &Until) -> Made {
    let store = state.store(query)?;
    let mut said = json!({
        "seconds": state.started.elapsed().as_secs_f64(), "writer": null, "damage": null, "opening": false,
        "revision": null,
        "trace_bytes": state.traces.lengths(),
    });
    if let Some(writer) = writer(&store.source.folder) {
        let io: Map<String, Value> =
            writer.io.into_iter().map(|(name, value)| (name, value.into())).collect();
        said["writer"] = json!({
            "process": writer.process, "rss_bytes": writer.rss_bytes, "cpu_seconds": writer.cpu_seconds, "io": io,
        });
    }
    match sizes(store, until) {
        Ok(sizes) => {
            for (name, size) in sizes {
                said[name] = size.into();
            }
            said["revision"] = store.revision().map(|it| format!("{it:016x}")).into();
        }
        Err(fault) if fault.is_busy() => said["opening"] = true.into(),
        Err(fault) => {
            // What is wrong may change, and the pages with it.
            said["revision"] = fault.why.clone().into();
            said["damage"] = fault.why.into();
        }
    }
    Ok(Answer::Json(said, ""))
}

/// What grows while a writer goes on; of too many tables for the time nothing.
fn sizes(store: &Arc<Shown>, until: &Until) -> Result<Vec<(&'static str, u64)>, Fault> {
    if let Some(open) = store.context() {
        let stats = open?.stats();
        return Ok(vec![("commits", stats.commits), ("pack_bytes", stats.pack_bytes)]);
    }
    let Some(open) = store.tables() else { return Ok(Vec::new()) };
    let open = open?;
    let mut sums = vec![("entries", 0), ("disk_bytes", 0), ("debt_bytes", 0), ("buffer_bytes", 0)];
    for table in &open.tables {
        if until.is_over() {
            return Ok(Vec::new());
        }
        let stats = table.stats()?;
        let of = [stats.physical_entries, stats.disk_bytes, stats.debt_bytes, stats.buffer_bytes];
        sums.iter_mut().zip(of).for_each(|(sum, one)| sum.1 += one);
    }
    Ok(sums)
}
