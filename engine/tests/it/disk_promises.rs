//! What every disk promises: one function a promise. Whoever has a kind of disk runs them on it.

use std::sync::Arc;

use varvite::Kind;
use varvite::disk::{
    ALIGNMENT, Access, Buffer, Disk, File, Linked, Mode, Queue, Read, SerialQueue, read_batch,
};

/// Calls the macro `each` with the names of all promises.
macro_rules! for_each_promise {
    ($each:ident) => {
        $each! {
            written_bytes_are_read_back
            reads_end_where_the_file_ends
            an_early_end_is_corrupt
            lengths_are_set_and_zeros_fill
            modes_say_what_must_be_there
            a_file_opened_to_read_refuses_writes
            paths_outside_are_invalid
            folders_list_what_they_hold
            folders_are_not_files
            empty_folders_go_and_others_stay
            names_move_and_replace
            removed_files_stay_readable
            locks_exclude_and_name_their_holder
            links_share_or_copy_content
            direct_access_is_aligned
            hints_and_reservations_change_nothing
            a_full_queue_refuses
            a_queue_brings_every_read_once
            a_queue_gives_what_one_at_a_time_gives
            a_queue_reads_direct
            a_queue_reads_into_memory_of_any_queue
            a_queue_reports_short_reads
            a_queue_may_be_dropped_with_reads_in_flight
            reads_larger_than_their_buffer_are_refused
            a_batch_reads_more_than_the_queue_holds
            a_batch_returns_the_first_error
            a_queue_outlives_the_name_of_its_file
        }
    };
}
#[allow(unused_imports, reason = "a disk elsewhere takes the list")]
pub(crate) use for_each_promise;

macro_rules! list {
    ($($name:ident)*) => {
        /// Every promise with its name.
        #[allow(dead_code, reason = "for disks that are tested elsewhere")]
        pub const PROMISES: &[(&str, fn(&dyn Disk))] = &[$((stringify!($name), $name)),*];
    };
}
for_each_promise!(list);

pub fn file(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(path, Mode::Create, Access::Buffered).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

pub fn all(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize + 1];
    let found = file.read_at(0, &mut bytes).unwrap();
    bytes.truncate(found);
    bytes
}

/// Every 4 bytes hold their own offset.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32 / 4).flat_map(|index| (index * 4).to_le_bytes()).collect()
}

pub fn read(file: &Arc<dyn File>, offset: u64, length: usize, tag: u64) -> Read {
    Read { file: Arc::clone(file), offset, length, buffer: Buffer::new(length), tag }
}

#[track_caller]
pub fn fails<T>(kind: Kind, outcome: varvite::Result<T>) -> String {
    let error = outcome.err().expect("this call fails");
    assert_eq!(error.kind(), kind, "{error}");
    error.detail().to_owned()
}

pub fn written_bytes_are_read_back(disk: &dyn Disk) {
    let file = file(disk, "a", b"hello world");
    file.write_at(6, b"there").unwrap();
    file.write_at(20, b"!").unwrap();
    let expected = b"hello there\0\0\0\0\0\0\0\0\0!";
    assert_eq!(all(&*file), expected);
    file.sync().unwrap();
    disk.sync_directory("").unwrap();
    let again = disk.open("a", Mode::Read, Access::Buffered).unwrap();
    assert_eq!(all(&*again), expected);
    let mut middle = [0; 5];
    again.read_exact_at(6, &mut middle).unwrap();
    assert_eq!(&middle, b"there");
    assert_eq!(again.path(), "a");
}

pub fn reads_end_where_the_file_ends(disk: &dyn Disk) {
    let file = file(disk, "a", b"12345");
    let mut buffer = [9; 8];
    assert_eq!(file.read_at(2, &mut buffer).unwrap(), 3);
    assert_eq!(&buffer[..3], b"345");
    assert_eq!(file.read_at(5, &mut buffer).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut buffer).unwrap(), 0);
    assert_eq!(file.read_at(0, &mut []).unwrap(), 0);
}

pub fn an_early_end_is_corrupt(disk: &dyn Disk) {
    let file = file(disk, "short", b"12345");
    let detail = fails(Kind::Corrupt, file.read_exact_at(3, &mut [0; 4]));
    assert!(detail.starts_with("short is damaged at byte 5"), "{detail}");
}

pub fn lengths_are_set_and_zeros_fill(disk: &dyn Disk) {
    let file = file(disk, "a", b"12345");
    assert!(!file.is_empty().unwrap());
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(all(&*file), b"12\0\0");
    file.write_at(9, b"").unwrap();
    assert_eq!(file.len().unwrap(), 4);
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
}

pub fn modes_say_what_must_be_there(disk: &dyn Disk) {
    for mode in [Mode::Read, Mode::Write] {
        let detail = fails(Kind::Missing, disk.open("a", mode, Access::Buffered));
        assert!(detail.contains('a'), "{detail}");
    }
    fails(Kind::Missing, disk.open("folder/a", Mode::Create, Access::Buffered));
    file(disk, "a", b"1");
    fails(Kind::Exists, disk.open("a", Mode::Create, Access::Buffered));
    disk.open("a", Mode::Write, Access::Buffered).unwrap().write_at(1, b"2").unwrap();
    assert_eq!(all(&*disk.open("a", Mode::Read, Access::Buffered).unwrap()), b"12");
    // Asking for direct access creates the file once, whether it is granted or not.
    disk.open("b", Mode::Create, Access::Direct).unwrap();
}

pub fn a_file_opened_to_read_refuses_writes(disk: &dyn Disk) {
    file(disk, "a", b"1");
    let reader = disk.open("a", Mode::Read, Access::Buffered).unwrap();
    fails(Kind::Io, reader.write_at(0, b"2"));
    assert!(reader.set_len(0).is_err());
    assert_eq!(all(&*reader), b"1");
}

pub fn paths_outside_are_invalid(disk: &dyn Disk) {
    for path in ["", "/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a\0b", "a/"] {
        fails(Kind::Invalid, disk.open(path, Mode::Read, Access::Buffered));
        fails(Kind::Invalid, disk.open(path, Mode::Create, Access::Buffered));
        fails(Kind::Invalid, disk.remove(path));
        fails(Kind::Invalid, disk.rename(path, "b"));
        fails(Kind::Invalid, disk.create_directory(path));
        fails(Kind::Invalid, disk.lock(path, "me"));
    }
    for path in ["/", "..", "a//b"] {
        fails(Kind::Invalid, disk.list(path));
        fails(Kind::Invalid, disk.sync_directory(path));
        fails(Kind::Invalid, disk.exists(path));
    }
}

pub fn folders_list_what_they_hold(disk: &dyn Disk) {
    assert!(disk.list("").unwrap().is_empty());
    for folder in ["runs", "runs/old", "snapshots"] {
        disk.create_directory(folder).unwrap();
        disk.create_directory(folder).unwrap();
    }
    for path in ["runs/2", "runs/10", "runs/old/1", "top"] {
        file(disk, path, b"");
    }
    assert_eq!(disk.list("").unwrap(), ["runs", "snapshots", "top"]);
    assert_eq!(disk.list("runs").unwrap(), ["10", "2", "old"]);
    assert_eq!(disk.list("runs/old").unwrap(), ["1"]);
    assert!(disk.list("snapshots").unwrap().is_empty());
    for (path, there) in [("", true), ("runs", true), ("runs/2", true), ("runs/3", false)] {
        assert_eq!(disk.exists(path).unwrap(), there, "{path}");
    }
    fails(Kind::Missing, disk.list("nowhere"));
    fails(Kind::Missing, disk.sync_directory("nowhere"));
    fails(Kind::Missing, disk.create_directory("nowhere/below"));
    fails(Kind::Exists, disk.create_directory("top"));
    disk.sync_directory("runs/old").unwrap();
}

pub fn folders_are_not_files(disk: &dyn Disk) {
    disk.create_directory("folder").unwrap();
    file(disk, "a", b"1");
    fails(Kind::Invalid, disk.open("folder", Mode::Read, Access::Buffered));
    fails(Kind::Invalid, disk.open("folder", Mode::Write, Access::Buffered));
    fails(Kind::Exists, disk.open("folder", Mode::Create, Access::Buffered));
    fails(Kind::Invalid, disk.remove("folder"));
    fails(Kind::Invalid, disk.rename("folder", "other"));
    fails(Kind::Invalid, disk.rename("a", "folder"));
    fails(Kind::Invalid, disk.link_or_copy("folder", "other"));
    assert_eq!(disk.list("").unwrap(), ["a", "folder"]);
}

pub fn empty_folders_go_and_others_stay(disk: &dyn Disk) {
    fails(Kind::Missing, disk.remove_directory("folder"));
    disk.create_directory("folder").unwrap();
    file(disk, "folder/a", b"1");
    file(disk, "b", b"2");
    fails(Kind::Io, disk.remove_directory("folder"));
    fails(Kind::Invalid, disk.remove_directory("b"));
    fails(Kind::Invalid, disk.remove_directory(""));
    assert_eq!(disk.list("folder").unwrap(), ["a"]);
    disk.remove("folder/a").unwrap();
    disk.remove_directory("folder").unwrap();
    assert_eq!(disk.list("").unwrap(), ["b"]);
    disk.create_directory("folder").unwrap();
    assert_eq!(disk.list("folder").unwrap(), Vec::<String>::new());
}

pub fn names_move_and_replace(disk: &dyn Disk) {
    disk.create_directory("folder").unwrap();
    let first = file(disk, "a", b"first");
    file(disk, "b", b"second");
    disk.rename("a", "b").unwrap();
    assert_eq!(disk.list("").unwrap(), ["b", "folder"]);
    first.write_at(0, b"F").unwrap();
    assert_eq!(all(&*disk.open("b", Mode::Read, Access::Buffered).unwrap()), b"First");
    disk.rename("b", "folder/c").unwrap();
    disk.rename("folder/c", "folder/c").unwrap();
    assert_eq!(disk.list("folder").unwrap(), ["c"]);
    fails(Kind::Missing, disk.rename("b", "d"));
    fails(Kind::Missing, disk.rename("folder/c", "nowhere/c"));
    disk.sync_directory("").unwrap();
    disk.sync_directory("folder").unwrap();
}

pub fn removed_files_stay_readable(disk: &dyn Disk) {
    let file = file(disk, "a", b"still here");
    disk.remove("a").unwrap();
    assert_eq!(all(&*file), b"still here");
    if disk.exists("a").unwrap() {
        // Where open files keep their names, nobody can use this one before the file is closed; wine 8 lets it be read,
        // and removed once more.
        match disk.open("a", Mode::Read, Access::Buffered) {
            Ok(same) => assert_eq!(all(&*same), b"still here"),
            Err(error) => assert_eq!(error.kind(), Kind::Io, "{error}"),
        }
        if let Err(error) = disk.remove("a") {
            assert_eq!(error.kind(), Kind::Io, "{error}");
        }
        drop(file);
        fails(Kind::Missing, disk.remove("a"));
        file_is_new(disk);
        return;
    }
    fails(Kind::Missing, disk.remove("a"));
    let other = disk.open("a", Mode::Create, Access::Buffered).unwrap();
    assert!(other.is_empty().unwrap());
    assert_eq!(all(&*file), b"still here");
}

fn file_is_new(disk: &dyn Disk) {
    let other = disk.open("a", Mode::Create, Access::Buffered).unwrap();
    assert!(other.is_empty().unwrap());
}

pub fn locks_exclude_and_name_their_holder(disk: &dyn Disk) {
    let held = disk.lock("lock", "process 4711").unwrap();
    let detail = fails(Kind::Locked, disk.lock("lock", "process 4712"));
    assert!(detail.contains("process 4711"), "{detail}");
    let other = disk.lock("other", "process 4711").unwrap();
    drop(held);
    let held = disk.lock("lock", "me").unwrap();
    assert!(fails(Kind::Locked, disk.lock("lock", "you")).contains("locked by me:"));
    assert!(disk.exists("lock").unwrap());
    drop((held, other));
}

pub fn links_share_or_copy_content(disk: &dyn Disk) {
    let content = pattern(100_000);
    let source = file(disk, "a", &content);
    source.sync().unwrap();
    let linked = disk.link_or_copy("a", "b").unwrap();
    fails(Kind::Exists, disk.link_or_copy("a", "b"));
    fails(Kind::Missing, disk.link_or_copy("c", "d"));
    fails(Kind::Missing, disk.link_or_copy("a", "nowhere/d"));
    assert!(!disk.exists("d").unwrap());
    let target = disk.open("b", Mode::Read, Access::Buffered).unwrap();
    assert_eq!(all(&*target), content);
    source.write_at(0, b"changed").unwrap();
    let shared = all(&*target).starts_with(b"changed");
    assert_eq!(shared, linked == Linked::HardLink, "{linked:?}");
    disk.remove("a").unwrap();
    assert_eq!(all(&*target).len(), content.len());
}

pub fn direct_access_is_aligned(disk: &dyn Disk) {
    let file = disk.open("a", Mode::Create, Access::Direct).unwrap();
    let mut buffer = Buffer::new(3 * ALIGNMENT);
    buffer.as_mut_slice().copy_from_slice(&pattern(3 * ALIGNMENT));
    file.write_at(0, buffer.as_slice()).unwrap();
    file.set_len(2 * ALIGNMENT as u64 + 100).unwrap();
    buffer.as_mut_slice().fill(0);
    assert_eq!(file.read_at(0, buffer.as_mut_slice()).unwrap(), 2 * ALIGNMENT + 100);
    assert_eq!(
        buffer.as_slice()[..2 * ALIGNMENT + 100],
        pattern(3 * ALIGNMENT)[..2 * ALIGNMENT + 100]
    );
    let last = &mut buffer.as_mut_slice()[..ALIGNMENT];
    assert_eq!(file.read_at(2 * ALIGNMENT as u64, last).unwrap(), 100);
    assert_eq!(file.read_at(1 << 30, last).unwrap(), 0);
    if file.access() == Access::Direct {
        fails(Kind::Invalid, file.read_at(1, buffer.as_mut_slice()));
        fails(Kind::Invalid, file.read_at(0, &mut buffer.as_mut_slice()[..10]));
        fails(Kind::Invalid, file.write_at(512, buffer.as_slice()));
        fails(Kind::Invalid, file.write_at(0, &buffer.as_slice()[512..512 + ALIGNMENT]));
    }
}

pub fn hints_and_reservations_change_nothing(disk: &dyn Disk) {
    let content = pattern(50_000);
    let file = file(disk, "a", &content);
    file.preallocate(1 << 20).unwrap();
    file.preallocate(0).unwrap();
    assert_eq!(file.len().unwrap(), 50_000);
    for (offset, length) in
        [(0, 50_000), (0, 0), (1, 2), (1 << 40, 5), (0, u64::MAX), (u64::MAX, 1)]
    {
        file.start_writeback(offset, length);
        file.forget(offset, length);
    }
    assert_eq!(all(&*file), content);
    assert!(!disk.root().is_empty());
}

pub fn a_full_queue_refuses(disk: &dyn Disk) {
    let file = file(disk, "a", b"12345");
    let mut queue = disk.queue(2).unwrap();
    assert_eq!(queue.depth(), 2);
    assert!(queue.complete().unwrap().is_none());
    queue.submit(read(&file, 0, 5, 1)).unwrap();
    queue.submit(read(&file, 1, 4, 2)).unwrap();
    fails(Kind::Invalid, queue.submit(read(&file, 0, 5, 3)));
    assert_eq!(queue.pending(), 2);
    queue.complete().unwrap().unwrap().exact().unwrap();
    queue.submit(read(&file, 2, 3, 3)).unwrap();
    assert_eq!(queue.pending(), 2);
}

pub fn a_queue_brings_every_read_once(disk: &dyn Disk) {
    let pages = 700;
    let file = file(disk, "a", &pattern(pages * ALIGNMENT));
    for depth in [1, 7, 256, 1000, 5000] {
        let mut queue = disk.queue(depth).unwrap();
        let mut seen = vec![0; pages];
        let batch = pages.min(depth);
        for page in 0..batch {
            queue.submit(read(&file, (page * ALIGNMENT) as u64, ALIGNMENT, page as u64)).unwrap();
        }
        while let Some(completion) = queue.complete().unwrap() {
            let done = completion.exact().unwrap();
            seen[done.tag as usize] += 1;
            assert_eq!(done.buffer.as_slice()[..4], (done.offset as u32).to_le_bytes());
        }
        assert!(seen[..batch].iter().all(|&count| count == 1), "depth {depth}");
        assert_eq!(queue.pending(), 0);
    }
}

/// The tags in order of completion do not matter; what each tag brought does.
fn outcomes(queue: &mut dyn Queue, file: &Arc<dyn File>) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut place = 12345u64;
    for tag in 0..300 {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (offset, length) = ((place >> 33) % 90_000, (place >> 20) as usize % 9000);
        queue.submit(read(file, offset, length, tag)).unwrap();
        if tag % 3 == 0 {
            let done = queue.complete().unwrap().unwrap();
            let length = done.outcome.unwrap();
            found.push((done.read.tag, done.read.buffer.as_slice()[..length].to_vec()));
        }
    }
    while let Some(done) = queue.complete().unwrap() {
        let length = done.outcome.unwrap();
        found.push((done.read.tag, done.read.buffer.as_slice()[..length].to_vec()));
    }
    found.sort();
    found
}

pub fn a_queue_gives_what_one_at_a_time_gives(disk: &dyn Disk) {
    let file = file(disk, "a", &pattern(80_000));
    let expected = outcomes(&mut SerialQueue::new(300), &file);
    assert_eq!(expected.len(), 300);
    for _ in 0..3 {
        assert_eq!(outcomes(&mut *disk.queue(300).unwrap(), &file), expected);
    }
}

pub fn a_queue_reads_direct(disk: &dyn Disk) {
    let pages = 100;
    file(disk, "a", &pattern(pages * ALIGNMENT + 1000)).sync().unwrap();
    let file = disk.open("a", Mode::Read, Access::Direct).unwrap();
    let mut queue = disk.queue(32).unwrap();
    let mut count = 0;
    let reads =
        (0..=pages as u64).map(|page| read(&file, page * ALIGNMENT as u64, ALIGNMENT, page));
    for next in reads {
        queue.submit(next).unwrap();
        if queue.pending() == 32 {
            let done = queue.complete().unwrap().unwrap();
            check_page(&done.read, done.outcome.unwrap(), pages);
            count += 1;
        }
    }
    while let Some(done) = queue.complete().unwrap() {
        check_page(&done.read, done.outcome.unwrap(), pages);
        count += 1;
    }
    assert_eq!(count, pages + 1);
}

/// More memory than a queue has of its own kind, some of it of a queue that is gone already, or given
/// back while the queue goes on.
pub fn a_queue_reads_into_memory_of_any_queue(disk: &dyn Disk) {
    let pages = 100;
    file(disk, "a", &pattern(pages * ALIGNMENT + 1000)).sync().unwrap();
    let mut queue = disk.queue(16).unwrap();
    let mut gone = disk.queue(3).unwrap();
    let mut buffers: Vec<_> = (0..5).map(|_| gone.buffer(ALIGNMENT)).collect();
    drop(gone);
    buffers.extend((0..40).map(|_| queue.buffer(ALIGNMENT)));
    buffers.push(queue.buffer(3 * ALIGNMENT));
    for access in [Access::Buffered, Access::Direct] {
        let file = disk.open("a", Mode::Read, access).unwrap();
        for page in 0..=pages as u64 {
            let buffer = buffers.pop().unwrap_or_else(|| Buffer::new(ALIGNMENT));
            let offset = page * ALIGNMENT as u64;
            let next =
                Read { file: Arc::clone(&file), offset, length: ALIGNMENT, buffer, tag: page };
            queue.submit(next).unwrap();
            if queue.pending() == 16 {
                let done = queue.complete().unwrap().unwrap();
                check_page(&done.read, done.outcome.unwrap(), pages);
                // Every seventh is given back, and others take its place.
                buffers.extend((page % 7 != 0).then_some(done.read.buffer));
            }
        }
        while let Some(done) = queue.complete().unwrap() {
            check_page(&done.read, done.outcome.unwrap(), pages);
            buffers.push(done.read.buffer);
        }
    }
    drop(queue);
    assert!(buffers.iter_mut().all(|buffer| buffer.as_mut_slice().len() >= ALIGNMENT));
}

fn check_page(read: &Read, found: usize, pages: usize) {
    assert_eq!(found, if read.tag < pages as u64 { ALIGNMENT } else { 1000 });
    assert_eq!(read.buffer.as_slice()[..4], (read.offset as u32).to_le_bytes());
}

pub fn a_queue_reports_short_reads(disk: &dyn Disk) {
    let file = file(disk, "a", b"12345");
    let mut queue = disk.queue(4).unwrap();
    for (offset, found) in [(0, 5), (3, 2), (5, 0), (1 << 40, 0)] {
        queue.submit(read(&file, offset, 10, 0)).unwrap();
        assert_eq!(queue.complete().unwrap().unwrap().outcome.unwrap(), found);
    }
    queue.submit(read(&file, 3, 10, 0)).unwrap();
    let detail = fails(Kind::Corrupt, queue.complete().unwrap().unwrap().exact());
    assert!(detail.contains("byte 5"), "{detail}");
    queue.submit(read(&file, 0, 0, 8)).unwrap();
    assert_eq!(queue.complete().unwrap().unwrap().exact().unwrap().tag, 8);
}

pub fn a_queue_may_be_dropped_with_reads_in_flight(disk: &dyn Disk) {
    let file = file(disk, "a", &pattern(100 * ALIGNMENT));
    file.sync().unwrap();
    let direct = disk.open("a", Mode::Read, Access::Direct).unwrap();
    for round in 0..20 {
        let mut queue = disk.queue(100).unwrap();
        for page in 0..100 {
            queue.submit(read(&direct, page * ALIGNMENT as u64, ALIGNMENT, page)).unwrap();
        }
        for _ in 0..round {
            queue.complete().unwrap().unwrap().exact().unwrap();
        }
        drop(queue);
    }
    assert_eq!(Arc::strong_count(&direct), 1);
}

pub fn reads_larger_than_their_buffer_are_refused(disk: &dyn Disk) {
    let file = file(disk, "a", b"12345");
    let mut queue = disk.queue(1).unwrap();
    let mut wrong = read(&file, 0, ALIGNMENT, 0);
    wrong.length += 1;
    fails(Kind::Invalid, queue.submit(wrong));
    assert_eq!(queue.pending(), 0);
}

pub fn a_batch_reads_more_than_the_queue_holds(disk: &dyn Disk) {
    let file = file(disk, "a", &pattern(500 * 64));
    let mut queue = disk.queue(9).unwrap();
    let mut sum = 0;
    let reads = (0..500).map(|index| read(&file, index * 64, 64, index));
    read_batch(&mut *queue, reads, |read| {
        assert_eq!(read.buffer.as_slice()[..4], (read.offset as u32).to_le_bytes());
        sum += read.tag;
        Ok(())
    })
    .unwrap();
    assert_eq!(sum, 499 * 500 / 2);
}

pub fn a_batch_returns_the_first_error(disk: &dyn Disk) {
    let file = file(disk, "a", &pattern(64 * 100));
    let mut queue = disk.queue(10).unwrap();
    let reads = (0..200).map(|index| read(&file, index * 64, 64, index));
    fails(Kind::Corrupt, read_batch(&mut *queue, reads, |_| Ok(())));
    assert_eq!(queue.pending(), 0);
}

pub fn a_queue_outlives_the_name_of_its_file(disk: &dyn Disk) {
    let file = file(disk, "a", b"12345");
    let mut queue = disk.queue(1).unwrap();
    queue.submit(read(&file, 0, 5, 0)).unwrap();
    drop(file);
    disk.remove("a").unwrap();
    let done = queue.complete().unwrap().unwrap().exact().unwrap();
    assert_eq!(&done.buffer.as_slice()[..5], b"12345");
}
