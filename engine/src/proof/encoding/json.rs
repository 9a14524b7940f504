//! JSON: kinds as names, bytes as lower-case hexadecimal, in the shape in which Irmin's vectors show
//! proofs: `{"version": 0, "before": ["node", hash], "after": …, "state": {"node": [[step, {…}], …]}}`.
//! A stream's state is a list of elements. A length beyond 2^52 is text.

mod value;

use value::Json;

use super::{kinded, writing_deeper};
use crate::context::hash::{self, Hash};
use crate::context::tree::Kind;
use crate::error::{Error, Result};
use crate::format::codec::Decoder;
use crate::proof::shape::{Element, Entries, Extender, Inode, Kinded, Part, Piece, Proof, State};

/// Integers up to here survive readers that have only floating point.
const EXACT: i64 = 1 << 52;

pub(super) fn encode(proof: &Proof) -> Result<String> {
    let state = match &proof.state {
        State::Tree(part) => part_json(part, 0)?,
        State::Stream(elements) => Json::List(elements.iter().map(element_json).collect()),
    };
    let mut out = String::new();
    Json::Object(vec![
        ("version".to_owned(), Json::Number(i64::from(proof.version))),
        ("before".to_owned(), kinded_json(&proof.before)),
        ("after".to_owned(), kinded_json(&proof.after)),
        ("state".to_owned(), state),
    ])
    .write(&mut out);
    Ok(out)
}

fn one(name: &str, value: Json) -> Json {
    Json::Object(vec![(name.to_owned(), value)])
}

fn hex(bytes: &[u8]) -> Json {
    Json::Text(hash::to_hex(bytes))
}

fn kinded_json(kinded: &Kinded) -> Json {
    let name = if kinded.kind == Kind::Value { "contents" } else { "node" };
    Json::List(vec![Json::Text(name.to_owned()), hex(&kinded.hash)])
}

fn length_json(length: i64) -> Json {
    if (-EXACT..=EXACT).contains(&length) {
        Json::Number(length)
    } else {
        Json::Text(length.to_string())
    }
}

fn entries_json(entries: &Entries, level: usize) -> Result<Json> {
    let pairs =
        entries.iter().map(|(step, part)| Ok(Json::List(vec![hex(step), part_json(part, level)?])));
    pairs.collect::<Result<_>>().map(Json::List)
}

fn inode_json<C>(inode: &Inode<C>, child: impl Fn(&C) -> Result<Json>) -> Result<Json> {
    let pairs = inode
        .children
        .iter()
        .map(|(index, piece)| Ok(Json::List(vec![Json::Number(i64::from(*index)), child(piece)?])));
    let pairs = pairs.collect::<Result<_>>()?;
    Ok(Json::Object(vec![
        ("length".to_owned(), length_json(inode.length)),
        ("proofs".to_owned(), Json::List(pairs)),
    ]))
}

fn extender_json<C>(extender: &Extender<C>, child: Json) -> Json {
    let segments = extender.segment.iter().map(|bucket| Json::Number(i64::from(*bucket)));
    Json::Object(vec![
        ("length".to_owned(), length_json(extender.length)),
        ("segments".to_owned(), Json::List(segments.collect())),
        ("proof".to_owned(), child),
    ])
}

fn part_json(part: &Part, level: usize) -> Result<Json> {
    let level = writing_deeper(level)?;
    Ok(match part {
        Part::Value(value) => one("contents", hex(value)),
        Part::BlindedValue(hash) => one("blinded_contents", hex(hash)),
        Part::Node(entries) => one("node", entries_json(entries, level)?),
        Part::BlindedNode(hash) => one("blinded_node", hex(hash)),
        Part::Inode(inode) => one("inode", inode_json(inode, |piece| piece_json(piece, level))?),
        Part::Extender(extender) => {
            one("extender", extender_json(extender, piece_json(&extender.child, level)?))
        }
    })
}

fn piece_json(piece: &Piece, level: usize) -> Result<Json> {
    let level = writing_deeper(level)?;
    Ok(match piece {
        Piece::Blinded(hash) => one("blinded_inode", hex(hash)),
        Piece::Values(entries) => one("inode_values", entries_json(entries, level)?),
        Piece::Inode(inode) => {
            one("inode_tree", inode_json(inode, |piece| piece_json(piece, level))?)
        }
        Piece::Extender(extender) => {
            one("inode_extender", extender_json(extender, piece_json(&extender.child, level)?))
        }
    })
}

fn element_json(element: &Element) -> Json {
    match element {
        Element::Value(value) => one("contents", hex(value)),
        Element::Node(entries) => {
            let pairs = entries
                .iter()
                .map(|(step, kinded)| Json::List(vec![hex(step), kinded_json(kinded)]));
            one("node", Json::List(pairs.collect()))
        }
        Element::Inode(inode) => {
            let pairs = inode
                .children
                .iter()
                .map(|(index, hash)| Json::List(vec![Json::Number(i64::from(*index)), hex(hash)]));
            let pairs = Json::List(pairs.collect());
            let length = length_json(inode.length);
            one(
                "inode",
                Json::Object(vec![("length".to_owned(), length), ("proofs".to_owned(), pairs)]),
            )
        }
        Element::Extender(extender) => {
            one("inode_extender", extender_json(extender, hex(&*extender.child)))
        }
    }
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::corrupt("proof", 0, "a proof in JSON", what)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Proof> {
    let json = Json::read(bytes)?;
    let state = json.field("state")?;
    Ok(Proof {
        version: i16::try_from(json.field("version")?.number()?)
            .map_err(|_| wrong("a version of more than 16 bits"))?,
        before: kinded_of(json.field("before")?)?,
        after: kinded_of(json.field("after")?)?,
        state: match state {
            Json::List(elements) => {
                State::Stream(elements.iter().map(element_of).collect::<Result<_>>()?)
            }
            part => State::Tree(part_of(part, 0)?),
        },
    })
}

/// `Corrupt` unless `bytes`, of which `proof` was read, are what is written of it, apart from blanks. Text
/// of proofs holds no blanks, so that those in `bytes` are all between what it consists of.
pub(super) fn check_form(bytes: &[u8], proof: &Proof) -> Result<()> {
    let again = encode(proof)?;
    let mut expected = again.bytes();
    for (at, byte) in bytes.iter().enumerate().filter(|(_, byte)| !value::is_blank(**byte)) {
        if expected.next() != Some(*byte) {
            return Err(Decoder::new("proof", at as u64, &[]).corrupt(
                "JSON as it is written: members in their order, digits in their shortest form",
                "another form of the same meaning",
            ));
        }
    }
    Ok(())
}

fn bytes_of(json: &Json) -> Result<Vec<u8>> {
    let text = json.text()?.as_bytes();
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(wrong("a character that is no lower-case hexadecimal digit")),
    };
    if !text.len().is_multiple_of(2) {
        return Err(wrong("an odd number of hexadecimal digits"));
    }
    text.chunks_exact(2).map(|pair| Ok(digit(pair[0])? * 16 + digit(pair[1])?)).collect()
}

fn hash_of(json: &Json) -> Result<Hash> {
    bytes_of(json)?.try_into().map_err(|_| wrong("a hash that is not of 32 bytes"))
}

fn pair(json: &Json) -> Result<(&Json, &Json)> {
    match json {
        Json::List(items) if items.len() == 2 => Ok((&items[0], &items[1])),
        _ => Err(wrong("something else than a pair")),
    }
}

fn kinded_of(json: &Json) -> Result<Kinded> {
    let (kind, hash) = pair(json)?;
    let kind = match kind.text()? {
        "contents" | "value" => Kind::Value,
        "node" => Kind::Directory,
        other => return Err(wrong(format_args!("the kind {other:?}"))),
    };
    Ok(kinded(kind, hash_of(hash)?))
}

fn length_of(json: &Json) -> Result<i64> {
    match json {
        Json::Text(text) => text.parse().map_err(|_| wrong(format_args!("the length {text:?}"))),
        other => other.number(),
    }
}

fn bucket_of(json: &Json) -> Result<u16> {
    u16::try_from(json.number()?).map_err(|_| wrong("a bucket that is none"))
}

fn entries_of(json: &Json, level: usize) -> Result<Entries> {
    let entries = json.list()?.iter().map(|item| {
        let (step, part) = pair(item)?;
        Ok((bytes_of(step)?, part_of(part, level)?))
    });
    entries.collect()
}

fn inode_of<C>(json: &Json, child: impl Fn(&Json) -> Result<C>) -> Result<Inode<C>> {
    let children = json.field("proofs")?.list()?.iter().map(|item| {
        let (index, piece) = pair(item)?;
        Ok((bucket_of(index)?, child(piece)?))
    });
    Ok(Inode {
        length: length_of(json.field("length")?)?,
        children: children.collect::<Result<_>>()?,
    })
}

fn extender_of<C>(json: &Json, child: impl Fn(&Json) -> Result<C>) -> Result<Extender<C>> {
    Ok(Extender {
        length: length_of(json.field("length")?)?,
        segment: json.field("segments")?.list()?.iter().map(bucket_of).collect::<Result<_>>()?,
        child: Box::new(child(json.field("proof")?)?),
    })
}

/// One level deeper; what is too deep for the other encodings is for this one.
fn deeper(level: usize) -> Result<usize> {
    writing_deeper(level).map_err(|error| wrong(error.detail()))
}

fn part_of(json: &Json, level: usize) -> Result<Part> {
    let level = deeper(level)?;
    let (kind, value) = json.only()?;
    Ok(match kind {
        "contents" => Part::Value(bytes_of(value)?),
        "blinded_contents" => Part::BlindedValue(hash_of(value)?),
        "node" => Part::Node(entries_of(value, level)?),
        "blinded_node" => Part::BlindedNode(hash_of(value)?),
        "inode" => Part::Inode(inode_of(value, |piece| piece_of(piece, level))?),
        "extender" => Part::Extender(extender_of(value, |piece| piece_of(piece, level))?),
        other => return Err(wrong(format_args!("a part of kind {other:?}"))),
    })
}

fn piece_of(json: &Json, level: usize) -> Result<Piece> {
    let level = deeper(level)?;
    let (kind, value) = json.only()?;
    Ok(match kind {
        "blinded_inode" => Piece::Blinded(hash_of(value)?),
        "inode_values" => Piece::Values(entries_of(value, level)?),
        "inode_tree" => Piece::Inode(inode_of(value, |piece| piece_of(piece, level))?),
        "inode_extender" => Piece::Extender(extender_of(value, |piece| piece_of(piece, level))?),
        other => return Err(wrong(format_args!("a piece of kind {other:?}"))),
    })
}

fn element_of(json: &Json) -> Result<Element> {
    let (kind, value) = json.only()?;
    Ok(match kind {
        "contents" => Element::Value(bytes_of(value)?),
        "node" => {
            let entries = value.list()?.iter().map(|item| {
                let (step, kinded) = pair(item)?;
                Ok((bytes_of(step)?, kinded_of(kinded)?))
            });
            Element::Node(entries.collect::<Result<_>>()?)
        }
        "inode" => Element::Inode(inode_of(value, hash_of)?),
        "inode_extender" => Element::Extender(extender_of(value, hash_of)?),
        other => return Err(wrong(format_args!("an element of kind {other:?}"))),
    })
}
