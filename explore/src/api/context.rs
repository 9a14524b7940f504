//! Contexts: commits, their trees, what differs between two, and what was collected.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use varvite::context::{
    Change, CollectPhase, Commit, CommitHash, Depth, Kind, Order, SHARED_COMMITS_MAX, Store, Tree,
};
use varvite::{Error, Kind as ErrorKind};

use super::text::{hash, head, hex, path_hex, put, put_path, shown};
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
    shown.context().ok_or_else(why)?
}

/// What names the newest commit.
const LAST: &str = "last";

/// The commit that `name` in the query names: a hash, a branch, or nothing for the newest.
pub fn commit(store: &Store, query: &Query, name: &str) -> Result<CommitHash, Fault> {
    named(store, query.text(name)?.as_deref().unwrap_or(LAST), name)
}

/// The branch that `text` names as one, by its name or by the bytes of that in hexadecimal: so can be asked for what would be
/// taken for something else, has a comma, or is no text.
fn as_branch(text: &str) -> Option<Result<Vec<u8>, Fault>> {
    if let Some(name) = text.strip_prefix("branch:") {
        return Some(Ok(name.as_bytes().to_vec()));
    }
    let hex = text.strip_prefix("branch-hex:")?;
    let digits: Option<Vec<u8>> =
        hex.chars().map(|it| it.to_digit(16).map(|it| it as u8)).collect();
    let name = digits.filter(|it| it.len() % 2 == 0).map(|digits| {
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<u8>>()
    });
    let why = "what follows branch-hex: is no pairs of hexadecimal digits";
    Some(name.ok_or_else(|| crate::query::Refused(why.to_owned()).into()))
}

/// The commit of a hash or a branch, or the newest, given in `name` of the query.
pub fn named(store: &Store, text: &str, name: &str) -> Result<CommitHash, Fault> {
    if text == LAST {
        let why = || Fault::missing("the store has no commit yet");
        return store.last_commit()?.ok_or_else(why);
    }
    if let Some(branch) = as_branch(text) {
        let why = || Fault::missing(format!("{name} is a branch that the store does not have"));
        return store.branch(&branch?).ok_or_else(why);
    }
    // A hash in a link is that commit, whatever branches are called.
    if let Some(hash) = as_hash(text.strip_prefix("hash:").unwrap_or(text)) {
        return Ok(hash);
    }
    let is_branch = !text.starts_with("hash:");
    let found = is_branch.then(|| store.branch(text.as_bytes())).flatten();
    found.ok_or_else(|| Fault::missing(format!("{name} is neither a hash nor a branch")))
}

fn as_hash(text: &str) -> Option<CommitHash> {
    if let Ok(hash) = text.parse() {
        return Some(hash);
    }
    // Those of SHA-1 are shorter, and written in hexadecimal.
    let short = text.len() == 40 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().take(if short { 20 } else { 0 }).enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).unwrap_or(0);
    }
    short.then(|| bytes.into())
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

/// Commits that an offset may pass: those behind them are reached by naming one.
const OFFSET_MAX: u64 = 10_000;

/// Commits that are listed between two looks at the time.
const LISTED_AT_ONCE: u64 = 100;

/// `/api/commits`.
pub fn commits(state: &State, query: &Query, until: &Until) -> Made {
    let store = context(state, query)?;
    let offset = query.number("offset", 0, OFFSET_MAX)?;
    let limit = query.number("limit", 200, COMMITS_MAX)?;
    let mut last = match query.text("before")? {
        Some(_) => Some(commit(&store, query, "before")?),
        None => None,
    };
    let list = |last: Option<CommitHash>, most: u64| match &last {
        Some(last) => store.log_before(last, most as usize),
        None => store.log(most as usize),
    };
    let (mut rows, mut is_over, mut is_cut) = (Vec::new(), false, false);
    if offset > 0 {
        let passed = list(last, offset)?;
        is_over = (passed.len() as u64) < offset;
        last = passed.last().copied();
    }
    while (rows.len() as u64) < limit && !is_over && !is_cut {
        let most = LISTED_AT_ONCE.min(limit - rows.len() as u64);
        let listed = list(last, most)?;
        is_over = (listed.len() as u64) < most;
        for hash in listed {
            if !rows.is_empty() && until.is_over() {
                is_cut = true;
                break;
            }
            rows.push(row(&store.commit_info(&hash)?));
            last = Some(hash);
        }
    }
    let more = match &last {
        Some(last) if !is_over || is_cut => !store.log_before(last, 1)?.is_empty(),
        _ => false,
    };
    let next = last.filter(|_| more).map(|last| hash(&last));
    Ok(Answer::Json(
        json!({ "offset": offset, "all": store.stats().commits, "is_cut": is_cut, "next": next, "commits": rows }),
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
    let limit = query.number("limit", 200, ROWS_MAX)?.max(1) as usize;
    let at = |commit: &CommitHash| -> Result<Tree, Fault> {
        let root = store.checkout(commit)?;
        Ok(root.find_tree(&path)?.unwrap_or_else(|| store.empty_tree()))
    };
    // Relative to the path, as it was told where the answer before ended.
    let from = query.path("from")?;
    let (mut rows, mut counts, mut next) = (Vec::new(), [0_u64; 3], None);
    let walked = at(&before)?.diff_from(&at(&after)?, &from, |below, change| {
        // One at least, so that who asks on from there comes to the end.
        if rows.len() >= limit || !rows.is_empty() && until.is_over() {
            next = Some(below.to_vec());
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
    if next.is_none() {
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
    said.insert("is_cut".to_owned(), next.is_some().into());
    said.insert("next_hex".to_owned(), next.as_deref().map(path_hex).into());
    said.insert("changes".to_owned(), rows.into());
    Ok(Answer::Json(said.into(), "changes"))
}

/// Children that are weighed in one answer.
const WEIGHED_MAX: u64 = 200;

/// What is below a child.
struct Weight {
    values: u64,
    bytes: u64,
    /// Whether there is more, which was not counted.
    is_cut: bool,
}

/// Counts what is below `child`, and whether it was in time.
fn weigh(child: &Tree, until: &Until) -> Result<Weight, Fault> {
    let mut weight = Weight { values: 0, bytes: 0, is_cut: false };
    if let Some(value) = child.to_value()? {
        return Ok(Weight { values: 1, bytes: value.len() as u64, ..weight });
    }
    let walked = child.fold::<&[u8]>(&[], Some(Depth::Ge(1)), Order::Undefined, |_, tree| {
        // One value at least, so that what is shown of a child is not nothing.
        if weight.values > 0 && until.is_over() {
            weight.is_cut = true;
            return Err(enough());
        }
        if let Some(value) = tree.to_value()? {
            weight.values += 1;
            weight.bytes += value.len() as u64;
        }
        Ok(())
    });
    if !weight.is_cut {
        walked?;
    }
    Ok(weight)
}

/// `/api/weights`: what is below each child. Those that were not counted in time are left to the next answer, but for
/// the first one of an answer: of that, what was counted is said, and the rest is found by asking below it.
pub fn weights(state: &State, query: &Query, until: &Until) -> Made {
    let store = context(state, query)?;
    let (commit, path, tree) = place(&store, query)?;
    let offset = query.number("offset", 0, u64::MAX)?;
    let limit = query.number("limit", WEIGHED_MAX, WEIGHED_MAX)?.max(1);
    let is_directory = tree.kind() != Kind::Value;
    let all = if is_directory { tree.length::<&[u8]>(&[])? } else { 0 };
    let children = if is_directory { tree.list::<&[u8]>(&[], offset, limit)? } else { Vec::new() };
    let (mut rows, mut is_cut) = (Vec::new(), false);
    for (name, child) in &children {
        let is_first = rows.is_empty();
        if !is_first && until.is_over() {
            break;
        }
        let weight = weigh(child, until)?;
        if weight.is_cut && !is_first {
            break;
        }
        is_cut |= weight.is_cut;
        rows.push((name, child.kind() != Kind::Value, weight));
    }
    let next = offset.saturating_add(rows.len() as u64);
    rows.sort_by_key(|row| std::cmp::Reverse(row.2.bytes));
    let rows: Vec<_> = rows
        .iter()
        .map(|(name, is_directory, weight)| {
            json!({
                "name": shown(name), "name_hex": hex(name), "kind": if *is_directory { "directory" } else { "value" },
                "values": weight.values, "bytes": weight.bytes, "is_cut": weight.is_cut,
            })
        })
        .collect();
    let mut said = Map::new();
    said.insert("commit".to_owned(), hash(&commit).into());
    put_path(&mut said, &path);
    said.insert("length".to_owned(), all.into());
    said.insert("offset".to_owned(), offset.into());
    said.insert("is_cut".to_owned(), is_cut.into());
    said.insert("next".to_owned(), (next < all).then_some(next).into());
    said.insert("children".to_owned(), rows.into());
    Ok(Answer::Json(said.into(), "children"))
}

/// `/api/collection`.
pub fn collection(state: &State, query: &Query, until: &Until) -> Made {
    let store = context(state, query)?;
    let status = store.collect_status()?;
    let phase = match status.phase {
        CollectPhase::None => "none",
        CollectPhase::Marking => "marking",
        CollectPhase::Cleaning => "cleaning",
    };
    let mut pins = Vec::new();
    let pinned = store.pins()?;
    let mut is_cut = false;
    for pin in pinned.iter().take(ROWS_MAX as usize) {
        is_cut = !pins.is_empty() && until.is_over();
        if is_cut {
            break;
        }
        pins.push(row(&store.commit_info(pin)?));
    }
    // What no collection up to the newest commit takes, as far as so many can be counted together.
    let mut stays: Vec<CommitHash> = store.last_commit()?.into_iter().collect();
    let mut stays_cut = false;
    for commit in store.branches().into_iter().map(|(_, head)| head).chain(pinned) {
        if stays.contains(&commit) {
            continue;
        }
        if stays.len() == SHARED_COMMITS_MAX {
            stays_cut = true;
            break;
        }
        stays.push(commit);
    }
    let above_bytes: u64 = store.chunks().iter().map(|chunk| chunk.above_bytes).sum();
    let stays: Vec<_> = stays.iter().map(|commit| hash(commit)).collect();
    Ok(Answer::Json(
        json!({
            "phase": phase, "is_paused": status.is_paused, "target": status.target.map(|it| hash(&it)),
            "chunks_left": status.chunks_left, "left_bytes": status.left_bytes, "collections": status.collections,
            "archived_bytes": store.archived_bytes(), "above_bytes": above_bytes,
            "commits": store.stats().commits, "stays": stays, "stays_cut": stays_cut, "pins": pins,
            "is_cut": is_cut,
        }),
        "pins",
    ))
}
