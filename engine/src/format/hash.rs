//! The keyed 64-bit hash of filters and caches: folded multiplication, two words at a time.
//!
//! The salt is secret to the store, so an outsider cannot choose keys that collide in a filter; if
//! somebody learns it, a collision costs one more page read per run, never a wrong answer.
//! Byte-exact definition: `docs/format/README.md`.

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd1b5_4a32_d192_ed03;
const K2: u64 = 0x8cb9_2ba7_2f3d_8dd7;
const K3: u64 = 0xabc9_8388_fb8f_ac03;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Hash of `bytes` under `salt`.
#[inline]
#[must_use]
pub fn hash(salt: u64, bytes: &[u8]) -> u64 {
    let mut state = fold(salt ^ K0, K1 ^ bytes.len() as u64);
    let mut rest = bytes;
    while rest.len() > 16 {
        state = fold(word(rest) ^ K2, word(&rest[8..]) ^ state) ^ salt;
        rest = &rest[16..];
    }
    // The last 1 to 16 bytes as two words, zero-padded; the length is already in the state.
    let mut tail = [0; 16];
    tail[..rest.len()].copy_from_slice(rest);
    state = fold(word(&tail) ^ K3, word(&tail[8..]) ^ state);
    fold(state ^ K2, salt ^ K0)
}

/// A hash of two numbers, for identities and seeds that derive from each other.
#[must_use]
pub fn combine(a: u64, b: u64) -> u64 {
    fold(fold(a ^ K1, K3) ^ b, fold(b ^ K2, K0) ^ a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_salts_and_bytes_all_matter() {
        let mut seen = std::collections::HashSet::new();
        for length in 0..100 {
            for salt in 0..20 {
                assert!(seen.insert(hash(salt, &vec![0; length])));
            }
        }
        for byte in 0..34 {
            for bit in 0..8 {
                let mut key = [0u8; 34];
                key[byte] = 1 << bit;
                assert!(seen.insert(hash(0, &key)));
            }
        }
    }

    #[test]
    fn bits_are_balanced() {
        let mut counts = [0u32; 64];
        for number in 0..10_000u64 {
            let value = hash(1, &number.to_le_bytes());
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += (value >> bit) as u32 & 1;
            }
        }
        assert!(counts.iter().all(|count| (4_750..5_250).contains(count)), "{counts:?}");
    }
}
