//! A memory limit on one process that counts the page cache: a control group of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A control group with one process in it, removed when dropped.
pub struct Limit {
    folder: PathBuf,
    peak: &'static str,
}

impl Limit {
    /// Limits process `pid`, which must not have opened anything yet: what it touches from now on is
    /// its own.
    pub fn new(pid: u32, bytes: u64) -> io::Result<Limit> {
        let first = Path::new("/sys/fs/cgroup/memory");
        let old = first.is_dir();
        let root = if old { first } else { Path::new("/sys/fs/cgroup") };
        let folder = root.join(format!("varvite-compare-{pid}"));
        fs::create_dir(&folder).map_err(|error| explain(&error, &folder))?;
        let peak = if old { "memory.max_usage_in_bytes" } else { "memory.peak" };
        let limit = Limit { folder, peak };
        let most = if old { "memory.limit_in_bytes" } else { "memory.max" };
        limit.write(most, bytes)?;
        limit.write("cgroup.procs", u64::from(pid))?;
        Ok(limit)
    }

    fn write(&self, name: &str, number: u64) -> io::Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, number.to_string()).map_err(|error| explain(&error, &path))
    }

    /// The most that was charged to the group, in bytes, page cache included.
    pub fn peak_bytes(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.peak)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // A group whose process has just ended may be busy for a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn explain(error: &io::Error, path: &Path) -> io::Error {
    let detail = format!("{}: {error}; a limit needs a writable control group", path.display());
    io::Error::new(error.kind(), detail)
}
