//! Bytes, hashes and dates as the pages show them.

use std::fmt::Write;

use serde_json::{Map, Value};
use varvite::irmin_pack::Schema;
pub use varvite_sight::text::shown;

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A hash as people see it. Those of SHA-1 are known by the zeros behind them.
pub fn hash(hash: &[u8; 32]) -> String {
    let short = Schema::Sha1.hash_bytes();
    let is_short = hash[short..].iter().all(|byte| *byte == 0) && hash[..short] != [0; 20];
    if is_short { Schema::Sha1 } else { Schema::Tezos }.text(hash)
}

/// At most `most` bytes of `bytes`. Of text, none that ends within a character: the whole would read as no text.
pub fn head(bytes: &[u8], most: usize) -> &[u8] {
    if bytes.len() <= most {
        return bytes;
    }
    let cut = &bytes[..most];
    match std::str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => &cut[..error.valid_up_to()],
        _ => cut,
    }
}

/// Puts the first `most` bytes of a value, and its length.
pub fn put(into: &mut Map<String, Value>, name: &str, bytes: &[u8], most: usize) {
    let cut = head(bytes, most);
    into.insert(format!("{name}_bytes"), bytes.len().into());
    into.insert(format!("{name}_text"), shown(cut).into());
    into.insert(format!("{name}_hex"), hex(cut).into());
}

/// Steps as hexadecimal, joined by slashes, with one in front where the first has no bytes.
pub fn path_hex(path: &[Vec<u8>]) -> String {
    let front = if path.first().is_some_and(Vec::is_empty) { "/" } else { "" };
    front.to_owned() + &path.iter().map(|step| hex(step)).collect::<Vec<_>>().join("/")
}

/// Steps for people and, as hexadecimal, for programs.
pub fn put_path(into: &mut Map<String, Value>, path: &[Vec<u8>]) {
    let text = varvite_sight::text::path(path.iter().map(Vec::as_slice));
    into.insert("path".to_owned(), text.into());
    into.insert("path_hex".to_owned(), path_hex(path).into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_tells_bytes_apart() {
        assert_eq!(shown("grün\\".as_bytes()), "grün\\\\");
        assert_eq!(shown(b"a\n\xff"), "a\\x0a\\xff");
        assert_eq!(shown(head("grün".as_bytes(), 3)), "gr");
        assert_eq!(head("grün".as_bytes(), 4), "grü".as_bytes());
        assert_eq!(head(b"a\xff\xff", 2), b"a\xff");
        assert_eq!(head(b"abc", 9), b"abc");
        assert_eq!(head(b"ab\xc3", 3), b"ab\xc3");
        assert_eq!(shown("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
        let mut map = Map::new();
        put(&mut map, "value", b"abc", 2);
        assert_eq!(
            Value::Object(map).to_string(),
            r#"{"value_bytes":3,"value_text":"ab","value_hex":"6162"}"#
        );
    }

    #[test]
    fn paths_tell_steps_without_bytes_apart() {
        let of = |path: &[&[u8]]| {
            let (path, mut map) =
                (path.iter().map(|it| it.to_vec()).collect::<Vec<_>>(), Map::new());
            put_path(&mut map, &path);
            map["path_hex"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            [of(&[]), of(&[b""]), of(&[b"", b"a"]), of(&[b"a", b""])],
            ["", "/", "//61", "61/"]
        );
    }
}
