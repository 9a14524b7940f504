//! The names of a context store's files, made and recognised here and nowhere else.

pub(crate) mod whose;

use crate::format::hash::combine;

/// What the store is made of now; replaced whole.
pub(crate) const CONTROL: &str = "control";

/// What [`CONTROL`] will be once a repair has made all of a store.
pub(crate) const HALF_MADE: &str = "half-made";

/// Held by the process that writes.
pub(crate) const LOCK: &str = "lock";

/// How far an import is that was cut off.
pub(crate) const IMPORT: &str = "import";

/// Folder of the index.
pub(crate) const INDEX: &str = "index";

/// Whether a store replaces a file of this name whole: a chunk by the same bytes, for a name that is durable; the control
/// file of one that a repair makes, where its creation failed.
pub(crate) fn is_replaced(name: &str) -> bool {
    [CONTROL, IMPORT, HALF_MADE].contains(&name) || parse_chunk(name).is_some()
}

/// Chunk `number` of the pack in `epoch`, as it was written.
pub(crate) fn chunk(epoch: u64, number: u64) -> String {
    format!("{epoch:04}-{number:06}.pack")
}

/// The identity of that chunk of the store, part of every checksum in it.
pub(crate) fn chunk_identity(store: u64, epoch: u64, number: u64) -> u64 {
    combine(combine(store, epoch), number)
}

/// The same, rewritten by a collection for the `generation`-th time.
pub(crate) fn sparse_chunk(epoch: u64, number: u64, generation: u64) -> String {
    format!("{epoch:04}-{number:06}-{generation}.pack")
}

/// The identity of that file, part of every checksum of its mapping.
pub(crate) fn sparse_identity(store: u64, epoch: u64, number: u64, generation: u64) -> u64 {
    combine(chunk_identity(store, epoch, number), generation)
}

/// The hashes of children of `epoch` that memory has no room for, until the file has no name any more.
pub(crate) fn evicted_hashes(epoch: u64) -> String {
    format!("{epoch:04}.hashes")
}

/// Whether a file of this name is [`evicted_hashes`] of some epoch.
pub(crate) fn is_evicted_hashes(name: &str) -> bool {
    let epoch = name.strip_suffix(".hashes").and_then(|epoch| epoch.parse().ok());
    epoch.is_some_and(|epoch| evicted_hashes(epoch) == name)
}

/// Epoch, number and, of a sparse one, generation of the chunk called `name`, if it is one.
pub(crate) fn parse_chunk(name: &str) -> Option<(u64, u64, Option<u64>)> {
    let (epoch, rest) = name.strip_suffix(".pack")?.split_once('-')?;
    let (number, generation) = match rest.split_once('-') {
        Some((number, generation)) => (number, Some(generation.parse().ok()?)),
        None => (rest, None),
    };
    let (epoch, number) = (epoch.parse().ok()?, number.parse().ok()?);
    let again = match generation {
        Some(generation) => sparse_chunk(epoch, number, generation),
        None => chunk(epoch, number),
    };
    (again == name).then_some((epoch, number, generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_told_from_other_names() {
        for (epoch, number) in [(0, 0), (3, 17), (12_345, 1_234_567)] {
            assert_eq!(parse_chunk(&chunk(epoch, number)), Some((epoch, number, None)));
            let sparse = sparse_chunk(epoch, number, 12);
            assert_eq!(parse_chunk(&sparse), Some((epoch, number, Some(12))));
        }
        assert!(is_evicted_hashes(&evicted_hashes(12)) && !is_evicted_hashes("12.hashes"));
        for name in [
            "control",
            "lock",
            "0-0.pack",
            "0000-000001.pack.tmp",
            "0000-00000x.pack",
            "0000-000001-.pack",
            "0000-000001-01.pack",
        ] {
            assert_eq!(parse_chunk(name), None);
        }
    }
}
