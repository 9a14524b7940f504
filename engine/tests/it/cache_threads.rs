//! Several threads on one cache: every page found is the page asked for.

use varvite::cache::Cache;
use varvite::raw;
use varvite::raw::format::hash::combine;

fn bytes(file: u64, page: u32) -> [u8; 4096] {
    [(combine(file, u64::from(page)) & 0xff) as u8; 4096]
}

#[test]
fn threads_share_a_cache() {
    let cache = Cache::new(300_000);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let cache = &cache;
            scope.spawn(move || {
                for step in 0..20_000u64 {
                    let random = combine(thread, step);
                    let (file, page) = (random % 3, (random >> 40) as u32 % 60);
                    let found = raw::cache::get(cache, file, page);
                    let found = found.unwrap_or_else(|| {
                        raw::cache::insert(cache, file, page, &bytes(file, page))
                    });
                    assert_eq!(found[..], bytes(file, page));
                }
            });
        }
    });
    assert!(cache.stats().bytes <= 300_000);
}
