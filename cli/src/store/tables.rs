//! Opening stores of tables, and the convention by which `varvite table` finds their state.
//!
//! Where a store has live tables, they are its state: commands read and change those. Elsewhere its
//! state is its snapshots: `varvite table put` and `delete` save the changed state as `head-<n>` with
//! the next number and then remove the head before, so whoever reads finds the head with the highest
//! number whole, whatever happens in between. Such names are the program's own.

use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;

use varvite::disk::os::OsDisk;
use varvite::{
    Error, Kind, Log, MergeOperator, OpenSnapshot, OpenTable, Result, Session, SessionOptions,
    Snapshot, SnapshotInfo, Table, UnknownOperator, Verify,
};

use super::folder::{self, Target};
use crate::advice::{CONTEXT_LOG, PUT, RESTORE, RESTORE_LIVE};
use crate::progress;
use crate::system::volume;
use crate::text::joined;

/// What the heads' names start with.
const HEAD: &str = "head-";
/// What the names of a replay's snapshots start with.
pub const REPLAY: &str = "replay-";

/// Opens the store in `folder` for writing.
pub fn open(folder: &Path, options: SessionOptions) -> Result<Session> {
    let session = Session::open(disk(folder)?, options)?;
    warn_besides(&session, &[]);
    Ok(session)
}

/// Says what there is to say of a store that was opened, or closed since, besides what was told before.
pub fn warn_besides(session: &Session, told: &[String]) {
    progress::warn_of(session.warnings().into_iter().filter(|warning| !told.contains(warning)));
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

/// The same, and where it was made, if it was: only then may it be [removed](remove_new) again.
pub fn open_or_make(folder: &Path, options: SessionOptions) -> Result<(Session, Option<Target>)> {
    let (target, disk) = Target::create(folder)?;
    match Session::create(disk, options.clone()) {
        Ok(session) => Ok((session, Some(target))),
        Err(error) if error.kind() == Kind::Exists => {
            open(folder, options).map(|session| (session, None))
        }
        Err(error) => {
            target.take_back(&error);
            Err(error)
        }
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
pub fn look<T>(open: impl FnMut(Vec<MergeOperator>) -> Result<T>) -> Result<T> {
    with_stand_ins(open, |name| {
        MergeOperator::new(name, |older, newer| {
            progress::warn_at_the_end(JOINED);
            joined::join(older, newer)
        })
    })
}

/// The same of what is passed on as it is: no merge operator is called then, and one that only its program knows
/// refuses to be.
pub fn pass_on<T>(open: impl FnMut(Vec<MergeOperator>) -> Result<T>) -> Result<T> {
    with_stand_ins(open, |name| {
        let refused = foreign(name).to_string();
        MergeOperator::fallible(name, move |_, _| Err(Error::invalid(refused.clone())))
    })
}

/// Why a table is not changed here whose merge operator is not built in.
pub fn foreign(operator: &str) -> Error {
    Error::invalid(format!(
        "only the program of this store knows its merge operator \"{operator}\": let it change the table"
    ))
}

/// Opens snapshot `name`, whose tables are passed on.
pub fn snapshot_to_pass_on(session: &Session, name: &str) -> Result<Snapshot> {
    pass_on(|operators| {
        let options = OpenSnapshot { verify: Verify::Quick, label: None, operators };
        session.open_snapshot(name, &options)
    })
}

/// Opens with `open`, with stand-ins for merge operators that are missing.
fn with_stand_ins<T>(
    mut open: impl FnMut(Vec<MergeOperator>) -> Result<T>,
    stand_in: impl Fn(&str) -> MergeOperator,
) -> Result<T> {
    let mut operators = operators();
    loop {
        let error = match open(operators.clone()) {
            Err(error) if error.kind() == Kind::Invalid => error,
            outcome => return outcome,
        };
        let below = error.source().and_then(|source| source.downcast_ref::<UnknownOperator>());
        match below.map(UnknownOperator::name) {
            Some(name) if operators.iter().all(|known| known.name() != name) => {
                operators.push(stand_in(name));
            }
            _ => return Err(error),
        }
    }
}

/// The head's number when `name` is a head's: exactly as [`head_name`] makes it.
fn head_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(HEAD)?.parse().ok()?;
    // No head comes behind the last number.
    (head_name(number) == name && number < u64::MAX).then_some(number)
}

/// Refuses names for users' snapshots that heads have or could be taken for.
pub fn check_user_name(name: &str) -> Result<()> {
    if is_of_a_replay(name) {
        return Err(Error::invalid(format!(
            "the name {name} is one of those that replays give, and the next one would remove it: choose another name"
        )));
    }
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

/// Whether the state of the store is its live tables: where there are any, or were, which a checkpoint says, or where
/// there could be and nothing else is. Snapshots beside those are what somebody put by.
pub fn is_live(session: &Session) -> Result<bool> {
    let has = |name: &str| Path::new(session.root()).join(name).exists();
    Ok(!session.live_tables()?.is_empty()
        || has("checkpoint")
        || has("log") && session.list_snapshots()?.is_empty())
}

/// The live table `name`, which may be passed on as it is; where there is none, says which snapshot has it.
pub fn live_table(session: &Session, name: &str) -> Result<Table> {
    pass_on(|operators| {
        live_table_with(session, name, &OpenTable { operators, ..OpenTable::default() }, "")
    })
}

fn live_table_with(
    session: &Session,
    name: &str,
    options: &OpenTable,
    besides: &str,
) -> Result<Table> {
    session.open_table(name, options).map_err(|error| match error.kind() {
        Kind::Missing => match restorable(session, name) {
            Ok(Some(advice)) => Error::missing(format!("{error}; {advice}{besides}")),
            _ => error,
        },
        _ => error,
    })
}

/// The same, to look into it only; where a snapshot alone has one, `besides` says how it is read there.
pub fn live_table_to_look(session: &Session, name: &str, besides: &str) -> Result<Table> {
    look(|operators| {
        live_table_with(session, name, &OpenTable { operators, ..OpenTable::default() }, besides)
    })
}

/// All live tables, to pass them on as they are.
pub fn live_tables_to_pass_on(session: &Session) -> Result<Vec<Table>> {
    pass_on(|operators| session.open_all(&OpenTable { operators, ..OpenTable::default() }))
}

/// All live tables, to look into them only.
pub fn live_tables_to_look(session: &Session) -> Result<Vec<Table>> {
    look(|operators| session.open_all(&OpenTable { operators, ..OpenTable::default() }))
}

/// Which snapshots have a table called `name`, and how it becomes live.
pub fn restorable(session: &Session, name: &str) -> Result<Option<String>> {
    restorable_from(session, name, |_| true)
}

/// The same of heads alone: they are no snapshots that somebody put by, but the state before tables were live.
pub fn restorable_from_a_head(session: &Session, name: &str) -> Result<Option<String>> {
    restorable_from(session, name, |snapshot| head_number(snapshot).is_some())
}

fn restorable_from(
    session: &Session,
    name: &str,
    counts: impl Fn(&str) -> bool,
) -> Result<Option<String>> {
    let listed = session.list_snapshots()?.into_iter().filter(|info| counts(&info.name));
    let listed: Vec<_> = listed.collect();
    let with = listed.iter().filter(|info| info.tables.iter().any(|table| table.name == name));
    let names: Vec<_> = with.map(|info| info.name.as_str()).collect();
    // Elsewhere it would be the newest state of a store whose tables are not live.
    let restore = if is_live(session)? { RESTORE } else { RESTORE_LIVE };
    let advice = format!("snapshots have one ({}), and {restore} makes it live", names.join(", "));
    Ok((!names.is_empty()).then_some(advice))
}

/// Removes the store that this process has made as `session` in `target`, and the folders that were made for it, as
/// far as nobody put anything else there. The session keeps others out until it is gone; one that was closed, or whose
/// folder is another's by now, stays.
pub fn remove_new(session: Session, target: Target) {
    volume::look();
    // What went wrong before is what is told, so nothing is said of what cannot be removed.
    let _ = session.discard();
    target.give_up();
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

/// Whether a replay gives such names, as `replay-0000000042`: like those of heads they are the program's own.
fn is_of_a_replay(name: &str) -> bool {
    let digits = name.strip_prefix(REPLAY).unwrap_or_default();
    digits.len() == 10 && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// The snapshot that commands read when none is named: the newest head, or the only snapshot, or the
/// last that a replay saved, where it has saved all. `None` in a store without snapshots.
pub fn current(session: &Session) -> Result<Option<String>> {
    current_or(session, CHOOSE)
}

/// How commands are told which snapshot is meant.
const CHOOSE: &str = "choose one with --snapshot";

/// The same where a command is told `how` which one is meant.
fn current_or(session: &Session, how: &str) -> Result<Option<String>> {
    if let Some((_, name)) = heads(session)?.pop() {
        return Ok(Some(name));
    }
    let mut names: Vec<_> = session.list_snapshots()?.into_iter().map(|info| info.name).collect();
    let are_of_a_replay = names.iter().all(|name| is_of_a_replay(name));
    names.sort_unstable();
    match names.len() {
        0 | 1 => Ok(names.pop()),
        _ if are_of_a_replay => Ok(names.pop()),
        _ => Err(Error::invalid(format!(
            "the store has several snapshots and no head: {how} ({})",
            names.join(", ")
        ))),
    }
}

/// What [`current`] names. A head that a writer replaces in between is looked for again.
pub fn current_info(session: &Session) -> Result<Option<SnapshotInfo>> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Some(name) = current(session)? else { return Ok(None) };
        match info(session, &name) {
            Err(error) if error.kind() == Kind::Missing && attempts < 5 => {}
            outcome => return outcome.map(Some),
        }
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

/// Opens snapshot `name`, or the current one, to save what is in it under another name, as it is.
pub fn read_to_pass_on(session: &Session, name: Option<&str>) -> Result<Snapshot> {
    let open = |name: &str| snapshot_to_pass_on(session, name);
    found(session, name, CHOOSE, open).map(|(_, snapshot)| snapshot)
}

/// Opens snapshot `name`, or the current one. A head that a writer replaces in between is looked
/// for again.
pub fn read(session: &Session, name: Option<&str>, verify: Verify) -> Result<Snapshot> {
    read_named(session, name, verify).map(|(_, snapshot)| snapshot)
}

/// The same in a command that is told `how` which one is meant.
pub fn read_told(session: &Session, name: Option<&str>, how: &str) -> Result<Snapshot> {
    let open = |name: &str| look_into(session, name, Verify::Quick);
    found(session, name, how, open).map(|(_, snapshot)| snapshot)
}

/// The same, and which one it is.
pub fn read_named(
    session: &Session,
    name: Option<&str>,
    verify: Verify,
) -> Result<(String, Snapshot)> {
    found(session, name, CHOOSE, |name| look_into(session, name, verify))
}

fn look_into(session: &Session, name: &str, verify: Verify) -> Result<Snapshot> {
    look(|operators| session.open_snapshot(name, &OpenSnapshot { verify, label: None, operators }))
}

fn found(
    session: &Session,
    name: Option<&str>,
    how: &str,
    open: impl Fn(&str) -> Result<Snapshot>,
) -> Result<(String, Snapshot)> {
    if let Some(name) = name {
        return open(name).map(|snapshot| (name.to_owned(), snapshot));
    }
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Some(name) = current_or(session, how)? else {
            let detail = format!("the store has no snapshot yet: write something with {PUT}");
            return Err(Error::missing(detail));
        };
        match open(&name) {
            Err(error) if error.kind() == Kind::Missing && attempts < 5 => {}
            outcome => return outcome.map(|snapshot| (name, snapshot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use varvite::TableOptions;

    #[test]
    fn heads_are_told_from_other_names() {
        assert_eq!(head_number(&head_name(17)), Some(17));
        assert_eq!(head_number("head-x"), None);
        assert_eq!(head_number("head-17"), None, "no command made it");
        assert_eq!(head_number(&head_name(u64::MAX)), None, "none comes behind it");
        for name in ["head-17", "head-0000000017", "head-99999999999"] {
            assert!(check_user_name(name).is_err(), "{name}");
        }
        for name in ["head", "head-", "head-x", "ahead-1", "head-1a"] {
            check_user_name(name).unwrap();
        }
        assert_eq!(head_number("utxo"), None);
        assert!(is_of_a_replay("replay-0000000042") && !is_of_a_replay("replay-42"));
        assert!(!is_of_a_replay("kept-1700000000"), "what `date` prints is a user's");
        assert!(check_user_name("replay-0000000042").is_err());
        check_user_name("replay-before").unwrap();
    }

    #[test]
    fn a_store_that_is_given_up_goes_with_the_folders_that_were_made_for_it() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("above/store");
        let (session, target) = open_or_make(&folder, logged()).unwrap();
        session.create_table("t", TableOptions::default()).unwrap();
        remove_new(session, target.unwrap());
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    }

    /// Its lock is let go with it, so another command may have changed it since.
    #[test]
    fn a_store_that_was_closed_is_not_given_up() {
        let temporary = tempfile::tempdir().unwrap();
        let (session, target) = open_or_make(temporary.path(), logged()).unwrap();
        let handle = session.clone();
        session.close().unwrap();
        let other = open(temporary.path(), logged()).unwrap();
        other.create_table("t", TableOptions::default()).unwrap();
        other.close().unwrap();
        remove_new(handle, target.unwrap());
        let session = open(temporary.path(), logged()).unwrap();
        assert_eq!(session.live_tables().unwrap(), ["t"]);
    }
}
