//! The hash of a directory of which only the hashes of the children are known.

use std::sync::Arc;

use super::Kind;
use crate::context::configuration::Configuration;
use crate::context::hash::{Hash, TreeHash};
use crate::context::pieces::digest;
use crate::context::pieces::directory::Directories;
use crate::context::pieces::node::{Leaf, Load, Node, Slot};
use crate::error::{Error, Result};

/// Children by position instead of by place in a pack.
#[derive(Debug)]
struct Bindings<'a>(&'a [(Vec<u8>, Kind, TreeHash)]);

impl Load for Bindings<'_> {
    fn node(&self, _: u64) -> Result<Arc<Node>> {
        Err(Error::invalid("only the hash of this child is known"))
    }

    fn value(&self, _: u64) -> Result<Arc<[u8]>> {
        Err(Error::invalid("only the hash of this child is known"))
    }

    fn hash(&self, offset: u64) -> Result<Hash> {
        Ok(self.0[offset as usize].2.to_bytes())
    }

    fn identity(&self) -> u64 {
        0
    }
}

/// The hash of the directory with these children, in any order. Of several with one name the last
/// counts. `Invalid` when the names cannot be represented.
pub fn directory_hash(
    configuration: Configuration,
    children: &[(Vec<u8>, Kind, TreeHash)],
) -> Result<TreeHash> {
    let bindings = Bindings(children);
    let directories = Directories { configuration, load: Some(&bindings), tally: None };
    let mut root = Arc::new(Node::leaf(Leaf::default(), true));
    for (index, (name, kind, _)) in children.iter().enumerate() {
        let slot = match kind {
            Kind::Value => Slot::StoredValue(index as u64),
            Kind::Directory => Slot::StoredNode(index as u64),
        };
        if directories.find(&root, name)?.is_some() {
            *directories.slot_mut(&mut root, name)? = slot;
        } else {
            directories.insert(&mut root, name, slot)?;
        }
    }
    digest::node(&root, Some(&bindings)).map(TreeHash::new)
}
