//! Which bucket of an inode a name goes to.
//!
//! The seeded hash is OCaml's `Hashtbl.seeded_hash` for strings: 32-bit `MurmurHash3` whose tail
//! goes through the whole mixing step. It is no cryptographic hash: names can be chosen to collide,
//! so the depth of inodes is bounded (`Configuration::depth_limit`).
//! Source: Appleby, `MurmurHash3`; the public specification of Tezos context hashes.

use super::hash::Hash;

#[inline]
fn mix(state: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (state ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

/// OCaml's hash of `name` under `seed`, 30 bits.
#[must_use]
pub fn seeded(seed: u32, name: &[u8]) -> u32 {
    let mut words = name.chunks_exact(4);
    let mut state = seed;
    for word in words.by_ref() {
        state = mix(state, u32::from_le_bytes(word.try_into().expect("four bytes")));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut word = [0; 4];
        word[..rest.len()].copy_from_slice(rest);
        state = mix(state, u32::from_le_bytes(word));
    }
    state ^= name.len() as u32;
    state = (state ^ (state >> 16)).wrapping_mul(0x85eb_ca6b);
    state = (state ^ (state >> 13)).wrapping_mul(0xc2b2_ae35);
    (state ^ (state >> 16)) & 0x3fff_ffff
}

/// The `width` bits (at most 10) of `digest` that belong to `depth`, from the most significant on; no such number where the
/// digest has no more, as at a depth that damaged data say.
#[must_use]
pub fn bits(digest: &Hash, depth: u32, width: u32) -> u32 {
    let Some(first) = depth.checked_mul(width).filter(|first| width <= 10 && *first <= 256 - width)
    else {
        return u32::MAX;
    };
    // A run of up to 10 bits touches at most three bytes.
    let byte = (first / 8) as usize;
    let at = |index: usize| u32::from(digest.get(index).copied().unwrap_or(0));
    let window = (at(byte) << 16) | (at(byte + 1) << 8) | at(byte + 2);
    (window >> (24 - first % 8 - width)) & ((1 << width) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_ocaml() {
        assert_eq!(seeded(1, b"a") % 32, 23);
        assert_eq!(seeded(2, b"b") % 32, 2);
        assert_eq!(seeded(42, b"foo") % 32, 10);
        assert_eq!(seeded(542_334_128, b"1"), 390_276_175);
        assert_eq!(seeded(134_419_897, b"[~L!&9aSgHzRQU"), 253_759_271);
    }

    #[test]
    fn bits_are_read_from_the_most_significant_on() {
        let mut digest = [0; 32];
        digest[0] = 0b1010_0110;
        digest[1] = 0b1100_0000;
        assert_eq!(
            (0..10).map(|depth| bits(&digest, depth, 1)).collect::<Vec<_>>(),
            [1, 0, 1, 0, 0, 1, 1, 0, 1, 1]
        );
        assert_eq!(bits(&digest, 0, 5), 0b10100);
        assert_eq!(bits(&digest, 1, 5), 0b11011);
        assert_eq!(bits(&digest, 0, 10), 0b10_1001_1011);
        assert_eq!(bits(&digest, 32, 8), u32::MAX);
        assert_eq!(bits(&digest, u32::MAX / 5, 5), u32::MAX);
        assert_eq!(bits(&digest, u32::MAX, 1), u32::MAX);
    }
}
