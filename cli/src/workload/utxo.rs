//! The `UTxO` load of `IntersectMBO`'s benchmark: keys of 34 bytes that look random, values of 60 bytes,
//! and batches that look keys up, delete them, and insert as many fresh ones.

mod draw;
mod model;
mod pipeline;
mod plan;
mod run;

use draw::mix;
pub use draw::{Draw, KEY_BYTES, Key, NUMBERS_MAX, Numbers, VALUE, VALUE_BYTES, key};
pub use plan::{Measured, Mode, Plan};
pub use run::run;
