//! The live tables as they are at one moment, for whoever copies them while updates go on.
//!
//! What the checkpoint names and what the log has behind it: nothing is written out, and no update
//! waits. Held in memory only, so that a crash leaves nothing behind.

use std::sync::Arc;

use super::{LiveTables, needed};
use crate::error::Result;
use crate::sync::lock;
use crate::table::durable::checkpoint::LiveRecord;
use crate::table::durable::log_record::LogEnd;
use crate::table::shared::Files;

/// See the module.
pub struct Frozen {
    /// The id of the next live table.
    pub next_id: u64,
    /// The tables in the order of their names.
    pub records: Vec<LiveRecord>,
    /// The log files that they need, and where each one ends at this moment.
    pub log: Vec<LogEnd>,
    /// All that tables and log name.
    pub files: Vec<Files>,
    /// While it is there, no log file goes.
    pub hold: LogHold,
}

/// Keeps the files of the log.
pub struct LogHold(Arc<LiveTables>);

impl Drop for LogHold {
    fn drop(&mut self) {
        if let Some(log) = &self.0.log {
            log.hold(false);
        }
    }
}

impl LiveTables {
    /// The live tables of this moment. `Invalid` without a log. Waits for a checkpoint that is being written;
    /// costs O(segments) in memory, and no call of the disk.
    pub fn frozen(self: &Arc<Self>) -> Result<Frozen> {
        let log = self.log_writer()?;
        // Nobody begins a log file or writes a checkpoint meanwhile.
        let _changing = lock(&self.changing);
        log.hold(true);
        let hold = LogHold(Arc::clone(self));
        let (entries, next_id) = self.entries();
        let current = log.files().pop().expect("there is a current file").end();
        let ends = needed(log, &entries, current);
        // After the ends: a blob file is held before the record that names it is written.
        let files = self.pins.lock().all().cloned().collect();
        let records = entries.values().map(|entry| (*entry.record).clone()).collect();
        Ok(Frozen { next_id, records, log: ends, files, hold })
    }
}
