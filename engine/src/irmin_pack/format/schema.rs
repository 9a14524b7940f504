//! How a store of Irmin names its objects: which hash, over which pre-images.
//!
//! A hash that is shorter than ours is kept with zeros behind it, so that one type serves both.

use super::sha1;
use crate::context::hash::{self, CommitHash, Hash, TreeHash};
use crate::context::preimage;

/// Which hash a store uses, and over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schema {
    /// `BLAKE2b`-256 over the pre-images of Tezos: what nodes have.
    Tezos,
    /// SHA-1 over the library's older defaults: what its sample stores have. Read only.
    Sha1,
}

/// An entry of a directory as hashing sees it: name, whether it is a value, hash.
pub(crate) type Binding<'a> = (&'a [u8], bool, Hash);

impl Schema {
    /// Bytes of a hash on disk.
    #[must_use]
    pub fn hash_bytes(self) -> usize {
        match self {
            Schema::Tezos => 32,
            Schema::Sha1 => 20,
        }
    }

    /// A hash as it is on disk, which must have the right length.
    pub(crate) fn hash(self, bytes: &[u8]) -> Hash {
        let mut hash = [0; 32];
        hash[..self.hash_bytes()].copy_from_slice(&bytes[..self.hash_bytes()]);
        hash
    }

    /// What people see: the text of Tezos, or hexadecimal digits.
    #[must_use]
    pub fn text(self, hash: &Hash) -> String {
        match self {
            Schema::Tezos => hash::to_text(hash),
            Schema::Sha1 => hash::to_hex(&hash[..20]),
        }
    }

    fn digest(self, bytes: &[u8]) -> Hash {
        match self {
            Schema::Tezos => hash::hash(bytes),
            Schema::Sha1 => self.hash(&sha1::digest(bytes)),
        }
    }

    /// The hash of a value.
    pub(crate) fn value(self, value: &[u8]) -> Hash {
        match self {
            Schema::Tezos => hash::value(value),
            Schema::Sha1 => self.digest(value),
        }
    }

    /// The hash of a whole directory that is hashed flat; `bindings` are sorted by name.
    pub(crate) fn flat(self, bindings: &[Binding<'_>]) -> Hash {
        let mut out = Vec::new();
        match self {
            Schema::Tezos => {
                preimage::put_u64(&mut out, bindings.len() as u64);
                for (name, is_value, hash) in bindings {
                    preimage::put_flat_entry(&mut out, name, *is_value, hash);
                }
            }
            Schema::Sha1 => {
                preimage::put_varint(&mut out, bindings.len() as u64);
                // Greatest name first: that is how the library's lists happened to be built.
                for binding in bindings.iter().rev() {
                    out.push(u8::from(binding.1));
                    preimage::put_varint(&mut out, binding.0.len() as u64);
                    out.extend_from_slice(binding.0);
                    out.extend_from_slice(&binding.2[..20]);
                }
            }
        }
        self.digest(&out)
    }

    /// The hash of a leaf of a larger directory; `bindings` are sorted by name.
    pub(crate) fn values(self, bindings: &[Binding<'_>]) -> Hash {
        let mut out = Vec::new();
        preimage::put_values_head(&mut out, bindings.len() as u64);
        for (name, is_value, hash) in bindings {
            preimage::put_varint(&mut out, name.len() as u64);
            out.extend_from_slice(name);
            out.push(u8::from(*is_value));
            out.extend_from_slice(&hash[..self.hash_bytes()]);
        }
        self.digest(&out)
    }

    /// The hash of an inode tree; `pointers` are sorted by bucket.
    pub(crate) fn branch(self, depth: u64, entries: u64, pointers: &[(u64, Hash)]) -> Hash {
        let mut out = Vec::new();
        preimage::put_branch_head(&mut out, depth, entries, pointers.len() as u64);
        for (bucket, hash) in pointers {
            preimage::put_varint(&mut out, *bucket);
            out.extend_from_slice(&hash[..self.hash_bytes()]);
        }
        self.digest(&out)
    }

    /// The hash of a commit; `parents` are in the order in which it is hashed.
    pub(crate) fn commit(
        self,
        tree: &TreeHash,
        parents: &[CommitHash],
        date: i64,
        author: &[u8],
        message: &[u8],
    ) -> CommitHash {
        match self {
            Schema::Tezos => {
                let mut sorted = parents.to_vec();
                sorted.sort_unstable();
                hash::commit(tree, &sorted, date, author, message)
            }
            Schema::Sha1 => {
                let mut out = tree[..20].to_vec();
                preimage::put_varint(&mut out, parents.len() as u64);
                for parent in parents {
                    out.extend_from_slice(&parent[..20]);
                }
                preimage::put_u64(&mut out, date as u64);
                for text in [author, message] {
                    preimage::put_varint(&mut out, text.len() as u64);
                    out.extend_from_slice(text);
                }
                self.digest(&out).into()
            }
        }
    }
}
