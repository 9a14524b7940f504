//! What people type who know another program: which of our commands they mean.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::advice;

/// As messages name it.
const PROGRAM: &str = "varvite";

/// Words of other programs, without a dot before them, and the command that does so here.
const KNOWN: [(&[&str], &str); 12] = [
    (&["open", "connect", "use", "sqlite3", "cli", "repl"], advice::TABLE_SHELL),
    (&["databases", "schema", "show", "describe"], advice::LIST),
    (&["select", "query", "find", "where", "keys", "range", "iter"], advice::SCAN),
    (&["update", "replace", "upsert", "add", "write"], advice::PUT),
    (&["remove", "unset", "erase"], advice::DELETE),
    (&["import", "copy", "restore-dump"], advice::LOAD),
    (&["read", "export"], advice::DUMP),
    (&["pragma", "integrity_check", "verify", "fsck", "analyze"], advice::CHECK),
    (&["vacuum", "compact", "optimize", "flush", "reindex"], advice::MERGE_STATUS),
    (&["dbinfo", "stats", "status", "size"], advice::INFO),
    (&["save", "clone"], advice::BACKUP),
    (&["recover", "salvage"], advice::REPAIR),
];

/// The command that somebody means who typed what there is not.
pub fn tip(error: &clap::Error, program: &clap::Command) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    if !typed.starts_with('.') && Path::new(typed).exists() {
        return Some(format!(
            "that is a path: {} says what is there, and {} takes commands for it",
            advice::INFO,
            advice::TABLE_SHELL
        ));
    }
    let word = typed.strip_prefix('.').unwrap_or(typed).to_lowercase();
    if let Some(own) = program.find_subcommand(&word) {
        return Some(format!("`{PROGRAM} {}` does that here", own.get_name()));
    }
    let below = |face: &str| {
        let found = program.find_subcommand(face)?.find_subcommand(&word)?;
        Some(format!("`{PROGRAM} {face} {}`", found.get_name()))
    };
    match (below("table"), below("context")) {
        (Some(table), Some(context)) => {
            Some(format!("{table} does that here, and {context} does it for a context"))
        }
        (Some(only), None) | (None, Some(only)) => Some(format!("{only} does that here")),
        (None, None) => {
            let known = KNOWN.iter().find(|(words, _)| words.contains(&&*word));
            known.map(|(_, command)| format!("{command} does that here"))
        }
    }
}
