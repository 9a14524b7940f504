//! What a hit and an insertion of the page cache cost in processor time, beside a random access to as
//! much memory: `cargo run --release -p varvite-bench --example cache_cost`.

use std::hint::black_box;
use std::time::Duration;

use varvite::cache::Cache;
use varvite::raw;

const PAGES: u32 = 250_000;

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn main() {
    let cache = Cache::new(u64::from(PAGES) * 4500);
    let page = [7u8; 4096];
    let (files, per_file) = (u64::from(PAGES) / 4000, 4000);
    let start = processor_time();
    for file in 0..files {
        for number in 0..per_file {
            raw::cache::insert(&cache, file, number, &page);
        }
    }
    report("insertion into an empty frame", start, files * u64::from(per_file));
    let held = cache.stats();
    println!("{held:?}, capacity {} pages", cache.capacity_pages());

    let mut state = 1;
    let rounds = 5_000_000u64;
    let start = processor_time();
    let mut found = 0u64;
    for _ in 0..rounds {
        let random = next(&mut state);
        let hit = raw::cache::get(&cache, random % files, (random >> 32) as u32 % per_file);
        found += u64::from(hit.is_some());
    }
    report("lookup, page not touched", start, rounds);
    println!("  {:.1} % found", found as f64 * 100.0 / rounds as f64);

    let start = processor_time();
    let mut sum = 0u64;
    for _ in 0..rounds {
        let random = next(&mut state);
        if let Some(hit) = raw::cache::get(&cache, random % files, (random >> 32) as u32 % per_file)
        {
            sum += u64::from(hit[(random >> 20) as usize % 4096]);
        }
    }
    report("lookup and one byte of the page", start, rounds);

    let start = processor_time();
    for _ in 0..rounds {
        let random = next(&mut state);
        sum += u64::from(
            black_box(raw::cache::get(&cache, random % 4, (random >> 32) as u32 % 16)).is_some(),
        );
    }
    report("lookup of one of 64 hot pages", start, rounds);

    let plain = vec![1u8; PAGES as usize * 4096];
    let start = processor_time();
    for _ in 0..rounds {
        let random = next(&mut state) ^ sum;
        sum += u64::from(plain[random as usize % plain.len()]);
    }
    report("one byte of as much memory, each after the other", start, rounds);

    let start = processor_time();
    for number in 0..1_000_000 {
        raw::cache::insert(&cache, 1 << 40, number, &page);
    }
    report("insertion in place of another", start, 1_000_000);
    println!("{:?} {sum}", cache.stats());
}

fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn report(what: &str, start: Duration, count: u64) {
    println!(
        "{what}: {:.1} ns",
        processor_time().saturating_sub(start).as_nanos() as f64 / count as f64
    );
}
