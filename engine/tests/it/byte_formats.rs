//! What goes into the table's immutable bytes comes out: pages, filters, indexes, segments, runs.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Buffer};
use varvite::error::Kind;
use varvite::raw::format::codec::{Decoder, Encoder};
use varvite::raw::format::hash::hash;
use varvite::raw::{
    EntryKind, EntryRef, IndexBuilder, Page, PageBuilder, ReadOptions, Run, RunReader, Segment,
    SegmentMeta, overflow_pages, seal,
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

/// Keys of outputs: a hash and a number.
fn output(transaction: u8, number: u16) -> Vec<u8> {
    [vec![transaction; 32], number.to_be_bytes().to_vec()].concat()
}

/// A page of as many of the keys as fit, and how many that are.
fn filled<K: AsRef<[u8]>>(keys: impl Iterator<Item = K>, value: &[u8]) -> (Vec<u8>, usize) {
    let (mut builder, mut bytes) = (PageBuilder::new(), vec![0; 4096]);
    let mut all = keys.map(|key| {
        let key = key.as_ref();
        builder.add(&mut bytes, EntryRef { kind: EntryKind::Insert, key, value })
    });
    let count = all.by_ref().take_while(|added| *added).count();
    drop(all);
    builder.finish(&mut bytes, 1, 1);
    (bytes, count)
}

#[test]
fn outputs_of_a_transaction_have_its_hash_once() {
    // Each further one takes a slot, 2 bytes of sharing, 1 of its key and the value.
    let (bytes, count) = filled((0..u16::MAX).map(|number| output(1, number)), &[1; 60]);
    assert_eq!(count, 1 + (4092 - 8 - 96) / 65);
    let page = Page::check("f", 1, 1, &bytes).unwrap();
    assert!((1..count).all(|i| page.start_of(i) == &output(1, 0)[..33]));
    assert!((0..count).all(|i| *page.key(i) == output(1, i as u16)));
    // Where no two keys begin alike nothing shares, and where all do in part each group has a head.
    let (bytes, count) = filled((0..255).map(|number| output(number, 0)), &[1; 60]);
    assert!(count == 42 && !Page::check("f", 1, 1, &bytes).unwrap().shares());
    let rows = (0..200_u8).map(|i| [&[9; 10][..], &[i / 20; 30], &[i]].concat());
    let (bytes, count) = filled(rows, &[]);
    let page = Page::check("f", 1, 1, &bytes).unwrap();
    let whole = (0..count).filter(|&i| page.start_of(i).is_empty()).count();
    assert!(count == 200 && (10..=20).contains(&whole), "{whole} of {count}");
}

#[test]
fn a_head_is_at_most_255_entries_back_and_gives_at_most_255_bytes() {
    let keys = (0..u16::MAX).map(|number| [&[b'k'; 8][..], &number.to_be_bytes()].concat());
    let (bytes, count) = filled(keys.clone(), &[]);
    let page = Page::check("f", 1, 1, &bytes).unwrap();
    assert!(count > 600, "{count}");
    for (i, key) in keys.clone().take(count).enumerate() {
        assert_eq!((&*page.key(i), page.search(&key)), (&key[..], Ok(i)));
    }
    // Each shares the whole of the head's key, so that nothing but the distance begins the next group.
    let few = std::iter::once([b'k'; 8].to_vec()).chain(keys.clone());
    let (bytes, count) = filled(few.clone(), &[]);
    let page = Page::check("f", 1, 1, &bytes).unwrap();
    assert!(count > 257, "{count}");
    for (i, key) in few.take(count).enumerate() {
        assert_eq!((&*page.key(i), page.start_of(i).is_empty()), (&key[..], i % 256 == 0), "{i}");
    }
    let long = (0..u16::MAX).map(|number| [&[b'k'; 700][..], &number.to_be_bytes()].concat());
    let (bytes, count) = filled(long.clone(), &[]);
    let page = Page::check("f", 1, 1, &bytes).unwrap();
    assert!(count >= 8 && page.start_of(1).len() == 255, "{count}");
    assert!(long.take(count).enumerate().all(|(i, key)| *page.key(i) == key));
}

/// In a page with keys of several lengths, what is shared has to be within the head's key, too.
#[test]
fn more_than_the_head_has_is_refused() {
    let keys = [vec![b'k'; 10], [vec![b'k'; 10], vec![b'm'; 30]].concat()];
    let (page, count) = filled(keys.iter(), b"v");
    assert_eq!((count, page[2], page[3]), (2, 0xff, 0xff), "two lengths");
    let at = 8 + 2 * count + (usize::from(page[10]) | usize::from(page[11]) << 8 & 0x1fff) + 2;
    assert_eq!((page[at], page[at + 1]), (1, 10));
    for shared in [11, 40] {
        let mut damaged = page.clone();
        damaged[at + 1] = shared;
        seal(&mut damaged, 1, 1);
        assert_eq!(Page::check("f", 1, 1, &damaged).err().map(|it| it.kind()), Some(Kind::Corrupt));
    }
    // An entry that ends before it says what it shares.
    let mut damaged = page.clone();
    let end = u16::try_from(at + 1).unwrap();
    damaged[4..6].copy_from_slice(&end.to_le_bytes());
    seal(&mut damaged, 1, 1);
    assert_eq!(Page::check("f", 1, 1, &damaged).err().map(|it| it.kind()), Some(Kind::Corrupt));
}

/// Every field of a key that shares, with each value that its document forbids.
#[test]
fn what_is_no_shared_key_is_refused() {
    let outputs = [output(1, 0), output(1, 1), output(2, 0), output(2, 1)];
    let (page, count) = filled(outputs.iter(), b"v");
    assert!(count == 4 && Page::check("f", 1, 1, &page).is_ok());
    let start = 8 + 2 * count;
    let at = |i: usize| {
        start + (usize::from(page[8 + 2 * i]) | usize::from(page[9 + 2 * i]) << 8 & 0x1fff)
    };
    let slot = |i: usize| 9 + 2 * i;
    let cases = [
        (1, page[1] & 0x7f, "some share, and the count does not say so"),
        (slot(0), page[slot(0)] | 0x20, "the first one shares"),
        (at(1), 0, "its own head"),
        (at(1), 2, "a head before the page"),
        (at(3), 2, "a head that shares"),
        (at(1) + 1, 7, "too few bytes"),
        (at(1) + 1, 35, "more than the key has"),
        (at(1) + 1, 255, "more than the key has"),
    ];
    for (place, byte, what) in cases {
        let mut damaged = page.clone();
        assert_ne!(damaged[place], byte, "{what}");
        damaged[place] = byte;
        seal(&mut damaged, 1, 1);
        let error = Page::check("f", 1, 1, &damaged).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{what}");
    }
    let (mut plain, _) = filled([output(1, 0), output(2, 0)].iter(), b"v");
    plain[1] |= 0x80;
    seal(&mut plain, 1, 1);
    assert!(Page::check("f", 1, 1, &plain).is_err(), "none share, and the count says that some do");
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
                prop_assert_eq!(&*page.key(i), entry.key);
                prop_assert_eq!((page.kind(i), page.value(i)), (entry.kind, entry.value));
                prop_assert_eq!(page.search(entry.key), Ok(i));
                for near in [0, 1 << 15, u16::MAX] {
                    prop_assert_eq!(page.find_near(entry.key, near), Some(entry));
                }
            }
            for key in near(&entries) {
                let expected = (0..added).filter(|&i| *page.key(i) < *key).count();
                prop_assert_eq!(page.seek(&key), expected);
                prop_assert_eq!(page.find(&key).is_some(), (0..added).any(|i| *page.key(i) == *key));
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
