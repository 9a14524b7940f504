//! What an archive does where it cannot find out, or has no room for, what recent commits need of what moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::context::{CommitHash, Index, Options, Store};
use varvite::disk::sim::{Crash, SimDisk};
use varvite::disk::{Disk, Mode};

use crate::archive_above::{BLOCKS, blocks, parts_above, read_all, recent_needs_nothing, sized};
use crate::context_archive::{open, packs};
use crate::context_repair::flipped;
use crate::hooked_disk::{Call, HookedDisk};

/// An archive of which a part is below, and the chunks there.
fn begun(index: Index) -> (Arc<SimDisk>, Arc<SimDisk>, Vec<CommitHash>) {
    let (upper, commits) = blocks(index);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
    assert!(store.archive(&commits[60], u64::MAX).unwrap() > 3);
    store.close().unwrap();
    (upper, lower, commits)
}

fn told(store: &Store) -> bool {
    store.warnings().iter().any(|it| it.contains("a later move looks after it"))
}

/// The first call of a handle looks at all that is needed, and so at what is damaged below where nothing is above. The next ones
/// go on without.
#[test]
fn marks_that_cannot_go_on_are_begun_anew() {
    let (mut told_of, mut refused) = (0, 0);
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = begun(index);
        for (part, _) in parts_above(&upper) {
            upper.remove(&part).unwrap();
        }
        for name in packs(&lower) {
            let length = lower.bytes(&name).unwrap().len();
            for place in (300..length).step_by(1_100) {
                let what = format!("{index:?}, {name}, byte {place}");
                let image = flipped(&lower, &name, place);
                let upper = upper.crash(Crash::Process);
                let mut store = open(&upper, sized(index, Some(&image))).unwrap();
                let (mut moved, mut was_told) = (0, false);
                loop {
                    let one = match store.archive(&commits[115], 1) {
                        // What moved last is looked at first.
                        Err(_) if moved == 0 => break,
                        one => one.unwrap_or_else(|error| panic!("{what}, {moved}: {error}")),
                    };
                    was_told |= told(&store);
                    if one == 0 {
                        break;
                    }
                    moved += one;
                }
                if moved == 0 {
                    refused += 1;
                    continue;
                }
                assert!(moved > 3, "{what}: {moved}");
                told_of += u64::from(was_told);
                store.close().unwrap();
                // The right chunk is back.
                let mended = crate::context_repair::with(&image, &name, lower.bytes(&name).ok());
                let store = open(&upper, sized(index, Some(&mended))).unwrap();
                for block in 115..BLOCKS {
                    read_all(&store, &commits[usize::from(block)], block).unwrap();
                }
            }
        }
    }
    assert!(told_of > 3 && refused < told_of, "{told_of}, {refused}");
}

/// A branch whose commit cannot be read below keeps nothing from moving, and what recent commits need stays above.
#[test]
fn an_old_branch_that_is_damaged_below_keeps_no_chunk_above() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = begun(index);
        // Without a file above there is nothing but what is below.
        let mut damaged = lower.crash(Crash::Process);
        for (part, whole) in parts_above(&upper) {
            upper.remove(&part).unwrap();
            let bytes = damaged.bytes(&whole).unwrap();
            let torn: Vec<u8> = bytes
                .iter()
                .enumerate()
                .map(|(place, byte)| {
                    // Its ends say whether the folder is the right one.
                    let is_hit = place % 700 == 650 && place + 200 < bytes.len();
                    if is_hit { byte ^ 1 } else { *byte }
                })
                .collect();
            damaged = crate::context_repair::with(&damaged, &whole, Some(torn));
        }
        let mut store = open(&upper, sized(index, Some(&damaged))).unwrap();
        assert_eq!(store.branch(b"old"), Some(commits[21]), "{index:?}");
        assert!(read_all(&store, &commits[21], 21).is_err(), "{index:?}: it is damaged");
        let moved = store.archive(&commits[115], u64::MAX);
        assert!(moved.unwrap_or_else(|error| panic!("{index:?}: {error}")) > 3);
        assert!(told(&store), "{index:?}: {:?}", store.warnings());
        store.close().unwrap();
        // The right folder is back.
        let store = open(&upper, sized(index, Some(&lower))).unwrap();
        for block in (115..commits.len()).chain([21, 33]) {
            read_all(&store, &commits[block], block as u16).unwrap();
        }
    }
}

/// Where there is no room for one of the files above, none of the others is tried: on a full disk each try costs what it
/// reads. The next call tries again.
#[test]
fn no_more_files_above_are_tried_once_there_is_no_room() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = begun(index);
        let parts = parts_above(&upper);
        assert!(parts.len() > 4, "{}", parts.len());
        for (part, _) in &parts {
            upper.remove(part).unwrap();
        }
        let tried = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&tried);
        let hooked = HookedDisk::new(Arc::clone(&upper) as Arc<dyn Disk>, move |call, path| {
            let is_part = call == Call::Open(Mode::Create) && path.matches('-').count() == 2;
            seen.fetch_add(u64::from(is_part), SeqCst);
        });
        let options = Options { index, ..sized(index, Some(&lower)) };
        let mut store = Store::open(hooked, options).unwrap();
        // Room for the control file, and for the index.
        upper.capacity(Some(upper.total_bytes() + 3_500));
        let moved = store.archive(&commits[115], 1).unwrap();
        let count = tried.load(SeqCst);
        assert_eq!(moved, 1, "{index:?}");
        assert!(count > 0 && count < parts.len() as u64, "{index:?}: {count} of {}", parts.len());
        upper.capacity(None);
        assert!(store.archive(&commits[115], u64::MAX).unwrap() > 0, "{index:?}");
        store.close().unwrap();
        recent_needs_nothing(&upper, index, None, (115, &commits)).unwrap();
    }
}
