//! Files go while the folder's lock is held, whichever handle is the last to be dropped.

use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use varvite::disk::memory::MemoryDisk;
use varvite::{Batch, Session, SessionOptions, TableOptions};

use crate::hooked_disk::{Call, HookedDisk};

#[test]
fn the_last_handle_removes_files_before_the_lock_goes() {
    for last in ["table", "view", "cursor", "session"] {
        let locked = Arc::new(AtomicBool::new(false));
        let (removed, unlocked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let seen = (Arc::clone(&locked), Arc::clone(&removed), Arc::clone(&unlocked));
        let disk = HookedDisk::with_lock(MemoryDisk::new(), Arc::clone(&locked), move |call, _| {
            if call == Call::Remove {
                seen.1.fetch_add(1, SeqCst);
                seen.2.fetch_add(u64::from(!seen.0.load(SeqCst)), SeqCst);
            }
        });
        let session = Session::create(disk, SessionOptions::default()).unwrap();
        let options = TableOptions { write_buffer_bytes: 5_000, ..TableOptions::default() };
        let mut table = session.create_table("t", options).unwrap();
        for number in 0..400_u32 {
            table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 80])).unwrap();
        }
        let view = table.view();
        let mut cursor = view.cursor(Unbounded, Unbounded).unwrap();
        assert!(cursor.next().unwrap().is_some());
        let mut handles: Vec<(&str, Box<dyn std::any::Any>)> = vec![
            ("table", Box::new(table)),
            ("view", Box::new(view)),
            ("cursor", Box::new(cursor)),
            ("session", Box::new(session)),
        ];
        handles.sort_by_key(|(name, _)| *name == last);
        for (_, handle) in handles {
            drop(handle);
        }
        assert!(!locked.load(SeqCst));
        assert!(removed.load(SeqCst) > 3, "{last}");
        assert_eq!(unlocked.load(SeqCst), 0, "removed without the lock, {last} last");
    }
}
