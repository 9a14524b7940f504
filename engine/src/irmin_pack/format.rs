//! What Irmin's files look like in bytes: decoders and encoders that know no disk.
//!
//! A [`Schema`](schema::Schema) says what names and contents mean; a control file, a dictionary, an
//! entry of the pack and the branches go from bytes to bytes, whatever the bytes are.

pub(super) mod branches;
pub(super) mod bytes;
pub(super) mod control;
pub(super) mod dict;
pub(super) mod entry;
pub(super) mod schema;
mod sha1;
pub mod trace;
