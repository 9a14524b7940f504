//! Volumes and limits of Unix.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

use crate::print;

/// Where a volume is mounted, and how many bytes it has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Volume {
    mount: PathBuf,
    bytes: u64,
    available: u64,
}

/// The volume of `path`, which is there.
fn volume(path: &Path) -> Option<Volume> {
    let mut mount = path.canonicalize().ok()?;
    let device = fs::metadata(&mount).ok()?.dev();
    let numbers = statvfs(&mount).ok()?;
    while let Some(above) = mount.parent()
        && fs::metadata(above).is_ok_and(|above| above.dev() == device)
    {
        mount = PathBuf::from(above);
    }
    let bytes = |blocks: u64| blocks.saturating_mul(numbers.f_frsize);
    Some(Volume { mount, bytes: bytes(numbers.f_blocks), available: bytes(numbers.f_bavail) })
}

/// The volume with the least space of those that `arguments` name by a path, or else of the working folder. What
/// failed may have been removed already, so its folder counts, too.
fn fullest(arguments: impl Iterator<Item = PathBuf>) -> Option<Volume> {
    let is_path = |path: &PathBuf| path.components().count() > 1;
    let there = |path: PathBuf| path.ancestors().find(|it| it.exists()).map(Path::to_owned);
    let named = arguments.filter(is_path).filter_map(there).filter_map(|path| volume(&path));
    named.min_by_key(|volume| volume.available).or_else(|| volume(Path::new(".")))
}

/// Says which volume is full.
pub fn full() -> Option<String> {
    let Volume { mount, bytes, .. } = fullest(env::args_os().skip(1).map(PathBuf::from))?;
    Some(format!("the full volume is {}, of {}", mount.display(), print::bytes(bytes)))
}

/// Says how long a file may be.
pub fn limit() -> Option<String> {
    let most = getrlimit(Resource::Fsize).current?;
    Some(format!(
        "this process may write files of at most {} (ulimit -f): raise that and try again",
        print::bytes(most)
    ))
}

/// Catches the signal. Nobody looks at the flag: the write fails then.
pub fn survive_limits() {
    // Without it everything works as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_of_a_path_is_found_also_when_its_end_is_gone() {
        let here = volume(Path::new("/")).expect("there is one");
        assert!(here.mount == Path::new("/") && here.bytes >= here.available && here.bytes > 0);
        let folder = tempfile::tempdir().expect("a folder");
        let own = volume(folder.path()).expect("it is there");
        assert!(folder.path().canonicalize().expect("there").starts_with(&own.mount));
        let gone = folder.path().join("store/segments");
        let found = fullest([PathBuf::from("table"), gone].into_iter()).expect("its volume");
        assert_eq!(found.mount, own.mount);
        let dots = fullest(std::iter::empty()).map(|it| it.mount);
        assert_eq!(dots, volume(Path::new(".")).map(|it| it.mount));
    }
}
