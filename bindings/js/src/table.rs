//! Tables and views of them.

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

use js_sys::{Array, Function, Reflect, Uint8Array};
use varvite::Values;
use wasm_bindgen::convert::TryFromJsValue;
use wasm_bindgen::prelude::*;

use crate::batch::{Batch, rows};
use crate::fault::{Outcome, Throw, closed, invalid};
use crate::input::{bytes, count, list, object, tell};
use crate::operator::outside;
use crate::range::{Bounds, Entries};

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** Values behind each other: value i ends at `ends[i]`, and is there where `found[i]` is 1. */
export interface PackedValues { bytes: Uint8Array; ends: Uint32Array; found: Uint8Array }
/** What a table takes. */
export interface TableStats { name: string; entriesMax: number; diskBytes: number; bufferBytes: number; filterBytes: number; debtBytes: number; levels: number }
"#;

/// A table: a sorted map from keys to values.
#[wasm_bindgen]
#[derive(Clone)]
pub struct Table(Rc<RefCell<Option<varvite::Table>>>);

impl Table {
    pub fn new(table: varvite::Table) -> Table {
        Table(Rc::new(RefCell::new(Some(table))))
    }

    /// A handle of the same table out of an object of JavaScript, which stays as it is.
    pub fn handle(object: &JsValue) -> Outcome<Table> {
        shared(object, |it| Table::try_from_js_value(it).ok())
            .ok_or_else(|| invalid("a Table is wanted, one that was not freed"))
    }

    /// The table, to read.
    pub fn look(&self) -> Outcome<Ref<'_, varvite::Table>> {
        outside()?;
        Ref::filter_map(self.0.borrow(), Option::as_ref).map_err(|_| closed("table"))
    }

    /// The table, to change. `invalid` where it is in use by the call already.
    pub fn change(&self) -> Outcome<RefMut<'_, varvite::Table>> {
        outside()?;
        let table =
            self.0.try_borrow_mut().map_err(|_| invalid("a table may be in a call only once"))?;
        RefMut::filter_map(table, Option::as_mut).map_err(|_| closed("table"))
    }
}

impl Table {
    /// The table itself, whose handles are closed then.
    pub fn take(&self) -> Outcome<varvite::Table> {
        outside()?;
        let mut table =
            self.0.try_borrow_mut().map_err(|_| invalid("the table is in use by a call"))?;
        table.take().ok_or_else(|| closed("table"))
    }

    /// Has a table that was taken stand behind its handles again.
    pub fn put_back(&self, table: varvite::Table) {
        self.0.replace(Some(table));
    }
}

/// What `take` makes of another handle of an object, which its hidden method gives.
pub fn shared<T>(object: &JsValue, take: impl FnOnce(JsValue) -> Option<T>) -> Option<T> {
    let method = Reflect::get(object, &"_share".into()).ok()?;
    take(method.dyn_ref::<Function>()?.call0(object).ok()?)
}

/// A table as it was at one moment. O(1) to have, and whatever is updated meanwhile does not change it.
#[wasm_bindgen]
pub struct View(varvite::View);

impl View {
    pub fn new(view: varvite::View) -> View {
        View(view)
    }

    fn look(&self) -> Outcome<&varvite::View> {
        outside().map(|()| &self.0)
    }
}

pub fn told(values: &Values) -> JsValue {
    values.iter().map(tell).collect::<Array>().into()
}

fn packed(values: &Values) -> Outcome<JsValue> {
    let (mut bytes, mut ends, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for value in values.iter() {
        bytes.extend_from_slice(value.unwrap_or_default());
        let end = u32::try_from(bytes.len());
        ends.push(end.map_err(|_| invalid("the values are more than 4 GiB: look up fewer keys"))?);
        found.push(u8::from(value.is_some()));
    }
    Ok(object(&[
        ("bytes", Uint8Array::from(&*bytes).into()),
        ("ends", js_sys::Uint32Array::from(&*ends).into()),
        ("found", Uint8Array::from(&*found).into()),
    ]))
}

#[wasm_bindgen]
impl View {
    /// The value of a key; undefined when there is none.
    #[wasm_bindgen(unchecked_return_type = "Uint8Array | undefined")]
    pub fn get(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: JsValue,
    ) -> Outcome<JsValue> {
        Ok(tell(self.look()?.get(&bytes(&key, "key")?).throw()?.as_deref()))
    }

    /// The values of many keys, in their order, undefined where there is none.
    #[wasm_bindgen(unchecked_return_type = "(Uint8Array | undefined)[]")]
    pub fn lookup(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes[]")] keys: JsValue,
    ) -> Outcome<JsValue> {
        Ok(told(&self.look()?.lookup(&list(&keys, "key")?).throw()?))
    }

    /// The values of keys of `width` bytes that stand behind each other.
    #[wasm_bindgen(js_name = lookupRows, unchecked_return_type = "PackedValues")]
    pub fn lookup_rows(
        &self,
        keys: &[u8],
        #[wasm_bindgen(unchecked_param_type = "number")] width: JsValue,
    ) -> Outcome<JsValue> {
        let keys: Vec<&[u8]> = rows(keys, &width)?.collect();
        packed(&self.look()?.lookup(&keys).throw()?)
    }

    /// The entries of a range, `[key, value]` each, or keys alone.
    pub fn range(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Range")] range: JsValue,
    ) -> Outcome<Entries> {
        Ok(Bounds::of(&range)?.entries(self.look()?))
    }

    /// How many keys there are, exactly. Reads all of them.
    pub fn count(&self) -> Outcome<f64> {
        Ok(self.look()?.count().throw()? as f64)
    }
}

#[wasm_bindgen]
impl Table {
    /// The table's name.
    #[wasm_bindgen(getter)]
    pub fn name(&self) -> Outcome<String> {
        Ok(self.look()?.name().to_owned())
    }

    /// The value of a key; undefined when there is none.
    #[wasm_bindgen(unchecked_return_type = "Uint8Array | undefined")]
    pub fn get(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: JsValue,
    ) -> Outcome<JsValue> {
        Ok(tell(self.look()?.get(&bytes(&key, "key")?).throw()?.as_deref()))
    }

    /// The values of many keys, in their order, undefined where there is none.
    #[wasm_bindgen(unchecked_return_type = "(Uint8Array | undefined)[]")]
    pub fn lookup(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes[]")] keys: JsValue,
    ) -> Outcome<JsValue> {
        Ok(told(&self.look()?.lookup(&list(&keys, "key")?).throw()?))
    }

    /// The values of keys of `width` bytes that stand behind each other.
    #[wasm_bindgen(js_name = lookupRows, unchecked_return_type = "PackedValues")]
    pub fn lookup_rows(
        &self,
        keys: &[u8],
        #[wasm_bindgen(unchecked_param_type = "number")] width: JsValue,
    ) -> Outcome<JsValue> {
        let keys: Vec<&[u8]> = rows(keys, &width)?.collect();
        packed(&self.look()?.lookup(&keys).throw()?)
    }

    /// Applies a batch: all of it or nothing.
    pub fn update(&self, batch: &Batch) -> Outcome {
        self.change()?.update(&batch.0.borrow()).throw()
    }

    /// Deletes the keys of a range at once.
    #[wasm_bindgen(js_name = deleteRange)]
    pub fn delete_range(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Range")] range: JsValue,
    ) -> Outcome {
        let bounds = Bounds::of(&range)?;
        self.change()?.delete_range(bounds.lower(), bounds.upper()).throw()
    }

    /// The table as it is now, for as long as the view is kept.
    pub fn view(&self) -> Outcome<View> {
        Ok(View(self.look()?.view()))
    }

    /// The entries of a range, `[key, value]` each, or keys alone.
    pub fn range(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Range")] range: JsValue,
    ) -> Outcome<Entries> {
        Ok(Bounds::of(&range)?.entries(&self.look()?.view()))
    }

    /// A table with the same content under another name, which shares all files. O(1).
    pub fn duplicate(&self, name: &str) -> Outcome<Table> {
        self.look()?.duplicate(name).throw().map(Table::new)
    }

    /// Does up to `credits` of merging ahead of time; gives how many were left.
    pub fn work(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] credits: JsValue,
    ) -> Outcome<f64> {
        let credits = count(&credits, "credits")?.unwrap_or(0);
        Ok(self.change()?.work(credits).throw()? as f64)
    }

    /// What the table takes.
    #[wasm_bindgen(unchecked_return_type = "TableStats")]
    pub fn stats(&self) -> Outcome<JsValue> {
        let it = self.look()?.stats().throw()?;
        Ok(object(&[
            ("name", it.name.into()),
            ("entriesMax", (it.logical_entries_max as f64).into()),
            ("diskBytes", (it.disk_bytes as f64).into()),
            ("bufferBytes", (it.buffer_bytes as f64).into()),
            ("filterBytes", (it.filter_memory_bytes as f64).into()),
            ("debtBytes", (it.debt_bytes as f64).into()),
            ("levels", it.levels.len().into()),
        ]))
    }

    /// Closes the table; once more does nothing. What a log has of it stays; without a log, what no snapshot has is gone.
    pub fn close(&self) -> Outcome {
        outside()?;
        let table =
            self.0.try_borrow_mut().map_err(|_| invalid("the table is in use by a call"))?.take();
        table.map_or(Ok(()), |table| table.close().throw())
    }

    /// Another handle, for a call that takes several tables.
    #[wasm_bindgen(js_name = _share, skip_typescript)]
    pub fn share(&self) -> Table {
        self.clone()
    }
}
