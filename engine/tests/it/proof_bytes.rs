//! Encoded proofs: as ever in `golden/`, any changed byte told, any bytes survived. The bodies of the
//! fuzz targets `proof` and `proof_function`.

use varvite::Result;
use varvite::context::{Configuration, Tree};
use varvite::proof::{self, Encoding, Proof};
use varvite::raw::preimage;

const ENCODINGS: [Encoding; 4] = [Encoding::V1, Encoding::V2, Encoding::Irmin, Encoding::Json];

/// The first byte says how to read the rest, and as what configuration. What decodes is encoded to the same bytes, and whatever
/// it claims, it is counted, shown and read without a panic.
pub fn proof(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let encoding = ENCODINGS[usize::from(first & 3)];
    let configurations = [Configuration::TEZOS, Configuration::TEZOS_BINARY];
    let configuration = configurations[usize::from(first >> 2 & 1)];
    let _ = proof::decode_any(rest, configuration);
    let Ok(proof) = Proof::decode(rest, encoding, configuration) else { return };
    let other = configurations[usize::from(first >> 2 & 1 ^ 1)];
    assert!(encoding == Encoding::Irmin || Proof::decode(rest, encoding, other).is_err());
    assert!(proof.check(other).is_err(), "a proof is of one configuration");
    let again = proof.encode(encoding).expect("what was decoded can be encoded");
    let blanks = |byte: &&u8| encoding == Encoding::Json && b" \t\r\n".contains(byte);
    assert!(rest.iter().filter(|byte| !blanks(byte)).eq(&again), "one form for each proof");
    let same = Proof::decode(&again, encoding, configuration).expect("it was just encoded");
    assert_eq!(same, proof);
    let sound = proof.check(configuration).is_ok();
    assert_eq!(proof.summary(configuration).is_ok(), sound);
    let Ok(tree) = proof.open(configuration, proof.before) else {
        assert!(!sound);
        return;
    };
    for (path, _) in proof.shown(configuration, 50).expect("it is sound") {
        let _ = proof::read(&tree, &path);
        let _ = tree.length(&path);
        let _ = tree.list(&path, 1, 3);
        let mut changed = tree.clone();
        let _ = changed.remove(&path);
        let _ = changed.add(&path, b"another");
        let _ = changed.hash();
    }
}

thread_local! {
    /// Made once: making them took most of the time of a fuzz target.
    static FIXED: [Tree; 2] = [Configuration::TEZOS, Configuration::TEZOS_BINARY].map(fixed);
}

/// The tree that [`proof_function`] runs on: entries around both limits of Tezos.
fn fixed(configuration: Configuration) -> Tree {
    let mut tree = Tree::empty(configuration);
    for number in 0..259 {
        tree.add(&["w".to_owned(), format!("{number}")], &[number as u8; 17]).expect("in memory");
    }
    for number in 0..5 {
        tree.add(&["s".to_owned(), format!("{number}")], &[number; 3]).expect("in memory");
    }
    tree
}

/// Three bytes an access: which, in which directory, of which name.
fn accesses(tree: &mut Tree, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for [which, low, high] in bytes.as_chunks::<3>().0.iter().take(400) {
        let directory = if low & 1 == 0 { "w" } else { "s" };
        let name = u16::from_le_bytes([*low, *high]) / 2 % 300;
        let path = [directory.to_owned(), name.to_string()];
        match which % 8 {
            0..2 => found.push(tree.find(&path)?.unwrap_or_default()),
            2 => found.push(tree.length(&path[..1])?.to_le_bytes().to_vec()),
            3 => {
                let page = tree.list(&path[..1], u64::from(name), u64::from(which / 8))?;
                found.extend(page.into_iter().map(|(name, _)| name));
            }
            4 => tree.add(&path, &[*which; 4])?,
            5 => tree.add(&[&path[..], &["below".to_owned()]].concat(), b"deep")?,
            _ => tree.remove(&path)?,
        }
    }
    Ok(found)
}

/// Bytes are a function: what is recorded of it verifies, after V2 too.
pub fn proof_function(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let configurations = [Configuration::TEZOS, Configuration::TEZOS_BINARY];
    let configuration = configurations[usize::from(first & 1)];
    let tree = FIXED.with(|trees| trees[usize::from(first & 1)].clone());
    let (recording, found) =
        proof::record(&tree, |tree| accesses(tree, rest)).expect("the whole tree is there");
    for made in [recording.tree_proof(), recording.stream_proof()] {
        let bytes = made.expect("nothing is deep").encode(Encoding::V2).expect("names are short");
        let made = Proof::decode(&bytes, Encoding::V2, configuration).expect("it was just encoded");
        let checked = made.verify(configuration, recording.before(), |tree| accesses(tree, rest));
        assert_eq!(checked.expect("what is recorded verifies"), found);
        assert_eq!(made.after, recording.after());
    }
}

#[cfg(test)]
pub mod tests {
    use varvite::error::Kind;

    use super::*;
    use crate::golden::golden;
    use crate::random::Random;

    fn function(tree: &mut Tree) -> Result<Vec<Option<Vec<u8>>>> {
        let found = vec![
            tree.find(&["accounts", "7"])?,
            tree.find(&["accounts", "nobody"])?,
            tree.find(&["version"])?,
        ];
        tree.add(&["accounts", "7"], b"less")?;
        tree.remove(&["accounts", "8"])?;
        Ok(found)
    }

    /// The tree of the golden proofs: with inodes in either configuration.
    fn tree(configuration: Configuration) -> Tree {
        let mut tree = Tree::empty(configuration);
        let entries = if configuration == Configuration::TEZOS { 300 } else { 9 };
        for number in 0..entries {
            let value = format!("balance of {number}");
            tree.add(&["accounts".to_owned(), number.to_string()], value.as_bytes()).unwrap();
        }
        tree.add(&["version"], b"1").unwrap();
        tree
    }

    /// Every golden proof: its file, its bytes, how to read them, and what it is of.
    fn all() -> Vec<(String, Vec<u8>, Encoding, Proof, Configuration)> {
        let mut all = Vec::new();
        for (configuration, of) in
            [(Configuration::TEZOS, "tezos"), (Configuration::TEZOS_BINARY, "binary")]
        {
            let (recording, _) = proof::record(&tree(configuration), function).unwrap();
            let (tree, stream) =
                (recording.tree_proof().unwrap(), recording.stream_proof().unwrap());
            for (made, form) in [(tree, "tree"), (stream, "stream")] {
                for (encoding, ending) in
                    ENCODINGS.into_iter().zip(["v1.bin", "v2.bin", "irmin.bin", "json"])
                {
                    if encoding == Encoding::Irmin && made.is_stream() {
                        continue;
                    }
                    let bytes = made.encode(encoding).unwrap();
                    let name = format!("proof/{of}-{form}.{ending}");
                    all.push((name, bytes, encoding, made.clone(), configuration));
                }
            }
        }
        all
    }

    /// Behind a byte that says how to read it.
    fn seed(bytes: &[u8], encoding: Encoding, of: Configuration) -> Vec<u8> {
        let first = ENCODINGS.iter().position(|other| *other == encoding).unwrap() as u8;
        [&[first | u8::from(of == Configuration::TEZOS_BINARY) << 2], bytes].concat()
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        all().into_iter().map(|(_, bytes, encoding, _, of)| seed(&bytes, encoding, of)).collect()
    }

    #[test]
    fn golden_proofs_are_written_as_they_were_and_verify() {
        let all = all();
        assert_eq!(all.len(), 14);
        for (name, written, encoding, made, configuration) in all {
            let bytes = golden(&name, &written);
            let proof = Proof::decode(&bytes, encoding, configuration).unwrap();
            assert_eq!(proof, made);
            if encoding != Encoding::Irmin {
                assert_eq!(proof::decode_any(&bytes, configuration).unwrap(), (encoding, made));
            }
            let expected = function(&mut tree(configuration)).unwrap();
            let found = proof.verify(configuration, proof.before, function).unwrap();
            assert_eq!(found, expected);
        }
    }

    /// What a program that shows JSON to people does to it is allowed, and no other form of the same meaning.
    #[test]
    fn json_is_read_as_it_is_written_apart_from_blanks() {
        for (name, bytes, encoding, made, of) in all() {
            if encoding != Encoding::Json {
                continue;
            }
            let text = String::from_utf8(bytes).unwrap();
            let read = |text: &str| Proof::decode(text.as_bytes(), Encoding::Json, of);
            let mut spread = text.clone();
            for mark in ["{", "}", "[", "]", ",", ":"] {
                spread = spread.replace(mark, &format!(" \n{mark}\t\r\n"));
            }
            assert_eq!(read(&spread).unwrap(), made, "{name}");
            let (version, rest) = text[1..text.len() - 1].split_once(',').unwrap();
            let others = [
                text.replacen(':', ":0", 1),
                text.replacen(':', ":-", 1),
                text.replacen(r#""length":"#, r#""length":0"#, 1),
                text.replacen(r#"["contents","#, r#"["value","#, 1),
                format!("{{{rest},{version}}}"),
                format!(r#"{{{version},{rest},"more":1}}"#),
            ];
            for other in others {
                if other != text {
                    let error = read(&other).unwrap_err();
                    assert_eq!(error.kind(), Kind::Corrupt, "{name}: {other}");
                }
            }
        }
    }

    /// Whether `bytes` are refused; if not, they prove what the `sound` proof does.
    fn is_refused(bytes: &[u8], encoding: Encoding, sound: &Proof, of: Configuration) -> bool {
        let Ok(proof) = Proof::decode(bytes, encoding, of) else { return true };
        match proof.verify(of, sound.before, function) {
            Ok(found) => {
                assert_eq!(found, function(&mut tree(of)).unwrap());
                assert_eq!(proof.after, sound.after);
                false
            }
            Err(error) => {
                assert!([Kind::Corrupt, Kind::Hidden].contains(&error.kind()), "{error}");
                true
            }
        }
    }

    #[test]
    fn any_changed_byte_is_refused_or_proves_the_same() {
        for (name, bytes, encoding, made, of) in all() {
            assert!(!is_refused(&bytes, encoding, &made, of));
            let mut random = Random::new(bytes.len() as u64);
            let mut harmless = 0;
            // Every place of a long proof would take minutes: each place of the small ones, and some.
            let step = (bytes.len() / 1500).max(1);
            for at in (0..bytes.len()).step_by(step) {
                for change in [1 << random.below(8), 1 + random.below(255) as u8] {
                    let mut changed = bytes.clone();
                    changed[at] ^= change;
                    harmless += u32::from(!is_refused(&changed, encoding, &made, of));
                }
                assert!(is_refused(&bytes[..at], encoding, &made, of), "{name} cut at {at}");
            }
            assert_eq!(harmless, 0, "{name}");
            for _ in 0..300 {
                let mut changed = bytes.clone();
                let (from, to) = (random.index(bytes.len()), random.index(bytes.len()));
                match random.below(3) {
                    0 => changed.insert(from, changed[to]),
                    1 => drop(changed.remove(from)),
                    _ => {
                        let length = random.index(40).min(bytes.len() - from.max(to));
                        changed.copy_within(from..from + length, to);
                    }
                }
                is_refused(&changed, encoding, &made, of);
            }
        }
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut random = Random::new(9);
        for seed in seeds() {
            proof(&seed);
            for _ in 0..200 {
                let mut changed = seed.clone();
                for _ in 0..=random.below(4) {
                    let at = random.index(changed.len());
                    match random.below(4) {
                        0 => changed.truncate(at.max(1)),
                        1 => changed[at] = random.next() as u8,
                        _ => changed[at] ^= 1 << random.below(8),
                    }
                }
                proof(&changed);
            }
            for _ in 0..50 {
                let length = random.index(200);
                let mut noise = vec![seed[0], 0, 0];
                noise.extend(random.bytes(length));
                proof(&noise);
            }
        }
    }

    #[test]
    fn functions_from_bytes_verify() {
        let mut random = Random::new(10);
        for _ in 0..60 {
            let length = random.choose(&[0, 1, 7, 30, 300, 1201]);
            proof_function(&random.bytes(length));
        }
    }

    #[test]
    fn claims_of_size_take_no_memory() {
        // Sizes and counts far beyond the bytes that follow, in every place that has one.
        let mut bytes = [&[3, 0, 0][..], &[0; 64]].concat();
        for tail in [
            &[0xbf, 0x3f, 0xff, 0xff, 0xff][..], // a list of a GiB
            &[0xc3, 0x3f, 0xff, 0xff, 0xff],     // a value
            &[0x06, 0xff, 0xff, 0xff, 0xff],     // an inode of one bucket, which does not follow
            &[0x41, 0xff, 0xff],                 // 32 buckets
        ] {
            bytes.truncate(67);
            bytes.extend(tail);
            let error = Proof::decode(&bytes, Encoding::V2, Configuration::TEZOS).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
        }
        // An inode that says four thousand million entries, of which one bucket is hidden, is listed.
        let length = u32::MAX;
        let mut out = Vec::new();
        preimage::put_branch_head(&mut out, 0, u64::from(length), 1);
        preimage::put_branch_pointer(&mut out, 1, &[7; 32]);
        let root = varvite::proof::Kinded::directory(varvite::context::hash::hash(&out).into());
        let inode = varvite::proof::Inode {
            length: i64::from(length),
            children: vec![(1, varvite::proof::Piece::Blinded([7; 32]))],
        };
        let state = varvite::proof::State::Tree(varvite::proof::Part::Inode(inode));
        let proof = Proof { version: 0, before: root, after: root, state };
        let tree = proof.open(Configuration::TEZOS, root).unwrap();
        assert_eq!(tree.length::<&str>(&[]).unwrap(), u64::from(length));
        let error = tree.list::<&str>(&[], 0, u64::MAX).unwrap_err();
        assert_eq!(error.kind(), Kind::Hidden);
        let order = varvite::context::Order::Sorted;
        let error = tree.fold::<&str>(&[], None, order, |_, _| Ok(())).unwrap_err();
        assert_eq!(error.kind(), Kind::Hidden);
    }
}
