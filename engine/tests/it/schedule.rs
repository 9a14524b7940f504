//! The work that an update does: equal to the model's, and below the bound of `docs/design/table.md`.

use varvite::disk::memory::MemoryDisk;
use varvite::{Batch, Session, SessionOptions, TableOptions};

use crate::model::levels::{Entry, Table};
use crate::random::{Random, mix};

/// Entries of one size: 34 bytes of key, 60 of value, as in a ledger.
fn key(number: u64) -> [u8; 34] {
    let mut key = [0; 34];
    for (part, bytes) in key.chunks_mut(8).enumerate() {
        let hash = mix(number ^ ((part as u64) << 56));
        bytes.copy_from_slice(&hash.to_be_bytes()[..bytes.len()]);
    }
    // The model sorts by number.
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

const INSERT: Entry = Entry { is_delete: false, cost: 34 + 60 + 16 };
const DELETE: Entry = Entry { is_delete: true, cost: 34 + 16 };

struct Pair {
    table: varvite::Table,
    model: Table,
    ratio: u64,
    most: u64,
    sum: u64,
    bytes: u64,
    before: u64,
}

impl Pair {
    fn new(buffer_bytes: u64, ratio: u32) -> Pair {
        let session = Session::create(MemoryDisk::new(), SessionOptions::default()).unwrap();
        let options = TableOptions {
            write_buffer_bytes: buffer_bytes,
            size_ratio: ratio,
            ..Default::default()
        };
        Pair {
            table: session.create_table("t", options).unwrap(),
            model: Table::new(buffer_bytes, ratio as usize),
            ratio: u64::from(ratio),
            most: 0,
            sum: 0,
            bytes: 0,
            before: 0,
        }
    }

    fn update(&mut self, changes: &[(u64, Entry)], is_small: bool) {
        let mut batch = Batch::new();
        for (number, entry) in changes {
            if entry.is_delete {
                batch.delete(&key(*number));
            } else {
                batch.insert(&key(*number), &[9; 60]);
            }
        }
        self.table.update(&batch).unwrap();
        let expected = self.model.update(changes);
        let work = self.table.last_work();
        assert_eq!(work, expected, "the work of an update of {} changes", changes.len());
        let bytes: u64 = changes.iter().map(|(_, entry)| entry.cost).sum();
        if is_small {
            // Each merge may do what it is due, a lump, and what is left of one key in all its runs. What
            // the update before put behind a seal is paid for now.
            let (depth, lump) = (self.model.depth(), self.model.lump());
            let step = (self.ratio + 1) * INSERT.cost;
            let bound = (depth + 2 + self.ratio) * (self.before + bytes + lump)
                + (depth + 1) * (lump + step);
            assert!(
                work <= bound,
                "{work} bytes of work for {bytes}, bound {bound}, depth {depth}"
            );
        }
        self.most = self.most.max(work);
        self.sum += work;
        self.before = bytes;
        self.bytes += bytes;
    }

    fn same_shape(&self) {
        let stats = self.table.stats().unwrap();
        let found: Vec<_> = stats.levels.iter().map(|level| level.runs as usize).collect();
        assert_eq!(found, self.model.run_counts());
    }
}

#[test]
fn the_work_of_every_update_is_the_models() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let buffer_bytes = random.choose(&[500, 2_000, 10_000, 40_000]);
        let ratio = random.choose(&[2, 3, 4, 7]);
        let keys = random.choose(&[30, 500, 20_000]);
        let most = random.choose(&[1, 5, 200]);
        let mut pair = Pair::new(buffer_bytes, ratio);
        for _ in 0..2_000 / most.min(20) {
            let count = 1 + random.below(most);
            let mut draw = |_| {
                let entry = if random.one_in(3) { DELETE } else { INSERT };
                (random.below(keys), entry)
            };
            let changes: Vec<_> = (0..count).map(&mut draw).collect();
            pair.update(&changes, false);
            if random.one_in(40) {
                let credits = random.choose(&[1, 300, 5_000, u64::MAX]);
                pair.table.work(credits).unwrap();
                assert_eq!(pair.table.last_work(), pair.model.work(credits), "work ahead");
            }
            if random.one_in(20) {
                pair.same_shape();
            }
        }
        pair.same_shape();
    }
}

#[test]
fn the_work_of_small_updates_stays_below_the_bound() {
    for (ratio, batch) in [(2, 1), (3, 4), (4, 8), (4, 16)] {
        let mut pair = Pair::new(20_000, ratio);
        // A set of growing size, then one turned over: for each spent entry a new one.
        let mut random = Random::new(u64::from(ratio));
        let (mut spent, mut made) = (0, 0);
        while made < 12_000 {
            let turnover = made > 6_000;
            let mut changes = Vec::new();
            for _ in 0..batch {
                if turnover {
                    changes.push((spent, DELETE));
                    spent += 1 + random.below(2);
                }
                changes.push((made, INSERT));
                made += 1;
            }
            pair.update(&changes, true);
        }
        pair.same_shape();
        assert!(pair.model.depth() >= 2, "deep enough to mean something");
        let mean = pair.sum as f64 / pair.bytes as f64;
        println!("ratio {ratio}: {mean:.2} bytes of work a byte, worst update {}", pair.most);
    }
}
