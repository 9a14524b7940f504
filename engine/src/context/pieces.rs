//! Directories in memory: pieces that handles share, that a change copies, and that are loaded when looked at.
//!
//! A directory is cut into [`Node`](node::Node)s, leaves and branches; what is not in memory comes
//! from a [`Load`](node::Load), so nothing here knows a disk. Entries, small directories among them,
//! are in a leaf as they are stored, and what is hashed is made of them.

pub(crate) mod changes;
pub(crate) mod digest;
pub(crate) mod directory;
pub(crate) mod entry;
pub(crate) mod kept;
pub(crate) mod node;
pub(crate) mod object_cache;
pub(crate) mod recent;
pub(crate) mod spare;
pub(crate) mod turnover;
