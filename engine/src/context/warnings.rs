//! What a handle tells beside its answers, under a lock of its own: whoever asks waits for no commit and no step of a collection.

use crate::sync::{Mutex, lock};

/// Texts in the order in which they were first told.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// What is met again and again is told once.
    pub(crate) fn add(&self, warning: String) {
        let mut told = lock(&self.0);
        if !told.contains(&warning) {
            told.push(warning);
        }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}
