//! The promises of every disk, for the tests of disks over pools.

#[path = "../../../engine/tests/it/disk_promises.rs"]
#[allow(clippy::unwrap_used, missing_docs, dead_code)]
mod disk_promises;

use wasm_bindgen::prelude::*;

use crate::disk::Disk;
use crate::fault::Outcome;

/// The names of the promises.
#[wasm_bindgen(js_name = promiseNames)]
pub fn promise_names() -> Vec<String> {
    disk_promises::PROMISES.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// Runs the promise called `name` on a disk with nothing in it, which `make` gives.
#[wasm_bindgen(js_name = keepPromise)]
pub fn keep_promise(name: &str, disk: &Disk) -> Outcome {
    let found = disk_promises::PROMISES.iter().find(|(known, _)| *known == name);
    let (_, promise) = found.ok_or_else(|| JsValue::from(format!("there is no promise {name}")))?;
    promise(&*disk.shared());
    Ok(())
}
