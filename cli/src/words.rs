//! What people type who know another program: which of our commands they mean.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::advice;

/// As messages name it.
const PROGRAM: &str = "varvite";

/// Words of other programs, without a dot before them, and the command that does so here.
const KNOWN: [(&[&str], &str); 13] = [
    (&["open", "connect", "use", "sqlite3", "cli", "repl"], advice::TABLE_SHELL),
    (&["databases", "schema", "show", "describe"], advice::LIST),
    (&["select", "query", "find", "where", "keys", "range", "iter"], advice::SCAN),
    (&["update", "replace", "upsert", "add", "write"], advice::PUT),
    (&["remove", "unset", "erase"], advice::DELETE),
    (&["import", "copy", "restore-dump"], advice::LOAD),
    (&["read", "export"], advice::DUMP),
    (&["pragma", "integrity_check", "verify", "fsck", "analyze"], advice::CHECK),
    (&["vacuum", "compact", "optimize", "flush", "reindex"], advice::MERGE_STATUS),
    (&["pause", "stop", "suspend"], advice::MERGE_FINISH),
    (&["dbinfo", "stats", "status", "size"], advice::INFO),
    (&["save", "clone"], advice::BACKUP),
    (&["recover", "salvage"], advice::REPAIR),
];

/// Flags of other programs, and what does so here.
const KNOWN_FLAGS: [(&[&str], &str); 3] = [
    (&["--to", "--until", "--end", "--upto"], "`--last` ends with a key, `--before` ahead of it"),
    (&["--start", "--lower"], "`--first` begins with a key, `--after` behind it"),
    (
        &["--json", "--csv", "--jsonl"],
        "`--format` says how results are printed: table, json, jsonl or csv",
    ),
];

/// What somebody means who typed a flag that there is not.
fn flag_tip(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let known = KNOWN_FLAGS.iter().find(|(flags, _)| flags.contains(&&**typed));
    known.map(|(_, tip)| (*tip).to_owned())
}

/// The same in a shell of the face of `words`, where its commands are typed alone.
pub fn tip_in_shell(
    error: &clap::Error,
    program: &clap::Command,
    words: &[String],
) -> Option<String> {
    let face = words.get(1).map_or("", |face| face);
    tip(error, program).map(|tip| tip.replace(&format!("`{PROGRAM} {face} "), "`"))
}

/// The command that somebody means who typed what there is not.
pub fn tip(error: &clap::Error, program: &clap::Command) -> Option<String> {
    if error.kind() == ErrorKind::UnknownArgument {
        return flag_tip(error);
    }
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let missing = error.get(ContextKind::InvalidArg);
        let Some(ContextValue::Strings(missing)) = missing else { return None };
        let is_table = missing.iter().any(|it| it == "<TABLE>");
        return is_table.then(|| format!("{} says which tables there are", advice::LIST));
    }
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
    if typed.trim_start_matches('.').contains(['.', '/']) {
        return Some(format!("nothing is there: {} with --create makes a store", advice::CREATE));
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
