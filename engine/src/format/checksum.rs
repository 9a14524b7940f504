//! CRC-32C (Castagnoli), the checksum of every file.

/// CRC-32C of `bytes`.
#[must_use]
pub fn crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C of what gave `seed` followed by `bytes`.
#[must_use]
pub fn crc_append(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

/// The checksum of a page: over (file identity, page number, bytes), so that a page found in the
/// wrong file or place is as wrong as one with a flipped bit.
#[must_use]
pub fn page_crc(identity: u64, page_number: u32, bytes: &[u8]) -> u32 {
    let mut place = [0; 12];
    place[..8].copy_from_slice(&identity.to_le_bytes());
    place[8..].copy_from_slice(&page_number.to_le_bytes());
    crc_append(crc(&place), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_castagnoli_polynomial() {
        assert_eq!(crc(b"123456789"), 0xe306_9283);
        assert_eq!(crc_append(crc(b"1234"), b"56789"), 0xe306_9283);
    }

    #[test]
    fn a_page_in_another_place_has_another_checksum() {
        let page = [9; 64];
        assert_ne!(page_crc(1, 2, &page), page_crc(1, 3, &page));
        assert_ne!(page_crc(1, 2, &page), page_crc(2, 2, &page));
    }
}
