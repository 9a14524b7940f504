//! A log that is written whole, as one file, from the records of another session's.
//!
//! The file says that it follows itself, so it counts only where a checkpoint names it: until that one
//! appears, it is left over, whatever is in it.

use std::sync::Arc;

use super::folder::make_folder;
use super::log::create;
use super::log_record::{LogEnd, LogPoint};
use crate::error::Result;
use crate::file::append::AppendFile;
use crate::order::{self, BTreeSet};
use crate::table::shared::SegmentStore;
use crate::table::shared::paths::LOG;

/// Records are written in pieces of about so many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// See the module.
pub struct LogCopy {
    store: Arc<SegmentStore>,
    number: u64,
    file: AppendFile,
    /// For each point that was given, where it is in this one, if that is known.
    places: Vec<Option<LogPoint>>,
    /// Of the others, where they are in the log that is copied, the last first, and which they are.
    to_come: Vec<(LogPoint, usize)>,
    /// The numbers of the blob files that its records list.
    blobs: BTreeSet<u64>,
}

impl LogCopy {
    /// Begins log file `number` of `store`, for tables whose [points](super::LiveRecord::points) in the log that
    /// is copied are these.
    pub fn begin(
        store: &Arc<SegmentStore>,
        number: u64,
        points: impl Iterator<Item = LogPoint>,
    ) -> Result<LogCopy> {
        // Anew, if it is empty: a sync after which its name was to be durable may have failed.
        make_folder(&*store.disk, LOG)?;
        store.or_poison(|| store.disk.sync_directory(""))?;
        Self::in_folder(store, number, points)
    }

    /// The same in the folder of a log that is there.
    pub fn in_folder(
        store: &Arc<SegmentStore>,
        number: u64,
        points: impl Iterator<Item = LogPoint>,
    ) -> Result<LogCopy> {
        let file = create(store, number, true)?;
        let mut to_come: Vec<_> = points.zip(0..).collect();
        order::sort_by(&mut to_come, |one, other| other.cmp(one));
        Ok(LogCopy {
            store: Arc::clone(store),
            number,
            file,
            blobs: BTreeSet::new(),
            places: vec![None; to_come.len()],
            to_come,
        })
    }

    /// How many records it has beside the first.
    pub fn records(&self) -> u64 {
        self.file.end().sequence - 1
    }

    /// Its length so far.
    pub fn bytes(&self) -> u64 {
        self.file.end().offset
    }

    /// Notes that the next record lists blob file `number`.
    pub fn add_blob(&mut self, number: u64) {
        self.blobs.insert(number);
    }

    /// The numbers of the blob files that its records list.
    pub fn blobs(&self) -> impl Iterator<Item = u64> {
        self.blobs.iter().copied()
    }

    /// Adds the record that is at `at` in the log that is copied. They come in their order; those that no table
    /// needs may be left out.
    pub fn push(&mut self, at: LogPoint, payload: &[u8]) -> Result<()> {
        let next = LogPoint { file: self.number, sequence: self.file.end().sequence, skip: 0 };
        while let Some((from, table)) = self.to_come.pop_if(|(from, _)| at.after() > *from) {
            let is_same = (at.file, at.sequence) == (from.file, from.sequence);
            self.places[table] =
                Some(LogPoint { skip: if is_same { from.skip } else { 0 }, ..next });
        }
        self.file.push(payload)?;
        if self.bytes() - self.file.written().offset >= PIECE_BYTES {
            self.file.write()?;
        }
        Ok(())
    }

    /// Where each of the points is in it.
    pub fn points(&self) -> impl Iterator<Item = LogPoint> {
        let end = LogPoint { file: self.number, sequence: self.file.end().sequence, skip: 0 };
        self.places.iter().map(move |place| place.unwrap_or(end))
    }

    /// The same where they are those of tables.
    pub fn places(&self) -> Vec<[LogPoint; 2]> {
        self.points().collect::<Vec<_>>().chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()
    }

    /// Makes it durable, and says where it ends.
    pub fn finish(&mut self) -> Result<LogEnd> {
        self.file.write()?;
        let (store, file) = (&self.store, &mut self.file);
        let mut no_room = Ok(());
        store.or_poison(|| match file.sync() {
            // Nothing names the file, so this says nothing of others.
            Err(error) if error.is_no_space() => {
                no_room = Err(error);
                Ok(())
            }
            synced => synced,
        })?;
        no_room?;
        Ok(LogEnd { file: self.number, position: self.file.end() })
    }
}
