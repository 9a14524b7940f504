//! Names of keyspaces and column families as names of tables.
//!
//! A table is called by 1 to 64 of `a-z`, `0-9`, `-` and `_`; a keyspace by anything. Other bytes, and `_`
//! itself, become `_` and two hexadecimal digits.

use varvite::{Error, Result};

/// The longest name of a table.
const NAME_BYTES_MAX: usize = 64;

/// The table of the keyspace `name`. `Invalid` when that is too long.
pub fn table_name(name: &str) -> Result<String> {
    let mut table = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => table.push(char::from(byte)),
            _ => {
                let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
                table.extend(['_', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    if (1..=NAME_BYTES_MAX).contains(&table.len()) {
        return Ok(table);
    }
    Err(Error::invalid(format!(
        "\"{}\" cannot be a name in varvite: it takes {} of {NAME_BYTES_MAX} bytes, where each that is not of \
         a-z, 0-9 and - counts three; choose a shorter one",
        name.escape_debug(),
        table.len()
    )))
}

/// The keyspace of the table `table`; none when no keyspace is called so.
#[must_use]
pub fn name_of(table: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = table.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'_' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    let name = String::from_utf8(bytes).ok()?;
    (table_name(&name).ok()? == table).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_name_is_found_again() {
        for name in ["default", "state-utxos", "UTxO_set", "a b/c", "Übertrag", "_", "\0"] {
            let table = table_name(name).expect("short enough");
            assert_eq!(name_of(&table).as_deref(), Some(name), "{table}");
        }
        assert_ne!(table_name("a_b").expect("short"), table_name("a-b").expect("short"));
    }

    #[test]
    fn what_no_name_becomes_has_none() {
        for table in ["_", "_6", "_zz", "_61", "_ff", "_+1", "a_"] {
            assert_eq!(name_of(table), None, "{table}");
        }
    }

    #[test]
    fn a_long_name_is_refused_with_its_length() {
        assert!(table_name(&"a".repeat(64)).is_ok());
        let error = table_name(&"A".repeat(22)).expect_err("66 bytes");
        assert!(error.to_string().contains("66 of 64"), "{error}");
        assert!(table_name("").is_err());
    }
}
