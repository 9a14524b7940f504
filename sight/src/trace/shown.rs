//! Calls and answers of traces, as people read them.

use varvite::context::hash;
use varvite::trace::{Answer, Argument, Call};

use crate::text;

/// Bytes of a name or a path that are shown: a call may have as many as its file.
const SHOWN_BYTES: usize = 200;

/// An answer, for people.
pub fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Nothing => "done".to_owned(),
        Answer::Flag(flag) => (if *flag { "yes" } else { "no" }).to_owned(),
        Answer::Number(number) => number.to_string(),
        Answer::Hash(bytes) => hash::to_text(bytes),
        Answer::Digest(None) | Answer::Handle(0) => "nothing".to_owned(),
        Answer::Digest(Some(digest)) => {
            format!("{} with the digest {:08x}", digest.length, digest.hash)
        }
        // Its number is the recording's own.
        Answer::Handle(_) => "something".to_owned(),
        Answer::Failed => "an error".to_owned(),
    }
}

/// What a call was on, for people; empty where it is on nothing that has a name.
pub fn place(call: &Call) -> String {
    let shown = call.arguments.iter().find_map(|argument| match argument {
        Argument::Path(path) => Some(place_of(path)),
        Argument::Hash(bytes) => Some(hash::to_text(bytes)),
        Argument::Bytes(bytes) => Some(text::clipped(bytes, SHOWN_BYTES)),
        // The first of many.
        Argument::Entries(entries) => entries.first().map(|(path, _)| place_of(path)),
        _ => None,
    });
    shown.unwrap_or_default()
}

/// A path, of a long one its begin and how many steps it has.
fn place_of(path: &[Vec<u8>]) -> String {
    let (mut steps, mut room) = (Vec::new(), SHOWN_BYTES);
    for step in path {
        if room == 0 {
            steps.push(format!("…({} steps)", path.len()));
            break;
        }
        steps.push(text::clipped(step, room).replace('/', "\\x2f"));
        room = room.saturating_sub(step.len() + 1);
    }
    text::joined(steps)
}

#[cfg(test)]
mod tests {
    use varvite::trace::Action;

    use super::*;

    fn of(action: Action, argument: Argument) -> String {
        let (depth, thread, start_ns, duration_ns) = (0, 0, 0, 0);
        let (arguments, answer) = (vec![argument], Answer::Nothing);
        place(&Call { action, depth, thread, start_ns, duration_ns, arguments, answer })
    }

    #[test]
    fn a_long_place_is_cut_and_a_short_one_is_whole() {
        let path = |steps: &[&str]| {
            let steps = steps.iter().map(|it| it.as_bytes().to_vec()).collect();
            of(Action::Find, Argument::Path(steps))
        };
        assert_eq!(path(&["a", "b/c", ""]), "a/b\\x2fc/");
        assert_eq!(path(&[]), "");
        assert_eq!(path(&["", "a"]), "//a");
        let steps = vec!["step"; 40_000];
        let deep = path(&steps);
        assert!(deep.len() < 300 && deep.ends_with("/…(40000 steps)"), "{deep}");
        let long = path(&["a", &"b".repeat(5_000), "c"]);
        assert!(long.len() < 300 && long.contains("…(5000 bytes, "), "{long}");
        let name = of(Action::OpenTable, Argument::Bytes(vec![b'n'; 5_000]));
        assert!(name.len() < 300 && name.contains("…(5000 bytes, "), "{name}");
    }

    #[test]
    fn answers_are_words() {
        for (one, other) in [
            (Answer::Flag(true), "yes"),
            (Answer::Handle(0), "nothing"),
            (Answer::Handle(7), "something"),
            (Answer::Number(3), "3"),
        ] {
            assert_eq!(answer(&one), other);
        }
    }
}
