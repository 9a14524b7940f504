//! The pieces of a table's files: bytes as specified in `docs/format/`.
//!
//! For benches, fuzzing and inspection. The formats are stable, these signatures are not.

pub use super::blob::{BlobMeta, BlobSpan, BlobUse, read_meta as read_blob_meta};
pub use super::checkpoint::{Checkpoint, LiveRecord};
pub use super::entry::{EntryKind, EntryRef, common_prefix, prefix};
pub use super::filter::{BITS_PER_ENTRY_MAX, Filter, FilterBuilder};
pub use super::folder::{decode_session, encode_session};
pub use super::index::{FIRST_PAGE, Index, IndexBuilder, PageSpan};
pub use super::key_range::KeyRange;
pub use super::log_record::{
    LogEnd, LogPoint, Record as LogRecord, encode_begin, encode_delete_range, encode_update,
};
pub use super::options::SEGMENT_BYTES;
pub use super::page::{
    BODY_BYTES, PAGE_BYTES, Page, PageBuilder, check_seal, fill_overflow, overflow_pages, seal,
};
pub use super::run::Run;
pub use super::run_reader::{ReadOptions, RunReader};
pub use super::segment::{Counts, Footer, Segment, SegmentMeta, page_offset};
pub use super::segment_builder::{Finished, SegmentBuilder, SegmentOptions};
pub use super::snapshot::{
    LevelRecord, Manifest, MergeRecord, RunRecord, TableRecord, UnionRecord,
};
