//! Commits that are kept in another format, behind the same store.

use std::sync::Arc;

use super::{Checked, Stats};
use crate::context::configuration::Configuration;
use crate::context::files::commit::Commit;
use crate::context::hash::{CommitHash, TreeHash};
use crate::context::pieces::node::{Load, Slot};
use crate::error::Result;
use crate::order::BTreeMap;

/// What a store asks of another format. Each means what the store's method of that name says.
pub(crate) trait History: Send + Sync + std::fmt::Debug {
    fn configuration(&self) -> Configuration;
    /// Where the nodes below [`History::root`] come from.
    fn load(&self) -> Arc<dyn Load>;
    fn exists(&self, commit: &CommitHash) -> Result<bool>;
    /// The tree of a commit.
    fn root(&self, commit: &CommitHash) -> Result<Slot>;
    fn commit_info(&self, commit: &CommitHash) -> Result<Commit>;
    /// Newest first; all, or those before one.
    fn log(&self, before: Option<&CommitHash>, limit: usize) -> Result<Vec<CommitHash>>;
    fn branches(&self) -> &BTreeMap<Vec<u8>, CommitHash>;
    fn object(&self, hash: &TreeHash) -> Result<Option<Slot>>;
    fn stats(&self) -> Stats;
    fn warnings(&self) -> Vec<String>;
    /// See [`Store::check_part`](super::Store::check_part).
    fn check(&self, from: Option<&CommitHash>, most: u64) -> Result<(Checked, Option<CommitHash>)>;
    fn reload(&mut self) -> Result<()>;
}
