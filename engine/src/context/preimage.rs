//! The bytes that are hashed: each function writes one part of a pre-image behind what is in `out`.
//!
//! Source: the public specification of Tezos context hashes.

/// Eight bytes, big-endian: how lengths are written outside inodes.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Unsigned LEB128: how lengths are written inside inodes, and those of names everywhere.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Pre-image of a value: its length (8), its bytes.
pub fn put_value(out: &mut Vec<u8>, value: &[u8]) {
    put_u64(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// One entry of a flat directory: kind (8), length of the name (varint), name, 32 (8), hash.
#[inline]
pub fn put_flat_entry(out: &mut Vec<u8>, name: &[u8], is_value: bool, hash: &[u8; 32]) {
    // In few pieces of a fixed length: a wide directory has hundreds of entries.
    let mut head = [0; 9];
    head[0] = if is_value { 0xff } else { 0 };
    if name.len() < 0x80 {
        head[8] = name.len() as u8;
        out.extend_from_slice(&head);
    } else {
        out.extend_from_slice(&head[..8]);
        put_varint(out, name.len() as u64);
    }
    out.extend_from_slice(name);
    let mut tail = [0; 40];
    tail[7] = 32;
    tail[8..].copy_from_slice(hash);
    out.extend_from_slice(&tail);
}

/// The head of an inode of values: 0, the count of entries (varint).
#[inline]
pub fn put_values_head(out: &mut Vec<u8>, count: u64) {
    out.push(0);
    put_varint(out, count);
}

/// One entry of an inode of values: length of the name (varint), name, kind (1), hash.
#[inline]
pub fn put_values_entry(out: &mut Vec<u8>, name: &[u8], is_value: bool, hash: &[u8; 32]) {
    put_varint(out, name.len() as u64);
    out.extend_from_slice(name);
    out.push(u8::from(is_value));
    out.extend_from_slice(hash);
}

/// The head of an inode tree: 1, depth, entries below, pointers (varints each).
#[inline]
pub fn put_branch_head(out: &mut Vec<u8>, depth: u64, entries: u64, pointers: u64) {
    out.push(1);
    put_varint(out, depth);
    put_varint(out, entries);
    put_varint(out, pointers);
}

/// Room for `count` pointers of an inode tree, if all buckets are below 128: a byte each, and the hash below.
#[inline]
pub(crate) fn branch_pointers(out: &mut Vec<u8>, count: usize) -> &mut [[u8; 33]] {
    let start = out.len();
    out.resize(start + 33 * count, 0);
    out[start..].as_chunks_mut().0
}

/// One pointer of an inode tree: its bucket (varint), the hash below.
#[inline]
pub fn put_branch_pointer(out: &mut Vec<u8>, bucket: u64, hash: &[u8; 32]) {
    put_varint(out, bucket);
    out.extend_from_slice(hash);
}
