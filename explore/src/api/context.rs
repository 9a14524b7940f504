//! Contexts: commits, their trees, what differs between two, and what was collected.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use varvite::context::{Change, CollectPhase, Commit, CommitHash, Depth, Kind, Order, Store, Tree};
use varvite::{Error, Kind as ErrorKind};

use super::text::{hash, head, hex, put, put_path, shown};
use super::{Made, State, Until};
use crate::answer::{Answer, Fault};
use crate::query::Query;

/// Rows of one answer.
const ROWS_MAX: u64 = 1_000;

/// Commits of one answer.
const COMMITS_MAX: u64 = 10_000;

/// Bytes of a value that are shown, and of one among many.
const VALUE_MAX: usize = 64 << 10;
const SAMPLE_MAX: usize = 128;

/// The context that the request is about.
pub fn context(state: &State, query: &Query) -> Result<Arc<Store>, Fault> {
    let shown = state.store(query)?;
    let why = || Fault::missing(format!("store {} holds tables, not a context", shown.source.name));
    Ok(shown.context().ok_or_else(why)??)
}

/// The commit that `name` in the query names: a hash, a branch, or nothing for the newest.
pub fn commit(store: &Store, query: &Query, name: &str) -> Result<CommitHash, Fault> {
    match query.text(name)?.as_deref() {
        None | Some("last") => {
            Ok(store.last_commit()?.ok_or_else(|| Fault::missing("the store has no commit yet"))?)
        }
        Some(text) => {
            if let Some(hash) = store.branch(text.as_bytes()) {
                return Ok(hash);
            }
            if let Ok(hash) = text.parse() {
                return Ok(hash);
            }
            // Those of SHA-1 are shorter, and written in hexadecimal.
            let short = text.len() == 40 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
            let mut bytes = [0; 32];
            for (at, byte) in bytes.iter_mut().take(if short { 20 } else { 0 }).enumerate() {
                *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).unwrap_or(0);
            }
            if short {
                Ok(bytes.into())
            } else {
                Err(Fault::missing(format!("{name} is neither a hash nor a branch")))
            }
        }
    }
}

fn row(commit: &Commit) -> Value {
    json!({
        "hash": hash(&commit.hash), "tree": hash(&commit.tree), "sequence": commit.sequence, "date": commit.date,
        "added_bytes": commit.added_bytes,
        "parents": commit.parents.iter().map(|parent| hash(parent)).collect::<Vec<_>>(),
        "author": shown(head(&commit.author, SAMPLE_MAX)),
        "message": shown(head(&commit.message, SAMPLE_MAX)),
    })
}

/// `/api/commits`.
pub fn commits(state: &State, query: &Query, until: &Until) -> Made {
    let store = context(state, query)?;
    let offset = query.number("offset", 0, 100_000_000)?;
    let limit = query.number("limit", 200, COMMITS_MAX)?;
    let mut rows = Vec::new();
    let mut is_cut = false;
    for listed in store.log((offset + limit) as usize)?.iter().skip(offset as usize) {
        if !rows.is_empty() && until.is_over() {
            is_cut = true;
            break;
        }
        rows.push(row(&store.commit_info(listed)?));
    }
    let all = store.stats().commits;
    Ok(Answer::Json(
        json!({ "offset": offset, "all": all, "is_cut": is_cut, "commits": rows }),
        "commits",
    ))
}

/// The subtree at the path of the query, the commit and the path.
pub fn place(store: &Store, query: &Query) -> Result<(CommitHash, Vec<Vec<u8>>, Tree), Fault> {
    let commit = commit(store, query, "commit")?;
    let path = query.path("path")?;
    let root = store.checkout(&commit)?;
    let found = root.find_tree(&path)?;
    let tree = found.ok_or_else(|| Fault::missing("nothing is at this path in this commit"))?;
    Ok((commit, path, tree))
}

/// `/api/tree`.
pub fn tree(state: &State, query: &Query, until: &Until) -> Made {
    let store = context(state, query)?;
    let (commit, path, tree) = place(&store, query)?;
    let offset = query.number("offset", 0, u64::MAX)?;
    let limit = query.number("limit", 100, ROWS_MAX)?;
    let mut said = Map::new();
    said.insert("commit".to_owned(), hash(&commit).into());
    said.insert("root".to_owned(), hash(store.commit_info(&commit)?.tree.as_bytes()).into());
    put_path(&mut said, &path);
    said.insert("hash".to_owned(), hash(tree.hash()?.as_bytes()).into());
    let (mut rows, mut is_cut) = (Vec::new(), false);
    if let Some(value) = tree.to_value()? {
        said.insert("kind".to_owned(), "value".into());
        put(&mut said, "value", &value, VALUE_MAX);
    } else {
        said.insert("kind".to_owned(), "directory".into());
        said.insert("length".to_owned(), tree.length::<&[u8]>(&[])?.into());
        said.insert("offset".to_owned(), offset.into());
        for (name, child) in tree.list::<&[u8]>(&[], offset, limit)? {
            // One at least, so that who asks on from there comes to the end.
            if !rows.is_empty() && until.is_over() {
                is_cut = true;
                break;
            }
            rows.push(child_row(&name, &child)?);
        }
    }
    said.insert("is_cut".to_owned(), is_cut.into());
    said.insert("children".to_owned(), rows.into());
    Ok(Answer::Json(said.into(), "children"))
}

fn child_row(name: &[u8], child: &Tree) -> Result<Value, Fault> {
    let mut row = Map::new();
    row.insert("name".to_owned(), shown(name).into());
    row.insert("name_hex".to_owned(), hex(name).into());
    row.insert("hash".to_owned(), hash(child.hash()?.as_bytes()).into());
    if let Some(value) = child.to_value()? {
        row.insert("kind".to_owned(), "value".into());
        row.insert("length".to_owned(), value.len().into());
        put(&mut row, "value", &value, SAMPLE_MAX);
    } else {
        row.insert("kind".to_owned(), "directory".into());
        row.insert("length".to_owned(), child.length::<&[u8]>(&[])?.into());
    }
    Ok(row.into())
}

/// Ends a walk whose answer is long enough.
fn enough() -> Error {
    Error::new(ErrorKind::Closed, "enough was found")
}

/// `/api/diff`.
pub fn diff(state: &State, query: &Query, until: &Until) -> Made {
    let store = context(state, query)?;
    let after = commit(&store, query, "after")?;
    let before = match query.text("before")? {
        Some(_) => commit(&store, query, "before")?,
        // What the commit itself changed.
        None => *store.commit_info(&after)?.parents.first().ok_or_else(|| {
            Fault::missing("the commit has no parent to compare it with: give before")
        })?,
    };
    let path = query.path("path")?;
    let limit = query.number("limit", 200, ROWS_MAX)? as usize;
    let at = |commit: &CommitHash| -> Result<Tree, Fault> {
        let root = store.checkout(commit)?;
        Ok(root.find_tree(&path)?.unwrap_or_else(|| store.empty_tree()))
    };
    let (mut rows, mut counts, mut is_cut) = (Vec::new(), [0_u64; 3], false);
    let walked = at(&before)?.diff(&at(&after)?, |below, change| {
        if rows.len() >= limit || until.is_over() {
            is_cut = true;
            return Err(enough());
        }
        let (kind, old, new) = match &change {
            Change::Added(new) => (0, None, Some(new)),
            Change::Removed(old) => (1, Some(old), None),
            Change::Updated(old, new) => (2, Some(old), Some(new)),
        };
        counts[kind] += 1;
        let mut row = Map::new();
        put_path(&mut row, &[&path[..], below].concat());
        row.insert("change".to_owned(), ["added", "removed", "updated"][kind].into());
        for (name, value) in [("before", old), ("after", new)] {
            if let Some(value) = value {
                put(&mut row, name, value, SAMPLE_MAX);
            }
        }
        rows.push(Value::Object(row));
        Ok(())
    });
    if !is_cut {
        walked?;
    }
    let mut said = Map::new();
    said.insert("before".to_owned(), hash(&before).into());
    said.insert("after".to_owned(), hash(&after).into());
    put_path(&mut said, &path);
    let [added, removed, updated] = counts;
    for (name, value) in [("added", added), ("removed", removed), ("updated", updated)] {
        said.insert(name.to_owned(), value.into());
    }
    said.insert("is_cut".to_owned(), is_cut.into());
    said.insert("changes".to_owned(), rows.into());
    Ok(Answer::Json(said.into(), "changes"))
}

/// Children that are weighed one by one; the others are one.
const WEIGHED_MAX: usize = 200;

/// `/api/weights`: what is below each child, as far as it can be counted in the time for an answer.
pub fn weights(state: &State, query: &Query, until: &Until) -> Made {
    let store = context(state, query)?;
    let (commit, path, tree) = place(&store, query)?;
    let mut rows: Vec<(Option<Vec<u8>>, bool, u64, u64)> = Vec::new();
    let mut is_cut = false;
    let walked = tree.fold::<&[u8]>(&[], Some(Depth::Ge(1)), Order::Undefined, |below, tree| {
        if until.is_over() {
            is_cut = true;
            return Err(enough());
        }
        if below.len() == 1 && rows.len() <= WEIGHED_MAX {
            let name = (rows.len() < WEIGHED_MAX).then(|| below[0].clone());
            rows.push((name, tree.kind() != Kind::Value, 0, 0));
        }
        if let Some(value) = tree.to_value()?
            && let Some(row) = rows.last_mut()
        {
            row.2 += 1;
            row.3 += value.len() as u64;
        }
        Ok(())
    });
    if !is_cut {
        walked?;
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.3));
    let rows: Vec<_> = rows
        .iter()
        .map(|(name, is_directory, values, bytes)| {
            json!({
                "name": name.as_deref().map_or("all others".to_owned(), shown), "name_hex": name.as_deref().map(hex),
                "kind": if *is_directory { "directory" } else { "value" }, "values": values, "bytes": bytes,
            })
        })
        .collect();
    let mut said = Map::new();
    said.insert("commit".to_owned(), hash(&commit).into());
    put_path(&mut said, &path);
    said.insert("is_cut".to_owned(), is_cut.into());
    said.insert("children".to_owned(), rows.into());
    Ok(Answer::Json(said.into(), "children"))
}

/// `/api/collection`.
pub fn collection(state: &State, query: &Query, _: &Until) -> Made {
    let store = context(state, query)?;
    let status = store.collect_status()?;
    let phase = match status.phase {
        CollectPhase::None => "none",
        CollectPhase::Marking => "marking",
        CollectPhase::Cleaning => "cleaning",
    };
    let mut pins = Vec::new();
    for pin in store.pins()?.iter().take(ROWS_MAX as usize) {
        pins.push(row(&store.commit_info(pin)?));
    }
    Ok(Answer::Json(
        json!({
            "phase": phase, "is_paused": status.is_paused, "target": status.target.map(|it| hash(&it)),
            "chunks_left": status.chunks_left, "left_bytes": status.left_bytes, "collections": status.collections,
            "archived_bytes": store.archived_bytes(), "commits": store.stats().commits, "pins": pins,
        }),
        "pins",
    ))
}
