//! What a collection does with chunks: it marks what stays, keeps a commit beside it from referring to what goes, and
//! writes what stays into files of their own. Who orders its steps is the store. Design: `docs/design/collection.md`.

pub(crate) mod barrier;
pub(crate) mod live;
mod mark_set;
pub(crate) mod marks;
mod queued;
pub(crate) mod reached;
pub(crate) mod rewrite;
mod whole_scan;
