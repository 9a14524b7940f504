//! Merge operators: those that are built in, and functions of the program's.
//!
//! The engine calls a function from its middle, where it holds locks, so every call of tables is refused until it returns.
//! What it throws stops the engine by an error, and is thrown again where the call came in.

use std::cell::{Cell, RefCell};

use js_sys::{Function, Uint8Array};
use varvite::{Error, MergeOperator};
use wasm_bindgen::prelude::*;

use crate::fault::{Outcome, invalid};
use crate::input::{Given, array, bytes};

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** How an upsert joins an older value: by a function of the program's, which is recorded under its name. It is associative, gives the same for the same values, and must not use tables. */
export interface MergeOperator { name: string; join: (older: Uint8Array, newer: Uint8Array) => Bytes }
"#;

/// What the error says that stands in the engine for what a function threw, before its number.
const THREW: &str = "the merge operator threw, in throw ";

/// How many are kept that no call has taken: the engine keeps the errors of some to itself, as those in a checkpoint.
const KEPT: usize = 16;

thread_local! {
    /// The functions of this thread, by their numbers. An operator may be sent to another thread, and objects of JavaScript
    /// may not, so the operator has the number alone.
    static JOINS: RefCell<Vec<Option<Function>>> = const { RefCell::new(Vec::new()) };
    /// Whether one runs.
    static IS_INNER: Cell<bool> = const { Cell::new(false) };
    /// What they threw, on its way to the call, each with its number, and the next number.
    static RAISED: RefCell<(Vec<(u64, JsValue)>, u64)> = const { RefCell::new((Vec::new(), 1)) };
}

/// A function by its number, which is given back with the last table that has it.
struct Join(usize);

impl Join {
    fn new(function: Function) -> Join {
        JOINS.with_borrow_mut(|joins| {
            let free = joins.iter().position(Option::is_none).unwrap_or(joins.len());
            joins.resize(joins.len().max(free + 1), None);
            joins[free] = Some(function);
            Join(free)
        })
    }

    fn call(&self, older: &[u8], newer: &[u8]) -> varvite::Result<Vec<u8>> {
        let function = JOINS.with_borrow(|joins| joins.get(self.0).cloned().flatten());
        let function =
            function.ok_or_else(|| Error::invalid("the merge operator is of another thread"))?;
        IS_INNER.set(true);
        let answer =
            function.call2(&JsValue::UNDEFINED, &Uint8Array::from(older), &Uint8Array::from(newer));
        IS_INNER.set(false);
        answer.and_then(|it| bytes(&it, "joined value")).map_err(|thrown| {
            let number = RAISED.with_borrow_mut(|(kept, next)| {
                let number = *next;
                *next += 1;
                if kept.len() == KEPT {
                    kept.remove(0);
                }
                kept.push((number, thrown));
                number
            });
            Error::invalid(format!("{THREW}{number}"))
        })
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        JOINS.with_borrow_mut(|joins| joins[self.0] = None);
    }
}

/// What a function threw because of which the engine gave `error`. An error says which throw it stands for, since others may
/// have come before and after it.
pub fn raised(error: &Error) -> Option<JsValue> {
    let detail = error.detail();
    // By hand: the library's search is code that nothing else here needs.
    let place = detail.as_bytes().windows(THREW.len()).position(|it| it == THREW.as_bytes())?;
    let number = &detail[place + THREW.len()..];
    let end = number.find(|it: char| !it.is_ascii_digit()).unwrap_or(number.len());
    let number: u64 = number[..end].parse().ok()?;
    RAISED.with_borrow_mut(|(kept, _)| {
        let place = kept.iter().position(|(it, _)| *it == number)?;
        Some(kept.remove(place).1)
    })
}

/// `invalid` while a merge operator runs.
pub fn outside() -> Outcome {
    if IS_INNER.get() {
        return Err(invalid("a merge operator used a table: it may only look at its values"));
    }
    Ok(())
}

/// The operator that a program names or gives.
pub fn operator(value: &JsValue) -> Outcome<MergeOperator> {
    let known = "there are \"add-u64\", \"max\" and \"append\", and { name, join } for one of the program's own";
    if let Some(name) = value.as_string() {
        return MergeOperator::built_in(&name)
            .ok_or_else(|| invalid(format!("there is no operator {name:?}: {known}")));
    }
    let given = Given::of(value, &["name", "join"])?;
    let (name, join) = (given.get("name")?.as_string(), given.get("join")?.dyn_into::<Function>());
    let (Some(name), Ok(join)) = (name, join) else {
        return Err(invalid(format!("an operator has a name and a function: {known}")));
    };
    if MergeOperator::built_in(&name).is_some() {
        return Err(invalid(format!(
            "{name:?} is the name of a built-in operator, which a table would be opened with later: use another"
        )));
    }
    let join = Join::new(join);
    Ok(MergeOperator::fallible(&name, move |older, newer| join.call(older, newer)))
}

/// The operators that a program gives for the tables that it opens; the engine knows those that are built in.
pub fn operators(value: &JsValue) -> Outcome<Vec<MergeOperator>> {
    let given = Given::of(value, &["operators"])?.get("operators")?;
    if given.is_undefined() || given.is_null() {
        return Ok(Vec::new());
    }
    array(&given)?.iter().map(|it| operator(&it)).collect()
}
