//! What a process used, from inside and from outside, and what a folder holds.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

/// User and system time of this whole process so far, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Bytes that this process had read from and written to the device, or is to have written.
pub fn device_bytes() -> (u64, u64) {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    (field(&text, "read_bytes:"), field(&text, "write_bytes:"))
}

/// Resident memory of process `pid` in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resident {
    /// The most it ever was.
    pub peak: u64,
    /// Now, without pages of files.
    pub anonymous: u64,
}

impl Resident {
    /// Of process `pid`; zeros when it is gone.
    pub fn of(pid: u32) -> Resident {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        Resident { peak: field(&text, "VmHWM:") * 1024, anonymous: field(&text, "RssAnon:") * 1024 }
    }
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The blocks that the files below `folder` take, in bytes; a file with several names counts once.
pub fn disk_bytes(folder: &Path) -> u64 {
    let mut seen = std::collections::HashSet::new();
    let mut folders = vec![folder.to_owned()];
    let mut total = 0;
    while let Some(folder) = folders.pop() {
        // A file that goes away while we look does not count.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if seen.insert((metadata.dev(), metadata.ino())) {
                total += metadata.blocks() * 512;
            }
        }
    }
    total
}
