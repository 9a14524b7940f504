//! Traces: replayed on stores of any options, summed up, laid beside each other, shown as a page.
//!
//! How they are written and read: [`varvite::trace`].

mod by_block;
pub mod compare;
mod drafts;
pub mod irmin;
mod outcome;
mod page;
mod plot;
pub mod replay;
mod shown;
pub mod summary;
mod walks;

pub use by_block::BlockTime;
pub use compare::{Change, Comparison, Only, compare};
pub use outcome::{ActionTime, Outcome};
pub use page::{comparison_page, summary_page};
pub use replay::Replay;
pub use summary::{Summary, Summing, blocks_between, summarise};
