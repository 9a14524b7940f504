//! Volumes and limits of Unix.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

use crate::print;

/// A volume with less room than this may be full for who writes something long.
const NEXT_TO_NOTHING: u64 = 64 << 20;

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

fn is_read_only(path: &Path) -> bool {
    statvfs(path).is_ok_and(|numbers| numbers.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The volumes of what `arguments` may name, as they are typed in the folder `here`. What failed may have been removed
/// already, so the folder that it was in counts, too: that of a name without a folder is `here`.
fn named(here: &Path, arguments: impl Iterator<Item = PathBuf>) -> Vec<Volume> {
    let mut found: Vec<Volume> = Vec::new();
    // A device takes no room where its name is, and what is only read cannot be full.
    let is_stored = |path: &&Path| (path.is_dir() || path.is_file()) && !is_read_only(path);
    for path in std::iter::once(here.to_owned()).chain(arguments.map(|path| here.join(path))) {
        let volume = path.ancestors().find(|it| it.exists()).filter(is_stored).and_then(volume);
        // Some systems show things as files that are on no disk.
        let new = volume.filter(|it| it.bytes > 0 && found.iter().all(|old| old.mount != it.mount));
        found.extend(new);
    }
    found
}

/// The one that is full: of several the one with the least space, where that is next to nothing. No word is better than
/// a wrong one.
fn fullest(mut volumes: Vec<Volume>) -> Option<Volume> {
    volumes.sort_by_key(|volume| volume.available);
    let is_only_one = volumes.len() == 1;
    let is_full = |volume: &Volume| volume.available < NEXT_TO_NOTHING.max(volume.bytes / 20);
    volumes.into_iter().next().filter(|first| is_only_one || is_full(first))
}

/// Says which volume is full.
pub fn full() -> Option<String> {
    let arguments = env::args_os().skip(1).map(PathBuf::from);
    let Volume { mount, bytes, .. } = fullest(named(Path::new("."), arguments))?;
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
        let found = named(Path::new("/"), [PathBuf::from("table"), gone].into_iter());
        assert!(found.iter().any(|it| it.mount == own.mount), "{found:?}");
        // A store that is named without a folder is where the command is run, also when it is gone again.
        let found = named(folder.path(), [PathBuf::from("S")].into_iter());
        assert_eq!(found.iter().map(|it| &it.mount).collect::<Vec<_>>(), [&own.mount]);
        let found = named(folder.path(), [PathBuf::from("/dev/null")].into_iter());
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn of_several_volumes_the_full_one_is_named_and_none_where_none_is() {
        let of = |mount: &str, bytes: u64, available: u64| Volume {
            mount: PathBuf::from(mount),
            bytes,
            available,
        };
        let (large, small) = (of("/", 252 << 30, 100 << 30), of("/mnt/small", 300 << 10, 40 << 10));
        let other = of("/data", 1 << 40, 200 << 30);
        assert_eq!(fullest(vec![large.clone(), small.clone()]), Some(small));
        assert_eq!(fullest(vec![large.clone(), other]), None);
        assert_eq!(fullest(vec![large.clone()]), Some(large));
        assert_eq!(fullest(Vec::new()), None);
    }
}
