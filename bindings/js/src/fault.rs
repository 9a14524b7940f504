//! How errors reach JavaScript: an `Error` called `VarviteError`, with the engine's `kind`.

use js_sys::Reflect;
use varvite::{Error, Kind};
use wasm_bindgen::prelude::*;

/// What every export gives.
pub type Outcome<T = ()> = Result<T, JsValue>;

/// The object that is thrown for an error of the engine.
pub fn thrown(error: &Error) -> JsValue {
    #[cfg(feature = "stores")]
    if let Some(raised) = crate::operator::raised(error) {
        return raised;
    }
    let object = js_sys::Error::new(&error.to_string());
    object.set_name("VarviteError");
    // A fresh object takes a property.
    let _ = Reflect::set(&object, &"kind".into(), &error.kind().name().into());
    object.into()
}

/// The object that is thrown for a call that is wrong.
pub fn invalid(detail: impl Into<String>) -> JsValue {
    thrown(&Error::new(Kind::Invalid, detail))
}

/// The object that is thrown for a handle that was closed.
pub fn closed(what: &str) -> JsValue {
    thrown(&Error::new(Kind::Closed, format!("the {what} was closed: open it again")))
}

/// An answer of the engine for JavaScript.
pub trait Throw<T> {
    /// The answer, or what is thrown.
    fn throw(self) -> Outcome<T>;
}

impl<T> Throw<T> for varvite::Result<T> {
    fn throw(self) -> Outcome<T> {
        self.map_err(|error| thrown(&error))
    }
}

/// What a function of the program threw first while the engine ran it. It is thrown again when the engine returns.
#[derive(Default)]
pub struct Raised(Option<JsValue>);

impl Raised {
    /// Keeps what was thrown, and stops the engine by an error in its place.
    pub fn keep<T>(&mut self, outcome: Outcome<T>) -> varvite::Result<T> {
        outcome.map_err(|thrown| {
            self.0.get_or_insert(thrown);
            Error::new(Kind::Invalid, "the function that was passed threw")
        })
    }

    /// What the program threw, or the engine's answer.
    pub fn outcome<T>(self, outcome: varvite::Result<T>) -> Outcome<T> {
        match self.0 {
            Some(thrown) => Err(thrown),
            None => outcome.throw(),
        }
    }
}

/// Has a panic, which would be a fault of varvite, thrown with its words instead of as "unreachable": `build --words`.
#[cfg(feature = "words")]
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| wasm_bindgen::throw_str(&panic.to_string())));
}
