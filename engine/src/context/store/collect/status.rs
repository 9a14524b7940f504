//! How far a collection is.

use super::super::Store;
use super::super::collection::{CollectPhase, CollectStatus};
use crate::context::files::control::Cursor;
use crate::context::hash::CommitHash;
use crate::error::{Kind, Result};

impl Store {
    /// How far a collection is. That of a reader is as of its last reload.
    pub fn collect_status(&self) -> Result<CollectStatus> {
        let (control, mut status) = match &self.tip {
            Some(tip) => {
                let writer = tip.writer()?;
                let mut status = CollectStatus {
                    reclaimed_bytes: writer.reclaimed(),
                    ..CollectStatus::default()
                };
                if let Some(collection) = &writer.collection {
                    let left = if collection.cleaning {
                        let rows = &writer.control.chunks;
                        rows.partition_point(|row| row.number < collection.next) as u64
                    } else {
                        collection.marks.chunks_left() as u64
                    };
                    status.chunks_left = left;
                    status.left_bytes = collection.left_bytes(&self.pack.chunks());
                    status.left_credits = collection.left_credits(status.left_bytes);
                    status.memory_bytes = collection.memory_bytes();
                }
                (writer.control.clone(), status)
            }
            None => (self.control.clone(), CollectStatus::default()),
        };
        if let Some(Cursor { phase, target, chunk }) = control.cursor {
            if self.tip.is_none() {
                let chunks = self.pack.chunks();
                let old = chunks.iter().filter(|old| old.number < chunk && old.has_file());
                status.chunks_left = old.clone().count() as u64;
                status.left_bytes = old.map(|old| old.end()).sum();
            }
            status.phase = if phase == 1 { CollectPhase::Marking } else { CollectPhase::Cleaning };
            status.target = self.kept_at(target)?;
        }
        if control.horizon.commit != 0 {
            status.history_from = self.kept_at(control.horizon.commit)?;
        }
        (status.is_paused, status.collections) = (control.is_paused, control.collections);
        Ok(status)
    }

    /// The commit at `offset`; none where a collection has taken it meanwhile.
    fn kept_at(&self, offset: u64) -> Result<Option<CommitHash>> {
        match self.commit_at(offset) {
            Err(error) if error.kind() == Kind::Collected => Ok(None),
            found => Ok(Some(found?.0)),
        }
    }
}
