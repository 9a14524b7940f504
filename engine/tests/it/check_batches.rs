//! A check of a context sees what is not as it was written, be it nothing that a commit needs.

use std::sync::Arc;

use varvite::Kind;
use varvite::context::{Index, Store};
use varvite::disk::Disk;
use varvite::disk::sim::SimDisk;

use crate::context_archive::{made, open, options, packs};
use crate::context_repair::{collected, flipped, repair};

/// A closed store with two branches, whose chunks have a commit each.
fn branched() -> Arc<SimDisk> {
    let (disk, commits) = made(Index::Minimal, 9);
    let mut store = open(&disk, options(Index::Minimal, None)).unwrap();
    store.set_branch(b"old", &commits[1]).unwrap();
    store.set_branch(b"main", &commits[5]).unwrap();
    store.close().unwrap();
    disk
}

/// What a check says, which may be in the opening.
fn is_told(disk: &Arc<SimDisk>, lower: Option<&Arc<SimDisk>>) -> bool {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let below = options(Index::Minimal, lower);
    let checked = Store::open_read_only(disk, below).and_then(|store| store.check());
    match checked {
        Ok(checked) => !checked.index_faults.is_empty(),
        Err(error) => {
            assert!(
                matches!(error.kind(), Kind::Corrupt | Kind::Invalid | Kind::Version),
                "{error}"
            );
            true
        }
    }
}

#[test]
fn each_byte_of_a_pack_is_told_that_is_not_what_it_was() {
    let disk = branched();
    assert!(!is_told(&disk, None), "as it is");
    for name in packs(&disk) {
        for place in 0..disk.bytes(&name).unwrap().len() {
            let damaged = flipped(&disk, &name, place);
            assert!(is_told(&damaged, None), "{name} at {place}");
        }
    }
}

#[test]
fn what_a_repair_calls_damaged_is_damaged_to_a_check() {
    let disk = branched();
    let lower = SimDisk::new(3);
    let mut store = open(&disk, options(Index::Minimal, Some(&lower))).unwrap();
    let newest = store.last_commit().unwrap().unwrap();
    assert!(store.archive(&newest, 2).unwrap() > 0);
    store.close().unwrap();
    assert!(!is_told(&disk, Some(&lower)), "as it is");
    for name in packs(&lower) {
        for place in (40..lower.bytes(&name).unwrap().len()).step_by(7) {
            let damaged = flipped(&lower, &name, place);
            let (found, _) = repair(&disk, Some(&damaged)).unwrap();
            assert!(!found.is_whole(), "{name} at {place}");
            assert!(is_told(&disk, Some(&damaged)), "{name} at {place}: {found:?}");
        }
    }
}

/// The same of what collections have rewritten, with mappings that are damaged too.
#[test]
fn what_a_repair_calls_damaged_in_a_sparse_file_is_damaged_to_a_check() {
    let (disk, _) = collected(Index::Minimal);
    assert!(!is_told(&disk, None), "as it is");
    let sparse = packs(&disk).into_iter().filter(|name| name.matches('-').count() == 2);
    let (mut both, mut check_alone) = (0, 0);
    for name in sparse {
        for place in (0..disk.bytes(&name).unwrap().len()).step_by(31) {
            let damaged = flipped(&disk, &name, place);
            let (found, _) = repair(&damaged, None).unwrap();
            let is_told = is_told(&damaged, None);
            assert!(found.is_whole() || is_told, "{name} at {place}: {found:?}");
            both += usize::from(!found.is_whole());
            check_alone += usize::from(found.is_whole() && is_told);
        }
    }
    assert!(both > 50, "{both} are told by both, {check_alone} by a check alone");
}

/// The last part finds what the whole finds.
#[test]
fn a_check_in_parts_reads_the_batches_with_the_last() {
    let disk = branched();
    let name = packs(&disk).remove(0);
    // The head of the batch behind the opening.
    let damaged = flipped(&disk, &name, 150) as Arc<dyn Disk>;
    let store = Store::open_read_only(damaged, options(Index::Minimal, None)).unwrap();
    let (mut from, mut faults) = (None, Vec::new());
    loop {
        match store.check_part(from.as_ref(), 2) {
            Ok((_, None)) => break,
            Ok((_, next)) => from = next,
            Err(error) => {
                faults.push(error);
                break;
            }
        }
    }
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert!(from.is_some() && fault.kind() == Kind::Corrupt, "{fault}");
    let expected = format!("{name} is damaged at byte 144: expected a batch");
    assert!(fault.to_string().contains(&expected), "{fault}");
    let whole = store.check().unwrap_err();
    assert_eq!(whole.to_string(), fault.to_string());
}
