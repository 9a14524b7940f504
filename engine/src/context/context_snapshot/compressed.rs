//! Frames compressed by zstd, each on its own.
//!
//! The library is one of C and not there for wasm, where such a frame is refused.

use crate::error::{Error, Result};

/// The levels of compression that can be asked for.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=19;

/// `Invalid` unless there is such a level.
pub(super) fn expect_level(level: i32) -> Result<()> {
    if LEVELS.contains(&level) {
        return Ok(());
    }
    let (least, most) = (LEVELS.start(), LEVELS.end());
    Err(Error::invalid(format!("a level of compression is {least} to {most}, not {level}")))
}

#[cfg(not(target_family = "wasm"))]
mod with_zstd {
    use zstd::bulk;

    use super::expect_level;
    use crate::error::{Error, Result};

    /// Compresses payloads.
    pub(in super::super) struct Compressor {
        zstd: bulk::Compressor<'static>,
        packed: Vec<u8>,
    }

    impl Compressor {
        /// One of the level `level`.
        pub(in super::super) fn new(level: i32) -> Result<Compressor> {
            expect_level(level)?;
            let zstd = bulk::Compressor::new(level).map_err(|error| refused(&error))?;
            Ok(Compressor { zstd, packed: Vec::new() })
        }

        /// `payload` compressed; none when that is no shorter.
        pub(in super::super) fn compress(&mut self, payload: &[u8]) -> Result<Option<&[u8]>> {
            self.packed.resize(zstd::zstd_safe::compress_bound(payload.len()), 0);
            let length = self.zstd.compress_to_buffer(payload, &mut self.packed[..]);
            let length = length.map_err(|error| refused(&error))?;
            Ok((length < payload.len()).then(|| &self.packed[..length]))
        }
    }

    /// Expands payloads.
    pub(in super::super) struct Expander(bulk::Decompressor<'static>);

    impl Expander {
        pub(in super::super) fn new() -> Result<Expander> {
            Ok(Expander(bulk::Decompressor::new().map_err(|error| refused(&error))?))
        }

        /// Expands `stored` to exactly `payload`, in no more memory; false when it is something else.
        pub(in super::super) fn expand(&mut self, stored: &[u8], payload: &mut [u8]) -> bool {
            let length = payload.len();
            // It would take further frames too, and such as are to be skipped.
            let whole = zstd::zstd_safe::find_frame_compressed_size(stored);
            if whole != Ok(stored.len()) {
                return false;
            }
            self.0.decompress_to_buffer(stored, payload).is_ok_and(|expanded| expanded == length)
        }
    }

    fn refused(error: &std::io::Error) -> Error {
        Error::invalid(format!("zstd refuses its work: {error}"))
    }
}

#[cfg(not(target_family = "wasm"))]
pub(super) use with_zstd::{Compressor, Expander};

#[cfg(target_family = "wasm")]
mod without {
    use super::expect_level;
    use crate::error::{Error, Result};

    /// Nothing compresses here.
    pub(in super::super) struct Compressor;

    impl Compressor {
        pub(in super::super) fn new(level: i32) -> Result<Compressor> {
            expect_level(level)?;
            Err(Error::invalid("this build has no zstd: ask for a file that is not compressed"))
        }

        pub(in super::super) fn compress(&mut self, _: &[u8]) -> Result<Option<&[u8]>> {
            Ok(None)
        }
    }

    /// Nothing expands here.
    pub(in super::super) struct Expander;

    impl Expander {
        pub(in super::super) fn new() -> Result<Expander> {
            Err(Error::invalid("this build has no zstd: ask for a file that is not compressed"))
        }

        pub(in super::super) fn expand(&mut self, _: &[u8], _: &mut [u8]) -> bool {
            false
        }
    }
}

#[cfg(target_family = "wasm")]
pub(super) use without::{Compressor, Expander};
