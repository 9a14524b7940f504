//! How the program ends: 0 yes or sound, 1 no, 2 could not run, 3 damaged. The same in every command.

use std::process::ExitCode;

use varvite::{Error, Kind};

/// The exit code when something is damaged.
const DAMAGED: u8 = 3;

/// What a command found when it could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, or everything is sound.
    Yes,
    /// No: what was asked for is not there, or what was to hold does not.
    No,
    /// Something is damaged.
    Damaged,
}

impl Verdict {
    /// Yes when `it` is there, or holds.
    pub fn found(it: bool) -> Verdict {
        if it { Verdict::Yes } else { Verdict::No }
    }

    /// Yes when nothing is damaged.
    pub fn sound(it: bool) -> Verdict {
        if it { Verdict::Yes } else { Verdict::Damaged }
    }

    /// The exit code.
    pub fn code(self) -> ExitCode {
        match self {
            Verdict::Yes => ExitCode::from(0),
            Verdict::No => ExitCode::from(1),
            Verdict::Damaged => ExitCode::from(DAMAGED),
        }
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// An error with its sentence.
    Engine(Error),
    /// Whoever read our output has seen enough.
    OutputClosed,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

/// Only output goes through `io::Error`: whatever reads or writes files says which file it was.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::Engine(Error::io("write", "the output", error))
    }
}

/// The result of a command.
pub type Outcome = Result<Verdict, Failure>;

/// The exit code for an error of `kind`: damage and what is proven to be hidden are answers, everything
/// else kept us from one.
pub fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Corrupt => DAMAGED,
        Kind::Hidden => 1,
        _ => 2,
    }
}

/// Says what went wrong on standard error, in one sentence, and gives the exit code.
pub fn report(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(verdict) => verdict.code(),
        Err(Failure::OutputClosed) => ExitCode::from(0),
        Err(Failure::Engine(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(code(error.kind()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_code_and_few_are_answers() {
        for kind in Kind::ALL {
            let expected = match kind {
                Kind::Corrupt => 3,
                Kind::Hidden => 1,
                _ => 2,
            };
            assert_eq!(code(kind), expected, "{kind}");
        }
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(closed), Failure::OutputClosed));
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert!(matches!(Failure::from(full), Failure::Engine(_)));
    }
}
