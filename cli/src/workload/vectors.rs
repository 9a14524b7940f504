//! Vectors of Tezos context hashing and of Merkle proofs: how each kind is recomputed.

mod proofs;

use serde_json::Value;
use std::str::FromStr;

use varvite::context::{ChildOrder, Configuration, Kind as TreeKind, Tree, directory_hash};
use varvite::context::{CommitHash, TreeHash, hash};
use varvite::raw::{name_hash, preimage};
use varvite::{Error, Result};

use crate::hex;

pub use proofs::Known;

/// What a vector states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Operations on a tree and its hashes.
    Trees,
    /// The inodes of a directory.
    Inodes,
    /// Accesses to a tree: their results, the tree's hash after them, and Irmin's proof of them.
    Accesses,
    /// Octez' encodings of proofs.
    EncodedProofs,
    /// Octez' stream proofs and their encodings.
    EncodedStreams,
    /// Made-up proofs at the bounds of their encodings.
    MadeUpProofs,
    /// Bytes, and whether Octez decodes them to a proof.
    ProofBytes,
    /// Commit hashes.
    Commits,
    /// Hashes of values.
    Contents,
    /// Directories whose children are known by their hashes.
    Nodes,
    /// OCaml's seeded hash.
    SeededHashes,
    /// Scripts of adding, removing, copying, committing.
    Scripts,
    /// Single values that Irmin's own tests state.
    Constants,
}

impl Kind {
    /// The kind of the file whose first vector this is.
    pub fn of(first: &Value) -> Option<Kind> {
        let has = |key: &str| first.get(key).is_some();
        Some(if has("ops") && has("root") {
            Kind::Trees
        } else if has("inodes") {
            Kind::Inodes
        } else if has("accesses") && has("proof") {
            Kind::Accesses
        } else if has("enc") && has("ok") {
            Kind::ProofBytes
        } else if has("proof") && has("kind") {
            Kind::MadeUpProofs
        } else if has("stream") && has("v2") {
            Kind::EncodedStreams
        } else if has("version") && has("v2") {
            Kind::EncodedProofs
        } else if has("parents_stored") {
            Kind::Commits
        } else if has("value") && has("hash") {
            Kind::Contents
        } else if has("bindings") {
            Kind::Nodes
        } else if has("ocaml_hash") {
            Kind::SeededHashes
        } else if has("scripts") {
            Kind::Scripts
        } else if has("inode_small_conf") {
            Kind::Constants
        } else {
            return None;
        })
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Trees => "trees",
            Kind::Inodes => "inodes",
            Kind::Accesses => "accesses and proofs",
            Kind::EncodedProofs => "encoded proofs",
            Kind::EncodedStreams => "encoded streams",
            Kind::MadeUpProofs => "made-up proofs",
            Kind::ProofBytes => "proof bytes",
            Kind::Commits => "commits",
            Kind::Contents => "contents",
            Kind::Nodes => "nodes",
            Kind::SeededHashes => "seeded hashes",
            Kind::Scripts => "commit scripts",
            Kind::Constants => "constants",
        }
    }
}

/// What became of one vector, which may state several things.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// How many hold.
    pub passed: u64,
    /// What does not.
    pub failed: Vec<String>,
}

impl Verdicts {
    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: &T, expected: &T) {
        if found == expected {
            self.passed += 1;
        } else {
            self.failed.push(format!("{what} is {}, expected {}", plain(found), plain(expected)));
        }
    }
}

/// As it is shown, with hashes as they are written.
fn plain(it: &impl std::fmt::Debug) -> String {
    let mut text = format!("{it:?}");
    for name in ["TreeHash(", "CommitHash("] {
        while let Some(start) = text.find(name) {
            if let Some(end) = text[start..].find(')') {
                text.remove(start + end);
            }
            text.replace_range(start..start + name.len(), "");
        }
    }
    text
}

/// Checks vector after vector of one file.
#[derive(Debug)]
pub struct Checker<'a> {
    kind: Kind,
    known: &'a Known,
    /// The operations of the tree that later vectors refer to.
    tree: Option<(Value, Tree)>,
}

impl<'a> Checker<'a> {
    /// For a file of `kind`, whose vectors may refer to those that are `known`.
    pub fn new(kind: Kind, known: &'a Known) -> Checker<'a> {
        Checker { kind, known, tree: None }
    }

    /// Recomputes one vector. What cannot be read counts as failed.
    pub fn check(&mut self, vector: &Value) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let outcome = match self.kind {
            Kind::Trees => tree(vector, &mut verdicts),
            Kind::Inodes => inodes(vector, &mut verdicts),
            Kind::Accesses => self.accesses(vector, &mut verdicts),
            Kind::EncodedProofs => proofs::encoded(vector, self.known, &mut verdicts),
            Kind::EncodedStreams => proofs::stream(vector, self.known, &mut verdicts),
            Kind::MadeUpProofs => proofs::made_up(vector, &mut verdicts),
            Kind::ProofBytes => proofs::bytes(vector, &mut verdicts),
            Kind::Commits => commit(vector, &mut verdicts),
            Kind::Contents => contents(vector, &mut verdicts),
            Kind::Nodes => node(vector, &mut verdicts),
            Kind::SeededHashes => seeded(vector, &mut verdicts),
            Kind::Scripts => scripts(vector, &mut verdicts),
            Kind::Constants => constants(vector, &mut verdicts),
        };
        if let Err(error) = outcome {
            verdicts.failed.push(error.to_string());
        }
        verdicts
    }

    fn accesses(&mut self, vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
        if let Some(operations) = vector.get("ops") {
            let mut tree = Tree::empty(configuration(vector)?);
            apply(&mut tree, array(operations)?)?;
            self.tree = Some((vector["tree"].clone(), tree));
        }
        let (id, tree) =
            self.tree.as_ref().ok_or_else(|| Error::invalid("no operations come before it"))?;
        if *id != vector["tree"] {
            return Err(Error::invalid("it refers to another tree than the one before it"));
        }
        proofs::accesses(vector, tree, verdicts)?;
        let mut tree = tree.clone();
        let proof = &vector["proof"];
        verdicts.equal("the hash before", &tree.hash()?, &hash_of(&proof["before"][1])?);
        let results = array(&proof["results"])?;
        for (access, expected) in array(&vector["accesses"])?.iter().zip(results) {
            let found = self::access(&mut tree, access)?;
            verdicts.equal(&format!("the result of {access}"), &found, expected);
        }
        verdicts.equal("the hash after", &tree.hash()?, &hash_of(&proof["after"][1])?);
        Ok(())
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| Error::invalid(format!("{value} is not text")))
}

fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().ok_or_else(|| Error::invalid(format!("{value} is not a list")))
}

fn bytes(value: &Value) -> Result<Vec<u8>> {
    let text = text(value)?;
    hex::decode(text).ok_or_else(|| Error::invalid(format!("{text:?} is not hexadecimal")))
}

fn number(value: &Value) -> Result<u64> {
    value.as_u64().ok_or_else(|| Error::invalid(format!("{value} is not a number")))
}

/// A hash in hexadecimal or in its text form, or after its kind in a pair.
fn hash_of<H: FromStr<Err = Error>>(value: &Value) -> Result<H> {
    text(value)?.parse()
}

/// Steps in hexadecimal, joined by "/"; null is the root.
fn path(value: &Value) -> Result<Vec<Vec<u8>>> {
    let Some(text) = value.as_str() else { return Ok(Vec::new()) };
    text.split('/')
        .map(|step| {
            hex::decode(step).ok_or_else(|| Error::invalid(format!("{text:?} is no path of hex")))
        })
        .collect()
}

/// Steps in plain text.
fn plain_path(value: &Value) -> Result<Vec<&[u8]>> {
    Ok(text(value)?.split('/').map(str::as_bytes).collect())
}

fn configuration(vector: &Value) -> Result<Configuration> {
    match text(&vector["conf"])? {
        "tezos" => Ok(Configuration::TEZOS),
        "tezos-binary" => Ok(Configuration::TEZOS_BINARY),
        "seeded2" => Configuration::new(2, 2, ChildOrder::SeededHash),
        "bin0-hashbits" => Configuration::new(2, 0, ChildOrder::HashBits),
        "hb32" => Configuration::new(32, 256, ChildOrder::HashBits),
        other => Err(Error::invalid(format!("the configuration {other:?} is not known"))),
    }
}

fn apply(tree: &mut Tree, operations: &[Value]) -> Result<()> {
    for operation in operations {
        let path = path(&operation[1])?;
        match text(&operation[0])? {
            "add" => tree.add(&path, &bytes(&operation[2])?)?,
            "del" => tree.remove(&path)?,
            other => return Err(Error::invalid(format!("the operation {other:?} is not known"))),
        }
    }
    Ok(())
}

fn tree(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let mut tree = Tree::empty(configuration(vector)?);
    apply(&mut tree, array(&vector["ops"])?)?;
    verdicts.equal("the root", &tree.hash()?, &hash_of(&vector["root"])?);
    let mut rebuilt = Tree::empty(tree.configuration());
    let mut leaves = 0;
    tree.fold::<&[u8]>(&[], None, varvite::context::Order::Sorted, |path, tree| {
        if let Some(value) = tree.to_value()? {
            leaves += 1;
            rebuilt.add(path, &value)?;
        }
        Ok(())
    })?;
    verdicts.equal("the rebuilt root", &rebuilt.hash()?, &hash_of(&vector["rebuilt_root"])?);
    verdicts.equal("the count of leaves", &leaves, &number(&vector["leaves"])?);
    if let Some(hashes) = vector.get("dir_hashes") {
        for pair in array(hashes)? {
            let found = tree.find_tree(&path(&pair[0])?)?.map(|tree| tree.hash()).transpose()?;
            verdicts.equal(&format!("the hash at {}", pair[0]), &found, &Some(hash_of(&pair[1])?));
        }
    }
    Ok(())
}

/// One access, with the result in the form that the vectors have it in.
fn access(tree: &mut Tree, access: &Value) -> Result<Value> {
    let path = path(&access[1])?;
    let hex = |bytes: &[u8]| Value::String(hex::encode(bytes));
    Ok(match text(&access[0])? {
        "find" => tree.find(&path)?.map_or(Value::Null, |value| hex(&value)),
        "mem" => tree.mem(&path)?.into(),
        "mem_tree" => tree.mem_tree(&path)?.into(),
        "find_tree" => match tree.find_tree(&path)? {
            Some(tree) => hex(tree.hash()?.as_ref()),
            None => Value::Null,
        },
        "length" => tree.length(&path)?.into(),
        "list" => {
            let mut names: Vec<_> =
                tree.list(&path, 0, u64::MAX)?.into_iter().map(|(name, _)| name).collect();
            names.sort_unstable();
            names.iter().map(|name| hex(name)).collect()
        }
        "set" => {
            tree.add(&path, &bytes(&access[2])?)?;
            Value::Null
        }
        "rem" => {
            tree.remove(&path)?;
            Value::Null
        }
        other => return Err(Error::invalid(format!("the access {other:?} is not known"))),
    })
}

fn inodes(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let configuration = configuration(vector)?;
    let mut tree = Tree::empty(configuration);
    let count = number(&vector["n"])?;
    for index in 0..count {
        let name = index.to_string();
        tree.add(&[&name], format!("v{name}").as_bytes())?;
    }
    let root = tree.hash()?;
    verdicts.equal("the root", &root, &hash_of(&vector["root"])?);
    // Every inode that a pointer names must be the hash of one listed before it.
    let mut made: Vec<hash::Hash> = Vec::new();
    for inode in array(&vector["inodes"])? {
        let mut out = Vec::new();
        if text(&inode["kind"])? == "tree" {
            let pointers = array(&inode["pointers"])?;
            let (depth, length) = (number(&inode["depth"])?, number(&inode["length"])?);
            preimage::put_branch_head(&mut out, depth, length, pointers.len() as u64);
            for pointer in pointers {
                let below = hash_of::<TreeHash>(&pointer[1])?.to_bytes();
                verdicts.equal("a pointer's inode is listed", &made.contains(&below), &true);
                preimage::put_branch_pointer(&mut out, number(&pointer[0])?, &below);
            }
        } else {
            let entries = array(&inode["entries"])?;
            preimage::put_values_head(&mut out, entries.len() as u64);
            for entry in entries {
                let is_value = text(&entry[1][0])? == "contents";
                preimage::put_values_entry(
                    &mut out,
                    &bytes(&entry[0])?,
                    is_value,
                    hash_of::<TreeHash>(&entry[1][1])?.as_bytes(),
                );
            }
        }
        made.push(hash::hash(&out));
    }
    if count > configuration.stable_hash() as u64 {
        verdicts.equal("the last inode", &made.last(), &Some(&root));
    }
    Ok(())
}

fn commit(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let hashes =
        |value: &Value| -> Result<Vec<CommitHash>> { array(value)?.iter().map(hash_of).collect() };
    let mut parents = hashes(&vector["parents"])?;
    parents.sort_unstable();
    verdicts.equal("the order of parents", &parents, &hashes(&vector["parents_stored"])?);
    let date = text(&vector["date"])?;
    let date =
        date.parse().map_err(|_| Error::invalid(format!("{date:?} is not a date in seconds")))?;
    let (author, message) = (bytes(&vector["author"])?, bytes(&vector["message"])?);
    let found = hash::commit(&hash_of(&vector["tree"])?, &parents, date, &author, &message);
    verdicts.equal("the commit", &found, &hash_of(&vector["hash"])?);
    Ok(())
}

fn contents(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let found = TreeHash::new(hash::value(&bytes(&vector["value"])?));
    verdicts.equal("the hash", &found, &hash_of(&vector["hash"])?);
    Ok(())
}

fn node(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let mut children = Vec::new();
    for binding in array(&vector["bindings"])? {
        let kind = match text(&binding["kind"])? {
            "Tree" => TreeKind::Directory,
            _ => TreeKind::Value,
        };
        children.push((latin(text(&binding["name"])?), kind, hash_of(&binding["hash"])?));
    }
    let found = directory_hash(Configuration::TEZOS, &children)?;
    verdicts.equal("the hash", &found, &hash_of(&vector["hash"])?);
    Ok(())
}

/// Names in JSON hold one byte a character.
fn latin(text: &str) -> Vec<u8> {
    text.chars().map(|character| character as u8).collect()
}

fn seeded(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let found = name_hash::seeded(number(&vector["seed"])? as u32, &latin(text(&vector["s"])?));
    verdicts.equal("the hash", &u64::from(found), &number(&vector["ocaml_hash"])?);
    Ok(())
}

fn scripts(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    for script in array(&vector["scripts"])? {
        let mut tree = Tree::empty(Configuration::TEZOS);
        let mut parent = Vec::new();
        for step in array(&script["steps"])? {
            match text(&step["op"])? {
                "add" => tree.add(&plain_path(&step["key"])?, &bytes(&step["value"])?)?,
                "remove" => tree.remove(&plain_path(&step["key"])?)?,
                "copy" => {
                    let from = tree.find_tree(&plain_path(&step["from"])?)?;
                    let from = from.ok_or_else(|| Error::invalid("nothing to copy"))?;
                    tree.add_tree(&plain_path(&step["key"])?, &from)?;
                }
                "absent" => {
                    let found = tree.mem_tree(&plain_path(&step["key"])?)?;
                    verdicts.equal("a removed path", &found, &false);
                }
                "commit" => {
                    let hash = hash::commit(&tree.hash()?, &parent, 0, b"Tezos", b"Genesis");
                    let expected = text(&step["expect"])?.to_owned();
                    verdicts.equal("the commit", &hash::to_text(&hash), &expected);
                    parent = vec![hash];
                }
                other => return Err(Error::invalid(format!("the step {other:?} is not known"))),
            }
        }
    }
    Ok(())
}

fn constants(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let value = bytes(&vector["value_hex"])?;
    let found = TreeHash::new(hash::value(&value));
    verdicts.equal("the value", &found, &hash_of(&vector["contents_hash"])?);
    let expected = text(&vector["contents_b58"])?.to_owned();
    verdicts.equal("its text", &hash::to_text(&found), &expected);
    let directory = |configuration: Configuration, steps: &Value| -> Result<TreeHash> {
        let mut tree = Tree::empty(configuration);
        for step in array(steps)? {
            tree.add(&[text(step)?], &value)?;
        }
        tree.hash()
    };
    let small = &vector["small_tree"];
    let found = directory(Configuration::TEZOS, &small["steps"])?;
    verdicts.equal("the small tree", &found, &hash_of(&small["hash"])?);
    let inode = &vector["inode_small_conf"];
    let configuration = Configuration::new(2, 3, ChildOrder::SeededHash)?;
    let found = directory(configuration, &inode["steps"])?;
    verdicts.equal("the inode", &found, &hash_of(&inode["hash"])?);
    let stated = &vector["commit"];
    let mut parents: Vec<CommitHash> =
        array(&stated["parents"])?.iter().map(hash_of).collect::<Result<_>>()?;
    parents.sort_unstable();
    let found = hash::commit(
        &hash_of(&stated["tree"])?,
        &parents,
        stated["date"].as_i64().unwrap_or_default(),
        text(&stated["author"])?.as_bytes(),
        text(&stated["message"])?.as_bytes(),
    );
    verdicts.equal("the commit", &found, &hash_of(&stated["hash"])?);
    Ok(())
}
