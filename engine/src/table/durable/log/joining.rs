//! Files of sessions before, of which one new file takes what tables need.
//!
//! The new file gets a number that the opening has set aside, behind all that it found and before the first that the
//! session begins: so whatever is in it comes before every update of the session.

use super::{LogFile, LogWriter};
use crate::disk::remove_quietly;
use crate::file::append::AppendFile;
use crate::sync::lock;
use crate::table::shared::paths;

/// Files take room in such pieces at least.
const BLOCK_BYTES: u64 = 4_096;

/// How many of the newest `files` are short and no longer than those behind them together: to write them anew as one costs
/// no more than twice what was logged since they began, and those before them get ever longer.
pub fn short_run<'f>(
    files: impl DoubleEndedIterator<Item = &'f LogFile>,
    file_bytes: u64,
) -> usize {
    let mut behind = 0;
    let is_in = |file: &&LogFile| {
        let blocks = file.end.offset.div_ceil(BLOCK_BYTES);
        let is_in = file.is_short(file_bytes) && (behind == 0 || blocks <= behind);
        behind += blocks;
        is_in
    };
    files.rev().take_while(is_in).count()
}

impl LogWriter {
    /// Sets a number aside for a file that takes the place of those before, if this session has begun none.
    pub fn set_aside(&self) {
        let mut state = lock(&self.state);
        if !state.is_begun {
            state.aside = Some(state.current.number);
            state.current.number += 1;
            state.file = AppendFile::standing_in(&paths::log_file(state.current.number));
        }
    }

    /// The number that was set aside, once, and the files before it.
    pub fn take_aside(&self) -> Option<(u64, Vec<LogFile>)> {
        let mut state = lock(&self.state);
        let number = state.aside.take()?;
        let older = state.older.iter().filter(|file| file.number < number);
        Some((number, older.cloned().collect()))
    }

    /// The files that are there beside the current one.
    pub fn older(&self) -> Vec<LogFile> {
        lock(&self.state).older.clone()
    }

    /// How many of these ended before they were half full.
    pub fn short_files(&self) -> usize {
        let file_bytes = self.store.options.log_file_bytes;
        lock(&self.state).older.iter().filter(|file| file.is_short(file_bytes)).count()
    }

    /// A file that is whole takes the place of those that are `joined`, if the next checkpoint stands.
    pub fn add_joined(&self, file: LogFile, joined: &[&LogFile]) {
        let mut state = lock(&self.state);
        let is_joined = |it: &LogFile| joined.iter().any(|joined| joined.number == it.number);
        let (joined, mut older): (Vec<_>, _) =
            std::mem::take(&mut state.older).into_iter().partition(is_joined);
        let at = older.partition_point(|older| older.number < file.number);
        older.insert(at, file);
        (state.joined, state.older) = (joined, older);
    }

    /// The checkpoint stands, so those that were joined go.
    pub fn leave_joined(&self) {
        let mut state = lock(&self.state);
        let joined = std::mem::take(&mut state.joined);
        self.let_go(&mut state, &joined);
    }

    /// It does not stand, and nothing names the new file `number`.
    pub fn remove_joined(&self, number: u64) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        state.older.retain(|file| file.number != number);
        state.older.append(&mut state.joined);
        crate::order::sort_by(&mut state.older, |a, b| a.number.cmp(&b.number));
        drop(guard);
        self.pins.unpin_logged(&[number]);
        if self.store.check_lock().is_ok() {
            remove_quietly(&*self.store.disk, &paths::log_file(number));
        }
    }
}
