//! What the mapping of a sparse chunk says: where the records are that were kept, and what for.

use std::sync::Arc;

use super::Pack;
use crate::cache::{CachedPage, PAGE};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::sparse::{self, KeptRecord};
use crate::context::observer;
use crate::error::{Error, Result};

impl Pack {
    /// What the mapping of `chunk`, which is sparse, says of `offset`. Reads at most one page.
    pub(super) fn entry(&self, chunk: &Arc<Chunk>, offset: u64) -> Result<Option<KeptRecord>> {
        let distance = offset - chunk.base;
        if chunk.mapping().is_none() {
            self.files.get(chunk)?;
        }
        let mapping = chunk.mapping().expect("it was opened");
        let Some(number) = mapping.page_of(distance) else { return Ok(None) };
        let page = self.mapping_page(chunk, number)?;
        Ok(sparse::find(&page, distance))
    }

    /// A page of the mapping of `chunk`.
    fn mapping_page(&self, chunk: &Arc<Chunk>, number: u32) -> Result<CachedPage> {
        if let Some(page) = self.cache.get(chunk.key, number) {
            observer::count(self.meter.as_ref(), |meter| &meter.page_hits, 1);
            return Ok(page);
        }
        observer::count(self.meter.as_ref(), |meter| &meter.page_misses, 1);
        let mut bytes = [0; PAGE];
        self.read(chunk, u64::from(number) * PAGE as u64, &mut bytes)?;
        let mapping = chunk.mapping().expect("it was opened");
        mapping.check_page(&chunk.path, chunk.identity, number, &bytes)?;
        Ok(self.cache.insert(chunk.key, number, &bytes))
    }

    /// Puts all entries of the page into `entries` that has that of `distance`, if any has.
    pub(crate) fn mapping_entries(
        &self,
        chunk: &Arc<Chunk>,
        distance: u64,
        entries: &mut Vec<KeptRecord>,
    ) -> Result<()> {
        entries.clear();
        let mapping = chunk.mapping().expect("it was opened");
        if let Some(number) = mapping.page_of(distance) {
            entries.extend(sparse::entries(&*self.mapping_page(chunk, number)?));
        }
        Ok(())
    }

    /// The pages of the mapping of `chunk`, which is sparse.
    pub(crate) fn mapping_pages(&self, chunk: &Arc<Chunk>) -> Result<std::ops::Range<u32>> {
        self.files.get(chunk)?;
        Ok(chunk.mapping().expect("it was opened").pages())
    }

    /// What page `number` of the mapping of `chunk` says: the offset of each record, and whether something
    /// reaches it; else it is the base of patches alone.
    pub(crate) fn kept_in_page(&self, chunk: &Arc<Chunk>, number: u32) -> Result<Vec<(u64, bool)>> {
        let page = self.mapping_page(chunk, number)?;
        let entries = sparse::entries(&page);
        Ok(entries.map(|entry| (chunk.base + entry.distance, entry.is_object)).collect())
    }

    /// The same of all pages.
    pub(crate) fn kept_records(&self, chunk: &Arc<Chunk>) -> Result<Vec<(u64, bool)>> {
        let pages = self.mapping_pages(chunk)?;
        let mapping = chunk.mapping().expect("it was opened");
        let mut records = Vec::with_capacity(mapping.records.min(chunk.end() / 38) as usize);
        for number in pages {
            records.extend(self.kept_in_page(chunk, number)?);
        }
        let is_right = records.len() as u64 == mapping.records
            && records.is_sorted_by(|(before, _), (after, _)| before < after)
            && records.last().is_none_or(|(last, _)| *last < chunk.logical_end());
        if !is_right {
            let place = mapping.records_end();
            return Err(Error::corrupt(&chunk.path, place, "a mapping in order", "another"));
        }
        Ok(records)
    }
}
