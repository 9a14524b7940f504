//! A first model test (replaced by the state machine).
use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use varvite::*;

fn run(seed: u64, ratio: u32, buffer: u64, steps: u64, keys: u64, cache: bool) {
    let disk = disk::memory::MemoryDisk::new();
    let options = SessionOptions {
        seed,
        cache: cache.then(|| cache::Cache::new(1 << 20)),
        ..SessionOptions::default()
    };
    let mut session = Session::create(disk.clone(), options.clone()).unwrap();
    let topts = TableOptions {
        size_ratio: ratio,
        write_buffer_bytes: buffer,
        lookups: if seed % 2 == 0 { Lookups::MostlyHit } else { Lookups::Mixed },
        operator: Some(MergeOperator::append()),
        ..TableOptions::default()
    };
    let mut table = session.create_table("t", topts).unwrap();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut rnd = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) % n
    };
    let key = |n: u64| format!("common/{:x}", n.wrapping_mul(0x1234_5678_9abc_def1)).into_bytes();
    let mut kept = Vec::new();
    let mut snaps: Vec<(String, BTreeMap<Vec<u8>, Vec<u8>>)> = Vec::new();
    for step in 0..steps {
        let mut batch = Batch::new();
        for _ in 0..rnd(40) {
            let k = key(rnd(keys));
            match rnd(10) {
                0..=3 => {
                    let most = if rnd(50) == 0 { 9000 } else { 60 };
                    let v = vec![step as u8; rnd(most) as usize];
                    batch.insert(&k, &v);
                    model.insert(k, v);
                }
                4..=6 => {
                    batch.delete(&k);
                    model.remove(&k);
                }
                _ => {
                    batch.upsert(&k, b"+");
                    model.entry(k).or_default().extend_from_slice(b"+");
                }
            }
        }
        table.update(&batch).unwrap();
        let ks: Vec<_> = (0..50).map(|_| key(rnd(keys + 10))).collect();
        let vs = table.lookup(&ks).unwrap();
        for (i, k) in ks.iter().enumerate() {
            assert_eq!(
                vs.get(i),
                model.get(k).map(|v| &v[..]),
                "step {step} key {}",
                String::from_utf8_lossy(k)
            );
        }
        if rnd(40) == 0 {
            let mut cursor = table.cursor(Unbounded, Unbounded).unwrap();
            for (k, v) in &model {
                assert_eq!(cursor.next().unwrap(), Some((&k[..], &v[..])), "step {step}");
            }
            assert_eq!(cursor.next().unwrap(), None);
            for (k, v) in model.iter().rev() {
                assert_eq!(cursor.previous().unwrap(), Some((&k[..], &v[..])), "step {step}");
            }
            assert_eq!(cursor.previous().unwrap(), None);
        }
        if rnd(30) == 0 {
            kept.push((table.view(), model.clone()));
        }
        if rnd(60) == 0 {
            let name = format!("s{step}");
            session
                .save_snapshot(
                    &name,
                    SnapshotContent { label: "l", payload: b"p", tables: &[&table] },
                )
                .unwrap();
            snaps.push((name, model.clone()));
        }
        if rnd(100) == 0 && !snaps.is_empty() {
            let at = rnd(snaps.len() as u64) as usize;
            if rnd(2) == 0 {
                drop(table);
                kept.clear();
                session.close().unwrap();
                let report = table::check::check(&(disk.clone() as Arc<dyn disk::Disk>), |_| {
                    std::ops::ControlFlow::Continue(())
                })
                .unwrap();
                assert_eq!(report.findings, vec![]);
                assert_eq!(report.unreferenced, 0);
                session = Session::open(disk.clone(), options.clone()).unwrap();
            }
            let mut snap = session.open_snapshot(&snaps[at].0, &OpenSnapshot::default()).unwrap();
            table = snap.take("t").unwrap();
            model = snaps[at].1.clone();
        }
        if rnd(150) == 0 && !snaps.is_empty() {
            let at = rnd(snaps.len() as u64) as usize;
            session.delete_snapshot(&snaps.remove(at).0).unwrap();
        }
    }
    for (view, model) in kept {
        let all = view.range(Unbounded, Unbounded).unwrap();
        assert_eq!(all, model.into_iter().collect::<Vec<_>>());
    }
    for (name, model) in snaps {
        let t = session
            .open_snapshot(&name, &OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() })
            .unwrap()
            .take("t")
            .unwrap();
        assert_eq!(t.range(Unbounded, Unbounded).unwrap(), model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn smoke() {
    for seed in 0..40 {
        run(
            seed,
            2 + (seed % 3) as u32,
            300 + 777 * (seed % 7),
            600,
            50 + 400 * (seed % 5),
            seed % 3 == 0,
        );
    }
}
