//! What opens or is made in one call, the log's sync, collection and pins, through C's functions.

use std::ptr::null;

use crate::calls::*;
use varvite_c::context::collect::*;
use varvite_c::context::store::*;
use varvite_c::context::tree::*;
use varvite_c::table::live::*;
use varvite_c::table::lookup::*;
use varvite_c::table::options::*;
use varvite_c::table::session::*;
use varvite_c::table::update::*;
use varvite_c::*;

/// Commits `block`, a child of none, with a value of its own, and gives the commit's hash.
fn commit(store: *mut varvite_store, block: u8) -> varvite_hash {
    let mut tree = slot();
    ok!(varvite_store_empty_tree(store, &raw mut tree));
    let value = vec![block; 2000];
    ok!(varvite_tree_add(tree, [bytes(b"value")].as_ptr(), 1, &bytes(&value)));
    let info = varvite_commit_info {
        parents: null(),
        parent_count: 0,
        date: i64::from(block),
        author: bytes(b"me"),
        message: NOTHING,
    };
    let mut hash = varvite_hash { bytes: [0; 32] };
    ok!(varvite_store_commit(store, tree, &raw const info, &raw mut hash));
    ok!(varvite_tree_close(tree));
    hash
}

fn is_readable(store: *mut varvite_store, commit: &varvite_hash, block: u8) {
    let (mut tree, mut found) = (slot(), Arena::default());
    ok!(varvite_store_checkout(store, commit, &raw mut tree));
    ok!(varvite_tree_find(tree, [bytes(b"value")].as_ptr(), 1, found.place()));
    assert_eq!(found.read(), [Some(vec![block; 2000])]);
    ok!(varvite_tree_close(tree));
}

fn status(store: *mut varvite_store) -> varvite_collect_status {
    // SAFETY: a status is numbers, for which zeros are values.
    let mut status: varvite_collect_status = unsafe { std::mem::zeroed() };
    ok!(varvite_store_collect_status(store, &raw mut status));
    status
}

fn pins(store: *mut varvite_store) -> Vec<Option<Vec<u8>>> {
    let mut found = Arena::default();
    ok!(varvite_store_pins(store, found.place()));
    found.read()
}

fn collect_to_the_end(store: *mut varvite_store) {
    let mut is_left = 1;
    for _ in 0..10_000 {
        if is_left == 0 {
            return;
        }
        ok!(varvite_store_collect_step(store, 64, &raw mut is_left));
        assert!(is_left == 0 || status(store).phase != VARVITE_COLLECT_NONE);
    }
    panic!("a collection of some commits does not end");
}

#[test]
fn a_collection_takes_what_neither_pins_nor_the_target_keep() {
    let (mut disk, mut store) = (slot(), slot());
    ok!(varvite_disk_memory(7, &raw mut disk));
    ok!(varvite_store_open_or_create(disk, null(), &raw mut store));
    let commits: Vec<varvite_hash> = (0..10).map(|block| commit(store, block)).collect();
    let pinned_of = |numbers: &[usize]| -> Vec<Option<Vec<u8>>> {
        numbers.iter().map(|it| Some(commits[*it].bytes.to_vec())).collect()
    };

    let (mut answer, mut added) = (-1, 0);
    ok!(varvite_store_pin(store, &raw const commits[5]));
    ok!(varvite_store_pin_every(store, 4, &raw mut added));
    let by_four = [0, 4, 5, 8];
    assert_eq!((added, pins(store)), (3, pinned_of(&by_four)));
    ok!(varvite_store_unpin(store, &raw const commits[4], &raw mut answer));
    assert_eq!(answer, 1);
    ok!(varvite_store_unpin(store, &raw const commits[4], &raw mut answer));
    assert_eq!((answer, pins(store)), (0, pinned_of(&[0, 5, 8])));
    fails!(VARVITE_INVALID, varvite_store_pin_every(store, 0, &raw mut added));
    fails!(VARVITE_MISSING, varvite_store_pin(store, &varvite_hash { bytes: [9; 32] }));

    // Begun and given up: nothing is collected.
    assert_eq!(status(store).phase, VARVITE_COLLECT_NONE);
    ok!(varvite_store_collect(store, &raw const commits[7]));
    fails!(VARVITE_INVALID, varvite_store_collect(store, &raw const commits[7]));
    let begun = status(store);
    assert_eq!((begun.phase, begun.has_target), (VARVITE_COLLECT_MARKING, 1));
    assert_eq!((begun.target.bytes, begun.collections), (commits[7].bytes, 0));
    ok!(varvite_store_collect_cancel(store, &raw mut answer));
    assert_eq!(answer, 1);
    ok!(varvite_store_collect_cancel(store, &raw mut answer));
    assert_eq!((answer, status(store).phase), (0, VARVITE_COLLECT_NONE));
    is_readable(store, &commits[1], 1);

    // Paused, its steps do nothing; resumed, they end it.
    ok!(varvite_store_collect_keeping_newest(store, 3, &raw mut answer));
    assert_eq!((answer, status(store).target.bytes), (1, commits[7].bytes));
    ok!(varvite_store_collect_keeping_since(store, 9, &raw mut answer));
    assert_eq!(answer, 0);
    ok!(varvite_store_collect_pause(store));
    ok!(varvite_store_collect_step(store, 1 << 20, &raw mut answer));
    let paused = status(store);
    assert_eq!((answer, paused.is_paused, paused.phase), (0, 1, VARVITE_COLLECT_MARKING));
    ok!(varvite_store_collect_resume(store));
    collect_to_the_end(store);
    assert_eq!((status(store).phase, status(store).collections), (VARVITE_COLLECT_NONE, 1));

    // Opened again, the same calls find what stays, and say of the others that they are collected.
    ok!(varvite_store_close(store));
    ok!(varvite_store_open_or_create(disk, null(), &raw mut store));
    assert_eq!(pins(store), pinned_of(&[0, 5, 8]));
    for (block, hash) in (0..).zip(&commits) {
        if matches!(block, 0 | 5 | 7..) {
            is_readable(store, hash, block);
        } else {
            let mut tree = slot();
            fails!(VARVITE_COLLECTED, varvite_store_checkout(store, hash, &raw mut tree));
            fails!(VARVITE_COLLECTED, varvite_store_pin(store, hash));
            fails!(VARVITE_COLLECTED, varvite_store_collect(store, hash));
        }
    }
    ok!(varvite_store_collect_keeping_since(store, 9, &raw mut answer));
    assert_eq!((answer, status(store).target.bytes), (1, commits[9].bytes));
    collect_to_the_end(store);
    is_readable(store, &commits[8], 8); // pinned
    let mut tree = slot();
    fails!(VARVITE_COLLECTED, varvite_store_checkout(store, &raw const commits[7], &raw mut tree));

    ok!(varvite_store_close(store));
    fails!(VARVITE_CLOSED, varvite_store_collect(store, &raw const commits[9]));
    fails!(VARVITE_CLOSED, varvite_store_collect_step(store, 1, &raw mut answer));
    fails!(VARVITE_CLOSED, varvite_store_collect_keeping_newest(store, 1, &raw mut answer));
    fails!(VARVITE_CLOSED, varvite_store_collect_pause(store));
    fails!(VARVITE_CLOSED, varvite_store_collect_resume(store));
    fails!(VARVITE_CLOSED, varvite_store_collect_cancel(store, &raw mut answer));
    fails!(VARVITE_CLOSED, varvite_store_unpin(store, &raw const commits[9], &raw mut answer));
    fails!(VARVITE_CLOSED, varvite_store_pin_every(store, 1, &raw mut added));
    fails!(VARVITE_CLOSED, varvite_store_pins(store, Arena::default().place()));
    fails!(VARVITE_INVALID, varvite_store_collect(store, null()));
    fails!(VARVITE_INVALID, varvite_store_collect_status(store, std::ptr::null_mut()));
    ok!(varvite_disk_close(disk));
}

#[test]
fn sessions_and_tables_are_made_by_the_first_opening_and_found_by_the_next() {
    let mut disk = slot();
    ok!(varvite_disk_memory(8, &raw mut disk));
    // SAFETY: options are numbers and pointers, for which zeros are values.
    let mut options: varvite_session_options = unsafe { std::mem::zeroed() };
    ok!(varvite_session_options_default(&raw mut options));
    options.log = VARVITE_LOG_WRITTEN;
    let name = text("utxo");
    let value = |number: u8| format!("value {number}").into_bytes();
    for run in 0..2_u8 {
        let (mut session, mut table, mut found) = (slot(), slot(), Arena::default());
        ok!(varvite_session_open_or_create(disk, &raw const options, &raw mut session));
        let mut second = slot();
        fails!(
            VARVITE_LOCKED,
            varvite_session_open_or_create(disk, &raw const options, &raw mut second)
        );
        let table_place = &raw mut table;
        ok!(varvite_session_open_or_create_table(session, name.as_ptr(), null(), table_place));
        let mut again = slot();
        let again_place = &raw mut again;
        fails!(
            VARVITE_LOCKED,
            varvite_session_open_or_create_table(session, name.as_ptr(), null(), again_place)
        );
        ok!(varvite_table_get(table, &bytes(b"key"), found.place()));
        assert_eq!(found.read(), [(run == 1).then(|| value(0))]);

        // SAFETY: statistics are numbers, for which zeros are values.
        let mut stats: varvite_session_stats = unsafe { std::mem::zeroed() };
        ok!(varvite_session_get_stats(session, &raw mut stats));
        let before = stats.log_syncs;
        let (key, new) = (bytes(b"key"), value(run));
        let insert = varvite_operation {
            kind: VARVITE_INSERT,
            key,
            value: bytes(&new),
            held: std::ptr::null_mut(),
        };
        ok!(varvite_table_apply(table, &raw const insert, 1));
        ok!(varvite_session_sync_log(session));
        ok!(varvite_session_sync_log(session)); // all is durable: no sync
        ok!(varvite_session_get_stats(session, &raw mut stats));
        assert_eq!(stats.log_syncs, before + 1);
        ok!(varvite_table_close(table));
        ok!(varvite_session_close(session));
        fails!(VARVITE_CLOSED, varvite_session_sync_log(session));
    }
    ok!(varvite_disk_close(disk));
}

#[test]
fn without_a_log_nothing_is_synced_and_no_table_is_found_again() {
    let (mut disk, mut session, mut table) = (slot(), slot(), slot());
    ok!(varvite_disk_memory(9, &raw mut disk));
    ok!(varvite_session_open_or_create(disk, null(), &raw mut session));
    fails!(VARVITE_INVALID, varvite_session_sync_log(session));
    let (name, place) = (text("utxo"), &raw mut table);
    fails!(
        VARVITE_INVALID,
        varvite_session_open_or_create_table(session, name.as_ptr(), null(), place)
    );
    // A folder that holds a session is no place for a store.
    let mut store = slot();
    fails!(VARVITE_INVALID, varvite_store_open_or_create(disk, null(), &raw mut store));
    ok!(varvite_session_close(session));
    ok!(varvite_disk_close(disk));
}
