//! To read a store whose newest commits are damaged, as it was before them.

use std::sync::Arc;

use crate::cache::Cache;
use crate::context::files::chunk_files::Chunk;
use crate::context::files::record::{self, Tag};
use crate::context::hash;
use crate::context::options::Options;
use crate::context::store::Store;
use crate::context::store::load::{ATTEMPTS_MAX, beside_writer, read_control};
use crate::disk::Disk;
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, HEAD, Position, Remnant};
use crate::format::checksum::crc_append;

/// Behind the batch at `position` that has this payload.
pub(super) fn after(position: Position, payload: &[u8]) -> Position {
    Position {
        offset: position.offset + (HEAD + payload.len()) as u64,
        sequence: position.sequence.wrapping_add(1),
        chain: crc_append(position.chain, payload),
    }
}

impl Store {
    /// Opens a store to read: whole, or where a damage keeps it from that up to the last commit before, which is told among the
    /// warnings. The damage is one that is met again when the store was read so: a writer beside it, or a copy that was put back,
    /// may have taken it away meanwhile. The error of the damage where no commit is left.
    pub(in crate::context::store) fn open_to_read(
        (cache, disk, options): (Arc<Cache>, Arc<dyn Disk>, Options),
    ) -> Result<Store> {
        let open = |damage: Option<&Arc<Error>>| {
            let opened = beside_writer(
                || read_control(&*disk),
                |control| {
                    let of = (Arc::clone(&cache), Arc::clone(&disk), options.clone());
                    Self::open_through(of, control, None, damage.cloned())
                },
            );
            opened.map_err(Error::of_context)
        };
        let mut opened = open(None);
        for _ in 1..ATTEMPTS_MAX {
            let damage = match opened {
                Err(error) if !cfg!(varvite_js) && error.kind() == Kind::Corrupt => Arc::new(error),
                opened => return opened,
            };
            let before = open(Some(&damage)).and_then(|store| Ok((store.last_commit()?, store)));
            opened = open(None);
            if !opened.as_ref().is_err_and(|again| again.detail() == damage.detail()) {
                continue;
            }
            let Ok((Some(commit), store)) = before else { return opened };
            store.warnings.add(format!(
                "{}; the store is read up to commit {}, and nobody can write to it: `varvite repair` makes a new store of \
                 what is whole",
                damage.what(),
                hash::to_text(&commit)
            ));
            return Ok(store);
        }
        opened
    }

    /// `Corrupt` where this handle reads the store as it was before a damage: `what` may be behind that.
    pub(in crate::context::store) fn expect_all(&self, what: impl Fn() -> String) -> Result<()> {
        match &self.damage {
            Some(damage) if !cfg!(varvite_js) => {
                let what = what();
                let error = damage.again();
                Err(error.context(format_args!(
                    "{what} may be behind the damage that ends what is read"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether `error` is one that this handle reads past.
    pub(in crate::context::store) fn is_past(&self, error: &Error) -> bool {
        !cfg!(varvite_js) && self.damage.is_some() && error.kind() == Kind::Corrupt
    }

    pub(super) fn unless_past(&self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if self.is_past(&error) => Ok(()),
            outcome => outcome,
        }
    }

    /// Whether a mapping says that there is a record at `offset`, of which no byte can be believed. Of a whole chunk nothing says
    /// so.
    pub(super) fn is_damaged_record(&self, offset: u64) -> bool {
        let is_sparse = self.pack.chunk(offset).is_some_and(|chunk| !chunk.is_whole());
        let is_there = || is_sparse && self.pack.has_record(offset).unwrap_or(false);
        let read = || self.pack.record(offset, |_, _, _| Ok(()));
        !cfg!(varvite_js) && is_there() && read().is_err_and(|it| it.kind() == Kind::Corrupt)
    }

    /// The newest commit before logical offset `end` that is whole, and the number of the one after it; zeros where there is none.
    pub(super) fn last_whole(&self, end: u64) -> (u64, u64) {
        let chunks = self.pack.chunks();
        for chunk in chunks.iter().rev().filter(|chunk| chunk.base < end && chunk.has_file()) {
            // Of one that cannot be read all is as good as damaged.
            let found = self.commits_in(chunk).unwrap_or_default();
            for offset in found.into_iter().rev().filter(|offset| *offset < end) {
                if self.has_collected(offset) {
                    continue;
                }
                if let Ok((_, body)) = self.commit_at(offset) {
                    return (offset, body.sequence.saturating_add(1));
                }
            }
        }
        (0, 0)
    }

    /// Where the commits of `chunk` may be, in order.
    fn commits_in(&self, chunk: &Arc<Chunk>) -> Result<Vec<u64>> {
        if !chunk.is_whole() {
            let records = self.pack.kept_records(chunk)?;
            return Ok(records.into_iter().filter(|it| it.1).map(|it| it.0).collect());
        }
        let file = self.pack.files.get(chunk)?;
        let mut found = Vec::new();
        append::remnants(&*file, chunk.identity, |remnant| {
            let Remnant::Record(start, payload, _) = remnant else { return };
            let mut at = 0;
            while let Some(rest) = payload.get(at..).filter(|rest| !rest.is_empty()) {
                if Tag::of(rest[0]) == Some(Tag::Commit) {
                    found.push(chunk.base + start + at as u64);
                }
                let Some(length) = record::length(rest) else { break };
                at = at.saturating_add(length as usize);
            }
        })?;
        Ok(found)
    }
}
