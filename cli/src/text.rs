//! Keys and values as a person types and reads them: text with escapes, or hexadecimal.
//!
//! In text, every byte that is not a printable character is written `\xNN` and a backslash `\\`, so that
//! what is printed can be typed again and gives the same bytes. Beyond ASCII, characters are printed
//! only when the whole is UTF-8.

pub mod date;
pub mod joined;
pub mod view;

use std::ffi::OsStr;

use clap::Args;
use serde_json::Value;
use varvite::{Error, Result};

use crate::hex;
use crate::print;

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// UTF-8 with escapes.
    Text,
    /// Two digits a byte.
    Hex,
}

impl Notation {
    /// Hexadecimal when `hex`.
    pub fn new(hex: bool) -> Notation {
        if hex { Notation::Hex } else { Notation::Text }
    }

    /// The bytes that `argument` means; `what` is for the error.
    pub fn parse(self, what: &str, argument: &str) -> Result<Vec<u8>> {
        match self {
            Notation::Hex => hex::decode(argument).ok_or_else(|| {
                Error::invalid(format!(
                    "the {what} \"{argument}\" is not hexadecimal: give an even number of digits, \
                     or leave --hex out"
                ))
            }),
            Notation::Text => unescape(argument).ok_or_else(|| {
                Error::invalid(format!(
                    "the {what} \"{argument}\" has a backslash that begins no escape: write \\xNN \
                     for a byte and \\\\ for a backslash"
                ))
            }),
        }
    }

    /// The steps of a path, which `argument` joins by "/".
    pub fn path(self, argument: &str) -> Result<Vec<Vec<u8>>> {
        let steps = argument.split('/').filter(|step| !step.is_empty());
        steps.map(|step| self.parse("step", step)).collect()
    }

    /// `bytes` as they are printed. Parts that only the store's program can join stand with `\\+` between them,
    /// which is no escape, so that nobody takes it for a value.
    pub fn show(self, bytes: &[u8]) -> String {
        if let Some(parts) = joined::parts(bytes) {
            let mut shown: Vec<_> = parts.iter().map(|part| self.show(part)).collect();
            let omitted = joined::omitted(bytes);
            shown.extend((omitted > 0).then(|| format!("… {} more", print::count(omitted))));
            return shown.join(" \\+ ");
        }
        match self {
            Notation::Hex => hex::encode(bytes),
            Notation::Text => escape(bytes),
        }
    }

    /// The step of a path as it is printed: a "/" in it is no end of it.
    pub fn show_step(self, step: &[u8]) -> String {
        match self {
            Notation::Hex => self.show(step),
            Notation::Text => self.show(step).replace('/', "\\x2f"),
        }
    }

    /// `bytes` as they can be typed, with every one of them as an escape.
    pub fn show_all(self, bytes: &[u8]) -> String {
        match self {
            Notation::Hex => hex::encode(bytes),
            Notation::Text => bytes.iter().fold(String::new(), |mut text, byte| {
                push(&mut text, *byte);
                text
            }),
        }
    }

    /// `bytes` as they are printed; of a value of more than `most`, its beginning and how to get all.
    pub fn show_up_to(self, bytes: &[u8], most: usize) -> String {
        if bytes.len() <= most {
            return self.show(bytes);
        }
        // Cut within a character, text would be taken for bytes.
        let most = match std::str::from_utf8(bytes) {
            Ok(text) => (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0),
            Err(_) => most,
        };
        let length = print::count(bytes.len() as u64);
        format!("{}… ({length} bytes, all with --full)", self.show(&bytes[..most]))
    }
}

/// How the steps of paths and the values of a context are written.
#[derive(Clone, Copy, Debug, Args)]
pub struct Notations {
    /// Steps and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Steps are hexadecimal
    #[arg(long)]
    hex_path: bool,
    /// Values are hexadecimal
    #[arg(long)]
    hex_value: bool,
}

impl Notations {
    /// Of the steps of paths.
    pub fn path(self) -> Notation {
        Notation::new(self.hex || self.hex_path)
    }

    /// Of values.
    pub fn value(self) -> Notation {
        Notation::new(self.hex || self.hex_value)
    }
}

/// Puts bytes into a JSON object: under `name` as they were always printed there, and in both notations.
pub fn put(object: &mut Value, name: &str, notation: Notation, bytes: &[u8]) {
    object[name] = notation.show(bytes).into();
    put_both(object, name, bytes);
}

/// Puts the bytes into a JSON object in both notations.
pub fn put_both(object: &mut Value, name: &str, bytes: &[u8]) {
    object[format!("{name}_text")] = Notation::Text.show(bytes).into();
    object[format!("{name}_hex")] = Notation::Hex.show(bytes).into();
}

/// Puts the name of a file or folder into a JSON object, as it is shown, and beside it its bytes: those that are no
/// text could not be told from others.
pub fn put_name(object: &mut Value, name: &str, file: &OsStr) {
    object[name] = file.to_string_lossy().into();
    object[format!("{name}_hex")] = hex::encode(file.as_encoded_bytes()).into();
}

/// Puts a path into a JSON object: its steps in hexadecimal, and as it is typed.
pub fn put_path(object: &mut Value, path: &[Vec<u8>]) {
    let join = |notation: Notation| {
        path.iter().map(|step| notation.show_step(step)).collect::<Vec<_>>().join("/")
    };
    object["path"] = path.iter().map(|step| hex::encode(step)).collect::<Vec<_>>().into();
    object["path_text"] = join(Notation::Text).into();
    object["path_hex"] = join(Notation::Hex).into();
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    // Letters that turn up by chance in bytes that are no text would only confuse.
    let Ok(whole) = std::str::from_utf8(bytes) else {
        for byte in bytes {
            match byte {
                b'\\' => text.push_str("\\\\"),
                b' '..=b'~' => text.push(char::from(*byte)),
                _ => push(&mut text, *byte),
            }
        }
        return text;
    };
    for character in whole.chars() {
        if character == '\\' {
            text.push_str("\\\\");
        } else if character.is_control() {
            let mut buffer = [0; 4];
            character.encode_utf8(&mut buffer).bytes().for_each(|byte| push(&mut text, byte));
        } else {
            text.push(character);
        }
    }
    text
}

fn push(text: &mut String, byte: u8) {
    text.push_str("\\x");
    text.push_str(&hex::encode(&[byte]));
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..position]);
        rest = &rest[position + 1..];
        if let Some(after) = rest.strip_prefix('\\') {
            bytes.push(b'\\');
            rest = after;
        } else {
            let digits = rest.strip_prefix('x')?.get(..2)?;
            bytes.extend(hex::decode(digits)?);
            rest = &rest[3..];
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_typed_again() {
        let every: Vec<u8> = (0..=255).chain(*b"\\x41 \xc3\xa9 plain").collect();
        for notation in [Notation::Text, Notation::Hex] {
            assert_eq!(notation.parse("key", &notation.show(&every)).unwrap(), every);
        }
        assert_eq!(Notation::Text.show("é\n\\".as_bytes()), "é\\x0a\\\\");
        assert_eq!(Notation::Text.show(b"\xc3\xa9 \xff"), "\\xc3\\xa9 \\xff");
        let path = [b"a/b".to_vec(), b"c".to_vec()];
        let shown: Vec<_> = path.iter().map(|step| Notation::Text.show_step(step)).collect();
        assert_eq!(Notation::Text.path(&shown.join("/")).unwrap(), path);
    }

    #[test]
    fn a_long_value_is_shortened_between_characters_and_says_so() {
        let shown = Notation::Text.show_up_to(&[b'a'; 2000], 4);
        assert_eq!(shown, "aaaa… (2,000 bytes, all with --full)");
        assert_eq!(Notation::Text.show_up_to(b"abcd", 4), "abcd");
        assert!(Notation::Text.show_up_to("éé".as_bytes(), 3).starts_with("é… (4 "));
        assert!(Notation::Text.show_up_to("é".as_bytes(), 1).starts_with("… (2 "));
        assert!(Notation::Text.show_up_to(b"\xc3\xa9\xff", 1).starts_with("\\xc3… (3 "));
        assert!(Notation::Hex.show_up_to(&[1, 2, 3], 2).starts_with("0102… (3 "));
        assert_eq!(Notation::Hex.show_up_to(&[7; 9], usize::MAX), "07".repeat(9));
    }

    #[test]
    fn half_an_escape_is_refused() {
        for text in ["\\", "\\x", "\\x4", "\\n", "\\xé", "\\xzz"] {
            assert!(Notation::Text.parse("key", text).is_err(), "{text}");
        }
        assert!(Notation::Hex.parse("key", "abc").is_err());
    }
}
