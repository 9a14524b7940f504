//! Figures in the text format of Prometheus.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::overview::writer;
use super::{Made, State, Until};
use crate::answer::Answer;
use crate::query::Query;
use crate::sources::{Shown, files};

/// Series of one name: each with its labels and value.
struct Family {
    name: &'static str,
    help: &'static str,
    series: Vec<(String, f64)>,
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// `/metrics`.
#[expect(clippy::unnecessary_wraps, reason = "as all endpoints")]
pub fn metrics(state: &State, _: &Query, until: &Until) -> Made {
    let mut families: Vec<Family> = Vec::new();
    let mut add = |name, help, labels: String, value: f64| match families
        .iter_mut()
        .find(|it| it.name == name)
    {
        Some(family) => family.series.push((labels, value)),
        None => families.push(Family { name, help, series: vec![(labels, value)] }),
    };
    let answered = state.answered.load(Ordering::Relaxed) as f64;
    add("varvite_explorer_requests_total", "Requests answered", String::new(), answered);
    let folders: Vec<&Path> = state.stores.iter().map(|it| &*it.source.folder).collect();
    state.stores.iter().for_each(Shown::begin_figures);
    for (number, shown) in state.stores.iter().enumerate() {
        // Those that there was no time for have no series, as one that is gone: half of a scrape is none.
        if number > 0 && until.is_over() {
            break;
        }
        // Two series of one name and the same labels would be refused, with all others.
        let name = &shown.source.name;
        let like = state.stores.iter().filter(|it| it.source.name == *name);
        let mut store = format!("store=\"{}\"", label(name));
        if like.count() > 1 {
            store =
                format!("{store},folder=\"{}\"", label(&shown.source.folder.display().to_string()));
        }
        // One that is gone has no series, which says more than 0.
        if shown.source.folder.is_dir() {
            let (found, is_cut) = files(&shown.source.folder, &folders, || until.is_over());
            let bytes: u64 = found.iter().map(|file| file.bytes).sum();
            if !is_cut {
                let help = "Bytes of the store's files";
                add("varvite_disk_bytes", help, store.clone(), bytes as f64);
            }
        }
        let (mut is_open, writer) = (Some(1.0), writer(&shown.source.folder));
        match shown.context() {
            Some(Ok(context)) => {
                let stats = context.stats();
                add(
                    "varvite_commits",
                    "Commits that are there",
                    store.clone(),
                    stats.commits as f64,
                );
                add(
                    "varvite_objects",
                    "Objects found by hash",
                    store.clone(),
                    stats.objects as f64,
                );
                add(
                    "varvite_pack_bytes",
                    "Bytes of all chunks",
                    store.clone(),
                    stats.pack_bytes as f64,
                );
                add(
                    "varvite_index_bytes",
                    "Bytes of the index on disk",
                    store.clone(),
                    stats.index_bytes as f64,
                );
                add("varvite_chunks", "Chunks of the pack", store.clone(), stats.chunks as f64);
                add(
                    "varvite_collections_total",
                    "Collections that ended",
                    store.clone(),
                    stats.generation as f64,
                );
            }
            Some(Err(fault)) => is_open = if fault.is_busy() { None } else { Some(0.0) },
            None => {}
        }
        match shown.tables() {
            Some(Ok(open)) => {
                for stats in open.tables.iter().filter_map(|table| table.stats().ok()) {
                    let labels = format!("{store},table=\"{}\"", label(&stats.name));
                    let mut of =
                        |name, help, value: u64| add(name, help, labels.clone(), value as f64);
                    of("varvite_table_entries", "Entries of every kind", stats.physical_entries);
                    of("varvite_table_disk_bytes", "Bytes of segments", stats.disk_bytes);
                    of("varvite_table_merge_debt_bytes", "Bytes left to merge", stats.debt_bytes);
                    of(
                        "varvite_table_filter_memory_bytes",
                        "Memory of filters",
                        stats.filter_memory_bytes,
                    );
                    of(
                        "varvite_table_index_memory_bytes",
                        "Memory of indexes",
                        stats.index_memory_bytes,
                    );
                    of("varvite_table_levels", "Levels", stats.levels.len() as u64);
                    of("varvite_table_merges", "Merges under way", stats.merges.len() as u64);
                }
            }
            Some(Err(fault)) => is_open = if fault.is_busy() { None } else { Some(0.0) },
            None => {}
        }
        // Of one that is being opened nobody knows yet.
        if let Some(is_open) = is_open {
            add("varvite_store_up", "1 when the store can be read", store.clone(), is_open);
        }
        if let Some(writer) = writer {
            // Counters of another process are others.
            let store = format!("{store},process=\"{}\"", writer.process);
            add(
                "varvite_writer_rss_bytes",
                "Memory of the writing process",
                store.clone(),
                writer.rss_bytes as f64,
            );
            add(
                "varvite_writer_cpu_seconds_total",
                "Processor time of the writing process",
                store.clone(),
                writer.cpu_seconds,
            );
            for (name, value) in writer.io {
                let labels = format!("{store},counter=\"{}\"", label(&name));
                add(
                    "varvite_writer_io_total",
                    "What the system counts of the writing process",
                    labels,
                    value as f64,
                );
            }
        }
    }
    let mut text = String::new();
    for family in families {
        let kind = if family.name.ends_with("_total") { "counter" } else { "gauge" };
        let _ = writeln!(text, "# HELP {0} {1}\n# TYPE {0} {kind}", family.name, family.help);
        for (labels, value) in family.series {
            let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            let _ = writeln!(text, "{}{labels} {value}", family.name);
        }
    }
    Ok(Answer::Text("text/plain; version=0.0.4; charset=utf-8", text))
}
