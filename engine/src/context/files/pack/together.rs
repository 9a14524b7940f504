//! Hashes of records that lie near each other, by one read for all of them: those of siblings that nobody has asked for
//! yet.

use std::sync::Arc;

use super::{GUESS_HASH, Pack};
use crate::cache::PAGE;
use crate::context::files::chunk_files::Chunk;
use crate::context::files::record;
use crate::context::hash::Hash;
use crate::context::pieces::node::Load;
use crate::error::Result;

/// Records are read together with what lies between them, if that is no more.
const NEAR: u64 = 4 << 10;

/// The most bytes of such a read.
const WINDOW: u64 = 64 << 10;

/// A record that is in no page in memory.
struct Cold {
    /// Which of those that are asked for.
    index: usize,
    chunk: Arc<Chunk>,
    position: u64,
}

impl Pack {
    /// The hashes of the objects at `offsets`, which ascend.
    pub(super) fn hashes_at(&self, offsets: &[u64]) -> Result<Vec<Hash>> {
        let mut found = vec![None; offsets.len()];
        let places = offsets.iter().enumerate().filter_map(|(index, offset)| {
            let (chunk, position) = self.locate(*offset).ok()?;
            let page = (position / PAGE as u64) as u32;
            let is_cold = self.cache.get(chunk.key, page).is_none();
            is_cold.then_some(Cold { index, chunk, position })
        });
        let places: Vec<Cold> = places.collect();
        let mut rest = &places[..];
        while let Some(first) = rest.first() {
            let is_near = |pair: &&[Cold]| {
                let [one, next] = pair else { return false };
                Arc::ptr_eq(&one.chunk, &next.chunk)
                    && next.position.checked_sub(one.position).is_some_and(|far| far <= NEAR)
                    && next.position - first.position < WINDOW
            };
            let count = 1 + rest.windows(2).take_while(is_near).count();
            let (run, later) = rest.split_at(count);
            if run.len() > 1 {
                self.read_run(offsets, run, &mut found);
            }
            rest = later;
        }
        let each = offsets.iter().zip(found);
        each.map(|(offset, found)| found.map_or_else(|| self.hash(*offset), Ok)).collect()
    }

    /// Puts the hashes of the records of `run` into `found`, as far as one read gives them: of what moves meanwhile, is
    /// damaged or longer, each is asked for by itself.
    fn read_run(&self, offsets: &[u64], run: &[Cold], found: &mut [Option<Hash>]) {
        let [first, .., last] = run else { return };
        let (chunk, start) = (&first.chunk, first.position);
        let end = (last.position + GUESS_HASH as u64).min(chunk.records_end());
        let mut bytes = vec![0; end.saturating_sub(start) as usize];
        if self.read(chunk, start, &mut bytes).is_err() {
            return;
        }
        for Cold { index, position, .. } in run {
            let Some(bytes) = bytes.get((position - start) as usize..) else { continue };
            let is_whole = record::length(bytes).is_some_and(|it| it <= bytes.len() as u64);
            if is_whole {
                let taken =
                    record::take(&chunk.path, *position, self.store, offsets[*index], bytes);
                found[*index] = taken.ok().map(|record| record.hash);
            }
        }
    }
}
