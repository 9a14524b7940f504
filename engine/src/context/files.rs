//! The store's files: chunks of the pack, the control file, the index of hashes, and what is in them.
//!
//! The [`Pack`](pack::Pack) reads records of its chunks and a [`Batch`](batch::Batch) writes them;
//! the [`Control`](control::Control) says which chunks there are, and the
//! [`HashIndex`](hash_index::HashIndex) where a hash is. Formats: `docs/format/pack.md`,
//! `docs/format/control.md`. Relies on `pieces` for what the records hold.

pub(crate) mod batch;
pub(crate) mod chunk;
pub(crate) mod chunk_files;
pub(crate) mod chunk_reader;
pub(crate) mod collecting;
pub(crate) mod commit;
pub(crate) mod control;
pub(crate) mod evicted_hashes;
pub(crate) mod hash_index;
pub(crate) mod number_hasher;
pub(crate) mod pack;
pub(crate) mod patch;
pub(crate) mod paths;
pub(crate) mod record;
pub(crate) mod sparse;
pub(crate) mod volume;
