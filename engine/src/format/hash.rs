//! The keyed 64-bit hash of filters and write buffers, and how identities derive from each other.
//!
//! The hash is rapidhash V3 in its shortest form ("nano"), protected, with seed and secrets that all
//! follow from the salt: whatever a key's bytes are multiplied with is unknown to whoever does not
//! know the salt, and a factor that happens to be zero leaves the other one in the state. So nobody
//! chooses keys that collide in a filter; if somebody learns the salt, a collision costs one more page
//! read per run, never a wrong answer.
//! Byte-exact definition with test vectors: `docs/format/README.md`.
//! Source: N. de Carli, rapidhash, 2024, after Wang Yi's wyhash; the `rapidhash` crate promises that the
//! functions of its module `v3` give the same numbers in all versions and on all platforms.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

/// 2⁶⁴ over the golden ratio: multiples of it are far from each other.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A salt, ready to hash with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt {
    number: u64,
    secrets: RapidSecrets,
}

impl Salt {
    /// The salt `number`, from which all secrets follow.
    #[inline]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        let mut secrets = [0; 7];
        let mut index = 0;
        while index < 7 {
            secrets[index] = nth(number, index as u64 + 2);
            index += 1;
        }
        Salt { number, secrets: RapidSecrets { seed: nth(number, 1), secrets } }
    }

    /// The number, as files have it.
    #[inline]
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Hash of `bytes`.
    #[inline]
    #[must_use]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash_v3_nano_inline::<true, true>(bytes, &self.secrets)
    }
}

/// Hash of `bytes` under `salt`, for who hashes few keys; otherwise keep a [`Salt`].
#[inline]
#[must_use]
pub fn hash(salt: u64, bytes: &[u8]) -> u64 {
    Salt::new(salt).hash(bytes)
}

/// The number `n` of the sequence of `seed`: `SplitMix64` (Steele, Lea, Flood, 2014).
#[inline]
const fn nth(seed: u64, n: u64) -> u64 {
    mixed(seed.wrapping_add(STEP.wrapping_mul(n)))
}

/// Another number for each number, without a pattern.
#[inline]
#[must_use]
pub const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A number for two numbers: identities, and seeds, that derive from each other.
///
/// With one of them fixed, another one for each value of the other: no two files of a store that are
/// numbered differently share an identity, and none has the same one in two stores. It is no secret:
/// whoever knows one of them and the result knows the other.
#[inline]
#[must_use]
pub const fn combine(a: u64, b: u64) -> u64 {
    mixed(mixed(a.wrapping_add(STEP)) ^ b)
}

/// The number that was [combined](combine) with `a` to `combined`.
#[must_use]
pub const fn second_of(a: u64, combined: u64) -> u64 {
    unmixed(combined) ^ mixed(a.wrapping_add(STEP))
}

/// The number that was [mixed].
const fn unmixed(number: u64) -> u64 {
    let number = number ^ (number >> 31) ^ (number >> 62);
    let number = number.wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
    let number = number ^ (number >> 27) ^ (number >> 54);
    let number = number.wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
    number ^ (number >> 30) ^ (number >> 60)
}

/// The number by which an odd one gives 1: each step doubles the bits that are right, from three on.
const fn inverse(odd: u64) -> u64 {
    let (mut found, mut round) = (odd, 0);
    while round < 5 {
        found = found.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(found)));
        round += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn lengths_salts_and_bytes_all_matter() {
        let mut seen = HashSet::new();
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
    fn what_was_combined_is_found_again() {
        for a in [0, 1, 42, u64::MAX] {
            for b in (0..64).map(|bit| (1 << bit) + a % 3) {
                assert_eq!(second_of(a, combine(a, b)), b);
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

    /// The vectors of `docs/format/README.md`: bytes that count from 0, under the salt 42.
    #[test]
    fn test_vectors() {
        let key: Vec<u8> = (0..=255).collect();
        for (length, expected) in VECTORS {
            assert_eq!(
                hash(42, &key[..length]),
                expected,
                "{length}: {:016x}",
                hash(42, &key[..length])
            );
        }
        assert_eq!(combine(42, 1), COMBINED, "{:016x}", combine(42, 1));
        assert_eq!(nth(42, 1), FIRST, "{:016x}", nth(42, 1));
    }

    const VECTORS: [(usize, u64); 9] = [
        (0, 0x9e77_996f_b7f9_1ce5),
        (1, 0x8d95_330f_5072_d9a6),
        (3, 0xbfa9_a9a9_07eb_ad13),
        (4, 0x9afa_c92b_3158_a302),
        (8, 0x8920_d9d3_98c5_321b),
        (16, 0x78bf_0d13_accc_cc18),
        (17, 0xd887_74e5_edf8_7252),
        (48, 0x049f_48b2_374f_d70c),
        (100, 0xca16_c683_0efa_8fa6),
    ];
    const COMBINED: u64 = 0xc69f_3558_819a_f2c8;
    const FIRST: u64 = 0xbdd7_3226_2feb_6e95;

    /// The same, written after the document alone.
    #[test]
    fn the_hash_is_the_documented_one() {
        fn mix(a: u64, b: u64) -> (u64, u64) {
            let product = u128::from(a) * u128::from(b);
            (a ^ product as u64, b ^ (product >> 64) as u64)
        }
        fn folded(a: u64, b: u64) -> u64 {
            let (low, high) = mix(a, b);
            low ^ high
        }
        fn documented(salt: u64, bytes: &[u8]) -> u64 {
            let s: Vec<u64> = (1..=8).map(|n| nth(salt, n)).collect();
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let half =
                |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
            let (length, mut state) = (bytes.len(), s[0]);
            let (a, b, rest);
            if length <= 16 {
                rest = length;
                (a, b) = match length {
                    0 => (0, 0),
                    1..=3 => {
                        let byte = |at: usize| u64::from(bytes[at]);
                        (byte(0) << 45 | byte(length - 1), byte(length / 2))
                    }
                    4..=7 => (half(0), half(length - 4)),
                    _ => (word(0), word(length - 8)),
                };
                if length >= 4 {
                    state ^= length as u64;
                }
            } else {
                let mut at = 0;
                if length > 48 {
                    let mut states = [state; 3];
                    while length - at > 48 {
                        for (lane, state) in states.iter_mut().enumerate() {
                            let at = at + 16 * lane;
                            *state = folded(word(at) ^ s[1 + lane], word(at + 8) ^ *state);
                        }
                        at += 48;
                    }
                    state = states[0] ^ states[1] ^ states[2];
                }
                rest = length - at;
                if rest > 16 {
                    state = folded(word(at) ^ s[3], word(at + 8) ^ state);
                }
                if rest > 32 {
                    state = folded(word(at + 16) ^ s[3], word(at + 24) ^ state);
                }
                (a, b) = (word(length - 16) ^ rest as u64, word(length - 8));
            }
            let (a, b) = mix(a ^ s[2], b ^ state);
            folded(a ^ 0xaaaa_aaaa_aaaa_aaaa, b ^ s[2] ^ rest as u64)
        }
        let bytes: Vec<u8> = (0..400_u32).map(|number| mixed(number.into()) as u8).collect();
        for length in 0..bytes.len() {
            for salt in [0, 1, 42, u64::MAX] {
                let bytes = &bytes[..length];
                assert_eq!(hash(salt, bytes), documented(salt, bytes), "{length}");
            }
        }
    }

    /// Words that a function with constants might multiply with zero: its constants, and their like.
    fn words() -> Vec<u64> {
        let constants = [
            // Of this function.
            STEP,
            0xbf58_476d_1ce4_e5b9,
            0x94d0_49bb_1331_11eb,
            0xaaaa_aaaa_aaaa_aaaa,
            // Of rapidhash with its own secrets.
            0x2d35_8dcc_aa6c_78a5,
            0x8bb8_4b93_962e_acc9,
            0x4b33_a62e_d433_d4a3,
            0x4d5a_2da5_1de1_aa47,
            0xa076_1d64_78bd_642f,
            0xe703_7ed1_a0b4_28db,
            0x90ed_1765_281c_388c,
            // Of the function before it, of which a first word equal to the third erased the state.
            0xd1b5_4a32_d192_ed03,
            0x8cb9_2ba7_2f3d_8dd7,
            0xabc9_8388_fb8f_ac03,
        ];
        let mut words = vec![0, 1, u64::MAX, 1 << 63, 1 << 32, u64::from(u32::MAX)];
        for constant in constants {
            words.extend([constant, !constant, constant.swap_bytes()]);
        }
        words.sort_unstable();
        words.dedup();
        words
    }

    #[test]
    fn no_word_erases_what_is_beside_it() {
        // Two keys that differ in one word only, beside each of the words in each place.
        for salt in [0, 1, 42, u64::MAX, 0x8cb9_2ba7_2f3d_8dd7] {
            let salt = Salt::new(salt);
            for length in [16, 17, 24, 26, 32, 34, 40, 48, 49, 64, 96, 97, 130] {
                for word in words() {
                    for place in 0..length / 8 {
                        let mut key = vec![7; length];
                        key[8 * place..8 * place + 8].copy_from_slice(&word.to_le_bytes());
                        let before = salt.hash(&key);
                        for other in (0..length).filter(|at| at / 8 != place) {
                            key[other] ^= 0x40;
                            assert_ne!(
                                salt.hash(&key),
                                before,
                                "{word:x} {place} {other} {length}"
                            );
                            key[other] ^= 0x40;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn structured_keys_do_not_collide() {
        let salt = Salt::new(9);
        let mut seen = HashSet::new();
        let mut add = |key: &[u8]| assert!(seen.insert(salt.hash(key)), "{key:?}");
        // All pairs of the words, alone and in front of others.
        for first in words() {
            for second in words() {
                let pair = [first.to_le_bytes(), second.to_le_bytes()].concat();
                for more in [&b""[..], b"x", b"0123456789abcdef", &[0; 33], &[0; 90]] {
                    add(&[&pair, more].concat());
                }
            }
        }
        // One or two bits, at every length of keys that are usual.
        for length in [3, 5, 8, 12, 20, 32, 36, 57, 100] {
            let mut key = vec![0; length];
            for a in 0..length * 8 {
                key[a / 8] ^= 1 << (a % 8);
                add(&key);
                for b in (0..a).step_by(7) {
                    key[b / 8] ^= 1 << (b % 8);
                    add(&key);
                    key[b / 8] ^= 1 << (b % 8);
                }
                key[a / 8] ^= 1 << (a % 8);
            }
        }
    }

    #[test]
    fn identities_of_a_store_and_of_an_id_differ_for_certain() {
        // `mixed` can be undone, so `combine` has one value for each of either number.
        const fn unmixed(number: u64) -> u64 {
            let number =
                (number ^ (number >> 31) ^ (number >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
            let number =
                (number ^ (number >> 27) ^ (number >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
            number ^ (number >> 30) ^ (number >> 60)
        }
        for a in words() {
            assert_eq!(unmixed(mixed(a)), a);
            for b in words() {
                let both = combine(a, b);
                assert_eq!(unmixed(both) ^ mixed(a.wrapping_add(STEP)), b);
                assert_eq!(unmixed(unmixed(both) ^ b).wrapping_sub(STEP), a);
            }
        }
        // And what is numbered in order does not collide between stores.
        let mut seen = HashSet::new();
        for store in 0..300 {
            for id in 0..300 {
                assert!(seen.insert(combine(store, id)), "{store} {id}");
                assert!(seen.insert(combine(combine(7, store), id << 32)), "{store} {id}");
            }
        }
    }
}
