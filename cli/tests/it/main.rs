//! The binary as a user runs it: what it says, and how it ends.

#![allow(clippy::format_collect)] // What tests write is short.
#![allow(clippy::unwrap_used)] // a test may fail at any place, and says which

/// How commits and paths are named.
mod addresses;
/// What people are told who ask for help, or err.
mod advice;
/// Counts what is allocated.
#[allow(dead_code)]
#[path = "../../../engine/tests/store_damage/allocations.rs"]
mod allocations;
/// How commands end, by one rule.
mod answers;
/// Runs the binary and looks at what came of it.
mod binary;
/// `conformance`, `replay blocks`, `bench context` and `context`.
mod context;
/// Old commits in a folder of their own.
mod context_archive;
/// A context checked in parts.
mod context_parts;
/// `replay blocks` that is killed, and what the context commands refuse.
mod context_replay;
mod context_snapshot;
/// All tables in one dump, and columns of other programs.
mod dumps;
/// What nobody wished for, files that are no store's, and inputs that say more than they have.
mod edges;
/// Exit codes of every command.
mod exits;
mod explore;
/// `table follow` beside a process that writes.
mod follow;
/// The commands of a guide.
mod guide;
/// Stores of Irmin as they are.
mod irmin;
/// The same, damaged.
mod irmin_damage;
/// From Irmin to us and back; traces.
mod irmin_migrate;
mod irmin_snapshots;
/// JSON of every command, as its schema says.
mod json;
/// What commands that fail leave behind, and whose.
mod leftovers;
/// Damage beside damage, pipes that are closed, and files that are larger than memory.
mod limits;
/// `table` on live tables; `info`.
mod live;
/// `bench` and `demo`.
mod load;
/// Files of a store that are gone, or written over.
mod lost;
/// Commands that documents and transcripts name.
mod named;
/// What is piped, and in which formats.
mod output;
/// Files that commands write.
mod outputs;
/// Backups, repairs, scrubs and followers beside other processes, and killed ones.
mod processes;
/// `proof`, and the vectors of real proofs.
mod proof;
mod publish;
/// What a repair says was lost.
mod repairs;
/// `replay cardano` on a real chain, whole, killed and damaged.
mod replay;
/// What is said of errors, word for word.
mod sentences;
/// Stores that several tests begin with.
mod setups;
/// Lines of a shell that are none of its commands.
mod shell;
/// One rule for all commands of a kind, and advice that is followed.
mod siblings;
/// What was done or found without a word.
mod silences;
/// `table`, `check`, `inspect`: stores by hand, sound and damaged.
mod store;
/// Commands that messages name.
mod suggestions;
/// What a person sees on a terminal.
#[cfg(target_os = "linux")]
mod terminal;
/// What is typed, and what comes back, word for word.
mod trace_replay;
mod traces;
mod transcripts;
/// Failures that leave everything as it was, and words that are taken for nothing else.
mod traps;
/// Loads into what is there, merges, views, tables with a host's operator.
mod verbs;
