//! Opening stores of tables, and the convention by which `varvite table` finds their state.
//!
//! Where a store has live tables, they are its state: commands read and change those. Elsewhere its
//! state is its snapshots: `varvite table put` and `delete` save the changed state as `head-<n>` with
//! the next number and then remove the head before, so whoever reads finds the head with the highest
//! number whole, whatever happens in between. Such names are the program's own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use varvite::disk::os::OsDisk;
use varvite::{
    Error, Kind, Log, MergeOperator, OpenSnapshot, OpenTable, Result, Session, SessionOptions,
    Snapshot, SnapshotInfo, Table, Verify,
};

use super::folder;
use crate::advice::{CONTEXT_LOG, PUT, RESTORE};
use crate::progress;
use crate::text::joined;

/// What the heads' names start with.
const HEAD: &str = "head-";

/// Opens the store in `folder` for writing.
pub fn open(folder: &Path, options: SessionOptions) -> Result<Session> {
    let session = Session::open(disk(folder)?, options)?;
    for warning in session.warnings().into_iter().filter(|_| !progress::is_quiet()) {
        complain!("warning: {warning}");
    }
    Ok(session)
}

/// Opens the snapshots of the store in `folder`, which another process may be writing to.
pub fn open_read_only(folder: &Path, options: SessionOptions) -> Result<Session> {
    Session::open_read_only(disk(folder)?, options)
}

/// Makes a store in `folder`, which may be there already but must be empty.
pub fn create(folder: &Path, options: SessionOptions) -> Result<Session> {
    Session::create(OsDisk::create(folder)?, options).map_err(|error| holds_already(folder, error))
}

/// What to do when `folder` cannot become a store because it is one.
pub fn holds_already(folder: &Path, error: Error) -> Error {
    match error.kind() {
        Kind::Exists => Error::new(
            Kind::Exists,
            format!("{} holds a store already: choose an empty folder", folder.display()),
        ),
        _ => error,
    }
}

/// Makes a store in `folder`, or takes the one that a command left there that was stopped. `Exists` when it holds
/// anything.
pub fn create_or_take(folder: &Path, options: SessionOptions) -> Result<Session> {
    let session = open_or_create(folder, options)?;
    let snapshot = session.list_snapshots()?.into_iter().next();
    let held = match (snapshot, session.live_tables()?.into_iter().next()) {
        (Some(snapshot), _) => format!("snapshot \"{}\"", snapshot.name),
        (None, Some(table)) => format!("live table \"{table}\""),
        (None, None) => return Ok(session),
    };
    let detail = format!("{} holds {held} already: choose an empty folder", folder.display());
    Err(Error::new(Kind::Exists, detail))
}

/// What to do besides when a store that could be made is missing.
pub fn or_create(error: Error) -> Error {
    match error.kind() {
        Kind::Missing => Error::missing(format!("{error}; --create makes a store")),
        _ => error,
    }
}

/// Opens the store in `folder`, or makes one when the folder is missing or empty. What a creation
/// that was cut short has left counts as empty.
pub fn open_or_create(folder: &Path, options: SessionOptions) -> Result<Session> {
    open_or_make(folder, options).map(|(session, _)| session)
}

/// The same, and whether it was made here: only then may it be removed again.
pub fn open_or_make(folder: &Path, options: SessionOptions) -> Result<(Session, bool)> {
    match create(folder, options.clone()) {
        Err(error) if error.kind() == Kind::Exists => {
            open(folder, options).map(|session| (session, false))
        }
        outcome => outcome.map(|session| (session, true)),
    }
}

/// The folder of a store of tables as a disk; `Invalid` when it is a context's.
pub fn disk(folder: &Path) -> Result<Arc<OsDisk>> {
    let disk = folder::disk(folder)?;
    if folder::is_context(folder) {
        return Err(Error::invalid(format!(
            "{} holds a context, not tables: look into it with {CONTEXT_LOG}",
            folder.display()
        )));
    }
    Ok(disk)
}

/// The operators that every command knows by name.
pub fn operators() -> Vec<MergeOperator> {
    vec![MergeOperator::add_u64(), MergeOperator::max(), MergeOperator::append()]
}

/// How the commands open a snapshot: any label, built-in operators.
pub fn options(verify: Verify) -> OpenSnapshot {
    OpenSnapshot { verify, label: None, operators: operators() }
}

/// How a snapshot is opened that is only described or verified: an operator that its program alone
/// knows is not called then, so one stands in for it.
pub fn options_to_look(verify: Verify, info: &SnapshotInfo) -> OpenSnapshot {
    let mut operators = operators();
    for name in info.tables.iter().filter_map(|table| table.operator.as_deref()) {
        if operators.iter().all(|known| known.name() != name) {
            operators.push(MergeOperator::new(name, |older, _| older.to_vec()));
        }
    }
    OpenSnapshot { verify, label: None, operators }
}

/// What is said when a stand-in has joined values.
const JOINED: &str = "only the program of this store knows its merge operator: values that upserts have yet to be \
                      joined to are shown with them, oldest first, with \\+ in between";

/// Opens with `open` what is only read, also where a merge operator is missing that only its program knows:
/// values and the upserts that wait for it are then kept apart, oldest first, and shown so.
pub fn look<T>(mut open: impl FnMut(Vec<MergeOperator>) -> Result<T>) -> Result<T> {
    let mut operators = operators();
    loop {
        let error = match open(operators.clone()) {
            Err(error) if error.kind() == Kind::Invalid => error,
            outcome => return outcome,
        };
        // The message is the only place that names it before the table is open.
        let name = error.detail().split("made with the merge operator \"").nth(1);
        match name.and_then(|rest| rest.split('"').next()) {
            Some(name) if operators.iter().all(|known| known.name() != name) => {
                operators.push(MergeOperator::new(name, |older, newer| {
                    progress::warn_at_the_end(JOINED);
                    joined::join(older, newer)
                }));
            }
            _ => return Err(error),
        }
    }
}

/// The head's number when `name` is a head's: exactly as [`head_name`] makes it.
fn head_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(HEAD)?.parse().ok()?;
    (head_name(number) == name).then_some(number)
}

/// Refuses names for users' snapshots that heads have or could be taken for.
pub fn check_user_name(name: &str) -> Result<()> {
    let digits = name.strip_prefix(HEAD).unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the name {name} is one of those that changes give the newest state, and the next change would \
         remove it: choose another name"
    )))
}

/// How a store is opened to change its live tables: what is changed is durable when the command ends.
pub fn logged() -> SessionOptions {
    SessionOptions { log: Log::Synced, ..SessionOptions::default() }
}

/// How live tables are opened: built-in operators.
pub fn live_options() -> OpenTable {
    OpenTable { operators: operators(), ..OpenTable::default() }
}

/// Whether the state of the store is its live tables: where there are any, or were, which a checkpoint says, or where
/// there could be and nothing else is. Snapshots beside those are what somebody put by.
pub fn is_live(session: &Session) -> Result<bool> {
    let has = |name: &str| Path::new(session.root()).join(name).exists();
    Ok(!session.live_tables()?.is_empty()
        || has("checkpoint")
        || has("log") && session.list_snapshots()?.is_empty())
}

/// The live table `name`; where there is none, says which snapshot has it.
pub fn live_table(session: &Session, name: &str) -> Result<Table> {
    live_table_with(session, name, &live_options())
}

fn live_table_with(session: &Session, name: &str, options: &OpenTable) -> Result<Table> {
    session.open_table(name, options).map_err(|error| match error.kind() {
        Kind::Missing => match restorable(session, name) {
            Ok(Some(advice)) => Error::missing(format!("{error}; {advice}")),
            _ => error,
        },
        _ => error,
    })
}

/// The same, to look into it only.
pub fn live_table_to_look(session: &Session, name: &str) -> Result<Table> {
    look(|operators| {
        live_table_with(session, name, &OpenTable { operators, ..OpenTable::default() })
    })
}

/// All live tables, to look into them only.
pub fn live_tables_to_look(session: &Session) -> Result<Vec<Table>> {
    look(|operators| session.open_all(&OpenTable { operators, ..OpenTable::default() }))
}

/// Which snapshots have a table called `name`, and how it becomes live.
pub fn restorable(session: &Session, name: &str) -> Result<Option<String>> {
    let listed = session.list_snapshots()?;
    let with = listed.iter().filter(|info| info.tables.iter().any(|table| table.name == name));
    let names: Vec<_> = with.map(|info| info.name.as_str()).collect();
    let advice = format!(
        "snapshots have one ({}), which --snapshot reads and {RESTORE} makes live",
        names.join(", ")
    );
    Ok((!names.is_empty()).then_some(advice))
}

/// Removes the store that this process has made as `session`, and its folder if that `is_new`, as far as nobody put
/// anything else there. The session keeps others out until it is gone.
pub fn remove_new(session: Session, folder: &Path, is_new: bool) {
    for file in ["session", "checkpoint"] {
        let _ = fs::remove_file(folder.join(file));
    }
    for inside in ["segments", "snapshots", "log"] {
        let inside = folder.join(inside);
        for entry in fs::read_dir(&inside).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(inside);
    }
    // Until then nobody else makes one here.
    let _ = fs::remove_file(folder.join("lock"));
    drop(session);
    if is_new {
        let _ = fs::remove_dir(folder);
    }
}

/// The name of head `number`; zeros keep the list in order.
pub fn head_name(number: u64) -> String {
    format!("{HEAD}{number:010}")
}

/// The names of all heads, oldest first, with their numbers.
pub fn heads(session: &Session) -> Result<Vec<(u64, String)>> {
    let snapshots = session.list_snapshots()?;
    let mut heads: Vec<_> = snapshots
        .into_iter()
        .filter_map(|snapshot| head_number(&snapshot.name).map(|number| (number, snapshot.name)))
        .collect();
    heads.sort_unstable();
    Ok(heads)
}

/// What a name like `replay-0000000042` is numbered under.
fn series(name: &str) -> Option<&str> {
    let (series, number) = name.rsplit_once('-')?;
    (number.len() == 10 && number.bytes().all(|digit| digit.is_ascii_digit())).then_some(series)
}

/// The snapshot that commands read when none is named: the newest head, or the only snapshot, or the
/// last of the only series, as a replay leaves one. `None` in a store without snapshots.
pub fn current(session: &Session) -> Result<Option<String>> {
    if let Some((_, name)) = heads(session)?.pop() {
        return Ok(Some(name));
    }
    let mut names: Vec<_> = session.list_snapshots()?.into_iter().map(|info| info.name).collect();
    let one_series =
        names.iter().all(|name| series(name).is_some() && series(name) == series(&names[0]));
    names.sort_unstable();
    match names.len() {
        0 | 1 => Ok(names.pop()),
        _ if one_series => Ok(names.pop()),
        _ => Err(Error::invalid(format!(
            "the store has several snapshots and no head: choose one with --snapshot ({})",
            names.join(", ")
        ))),
    }
}

/// What the manifest of snapshot `name` says. It needs no merge operator, as opening would. `Missing`,
/// and `Corrupt` when the manifest is damaged.
pub fn info(session: &Session, name: &str) -> Result<SnapshotInfo> {
    let listed = session.list_snapshots()?;
    let names: Vec<_> = listed.iter().map(|info| info.name.as_str()).collect();
    let missing = || {
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Error::missing(format!("there is no snapshot \"{name}\"; there are: {there}"))
    };
    let info = listed.iter().find(|info| info.name == name).ok_or_else(missing)?;
    match &info.damage {
        Some(damage) => Err(Error::new(Kind::Corrupt, damage.clone())),
        None => Ok(info.clone()),
    }
}

/// Opens snapshot `name`, or the current one, to write what is in it elsewhere: with its true operators.
pub fn read_to_change(session: &Session, name: Option<&str>) -> Result<Snapshot> {
    let found = read(session, name, Verify::Quick)?;
    for operator in found.tables.iter().filter_map(|table| table.options().operator.as_ref()) {
        let name = operator.name();
        if MergeOperator::built_in(name).is_none() {
            return Err(Error::invalid(format!(
                "only the program of this store knows its merge operator \"{name}\": let it save the snapshot"
            )));
        }
    }
    Ok(found)
}

/// Opens snapshot `name`, or the current one. A head that a writer replaces in between is looked
/// for again.
pub fn read(session: &Session, name: Option<&str>, verify: Verify) -> Result<Snapshot> {
    let open = |name: &str| {
        look(|operators| {
            session.open_snapshot(name, &OpenSnapshot { verify, label: None, operators })
        })
    };
    if let Some(name) = name {
        return open(name);
    }
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Some(name) = current(session)? else {
            let detail = format!("the store has no snapshot yet: write something with {PUT}");
            return Err(Error::missing(detail));
        };
        match open(&name) {
            Err(error) if error.kind() == Kind::Missing && attempts < 5 => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_told_from_other_names() {
        assert_eq!(head_number(&head_name(17)), Some(17));
        assert_eq!(head_number("head-x"), None);
        assert_eq!(head_number("head-17"), None, "no command made it");
        for name in ["head-17", "head-0000000017", "head-99999999999"] {
            assert!(check_user_name(name).is_err(), "{name}");
        }
        for name in ["head", "head-", "head-x", "ahead-1", "head-1a"] {
            check_user_name(name).unwrap();
        }
        assert_eq!(head_number("utxo"), None);
        assert_eq!(series("replay-0000000042"), Some("replay"));
        assert_eq!(series("before-42"), None);
    }
}
