//! What goes into the table's immutable bytes comes out: pages, filters, indexes, segments, runs.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Buffer};
use varvite::format::codec::{Decoder, Encoder};
use varvite::format::hash::hash;
use varvite::raw::{
    EntryKind, EntryRef, IndexBuilder, Page, PageBuilder, ReadOptions, Run, RunReader, Segment,
    SegmentMeta, overflow_pages,
};

use crate::entries::{Entries, SALT, build, build_run, entries, entry_refs};

/// What a reader gives, copied.
fn read_all(run: &Run, lower: Option<&[u8]>, options: ReadOptions) -> Entries {
    let skip = options.skip;
    let mut reader = RunReader::new(run, lower, options).unwrap();
    let mut found = Entries::new();
    while let Some(entry) = reader.peek() {
        assert_eq!(reader.prefix(), varvite::raw::prefix(&entry.key[skip..]));
        let before = found.insert(entry.key.to_vec(), (entry.kind, entry.value.to_vec()));
        assert!(before.is_none(), "a key comes once");
        assert!(found.last_key_value().unwrap().0 == entry.key, "keys come in order");
        reader.advance().unwrap();
    }
    reader.advance().unwrap();
    assert!(reader.peek().is_none() && reader.prefix() == u64::MAX, "the end stays the end");
    found
}

/// The entry with this key as a lookup finds it.
fn look_up(segment: &Segment, key: &[u8]) -> Option<(EntryKind, Vec<u8>)> {
    let span = segment.index().unwrap().find(key)?;
    let mut buffer = Buffer::new(4096);
    let page = segment.read_page(span.page, &mut buffer).unwrap();
    assert_eq!(span.count as usize, 1 + page.overflow());
    let entry = page.find(key)?;
    let value = match page.overflow() {
        0 => entry.value.to_vec(),
        _ => segment.read_large(span.page, &page).unwrap(),
    };
    Some((entry.kind, value))
}

/// Keys near those of the model: themselves, just above, just below, shortened.
fn near(entries: &Entries) -> Vec<Vec<u8>> {
    let mut keys = vec![vec![], vec![0], vec![255; 40]];
    for key in entries.keys() {
        keys.push(key.clone());
        keys.push([key, &[0][..]].concat());
        keys.push(key[..key.len() - 1].to_vec());
        let mut below = key.clone();
        let last = below.last_mut().expect("keys are not empty");
        *last = last.wrapping_sub(1);
        keys.push(below);
    }
    keys
}

#[test]
fn forty_two_utxo_entries_fit_a_page() {
    let (mut builder, mut bytes) = (PageBuilder::new(), vec![0; 4096]);
    let mut count = 0u8;
    while builder
        .add(&mut bytes, EntryRef { kind: EntryKind::Insert, key: &[count; 34], value: &[1; 60] })
    {
        count += 1;
    }
    assert_eq!(count, 42);
    builder.finish(&mut bytes, 1, 1);
    assert_eq!(Page::check("f", 1, 1, &bytes).unwrap().key_bytes(), Some(34));
}

#[test]
fn a_value_of_sixteen_mebibytes_comes_back() {
    let disk = MemoryDisk::new();
    let value: Vec<u8> = (0..16 << 20).map(|i: u32| (i / 4092) as u8).collect();
    let mut entries = Entries::new();
    entries.insert(b"a".to_vec(), (EntryKind::Insert, vec![1]));
    entries.insert(b"b".to_vec(), (EntryKind::Upsert, value));
    entries.insert(b"c".to_vec(), (EntryKind::Delete, vec![]));
    let segment = build(&*disk, "s", &entries, 10).into_segment();
    assert_eq!(overflow_pages(1, 16 << 20), 4_100);
    for (key, entry) in &entries {
        assert_eq!(look_up(&segment, key).as_ref(), Some(entry));
    }
    let run = Run::new(vec![segment.into()]);
    assert_eq!(read_all(&run, None, ReadOptions::default()), entries);
}

/// The same cases each time: who wants others changes the seed.
fn cases() -> ProptestConfig {
    ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn pages_give_back_their_entries(entries in entries()) {
        let (mut builder, mut bytes) = (PageBuilder::new(), vec![0xaa; 4096]);
        let mut waiting: Vec<_> = entry_refs(&entries)
            .filter(|entry| overflow_pages(entry.key.len(), entry.value.len()) == 0)
            .collect();
        while !waiting.is_empty() {
            let added = waiting.iter().take_while(|entry| builder.add(&mut bytes, **entry)).count();
            prop_assert!(added > 0, "an empty page takes any entry without overflow");
            builder.finish(&mut bytes, 5, 6);
            let page = Page::check("f", 6, 5, &bytes).unwrap();
            prop_assert_eq!(page.count(), added);
            for (i, entry) in waiting.drain(..added).enumerate() {
                prop_assert_eq!(page.entry(i), entry);
                prop_assert_eq!(page.search(entry.key), Ok(i));
            }
            for key in near(&entries) {
                let expected = (0..added).filter(|&i| page.key(i) < &key[..]).count();
                prop_assert_eq!(page.seek(&key), expected);
                prop_assert_eq!(page.find(&key).is_some(), (0..added).any(|i| page.key(i) == key));
            }
        }
    }

    #[test]
    fn segments_answer_as_the_model_does(entries in entries(), bits in 0..25u32) {
        let disk = MemoryDisk::new();
        let finished = build(&*disk, "s", &entries, bits);
        prop_assert_eq!(finished.file.len().unwrap(), finished.meta.file_bytes());
        let segment = Segment::recover(&*disk, "s", 1, Access::Buffered).unwrap();
        prop_assert_eq!(segment.meta(), &finished.meta);
        prop_assert_eq!(segment.index().unwrap(), &finished.index);
        let filter = segment.filter().unwrap();
        prop_assert_eq!(filter, finished.filter.as_ref());
        prop_assert_eq!(filter.is_some(), bits > 0);
        let mut encoder = Encoder::new();
        finished.meta.encode(&mut encoder);
        let bytes = encoder.finish();
        let mut decoder = Decoder::new("manifest", 0, &bytes);
        prop_assert_eq!(&SegmentMeta::decode(&mut decoder).unwrap(), &finished.meta);
        for key in near(&entries) {
            prop_assert_eq!(look_up(&segment, &key), entries.get(&key).cloned());
            let passes = filter.is_none_or(|filter| filter.probe(hash(SALT, &key)));
            prop_assert!(passes || !entries.contains_key(&key), "no false negatives");
        }
    }

    #[test]
    fn runs_stream_any_range(
        entries in entries(),
        sizes in prop::collection::vec(1..150usize, 1..4),
        chunk_bytes in 1..40_000usize,
        picks in any::<[prop::sample::Index; 2]>(),
    ) {
        let disk = MemoryDisk::new();
        let run = build_run(&*disk, &entries, &sizes);
        prop_assert_eq!(run.counts().entries(), entries.len() as u64);
        let keys = near(&entries);
        let (lower, upper) = (&keys[picks[0].index(keys.len())], &keys[picks[1].index(keys.len())]);
        let whole = ReadOptions { chunk_bytes, ..ReadOptions::default() };
        prop_assert_eq!(&read_all(&run, None, whole.clone()), &entries);
        let expected: Entries = entries
            .range(lower.clone()..)
            .take_while(|(key, _)| *key < upper)
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect();
        let options = ReadOptions { upper: Some(upper.clone()), forget: true, ..whole };
        prop_assert_eq!(read_all(&run, Some(lower), options), expected);
        for key in keys {
            let holds = |s: &std::sync::Arc<Segment>| {
                s.meta().first_key <= key && key <= s.meta().last_key
            };
            prop_assert_eq!(run.locate(&key), run.segments().iter().position(holds));
            let after = run.segments().iter().position(|s| key <= s.meta().last_key);
            prop_assert_eq!(run.seek(&key), after.unwrap_or(run.segments().len()));
        }
    }

    /// Each key is put on a page of its own or with the one before, at random, and then every key
    /// that any page can hold must be looked for in that page.
    #[test]
    fn an_index_names_the_only_page(
        entries in entries(),
        breaks in prop::collection::vec((any::<bool>(), 0..3u32), 400),
    ) {
        let mut builder = IndexBuilder::new();
        // Of each head page: first key, last key, number, pages.
        let mut heads: Vec<(&[u8], &[u8], u32, u32)> = Vec::new();
        let mut next = 1;
        for (key, (own_page, overflow)) in entries.keys().zip(breaks) {
            match heads.last_mut() {
                Some(head) if !own_page => head.1 = key,
                _ => {
                    builder.add(key, heads.last().map_or(b"", |head| head.1), overflow);
                    heads.push((key, key, next, 1 + overflow));
                    next += 1 + overflow;
                }
            }
        }
        let index = builder.finish(heads.last().unwrap().1);
        prop_assert_eq!(index.heads(), heads.len());
        for key in near(&entries) {
            let naive = heads.iter().rposition(|head| head.0 <= &key[..]);
            let found = index.find(&key).map(|span| (span.page, span.count));
            let expected = naive.map(|i| (heads[i].2, heads[i].3));
            // Between two pages either may be named, because neither holds the key.
            let between = naive.is_some_and(|i| {
                heads[i].1 < &key[..]
                    && heads.get(i + 1).is_some_and(|next| found == Some((next.2, next.3)))
            });
            prop_assert!(found == expected || between, "{key:?}: {found:?}, not {expected:?}");
            let start = index.seek(&key);
            prop_assert!(heads[start].0 <= &key[..] || start == 0 || heads[start - 1].1 < &key[..]);
        }
    }
}

#[test]
fn uniform_keys_are_interpolated_and_others_are_not() {
    let build = |key: &dyn Fn(u64) -> u64| {
        let mut builder = IndexBuilder::new();
        let mut last = [0; 8];
        for number in 0..4_000 {
            let first = key(2 * number).to_be_bytes();
            builder.add(&first, if number == 0 { b"" } else { &last }, 0);
            last = key(2 * number + 1).to_be_bytes();
        }
        builder.finish(&last)
    };
    let uniform = build(&|number| number << 40);
    let skewed = build(&|number| 1 + number * number * number * number);
    assert!(uniform.interpolates() && !skewed.interpolates());
    assert_eq!(uniform.ties(), 1, "one word a page separates pages");
}
