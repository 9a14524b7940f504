//! What a read of 4 KiB costs in processor time, in batches of 256, through the ring and one at a time:
//! `cargo run --release -p varvite-bench --example read_cost FOLDER`. Makes a file of 512 MiB there and removes it.

use std::time::Duration;

use varvite::disk::os::OsDisk;
use varvite::disk::{ALIGNMENT, Access, Buffer, Disk, Mode, Read};

const PAGES: u64 = 131_072;
const BATCH: usize = 256;

fn main() -> varvite::Result<()> {
    let root = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let disk = OsDisk::new(&root)?;
    let plain = OsDisk::without_ring(&root)?;
    let name = "read_cost.data";
    let file = disk.open(name, Mode::Create, Access::Buffered)?;
    for piece in 0..PAGES / 256 {
        file.write_at(piece << 20, &vec![piece as u8; 1 << 20])?;
    }
    file.sync()?;
    drop(file);
    for (access, batches) in [(Access::Buffered, 1000), (Access::Direct, 60)] {
        for (what, disk) in [("one at a time", &plain), ("ring", &disk)] {
            measure(&format!("{access:?}, {what}"), &**disk, name, access, batches)?;
        }
        let direct = disk.open(name, Mode::Read, access)?;
        let start = now();
        let mut state = 1;
        let mut buffer = Buffer::new(ALIGNMENT);
        for _ in 0..batches * BATCH {
            direct.read_exact_at(random_page(&mut state), buffer.as_mut_slice())?;
        }
        report(&format!("{access:?}, read_at"), start, batches * BATCH);
    }
    disk.remove(name)
}

fn measure(
    what: &str,
    disk: &dyn Disk,
    name: &str,
    access: Access,
    batches: usize,
) -> varvite::Result<()> {
    let file = disk.open(name, Mode::Read, access)?;
    let mut queue = disk.queue(BATCH)?;
    let mut buffers: Vec<Buffer> = (0..BATCH).map(|_| Buffer::new(ALIGNMENT)).collect();
    let mut state = 1;
    // The first time through brings the file to the page cache.
    let mut start = now();
    for batch in 0..batches + batches / 10 {
        if batch == batches / 10 {
            start = now();
        }
        for tag in 0..BATCH as u64 {
            let buffer = buffers.pop().expect("as many as the batch");
            let (file, offset) = (file.clone(), random_page(&mut state));
            queue.submit(Read { file, offset, length: ALIGNMENT, buffer, tag })?;
        }
        while let Some(done) = queue.complete()? {
            buffers.push(done.exact()?.buffer);
        }
    }
    report(what, start, batches * BATCH);
    Ok(())
}

fn random_page(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % PAGES * ALIGNMENT as u64
}

/// Processor time and time.
fn now() -> [Duration; 2] {
    use rustix::time::{ClockId, clock_gettime};
    [ClockId::ProcessCPUTime, ClockId::Monotonic].map(|clock| {
        let now = clock_gettime(clock);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    })
}

fn report(what: &str, start: [Duration; 2], count: usize) {
    let end = now();
    let [processor, wall] =
        [0, 1].map(|clock| end[clock].saturating_sub(start[clock]).as_nanos() as f64 / 1000.0);
    let count = count as f64;
    println!("{what}: {:.2} µs of processor, {:.2} µs", processor / count, wall / count);
}
