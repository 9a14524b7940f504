//! What has a name in a pool, as a sorted list: a map of the library would be made for it alone, in 5 kB of WebAssembly.

use std::sync::Arc;

use super::Slot;

/// What a path names.
#[derive(Clone)]
pub enum Node {
    Folder,
    File(Arc<Slot>),
}

/// Nodes by their paths.
#[derive(Default)]
pub struct Nodes(Vec<(String, Node)>);

impl Nodes {
    /// Where the path is, or comes.
    fn place(&self, path: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(path))
    }

    pub fn get(&self, path: &str) -> Option<&Node> {
        self.place(path).ok().map(|at| &self.0[at].1)
    }

    pub fn contains_key(&self, path: &str) -> bool {
        self.place(path).is_ok()
    }

    /// Gives the node that had the path.
    pub fn insert(&mut self, path: String, node: Node) -> Option<Node> {
        match self.place(&path) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, node)),
            Err(at) => {
                self.0.insert(at, (path, node));
                None
            }
        }
    }

    pub fn remove(&mut self, path: &str) -> Option<Node> {
        self.place(path).ok().map(|at| self.0.remove(at).1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.0.iter().map(|(path, node)| (path, node))
    }

    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|(path, _)| path)
    }
}
