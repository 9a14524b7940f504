//! How the program ends: 0 yes or sound, 1 no or damaged, 2 could not run.

use std::process::ExitCode;

use varvite::{Error, Kind};

/// What a command found when it could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, or everything is sound.
    Yes,
    /// No, or something is damaged.
    No,
}

impl Verdict {
    /// Yes when `sound`.
    pub fn of(sound: bool) -> Verdict {
        if sound { Verdict::Yes } else { Verdict::No }
    }

    /// The exit code.
    pub fn code(self) -> ExitCode {
        match self {
            Verdict::Yes => ExitCode::from(0),
            Verdict::No => ExitCode::from(1),
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

/// The exit code for an error of `kind`: damage is an answer, everything else kept us from one.
pub fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Corrupt => 1,
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
    fn every_kind_has_a_code_and_only_damage_is_an_answer() {
        for kind in Kind::ALL {
            let expected = if kind == Kind::Corrupt { 1 } else { 2 };
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
