//! Bytes as people read them, so that no two look the same.

use std::fmt::Write as _;

use rapidhash::v3::rapidhash_v3;

/// Whether a letter is not seen, as one that turns the direction of what stands after it, ends a line, or changes the look of
/// the one before: with it one name would look as another.
fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Bytes as text: what is not printable as `\xNN`, a backslash as two.
///
/// ```
/// use varvite_sight::text::shown;
///
/// assert_eq!(shown("grün\\".as_bytes()), "grün\\\\");
/// assert_eq!(shown(b"a\n\xff"), "a\\x0a\\xff");
/// assert_eq!(shown("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
/// assert_eq!(shown("a\u{ad}".as_bytes()), "a\\xc2\\xad");
/// ```
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    let escape = |text: &mut String, byte: u8| {
        let _ = write!(text, "\\x{byte:02x}");
    };
    let mut out = String::with_capacity(bytes.len());
    if let Ok(text) = std::str::from_utf8(bytes) {
        for letter in text.chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                letter if letter.is_control() || is_unseen(letter) => {
                    letter.to_string().bytes().for_each(|byte| escape(&mut out, byte));
                }
                letter => out.push(letter),
            }
        }
        return out;
    }
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(*byte as char),
            _ => escape(&mut out, *byte),
        }
    }
    out
}

/// A step of a path: a slash in it is no slash between steps.
#[must_use]
pub fn step(bytes: &[u8]) -> String {
    shown(bytes).replace('/', "\\x2f")
}

/// Steps joined by slashes, with one in front where the first has no bytes.
///
/// ```
/// use varvite_sight::text::path;
///
/// assert_eq!(path([&b"a"[..], b"b"]), "a/b");
/// assert_eq!(path([&b"a/b"[..]]), "a\\x2fb");
/// assert_eq!((path([]), path([&b""[..]])), (String::new(), "/".to_owned()));
/// ```
#[must_use]
pub fn path<'a>(steps: impl IntoIterator<Item = &'a [u8]>) -> String {
    joined(steps.into_iter().map(step))
}

/// Steps that are text by now, joined.
pub(crate) fn joined(steps: impl IntoIterator<Item = String>) -> String {
    let steps: Vec<_> = steps.into_iter().collect();
    let front = if steps.first().is_some_and(String::is_empty) { "/" } else { "" };
    front.to_owned() + &steps.join("/")
}

/// The begin of a name, so much of it as people need, as text: of one that is cut no half of a letter, and an ellipsis with
/// how many bytes it has in all and a hash of them, which tells it from others of its length. An ellipsis in the name itself
/// is shown as its bytes.
pub(crate) fn clipped(name: &[u8], most: usize) -> String {
    let shown = |bytes: &[u8]| shown(bytes).replace('…', "\\xe2\\x80\\xa6");
    let start = &name[..name.len().min(most)];
    if start.len() == name.len() {
        return shown(name);
    }
    let start = match std::str::from_utf8(start) {
        Err(error) if error.error_len().is_none() => &start[..error.valid_up_to()],
        _ => start,
    };
    let hash = rapidhash_v3(name) as u32;
    format!("{}…({} bytes, {hash:08x})", shown(start), name.len())
}
