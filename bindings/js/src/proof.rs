//! Proofs: made, encoded, and checked without a store.

use js_sys::{Array, Function};
use varvite::context::Kind;
use varvite::proof::{self, Encoding, Kinded, Shown, decode_any};
use wasm_bindgen::prelude::*;

use crate::fault::{Outcome, Raised, Throw, invalid};
use crate::input::{Given, bytes, choose, count, hash, object, tell};
use crate::options::configuration;
use crate::tree::{Tree, kind, lend};

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** How a proof is written. */
export type Encoding = "v1" | "v2" | "irmin" | "json";
/** Kind and hash of a tree. */
export interface Root { kind: "value" | "directory"; hash: Uint8Array }
/** Something that a proof shows: a value; a directory with so many entries, of which so many have their names shown; or the hash of what it hides. */
export type Shown =
  | { path: Uint8Array[]; shown: "value"; value: Uint8Array }
  | { path: Uint8Array[]; shown: "directory"; entries: number; named: number }
  | { path: Uint8Array[]; shown: "hidden-value" | "hidden-directory"; hash: Uint8Array };
/** What a proof shows and hides, counted. */
export interface Summary { values: number; valueBytes: number; hiddenValues: number; directories: number; names: number; hiddenDirectories: number; hiddenPieces: number }
"#;

const ENCODINGS: [(&str, Encoding); 4] = [
    ("v1", Encoding::V1),
    ("v2", Encoding::V2),
    ("irmin", Encoding::Irmin),
    ("json", Encoding::Json),
];

/// A proof of what a context holds. Who checks it needs no store, only a root hash that is known to be right.
#[wasm_bindgen]
pub struct Proof(proof::Proof);

/// A root as a program passes it: a hash is that of a directory, or an object says which kind.
fn root(value: &JsValue) -> Outcome<Kinded> {
    let is_object = value.is_object() && !value.is_instance_of::<js_sys::Uint8Array>();
    if !is_object {
        return Ok(Kinded::directory(hash(value)?.into()));
    }
    let given = Given::of(value, &["kind", "hash"])?;
    let kinds = [("value", Kind::Value), ("directory", Kind::Directory)];
    let kind = given.choose("kind", &kinds)?.unwrap_or(Kind::Directory);
    Ok(Kinded { kind, hash: hash(&given.get("hash")?)?.into() })
}

fn told_root(from: Kinded) -> JsValue {
    object(&[("kind", kind(from.kind)), ("hash", tell(Some(from.hash.as_ref())))])
}

#[wasm_bindgen]
impl Proof {
    /// Reads a proof of trees of this configuration, in any encoding unless one is said. Nothing is hashed yet: `verify`
    /// checks what it says.
    pub fn decode(
        #[wasm_bindgen(unchecked_param_type = "Bytes")] encoded: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Encoding")] encoding: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Configuration")] shape: JsValue,
    ) -> Outcome<Proof> {
        let (encoded, shape) = (bytes(&encoded, "proof")?, configuration(&shape)?);
        let proof = match choose(&encoding, "the encoding", &ENCODINGS)? {
            Some(encoding) => proof::Proof::decode(&encoded, encoding, shape),
            None => decode_any(&encoded, shape).map(|(_, proof)| proof),
        };
        proof.throw().map(Proof)
    }

    /// The bytes of the proof; "v2" if nothing is said.
    pub fn encode(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Encoding")] encoding: JsValue,
    ) -> Outcome<Vec<u8>> {
        let encoding = choose(&encoding, "the encoding", &ENCODINGS)?.unwrap_or(Encoding::V2);
        self.0.encode(encoding).throw()
    }

    /// Runs `work` on what the proof shows of the tree whose hash is `root`, which is all that is trusted, and gives what
    /// it returned. A read in it gives what the whole tree would give, or throws with the kind "hidden".
    #[wasm_bindgen(unchecked_return_type = "any")]
    pub fn verify(
        &self,
        #[wasm_bindgen(unchecked_param_type = "HashLike | Root")] root: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "(tree: Tree) => any")] work: Option<
            Function,
        >,
        #[wasm_bindgen(unchecked_optional_param_type = "Configuration")] shape: JsValue,
    ) -> Outcome<JsValue> {
        let (root, shape) = (self::root(&root)?, configuration(&shape)?);
        let mut raised = Raised::default();
        let outcome = self.0.verify(shape, root, |tree| match &work {
            Some(work) => lend(tree, &mut raised, work),
            None => Ok(JsValue::UNDEFINED),
        });
        raised.outcome(outcome)
    }

    /// The tree before, as far as the proof shows it: what is read of it is proven by `root` alone.
    pub fn open(
        &self,
        #[wasm_bindgen(unchecked_param_type = "HashLike | Root")] root: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Configuration")] shape: JsValue,
    ) -> Outcome<Tree> {
        let (root, shape) = (self::root(&root)?, configuration(&shape)?);
        self.0.open(shape, root).throw().map(Tree)
    }

    /// Kind and hash of the tree before, as the proof says; trust a root that you know instead.
    #[wasm_bindgen(getter, unchecked_return_type = "Root")]
    pub fn before(&self) -> JsValue {
        told_root(self.0.before)
    }

    /// Kind and hash of the tree after, as the proof says.
    #[wasm_bindgen(getter, unchecked_return_type = "Root")]
    pub fn after(&self) -> JsValue {
        told_root(self.0.after)
    }

    /// Whether it is a stream proof.
    #[wasm_bindgen(getter, js_name = isStream)]
    pub fn is_stream(&self) -> bool {
        self.0.is_stream()
    }

    /// Checks what the proof says of the tree before, without running anything.
    pub fn check(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Configuration")] shape: JsValue,
    ) -> Outcome {
        self.0.check(configuration(&shape)?).throw()
    }

    /// What the proof shows, at most `limit` places of it (10,000 if nothing is said), in the order of the tree.
    #[wasm_bindgen(unchecked_return_type = "Shown[]")]
    pub fn shown(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] limit: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Configuration")] shape: JsValue,
    ) -> Outcome<JsValue> {
        let limit = count(&limit, "limit")?.unwrap_or(10_000);
        let limit = usize::try_from(limit).map_err(|_| invalid("the limit is too large"))?;
        let places = self.0.shown(configuration(&shape)?, limit).throw()?;
        Ok(places.iter().map(|(path, shown)| told_shown(path, shown)).collect::<Array>().into())
    }

    /// Counts what the proof shows and hides.
    #[wasm_bindgen(unchecked_return_type = "Summary")]
    pub fn summary(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Configuration")] shape: JsValue,
    ) -> Outcome<JsValue> {
        let it = self.0.summary(configuration(&shape)?).throw()?;
        Ok(object(&[
            ("values", (it.values as f64).into()),
            ("valueBytes", (it.value_bytes as f64).into()),
            ("hiddenValues", (it.hidden_values as f64).into()),
            ("directories", (it.directories as f64).into()),
            ("names", (it.names as f64).into()),
            ("hiddenDirectories", (it.hidden_directories as f64).into()),
            ("hiddenPieces", (it.hidden_pieces as f64).into()),
        ]))
    }
}

fn told_shown(path: &[Vec<u8>], shown: &Shown) -> JsValue {
    let steps = path.iter().map(|step| tell(Some(step))).collect::<Array>();
    let steps = ("path", JsValue::from(steps));
    match shown {
        Shown::Value(value) => {
            object(&[steps, ("shown", "value".into()), ("value", tell(Some(value)))])
        }
        Shown::HiddenValue(hash) => {
            object(&[steps, ("shown", "hidden-value".into()), ("hash", tell(Some(hash.as_ref())))])
        }
        Shown::HiddenDirectory(hash) => object(&[
            steps,
            ("shown", "hidden-directory".into()),
            ("hash", tell(Some(hash.as_ref()))),
        ]),
        Shown::Directory { entries, shown } => object(&[
            steps,
            ("shown", "directory".into()),
            ("entries", (*entries as f64).into()),
            ("named", (*shown as f64).into()),
        ]),
    }
}

/// Runs `work` on a copy of `tree` and gives a proof of what it looked at, with what it returned: a tree proof, or with
/// `stream` a stream proof. `work` looks at nothing but the tree that it is given.
#[cfg(feature = "stores")]
#[wasm_bindgen(unchecked_return_type = "{ proof: Proof; answer: any }")]
pub fn prove(
    tree: &Tree,
    #[wasm_bindgen(unchecked_param_type = "(tree: Tree) => any")] work: Function,
    stream: Option<bool>,
) -> Outcome<JsValue> {
    let mut raised = Raised::default();
    let outcome = proof::record(&tree.0, |tree| lend(tree, &mut raised, &work));
    let (recording, answer) = raised.outcome(outcome)?;
    let is_stream = stream.unwrap_or(false);
    let proof = if is_stream { recording.stream_proof() } else { recording.tree_proof() };
    Ok(object(&[("proof", Proof(proof.throw()?).into()), ("answer", answer)]))
}
