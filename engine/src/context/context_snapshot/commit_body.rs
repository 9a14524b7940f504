//! What a record of a commit says beside its tree: the same in the stream and in the state of an import.

use crate::context::files::commit::{Commit, PARENTS_MAX, TEXT_MAX};
use crate::context::hash::{CommitHash, TreeHash};
use crate::context::pieces::node::UNKNOWN;
use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};

/// Bytes of the texts and parents of `commit`.
pub(super) fn said_bytes(commit: &Commit) -> usize {
    32 * commit.parents.len() + commit.author.len() + commit.message.len()
}

/// Appends what `commit` says.
pub(super) fn put(commit: &Commit, body: &mut Encoder) {
    body.u64(commit.date as u64);
    body.varint(commit.parents.len() as u64);
    for parent in &commit.parents {
        body.raw(parent.as_ref());
    }
    body.bytes_with_length(&commit.author);
    body.bytes_with_length(&commit.message);
}

/// The same, read; the hashes of commit and tree are not known yet.
pub(super) fn take(decoder: &mut Decoder<'_>) -> Result<Commit> {
    let date = decoder.u64()? as i64;
    let start = decoder.clone();
    let count = decoder.clone().varint()?;
    if count > PARENTS_MAX as u64 {
        return Err(start.corrupt(format_args!("at most {PARENTS_MAX} parents"), count));
    }
    let count = decoder.count(32)?;
    let mut parents: Vec<CommitHash> = Vec::with_capacity(count);
    for _ in 0..count {
        parents.push(decoder.raw(32)?.try_into().expect("32 bytes"));
    }
    if !parents.is_sorted() {
        return Err(start.corrupt("parents in order", "others"));
    }
    let mut text = || {
        let start = decoder.clone();
        let length = decoder.clone().varint()?;
        if length > TEXT_MAX as u64 {
            return Err(start.corrupt(format_args!("at most {TEXT_MAX} bytes"), length));
        }
        Ok(decoder.bytes_with_length()?.to_vec())
    };
    let (author, message) = (text()?, text()?);
    let (hash, tree) = (CommitHash::new(UNKNOWN), TreeHash::new(UNKNOWN));
    Ok(Commit { hash, tree, parents, date, author, message, sequence: 0, added_bytes: 0 })
}
