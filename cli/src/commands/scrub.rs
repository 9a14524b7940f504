//! `varvite scrub`: read everything that a store keeps, slowly, beside whoever uses it.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use varvite::{Error, SessionOptions};

use super::check::{Finding, add_pieces, nothing_from};
use super::repair::Unfinished;
use crate::advice::{self, CHECK};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::{folder, tables};

/// Mebibytes a second, unless another number is asked for.
const RATE: u64 = 32;

/// Read everything that a store keeps from the disk, slowly, and say what is damaged; never writes
///
/// For stores in use, now and then: bits rot where nobody reads. It compares the checksum of every page and
/// record; `check` reads as fast as it can and compares their content, too. Works while another process writes. Exit code 3 when
/// something is damaged.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store
    dir: PathBuf,
    /// Mebibytes a second at most; 0 for no limit
    #[arg(long, value_name = "MIB", default_value_t = RATE)]
    rate: u64,
    /// End after about so many mebibytes of files, one at least; then it says from where to go on. The log is
    /// read each time
    #[arg(long, value_name = "MIB")]
    most: Option<u64>,
    /// Go on from there: the number of a file
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
}

/// Pages of 4 KiB that are read between two looks at the clock.
const STEP_PAGES: u64 = 16;

/// Reads and prints what was found.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    if folder::is_context(&arguments.dir) {
        return Err(Error::invalid(format!(
            "{} holds a context, and only tables are scrubbed so far: {CHECK} reads all of it",
            arguments.dir.display()
        ))
        .into());
    }
    let session = tables::open_read_only(&arguments.dir, SessionOptions::default())?;
    let mut scrub = session.scrub(arguments.from)?;
    let mut bar = Progress::new("scrubbing", 0, Unit::Bytes);
    let (start, most) =
        (Instant::now(), arguments.most.map(|mebibytes| mebibytes.saturating_mul(1 << 20)));
    let is_done = loop {
        let is_done = scrub.work(STEP_PAGES)? == 0;
        let progress = scrub.progress();
        bar.set_total(progress.total_bytes);
        bar.set(progress.done_bytes);
        if is_done || most.is_some_and(|most| scrub.may_end(most)) {
            break is_done;
        }
        let per_second = arguments.rate.saturating_mul(1 << 20) as f64;
        if arguments.rate > 0 {
            let due = Duration::from_secs_f64(progress.done_bytes as f64 / per_second);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
    };
    bar.finish();
    let mut findings: Vec<_> = scrub.findings().iter().cloned().map(Finding::from).collect();
    add_pieces(&arguments.dir, &mut findings);
    let is_sound = findings.is_empty();
    let unfinished = scrub.log_unfinished().map(Unfinished::from);
    let read = scrub.progress().done_bytes;
    if is_sound && is_done && arguments.from > 0 && read == 0 {
        return Err(nothing_from(arguments.from).into());
    }
    let next = (!is_done).then(|| scrub.place());
    let verdict = Verdict::sound(is_sound);
    match format {
        Format::Json => print::json(&serde_json::json!({
            "sound": is_sound, "findings": findings, "bytes": read, "done": is_done, "next": next,
            "log_unfinished": unfinished,
        }))?,
        Format::Table => {
            for finding in &findings {
                finding.show()?;
            }
            let verdict = match findings.len() {
                0 if !is_done => "sound so far ✓".to_owned(),
                0 if arguments.from > 0 => "sound from there on ✓".to_owned(),
                0 if unfinished.is_some() => "sound up to the end of the log ✓".to_owned(),
                0 => "sound ✓".to_owned(),
                1 => "1 finding ✗".to_owned(),
                count => format!("{count} findings ✗"),
            };
            let dir = advice::typed(&arguments.dir);
            print::line(&format!("{} read: {verdict}", print::bytes(read)))?;
            if let Some(unfinished) = &unfinished {
                print::line(&unfinished.sentence())?;
            }
            if let Some(next) = next {
                let most = arguments.most.map_or(String::new(), |most| format!(" --most {most}"));
                let rate = match arguments.rate {
                    RATE => String::new(),
                    rate => format!(" --rate {rate}"),
                };
                print::line(&format!("varvite scrub {dir}{rate}{most} --from {next} goes on"))?;
            }
            if !is_sound {
                print::line(&advice::repair(&arguments.dir))?;
            }
        }
    }
    Ok(verdict)
}
