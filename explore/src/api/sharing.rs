//! What commits share: how much of each is in the pack for it alone, for some others too, or for all that are chosen.
//!
//! A large commit takes more than one answer. What an answer did not come to goes on where it ended when somebody asks
//! again, as long as the count is kept; when it is not, it begins anew, and comes to the same.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};
use varvite::context::{CommitHash, SHARED_COMMITS_MAX, SharedPart, Sharing, Store};

use super::context::{context, named};
use super::space::held;
use super::text::{hash, head, shown};
use super::{Made, State, Until};
use crate::answer::{Answer, Fault};
use crate::query::Query;
use crate::sources::{REST, lock, try_lock};

/// Pieces that are counted unless more are asked for, and at most.
const PIECES: u64 = 200_000;
const PIECES_MAX: u64 = 1_000_000_000;

/// Between two looks at the time.
const STEP: u64 = 500;

/// Counts that are kept, and references that one of them may hold, of 16 bytes each.
const KEPT_MAX: usize = 2;
const WAITING_MAX: usize = 2 << 20;

/// Sets of commits that are listed, those with the most bytes.
const PARTS_MAX: usize = 200;

/// What is counted: these commits of the store of this number.
type Subject = (u64, Vec<CommitHash>);

/// A count that somebody may go on with, in the store as it was opened when the count began.
struct Kept {
    subject: Subject,
    store: Arc<Store>,
    walk: Sharing,
    asked: Instant,
}

/// Counts that are kept.
#[derive(Default)]
pub struct Sharings(Mutex<Vec<Kept>>);

impl Sharings {
    /// Takes what was counted of the subject, unless it is more than `pieces`. What a commit holds does not change, so
    /// the store may have been opened anew since, as it is when its writer goes on.
    fn take(&self, subject: &Subject, pieces: u64) -> Option<(Arc<Store>, Sharing)> {
        let mut kept = lock(&self.0);
        let is_it = |it: &Kept| it.subject == *subject && it.walk.counted() <= pieces;
        let place = kept.iter().position(is_it)?;
        let Kept { store, walk, .. } = kept.swap_remove(place);
        Some((store, walk))
    }

    fn keep(&self, subject: Subject, store: Arc<Store>, walk: Sharing) {
        let mut kept = lock(&self.0);
        if kept.len() >= KEPT_MAX {
            kept.sort_by_key(|it| it.asked);
            kept.remove(0);
        }
        kept.push(Kept { subject, store, walk, asked: Instant::now() });
    }

    /// Drops those that nobody has asked for in a while: they hold their store open.
    pub fn rest(&self) {
        let Some(mut kept) = try_lock(&self.0) else { return };
        kept.retain(|it| it.asked.elapsed() < REST);
    }
}

/// The commits of the query, the newest first where they are the last ones.
fn chosen(store: &Store, query: &Query) -> Result<Vec<CommitHash>, Fault> {
    let most = SHARED_COMMITS_MAX as u64;
    let last = query.number("last", 8, most)?;
    let Some(text) = query.text("commits")? else { return Ok(store.log(last as usize)?) };
    let names: Vec<&str> = text.split(',').take(SHARED_COMMITS_MAX + 1).collect();
    if names.len() > SHARED_COMMITS_MAX {
        let why = format!("commits are up to {most} hashes, branches or last, joined by commas");
        return Err(crate::query::Refused(why).into());
    }
    let one =
        |(at, text): (usize, &&str)| named(store, text, &format!("number {} of commits", at + 1));
    names.iter().enumerate().map(one).collect()
}

/// `/api/sharing`.
pub fn sharing(state: &State, query: &Query, until: &Until) -> Made {
    let store = context(state, query)?;
    let subject = (query.number("store", 0, u64::MAX)?, chosen(&store, query)?);
    let pieces = query.number("pieces", PIECES, PIECES_MAX)?;
    if let Some((kept, walk)) = state.sharings.take(&subject, pieces) {
        // The store as it was may have lost a file since, to a collection or a repair: as it is now is asked then.
        if let Ok(answer) = counted(state, (subject.clone(), kept), walk, (pieces, until)) {
            return Ok(answer);
        }
    }
    let walk = store.sharing(&subject.1)?;
    counted(state, (subject, store), walk, (pieces, until))
}

/// Goes on with `walk` until it has `pieces` or the time is over, and says what it has.
fn counted(
    state: &State,
    (subject, store): (Subject, Arc<Store>),
    mut walk: Sharing,
    (pieces, until): (u64, &Until),
) -> Made {
    let commits = &subject.1;
    let mut is_left = walk.waiting() > 0;
    let is_wide = |walk: &Sharing| walk.waiting() > WAITING_MAX;
    while is_left && walk.counted() < pieces && !is_wide(&walk) {
        is_left = walk.step(&store, STEP.min(pieces - walk.counted()))?;
        if until.is_over() {
            break;
        }
    }
    // What nobody can follow to its end in the memory that there is for it is not followed.
    let is_too_wide = is_left && is_wide(&walk);
    let is_full = walk.counted() >= pieces;
    let more = if is_full { pieces.max(PIECES).saturating_mul(4).min(PIECES_MAX) } else { pieces };
    let next = (is_left && !is_too_wide && (!is_full || more > pieces)).then_some(more);
    let parts = walk.parts();
    let (chunks, dead_bytes) = held(&store, &walk);
    let mut said = json!({
        "counted": walk.counted(), "pieces": pieces, "is_cut": is_left, "is_too_wide": is_too_wide, "next": next,
        "commits": rows(&store, commits, &parts)?, "parts": listed(&parts), "chunks": chunks,
        "dead_bytes": dead_bytes,
    });
    let sum = |of: fn(&SharedPart) -> u64| parts.iter().map(of).sum::<u64>();
    said["bytes"] = sum(|part| part.bytes).into();
    if next.is_some() {
        state.sharings.keep(subject, store, walk);
    }
    Ok(Answer::Json(said, "commits"))
}

/// What each commit holds alone, with some others, and with all of them.
fn rows(store: &Store, commits: &[CommitHash], parts: &[SharedPart]) -> Result<Vec<Value>, Fault> {
    let mut rows = Vec::new();
    for (place, commit) in commits.iter().enumerate() {
        let info = store.commit_info(commit)?;
        let mut row = json!({
            "hash": hash(commit), "sequence": info.sequence, "date": info.date,
            "message": shown(head(&info.message, 128)),
        });
        let all = u32::MAX >> (SHARED_COMMITS_MAX - commits.len());
        let (own, held) = (1 << place, |part: &&SharedPart| part.commits >> place & 1 == 1);
        let kinds: [(&str, &dyn Fn(u32) -> bool); 3] = [
            ("own", &|of| of == own),
            ("some", &|of| of != own && of != all),
            ("all", &|of| of != own && of == all),
        ];
        for (name, is_kind) in kinds {
            let found = parts.iter().filter(held).filter(|part| is_kind(part.commits));
            let (pieces, bytes) =
                found.fold((0, 0), |sum, part| (sum.0 + part.pieces, sum.1 + part.bytes));
            row[format!("{name}_pieces")] = pieces.into();
            row[format!("{name}_bytes")] = bytes.into();
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The sets of commits that hold most together, by their places in the list.
fn listed(parts: &[SharedPart]) -> Vec<Value> {
    let mut parts = parts.to_vec();
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let places = |of: u32| (0..32).filter(|place| of >> place & 1 == 1).collect::<Vec<u32>>();
    parts
        .iter()
        .take(PARTS_MAX)
        .map(|it| json!({ "commits": places(it.commits), "pieces": it.pieces, "bytes": it.bytes }))
        .collect()
}

/// `/api/sharing/chunks`.
pub fn chunk_rows(state: &State, query: &Query, until: &Until) -> Made {
    sharing(state, query, until).map(|answer| answer.with_rows("chunks"))
}
