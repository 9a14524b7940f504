//! Commits that are kept in another format, behind the same store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Checked, Stats};
use crate::context::configuration::Configuration;
use crate::context::files::commit::Commit;
use crate::context::hash::Hash;
use crate::context::pieces::node::{Load, Slot};
use crate::error::Result;

/// What a store asks of another format. Each means what the store's method of that name says.
pub(crate) trait History: Send + Sync + std::fmt::Debug {
    fn configuration(&self) -> Configuration;
    /// Where the nodes below [`History::root`] come from.
    fn load(&self) -> Arc<dyn Load>;
    fn exists(&self, commit: &Hash) -> Result<bool>;
    /// The tree of a commit.
    fn root(&self, commit: &Hash) -> Result<Slot>;
    fn commit_info(&self, commit: &Hash) -> Result<Commit>;
    fn log(&self, limit: usize) -> Result<Vec<Hash>>;
    fn branches(&self) -> &BTreeMap<Vec<u8>, Hash>;
    fn object(&self, hash: &Hash) -> Result<Option<Slot>>;
    fn stats(&self) -> Stats;
    fn warnings(&self) -> Vec<String>;
    fn check(&self) -> Result<Checked>;
    fn reload(&mut self) -> Result<()>;
}
