//! Conventions of every file of ours: little-endian integers of fixed width, a 32-byte header that
//! names kind and version, and a CRC-32C on everything that is read.
//!
//! Format documents: `docs/format/`. Nothing here knows a disk: bytes in, bytes out.

pub mod checksum;
pub mod codec;
pub mod hash;
pub mod header;
