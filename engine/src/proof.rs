//! Proofs: a part of a tree, from which a function over the whole tree can be run again.
//!
//! [`record`] runs a function on a tree and keeps what it looked at; [`Proof::verify`] runs the same
//! function on that alone, and a root hash is all that has to be trusted. Both run the ordinary
//! operations of [`Tree`](crate::context::Tree), over nodes that come from the record or the proof.
//! Nothing here touches a disk or a store. Format: `docs/format/proof.md`.

mod admit;
mod encoding;
mod placement;
mod pool;
mod record;
mod shape;
mod verify;

pub use encoding::{Encoding, decode_any};
pub use record::{Recording, record};
pub use shape::{Element, Entries, Extender, Inode, Kinded, NESTING, Part, Piece, Proof, State};
pub use verify::{Read, Shown, Summary, read};
