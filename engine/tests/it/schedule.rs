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
    session: Session,
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
        let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
        let options = TableOptions {
            write_buffer_bytes: buffer_bytes,
            size_ratio: ratio,
            ..Default::default()
        };
        Pair {
            table: session.create_table("t", options).unwrap(),
            session,
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
        let was_pending = self.model.is_pending();
        let expected = self.model.update(changes);
        let work = self.table.last_work();
        assert_eq!(work, expected, "the work of an update of {} changes", changes.len());
        let bytes: u64 = changes.iter().map(|(_, entry)| entry.cost).sum();
        if is_small {
            // Each merge may do what it is due, a lump, and what is left of one key in all its runs. What
            // the update before put behind a seal is paid for now.
            let (depth, lump) = (self.model.depth(), self.model.lump());
            let step = (self.ratio + 1) * INSERT.cost;
            let union = if was_pending { self.ratio } else { 0 };
            let bound = (depth + 6 + 2 * self.ratio + union) * (self.before + bytes + lump)
                + (depth + 2) * (lump + step);
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

    /// A union of tables whose merges are done, in a session of `pairs[0]`.
    fn union(buffer_bytes: u64, ratio: u32, mut pairs: Vec<Pair>) -> Pair {
        let mut pair = Pair::new(buffer_bytes, ratio);
        for source in &mut pairs {
            source.table.work(u64::MAX).unwrap();
            source.model.work(u64::MAX);
        }
        let tables: Vec<_> = pairs.iter().map(|pair| &pair.table).collect();
        let options = pair.table.options().clone();
        let last = pairs[0].session.create_table("empty", options).unwrap();
        let tables: Vec<_> = tables.into_iter().chain([&last]).collect();
        pair.table = pairs[0].session.incremental_union("union", &tables).unwrap();
        let models: Vec<_> = pairs.into_iter().map(|pair| pair.model).collect();
        pair.model = Table::union(buffer_bytes, ratio as usize, &models);
        pair
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
            // A sealed buffer is gone when the next one is a quarter full.
            let held = pair.table.stats().unwrap().buffer_bytes;
            assert!(held <= 20_000 * 5 / 4 + 2 * pair.before, "{held} bytes");
        }
        pair.same_shape();
        assert!(pair.model.depth() >= 2, "deep enough to mean something");
        let mean = pair.sum as f64 / pair.bytes as f64;
        println!("ratio {ratio}: {mean:.2} bytes of work a byte, worst update {}", pair.most);
    }
}

/// The last of several buffers that an update fills is owed by those after the next, and none of them does it at once.
#[test]
fn the_work_after_an_update_of_several_buffers_stays_below_the_bound() {
    for buffers in [1, 2, 5] {
        let mut pair = Pair::new(20_000, 4);
        let mut made = 0..;
        let mut some = |count: u64| -> Vec<_> {
            made.by_ref().take(count as usize).map(|number| (number, INSERT)).collect()
        };
        for _ in 0..3 {
            pair.update(&some(buffers * 20_000 / INSERT.cost + 3), false);
            (0..300).for_each(|_| pair.update(&some(2), true));
        }
    }
}

/// Tables of one session with some updates.
fn sources(random: &mut Random, keys: u64) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for _ in 0..=random.below(3) {
        let mut pair = Pair::new(random.choose(&[500, 4_000]), random.choose(&[2, 4]));
        if let Some(first) = pairs.first() {
            pair.session = first.session.clone();
            let options = pair.table.options().clone();
            pair.table = pair.session.create_table(&pairs.len().to_string(), options).unwrap();
        }
        for _ in 0..random.below(200) {
            let entry = if random.one_in(4) { DELETE } else { INSERT };
            pair.update(&[(random.below(keys), entry)], false);
        }
        pairs.push(pair);
    }
    pairs
}

#[test]
fn the_work_of_every_update_of_a_union_is_the_models() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let keys = random.choose(&[30, 500, 20_000]);
        let pairs = sources(&mut random, keys);
        let (buffer_bytes, ratio) = (random.choose(&[500, 2_000]), random.choose(&[2, 3, 4]));
        let mut pair = Pair::union(buffer_bytes, ratio, pairs);
        let most = random.choose(&[1, 5, 60]);
        for _ in 0..400 / most {
            let mut draw = |_| {
                let entry = if random.one_in(3) { DELETE } else { INSERT };
                (random.below(keys), entry)
            };
            let changes: Vec<_> = (0..most).map(&mut draw).collect();
            pair.update(&changes, false);
            if random.one_in(30) {
                let credits = random.choose(&[0, 1, 700, 20_000]);
                pair.table.supply_union_credits(credits).unwrap();
                assert_eq!(pair.table.last_work(), pair.model.supply(credits), "credits");
            }
            assert_eq!(pair.table.remaining_union_debt() > 0, pair.model.is_pending());
        }
        let left = pair.table.work(u64::MAX).unwrap();
        assert_eq!((left, pair.table.last_work()), (0, pair.model.work(u64::MAX)), "the rest");
    }
}

#[test]
fn a_union_is_paid_by_updates_in_proportion_and_done_when_due() {
    for (ratio, batch) in [(2, 1), (3, 4), (4, 8)] {
        let buffer_bytes = 5_000;
        let mut sources: Vec<Pair> = Vec::new();
        for number in 0..3 {
            let mut pair = Pair::new(buffer_bytes, ratio);
            if let Some(first) = sources.first() {
                pair.session = first.session.clone();
                let options = pair.table.options().clone();
                pair.table = pair.session.create_table(&number.to_string(), options).unwrap();
            }
            (0..1_500).for_each(|key| pair.update(&[(key * 3 + number, INSERT)], true));
            sources.push(pair);
        }
        let mut pair = Pair::union(buffer_bytes, ratio, sources);
        let debt = pair.table.remaining_union_debt();
        assert!(debt >= 3 * 1_500 * INSERT.cost, "{debt}");
        let mut key = 0;
        while pair.model.is_pending() {
            pair.update(&(key..key + batch).map(|it| (it * 5, INSERT)).collect::<Vec<_>>(), true);
            key += batch;
            assert_eq!(pair.table.remaining_union_debt() > 0, pair.model.is_pending());
        }
        // The clock stands still while a buffer seals more than its size.
        let slack = buffer_bytes + (key * INSERT.cost / buffer_bytes + 2) * batch * INSERT.cost;
        let paid = pair.bytes * u64::from(ratio);
        assert!(paid >= debt && pair.bytes <= debt / u64::from(ratio) + slack, "{paid} of {debt}");
        println!("ratio {ratio}: a debt of {debt} is paid by updates of {}", pair.bytes);
    }
}
