//! Merging: several sorted runs become one, bit by bit, on a schedule that updates pay for.
//!
//! From the bottom: a [`Merge`] of sorted inputs, an [`Output`] that cuts the result into segments, a
//! [`MergeJob`] that is worked on in steps and shared by whoever needs its result, and the
//! [`Schedule`] of a table, which says what is due. A [`Shape`] is everything of a table but its active
//! buffer. Relies on `buffer`, `runs` and `shared`.

mod job;
mod k_way;
mod levels;
mod output;
mod run_builder;
mod sorter;
mod union_merge;

pub use job::{Input, MergeJob, MergePlan, MergeState, UnionPart, last_filter_cost};
pub use levels::{Level, Merging, Schedule, Shape};
pub use output::BlobPlan;
pub use run_builder::RunBuilder;
pub use sorter::Sorter;
pub use union_merge::Groups;
