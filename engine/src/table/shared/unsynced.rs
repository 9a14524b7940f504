//! Files that were finished and perhaps are not durable, in the order in which they came.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::error::Result;
use crate::sync::{Mutex, lock};
use crate::table::runs::Segment;
use crate::table::runs::blob::BlobFile;

/// A segment or a blob file.
pub enum Unsynced {
    Segment(Weak<Segment>),
    Blob(Weak<BlobFile>),
}

impl From<&Arc<Segment>> for Unsynced {
    fn from(segment: &Arc<Segment>) -> Self {
        Unsynced::Segment(Arc::downgrade(segment))
    }
}

impl From<&Arc<BlobFile>> for Unsynced {
    fn from(blob: &Arc<BlobFile>) -> Self {
        Unsynced::Blob(Arc::downgrade(blob))
    }
}

impl Unsynced {
    /// Whether it is there and to be made durable, some time.
    pub fn is_wanted(&self) -> bool {
        match self {
            Unsynced::Segment(it) => it.upgrade().is_some_and(|it| !it.is_synced()),
            Unsynced::Blob(it) => it.upgrade().is_some_and(|it| !it.is_synced()),
        }
    }

    /// Makes it durable, unless it is gone or somebody is at it; whether that had to be done, and was.
    pub fn sync_if_free(&self) -> Result<bool> {
        match self {
            Unsynced::Segment(it) => it.upgrade().map_or(Ok(false), |it| it.sync_if_free()),
            Unsynced::Blob(it) => it.upgrade().map_or(Ok(false), |it| it.sync_if_free()),
        }
    }
}

/// A list of them, with some that are durable by now, or gone.
#[derive(Default)]
pub struct UnsyncedFiles(Mutex<VecDeque<Unsynced>>);

impl UnsyncedFiles {
    /// Notes `file`, and now and then forgets what is durable.
    pub fn note(&self, file: impl Into<Unsynced>) {
        let mut files = lock(&self.0);
        if files.len() == files.capacity() {
            files.retain(Unsynced::is_wanted);
        }
        files.push_back(file.into());
    }

    /// The oldest, which is noted no more.
    pub fn take(&self) -> Option<Unsynced> {
        lock(&self.0).pop_front()
    }
}
