//! The commands that messages advise, each written once, so that a test can run them all.

use std::path::Path;

use varvite::Error;

/// Names for commands as messages show them, and [`ALL`] of them with arguments that make them whole:
/// a store of tables, a damaged one, a context, one of Irmin, a dump, an empty folder, one that is not there.
macro_rules! advice {
    ($($name:ident = $command:literal, $arguments:literal;)*) => {
        $(
            #[allow(dead_code)] // the engine's messages name some of them by themselves
            pub const $name: &str = concat!("`varvite ", $command, "`");
        )*
        /// Each command, and what a test runs it with.
        #[allow(dead_code)] // for the test that runs them
        pub const ALL: &[(&str, &str)] = &[$(($command, $arguments)),*];
    };
}

advice! {
    BRANCHES = "context branch list", "CONTEXT";
    BACKUP = "backup", "LIVE NEW";
    CHECK = "check", "STORE";
    UNARCHIVE = "context unarchive", "CONTEXT --lower UNDER";
    CONTEXT_CHECK = "context check", "CONTEXT";
    CONTEXT_REBUILD = "context check --rebuild-index", "CONTEXT";
    COLLECT_CANCEL = "context collect cancel", "CONTEXT";
    COLLECT_RESUME = "context collect resume", "CONTEXT";
    COLLECT_RUN = "context collect run", "CONTEXT --keep 1";
    CONTEXT_DUMP = "context dump", "CONTEXT main";
    CONTEXT_GET = "context get", "CONTEXT main a/b";
    CONTEXT_LOG = "context log", "CONTEXT";
    CONTEXT_LS = "context ls", "CONTEXT main a";
    CONTEXT_MIGRATE = "context migrate", "IRMIN NEW";
    EXPORT = "table snapshot export", "STORE kept NEW";
    SNAPSHOT_DELETE = "table snapshot delete", "STORE kept";
    SNAPSHOT_EXPORT = "context snapshot export", "CONTEXT main NEW";
    SNAPSHOT_IMPORT = "context snapshot import", "MOVED NEW";
    SNAPSHOT_INFO = "context snapshot info", "MOVED";
    CREATE = "table create", "NEW t --create";
    DELETE = "table delete", "STORE t k";
    DELETE_RANGE = "table delete-range", "STORE t --all";
    DROP = "table drop", "STORE t";
    RENAME = "table rename", "STORE t other";
    DUMP = "table dump", "STORE t";
    INFO = "info", "STORE";
    INSPECT = "inspect", "STORE/session";
    LIST = "table list", "STORE";
    MERGE_STATUS = "table merge status", "STORE";
    MERGE_FINISH = "table merge finish", "STORE t";
    LOAD = "table load", "STORE loaded DUMP";
    PUT = "table put", "STORE t k v";
    REPAIR = "repair", "STORE NEW";
    REPLAY_BLOCKS = "replay blocks", "BLOCKS";
    SCAN = "table scan", "STORE t";
    TRACE_CONVERT = "trace convert", "CALLS NEW";
    TRACE_INFO = "trace info", "CALLS";
    TRACE_SHOW = "trace show", "ROWS";
    TRACE_SUMMARY = "trace summary", "CALLS";
    CONTEXT_SHELL = "context shell", "CONTEXT";
    CONTEXT_PUT = "context put", "CONTEXT main a/c v";
    CONTEXT_REMOVE = "context remove", "CONTEXT main a/b";
    CONTEXT_LOAD = "context load", "CONTEXT main PATHS";
    COLLECT_STATUS = "context collect status", "CONTEXT";
    COLLECT_PAUSE = "context collect pause", "CONTEXT";
    TABLE_SHELL = "table shell", "STORE";
    RESTORE = "table restore", "STORE kept t --replace";
    RESTORE_LIVE = "table restore --live", "STORE kept t";
}

#[path = "advice/quoting.rs"] // a test takes this file, too
mod quoting;

#[allow(unused_imports)] // the same test needs one of them
pub use quoting::{option, typed, word};

/// One of these commands as it is typed of the store in `folder`.
pub fn of(command: &str, folder: &Path) -> String {
    format!("{} {}`", command.trim_end_matches('`'), typed(folder))
}

/// The command that makes the index of the context in `folder` again, whose old commits may be in `lower`.
pub fn rebuild_index(folder: &Path, lower: Option<&Path>) -> String {
    format!("varvite context check --rebuild-index {}{}", typed(folder), with(lower))
}

/// What is typed behind a command for the folder of the lower layer.
pub fn with(lower: Option<&Path>) -> String {
    lower.map_or(String::new(), |lower| format!(" --lower {}", typed(lower)))
}

/// The line that says how the commits that are whole of the context in `folder` are kept.
pub fn repair_context(folder: &Path, lower: Option<&Path>) -> String {
    let folder = typed(folder);
    format!(
        "varvite repair {folder} OUT{} makes a new store in the folder OUT of the commits that are whole",
        with(lower)
    )
}

/// The line that says how what is whole of the store in `folder` is kept.
pub fn repair(folder: &Path) -> String {
    let folder = typed(folder);
    format!("varvite repair {folder} OUT makes a new store in the folder OUT of what is whole")
}

/// What is advised in place of [`Error::CHECK_ADVICE`] by who has checked.
pub const RESTORE_ADVICE: &str = "restore it from a snapshot or another copy";

/// A finding's sentence without the advice to do what found it.
pub fn told(detail: &str) -> String {
    let told = detail.replace(Error::CHECK_ADVICE, RESTORE_ADVICE);
    told.replace(Error::REPAIR_ADVICE, RESTORE_ADVICE)
}
