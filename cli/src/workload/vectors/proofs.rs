//! Vectors of Merkle proofs: Irmin's proofs of accesses, and Octez' encodings.

use std::collections::HashMap;

use serde_json::{Value, json};
use varvite::context::{Configuration, Tree};
use varvite::proof::{self, Encoding, Kinded, Proof};
use varvite::{Error, Kind, Result};

use super::{Verdicts, access, array, bytes as bytes_in, configuration, text};

/// Accesses and proofs that vectors of other files refer to by their id.
#[derive(Debug, Default)]
pub struct Known(HashMap<(String, String), Value>);

impl Known {
    /// Takes note of what `vectors` state, if it is accesses.
    pub fn learn(&mut self, vectors: &[Value]) {
        for vector in vectors.iter().filter(|vector| vector.get("accesses").is_some()) {
            if let (Some(conf), Some(id)) = (vector["conf"].as_str(), vector["id"].as_str()) {
                let row = json!({ "accesses": vector["accesses"], "proof": vector["proof"] });
                self.0.insert((conf.to_owned(), id.to_owned()), row);
            }
        }
    }

    fn find(&self, binary: bool, id: &Value) -> Option<&Value> {
        let conf = if binary { "tezos-binary" } else { "tezos" };
        self.0.get(&(conf.to_owned(), id.as_str()?.to_owned()))
    }
}

/// Puts whole numbers that were written as floating point into text, as longer ones are.
fn without_floats(json: &mut Value) {
    match json {
        Value::Number(number) if number.is_f64() => {
            *json = Value::String(number.as_f64().map_or(0, |number| number as i64).to_string());
        }
        Value::Array(items) => items.iter_mut().for_each(without_floats),
        Value::Object(members) => members.values_mut().for_each(without_floats),
        _ => {}
    }
}

/// The proof that is shown in the vectors' JSON, with this version.
fn shown(proof: &Value, version: &Value, state: &Value) -> Result<Proof> {
    let mut json = json!({
        "version": version, "before": proof["before"], "after": proof["after"], "state": state,
    });
    without_floats(&mut json);
    Proof::decode_as(json.to_string().as_bytes(), Encoding::Json, false, false)
}

/// Runs accesses as Irmin does, which loads a value to tell whether it is there.
fn run(tree: &mut Tree, accesses: &[Value]) -> Result<Vec<Value>> {
    let run = |row: &Value| {
        let read = json!(["find", row[1]]);
        Ok(match row[0].as_str() {
            Some("mem") => Value::Bool(access(tree, &read)? != Value::Null),
            _ => access(tree, row)?,
        })
    };
    accesses.iter().map(run).collect()
}

/// Irmin's proof of accesses to `tree`: the same bytes, and proofs of ours that verify.
pub fn accesses(vector: &Value, tree: &Tree, verdicts: &mut Verdicts) -> Result<()> {
    let row = &vector["proof"];
    if row.get("irmin_bin").is_none() {
        return Ok(());
    }
    let configuration = configuration(vector)?;
    let version = Proof::version_of(configuration, false);
    let theirs = shown(row, &version.into(), &row["state"])?;
    let (list, results) = (array(&vector["accesses"])?, array(&row["results"])?);
    let irmin = bytes_in(&row["irmin_bin"])?;
    verdicts.equal("Irmin's encoding", &theirs.encode(Encoding::Irmin)?, &irmin);
    let decoded = Proof::decode(&irmin, Encoding::Irmin, configuration)?;
    verdicts.equal("what Irmin's encoding decodes to", &decoded, &theirs);
    let json = theirs.encode(Encoding::Json)?;
    verdicts.equal(
        "what JSON decodes to",
        &Proof::decode(&json, Encoding::Json, configuration)?,
        &theirs,
    );
    theirs.check(configuration)?;
    verdicts.passed += 1;

    let (recording, found) = proof::record(tree, |tree| run(tree, list))?;
    verdicts.equal("what was recorded", &found, results);
    let ours = recording.tree_proof()?;
    let checked = theirs.verify(configuration, theirs.before, |tree| run(tree, list));
    if row["verified"] == Value::Bool(true) {
        verdicts.equal("our proof", &ours.encode(Encoding::Irmin)?, &irmin);
        verdicts.equal("what their proof proves", &checked?, results);
    } else {
        let refused = checked.map_err(|error| error.kind()).err();
        verdicts.equal(
            "what is read of a proof that lacks something",
            &refused,
            &Some(Kind::Hidden),
        );
    }
    let stream = recording.stream_proof()?;
    for (what, proof) in [("our proof", &ours), ("our stream", &stream)] {
        let checked = proof.verify(configuration, theirs.before, |tree| run(tree, list))?;
        verdicts.equal(&format!("what {what} proves"), &checked, results);
        verdicts.equal(&format!("the hash after in {what}"), &proof.after, &theirs.after);
    }
    Ok(())
}

/// The configuration that a vector's own version names.
fn stated(vector: &Value) -> Result<Configuration> {
    let version = vector["version"].as_i64().ok_or_else(|| Error::invalid("it has no version"))?;
    Ok(if version & 2 == 0 { Configuration::TEZOS } else { Configuration::TEZOS_BINARY })
}

/// Both encodings of a vector, where it has them, decoded to the same proof.
fn decoded(vector: &Value, configuration: Configuration, verdicts: &mut Verdicts) -> Result<Proof> {
    let mut found: Option<Proof> = None;
    for (name, encoding) in [("v1", Encoding::V1), ("v2", Encoding::V2)] {
        let Some(hex) = vector.get(name) else { continue };
        let bytes = bytes_in(hex)?;
        let proof = Proof::decode(&bytes, encoding, configuration)?;
        verdicts.equal(name, &proof.encode(encoding)?, &bytes);
        let same = proof::decode_any(&bytes, configuration)? == (encoding, proof.clone());
        verdicts.equal(&format!("whether {name} is told from the others"), &same, &true);
        if let Some(other) = &found {
            verdicts.equal("the proof in V2", &proof, other);
        }
        found = Some(proof);
    }
    found.ok_or_else(|| Error::invalid("it has no encoding"))
}

/// An encoded tree proof.
pub fn encoded(vector: &Value, known: &Known, verdicts: &mut Verdicts) -> Result<()> {
    let configuration = stated(vector)?;
    let proof = decoded(vector, configuration, verdicts)?;
    proof.check(configuration)?;
    verdicts.passed += 1;
    let binary = configuration == Configuration::TEZOS_BINARY;
    if let Some(row) = known.find(binary, &vector["id"]) {
        let row = &row["proof"];
        verdicts.equal("the proof", &proof, &shown(row, &vector["version"], &row["state"])?);
    }
    Ok(())
}

/// An encoded stream proof.
pub fn stream(vector: &Value, known: &Known, verdicts: &mut Verdicts) -> Result<()> {
    let configuration = stated(vector)?;
    let proof = decoded(vector, configuration, verdicts)?;
    verdicts.equal("the proof", &proof, &shown(vector, &vector["version"], &vector["stream"])?);
    proof.check(configuration)?;
    verdicts.passed += 1;
    let binary = configuration == Configuration::TEZOS_BINARY;
    if let Some(row) = known.find(binary, &vector["id"]) {
        let list = array(&row["accesses"])?;
        let before: Kinded = proof.before;
        let checked = proof.verify(configuration, before, |tree| run(tree, list))?;
        verdicts.equal("what the stream proves", &checked, array(&row["proof"]["results"])?);
    }
    Ok(())
}

/// A proof of nothing, encoded or refused.
pub fn made_up(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let row = &vector["proof"];
    let proof = shown(row, &row["version"], &row["state"]);
    let binary = text(&vector["conf"])? == "tezos-binary";
    for (name, encoding) in [("v1", Encoding::V1), ("v2", Encoding::V2)] {
        let encoded = match &proof {
            Ok(proof) => proof.encode_as(encoding, binary).ok(),
            Err(_) => None,
        };
        let expected = vector.get(name).map(bytes_in).transpose()?;
        verdicts.equal(name, &encoded, &expected);
        if let (Some(bytes), Ok(proof)) = (expected, &proof) {
            let again = Proof::decode_as(&bytes, encoding, binary, proof.is_stream())?;
            verdicts.equal(&format!("what {name} decodes to"), &again, proof);
        }
    }
    Ok(())
}

/// Bytes that decode to a proof, or do not; and those that do in a form that is not the only one.
pub fn bytes(vector: &Value, verdicts: &mut Verdicts) -> Result<()> {
    let encoding = if text(&vector["enc"])? == "v1" { Encoding::V1 } else { Encoding::V2 };
    let binary = text(&vector["conf"])? == "tezos-binary";
    let stream = text(&vector["kind"])? == "stream";
    let found = Proof::decode_as(&bytes_in(&vector["hex"])?, encoding, binary, stream);
    if vector["ok"] == Value::Bool(true) && vector["canonical"] == Value::Bool(true) {
        let row = &vector["decoded"];
        verdicts.equal(
            "what they decode to",
            &found?,
            &shown(row, &row["version"], &row["state"])?,
        );
    } else {
        let refused = found.map_err(|error| error.kind()).err();
        verdicts.equal("the refusal", &refused, &Some(Kind::Corrupt));
    }
    Ok(())
}
