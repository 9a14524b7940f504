//! Ranges of keys, and iterators over them.

use std::ops::Bound;

use js_sys::Array;
use varvite::View;
use wasm_bindgen::prelude::*;

use crate::fault::{Outcome, Throw, invalid};
use crate::input::{Given, optional_bytes, size, tell};
use crate::operator::outside;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** Keys: those from `from` on and before `before`, or those that begin with `prefix`; all of them if nothing is said. */
export interface Range { from?: Bytes; before?: Bytes; prefix?: Bytes; reverse?: boolean; keysOnly?: boolean }
export interface Entries { [Symbol.iterator](): IterableIterator<any> }
"#;

/// What a program says of a range.
pub struct Bounds {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    reverse: bool,
    keys_only: bool,
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

impl Bounds {
    pub fn of(value: &JsValue) -> Outcome<Bounds> {
        let given = Given::of(value, &["from", "before", "prefix", "reverse", "keysOnly"])?;
        let from = optional_bytes(&given.get("from")?, "first key")?;
        let before = optional_bytes(&given.get("before")?, "key at the end")?;
        let (lower, upper) = match optional_bytes(&given.get("prefix")?, "prefix")? {
            Some(_) if from.is_some() || before.is_some() => {
                return Err(invalid("a range has a prefix, or its ends, not both"));
            }
            Some(prefix) => {
                let end = after_prefix(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
                (Bound::Included(prefix), end)
            }
            None => (
                from.map_or(Bound::Unbounded, Bound::Included),
                before.map_or(Bound::Unbounded, Bound::Excluded),
            ),
        };
        let (reverse, keys_only) = (given.flag("reverse")?, given.flag("keysOnly")?);
        Ok(Bounds { lower, upper, reverse, keys_only })
    }

    pub fn lower(&self) -> Bound<&[u8]> {
        borrowed(&self.lower)
    }

    pub fn upper(&self) -> Bound<&[u8]> {
        borrowed(&self.upper)
    }

    /// The iterator over what `view` has of it.
    pub fn entries(self, view: &View) -> Entries {
        let range = view.range((self.lower, self.upper));
        let walk = if self.keys_only { Walk::Keys(range.keys()) } else { Walk::Entries(range) };
        Entries { walk, reverse: self.reverse, failed: None }
    }
}

/// The least key that is greater than all that begin with `prefix`; none is for a prefix of bytes 255.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut after = prefix[..=end].to_vec();
    after[end] += 1;
    Some(after)
}

enum Walk {
    Entries(varvite::Range),
    Keys(varvite::Keys),
}

/// Entries of a range as they were when it was asked for. It is a JavaScript iterator: `for (const [key, value] of …)`.
#[wasm_bindgen]
pub struct Entries {
    walk: Walk,
    reverse: bool,
    /// What kept the last call from giving more, which the next one throws.
    failed: Option<JsValue>,
}

impl Entries {
    fn step(&mut self) -> Option<varvite::Result<JsValue>> {
        let pair = |(key, value): (varvite::Bytes, varvite::Bytes)| {
            Array::of2(&tell(Some(&key)), &tell(Some(&value))).into()
        };
        match (&mut self.walk, self.reverse) {
            (Walk::Entries(range), false) => range.next().map(|it| it.map(pair)),
            (Walk::Entries(range), true) => range.next_back().map(|it| it.map(pair)),
            (Walk::Keys(keys), false) => keys.next().map(|it| it.map(|key| tell(Some(&key)))),
            (Walk::Keys(keys), true) => keys.next_back().map(|it| it.map(|key| tell(Some(&key)))),
        }
    }
}

#[wasm_bindgen]
impl Entries {
    /// The next entry, as iterators of JavaScript give it.
    #[wasm_bindgen(unchecked_return_type = "IteratorResult<any>")]
    pub fn next(&mut self) -> Outcome<JsValue> {
        outside()?;
        self.failed.take().map_or(Ok(()), Err)?;
        let found = self.step().transpose().throw()?;
        let is_done = found.is_none();
        Ok(crate::input::object(&[
            ("done", is_done.into()),
            ("value", found.unwrap_or(JsValue::UNDEFINED)),
        ]))
    }

    /// Up to `count` entries at once: fewer at the end, and before one that cannot be read, of which the next call throws.
    #[wasm_bindgen(js_name = nextMany, unchecked_return_type = "any[]")]
    pub fn next_many(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "number")] count: JsValue,
    ) -> Outcome<JsValue> {
        outside()?;
        let count = size(&count, "the number of entries")?;
        self.failed.take().map_or(Ok(()), Err)?;
        let entries = Array::new();
        for _ in 0..count {
            match self.step().transpose().throw() {
                Ok(Some(entry)) => entries.push(&entry),
                Ok(None) => break,
                Err(thrown) if entries.length() == 0 => return Err(thrown),
                Err(thrown) => {
                    self.failed = Some(thrown);
                    break;
                }
            };
        }
        Ok(entries.into())
    }
}
