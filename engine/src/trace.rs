//! Traces: every call that a host made, with its arguments, a digest of its answer, its time and depth.
//!
//! A [`Recorder`] is given with the options of a context's store or of a session; both may share one. It
//! writes frames, each of which is read by itself, so a file that was cut is read up to its last whole frame.
//! Relies on `format`, and on `disk` for the file.
//! Format document: `docs/format/trace.md`.

mod action;
mod frame;
mod frame_builder;
mod frame_reader;
mod inspect;
mod reader;
mod recorder;
mod walk;
mod words;

pub use action::{Action, ActionRow, Answered, Face, Field};
pub use frame::{Answer, Argument, Call, Digest, DigestOfMany, KeyUpdate};
pub use inspect::file as inspect;
pub use reader::{Trace, TraceEnd};
pub(crate) use recorder::{
    Arguments, Begun, Traced, begin_inner, call, end, found, inner_call, run, store_call,
};
pub use recorder::{Host, Recorder};
pub(crate) use walk::{Bounds, StepTimes, Steps, Walk};
