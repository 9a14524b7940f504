//! A writer, readers and helpers in every order of steps that a seed finds (only under `cfg(shuttle)`).

use std::sync::Arc;

use super::{Batch, Executor, Session, SessionOptions, Table, TableOptions};
use crate::disk::memory::MemoryDisk;

/// Runs work on a thread of the scheduler that shuttle controls.
struct Threads;

impl Executor for Threads {
    fn execute(&self, work: Box<dyn FnOnce() + Send>) {
        shuttle::thread::spawn(work);
    }
}

fn table(executor: Option<Arc<dyn Executor>>) -> Table {
    let options = SessionOptions { executor, ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::new(), options).expect("memory does not fail");
    let options =
        TableOptions { write_buffer_bytes: 200, size_ratio: 2, ..TableOptions::default() };
    session.create_table("t", options).expect("the options are fine")
}

/// Binds eight of sixteen keys to the round's number and unbinds another.
fn round(table: &mut Table, number: u8) {
    let mut batch = Batch::new();
    for key in 0..8 {
        batch.insert(&[number.wrapping_mul(3).wrapping_add(key) % 16], &[number]);
    }
    batch.delete(&[number % 16]);
    table.update(&batch).expect("memory does not fail");
}

/// All bindings, the same by lookup and by range.
fn content(view: &super::View) -> Vec<(Vec<u8>, Vec<u8>)> {
    use std::ops::Bound::Unbounded;
    let all = view.range(Unbounded, Unbounded).expect("memory does not fail");
    let keys: Vec<_> = all.iter().map(|(key, _)| key).collect();
    let found = view.lookup(&keys).expect("memory does not fail");
    for ((_, value), found) in all.iter().zip(found.iter()) {
        assert_eq!(found, Some(&value[..]));
    }
    all
}

#[test]
fn a_view_stays_the_same_while_its_merges_go_on() {
    shuttle::check_random(
        || {
            let mut table = table(Some(Arc::new(Threads)));
            let mut readers = Vec::new();
            for number in 0..6 {
                round(&mut table, number);
                let view = table.view();
                let expected = content(&view);
                readers.push(shuttle::thread::spawn(move || {
                    for _ in 0..2 {
                        assert_eq!(content(&view), expected);
                        shuttle::thread::yield_now();
                    }
                }));
            }
            for reader in readers {
                reader.join().expect("its assertions hold");
            }
        },
        1_000,
    );
}

#[test]
fn duplicates_on_two_threads_share_their_merges() {
    shuttle::check_random(
        || {
            let mut table = table(Some(Arc::new(Threads)));
            (0..4).for_each(|number| round(&mut table, number));
            let mut copy = table.duplicate("copy").expect("the name is fine");
            let other = shuttle::thread::spawn(move || {
                (10..14).for_each(|number| round(&mut copy, number));
                content(&copy.view())
            });
            (4..8).for_each(|number| round(&mut table, number));
            let (found, others) =
                (content(&table.view()), other.join().expect("it does not panic"));
            // The same rounds, one after the other and without help, bind the same.
            let alone = |rounds: [u8; 8]| {
                let mut table = self::table(None);
                rounds.into_iter().for_each(|number| round(&mut table, number));
                content(&table.view())
            };
            assert_eq!(found, alone([0, 1, 2, 3, 4, 5, 6, 7]));
            assert_eq!(others, alone([0, 1, 2, 3, 10, 11, 12, 13]));
        },
        1_000,
    );
}
