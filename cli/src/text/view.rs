//! Values as what they mean to their program: numbers, text, CBOR.

use clap::ValueEnum;
use serde_json::Value;

use super::Notation;
use crate::print;

/// What the bytes of a value are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// A number of 8 bytes, the least first
    U64le,
    /// A number of 8 bytes, the greatest first
    U64be,
    /// Text
    Utf8,
    /// CBOR, in diagnostic notation
    Cbor,
}

impl View {
    /// What `bytes` mean; null when they are none of it.
    pub fn value(self, bytes: &[u8]) -> Value {
        let number = <[u8; 8]>::try_from(bytes);
        match self {
            View::U64le => number.map_or(Value::Null, |number| u64::from_le_bytes(number).into()),
            View::U64be => number.map_or(Value::Null, |number| u64::from_be_bytes(number).into()),
            View::Utf8 => str::from_utf8(bytes).map_or(Value::Null, Value::from),
            View::Cbor => {
                let mut decoder = minicbor::Decoder::new(bytes);
                let is_whole = decoder.skip().is_ok() && decoder.position() == bytes.len();
                if is_whole { minicbor::display(bytes).to_string().into() } else { Value::Null }
            }
        }
    }

    /// The same for people; bytes that are none of it are shown as bytes, and said to be.
    pub fn show(self, notation: Notation, bytes: &[u8]) -> String {
        match self.value(bytes) {
            // What is left of text would move the cursor, or end the line.
            Value::String(text) => print::without_control(&text),
            Value::Null => {
                let name =
                    self.to_possible_value().map_or(String::new(), |it| it.get_name().to_owned());
                format!("{} (not {name})", notation.show(bytes))
            }
            number => number.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_mean_what_they_are_taken_for() {
        let shown = |view: View, bytes: &[u8]| view.show(Notation::Text, bytes);
        assert_eq!(shown(View::U64le, &[5, 0, 0, 0, 0, 0, 0, 0]), "5");
        assert_eq!(shown(View::U64be, &[0, 0, 0, 0, 0, 0, 1, 0]), "256");
        assert_eq!(shown(View::U64be, b"short"), "short (not u64be)");
        assert_eq!(shown(View::Utf8, "a\té\\".as_bytes()), "a\\x09é\\");
        assert_eq!(shown(View::Utf8, b"\xff"), "\\xff (not utf8)");
        assert_eq!(shown(View::Cbor, &[0x82, 1, 0x61, b'a']), "[1, \"a\"]");
        assert_eq!(shown(View::Cbor, &[0x82, 1]), "\\x82\\x01 (not cbor)");
        assert_eq!(shown(View::Cbor, &[1, 1]), "\\x01\\x01 (not cbor)");
        assert_eq!(View::U64le.value(&u64::MAX.to_le_bytes()), u64::MAX);
    }
}
