//! What entries and files look like in bytes: decoders and builders that know no disk.
//!
//! An [`EntryRef`] is an insert, a delete or an upsert of a key; a [`Page`] holds them in order; a
//! [`Filter`], a [`RangeFilter`] and an [`Index`] tell which page to read, if any. All of it goes from bytes to bytes, takes
//! whatever it is given, and stands below everything else of the table.

mod entry;
mod filter;
mod heads;
mod index;
mod key_range;
pub mod operator;
mod packed;
mod page;
mod range_filter;

pub use entry::{
    ENTRY_OVERHEAD, EntryKind, EntryRef, KEY_BYTES_MAX, VALUE_BYTES_MAX, common_prefix, cost,
    prefix,
};
pub use filter::{BITS_PER_ENTRY_MAX, Filter, FilterBuilder, bits_within, filter_bytes};
pub use index::{FIRST_PAGE, Index, IndexBuilder, PageSpan};
pub use key_range::KeyRange;
pub use packed::{PACKED_BYTES_MIN, PageList, PagePacker, page_list_bytes};
pub use page::{
    BODY_BYTES, PAGE_BYTES, Page, PageBuilder, check_seal, fill_overflow, overflow_pages, seal,
};
pub use range_filter::{Nearest, RangeFilter, RangeFilterBuilder};
