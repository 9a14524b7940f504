//! Tables behind one handle, and transactions over them.
//!
//! There is one thread, so nobody is waited for: what would wait for a transaction that is open throws "locked".

use varvite::{Error, Kind, SnapshotContent};
use wasm_bindgen::prelude::*;

use crate::batch::Batch;
use crate::fault::{Outcome, Throw, closed, thrown};
use crate::input::{Given, array, bytes, list, optional_bytes, tell, text};
use crate::operator::outside;
use crate::table::{Table, View, told};

/// Tables of a session behind one handle: batches and transactions over several of them stand whole or not at all, and
/// views are of one moment.
#[wasm_bindgen]
pub struct Tables {
    session: varvite::Session,
    tables: Option<varvite::Tables>,
}

impl Tables {
    pub fn new(session: varvite::Session, tables: varvite::Tables) -> Tables {
        Tables { session, tables: Some(tables) }
    }

    fn open_now(&self) -> Outcome<&varvite::Tables> {
        outside()?;
        self.tables.as_ref().ok_or_else(|| closed("shared handle"))
    }

    /// The transaction in which something is done to the tables, so that nothing waits.
    fn turn(&self) -> Outcome<varvite::Transaction> {
        self.open_now()?.try_begin().ok_or_else(|| {
            let detail = "a transaction on these tables is open: commit it or roll it back first";
            thrown(&Error::new(Kind::Locked, detail))
        })
    }
}

#[wasm_bindgen]
impl Tables {
    /// The names of the tables, in order.
    #[wasm_bindgen(getter)]
    pub fn names(&self) -> Outcome<Vec<String>> {
        Ok(self.open_now()?.views().iter().map(|it| it.0.to_owned()).collect())
    }

    /// A table after the last update that stands.
    pub fn view(&self, name: &str) -> Outcome<View> {
        self.open_now()?.view(name).throw().map(View::new)
    }

    /// The value of a key; undefined when there is none.
    #[wasm_bindgen(unchecked_return_type = "Uint8Array | undefined")]
    pub fn get(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: JsValue,
    ) -> Outcome<JsValue> {
        Ok(tell(self.open_now()?.get(name, &bytes(&key, "key")?).throw()?.as_deref()))
    }

    /// The values of many keys, in their order, undefined where there is none.
    #[wasm_bindgen(unchecked_return_type = "(Uint8Array | undefined)[]")]
    pub fn lookup(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_param_type = "Bytes[]")] keys: JsValue,
    ) -> Outcome<JsValue> {
        Ok(told(&self.open_now()?.lookup(name, &list(&keys, "key")?).throw()?))
    }

    /// Applies a batch to each of several tables, all of them or none. The pairs are `[name, batch]`.
    pub fn commit(
        &self,
        #[wasm_bindgen(unchecked_param_type = "[string, Batch][]")] pairs: JsValue,
    ) -> Outcome {
        let mut changes = Vec::new();
        for pair in array(&pairs)?.iter() {
            let pair = array(&pair)?;
            changes.push((text(&pair.get(0), "name of a table")?, Batch::handle(&pair.get(1))?));
        }
        let mut turn = self.turn()?;
        for (name, batch) in &changes {
            turn.batch(name).throw()?.append(&batch.0.borrow());
        }
        turn.commit().throw()
    }

    /// Begins a transaction, the only one until it ends: others throw "locked" meanwhile.
    pub fn begin(&self) -> Outcome<Transaction> {
        Ok(Transaction(Some(self.turn()?)))
    }

    /// Saves all of the tables, together, under a name, with a label and a payload of the program's.
    #[wasm_bindgen(js_name = saveSnapshot)]
    pub fn save_snapshot(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "{ label?: string; payload?: Bytes }")]
        options: JsValue,
    ) -> Outcome {
        let given = Given::of(&options, &["label", "payload"])?;
        let label = text(&given.get("label")?, "label")?;
        let payload = optional_bytes(&given.get("payload")?, "payload")?.unwrap_or_default();
        drop(self.turn()?);
        let saved = self.open_now()?.with(|tables| {
            let tables: Vec<&varvite::Table> = tables.iter().collect();
            let content = SnapshotContent { label: &label, payload: &payload, tables: &tables };
            self.session.save_snapshot(name, content)
        });
        saved.throw()
    }

    /// Takes a table out.
    pub fn remove(&self, name: &str) -> Outcome<Table> {
        drop(self.turn()?);
        self.open_now()?.remove(name).throw().map(Table::new)
    }

    /// Closes the handle, and its tables; once more does nothing. Live ones can be opened again.
    pub fn close(&mut self) {
        self.tables = None;
    }
}

/// An update of several tables in the making. It reads what it wrote, and stands with `commit`, all of it or nothing.
#[wasm_bindgen]
pub struct Transaction(Option<varvite::Transaction>);

impl Transaction {
    fn open_now(&mut self) -> Outcome<&mut varvite::Transaction> {
        outside()?;
        self.0.as_mut().ok_or_else(|| closed("transaction"))
    }
}

#[wasm_bindgen]
impl Transaction {
    /// Adds a batch to what is done to a table.
    pub fn update(&mut self, name: &str, batch: &Batch) -> Outcome {
        self.open_now()?.batch(name).throw()?.append(&batch.0.borrow());
        Ok(())
    }

    /// The value of a key, with what the transaction wrote; undefined when there is none.
    #[wasm_bindgen(unchecked_return_type = "Uint8Array | undefined")]
    pub fn get(
        &mut self,
        name: &str,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: JsValue,
    ) -> Outcome<JsValue> {
        let key = bytes(&key, "key")?;
        Ok(tell(self.open_now()?.get(name, &key).throw()?.as_deref()))
    }

    /// The values of many keys, with what the transaction wrote, undefined where there is none.
    #[wasm_bindgen(unchecked_return_type = "(Uint8Array | undefined)[]")]
    pub fn lookup(
        &mut self,
        name: &str,
        #[wasm_bindgen(unchecked_param_type = "Bytes[]")] keys: JsValue,
    ) -> Outcome<JsValue> {
        let keys = list(&keys, "key")?;
        Ok(told(&self.open_now()?.lookup(name, &keys).throw()?))
    }

    /// A table with what the transaction wrote so far.
    pub fn view(&mut self, name: &str) -> Outcome<View> {
        self.open_now()?.view(name).throw().map(View::new)
    }

    /// Makes what it wrote stand. It is over then, also when this throws.
    pub fn commit(&mut self) -> Outcome {
        outside()?;
        self.0.take().ok_or_else(|| closed("transaction"))?.commit().throw()
    }

    /// Drops what it wrote; once more does nothing.
    pub fn rollback(&mut self) {
        self.0 = None;
    }
}
