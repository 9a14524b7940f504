//! Proofs: made, encoded, checked.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use varvite::context::{self, Kind};
use varvite::proof::{self, Encoding, Kinded, decode_any, record};

use crate::answer::ProofSummary;
use crate::context::options::{Configuration, or_tezos};
use crate::context::tree::{Tree, kind};
use crate::fault::{Answers, call, outer_callback};
use crate::held::Held;
use crate::input::{bytes, choose, hash};

/// A proof of what a context holds. Who checks it needs no store, only a root hash that is known to be right.
#[pyclass(frozen, module = "varvite")]
pub struct Proof(Held<proof::Proof>);

const ENCODINGS: &[(&str, Option<Encoding>)] = &[
    ("v1", Some(Encoding::V1)),
    ("v2", Some(Encoding::V2)),
    ("irmin", Some(Encoding::Irmin)),
    ("json", Some(Encoding::Json)),
    ("any", None),
];

/// Runs the program's function on a tree, as an object of Python for that time.
fn run(
    work: &Py<PyAny>,
    answers: &mut Answers,
    tree: &mut context::Tree,
) -> varvite::Result<Py<PyAny>> {
    let stand_in = context::Tree::empty(tree.configuration());
    let lent = std::mem::replace(tree, stand_in);
    let done = outer_callback(|py| {
        let lent = Bound::new(py, Tree::new(lent))?;
        let answer = work.call1(py, (&lent,))?;
        let tree = lent.get();
        Ok((answer, call(py, || tree.0.take())?))
    });
    let (answer, state) = answers.check(done)?;
    *tree = state.ok_or_else(|| {
        varvite::Error::invalid(
            "the function closed the tree that it was given: it is closed when the function returns",
        )
    })?;
    Ok(answer)
}

fn root(object: &Bound<'_, PyAny>) -> PyResult<Kinded> {
    let py = object.py();
    if let Ok((word, found)) = object.extract::<(String, Bound<'_, PyAny>)>() {
        let kinds = [("value", Kind::Value), ("directory", Kind::Directory)];
        return Ok(Kinded {
            kind: choose(py, "the kind of the root", &word, &kinds)?,
            hash: hash(&found)?,
        });
    }
    Ok(Kinded::directory(hash(object)?))
}

fn tell(from: Kinded) -> (&'static str, Vec<u8>) {
    (kind(from.kind), from.hash.to_vec())
}

/// Runs `work` on a copy of `tree` and gives a proof of what it looked at, with what it returned: a tree proof, or with
/// `stream` a stream proof, of any depth. `work` looks at nothing but the tree that it is given.
#[pyfunction]
#[pyo3(signature = (tree, work, *, stream = false))]
pub fn prove(
    py: Python<'_>,
    tree: PyRef<'_, Tree>,
    work: Py<PyAny>,
    stream: bool,
) -> PyResult<(Proof, Py<PyAny>)> {
    let tree = &*tree;
    call(py, || {
        let mut answers = Answers::default();
        let outcome = record(&tree.copy()?, |tree| run(&work, &mut answers, tree));
        let (recording, answer) = answers.outcome(outcome)?;
        let proof = if stream { recording.stream_proof() } else { recording.tree_proof() }?;
        Ok((Proof(Held::new("proof", proof)), answer))
    })
}

#[pymethods]
impl Proof {
    /// Reads a proof of trees of this configuration. Nothing is hashed yet: `verify` checks what it says.
    #[staticmethod]
    #[pyo3(signature = (encoded, encoding = "any", *, configuration = None))]
    fn decode(
        py: Python<'_>,
        encoded: &Bound<'_, PyAny>,
        encoding: &str,
        configuration: Option<Configuration>,
    ) -> PyResult<Proof> {
        let encoded = bytes(encoded, "proof")?;
        let encoding = choose(py, "encoding", encoding, ENCODINGS)?;
        let configuration = or_tezos(configuration);
        call(py, || {
            let proof = match encoding {
                Some(encoding) => proof::Proof::decode(&encoded, encoding, configuration)?,
                None => decode_any(&encoded, configuration)?.1,
            };
            Ok(Proof(Held::new("proof", proof)))
        })
    }

    /// The bytes of the proof, as "v1", "v2", "irmin" or "json".
    #[pyo3(signature = (encoding = "v2"))]
    fn encode(&self, py: Python<'_>, encoding: &str) -> PyResult<Vec<u8>> {
        let encodings = &ENCODINGS[..4];
        let encoding = choose(py, "encoding", encoding, encodings)?.unwrap_or(Encoding::V2);
        call(py, || Ok(self.0.read()?.encode(encoding)?))
    }

    /// Runs `work` on what the proof shows of the tree whose hash is `root`, which is all that is trusted, and gives what
    /// it returned. A read in it gives what the whole tree would give, or raises `HiddenError`.
    #[pyo3(signature = (root, work = None, *, configuration = None))]
    fn verify(
        &self,
        py: Python<'_>,
        root: &Bound<'_, PyAny>,
        work: Option<Py<PyAny>>,
        configuration: Option<Configuration>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let (root, configuration) = (self::root(root)?, or_tezos(configuration));
        call(py, || {
            let proof = self.0.read()?.clone();
            let mut answers = Answers::default();
            let outcome = proof.verify(configuration, root, |tree| {
                work.as_ref().map(|work| run(work, &mut answers, tree)).transpose()
            });
            answers.outcome(outcome)
        })
    }

    /// The tree before, as far as the proof shows it: what is read of it is proven by `root` alone.
    #[pyo3(signature = (root, *, configuration = None))]
    fn open(
        &self,
        py: Python<'_>,
        root: &Bound<'_, PyAny>,
        configuration: Option<Configuration>,
    ) -> PyResult<Tree> {
        let (root, configuration) = (self::root(root)?, or_tezos(configuration));
        call(py, || Ok(Tree::new(self.0.read()?.open(configuration, root)?)))
    }

    /// Kind and hash of the tree before, as the proof says; trust a root that you know instead.
    #[getter]
    fn before(&self, py: Python<'_>) -> PyResult<(&'static str, Vec<u8>)> {
        call(py, || Ok(tell(self.0.read()?.before)))
    }

    /// Kind and hash of the tree after, as the proof says.
    #[getter]
    fn after(&self, py: Python<'_>) -> PyResult<(&'static str, Vec<u8>)> {
        call(py, || Ok(tell(self.0.read()?.after)))
    }

    /// Whether it is a stream proof.
    #[getter]
    fn is_stream(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || Ok(self.0.read()?.is_stream()))
    }

    /// Checks what the proof says of the tree before, without running anything.
    #[pyo3(signature = (*, configuration = None))]
    fn check(&self, py: Python<'_>, configuration: Option<Configuration>) -> PyResult<()> {
        call(py, || Ok(self.0.read()?.check(or_tezos(configuration))?))
    }

    /// Counts what the proof shows and hides.
    #[pyo3(signature = (*, configuration = None))]
    fn summary(
        &self,
        py: Python<'_>,
        configuration: Option<Configuration>,
    ) -> PyResult<ProofSummary> {
        call(py, || {
            let from = self.0.read()?.summary(or_tezos(configuration))?;
            Ok(ProofSummary {
                values: from.values,
                value_bytes: from.value_bytes,
                hidden_values: from.hidden_values,
                directories: from.directories,
                names: from.names,
                hidden_directories: from.hidden_directories,
                hidden_pieces: from.hidden_pieces,
            })
        })
    }

    /// Closes it; once more does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.take().map(drop))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
