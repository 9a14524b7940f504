//! What JavaScript passes: bytes, paths, hashes, numbers, options.

use js_sys::{Array, ArrayBuffer, Reflect, Uint8Array};
use varvite::context::Hash;
use wasm_bindgen::prelude::*;

use crate::fault::{Outcome, invalid};

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** What is taken for bytes: text in UTF-8, or bytes. */
export type Bytes = string | Uint8Array | ArrayBuffer;
/** The steps of a path; text is split at "/", where nothing between two is no step. */
export type Path = string | Bytes[];
/** A hash of 32 bytes, or its 64 hexadecimal digits. */
export type HashLike = string | Uint8Array;
/** What every call throws that fails: what to do about it is sorted by `kind`. */
export interface VarviteError extends Error {
  name: "VarviteError";
  kind: "io" | "corrupt" | "version" | "locked" | "missing" | "exists" | "invalid" | "closed" | "poisoned" | "hidden" | "collected";
}
/** The shape of directories, on which hashes depend: that of Tezos' context or of its binary one. */
export type Configuration = "tezos" | "tezos-binary";
"#;

/// Bytes, called `what` in an error.
pub fn bytes(value: &JsValue, what: &str) -> Outcome<Vec<u8>> {
    if let Some(text) = value.as_string() {
        return Ok(text.into_bytes());
    }
    if let Some(array) = value.dyn_ref::<Uint8Array>() {
        return Ok(array.to_vec());
    }
    if let Some(buffer) = value.dyn_ref::<ArrayBuffer>() {
        return Ok(Uint8Array::new(buffer).to_vec());
    }
    Err(invalid(format!("the {what} must be text, a Uint8Array or an ArrayBuffer")))
}

/// Bytes, or nothing.
pub fn optional_bytes(value: &JsValue, what: &str) -> Outcome<Option<Vec<u8>>> {
    if value.is_undefined() || value.is_null() {
        return Ok(None);
    }
    bytes(value, what).map(Some)
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = Array, js_name = from, catch)]
    fn copied(array: &Array) -> Result<Array, JsValue>;
}

/// The elements of an array as they are now. What throws where they are read is thrown here, and not where Rust holds
/// something that it would never give back.
pub fn array(value: &JsValue) -> Outcome<Array> {
    copied(value.dyn_ref().ok_or_else(|| invalid("an array is wanted"))?)
}

/// The elements of an array, each as bytes.
pub fn list(value: &JsValue, what: &str) -> Outcome<Vec<Vec<u8>>> {
    let array = value
        .dyn_ref::<Array>()
        .ok_or_else(|| invalid(format!("an array is wanted, each of its elements a {what}")))?;
    copied(array)?.iter().map(|it| bytes(&it, what)).collect()
}

/// Text; nothing when it is left out.
pub fn text(value: &JsValue, what: &str) -> Outcome<String> {
    if value.is_undefined() || value.is_null() {
        return Ok(String::new());
    }
    value.as_string().ok_or_else(|| invalid(format!("the {what} must be text")))
}

/// The steps of a path: text is split at "/", an array has them one by one, also those without bytes, nothing is the root.
pub fn path(value: &JsValue) -> Outcome<Vec<Vec<u8>>> {
    if value.is_undefined() || value.is_null() {
        return Ok(Vec::new());
    }
    if let Some(text) = value.as_string() {
        let steps = text.split('/').filter(|step| !step.is_empty());
        return Ok(steps.map(|step| step.as_bytes().to_vec()).collect());
    }
    list(value, "step of a path")
}

/// A hash of 32 bytes, or its digits.
pub fn hash(value: &JsValue) -> Outcome<Hash> {
    let wrong = || invalid("a hash is a Uint8Array of 32 bytes, or 64 hexadecimal digits");
    let found = match value.as_string() {
        Some(digits) => unhex(&digits).ok_or_else(wrong)?,
        None => bytes(value, "hash")?,
    };
    found.try_into().map_err(|_| wrong())
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Numbers of JavaScript are exact up to here.
pub const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Seconds since 1970, as a number or a bigint; 0 when they are left out.
pub fn seconds(value: &JsValue, what: &str) -> Outcome<i64> {
    if value.is_undefined() || value.is_null() {
        return Ok(0);
    }
    let wrong = || invalid(format!("the {what} is a whole number of seconds since 1970"));
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX => Ok(number as i64),
        Some(_) => Err(wrong()),
        None => i64::try_from(value.clone()).map_err(|_| wrong()),
    }
}

/// A count that there must be, and that memory has room for.
pub fn size(value: &JsValue, what: &str) -> Outcome<usize> {
    let count =
        count(value, what)?.ok_or_else(|| invalid(format!("{what} is left out: say it")))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// A count: a whole number from 0 to 2^53, as a number or a bigint. `None` when it is left out.
pub fn count(value: &JsValue, what: &str) -> Outcome<Option<u64>> {
    if value.is_undefined() || value.is_null() {
        return Ok(None);
    }
    let wrong = || invalid(format!("{what} must be a whole number that is not negative"));
    if let Some(number) = value.as_f64() {
        let is_exact = (0.0..=EXACT_MAX).contains(&number) && number.fract() == 0.0;
        return if is_exact { Ok(Some(number as u64)) } else { Err(wrong()) };
    }
    u64::try_from(value.clone()).map(Some).map_err(|_| wrong())
}

/// The properties of an object that a person passed, each of them known.
pub struct Given<'a> {
    object: Option<&'a JsValue>,
}

impl<'a> Given<'a> {
    /// Looks at `object`, which may be left out. A property that is not in `known` is refused by its name.
    pub fn of(object: &'a JsValue, known: &[&str]) -> Outcome<Given<'a>> {
        if object.is_undefined() || object.is_null() {
            return Ok(Given { object: None });
        }
        let found = object
            .dyn_ref::<js_sys::Object>()
            .ok_or_else(|| invalid("options are an object with a property for each"))?;
        for name in js_sys::Object::keys(found).iter().filter_map(|it| it.as_string()) {
            if !known.contains(&&*name) {
                let known = known.join(", ");
                return Err(invalid(format!("there is no option {name:?}: there are {known}")));
            }
        }
        Ok(Given { object: Some(object) })
    }

    /// A property; undefined when it is left out. What reading it throws is thrown.
    pub fn get(&self, name: &str) -> Outcome<JsValue> {
        self.object.map_or(Ok(JsValue::UNDEFINED), |object| Reflect::get(object, &name.into()))
    }

    /// A count.
    pub fn count(&self, name: &str) -> Outcome<Option<u64>> {
        count(&self.get(name)?, name)
    }

    /// Whether a property is true.
    pub fn flag(&self, name: &str) -> Outcome<bool> {
        Ok(self.get(name)?.is_truthy())
    }

    /// One of some words.
    pub fn choose<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Outcome<Option<T>> {
        choose(&self.get(name)?, name, words)
    }
}

/// One of some words; `None` when it is left out.
pub fn choose<T: Copy>(value: &JsValue, what: &str, words: &[(&str, T)]) -> Outcome<Option<T>> {
    if value.is_undefined() || value.is_null() {
        return Ok(None);
    }
    let word = value.as_string().unwrap_or_default();
    let found = words.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant);
    found.map(Some).ok_or_else(|| {
        let known: Vec<String> = words.iter().map(|(known, _)| format!("{known:?}")).collect();
        invalid(format!("{what} must be one of {}", known.join(", ")))
    })
}

/// Bytes for JavaScript; undefined for nothing.
pub fn tell(found: Option<&[u8]>) -> JsValue {
    found.map_or(JsValue::UNDEFINED, |it| Uint8Array::from(it).into())
}

/// An object with these properties.
pub fn object(properties: &[(&str, JsValue)]) -> JsValue {
    let object = js_sys::Object::new();
    for (name, value) in properties {
        // A fresh object takes a property.
        let _ = Reflect::set(&object, &(*name).into(), value);
    }
    object.into()
}
