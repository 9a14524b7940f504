//! Calls and answers of traces, as people read them.

use varvite::context::hash;
use varvite::trace::{Answer, Argument, Call};

use crate::text;

/// An answer, for people.
pub fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Hash(bytes) => hash::to_text(bytes),
        Answer::Digest(None) => "nothing".to_owned(),
        Answer::Digest(Some(digest)) => {
            format!("{} with the digest {:08x}", digest.length, digest.hash)
        }
        other => format!("{other:?}"),
    }
}

/// What a call was on, for people; empty where it is on nothing that has a name.
pub fn place(call: &Call) -> String {
    let shown = call.arguments.iter().find_map(|argument| match argument {
        Argument::Path(path) => Some(text::path(path.iter().map(Vec::as_slice))),
        Argument::Hash(bytes) => Some(hash::to_text(bytes)),
        Argument::Bytes(bytes) => Some(text::shown(bytes)),
        // The first of many.
        Argument::Entries(entries) => {
            entries.first().map(|(path, _)| text::path(path.iter().map(Vec::as_slice)))
        }
        _ => None,
    });
    shown.unwrap_or_default()
}
