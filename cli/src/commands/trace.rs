//! `varvite trace`: calls that were recorded, of varvite and of Irmin's benchmarks.

mod convert;
pub mod record;
mod recordings;
mod replay;
mod report;
mod settings;
mod show;
mod source;

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use clap::Subcommand;
use varvite::disk::os::OsDisk;
use varvite::irmin_pack::trace as rows;
use varvite::trace::Trace;
use varvite::{Error, Kind, Result};

use crate::advice::{TRACE_CONVERT, TRACE_SHOW};
use crate::exit::Outcome;
use crate::input;
use crate::print::{self, Format};
use crate::progress::is_quiet;

/// Look into traces of calls, replay them, sum them up, lay them beside each other
///
/// `trace record` makes them of the program's loads, as --trace of these does, a program of its own with
/// `varvite::trace::Recorder`. The guide is docs/guide/traces.md.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the rows of a trace of Irmin's benchmarks, and count them by kind
    Show(show::Show),
    /// Run one of this program's loads, and write every call of it down
    Record(record::Arguments),
    /// Say what a trace has: calls by action, frames, and whether it was cut
    Info(report::Info),
    /// Run a trace's calls on a store, and compare every answer
    Replay(Box<replay::Arguments>),
    /// Sum a trace up: rates, latencies by action and prefix, blocks over time
    Summary(report::Summary),
    /// Lay two to eight traces beside each other, and list what got worse against the first
    Compare(report::Compare),
    /// Turn a trace of Irmin's benchmarks into one of varvite, or one of varvite into Irmin's
    Convert(convert::Convert),
}

pub fn run(command: &Command, format: Format) -> Outcome {
    match command {
        Command::Show(arguments) => show::run(arguments, format),
        Command::Record(arguments) => {
            Err(varvite::Error::invalid(format!("{} is not a load", arguments.name())).into())
        }
        Command::Info(arguments) => report::info(arguments, format),
        Command::Replay(arguments) => replay::run(arguments, format),
        Command::Summary(arguments) => report::summary(arguments, format),
        Command::Compare(arguments) => report::compare(arguments, format),
        Command::Convert(arguments) => convert::run(arguments, format),
    }
}

/// Rows of a trace of Irmin's benchmarks, read as they are asked for.
type Rows = rows::Rows<Box<dyn Read>>;

/// Opens the trace in `file`, which is one of Irmin's benchmarks.
fn rows_of(file: &Path) -> Result<Rows> {
    let name = file.display().to_string();
    let opened = File::open(file).map_err(|error| Error::io("read", &name, error))?;
    Rows::new(&name, Box::new(BufReader::with_capacity(256 << 10, opened)))
}

/// Whether `file` is there and can only be read from its begin to its end, once.
fn is_pipe(file: &Path) -> bool {
    file.exists() && !file.is_file() && !file.is_dir()
}

/// The rows that come out of a pipe. `Invalid` for any other trace.
fn rows_of_pipe(file: &Path) -> Result<Rows> {
    let name = file.display().to_string();
    let failed = |error| Error::io("read", &name, error);
    let mut opened = BufReader::with_capacity(256 << 10, File::open(file).map_err(failed)?);
    let mut start = Vec::new();
    opened.by_ref().take(8).read_to_end(&mut start).map_err(failed)?;
    if !rows::is_trace(&start) {
        return Err(no_file(file));
    }
    Rows::new(&name, Box::new(Cursor::new(start).chain(opened)))
}

/// Why a trace is not read from a pipe.
fn no_file(file: &Path) -> Error {
    let name = file.display();
    Error::invalid(format!(
        "{name} is no file, and a trace is read at its places, or twice: write it to a file, and give that"
    ))
}

/// Opens the trace in `file`, which is one of varvite. `Invalid` for a pipe, of which the system would wait for a writer.
fn open(file: &Path) -> Result<Trace> {
    if rows::is_trace(&input::start(file)?) {
        let detail = format!(
            "{} is a trace of Irmin's benchmarks: {TRACE_SHOW} lists its rows, and {TRACE_CONVERT} makes one of varvite",
            file.display()
        );
        return Err(Error::invalid(detail));
    }
    if is_pipe(file) {
        return Err(no_file(file));
    }
    let (folder, name) = crate::sight::place(file)?;
    Trace::open(&*OsDisk::new(folder)?, name).map_err(|error| told(file, error))
}

/// The same for a command that takes rows of Irmin's benchmarks too, which these are not.
fn open_any(file: &Path) -> Result<Trace> {
    open(file).map_err(|error| match error.kind() {
        Kind::Invalid if !input::start(file).is_ok_and(|it| it.is_empty() || it.starts_with(b"varvite")) => {
            Error::invalid(format!(
                "{} is neither a trace of varvite nor one of actions of Irmin's benchmarks: it begins with neither \
                 \"varvite\" nor IrmRepBT",
                file.display()
            ))
        }
        _ => error,
    })
}

/// How a trace ended.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Bytes that are no whole frame, or row.
    cut_bytes: u64,
    /// Whether the recording came to its end; rows of Irmin do not say it.
    is_ended: Option<bool>,
}

impl End {
    fn of(trace: &Trace) -> End {
        let end = trace.end();
        End { cut_bytes: end.cut_bytes, is_ended: Some(end.is_ended) }
    }

    fn of_rows(rows: &Rows) -> End {
        End { cut_bytes: rows.cut_bytes(), is_ended: None }
    }

    /// Warns where the trace in `file` may not be all that was recorded.
    fn warn(self, file: &Path) {
        let End { cut_bytes, is_ended } = self;
        let name = file.display();
        if is_quiet() || is_ended == Some(true) {
            return;
        }
        match (is_ended, cut_bytes) {
            (None, 0) => {}
            (None, _) => {
                complain!("warning: {name} was cut: its last {cut_bytes} bytes are no whole row");
            }
            (Some(_), 0) => {
                complain!(
                    "warning: {name} was not ended: the recording was killed, or goes on, so calls may be missing"
                );
            }
            (Some(_), _) => complain!(
                "warning: {name} was not ended: its last {cut_bytes} bytes are no whole frame, of a recording that was killed, or damaged"
            ),
        }
    }

    /// What a table has of it.
    fn rows(self) -> [(&'static str, String); 2] {
        let ended = match self.is_ended {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not known",
        };
        [("cut off", print::bytes(self.cut_bytes)), ("ended", ended.to_owned())]
    }
}

/// An error of row `number` of the trace in `file`, which names what is none: damage of it, and no argument.
fn in_row(file: &Path, number: u64, error: &Error) -> Error {
    let (name, detail) = (file.display(), error.detail());
    let advice = "record it again, or take another copy";
    Error::new(Kind::Corrupt, format!("{name} is damaged in row {number}: {detail}; {advice}"))
}

/// An error of a trace, which is no file of a store.
fn told(file: &Path, error: Error) -> Error {
    input::apart(file, error, "record it again, or take another copy")
}
