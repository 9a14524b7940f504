//! Bytes as hexadecimal text.

use std::fmt::Write;

/// Two lower-case digits a byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to memory cannot fail");
        text
    })
}

/// The bytes of `text`, or `None` when it is not an even number of hexadecimal digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |character: u8| (character as char).to_digit(16).map(|digit| digit as u8);
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_round_trip() {
        assert_eq!(encode(&[0, 0xab, 0xff]), "00abff");
        assert_eq!(decode("00aBff").unwrap(), [0, 0xab, 0xff]);
        assert_eq!(decode("0"), None);
        assert_eq!(decode("zz"), None);
    }
}
