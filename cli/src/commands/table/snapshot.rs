//! `varvite table snapshot`: the durable states of a store.

mod transfer;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use varvite::{
    Error, Kind, SessionOptions, Snapshot, SnapshotContent, SnapshotInfo, Table, Verify,
};

use super::super::check;
use super::change::LABEL;
use crate::advice::{self, DROP, RESTORE};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format, records};
use crate::store::tables;
use crate::text::{self, Notation};
use crate::wheel;

/// Bytes of a payload that `info` shows.
const PAYLOAD_SHOWN: usize = 400;

/// List, describe, make, remove, verify, export and import snapshots
#[derive(Debug, Subcommand)]
pub enum Command {
    List(List),
    Info(Info),
    Create(Create),
    /// Delete a snapshot, and from disk what only it needs
    Delete(Named),
    /// Read every byte that a snapshot needs; exit code 3 when something is damaged
    Verify(Named),
    Export(transfer::Export),
    Import(transfer::Import),
}

/// List the snapshots of a store
#[derive(Debug, Args)]
pub struct List {
    /// Folder of the store
    store: PathBuf,
}

/// What `info`, `delete` and `verify` take
#[derive(Debug, Args)]
pub struct Named {
    /// Folder of the store
    store: PathBuf,
    /// Name of the snapshot
    name: String,
}

/// Describe a snapshot: its label, tables, sizes and payload
#[derive(Debug, Args)]
pub struct Info {
    #[command(flatten)]
    named: Named,
    /// Print the bytes of the payload as they are, and nothing else
    #[arg(long)]
    raw: bool,
}

/// Save the current state, or another snapshot's, under a further name
#[derive(Debug, Args)]
pub struct Create {
    /// Folder of the store
    store: PathBuf,
    /// Name of the new snapshot
    name: String,
    /// Copy this snapshot [default: the live tables, or without any the newest head or only snapshot]
    #[arg(long, value_name = "NAME", visible_alias = "snapshot")]
    from: Option<String>,
    /// Save the live tables, all of one moment; without --from this is so where there are any
    #[arg(long, conflicts_with = "from")]
    live: bool,
    /// Its label [default: that of the snapshot copied]
    #[arg(long)]
    label: Option<String>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    label: String,
    payload_bytes: u64,
    disk_bytes: u64,
    tables: Vec<TableRow>,
    damage: Option<String>,
}

#[derive(Serialize)]
struct TableRow {
    name: String,
    physical_entries: u64,
    disk_bytes: u64,
    operator: Option<String>,
}

impl From<&SnapshotInfo> for Row {
    fn from(info: &SnapshotInfo) -> Self {
        let tables = info.tables.iter().map(|table| TableRow {
            name: table.name.clone(),
            physical_entries: table.physical_entries,
            disk_bytes: table.disk_bytes,
            operator: table.operator.clone(),
        });
        Row {
            name: info.name.clone(),
            label: info.label.clone(),
            payload_bytes: info.payload_bytes,
            disk_bytes: info.disk_bytes,
            tables: tables.collect(),
            damage: info.damage.clone(),
        }
    }
}

/// Runs what `command` names.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::List(arguments) => list(&arguments, format),
        Command::Info(arguments) => info(&arguments, format),
        Command::Create(arguments) => create(&arguments, format),
        Command::Delete(arguments) => delete(&arguments, format),
        Command::Verify(arguments) => verify(&arguments, format),
        Command::Export(arguments) => transfer::export(&arguments, format),
        Command::Import(arguments) => transfer::import(&arguments, format),
    }
}

fn list(arguments: &List, format: Format) -> Outcome {
    let session = tables::open_read_only(&arguments.store, SessionOptions::default())?;
    let snapshots = session.list_snapshots()?;
    let sound = snapshots.iter().all(|info| info.damage.is_none());
    let verdict = Verdict::sound(sound);
    records::columns(&["name", "label", "payload_bytes", "disk_bytes", "tables", "damage"])?;
    match format {
        Format::Json => print::json(&snapshots.iter().map(Row::from).collect::<Vec<_>>())?,
        Format::Table => {
            let mut table = print::table(&["name", "label", "tables", ">payload", ">on disk"]);
            for info in &snapshots {
                let names: Vec<_> = info.tables.iter().map(|table| table.name.as_str()).collect();
                table.add_row(vec![
                    info.name.clone(),
                    info.damage.as_ref().map_or(info.label.clone(), |_| "DAMAGED".to_owned()),
                    names.join(", "),
                    print::bytes(info.payload_bytes),
                    print::bytes(info.disk_bytes),
                ]);
            }
            print::line(&table.to_string())?;
            for info in &snapshots {
                if let Some(damage) = &info.damage {
                    print::line(&format!("{}: {damage}", info.name))?;
                }
            }
        }
    }
    Ok(verdict)
}

fn info(info: &Info, format: Format) -> Outcome {
    let (arguments, is_raw) = (&info.named, info.raw);
    let session = tables::open_read_only(&arguments.store, SessionOptions::default())?;
    let info = tables::info(&session, &arguments.name)?;
    let options = tables::options_to_look(Verify::Quick, &info);
    let snapshot = session.open_snapshot(&arguments.name, &options)?;
    if is_raw {
        print::out().write_all(&snapshot.payload)?;
        return Ok(Verdict::Yes);
    }
    let shown = &snapshot.payload[..snapshot.payload.len().min(PAYLOAD_SHOWN)];
    match format {
        Format::Json => {
            let mut value = serde_json::to_value(Row::from(&info)).map_err(std::io::Error::from)?;
            text::put(&mut value, "payload", Notation::Text, &snapshot.payload);
            print::json(&value)?;
        }
        Format::Table => {
            let mut rows = vec![
                ("name", info.name.clone()),
                ("label", info.label.clone()),
                ("on disk, shared segments included", print::bytes(info.disk_bytes)),
            ];
            for table in &info.tables {
                let operator = table.operator.as_ref();
                let operator = operator.map_or(String::new(), |name| format!(", operator {name}"));
                let entries = print::counted(table.physical_entries, "entry", "entries");
                let bytes = print::bytes(table.disk_bytes);
                rows.push(("table", format!("{}: {entries}, {bytes}{operator}", table.name)));
            }
            let more = if shown.len() < snapshot.payload.len() { "…" } else { "" };
            rows.push(("payload", format!("{}{more}", Notation::Text.show(shown))));
            print::line(&print::record(&rows).to_string())?;
        }
    }
    Ok(Verdict::Yes)
}

fn create(arguments: &Create, format: Format) -> Outcome {
    tables::check_user_name(&arguments.name)?;
    let is_live = arguments.live
        || arguments.from.is_none() && {
            let options = SessionOptions::default();
            tables::is_live(&tables::open_read_only(&arguments.store, options)?)?
        };
    create_of(arguments, is_live, format)
}

/// The same of a store that had live tables to save, or none, when nobody was kept from changing that.
fn create_of(arguments: &Create, is_live: bool, format: Format) -> Outcome {
    let options = if is_live { tables::logged() } else { SessionOptions::default() };
    let session = tables::open(&arguments.store, options)?;
    if !is_live && arguments.from.is_none() && tables::is_live(&session)? {
        // Another process has made a table live since: that is the state to save.
        session.close()?;
        return create_of(arguments, true, format);
    }
    let source = if is_live {
        let tables = tables::live_tables_to_pass_on(&session)?;
        if tables.is_empty() {
            let detail = format!("{} has no live tables to save", arguments.store.display());
            return Err(Error::missing(detail).into());
        }
        Snapshot { label: LABEL.to_owned(), payload: Vec::new(), tables }
    } else {
        tables::read_to_pass_on(&session, arguments.from.as_deref())?
    };
    let tables: Vec<&Table> = source.tables.iter().collect();
    let label = arguments.label.as_deref().unwrap_or(&source.label);
    let content = SnapshotContent { label, payload: &source.payload, tables: &tables };
    wheel::during("saving", || session.save_snapshot(&arguments.name, content))?;
    drop(source);
    session.close()?;
    done(&arguments.name, "saved", format)
}

fn delete(arguments: &Named, format: Format) -> Outcome {
    let session = tables::open(&arguments.store, SessionOptions::default())?;
    let newest = tables::heads(&session)?.pop().map(|(_, name)| name);
    let is_state = newest.as_ref() == Some(&arguments.name) && !tables::is_live(&session)?;
    // Of one that is damaged nothing can be taken over, and those before it are hidden by it.
    let is_whole = || match tables::snapshot_to_pass_on(&session, &arguments.name) {
        Err(error) => !matches!(error.kind(), Kind::Corrupt | Kind::Missing),
        Ok(_) => true,
    };
    if is_state && is_whole() {
        session.close()?;
        return Err(Error::invalid(format!(
            "{} is the newest state of the store, which would be gone: {DROP} drops a table of it, and {RESTORE} takes \
             tables of another snapshot back",
            arguments.name
        ))
        .into());
    }
    session.delete_snapshot(&arguments.name)?;
    session.close()?;
    done(&arguments.name, "deleted", format)
}

fn verify(arguments: &Named, format: Format) -> Outcome {
    let session = tables::open_read_only(&arguments.store, SessionOptions::default())?;
    let name = &arguments.name;
    match tables::info(&session, name) {
        // What else of it is damaged is told with that.
        Err(error) if error.kind() != Kind::Corrupt => return Err(error.into()),
        _ => {}
    }
    drop(session);
    let findings =
        wheel::during("reading every byte", || check::of_snapshot(&arguments.store, name))?;
    let is_sound = findings.is_empty();
    let outcome = match findings.len() {
        0 => "sound".to_owned(),
        count => print::counted(count as u64, "finding", "findings"),
    };
    match format {
        Format::Json => print::json(&serde_json::json!({
            "snapshot": name, "outcome": outcome, "sound": is_sound, "findings": findings,
        }))?,
        Format::Table => {
            findings.iter().try_for_each(check::Finding::show)?;
            print::line(&format!("snapshot {name}: {outcome}"))?;
            if !is_sound {
                print::line(&advice::repair(&arguments.store))?;
            }
        }
    }
    Ok(Verdict::sound(is_sound))
}

fn done(name: &str, what: &str, format: Format) -> Outcome {
    match format {
        Format::Json => print::json(&serde_json::json!({ "snapshot": name, "outcome": what }))?,
        Format::Table => print::line(&format!("snapshot {name}: {what}"))?,
    }
    Ok(Verdict::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::change::{Change, Making};

    #[test]
    fn what_becomes_live_before_the_lock_is_taken_is_what_is_saved() {
        let temporary = tempfile::tempdir().unwrap();
        let store = temporary.path().join("s");
        for (table, create, live) in [("t", true, false), ("u", false, true)] {
            let making = Making { create, live, ..Making::default() };
            let mut change = Change::making(&store, &making).unwrap();
            change.table(table, None, None).unwrap();
            change.save().unwrap();
        }
        let (name, from, label) = ("keep".to_owned(), None, None);
        let arguments = Create { store: store.clone(), name, from, live: false, label };
        // It looked before `u` was there.
        create_of(&arguments, false, Format::Table).unwrap();
        let session = tables::open_read_only(&store, SessionOptions::default()).unwrap();
        let saved = tables::info(&session, "keep").unwrap().tables;
        assert_eq!(saved.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["u"]);
    }
}
