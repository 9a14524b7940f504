//! SHA-1, only because sample stores of Irmin name their objects by it.
//!
//! It is no longer collision resistant: nothing that varvite writes uses it.
//! Source: FIPS 180-4.

/// The SHA-1 digest of `bytes`.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut blocks = bytes.chunks_exact(64);
    for block in blocks.by_ref() {
        compress(&mut state, block);
    }
    let rest = blocks.remainder();
    let mut last = [0; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    last[end - 8..end].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in last[..end].chunks_exact(64) {
        compress(&mut state, block);
    }
    let mut out = [0; 20];
    for (place, word) in out.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn compress(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    }
    for index in 16..80 {
        let mixed = words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16];
        words[index] = mixed.rotate_left(1);
    }
    let [mut first, mut second, mut third, mut fourth, mut fifth] = *state;
    for (index, word) in words.iter().enumerate() {
        let (chosen, constant) = match index / 20 {
            0 => ((second & third) | (!second & fourth), 0x5a82_7999),
            1 => (second ^ third ^ fourth, 0x6ed9_eba1),
            2 => ((second & third) | (second & fourth) | (third & fourth), 0x8f1b_bcdc),
            _ => (second ^ third ^ fourth, 0xca62_c1d6),
        };
        let sum = first
            .rotate_left(5)
            .wrapping_add(chosen)
            .wrapping_add(fifth)
            .wrapping_add(constant)
            .wrapping_add(*word);
        (fifth, fourth, third, second, first) = (fourth, third, second.rotate_left(30), first, sum);
    }
    for (word, add) in state.iter_mut().zip([first, second, third, fourth, fifth]) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::digest;
    use crate::context::hash::to_hex;

    #[test]
    fn it_gives_the_published_digests() {
        assert_eq!(to_hex(&digest(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(to_hex(&digest(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            to_hex(&digest(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        );
        let long = vec![b'a'; 1_000_000];
        assert_eq!(to_hex(&digest(&long)), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
