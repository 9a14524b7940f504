//! What people type who know another program: which of our commands they mean.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
    (ROOM, advice::MERGE_STATUS),
    (PAUSES, advice::MERGE_FINISH),
    (&["dbinfo", "stats", "status", "size"], advice::INFO),
    (&["recover", "salvage"], advice::REPAIR),
];

/// The same behind `context`.
const KNOWN_OF_CONTEXTS: [(&[&str], &str); 14] = [
    (&["open", "connect", "use", "sqlite3", "cli", "repl"], advice::CONTEXT_SHELL),
    (&["list", "commits", "history", "show", "describe", "head", "heads"], advice::CONTEXT_LOG),
    (&["branches", "databases", "schema"], advice::BRANCHES),
    (&["select", "query", "find", "where", "keys", "range", "iter", "scan"], advice::CONTEXT_LS),
    (&["update", "replace", "upsert", "add", "write", "set", "insert"], advice::CONTEXT_PUT),
    (&["delete", "unset", "erase", "rm"], advice::CONTEXT_REMOVE),
    (&["copy", "restore-dump"], advice::CONTEXT_LOAD),
    (&["read", "cat"], advice::CONTEXT_GET),
    (&["export", "save", "clone"], advice::SNAPSHOT_EXPORT),
    (&["import", "restore"], advice::SNAPSHOT_IMPORT),
    (&["pragma", "integrity_check", "verify", "fsck", "analyze"], advice::CONTEXT_CHECK),
    (&["vacuum", "compact", "optimize", "gc", "clean", "prune"], advice::COLLECT_RUN),
    (PAUSES, advice::COLLECT_PAUSE),
    (&["dbinfo", "stats", "status", "size"], advice::INFO),
];

const ROOM: &[&str] = &["vacuum", "compact", "optimize", "flush", "reindex"];
const PAUSES: &[&str] = &["pause", "stop", "suspend"];

/// A flag of other programs.
struct Flag {
    /// As it is typed.
    typed: &'static [&'static str],
    /// What the command at hand must have for the tip, without dashes.
    needs: &'static [&'static str],
    tip: &'static str,
}

/// Flags of other programs, and what does so here: of each the first tip that fits the command.
const KNOWN_FLAGS: [Flag; 9] = [
    Flag {
        typed: &["--to", "--until", "--end", "--upto"],
        needs: &["last", "before"],
        tip: "`--last` ends with a key, `--before` ahead of it",
    },
    Flag {
        typed: &["--start", "--lower", "--begin"],
        needs: &["first", "after"],
        tip: "`--first` begins with a key, `--after` behind it",
    },
    Flag {
        typed: WHERE,
        needs: &["prefix", "first", "last"],
        tip: "`--prefix` takes the keys that begin so, `--first` and `--last` a range of keys; nothing looks for values",
    },
    Flag {
        typed: &["--json", "--csv", "--jsonl", "--output-format", "-j"],
        needs: &["format"],
        tip: "`--format` says how results are printed: table, json, jsonl or csv",
    },
    Flag {
        typed: &["-n", "--count", "--max", "--head", "--top"],
        needs: &["limit"],
        tip: "`--limit` says how many are printed",
    },
    Flag {
        typed: &["--desc", "--descending", "-r", "--backwards"],
        needs: &["reverse"],
        tip: "`--reverse` begins with the last key",
    },
    Flag { typed: FORCE, needs: &["replace"], tip: "`--replace` takes the place of what is there" },
    Flag {
        typed: FORCE,
        needs: &[],
        tip: "nothing that is there is written over here: give another name, or remove it before",
    },
    Flag {
        typed: &["--out", "-o", "--output", "--file"],
        needs: &["skip_damaged"],
        tip: "what is listed goes to standard output: `> FILE` behind the command writes a file",
    },
];

const FORCE: &[&str] = &["--force", "-f", "--overwrite", "--clobber"];
const WHERE: &[&str] = &["--where", "--filter", "--like", "--key", "--grep"];
const FOLDER: &[&str] = &["--db", "--path", "--dir", "--store", "--database", "-d"];

/// What somebody means who typed a flag that the command called `name` has not.
fn flag_tip(error: &clap::Error, program: &clap::Command, name: &str) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let found = name.split(' ').try_fold(program, |above, name| above.find_subcommand(name));
    let has = |id: &str| {
        id == "format" || found.is_some_and(|it| it.get_arguments().any(|it| it.get_id() == id))
    };
    let mut known = KNOWN_FLAGS.iter().filter(|flag| flag.typed.contains(&&**typed));
    if let Some(flag) = known.find(|flag| flag.needs.iter().all(|id| has(id))) {
        return Some(flag.tip.to_owned());
    }
    if FOLDER.contains(&&**typed) {
        let mut folders = ["store", "dir"].into_iter().filter_map(|id| {
            found.and_then(|it| it.get_arguments().find(|argument| argument.get_id() == id))
        });
        return folders.next().map(|folder| match folder.get_long() {
            Some(long) => format!("`--{long}` says which folder it is"),
            None => "the folder of the store is no flag: it stands behind the command".to_owned(),
        });
    }
    let is_of_tables = name.split(' ').next() == Some("table") && WHERE.contains(&&**typed);
    is_of_tables.then(|| format!("{} has `--prefix`, `--first` and `--last`", advice::SCAN))
}

/// What numbers are called elsewhere.
const NUMBERS: [&str; 7] = ["u64", "i64", "int", "integer", "number", "le", "u64_le"];

/// What somebody means by a value that a flag does not take.
fn value_tip(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.to_lowercase()),
        _ => None,
    };
    let is_view = text(ContextKind::InvalidArg)?.starts_with("--as ");
    let typed = text(ContextKind::InvalidValue)?;
    (is_view && NUMBERS.contains(&&*typed)).then(|| {
        "u64le is a number of 8 bytes, the least first, as tables have that add; u64be has the greatest first".to_owned()
    })
}

/// The same in a shell of the face of `words`, where its commands are typed alone.
pub fn tip_in_shell(
    error: &clap::Error,
    program: &clap::Command,
    words: &[OsString],
    name: &str,
) -> Option<String> {
    let face = words.get(1).and_then(|face| face.to_str()).unwrap_or_default();
    let tip = tip(error, program, name, |_| None);
    tip.map(|tip| {
        // Of a command of the face, which has the store already.
        let mut parts: Vec<String> = tip.split('`').map(str::to_owned).collect();
        for command in parts.iter_mut().skip(1).step_by(2) {
            if let Some(rest) = command.strip_prefix(&format!("{PROGRAM} {face} ")) {
                *command = rest.replace(" STORE ", " ");
            }
        }
        parts.join("`")
    })
}

/// A text of the argument parser as it is meant in a shell of `face`, where a line has neither the program nor the store.
pub fn as_in_shell(text: &str, face: &str) -> String {
    let program = format!("{PROGRAM} {face} ");
    let any = format!("Usage: {program}[OPTIONS] <COMMAND>\n");
    let text = match text.split_once(&any) {
        Some((before, behind)) => {
            let behind = behind.replace("try '--help'", "try 'help'");
            format!("{before}Usage: <COMMAND> [ARGUMENTS]...\n{behind}")
        }
        None => text.to_owned(),
    };
    // Of the arguments that a command explains, the store stands in a paragraph of its own, or in a line.
    let mut lines = text.split_inclusive('\n').peekable();
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        if !line.starts_with("  <STORE>") {
            kept.push_str(line);
            continue;
        }
        while lines.next_if(|line| line.starts_with("          ")).is_some() {}
        lines.next_if(|line| line.trim().is_empty());
    }
    kept.replace(&program, "").replace("<STORE> ", "")
}

/// The command that somebody means who typed what there is not, behind the command called `name`; `store_of` finds the
/// store among what was typed, and here, that has a table of a name.
pub fn tip(
    error: &clap::Error,
    program: &clap::Command,
    name: &str,
    store_of: impl FnOnce(&str) -> Option<PathBuf>,
) -> Option<String> {
    if error.kind() == ErrorKind::UnknownArgument {
        return flag_tip(error, program, name);
    }
    if error.kind() == ErrorKind::InvalidValue {
        return value_tip(error);
    }
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let missing = error.get(ContextKind::InvalidArg);
        let Some(ContextValue::Strings(missing)) = missing else { return None };
        let lacks_keys = missing.iter().any(|it| it == "<KEYS>...");
        if name == "table delete" && lacks_keys && missing.len() == 1 {
            return Some(format!(
                "{} with `--all` deletes every key, and {} the table itself",
                advice::DELETE_RANGE,
                advice::DROP
            ));
        }
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
    if let Some(said) = said(&word, typed.starts_with('.'), name) {
        return Some(said);
    }
    if let Some(tip) = family_tip(program, name, &word) {
        return Some(tip);
    }
    if let Some(own) = program.find_subcommand(&word) {
        return Some(format!("`{PROGRAM} {}` does that here", own.get_name()));
    }
    if name.split(' ').next() == Some("context") {
        return context_tip(program, name, &word);
    }
    let below = |face: &str| {
        let found = program.find_subcommand(face)?.find_subcommand(&word)?;
        Some(format!("`{PROGRAM} {face} {}`", found.get_name()))
    };
    match (below("table"), below("context")) {
        (None, Some(context)) if name.split(' ').next() == Some("table") => {
            Some(format!("{context} does that for a context"))
        }
        (Some(table), Some(context)) => {
            Some(format!("{table} does that here, and {context} does it for a context"))
        }
        (Some(only), None) | (None, Some(only)) => Some(format!("{only} does that here")),
        (None, None) => {
            let known = KNOWN.iter().find(|(words, _)| words.contains(&&*word));
            known
                .map(|(_, command)| known_tip(&word, command))
                .or_else(|| table_tip(typed, store_of))
                .or_else(|| (name.is_empty() && !is_alike(error)).then(|| neither(typed)))
        }
    }
}

/// What the commands below another one are called elsewhere, and here: of each the first that there is.
const KNOWN_OF_FAMILIES: [(&[&str], &[&str]); 4] = [
    (&["list", "ls", "show", "all"], &["list", "status", "info"]),
    (&["check", "verify", "validate", "fsck"], &["check", "verify"]),
    (&["info", "stat", "stats", "describe"], &["summary", "info", "status"]),
    (&["remove", "rm", "delete", "del", "unset"], &["remove", "delete"]),
];

/// The command of the same family that somebody means: behind `context pin`, its own `list` and not that of tables.
fn family_tip(program: &clap::Command, name: &str, word: &str) -> Option<String> {
    // Those of a whole face have words of their own.
    if ["", "table", "context"].contains(&name) {
        return None;
    }
    let family = name.split(' ').try_fold(program, |above, name| above.find_subcommand(name))?;
    let (_, here) = KNOWN_OF_FAMILIES.iter().find(|(words, _)| words.contains(&word))?;
    let own = here.iter().find_map(|name| family.find_subcommand(name))?;
    Some(format!("`{PROGRAM} {name} {}` does that here", own.get_name()))
}

/// The command of contexts that somebody means.
fn context_tip(program: &clap::Command, name: &str, word: &str) -> Option<String> {
    let is_list = ["list", "ls", "show", "info", "log"].contains(&word);
    if name == "context collect" && (is_list || ["stats", "describe"].contains(&word)) {
        return Some(format!("{} does that here", advice::COLLECT_STATUS));
    }
    let own = program.find_subcommand("context").and_then(|face| face.find_subcommand(word));
    if let Some(own) = own {
        return Some(format!("`{PROGRAM} context {}` does that here", own.get_name()));
    }
    let mut known = KNOWN_OF_CONTEXTS.iter().filter(|(words, _)| words.contains(&word));
    if let Some((_, command)) = known.next() {
        return Some(format!("{command} does that here"));
    }
    let of_tables = program.find_subcommand("table").and_then(|face| face.find_subcommand(word));
    of_tables
        .map(|it| format!("`{PROGRAM} table {}` does that for a store of tables", it.get_name()))
}

/// What is said of a word that no command stands for here.
fn said(word: &str, has_dot: bool, name: &str) -> Option<String> {
    let is_of_contexts = name.split(' ').next() == Some("context");
    Some(match word {
        "backup" | "save" | "clone" if !is_of_contexts => format!(
            "{} does that for live tables, and {} for a snapshot",
            with_arguments(advice::BACKUP, "STORE FOLDER"),
            // In a shell the store is known.
            with_arguments(advice::EXPORT, "STORE NAME FOLDER")
        ),
        "mode" | "headers" | "separator" => {
            "`--format` behind a command says how results are printed: table, json, jsonl or csv"
                .to_owned()
        }
        "output" | "once" => {
            "what is printed goes to a file by `> FILE` behind the command".to_owned()
        }
        "read" if has_dot => {
            format!("{} runs the lines of a file: `< FILE` behind it", advice::TABLE_SHELL)
        }
        "begin" | "commit" | "rollback" | "transaction" | "savepoint" => {
            format!("each command is one change: {} takes many keys at once", advice::PUT)
        }
        "quit" | "exit" | "q" => {
            format!("each command ends by itself; {} takes several", advice::TABLE_SHELL)
        }
        "alter" => format!("{} gives a table another name", advice::RENAME),
        _ => return None,
    })
}

/// A command with what stands behind it.
fn with_arguments(command: &str, arguments: &str) -> String {
    format!("{} {arguments}`", command.trim_end_matches('`'))
}

/// What does here what `word` does elsewhere.
fn known_tip(word: &str, command: &str) -> String {
    if PAUSES.contains(&word) {
        return format!(
            "nothing merges between two commands; a union rests where {command} with --most ended"
        );
    }
    if ROOM.contains(&word) {
        return format!(
            "merges give back the room of what was deleted or replaced, paid by later updates: {command} shows them; {} \
             and {} give back that of a snapshot and of a table",
            advice::SNAPSHOT_DELETE,
            advice::DROP
        );
    }
    format!("{command} does that here")
}

/// What to do with a word that is a table of a store at hand.
fn table_tip(word: &str, store_of: impl FnOnce(&str) -> Option<PathBuf>) -> Option<String> {
    let store = advice::typed(&store_of(word)?);
    let word = advice::word(word);
    Some(format!("that is a table: {} lists what is in it, with {store} {word}", advice::SCAN))
}

/// What to do with a word that nothing here is called.
fn neither(word: &str) -> String {
    format!(
        "no command and no path is called so; of a table \"{word}\", {} lists what is in it, behind the folder of its \
         store, and {} takes commands line by line",
        advice::SCAN,
        advice::TABLE_SHELL
    )
}

/// Whether a word that looks alike may be meant.
fn is_alike(error: &clap::Error) -> bool {
    error.get(ContextKind::SuggestedSubcommand).is_some() && !is_far(error)
}

/// Whether no word or flag that looks alike begins as what was typed: "people" is not meant as "explore", nor "--where"
/// as "--before".
pub fn is_far(error: &clap::Error) -> bool {
    let first = |word: &str| word.trim_start_matches('-').chars().next();
    let pairs = [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
    ];
    pairs.into_iter().any(|(typed, alike)| {
        let Some(ContextValue::String(typed)) = error.get(typed) else { return false };
        let alike = match error.get(alike) {
            Some(ContextValue::String(alike)) => vec![alike],
            Some(ContextValue::Strings(alike)) => alike.iter().collect(),
            _ => return false,
        };
        !alike.into_iter().any(|word| first(word) == first(typed))
    })
}
