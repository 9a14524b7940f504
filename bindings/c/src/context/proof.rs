//! Proofs: made, encoded, checked.

use std::ffi::{c_int, c_void};

use varvite::context::{Kind, Tree};
use varvite::proof::{Encoding, Kinded, Proof, decode_any, record};

use super::options::{configuration, varvite_configuration};
use super::store::tell;
use super::tree::{copy, kind};
use super::walk::no_callback;
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, bytes, choose, flag, one};
use crate::handle::{get, put, take};
use crate::status::{Answers, Fault, Outcome, call, outer_callback, varvite_error};
use crate::types::{varvite_bytes, varvite_hash, varvite_proof, varvite_tree};

/// Octez' first encoding: every integer and list at full width.
pub const VARVITE_ENCODING_V1: u32 = 0;
/// Octez' second encoding: small integers, counts and kinds share a byte.
pub const VARVITE_ENCODING_V2: u32 = 1;
/// Irmin's own.
pub const VARVITE_ENCODING_IRMIN: u32 = 2;
/// Text for people and other programs.
pub const VARVITE_ENCODING_JSON: u32 = 3;
/// To decode: whichever it is.
pub const VARVITE_ENCODING_ANY: u32 = 4;

const ENCODINGS: [Encoding; 4] = [Encoding::V1, Encoding::V2, Encoding::Irmin, Encoding::Json];

/// A hash, and what it is the hash of.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_kinded {
    /// VARVITE_VALUE or VARVITE_DIRECTORY.
    pub kind: u32,
    /// The hash.
    pub hash: varvite_hash,
}

/// What a proof shows and hides.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_proof_summary {
    /// Values.
    pub values: u64,
    /// Bytes of those values.
    pub value_bytes: u64,
    /// Values of which only the hash is there.
    pub hidden_values: u64,
    /// Directories, as far as at least one piece of each is there.
    pub directories: u64,
    /// Names in the pieces that are there.
    pub names: u64,
    /// Directories of which only the hash is there.
    pub hidden_directories: u64,
    /// Pieces of directories of which only the hash is there.
    pub hidden_pieces: u64,
}

/// What is proven: reads and changes `tree`, which is closed when this returns, and looks at nothing else. Both who
/// makes a proof and who checks it run the same. Anything but 0 is a failure, and the call returns VARVITE_CALLBACK.
pub type varvite_work_on_tree =
    Option<unsafe extern "C" fn(user: *mut c_void, tree: *mut varvite_tree) -> c_int>;

/// Runs the program's function on a tree, by a handle for that time.
fn run(
    (function, user): (varvite_work_on_tree, *mut c_void),
    answers: &Answers,
    tree: &mut Tree,
) -> varvite::Result<()> {
    let Some(function) = function else { return Ok(()) };
    let failed = |fault: Fault| {
        varvite::Error::invalid(format!("no handle for a proof: {}", fault.sentence()))
    };
    let stand_in = Tree::empty(tree.configuration());
    let handle = put::<varvite_tree>(std::mem::replace(tree, stand_in)).map_err(failed)?;
    // SAFETY: the program gave this function to be called with this pointer.
    let code = outer_callback(|| unsafe { function(user, handle) });
    match take(handle) {
        Ok(state) => *tree = state,
        Err(_) => {
            return Err(varvite::Error::invalid(
                "the function closed the tree that it was given, or left it to another thread: \
                 it is closed when the function returns",
            ));
        }
    }
    answers.check(code)
}

fn kinded(given: *const varvite_kinded) -> Outcome<Kinded> {
    let given = one(given, "root")?;
    let kind = choose(given.kind, &[Kind::Value, Kind::Directory], "the kind of the root")?;
    Ok(Kinded { kind, hash: given.hash.bytes.into() })
}

fn tell_kinded(from: Kinded) -> varvite_kinded {
    varvite_kinded { kind: kind(from.kind), hash: tell(from.hash) }
}

/// Runs `function` on a copy of `tree` and makes a proof of what it looked at: a tree proof, or with `stream` 1 a
/// stream proof, of any depth. `tree` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_make(
    tree: *mut varvite_tree,
    stream: c_int,
    function: varvite_work_on_tree,
    user: *mut c_void,
    proof: *mut *mut varvite_proof,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(proof, "proof")?;
        let stream = flag(stream, "stream")?;
        if function.is_none() {
            return Err(no_callback());
        }
        let answers = Answers::default();
        let outcome = record(&copy(tree)?, |tree| run((function, user), &answers, tree));
        let (recording, ()) = answers.outcome(outcome)?;
        let proof = if stream { recording.stream_proof() } else { recording.tree_proof() }?;
        place.set(put(proof)?);
        Ok(())
    })
}

/// The bytes of a proof: one item. `encoding` is one of VARVITE_ENCODING_….
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_encode(
    proof: *mut varvite_proof,
    encoding: u32,
    encoded: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, encoded, |encoded| {
        let encoding = choose(encoding, &ENCODINGS, "the encoding")?;
        let held = get(proof)?;
        let bytes = held.read()?.encode(encoding)?;
        encoded.fill(|arena| {
            arena.give(bytes);
            Ok(())
        })
    })
}

/// Reads a proof of trees of this configuration, which may be NULL. Nothing is hashed yet:
/// `varvite_proof_verify` checks what it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_decode(
    encoded: *const varvite_bytes,
    encoding: u32,
    configuration: *const varvite_configuration,
    proof: *mut *mut varvite_proof,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(proof, "proof")?;
        let encoded = bytes(*one(encoded, "proof")?, "proof")?;
        let configuration = self::configuration(configuration)?;
        let proof = if encoding == VARVITE_ENCODING_ANY {
            decode_any(encoded, configuration)?.1
        } else {
            let encoding = choose(encoding, &ENCODINGS, "the encoding")?;
            Proof::decode(encoded, encoding, configuration)?
        };
        place.set(put(proof)?);
        Ok(())
    })
}

/// Runs `function` on what the proof shows of the tree whose hash is `root`, which is all that is trusted. A read in
/// it gives what the whole tree would give, or VARVITE_HIDDEN. VARVITE_CORRUPT when the proof is not of `root`, when
/// the tree that is left has another hash than the proof says, or when a stream shows too much. `function` may be
/// NULL for a proof that shows nothing that was changed; `configuration` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_verify(
    proof: *mut varvite_proof,
    configuration: *const varvite_configuration,
    root: *const varvite_kinded,
    function: varvite_work_on_tree,
    user: *mut c_void,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (configuration, root) = (self::configuration(configuration)?, kinded(root)?);
        let held = get(proof)?;
        let proof = held.read()?.clone();
        let answers = Answers::default();
        let outcome =
            proof.verify(configuration, root, |tree| run((function, user), &answers, tree));
        answers.outcome(outcome)
    })
}

/// The tree before, as far as the proof shows it: what is read of it is proven by `root` alone, and what is hidden
/// is VARVITE_HIDDEN. `configuration` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_open(
    proof: *mut varvite_proof,
    configuration: *const varvite_configuration,
    root: *const varvite_kinded,
    tree: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(tree, "tree")?;
        let (configuration, root) = (self::configuration(configuration)?, kinded(root)?);
        let held = get(proof)?;
        let tree = held.read()?.open(configuration, root)?;
        place.set(put(tree)?);
        Ok(())
    })
}

/// The hashes of the trees before and after, as the proof says; trust a root that you know instead.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_roots(
    proof: *mut varvite_proof,
    before: *mut varvite_kinded,
    after: *mut varvite_kinded,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (before, after) = (Out::new(before, "root before")?, Out::new(after, "root after")?);
        let held = get(proof)?;
        let proof = held.read()?;
        before.set(tell_kinded(proof.before));
        after.set(tell_kinded(proof.after));
        Ok(())
    })
}

/// Whether it is a stream proof: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_is_stream(
    proof: *mut varvite_proof,
    is_stream: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(is_stream, "answer")?;
        let held = get(proof)?;
        place.set(c_int::from(held.read()?.is_stream()));
        Ok(())
    })
}

/// Checks what the proof says of the tree before, without running anything: its limits, its order, and that it has the
/// hash before. VARVITE_CORRUPT when it does not. `configuration` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_check(
    proof: *mut varvite_proof,
    configuration: *const varvite_configuration,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let configuration = self::configuration(configuration)?;
        let held = get(proof)?;
        Ok(held.read()?.check(configuration)?)
    })
}

/// Counts what the proof shows and hides. `configuration` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_get_summary(
    proof: *mut varvite_proof,
    configuration: *const varvite_configuration,
    summary: *mut varvite_proof_summary,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(summary, "summary")?;
        let held = get(proof)?;
        let from = held.read()?.summary(self::configuration(configuration)?)?;
        place.set(varvite_proof_summary {
            values: from.values,
            value_bytes: from.value_bytes,
            hidden_values: from.hidden_values,
            directories: from.directories,
            names: from.names,
            hidden_directories: from.hidden_directories,
            hidden_pieces: from.hidden_pieces,
        });
        Ok(())
    })
}

/// Closes a proof.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_proof_close(
    proof: *mut varvite_proof,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(proof).map(drop))
}
