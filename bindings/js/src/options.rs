//! What a program chooses.

use varvite::context::Configuration;
use wasm_bindgen::JsValue;

use crate::fault::Outcome;
use crate::input::choose;

/// The shape of directories; that of Tezos if it is left out.
pub fn configuration(value: &JsValue) -> Outcome<Configuration> {
    let known = [("tezos", Configuration::TEZOS), ("tezos-binary", Configuration::TEZOS_BINARY)];
    Ok(choose(value, "the configuration", &known)?.unwrap_or(Configuration::TEZOS))
}
