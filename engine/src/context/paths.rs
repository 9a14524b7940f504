//! The names of a context store's files, made and recognised here and nowhere else.

use crate::format::hash::combine;

/// What the store is made of now; replaced whole.
pub(crate) const CONTROL: &str = "control";

/// Held by the process that writes.
pub(crate) const LOCK: &str = "lock";

/// Folder of the index.
pub(crate) const INDEX: &str = "index";

/// Whether a store replaces a file of this name whole.
pub(crate) fn is_replaced(name: &str) -> bool {
    name == CONTROL
}

/// Chunk `number` of the pack in `generation`.
pub(crate) fn chunk(generation: u64, number: u64) -> String {
    format!("{generation:04}-{number:06}.pack")
}

/// The identity of that chunk of the store, part of every checksum in it.
pub(crate) fn chunk_identity(store: u64, generation: u64, number: u64) -> u64 {
    combine(combine(store, generation), number)
}

/// Generation and number of the chunk called `name`, if it is one.
pub(crate) fn parse_chunk(name: &str) -> Option<(u64, u64)> {
    let (generation, number) = name.strip_suffix(".pack")?.split_once('-')?;
    let (generation, number) = (generation.parse().ok()?, number.parse().ok()?);
    (chunk(generation, number) == name).then_some((generation, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_told_from_other_names() {
        for place in [(0, 0), (3, 17), (12_345, 1_234_567)] {
            assert_eq!(parse_chunk(&chunk(place.0, place.1)), Some(place));
        }
        for name in ["control", "lock", "0-0.pack", "0000-000001.pack.tmp", "0000-00000x.pack"] {
            assert_eq!(parse_chunk(name), None);
        }
    }
}
