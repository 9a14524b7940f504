//! Proofs of what is shown.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::json;
use varvite::context::{Configuration, hash::to_text};
use varvite::proof::{self, Encoding, Proof};

use super::context::{context, place};
use super::text::hash;
use super::{Made, State, Until};
use crate::answer::{Answer, Fault};
use crate::query::Query;

struct Proven {
    commit: String,
    root: String,
    configuration: &'static str,
    path: String,
    proof: Proof,
    encoding: Encoding,
    name: String,
}

fn make(state: &State, query: &Query, until: &Until) -> Result<Proven, Fault> {
    let store = context(state, query)?;
    let refused = |why: &str| Fault::from(crate::query::Refused(why.to_owned()));
    let (encoding, ending) = match query.text("encoding")?.as_deref() {
        None | Some("v2") => (Encoding::V2, "v2"),
        Some("v1") => (Encoding::V1, "v1"),
        Some("json") => (Encoding::Json, "json"),
        Some(_) => return Err(refused("encoding is v1, v2 or json")),
    };
    let configuration = match store.configuration() {
        it if it == Configuration::TEZOS => "tezos",
        it if it == Configuration::TEZOS_BINARY => "tezos-binary",
        _ => {
            return Err(refused(
                "the store's configuration is neither of the two that the version of a proof names",
            ));
        }
    };
    let (commit, path, _) = place(&store, query)?;
    if path.iter().any(Vec::is_empty) {
        return Err(refused(
            "a step of the path has no bytes, and the program that checks proofs cannot be given such a one: \
             ask for a path above it",
        ));
    }
    let tree = store.checkout(&commit)?;
    let (recording, _) = proof::record(&tree, |tree| proof::read(tree, &path))?;
    until.expect_client()?;
    let made = recording.tree_proof()?;
    drop(recording);
    until.expect_client()?;
    let commit = hash(&commit);
    // As the program takes paths, in hexadecimal: any step that has bytes can be written so.
    let path: Vec<_> = path.iter().map(|step| super::text::hex(step)).collect();
    // Two proofs of one commit have two names, or a browser would give the second one another than the command has.
    let mut of_path = DefaultHasher::new();
    path.hash(&mut of_path);
    let start = commit.get(..12).unwrap_or(&commit);
    let name = format!("proof-{start}-{:08x}.{ending}", of_path.finish() as u32);
    Ok(Proven {
        commit,
        root: to_text(&made.before.hash),
        configuration,
        path: path.join("/"),
        proof: made,
        encoding,
        name,
    })
}

/// `/api/proof`.
pub fn describe(state: &State, query: &Query, until: &Until) -> Made {
    let proven = make(state, query, until)?;
    let path = if proven.path.is_empty() { "\"\"" } else { &proven.path };
    let check = format!(
        "varvite proof check {} --hex --configuration {} --root {} {path}",
        proven.name, proven.configuration, proven.root
    );
    Ok(Answer::Json(
        json!({
            "commit": proven.commit, "root": proven.root, "configuration": proven.configuration,
            "bytes": proven.proof.encoded_length(proven.encoding)?, "name": proven.name, "check": check,
        }),
        "",
    ))
}

/// `/api/proof/file`.
pub fn file(state: &State, query: &Query, until: &Until) -> Made {
    let proven = make(state, query, until)?;
    let bytes = proven.proof.encode(proven.encoding)?;
    Ok(Answer::File { name: proven.name, bytes })
}
