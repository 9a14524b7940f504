//! Made-up proofs whose hashes fit, because whoever made them chose the root: every one is refused, by
//! its limits before anything is hashed.

use varvite::context::hash::{self, Hash};
use varvite::context::{Configuration, Tree};
use varvite::error::{Error, Kind};
use varvite::proof::{
    self, Element, Encoding, Entries, Extender, Inode, Kinded, Part, Piece, Proof, Read, State,
};
use varvite::raw::{name_hash, preimage};

const BINARY: Configuration = Configuration::TEZOS_BINARY;

/// The hash of a directory in one piece, whatever its size.
fn flat(entries: &[(Vec<u8>, Kinded)]) -> Hash {
    let mut out = Vec::new();
    preimage::put_u64(&mut out, entries.len() as u64);
    for (name, child) in entries {
        preimage::put_flat_entry(&mut out, name, !child.is_directory(), &child.hash);
    }
    hash::hash(&out)
}

fn values(entries: &[(Vec<u8>, Kinded)]) -> Hash {
    let mut out = Vec::new();
    preimage::put_values_head(&mut out, entries.len() as u64);
    for (name, child) in entries {
        preimage::put_values_entry(&mut out, name, !child.is_directory(), &child.hash);
    }
    hash::hash(&out)
}

fn branch(depth: u64, length: i64, children: &[(u16, Hash)]) -> Hash {
    let mut out = Vec::new();
    preimage::put_branch_head(&mut out, depth, length as u64, children.len() as u64);
    for (bucket, hash) in children {
        preimage::put_branch_pointer(&mut out, u64::from(*bucket), hash);
    }
    hash::hash(&out)
}

/// The hash of a part by the rules of Tezos, without any limit.
fn part_hash(part: &Part) -> Kinded {
    let directory = Kinded::directory;
    let value = |hash| Kinded { kind: varvite::context::Kind::Value, hash };
    match part {
        Part::Value(bytes) => value(hash::value(bytes).into()),
        Part::BlindedValue(hash) => value(*hash),
        Part::Node(entries) => directory(flat(&kinded(entries)).into()),
        Part::BlindedNode(hash) => directory(*hash),
        Part::Inode(inode) => directory(inode_hash(inode, 0).into()),
        Part::Extender(extender) => directory(extender_hash(extender, 0).into()),
    }
}

fn kinded(entries: &Entries) -> Vec<(Vec<u8>, Kinded)> {
    entries.iter().map(|(name, part)| (name.clone(), part_hash(part))).collect()
}

fn inode_hash(inode: &Inode<Piece>, depth: u64) -> Hash {
    let child = |(bucket, piece): &(u16, Piece)| (*bucket, piece_hash(piece, depth + 1));
    branch(depth, inode.length, &inode.children.iter().map(child).collect::<Vec<_>>())
}

fn extender_hash(extender: &Extender<Piece>, depth: u64) -> Hash {
    let mut below = piece_hash(&extender.child, depth + extender.segment.len() as u64);
    for (above, bucket) in extender.segment.iter().enumerate().rev() {
        below = branch(depth + above as u64, extender.length, &[(*bucket, below)]);
    }
    below
}

fn piece_hash(piece: &Piece, depth: u64) -> Hash {
    match piece {
        Piece::Blinded(hash) => *hash,
        Piece::Values(entries) => values(&kinded(entries)),
        Piece::Inode(inode) => inode_hash(inode, depth),
        Piece::Extender(extender) => extender_hash(extender, depth),
    }
}

fn made(configuration: Configuration, root: Kinded, state: State) -> Proof {
    let stream = matches!(state, State::Stream(_));
    Proof { version: Proof::version_of(configuration, stream), before: root, after: root, state }
}

/// A proof of a made-up tree, with the hash that it has.
fn forged(configuration: Configuration, part: Part) -> Proof {
    made(configuration, part_hash(&part), State::Tree(part))
}

#[track_caller]
fn assert_refused(configuration: Configuration, proof: &Proof, why: &str) {
    let refused = |error: Error| {
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.detail().contains(why), "\"{why}\" is not in: {error}");
    };
    refused(proof.check(configuration).unwrap_err());
    refused(proof.open(configuration, proof.before).unwrap_err());
    refused(proof.verify(configuration, proof.before, |_| Ok(())).unwrap_err());
    refused(proof.summary(configuration).unwrap_err());
    for encoding in [Encoding::V1, Encoding::V2, Encoding::Json] {
        // An encoder may refuse it too; what it takes is refused after decoding.
        let Ok(bytes) = proof.encode(encoding) else { continue };
        if let Ok(decoded) = Proof::decode(&bytes, encoding, configuration) {
            refused(decoded.check(configuration).unwrap_err());
        }
    }
}

/// As above, and whatever the hash is: the limit comes first.
#[track_caller]
fn assert_over_limit(configuration: Configuration, part: Part, why: &str) {
    assert_refused(configuration, &forged(configuration, part.clone()), why);
    let zeros = Kinded::directory([0; 32].into());
    assert_refused(configuration, &made(configuration, zeros, State::Tree(part)), why);
}

fn value(byte: u8) -> Part {
    Part::Value(vec![byte; 3])
}

fn numbered(count: usize) -> Entries {
    (0..count).map(|number| (format!("{number:05}").into_bytes(), value(1))).collect()
}

/// The bucket of a name in the binary configuration: a bit of its hash.
fn bit(name: &[u8], depth: usize) -> u16 {
    u16::from(hash::hash(name)[depth / 8] >> (7 - depth % 8) & 1)
}

/// `count` names that begin with these bits, in order.
fn names(bits: &[u16], count: usize) -> Vec<Vec<u8>> {
    let fits = |name: &Vec<u8>| {
        bits.iter().enumerate().all(|(depth, expected)| bit(name, depth) == *expected)
    };
    let mut found: Vec<_> =
        (0..).map(|number| format!("{number}").into_bytes()).filter(fits).take(count).collect();
    found.sort();
    found
}

fn entries(bits: &[u16], count: usize) -> Entries {
    names(bits, count).into_iter().map(|name| (name, value(1))).collect()
}

fn inode(length: i64, children: Vec<(u16, Piece)>) -> Inode<Piece> {
    Inode { length, children }
}

/// A directory of four entries, two in each bucket, as the binary configuration has it.
fn sound() -> Inode<Piece> {
    let leaf = |bucket| (bucket, Piece::Values(entries(&[bucket], 2)));
    inode(4, vec![leaf(0), leaf(1)])
}

#[test]
fn what_is_forged_here_is_refused_for_its_fault_alone() {
    let part = Part::Inode(sound());
    let proof = forged(BINARY, part);
    proof.check(BINARY).unwrap();
    let mut tree = Tree::empty(BINARY);
    for name in names(&[0], 2).into_iter().chain(names(&[1], 2)) {
        tree.add(&[name], &[1; 3]).unwrap();
    }
    assert_eq!(proof.before, Kinded::of(&tree).unwrap());
}

#[test]
fn pieces_that_are_too_large_are_refused() {
    let tezos = Configuration::TEZOS;
    forged(tezos, Part::Node(numbered(256))).check(tezos).unwrap();
    assert_over_limit(tezos, Part::Node(numbered(257)), "257 entries");
    assert_over_limit(tezos, Part::Node(numbered(60_000)), "60000 entries");
    assert_over_limit(BINARY, Part::Node(numbered(3)), "3 entries");
    // The same as the only element of a stream: the attack that Irmin 2.10.1 let through.
    let entries: Vec<_> = kinded(&numbered(257));
    let root = Kinded::directory(flat(&entries).into());
    let stream = State::Stream(vec![Element::Node(entries)]);
    assert_refused(tezos, &made(tezos, root, stream), "257 entries");
    let many = Piece::Values(self::entries(&[1], 3));
    let few = Piece::Values(self::entries(&[0], 1));
    assert_over_limit(BINARY, Part::Inode(inode(4, vec![(0, few), (1, many)])), "3 entries");
}

#[test]
fn pieces_that_are_too_small_are_refused() {
    let zeros = Kinded::directory([0; 32].into());
    let nothing = State::Tree(Part::Node(Vec::new()));
    assert_refused(BINARY, &made(BINARY, zeros, nothing), "0 entries");
    assert_over_limit(BINARY, Part::Inode(inode(1024, Vec::new())), "buckets");
    let part = Part::Node(vec![(b"d".to_vec(), Part::Node(Vec::new()))]);
    assert_over_limit(BINARY, part, "0 entries");
    // A directory that is small enough for one piece, cut in two.
    let leaf = |bucket| (bucket, Piece::Values(entries(&[bucket], 1)));
    assert_over_limit(BINARY, Part::Inode(inode(2, vec![leaf(0), leaf(1)])), "2 entries");
    let flat = Part::Inode(inode(256, vec![(0, Piece::Blinded([1; 32]))]));
    assert_over_limit(Configuration::TEZOS, flat, "256 entries");
    // The empty tree is the one empty directory.
    let empty = Tree::empty(BINARY);
    let (recording, there) = proof::record(&empty, |tree| tree.mem_tree(&["a"])).unwrap();
    let proof = recording.tree_proof().unwrap();
    assert_eq!(proof.state, State::Tree(Part::Node(Vec::new())));
    assert_eq!(proof.verify(BINARY, proof.before, |tree| tree.mem_tree(&["a"])).unwrap(), there);
}

#[test]
fn lengths_must_fit_what_is_shown() {
    for length in [3, 5, 1 << 20] {
        let part = Part::Inode(Inode { length, ..sound() });
        assert_refused(BINARY, &forged(BINARY, part), &format!("it has {length} entries"));
    }
    for length in [-1, i64::MIN, 1 << 40, i64::MAX] {
        let part = Part::Inode(Inode { length, ..sound() });
        assert_refused(BINARY, &forged(BINARY, part), "entries");
    }
    // With one bucket hidden, at least one entry is in it.
    let mut half = sound();
    half.children[1].1 = Piece::Blinded([7; 32]);
    forged(BINARY, Part::Inode(Inode { length: 1000, ..half.clone() })).check(BINARY).unwrap();
    half.children[0].1 = Piece::Inode(inode(
        3,
        vec![(0, Piece::Values(entries(&[0, 0], 1))), (1, Piece::Values(entries(&[0, 1], 2)))],
    ));
    forged(BINARY, Part::Inode(Inode { length: 4, ..half.clone() })).check(BINARY).unwrap();
    let part = Part::Inode(Inode { length: 3, ..half });
    assert_refused(BINARY, &forged(BINARY, part), "it has 3 entries");
}

#[test]
fn names_must_be_where_they_are_looked_for() {
    let mut swapped = sound();
    swapped.children[0].0 = 1;
    swapped.children[1].0 = 0;
    swapped.children.swap(0, 1);
    assert_refused(BINARY, &forged(BINARY, Part::Inode(swapped)), "bucket");
    let tezos = Configuration::TEZOS;
    let name = b"alice".to_vec();
    let bucket = (name_hash::seeded(0, &name) % 32) as u16;
    for (at, fits) in [(bucket, true), ((bucket + 1) % 32, false)] {
        let leaf = Piece::Values(vec![(name.clone(), value(1))]);
        let mut children = vec![(at, leaf), ((at + 9) % 32, Piece::Blinded([1; 32]))];
        children.sort_by_key(|(bucket, _)| *bucket);
        let proof = forged(tezos, Part::Inode(inode(300, children)));
        assert_eq!(proof.check(tezos).is_ok(), fits);
        if !fits {
            assert_refused(tezos, &proof, "does not belong");
        }
    }
}

#[test]
fn names_and_buckets_must_be_in_order_and_there_once() {
    let pair = |first: &str, second: &str| {
        vec![(first.as_bytes().to_vec(), value(1)), (second.as_bytes().to_vec(), value(2))]
    };
    for (first, second) in [("a", "a"), ("b", "a"), ("", "")] {
        assert_over_limit(BINARY, Part::Node(pair(first, second)), "order");
        let part = Part::Node(vec![(b"d".to_vec(), Part::Node(pair(first, second)))]);
        assert_over_limit(Configuration::TEZOS, part, "order");
    }
    let hidden = |bucket| (bucket, Piece::Blinded([1; 32]));
    for buckets in [vec![1, 0], vec![0, 0], vec![0, 2], vec![2], vec![0, 1, 2]] {
        let children = buckets.into_iter().map(hidden).collect();
        assert_over_limit(BINARY, Part::Inode(inode(9, children)), "buckets");
    }
    let children = [3, 40].map(hidden).to_vec();
    assert_over_limit(Configuration::TEZOS, Part::Inode(inode(900, children)), "buckets");
    let long = Part::Node(vec![(vec![b'n'; (1 << 16) + 1], value(1))]);
    assert_over_limit(BINARY, long, "longer");
}

#[test]
fn depths_follow_from_places_and_end() {
    let extender = |segment: Vec<u16>, child| {
        Part::Extender(Extender { length: 3, segment, child: Box::new(child) })
    };
    let leaf = || Piece::Blinded([1; 32]);
    forged(BINARY, extender(vec![0; 50], leaf())).check(BINARY).unwrap();
    assert_over_limit(BINARY, extender(vec![0; 51], leaf()), "deeper");
    assert_over_limit(BINARY, extender(vec![0; 2000], leaf()), "deeper");
    let split = |bits: &[u16]| {
        let bucket =
            |last| Piece::Values(entries(&[bits, &[last]].concat(), 1 + usize::from(last)));
        Piece::Inode(inode(3, vec![(0, bucket(0)), (1, bucket(1))]))
    };
    forged(BINARY, extender(vec![1, 0, 1], split(&[1, 0, 1]))).check(BINARY).unwrap();
    // The same piece, hashed as if it were higher up.
    let mut proof = forged(BINARY, extender(vec![1, 0, 1], split(&[1, 0, 1])));
    let State::Tree(Part::Extender(extender)) = &mut proof.state else { panic!("made above") };
    extender.segment.truncate(2);
    assert_refused(BINARY, &proof, "the hash");
    // One form for each chain.
    let short = |segment: Vec<u16>, child| Extender { length: 3, segment, child: Box::new(child) };
    for part in [
        Part::Extender(short(vec![], leaf())),
        Part::Extender(short(vec![1], leaf())),
        Part::Extender(short(vec![1, 0], Piece::Extender(short(vec![1, 1], leaf())))),
        Part::Extender(short(vec![1, 0], Piece::Inode(inode(3, vec![(1, leaf())])))),
        Part::Inode(inode(3, vec![(0, Piece::Inode(inode(3, vec![(1, leaf())])))])),
        Part::Inode(inode(3, vec![(0, Piece::Extender(short(vec![1, 1], leaf())))])),
    ] {
        let error = forged(BINARY, part).check(BINARY).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
    }
}

#[test]
fn what_is_nested_too_deep_is_refused_and_what_is_not_needs_little_stack() {
    let nested = |levels: usize| {
        let mut part = value(1);
        for _ in 1..levels {
            part = Part::Node(vec![(b"d".to_vec(), part)]);
        }
        part
    };
    // A browser has a stack of one MiB.
    let body = move || {
        let tezos = Configuration::TEZOS;
        let deepest = forged(tezos, nested(proof::NESTING));
        for encoding in [Encoding::V1, Encoding::V2, Encoding::Json, Encoding::Irmin] {
            let bytes = deepest.encode(encoding).unwrap();
            assert_eq!(Proof::decode(&bytes, encoding, tezos).unwrap(), deepest);
            let deeper = forged(tezos, nested(proof::NESTING + 1));
            assert_eq!(deeper.encode(encoding).unwrap_err().kind(), Kind::Invalid);
        }
        deepest.check(tezos).unwrap();
        assert_refused(tezos, &forged(tezos, nested(proof::NESTING + 1)), "512 levels");
        for (encoding, piece) in [(Encoding::Json, &b"[["[..]), (Encoding::Json, b"{\"a\":")] {
            let error = Proof::decode(&piece.repeat(100_000), encoding, tezos).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(body).unwrap().join().unwrap();
}

/// A small real tree with an old value of each kind.
fn real() -> Tree {
    let mut tree = Tree::empty(BINARY);
    for number in 0..9 {
        tree.add(&["d".to_owned(), format!("{number}")], &[number; 20]).unwrap();
    }
    tree.add(&["empty"], b"").unwrap();
    tree
}

#[test]
fn other_roots_contents_and_results_are_refused() {
    let tree = real();
    let change = |tree: &mut Tree| tree.add(&["d", "3"], b"new");
    let (recording, ()) = proof::record(&tree, change).unwrap();
    let proof = recording.tree_proof().unwrap();
    proof.verify(BINARY, proof.before, change).unwrap();
    let refused = |proof: &Proof, root, why: &str| {
        let error = proof.verify(BINARY, root, change).unwrap_err();
        assert!(error.kind() == Kind::Corrupt && error.detail().contains(why), "{error}");
    };
    let other = Kinded::directory([9; 32].into());
    refused(&proof, other, "it is of the tree");
    refused(&Proof { before: other, ..proof.clone() }, other, "the one before");
    refused(&Proof { after: other, ..proof.clone() }, proof.before, "becomes");
    refused(&Proof { after: proof.before, ..proof.clone() }, proof.before, "becomes");
    // A function that does something else.
    let error = proof.verify(BINARY, proof.before, |tree| tree.add(&["d", "3"], b"other"));
    assert!(error.unwrap_err().detail().contains("becomes"));
    // A value that is another one.
    let read = |tree: &mut Tree| tree.find(&["d", "3"]);
    let (recording, _) = proof::record(&tree, read).unwrap();
    let bytes = recording.tree_proof().unwrap().encode(Encoding::V1).unwrap();
    let at = bytes.windows(20).position(|window| window == [3; 20]).unwrap();
    let mut changed = bytes.clone();
    changed[at + 19] = 4;
    assert_refused(BINARY, &Proof::decode(&changed, Encoding::V1, BINARY).unwrap(), "the hash");
    // Any bit of the version.
    for version in [0, 1, 3, 4, 0x102, -1] {
        let proof = Proof { version, ..recording.tree_proof().unwrap() };
        let error = proof.check(BINARY).unwrap_err();
        assert!(error.detail().contains("version"), "{error}");
    }
}

#[test]
fn an_empty_value_is_no_empty_directory() {
    let tree = real();
    let (recording, found) = proof::record(&tree, |tree| tree.find(&["empty"])).unwrap();
    assert_eq!(found.as_deref(), Some(&b""[..]));
    let proof = recording.tree_proof().unwrap();
    let State::Tree(Part::Node(entries)) = &proof.state else { panic!("two entries are flat") };
    let at = entries.iter().position(|(name, _)| name == b"empty").unwrap();
    assert_eq!(entries[at].1, Part::Value(Vec::new()));
    assert_eq!(hash::value(b""), hash::EMPTY);
    for part in [Part::BlindedNode(hash::EMPTY.into()), Part::Node(Vec::new())] {
        let mut entries = entries.clone();
        entries[at].1 = part;
        let state = State::Tree(Part::Node(entries));
        assert_eq!(
            made(BINARY, proof.before, state).check(BINARY).unwrap_err().kind(),
            Kind::Corrupt
        );
    }
    let as_value = Kinded { kind: varvite::context::Kind::Value, ..proof.before };
    assert_eq!(proof.verify(BINARY, as_value, |_| Ok(())).unwrap_err().kind(), Kind::Corrupt);
    // What is empty and nothing else.
    let nothing = Kinded::directory(hash::EMPTY.into());
    let proof = made(BINARY, nothing, State::Tree(Part::Value(Vec::new())));
    assert_eq!(proof.check(BINARY).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn streams_are_neither_too_long_nor_too_short_nor_in_another_order() {
    let tree = real();
    let read = |tree: &mut Tree| Ok((tree.find(&["d", "3"])?, tree.find(&["d", "4"])?));
    let (recording, found) = proof::record(&tree, read).unwrap();
    let proof = recording.stream_proof().unwrap();
    let State::Stream(elements) = &proof.state else { panic!("a stream") };
    assert_eq!(proof.verify(BINARY, proof.before, read).unwrap(), found);
    let with = |elements: Vec<Element>| Proof { state: State::Stream(elements), ..proof.clone() };
    for length in 0..elements.len() {
        let cut = with(elements[..length].to_vec());
        let error = cut.verify(BINARY, cut.before, read).unwrap_err();
        assert_eq!(error.kind(), Kind::Hidden, "{error}");
        // Too long for a function that looks at less.
        let error = proof.verify(BINARY, proof.before, |tree| tree.find(&["d", "3"])).unwrap_err();
        assert!(error.detail().contains("too long"), "{error}");
        // An element twice, and one that nothing refers to.
        for more in [elements[length].clone(), Element::Value(b"nobody's".to_vec())] {
            let mut long = elements.clone();
            long.insert(length + 1, more);
            assert_refused(BINARY, &with(long), "refer to");
        }
        // An element before the one that refers to it.
        if length > 0 {
            let mut turned = elements.clone();
            turned.swap(0, length);
            assert_refused(BINARY, &with(turned), "refer to");
        }
    }
    // A piece whose hash is that of another depth.
    let mut moved = elements.clone();
    for element in &mut moved {
        if let Element::Inode(inode) = element {
            inode.length += 1;
            assert!(inode.length > 2);
            break;
        }
    }
    assert_refused(BINARY, &with(moved), "refer to");
}

/// Twice the same directory, shown once and hidden once: it is known.
#[test]
fn what_is_shown_anywhere_is_known_everywhere() {
    let mut tree = Tree::empty(Configuration::TEZOS);
    for copy in ["a", "b"] {
        tree.add(&[copy, "x"], b"1").unwrap();
        tree.add(&[copy, "y"], b"2").unwrap();
    }
    let (recording, _) = proof::record(&tree, |tree| tree.find(&["a", "x"])).unwrap();
    let proof = recording.tree_proof().unwrap();
    let State::Tree(Part::Node(entries)) = &proof.state else { panic!("a flat directory") };
    assert_eq!(entries[0].1, entries[1].1, "both are shown");
    for hidden in 0..2 {
        let mut entries = entries.clone();
        entries[hidden].1 = Part::BlindedNode(part_hash(&entries[hidden].1).hash);
        let proof = Proof { state: State::Tree(Part::Node(entries)), ..proof.clone() };
        let shown = proof.open(Configuration::TEZOS, proof.before).unwrap();
        for copy in ["a", "b"] {
            assert_eq!(proof::read(&shown, &[copy, "x"]).unwrap(), Read::Value(b"1".to_vec()));
            assert_eq!(proof::read(&shown, &[copy, "y"]).unwrap(), Read::Hidden);
            assert_eq!(proof::read(&shown, &[copy, "z"]).unwrap(), Read::Absent);
        }
    }
}

/// The same entries at two depths: their hash does not tell which one an element of a stream is.
#[test]
fn equal_leaves_at_different_depths_are_told_apart() {
    let shared = names(&[0, 0], 1).remove(0);
    let mut tree = Tree::empty(BINARY);
    let above = [vec![shared.clone()], names(&[1], 2)].concat();
    let below = [vec![shared.clone()], names(&[0, 1], 2), names(&[1], 1)].concat();
    for (directory, names) in [(b"a", &above), (b"b", &below)] {
        for name in names {
            tree.add(&[&directory[..], name], b"0").unwrap();
        }
    }
    let (a, b) = ([&b"a"[..], &shared], [&b"b"[..], &shared]);
    let other = [&b"a"[..], &above[1]];
    let orders = [vec![other, b], vec![other, a, b], vec![b, a], vec![b, other, a], vec![a, b, a]];
    for paths in &orders {
        let all = |tree: &mut Tree| {
            paths.iter().map(|path| tree.find(path)).collect::<varvite::Result<Vec<_>>>()
        };
        let (recording, found) = proof::record(&tree, all).unwrap();
        for made in [recording.stream_proof().unwrap(), recording.tree_proof().unwrap()] {
            assert_eq!(made.verify(BINARY, made.before, all).unwrap(), found);
        }
    }
    // One of two equal elements that nobody looks at is one too many.
    let both = |tree: &mut Tree| Ok((tree.find(&other)?, tree.find(&a)?, tree.find(&b)?));
    let (recording, _) = proof::record(&tree, both).unwrap();
    let made = recording.stream_proof().unwrap();
    for one in [a, b] {
        let less = |tree: &mut Tree| Ok((tree.find(&other)?, tree.find(&one)?));
        let error = made.verify(BINARY, made.before, less).unwrap_err();
        assert!(error.detail().contains("too long"), "{error}");
    }
}

/// `proof` under the version of another configuration.
fn relabelled(proof: &Proof, configuration: Configuration) -> Proof {
    let version = Proof::version_of(configuration, proof.is_stream());
    Proof { version, ..proof.clone() }
}

/// A tree of these names, and proofs of its root whose buckets are hidden, as tree and as stream.
fn blinded(configuration: Configuration, names: &[String]) -> (Tree, [Proof; 2]) {
    let mut tree = Tree::empty(configuration);
    for name in names {
        tree.add(&[name], b"1").unwrap();
    }
    let (recording, length) = proof::record(&tree, |tree| tree.length::<&str>(&[])).unwrap();
    assert_eq!(length, names.len() as u64);
    (tree, [recording.tree_proof().unwrap(), recording.stream_proof().unwrap()])
}

/// An honest root of 300 entries in `right`, and its pieces under the version of `wrong`: an inode has the
/// same pre-image in both, and names belong to other buckets. How many names of the tree are then not there.
#[track_caller]
fn relabelling_is_refused(right: Configuration, wrong: Configuration, names: &[String]) -> usize {
    let (tree, proofs) = blinded(right, names);
    let root = Kinded::of(&tree).unwrap();
    let mut denied = 0;
    for honest in proofs {
        let forged = relabelled(&honest, wrong);
        let look = |tree: &mut Tree| tree.length::<&str>(&[]);
        honest.verify(right, root, look).unwrap();
        // It would say this of the tree.
        let as_told = forged.open(wrong, root).unwrap();
        let absent = |name: &&String| proof::read(&as_told, &[name]).unwrap() == Read::Absent;
        let lies: Vec<_> = names.iter().filter(absent).collect();
        denied = lies.len();
        let remove = |tree: &mut Tree| tree.remove(&[lies[0]]);
        forged.verify(wrong, root, remove).unwrap();
        assert_eq!(forged.before, forged.after);

        let refused = |error: Error| {
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert!(error.detail().contains("version"), "{error}");
        };
        for (proof, configuration) in [(&forged, right), (&honest, wrong)] {
            refused(proof.check(configuration).unwrap_err());
            refused(proof.open(configuration, root).unwrap_err());
            refused(proof.verify(configuration, root, look).unwrap_err());
            refused(proof.verify(configuration, root, remove).unwrap_err());
            refused(proof.summary(configuration).unwrap_err());
            refused(proof.shown(configuration, 9).unwrap_err());
            for encoding in [Encoding::V1, Encoding::V2, Encoding::Json] {
                let bytes = proof.encode(encoding).unwrap();
                refused(Proof::decode(&bytes, encoding, configuration).unwrap_err());
                refused(proof::decode_any(&bytes, configuration).unwrap_err());
            }
        }
        for encoding in [Encoding::V1, Encoding::V2, Encoding::Json] {
            let bytes = honest.encode(encoding).unwrap();
            assert_eq!(Proof::decode(&bytes, encoding, right).unwrap(), honest);
            assert_eq!(proof::decode_any(&bytes, right).unwrap(), (encoding, honest.clone()));
        }
        if !honest.is_stream() {
            // Irmin's form has no version: it is read as what the one who checks says.
            let bytes = forged.encode(Encoding::Irmin).unwrap();
            let read = Proof::decode(&bytes, Encoding::Irmin, right).unwrap();
            let shown = read.open(right, root).unwrap();
            for name in names {
                assert_ne!(proof::read(&shown, &[name]).unwrap(), Read::Absent);
            }
        }
    }
    denied
}

#[test]
fn a_binary_root_under_the_version_of_the_chain_is_refused() {
    let names: Vec<_> = (0..300).map(|number| format!("{number}")).collect();
    let denied = relabelling_is_refused(BINARY, Configuration::TEZOS, &names);
    assert!(denied > 250, "{denied}");
}

#[test]
fn a_root_of_the_chain_under_the_version_of_the_binary_one_is_refused() {
    let in_one_bucket = |name: &String| name_hash::seeded(0, name.as_bytes()).is_multiple_of(32);
    let names: Vec<_> =
        (0..).map(|number| format!("{number}")).filter(in_one_bucket).take(300).collect();
    let denied = relabelling_is_refused(Configuration::TEZOS, BINARY, &names);
    assert!(denied > 100, "{denied}");
}

/// A proof of 1,024 directories that all have the same piece in their first bucket, once shown, with 32
/// names of `name_bytes` each.
fn sharing(configuration: Configuration, name_bytes: usize) -> Proof {
    let fits = |name: &Vec<u8>| hash::hash(name)[0] >> 3 == 0;
    let mut names: Vec<Vec<u8>> = (0..)
        .map(|number| format!("{number:0name_bytes$}").into_bytes())
        .filter(fits)
        .take(32)
        .collect();
    names.sort();
    let leaf = Piece::Values(names.into_iter().map(|name| (name, value(1))).collect());
    let hidden = Piece::Blinded(piece_hash(&leaf, 1));
    let directory = |number: usize| {
        let first = if number == 0 { leaf.clone() } else { hidden.clone() };
        let children = vec![(0, first), (1, Piece::Blinded([1; 32]))];
        Part::Inode(inode(300 + number as i64, children))
    };
    let named = |number: usize, part| (format!("{number:05}").into_bytes(), part);
    let four = |number: usize| {
        Part::Node((0..4).map(|each| named(each, directory(4 * number + each))).collect())
    };
    forged(configuration, Part::Node((0..256).map(|number| named(number, four(number))).collect()))
}

/// What is shown once is looked at once, not once for each place that leads to it: half a MiB of names would
/// be hashed a thousand times.
#[test]
#[allow(clippy::disallowed_methods)] // a growth in time is what is tested
fn a_piece_that_many_share_is_checked_once() {
    let configuration =
        Configuration::new(32, 256, varvite::context::ChildOrder::HashBits).unwrap();
    let time = |name_bytes| {
        let proof = sharing(configuration, name_bytes);
        let timed = |_| {
            let start = std::time::Instant::now();
            proof.check(configuration).unwrap();
            start.elapsed()
        };
        (0..5).map(timed).min().unwrap()
    };
    let (short, long) = (time(16), time(16 << 10));
    // Each name of the long ones is hashed, copied and compared once: a few milliseconds.
    assert!(long < 20 * short, "{long:?} with long names, {short:?} with short ones");
}
