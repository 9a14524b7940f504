//! Exports by a reader while blocks arrive, and imports beside one.

use std::sync::Arc;
use std::thread;

use varvite::Kind;
use varvite::context::{
    CommitFileOptions, CommitHash, CommitInfo, Index, Keep, Options, Store, verify_commit,
};

use crate::context_collect::content;
use crate::context_snapshots::{FILE, change, export, exported, memory, options};
use crate::random::Random;

/// A commit whose file has several frames, above `parent`.
fn block(store: &mut Store, parent: Option<CommitHash>, number: u64) -> CommitHash {
    let mut tree = parent.map_or_else(|| store.empty_tree(), |it| store.checkout(&it).unwrap());
    change(&mut tree, number).unwrap();
    for (at, name) in ["aa", "nb", "tz", "zz"].into_iter().enumerate() {
        let many = Random::new(10 * number + at as u64).bytes(if parent.is_none() {
            270_000
        } else {
            100
        });
        tree.add(&["long", name, &format!("{number}")], &many).unwrap();
    }
    let parents: Vec<CommitHash> = parent.into_iter().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, number as i64, "me", "block")).unwrap()
}

#[test]
fn a_reader_exports_the_same_file_while_blocks_arrive_and_old_ones_go() {
    for index in [Index::Minimal, Index::Always] {
        let (_, disk) = memory();
        let mut writer = Store::create(Arc::clone(&disk), options(index)).unwrap();
        let first = block(&mut writer, None, 0);
        let (bytes, _) = export(&writer, &first);
        let reader = Store::open_read_only(Arc::clone(&disk), options(index)).unwrap();
        let mut head = first;
        for keeps in [true, false] {
            // The commit is kept by a branch, then it is collected under the export.
            if keeps {
                writer.set_branch(b"old", &first).unwrap();
            } else {
                writer.remove_branch(b"old").unwrap();
            }
            let (files, target) = memory();
            let mut frames = 0;
            let outcome = reader.export_commits_watched(
                &[first],
                CommitFileOptions::default(),
                &target,
                FILE,
                &mut |_| {
                    frames += 1;
                    for _ in 0..3 {
                        head = block(&mut writer, Some(head), frames + 100 * u64::from(keeps));
                        writer.collect_keeping(&Keep::Newest(2))?;
                        writer.collect_step(400)?;
                    }
                    Ok(())
                },
            );
            assert!(frames > 3, "{frames} frames");
            match outcome {
                Ok(_) => assert!(files.bytes(FILE).unwrap() == bytes, "{index:?}, {keeps}"),
                Err(error) => {
                    assert!(!keeps, "{index:?}: {error}");
                    assert_eq!(error.kind(), Kind::Collected, "{error}");
                    assert!(!target.exists(FILE).unwrap());
                }
            }
        }
        while writer.collect_step(1 << 20).unwrap() {}
        assert!(writer.collect_status().unwrap().collections > 0);
    }
}

#[test]
fn threads_export_and_import_beside_a_writer() {
    let (_, disk) = memory();
    let mut writer = Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    let first = block(&mut writer, None, 0);
    let (bytes, file) = export(&writer, &first);
    thread::scope(|scope| {
        let exports = scope.spawn(|| {
            let reader = Store::open_read_only(Arc::clone(&disk), options(Index::Minimal)).unwrap();
            for _ in 0..4 {
                assert!(export(&reader, &first).0 == bytes);
            }
        });
        let imports = scope.spawn(|| {
            let source = exported(&bytes);
            for _ in 0..3 {
                let (_, target) = memory();
                let made =
                    Store::create_from_commit(target, options(Index::Always), &*source, FILE);
                assert_eq!(made.unwrap().1, file);
            }
        });
        let mut head = first;
        let mut number = 0;
        while !exports.is_finished() || !imports.is_finished() {
            number += 1;
            head = block(&mut writer, Some(head), number);
        }
    });
}

/// A reader of the living store sees the commits once they are there, and what it held all along.
#[test]
fn a_reader_holds_its_own_beside_an_import() {
    let (_, from) = memory();
    let mut from = Store::create(from, options(Index::Minimal)).unwrap();
    let other = block(&mut from, None, 1);
    let (bytes, _) = export(&from, &other);
    let source = exported(&bytes);
    let (_, disk) = memory();
    let mut writer = Store::create(Arc::clone(&disk), options(Index::Always)).unwrap();
    let own = block(&mut writer, None, 0);
    let expected = content(&writer.checkout(&own).unwrap()).unwrap();
    let mut reader = Store::open_read_only(disk, options(Index::Always)).unwrap();
    let mut frames = 0;
    let watch = &mut |_: &varvite::context::CommitFileProgress| {
        frames += 1;
        reader.reload()?;
        assert_eq!(reader.log(9)?, [own]);
        assert!(content(&reader.checkout(&own)?)? == expected);
        Ok(())
    };
    writer.import_commit_watched(&*source, FILE, watch).unwrap();
    assert!(frames > 3);
    reader.reload().unwrap();
    assert_eq!(reader.log(9).unwrap(), [other, own]);
    assert!(export(&reader, &other).0 == bytes);
}

/// Longer than a chunk, and than all that the store may keep in memory.
#[test]
fn a_value_that_needs_many_frames_goes_into_a_store_of_little_memory() {
    let (_, from) = memory();
    let mut from = Store::create(from, Options::default()).unwrap();
    let mut tree = from.empty_tree();
    tree.add(&["long"], &Random::new(1).bytes(5 << 20)).unwrap();
    tree.add(&["short"], b"1").unwrap();
    let commit = from.commit(&mut tree, &CommitInfo::new(&[], 1, "me", "one")).unwrap();
    let (bytes, file) = export(&from, &commit);
    let small = Options {
        objects_bytes: 1 << 16,
        pages_bytes: 1 << 16,
        tree_bytes: 1 << 12,
        chunk_bytes: 1 << 20,
        ..Options::default()
    };
    let source = exported(&bytes);
    let (mut store, said) = Store::create_from_commit(memory().1, small, &*source, FILE).unwrap();
    assert_eq!(said, file);
    assert!(export(&store, &commit).0 == bytes);
    assert_eq!(
        store.import_commit(&*source, FILE).unwrap(),
        verify_commit(&*source, FILE).unwrap()
    );
}

/// A commit that a collection is about to take is not as good as there: an import of it makes it stay.
#[test]
fn an_import_of_a_commit_that_a_collection_marks_to_go_makes_it_stay() {
    for index in [Index::Minimal, Index::Always] {
        let (_, disk) = memory();
        let mut store = Store::create(disk, options(index)).unwrap();
        let first = block(&mut store, None, 0);
        let expected = content(&store.checkout(&first).unwrap()).unwrap();
        let (bytes, file) = export(&store, &first);
        let mut head = first;
        for number in 1..8 {
            head = block(&mut store, Some(head), number);
        }
        store.collect(&head).unwrap();
        store.collect_step(1).unwrap();
        assert!(store.exists(&first).unwrap(), "it is still there");
        assert_eq!(store.import_commit(&*exported(&bytes), FILE).unwrap(), file);
        while store.collect_step(1 << 20).unwrap() {}
        assert_eq!(content(&store.checkout(&first).unwrap()).unwrap(), expected, "{index:?}");
        assert!(store.check().unwrap().index_faults.is_empty(), "{index:?}");
    }
}

/// Two exports to one name: the first goes on undisturbed, whenever the other comes.
#[test]
fn an_export_does_not_take_the_file_of_another() {
    let (_, disk) = memory();
    let mut store = Store::create(disk, options(Index::Minimal)).unwrap();
    let first = block(&mut store, None, 0);
    let other = block(&mut store, None, 1);
    let (bytes, _) = export(&store, &first);
    let (files, target) = memory();
    let options = CommitFileOptions::default();
    let export = |commit: &CommitHash, watch: &mut dyn FnMut()| {
        store.export_commits_watched(&[*commit], options, &target, FILE, &mut |_| {
            watch();
            Ok(())
        })
    };
    let mut refused = 0;
    let written = export(&first, &mut || {
        let error = export(&other, &mut || ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Locked, "{error}");
        refused += 1;
    });
    written.unwrap();
    assert!(refused > 3 && files.bytes(FILE).unwrap() == bytes);
    assert_eq!(target.list("").unwrap(), [FILE]);
    assert_eq!(export(&other, &mut || ()).unwrap_err().kind(), Kind::Exists);
}

/// The name of the file in work is one that a user's file may have.
#[test]
fn an_export_removes_no_file_that_no_export_has_left() {
    let (_, disk) = memory();
    let mut store = Store::create(disk, options(Index::Minimal)).unwrap();
    let first = block(&mut store, None, 0);
    let other = block(&mut store, None, 1);
    let (bytes, _) = export(&store, &first);
    let (of_other, _) = export(&store, &other);
    let (working, lock) = (format!("{FILE}.export.tmp"), format!("{FILE}.export.lock"));
    let near = format!("{FILE}.tmp");
    for (name, users) in [
        (&working, b"notes of somebody".to_vec()),
        (&working, b"var".repeat(50)),
        (&lock, b"an export, which I keep here".to_vec()),
        (&lock, b"notes".to_vec()),
    ] {
        let (files, target) = memory();
        files.replace(name, users.clone()).unwrap();
        let error = store.export_commit(&first, &target, FILE).unwrap_err();
        assert_eq!(error.kind(), Kind::Exists, "{error}");
        assert!(error.to_string().contains(&**name), "{error}");
        assert_eq!(files.bytes(name).unwrap(), users);
        assert_eq!(target.list("").unwrap(), [name.as_str()], "nothing else is left there");
    }
    // What killed exports leave, of this commit and of the other, and their lock; a power cut leaves zeros. What ends with
    // .tmp alone is a user's.
    let mut zeroed = bytes.clone();
    zeroed[..100].fill(0);
    for left in [&bytes, &of_other, &zeroed, &vec![0; 3]] {
        for length in [0, 1, 7, 8, 40, 81, 200, left.len() / 2, left.len() - 1, left.len()] {
            let (files, target) = memory();
            files.replace(&working, left[..length.min(left.len())].to_vec()).unwrap();
            files.replace(&lock, b"an export"[..length % 10].to_vec()).unwrap();
            files.replace(&near, of_other.clone()).unwrap();
            store.export_commit(&first, &target, FILE).unwrap();
            assert!(files.bytes(FILE).unwrap() == bytes, "{length}");
            assert_eq!(target.list("").unwrap(), [FILE, near.as_str()]);
            assert!(files.bytes(&near).unwrap() == of_other);
        }
    }
}

/// What is here is not written again, of a range neither.
#[test]
fn a_range_that_is_here_costs_nothing() {
    let (_, disk) = memory();
    let mut store = Store::create(disk, options(Index::Minimal)).unwrap();
    let first = block(&mut store, None, 0);
    let last = block(&mut store, Some(first), 1);
    let (files, target) = memory();
    store.export_commits(&[first, last], CommitFileOptions::default(), &target, FILE).unwrap();
    let before = store.stats().pack_bytes;
    store.import_commit(&*exported(&files.bytes(FILE).unwrap()), FILE).unwrap();
    assert_eq!(store.stats().pack_bytes, before);
}

/// A chunk that somebody has removed below an open store is lost, and what was in it is not here.
#[test]
fn a_commit_whose_chunk_is_lost_is_not_taken_for_one_that_is_here() {
    let (_, disk) = memory();
    let options = Options { chunk_bytes: 1, max_open_files: Some(1), ..options(Index::Minimal) };
    let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
    let first = block(&mut store, None, 0);
    let (bytes, _) = export(&store, &first);
    let mut packs = disk.list("").unwrap();
    packs.retain(|name| name.contains(".pack"));
    let its_chunk = packs.pop().unwrap();
    let mut head = first;
    for number in 1..4 {
        head = block(&mut store, Some(head), number);
    }
    store.close().unwrap();
    let mut store = Store::open(Arc::clone(&disk), options).unwrap();
    disk.remove(&its_chunk).unwrap();
    let error = store.import_commit(&*exported(&bytes), FILE).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains(&its_chunk), "{error}");
}
