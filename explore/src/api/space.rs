//! Space: the files of a store by what they are.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use varvite::context::{ChunkInfo, ChunkState, Store};

use super::{Made, State, Until};
use crate::answer::Answer;
use crate::query::Query;
use crate::sources::files;

/// Files that are listed one by one, the largest first.
const LISTED: usize = 2_000;

/// What a file is for, by its name.
fn category(name: &str) -> &'static str {
    let first = name.split(['/', '\\']).next().unwrap_or(name);
    match (first, name.rsplit('.').next().unwrap_or("")) {
        ("segments", _) => "segments",
        ("snapshots", _) => "snapshots",
        ("log" | "checkpoint", _) => "log",
        ("index", _) => "index",
        (_, "sparse") => "chunks rewritten by collection",
        (_, "pack" | "suffix") => "chunks",
        _ => "other",
    }
}

/// The chunks of a context, the newest first, each with what collections took of it.
fn chunks(store: &Store) -> Vec<Value> {
    let row = |chunk: &ChunkInfo| {
        let state = match chunk.state {
            ChunkState::Sparse => "sparse",
            ChunkState::Gone => "gone",
            ChunkState::Lower => "lower",
            _ => "whole",
        };
        let taken = chunk.written_bytes.saturating_sub(chunk.disk_bytes);
        json!({
            "number": chunk.number, "chunks": chunk.count, "base": chunk.base, "state": state,
            "written_bytes": chunk.written_bytes, "disk_bytes": chunk.disk_bytes, "taken_bytes": taken,
            "above_bytes": chunk.above_bytes,
        })
    };
    store.chunks().iter().rev().take(LISTED).map(row).collect()
}

/// `/api/space`.
pub fn space(state: &State, query: &Query, _: &Until) -> Made {
    let shown = state.store(query)?;
    let others: Vec<&Path> = state.stores.iter().map(|it| &*it.source.folder).collect();
    let mut found = files(&shown.source.folder, &others);
    let (mut categories, mut all) = (BTreeMap::<_, (u64, u64)>::new(), 0);
    for file in &found {
        let row = categories.entry(category(&file.name)).or_default();
        row.0 += 1;
        row.1 += file.bytes;
        all += file.bytes;
    }
    let categories: Vec<_> = categories
        .iter()
        .map(|(name, (files, bytes))| json!({ "category": name, "files": files, "bytes": bytes }))
        .collect();
    let count = found.len();
    found.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    let rows: Vec<_> = found
        .iter()
        .take(LISTED)
        .map(|file| json!({ "name": file.name, "category": category(&file.name), "bytes": file.bytes }))
        .collect();
    let chunks = match shown.context() {
        // Of one that cannot be opened the files are what one looks for.
        Some(Ok(store)) => chunks(&store),
        Some(Err(_)) | None => Vec::new(),
    };
    Ok(Answer::Json(
        json!({ "bytes": all, "count": count, "categories": categories, "files": rows, "chunks": chunks }),
        "files",
    ))
}
