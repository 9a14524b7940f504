//! The pieces of a table's files, which `varvite::raw` lists with the others.

pub use crate::table::bytes::KeyRange;
pub use crate::table::bytes::{BITS_PER_ENTRY_MAX, Filter, FilterBuilder};
pub use crate::table::bytes::{
    BODY_BYTES, PAGE_BYTES, Page, PageBuilder, check_seal, fill_overflow, overflow_pages, seal,
};
pub use crate::table::bytes::{EntryKind, EntryRef, common_prefix, prefix};
pub use crate::table::bytes::{FIRST_PAGE, Index, IndexBuilder, PageSpan};
pub use crate::table::bytes::{Nearest, RangeFilter, RangeFilterBuilder};
pub use crate::table::bytes::{PageList, PagePacker};
pub use crate::table::durable::folder::{decode_session, encode_session};
pub use crate::table::durable::snapshot::{
    LevelRecord, Manifest, MergeRecord, RunRecord, TableRecord, UnionRecord,
};
pub use crate::table::durable::{Checkpoint, LiveRecord};
pub use crate::table::durable::{
    LogEnd, LogPoint, LogRecord, encode_begin, encode_delete_range, encode_update,
};
pub use crate::table::runs::Run;
pub use crate::table::runs::blob::{BlobMeta, BlobSpan, BlobUse, read_meta as read_blob_meta};
pub use crate::table::runs::{Counts, Footer, Segment, SegmentMeta, page_offset};
pub use crate::table::runs::{Finished, SegmentBuilder, SegmentOptions};
pub use crate::table::runs::{ReadOptions, RunReader};
pub use crate::table::shared::SEGMENT_BYTES;
