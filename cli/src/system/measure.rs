//! What the process used: processor time, memory, time on the wall.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

/// What the system says of processes, threads and files.
#[cfg(unix)]
mod system {
    use std::collections::HashSet;
    use std::fs::Metadata;
    use std::os::unix::fs::MetadataExt;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::time::{ClockId, clock_gettime};

    pub fn cpu_ns() -> u64 {
        read(ClockId::ProcessCPUTime)
    }

    pub fn thread_cpu_ns() -> u64 {
        read(ClockId::ThreadCPUTime)
    }

    fn read(clock: ClockId) -> u64 {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Whether the file is none of those `seen`, under whatever name; it is one of them then.
    pub fn is_new(metadata: &Metadata, seen: &mut HashSet<(u64, u64)>) -> bool {
        seen.insert((metadata.dev(), metadata.ino()))
    }

    pub fn raise_open_files() {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Refused means that we go on with what we have; opening a file then says so.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// Where nothing is asked of the system: times are 0, every name counts as a file, and no limit is raised.
#[cfg(not(unix))]
mod system {
    use std::collections::HashSet;
    use std::fs::Metadata;

    pub fn cpu_ns() -> u64 {
        0
    }

    pub fn thread_cpu_ns() -> u64 {
        0
    }

    pub fn is_new(_: &Metadata, _: &mut HashSet<(u64, u64)>) -> bool {
        true
    }

    pub fn raise_open_files() {}
}

/// User and system time of the whole process so far, in nanoseconds; 0 where the system is not asked.
pub fn cpu_ns() -> u64 {
    system::cpu_ns()
}

/// The same of the thread that asks.
pub fn thread_cpu_ns() -> u64 {
    system::thread_cpu_ns()
}

/// The most memory the process ever held, in bytes; 0 where the system does not say.
pub fn peak_rss_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// The memory that it holds now.
pub fn rss_bytes() -> u64 {
    status_bytes("VmRSS:")
}

fn status_bytes(name: &str) -> u64 {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return 0 };
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The lengths of all files below `folder`, each file once however many names it has, where the system tells. Traces that
/// somebody recorded there are nobody's.
pub fn disk_bytes(folder: &Path) -> u64 {
    let mut seen = HashSet::new();
    let mut folders = vec![folder.to_owned()];
    let mut total = 0;
    while let Some(folder) = folders.pop() {
        // A file that goes away while we look does not count.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if system::is_new(&metadata, &mut seen)
                && !(metadata.is_file() && is_trace(&entry.path()))
            {
                total += metadata.len();
            }
        }
    }
    total
}

/// Whether the file is a trace; those that a store names so that they are none are not opened.
fn is_trace(path: &Path) -> bool {
    let of_stores = ["segment", "blob", "snapshot", "sparse", "hashes"];
    if path.extension().is_some_and(|it| of_stores.iter().any(|known| it == *known)) {
        return false;
    }
    let mut begin = [0; 8];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == *b"varviteT"
}

/// Lets the process open as many files as it is allowed to: a large store has thousands.
pub fn raise_open_files() {
    system::raise_open_files();
}

/// Percentiles of a set of samples.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    nanoseconds: Vec<u64>,
    sorted: bool,
}

impl Samples {
    /// Adds one.
    pub fn push(&mut self, nanoseconds: u64) {
        self.nanoseconds.push(nanoseconds);
        self.sorted = false;
    }

    /// Adds those of another set.
    pub fn append(&mut self, other: Samples) {
        self.nanoseconds.extend(other.nanoseconds);
        self.sorted = false;
    }

    /// The smallest sample that at least `share` of all do not exceed, in microseconds.
    pub fn microseconds(&mut self, share: f64) -> f64 {
        assert!((0.0..=1.0).contains(&share));
        if !self.sorted {
            self.nanoseconds.sort_unstable();
            self.sorted = true;
        }
        let Some(last) = self.nanoseconds.len().checked_sub(1) else { return 0.0 };
        let rank = (share * self.nanoseconds.len() as f64).ceil() as usize;
        self.nanoseconds[rank.saturating_sub(1).min(last)] as f64 / 1e3
    }
}

/// Percentiles of the time that blocks took.
#[derive(Debug, Serialize)]
pub struct BlockMs {
    /// Median.
    pub p50: f64,
    /// Of a hundred, one takes longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl BlockMs {
    /// Of samples in nanoseconds.
    pub fn of(samples: &mut Samples) -> BlockMs {
        let mut at = |share| samples.microseconds(share) / 1e3;
        BlockMs { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::default();
        for value in (1..=1000).rev() {
            samples.push(value * 1000);
        }
        assert!((samples.microseconds(0.5) - 500.0).abs() < 1e-9);
        assert!((samples.microseconds(0.999) - 999.0).abs() < 1e-9);
        assert!((samples.microseconds(1.0) - 1000.0).abs() < 1e-9);
        assert!(Samples::default().microseconds(0.5).abs() < 1e-9);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_uses_something() {
        assert!(cpu_ns() > 0);
        assert!(peak_rss_bytes() > 0);
    }
}
