//! How many items the lists of a JSON text have, so that each is made at its size: lists that grow have
//! twice the room that they need, and thrice while they are moved.
//!
//! Only lists of lists and of objects are counted, in the order in which they open, in one byte each; and
//! only items that are long enough to be one, so that nothing is made of commas alone.

use crate::order;
use crate::proof::shape::NESTING;

/// A level of a proof takes four of JSON: object, list, pair, object; the whole takes a few more.
const LEVELS: usize = 4 * NESTING + 8;
/// The shortest item of a list of lists is `["",{"node":[]}]`.
const PAIR: usize = 16;
/// The shortest item of a list of objects is `{"node":[]}`.
const OBJECT: usize = 11;

/// Sizes of lists, in the order in which they open.
pub(super) struct Sizes {
    small: Vec<u8>,
    /// Number and size of those that are too long for a byte.
    large: Vec<(usize, usize)>,
    passed: usize,
    passed_large: usize,
}

/// A bracket that is not closed yet.
struct Open {
    /// Of a list that is counted: its number.
    number: Option<usize>,
    /// The fewest bytes of an item.
    least: usize,
    item: usize,
    count: usize,
}

pub(super) fn is_blank(byte: u8) -> bool {
    b" \t\r\n".contains(&byte)
}

/// The next byte at `at` or behind it that is no blank.
fn follows(bytes: &[u8], at: usize) -> Option<u8> {
    bytes[at..].iter().copied().find(|byte| !is_blank(*byte))
}

impl Sizes {
    /// Counts as far as the brackets of `bytes` are in order; whoever reads them finds what is wrong.
    pub(super) fn of(bytes: &[u8]) -> Sizes {
        let mut sizes = Sizes { small: Vec::new(), large: Vec::new(), passed: 0, passed_large: 0 };
        let mut open: Vec<Open> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    let rest = &bytes[at + 1..];
                    let Some(length) = rest.iter().position(|byte| *byte == b'"') else { break };
                    at += 1 + length;
                }
                bracket @ (b'[' | b'{') => {
                    if open.len() > LEVELS {
                        break;
                    }
                    let first = if bracket == b'[' { follows(bytes, at + 1) } else { None };
                    let number = is_counted(first).then_some(sizes.small.len());
                    if number.is_some() {
                        sizes.small.push(0);
                    }
                    let least = if first == Some(b'[') { PAIR } else { OBJECT };
                    open.push(Open { number, least, item: at + 1, count: 0 });
                }
                b',' => {
                    if let Some(open) = open.last_mut() {
                        open.count += usize::from(at - open.item >= open.least);
                        open.item = at + 1;
                    }
                }
                b']' | b'}' => {
                    let Some(open) = open.pop() else { break };
                    sizes.close(&open, at);
                }
                _ => {}
            }
            at += 1;
        }
        // What has no end is read as far as it goes.
        for open in &open {
            sizes.close(open, at.min(bytes.len()));
        }
        // They were pushed in the order in which they end.
        order::sort_by(&mut sizes.large, Ord::cmp);
        sizes
    }

    fn close(&mut self, open: &Open, at: usize) {
        let Some(number) = open.number else { return };
        let count = open.count + usize::from(at.saturating_sub(open.item) >= open.least);
        self.small[number] = u8::try_from(count).unwrap_or(u8::MAX);
        if count >= usize::from(u8::MAX) {
            self.large.push((number, count));
        }
    }

    /// The size of the list that opens next, of which `first` is the first byte.
    pub(super) fn next(&mut self, first: Option<u8>) -> usize {
        if !is_counted(first) {
            return 0;
        }
        let number = self.passed;
        self.passed += 1;
        match self.small.get(number) {
            Some(&u8::MAX) => {
                let large = self.large.get(self.passed_large);
                self.passed_large += 1;
                large.map_or(0, |(_, count)| *count)
            }
            size => size.map_or(0, |size| usize::from(*size)),
        }
    }
}

fn is_counted(first: Option<u8>) -> bool {
    matches!(first, Some(b'[' | b'{'))
}
