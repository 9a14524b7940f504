//! Space: the files of a store by what they are.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use varvite::context::{ChunkInfo, ChunkState, Sharing, Store};

use super::{Made, State, Until};
use crate::answer::{Answer, Fault};
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

fn state(chunk: &ChunkInfo) -> &'static str {
    match chunk.state {
        ChunkState::Sparse => "sparse",
        ChunkState::Gone => "gone",
        ChunkState::Lower => "lower",
        _ => "whole",
    }
}

/// The chunks of a context, the newest first, each with what collections took of it.
fn chunks(store: &Store) -> Vec<Value> {
    let row = |chunk: &ChunkInfo| {
        let taken = chunk.written_bytes.saturating_sub(chunk.disk_bytes);
        json!({
            "number": chunk.number, "chunks": chunk.count, "base": chunk.base, "state": state(chunk),
            "written_bytes": chunk.written_bytes, "disk_bytes": chunk.disk_bytes, "above_bytes": chunk.above_bytes,
            "taken_bytes": taken,
        })
    };
    store.chunks().iter().rev().take(LISTED).map(row).collect()
}

/// The same chunks, each with what the commits of `walk` hold of it and what is dead for them, once that was counted;
/// and what is dead in all that were counted, those that are not listed too.
pub fn held(store: &Store, walk: &Sharing) -> (Vec<Value>, u64) {
    let counted = walk.chunks();
    let (mut left, mut dead) = (&counted[..], 0);
    let row = |chunk: &ChunkInfo| {
        // Newer ones were taken before. What a chunk was when it was counted may be a part of what it is by now.
        let (held, older) = left.split_at(left.partition_point(|it| it.base >= chunk.base));
        left = older;
        let (pieces, bytes) =
            held.iter().fold((0, 0), |sum, it| (sum.0 + it.pieces, sum.1 + it.bytes));
        let is_counted = walk.next_offset().is_none_or(|next| next < chunk.base);
        // No collection takes anything from the lower folder.
        let is_lower = chunk.state == ChunkState::Lower;
        let most = if is_lower { 0 } else { chunk.disk_bytes };
        let dead_bytes = is_counted.then(|| most.saturating_sub(bytes));
        dead += dead_bytes.unwrap_or(0);
        json!({
            "number": chunk.number, "chunks": chunk.count, "base": chunk.base, "state": state(chunk),
            "disk_bytes": chunk.disk_bytes, "above_bytes": chunk.above_bytes,
            "taken_bytes": chunk.written_bytes.saturating_sub(chunk.disk_bytes),
            "held_pieces": pieces, "held_bytes": bytes,
            "dead_bytes": dead_bytes,
        })
    };
    let mut rows: Vec<Value> = store.chunks().iter().rev().map(row).collect();
    rows.truncate(LISTED);
    (rows, dead)
}

/// `/api/space`.
pub fn space(state: &State, query: &Query, until: &Until) -> Made {
    let shown = state.store(query)?;
    if !shown.source.folder.is_dir() {
        return Err(Fault::missing(format!("{} is not there any more", shown.source.name)));
    }
    let others: Vec<&Path> = state.stores.iter().map(|it| &*it.source.folder).collect();
    let (mut found, is_cut) = files(&shown.source.folder, &others, || until.is_over());
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
        Some(Err(fault)) if !fault.is_busy() => Vec::new(),
        Some(Err(fault)) => return Err(fault),
        None => Vec::new(),
    };
    Ok(Answer::Json(
        json!({ "bytes": all, "count": count, "is_cut": is_cut, "categories": categories, "files": rows, "chunks": chunks }),
        "files",
    ))
}

/// `/api/space/chunks`.
pub fn chunk_rows(state: &State, query: &Query, until: &Until) -> Made {
    space(state, query, until).map(|answer| answer.with_rows("chunks"))
}
