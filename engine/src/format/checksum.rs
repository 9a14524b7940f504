//! CRC-32C (Castagnoli), the checksum of every file, and the form in which it is stored.
//!
//! Bytes that end in their own CRC leave every CRC of the same polynomial that runs over them in a
//! state that depends on their length alone: whoever covers them covers nothing. So a checksum that
//! stands behind what it covers is stored [`masked`]. The argument, and every place where a checksum
//! covers a checksum: `docs/format/README.md`.

/// CRC-32C of `bytes`.
#[must_use]
pub fn crc(bytes: &[u8]) -> u32 {
    crc_append(0, bytes)
}

/// CRC-32C of what gave `seed` followed by `bytes`.
#[cfg(not(target_family = "wasm"))]
#[must_use]
pub fn crc_append(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

/// CRC-32C of what gave `seed` followed by `bytes`.
#[cfg(target_family = "wasm")]
#[must_use]
pub fn crc_append(seed: u32, bytes: &[u8]) -> u32 {
    by_tables(seed, bytes)
}

/// The same without an instruction for it, eight bytes a step. The tables are made when they are first needed, because
/// 8 KiB that no compression makes smaller are more than a module for browsers should have in it.
#[cfg(any(test, target_family = "wasm"))]
fn by_tables(seed: u32, bytes: &[u8]) -> u32 {
    static TABLES: std::sync::OnceLock<Box<[[u32; 256]; 8]>> = std::sync::OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        // What a byte does to a state, so many bytes later.
        let mut tables = Box::new([TABLE; 8]);
        for later in 1..8 {
            for byte in 0..256 {
                let before = tables[later - 1][byte];
                tables[later][byte] = (before >> 8) ^ TABLE[(before & 255) as usize];
            }
        }
        tables
    });
    let mut state = !seed;
    let mut steps = bytes.chunks_exact(8);
    for step in &mut steps {
        let step: [u8; 8] = step.try_into().expect("a step has eight bytes");
        let word = u64::from_le_bytes(step) ^ u64::from(state);
        state =
            (0..8).fold(0, |state, at| state ^ tables[7 - at][(word >> (8 * at)) as usize & 255]);
    }
    for byte in steps.remainder() {
        state = (state >> 8) ^ TABLE[(state as u8 ^ byte) as usize];
    }
    !state
}

/// The stored form of a checksum: its halves `(high, low)` become `(low, high ^ low)`.
///
/// A checksum over all of it sees `crc ^ masked(crc)`, which is `(high ^ low, high)`: it takes each
/// value once, so no two contents with different checksums look the same from outside.
#[inline]
#[must_use]
pub fn masked(crc: u32) -> u32 {
    crc.rotate_left(16) ^ (crc & 0xffff)
}

/// The checksum whose stored form is `stored`.
#[must_use]
pub fn unmasked(stored: u32) -> u32 {
    stored.rotate_left(16) ^ (stored & 0xffff_0000)
}

/// The checksum of what stood before `bytes`, where that of both together is `crc`.
#[must_use]
pub fn crc_before(crc: u32, bytes: &[u8]) -> u32 {
    let mut state = !crc;
    for byte in bytes.iter().rev() {
        // The highest byte of a state says which entry of the table made it.
        let entry = BY_HIGH[(state >> 24) as usize];
        state = ((state ^ TABLE[entry as usize]) << 8) | (u32::from(entry) ^ u32::from(*byte));
    }
    !state
}

/// The four bytes that stand between what has the checksum `before` and what has `after` with them.
#[must_use]
pub fn between(before: u32, after: u32) -> [u8; 4] {
    (!crc_before(after, &[0; 4]) ^ !before).to_le_bytes()
}

/// What each byte does to a state.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut state, mut bit) = (byte as u32, 0);
        while bit < 8 {
            state = (state >> 1) ^ if state & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[byte] = state;
        byte += 1;
    }
    table
};

/// Which entry of that table has each highest byte.
const BY_HIGH: [u8; 256] = {
    let mut by_high = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        by_high[(TABLE[byte] >> 24) as usize] = byte as u8;
        byte += 1;
    }
    by_high
};

/// The checksum to store behind `bytes`.
#[must_use]
pub fn stored(bytes: &[u8]) -> u32 {
    masked(crc(bytes))
}

/// The checksum to store for a page: over (file identity, page number, bytes), so that a page found in
/// the wrong file or place is as wrong as one with a flipped bit.
#[must_use]
pub fn page_crc(identity: u64, page_number: u32, bytes: &[u8]) -> u32 {
    let mut place = [0; 12];
    place[..8].copy_from_slice(&identity.to_le_bytes());
    place[8..].copy_from_slice(&page_number.to_le_bytes());
    masked(crc_append(crc(&place), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_castagnoli_polynomial() {
        assert_eq!(crc(b"123456789"), 0xe306_9283);
        assert_eq!(crc_append(crc(b"1234"), b"56789"), 0xe306_9283);
        assert_eq!(masked(0xe306_9283), 0x9283_7185);
        assert_eq!(stored(b"123456789"), 0x9283_7185);
    }

    #[test]
    fn tables_give_what_the_instruction_gives() {
        let bytes: Vec<u8> =
            (0..5000_u32).map(|it| (it.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        for (from, to) in [(0, 0), (0, 1), (3, 10), (1, 9), (5, 4101), (0, 5000)] {
            for seed in [0, 1, 0x1234_5678, u32::MAX] {
                let bytes = &bytes[from..to];
                assert_eq!(
                    by_tables(seed, bytes),
                    crc_append(seed, bytes),
                    "{from}..{to} after {seed}"
                );
            }
        }
    }

    #[test]
    fn what_was_before_and_between_is_found_again() {
        for (first, second) in [(0, 0), (1, 4), (37, 5), (300, 1000)] {
            let bytes: Vec<u8> = (0..first + second).map(|byte: usize| (byte * 7) as u8).collect();
            let whole = crc(&bytes);
            assert_eq!(crc_before(whole, &bytes[first..]), crc(&bytes[..first]));
            assert_eq!(unmasked(masked(whole)), whole);
            if second >= 4 {
                let after = crc(&bytes[..first + 4]);
                assert_eq!(between(crc(&bytes[..first]), after), bytes[first..first + 4]);
            }
        }
    }

    #[test]
    fn a_page_in_another_place_has_another_checksum() {
        let page = [9; 64];
        assert_ne!(page_crc(1, 2, &page), page_crc(1, 3, &page));
        assert_ne!(page_crc(1, 2, &page), page_crc(2, 2, &page));
    }

    /// The dimension of the span of `vectors`.
    fn rank(mut vectors: Vec<u32>) -> u32 {
        let mut rank = 0;
        while let Some(one) = vectors.pop() {
            if one != 0 {
                rank += 1;
                let lowest = one & one.wrapping_neg();
                vectors.iter_mut().filter(|it| **it & lowest != 0).for_each(|it| *it ^= one);
            }
        }
        rank
    }

    #[test]
    fn a_checksum_over_all_sees_every_bit_of_a_masked_one() {
        // Both maps are linear, so where bits go says where all values go: here, to each value once.
        let bits = || (0..32).map(|bit| 1_u32 << bit);
        assert_eq!(rank(bits().map(masked).collect()), 32);
        assert_eq!(rank(bits().map(|bit| bit ^ masked(bit)).collect()), 32);
        for (a, b) in [(0, u32::MAX), (0x1234_5678, 0x9abc_def0)] {
            assert_eq!(masked(a ^ b), masked(a) ^ masked(b));
        }
    }

    #[test]
    fn outer_checksums_depend_on_the_content_of_what_has_its_own() {
        let outer = |content: &[u8], seed: u32, form: fn(u32) -> u32| {
            let inner = form(crc_append(seed, content));
            crc(&[b"before", content, &inner.to_le_bytes(), b"after"].concat())
        };
        // As it is: neither another seed nor a constant helps, added bit by bit.
        let plain: [fn(u32) -> u32; 2] = [|crc| crc, |crc| crc ^ 0x5a5a_1234];
        for form in plain {
            for seed in [0, 7] {
                assert_eq!(outer(b"content", seed, form), outer(b"another", seed, form));
            }
        }
        let mut seen = std::collections::HashSet::new();
        // Interpreted by Miri, 100,000 take an hour.
        for number in 0..if cfg!(miri) { 300 } else { 100_000_u32 } {
            assert!(seen.insert(outer(&number.to_le_bytes(), 0, masked)), "{number}");
        }
    }
}
