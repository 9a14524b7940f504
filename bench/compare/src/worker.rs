//! The process of an engine, on a copy of its store: it is asked line by line, and stopped by signal
//! when it is not its turn, so that its threads in the background take nothing from the others.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::Advice;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use crate::engine::{Result, Spec};
use crate::limit::Limit;
use crate::process::{Resident, disk_bytes};
use crate::record::{Own, Setting};

/// The limit of [`Setting::Limit`].
pub const LIMIT_BYTES: u64 = 512_000_000;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What a process is made of.
pub struct Task<'a> {
    /// The hidden command that it runs, with arguments of its own.
    pub command: &'a [&'a str],
    /// The engine.
    pub spec: &'a Spec,
    /// Conditions.
    pub setting: Setting,
    /// Entries in the store.
    pub entries: u64,
    /// The store, which is copied.
    pub store: &'a Path,
    /// Where stores and copies are.
    pub folder: &'a Path,
}

/// A process; its copy of the store goes with it.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    limit: Option<Limit>,
    folder: PathBuf,
    spec: String,
    resident: Resident,
    most_disk_bytes: u64,
    looked_at_disk: Instant,
}

impl Worker {
    /// Copies the store, starts the process, opens the copy, and stops the process.
    pub fn start(task: &Task) -> Result<Worker> {
        let folder =
            task.folder.join(format!("run-{}", std::process::id())).join(folder_name(task.spec));
        copy(task.store, &folder, task.setting == Setting::Limit)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(task.command)
            .args(["--spec", &task.spec.to_string()])
            .args(["--setting", task.setting.name()])
            .args(["--entries", &task.entries.to_string(), "--folder"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let limit = match task.setting {
            Setting::Limit => Some(Limit::new(child.id(), LIMIT_BYTES)?),
            Setting::Page | Setting::Synced => None,
        };
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // Ends with the process, or when nobody listens any more.
            output.lines().map_while(std::result::Result::ok).all(|line| sender.send(line).is_ok())
        });
        let mut worker = Worker {
            child,
            input,
            lines,
            limit,
            folder,
            spec: task.spec.to_string(),
            resident: Resident::default(),
            most_disk_bytes: 0,
            looked_at_disk: Instant::now(),
        };
        worker.ask::<Own>("open")?;
        worker.signal(Signal::STOP)?;
        Ok(worker)
    }

    /// Asks the process, which runs until it has answered.
    pub fn turn<T: DeserializeOwned>(&mut self, line: &str) -> Result<T> {
        self.signal(Signal::CONT)?;
        let answer = self.ask(line)?;
        self.signal(Signal::STOP)?;
        // What it has left for the system to write must not be in the way of the next one.
        rustix::fs::sync();
        Ok(answer)
    }

    /// What the process says at its end.
    pub fn end<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.look();
        self.signal(Signal::CONT)?;
        let answer = self.ask("end")?;
        self.child.wait()?;
        self.most_disk_bytes = self.most_disk_bytes.max(self.disk_bytes());
        Ok(answer)
    }

    /// Most memory of its own and of all so far.
    pub fn resident(&self) -> Resident {
        self.resident
    }

    /// The most that was charged to its control group; 0 without a limit.
    pub fn group_bytes(&self) -> u64 {
        self.limit.as_ref().map_or(0, Limit::peak_bytes)
    }

    /// What its copy takes.
    pub fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.folder)
    }

    /// The most that its copy took.
    pub fn most_disk_bytes(&self) -> u64 {
        self.most_disk_bytes
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).expect("no process has number 0");
        Ok(kill_process(pid, signal)?)
    }

    /// Sends a line and waits for the answer, looking at the process meanwhile.
    fn ask<T: DeserializeOwned>(&mut self, line: &str) -> Result<T> {
        writeln!(self.input, "{line}")?;
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(serde_json::from_str(&line)?),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("{} ended at `{line}`", self.spec).into());
                }
            }
        }
    }

    fn look(&mut self) {
        let resident = Resident::of(self.child.id());
        self.resident.peak = self.resident.peak.max(resident.peak);
        self.resident.anonymous = self.resident.anonymous.max(resident.anonymous);
        if self.looked_at_disk.elapsed() > Duration::from_secs(1) {
            self.most_disk_bytes = self.most_disk_bytes.max(self.disk_bytes());
            self.looked_at_disk = Instant::now();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill(); // after an error; otherwise it has ended
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
        // The last one takes the run's folder along.
        let _ = self.folder.parent().map(fs::remove_dir);
    }
}

/// Makes the store of `spec` in `folder` by the hidden command `command`, unless it is there.
pub fn fill(
    folder: &Path,
    prefix: &str,
    command: &str,
    spec: &Spec,
    entries: u64,
) -> Result<PathBuf> {
    let store = folder.join(format!("{prefix}{entries}-{}", folder_name(&spec.filled())));
    if store.exists() {
        return Ok(store);
    }
    let begun = store.with_extension("begun");
    let _ = fs::remove_dir_all(&begun); // of a command that was stopped
    fs::create_dir_all(&begun)?;
    let start = Instant::now();
    let status = Command::new(std::env::current_exe()?)
        .args([command, "--spec", &spec.filled().to_string()])
        .args(["--entries", &entries.to_string(), "--folder"])
        .arg(&begun)
        .status()?;
    if !status.success() {
        return Err(format!("{spec} could not fill its store").into());
    }
    fs::rename(&begun, &store)?;
    let (seconds, megabytes) = (start.elapsed().as_secs_f64(), disk_bytes(&store) / 1_000_000);
    eprintln!("{}: filled in {seconds:.0} s, {megabytes} MB", spec.filled());
    Ok(store)
}

fn folder_name(spec: &Spec) -> String {
    spec.to_string().replace([':', '=', ','], "-")
}

/// Copies a store with its holes, and waits until the copy is on the device. Its pages stay in the
/// page cache, unless `cold`.
fn copy(from: &Path, to: &Path, cold: bool) -> Result<()> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to.parent().expect("it is in the run's folder"))?;
    let copied = Command::new("cp").args(["-r", "--sparse=auto"]).args([from, to]).status()?;
    if !copied.success() {
        return Err(format!("{} could not be copied", from.display()).into());
    }
    forget(from, false)?;
    forget(to, !cold)
}

/// Syncs the files below `folder`, and takes them out of the page cache unless they are to be kept.
fn forget(folder: &Path, keep: bool) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path, keep)?;
            continue;
        }
        let file = File::open(path)?;
        file.sync_all()?;
        if !keep {
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
