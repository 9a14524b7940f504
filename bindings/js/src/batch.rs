//! Batches of changes to a table.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use varvite::Batch as Changes;
use wasm_bindgen::convert::TryFromJsValue;
use wasm_bindgen::prelude::*;

use crate::fault::{Outcome, invalid};
use crate::input::{bytes, size};
use crate::range::Bounds;
use crate::table::shared;

/// Changes to a table that are applied together, all or nothing.
#[wasm_bindgen]
#[derive(Clone, Default)]
pub struct Batch(pub(crate) Rc<RefCell<Changes>>);

impl Batch {
    /// A handle of the same batch out of an object of JavaScript, which stays as it is.
    pub fn handle(object: &JsValue) -> Outcome<Batch> {
        shared(object, |it| Batch::try_from_js_value(it).ok())
            .ok_or_else(|| invalid("a Batch is wanted, one that was not freed"))
    }

    /// Its changes, unless it is being applied, as while a merge operator of the program's runs.
    fn changes(&self) -> Outcome<RefMut<'_, Changes>> {
        self.0.try_borrow_mut().map_err(|_| invalid("the batch is in use by a call"))
    }
}

#[wasm_bindgen]
impl Batch {
    /// A batch without changes.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Gives a key a value.
    pub fn insert(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] value: JsValue,
    ) -> Outcome {
        self.changes()?.insert(&bytes(&key, "key")?, &bytes(&value, "value")?);
        Ok(())
    }

    /// Joins a value to what a key has, by the table's operator.
    pub fn upsert(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] value: JsValue,
    ) -> Outcome {
        self.changes()?.upsert(&bytes(&key, "key")?, &bytes(&value, "value")?);
        Ok(())
    }

    /// Deletes a key, which need not be there.
    pub fn delete(&self, #[wasm_bindgen(unchecked_param_type = "Bytes")] key: JsValue) -> Outcome {
        self.changes()?.delete(&bytes(&key, "key")?);
        Ok(())
    }

    /// Deletes the keys of a range.
    #[wasm_bindgen(js_name = deleteRange)]
    pub fn delete_range(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Range")] range: JsValue,
    ) -> Outcome {
        let bounds = Bounds::of(&range)?;
        self.changes()?.delete_range(bounds.lower(), bounds.upper());
        Ok(())
    }

    /// Deletes the keys that begin with `prefix`.
    #[wasm_bindgen(js_name = deletePrefix)]
    pub fn delete_prefix(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] prefix: JsValue,
    ) -> Outcome {
        self.changes()?.delete_prefix(&bytes(&prefix, "prefix")?);
        Ok(())
    }

    /// Inserts rows of fixed widths that stand behind each other: `keys` has as many of `keyWidth` bytes as `values` has
    /// of `valueWidth`.
    #[wasm_bindgen(js_name = insertRows)]
    pub fn insert_rows(
        &self,
        keys: &[u8],
        #[wasm_bindgen(unchecked_param_type = "number")] key_width: JsValue,
        values: &[u8],
        #[wasm_bindgen(unchecked_param_type = "number")] value_width: JsValue,
    ) -> Outcome {
        let (keys, values) = (rows(keys, &key_width)?, rows(values, &value_width)?);
        if keys.len() != values.len() {
            let (keys, values) = (keys.len(), values.len());
            return Err(invalid(format!("there are {keys} keys and {values} values")));
        }
        let mut changes = self.changes()?;
        for (key, value) in keys.zip(values) {
            changes.insert(key, value);
        }
        Ok(())
    }

    /// Deletes the keys of `keyWidth` bytes that stand behind each other.
    #[wasm_bindgen(js_name = deleteRows)]
    pub fn delete_rows(
        &self,
        keys: &[u8],
        #[wasm_bindgen(unchecked_param_type = "number")] key_width: JsValue,
    ) -> Outcome {
        let mut changes = self.changes()?;
        for key in rows(keys, &key_width)? {
            changes.delete(key);
        }
        Ok(())
    }

    /// How many changes it has.
    #[wasm_bindgen(getter)]
    pub fn length(&self) -> usize {
        self.0.borrow().len()
    }

    /// Another handle, for a call that takes several batches.
    #[wasm_bindgen(js_name = _share, skip_typescript)]
    pub fn share(&self) -> Batch {
        self.clone()
    }

    /// Takes all changes out.
    pub fn clear(&self) -> Outcome {
        self.changes()?.clear();
        Ok(())
    }
}

/// Rows of a width that stand behind each other.
pub fn rows<'a>(bytes: &'a [u8], width: &JsValue) -> Outcome<std::slice::ChunksExact<'a, u8>> {
    let width = size(width, "the width of a row")?;
    if width == 0 || !bytes.len().is_multiple_of(width) {
        let length = bytes.len();
        return Err(invalid(format!("{length} bytes are not rows of {width} bytes each")));
    }
    Ok(bytes.chunks_exact(width))
}
